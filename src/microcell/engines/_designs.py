"""The points that cells are made of: of quasi-identifiers, and of what is confidential where its dependence counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np

from microcell import encoding
from microcell.errors import OptionError
from microcell.kernels.cells import sum_of_squares
from microcell.model import Encoding, Floats, Integers, Schema, Table

__all__ = ["Dependence", "Design", "Placed", "Sums", "add_up", "check_confidential", "find_factor", "unite_distortion"]


@dataclass(frozen=True, eq=False)
class Dependence:
    """How confidential columns take part: their encoding, and the factor of their points; None if they stand alone."""

    encoding: Encoding
    factor: float | None = None


@dataclass(frozen=True, eq=False)
class Placed:
    """Records as points: of the quasi-identifiers, of the confidential columns if they count, and of the design."""

    quasi: Floats
    confidential: Floats | None
    design: Floats


@dataclass(frozen=True, eq=False)
class Design:
    """How records become points, the same for all parts of a data set."""

    encoding: Encoding = Encoding(())  # noqa: RUF009
    dependence: Dependence | None = None

    def place(self, table: Table) -> Placed:
        """The records as points; see :func:`microcell.partitioning.extend` for those that preserve dependence."""
        quasi = encoding.place(table, self.encoding).matrix
        if self.dependence is None:
            return Placed(quasi, None, quasi)
        confidential = encoding.place(table, self.dependence.encoding).matrix
        if self.dependence.factor is None:
            return Placed(quasi, confidential, confidential)
        extended = np.hstack([quasi, self.dependence.factor * confidential])
        return Placed(quasi, confidential, np.ascontiguousarray(extended))


@dataclass(frozen=True, eq=False)
class Sums:
    """What the distortion of all records is added up from: SSE within cells, and weighted sums of the points."""

    sse: float
    weight: float
    sums: Floats
    squares: float


def add_up(points: Floats, weights: Floats | None, labels: Integers | None = None) -> Sums:
    """The sums of some records; without cells there is no SSE."""
    each = np.ones(len(points)) if weights is None else weights
    return Sums(
        0.0 if labels is None else sum_of_squares(points, labels, each),
        float(each.sum()),
        (points * each[:, np.newaxis]).sum(axis=0),
        float((np.square(points).sum(axis=1) * each).sum()),
    )


def unite_distortion(parts: Sequence[Sums]) -> float:
    """SSE / SST of the points of all records."""
    total = _spread(parts)
    return 0.0 if total <= 0 else fsum(part.sse for part in parts) / total


def find_factor(dependence: float, quasi: Sequence[Sums], confidential: Sequence[Sums]) -> float | None:
    """The beta of :func:`microcell.partitioning.extend` for all records; None if confidential points stand alone."""
    # To 12 digits, as in memory: the variance of standardized columns is then their number, whatever was rounded.
    x, y = (float(f"{_spread(parts) / fsum(part.weight for part in parts):.12g}") for parts in (quasi, confidential))
    return None if dependence == 1 or x <= 0 else float(np.sqrt(dependence / (1 - dependence) * x / y))


def _spread(parts: Sequence[Sums]) -> float:
    """SST of all records."""
    sums = np.array([fsum(axis) for axis in zip(*(part.sums for part in parts), strict=True)])
    weight = fsum(part.weight for part in parts)
    return fsum(part.squares for part in parts) - float(np.square(sums).sum()) / weight


def check_confidential(schema: Schema, fitted: Encoding | None = None) -> None:
    """Refuse to preserve dependence where there is nothing to depend on; known once columns were looked at."""
    if not schema.confidential:
        raise OptionError("dependence is for confidential columns, and the schema names none. Name some, or use 0.")
    if fitted is not None and fitted.dimensions == 0:
        raise OptionError("No confidential column has differences, so that nothing depends on them. Use 0.")
