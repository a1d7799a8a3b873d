"""Choose the records to leave out together with the cells of the others.

A record that is far from all others stretches the cell that it joins. Leaving out a few of them can
lower the information loss of everyone else. The choice depends on the points only.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from microcell import progress
from microcell._display import record_html, record_repr
from microcell._validation import varying
from microcell.kernels.arrays import (
    Floats,
    Integers,
    Mask,
    centroids,
    count_distinct,
    squared_residuals,
    sum_of_squares,
)
from microcell.kernels.univariate import best_cuts_left_out

__all__ = ["LeftOut", "leave_out"]

MOST_EXACT = 10_000_000
"""Largest product of records and records left out for which one dimension is solved exactly."""

ROUNDS = 8
"""How often cells are formed again with the records that the last prices chose."""

_BISECTIONS = 60
_CANDIDATES = 10_000
_CHUNK = 2_000_000
"""Number of distances computed at a time."""


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The records to leave out, and what that saves.

    ``sse`` and ``sse_without`` are the sums of squares within cells with and without leaving them
    out, as the search that chose them measures both.
    """

    out: Mask
    sse: float
    sse_without: float
    exact: bool = False

    __repr__ = record_repr
    _repr_html_ = record_html

    @property
    def saved(self) -> float:
        """Share of the sum of squares within cells that leaving the records out saves."""
        return 1 - self.sse / self.sse_without if self.sse_without > 0 else 0.0


def leave_out(
    points: Floats,
    k: int,
    most: int,
    partition: Callable[[Integers], Integers],
    *,
    weights: Floats | None = None,
    strata: Integers | None = None,
    persons: Integers | None = None,
) -> LeftOut:
    """Choose at most ``most`` records such that the cells of the others have a low SSE.

    In one dimension, without strata, persons and sampling weights, the result is optimal (Laszlo
    and Mukherjee 2013). Otherwise leaving out a record has a price: a cell is given up if that is
    cheaper than keeping it, with each of its members left out or moved to the nearest cell,
    whichever costs less. The price is such that ``most`` records are left out. The cells of the
    others are formed again, and so on; the best result counts.

    Parameters
    ----------
    partition
        Returns the labels of the cells of some rows.
    strata, persons
        A number for each record. k people of each stratum stay.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [50.0], [4.0], [5.0], [6.0]])
    >>> leave_out(X, 3, 1, lambda rows: np.zeros(len(rows), dtype=np.int64)).out.nonzero()[0]
    array([3])
    """
    points = varying(points)
    data = _Data(
        points,
        k,
        np.ones(len(points)) if weights is None else weights,
        np.zeros(len(points), dtype=np.int64) if strata is None else strata,
        persons,
    )
    plain = weights is None and persons is None and not data.strata.any()
    if points.shape[1] == 0 or most == 0:
        return LeftOut(np.zeros(len(points), dtype=np.bool_), 0.0, 0.0, exact=True)
    if plain and points.shape[1] == 1 and len(points) * (most + 1) <= MOST_EXACT:
        return _best_line(points[:, 0], k, most)
    return _search(data, most, partition)


# ------------------------------------------------------------------------------ one dimension


def _best_line(x: Floats, k: int, most: int) -> LeftOut:
    """Return the optimum in one dimension; of equal ones, the one that leaves out fewest."""
    most = min(most, len(x) - k)
    order = np.argsort(x, kind="stable")
    costs, sizes = best_cuts_left_out(x[order], np.ones(len(x)), k, most)
    s = int(np.argmin(costs))
    out = np.zeros(len(x), dtype=np.bool_)
    sse, left, j = float(costs[s]), s, len(x)
    while j > 0:
        size = int(sizes[j, left])
        if size == 0:
            out[order[j - 1]] = True
            left, j = left - 1, j - 1
        else:
            j -= size
    return LeftOut(out, sse, float(costs[0]), exact=True)


# ------------------------------------------------------------------------------ by prices


