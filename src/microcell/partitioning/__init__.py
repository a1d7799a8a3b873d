"""From points to cells of k or more: the registered methods behind one door."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from numbers import Integral
from pkgutil import iter_modules
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.kernels.cells import sum_of_squares, total_sum_of_squares
from microcell.model import Floats, Partition
from microcell.partitioning._registry import METHODS, Method, select
from microcell.partitioning.auto import Choice, choose
from microcell.partitioning.refinement import refine_labels

__all__ = ["METHODS", "Method", "check_k", "check_method", "distortion", "partition", "refine"]

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
    ``options`` are the method's own (``microcell methods`` lists them). The same seed gives the same labels, whatever
    the number of threads.

    Examples
    --------
    >>> p = partition([[2, 1], [3, 2], [3, 2], [20, 19], [21, 20]], k=2, method="mdav")
    >>> p.labels
    array([1, 1, 1, 0, 0])
    >>> p.sizes
    array([2, 3])
    """
    check_k(k)
    check_method(method, {**options, "refine": refine})
    points = _varying(_as_points(X))
    if len(points) < k:
        raise TooFewRecordsError(
            f"{len(points)} records cannot make a cell of k = {k}. Lower k, or add records; nothing was released."
        )
    choice = choose(points) if method == "auto" else Choice(method, "asked for", options=options)
    if refine:
        choice = replace(choice, refine=True, rebuild=True)
    each = _as_weights(weights, len(points))
    labels = select(choice.method).function(points, int(k), weights=each, seed=seed, **choice.options)
    if choice.refine and choice.method != "univariate":  # which cannot be improved
        labels = refine_labels(points, labels, int(k), weights=each, seed=seed, rebuild=choice.rebuild)
    return Partition(labels, int(k), method=choice.method, why=choice.why)


def refine(X: ArrayLike, labels: ArrayLike, k: int, *, weights: ArrayLike | None = None, seed: int = 0) -> Partition:
    """The partition improved by local search: never more distortion, cells of k to 2k-1.

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
    found = refine_labels(points, start.labels, int(k), weights=_as_weights(weights, len(points)), seed=seed)
    return Partition(found, int(k), method="refine", why="asked for")


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
    elif own:
        raise OptionError(f"Method 'auto' has no option {next(iter(own))!r}. Name the method that the option is for.")
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
    return out


def _as_reals(given: ArrayLike, message: str) -> Floats:
    """The array in float64; complex numbers, text and the like are refused without showing them."""
    try:
        array = np.asarray(given)
        if array.dtype.kind == "c":
            raise TypeError
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise DataError(message) from None
