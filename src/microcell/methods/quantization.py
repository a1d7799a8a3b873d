"""Probability-constrained Lloyd (PCL): power cells of prescribed sizes and low distortion."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell import progress
from microcell._display import count, record_html, record_repr
from microcell._validation import as_points, as_reals, as_weights, check_k
from microcell.cells import AbsoluteCells, PowerCells
from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.kernels.arrays import centroids
from microcell.kernels.exchange import find_near_cells
from microcell.kernels.transport import choose_scaled
from microcell.methods.distortions import SQUARED, Distortion, fit_distortion
from microcell.methods.lloyd import (
    ADJUSTMENTS,
    Cloud,
    Descent,
    PowerSolution,
    Problem,
    Settings,
    Solution,
    adjust_exactly,
    as_power_solution,
    descend,
    settle_costs,
    solve,
)
from microcell.methods.registry import METHODS, REQUESTED, partitioner
from microcell.model import Floats, Integers, Partition

__all__ = [
    "MOST_POWER_CELLS",
    "Attained",
    "Quantization",
    "as_targets",
    "blur_centroids",
    "blur_sites",
    "equal_sizes",
    "pcl",
    "power_cells",
    "split_demand",
    "unpin",
]


def equal_sizes(n: int, count: int) -> Integers:
    """Return the sizes of ``count`` cells, as equal as possible, the larger ones first."""
    return np.full(count, n // count) + (np.arange(count) < n % count)


def as_targets(n: int, k: Any, sizes: Any, probabilities: Any) -> Integers:
    """Return the size of each cell from exactly one of k, sizes and probabilities.

    Sizes are at least 1 and add up to n.

    Examples
    --------
    >>> as_targets(11, 3, None, None)
    array([4, 4, 3])
    >>> as_targets(10, None, None, [0.25, 0.75])
    array([3, 7])
    """
    if sum(value is not None for value in (k, sizes, probabilities)) != 1:
        raise OptionError(
            "Pass exactly one of k, sizes and probabilities.", code="option.conflict", option="k"
        )
    if k is not None:
        check_k(k)
        if n < k:
            raise TooFewRecordsError(
                f"{count(n, 'record')} cannot form a cell of k = {k}. Lower k or add records.",
                code="guarantee.too_few_records",
                k=int(k),
                records=n,
            )
        return equal_sizes(n, n // int(k))
    return _from_sizes(n, sizes) if sizes is not None else _from_probabilities(n, probabilities)


def _from_sizes(n: int, sizes: Any) -> Integers:
    values = list(np.asarray(sizes).ravel()) if np.ndim(sizes) == 1 else []
    if not values or not all(_is_whole(value) for value in values):
        raise _invalid("sizes", "must be integers, one per cell, such as [40, 40, 20].")
    if any(abs(int(value)) > 2**62 for value in values):
        raise _invalid(
            "sizes",
            f"must add up to the number of points ({n}), but one of them is far larger.",
        )
    out = np.array([int(value) for value in values], dtype=np.int64)
    if (out < 1).any():
        place = int(np.argmax(out < 1))
        raise _invalid(
            "sizes",
            f"must be at least 1, but the size of cell {place} is {out[place]}.",
        )
    if len(out) > n:
        raise _invalid(
            "sizes",
            f"must have at most one cell per point ({n} in total), not {len(out)} cells.",
        )
    if out.sum() != n:
        raise _invalid("sizes", f"must add up to the number of points ({n}), not {out.sum()}.")
    return out


def _invalid(option: str, problem: str) -> OptionError:
    return OptionError(f"{option} {problem}", code="option.invalid", option=option)


def _is_whole(value: Any) -> bool:
    return not isinstance(value, (bool, np.bool_)) and (
        isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    )


def _from_probabilities(n: int, probabilities: Any) -> Integers:
    """Return the sizes nearest to n times the probabilities, by the largest-remainder method."""
    problem = "must be positive numbers, one per cell, such as [0.4, 0.4, 0.2]."
    shares = as_reals(probabilities, f"probabilities {problem}")
    if shares.ndim != 1 or len(shares) == 0 or not np.isfinite(shares).all() or (shares <= 0).any():
        raise _invalid("probabilities", problem)
    if abs(shares.sum() - 1.0) > 1e-9:
        raise _invalid("probabilities", f"must add up to 1, not {shares.sum():.9g}.")
    exact = shares * n
    out = np.floor(exact + 1e-9).astype(np.int64)
    short = n - int(out.sum())
    out[np.argsort(out - exact, kind="stable")[:short]] += 1
    if (out < 1).any():
        place = int(np.argmax(out < 1))
        raise _invalid(
            "probabilities",
            f"would leave cell {place} without any of the {n} points. Raise its probability or add "
            "points.",
        )
    return out


MOST_POWER_CELLS = 20_000
"""Finding the costs of more cells at once would take too long."""

FARTHEST = 1e100
"""Maximum coordinate of a centroid; larger squares would overflow."""

MOST_UNITS = 5_000_000
"""Maximum total demand, and maximum number of noisy copies or of points drawn from a sampler."""

VARIABLE = "variable"
"""The value of ``sizes`` for cells of k to 2k - 1 points."""

_POLISH = Descent(speed=1.0, tolerance=0.0)


@dataclass(frozen=True, eq=False)
class Attained:
    """Shares of fresh points that fall into each cell, with 95 % confidence intervals (Wilson)."""

    designed: Floats
    """Share of each cell that was asked for."""
    shares: Floats
    low: Floats
    high: Floats
    points: int
    """Number of fresh points."""

    __repr__ = record_repr

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

    Given sites xh(q) and costs c(q), a point goes to the cell of least ||x - xh(q)||^2 + c(q).
    Costs that give the cells their sizes minimize the distortion for the sites, and centroids
    minimize it for the cells. The two steps alternate (Rebollo-Monedero, Forne, Pallares and
    Parra-Arnau 2013). Time O(n Q m) per iteration for Q cells.

    Parameters
    ----------
    X
        Points, one per row, used without further scaling. Or a sampler: a function ``(n, rng)``
        that returns n random points, or an object with a method ``rvs``, ``resample`` or ``sample``
        such as a distribution of SciPy or a density of scikit-learn. The cells are then designed
        for ``draws`` random points, and ``attained`` tells the shares of as many fresh ones.
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
        and a point of weight w and demand v goes to the cell of least w d(x, xh) + v c. Up to Q - 1
        points would have to be split to meet the sizes exactly; they go to the cell of their
        largest part, and ``loads`` tells the result.
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
    _check_count("seed", seed, 0)
    sampler, rng = find_sampler(X), np.random.default_rng([seed, 2013])
    records: Any = X if sampler is None else sampler(_check_draws(draws), rng)
    distortion = fit_distortion(records, distance, taxonomy)
    points = _check_points(records) if distortion.same_space else distortion.embed(records)
    each, units = as_weights(weights, len(points)), as_demand(demand, len(points))
    n = len(points) if units is None else int(units.sum())
    targets = as_targets(n, k, None if _is_variable(sizes) else sizes, probabilities)
    cloud = _check_cloud(adjust, copies, variance, decay, rounds, len(targets))
    descent = Descent(adjust, speed, iterations, tolerance, cloud)
    bounds = None if not _is_variable(sizes) else k
    settings = _check_settings(
        points, targets, start, costs, fixed, descent, shakes, restarts, prepartition, seed, bounds
    )
    problem = _as_problem(points, targets, each, units, distortion, bounds)
    _check_problem(problem, settings)
    result = _as_quantization(problem, solve(problem, settings), units)
    return (
        result if sampler is None else replace(result, attained=result.measure(sampler(draws, rng)))
    )


def _is_variable(sizes: Any) -> bool:
    if isinstance(sizes, str) and sizes != VARIABLE:
        raise OptionError(
            f"sizes must be integers, one per cell, or {VARIABLE!r}, not {sizes!r}.",
            code="option.invalid",
            option="sizes",
        )
    return isinstance(sizes, str)


def find_sampler(X: Any) -> Callable[[int, np.random.Generator], Any] | None:
    """Return a function that draws n points, or None for points."""
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


def _check_draws(draws: Any) -> int:
    _check_count("draws", draws, 1)
    if draws > MOST_UNITS:
        raise OptionError(
            f"draws must be at most {MOST_UNITS:,}, not {draws:,}.",
            code="option.out_of_range",
            option="draws",
        )
    return int(draws)


def as_demand(demand: Any, rows: int, name: str = "demand") -> Integers | None:
    """Return the demand of each point as integers of at least 1; None without a demand."""
    if demand is None:
        return None
    problem = f"must be {rows} integers of at least 1, one per point."
    values = as_reals(demand, f"{name} {problem}")
    whole = values.shape == (rows,) and bool(
        (np.isfinite(values) & (values >= 1) & (values == np.floor(values))).all()
    )
    if not whole:
        raise DataError(f"{name} {problem}", code="data.bad_weight", option=name)
    if values.sum() > MOST_UNITS:
        raise DataError(
            f"{name} adds up to {values.sum():,.0f}, more than {MOST_UNITS:,}. Count in larger "
            "units.",
            code="data.out_of_range",
            option=name,
        )
    return values.astype(np.int64)


def _ratio(weights: Floats | None, demand: Integers | None) -> Floats:
    """Return the distortion that counts per unit of demand."""
    given = weights if weights is not None else demand
    assert given is not None
    return given / (np.ones(len(given)) if demand is None else demand)


def split_demand(rows: Integers, labels: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the parts of each point: its row, a cell, and the units of its demand there.

    The parts of a point follow each other, the largest first.

    Examples
    --------
    >>> split_demand(np.array([0, 0, 0, 1]), np.array([2, 5, 5, 2]))
    (array([0, 0, 1]), array([5, 2, 2]), array([2, 1, 1]))
    """
    width = int(labels.max()) + 1
    pairs, amounts = np.unique(rows * width + labels, return_counts=True)
    row, cell = np.divmod(pairs, width)
    order = np.lexsort((cell, -amounts, row))
    return row[order], cell[order], amounts[order].astype(np.int64)


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
    """Convert a partition into power cells of the same sizes and no more distortion.

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
    points = _check_points(X)
    initial = Partition(np.asarray(labels), 1)
    if len(initial.labels) != len(points):
        raise _invalid(
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


def blur_sites(
    cells: PowerCells, X: Floats, labels: Integers, finest: Floats
) -> tuple[PowerCells, Integers]:
    """Return cells of the same sizes with blurred sites, and the new labels.

    An exact site is the mean of its cell and so reveals the exact sum of each column. The sites are
    moved by :func:`blur_centroids`; costs and labels are then adjusted. Within macrocells only the
    sites of the cells are moved: a macrocell has thousands of records.
    """
    sites, costs, labels = cells.centroids.copy(), cells.costs.copy(), labels.copy()
    group = np.zeros(len(cells), dtype=np.int64) if cells.group is None else cells.group
    parts = group[labels]
    for part in np.unique(group):
        inside, rows = np.flatnonzero(group == part), np.flatnonzero(parts == part)
        points, members = np.ascontiguousarray(X[rows]), np.searchsorted(inside, labels[rows])
        blurred, prices = blur_centroids(sites[inside], points, finest), costs[inside]
        absolute = isinstance(cells, AbsoluteCells)
        sizes = cells.sizes[inside].copy()
        adjust_exactly(points, blurred, prices, sizes, members, absolute=absolute)
        sites[inside], costs[inside], labels[rows] = blurred, prices, inside[members]
    return replace(cells, centroids=sites, costs=costs), labels


def blur_centroids(sites: Floats, X: Floats, finest: Floats) -> Floats:
    """Return the centroids of cells, moved by random steps drawn from a digest of the points.

    A step is at most half of ``finest``, the precision of the published means in each dimension, or
    if that is less, an eighth of the distance to the nearest other site, divided among the
    dimensions. In no dimension is it more than a quarter of that distance. Rounding to a grid would
    hide as much, but leave records exactly on the borders between cells.
    """
    count, m = sites.shape
    if m == 0:
        return sites.copy()
    spacing = np.ones(count)
    if count > 1:
        near = np.empty((count, 1), dtype=np.int64)
        find_near_cells(sites.copy(), np.ones(count), near)  # a writable array, as compiled
        spacing = np.sqrt(np.square(sites - sites[near[:, 0]]).sum(axis=1))
        spacing = np.where(spacing > 0, spacing, np.median(spacing))
    apart = spacing[:, np.newaxis]
    width = np.minimum(np.maximum(apart / (4 * np.sqrt(m)), finest), apart / 2)
    digest = sha256(b"sites" + X.tobytes()).hexdigest()
    steps = np.random.default_rng(int(digest, 16)).uniform(-0.5, 0.5, size=sites.shape)
    return np.ascontiguousarray(sites + width * steps)


def unpin(cells: PowerCells, X: Floats, labels: Integers) -> PowerCells:
    """Return the cells with costs that reveal no single record.

    No border then runs through equal points in two cells. Such points may be assigned to another
    cell than their label; all others keep theirs.
    """
    absolute = isinstance(cells, AbsoluteCells)
    if cells.chooser is None or cells.group is None:
        costs = settle_costs(
            X,
            cells.centroids.copy(),
            cells.costs.copy(),
            cells.sizes.copy(),
            labels,
            unpinned=True,
            absolute=absolute,
        )
        return replace(cells, costs=costs)
    costs, macrocells = cells.costs.copy(), cells.group[labels]
    for macrocell in range(len(cells.chooser)):
        inside = np.flatnonzero(cells.group == macrocell)
        rows = np.flatnonzero(macrocells == macrocell)
        costs[inside] = settle_costs(
            X[rows],
            cells.centroids[inside],
            costs[inside],
            cells.sizes[inside],
            np.searchsorted(inside, labels[rows]),
            unpinned=True,
            absolute=absolute,
        )
    return replace(cells, costs=costs, chooser=unpin(cells.chooser, X, macrocells))


@partitioner(
    "pcl",
    summary="probability-constrained Lloyd: convex cells of equal sizes, and costs that make them "
    "a function",
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
    """Return labels by :func:`pcl` for k, with the options that apply to any table."""
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


def _check_points(X: ArrayLike) -> Floats:
    """Return the points, in their own units, as sites and costs must be in the same units."""
    points = as_points(X)
    largest = float(np.abs(np.asarray(X, dtype=np.float64)).max(initial=0.0))
    if float(np.abs(points).max(initial=0.0)) != largest:  # as_points has rescaled them
        raise DataError(
            "The largest coordinate must be between 1e-100 and 1e100. Convert the points to "
            "another unit.",
            code="data.not_finite",
            option="X",
        )
    if len(points) == 0:
        raise DataError(
            "There are no points. Pass at least one.",
            code="data.empty",
            option="X",
        )
    return points


def _check_settings(
    points: Floats, targets: Integers, start: Any, costs: Any, fixed: bool, descent: Descent,
    shakes: Any, restarts: Any, prepartition: Any, seed: int, variable: int | None,
) -> Settings:  # fmt: skip
    first = _check_start(start, points, targets, variable)
    has_sites = not isinstance(first, str)
    _check_count("restarts", restarts, 1)
    _check_count("iterations", descent.iterations, 1)
    _check_count("shakes", shakes, 0, optional=True)
    _check_count("prepartition", prepartition, 1, optional=True)
    _check_descent(descent)
    if fixed and not has_sites:
        raise _conflict("fixed", "needs centroids; pass them as start.")
    if fixed and (restarts > 1 or (shakes or 0) > 0):
        raise _conflict(
            "fixed", "has a single best assignment and cannot be combined with restarts or shakes."
        )
    if has_sites and (prepartition or 1) > 1:
        raise _conflict("prepartition", "cannot be combined with a matrix of centroids.")
    if prepartition is not None and prepartition > len(targets):
        raise OptionError(
            f"prepartition must be at most the number of cells ({len(targets)}), not "
            f"{prepartition}.",
            code="option.out_of_range",
            option="prepartition",
        )
    if costs is not None and not has_sites:
        raise _conflict("costs", "needs centroids; pass them as start.")
    count = len(targets) if isinstance(first, str) else len(first)
    prices = np.zeros(count) if costs is None else _check_costs(costs, count)
    return Settings(first, prices, fixed, descent, shakes, int(restarts), prepartition, seed)


def _check_problem(problem: Problem, settings: Settings) -> None:
    """Raise OptionError for options that exclude each other."""
    distortion, descent = problem.distortion, settings.descent
    is_plain = distortion is SQUARED and problem.scales is None and problem.variable is None
    if descent.adjust != "exact" and not is_plain:
        raise _conflict(
            "adjust",
            "must be 'exact' with variable sizes, a demand, or a distance other than 'squared'.",
        )
    if descent.speed != 1.0 and not distortion.blends:
        raise _conflict("speed", f"must be 1 with the distance {distortion.name!r}.")
    if problem.scales is not None and problem.variable is not None:
        raise _conflict("demand", "cannot be combined with variable sizes.")
    if problem.scales is not None and (settings.prepartition or 1) > 1:
        raise _conflict("demand", "cannot be combined with prepartition.")


def _check_cloud(
    adjust: Any, copies: Any, variance: Any, decay: Any, rounds: Any, cells: int
) -> Cloud:
    values = {"copies": copies, "variance": variance, "decay": decay, "rounds": rounds}
    given = {name: value for name, value in values.items() if value is not None}
    if given and adjust != "noisy":
        raise _conflict(next(iter(given)), "is an option of adjust='noisy' only.")
    _check_count("copies", copies, 2, optional=True)
    _check_count("rounds", rounds, 1, optional=True)
    for name, limit in (("variance", np.inf), ("decay", 1.0)):
        value = given.get(name, 0.5)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 < value <= limit or value == np.inf:
            most = "" if limit == np.inf else " and at most 1"
            raise OptionError(
                f"{name} must be a number above 0{most}, not {value!r}.",
                code="option.out_of_range",
                option=name,
            )
    if (copies or 0) * cells > MOST_UNITS:
        raise OptionError(
            f"copies must be at most {MOST_UNITS // cells:,} with {cells:,} cells, not {copies:,}.",
            code="option.out_of_range",
            option="copies",
        )
    return Cloud(**given)


def _conflict(option: str, problem: str) -> OptionError:
    return OptionError(f"{option} {problem}", code="option.conflict", option=option)


def _check_descent(descent: Descent) -> None:
    if not isinstance(descent.adjust, str) or descent.adjust not in ADJUSTMENTS:
        raise OptionError(
            f"adjust must be one of {', '.join(ADJUSTMENTS)}, not {descent.adjust!r}.",
            code="option.unknown",
            option="adjust",
        )
    if not (isinstance(descent.speed, (int, float)) and 0 < descent.speed <= 1):
        raise OptionError(
            f"speed must be a number above 0 and at most 1, not {descent.speed!r}.",
            code="option.out_of_range",
            option="speed",
        )
    if not (isinstance(descent.tolerance, (int, float)) and 0 <= descent.tolerance < 1):
        raise OptionError(
            f"tolerance must be a number of at least 0 and below 1, not {descent.tolerance!r}.",
            code="option.out_of_range",
            option="tolerance",
        )


def _check_count(name: str, value: Any, least: int, *, optional: bool = False) -> None:
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise OptionError(
            f"{name} must be an integer of at least {least}, not {value!r}.",
            code="option.out_of_range",
            option=name,
        )


def _check_start(
    start: Any, points: Floats, targets: Integers, variable: int | None
) -> str | Floats:
    if isinstance(start, str):
        names = ["random", "auto", *(name for name in METHODS if name != "pcl")]
        if start not in names:
            raise OptionError(
                f"start must be one of {', '.join(names)}, or a matrix of centroids, not "
                f"{start!r}.",
                code="option.unknown",
                option="start",
            )
        return start
    sites = as_reals(
        start, "start must be the name of a method, or a matrix of centroids, one per cell."
    )
    sites = sites[:, np.newaxis] if sites.ndim == 1 and points.shape[1] == 1 else sites
    n, count = len(points), len(targets)
    if variable is not None and sites.ndim == 2:
        most = n // variable
        count = min(max(len(sites), -(-n // (2 * variable - 1))), most)
    if sites.ndim != 2 or sites.shape != (count, points.shape[1]):
        raise _invalid(
            "start",
            f"must have a centroid of {points.shape[1]} dimensions for each of the {count} "
            f"cells, not the shape {' x '.join(map(str, sites.shape))}.",
        )
    _check_finite(sites, "start")
    return np.ascontiguousarray(sites)


def _check_costs(costs: Any, count: int) -> Floats:
    prices = as_reals(costs, "costs must be numbers, one per cell.")
    if prices.shape != (count,):
        raise _invalid(
            "costs", f"must have one number per cell ({count}), not the shape {prices.shape}."
        )
    _check_finite(prices, "costs")
    return np.ascontiguousarray(prices)


def _check_finite(values: Floats, option: str) -> None:
    if not np.isfinite(values).all() or np.abs(values).max(initial=0.0) > FARTHEST:
        raise DataError(
            f"{option} must be finite numbers between -{FARTHEST:g} and {FARTHEST:g}.",
            code="data.not_finite",
            option=option,
        )


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
    """Return one cell per point, that of its largest part, and a point for every cell."""
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
