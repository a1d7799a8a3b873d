"""Cells of given sizes from a start: one level of them, or cells within macrocells."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import sha256
from threading import Event
from typing import TypeVar

import numpy as np

from microcell import progress
from microcell.cells import PowerCells
from microcell.kernels._jit import thread_count
from microcell.kernels.arrays import centroids
from microcell.kernels.exchange import find_cells_around, find_near_cells
from microcell.kernels.transport import (
    balance_costs,
    centre_costs,
    choose_again,
    choose_cells,
    push_excess,
)
from microcell.methods.auto import MOST_AT_ONCE, WITHIN, carry_out, choose_method, usual_shakes
from microcell.model import Floats, Integers, Mask

__all__ = [
    "ADJUSTMENTS",
    "Adjustment",
    "Descent",
    "Found",
    "How",
    "Problem",
    "Solved",
    "adjust_by_newton",
    "adjust_exactly",
    "as_solved",
    "descend",
    "disperse",
    "rescue",
    "settle_costs",
    "shake",
    "solve",
]

Adjustment = Callable[[Floats, Floats, Floats, Integers, Integers], int]
"""(points, sites, costs, targets, labels): changes costs and labels until the sizes are the targets; how many looks."""

MANY_CELLS, NEAR = 1500, 128
"""With more cells, arcs lead only to so many near ones at first, to twice as many where that does not do."""

NEIGHBOURS = 6
"""In few dimensions a cell has few neighbours: arcs lead to so many near cells times 2 for each dimension at first."""

EACH_WAY = 3
"""Arcs lead also to so many cells in every direction: the nearest cells alone may all be of one crowd."""

SWEEPS = 200
"""In which costs move to the middle of what they may be."""


def adjust_exactly(
    X: Floats, sites: Floats, costs: Floats, targets: Integers, labels: Integers
) -> int:
    """Find costs under which the cells have their sizes (OUT: ``costs``, ``labels``): the least distortion there is.

    Warm-started from costs and labels. Targets may add up to more than there are points: then they are limits, and
    costs must be 0 at the start. Time O(n Q m) and a shortest path among the Q cells for each point too many.
    """
    count = len(sites)
    reach, looks = _reach(sites), 0
    while True:
        choose_again(X, sites, costs, targets, labels)
        looks += X.size * count
        if (np.bincount(labels, minlength=count) <= targets).all():
            return looks
        looks += max(0, push_excess(X, sites, costs, targets, labels, _near(sites, reach)))
        if reach == count - 1:
            return looks
        reach = min(count - 1, 2 * reach)


def adjust_by_newton(
    X: Floats, sites: Floats, costs: Floats, targets: Integers, labels: Integers
) -> int:
    """The same, by Newton's method first: what that leaves over is then pushed along shortest paths."""
    costs[:] = balance_costs(X, sites, costs, targets)
    return adjust_exactly(X, sites, costs, targets, labels)


def settle_costs(
    X: Floats,
    sites: Floats,
    costs: Floats,
    targets: Integers,
    labels: Integers,
    *,
    unpinned: bool = False,
) -> Floats:
    """Costs for the same cells that leave no point on a border, as far as can be, the least of them 0.

    Random steps, drawn from a digest of the points, keep these from being calculated from where borders lie. Equal
    points in two cells hold a border where they are, which tells their value: ``unpinned``, they have no say, and all
    of them may come to lie on one side of it.
    """
    count = len(sites)
    if count == 1:
        return np.zeros(1)
    rows = np.flatnonzero(~_split_equals(X, labels)) if unpinned else np.arange(len(X))
    points, cells = np.ascontiguousarray(X[rows]), labels[rows]
    steps = np.random.default_rng(int(sha256(X.tobytes()).hexdigest(), 16)).uniform(
        -1.0, 1.0, size=count
    )
    reach, last = _reach(sites), count - 1 if count <= MANY_CELLS else min(count - 1, 2 * NEAR)
    while True:
        settled = costs.copy()
        centre_costs(points, sites, settled, targets, cells, _near(sites, reach), steps, SWEEPS)
        if choose_again(points, sites, settled, targets, cells.copy()) == 0:
            return np.asarray(settled - settled.min())
        if reach >= last:
            break
        reach = min(last, 2 * reach)
    return np.asarray(costs - costs.min())  # a cell beyond the near ones would have come out


