"""Power cells: a point belongs to the centroid with the least squared distance plus cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from microcell._validation import COSTS, NUMBERS_FROM_0
from microcell.cells.base import Cells
from microcell.errors import DataError
from microcell.kernels.transport import choose_cells, choose_scaled
from microcell.model import Floats, Integers

__all__ = ["AbsoluteCells", "PowerCells"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PowerCells(Cells, kind="power", holds_records=False):
    """Cells of a power diagram: x is in the cell q of least ||x - centroid_q||^2 + cost_q.

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
