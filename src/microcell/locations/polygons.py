"""Cells as polygons for a map: the power diagram on the Earth, in GeoJSON (RFC 7946)."""

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

__all__ = ["Facet", "clip", "geometries", "make_facets"]

WIDEST = np.radians(60.0)
"""A window that reaches farther from its middle is the whole Earth."""

_ROUND = 16
"""Corners of what stands for a circle."""

_TILE = 4.0
"""Degrees: tiles are about as large, or a sixteenth of the window where that is more."""

_STEP = 30.0
"""Degrees of longitude: near a pole a tile spans no more."""

_TOUCH = 1e-9
"""Kilometres: what lies outside by less is rounding."""


@dataclass(frozen=True, eq=False)
class Facet:
    """A convex plane polygon: its corners, counter-clockwise seen from outside, and the longitude of its middle."""

    corners: Floats
    longitude: float

    @property
    def sides(self) -> Floats:
        """A unit vector a side: of points above the facet, seen from the Earth's centre, it has no negative product."""
        return _normals(self.corners)


def make_facets(points: Floats, reach: Floats) -> list[Facet]:
    """Facets that cover the convex hull of discs about the points, or the whole Earth where that is large.

    Parameters
    ----------
    points : (s, 3)
        Seen from the Earth's centre; one at the centre is nowhere, and takes the whole Earth.
    reach : (s,)
        The radius of each disc, in kilometres.
    """
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    if lengths.min() < _TOUCH:
        return _tiles((-90.0, 90.0), [(-180.0, 180.0)])
    directions, angles = points / lengths, reach / EARTH_RADIUS
    middle = directions.mean(axis=0)
    length = np.linalg.norm(middle)
    middle = middle / length if length > _TOUCH else directions[0]
    away = np.arctan2(np.linalg.norm(np.cross(directions, middle), axis=1), directions @ middle)
    if (away + angles).max() > WIDEST:
        return _tiles((-90.0, 90.0), [(-180.0, 180.0)])
    hull = _hull(directions, angles, middle)
    sides = _normals(hull)
    cut = [(tile.longitude, clip(tile.corners, sides)) for tile in _tiles(*_bounds(hull, sides))]
    return [Facet(corners, longitude) for longitude, corners in cut if len(corners) > 2]


def clip(corners: Floats, sides: Floats) -> Floats:
    """What is left of a convex polygon where the products with all sides are not negative (Sutherland, Hodgman 1974).

    Examples
    --------
    >>> square = np.array([[-1.0, -1.0, 2.0], [1.0, -1.0, 2.0], [1.0, 1.0, 2.0], [-1.0, 1.0, 2.0]])
    >>> clip(square, np.array([[1.0, 0.0, 0.0]])).tolist()
    [[0.0, -1.0, 2.0], [1.0, -1.0, 2.0], [1.0, 1.0, 2.0], [0.0, 1.0, 2.0]]
    """
    for side in sides:
        heights = corners @ side
        if heights.min(initial=0.0) >= -_TOUCH:
            continue
        kept: list[Floats] = []
        for i in range(len(corners)):
            here, before = heights[i], heights[i - 1]
            if (here < -_TOUCH and before > _TOUCH) or (here > _TOUCH and before < -_TOUCH):
                kept.append(
                    corners[i - 1] + (corners[i] - corners[i - 1]) * (before / (before - here))
                )
            if here >= -_TOUCH:
                kept.append(corners[i])
        corners = np.array(kept) if len(kept) > 2 else np.empty((0, 3))
    return corners


def _normals(corners: Floats) -> Floats:
    across = np.cross(corners, np.roll(corners, -1, axis=0))
    out: Floats = across / np.linalg.norm(across, axis=1, keepdims=True)
    return out


