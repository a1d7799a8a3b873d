"""The risk of a single table as it stands, without an original."""

from itertools import accumulate

import numpy as np

from microcell.errors import DataError
from microcell.findings import Case, find_all
from microcell.measures.classes import combine, number_values
from microcell.measures.evaluate import evaluate
from microcell.measures.evidence import Evidence
from microcell.measures.people import count_people, person_codes
from microcell.measures.registry import measures
from microcell.measures.risk import check_population
from microcell.measures.special_uniques import SpecialUniques, find_special_uniques
from microcell.measures.superpopulation import (
    Histogram,
    UniquesEstimate,
    estimate_uniques,
    match_probability,
    reidentification_risk,
)
from microcell.model import Finding, Floats, Integers, Measure, Schema, Table
from microcell.model.risk import ColumnRisk, Combination, Population, TableRisk
from microcell.progress import report

__all__ = ["assess"]

_MODEL_NAMES = {
    "pitman": "Pitman's model",
    "zayatz": "Zayatz's model",
    "snb": "the shifted negative binomial model",
}


def assess(
    table: Table,
    schema: Schema,
    *,
    k: int,
    population: int | None = None,
) -> TableRisk:
    """Measure the risk of a table by a resolved schema."""
    if not table.rows:
        raise DataError("The table has no records.", code="data.empty")
    persons = person_codes(table, schema)
    codes = [number_values(table.columns[name]) for name in schema.keys]
    report("counting classes")
    classes = list(accumulate(codes, combine))[-1]
    people = count_people(classes, persons)
    n_people = table.rows if persons is None else len(np.unique(persons))
    check_population(population, n_people)
    report("searching for unique combinations")
    special = find_special_uniques(codes, classes, persons, people)
    weights = _weights(table, schema)
    expected, size, source = _population_of_classes(
        classes, people, persons, weights, population, n_people
    )
    estimates, risks = None, None
    if expected is not None:
        report("estimating the population")
        risks = reidentification_risk(people, expected)
        estimates = _estimate(people, expected, risks, size, n_people, source)
    return TableRisk(
        keys=schema.keys,
        person=tuple(schema.person),
        drafted=False,
        rows=table.rows,
        threshold=k,
        class_sizes=people,
        people_of_row=people[classes],
        scores=special.scores,
        smallest=special.smallest,
        risks=None if risks is None else risks[classes],
        measures=_measures(table, schema, people, k, population),
        columns=_columns(table, schema, codes, persons, special),
        combinations=tuple(
            Combination(tuple(schema.keys[j] for j in columns), rows)
            for columns, rows in special.combinations
        ),
        largest=special.largest,
        population=estimates,
        findings=_findings(table, schema, k),
        notes=_notes(schema, special),
    )


# ----------------------------------------------------------------------------------- the sample


def _measures(
    table: Table, schema: Schema, people: Integers, k: int, population: int | None
) -> dict[str, Measure]:
    """Return the registered measures of class sizes, and the numbers of people at risk."""
    unit = "persons" if schema.person else "records"
    evidence = Evidence(table, table, schema, pairs=None, population=population)
    evidence.__dict__["class_people"] = people
    chosen = [item for item in measures().values() if item.section == "anonymity"]
    chosen = [item for item in chosen if item.name not in ("records_dropped", "records_below_2k")]
    unique, below = int((people == 1).sum()), int(people[people < k].sum())
    return {
        **evaluate(evidence, chosen, persons=bool(schema.person)),
        "unique_people": Measure(
            "unique_people",
            unique,
            unit,
            lower_is_better=True,
            meaning="Number of classes of a single person: nobody else in the table has the same "
            "values.",
        ),
        "people_below_k": Measure(
            "people_below_k",
            below,
            unit,
            lower_is_better=True,
            meaning=f"Number of people in classes smaller than {k}.",
        ),
        "classes_below_k": Measure(
            "classes_below_k",
            int((people < k).sum()),
            "classes",
            lower_is_better=True,
            meaning=f"Number of classes with fewer than {k} people.",
        ),
    }


def _columns(
    table: Table,
    schema: Schema,
    codes: list[Integers],
    persons: Integers | None,
    special: SpecialUniques,
) -> tuple[ColumnRisk, ...]:
    none = np.zeros(table.rows, dtype=np.int64)
    before = list(accumulate(codes, combine, initial=none))
    after = list(accumulate(reversed(codes), combine, initial=none))[::-1]
    out = []
    for j, name in enumerate(schema.keys):
        alone = count_people(codes[j], persons)
        rest = count_people(combine(before[j], after[j + 1]), persons)
        missing = table.columns[name].missing
        out.append(
            ColumnRisk(
                name=name,
                distinct=len(np.unique(codes[j][~missing])),
                missing=int(missing.sum()),
                unique_alone=int((alone == 1).sum()),
                unique_without=int((rest == 1).sum()),
                k_without=int(rest[rest > 0].min()),
                suda=special.contributions[j],
            )
        )
    return tuple(out)


