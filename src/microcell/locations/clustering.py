"""Clustering of devices on the Earth: power cells from PCL, their published places, and merging."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from microcell._display import count as counted
from microcell._display import record_html
from microcell.cells import PowerCells
from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.kernels.arrays import unit_vectors
from microcell.methods import pcl
from microcell.methods.blurring import unpin
from microcell.methods.pcl_options import equal_sizes
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
"""Mean radius of the Earth in kilometres."""

_SHAKES = 20
_SHAKE_LIMIT = 2_000_000
"""Sites are perturbed only if the number of points times cells is below this limit."""

# The last Lloyd iterations gain little and take as long as the first ones.
_COLD_START: dict[str, Any] = {"iterations": 25, "tolerance": 5e-4}
_WARM_START: dict[str, Any] = {"iterations": 2, "tolerance": 2e-3}


def to_points(latitude: Floats, longitude: Floats) -> Floats:
    """Convert degrees to points in kilometres from the Earth's centre, one row each.

    The squared distance of two points differs from the squared great-circle distance by 1/12 of the
    squared angle: 2 parts in 100,000 for places 100 km apart.

    Examples
    --------
    >>> to_points(np.array([90.0]), np.array([0.0])).round(3) + 0.0
    array([[   0.   ,    0.   , 6371.009]])
    """
    return unit_vectors(latitude, longitude) * EARTH_RADIUS


def to_degrees(points: Floats) -> tuple[Floats, Floats]:
    """Return latitudes and longitudes of points, projected from the Earth's centre.

    Examples
    --------
    >>> latitude, longitude = to_degrees(np.array([[0.0, 3000.0, 3000.0]]))
    >>> latitude.round(6), longitude.round(6)
    (array([45.]), array([90.]))
    """
    x, y, z = points.T
    return np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))


def great_circle(points: Floats, others: Floats) -> Floats:
    """Return great-circle distances in kilometres, row by row; accurate for tiny distances too.

    Examples
    --------
    >>> pole, equator = to_points(np.array([90.0, 0.0]), np.array([0.0, 0.0]))
    >>> great_circle(pole[np.newaxis], equator[np.newaxis]).round(2)
    array([10007.56])
    """
    a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (points, others))
    angles = 2.0 * np.arctan2(np.linalg.norm(a - b, axis=1), np.linalg.norm(a + b, axis=1))
    return np.asarray(EARTH_RADIUS * angles)


@dataclass(frozen=True, eq=False, repr=False)
class Clustering:
    """Cells of devices as a power diagram, with the published place and radius of each.

    ``sites`` are power cells in kilometres from the Earth's centre. A point belongs to the cell
    ``cell_of[site]`` of the site it is assigned to; a cell that results from a merge has several
    sites. Nothing in a clustering describes a single device.

    Examples
    --------
    >>> points = to_points(np.array([40.0, 40.1, 50.0, 50.1]), np.array([2.0, 2.0, 3.0, 3.0]))
    >>> clustering, cells = cluster(points, 2)
    >>> bool((clustering.assign(points) == cells).all())
    True
    >>> sorted(clustering.places.round(2).tolist())
    [[40.05, 2.0], [50.05, 3.0]]
    """

    sites: PowerCells
    cell_of: Integers
    places: Floats
    """Latitude and longitude of each cell, in degrees."""
    radius: Floats
    """Root mean square distance of each cell's devices from its place at the rebuild, in km."""

    def __post_init__(self) -> None:
        cells = len(self.places)
        if self.sites.dimensions != 3 or self.cell_of.shape != (len(self.sites),):
            raise DataError(
                "A clustering needs three coordinates and a cell for each site.",
                code="data.invalid",
                entry="sites",
            )
        if self.places.shape != (cells, 2) or self.radius.shape != (cells,):
            raise DataError(
                "A clustering needs a place and a radius for each cell.",
                code="data.invalid",
                entry="radii",
            )
        if not np.array_equal(np.unique(self.cell_of), np.arange(cells)):
            raise DataError(
                "Cells must be numbered from 0, and each must have a site.",
                code="data.invalid",
                entry="cells",
            )

    def __len__(self) -> int:
        return len(self.places)

    def __repr__(self) -> str:
        return f"Clustering(cells={len(self)}, sites={len(self.sites)})"

    _repr_html_ = record_html

    def assign(self, points: Floats) -> Integers:
        """Return the cell of each point, in O(n s) time for s sites."""
        return self.cell_of[self.sites.assign(points)]

    def part(self, sites: Integers) -> tuple["Clustering", Integers]:
        """Return the clustering of some sites, and the numbers that its cells had before."""
        cells, cell_of = np.unique(self.cell_of[sites], return_inverse=True)
        diagram = PowerCells(
            centroids=self.sites.centroids[sites],
            sizes=self.sites.sizes[sites],
            k=self.sites.k,
            costs=self.sites.costs[sites],
        )
        return Clustering(diagram, cell_of, self.places[cells], self.radius[cells]), cells


