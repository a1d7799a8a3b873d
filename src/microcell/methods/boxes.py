"""Boxes for paper surveys: recursive splits under a failure limit, at readable bounds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import ceil, floor, inf, isfinite, ldexp, log10, nextafter, sqrt
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell import progress
from microcell._display import count as counted
from microcell._validation import as_weights, check_failure, check_k, read_points
from microcell.cells import BoxCells
from microcell.cells.boxes import EXACT, THRESHOLD_LAYOUTS, coordinate_of, positions_of
from microcell.errors import GuaranteeError, OptionError
from microcell.kernels.arrays import centroids
from microcell.kernels.participation import (
    exposures_along,
    exposures_of_cells,
    failures_along,
    failures_of_cells,
    gains_along,
)
from microcell.methods.candidates import (
    check_participation,
    size_for_participation,
    too_few_candidates,
)
from microcell.model import EncodedColumn, Encoding, Floats, Integers

__all__ = ["Cut", "Cutter", "make_boxes", "round_dates", "round_numbers", "round_wholes"]

MOST = 400
"""Maximum number of round values to examine per level; the middle ones are kept."""

_MONTHS = (120, 60, 12, 6, 3, 1)
_SECONDS = (86_400, 43_200, 21_600, 3_600, 1_800, 900, 60, 1)
_UNITS_PER_SECOND = {"D": 0, "s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def round_numbers(low: float, high: float) -> Iterator[list[float]]:
    """Yield lists of round numbers from ``low`` to ``high``, the roundest first.

    They are multiples of 1, then 1/2, then 1/5 of smaller and smaller powers of 10.

    Examples
    --------
    >>> [numbers for numbers in round_numbers(31.7, 36.2) if numbers][0]
    [35.0]
    """
    if not (isfinite(low) and isfinite(high) and low <= high):
        return
    largest = max(abs(low), abs(high), 1e-290)
    for power in range(
        ceil(log10(largest)), floor(log10(max(high - low, largest * 1e-16, 1e-300))) - 3, -1
    ):
        for part in (10, 5, 2):
            # Parsed from text, so that 0.1 is exactly the float 0.1.
            yield [
                float(f"{count * part}e{power - 1}")
                for count in _multiples(low, high, part * 10.0 ** (power - 1))
            ]


def round_wholes(low: int, high: int) -> Iterator[list[int]]:
    """Yield lists of round integers from ``low`` to ``high``, the roundest first.

    Examples
    --------
    >>> [numbers for numbers in round_wholes(12_340, 12_680) if numbers][0]
    [12500]
    """
    power = 10 ** len(str(max(abs(low), abs(high), 1)))
    while power >= 1:
        for part in (power, power // 2, power // 5):
            if part and (power >= 10 or part == 1):
                yield _steps(low, high, part)
        power //= 10


def round_dates(column: EncodedColumn, low: int, high: int) -> Iterator[list[int]]:
    """Yield lists of round dates or times between two counts of the column's unit.

    Decades come first, then years, months, days, hours and so on.

    Examples
    --------
    >>> from datetime import date
    >>> birth = EncodedColumn("birth", "datetime", ("birth",), "date", "D")
    >>> days = [days for days in round_dates(birth, -3000, -2000) if days][0]
    >>> [str(date.fromordinal(date(1970, 1, 1).toordinal() + day)) for day in days]
    ['1962-01-01', '1963-01-01', '1964-01-01']
    """
    unit = str(column.unit)
    if column.storage in ("date", "datetime"):
        for step in _MONTHS:
            yield _first_days(low, high, step, unit)
    seconds = _UNITS_PER_SECOND[unit]
    if not seconds:
        yield _steps(low, high, 1)
        return
    for step in _SECONDS:
        yield _steps(low, high, step * seconds)
    yield from round_wholes(low, high)


def _first_days(low: int, high: int, step: int, unit: str) -> list[int]:
    """Return the first moments of months that are multiples of ``step`` months from 1970."""
    ends: Any = np.array([low, high], dtype=f"M8[{unit}]").astype("M8[M]").astype(np.int64)
    months = np.arange(ends[0] // step * step, ends[1] + step, step)
    moments = months.astype("M8[M]").astype(f"M8[{unit}]").astype(np.int64)
    return _middle(moments[(moments >= low) & (moments <= high)].tolist())


def _steps(low: int, high: int, step: int) -> list[int]:
    first, last = -(-low // step), high // step
    if last - first >= MOST:
        first = (first + last - MOST) // 2
        last = first + MOST
    return [count * step for count in range(first, last + 1)]


def _multiples(low: float, high: float, step: float) -> range:
    first, last = ceil(low / step), floor(high / step)
    if last - first >= MOST:
        first = (first + last - MOST) // 2
        last = first + MOST
    return range(first, last + 1)


def _middle(values: list[int]) -> list[int]:
    spare = max(len(values) - MOST, 0) // 2
    return values[spare : len(values) - spare]


_NEAR = 0.05
"""Share of the best cut's gain that a rounder bound may cost."""

