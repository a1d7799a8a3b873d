"""Refinement: local search that improves any partition."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from time import monotonic

import numpy as np

from microcell import progress
from microcell.kernels._jit import thread_count
from microcell.kernels.annealing import exchange_at_random
from microcell.kernels.arrays import (
    Seeds,
    centroids,
    squared_residuals,
    sum_of_squares,
    total_sum_of_squares,
)
from microcell.kernels.exchange import (
    Limits,
    exchange_until_none_helps,
    find_near_cells,
    find_near_records,
)
from microcell.kernels.groups import Rule, empty_blocks, fill_blocks, make_grouping, no_rule
from microcell.methods.bisect import split_large_cells
from microcell.model import Floats, Integers

__all__ = ["ROUNDS", "Found", "Search", "centred", "compact", "near_cells", "refine_labels"]

MANY_CELLS = 20_000
"""Beyond so many, regions are large, as small ones cut too many neighbours apart, and records choose among fewer."""

NEAR_CELLS, NEAR_RECORDS = 20, 24
RECORDS_AROUND, RECORDS_AROUND_OF_MANY = 400, 200
"""So many records, of the cells around, a record's near ones are chosen from."""

PASSES = 2
"""Exchanges that a first and a second look at a region leave undone are found in another region, next round."""

SPREAD = 0.6
"""A record's heat grows with this power of the SSE per record in its cell at the start."""

COOLINGS = 5
"""In how many steps the temperature falls within a round."""


