"""From quasi-identifiers to points: each kind of column becomes one or more standardized dimensions."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import pairwise
from math import frexp, ldexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.errors import DataError, SchemaError
from microcell.kernels.arrays import unit_vectors
from microcell.model import (
    Column,
    Encoded,
    EncodedColumn,
    Encoding,
    Floats,
    Integers,
    Mask,
    Placed,
    Schema,
    Table,
    Values,
)

__all__ = [
    "NANOSECONDS",
    "Reading",
    "check_missing",
    "check_parts",
    "count_missing",
    "encode",
    "encode_confidential",
    "fit",
    "fit_column",
    "fit_confidential",
    "indicator",
    "missing_rows",
    "number_of",
    "place",
    "place_column",
    "read_again",
    "read_column",
    "sampling_weights",
    "shared_length",
    "subtract",
]

NANOSECONDS = {"D": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

_LIKE = {"date": "date", "datetime": "date", "duration": "duration", "time": "time"}
"""Dates and times that can stand for each other; all other values have names that can be compared."""


@dataclass(frozen=True, eq=False)
class Reading:
    """One quasi-identifier of a table, read once for fitting and for placing.

    Categories have ``codes`` and ``names``, as :meth:`Values.factorize` gives them, and locations ``vectors``.
    """

    values: Values
    missing: Mask
    codes: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    names: tuple[str, ...] = ()
    vectors: Floats = field(default_factory=lambda: np.empty((0, 3)))


def read_column(kind: str, parts: Sequence[str], table: Table) -> Reading:
    """The quasi-identifier that the columns ``parts`` of the table make up."""
    values = [table.columns[part] for part in parts]
    if kind == "location":
        return _read_location(parts, values)
    if kind in ("numeric", "datetime"):
        _check_finite(parts[0], values[0])
        return Reading(values[0], values[0].missing)
    codes, names = values[0].factorize()
    return Reading(values[0], values[0].missing, codes, names)


def read_again(column: EncodedColumn, table: Table) -> Reading:
    """The quasi-identifier in a table of further records, its dates and times named in the unit that was fitted."""
    for part in column.parts:
        _check_storage(column, part, table.columns[part])
    reading = read_column(column.kind, column.parts, table)
    if column.unit is None or reading.values.unit in (None, column.unit):
        return reading
    unit = column.unit
    return replace(reading, names=tuple(_rename(name, unit) for name in reading.names))


def number_of(name: str) -> int | float | None:
    """The number that a category's name stands for, in nanoseconds if it is a time; None if it stands for none.

    Examples
    --------
    >>> number_of("1.5"), number_of("2 us"), number_of("high")
    (1.5, 2000, None)
    """
    count, _, unit = name.partition(" ")
    try:
        if unit in NANOSECONDS:
            return int(count) * NANOSECONDS[unit]
        # Large whole numbers are compared as such: floats would take some of them for one.
        return int(name) if name.lstrip("-").isdecimal() else _not_nan(float(name))
    except ValueError:
        return None


def shared_length(one: str, other: str) -> int:
    """The number of characters with which both begin.

    Examples
    --------
    >>> shared_length("94110", "94200")
    2
    """
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return at
    return min(len(one), len(other))


def missing_rows(table: Table, schema: Schema) -> Mask:
    """True for each record that lacks a quasi-identifier."""
    out = np.zeros(table.rows, dtype=np.bool_)
    for column in schema.quasi:
        for part in column.parts:
            out |= table.columns[part].missing
    return out


def count_missing(table: Table, schema: Schema) -> dict[str, int]:
    """The number of missing values of each column that is part of a quasi-identifier."""
    parts = [part for column in schema.quasi for part in column.parts]
    return {part: int(table.columns[part].missing.sum()) for part in parts}


def check_missing(table: Table, schema: Schema) -> None:
    """Refuse a table whose quasi-identifiers have missing values, naming the columns and counts."""
    counts = count_missing(table, schema)
    if any(counts.values()):
        listing = ", ".join(f"{name!r} ({count})" for name, count in counts.items() if count)
        raise DataError(
            f"Missing values in {listing}. Say what to do about them by missing (--missing): 'drop' leaves those "
            "records out and reports them, 'impute' places them at the mean and publishes their cell's representative."
        )


def check_parts(table: Table, encoding: Encoding) -> None:
    """Refuse a table that lacks a column of the encoding, naming it."""
    lacking = [
        part for column in encoding.columns for part in column.parts if part not in table.columns
    ]
    if lacking:
        meant = {part: get_close_matches(part, table.names, n=1) for part in lacking}
        hints = "".join(
            f" Is {close[0]!r} meant to be {part!r}?" for part, close in meant.items() if close
        )
        raise SchemaError(
            f"The table lacks {', '.join(map(repr, lacking))}, which the points were made of.{hints} Give records with "
            "the same quasi-identifiers."
        )


def _read_location(parts: Sequence[str], values: Sequence[Values]) -> Reading:
    for part, given, limit, what in zip(
        parts, values, (90.0, 180.0), ("latitude", "longitude"), strict=True
    ):
        _check_finite(part, given)
        _check_degrees(part, given, limit, what)
    missing = values[0].missing | values[1].missing
    vectors = unit_vectors(*(np.where(missing, 0.0, given.reals()) for given in values))
    return Reading(values[0], missing, vectors=vectors)


def _rename(name: str, unit: str) -> str:
    """The name of the same time counted in ``unit``; as it is if that is no whole number."""
    count, _, given = name.partition(" ")
    whole, rest = divmod(int(count) * NANOSECONDS[given], NANOSECONDS[unit])
    return name if rest else f"{whole} {unit}"


def _not_nan(number: float) -> float | None:
    return None if np.isnan(number) else number


def _check_storage(column: EncodedColumn, part: str, values: Values) -> None:
    if column.kind in ("numeric", "location"):
        fits = values.is_number
    else:
        fits = _LIKE.get(values.storage) == _LIKE.get(column.storage)
    if not fits and not values.missing.all():
        raise SchemaError(
            f"Column {part!r} is {column.kind}, of {column.storage} values, but here it holds {values.storage} values, "
            f"the first in row {np.argmin(values.missing) + 1}. Convert them."
        )


def _check_finite(name: str, values: Values) -> None:
    if values.data.dtype.kind != "f":
        return
    infinite = np.flatnonzero(np.isinf(values.data) & ~values.missing)
    if len(infinite):
        raise DataError(
            f"Column {name!r} holds {len(infinite)} infinite values, the first in row {infinite[0] + 1}. Replace them "
            "by numbers, or by missing values."
        )


def _check_degrees(name: str, values: Values, limit: float, what: str) -> None:
    outside = np.flatnonzero((np.abs(values.reals()) > limit) & ~values.missing)
    if len(outside):
        raise DataError(
            f"Column {name!r}: {len(outside)} rows are no {what} in degrees (within ±{limit:g}), the first is row "
            f"{outside[0] + 1}."
        )


CODE_BASE = 10.0
"""How much farther apart two codes lie for each further character, from the right, in which they differ."""


@dataclass(frozen=True)
class _Moments:
    """A mean and a population deviation."""

    mean: float
    deviation: float


def fit_column(column: Column, reading: Reading, *, first: int) -> EncodedColumn:
    """The dimensions that the (resolved) quasi-identifier becomes, from ``first`` on."""
    values, kind = reading.values, str(column.kind)
    unit = values.unit if values.is_time else None
    blank = EncodedColumn(
        column.name, kind, column.parts, values.storage, unit, float(column.weight), first
    )
    return FITTERS[kind](blank, column, reading)


def indicator(dimensions: int) -> float:
    """What marks a category in its dimension, so that a mismatch has distance 1: two categories share a dimension."""
    return 1.0 if dimensions == 1 else 1.0 / float(np.sqrt(2.0))


def subtract(data: NDArray[Any], origin: int, factor: int = 1) -> Floats:
    """``data`` times ``factor``, less ``origin``, in integers if they hold it, so that large ones lose nothing."""
    if len(data):
        low, high = int(data.min()) * factor, int(data.max()) * factor
        if all(
            -(2**63) <= bound < 2**63 for bound in (low, high, origin, low - origin, high - origin)
        ):
            return ((data if factor == 1 else data * factor) - origin).astype(np.float64)
    return data.astype(np.float64) * factor - float(origin)


# ---------------------------------------------------------------------------------------------- one function a kind


def _fit_numbers(blank: EncodedColumn, _: Column, reading: Reading) -> EncodedColumn:
    data = reading.values.data
    if reading.missing.any():
        data = data[~reading.missing]
    low, high = (data.min(), data.max()) if len(data) else (0, 0)
    if low == high:
        return blank
    if data.dtype.kind == "i":
        return _fit_whole(blank, data, int(low), int(high))
    return _fit_real(blank, data, float(low), float(high))


def _fit_whole(blank: EncodedColumn, data: Integers, low: int, high: int) -> EncodedColumn:
    """As floats, less a base if they are so large that floats could not tell them apart."""
    base = 0 if max(-low, high) < 2**52 else (low + high) // 2
    fitted = _fit_real(blank, subtract(data, base), float(low - base), float(high - base))
    return replace(fitted, origin=base + int(fitted.origin))


def _fit_real(blank: EncodedColumn, data: Floats, low: float, high: float) -> EncodedColumn:
    """The origin is a round number near the mean: the least value would do as well, but it is one person's."""
    exponent = _exponent(high / 2 - low / 2)
    if exponent:
        data, low, high = np.ldexp(data, exponent), ldexp(low, exponent), ldexp(high, exponent)
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    moments = _moments(data - middle, half)
    # A grid no wider than the values are apart keeps the digits of the centre; whole where whole numbers may be.
    grid = 1.0 if half >= 0.5 else ldexp(0.5, frexp(moments.deviation)[1])
    origin = float(np.rint((middle + moments.mean) / grid)) * grid
    centre, scale = np.array([middle - origin + moments.mean]), np.array([moments.deviation])
    return replace(blank, origin=origin, exponent=exponent, centre=centre, scale=scale)


