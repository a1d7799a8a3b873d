"""Distance-based record linkage: the probability that a record's nearest match is its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from microcell.kernels._jit import ZERO, inner_kernel, parallel_kernel, prange
from microcell.kernels.arrays import Floats, Integers
from microcell.kernels.scans import BLOCK, lay_out, measure
from microcell.kernels.trees import MOST_TREE_DIMENSIONS

__all__ = ["Links", "count_links"]

_TIED = (1 + 1e-12) ** 2
"""Squared distances within this factor of the smallest are equal up to rounding."""

_CLOSE = 1 + 1e-9
"""The tree rounds differently, so points within this factor of its nearest are remeasured."""

_QUERIES_AT_A_TIME = 1024

_MANY = 500
"""Number of queries from which several threads search the tree."""

_RIVALS = 1000
"""Minimum number of points that each true match is compared with first."""

_RIVALS_AT_A_TIME = 4096

_FEW_PAIRS = 1_000_000
"""Number of pairs of query and point up to which computing all distances is faster than loading the
tree.
"""

_PAIRS_AT_A_TIME = 100_000

_FEW_DIMENSIONS = 4
"""Number of dimensions up to which a tree is faster than comparing with rivals."""


@dataclass(frozen=True, eq=False)
class Links:
    """For each record, the probability that linking it to a nearest published record is correct."""

    expected: Floats


def count_links(
    originals: Floats, published: Floats, sizes: Integers, true_match: Integers
) -> Links:
    """Return the probability that a randomly chosen nearest published record is the right one.

    The probability is 1 / (records at the nearest distance) if the true match is among the nearest,
    otherwise 0: distance-based record linkage (Domingo-Ferrer and Torra 2001), in expectation over
    its ties. Distances that agree to a relative 1e-12 count as equal.

    Time O((n + g) log g) with few ties in up to
    :data:`~microcell.kernels.trees.MOST_TREE_DIMENSIONS` dimensions, at most O(n g m) in more. Most
    records of a coarse release are ruled out early, because one of a thousand rivals is nearer than
    the true match. Memory O((n + g) m).

    Parameters
    ----------
    originals
        Points to look up. Pass equal ones with the same true match only once.
    published
        Distinct published points.
    sizes
        Number of records published at each point.
    true_match
        Published point of each original.

    Examples
    --------
    >>> originals = np.array([[0.0], [2.0], [4.0], [9.0]])
    >>> published, sizes = np.array([[1.0], [3.0], [9.0]]), np.array([1, 2, 1])
    >>> count_links(originals, published, sizes, np.array([0, 1, 1, 0])).expected
    array([1.        , 0.33333333, 0.5       , 0.        ])
    """
    if not len(originals):
        return Links(np.zeros(0))
    if originals.shape[1] == 0 or len(published) == 1:
        return Links(np.full(len(originals), 1 / sizes.sum()))
    points, candidates = np.ascontiguousarray(originals), np.ascontiguousarray(published)
    count = _choose_search(len(points), points.shape[1], len(candidates))
    records = count(points, candidates, sizes, true_match)
    return Links(np.divide(1, records, out=np.zeros(len(records)), where=records > 0))


def _choose_search(queries: int, dimensions: int, published: int) -> Callable[..., Integers]:
    """Return the fastest way to count the records at each query's nearest points."""
    if queries * published <= _FEW_PAIRS:
        return _count_few
    return _count_by_tree if dimensions <= MOST_TREE_DIMENSIONS else _count_by_scan


