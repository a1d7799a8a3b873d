"""One column of the original and of the release, read on a common scale."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from microcell.errors import DataError, SchemaError
from microcell.kernels.arrays import Floats, Integers, Mask
from microcell.kinds.column import Column
from microcell.kinds.losses import Loss, centre, squared_loss
from microcell.kinds.values import (
    NANOSECONDS,
    NUMBER_STORAGES,
    TIME_FAMILY,
    Values,
    count_in_unit,
)

__all__ = [
    "Categories",
    "ColumnPair",
    "ColumnPoints",
    "Coordinates",
    "Histogram",
    "LinePair",
    "Numbers",
    "Quantity",
    "count_names",
    "covered",
    "drop_infinite",
    "indicator_coordinates",
    "indicator_points",
    "line_points",
    "points_per_record",
    "read_categories",
    "read_numbers",
    "read_quantity",
    "scale_of",
    "with_left_out",
]

T = TypeVar("T", np.float64, np.int64)

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"\s*({_NUMBER})(?:(?:\s*[-\u2013]\s*|\s+to\s+)({_NUMBER}))?\s*")

_DATES = re.compile(r"\s*(-?\d{4,}-\d\d-\d\d) to (-?\d{4,}-\d\d-\d\d)\s*")

_INTERVALS = 20
"""Approximate number of intervals of a histogram."""

HISTOGRAM_CATEGORIES = 12
"""Number of categories shown in a histogram; rarer ones are combined."""

_PROJECTED_CATEGORIES = 12
"""Number of categories that get an indicator in the projection of the records."""

_LINKAGE_CATEGORIES = 50
"""Number of categories that get an indicator in record linkage; rarer ones share a point."""


@dataclass(frozen=True, eq=False)
class Quantity:
    """A column of the matched records on a number line, NaN where missing.

    A value of the column is (``origin`` + number) * ``step``, in ``unit``. For a confidential
    column, ``quasi`` is false and ``after`` is ``before``.
    """

    name: str
    quasi: bool
    before: Floats
    after: Floats
    origin: int = 0
    step: float = 1.0
    unit: str | None = None


@dataclass(frozen=True, eq=False)
class Histogram:
    """How often each category, or interval of values, occurs before and after.

    Categories have ``labels``; intervals have ``edges``, in ``unit``.
    """

    name: str
    before: Integers
    after: Integers
    labels: tuple[str, ...] = ()
    edges: Floats | None = None
    unit: str | None = None


@dataclass(frozen=True, eq=False)
class ColumnPoints:
    """A column as points: the distinct ``places``, and each record's place before and after.

    Records share places, so a column of many dimensions takes no more memory than its categories. A
    constant column has no dimension.
    """

    places: Floats
    before: Integers
    after: Integers


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Some dimensions before and after, one row per record, NaN where missing."""

    before: Floats
    after: Floats


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column before and after on a number line, NaN where missing.

    A value of the column is (``origin`` + number) * ``step``, in ``unit``. ``whole`` is true for
    whole numbers and times. ``unreadable`` counts published values without a place on the line;
    they are NaN, too.
    """

    name: str
    before: Floats
    after: Floats
    origin: int = 0
    unreadable: int = 0
    step: float = 1.0
    unit: str | None = None
    whole: bool = False

    def quantity(self, rows: Integers) -> Quantity:
        """Return the matched records: published row i with original row ``rows[i]``."""
        return Quantity(
            self.name, True, self.before[rows], self.after, self.origin, self.step, self.unit
        )

    def histogram(self) -> Histogram | None:
        """Count the values in about 20 intervals; None if there is no value."""
        before = self.before[~np.isnan(self.before)]
        after = self.after[~np.isnan(self.after)]
        both = np.concatenate((before, after))
        if not len(both):
            return None
        edges = _edges(both, whole=self.whole)
        return Histogram(
            self.name,
            np.histogram(before, bins=edges)[0].astype(np.int64),
            np.histogram(after, bins=edges)[0].astype(np.int64),
            edges=(edges + self.origin) * self.step,
            unit=self.unit,
        )


@dataclass(frozen=True, eq=False)
class Categories:
    """A column before and after as codes into the same ``names``, -1 where missing."""

    before: Integers
    after: Integers
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ColumnPair(ABC):
    """A quasi-identifier of the original and of the release, on a common scale.

    Original values are in the order of the original; ``rows`` in the methods is the original row of
    each published row.
    """

    column: Column

    @property
    def unreadable(self) -> int:
        """Number of published values that cannot be compared with the original."""
        return 0

    @property
    def categories(self) -> Categories | None:
        """The categories, if models treat the column as categorical; otherwise None."""
        return None

    def covered(self, rows: Integers) -> Mask | None:
        """Return which matched records are published with a group or set that has their value.

        None if cells publish single values.
        """
        return None

    def quantities(self, rows: Integers) -> Iterator[Quantity]:
        """Yield the matched records as numeric features for models."""
        yield from ()

    @abstractmethod
    def loss(self, rows: Integers, weights: Floats) -> Loss:
        """Return the information loss of the matched records.

        Rows beyond those of the release were left out. They lose nothing, but count in the
        baseline, so that the loss is relative to the original whatever was left out.
        """

    @abstractmethod
    def histograms(self) -> Iterator[Histogram]:
        """Yield the distributions before and after; none for a column without any value."""

    @abstractmethod
    def points(self) -> ColumnPoints:
        """Return the records as points for record linkage, including all original records."""

    @abstractmethod
    def coordinates(self, before_rows: Integers, after_rows: Integers) -> Coordinates:
        """Return the coordinates of some records for a projection, on any scale."""


def with_left_out(before: NDArray[T], after: NDArray[T]) -> NDArray[T]:
    """Return the published values, followed by the original ones of records left out.

    Examples
    --------
    >>> with_left_out(np.array([1.0, 2.0, 9.0]), np.array([1.5, 1.5]))
    array([1.5, 1.5, 9. ])
    """
    return np.concatenate((after, before[len(after) :]))


@dataclass(frozen=True, eq=False)
class LinePair(ColumnPair):
    """A column whose values lie on a number line."""

    numbers: Numbers

    @property
    def unreadable(self) -> int:
        return self.numbers.unreadable

    def quantities(self, rows: Integers) -> Iterator[Quantity]:
        yield self.numbers.quantity(rows)

    def loss(self, rows: Integers, weights: Floats) -> Loss:
        before = self.numbers.before[rows]
        return squared_loss(before, with_left_out(before, self.numbers.after), weights)

    def histograms(self) -> Iterator[Histogram]:
        histogram = self.numbers.histogram()
        if histogram is not None:
            yield histogram

    def points(self) -> ColumnPoints:
        return line_points(self.numbers.before, self.numbers.after)

    def coordinates(self, before_rows: Integers, after_rows: Integers) -> Coordinates:
        before, after = self.numbers.before[before_rows], self.numbers.after[after_rows]
        present = ~np.isnan(before)
        ones = np.ones(int(present.sum()))
        centred = centre(before[present], np.concatenate((before, after)), ones)
        if centred.constant:
            return Coordinates(np.zeros((len(before), 1)), np.zeros((len(after), 1)))
        # A nonsensical published value must not squeeze all others into one point.
        both = np.clip(centred.after, -100, 100)
        return Coordinates(both[: len(before), None], both[len(before) :, None])


# Numbers


_FAMILY: Mapping[str, str] = {**dict.fromkeys(NUMBER_STORAGES, "number"), **TIME_FAMILY}
"""Numbers, and times of the same family, can be compared with each other."""


def read_numbers(name: str, original: Values, released: Values) -> Numbers:
    """Read both columns as numbers; published ranges such as "20-29" or "-3 to 1" as midpoints.

    Integers and times are shifted by a whole number before they become floats, so values near
    1.7e18 keep their spread.

    Examples
    --------
    >>> ages = Values("integer", np.array([21, 28]), np.array([False, False]))
    >>> bands = Values("text", np.array([0, 0]), np.array([False, False]), categories=("20-29",))
    >>> numbers = read_numbers("age", ages, bands)
    >>> numbers.origin + numbers.after
    array([24.5, 24.5])
    """
    origin = _origin(original, released)
    before = _shift(name, original, origin, "original")
    unreadable = 0
    dates = original.storage in ("date", "datetime")
    if released.storage == "text" and (dates or original.storage not in TIME_FAMILY):
        unit = original.unit if dates else None
        middle = [
            _middle_day(text, unit) if unit else _midpoint(text) for text in released.categories
        ]
        midpoints = np.array(middle, dtype=np.float64)
        codes, _ = released.factorize()
        after = np.append(midpoints - origin, np.nan)[codes]
        unreadable = int((np.isnan(after) & ~released.missing).sum())
    else:
        _check_comparable(name, original, released)
        if released.unit and original.unit and released.unit != original.unit:
            ratio = NANOSECONDS[released.unit] / NANOSECONDS[original.unit]
            after = _shift(name, released, 0, "released") * ratio - origin
        else:
            after = _shift(name, released, origin, "released")
    step, unit = _axis(original)
    whole = original.data.dtype.kind == "i"
    return Numbers(name, before, after, origin, unreadable, step, unit, whole)


def read_quantity(name: str, values: Values) -> Floats:
    """Read a single column as numbers, shifted by an origin; NaN where missing or infinite."""
    _check_comparable(name, values, values)
    values = drop_infinite(values)
    return _shift(name, values, _origin(values, values), "original")


def scale_of(values: Values) -> tuple[int, float, str | None]:
    """Return origin, step and unit of what :func:`read_quantity` returns."""
    values = drop_infinite(values)
    return _origin(values, values), *_axis(values)


def drop_infinite(values: Values) -> Values:
    if values.storage != "float" or not np.isinf(values.data).any():
        return values
    infinite = np.isinf(values.data)
    return Values("float", np.where(infinite, 0.0, values.data), values.missing | infinite)


def _check_comparable(name: str, original: Values, released: Values) -> None:
    if released.storage == "empty" or original.storage == "empty":
        return
    family = _FAMILY.get(original.storage)
    if family is None or family != _FAMILY.get(released.storage):
        raise SchemaError(
            f"Column {name!r} contains {original.storage} values in the original and "
            f"{released.storage} values in the release, which cannot be compared. "
            "Pass the table as it was published, or correct the column's kind.",
            code="schema.wrong_kind",
            column=name,
        )


def _origin(original: Values, released: Values) -> int:
    """Return a whole number in the middle of the original, 0 unless it has integers or times."""
    present = original.data[~original.missing]
    if not len(present) or present.dtype.kind != "i" or original.storage not in _FAMILY:
        return 0
    bound = 2**62
    columns = [present]
    if released.data.dtype.kind == "i":
        columns.append(released.data[~released.missing])
    if any(len(data) and (int(data.max()) > bound or int(data.min()) < -bound) for data in columns):
        return 0
    return (int(present.min()) + int(present.max())) // 2


def _shift(name: str, values: Values, origin: int, table: str) -> Floats:
    """Return the values minus the origin as floats, NaN where missing."""
    if values.storage == "empty":
        return np.full(len(values), np.nan)
    data = values.data
    if data.dtype.kind == "i":
        shifted = (data - origin).astype(np.float64)
    else:
        shifted = data.astype(np.float64) - origin
    shifted = np.where(values.missing, np.nan, shifted)
    infinite = np.isinf(shifted)
    if infinite.any():
        row = int(np.argmax(infinite)) + 1
        raise DataError(
            f"Column {name!r} of the {table} table contains an infinite value, first in row {row}. "
            "Correct it or mark it as missing.",
            code="data.not_finite",
            column=name,
            row=row,
            table=table,
        )
    return shifted


def _axis(values: Values) -> tuple[float, str | None]:
    """Return the size of one count and its unit; durations and times of day are in seconds."""
    if values.storage in ("duration", "time"):
        return NANOSECONDS[str(values.unit)] / 1e9, "seconds"
    return 1.0, values.unit


def _midpoint(text: str) -> float:
    """Return the midpoint of a published range, NaN if the text is not a range."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return np.nan
    low, high = float(match[1]), float(match[2] or match[1])
    midpoint = low / 2 + high / 2
    return midpoint if isfinite(midpoint) else np.nan


