"""Re-identification risk: how likely a record of the published table is traced to its person, by class sizes alone."""

from collections.abc import Iterator

import numpy as np

from microcell.errors import OptionError
from microcell.model import Integers, Measure

__all__ = ["measure_risk"]


def measure_risk(sizes: Integers, k_required: int | None = None, population: int | None = None) -> tuple[Measure, ...]:
    """Risks by class sizes n_c, n records in all: 1 / min n_c at worst, classes / n on average; none without records.

    A prosecutor knows that a person is in the table and picks a record of the person's class: right with probability
    1 / n_c. A marketer picks for everyone, and is right for classes / n of the records. A journalist knows only that
    the person is in a population of N, of which the release is taken to be a proportional sample: classes of
    n_c N / n are expected there, so that the risk is n / (N n_c) (El Emam and Dankar 2008). O(classes).

    Parameters
    ----------
    k_required
        The k that was asked for, for ``records_below_2k``; otherwise the smallest class size.
    population
        The number N of people that the released records were sampled from; without it nothing is said of journalists.

    Raises
    ------
    OptionError
        A k below 1, or a population that is no whole number or is smaller than the release.

    Examples
    --------
    >>> for found in measure_risk(np.array([2, 2, 4]), population=80):
    ...     print(found.name, found.value)
    records_below_2k 0.5
    prosecutor_worst 0.5
    prosecutor_average 0.375
    marketer 0.375
    journalist_worst 0.05
    journalist_average 0.0375
    """
    sizes = sizes[sizes > 0]
    records = int(sizes.sum())
    _check_options(records, k_required, population)
    if not records:
        return ()
    smallest = int(sizes.min()) if k_required is None else k_required
    journalist = () if population is None else _against_population(sizes, records, population)
    return (_below_twice(sizes, records, smallest), *_within_release(sizes, records), *journalist)


def _check_options(records: int, k_required: int | None, population: int | None) -> None:
    if k_required is not None and k_required < 1:
        raise OptionError(f"k_required must be 1 or more, not {k_required}.")
    if population is not None and (isinstance(population, bool) or not isinstance(population, (int, np.integer))):
        raise OptionError(f"population must be a whole number of people, not a {type(population).__name__}.")
    if population is not None and population < records:
        raise OptionError(
            f"population must be at least the {records} records released, not {population}: it counts the people that "
            "they were sampled from. Leave it out if the release is no sample."
        )


def _below_twice(sizes: Integers, records: int, k: int) -> Measure:
    share = int(sizes[sizes < 2 * k].sum()) / records
    meaning = f"Share of records in classes of fewer than {2 * k} records, twice k = {k}: the least hidden ones."
    return Measure("records_below_2k", share, "share", True, meaning)


def _within_release(sizes: Integers, records: int) -> Iterator[Measure]:
    average = len(sizes) / records
    yield Measure(
        "prosecutor_worst",
        1 / int(sizes.min()),
        "probability",
        True,
        "Probability of picking a person's own record, knowing that it is in the release, in the smallest class.",
    )
    yield Measure(
        "prosecutor_average",
        average,
        "probability",
        True,
        "Probability of picking a person's own record, knowing that it is in the release, on average over records.",
    )
    yield Measure(
        "marketer",
        average,
        "share",
        True,
        "Share of the records expected to be traced to the right person by who tries it for all of them.",
    )


def _against_population(sizes: Integers, records: int, population: int) -> Iterator[Measure]:
    sampled = f"if the release is a proportional sample of {population} people"
    yield Measure(
        "journalist_worst",
        records / (population * int(sizes.min())),
        "probability",
        True,
        f"Probability that a record of the smallest class is traced to its person in the population, {sampled}.",
    )
    yield Measure(
        "journalist_average",
        len(sizes) / population,
        "probability",
        True,
        f"Probability that a record is traced to its person in the population, on average over records, {sampled}.",
    )
