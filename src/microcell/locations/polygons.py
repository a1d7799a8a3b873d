"""Cell polygons for a map: the power diagram on the Earth as GeoJSON (RFC 7946)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from microcell.kernels.diagram import clip_diagram, hulls
from microcell.locations.clustering import (
    EARTH_RADIUS,
    Clustering,
    great_circle,
    to_degrees,
    to_points,
)
from microcell.model import Floats, Integers, Mask

__all__ = ["Facet", "cell_polygons", "clip", "make_facets"]

MAX_WINDOW = np.radians(60.0)
"""A map window that reaches farther from its middle is extended to the whole Earth."""

_CIRCLE_CORNERS = 16
"""Corners of the polygon that stands for a circle."""

_TILE_DEGREES = 4.0
"""Approximate tile size; a sixteenth of the window if that is larger."""

_MAX_TILE_LONGITUDE = 30.0
"""Largest span of longitude of a tile near a pole, in degrees."""

_EPSILON = 1e-9
"""Kilometres; smaller distances are rounding errors."""


@dataclass(frozen=True, eq=False)
class Facet:
    """A convex plane polygon.

    ``corners`` are counter-clockwise seen from outside; ``longitude`` is that of its middle.
    """

    corners: Floats
    longitude: float

    @property
    def sides(self) -> Floats:
        """Unit normals of the planes through the Earth's centre and each side, pointing inwards."""
        return _normals(self.corners)


def make_facets(points: Floats, reach: Floats) -> list[Facet]:
    """Return facets that cover the convex hull of discs around the points.

    A large hull is replaced by the whole Earth.

    Parameters
    ----------
    points : (s, 3)
        Directions from the Earth's centre. A point at the centre has none and requires the whole
        Earth.
    reach : (s,)
        Radius of each disc in kilometres.
    """
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    if lengths.min() < _EPSILON:
        return _tiles((-90.0, 90.0), [(-180.0, 180.0)])
    directions, angles = points / lengths, reach / EARTH_RADIUS
    middle = directions.mean(axis=0)
    length = np.linalg.norm(middle)
    middle = middle / length if length > _EPSILON else directions[0]
    away = np.arctan2(np.linalg.norm(np.cross(directions, middle), axis=1), directions @ middle)
    if (away + angles).max() > MAX_WINDOW:
        return _tiles((-90.0, 90.0), [(-180.0, 180.0)])
    hull = _hull(directions, angles, middle)
    sides = _normals(hull)
    cut = [(tile.longitude, clip(tile.corners, sides)) for tile in _tiles(*_bounds(hull, sides))]
    return [Facet(corners, longitude) for longitude, corners in cut if len(corners) > 2]


def clip(corners: Floats, sides: Floats) -> Floats:
    """Clip a convex polygon to the half-spaces of all sides (Sutherland and Hodgman, 1974).

    Examples
    --------
    >>> square = np.array([[-1.0, -1, 2], [1, -1, 2], [1, 1, 2], [-1, 1, 2]])
    >>> clip(square, np.array([[1.0, 0.0, 0.0]])).tolist()
    [[0.0, -1.0, 2.0], [1.0, -1.0, 2.0], [1.0, 1.0, 2.0], [0.0, 1.0, 2.0]]
    """
    for side in sides:
        heights = corners @ side
        if heights.min(initial=0.0) >= -_EPSILON:
            continue
        kept: list[Floats] = []
        for i in range(len(corners)):
            here, before = heights[i], heights[i - 1]
            if (here < -_EPSILON and before > _EPSILON) or (here > _EPSILON and before < -_EPSILON):
                kept.append(
                    corners[i - 1] + (corners[i] - corners[i - 1]) * (before / (before - here))
                )
            if here >= -_EPSILON:
                kept.append(corners[i])
        corners = np.array(kept) if len(kept) > 2 else np.empty((0, 3))
    return corners


def _normals(corners: Floats) -> Floats:
    across = np.cross(corners, np.roll(corners, -1, axis=0))
    out: Floats = across / np.linalg.norm(across, axis=1, keepdims=True)
    return out