def _hull(directions: Floats, angles: Floats, middle: Floats) -> Floats:
    """The convex hull of the discs on the sphere: its corners, as unit vectors.

    Seen from the Earth's centre on the plane that touches it at ``middle``, arcs of great circles are straight.
    """
    east, north = _axes(directions)
    turns = 2.0 * np.pi * np.arange(_ROUND) / _ROUND
    tips = np.arctan(np.tan(angles) / np.cos(np.pi / _ROUND))[
        :, np.newaxis, np.newaxis
    ]  # around the circle
    around = (
        np.cos(turns)[:, np.newaxis] * east[:, np.newaxis]
        + np.sin(turns)[:, np.newaxis] * north[:, np.newaxis]
    )
    rim = (np.cos(tips) * directions[:, np.newaxis] + np.sin(tips) * around).reshape(-1, 3)
    right, up = (axis[0] for axis in _axes(middle[np.newaxis]))
    flat = np.stack([rim @ right, rim @ up], axis=1) / (rim @ middle)[:, np.newaxis]
    found = hulls(flat, np.zeros(len(flat), dtype=np.int64)).vertices
    corners = middle + found[:, :1] * right + found[:, 1:] * up
    out: Floats = corners / np.linalg.norm(corners, axis=1, keepdims=True)
    return out


def _axes(directions: Floats) -> tuple[Floats, Floats]:
    """Two unit vectors across each direction, such that the three turn to the right."""
    steep = np.abs(directions[:, 2:]) > 0.9
    first = np.cross(np.where(steep, [[1.0, 0.0, 0.0]], [[0.0, 0.0, 1.0]]), directions)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    return first, np.cross(directions, first)


def _bounds(hull: Floats, sides: Floats) -> tuple[tuple[float, float], list[tuple[float, float]]]:
    """Latitudes, and one or two spans of longitudes, that hold the hull."""
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
    """Tiles between parallels and meridians; those at a pole are triangles."""
    low, high = latitudes
    wide = float(np.cos(np.radians(0.0 if low < 0.0 < high else min(abs(low), abs(high)))))
    size = max(_TILE, max(high - low, sum(east - west for west, east in spans) * wide) / 16.0)
    meridians = [
        np.linspace(
            west, east, 1 + int(np.ceil(max((east - west) * wide / size, (east - west) / _STEP)))
        )
        for west, east in spans
    ]
    # The side of a tile bulges from the parallel to the pole: the last ones begin so much nearer to the equator.
    bulge = np.cos(np.radians(max(np.diff(some).max() for some in meridians) / 2.0))
    low = _nearer(low, bulge) if low > 0.0 else low
    high = _nearer(high, bulge) if high < 0.0 else high
    parallels = np.linspace(low, high, 1 + int(np.ceil((high - low) / size)))
    return [
        _tile(parallels[row], parallels[row + 1], some[column], some[column + 1])
        for row in range(len(parallels) - 1)
        for some in meridians
        for column in range(len(some) - 1)
    ]


def _nearer(latitude: float, bulge: float) -> float:
    return (
        latitude
        if abs(latitude) == 90.0
        else float(np.degrees(np.arctan(np.tan(np.radians(latitude)) * bulge)))
    )


def _tile(south: float, north: float, west: float, east: float) -> Facet:
    corners = to_points(np.array([south, south, north, north]), np.array([west, east, east, west]))
    for place, latitude in enumerate((south, south, north, north)):
        if abs(latitude) == 90.0:
            corners[place] = [0.0, 0.0, np.copysign(EARTH_RADIUS, latitude)]
    rows = [0, *((1,) if south > -90.0 else ()), 2, *((3,) if north < 90.0 else ())]
    return Facet(corners[rows], (west + east) / 2.0)


_REACH = 3.0
"""Radii about a cell that the map shows: at most a ninth of its devices lie farther (Chebyshev)."""

_WIDE, _FEW = 50.0, 0.1
"""A cell so many times as wide as most is wide, if no more than this share of cells are."""

_LEAST_REACH = 0.05
"""Kilometres, for cells whose devices are all at one spot."""

_SAME = 1e-6
"""Kilometres: corners nearer than a millimetre are one."""

_STRAIGHT = 1e-3
"""Of its length: so far a side may lie from the straight line in degrees, or it gets more corners."""

_DECIMALS = 7
"""Of degrees: a centimetre."""

_SPECK = 1e-13
"""Square degrees, about ten square centimetres: smaller rings are left out."""


