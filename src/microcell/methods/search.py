"""Local search that improves any partition: regions, greedy exchanges, and annealing."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from time import monotonic

import numpy as np

from microcell import progress
from microcell._display import record_html, record_repr
from microcell.kernels._jit import thread_count
from microcell.kernels.annealing import exchange_at_random, walk_everywhere
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
    find_near_records,
)
from microcell.kernels.groups import empty_blocks, fill_blocks, make_grouping
from microcell.kernels.rules import Rule, no_rule, take_rows
from microcell.methods.bisect import split_large_cells
from microcell.methods.walk import (
    WINDOW,
    Terrain,
    anneal_terrain,
    centred,
    divide,
    in_spatial_order,
    lay_out_terrain,
    near_cells,
)
from microcell.model import Floats, Integers

__all__ = [
    "ROUNDS",
    "Budget",
    "RegionResult",
    "Search",
    "centred",
    "compact",
    "cool_down",
    "near_cells",
    "refine_labels",
]

MANY_CELLS = 20_000
"""With more cells than this, regions are larger, because small ones separate too many neighbours,
and each record has fewer candidates for exchange.
"""

NEAR_CELLS, NEAR_RECORDS = 20, 24
RECORDS_AROUND, RECORDS_AROUND_OF_MANY = 400, 200
"""Number of records, in the surrounding cells, from which the nearest of a record are chosen."""

PASSES = 2
"""Passes over a region per round. Exchanges that they miss are found in the next round.
"""

SPREAD = 0.6
"""A record's heat grows with this power of the initial SSE per record in its cell."""

_MORE_CELLS = 8
"""Minimum number of cells that a search with a rule may add in a region."""

RECOUNT_WITHIN = 40
"""With a rule, one try in this many times the typical size of cells dissolves or creates a cell."""

COOLINGS = 5
"""Number of temperatures within a round."""


