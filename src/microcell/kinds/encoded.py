"""One column encoded as dimensions, with everything needed to place further records."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from microcell._display import record_repr
from microcell.kernels.arrays import Floats, Integers
from microcell.kinds.registry import KINDS
from microcell.kinds.values import Storage

__all__ = ["EncodedColumn", "Layout"]

Layout = Literal["line", "places", "indicators", "sphere"]
"""How an encoded column uses its dimensions.

``"line"``: one dimension, values on a number line. ``"places"``: one dimension, a coordinate per
name. ``"indicators"``: a dimension per name. ``"sphere"``: three dimensions, unit vectors.
"""


def _empty() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """The dimensions ``first`` to ``last - 1`` of the points: one quasi-identifier, encoded.

    Parameters
    ----------
    name, kind, weight
        As in the schema. The weight multiplies squared distances, so coordinates are multiplied by
        its square root.
    parts
        Names of the table's columns: two for a location.
    storage, unit
        Type of the fitted values, and the unit of dates and times.
    first
        The first dimension.
    origin, exponent, centre, scale
        Numbers and dates: coordinate = (value * 2**exponent - origin - centre) / scale. ``origin``
        is a round number near the mean, an integer for whole numbers so that large ones lose no
        digits; ``centre`` is the remainder of the mean. The exponent is 0 except for numbers so
        large or small that they would overflow or underflow. Axes of a location:
        (value - centre) / scale. Indicators: indicator - centre.
    names
        Nominal columns: the category of each dimension; two categories share one dimension, and the
        one without an indicator comes first. None stands for a withheld name. Ordinal columns: the
        categories, lowest first. Codes: the known codes, sorted.
    places
        Ordinal columns and codes: the coordinate of each name, before the weight is applied.
    counts
        Number of records with each name; None if the names are public, as declared orders are.
    """

    name: str
    kind: str
    parts: tuple[str, ...]
    storage: Storage
    unit: str | None = None
    weight: float = 1.0
    first: int = 0
    origin: int | float = 0
    exponent: int = 0
    centre: Floats = field(default_factory=_empty)
    scale: Floats = field(default_factory=_empty)
    names: tuple[str | None, ...] = ()
    places: Floats = field(default_factory=_empty)
    counts: Integers | None = None

    __repr__ = record_repr

    @property
    def dimensions(self) -> int:
        """Number of dimensions."""
        return len(self.centre)

    @property
    def last(self) -> int:
        """End of the column's dimensions (exclusive)."""
        return self.first + self.dimensions

    @property
    def constant(self) -> bool:
        """True if the column had a single value and therefore has no dimension."""
        return self.dimensions == 0

    @property
    def layout(self) -> Layout:
        """How the column uses its dimensions."""
        return KINDS[self.kind].layout

    def published(self, k: int) -> "EncodedColumn":
        """Return the column without counts and without names that fewer than ``k`` records have."""
        return self if self.counts is None else KINDS[self.kind].withhold(self, self.counts >= k)
