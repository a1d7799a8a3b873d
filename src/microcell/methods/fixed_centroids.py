"""Points to centres with a limited number of places, at the least sum of squared distances."""

from dataclasses import dataclass
from math import frexp

import numpy as np
from numpy.typing import ArrayLike

from microcell._validation import as_reals
from microcell.errors import DataError, OptionError
from microcell.methods.lloyd import MANY_CELLS, adjust_exactly
from microcell.model import Floats, Integers

__all__ = ["Allocated", "allocate_points"]

_LARGEST = 1e150
"""The square of more overflows."""


@dataclass(frozen=True, eq=False)
class Allocated:
    """The centre of each point, and the cost of each centre: its price."""

    labels: Integers
    """(n,): every point is where squared distance plus cost is least."""
    costs: Floats
    """(Q,): 0 or more; 0 for a centre that has places left."""


def allocate_points(X: ArrayLike, centres: ArrayLike, places: ArrayLike) -> Allocated:
    """The allocation of the least sum of squared distances of all that give no centre more points than places.

    A transportation problem, solved exactly; the costs are its prices (dual variables). One more place at a centre
    would lower the sum by its cost at most, one place fewer would raise it by its cost at least.

    Parameters
    ----------
    X : (n, m)
        The points. They and the centres are used in the units given.
    centres : (Q, m)
        1,500 at most; several may be in one spot.
    places : (Q,)
        Whole numbers of 1 or more, n or more in all.

    Notes
    -----
    O(n Q m) time, and a shortest path among the Q centres for each point that cannot go to its nearest one;
    O(n m + Q^2) memory. Points that could go either way at the same sum are told apart by their order.

    Examples
    --------
    >>> found = allocate_points([[0.0], [1.0], [2.0], [9.0]], [[1.0], [8.0]], [2, 3])
    >>> found.labels, found.costs
    (array([0, 0, 1, 1]), array([35.,  0.]))
    """
    points, sites = _as_matrix(X, "point"), _as_matrix(centres, "centre")
    if points.shape[1] != sites.shape[1]:
        raise DataError(
            f"Points have {points.shape[1]} columns and centres {sites.shape[1]}. Give both the same columns."
        )
    if len(sites) > MANY_CELLS:
        raise OptionError(
            f"There are {len(sites):,} centres; {MANY_CELLS:,} are the most for an exact optimum. Allocate region by "
            "region."
        )
    limits = _as_limits(places, len(points), len(sites))
    scale = _find_scale(points, sites)
    labels, costs = np.arange(len(points)) % len(sites), np.zeros(len(sites))
    adjust_exactly(points * scale, sites * scale, costs, limits, labels)
    return Allocated(labels, costs / scale / scale)


def _as_matrix(given: ArrayLike, what: str) -> Floats:
    """The rows in float64, one at least, all finite."""
    matrix = as_reals(given, f"The coordinates of {what}s must be numbers.")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise DataError(
            f"The coordinates of {what}s must be a matrix, one row a {what}, with one row and one column at least, not "
            f"an array of the shape {matrix.shape}."
        )
    wrong = np.argwhere(~(np.abs(matrix) <= _LARGEST))
    if len(wrong):
        raise DataError(
            f"The coordinates of {what}s must be finite, up to {_LARGEST:g}: row {wrong[0, 0] + 1}, column "
            f"{wrong[0, 1] + 1} is not, the first of {len(wrong)} such entries. Correct or remove them."
        )
    return matrix


def _as_limits(places: ArrayLike, n: int, count: int) -> Integers:
    """The places in int64; no more than all points could take, so that sums of them stay small."""
    given = as_reals(places, "Places must be whole numbers of 1 or more, one a centre.")
    if given.shape != (count,):
        raise OptionError(
            f"Places must be {count:,} numbers, one a centre, not an array of the shape {given.shape}."
        )
    wrong = np.flatnonzero(~((given >= 1) & (given == np.floor(given)) & np.isfinite(given)))
    if len(wrong):
        raise DataError(
            f"Places must be whole numbers of 1 or more: row {wrong[0] + 1} has none such, the first of {len(wrong)}. "
            "Leave out centres that take nobody."
        )
    limits = np.minimum(given, n).astype(np.int64)
    short = n - int(limits.sum())
    if short > 0:
        raise DataError(
            f"{n:,} points do not fit in {int(limits.sum()):,} places: {short:,} are short. Add places, or centres."
        )
    return limits


def _find_scale(points: Floats, sites: Floats) -> float:
    """A power of two, which rounds nothing, to multiply by where squares would overflow or vanish; 1 elsewhere."""
    largest = max(float(np.abs(points).max()), float(np.abs(sites).max()))
    if largest == 0 or 1e-100 < largest < 1e100:
        return 1.0
    return float(2.0 ** -frexp(largest)[1])
