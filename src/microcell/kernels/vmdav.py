"""The cells of V-MDAV."""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import ZERO, inner_kernel, kernel, parallel_kernel, prange
from microcell.kernels.arrays import Floats, Integers
from microcell.kernels.scans import (
    BLOCK,
    Points,
    Scratch,
    measure,
    put_back,
    read_point,
    scan,
    take_out,
)

__all__ = ["Growth", "Rank", "make_growth", "make_variable_cells"]


_BLOCKS_A_CHUNK = 32  # below this a thread costs more than it saves


class Growth(NamedTuple):
    """A growing cell: its members, and the remaining record nearest to each (-1: none)."""

    members: Floats
    distances: Floats
    rows: Integers
    chunk_distances: Floats
    chunk_rows: Integers


class Rank(NamedTuple):
    """Row numbers by distance from the mean, farthest first; ``used[0]`` have been processed."""

    rows: Integers
    used: Integers


def make_growth(k: int, m: int, chunks: int) -> Growth:
    """Allocate a cell of up to 2k members in m dimensions, searched in ``chunks`` chunks."""
    most = 2 * k
    return Growth(
        np.empty((most, m)),
        np.empty(most),
        np.empty(most, dtype=np.int64),
        np.empty((chunks, most)),
        np.empty((chunks, most), dtype=np.int64),
    )


@inner_kernel
def _nearest_in_blocks(
    points: Points, first: int, last: int, targets: Floats, distances: Floats, rows: Integers
) -> None:
    """Find the nearest record of each target in some blocks (OUT: ``distances``, ``rows``)."""
    distances[: len(targets)] = np.inf
    rows[: len(targets)] = -1
    lane = np.empty(BLOCK)
    for b in range(first, last):
        count = min(BLOCK, points.left[0] - b * BLOCK)
        for t in range(len(targets)):
            measure(points.blocks[b], targets[t], lane)
            best, best_row, hits = distances[t], rows[t], 0
            for i in range(count):
                hits += lane[i] <= best
            if hits == 0:
                continue
            for i in range(count):
                row = points.rows[b * BLOCK + i]
                if lane[i] < best or (lane[i] == best and row < best_row):
                    best, best_row = lane[i], row
            distances[t], rows[t] = best, best_row


@parallel_kernel
def _nearest_in_chunks(
    points: Points, targets: Floats, blocks: int, chunk_distances: Floats, chunk_rows: Integers
) -> None:
    chunks = len(chunk_distances)
    for chunk in prange(chunks):
        first, last = blocks * chunk // chunks, blocks * (chunk + 1) // chunks
        _nearest_in_blocks(points, first, last, targets, chunk_distances[chunk], chunk_rows[chunk])


@inner_kernel
def _find_nearest(points: Points, growth: Growth, first: int, last: int) -> None:
    """Find the remaining record nearest to each of some members (OUT: ``growth``)."""
    blocks = -(-points.left[0] // BLOCK)
    targets = growth.members[first:last]
    distances, rows = growth.distances[first:last], growth.rows[first:last]
    if len(growth.chunk_distances) == 1 or blocks * len(targets) < _BLOCKS_A_CHUNK * len(
        growth.chunk_distances
    ):
        _nearest_in_blocks(points, ZERO, blocks, targets, distances, rows)
        return
    _nearest_in_chunks(points, targets, blocks, growth.chunk_distances, growth.chunk_rows)
    for t in range(len(targets)):
        distances[t], rows[t] = growth.chunk_distances[0, t], growth.chunk_rows[0, t]
        for chunk in range(1, len(growth.chunk_distances)):
            distance, row = growth.chunk_distances[chunk, t], growth.chunk_rows[chunk, t]
            if row >= 0 and (
                distance < distances[t] or (distance == distances[t] and row < rows[t])
            ):
                distances[t], rows[t] = distance, row


@inner_kernel
def _nearest_member(growth: Growth, size: int) -> int:
    """Return the member that has the nearest remaining record of all."""
    best = 0
    for t in range(1, size):
        if growth.distances[t] < growth.distances[best] or (
            growth.distances[t] == growth.distances[best] and growth.rows[t] < growth.rows[best]
        ):
            best = t
    return best


@inner_kernel
def _extend(
    points: Points, k: int, gamma: float, growth: Growth, label: int, labels: Integers
) -> None:
    """Extend a cell of k by records that are near it.

    A record joins if its squared distance is below gamma times that to the other remaining records.
    """
    _find_nearest(points, growth, ZERO, k)
    for size in range(k, 2 * k - 1):
        nearest = _nearest_member(growth, size)
        u, inside = growth.rows[nearest], growth.distances[nearest]
        if u < 0:
            return
        read_point(points, u, growth.members[size])
        take_out(points, u)
        # This is also the nearest record of u as a member, if it joins.
        _find_nearest(points, growth, size, size + 1)
        if not inside < gamma * growth.distances[size]:
            put_back(points, u, growth.members[size])
            return
        labels[u] = label
        for t in range(size):
            if growth.rows[t] == u:
                _find_nearest(points, growth, t, t + 1)


@kernel
def make_variable_cells(
    points: Points,
    k: int,
    gamma: float,
    cells: int,
    rank: Rank,
    label: int,
    labels: Integers,
    scratch: Scratch,
    growth: Growth,
) -> int:
    """Form up to ``cells`` cells and return the next free label (OUT). O(n m k) per cell."""
    for _ in range(cells):
        if points.left[0] < k:
            break
        while points.places[rank.rows[rank.used[0]]] < 0:
            rank.used[0] += 1
        e = rank.rows[rank.used[0]]
        read_point(points, e, growth.members[0])
        take_out(points, e)
        labels[e] = label
        scan(points, growth.members[0], scratch, k - 1)
        for i in range(k - 1):
            row = scratch.rows[0, i]
            read_point(points, row, growth.members[i + 1])
            take_out(points, row)
            labels[row] = label
        if gamma > 0:
            _extend(points, k, gamma, growth, label, labels)
        label += 1
    return label
