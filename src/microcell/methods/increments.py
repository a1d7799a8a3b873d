"""Adding a batch of records to an existing partition.

A batch joins the existing cells or forms cells of its own. Source: incremental microaggregation in
two steps, with cells split by MDAV on the way or at the end; refining the surrounding cells is an
addition.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import blake2b
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell import progress
from microcell._display import count
from microcell._validation import as_points, as_reals, as_weights, check_k, varying
from microcell.errors import DataError, OptionError
from microcell.kernels._jit import thread_count
from microcell.kernels.arrays import centroids
from microcell.kernels.merging import Sites, join_in_turn, make_sites, near_sites, place_site
from microcell.kernels.trees import MOST_TREE_DIMENSIONS, nearest_rows
from microcell.methods.auto import check_effort, choose_method, run_choice
from microcell.methods.mdav import mdav
from microcell.methods.persons import as_persons, collapse, person_rule
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
    "order_by_hash",
    "split_cells",
]

_JOINING = "adding records to their nearest cells"

_SECONDS = 0.25
"""Target duration of a kernel call, so that progress is shown and Ctrl-C works."""

_ENTRIES_A_PIECE = 200_000_000
"""Points are passed to threads in pieces for which about this many coordinates are compared."""

_LEAST_PIECE = 64


def join_nearest(X: Floats, labels: Integers, weights: Floats) -> Integers:
    """Add further records to the cells with the nearest centroids, all at once; return all labels.

    Ties go to the lowest cell. Time O((G + q) log G) in few dimensions, otherwise O(G q m), for q
    records and G cells.
    """
    means = centroids(X[: len(labels)], labels, weights[: len(labels)])
    queries = X[len(labels) :]
    if X.shape[1] <= MOST_TREE_DIMENSIONS:  # the tree search is parallel already
        progress.report(_JOINING)
        joined = nearest_rows(means, queries)
    else:
        joined = _in_parallel(lambda some: nearest_rows(means, some), queries, means.size, _JOINING)
    return np.concatenate([labels, joined])


def join_inertially(X: Floats, labels: Integers, weights: Floats) -> Integers:
    """Add further records, in order, to the cell whose SSE rises least; return all labels.

    The rise is W w / (W + w) ||y - c||^2, which with equal weights is n / (n + 1) ||y - c||^2, and
    the centroid moves. Time O(G q m).
    """
    filling = _Filling(X, labels, weights, room=int(labels.max()) + 1, inertial=True)
    filling.take_all()
    return filling.labels


def join_early(
    X: Floats,
    labels: Integers,
    weights: Floats,
    k: int,
    persons: Integers | None = None,
    *,
    inertial: bool,
) -> Integers:
    """Add further records in order, splitting a cell by MDAV as soon as it has 2k records.

    Cells that already have 2k are split first. With ``persons``, every part has k persons, and a
    cell that cannot be divided in this way stays whole. Without ``inertial``, centroids stay where
    they are until their cell is split. Returns all labels. Time O(G q m).
    """
    base = len(labels)
    base_persons = None if persons is None else persons[:base]
    start = split_cells(X[:base], labels, weights[:base], k, base_persons)
    filling = _Filling(X, start, weights, room=len(X) // k, inertial=inertial)
    filling.take_all(k, persons)
    return filling.labels


class _Filling:
    """Cells that take records one after the other, in the order of the unlabelled rows."""

    def __init__(
        self, X: Floats, labels: Integers, weights: Floats, *, room: int, inertial: bool
    ) -> None:
        self._X, self._weights, self._inertial = X, weights, inertial
        self._base = len(labels)
        self._sites: Sites = make_sites(X[: self._base], labels, weights[: self._base], room)
        self.labels = np.concatenate([labels, np.full(len(X) - self._base, -1)])

    def take_all(self, k: int | None = None, persons: Integers | None = None) -> None:
        """Add all records to cells; with ``k``, split a cell as soon as it has 2k."""
        n, most = len(self._X), len(self._X) + 1 if k is None else 2 * k
        done, step, reported = self._base, 16, monotonic()
        while done < n:
            last = min(n, done + step)
            done = join_in_turn(
                self._sites, self._X, self._weights, done, last, most, self._inertial, self.labels
            )
            cell = int(self.labels[done - 1])
            if k is not None and self._sites.sizes[cell] >= most:
                self._split(cell, k, persons)
            elif monotonic() - reported < _SECONDS:
                step *= 2
            if monotonic() - reported >= _SECONDS:
                step, reported = max(16, step // 2), monotonic()
                progress.report(_JOINING, done - self._base, n - self._base)

    def _split(self, cell: int, k: int, persons: Integers | None) -> None:
        """Split a cell by MDAV; its first part keeps the number, the others get new ones."""
        rows = np.flatnonzero(self.labels == cell)
        parts = _split_by_mdav(self._X[rows], k, self._weights[rows], _take(persons, rows))
        if not parts.any():
            return
        for part in range(int(parts.max()) + 1):
            inside = rows[parts == part]
            place = int(self._sites.used[0]) if part else cell
            self.labels[inside] = place
            place_site(self._sites, place, self._X[inside], self._weights[inside])


def split_cells(
    X: Floats, labels: Integers, weights: Floats, k: int, persons: Integers | None = None
) -> Integers:
    """Split every cell of at least 2k by MDAV; the first part keeps the number.

    With ``persons`` every part has k of them.
    """
    out, free = labels.copy(), int(labels.max()) + 1
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])
    large = [rows for rows in members if len(rows) >= 2 * k]
    for done, rows in enumerate(large):
        if done % 100 == 0:
            progress.report("splitting cells", done, len(large))
        parts = _split_by_mdav(X[rows], k, weights[rows], _take(persons, rows))
        out[rows[parts > 0]] = free + parts[parts > 0] - 1
        free += int(parts.max())
    return out


def neighbourhood(
    X: Floats, labels: Integers, weights: Floats, touched: Integers, count: int
) -> Integers:
    """Return the touched cells and the ``count`` nearest of each, sorted. O(G m) per cell."""
    means = centroids(X, labels, weights)
    if len(touched) == 0 or count + 1 >= len(means):
        return np.arange(len(means)) if len(touched) else touched
    near = _in_parallel(
        lambda some: near_sites(means, some, count + 1),
        means[touched],
        means.size,
        "finding neighbouring cells",
    )
    return np.union1d(touched, near)


def _split_by_mdav(X: Floats, k: int, weights: Floats, persons: Integers | None) -> Integers:
    with progress.listen(_ignore):  # splits are short and numerous
        return mdav(X, k, weights=weights, seed=0, persons=persons)


def _take(persons: Integers | None, rows: Integers | slice) -> Integers | None:
    return None if persons is None else persons[rows]


def _ignore(task: str, done: int, total: int) -> None:
    """Discard a progress report."""


def _in_parallel(
    work: Callable[[Floats], Integers], points: Floats, entries: int, task: str
) -> Integers:
    """Run ``work`` on pieces of the points on all threads; Ctrl-C starts no further piece.

    ``entries`` are examined for each point.
    """
    size = min(
        max(_LEAST_PIECE, _ENTRIES_A_PIECE // max(1, entries)),
        -(-len(points) // thread_count()) or 1,
    )
    pieces = [points[first : first + size] for first in range(0, max(1, len(points)), size)]
    results, done = [], 0
    with ThreadPoolExecutor(thread_count()) as pool:
        try:
            for piece, result in zip(pieces, pool.map(work, pieces), strict=True):
                progress.report(task, done, len(points))
                results.append(result)
                done += len(piece)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return np.concatenate(results)


_NEIGHBOURS = 8
"""Number of cells around each changed cell that take part in the refinement."""

_ROUNDS = 1
"""Default number of refinement rounds: the first one gains most, and a batch should not take long.
"""


@dataclass(frozen=True, eq=False)
class _Task:
    """Points with the batch last, in canonical order; the labels of the base; and the options."""

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
    persons: Integers | None

    @property
    def new(self) -> int:
        """Number of records in the batch."""
        return len(self.points) - len(self.labels)

    @property
    def new_people(self) -> int:
        """Number of people in the batch."""
        if self.persons is None:
            return self.new
        return len(np.unique(self.persons[len(self.labels) :]))


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
    persons: ArrayLike | None = None,
    together: bool = False,
    seed: int = 0,
    **options: Any,
) -> Partition:
    """Add a batch to existing cells; return the partition of all records, those of ``base`` first.

    The strategies:

    - "separate": the batch forms cells of its own by ``method`` ("mdav" by default) and its
      ``options``; fewer than k records join their nearest cells instead.
    - "nearest": each record joins the cell of ``base`` with the nearest centroid. Cells have
      no maximum size.
    - "split-early": the same, one record after the other; a cell that reaches 2k is split by
      MDAV at once, and both parts take further records.
    - "split-late": all join as for "nearest", then every cell of at least 2k is split by MDAV.
    - "refined": as "split-late", then ``rounds`` rounds (1 by default) of local search among
      the cells that changed and their neighbours.

    With ``inertial`` a record joins the cell whose SSE rises least, n / (n + 1) ||y - c||^2, and
    its centroid moves. All strategies but "separate" and "nearest" end with cells of k to 2k-1. The
    batch is processed in the order of its coordinates ("split-early": of a hash of them, because
    sorted arrivals would fill one region after the other), so the order of its rows does not
    matter, except that equal records may be exchanged. Cells of the base that no record joins, and
    that are neither split nor refined, keep their records and, except for "refined", their numbers.
    To add further batches, call again with all points so far.

    Parameters
    ----------
    base, batch
        Matrices of floats on the same scale, used without further scaling.
    labels
        Cell of each record of ``base``; all cells must have at least k.
    weights
        One positive number for each record of the base, then of the batch.
    persons
        Who each record of the base, then of the batch is about, if a person may have several. k
        then counts distinct persons, and cells have no maximum size.
    together
        All records of a person share a cell: those of a person of the base join that person's cell.

    Raises
    ------
    GuaranteeError
        A cell of the base has fewer than k records or, with ``persons``, fewer than k persons.
    OptionError, DataError
        The strategy is unknown, an option is not supported by it, or the points are invalid.

    Notes
    -----
    Time O(q log G) for q records and G cells in few dimensions, O(G q m) in more, with ``inertial``
    and for "split-early"; that of the method on q records for "separate". "refined" adds O(n m k)
    per round for the n records of the cells that take part.

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
    base_points, new = _check_parts(base, batch)
    first = len(base_points)
    if np.shape(labels) != (first,):
        raise OptionError(
            f"labels must have one cell number per row of base ({first}).",
            code="option.invalid",
            option="labels",
        )
    points = varying(as_points(np.concatenate([base_points, new])))  # scaled together, if at all
    who = as_persons(persons, len(points))
    start = Partition(np.asarray(labels), int(k), persons=_take(who, slice(first)))
    checked_weights = as_weights(weights, len(points))
    if who is not None and together:
        settings = {"strategy": strategy, "inertial": inertial, "method": method, "rounds": rounds}
        return _add_whole(points, start, who, checked_weights, seed=seed, **settings, **options)
    each = np.ones(len(points)) if checked_weights is None else checked_weights
    order_of_batch = order_by_hash if strategy == "split-early" else order_by_coordinates
    order = np.concatenate([np.arange(first), first + order_of_batch(points[first:], each[first:])])
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
        checked_weights is not None,
        _take(who, order),
    )
    result = np.empty(len(points), dtype=np.int64)
    result[order] = STRATEGIES[strategy](task)
    reason = f"{task.new} records added to {len(start.sizes)} cells"
    return Partition(result, int(k), method=strategy, reason=reason, persons=who)


