"""From a quasi-identifier's values to its dimensions: one function a kind."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import frexp, ldexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.encoding._reading import Reading, shared_length
from microcell.errors import SchemaError
from microcell.model import Column, EncodedColumn, Floats, Integers

__all__ = ["fit_column", "indicator", "subtract"]

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
    blank = EncodedColumn(column.name, kind, column.parts, values.storage, unit, float(column.weight), first)
    return FITTERS[kind](blank, column, reading)


def indicator(dimensions: int) -> float:
    """What marks a category in its dimension, so that a mismatch has distance 1: two categories share a dimension."""
    return 1.0 if dimensions == 1 else 1.0 / float(np.sqrt(2.0))


def subtract(data: NDArray[Any], origin: int, factor: int = 1) -> Floats:
    """``data`` times ``factor``, less ``origin``, in integers if they hold it, so that large ones lose nothing."""
    if len(data):
        low, high = int(data.min()) * factor, int(data.max()) * factor
        if all(-(2**63) <= bound < 2**63 for bound in (low, high, origin, low - origin, high - origin)):
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
        return _fit_places(named, np.arange(len(counts), dtype=np.float64), reading.codes[~reading.missing])
    ranks = reading.values.ranks(column.order)
    strange = np.flatnonzero((ranks < 0) & ~reading.missing)
    if len(strange):
        raise SchemaError(
            f"Column {column.name!r}: {len(strange)} rows hold a category that is not in its order, the first is row "
            f"{strange[0] + 1}. Complete the order."
        )
    named = replace(blank, names=column.order)
    return _fit_places(named, np.arange(len(column.order), dtype=np.float64), ranks[~reading.missing])


def _fit_nominal(blank: EncodedColumn, _: Column, reading: Reading) -> EncodedColumn:
    counts = np.bincount(reading.codes[~reading.missing], minlength=len(reading.names))
    used = np.flatnonzero(counts)
    counts = counts[used]
    named = replace(blank, names=tuple(reading.names[code] for code in used.tolist()), counts=counts)
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
    return _fit_places(replace(blank, names=names, counts=np.bincount(ranks, minlength=len(names))), places, ranks)


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