ADJUSTMENTS: dict[str, Adjustment] = {
    "exact": adjust_exactly,
    "newton": adjust_by_newton,
    "noisy": adjust_exactly,  # once the cloud has collapsed to the points
}
"""By name, as they are asked for."""


def _split_equals(X: Floats, labels: Integers) -> Mask:
    """True for points that have an equal in another cell."""
    group = np.unique(X, axis=0, return_inverse=True)[1].ravel()
    least, most = np.full(int(group.max()) + 1, len(X)), np.full(int(group.max()) + 1, -1)
    np.minimum.at(least, group, labels)
    np.maximum.at(most, group, labels)
    return np.asarray((least < most)[group])


def _reach(sites: Floats) -> int:
    """To how many near cells arcs lead at first."""
    count, m = sites.shape
    most = count - 1 if count <= MANY_CELLS else NEAR
    return int(min(most, NEIGHBOURS * 2 ** min(m, 10)))


def _near(sites: Floats, reach: int) -> Integers:
    """The cells that arcs lead to from each cell: all others, or so many of the nearest sites, and some all around."""
    count, m = sites.shape
    if reach == count - 1:
        others = np.arange(count - 1)
        return others + (others >= np.arange(count)[:, np.newaxis])
    near = np.empty((count, reach), dtype=np.int64)
    find_near_cells(sites, np.ones(count), near)
    around = np.empty((count, 2 * m, EACH_WAY), dtype=np.int64)
    find_cells_around(sites, around)
    farther = around.reshape(count, -1)
    return np.hstack([near, np.where(farther < 0, near[:, :1], farther)])


WARM, COOL = 0.8, 0.02
"""The first and the last noise on sites, in units of the deviation of the cell's points in each dimension."""

SAMPLED_CELL = 50
"""Where cells are larger, sites are shaken on a sample of about so many points a cell."""

USUAL = 10.0
"""A cell's spread counts for its steps up to so many times the median."""

LOOKS, FEWEST = 3e9, 10
"""Rounds are fewer where they would take more looks at distances and arcs than this, though not below so many."""

CLOUD_CELL, CLOUD = 200, 2_000_000
"""Noisy copies are as many as give a cell so many, and at most so many in all."""

CLOUD_ROUNDS, CLOUD_END = 24, 0.03
"""The noise of the cloud falls to this share in so many rounds."""

_NOTHING = 1e-24
"""A sum of squares of this share of all is nothing: cells hold equal points."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Points, the size of each cell, and weights for the means."""

    X: Floats
    targets: Integers
    weights: Floats
    stop: Event = field(default_factory=Event)
    """Set to end all work on it soon."""

    def check(self) -> None:
        """Nothing, while the work is to go on."""
        if self.stop.is_set():
            raise KeyboardInterrupt

    def losses(self, sites: Floats, labels: Integers) -> Floats:
        """The weighted squared distance of each point to the site of its cell."""
        out = np.zeros(len(self.X))
        for j in range(self.X.shape[1]):
            out += (self.X[:, j] - sites[labels, j]) ** 2
        return out * self.weights


@dataclass(frozen=True)
class Descent:
    """How to descend."""

    adjust: str = "exact"
    speed: float = 1.0
    iterations: int = 200
    tolerance: float = 3e-5


@dataclass(frozen=True, eq=False)
class Found:
    """Cells with their sites and costs, and the sums of squared distances to the sites on the way, never rising."""

    labels: Integers
    sites: Floats
    costs: Floats
    history: tuple[float, ...]

    @property
    def loss(self) -> float:
        """The last of the history."""
        return self.history[-1]


