"""Power cells of prescribed sizes from an initial solution, in one diagram or in macrocells."""

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
from microcell.kernels.arrays import centroids, distinct_rows
from microcell.kernels.exchange import find_cells_around, find_near_cells
from microcell.kernels.transport import (
    balance_costs,
    centre_costs,
    choose_again,
    choose_cells,
    push_excess,
)
from microcell.methods.auto import MOST_AT_ONCE, WITHIN, choose_method, default_shakes, run_choice
from microcell.model import Floats, Integers, Mask

__all__ = [
    "ADJUSTMENTS",
    "Adjustment",
    "Descent",
    "PowerSolution",
    "Problem",
    "Settings",
    "Solution",
    "adjust_by_newton",
    "adjust_exactly",
    "as_power_solution",
    "descend",
    "disperse",
    "rescue",
    "settle_costs",
    "shake",
    "solve",
]

Adjustment = Callable[[Floats, Floats, Floats, Integers, Integers], int]
"""Adjusts costs and labels until the sizes are the targets; returns the amount of work.

Called with (points, sites, costs, targets, labels).
"""

MANY_CELLS, NEAR = 1500, 128
"""With more cells, arcs first lead only to this many near ones, then to more if that is not enough.
"""

NEIGHBOURS = 6
"""In few dimensions cells have few neighbours: the number of arcs per cell starts at this, doubled
for each dimension.
"""

EACH_WAY = 3
"""Arcs also lead to this many cells in every direction, because the nearest may all be in one
cluster."""

SWEEPS = 200
"""Number of sweeps that centre the costs."""


def adjust_exactly(
    X: Floats, sites: Floats, costs: Floats, targets: Integers, labels: Integers
) -> int:
    """Find costs that give the cells their sizes at least distortion (OUT: ``costs``, ``labels``).

    Starts from the costs and labels passed in. Targets may add up to more than the number of
    points: they are then limits, and costs must start at 0. Time O(n Q m), plus a shortest path
    among the Q cells for each excess point.
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
    """Adjust as :func:`adjust_exactly` does, but run Newton's method first."""
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
    """Return costs with the same cells, if possible with no point on a border; the lowest is 0.

    Random steps, drawn from a digest of the points, prevent points from being computed from the
    borders. Equal points in two cells hold a border in place, which reveals their value; with
    ``unpinned`` they are ignored, and all of them may end up on one side.
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
    return np.asarray(costs - costs.min())  # the settled costs would move points between cells


ADJUSTMENTS: dict[str, Adjustment] = {
    "exact": adjust_exactly,
    "newton": adjust_by_newton,
    "noisy": adjust_exactly,  # after the cloud has collapsed to the points
}
"""Adjustments by the name of the option."""


def _split_equals(X: Floats, labels: Integers) -> Mask:
    """Return which points have an equal point in another cell."""
    group = distinct_rows(X).place
    count = int(group.max()) + 1
    least, most = np.full(count, len(X)), np.full(count, -1)
    np.minimum.at(least, group, labels)
    np.maximum.at(most, group, labels)
    return np.asarray((least < most)[group])


def _reach(sites: Floats) -> int:
    """Return the number of near cells that arcs lead to at first."""
    count, m = sites.shape
    most = count - 1 if count <= MANY_CELLS else NEAR
    return int(min(most, NEIGHBOURS * 2 ** min(m, 10)))


def _near(sites: Floats, reach: int) -> Integers:
    """Return the cells that arcs lead to: all, or the nearest and some in every direction."""
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
"""First and last noise of sites, relative to the standard deviation of the cell's points."""

SAMPLED_CELL = 50
"""Larger cells are shaken on a sample of about this many points per cell."""

USUAL = 10.0
"""Maximum spread of a cell that its random steps depend on, as a multiple of the median."""

LOOKS, FEWEST = 3e9, 10
"""Limit on the distances and arcs to examine, which may reduce the rounds; minimum of rounds."""

CLOUD_CELL, CLOUD = 200, 2_000_000
"""Noisy copies per cell, and their maximum total number."""

CLOUD_ROUNDS, CLOUD_END = 24, 0.03
"""Number of rounds in which the noise of the cloud falls, and the share it falls to."""

