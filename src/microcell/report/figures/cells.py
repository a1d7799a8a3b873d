"""Maps of cells in two dimensions: records, outlines and centroids."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from microcell.kernels.diagram import Polygons, hulls
from microcell.model import Floats, Integers
from microcell.report.figures.base import EDGE, INK, new_figure, style, to_bytes

__all__ = ["Panel", "choose_colours", "draw_panels", "find_limits", "sample_rows"]

_FILLS = ("#bedffa", "#efcab2", "#def5e3", "#d8c0dd", "#f9f1bf", "#d5d6d8")
_DOTS = ("#00528e", "#8c3b12", "#3f8a63", "#74507a", "#7f8a22", "#38383c")
"""Colours of cells and, darker, of their records.

They can be distinguished with colour vision deficiency; the outlines help in greyscale.
"""
_MAX_DOTS = 5_000
_MARGIN = 0.02
"""Room around the points, as a share of the larger extent."""
_TOUCHING = 1e-3
_CLOSE = 0.5
"""Gaps, as shares of the longer side of the smaller cell.

Cells that touch must differ in colour, and close cells should.
"""


@dataclass(frozen=True, eq=False)
class Panel:
    """One map: records in the plane, their cells and the cells' centroids."""

    title: str
    points: Floats
    """Coordinates of the records, (n, 2)."""
    labels: Integers
    """Cell of each record, (n,)."""
    centroids: Floats
    """Coordinates of the centroids, (Q, 2)."""
    polygons: Polygons | None
    """Outline of each cell, or None to draw no outlines."""
    subtitle: str = ""
    connect_means: bool = False
    """Draw a line from the mean of each cell's records to its centroid.

    Useful where the centroid may lie outside its cell.
    """


def draw_panels(
    panels: Sequence[Panel],
    format: str,
    *,
    axis_labels: tuple[str, str] = ("", ""),
    aspect: float = 1.0,
) -> bytes:
    """Draw the panels side by side, on the same scale.

    Parameters
    ----------
    panels
        One to three look best.
    format : {"svg", "png", "pdf"}
        File format of the result.
    axis_labels
        Names of x and y. An axis without a name has no tick labels either.
    aspect
        Length of a unit of y, in units of x.

    Notes
    -----
    At most 5,000 records are drawn per panel, always the same ones.
    """
    limits = find_limits(panels)
    width = {1: 4.8, 2: 3.8}.get(len(panels), 3.2)
    spans = limits[1] - limits[0]
    height = width * float(np.clip(aspect * spans[1] / spans[0], 0.35, 1.8))
    title_padding = 20 if any(panel.subtitle for panel in panels) else 6
    with style():
        figure = new_figure(width * len(panels), height + 0.8)
        subplots = figure.subplots(1, len(panels), squeeze=False)[0]
        for index, (axes, panel) in enumerate(zip(subplots, panels, strict=True)):
            _draw_cells(axes, panel)
            _set_frame(axes, limits, (axis_labels[0], "" if index else axis_labels[1]), aspect)
            axes.set_title(
                panel.title, loc="left", fontsize=11, fontweight="bold", pad=title_padding
            )
            axes.annotate(
                panel.subtitle, (0, 1), (0, 7), "axes fraction", "offset points", fontsize=9
            )
        # Panels of equal scale leave empty room on the sheet: crop it.
        return to_bytes(figure, format, bbox_inches="tight", pad_inches=0.08)


def _draw_cells(axes: Axes, panel: Panel) -> None:
    """Draw outlines, records in a darker tone of their cell's colour, and centroids as crosses."""
    colours = choose_colours(panel, len(_FILLS))
    rows = sample_rows(len(panel.points))
    if panel.polygons is not None:
        fills = [_FILLS[colour] for colour in colours.tolist()]
        axes.add_collection(
            PolyCollection(_outlines(panel.polygons), facecolors=fills, edgecolors=EDGE, lw=0.5)
        )
    size = float(np.clip(55 / max(len(rows), 1) ** 0.5, 1.0, 3.5))
    for index, colour in enumerate(_DOTS):
        points = panel.points[rows[colours[panel.labels[rows]] == index]]
        axes.plot(
            points[:, 0],
            points[:, 1],
            "o",
            color=colour,
            ms=size,
            mew=0,
            alpha=0.7,
            # Thousands of vector shapes would make a file of several megabytes.
            rasterized=len(rows) > 500,
        )
    if panel.connect_means:
        _connect_means(axes, panel)
    arm = float(np.clip(40 / max(len(colours), 1) ** 0.5, 2.2, 7.0))
    x, y = panel.centroids.T
    axes.plot(x, y, "+", color="white", ms=arm + 1, mew=arm / 3, zorder=3)
    axes.plot(x, y, "+", color=INK, ms=arm, mew=max(arm / 7, 0.5), zorder=4)


def _connect_means(axes: Axes, panel: Panel) -> None:
    sizes = np.bincount(panel.labels, minlength=len(panel.centroids))
    sums = np.stack(
        [np.bincount(panel.labels, column, minlength=len(sizes)) for column in panel.points.T],
        axis=1,
    )
    means = sums[sizes > 0] / sizes[sizes > 0, None]
    ends = panel.centroids[sizes > 0]
    axes.plot(*np.stack([means, ends], axis=1).T, color=INK, linewidth=0.8, zorder=2)


