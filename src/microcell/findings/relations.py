"""Findings about impossible rows: dates out of order, wrong differences and wrong sums."""

from collections.abc import Collection, Iterator
from itertools import permutations

import numpy as np

from microcell._display import count
from microcell.findings.registry import Case, Observation, rule
from microcell.kinds.values import NANOSECONDS, Values
from microcell.model import Floats

__all__ = ["differences_broken", "order_broken", "sums_broken"]

_NEARLY_ALL = 0.99
"""A relation is checked in the release if it holds in this share of the original's rows."""

_MIN_ROWS = 10

_DAY = NANOSECONDS["D"]


@rule(
    "rows.out_of_order",
    severity="warning",
    title="Dates are out of order",
    meaning="In the original one date never lies before another, such as a discharge before the "
    "admission. In the release it does: columns are averaged and imputed separately.",
    advice='Set `after = "EARLIER"` on the later column: its published value then never lies '
    "before the other.",
)
def order_broken(case: Case) -> Iterator[Observation]:
    evidence = case.evidence
    if evidence.pairs is None:
        return
    quasi = {column.name: column for column in evidence.schema.quasi}
    moments = [
        name
        for name, values in evidence.released.columns.items()
        if values.storage in ("date", "datetime")
        and name in evidence.original.columns
        and evidence.original.columns[name].storage in ("date", "datetime")
    ]
    declared = [(str(column.after), name) for name, column in quasi.items() if column.after]
    candidates = [pair for pair in permutations(moments, 2) if pair not in declared]
    for first, last in (*declared, *candidates):
        if (
            not {first, last} & quasi.keys()
            or not {first, last} <= evidence.released.columns.keys()
        ):
            continue
        before = _difference(case, first, last, released=False)
        after = _difference(case, first, last, released=True)
        present = ~np.isnan(before)
        if (first, last) not in declared and not _is_ordered(case, first, last, before[present]):
            continue
        wrong = int(((after < 0) & ~(before < 0)).sum())
        if wrong:
            yield Observation(
                f"{last!r} lies before {first!r} in {count(wrong, 'published record')}, which "
                f"{'never happens' if not (before < 0).any() else 'hardly ever happens'} in the "
                "original.",
                _order_advice(first, last, quasi.keys()),
                {"records": wrong},
                (first, last),
            )


def _is_ordered(case: Case, first: str, last: str, differences: Floats) -> bool:
    """Return whether the order holds in the original although the ranges of values overlap."""
    if len(differences) < _MIN_ROWS or (differences >= 0).mean() < _NEARLY_ALL:
        return False
    columns = case.evidence.original.columns
    earliest, latest = _moments(columns[last]), _moments(columns[first])
    return bool(np.nanmin(earliest) <= np.nanmax(latest)) and bool((differences > 0).any())


def _order_advice(first: str, last: str, quasi: Collection[str]) -> str:
    names = set(quasi)
    if {first, last} <= names:
        return f'[columns.{last}] after = "{first}"'
    unchanged = first if first not in names else last
    return (
        f'[columns.{unchanged}] role = "quasi" and [columns.{last}] after = "{first}": a column '
        "that is published unchanged cannot be kept in order with one that is not"
    )


def _difference(case: Case, first: str, last: str, *, released: bool) -> Floats:
    """Return ``last`` minus ``first`` for each published record; dates in days."""
    evidence = case.evidence
    if released:
        columns = evidence.released.columns
        return _moments(columns[last]) - _moments(columns[first])
    columns = evidence.original.columns
    difference: Floats = (_moments(columns[last]) - _moments(columns[first]))[evidence.pairs]
    return difference


def _moments(values: Values) -> Floats:
    """Return dates and times in days, and numbers unchanged; NaN where missing."""
    if values.storage == "text":
        return np.full(len(values), np.nan)
    numbers = values.reals()
    return numbers * (NANOSECONDS[values.unit] / _DAY) if values.unit else numbers


@rule(
    "rows.difference_broken",
    severity="warning",
    title="A duration does not fit its two dates",
    meaning="In the original a number is the difference of two dates, such as the length of a "
    "stay, or of two numbers. In the release it is not, because columns are averaged separately.",
    advice='Make the number a quasi-identifier with `difference_of = ["LATER", "EARLIER"]`: it is '
    "then computed from the published dates.",
)
def differences_broken(case: Case) -> Iterator[Observation]:
    evidence = case.evidence
    if evidence.pairs is None:
        return
    quasi = {column.name: column for column in evidence.schema.quasi}
    declared = {
        name: tuple(column.difference_of) for name, column in quasi.items() if column.difference_of
    }
    dates = [
        name
        for name, values in evidence.released.columns.items()
        if values.storage in ("date", "datetime") and name in quasi
    ]
    for name, values in evidence.released.columns.items():
        if not values.is_number or name not in evidence.original.columns:
            continue
        for last, first in [declared[name]] if name in declared else permutations(dates, 2):
            before = _residual(case, name, last, first, released=False)
            differences = before[~np.isnan(before)]
            fits = (
                len(differences) >= _MIN_ROWS and (np.abs(differences) < 1e-6).mean() >= _NEARLY_ALL
            )
            if not fits:
                continue
            after = _residual(case, name, last, first, released=True)
            wrong = int((np.abs(after) > 1e-6).sum())
            if wrong:
                yield Observation(
                    f"{name!r} is the difference of {last!r} and {first!r} in the original, but "
                    f"not in {count(wrong, 'published record')}.",
                    f'[columns.{name}] role = "quasi", difference_of = ["{last}", "{first}"]',
                    {"records": wrong},
                    (name, last, first),
                )
                break


def _residual(case: Case, name: str, last: str, first: str, *, released: bool) -> Floats:
    evidence = case.evidence
    table = evidence.released if released else evidence.original
    numbers = _moments(table.columns[name])
    numbers = numbers if released else numbers[evidence.pairs]
    return numbers - _difference(case, first, last, released=released)


@rule(
    "rows.sum_broken",
    severity="warning",
    title="A total does not fit its parts",
    meaning="The schema states that a column is the sum of others, but in the release it is not.",
    advice="Make the total and all parts quasi-identifiers, published as means: the total is then "
    "computed from the published parts.",
)
def sums_broken(case: Case) -> Iterator[Observation]:
    evidence = case.evidence
    if evidence.pairs is None:
        return
    for column in evidence.schema.quasi:
        parts = column.sum_of
        if not parts or not {column.name, *parts} <= evidence.released.columns.keys():
            continue
        total = _moments(evidence.released.columns[column.name])
        residual = total - sum(_moments(evidence.released.columns[name]) for name in parts)
        scale = max(1.0, float(np.nanmax(np.abs(total), initial=0.0)))
        wrong = int((np.abs(residual) > 1e-6 * scale).sum())
        if wrong:
            yield Observation(
                f"{column.name!r} is not the sum of its parts in "
                f"{count(wrong, 'published record')}.",
                f"Publish {column.name!r} and its parts as means, without blocks",
                {"records": wrong},
                (column.name, *parts),
            )
