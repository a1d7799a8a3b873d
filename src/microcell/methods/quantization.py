"""Probability-constrained Lloyd: cells of prescribed sizes and least distortion, which are a power diagram."""

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell import progress
from microcell._validation import as_points, as_reals, as_weights, check_k
from microcell.cells import PowerCells
from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.kernels.arrays import centroids, total_sum_of_squares
from microcell.methods.lloyd import (
    ADJUSTMENTS,
    Descent,
    Found,
    How,
    Problem,
    Solved,
    as_solved,
    descend,
    settle_costs,
    solve,
)
from microcell.methods.registry import METHODS, partitioner
from microcell.model import Floats, Integers, Partition

__all__ = [
    "MOST_POWER_CELLS",
    "Quantization",
    "as_targets",
    "equal_sizes",
    "pcl",
    "power_cells",
    "unpin",
]


def equal_sizes(n: int, count: int) -> Integers:
    """Sizes of so many cells of n records in all, as equal as possible, the larger ones first."""
    return np.full(count, n // count) + (np.arange(count) < n % count)


def as_targets(n: int, k: Any, sizes: Any, probabilities: Any) -> Integers:
    """The size of each cell, checked: they are 1 or more and add up to n. One of the three must be given.

    Examples
    --------
    >>> as_targets(11, 3, None, None)
    array([4, 4, 3])
    >>> as_targets(10, None, None, [0.25, 0.75])
    array([3, 7])
    """
    given = [
        name
        for name, value in (("k", k), ("sizes", sizes), ("probabilities", probabilities))
        if value is not None
    ]
    if len(given) != 1:
        raise OptionError(
            f"Give one of k, sizes and probabilities; given: {', '.join(given) or 'none'}."
        )
    if k is not None:
        check_k(k)
        if n < k:
            raise TooFewRecordsError(
                f"{n} records cannot make a cell of k = {k}. Lower k, or add records."
            )
        return equal_sizes(n, n // int(k))
    return _from_sizes(n, sizes) if sizes is not None else _from_probabilities(n, probabilities)


def _from_sizes(n: int, sizes: Any) -> Integers:
    values = list(np.asarray(sizes).ravel()) if np.ndim(sizes) == 1 else []
    if not values or not all(_is_whole(value) for value in values):
        raise OptionError("sizes must be whole numbers, one a cell, such as [40, 40, 20].")
    if any(abs(int(value)) > 2**62 for value in values):
        raise OptionError(f"sizes must add up to the {n} points; one is far larger.")
    out = np.array([int(value) for value in values], dtype=np.int64)
    if (out < 1).any():
        place = int(np.argmax(out < 1))
        raise OptionError(
            f"sizes must be 1 or more: that of cell {place} is {out[place]}. Leave empty cells out."
        )
    if len(out) > n:
        raise OptionError(f"{len(out)} cells are more than the {n} points.")
    if out.sum() != n:
        raise OptionError(f"sizes must add up to the {n} points; they add up to {out.sum()}.")
    return out


def _is_whole(value: Any) -> bool:
    return not isinstance(value, (bool, np.bool_)) and (
        isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    )


def _from_probabilities(n: int, probabilities: Any) -> Integers:
    """The sizes nearest to n times the probabilities that add up to n: the largest remainders are rounded up."""
    shares = as_reals(
        probabilities, "probabilities must be numbers, one a cell, such as [0.4, 0.4, 0.2]."
    )
    if shares.ndim != 1 or len(shares) == 0 or not np.isfinite(shares).all() or (shares <= 0).any():
        raise OptionError(
            "probabilities must be positive numbers, one a cell, such as [0.4, 0.4, 0.2]."
        )
    if abs(shares.sum() - 1.0) > 1e-9:
        raise OptionError(f"probabilities must add up to 1; they add up to {shares.sum():.9g}.")
    exact = shares * n
    out = np.floor(exact + 1e-9).astype(np.int64)
    short = n - int(out.sum())
    out[np.argsort(out - exact, kind="stable")[:short]] += 1
    if (out < 1).any():
        place = int(np.argmax(out < 1))
        raise OptionError(
            f"Cell {place} would have none of the {n} points. Raise its probability, or add points."
        )
    return out


MOST_POWER_CELLS = 20_000
"""The costs of more cells would take too long to find at once."""

FARTHEST = 1e100
"""No centroid may lie farther: squares would overflow."""

_POLISH = Descent(speed=1.0, tolerance=0.0)


@dataclass(frozen=True, eq=False)
class Quantization:
    """What :func:`pcl` found: the partition, its power cells, and the distortions on the way, which never rise.

    ``history`` is that of the best start, an entry an iteration: squared distances to the sites over those to the mean.
    """

    partition: Partition
    cells: PowerCells
    history: tuple[float, ...]

    @property
    def labels(self) -> Integers:
        """The cell of each point."""
        return self.partition.labels


def pcl(
    X: ArrayLike,
    k: int | None = None,
    *,
    sizes: ArrayLike | None = None,
    probabilities: ArrayLike | None = None,
    start: Any = "mdav",
    costs: ArrayLike | None = None,
    fixed: bool = False,
    adjust: str = "exact",
    speed: float = 1.0,
    iterations: int = 200,
    tolerance: float = 3e-5,
    shakes: int | None = None,
    restarts: int = 1,
    prepartition: int | None = None,
    weights: ArrayLike | None = None,
    seed: int = 0,
) -> Quantization:
    """Cells of the sizes asked for, of little distortion, with the costs that make them a power diagram.

    Given sites xh(q) and costs c(q), a point goes to the cell of least ||x - xh(q)||^2 + c(q). Costs that make the
    sizes hold give the least distortion for the sites; centroids, the least for the cells. The two steps alternate
    (Rebollo-Monedero, Forne, Pallares and Parra-Arnau 2013). Time O(n Q m) an iteration for Q cells.

    Parameters
    ----------
    X
        Points, one a row, used as they are.
    k, sizes, probabilities
        One of them: floor(n / k) cells as equal as possible; the size of each cell, adding up to n; or its share of the
        points, adding up to 1.
    start
        "mdav", "auto" or another registered method, "random" for points drawn at random, or a matrix of centroids, one
        a cell.
    costs
        With centroids given: the costs to start from, one a cell; 0 if left out. Those of an earlier run on about the
        same points save most of the time.
    fixed
        True to keep the centroids given: an allocation of points to places of given capacity.
    adjust
        How costs are found: "exact", by shortest paths; "newton", by Newton's method and then exactly, for large cells;
        "noisy", on clouds of noisy copies first, for small ones.
    speed, iterations, tolerance
        How far sites move to the centroids each time (above 0, at most 1; the papers take 1/2, which was slower and no
        better), how often, and the relative gain that is the last.
    shakes
        Rounds beforehand in which sites also take random steps, ever shorter, to find a better valley; fewer for large
        tables if left out.
    restarts
        So many starts, of which the best is kept: the one asked for and others from random points.
    prepartition
        Make the cells within so many macrocells, each on its own and side by side; if left out, done with more than
        2,000 cells.
    weights
        One positive number a point, for the means.
    seed
        For what chance decides. The same seed gives the same cells ("noisy": on as many threads of linear algebra).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> found = pcl(X, sizes=[50, 30, 20])
    >>> found.partition.sizes
    array([50, 30, 20])
    >>> bool((found.cells.assign(X) == found.labels).all())
    True
    """
    points = _unscaled(X)
    targets = as_targets(len(points), k, sizes, probabilities)
    how = _as_how(
        points, targets, start, costs, fixed,
        Descent(adjust, speed, iterations, tolerance), shakes, restarts, prepartition, seed,
    )  # fmt: skip
    each = as_weights(weights, len(points))
    solved = solve(Problem(points, targets, np.ones(len(points)) if each is None else each), how)
    return _as_quantization(points, each, solved)


def power_cells(
    X: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None
) -> Quantization:
    """A partition polished into power cells of the same sizes: a function of the points, of no more distortion.

    For the sites, the centroids of the cells, the costs that give the same sizes are found, points assigned anew, and
    so on until nothing changes. Assignment knows no ``weights``, so that with them the distortion may rise. Time as
    :func:`pcl`; up to 20,000 cells.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> found = power_cells(X, np.arange(60) % 3)
    >>> found.partition.sizes, bool((found.cells.assign(X) == found.labels).all())
    (array([20, 20, 20]), True)
    """
    points = _unscaled(X)
    given = Partition(np.asarray(labels), 1)
    if len(given.labels) != len(points):
        raise OptionError(
            f"labels must be {len(points)} cell numbers, one a row, not {len(given.labels)}."
        )
    if len(given) > MOST_POWER_CELLS:
        raise OptionError(
            f"{len(given):,} cells are too many to find the costs of at once; at most {MOST_POWER_CELLS:,}. Use "
            "method='pcl', which makes cells within macrocells and yields their function."
        )
    each = as_weights(weights, len(points))
    problem = Problem(points, given.sizes.copy(), np.ones(len(points)) if each is None else each)
    sites = centroids(points, given.labels, problem.weights)
    begin = Found(
        given.labels,
        sites,
        np.zeros(len(sites)),
        (float(problem.losses(sites, given.labels).sum()),),
    )
    progress.report("finding power cells")
    found = descend(problem, begin, _POLISH)
    return _as_quantization(points, each, as_solved(problem, found))


def unpin(cells: PowerCells, X: Floats, labels: Integers) -> PowerCells:
    """The cells with costs that tell of no single record: no border runs through equal points in two cells.

    Such points may then be assigned to another cell than their label says; all others stay.
    """
    if cells.chooser is None or cells.group is None:
        sites, sizes = cells.centroids.copy(), cells.sizes.copy()
        return replace(
            cells, costs=settle_costs(X, sites, cells.costs.copy(), sizes, labels, unpinned=True)
        )
    costs, macrocells = cells.costs.copy(), cells.group[labels]
    for macrocell in range(len(cells.chooser)):
        own, rows = (
            np.flatnonzero(cells.group == macrocell),
            np.flatnonzero(macrocells == macrocell),
        )
        places = np.searchsorted(own, labels[rows])
        costs[own] = settle_costs(
            X[rows], cells.centroids[own], costs[own], cells.sizes[own], places, unpinned=True
        )
    return replace(cells, costs=costs, chooser=unpin(cells.chooser, X, macrocells))


@partitioner(
    "pcl",
    summary="probability-constrained Lloyd: convex cells of equal sizes, and costs that make them a function",
    sizes="n / floor(n/k), rounded down or up",
    cost="n^2 / k distances an iteration (n beyond 2,000 cells)",
    source="Rebollo-Monedero, Forne, Pallares and Parra-Arnau 2013",
    chance=True,
)
def pcl_labels(
    X: Floats,
    k: int,
    *,
    weights: Floats | None,
    seed: int,
    restarts: int = 1,
    start: str = "mdav",
    adjust: str = "exact",
    shakes: int | None = None,
    prepartition: int | None = None,
) -> Integers:
    """Labels by probability-constrained Lloyd, as :func:`pcl` makes them for k, for its most used options."""
    found = pcl(
        X, k, start=start, adjust=adjust, shakes=shakes, restarts=restarts, prepartition=prepartition,
        weights=weights, seed=seed,
    )  # fmt: skip
    return found.labels


# ---------------------------------------------------------------------------------------------- what was asked for


def _unscaled(X: ArrayLike) -> Floats:
    """The points; refused where their squares would overflow or vanish, as sites and costs must be in their units."""
    points = as_points(X)
    given = float(np.abs(np.asarray(X, dtype=np.float64)).max(initial=0.0))
    if float(np.abs(points).max(initial=0.0)) != given:
        raise DataError(
            "Points must lie within 1e-100 and 1e100 in size. Give them in another unit."
        )
    if len(points) == 0:
        raise DataError("There are no points.")
    return points


def _as_how(
    points: Floats, targets: Integers, start: Any, costs: Any, fixed: bool, descent: Descent,
    shakes: Any, restarts: Any, prepartition: Any, seed: int,
) -> How:  # fmt: skip
    begin = _as_start(start, points, targets)
    given = not isinstance(begin, str)
    _check_count("restarts", restarts, 1)
    _check_count("seed", seed, 0)
    _check_count("iterations", descent.iterations, 1)
    _check_count("shakes", shakes, 0, optional=True)
    _check_count("prepartition", prepartition, 1, optional=True)
    if not isinstance(descent.adjust, str) or descent.adjust not in ADJUSTMENTS:
        raise OptionError(
            f"adjust must be one of {', '.join(ADJUSTMENTS)}, not {descent.adjust!r}."
        )
    if not (isinstance(descent.speed, (int, float)) and 0 < descent.speed <= 1):
        raise OptionError(f"speed must be a number above 0 and at most 1, not {descent.speed!r}.")
    if not (isinstance(descent.tolerance, (int, float)) and 0 <= descent.tolerance < 1):
        raise OptionError(
            f"tolerance must be a number of 0 or more and below 1, not {descent.tolerance!r}."
        )
    if fixed and not given:
        raise OptionError("fixed is for centroids that are given: give them as start.")
    if fixed and (restarts > 1 or (shakes or 0) > 0):
        raise OptionError(
            "With fixed centroids there is one best assignment: restarts and shakes have nothing to do."
        )
    if given and (prepartition or 1) > 1:
        raise OptionError("prepartition does not go with centroids that are given.")
    if prepartition is not None and prepartition > len(targets):
        raise OptionError(
            f"prepartition must be at most the {len(targets)} cells, not {prepartition}."
        )
    if costs is not None and not given:
        raise OptionError("costs belong to centroids that are given: give these as start.")
    prices = np.zeros(len(targets)) if costs is None else _as_costs(costs, len(targets))
    return How(begin, prices, fixed, descent, shakes, int(restarts), prepartition, seed)


def _check_count(name: str, value: Any, least: int, *, optional: bool = False) -> None:
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise OptionError(f"{name} must be a whole number of {least} or more, not {value!r}.")


def _as_start(start: Any, points: Floats, targets: Integers) -> str | Floats:
    if isinstance(start, str):
        known = ["random", "auto", *(name for name in METHODS if name != "pcl")]
        if start not in known:
            raise OptionError(
                f"start must be one of {', '.join(known)}, or a matrix of centroids, not {start!r}."
            )
        return start
    sites = as_reals(
        start, "start must be the name of a method, or a matrix of centroids, one a cell."
    )
    sites = sites[:, np.newaxis] if sites.ndim == 1 and points.shape[1] == 1 else sites
    if sites.ndim != 2 or sites.shape != (len(targets), points.shape[1]):
        raise OptionError(
            f"start must have a centroid of {points.shape[1]} dimensions for each of the {len(targets)} cells, not "
            f"the shape {' x '.join(map(str, sites.shape))}."
        )
    if not np.isfinite(sites).all() or np.abs(sites).max(initial=0.0) > FARTHEST:
        raise DataError("Centroids must be finite numbers within 1e100.")
    return np.ascontiguousarray(sites)


def _as_costs(costs: Any, count: int) -> Floats:
    prices = as_reals(costs, "costs must be numbers, one a cell.")
    if prices.shape != (count,):
        raise OptionError(
            f"costs must be {count} numbers, one a cell, not the shape {prices.shape}."
        )
    if not np.isfinite(prices).all() or np.abs(prices).max(initial=0.0) > FARTHEST:
        raise DataError("Costs must be finite numbers within 1e100.")
    return np.ascontiguousarray(prices)


def _as_quantization(points: Floats, weights: Floats | None, solved: Solved) -> Quantization:
    total = total_sum_of_squares(points, np.ones(len(points)) if weights is None else weights)
    history = tuple(0.0 if total == 0 else loss / total for loss in solved.history)
    partition = Partition(
        solved.labels, int(np.bincount(solved.labels).min()), method="pcl", reason="asked for"
    )
    return Quantization(partition, solved.cells, history)
