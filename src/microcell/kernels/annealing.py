"""Simulated annealing: random exchanges between near cells.

Exchanges that raise the SSE are accepted at a rate that falls as the search cools. Each record has
its own temperature, its *heat*, which grows with the distances between the records around it, so
that records in sparse and in dense regions settle at the same time.
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import ZERO, inlined_kernel, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers, Seeds, ShortIntegers
from microcell.kernels.exchange import Limits
from microcell.kernels.groups import Grouping, cost_of_moving, cost_of_swapping, move, swap
from microcell.kernels.random import draw, pick
from microcell.kernels.rules import (
    Rule,
    Workspace,
    counts_persons_only,
    is_active,
    is_neutral,
    keeps_persons,
    make_workspace,
    violation,
    violations_of,
)

__all__ = ["RECOUNT", "Walk", "exchange_at_random", "walk_everywhere"]

RECOUNT = 100
"""Default of :attr:`Walk.recount`."""

_HOPELESS = 30.0
"""Multiple of the heat above which a cost is rejected without drawing a random number."""

_SIMILAR = 0.5
"""Share of swaps with a record of similar confidential values, where there are limits on them."""

_CANDIDATES = 6
"""Number of similar records of a cell of which the cheapest is swapped."""

_MOVES = 2.0
"""Share of tries that move a record under a rule, times the size of the cell that it joins; without
a rule this is 1. Without this factor, large cells would attract more and more records.
"""


class Walk(NamedTuple):
    """The records to try, a window of consecutive ones at a time, and the cells that may change."""

    rows: Integers
    """Records to pick from, in spatial order, so that those of a window and all that is near them
    fit the cache."""
    window: int
    zones: Integers
    """(G,): zone of each cell. Cells of another zone than the walk's are left alone, and another
    thread may change them meanwhile."""
    zone: int
    recount: int
    """One try in this many times k dissolves or creates a cell, which takes k times as long."""


def walk_everywhere(n: int, cells: int) -> Walk:
    """Return the walk that picks from all records at once and may change every cell."""
    return Walk(np.arange(n), n, np.zeros(cells, dtype=np.int64), 0, RECOUNT)


@kernel
def exchange_at_random(
    cells: Grouping,
    near: ShortIntegers,
    heat: Floats,
    limits: Limits,
    rule: Rule,
    walk: Walk,
    tries: float,
    state: Seeds,
) -> int:
    """Try random exchanges of records with cells of nearby records (OUT: ``cells``).

    ``near[i]`` lists the records near record i, nearest first. An exchange that raises the SSE by c
    is accepted with probability exp(-c / h), where h is the heat of the record, or the mean heat of
    the two that swap, and is kept if all cells satisfy the rule. With heat 0, the SSE never rises.
    ``tries`` is per record of the walk. Returns the number of exchanges made. O(m) per try.
    """
    moves, choice = ZERO, near.shape[1]
    moved = np.empty((3, 4 * limits.most), dtype=np.int64)
    recount = walk.recount * limits.least
    scratch, only_persons = make_workspace(cells, rule), counts_persons_only(rule)
    ruled = is_active(rule) and not only_persons
    violations = violations_of(cells, rule, scratch)
    step = ZERO
    for first in range(0, len(walk.rows), walk.window):
        size = min(walk.window, len(walk.rows) - first)
        for _ in range(int(np.ceil(tries * size))):
            step += 1
            x = walk.rows[first + pick(state, size)]
            if step % recount == 0:
                moves += _recount(
                    cells, near, heat, limits, rule, walk, x, moved, violations, scratch, state
                )
                continue
            if step & 1:
                x = _hotter(heat, x, walk.rows[first + pick(state, size)])
                x = _hotter(heat, x, walk.rows[first + pick(state, size)])
            nearness = draw(state)
            y = near[x, int(nearness * nearness * choice)]
            if draw(state) < 0.5:
                x, y = y, x
            a, b = cells.labels[x], cells.labels[y]
            if a == b or walk.zones[a] != walk.zone or walk.zones[b] != walk.zone:
                continue
            if ruled:
                moves += _try_under_rule(
                    cells, heat, limits, rule, x, b, violations, scratch, state
                )
                continue
            slot = pick(state, cells.sizes[b])
            if cells.members[b, slot] != y:
                y = cells.members[b, slot]
                if _accepted(cost_of_swapping(cells, x, y), 0.5 * (heat[x] + heat[y]), state) and (
                    not only_persons
                    or (keeps_persons(cells, rule, x, y) and keeps_persons(cells, rule, y, x))
                ):
                    swap(cells, x, y)
                    moves += 1
            elif (
                cells.sizes[a] > limits.least
                and cells.sizes[b] < limits.most
                and _accepted(cost_of_moving(cells, x, b), heat[x], state)
                and (not only_persons or keeps_persons(cells, rule, x, -1))
            ):
                move(cells, x, b)
                moves += 1
    return moves


@inner_kernel
def _try_under_rule(
    cells: Grouping,
    heat: Floats,
    limits: Limits,
    rule: Rule,
    x: int,
    b: int,
    violations: Floats,
    scratch: Workspace,
    state: Seeds,
) -> bool:
    """Try to move x to cell b, or to swap it with a member; violations are penalized (OUT)."""
    a, y = cells.labels[x], ZERO - 1
    if draw(state) * cells.sizes[b] < _MOVES:
        if cells.sizes[a] <= limits.least or cells.sizes[b] >= limits.most:
            return False
        most = _tolerance(heat[x], state) - cost_of_moving(cells, x, b)
    else:
        slot = pick(state, cells.sizes[b])
        if draw(state) < _SIMILAR:
            slot = _best_similar(cells, rule, x, b, slot)
        y = cells.members[b, slot]
        most = _tolerance(0.5 * (heat[x] + heat[y]), state) - cost_of_swapping(cells, x, y)
    if y < 0 or not is_neutral(rule, x, y):
        # An exchange that costs too much is rejected before its violation is computed.
        most += rule.penalty * (violations[a] + violations[b])
        if most <= 0:
            return False
        left, joined = (
            violation(cells, a, rule, x, y, scratch),
            violation(cells, b, rule, y, x, scratch),
        )
        most -= rule.penalty * (left + joined)
        if most > 0:
            violations[a], violations[b] = left, joined
    if most <= 0:
        return False
    if y < 0:
        move(cells, x, b)
    else:
        swap(cells, x, y)
    return True


@inlined_kernel
def _tolerance(heat: float, state: Seeds) -> float:
    """Draw the highest cost to accept: c is accepted with probability exp(-c / heat)."""
    return -heat * np.log(1.0 - draw(state)) if heat > 0 else 0.0


@inlined_kernel
def _best_similar(cells: Grouping, rule: Rule, x: int, b: int, slot: int) -> int:
    """Return the slot of the cheapest member of b to swap with x, among some similar to x.

    They are the first from ``slot`` on; if there are none, this slot is returned.
    """
    size, tried, least, best = cells.sizes[b], ZERO, np.inf, slot
    for i in range(size):
        other = slot + i if slot + i < size else slot + i - size
        y = cells.members[b, other]
        if rule.similar[y] == rule.similar[x]:
            cost = cost_of_swapping(cells, x, y)
            if cost < least:
                least, best = cost, other
            tried += 1
            if tried == _CANDIDATES:
                break
    return best


@inlined_kernel
def _hotter(heat: Floats, x: int, y: int) -> int:
    return x if heat[x] >= heat[y] else y


@inlined_kernel
def _accepted(cost: float, heat: float, state: Seeds) -> bool:
    """Return true for a negative cost, otherwise with probability exp(-cost / heat)."""
    if cost < 0:
        return True
    return cost < _HOPELESS * heat and draw(state) < np.exp(-cost / heat)


@inner_kernel
def _recount(
    cells: Grouping,
    near: ShortIntegers,
    heat: Floats,
    limits: Limits,
    rule: Rule,
    walk: Walk,
    x: int,
    moved: Integers,
    violations: Floats,
    scratch: Workspace,
    state: Seeds,
) -> bool:
    """Try to dissolve the cell of x, or to create one from x and records near it."""
    kind = draw(state)
    if kind >= 0.5 and cells.empty[0] == 0:
        return False
    if kind < 0.5:
        moves, cost = _dissolve(
            cells, near, limits, rule, walk, cells.labels[x], ZERO, moved, violations, scratch
        )
    else:
        moves, cost = _carve(
            cells, near, limits, rule, walk, x, kind < 0.75, moved, violations, scratch
        )
    settled = cost < np.inf and is_active(rule)
    if settled:
        for i in range(moves):
            moved[2, i] = cells.labels[moved[0, i]]
        cost += rule.penalty * _settle(cells, rule, moved, moves, violations, scratch)
    if _accepted(cost, heat[x], state):
        _list_empty(cells, moved, moves)
        return True
    for i in range(moves - 1, -1, -1):
        move(cells, moved[0, i], moved[1, i])
    if settled:
        _settle(cells, rule, moved, moves, violations, scratch)
    return False


@inner_kernel
def _settle(
    cells: Grouping,
    rule: Rule,
    moved: Integers,
    moves: int,
    violations: Floats,
    scratch: Workspace,
) -> float:
    """Update the violations of cells that records moved from or to; return the total change."""
    change = 0.0
    for i in range(moves):
        for cell in (moved[1, i], moved[2, i]):
            amount = violation(cells, cell, rule, -1, -1, scratch)
            change += amount - violations[cell]
            violations[cell] = amount
    return change


@inner_kernel
def _list_empty(cells: Grouping, moved: Integers, moves: int) -> None:
    """Update the list of empty cells after moves (OUT: ``cells.empty``)."""
    if cells.empty[0] > 0 and cells.sizes[cells.empty[cells.empty[0]]] > 0:
        cells.empty[0] -= 1
    for i in range(moves):
        if cells.sizes[moved[1, i]] == 0 and (i == 0 or (moved[1, :i] != moved[1, i]).all()):
            cells.empty[0] += 1
            cells.empty[cells.empty[0]] = moved[1, i]


@inner_kernel
def _dissolve(
    cells: Grouping,
    near: ShortIntegers,
    limits: Limits,
    rule: Rule,
    walk: Walk,
    cell: int,
    moves: int,
    moved: Integers,
    violations: Floats,
    scratch: Workspace,
) -> tuple[int, float]:
    """Move each member to the nearby cell with the lowest cost that can take it within the limits.

    Returns the number of moves so far and the total cost, which is infinite if a member could not
    move. Moves are appended to ``moved`` as record and origin (OUT).
    """
    cost, limited = 0.0, len(rule.keys) > 0
    while cells.sizes[cell] > 0:
        x = cells.members[cell, cells.sizes[cell] - 1]
        least, best = np.inf, cell
        for t in range(near.shape[1]):
            b = cells.labels[near[x, t]]
            if (
                walk.zones[b] == walk.zone
                and b not in (cell, best)
                and cells.sizes[b] < limits.most
            ):
                c = cost_of_moving(cells, x, b)
                if c < least and (
                    not limited or violation(cells, b, rule, -1, x, scratch) <= violations[b]
                ):
                    least, best = c, b
        if best == cell or moves == moved.shape[1]:
            return moves, np.inf
        cost += least
        moved[0, moves], moved[1, moves] = x, cell
        moves += 1
        move(cells, x, best)
    return moves, cost


@inner_kernel
def _carve(
    cells: Grouping,
    near: ShortIntegers,
    limits: Limits,
    rule: Rule,
    walk: Walk,
    x: int,
    sparing: bool,
    moved: Integers,
    violations: Floats,
    scratch: Workspace,
) -> tuple[int, float]:
    """Form a cell of x and records near it, and dissolve cells that become too small.

    With ``sparing``, take only records that their cells can spare; the number of cells then grows
    by one. Returns the same as :func:`_dissolve`.
    """
    if len(rule.keys) > 0:
        moves, cost = _gather_within(
            cells, near, limits, rule, walk, x, sparing, moved, violations, scratch
        )
    else:
        moves, cost = _gather_nearest(cells, near, limits, rule, walk, x, sparing, moved)
    if cost == np.inf:
        return moves, cost
    for i in range(moves):
        home = moved[1, i]
        if 0 < cells.sizes[home] < limits.least:
            moves, more = _dissolve(
                cells, near, limits, rule, walk, home, moves, moved, violations, scratch
            )
            cost += more
    return moves, cost


@inner_kernel
def _gather_nearest(
    cells: Grouping,
    near: ShortIntegers,
    limits: Limits,
    rule: Rule,
    walk: Walk,
    x: int,
    sparing: bool,
    moved: Integers,
) -> tuple[int, float]:
    """Move x and its nearest records to an empty cell; with persons, one record of each."""
    cell, moves, cost = cells.empty[cells.empty[0]], ZERO, 0.0
    for t in range(-1, near.shape[1]):
        y = x if t < 0 else near[x, t]
        home = cells.labels[y]
        wanted = home != cell and walk.zones[home] == walk.zone
        wanted = wanted and (cells.sizes[home] > limits.least or not sparing)
        if rule.least > 0:
            for i in range(moves):
                wanted = wanted and rule.persons[moved[0, i]] != rule.persons[y]
        if wanted and moves < limits.least:
            cost += cost_of_moving(cells, y, cell)
            moved[0, moves], moved[1, moves] = y, home
            moves += 1
            move(cells, y, cell)
    return moves, cost if moves >= limits.least else np.inf


@inner_kernel
def _gather_within(
    cells: Grouping,
    near: ShortIntegers,
    limits: Limits,
    rule: Rule,
    walk: Walk,
    x: int,
    sparing: bool,
    moved: Integers,
    violations: Floats,
    scratch: Workspace,
) -> tuple[int, float]:
    """Move x and records near it to an empty cell, until that is large enough and within limits.

    Each is the record that leaves the least violation, with ties to the least cost, among the
    records nearest to x and one with other confidential values from the cell of each. The new cell
    becomes at most as large as that of x was.
    """
    cell, moves, cost = cells.empty[cells.empty[0]], ZERO, 0.0
    most, y, amount = max(limits.least, cells.sizes[cells.labels[x]]), x, np.inf
    while moves < limits.least or amount > 0:
        if moves == most:
            return moves, np.inf
        if moves > 0:
            y, lowest, amount = ZERO - 1, np.inf, np.inf
            for t in range(2 * near.shape[1]):
                z = near[x, t >> 1]
                home = cells.labels[z]
                if home == cell or walk.zones[home] != walk.zone:
                    continue
                if t & 1:
                    z = _other_kind(cells, rule, z)
                c = cost_of_moving(cells, z, cell)
                if amount == 0 and c >= lowest:
                    continue
                v = violation(cells, cell, rule, -1, z, scratch)
                if (v < amount or (v == amount and c < lowest)) and _can_spare(
                    cells, limits, rule, z, sparing, violations, scratch
                ):
                    y, lowest, amount = z, c, v
            if y < 0:
                return moves, np.inf
        elif not _can_spare(cells, limits, rule, x, sparing, violations, scratch):
            return moves, np.inf
        cost += cost_of_moving(cells, y, cell)
        moved[0, moves], moved[1, moves] = y, cells.labels[y]
        moves += 1
        move(cells, y, cell)
    return moves, cost


@inlined_kernel
def _other_kind(cells: Grouping, rule: Rule, x: int) -> int:
    """Return the first member of the cell of x that is not similar to x, or x."""
    home = cells.labels[x]
    for i in range(cells.sizes[home]):
        other = cells.members[home, i]
        if rule.similar[other] != rule.similar[x]:
            return other  # type: ignore[no-any-return]
    return x


@inlined_kernel
def _can_spare(
    cells: Grouping,
    limits: Limits,
    rule: Rule,
    x: int,
    sparing: bool,
    violations: Floats,
    scratch: Workspace,
) -> bool:
    """Return whether the cell of x stays within limits without it, or may be dissolved."""
    home = cells.labels[x]
    if cells.sizes[home] <= limits.least:
        return not sparing
    return violation(cells, home, rule, x, -1, scratch) <= violations[home]  # type: ignore[no-any-return]
