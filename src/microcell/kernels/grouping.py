"""Records in cells, with what exchanges need at hand: sums, weights, and who is where.

The SSE is a constant less the sum over cells of ||S||^2 / W, their worth, with S the sum of the weighted points of a
cell's members and W their weight. Points should be centred, so that S is not large for nothing.
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._arrays import Floats, Integers
from microcell.kernels._jit import inlined_kernel, inner_kernel, kernel

__all__ = ["Grouping", "cost_of_moving", "cost_of_swapping", "make_grouping", "move", "swap"]


class Grouping(NamedTuple):
    """n records in up to G cells of up to ``cap`` members, in m dimensions."""

    points: Floats
    """(n, m): each point times its weight."""
    weights: Floats
    labels: Integers
    """(n,): the cell of each record."""
    slots: Integers
    """(n,): its place among the members."""
    members: Integers
    """(G, cap)."""
    sizes: Integers
    sums: Floats
    """(G, m): S."""
    totals: Floats
    """(G,): W."""
    norms: Floats
    """(G,): ||S||^2."""
    empty: Integers
    """(G + 1,): how many cells are empty, and which."""


@kernel
def make_grouping(X: Floats, weights: Floats, labels: Integers, count: int, cap: int) -> Grouping:
    """The records in the cells of their labels, with room for ``count`` cells of ``cap`` members. O(n m)."""
    n, m = X.shape
    cells = Grouping(
        np.empty((n, m)),
        weights,
        labels.copy(),
        np.zeros(n, dtype=np.int64),
        np.zeros((count, cap), dtype=np.int64),
        np.zeros(count, dtype=np.int64),
        np.zeros((count, m)),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count + 1, dtype=np.int64),
    )
    for i in range(n):
        cell = labels[i]
        for j in range(m):
            cells.points[i, j] = X[i, j] * weights[i]
            cells.sums[cell, j] += cells.points[i, j]
        cells.totals[cell] += weights[i]
        cells.slots[i] = cells.sizes[cell]
        cells.members[cell, cells.sizes[cell]] = i
        cells.sizes[cell] += 1
    for cell in range(count):
        for j in range(m):
            cells.norms[cell] += cells.sums[cell, j] ** 2
        if cells.sizes[cell] == 0:
            cells.empty[0] += 1
            cells.empty[cells.empty[0]] = cell
    return cells


@inlined_kernel
def cost_of_swapping(cells: Grouping, x: int, y: int) -> float:
    """By how much the SSE would rise if x and y changed cells."""
    a, b = cells.labels[x], cells.labels[y]
    p, q, s, t = cells.points[x], cells.points[y], cells.sums[a], cells.sums[b]
    with_a, with_b, square = 0.0, 0.0, 0.0
    for j in range(len(p)):
        d = q[j] - p[j]
        with_a += s[j] * d
        with_b += t[j] * d
        square += d * d
    more = cells.weights[y] - cells.weights[x]
    worth_a = (cells.norms[a] + 2 * with_a + square) / (cells.totals[a] + more)
    worth_b = (cells.norms[b] - 2 * with_b + square) / (cells.totals[b] - more)
    return cells.norms[a] / cells.totals[a] + cells.norms[b] / cells.totals[b] - worth_a - worth_b  # type: ignore[no-any-return]


@inlined_kernel
def swap(cells: Grouping, x: int, y: int) -> None:
    """Let x and y change cells (OUT: ``cells``)."""
    a, b, slot, other = cells.labels[x], cells.labels[y], cells.slots[x], cells.slots[y]
    _shift(cells, a, x, y)
    _shift(cells, b, y, x)
    cells.members[a, slot], cells.members[b, other] = y, x
    cells.slots[x], cells.slots[y] = other, slot
    cells.labels[x], cells.labels[y] = b, a


@inlined_kernel
def _shift(cells: Grouping, cell: int, leaves: int, joins: int) -> None:
    """Count one record of a cell in place of another."""
    norm = 0.0
    p, q, s = cells.points[leaves], cells.points[joins], cells.sums[cell]
    for j in range(len(s)):
        s[j] += q[j] - p[j]
        norm += s[j] * s[j]
    cells.totals[cell] += cells.weights[joins] - cells.weights[leaves]
    cells.norms[cell] = norm


@inner_kernel
def cost_of_moving(cells: Grouping, x: int, b: int) -> float:
    """By how much the SSE would rise if x moved to cell b, which may be empty; its own cell may become so."""
    a, w = cells.labels[x], cells.weights[x]
    p, s, t = cells.points[x], cells.sums[a], cells.sums[b]
    with_a, with_b, square = 0.0, 0.0, 0.0
    for j in range(len(p)):
        with_a += s[j] * p[j]
        with_b += t[j] * p[j]
        square += p[j] * p[j]
    worth_b = (cells.norms[b] + 2 * with_b + square) / (cells.totals[b] + w)
    cost = cells.norms[a] / cells.totals[a] - worth_b
    if cells.sizes[a] > 1:
        cost -= (cells.norms[a] - 2 * with_a + square) / (cells.totals[a] - w)
    if cells.sizes[b] > 0:
        cost += cells.norms[b] / cells.totals[b]
    return cost  # type: ignore[no-any-return]


@inner_kernel
def move(cells: Grouping, x: int, b: int) -> None:
    """Move x to cell b (OUT: ``cells``)."""
    a, w = cells.labels[x], cells.weights[x]
    last = cells.members[a, cells.sizes[a] - 1]
    cells.members[a, cells.slots[x]], cells.slots[last] = last, cells.slots[x]
    cells.members[b, cells.sizes[b]], cells.slots[x] = x, cells.sizes[b]
    cells.labels[x] = b
    cells.sizes[a] -= 1
    cells.sizes[b] += 1
    emptied = cells.sizes[a] == 0
    p, s, t = cells.points[x], cells.sums[a], cells.sums[b]
    norm_a, norm_b = 0.0, 0.0
    for j in range(len(p)):
        s[j] = 0.0 if emptied else s[j] - p[j]
        t[j] += p[j]
        norm_a += s[j] * s[j]
        norm_b += t[j] * t[j]
    cells.totals[a] = 0.0 if emptied else cells.totals[a] - w
    cells.totals[b] += w
    cells.norms[a], cells.norms[b] = norm_a, norm_b
