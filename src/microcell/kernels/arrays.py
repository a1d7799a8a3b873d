"""Places on the sphere as unit vectors."""

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Floats",
    "Integers",
    "Mask",
    "Seeds",
    "Singles",
    "centroids",
    "squared_distances",
    "squared_residuals",
    "sum_of_squares",
    "total_sum_of_squares",
    "unit_vectors",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Seeds = NDArray[np.uint64]
Singles = NDArray[np.float32]


def squared_distances(X: Floats, point: Floats) -> Floats:
    """Squared distances of the records from a point, summed over the columns in order as compiled kernels do."""
    out = np.zeros(len(X))
    for j in range(X.shape[1]):
        out += (X[:, j] - point[j]) ** 2
    return out


def centroids(X: Floats, labels: Integers, weights: Floats) -> Floats:
    """The weighted mean of each cell, one row a cell. O(n m)."""
    totals = np.bincount(labels, weights=weights)
    out = np.empty((len(totals), X.shape[1]))
    for j in range(X.shape[1]):
        out[:, j] = np.bincount(labels, weights=weights * X[:, j]) / totals
    return out


def squared_residuals(X: Floats, labels: Integers, weights: Floats) -> Floats:
    """The weighted squared distance of each record to the centroid of its cell. O(n m)."""
    means = centroids(X, labels, weights)
    out = np.zeros(len(X))
    for j in range(X.shape[1]):
        out += (X[:, j] - means[labels, j]) ** 2
    return out * weights


def sum_of_squares(X: Floats, labels: Integers, weights: Floats) -> float:
    """SSE: the weighted squared distances of records to the centroids of their cells, in two passes. O(n m)."""
    return float(
        squared_residuals(X, labels, weights).sum()
    )  # no inner product: that depends on the threads


def total_sum_of_squares(X: Floats, weights: Floats) -> float:
    """SST: the weighted squared distances of records to the mean of all. O(n m)."""
    return sum_of_squares(X, np.zeros(len(X), dtype=np.int64), weights)


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
