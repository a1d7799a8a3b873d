"""Search for less distortion: rounds of local search over regions, groups of near cells that are regrouped each round.

Regions are searched each on its own, in parallel. They do not depend on the number of threads, and each has its own
chance, so neither does the result.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from microcell.kernels._arrays import Seeds
from microcell.kernels._jit import thread_count
from microcell.kernels.blocks import empty_blocks, fill_blocks
from microcell.kernels.cells import centroids, sum_of_squares
from microcell.kernels.exchange import Limits, exchange_until_none_helps
from microcell.kernels.neighbours import find_near_cells
from microcell.kernels.rebuilding import rebuild_while_cooling
from microcell.model import Floats, Integers
from microcell.partitioning.bisect import split_large_cells

__all__ = ["Plan", "Search"]

CELLS_A_REGION, CELLS_A_LARGE_REGION, MANY_CELLS = 700, 3000, 10_000
"""Regions of 700 cells fit the cache; of many cells, larger regions cut fewer neighbours apart."""

NEAR_CELLS = 12
PASSES = 8


@dataclass(frozen=True)
class Plan:
    """A round: exchanges between near cells, then ``steps`` rebuildings for each cell, from warm to cool."""

    steps: float = 1.0
    warm: float = 0.0
    cool: float = 0.0
    most: int | None = None
    """The most cells in a region; chosen by how many there are if left out."""


class Search:
    """A partition under search; its sizes stay in [k, 2k-1]. ``labels`` and ``sse`` tell where it stands."""

    def __init__(self, X: Floats, labels: Integers, k: int, weights: Floats | None, seed: int) -> None:
        self._X = X
        self._limits = Limits(k, 2 * k - 1)
        self._weights = np.ones(len(X)) if weights is None else weights
        self._chance = np.random.default_rng(seed)
        self.labels = _compact(split_large_cells(X, labels, k))
        self.sse = sum_of_squares(X, self.labels, self._weights)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return int(self.labels.max()) + 1

    def round(self, plan: Plan) -> int:
        """Search every region once; the number of changes made. Time O(n m k) for the exchanges."""
        means = centroids(self._X, self.labels, self._weights)
        most = plan.most or (CELLS_A_REGION if self.cells <= MANY_CELLS else CELLS_A_LARGE_REGION)
        regions = _regions(self.labels, _group(means, most, self._chance))
        states = self._chance.integers(0, 2**63, size=(len(regions), 1), dtype=np.uint64)
        with ThreadPoolExecutor(thread_count()) as pool:  # kernels let other threads run
            found = list(pool.map(lambda rows, state: self._search(rows, plan, state), regions, states))
        labels, first = np.empty_like(self.labels), 0
        for rows, region in zip(regions, found, strict=True):
            labels[rows] = first + region.labels
            first += len(rows)
        self.labels = _compact(labels)
        self.sse = sum_of_squares(self._X, self.labels, self._weights)
        return sum(region.changes for region in found)

    def _search(self, rows: Integers, plan: Plan, state: Seeds) -> "_Found":
        points, labels = self._X[rows], _compact(self.labels[rows])
        points -= points.mean(axis=0)
        count = len(rows) // self._limits.least
        blocks = empty_blocks(count, points.shape[1], self._limits.most)
        fill_blocks(blocks, points, self._weights[rows], labels)
        near = np.empty((count, max(1, min(NEAR_CELLS, count - 1))), dtype=np.int64)
        find_near_cells(blocks, near)
        changes = exchange_until_none_helps(blocks, near, self._limits, PASSES)
        steps = int(plan.steps * count) if count > 1 else 0
        if steps:
            changes += rebuild_while_cooling(blocks, near, self._limits, steps, plan.warm, plan.cool, state)
        for cell in range(count):
            labels[blocks.members[cell, : blocks.sizes[cell]]] = cell
        return _Found(labels, changes)


@dataclass(frozen=True, eq=False)
class _Found:
    """What the search of a region came to."""

    labels: Integers
    changes: int


def _compact(labels: Integers) -> Integers:
    """The same cells, numbered 0, 1, 2, ..."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _regions(labels: Integers, region_of_cell: Integers) -> list[Integers]:
    """The records of each region."""
    region = region_of_cell[labels]
    return np.split(np.argsort(region, kind="stable"), np.cumsum(np.bincount(region))[:-1])


def _group(means: Floats, most: int, chance: np.random.Generator) -> Integers:
    """The region of each cell: groups of at most ``most``, split at the middle along random directions."""
    region, count = np.zeros(len(means), dtype=np.int64), 1
    waiting = [np.arange(len(means))]
    while waiting:
        cells = waiting.pop()
        if len(cells) <= most:
            continue
        places = means[cells] @ chance.normal(size=means.shape[1])
        order = np.argsort(places, kind="stable")
        right = cells[order[len(cells) // 2 :]]
        region[right] = count
        count += 1
        waiting += [cells[order[: len(cells) // 2]], right]
    return region
