"""Nearest neighbours of every record by a search tree, and lower bounds on its distances.

The records are ordered so that each node of a complete binary tree is a run of them, with its
bounding box. A search visits the leaves from the nearest on. With a limit on the number of leaves
it may end early; distances that it did not reach are then replaced by the distance of the nearest
leaf that was not visited, which is at most as large.
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import ZERO, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers
from microcell.kernels.scans import BLOCK, measure

__all__ = ["UNKNOWN", "Tree", "find_nearest", "grow_tree", "least_weighted_shares"]

UNKNOWN = -1
"""Row of a record that the search did not reach; its distance is a lower bound."""


class Tree(NamedTuple):
    """A search tree; the children of node t are 2 t + 1 and 2 t + 2, and leaves come last."""

    points: Floats
    """Records in the order of the leaves."""
    blocks: Floats
    """``blocks[b, j, i]`` is column j of the i-th record of leaf b."""
    rows: Integers
    """Row number of each record, in the order of the leaves."""
    starts: Integers
    """First record of each leaf, and the number of records."""
    lows: Floats
    """Lower corner of each node's bounding box."""
    highs: Floats
    """Upper corner of each node's bounding box."""


def grow_tree(X: Floats) -> Tree:
    """Return a search tree of the records: nodes are halved at the median of the widest column.

    Time O(n m log n), memory about twice the matrix.
    """
    n = len(X)
    rows, starts = np.arange(n), np.array([0, n])
    while n > BLOCK * (len(starts) - 1):
        middles = (starts[:-1] + starts[1:]) // 2
        for first, middle, last in zip(starts[:-1], middles, starts[1:], strict=True):
            part = rows[first:last]
            values = X[part]
            column = values[:, int(np.argmax(np.ptp(values, axis=0)))]
            rows[first:last] = part[np.argpartition(column, middle - first)]
        starts = np.sort(np.concatenate([starts, middles]))
    points = np.ascontiguousarray(X[rows])
    lows = np.minimum.reduceat(points, starts[:-1])
    highs = np.maximum.reduceat(points, starts[:-1])
    level = len(lows)
    while level > 1:
        level //= 2
        lows = np.vstack([np.minimum(lows[: 2 * level : 2], lows[1 : 2 * level : 2]), lows])
        highs = np.vstack([np.maximum(highs[: 2 * level : 2], highs[1 : 2 * level : 2]), highs])
    blocks = np.zeros((len(starts) - 1, X.shape[1], BLOCK))
    leaf = np.repeat(np.arange(len(blocks)), np.diff(starts))
    blocks[leaf, :, np.arange(n) - starts[leaf]] = points
    return Tree(points, blocks, rows, starts, lows, highs)


@inner_kernel
def _distance_to_box(point: Floats, low: Floats, high: Floats) -> float:
    total = 0.0
    for j in range(len(point)):
        gap = max(low[j] - point[j], point[j] - high[j], 0.0)
        total += gap * gap
    return total


@inner_kernel
def _push(gaps: Floats, nodes: Integers, size: int, gap: float, node: int) -> None:
    """Add a node to a heap, smallest first (OUT: ``gaps``, ``nodes``)."""
    while size > 0:
        parent = (size - 1) // 2
        if gaps[parent] <= gap:
            break
        gaps[size] = gaps[parent]
        nodes[size] = nodes[parent]
        size = parent
    gaps[size] = gap
    nodes[size] = node


@inner_kernel
def _pop(gaps: Floats, nodes: Integers, size: int) -> None:
    """Remove the first node of a heap of this size (OUT: ``gaps``, ``nodes``)."""
    gap, node = gaps[size - 1], nodes[size - 1]
    place = ZERO
    while True:
        child = 2 * place + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1 and gaps[child + 1] < gaps[child]:
            child += 1
        if gaps[child] >= gap:
            break
        gaps[place] = gaps[child]
        nodes[place] = nodes[child]
        place = child
    gaps[place] = gap
    nodes[place] = node


