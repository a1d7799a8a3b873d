"""Add records to cells one by one, and find the nearest cell or the cheapest one to merge with."""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers, Singles
from microcell.kernels.scans import BLOCK, Points, Scratch, lay_out, make_scratch, measure, scan

__all__ = [
    "Layout",
    "Sites",
    "find_cheapest",
    "find_near",
    "join_in_turn",
    "lay_out_cells",
    "make_sites",
    "near_sites",
    "place_site",
]

_BLOCK = 256
_CAUTION = 1 - 1e-9
"""Factor that reduces lower bounds a little, because they are rounded differently from costs."""

_GENEROSITY = 1 + 1e-4
"""Margin for the rounding errors of sums in single precision."""


class Layout(NamedTuple):
    """G cells in B blocks, the blocks of a group next to each other, in m dimensions."""

    columns: Floats
    """(m, G): centroids, in the order of the blocks."""
    singles: Singles
    """(m, G): the centroids in single precision, for a first comparison."""
    slack: Floats
    """(1,): maximum error of a distance in single precision."""
    masses: Floats
    cells: Integers
    """(G,): cell at each place."""
    places: Integers
    """(G,): place of each cell."""
    blocks: Integers
    """(G,): block of each place."""
    starts: Integers
    """(B + 1,): first place of each block."""
    low: Floats
    """(m, B): lower bounds of each block."""
    high: Floats
    least: Floats
    """(B,): smallest mass."""
    bounds: Integers
    """(B, 2): range of blocks of the block's group."""
    numbers: Integers
    """(B, 2): lowest and highest cell of each block."""


def lay_out_cells(centroids: Floats, masses: Floats, groups: Integers) -> Layout:
    """Arrange the cells in blocks; only cells of the same group are neighbours. O(G m log G)."""
    by_group = np.argsort(groups, kind="stable")
    parts = np.split(by_group, np.flatnonzero(np.diff(groups[by_group])) + 1)
    halved = [_halve(centroids, part) for part in parts]
    blocks = [block for part in halved for block in part]
    sizes = np.array([len(block) for block in blocks])
    starts = np.concatenate(([0], np.cumsum(sizes)))
    order = np.concatenate(blocks)
    ends = np.cumsum([len(part) for part in halved])
    bounds = np.repeat(
        np.column_stack((ends - [len(part) for part in halved], ends)),
        [len(p) for p in halved],
        axis=0,
    )
    columns, places = np.ascontiguousarray(centroids[order].T), np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return Layout(
        columns,
        columns.astype(np.float32),
        np.array([_slack(columns)]),
        masses[order],
        order,
        places,
        np.repeat(np.arange(len(blocks)), sizes),
        starts,
        np.minimum.reduceat(columns, starts[:-1], axis=1),
        np.maximum.reduceat(columns, starts[:-1], axis=1),
        np.minimum.reduceat(masses[order], starts[:-1]),
        bounds.astype(np.int64),
        np.column_stack(
            (np.minimum.reduceat(order, starts[:-1]), np.maximum.reduceat(order, starts[:-1]))
        ),
    )


def _slack(columns: Floats) -> float:
    """Return twice the bound on the error of two roundings per column."""
    return float(4 * 2.0**-24 * np.abs(columns).max(initial=0.0) * np.sqrt(len(columns)))


def _halve(centroids: Floats, cells: Integers) -> list[Integers]:
    """Divide the cells into blocks of near cells, with equal ones in order of their numbers."""
    done, left = [], [cells]
    while left:
        part = left.pop()
        if len(part) <= _BLOCK:
            done.append(part)
            continue
        means, middle = centroids[part], len(part) // 2
        if means.shape[1]:
            part = part[np.argsort(means[:, np.argmax(np.ptp(means, axis=0))], kind="stable")]
        left += [part[middle:], part[:middle]]
    return done