_NOTHING = 1e-24
"""A sum of squares below this share of the total is 0: the cells hold equal points."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Points, the target size of each cell, and weights for the means."""

    X: Floats
    targets: Integers
    weights: Floats
    stop: Event = field(default_factory=Event)
    """Set to end all work on the problem soon."""

    def check(self) -> None:
        """Raise KeyboardInterrupt if the work is to stop."""
        if self.stop.is_set():
            raise KeyboardInterrupt

    def losses(self, sites: Floats, labels: Integers) -> Floats:
        """Return the weighted squared distance of each point to the site of its cell."""
        out = np.zeros(len(self.X))
        for j in range(self.X.shape[1]):
            out += (self.X[:, j] - sites[labels, j]) ** 2
        return out * self.weights


@dataclass(frozen=True)
class Descent:
    """Options of a descent."""

    adjust: str = "exact"
    speed: float = 1.0
    iterations: int = 200
    tolerance: float = 3e-5


@dataclass(frozen=True, eq=False)
class Solution:
    """Cells with their sites and costs, and the non-increasing losses on the way.

    A loss is the sum of squared distances to the sites.
    """

    labels: Integers
    sites: Floats
    costs: Floats
    history: tuple[float, ...]

    @property
    def loss(self) -> float:
        """Last loss."""
        return self.history[-1]


def descend(
    problem: Problem, start: Solution, settings: Descent, *, fixed: bool = False
) -> Solution:
    """Descend from the sites, costs and labels of ``start``.

    Sites move towards the centroids of their cells at the chosen speed, and at full speed at the
    end; ``fixed`` ones do not move.
    """
    adjust, speed = ADJUSTMENTS[settings.adjust], settings.speed
    sites, costs, labels = start.sites.copy(), start.costs.copy(), start.labels.copy()
    solution: Solution | None = None
    nothing = _NOTHING * float(
        problem.losses(problem.X.mean(axis=0, keepdims=True), np.zeros_like(labels)).sum()
    )
    for _ in range(1 if fixed else settings.iterations):
        problem.check()
        adjust(problem.X, sites, costs, problem.targets, labels)
        loss = float(problem.losses(sites, labels).sum())
        last = np.inf if solution is None else solution.loss
        if solution is not None and loss > last:  # by rounding, or because of weights
            return solution
        history = () if solution is None else solution.history
        solution = Solution(labels.copy(), sites, costs - costs.min(), (*history, loss))
        if last - loss <= settings.tolerance * loss or loss <= nothing:
            if speed == 1.0 or loss <= nothing:
                break
            speed = 1.0
        sites = speed * centroids(problem.X, labels, problem.weights) + (1.0 - speed) * sites
    assert solution is not None
    return solution


def shake(problem: Problem, start: Solution, rounds: int, rng: np.random.Generator) -> Solution:
    """Improve a start; each round moves the sites to the centroids plus a random step.

    The steps become shorter and shorter and let sites leave a local optimum. Large cells are
    sampled; if rounds take long, as with outliers or many equal points, there are fewer.
    """
    if rounds == 0:
        return start
    part, labels = _sample(problem, start.labels, rng)
    sites, costs = start.sites, start.costs.copy()
    m, passed, looks, done = max(1, sites.shape[1]), 0.0, 0, 0
    while passed < 1.0:
        problem.check()
        progress.report("placing sites", int(1000 * passed), 1000)
        noise = WARM * (COOL / WARM) ** passed
        looks, done = looks + adjust_exactly(part.X, sites, costs, part.targets, labels), done + 1
        passed += 1.0 / min(rounds, max(FEWEST, LOOKS * done / max(looks, 1)))
        means = centroids(part.X, labels, part.weights)
        spread = _clip_outliers(
            np.bincount(labels, weights=part.losses(means, labels)) / part.targets
        )
        sites = means + noise * np.sqrt(spread / m)[:, np.newaxis] * rng.normal(size=means.shape)
    return Solution(start.labels, centroids(part.X, labels, part.weights), costs, start.history)


def _clip_outliers(spread: Floats) -> Floats:
    """Limit the spreads, so that the cell of an outlier does not jump over all others."""
    positive = spread[spread > 0]
    return np.minimum(spread, USUAL * np.median(positive)) if len(positive) else spread


