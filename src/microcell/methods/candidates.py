"""Cells of survey candidates: with high probability, either none or at least k take part."""

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike

from microcell import progress
from microcell._display import count as counted
from microcell._validation import (
    MIN_PROBABILITY,
    as_points,
    as_reals,
    check_failure,
    check_k,
    varying,
)
from microcell.errors import DataError, GuaranteeError, OptionError, TooFewRecordsError
from microcell.kernels._jit import thread_count
from microcell.kernels.arrays import Seeds, centroids, squared_distances, sum_of_squares
from microcell.kernels.bisect import bisect_rows
from microcell.kernels.exchange import Limits
from microcell.kernels.groups import empty_blocks, fill_blocks
from microcell.kernels.mdav import EXHAUSTED, FIRST, SHORT, grow_cells, make_running
from microcell.kernels.participation import (
    count,
    failures_of_cells,
    protecting_size,
    steady_size,
)
from microcell.kernels.rules import no_rule
from microcell.kernels.scans import lay_out, make_scratch
from microcell.kernels.within import exchange_within_limit
from microcell.methods.mdav import Pace, mdav
from microcell.methods.search import (
    NEAR_CELLS,
    RegionResult,
    Search,
    centred,
    compact,
    near_cells,
    refine_labels,
)
from microcell.model import Floats, Integers

__all__ = [
    "check_participation",
    "expected_distortion",
    "participating_cells",
    "refine_within",
    "size_for_participation",
    "too_few_candidates",
]

_ROUNDS, _PASSES = 12, 2
"""Rounds over all regions, and passes over each of them."""
_MANY_CELLS, _ROUNDS_OF_MANY, _PASSES_OF_MANY = 200_000, 4, 1
"""With more records than this there are fewer rounds and passes, so that refinement ends soon."""

_ENOUGH = 2e-4
"""The search ends after a round that lowers the SSE by less than this share."""

_FAILURE_MARGIN = 1e-9
"""Margin below the limit, as a share: the final check sums in another order."""


def refine_within(
    X: Floats, labels: Integers, k: int, probabilities: Floats, failure: float, *, seed: int
) -> Integers:
    """Improve the labels by local search that keeps P{0 < K < k} <= ``failure`` in each cell.

    The expected distortion never rises. Time O(n m size) per round, for each near cell.
    """
    search = _Within(X, labels, k, probabilities, failure * (1 - _FAILURE_MARGIN), seed)
    rounds = _ROUNDS if len(X) <= _MANY_CELLS else _ROUNDS_OF_MANY
    for done in range(rounds):
        progress.report("refining", done, rounds)
        last = search.sse
        if search.exchange() == 0 or last - search.sse < _ENOUGH * last:
            break
    return search.labels if search.sse <= sum_of_squares(X, labels, probabilities) else labels


