"""Cells of candidates as a function, every one of which holds: k or more are expected to take part, or nobody."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from microcell import partitioning, progress
from microcell.cells import Cells, PowerCells, ball_cells, lookup_cells
from microcell.errors import TooFewRecordsError
from microcell.kernels._jit import one_thread, thread_count
from microcell.kernels.cells import centroids, squared_distances
from microcell.kernels.participation import failures_of_cells
from microcell.model import Floats, Integers
from microcell.partitioning.participating import participating_cells
from microcell.surveys._balancing import balance
from microcell.surveys._figures import as_roster
from microcell.surveys._shapes import Balls, Lookup, Power, Shape

__all__ = ["Task", "make_cells"]

_MANY = 30_000
_MACROCELL = 4_000
"""Beyond so many candidates, power cells are made within macrocells of about so many."""

_ROUNDS, _ROUNDS_OF_MANY = 6, 4
"""Rounds of balancing; fewer within macrocells, where time counts for more."""

_SAMPLE = 150
"""So many candidates for each macrocell are drawn to find where the macrocells lie."""


@dataclass(frozen=True, eq=False)
class Task:
    """Whose cells are to be made, and what they are to hold."""

    points: Floats
    chances: Floats
    k: int
    failure: float
    size: int | None
    """The least size of a cell where all have the same probability; None where they do not."""
    method: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    boxes: int | None = None
    """The most boxes, where cells are boxes."""
    rounds: int = _ROUNDS

    @property
    def least(self) -> int:
        """No cell may have fewer candidates."""
        return self.k if self.size is None else self.size

    def part(self, rows: Integers) -> "Task":
        """The task for some of the candidates."""
        return replace(self, points=np.ascontiguousarray(self.points[rows]), chances=self.chances[rows])


def make_cells(task: Task, kind: str) -> Cells:
    """The cells, as a function of that kind; every cell holds as the function assigns the candidates.

    Power cells of more than 30,000 candidates are made within macrocells, side by side.
    """
    if kind == "power" and len(task.points) > _MANY:
        return _make_within(task)
    return _make(task, kind)


def _make(task: Task, kind: str) -> Cells:
    shape = _mend(task, _SHAPERS[kind](task))
    labels = shape.place(task.points)
    return shape.build(labels, task.points, task.chances, int(np.bincount(labels).min()))


# ---------------------------------------------------------------------------------------------- from labels to shapes


def _find_labels(task: Task, *, refine: bool) -> Integers:
    """The cells of a method, as labels: of the size that a common participation asks for, or grown until they hold.

    Without ``refine`` cells are as MDAV makes them, unless another method was asked for.
    """
    if task.size is None:
        return participating_cells(task.points, task.k, task.chances, task.failure, seed=task.seed, refine=refine)
    method = "mdav" if task.method == "auto" and not refine else task.method
    found = partitioning.partition(task.points, task.size, method=method, seed=task.seed, **task.options)
    return found.labels.copy()


def _shape_power(task: Task) -> Power:
    """Power cells: of the sizes that the labels have, or, with uneven participation, of sizes that let them hold."""
    even = task.size is not None
    labels = _find_labels(task, refine=even)  # what balancing does to uneven cells refines them as well
    weights = None if even else task.chances
    found = partitioning.power_cells(task.points, labels, weights=weights)
    if not even:
        found = balance(task.points, found, task.k, task.chances, task.failure, task.rounds)
    cells = partitioning.unpin(found.cells, task.points, found.labels.copy())
    return Power(cells.centroids.copy(), cells.costs.copy())


def _shape_balls(task: Task) -> Balls:
    labels = _find_labels(task, refine=False)
    return Balls.of(ball_cells(task.points, labels, task.least))


def _shape_lookup(task: Task) -> Lookup:
    cells = lookup_cells(task.points, _find_labels(task, refine=True), task.least)
    return Lookup(cells.records.copy(), cells.labels.copy())


_SHAPERS: dict[str, Callable[[Task], Shape]] = {
    "power": _shape_power,
    "balls": _shape_balls,
    "lookup": _shape_lookup,
}


# ---------------------------------------------------------------------------------------------- until all cells hold


def _mend(task: Task, shape: Shape) -> Shape:
    """The shape without the cells that do not hold, which the function then sends elsewhere; looked at again."""
    while True:
        labels = shape.place(task.points)
        failures = np.zeros(shape.count)  # the last cells may be empty
        roster = as_roster(labels, task.chances)  # in the order of the file, so that what holds here holds there
        found = failures_of_cells(roster.labels, roster.chances, task.k)
        failures[: len(found)] = found
        sizes = np.bincount(labels, minlength=shape.count)
        short = np.flatnonzero((failures > task.failure) | (sizes < task.least))
        if len(short) == 0:
            return shape
        if shape.count == 1:
            raise TooFewRecordsError(
                f"All {len(labels)} candidates together are too few for a cell of k = {task.k} within the failure "
                "limit. Accept more failures, lower k, or add candidates."
            )
        means = _means(task, labels, sizes)
        shape = shape.without(_choose(short, failures, means), means)


def _means(task: Task, labels: Integers, sizes: Integers) -> Floats:
    """The mean of each cell; far away for one that is empty."""
    full = np.flatnonzero(sizes)
    out = np.full((len(sizes), task.points.shape[1]), 1e100)
    out[full] = centroids(task.points, np.searchsorted(full, labels), task.chances)
    return out


def _choose(short: Integers, failures: Floats, means: Floats) -> Integers:
    """The cells to drop at once: no two that are each other's nearest, for the one may be what the other lacks."""
    dropped: list[int] = []
    for cell in short[np.argsort(-failures[short], kind="stable")].tolist():
        others = short[short != cell]
        nearest = int(others[squared_distances(means[others], means[cell]).argmin()]) if len(others) else -1
        if nearest not in dropped and len(dropped) < len(means) - 1:
            dropped.append(cell)
    return np.array(dropped)


