"""Build the cells of a survey so that every cell meets the failure limit.

A *shape* assigns points to cells: power diagram, balls or nearest record. Cells that miss the limit
are removed from the shape, which then assigns their candidates to other cells. This is repeated
until all cells meet the limit.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from microcell import methods, progress
from microcell._display import count
from microcell.cells import BallCells, Cells, LookupCells, PowerCells, ball_cells, lookup_cells
from microcell.errors import TooFewRecordsError
from microcell.kernels._jit import one_thread, thread_count
from microcell.kernels.arrays import centroids, squared_distances
from microcell.kernels.balls import find_balls
from microcell.kernels.participation import exposures_of_cells, failures_of_cells
from microcell.kernels.transport import choose_cells
from microcell.kernels.trees import nearest_rows
from microcell.methods import Quantization, pcl
from microcell.methods.candidates import participating_cells
from microcell.model import Floats, Integers
from microcell.surveys.survey_cells import build_roster

__all__ = ["Balls", "CellsTask", "Lookup", "Power", "Shape", "balance", "build_survey_cells"]


# --------------------------------------------------------------------------------------- shapes


class Shape(Protocol):
    """Assignment of points to cells."""

    @property
    def count(self) -> int:
        """Number of cells."""

    def assign(self, points: Floats) -> Integers:
        """Return the cell of each point."""

    def without(self, cells: Integers, means: Floats) -> Self:
        """Return the shape without these ``cells``.

        ``means`` holds the mean of every cell.
        """

    def build(self, labels: Integers, points: Floats, weights: Floats, k: int) -> Cells:
        """Return the cells to publish, with sizes and means computed from ``labels``."""


@dataclass(frozen=True, eq=False)
class Power:
    """Assigns a point to the site with the smallest squared distance plus cost."""

    sites: Floats
    costs: Floats

    @property
    def count(self) -> int:
        """Number of sites."""
        return len(self.sites)

    def assign(self, points: Floats) -> Integers:
        """Return the cell of each point."""
        return choose_cells(points, self.sites, self.costs)

    def without(self, cells: Integers, means: Floats) -> "Power":  # noqa: ARG002
        """Return the shape without some sites; the remaining cells only grow."""
        keep = np.setdiff1d(np.arange(self.count), cells)
        return Power(np.ascontiguousarray(self.sites[keep]), self.costs[keep])

    def build(self, labels: Integers, points: Floats, weights: Floats, k: int) -> PowerCells:  # noqa: ARG002
        """Return power cells whose centroids are the sites."""
        return PowerCells(centroids=self.sites, sizes=np.bincount(labels), k=k, costs=self.costs)


@dataclass(frozen=True, eq=False)
class Balls:
    """Assigns a point to the first ball that contains it, otherwise to the last cell."""

    references: Floats
    radii: Floats
    cells: Integers
    count: int

    @classmethod
    def from_cells(cls, cells: BallCells) -> "Balls":
        """Return the balls of existing cells."""
        return cls(cells.references.copy(), cells.radii.copy(), cells.cells.copy(), len(cells))

    def assign(self, points: Floats) -> Integers:
        """Return the cell of each point."""
        cells = np.append(self.cells, self.count - 1)
        return cells[find_balls(points, self.references, self.radii)]

    def without(self, cells: Integers, means: Floats) -> "Balls":  # noqa: ARG002
        """Return the shape without the balls of these cells.

        The last cell has no ball, so the one before it is dropped instead.
        """
        last = self.count - 1
        dropped = np.unique(np.where(cells == last, last - 1, cells))
        keep = ~np.isin(self.cells, dropped)
        numbers = np.cumsum(~np.isin(np.arange(self.count), dropped)) - 1
        return Balls(
            np.ascontiguousarray(self.references[keep]),
            self.radii[keep],
            numbers[self.cells[keep]],
            self.count - len(dropped),
        )

    def build(self, labels: Integers, points: Floats, weights: Floats, k: int) -> BallCells:
        """Return ball cells."""
        return BallCells(
            centroids=centroids(points, labels, weights),
            sizes=np.bincount(labels),
            k=k,
            references=self.references,
            radii=self.radii,
            cells=self.cells,
        )


@dataclass(frozen=True, eq=False)
class Lookup:
    """Assigns a point to the cell of its nearest record; equal records share a cell."""

    records: Floats
    labels: Integers

    @property
    def count(self) -> int:
        """Number of cells."""
        return int(self.labels.max()) + 1

    def assign(self, points: Floats) -> Integers:
        """Return the cell of each point."""
        return self.labels[nearest_rows(self.records, points)]

    def without(self, cells: Integers, means: Floats) -> "Lookup":
        """Merge each of these cells into the remaining cell with the nearest mean."""
        remaining = np.setdiff1d(np.arange(len(means)), cells)
        target = np.arange(len(means))
        for cell in cells:
            distances = squared_distances(means[remaining], means[cell])
            target[cell] = remaining[distances.argmin()]
        return replace(self, labels=np.unique(target[self.labels], return_inverse=True)[1])

    def build(self, labels: Integers, points: Floats, weights: Floats, k: int) -> LookupCells:
        """Return lookup cells."""
        return LookupCells(
            centroids=centroids(points, labels, weights),
            sizes=np.bincount(labels),
            k=k,
            records=self.records,
            labels=self.labels,
        )


# ------------------------------------------------------------------------------------ balancing

_LLOYD_STEPS = 4
"""Steps of Lloyd's descent per round."""

