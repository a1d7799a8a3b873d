"""Cells during a search: their members, sums and norms.

The worth of a cell is ||S||^2 / W, with the weighted sum S and total weight W of its members. The
SSE is a constant minus the worth of all cells, so an exchange helps if it raises the worth.
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import inlined_kernel, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers

__all__ = [
    "Blocks",
    "Grouping",
    "add_member",
    "cost_of_moving",
    "cost_of_swapping",
    "empty_blocks",
    "fill_blocks",
    "make_grouping",
    "move",
    "remove_member",
    "renew_cell",
    "swap",
    "worth",
]


class Grouping(NamedTuple):
    """n records in up to G cells of up to ``cap`` members, in m dimensions."""

    points: Floats
    """(n, m): each point multiplied by its weight."""
    weights: Floats
    labels: Integers
    """(n,): cell of each record."""
    slots: Integers
    """(n,): position of each record among the members of its cell."""
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
    """(G + 1,): number of empty cells, then their numbers."""


@kernel
def make_grouping(X: Floats, weights: Floats, labels: Integers, count: int, cap: int) -> Grouping:
    """Group the records by label, with room for ``count`` cells of ``cap`` members. O(n m)."""
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
    """Return the rise in the SSE if x and y swapped cells."""
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
    """Swap the cells of x and y (OUT: ``cells``)."""
    a, b, slot, other = cells.labels[x], cells.labels[y], cells.slots[x], cells.slots[y]
    _replace(cells, a, x, y)
    _replace(cells, b, y, x)
    cells.members[a, slot], cells.members[b, other] = y, x
    cells.slots[x], cells.slots[y] = other, slot
    cells.labels[x], cells.labels[y] = b, a


@inlined_kernel
def _replace(cells: Grouping, cell: int, leaves: int, joins: int) -> None:
    """Update the sums of a cell in which one record replaces another."""
    norm = 0.0
    p, q, s = cells.points[leaves], cells.points[joins], cells.sums[cell]
    for j in range(len(s)):
        s[j] += q[j] - p[j]
        norm += s[j] * s[j]
    cells.totals[cell] += cells.weights[joins] - cells.weights[leaves]
    cells.norms[cell] = norm


@inner_kernel
def cost_of_moving(cells: Grouping, x: int, b: int) -> float:
    """Return the rise in the SSE if x moved to cell b, which may be empty."""
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


class Blocks(NamedTuple):
    """Up to G cells of up to ``cap`` members in m dimensions. An empty cell has size 0."""

    points: Floats
    """(G, m, cap): column j of the member in each slot."""
    weights: Floats
    """(G, cap)."""
    members: Integers
    """(G, cap): row number of the member in each slot."""
    squares: Floats
    """(G, cap): squared length of each member."""
    inner: Floats
    """(G, cap): inner product of each member with the sum of its cell."""
    sizes: Integers
    sums: Floats
    """(G, m): S."""
    totals: Floats
    """(G,): W."""
    norms: Floats
    """(G,): ||S||^2."""


@kernel
def empty_blocks(count: int, m: int, cap: int) -> Blocks:
    """Allocate ``count`` empty cells."""
    return Blocks(
        np.zeros((count, m, cap)),
        np.zeros((count, cap)),
        np.zeros((count, cap), dtype=np.int64),
        np.zeros((count, cap)),
        np.zeros((count, cap)),
        np.zeros(count, dtype=np.int64),
        np.zeros((count, m)),
        np.zeros(count),
        np.zeros(count),
    )


@kernel
def fill_blocks(blocks: Blocks, X: Floats, weights: Floats, labels: Integers) -> None:
    """Put every row of ``X`` into the cell of its label (OUT: ``blocks``). O(n m)."""
    for i in range(len(X)):
        add_member(blocks, labels[i], i, X[i], weights[i])
    for cell in range(len(blocks.sizes)):
        renew_cell(blocks, cell)


@inner_kernel
def add_member(blocks: Blocks, cell: int, row: int, point: Floats, weight: float) -> None:
    """Append a record to the cell; call :func:`renew_cell` afterwards."""
    slot = blocks.sizes[cell]
    square = 0.0
    for j in range(len(point)):
        blocks.points[cell, j, slot] = point[j]
        square += point[j] * point[j]
    blocks.weights[cell, slot] = weight
    blocks.members[cell, slot] = row
    blocks.squares[cell, slot] = square
    blocks.sizes[cell] = slot + 1


@inner_kernel
def remove_member(blocks: Blocks, cell: int, slot: int) -> None:
    """Remove a record, filling its slot with the last one; call :func:`renew_cell` afterwards."""
    last = blocks.sizes[cell] - 1
    for j in range(blocks.points.shape[1]):
        blocks.points[cell, j, slot] = blocks.points[cell, j, last]
    blocks.weights[cell, slot] = blocks.weights[cell, last]
    blocks.members[cell, slot] = blocks.members[cell, last]
    blocks.squares[cell, slot] = blocks.squares[cell, last]
    blocks.sizes[cell] = last


@inner_kernel
def renew_cell(blocks: Blocks, cell: int) -> None:
    """Recompute the sums of the cell, so that rounding errors do not accumulate. O(size m)."""
    size, norm = blocks.sizes[cell], 0.0
    inner = blocks.inner[cell]
    inner[:] = 0.0
    total = 0.0
    for i in range(size):
        total += blocks.weights[cell, i]
    for j in range(blocks.sums.shape[1]):
        column, s = blocks.points[cell, j], 0.0
        for i in range(size):
            s += blocks.weights[cell, i] * column[i]
        blocks.sums[cell, j] = s
        norm += s * s
        for i in range(size):
            inner[i] += s * column[i]
    blocks.totals[cell] = total
    blocks.norms[cell] = norm


@inner_kernel
def worth(blocks: Blocks, cell: int) -> float:
    """Return ||S||^2 / W of a cell."""
    return blocks.norms[cell] / blocks.totals[cell]  # type: ignore[no-any-return]
