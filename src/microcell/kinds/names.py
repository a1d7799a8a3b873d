"""Shared code of the kinds whose values have names: ordinal, nominal and code."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from microcell.kernels.arrays import Floats, Integers
from microcell.kinds.base import Kind, Reading
from microcell.kinds.encoded import EncodedColumn
from microcell.kinds.losses import Loss
from microcell.kinds.pairs import (
    Categories,
    ColumnPair,
    ColumnPoints,
    Coordinates,
    Histogram,
    count_names,
    indicator_coordinates,
    indicator_points,
)
from microcell.kinds.registry import kind_of
from microcell.kinds.values import Values

__all__ = [
    "CategoricalKind",
    "CategoryPair",
    "NamedKind",
    "count_unknown",
    "fit_places",
    "place_names",
    "positions_of",
]

Guess = Callable[[EncodedColumn, Sequence[str]], list[float]]
"""Coordinates for names that an encoded column does not know."""


class NamedKind(Kind):
    """A kind whose values have names."""

    def check_values(self, name: str, values: Values) -> None:
        pass

    def read(self, parts: Sequence[str], values: Sequence[Values]) -> Reading:
        codes, names = values[0].factorize()
        return Reading(values[0], values[0].missing, codes, names)

    def _name_problems(self, fitted: EncodedColumn) -> Iterator[str]:
        names = [name for name in fitted.names if name is not None]
        if len(names) != len(fitted.places) or len(names) != len(fitted.names):
            yield "'places' must have a number for each of 'names'"


class CategoricalKind(NamedKind):
    """A kind whose information loss is computed from the names of categories."""

    def lose(
        self, before: Integers, after: Integers, weights: Floats, *, names: Sequence[str]
    ) -> Loss:
        """Return the loss, given each record's position in ``names`` before and after."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class CategoryPair(ColumnPair):
    """A column whose values are categories."""

    reading: Categories

    @property
    def categories(self) -> Categories | None:
        return self.reading

    def loss(self, rows: Integers, weights: Floats) -> Loss:
        kind = kind_of(self.column)
        assert isinstance(kind, CategoricalKind)
        reading = self.reading
        return kind.lose(reading.before[rows], reading.after, weights, names=reading.names)

    def histograms(self) -> Iterator[Histogram]:
        return count_names(self.column.name, self.reading)

    def points(self) -> ColumnPoints:
        return indicator_points(self.reading)

    def coordinates(self, before_rows: Integers, after_rows: Integers) -> Coordinates:
        return indicator_coordinates(self.reading, before_rows, after_rows)


def fit_places(named: EncodedColumn, places: Floats, ranks: Integers) -> EncodedColumn:
    """Standardize the ascending ``places`` of the names by how often each name occurs."""
    low, high = (places[ranks.min()], places[ranks.max()]) if len(ranks) else (0.0, 0.0)
    if low == high:
        return replace(named, places=np.zeros(len(places)))
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    centred = (places - middle) / half
    mean = centred[ranks].mean()
    centred -= mean
    deviation = np.sqrt((centred[ranks] ** 2).mean())
    return replace(
        named,
        centre=np.array([middle + mean * half]),
        scale=np.array([deviation * half]),
        places=centred / deviation,
    )


def place_names(fitted: EncodedColumn, reading: Reading, out: Floats, guess: Guess) -> int:
    """Write known names at their places and others where ``guess`` puts them; count the others."""
    positions = positions_of(fitted, reading.names)
    n_unknown = count_unknown(positions, reading)
    if fitted.constant:
        return n_unknown
    places = np.append(fitted.places, 0.0)[positions]
    unknown = np.flatnonzero(positions[:-1] < 0)
    places[unknown] = guess(fitted, [reading.names[code] for code in unknown.tolist()])
    out[:, 0] = (places * np.sqrt(fitted.weight))[reading.codes]
    return n_unknown


def positions_of(fitted: EncodedColumn, names: Sequence[str]) -> Integers:
    """Return the position of each name, -1 if unknown, followed by -1 for missing values."""
    position = {name: i for i, name in enumerate(fitted.names)}
    return np.array([*(position.get(name, -1) for name in names), -1], dtype=np.int64)


def count_unknown(positions: Integers, reading: Reading) -> int:
    """Return the number of records whose name is not known."""
    n_without_position = np.count_nonzero(positions[reading.codes] < 0)
    return int(n_without_position - np.count_nonzero(reading.missing))
