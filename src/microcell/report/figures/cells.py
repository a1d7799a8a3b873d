"""The figure of an allocation."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from microcell.model import Floats
from microcell.report.figures.base import AFTER, EDGE, INK, as_file, legend, sheet, shortened, style
from microcell.report.plots import (
    Allotment,
    CellMap,
    choose_colours,
    find_dearest,
    find_limits,
    outlines,
    sample_rows,
)

__all__ = ["draw_allotment", "draw_cellmaps"]

_FILLS = ("#bedffa", "#efcab2", "#def5e3", "#d8c0dd", "#f9f1bf", "#d5d6d8")
_DOTS = ("#00528e", "#8c3b12", "#3f8a63", "#74507a", "#7f8a22", "#38383c")
"""For the cells of a map and, darker, their records: told apart by the colour-blind, and in grey by the outlines."""


def draw_cellmaps(
    maps: Sequence[CellMap], form: str, names: tuple[str, str], aspect: float
) -> bytes:
    """Cells in two dimensions, a panel for each map, all on the same scale."""
    limits, width = find_limits(maps), {1: 4.8, 2: 3.8}.get(len(maps), 3.2)
    spans = limits[1] - limits[0]
    height = width * float(np.clip(aspect * spans[1] / spans[0], 0.35, 1.8))
    lift = 20 if any(item.subtitle for item in maps) else 6
    with style():
        figure = sheet(width * len(maps), height + 0.8)
        panels = figure.subplots(1, len(maps), squeeze=False)[0]
        for place, (axes, item) in enumerate(zip(panels, maps, strict=True)):
            _draw_cells(axes, item)
            _frame_cells(axes, limits, (names[0], "" if place else names[1]), aspect)
            axes.set_title(item.title, loc="left", fontsize=11, fontweight="bold", pad=lift)
            axes.annotate(
                item.subtitle, (0, 1), (0, 7), "axes fraction", "offset points", fontsize=9
            )
        # Panels of equal scale leave room on the sheet, here or there: cut it off.
        return as_file(figure, form, bbox_inches="tight", pad_inches=0.08)


def _draw_cells(axes: Axes, item: CellMap) -> None:
    """Outlines, records in a darker tone of their cell's colour, and centroids as crosses."""
    colours, rows = choose_colours(item, len(_FILLS)), sample_rows(len(item.points))
    if item.polygons is not None:
        fills = [_FILLS[colour] for colour in colours.tolist()]
        axes.add_collection(
            PolyCollection(outlines(item.polygons), facecolors=fills, edgecolors=EDGE, lw=0.5)
        )
    size = float(np.clip(55 / max(len(rows), 1) ** 0.5, 1.0, 3.5))
    for place, colour in enumerate(_DOTS):
        own = item.points[rows[colours[item.labels[rows]] == place]]
        # Thousands of dots are a picture: as shapes they would make a file of megabytes.
        axes.plot(
            own[:, 0],
            own[:, 1],
            "o",
            color=colour,
            ms=size,
            mew=0,
            alpha=0.7,
            rasterized=len(rows) > 500,
        )
    if item.tied:
        _tie_cells(axes, item)
    arm = float(np.clip(40 / max(len(colours), 1) ** 0.5, 2.2, 7.0))
    axes.plot(
        item.centroids[:, 0],
        item.centroids[:, 1],
        "+",
        color="white",
        ms=arm + 1,
        mew=arm / 3,
        zorder=3,
    )
    axes.plot(
        item.centroids[:, 0],
        item.centroids[:, 1],
        "+",
        color=INK,
        ms=arm,
        mew=max(arm / 7, 0.5),
        zorder=4,
    )


def _tie_cells(axes: Axes, item: CellMap) -> None:
    """A line from the mean of each cell's records to its centroid."""
    sizes = np.bincount(item.labels, minlength=len(item.centroids))
    sums = np.stack(
        [np.bincount(item.labels, column, minlength=len(sizes)) for column in item.points.T], axis=1
    )
    means, ends = sums[sizes > 0] / sizes[sizes > 0, None], item.centroids[sizes > 0]
    axes.plot(*np.stack([means, ends], axis=1).T, color=INK, linewidth=0.8, zorder=2)


def _frame_cells(axes: Axes, limits: Floats, names: tuple[str, str], aspect: float) -> None:
    """A fine frame of one scale; an axis without a name has no numbers either."""
    axes.set_aspect(aspect)
    axes.set_xlim(*limits[:, 0].tolist())
    axes.set_ylim(*limits[:, 1].tolist())
    axes.set_xlabel(names[0])
    axes.set_ylabel(names[1])
    axes.spines[:].set(visible=True, color=EDGE, linewidth=0.8)
    axes.tick_params(labelbottom=bool(names[0]), labelleft=bool(names[1]), length=0, labelsize=9)
    axes.locator_params(nbins=5)


def draw_allotment(given: Allotment, form: str) -> bytes:
    """How far points go, as allocated and to the nearest centre; and the loads of centres beside their places."""
    shown = find_dearest(given)
    with style():
        figure = sheet(8.6, float(np.clip(0.9 + 0.24 * len(shown), 3.4, 8.4)))
        far, full = figure.subplots(1, 2)
        _draw_distances(far, given)
        _draw_loads(full, given, shown.tolist())
        figure.suptitle(given.title, x=0.02, ha="left", fontsize=11, fontweight="bold")
        return as_file(figure, form)


def _draw_distances(axes: Axes, given: Allotment) -> None:
    """The share of points within each distance."""
    shares = np.linspace(0, 100, 201)
    for distances, colour, line, label in (
        (given.nearest, EDGE, "--", "nearest centre, whatever its places"),
        (given.distances, AFTER, "-", "allocated"),
    ):
        axes.plot(np.quantile(distances, shares / 100), shares, line, color=colour, label=label)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 101)
    axes.set_xlabel(f"Distance ({given.unit})" if given.unit else "Distance")
    axes.set_ylabel("Points within it (%)")
    axes.legend(loc="lower right", frameon=False, fontsize=9)


def _draw_loads(axes: Axes, given: Allotment, shown: Sequence[int]) -> None:
    rows = np.arange(len(shown))
    axes.barh(rows, given.places[shown], height=0.8, color="white", edgecolor=EDGE, label="places")
    axes.barh(rows, given.loads[shown], height=0.8, color=AFTER, alpha=0.75, label="points")
    axes.set_yticks(rows, [shortened(given.names[place]) for place in shown], fontsize=9)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=5, integer=True)
    few = len(shown) < len(given.names)
    axes.set_xlabel(
        f"The {len(shown)} centres of the highest price"
        if few
        else "Points and places of each centre"
    )
    legend(axes)
