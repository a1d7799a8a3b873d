"""The costs of cells adjusted until the cells have their sizes: exactly, or by Newton's method first."""

from collections.abc import Callable
from hashlib import sha256

import numpy as np

from microcell.kernels.neighbours import find_cells_around, find_near_cells
from microcell.kernels.newton import balance_costs
from microcell.kernels.transport import centre_costs, choose_again, push_excess
from microcell.model import Floats, Integers, Mask

__all__ = ["ADJUSTMENTS", "Adjustment", "adjust_by_newton", "adjust_exactly", "settle_costs"]

Adjustment = Callable[[Floats, Floats, Floats, Integers, Integers], int]
"""(points, sites, costs, targets, labels): changes costs and labels until the sizes are the targets; how many looks."""

MANY_CELLS, NEAR = 1500, 128
"""With more cells, arcs lead only to so many near ones at first, to twice as many where that does not do."""

NEIGHBOURS = 6
"""In few dimensions a cell has few neighbours: arcs lead to so many near cells times 2 for each dimension at first."""

EACH_WAY = 3
"""Arcs lead also to so many cells in every direction: the nearest cells alone may all be of one crowd."""

SWEEPS = 200
"""In which costs move to the middle of what they may be."""


def adjust_exactly(X: Floats, sites: Floats, costs: Floats, targets: Integers, labels: Integers) -> int:
    """Find costs under which the cells have their sizes (OUT: ``costs``, ``labels``): the least distortion there is.

    Warm-started from costs and labels. Targets may add up to more than there are points: then they are limits, and
    costs must be 0 at the start. Time O(n Q m) and a shortest path among the Q cells for each point too many.
    """
    count = len(sites)
    reach, looks = _reach(sites), 0
    while True:
        choose_again(X, sites, costs, targets, labels)
        looks += X.size * count
        if (np.bincount(labels, minlength=count) <= targets).all():
            return looks
        looks += max(0, push_excess(X, sites, costs, targets, labels, _near(sites, reach)))
        if reach == count - 1:
            return looks
        reach = min(count - 1, 2 * reach)


def adjust_by_newton(X: Floats, sites: Floats, costs: Floats, targets: Integers, labels: Integers) -> int:
    """The same, by Newton's method first: what that leaves over is then pushed along shortest paths."""
    costs[:] = balance_costs(X, sites, costs, targets)
    return adjust_exactly(X, sites, costs, targets, labels)


def settle_costs(
    X: Floats, sites: Floats, costs: Floats, targets: Integers, labels: Integers, *, unpinned: bool = False
) -> Floats:
    """Costs for the same cells that leave no point on a border, as far as can be, the least of them 0.

    Random steps, drawn from a digest of the points, keep these from being calculated from where borders lie. Equal
    points in two cells hold a border where they are, which tells their value: ``unpinned``, they have no say, and all
    of them may come to lie on one side of it.
    """
    count = len(sites)
    if count == 1:
        return np.zeros(1)
    rows = np.flatnonzero(~_split_equals(X, labels)) if unpinned else np.arange(len(X))
    points, cells = np.ascontiguousarray(X[rows]), labels[rows]
    steps = np.random.default_rng(int(sha256(X.tobytes()).hexdigest(), 16)).uniform(-1.0, 1.0, size=count)
    reach, last = _reach(sites), count - 1 if count <= MANY_CELLS else min(count - 1, 2 * NEAR)
    while True:
        settled = costs.copy()
        centre_costs(points, sites, settled, targets, cells, _near(sites, reach), steps, SWEEPS)
        if choose_again(points, sites, settled, targets, cells.copy()) == 0:
            return np.asarray(settled - settled.min())
        if reach >= last:
            break
        reach = min(last, 2 * reach)
    return np.asarray(costs - costs.min())  # a cell beyond the near ones would have come out


ADJUSTMENTS: dict[str, Adjustment] = {
    "exact": adjust_exactly,
    "newton": adjust_by_newton,
    "noisy": adjust_exactly,  # once the cloud has collapsed to the points
}
"""By name, as they are asked for."""


def _split_equals(X: Floats, labels: Integers) -> Mask:
    """True for points that have an equal in another cell."""
    group = np.unique(X, axis=0, return_inverse=True)[1].ravel()
    least, most = np.full(int(group.max()) + 1, len(X)), np.full(int(group.max()) + 1, -1)
    np.minimum.at(least, group, labels)
    np.maximum.at(most, group, labels)
    return np.asarray((least < most)[group])


def _reach(sites: Floats) -> int:
    """To how many near cells arcs lead at first."""
    count, m = sites.shape
    most = count - 1 if count <= MANY_CELLS else NEAR
    return int(min(most, NEIGHBOURS * 2 ** min(m, 10)))


def _near(sites: Floats, reach: int) -> Integers:
    """The cells that arcs lead to from each cell: all others, or so many of the nearest sites, and some all around."""
    count, m = sites.shape
    if reach == count - 1:
        others = np.arange(count - 1)
        return others + (others >= np.arange(count)[:, np.newaxis])
    near = np.empty((count, reach), dtype=np.int64)
    find_near_cells(sites, np.ones(count), near)
    around = np.empty((count, 2 * m, EACH_WAY), dtype=np.int64)
    find_cells_around(sites, around)
    farther = around.reshape(count, -1)
    return np.hstack([near, np.where(farther < 0, near[:, :1], farther)])
