"""Sums, medians and extremes of the values in each cell, and rounding to a column's precision."""

from dataclasses import dataclass
from math import floor, log10
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from microcell.kernels.arrays import Floats, Integers, Mask
from microcell.kinds.values import Representatives, Values

__all__ = ["Groups", "decimals", "half_differences", "in_column_type", "precision"]

_SLACK = 1e-9
"""Tolerance for rounding errors in a sum of weight shares."""

_MEAN_DIGITS = 13
"""Digits of a published mean, counted from the first of the column's spread."""

_EXACT_POWERS = 22
"""Powers of ten up to this exponent are exact as floats."""

_STEPS_IN_SECONDS = (86400, 3600, 60, 1)
_UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, eq=False)
class Groups:
    """The cells to aggregate over: each record's cell and weight, and the number of cells."""

    labels: Integers
    count: int
    weights: Floats

    def sum(self, terms: Floats) -> Floats:
        """Return the weighted sum of the terms in each cell."""
        return np.bincount(self.labels, weights=self.weights * terms, minlength=self.count).astype(
            np.float64
        )

    def totals(self, missing: Mask) -> tuple[Floats, Mask]:
        """Return the weight of the members with a value, and a mask of the cells without any."""
        totals = self.sum((~missing).astype(np.float64))
        return totals, totals == 0

    def members(self, values: Values) -> NDArray[Any]:
        """Return the value of one member of each cell; 0 if all are missing."""
        present = np.flatnonzero(~values.missing)
        out = np.zeros(self.count, dtype=values.data.dtype)
        out[self.labels[present]] = values.data[present]
        return out

    def extremes(
        self, data: NDArray[np.generic], missing: Mask
    ) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
        """Return the smallest and the largest value of each cell; 0 if all are missing."""
        present = np.flatnonzero(~missing)
        order = present[np.lexsort((data[present], self.labels[present]))]
        low = np.zeros(self.count, dtype=data.dtype)
        high = np.zeros(self.count, dtype=data.dtype)
        if not len(order):
            return low, high
        first = np.flatnonzero(np.r_[True, np.diff(self.labels[order]) != 0])
        filled = self.labels[order[first]]
        low[filled] = data[order[first]]
        high[filled] = data[order[np.r_[first[1:], len(order)] - 1]]
        return low, high

    def median(self, x: Floats, missing: Mask, side: Literal["lower", "upper"]) -> Floats:
        """Return the lower or upper weighted median of each cell; 0 if all are missing.

        It is the value at which the weights, accumulated in order, reach (lower) or exceed (upper)
        half of their sum.
        """
        present = np.flatnonzero(~missing)
        order = present[np.lexsort((x[present], self.labels[present]))]
        labels = self.labels[order]
        totals = np.bincount(labels, weights=self.weights[order], minlength=self.count)
        running = np.cumsum(self.weights[order] / totals[labels])  # every cell adds 1
        reached = running - (np.cumsum(totals > 0) - 1)[labels]
        beyond = reached >= 0.5 - _SLACK if side == "lower" else reached > 0.5 + _SLACK
        candidates = np.flatnonzero(beyond)
        filled, first = np.unique(labels[candidates], return_index=True)
        out = np.zeros(self.count)
        out[filled] = x[order[candidates[first]]]
        return out

    def from_rows(self, rows: Integers, filled: Integers) -> Representatives:
        """Publish the values of these rows for the cells in ``filled``; other cells are missing."""
        values = np.zeros(self.count, dtype=np.int64)
        missing = np.ones(self.count, dtype=np.bool_)
        values[filled] = rows
        missing[filled] = False
        return Representatives("row", values, missing)


def half_differences(values: Values, origins: NDArray[Any], groups: Groups) -> Floats:
    """Return half of each value's difference from its cell's origin: halves cannot overflow."""
    data = values.data
    if data.dtype.kind == "i" and int(data.max()) - int(data.min()) < 2**62:
        return np.asarray((data - origins[groups.labels]) / 2)
    return np.asarray(data / 2 - origins[groups.labels] / 2)


def in_column_type(
    values: Values, origins: NDArray[Any], halves: Floats, missing: Mask
) -> Representatives:
    """Return origins plus twice the halves, rounded to the column's precision (halves upwards)."""
    if values.storage == "float":
        numbers = origins + halves + halves  # in this order it cannot overflow
        places = decimals(values)
        if places is not None:
            numbers = np.round(numbers, places) + 0.0  # no negative zero
        else:
            # A cell of equal values publishes that value with all its digits.
            numbers = np.where(halves == 0, numbers, _without_rounding_errors(numbers, values))
        return Representatives("number", numbers, missing)
    step = _resolution(values)
    steps = np.floor(2 * halves / step + 0.5).astype(np.int64)
    return Representatives("number", origins + steps * step, missing)


def _without_rounding_errors(numbers: Floats, values: Values) -> Floats:
    """Round to 13 digits of the column's spread.

    The last digits of a mean depend on how its sum was rounded, and therefore on the individual
    members: anyone who repeats the computation could rule out candidates. Numbers that are large
    compared with the spread, and scales at which powers of ten are not exact, are left alone.
    """
    present = values.data[~values.missing]
    half = float(present.max() / 2 - present.min() / 2)  # halves cannot overflow
    if not half > 0:
        return numbers
    places = _MEAN_DIGITS - 1 - floor(log10(half) + log10(2))
    if not -_EXACT_POWERS <= places <= _EXACT_POWERS:
        return numbers
    power = 10.0 ** abs(places)
    steps = numbers * power if places >= 0 else numbers / power
    rounded = np.rint(steps) / power if places >= 0 else np.rint(steps) * power
    return np.where(np.abs(steps) < 2.0**52, rounded + 0.0, numbers)


def precision(values: Values) -> float:
    """Return the step to which means of the column are rounded; 0 for full precision."""
    if values.storage != "float":
        return float(_resolution(values))
    places = decimals(values)
    return 0.0 if places is None else 10.0**-places


def decimals(values: Values) -> int | None:
    """Return the number of decimals in the column; None if it has full floating-point precision.

    If all values fit in single precision, decimals are counted there: 0.1 has one decimal, too.

    Examples
    --------
    >>> decimals(Values("float", np.array([1.5, 2.25]), np.array([False, False])))
    2
    """
    if values.storage != "float":
        return 0
    x = values.data[~values.missing]
    with np.errstate(over="ignore"):  # a number too large for single precision is not single
        single = bool((x.astype(np.float32) == x).all())
    for places in range(13):
        if _is_rounded(x[:1000], places, single) and _is_rounded(x, places, single):
            return places
    return None


def _is_rounded(x: Floats, places: int, single: bool) -> bool:
    with np.errstate(over="ignore"):  # a number that overflows when rounded counts as not rounded
        rounded = np.round(x, places)
    same = rounded.astype(np.float32) == x.astype(np.float32) if single else rounded == x
    return bool(same.all())


def _resolution(values: Values) -> int:
    """Return the step of whole numbers: 1, or for times the coarsest unit that fits them."""
    if not values.is_time or values.unit not in _UNITS_PER_SECOND:
        return 1
    per_second = _UNITS_PER_SECOND[values.unit]
    steps = [seconds * per_second for seconds in _STEPS_IN_SECONDS]
    steps += [per_second // 10**power for power in (3, 6) if per_second >= 10**power]
    data = values.data[~values.missing]
    return next((step for step in steps if ((data - data[:1]) % step == 0).all()), 1)
