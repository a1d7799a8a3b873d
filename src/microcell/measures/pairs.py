"""The columns that have an order, of matched records before and after, read once for all measures of utility."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from microcell.errors import DataError, SchemaError
from microcell.model import Column, Floats, Integers, Mask, Schema, Table, Values

__all__ = [
    "FAMILY",
    "NANOSECONDS",
    "Categories",
    "Loss",
    "Numbers",
    "Points",
    "Quantities",
    "Quantity",
    "as_quantity",
    "centre",
    "lose_changes",
    "lose_characters",
    "lose_chords",
    "lose_squares",
    "read_categories",
    "read_further_quantities",
    "read_numbers",
    "read_points",
    "read_quantities",
    "read_ranks",
    "record_weights",
    "standardize",
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

FAMILY: Mapping[str, str] = {
    "date": "moment",
    "datetime": "moment",
    "duration": "duration",
    "time": "time of day",
}
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
        return Numbers(
            before,
            _in_unit(_shifted(name, released, 0, "released"), released, original) - origin,
            origin,
        )
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
        first, second = (
            tuple(_counted_in(unit, item) for item in names) for names in (first, second)
        )
    place = {text: code for code, text in enumerate(dict.fromkeys((*first, *second)))}
    moved = np.array([place[text] for text in second], dtype=np.int64)
    after = np.full(len(codes), -1, dtype=np.int64)
    after[codes >= 0] = moved[codes[codes >= 0]]
    return Categories(before.astype(np.int64), after, tuple(place))


def read_points(column: Column, original: Table, released: Table) -> Points:
    """Both pairs of columns as points of the unit sphere."""
    latitude, longitude = (
        read_numbers(part, original.columns[part], released.columns[part]) for part in column.parts
    )
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
    sizes = (
        [known, released.data[~released.missing]] if released.data.dtype.kind == "i" else [known]
    )
    if any(len(data) and (int(data.max()) > bound or int(data.min()) < -bound) for data in sizes):
        return 0
    return (int(known.min()) + int(known.max())) // 2


def _shifted(name: str, values: Values, origin: int, which: str) -> Floats:
    if values.storage == "empty":
        return np.full(len(values), np.nan)
    data = values.data
    shifted = (
        (data - origin).astype(np.float64)
        if data.dtype.kind == "i"
        else data.astype(np.float64) - origin
    )
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
    return _looked_up(
        np.array([rank.get(name, np.nan) for name in names], dtype=np.float64), values
    )


def _interpolated(numbers: Floats, distinct: Floats, ranks: Floats) -> Floats:
    known = ~np.isnan(numbers)
    found: NDArray[np.float64] = np.full(len(numbers), np.nan)
    if len(distinct):
        found[known] = np.interp(numbers[known], distinct, ranks)
    return found


def _unreadable(after: Floats, released: Values) -> int:
    return int((np.isnan(after) & ~released.missing).sum())


_FARTHEST = 1e120
"""Published values lie at most this many spreads from the mean: squares of nonsense must still add up to a number."""


@dataclass(frozen=True)
class Loss:
    """What is ``lost``, and what is lost of the ``whole`` if all records are published alike."""

    lost: float
    whole: float

    @property
    def share(self) -> float:
        """Lost / whole: 0 if nothing is lost; 1 if a column without differences was changed."""
        if self.lost == 0:
            return 0.0
        return self.lost / self.whole if self.whole > 0 else 1.0

    @property
    def constant(self) -> bool:
        """True if the column has nothing to lose, and lost nothing."""
        return self.whole == 0 and self.lost == 0


@dataclass(frozen=True, eq=False)
class Centred:
    """Numbers before and after less the mean of those before, in units in which they are of the order of 1.

    ``constant`` is true if there is no difference among the numbers before.
    """

    before: Floats
    after: Floats
    constant: bool


def centre(before: Floats, after: Floats, weights: Floats) -> Centred:
    """Both columns less the weighted mean of the first, scaled by a power of two.

    Scaling by powers of two is exact, so values of 1e300 do not overflow and values near 1.7e9 keep a spread of 1.
    ``before`` has no NaN; a NaN in ``after`` stays.
    """
    if not len(before):
        return Centred(before, after, True)
    before, after = _scale(before, after, float(np.abs(before).max()))
    low, high = float(before.min()), float(before.max())
    middle = low / 2 + high / 2
    before, after = _scale(before - middle, after - middle, max(high - middle, middle - low))
    mean = float(np.average(before, weights=weights))
    return Centred(before - mean, after - mean, low == high)


def lose_squares(before: Floats, after: Floats, weights: Floats) -> Loss:
    """Squared differences, against those to the mean: sum w (x - y)^2 and sum w (x - mean)^2.

    A row without a value before is left out; a NaN after counts as the mean.

    Examples
    --------
    >>> x = np.array([2.0, 3.0, 3.0, 20.0, 21.0])
    >>> lose_squares(x, np.full(5, x.mean()), np.ones(5)).share
    1.0
    """
    known = ~np.isnan(before) & (weights > 0)
    weights = weights[known]
    points = centre(before[known], after[known], weights)
    after = np.where(np.isnan(points.after), 0.0, points.after)
    lost = weights @ np.square(points.before - after)
    return Loss(float(lost), 0.0 if points.constant else float(weights @ np.square(points.before)))


def lose_chords(before: Floats, after: Floats, weights: Floats) -> Loss:
    """Squared chords between points of the unit sphere, against those to the mean direction."""
    known = ~np.isnan(before).any(axis=1) & (weights > 0)
    before, after, weights = before[known], after[known], weights[known]
    if not len(before):
        return Loss(0.0, 0.0)
    mean = _mean_direction(before, weights)
    after = np.where(np.isnan(after), mean, after)
    constant = bool((before == before[0]).all())
    whole = 0.0 if constant else float(weights @ np.square(before - mean).sum(axis=1))
    return Loss(float(weights @ np.square(before - after).sum(axis=1)), whole)


def lose_changes(before: Integers, after: Integers, weights: Floats) -> Loss:
    """Records whose category changed, against those that change if all get the most frequent category.

    Codes are -1 where missing: left out if missing before, the most frequent category if missing after.
    """
    known = (before >= 0) & (weights > 0)
    before, after, weights = before[known], after[known], weights[known]
    if not len(before):
        return Loss(0.0, 0.0)
    mode = int(np.argmax(np.bincount(before, weights=weights)))
    after = np.where(after < 0, mode, after)
    return Loss(float(weights @ (before != after)), float(weights @ (before != mode)))


def lose_characters(
    before: Integers, after: Integers, weights: Floats, *, names: Sequence[str]
) -> Loss:
    """Shares of characters masked or wrong, against those if all get the common prefix of the table.

    "94***" tells two characters of five of "94110", and nothing of "93001". A missing code after tells nothing.

    Examples
    --------
    >>> codes = np.array([0, 1])
    >>> lose_characters(codes, np.array([2, 2]), np.ones(2), names=["94110", "94121", "941**"]).lost
    0.8
    """
    known = (before >= 0) & (weights > 0)
    before, after, weights = before[known], after[known], weights[known]
    texts = [names[code] for code in np.unique(before).tolist()]
    longest = max(map(len, texts), default=0)
    everyone = _common_prefix(texts).ljust(longest, "*")
    span = len(names) + 1
    pairs, place = np.unique(before * span + after + 1, return_inverse=True)
    masked = [
        _masked(names[pair // span], _name(names, pair % span - 1)) for pair in pairs.tolist()
    ]
    whole = {code: _masked(names[code], everyone) for code in np.unique(before).tolist()}
    each = np.array([whole[pair // span] for pair in pairs.tolist()], dtype=np.float64)
    return Loss(
        _total(np.array(masked, dtype=np.float64), place, weights), _total(each, place, weights)
    )


def _scale(before: Floats, after: Floats, size: float) -> tuple[Floats, Floats]:
    _, exponent = np.frexp(size)
    with np.errstate(over="ignore"):
        scaled = np.ldexp(after, -exponent)
    return np.ldexp(before, -exponent), np.clip(scaled, -_FARTHEST, _FARTHEST)


def _mean_direction(points: Floats, weights: Floats) -> Floats:
    mean = weights @ points
    length = float(np.linalg.norm(mean))
    # Points that cancel out have no mean direction, and are equally far from each: take any.
    return mean / length if length > 0 else np.array([1.0, 0.0, 0.0])


def _masked(code: str, published: str) -> float:
    """The share of the characters of ``code`` that ``published`` does not tell."""
    if code == published:
        return 0.0
    prefix = published.rstrip("*")
    if not code.startswith(prefix):
        return 1.0
    return 1 - len(prefix) / max(len(code), len(published), 1)


def _name(names: Sequence[str], code: int) -> str:
    return "" if code < 0 else names[code]


def _common_prefix(texts: Sequence[str]) -> str:
    if not texts:
        return ""
    low, high = min(texts), max(texts)
    same = next(
        (place for place, (a, b) in enumerate(zip(low, high, strict=False)) if a != b),
        min(len(low), len(high)),
    )
    return low[:same]


def _total(shares: Floats, place: NDArray[np.intp], weights: Floats) -> float:
    return float(weights @ shares[place]) if len(place) else 0.0


ORDERED = ("numeric", "datetime", "ordinal")
"""The kinds of columns that have an order."""


@dataclass(frozen=True, eq=False)
class Quantity:
    """A column of the matched records on one number line, NaN where missing.

    A value of the column is (``origin`` + number) * ``step``, in ``unit`` as a comparison counts it. For a
    confidential column, ``quasi`` is false and ``after`` is ``before``.
    """

    name: str
    quasi: bool
    before: Floats
    after: Floats
    origin: int = 0
    step: float = 1.0
    unit: str | None = None


@dataclass(frozen=True, eq=False)
class Quantities:
    """The ordered columns of the matched records, and the weight of each record."""

    columns: tuple[Quantity, ...]
    weights: Floats


def read_quantities(
    original: Table, released: Table, schema: Schema, *, pairs: Integers
) -> Quantities:
    """The numeric, datetime and ordinal columns, quasi-identifiers first, then confidential ones that are released.

    Ordinal columns are ranks from 0; a published range is its middle. Confidential columns are published unchanged,
    so that the original is read for both sides; an infinite value of theirs counts as missing. Columns are read one
    by one: time and memory O(rows) each.

    Parameters
    ----------
    schema
        Resolved: each column has its kind.
    pairs
        The row of the original (from 0) that each published row comes from.

    Examples
    --------
    >>> known = np.zeros(2, dtype=bool)
    >>> before = Table({"age": Values("integer", np.array([20, 24]), known)}, rows=2, native=None)
    >>> after = Table({"age": Values("text", np.array([0, 0]), known, categories=("20-24",))}, rows=2, native=None)
    >>> read = read_quantities(before, after, Schema(quasi=[Column("age", kind="numeric")]), pairs=np.arange(2))
    >>> age = read.columns[0]
    >>> age.origin + age.before, age.origin + age.after
    (array([20., 24.]), array([22., 22.]))
    """
    columns = [
        _of_quasi(column, original.columns[column.name], released.columns[column.name], pairs)
        for column in schema.quasi
        if column.kind in ORDERED
    ]
    for column in schema.confidential:
        if (
            column.kind in ORDERED
            and column.name in original.columns
            and column.name in released.columns
        ):
            numbers = as_quantity(column, original.columns[column.name])[pairs]
            columns.append(Quantity(column.name, False, numbers, numbers))
    return Quantities(tuple(columns), record_weights(original, schema)[pairs])


def read_further_quantities(
    original: Table, released: Table, schema: Schema, *, pairs: Integers
) -> tuple[Quantity, ...]:
    """The quasi-identifiers that are not ordered but can be put on lines: codes, and the two parts of a location.

    A code is its rank among the original's sorted codes, a prefix the middle of the codes that begin so.
    """
    found: list[Quantity] = []
    for column in schema.quasi:
        if column.kind == "code":
            found.append(_of_codes(column, original, released, pairs))
        elif column.kind == "location":
            found.extend(_of_parts(column, original, released, pairs))
    return tuple(found)


def as_quantity(column: Column, values: Values) -> Floats:
    """A confidential column as numbers or ranks, NaN where missing or infinite.

    Examples
    --------
    >>> pain = Values("text", np.array([1, 0, 1]), np.zeros(3, dtype=bool), categories=("mild", "none"))
    >>> as_quantity(Column("pain", kind="ordinal", order=("none", "mild")), pain)
    array([0., 1., 0.])
    """
    if values.storage == "float":
        infinite = np.isinf(values.data)
        if infinite.any():
            values = Values(
                "float", np.where(infinite, 0.0, values.data), values.missing | infinite
            )
    # Nothing is compared, so the column stands for the other side too, without its rows.
    nobody = Values(
        values.storage, values.data[:0], values.missing[:0], values.categories, unit=values.unit
    )
    if column.kind == "ordinal":
        return read_ranks(column, values, nobody).before
    return read_numbers(column.name, values, nobody).before


def record_weights(original: Table, schema: Schema) -> Floats:
    """The weight of each record of the original, at most 1; all 1 if the schema names no weight.

    Raises :class:`DataError` for one that is missing, negative or infinite.
    """
    if schema.weight is None:
        return np.ones(original.rows)
    weights = original.columns[schema.weight].reals()
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise DataError(
            f"The weight column {schema.weight!r} of the original must hold numbers of at least 0; row "
            f"{int(np.argmax(wrong)) + 1} does not. Correct the weight or leave the record out."
        )
    return weights / max(float(weights.max(initial=0.0)), np.finfo(np.float64).tiny)


def standardize(before: Floats, after: Floats, weights: Floats) -> tuple[Floats, Floats] | None:
    """Both sides less the original's weighted mean, over its deviation; NaN stays; None if there is no deviation.

    The deviation is that of the population, sqrt(sum w (x - mean)^2 / sum w).

    Examples
    --------
    >>> standardize(np.array([1e300, 3e300]), np.array([2e300, np.nan]), np.ones(2))
    (array([-1.,  1.]), array([ 0., nan]))
    """
    known: Mask = ~np.isnan(before) & (weights > 0)
    own, weights = before[known], weights[known]
    both = centre(own, before if after is before else np.concatenate((before, after)), weights)
    if both.constant:
        return None
    deviation = float(np.sqrt(np.average(np.square(both.before), weights=weights)))
    if deviation == 0:
        return None
    numbers = both.after / deviation
    return numbers[: len(before)], numbers[-len(after) :]


def _of_quasi(column: Column, original: Values, released: Values, pairs: Integers) -> Quantity:
    if column.kind == "ordinal":
        reading = read_ranks(column, original, released)
        return Quantity(column.name, True, reading.before[pairs], reading.after)
    reading = read_numbers(column.name, original, released)
    step, unit = _axis(original)
    return _quantity(column.name, reading, pairs, step=step, unit=unit)


def _quantity(
    name: str, reading: Numbers, pairs: Integers, *, step: float = 1.0, unit: str | None = None
) -> Quantity:
    return Quantity(name, True, reading.before[pairs], reading.after, reading.origin, step, unit)


def _axis(values: Values) -> tuple[float, str | None]:
    """What a count is worth, and in which unit: durations and times of day in seconds, dates in their own."""
    if values.storage in ("duration", "time"):
        return NANOSECONDS[str(values.unit)] / 1e9, "seconds"
    return 1.0, values.unit if values.is_time else None


def _of_parts(
    column: Column, original: Table, released: Table, pairs: Integers
) -> Iterator[Quantity]:
    for part in column.parts:
        yield _quantity(
            part, read_numbers(part, original.columns[part], released.columns[part]), pairs
        )


def _of_codes(column: Column, original: Table, released: Table, pairs: Integers) -> Quantity:
    reading = read_categories(
        column.name, original.columns[column.name], released.columns[column.name]
    )
    known = sorted(
        reading.names[code] for code in np.unique(reading.before[reading.before >= 0]).tolist()
    )
    ranks = np.array([*(_middle_rank(name, known) for name in reading.names), np.nan])
    return Quantity(column.name, True, ranks[reading.before[pairs]], ranks[reading.after])


def _middle_rank(name: str, known: Sequence[str]) -> float:
    """The rank of a code, or the middle rank of those that begin as it does; NaN if none does."""
    at = bisect_left(known, name)
    if known[at : at + 1] == [name]:
        return float(at)
    prefix = name.rstrip("*")
    first, last = bisect_left(known, prefix), bisect_left(known, prefix + "\U0010ffff")
    return (first + last - 1) / 2 if first < last else np.nan
