"""Cells as functions that can lose cells: what a dropped cell held goes where the function then sends it."""

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from microcell.cells import BallCells, Cells, LookupCells, PowerCells
from microcell.kernels.balls import find_balls
from microcell.kernels.cells import centroids, squared_distances
from microcell.kernels.transport import choose_cells
from microcell.kernels.trees import nearest_rows
from microcell.model import Floats, Integers

__all__ = ["Balls", "Lookup", "Power", "Shape"]


class Shape(Protocol):
    """A function from points to cells."""

    @property
    def count(self) -> int:
        """The number of cells."""

    def place(self, points: Floats) -> Integers:
        """The cell of each point."""

    def without(self, cells: Integers, means: Floats) -> Self:
        """The function without these cells, whose means are given; fewer cells in any case."""

    def build(self, labels: Integers, points: Floats, weights: Floats, k: int) -> Cells:
        """The cells to publish, with the sizes and the means that the labels, as placed, come to."""


@dataclass(frozen=True, eq=False)
class Power:
    """The least squared distance to a site plus the site's cost."""

    sites: Floats
    costs: Floats

    @property
    def count(self) -> int:
        """The number of sites."""
        return len(self.sites)

    def place(self, points: Floats) -> Integers:
        """The cell of each point."""
        return choose_cells(points, self.sites, self.costs)

    def without(self, cells: Integers, means: Floats) -> "Power":  # noqa: ARG002
        """The other sites: their cells share out what is left over, and lose nothing."""
        keep = np.setdiff1d(np.arange(self.count), cells)
        return Power(np.ascontiguousarray(self.sites[keep]), self.costs[keep])

    def build(self, labels: Integers, points: Floats, weights: Floats, k: int) -> PowerCells:  # noqa: ARG002
        """Power cells; their centroids are the sites."""
        return PowerCells(centroids=self.sites, sizes=np.bincount(labels), k=k, costs=self.costs)


@dataclass(frozen=True, eq=False)
class Balls:
    """The first ball that holds a point; else the last cell."""

    references: Floats
    radii: Floats
    cells: Integers
    count: int

    @classmethod
    def of(cls, cells: BallCells) -> "Balls":
        """The balls of such cells."""
        return cls(cells.references.copy(), cells.radii.copy(), cells.cells.copy(), len(cells))

    def place(self, points: Floats) -> Integers:
        """The cell of each point."""
        return np.append(self.cells, self.count - 1)[find_balls(points, self.references, self.radii)]

    def without(self, cells: Integers, means: Floats) -> "Balls":  # noqa: ARG002
        """Without the balls of these cells; in place of the last cell, which needs none, the one before it goes."""
        last = self.count - 1
        dropped = np.unique(np.where(cells == last, last - 1, cells))
        keep = ~np.isin(self.cells, dropped)
        numbers = np.cumsum(~np.isin(np.arange(self.count), dropped)) - 1
        return Balls(
            np.ascontiguousarray(self.references[keep]),
            self.radii[keep],
            numbers[self.cells[keep]],
            self.count - len(dropped),
        )

    def build(self, labels: Integers, points: Floats, weights: Floats, k: int) -> BallCells:
        """Ball cells."""
        return BallCells(
            centroids=centroids(points, labels, weights),
            sizes=np.bincount(labels),
            k=k,
            references=self.references,
            radii=self.radii,
            cells=self.cells,
        )


@dataclass(frozen=True, eq=False)
class Lookup:
    """The cell of the nearest known record, equal ones being in one cell."""

    records: Floats
    labels: Integers

    @property
    def count(self) -> int:
        """The number of cells."""
        return int(self.labels.max()) + 1

    def place(self, points: Floats) -> Integers:
        """The cell of each point."""
        return self.labels[nearest_rows(self.records, points)]

    def without(self, cells: Integers, means: Floats) -> "Lookup":
        """The cells merged, each into the one with the nearest mean that stays."""
        stays = np.setdiff1d(np.arange(len(means)), cells)
        into = np.arange(len(means))
        for cell in cells:
            into[cell] = stays[squared_distances(means[stays], means[cell]).argmin()]
        return replace(self, labels=np.unique(into[self.labels], return_inverse=True)[1])

    def build(self, labels: Integers, points: Floats, weights: Floats, k: int) -> LookupCells:
        """Lookup cells."""
        means, sizes = centroids(points, labels, weights), np.bincount(labels)
        return LookupCells(centroids=means, sizes=sizes, k=k, records=self.records, labels=self.labels)
