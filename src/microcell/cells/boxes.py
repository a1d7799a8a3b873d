"""Box cells: a range or a set of categories for each column, found by a few questions that a person can answer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf, ldexp, sqrt
from types import MappingProxyType
from typing import Any

import numpy as np

from microcell._display import record_repr
from microcell._validation import COSTS, FARTHEST, NUMBERS_FROM_0
from microcell.cells.base import Cells
from microcell.errors import DataError
from microcell.model import EncodedColumn, Encoding, Floats, Integers

__all__ = ["EXACT", "THRESHOLDS", "BoxCells", "Side", "coordinate_of", "positions_of"]

EXACT = 2**51
"""Below this, floats hold the middle between two whole numbers."""

THRESHOLDS = ("numeric", "datetime", "ordinal", "code")
"""Kinds of columns that are split at a bound; nominal ones are split into categories, and locations are not."""


@dataclass(frozen=True)
class Side:
    """What a box holds of one column: from ``low`` up to, and without, ``high``; or the categories at ``names``.

    Bounds are in the units of :class:`BoxCells`. ``names`` are positions in the column's names, None where the column
    is not nominal; ``others`` says whether a nominal value that is not among the names is in the box as well.
    """

    low: float = -inf
    high: float = inf
    names: frozenset[int] | None = None
    others: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class BoxCells(Cells, kind="boxes", holds_records=False):
    """Cells that are boxes: the leaves of a binary tree of questions, so that they cover everything and never overlap.

    Question s is about column ``columns[s]`` of the encoding. Of a nominal column: is the category one of those at the
    positions ``categories[s]`` among its names? Then ``lower`` is next, and for all others, known or not, ``upper``; of
    two categories the second is asked for, since the encoding takes what is unknown for the first. Of other columns:
    does the value lie below ``bounds[s]``? Then ``lower`` is next, and ``upper`` for the bound itself and above.

    Bounds are in the column's own units (of dates, counts of the unit since 1970). Those of whole numbers and dates lie
    midway between two of them or, from 2^51 on, at the float before one. Those of ordinal columns and codes are on the
    scale of the encoding's ``places``. In ``lower`` and ``upper``, a number below the number of questions is a
    question, which comes later, and a larger one the box of that number less the number of questions. The first
    question is question 0.

    Locations are not asked for: nobody knows their degrees. Assigning takes O(n) a level of the tree.

    Examples
    --------
    >>> from microcell.model import EncodedColumn, Encoding
    >>> age = EncodedColumn("age", "numeric", ("age",), "integer", origin=40, centre=np.zeros(1), scale=np.ones(1))
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

    __repr__ = record_repr

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoding is None:
            raise DataError(
                "Boxes need the encoding of their points: bounds are in the units of its columns."
            )
        object.__setattr__(self, "encoding", self.encoding.published(self.k))
        object.__setattr__(self, "categories", _read_categories(self.categories))
        _check_tree(self)
        for split in range(len(self.columns)):
            _check_split(self, split)

    @property
    def splits(self) -> int:
        """The number of questions, one less than there are boxes."""
        return len(self.columns)

    def contents(self) -> dict[str, Any]:
        """The arrays as plain lists."""
        return {
            **super().contents(),
            "categories": [list(positions) for positions in self.categories],
        }

    def column_of(self, split: int) -> EncodedColumn:
        """The column that a question is about."""
        return _encoding_of(self).columns[int(self.columns[split])]

    def sides(self) -> list[Mapping[int, Side]]:
        """What each box holds of each column that is asked for, by the column's place in the encoding.

        Examples
        --------
        >>> age = EncodedColumn("age", "numeric", ("age",), "float", centre=np.zeros(1), scale=np.ones(1))
        >>> cells = BoxCells(centroids=[[1.0], [9.0]], sizes=[3, 5], k=3, encoding=Encoding((age,)),
        ...     columns=[0], bounds=[5.0], categories=[()], lower=[1], upper=[2])
        >>> cells.sides()[1][0].low
        5.0
        """
        columns = _encoding_of(self).columns
        whole = {int(place): _all_of(columns[place]) for place in np.unique(self.columns)}
        out: list[Mapping[int, Side]] = [{}] * len(self)
        waiting = [(0, whole)]
        while waiting:
            node, sides = waiting.pop()
            if node >= self.splits:
                out[node - self.splits] = MappingProxyType(sides)
                continue
            place = int(self.columns[node])
            below, above = _divide(sides[place], float(self.bounds[node]), self.categories[node])
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
        if column.kind == "nominal":
            return np.isin(positions_of(column, points), self.categories[split])
        return points[:, column.first] < coordinate_of(column, float(self.bounds[split]))