def _fit_ordinal(blank: EncodedColumn, column: Column, reading: Reading) -> EncodedColumn:
    if column.order is None:
        counts = np.bincount(reading.codes[~reading.missing], minlength=len(reading.names))
        named = replace(blank, names=reading.names, counts=counts)
        return _fit_places(
            named, np.arange(len(counts), dtype=np.float64), reading.codes[~reading.missing]
        )
    ranks = reading.values.ranks(column.order)
    strange = np.flatnonzero((ranks < 0) & ~reading.missing)
    if len(strange):
        raise SchemaError(
            f"Column {column.name!r}: {len(strange)} rows hold a category that is not in its order, the first is row "
            f"{strange[0] + 1}. Complete the order."
        )
    named = replace(blank, names=column.order)
    return _fit_places(
        named, np.arange(len(column.order), dtype=np.float64), ranks[~reading.missing]
    )


def _fit_nominal(blank: EncodedColumn, _: Column, reading: Reading) -> EncodedColumn:
    counts = np.bincount(reading.codes[~reading.missing], minlength=len(reading.names))
    used = np.flatnonzero(counts)
    counts = counts[used]
    named = replace(
        blank, names=tuple(reading.names[code] for code in used.tolist()), counts=counts
    )
    if len(used) < 2:
        return named
    marked = counts[1:] if len(used) == 2 else counts
    # Sums of indicators as they come out one by one, which is how a mean over the rows adds them up.
    sums = np.cumsum(np.full(marked.max(), indicator(len(marked))))
    return replace(named, centre=sums[marked - 1] / counts.sum(), scale=np.ones(len(marked)))


