"""Box cells: a range or set of categories per column, found by answering a few questions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf, ldexp, sqrt
from types import MappingProxyType
from typing import Any

import numpy as np

from microcell._display import count as counted
from microcell._display import record_repr
from microcell._validation import COSTS, FARTHEST, NUMBERS_FROM_0
from microcell.cells.base import Cells
from microcell.errors import DataError
from microcell.model import EncodedColumn, Encoding, Floats, Integers

__all__ = ["EXACT", "THRESHOLD_LAYOUTS", "BoxCells", "Side", "coordinate_of", "positions_of"]

EXACT = 2**51
"""Below this, floats represent the midpoint between two integers exactly."""

THRESHOLD_LAYOUTS = ("line", "places")
"""Layouts of columns that are split at a bound; indicators are split into sets of categories."""


@dataclass(frozen=True)
class Side:
    """The part of one column that a box covers: a range or a set of categories.

    The range includes ``low`` and excludes ``high``, in the units of :class:`BoxCells`. ``names``
    are positions in the names of a nominal column, None for other kinds; ``others`` is true if the
    box also contains nominal values without a name.
    """

    low: float = -inf
    high: float = inf
    names: frozenset[int] | None = None
    others: bool = False

    __repr__ = record_repr


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class BoxCells(Cells, kind="boxes", holds_records=False):
    """Boxes that cover all points without overlap: the leaves of a binary decision tree.

    Question s is about column ``columns[s]`` of the encoding. For a nominal column it asks whether
    the category is one of those at positions ``categories[s]`` of its names: ``lower`` is next if
    so, and ``upper`` for all other categories, including unknown ones. With two categories it asks
    for the second, because the encoding treats unknown values as the first. For other columns it
    asks whether the value is below ``bounds[s]``: ``lower`` is next if so, and ``upper`` for the
    bound itself and above.

    Bounds are in the units of the column (for dates, counts of the unit since 1970). For integers
    and dates they lie midway between two values or, from 2^51 on, at the float before one. For
    ordinal columns and codes they are on the scale of the encoding's ``places``. In ``lower`` and
    ``upper``, a number below the number of questions is a later question; a larger one is the box
    of that number minus the number of questions. The tree starts at question 0.

    There are no questions about locations, because people do not know their coordinates. Assigning
    takes O(n) time per level of the tree.

    Examples
    --------
    >>> from microcell.model import EncodedColumn, Encoding
    >>> age = EncodedColumn("age", "numeric", ("age",), "integer", origin=40,
    ...     centre=np.zeros(1), scale=np.ones(1))
    >>> cells = BoxCells(centroids=[[-9.0], [9.0]], sizes=[3, 5], k=3, encoding=Encoding((age,)),
    ...     columns=[0], bounds=[34.5], categories=[()], lower=[1], upper=[2])
    >>> cells.assign([[34 - 40], [35 - 40]])
    array([0, 1])
    """

    columns: Integers = field(metadata=NUMBERS_FROM_0)
    bounds: Floats = field(metadata=COSTS)
    categories: Sequence[Sequence[int]]
    lower: Integers = field(metadata=NUMBERS_FROM_0)
    upper: Integers = field(metadata=NUMBERS_FROM_0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoding is None:
            raise DataError(
                "Box cells need an encoding, because their bounds are in the units of its "
                "columns. Pass encoding.",
                code="data.invalid",
                entry="encoding",
            )
        object.__setattr__(self, "encoding", self.encoding.published(self.k))
        object.__setattr__(self, "categories", _read_categories(self.categories))
        _check_tree(self)
        for split in range(len(self.columns)):
            _check_split(self, split)

    @property
    def splits(self) -> int:
        """Number of questions, one less than the number of boxes."""
        return len(self.columns)

    def contents(self) -> dict[str, Any]:
        """Return the arrays as plain lists."""
        return {
            **super().contents(),
            "categories": [list(positions) for positions in self.categories],
        }

    def column_of(self, split: int) -> EncodedColumn:
        """Return the column that a question is about."""
        return _encoding_of(self).columns[int(self.columns[split])]

    def sides(self) -> list[Mapping[int, Side]]:
        """Return the part of each column that each box covers, by position of the column.

        Columns without a question are left out.

        Examples
        --------
        >>> age = EncodedColumn("age", "numeric", ("age",), "float",
        ...     centre=np.zeros(1), scale=np.ones(1))
        >>> cells = BoxCells(centroids=[[1.0], [9.0]], sizes=[3, 5], k=3, encoding=Encoding((age,)),
        ...     columns=[0], bounds=[5.0], categories=[()], lower=[1], upper=[2])
        >>> cells.sides()[1][0].low
        5.0
        """
        columns = _encoding_of(self).columns
        whole = {int(place): _whole_side(columns[place]) for place in np.unique(self.columns)}
        out: list[Mapping[int, Side]] = [{}] * len(self)
        waiting = [(0, whole)]
        while waiting:
            node, sides = waiting.pop()
            if node >= self.splits:
                out[node - self.splits] = MappingProxyType(sides)
                continue
            place = int(self.columns[node])
            below, above = _split_side(
                sides[place], float(self.bounds[node]), self.categories[node]
            )
            waiting += [
                (int(self.lower[node]), {**sides, place: below}),
                (int(self.upper[node]), {**sides, place: above}),
            ]
        return out

    def _place(self, points: Floats) -> Integers:
        out = np.empty(len(points), dtype=np.int64)
        waiting = [(0, np.arange(len(points)))]
        while waiting:
            node, rows = waiting.pop()
            if node >= self.splits:
                out[rows] = node - self.splits
            elif len(rows):
                below = self._is_below(node, points[rows])
                waiting += [
                    (int(self.lower[node]), rows[below]),
                    (int(self.upper[node]), rows[~below]),
                ]
        return out

    def _is_below(self, split: int, points: Floats) -> Any:
        column = self.column_of(split)
        if column.layout == "indicators":
            return np.isin(positions_of(column, points), self.categories[split])
        return points[:, column.first] < coordinate_of(column, float(self.bounds[split]))


def coordinate_of(column: EncodedColumn, bound: float) -> float:
    """Return the coordinate of a bound, computed exactly as the encoding places values.

    Examples
    --------
    >>> column = EncodedColumn("age", "numeric", ("age",), "integer", origin=40,
    ...     centre=np.ones(1), scale=np.ones(1))
    >>> coordinate_of(column, 34.5)
    -6.5
    """
    if column.layout == "places":
        return bound * sqrt(column.weight)
    if isinstance(column.origin, int):
        offset = float(Fraction(bound) - column.origin)
    else:
        offset = (ldexp(bound, column.exponent) if column.exponent else bound) - column.origin
    coordinate = (offset - float(column.centre[0])) / float(column.scale[0])
    return min(max(coordinate, -FARTHEST), FARTHEST) * sqrt(column.weight)


def positions_of(column: EncodedColumn, points: Floats) -> Integers:
    """Return each point's position among the names of a nominal column, -1 if it has no name."""
    indicators = points[:, column.first : column.last] / sqrt(column.weight) + column.centre
    if column.dimensions == 1:
        nearest = (indicators[:, 0] > 0.5).astype(np.int64)
    else:
        nearest = np.where(indicators.max(axis=1) > 0.5 / sqrt(2.0), indicators.argmax(axis=1), -1)
    named = np.array([*(name is not None for name in column.names), False])
    return np.where(named[nearest], nearest, -1)


