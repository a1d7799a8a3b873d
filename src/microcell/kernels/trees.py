"""Nearest points by a search tree or, in many dimensions, by a scan."""

from typing import Any

import numpy as np
import scipy

from microcell.kernels._jit import kernel
from microcell.kernels.arrays import Floats, Integers, distinct_rows
from microcell.kernels.scans import BLOCK, lay_out, measure

__all__ = ["MOST_TREE_DIMENSIONS", "nearest_rows"]

MOST_TREE_DIMENSIONS = 10
"""Number of dimensions up to which a search tree is used. With more, it would visit most of its
points, and a scan is faster.
"""

_CLOSE = 1 + 1e-9
"""The tree rounds differently, so points within this factor of its nearest are remeasured."""

_QUERIES_AT_A_TIME = 4096


def nearest_rows(points: Floats, queries: Floats) -> Integers:
    """Return the row of the nearest point for each query; ties go to the lowest row.

    Squared distances are summed over the columns in order, as in all kernels. Time O((N + q) log N)
    in up to :data:`MOST_TREE_DIMENSIONS` dimensions, O(N q m) in more; memory a copy of the points.

    Examples
    --------
    >>> nearest_rows(np.array([[0.0], [2.0], [2.0]]), np.array([[1.0], [1.5], [9.0]]))
    array([0, 1, 1])
    """
    if points.shape[1] > MOST_TREE_DIMENSIONS:
        out = np.zeros(len(queries), dtype=np.int64)
        _scan_points(lay_out(points).blocks, len(points), np.ascontiguousarray(queries), out)
        return out
    if points.shape[1] == 0:
        return np.zeros(len(queries), dtype=np.int64)
    # Equal points would all tie with each other.
    rows = np.sort(distinct_rows(points).first)
    return rows[_search_tree(points[rows], queries)]


def _search_tree(points: Floats, queries: Floats) -> Integers:
    tree = scipy.spatial.cKDTree(points)
    if len(points) == 1 or len(queries) == 0:
        return np.zeros(len(queries), dtype=np.int64)
    distances, rows_found = (np.asarray(part) for part in tree.query(queries, k=2, workers=-1))
    out = rows_found[:, 0].astype(np.int64)
    tied = np.flatnonzero(distances[:, 1] <= distances[:, 0] * _CLOSE)
    for first in range(0, len(tied), _QUERIES_AT_A_TIME):
        some = tied[first : first + _QUERIES_AT_A_TIME]
        radii = distances[some, 0] * _CLOSE
        near = [
            np.asarray(rows, dtype=np.int64) for rows in _query_ball(tree, queries[some], radii)
        ]
        counts = np.array([len(rows) for rows in near])
        out[some] = _lowest_nearest(points, queries[some], np.concatenate(near), counts)
    return out


def _query_ball(tree: "scipy.spatial.cKDTree[None]", queries: Floats, radii: Floats) -> Any:
    """Return the list of points within the radius of each query."""
    return tree.query_ball_point(queries, radii, workers=-1)


def _lowest_nearest(points: Floats, queries: Floats, near: Integers, counts: Integers) -> Integers:
    """Return the lowest row among the nearest of each query's ``counts`` entries of ``near``."""
    owner = np.repeat(np.arange(len(queries)), counts)
    distances = np.zeros(len(near))
    for j in range(points.shape[1]):
        distances += (points[near, j] - queries[owner, j]) ** 2
    order = np.lexsort((near, distances, owner))
    out: Integers = near[order[np.cumsum(counts) - counts]]
    return out


@kernel
def _scan_points(blocks: Floats, count: int, queries: Floats, out: Integers) -> None:
    """Find the nearest of the ``count`` points for each query, block by block (OUT: ``out``)."""
    best, lane = np.full(len(queries), np.inf), np.empty(BLOCK)
    for b in range(len(blocks)):
        first = b * BLOCK
        size = min(BLOCK, count - first)
        for q in range(len(queries)):
            measure(blocks[b], queries[q], lane)
            least = lane[:size].min()
            if least < best[q]:
                best[q] = least
                out[q] = first + np.argmin(lane[:size])