def _hull(directions: Floats, angles: Floats, middle: Floats) -> Floats:
    """Return the corners of the convex hull of discs on the sphere, as unit vectors.

    In the gnomonic projection at ``middle``, great circles are straight lines.
    """
    east, north = _axes(directions)
    turns = 2.0 * np.pi * np.arange(_CIRCLE_CORNERS) / _CIRCLE_CORNERS
    # The polygon is circumscribed about the circle.
    tips = np.arctan(np.tan(angles) / np.cos(np.pi / _CIRCLE_CORNERS))[:, np.newaxis, np.newaxis]
    around = (
        np.cos(turns)[:, np.newaxis] * east[:, np.newaxis]
        + np.sin(turns)[:, np.newaxis] * north[:, np.newaxis]
    )
    rim = (np.cos(tips) * directions[:, np.newaxis] + np.sin(tips) * around).reshape(-1, 3)
    right, up = (axis[0] for axis in _axes(middle[np.newaxis]))
    flat = np.stack([rim @ right, rim @ up], axis=1) / (rim @ middle)[:, np.newaxis]
    hull = hulls(flat, np.zeros(len(flat), dtype=np.int64)).vertices
    corners = middle + hull[:, :1] * right + hull[:, 1:] * up
    out: Floats = corners / np.linalg.norm(corners, axis=1, keepdims=True)
    return out


def _axes(directions: Floats) -> tuple[Floats, Floats]:
    """Return two unit vectors that form a right-handed basis with each direction."""
    steep = np.abs(directions[:, 2:]) > 0.9
    first = np.cross(np.where(steep, [[1.0, 0.0, 0.0]], [[0.0, 0.0, 1.0]]), directions)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    return first, np.cross(directions, first)


def _bounds(hull: Floats, sides: Floats) -> tuple[tuple[float, float], list[tuple[float, float]]]:
    """Return the range of latitudes and one or two spans of longitudes that contain the hull."""
    ends = np.roll(hull, -1, axis=0)
    latitude, longitude = to_degrees(
        np.concatenate([hull + (ends - hull) * share for share in (0.0, 0.25, 0.5, 0.75)])
    )
    margin = 0.05 * np.ptp(latitude)
    south, north = bool((sides[:, 2] <= 0).all()), bool((sides[:, 2] >= 0).all())
    latitudes = (
        -90.0 if south else max(float(latitude.min() - margin), -90.0),
        90.0 if north else min(float(latitude.max() + margin), 90.0),
    )
    if south or north:
        return latitudes, [(-180.0, 180.0)]
    middle = float(to_degrees(hull.mean(axis=0)[np.newaxis])[1][0])
    aside = (longitude - middle + 180.0) % 360.0 - 180.0
    west, east = middle + 1.01 * float(aside.min()), middle + 1.01 * float(aside.max())
    if east - west >= 350.0:
        return latitudes, [(-180.0, 180.0)]
    if west < -180.0:
        return latitudes, [(west + 360.0, 180.0), (-180.0, east)]
    if east > 180.0:
        return latitudes, [(west, 180.0), (-180.0, east - 360.0)]
    return latitudes, [(west, east)]


def _tiles(latitudes: tuple[float, float], spans: list[tuple[float, float]]) -> list[Facet]:
    """Return tiles between parallels and meridians; tiles at a pole are triangles."""
    low, high = latitudes
    wide = float(np.cos(np.radians(0.0 if low < 0.0 < high else min(abs(low), abs(high)))))
    size = max(
        _TILE_DEGREES, max(high - low, sum(east - west for west, east in spans) * wide) / 16.0
    )
    meridians = [
        np.linspace(
            west,
            east,
            1 + int(np.ceil(max((east - west) * wide / size, (east - west) / _MAX_TILE_LONGITUDE))),
        )
        for west, east in spans
    ]
    # The side of a tile bulges from its parallel towards the pole, so the outermost tiles start
    # closer to the equator.
    bulge = np.cos(np.radians(max(np.diff(lines).max() for lines in meridians) / 2.0))
    low = _towards_equator(low, bulge) if low > 0.0 else low
    high = _towards_equator(high, bulge) if high < 0.0 else high
    parallels = np.linspace(low, high, 1 + int(np.ceil((high - low) / size)))
    return [
        _tile(parallels[row], parallels[row + 1], lines[column], lines[column + 1])
        for row in range(len(parallels) - 1)
        for lines in meridians
        for column in range(len(lines) - 1)
    ]


