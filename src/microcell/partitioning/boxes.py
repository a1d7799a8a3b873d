"""Boxes for a survey on paper: recursive splitting under a limit on failures, at bounds that a person can read."""

from dataclasses import dataclass
from heapq import heappop, heappush
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell import progress
from microcell.cells import BoxCells
from microcell.cells._arrays import read_points
from microcell.errors import DataError, GuaranteeError, OptionError, TooFewRecordsError
from microcell.kernels.cells import centroids
from microcell.kernels.participation import failures_of_cells
from microcell.model import Encoding, Floats, Integers
from microcell.partitioning._cutting import Cut, Cutter
from microcell.partitioning._input import as_reals, as_weights, check_k

__all__ = ["make_boxes"]


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
) -> BoxCells:
    """Boxes of candidates, each with P{0 < K < k} <= ``failure``, K being how many of its candidates take part.

    Starting from one box, the cut that lowers the expected distortion (weighted by participation) most is made again
    and again, among those that leave both sides within the limit, until there is none or there are ``most`` boxes.
    Numbers and dates are cut at the roundest bound that gains at least 95 % of what the best cut of the box does, and
    that is no candidate's value; nominal columns into the categories first along the direction in which they
    differ most, or one category and the others. Locations are not cut. Bounds between names lie between those that
    ``encoding.published(k)`` keeps: place ``X`` by that encoding where boxes are for people who answer by it.

    ``participation`` is one probability for all rows of ``X``, or one a row. The seed changes nothing: no chance is
    involved. Time O(n (m + k) columns) a level of the tree, and sorting; every box is checked in the end.

    Examples
    --------
    >>> from microcell.model import EncodedColumn
    >>> age = EncodedColumn("age", "numeric", ("age",), "integer", origin=45, centre=np.zeros(1), scale=np.ones(1))
    >>> ages = np.repeat(np.arange(18, 90), 3)
    >>> boxes = make_boxes(ages[:, np.newaxis] - 45.0, Encoding((age,)), 3, 0.75, 1e-3, most=3)
    >>> boxes.bounds + 0.5  # under 50, 50 to 69, 70 and over
    array([50., 70.])
    """
    check_k(k)
    points = read_points(X, encoding.dimensions)
    limit, chances = _as_failure(failure), _as_chances(participation, len(points))
    given = as_weights(weights, len(points))
    _check_most(most)
    zeros = np.zeros(len(points), dtype=np.int64)
    if len(points) < k or failures_of_cells(zeros, np.sort(chances), int(k))[0] > limit:
        raise TooFewRecordsError(
            f"All {len(points)} candidates together are too few for a cell of k = {k} within the failure limit. Accept "
            "more failures, lower k, or add candidates."
        )
    if encoding.published_for is not None and encoding.published_for < k:
        raise GuaranteeError(
            f"The encoding names what {encoding.published_for} records have, fewer than k = {k}. Give the one that was "
            "fitted, or publish it for this k."
        )
    worth = chances if given is None else chances * given
    published = encoding.published(int(k))
    root = _cut_all(Cutter(points, published, int(k), chances, limit, worth), len(points), most)
    return _as_cells(root, points, published, int(k), chances, limit, worth)


@dataclass(eq=False)
class _Box:
    """A box, and what became of it."""

    rows: Integers
    cut: Cut | None = None
    below: "_Box | None" = None
    above: "_Box | None" = None


def _cut_all(cutter: Cutter, rows: int, most: int | None) -> _Box:
    """The tree of boxes, the cut of greatest gain always made first; of equal ones the earliest found."""
    root = _Box(np.arange(rows))
    waiting: list[tuple[float, int, _Box, Cut]] = []
    made, found = 1, 0

    def consider(box: _Box) -> None:
        nonlocal found
        cut = cutter.best(box.rows)
        if cut is not None:
            heappush(waiting, (-cut.gain, found, box, cut))
            found += 1

    consider(root)
    while waiting and (most is None or made < most):
        _, _, box, cut = heappop(waiting)
        box.cut, box.below, box.above = cut, _Box(cut.below), _Box(cut.above)
        made += 1
        for part in (box.below, box.above):
            consider(part)
        progress.report("cutting boxes", made, most or 0)
    return root


def _as_cells(
    root: _Box, X: Floats, encoding: Encoding, k: int, chances: Floats, limit: float, worth: Floats
) -> BoxCells:
    """The tree as cells, which are asked for every candidate's box; proves that all boxes are within the limit."""
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
    order = np.lexsort((chances, labels))  # the order in which files state failures: sums may differ in the last digit
    failures = failures_of_cells(labels[order], chances[order], k)
    if not np.array_equal(cells.assign(X), labels) or (failures > limit).any():
        raise GuaranteeError("The boxes would miss the failure limit, so there are none. Please report this.")
    return cells


def _numbered(root: _Box) -> tuple[list[_Box], list[_Box]]:
    """The boxes that were cut, parents first, and those that were not, from left to right."""
    splits, leaves, waiting = [], [], [root]
    while waiting:
        box = waiting.pop()
        if box.below is None or box.above is None:
            leaves.append(box)
        else:
            splits.append(box)
            waiting += [box.above, box.below]
    return splits, leaves


def _check_most(given: object) -> None:
    if given is not None and (isinstance(given, bool) or not isinstance(given, Integral) or int(given) < 1):
        raise OptionError("most must be a whole number of boxes, 1 or more.")


def _as_failure(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, Real) or not 1e-300 <= float(given) < 1:
        raise OptionError("failure must be a probability of 1e-300 or more, and under 1.")
    return float(given)


def _as_chances(given: Any, rows: int) -> Floats:
    """The probability of each row to take part, from one for all or one a row."""
    message = f"participation must be a probability, or {rows} of them, one a row."
    out = as_reals(given, message)
    if np.asarray(given).dtype.kind not in "fiu" or out.shape not in ((), (rows,)):
        raise DataError(message)
    wrong = ~((out > 0) & (out <= 1))
    if wrong.any():
        where = f": row {int(np.argmax(wrong)) + 1} is not" if out.ndim else ""
        raise DataError(f"participation must be over 0 and up to 1{where}.")
    return np.full(rows, float(out)) if out.ndim == 0 else np.ascontiguousarray(out)
