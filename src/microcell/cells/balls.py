"""Ball cells: the first ball, in order, that holds a point."""

from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from microcell import progress
from microcell._display import record_repr
from microcell._validation import NUMBERS_FROM_0, POINTS, RADII, read_points
from microcell.cells.base import Cells
from microcell.errors import DataError
from microcell.kernels.arrays import centroids, squared_distances
from microcell.kernels.balls import Balls, Carving, carve, find_balls
from microcell.kernels.scans import lay_out, make_scratch
from microcell.kernels.trees import nearest_rows
from microcell.model import Encoding, Floats, Integers, Partition

__all__ = ["BallCells", "ball_cells"]

_APART = 2e-9
"""Centres stay so far from all records, relative to the spread of the table."""

_CELLS_AT_A_TIME = 100


@dataclass(frozen=True, eq=False, kw_only=True)
class BallCells(Cells, kind="balls", holds_records=False):
    """Cells of balls in order: a point is in the cell of the first ball that holds it, else in the last cell.

    Ball b holds the points at distance ``radii[b]`` or less from ``references[b]``, and belongs to ``cells[b]``. The
    reference points should not be records; those of :func:`ball_cells` are none, but may lie near one. Assigning takes
    O(n B m) time.

    Examples
    --------
    >>> cells = BallCells(centroids=[[0.2], [3.0]], sizes=[3, 5], k=3, references=[[0.0]], radii=[1.5], cells=[0])
    >>> cells.assign([[-1.0], [1.5], [2.0]])
    array([0, 0, 1])
    """

    references: Floats = field(metadata=POINTS)
    radii: Floats = field(metadata=RADII)
    cells: Integers = field(metadata=NUMBERS_FROM_0)

    __repr__ = record_repr

    def __post_init__(self) -> None:
        super().__post_init__()
        balls = len(self.radii)
        if self.references.shape != (balls, self.dimensions) or len(self.cells) != balls:
            raise DataError(
                f"{len(self.references)} references in {self.references.shape[1]} dimensions, {balls} radii and "
                f"{len(self.cells)} cells were given, expected as many, in {self.dimensions} dimensions."
            )
        named = np.unique(np.append(self.cells, len(self) - 1))
        if not np.array_equal(named, np.arange(len(self))):
            raise DataError(
                f"The balls must belong to the {len(self)} cells, each but the last with one or more."
            )

    def _place(self, points: Floats) -> Integers:
        cell = np.append(self.cells, len(self) - 1)
        return cell[find_balls(points, self.references.copy(), self.radii.copy())]


def ball_cells(
    X: Floats, labels: Integers, k: int, *, encoding: Encoding | None = None
) -> BallCells:
    """The ball cells of a partition by MDAV or V-MDAV, numbered in order of creation; every cell has k or more.

    ``assign(X)`` gives the labels that result; sizes and centroids are theirs. For MDAV without macrocells, where no
    distances tie, they are the labels given. Elsewhere some records go to another cell: what a ball cannot tell from
    later records stays for the balls after it, the last of which lie around means of cells and catch what strayed, and
    a cell that is left with fewer than k is no more.

    No reference point is a record. Centres lie beside the line from a cell's centroid to its record farthest out, by
    an amount drawn from a digest of X. Where cells lie close a centre has to lie near a record, and rounding may then
    lead to it: no claim is made that records cannot be found. Power cells tell less. Time O(n G m), a handful of times;
    memory three times the matrix.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [1.5], [5.0], [7.0], [7.5]])
    >>> ball_cells(X, np.array([1, 1, 1, 0, 0, 0]), 3).assign(X)
    array([1, 1, 1, 0, 0, 0])
    """
    points = read_points(X, np.shape(X)[1] if np.ndim(X) == 2 else 1)
    given = Partition(labels, k)
    if len(given.labels) != len(points):
        raise DataError(
            f"{len(given.labels)} labels were given for {len(points)} rows of X, expected one a row."
        )
    balls = _catch_strays(
        points, given.labels, k, _drop_short(points, k, _make_balls(points, given.labels.copy(), k))
    )
    last = int(balls.cells.max(initial=-1)) + 1
    settled = np.append(balls.cells, last)[find_balls(points, balls.references, balls.radii)]
    return BallCells(
        centroids=centroids(points, settled, np.ones(len(points))),
        sizes=np.bincount(settled),
        k=k,
        encoding=encoding,
        references=balls.references,
        radii=balls.radii,
        cells=balls.cells,
    )


