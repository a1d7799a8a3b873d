"""Cells of candidates who may not take part: large enough that k of them do, or nobody, but for a small probability."""

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from microcell import progress
from microcell._validation import as_points, as_reals, check_k, varying
from microcell.errors import DataError, GuaranteeError, OptionError, TooFewRecordsError
from microcell.kernels._jit import thread_count
from microcell.kernels.arrays import Seeds, centroids, squared_distances, sum_of_squares
from microcell.kernels.bisect import bisect_rows
from microcell.kernels.exchange import Limits
from microcell.kernels.groups import empty_blocks, fill_blocks, no_rule
from microcell.kernels.mdav import EXHAUSTED, FIRST, SHORT, grow_cells, make_running
from microcell.kernels.participation import count, failures_of_cells, steady_size
from microcell.kernels.scans import lay_out, make_scratch
from microcell.kernels.within import exchange_within_limit
from microcell.methods.mdav import Pace, mdav
from microcell.methods.search import (
    NEAR_CELLS,
    Found,
    Search,
    centred,
    compact,
    near_cells,
    refine_labels,
)
from microcell.model import Floats, Integers

__all__ = ["expected_distortion", "participating_cells", "refine_within", "size_for_participation"]

_ROUNDS, _PASSES = 12, 2
_MANY_CELLS, _ROUNDS_OF_MANY, _PASSES_OF_MANY = 200_000, 4, 1
"""How often to go over the regions, and over each of them; beyond so many records less often, so that it ends soon."""

_ENOUGH = 2e-4
"""A round that lowers the SSE by less than this share is the last."""

_FAILURE_MARGIN = 1e-9
"""The search stays below the limit by this share of it: it sums in another order than the check in the end."""


def refine_within(
    X: Floats, labels: Integers, k: int, chances: Floats, failure: float, *, seed: int
) -> Integers:
    """The labels after local search between near cells, which keep P{0 < K < k} <= ``failure`` each.

    Never raises the expected distortion. Time O(n m size) a round, for each of the cells near.
    """
    search = _Within(X, labels, k, chances, failure * (1 - _FAILURE_MARGIN), seed)
    rounds = _ROUNDS if len(X) <= _MANY_CELLS else _ROUNDS_OF_MANY
    for done in range(rounds):
        progress.report("refining", done, rounds)
        last = search.sse
        if search.exchange() == 0 or last - search.sse < _ENOUGH * last:
            break
    return search.labels if search.sse <= sum_of_squares(X, labels, chances) else labels