def _add_whole(
    points: Floats, start: Partition, persons: Integers, weights: Floats | None, **settings: Any
) -> Partition:
    """Add a batch with each person as one point; those of the base stay in their cells."""
    first = len(start.labels)
    cells = np.full(int(persons.max()) + 1, -1)
    cells[persons[:first]] = start.labels
    if (cells[persons[:first]] != start.labels).any():
        raise OptionError(
            "The rows of a person of the base are in several cells, so they cannot stay together.",
            code="option.conflict",
            option="together",
        )
    whole = collapse(points, weights, persons, None)
    order = np.argsort(cells < 0, kind="stable")  # persons of the base first
    base, new = np.split(order, [int((cells >= 0).sum())])
    added = add_batch(
        whole.points[base],
        cells[base],
        whole.points[new],
        start.k,
        weights=whole.weights[order],
        **settings,
    )
    of_person = np.empty(len(order), dtype=np.int64)
    of_person[order] = added.labels
    return replace(added, labels=of_person[persons], persons=persons)


def check_strategy(
    strategy: Any, *, inertial: Any, method: Any, rounds: Any, options: Mapping[str, Any]
) -> None:
    """Raise OptionError for an unknown strategy, or for options that it does not support."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise OptionError(
            f"Unknown strategy {strategy!r}. Choose one of {', '.join(STRATEGIES)}.",
            code="option.unknown",
            option="strategy",
        )
    if not isinstance(inertial, bool):
        raise OptionError(
            "inertial must be true or false.", code="option.wrong_type", option="inertial"
        )
    if strategy != "separate" and (method is not None or options):
        option = "method" if method is not None else next(iter(options))
        raise OptionError(
            f"Strategy {strategy!r} makes no new cells, so it does not support {option!r}. Omit "
            "the option.",
            code="option.unsupported",
            option=option,
            strategy=strategy,
        )
    if rounds is not None and strategy != "refined":
        raise OptionError(
            f"Strategy {strategy!r} does not refine, so it does not support 'rounds'. Omit the "
            "option.",
            code="option.unsupported",
            option="rounds",
            strategy=strategy,
        )
    if rounds is not None and (
        isinstance(rounds, bool) or not isinstance(rounds, (int, np.integer)) or rounds < 1
    ):
        raise OptionError(
            f"rounds must be an integer of at least 1, not {rounds!r}.",
            code="option.out_of_range",
            option="rounds",
        )
    if method == "auto":
        for option in set(options) - {"effort"}:
            raise OptionError(
                f"Method 'auto' has no option {option!r}, only effort. Name the method that the "
                "option is for.",
                code="option.unsupported",
                option=option,
                method="auto",
            )
        check_effort(options.get("effort", "balanced"))
    else:
        select(method or "mdav").check_options(options)


def _separate(task: _Task) -> Integers:
    if task.new_people < task.k:
        return _nearest(task)
    base = len(task.labels)
    weights = task.weights[base:] if task.weighted else None
    part = varying(task.points[base:])
    choice = choose_method(
        part, task.k, task.method, task.options, len(part), persons=task.persons is not None
    )
    cells, _ = run_choice(
        part, task.k, choice, weights, task.seed, _take(task.persons, slice(base, None))
    )
    return np.concatenate([task.labels, int(task.labels.max()) + 1 + cells])


def _nearest(task: _Task) -> Integers:
    join = join_inertially if task.inertial else join_nearest
    return join(task.points, task.labels, task.weights)


def _split_early(task: _Task) -> Integers:
    return join_early(
        task.points, task.labels, task.weights, task.k, task.persons, inertial=task.inertial
    )


def _split_late(task: _Task) -> Integers:
    return split_cells(task.points, _nearest(task), task.weights, task.k, task.persons)


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
    rule = None
    if task.persons is not None:
        local_persons = np.unique(task.persons[rows], return_inverse=True)[1].reshape(-1)
        rule = person_rule(local_persons, task.k)
    refined = refine_labels(
        points, local, task.k, weights=weights, seed=task.seed, rounds=task.rounds, rule=rule
    )
    labels[rows] = int(labels.max()) + 1 + refined
    return np.unique(labels, return_inverse=True)[1]  # cells may have disappeared or been added


STRATEGIES: Mapping[str, Callable[[_Task], Integers]] = {
    "separate": _separate,
    "nearest": _nearest,
    "split-early": _split_early,
    "split-late": _split_late,
    "refined": _refined,
}
"""Ways to add a batch, by name."""


def _check_parts(base: ArrayLike, batch: ArrayLike) -> tuple[Floats, Floats]:
    """Return the two matrices unscaled, after checking them."""
    base_points, new = (
        _check_matrix(part, name) for part, name in ((base, "base"), (batch, "batch"))
    )
    if len(new) == 0:  # an empty list has no columns
        new = new.reshape(0, base_points.shape[1])
    if base_points.shape[1] != new.shape[1]:
        raise DataError(
            f"The base has {count(base_points.shape[1], 'column')}, but the batch has "
            f"{new.shape[1]}. Use the same columns for both.",
            code="table.mismatch",
            columns=new.shape[1],
        )
    return base_points, new


def _check_matrix(part: ArrayLike, name: str) -> Floats:
    try:
        points = as_points(part)
        return as_reals(part, "").reshape(points.shape)
    except DataError as error:
        raise DataError(f"In the {name}: {error}", code=error.code, **error.details) from None


def order_by_coordinates(points: Floats, weights: Floats) -> Integers:
    """Return the rows sorted by coordinates, then by weights.

    Results then do not depend on the order in which records arrived.

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
    rows = order[tied]  # only these need the other keys, which take most of the time
    order[tied] = rows[np.lexsort([weights[rows], *points[rows].T[::-1]])]
    return order


def order_by_hash(points: Floats, weights: Floats) -> Integers:
    """Return the rows in a pseudo-random order that depends only on their coordinates and weights.

    Equal rows stay in their order.

    Examples
    --------
    >>> points = np.array([[2.0, 0], [1, 5], [1, 4]])
    >>> order, moved = order_by_hash(points, np.ones(3)), order_by_hash(points[::-1], np.ones(3))
    >>> bool((points[order] == points[::-1][moved]).all())
    True
    """
    values = np.ascontiguousarray(np.column_stack([points, weights])) + 0.0  # -0.0 equals 0.0
    hashes = np.array(
        [int.from_bytes(blake2b(row.tobytes(), digest_size=8).digest(), "big") for row in values],
        dtype=np.uint64,
    )
    return np.argsort(hashes, kind="stable")


def _changed(before: Integers, after: Integers) -> Integers:
    """Return the cells whose records changed because records joined or a part was split off."""
    sizes = np.bincount(after)
    old = np.bincount(before, minlength=len(sizes))
    changed = sizes != old
    changed[after[len(before) :]] = True  # a cell can lose as many as it gains
    return np.flatnonzero(changed)