def _fit_code(blank: EncodedColumn, _: Column, reading: Reading) -> EncodedColumn:
    order = sorted(range(len(reading.names)), key=reading.names.__getitem__)
    names = tuple(reading.names[code] for code in order)
    longest = max((len(name) for name in names), default=0)
    places, place = np.zeros(len(names)), 0.0
    for at, (before, after) in enumerate(pairwise(names), start=1):
        place += CODE_BASE ** min(longest - shared_length(before, after), 100)
        places[at] = place
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    ranks = rank[reading.codes[~reading.missing]]
    return _fit_places(
        replace(blank, names=names, counts=np.bincount(ranks, minlength=len(names))), places, ranks
    )


def _fit_location(blank: EncodedColumn, _: Column, reading: Reading) -> EncodedColumn:
    present = reading.vectors[~reading.missing] if reading.missing.any() else reading.vectors
    if len(present) == 0 or (present == present[0]).all():
        return blank
    centre = present.mean(axis=0)
    scale = np.sqrt(((present - centre) ** 2).sum() / len(present) / 2.0)
    return replace(blank, centre=centre, scale=np.full(3, scale))


FITTERS: dict[str, Callable[[EncodedColumn, Column, Reading], EncodedColumn]] = {
    "numeric": _fit_numbers,
    "datetime": _fit_numbers,
    "ordinal": _fit_ordinal,
    "nominal": _fit_nominal,
    "code": _fit_code,
    "location": _fit_location,
}


