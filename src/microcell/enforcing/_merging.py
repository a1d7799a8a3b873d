"""Cells merged until each meets what is required, and proof of it on the table that they publish."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from microcell import auditing, progress
from microcell.enforcing._demands import Demands, check_met, find_broken, find_missed
from microcell.errors import RequirementError
from microcell.kernels._jit import thread_count
from microcell.kernels.merging import Layout, find_cheapest, lay_out_cells
from microcell.model import Encoded, Floats, Integers, Mask, Partition, Schema, Table

__all__ = ["Enforced", "Merged", "enforce", "merge_cells"]

_CELLS_AT_A_TIME = 2048


@dataclass(frozen=True, eq=False)
class Merged:
    """Cells that meet what merging can mend, and in how many rounds they were merged."""

    partition: Partition
    rounds: int = 0


@dataclass(frozen=True, eq=False)
class Enforced:
    """Merged cells, in how many rounds they were, and the table that they publish, which meets the same."""

    partition: Partition
    rounds: int
    published: Table


@dataclass(frozen=True, eq=False)
class _Cells:
    """The cells that there are now: the cell of each first one, and the sum, mass and stratum of each."""

    home: Integers
    sums: Floats
    masses: Floats
    strata: Integers

    def __len__(self) -> int:
        return len(self.masses)

    @cached_property
    def alone(self) -> Mask:
        """The cells that have their stratum to themselves, and nobody to be merged with."""
        out: Mask = np.bincount(self.strata)[self.strata] == 1
        return out


def enforce(
    demands: Demands, partition: Partition, encoded: Encoded, schema: Schema, publish: Callable[[Partition], Table]
) -> Enforced:
    """The partition merged as far as the requirements want it, and the table that ``publish`` makes of it.

    Cells that publish the same are one class of that table. Where such a class breaks a requirement that its cells
    meet, as ``delta_disclosure`` allows, they are merged and the work goes on.

    Raises
    ------
    RequirementError
        What is required cannot be met by merging.
    """
    merged, rounds = merge_cells(demands, partition, encoded), 0
    while True:
        rounds += merged.rounds
        published = publish(merged.partition)
        missed = find_missed(published, schema, demands.limits)
        if not missed:
            return Enforced(merged.partition, rounds, published)
        classes = auditing.class_labels(published, schema.keys)
        if len(np.unique(classes)) >= len(merged.partition):
            raise RequirementError(
                f"{' '.join(map(str, missed))} Nothing was released; please report this as a defect."
            )
        merged = merge_cells(demands, merged.partition, encoded, alike=classes)


def merge_cells(demands: Demands, partition: Partition, encoded: Encoded, alike: Integers | None = None) -> Merged:
    """The partition with cells merged until each requirement that can be enforced is met; itself if it meets them.

    In rounds: each cell that breaks a requirement asks for the neighbour in its stratum with the least Ward cost
    v w / (v + w) d^2 (v and w their records, or weights; d between their centroids); of equals, for the next by number.
    Mergers are made from the cheapest to the dearest, of equals the lower cell's first, each cell once a round.
    Limits on homogeneous classes and their records are met by merging the smallest of these. Time O(n log n + b G m) a
    round at worst, b of G cells breaking a requirement.

    Parameters
    ----------
    alike
        A number for each record; cells that share one are merged first.

    Raises
    ------
    RequirementError
        A cell breaks a requirement and has no neighbour left.
    """
    if not demands.enforced:
        return Merged(partition)
    cells = _start(partition, encoded, demands.strata, alike)
    rounds = most = 0
    while True:
        labels = cells.home[partition.labels]
        asking = np.flatnonzero(find_broken(demands, labels, cells.alone) & ~cells.alone)
        most = max(most, len(asking))
        progress.report("merging cells", most - len(asking), most)
        if not len(asking):
            break
        cells, rounds = _join(cells, np.array(list(_choose(cells, asking)))), rounds + 1
    check_met(demands, labels)
    if len(cells) == len(partition):
        return Merged(partition)
    told = ", then merged to meet requirements"
    why = partition.why.removesuffix(told) + told
    return Merged(Partition(labels, partition.k, method=partition.method, why=why), rounds)


def _start(partition: Partition, encoded: Encoded, strata: Integers, alike: Integers | None) -> _Cells:
    home = _shared(partition, alike)
    labels = home[partition.labels]
    weights = np.ones(len(labels)) if encoded.weights is None else _scaled(encoded.weights)
    points = _scaled(encoded.matrix)
    sums = np.empty((int(home.max()) + 1, points.shape[1]))
    for j in range(points.shape[1]):
        sums[:, j] = np.bincount(labels, weights=weights * points[:, j])
    where = np.empty(len(sums), dtype=np.int64)
    where[labels] = strata
    return _Cells(home, sums, np.bincount(labels, weights=weights).astype(np.float64), where)


def _scaled(numbers: Floats) -> Floats:
    """The numbers up to 1, as costs need their squares; by a power of two, which changes no digit."""
    return np.ldexp(numbers, -int(np.frexp(np.abs(numbers).max(initial=0.0))[1]))


def _shared(partition: Partition, alike: Integers | None) -> Integers:
    """The cell that each cell begins in: its own, or the one it shares with those that are alike."""
    count = len(partition)
    if alike is None:
        return np.arange(count)
    lowest = np.full(int(alike.max()) + 1, count)
    np.minimum.at(lowest, alike, partition.labels)
    first = np.empty(count, dtype=np.int64)
    first[partition.labels] = lowest[alike]
    return np.unique(first, return_inverse=True)[1].astype(np.int64)


def _choose(cells: _Cells, asking: Integers) -> Iterator[tuple[int, int]]:
    """The mergers of a round, the lower cell of each first."""
    layout = lay_out_cells(cells.sums / cells.masses[:, np.newaxis], cells.masses, cells.strata)
    partners, costs = np.empty(len(asking), dtype=np.int64), np.empty(len(asking))
    _search(layout, asking, partners, costs)
    taken = np.zeros(len(cells), dtype=np.bool_)
    for place in np.lexsort((asking, costs)).tolist():
        one, other = int(asking[place]), int(partners[place])
        if not (taken[one] or taken[other]):
            taken[one] = taken[other] = True
            yield min(one, other), max(one, other)


def _search(layout: Layout, asking: Integers, partners: Integers, costs: Floats) -> None:
    """Find the cheapest neighbours, on several threads (OUT: ``partners``, ``costs``); each answer is its own."""

    def find(first: int) -> None:
        part = slice(first, first + _CELLS_AT_A_TIME)
        find_cheapest(layout, asking[part], partners[part], costs[part])

    find(0)  # in this thread, so that who listens hears of the compiling
    with ThreadPoolExecutor(thread_count()) as pool:
        list(pool.map(find, range(_CELLS_AT_A_TIME, len(asking), _CELLS_AT_A_TIME)))


def _join(cells: _Cells, mergers: Integers) -> _Cells:
    """The cells after the mergers, numbered anew in their order, a merged one at the place of its lower."""
    low, high = mergers.T
    root = np.arange(len(cells))
    root[high] = low
    kept, numbers = np.unique(root, return_inverse=True)
    sums, masses = cells.sums.copy(), cells.masses.copy()
    sums[low] += sums[high]
    masses[low] += masses[high]
    return _Cells(numbers[cells.home], sums[kept], masses[kept], cells.strata[kept])