def descend(problem: Problem, start: Found, how: Descent, *, fixed: bool = False) -> Found:
    """What the descent from the sites, costs and labels of ``start`` ends in.

    Sites move to the centroids of their cells at the speed given, at full speed in the end; ``fixed`` ones not at all.
    """
    adjust, speed = ADJUSTMENTS[how.adjust], how.speed
    sites, costs, labels = start.sites.copy(), start.costs.copy(), start.labels.copy()
    found: Found | None = None
    nothing = _NOTHING * float(
        problem.losses(problem.X.mean(axis=0, keepdims=True), np.zeros_like(labels)).sum()
    )
    for _ in range(1 if fixed else how.iterations):
        problem.check()
        adjust(problem.X, sites, costs, problem.targets, labels)
        loss = float(problem.losses(sites, labels).sum())
        last = np.inf if found is None else found.loss
        if found is not None and loss > last:  # by rounding, or as weights count for means alone
            return found
        history = () if found is None else found.history
        found = Found(labels.copy(), sites, costs - costs.min(), (*history, loss))
        if last - loss <= how.tolerance * loss or loss <= nothing:
            if speed == 1.0 or loss <= nothing:
                break
            speed = 1.0
        sites = speed * centroids(problem.X, labels, problem.weights) + (1.0 - speed) * sites
    assert found is not None
    return found


def shake(problem: Problem, start: Found, rounds: int, chance: np.random.Generator) -> Found:
    """A better start: every round sites move to the centroids and a random step beside, ever shorter.

    The steps let sites leave the valley that they are in. Where cells are large a sample of the points will do; where
    a round takes long, as with outliers or many equal points, there are fewer.
    """
    if rounds == 0:
        return start
    part, labels = _sample(problem, start.labels, chance)
    sites, costs = start.sites, start.costs.copy()
    m, passed, looks, done = max(1, sites.shape[1]), 0.0, 0, 0
    while passed < 1.0:
        problem.check()
        progress.report("searching for sites", int(1000 * passed), 1000)
        noise = WARM * (COOL / WARM) ** passed
        looks, done = looks + adjust_exactly(part.X, sites, costs, part.targets, labels), done + 1
        passed += 1.0 / min(rounds, max(FEWEST, LOOKS * done / max(looks, 1)))
        means = centroids(part.X, labels, part.weights)
        spread = _without_outliers(
            np.bincount(labels, weights=part.losses(means, labels)) / part.targets
        )
        sites = means + noise * np.sqrt(spread / m)[:, np.newaxis] * chance.normal(size=means.shape)
    return Found(start.labels, centroids(part.X, labels, part.weights), costs, start.history)


def _without_outliers(spread: Floats) -> Floats:
    """The spreads, none far above the usual: the cell of an outlier must not leap over all others."""
    positive = spread[spread > 0]
    return np.minimum(spread, USUAL * np.median(positive)) if len(positive) else spread


def _sample(
    problem: Problem, labels: Integers, chance: np.random.Generator
) -> tuple[Problem, Integers]:
    """A part of the points that stands for all, with sizes in proportion; labels of these sizes."""
    n, targets = len(problem.X), problem.targets
    if n <= 2 * SAMPLED_CELL * len(targets):
        return problem, labels.copy()
    shares = targets * (SAMPLED_CELL * len(targets) / n)
    fewer = np.minimum(np.maximum(1, shares.astype(np.int64)), targets)
    rows = np.sort(chance.choice(n, size=int(fewer.sum()), replace=False))
    part = Problem(
        np.ascontiguousarray(problem.X[rows]), fewer, problem.weights[rows], problem.stop
    )
    return part, np.repeat(np.arange(len(fewer)), fewer)


