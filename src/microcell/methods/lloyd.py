"""Power cells of prescribed sizes from an initial solution, in one diagram or in macrocells."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import sha256
from threading import Event
from typing import Protocol, TypeVar

import numpy as np

from microcell import progress
from microcell.cells import AbsoluteCells, PowerCells
from microcell.kernels._jit import thread_count
from microcell.kernels.arrays import distinct_rows
from microcell.kernels.exchange import find_cells_around, find_near_cells
from microcell.kernels.transport import (
    balance_costs,
    centre_costs,
    choose_again,
    choose_cells,
    choose_scaled,
    choose_two,
    meet_bounds,
)
from microcell.methods.auto import MOST_AT_ONCE, WITHIN, choose_method, default_shakes, run_choice
from microcell.methods.distortions import SQUARED, Distortion
from microcell.model import Floats, Integers, Mask

__all__ = [
    "ADJUSTMENTS",
    "Adjustment",
    "Cloud",
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


class Adjustment(Protocol):
    """Adjusts costs and labels until the sizes are the targets; returns the amount of work."""

    def __call__(
        self,
        X: Floats,
        sites: Floats,
        costs: Floats,
        targets: Integers,
        labels: Integers,
        *,
        lows: Integers | None = None,
        scales: Floats | None = None,
        absolute: bool = False,
    ) -> int: ...


MANY_CELLS, NEAR = 1500, 128
"""With more cells than this, arcs first lead only to a number of near cells, and to more if needed.
"""

NEIGHBOURS = 6
"""Number of arcs per cell at the start, doubled for each dimension: in few dimensions, cells have
few neighbours.
"""

EACH_WAY = 3
"""Arcs also lead to this many cells in every direction, because the nearest may all be in one
cluster."""

SWEEPS = 200
"""Number of sweeps that centre the costs."""


PRECISE = 1e6
"""Costs next to one that is larger by this factor have lost precision and are adjusted once more.
"""


def adjust_exactly(
    X: Floats,
    sites: Floats,
    costs: Floats,
    targets: Integers,
    labels: Integers,
    *,
    lows: Integers | None = None,
    scales: Floats | None = None,
    absolute: bool = False,
) -> int:
    """Find the costs and labels with the target sizes and the least distortion (OUT: both).

    Starts from the costs and labels passed in. Targets may add up to more than the number of
    points: they are then upper bounds, and ``lows`` (by default 0) are lower bounds. Time O(n Q m),
    plus a shortest path among the Q cells for each point that has to move.
    """
    count, n = len(sites), len(X)
    lows = np.zeros_like(targets) if lows is None else lows
    if int(lows.sum()) == n:
        targets = lows
    fixed = int(targets.sum()) == n  # the sizes are prescribed, and costs may have any sign
    lows = targets if fixed else lows
    scales = np.ones(n) if scales is None else scales
    reach, looks, again = _reach(sites), 0, 3
    while True:
        if fixed:  # any constant may be added; beside a huge one the others would lose digits
            costs -= _middle(costs)
        choose_again(X, scales, absolute, sites, costs, targets, labels)
        looks += X.size * count
        if _within_bounds(np.bincount(labels, minlength=count), costs, lows, targets):
            return looks
        near = _near(sites, reach)
        looks += max(0, meet_bounds(X, scales, absolute, sites, costs, lows, targets, labels, near))
        if reach == count - 1:
            again -= 1
            if again == 0 or not _lost_digits(costs):
                return looks
        reach = min(count - 1, 2 * reach)


def _within_bounds(sizes: Integers, costs: Floats, lows: Integers, highs: Integers) -> bool:
    """Return whether all sizes are within the bounds that their costs allow."""
    least, most = np.where(costs > 0, highs, lows), np.where(costs < 0, lows, highs)
    return bool(((sizes >= least) & (sizes <= most)).all())


def _lost_digits(costs: Floats) -> bool:
    """Return whether most costs are small differences of large numbers."""
    usual = _middle(np.abs(costs - _middle(costs)))
    return float(np.abs(costs).max()) > PRECISE * usual


def _middle(values: Floats) -> float:
    """Return an element in the middle; a median would take longer for few values."""
    return float(np.sort(values)[len(values) // 2])


def adjust_by_newton(
    X: Floats,
    sites: Floats,
    costs: Floats,
    targets: Integers,
    labels: Integers,
    *,
    lows: Integers | None = None,
    scales: Floats | None = None,
    absolute: bool = False,
) -> int:
    """Adjust as :func:`adjust_exactly` does, but run Newton's method first."""
    costs[:] = balance_costs(X, sites, costs, targets)
    return adjust_exactly(
        X, sites, costs, targets, labels, lows=lows, scales=scales, absolute=absolute
    )


