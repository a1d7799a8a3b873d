"""PCL with fixed centroids: assign points to centres of limited capacity at minimum cost."""

from dataclasses import dataclass
from math import frexp

import numpy as np
from numpy.typing import ArrayLike

from microcell._display import count as counted
from microcell._validation import as_reals
from microcell.errors import DataError, OptionError
from microcell.methods.lloyd import MANY_CELLS, adjust_exactly
from microcell.model import Floats, Integers

__all__ = ["Allocated", "allocate_points"]

_LARGEST = 1e150
"""Squares of larger coordinates overflow."""


@dataclass(frozen=True, eq=False)
class Allocated:
    """The centre of each point, and the price of each centre."""

    labels: Integers
    """(n,): each point is at the centre of least squared distance plus cost."""
    costs: Floats
    """(Q,): at least 0; 0 for a centre with places left."""


def allocate_points(X: ArrayLike, centres: ArrayLike, places: ArrayLike) -> Allocated:
    """Assign points to centres, minimizing the sum of squared distances.

    No centre gets more points than it has places. This is a transportation problem, solved
    exactly; the costs are its dual variables (prices). One more place at a centre lowers the sum by
    at most its cost; one place fewer raises it by at least its cost.

    Parameters
    ----------
    X : (n, m)
        Points, in the same units as the centres.
    centres : (Q, m)
        At most 1,500. Several may have the same coordinates.
    places : (Q,)
        Integers of at least 1 that add up to at least n.

    Notes
    -----
    Time O(n Q m), plus a shortest path among the Q centres for each point that cannot go to its
    nearest one; memory O(n m + Q^2). Ties between points are broken by their order.

    Examples
    --------
    >>> result = allocate_points([[0.0], [1.0], [2.0], [9.0]], [[1.0], [8.0]], [2, 3])
    >>> result.labels, result.costs
    (array([0, 0, 1, 1]), array([35.,  0.]))
    """
    points, sites = _check_coordinates(X, "point"), _check_coordinates(centres, "centre")
    if points.shape[1] != sites.shape[1]:
        raise DataError(
            f"Points have {counted(points.shape[1], 'column')}, but centres have {sites.shape[1]}. "
            "Use the same columns for both.",
            code="table.mismatch",
            columns=points.shape[1],
        )
    if len(sites) > MANY_CELLS:
        raise OptionError(
            f"An exact optimum is limited to {MANY_CELLS:,} centres; there are {len(sites):,}. "
            "Allocate each region separately.",
            code="option.out_of_range",
            option="centres",
        )
    limits = _check_places(places, len(points), len(sites))
    scale = _find_scale(points, sites)
    labels, costs = np.arange(len(points)) % len(sites), np.zeros(len(sites))
    adjust_exactly(points * scale, sites * scale, costs, limits, labels)
    return Allocated(labels, costs / scale / scale)


def _check_coordinates(values: ArrayLike, noun: str) -> Floats:
    matrix = as_reals(values, f"Coordinates of {noun}s must be numbers.")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise DataError(
            f"Coordinates of {noun}s must be a non-empty matrix with a row per {noun}, not an "
            f"array of shape {matrix.shape}.",
            code="data.invalid",
        )
    wrong = np.argwhere(~(np.abs(matrix) <= _LARGEST))
    if len(wrong):
        row, column = (wrong[0] + 1).tolist()
        raise DataError(
            f"Coordinates of {noun}s must be finite and at most {_LARGEST:g} in size, but row "
            f"{row}, column {column} is not (first of {len(wrong)}). Correct or remove them.",
            code="data.not_finite",
            row=row,
            column=column,
            count=len(wrong),
        )
    return matrix


def _check_places(places: ArrayLike, n: int, count: int) -> Integers:
    """Return the places as integers, capped at n so that sums of them stay small."""
    values = as_reals(places, "places must be integers of at least 1, one per centre.")
    if values.shape != (count,):
        raise OptionError(
            f"places must have one number per centre ({count:,}), not the shape {values.shape}.",
            code="option.invalid",
            option="places",
        )
    wrong = np.flatnonzero(~((values >= 1) & (values == np.floor(values)) & (values <= 2**53)))
    if len(wrong):
        raise DataError(
            f"places must be integers of at least 1, but row {wrong[0] + 1} is not (first of "
            f"{len(wrong)}). Leave out centres without places.",
            code="data.invalid",
            row=int(wrong[0]) + 1,
            option="places",
            count=len(wrong),
        )
    limits = np.minimum(values, n).astype(np.int64)
    total = int(limits.sum())
    if total < n:
        raise DataError(
            f"{counted(n, 'point')} cannot fit into {counted(total, 'place')}. Add at least "
            f"{counted(n - total, 'place')}.",
            code="data.invalid",
            missing=n - total,
        )
    return limits


def _find_scale(points: Floats, sites: Floats) -> float:
    """Return 1, or the power of two (which rounds nothing) that keeps squares representable."""
    largest = max(float(np.abs(points).max()), float(np.abs(sites).max()))
    if largest == 0 or 1e-100 < largest < 1e100:
        return 1.0
    return float(2.0 ** -frexp(largest)[1])
