"""Simulated annealing: random exchanges between near cells.

Exchanges that raise the SSE are accepted at a rate that falls as the search cools. Each record has
its own temperature (its heat), which grows with the distances between the records around it, so
that outlying and dense records settle at the same time.
"""

import numpy as np

from microcell.kernels._jit import ZERO, inlined_kernel, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers, Seeds
from microcell.kernels.exchange import Limits
from microcell.kernels.groups import Grouping, cost_of_moving, cost_of_swapping, move, swap
from microcell.kernels.random import draw, pick
from microcell.kernels.rules import (
    Room,
    Rule,
    counts_persons_only,
    debt,
    debts_of,
    is_active,
    is_kin,
    keeps_persons,
    make_room,
)

__all__ = ["exchange_at_random"]

_RECOUNT = 100
"""One try in this many times k dissolves or creates a cell, which takes about k times as long."""

_HOPELESS = 30.0
"""Costs above this many times the heat are rejected without drawing a random number."""

_KINDRED = 0.5
"""Share of swaps with a record of similar confidential values, where there are limits on them."""

_MOVES = 2.0
"""Share of tries that move a record under a rule, times the size of the cell that it joins; without
a rule this is 1. Were it not for the size, large cells would attract more and more records.
"""


@kernel
def exchange_at_random(
    cells: Grouping,
    near: Integers,
    heat: Floats,
    limits: Limits,
    rule: Rule,
    tries: int,
    state: Seeds,
) -> int:
    """Try random exchanges of records with cells of nearby records (OUT: ``cells``).

    ``near[i]`` lists the records near record i, nearest first. An exchange that raises the SSE by c
    is accepted with probability exp(-c / h), where h is the heat of the record, or the mean heat of
    the two that swap, and is kept if all cells satisfy the rule. Without heat the SSE never rises.
    Returns the number of exchanges made. O(m) per try.
    """
    moves, n, choice = ZERO, len(near), near.shape[1]
    moved = np.empty((3, 4 * limits.most), dtype=np.int64)
    recount = _RECOUNT * limits.least
    room, only_persons = make_room(cells, rule), counts_persons_only(rule)
    ruled = is_active(rule) and not only_persons
    debts = debts_of(cells, rule, room)
    for step in range(tries):
        x = pick(state, n)
        if step % recount == 0:
            moves += _recount(cells, near, heat, limits, rule, x, moved, debts, room, state)
            continue
        if step & 1:
            x = _hotter(heat, x, pick(state, n))
            x = _hotter(heat, x, pick(state, n))
        nearness = draw(state)
        y = near[x, int(nearness * nearness * choice)]
        if draw(state) < 0.5:
            x, y = y, x
        a, b = cells.labels[x], cells.labels[y]
        if a == b:
            continue
        if ruled:
            moves += _try_under_rule(cells, heat, limits, rule, x, b, debts, room, state)
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
    debts: Floats,
    room: Room,
    state: Seeds,
) -> bool:
    """Try to move x to cell b, or to swap it with a member; debt costs its price (OUT: arrays)."""
    a, y = cells.labels[x], ZERO - 1
    if draw(state) * cells.sizes[b] < _MOVES:
        if cells.sizes[a] <= limits.least or cells.sizes[b] >= limits.most:
            return False
        most = _tolerance(heat[x], state) - cost_of_moving(cells, x, b)
    else:
        slot = pick(state, cells.sizes[b])
        if draw(state) < _KINDRED:
            slot = _next_of_kin(cells, rule, x, b, slot)
        y = cells.members[b, slot]
        most = _tolerance(0.5 * (heat[x] + heat[y]), state) - cost_of_swapping(cells, x, y)
    if y < 0 or not is_kin(rule, x, y):
        # Without debt, an exchange that costs too much is rejected before its debt is computed.
        most += rule.price * (debts[a] + debts[b])
        if most <= 0:
            return False
        left, joined = debt(cells, a, rule, x, y, room), debt(cells, b, rule, y, x, room)
        most -= rule.price * (left + joined)
        if most > 0:
            debts[a], debts[b] = left, joined
    if most <= 0:
        return False
    if y < 0:
        move(cells, x, b)
    else:
        swap(cells, x, y)
    return True