def settle_costs(
    X: Floats,
    sites: Floats,
    costs: Floats,
    targets: Integers,
    labels: Integers,
    *,
    unpinned: bool = False,
    scales: Floats | None = None,
    absolute: bool = False,
) -> Floats:
    """Return costs with the same cells, if possible with no point on a border.

    Random steps, drawn from a digest of the points, prevent points from being computed from the
    borders. Equal points in two cells hold a border in place, which reveals their value; with
    ``unpinned`` they are ignored, and all of them may end up on one side.
    """
    count = len(sites)
    if count == 1:
        return np.zeros(1)
    rows = np.flatnonzero(~_split_equals(X, labels)) if unpinned else np.arange(len(X))
    points, cells = np.ascontiguousarray(X[rows]), labels[rows]
    each = np.ones(len(rows)) if scales is None else scales[rows]
    steps = np.random.default_rng(int(sha256(X.tobytes()).hexdigest(), 16)).uniform(
        -1.0, 1.0, size=count
    )
    reach, last = _reach(sites), count - 1 if count <= MANY_CELLS else min(count - 1, 2 * NEAR)
    while True:
        settled = costs.copy()
        near = _near(sites, reach)
        centre_costs(points, each, absolute, sites, settled, cells, near, steps, SWEEPS)
        settled = shift_costs(settled)
        if choose_again(points, each, absolute, sites, settled, targets, cells.copy()) == 0:
            return settled
        if reach >= last:
            break
        reach = min(last, 2 * reach)
    return shift_costs(costs)  # the settled costs would move points between cells


def shift_costs(costs: Floats) -> Floats:
    """Return the costs with 0 as the lowest, or as the median if the lowest is far from the others.

    Adding a constant changes no cell, but added to a huge constant the costs lose precision.
    """
    lowest = np.asarray(costs - costs.min())
    return np.asarray(costs - _middle(costs)) if _lost_digits(lowest) else lowest


ADJUSTMENTS: dict[str, Adjustment] = {
    "exact": adjust_exactly,
    "newton": adjust_by_newton,
    "noisy": adjust_exactly,  # after the cloud has collapsed to the points
}
"""Adjustments by the name of the option."""


def _split_equals(X: Floats, labels: Integers) -> Mask:
    """Return a mask of the points that have an equal point in another cell."""
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

DISSOLVED = 25
"""With variable sizes, one of this number of cells is dissolved at first."""

LOOKS, FEWEST = 3e9, 10
"""Limit on the distances and arcs to examine, which may reduce the rounds; minimum of rounds."""

CLOUD = 2_000_000
"""Default limit on the total number of noisy copies."""

CLOUD_END = 9e-4
"""Share of the first variance that the noise of the cloud falls to by default."""

_NOTHING = 1e-24
"""A sum of squares below this share of the total counts as 0: the cells hold equal points."""


@dataclass(frozen=True)
class Cloud:
    """Options of the noisy copies.

    ``copies`` per cell (about 200 if None); ``variance`` of the first noise, relative to the mean
    squared distance of the points to their sites; its ``decay`` per round (by default such that it
    ends at 0.0009 of the first); and the number of ``rounds``.
    """

    copies: int | None = None
    variance: float = 1.0
    decay: float | None = None
    rounds: int = 24

    DEFAULT_COPIES = 200

    def shares(self) -> Floats:
        """Return the variance of each round relative to the distance of points to their sites."""
        decay = CLOUD_END ** (1 / max(1, self.rounds - 1)) if self.decay is None else self.decay
        return np.asarray(self.variance * decay ** np.arange(self.rounds))


