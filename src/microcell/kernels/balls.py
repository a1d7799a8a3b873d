"""Cells as ordered balls: each ball takes the remaining records that it contains.

A ball must contain the records of its cell and none of a later one, and its centre must not reveal
a record. Candidate centres are tried at decreasing distances from the cell's *anchor*, the record
whose nearest neighbours form the cell: first close to the line through the anchor and the cell's
centroid, then closer and closer to the anchor. If no ball separates the cell, because of ties, a
ball takes as many records as the cell has, whether or not they belong to it.
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import ZERO, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers, Seeds
from microcell.kernels.random import draw
from microcell.kernels.scans import BLOCK, Points, Scratch, measure, offer, scan_chunk, take_out

__all__ = ["Balls", "Carving", "carve", "find_balls"]

_ALONG = (0.0, 3.0, 2.5, 2.0, 0.25, 0.5, 1.5, 0.75, 1.25)
"""Positions on the line from the centroid (0) to the anchor (1) where centres are tried."""

_BESIDE = 0.25
"""Offset from that line, relative to the distance to the nearer of the two. On the line itself the
anchor could be computed.
"""

_OF_THE_GAP = 0.225
"""If the centre moves by at most this share of the gap around the anchor's ball, the ball separates
the same records.
"""

_ONE: int = np.int64(1)  # type: ignore[assignment]  # as ZERO is


class Balls(NamedTuple):
    """The balls made so far, in the first ``used[0]`` rows of each array."""

    centres: Floats
    radii: Floats
    used: Integers


class Carving(NamedTuple):
    """State of turning a partition into balls."""

    X: Floats
    members: Integers
    """Rows ordered by cell; those of cell c are ``members[starts[c] : starts[c + 1]]``."""
    starts: Integers
    means: Floats
    """(G, m): mean of the records of each cell and all later ones."""
    everyone: Points
    others: Points
    """Records of later cells that no ball has taken."""
    strays: Integers
    """Rows of earlier cells that no ball has taken: the first ``stray_count[0]``."""
    stray_count: Integers
    anchor: Floats
    """Anchor of the last cell."""
    scratch: Scratch
    state: Seeds
    tolerance: float
    """Minimum squared distance of centres from all records."""


class _Fit(NamedTuple):
    """Number of records of a cell nearer than all later records, and two squared distances.

    ``inside`` is that of the last of these records, ``outside`` that of the nearest later one.
    """

    held: int
    inside: float
    outside: float


@kernel
def find_balls(X: Floats, centres: Floats, radii: Floats) -> Integers:
    """Return the first ball containing each point, or the number of balls if none. O(n B m)."""
    out = np.full(len(X), len(radii))
    for i in range(len(X)):
        for b in range(len(radii)):
            if _squared_distance(X[i], centres[b]) <= radii[b] * radii[b]:
                out[i] = b
                break
    return out


@kernel
def carve(work: Carving, balls: Balls, k: int, first: int, last: int) -> None:
    """Make balls of at least k records for cells ``first`` to ``last - 1`` (OUT).

    A cell that has lost all its records gets no ball. Records of a cell that its ball does not
    contain become strays, for whichever later ball contains them. O(n m) per try, a few tries per
    cell.
    """
    target = np.empty(work.X.shape[1])
    for cell in range(first, last):
        remaining = _gather(work, cell)
        if work.others.left[0] > 0 and len(remaining) > 0:
            radius = _separate(work, remaining, cell, k, target)
            if radius < 0:
                radius = _grab(work, remaining, max(k, len(remaining)), target)
            _take(work, balls, remaining, target, radius, k)
        else:
            _stray(work, remaining)


@inner_kernel
def _squared_distance(x: Floats, y: Floats) -> float:
    out = 0.0
    for j in range(len(x)):
        out += (x[j] - y[j]) * (x[j] - y[j])
    return out


@inner_kernel
def _gather(work: Carving, cell: int) -> Integers:
    """Remove the cell's rows that no ball has taken from the remaining ones, and return them."""
    rows = work.members[work.starts[cell] : work.starts[cell + 1]]
    remaining, size = np.empty(len(rows), dtype=np.int64), ZERO
    for row in rows:
        if work.others.places[row] >= 0:
            take_out(work.others, row)
            remaining[size] = row
            size += 1
    return remaining[:size]


