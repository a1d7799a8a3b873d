"""Which cells are near a cell, by the distances of their means, and which records near a record, among those cells'."""

import numpy as np

from microcell.kernels._arrays import Floats, Integers, Singles
from microcell.kernels._jit import ZERO, inlined_kernel, inner_kernel, kernel
from microcell.kernels.grouping import Grouping

__all__ = ["find_cells_around", "find_near_cells", "find_near_records"]

_TILE = 1024
"""Distances to so many cells are measured at a time: they stay in the fastest cache."""


@kernel
def find_near_cells(sums: Floats, totals: Floats, near: Integers) -> None:
    """For each cell the cells with the nearest means, nearest first, -1 where there are no more (OUT: ``near``).

    ``sums`` and ``totals`` give the means; an empty cell, of total 0, is near none. O(G^2 m) time, in single precision:
    which of two cells at almost the same distance comes first does not matter.
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
    """For each site the nearest ones in every direction, -1 where there are no more (OUT: ``around``, (Q, 2 m, A)).

    A direction is the coordinate in which another site is farthest off, and to which side. The nearest sites alone may
    all be of one crowd; these lead out of it. O(Q^2 m) time.
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
    """Squared distances of a cell's mean from ``width`` others, side by side (OUT: ``distances``)."""
    distances[:width] = 0.0
    for j in range(len(means)):
        column, value = means[j, first : first + width], means[j, cell]
        for i in range(width):
            difference = column[i] - value
            distances[i] += difference * difference


@inner_kernel
def _insert(distance: float, other: int, nearest: Singles, found: Integers) -> None:
    """Put ``other`` in its place among the nearest; the last of them falls out (OUT: ``nearest``, ``found``)."""
    place = len(found) - 1
    while place > 0 and nearest[place - 1] > distance:
        nearest[place], found[place] = nearest[place - 1], found[place - 1]
        place -= 1
    nearest[place], found[place] = distance, other


@kernel
def find_near_records(cells: Grouping, near_cells: Integers, near: Integers) -> None:
    """For each record the nearest others in its cell and the cells near it, nearest first (OUT: ``near``).

    Where there are too few, those found come again.
    """
    distances = np.empty(near.shape[1], dtype=np.float32)
    for i in range(len(near)):
        own, seen = cells.labels[i], ZERO
        distances[:] = np.inf
        for t in range(-1, near_cells.shape[1]):
            cell = own if t < 0 else near_cells[own, t]
            if cell < 0:
                break
            for slot in range(cells.sizes[cell]):
                other = cells.members[cell, slot]
                if other != i:
                    seen += 1
                    distance = _squared_distance(cells, i, other)
                    if distance < distances[-1]:
                        _insert(distance, other, distances, near[i])
        for t in range(seen, near.shape[1]):
            near[i, t] = near[i, t % seen]


@inlined_kernel
def _squared_distance(cells: Grouping, i: int, other: int) -> float:
    out, p, q = 0.0, cells.points[i], cells.points[other]
    v, w = 1 / cells.weights[i], 1 / cells.weights[other]
    for j in range(len(p)):
        out += (p[j] * v - q[j] * w) ** 2
    return np.float32(out)  # type: ignore[return-value]