_SMALLEST_FAILURE = 1e-320
"""Smaller failure probabilities count as this one, so that their logarithm is finite."""


def balance(
    points: Floats,
    start: Quantization,
    k: int,
    probabilities: Floats,
    limit: float,
    rounds: int,
    measure: Callable[[Integers, Floats, int], Floats] = failures_of_cells,
) -> Quantization:
    """Return the power cells with the fewest failures above ``limit`` after some rounds.

    In each round, a cell above the limit gets as many more candidates as it needs, assuming that
    each one lowers the failure probability by the same factor; a cell with more than it needs gives
    some up. If the cells need more candidates in total than there are, some cells are dropped. The
    members of a cell change with its size, so this is repeated: ``rounds`` times with moving sites
    and as often with fixed sites and changing costs. Cells that still miss the limit are left to
    the caller.
    """
    best = current = start
    fewest = len(start.partition) + 1
    for turn in range(2 * rounds):
        demand = _measure_demand(current.labels, k, probabilities, limit, measure)
        if demand.n_failing < fewest or (demand.n_failing == fewest and turn < rounds):
            best, fewest = current, demand.n_failing
        if fewest == 0 or len(current.partition) == 1:
            break
        kept, sizes = _distribute(demand, k, fixed_sites=turn >= rounds)
        sites = np.ascontiguousarray(current.cells.centroids[kept])
        if turn < rounds:
            current = pcl(
                points,
                sizes=sizes,
                start=sites,
                shakes=0,
                iterations=_LLOYD_STEPS,
                weights=probabilities,
            )
        else:
            current = pcl(points, sizes=sizes, start=sites, fixed=True, weights=probabilities)
    return best


@dataclass(frozen=True, eq=False)
class _Demand:
    """Sizes of cells, and how many more candidates each one needs (fewer if negative)."""

    sizes: Integers
    lacking: Floats
    n_failing: int
    """Number of cells above the limit."""


def _measure_demand(
    labels: Integers,
    k: int,
    probabilities: Floats,
    limit: float,
    measure: Callable[[Integers, Floats, int], Floats],
) -> _Demand:
    cells = labels.copy()  # Read-only arrays would compile the kernels a second time.
    sizes = np.bincount(cells)
    failures = measure(cells, probabilities, k)
    means = np.bincount(cells, weights=probabilities) / sizes
    with_one_more = measure(
        np.concatenate([cells, np.arange(len(sizes))]), np.concatenate([probabilities, means]), k
    )
    logs = np.log(np.maximum(failures, _SMALLEST_FAILURE))
    slopes = np.log(np.maximum(with_one_more, _SMALLEST_FAILURE)) - logs
    lacking = (np.log(limit) - logs) / np.minimum(slopes, -1e-3)
    return _Demand(sizes, np.clip(lacking, k - sizes, sizes), int((failures > limit).sum()))


def _distribute(demand: _Demand, k: int, *, fixed_sites: bool) -> tuple[Integers, Integers]:
    """Return the cells to keep and their sizes, which add up to all candidates."""
    lacking = demand.lacking
    change = np.ceil(lacking)
    if fixed_sites:  # Change little: cells below the limit give up only what they can spare.
        spare = np.where(lacking < -1.5, np.minimum(np.ceil(lacking + 0.3), 0), 0)
        change = np.where(lacking > 0, np.maximum(change, 1), spare)
    sizes = np.maximum(k, demand.sizes + change).astype(np.int64)
    total = int(demand.sizes.sum())
    kept = np.arange(len(sizes))
    if sizes.sum() > total:
        surplus = min(int(np.ceil((sizes.sum() - total) / sizes.mean())), len(sizes) - 1)
        kept = np.sort(np.argsort(lacking, kind="stable")[: len(sizes) - surplus])
        while sizes[kept].sum() > total and len(kept) > 1:
            kept = np.delete(kept, lacking[kept].argmax())
    kept_sizes = sizes[kept]
    if kept_sizes.sum() > total:
        return kept, np.array([total])
    remainder = total - int(kept_sizes.sum())
    kept_sizes += remainder // len(kept_sizes)
    closest_to_limit = np.argsort((np.ceil(lacking) - lacking)[kept], kind="stable")
    kept_sizes[closest_to_limit[: remainder % len(kept_sizes)]] += 1
    return kept, kept_sizes