def _count_few(
    queries: Floats, published: Floats, sizes: Integers, true_match: Integers
) -> Integers:
    """Count as in :func:`_count_by_tree`, but measure all distances of each remaining query."""
    records = np.zeros(len(queries), dtype=np.int64)
    left, every = _unbeaten(queries, published, true_match, published), np.arange(len(published))
    at_a_time = max(1, _PAIRS_AT_A_TIME // len(published))
    for first in range(0, len(left), at_a_time):
        some = left[first : first + at_a_time]
        near = [every] * len(some)
        records[some] = _count_tied(queries[some], published, sizes, true_match[some], near)
    return records


def _count_by_tree(
    queries: Floats, published: Floats, sizes: Integers, true_match: Integers
) -> Integers:
    """Count the records at each query's nearest points, 0 if the true match is not one of them."""
    records = np.zeros(len(queries), dtype=np.int64)
    left = np.arange(len(queries))
    if queries.shape[1] > _FEW_DIMENSIONS:
        left = _unbeaten(queries, published, true_match, _sample(published))
    if len(left):
        records[left] = _search_tree(queries[left], published, sizes, true_match[left])
    return records


def _sample(published: Floats) -> Floats:
    """Return one or two thousand evenly spaced points, or none if there are few points."""
    return (
        published[:: len(published) // _RIVALS] if len(published) > 2 * _RIVALS else published[:0]
    )


def _unbeaten(queries: Floats, published: Floats, true_match: Integers, rivals: Floats) -> Integers:
    """Return the queries for which no rival is certainly nearer than the true match.

    Squared distances are expanded to |x|^2 - 2 xy + |y|^2, a matrix product, and its possible
    rounding error is credited to the true match. Time O(q r m), at the speed of matrix products.
    """
    doubt = 1 + 8 * (queries.shape[1] + 2) * np.finfo(np.float64).eps
    left = np.ones(len(queries), dtype=np.bool_)
    for start in range(0, len(queries), _QUERIES_AT_A_TIME):
        some = queries[start : start + _QUERIES_AT_A_TIME]
        nearest = np.full(len(some), np.inf)
        for first in range(0, len(rivals), _RIVALS_AT_A_TIME):
            block = rivals[first : first + _RIVALS_AT_A_TIME]
            squares = _lengths(block) * doubt - 2 * (some @ block.T)
            np.minimum(nearest, squares.min(axis=1), out=nearest)
        apart = _squares(some, published[true_match[start : start + len(some)]])
        left[start : start + len(some)] = (nearest + _lengths(some) * doubt) * _CLOSE >= apart
    return np.flatnonzero(left)


def _lengths(points: Floats) -> Floats:
    """Return the squared distance of each point from the origin."""
    return _squares(points, np.zeros_like(points))


def _search_tree(
    queries: Floats, published: Floats, sizes: Integers, true_match: Integers
) -> Integers:
    tree = scipy.spatial.cKDTree(published)
    nearest = np.asarray(tree.query(queries, k=1, workers=_workers(queries))[0])
    close = np.flatnonzero(np.sqrt(_squares(queries, published[true_match])) <= nearest * _CLOSE)
    distances, nearest_points = (
        np.asarray(part) for part in tree.query(queries[close], k=2, workers=_workers(close))
    )
    alone = distances[:, 1] > distances[:, 0] * _CLOSE
    records = np.zeros(len(queries), dtype=np.int64)
    right = close[alone & (nearest_points[:, 0] == true_match[close])]
    records[right] = sizes[true_match[right]]
    tied = close[~alone]
    for first in range(0, len(tied), _QUERIES_AT_A_TIME):
        some = tied[first : first + _QUERIES_AT_A_TIME]
        near = _within(tree, queries[some], nearest[some] * _CLOSE)
        records[some] = _count_tied(queries[some], published, sizes, true_match[some], near)
    return records


def _workers(queries: Floats | Integers) -> int:
    """Use all threads only for many queries, because starting them takes time."""
    return -1 if len(queries) > _MANY else 1


def _within(tree: "scipy.spatial.cKDTree[None]", queries: Floats, radii: Floats) -> list[Integers]:
    """Return the points within the radius of each query; at least one."""
    lists: Any = tree.query_ball_point(queries, radii, workers=_workers(queries))
    return [np.asarray(rows, dtype=np.int64) for rows in lists]


def _count_tied(
    queries: Floats, published: Floats, sizes: Integers, true_match: Integers, near: list[Integers]
) -> Integers:
    """Count as in :func:`_count_by_tree`, given candidates for the nearest points."""
    counts = np.array([len(rows) for rows in near])
    starts, rows = np.cumsum(counts) - counts, np.concatenate(near)
    squares = _squares(np.repeat(queries, counts, axis=0), published[rows])
    limits = np.minimum.reduceat(squares, starts) * _TIED
    records = np.add.reduceat(
        np.where(squares <= np.repeat(limits, counts), sizes[rows], 0), starts
    )
    return np.where(_squares(queries, published[true_match]) <= limits, records, 0)


def _squares(a: Floats, b: Floats) -> Floats:
    """Return squared distances row by row, summed over columns in order."""
    total = np.zeros(len(a))
    for j in range(a.shape[1]):
        total += (a[:, j] - b[:, j]) ** 2
    return total


def _count_by_scan(
    queries: Floats, published: Floats, sizes: Integers, true_match: Integers
) -> Integers:
    """Count as in :func:`_count_by_tree`, but scan all points for each remaining query."""
    left = np.arange(len(queries))
    for rivals in (_sample(published), published):
        left = left[_unbeaten(queries[left], published, true_match[left], rivals)]
    counts = np.zeros(len(left), dtype=np.int64)
    if len(left):
        apart = _squares(queries[left], published[true_match[left]])
        _scan_all(lay_out(published).blocks, sizes.astype(np.int64), queries[left], apart, counts)
    records = np.zeros(len(queries), dtype=np.int64)
    records[left] = counts
    return records


@parallel_kernel
def _scan_all(
    blocks: Floats, sizes: Integers, queries: Floats, apart: Floats, out: Integers
) -> None:
    """Count the records at each query's nearest points, 0 if nearer than ``apart`` (OUT)."""
    for q in prange(len(queries)):
        out[q] = _scan_one(blocks, sizes, queries[q], apart[q])


@inner_kernel
def _scan_one(blocks: Floats, sizes: Integers, query: Floats, apart: float) -> int:
    least, lane = apart, np.empty(BLOCK)
    for b in range(len(blocks)):
        measure(blocks[b], query, lane)
        least = min(least, lane[: min(BLOCK, len(sizes) - b * BLOCK)].min())
        if apart > least * _TIED:
            return ZERO
    records = ZERO
    for b in range(len(blocks)):
        measure(blocks[b], query, lane)
        for i in range(min(BLOCK, len(sizes) - b * BLOCK)):
            if lane[i] <= least * _TIED:
                records += sizes[b * BLOCK + i]
    return records
