"""The Earth as a sphere: places in degrees, points in kilometres, and the distances between them."""

import numpy as np

from microcell.kernels.sphere import unit_vectors
from microcell.model import Floats

__all__ = ["EARTH_RADIUS", "great_circle", "to_degrees", "to_points"]

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
