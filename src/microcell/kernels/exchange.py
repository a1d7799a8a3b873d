"""Local search between near cells: greedy moves and swaps, and the neighbourhoods they use."""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import ZERO, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers, ShortIntegers, Singles
from microcell.kernels.groups import Blocks, Grouping, add_member, remove_member, renew_cell, worth

__all__ = [
    "LEAST_GAIN",
    "MOST_TURNS",
    "Limits",
    "apply_exchange",
    "exchange_until_none_helps",
    "find_cells_around",
    "find_near_cells",
    "find_near_cells_in_runs",
    "find_near_records",
    "gain_of_moving",
    "improve_near",
]

LEAST_GAIN = 1e-12
"""Gains below this share of the worth of the cells are rounding errors."""


MOST_TURNS = 100
"""Bound on the exchanges of a cell in one pass, per record that it can hold.

Every exchange gains, so a pass ends; but with extreme weights, rounding errors could look like
gains forever.
"""


class Limits(NamedTuple):
    """Minimum and maximum size of a cell."""

    least: int
    most: int


@kernel
def exchange_until_none_helps(blocks: Blocks, near: Integers, limits: Limits, passes: int) -> int:
    """Move and swap records between near cells until no exchange helps (OUT: ``blocks``).

    Makes at most ``passes`` passes and returns the number of exchanges. A record is examined again
    only if its cell or a near one has changed since.
    """
    count, m, cap = blocks.points.shape
    changed, looked = np.ones(count, dtype=np.int64), np.zeros((count, cap), dtype=np.int64)
    gains, point = np.empty((3, cap)), np.empty(m)
    clock, done = 1, 0
    for _ in range(passes):
        before = done
        for a in range(count):
            slot = ZERO
            turns = 0
            while slot < blocks.sizes[a] and turns < MOST_TURNS * cap:
                last = looked[a, slot]
                looked[a, slot] = clock
                b, other = _best_exchange(
                    blocks, near, limits, a, slot, changed, last, gains, point
                )
                if b >= 0:
                    turns += 1
                    clock += 1
                    changed[a] = changed[b] = clock
                    apply_exchange(blocks, looked, a, slot, b, other)
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
    """Return the best cell for the record in this slot, and the slot to swap with (-1: move).

    The cell is -1 if no exchange helps.
    """
    for j in range(len(point)):
        point[j] = blocks.points[a, j, slot]
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
        _gains_of_swapping(blocks, a, slot, b, inner, point, gains)
        for s in range(blocks.sizes[b]):
            if gains[0, s] > least:
                least = best = gains[0, s]
                best_cell, best_slot = b, s
    return best_cell, best_slot


@inner_kernel
def gain_of_moving(blocks: Blocks, a: int, slot: int, b: int, inner: float) -> float:
    """Return the rise in the worth of both cells if the record moves from a to b.

    ``inner`` is the inner product of the record and the sum of b.
    """
    w = blocks.weights[a, slot]
    square = w * w * blocks.squares[a, slot]
    leaving = (blocks.norms[a] - 2 * w * blocks.inner[a, slot] + square) / (blocks.totals[a] - w)
    joining = (blocks.norms[b] + 2 * w * inner + square) / (blocks.totals[b] + w)
    return leaving + joining - worth(blocks, a) - worth(blocks, b)  # type: ignore[no-any-return]


@inner_kernel
def _gains_of_swapping(
    blocks: Blocks, a: int, slot: int, b: int, inner: float, point: Floats, gains: Floats
) -> None:
    """Compute the rise in worth from swapping the record with each member of b (OUT: ``gains``)."""
    cap = gains.shape[1]
    with_sum, with_point, gain = gains[1], gains[2], gains[0]
    with_sum[:] = 0.0
    with_point[:] = 0.0
    for j in range(len(point)):
        column, s, x = blocks.points[b, j], blocks.sums[a, j], point[j]
        for i in range(cap):
            with_sum[i] += s * column[i]
            with_point[i] += x * column[i]
    w, square, inner_a = blocks.weights[a, slot], blocks.squares[a, slot], blocks.inner[a, slot]
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
        into_a = (norm_a + 2 * (v * with_sum[i] - w * inner_a) + step) / (total_a - w + v)
        into_b = (norm_b - 2 * (v * blocks.inner[b, i] - w * inner) + step) / (total_b + w - v)
        gain[i] = into_a + into_b - now


@inner_kernel
def apply_exchange(blocks: Blocks, looked: Integers, a: int, slot: int, b: int, other: int) -> None:
    """Swap the record in this slot of a with slot ``other`` of b, or move it there (-1)."""
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
        for j in range(len(point)):
            blocks.points[a, j, slot] = blocks.points[b, j, other]
        blocks.weights[a, slot], blocks.members[a, slot] = (
            blocks.weights[b, other],
            blocks.members[b, other],
        )
        blocks.squares[a, slot] = blocks.squares[b, other]
        for j in range(len(point)):
            blocks.points[b, j, other] = point[j]
        blocks.weights[b, other], blocks.members[b, other], blocks.squares[b, other] = (
            weight,
            row,
            square,
        )
        looked[a, slot] = looked[b, other] = 0
    renew_cell(blocks, a)
    renew_cell(blocks, b)


_TILE = 1024
"""Number of cells whose distances are computed at a time, so that they stay in the fastest cache.
"""