def _set_frame(axes: Axes, limits: Floats, labels: tuple[str, str], aspect: float) -> None:
    axes.set_aspect(aspect)
    axes.set_xlim(*limits[:, 0].tolist())
    axes.set_ylim(*limits[:, 1].tolist())
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.spines[:].set(visible=True, color=EDGE, linewidth=0.8)
    axes.tick_params(labelbottom=bool(labels[0]), labelleft=bool(labels[1]), length=0, labelsize=9)
    axes.locator_params(nbins=5)


def sample_rows(n: int) -> Integers:
    """Return the rows to draw: all of them, or 5,000 drawn with a fixed seed."""
    if n <= _MAX_DOTS:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, _MAX_DOTS, replace=False))


def find_limits(panels: Sequence[Panel]) -> Floats:
    """Return the lower and upper limits of x and y, one row each, shared by all panels."""
    points = np.concatenate(
        [array for panel in panels for array in (panel.points, panel.centroids)]
    )
    outlines = [panel.polygons.vertices for panel in panels if panel.polygons is not None]
    margin = _MARGIN * (np.max(np.ptp(points, axis=0)) or 1.0)
    extent = np.concatenate([points - margin, points + margin, *outlines])
    return np.array([extent.min(axis=0), extent.max(axis=0)])


def _outlines(polygons: Polygons) -> list[Floats]:
    return np.split(polygons.vertices, polygons.starts[1:-1])


def choose_colours(panel: Panel, count: int) -> Integers:
    """Return the index of a colour for each cell, such that neighbours differ.

    Greedy colouring in smallest-last order (Matula and Beck, 1983): in a plane map every cell then
    touches at most five cells that already have a colour, so six colours always suffice. If hulls
    overlap and no colour is free, the rarest among the neighbours is taken. Ties go to the colour
    that is rarest among close cells, then overall.
    """
    polygons = hulls(panel.points, panel.labels) if panel.polygons is None else panel.polygons
    shapes = _outlines(polygons)
    touching = _find_neighbours(shapes, _TOUCHING)
    close = _find_neighbours(shapes, _CLOSE)
    colours = np.zeros(len(panel.centroids), dtype=np.int64)
    used = np.zeros((len(shapes), count), dtype=np.int64)
    total = np.zeros(count, dtype=np.int64)
    for cell in _smallest_last(touching):
        among_touching = used[touching[cell]].sum(axis=0)
        among_close = used[close[cell]].sum(axis=0)
        colour = np.lexsort((total, among_close, among_touching))[0]
        colours[cell] = colour
        used[cell, colour] = 1
        total[colour] += 1
    return colours


def _smallest_last(neighbours: list[list[int]]) -> list[int]:
    """Order cells such that each has the fewest neighbours among those before it."""
    degrees = np.array([len(others) for others in neighbours], dtype=np.int64)
    removed = np.iinfo(np.int64).max
    order = []
    for _ in neighbours:
        cell = int(degrees.argmin())
        order.append(cell)
        degrees[cell] = removed
        for other in neighbours[cell]:
            degrees[other] -= degrees[other] != removed
    return order[::-1]


def _find_neighbours(shapes: list[Floats], share: float) -> list[list[int]]:
    """Find, for each polygon, those that overlap it or lie closer than ``share``. O(Q^2) time.

    The gap is measured in units of the longer side of the smaller of the two polygons.
    """
    neighbours: list[list[int]] = [[] for _ in shapes]
    visible = [index for index, shape in enumerate(shapes) if len(shape)]
    if not visible:
        return neighbours
    lows = np.array([shapes[index].min(axis=0) for index in visible])
    highs = np.array([shapes[index].max(axis=0) for index in visible])
    sides = (highs - lows).max(axis=1)
    for at, index in enumerate(visible):
        margins = share * np.minimum(sides, sides[at])
        box_gaps = np.maximum(lows - highs[at], lows[at] - highs).max(axis=1)
        for other in (at + 1 + np.flatnonzero(box_gaps[at + 1 :] <= margins[at + 1 :])).tolist():
            first = shapes[index]
            second = shapes[visible[other]]
            if max(_gap(first, second), _gap(second, first)) <= margins[other]:
                neighbours[index].append(visible[other])
                neighbours[visible[other]].append(index)
    return neighbours


def _gap(first: Floats, second: Floats) -> float:
    """Return the largest distance from an edge of the first polygon outwards to the second.

    Negative if no edge of the first separates the two.
    """
    edges = np.roll(first, -1, axis=0) - first
    lengths = np.hypot(edges[:, 0], edges[:, 1])
    corners = first[lengths > 0]
    edges = edges[lengths > 0] / lengths[lengths > 0, None]
    if not len(edges):
        return -np.inf
    normals = np.stack([edges[:, 1], -edges[:, 0]], axis=1)
    distances = normals @ second.T - np.sum(normals * corners, axis=1)[:, None]
    return float(distances.min(axis=1).max())
