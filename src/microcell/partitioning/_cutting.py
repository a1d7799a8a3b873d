"""The best cut of a box: along a number at a round bound, or between categories of a nominal column."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, ldexp, nextafter, sqrt
from typing import Any

import numpy as np

from microcell.cells.boxes import EXACT, THRESHOLDS, coordinate_of, positions_of
from microcell.kernels.boxes import failures_along, gains_along
from microcell.model import EncodedColumn, Encoding, Floats, Integers
from microcell.partitioning._rounding import round_dates, round_numbers, round_wholes
from microcell.partitioning.participating import size_for_participation

__all__ = ["Cut", "Cutter"]

_NEAR = 0.05
"""A rounder bound may cost so much of what the best cut gains."""

_MARGIN = 1e-10
"""Failures are right to this share, in whichever order they are summed."""

_TRIES = 20
"""So many sets of categories are asked whether both sides meet the limit."""


@dataclass(frozen=True, eq=False)
class Cut:
    """A box cut in two; ``below`` and ``above`` are rows."""

    gain: float
    place: int
    bound: float
    categories: tuple[int, ...]
    below: Integers
    above: Integers


@dataclass(frozen=True, eq=False)
class _Scan:
    """A box along one column: rows in order, their coordinates, what cutting before each gains (-1 if it may not)."""

    order: Integers
    x: Floats
    gains: Floats

    @property
    def best(self) -> int:
        return int(self.gains.argmax())


class Cutter:
    """Finds cuts that leave both sides within the failure limit."""

    def __init__(self, X: Floats, encoding: Encoding, k: int, chances: Floats, limit: float, weights: Floats) -> None:
        self._X, self._columns, self._k = X, encoding.columns, k
        self._chances, self._aim, self._weights = chances, limit * (1 - _MARGIN), weights
        self._even = bool(chances.min() == chances.max())
        self._least = size_for_participation(k, float(chances[0]), limit) if self._even else k
        self._thresholds = [p for p, c in enumerate(self._columns) if c.kind in THRESHOLDS and not c.constant]
        nominal = [p for p, c in enumerate(self._columns) if c.kind == "nominal" and _is_open(c)]
        self._codes = {place: positions_of(self._columns[place], X) for place in nominal}
        self._known = {
            place: np.unique(X[:, self._columns[place].first])
            for place in self._thresholds
            if not isinstance(self._columns[place].origin, int)
        }

    def best(self, rows: Integers) -> Cut | None:
        """The cut of these rows that gains most, but for rounding; None if there is none."""
        if len(rows) < 2 * self._least:
            return None
        found: list[tuple[float, int, _Scan | None]] = []
        for place in self._thresholds:
            scan = self._scan(rows, place)
            if scan.gains[scan.best] > 0:
                found.append((float(scan.gains[scan.best]), place, scan))
        groups = {place: group for place in self._codes if (group := self._group(rows, place)) is not None}
        found += [(group.gain, place, None) for place, group in groups.items()]
        for _, place, along in sorted(found, key=lambda item: (-item[0], item[1])):
            cut = groups[place] if along is None else self._cut_at(place, along)
            if cut is not None:
                return cut
        return None

    # ------------------------------------------------------------------------------------------ along a number

    def _scan(self, rows: Integers, place: int) -> _Scan:
        x = self._X[rows, self._columns[place].first]
        by_value = np.argsort(x, kind="stable")
        order, x = rows[by_value], x[by_value]
        gains = gains_along(self._X, self._weights, order)
        gains[1:][x[1:] <= x[:-1]] = -1.0
        gains[0] = -1.0
        if gains.max() > 0:
            gains[~self._allowed(order)] = -1.0
        return _Scan(order, x, gains)

    def _allowed(self, order: Integers) -> Any:
        """For each i, whether the first i of the rows, and the others, may be boxes."""
        count = np.arange(len(order))
        out = (count >= self._least) & (len(order) - count >= self._least)
        if not self._even and out.any():
            chances = self._chances[order]
            out &= failures_along(chances, self._k)[:-1] <= self._aim
            out &= failures_along(np.ascontiguousarray(chances[::-1]), self._k)[:0:-1] <= self._aim
        return out

    def _cut_at(self, place: int, scan: _Scan) -> Cut | None:
        """The cut at the roundest bound that gains nearly as much as the best; None if no bound lies there."""
        column, near = self._columns[place], (1 - _NEAR) * scan.gains[scan.best]
        for bounds in _bounds(column, scan, near):
            chosen = (near, -1, 0.0)
            for bound in bounds:
                coordinate = coordinate_of(column, bound)
                at = int(np.searchsorted(scan.x, coordinate))
                gain = float(scan.gains[at]) if 0 < at < len(scan.x) else -1.0
                better = gain > chosen[0] or (gain == chosen[0] and chosen[1] < 0)
                if better and not self._is_known(place, coordinate):
                    chosen = (gain, at, bound)
            gain, at, bound = chosen
            if at > 0:
                return Cut(gain, place, bound, (), np.sort(scan.order[:at]), np.sort(scan.order[at:]))
        return None

    def _is_known(self, place: int, coordinate: float) -> bool:
        """Whether that is the value of a candidate; whole numbers are cut midway between two, where there is none."""
        known = self._known.get(place)
        if known is None:
            return False
        at = int(np.searchsorted(known, coordinate))
        return at < len(known) and known[at] == coordinate

    # ------------------------------------------------------------------------------------------ between categories

    def _group(self, rows: Integers, place: int) -> Cut | None:
        """The best set of categories among those that come first along a direction, and single ones."""
        codes, column = self._codes[place][rows], self._columns[place]
        present = np.unique(codes)
        if len(present) < 2:
            return None
        own = np.searchsorted(present, codes)
        totals = np.bincount(own, weights=self._weights[rows]).astype(np.float64)
        centre = np.average(self._X[rows], axis=0, weights=self._weights[rows])
        sums: Floats = np.stack(
            [
                np.bincount(own, weights=self._weights[rows] * (self._X[rows, j] - centre[j]))
                for j in range(len(centre))
            ],
            axis=1,
        )
        sizes = np.bincount(own)
        options = []
        for chosen in _sets(sums, totals):
            part = totals[chosen].sum()
            gain = float((sums[chosen].sum(axis=0) ** 2).sum() * totals.sum() / (part * (totals.sum() - part)))
            options.append((-gain, tuple(np.flatnonzero(chosen).tolist()), chosen))
        tries = 0
        for negative, _, chosen in sorted(options, key=lambda item: item[:2]):
            size = int(sizes[chosen].sum())
            if -negative <= 0 or tries == _TRIES:
                break
            if min(size, len(rows) - size) < self._least:
                continue
            tries += 1
            inside = chosen[own]
            if self._meets(rows[inside]) and self._meets(rows[~inside]):
                return _named(column, place, -negative, present, chosen, rows, inside)
        return None

    def _meets(self, rows: Integers) -> bool:
        return self._even or bool(failures_along(self._chances[rows], self._k)[-1] <= self._aim)


def _named(
    column: EncodedColumn, place: int, gain: float, present: Integers, chosen: Any, rows: Integers, inside: Any
) -> Cut:
    """The cut by the categories of the side that is smaller, so that those without a name are on the larger one."""
    if column.dimensions == 1:  # what is unknown is placed with the first of two
        turned = bool(present[chosen][0] == 0)
    else:
        turned = bool(2 * inside.sum() > len(rows))
        if present[chosen if not turned else ~chosen][0] < 0:  # what has no name cannot be listed
            turned = not turned
    chosen, inside = (~chosen, ~inside) if turned else (chosen, inside)
    return Cut(gain, place, 0.0, tuple(present[chosen].tolist()), rows[inside], rows[~inside])


def _is_open(column: EncodedColumn) -> bool:
    """Whether a nominal column has categories to choose from: of two that share a dimension, both must have names."""
    return column.dimensions > 1 or (column.dimensions == 1 and None not in column.names)


def _sets(sums: Floats, totals: Floats) -> Iterator[Any]:
    """Sets of categories to try: the first ones by their means along the direction in which these differ most, and
    each alone.
    """
    count = len(totals)
    means = sums / totals[:, np.newaxis]
    spread = np.einsum("ci,cj,c->ij", means, means, totals)
    direction = np.linalg.eigh(spread)[1][:, -1]
    along = np.argsort((means * direction).sum(axis=1).round(12), kind="stable")
    for size in range(1, count):
        yield np.isin(np.arange(count), along[:size])
    for single in range(count):
        yield np.arange(count) == single


def _bounds(column: EncodedColumn, scan: _Scan, near: float) -> Iterator[list[float]]:
    """Lists of bounds, rounder ones first: where the gain is nearly the best, then in the very gap of the best."""
    if column.kind in ("ordinal", "code"):
        places = column.places
        yield ((places[:-1] + places[1:]) / 2).tolist()
        return
    good = np.flatnonzero(scan.gains >= near)
    for first, last in ((good[0], good[-1]), (scan.best, scan.best)):
        low, high = float(scan.x[first - 1]), float(scan.x[last])
        if isinstance(column.origin, int):
            yield from _whole_bounds(column, low, high)
        else:
            ends = [_real_of(column, end) for end in (low, high)]
            yield from round_numbers(*ends)
            yield [ends[0] / 2 + ends[1] / 2]


def _whole_bounds(column: EncodedColumn, low: float, high: float) -> Iterator[list[float]]:
    """Bounds just before a round number or date: midway to the one before, or, of large ones, the float before."""
    ends = [_whole_of(column, end) for end in (low, high)]
    levels = round_wholes(*ends) if column.unit is None else round_dates(column, *ends)
    for level in levels:
        yield [count - 0.5 if abs(count) < EXACT else nextafter(count, -inf) for count in level]


def _offset(column: EncodedColumn, coordinate: float) -> float:
    return coordinate / sqrt(column.weight) * float(column.scale[0]) + float(column.centre[0])


def _whole_of(column: EncodedColumn, coordinate: float) -> int:
    return round(_offset(column, coordinate)) + int(column.origin)


def _real_of(column: EncodedColumn, coordinate: float) -> float:
    return ldexp(_offset(column, coordinate) + float(column.origin), -column.exponent)
