"""Data for figures: distributions of the columns, and a projection onto a plane."""

import numpy as np

from microcell.kinds.pairs import Coordinates
from microcell.measures.pairs import ColumnPairs
from microcell.model import Comparison, Floats, Integers, Projection

__all__ = ["compare_columns", "project"]

_SHOWN = 2_000
"""Maximum number of records in a projection."""

_MEASURED = 20_000
"""Maximum number of records from which the axes of a projection are computed."""


def compare_columns(columns: ColumnPairs) -> tuple[Comparison, ...]:
    """Return the distributions of each quasi-identifier before and after; a location has two.

    Columns without any value are left out. Rows need not be matched. Numbers and times are counted
    in about 20 intervals, categories by name: the 12 most frequent ones, and all others together.
    """
    histograms = [
        (str(pair.column.kind), histogram)
        for pair in columns.quasi
        for histogram in pair.histograms()
    ]
    comparisons = [
        Comparison(
            histogram.name,
            kind,
            histogram.before,
            histogram.after,
            labels=histogram.labels,
            edges=histogram.edges,
            unit=histogram.unit,
        )
        for kind, histogram in histograms
    ]
    return tuple(comparisons)


def project(columns: ColumnPairs, classes: Integers) -> Projection | None:
    """Project up to 2,000 records onto the original's first two principal components.

    Each quasi-identifier is standardized to a total variance of 1 (a location: 2): numbers and
    ranks as they are, categories as indicators of the 12 most frequent ones, locations as points on
    the sphere. The axes are computed from up to 20,000 evenly spaced original records, and
    published records are projected onto the same axes. None if all records are equal.
    """
    n_records = len(columns.rows)
    rows = _evenly_spaced(n_records, _MEASURED)
    blocks = [pair.coordinates(columns.rows[rows], rows) for pair in columns.quasi]
    variances = [len(pair.column.parts) for pair in columns.quasi]
    before, after = map(np.hstack, zip(*map(_standardize, blocks, variances), strict=True))
    if not before.any():
        return None
    shares, axes = _principal_axes(before)
    shown = _evenly_spaced(len(rows), _SHOWN)
    return Projection(
        before=before[shown] @ axes,
        after=after[shown] @ axes,
        classes=classes[rows[shown]],
        explained=(float(shares[0]), float(shares[1])),
        records=n_records,
    )


def _evenly_spaced(count: int, limit: int) -> Integers:
    return np.linspace(0, max(count - 1, 0), min(count, limit)).astype(np.int64)


def _principal_axes(points: Floats) -> tuple[Floats, Floats]:
    """Return the variance shares and axes of the first two components; 0 if there is no second."""
    values, vectors = np.linalg.eigh(points.T @ points)
    order = np.argsort(-values, kind="stable")[:2]
    axes = np.zeros((points.shape[1], 2))
    axes[:, : len(order)] = vectors[:, order]
    shares = np.zeros(2)
    shares[: len(order)] = np.maximum(values[order], 0) / values.sum()
    # The sign of an axis is arbitrary: fix it, so that the same table gives the same picture.
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]])
    return shares, axes * signs


def _standardize(block: Coordinates, variance: int) -> tuple[Floats, Floats]:
    """Centre and scale by the original's mean and total variance; missing values become 0."""
    present = ~np.isnan(block.before).any(axis=1)
    if not present.any():
        return np.zeros_like(block.before), np.zeros_like(block.after)
    mean = block.before[present].mean(axis=0)
    before, after = block.before - mean, block.after - mean
    total = float(np.square(before[present]).sum(axis=1).mean())
    factor = np.sqrt(variance / total) if total > 1e-24 else 0.0
    return np.nan_to_num(before * factor), np.nan_to_num(after * factor)
