"""The rounds of MDAV where a cell grows until enough of its candidates are likely to take part."""

import numpy as np

from microcell.kernels._arrays import Floats, Integers
from microcell.kernels._jit import ZERO, inner_kernel, kernel
from microcell.kernels.mdav import Running, assign
from microcell.kernels.participation import least_enough
from microcell.kernels.scans import Points, Scratch, put_back, read_point, scan, take_out

__all__ = ["EXHAUSTED", "FIRST", "SHORT", "grow_cells"]

FIRST = -1
"""In place of the next reference record: it is the one farthest from the mean."""

SHORT, EXHAUSTED = -2, -3
"""The scratch holds too few near records for the next cell; all that remain are too few for it."""


@kernel
def grow_cells(
    points: Points,
    k: int,
    limit: float,
    rounds: int,
    progress: Integers,
    labels: Integers,
    running: Running,
    scratch: Scratch,
) -> int:
    """Make up to ``rounds`` cells (OUT: all arrays); 0, or why it stopped before: ``SHORT`` or ``EXHAUSTED``.

    ``progress``: the next free label and the next reference record. By turns that is r, the record farthest from the
    mean of those that remain, and the one farthest from r. A cell takes the nearest to its reference, in order, until
    it has k and fails with probability ``limit`` or less; participation is the weights of ``running``. O(n m) a cell.
    """
    m = points.blocks.shape[1]
    mean, target = np.empty(m), np.empty(m)
    for _ in range(rounds):
        if points.left[0] == 0:
            return EXHAUSTED
        row = progress[1]
        if row == FIRST:
            for j in range(m):
                mean[j] = (running.sums[j] + running.errors[j]) / running.total[0]
            row = scan(points, mean, scratch, ZERO)
        read_point(points, row, target)
        farthest = _grow(points, k, limit, row, target, progress[0], labels, running, scratch)
        if farthest < FIRST:
            return farthest
        progress[0] += 1
        if progress[1] != FIRST or points.left[0] == 0:
            progress[1] = FIRST
        elif points.places[farthest] < 0:  # the farthest went into the cell: few distinct records are left
            progress[1] = scan(points, target, scratch, ZERO)
        else:
            progress[1] = farthest
    return 0


@inner_kernel
def _grow(
    points: Points,
    k: int,
    limit: float,
    row: int,
    target: Floats,
    label: int,
    labels: Integers,
    running: Running,
    scratch: Scratch,
) -> int:
    """Make the cell of the record and its nearest; the farthest from it, or why there is none, and then nothing."""
    wanted = min(scratch.rows.shape[1], points.left[0] - 1)
    take_out(points, row)
    farthest = scan(points, target, scratch, wanted)
    found, distances = scratch.rows[0, :wanted], scratch.distances[0, :wanted]
    by_row = np.argsort(found)
    order = by_row[np.argsort(distances[by_row], kind="mergesort")]
    chances = np.empty(wanted + 1)
    chances[0] = running.weights[row]
    for i in range(wanted):
        chances[i + 1] = running.weights[found[order[i]]]
    size = least_enough(chances, k, limit)
    short = points.left[0] > wanted
    put_back(points, row, target)
    if size < 0:
        return SHORT if short else EXHAUSTED
    assign(points, row, label, labels, running)
    for i in range(size - 1):
        assign(points, found[order[i]], label, labels, running)
    return farthest if farthest >= 0 else row
