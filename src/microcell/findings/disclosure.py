"""Findings about disclosed values: by classes, by exact numbers and by missing values."""

from collections.abc import Iterator

import numpy as np

from microcell._display import count
from microcell.findings.registry import Case, Observation, percent, rule
from microcell.findings.singling_out import alone_with, count_alone, describe_alone
from microcell.measures.classes import combine
from microcell.model import Floats, Integers

__all__ = ["exact_values", "homogeneous_classes", "lone_values"]

_EXACT = 0.1
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
def homogeneous_classes(case: Case) -> Iterator[Observation]:
    for column in case.evidence.confidential:
        sizes = column.homogeneous_sizes
        if not len(sizes):
            continue
        n_people = column.homogeneous_people
        total = len(column.classes if column.persons is None else np.unique(column.persons))
        figures = {"people": n_people, "classes": len(sizes)}
        if len(column.counts.totals) == 1:
            yield Observation(
                f"{column.name!r} has the same value in all records: any release reveals it for "
                "everyone.",
                f'[columns.{column.name}] role = "drop"',
                figures,
                (column.name,),
                severity="note",
            )
            continue
        yield Observation(
            f"{count(n_people, case.noun)} ({percent(n_people / total)}) "
            f"{'is' if n_people == 1 else 'are'} in "
            f"{count(len(sizes), 'class', 'classes')} in which everyone has the same "
            f"{column.name!r}, so the class reveals the value.",
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
    advice="Round the column (`round = 100` in the schema), add `noise` or `swap` its values, make "
    "it a quasi-identifier, or drop it.",
    published_only=True,
)
def exact_values(case: Case) -> Iterator[Observation]:
    masked = {item.name for item in case.evidence.schema.confidential if item.is_randomized}
    for column in case.evidence.confidential:
        values = column.values
        if not (values.is_number or values.is_time) or column.name in masked:
            continue
        alone = alone_with(case, column)
        if alone.share < _EXACT or alone.people < 2:
            continue
        advice = f'[columns.{column.name}] role = "quasi"'
        if values.is_number:
            step = _sufficient_step(column.values.reals(), column.persons)
            advice = (
                f"[columns.{column.name}] round = {step:g}, or noise = 0.05, or swap = 0.05, "
                'or role = "quasi"'
            )
        yield Observation(
            f"{describe_alone(alone, case.noun)} alone with their exact value of "
            f"{column.name!r}, which is published unchanged.",
            advice,
            alone.figures,
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


@rule(
    "risk.lone_values",
    severity="warning",
    title="Some published values are those of a single person",
    meaning="In some classes only one person has a value of a quasi-identifier, and the others got "
    "it because theirs are missing. The published value is then not typical for the class: it is "
    "that person's own value, for everyone to read.",
    advice="Leave out records with missing values (`--missing drop`), or drop the column.",
)
def lone_values(case: Case) -> Iterator[Observation]:
    evidence = case.evidence
    if evidence.pairs is None:
        return
    rows = np.arange(evidence.released.rows)
    members = combine(evidence.classes, rows if evidence.persons is None else evidence.persons)
    class_of = np.zeros(int(members.max(initial=-1)) + 1, dtype=np.int64)
    class_of[members] = evidence.classes
    shared = np.bincount(class_of)[evidence.classes] > 1
    lone: dict[str, int] = {}
    for column in evidence.schema.quasi:
        missing = evidence.original.columns[column.parts[0]].missing[evidence.pairs]
        published = ~evidence.released.columns[column.parts[0]].missing & shared
        holders = np.unique(members[published & ~missing])
        n_lone = int((np.bincount(class_of[holders]) == 1).sum()) if missing.any() else 0
        if n_lone:
            lone[column.name] = n_lone
    if lone:
        listing = ", ".join(f"{name!r} {number:,}" for name, number in lone.items())
        total = sum(lone.values())
        yield Observation(
            f"{count(total, 'published value')} ({listing}) {'is' if total == 1 else 'are'} the "
            f"value of a single {case.noun}: nobody else in the class has one.",
            "--missing drop (records with missing values are left out), or drop the column",
            {"values": total},
            tuple(lone),
        )