class _Pieces(NamedTuple):
    """Convex polygons, one for each site and facet: corners one after another, the first not repeated."""

    corners: Floats
    """(V, 3) kilometres from the Earth's centre."""
    counts: Integers
    """(P,): the corners of each piece."""
    owners: Integers
    """(P,): its cell."""
    longitudes: Floats
    """(P,): the middle of its facet."""


class _Corners(NamedTuple):
    """Corners of rings, in degrees as well, since those on the antimeridian have two longitudes and poles have any."""

    points: Floats
    longitude: Floats
    latitude: Floats
    rings: Integers
    """The ring of each, in order."""


def geometries(clustering: Clustering) -> list[dict[str, Any]]:
    """One GeoJSON geometry a cell, in the order of the cells: the places that the cell's rule takes.

    The map ends at the convex hull of discs of three radii about the cells, so that outer cells have an end; cells all
    over the Earth have none. Borders are true to about a thousandth of a cell (half a hundredth where the map is the
    whole Earth). Geometries are split at the antimeridian and counter-clockwise. A cell that takes no place, because
    another lies at the same spot, is a MultiPolygon without polygons. Few cells that are far wider than others, as that
    of a device on another continent, are drawn on a coarser map of their own: they may lie over others, and borders of
    narrow cells with them are less true. Time O(s^2) for s sites, a second for 10,000.

    Examples
    --------
    >>> sites = np.array([[6370.0, 0.0, 0.0], [6370.0, 10.0, 0.0]])
    >>> two = Clustering(2, sites, np.zeros(2), np.arange(2), np.array([[0.0, 0.0], [0.0, 0.09]]), np.full(2, 3.0))
    >>> [geometry["type"] for geometry in geometries(two)]
    ['Polygon', 'Polygon']
    """
    wide = clustering.radius > _WIDE * np.median(clustering.radius)
    if not wide.any() or wide.mean() > _FEW:
        return _draw(clustering, np.ones(len(clustering), dtype=np.bool_))
    fine, coarse = _draw(clustering, ~wide), _draw(clustering, wide)
    return [coarse[cell] if wide[cell] else fine[cell] for cell in range(len(clustering))]


def _draw(clustering: Clustering, shown: Mask) -> list[dict[str, Any]]:
    """All cells on a map that is as large as those shown ask for, and as fine."""
    radius, there = clustering.radius[clustering.cell_of], shown[clustering.cell_of]
    facets = make_facets(clustering.sites[there], np.maximum(_REACH * radius[there], _LEAST_REACH))
    pieces = _join([_cut(facet, clustering) for facet in facets])
    owners, corners = _stitch(pieces, len(clustering))
    rings = _as_rings(_bend(corners), len(owners))
    found: list[list[list[list[float]]]] = [[] for _ in range(len(clustering))]
    for owner, ring in zip(owners, rings, strict=True):
        found[owner].append(ring)
    return [_as_geometry(rings) for rings in found]


# ------------------------------------------------------------------------------------------------ pieces of cells


def _cut(facet: Facet, clustering: Clustering) -> _Pieces:
    """The power diagram on a facet."""
    corners, sides = facet.corners, facet.sides
    near = _contenders(corners, clustering.sites, clustering.costs)
    origin = corners.mean(axis=0)
    spokes = corners - origin
    out = np.cross(spokes, np.roll(spokes, -1, axis=0)).sum(axis=0)
    out = out / np.linalg.norm(out)
    right = spokes[np.argmax(np.linalg.norm(spokes, axis=1))]
    right = right / np.linalg.norm(right)
    plane = np.stack([right, np.cross(out, right)])
    flat, sites = spokes @ plane.T, clustering.sites[near] - origin
    low, high = flat.min(axis=0), flat.max(axis=0)
    margin = 1e-3 * (high - low).max()
    costs = clustering.costs[near] + (sites @ out) ** 2
    found = clip_diagram(
        sites @ plane.T, costs - costs.min(), np.concatenate([low - margin, high + margin])
    )
    there = np.flatnonzero(np.diff(found.starts) > 2)
    points = origin + found.vertices @ plane
    outside = (points @ sides.T).min(axis=1, initial=np.inf) < 0.0
    polygons = []
    for place in there:
        rows = slice(found.starts[place], found.starts[place + 1])
        polygons.append(clip(points[rows], sides) if outside[rows].any() else points[rows])
    kept = [i for i, polygon in enumerate(polygons) if len(polygon) > 2]
    return _Pieces(
        np.concatenate([np.empty((0, 3)), *(polygons[i] for i in kept)]),
        np.array([len(polygons[i]) for i in kept], dtype=np.int64),
        clustering.cell_of[near[there[kept]]] if kept else np.empty(0, dtype=np.int64),
        np.full(len(kept), facet.longitude),
    )