def disperse(problem: Problem, start: Found, chance: np.random.Generator) -> Found:
    """A better start: every point becomes a cloud of noisy copies, whose variance falls as the descent goes on.

    Cells of a cloud are large, so that Newton's method balances them. The copies of a point make up its weight.
    """
    n, m = problem.X.shape
    copies = int(np.clip(CLOUD_CELL * len(problem.targets) / n, 2, max(2, CLOUD // n)))
    cloud, each = np.repeat(problem.X, copies, axis=0), np.repeat(problem.weights, copies)
    directions = chance.normal(size=(n * copies, m))
    spread = np.sqrt(problem.losses(start.sites, start.labels).mean() / max(1, m))
    sites, costs, targets = start.sites, start.costs, problem.targets * copies
    for share in np.geomspace(1.0, CLOUD_END, CLOUD_ROUNDS):
        problem.check()
        points = cloud + share * spread * directions
        costs = balance_costs(points, sites, costs, targets, tolerance=0.02)
        labels = choose_cells(points, sites, costs)
        sites, costs = rescue(points, labels, sites, costs, targets)
        sites = _means(points, labels, each, sites)
    return Found(start.labels, sites, costs, start.history)


def _means(X: Floats, labels: Integers, weights: Floats, sites: Floats) -> Floats:
    """The centroids of cells; the site itself where a cell has no point."""
    count = len(sites)
    totals = np.bincount(labels, weights=weights, minlength=count)
    out = sites.copy()
    for j in range(X.shape[1]):
        sums = np.bincount(labels, weights=weights * X[:, j], minlength=count)
        out[:, j] = np.where(totals > 0, sums / np.where(totals > 0, totals, 1.0), sites[:, j])
    return out


def rescue(
    X: Floats, labels: Integers, sites: Floats, costs: Floats, targets: Integers
) -> tuple[Floats, Floats]:
    """Sites and costs with every cell that has less than a tenth of its points sent to where the largest cell is.

    It takes the place of a point near the centroid of the cell that is largest for its target, and that cell's cost.
    """
    sizes = np.bincount(labels, minlength=len(targets)).astype(np.float64)
    sites, costs = sites.copy(), costs.copy()
    for turn, q in enumerate(np.flatnonzero(sizes < 0.1 * targets)):
        largest = int(np.argmax(sizes - targets))
        members = np.flatnonzero(labels == largest)
        if len(members) < 2:
            break
        mean = X[members].mean(axis=0)
        order = np.argsort(((X[members] - mean) ** 2).sum(axis=1), kind="stable")
        sites[q], costs[q] = X[members[order[(1 + turn) % len(order)]]], costs[largest]
        sizes[q] = sizes[largest] = sizes[largest] / 2
    return sites, costs


MOST_MACROCELLS = 64
"""More macrocells than this are themselves made within macrocells."""

_MACRO = Descent(iterations=15, tolerance=1e-3)

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, eq=False)
class How:
    """All that was asked for, checked."""

    start: str | Floats
    costs: Floats
    """To start from; 0 but for a start of given sites."""
    fixed: bool
    descent: Descent
    shakes: int | None
    restarts: int
    prepartition: int | None
    seed: int


@dataclass(frozen=True, eq=False)
class Solved:
    """Labels, the cells that yield them, and the losses on the way."""

    labels: Integers
    cells: PowerCells
    history: tuple[float, ...]


def solve(problem: Problem, how: How) -> Solved:
    """The best of the starts asked for; within macrocells if that was asked for, or if there are many cells."""
    count = len(problem.targets)
    macrocells = how.prepartition
    if macrocells is None:
        macrocells = (
            -(-count // WITHIN) if count > MOST_AT_ONCE and isinstance(how.start, str) else 1
        )
    if macrocells > 1:
        return _solve_within(
            problem, replace(how, prepartition=None), min(macrocells, MOST_MACROCELLS)
        )
    tries = _side_by_side(
        problem, lambda turn: _try(problem, how, turn), list(range(how.restarts)), "starts"
    )
    return as_solved(problem, min(tries, key=lambda found: found.loss))


def _try(problem: Problem, how: How, turn: int) -> Found:
    """What one start comes to."""
    chance = np.random.default_rng([how.seed, turn])
    begin = _begin(problem, how.start if turn == 0 else "random", how, chance)
    if not how.fixed:
        begin = _leave_points(problem, begin)
        if how.descent.adjust == "noisy":
            begin = disperse(problem, begin, chance)
        begin = shake(problem, begin, _shakes(problem, how), chance)
    return descend(problem, begin, how.descent, fixed=how.fixed)


def _leave_points(problem: Problem, begin: Found) -> Found:
    """The start after one step to the centroids: no site may be a point itself, which files would give away."""
    costs, labels = begin.costs.copy(), begin.labels.copy()
    adjust_exactly(problem.X, begin.sites, costs, problem.targets, labels)
    return Found(labels, centroids(problem.X, labels, problem.weights), costs, ())


def _shakes(problem: Problem, how: How) -> int:
    return usual_shakes(problem.X.size, len(problem.targets)) if how.shakes is None else how.shakes


def _begin(problem: Problem, start: str | Floats, how: How, chance: np.random.Generator) -> Found:
    """Sites, any labels of the right sizes, and no costs but those given with sites."""
    targets, count = problem.targets, len(problem.targets)
    labels, costs = np.repeat(np.arange(count), targets), np.zeros(count)
    if isinstance(start, str):
        labels, sites = _sites_of(problem, start, labels, how.seed, chance)
    else:
        sites, costs = start, how.costs.copy()
    if not how.fixed and (not isinstance(start, str) or start == "random"):
        sites, costs = rescue(
            problem.X, choose_cells(problem.X, sites, costs), sites, costs, targets
        )
    return Found(labels, sites, costs, ())


def _sites_of(
    problem: Problem, start: str, labels: Integers, seed: int, chance: np.random.Generator
) -> tuple[Integers, Floats]:
    """The centroids of a method's cells, completed by random points; the method's labels, if they have the sizes."""
    X, targets, count = problem.X, problem.targets, len(problem.targets)
    drawn = X[chance.choice(len(X), size=count, replace=False)]
    if start == "random" or count == 1:
        return labels, drawn
    k = max(2, int(targets.min()))
    if k > len(X):
        return labels, drawn
    made = carry_out(X, k, choose_method(X, k, start, {}, len(X)), problem.weights, seed)[0]
    sizes = np.bincount(made)
    if np.array_equal(sizes, targets):
        labels = made
    largest = np.sort(np.argsort(-sizes, kind="stable")[:count])
    sites = centroids(X, made, problem.weights)[largest]
    return labels, np.ascontiguousarray(np.concatenate([sites, drawn[len(sites) :]]))


def as_solved(problem: Problem, found: Found) -> Solved:
    """What was found, as power cells."""
    targets = problem.targets
    costs = settle_costs(problem.X, found.sites, found.costs, targets, found.labels)
    cells = PowerCells(centroids=found.sites, sizes=targets, k=int(targets.min()), costs=costs)
    return Solved(found.labels, cells, found.history)


# ---------------------------------------------------------------------------------------------- macrocells


def _solve_within(problem: Problem, how: How, macrocells: int) -> Solved:
    """Cells within macrocells, which PCL itself makes, of the sizes that their cells add up to."""
    parts = np.array_split(np.arange(len(problem.targets)), macrocells)
    sizes = np.array([problem.targets[part].sum() for part in parts])
    progress.report("making macrocells")
    coarse = solve(
        Problem(problem.X, sizes, problem.weights, problem.stop),
        replace(how, start="mdav", descent=_MACRO, shakes=0, restarts=1, prepartition=1),
    )
    rows = np.split(np.argsort(coarse.labels, kind="stable"), np.cumsum(sizes)[:-1])

    def solve_part(turn: int) -> Solved:
        own = rows[turn]
        inner = Problem(
            problem.X[own], problem.targets[parts[turn]], problem.weights[own], problem.stop
        )
        shakes = _shakes(inner, how) // (1 if how.shakes is not None else macrocells)
        return solve(inner, replace(how, seed=how.seed + turn, shakes=shakes))

    solved = _side_by_side(problem, solve_part, list(range(macrocells)), "macrocells")
    labels = np.empty(len(problem.X), dtype=np.int64)
    for own, part, inner in zip(rows, parts, solved, strict=True):
        labels[own] = part[inner.labels]
    return Solved(labels, _nest(coarse.cells, [inner.cells for inner in solved]), _add_up(solved))


def _nest(chooser: PowerCells, parts: Sequence[PowerCells]) -> PowerCells:
    """The cells of all macrocells, numbered through; cells that are themselves nested keep their choosers."""
    return PowerCells.within(chooser, parts)


def _add_up(solved: Sequence[Solved]) -> tuple[float, ...]:
    """The sum of histories, each going on with its last value."""
    length = max(len(part.history) for part in solved)
    padded = [
        [*part.history, *[part.history[-1]] * (length - len(part.history))] for part in solved
    ]
    return tuple(np.sum(padded, axis=0).tolist())


def _side_by_side(
    problem: Problem, work: Callable[[_T], _R], items: list[_T], what: str
) -> list[_R]:
    """What ``work`` makes of each item, on all threads: kernels let others run. Ctrl-C tells all of them to stop."""
    if len(items) == 1:
        return [work(items[0])]
    with ThreadPoolExecutor(thread_count()) as pool:
        futures: list[Future[_R]] = [pool.submit(work, item) for item in items]
        done: list[_R] = []
        try:
            for future in futures:
                progress.report(f"solving {what}", len(done), len(items))
                done.append(future.result())
        except BaseException:
            problem.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
        return done