@kernel
def find_cheapest(layout: Layout, cells: Integers, partners: Integers, costs: Floats) -> None:
    """Find the cheapest partner of each of ``cells`` to merge with (OUT: ``partners``, ``costs``).

    The partner is -1 if there is none. Ties go to the next neighbour by number, wrapping around: if
    all cells preferred the lowest, equal cells would all choose the same partner. O(G m) per cell
    at worst.
    """
    reach, lane = np.empty(len(layout.least)), np.empty(_BLOCK, dtype=np.float32)
    for q in range(len(cells)):
        place = layout.places[cells[q]]
        mass, home = layout.masses[place], layout.blocks[place]
        first, last = layout.bounds[home, 0], layout.bounds[home, 1]
        _bound(layout, place, first, last, reach)
        best, rank, best_cell = np.inf, len(layout.cells), -1
        for step in range(max(home - first, last - 1 - home) + 1):
            for side in range(2 if step else 1):
                block = home - step if side else home + step
                if block < first or block >= last or reach[block] > best:
                    continue
                if best == 0 and _least_rank(layout, block, cells[q]) >= rank:
                    continue
                start, end = layout.starts[block], layout.starts[block + 1]
                share = mass * layout.least[block] / (mass + layout.least[block])
                limit = (np.sqrt(best / share) + layout.slack[0]) ** 2 * _GENEROSITY
                if _screen(layout, place, start, end, limit, lane) == 0:
                    continue
                for i in range(end - start):
                    if lane[i] <= limit and start + i != place:
                        cost = _cost(layout, place, start + i)
                        after = (layout.cells[start + i] - cells[q] - 1) % len(layout.cells)
                        if cost < best or (cost == best and after < rank):
                            best, rank, best_cell = cost, after, layout.cells[start + i]
        partners[q], costs[q] = best_cell, best


@inner_kernel
def _least_rank(layout: Layout, block: int, cell: int) -> int:
    """Return a lower bound on the cyclic distance from ``cell`` to the next cell of the block."""
    lowest, highest = layout.numbers[block]
    if lowest > cell or highest <= cell:
        return (lowest - cell - 1) % len(layout.cells)  # type: ignore[no-any-return]
    return 0


@inner_kernel
def _bound(layout: Layout, place: int, first: int, last: int, out: Floats) -> None:
    """Compute a lower bound on the cost of the cells of each block (OUT: ``out[first:last]``)."""
    out[first:last] = 0.0
    for j in range(len(layout.columns)):
        low, high, value = layout.low[j], layout.high[j], layout.columns[j, place]
        for b in range(first, last):
            gap = max(low[b] - value, value - high[b], 0.0)
            out[b] += gap * gap
    mass = layout.masses[place]
    for b in range(first, last):
        out[b] *= mass * layout.least[b] / (mass + layout.least[b]) * _CAUTION


@inner_kernel
def _screen(layout: Layout, place: int, start: int, end: int, limit: float, out: Singles) -> int:
    """Count the near cells at places ``start`` to ``end - 1`` (OUT: squared distances)."""
    size, m, j = end - start, len(layout.singles), 0
    out[:size] = 0.0
    while j + 4 <= m:
        p, q = layout.singles[j, start:end], layout.singles[j + 1, start:end]
        r, s = layout.singles[j + 2, start:end], layout.singles[j + 3, start:end]
        a, b = layout.singles[j, place], layout.singles[j + 1, place]
        c, d = layout.singles[j + 2, place], layout.singles[j + 3, place]
        for i in range(size):
            e, f, g, h = p[i] - a, q[i] - b, r[i] - c, s[i] - d
            out[i] += (e * e + f * f) + (g * g + h * h)
        j += 4
    while j < m:
        p, a = layout.singles[j, start:end], layout.singles[j, place]
        for i in range(size):
            e = p[i] - a
            out[i] += e * e
        j += 1
    near = 0
    for i in range(size):
        near += out[i] <= limit
    return near


@inner_kernel
def _cost(layout: Layout, place: int, other: int) -> float:
    """Return the cost of merging the cells at two places."""
    distance, v, w = 0.0, layout.masses[place], layout.masses[other]
    for j in range(len(layout.columns)):
        distance += (layout.columns[j, other] - layout.columns[j, place]) ** 2
    return distance * (v * w / (v + w))  # type: ignore[no-any-return]


