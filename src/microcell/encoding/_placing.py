"""From values to coordinates in the dimensions that were fitted: one function a kind."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np

from microcell.encoding._fitting import indicator, subtract
from microcell.encoding._reading import NANOSECONDS, Reading, number_of, shared_length
from microcell.model import EncodedColumn, Floats, Integers, Values

__all__ = ["place_column"]

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
    with np.errstate(over="ignore", invalid="ignore"):  # missing values mean nothing, and far ones are cut off
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
    points[dimensions + (len(column.names) - column.dimensions), dimensions] = indicator(column.dimensions)
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
    numbers = [(number_of(str(name)), place) for name, place in zip(column.names, column.places.tolist(), strict=True)]
    known = sorted((number, place) for number, place in numbers if number is not None)
    if not known:
        return _at_mean(column, names)
    ends = [known[0][1], *(place for _, place in known), known[-1][1]]
    keys = [number for number, _ in known]
    after = [bisect_left(keys, number_of(name) or 0) for name in names]  # names of numbers, so that none is None
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
