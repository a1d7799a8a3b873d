"""Which cells are near a cell, by the distances of their means, and which records near a record, among those cells'."""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import ZERO, inlined_kernel, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers, Singles
from microcell.kernels.groups import Blocks, Grouping, add_member, remove_member, renew_cell, worth

__all__ = [
    "LEAST_GAIN",
    "Limits",
    "carry_out",
    "exchange_until_none_helps",
    "find_cells_around",
    "find_near_cells",
    "find_near_records",
    "gain_of_moving",
]

LEAST_GAIN = 1e-12
"""Gains under this share of the cells' worth are rounding errors."""


class Limits(NamedTuple):
    """The least and the greatest size of a cell."""

    least: int
    most: int


@kernel
def exchange_until_none_helps(blocks: Blocks, near: Integers, limits: Limits, passes: int) -> int:
    """Move and change records between near cells until nothing helps, or ``passes`` passes (OUT: ``blocks``).

    Returns the number of exchanges. A record is looked at again only if its cell or a near one has changed since.
    """
    count, m, cap = blocks.points.shape
    changed, looked = np.ones(count, dtype=np.int64), np.zeros((count, cap), dtype=np.int64)
    gains, point = np.empty((3, cap)), np.empty(m)
    clock, done = 1, 0
    for _ in range(passes):
        before = done
        for a in range(count):
            slot = ZERO
            while slot < blocks.sizes[a]:
                last = looked[a, slot]
                looked[a, slot] = clock
                b, other = _best_exchange(
                    blocks, near, limits, a, slot, changed, last, gains, point
                )
                if b >= 0:
                    clock += 1
                    changed[a] = changed[b] = clock
                    carry_out(blocks, looked, a, slot, b, other)
                    done += 1
                else:
                    slot += 1
        if done == before:
            break
    return done


@inner_kernel
def _best_exchange(
    blocks: Blocks,
    near: Integers,
    limits: Limits,
    a: int,
    slot: int,
    changed: Integers,
    last: int,
    gains: Floats,
    point: Floats,
) -> tuple[int, int]:
    """The best cell for the record in this slot, and the slot to change with there (-1: it moves); -1 if none helps."""
    point[:] = blocks.points[a, :, slot]
    best, best_cell, best_slot = 0.0, -1, -1
    for t in range(near.shape[1]):
        b = near[a, t]
        if b < 0:
            break
        if blocks.sizes[b] == 0 or (changed[a] <= last and changed[b] <= last):
            continue
        least = max(best, LEAST_GAIN * (worth(blocks, a) + worth(blocks, b)))
        inner = 0.0
        for j in range(len(point)):
            inner += blocks.sums[b, j] * point[j]
        if blocks.sizes[a] > limits.least and blocks.sizes[b] < limits.most:
            gain = gain_of_moving(blocks, a, slot, b, inner)
            if gain > least:
                least = best = gain
                best_cell, best_slot = b, -1
        _gains_of_changing(blocks, a, slot, b, inner, point, gains)
        for s in range(blocks.sizes[b]):
            if gains[0, s] > least:
                least = best = gains[0, s]
                best_cell, best_slot = b, s
    return best_cell, best_slot


@inner_kernel
def gain_of_moving(blocks: Blocks, a: int, slot: int, b: int, inner: float) -> float:
    """What the worth of both cells gains if the record moves from a to b; ``inner``: it times the sum of b."""
    w = blocks.weights[a, slot]
    square = w * w * blocks.squares[a, slot]
    leaving = (blocks.norms[a] - 2 * w * blocks.own[a, slot] + square) / (blocks.totals[a] - w)
    joining = (blocks.norms[b] + 2 * w * inner + square) / (blocks.totals[b] + w)
    return leaving + joining - worth(blocks, a) - worth(blocks, b)  # type: ignore[no-any-return]


@inner_kernel
def _gains_of_changing(
    blocks: Blocks, a: int, slot: int, b: int, inner: float, point: Floats, gains: Floats
) -> None:
    """What the worth of both cells gains if the record changes places with each member of b (OUT: ``gains``)."""
    cap = gains.shape[1]
    with_sum, with_point, gain = gains[1], gains[2], gains[0]
    with_sum[:] = 0.0
    with_point[:] = 0.0
    for j in range(len(point)):
        column, s, x = blocks.points[b, j], blocks.sums[a, j], point[j]
        for i in range(cap):
            with_sum[i] += s * column[i]
            with_point[i] += x * column[i]
    w, square, own = blocks.weights[a, slot], blocks.squares[a, slot], blocks.own[a, slot]
    total_a, total_b, norm_a, norm_b = (
        blocks.totals[a],
        blocks.totals[b],
        blocks.norms[a],
        blocks.norms[b],
    )
    now = norm_a / total_a + norm_b / total_b
    for i in range(cap):
        v = blocks.weights[b, i]
        step = v * v * blocks.squares[b, i] + w * w * square - 2 * w * v * with_point[i]
        into_a = (norm_a + 2 * (v * with_sum[i] - w * own) + step) / (total_a - w + v)
        into_b = (norm_b - 2 * (v * blocks.own[b, i] - w * inner) + step) / (total_b + w - v)
        gain[i] = into_a + into_b - now


