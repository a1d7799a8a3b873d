"""Local search over cells of survey candidates that keeps every cell within the failure limit.

A cell's failure is linear in the participation q of one candidate: (1 - q) f + q g, with
f = P{0 < K < k} and g = P{K <= k-2} of the others. Once f and g are known for every candidate, it
takes two products per cell to decide whether an exchange is allowed.

If x of cell A, with weight w, is swapped with y of B, with weight v, the SSE falls by
w (|x-a|^2 - |x-b|^2), the pull of B on x, plus the pull of A on y, plus
|v (y-a) - w (x-a)|^2 / (W_A - w + v) and the same for B, where a and b are the means. The last two
terms are small and easy to bound, so for most pairs the two pulls show that the swap cannot help.
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import ZERO, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers
from microcell.kernels.exchange import (
    LEAST_GAIN,
    MOST_TURNS,
    Limits,
    apply_exchange,
    gain_of_moving,
)
from microcell.kernels.groups import Blocks, worth
from microcell.kernels.participation import join

__all__ = ["Odds", "exchange_within_limit", "find_odds", "make_odds"]


class Odds(NamedTuple):
    """Failure probability of each cell of :class:`Blocks`, with and without each member.

    The weights of the blocks are participation probabilities.
    """

    absent: Floats
    """(G, cap): f, the failure if the member in this slot does not take part."""
    present: Floats
    """(G, cap): g, the failure if it does."""
    failures: Floats
    """(G,)."""
    slopes: Floats
    """(G,): change of the failure per unit of participation of one more member."""
    below: Floats
    """(cap + 1, k): scratch. P{K <= j} of the members from a slot on."""
    after: Floats
    """(cap + 1,): scratch. P{0 < K < k} of the same members."""


@kernel
def make_odds(count: int, cap: int, k: int) -> Odds:
    """Allocate the odds of ``count`` cells of ``cap`` members."""
    return Odds(
        np.zeros((count, cap)),
        np.zeros((count, cap)),
        np.zeros(count),
        np.zeros(count),
        np.zeros((cap + 1, k)),
        np.zeros(cap + 1),
    )


@kernel
def find_odds(blocks: Blocks, cell: int, odds: Odds) -> None:
    """Compute the odds of a cell from the members before and after each one (OUT: ``odds``).

    O(size k).
    """
    size, k = blocks.sizes[cell], odds.below.shape[1]
    probabilities, p = blocks.weights[cell], np.zeros(k)
    p[0] = 1.0
    for i in range(size, -1, -1):
        if i < size:
            join(p, probabilities[i])
        total, some = p[0], 0.0
        odds.below[i, 0] = total
        for j in range(1, k):
            total += p[j]
            some += p[j]
            odds.below[i, j] = total
        odds.after[i] = some
    odds.failures[cell], odds.slopes[cell] = odds.after[0], p[0] - p[k - 1]
    p[:] = 0.0
    p[0] = 1.0
    for i in range(size):
        rest = odds.below[i + 1]
        absent, present = p[0] * odds.after[i + 1], p[0] * rest[k - 2]
        for j in range(1, k - 1):
            absent += p[j] * rest[k - 1 - j]
            present += p[j] * rest[k - 2 - j]
        odds.absent[cell, i], odds.present[cell, i] = absent + p[k - 1] * rest[0], present
        join(p, probabilities[i])


class Pulls(NamedTuple):
    """How much nearer the members of each nearby cell are to the current cell than to their own."""

    pulls: Floats
    """(near, cap): v (|y-b|^2 - |y-a|^2)."""
    here: Floats
    """(near, cap): v |y-a|."""
    there: Floats
    """(near, cap): v |y-b|."""
    heaviest: Floats
    """(near,): largest v."""
    updated: Integers
    """(near,): clock when these were computed; 0 if they were not."""


@inner_kernel
def _make_pulls(near: int, cap: int) -> Pulls:
    return Pulls(
        np.zeros((near, cap)),
        np.zeros((near, cap)),
        np.zeros((near, cap)),
        np.zeros(near),
        np.zeros(near, dtype=np.int64),
    )


@inner_kernel
def _find_pulls(blocks: Blocks, a: int, b: int, t: int, pulls: Pulls) -> None:
    """Compute the pull of a on the members of b, the t-th near cell (OUT: ``pulls``). O(size m)."""
    here, there, pull = pulls.here[t], pulls.there[t], pulls.pulls[t]
    here[:] = 0.0
    there[:] = 0.0
    for j in range(blocks.points.shape[1]):
        column, p, q = (
            blocks.points[b, j],
            blocks.sums[a, j] / blocks.totals[a],
            blocks.sums[b, j] / blocks.totals[b],
        )
        for s in range(blocks.sizes[b]):
            here[s] += (column[s] - p) ** 2
            there[s] += (column[s] - q) ** 2
    heaviest = 0.0
    for s in range(blocks.sizes[b]):
        v = blocks.weights[b, s]
        pull[s] = v * (there[s] - here[s])
        here[s], there[s] = v * np.sqrt(here[s]), v * np.sqrt(there[s])
        heaviest = max(heaviest, v)
    pulls.heaviest[t] = heaviest


@kernel
def exchange_within_limit(
    blocks: Blocks, near: Integers, limits: Limits, k: int, failure: float, passes: int
) -> int:
    """Move and swap records between near cells while every failure stays within the limit.

    Like :func:`exchange_until_none_helps`, with participation as weights (OUT: ``blocks``). O(m +
    size) per record and near cell.
    """
    count, m, cap = blocks.points.shape
    changed, looked = np.ones(count, dtype=np.int64), np.zeros((count, cap), dtype=np.int64)
    place, odds, pulls = np.empty((3, m)), make_odds(count, cap, k), _make_pulls(near.shape[1], cap)
    for cell in range(count):
        find_odds(blocks, cell, odds)
    clock, done = 1, 0
    for _ in range(passes):
        before = done
        for a in range(count):
            slot = ZERO
            pulls.updated[:] = 0
            turns = 0
            while slot < blocks.sizes[a] and turns < MOST_TURNS * cap:
                last = looked[a, slot]
                looked[a, slot] = clock
                b, other = _best_exchange(
                    blocks, odds, pulls, near, limits, failure, a, slot, changed, last, place
                )
                if b >= 0:
                    turns += 1
                    clock += 1
                    changed[a] = changed[b] = clock
                    apply_exchange(blocks, looked, a, slot, b, other)
                    find_odds(blocks, a, odds)
                    find_odds(blocks, b, odds)
                    done += 1
                else:
                    slot += 1
        if done == before:
            break
    return done


@inner_kernel
def _best_exchange(
    blocks: Blocks,
    odds: Odds,
    pulls: Pulls,
    near: Integers,
    limits: Limits,
    failure: float,
    a: int,
    slot: int,
    changed: Integers,
    last: int,
    place: Floats,
) -> tuple[int, int]:
    """Return the best cell for the record in this slot, and the slot to swap with (-1: move).

    The cell is -1 if no exchange helps.
    """
    point = place[0]
    for j in range(len(point)):
        point[j] = blocks.points[a, j, slot]
    weight = blocks.weights[a, slot]
    may_leave = blocks.sizes[a] > limits.least and odds.absent[a, slot] <= failure
    best, best_cell, best_slot = 0.0, -1, -1
    for t in range(near.shape[1]):
        b = near[a, t]
        if b < 0:
            break
        if changed[a] <= last and changed[b] <= last:
            continue
        if pulls.updated[t] < max(changed[a], changed[b]):
            _find_pulls(blocks, a, b, t, pulls)
            pulls.updated[t] = max(changed[a], changed[b])
        least = max(best, LEAST_GAIN * (worth(blocks, a) + worth(blocks, b)))
        if (
            may_leave
            and blocks.sizes[b] < limits.most
            and odds.failures[b] + weight * odds.slopes[b] <= failure
        ):
            inner = 0.0
            for j in range(len(point)):
                inner += blocks.sums[b, j] * point[j]
            gain = gain_of_moving(blocks, a, slot, b, inner)
            if gain > least:
                least = best = gain
                best_cell, best_slot = b, -1
        gain, s = _best_swap(blocks, odds, pulls, failure, a, slot, b, t, place, least)
        if s >= 0:
            best, best_cell, best_slot = gain, b, s
    return best_cell, best_slot


@inner_kernel
def _best_swap(
    blocks: Blocks,
    odds: Odds,
    pulls: Pulls,
    failure: float,
    a: int,
    slot: int,
    b: int,
    t: int,
    place: Floats,
    least: float,
) -> tuple[float, int]:
    """Return the largest gain above ``least`` of a swap with a member of b, and its slot or -1."""
    point, p, q = place[0], place[1], place[2]  # the record, and its offsets from the two means
    weight, without, with_it = blocks.weights[a, slot], odds.absent[a, slot], odds.present[a, slot]
    total_a, total_b = blocks.totals[a], blocks.totals[b]
    from_a, from_b = 0.0, 0.0
    for j in range(len(point)):
        p[j], q[j] = point[j] - blocks.sums[a, j] / total_a, point[j] - blocks.sums[b, j] / total_b
        from_a += p[j] * p[j]
        from_b += q[j] * q[j]
    pull = weight * (from_a - from_b)
    here, there = weight * np.sqrt(from_a), weight * np.sqrt(from_b)
    by_a, by_b = 1.0 / (total_a - weight), 1.0 / (total_b - pulls.heaviest[t])
    best_slot = -1
    for s in range(blocks.sizes[b]):
        bound_a, bound_b = here + pulls.here[t, s], there + pulls.there[t, s]
        if pull + pulls.pulls[t, s] + bound_a * bound_a * by_a + bound_b * bound_b * by_b <= least:
            continue
        v = blocks.weights[b, s]
        if (1.0 - v) * without + v * with_it > failure:
            continue
        if (1.0 - weight) * odds.absent[b, s] + weight * odds.present[b, s] > failure:
            continue
        square_a, square_b = 0.0, 0.0
        for j in range(len(point)):
            apart = blocks.points[b, j, s] - point[j]
            square_a += (v * (apart + p[j]) - weight * p[j]) ** 2
            square_b += (v * (apart + q[j]) - weight * q[j]) ** 2
        gain = (
            pull
            + pulls.pulls[t, s]
            + square_a / (total_a - weight + v)
            + square_b / (total_b + weight - v)
        )
        if gain > least:
            least, best_slot = gain, s
    return least, best_slot
