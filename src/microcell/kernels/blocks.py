"""Cells as blocks: the members of a cell side by side, column by column, so that all of them are measured at once.

What local search makes large is sum over cells of ||S||^2 / W, with S the weighted sum of a cell's members and W their
weight: the SSE is a constant less that. Points should be centred, so that S is not large for nothing.
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._arrays import Floats, Integers
from microcell.kernels._jit import inner_kernel, kernel

__all__ = ["Blocks", "add_member", "empty_blocks", "fill_blocks", "remove_member", "renew_cell", "worth"]


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
    own: Floats
    """(G, cap): inner product of each member with its cell's sum."""
    sizes: Integers
    sums: Floats
    """(G, m): S."""
    totals: Floats
    """(G,): W."""
    norms: Floats
    """(G,): ||S||^2."""


@kernel
def empty_blocks(count: int, m: int, cap: int) -> Blocks:
    """Room for ``count`` cells, all empty."""
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
    """Put a record into the next slot of the cell; the cell must be renewed afterwards."""
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
    """Take a record out of its slot, which the cell's last one fills; the cell must be renewed afterwards."""
    last = blocks.sizes[cell] - 1
    blocks.points[cell, :, slot] = blocks.points[cell, :, last]
    blocks.weights[cell, slot] = blocks.weights[cell, last]
    blocks.members[cell, slot] = blocks.members[cell, last]
    blocks.squares[cell, slot] = blocks.squares[cell, last]
    blocks.sizes[cell] = last


@inner_kernel
def renew_cell(blocks: Blocks, cell: int) -> None:
    """Sum the cell's members anew, so that no rounding error gathers. O(size m)."""
    size, norm = blocks.sizes[cell], 0.0
    own = blocks.own[cell]
    own[:] = 0.0
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
            own[i] += s * column[i]
    blocks.totals[cell] = total
    blocks.norms[cell] = norm


@inner_kernel
def worth(blocks: Blocks, cell: int) -> float:
    """||S||^2 / W of a cell."""
    return blocks.norms[cell] / blocks.totals[cell]  # type: ignore[no-any-return]