def cluster(
    points: Floats, k: int, *, start: Clustering | None = None, spare: float = 0.0, seed: int = 0
) -> tuple[Clustering, Integers]:
    """Partition points into cells of at least k with low distortion.

    Uses probability-constrained Lloyd, starting from recursive bisection or from the sites of
    ``start``. Cell sizes are as equal as possible and exceed k by the share ``spare``, so that a
    cell survives some cancellations. The costs do not depend on any single point: no border passes
    through equal points of two cells. One iteration takes O(n^2 / k) time; more than 2,000 cells
    are built within macrocells first.

    Returns
    -------
    tuple of Clustering and labels
        The clustering, and the cell of each point.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> points = to_points(rng.uniform(-90, 90, 300), rng.uniform(-180, 180, 300))
    >>> clustering, cells = cluster(points, 50)
    >>> np.bincount(cells).tolist()
    [50, 50, 50, 50, 50, 50]
    """
    if len(points) < k:
        raise TooFewRecordsError(
            f"{counted(len(points), 'device')} cannot form a cell of k = {k}. Lower k or wait for "
            "more devices.",
            code="guarantee.too_few_records",
            records=len(points),
            k=k,
        )
    # Rounded up, since even the smallest spare should leave room for one device.
    count = max(1, len(points) // math.ceil(k * (1.0 + spare) - 1e-9))
    sizes = equal_sizes(len(points), count)
    if start is None:
        result = pcl(
            points,
            sizes=sizes,
            start="bisect",
            shakes=_SHAKES if len(points) * count < _SHAKE_LIMIT else 0,
            seed=seed,
            **_COLD_START,
        )
        if result.cells.chooser is None:
            return _publish(points, result.labels, unpin(result.cells, points, result.labels))
        # Macrocells leave seams; the assignment rule must be a single diagram.
        centroids, costs = result.cells.centroids, result.cells.costs
    else:
        centroids, costs = _resize(points, start.sites, count)
    result = pcl(
        points, sizes=sizes, start=centroids, costs=costs, shakes=0, seed=seed, **_WARM_START
    )
    return _publish(points, result.labels, unpin(result.cells, points, result.labels))


def _resize(points: Floats, sites: PowerCells, count: int) -> tuple[Floats, Floats]:
    """Return ``count`` sites and costs: drop the emptiest sites, or add sites without points.

    PCL moves empty sites to where cells are largest.
    """
    sizes = np.bincount(sites.assign(points), minlength=len(sites))
    kept = np.sort(np.argsort(-sizes, kind="stable")[:count])
    centroids, costs = sites.centroids[kept], sites.costs[kept]
    missing = count - len(kept)
    if missing == 0:
        return np.ascontiguousarray(centroids), costs
    out_of_reach = costs[0] + (2.0 * EARTH_RADIUS) ** 2
    return (
        np.concatenate([centroids, np.repeat(centroids[:1], missing, axis=0)]),
        np.append(costs, np.full(missing, out_of_reach)),
    )


def _publish(points: Floats, labels: Integers, sites: PowerCells) -> tuple[Clustering, Integers]:
    """Return the clustering and the labels; a cell's place is the mean direction of its points."""
    count = len(sites)
    sizes = np.bincount(labels, minlength=count)
    means = np.stack(
        [np.bincount(labels, weights=column, minlength=count) / sizes for column in points.T],
        axis=1,
    )
    # Points spread evenly around the globe have no mean direction; use the pole, where nobody is.
    means[np.linalg.norm(means, axis=1) < 1e-9 * EARTH_RADIUS] = (0.0, 0.0, EARTH_RADIUS)
    squares = great_circle(points, means[labels]) ** 2
    radius = np.sqrt(np.bincount(labels, weights=squares, minlength=count) / sizes)
    places = np.stack(to_degrees(means), axis=1)
    return Clustering(sites, np.arange(count), places, radius), labels


def merge(clustering: Clustering, cell: int, sizes: Integers) -> tuple[Clustering, Integers]:
    """Merge a cell with its nearest neighbour.

    The new place and radius are derived from the two published ones, weighted by the current cell
    sizes, so that devices that moved since do not influence them.

    Returns
    -------
    tuple of Clustering and integers
        The new clustering, and the new number of each old cell.
    """
    other = _find_neighbour(clustering, cell, math.inf)
    if other is None:
        raise OptionError(
            "A single cell has no neighbour to merge with. At least two cells are needed.",
            code="option.invalid",
            option="clustering",
        )
    return _join(clustering, cell, other, sizes)


def _find_neighbour(clustering: Clustering, cell: int, reach: float) -> int | None:
    """Return the cell with the nearest place, with all sites of both cells within reach."""
    points = to_points(*clustering.places.T)
    distances = great_circle(points, np.broadcast_to(points[cell], points.shape))
    distances[cell] = np.inf
    if math.isfinite(reach):
        distances[_farthest(clustering, cell) > reach] = np.inf
    other = int(np.argmin(distances))
    return other if math.isfinite(distances[other]) else None


def _farthest(clustering: Clustering, cell: int) -> Floats:
    """Return the largest distance between a site of each cell and one of this cell."""
    sites = clustering.sites.centroids
    result: Floats = np.zeros(len(clustering))
    for site in sites[clustering.cell_of == cell]:
        distances = great_circle(sites, np.broadcast_to(site, sites.shape))
        np.maximum.at(result, clustering.cell_of, distances)
    return result


def _join(
    clustering: Clustering, cell: int, other: int, sizes: Integers
) -> tuple[Clustering, Integers]:
    count = len(clustering)
    points = to_points(*clustering.places.T)
    kept, gone = min(cell, other), max(cell, other)
    weights = np.maximum(sizes[[kept, gone]], 0).astype(np.float64)
    weights = weights if weights.sum() > 0 else np.ones(2)
    pair = points[[kept, gone]]
    mean = (weights @ pair)[np.newaxis]
    if np.linalg.norm(mean) < 1e-9 * EARTH_RADIUS * weights.sum():  # antipodes have no mean
        mean = pair[:1]
    squares = (
        clustering.radius[[kept, gone]] ** 2 + great_circle(pair, np.repeat(mean, 2, axis=0)) ** 2
    )
    places, radius = clustering.places.copy(), clustering.radius.copy()
    places[kept] = np.concatenate(to_degrees(mean))
    radius[kept] = np.sqrt(weights @ squares / weights.sum())
    renumbered = np.arange(count) - (np.arange(count) > gone)
    renumbered[gone] = kept
    merged = Clustering(
        clustering.sites,
        renumbered[clustering.cell_of],
        np.delete(places, gone, axis=0),
        np.delete(radius, gone),
    )
    return merged, renumbered


@dataclass(frozen=True, eq=False)
class Merging:
    """Result of merging small cells.

    ``renumbered`` holds the new number of each old cell, ``sizes`` the new cell sizes, ``merges``
    the number of merges.
    """

    clustering: Clustering
    renumbered: Integers
    sizes: Integers
    merges: int


def merge_small(
    clustering: Clustering,
    sizes: Integers,
    k: int,
    *,
    weights: Integers | None = None,
    reach: float = math.inf,
) -> Merging:
    """Merge the smallest cells until all have k devices or have no neighbour within reach.

    A merged cell extends no farther than ``reach`` kilometres, from site to site: otherwise
    repeated merges would move a place without bound. ``weights`` are used to average places, by
    default the sizes. The service uses published sizes, so that the place of a merged cell reveals
    nothing new.

    Examples
    --------
    >>> points = to_points(np.array([40.0, 40.1, 50.0, 50.1]), np.array([2.0, 2.0, 3.0, 3.0]))
    >>> merge_small(cluster(points, 2)[0], np.array([1, 2]), 2).sizes
    array([3])
    """
    result = Merging(clustering, np.arange(len(clustering)), sizes.copy(), 0)
    shares = sizes if weights is None else weights
    while (pair := _next_pair(result, k, reach)) is not None:
        merged, renumbered = _join(result.clustering, *pair, shares)
        counts = np.bincount(renumbered, weights=result.sizes).astype(np.int64)
        shares = np.bincount(renumbered, weights=shares).astype(np.int64)
        result = Merging(merged, renumbered[result.renumbered], counts, result.merges + 1)
    return result


def _next_pair(merging: Merging, k: int, reach: float) -> tuple[int, int] | None:
    """Return the smallest cell below k that has a neighbour within reach, and the neighbour."""
    order = np.argsort(merging.sizes, kind="stable")
    for cell in order[merging.sizes[order] < k].tolist():
        other = _find_neighbour(merging.clustering, cell, reach)
        if other is not None:
            return cell, other
    return None