def _middle_day(text: str, unit: str) -> float:
    """Return the middle of a published range of dates in a unit, NaN if it is not one."""
    match = _DATES.fullmatch(text)
    if match is None:
        return np.nan
    try:
        first, last = (np.datetime64(day, "D").astype(np.int64) for day in match.groups())
    except ValueError:
        return np.nan
    return float((first + last) / 2 * (NANOSECONDS["D"] / NANOSECONDS[unit]))


def _edges(numbers: Floats, *, whole: bool) -> Floats:
    """Return the edges of the intervals; those of whole numbers start at whole numbers."""
    low, high = float(numbers.min()), float(numbers.max())
    if whole:
        low, high = float(np.floor(low)), float(np.floor(high)) + 1
        width = max(1.0, float(np.ceil((high - low) / _INTERVALS)))
        return low + width * np.arange(np.ceil((high - low) / width) + 1)
    steps = np.linspace(0, 1, _INTERVALS + 1 if high > low else 2)
    # Interpolating between the ends cannot overflow; adding steps to one end could.
    edges = low * (1 - steps) + high * steps
    edges[0], edges[-1] = low, high
    return np.maximum.accumulate(edges)


# Categories


def read_categories(name: str, original: Values, released: Values) -> Categories:
    """Read both columns as codes into one list of names: the original's, then new ones.

    Times in different units are equal if they are equal in the coarser unit.

    Examples
    --------
    >>> present = np.array([False, False])
    >>> before = Values("text", np.array([0, 1]), present, categories=("a", "b"))
    >>> after = Values("text", np.array([0, 0]), present, categories=("c",))
    >>> read_categories("x", before, after).after
    array([2, 2])
    """
    before, names_before = original.factorize()
    codes, names_after = released.factorize()
    if original.is_time and released.is_time and original.unit != released.unit:
        _check_comparable(name, original, released)
        unit = max(str(original.unit), str(released.unit), key=NANOSECONDS.__getitem__)
        names_before = tuple(count_in_unit(item, unit) for item in names_before)
        names_after = tuple(count_in_unit(item, unit) for item in names_after)
    position = {text: i for i, text in enumerate(dict.fromkeys((*names_before, *names_after)))}
    new_codes = np.array([*(position[text] for text in names_after), -1], dtype=np.int64)
    return Categories(before.astype(np.int64), new_codes[codes], tuple(position))


