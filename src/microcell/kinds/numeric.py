"""Numbers: standardized, and published as the mean, median or range of each cell."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor, frexp, ldexp
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from microcell.errors import SchemaError
from microcell.kernels.arrays import Floats, Integers
from microcell.kinds.base import FARTHEST, Kind, Reading, check_finite, register
from microcell.kinds.column import Column, EncodedColumn, Layout
from microcell.kinds.groups import Groups, half_differences, in_column_type, precision
from microcell.kinds.pairs import ColumnPair, LinePair, read_numbers, read_quantity, scale_of
from microcell.kinds.rounding import (
    chosen_range_text,
    column_step,
    range_text,
    round_centre,
    round_scale,
)
from microcell.kinds.values import NANOSECONDS, Representatives, Storage, Values

__all__ = ["NumericKind", "check_numbers", "scale_exponent", "write_coordinates"]


@register
class NumericKind(Kind):
    """Whole and decimal numbers."""

    name = "numeric"
    representatives: ClassVar[tuple[str, ...]] = ("mean", "median", "range")
    layout: ClassVar[Layout] = "line"
    storages: ClassVar[tuple[Storage, ...]] = ("integer", "float", "empty")
    default_for: ClassVar[tuple[Storage, ...]] = ("integer", "float")
    only_numbers = True
    ordered = True

    def check_values(self, name: str, values: Values) -> None:
        check_numbers(self.name, name, values)

    def read(self, parts: Sequence[str], values: Sequence[Values]) -> Reading:
        check_finite(parts[0], values[0])
        return Reading(values[0], values[0].missing)

    def fit(self, blank: EncodedColumn, column: Column, reading: Reading) -> EncodedColumn:
        data = reading.values.data
        if reading.missing.any():
            data = data[~reading.missing]
        low, high = (data.min(), data.max()) if len(data) else (0, 0)
        if low == high:
            return blank
        if data.dtype.kind == "i":
            return _fit_whole(blank, data, int(low), int(high))
        return _fit_real(blank, data, float(low), float(high))

    def round_fit(self, fitted: EncodedColumn) -> EncodedColumn:
        scale = round_scale(float(fitted.scale[0]))
        mean = round_centre(Fraction(fitted.origin) + Fraction(float(fitted.centre[0])), scale)
        whole = isinstance(fitted.origin, int)
        origin = floor(mean) if whole else float(mean)
        centre = float(mean - Fraction(origin)) if whole else 0.0
        return replace(fitted, origin=origin, centre=np.array([centre]), scale=np.array([scale]))

    def place(self, fitted: EncodedColumn, reading: Reading, out: Floats) -> int:
        if fitted.constant:
            return 0
        # Missing values are undefined and far ones are clipped, so neither needs a warning.
        with np.errstate(over="ignore", invalid="ignore"):
            x = _subtract_origin(fitted, reading.values)
            x -= fitted.centre[0]
            x /= fitted.scale[0]
        write_coordinates(fitted, reading, x[:, np.newaxis], out)
        return 0

    def represent(
        self, column: Column, values: Sequence[Values], groups: Groups
    ) -> list[Representatives]:
        if column.step is not None:
            return [_range_at(float(column.step), values[0], groups)]
        return [_REPRESENT[str(column.publish)](values[0], groups)]

    def precision(self, values: Sequence[Values]) -> float:
        return precision(values[0])

    def pair(
        self, column: Column, original: Sequence[Values], released: Sequence[Values]
    ) -> ColumnPair:
        return LinePair(column, read_numbers(column.name, original[0], released[0]))

    def quantity(self, column: Column, values: Values) -> Floats:
        return read_quantity(column.name, values)

    def scale(self, values: Values) -> tuple[int, float, str | None]:
        return scale_of(values)


def check_numbers(kind: str, name: str, values: Values) -> None:
    """Raise SchemaError if the column contains anything but numbers."""
    if values.is_number or values.storage == "empty":
        return
    not_numbers = _rows_without_number(values)
    where = ""
    details = {}
    if len(not_numbers):
        row = int(not_numbers[0]) + 1
        where = f" ({len(not_numbers)} not numbers, first in row {row})"
        details = {"row": row, "count": len(not_numbers)}
    raise SchemaError(
        f"Column {name!r} is declared {kind} but contains {values.storage} values{where}. "
        "Correct them, list the words that mark missing values with na (--na), "
        "or declare the column nominal, ordinal or code.",
        code="schema.wrong_kind",
        column=name,
        kind=kind,
        **details,
    )


def write_coordinates(
    fitted: EncodedColumn, reading: Reading, coordinates: Floats, out: Floats
) -> None:
    """Clip the coordinates, put missing values at the mean and apply the column's weight."""
    np.clip(coordinates, -FARTHEST, FARTHEST, out=coordinates)
    if reading.missing.any():
        np.copyto(coordinates, 0.0, where=reading.missing[:, np.newaxis])
    np.multiply(coordinates, np.sqrt(fitted.weight), out=out)


def _rows_without_number(values: Values) -> Integers:
    if values.storage != "text":
        return np.empty(0, dtype=np.int64)
    wrong = np.array([not _is_number(name) for name in values.categories], dtype=np.bool_)
    return np.flatnonzero(wrong[values.data] & ~values.missing)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# Encoding


@dataclass(frozen=True)
class _Moments:
    mean: float
    deviation: float


