"""Shared checks of numeric input: k, probabilities, points, weights and arrays."""

from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from microcell._display import count
from microcell.errors import DataError, OptionError
from microcell.model import Floats

__all__ = [
    "COSTS",
    "FARTHEST",
    "MIN_PROBABILITY",
    "MOST_WEIGHT_RATIO",
    "NUMBERS_FROM_0",
    "POINTS",
    "RADII",
    "Entry",
    "as_points",
    "as_reals",
    "as_weights",
    "check_failure",
    "check_k",
    "check_probability",
    "check_weight_ratio",
    "read_entry",
    "read_points",
    "varying",
]

FARTHEST = 1e100
"""Largest coordinate. Points beyond it are clipped, because their squares would overflow."""

MOST_WEIGHT_RATIO = 1e12
"""Largest allowed ratio of two sampling weights. Beyond it the small ones vanish in every sum."""

MIN_PROBABILITY = 1e-300
"""Smallest probability that is distinguished from 0."""


def check_k(k: object) -> None:
    """Raise :class:`OptionError` unless k is a whole number of at least 2."""
    message = "k must be a whole number of at least 2"
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise OptionError(f"{message}.", code="option.wrong_type", option="k")
    if int(k) < 2:
        raise OptionError(
            f"{message}: a record that is alone in its cell is not protected.",
            code="option.out_of_range",
            option="k",
            k=int(k),
        )


def check_probability(value: object, name: str, *, includes_one: bool = True) -> float:
    """Return the probability as a float; raise :class:`OptionError` if it is out of range."""
    expected = f"{name} must be a probability of at least {MIN_PROBABILITY:g} and "
    expected += "at most 1." if includes_one else "less than 1."
    if isinstance(value, bool) or not isinstance(value, Real):
        raise OptionError(expected, code="option.wrong_type", option=name)
    number = float(value)
    if not MIN_PROBABILITY <= number <= 1 or (number == 1 and not includes_one):
        raise OptionError(expected, code="option.out_of_range", option=name)
    return number


def check_failure(failure: object) -> float:
    """Return the accepted failure probability of a cell."""
    return check_probability(failure, "failure", includes_one=False)


def as_points(X: ArrayLike) -> Floats:
    """Return the points as a float64 matrix, rescaled if squares would overflow or vanish.

    Cells do not depend on the scale.
    """
    points = as_reals(X, "Points must be numbers. For a table with other columns use anonymize.")
    points = points[:, np.newaxis] if points.ndim == 1 else points
    if points.ndim != 2:
        raise DataError(
            f"Points must be a matrix of records by columns, not an array with {points.ndim} "
            "dimensions.",
            code="data.invalid",
            dimensions=points.ndim,
        )
    _check_finite(points, "Points")
    largest = float(np.abs(points).max(initial=0.0))
    if largest > 1e100 or 0 < largest < 1e-100:
        points = points / largest
    return np.ascontiguousarray(points)


def varying(points: Floats) -> Floats:
    """Return the points without constant columns, which do not contribute to distances."""
    if len(points) == 0:
        return points
    is_varying = points.min(axis=0) < points.max(axis=0)
    return points if is_varying.all() else np.ascontiguousarray(points[:, is_varying])


def as_weights(weights: ArrayLike | None, rows: int) -> Floats | None:
    """Return the weights as float64, one positive number per record; None without weights."""
    if weights is None:
        return None
    message = f"weights must be {rows} positive numbers, one per record."
    values = np.ascontiguousarray(as_reals(weights, message))
    if values.shape != (rows,) or not (np.isfinite(values).all() and (values > 0).all()):
        raise DataError(message, code="data.bad_weight", option="weights")
    check_weight_ratio(values, "weights")
    largest = float(values.max(initial=1.0))
    return values if 1e-50 < largest < 1e50 else values / largest  # Only ratios matter.


def check_weight_ratio(weights: Floats, name: str) -> None:
    """Raise :class:`DataError` if positive weights differ by more than the allowed ratio."""
    if len(weights) and float(weights.max()) / MOST_WEIGHT_RATIO > float(weights.min()):
        row = int(np.argmin(weights)) + 1
        raise DataError(
            f"The smallest of {name} (row {row}) is less than 1/{MOST_WEIGHT_RATIO:g} of the "
            "largest, so its record would not count. Correct the weight or remove the record.",
            code="data.weight_ratio",
            option=name,
            row=row,
            limit=MOST_WEIGHT_RATIO,
        )


