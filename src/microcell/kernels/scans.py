"""Scans over the remaining records: the k nearest to a point, and the farthest from it.

Records lie in blocks of :data:`BLOCK`, column-major within a block, so that a block fits the cache
and the distances of its records are vectorized, each summed over the columns in order. A removed
record is replaced by the last one, so the blocks stay dense; ties are decided by row number, not by
place. O(n m) time per scan.
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import ZERO, inner_kernel, parallel_kernel, prange
from microcell.kernels.arrays import Floats, Integers

__all__ = [
    "BLOCK",
    "Points",
    "Scratch",
    "lay_out",
    "make_scratch",
    "measure",
    "offer",
    "put_back",
    "read_point",
    "scan",
    "take_out",
]


@inner_kernel
def offer(distances: Floats, rows: Integers, size: int, distance: float, row: int) -> int:
    """Offer a record to a heap, largest first (OUT: ``distances``, ``rows``); return its size.

    A full heap drops its largest entry if the new one is smaller. O(log size).
    """
    if size < len(distances):
        place = size
        size += 1
        while place > 0:  # sift up
            parent = (place - 1) // 2
            if distances[parent] > distance or (
                distances[parent] == distance and rows[parent] > row
            ):
                break
            distances[place] = distances[parent]
            rows[place] = rows[parent]
            place = parent
    else:
        if size == 0 or distance > distances[0] or (distance == distances[0] and row > rows[0]):
            return size
        place = 0
        while True:  # sift down
            child = 2 * place + 1
            if child >= size:
                break
            right = child + 1
            if right < size and (
                distances[right] > distances[child]
                or (distances[right] == distances[child] and rows[right] > rows[child])
            ):
                child = right
            if distance > distances[child] or (distance == distances[child] and row > rows[child]):
                break
            distances[place] = distances[child]
            rows[place] = rows[child]
            place = child
    distances[place] = distance
    rows[place] = row
    return size


BLOCK = 256
_ENTRIES_A_CHUNK = 100_000  # below this a thread costs more than it saves


class Points(NamedTuple):
    """Remaining records: ``blocks[b, j, i]`` is column j of the record at ``b * BLOCK + i``."""

    blocks: Floats
    rows: Integers
    """Row number of the record at each place."""
    places: Integers
    """Place of each row number; -1 once removed."""
    left: Integers
    """Number of remaining records, in an array of one."""


class Scratch(NamedTuple):
    """Results of a scan: a heap and a farthest record per chunk, merged into the first."""

    distances: Floats
    rows: Integers
    sizes: Integers
    far_distance: Floats
    far_row: Integers


def lay_out(X: Floats) -> Points:
    """Arrange the records of ``X`` in blocks, all remaining."""
    n, m = X.shape
    count = -(-n // BLOCK)
    blocks = np.zeros((count, m, BLOCK))
    full = n // BLOCK
    blocks[:full] = X[: full * BLOCK].reshape(full, BLOCK, m).transpose(0, 2, 1)
    if full < count:
        blocks[full, :, : n - full * BLOCK] = X[full * BLOCK :].T
    return Points(blocks, np.arange(n), np.arange(n), np.array([n]))


def make_scratch(k: int, chunks: int) -> Scratch:
    """Allocate space for scans for up to ``k`` nearest records in up to ``chunks`` chunks."""
    return Scratch(
        np.zeros((chunks, k)),
        np.zeros((chunks, k), dtype=np.int64),
        np.zeros(chunks, dtype=np.int64),
        np.zeros(chunks),
        np.zeros(chunks, dtype=np.int64),
    )


@inner_kernel
def read_point(points: Points, row: int, out: Floats) -> None:
    """Copy the record with this row number (OUT: ``out``)."""
    block, lane = divmod(points.places[row], BLOCK)
    for j in range(len(out)):
        out[j] = points.blocks[block, j, lane]


@inner_kernel
def take_out(points: Points, row: int) -> None:
    """Remove a record; the last one moves to its place."""
    place, last = points.places[row], points.left[0] - 1
    block, lane = divmod(place, BLOCK)
    last_block, last_lane = divmod(last, BLOCK)
    for j in range(points.blocks.shape[1]):
        points.blocks[block, j, lane] = points.blocks[last_block, j, last_lane]
    moved = points.rows[last]
    points.rows[place] = moved
    points.places[moved] = place
    points.places[row] = -1
    points.left[0] = last


@inner_kernel
def put_back(points: Points, row: int, values: Floats) -> None:
    """Put a removed record back among the remaining ones."""
    place = points.left[0]
    block, lane = divmod(place, BLOCK)
    for j in range(len(values)):
        points.blocks[block, j, lane] = values[j]
    points.rows[place] = row
    points.places[row] = place
    points.left[0] = place + 1


@inner_kernel
def measure(block: Floats, target: Floats, out: Floats) -> None:
    """Compute squared distances of a block from ``target``, summed over columns in order (OUT)."""
    m = block.shape[0]
    out[:] = 0.0
    j = 0
    while j + 4 <= m:
        a, b, c, d = target[j], target[j + 1], target[j + 2], target[j + 3]
        for i in range(BLOCK):
            p, q, r, s = (
                block[j, i] - a,
                block[j + 1, i] - b,
                block[j + 2, i] - c,
                block[j + 3, i] - d,
            )
            out[i] = (((out[i] + p * p) + q * q) + r * r) + s * s
        j += 4
    while j < m:
        a = target[j]
        for i in range(BLOCK):
            p = block[j, i] - a
            out[i] += p * p
        j += 1


@inner_kernel
def scan_chunk(
    points: Points, first: int, last: int, target: Floats, scratch: Scratch, chunk: int, k: int
) -> None:
    """Scan some blocks for the ``k`` nearest and the farthest (OUT: row ``chunk`` of scratch)."""
    distances, rows = scratch.distances[chunk, :k], scratch.rows[chunk, :k]
    size, far, far_row = ZERO, -1.0, np.int64(-1)
    worst = np.inf if k > 0 else -1.0
    lane = np.empty(BLOCK)
    for b in range(first, last):
        measure(points.blocks[b], target, lane)
        count = min(BLOCK, points.left[0] - b * BLOCK)
        hits = 0
        for i in range(count):
            hits += (lane[i] <= worst) | (lane[i] >= far)
        if hits == 0:
            continue
        for i in range(count):
            if lane[i] >= far:
                row = points.rows[b * BLOCK + i]
                if lane[i] > far or row < far_row:
                    far, far_row = lane[i], row
            if lane[i] <= worst:
                size = offer(distances, rows, size, lane[i], points.rows[b * BLOCK + i])
                if size == k:
                    worst = distances[0]
    scratch.sizes[chunk] = size
    scratch.far_distance[chunk] = far
    scratch.far_row[chunk] = far_row


@parallel_kernel
def _scan_chunks(
    points: Points, target: Floats, scratch: Scratch, chunks: int, blocks: int, k: int
) -> None:
    for chunk in prange(chunks):
        index: int = np.int64(chunk)  # type: ignore[assignment]  # prange's index is unsigned
        scan_chunk(
            points,
            blocks * chunk // chunks,
            blocks * (chunk + 1) // chunks,
            target,
            scratch,
            index,
            k,
        )


@inner_kernel
def scan(points: Points, target: Floats, scratch: Scratch, k: int) -> int:
    """Return the row farthest from ``target``; the ``k`` nearest are in ``scratch.rows[0]`` (OUT).

    The order by distance and row number is total, so the result does not depend on the chunks.
    """
    blocks = -(-points.left[0] // BLOCK)
    chunks = max(1, min(len(scratch.sizes), points.left[0] * len(target) // _ENTRIES_A_CHUNK))
    if chunks == 1:
        scan_chunk(points, ZERO, blocks, target, scratch, ZERO, k)
    else:
        _scan_chunks(points, target, scratch, chunks, blocks, k)
    far, far_row = scratch.far_distance[0], scratch.far_row[0]
    distances, rows, size = scratch.distances[0, :k], scratch.rows[0, :k], scratch.sizes[0]
    for chunk in range(1, chunks):
        distance, row = scratch.far_distance[chunk], scratch.far_row[chunk]
        if distance > far or (distance == far and row < far_row):
            far, far_row = distance, row
        for i in range(scratch.sizes[chunk]):
            size = offer(distances, rows, size, scratch.distances[chunk, i], scratch.rows[chunk, i])
    scratch.sizes[0] = size
    return far_row  # type: ignore[no-any-return]
