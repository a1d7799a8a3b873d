"""Columns before and after, read on one scale although the release may store them in another type."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from microcell.errors import DataError, SchemaError
from microcell.model import Column, Floats, Integers, Table, Values

__all__ = [
    "FAMILY",
    "NANOSECONDS",
    "Categories",
    "Numbers",
    "Points",
    "read_categories",
    "read_numbers",
    "read_points",
    "read_ranks",
]

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"\s*({_NUMBER})(?:(?:\s*[-\u2013]\s*|\s+to\s+)({_NUMBER}))?\s*")

NANOSECONDS: Mapping[str, int] = {
    "D": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
"""The length of each unit of time."""

FAMILY: Mapping[str, str] = {"date": "moment", "datetime": "moment", "duration": "duration", "time": "time of day"}
"""Storages of times that can be compared have the same family."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column before and after on one number line, NaN where missing: a value is ``origin`` + number.

    ``unreadable`` counts the published values that have no place on the line; they are NaN too.
    """

    before: Floats
    after: Floats
    origin: int = 0
    unreadable: int = 0


@dataclass(frozen=True, eq=False)
class Categories:
    """A column before and after as codes into the same ``names``, -1 where missing."""

    before: Integers
    after: Integers
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Points:
    """Locations before and after as points of the unit sphere, one a row, NaN where missing."""

    before: Floats
    after: Floats


def read_numbers(name: str, original: Values, released: Values) -> Numbers:
    """Both columns as numbers; published ranges such as "20-29" or "-3 to 1" as their middles.

    Integers and times are shifted by a whole number before they become floats, so that values near 1.7e18 keep
    their spread.

    Examples
    --------
    >>> ages = Values("integer", np.array([21, 28]), np.array([False, False]))
    >>> bands = Values("text", np.array([0, 0]), np.array([False, False]), categories=("20-29",))
    >>> reading = read_numbers("age", ages, bands)
    >>> reading.origin + reading.after
    array([24.5, 24.5])
    """
    origin = _origin(original, released)
    before = _shifted(name, original, origin, "original")
    if released.storage == "text" and not original.is_time:
        middles = np.array([_middle(text) for text in released.categories], dtype=np.float64)
        after = _looked_up(middles - origin, released)
        return Numbers(before, after, origin, _unreadable(after, released))
    _check_storage(name, original, released)
    if released.is_time and original.is_time and released.unit != original.unit:
        return Numbers(before, _in_unit(_shifted(name, released, 0, "released"), released, original) - origin, origin)
    return Numbers(before, _shifted(name, released, origin, "released"), origin)


def read_ranks(column: Column, original: Values, released: Values) -> Numbers:
    """Both columns as ranks 0, 1, 2, ... in the column's order, or in the order of its numbers if none is declared.

    A number between two of the original's ranks lies between them.
    """
    if column.order is None and original.storage not in ("text", "boolean"):
        numbers = read_numbers(column.name, original, released)
        distinct = np.unique(numbers.before[~np.isnan(numbers.before)])
        ranks = np.arange(len(distinct), dtype=np.float64)
        return Numbers(
            _interpolated(numbers.before, distinct, ranks),
            _interpolated(numbers.after, distinct, ranks),
            unreadable=numbers.unreadable,
        )
    order = column.order if column.order is not None else original.categories
    before, after = _ranked(original, order), _ranked(released, order)
    strange = np.isnan(before) & ~original.missing
    if strange.any():
        raise DataError(
            f"Column {column.name!r} of the original table holds a category that is not in its order, first in row "
            f"{int(np.argmax(strange)) + 1}. Add it to the order."
        )
    return Numbers(before, after, unreadable=_unreadable(after, released))


def read_categories(name: str, original: Values, released: Values) -> Categories:
    """Both columns as codes into one list of names: those of the original, then what only the release has.

    Times in different units are the same if they are so in the coarser one.

    Examples
    --------
    >>> no = np.array([False, False])
    >>> before = Values("text", np.array([0, 1]), no, categories=("a", "b"))
    >>> after = Values("text", np.array([0, 0]), no, categories=("c",))
    >>> read_categories("x", before, after).after
    array([2, 2])
    """
    before, first = original.factorize()
    codes, second = released.factorize()
    if original.is_time and released.is_time and original.unit != released.unit:
        _check_storage(name, original, released)
        unit = max(str(original.unit), str(released.unit), key=NANOSECONDS.__getitem__)
        first, second = (tuple(_counted_in(unit, item) for item in names) for names in (first, second))
    place = {text: code for code, text in enumerate(dict.fromkeys((*first, *second)))}
    moved = np.array([place[text] for text in second], dtype=np.int64)
    after = np.full(len(codes), -1, dtype=np.int64)
    after[codes >= 0] = moved[codes[codes >= 0]]
    return Categories(before.astype(np.int64), after, tuple(place))


def read_points(column: Column, original: Table, released: Table) -> Points:
    """Both pairs of columns as points of the unit sphere."""
    latitude, longitude = (read_numbers(part, original.columns[part], released.columns[part]) for part in column.parts)
    return Points(
        _on_sphere(latitude.before + latitude.origin, longitude.before + longitude.origin),
        _on_sphere(latitude.after + latitude.origin, longitude.after + longitude.origin),
    )


def _on_sphere(latitude: Floats, longitude: Floats) -> Floats:
    phi, theta = np.radians(latitude), np.radians(longitude)
    # A point with one coordinate missing is missing, also on the axis that needs only the other one.
    height = np.where(np.isnan(theta), np.nan, np.sin(phi))
    return np.column_stack((np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), height))


def _check_storage(name: str, original: Values, released: Values) -> None:
    if released.storage == "empty" or original.storage == "empty":
        return
    if original.is_time and released.is_time:
        fits = FAMILY[original.storage] == FAMILY[released.storage]
    else:
        fits = original.is_number and released.is_number
    if not fits:
        raise SchemaError(
            f"Column {name!r} holds {original.storage} values in the original and {released.storage} values in the "
            "release, so they cannot be compared. Give the table as it was published, or correct the column's kind."
        )


def _origin(original: Values, released: Values) -> int:
    """A whole number in the middle of the original's, if both columns hold integers or times; 0 otherwise."""
    known = original.data[~original.missing]
    if not len(known) or known.dtype.kind != "i" or not (original.is_number or original.is_time):
        return 0
    bound = 2**62
    sizes = [known, released.data[~released.missing]] if released.data.dtype.kind == "i" else [known]
    if any(len(data) and (int(data.max()) > bound or int(data.min()) < -bound) for data in sizes):
        return 0
    return (int(known.min()) + int(known.max())) // 2


