"""Maps of the cells of a release in two dimensions."""

from typing import TYPE_CHECKING

import numpy as np

from microcell import methods
from microcell.cells import PowerCells
from microcell.kernels.arrays import centroids
from microcell.kernels.diagram import clip_diagram, hulls
from microcell.model import Floats, Integers
from microcell.release import prepare
from microcell.report import figures

if TYPE_CHECKING:
    from microcell.release.publish import Release

__all__ = ["axis_labels", "draw_release", "make_panel"]

_MARGIN = 0.05
"""Margin around the records, as a fraction of their range."""


def draw_release(release: "Release", format: str = "svg") -> bytes | None:
    """Draw the cells of a release over its original records.

    Returns None if the quasi-identifiers do not span two dimensions, if the release no longer
    has its original table, or if matplotlib is not installed. The figure shows original records:
    do not publish it.
    """
    if len(release.schema.quasi) > 2 or release.original is None or not figures.available():
        return None
    manifest = release.manifest
    prepared = prepare.encode_records(
        release.original,
        release.schema,
        k=release.partition.k,
        missing=manifest.missing or "error",
    )
    if manifest.suppressed_rows:
        left_out = np.array(manifest.suppressed_rows) - 1
        kept = np.flatnonzero(~np.isin(prepared.rows, left_out))
        prepared = prepare.keep_rows(prepared, kept)
    if prepared.encoded.matrix.shape[1] != 2:
        return None
    power_cells = release.cells if isinstance(release.cells, PowerCells) else None
    panel = make_panel(release.partition.method, prepared, release.partition.labels, power_cells)
    return figures.draw_panels([panel], format, axis_labels=axis_labels(prepared))


def axis_labels(prepared: prepare.Prepared) -> tuple[str, str]:
    """Return the labels of the two axes."""
    names = [
        column.name
        for column in prepared.encoded.encoding.columns
        for _ in range(column.dimensions)
    ]
    return f"{names[0]} (standardized)", f"{names[1]} (standardized)"


def make_panel(
    method: str, prepared: prepare.Prepared, labels: Integers, power_cells: PowerCells | None
) -> "figures.Panel":
    """Return a map of a partition: polygons for power cells, convex hulls for other cells."""
    points = prepared.encoded.matrix
    weights = prepared.encoded.weights
    means = centroids(points, labels, np.ones(len(points)) if weights is None else weights)
    distortion = methods.distortion(points, labels, weights=weights)
    if power_cells is not None and power_cells.chooser is None:
        polygons = clip_diagram(
            power_cells.centroids.copy(), power_cells.costs.copy(), _bounding_box(points)
        )
    else:
        polygons = hulls(points, labels)
    count = f"{len(means):,} cell{'s' * (len(means) != 1)}"
    return figures.Panel(
        method.upper(), points, labels, means, polygons, f"distortion {distortion:.4g}, {count}"
    )


def _bounding_box(points: Floats) -> Floats:
    low = points.min(axis=0)
    high = points.max(axis=0)
    margin = _MARGIN * (high - low)
    return np.concatenate([low - margin, high + margin])
