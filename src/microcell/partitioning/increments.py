"""Further records for a partition that is there: a batch joins its cells, or makes cells of its own.

Source: incremental microaggregation in two steps, with cells split by MDAV on the way or at the end; refinement of
the cells around is an addition to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell.errors import DataError, OptionError
from microcell.model import Floats, Integers, Partition
from microcell.partitioning._input import as_points, as_reals, as_weights, check_k, varying
from microcell.partitioning._joining import join_early, join_inertially, join_nearest, neighbourhood, split_cells
from microcell.partitioning._making import carry_out, choose_method
from microcell.partitioning._registry import select
from microcell.partitioning.auto import check_effort
from microcell.partitioning.refinement import refine_labels

__all__ = ["STRATEGIES", "add_batch", "check_strategy", "order_by_coordinates"]

_NEIGHBOURS = 8
"""Around each cell that the batch changed, so many cells take part in the refinement."""

_ROUNDS = 1
"""Rounds of refinement, unless told: the first gains most, and what the batch needs is to be finished soon."""


@dataclass(frozen=True, eq=False)
class _Task:
    """All points, those of the batch last and in canonical order; the cells of the others; what is asked for."""

    points: Floats
    labels: Integers
    weights: Floats
    k: int
    inertial: bool
    seed: int
    method: str
    options: Mapping[str, Any]
    rounds: int
    weighted: bool

    @property
    def new(self) -> int:
        """How many records the batch has."""
        return len(self.points) - len(self.labels)


def add_batch(
    base: ArrayLike,
    labels: ArrayLike,
    batch: ArrayLike,
    k: int,
    *,
    strategy: str = "refined",
    inertial: bool = False,
    method: str | None = None,
    rounds: int | None = None,
    weights: ArrayLike | None = None,
    seed: int = 0,
    **options: Any,
) -> Partition:
    """The partition of all records, those of ``base`` first: a batch added to cells of k or more that are there.

    The strategies:

    - "separate": the batch makes cells of its own by ``method`` ("mdav" if left out) and its ``options``; fewer than
      k records join their nearest cells instead.
    - "nearest": each record joins the cell of ``base`` with the nearest centroid. Cells grow without bound.
    - "split-early": the same, one record after the other; a cell that has 2k is split by MDAV at once, and both parts
      take further records.
    - "split-late": all join as for "nearest", then every cell of 2k or more is split by MDAV.
    - "refined": as "split-late", then ``rounds`` rounds (1 if left out) of local search among the cells that changed
      and their neighbours.

    With ``inertial`` a record joins the cell whose SSE rises least, n / (n + 1) ||y - c||^2, and its centroid moves.
    All but "separate" and "nearest" end in cells of k to 2k-1. The batch is taken in the order of its coordinates, so
    that the order of its rows does not matter, up to an exchange of equal records. Cells of the base that no
    record joins, and that are neither split nor refined, keep their records, and but for "refined" their numbers. For
    further batches call again with all points so far.

    Parameters
    ----------
    base, batch
        Matrices of floats on the same scale, used as they are.
    labels
        The cell of each record of ``base``; all cells must have k or more.
    weights
        One positive number for each record of the base, then of the batch.

    Raises
    ------
    GuaranteeError
        A cell of the base has fewer than k records.
    OptionError, DataError
        An unknown strategy, an option that it does not use, or points that are none.

    Notes
    -----
    Time O(q log G) for q records and G cells in few dimensions, O(G q m) in more, with ``inertial`` and for
    "split-early"; that of the method on q records for "separate". "refined" adds O(n m k) a round for the n records
    of the cells that take part.

    Examples
    --------
    >>> base, batch = [[0.0], [1.0], [10.0], [11.0]], [[0.5], [0.6], [12.0]]
    >>> add_batch(base, [0, 0, 1, 1], batch, 2, strategy="nearest").labels
    array([0, 0, 1, 1, 0, 0, 1])
    >>> add_batch(base, [0, 0, 1, 1], batch, 2, strategy="split-late").labels
    array([0, 2, 1, 1, 0, 2, 1])
    """
    check_k(k)
    check_strategy(strategy, inertial=inertial, method=method, rounds=rounds, options=options)
    known, new = _as_parts(base, batch)
    start = Partition(np.asarray(labels), int(k))
    if len(start.labels) != len(known):
        raise OptionError(f"labels must be {len(known)} cell numbers, one a row of base, not {len(start.labels)}.")
    points = varying(as_points(np.concatenate([known, new])))  # scaled together, if at all
    given = as_weights(weights, len(points))
    each = np.ones(len(points)) if given is None else given
    first = len(known)
    order = np.concatenate([np.arange(first), first + order_by_coordinates(points[first:], each[first:])])
    task = _Task(
        np.ascontiguousarray(points[order]),
        start.labels,
        each[order],
        int(k),
        inertial,
        seed,
        method or "mdav",
        options,
        _ROUNDS if rounds is None else rounds,
        given is not None,
    )
    found = np.empty(len(points), dtype=np.int64)
    found[order] = STRATEGIES[strategy](task)
    return Partition(found, int(k), method=strategy, why=f"{task.new} records added to {len(start.sizes)} cells")


def check_strategy(strategy: Any, *, inertial: Any, method: Any, rounds: Any, options: Mapping[str, Any]) -> None:
    """Refuse a strategy that is unknown, and what it does not use."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise OptionError(f"No strategy {strategy!r}; choose one of {', '.join(STRATEGIES)}.")
    if not isinstance(inertial, bool):
        raise OptionError("inertial must be true or false.")
    if strategy != "separate" and (method is not None or options):
        given = "method" if method is not None else next(iter(options))
        raise OptionError(f"Strategy {strategy!r} makes no cells of its own and has no option {given!r}.")
    if rounds is not None and strategy != "refined":
        raise OptionError(f"Strategy {strategy!r} does not refine and has no option 'rounds'.")
    if rounds is not None and (isinstance(rounds, bool) or not isinstance(rounds, (int, np.integer)) or rounds < 1):
        raise OptionError(f"rounds must be a whole number of 1 or more, not {rounds!r}.")
    if method == "auto":
        if set(options) - {"effort"}:
            raise OptionError("Method 'auto' has no option but effort. Name the method that the others are for.")
        check_effort(options.get("effort", "balanced"))
    else:
        select(method or "mdav").check_options(options)


