"""Locations: two columns of degrees, encoded as unit vectors and published as mean directions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from microcell.errors import DataError
from microcell.kernels.arrays import Floats, Integers, unit_vectors
from microcell.kinds.base import Kind, Reading, check_finite, register
from microcell.kinds.column import Column, EncodedColumn, Layout
from microcell.kinds.groups import Groups, in_column_type
from microcell.kinds.losses import Loss, chord_loss
from microcell.kinds.numeric import check_numbers, write_coordinates
from microcell.kinds.pairs import (
    ColumnPair,
    ColumnPoints,
    Coordinates,
    Histogram,
    Numbers,
    Quantity,
    points_per_record,
    read_numbers,
    with_left_out,
)
from microcell.kinds.rounding import round_centre, round_scale
from microcell.kinds.values import Representatives, Storage, Values

__all__ = ["LocationKind", "LocationPair"]


@register
class LocationKind(Kind):
    """A latitude and a longitude."""

    name = "location"
    representatives: ClassVar[tuple[str, ...]] = ("mean",)
    layout: ClassVar[Layout] = "sphere"
    storages: ClassVar[tuple[Storage, ...]] = ("integer", "float", "empty")
    only_numbers = True
    n_parts = 2
    can_be_confidential = False
    max_dimensions = 3

    def check_values(self, name: str, values: Values) -> None:
        check_numbers(self.name, name, values)

    def read(self, parts: Sequence[str], values: Sequence[Values]) -> Reading:
        limits = {"latitude": 90.0, "longitude": 180.0}
        for part, item in zip(parts, values, strict=True):
            check_finite(part, item)
        degrees = [item.reals() for item in values]
        for part, numbers, (axis, limit) in zip(parts, degrees, limits.items(), strict=True):
            _check_degrees(part, numbers, axis, limit)
        missing = values[0].missing | values[1].missing
        vectors = unit_vectors(*[np.where(missing, 0.0, numbers) for numbers in degrees])
        return Reading(values[0], missing, vectors=vectors)

    def fit(self, blank: EncodedColumn, column: Column, reading: Reading) -> EncodedColumn:
        present = reading.vectors
        if reading.missing.any():
            present = present[~reading.missing]
        if len(present) == 0 or (present == present[0]).all():
            return blank
        centre = present.mean(axis=0)
        scale = np.sqrt(((present - centre) ** 2).sum() / len(present) / 2.0)
        if scale == 0:  # the squares of distances below 1e-160 radians vanish
            return blank
        return replace(blank, centre=centre, scale=np.full(3, scale))

    def round_fit(self, fitted: EncodedColumn) -> EncodedColumn:
        scale = round_scale(float(fitted.scale[0]))
        centre = [float(round_centre(Fraction(axis), scale)) for axis in fitted.centre.tolist()]
        return replace(fitted, centre=np.array(centre), scale=np.full(3, scale))

    def place(self, fitted: EncodedColumn, reading: Reading, out: Floats) -> int:
        if not fitted.constant:
            x = reading.vectors - fitted.centre
            x /= fitted.scale
            write_coordinates(fitted, reading, x, out)
        return 0

    def represent(
        self, column: Column, values: Sequence[Values], groups: Groups
    ) -> list[Representatives]:
        absent = values[0].missing | values[1].missing
        vectors = unit_vectors(*[np.where(absent, 0.0, item.reals()) for item in values])
        x, y, z = [groups.sum(np.where(absent, 0.0, axis)) for axis in vectors.T]
        _, missing = groups.totals(absent)
        degrees = np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))
        zero = np.zeros(groups.count, dtype=np.int64)
        return [
            in_column_type(item, zero, mean / 2, missing)
            for item, mean in zip(values, degrees, strict=True)
        ]

    def pair(
        self, column: Column, original: Sequence[Values], released: Sequence[Values]
    ) -> ColumnPair:
        latitude, longitude = [
            read_numbers(*triple) for triple in zip(column.parts, original, released, strict=True)
        ]
        return LocationPair(column, latitude, longitude)


@dataclass(frozen=True, eq=False)
class LocationPair(ColumnPair):
    """Locations as points on the unit sphere; models and histograms use two number lines."""

    latitude: Numbers
    longitude: Numbers

    @property
    def before(self) -> Floats:
        """Unit vectors of the original, NaN where missing."""
        latitude, longitude = self.latitude, self.longitude
        return _on_sphere(latitude.before + latitude.origin, longitude.before + longitude.origin)

    @property
    def after(self) -> Floats:
        """Unit vectors of the release, NaN where missing."""
        latitude, longitude = self.latitude, self.longitude
        return _on_sphere(latitude.after + latitude.origin, longitude.after + longitude.origin)

    def quantities(self, rows: Integers) -> Iterator[Quantity]:
        yield self.latitude.quantity(rows)
        yield self.longitude.quantity(rows)

    def loss(self, rows: Integers, weights: Floats) -> Loss:
        before = self.before[rows]
        return chord_loss(before, with_left_out(before, self.after), weights)

    def histograms(self) -> Iterator[Histogram]:
        for numbers in (self.latitude, self.longitude):
            histogram = numbers.histogram()
            if histogram is not None:
                yield histogram

    def points(self) -> ColumnPoints:
        return points_per_record(self.before, self.after, variance=2.0)

    def coordinates(self, before_rows: Integers, after_rows: Integers) -> Coordinates:
        return Coordinates(self.before[before_rows], self.after[after_rows])


def _on_sphere(latitude: Floats, longitude: Floats) -> Floats:
    phi, theta = np.radians(latitude), np.radians(longitude)
    # A point with one missing coordinate is missing, even on the axis that needs only the other.
    height = np.where(np.isnan(theta), np.nan, np.sin(phi))
    return np.column_stack((np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), height))


def _check_degrees(name: str, degrees: Floats, axis: str, limit: float) -> None:
    outside = np.flatnonzero(np.abs(degrees) > limit)
    if len(outside):
        row = int(outside[0]) + 1
        raise DataError(
            f"Column {name!r} must contain a {axis} in degrees within ±{limit:g}, but "
            f"{len(outside)} {'rows do' if len(outside) > 1 else 'row does'} not, first in row "
            f"{row}. Correct them, or check that latitude and longitude are not swapped.",
            code="data.out_of_range",
            column=name,
            row=row,
            count=len(outside),
        )