class Search:
    """A partition under search, with ``labels`` and ``sse`` describing its current state.

    Cells have k to 2k-1 records. With a ``rule`` they may have any size of at least k; the start
    must satisfy the rule, and every change preserves it. With ``copies`` the table consists of this
    many copies of one table, each of which is annealed separately, as a whole.
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
        terrain: Terrain | None = None,
        most: int | None = None,
    ) -> None:
        self._X = X
        self.copies, self.least = copies, k
        self.rule = rule
        self._weights = np.ones(len(X)) if weights is None else weights
        self._rng = np.random.default_rng(seed)
        self._limits = Limits(k, most or (len(X) if rule else 2 * k - 1))
        self._heat: Floats | None = None
        self._terrain = terrain
        self._threads = thread_count()
        self._set_labels(labels if rule or most else split_large_cells(X, labels, k))

    @cached_property
    def total(self) -> float:
        """Sum of squares about the mean of the table, or the total of all copies."""
        rows = len(self._X) // self.copies
        return self.copies * total_sum_of_squares(self._X[:rows], self._weights[:rows])

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.labels.max()) + 1

    def exchange(self) -> int:
        """Make improving exchanges in each region once; return their number. O(n m k)."""
        if self.rule:
            return self.anneal(10.0 * self._limits.least, 0.0, 0.0)
        return self._round(min(13_000, max(700, self.cells // 4)), self._exchange)

    def anneal(self, tries: float, warm: float | Floats, cool: float | Floats) -> int:
        """Try ``tries`` random exchanges per record while cooling; return the number made.

        Temperatures, one for all or one per copy, are in units of the mean SSE per record at the
        first call.
        """
        if self._heat is None:
            self._heat = _heat(self._X, self.labels, self._weights)
            if self._terrain is not None:
                self._heat = self._terrain.spread(self._heat)
        heats = [self._heat * self._for_each(t) for t in _cooling(warm, cool)]
        if self.rule is None and self.copies == 1:
            return self._anneal_as_a_whole(heats, tries)

        def work(rows: Integers, state: Seeds) -> RegionResult:
            return self._anneal(rows, [heat[rows] for heat in heats], tries, state)

        # Largest region, in cells: tuned for speed and distortion.
        most = min(max(60, self.cells // 2), max(1300, min(9000, self.cells // 11)))
        return self._round(most, work, np.split(np.arange(len(self.labels)), self.copies))

    def _anneal_as_a_whole(self, heats: list[Floats], tries: float) -> int:
        if self.cells == 1 or self.sse == 0:
            return 0
        if self._terrain is None:
            self._terrain = lay_out_terrain(self._X, self._weights, self.labels, self._limits.least)
        labels, changes = anneal_terrain(
            self._terrain, self.labels, self._limits, heats, tries, self._rng
        )
        self._set_labels(labels)
        return changes

    def _for_each(self, temperature: float | Floats) -> float | Floats:
        """Return the temperature of each record."""
        return (
            np.repeat(temperature, len(self._X) // self.copies)
            if np.ndim(temperature)
            else temperature
        )

    def begin_at(self, labels: Integers) -> None:
        """Continue from these cells, whose sizes are within the limits."""
        self._set_labels(labels)

    def combine(self, labels: Integers) -> None:
        """Adopt cells of another partition where they group the same records with less SSE.

        The result never has more SSE than either partition. O(n m).
        """
        group = _connected_groups(self.labels, labels)
        here, there = (
            squared_residuals(self._X, cells, self._weights) for cells in (self.labels, labels)
        )
        gain = np.bincount(group, weights=here) - np.bincount(group, weights=there)
        self._set_labels(np.where(gain[group] > 0, labels + self.cells, self.labels))

    def _round(
        self,
        most: int,
        work: Callable[[Integers, Seeds], "RegionResult"],
        copies: Sequence[Integers] = (),
    ) -> int:
        """Search every copy, or every region of up to ``most`` cells; return the exchange count."""
        if len(copies) > 1:
            regions = list(copies)
        else:
            regions = _regions(self.labels, divide(self._means, most, self._rng))
        states = self._rng.integers(0, 2**63, size=(len(regions), 1), dtype=np.uint64)
        results = _in_parallel(work, regions, states, self._threads)
        labels, first = np.empty_like(self.labels), 0
        for rows, result in zip(regions, results, strict=True):
            labels[rows] = first + result.labels
            first += len(rows)
        self._set_labels(labels)
        return sum(result.changes for result in results)

    def _set_labels(self, labels: Integers) -> None:
        labels = compact(labels)
        means = centroids(self._X, labels, self._weights)
        residuals = squared_residuals(self._X, labels, self._weights, means)
        # Assigned last and together, so that Ctrl-C leaves a consistent state.
        self.labels, self._means, self.sse = labels, means, float(residuals.sum())

    def _exchange(self, rows: Integers, state: Seeds) -> "RegionResult":  # noqa: ARG002
        points, labels = centred(self._X[rows])[0], compact(self.labels[rows])
        count = int(labels.max()) + 1
        blocks = empty_blocks(count, points.shape[1], self._limits.most)
        fill_blocks(blocks, points, self._weights[rows], labels)
        near = near_cells(blocks.sums, blocks.totals, NEAR_CELLS)
        changes = exchange_until_none_helps(blocks, near, self._limits, PASSES)
        for cell in range(count):
            labels[blocks.members[cell, : blocks.sizes[cell]]] = cell
        return RegionResult(labels, changes)

    def _anneal(
        self, rows: Integers, heats: list[Floats], tries: float, state: Seeds
    ) -> "RegionResult":
        labels = compact(self.labels[rows])
        if labels.max() == 0:
            return RegionResult(labels, 0)
        order, _ = in_spatial_order(self._X[rows], labels)
        rows, labels = rows[order], labels[order]
        points, scale = centred(self._X[rows])
        least, largest = self._limits.least, int(np.bincount(labels).max())
        limits = Limits(least, min(self._limits.most, max(2 * least - 1, 2 * largest)))
        cap = limits.most
        count = len(rows) // least + 1  # room for one more cell
        if self.rule:  # cells may be far larger than the least size, and room for all too much
            count = min(count, 2 * (int(labels.max()) + 1) + _MORE_CELLS)
        cells = make_grouping(points, self._weights[rows], labels, count, cap)
        near = np.zeros(
            (len(rows), min(max(NEAR_RECORDS, least + 8), len(rows) - 1)), dtype=np.int32
        )
        records = RECORDS_AROUND if self.cells <= MANY_CELLS else RECORDS_AROUND_OF_MANY
        typical = len(rows) // (int(labels.max()) + 1) if self.rule else least
        around = max(NEAR_CELLS, -(-records // typical))
        around_cells = near_cells(cells.sums, cells.totals, around)
        find_near_records(cells, around_cells, 0, len(cells.sizes), near)
        rule = take_rows(self.rule, rows) if self.rule else no_rule(len(rows))
        rule = rule._replace(penalty=rule.penalty / scale**2)
        walk, changes, each = walk_everywhere(len(rows), count), 0, tries / len(heats)
        if self.rule:
            recount = max(1, RECOUNT_WITHIN * typical // least)
            walk = walk._replace(window=min(WINDOW, len(rows)), recount=recount)
        for heat in heats:
            changes += exchange_at_random(
                cells, near, heat[order] / scale**2, limits, rule, walk, each, state
            )
        out = np.empty_like(labels)
        out[order] = cells.labels
        return RegionResult(out, changes)


@dataclass(frozen=True, eq=False)
class RegionResult:
    """Labels of a region after a search, and the number of changes."""

    labels: Integers
    changes: int


def _cooling(warm: float | Floats, cool: float | Floats) -> Floats:
    """Return the temperatures of a round, or a single 0 if the temperature is 0."""
    return np.geomspace(warm, cool, COOLINGS) if np.all(warm) else np.zeros(1)


def _in_parallel(
    work: Callable[[Integers, Seeds], RegionResult],
    regions: list[Integers],
    states: Seeds,
    threads: int,
) -> list[RegionResult]:
    """Search the regions on several threads; Ctrl-C starts no further region."""
    if len(regions) == 1:
        return [work(regions[0], states[0])]
    with ThreadPoolExecutor(threads) as pool:
        try:
            return list(pool.map(work, regions, states))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _connected_groups(one: Integers, other: Integers) -> Integers:
    """Group records that share a cell in either partition, directly or through other records."""
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
    """Return the heat of each record at temperature 1; its mean is the mean SSE per record."""
    squares = squared_residuals(X, labels, weights)
    sizes = np.bincount(labels)
    spread = (np.bincount(labels, weights=squares) / sizes)[labels] ** SPREAD
    mean = spread.mean()
    return np.maximum(spread, 1e-3 * mean) * (squares.mean() / mean) if mean > 0 else spread


def compact(labels: Integers) -> Integers:
    """Renumber the cells to 0, 1, 2, ..."""
    used = np.zeros(int(labels.max()) + 1, dtype=np.int64)
    used[labels] = 1
    return (np.cumsum(used) - 1)[labels]


def _regions(labels: Integers, region_of_cell: Integers) -> list[Integers]:
    """Return the records of each region."""
    region = region_of_cell[labels]
    return np.split(np.argsort(region, kind="stable"), np.cumsum(np.bincount(region))[:-1])


@dataclass(frozen=True)
class Budget:
    """Annealing steps per record, or an end time, which takes precedence."""

    steps: float
    end: float | None

    __repr__ = record_repr
    _repr_html_ = record_html

    @property
    def left(self) -> float:
        """Seconds left; infinite without a time limit."""
        return np.inf if self.end is None else max(0.0, self.end - monotonic())

    def part(self, share: float, of_left: float, copies: int) -> "Budget":
        """Return a share of the steps, divided among ``copies``, or a share of the time left."""
        end = None if self.end is None else monotonic() + of_left * self.left
        return Budget(share * self.steps / copies, end)


def cool_down(
    search: Search,
    budget: Budget,
    warm: float | Floats,
    cool: float | Floats,
    *,
    keep_best: bool = True,
) -> None:
    """Anneal within the budget and end with the best partition, even if interrupted.

    Temperatures are for all copies or one per copy. Without ``keep_best`` the search keeps its last
    state.
    """
    best, best_sse = search.labels, search.sse
    try:
        for share, until, steps in _schedule(budget):
            objective = best_sse / max(search.total, 1e-300)
            progress.report(f"annealing, objective {objective:.6f}", int(1000 * share), 1000)
            search.anneal(steps, *(warm * (cool / warm) ** passed for passed in (share, until)))
            if search.sse < best_sse:
                best, best_sse = search.labels, search.sse
    finally:
        if keep_best:
            search.combine(best)


def _schedule(budget: Budget) -> Iterator[tuple[float, float, float]]:
    """Yield, for each round, the shares completed before and after it, and its steps per record."""
    steps = budget.steps
    rounds = (
        max(1, int(np.ceil(min(40.0, steps / 50))), int(np.ceil(min(steps, 1e9) / 1000)))
        if steps
        else 0
    )
    if budget.end is None:
        for done in range(rounds):
            yield done / rounds, (done + 1) / rounds, steps / rounds
        return
    begun = monotonic()
    duration = max(budget.left, 1e-9)
    each = float(np.clip(steps / max(rounds, 1), 50, 1000))
    for done in count():
        share = (monotonic() - begun) / duration
        if share >= 1:
            return
        yield share, min(1.0, share * (1 + 1 / done) if done else share), each


ROUNDS = 12
_ENOUGH = 1e-4
"""The search ends after a round that lowers the SSE by less than this share."""

_TRIES_TO_RECOUNT = 100.0
"""Tries per record after which the average cell has been dissolved or divided once, on trial."""

_LEAST_TRIES = 1e5
"""Tries in total, so that cells of small tables try several times."""


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
    """Improve the labels by local search between near cells; the distortion never rises.

    Records move or swap; cells dissolve or are created. Makes up to ``rounds`` rounds, stops after
    one that gains almost nothing, and starts none that would end after the ``deadline`` (of
    :func:`time.monotonic`). Cells of at least 2k are split, unless there is a ``rule``, which every
    change preserves. Time O(n m k) per round, memory about twice the matrix.
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
        search.anneal(max(_TRIES_TO_RECOUNT, _LEAST_TRIES / len(X)), 0.0, 0.0)
    return search.labels if search.sse <= before else labels
