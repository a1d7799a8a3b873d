"""Merge cells with neighbours, cheapest first, until none has to be merged."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from microcell.kernels._jit import thread_count
from microcell.kernels.arrays import Floats, Integers, Mask, count_distinct
from microcell.kernels.merging import Layout, find_cheapest, lay_out_cells

__all__ = ["CellSums", "merge_short_cells"]

_CELLS_AT_A_TIME = 2048


@dataclass(frozen=True, eq=False)
class CellSums:
    """Cells that are being merged: the present cell of each initial one, with sums and strata."""

    cell_of: Integers
    sums: Floats
    masses: Floats
    strata: Integers

    @classmethod
    def of(
        cls,
        points: Floats,
        labels: Integers,
        *,
        cell_of: Integers,
        weights: Floats | None = None,
        strata: Integers | None = None,
    ) -> "CellSums":
        """Add up the records of each cell; ``labels`` are initial cells, in ``cell_of`` cells."""
        labels = cell_of[labels]
        each = np.ones(len(labels)) if weights is None else _scale_down(weights)
        points = _scale_down(points)
        sums = np.empty((int(cell_of.max()) + 1, points.shape[1]))
        for j in range(points.shape[1]):
            sums[:, j] = np.bincount(labels, weights=each * points[:, j])
        stratum = np.zeros(len(sums), dtype=np.int64)
        if strata is not None:
            stratum[labels] = strata
        masses = np.bincount(labels, weights=each).astype(np.float64)
        return cls(cell_of, sums, masses, stratum)

    def __len__(self) -> int:
        return len(self.masses)

    @cached_property
    def alone(self) -> Mask:
        """Mask of the cells that are alone in their stratum and so cannot be merged."""
        out: Mask = np.bincount(self.strata)[self.strata] == 1
        return out

    def merge(self, cells: Integers) -> "CellSums":
        """Merge each of these cells with its cheapest neighbour, at most once per cell."""
        merges = np.array(list(_choose_merges(self, cells)))
        return _join(self, merges)


def merge_short_cells(
    X: Floats, labels: Integers, k: int, persons: Integers, weights: Floats | None
) -> Integers:
    """Merge every cell of fewer than k persons with the neighbour that raises the SSE least.

    In each round a cell merges at most once, cheapest first. The table must have k persons.
    """
    labels = np.unique(labels, return_inverse=True)[1].reshape(-1)
    cells = CellSums.of(X, labels, cell_of=np.arange(int(labels.max()) + 1), weights=weights)
    while True:  # every round merges at least two cells
        merged = cells.cell_of[labels]
        short = np.flatnonzero(count_distinct(merged, persons) < k)
        if not len(short):
            return merged
        cells = cells.merge(short)


def _scale_down(numbers: Floats) -> Floats:
    """Scale to at most 1 by a power of two, which is exact, so that squares do not overflow."""
    return np.ldexp(numbers, -int(np.frexp(np.abs(numbers).max(initial=0.0))[1]))


def _choose_merges(cells: CellSums, failing: Integers) -> Iterator[tuple[int, int]]:
    """Yield the merges of a round as (lower cell, higher cell)."""
    layout = lay_out_cells(cells.sums / cells.masses[:, np.newaxis], cells.masses, cells.strata)
    partners = np.empty(len(failing), dtype=np.int64)
    costs = np.empty(len(failing))
    _find_partners(layout, failing, partners, costs)
    for i in np.flatnonzero(partners < 0).tolist():
        # Only if costs overflow: any neighbour will do, so that merging always makes progress.
        stratum = np.flatnonzero(cells.strata == cells.strata[failing[i]])
        partners[i] = stratum[(np.searchsorted(stratum, failing[i]) + 1) % len(stratum)]
    taken = np.zeros(len(cells), dtype=np.bool_)
    for i in np.lexsort((failing, costs)).tolist():
        cell, partner = int(failing[i]), int(partners[i])
        if not (taken[cell] or taken[partner]):
            taken[cell] = taken[partner] = True
            yield min(cell, partner), max(cell, partner)


def _find_partners(layout: Layout, failing: Integers, partners: Integers, costs: Floats) -> None:
    """Find the cheapest neighbours on several threads, writing to ``partners`` and ``costs``."""

    def find_block(first: int) -> None:
        part = slice(first, first + _CELLS_AT_A_TIME)
        find_cheapest(layout, failing[part], partners[part], costs[part])

    find_block(0)  # in this thread, so that its progress listeners are notified
    if len(failing) > _CELLS_AT_A_TIME:
        with ThreadPoolExecutor(thread_count()) as pool:
            list(pool.map(find_block, range(_CELLS_AT_A_TIME, len(failing), _CELLS_AT_A_TIME)))


def _join(cells: CellSums, merges: Integers) -> CellSums:
    """Merge cells and renumber them in order; a merged cell takes the place of its lower part."""
    low, high = merges.T
    root = np.arange(len(cells))
    root[high] = low
    kept, numbers = np.unique(root, return_inverse=True)
    sums, masses = cells.sums.copy(), cells.masses.copy()
    sums[low] += sums[high]
    masses[low] += masses[high]
    return CellSums(numbers[cells.cell_of], sums[kept], masses[kept], cells.strata[kept])