@dataclass(frozen=True, eq=False)
class _Balls:
    """Balls in order, and the cell of each; the last cell has none."""

    references: Floats
    radii: Floats
    cells: Integers


def _drop_short(X: Floats, k: int, balls: Balls) -> _Balls:
    """The balls that leave k records or more to the last cell, which gets the records of the others."""
    count = int(balls.made[0])
    held = find_balls(X, balls.centres[:count], balls.radii[:count])
    while count > 0 and (held >= count).sum() < k:
        count -= 1
    return _Balls(balls.centres[:count], balls.radii[:count], np.arange(count))


def _catch_strays(X: Floats, labels: Integers, k: int, balls: _Balls) -> _Balls:
    """The balls, and after them others that bring strays to the cells with the nearest means.

    The new balls lie around means of cells, where these are no records, and leave k records to the last cell: those
    that were in it, or, where these are too few, the stray that is farthest from all means and its nearest. O(n G m).
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
    references, radii, cells = [balls.references], [balls.radii], [balls.cells]
    for cell in np.unique(nearest):
        limit = np.sqrt(squared_distances(X[left[stays]], means[cell]).min())
        caught = distances[
            (nearest == cell) & (distances < limit * (1 - 1e-9))
        ]  # no room for rounding otherwise
        if len(caught):
            references.append(means[[cell]])
            radii.append(np.array([(caught.max() + limit) / 2]))
            cells.append(np.array([cell]))
    return _Balls(np.concatenate(references), np.concatenate(radii), np.concatenate(cells))


def _distances(x: Floats, y: Floats) -> Floats:
    """The distance of each point of the one from that of the other."""
    return np.sqrt(squared_distances(x - y, np.zeros(x.shape[1])))


def _spread(X: Floats) -> float:
    """The largest difference of a record from the mean, 1 if all are equal."""
    return float(np.abs(X - X.mean(axis=0)).max(initial=0.0)) or 1.0


def _make_balls(X: Floats, labels: Integers, k: int) -> Balls:
    """Balls of all cells but the last, in order."""
    sizes = np.bincount(labels)
    count, m = len(sizes) - 1, X.shape[1]
    balls = Balls(np.zeros((count, m)), np.zeros(count), np.zeros(1, dtype=np.int64))
    if m == 0:  # all points are equal
        return balls
    work = _lay_work(X, labels, sizes)
    for first in range(0, count, _CELLS_AT_A_TIME):
        carve(work, balls, k, first, min(first + _CELLS_AT_A_TIME, count))
        progress.report("drawing balls around cells", first, count)
    return balls


def _lay_work(X: Floats, labels: Integers, sizes: Integers) -> Carving:
    n, m = X.shape
    centre = X.mean(axis=0)
    seed = int.from_bytes(blake2b(X.tobytes(), digest_size=8).digest(), "big")
    return Carving(
        X=X,
        members=np.argsort(labels, kind="stable"),
        starts=np.append(0, np.cumsum(sizes)),
        means=centre + _means_of_the_rest(X - centre, labels, sizes),
        everyone=lay_out(X),
        others=lay_out(X),
        strays=np.zeros(n, dtype=np.int64),
        stray_count=np.zeros(1, dtype=np.int64),
        anchor=np.zeros(m),
        scratch=make_scratch(int(sizes.max()), 1),
        chance=np.array([seed], dtype=np.uint64),
        tolerance=max((_APART * _spread(X)) ** 2, 1e-300),
    )


def _means_of_the_rest(X: Floats, labels: Integers, sizes: Integers) -> Floats:
    """The mean of the records of each cell and all later ones."""
    sums = centroids(X, labels, np.ones(len(X))) * sizes[:, np.newaxis]
    return np.cumsum(sums[::-1], axis=0)[::-1] / np.cumsum(sizes[::-1])[::-1, np.newaxis]
