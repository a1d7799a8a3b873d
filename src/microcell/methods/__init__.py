"""Methods that group points into cells of at least k, behind one function, :func:`partition`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell._display import count
from microcell._validation import as_points, as_reals, as_weights, check_k, varying
from microcell.errors import OptionError, TooFewRecordsError
from microcell.kernels._jit import predicate
from microcell.kernels.arrays import sum_of_squares, total_sum_of_squares
from microcell.kernels.rules import Rule, trait_rule
from microcell.methods.auto import Choice, check_effort, choose_method, run_choice
from microcell.methods.blurring import blur_centroids, blur_sites, unpin
from microcell.methods.bounds import BRIEF, Bound, bound_within, lower_bound
from microcell.methods.constrained import broken_cells, default_effort, search_within_limits
from microcell.methods.dependence import (
    REGRESSIONS,
    Weights,
    check_dependence,
    check_regression,
    describe_weights,
    extend,
    fit_regression,
    scale_confidential,
    total_weight,
)
from microcell.methods.increments import add_batch, check_strategy, neighbourhood
from microcell.methods.merging import merge_short_cells
from microcell.methods.pcl_options import MOST_POWER_CELLS
from microcell.methods.persons import as_persons, collapse, person_rule
from microcell.methods.quantization import Quantization, pcl, power_cells
from microcell.methods.registry import METHODS, REQUESTED, Method, select
from microcell.methods.search import ROUNDS, compact, refine_labels
from microcell.methods.suppression import LeftOut, leave_out
from microcell.model import Floats, Integers, Partition

__all__ = [
    "BRIEF",
    "METHODS",
    "MOST_POWER_CELLS",
    "REGRESSIONS",
    "REQUESTED",
    "Bound",
    "LeftOut",
    "Method",
    "Quantization",
    "Weights",
    "add_batch",
    "blur_centroids",
    "blur_sites",
    "bound_within",
    "broken_cells",
    "check_dependence",
    "check_effort",
    "check_k",
    "check_method",
    "check_regression",
    "check_strategy",
    "compact",
    "default_effort",
    "describe_weights",
    "distortion",
    "extend",
    "fit_regression",
    "leave_out",
    "lower_bound",
    "merge_short_cells",
    "neighbourhood",
    "partition",
    "partition_within",
    "pcl",
    "power_cells",
    "refine",
    "scale_confidential",
    "search_within_limits",
    "total_weight",
    "unpin",
]

# Importing a module registers its methods, so a new one needs no other line of code.
_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]


def partition(X: ArrayLike, k: int, **options: Any) -> Partition:
    """Group the rows of a matrix into cells of at least k, as :func:`microcell.partition` does.

    Examples
    --------
    >>> partition([[2, 1], [3, 2], [3, 2], [20, 19], [21, 20]], k=2, method="mdav").sizes
    array([2, 3])
    """
    return partition_within(None, X, k, **options)


def partition_within(
    strata: Integers | None,
    X: ArrayLike,
    k: int,
    *,
    method: str = "auto",
    weights: ArrayLike | None = None,
    persons: ArrayLike | None = None,
    together: bool = False,
    seed: int = 0,
    refine: bool = False,
    **options: Any,
) -> Partition:
    """Partition within each stratum (0, 1, ...); cells are numbered consecutively.

    Strata share the effort. The reported method and reason are those of the largest stratum.
    """
    check_k(k)
    check_method(method, {**options, "refine": refine})
    points = as_points(X)
    each = as_weights(weights, len(points))
    who = as_persons(persons, len(points))
    if together and who is not None:
        whole = collapse(points, each, who, strata)
        partition_of_persons = partition_within(
            whole.strata,
            whole.points,
            k,
            method=method,
            weights=whole.weights,
            seed=seed,
            refine=refine,
            **options,
        )
        return replace(partition_of_persons, labels=partition_of_persons.labels[who], persons=who)
    parts = _split(strata, len(points))
    _check_enough(parts, int(k), who)
    labels = np.empty(len(points), dtype=np.int64)
    n_cells = most = 0
    reported = Choice(method, REQUESTED)
    for rows in parts:
        part = varying(points if len(parts) == 1 else points[rows])
        choice = choose_method(part, int(k), method, options, len(points), persons=who is not None)
        if refine and choice.method != "univariate":  # which is optimal already
            choice = replace(choice, rounds=ROUNDS)
        part_weights = None if each is None else each[rows]
        part_persons = None if who is None else who[rows]
        part_labels, used = run_choice(part, int(k), choice, part_weights, seed, part_persons)
        labels[rows] = n_cells + part_labels
        n_cells += int(part_labels.max()) + 1
        if len(rows) > most:
            reported, most = used, len(rows)
    return Partition(labels, int(k), method=reported.method, reason=reported.reason, persons=who)


def _check_enough(parts: list[Integers], k: int, persons: Integers | None) -> None:
    people = [len(rows) if persons is None else len(np.unique(persons[rows])) for rows in parts]
    if min(people) < k:
        noun = "record" if persons is None else "person"
        raise TooFewRecordsError(
            f"{count(min(people), noun)} cannot form a cell of k = {k}. Lower k or add {noun}s; "
            "nothing was released.",
            code="guarantee.too_few_records",
            k=k,
            records=min(people),
            unit=f"{noun}s",
        )


def _split(strata: Integers | None, n: int) -> list[Integers]:
    """Return the rows of each stratum."""
    if strata is None:
        return [np.arange(n)]
    if len(strata) != n:
        raise OptionError(
            f"strata must have one number per row ({n}), not {len(strata)}.",
            code="option.invalid",
            option="strata",
        )
    return np.split(np.argsort(strata, kind="stable"), np.cumsum(np.bincount(strata))[:-1])


def refine(
    X: ArrayLike,
    labels: ArrayLike,
    k: int,
    *,
    weights: ArrayLike | None = None,
    persons: ArrayLike | None = None,
    seed: int = 0,
    traits: ArrayLike | None = None,
    allowed: Callable[[Floats], bool] | None = None,
) -> Partition:
    """Improve a partition by local search; the distortion never rises.

    Cells end with k to 2k-1 records. With ``persons`` (the person of each row), the initial cells
    must have k distinct persons, every change preserves that, and cells have no maximum size.

    ``allowed`` is an additional condition on cells: a function, which numba must be able to
    compile, of the rows of the numeric matrix ``traits`` that belong to a cell. The initial cells
    must satisfy it, every change preserves it, and cells then have no maximum size.

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
    who = as_persons(persons, len(points))
    if np.shape(labels) != (len(points),):
        raise OptionError(
            f"labels must have one cell number per row ({len(points)}).",
            code="option.invalid",
            option="labels",
        )
    start = Partition(np.asarray(labels), int(k), persons=who)
    each, rule = as_weights(weights, len(points)), _as_rule(traits, allowed, start.labels)
    if who is not None:
        counted = person_rule(who, int(k))
        rule = counted if rule is None else rule._replace(persons=who, least=counted.least)
    refined = refine_labels(points, start.labels, int(k), weights=each, seed=seed, rule=rule)
    return Partition(refined, int(k), method="refine", reason=REQUESTED, persons=who)