class Sites(NamedTuple):
    """Cells that can grow; ``blocks[b, j, i]`` is column j of centroid ``b * BLOCK + i``."""

    blocks: Floats
    sums: Floats
    """(G, m): sum of each cell's weighted points."""
    totals: Floats
    """(G,): total weight."""
    sizes: Integers
    used: Integers
    """Number of cells, in an array of one; there is room for more."""


def make_sites(X: Floats, labels: Integers, weights: Floats, room: int) -> Sites:
    """Return the cells of these records, with room for this many. O(n m)."""
    sizes = np.bincount(labels)
    count, m = len(sizes), X.shape[1]
    sums, totals = np.zeros((room, m)), np.zeros(room)
    totals[:count] = np.bincount(labels, weights=weights)
    for j in range(m):
        sums[:count, j] = np.bincount(labels, weights=weights * X[:, j])
    centroids = np.zeros((room, m))
    centroids[:count] = sums[:count] / totals[:count, np.newaxis]
    return Sites(
        lay_out(centroids).blocks,
        sums,
        totals,
        np.concatenate([sizes, np.zeros(room - count, dtype=np.int64)]),
        np.array([count]),
    )


def place_site(sites: Sites, cell: int, X: Floats, weights: Floats) -> None:
    """Set the records of a cell, which may be new (OUT: ``sites``)."""
    sites.sums[cell] = (X * weights[:, np.newaxis]).sum(axis=0)
    sites.totals[cell], sites.sizes[cell] = weights.sum(), len(X)
    sites.blocks[cell // BLOCK, :, cell % BLOCK] = sites.sums[cell] / sites.totals[cell]
    sites.used[0] = max(sites.used[0], cell + 1)


@kernel
def join_in_turn(
    sites: Sites,
    X: Floats,
    weights: Floats,
    first: int,
    last: int,
    most: int,
    inertial: bool,
    joined: Integers,
) -> int:
    """Add records ``first`` to ``last - 1`` to cells until a cell has ``most`` (OUT: arrays).

    Returns the number of the record after the last that joined. A record joins the cell with the
    nearest centroid or, if ``inertial``, the one whose SSE rises least, W w / (W + w) ||y - c||^2,
    and the centroid then moves. Ties go to the lowest cell. O(G m) time per record.
    """
    lane = np.empty(BLOCK)
    for i in range(first, last):
        cell = _best_site(sites, X[i], weights[i], inertial, lane)
        joined[i] = cell
        sites.sizes[cell] += 1
        sites.totals[cell] += weights[i]
        block, place = divmod(cell, BLOCK)
        for j in range(X.shape[1]):
            sites.sums[cell, j] += weights[i] * X[i, j]
            if inertial:
                sites.blocks[block, j, place] = sites.sums[cell, j] / sites.totals[cell]
        if sites.sizes[cell] >= most:
            return i + 1
    return last


@inner_kernel
def _best_site(sites: Sites, point: Floats, weight: float, inertial: bool, lane: Floats) -> int:
    best, best_cell = np.inf, np.int64(0)
    count = sites.used[0]
    for b in range(-(-count // BLOCK)):
        measure(sites.blocks[b], point, lane)
        first = b * BLOCK
        size = min(BLOCK, count - first)
        if inertial:
            for i in range(size):
                lane[i] *= sites.totals[first + i] / (sites.totals[first + i] + weight)
        least = lane[:size].min()
        if least < best:
            best, best_cell = least, first + np.argmin(lane[:size])
    return best_cell  # type: ignore[return-value]


def near_sites(centroids: Floats, targets: Floats, count: int) -> Integers:
    """Return the nearest centroids of each target, in no particular order.

    Ties go to the lowest numbers. O(G m) time per target.
    """
    near = np.empty((len(targets), min(count, len(centroids))), dtype=np.int64)
    find_near(
        lay_out(centroids), np.ascontiguousarray(targets), make_scratch(near.shape[1], 1), near
    )
    return near


@kernel
def find_near(points: Points, targets: Floats, scratch: Scratch, near: Integers) -> None:
    """Find the points nearest to each target (OUT: ``near``)."""
    for i in range(len(targets)):
        scan(points, targets[i], scratch, near.shape[1])
        for t in range(near.shape[1]):
            near[i, t] = scratch.rows[0, t]