# --------------------------------------------------------------------------------- construction

_MANY = 30_000
_MACROCELL = 4_000
"""With more than ``_MANY`` candidates, power cells are built within macrocells of this size."""

_ROUNDS = 6
_ROUNDS_WITHIN_MACROCELLS = 4
"""Rounds of balancing; fewer within macrocells, to limit the running time."""

_SAMPLE = 150
"""Candidates sampled per macrocell to lay out the macrocells."""


@dataclass(frozen=True, eq=False)
class CellsTask:
    """Candidates of a survey and the requirements on their cells."""

    points: Floats
    probabilities: Floats
    k: int
    failure: float
    size: int | None
    """Smallest size of a cell if all candidates have the same probability, otherwise None."""
    method: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    max_boxes: int | None = None
    """Maximum number of cells, for boxes."""
    rounds: int = _ROUNDS
    conditional: bool = False
    """Whether the limit is that of the probability given that somebody takes part."""

    @property
    def measure(self) -> Callable[[Integers, Floats, int], Floats]:
        """Function that computes the failure probabilities that are limited."""
        return exposures_of_cells if self.conditional else failures_of_cells

    @property
    def min_size(self) -> int:
        """Smallest number of candidates allowed in a cell."""
        return self.k if self.size is None else self.size

    def take(self, rows: Integers) -> "CellsTask":
        """Return the task restricted to some of the candidates."""
        points = np.ascontiguousarray(self.points[rows])
        return replace(self, points=points, probabilities=self.probabilities[rows])


def build_survey_cells(task: CellsTask, kind: str) -> Cells:
    """Return cells of this kind ("power", "balls" or "lookup") that all meet the limit.

    The limit holds for the candidates as the cells themselves assign them. Power cells of more than
    30,000 candidates are built within macrocells, in parallel.
    """
    if kind == "power" and len(task.points) > _MANY:
        return _build_within_macrocells(task)
    return _build(task, kind)


def _build(task: CellsTask, kind: str) -> Cells:
    return _finish(task, _drop_failing(task, _SHAPERS[kind](task)))


def _finish(task: CellsTask, shape: Shape) -> Cells:
    labels = shape.assign(task.points)
    smallest = int(np.bincount(labels).min())
    return shape.build(labels, task.points, task.probabilities, smallest)


def _partition(task: CellsTask, *, refine: bool) -> Integers:
    """Return labels of cells of the required size, or grown until each one meets the limit.

    Without ``refine``, "auto" stands for plain MDAV.
    """
    if task.size is None:
        refine = refine and not task.conditional  # Refinement only knows the other limit.
        labels = participating_cells(
            task.points, task.k, task.probabilities, task.failure, seed=task.seed, refine=refine
        )
        return _drop_failing(task, Lookup(task.points, labels)).labels.copy()
    method = "mdav" if task.method == "auto" and not refine else task.method
    partition = methods.partition(
        task.points, task.size, method=method, seed=task.seed, **task.options
    )
    return partition.labels.copy()


def _shape_power(task: CellsTask) -> Power:
    """Return power cells of the same sizes as ``labels``, balanced if participation is uneven."""
    is_even = task.size is not None
    labels = _partition(task, refine=is_even)  # Balancing refines uneven cells anyway.
    weights = None if is_even else task.probabilities
    result = methods.power_cells(task.points, labels, weights=weights)
    if not is_even:
        result = balance(
            task.points,
            result,
            task.k,
            task.probabilities,
            task.failure,
            task.rounds,
            task.measure,
        )
    cells = methods.unpin(result.cells, task.points, result.labels.copy())
    return Power(cells.centroids.copy(), cells.costs.copy())


def _shape_balls(task: CellsTask) -> Balls:
    labels = _partition(task, refine=False)
    return Balls.from_cells(ball_cells(task.points, labels, task.min_size))


