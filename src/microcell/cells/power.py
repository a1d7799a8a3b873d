"""Power cells: a point belongs to the centroid with the least distance plus cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from microcell._validation import COSTS, NUMBERS_FROM_0, POINTS
from microcell.cells.base import Cells
from microcell.errors import DataError
from microcell.kernels.transport import choose_cells, choose_scaled
from microcell.model import Floats, Integers

__all__ = ["AbsoluteCells", "PowerCells", "RegressionCells"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PowerCells(Cells, kind="power", holds_records=False):
    """Cells of a power diagram: x is in the cell q with the least ||x - centroid_q||^2 + cost_q.

    The cells are convex polytopes, and adding a constant to all costs changes nothing. PCL finds
    the costs that give the cells their sizes and moves ``centroids`` to the means of the cells, up
    to its tolerance. If the table was divided into macrocells, ``chooser`` finds the macrocell of
    x, and only the cells whose ``group`` is that macrocell are considered. Assigning takes O(n G m)
    time, less with a chooser.

    Examples
    --------
    >>> cells = PowerCells(centroids=[[0.0], [4.0]], sizes=[3, 5], k=3, costs=[0.0, 8.0])
    >>> cells.assign([[2.5], [3.5]])
    array([0, 1])
    """

    costs: Floats = field(metadata=COSTS)
    group: Integers | None = field(default=None, metadata=NUMBERS_FROM_0)
    chooser: "PowerCells | None" = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.costs) != len(self):
            raise DataError(
                f"costs must have one number per cell ({len(self)} in total), not "
                f"{len(self.costs)}.",
                code="data.invalid",
                entry="costs",
            )
        if (self.group is None) != (self.chooser is None):
            raise DataError(
                "group and chooser must be given together.", code="data.invalid", entry="group"
            )
        if self.group is not None and self.chooser is not None:
            _check_chooser(self, self.group, self.chooser)

    @classmethod
    def within(cls, chooser: "PowerCells", parts: Sequence["PowerCells"]) -> Self:
        """Nest cells in macrocells: the cells of part i lie inside macrocell i of the chooser.

        Parts may have choosers of their own, which are applied after this one.

        Examples
        --------
        >>> halves = PowerCells(centroids=[[0.0], [8.0]], sizes=[4, 4], k=4, costs=[0.0, 0.0])
        >>> left = PowerCells(centroids=[[-1.0], [1.0]], sizes=[2, 2], k=2, costs=[0.0, 0.0])
        >>> right = PowerCells(centroids=[[7.0], [9.0]], sizes=[2, 2], k=2, costs=[0.0, 0.0])
        >>> PowerCells.within(halves, [left, right]).assign([0.5, 3.9, 4.1, 20.0])
        array([1, 1, 2, 3])
        """
        if len(parts) != len(chooser):
            raise DataError(
                f"parts must have one entry per macrocell ({len(chooser)} in total), not "
                f"{len(parts)}.",
                code="data.invalid",
                entry="chooser",
            )
        group = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        if any(part.chooser is not None for part in parts):
            choosers = [_as_one(part) if part.chooser is None else part.chooser for part in parts]
            offsets = np.cumsum([0, *(len(cells) for cells in choosers)])
            groups = [
                np.zeros(len(part), dtype=np.int64) if part.group is None else part.group
                for part in parts
            ]
            group = offsets[group] + np.concatenate(groups)
            chooser = cls.within(chooser, choosers)
        return cls(
            centroids=np.concatenate([part.centroids for part in parts]),
            sizes=np.concatenate([part.sizes for part in parts]),
            k=min(part.k for part in parts),
            costs=np.concatenate([part.costs for part in parts]),
            group=group,
            chooser=chooser,
        )

    def contents(self) -> dict[str, Any]:
        """Return the arrays as plain lists, including those of the chooser."""
        chooser = self.chooser
        inner = None if chooser is None else {"k": chooser.k, **chooser.contents()}
        return {**super().contents(), "chooser": inner}

    @classmethod
    def from_contents(cls, contents: Mapping[str, Any], **shared: Any) -> Self:
        """Rebuild cells from :meth:`contents`."""
        chooser = contents.get("chooser") if isinstance(contents, Mapping) else None
        if isinstance(chooser, Mapping):
            arrays = {name: entry for name, entry in chooser.items() if name != "k"}
            contents = {**contents, "chooser": cls.from_contents(arrays, k=chooser.get("k"))}
        return super().from_contents(contents, **shared)

    def _place(self, points: Floats) -> Integers:
        if self.group is None or self.chooser is None:
            # Copies, because kernels would be compiled again for read-only arrays.
            return self._choose(points, self.centroids.copy(), self.costs.copy())
        macrocells = self.chooser._place(points)
        out = np.empty(len(points), dtype=np.int64)
        for macrocell in np.unique(macrocells):
            rows = np.flatnonzero(macrocells == macrocell)
            cells = np.flatnonzero(self.group == macrocell)
            out[rows] = cells[self._choose(points[rows], self.centroids[cells], self.costs[cells])]
        return out

    def _choose(self, points: Floats, sites: Floats, costs: Floats) -> Integers:
        return choose_cells(points, sites, costs)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AbsoluteCells(PowerCells, kind="absolute", holds_records=False):
    """Like power cells, but with absolute differences: x is in the cell q of least
    sum_j |x_j - centroid_qj| + cost_q. PCL with ``distance="absolute"`` makes them.

    Examples
    --------
    >>> cells = AbsoluteCells(centroids=[[0.0], [4.0]], sizes=[3, 5], k=3, costs=[0.0, 1.0])
    >>> cells.assign([[2.4], [2.6]])
    array([0, 1])
    """

    def _choose(self, points: Floats, sites: Floats, costs: Floats) -> Integers:
        return choose_scaled(points, np.ones(len(points)), True, sites, costs)


def _as_one(cells: PowerCells) -> PowerCells:
    """Return the cells as a single macrocell."""
    size = int(cells.sizes.sum())
    mean = np.average(cells.centroids, axis=0, weights=cells.sizes)
    return PowerCells(
        centroids=mean[np.newaxis], sizes=np.array([size]), k=cells.k, costs=np.zeros(1)
    )


def _check_chooser(cells: PowerCells, group: Integers, chooser: PowerCells) -> None:
    problem = None
    if not isinstance(chooser, PowerCells) or chooser.dimensions != cells.dimensions:
        problem = f"chooser must be PowerCells of {cells.dimensions} dimensions, like the cells."
    elif chooser.encoding is not None or chooser.representatives is not None:
        problem = "A chooser has no encoding and no representatives; pass them to the cells."
    elif len(group) != len(cells) or not np.array_equal(np.unique(group), np.arange(len(chooser))):
        problem = (
            f"group must have one of the chooser's {len(chooser)} macrocells for each of the "
            f"{len(cells)} cells, and each macrocell at least once."
        )
    if problem is not None:
        raise DataError(problem, code="data.invalid", entry="chooser")


NEAREST = 3
"""Number of nearest anchors whose mean outcome is the prediction."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RegressionCells(Cells, kind="regression", holds_records=False):
    """Cells that preserve an association: x is in the cell with the least distance plus cost.

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