# ---------------------------------------------------------------------------------------------- strategies


def _separate(task: _Task) -> Integers:
    if task.new < task.k:
        return _nearest(task)
    base = len(task.labels)
    weights = task.weights[base:] if task.weighted else None
    own = varying(task.points[base:])
    choice = choose_method(own, task.k, task.method, task.options, len(own))
    cells, _ = carry_out(own, task.k, choice, weights, task.seed)
    return np.concatenate([task.labels, int(task.labels.max()) + 1 + cells])


def _nearest(task: _Task) -> Integers:
    join = join_inertially if task.inertial else join_nearest
    return join(task.points, task.labels, task.weights)


def _split_early(task: _Task) -> Integers:
    return join_early(task.points, task.labels, task.weights, task.k, inertial=task.inertial)


def _split_late(task: _Task) -> Integers:
    return split_cells(task.points, _nearest(task), task.weights, task.k)


def _refined(task: _Task) -> Integers:
    labels = _split_late(task)
    cells = neighbourhood(task.points, labels, task.weights, _changed(task.labels, labels), _NEIGHBOURS)
    rows = np.flatnonzero(np.isin(labels, cells))
    if len(rows) == 0:
        return labels
    local = np.searchsorted(cells, labels[rows])
    weights = task.weights[rows] if task.weighted else None
    points = np.ascontiguousarray(task.points[rows])
    found = refine_labels(points, local, task.k, weights=weights, seed=task.seed, rounds=task.rounds)
    labels[rows] = int(labels.max()) + 1 + found
    return np.unique(labels, return_inverse=True)[1]  # cells may have gone, or come


STRATEGIES: Mapping[str, Callable[[_Task], Integers]] = {
    "separate": _separate,
    "nearest": _nearest,
    "split-early": _split_early,
    "split-late": _split_late,
    "refined": _refined,
}
"""The ways to add a batch, by name."""


# ---------------------------------------------------------------------------------------------- parts


def _as_parts(base: ArrayLike, batch: ArrayLike) -> tuple[Floats, Floats]:
    """The two matrices as they are given, each found to be points."""
    known, new = (_as_matrix(part, name) for part, name in ((base, "base"), (batch, "batch")))
    if len(new) == 0:  # an empty list has no columns; records without columns are records all the same
        new = new.reshape(0, known.shape[1])
    if known.shape[1] != new.shape[1]:
        raise DataError(f"The base has {known.shape[1]} columns and the batch {new.shape[1]}; they must be the same.")
    return known, new


def _as_matrix(part: ArrayLike, name: str) -> Floats:
    try:
        points = as_points(part)
        return as_reals(part, "").reshape(points.shape)
    except DataError as error:
        raise DataError(f"In the {name}: {error}") from None


def order_by_coordinates(points: Floats, weights: Floats) -> Integers:
    """The rows by coordinates, then by weights: what follows cannot depend on the order in which they came.

    Examples
    --------
    >>> order_by_coordinates(np.array([[2.0, 0], [1, 5], [1, 4]]), np.ones(3))
    array([2, 1, 0])
    """
    first = points[:, 0] if points.shape[1] else weights
    order = np.argsort(first, kind="stable")
    same = first[order[1:]] == first[order[:-1]]
    tied = np.zeros(len(order), dtype=bool)
    tied[1:] |= same
    tied[:-1] |= same
    rows = order[tied]  # the other keys, which take most of the time, are for these alone
    order[tied] = rows[np.lexsort([weights[rows], *points[rows].T[::-1]])]
    return order


def _changed(before: Integers, after: Integers) -> Integers:
    """The cells that have other records than before: others joined, or a part of them was split off."""
    sizes = np.bincount(after)
    old = np.bincount(before, minlength=len(sizes))
    changed = sizes != old
    changed[after[len(before) :]] = True  # a cell can lose as many as it gains
    return np.flatnonzero(changed)