def _encoding_of(cells: BoxCells) -> Encoding:
    assert cells.encoding is not None  # checked by __post_init__
    return cells.encoding


def _whole_side(column: EncodedColumn) -> Side:
    if column.layout != "indicators":
        return Side()
    return Side(
        names=frozenset(at for at, name in enumerate(column.names) if name is not None), others=True
    )


def _split_side(side: Side, bound: float, positions: Sequence[int]) -> tuple[Side, Side]:
    if side.names is not None:
        chosen = frozenset(positions)
        inside = replace(side, names=side.names & chosen, others=False)
        return inside, replace(side, names=side.names - chosen)
    below = replace(side, high=min(side.high, bound))
    return below, replace(side, low=max(side.low, bound))


def _read_categories(value: Any) -> tuple[tuple[int, ...], ...]:
    try:
        out = tuple(tuple(positions) for positions in value)
    except TypeError:
        out = ((-1,),)
    whole = all(
        isinstance(at, (int, np.integer)) and not isinstance(at, bool) and at >= 0
        for positions in out
        for at in positions
    )
    if not whole:
        raise DataError(
            "categories must have a list of positions (integers from 0) for each question.",
            code="data.invalid",
            entry="categories",
        )
    return tuple(tuple(map(int, positions)) for positions in out)


def _check_tree(cells: BoxCells) -> None:
    count = cells.splits
    lengths = {len(cells.bounds), len(cells.categories), len(cells.lower), len(cells.upper)}
    if lengths != {count} or count != len(cells) - 1:
        raise DataError(
            "columns, bounds, categories, lower and upper must have one entry per question: "
            f"{len(cells) - 1} for {counted(len(cells), 'box', 'boxes')}.",
            code="data.invalid",
            entry="columns",
        )
    children = np.concatenate([cells.lower, cells.upper])
    parents = np.tile(np.arange(count), 2)
    expected = np.arange(1, count + len(cells)) if count else np.empty(0, dtype=np.int64)
    if not np.array_equal(np.sort(children), expected) or (children <= parents).any():
        raise DataError(
            "Every box, and every question except the first, must occur exactly once in lower and "
            "upper, after the question that leads to it.",
            code="data.invalid",
            entry="lower",
        )


def _check_split(cells: BoxCells, split: int) -> None:
    place, positions = int(cells.columns[split]), cells.categories[split]
    for problem in _find_problems(_encoding_of(cells), place, positions):
        raise DataError(
            f"Question {split + 1} {problem}.",
            code="data.invalid",
            entry="categories",
            question=split + 1,
        )


def _find_problems(encoding: Encoding, place: int, positions: Sequence[int]) -> Iterator[str]:
    if place >= len(encoding.columns):
        yield "is about a column that the encoding does not have"
        return
    column = encoding.columns[place]
    if column.constant or column.layout not in (*THRESHOLD_LAYOUTS, "indicators"):
        yield f"is about column {column.name!r}, which is constant, a location or in a hierarchy"
    elif (column.layout == "indicators") != bool(positions):
        yield (
            f"is about column {column.name!r}; nominal columns need categories, others must have "
            "none"
        )
    elif column.layout == "indicators" and column.dimensions == 1 and positions != (1,):
        yield f"must ask for the second of the two categories of column {column.name!r}"
    elif len(set(positions)) != len(positions) or any(
        at >= len(column.names) or column.names[at] is None for at in positions
    ):
        yield f"repeats a category of column {column.name!r}, or uses one without a name"
