"""Re-identification risk: how likely a record of the published table is traced to its person, by class sizes alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.errors import OptionError, SchemaError
from microcell.model import Integers, Measure, Table, Values

__all__ = ["class_labels", "class_sizes", "combine", "measure_risk"]

_DENSE = 4
"""Codes below this many times the number of rows are counted in an array; beyond it they are sorted."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)

Bits = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class _Groups:
    """Rows that are alike: one row of each group, and for each row the ``place`` of its group among them."""

    rows: Integers
    place: Integers


def class_labels(table: Table, names: Sequence[str]) -> Integers:
    """The equivalence class 0, 1, 2, ... of each row: rows are in one class if they agree in all columns ``names``.

    Classes are numbered in the order of their values, a missing one first. It counts as a value, so each row is in
    exactly one class. Rows that are alike are brought together by one sort of a hash of theirs, and only one row of
    each class is looked at column by column. Time O(rows log rows), and a column O(classes log classes) more (rows,
    should two classes share a hash); memory O(rows).

    Examples
    --------
    >>> age = Values("integer", np.array([30, 30, 0, 41]), np.array([False, False, True, False]))
    >>> class_labels(Table({"age": age}, rows=4, native=None), ["age"])
    array([1, 1, 0, 2])
    """
    _check_names(table, names)
    columns = [table.columns[name] for name in names]
    groups = _group(columns) if len(columns) > 1 else None
    if groups is None:
        return _numbered(columns, table.rows)
    return _numbered([_take(values, groups.rows) for values in columns], len(groups.rows))[
        groups.place
    ]


def class_sizes(table: Table, names: Sequence[str]) -> Integers:
    """The number of records in each equivalence class of the columns ``names``; empty for a table without rows.

    Examples
    --------
    >>> age = Values("integer", np.array([30, 30, 0, 41]), np.array([False, False, True, False]))
    >>> class_sizes(Table({"age": age}, rows=4, native=None), ["age"])
    array([1, 2, 1])
    """
    return np.bincount(class_labels(table, names)).astype(np.int64)


def combine(labels: Integers, codes: Integers) -> Integers:
    """Labels 0, 1, 2, ... that are equal where both the labels and the codes are; codes are 0 or more."""
    span = int(codes.max(initial=0)) + 1
    return _renumber(labels * span + codes)


def _numbered(columns: Sequence[Values], rows: int) -> Integers:
    """The class of each row, the columns combined one by one and numbered anew: no code passes rows squared."""
    labels = np.zeros(rows, dtype=np.int64)
    for values in columns:
        labels = combine(labels, _codes(values))
    return labels


def _group(columns: Sequence[Values]) -> _Groups | None:
    """The rows that agree in all columns, by a hash that is then checked; None if rows that differ share one."""
    hashes = np.zeros(len(columns[0]), dtype=np.uint64)
    for bits in _bits(columns):
        hashes ^= bits
        hashes *= _MULTIPLIER
        hashes ^= hashes >> _SHIFT
    order = np.argsort(hashes)
    ordered = hashes[order]
    same = ordered[1:] == ordered[:-1]
    for bits in _bits(columns):
        along = bits[order]
        if not (along[1:] == along[:-1])[same].all():
            return None
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = ~same
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(begins) - 1
    return _Groups(order[begins].astype(np.int64), place)


def _bits(columns: Sequence[Values]) -> Iterator[Bits]:
    """Of each column 64 bits a row, different where values are; of one with missing values, also which those are.

    Equal values may have different bits, as 0.0 and -0.0 have: their rows are then one class by its numbering.
    """
    for values in columns:
        data: NDArray[Any] = values.data
        plain = data.astype(np.float64 if data.dtype.kind == "f" else np.int64)
        if values.missing.any():
            plain[values.missing] = 0
            yield values.missing.astype(np.uint64)
        yield plain.view(np.uint64)


def _take(values: Values, rows: Integers) -> Values:
    return replace(values, data=values.data[rows], missing=values.missing[rows])


def _check_names(table: Table, names: Sequence[str]) -> None:
    absent = [name for name in names if name not in table.columns]
    if absent:
        raise SchemaError(
            f"The table has no column{'s' if len(absent) > 1 else ''} {', '.join(map(repr, absent))}, which the schema "
            "names as something an outsider may know. Give the table that was published, or correct the schema."
        )


def _codes(values: Values) -> Integers:
    """A code for each row, 0 where the value is missing."""
    if values.storage in ("text", "boolean"):
        return np.where(values.missing, 0, values.data.astype(np.int64) + 1)
    codes = np.zeros(len(values), dtype=np.int64)
    known = ~values.missing
    codes[known] = np.unique(values.data[known], return_inverse=True)[1] + 1
    return codes


def _renumber(codes: Integers) -> Integers:
    """The same grouping with labels 0, 1, 2, ... in the order of the codes."""
    span = int(codes.max(initial=0)) + 1
    if span > _DENSE * len(codes):
        return np.unique(codes, return_inverse=True)[1].astype(np.int64)
    used = np.zeros(span, dtype=np.bool_)
    used[codes] = True
    return (np.cumsum(used) - 1)[codes]


def measure_risk(
    sizes: Integers, k_required: int | None = None, population: int | None = None
) -> tuple[Measure, ...]:
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
    if population is not None and (
        isinstance(population, bool) or not isinstance(population, (int, np.integer))
    ):
        raise OptionError(
            f"population must be a whole number of people, not a {type(population).__name__}."
        )
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
