"""Probability-constrained Lloyd (PCL): power cells of prescribed sizes and low distortion."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell import progress
from microcell._display import record_html, record_repr
from microcell._validation import as_weights
from microcell.cells import PowerCells
from microcell.errors import DataError, OptionError
from microcell.kernels.arrays import centroids
from microcell.kernels.transport import choose_scaled
from microcell.methods.distortions import SQUARED, Distortion, fit_distortion
from microcell.methods.lloyd import (
    Descent,
    PowerSolution,
    Problem,
    Solution,
    as_power_solution,
    descend,
    solve,
)
from microcell.methods.pcl_options import (
    MOST_POWER_CELLS,
    as_demand,
    as_targets,
    check_cloud,
    check_count,
    check_draws,
    check_points,
    check_problem,
    check_settings,
    invalid,
    is_variable,
    split_demand,
)
from microcell.methods.registry import REQUESTED, partitioner
from microcell.model import Floats, Integers, Partition

__all__ = ["Attained", "Quantization", "find_sampler", "pcl", "power_cells"]

_POLISH = Descent(speed=1.0, tolerance=0.0)


@dataclass(frozen=True, eq=False)
class Attained:
    """Shares of fresh points that fall into each cell, with 95 % confidence intervals (Wilson)."""

    designed: Floats
    """Requested share of each cell."""
    shares: Floats
    low: Floats
    high: Floats
    points: int
    """Number of fresh points."""

    __repr__ = record_repr
    _repr_html_ = record_html

    @property
    def outside(self) -> int:
        """Number of cells whose designed share is outside the interval; 5 % are by chance."""
        missed = (self.designed < self.low) | (self.designed > self.high)
        return int(np.count_nonzero(missed))

    @classmethod
    def of(cls, labels: Integers, designed: Floats) -> "Attained":
        """Count the labels of fresh points."""
        n, z = len(labels), 1.959963984540054
        shares = np.bincount(labels, minlength=len(designed)) / n
        centre = (shares + z * z / (2 * n)) / (1 + z * z / n)
        half = z * np.sqrt(shares * (1 - shares) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        return cls(designed, shares, centre - half, centre + half, n)


@dataclass(frozen=True, eq=False)
class Quantization:
    """The result of :func:`pcl`: partition, power cells, and the non-increasing distortions.

    ``history`` is that of the best start, one entry per iteration: distances to the sites over
    distances to the best single site. With a distance other than "squared" and "absolute", the
    cells are in the space of :meth:`Distortion.embed`; use :meth:`assign` and :attr:`sites`.
    """

    partition: Partition
    cells: PowerCells
    history: tuple[float, ...]
    distortion: Distortion = field(default=SQUARED, repr=False)
    loads: Floats | None = None
    """Demand of the points in each cell, if a demand was passed in."""
    attained: Attained | None = None
    """Shares of fresh points, if the cells were designed for a sampler."""

    __repr__ = record_repr
    _repr_html_ = record_html

    @property
    def labels(self) -> Integers:
        """Cell of each point."""
        return self.partition.labels

    @property
    def sites(self) -> Any:
        """Site of each cell, in the form of the records: mean, median, mode or medoid."""
        return self.distortion.decode(self.cells.centroids)

    def assign(
        self, X: Any, *, weights: ArrayLike | None = None, demand: ArrayLike | None = None
    ) -> Integers:
        """Return the cell of each record, with its weight and demand if the cells have them."""
        points = self.distortion.embed(X)
        if weights is None and demand is None:
            return self.cells.assign(points)
        each = _ratio(as_weights(weights, len(points)), as_demand(demand, len(points)))
        sites, absolute = self.cells.centroids.copy(), self.distortion.absolute
        return choose_scaled(points, each, absolute, sites, self.cells.costs.copy())

    def measure(self, X: Any) -> Attained:
        """Return the shares of fresh records that fall into each cell."""
        return Attained.of(self.assign(X), self.cells.sizes / self.cells.sizes.sum())


def pcl(
    X: ArrayLike | Callable[..., Any],
    k: int | None = None,
    *,
    sizes: ArrayLike | str | None = None,
    probabilities: ArrayLike | None = None,
    start: Any = "mdav",
    costs: ArrayLike | None = None,
    fixed: bool = False,
    adjust: str = "exact",
    copies: int | None = None,
    variance: float | None = None,
    decay: float | None = None,
    rounds: int | None = None,
    speed: float = 1.0,
    iterations: int = 200,
    tolerance: float = 3e-5,
    shakes: int | None = None,
    restarts: int = 1,
    prepartition: int | None = None,
    distance: str = "squared",
    taxonomy: Any = None,
    weights: ArrayLike | None = None,
    demand: ArrayLike | None = None,
    draws: int = 100_000,
    seed: int = 0,
) -> Quantization:
    """Make cells of prescribed sizes and low distortion, with costs that define a power diagram.

    Given sites xh(q) and costs c(q), a point goes to the cell with the least ||x - xh(q)||^2 +
    c(q). Costs that give the cells their sizes minimize the distortion for the sites, and centroids
    minimize it for the cells. The two steps alternate (Rebollo-Monedero, Forne, Pallares and
    Parra-Arnau 2013). Time O(n Q m) per iteration for Q cells.

    Parameters
    ----------
    X
        Points, one per row, used without further scaling. Or a sampler: a function ``(n, rng)``
        that returns n random points, or an object with a method ``rvs``, ``resample`` or ``sample``
        such as a distribution of SciPy or a density of scikit-learn. The cells are then designed
        for ``draws`` random points, and ``attained`` holds the shares of as many fresh points.
    k, sizes, probabilities
        Exactly one of them: floor(n / k) cells of sizes as equal as possible; the size of each
        cell, adding up to n; or its share of the points, adding up to 1. Or ``k`` with
        ``sizes="variable"``: cells of k to 2k - 1 points, whose number and sizes are chosen
        together with the costs.
    start
        "mdav", "auto" or another registered method, "random" for random points, or a matrix of
        centroids, one per cell.
    costs
        Initial costs for a matrix of centroids, one per cell. Default: 0. Those of an earlier run
        on similar points save most of the time.
    fixed
        Keep the centroids of ``start``: an allocation of points to places of limited capacity.
    adjust
        How costs are found: "exact", by shortest paths; "newton", by Newton's method and then
        exactly, for large cells; "noisy", on clouds of noisy copies first, for small cells.
    copies, variance, decay, rounds
        For "noisy": the number of copies per cell (default 200); the variance of the first noise,
        relative to the mean squared distance of points to their sites (default 1); the factor by
        which it falls in each round (default: such that it ends at 0.0009 of the first); and the
        number of rounds (default 24).
    speed, iterations, tolerance
        How far sites move to the centroids in each iteration (above 0, at most 1; the papers use
        1/2, which was slower and no better), the maximum number of iterations, and the relative
        gain at which to stop.
    shakes
        Initial rounds in which sites also take random steps, shorter and shorter, to find a better
        local optimum. Default: fewer for large tables.
    restarts
        Number of starts, of which the best is kept: the requested one, and others from random
        points.
    prepartition
        Number of macrocells within which cells are made independently and in parallel. Default:
        used with more than 2,000 cells.
    distance
        "squared" (Euclidean; sites are means), "absolute" (medians), "spherical" (squared chords of
        directions; mean directions), "mahalanobis" (squared, after decorrelating the columns;
        means), or for categories "hamming" (share of columns that differ; modes) and "taxonomic"
        (path in a taxonomy; medoids).
    taxonomy
        For "taxonomic": the parent of each category as a mapping, or one mapping per column.
    weights
        One positive number per point, for the distortion. Without a demand they only affect the
        sites, so that cells depend on the points alone.
    demand
        One integer of at least 1 per point, for the sizes: they then add up to the total demand,
        and a point of weight w and demand v goes to the cell with the least w d(x, xh) + v c. Up to
        Q - 1 points would have to be split to meet the sizes exactly; they go to the cell of their
        largest part, and ``loads`` holds the resulting demand.
    draws
        Number of points to draw from a sampler.
    seed
        Random seed. The same seed gives the same cells ("noisy": with the same number of linear
        algebra threads).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> result = pcl(X, sizes=[50, 30, 20])
    >>> result.partition.sizes
    array([50, 30, 20])
    >>> bool((result.cells.assign(X) == result.labels).all())
    True
    """
    check_count("seed", seed, 0)
    sampler, rng = find_sampler(X), np.random.default_rng([seed, 2013])
    records: Any = X if sampler is None else sampler(check_draws(draws), rng)
    distortion = fit_distortion(records, distance, taxonomy)
    points = check_points(records) if distortion.same_space else distortion.embed(records)
    each, units = as_weights(weights, len(points)), as_demand(demand, len(points))
    n = len(points) if units is None else int(units.sum())
    targets = as_targets(n, k, None if is_variable(sizes) else sizes, probabilities)
    cloud = check_cloud(adjust, copies, variance, decay, rounds, len(targets))
    descent = Descent(adjust, speed, iterations, tolerance, cloud)
    bounds = None if not is_variable(sizes) else k
    settings = check_settings(
        points, targets, start, costs, fixed, descent, shakes, restarts, prepartition, seed, bounds
    )
    problem = _as_problem(points, targets, each, units, distortion, bounds)
    check_problem(problem, settings)
    result = _as_quantization(problem, solve(problem, settings), units)
    return (
        result if sampler is None else replace(result, attained=result.measure(sampler(draws, rng)))
    )


def find_sampler(X: Any) -> Callable[[int, np.random.Generator], Any] | None:
    """Return a function that draws n points, or None if ``source`` is a matrix of points."""
    if hasattr(X, "rvs"):
        return lambda n, rng: X.rvs(size=n, random_state=rng)
    if hasattr(X, "resample"):  # a kernel density of SciPy has a column per point
        return lambda n, rng: np.asarray(X.resample(n, seed=rng)).T
    if callable(X):
        return X  # type: ignore[no-any-return]
    if hasattr(X, "sample") and hasattr(X, "fit"):  # scikit-learn
        return lambda n, rng: _sample_density(X, n, rng)
    return None


def _sample_density(density: Any, n: int, rng: np.random.Generator) -> Any:
    """Draw from a density or a mixture of scikit-learn, which also returns the components."""
    state = int(rng.integers(2**31))
    if hasattr(density, "means_"):
        # A mixture takes its seed from an attribute, which is put back.
        before, density.random_state = density.random_state, state
        try:
            return density.sample(n)[0]
        finally:
            density.random_state = before
    return density.sample(n, random_state=state)


def _ratio(weights: Floats | None, demand: Integers | None) -> Floats:
    """Return the weight of each point per unit of demand."""
    each = weights if weights is not None else demand
    assert each is not None
    return each / (np.ones(len(each)) if demand is None else demand)


def _as_problem(
    points: Floats,
    targets: Integers,
    weights: Floats | None,
    demand: Integers | None,
    distortion: Distortion,
    variable: int | None,
) -> Problem:
    """Return the problem; a point with a demand becomes as many equal points."""
    each = np.ones(len(points)) if weights is None else weights
    if demand is None:
        return Problem(points, targets, each, distortion=distortion, variable=variable)
    ratio = np.repeat(each / demand if weights is not None else np.ones(len(points)), demand)
    units = np.repeat(points, demand, axis=0)
    return Problem(
        units, targets, ratio, distortion=distortion, scales=ratio.copy(), variable=variable
    )


def power_cells(
    X: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None
) -> Quantization:
    """Convert a partition into power cells of the same sizes, without raising the distortion.

    Starting from the centroids, costs that give the same sizes are found and points are reassigned,
    until nothing changes. Assignment ignores ``weights``, so with them the distortion may rise.
    Time as for :func:`pcl`; up to 20,000 cells.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = power_cells(X, np.arange(60) % 3)
    >>> result.partition.sizes, bool((result.cells.assign(X) == result.labels).all())
    (array([20, 20, 20]), True)
    """
    points = check_points(X)
    initial = Partition(np.asarray(labels), 1)
    if len(initial.labels) != len(points):
        raise invalid(
            "labels",
            f"must have one cell number per row ({len(points)}), not {len(initial.labels)}.",
        )
    if len(initial) > MOST_POWER_CELLS:
        raise OptionError(
            f"At most {MOST_POWER_CELLS:,} power cells can be made at once, not {len(initial):,}. "
            "Use method='pcl', which makes cells within macrocells.",
            code="option.out_of_range",
            option="labels",
            cells=len(initial),
        )
    each = as_weights(weights, len(points))
    problem = Problem(points, initial.sizes.copy(), np.ones(len(points)) if each is None else each)
    sites = centroids(points, initial.labels, problem.weights)
    loss = float(problem.losses(sites, initial.labels).sum())
    start = Solution(initial.labels, sites, np.zeros(len(sites)), (loss,))
    progress.report("finding power cells")
    solution = descend(problem, start, _POLISH)
    return _as_quantization(problem, as_power_solution(problem, solution))


@partitioner(
    "pcl",
    summary="probability-constrained Lloyd: convex cells of equal sizes, which can assign "
    "further records",
    sizes="n / floor(n/k), rounded down or up (k to 2k-1 if variable)",
    cost="n^2 / k distances per iteration (n beyond 2,000 cells)",
    source="Rebollo-Monedero, Forne, Pallares and Parra-Arnau 2013",
    randomized=True,
)
def pcl_labels(
    X: Floats,
    k: int,
    *,
    weights: Floats | None,
    seed: int,
    restarts: int = 1,
    start: str = "mdav",
    sizes: str | None = None,
    distance: str = "squared",
    adjust: str = "exact",
    copies: int | None = None,
    variance: float | None = None,
    decay: float | None = None,
    rounds: int | None = None,
    speed: float = 1.0,
    iterations: int = 200,
    shakes: int | None = None,
    prepartition: int | None = None,
) -> Integers:
    """Return labels by :func:`pcl`, with the options that apply to any table."""
    result = pcl(
        X,
        k,
        sizes=sizes,
        start=start,
        distance=distance,
        adjust=adjust,
        copies=copies,
        variance=variance,
        decay=decay,
        rounds=rounds,
        speed=speed,
        iterations=iterations,
        shakes=shakes,
        restarts=restarts,
        prepartition=prepartition,
        weights=weights,
        seed=seed,
    )
    return result.labels


def _as_quantization(
    problem: Problem, solution: PowerSolution, demand: Integers | None = None
) -> Quantization:
    single = np.zeros_like(solution.labels)
    total = float(problem.losses(problem.sites(single), single).sum())
    history = tuple(0.0 if total == 0 else loss / total for loss in solution.history)
    labels, loads = solution.labels, None
    if demand is not None:
        labels = _keep_whole(labels, demand, len(solution.cells))
        units = np.bincount(labels, weights=demand, minlength=len(solution.cells))
        loads = np.asarray(units, dtype=np.float64)
    partition = Partition(labels, int(np.bincount(labels).min()), method="pcl", reason=REQUESTED)
    return Quantization(partition, solution.cells, history, problem.distortion, loads)


def _keep_whole(labels: Integers, demand: Integers, count: int) -> Integers:
    """Assign each point to the cell that holds most of its demand, and leave no cell empty."""
    row, cell, amount = split_demand(np.repeat(np.arange(len(demand)), demand), labels)
    first = np.concatenate([[True], row[1:] != row[:-1]])
    whole: Integers = cell[first].copy()
    for empty in np.setdiff1d(np.arange(count), whole):
        sizes = np.bincount(whole, minlength=count)
        parts = np.flatnonzero((cell == empty) & (sizes[whole[row]] > 1))
        if len(parts) == 0:
            raise DataError(
                "demand cannot be met by whole points: a cell would be left without any. Use fewer "
                "cells or a smaller demand.",
                code="data.invalid",
                option="demand",
            )
        whole[row[parts[np.argmax(amount[parts])]]] = empty
    return whole