@inner_kernel
def _stray(work: Carving, rows: Integers) -> None:
    for row in rows:
        work.strays[work.stray_count[0]] = row
        work.stray_count[0] += 1


@inner_kernel
def _scan(work: Carving, points: Points, target: Floats, count: int) -> None:
    """Find the ``count`` nearest points (OUT: ``scratch``) on one thread, as scans are short."""
    scan_chunk(points, ZERO, -(-points.left[0] // BLOCK), target, work.scratch, ZERO, count)


@inner_kernel
def _nearest(work: Carving, points: Points, target: Floats) -> float:
    """Return the squared distance of the nearest of the points."""
    _scan(work, points, target, _ONE)
    return work.scratch.distances[0, 0]  # type: ignore[no-any-return]


@inner_kernel
def _fit(work: Carving, remaining: Integers, target: Floats) -> _Fit:
    outside, held, inside = _nearest(work, work.others, target), ZERO, 0.0
    for row in remaining:
        distance = _squared_distance(work.X[row], target)
        if distance < outside:
            held += 1
            inside = max(inside, distance)
    return _Fit(held, inside, outside)


@inner_kernel
def _halfway(inside: float, outside: float) -> float:
    """Return a radius halfway between two squared distances; its square is at least ``inside``."""
    radius = (np.sqrt(inside) + np.sqrt(outside)) / 2
    while radius * radius < inside:
        radius = np.nextafter(radius, np.inf)
    return radius  # type: ignore[no-any-return]


@inner_kernel
def _farthest(work: Carving, remaining: Integers, point: Floats) -> int:
    best, out = -1.0, remaining[0]
    for row in remaining:
        distance = _squared_distance(work.X[row], point)
        if distance > best:
            best, out = distance, row
    return out  # type: ignore[no-any-return]


@inner_kernel
def _find_anchor(work: Carving, remaining: Integers, cell: int) -> _Fit:
    """Find the member with the most members nearer to it than later records (OUT: ``anchor``).

    MDAV starts a cell at the record farthest from the mean of the remaining records, or from the
    previous anchor; V-MDAV starts at the record farthest from the overall mean. Other records are
    tried if these fail, which can happen with weights, because they are not known here.
    """
    tried = np.empty(len(remaining) + 3, dtype=np.int64)
    tried[0] = _farthest(work, remaining, work.means[cell])
    tried[1] = _farthest(work, remaining, work.anchor)
    tried[2] = _farthest(work, remaining, work.means[0])
    for i in range(len(remaining)):
        tried[3 + i] = remaining[i]
    best, fit = tried[0], _fit(work, remaining, work.X[tried[0]])
    for row in tried[1:]:
        if fit.held == len(remaining):
            break
        other = _fit(work, remaining, work.X[row])
        if other.held > fit.held:
            best, fit = row, other
    _copy(work.X[best], work.anchor)
    return fit


@inner_kernel
def _copy(source: Floats, target: Floats) -> None:
    """Copy element by element: numba takes seconds to compile an assignment of arrays."""
    for j in range(len(target)):
        target[j] = source[j]


@inner_kernel
def _shift(work: Carving, length: float, target: Floats) -> None:
    """Move the target by this length in a random direction (OUT: ``target``)."""
    direction, norm = np.empty(len(target)), 0.0
    while norm == 0:
        for j in range(len(target)):
            direction[j] = draw(work.state) - 0.5
            norm += direction[j] * direction[j]
    target += direction * (length / np.sqrt(norm))


@inner_kernel
def _try(work: Carving, remaining: Integers, needed: int, target: Floats) -> float:
    """Return the radius of a ball around the target that separates ``needed`` records of the cell.

    The result is -1 if there is none, or if a record is too close to the centre.
    """
    fit = _fit(work, remaining, target)
    if fit.held < needed:
        return -1.0
    radius = _halfway(fit.inside, fit.outside)
    apart = radius * radius < fit.outside
    return radius if apart and _nearest(work, work.everyone, target) > work.tolerance else -1.0


@inner_kernel
def _separate(work: Carving, remaining: Integers, cell: int, k: int, target: Floats) -> float:
    """Find a ball that contains as much of the cell as can be separated (OUT: ``target``).

    Returns its radius, or -1 if that is less than k records.
    """
    fit, anchor = _find_anchor(work, remaining, cell), work.anchor
    if fit.held < k:
        return -1.0
    centroid = _centroid(work, remaining)
    reach = np.sqrt(_squared_distance(anchor, centroid))
    for t in _ALONG:
        for j in range(len(target)):
            target[j] = centroid[j] + t * (anchor[j] - centroid[j])
        _shift(work, _BESIDE * min(abs(t), abs(t - 1)) * reach, target)
        radius = _try(work, remaining, fit.held, target)
        if radius >= 0:
            return radius
    least = _OF_THE_GAP * (np.sqrt(fit.outside) - np.sqrt(fit.inside))
    length = max(reach / 4, least)
    while length >= least and length * length > 4 * work.tolerance:
        _copy(anchor, target)
        _shift(work, length, target)
        radius = _try(work, remaining, fit.held, target)
        if radius >= 0:
            return radius
        length = length / 2 if length == least else max(length / 2, least)
    return -1.0


@inner_kernel
def _centroid(work: Carving, remaining: Integers) -> Floats:
    out = np.zeros(work.X.shape[1])
    for row in remaining:
        out += work.X[row]
    return out / len(remaining)


@inner_kernel
def _grab(work: Carving, remaining: Integers, count: int, target: Floats) -> float:
    """Find a ball near the cell that contains at least ``count`` records (OUT: ``target``).

    Returns its radius. The centre is near the mean of ``count`` records, because few of the cell
    may remain and their mean could reveal them.
    """
    _copy(_centroid(work, remaining), target)
    centroid = _centroid(work, _find_nearest(work, remaining, count, target))
    _copy(centroid, target)
    length = 2 * np.sqrt(work.tolerance)
    while _nearest(work, work.everyone, target) <= work.tolerance:
        _copy(centroid, target)
        _shift(work, length, target)
        length *= 2
    _find_nearest(work, remaining, count, target)
    inside = work.scratch.distances[0, 0]
    outside = _beyond(work.others, target, inside)
    for some in (remaining, work.strays[: work.stray_count[0]]):
        for row in some:
            distance = _squared_distance(work.X[row], target)
            if inside < distance < outside:
                outside = distance
    return _halfway(inside, outside if outside < np.inf else 2 * inside)


@inner_kernel
def _find_nearest(work: Carving, remaining: Integers, count: int, target: Floats) -> Integers:
    """Return the nearest ``count`` records without a ball, farthest first (OUT: ``scratch``)."""
    _scan(work, work.others, target, count)
    distances, rows, size = (
        work.scratch.distances[0, :count],
        work.scratch.rows[0, :count],
        work.scratch.sizes[0],
    )
    for some in (remaining, work.strays[: work.stray_count[0]]):
        for row in some:
            size = offer(distances, rows, size, _squared_distance(work.X[row], target), row)
    return rows[:size]


@inner_kernel
def _beyond(points: Points, target: Floats, limit: float) -> float:
    """Return the smallest squared distance above the limit."""
    lane, out = np.empty(BLOCK), np.inf
    for b in range(-(-points.left[0] // BLOCK)):
        measure(points.blocks[b], target, lane)
        for i in range(min(BLOCK, points.left[0] - b * BLOCK)):
            if limit < lane[i] < out:
                out = lane[i]
    return out


@inner_kernel
def _take(
    work: Carving, balls: Balls, remaining: Integers, target: Floats, radius: float, k: int
) -> None:
    """Assign the ball its records if there are at least k; the rest of the cell become strays."""
    limit, lane, taken = radius * radius, np.empty(BLOCK), ZERO
    later, size = np.empty(work.others.left[0], dtype=np.int64), ZERO
    for b in range(-(-work.others.left[0] // BLOCK)):
        measure(work.others.blocks[b], target, lane)
        for i in range(min(BLOCK, work.others.left[0] - b * BLOCK)):
            if lane[i] <= limit:
                later[size] = work.others.rows[b * BLOCK + i]
                size += 1
    _stray(work, remaining)
    for i in range(work.stray_count[0]):
        taken += _squared_distance(work.X[work.strays[i]], target) <= limit
    if taken + size < k:
        return
    for row in later[:size]:
        take_out(work.others, row)
    kept = ZERO
    for i in range(work.stray_count[0]):
        row = work.strays[i]
        if _squared_distance(work.X[row], target) > limit:
            work.strays[kept] = row
            kept += 1
    work.stray_count[0] = kept
    balls.centres[balls.used[0]] = target
    balls.radii[balls.used[0]] = radius
    balls.used[0] += 1
