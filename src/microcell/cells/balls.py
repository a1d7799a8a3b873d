"""Ball cells: a point belongs to the first ball, in order, that contains it."""

from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from microcell import progress
from microcell._display import count
from microcell._validation import NUMBERS_FROM_0, POINTS, RADII, read_points
from microcell.cells.base import Cells
from microcell.errors import DataError
from microcell.kernels.arrays import centroids, squared_distances
from microcell.kernels.balls import Balls, Carving, carve, find_balls
from microcell.kernels.scans import lay_out, make_scratch
from microcell.kernels.trees import nearest_rows
from microcell.model import Encoding, Floats, Integers, Partition

__all__ = ["BallCells", "ball_cells", "check_labels"]

_APART = 2e-9
"""Minimum distance of centres from all records, relative to the spread of the table."""

_CELLS_AT_A_TIME = 100


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class BallCells(Cells, kind="balls", holds_records=False):
    """Cells of ordered balls: a point is in the cell of the first ball that contains it.

    A point outside all balls is in the last cell. Ball b contains the points within ``radii[b]`` of
    ``references[b]`` and belongs to ``cells[b]``. The reference points should not be records; those
    of :func:`ball_cells` never are, but may lie close to one. Assigning takes O(n B m) time.

    Examples
    --------
    >>> cells = BallCells(centroids=[[0.2], [3.0]], sizes=[3, 5], k=3,
    ...     references=[[0.0]], radii=[1.5], cells=[0])
    >>> cells.assign([[-1.0], [1.5], [2.0]])
    array([0, 0, 1])
    """

    references: Floats = field(metadata=POINTS)
    radii: Floats = field(metadata=RADII)
    cells: Integers = field(metadata=NUMBERS_FROM_0)

    def __post_init__(self) -> None:
        super().__post_init__()
        balls = len(self.radii)
        if self.references.shape != (balls, self.dimensions) or len(self.cells) != balls:
            raise DataError(
                "references, radii and cells must have one entry per ball, and references "
                f"{count(self.dimensions, 'column')}. Their shapes are {self.references.shape}, "
                f"({balls},) and ({len(self.cells)},).",
                code="data.invalid",
                entry="references",
            )
        named = np.unique(np.append(self.cells, len(self) - 1))
        if not np.array_equal(named, np.arange(len(self))):
            raise DataError(
                f"Each of the {len(self)} cells except the last must have a ball.",
                code="data.invalid",
                entry="cells",
            )

    def _place(self, points: Floats) -> Integers:
        cell = np.append(self.cells, len(self) - 1)
        return cell[find_balls(points, self.references.copy(), self.radii.copy())]


def ball_cells(
    X: Floats, labels: Integers, k: int, *, encoding: Encoding | None = None
) -> BallCells:
    """Build ball cells from a partition by MDAV or V-MDAV; every cell has at least k records.

    Labels must be numbered in order of creation. ``assign(X)`` returns the resulting labels, which
    sizes and centroids refer to. For MDAV without macrocells and without tied distances they are
    the same labels. Otherwise some records change cells: a record that a ball cannot separate from
    later records is left to later balls, the last of which lie around the cell means and contain
    all remaining records; a cell left with fewer than k records disappears.

    No reference point is a record. Centres lie next to the line from a cell's centroid to its
    farthest record, at an offset drawn from a digest of X. Where cells are close together a centre
    must lie near a record, and rounding may then reveal it, so ball cells do not guarantee that
    records cannot be found. Power cells reveal less. Time O(n G m), a few times; memory three times
    the matrix.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [1.5], [5.0], [7.0], [7.5]])
    >>> ball_cells(X, np.array([1, 1, 1, 0, 0, 0]), 3).assign(X)
    array([1, 1, 1, 0, 0, 0])
    """
    points = read_points(X, np.shape(X)[1] if np.ndim(X) == 2 else 1)
    start = check_labels(labels, len(points), k)
    balls = _drop_short(points, k, _make_balls(points, start.copy(), k))
    balls = _catch_strays(points, start, k, balls)
    last = int(balls.cells.max(initial=-1)) + 1
    assigned = np.append(balls.cells, last)[find_balls(points, balls.references, balls.radii)]
    return BallCells(
        centroids=centroids(points, assigned, np.ones(len(points))),
        sizes=np.bincount(assigned),
        k=k,
        encoding=encoding,
        references=balls.references,
        radii=balls.radii,
        cells=balls.cells,
    )


def check_labels(labels: Integers, rows: int, k: int) -> Integers:
    """Return the labels of a partition into cells of at least k, one label per row."""
    checked = Partition(labels, k).labels
    if len(checked) != rows:
        raise DataError(
            f"labels must have one entry per row of X ({rows}), not {len(checked)}.",
            code="data.invalid",
            entry="labels",
        )
    return checked


