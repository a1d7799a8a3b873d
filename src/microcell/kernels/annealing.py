"""Simulated annealing: random exchanges between near cells.

Exchanges that raise the SSE are accepted at a rate that falls as the search cools. Each record has
its own temperature (its heat), which grows with the distances between the records around it, so
that outlying and dense records settle at the same time.
"""

import numpy as np

from microcell.kernels._jit import ZERO, inlined_kernel, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers, Seeds
from microcell.kernels.exchange import Limits
from microcell.kernels.groups import (
    Grouping,
    Rule,
    cost_of_moving,
    cost_of_swapping,
    move,
    satisfies,
    swap,
)
from microcell.kernels.random import draw, pick

__all__ = ["exchange_at_random"]

_RECOUNT = 100
"""One try in this many times k dissolves or creates a cell, which takes about k times as long."""

_HOPELESS = 30.0
"""Costs above this many times the heat are rejected without drawing a random number."""


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
    moved = np.empty((2, 4 * limits.most), dtype=np.int64)
    recount = _RECOUNT * limits.least
    for step in range(tries):
        x = pick(state, n)
        if step % recount == 0:
            moves += _recount(cells, near, heat, limits, rule, x, moved, state)
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
        slot = pick(state, cells.sizes[b])
        if cells.members[b, slot] != y:
            y = cells.members[b, slot]
            if _accepted(cost_of_swapping(cells, x, y), 0.5 * (heat[x] + heat[y]), state):
                moves += _swap_if_allowed(cells, rule, x, y)
        elif (
            cells.sizes[a] > limits.least
            and cells.sizes[b] < limits.most
            and _accepted(cost_of_moving(cells, x, b), heat[x], state)
        ):
            moves += _move_if_allowed(cells, rule, x, b)
    return moves


@inlined_kernel
def _hotter(heat: Floats, x: int, y: int) -> int:
    return x if heat[x] >= heat[y] else y


@inlined_kernel
def _accepted(cost: float, heat: float, state: Seeds) -> bool:
    """Return true for a negative cost, otherwise with probability exp(-cost / heat)."""
    if cost < 0:
        return True
    return cost < _HOPELESS * heat and draw(state) < np.exp(-cost / heat)


@inlined_kernel
def _swap_if_allowed(cells: Grouping, rule: Rule, x: int, y: int) -> bool:
    a, b = cells.labels[x], cells.labels[y]
    swap(cells, x, y)
    if rule.traits.shape[1] == 0 or (satisfies(cells, a, rule) and satisfies(cells, b, rule)):
        return True
    swap(cells, x, y)
    return False


@inlined_kernel
def _move_if_allowed(cells: Grouping, rule: Rule, x: int, b: int) -> bool:
    a = cells.labels[x]
    move(cells, x, b)
    if satisfies(cells, a, rule) and satisfies(cells, b, rule):
        return True
    move(cells, x, a)
    return False


@inner_kernel
def _recount(
    cells: Grouping,
    near: Integers,
    heat: Floats,
    limits: Limits,
    rule: Rule,
    x: int,
    moved: Integers,
    state: Seeds,
) -> bool:
    """Try to dissolve the cell of x, or to create one from x and records near it."""
    kind = draw(state)
    if kind < 0.5:
        moves, cost = _dissolve(cells, near, limits, cells.labels[x], ZERO, moved)
    else:
        moves, cost = _carve(cells, near, limits, x, kind < 0.75, moved)
    if _accepted(cost, heat[x], state) and _all_satisfy(cells, rule, moved, moves):
        _list_empty(cells, moved, moves)
        return True
    for i in range(moves - 1, -1, -1):
        move(cells, moved[0, i], moved[1, i])
    return False


@inner_kernel
def _list_empty(cells: Grouping, moved: Integers, moves: int) -> None:
    """Update the list of empty cells after moves (OUT: ``cells.empty``)."""
    if cells.sizes[cells.empty[cells.empty[0]]] > 0:
        cells.empty[0] -= 1
    for i in range(moves):
        if cells.sizes[moved[1, i]] == 0 and (i == 0 or (moved[1, :i] != moved[1, i]).all()):
            cells.empty[0] += 1
            cells.empty[cells.empty[0]] = moved[1, i]


@inner_kernel
def _all_satisfy(cells: Grouping, rule: Rule, moved: Integers, moves: int) -> bool:
    """Return whether all cells that gained or lost records satisfy the rule."""
    satisfied = True
    for i in range(moves):
        satisfied = (
            satisfied
            and satisfies(cells, cells.labels[moved[0, i]], rule)
            and satisfies(cells, moved[1, i], rule)
        )
    return satisfied


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
    cells: Grouping, near: Integers, limits: Limits, x: int, sparing: bool, moved: Integers
) -> tuple[int, float]:
    """Form a cell of x and its nearest records, and dissolve cells that become too small.

    With ``sparing``, take only records that their cells can spare, so that the number of cells
    grows by one. Returns the same as :func:`_dissolve`.
    """
    cell, moves, cost = cells.empty[cells.empty[0]], ZERO, 0.0
    for t in range(-1, near.shape[1]):
        y = x if t < 0 else near[x, t]
        spared = cells.sizes[cells.labels[y]] > limits.least or not sparing
        if cells.labels[y] != cell and spared and moves < limits.least:
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