@dataclass(frozen=True, eq=False)
class _Data:
    points: Floats
    k: int
    weights: Floats
    strata: Integers
    persons: Integers | None

    def people(self, rows: Integers, labels: Integers) -> Integers:
        """Return the number of people in each cell of some rows."""
        if self.persons is None:
            return np.bincount(labels).astype(np.int64)
        return count_distinct(labels, self.persons[rows])

    def sse(self, rows: Integers, labels: Integers) -> float:
        return sum_of_squares(self.points[rows], labels, self.weights[rows])


def _search(data: _Data, most: int, partition: Callable[[Integers], Integers]) -> LeftOut:
    n = len(data.points)
    everyone = np.arange(n)
    cells = np.full(n, -1, dtype=np.int64)
    cells[everyone] = partition(everyone)
    sse_without = data.sse(everyone, cells)
    best, best_sse = np.zeros(n, dtype=np.bool_), sse_without
    seen: set[bytes] = set()
    for turn in range(ROUNDS):
        progress.report("choosing records to leave out", turn, ROUNDS)
        out = _restore_strata(data, _choose(data, cells, most))
        if out.tobytes() in seen:
            break
        seen.add(out.tobytes())
        rows = np.flatnonzero(~out)
        cells = np.full(n, -1, dtype=np.int64)
        cells[rows] = partition(rows)
        _trim(data, cells, most - int(out.sum()))
        rows = np.flatnonzero(cells >= 0)
        sse = data.sse(rows, np.unique(cells[rows], return_inverse=True)[1])
        if sse < best_sse:
            best, best_sse = cells < 0, sse
    return LeftOut(best, best_sse, sse_without)


class _Costs(NamedTuple):
    """What it costs to keep the records; ``cells`` is -1 for those that are left out so far.

    ``moving`` is the least cost of joining another cell, ``staying`` what leaving a record out
    of its cell saves, if the cell keeps k people, and ``sse`` that of each cell.
    """

    cells: Integers
    moving: Floats
    staying: Floats
    sse: Floats


def _choose(data: _Data, cells: Integers, most: int) -> Mask:
    """Return the records that are left out at the lowest price at which they are at most ``most``.

    Every price is compared with that of giving up whole cells, so it is found by bisection.
    """
    costs = _measure_costs(data, cells, most)
    low, high = 0.0, 2.0 * max(float(costs.sse.max()), float(costs.staying.max()), 1e-300)
    finite = costs.moving[np.isfinite(costs.moving)]
    high = max(high, 2.0 * float(finite.max(initial=0.0)))
    for _ in range(_BISECTIONS):
        price = (low + high) / 2
        if int(_leave_out_at(costs, price).sum()) <= most:
            high = price
        else:
            low = price
    out = _leave_out_at(costs, high)
    return out if int(out.sum()) <= most else np.zeros(len(cells), dtype=np.bool_)


def _leave_out_at(costs: _Costs, price: float) -> Mask:
    """Return the records that are left out at a price per record."""
    cells, inside = costs.cells, costs.cells >= 0
    own = np.where(inside, cells, 0)
    spread = np.bincount(
        cells[inside],
        weights=np.minimum(costs.moving[inside], price),
        minlength=len(costs.sse),
    )
    given_up = costs.sse - spread
    single = np.where(inside, costs.staying - price, -1.0)
    best = np.zeros(len(costs.sse))
    np.maximum.at(best, own[inside], single[inside])
    dissolved = (given_up > 0) & (given_up >= best)
    out: Mask = (costs.moving > price) & (~inside | dissolved[own])
    out |= inside & ~dissolved[own] & (single > 0) & (single == best[own])
    return out


