"""Cells in the plane as convex polygons: power cells cut from a box, and hulls of points.

A power cell is {x : ||x - c(q)||^2 + w(q) <= ||x - c(r)||^2 + w(r) for all r}, with centroids c and costs w
(Aurenhammer, "Power diagrams", 1987). Seen from c(q), the half-plane against r is u . (x - c(q)) <= t: u points to
c(r), d away, and the line lies at t = (d^2 + w(r) - w(q)) / 2d, which is behind c(q) where it is negative.
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import ZERO, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers
from microcell.kernels.scans import offer

__all__ = ["Polygons", "clip_diagram", "hulls"]

_FIRST = 12
"""So many of the nearest lines cut first: in the plane, a cell has six neighbours on average."""

_TOLERANCE = 1e-14
"""Of the longer side of the box: what differs by less is rounding."""


class Polygons(NamedTuple):
    """Q convex polygons, counter-clockwise, the first vertex not repeated."""

    vertices: Floats
    """(V, 2): those of polygon q are ``vertices[starts[q] : starts[q + 1]]``."""
    starts: Integers
    """(Q + 1,)."""


def clip_diagram(centroids: Floats, costs: Floats, box: Floats) -> Polygons:
    """The polygon of each power cell within a box, empty where the cell is hidden or lies outside.

    Of cells with the same centroid and the same cost, the first keeps the polygon. Edges shorter than about 1e-14 of
    the box, and cells thinner than that, are left out.

    Parameters
    ----------
    centroids : (Q, 2)
    costs : (Q,)
    box : (4,)
        The least x and y, and the greatest x and y; it must have an area.

    Notes
    -----
    O(Q^2) time, nearly all of it a few additions for each pair; a cell is cut only by lines that reach it. O(Q) memory.

    Examples
    --------
    >>> halves = clip_diagram(np.array([[1.0, 1.0], [3.0, 1.0]]), np.zeros(2), np.array([0.0, 0.0, 4.0, 2.0]))
    >>> halves.vertices[halves.starts[0] : halves.starts[1]].tolist()
    [[2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [0.0, 0.0]]
    """
    box = np.asarray(box, dtype=np.float64)
    corner, extent = box[:2], box[2:] - box[:2]
    side = extent.max()
    # Side by side, for vectors; and divided twice, since the square of the side might overflow.
    found = _clip_cells(
        np.ascontiguousarray((centroids - corner).T) / side, costs / side / side, extent / side
    )
    return Polygons(np.clip(found.vertices * side + corner, corner, box[2:]), found.starts)


def hulls(points: Floats, labels: Integers) -> Polygons:
    """The convex hull of each cell's points: a polygon, or two points or one where they span no area.

    Andrew's monotone chain, 1979. A label without points has an empty hull. O(n log n) time, O(n) memory.

    Examples
    --------
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.5], [1.0, 1.0], [0.0, 1.0]])
    >>> hulls(square, np.zeros(5, dtype=np.int64)).vertices.tolist()
    [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    """
    labels = np.asarray(labels, dtype=np.int64)
    if len(points) == 0:
        return Polygons(np.empty((0, 2)), np.zeros(1, dtype=np.int64))
    order = np.lexsort((points[:, 1], points[:, 0], labels))
    ends = np.cumsum(np.bincount(labels))
    low, extent = points.min(axis=0), np.ptp(points, axis=0)
    scaled = (points[order] - low) / np.where(extent > 0, extent, 1.0)
    kept, starts = _wrap_cells(np.ascontiguousarray(scaled), ends)
    return Polygons(points[order[kept]], starts)


@kernel
def _clip_cells(centroids: Floats, costs: Floats, extent: Floats) -> Polygons:
    """The polygons of the power cells in the box from 0 to ``extent``, of which one side is 1.

    ``centroids`` holds the x in one row and the y in another.
    """
    count = len(costs)
    vertices = np.empty(
        (8 * count + 8, 2)
    )  # the polygons of a diagram have fewer than 6 Q vertices and some corners
    starts = np.zeros(count + 1, dtype=np.int64)
    room = count + _FIRST + 4  # a cut adds one vertex at most, and the nearest lines cut twice
    lines, polygon, spare = np.empty(count), np.empty((room, 2)), np.empty((room, 2))
    for q in range(count):
        size = _clip_cell(centroids, costs, q, extent, lines, polygon, spare)
        first = starts[q]
        starts[q + 1] = first + size
        if first + size > len(
            vertices
        ):  # rounding can split a vertex in two, though hardly that often
            longer = np.empty((2 * (first + size), 2))
            for i in range(first):
                _copy(vertices, i, longer, i)
            vertices = longer
        for i in range(size):
            _copy(polygon, i, vertices, first + i)
    return Polygons(vertices[: starts[count]], starts)


@inner_kernel
def _clip_cell(
    centroids: Floats,
    costs: Floats,
    q: int,
    extent: Floats,
    lines: Floats,
    polygon: Floats,
    spare: Floats,
) -> int:
    """The number of vertices of a cell (OUT: ``polygon`` holds them; ``lines`` and ``spare`` are room to work in)."""
    size = _lay_box(extent, polygon)
    radius = _radius(polygon, size, centroids[:, q])
    tolerance = _TOLERANCE * max(1.0, radius)
    _find_lines(centroids[0], centroids[1], costs, q, lines)
    near, rows, found = np.empty(_FIRST), np.empty(_FIRST, dtype=np.int64), ZERO
    for r in range(len(lines)):
        if lines[r] < radius:
            found = offer(near, rows, found, lines[r], r)
            radius = radius if found < _FIRST else near[0]
        elif r < q and np.isnan(lines[r]):  # the same cell, which came before
            return ZERO
    for place in range(found):
        size = _cut(polygon, size, centroids, q, rows[place], lines, tolerance, spare)
    # Whatever the costs, a line farther from the centroid than every vertex cuts nothing off.
    radius = _radius(polygon, size, centroids[:, q])
    for r in range(len(lines)):
        if lines[r] < radius:
            size = _cut(polygon, size, centroids, q, r, lines, tolerance, spare)
            radius = _radius(polygon, size, centroids[:, q])
    return _tidy(polygon, size, tolerance)


@inner_kernel
def _lay_box(extent: Floats, polygon: Floats) -> int:
    """The number of corners of the box (OUT: ``polygon``)."""
    for corner in range(4):
        polygon[corner, 0] = extent[0] if corner in (1, 2) else 0.0
        polygon[corner, 1] = extent[1] if corner in (2, 3) else 0.0
    return ZERO + 4


@inner_kernel
def _find_lines(x: Floats, y: Floats, costs: Floats, q: int, lines: Floats) -> None:
    """How far from a centroid the lines against all others lie (OUT: ``lines``).

    Where the centroids are the same: infinite, to the side of the lower cost, and not a number for equal costs.
    """
    for r in range(len(lines)):
        dx, dy = x[r] - x[q], y[r] - y[q]
        square = dx * dx + dy * dy
        lines[r] = (square + (costs[r] - costs[q])) / (2 * np.sqrt(square))


@inner_kernel
def _radius(polygon: Floats, size: int, point: Floats) -> float:
    """The distance of the farthest vertex from a point, and 0 for no vertex."""
    most = 0.0
    for i in range(size):
        most = max(most, (polygon[i, 0] - point[0]) ** 2 + (polygon[i, 1] - point[1]) ** 2)
    return np.sqrt(most)  # type: ignore[no-any-return]


@inner_kernel
def _cut(
    polygon: Floats,
    size: int,
    centroids: Floats,
    q: int,
    r: int,
    lines: Floats,
    tolerance: float,
    spare: Floats,
) -> int:
    """The number of vertices of a polygon on q's side of the line against r (OUT: ``polygon``): at most one more.

    The vertices cut off are those around the farthest one: only one stretch of them, even where rounding sees two.
    """
    far, reach = _measure(polygon, size, centroids[:, q], centroids[:, r], lines[r], spare)
    if reach <= tolerance:
        return size
    after, before, off = far, far, ZERO
    while off <= size and spare[after, 0] > tolerance:
        after, off = (after + 1) % size, off + 1
    if off > size:
        return ZERO
    while spare[before, 0] > tolerance:
        before, off = (before - 1) % size, off + 1
    into = spare[before, 0] / (spare[before, 0] - spare[(before + 1) % size, 0])
    out = spare[after, 0] / (spare[after, 0] - spare[(after - 1) % size, 0])
    kept = size - off + 1  # the farthest was counted twice
    _cross(polygon, before, (before + 1) % size, into, spare, ZERO)
    _cross(polygon, after, (after - 1) % size, out, spare, ZERO + 1)
    for i in range(kept):
        _copy(polygon, (after + i) % size, spare, i + 2)
    for i in range(kept + 2):
        _copy(spare, i, polygon, i)
    return kept + 2


@inner_kernel
def _copy(source: Floats, i: int, target: Floats, j: int) -> None:
    """Put a vertex down elsewhere (OUT: ``target``). Assigning rows would do, but takes seconds to compile."""
    target[j, 0], target[j, 1] = source[i, 0], source[i, 1]


@inner_kernel
def _measure(
    polygon: Floats, size: int, own: Floats, other: Floats, line: float, spare: Floats
) -> tuple[int, float]:
    """The vertex farthest beyond a line, and how far (OUT: ``spare``: the same for all, in the first column)."""
    dx, dy = other[0] - own[0], other[1] - own[1]
    distance = np.sqrt(dx * dx + dy * dy)
    far, reach = ZERO, -np.inf
    for i in range(size):
        along = (
            (dx * (polygon[i, 0] - own[0]) + dy * (polygon[i, 1] - own[1])) / distance
            if distance > 0
            else 0.0
        )
        spare[i, 0] = along - line
        if spare[i, 0] > reach:
            far, reach = i, spare[i, 0]
    return far, reach


@inner_kernel
def _cross(
    polygon: Floats, inside: int, outside: int, share: float, vertices: Floats, place: int
) -> None:
    """Put down the point where an edge meets a line (OUT: ``vertices``)."""
    share = max(share, 0.0)  # a vertex just beyond the line counts as inside, and stays
    for j in range(2):
        vertices[place, j] = polygon[inside, j] + share * (polygon[outside, j] - polygon[inside, j])


@inner_kernel
def _tidy(polygon: Floats, size: int, tolerance: float) -> int:
    """The number of vertices once those that coincide are one, and 0 for what is too thin (OUT: ``polygon``)."""
    kept = ZERO
    for i in range(size):
        if kept == 0 or _distance(polygon, kept - 1, i) > tolerance:
            _copy(polygon, i, polygon, kept)
            kept += 1
    while kept > 1 and _distance(polygon, kept - 1, ZERO) <= tolerance:
        kept -= 1
    area, around = 0.0, 0.0
    for i in range(kept):
        j = (i + 1) % kept
        around += _distance(polygon, i, j)
        area += (polygon[i, 0] - polygon[0, 0]) * (polygon[j, 1] - polygon[0, 1])
        area -= (polygon[i, 1] - polygon[0, 1]) * (polygon[j, 0] - polygon[0, 0])
    return kept if area > 2 * tolerance * around else ZERO


@inner_kernel
def _distance(polygon: Floats, i: int, j: int) -> float:
    return np.hypot(polygon[i, 0] - polygon[j, 0], polygon[i, 1] - polygon[j, 1])  # type: ignore[no-any-return]


@kernel
def _wrap_cells(points: Floats, ends: Integers) -> tuple[Integers, Integers]:
    """The places of the hulls' vertices among the points, which are ordered by cell, x and y, and where each starts."""
    starts = np.zeros(len(ends) + 1, dtype=np.int64)
    kept = np.empty(2 * len(points) + 1, dtype=np.int64)
    first = ZERO
    for cell in range(len(ends)):
        base = starts[cell]
        top = _extend_chain(points, first, ends[cell], ZERO + 1, kept, base, base)
        if top - base > 1:  # and back along the upper side, to where the lower one began
            top = _extend_chain(points, ends[cell] - 2, first - 1, ZERO - 1, kept, top - 1, top) - 1
        starts[cell + 1] = top
        first = ends[cell]
    return kept[: starts[-1]], starts


@inner_kernel
def _extend_chain(
    points: Floats, first: int, end: int, step: int, kept: Integers, base: int, top: int
) -> int:
    """Where the chain ends that turns left at every point from ``base`` on (OUT: ``kept``)."""
    for i in range(first, end, step):
        while top - base > 1 and _turn(points, kept[top - 2], kept[top - 1], i) <= 0:
            top -= 1
        if (
            top == base
            or points[i, 0] != points[kept[top - 1], 0]
            or points[i, 1] != points[kept[top - 1], 1]
        ):
            kept[top] = i
            top += 1
    return top


@inner_kernel
def _turn(points: Floats, a: int, b: int, c: int) -> float:
    """Twice the area of the triangle, positive where it turns left."""
    bx, by = points[b, 0] - points[a, 0], points[b, 1] - points[a, 1]
    return bx * (points[c, 1] - points[a, 1]) - by * (points[c, 0] - points[a, 0])  # type: ignore[no-any-return]
