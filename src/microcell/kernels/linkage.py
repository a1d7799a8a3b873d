"""Records linked to the published points nearest to them, and how likely the link is right."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from microcell.kernels._jit import ZERO, inner_kernel, parallel_kernel, prange
from microcell.kernels.arrays import Floats, Integers
from microcell.kernels.scans import BLOCK, lay_out, measure
from microcell.kernels.trees import MOST_TREE_DIMENSIONS

__all__ = ["Distinct", "Links", "count_links", "distinct_rows"]

_TIED = (1 + 1e-12) ** 2
"""Squared distances within this factor of the least are equal but for rounding."""

_CLOSE = 1 + 1e-9
"""The tree rounds in an order of its own: what lies within this factor of its nearest is measured again."""

_QUERIES_AT_A_TIME = 1024

_MANY = 500
"""With more queries than this a tree is asked by several threads."""

_RIVALS = 1000
"""Points that each own point is held against first, at least."""

_RIVALS_AT_A_TIME = 4096

_FEW_DIMENSIONS = 4
"""In no more dimensions than these a tree answers faster than rivals are measured."""


@dataclass(frozen=True, eq=False)
class Links:
    """For each record the probability that who links it to a nearest published record finds its own."""

    expected: Floats


@dataclass(frozen=True, eq=False)
class Distinct:
    """The distinct rows of a matrix: the ``first`` row of each, and for each row its ``place`` among them."""

    first: Integers
    place: Integers


def distinct_rows(points: Floats) -> Distinct:
    """The distinct rows in ascending order, each by its lowest row number. Time O(n m log n), memory a copy.

    Examples
    --------
    >>> found = distinct_rows(np.array([[2.0, 1.0], [0.0, 5.0], [2.0, 1.0]]))
    >>> found.first, found.place
    (array([1, 0]), array([1, 0, 1]))
    """
    n, m = points.shape
    order = np.lexsort(np.ascontiguousarray(points.T[::-1])) if m else np.arange(n)
    ordered = points[order]
    begins = np.ones(n, dtype=np.bool_)
    begins[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.cumsum(begins) - 1
    return Distinct(order[begins].astype(np.int64), place)


def count_links(originals: Floats, published: Floats, sizes: Integers, own: Integers) -> Links:
    """For each original the probability that a record picked among those published nearest to it is its own.

    The probability is 1 / (records at the nearest distance) if the own point is among the nearest, else 0: distance-
    based record linkage (Domingo-Ferrer and Torra 2001), in expectation over its ties. Distances that agree to a
    relative 1e-12 are equal. Equal originals are looked up once.

    Time O((n + g) log g) for few ties in up to :data:`~microcell.kernels.trees.MOST_TREE_DIMENSIONS` dimensions; at
    most O(n g m) in more. Most records of a coarse release are given up early: a thousand points beat their own.
    Memory O((n + g) m).

    Parameters
    ----------
    published
        The distinct published points.
    sizes
        The number of records published at each point.
    own
        The published point of each original.

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
    queries = distinct_rows(np.column_stack((originals, own)))
    points, own = np.ascontiguousarray(originals[queries.first]), own[queries.first]
    count = _count_by_tree if originals.shape[1] <= MOST_TREE_DIMENSIONS else _count_by_scan
    records = count(points, np.ascontiguousarray(published), sizes, own)
    expected = np.divide(1, records, out=np.zeros(len(records)), where=records > 0)
    return Links(expected[queries.place])


def _count_by_tree(queries: Floats, published: Floats, sizes: Integers, own: Integers) -> Integers:
    """For each query the number of records at its nearest points, 0 if its own point is not among them."""
    records = np.zeros(len(queries), dtype=np.int64)
    left = np.arange(len(queries))
    if queries.shape[1] > _FEW_DIMENSIONS:
        left = _unbeaten(queries, published, own, _some(published))
    if len(left):
        records[left] = _search_tree(queries[left], published, sizes, own[left])
    return records