def _contenders(corners: Floats, sites: Floats, costs: Floats) -> Integers:
    """The sites that may be the best somewhere on a facet: those that no site, best at a corner, beats at all corners.

    On a plane the difference of two sites is linear, so that what holds at the corners holds between them.
    """
    some = np.concatenate([corners, corners.mean(axis=0)[np.newaxis]])
    scores = some @ sites.T - (np.einsum("ij,ij->i", sites, sites) + costs) / 2.0
    at_corners = scores[:-1]
    kept = np.ones(len(sites), dtype=np.bool_)
    for best in np.unique(scores.argmax(axis=1)):
        kept &= (at_corners >= at_corners[:, [best]] - 1e-6).any(axis=0)
    return np.flatnonzero(kept)


def _join(parts: list[_Pieces]) -> _Pieces:
    return _Pieces(*(np.concatenate(some) for some in zip(*parts, strict=True)))


# ------------------------------------------------------------------------------------------- pieces put together


def _stitch(pieces: _Pieces, cells: int) -> tuple[list[int], _Corners]:
    """The rings around each cell's pieces: their cells, and their corners."""
    starts = np.concatenate([[0], np.cumsum(pieces.counts)])
    known = _place(pieces)
    ids = _number(known)
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
            if (b, a) in edges:  # the side of two pieces of one cell is no border
                del edges[b, a]
            else:
                edges[a, b] = None
    degrees = np.stack([known.longitude[first], known.latitude[first]], axis=1)
    for owner, edges in many.items():
        rings += [(owner, ring) for ring in _chain(edges, degrees)]
    rings = [(owner, ring) for owner, ring in rings if len(ring) > 2]
    return [owner for owner, _ in rings], _around_poles([first[ring] for _, ring in rings], known)


def _place(pieces: _Pieces) -> _Corners:
    """The corners in degrees; on the antimeridian, with the longitude on the side of their facet."""
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


def _number(corners: _Corners) -> Integers:
    """A number for each corner, the same where they are the same but for rounding, from 0.

    Axis by axis, what follows without a gap is one group: rounding to a grid would part some that are nearly equal.
    """
    sides = np.where(np.abs(corners.longitude) == 180.0, np.sign(corners.longitude), 0.0)
    ids = np.zeros(len(sides), dtype=np.int64)
    for axis in (*corners.points.T, sides):
        order = np.lexsort((axis, ids))
        new = (np.diff(ids[order]) > 0) | (np.diff(axis[order]) > _SAME)
        ids[order] = np.concatenate([[0], np.cumsum(new)])
    return ids


def _chain(edges: dict[tuple[int, int], None], degrees: Floats) -> list[list[int]]:
    """Rings of the edges, each used once; where rings touch, the next edge is that of the sharpest left turn."""
    onward: dict[int, list[int]] = {}
    for a, b in edges:
        onward.setdefault(a, []).append(b)
    rings = []
    for start, left in onward.items():
        while left:
            ring, here = [start], left.pop()
            while here != start:
                ends = onward.get(here)
                if not ends:  # rounding took a side away: what is left is no ring
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
    """The place of the first direction met when one turns clockwise from the way one came."""
    ways = np.concatenate([before[np.newaxis], after]) - here
    angles = np.arctan2(ways[:, 1], ways[:, 0])
    return int(np.argmin((angles[0] - angles[1:] - 1e-12) % (2.0 * np.pi)))