@inner_kernel
def carry_out(blocks: Blocks, looked: Integers, a: int, slot: int, b: int, other: int) -> None:
    """Move the record in this slot of a to b, or change it with the one in slot ``other`` (-1: move)."""
    row, weight, point = (
        blocks.members[a, slot],
        blocks.weights[a, slot],
        blocks.points[a, :, slot].copy(),
    )
    if other < 0:
        remove_member(blocks, a, slot)
        looked[a, slot] = looked[a, blocks.sizes[a]]
        looked[b, blocks.sizes[b]] = 0
        add_member(blocks, b, row, point, weight)
    else:
        square = blocks.squares[a, slot]
        blocks.points[a, :, slot] = blocks.points[b, :, other]
        blocks.weights[a, slot], blocks.members[a, slot] = (
            blocks.weights[b, other],
            blocks.members[b, other],
        )
        blocks.squares[a, slot] = blocks.squares[b, other]
        blocks.points[b, :, other] = point
        blocks.weights[b, other], blocks.members[b, other], blocks.squares[b, other] = (
            weight,
            row,
            square,
        )
        looked[a, slot] = looked[b, other] = 0
    renew_cell(blocks, a)
    renew_cell(blocks, b)


_TILE = 1024
"""Distances to so many cells are measured at a time: they stay in the fastest cache."""


@kernel
def find_near_cells(sums: Floats, totals: Floats, near: Integers) -> None:
    """For each cell the cells with the nearest means, nearest first, -1 where there are no more (OUT: ``near``).

    ``sums`` and ``totals`` give the means; an empty cell, of total 0, is near none. O(G^2 m) time, in single precision:
    which of two cells at almost the same distance comes first does not matter.
    """
    count, m = sums.shape
    means = np.empty((m, count), dtype=np.float32)
    for cell in range(count):
        for j in range(m):
            means[j, cell] = sums[cell, j] / totals[cell] if totals[cell] > 0 else np.inf
    near[:] = -1
    nearest = np.full(near.shape, np.inf, dtype=np.float32)
    distances = np.empty(_TILE, dtype=np.float32)
    for first in range(0, count, _TILE):
        width = min(_TILE, count - first)
        for cell in range(count):
            if totals[cell] > 0:
                _measure(means, first, width, cell, distances)
                for i in range(width):
                    if distances[i] < nearest[cell, -1] and first + i != cell:
                        _insert(distances[i], first + i, nearest[cell], near[cell])


@kernel
def find_cells_around(sites: Floats, around: Integers) -> None:
    """For each site the nearest ones in every direction, -1 where there are no more (OUT: ``around``, (Q, 2 m, A)).

    A direction is the coordinate in which another site is farthest off, and to which side. The nearest sites alone may
    all be of one crowd; these lead out of it. O(Q^2 m) time.
    """
    count, m = sites.shape
    around[:] = -1
    nearest = np.empty(around.shape[1:], dtype=np.float32)
    for cell in range(count):
        nearest[:] = np.inf
        for other in range(count):
            square, widest, way = 0.0, 0.0, 0
            for j in range(m):
                difference = sites[other, j] - sites[cell, j]
                square += difference * difference
                if abs(difference) > widest:
                    widest, way = abs(difference), 2 * j + (1 if difference > 0.0 else 0)
            if other != cell and square < nearest[way, -1]:
                _insert(square, other, nearest[way], around[cell, way])


@inner_kernel
def _measure(means: Singles, first: int, width: int, cell: int, distances: Singles) -> None:
    """Squared distances of a cell's mean from ``width`` others, side by side (OUT: ``distances``)."""
    distances[:width] = 0.0
    for j in range(len(means)):
        column, value = means[j, first : first + width], means[j, cell]
        for i in range(width):
            difference = column[i] - value
            distances[i] += difference * difference


@inner_kernel
def _insert(distance: float, other: int, nearest: Singles, found: Integers) -> None:
    """Put ``other`` in its place among the nearest; the last of them falls out (OUT: ``nearest``, ``found``)."""
    place = len(found) - 1
    while place > 0 and nearest[place - 1] > distance:
        nearest[place], found[place] = nearest[place - 1], found[place - 1]
        place -= 1
    nearest[place], found[place] = distance, other


@kernel
def find_near_records(cells: Grouping, near_cells: Integers, near: Integers) -> None:
    """For each record the nearest others in its cell and the cells near it, nearest first (OUT: ``near``).

    Where there are too few, those found come again.
    """
    distances = np.empty(near.shape[1], dtype=np.float32)
    for i in range(len(near)):
        own, seen = cells.labels[i], ZERO
        distances[:] = np.inf
        for t in range(-1, near_cells.shape[1]):
            cell = own if t < 0 else near_cells[own, t]
            if cell < 0:
                break
            for slot in range(cells.sizes[cell]):
                other = cells.members[cell, slot]
                if other != i:
                    seen += 1
                    distance = _squared_distance(cells, i, other)
                    if distance < distances[-1]:
                        _insert(distance, other, distances, near[i])
        for t in range(seen, near.shape[1]):
            near[i, t] = near[i, t % seen]


@inlined_kernel
def _squared_distance(cells: Grouping, i: int, other: int) -> float:
    out, p, q = 0.0, cells.points[i], cells.points[other]
    v, w = 1 / cells.weights[i], 1 / cells.weights[other]
    for j in range(len(p)):
        out += (p[j] * v - q[j] * w) ** 2
    return np.float32(out)  # type: ignore[return-value]