def _towards_equator(latitude: float, bulge: float) -> float:
    if abs(latitude) == 90.0:
        return latitude
    return float(np.degrees(np.arctan(np.tan(np.radians(latitude)) * bulge)))


def _tile(south: float, north: float, west: float, east: float) -> Facet:
    corners = to_points(np.array([south, south, north, north]), np.array([west, east, east, west]))
    for place, latitude in enumerate((south, south, north, north)):
        if abs(latitude) == 90.0:
            corners[place] = [0.0, 0.0, np.copysign(EARTH_RADIUS, latitude)]
    rows = [0, *((1,) if south > -90.0 else ()), 2, *((3,) if north < 90.0 else ())]
    return Facet(corners[rows], (west + east) / 2.0)


_REACH = 3.0
"""Radii around a cell that the map shows; at most 1/9 of its devices lie outside (Chebyshev)."""

_WIDE = 50.0
"""A cell is wide if its radius exceeds the median radius by this factor."""

_MAX_WIDE_SHARE = 0.1
"""Wide cells get a map of their own only if they are at most this share of all cells."""

_MIN_REACH = 0.05
"""Kilometres, for cells whose devices are all at one spot."""

_SAME = 1e-6
"""Kilometres; corners closer than a millimetre are identified."""

_MAX_DEVIATION = 1e-3
"""Largest deviation of a side from a straight line in degrees, relative to its length."""

_DECIMALS = 7
"""Decimals of degrees: a centimetre."""

_MIN_AREA = 1e-13
"""Square degrees, about ten square centimetres; smaller rings are dropped."""


class _Pieces(NamedTuple):
    """Convex polygons, one per site and facet, as consecutive corners (the first not repeated)."""

    corners: Floats
    """(V, 3) kilometres from the Earth's centre."""
    counts: Integers
    """(P,) number of corners of each piece."""
    owners: Integers
    """(P,) cell of each piece."""
    longitudes: Floats
    """(P,) longitude of the middle of each piece's facet."""


class _Corners(NamedTuple):
    """Corners of rings, with explicit degrees.

    A corner on the antimeridian may have either longitude, and a pole any longitude.
    """

    points: Floats
    longitude: Floats
    latitude: Floats
    rings: Integers
    """Ring of each corner, ascending."""


def cell_polygons(clustering: Clustering) -> list[dict[str, Any]]:
    """Return one GeoJSON geometry per cell: the region whose points are assigned to the cell.

    The map ends at the convex hull of discs of three radii around the cells, so that outer cells
    are bounded; cells all over the Earth have no such end. Borders are accurate to about a
    thousandth of a cell (half a hundredth if the map is the whole Earth). Geometries are split at
    the antimeridian and counter-clockwise. A cell with no region, because another lies at the same
    spot, is a MultiPolygon without polygons. A few cells that are much wider than the others, such
    as that of a device on another continent, are drawn on a coarser map of their own: they may
    overlap others, and borders of narrow cells with them are less accurate. Takes O(s^2) time for s
    sites, about a second for 10,000.

    Examples
    --------
    >>> from microcell.cells import PowerCells
    >>> sites = PowerCells(
    ...     centroids=[[6370.0, 0, 0], [6370.0, 10, 0]], sizes=[2, 2], k=2, costs=[0.0, 0]
    ... )
    >>> places = np.array([[0.0, 0.0], [0.0, 0.09]])
    >>> clustering = Clustering(sites, np.arange(2), places, np.full(2, 3.0))
    >>> [geometry["type"] for geometry in cell_polygons(clustering)]
    ['Polygon', 'Polygon']
    """
    wide = clustering.radius > _WIDE * np.median(clustering.radius)
    if not wide.any() or wide.mean() > _MAX_WIDE_SHARE:
        return _draw(clustering, np.ones(len(clustering), dtype=np.bool_))
    fine, coarse = _draw(clustering, ~wide), _draw(clustering, wide)
    return [coarse[cell] if wide[cell] else fine[cell] for cell in range(len(clustering))]


