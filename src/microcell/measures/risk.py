"""Re-identification risk from class sizes.

With classes of n_c people, n in total: a prosecutor knows that a person is in the release
and picks one of the person's class, correctly with probability 1 / n_c. A marketer does so for
everyone and is right for a share of classes / n. A journalist only knows that the person is in a
population of N people, of which the release is a proportional sample. The expected class in the
population has n_c N / n people, so the risk is n / (N n_c) (El Emam and Dankar 2008). Every record
is a person unless the schema names a person column; a person with records in several classes then
counts once in each.
"""

from typing import Protocol

import numpy as np

from microcell.errors import OptionError
from microcell.kernels.arrays import Floats, Integers
from microcell.measures.registry import Value, measure

__all__ = ["HasClassSizes", "check_population"]


class HasClassSizes(Protocol):
    """Interface that the measures of this module require."""

    @property
    def class_sizes(self) -> Integers:
        """Number of records in each class, all positive."""

    @property
    def class_people(self) -> Integers:
        """Number of people in each class, all positive."""

    @property
    def rows_original(self) -> int:
        """Number of records in the original."""

    @property
    def population(self) -> int | None:
        """Size of the population that the release was sampled from."""


def check_population(population: object, people: int) -> None:
    """Raise OptionError unless ``population`` is a whole number of at least ``people``."""
    if population is None:
        return
    if isinstance(population, bool) or not isinstance(population, (int, np.integer)):
        raise OptionError(
            f"population must be a whole number of people, not {type(population).__name__}.",
            code="option.wrong_type",
            option="population",
        )
    if population < people:
        raise OptionError(
            f"population is {population} but must be at least {people}, the number of people in "
            "the release. Pass the size of the population that they were sampled from, or omit it.",
            code="option.out_of_range",
            option="population",
        )


@measure(
    "k",
    label="k",
    unit="records",
    lower_is_better=False,
    section="anonymity",
    per_class="worst",
    if_empty=0,
    exact=True,
    sizes_only=True,
    counts_people=True,
    meaning="Smallest number of people who share the same published quasi-identifiers (of records, "
    "unless the schema names a person column). Anyone looking for a person finds at least this "
    "many and cannot tell which is theirs. A missing value counts as a value.",
    headline="Every combination of quasi-identifiers is shared by at least this many people.",
)
def k(class_people: Integers) -> Integers:
    return class_people


@measure(
    "classes",
    label="Classes",
    unit="classes",
    lower_is_better=False,
    section="anonymity",
    exact=True,
    sizes_only=True,
    meaning="Number of equivalence classes: distinct combinations of published quasi-identifiers "
    "and strata.",
)
def classes(evidence: HasClassSizes) -> float:
    return len(evidence.class_sizes)


@measure(
    "records",
    label="Records",
    unit="records",
    lower_is_better=False,
    section="anonymity",
    exact=True,
    sizes_only=True,
    meaning="Number of published records.",
)
def records(evidence: HasClassSizes) -> float:
    return int(evidence.class_sizes.sum())


@measure(
    "records_dropped",
    label="Records dropped",
    unit="records",
    section="anonymity",
    exact=True,
    sizes_only=True,
    meaning="Number of original records that are not published.",
)
def records_dropped(evidence: HasClassSizes) -> float:
    return max(0, evidence.rows_original - int(evidence.class_sizes.sum()))


@measure(
    "records_below_2k",
    label="People in small classes",
    unit="share",
    section="anonymity",
    exact=True,
    sizes_only=True,
    meaning="Share of people in classes smaller than 2k, where k is the smallest class size. "
    "They are the least protected.",
)
def records_below_2k(evidence: HasClassSizes) -> float | None:
    sizes = evidence.class_people
    if not len(sizes):
        return None
    return int(sizes[sizes < 2 * sizes.min()].sum()) / int(sizes.sum())


@measure(
    "prosecutor_worst",
    label="Highest re-identification risk",
    unit="probability",
    section="anonymity",
    per_class="worst",
    exact=True,
    sizes_only=True,
    meaning="Probability of picking a person's record at random from the smallest class, for "
    "someone who knows that the person is in the release (prosecutor risk).",
    headline="Probability of guessing a person's record in the smallest class.",
)
def prosecutor_worst(class_people: Integers) -> Floats:
    return 1 / class_people


@measure(
    "prosecutor_average",
    label="Average re-identification risk",
    unit="probability",
    section="anonymity",
    exact=True,
    sizes_only=True,
    meaning="Probability of picking a person's record at random from their class, averaged over "
    "everyone: the number of classes divided by the number of people.",
    headline="Probability of guessing a person's record, averaged over everyone.",
)
def prosecutor_average(evidence: HasClassSizes) -> float | None:
    sizes = evidence.class_people
    return len(sizes) / int(sizes.sum()) if len(sizes) else None


@measure(
    "marketer",
    label="Re-identification of everyone",
    unit="share",
    section="anonymity",
    exact=True,
    sizes_only=True,
    meaning="Expected share of people matched correctly by someone who tries to re-identify all of "
    "them (marketer risk).",
)
def marketer(evidence: HasClassSizes) -> float | None:
    return prosecutor_average(evidence)


@measure(
    "journalist_worst",
    label="Highest risk in the population",
    unit="probability",
    section="anonymity",
    needs="population",
    exact=True,
    meaning="Probability of tracing a record of the smallest class to its person in the population "
    "that the release was sampled from (journalist risk).",
    headline="Probability of tracing a record of the smallest class in the population.",
)
def journalist_worst(evidence: HasClassSizes) -> Value | None:
    sizes, population = evidence.class_people, evidence.population
    if not len(sizes) or population is None:
        return None
    risk = int(sizes.sum()) / (population * int(sizes.min()))
    return Value(risk, _sampling_assumption(population))


@measure(
    "journalist_average",
    label="Average risk in the population",
    unit="probability",
    section="anonymity",
    needs="population",
    exact=True,
    meaning="Probability of tracing a record to its person in the population that the release was "
    "sampled from, averaged over all records.",
)
def journalist_average(evidence: HasClassSizes) -> Value | None:
    if not len(evidence.class_people) or evidence.population is None:
        return None
    risk = len(evidence.class_people) / evidence.population
    return Value(risk, _sampling_assumption(evidence.population))


def _sampling_assumption(population: int) -> str:
    return f"Assumes that the release is a proportional sample of {population:,} people."
