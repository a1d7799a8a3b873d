"""Cells of candidates as a function, every one of which holds: k or more are expected to take part, or nobody."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np

from microcell import methods, progress
from microcell.cells import BallCells, Cells, LookupCells, PowerCells, ball_cells, lookup_cells
from microcell.errors import TooFewRecordsError
from microcell.kernels._jit import one_thread, thread_count
from microcell.kernels.arrays import centroids, squared_distances
from microcell.kernels.balls import find_balls
from microcell.kernels.participation import failures_of_cells
from microcell.kernels.transport import choose_cells
from microcell.kernels.trees import nearest_rows
from microcell.methods import Quantization, pcl
from microcell.methods.candidates import participating_cells
from microcell.model import Floats, Integers
from microcell.surveys.cells import as_roster

__all__ = ["Balls", "Lookup", "Power", "Shape", "Task", "balance", "make_cells"]


class Shape(Protocol):
    """A function from points to cells."""

    @property
    def count(self) -> int:
        """The number of cells."""

    def place(self, points: Floats) -> Integers:
        """The cell of each point."""

    def without(self, cells: Integers, means: Floats) -> Self:
        """The function without these cells, whose means are given; fewer cells in any case."""

    def build(self, labels: Integers, points: Floats, weights: Floats, k: int) -> Cells:
        """The cells to publish, with the sizes and the means that the labels, as placed, come to."""


@dataclass(frozen=True, eq=False)
class Power:
    """The least squared distance to a site plus the site's cost."""

    sites: Floats
    costs: Floats

    @property
    def count(self) -> int:
        """The number of sites."""
        return len(self.sites)

    def place(self, points: Floats) -> Integers:
        """The cell of each point."""
        return choose_cells(points, self.sites, self.costs)

    def without(self, cells: Integers, means: Floats) -> "Power":  # noqa: ARG002
        """The other sites: their cells share out what is left over, and lose nothing."""
        keep = np.setdiff1d(np.arange(self.count), cells)
        return Power(np.ascontiguousarray(self.sites[keep]), self.costs[keep])

    def build(self, labels: Integers, points: Floats, weights: Floats, k: int) -> PowerCells:  # noqa: ARG002
        """Power cells; their centroids are the sites."""
        return PowerCells(centroids=self.sites, sizes=np.bincount(labels), k=k, costs=self.costs)


@dataclass(frozen=True, eq=False)
class Balls:
    """The first ball that holds a point; else the last cell."""

    references: Floats
    radii: Floats
    cells: Integers
    count: int

    @classmethod
    def of(cls, cells: BallCells) -> "Balls":
        """The balls of such cells."""
        return cls(cells.references.copy(), cells.radii.copy(), cells.cells.copy(), len(cells))

    def place(self, points: Floats) -> Integers:
        """The cell of each point."""
        return np.append(self.cells, self.count - 1)[
            find_balls(points, self.references, self.radii)
        ]

    def without(self, cells: Integers, means: Floats) -> "Balls":  # noqa: ARG002
        """Without the balls of these cells; in place of the last cell, which needs none, the one before it goes."""
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
        """Ball cells."""
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
    """The cell of the nearest known record, equal ones being in one cell."""

    records: Floats
    labels: Integers

    @property
    def count(self) -> int:
        """The number of cells."""
        return int(self.labels.max()) + 1

    def place(self, points: Floats) -> Integers:
        """The cell of each point."""
        return self.labels[nearest_rows(self.records, points)]

    def without(self, cells: Integers, means: Floats) -> "Lookup":
        """The cells merged, each into the one with the nearest mean that stays."""
        stays = np.setdiff1d(np.arange(len(means)), cells)
        into = np.arange(len(means))
        for cell in cells:
            into[cell] = stays[squared_distances(means[stays], means[cell]).argmin()]
        return replace(self, labels=np.unique(into[self.labels], return_inverse=True)[1])

    def build(self, labels: Integers, points: Floats, weights: Floats, k: int) -> LookupCells:
        """Lookup cells."""
        means, sizes = centroids(points, labels, weights), np.bincount(labels)
        return LookupCells(
            centroids=means, sizes=sizes, k=k, records=self.records, labels=self.labels
        )


_STEPS = 4
"""Steps of Lloyd's descent a round."""

_LEAST = 1e-320


def balance(
    points: Floats, start: Quantization, k: int, chances: Floats, limit: float, rounds: int
) -> Quantization:
    """The power cells of fewest failures over the limit that some rounds of exchanging sizes come by.

    A cell that misses the limit asks for as many more candidates as its failure, falling by the same factor with each,
    would need; one that has more than it needs gives them up. Where all ask for more than there is, cells are given
    up. Costs that give the sizes are found as ever. Who is in a cell changes with its size, so that this goes on for
    so many ``rounds`` in which sites move with their cells, and as many in which they rest and only costs change; the
    best is kept. What still misses the limit is for the caller to mend.
    """
    best, fewest = start, len(start.partition) + 1
    found = start
    for turn in range(2 * rounds):
        state = _look(found.labels, k, chances, limit)
        if state.misses < fewest or (state.misses == fewest and turn < rounds):
            best, fewest = found, state.misses
        if fewest == 0 or len(found.partition) == 1:
            break
        kept, sizes = _share_out(state, k, resting=turn >= rounds)
        sites = np.ascontiguousarray(found.cells.centroids[kept])
        if turn < rounds:
            found = pcl(
                points, sizes=sizes, start=sites, shakes=0, iterations=_STEPS, weights=chances
            )
        else:
            found = pcl(points, sizes=sizes, start=sites, fixed=True, weights=chances)
    return best