def _draw(clustering: Clustering, shown: Mask) -> list[dict[str, Any]]:
    """Draw all cells on a map with the extent and resolution that the shown cells need."""
    radius, visible = clustering.radius[clustering.cell_of], shown[clustering.cell_of]
    reach = np.maximum(_REACH * radius[visible], _MIN_REACH)
    facets = make_facets(clustering.sites.centroids[visible], reach)
    pieces = _join([_cut(facet, clustering) for facet in facets])
    owners, corners = _stitch(pieces, len(clustering))
    rings = _close_rings(_bend(corners), len(owners))
    rings_of: list[list[list[list[float]]]] = [[] for _ in range(len(clustering))]
    for owner, ring in zip(owners, rings, strict=True):
        rings_of[owner].append(ring)
    return [_make_geometry(rings) for rings in rings_of]


# -------------------------------------------------------------------------------- pieces of cells


def _cut(facet: Facet, clustering: Clustering) -> _Pieces:
    """Return the power diagram on a facet."""
    corners, sides = facet.corners, facet.sides
    centroids, site_costs = clustering.sites.centroids, clustering.sites.costs
    near = _contenders(corners, centroids, site_costs)
    origin = corners.mean(axis=0)
    spokes = corners - origin
    out = np.cross(spokes, np.roll(spokes, -1, axis=0)).sum(axis=0)
    out = out / np.linalg.norm(out)
    right = spokes[np.argmax(np.linalg.norm(spokes, axis=1))]
    right = right / np.linalg.norm(right)
    plane = np.stack([right, np.cross(out, right)])
    flat, sites = spokes @ plane.T, centroids[near] - origin
    low, high = flat.min(axis=0), flat.max(axis=0)
    margin = 1e-3 * (high - low).max()
    costs = site_costs[near] + (sites @ out) ** 2
    diagram = clip_diagram(
        sites @ plane.T, costs - costs.min(), np.concatenate([low - margin, high + margin])
    )
    visible = np.flatnonzero(np.diff(diagram.starts) > 2)
    points = origin + diagram.vertices @ plane
    outside = (points @ sides.T).min(axis=1, initial=np.inf) < 0.0
    polygons = []
    for place in visible:
        rows = slice(diagram.starts[place], diagram.starts[place + 1])
        polygons.append(clip(points[rows], sides) if outside[rows].any() else points[rows])
    kept = [i for i, polygon in enumerate(polygons) if len(polygon) > 2]
    return _Pieces(
        np.concatenate([np.empty((0, 3)), *(polygons[i] for i in kept)]),
        np.array([len(polygons[i]) for i in kept], dtype=np.int64),
        clustering.cell_of[near[visible[kept]]] if kept else np.empty(0, dtype=np.int64),
        np.full(len(kept), facet.longitude),
    )


def _contenders(corners: Floats, sites: Floats, costs: Floats) -> Integers:
    """Return the sites that may win somewhere on a facet.

    A site is excluded if another site, which wins at some corner, beats it at all corners. On a
    plane the difference of two sites is linear, so what holds at the corners holds everywhere.
    """
    probes = np.concatenate([corners, corners.mean(axis=0)[np.newaxis]])
    scores = probes @ sites.T - (np.einsum("ij,ij->i", sites, sites) + costs) / 2.0
    at_corners = scores[:-1]
    kept = np.ones(len(sites), dtype=np.bool_)
    for best in np.unique(scores.argmax(axis=1)):
        kept &= (at_corners >= at_corners[:, [best]] - 1e-6).any(axis=0)
    return np.flatnonzero(kept)