def _measure_costs(data: _Data, cells: Integers, most: int) -> _Costs:
    staying = _cost_of_staying(data, cells)
    inside = np.flatnonzero(cells >= 0)
    labels = np.unique(cells[inside], return_inverse=True)[1].reshape(-1)
    numbered = np.full(len(cells), -1, dtype=np.int64)
    numbered[inside] = labels
    weights, sizes = data.weights[inside], np.bincount(labels)
    masses: Floats = np.bincount(labels, weights=weights).astype(np.float64)
    means = centroids(data.points[inside], labels, weights)
    residuals = squared_residuals(data.points[inside], labels, weights, means)
    sse = np.bincount(labels, weights=residuals)
    # Records of tight cells are not worth a comparison with all other cells.
    worst = np.argsort(-sse / sizes, kind="stable")
    enough = int(np.searchsorted(np.cumsum(sizes[worst]), max(10 * most, _CANDIDATES))) + 1
    compared = np.zeros(len(sse), dtype=np.bool_)
    compared[worst[:enough]] = True
    candidates = (numbered < 0) | compared[numbered]
    strata_of_cells = np.zeros(len(masses), dtype=np.int64)
    strata_of_cells[labels] = data.strata[inside]
    moving = np.zeros(len(cells))
    for stratum in np.unique(data.strata[candidates]):
        rows = np.flatnonzero(candidates & (data.strata == stratum))
        there = np.flatnonzero(strata_of_cells == stratum)
        for part in _chunks(rows, len(there)):
            moving[part] = _cost_of_joining(data, part, numbered[part], means, masses, there)
    return _Costs(numbered, moving, staying, np.where(compared, sse, 0.0))


def _cost_of_staying(data: _Data, cells: Integers) -> Floats:
    """Return what leaving a record out of its cell saves; -1 if the cell would be too small."""
    inside = np.flatnonzero(cells >= 0)
    labels = np.unique(cells[inside], return_inverse=True)[1].reshape(-1)
    weights = data.weights[inside]
    masses = np.bincount(labels, weights=weights)[labels]
    residuals = squared_residuals(data.points[inside], labels, weights)
    rest = masses - weights
    roomy = (data.people(inside, labels) > data.k)[labels] & (rest > 0)
    out = np.full(len(cells), -1.0)
    out[inside[roomy]] = (residuals * masses)[roomy] / rest[roomy]
    return out


def _chunks(rows: Integers, width: int) -> Iterator[Integers]:
    return iter(np.array_split(rows, max(1, -(-len(rows) * max(width, 1) // _CHUNK))))


def _cost_of_joining(
    data: _Data, rows: Integers, own: Integers, means: Floats, masses: Floats, there: Integers
) -> Floats:
    """Return what the cheapest of the cells ``there``, except its own, costs each record."""
    points, weights = data.points[rows], data.weights[rows]
    squares = np.square(points).sum(axis=1)[:, None] + np.square(means[there]).sum(axis=1)
    distances = np.maximum(squares - 2 * points @ means[there].T, 0.0)
    mass = masses[there]
    distances *= weights[:, None] * mass / (weights[:, None] + mass)
    distances[own[:, None] == there] = np.inf
    return np.asarray(distances.min(axis=1, initial=np.inf))


def _trim(data: _Data, cells: Integers, spare: int) -> None:
    """Leave out the costliest record of each cell that keeps k people, as long as some may be."""
    while spare > 0:
        costs = _cost_of_staying(data, cells)
        order = np.argsort(-costs, kind="stable")
        order = order[costs[order] > 0]
        first = order[np.sort(np.unique(cells[order], return_index=True)[1])][:spare]
        if not len(first):
            return
        cells[first] = -1
        spare -= len(first)


def _restore_strata(data: _Data, out: Mask) -> Mask:
    """Keep all records of strata that would be left with fewer than k people."""
    rows = np.flatnonzero(~out)
    left = np.zeros(int(data.strata.max()) + 1, dtype=np.int64)
    if len(rows):
        counts = data.people(rows, data.strata[rows])
        left[: len(counts)] = counts
    return np.asarray(out & (left >= data.k)[data.strata])
