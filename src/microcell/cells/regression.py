"""Power cells of quasi-identifiers and predicted confidential columns."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from microcell._validation import COSTS, POINTS
from microcell.cells.base import Cells
from microcell.errors import DataError
from microcell.kernels.transport import choose_cells
from microcell.model import Floats, Integers

__all__ = ["RegressionCells"]

NEAREST = 3
"""Number of nearest anchors whose mean outcome predicts."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RegressionCells(Cells, kind="regression", holds_records=False):
    """Cells that preserve an association: x is in the cell of least distance plus cost.

    The distance is ||x - centroid_q||^2 + ||f(x) - prediction_q||^2, where f(x) predicts the
    confidential columns: x ``slopes`` + ``intercept``, or the mean of the ``outcomes`` of the three
    nearest ``anchors``. Cells are a function of x alone. Slopes, anchors and outcomes are rounded
    statistics of many records.

    Examples
    --------
    >>> cells = RegressionCells(
    ...     centroids=[[0.0], [4.0]], sizes=[3, 5], k=3, costs=[0.0, 0.0],
    ...     predictions=[[0.0], [8.0]], slopes=[[2.0]], intercept=[0.0],
    ... )
    >>> cells.assign([[1.9], [2.1]])
    array([0, 1])
    """

    costs: Floats = field(metadata=COSTS)
    predictions: Floats = field(metadata=POINTS)
    slopes: Floats | None = field(default=None, metadata=POINTS)
    intercept: Floats | None = field(default=None, metadata=COSTS)
    anchors: Floats | None = field(default=None, metadata=POINTS)
    outcomes: Floats | None = field(default=None, metadata=POINTS)

    def __post_init__(self) -> None:
        super().__post_init__()
        width = self.predictions.shape[1]
        linear = self.slopes is not None and self.intercept is not None
        if linear == (self.anchors is not None and self.outcomes is not None):
            raise _invalid("either slopes and intercept or anchors and outcomes", "slopes")
        shapes: dict[str, tuple[int, ...]] = {
            "costs": (len(self),),
            "predictions": (len(self), width),
            "slopes": (self.dimensions, width),
            "intercept": (width,),
        }
        if self.anchors is not None:
            shapes |= {"anchors": (len(self.anchors), self.dimensions)}
            shapes |= {"outcomes": (len(self.anchors), width)}
        for name, shape in shapes.items():
            value: Any = getattr(self, name)
            if value is not None and (value.shape != shape or 0 in shape[:1]):
                raise _invalid(f"{name} of shape {shape}", name)

    def predict(self, points: Floats) -> Floats:
        """Return the predicted confidential columns, on the scale of ``predictions``."""
        if self.slopes is not None and self.intercept is not None:
            out = np.zeros((len(points), len(self.intercept))) + self.intercept
            for j, row in enumerate(self.slopes):  # rounding must not depend on the other points
                out += points[:, j : j + 1] * row
            return out
        assert self.anchors is not None
        assert self.outcomes is not None
        return nearest_means(points, self.anchors, self.outcomes)

    def _place(self, points: Floats) -> Integers:
        extended = np.ascontiguousarray(np.hstack([points, self.predict(points)]))
        sites = np.ascontiguousarray(np.hstack([self.centroids, self.predictions]))
        return choose_cells(extended, sites, self.costs.copy())


def nearest_means(points: Floats, anchors: Floats, outcomes: Floats) -> Floats:
    """Return the mean outcome of the anchors nearest to each point; ties go to the first ones."""
    out = np.empty((len(points), outcomes.shape[1]))
    count = min(NEAREST, len(anchors))
    for first in range(0, len(points), 1000):
        block = points[first : first + 1000]
        gaps = np.zeros((len(block), len(anchors)))
        for j in range(points.shape[1]):
            gaps += (block[:, j : j + 1] - anchors[:, j]) ** 2
        near = np.sort(np.argsort(gaps, axis=1, kind="stable")[:, :count], axis=1)
        out[first : first + 1000] = outcomes[near].mean(axis=1)
    return out


def _invalid(expected: str, entry: str) -> DataError:
    return DataError(
        f"Cells with a regression must have {expected}.", code="data.invalid", entry=entry
    )