def _around_poles(rings: list[Integers], known: _Corners) -> _Corners:
    """The corners of the rings; a pole is twice in its ring, on the meridians by which the ring comes and goes."""
    if not rings:
        return _Corners(np.empty((0, 3)), np.empty(0), np.empty(0), np.empty(0, dtype=np.int64))
    sizes = np.array([len(ring) for ring in rings])
    numbers, rows = np.repeat(np.arange(len(rings)), sizes), np.concatenate(rings)
    ends = np.cumsum(sizes)
    before, after = np.arange(len(rows)) - 1, np.arange(len(rows)) + 1
    before[ends - sizes], after[ends - 1] = ends - 1, ends - sizes
    polar = np.abs(known.latitude[rows]) == 90.0
    places = np.repeat(np.arange(len(rows)), np.where(polar, 2, 1))
    second = np.concatenate([[False], places[1:] == places[:-1]])
    meridians = rows[
        np.where(polar[places], np.where(second, after[places], before[places]), places)
    ]
    rows = rows[places]
    return _Corners(
        known.points[rows], known.longitude[meridians], known.latitude[rows], numbers[places]
    )


# ------------------------------------------------------------------------------------------------ rings in degrees


def _bend(corners: _Corners) -> _Corners:
    """The rings with corners put between those whose straight line in degrees is not the line on the Earth."""
    slack = np.zeros(0)
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
        if len(slack) == 0:
            slack = np.maximum(_STRAIGHT * great_circle(points, points[ahead]), 1e-5)
        more = np.flatnonzero(~polar & (off > slack))
        if len(more) == 0:
            break
        slack = np.insert(slack, more + 1, slack[more])
        corners = _Corners(
            np.insert(points, more + 1, middle[more], axis=0),
            np.insert(longitude, more + 1, np.clip(longitudes[more], -180.0, 180.0)),
            np.insert(latitude, more + 1, latitudes[more]),
            np.insert(rings, more + 1, rings[more]),
        )
    return corners


def _as_rings(corners: _Corners, count: int) -> list[list[list[float]]]:
    """Closed rings of longitudes and latitudes, without corners that rounding made the same."""
    degrees = np.stack([corners.longitude, corners.latitude], axis=1).round(_DECIMALS) + 0.0
    ends = np.searchsorted(corners.rings, np.arange(count), side="right")
    rings, begin = [], 0
    for end in ends.tolist():
        some = degrees[begin:end]
        some = some[(some != np.roll(some, 1, axis=0)).any(axis=1)]
        rings.append([*some.tolist(), *some[:1].tolist()])
        begin = end
    return rings


def _as_geometry(rings: list[list[list[float]]]) -> dict[str, Any]:
    """A Polygon, or a MultiPolygon where there are several or none; clockwise rings are holes in the others."""
    areas = [_signed_area(ring) for ring in rings]
    order = sorted(range(len(rings)), key=lambda i: abs(areas[i]))
    polygons = {i: [rings[i]] for i in order if areas[i] > _SPECK}
    for i in order:
        if areas[i] < -_SPECK:
            home = next(
                (j for j in polygons if areas[j] > -areas[i] and _holds(rings[j], rings[i])), None
            )
            if home is not None:
                polygons[home].append(rings[i])
    found = [polygons[i] for i in sorted(polygons)]
    if len(found) == 1:
        return {"type": "Polygon", "coordinates": found[0]}
    return {"type": "MultiPolygon", "coordinates": found}


def _signed_area(ring: list[list[float]]) -> float:
    if len(ring) < 4:
        return 0.0
    x, y = (np.array(ring) - ring[0]).T
    return float(x[:-1] @ y[1:] - x[1:] @ y[:-1]) / 2.0


def _holds(ring: list[list[float]], hole: list[list[float]]) -> bool:
    """Whether most corners of the hole lie within the ring: one that touches it has some on the border."""
    x, y = np.array(ring).T
    inside = 0
    for east, north in hole[:-1]:
        crosses = (y[:-1] > north) != (y[1:] > north)
        at = x[:-1][crosses] + (north - y[:-1][crosses]) * (
            np.diff(x)[crosses] / np.diff(y)[crosses]
        )
        inside += int((at > east).sum() % 2)
    return 2 * inside > len(hole) - 1