def _sample(
    problem: Problem, labels: Integers, rng: np.random.Generator
) -> tuple[Problem, Integers]:
    """Return a representative sample with proportional sizes, and labels of these sizes."""
    n, targets = len(problem.X), problem.targets
    if n <= 2 * SAMPLED_CELL * len(targets):
        return problem, labels.copy()
    shares = targets * (SAMPLED_CELL * len(targets) / n)
    fewer = np.minimum(np.maximum(1, shares.astype(np.int64)), targets)
    rows = np.sort(rng.choice(n, size=int(fewer.sum()), replace=False))
    part = Problem(
        np.ascontiguousarray(problem.X[rows]), fewer, problem.weights[rows], problem.stop
    )
    return part, np.repeat(np.arange(len(fewer)), fewer)


def disperse(problem: Problem, start: Solution, rng: np.random.Generator) -> Solution:
    """Improve a start with clouds of noisy copies of the points, whose variance falls to zero.

    Cells of a cloud are large, so that Newton's method can balance them. The copies of a point
    share its weight.
    """
    n, m = problem.X.shape
    copies = int(np.clip(CLOUD_CELL * len(problem.targets) / n, 2, max(2, CLOUD // n)))
    cloud, each = np.repeat(problem.X, copies, axis=0), np.repeat(problem.weights, copies)
    directions = rng.normal(size=(n * copies, m))
    spread = np.sqrt(problem.losses(start.sites, start.labels).mean() / max(1, m))
    sites, costs, targets = start.sites, start.costs, problem.targets * copies
    for share in np.geomspace(1.0, CLOUD_END, CLOUD_ROUNDS):
        problem.check()
        points = cloud + share * spread * directions
        costs = balance_costs(points, sites, costs, targets, tolerance=0.02)
        labels = choose_cells(points, sites, costs)
        sites, costs = rescue(points, labels, sites, costs, targets)
        sites = _means(points, labels, each, sites)
    return Solution(start.labels, sites, costs, start.history)


def _means(X: Floats, labels: Integers, weights: Floats, sites: Floats) -> Floats:
    """Return the centroids of cells, or the site itself if a cell has no point."""
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
    """Move the sites of nearly empty cells into the largest cell.

    A cell with less than a tenth of its target gets a point near the centroid of the most oversized
    cell, and that cell's cost.
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
class Settings:
    """All checked options of PCL."""

    start: str | Floats
    costs: Floats
    """Initial costs; 0 unless sites were passed in."""
    fixed: bool
    descent: Descent
    shakes: int | None
    restarts: int
    prepartition: int | None
    seed: int


@dataclass(frozen=True, eq=False)
class PowerSolution:
    """Labels, the power cells that yield them, and the losses on the way."""

    labels: Integers
    cells: PowerCells
    history: tuple[float, ...]


def solve(problem: Problem, settings: Settings) -> PowerSolution:
    """Return the best solution of all starts, within macrocells if requested or with many cells."""
    count = len(problem.targets)
    macrocells = settings.prepartition
    if macrocells is None:
        macrocells = (
            -(-count // WITHIN) if count > MOST_AT_ONCE and isinstance(settings.start, str) else 1
        )
    if macrocells > 1:
        return _solve_within(
            problem, replace(settings, prepartition=None), min(macrocells, MOST_MACROCELLS)
        )
    solutions = _in_parallel(
        problem,
        lambda turn: _solve_once(problem, settings, turn),
        list(range(settings.restarts)),
        "starts",
    )
    return as_power_solution(problem, min(solutions, key=lambda solution: solution.loss))


def _solve_once(problem: Problem, settings: Settings, turn: int) -> Solution:
    """Return the solution of one start."""
    rng = np.random.default_rng([settings.seed, turn])
    start = _start_solution(problem, settings.start if turn == 0 else "random", settings, rng)
    if not settings.fixed:
        start = _leave_points(problem, start)
        if settings.descent.adjust == "noisy":
            start = disperse(problem, start, rng)
        start = shake(problem, start, _shakes(problem, settings), rng)
    return descend(problem, start, settings.descent, fixed=settings.fixed)


def _leave_points(problem: Problem, start: Solution) -> Solution:
    """Move sites to the centroids once: a site equal to a point would reveal it in files."""
    costs, labels = start.costs.copy(), start.labels.copy()
    adjust_exactly(problem.X, start.sites, costs, problem.targets, labels)
    return Solution(labels, centroids(problem.X, labels, problem.weights), costs, ())


def _shakes(problem: Problem, settings: Settings) -> int:
    return (
        default_shakes(problem.X.size, len(problem.targets))
        if settings.shakes is None
        else settings.shakes
    )


def _start_solution(
    problem: Problem, start: str | Floats, settings: Settings, rng: np.random.Generator
) -> Solution:
    """Return initial sites with any labels of the right sizes.

    Costs are 0 unless they were passed in with the sites.
    """
    targets, count = problem.targets, len(problem.targets)
    labels, costs = np.repeat(np.arange(count), targets), np.zeros(count)
    if isinstance(start, str):
        labels, sites = _sites_of(problem, start, labels, settings.seed, rng)
    else:
        sites, costs = start, settings.costs.copy()
    if not settings.fixed and (not isinstance(start, str) or start == "random"):
        sites, costs = rescue(
            problem.X, choose_cells(problem.X, sites, costs), sites, costs, targets
        )
    return Solution(labels, sites, costs, ())


def _sites_of(
    problem: Problem, start: str, labels: Integers, seed: int, rng: np.random.Generator
) -> tuple[Integers, Floats]:
    """Return the labels of a method, if they have the right sizes, and its centroids as sites.

    Missing sites are filled with random points.
    """
    X, targets, count = problem.X, problem.targets, len(problem.targets)
    drawn = X[rng.choice(len(X), size=count, replace=False)]
    if start == "random" or count == 1:
        return labels, drawn
    k = max(2, int(targets.min()))
    if k > len(X):
        return labels, drawn
    choice = choose_method(X, k, start, {}, len(X))
    method_labels, _ = run_choice(X, k, choice, problem.weights, seed)
    sizes = np.bincount(method_labels)
    if np.array_equal(sizes, targets):
        labels = method_labels
    largest = np.sort(np.argsort(-sizes, kind="stable")[:count])
    sites = centroids(X, method_labels, problem.weights)[largest]
    return labels, np.ascontiguousarray(np.concatenate([sites, drawn[len(sites) :]]))


def as_power_solution(problem: Problem, solution: Solution) -> PowerSolution:
    """Return the solution as power cells."""
    targets = problem.targets
    costs = settle_costs(problem.X, solution.sites, solution.costs, targets, solution.labels)
    cells = PowerCells(centroids=solution.sites, sizes=targets, k=int(targets.min()), costs=costs)
    return PowerSolution(solution.labels, cells, solution.history)


def _solve_within(problem: Problem, settings: Settings, macrocells: int) -> PowerSolution:
    """Solve within macrocells, which PCL forms with the total sizes of their cells."""
    parts = np.array_split(np.arange(len(problem.targets)), macrocells)
    sizes = np.array([problem.targets[part].sum() for part in parts])
    progress.report("making macrocells")
    coarse = solve(
        Problem(problem.X, sizes, problem.weights, problem.stop),
        replace(settings, start="mdav", descent=_MACRO, shakes=0, restarts=1, prepartition=1),
    )
    rows = np.split(np.argsort(coarse.labels, kind="stable"), np.cumsum(sizes)[:-1])

    def solve_part(turn: int) -> PowerSolution:
        inside = rows[turn]
        inner = Problem(
            problem.X[inside], problem.targets[parts[turn]], problem.weights[inside], problem.stop
        )
        shakes = _shakes(inner, settings) // (1 if settings.shakes is not None else macrocells)
        return solve(inner, replace(settings, seed=settings.seed + turn, shakes=shakes))

    solved = _in_parallel(problem, solve_part, list(range(macrocells)), "macrocells")
    labels = np.empty(len(problem.X), dtype=np.int64)
    for inside, part, inner in zip(rows, parts, solved, strict=True):
        labels[inside] = part[inner.labels]
    cells = PowerCells.within(coarse.cells, [inner.cells for inner in solved])
    return PowerSolution(labels, cells, _add_up(solved))


def _add_up(solved: Sequence[PowerSolution]) -> tuple[float, ...]:
    """Return the sum of the histories, each padded with its last value."""
    length = max(len(part.history) for part in solved)
    padded = [
        [*part.history, *[part.history[-1]] * (length - len(part.history))] for part in solved
    ]
    return tuple(np.sum(padded, axis=0).tolist())


def _in_parallel(
    problem: Problem, work: Callable[[_T], _R], items: list[_T], what: str
) -> list[_R]:
    """Run ``work`` for each item on all threads (kernels release the GIL); Ctrl-C stops all."""
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