def covered(reading: Categories, rows: Integers, contains: Callable[[int, int], bool]) -> Mask:
    """Return which matched records have a different published text that contains their value.

    ``contains(original, published)`` takes codes of ``reading.names``.
    """
    before, after = reading.before[rows], reading.after
    span = len(reading.names) + 1
    pairs, position = np.unique((before + 1) * span + after + 1, return_inverse=True)
    codes = [(pair // span - 1, pair % span - 1) for pair in pairs.tolist()]
    hits = [old != new and min(old, new) >= 0 and contains(old, new) for old, new in codes]
    return np.array(hits, dtype=np.bool_)[position]


def count_names(
    name: str, categories: Categories, order: Sequence[str] | None = None
) -> Iterator[Histogram]:
    """Yield the counts of the 12 most frequent categories, of all others, and of missing values."""
    before, after = (
        np.bincount(side[side >= 0], minlength=len(categories.names))
        for side in (categories.before, categories.after)
    )
    both = before + after
    if not both.sum():
        return
    most_frequent = np.lexsort((-after, -before, -both))[:HISTOGRAM_CATEGORIES].tolist()
    shown = [code for code in most_frequent if both[code]]
    if order is None:
        shown.sort(key=lambda code: -int(before[code]))
    else:
        position = {item: rank for rank, item in enumerate(order)}
        shown.sort(key=lambda code: position.get(categories.names[code], len(position)))
    rows = [(categories.names[code], int(before[code]), int(after[code])) for code in shown]
    others = before.sum() - before[shown].sum(), after.sum() - after[shown].sum()
    missing = (categories.before < 0).sum(), (categories.after < 0).sum()
    for label, counts in (("other", others), ("(missing)", missing)):
        if any(counts):
            rows.append((label, int(counts[0]), int(counts[1])))
    labels, counts_before, counts_after = zip(*rows, strict=True)
    yield Histogram(name, np.array(counts_before), np.array(counts_after), labels=labels)


# Points


def line_points(before: Floats, after: Floats) -> ColumnPoints:
    """Standardize both columns by the original's mean and deviation; missing values at the mean."""
    present = before[~np.isnan(before)]
    both = centre(present, np.concatenate((before, after)), np.ones(len(present)))
    if both.constant:
        return _no_points(len(before), len(after))
    deviation = np.sqrt(np.square(both.before).mean())
    return _one_point_each(np.nan_to_num(both.after / deviation)[:, None], len(before))


def points_per_record(before: Floats, after: Floats, variance: float) -> ColumnPoints:
    """Scale vectors to a total variance about their mean; missing ones at the mean."""
    present = before[~np.isnan(before).any(axis=1)]
    mean = present.mean(axis=0) if len(present) else np.zeros(before.shape[1])
    total = float(np.square(present - mean).sum(axis=1).mean()) if len(present) else 0.0
    if total <= 1e-24:
        return _no_points(len(before), len(after))
    both = (np.concatenate((before, after)) - mean) * sqrt(variance / total)
    return _one_point_each(np.nan_to_num(both), len(before))


def indicator_points(categories: Categories) -> ColumnPoints:
    """Place frequent categories at distance 1 from each other, and unknown ones at the mean."""
    before = categories.before
    counts = np.bincount(before[before >= 0], minlength=len(categories.names))
    n_frequent = min(_LINKAGE_CATEGORIES, np.count_nonzero(counts))
    frequent = np.argsort(-counts, kind="stable")[:n_frequent]
    # Two categories need one indicator, and a single one needs none.
    frequent, height = (frequent[1:], 1.0) if len(frequent) < 3 else (frequent, sqrt(0.5))
    # One place per frequent category, one for all rarer ones, and one (the mean) for the rest.
    places = np.zeros((len(frequent) + 2, len(frequent)))
    places[np.arange(len(frequent)), np.arange(len(frequent))] = height
    position = np.where(counts > 0, len(frequent), len(frequent) + 1)
    position[frequent] = np.arange(len(frequent))
    mean = counts @ places[position] / max(int(counts.sum()), 1)
    places[-1] = mean
    position = np.append(position, len(frequent) + 1)
    return ColumnPoints(places - mean, position[before], position[categories.after])


def indicator_coordinates(
    categories: Categories, before_rows: Integers, after_rows: Integers
) -> Coordinates:
    """Return indicators of the 12 most frequent categories of the chosen records."""
    before, after = categories.before[before_rows], categories.after[after_rows]
    counts = np.bincount(before[before >= 0], minlength=1)
    frequent = np.argsort(-counts, kind="stable")[:_PROJECTED_CATEGORIES]
    return Coordinates(_indicators(before, frequent), _indicators(after, frequent))


def _indicators(codes: Integers, frequent: Integers) -> Floats:
    indicators: Floats = (codes[:, None] == frequent).astype(np.float64)
    indicators[codes < 0] = np.nan
    return indicators


def _one_point_each(places: Floats, n_before: int) -> ColumnPoints:
    rows = np.arange(len(places))
    return ColumnPoints(places, rows[:n_before], rows[n_before:])


def _no_points(n_before: int, n_after: int) -> ColumnPoints:
    return ColumnPoints(
        np.zeros((1, 0)), np.zeros(n_before, dtype=np.int64), np.zeros(n_after, dtype=np.int64)
    )
