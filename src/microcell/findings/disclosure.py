"""Findings about confidential values: what classes and exact numbers give away."""

from collections.abc import Iterator

import numpy as np

from microcell._display import count
from microcell.findings.registry import Case, Found, percent, rule
from microcell.findings.singling_out import count_alone
from microcell.measures.classes import number_values
from microcell.model import Floats, Integers

__all__ = ["exact_values", "homogeneous_classes"]

_EXACT = 0.5
"""A confidential number identifies if at least this share of the people is alone with its value."""

_ROUNDED = 0.05
"""Share of people alone with their value that the suggested rounding allows."""


@rule(
    "risk.homogeneous_classes",
    severity="danger",
    title="Some classes reveal a confidential value",
    meaning="Everyone in a class has the same confidential value, so anyone who finds a person's "
    "class learns the value, without knowing which record is theirs. k does not prevent this.",
    advice="Require `homogeneous_records.COLUMN=0`: cells are merged until the values differ. If "
    "that costs too much, combine the values of the column, or drop it.",
    published_only=True,
)
def homogeneous_classes(case: Case) -> Iterator[Found]:
    for column in case.evidence.confidential:
        sizes = column.homogeneous_sizes
        if not len(sizes):
            continue
        rows = column.counts.shared[column.classes]
        persons = np.arange(len(rows)) if column.persons is None else column.persons
        n_people, total = len(np.unique(persons[rows])), len(np.unique(persons))
        figures = {"people": n_people, "classes": len(sizes)}
        if len(column.counts.totals) == 1:
            yield Found(
                f"{column.name!r} has the same value in all records: it tells the same about "
                "everyone, in any release.",
                f'[columns.{column.name}] role = "drop"',
                figures,
                (column.name,),
                severity="note",
            )
            continue
        yield Found(
            f"{count(n_people, case.noun)} ({percent(n_people / total)}) "
            f"{'is' if n_people == 1 else 'are'} in "
            f"{count(len(sizes), 'class', 'classes')} in which all have the same {column.name!r}: "
            "the class gives the value away.",
            f"--require homogeneous_records.{column.name}=0; if that costs too much, combine "
            f'values of the column, or [columns.{column.name}] role = "drop"',
            figures,
            (column.name,),
        )


@rule(
    "risk.exact_values",
    severity="warning",
    title="Confidential numbers are so exact that they identify people",
    meaning="A confidential number or date is published unchanged, and many people are alone with "
    "their value. Anyone who knows the value from elsewhere, such as an exact salary, finds the "
    "record.",
    advice="Round the column (`round = 100` in the schema), make it a quasi-identifier, or drop "
    "it.",
    published_only=True,
)
def exact_values(case: Case) -> Iterator[Found]:
    for column in case.evidence.confidential:
        values = column.values
        if not (values.is_number or values.is_time):
            continue
        alone = count_alone(number_values(values), ~values.missing, column.persons)
        if alone.share < _EXACT or alone.people < 2:
            continue
        advice = f'[columns.{column.name}] role = "quasi"'
        if values.is_number:
            step = _sufficient_step(column.values.reals(), column.persons)
            advice = f'[columns.{column.name}] round = {step:g}, or role = "quasi"'
        yield Found(
            f"{count(alone.people, case.noun)} ({percent(alone.share)}) "
            f"{'is' if alone.people == 1 else 'are'} alone with their exact value of "
            f"{column.name!r}, which is published unchanged.",
            advice,
            {"people": alone.people, "share": alone.share},
            (column.name,),
        )


def _sufficient_step(numbers: Floats, persons: Integers | None) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten that leaves few people alone."""
    present = np.isfinite(numbers)
    used = numbers[present]
    spread = float(np.percentile(used, 95) - np.percentile(used, 5)) or 1.0
    power = np.floor(np.log10(spread)) - 6
    for exponent in range(int(power), int(power) + 12):
        for factor in (1, 2, 5):
            step = float(f"{factor}e{exponent}")
            codes = np.zeros(len(numbers), dtype=np.int64)
            codes[present] = np.unique(np.rint(used / step), return_inverse=True)[1]
            if count_alone(codes, present, persons).share <= _ROUNDED:
                return step
    return spread
