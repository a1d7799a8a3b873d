"""Cells in two dimensions as a map: what is drawn, in which colours, and the call that draws it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

import numpy as np

from microcell.errors import DataError, OptionError
from microcell.kernels.diagram import Polygons, hulls
from microcell.model import Floats, Integers
from microcell.reporting.trials import FIGURE_FORMS

__all__ = ["CellMap", "choose_colours", "draw_cellmaps", "find_limits", "outlines", "sample_rows"]

_DOTS = 5_000
_ROOM = 0.02
_TOUCHING = 1e-3
_CLOSE = 0.5
"""Gaps, as shares of the longer side of the smaller cell: touching cells must differ in colour, close ones should."""


@dataclass(frozen=True, eq=False)
class CellMap:
    """A panel: records in the plane, their cells and the cells' centroids, with what to write above."""

    title: str
    points: Floats
    """(n, 2)."""
    labels: Integers
    """(n,): the cell of each record."""
    centroids: Floats
    """(Q, 2)."""
    polygons: Polygons | None
    """The outline of each cell, or None to draw none."""
    subtitle: str = ""
    tied: bool = False
    """True to draw a line from the mean of a cell's records to its centroid: where that may lie outside of the cell."""

    def __post_init__(self) -> None:
        if self.points.ndim != 2 or self.points.shape[1] != 2:
            raise DataError(f"A map needs records in two dimensions; these have the shape {self.points.shape}.")
        if len(self.labels) != len(self.points):
            raise DataError(f"There are {len(self.labels):,} labels for {len(self.points):,} records; give one each.")
        count = len(self.centroids)
        if self.centroids.shape != (count, 2) or (len(self.labels) and self.labels.max() >= count):
            raise DataError("A map needs a centroid in two dimensions for each cell that the labels name.")
        if self.polygons is not None and len(self.polygons.starts) != count + 1:
            raise DataError(f"There are {len(self.polygons.starts) - 1:,} polygons for {count:,} cells; give one each.")


def draw_cellmaps(
    maps: Sequence[CellMap], form: str, *, axes: tuple[str, str] = ("", ""), aspect: float = 1.0
) -> bytes:
    """The contents of a file of that form: the maps side by side, on the same scale.

    Parameters
    ----------
    maps : sequence of CellMap
        One to three look best.
    form : {"svg", "png", "pdf"}
    axes : (str, str)
        The names of x and y; an axis without a name has no numbers either.
    aspect : float
        How long a unit of y is drawn, in units of x.

    Notes
    -----
    At most 5,000 records are drawn in a panel. The same maps give the same file, byte for byte.
    """
    if form not in FIGURE_FORMS:
        raise OptionError(f"No figure form {form!r}; choose one of {', '.join(FIGURE_FORMS)}.")
    if not maps:
        raise OptionError("There is nothing to draw: give one map or more.")
    # Named and not imported: loading matplotlib would slow every start.
    figures = import_module("microcell.reporting.figures")
    draw = cast("Callable[[Sequence[CellMap], str, tuple[str, str], float], bytes]", figures.draw_cellmaps)
    return draw(maps, form, axes, aspect)


def outlines(polygons: Polygons) -> list[Floats]:
    """The vertices of each polygon, an array each."""
    return np.split(polygons.vertices, polygons.starts[1:-1])


def sample_rows(n: int) -> Integers:
    """The rows to draw: all, or 5,000 at random, the same ones every time."""
    if n <= _DOTS:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, _DOTS, replace=False))


def find_limits(maps: Sequence[CellMap]) -> Floats:
    """The least x and y, and the greatest, one row each: around all polygons, and with some room around all points."""
    points = np.concatenate([shape for item in maps for shape in (item.points, item.centroids)])
    outline = np.concatenate([points[:0], *(item.polygons.vertices for item in maps if item.polygons is not None)])
    room = _ROOM * (np.max(np.ptp(points, axis=0)) or 1.0)
    around = np.concatenate([points - room, points + room, outline])
    return np.array([around.min(axis=0), around.max(axis=0)])


def choose_colours(item: CellMap, count: int) -> Integers:
    """The number of a colour for each cell, such that neighbours differ.

    Cells are coloured in reverse order of leaving the graph of neighbours, fewest neighbours first (Matula and Beck,
    1983): in a plane map each then meets at most five that are coloured, so that six colours always do. Should none be
    left, where hulls overlap, the rarest next door is taken; of several, the rarest among cells close by, then of all.
    """
    shapes = outlines(hulls(item.points, item.labels) if item.polygons is None else item.polygons)
    touching, close = _find_neighbours(shapes, _TOUCHING), _find_neighbours(shapes, _CLOSE)
    colours = np.zeros(len(item.centroids), dtype=np.int64)
    used = np.zeros(
        (len(shapes) + 1, count), dtype=np.int64
    )  # a row for each cell, its colour marked; the last for all
    for cell in _order_cells(touching):
        around, nearby = used[touching[cell]].sum(axis=0), used[close[cell]].sum(axis=0)
        colours[cell] = np.lexsort((used[-1], nearby, around))[0]
        used[cell, colours[cell]] = 1
        used[-1, colours[cell]] += 1
    return colours


def _order_cells(near: list[list[int]]) -> list[int]:
    """The cells, last the one with the fewest neighbours, before it the one with the fewest among the others, ..."""
    degrees = np.array([len(others) for others in near], dtype=np.int64)
    gone = np.iinfo(np.int64).max
    order = []
    for _ in near:
        cell = int(degrees.argmin())
        order.append(cell)
        degrees[cell] = gone
        for other in near[cell]:
            degrees[other] -= degrees[other] != gone
    return order[::-1]


def _find_neighbours(shapes: list[Floats], share: float) -> list[list[int]]:
    """The polygons that overlap each polygon, or come nearer than a share of the smaller one's side. O(Q^2) time."""
    near: list[list[int]] = [[] for _ in shapes]
    shown = [place for place, shape in enumerate(shapes) if len(shape)]
    if not shown:
        return near
    lows = np.array([shapes[place].min(axis=0) for place in shown])
    highs = np.array([shapes[place].max(axis=0) for place in shown])
    sides = (highs - lows).max(axis=1)
    for at, place in enumerate(shown):
        margins = share * np.minimum(sides, sides[at])
        apart = np.maximum(lows - highs[at], lows[at] - highs).max(axis=1)
        for other in (at + 1 + np.flatnonzero(apart[at + 1 :] <= margins[at + 1 :])).tolist():
            one, two = shapes[place], shapes[shown[other]]
            if max(_gap(one, two), _gap(two, one)) <= margins[other]:
                near[place].append(shown[other])
                near[shown[other]].append(place)
    return near


def _gap(one: Floats, two: Floats) -> float:
    """How far the second polygon stays beyond an edge of the first, at most; negative where no edge parts them."""
    edges = np.roll(one, -1, axis=0) - one
    lengths = np.hypot(edges[:, 0], edges[:, 1])
    edges, corners = edges[lengths > 0] / lengths[lengths > 0, None], one[lengths > 0]
    if not len(edges):
        return -np.inf
    normals = np.stack([edges[:, 1], -edges[:, 0]], axis=1)
    beyond = normals @ two.T - np.sum(normals * corners, axis=1)[:, None]
    return float(beyond.min(axis=1).max())