def _join(parts: list[_Pieces]) -> _Pieces:
    return _Pieces(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


# -------------------------------------------------------------------------------- joining pieces


def _stitch(pieces: _Pieces, cells: int) -> tuple[list[int], _Corners]:
    """Return the cell of each ring around the joined pieces, and the corners of the rings."""
    starts = np.concatenate([[0], np.cumsum(pieces.counts)])
    located = _locate(pieces)
    ids = _identify(located)
    first = np.unique(ids, return_index=True)[1]
    alone = np.bincount(pieces.owners, minlength=cells)[pieces.owners] == 1
    rings: list[tuple[int, list[int]]] = []
    many: dict[int, dict[tuple[int, int], None]] = {}
    for piece, owner in enumerate(pieces.owners.tolist()):
        around = ids[starts[piece] : starts[piece + 1]].tolist()
        sides = [(a, b) for a, b in zip(around, [*around[1:], around[0]], strict=True) if a != b]
        if alone[piece]:
            rings.append((owner, [a for a, _ in sides]))
            continue
        edges = many.setdefault(owner, {})
        for a, b in sides:
            if (b, a) in edges:  # shared by two pieces of one cell, so not a border
                del edges[b, a]
            else:
                edges[a, b] = None
    degrees = np.stack([located.longitude[first], located.latitude[first]], axis=1)
    for owner, edges in many.items():
        rings += [(owner, ring) for ring in _chain(edges, degrees)]
    rings = [(owner, ring) for owner, ring in rings if len(ring) > 2]
    corners = _split_poles([first[ring] for _, ring in rings], located)
    return [owner for owner, _ in rings], corners


def _locate(pieces: _Pieces) -> _Corners:
    """Return the corners in degrees; corners on the antimeridian are on their facet's side."""
    latitude, longitude = to_degrees(pieces.corners)
    middles = np.repeat(pieces.longitudes, pieces.counts)
    longitude = longitude + 360.0 * np.round((middles - longitude) / 360.0)
    longitude = np.where(np.abs(longitude) > 180.0 - 1e-9, np.copysign(180.0, longitude), longitude)
    poles = np.hypot(pieces.corners[:, 0], pieces.corners[:, 1]) < _SAME
    return _Corners(
        pieces.corners,
        np.where(poles, 0.0, longitude),
        np.where(poles, np.copysign(90.0, latitude), latitude),
        np.repeat(np.arange(len(pieces.counts)), pieces.counts),
    )


def _identify(corners: _Corners) -> Integers:
    """Number the corners from 0, with equal numbers for corners that are equal up to rounding.

    Groups values without gaps along each axis; rounding to a grid would separate some neighbours.
    """
    sides = np.where(np.abs(corners.longitude) == 180.0, np.sign(corners.longitude), 0.0)
    ids = np.zeros(len(sides), dtype=np.int64)
    for axis in (*corners.points.T, sides):
        order = np.lexsort((axis, ids))
        new = (np.diff(ids[order]) > 0) | (np.diff(axis[order]) > _SAME)
        ids[order] = np.concatenate([[0], np.cumsum(new)])
    return ids


def _chain(edges: dict[tuple[int, int], None], degrees: Floats) -> list[list[int]]:
    """Chain edges into rings; where rings touch, continue with the sharpest left turn."""
    onward: dict[int, list[int]] = {}
    for a, b in edges:
        onward.setdefault(a, []).append(b)
    rings = []
    for start, unused in onward.items():
        while unused:
            ring, here = [start], unused.pop()
            while here != start:
                ends = onward.get(here)
                if not ends:  # rounding removed a side, so this is not a ring
                    ring = []
                    break
                turn = (
                    0
                    if len(ends) == 1
                    else _sharpest(degrees[ring[-1]], degrees[here], degrees[ends])
                )
                ring.append(here)
                here = ends.pop(turn)
            rings.append(ring)
    return rings


def _sharpest(before: Floats, here: Floats, after: Floats) -> int:
    """Return the index of the first direction clockwise from the incoming one."""
    directions = np.concatenate([before[np.newaxis], after]) - here
    angles = np.arctan2(directions[:, 1], directions[:, 0])
    return int(np.argmin((angles[0] - angles[1:] - 1e-12) % (2.0 * np.pi)))


def _split_poles(rings: list[Integers], corners: _Corners) -> _Corners:
    """Return the corners of the rings, with each pole twice: on its two adjacent meridians."""
    if not rings:
        return _Corners(np.empty((0, 3)), np.empty(0), np.empty(0), np.empty(0, dtype=np.int64))
    sizes = np.array([len(ring) for ring in rings])
    numbers, rows = np.repeat(np.arange(len(rings)), sizes), np.concatenate(rings)
    ends = np.cumsum(sizes)
    before, after = np.arange(len(rows)) - 1, np.arange(len(rows)) + 1
    before[ends - sizes], after[ends - 1] = ends - 1, ends - sizes
    polar = np.abs(corners.latitude[rows]) == 90.0
    places = np.repeat(np.arange(len(rows)), np.where(polar, 2, 1))
    second = np.concatenate([[False], places[1:] == places[:-1]])
    meridians = rows[
        np.where(polar[places], np.where(second, after[places], before[places]), places)
    ]
    rows = rows[places]
    return _Corners(
        corners.points[rows], corners.longitude[meridians], corners.latitude[rows], numbers[places]
    )


# -------------------------------------------------------------------------------- rings in degrees


def _bend(corners: _Corners) -> _Corners:
    """Insert corners where a straight line in degrees deviates from the line on the Earth."""
    tolerance = np.zeros(0)
    for _ in range(12 if len(corners.rings) else 0):
        points, longitude, latitude, rings = corners
        last = np.concatenate([rings[1:] != rings[:-1], [True]])
        begins = np.flatnonzero(np.concatenate([[True], last[:-1]]))
        ahead = np.arange(1, len(rings) + 1)
        ahead[last] = begins
        middle = (points + points[ahead]) / 2.0
        latitudes, longitudes = to_degrees(middle)
        straight = (longitude + longitude[ahead]) / 2.0
        longitudes = longitudes + 360.0 * np.round((straight - longitudes) / 360.0)
        aside = (longitudes - straight) * np.cos(np.radians(latitudes))
        off = np.hypot(aside, latitudes - (latitude + latitude[ahead]) / 2.0) * np.radians(
            EARTH_RADIUS
        )
        polar = (np.abs(latitude) == 90.0) & (np.abs(latitude[ahead]) == 90.0)
        if len(tolerance) == 0:
            tolerance = np.maximum(_MAX_DEVIATION * great_circle(points, points[ahead]), 1e-5)
        more = np.flatnonzero(~polar & (off > tolerance))
        if len(more) == 0:
            break
        tolerance = np.insert(tolerance, more + 1, tolerance[more])
        corners = _Corners(
            np.insert(points, more + 1, middle[more], axis=0),
            np.insert(longitude, more + 1, np.clip(longitudes[more], -180.0, 180.0)),
            np.insert(latitude, more + 1, latitudes[more]),
            np.insert(rings, more + 1, rings[more]),
        )
    return corners


def _close_rings(corners: _Corners, count: int) -> list[list[list[float]]]:
    """Return closed rings of longitudes and latitudes, without corners equal after rounding."""
    degrees = np.stack([corners.longitude, corners.latitude], axis=1).round(_DECIMALS) + 0.0
    ends = np.searchsorted(corners.rings, np.arange(count), side="right")
    rings, begin = [], 0
    for end in ends.tolist():
        ring = degrees[begin:end]
        ring = ring[(ring != np.roll(ring, 1, axis=0)).any(axis=1)]
        rings.append([*ring.tolist(), *ring[:1].tolist()])
        begin = end
    return rings


def _make_geometry(rings: list[list[list[float]]]) -> dict[str, Any]:
    """Return a Polygon, or a MultiPolygon for several or none; clockwise rings are holes."""
    areas = [_signed_area(ring) for ring in rings]
    order = sorted(range(len(rings)), key=lambda i: abs(areas[i]))
    polygons = {i: [rings[i]] for i in order if areas[i] > _MIN_AREA}
    for i in order:
        if areas[i] < -_MIN_AREA:
            home = next(
                (j for j in polygons if areas[j] > -areas[i] and _contains(rings[j], rings[i])),
                None,
            )
            if home is not None:
                polygons[home].append(rings[i])
    coordinates = [polygons[i] for i in sorted(polygons)]
    if len(coordinates) == 1:
        return {"type": "Polygon", "coordinates": coordinates[0]}
    return {"type": "MultiPolygon", "coordinates": coordinates}


def _signed_area(ring: list[list[float]]) -> float:
    if len(ring) < 4:
        return 0.0
    x, y = (np.array(ring) - ring[0]).T
    return float(x[:-1] @ y[1:] - x[1:] @ y[:-1]) / 2.0


def _contains(ring: list[list[float]], hole: list[list[float]]) -> bool:
    """Return True if most corners of the hole lie inside the ring; some may be on its border."""
    x, y = np.array(ring).T
    inside = 0
    for east, north in hole[:-1]:
        crosses = (y[:-1] > north) != (y[1:] > north)
        at = x[:-1][crosses] + (north - y[:-1][crosses]) * (
            np.diff(x)[crosses] / np.diff(y)[crosses]
        )
        inside += int((at > east).sum() % 2)
    return 2 * inside > len(hole) - 1