# ---------------------------------------------------------------------------------------------- many candidates


def _make_within(task: Task) -> PowerCells:
    """Power cells within macrocells, which are power cells too: a point finds its macrocell, and in it its cell."""
    chooser = _find_macrocells(task)
    if task.method == "auto":  # annealing would take minutes, and what polishing leaves of it is little
        task = replace(task, options={"effort": "fast", **task.options})
    macrocells = chooser.assign(task.points)
    parts = np.split(np.argsort(macrocells, kind="stable"), np.cumsum(chooser.sizes)[:-1])
    made: dict[int, PowerCells] = {}

    def make(number: int) -> None:
        with one_thread():
            cells = _make(replace(task.part(parts[number]), rounds=_ROUNDS_OF_MANY), "power")
        assert isinstance(cells, PowerCells)
        made[number] = cells
        progress.report("designing cells", sum(len(parts[i]) for i in list(made)), len(task.points))

    with ThreadPoolExecutor(thread_count()) as pool:
        list(pool.map(make, range(len(parts))))
    return PowerCells.within(chooser, [made[number] for number in range(len(parts))])


def _find_macrocells(task: Task) -> PowerCells:
    """Macrocells of about equal numbers of candidates, each of which holds; found on a sample."""
    progress.report("laying out macrocells")
    count = -(-len(task.points) // _MACROCELL)
    chance = np.random.default_rng(task.seed)
    rows = np.sort(chance.choice(len(task.points), min(len(task.points), count * _SAMPLE), replace=False))
    sample = np.ascontiguousarray(task.points[rows])
    found = partitioning.pcl(sample, len(rows) // count, shakes=0, iterations=20, seed=task.seed)
    cells = partitioning.unpin(found.cells, sample, found.labels.copy())
    shape = _mend(task, Power(cells.centroids.copy(), cells.costs.copy()))
    labels = shape.place(task.points)
    built = shape.build(labels, task.points, task.chances, int(np.bincount(labels).min()))
    assert isinstance(built, PowerCells)
    return built
