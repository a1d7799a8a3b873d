"""Cells of devices on the Earth: power cells that PCL makes, their published places, and how two become one."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.kernels.arrays import unit_vectors
from microcell.kernels.transport import choose_cells
from microcell.methods import pcl
from microcell.methods.quantization import unpin
from microcell.model import Floats, Integers

__all__ = [
    "EARTH_RADIUS",
    "Clustering",
    "Merging",
    "cluster",
    "great_circle",
    "merge",
    "merge_small",
    "to_degrees",
    "to_points",
]

EARTH_RADIUS = 6371.0088
"""The mean radius in kilometres."""


def to_points(latitude: Floats, longitude: Floats) -> Floats:
    """One point a row, in kilometres from the Earth's centre, for places in degrees.

    The squared distance of two points is the squared great-circle distance but for one part in 12 of the squared angle:
    for places 100 km apart, 2 parts in 100,000.

    Examples
    --------
    >>> to_points(np.array([90.0]), np.array([0.0])).round(3) + 0.0
    array([[   0.   ,    0.   , 6371.009]])
    """
    return unit_vectors(latitude, longitude) * EARTH_RADIUS


def to_degrees(points: Floats) -> tuple[Floats, Floats]:
    """Latitudes and longitudes of points, seen from the Earth's centre, however deep they lie.

    Examples
    --------
    >>> latitude, longitude = to_degrees(np.array([[0.0, 3000.0, 3000.0]]))
    >>> latitude.round(6), longitude.round(6)
    (array([45.]), array([90.]))
    """
    x, y, z = points.T
    return np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))


def great_circle(points: Floats, others: Floats) -> Floats:
    """Kilometres along the sphere between points and others, row by row, also where they nearly meet.

    Examples
    --------
    >>> pole, equator = to_points(np.array([90.0, 0.0]), np.array([0.0, 0.0]))
    >>> great_circle(pole[np.newaxis], equator[np.newaxis]).round(2)
    array([10007.56])
    """
    a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (points, others))
    angles = 2.0 * np.arctan2(np.linalg.norm(a - b, axis=1), np.linalg.norm(a + b, axis=1))
    return np.asarray(EARTH_RADIUS * angles)


SHAKES, FEW = 20, 2_000_000
"""Rounds of shaking, for fewer points times cells than this."""

_COLD: dict[str, Any] = {"iterations": 25, "tolerance": 5e-4}
_WARM: dict[str, Any] = {"iterations": 2, "tolerance": 2e-3}
"""Lloyd's last steps gain little and take as long as the first."""


@dataclass(frozen=True, eq=False, repr=False)
class Clustering:
    """Cells as a rule, and what is published of them; nothing of a single device.

    A point goes to the site of least squared distance plus cost, and with it to that site's cell: a cell that came of
    merging has several sites. Points and sites are in kilometres from the Earth's centre, costs in square kilometres.

    Examples
    --------
    >>> points = to_points(np.array([40.0, 40.1, 50.0, 50.1]), np.array([2.0, 2.0, 3.0, 3.0]))
    >>> clustering, cells = cluster(points, 2)
    >>> bool((clustering.assign(points) == cells).all())
    True
    >>> sorted(clustering.places.round(2).tolist())
    [[40.05, 2.0], [50.05, 3.0]]
    """

    k: int
    sites: Floats
    costs: Floats
    cell_of: Integers
    places: Floats
    """Latitude and longitude of each cell, in degrees."""
    radius: Floats
    """Root mean squared kilometres from the place, at the rebuild."""

    def __post_init__(self) -> None:
        count, cells = len(self.sites), len(self.places)
        if (
            self.sites.shape != (count, 3)
            or self.costs.shape != (count,)
            or self.cell_of.shape != (count,)
        ):
            raise DataError(
                "A clustering needs three coordinates, a cost and a cell for each site."
            )
        if self.places.shape != (cells, 2) or self.radius.shape != (cells,):
            raise DataError("A clustering needs a place and a radius for each cell.")
        if not np.array_equal(np.unique(self.cell_of), np.arange(cells)):
            raise DataError("The cells of a clustering must be numbered from 0, each with a site.")

    def __len__(self) -> int:
        return len(self.places)

    def __repr__(self) -> str:
        return f"Clustering({len(self)} cells of {len(self.sites)} sites, k = {self.k})"

    def assign(self, points: Floats) -> Integers:
        """The cell of each point. Time O(n s) for s sites."""
        return self.cell_of[choose_cells(np.ascontiguousarray(points), self.sites, self.costs)]