@dataclass(frozen=True, eq=False)
class _State:
    """How cells stand: their sizes, and how many more candidates each would need; fewer, where that is negative."""

    sizes: Integers
    lacks: Floats
    misses: int
    """How many miss the limit."""


def _look(labels: Integers, k: int, chances: Floats, limit: float) -> _State:
    cells = labels.copy()  # kernels are compiled once more for arrays that are read-only
    sizes = np.bincount(cells)
    failures = failures_of_cells(cells, chances, k)
    means = np.bincount(cells, weights=chances) / sizes
    with_one_more = failures_of_cells(
        np.concatenate([cells, np.arange(len(sizes))]), np.concatenate([chances, means]), k
    )
    slopes = np.log(np.maximum(with_one_more, _LEAST)) - np.log(np.maximum(failures, _LEAST))
    lacks = (np.log(limit) - np.log(np.maximum(failures, _LEAST))) / np.minimum(slopes, -1e-3)
    return _State(sizes, np.clip(lacks, k - sizes, sizes), int((failures > limit).sum()))


def _share_out(state: _State, k: int, *, resting: bool) -> tuple[Integers, Integers]:
    """The cells that stay, and their sizes, which add up to all candidates."""
    wanted = np.ceil(state.lacks)
    if resting:  # little is changed: who lacks nothing gives up only what it surely can
        spare = np.where(state.lacks < -1.5, np.minimum(np.ceil(state.lacks + 0.3), 0), 0)
        wanted = np.where(state.lacks > 0, np.maximum(wanted, 1), spare)
    sizes = np.maximum(k, state.sizes + wanted).astype(np.int64)
    total, kept = int(state.sizes.sum()), np.arange(len(sizes))
    if sizes.sum() > total:
        surplus = min(int(np.ceil((sizes.sum() - total) / sizes.mean())), len(sizes) - 1)
        kept = np.sort(np.argsort(state.lacks, kind="stable")[: len(sizes) - surplus])
        while sizes[kept].sum() > total and len(kept) > 1:
            kept = np.delete(kept, state.lacks[kept].argmax())
    own = sizes[kept]
    if own.sum() > total:
        return kept, np.array([total])
    rest = total - int(own.sum())
    own += rest // len(own)
    nearest_to_short = np.argsort((np.ceil(state.lacks) - state.lacks)[kept], kind="stable")
    own[nearest_to_short[: rest % len(own)]] += 1
    return kept, own


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
        return replace(
            self, points=np.ascontiguousarray(self.points[rows]), chances=self.chances[rows]
        )


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
        return participating_cells(
            task.points, task.k, task.chances, task.failure, seed=task.seed, refine=refine
        )
    method = "mdav" if task.method == "auto" and not refine else task.method
    found = methods.partition(task.points, task.size, method=method, seed=task.seed, **task.options)
    return found.labels.copy()


def _shape_power(task: Task) -> Power:
    """Power cells: of the sizes that the labels have, or, with uneven participation, of sizes that let them hold."""
    even = task.size is not None
    labels = _find_labels(
        task, refine=even
    )  # what balancing does to uneven cells refines them as well
    weights = None if even else task.chances
    found = methods.power_cells(task.points, labels, weights=weights)
    if not even:
        found = balance(task.points, found, task.k, task.chances, task.failure, task.rounds)
    cells = methods.unpin(found.cells, task.points, found.labels.copy())
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
        roster = as_roster(
            labels, task.chances
        )  # in the order of the file, so that what holds here holds there
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
        nearest = (
            int(others[squared_distances(means[others], means[cell]).argmin()])
            if len(others)
            else -1
        )
        if nearest not in dropped and len(dropped) < len(means) - 1:
            dropped.append(cell)
    return np.array(dropped)


# ---------------------------------------------------------------------------------------------- many candidates


def _make_within(task: Task) -> PowerCells:
    """Power cells within macrocells, which are power cells too: a point finds its macrocell, and in it its cell."""
    chooser = _find_macrocells(task)
    if (
        task.method == "auto"
    ):  # annealing would take minutes, and what polishing leaves of it is little
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
    rows = np.sort(
        chance.choice(len(task.points), min(len(task.points), count * _SAMPLE), replace=False)
    )
    sample = np.ascontiguousarray(task.points[rows])
    found = methods.pcl(sample, len(rows) // count, shakes=0, iterations=20, seed=task.seed)
    cells = methods.unpin(found.cells, sample, found.labels.copy())
    shape = _mend(task, Power(cells.centroids.copy(), cells.costs.copy()))
    labels = shape.place(task.points)
    built = shape.build(labels, task.points, task.chances, int(np.bincount(labels).min()))
    assert isinstance(built, PowerCells)
    return built