def coordinate_of(column: EncodedColumn, bound: float) -> float:
    """Where a bound of the column lies in its dimension: computed as the encoding places values, to the last bit.

    Examples
    --------
    >>> column = EncodedColumn("age", "numeric", ("age",), "integer", origin=40, centre=np.ones(1), scale=np.ones(1))
    >>> coordinate_of(column, 34.5)
    -6.5
    """
    if column.kind in ("ordinal", "code"):
        return bound * sqrt(column.weight)
    if isinstance(column.origin, int):
        offset = float(Fraction(bound) - column.origin)
    else:
        offset = (ldexp(bound, column.exponent) if column.exponent else bound) - column.origin
    coordinate = (offset - float(column.centre[0])) / float(column.scale[0])
    return min(max(coordinate, -FARTHEST), FARTHEST) * sqrt(column.weight)


def positions_of(column: EncodedColumn, points: Floats) -> Integers:
    """The category of each point among the names of a nominal column; -1 for one that has no name."""
    indicators = points[:, column.first : column.last] / sqrt(column.weight) + column.centre
    if column.dimensions == 1:
        found = (indicators[:, 0] > 0.5).astype(np.int64)
    else:
        found = np.where(indicators.max(axis=1) > 0.5 / sqrt(2.0), indicators.argmax(axis=1), -1)
    named = np.array([*(name is not None for name in column.names), False])
    return np.where(named[found], found, -1)


def _encoding_of(cells: BoxCells) -> Encoding:
    assert cells.encoding is not None  # checked when the cells were made
    return cells.encoding


def _all_of(column: EncodedColumn) -> Side:
    if column.kind != "nominal":
        return Side()
    return Side(
        names=frozenset(at for at, name in enumerate(column.names) if name is not None), others=True
    )


def _divide(side: Side, bound: float, positions: Sequence[int]) -> tuple[Side, Side]:
    if side.names is not None:
        chosen = frozenset(positions)
        return replace(side, names=side.names & chosen, others=False), replace(
            side, names=side.names - chosen
        )
    return replace(side, high=min(side.high, bound)), replace(side, low=max(side.low, bound))


def _read_categories(given: Any) -> tuple[tuple[int, ...], ...]:
    try:
        out = tuple(tuple(positions) for positions in given)
    except TypeError:
        out = ((-1,),)
    whole = all(
        isinstance(at, (int, np.integer)) and not isinstance(at, bool) and at >= 0
        for positions in out
        for at in positions
    )
    if not whole:
        raise DataError(
            "categories must be a list, for each question, of positions of names from 0."
        )
    return tuple(tuple(map(int, positions)) for positions in out)


def _check_tree(cells: BoxCells) -> None:
    count = cells.splits
    if {len(cells.bounds), len(cells.categories), len(cells.lower), len(cells.upper)} != {
        count
    } or count != len(cells) - 1:
        raise DataError(
            f"{len(cells)} boxes need {len(cells) - 1} questions, with one entry each of columns, bounds, categories, "
            "lower and upper."
        )
    children = np.concatenate([cells.lower, cells.upper])
    parents = np.tile(np.arange(count), 2)
    wanted = np.arange(1, count + len(cells)) if count else np.empty(0, dtype=np.int64)
    if not np.array_equal(np.sort(children), wanted) or (children <= parents).any():
        raise DataError(
            "lower and upper must name every question but the first once, after its own, and every box once."
        )


def _check_split(cells: BoxCells, split: int) -> None:
    place, positions = int(cells.columns[split]), cells.categories[split]
    for problem in _problems(_encoding_of(cells), place, positions):
        raise DataError(f"Question {split + 1} {problem}.")


def _problems(encoding: Encoding, place: int, positions: Sequence[int]) -> Iterator[str]:
    if place >= len(encoding.columns):
        yield "is about a column that the encoding does not have"
        return
    column = encoding.columns[place]
    if column.constant or column.kind not in (*THRESHOLDS, "nominal"):
        yield f"is about column {column.name!r}, which is constant or a location and cannot be asked for"
    elif (column.kind == "nominal") != bool(positions):
        yield f"is about column {column.name!r} and needs categories if that is nominal, and none otherwise"
    elif column.kind == "nominal" and column.dimensions == 1 and positions != (1,):
        yield f"is about column {column.name!r}, and must ask for the second of its two categories"
    elif len(set(positions)) != len(positions) or any(
        at >= len(column.names) or column.names[at] is None for at in positions
    ):
        yield f"names a category of column {column.name!r} that has no name, or names it twice"