_MARGIN = 1e-10
"""Relative accuracy of failure probabilities, regardless of the order of summation."""

_TRIES = 20
"""Maximum number of category sets whose sides are checked against the limit."""


@dataclass(frozen=True, eq=False)
class Cut:
    """A split of a box; ``below`` and ``above`` are rows."""

    gain: float
    place: int
    bound: float
    categories: tuple[int, ...]
    below: Integers
    above: Integers


@dataclass(frozen=True, eq=False)
class _Scan:
    """A box along one column: sorted rows and coordinates, and the gain of a cut before each row.

    The gain is -1 where a cut is not allowed.
    """

    order: Integers
    x: Floats
    gains: Floats

    @property
    def best(self) -> int:
        return int(self.gains.argmax())


class Cutter:
    """Find cuts that leave both sides within the failure limit."""

    def __init__(
        self,
        X: Floats,
        encoding: Encoding,
        k: int,
        probabilities: Floats,
        limit: float,
        weights: Floats,
        *,
        conditional: bool = False,
    ) -> None:
        self._X, self._columns, self._k = X, encoding.columns, k
        self._failures_along = exposures_along if conditional else failures_along
        self._probabilities, self._limit, self._weights = (
            probabilities,
            limit * (1 - _MARGIN),
            weights,
        )
        self._equal = bool(probabilities.min() == probabilities.max())
        self._least = (
            size_for_participation(k, float(probabilities[0]), limit, conditional=conditional)
            if self._equal
            else k
        )
        self._thresholds = [
            p
            for p, c in enumerate(self._columns)
            if c.layout in THRESHOLD_LAYOUTS and not c.constant
        ]
        nominal = [
            p for p, c in enumerate(self._columns) if c.layout == "indicators" and _is_open(c)
        ]
        self._codes = {place: positions_of(self._columns[place], X) for place in nominal}
        self._values = {
            place: np.unique(X[:, self._columns[place].first])
            for place in self._thresholds
            if not isinstance(self._columns[place].origin, int)
        }

    def best(self, rows: Integers) -> Cut | None:
        """Return the cut of these rows with the largest gain, rounded to a readable bound."""
        if len(rows) < 2 * self._least:
            return None
        candidates: list[tuple[float, int, _Scan | None]] = []
        for place in self._thresholds:
            scan = self._scan(rows, place)
            if scan.gains[scan.best] > 0:
                candidates.append((float(scan.gains[scan.best]), place, scan))
        groups = {
            place: group for place in self._codes if (group := self._group(rows, place)) is not None
        }
        candidates += [(group.gain, place, None) for place, group in groups.items()]
        for _, place, along in sorted(candidates, key=lambda item: (-item[0], item[1])):
            cut = groups[place] if along is None else self._cut_at(place, along)
            if cut is not None:
                return cut
        return None

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
        """Return, for each i, whether the first i rows and the others may both be boxes."""
        count = np.arange(len(order))
        out = (count >= self._least) & (len(order) - count >= self._least)
        if not self._equal and out.any():
            probabilities = self._probabilities[order]
            out &= self._failures_along(probabilities, self._k)[:-1] <= self._limit
            backwards = np.ascontiguousarray(probabilities[::-1])
            out &= self._failures_along(backwards, self._k)[:0:-1] <= self._limit
        return out

    def _cut_at(self, place: int, scan: _Scan) -> Cut | None:
        """Return the cut at the roundest bound that gains nearly as much as the best, or None."""
        column, near = self._columns[place], (1 - _NEAR) * scan.gains[scan.best]
        for bounds in _bounds(column, scan, near):
            chosen = (near, -1, 0.0)
            for bound in bounds:
                coordinate = coordinate_of(column, bound)
                at = int(np.searchsorted(scan.x, coordinate))
                gain = float(scan.gains[at]) if 0 < at < len(scan.x) else -1.0
                better = gain > chosen[0] or (gain == chosen[0] and chosen[1] < 0)
                if better and not self._is_value(place, coordinate):
                    chosen = (gain, at, bound)
            gain, at, bound = chosen
            if at > 0:
                return Cut(
                    gain, place, bound, (), np.sort(scan.order[:at]), np.sort(scan.order[at:])
                )
        return None

    def _is_value(self, place: int, coordinate: float) -> bool:
        """Return whether the coordinate is a candidate's value.

        Integer columns are cut midway between two values and never at one.
        """
        values = self._values.get(place)
        if values is None:
            return False
        at = int(np.searchsorted(values, coordinate))
        return at < len(values) and values[at] == coordinate

    def _group(self, rows: Integers, place: int) -> Cut | None:
        """Return the best allowed cut of a nominal column, or None."""
        codes, column = self._codes[place][rows], self._columns[place]
        present = np.unique(codes)
        if len(present) < 2:
            return None
        place_of = np.searchsorted(present, codes)
        totals = np.bincount(place_of, weights=self._weights[rows]).astype(np.float64)
        centre = np.average(self._X[rows], axis=0, weights=self._weights[rows])
        sums: Floats = np.stack(
            [
                np.bincount(place_of, weights=self._weights[rows] * (self._X[rows, j] - centre[j]))
                for j in range(len(centre))
            ],
            axis=1,
        )
        sizes = np.bincount(place_of)
        options = []
        for chosen in _sets(sums, totals):
            part = totals[chosen].sum()
            gain = float(
                (sums[chosen].sum(axis=0) ** 2).sum()
                * totals.sum()
                / (part * (totals.sum() - part))
            )
            options.append((-gain, tuple(np.flatnonzero(chosen).tolist()), chosen))
        tries = 0
        for negative, _, chosen in sorted(options, key=lambda item: item[:2]):
            size = int(sizes[chosen].sum())
            if -negative <= 0 or tries == _TRIES:
                break
            if min(size, len(rows) - size) < self._least:
                continue
            tries += 1
            inside = chosen[place_of]
            if self._meets(rows[inside]) and self._meets(rows[~inside]):
                return _named_cut(column, place, -negative, present, chosen, rows, inside)
        return None

    def _meets(self, rows: Integers) -> bool:
        return self._equal or bool(
            self._failures_along(self._probabilities[rows], self._k)[-1] <= self._limit
        )


