"""Quasi-identifiers as the other steps want them: numbers, categories with codes, or unit vectors."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

import numpy as np

from microcell.errors import DataError, SchemaError
from microcell.kernels.sphere import unit_vectors
from microcell.model import EncodedColumn, Encoding, Floats, Integers, Mask, Schema, Table, Values

__all__ = [
    "NANOSECONDS",
    "Reading",
    "check_missing",
    "check_parts",
    "count_missing",
    "missing_rows",
    "number_of",
    "read_again",
    "read_column",
    "shared_length",
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
    lacking = [part for column in encoding.columns for part in column.parts if part not in table.columns]
    if lacking:
        meant = {part: get_close_matches(part, table.names, n=1) for part in lacking}
        hints = "".join(f" Is {close[0]!r} meant to be {part!r}?" for part, close in meant.items() if close)
        raise SchemaError(
            f"The table lacks {', '.join(map(repr, lacking))}, which the points were made of.{hints} Give records with "
            "the same quasi-identifiers."
        )


def _read_location(parts: Sequence[str], values: Sequence[Values]) -> Reading:
    for part, given, limit, what in zip(parts, values, (90.0, 180.0), ("latitude", "longitude"), strict=True):
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
