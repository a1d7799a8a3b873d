"""Cells in the plane as convex polygons: power cells clipped to a box, and convex hulls.

A power cell is {x : ||x - c(q)||^2 + w(q) <= ||x - c(r)||^2 + w(r) for all r}, with centroids c and
costs w (Aurenhammer, "Power diagrams", 1987). Relative to c(q), the half-plane against r is
u . (x - c(q)) <= t: u points to c(r), at distance d, and the line lies at
t = (d^2 + w(r) - w(q)) / 2d, which is behind c(q) if it is negative.
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import ZERO, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers
from microcell.kernels.scans import offer

__all__ = ["Polygons", "clip_diagram", "hulls"]

_FIRST = 12
"""Number of nearest lines to cut with first; in the plane a cell has six neighbours on average."""

_TOLERANCE = 1e-14
"""Differences below this share of the longer side of the box are rounding errors."""


class Polygons(NamedTuple):
    """Q convex polygons, counter-clockwise, without repeating the first vertex."""

    vertices: Floats
    """(V, 2): those of polygon q are ``vertices[starts[q] : starts[q + 1]]``."""
    starts: Integers
    """(Q + 1,)."""


def clip_diagram(centroids: Floats, costs: Floats, box: Floats) -> Polygons:
    """Return the polygon of each power cell inside a box, empty if the cell is hidden or outside.

    If several cells have the same centroid and cost, the first keeps the polygon. Edges shorter
    than about 1e-14 of the box, and cells thinner than that, are dropped.

    Parameters
    ----------
    centroids : (Q, 2)
    costs : (Q,)
    box : (4,)
        Minimum x and y, then maximum x and y. The box must have an area.

    Notes
    -----
    O(Q^2) time, nearly all of it a few additions per pair, because a cell is cut only by lines that
    reach it. O(Q) memory.

    Examples
    --------
    >>> box = np.array([0.0, 0.0, 4.0, 2.0])
    >>> halves = clip_diagram(np.array([[1.0, 1.0], [3.0, 1.0]]), np.zeros(2), box)
    >>> halves.vertices[halves.starts[0] : halves.starts[1]].tolist()
    [[2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [0.0, 0.0]]
    """
    box = np.asarray(box, dtype=np.float64)
    corner, extent = box[:2], box[2:] - box[:2]
    side = extent.max()
    # Coordinates are transposed for vectorization, and costs are divided twice because the square
    # of the side might overflow.
    clipped = _clip_cells(
        np.ascontiguousarray((centroids - corner).T) / side, costs / side / side, extent / side
    )
    return Polygons(np.clip(clipped.vertices * side + corner, corner, box[2:]), clipped.starts)


def hulls(points: Floats, labels: Integers) -> Polygons:
    """Return the convex hull of each cell's points: a polygon, a segment or a single point.

    Andrew's monotone chain (1979). A label without points has an empty hull. O(n log n) time, O(n)
    memory.

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
    """Clip the power cells to the box from 0 to ``extent``, whose longer side is 1.

    ``centroids`` has a row of x and a row of y.
    """
    count = len(costs)
    # A diagram has fewer than 6 Q vertices, plus some corners of the box.
    vertices = np.empty((8 * count + 8, 2))
    starts = np.zeros(count + 1, dtype=np.int64)
    room = count + _FIRST + 4  # a cut adds at most one vertex, and the nearest lines cut twice
    lines, polygon, spare = np.empty(count), np.empty((room, 2)), np.empty((room, 2))
    for q in range(count):
        size = _clip_cell(centroids, costs, q, extent, lines, polygon, spare)
        first = starts[q]
        starts[q + 1] = first + size
        if first + size > len(vertices):  # rounding can split vertices, though rarely this often
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
    """Compute the polygon of a cell (OUT: ``polygon``) and return its number of vertices.

    ``lines`` and ``spare`` are scratch.
    """
    size = _lay_box(extent, polygon)
    radius = _radius(polygon, size, centroids[:, q])
    tolerance = _TOLERANCE * max(1.0, radius)
    _find_lines(centroids[0], centroids[1], costs, q, lines)
    near, rows, count_near = np.empty(_FIRST), np.empty(_FIRST, dtype=np.int64), ZERO
    for r in range(len(lines)):
        if lines[r] < radius:
            count_near = offer(near, rows, count_near, lines[r], r)
            radius = radius if count_near < _FIRST else near[0]
        elif r < q and np.isnan(lines[r]):  # an identical earlier cell
            return ZERO
    for place in range(count_near):
        size = _cut(polygon, size, centroids, q, rows[place], lines, tolerance, spare)
    # A line farther from the centroid than every vertex cuts nothing off, whatever the costs.
    radius = _radius(polygon, size, centroids[:, q])
    for r in range(len(lines)):
        if lines[r] < radius:
            size = _cut(polygon, size, centroids, q, r, lines, tolerance, spare)
            radius = _radius(polygon, size, centroids[:, q])
    return _tidy(polygon, size, tolerance)


@inner_kernel
def _lay_box(extent: Floats, polygon: Floats) -> int:
    """Store the corners of the box (OUT: ``polygon``) and return their number."""
    for corner in range(4):
        polygon[corner, 0] = extent[0] if corner in (1, 2) else 0.0
        polygon[corner, 1] = extent[1] if corner in (2, 3) else 0.0
    return ZERO + 4


@inner_kernel
def _find_lines(x: Floats, y: Floats, costs: Floats, q: int, lines: Floats) -> None:
    """Compute the distances of a centroid from the lines against all others (OUT: ``lines``).

    For equal centroids the distance is infinite, with the sign of the cost difference, or NaN if
    the costs are equal too.
    """
    for r in range(len(lines)):
        dx, dy = x[r] - x[q], y[r] - y[q]
        square = dx * dx + dy * dy
        lines[r] = (square + (costs[r] - costs[q])) / (2 * np.sqrt(square))


@inner_kernel
def _radius(polygon: Floats, size: int, point: Floats) -> float:
    """Return the distance of the farthest vertex from a point, 0 without vertices."""
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
    """Cut a polygon to q's side of the line against r (OUT: ``polygon``); return its size.

    The size grows by at most one. The vertices cut off are those around the farthest one: a single
    stretch, even where rounding suggests two.
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
    kept = size - off + 1  # the farthest vertex was counted twice
    _cross(polygon, before, (before + 1) % size, into, spare, ZERO)
    _cross(polygon, after, (after - 1) % size, out, spare, ZERO + 1)
    for i in range(kept):
        _copy(polygon, (after + i) % size, spare, i + 2)
    for i in range(kept + 2):
        _copy(spare, i, polygon, i)
    return kept + 2


@inner_kernel
def _copy(source: Floats, i: int, target: Floats, j: int) -> None:
    """Copy a vertex (OUT: ``target``); assigning rows would take seconds to compile."""
    target[j, 0], target[j, 1] = source[i, 0], source[i, 1]


@inner_kernel
def _measure(
    polygon: Floats, size: int, origin: Floats, other: Floats, line: float, spare: Floats
) -> tuple[int, float]:
    """Return the vertex farthest beyond a line and its distance (OUT: ``spare[:, 0]``)."""
    dx, dy = other[0] - origin[0], other[1] - origin[1]
    distance = np.sqrt(dx * dx + dy * dy)
    far, reach = ZERO, -np.inf
    for i in range(size):
        along = (
            (dx * (polygon[i, 0] - origin[0]) + dy * (polygon[i, 1] - origin[1])) / distance
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
    """Store the intersection of an edge with a line (OUT: ``vertices``)."""
    share = max(share, 0.0)  # a vertex just beyond the line counts as inside
    for j in range(2):
        vertices[place, j] = polygon[inside, j] + share * (polygon[outside, j] - polygon[inside, j])


@inner_kernel
def _tidy(polygon: Floats, size: int, tolerance: float) -> int:
    """Merge coinciding vertices and return their number, 0 if the polygon is too thin (OUT)."""
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
    """Return hull vertices as positions in points sorted by cell, x and y, and the hull starts."""
    starts = np.zeros(len(ends) + 1, dtype=np.int64)
    kept = np.empty(2 * len(points) + 1, dtype=np.int64)
    first = ZERO
    for cell in range(len(ends)):
        base = starts[cell]
        top = _extend_chain(points, first, ends[cell], ZERO + 1, kept, base, base)
        if top - base > 1:  # back along the upper side to the start of the lower one
            top = _extend_chain(points, ends[cell] - 2, first - 1, ZERO - 1, kept, top - 1, top) - 1
        starts[cell + 1] = top
        first = ends[cell]
    return kept[: starts[-1]], starts


@inner_kernel
def _extend_chain(
    points: Floats, first: int, end: int, step: int, kept: Integers, base: int, top: int
) -> int:
    """Extend a chain of left turns from ``base`` on (OUT: ``kept``) and return its end."""
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
    """Return twice the signed area of the triangle, positive for a left turn."""
    bx, by = points[b, 0] - points[a, 0], points[b, 1] - points[a, 1]
    return bx * (points[c, 1] - points[a, 1]) - by * (points[c, 0] - points[a, 0])  # type: ignore[no-any-return]