def _as_rule(
    traits: ArrayLike | None, allowed: Callable[[Floats], bool] | None, labels: Integers
) -> Rule | None:
    """Compile the rule, and check that the initial cells satisfy it."""
    if traits is None and allowed is None:
        return None
    if traits is None or allowed is None:
        raise OptionError(
            "traits and allowed must be given together: allowed is a function of the traits of a "
            "cell's members.",
            code="option.conflict",
            option="traits",
        )
    values = np.ascontiguousarray(
        as_reals(traits, "traits must be a matrix of numbers with a row per record.")
    )
    if values.ndim != 2 or len(values) != len(labels) or values.shape[1] == 0:
        raise OptionError(
            f"traits must be a matrix with one row per record ({len(labels)} in total).",
            code="option.invalid",
            option="traits",
        )
    try:
        rule = trait_rule(values, predicate(allowed))
    except Exception as error:
        raise OptionError(
            f"numba cannot compile the function allowed ({type(error).__name__}). Use only NumPy "
            "and plain Python that numba supports.",
            code="option.invalid",
            option="allowed",
            cause=type(error).__name__,
        ) from error
    broken = sum(not allowed(values[labels == cell]) for cell in np.unique(labels))
    if broken:
        raise OptionError(
            f"{broken} of the initial cells {'violates' if broken == 1 else 'violate'} the rule. "
            "Refinement can preserve a rule but not establish it, so start from cells that "
            "satisfy it.",
            code="option.invalid",
            option="allowed",
            cells=broken,
        )
    return rule


def distortion(
    X: ArrayLike, labels: ArrayLike | Partition, *, weights: ArrayLike | None = None
) -> float:
    """Return D = SSE / SST: 0 if the records of each cell are equal, 1 for a single cell.

    ``labels`` is a partition, or a cell number per row of ``X``, which is used without further
    scaling. D is 0 if all records are equal. Time O(n m + n log n).

    Examples
    --------
    >>> round(distortion([[0.0], [1.0], [10.0], [11.0]], [0, 0, 1, 1]), 4)
    0.0099
    """
    points = as_points(X)
    cells = _as_cell_numbers(
        labels.labels if isinstance(labels, Partition) else labels, len(points)
    )
    checked = as_weights(weights, len(points))
    each = np.ones(len(points)) if checked is None else checked
    total = total_sum_of_squares(points, each)
    return 0.0 if total == 0 else sum_of_squares(points, cells, each) / total


def _as_cell_numbers(labels: ArrayLike, n: int) -> Integers:
    """Renumber the cells of the rows to 0, 1, 2, ..."""
    error = OptionError(
        f"labels must have one cell number of at least 0 per row ({n}).",
        code="option.invalid",
        option="labels",
    )
    try:
        array = np.asarray(labels)
        values = array if array.dtype.kind in "iu" else as_reals(labels, str(error))
    except ValueError:  # text, or rows of different lengths
        raise error from None
    if values.shape != (n,):
        raise error
    if not (np.isfinite(values) & (values >= 0) & (values == np.floor(values))).all():
        raise error
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def check_method(method: str, options: Mapping[str, Any]) -> None:
    """Raise OptionError for an unknown method, or for options that it does not accept."""
    if not isinstance(method, str):
        raise OptionError(
            f"method must be the name of a method, not {type(method).__name__}.",
            code="option.wrong_type",
            option="method",
        )
    if not isinstance(options.get("refine", False), bool):
        raise OptionError(
            "refine must be true or false.", code="option.wrong_type", option="refine"
        )
    own_options = {name: value for name, value in options.items() if name != "refine"}
    if method != "auto":
        select(method).check_options(own_options)
        return
    for name, value in own_options.items():
        if name != "effort":
            raise OptionError(
                f"Method 'auto' has no option {name!r}, only effort. Name the method that the "
                "option is for.",
                code="option.unsupported",
                option=name,
                method="auto",
            )
        check_effort(value)