# ---------------------------------------------------------------------------------------------- shared steps


def _fit_places(named: EncodedColumn, places: Floats, ranks: Integers) -> EncodedColumn:
    """The column with the ascending ``places`` of its names standardized, given the names' numbers of all records."""
    low, high = (places[ranks.min()], places[ranks.max()]) if len(ranks) else (0.0, 0.0)
    if low == high:
        return replace(named, places=np.zeros(len(places)))
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    centred = (places - middle) / half
    mean = centred[ranks].mean()
    centred -= mean
    deviation = np.sqrt((centred[ranks] ** 2).mean())
    centre, scale = np.array([middle + mean * half]), np.array([deviation * half])
    return replace(named, centre=centre, scale=scale, places=centred / deviation)


def _moments(x: Floats, half: float) -> _Moments:
    """The moments of ``x``, in two passes within [-1, 1], so that no square overflows or vanishes. Changes ``x``."""
    x /= half
    mean = float(x.mean())
    x -= mean
    np.square(x, out=x)
    return _Moments(mean * half, float(np.sqrt(x.mean())) * half)


def _exponent(half: float) -> int:
    """The power of two that brings values so far apart away from the ends of what floats can hold."""
    if half > 2.0**1000:
        return -100
    return 600 if half < 2.0**-900 else 0


FARTHEST = 1e100
"""No coordinate is larger, so that squared distances stay finite whatever a further record holds."""

BLOCK = 1 << 16
"""Rows of indicators made at a time, so that there is no second matrix of them."""


def place_column(column: EncodedColumn, reading: Reading, out: Floats) -> int:
    """The number of records whose value the column does not know; the coordinates of all are written to ``out``."""
    return PLACERS[column.kind](column, reading, out)


# ---------------------------------------------------------------------------------------------- one function a kind


def _place_numbers(column: EncodedColumn, reading: Reading, out: Floats) -> int:
    if column.constant:
        return 0
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # missing values mean nothing, and far ones are cut off
        x = _less_origin(column, reading.values)
        x -= column.centre[0]
        x /= column.scale[0]
    _finish(column, reading, x[:, np.newaxis], out)
    return 0