def _some(published: Floats) -> Floats:
    """A thousand points or two, spread over all; none if they are few."""
    return (
        published[:: len(published) // _RIVALS] if len(published) > 2 * _RIVALS else published[:0]
    )


def _unbeaten(queries: Floats, published: Floats, own: Integers, rivals: Floats) -> Integers:
    """The queries that have no rival certainly nearer than their own point: the others need no further search.

    Squares are taken apart as |x|^2 - 2 xy + |y|^2, a product of matrices, and what that may round away is granted to
    the own point. Time O(q r m), at the speed of such products.
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
        apart = _squares(some, published[own[start : start + len(some)]])
        left[start : start + len(some)] = (nearest + _lengths(some) * doubt) * _CLOSE >= apart
    return np.flatnonzero(left)


def _lengths(points: Floats) -> Floats:
    """The squared distance of each point from the origin."""
    return _squares(points, np.zeros_like(points))


def _search_tree(queries: Floats, published: Floats, sizes: Integers, own: Integers) -> Integers:
    tree = cKDTree(published)
    nearest = np.asarray(tree.query(queries, k=1, workers=_workers(queries))[0])
    close = np.flatnonzero(np.sqrt(_squares(queries, published[own])) <= nearest * _CLOSE)
    distances, found = (
        np.asarray(part) for part in tree.query(queries[close], k=2, workers=_workers(close))
    )
    alone = distances[:, 1] > distances[:, 0] * _CLOSE
    records = np.zeros(len(queries), dtype=np.int64)
    right = close[alone & (found[:, 0] == own[close])]
    records[right] = sizes[own[right]]
    tied = close[~alone]
    for first in range(0, len(tied), _QUERIES_AT_A_TIME):
        some = tied[first : first + _QUERIES_AT_A_TIME]
        near = _within(tree, queries[some], nearest[some] * _CLOSE)
        records[some] = _count_tied(queries[some], published, sizes, own[some], near)
    return records


def _workers(queries: Floats | Integers) -> int:
    """All threads for many queries; one for few, as starting the others takes longer."""
    return -1 if len(queries) > _MANY else 1


def _within(tree: "cKDTree[None]", queries: Floats, radii: Floats) -> list[Integers]:
    """For each query the points at its radius or less; at least one."""
    lists: Any = tree.query_ball_point(queries, radii, workers=_workers(queries))
    return [np.asarray(rows, dtype=np.int64) for rows in lists]


def _count_tied(
    queries: Floats, published: Floats, sizes: Integers, own: Integers, near: list[Integers]
) -> Integers:
    """As :func:`_count_by_tree`, where the nearest points of each query are among those in its entry of ``near``."""
    counts = np.array([len(rows) for rows in near])
    starts, rows = np.cumsum(counts) - counts, np.concatenate(near)
    squares = _squares(np.repeat(queries, counts, axis=0), published[rows])
    limits = np.minimum.reduceat(squares, starts) * _TIED
    records = np.add.reduceat(
        np.where(squares <= np.repeat(limits, counts), sizes[rows], 0), starts
    )
    return np.where(_squares(queries, published[own]) <= limits, records, 0)


def _squares(a: Floats, b: Floats) -> Floats:
    """Squared distances row by row, summed over the columns in order."""
    total = np.zeros(len(a))
    for j in range(a.shape[1]):
        total += (a[:, j] - b[:, j]) ** 2
    return total


def _count_by_scan(queries: Floats, published: Floats, sizes: Integers, own: Integers) -> Integers:
    """As :func:`_count_by_tree`, by plain distances of the queries that seem to be nearest to their own point."""
    left = np.arange(len(queries))
    for rivals in (_some(published), published):
        left = left[_unbeaten(queries[left], published, own[left], rivals)]
    found = np.zeros(len(left), dtype=np.int64)
    if len(left):
        apart = _squares(queries[left], published[own[left]])
        _scan_all(lay_out(published).blocks, sizes.astype(np.int64), queries[left], apart, found)
    records = np.zeros(len(queries), dtype=np.int64)
    records[left] = found
    return records


@parallel_kernel
def _scan_all(
    blocks: Floats, sizes: Integers, queries: Floats, apart: Floats, out: Integers
) -> None:
    """Count the records at the nearest points of each query (OUT: ``out``); 0 if nearer than ``apart``, its own."""
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
