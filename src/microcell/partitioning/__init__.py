"""From points to cells of k or more: the registered methods behind one door."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from numbers import Integral
from pkgutil import iter_modules
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.kernels._jit import predicate
from microcell.kernels.cells import sum_of_squares, total_sum_of_squares
from microcell.kernels.rules import Rule
from microcell.model import Floats, Integers, Partition
from microcell.partitioning._registry import METHODS, Method, select
from microcell.partitioning.auto import Choice, check_effort, choose
from microcell.partitioning.refinement import ROUNDS, refine_labels

__all__ = ["METHODS", "Method", "check_k", "check_method", "distortion", "partition", "partition_within", "refine"]

_MODULES = [  # every file here registers its methods: a new one needs no line elsewhere
    import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)
]


def partition(
    X: ArrayLike,
    k: int,
    *,
    method: str = "auto",
    weights: ArrayLike | None = None,
    seed: int = 0,
    refine: bool = False,
    **options: Any,
) -> Partition:
    """The cells of k or more that ``method`` makes of the rows of ``X``, a matrix of floats used as it is.

    ``weights``, one positive number a row, weigh means. ``refine`` lets local search improve what the method made.
    ``options`` are the method's own (``microcell methods`` lists them); that of "auto" is ``effort``: "fast",
    "balanced" (the default), "best", or a number of seconds. The same seed gives the same labels, whatever the number
    of threads, unless the time was limited.

    Examples
    --------
    >>> p = partition([[2, 1], [3, 2], [3, 2], [20, 19], [21, 20]], k=2, method="mdav")
    >>> p.labels
    array([1, 1, 1, 0, 0])
    >>> p.sizes
    array([2, 3])
    """
    return partition_within(None, X, k, method=method, weights=weights, seed=seed, refine=refine, **options)


def partition_within(
    strata: Integers | None,
    X: ArrayLike,
    k: int,
    *,
    method: str = "auto",
    weights: ArrayLike | None = None,
    seed: int = 0,
    refine: bool = False,
    **options: Any,
) -> Partition:
    """The cells that :func:`partition` makes within each stratum (0, 1, ...), numbered through; efforts are shared.

    The method and the reason told are those of the largest stratum.
    """
    check_k(k)
    check_method(method, {**options, "refine": refine})
    points = _as_points(X)
    each = _as_weights(weights, len(points))
    parts = _split(strata, len(points))
    if min(map(len, parts)) < k:
        raise TooFewRecordsError(
            f"{min(map(len, parts))} records cannot make a cell of k = {k}. Lower k, or add records; nothing was "
            "released."
        )
    labels, done, told, most = np.empty(len(points), dtype=np.int64), 0, Choice(method, "asked for"), 0
    for rows in parts:
        own = _varying(points if len(parts) == 1 else points[rows])
        choice = _choose(own, int(k), method, options, len(points))
        if refine and choice.method != "univariate":  # which cannot be improved
            choice = replace(choice, rounds=ROUNDS)
        labels[rows] = done + _carry_out(own, int(k), choice, None if each is None else each[rows], seed)
        done = int(labels[rows].max()) + 1
        if len(rows) > most:
            told, most = choice, len(rows)
    return Partition(labels, int(k), method=told.method, why=told.why)


def _split(strata: Integers | None, n: int) -> list[Integers]:
    """The rows of each stratum."""
    if strata is None:
        return [np.arange(n)]
    if len(strata) != n:
        raise OptionError(f"strata must be {n} numbers, one a row, not {len(strata)}.")
    return np.split(np.argsort(strata, kind="stable"), np.cumsum(np.bincount(strata))[:-1])


def _choose(points: Floats, k: int, method: str, options: Mapping[str, Any], of: int) -> Choice:
    if method == "auto":
        return choose(points, k, **options, of=of)
    seconds = options.get("seconds")
    if not isinstance(seconds, (int, float, np.integer, np.floating)):
        return Choice(method, "asked for", options)
    share = float(seconds) * len(points) / of
    why = "asked for; its time is limited, so another run may differ"
    return Choice(method, why, {**options, "seconds": share}, seconds=share)


def _carry_out(points: Floats, k: int, choice: Choice, weights: Floats | None, seed: int) -> Integers:
    deadline = monotonic() + choice.seconds
    labels = select(choice.method).function(points, k, weights=weights, seed=seed, **choice.options)
    if choice.rounds:
        labels = refine_labels(points, labels, k, weights=weights, seed=seed, rounds=choice.rounds, deadline=deadline)
    return labels


def refine(
    X: ArrayLike,
    labels: ArrayLike,
    k: int,
    *,
    weights: ArrayLike | None = None,
    seed: int = 0,
    traits: ArrayLike | None = None,
    allowed: Callable[[Floats], bool] | None = None,
) -> Partition:
    """The partition improved by local search: never more distortion, cells of k to 2k-1.

    ``allowed`` is a further condition on cells: a function of the members' rows of ``traits``, a matrix of numbers,
    that numba can compile. The cells given must keep it; every change does, and sizes are then limited from below only.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> start = partition(X, 3, method="mdav")
    >>> better = refine(X, start.labels, 3)
    >>> distortion(X, better.labels) < distortion(X, start.labels)
    True
    """
    check_k(k)
    points = _varying(_as_points(X))
    start = Partition(np.asarray(labels), int(k))
    if len(start.labels) != len(points):
        raise OptionError(f"labels must be {len(points)} cell numbers, one a row, not {len(start.labels)}.")
    each, rule = _as_weights(weights, len(points)), _as_rule(traits, allowed, start.labels)
    found = refine_labels(points, start.labels, int(k), weights=each, seed=seed, rule=rule)
    return Partition(found, int(k), method="refine", why="asked for")


def _as_rule(traits: ArrayLike | None, allowed: Callable[[Floats], bool] | None, labels: Integers) -> Rule | None:
    """The rule, refused if it cannot be compiled or if the cells given break it."""
    if traits is None and allowed is None:
        return None
    if traits is None or allowed is None:
        raise OptionError("traits and allowed go together: allowed is a function of the traits of a cell's members.")
    values = np.ascontiguousarray(_as_reals(traits, "traits must be a matrix of numbers, one row a record."))
    if values.ndim != 2 or len(values) != len(labels) or values.shape[1] == 0:
        raise OptionError(f"traits must be a matrix of {len(labels)} rows, one a record.")
    try:
        rule = Rule(values, predicate(allowed))
    except Exception as error:
        raise OptionError(f"numba cannot compile the function allowed: {type(error).__name__}.") from error
    broken = sum(not allowed(values[labels == cell]) for cell in np.unique(labels))
    if broken:
        raise OptionError(f"{broken} of the cells given break the rule. Refinement keeps a rule; it cannot mend it.")
    return rule


def distortion(X: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """D = SSE / SST of the rows of ``X`` as given: 0 if cells hold equal records, 1 if one cell holds all.

    Where all records are equal nothing can be lost, and D is 0. Time O(n m).

    Examples
    --------
    >>> round(distortion([[0.0], [1.0], [10.0], [11.0]], [0, 0, 1, 1]), 4)
    0.0099
    """
    points = _as_points(X)
    cells = np.asarray(labels, dtype=np.int64)
    if cells.shape != (len(points),) or (len(cells) and cells.min() < 0):
        raise OptionError(f"labels must be {len(points)} cell numbers of 0 or more, one a row.")
    given = _as_weights(weights, len(points))
    each = np.ones(len(points)) if given is None else given
    total = total_sum_of_squares(points, each)
    return 0.0 if total == 0 else sum_of_squares(points, cells, each) / total


def check_k(k: object) -> None:
    """Refuse a k that is not a whole number of 2 or more."""
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise OptionError(f"k must be a whole number of 2 or more, not {k!r}.")
    if int(k) < 2:
        raise OptionError(f"k must be 2 or more, not {k}: a record alone in its cell has no protection.")


def check_method(method: str, options: Mapping[str, Any]) -> None:
    """Refuse a method that is not registered, and options that it does not have."""
    if not isinstance(method, str):
        raise OptionError(f"method must be the name of one, not {type(method).__name__}.")
    own = {name: value for name, value in options.items() if name != "refine"}
    if method != "auto":
        select(method).check_options(own)
    for name, value in own.items() if method == "auto" else ():
        if name != "effort":
            raise OptionError(f"Method 'auto' has no option {name!r}, only effort. Name the method that it is for.")
        check_effort(value)
    if not isinstance(options.get("refine", False), bool):
        raise OptionError("refine must be true or false.")


def _as_points(X: ArrayLike) -> Floats:
    """The matrix in float64, scaled down where squares would overflow or vanish; cells do not depend on scale."""
    points = _as_reals(X, "Points must be numbers. For a table with other columns use anonymize.")
    points = points[:, np.newaxis] if points.ndim == 1 else points
    if points.ndim != 2:
        raise DataError(f"Points must be a matrix of records by columns, not an array of {points.ndim} dimensions.")
    if not np.isfinite(points).all():
        row, column = np.argwhere(~np.isfinite(points))[0]
        raise DataError(
            f"Points must be finite: row {row + 1}, column {column + 1} is missing or infinite, the first of "
            f"{(~np.isfinite(points)).sum()} such entries. Remove or impute them."
        )
    largest = float(np.abs(points).max(initial=0.0))
    if largest > 1e100 or 0 < largest < 1e-100:
        points = points / largest
    return np.ascontiguousarray(points)


def _varying(points: Floats) -> Floats:
    """The points without constant columns, which carry no distance."""
    if len(points) == 0:
        return points
    varying = points.min(axis=0) < points.max(axis=0)
    return points if varying.all() else np.ascontiguousarray(points[:, varying])


def _as_weights(weights: ArrayLike | None, rows: int) -> Floats | None:
    if weights is None:
        return None
    out = np.ascontiguousarray(_as_reals(weights, "Weights must be numbers, one a record."))
    if out.shape != (rows,) or not (np.isfinite(out).all() and (out > 0).all()):
        raise DataError(f"Weights must be {rows} positive numbers, one a record.")
    largest = float(out.max(initial=1.0))
    return out if 1e-50 < largest < 1e50 else out / largest  # only their ratios matter


def _as_reals(given: ArrayLike, message: str) -> Floats:
    """The array in float64; complex numbers, text and the like are refused without showing them."""
    try:
        array = np.asarray(given)
        if array.dtype.kind == "c":
            raise TypeError
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise DataError(message) from None