class Search:
    """A partition under search, its sizes within [k, 2k-1]; ``labels`` and ``sse`` tell where it stands.

    With a ``rule`` cells may have any size of k or more, the start must keep the rule, and every change does.
    With ``copies`` the table is that many copies of one, each of which is annealed as a whole, on its own.
    """

    def __init__(
        self,
        X: Floats,
        labels: Integers,
        k: int,
        weights: Floats | None,
        seed: int,
        rule: Rule | None = None,
        copies: int = 1,
    ) -> None:
        self._X = X
        self.copies, self.least = copies, k
        self._rule = rule
        self._weights = np.ones(len(X)) if weights is None else weights
        self._chance = np.random.default_rng(seed)
        self.labels = compact(labels if rule else split_large_cells(X, labels, k))
        self._limits = Limits(k, len(X) if rule else 2 * k - 1)
        self.sse = sum_of_squares(X, self.labels, self._weights)
        self._heat: Floats | None = None

    @cached_property
    def total(self) -> float:
        """The sum of squares about the mean of the table, or of a copy for each copy."""
        rows = len(self._X) // self.copies
        return self.copies * total_sum_of_squares(self._X[:rows], self._weights[:rows])

    @property
    def cells(self) -> int:
        """The number of cells."""
        return int(self.labels.max()) + 1

    def exchange(self) -> int:
        """Make the exchanges that help in every region once; how many were made. O(n m k) time."""
        if self._rule:
            return self.anneal(10.0 * self._limits.least, 0.0, 0.0)
        return self._round(min(13_000, max(700, self.cells // 4)), self._exchange)

    def anneal(self, tries: float, warm: float | Floats, cool: float | Floats) -> int:
        """Try ``tries`` random exchanges for each record while cooling from warm to cool; how many were made.

        Temperatures, for all or for each copy, are in units of the mean SSE per record at the first call.
        """
        if self._heat is None:
            self._heat = _heat(self._X, self.labels, self._weights)
        heats = [self._heat * self._for_each(t) for t in _cooling(warm, cool)]

        def work(rows: Integers, state: Seeds) -> Found:
            return self._anneal(rows, [heat[rows] for heat in heats], tries, state)

        most = min(max(60, self.cells // 2), max(1300, min(9000, self.cells // 11)))
        return self._round(most, work, np.split(np.arange(len(self.labels)), self.copies))

    def _for_each(self, temperature: float | Floats) -> float | Floats:
        """The temperature of each record."""
        return (
            np.repeat(temperature, len(self._X) // self.copies)
            if np.ndim(temperature)
            else temperature
        )

    def begin_at(self, labels: Integers) -> None:
        """Go on from these cells, of sizes within the limits."""
        self._settle(labels)

    def combine(self, labels: Integers) -> None:
        """Take over the cells of another partition wherever they hold the same records as cells here, at less SSE.

        Never raises the SSE above that of either partition. O(n m).
        """
        group = _connected(self.labels, labels)
        here, there = (
            squared_residuals(self._X, cells, self._weights) for cells in (self.labels, labels)
        )
        gain = np.bincount(group, weights=here) - np.bincount(group, weights=there)
        self._settle(np.where(gain[group] > 0, labels + self.cells, self.labels))

    def _round(
        self, most: int, work: Callable[[Integers, Seeds], "Found"], copies: Sequence[Integers] = ()
    ) -> int:
        """Let ``work`` search every copy, or every region of at most so many cells; how many exchanges were made."""
        if len(copies) > 1:
            regions = list(copies)
        else:
            means = centroids(self._X, self.labels, self._weights)
            regions = _regions(self.labels, _group(means, most, self._chance))
        states = self._chance.integers(0, 2**63, size=(len(regions), 1), dtype=np.uint64)
        found = _side_by_side(work, regions, states)
        labels, first = np.empty_like(self.labels), 0
        for rows, region in zip(regions, found, strict=True):
            labels[rows] = first + region.labels
            first += len(rows)
        self._settle(labels)
        return sum(region.changes for region in found)

    def _settle(self, labels: Integers) -> None:
        self.labels = compact(labels)
        self.sse = sum_of_squares(self._X, self.labels, self._weights)

    def _exchange(self, rows: Integers, state: Seeds) -> "Found":  # noqa: ARG002
        points, labels = centred(self._X[rows])[0], compact(self.labels[rows])
        count = int(labels.max()) + 1
        blocks = empty_blocks(count, points.shape[1], self._limits.most)
        fill_blocks(blocks, points, self._weights[rows], labels)
        near = near_cells(blocks.sums, blocks.totals, NEAR_CELLS)
        changes = exchange_until_none_helps(blocks, near, self._limits, PASSES)
        for cell in range(count):
            labels[blocks.members[cell, : blocks.sizes[cell]]] = cell
        return Found(labels, changes)

    def _anneal(self, rows: Integers, heats: list[Floats], tries: float, state: Seeds) -> "Found":
        (points, scale), labels = centred(self._X[rows]), compact(self.labels[rows])
        if labels.max() == 0:
            return Found(labels, 0)
        least, largest = self._limits.least, int(np.bincount(labels).max())
        limits = Limits(least, min(self._limits.most, max(2 * least - 1, 2 * largest)))
        count, cap = len(rows) // least + 1, limits.most  # one cell to spare
        cells = make_grouping(points, self._weights[rows], labels, count, cap)
        near = np.zeros(
            (len(rows), min(max(NEAR_RECORDS, least + 8), len(rows) - 1)), dtype=np.int64
        )
        records = RECORDS_AROUND if self.cells <= MANY_CELLS else RECORDS_AROUND_OF_MANY
        around = max(NEAR_CELLS, -(-records // least))
        find_near_records(cells, near_cells(cells.sums, cells.totals, around), near)
        rule = (
            Rule(self._rule.traits[rows], self._rule.allowed) if self._rule else no_rule(len(rows))
        )
        changes, each = 0, int(np.ceil(tries * len(rows) / len(heats)))
        for heat in heats:
            changes += exchange_at_random(cells, near, heat / scale**2, limits, rule, each, state)
        return Found(cells.labels, changes)


@dataclass(frozen=True, eq=False)
class Found:
    """What the search of a region came to."""

    labels: Integers
    changes: int


def _cooling(warm: float | Floats, cool: float | Floats) -> Floats:
    """The temperatures of the steps of a round; one of 0 if there is no heat."""
    return np.geomspace(warm, cool, COOLINGS) if np.all(warm) else np.zeros(1)


def _side_by_side(
    work: Callable[[Integers, Seeds], Found], regions: list[Integers], states: Seeds
) -> list[Found]:
    """What ``work`` finds in each region, on all threads: kernels let others run. Ctrl-C starts no further region."""
    with ThreadPoolExecutor(thread_count()) as pool:
        try:
            return list(pool.map(work, regions, states))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _connected(one: Integers, other: Integers) -> Integers:
    """The group of each record: those that share a cell in one partition or the other, directly or through others."""
    group = one
    while True:
        last = group
        for labels in (other, one):
            least = np.full(int(labels.max()) + 1, len(one))
            np.minimum.at(least, labels, group)
            group = least[labels]
        if (group == last).all():
            return group


def _heat(X: Floats, labels: Integers, weights: Floats) -> Floats:
    """The temperature of each record where that of the search is 1: its mean is the mean SSE per record."""
    squares = squared_residuals(X, labels, weights)
    sizes = np.bincount(labels)
    spread = (np.bincount(labels, weights=squares) / sizes)[labels] ** SPREAD
    mean = spread.mean()
    return np.maximum(spread, 1e-3 * mean) * (squares.mean() / mean) if mean > 0 else spread


def near_cells(sums: Floats, totals: Floats, wanted: int) -> Integers:
    near = np.empty((len(sums), max(1, min(wanted, len(sums) - 1))), dtype=np.int64)
    find_near_cells(sums, totals, near)
    return near


def centred(points: Floats) -> tuple[Floats, float]:
    """The points about their medians, which no outlier moves, and scaled down to 1; and the scale.

    Single precision must hold squared distances, and sums must not be large for nothing.
    """
    points -= np.median(points, axis=0)
    scale = float(np.abs(points).max(initial=0.0)) or 1.0
    points /= scale
    return points, scale


def compact(labels: Integers) -> Integers:
    """The same cells, numbered 0, 1, 2, ..."""
    used = np.zeros(int(labels.max()) + 1, dtype=np.int64)
    used[labels] = 1
    return (np.cumsum(used) - 1)[labels]


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
        places = (means[cells] * chance.normal(size=means.shape[1])).sum(axis=1)
        order = np.argsort(places, kind="stable")
        right = cells[order[len(cells) // 2 :]]
        region[right] = count
        count += 1
        waiting += [cells[order[: len(cells) // 2]], right]
    return region


ROUNDS = 12
_ENOUGH = 1e-4
"""A round that lowers the SSE by less than this share is the last."""

_TRIES_TO_RECOUNT = 100.0
"""So many tries for each record let the average cell try once whether it had better dissolve or another arise."""


def refine_labels(
    X: Floats,
    labels: Integers,
    k: int,
    *,
    weights: Floats | None = None,
    seed: int = 0,
    rounds: int = ROUNDS,
    deadline: float = np.inf,
    rule: Rule | None = None,
) -> Integers:
    """The labels after local search: records move or change places between near cells; cells dissolve, or arise.

    Up to ``rounds`` rounds, none begun that would end after the ``deadline`` (of :func:`time.monotonic`); one that
    gains next to nothing is the last. Never raises the distortion. Cells of 2k or more are split, unless there is a
    ``rule``, which every change keeps. Time O(n m k) a round, memory about twice the matrix.
    """
    each = np.ones(len(X)) if weights is None else weights
    before = sum_of_squares(X, labels, each)
    search = Search(X, labels, k, weights, seed, rule)
    started = monotonic()
    for done in range(rounds):
        took = (monotonic() - started) / done if done else 0.0
        if monotonic() + took > deadline:
            break
        progress.report("refining", done, rounds)
        last = search.sse
        if search.exchange() == 0 or last - search.sse < _ENOUGH * last:
            break
    if rounds == ROUNDS and 1 < search.cells <= MANY_CELLS and monotonic() < deadline:
        search.anneal(_TRIES_TO_RECOUNT, 0.0, 0.0)
    return search.labels if search.sse <= before else labels
