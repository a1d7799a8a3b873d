"""Ruin and recreate: a few near cells are taken apart and put together another way.

Among s records with squared distances D, the SSE of a group is T / W, with T the sum of w_i w_j D_ij over its pairs and
W its weight; R_ig, the sum of w_j D_ij over the members j of group g, makes the gain of any exchange O(1).
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._arrays import Floats, Integers, Seeds
from microcell.kernels._jit import inner_kernel, kernel
from microcell.kernels.blocks import Blocks, add_member, renew_cell
from microcell.kernels.chance import draw, pick
from microcell.kernels.exchange import Limits
from microcell.kernels.neighbours import find_near_cells

__all__ = ["rebuild_while_cooling"]

MOST_CELLS = 4
"""How many cells are taken apart at once, at most; one more may come out."""

_THREE: int = np.int64(3)  # type: ignore[assignment]  # see ZERO in _jit.py

_LEAST_GAIN = 1e-12
"""Gains under this share of the largest distance are rounding errors."""

_NEAR = 0.6
"""The chance that the next nearest cell is taken along."""


class _Workbench(NamedTuple):
    """The records of the cells taken apart, and the groups made of them."""

    cells: Integers
    points: Floats
    """(m, s): column by column."""
    weights: Floats
    rows: Integers
    distances: Floats
    """(s, s): D."""
    group: Integers
    """(s,): the group of each record, -1 while it has none."""
    to_group: Floats
    """(g, s): R."""
    pair_sums: Floats
    """(g,): T."""
    totals: Floats
    """(g,): W."""
    sizes: Integers
    """(g,)."""


@inner_kernel
def _make_workbench(m: int, limits: Limits) -> _Workbench:
    """Room for the records of a few cells."""
    s, groups = MOST_CELLS * limits.most, MOST_CELLS + 1
    return _Workbench(
        np.zeros(groups, dtype=np.int64),
        np.zeros((m, s)),
        np.zeros(s),
        np.zeros(s, dtype=np.int64),
        np.zeros((s, s)),
        np.zeros(s, dtype=np.int64),
        np.zeros((groups, s)),
        np.zeros(groups),
        np.zeros(groups),
        np.zeros(groups, dtype=np.int64),
    )


@inner_kernel
def _rebuild(
    blocks: Blocks, near: Integers, limits: Limits, bench: _Workbench, free: Integers, temperature: float, state: Seeds
) -> float:
    """Take apart a random cell and some near it, and put them together anew; by how much the SSE changed.

    A worse result is accepted with probability exp(-change / temperature), never at temperature 0; otherwise nothing
    changes. ``free[0]`` counts the empty cells, which ``free[1:]`` lists (OUT). Cost independent of n.
    """
    taken = _choose_cells(blocks, near, bench, state)
    if taken < 2:
        return 0.0
    s = _take_apart(blocks, bench, taken)
    groups = _choose_sizes(bench, limits, s, taken, free[0], state)
    change = -_sum_of_squares(blocks, bench, taken)
    _put_together(bench, s, groups, state)
    _count_groups(bench, s, groups)
    _exchange_until_none_helps(bench, limits, s, groups, _LEAST_GAIN * bench.distances[:s, :s].max())
    for g in range(groups):
        change += bench.pair_sums[g] / bench.totals[g]
    if change < 0 or (temperature > 0 and draw(state) < np.exp(-change / temperature)):
        _write_back(blocks, bench, free, s, taken, groups)
        return change
    return 0.0


@inner_kernel
def _choose_cells(blocks: Blocks, near: Integers, bench: _Workbench, state: Seeds) -> int:
    """A random cell, and one to three of the cells near it (OUT: ``bench.cells``); how many."""
    first = pick(state, len(blocks.sizes))
    if blocks.sizes[first] == 0:
        return 0
    bench.cells[0] = first
    taken, wanted = 1, 2 + pick(state, _THREE)
    for t in range(near.shape[1]):
        cell = near[first, t]
        if cell < 0 or taken == wanted:
            break
        if blocks.sizes[cell] > 0 and draw(state) < _NEAR:
            bench.cells[taken] = cell
            taken += 1
    return taken


@inner_kernel
def _take_apart(blocks: Blocks, bench: _Workbench, taken: int) -> int:
    """Lay the members of the chosen cells on the workbench, with their distances; how many."""
    s = 0
    for c in range(taken):
        cell = bench.cells[c]
        for slot in range(blocks.sizes[cell]):
            bench.points[:, s] = blocks.points[cell, :, slot]
            bench.weights[s] = blocks.weights[cell, slot]
            bench.rows[s] = blocks.members[cell, slot]
            s += 1
    for i in range(s):
        row = bench.distances[i]
        row[:s] = 0.0
        for j in range(len(bench.points)):
            column, value = bench.points[j], bench.points[j, i]
            for other in range(s):
                difference = column[other] - value
                row[other] += difference * difference
    return s


@inner_kernel
def _sum_of_squares(blocks: Blocks, bench: _Workbench, taken: int) -> float:
    """The SSE of the chosen cells, their members being on the workbench one after the other."""
    out, first = 0.0, 0
    for c in range(taken):
        size, pairs = blocks.sizes[bench.cells[c]], 0.0
        for i in range(first, first + size):
            for j in range(first, i):
                pairs += bench.weights[i] * bench.weights[j] * bench.distances[i, j]
        out += pairs / blocks.totals[bench.cells[c]]
        first += size
    return out


@inner_kernel
def _choose_sizes(bench: _Workbench, limits: Limits, s: int, taken: int, spare: int, state: Seeds) -> int:
    """As many groups as cells, or one more or less, of random sizes within the limits (OUT: ``bench.sizes``)."""
    groups = taken + pick(state, _THREE) - 1
    groups = max(min(groups, s // limits.least, taken + spare), -(-s // limits.most))
    bench.sizes[:groups] = limits.least
    for _ in range(s - groups * limits.least):
        g = pick(state, groups)
        while bench.sizes[g] == limits.most:
            g = (g + 1) % groups
        bench.sizes[g] += 1
    return groups


@inner_kernel
def _put_together(bench: _Workbench, s: int, groups: int, state: Seeds) -> None:
    """Each group takes a random record, or the one farthest from it, and the nearest that are left."""
    bench.group[:s] = -1
    left = s
    for g in range(groups):
        middle = _random_left(bench, s, left, state)
        if draw(state) < 0.5:
            middle = _farthest_left(bench, s, middle)
        for _ in range(bench.sizes[g]):
            bench.group[_nearest_left(bench, s, middle)] = g
        left -= bench.sizes[g]


@inner_kernel
def _random_left(bench: _Workbench, s: int, left: int, state: Seeds) -> int:
    skip, found = pick(state, left), 0
    for i in range(s):
        if bench.group[i] < 0:
            found = i
            if skip == 0:
                break
            skip -= 1
    return found


@inner_kernel
def _farthest_left(bench: _Workbench, s: int, middle: int) -> int:
    best, found = -1.0, middle
    for i in range(s):
        if bench.group[i] < 0 and bench.distances[middle, i] > best:
            best, found = bench.distances[middle, i], i
    return found


@inner_kernel
def _nearest_left(bench: _Workbench, s: int, middle: int) -> int:
    best, found = np.inf, middle
    for i in range(s):
        if bench.group[i] < 0 and bench.distances[middle, i] < best:
            best, found = bench.distances[middle, i], i
    return found


@inner_kernel
def _count_groups(bench: _Workbench, s: int, groups: int) -> None:
    """R, T and W of the groups (OUT: ``bench``)."""
    bench.to_group[:groups, :s] = 0.0
    bench.pair_sums[:groups] = 0.0
    bench.totals[:groups] = 0.0
    for j in range(s):
        row, column, weight = bench.to_group[bench.group[j]], bench.distances[j], bench.weights[j]
        for i in range(s):
            row[i] += weight * column[i]
    for i in range(s):
        g = bench.group[i]
        bench.pair_sums[g] += 0.5 * bench.weights[i] * bench.to_group[g, i]
        bench.totals[g] += bench.weights[i]


@inner_kernel
def _exchange_until_none_helps(bench: _Workbench, limits: Limits, s: int, groups: int, least: float) -> None:
    """Move and change records between the groups until nothing helps."""
    helped = True
    while helped:
        helped = False
        for x in range(s):
            a = bench.group[x]
            b, y = _best_exchange(bench, limits, s, groups, x, least)
            if b >= 0:
                helped = True
                _move(bench, s, x, b)
                if y >= 0:
                    _move(bench, s, y, a)


@inner_kernel
def _best_exchange(bench: _Workbench, limits: Limits, s: int, groups: int, x: int, least: float) -> tuple[int, int]:
    """The best group for a record, and the record that comes in its place (-1: none); -1 if nothing helps."""
    a, w = bench.group[x], bench.weights[x]
    pairs, total = bench.pair_sums[a], bench.totals[a]
    now, without = pairs / total, pairs - w * bench.to_group[a, x]
    best, best_group, best_record = least, -1, -1
    if bench.sizes[a] > limits.least:
        gone = now - without / (total - w)
        for b in range(groups):
            if b != a and bench.sizes[b] < limits.most:
                there = bench.pair_sums[b]
                gain = gone + there / bench.totals[b] - (there + w * bench.to_group[b, x]) / (bench.totals[b] + w)
                if gain > best:
                    best, best_group = gain, b
    for y in range(s):
        b = bench.group[y]
        if b == a:
            continue
        v, apart = bench.weights[y], bench.distances[x, y]
        here = (without + v * (bench.to_group[a, y] - w * apart)) / (total - w + v)
        there = bench.pair_sums[b] - v * bench.to_group[b, y] + w * (bench.to_group[b, x] - v * apart)
        gain = now - here + bench.pair_sums[b] / bench.totals[b] - there / (bench.totals[b] - v + w)
        if gain > best:
            best, best_group, best_record = gain, b, y
    return best_group, best_record


@inner_kernel
def _move(bench: _Workbench, s: int, x: int, b: int) -> None:
    """Move a record to group b, keeping R, T, W and sizes true."""
    a, w = bench.group[x], bench.weights[x]
    bench.pair_sums[a] -= w * bench.to_group[a, x]
    bench.pair_sums[b] += w * bench.to_group[b, x]
    bench.totals[a] -= w
    bench.totals[b] += w
    bench.sizes[a] -= 1
    bench.sizes[b] += 1
    bench.group[x] = b
    leaving, joining, column = bench.to_group[a], bench.to_group[b], bench.distances[x]
    for i in range(s):
        leaving[i] -= w * column[i]
        joining[i] += w * column[i]


@inner_kernel
def _write_back(blocks: Blocks, bench: _Workbench, free: Integers, s: int, taken: int, groups: int) -> None:
    """Fill the cells with the groups (OUT: ``blocks``, ``free``)."""
    for g in range(taken, groups):
        bench.cells[g] = free[free[0]]
        free[0] -= 1
    for c in range(groups, taken):
        free[0] += 1
        free[free[0]] = bench.cells[c]
    for c in range(max(taken, groups)):
        blocks.sizes[bench.cells[c]] = 0
    for i in range(s):
        add_member(blocks, bench.cells[bench.group[i]], bench.rows[i], bench.points[:, i].copy(), bench.weights[i])
    for g in range(groups):
        renew_cell(blocks, bench.cells[g])


@kernel
def rebuild_while_cooling(
    blocks: Blocks, near: Integers, limits: Limits, steps: int, warm: float, cool: float, state: Seeds
) -> int:
    """Rebuild random cells ``steps`` times, the temperature falling from warm to cool (0: only better ones are taken).

    Returns the number of changes (OUT: ``blocks``, ``near``, ``state``).
    """
    count = len(blocks.sizes)
    changes = 0
    free = np.zeros(count + 1, dtype=np.int64)
    for cell in range(count):
        if blocks.sizes[cell] == 0:
            free[0] += 1
            free[free[0]] = cell
    bench = _make_workbench(blocks.sums.shape[1], limits)
    for step in range(steps):
        if step % (4 * count) == 4 * count - 1:
            find_near_cells(blocks, near)
        temperature = warm * (cool / warm) ** (step / steps) if warm > 0 else 0.0
        changes += _rebuild(blocks, near, limits, bench, free, temperature, state) != 0.0
    return changes
