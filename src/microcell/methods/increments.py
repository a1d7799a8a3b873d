"""Further records for a partition that is there: a batch joins its cells, or makes cells of its own.

Source: incremental microaggregation in two steps, with cells split by MDAV on the way or at the end; refinement of
the cells around is an addition to it.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell import progress
from microcell._validation import as_points, as_reals, as_weights, check_k, varying
from microcell.errors import DataError, OptionError
from microcell.kernels._jit import thread_count
from microcell.kernels.arrays import centroids
from microcell.kernels.merging import Sites, join_in_turn, make_sites, near_sites, place_site
from microcell.kernels.trees import MOST_TREE_DIMENSIONS, nearest_rows
from microcell.methods.auto import carry_out, check_effort, choose_method
from microcell.methods.mdav import mdav
from microcell.methods.registry import select
from microcell.methods.search import refine_labels
from microcell.model import Floats, Integers, Partition

__all__ = [
    "STRATEGIES",
    "add_batch",
    "check_strategy",
    "join_early",
    "join_inertially",
    "join_nearest",
    "neighbourhood",
    "order_by_coordinates",
    "split_cells",
]

_JOINING = "adding records to their nearest cells"

_SECONDS = 0.25
"""A kernel comes back after about so long, so that progress shows and Ctrl-C is heard."""

_ENTRIES_A_PIECE = 200_000_000
"""Points are handed to threads in pieces; so many entries of centroids are looked at for one."""

_LEAST_PIECE = 64


def join_nearest(X: Floats, labels: Integers, weights: Floats) -> Integers:
    """Labels of all records: those after the labelled ones join the cell with the nearest centroid, all at once.

    Ties to the lowest cell. Time O((G + q) log G) in few dimensions, else O(G q m), for q records and G cells.
    """
    means = centroids(X[: len(labels)], labels, weights[: len(labels)])
    queries = X[len(labels) :]
    if X.shape[1] <= MOST_TREE_DIMENSIONS:  # the tree shares the work among threads itself
        progress.report(_JOINING)
        joined = nearest_rows(means, queries)
    else:
        joined = _side_by_side(
            lambda some: nearest_rows(means, some), queries, means.size, _JOINING
        )
    return np.concatenate([labels, joined])


def join_inertially(X: Floats, labels: Integers, weights: Floats) -> Integers:
    """Labels of all records: the further ones join, in order, the cell whose SSE rises least; its centroid moves.

    The rise is W w / (W + w) ||y - c||^2, which with equal weights is n / (n + 1) ||y - c||^2. Time O(G q m).
    """
    filling = _Filling(X, labels, weights, room=int(labels.max()) + 1, inertial=True)
    filling.take_all()
    return filling.labels


def join_early(X: Floats, labels: Integers, weights: Floats, k: int, *, inertial: bool) -> Integers:
    """Labels of all records: the further ones join in order, and MDAV splits a cell as soon as it has 2k records.

    Cells that have so many already are split first. Without ``inertial`` centroids stay where they are until their
    cell is split. Time O(G q m).
    """
    start = split_cells(X[: len(labels)], labels, weights[: len(labels)], k)
    filling = _Filling(X, start, weights, room=len(X) // k, inertial=inertial)
    filling.take_all(k)
    return filling.labels


class _Filling:
    """Cells that take records one after the other, in the order of the rows after the labelled ones."""

    def __init__(
        self, X: Floats, labels: Integers, weights: Floats, *, room: int, inertial: bool
    ) -> None:
        self._X, self._weights, self._inertial = X, weights, inertial
        self._base = len(labels)
        self._sites: Sites = make_sites(X[: self._base], labels, weights[: self._base], room)
        self.labels = np.concatenate([labels, np.full(len(X) - self._base, -1)])

    def take_all(self, k: int | None = None) -> None:
        """Let all records join; with ``k`` a cell is split as soon as it has 2k."""
        n, most = len(self._X), len(self._X) + 1 if k is None else 2 * k
        done, step, told = self._base, 16, monotonic()
        while done < n:
            last = min(n, done + step)
            done = join_in_turn(
                self._sites, self._X, self._weights, done, last, most, self._inertial, self.labels
            )
            cell = int(self.labels[done - 1])
            if k is not None and self._sites.sizes[cell] >= most:
                self._split(cell, k)
            elif monotonic() - told < _SECONDS:
                step *= 2
            if monotonic() - told >= _SECONDS:
                step, told = max(16, step // 2), monotonic()
                progress.report(_JOINING, done - self._base, n - self._base)

    def _split(self, cell: int, k: int) -> None:
        """Split a cell by MDAV; its first part keeps the number, the others get new ones."""
        rows = np.flatnonzero(self.labels == cell)
        parts = _split_by_mdav(self._X[rows], k, self._weights[rows])
        for part in range(int(parts.max()) + 1):
            own, place = rows[parts == part], int(self._sites.used[0]) if part else cell
            self.labels[own] = place
            place_site(self._sites, place, self._X[own], self._weights[own])


def split_cells(X: Floats, labels: Integers, weights: Floats, k: int) -> Integers:
    """The labels with every cell of 2k or more split by MDAV; its first part keeps the number, others get new ones."""
    out, free = labels.copy(), int(labels.max()) + 1
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])
    large = [rows for rows in members if len(rows) >= 2 * k]
    for done, rows in enumerate(large):
        if done % 100 == 0:
            progress.report("splitting cells", done, len(large))
        parts = _split_by_mdav(X[rows], k, weights[rows])
        out[rows[parts > 0]] = free + parts[parts > 0] - 1
        free += int(parts.max())
    return out


def neighbourhood(
    X: Floats, labels: Integers, weights: Floats, touched: Integers, wanted: int
) -> Integers:
    """The touched cells and the ``wanted`` cells nearest to each, sorted. O(G m) time for each touched cell."""
    means = centroids(X, labels, weights)
    if len(touched) == 0 or wanted + 1 >= len(means):
        return np.arange(len(means)) if len(touched) else touched
    near = _side_by_side(
        lambda some: near_sites(means, some, wanted + 1),
        means[touched],
        means.size,
        "finding the cells around",
    )
    return np.union1d(touched, near)


def _split_by_mdav(X: Floats, k: int, weights: Floats) -> Integers:
    with progress.listen(_say_nothing):  # a split is short, and there are many
        return mdav(X, k, weights=weights, seed=0)


def _say_nothing(task: str, done: int, total: int) -> None:
    """Hear a report and forget it."""


def _side_by_side(
    work: Callable[[Floats], Integers], points: Floats, entries: int, task: str
) -> Integers:
    """What ``work`` finds for the points, on all threads: kernels let others run. Ctrl-C starts no further piece.

    ``entries`` are looked at for each point.
    """
    size = min(
        max(_LEAST_PIECE, _ENTRIES_A_PIECE // max(1, entries)),
        -(-len(points) // thread_count()) or 1,
    )
    pieces = [points[first : first + size] for first in range(0, max(1, len(points)), size)]
    found, done = [], 0
    with ThreadPoolExecutor(thread_count()) as pool:
        try:
            for piece, result in zip(pieces, pool.map(work, pieces), strict=True):
                progress.report(task, done, len(points))
                found.append(result)
                done += len(piece)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return np.concatenate(found)


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
        raise OptionError(
            f"labels must be {len(known)} cell numbers, one a row of base, not {len(start.labels)}."
        )
    points = varying(as_points(np.concatenate([known, new])))  # scaled together, if at all
    given = as_weights(weights, len(points))
    each = np.ones(len(points)) if given is None else given
    first = len(known)
    order = np.concatenate(
        [np.arange(first), first + order_by_coordinates(points[first:], each[first:])]
    )
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
    return Partition(
        found,
        int(k),
        method=strategy,
        reason=f"{task.new} records added to {len(start.sizes)} cells",
    )


def check_strategy(
    strategy: Any, *, inertial: Any, method: Any, rounds: Any, options: Mapping[str, Any]
) -> None:
    """Refuse a strategy that is unknown, and what it does not use."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise OptionError(f"No strategy {strategy!r}; choose one of {', '.join(STRATEGIES)}.")
    if not isinstance(inertial, bool):
        raise OptionError("inertial must be true or false.")
    if strategy != "separate" and (method is not None or options):
        given = "method" if method is not None else next(iter(options))
        raise OptionError(
            f"Strategy {strategy!r} makes no cells of its own and has no option {given!r}."
        )
    if rounds is not None and strategy != "refined":
        raise OptionError(f"Strategy {strategy!r} does not refine and has no option 'rounds'.")
    if rounds is not None and (
        isinstance(rounds, bool) or not isinstance(rounds, (int, np.integer)) or rounds < 1
    ):
        raise OptionError(f"rounds must be a whole number of 1 or more, not {rounds!r}.")
    if method == "auto":
        if set(options) - {"effort"}:
            raise OptionError(
                "Method 'auto' has no option but effort. Name the method that the others are for."
            )
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
    cells = neighbourhood(
        task.points, labels, task.weights, _changed(task.labels, labels), _NEIGHBOURS
    )
    rows = np.flatnonzero(np.isin(labels, cells))
    if len(rows) == 0:
        return labels
    local = np.searchsorted(cells, labels[rows])
    weights = task.weights[rows] if task.weighted else None
    points = np.ascontiguousarray(task.points[rows])
    found = refine_labels(
        points, local, task.k, weights=weights, seed=task.seed, rounds=task.rounds
    )
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
    if (
        len(new) == 0
    ):  # an empty list has no columns; records without columns are records all the same
        new = new.reshape(0, known.shape[1])
    if known.shape[1] != new.shape[1]:
        raise DataError(
            f"The base has {known.shape[1]} columns and the batch {new.shape[1]}; they must be the same."
        )
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
