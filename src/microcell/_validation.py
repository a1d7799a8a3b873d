"""The arrays that cells are made of, and the points given to them: what each must be, and refusals that say so."""

from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from microcell.errors import DataError, OptionError
from microcell.model import Floats

__all__ = [
    "COSTS",
    "FARTHEST",
    "NUMBERS_FROM_0",
    "POINTS",
    "RADII",
    "Entry",
    "as_points",
    "as_reals",
    "as_weights",
    "check_k",
    "read_entry",
    "read_points",
    "varying",
]


def check_k(k: object) -> None:
    """Refuse a k that is not a whole number of 2 or more."""
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise OptionError(f"k must be a whole number of 2 or more, not {k!r}.")
    if int(k) < 2:
        raise OptionError(
            f"k must be 2 or more, not {k}: a record alone in its cell has no protection."
        )


def as_points(X: ArrayLike) -> Floats:
    """The matrix in float64, scaled down where squares would overflow or vanish; cells do not depend on scale."""
    points = as_reals(X, "Points must be numbers. For a table with other columns use anonymize.")
    points = points[:, np.newaxis] if points.ndim == 1 else points
    if points.ndim != 2:
        raise DataError(
            f"Points must be a matrix of records by columns, not an array of {points.ndim} dimensions."
        )
    if not np.isfinite(points).all():
        row, column = np.argwhere(~np.isfinite(points))[0]
        raise DataError(
            f"Points must be finite: row {row + 1}, column {column + 1} is missing or infinite, the first of "
            f"{(~np.isfinite(points)).sum()} such entries. Remove or impute them."
        )
    largest = float(np.abs(points).max(initial=0.0))
    if largest > 1e100 or 0 < largest < 1e-100:
        points = points / largest
    return np.ascontiguousarray(points)


def varying(points: Floats) -> Floats:
    """The points without constant columns, which carry no distance."""
    if len(points) == 0:
        return points
    varying = points.min(axis=0) < points.max(axis=0)
    return points if varying.all() else np.ascontiguousarray(points[:, varying])


def as_weights(weights: ArrayLike | None, rows: int) -> Floats | None:
    """The weights in float64, one positive number a record; None if there are none."""
    if weights is None:
        return None
    out = np.ascontiguousarray(as_reals(weights, "Weights must be numbers, one a record."))
    if out.shape != (rows,) or not (np.isfinite(out).all() and (out > 0).all()):
        raise DataError(f"Weights must be {rows} positive numbers, one a record.")
    largest = float(out.max(initial=1.0))
    return out if 1e-50 < largest < 1e50 else out / largest  # only their ratios matter


def as_reals(given: ArrayLike, message: str) -> Floats:
    """The array in float64; complex numbers, text and the like are refused without showing them."""
    try:
        array = np.asarray(given)
        if array.dtype.kind == "c":
            raise TypeError
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise DataError(message) from None


FARTHEST = 1e100
"""The largest coordinate: squares of larger ones would overflow. Points beyond are drawn in to it."""


@dataclass(frozen=True)
class Entry:
    """What an array of cells must be: its type, its number of dimensions, and the range of its numbers."""

    dtype: type
    ndim: int
    least: float
    most: float

    @property
    def words(self) -> str:
        """What is expected, for messages."""
        form = "a matrix of equally long rows" if self.ndim == 2 else "a list"
        return f"{form} of {'whole' if self.dtype is np.int64 else 'finite'} numbers from {self.least:g} to {self.most:g}"


POINTS = MappingProxyType({"entry": Entry(np.float64, 2, -FARTHEST, FARTHEST)})
COSTS = MappingProxyType({"entry": Entry(np.float64, 1, -1e300, 1e300)})
RADII = MappingProxyType({"entry": Entry(np.float64, 1, 0.0, 1e150)})
NUMBERS_FROM_0 = MappingProxyType({"entry": Entry(np.int64, 1, 0, 2**62)})


def read_entry(name: str, given: Any, entry: Entry, dimensions: int) -> NDArray[Any]:
    """A read-only copy of the array, if it is what the entry says; an empty matrix gets ``dimensions`` columns.

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
        array = np.asarray(given)
    if array is not None and array.shape == (0,):  # an empty list has neither a type nor rows
        array = np.zeros((0, dimensions) if entry.ndim == 2 else 0, dtype=entry.dtype)
    kinds = "iu" if entry.dtype is np.int64 else "iuf"
    if (
        array is None
        or array.ndim != entry.ndim
        or array.dtype.kind not in kinds
        or not _within(array, entry)
    ):
        raise DataError(f"{name} must be {entry.words}.")
    out: NDArray[Any] = np.array(array, dtype=entry.dtype, order="C")
    out.flags.writeable = False
    return out


def _within(array: NDArray[Any], entry: Entry) -> bool:
    return bool(
        ((array >= entry.least) & (array <= entry.most)).all()
    )  # false for what is not a number


def read_points(X: Any, dimensions: int) -> Floats:
    """The points as a C-contiguous float64 matrix of that many columns, drawn in to ±:data:`FARTHEST`.

    A plain list of numbers is one column, where there is one dimension. :class:`DataError` for anything else, by row
    and column, without a value.
    """
    points = _as_floats(X)
    expected = f"a matrix of records by {dimensions} column{'' if dimensions == 1 else 's'}, as the cells have"
    if points.ndim == 1 and dimensions == 1:
        points = points[:, np.newaxis]
    if points.ndim != 2:
        raise DataError(
            f"X has {points.ndim} dimension{'' if points.ndim == 1 else 's'}, expected {expected}. "
            "For one record give X.reshape(1, -1)."
        )
    if points.shape[1] != dimensions:
        raise DataError(
            f"X has {points.shape[1]} columns, expected {expected}. Encode the records as the cells were."
        )
    wrong = ~np.isfinite(points)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise DataError(
            f"X must hold finite numbers: row {row + 1}, column {column + 1} is missing (NaN) or infinite, the first "
            f"of {wrong.sum()} such entries. Remove or impute them."
        )
    return np.ascontiguousarray(np.clip(points, -FARTHEST, FARTHEST))


def _as_floats(X: Any) -> Floats:
    with suppress(TypeError, ValueError, OverflowError), np.errstate(over="ignore"):
        given = np.asarray(X)
        if given.dtype.kind in "biufO":
            return given.astype(np.float64)
    raise DataError(
        "X must be a matrix of numbers, its rows equally long. Encode other columns as numbers first."
    )
