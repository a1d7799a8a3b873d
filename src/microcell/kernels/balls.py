"""Cells as balls in order: each takes the records it holds from those left.

A ball must hold the records of its cell and none of a later one, and its centre must not give a record away. Centres
are tried from far to near around the cell's *anchor*, the record whose nearest ones the cell is made of: on the line
through the anchor and the cell's centroid, a little beside it, then ever closer to the anchor. Where no ball
separates, because records tie, one takes as many records as the cell has, whosoever they are.
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import ZERO, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers, Seeds
from microcell.kernels.random import draw
from microcell.kernels.scans import BLOCK, Points, Scratch, measure, offer, scan_chunk, take_out

__all__ = ["Balls", "Carving", "carve", "find_balls"]

_ALONG = (0.0, 3.0, 2.5, 2.0, 0.25, 0.5, 1.5, 0.75, 1.25)
"""Where centres are tried on the line from the centroid (0) to the anchor (1)."""

_BESIDE = 0.25
"""How far beside the line, relative to the nearer of these two: from the line the anchor could be calculated."""

_OF_THE_GAP = 0.225
"""A centre so near the anchor, relative to the gap around its ball, separates as the anchor does."""

_ONE: int = np.int64(1)  # type: ignore[assignment]  # as ZERO is


class Balls(NamedTuple):
    """The balls made so far: the first ``made[0]`` rows."""

    centres: Floats
    radii: Floats
    made: Integers


class Carving(NamedTuple):
    """A partition being turned into balls."""

    X: Floats
    members: Integers
    """Rows in order of their cells; those of cell c from place ``starts[c]`` to ``starts[c + 1] - 1``."""
    starts: Integers
    means: Floats
    """(G, m): the mean of the records of each cell and the later ones."""
    everyone: Points
    others: Points
    """The records of later cells that no ball has taken."""
    strays: Integers
    """Rows of earlier cells that no ball has taken: the first ``stray_count[0]``."""
    stray_count: Integers
    anchor: Floats
    """The last cell's anchor."""
    scratch: Scratch
    chance: Seeds
    tolerance: float
    """How far centres stay from all records, squared."""


class _Fit(NamedTuple):
    """How many records of a cell are nearer than all later ones; squared, how far the last of them and the next one."""

    held: int
    inside: float
    outside: float


@kernel
def find_balls(X: Floats, centres: Floats, radii: Floats) -> Integers:
    """The first ball that holds each point, the number of balls where none does. O(n B m)."""
    out = np.full(len(X), len(radii))
    for i in range(len(X)):
        for b in range(len(radii)):
            if _squared_distance(X[i], centres[b]) <= radii[b] * radii[b]:
                out[i] = b
                break
    return out


@kernel
def carve(work: Carving, balls: Balls, k: int, first: int, last: int) -> None:
    """Make balls of the cells ``first`` to ``last - 1``, of k or more records each (OUT: all but k, first, last).

    A cell that has lost all its records to others makes no ball. What a ball does not hold of its cell strays to
    whichever later ball holds it. O(n m) a try, a handful of tries a cell.
    """
    target = np.empty(work.X.shape[1])
    for cell in range(first, last):
        own = _gather(work, cell)
        if work.others.left[0] > 0 and len(own) > 0:
            radius = _separate(work, own, cell, k, target)
            if radius < 0:
                radius = _grab(work, own, max(k, len(own)), target)
            _take(work, balls, own, target, radius, k)
        else:
            _stray(work, own)


@inner_kernel
def _squared_distance(x: Floats, y: Floats) -> float:
    out = 0.0
    for j in range(len(x)):
        out += (x[j] - y[j]) * (x[j] - y[j])
    return out


@inner_kernel
def _gather(work: Carving, cell: int) -> Integers:
    """The rows of the cell that no ball has taken; they are later ones no more."""
    rows = work.members[work.starts[cell] : work.starts[cell + 1]]
    own, size = np.empty(len(rows), dtype=np.int64), ZERO
    for row in rows:
        if work.others.places[row] >= 0:
            take_out(work.others, row)
            own[size] = row
            size += 1
    return own[:size]