def _shifted(name: str, values: Values, origin: int, which: str) -> Floats:
    if values.storage == "empty":
        return np.full(len(values), np.nan)
    data = values.data
    shifted = (data - origin).astype(np.float64) if data.dtype.kind == "i" else data.astype(np.float64) - origin
    shifted = np.where(values.missing, np.nan, shifted)
    infinite = np.isinf(shifted)
    if infinite.any():
        raise DataError(
            f"Column {name!r} of the {which} table holds an infinite value, first in row "
            f"{int(np.argmax(infinite)) + 1}. Correct it or mark it as missing."
        )
    return shifted


def _in_unit(counts: Floats, values: Values, other: Values) -> Floats:
    return counts * (NANOSECONDS[str(values.unit)] / NANOSECONDS[str(other.unit)])


def _counted_in(unit: str, name: str) -> str:
    """The name of the same time counted in a coarser unit; as it is if that is no whole number."""
    count, _, given = name.partition(" ")
    whole, rest = divmod(int(count) * NANOSECONDS[given], NANOSECONDS[unit])
    return name if rest else f"{whole} {unit}"


def _middle(text: str) -> float:
    """The middle of a published range, NaN if the text is none."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return np.nan
    low, high = float(found[1]), float(found[2] or found[1])
    middle = low / 2 + high / 2
    return middle if isfinite(middle) else np.nan


def _looked_up(table: Floats, values: Values) -> Floats:
    codes, _ = values.factorize()
    found = np.full(len(codes), np.nan)
    found[codes >= 0] = table[codes[codes >= 0]]
    return found


def _ranked(values: Values, order: tuple[str, ...]) -> Floats:
    rank = {category: float(place) for place, category in enumerate(order)}
    _, names = values.factorize()
    return _looked_up(np.array([rank.get(name, np.nan) for name in names], dtype=np.float64), values)


def _interpolated(numbers: Floats, distinct: Floats, ranks: Floats) -> Floats:
    known = ~np.isnan(numbers)
    found: NDArray[np.float64] = np.full(len(numbers), np.nan)
    if len(distinct):
        found[known] = np.interp(numbers[known], distinct, ranks)
    return found


def _unreadable(after: Floats, released: Values) -> int:
    return int((np.isnan(after) & ~released.missing).sum())