@dataclass(frozen=True, eq=False)
class Problem:
    """Points, the target size of each cell, and weights for the sites.

    With ``variable``, sizes may lie between it and its double minus 1, and targets are only a
    starting point. ``scales`` multiply the distances of each point when it is assigned.
    """

    X: Floats
    targets: Integers
    weights: Floats
    stop: Event = field(default_factory=Event)
    """Event that makes all work on the problem end soon."""
    distortion: Distortion = SQUARED
    scales: Floats | None = None
    variable: int | None = None

    def of(self, rows: Integers, targets: Integers) -> "Problem":
        """Return the problem restricted to some of the points, with other targets."""
        scales = None if self.scales is None else self.scales[rows]
        points = np.ascontiguousarray(self.X[rows])
        return replace(self, X=points, targets=targets, weights=self.weights[rows], scales=scales)

    def adjust(self, sites: Floats, costs: Floats, labels: Integers, adjust: str = "exact") -> int:
        """Adjust costs and labels until the sizes are right; return the amount of work (OUT)."""
        k, highs, lows = self.variable, self.targets, None
        if k is not None:
            highs, lows = np.full(len(sites), 2 * k - 1), np.full(len(sites), k)
        return ADJUSTMENTS[adjust](
            self.X, sites, costs, highs, labels,
            lows=lows, scales=self.scales, absolute=self.distortion.absolute,
        )  # fmt: skip

    def nearest(self, sites: Floats, costs: Floats) -> Integers:
        """Return, for each point, the cell with the least distance plus cost."""
        scales = np.ones(len(self.X)) if self.scales is None else self.scales
        return choose_scaled(self.X, scales, self.distortion.absolute, sites, costs)

    def sites(self, labels: Integers) -> Floats:
        """Return the best sites of the cells."""
        return self.distortion.sites(self.X, labels, self.weights)

    def check(self) -> None:
        """Raise KeyboardInterrupt if the work is to stop."""
        if self.stop.is_set():
            raise KeyboardInterrupt

    def losses(self, sites: Floats, labels: Integers) -> Floats:
        """Return the weighted distance of each point to the site of its cell."""
        out = np.zeros(len(self.X))
        for j in range(self.X.shape[1]):
            difference = self.X[:, j] - sites[labels, j]
            out += np.abs(difference) if self.distortion.absolute else difference**2
        return out * self.weights


@dataclass(frozen=True)
class Descent:
    """Options of a descent."""

    adjust: str = "exact"
    speed: float = 1.0
    iterations: int = 200
    tolerance: float = 3e-5
    cloud: Cloud = Cloud()


