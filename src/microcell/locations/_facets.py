"""The part of the Earth that a map of cells shows, as plane facets small enough for borders to be straight on them.

The border of two power cells is where a plane cuts the sphere. On a polyhedron with corners on the sphere the same
plane cuts straight lines, which, seen from the Earth's centre, lie elsewhere by as little as a facet lies under the
sphere. So cells are found on facets, which are tiles between meridians and parallels: no tile lies across the
antimeridian or a pole.
"""

from dataclasses import dataclass

import numpy as np

from microcell.kernels.diagram import hulls
from microcell.locations._sphere import EARTH_RADIUS, to_degrees, to_points
from microcell.model import Floats

__all__ = ["Facet", "clip", "make_facets"]

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
                kept.append(corners[i - 1] + (corners[i] - corners[i - 1]) * (before / (before - here)))
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
    tips = np.arctan(np.tan(angles) / np.cos(np.pi / _ROUND))[:, np.newaxis, np.newaxis]  # around the circle
    around = np.cos(turns)[:, np.newaxis] * east[:, np.newaxis] + np.sin(turns)[:, np.newaxis] * north[:, np.newaxis]
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
    latitude, longitude = to_degrees(np.concatenate([hull + (ends - hull) * share for share in (0.0, 0.25, 0.5, 0.75)]))
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
        np.linspace(west, east, 1 + int(np.ceil(max((east - west) * wide / size, (east - west) / _STEP))))
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
    return latitude if abs(latitude) == 90.0 else float(np.degrees(np.arctan(np.tan(np.radians(latitude)) * bulge)))


def _tile(south: float, north: float, west: float, east: float) -> Facet:
    corners = to_points(np.array([south, south, north, north]), np.array([west, east, east, west]))
    for place, latitude in enumerate((south, south, north, north)):
        if abs(latitude) == 90.0:
            corners[place] = [0.0, 0.0, np.copysign(EARTH_RADIUS, latitude)]
    rows = [0, *((1,) if south > -90.0 else ()), 2, *((3,) if north < 90.0 else ())]
    return Facet(corners[rows], (west + east) / 2.0)
