"""The cell that is cheapest to merge with, exactly, by what Ward's rule says that a merger costs.

Two cells of masses v and w whose centroids are d apart have v w / (v + w) d^2 more SSE as one. The cells of a group lie
in blocks that halving them along the widest column makes, each with the box around its centroids and its least mass.
A block whose box alone says that no cell in it can be cheaper than one found already is passed over; in the others,
distances in single precision say which cells are worth a second look. Coordinates should be no larger than 1e15.
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._arrays import Floats, Integers, Singles
from microcell.kernels._jit import inner_kernel, kernel

__all__ = ["Layout", "find_cheapest", "lay_out_cells"]

_BLOCK = 256
_CAUTION = 1 - 1e-9
"""A bound is taken for a little less than it is: it is rounded in another order than the costs."""

_GENEROSITY = 1 + 1e-4
"""For what sums in single precision lose."""


class Layout(NamedTuple):
    """G cells in B blocks, the blocks of a group side by side, in m dimensions."""

    columns: Floats
    """(m, G): the centroids, in the order of the blocks."""
    singles: Singles
    """(m, G): the same in single precision, for a first look."""
    slack: Floats
    """(1,): how far off a distance may be in single precision."""
    masses: Floats
    cells: Integers
    """(G,): the cell at each place."""
    places: Integers
    """(G,): the place of each cell."""
    blocks: Integers
    """(G,): the block of each place."""
    starts: Integers
    """(B + 1,): the first place of each block."""
    low: Floats
    """(m, B): the box of each block."""
    high: Floats
    least: Floats
    """(B,): the least mass."""
    bounds: Integers
    """(B, 2): the first block of the block's group, and the one behind its last."""
    numbers: Integers
    """(B, 2): the lowest and the highest cell of each block."""


def lay_out_cells(centroids: Floats, masses: Floats, groups: Integers) -> Layout:
    """The cells in blocks; only cells of the same group, 0, 1, 2, ..., are neighbours. O(G m log G)."""
    by_group = np.argsort(groups, kind="stable")
    parts = np.split(by_group, np.flatnonzero(np.diff(groups[by_group])) + 1)
    halved = [_halve(centroids, part) for part in parts]
    blocks = [block for part in halved for block in part]
    sizes = np.array([len(block) for block in blocks])
    starts = np.concatenate(([0], np.cumsum(sizes)))
    order = np.concatenate(blocks)
    ends = np.cumsum([len(part) for part in halved])
    bounds = np.repeat(np.column_stack((ends - [len(part) for part in halved], ends)), [len(p) for p in halved], axis=0)
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
        np.column_stack((np.minimum.reduceat(order, starts[:-1]), np.maximum.reduceat(order, starts[:-1]))),
    )


def _slack(columns: Floats) -> float:
    """Two roundings in each column, and as much again."""
    return float(4 * 2.0**-24 * np.abs(columns).max(initial=0.0) * np.sqrt(len(columns)))


def _halve(centroids: Floats, cells: Integers) -> list[Integers]:
    """The cells in blocks, near ones together and equal ones in the order of their numbers."""
    done, left = [], [cells]
    while left:
        part = left.pop()
        if len(part) <= _BLOCK:
            done.append(part)
            continue
        own, middle = centroids[part], len(part) // 2
        if own.shape[1]:
            part = part[np.argsort(own[:, np.argmax(np.ptp(own, axis=0))], kind="stable")]
        left += [part[middle:], part[:middle]]
    return done


@kernel
def find_cheapest(layout: Layout, cells: Integers, partners: Integers, costs: Floats) -> None:
    """For each of ``cells`` its cheapest neighbour and the cost (OUT: ``partners``, ``costs``); -1 if it has none.

    Of neighbours at the same cost it is the next by number, after the highest the lowest: were it the lowest for all,
    equal cells would all ask for the same one. O(G m) a cell at worst.
    """
    reach, lane = np.empty(len(layout.least)), np.empty(_BLOCK, dtype=np.float32)
    for q in range(len(cells)):
        place = layout.places[cells[q]]
        mass, own = layout.masses[place], layout.blocks[place]
        first, last = layout.bounds[own, 0], layout.bounds[own, 1]
        _bound(layout, place, first, last, reach)
        best, rank, found = np.inf, len(layout.cells), -1
        for step in range(max(own - first, last - 1 - own) + 1):
            for side in range(2 if step else 1):
                block = own - step if side else own + step
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
                            best, rank, found = cost, after, layout.cells[start + i]
        partners[q], costs[q] = found, best


@inner_kernel
def _least_rank(layout: Layout, block: int, cell: int) -> int:
    """How many numbers after ``cell`` the first cell of the block may come: among equal cells only the next counts."""
    lowest, highest = layout.numbers[block]
    if lowest > cell or highest <= cell:
        return (lowest - cell - 1) % len(layout.cells)  # type: ignore[no-any-return]
    return 0


@inner_kernel
def _bound(layout: Layout, place: int, first: int, last: int, out: Floats) -> None:
    """What a cell of each block costs at least (OUT: ``out``, from ``first`` to ``last - 1``)."""
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
    """How many of the cells from ``start`` to ``end - 1`` are near enough; squared distances in OUT ``out``."""
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
    """What merging the cells of the two places costs, the squared distance summed over columns in order."""
    distance, v, w = 0.0, layout.masses[place], layout.masses[other]
    for j in range(len(layout.columns)):
        distance += (layout.columns[j, other] - layout.columns[j, place]) ** 2
    return distance * (v * w / (v + w))  # type: ignore[no-any-return]