def _named_cut(
    column: EncodedColumn,
    place: int,
    gain: float,
    present: Integers,
    chosen: Any,
    rows: Integers,
    inside: Any,
) -> Cut:
    """Return the cut by the categories of the smaller side; unnamed ones are on the larger side."""
    if column.dimensions == 1:  # unknown values are placed with the first of two categories
        turned = bool(present[chosen][0] == 0)
    else:
        turned = bool(2 * inside.sum() > len(rows))
        if present[chosen if not turned else ~chosen][0] < 0:  # unnamed ones cannot be listed
            turned = not turned
    chosen, inside = (~chosen, ~inside) if turned else (chosen, inside)
    return Cut(gain, place, 0.0, tuple(present[chosen].tolist()), rows[inside], rows[~inside])


def _is_open(column: EncodedColumn) -> bool:
    """Return whether a nominal column can be split: of two categories, both must have names."""
    return column.dimensions > 1 or (column.dimensions == 1 and None not in column.names)


def _sets(sums: Floats, totals: Floats) -> Iterator[Any]:
    """Yield sets of categories: the first ones along the principal direction, and single ones."""
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
    """Yield lists of bounds, rounder ones first.

    The first lie where the gain is nearly the best, the last within the gap of the best cut.
    """
    if column.layout == "places":
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
    """Yield bounds just before round integers or dates.

    A bound is midway to the previous integer or, for large ones, the float before.
    """
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


def make_boxes(
    X: Floats,
    encoding: Encoding,
    k: int,
    participation: ArrayLike,
    failure: float,
    *,
    weights: ArrayLike | None = None,
    most: int | None = None,
    seed: int = 0,
    conditional: bool = False,
) -> BoxCells:
    """Group candidates into boxes, each with P{0 < K < k} <= ``failure``.

    K is the number of candidates of the box who take part. Starting from one box, the cut that
    lowers the expected distortion (weighted by participation) most is made repeatedly, among those
    that leave both sides within the limit, until there is none or there are ``most`` boxes. Numbers
    and dates are cut at the roundest bound that gains at least 95 % of the best cut of the box and
    is not the value of a candidate; nominal columns are cut into the first categories along the
    direction of largest variance, or a single category and the others. Locations are not cut.
    Bounds between names lie between those that ``encoding.published(k)`` keeps: use that encoding
    to place ``X`` if people answer by the boxes. With ``conditional``, the limit is that of the
    probability given that somebody takes part, and given that a certain member does.

    ``participation`` is one probability for all rows of ``X``, or one per row. The method is
    deterministic, so ``seed`` has no effect. Time O(n (m + k) columns) per level of the tree, plus
    sorting; every box is checked in the end.

    Examples
    --------
    >>> from microcell.model import EncodedColumn
    >>> age = EncodedColumn("age", "numeric", ("age",), "integer", origin=45,
    ...     centre=np.zeros(1), scale=np.ones(1))
    >>> ages = np.repeat(np.arange(18, 90), 3)
    >>> boxes = make_boxes(ages[:, np.newaxis] - 45.0, Encoding((age,)), 3, 0.75, 1e-3, most=3)
    >>> boxes.bounds + 0.5  # under 50, 50 to 69, 70 and over
    array([50., 70.])
    """
    check_k(k)
    points = read_points(X, encoding.dimensions)
    limit = check_failure(failure)
    probabilities = check_participation(participation, len(points))
    checked_weights = as_weights(weights, len(points))
    _check_most(most)
    zeros = np.zeros(len(points), dtype=np.int64)
    measure = exposures_of_cells if conditional else failures_of_cells
    if len(points) < k or measure(zeros, np.sort(probabilities), int(k))[0] > limit:
        raise too_few_candidates(len(points), int(k))
    if encoding.published_for is not None and encoding.published_for < k:
        raise GuaranteeError(
            "The encoding names categories shared by as few as "
            f"{counted(encoding.published_for, 'record')}, fewer than k = {k}. Pass the fitted "
            "encoding, or publish it for this k.",
            code="guarantee.failed",
            k=int(k),
        )
    worth = probabilities if checked_weights is None else probabilities * checked_weights
    published = encoding.published(int(k))
    cutter = Cutter(points, published, int(k), probabilities, limit, worth, conditional=conditional)
    root = _cut_all(cutter, len(points), most)
    cells = _as_cells(root, points, published, int(k), worth)
    _check_boxes(cells, points, probabilities, limit, measure)
    return cells


