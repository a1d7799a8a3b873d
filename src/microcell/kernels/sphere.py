"""Places on the sphere as unit vectors."""

import numpy as np

from microcell.kernels._arrays import Floats

__all__ = ["unit_vectors"]


def unit_vectors(latitude: Floats, longitude: Floats) -> Floats:
    """One unit vector a row for places in degrees.

    Examples
    --------
    >>> unit_vectors(np.array([0.0, 90.0]), np.array([0.0, 0.0])).round(6)
    array([[1., 0., 0.],
           [0., 0., 1.]])
    """
    phi, theta = np.radians(latitude), np.radians(longitude)
    flat = np.cos(phi)
    return np.stack([flat * np.cos(theta), flat * np.sin(theta), np.sin(phi)], axis=1)
