"""Equivalence classes: groups of rows that agree in all quasi-identifiers and strata."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.errors import SchemaError
from microcell.kernels.arrays import count_distinct
from microcell.model import Integers, Table, Values

__all__ = [
    "class_labels",
    "class_sizes",
    "combine",
    "fewest_people",
    "number_values",
    "people_by_category",
]

_DENSE = 4
"""Codes below this multiple of the number of rows are renumbered by look-up, without sorting."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)

Bits = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class _Groups:
    """Groups of equal rows: one row of each group, and the group of every row."""

    rows: Integers
    group: Integers


def class_labels(table: Table, names: Sequence[str]) -> Integers:
    """Return the equivalence class (0, 1, 2, ...) of each row, by the columns ``names``.

    Classes are numbered in the order of their values, missing values first. A missing value counts
    as a value, so that every row is in exactly one class.

    Equal rows are grouped by sorting a hash, and only one row of each group is then compared column
    by column. Time O(rows log rows) plus O(classes log classes) per column (rows instead of classes
    in the rare case of a hash collision), memory O(rows).

    Examples
    --------
    >>> age = Values("integer", np.array([30, 30, 0, 41]), np.array([False, False, True, False]))
    >>> class_labels(Table({"age": age}, rows=4, native=None), ["age"])
    array([1, 1, 0, 2])
    """
    _check_names(table, names)
    columns = [table.columns[name] for name in names]
    groups = _group_rows(columns, table.rows) if len(columns) > 1 else None
    if groups is None:
        return _label_rows(columns, table.rows)
    return _label_rows(columns, len(groups.rows), groups.rows)[groups.group]


def class_sizes(table: Table, names: Sequence[str]) -> Integers:
    """Return the number of records in each equivalence class of the columns ``names``.

    Examples
    --------
    >>> age = Values("integer", np.array([30, 30, 0, 41]), np.array([False, False, True, False]))
    >>> class_sizes(Table({"age": age}, rows=4, native=None), ["age"])
    array([1, 2, 1])
    """
    return np.bincount(class_labels(table, names)).astype(np.int64)


def number_values(values: Values) -> Integers:
    """Number the distinct values of a column 0, 1, 2, ... in order, missing values first.

    Examples
    --------
    >>> gaps = np.array([False, True, False, False])
    >>> number_values(Values("integer", np.array([30, 0, 41, 30]), gaps))
    array([1, 0, 2, 1])
    """
    return _label_rows([values], len(values))


def combine(labels: Integers, codes: Integers) -> Integers:
    """Return labels 0, 1, 2, ... that are equal where both ``labels`` and ``codes`` are equal.

    Codes must not be negative.
    """
    span = int(codes.max(initial=0)) + 1
    return _renumber(labels * span + codes)


def fewest_people(class_sizes: Integers, rows_per_person: Integers) -> Integers:
    """Return the minimum number of people in each class, given the number of its records.

    This is the smallest number of people whose rows add up to the records of the class.

    Examples
    --------
    >>> fewest_people(np.array([3, 4, 6]), np.array([1, 3, 2]))
    array([1, 2, 3])
    """
    most = np.cumsum(np.sort(rows_per_person)[::-1])
    return np.minimum(np.searchsorted(most, class_sizes) + 1, len(most)).astype(np.int64)


def _label_rows(
    columns: Sequence[Values], count: int, rows: Integers | slice = slice(None)
) -> Integers:
    """Number the distinct values of all rows, or of the ``count`` rows that are selected."""
    # Renumbering after each column keeps all numbers below the square of the number of rows.
    labels = np.zeros(count, dtype=np.int64)
    for values in columns:
        labels = combine(labels, _codes(values, rows))
    return labels


def _group_rows(columns: Sequence[Values], rows: int) -> _Groups | None:
    """Group rows by a hash, then verify the groups; None if different rows share a hash."""
    hashes = np.zeros(rows, dtype=np.uint64)
    for bits in _bits(columns):
        hashes ^= bits
        hashes *= _MULTIPLIER
        hashes ^= hashes >> _SHIFT
    order = np.argsort(hashes)
    ordered = hashes[order]
    same = ordered[1:] == ordered[:-1]
    for bits in _bits(columns):
        sorted_bits = bits[order]
        if not (sorted_bits[1:] == sorted_bits[:-1])[same].all():
            return None
    starts = np.ones(len(order), dtype=np.bool_)
    starts[1:] = ~same
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(starts) - 1
    return _Groups(order[starts].astype(np.int64), group)


def _bits(columns: Sequence[Values]) -> Iterator[Bits]:
    """Yield 64 bits per row that differ where values differ, and the mask of missing values.

    Equal values may have different bits, such as 0.0 and -0.0. Their rows are then in different
    groups, which get the same label later.
    """
    for values in columns:
        data: NDArray[Any] = values.data
        plain = data.astype(np.float64 if data.dtype.kind == "f" else np.int64)
        if values.missing.any():
            plain[values.missing] = 0
            yield values.missing.astype(np.uint64)
        yield plain.view(np.uint64)


def _check_names(table: Table, names: Sequence[str]) -> None:
    absent = [name for name in names if name not in table.columns]
    if absent:
        raise SchemaError(
            f"The table has no column{'s' * (len(absent) > 1)} {', '.join(map(repr, absent))}, "
            "which the schema names as a quasi-identifier or stratum. Pass the published table, or "
            "correct the schema.",
            code="schema.unknown_column",
            columns=absent,
        )


def _codes(values: Values, rows: Integers | slice) -> Integers:
    """Return a code for each of the rows, 0 where the value is missing."""
    data, missing = values.data[rows], values.missing[rows]
    if values.storage in ("text", "boolean"):
        return np.where(missing, 0, data.astype(np.int64) + 1)
    codes = np.zeros(len(data), dtype=np.int64)
    codes[~missing] = np.unique(data[~missing], return_inverse=True)[1] + 1
    return codes


def _renumber(codes: Integers) -> Integers:
    """Renumber codes as 0, 1, 2, ... in the same order."""
    span = int(codes.max(initial=0)) + 1
    if span > _DENSE * len(codes):
        return np.unique(codes, return_inverse=True)[1].astype(np.int64)
    used = np.zeros(span, dtype=np.bool_)
    used[codes] = True
    return (np.cumsum(used) - 1)[codes]


def people_by_category(codes: Integers, persons: Integers | None, n_codes: int) -> Integers:
    """Count the people with each category; missing categories do not count."""
    present = codes >= 0
    if persons is None:
        return np.bincount(codes[present], minlength=n_codes).astype(np.int64)
    out = np.zeros(n_codes, dtype=np.int64)
    counts = count_distinct(codes[present], persons[present])
    out[: len(counts)] = counts
    return out
