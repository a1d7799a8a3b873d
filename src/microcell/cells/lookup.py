"""Lookup cells: a point belongs to the cell of the nearest original record."""

from dataclasses import dataclass, field

import numpy as np

from microcell._validation import NUMBERS_FROM_0, POINTS, read_points
from microcell.cells.balls import check_labels
from microcell.cells.base import Cells
from microcell.errors import DataError
from microcell.kernels.arrays import centroids, distinct_rows, squared_distances
from microcell.kernels.trees import nearest_rows
from microcell.model import Encoding, Floats, Integers

__all__ = ["LookupCells", "lookup_cells"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LookupCells(Cells, kind="lookup", holds_records=True):
    """Cells by example: a point is in the cell of the nearest of ``records``.

    Ties go to the lowest row. Lookup cells fit any partition but contain the original records, so
    they are for internal use, or for records that are public. Assigning a point takes O(log N) time
    in up to 10 dimensions, O(N m) in more.
    """

    records: Floats = field(metadata=POINTS)
    labels: Integers = field(metadata=NUMBERS_FROM_0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.records.shape != (len(self.labels), self.dimensions):
            raise DataError(
                f"records must have {len(self.labels)} rows (one per label) and {self.dimensions} "
                f"columns, not the shape {self.records.shape}.",
                code="data.invalid",
                entry="records",
            )
        if not np.array_equal(np.bincount(self.labels, minlength=len(self)), self.sizes):
            raise DataError(
                "labels must contain each cell as often as its size.",
                code="data.invalid",
                entry="labels",
            )

    def _place(self, points: Floats) -> Integers:
        return self.labels[nearest_rows(self.records, points)]


def lookup_cells(
    X: Floats, labels: Integers, k: int, *, encoding: Encoding | None = None
) -> LookupCells:
    """Build lookup cells from a partition; every cell has at least k records.

    Each row of X is assigned to its own cell again, except for equal rows, which are
    indistinguishable: all of them go to the cell of the first, and a cell left with fewer than k is
    merged into the one with the nearest centroid. ``assign(X)`` returns the resulting labels. Time
    O(n log n + n m), more if cells are merged.

    Examples
    --------
    >>> import numpy as np
    >>> cells = lookup_cells(np.array([[0.0], [1.0], [8.0], [9.0]]), np.array([0, 0, 1, 1]), 2)
    >>> cells.assign([[0.4], [7.0], [70.0]])
    array([0, 1, 1])
    """
    points = read_points(X, np.shape(X)[1] if np.ndim(X) == 2 else 1)
    start = check_labels(labels, len(points), k)
    merged = _merge_equal(points, start, k)
    means = centroids(points, merged, np.ones(len(points)))
    sizes = np.bincount(merged)
    return LookupCells(
        centroids=means, sizes=sizes, k=k, encoding=encoding, records=points, labels=merged
    )


def _merge_equal(points: Floats, labels: Integers, k: int) -> Integers:
    """Give equal points the same label and merge cells below k; labels have no gaps."""
    distinct = distinct_rows(points)
    labels = _renumber(labels[distinct.first[distinct.place]])
    while np.bincount(labels).min() < k:
        smallest = int(np.argmin(np.bincount(labels)))
        means = centroids(points, labels, np.ones(len(points)))
        distances = squared_distances(means, means[smallest])
        distances[smallest] = np.inf
        labels = _renumber(np.where(labels == smallest, np.argmin(distances), labels))
    return labels


def _renumber(labels: Integers) -> Integers:
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