@dataclass(frozen=True, eq=False)
class _Balls:
    """Ordered balls and the cell of each; the last cell has no ball."""

    references: Floats
    radii: Floats
    cells: Integers


def _drop_short(X: Floats, k: int, balls: Balls) -> _Balls:
    """Drop balls from the end until the last cell, which takes their records, has at least k."""
    count = int(balls.used[0])
    held = find_balls(X, balls.centres[:count], balls.radii[:count])
    while count > 0 and (held >= count).sum() < k:
        count -= 1
    return _Balls(balls.centres[:count], balls.radii[:count], np.arange(count))


def _catch_strays(X: Floats, labels: Integers, k: int, balls: _Balls) -> _Balls:
    """Append balls that assign the remaining records to the cells with the nearest means.

    The new balls lie around means of cells that are not records. They leave k records to the last
    cell: those that were in it or, if these are too few, the remaining record farthest from all
    means and its nearest neighbours. O(n G m).
    """
    held, count = find_balls(X, balls.references, balls.radii), len(balls.radii)
    left = np.flatnonzero(held == count)
    means = centroids(X, held, np.ones(len(X)))[:count]
    usable = np.flatnonzero(_distances(means, X[nearest_rows(X, means)]) > _APART * _spread(X))
    if len(usable) == 0 or len(left) <= k:
        return balls
    nearest = usable[nearest_rows(means[usable], X[left])]
    distances = _distances(X[left], means[nearest])
    stays = labels[left] == labels.max()
    if stays.sum() < k:
        from_farthest = squared_distances(X[left], X[left[np.argmax(distances)]])
        stays = np.isin(np.arange(len(left)), np.argsort(from_farthest, kind="stable")[:k])
    references = [balls.references]
    radii = [balls.radii]
    cells = [balls.cells]
    for cell in np.unique(nearest):
        limit = np.sqrt(squared_distances(X[left[stays]], means[cell]).min())
        # The margin leaves room for rounding.
        caught = distances[(nearest == cell) & (distances < limit * (1 - 1e-9))]
        if len(caught):
            references.append(means[[cell]])
            radii.append(np.array([(caught.max() + limit) / 2]))
            cells.append(np.array([cell]))
    return _Balls(np.concatenate(references), np.concatenate(radii), np.concatenate(cells))


def _distances(x: Floats, y: Floats) -> Floats:
    """Return the distance between corresponding points."""
    return np.sqrt(squared_distances(x - y, np.zeros(x.shape[1])))


def _spread(X: Floats) -> float:
    """Return the largest deviation from the mean, or 1 if all records are equal."""
    return float(np.abs(X - X.mean(axis=0)).max(initial=0.0)) or 1.0


def _make_balls(X: Floats, labels: Integers, k: int) -> Balls:
    """Make balls for all cells but the last, in order."""
    sizes = np.bincount(labels)
    count, m = len(sizes) - 1, X.shape[1]
    balls = Balls(np.zeros((count, m)), np.zeros(count), np.zeros(1, dtype=np.int64))
    if m == 0:  # all points are equal
        return balls
    work = _start_carving(X, labels, sizes)
    for first in range(0, count, _CELLS_AT_A_TIME):
        carve(work, balls, k, first, min(first + _CELLS_AT_A_TIME, count))
        progress.report("fitting balls around cells", first, count)
    return balls


def _start_carving(X: Floats, labels: Integers, sizes: Integers) -> Carving:
    n, m = X.shape
    centre = X.mean(axis=0)
    seed = int.from_bytes(blake2b(X.tobytes(), digest_size=8).digest(), "big")
    return Carving(
        X=X,
        members=np.argsort(labels, kind="stable"),
        starts=np.append(0, np.cumsum(sizes)),
        means=centre + _means_of_remaining(X - centre, labels, sizes),
        everyone=lay_out(X),
        others=lay_out(X),
        strays=np.zeros(n, dtype=np.int64),
        stray_count=np.zeros(1, dtype=np.int64),
        anchor=np.zeros(m),
        scratch=make_scratch(int(sizes.max()), 1),
        state=np.array([seed], dtype=np.uint64),
        tolerance=max((_APART * _spread(X)) ** 2, 1e-300),
    )


def _means_of_remaining(X: Floats, labels: Integers, sizes: Integers) -> Floats:
    """Return, for each cell, the mean of its records and those of all later cells."""
    sums = centroids(X, labels, np.ones(len(X))) * sizes[:, np.newaxis]
    return np.cumsum(sums[::-1], axis=0)[::-1] / np.cumsum(sizes[::-1])[::-1, np.newaxis]