@inner_kernel
def _scan_leaf(
    tree: Tree, leaf: int, query: int, lane: Floats, distances: Floats, rows: Integers
) -> None:
    """Insert the records of a leaf into the sorted nearest of a query (OUT: last three)."""
    last, first = len(distances) - 1, tree.starts[leaf]
    measure(tree.blocks[leaf], tree.points[query], lane)
    for i in range(tree.starts[leaf + 1] - first):
        distance = lane[i]
        if distance >= distances[last] or first + i == query:
            continue
        place = last
        while place > 0 and distances[place - 1] > distance:
            distances[place] = distances[place - 1]
            rows[place] = rows[place - 1]
            place -= 1
        distances[place] = distance
        rows[place] = tree.rows[first + i]


@kernel
def find_nearest(tree: Tree, first: int, leaves: int, distances: Floats, rows: Integers) -> int:
    """Find the nearest others of some records, as sorted squared distances and rows (OUT).

    Line i is for the record ``first + i`` in the order of the tree. Visits at most ``leaves``
    leaves per record. Returns the number of records for which that was too few.
    """
    inner = len(tree.starts) - 2
    gaps, nodes = np.empty(len(tree.starts)), np.empty(len(tree.starts), dtype=np.int64)
    cut, lane = 0, np.empty(BLOCK)
    for i in range(len(distances)):
        point = tree.points[first + i]
        for p in range(distances.shape[1]):
            distances[i, p] = np.inf
            rows[i, p] = UNKNOWN
        gaps[0], nodes[0] = 0.0, 0
        size, visited = 1, 0
        while size > 0 and gaps[0] < distances[i, -1]:
            if visited == leaves:
                cut += 1
                for p in range(distances.shape[1]):
                    if distances[i, p] > gaps[0]:
                        distances[i, p] = gaps[0]
                        rows[i, p] = UNKNOWN
                break
            node = nodes[0]
            _pop(gaps, nodes, size)
            size -= 1
            if node >= inner:
                _scan_leaf(tree, node - inner, first + i, lane, distances[i], rows[i])
                visited += 1
                continue
            for child in (2 * node + 1, 2 * node + 2):
                gap = _distance_to_box(point, tree.lows[child], tree.highs[child])
                if gap < distances[i, -1]:
                    _push(gaps, nodes, size, gap, child)
                    size += 1
    return cut


@kernel
def least_weighted_shares(
    distances: Floats, masses: Floats, own: Floats, lightest: float, least: int, most: int,
    out: Floats,
) -> None:  # fmt: skip
    """Bound the weighted share of each record in the SSE of its cell from below (OUT: ``out``).

    The share of a record of weight w in a cell of weight W is w / 2W times the weighted sum of its
    squared distances. Each line has the squared distances and weights of its nearest others, sorted
    by distance; any number of others may be as far as the last one and have the ``lightest``
    weight. The least ratio over cells of ``least`` to ``most`` records is found by Dinkelbach's
    method: with t the least ratio so far, the best cell has the least sum of weight times
    (distance - t).
    """
    width = distances.shape[1]
    terms = np.empty(width)
    for i in range(len(distances)):
        far = distances[i, width - 1]
        ratio = far
        while True:
            for p in range(width):
                terms[p] = masses[i, p] * (distances[i, p] - ratio)
            beyond = lightest * (far - ratio)
            above, below = 0.0, own[i]
            order = np.argsort(terms)
            for place in range(most - 1):
                p = order[place] if place < width else ZERO
                near = place < width and terms[p] <= beyond
                term = terms[p] if near else beyond
                if place >= least - 1 and term >= 0.0:
                    break
                mass = masses[i, p] if near else lightest
                above += mass * (distances[i, p] if near else far)
                below += mass
            if above / below >= ratio * (1 - 1e-12):
                break
            ratio = above / below
        out[i] = 0.5 * own[i] * min(ratio, above / below)
