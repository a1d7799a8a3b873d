"""What every method is given: points, weights and k, checked in one place."""

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike

from microcell.errors import DataError, OptionError
from microcell.model import Floats

__all__ = ["as_points", "as_reals", "as_weights", "check_k", "varying"]


def check_k(k: object) -> None:
    """Refuse a k that is not a whole number of 2 or more."""
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise OptionError(f"k must be a whole number of 2 or more, not {k!r}.")
    if int(k) < 2:
        raise OptionError(f"k must be 2 or more, not {k}: a record alone in its cell has no protection.")


def as_points(X: ArrayLike) -> Floats:
    """The matrix in float64, scaled down where squares would overflow or vanish; cells do not depend on scale."""
    points = as_reals(X, "Points must be numbers. For a table with other columns use anonymize.")
    points = points[:, np.newaxis] if points.ndim == 1 else points
    if points.ndim != 2:
        raise DataError(f"Points must be a matrix of records by columns, not an array of {points.ndim} dimensions.")
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
