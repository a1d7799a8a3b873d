"""Which cells are near a cell: exactly, by the distances of their means, within one region."""

import numpy as np

from microcell.kernels._arrays import Floats, Integers
from microcell.kernels._jit import ZERO, inner_kernel, kernel
from microcell.kernels.blocks import Blocks

__all__ = ["find_near_cells"]


@kernel
def find_near_cells(blocks: Blocks, near: Integers) -> None:
    """For each cell the cells with the nearest means, nearest first, -1 where there are no more (OUT: ``near``).

    O(G^2 m) time, the distances of all means from one computed side by side.
    """
    count, m = blocks.sums.shape
    means = np.empty((m, count))
    for cell in range(count):
        for j in range(m):
            means[j, cell] = blocks.sums[cell, j] / blocks.totals[cell] if blocks.sizes[cell] > 0 else np.inf
    distances, nearest = np.empty(count), np.empty(near.shape[1])
    for cell in range(count):
        near[cell] = -1
        if blocks.sizes[cell] > 0:
            _measure_means(means, cell, distances)
            _pick_nearest(distances, cell, nearest, near[cell])


@inner_kernel
def _measure_means(means: Floats, cell: int, distances: Floats) -> None:
    distances[:] = 0.0
    for j in range(len(means)):
        column, value = means[j], means[j, cell]
        for i in range(len(distances)):
            difference = column[i] - value
            distances[i] += difference * difference


@inner_kernel
def _pick_nearest(distances: Floats, cell: int, nearest: Floats, found: Integers) -> None:
    """The cells of least distance, nearest first, put in their places one by one (OUT: ``nearest``, ``found``)."""
    size, worst = ZERO, np.inf
    for i in range(len(distances)):
        if distances[i] < worst and i != cell:
            size = min(size + 1, len(found))
            place = size - 1
            while place > 0 and nearest[place - 1] > distances[i]:
                nearest[place], found[place] = nearest[place - 1], found[place - 1]
                place -= 1
            nearest[place], found[place] = distances[i], i
            if size == len(found):
                worst = nearest[size - 1]
