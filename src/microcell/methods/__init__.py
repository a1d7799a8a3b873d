"""From points to cells of k or more: the registered methods behind one door."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell._validation import as_points, as_reals, as_weights, check_k, varying
from microcell.errors import OptionError, TooFewRecordsError
from microcell.kernels._jit import predicate
from microcell.kernels.arrays import sum_of_squares, total_sum_of_squares
from microcell.kernels.groups import Rule
from microcell.methods.auto import Choice, carry_out, check_effort, choose_method
from microcell.methods.dependence import check_dependence, extend
from microcell.methods.increments import add_batch, check_strategy
from microcell.methods.quantization import MOST_POWER_CELLS, Quantization, pcl, power_cells, unpin
from microcell.methods.registry import METHODS, Method, select
from microcell.methods.search import ROUNDS, refine_labels
from microcell.model import Floats, Integers, Partition

__all__ = [
    "METHODS",
    "MOST_POWER_CELLS",
    "Method",
    "Quantization",
    "add_batch",
    "check_dependence",
    "check_k",
    "check_method",
    "check_strategy",
    "distortion",
    "extend",
    "partition",
    "partition_within",
    "pcl",
    "power_cells",
    "refine",
    "unpin",
]

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
    return partition_within(
        None, X, k, method=method, weights=weights, seed=seed, refine=refine, **options
    )


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
    points = as_points(X)
    each = as_weights(weights, len(points))
    parts = _split(strata, len(points))
    if min(map(len, parts)) < k:
        raise TooFewRecordsError(
            f"{min(map(len, parts))} records cannot make a cell of k = {k}. Lower k, or add records; nothing was "
            "released."
        )
    labels, done, told, most = (
        np.empty(len(points), dtype=np.int64),
        0,
        Choice(method, "asked for"),
        0,
    )
    for rows in parts:
        own = varying(points if len(parts) == 1 else points[rows])
        choice = choose_method(own, int(k), method, options, len(points))
        if refine and choice.method != "univariate":  # which cannot be improved
            choice = replace(choice, rounds=ROUNDS)
        made, used = carry_out(own, int(k), choice, None if each is None else each[rows], seed)
        labels[rows] = done + made
        done += int(made.max()) + 1
        if len(rows) > most:
            told, most = used, len(rows)
    return Partition(labels, int(k), method=told.method, reason=told.why)


def _split(strata: Integers | None, n: int) -> list[Integers]:
    """The rows of each stratum."""
    if strata is None:
        return [np.arange(n)]
    if len(strata) != n:
        raise OptionError(f"strata must be {n} numbers, one a row, not {len(strata)}.")
    return np.split(np.argsort(strata, kind="stable"), np.cumsum(np.bincount(strata))[:-1])


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
    points = varying(as_points(X))
    start = Partition(np.asarray(labels), int(k))
    if len(start.labels) != len(points):
        raise OptionError(
            f"labels must be {len(points)} cell numbers, one a row, not {len(start.labels)}."
        )
    each, rule = as_weights(weights, len(points)), _as_rule(traits, allowed, start.labels)
    found = refine_labels(points, start.labels, int(k), weights=each, seed=seed, rule=rule)
    return Partition(found, int(k), method="refine", reason="requested")


def _as_rule(
    traits: ArrayLike | None, allowed: Callable[[Floats], bool] | None, labels: Integers
) -> Rule | None:
    """The rule, refused if it cannot be compiled or if the cells given break it."""
    if traits is None and allowed is None:
        return None
    if traits is None or allowed is None:
        raise OptionError(
            "traits and allowed go together: allowed is a function of the traits of a cell's members."
        )
    values = np.ascontiguousarray(
        as_reals(traits, "traits must be a matrix of numbers, one row a record.")
    )
    if values.ndim != 2 or len(values) != len(labels) or values.shape[1] == 0:
        raise OptionError(f"traits must be a matrix of {len(labels)} rows, one a record.")
    try:
        rule = Rule(values, predicate(allowed))
    except Exception as error:
        raise OptionError(
            f"numba cannot compile the function allowed: {type(error).__name__}."
        ) from error
    broken = sum(not allowed(values[labels == cell]) for cell in np.unique(labels))
    if broken:
        raise OptionError(
            f"{broken} of the cells given break the rule. Refinement keeps a rule; it cannot mend it."
        )
    return rule


def distortion(
    X: ArrayLike, labels: ArrayLike | Partition, *, weights: ArrayLike | None = None
) -> float:
    """D = SSE / SST of the rows of ``X`` as given: 0 if cells hold equal records, 1 if one cell holds all.

    ``labels`` is a partition, or a cell number for each row. Where all records are equal nothing can be lost, and D is
    0. Time O(n m + n log n).

    Examples
    --------
    >>> round(distortion([[0.0], [1.0], [10.0], [11.0]], [0, 0, 1, 1]), 4)
    0.0099
    """
    points = as_points(X)
    cells = _as_cell_numbers(
        labels.labels if isinstance(labels, Partition) else labels, len(points)
    )
    given = as_weights(weights, len(points))
    each = np.ones(len(points)) if given is None else given
    total = total_sum_of_squares(points, each)
    return 0.0 if total == 0 else sum_of_squares(points, cells, each) / total


def _as_cell_numbers(labels: ArrayLike, n: int) -> Integers:
    """The cells of the rows, numbered 0, 1, 2, ... whatever the numbers given."""
    wanted = f"labels must be {n} cell numbers of 0 or more, one a row."
    try:
        given = np.asarray(labels)
        values = given if given.dtype.kind in "iu" else as_reals(labels, wanted)
    except ValueError:  # words, or rows of different lengths
        raise OptionError(wanted) from None
    if (
        values.shape != (n,)
        or not (np.isfinite(values) & (values >= 0) & (values == np.floor(values))).all()
    ):
        raise OptionError(wanted)
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def check_method(method: str, options: Mapping[str, Any]) -> None:
    """Refuse a method that is not registered, and options that it does not have."""
    if not isinstance(method, str):
        raise OptionError(f"method must be the name of one, not {type(method).__name__}.")
    own = {name: value for name, value in options.items() if name != "refine"}
    if method != "auto":
        select(method).check_options(own)
    for name, value in own.items() if method == "auto" else ():
        if name != "effort":
            raise OptionError(
                f"Method 'auto' has no option {name!r}, only effort. Name the method that it is for."
            )
        check_effort(value)
    if not isinstance(options.get("refine", False), bool):
        raise OptionError("refine must be true or false.")
