"""Annealing: random exchanges between near cells, worse ones accepted at a rate that falls as the search cools.

A record's own temperature, its heat, grows with how far apart records lie where it is, so that outlying records and
dense ones settle at the same time.
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
    keeps,
    move,
    swap,
)
from microcell.kernels.random import draw, pick

__all__ = ["exchange_at_random"]

_RECOUNT = 100
"""One try in so many times k is to dissolve a cell or to create one: that takes some k times as long as another."""

_HOPELESS = 30.0
"""Costs of so many times the heat are refused without a draw."""


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
    """Try ``tries`` random exchanges of records with cells of records near them; how many were made (OUT: ``cells``).

    ``near[i]`` lists the records near record i, nearest first. An exchange that costs c in SSE is accepted with
    probability exp(-c / h), h being the heat of the record, or the mean of the two that change places, and made if all
    cells then keep the rule. Where there is no heat the SSE never rises. O(m) a try.
    """
    made, n, choice = ZERO, len(near), near.shape[1]
    moved = np.empty((2, 4 * limits.most), dtype=np.int64)
    recount = _RECOUNT * limits.least
    for step in range(tries):
        x = pick(state, n)
        if step % recount == 0:
            made += _recount(cells, near, heat, limits, rule, x, moved, state)
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
                made += _swap_if_allowed(cells, rule, x, y)
        elif (
            cells.sizes[a] > limits.least
            and cells.sizes[b] < limits.most
            and _accepted(cost_of_moving(cells, x, b), heat[x], state)
        ):
            made += _move_if_allowed(cells, rule, x, b)
    return made


@inlined_kernel
def _hotter(heat: Floats, x: int, y: int) -> int:
    return x if heat[x] >= heat[y] else y


@inlined_kernel
def _accepted(cost: float, heat: float, state: Seeds) -> bool:
    """True if the cost is negative, else with probability exp(-cost / heat)."""
    if cost < 0:
        return True
    return cost < _HOPELESS * heat and draw(state) < np.exp(-cost / heat)


@inlined_kernel
def _swap_if_allowed(cells: Grouping, rule: Rule, x: int, y: int) -> bool:
    a, b = cells.labels[x], cells.labels[y]
    swap(cells, x, y)
    if rule.traits.shape[1] == 0 or (keeps(cells, a, rule) and keeps(cells, b, rule)):
        return True
    swap(cells, x, y)
    return False


@inlined_kernel
def _move_if_allowed(cells: Grouping, rule: Rule, x: int, b: int) -> bool:
    a = cells.labels[x]
    move(cells, x, b)
    if keeps(cells, a, rule) and keeps(cells, b, rule):
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
    """Dissolve the cell of x into those near, or make a cell of x and the records near it, if that is accepted."""
    kind = draw(state)
    if kind < 0.5:
        made, cost = _dissolve(cells, near, limits, cells.labels[x], ZERO, moved)
    else:
        made, cost = _carve(cells, near, limits, x, kind < 0.75, moved)
    if _accepted(cost, heat[x], state) and _all_keep(cells, rule, moved, made):
        _list_empty(cells, moved, made)
        return True
    for i in range(made - 1, -1, -1):
        move(cells, moved[0, i], moved[1, i])
    return False


@inner_kernel
def _list_empty(cells: Grouping, moved: Integers, made: int) -> None:
    """Bring the list of empty cells up to date after moves (OUT: ``cells.empty``)."""
    if cells.sizes[cells.empty[cells.empty[0]]] > 0:
        cells.empty[0] -= 1
    for i in range(made):
        if cells.sizes[moved[1, i]] == 0 and (i == 0 or (moved[1, :i] != moved[1, i]).all()):
            cells.empty[0] += 1
            cells.empty[cells.empty[0]] = moved[1, i]


@inner_kernel
def _all_keep(cells: Grouping, rule: Rule, moved: Integers, made: int) -> bool:
    """Whether the cells that records have come to and gone from keep the rule."""
    kept = True
    for i in range(made):
        kept = (
            kept
            and keeps(cells, cells.labels[moved[0, i]], rule)
            and keeps(cells, moved[1, i], rule)
        )
    return kept


@inner_kernel
def _dissolve(
    cells: Grouping, near: Integers, limits: Limits, cell: int, made: int, moved: Integers
) -> tuple[int, float]:
    """Move each member to the cell near it where it costs least; how many have moved by now, and the cost.

    The cost is infinite if not all could. Moves are added to ``moved``: who, and from where (OUT).
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
        if best == cell or made == moved.shape[1]:
            return made, np.inf
        cost += least
        moved[0, made], moved[1, made] = x, cell
        made += 1
        move(cells, x, best)
    return made, cost


@inner_kernel
def _carve(
    cells: Grouping, near: Integers, limits: Limits, x: int, sparing: bool, moved: Integers
) -> tuple[int, float]:
    """Make a cell of the records nearest x, itself first, and dissolve cells that are left with too few.

    ``sparing``: take only records that their cells can spare, so that there is a cell more. Returns as _dissolve.
    """
    cell, made, cost = cells.empty[cells.empty[0]], ZERO, 0.0
    for t in range(-1, near.shape[1]):
        y = x if t < 0 else near[x, t]
        spared = cells.sizes[cells.labels[y]] > limits.least or not sparing
        if cells.labels[y] != cell and spared and made < limits.least:
            cost += cost_of_moving(cells, y, cell)
            moved[0, made], moved[1, made] = y, cells.labels[y]
            made += 1
            move(cells, y, cell)
    if made < limits.least:
        return made, np.inf
    for i in range(limits.least):
        if cells.sizes[moved[1, i]] < limits.least:
            made, more = _dissolve(cells, near, limits, moved[1, i], made, moved)
            cost += more
    return made, cost