@kernel
def find_near_cells(sums: Floats, totals: Floats, near: Integers) -> None:
    """For each cell, find the cells with the nearest means, nearest first (OUT: ``near``).

    Unused entries are -1. ``sums`` and ``totals`` give the means; an empty cell (total 0) is near
    none. O(G^2 m) time in single precision, because the order of two cells at almost the same
    distance does not matter.
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
    """For each site, find the nearest ones in every direction (OUT: ``around``, (Q, 2 m, A)).

    Unused entries are -1. The direction of another site is the coordinate in which it differs most,
    and the sign. The nearest sites alone may all belong to one cluster; these sites lead out of it.
    O(Q^2 m) time.
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
    """Compute squared distances of a cell's mean from ``width`` others (OUT: ``distances``)."""
    distances[:width] = 0.0
    for j in range(len(means)):
        column, value = means[j, first : first + width], means[j, cell]
        for i in range(width):
            difference = column[i] - value
            distances[i] += difference * difference


@inner_kernel
def _insert(
    distance: float, other: int, nearest: Floats | Singles, rows: Integers | ShortIntegers
) -> None:
    """Insert ``other`` among the nearest, dropping the last (OUT: ``nearest``, ``rows``)."""
    place = len(rows) - 1
    while place > 0 and nearest[place - 1] > distance:
        nearest[place], rows[place] = nearest[place - 1], rows[place - 1]
        place -= 1
    nearest[place], rows[place] = distance, other


@kernel
def find_near_cells_in_runs(
    means: Singles, starts: Integers, near_runs: Integers, first: int, last: int, near: Integers
) -> None:
    """Find near cells as :func:`find_near_cells` does, for many cells in spatial order (OUT).

    Column ``i`` of ``means`` is the mean of cell i. Cells from ``starts[r]`` to ``starts[r + 1]``
    are run r, and those of the runs ``near_runs[r]`` are examined. Runs ``first`` to ``last`` only.
    """
    longest = 0
    for run in range(len(starts) - 1):
        longest = max(longest, starts[run + 1] - starts[run])
    distances = np.empty(longest, dtype=np.float32)
    nearest = np.empty(near.shape[1], dtype=np.float32)
    for run in range(first, last):
        for cell in range(starts[run], starts[run + 1]):
            nearest[:] = np.inf
            near[cell, :] = -1
            for other in near_runs[run]:
                begin, width = starts[other], starts[other + 1] - starts[other]
                _measure(means, begin, width, cell, distances)
                for i in range(width):
                    if distances[i] < nearest[-1] and begin + i != cell:
                        _insert(distances[i], begin + i, nearest, near[cell])


@kernel
def find_near_records(
    cells: Grouping, near_cells: Integers, first: int, last: int, near: ShortIntegers
) -> None:
    """For each record, find the nearest others in its cell and near cells (OUT: ``near``).

    Nearest first; if there are too few, they are repeated. Cells ``first`` to ``last`` only.
    """
    m, room = cells.points.shape[1], 0
    for cell in range(first, last):
        room = max(room, _count_candidates(cells, near_cells, cell))
    rows, points = np.empty(room, dtype=np.int64), np.empty((m, room), dtype=np.float32)
    distances, nearest = np.empty(room, dtype=np.float32), np.empty(near.shape[1], dtype=np.float32)
    for home in range(first, last):
        size = _gather_candidates(cells, near_cells, home, rows, points)
        for slot in range(cells.sizes[home]):  # the members of the cell come first
            row, seen = rows[slot], ZERO
            nearest[:] = np.inf
            _measure(points, 0, size, slot, distances)
            for i in range(size):
                if i != slot:
                    seen += 1
                    if distances[i] < nearest[-1]:
                        _insert(distances[i], rows[i], nearest, near[row])
            for t in range(seen, near.shape[1]):
                near[row, t] = near[row, t % seen]


@kernel
def improve_near(
    points: Floats, near: ShortIntegers, first: int, last: int, better: ShortIntegers
) -> None:
    """Find nearer records among the near ones of the near ones (OUT: ``better``).

    Nearest first; if there are too few, they are repeated. Records ``first`` to ``last`` only. O(m)
    for each of the at most w^2 candidates of a record with w near ones.
    """
    width = better.shape[1]
    distances, seen = np.empty(width), np.full(len(points), -1, dtype=np.int32)
    for i in range(first, last):
        seen[i], size = i, ZERO
        distances[:] = np.inf
        for s in range(-1, near.shape[1]):
            through = i if s < 0 else near[i, s]
            for t in range(near.shape[1]):
                other = near[through, t]
                if seen[other] == i:
                    continue
                seen[other] = i
                size += 1
                distance = 0.0
                for j in range(points.shape[1]):
                    distance += (points[i, j] - points[other, j]) ** 2
                if distance < distances[-1]:
                    _insert(distance, other, distances, better[i])
        for t in range(size, width):
            better[i, t] = better[i, t % size]


@inner_kernel
def _count_candidates(cells: Grouping, near_cells: Integers, home: int) -> int:
    """Count the records of a cell and its near cells."""
    count = cells.sizes[home]
    for cell in near_cells[home]:
        if cell >= 0:
            count += cells.sizes[cell]
    return count  # type: ignore[no-any-return]


@inner_kernel
def _gather_candidates(
    cells: Grouping, near_cells: Integers, home: int, rows: Integers, points: Singles
) -> int:
    """List the records of a cell and its near cells, and their points (OUT: ``rows``, ``points``).

    Points are relative to the first, so that single precision suffices. Returns their number.
    """
    size, m = ZERO, cells.points.shape[1]
    for t in range(-1, near_cells.shape[1]):
        cell = home if t < 0 else near_cells[home, t]
        if cell < 0:
            break
        for slot in range(cells.sizes[cell]):
            row = cells.members[cell, slot]
            rows[size] = row
            origin = rows[0]
            for j in range(m):
                points[j, size] = (
                    cells.points[row, j] / cells.weights[row]
                    - cells.points[origin, j] / cells.weights[origin]
                )
            size += 1
    return size