def _fit_whole(blank: EncodedColumn, data: Integers, low: int, high: int) -> EncodedColumn:
    """Fit as floats, after subtracting a base from numbers too large for floats to distinguish."""
    base = 0 if max(-low, high) < 2**52 else (low + high) // 2
    fitted = _fit_real(blank, _subtract(data, base), float(low - base), float(high - base))
    return replace(fitted, origin=base + int(fitted.origin))


def _fit_real(blank: EncodedColumn, data: Floats, low: float, high: float) -> EncodedColumn:
    """Fit with a round origin near the mean; the minimum would be one person's value."""
    exponent = scale_exponent(high / 2 - low / 2)
    if exponent:
        data = np.ldexp(data, exponent)
        low, high = ldexp(low, exponent), ldexp(high, exponent)
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    moments = _moments(data - middle, half)
    # A grid no wider than the spread keeps the digits of the centre; it is whole if values may be.
    grid = 1.0 if half >= 0.5 else ldexp(0.5, frexp(moments.deviation)[1])
    origin = float(np.rint((middle + moments.mean) / grid)) * grid
    return replace(
        blank,
        origin=origin,
        exponent=exponent,
        centre=np.array([middle - origin + moments.mean]),
        scale=np.array([moments.deviation]),
    )


def _moments(x: Floats, half: float) -> _Moments:
    """Compute the moments in two passes within [-1, 1], where no square overflows. Modifies x."""
    x /= half
    mean = float(x.mean())
    x -= mean
    np.square(x, out=x)
    return _Moments(mean * half, float(np.sqrt(x.mean())) * half)


def scale_exponent(half: float) -> int:
    """Return the power of two that scales this spread away from the limits of floats."""
    if half > 2.0**1000:
        return -100
    return 600 if half < 2.0**-900 else 0


def _subtract_origin(fitted: EncodedColumn, values: Values) -> Floats:
    """Return the values minus the column's origin, in the fitted unit."""
    origin = fitted.origin
    if isinstance(origin, int) and values.data.dtype.kind == "i":
        unit = NANOSECONDS.get(values.unit or "", 1)
        fitted_unit = NANOSECONDS.get(fitted.unit or "", 1) if values.unit else 1
        # One unit divides the other. The difference is exact in the finer one.
        finer = max(unit // fitted_unit, 1)
        coarser = max(fitted_unit // unit, 1)
        x = _subtract(values.data, origin * coarser, finer)
        if coarser > 1:
            x /= coarser
        return x
    reals = values.data.astype(np.float64, copy=False)
    x = (np.ldexp(reals, fitted.exponent) if fitted.exponent else reals) - float(origin)
    if isinstance(origin, int):
        x -= origin - int(float(origin))  # the digits that a float cannot hold
    return x


def _subtract(data: NDArray[Any], origin: int, factor: int = 1) -> Floats:
    """Return ``data * factor - origin``, computed in integers unless they would overflow."""
    if len(data):
        low, high = int(data.min()) * factor, int(data.max()) * factor
        bounds = (low, high, origin, low - origin, high - origin)
        if all(-(2**63) <= bound < 2**63 for bound in bounds):
            return ((data if factor == 1 else data * factor) - origin).astype(np.float64)
    return data.astype(np.float64) * factor - float(origin)


# Representatives


def _mean(values: Values, groups: Groups) -> Representatives:
    totals, missing = groups.totals(values.missing)
    origins = groups.members(values)  # differences from a member lose no digits
    shares = 1.0 / np.where(missing, 1.0, totals)[groups.labels]
    halves = half_differences(values, origins, groups)
    means = groups.sum(np.where(values.missing, 0.0, halves) * shares)
    return in_column_type(values, origins, means, missing)


def _median(values: Values, groups: Groups) -> Representatives:
    _, missing = groups.totals(values.missing)
    origins = groups.members(values)
    halves = half_differences(values, origins, groups)
    lower = groups.median(halves, values.missing, "lower")
    upper = groups.median(halves, values.missing, "upper")
    return in_column_type(values, origins, lower / 2 + upper / 2, missing)


def _range(values: Values, groups: Groups) -> Representatives:
    _, missing = groups.totals(values.missing)
    low, high = groups.extremes(values.data + 0, values.missing)  # no negative zero
    present = values.data[~values.missing]
    if (
        present.dtype.kind == "i"
        and len(present)
        and int(present.max()) - int(present.min()) < 2**62
    ):
        present = present - present.min()  # floats could not tell large numbers apart
    step = column_step(present.astype(np.float64), whole=values.storage == "integer")
    if step is None:  # everyone has the same value, so there is nobody to hide
        texts = [repr(value) for value in low.tolist()]
    else:
        bounds = zip(low.tolist(), high.tolist(), strict=True)
        texts = [range_text(a, b, step) for a, b in bounds]
    return Representatives("text", np.array(texts, dtype=object), missing)


def _range_at(step: float, values: Values, groups: Groups) -> Representatives:
    """Publish ranges with bounds at a chosen resolution."""
    _, missing = groups.totals(values.missing)
    low, high = groups.extremes(values.data + 0, values.missing)
    bounds = zip(low.tolist(), high.tolist(), strict=True)
    texts = [chosen_range_text(a, b, step) for a, b in bounds]
    return Representatives("text", np.array(texts, dtype=object), missing)


_REPRESENT = {"mean": _mean, "median": _median, "range": _range}
