"""Records that join cells: one after the other, as cells fill; and the cells nearest to given points."""

from typing import NamedTuple

import numpy as np

from microcell.kernels._arrays import Floats, Integers
from microcell.kernels._jit import inner_kernel, kernel
from microcell.kernels.scans import BLOCK, Points, Scratch, lay_out, make_scratch, measure, scan

__all__ = ["Sites", "find_near", "join_in_turn", "make_sites", "near_sites", "place_site"]


class Sites(NamedTuple):
    """Cells that take records: ``blocks[b, j, i]`` is column j of the centroid of cell ``b * BLOCK + i``."""

    blocks: Floats
    sums: Floats
    """(G, m): the sum of each cell's weighted points."""
    totals: Floats
    """(G,): their weight."""
    sizes: Integers
    used: Integers
    """How many cells there are, in an array of one; there is room for more."""


def make_sites(X: Floats, labels: Integers, weights: Floats, room: int) -> Sites:
    """The cells of these records, with room for so many. O(n m)."""
    sizes = np.bincount(labels)
    count, m = len(sizes), X.shape[1]
    sums, totals = np.zeros((room, m)), np.zeros(room)
    totals[:count] = np.bincount(labels, weights=weights)
    for j in range(m):
        sums[:count, j] = np.bincount(labels, weights=weights * X[:, j])
    centroids = np.zeros((room, m))
    centroids[:count] = sums[:count] / totals[:count, np.newaxis]
    return Sites(
        lay_out(centroids).blocks,
        sums,
        totals,
        np.concatenate([sizes, np.zeros(room - count, dtype=np.int64)]),
        np.array([count]),
    )


def place_site(sites: Sites, cell: int, X: Floats, weights: Floats) -> None:
    """Let the cell have these records and no others; a number that is not in use yet makes it new (OUT: ``sites``)."""
    sites.sums[cell] = (X * weights[:, np.newaxis]).sum(axis=0)
    sites.totals[cell], sites.sizes[cell] = weights.sum(), len(X)
    sites.blocks[cell // BLOCK, :, cell % BLOCK] = sites.sums[cell] / sites.totals[cell]
    sites.used[0] = max(sites.used[0], cell + 1)


@kernel
def join_in_turn(
    sites: Sites, X: Floats, weights: Floats, first: int, last: int, most: int, inertial: bool, joined: Integers
) -> int:
    """Let records ``first`` to ``last - 1`` join a cell each until one has ``most`` (OUT: ``sites``, ``joined``).

    Returns the number of the record after the last that joined. The cell is the one with the nearest centroid, or, if
    ``inertial``, the one whose SSE rises least, W w / (W + w) ||y - c||^2, and then its centroid moves. Ties to the
    lowest cell. O(G m) time a record.
    """
    lane = np.empty(BLOCK)
    for i in range(first, last):
        cell = _best_site(sites, X[i], weights[i], inertial, lane)
        joined[i] = cell
        sites.sizes[cell] += 1
        sites.totals[cell] += weights[i]
        block, place = divmod(cell, BLOCK)
        for j in range(X.shape[1]):
            sites.sums[cell, j] += weights[i] * X[i, j]
            if inertial:
                sites.blocks[block, j, place] = sites.sums[cell, j] / sites.totals[cell]
        if sites.sizes[cell] >= most:
            return i + 1
    return last


@inner_kernel
def _best_site(sites: Sites, point: Floats, weight: float, inertial: bool, lane: Floats) -> int:
    best, found = np.inf, np.int64(0)
    count = sites.used[0]
    for b in range(-(-count // BLOCK)):
        measure(sites.blocks[b], point, lane)
        first = b * BLOCK
        size = min(BLOCK, count - first)
        if inertial:
            for i in range(size):
                lane[i] *= sites.totals[first + i] / (sites.totals[first + i] + weight)
        least = lane[:size].min()
        if least < best:
            best, found = least, first + np.argmin(lane[:size])
    return found  # type: ignore[return-value]


def near_sites(centroids: Floats, targets: Floats, wanted: int) -> Integers:
    """For each target the ``wanted`` nearest centroids, in no order, ties to the lowest numbers. O(G m) time each."""
    near = np.empty((len(targets), min(wanted, len(centroids))), dtype=np.int64)
    find_near(lay_out(centroids), np.ascontiguousarray(targets), make_scratch(near.shape[1], 1), near)
    return near


@kernel
def find_near(points: Points, targets: Floats, scratch: Scratch, near: Integers) -> None:
    """Find the points nearest to each target (OUT: ``near``); there must be as many as asked for."""
    for i in range(len(targets)):
        scan(points, targets[i], scratch, near.shape[1])
        near[i] = scratch.rows[0, : near.shape[1]]
