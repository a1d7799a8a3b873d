"""Maps of the cells of a release in two dimensions."""

from typing import TYPE_CHECKING

import numpy as np

from microcell import methods, report
from microcell.cells import PowerCells
from microcell.kernels.arrays import centroids
from microcell.kernels.diagram import clip_diagram, hulls
from microcell.model import Floats, Integers
from microcell.release import prepare

if TYPE_CHECKING:
    from microcell.release.publish import Release

__all__ = ["draw_release", "map_axes", "map_cells"]

MARGIN = 0.05
"""Room around the records, as a fraction of their range."""


def draw_release(release: "Release", form: str = "svg") -> bytes | None:
    """Draw the cells of a release over its original records.

    Returns None if the quasi-identifiers do not span two dimensions, or if the release no longer
    has its original table.
    """
    if len(release.schema.quasi) > 2 or release.original is None:
        return None
    prepared = prepare.prepare(
        release.original,
        release.schema,
        k=release.partition.k,
        missing=release.manifest.missing or "error",
    )
    points = prepared.encoded.matrix
    if points.shape[1] != 2:
        return None
    cells = release.cells if isinstance(release.cells, PowerCells) else None
    partition = release.partition
    panel = map_cells(
        partition.method.upper(), points, partition.labels, cells, prepared.encoded.weights
    )
    return report.draw_cellmaps([panel], form, axes=map_axes(prepared))


def map_axes(prepared: prepare.Prepared) -> tuple[str, str]:
    """Return the titles of the two axes."""
    names = [
        column.name
        for column in prepared.encoded.encoding.columns
        for _ in range(column.dimensions)
    ]
    return (f"{names[0]} (standardized)", f"{names[1]} (standardized)")


def map_cells(
    title: str, points: Floats, labels: Integers, cells: PowerCells | None, weights: Floats | None
) -> report.CellMap:
    """Return the map of a partition: polytopes of power cells, convex hulls of other cells."""
    means = centroids(points, labels, np.ones(len(points)) if weights is None else weights)
    loss = methods.distortion(points, labels, weights=weights)
    outlines = hulls(points, labels)
    if cells is not None and cells.chooser is None:
        low = points.min(axis=0)
        high = points.max(axis=0)
        room = MARGIN * (high - low)
        outlines = clip_diagram(
            cells.centroids.copy(), cells.costs.copy(), np.concatenate([low - room, high + room])
        )
    caption = f"distortion {loss:.4g}, {len(means):,} cells"
    return report.CellMap(title, points, labels, means, outlines, caption)
