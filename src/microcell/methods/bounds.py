"""Lower bounds on the distortion of any partition into cells of at least k."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic

import numpy as np
from numpy.typing import ArrayLike

from microcell import progress
from microcell._display import count, record_html, record_repr
from microcell._validation import as_points, as_weights, check_k, varying
from microcell.errors import TooFewRecordsError
from microcell.kernels._jit import thread_count
from microcell.kernels.arrays import distinct_rows, sum_of_squares, total_sum_of_squares
from microcell.kernels.covering import cover_prices
from microcell.kernels.neighbours import (
    UNKNOWN,
    Tree,
    find_nearest,
    grow_tree,
    least_weighted_shares,
)
from microcell.kernels.pricing import Types, find_charges, list_nearest, make_prices
from microcell.methods.auto import check_effort
from microcell.methods.mdav import mdav
from microcell.methods.registry import select
from microcell.methods.search import refine_labels
from microcell.model import Floats, Integers

__all__ = ["BRIEF", "Bound", "bound_within", "lower_bound"]

BRIEF = "brief"
"""Effort of a bound that is reported with every release: at most a second or two."""

_MOST_AT_ONCE = 16_384
"""Number of records per thread whose nearest neighbours are in memory at a time."""

_LEADERS_AT_ONCE = 32

_NEAR_ENTRIES = 6_000_000
"""Maximum number of entries of the lists of nearest types; such a list takes 50 MB."""

_ROUNDING = 1e-9
"""Share by which a bound is lowered, so that rounding errors cannot make it too high."""

_STEP, _SHORTEST, _SHORTER, _LONGER = 0.5, 0.05, 0.8, 1.25
"""How far to go from the best prices so far to those of the linear programme, which swing widely:
at first and at most, at least, and the factors after a step that lowers or raises the bound.
"""


@dataclass(frozen=True)
class Bound:
    """A lower bound on the distortion of any partition, and how it was proved."""

    distortion: float
    proof: str
    complete: bool = True
    """False if the search for the nearest records was cut short, so the bound may be far off."""

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True)
class _Effort:
    """Limits on the work for a bound."""

    leaves: float
    """Visits to leaves in the search for the nearest records."""
    types: int = 0
    """With more distinct records than this there is no column generation."""
    rounds: int = 0
    gap: float = 0.0
    """Column generation ends if the bound is within this share of what it can reach."""
    work: float = 0.0
    """Candidates that a search for cells looks at, for all leaders together."""
    end: float = np.inf

    @property
    def left(self) -> float:
        return max(0.0, self.end - monotonic())


def _as_effort(effort: str | float) -> _Effort:
    if effort == BRIEF:
        return _Effort(leaves=1e6)
    check_effort(effort)
    if effort == "fast":
        return _Effort(leaves=2e7)
    if effort == "balanced":
        return _Effort(leaves=2e7, types=5_000, rounds=40, gap=5e-3, work=2e8)
    if effort == "best":
        return _Effort(leaves=2e8, types=20_000, rounds=300, gap=1e-4, work=5e9)
    seconds = float(effort)
    end = monotonic() + seconds
    return _Effort(
        2e5 * seconds, 20_000, 10_000, 1e-4, float(np.clip(2e6 * seconds, 1e6, 5e9)), end
    )


def lower_bound(
    X: ArrayLike,
    k: int,
    *,
    weights: ArrayLike | None = None,
    effort: str | float = "balanced",
) -> float:
    """Return a lower bound on the distortion of any partition of the rows into cells of at least k.

    The bound is proved, not estimated, and comparable with :func:`distortion`.

    Parameters
    ----------
    X
        Points, one per row, used without further scaling.
    k
        Minimum number of rows per cell.
    weights
        One positive number per row, for weighted means.
    effort
        "fast" adds up the least that each record can contribute, given its nearest records.
        "balanced" (the default) and "best" also solve the dual of set partitioning, for up to 5,000
        and 20,000 distinct rows without weights. A number of seconds limits the time; only then
        does the result depend on the speed of the machine.

    Notes
    -----
    A cell of 2k or more records can be divided into two cells of at least k, each about its own
    mean, without raising the SSE. So some best partition has cells of k to 2k - 1 records only, and
    a bound for these is a bound for all.

    The SSE of a cell of s records is the sum of its squared distances over pairs, divided by s.
    Half of each goes to either record, so a record contributes 1 / 2s times its squared distances
    to the s - 1 others, which is at least 1 / 2s times the s - 1 least of the whole table. The
    least over s, added up over the records, is the bound of effort "fast". With n records in more
    than about ten dimensions and n beyond some 50,000, the search for the nearest records is cut
    short, and distances that it did not reach are replaced by lower bounds of them.

    In the dual of set partitioning every record has a price, and the prices add up to a lower bound
    if no cell is worth more than its SSE. Prices come from a linear programme over some cells
    (column generation). Branch and bound then finds, for every record, by how much a cell can be
    worth more in which it has the highest price; its price is reduced by that, so the remaining
    prices are a proof, whether or not the generation has converged. Equal records share a price.

    In one dimension without weights the result is the optimum, by dynamic programming.

    Examples
    --------
    >>> X = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [9.0, 9.0], [9.0, 8.0], [8.0, 9.0]]
    >>> import microcell as mc
    >>> round(mc.lower_bound(X, 3), 6), round(mc.distortion(X, [0, 0, 0, 1, 1, 1]), 6)
    (0.012638, 0.012638)
    """
    check_k(k)
    points = as_points(X)
    return bound_within(None, points, int(k), as_weights(weights, len(points)), effort).distortion


def bound_within(
    strata: Integers | None,
    points: Floats,
    k: int,
    weights: Floats | None,
    effort: str | float = "fast",
) -> Bound:
    """Return a lower bound for all partitions within strata (0, 1, ...)."""
    limits, points = _as_effort(effort), varying(points)
    each = np.ones(len(points)) if weights is None else weights
    total = total_sum_of_squares(points, each)
    parts = [np.arange(len(points))]
    if strata is not None:
        parts = np.split(np.argsort(strata, kind="stable"), np.cumsum(np.bincount(strata))[:-1])
    _check_enough(parts, k)
    if total == 0:
        return Bound(0.0, "equal records")
    bounds = []
    for rows in parts:
        part = varying(points[rows])
        spread = total_sum_of_squares(part, each[rows])
        if part.shape[1] and spread > 0:
            bound = _bound(part, k, None if weights is None else each[rows], limits)
            bounds.append((spread / total * bound.distortion, bound.proof, bound.complete))
    proof = max(bounds)[1] if bounds else "equal records"
    return Bound(
        min(1.0, sum(share for share, *_ in bounds)), proof, all(whole for *_, whole in bounds)
    )


def _check_enough(parts: Sequence[Integers], k: int) -> None:
    fewest = min(len(rows) for rows in parts)
    if fewest < k:
        raise TooFewRecordsError(
            f"{count(fewest, 'record')} cannot form a cell of k = {k}, so there is no partition to "
            "bound. Lower k or add records.",
            code="guarantee.too_few_records",
            k=k,
            records=fewest,
            unit="records",
        )


def _bound(points: Floats, k: int, weights: Floats | None, effort: _Effort) -> Bound:
    """Return the bound of points that are not all equal."""
    if len(points) < 2 * k:
        return Bound(1.0, "a single cell")
    each = np.ones(len(points)) if weights is None else weights
    points = _standardize(points, each)
    if points.shape[1] == 1 and weights is None:
        labels = select("univariate").function(points, k, weights=None, seed=0)
        least = sum_of_squares(points, labels, each) * (1 - _ROUNDING / 1000)
        return Bound(least / len(points), "dynamic programming")
    simple, complete = _by_nearest(points, k, weights, effort)
    simple *= 1 - _ROUNDING
    tight = 0.0
    if weights is None and effort.types:
        tight = _by_prices(points, k, effort)
    if tight > simple:
        return Bound(tight / len(points), "set partitioning")
    return Bound(simple / float(each.sum()), "nearest records", complete)


def _standardize(points: Floats, weights: Floats) -> Floats:
    """Return the points centred and scaled to a mean squared distance from the mean of 1."""
    points = points - np.average(points, axis=0, weights=weights)
    points /= np.abs(points).max()
    mean: float = total_sum_of_squares(points, weights) / weights.sum()
    return np.ascontiguousarray(points / np.sqrt(mean))


# ------------------------------------------------------------------------------ nearest records


def _by_nearest(
    points: Floats, k: int, weights: Floats | None, effort: _Effort
) -> tuple[float, bool]:
    """Return the sum of the least contribution of each record, and whether all were searched."""
    progress.report("finding the nearest records")
    tree, n = grow_tree(points), len(points)
    leaves = int(max(2, min(len(tree.starts), effort.leaves / n)))
    firsts = range(0, n, _MOST_AT_ONCE)
    total, complete = 0.0, True
    with ThreadPoolExecutor(thread_count()) as pool:
        shares = pool.map(lambda first: _least_share(tree, first, k, weights, leaves), firsts)
        try:
            for done, (share, cut) in enumerate(shares, start=1):
                total += share
                complete &= cut == 0
                progress.report("finding the nearest records", done, len(firsts))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return total, complete


def _least_share(
    tree: Tree, first: int, k: int, weights: Floats | None, leaves: int
) -> tuple[float, int]:
    """Return the least that some records contribute to any SSE, and how many searches were cut."""
    n = len(tree.rows)
    size, most = min(_MOST_AT_ONCE, n - first), _largest(n, k)
    # Light records may be worth more than near ones, so more of them are looked at.
    width = min(n - 1, most - 1 if weights is None else 2 * most)
    distances, rows = np.empty((size, width)), np.empty((size, width), dtype=np.int64)
    cut = find_nearest(tree, first, leaves, distances, rows)
    if weights is None:
        sums = distances.cumsum(axis=1)
        sizes = np.arange(k, most + 1)
        return float((sums[:, k - 2 : most - 1] / (2 * sizes)).min(axis=1).sum()), cut
    lightest = float(weights.min())
    masses = np.where(rows == UNKNOWN, lightest, weights[rows])
    shares, own = np.empty(size), weights[tree.rows[first : first + size]]
    least_weighted_shares(distances, masses, own, lightest, k, most, shares)
    return float(shares.sum()), cut


def _largest(n: int, k: int) -> int:
    """Return the largest size of a cell: less than 2k, and the others must form a cell as well."""
    return min(2 * k - 1, n - k)


# ------------------------------------------------------------------------------ set partitioning


def _by_prices(points: Floats, k: int, effort: _Effort) -> float:
    """Return the best bound of column generation; 0 if there are too many distinct records."""
    distinct = distinct_rows(points)
    n_types = len(distinct.first)
    if n_types > effort.types:
        return 0.0
    progress.report("listing near records")
    most = _largest(len(points), k)
    copies = np.bincount(distinct.place).astype(np.int64)
    width = max(2 * most, _NEAR_ENTRIES // n_types)
    types = list_nearest(np.ascontiguousarray(points[distinct.first]), copies, width, most)
    pool = _Pool(types)
    labels = refine_labels(points, mdav(points, k, weights=None, seed=0), k, deadline=effort.end)
    pool.add(_cells_of(distinct.place, labels))
    pool.add(_near_cells(types, k, most))
    return _generate(pool, types, k, most, effort)


class _Pool:
    """Cells of types, of which the linear programme chooses."""

    def __init__(self, types: Types) -> None:
        self._types = types
        self._known: set[tuple[int, ...]] = set()
        self._cells: list[Integers] = []
        self._costs: list[float] = []

    def add(self, cells: Iterator[Integers]) -> int:
        """Add the cells that are new, and return their number."""
        before = len(self._cells)
        for cell in cells:
            members = np.sort(cell)
            key = tuple(members.tolist())
            if key not in self._known:
                self._known.add(key)
                self._cells.append(members)
                self._costs.append(_cost(self._types.points[members]))
        return len(self._cells) - before

    def prices(self, seconds: float) -> tuple[Floats, float] | None:
        """Return the best prices given these cells, and their sum."""
        # Of a mean of 1 per cell, so that the tolerances of the solver are small in comparison.
        scale = float(np.mean(self._costs)) or 1.0
        costs = np.array(self._costs) / scale
        solved = cover_prices(self._cells, costs, self._types.copies, seconds)
        return None if solved is None else (scale * solved[0], scale * solved[1])


def _cost(members: Floats) -> float:
    return float(np.square(members - members.mean(axis=0)).sum())


def _cells_of(place: Integers, labels: Integers) -> Iterator[Integers]:
    order = np.argsort(labels, kind="stable")
    yield from np.split(place[order], np.cumsum(np.bincount(labels))[:-1])


def _near_cells(types: Types, k: int, most: int) -> Iterator[Integers]:
    """Yield cells of each type and its nearest records, of the three least sizes."""
    for near in types.near:
        members = np.repeat(near, np.minimum(types.copies[near], most))
        for size in range(k, min(most, k + 2) + 1):
            if len(members) >= size:
                yield members[:size]


def _generate(pool: _Pool, types: Types, k: int, most: int, effort: _Effort) -> float:
    """Alternate between the linear programme and the search for cells; return the best bound."""
    sizes = np.arange(k, most + 1)
    centre = (types.sums[:, k - 1 : most] / (2 * sizes)).min(axis=1)
    best, step = float(types.copies @ centre), _STEP
    for done in range(effort.rounds):
        solved = pool.prices(effort.left)
        if solved is None:
            break
        latest, reach = solved
        share = best / reach if reach > 0 else 1.0
        progress.report(f"computing the bound: {100 * share:.1f} % of its limit", done)
        if best >= (1 - effort.gap) * reach:
            break
        new = 0
        for values in (centre + step * (latest - centre), latest):
            bound, cells = _prove(types, values, k, most, effort)
            step = max(_SHORTEST, min(_STEP, step * (_LONGER if bound > best else _SHORTER)))
            if bound > best:
                best, centre = bound, values
            new = pool.add(cells)
            if new:
                break
        if not new or not effort.left:
            break
    return best


def _prove(
    types: Types, values: Floats, k: int, most: int, effort: _Effort
) -> tuple[float, Iterator[Integers]]:
    """Return the bound that the prices prove, and cells that are worth more than they cost."""
    prices, n_types = make_prices(types, values, most), len(values)
    work = int(max(1, effort.work / n_types))
    charges = np.full(n_types, -np.inf)
    cells = np.full((n_types, most + 1), -1)

    def search(first: int) -> None:
        if effort.left:
            some = slice(first, first + _LEADERS_AT_ONCE)
            find_charges(
                types, prices, np.arange(n_types)[some], k, most, work, charges[some], cells[some]
            )

    with ThreadPoolExecutor(thread_count()) as pool:
        try:
            list(pool.map(search, range(0, n_types, _LEADERS_AT_ONCE)))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    lost = _ROUNDING * float(types.copies @ np.abs(values))
    bound = float(types.copies @ (values + charges)) - lost
    return bound, (cell[cell >= 0] for cell in cells if cell[0] >= 0)
