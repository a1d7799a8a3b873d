"""Cells as polygons for a map: the power diagram on the Earth, in GeoJSON (RFC 7946)."""

from typing import Any, NamedTuple

import numpy as np

from microcell.kernels.diagram import clip_diagram
from microcell.locations._clustering import Clustering
from microcell.locations._facets import Facet, clip, make_facets
from microcell.locations._sphere import EARTH_RADIUS, great_circle, to_degrees
from microcell.model import Floats, Integers, Mask

__all__ = ["geometries"]

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
    found = clip_diagram(sites @ plane.T, costs - costs.min(), np.concatenate([low - margin, high + margin]))
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
                turn = 0 if len(ends) == 1 else _sharpest(degrees[ring[-1]], degrees[here], degrees[ends])
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
    meridians = rows[np.where(polar[places], np.where(second, after[places], before[places]), places)]
    rows = rows[places]
    return _Corners(known.points[rows], known.longitude[meridians], known.latitude[rows], numbers[places])


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
        off = np.hypot(aside, latitudes - (latitude + latitude[ahead]) / 2.0) * np.radians(EARTH_RADIUS)
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
            home = next((j for j in polygons if areas[j] > -areas[i] and _holds(rings[j], rings[i])), None)
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
        at = x[:-1][crosses] + (north - y[:-1][crosses]) * (np.diff(x)[crosses] / np.diff(y)[crosses])
        inside += int((at > east).sum() % 2)
    return 2 * inside > len(hole) - 1