class _Within(Search):
    """A search whose cells have a failure limit and no maximum size."""

    def __init__(
        self, X: Floats, labels: Integers, k: int, probabilities: Floats, failure: float, seed: int
    ) -> None:
        # With a rule, sizes have no upper limit.
        super().__init__(X, labels, k, probabilities, seed, no_rule(len(X)))
        self._failure = failure
        self._passes = _PASSES if len(X) <= _MANY_CELLS else _PASSES_OF_MANY

    def exchange(self) -> int:
        """Make allowed, improving exchanges in each region once; return their number."""
        return self._round(min(13_000, max(350, self.cells // 4)), self._exchange)

    def _exchange(self, rows: Integers, state: Seeds) -> RegionResult:  # noqa: ARG002
        labels = compact(self.labels[rows])
        sizes = np.bincount(labels)
        # Exceptionally large cells stay as they are: room for one would be reserved for all.
        cap = min(int(sizes.max()) + 4, int(2 * np.median(sizes)) + 8)
        small = sizes <= cap
        some = np.flatnonzero(small[labels])
        members = (np.cumsum(small) - 1)[labels[some]]
        count, k = int(small.sum()), self._limits.least
        if count < 2:
            return RegionResult(labels, 0)
        points = centred(self._X[rows[some]])[0]
        blocks = empty_blocks(count, points.shape[1], cap)
        fill_blocks(blocks, points, self._weights[rows[some]], members)
        near = near_cells(blocks.sums, blocks.totals, NEAR_CELLS)
        changes = exchange_within_limit(
            blocks, near, Limits(k, cap), k, self._failure, self._passes
        )
        for cell in range(count):
            labels[some[blocks.members[cell, : blocks.sizes[cell]]]] = len(sizes) + cell
        return RegionResult(compact(labels), changes)


_MANY = 50_000
_MACROCELL = 20_000
"""More candidates than ``_MANY`` are grouped within macrocells of this size by default."""

_MARGIN = 1e-10
"""Relative accuracy of failures."""

_NEAR = 20
"""Number of near cells to try for a leftover record."""


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
    """Return labels of cells, each with P{0 < K < k} <= ``failure``.

    K is the number of candidates of the cell who take part. ``participation`` is one probability
    for all rows of ``X``, or one per row. If it is the same for all, MDAV makes cells of
    :func:`size_for_participation`. Otherwise cells grow as in MDAV, but each takes records in
    ascending distance from its reference until it meets the limit, and leftover records join the
    nearest cell that still meets it. ``refine`` then lowers the expected distortion by local search
    within the limit. Means are weighted by participation. ``macrocells`` makes cells within parts
    of at most this many records, the default for tables of more than 50,000 rows. Time O(n^2 m /
    size), O(n m) per macrocell and cell; every cell is checked in the end.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, participation = rng.normal(size=(300, 2)), rng.uniform(0.3, 0.9, 300)
    >>> labels = participating_cells(X, 3, participation, 0.01)
    >>> start = participating_cells(X, 3, participation, 0.01, refine=False)
    >>> expected_distortion(X, labels, participation) < expected_distortion(X, start, participation)
    True
    """
    check_k(k)
    k = int(k)
    points = as_points(X)
    limit = check_failure(failure)
    probabilities = check_participation(participation, len(points))
    if len(points) < k:
        raise too_few_candidates(len(points), k)
    points = varying(points)
    most = _check_macrocells(macrocells, k, len(points))
    _check_seed(seed)
    if not isinstance(refine, bool):
        raise OptionError(
            "refine must be true or false.", code="option.wrong_type", option="refine"
        )
    # Retry below the limit, in case sums in another order come out just above it.
    for aim in (limit, limit * (1 - _MARGIN)):
        labels = _cells_of_equal(points, k, probabilities, aim, int(seed), refine, most)
        if labels is None:
            labels = _cells_of_uneven(points, k, probabilities, aim, most)
            if refine:
                labels = refine_within(points, labels, k, probabilities, aim, seed=int(seed))
        failing = int((failures_of_cells(labels, probabilities, k) > limit).sum())
        if failing == 0 and np.bincount(labels).min() >= k:
            return labels
    raise GuaranteeError(
        f"{counted(failing, 'cell')} would exceed the failure limit. This is a bug in microcell; "
        "please report it.",
        code="guarantee.failed",
        k=k,
        cells=failing,
    )


def size_for_participation(
    k: int, participation: float, failure: float, *, conditional: bool = False
) -> int:
    """Return the k to pass to any method so that its cells have P{0 < K < k} <= ``failure``.

    With ``conditional``, the limit is that of the probability given that somebody takes part.

    Participation is the same for all. The result is the smallest size such that every larger size
    also meets the limit. It equals the effective anonymity, except where small cells meet the limit
    only because hardly anybody takes part, so that larger ones would not.

    Examples
    --------
    >>> size_for_participation(10, 0.75, 1e-5)
    27
    """
    check_k(k)
    probability = float(check_participation(participation, 1)[0])
    if probability < MIN_PROBABILITY:
        raise OptionError(
            f"participation must be at least {MIN_PROBABILITY:g}; otherwise a cell would need too "
            "many candidates.",
            code="option.out_of_range",
            option="participation",
        )
    limit = check_failure(failure)
    if conditional:
        return protecting_size(int(k), probability, limit * (1 - _MARGIN))
    size = steady_size(int(k), probability, limit)
    if count(size, int(k), probability).failure > limit * (1 - _MARGIN) and not _meets_exactly(
        size, int(k), probability, limit
    ):
        return steady_size(int(k), probability, limit * (1 - _MARGIN))
    return size


def _meets_exactly(size: int, k: int, probability: float, limit: float) -> bool:
    """Return whether a cell at the limit also passes the final check, which sums exactly."""
    if size > _MANY:
        return False
    return bool(
        failures_of_cells(np.zeros(size, dtype=np.int64), np.full(size, probability), k)[0] <= limit
    )


def expected_distortion(X: ArrayLike, labels: ArrayLike, participation: float | ArrayLike) -> float:
    """Return D = sum q |x - c|^2 / (m sum q), with c the cell mean weighted by participation q.

    Time O(n m).

    Examples
    --------
    >>> expected_distortion([[0.0], [1.0], [4.0]], [0, 0, 0], [1.0, 0.5, 0.5])
    2.6875
    """
    points = as_points(X)
    if points.size == 0:
        raise DataError(
            f"Points must have at least one record and one column, not the shape {points.shape}.",
            code="data.empty",
            option="X",
        )
    probabilities, cells = check_participation(participation, len(points)), np.asarray(labels)
    if cells.dtype.kind not in "iu" or cells.shape != (len(points),) or cells.min() < 0:
        raise OptionError(
            f"labels must have one cell number of at least 0 per row ({len(points)}).",
            code="option.invalid",
            option="labels",
        )
    cells = np.unique(cells, return_inverse=True)[1]
    largest = float(np.abs(points).max())
    scale = float(np.abs(np.asarray(X, dtype=np.float64)).max()) / largest if largest > 0 else 1.0
    return float(
        sum_of_squares(points, cells, probabilities)
        / (points.shape[1] * probabilities.sum())
        * scale
        * scale
    )


def _check_seed(seed: object) -> None:
    if isinstance(seed, bool) or not isinstance(seed, Integral) or int(seed) < 0:
        raise OptionError(
            "seed must be an integer of at least 0.", code="option.out_of_range", option="seed"
        )


def check_participation(participation: object, rows: int) -> Floats:
    """Return the participation probability of each row, from one for all or one per row."""
    message = f"participation must be a probability, or one per row ({rows})."
    out = as_reals(participation, message)  # type: ignore[arg-type]
    if np.asarray(participation).dtype.kind not in "fiu" or out.shape not in ((), (rows,)):
        raise DataError(message, code="data.invalid", option="participation")
    wrong = ~((out > 0) & (out <= 1))
    if out.ndim == 0 and wrong:
        raise OptionError(
            "participation must be above 0 and at most 1.",
            code="option.out_of_range",
            option="participation",
        )
    if wrong.any():
        row = int(wrong.argmax()) + 1
        raise DataError(
            f"participation must be above 0 and at most 1, but in row {row} it is not. Leave out "
            "candidates who cannot take part.",
            code="data.out_of_range",
            row=row,
            option="participation",
        )
    return np.full(rows, float(out)) if out.ndim == 0 else np.ascontiguousarray(out)


def _check_macrocells(macrocells: object, k: int, rows: int) -> int:
    if macrocells is None:
        return _MACROCELL if rows > _MANY else rows
    is_integer = isinstance(macrocells, Integral) and not isinstance(macrocells, bool)
    if not is_integer or int(macrocells) < 2 * k:  # type: ignore[call-overload]
        raise OptionError(
            f"macrocells must be an integer of at least 2k = {2 * k}.",
            code="option.out_of_range",
            option="macrocells",
        )
    return int(macrocells)  # type: ignore[call-overload, no-any-return]


def too_few_candidates(candidates: int, k: int) -> TooFewRecordsError:
    """Return the error to raise if the candidates are too few to form a cell."""
    return TooFewRecordsError(
        f"{counted(candidates, 'candidate')} together cannot form a cell of k = {k} within the "
        "failure limit. Raise the limit, lower k or add candidates.",
        code="guarantee.too_few_records",
        k=k,
        records=candidates,
    )


def _cells_of_equal(
    X: Floats, k: int, probabilities: Floats, limit: float, seed: int, refine: bool, most: int
) -> Integers | None:
    """Form cells for equal participation; return None if it varies or cells would be too large."""
    if probabilities.min() < probabilities.max():
        return None
    all_in_one = count(len(X), k, float(probabilities[0]))
    if all_in_one.failure > limit or not all_in_one.steady:
        return None
    size = steady_size(k, float(probabilities[0]), limit)
    within = max(most, 2 * size) if most < len(X) else None
    labels = mdav(X, size, weights=None, seed=seed, macrocells=within)
    return refine_labels(X, labels, size, seed=seed) if refine else labels


def _cells_of_uneven(X: Floats, k: int, probabilities: Floats, limit: float, most: int) -> Integers:
    """Grow cells within macrocells; leftover records may join a cell of any macrocell."""
    rows, labels, done = np.arange(len(X)), np.full(len(X), -1), 0
    for first, last in pairwise(bisect_rows(X, rows, k, most)):
        members = np.sort(rows[first:last])
        grown = _grow(X[members], k, probabilities[members], limit)
        labels[members] = np.where(grown < 0, -1, grown + done)
        done = max(done, int(labels[members].max()) + 1)
        progress.report("grouping candidates", int(last), len(X))
    if done == 0:
        raise too_few_candidates(len(X), k)
    return _Joiner(X, k, probabilities, limit, labels).labels()


def _grow(X: Floats, k: int, probabilities: Floats, limit: float) -> Integers:
    """Return labels of cells grown from references far from the mean; -1 for leftover records."""
    points, labels, state = lay_out(X), np.full(len(X), -1), np.array([0, FIRST])
    running, pace, stopped = make_running(X, probabilities), Pace(thread_count()), 0
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


class _Joiner:
    """Adds leftover records to cells, nearest first, keeping every cell within its limit."""

    def __init__(
        self, X: Floats, k: int, probabilities: Floats, limit: float, labels: Integers
    ) -> None:
        self._X, self._k, self._probabilities, self._limit = X, k, probabilities, limit
        self._rest = np.flatnonzero(labels < 0)
        self._labels = labels
        kept = labels >= 0
        self._means = centroids(X[kept], labels[kept], probabilities[kept])
        order = np.argsort(labels, kind="stable")[len(self._rest) :]
        self._members = np.split(order, np.cumsum(np.bincount(labels[kept]))[:-1])

    def labels(self) -> Integers:
        """Return the labels, numbered consecutively, after all records have joined."""
        near, distance = self._nearest()
        for i in np.argsort(distance, kind="stable"):
            self._join(self._rest[i], near[i])
        return np.unique(self._labels, return_inverse=True)[1]

    def _nearest(self) -> tuple[list[Integers], Floats]:
        """Return the nearest cells of each leftover record, and the smallest distance."""
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
        """Add the record to the first near cell that still meets its limit, or merge cells."""
        remaining = [cell for cell in near if len(self._members[cell])]
        for cell in remaining:
            joined = np.append(self._members[cell], row)
            if self._meets(joined):
                self._members[cell] = joined
                self._labels[row] = cell
                return
        cell = remaining[0] if remaining else self._nearest_remaining(self._X[row], -1)
        self._members[cell] = np.append(self._members[cell], row)
        self._merge_until_met(cell)

    def _meets(self, members: Integers) -> bool:
        failures = failures_of_cells(
            np.zeros(len(members), dtype=np.int64), self._probabilities[members], self._k
        )
        return bool(failures[0] <= self._limit)

    def _merge_until_met(self, cell: int) -> None:
        """Merge the nearest cells into this one until it meets its limit."""
        while not self._meets(self._members[cell]):
            members = self._members[cell]
            mean = np.average(self._X[members], axis=0, weights=self._probabilities[members])
            other = self._nearest_remaining(mean, cell)
            if other < 0:
                raise GuaranteeError(
                    "Some candidates fit into no cell within the failure limit, and all of them "
                    "together exceed it. Raise the limit, lower k or add candidates.",
                    code="guarantee.failed",
                    k=self._k,
                )
            self._members[cell] = np.append(members, self._members[other])
            self._members[other] = members[:0]
        self._labels[self._members[cell]] = cell

    def _nearest_remaining(self, point: Floats, excluded: int) -> int:
        """Return the cell with the nearest initial mean, or -1 if there is none."""
        remaining = np.array(
            [
                cell
                for cell in range(len(self._members))
                if cell != excluded and len(self._members[cell])
            ]
        )
        return (
            int(remaining[squared_distances(self._means[remaining], point).argmin()])
            if len(remaining)
            else -1
        )