@dataclass(eq=False)
class _Box:
    """A box, and its parts if it was cut."""

    rows: Integers
    cut: Cut | None = None
    below: "_Box | None" = None
    above: "_Box | None" = None


def _cut_all(cutter: Cutter, rows: int, most: int | None) -> _Box:
    """Return the tree of boxes, making the cut of largest gain first; ties go to the earliest."""
    root = _Box(np.arange(rows))
    waiting: list[tuple[float, int, _Box, Cut]] = []
    n_boxes = 1
    order = count()

    def consider(box: _Box) -> None:
        cut = cutter.best(box.rows)
        if cut is not None:
            heappush(waiting, (-cut.gain, next(order), box, cut))

    consider(root)
    while waiting and (most is None or n_boxes < most):
        _, _, box, cut = heappop(waiting)
        box.cut, box.below, box.above = cut, _Box(cut.below), _Box(cut.above)
        n_boxes += 1
        for part in (box.below, box.above):
            consider(part)
        progress.report("cutting boxes", n_boxes, most or 0)
    return root


def _as_cells(
    root: _Box,
    X: Floats,
    encoding: Encoding,
    k: int,
    worth: Floats,
) -> BoxCells:
    """Return the tree as cells, and verify that they hold the candidates of their boxes."""
    splits, leaves = _numbered(root)
    labels = np.empty(len(X), dtype=np.int64)
    for number, leaf in enumerate(leaves):
        labels[leaf.rows] = number
    number_of = {id(box): at for at, box in enumerate([*splits, *leaves])}
    cuts = [box.cut for box in splits if box.cut is not None]
    cells = BoxCells(
        centroids=centroids(X, labels, worth),
        sizes=np.bincount(labels),
        k=k,
        encoding=encoding,
        columns=np.array([cut.place for cut in cuts], dtype=np.int64),
        bounds=np.array([cut.bound for cut in cuts]),
        categories=[cut.categories for cut in cuts],
        lower=np.array([number_of[id(box.below)] for box in splits], dtype=np.int64),
        upper=np.array([number_of[id(box.above)] for box in splits], dtype=np.int64),
    )
    if not np.array_equal(cells.assign(X), labels):
        raise _faulty_boxes(k)
    return cells


def _check_boxes(
    cells: BoxCells,
    X: Floats,
    probabilities: Floats,
    limit: float,
    measure: Callable[[Integers, Floats, int], Floats],
) -> None:
    labels = cells.assign(X)
    # Files state failures in this order; sums in another order may differ in the last digit.
    order = np.lexsort((probabilities, labels))
    if (measure(labels[order], probabilities[order], cells.k) > limit).any():
        raise _faulty_boxes(cells.k)


def _faulty_boxes(k: int) -> GuaranteeError:
    return GuaranteeError(
        "The boxes would exceed the failure limit. This is a bug in microcell; please report it.",
        code="guarantee.failed",
        k=k,
    )


def _numbered(root: _Box) -> tuple[list[_Box], list[_Box]]:
    """Return the boxes that were cut, parents first, and the others from left to right."""
    splits, leaves, waiting = [], [], [root]
    while waiting:
        box = waiting.pop()
        if box.below is None or box.above is None:
            leaves.append(box)
        else:
            splits.append(box)
            waiting += [box.above, box.below]
    return splits, leaves


def _check_most(most: object) -> None:
    if most is not None and (
        isinstance(most, bool) or not isinstance(most, Integral) or int(most) < 1
    ):
        raise OptionError(
            "most must be an integer of at least 1.", code="option.out_of_range", option="most"
        )