def _place_location(column: EncodedColumn, reading: Reading, out: Floats) -> int:
    if not column.constant:
        x = reading.vectors - column.centre
        x /= column.scale
        _finish(column, reading, x, out)
    return 0


def _place_nominal(column: EncodedColumn, reading: Reading, out: Floats) -> int:
    found = _find(column, reading.names)
    strange = _count_strange(found, reading)
    if column.constant:
        return strange
    points = _points_of_names(column)
    found[:-1][found[:-1] < 0] = len(points) - 2
    for first in range(0, len(out), BLOCK):
        block = slice(first, first + BLOCK)
        out[block] = points[found[reading.codes[block]]]
    return strange


def _place_ordinal(column: EncodedColumn, reading: Reading, out: Floats) -> int:
    numbers = reading.values.is_number or reading.values.is_time
    return _place_named(column, reading, out, _between_neighbours if numbers else _at_mean)


def _place_code(column: EncodedColumn, reading: Reading, out: Floats) -> int:
    return _place_named(column, reading, out, _by_prefix)


PLACERS: dict[str, Callable[[EncodedColumn, Reading, Floats], int]] = {
    "numeric": _place_numbers,
    "datetime": _place_numbers,
    "ordinal": _place_ordinal,
    "nominal": _place_nominal,
    "code": _place_code,
    "location": _place_location,
}


# ---------------------------------------------------------------------------------------------- numbers