def _shape_lookup(task: CellsTask) -> Lookup:
    cells = lookup_cells(task.points, _partition(task, refine=True), task.min_size)
    return Lookup(cells.records.copy(), cells.labels.copy())


_S = TypeVar("_S", bound=Shape)

_SHAPERS: dict[str, Callable[[CellsTask], Shape]] = {
    "power": _shape_power,
    "balls": _shape_balls,
    "lookup": _shape_lookup,
}


def _drop_failing(task: CellsTask, shape: _S) -> _S:
    """Remove cells that miss the limit until all remaining cells meet it."""
    while True:
        labels = shape.assign(task.points)
        failures = np.zeros(shape.count)  # Cells at the end may be empty.
        # The roster has the order of the cells file: sums agree to the last bit.
        roster = build_roster(labels, task.probabilities)
        nonempty = task.measure(roster.labels, roster.probabilities, task.k)
        failures[: len(nonempty)] = nonempty
        sizes = np.bincount(labels, minlength=shape.count)
        failing = np.flatnonzero((failures > task.failure) | (sizes < task.min_size))
        if len(failing) == 0:
            return shape
        if shape.count == 1:
            raise TooFewRecordsError(
                f"{count(len(labels), 'candidate')} together cannot form a single cell with k = "
                f"{task.k} within the failure limit. Accept a higher failure probability, lower "
                "k, or add candidates.",
                code="guarantee.too_few_records",
                k=task.k,
                records=len(labels),
            )
        means = _means(task, labels, sizes)
        shape = shape.without(_choose_cells_to_drop(failing, failures, means), means)


def _means(task: CellsTask, labels: Integers, sizes: Integers) -> Floats:
    """Return the mean of each cell, and a point far away for empty cells."""
    nonempty = np.flatnonzero(sizes)
    means = np.full((len(sizes), task.points.shape[1]), 1e100)
    numbers = np.searchsorted(nonempty, labels)
    means[nonempty] = centroids(task.points, numbers, task.probabilities)
    return means


def _choose_cells_to_drop(failing: Integers, failures: Floats, means: Floats) -> Integers:
    """Return failing cells to drop at once, worst first.

    Of two failing neighbours only one is dropped: its candidates may be what the other one needs.
    """
    dropped: list[int] = []
    for cell in failing[np.argsort(-failures[failing], kind="stable")].tolist():
        others = failing[failing != cell]
        nearest = -1
        if len(others):
            nearest = int(others[squared_distances(means[others], means[cell]).argmin()])
        if nearest not in dropped and len(dropped) < len(means) - 1:
            dropped.append(cell)
    return np.array(dropped)


# ----------------------------------------------------------------------------------- macrocells


def _build_within_macrocells(task: CellsTask) -> PowerCells:
    """Return power cells within macrocells, which are power cells too."""
    chooser = _build_macrocells(task)
    if task.method == "auto":  # Annealing would take minutes and gain little here.
        task = replace(task, options={"effort": "fast", **task.options})
    macrocells = chooser.assign(task.points)
    parts = np.split(np.argsort(macrocells, kind="stable"), np.cumsum(chooser.sizes)[:-1])
    finished: dict[int, PowerCells] = {}

    def build(number: int) -> None:
        part = replace(task.take(parts[number]), rounds=_ROUNDS_WITHIN_MACROCELLS)
        with one_thread():
            cells = _build(part, "power")
        assert isinstance(cells, PowerCells)
        finished[number] = cells
        done = sum(len(parts[i]) for i in list(finished))
        progress.report("designing cells", done, len(task.points))

    with ThreadPoolExecutor(thread_count()) as pool:
        list(pool.map(build, range(len(parts))))
    return PowerCells.within(chooser, [finished[number] for number in range(len(parts))])


def _build_macrocells(task: CellsTask) -> PowerCells:
    """Return macrocells of similar size, laid out on a sample, that all meet the limit."""
    progress.report("laying out macrocells")
    n = len(task.points)
    count = -(-n // _MACROCELL)
    rng = np.random.default_rng(task.seed)
    rows = np.sort(rng.choice(n, min(n, count * _SAMPLE), replace=False))
    sample = np.ascontiguousarray(task.points[rows])
    result = methods.pcl(sample, len(rows) // count, shakes=0, iterations=20, seed=task.seed)
    cells = methods.unpin(result.cells, sample, result.labels.copy())
    shape = _drop_failing(task, Power(cells.centroids.copy(), cells.costs.copy()))
    macrocells = _finish(task, shape)
    assert isinstance(macrocells, PowerCells)
    return macrocells
