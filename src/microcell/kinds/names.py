"""Code shared by the kinds whose values have names: ordinal, nominal and code."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from microcell.kernels.arrays import Floats, Integers
from microcell.kinds.base import Kind, Reading
from microcell.kinds.column import Column, EncodedColumn
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
    with_left_out,
)
from microcell.kinds.rounding import round_centre, round_scale
from microcell.kinds.values import Values

__all__ = [
    "CategoricalKind",
    "CategoryPair",
    "NamedKind",
    "count_unknown",
    "fit_places",
    "place_names",
    "positions_of",
    "round_places",
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

    @abstractmethod
    def loss(
        self,
        column: Column,
        before: Integers,
        after: Integers,
        weights: Floats,
        *,
        names: Sequence[str],
    ) -> Loss:
        """Return the loss, given each record's position in ``names`` before and after."""


@dataclass(frozen=True, eq=False)
class CategoryPair(ColumnPair):
    """A column whose values are categories."""

    kind: CategoricalKind
    reading: Categories

    @property
    def categories(self) -> Categories | None:
        return self.reading

    def loss(self, rows: Integers, weights: Floats) -> Loss:
        reading = self.reading
        before = reading.before[rows]
        after = with_left_out(before, reading.after)
        return self.kind.loss(self.column, before, after, weights, names=reading.names)

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


def round_places(fitted: EncodedColumn) -> EncodedColumn:
    """Round mean and deviation of the names' places, and place the names with them."""
    scale = round_scale(float(fitted.scale[0]))
    centre = float(round_centre(Fraction(float(fitted.centre[0])), scale))
    raw = fitted.places * fitted.scale[0] + fitted.centre[0]
    return replace(
        fitted,
        centre=np.array([centre]),
        scale=np.array([scale]),
        # Further digits are rounding errors, which depend on the exact scale.
        places=np.round((raw - centre) / scale, 12),
    )


def place_names(fitted: EncodedColumn, reading: Reading, out: Floats, guess: Guess) -> int:
    """Write the places of known names, estimate those of unknown names, and count the latter."""
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
    """Return the number of records with an unknown name."""
    n_without_position = np.count_nonzero(positions[reading.codes] < 0)
    return int(n_without_position - np.count_nonzero(reading.missing))
