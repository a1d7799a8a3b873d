"""Array types, centroids, sums of squares, and points on the sphere."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "EARTH_RADIUS",
    "Distinct",
    "Floats",
    "Integers",
    "Mask",
    "Seeds",
    "ShortIntegers",
    "Singles",
    "centroids",
    "count_distinct",
    "distinct_rows",
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
ShortIntegers = NDArray[np.int32]
Singles = NDArray[np.float32]

EARTH_RADIUS = 6371.0088
"""Mean radius of the Earth in kilometres."""


def squared_distances(X: Floats, point: Floats) -> Floats:
    """Return squared distances from a point, summed over columns in order."""
    out = np.zeros(len(X))
    for j in range(X.shape[1]):
        out += (X[:, j] - point[j]) ** 2
    return out


def centroids(X: Floats, labels: Integers, weights: Floats) -> Floats:
    """Return the weighted mean of each cell, one row per cell. O(n m)."""
    totals = np.bincount(labels, weights=weights)
    out = np.empty((len(totals), X.shape[1]))
    for j in range(X.shape[1]):
        out[:, j] = np.bincount(labels, weights=weights * X[:, j]) / totals
    return out


def squared_residuals(
    X: Floats, labels: Integers, weights: Floats, means: Floats | None = None
) -> Floats:
    """Return the weighted squared distance of each record to the centroid of its cell. O(n m).

    ``means`` are the centroids, if the caller has them already.
    """
    if means is None:
        means = centroids(X, labels, weights)
    out = np.zeros(len(X))
    for j in range(X.shape[1]):
        out += (X[:, j] - means[labels, j]) ** 2
    return out * weights


def sum_of_squares(X: Floats, labels: Integers, weights: Floats) -> float:
    """Return the SSE: weighted squared distances to cell centroids, in two passes. O(n m)."""
    # Not an inner product, whose rounding depends on the number of threads.
    return float(squared_residuals(X, labels, weights).sum())


def total_sum_of_squares(X: Floats, weights: Floats) -> float:
    """Return the SST: weighted squared distances to the overall mean. O(n m)."""
    return sum_of_squares(X, np.zeros(len(X), dtype=np.int64), weights)


def unit_vectors(latitude: Floats, longitude: Floats) -> Floats:
    """Return a unit vector per row for locations in degrees.

    Examples
    --------
    >>> unit_vectors(np.array([0.0, 90.0]), np.array([0.0, 0.0])).round(6)
    array([[1., 0., 0.],
           [0., 0., 1.]])
    """
    phi, theta = np.radians(latitude), np.radians(longitude)
    flat = np.cos(phi)
    return np.stack([flat * np.cos(theta), flat * np.sin(theta), np.sin(phi)], axis=1)


@dataclass(frozen=True, eq=False)
class Distinct:
    """Distinct rows: the number of the ``first`` row of each, and the ``place`` of every row."""

    first: Integers
    place: Integers


def distinct_rows(points: Floats | Integers) -> Distinct:
    """Return the distinct rows in ascending order, each with its lowest row number.

    Time O(n m log n), memory a copy.

    Examples
    --------
    >>> result = distinct_rows(np.array([[2.0, 1.0], [0.0, 5.0], [2.0, 1.0]]))
    >>> result.first, result.place
    (array([1, 0]), array([1, 0, 1]))
    """
    n, m = points.shape
    order = np.lexsort(np.ascontiguousarray(points.T[::-1])) if m else np.arange(n)
    ordered = points[order]
    begins = np.ones(n, dtype=np.bool_)
    begins[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.cumsum(begins) - 1
    return Distinct(order[begins].astype(np.int64), place)


def count_distinct(labels: Integers, codes: Integers) -> Integers:
    """Return the number of distinct codes in each group of rows; groups are numbered from 0.

    Examples
    --------
    >>> count_distinct(np.array([0, 0, 0, 1]), np.array([5, 5, 7, 7]))
    array([2, 1])
    """
    span = int(codes.max(initial=0)) + 1
    groups = np.unique(labels * span + codes) // span
    return np.bincount(groups, minlength=int(labels.max(initial=-1)) + 1).astype(np.int64)
