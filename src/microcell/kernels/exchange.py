"""Local search: records move to near cells, or change places with records there, while that lowers the SSE.

With S and W as in :mod:`blocks`, and d = w_y y - w_x x, changing x of A with y of B raises the worth of A from
||S||^2 / W to (||S||^2 + 2 S.d + ||d||^2) / (W - w_x + w_y), and that of B likewise with -d.
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._arrays import Floats, Integers
from microcell.kernels._jit import ZERO, inner_kernel, kernel
from microcell.kernels.blocks import Blocks, add_member, remove_member, renew_cell, worth

__all__ = ["LEAST_GAIN", "Limits", "carry_out", "exchange_until_none_helps", "gain_of_moving"]

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
                b, other = _best_exchange(blocks, near, limits, a, slot, changed, last, gains, point)
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
def _gains_of_changing(blocks: Blocks, a: int, slot: int, b: int, inner: float, point: Floats, gains: Floats) -> None:
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
    total_a, total_b, norm_a, norm_b = blocks.totals[a], blocks.totals[b], blocks.norms[a], blocks.norms[b]
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
    row, weight, point = blocks.members[a, slot], blocks.weights[a, slot], blocks.points[a, :, slot].copy()
    if other < 0:
        remove_member(blocks, a, slot)
        looked[a, slot] = looked[a, blocks.sizes[a]]
        looked[b, blocks.sizes[b]] = 0
        add_member(blocks, b, row, point, weight)
    else:
        square = blocks.squares[a, slot]
        blocks.points[a, :, slot] = blocks.points[b, :, other]
        blocks.weights[a, slot], blocks.members[a, slot] = blocks.weights[b, other], blocks.members[b, other]
        blocks.squares[a, slot] = blocks.squares[b, other]
        blocks.points[b, :, other] = point
        blocks.weights[b, other], blocks.members[b, other], blocks.squares[b, other] = weight, row, square
        looked[a, slot] = looked[b, other] = 0
    renew_cell(blocks, a)
    renew_cell(blocks, b)