@inlined_kernel
def _tolerance(heat: float, state: Seeds) -> float:
    """Draw the highest cost to accept: costs of c are accepted with probability exp(-c / heat)."""
    return -heat * np.log(1.0 - draw(state)) if heat > 0 else 0.0


@inlined_kernel
def _next_of_kin(cells: Grouping, rule: Rule, x: int, b: int, slot: int) -> int:
    """Return the first slot of b, from this one on, whose record is of the same kin as x."""
    size = cells.sizes[b]
    for i in range(size):
        other = slot + i if slot + i < size else slot + i - size
        if rule.kin[cells.members[b, other]] == rule.kin[x]:
            return other
    return slot


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
    near: Integers,
    heat: Floats,
    limits: Limits,
    rule: Rule,
    x: int,
    moved: Integers,
    debts: Floats,
    room: Room,
    state: Seeds,
) -> bool:
    """Try to dissolve the cell of x, or to create one from x and records near it."""
    kind = draw(state)
    if kind >= 0.5 and cells.empty[0] == 0:
        return False
    if kind < 0.5:
        moves, cost = _dissolve(cells, near, limits, cells.labels[x], ZERO, moved)
    else:
        moves, cost = _carve(cells, near, limits, rule, x, kind < 0.75, moved)
    settled = cost < np.inf and is_active(rule)
    if settled:
        for i in range(moves):
            moved[2, i] = cells.labels[moved[0, i]]
        cost += rule.price * _settle(cells, rule, moved, moves, debts, room)
    if _accepted(cost, heat[x], state):
        _list_empty(cells, moved, moves)
        return True
    for i in range(moves - 1, -1, -1):
        move(cells, moved[0, i], moved[1, i])
    if settled:
        _settle(cells, rule, moved, moves, debts, room)
    return False


@inner_kernel
def _settle(
    cells: Grouping, rule: Rule, moved: Integers, moves: int, debts: Floats, room: Room
) -> float:
    """Update the debts of the cells that records moved from and to; return the total change."""
    change = 0.0
    for i in range(moves):
        for cell in (moved[1, i], moved[2, i]):
            owed = debt(cells, cell, rule, -1, -1, room)
            change += owed - debts[cell]
            debts[cell] = owed
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
    cells: Grouping, near: Integers, limits: Limits, cell: int, moves: int, moved: Integers
) -> tuple[int, float]:
    """Move each member to the nearby cell where it costs least.

    Returns the number of moves so far and the total cost, which is infinite if a member could not
    move. Moves are appended to ``moved`` as record and origin (OUT).
    """
    cost = 0.0
    while cells.sizes[cell] > 0:
        x = cells.members[cell, cells.sizes[cell] - 1]
        least, best = np.inf, cell
        for t in range(near.shape[1]):
            b = cells.labels[near[x, t]]
            if b not in (cell, best) and cells.sizes[b] < limits.most:
                c = cost_of_moving(cells, x, b)
                if c < least:
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
    near: Integers,
    limits: Limits,
    rule: Rule,
    x: int,
    sparing: bool,
    moved: Integers,
) -> tuple[int, float]:
    """Form a cell of x and its nearest records, and dissolve cells that become too small.

    With persons in the rule, take one record of each.

    With ``sparing``, take only records that their cells can spare, so that the number of cells
    grows by one. Returns the same as :func:`_dissolve`.
    """
    cell, moves, cost = cells.empty[cells.empty[0]], ZERO, 0.0
    for t in range(-1, near.shape[1]):
        y = x if t < 0 else near[x, t]
        wanted = cells.sizes[cells.labels[y]] > limits.least or not sparing
        if rule.least > 0:
            for i in range(moves):
                wanted = wanted and rule.persons[moved[0, i]] != rule.persons[y]
        if cells.labels[y] != cell and wanted and moves < limits.least:
            cost += cost_of_moving(cells, y, cell)
            moved[0, moves], moved[1, moves] = y, cells.labels[y]
            moves += 1
            move(cells, y, cell)
    if moves < limits.least:
        return moves, np.inf
    for i in range(limits.least):
        if cells.sizes[moved[1, i]] < limits.least:
            moves, more = _dissolve(cells, near, limits, moved[1, i], moves, moved)
            cost += more
    return moves, cost