def as_reals(values: ArrayLike, message: str) -> Floats:
    """Return the array as float64, or raise :class:`DataError` with ``message``.

    Complex numbers, text and the like are rejected; the error does not show them.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise TypeError
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise DataError(message, code="data.not_a_number") from None


@dataclass(frozen=True)
class Entry:
    """Specification of an array of a cells file: type, dimensions and value range."""

    dtype: type
    ndim: int
    least: float
    most: float

    @property
    def description(self) -> str:
        """Description of the expected array, for error messages."""
        form = "a matrix (a list of rows of equal length)" if self.ndim == 2 else "a list"
        kind = "whole" if self.dtype is np.int64 else "finite"
        return f"{form} of {kind} numbers from {self.least:g} to {self.most:g}"


POINTS = MappingProxyType({"entry": Entry(np.float64, 2, -FARTHEST, FARTHEST)})
COSTS = MappingProxyType({"entry": Entry(np.float64, 1, -1e300, 1e300)})
RADII = MappingProxyType({"entry": Entry(np.float64, 1, 0.0, 1e150)})
NUMBERS_FROM_0 = MappingProxyType({"entry": Entry(np.int64, 1, 0, 2**62)})


def read_entry(name: str, values: Any, entry: Entry, dimensions: int) -> NDArray[Any]:
    """Return a read-only copy of an array that meets the specification.

    An empty matrix gets ``dimensions`` columns.

    Examples
    --------
    >>> read_entry("radii", [1, 2.5], RADII["entry"], 2)
    array([1. , 2.5])
    >>> read_entry("radii", [1, -2], RADII["entry"], 2)
    Traceback (most recent call last):
    microcell.errors.DataError: radii must be a list of finite numbers from 0 to 1e+150.
    """
    array = None
    with suppress(TypeError, ValueError, OverflowError):
        array = np.asarray(values)
    if array is not None and array.shape == (0,):  # An empty list has neither a type nor rows.
        array = np.zeros((0, dimensions) if entry.ndim == 2 else 0, dtype=entry.dtype)
    if array is None or not _meets(array, entry):
        raise DataError(f"{name} must be {entry.description}.", code="data.invalid", entry=name)
    copy: NDArray[Any] = np.array(array, dtype=entry.dtype, order="C")
    copy.flags.writeable = False
    return copy


def _meets(array: NDArray[Any], entry: Entry) -> bool:
    kinds = "iu" if entry.dtype is np.int64 else "iuf"
    if array.ndim != entry.ndim or array.dtype.kind not in kinds:
        return False
    # NaN fails both comparisons.
    return bool(((array >= entry.least) & (array <= entry.most)).all())


def read_points(X: Any, dimensions: int) -> Floats:
    """Return the points as a C-contiguous float64 matrix with ``dimensions`` columns.

    Coordinates are clipped to ±:data:`FARTHEST`. In one dimension, a plain list of numbers is
    accepted as well. Errors give row and column, not values.
    """
    points = _as_floats(X)
    columns = f"{dimensions} column{'' if dimensions == 1 else 's'}"
    if points.ndim == 1 and dimensions == 1:
        points = points[:, np.newaxis]
    if points.ndim != 2:
        raise DataError(
            f"X must be a matrix with {columns}, like the cells, not an array with {points.ndim} "
            f"dimension{'' if points.ndim == 1 else 's'}. For a single record use "
            "X.reshape(1, -1).",
            code="data.invalid",
            dimensions=points.ndim,
        )
    if points.shape[1] != dimensions:
        raise DataError(
            f"X has {count(points.shape[1], 'column')}, but the cells have {columns}. Encode the "
            "records in the same way as the cells.",
            code="data.invalid",
            columns=points.shape[1],
        )
    _check_finite(points, "X")
    return np.ascontiguousarray(np.clip(points, -FARTHEST, FARTHEST))


def _check_finite(points: Floats, name: str) -> None:
    invalid = ~np.isfinite(points)
    if not invalid.any():
        return
    row, column = (int(position) + 1 for position in np.argwhere(invalid)[0])
    count = int(invalid.sum())
    raise DataError(
        f"{name} must be finite, but {count} {'value is' if count == 1 else 'values are'} missing "
        f"or infinite, the first in row {row}, column {column}. Remove or impute them.",
        code="data.not_finite",
        row=row,
        column=column,
    )


def _as_floats(X: Any) -> Floats:
    with suppress(TypeError, ValueError, OverflowError), np.errstate(over="ignore"):
        array = np.asarray(X)
        if array.dtype.kind in "biufO":
            return array.astype(np.float64)
    raise DataError(
        "X must be a matrix of numbers with rows of equal length. Encode other columns as numbers "
        "first.",
        code="data.not_a_number",
    )
