"""Options of PCL: sizes, demand, start, costs and how costs are adjusted, all checked."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell._display import count
from microcell._validation import as_points, as_reals, check_k
from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.methods.distortions import SQUARED
from microcell.methods.lloyd import (
    ADJUSTMENTS,
    Cloud,
    Descent,
    Problem,
    Settings,
)
from microcell.methods.registry import METHODS
from microcell.model import Floats, Integers

__all__ = [
    "MOST_POWER_CELLS",
    "as_demand",
    "as_targets",
    "check_cloud",
    "check_count",
    "check_draws",
    "check_points",
    "check_problem",
    "check_settings",
    "equal_sizes",
    "invalid",
    "is_variable",
    "split_demand",
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
        raise invalid("sizes", "must be integers, one per cell, such as [40, 40, 20].")
    if any(abs(int(value)) > 2**62 for value in values):
        raise invalid(
            "sizes",
            f"must add up to the number of points ({n}), but one of them is far larger.",
        )
    out = np.array([int(value) for value in values], dtype=np.int64)
    if (out < 1).any():
        place = int(np.argmax(out < 1))
        raise invalid(
            "sizes",
            f"must be at least 1, but the size of cell {place} is {out[place]}.",
        )
    if len(out) > n:
        raise invalid(
            "sizes",
            f"must have at most one cell per point ({n} in total), not {len(out)} cells.",
        )
    if out.sum() != n:
        raise invalid("sizes", f"must add up to the number of points ({n}), not {out.sum()}.")
    return out


def invalid(option: str, problem: str) -> OptionError:
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
        raise invalid("probabilities", problem)
    if abs(shares.sum() - 1.0) > 1e-9:
        raise invalid("probabilities", f"must add up to 1, not {shares.sum():.9g}.")
    exact = shares * n
    out = np.floor(exact + 1e-9).astype(np.int64)
    short = n - int(out.sum())
    out[np.argsort(out - exact, kind="stable")[:short]] += 1
    if (out < 1).any():
        place = int(np.argmax(out < 1))
        raise invalid(
            "probabilities",
            f"would leave cell {place} without any of the {n} points. Raise its probability or add "
            "points.",
        )
    return out


MOST_POWER_CELLS = 20_000
"""Maximum number of power cells; finding the costs of more cells at once would take too long."""


FARTHEST = 1e100
"""Maximum coordinate of a centroid; larger squares would overflow."""


MOST_UNITS = 5_000_000
"""Maximum total demand, and maximum number of noisy copies or of points drawn from a sampler."""


VARIABLE = "variable"
"""The value of ``sizes`` for cells of k to 2k - 1 points."""


def is_variable(sizes: Any) -> bool:
    if isinstance(sizes, str) and sizes != VARIABLE:
        raise OptionError(
            f"sizes must be integers, one per cell, or {VARIABLE!r}, not {sizes!r}.",
            code="option.invalid",
            option="sizes",
        )
    return isinstance(sizes, str)


def check_draws(draws: Any) -> int:
    check_count("draws", draws, 1)
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


def split_demand(rows: Integers, labels: Integers) -> tuple[Integers, Integers, Integers]:
    """Return parallel arrays (row, cell, units): how the demand of points is split among cells.

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


def check_points(X: ArrayLike) -> Floats:
    """Return the points in their own units: sites and costs must be in the same units."""
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


def check_settings(
    points: Floats, targets: Integers, start: Any, costs: Any, fixed: bool, descent: Descent,
    shakes: Any, restarts: Any, prepartition: Any, seed: int, variable: int | None,
) -> Settings:  # fmt: skip
    first = _check_start(start, points, targets, variable)
    has_sites = not isinstance(first, str)
    check_count("restarts", restarts, 1)
    check_count("iterations", descent.iterations, 1)
    check_count("shakes", shakes, 0, optional=True)
    check_count("prepartition", prepartition, 1, optional=True)
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


def check_problem(problem: Problem, settings: Settings) -> None:
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


def check_cloud(
    adjust: Any, copies: Any, variance: Any, decay: Any, rounds: Any, cells: int
) -> Cloud:
    values = {"copies": copies, "variance": variance, "decay": decay, "rounds": rounds}
    options = {name: value for name, value in values.items() if value is not None}
    if options and adjust != "noisy":
        raise _conflict(next(iter(options)), "is an option of adjust='noisy' only.")
    check_count("copies", copies, 2, optional=True)
    check_count("rounds", rounds, 1, optional=True)
    for name, limit in (("variance", np.inf), ("decay", 1.0)):
        value = options.get(name, 0.5)
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
    return Cloud(**options)


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


def check_count(name: str, value: Any, least: int, *, optional: bool = False) -> None:
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
        raise invalid(
            "start",
            f"must have the shape {(count, points.shape[1])}, one centroid per cell, not "
            f"{sites.shape}.",
        )
    _check_finite(sites, "start")
    return np.ascontiguousarray(sites)


def _check_costs(costs: Any, count: int) -> Floats:
    prices = as_reals(costs, "costs must be numbers, one per cell.")
    if prices.shape != (count,):
        raise invalid(
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