@dataclass(frozen=True, eq=False)
class Solution:
    """Cells with their sites and costs, and the non-increasing losses on the way.

    A loss is the sum of distances to the sites.
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
    speed = settings.speed
    sites, costs, labels = start.sites.copy(), start.costs.copy(), start.labels.copy()
    solution: Solution | None = None
    single = np.zeros_like(labels)
    nothing = _NOTHING * float(problem.losses(problem.sites(single), single).sum())
    for _ in range(1 if fixed else settings.iterations):
        problem.check()
        problem.adjust(sites, costs, labels, settings.adjust)
        loss = float(problem.losses(sites, labels).sum())
        last = np.inf if solution is None else solution.loss
        if solution is not None and loss > last:  # by rounding, or because of weights
            return solution
        history = () if solution is None else solution.history
        solution = Solution(labels.copy(), sites, costs.copy(), (*history, loss))
        if last - loss <= settings.tolerance * loss or loss <= nothing:
            if speed == 1.0 or loss <= nothing:
                break
            speed = 1.0
        best = problem.sites(labels)
        sites = best if speed == 1.0 else speed * best + (1.0 - speed) * sites
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
        looks, done = looks + part.adjust(sites, costs, labels), done + 1
        passed += 1.0 / min(rounds, max(FEWEST, LOOKS * done / max(looks, 1)))
        means = part.sites(labels)
        spread = _clip_outliers(
            np.bincount(labels, weights=part.losses(means, labels)) / np.bincount(labels)
        )
        steps = spread / m if part.distortion.absolute else np.sqrt(spread / m)
        drawn = noise * steps[:, np.newaxis] * rng.normal(size=means.shape)
        sites = part.distortion.project(means + drawn)
    final = labels if part is problem else start.labels
    return Solution(final, part.sites(labels), costs, start.history)


def _clip_outliers(spread: Floats) -> Floats:
    """Limit the spreads, so that the cell of an outlier does not jump across all others."""
    positive = spread[spread > 0]
    return np.minimum(spread, USUAL * np.median(positive)) if len(positive) else spread


def _sample(
    problem: Problem, labels: Integers, rng: np.random.Generator
) -> tuple[Problem, Integers]:
    """Return a representative sample with proportional sizes, and labels of these sizes."""
    n, targets = len(problem.X), problem.targets
    if n <= 2 * SAMPLED_CELL * len(targets) or problem.variable is not None:
        return problem, labels.copy()
    shares = targets * (SAMPLED_CELL * len(targets) / n)
    fewer = np.minimum(np.maximum(1, shares.astype(np.int64)), targets)
    rows = np.sort(rng.choice(n, size=int(fewer.sum()), replace=False))
    return problem.of(rows, fewer), np.repeat(np.arange(len(fewer)), fewer)


def disperse(problem: Problem, start: Solution, cloud: Cloud, rng: np.random.Generator) -> Solution:
    """Improve a start with clouds of noisy copies of the points, whose variance falls to zero.

    The cells of a cloud are large enough for Newton's method to balance them. The copies of a point
    share its weight; they are drawn anew in every round, and the point itself is one of them.
    """
    n, m = problem.X.shape
    per_cell = cloud.DEFAULT_COPIES if cloud.copies is None else cloud.copies
    copies = max(2, round(per_cell * len(problem.targets) / n))
    if cloud.copies is None:
        copies = min(copies, max(2, CLOUD // n))
    points, each = np.repeat(problem.X, copies, axis=0), np.repeat(problem.weights, copies)
    is_noisy = (np.arange(n * copies) % copies > 0)[:, np.newaxis]
    spread = np.sqrt(problem.losses(start.sites, start.labels).mean() / max(1, m))
    sites, costs, targets = start.sites, start.costs, problem.targets * copies
    for turn, variance in enumerate(cloud.shares()):
        problem.check()
        progress.report("reducing the noise", turn, cloud.rounds)
        noise = rng.normal(size=points.shape) * is_noisy
        noise *= np.sqrt(variance) * spread
        noise += points
        costs = balance_costs(noise, sites, costs, targets, tolerance=0.02)
        labels = choose_cells(noise, sites, costs)
        sites, costs = rescue(noise, labels, sites, costs, targets)
        sites = _means(noise, labels, each, sites)
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
"""Maximum number of macrocells; more are themselves built within macrocells."""

_MACRO = Descent(iterations=15, tolerance=1e-3)

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, eq=False)
class Settings:
    """All checked options of PCL."""

    start: str | Floats
    costs: Floats
    """Initial costs; 0 unless passed in with the sites."""
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
    if problem.variable is not None:
        return _solve_variable(problem, settings, turn, rng)
    start = _start_solution(problem, settings.start if turn == 0 else "random", settings, rng)
    if not settings.fixed:
        start = _leave_points(problem, start)
        if settings.descent.adjust == "noisy":
            start = disperse(problem, start, settings.descent.cloud, rng)
        start = shake(problem, start, _shakes(problem, settings), rng)
    return descend(problem, start, settings.descent, fixed=settings.fixed)


def _solve_variable(
    problem: Problem, settings: Settings, turn: int, rng: np.random.Generator
) -> Solution:
    """Return cells of k to 2k - 1 points, whose sizes are found together with the costs.

    The start has the cells of a method, or as many as possible. The cells that are cheapest to
    dissolve are then removed, in smaller and smaller numbers, as long as the loss falls.
    """
    start = _variable_start(problem, settings.start if turn == 0 else "random", settings, rng)
    best = descend(problem, start, settings.descent, fixed=settings.fixed)
    if settings.fixed:
        return best
    best = _better(problem, settings, best, best, rng)
    n, k = len(problem.X), problem.variable
    assert k is not None
    step = max(1, len(best.sites) // DISSOLVED)
    while step > 0:
        trial = best
        if (len(best.sites) - step) * (2 * k - 1) >= n and len(best.sites) > step:
            trial = _better(problem, settings, best, _dissolve(problem, best, step), rng)
        step = step // 2 if trial is best else step
        best = trial
    return best


def _better(
    problem: Problem, settings: Settings, best: Solution, start: Solution, rng: np.random.Generator
) -> Solution:
    """Shake and descend from ``start``; return the result if it is better than ``best``."""
    rounds = _shakes(problem, settings)
    trial = descend(problem, shake(problem, start, rounds, rng), settings.descent)
    return trial if trial.loss < best.loss else best


def _dissolve(problem: Problem, solution: Solution, count: int) -> Solution:
    """Return the solution without the cells whose points lose least in their next nearest cell."""
    n, sites = len(problem.X), np.ascontiguousarray(solution.sites)
    best, second = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    choose_two(problem.X, sites, np.zeros(len(sites)), best, second, np.empty(n))
    others = np.where(best == solution.labels, second, best)
    losses = problem.losses(sites, others) - problem.losses(sites, solution.labels)
    order = np.argsort(np.bincount(solution.labels, weights=losses), kind="stable")
    kept = np.sort(order[count:])
    place = np.full(len(sites), -1)
    place[kept] = np.arange(len(kept))
    labels = np.where(place[solution.labels] >= 0, place[solution.labels], place[others])
    return Solution(np.maximum(labels, 0), sites[kept], solution.costs[kept], ())


def _variable_start(
    problem: Problem, start: str | Floats, settings: Settings, rng: np.random.Generator
) -> Solution:
    """Return the sites of a method's cells, random points, or the sites that were passed in."""
    X, k, n = problem.X, problem.variable, len(problem.X)
    assert k is not None
    if not isinstance(start, str):
        labels = np.arange(n) % len(start)
        return Solution(labels, start, settings.costs.copy(), ())
    fewest, most = -(-n // (2 * k - 1)), n // k
    labels, sites = np.arange(n) % most, X[rng.choice(n, size=most, replace=False)]
    if start != "random" and n > k:
        choice = choose_method(X, k, start, {}, n)
        labels, _ = run_choice(X, k, choice, problem.weights, settings.seed)
        # A method may leave fewer cells than their largest size allows.
        sites = np.concatenate([problem.sites(labels), sites])[: max(fewest, labels.max() + 1)]
    return Solution(labels, np.ascontiguousarray(sites), np.zeros(len(sites)), ())


def _leave_points(problem: Problem, start: Solution) -> Solution:
    """Move sites to the centroids once: a site equal to a point would reveal it in files."""
    costs, labels = start.costs.copy(), start.labels.copy()
    problem.adjust(start.sites, costs, labels)
    return Solution(labels, problem.sites(labels), costs, ())


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
        sites, costs = rescue(problem.X, problem.nearest(sites, costs), sites, costs, targets)
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
    sites = problem.sites(method_labels)[largest]
    return labels, np.ascontiguousarray(np.concatenate([sites, drawn[len(sites) :]]))


def as_power_solution(problem: Problem, solution: Solution) -> PowerSolution:
    """Return the solution as power cells."""
    sizes, absolute = np.bincount(solution.labels), problem.distortion.absolute
    costs = settle_costs(
        problem.X, solution.sites, solution.costs, sizes, solution.labels,
        scales=problem.scales, absolute=absolute,
    )  # fmt: skip
    kind = AbsoluteCells if absolute else PowerCells
    cells = kind(centroids=solution.sites, sizes=sizes, k=int(sizes.min()), costs=costs)
    return PowerSolution(solution.labels, cells, solution.history)


def _solve_within(problem: Problem, settings: Settings, macrocells: int) -> PowerSolution:
    """Solve within macrocells, which PCL forms with the total sizes of their cells."""
    parts = np.array_split(np.arange(len(problem.targets)), macrocells)
    sizes = np.array([problem.targets[part].sum() for part in parts])
    progress.report("making macrocells")
    coarse = solve(
        replace(problem, targets=sizes, variable=None),
        replace(settings, start="mdav", descent=_MACRO, shakes=0, restarts=1, prepartition=1),
    )
    rows = np.split(np.argsort(coarse.labels, kind="stable"), np.cumsum(sizes)[:-1])

    def solve_part(turn: int) -> PowerSolution:
        inside = rows[turn]
        inner = problem.of(inside, problem.targets[parts[turn]])
        shakes = _shakes(inner, settings) // (1 if settings.shakes is not None else macrocells)
        return solve(inner, replace(settings, seed=settings.seed + turn, shakes=shakes))

    solved = _in_parallel(problem, solve_part, list(range(macrocells)), "macrocells")
    labels, first = np.empty(len(problem.X), dtype=np.int64), 0
    for inside, inner in zip(rows, solved, strict=True):
        labels[inside] = first + inner.labels
        first += len(inner.cells)
    cells = type(coarse.cells).within(coarse.cells, [inner.cells for inner in solved])
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
