"""Cells worth more than they cost: branch and bound for the dual of set partitioning.

Every record has a price, and a cell C of s records has the reduced cost SSE(C) - prices(C), where
SSE(C) is the sum of its squared distances over pairs, divided by s. If no cell has a negative
reduced cost, the prices add up to at most the SSE of any partition. Equal records are one *type*
with a number of copies, so a cell is a multiset of types.
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import ZERO, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers

__all__ = ["Prices", "Types", "find_charges", "list_nearest", "make_prices"]

_DISTANCES_AT_ONCE = 4_000_000


class Types(NamedTuple):
    """Distinct points, and the nearest neighbours of each."""

    points: Floats
    copies: Integers
    """Number of records with these coordinates."""
    near: Integers
    """Nearest types of each, itself first."""
    gaps: Floats
    """Squared distances to them, in ascending order."""
    sums: Floats
    """``sums[i, c]`` is the sum of the c least squared distances from a record to others."""


class Prices(NamedTuple):
    """A price per type, with the quantities that the search derives from it."""

    values: Floats
    ranks: Integers
    """Position of each type by ascending price. The leader of a cell has the highest rank."""
    floors: Floats
    """``floors[s, i]``: least of half the share of its nearest minus price, up to the rank of i."""


class _Branch(NamedTuple):
    """Candidates at each level of the search, for the members still to be chosen."""

    rows: Integers
    costs: Floats
    """Cost of adding the candidate to the members chosen so far."""
    bounds: Floats
    """The same, plus half of what it must cost together with members chosen later."""
    counts: Integers
    places: Integers
    values: Floats
    """Reduced cost of the members chosen so far."""
    chosen: Integers


def make_prices(types: Types, values: Floats, most: int) -> Prices:
    """Rank the types by price, the lowest row last among equals. O(n log n + n k)."""
    order = np.lexsort((-np.arange(len(values)), values))
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.arange(len(values))
    floors = np.zeros((most + 1, len(values)))
    for size in range(2, most + 1):
        least = types.sums[order, size - 2] / (2 * size) - values[order]
        floors[size, order] = np.minimum.accumulate(least)
    return Prices(values, ranks, floors)


def list_nearest(points: Floats, copies: Integers, width: int, most: int) -> Types:
    """List the nearest types of each, at most ``width`` including itself. O(n^2 (m + log n))."""
    n = len(points)
    width = min(width, n)
    near, gaps = np.empty((n, width), dtype=np.int64), np.empty((n, width))
    step = max(1, _DISTANCES_AT_ONCE // n)
    for first in range(0, n, step):
        some = np.arange(first, min(first + step, n))
        squares = np.zeros((len(some), n))
        for j in range(points.shape[1]):
            squares += (points[some, j, np.newaxis] - points[:, j]) ** 2
        squares[np.arange(len(some)), some] = -1.0  # itself first
        order = np.argsort(squares, axis=1, kind="stable")[:, :width]
        near[some] = order
        gaps[some] = np.maximum(np.take_along_axis(squares, order, axis=1), 0.0)
    return Types(points, copies, near, gaps, _sums_of_nearest(near, gaps, copies, most))


@kernel
def _sums_of_nearest(near: Integers, gaps: Floats, copies: Integers, most: int) -> Floats:
    """Return the sums of the 0, 1, ..., ``most`` - 1 least squared distances of each record.

    Beyond the types listed, others are taken to be as far as the last one.
    """
    sums = np.zeros((len(near), most))
    for i in range(len(near)):
        filled = 1
        for p in range(near.shape[1]):
            left = copies[near[i, p]] - (1 if near[i, p] == i else 0)
            while left > 0 and filled < most:
                sums[i, filled] = sums[i, filled - 1] + gaps[i, p]
                filled += 1
                left -= 1
        while filled < most:
            sums[i, filled] = sums[i, filled - 1] + gaps[i, -1]
            filled += 1
    return sums


@inner_kernel
def _offer(value: float, size: int, count: int, least: Floats) -> int:
    """Insert a value into the ``count`` least, in ascending order (OUT); return their number."""
    if size < count:
        place = size
        size += 1
    elif count > 0 and value < least[count - 1]:
        place = count - 1
    else:
        return size
    while place > 0 and least[place - 1] > value:
        least[place] = least[place - 1]
        place -= 1
    least[place] = value
    return size


@inner_kernel
def _sum_of_least(values: Floats, first: int, last: int, count: int, least: Floats) -> float:
    """Return the sum of the ``count`` least of ``values[first:last]``, infinite if too few."""
    size = ZERO
    for p in range(first, last):
        size = _offer(values[p], size, count, least)
    total = 0.0
    for p in range(count):
        total += least[p] if p < size else np.inf
    return total


@inner_kernel
def _gather(
    types: Types, prices: Prices, leader: int, size: int, best: float, branch: _Branch,
    least: Floats,
) -> float:  # fmt: skip
    """Collect the candidates that a cell with this leader and a reduced cost below ``best`` needs.

    Returns a lower bound for cells with members that are not among the listed nearest.
    """
    others, price, count = size - 1, prices.values[leader], ZERO
    filled, width, p = ZERO, types.near.shape[1], ZERO
    rest, beyond = np.inf, np.inf
    while p < width:
        beyond = types.gaps[leader, p] / size + prices.floors[size, leader]
        if filled == others and beyond >= least[others - 1] and beyond + rest - price >= best:
            beyond = np.inf
            break
        row = types.near[leader, p]
        if prices.ranks[row] <= prices.ranks[leader]:
            cost = types.gaps[leader, p] / size - prices.values[row]
            bound = cost + types.sums[row, size - 2] / (2 * size)
            for _ in range(min(types.copies[row] - (1 if row == leader else 0), others)):
                filled = _offer(bound, filled, others, least)
                branch.rows[0, count] = row
                branch.costs[0, count] = cost
                branch.bounds[0, count] = bound
                count += 1
            rest = 0.0
            for q in range(others - 1):
                rest += least[q] if q < filled else np.inf
        p += 1
    rest, capped = 0.0, 0.0
    for q in range(others - 1):
        value = least[q] if q < filled else np.inf
        rest += value
        capped += min(value, beyond)
    kept = ZERO
    for p in range(count):
        if branch.bounds[0, p] + rest - price < best:
            _insert(branch, kept, p)
            kept += 1
    branch.counts[0] = kept
    if width == len(types.points) or beyond == np.inf:
        return np.inf
    return beyond + capped - price  # type: ignore[no-any-return]


@inner_kernel
def _insert(branch: _Branch, kept: int, p: int) -> None:
    """Move candidate ``p`` of the first level among the ``kept``, which are sorted by bound."""
    row, cost, bound = branch.rows[0, p], branch.costs[0, p], branch.bounds[0, p]
    place = kept
    while place > 0 and branch.bounds[0, place - 1] > bound:
        branch.rows[0, place] = branch.rows[0, place - 1]
        branch.costs[0, place] = branch.costs[0, place - 1]
        branch.bounds[0, place] = branch.bounds[0, place - 1]
        place -= 1
    branch.rows[0, place] = row
    branch.costs[0, place] = cost
    branch.bounds[0, place] = bound


@inner_kernel
def _descend(types: Types, branch: _Branch, level: int, p: int, size: int, slack: float) -> None:
    """Choose a candidate, and list those after it on the next level if their bound is below."""
    row, left = branch.rows[level, p], size - 2 - level
    branch.chosen[level] = row
    branch.values[level + 1] = branch.values[level] + branch.costs[level, p]
    count = ZERO
    for q in range(p + 1, branch.counts[level]):
        if branch.bounds[level, q] >= slack:
            continue
        other, gap = branch.rows[level, q], 0.0
        for j in range(types.points.shape[1]):
            difference = types.points[row, j] - types.points[other, j]
            gap += difference * difference
        cost = branch.costs[level, q] + gap / size
        branch.rows[level + 1, count] = other
        branch.costs[level + 1, count] = cost
        branch.bounds[level + 1, count] = cost + types.sums[other, left - 1] / (2 * size)
        count += 1
    branch.counts[level + 1] = count
    branch.places[level + 1] = 0


@inner_kernel
def _complete(branch: _Branch, level: int, best: float, cell: Integers) -> float:
    """Choose the cheapest last member (OUT: ``cell``, if it is the best); return the least cost."""
    for p in range(branch.places[level], branch.counts[level]):
        value = branch.values[level] + branch.costs[level, p]
        if value < best:
            best = value
            for q in range(level):
                cell[q + 1] = branch.chosen[q]
            cell[level + 1] = branch.rows[level, p]
            cell[level + 2 :] = -1
    return best


@inner_kernel
def _search(
    types: Types, branch: _Branch, size: int, best: float, least: Floats, cell: Integers,
    work: Integers,
) -> tuple[float, float]:  # fmt: skip
    """Search the cells of this size depth first, by the least cost of the members still to come.

    Returns the least reduced cost found, and a lower bound for the nodes skipped because no
    ``work`` is left (OUT: ``cell``, ``work``).
    """
    skipped, level = np.inf, ZERO
    branch.places[0] = 0
    while level >= 0:
        p, last, left = branch.places[level], branch.counts[level], size - 1 - level
        if last - p < left:
            level -= 1
            continue
        if left == 1:
            best = _complete(branch, level, best, cell)
            level -= 1
            continue
        branch.places[level] += 1
        if p > 0 and branch.rows[level, p] == branch.rows[level, p - 1]:
            continue  # a copy: the cells with it were searched without it
        here = branch.values[level] + branch.bounds[level, p]
        bound = here + _sum_of_least(branch.bounds[level], p + 1, last, left - 1, least)
        if bound >= best:
            if level == 0:  # sorted, so the others are no better
                break
            continue
        if work[0] <= 0:
            skipped = min(skipped, bound)
            continue
        work[0] -= last - p
        rest = bound - here - least[left - 2]
        _descend(types, branch, level, p, size, best - here - rest)
        level += 1
    return best, skipped


@kernel
def find_charges(
    types: Types, prices: Prices, leaders: Integers, least: int, most: int, work: int,
    charges: Floats, cells: Integers,
) -> int:  # fmt: skip
    """Find the least reduced cost of the cells of each leader, 0 if none is negative.

    OUT: ``charges``, lower bounds of it that are exact unless the search of a leader looks at more
    than ``work`` candidates or leaves the listed nearest types; ``cells``, the best cell found and
    -1 after its members. The leader of a cell is its type of highest rank. Returns the number of
    candidates looked at.
    """
    width = most * types.near.shape[1]
    branch = _Branch(
        np.empty((most, width), dtype=np.int64), np.empty((most, width)), np.empty((most, width)),
        np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64), np.zeros(most),
        np.zeros(most, dtype=np.int64),
    )  # fmt: skip
    smallest, left, total = np.empty(most), np.empty(1, dtype=np.int64), 0
    for i in range(len(leaders)):
        leader, best, lowest = leaders[i], 0.0, 0.0
        for p in range(cells.shape[1]):
            cells[i, p] = -1
        left[0] = work
        for size in range(least, most + 1):
            bound = _gather(types, prices, leader, size, best, branch, smallest)
            lowest = min(lowest, bound)
            branch.values[0] = -prices.values[leader]
            best, skipped = _search(types, branch, size, best, smallest, cells[i], left)
            lowest = min(lowest, skipped)
        if best < 0.0:
            cells[i, 0] = leader
        charges[i] = min(best, lowest)
        total += work - left[0]
    return total