def _less_origin(column: EncodedColumn, values: Values) -> Floats:
    """The data less the column's origin, in the column's unit."""
    origin = column.origin
    if isinstance(origin, int) and values.data.dtype.kind == "i":
        given = NANOSECONDS.get(values.unit or "", 1)
        fitted = NANOSECONDS.get(column.unit or "", 1) if values.unit else 1
        # One of the two divides the other. The difference is taken in the finer one, where it is exact.
        finer, coarser = max(given // fitted, 1), max(fitted // given, 1)
        x = subtract(values.data, origin * coarser, finer)
        if coarser > 1:
            x /= coarser
        return x
    reals = values.data.astype(np.float64, copy=False)
    x = (np.ldexp(reals, column.exponent) if column.exponent else reals) - float(origin)
    if isinstance(origin, int):
        x -= origin - int(float(origin))  # what a float cannot hold of it
    return x


def _finish(column: EncodedColumn, reading: Reading, coordinates: Floats, out: Floats) -> None:
    np.clip(coordinates, -FARTHEST, FARTHEST, out=coordinates)
    if reading.missing.any():
        np.copyto(coordinates, 0.0, where=reading.missing[:, np.newaxis])
    np.multiply(coordinates, np.sqrt(column.weight), out=out)


# ---------------------------------------------------------------------------------------------- names


def _points_of_names(column: EncodedColumn) -> Floats:
    """The point of each category of a nominal column, then that of an unknown one and that of a missing value."""
    points = np.zeros((len(column.names) + 2, column.dimensions))
    dimensions = np.arange(column.dimensions)
    # Of two categories that share a dimension, the first has no indicator.
    points[dimensions + (len(column.names) - column.dimensions), dimensions] = indicator(
        column.dimensions
    )
    points[:-1] -= column.centre
    return np.asarray(points * np.sqrt(column.weight))


def _find(column: EncodedColumn, names: Sequence[str]) -> Integers:
    """The position of each name among the column's, -1 if it is not known; then a -1 for missing values."""
    known = {name: at for at, name in enumerate(column.names)}
    return np.array([*(known.get(name, -1) for name in names), -1], dtype=np.int64)


def _count_strange(found: Integers, reading: Reading) -> int:
    return int(np.count_nonzero(found[reading.codes] < 0) - np.count_nonzero(reading.missing))


def _place_named(
    column: EncodedColumn,
    reading: Reading,
    out: Floats,
    guess: Callable[[EncodedColumn, Sequence[str]], list[float]],
) -> int:
    """Known names at their places, others where ``guess`` puts them."""
    found = _find(column, reading.names)
    strange = _count_strange(found, reading)
    if column.constant:
        return strange
    places = np.append(column.places, 0.0)[found]
    unknown = np.flatnonzero(found[:-1] < 0)
    places[unknown] = guess(column, [reading.names[at] for at in unknown.tolist()])
    out[:, 0] = (places * np.sqrt(column.weight))[reading.codes]
    return strange


def _at_mean(_: EncodedColumn, names: Sequence[str]) -> list[float]:
    return [0.0] * len(names)


def _between_neighbours(column: EncodedColumn, names: Sequence[str]) -> list[float]:
    """Midway between the places of the next smaller and the next larger known number, or at the end."""
    numbers = [
        (number_of(str(name)), place)
        for name, place in zip(column.names, column.places.tolist(), strict=True)
    ]
    known = sorted((number, place) for number, place in numbers if number is not None)
    if not known:
        return _at_mean(column, names)
    ends = [known[0][1], *(place for _, place in known), known[-1][1]]
    keys = [number for number, _ in known]
    after = [
        bisect_left(keys, number_of(name) or 0) for name in names
    ]  # names of numbers, so that none is None
    return [(ends[at] + ends[at + 1]) / 2 for at in after]


def _by_prefix(column: EncodedColumn, names: Sequence[str]) -> list[float]:
    """The place of the known code that shares the longest prefix, the alphabetically first of those."""
    known = [str(name) for name in column.names]
    if not known:
        return _at_mean(column, names)
    return [float(column.places[_nearest(known, name)]) for name in names]


def _nearest(known: list[str], name: str) -> int:
    at = bisect_left(known, name)  # the codes that share most with it stand next to where it would
    shared = max(shared_length(name, other) for other in known[max(at - 1, 0) : at + 1])
    return bisect_left(known, name[:shared])


MOST_CATEGORIES = 1000
"""A nominal column becomes a dimension a category; beyond this it is a name or a code rather than a category."""

FEW_CATEGORIES = 50
"""So many categories are never too many; more must be at most half as many as the records."""

_FITTING = {
    **dict.fromkeys(("integer", "float"), "numeric, code or ordinal if it is that"),
    "text": "code or ordinal if it is that; if it holds dates, write them as YYYY-MM-DD",
}
"""What a column of too many categories can be declared, by its storage; of the others only times may have so many."""


def encode(table: Table, schema: Schema) -> Encoded:
    """The records as points: one block of dimensions for each quasi-identifier of the (resolved) schema.

    Numbers, dates and ranks: standardized to mean 0 and population variance 1. Nominal values: indicators scaled by
    1/sqrt(2), so that a mismatch has distance 1. Codes: a place on a line, the farther apart the earlier two codes
    differ. Locations: unit vectors, scaled to variance 2, as two columns have. A column's weight multiplies its
    squared distances. A missing value stands at the column's mean, where it pulls to no side. Constant columns have
    no dimension. Time and memory O(n m).
    """
    readings = _read_all(table, schema.quasi)
    encoding = _fit_all(schema.quasi, readings)
    _check_categories(encoding, table.rows)
    placed = _place_all(encoding, readings, table.rows)
    return Encoded(placed.matrix, encoding, sampling_weights(table, schema))


def encode_confidential(table: Table, schema: Schema) -> Floats:
    """The records' confidential columns as points, on the scales of :func:`encode`; for the design of cells alone.

    A missing value stands at the mean; a column without differences has no dimension.
    """
    readings = _read_all(table, schema.confidential)
    return _place_all(_fit_confidential(schema, readings), readings, table.rows).matrix


def fit_confidential(table: Table, schema: Schema) -> Encoding:
    """How the records' confidential columns become points: what :func:`encode_confidential` does."""
    return _fit_confidential(schema, _read_all(table, schema.confidential))


def _fit_confidential(schema: Schema, readings: Sequence[Reading]) -> Encoding:
    encoding = _fit_all(schema.confidential, readings)
    for column in encoding.columns:
        if column.kind == "nominal" and len(column.names) > MOST_CATEGORIES:
            raise SchemaError(
                f"Column {column.name!r} has {len(column.names)} categories, more than {MOST_CATEGORIES}: too many to "
                "preserve their dependence. Group its categories, or give it the role keep."
            )
    return encoding


def fit(table: Table, schema: Schema) -> Encoding:
    """How the records of the table become points: what :func:`encode` does, to be done to further records."""
    encoding = _fit_all(schema.quasi, _read_all(table, schema.quasi))
    _check_categories(encoding, table.rows)
    return encoding


def place(table: Table, encoding: Encoding) -> Placed:
    """The records of a table as points of an encoding; those that it was fitted to, as :func:`encode` has them.

    A category that the encoding does not know is counted as strange. A nominal one has no indicator; a number of an
    ordinal column lies midway between its neighbours, or at the end; other ordinal values stand at the mean; a code
    stands where the known code does that shares the longest prefix with it, the first of those. Missing values
    stand at the mean. Raises :class:`SchemaError` for a column that is not there or that holds values of another
    type, :class:`DataError` for infinite numbers and impossible degrees. Time and memory O(n m).
    """
    check_parts(table, encoding)
    readings = [read_again(column, table) for column in encoding.columns]
    return _place_all(encoding, readings, table.rows)


def _read_all(table: Table, columns: Sequence[Column]) -> list[Reading]:
    return [read_column(str(column.kind), column.parts, table) for column in columns]


def _fit_all(given: Sequence[Column], readings: Sequence[Reading]) -> Encoding:
    columns: list[EncodedColumn] = []
    for column, reading in zip(given, readings, strict=True):
        columns.append(fit_column(column, reading, first=columns[-1].last if columns else 0))
    return Encoding(tuple(columns))


def _check_categories(encoding: Encoding, records: int) -> None:
    """Refuse nominal quasi-identifiers whose categories are too many to be categories."""
    for column in encoding.columns:
        count = len(column.names) if column.kind == "nominal" else 0
        if count > MOST_CATEGORIES:
            raise SchemaError(
                f"Column {column.name!r} has {count} categories, more than {MOST_CATEGORIES}. {_other_kinds(column)}"
            )
        if count > max(FEW_CATEGORIES, records / 2):
            raise SchemaError(
                f"Column {column.name!r} has {count} categories in {records} records: the value that a cell would "
                f"publish is one person's own. {_other_kinds(column)}"
            )


def _other_kinds(column: EncodedColumn) -> str:
    """What to do about a nominal column of too many categories: what its values can be declared, and what else."""
    return (
        f"Declare it {_FITTING.get(column.storage, 'datetime or ordinal if it is that')}; if it names people, it is an "
        "identifier; otherwise group its categories."
    )


def _place_all(encoding: Encoding, readings: Sequence[Reading], rows: int) -> Placed:
    matrix = np.empty((rows, encoding.dimensions))
    pairs = zip(encoding.columns, readings, strict=True)
    strange = {
        column.name: place_column(column, reading, matrix[:, column.first : column.last])
        for column, reading in pairs
    }
    return Placed(matrix, {name: count for name, count in strange.items() if count})


def sampling_weights(table: Table, schema: Schema) -> Floats | None:
    """The weight of each record; None if the schema names no weights. Refused unless they are positive numbers."""
    if schema.weight is None:
        return None
    values = table.columns[schema.weight]
    weights = values.reals() if values.is_number else np.full(table.rows, np.nan)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
    if len(wrong):
        raise DataError(
            f"Weight column {schema.weight!r} must hold positive numbers; {len(wrong)} rows do not, the first is row "
            f"{wrong[0] + 1}."
        )
    return weights