def cluster(
    points: Floats, k: int, *, start: Clustering | None = None, spare: float = 0.0, seed: int = 0
) -> tuple[Clustering, Integers]:
    """Cells of at least k points and of little distortion, and the cell of each point.

    By probability-constrained Lloyd, from recursive splits; where ``start`` is given, from its sites and costs. Sizes
    are as equal as can be, and larger than k by the ``spare`` share, so that a cell outlives some cancellations. The
    costs tell of no single point: no border runs through equal points in two cells. Time O(n^2 / k) an iteration; more
    than 2,000 cells are made within macrocells first.

    Examples
    --------
    >>> chance = np.random.default_rng(0)
    >>> points = to_points(chance.uniform(-90, 90, 300), chance.uniform(-180, 180, 300))
    >>> clustering, cells = cluster(points, 50)
    >>> np.bincount(cells).tolist()
    [50, 50, 50, 50, 50, 50]
    """
    if len(points) < k:
        raise TooFewRecordsError(
            f"{len(points)} devices cannot make a cell of k = {k}. Lower k, or wait for more."
        )
    count = max(1, len(points) // int(k * (1.0 + spare)))
    sizes = np.full(count, len(points) // count) + (np.arange(count) < len(points) % count)
    if start is None:
        found = pcl(
            points,
            sizes=sizes,
            start="bisect",
            shakes=SHAKES if len(points) * count < FEW else 0,
            seed=seed,
            **_COLD,
        )
        if found.cells.chooser is not None:  # the rule must be one diagram: macrocells leave seams
            found = pcl(
                points,
                sizes=sizes,
                start=found.cells.centroids,
                costs=found.cells.costs,
                shakes=0,
                seed=seed,
                **_WARM,
            )
    else:
        sites, costs = _as_many(points, start, count)
        found = pcl(points, sizes=sizes, start=sites, costs=costs, shakes=0, seed=seed, **_WARM)
    cells = unpin(found.cells, points, found.labels)
    return _published(
        points, found.labels, k, cells.centroids.copy(), cells.costs.copy()
    ), found.labels


def _as_many(points: Floats, start: Clustering, count: int) -> tuple[Floats, Floats]:
    """So many sites with their costs: those of the start without the emptiest, or with some that take nothing yet.

    PCL sends sites that take nothing to where cells are largest.
    """
    sites, costs = start.sites, start.costs
    sizes = np.bincount(choose_cells(points, sites, costs), minlength=len(sites))
    kept = np.sort(np.argsort(-sizes, kind="stable")[:count])
    sites, costs = sites[kept], costs[kept]
    missing = count - len(sites)
    if missing == 0:
        return np.ascontiguousarray(sites), costs
    beyond = costs[0] + (2.0 * EARTH_RADIUS) ** 2
    return np.concatenate([sites, np.repeat(sites[:1], missing, axis=0)]), np.append(
        costs, np.full(missing, beyond)
    )


def merge(clustering: Clustering, cell: int, sizes: Integers) -> tuple[Clustering, Integers]:
    """The clustering with a cell joined to its nearest neighbour, and the new number of each old cell.

    The new place is the mean of the two that were published, weighted by the sizes the cells have now: what moved since
    has no say in it. Likewise the radius.
    """
    count = len(clustering)
    if count < 2:
        raise OptionError("A single cell has no neighbour to be merged with.")
    points = to_points(*clustering.places.T)
    distances = great_circle(points, np.broadcast_to(points[cell], points.shape))
    distances[cell] = np.inf
    other = int(np.argmin(distances))
    kept, gone = min(cell, other), max(cell, other)
    weights = np.maximum(sizes[[kept, gone]], 0).astype(np.float64)
    weights = weights if weights.sum() > 0 else np.ones(2)
    pair = points[[kept, gone]]
    mean = (weights @ pair)[np.newaxis]
    if np.linalg.norm(mean) < 1e-9 * EARTH_RADIUS * weights.sum():  # opposite places have no mean
        mean = pair[:1]
    squares = (
        clustering.radius[[kept, gone]] ** 2 + great_circle(pair, np.repeat(mean, 2, axis=0)) ** 2
    )
    places, radius = clustering.places.copy(), clustering.radius.copy()
    places[kept] = np.concatenate(to_degrees(mean))
    radius[kept] = np.sqrt(weights @ squares / weights.sum())
    renumbered = np.arange(count) - (np.arange(count) > gone)
    renumbered[gone] = kept
    return (
        Clustering(
            clustering.k,
            clustering.sites,
            clustering.costs,
            renumbered[clustering.cell_of],
            np.delete(places, gone, axis=0),
            np.delete(radius, gone),
        ),
        renumbered,
    )


@dataclass(frozen=True, eq=False)
class Merging:
    """What merging came to: the clustering, each old cell's new number, the new sizes and how often two became one."""

    clustering: Clustering
    renumbered: Integers
    sizes: Integers
    merges: int


def merge_small(clustering: Clustering, sizes: Integers, k: int) -> Merging:
    """The clustering with its smallest cell merged, and again, until every cell has k devices, or one cell is left.

    Examples
    --------
    >>> points = to_points(np.array([40.0, 40.1, 50.0, 50.1]), np.array([2.0, 2.0, 3.0, 3.0]))
    >>> merge_small(cluster(points, 2)[0], np.array([1, 2]), 2).sizes
    array([3])
    """
    out = Merging(clustering, np.arange(len(clustering)), sizes.copy(), 0)
    while len(out.clustering) > 1 and out.sizes.min() < k:
        joined, renumbered = merge(out.clustering, int(np.argmin(out.sizes)), out.sizes)
        counts = np.bincount(renumbered, weights=out.sizes).astype(np.int64)
        out = Merging(joined, renumbered[out.renumbered], counts, out.merges + 1)
    return out


def _published(
    points: Floats, labels: Integers, k: int, sites: Floats, costs: Floats
) -> Clustering:
    """The clustering of these labels: each cell's place is the mean of its points, seen from the Earth's centre."""
    count = len(sites)
    sizes = np.bincount(labels, minlength=count)
    means = np.stack(
        [np.bincount(labels, weights=column, minlength=count) / sizes for column in points.T],
        axis=1,
    )
    flat = np.linalg.norm(means, axis=1) < 1e-9 * EARTH_RADIUS
    means[flat] = (
        0.0,
        0.0,
        EARTH_RADIUS,
    )  # seen from the centre they are nowhere: a pole, which is nobody's place
    squares = great_circle(points, means[labels]) ** 2
    radius = np.sqrt(np.bincount(labels, weights=squares, minlength=count) / sizes)
    return Clustering(
        k, sites, costs, np.arange(count), np.stack(to_degrees(means), axis=1), radius
    )
