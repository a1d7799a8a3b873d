"""The descent of probability-constrained Lloyd: costs adjusted, points assigned, sites moved, while that gains."""

from dataclasses import dataclass, field
from threading import Event

import numpy as np

from microcell import progress
from microcell.kernels.cells import centroids
from microcell.kernels.newton import balance_costs
from microcell.kernels.transport import choose_cells
from microcell.model import Floats, Integers
from microcell.partitioning._costs import ADJUSTMENTS, adjust_exactly

__all__ = ["Descent", "Found", "Problem", "descend", "disperse", "rescue", "shake"]

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
    nothing = _NOTHING * float(problem.losses(problem.X.mean(axis=0, keepdims=True), np.zeros_like(labels)).sum())
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
        spread = _without_outliers(np.bincount(labels, weights=part.losses(means, labels)) / part.targets)
        sites = means + noise * np.sqrt(spread / m)[:, np.newaxis] * chance.normal(size=means.shape)
    return Found(start.labels, centroids(part.X, labels, part.weights), costs, start.history)


def _without_outliers(spread: Floats) -> Floats:
    """The spreads, none far above the usual: the cell of an outlier must not leap over all others."""
    positive = spread[spread > 0]
    return np.minimum(spread, USUAL * np.median(positive)) if len(positive) else spread


def _sample(problem: Problem, labels: Integers, chance: np.random.Generator) -> tuple[Problem, Integers]:
    """A part of the points that stands for all, with sizes in proportion; labels of these sizes."""
    n, targets = len(problem.X), problem.targets
    if n <= 2 * SAMPLED_CELL * len(targets):
        return problem, labels.copy()
    shares = targets * (SAMPLED_CELL * len(targets) / n)
    fewer = np.minimum(np.maximum(1, shares.astype(np.int64)), targets)
    rows = np.sort(chance.choice(n, size=int(fewer.sum()), replace=False))
    part = Problem(np.ascontiguousarray(problem.X[rows]), fewer, problem.weights[rows], problem.stop)
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


def rescue(X: Floats, labels: Integers, sites: Floats, costs: Floats, targets: Integers) -> tuple[Floats, Floats]:
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