@inner_kernel
def _stray(work: Carving, rows: Integers) -> None:
    for row in rows:
        work.strays[work.stray_count[0]] = row
        work.stray_count[0] += 1


@inner_kernel
def _scan(work: Carving, points: Points, target: Floats, count: int) -> None:
    """Find the ``count`` nearest of the points (OUT: ``scratch``), on one thread: scans of a few records are short."""
    scan_chunk(points, ZERO, -(-points.left[0] // BLOCK), target, work.scratch, ZERO, count)


@inner_kernel
def _nearest(work: Carving, points: Points, target: Floats) -> float:
    """The squared distance of the nearest of the points."""
    _scan(work, points, target, _ONE)
    return work.scratch.distances[0, 0]  # type: ignore[no-any-return]


@inner_kernel
def _fit(work: Carving, own: Integers, target: Floats) -> _Fit:
    outside, held, inside = _nearest(work, work.others, target), ZERO, 0.0
    for row in own:
        distance = _squared_distance(work.X[row], target)
        if distance < outside:
            held += 1
            inside = max(inside, distance)
    return _Fit(held, inside, outside)


@inner_kernel
def _halfway(inside: float, outside: float) -> float:
    """A radius whose square is not below ``inside``, half-way to ``outside`` in distance."""
    radius = (np.sqrt(inside) + np.sqrt(outside)) / 2
    while radius * radius < inside:
        radius = np.nextafter(radius, np.inf)
    return radius  # type: ignore[no-any-return]


@inner_kernel
def _farthest(work: Carving, own: Integers, point: Floats) -> int:
    best, out = -1.0, own[0]
    for row in own:
        distance = _squared_distance(work.X[row], point)
        if distance > best:
            best, out = distance, row
    return out  # type: ignore[no-any-return]


@inner_kernel
def _find_anchor(work: Carving, own: Integers, cell: int) -> _Fit:
    """The fit of the record around which the most of the cell are nearer than all later ones (OUT: ``anchor``).

    MDAV's are farthest from the mean of those left, or from the anchor before; V-MDAV's, from the mean of all. Any
    other record is tried if those fail, as with weights that are not known here.
    """
    tried = np.empty(len(own) + 3, dtype=np.int64)
    tried[0] = _farthest(work, own, work.means[cell])
    tried[1] = _farthest(work, own, work.anchor)
    tried[2] = _farthest(work, own, work.means[0])
    tried[3:] = own
    best, fit = tried[0], _fit(work, own, work.X[tried[0]])
    for row in tried[1:]:
        if fit.held == len(own):
            break
        other = _fit(work, own, work.X[row])
        if other.held > fit.held:
            best, fit = row, other
    work.anchor[:] = work.X[best]
    return fit


@inner_kernel
def _shift(work: Carving, length: float, target: Floats) -> None:
    """Move the target so far in a random direction (OUT: ``target``)."""
    direction, norm = np.empty(len(target)), 0.0
    while norm == 0:
        for j in range(len(target)):
            direction[j] = draw(work.chance) - 0.5
            norm += direction[j] * direction[j]
    target += direction * (length / np.sqrt(norm))


@inner_kernel
def _try(work: Carving, own: Integers, wanted: int, target: Floats) -> float:
    """The radius of a ball around the target that separates as many as wanted; -1 if none does, or a record is near."""
    fit = _fit(work, own, target)
    if fit.held < wanted:
        return -1.0
    radius = _halfway(fit.inside, fit.outside)
    apart = radius * radius < fit.outside
    return radius if apart and _nearest(work, work.everyone, target) > work.tolerance else -1.0


@inner_kernel
def _separate(work: Carving, own: Integers, cell: int, k: int, target: Floats) -> float:
    """The radius of a ball that holds as many of the cell as can be told from later ones (OUT: ``target``), or -1."""
    fit, anchor = _find_anchor(work, own, cell), work.anchor
    if fit.held < k:
        return -1.0
    centroid = _centroid(work, own)
    reach = np.sqrt(_squared_distance(anchor, centroid))
    for t in _ALONG:
        target[:] = centroid + t * (anchor - centroid)
        _shift(work, _BESIDE * min(abs(t), abs(t - 1)) * reach, target)
        radius = _try(work, own, fit.held, target)
        if radius >= 0:
            return radius
    least = _OF_THE_GAP * (np.sqrt(fit.outside) - np.sqrt(fit.inside))
    length = max(reach / 4, least)
    while length >= least and length * length > 4 * work.tolerance:
        target[:] = anchor
        _shift(work, length, target)
        radius = _try(work, own, fit.held, target)
        if radius >= 0:
            return radius
        length = length / 2 if length == least else max(length / 2, least)
    return -1.0


@inner_kernel
def _centroid(work: Carving, own: Integers) -> Floats:
    out = np.zeros(work.X.shape[1])
    for row in own:
        out += work.X[row]
    return out / len(own)


@inner_kernel
def _grab(work: Carving, own: Integers, count: int, target: Floats) -> float:
    """The radius of a ball near the cell that holds ``count`` records or more, whosoever they are (OUT: ``target``).

    Its centre is near the mean of ``count`` records: few of the cell may be left, and their own mean tell of them.
    """
    target[:] = _centroid(work, own)
    centroid = _centroid(work, _find_nearest(work, own, count, target))
    target[:], length = centroid, 2 * np.sqrt(work.tolerance)
    while _nearest(work, work.everyone, target) <= work.tolerance:
        target[:] = centroid
        _shift(work, length, target)
        length *= 2
    _find_nearest(work, own, count, target)
    inside = work.scratch.distances[0, 0]
    outside = _beyond(work.others, target, inside)
    for some in (own, work.strays[: work.stray_count[0]]):
        for row in some:
            distance = _squared_distance(work.X[row], target)
            if inside < distance < outside:
                outside = distance
    return _halfway(inside, outside if outside < np.inf else 2 * inside)


@inner_kernel
def _find_nearest(work: Carving, own: Integers, count: int, target: Floats) -> Integers:
    """The ``count`` nearest of all records that no ball has taken, the farthest of them first (OUT: ``scratch``)."""
    _scan(work, work.others, target, count)
    distances, rows, size = (
        work.scratch.distances[0, :count],
        work.scratch.rows[0, :count],
        work.scratch.sizes[0],
    )
    for some in (own, work.strays[: work.stray_count[0]]):
        for row in some:
            size = offer(distances, rows, size, _squared_distance(work.X[row], target), row)
    return rows[:size]


@inner_kernel
def _beyond(points: Points, target: Floats, limit: float) -> float:
    """The least squared distance above the limit."""
    lane, out = np.empty(BLOCK), np.inf
    for b in range(-(-points.left[0] // BLOCK)):
        measure(points.blocks[b], target, lane)
        for i in range(min(BLOCK, points.left[0] - b * BLOCK)):
            if limit < lane[i] < out:
                out = lane[i]
    return out


@inner_kernel
def _take(
    work: Carving, balls: Balls, own: Integers, target: Floats, radius: float, k: int
) -> None:
    """Give the ball all that it holds, if they are k or more; the rest of the cell strays."""
    limit, lane, taken = radius * radius, np.empty(BLOCK), ZERO
    later, size = np.empty(work.others.left[0], dtype=np.int64), ZERO
    for b in range(-(-work.others.left[0] // BLOCK)):
        measure(work.others.blocks[b], target, lane)
        for i in range(min(BLOCK, work.others.left[0] - b * BLOCK)):
            if lane[i] <= limit:
                later[size] = work.others.rows[b * BLOCK + i]
                size += 1
    _stray(work, own)
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
    balls.centres[balls.made[0]] = target
    balls.radii[balls.made[0]] = radius
    balls.made[0] += 1
