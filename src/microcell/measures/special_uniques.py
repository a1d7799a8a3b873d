"""Special uniques: how few columns single a record out (SUDA2).

The score of a record follows Elliot, Manning and Ford (2002), as in sdcMicro: with m columns and
combinations of up to M < m of them, a minimal unique of s columns adds (m - s) (m - s - 1) ... to
(m - M) to it. The fewer columns are needed, and the more combinations there are, the higher it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, prod

import numpy as np

from microcell._display import record_repr
from microcell.kernels.arrays import Floats, Integers
from microcell.kernels.uniques import find_uniques

__all__ = ["MAX_SETS", "SpecialUniques", "find_special_uniques"]

MAX_SETS = 600_000_000
"""Largest number of combinations times records that are examined."""

_MAX_COLUMNS = 62


@dataclass(frozen=True, eq=False)
class SpecialUniques:
    """Minimal unique combinations of columns.

    Attributes
    ----------
    largest
        Number of columns of the largest combinations that were examined.
    scores
        The SUDA score of each row.
    smallest
        The columns of one of the smallest minimal uniques of each row, by position, as a bit mask;
        0 if it has none.
    combinations
        The sets of columns that are a minimal unique of some row, by position, and for how many
        rows each is.
    contributions
        The share of the total score from combinations that contain each column.
    """

    largest: int
    scores: Floats
    smallest: Integers
    combinations: tuple[tuple[tuple[int, ...], int], ...]
    contributions: tuple[float, ...]

    __repr__ = record_repr


def find_special_uniques(
    codes: Sequence[Integers], classes: Integers, persons: Integers | None, people: Integers
) -> SpecialUniques:
    """Find the minimal unique combinations of up to as many columns as time permits.

    Parameters
    ----------
    codes
        The values of each column as codes 0, 1, 2, ...
    classes
        The equivalence class of each row by all columns.
    persons
        The person of each row; None if every row is a person.
    people
        Number of people in each class.
    """
    m, n = len(codes), len(classes)
    _, rows = np.unique(classes, return_index=True)
    largest = _choose_largest(m, len(rows))
    spans = [int(column.max(initial=0)) + 1 for column in codes]
    # Columns with many values come last, where the search visits them first: they leave the fewest
    # records to follow. Records sorted by them are next to each other in memory.
    order = np.argsort(spans, kind="stable")[-_MAX_COLUMNS:]
    table = np.stack([codes[j][rows].astype(np.int32) for j in order])
    by_place = np.lexsort(table)
    owner = np.where(people > 1, -1, (np.arange(n) if persons is None else persons)[rows])
    found = find_uniques(
        np.ascontiguousarray(table[:, by_place]), owner[by_place].astype(np.int64), largest,
        max(spans),
    )  # fmt: skip
    place = np.empty(len(rows), dtype=np.int64)
    place[by_place] = np.arange(len(rows))
    size_scores = np.array([0, *(_score(m, size, largest) for size in range(1, largest + 1))])
    scores = (found.by_size @ size_scores)[place][classes]
    combinations = tuple(
        (tuple(sorted(order[_bits(mask)].tolist())), count)
        for mask, count in zip(found.masks.tolist(), found.counts.tolist(), strict=True)
        if count
    )
    return SpecialUniques(
        largest=largest,
        scores=scores,
        smallest=_renumber_bits(found.smallest, order)[place][classes],
        combinations=tuple(sorted(combinations, key=lambda item: (len(item[0]), -item[1]))),
        contributions=_contributions(combinations, size_scores, m),
    )


def _choose_largest(m: int, n: int) -> int:
    """Return the number of columns up to which all combinations are examined; at least 2 if any."""
    largest, n_sets = 0, 0
    while largest < min(m, _MAX_COLUMNS):
        n_sets += comb(min(m, _MAX_COLUMNS), largest + 1)
        if n_sets * max(n, 1) > MAX_SETS and largest >= 2:
            break
        largest += 1
    return largest


def _score(m: int, size: int, largest: int) -> float:
    return float(prod(m - i for i in range(size, min(largest, m - 1) + 1)))


def _bits(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def _renumber_bits(masks: Integers, order: Integers) -> Integers:
    out = np.zeros_like(masks)
    for place, column in enumerate(order.tolist()):
        out |= (masks >> place & 1) << column
    return out


def _contributions(
    combinations: Sequence[tuple[tuple[int, ...], int]], size_scores: Floats, m: int
) -> tuple[float, ...]:
    total, by_column = 0.0, [0.0] * m
    for columns, count in combinations:
        score = float(size_scores[len(columns)]) * count
        total += score
        for column in columns:
            by_column[column] += score
    return tuple(value / total if total else 0.0 for value in by_column)
