"""Findings about columns published unchanged that single people out, alone or combined.

Every row gets a hash per column; the hash of a combination is computed from those. On a large table
only the combinations whose hash falls into a share of all hashes are examined. Within that share
the count is exact, so the estimate is unbiased, and it has a confidence interval.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from microcell._display import count
from microcell.findings.registry import Case, Found, percent, rule
from microcell.kernels.arrays import count_distinct
from microcell.measures.classes import number_values
from microcell.model import Integers, Mask, Values
from microcell.model.findings import Severity

__all__ = ["Alone", "count_alone", "singled_out"]

_EXAMINED = 100_000
"""Number of rows up to which combinations are counted exactly; about as many are sampled above."""

_TELLING = 8
"""Number of columns with the most distinct values whose combinations are examined."""

_DANGER, _WARNING = 0.05, 0.001
"""Share of people singled out from which the finding is a danger or a warning."""

_WORSE = 1.5
"""A larger combination is reported if it singles out this many times as many people."""

_MIN_TEXTS, _NEARLY_ALL = 10, 0.9
"""A confidential text may name people if nearly all of at least this many values differ."""

Hashes = NDArray[np.uint64]

_MULTIPLIER = np.uint64(0x9E37_79B9_7F4A_7C15)
_SHIFT = np.uint64(32)


@dataclass(frozen=True)
class Alone:
    """Number and share of people with a value that nobody else has; an estimate has an interval."""

    people: int
    share: float
    interval: tuple[float, float] | None = None

    @property
    def figures(self) -> dict[str, float]:
        """The numbers for a finding."""
        figures: dict[str, float] = {"people": self.people, "share": self.share}
        if self.interval is not None:
            figures |= {"low": self.interval[0], "high": self.interval[1]}
        return figures


def count_alone(codes: Integers, present: Mask, persons: Integers | None) -> Alone:
    """Count the people with a value that nobody else has; rows that are not present do not count.

    Examples
    --------
    >>> count_alone(np.array([0, 0, 1, 2]), np.ones(4, dtype=bool), None)
    Alone(people=2, share=0.5, interval=None)
    """
    if persons is None:
        total = len(codes)
        n_people = int((np.bincount(codes[present]) == 1).sum())
    else:
        total = len(np.unique(persons))
        groups, rows = np.unique(codes[present], return_inverse=True)
        holders = count_distinct(rows.reshape(-1), persons[present]) if len(groups) else groups
        n_people = len(np.unique(persons[present][holders[rows] == 1])) if len(groups) else 0
    return Alone(n_people, n_people / max(total, 1))


@rule(
    "risk.singled_out",
    severity="danger",
    title="Columns published unchanged single people out",
    meaning="Columns outside the quasi-identifiers are published unchanged, and people are alone "
    "with their value, or with their combination of two or three of them. Anyone who knows these "
    "values finds the record, whatever k is. Published sampling weights count too.",
    advice='Make the column a quasi-identifier (`role = "quasi"`), so that k protects it, or drop '
    'it (`role = "drop"`).',
    published_only=True,
)
def singled_out(case: Case) -> Iterator[Found]:
    evidence = case.evidence
    released, schema = evidence.released, evidence.schema
    weight = () if schema.weight is None else (schema.weight,)
    names = [name for name in (*schema.keep, *weight) if name in released.columns]
    yield from _identifying_texts(case)
    hashes = {name: _hash(released.columns[name]) for name in names}
    alone = {(name,): _estimate([hashes[name]], evidence.persons) for name in names}
    for single, result in alone.items():
        if result.people:
            yield _found(case, single, result)
    # Columns that already identify people alone would do so in every combination.
    others = [name for name in names if alone[name,].share < _WARNING]
    telling = sorted(others, key=lambda name: -_distinct(released.columns[name]))[:_TELLING]
    worst = max((alone[name,].share for name in telling), default=0.0)
    for size in (2, 3):
        key, found = _worst_combination(telling, size, hashes, evidence.persons)
        if found is not None and found.share > _WORSE * worst:
            worst = found.share
            yield _found(case, key, found)


def _identifying_texts(case: Case) -> Iterator[Found]:
    """Report confidential texts that nearly all differ: they may be names."""
    for column in case.evidence.confidential:
        values = column.values
        present = ~values.missing
        if values.storage != "text" or int(present.sum()) < _MIN_TEXTS:
            continue
        if _distinct(values) >= _NEARLY_ALL * int(present.sum()):
            codes = number_values(values)
            yield _found(case, (column.name,), count_alone(codes, present, column.persons))


def _worst_combination(
    names: Sequence[str], size: int, hashes: Mapping[str, Hashes], persons: Integers | None
) -> tuple[tuple[str, ...], Alone | None]:
    worst: tuple[tuple[str, ...], Alone | None] = ((), None)
    for key in combinations(names, size):
        found = _estimate([hashes[name] for name in key], persons)
        if found.people and (worst[1] is None or found.share > worst[1].share):
            worst = (key, found)
    return worst


def _found(case: Case, names: tuple[str, ...], alone: Alone) -> Found:
    noun = "their value of" if len(names) == 1 else "their combination of"
    about, between = "", ""
    if alone.interval is not None:
        low, high = (percent(bound) for bound in alone.interval)
        about, between = "about ", f", 95 % interval {low} to {high}"
    severity: Severity = (
        "danger" if alone.share >= _DANGER else "warning" if alone.share >= _WARNING else "note"
    )
    listing = ", ".join(map(repr, names[:-1])) + (" and " if len(names) > 1 else "")
    lines = "; ".join(f'[columns.{name}] role = "quasi"' for name in names[:1])
    rest = "" if len(names) == 1 else " (or one of the others)"
    return Found(
        f"{about.capitalize() or ''}{count(alone.people, case.noun)} "
        f"({percent(alone.share)}{between}) {'is' if alone.people == 1 else 'are'} alone with "
        f"{noun} {listing}{names[-1]!r}, published unchanged.",
        f'{lines}{rest}, or role = "drop"',
        alone.figures,
        names,
        severity=severity,
    )


def _estimate(columns: Sequence[Hashes], persons: Integers | None) -> Alone:
    """Count the people who are alone with a combination, on a sample of the combinations."""
    hashes = columns[0].copy()
    for column in columns[1:]:
        hashes *= _MULTIPLIER
        hashes ^= hashes >> _SHIFT
        hashes ^= column
    rows = len(hashes)
    everything = np.ones(rows, dtype=np.bool_)
    if rows <= _EXAMINED or persons is not None:
        codes = np.unique(hashes, return_inverse=True)[1].reshape(-1)
        return count_alone(codes, everything, persons)
    mixed = (hashes * _MULTIPLIER) >> _SHIFT
    sample = hashes[mixed < np.uint64(int(2**32 * _EXAMINED / rows))]
    _, counts = np.unique(sample, return_counts=True)
    n, unique = len(sample), int((counts == 1).sum())
    share = unique / max(n, 1)
    low, high = _wilson(share, max(n, 1))
    return Alone(round(share * rows), share, (low, high))


def _wilson(share: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's 95 % confidence interval of a share among n."""
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def _hash(values: Values) -> Hashes:
    """Return a well-mixed number per row, equal where values are equal or both missing."""
    if values.storage == "empty":
        return np.zeros(len(values), dtype=np.uint64)
    data = values.data + 0.0 if values.storage == "float" else values.data.astype(np.int64)
    hashes = np.where(values.missing, np.uint64(0x5BF0_3635_DCA5_9A1F), data.view(np.uint64))
    for factor, shift in ((0x9E37_79B9_7F4A_7C15, 32), (0xBF58_476D_1CE4_E5B9, 29)):
        hashes *= np.uint64(factor)
        hashes ^= hashes >> np.uint64(shift)
    return hashes


def _distinct(values: Values) -> int:
    return len(np.unique(values.data[~values.missing]))
