"""Lookup cells: the cell of the nearest known record."""

from dataclasses import dataclass, field

import numpy as np

from microcell._display import record_repr
from microcell._validation import NUMBERS_FROM_0, POINTS, read_points
from microcell.cells.base import Cells
from microcell.errors import DataError
from microcell.kernels.arrays import centroids, squared_distances
from microcell.kernels.trees import nearest_rows
from microcell.model import Encoding, Floats, Integers, Partition

__all__ = ["LookupCells", "lookup_cells"]


@dataclass(frozen=True, eq=False, kw_only=True)
class LookupCells(Cells, kind="lookup", holds_records=True):
    """Cells by example: a point is in the cell of the nearest of ``records``, ties to the lowest row.

    They fit any partition, and hold the records it was made of: for use inside the house, or where the records are
    public. Assigning takes O(log N) a point in up to 10 dimensions, O(N m) in more.
    """

    records: Floats = field(metadata=POINTS)
    labels: Integers = field(metadata=NUMBERS_FROM_0)

    __repr__ = record_repr

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.records.shape != (len(self.labels), self.dimensions):
            raise DataError(
                f"The records are a matrix of {self.records.shape[0]} by {self.records.shape[1]}, expected one row for "
                f"each of the {len(self.labels)} labels and the {self.dimensions} columns of the centroids."
            )
        if not np.array_equal(np.bincount(self.labels, minlength=len(self)), self.sizes):
            raise DataError(
                f"The labels must name the {len(self)} cells as often as their sizes say."
            )

    def _place(self, points: Floats) -> Integers:
        return self.labels[nearest_rows(self.records, points)]


def lookup_cells(
    X: Floats, labels: Integers, k: int, *, encoding: Encoding | None = None
) -> LookupCells:
    """The lookup cells of a partition: each row of X is in its cell again, and every cell has k or more.

    Equal rows cannot be told apart: they go all to the cell of the first of them, and a cell that this leaves with
    fewer than k joins the one with the nearest centroid. ``assign(X)`` gives the labels that result. Where no two
    rows are equal these are the labels given. Time O(n log n + n m), more where cells join.

    Examples
    --------
    >>> import numpy as np
    >>> cells = lookup_cells(np.array([[0.0], [1.0], [8.0], [9.0]]), np.array([0, 0, 1, 1]), 2)
    >>> cells.assign([[0.4], [7.0], [70.0]])
    array([0, 1, 1])
    """
    points = read_points(X, np.shape(X)[1] if np.ndim(X) == 2 else 1)
    given = Partition(labels, k)
    if len(given.labels) != len(points):
        raise DataError(
            f"{len(given.labels)} labels were given for {len(points)} rows of X, expected one a row."
        )
    settled = _settle(points, given.labels, k)
    means = centroids(points, settled, np.ones(len(points)))
    sizes = np.bincount(settled)
    return LookupCells(
        centroids=means, sizes=sizes, k=k, encoding=encoding, records=points, labels=settled
    )


def _settle(points: Floats, labels: Integers, k: int) -> Integers:
    """Labels that are the same for equal points, in cells of k or more, numbered without gaps."""
    _, first, inverse = np.unique(points, axis=0, return_index=True, return_inverse=True)
    labels = _renumber(labels[first[inverse.ravel()]])
    while np.bincount(labels).min() < k:
        smallest = int(np.argmin(np.bincount(labels)))
        means = centroids(points, labels, np.ones(len(points)))
        distances = squared_distances(means, means[smallest])
        distances[smallest] = np.inf
        labels = _renumber(np.where(labels == smallest, np.argmin(distances), labels))
    return labels


def _renumber(labels: Integers) -> Integers:
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