class _Within(Search):
    """A search whose cells have a failure limit and no greatest size."""

    def __init__(
        self, X: Floats, labels: Integers, k: int, chances: Floats, failure: float, seed: int
    ) -> None:
        super().__init__(
            X, labels, k, chances, seed, no_rule(len(X))
        )  # with a rule sizes have no upper limit
        self._failure = failure
        self._passes = _PASSES if len(X) <= _MANY_CELLS else _PASSES_OF_MANY

    def exchange(self) -> int:
        """Make the allowed exchanges that help in every region once; how many were made."""
        return self._round(min(13_000, max(350, self.cells // 4)), self._exchange)

    def _exchange(self, rows: Integers, state: Seeds) -> Found:  # noqa: ARG002
        labels = compact(self.labels[rows])
        sizes = np.bincount(labels)
        # An odd large cell stays as it is: room for it would be room for all.
        cap = min(int(sizes.max()) + 4, int(2 * np.median(sizes)) + 8)
        small = sizes <= cap
        some = np.flatnonzero(small[labels])
        own = (np.cumsum(small) - 1)[labels[some]]
        count, k = int(small.sum()), self._limits.least
        if count < 2:
            return Found(labels, 0)
        points = centred(self._X[rows[some]])[0]
        blocks = empty_blocks(count, points.shape[1], cap)
        fill_blocks(blocks, points, self._weights[rows[some]], own)
        near = near_cells(blocks.sums, blocks.totals, NEAR_CELLS)
        changes = exchange_within_limit(
            blocks, near, Limits(k, cap), k, self._failure, self._passes
        )
        for cell in range(count):
            labels[some[blocks.members[cell, : blocks.sizes[cell]]]] = len(sizes) + cell
        return Found(compact(labels), changes)


_MANY = 50_000
_MACROCELL = 20_000
"""Beyond so many candidates cells are made within macrocells of so many, unless the user says how many."""

_MARGIN = 1e-10
"""Failures are right to this share."""

_NEAR = 20
"""So many near cells are asked whether they can take a record that is left over."""


def participating_cells(
    X: ArrayLike,
    k: int,
    participation: float | Sequence[float] | Floats,
    failure: float,
    *,
    seed: int = 0,
    refine: bool = True,
    macrocells: int | None = None,
) -> Integers:
    """Labels of cells of which each has P{0 < K < k} <= ``failure``, K being how many of its candidates take part.

    ``participation`` is one probability for all rows of ``X`` or one a row. If it is the same for all, MDAV makes
    cells of :func:`size_for_participation`. Otherwise cells grow as MDAV's do, but each takes records in ascending
    distance from its reference until it meets the limit. Those left over in the end join the nearest cell that then
    still meets it. ``refine``: local search then lowers the expected distortion, and keeps every cell within the limit.
    Means are weighted by participation. ``macrocells``: make cells within parts of at most so many records, as for
    tables over 50,000 rows. Time O(n^2 m / size), O(n m) a macrocell and cell; every cell is checked in the end.

    Examples
    --------
    >>> chance = np.random.default_rng(0)
    >>> X, participation = chance.normal(size=(300, 2)), chance.uniform(0.3, 0.9, 300)
    >>> labels = participating_cells(X, 3, participation, 0.01)
    >>> start = participating_cells(X, 3, participation, 0.01, refine=False)
    >>> expected_distortion(X, labels, participation) < expected_distortion(X, start, participation)
    True
    """
    check_k(k)
    k = int(k)
    points = as_points(X)
    limit, chances = _as_failure(failure), _as_chances(participation, len(points))
    if len(points) < k:
        raise TooFewRecordsError(
            f"{len(points)} candidates cannot make a cell of k = {k}. Lower k, or add candidates."
        )
    points = varying(points)
    most = _as_macrocells(macrocells, k, len(points))
    _check_seed(seed)
    if not isinstance(refine, bool):
        raise OptionError("refine must be true or false.")
    for aim in (
        limit,
        limit * (1 - _MARGIN),
    ):  # again, where a sum in another order comes out just above the limit
        labels = _cells_of_equal(points, k, chances, aim, int(seed), refine, most)
        if labels is None:
            labels = _cells_of_uneven(points, k, chances, aim, most)
            if refine:
                labels = refine_within(points, labels, k, chances, aim, seed=int(seed))
        failing = int((failures_of_cells(labels, chances, k) > limit).sum())
        if failing == 0 and np.bincount(labels).min() >= k:
            return labels
    raise GuaranteeError(
        f"{failing} cells would miss the failure limit, so there are none. Please report this."
    )


def size_for_participation(k: int, participation: float, failure: float) -> int:
    """The k to give any method so that all its cells have P{0 < K < k} <= ``failure``, at a common participation.

    The least size from which on every size meets the limit. It is that of the effective anonymity, except where small
    cells meet the limit only because hardly anybody takes part, so that larger ones would not.

    Examples
    --------
    >>> size_for_participation(10, 0.75, 1e-5)
    27
    """
    check_k(k)
    chance = float(_as_chances(participation, 1)[0])
    if chance < 1e-300:
        raise OptionError("participation must be over 1e-300 for a size that can be counted.")
    limit = _as_failure(failure)
    size = steady_size(int(k), chance, limit)
    if count(size, int(k), chance).failure > limit * (1 - _MARGIN) and not _is_summed_within(
        size, int(k), chance, limit
    ):
        return steady_size(int(k), chance, limit * (1 - _MARGIN))
    return size


def _is_summed_within(size: int, k: int, chance: float, limit: float) -> bool:
    """Whether a cell of this size, just at the limit, meets it also as cells are checked, by another sum."""
    if size > _MANY:
        return False
    return bool(
        failures_of_cells(np.zeros(size, dtype=np.int64), np.full(size, chance), k)[0] <= limit
    )


def expected_distortion(X: ArrayLike, labels: ArrayLike, participation: float | ArrayLike) -> float:
    """D = sum q |x - c|^2 / (m sum q), c being the mean of the record's cell weighted by participation q. O(n m).

    Examples
    --------
    >>> expected_distortion([[0.0], [1.0], [4.0]], [0, 0, 0], [1.0, 0.5, 0.5])
    2.6875
    """
    points = as_points(X)
    if points.size == 0:
        raise DataError("Points must have at least one record and one column.")
    chances, cells = _as_chances(participation, len(points)), np.asarray(labels)
    if cells.dtype.kind not in "iu" or cells.shape != (len(points),) or cells.min() < 0:
        raise OptionError(f"labels must be {len(points)} cell numbers of 0 or more, one a row.")
    cells = np.unique(cells, return_inverse=True)[1]
    largest = float(np.abs(points).max())
    scale = float(np.abs(np.asarray(X, dtype=np.float64)).max()) / largest if largest > 0 else 1.0
    return float(
        sum_of_squares(points, cells, chances) / (points.shape[1] * chances.sum()) * scale * scale
    )


def _check_seed(given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, Integral) or int(given) < 0:
        raise OptionError("seed must be a whole number of 0 or more.")


def _as_failure(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, Real) or not 1e-300 <= float(given) < 1:
        raise OptionError("failure must be a probability of 1e-300 or more, and under 1.")
    return float(given)


def _as_chances(given: object, rows: int) -> Floats:
    """The probability of each row to take part, from one for all or one a row."""
    message = f"participation must be a probability, or {rows} of them, one a row."
    out = as_reals(given, message)  # type: ignore[arg-type]
    if np.asarray(given).dtype.kind not in "fiu" or out.shape not in ((), (rows,)):
        raise DataError(message)
    wrong = ~((out > 0) & (out <= 1))
    if out.ndim == 0 and wrong:
        raise OptionError("participation must be over 0 and up to 1.")
    if wrong.any():
        raise DataError(
            f"participation must be over 0 and up to 1: row {int(wrong.argmax()) + 1} is not."
        )
    return np.full(rows, float(out)) if out.ndim == 0 else np.ascontiguousarray(out)


def _as_macrocells(given: object, k: int, rows: int) -> int:
    if given is None:
        return _MACROCELL if rows > _MANY else rows
    if isinstance(given, bool) or not isinstance(given, Integral) or int(given) < 2 * k:
        raise OptionError(f"macrocells must be a whole number of 2k = {2 * k} or more.")
    return int(given)


def _cells_of_equal(
    X: Floats, k: int, chances: Floats, limit: float, seed: int, refine: bool, most: int
) -> Integers | None:
    """The cells where participation is the same for all; None where it is not, or where such cells are too large."""
    if chances.min() < chances.max():
        return None
    all_in_one = count(len(X), k, float(chances[0]))
    if all_in_one.failure > limit or not all_in_one.steady:
        return None
    size = steady_size(k, float(chances[0]), limit)
    within = max(most, 2 * size) if most < len(X) else None
    labels = mdav(X, size, weights=None, seed=seed, macrocells=within)
    return refine_labels(X, labels, size, seed=seed) if refine else labels


def _cells_of_uneven(X: Floats, k: int, chances: Floats, limit: float, most: int) -> Integers:
    """Cells grown within macrocells; what these leave over joins cells anywhere."""
    rows, labels, done = np.arange(len(X)), np.full(len(X), -1), 0
    for first, last in pairwise(bisect_rows(X, rows, k, most)):
        own = np.sort(rows[first:last])
        grown = _grow(X[own], k, chances[own], limit)
        labels[own] = np.where(grown < 0, -1, grown + done)
        done = max(done, int(labels[own].max()) + 1)
        progress.report("grouping candidates", int(last), len(X))
    if done == 0:
        raise TooFewRecordsError(
            f"All {len(X)} candidates together are too few for a cell of k = {k} within the failure limit. Accept more "
            "failures, lower k, or add candidates."
        )
    return _Joining(X, k, chances, limit, labels).labels()


def _grow(X: Floats, k: int, chances: Floats, limit: float) -> Integers:
    """Labels of the cells that grow from references far from the mean; -1 for what is left over."""
    points, labels, state = lay_out(X), np.full(len(X), -1), np.array([0, FIRST])
    running, pace, stopped = make_running(X, chances), Pace(thread_count()), 0
    reach = min(len(X), 4 * k)
    scratch = {threads: make_scratch(reach, threads) for threads in (1, thread_count())}
    while stopped != EXHAUSTED:
        turn = pace.next()
        stopped = grow_cells(
            points, k, limit, turn.rounds, state, labels, running, scratch[turn.threads]
        )
        if stopped == SHORT:
            reach = min(len(X), 2 * reach)
            scratch = {threads: make_scratch(reach, threads) for threads in (1, thread_count())}
    return labels


class _Joining:
    """Records left over join cells, in ascending distance from the nearest mean; every cell meets its limit after."""

    def __init__(self, X: Floats, k: int, chances: Floats, limit: float, labels: Integers) -> None:
        self._X, self._k, self._chances, self._limit = X, k, chances, limit
        self._rest = np.flatnonzero(labels < 0)
        self._labels = labels
        kept = labels >= 0
        self._means = centroids(X[kept], labels[kept], chances[kept])
        order = np.argsort(labels, kind="stable")[len(self._rest) :]
        self._members = np.split(order, np.cumsum(np.bincount(labels[kept]))[:-1])

    def labels(self) -> Integers:
        """The labels, numbered through, when all have joined."""
        near, distance = self._nearest()
        for i in np.argsort(distance, kind="stable"):
            self._join(self._rest[i], near[i])
        return np.unique(self._labels, return_inverse=True)[1]

    def _nearest(self) -> tuple[list[Integers], Floats]:
        """For each record left over the nearest cells, nearest first, and the distance of the first."""
        near, distance = [], np.empty(len(self._rest))
        for i, row in enumerate(self._rest):
            distances = squared_distances(self._means, self._X[row])
            some = np.arange(len(distances))
            if len(some) > _NEAR:
                some = np.flatnonzero(distances <= np.partition(distances, _NEAR - 1)[_NEAR - 1])
            some = some[np.argsort(distances[some], kind="stable")][:_NEAR]
            near.append(some)
            distance[i] = distances[some[0]]
        return near, distance

    def _join(self, row: int, near: Integers) -> None:
        """Add the record to the first of these cells that meets its limit with it; if none does, mend the first."""
        alive = [cell for cell in near if len(self._members[cell])]
        for cell in alive:
            joined = np.append(self._members[cell], row)
            if self._meets(joined):
                self._members[cell] = joined
                self._labels[row] = cell
                return
        cell = alive[0] if alive else self._nearest_alive(self._X[row], -1)
        self._members[cell] = np.append(self._members[cell], row)
        self._mend(cell)

    def _meets(self, members: Integers) -> bool:
        found = failures_of_cells(
            np.zeros(len(members), dtype=np.int64), self._chances[members], self._k
        )
        return bool(found[0] <= self._limit)

    def _mend(self, cell: int) -> None:
        """Merge the nearest cells into this one until it meets its limit."""
        while not self._meets(self._members[cell]):
            own = self._members[cell]
            mean = np.average(self._X[own], axis=0, weights=self._chances[own])
            other = self._nearest_alive(mean, cell)
            if other < 0:
                raise GuaranteeError(
                    "The candidates left over fit no cell within the failure limit, and all together miss it. Accept "
                    "more failures, lower k, or add candidates."
                )
            self._members[cell] = np.append(own, self._members[other])
            self._members[other] = own[:0]
        self._labels[self._members[cell]] = cell

    def _nearest_alive(self, point: Floats, but: int) -> int:
        """The cell with the nearest mean, as it was before any record joined; -1 if there is none."""
        alive = np.array(
            [cell for cell in range(len(self._members)) if cell != but and len(self._members[cell])]
        )
        return (
            int(alive[squared_distances(self._means[alive], point).argmin()]) if len(alive) else -1
        )