def _findings(table: Table, schema: Schema, k: int) -> tuple[Finding, ...]:
    """Return the findings that concern the table as it stands, without original values."""
    case = Case(Evidence(table, table, schema, pairs=None), k)
    return tuple(item.public() for item in find_all(case))


def _notes(schema: Schema, special: SpecialUniques) -> tuple[str, ...]:
    notes = []
    if schema.removed:
        several = len(schema.removed) > 1
        notes.append(
            f"Column{'s' * several} {', '.join(map(repr, schema.removed))} "
            f"{'are' if several else 'is'} not measured, because the schema removes "
            f"{'them' if several else 'it'} before publication. The risk is that of the other "
            "columns."
        )
    if special.largest < len(schema.keys):
        notes.append(
            f"Combinations of up to {special.largest} of {len(schema.keys)} columns were examined."
        )
    return tuple(notes)


# ------------------------------------------------------------------------------- the population


def _weights(table: Table, schema: Schema) -> Floats | None:
    if schema.weight is None:
        return None
    values = table.columns[schema.weight]
    weights = values.reals()
    if not values.is_number or not np.isfinite(weights).all() or (weights <= 0).any():
        raise DataError(
            f"Column {schema.weight!r}: sampling weights must be positive numbers in every row.",
            code="data.bad_weight",
            column=schema.weight,
        )
    return weights


def _population_of_classes(
    classes: Integers,
    people: Integers,
    persons: Integers | None,
    weights: Floats | None,
    population: int | None,
    n_people: int,
) -> tuple[Floats | None, int, str]:
    """Return the people of each class in the population, in all, and how that is known.

    A person with several rows in a class counts there with the mean of their weights. Weights are
    scaled to the size of the population, if that is given.
    """
    if weights is not None:
        if persons is None:
            expected = np.bincount(classes, weights=weights)
            total = float(weights.sum())
        else:
            _, pairs = np.unique(classes * (persons.max() + 1) + persons, return_inverse=True)
            means = np.bincount(pairs, weights=weights) / np.bincount(pairs)
            class_of_pair = np.zeros(len(means), dtype=np.int64)
            class_of_pair[pairs] = classes
            expected = np.bincount(class_of_pair, weights=means)
            total = float((np.bincount(persons, weights=weights) / np.bincount(persons)).sum())
        if population is None:
            floored: Floats = np.maximum(expected, people)
            return floored, max(n_people, round(total)), "weights"
        scaled: Floats = np.maximum(expected * (population / total), people)
        return scaled, population, "given"
    if population is not None:
        even: Floats = people.astype(np.float64) * (population / n_people)
        return even, population, "given"
    return None, 0, ""


def _estimate(
    people: Integers,
    expected: Floats,
    risks: Floats,
    size: int,
    n_people: int,
    source: str,
) -> Population:
    fraction = min(1.0, n_people / size)
    histogram = Histogram.of(people)
    models = estimate_uniques(histogram, float(size))
    chosen = models[0]
    found = [
        _reidentified(people, risks),
        _unique_in_both(people, expected),
        Measure(
            "highest_risk",
            float(risks.max()),
            "probability",
            lower_is_better=True,
            meaning="Highest probability of re-identifying a person in the population, by the "
            "negative binomial model.",
        ),
        _uniques("population_uniques", chosen),
        *(_uniques(f"population_uniques.{item.model}", item) for item in models),
    ]
    match = match_probability(histogram, fraction)
    if match is not None:
        found.append(
            Measure(
                "correct_match",
                match[0],
                "probability",
                lower_is_better=True,
                interval=match[1:],
                meaning="Probability that somebody in the population who matches a single record "
                "of the table is that person (data intrusion simulation).",
            )
        )
    measures = {item.name: item for item in found}
    return Population(size, source, fraction, measures, chosen.model)


def _unique_in_both(people: Integers, expected: Floats) -> Measure:
    p = 1 / expected[people == 1]
    value, spread = float(p.sum()), 1.96 * float(np.sqrt((p * (1 - p)).sum()))
    return Measure(
        "unique_in_population",
        value,
        "people",
        lower_is_better=True,
        interval=(max(0.0, value - spread), min(float(len(p)), value + spread)),
        meaning="Expected number of unique people of the table who are also unique in the "
        "population, by the negative binomial model.",
    )


def _reidentified(people: Integers, risks: Floats) -> Measure:
    value = float(people @ risks)
    spread = 1.96 * float(np.sqrt(people @ (risks * (1 - risks))))
    return Measure(
        "expected_reidentifications",
        value,
        "people",
        lower_is_better=True,
        interval=(max(0.0, value - spread), min(float(people.sum()), value + spread)),
        meaning="Expected number of people who are re-identified by someone who compares the table "
        "with the whole population, by the negative binomial model.",
    )


def _uniques(name: str, estimate: UniquesEstimate) -> Measure:
    return Measure(
        name,
        estimate.people,
        "people",
        lower_is_better=True,
        interval=estimate.interval,
        meaning="Estimated number of people who are unique in the population, by "
        f"{_MODEL_NAMES[estimate.model]}.",
    )
