"""Distances for PCL, by name: how they map records to points, and the site of a cell.

A distance is squared Euclidean or absolute between *points*, which :meth:`Distortion.embed`
computes from the records. The site of a cell minimizes the distances within it, so that the
distortion never rises in PCL, whatever the distance.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell._validation import as_points
from microcell.errors import DataError, OptionError
from microcell.kernels.arrays import centroids
from microcell.model import Floats, Integers

__all__ = ["DISTANCES", "SQUARED", "Distortion", "fit_distortion"]


class Distortion:
    """Squared Euclidean distance, with the mean of a cell as its site; base of the others."""

    name = "squared"
    absolute = False
    """Whether points are compared by absolute instead of squared differences."""
    blends = True
    """Whether a site may move part of the way, that is, whether ``speed`` may be below 1."""
    same_space = True
    """Whether points are the records themselves, so that cells can be used without this object."""

    def embed(self, X: Any) -> Floats:
        """Return the points of records."""
        return as_points(X)

    def sites(self, points: Floats, labels: Integers, weights: Floats) -> Floats:
        """Return the site of each cell that minimizes the weighted distances of its points."""
        return centroids(points, labels, weights)

    def project(self, sites: Floats) -> Floats:
        """Return the nearest valid sites, after a random step."""
        return sites

    def decode(self, sites: Floats) -> Any:
        """Return the sites in the form of the records."""
        return sites


class _Absolute(Distortion):
    """Sum of absolute differences, with the median of each column."""

    name = "absolute"
    absolute = True

    def sites(self, points: Floats, labels: Integers, weights: Floats) -> Floats:
        return np.column_stack(
            [_medians(points[:, j], labels, weights) for j in range(points.shape[1])]
        )


class _Spherical(Distortion):
    """Squared chord between directions, which is 2 - 2 cos(angle), with the mean direction."""

    name = "spherical"
    blends = False
    same_space = False

    def embed(self, X: Any) -> Floats:
        points = as_points(X)
        lengths = np.sqrt(np.square(points).sum(axis=1))
        if (lengths == 0).any():
            row = int(np.argmin(lengths)) + 1
            raise DataError(
                f"Row {row} has no direction: all its values are 0. Remove it, or use another "
                "distance.",
                code="data.invalid",
                row=row,
            )
        return np.ascontiguousarray(points / lengths[:, np.newaxis])

    def sites(self, points: Floats, labels: Integers, weights: Floats) -> Floats:
        return self.project(centroids(points, labels, weights))

    def project(self, sites: Floats) -> Floats:
        lengths = np.sqrt(np.square(sites).sum(axis=1, keepdims=True))
        # Points that cancel out are equally far from every direction, so any one will do.
        anywhere = np.eye(1, sites.shape[1])
        return np.where(lengths > 0, sites / np.where(lengths > 0, lengths, 1.0), anywhere)


class _Mahalanobis(Distortion):
    """Squared distance after the columns are decorrelated and scaled to unit variance."""

    name = "mahalanobis"
    same_space = False

    def __init__(self, X: Any) -> None:
        points = as_points(X)
        centred = points - points.mean(axis=0)
        values, vectors = np.linalg.eigh(centred.T @ centred / len(points))
        kept = values > 1e-12 * max(float(values.max(initial=0.0)), 1e-300)
        if not kept.any():
            raise DataError(
                "All points are equal, so there is no Mahalanobis distance. Use another distance.",
                code="data.invalid",
                option="distance",
            )
        self._whiten = vectors[:, kept] / np.sqrt(values[kept])
        self._restore = (vectors[:, kept] * np.sqrt(values[kept])).T
        self._mean = points.mean(axis=0)

    def embed(self, X: Any) -> Floats:
        return np.ascontiguousarray((as_points(X) - self._mean) @ self._whiten)

    def decode(self, sites: Floats) -> Any:
        return sites @ self._restore + self._mean


class _Categories(Distortion):
    """Share of columns that differ (Hamming), or the path in a taxonomy; the site is the medoid.

    Each category is a point with a coordinate per node between it and the root, so that the squared
    distance of two categories is the length of the path between them, relative to the longest.
    """

    blends = False
    same_space = False

    def __init__(self, X: Any, taxonomy: Any) -> None:
        self.name = "hamming" if taxonomy is None else "taxonomic"
        columns = _as_categories(X).T
        trees = _as_taxonomies(taxonomy, len(columns))
        self._names = [sorted(set(column), key=str) for column in columns]
        self._vertices = [
            _lay_categories(names, tree) for names, tree in zip(self._names, trees, strict=True)
        ]

    def embed(self, X: Any) -> Floats:
        columns = _as_categories(X).T
        if len(columns) != len(self._names):
            raise DataError(
                f"Records must have {len(self._names)} columns, not {len(columns)}.",
                code="data.invalid",
            )
        return np.ascontiguousarray(
            np.hstack([vertices[self._codes(j, columns[j])] for j, vertices in self._each()])
        )

    def _codes(self, j: int, column: Sequence[Any]) -> Integers:
        codes = {name: code for code, name in enumerate(self._names[j])}
        unknown = [row for row, value in enumerate(column) if value not in codes]
        if unknown:
            raise DataError(
                f"Column {j + 1} has a category that is unknown to the cells, first in row "
                f"{unknown[0] + 1}. Replace it by a known one.",
                code="data.unknown_category",
                row=unknown[0] + 1,
            )
        return np.array([codes[value] for value in column], dtype=np.int64)

    def _each(self) -> list[tuple[int, Floats]]:
        return list(enumerate(self._vertices))

    def _split(self, points: Floats) -> list[Floats]:
        widths = [vertices.shape[1] for vertices in self._vertices]
        return np.split(points, np.cumsum(widths)[:-1], axis=1)

    def sites(self, points: Floats, labels: Integers, weights: Floats) -> Floats:
        totals = np.bincount(labels, weights=weights)
        parts = []
        for part, vertices in zip(self._split(points), self._vertices, strict=True):
            # The vertex nearest to the mean minimizes the squared distances of the points.
            means = centroids(part, labels, weights)
            lengths = np.square(vertices).sum(axis=1)
            scores = totals[:, np.newaxis] * (lengths - 2 * means @ vertices.T)
            best = scores.min(axis=1, keepdims=True)
            tied = scores <= best + 1e-9 * (1.0 + np.abs(best))  # ties go to the first category
            parts.append(vertices[np.argmax(tied, axis=1)])
        return np.ascontiguousarray(np.hstack(parts))

    def decode(self, sites: Floats) -> Any:
        columns = []
        for j, part in enumerate(self._split(sites)):
            gaps = [np.square(part - vertex).sum(axis=1) for vertex in self._vertices[j]]
            columns.append([self._names[j][code] for code in np.argmin(gaps, axis=0)])
        return np.array(list(zip(*columns, strict=True)), dtype=object)


SQUARED = Distortion()

DISTANCES: Mapping[str, Callable[[Any, Any], Distortion]] = {
    "squared": lambda _X, _taxonomy: SQUARED,
    "absolute": lambda _X, _taxonomy: _Absolute(),
    "spherical": lambda _X, _taxonomy: _Spherical(),
    "mahalanobis": lambda X, _taxonomy: _Mahalanobis(X),
    "hamming": lambda X, _taxonomy: _Categories(X, None),
    "taxonomic": _Categories,
}
"""Distances by the name of the option, fitted to records and a taxonomy."""


def fit_distortion(X: ArrayLike, distance: Any, taxonomy: Any = None) -> Distortion:
    """Return the distance of this name, fitted to the records.

    Examples
    --------
    >>> fit_distortion([["a"], ["b"]], "hamming").embed([["b"], ["a"]]).round(2)
    array([[0.  , 0.71],
           [0.71, 0.  ]])
    """
    if not isinstance(distance, str) or distance not in DISTANCES:
        raise OptionError(
            f"distance must be one of {', '.join(DISTANCES)}, not {distance!r}.",
            code="option.unknown",
            option="distance",
        )
    if (taxonomy is not None) != (distance == "taxonomic"):
        raise OptionError(
            "taxonomy is required for the distance 'taxonomic' and not valid for others. In a "
            "table, declare the column as hierarchy: all distances then follow its groups.",
            code="option.conflict",
            option="taxonomy",
        )
    return DISTANCES[distance](X, taxonomy)


def _medians(values: Floats, labels: Integers, weights: Floats) -> Floats:
    """Return the weighted median of each cell, the middle of the two if there are two."""
    order = np.lexsort((values, labels))
    ordered, reached = values[order], np.cumsum(weights[order])
    ends = np.cumsum(np.bincount(labels)) - 1
    starts = np.concatenate([[0], ends[:-1] + 1])
    below = np.where(starts > 0, reached[starts - 1], 0.0)
    half = below + (reached[ends] - below) / 2
    slack = 1e-12 * reached[ends]
    lower = np.clip(np.searchsorted(reached, half - slack), starts, ends)
    upper = np.clip(np.searchsorted(reached, half + slack, side="right"), starts, ends)
    return np.asarray(ordered[lower] / 2 + ordered[upper] / 2)


def _as_categories(X: Any) -> Any:
    """Return the records as a matrix of categories: text, numbers or booleans."""
    try:
        array = np.asarray(X, dtype=object)
    except ValueError:  # rows of different lengths
        array = np.empty(0, dtype=object)
    array = array[:, np.newaxis] if array.ndim == 1 and array.size else array
    is_plain = array.ndim == 2 and all(
        isinstance(value, (str, int, float, np.generic)) and not _is_missing(value)
        for value in array.ravel()
    )
    if not is_plain or array.size == 0:
        raise DataError(
            "Records must be a matrix of categories (text or numbers, none missing).",
            code="data.invalid",
            option="X",
        )
    return array


def _is_missing(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _as_taxonomies(taxonomy: Any, count: int) -> list[Mapping[Any, Any]]:
    """Return the parents of the categories of each column; none for one without a taxonomy."""
    trees = [taxonomy] * count if taxonomy is None or isinstance(taxonomy, Mapping) else taxonomy
    is_list = isinstance(trees, Sequence) and not isinstance(trees, str) and len(trees) == count
    if not is_list or not all(tree is None or isinstance(tree, Mapping) for tree in trees):
        raise OptionError(
            "taxonomy must map each category to its parent: one mapping for all columns, or a "
            f"list with one mapping (or None) for each of the {count} columns.",
            code="option.invalid",
            option="taxonomy",
        )
    return [tree or {} for tree in trees]


def _lay_categories(names: Sequence[Any], tree: Mapping[Any, Any]) -> Floats:
    """Embed the categories as points with one coordinate per node on the path to the root."""
    paths = [_way_to_root(name, tree) for name in names]
    nodes = {node: place for place, node in enumerate(dict.fromkeys(n for p in paths for n in p))}
    vertices = np.zeros((len(names), len(nodes)))
    for vertex, path in zip(vertices, paths, strict=True):
        vertex[[nodes[node] for node in path]] = 1.0
    overlap = vertices @ vertices.T
    lengths = np.diag(overlap)
    longest = float((lengths[:, np.newaxis] + lengths - 2 * overlap).max(initial=0.0))
    return np.asarray(vertices / np.sqrt(longest if longest > 0 else 2.0))


def _way_to_root(name: Any, tree: Mapping[Any, Any]) -> list[Any]:
    """Return the nodes from a category to the child of the root, which need not be named."""
    path = [name]
    while path[-1] in tree and tree[path[-1]] is not None:
        if tree[path[-1]] in path:
            raise OptionError(
                "taxonomy has a cycle: a category is its own ancestor.",
                code="option.invalid",
                option="taxonomy",
            )
        path.append(tree[path[-1]])
    return path
