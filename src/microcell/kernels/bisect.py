"""Recursive bisection along the principal axis."""

import numpy as np

from microcell.kernels._jit import inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers

__all__ = ["bisect_rows"]

_SAMPLE = 256
_ITERATIONS = 6


@kernel
def bisect_rows(X: Floats, rows: Integers, unit: int, most: int) -> Integers:
    """Reorder ``rows`` (OUT) into runs of nearby records, each of at most ``most``.

    Returns the start of each run, and the end of the last. A run is split along its principal axis,
    at a multiple of ``unit`` near its middle, while it has more than ``most`` records and at least
    twice ``unit``. O(n m log(n / most)) time, not counting sorting.
    """
    n = len(rows)
    starts, waiting = [0], [(0, n)]
    starts.pop()
    while len(waiting) > 0:
        first, last = waiting.pop()
        size = last - first
        if size <= most or size < 2 * unit:
            starts.append(first)
            continue
        left = (size // unit) // 2 * unit
        _sort_along_axis(X, rows[first:last])
        waiting.append((first + left, last))  # the left part is popped first, so runs are in order
        waiting.append((first, first + left))
    starts.append(n)
    return np.array(starts)


@inner_kernel
def _sort_along_axis(X: Floats, rows: Integers) -> None:
    """Sort rows along the principal axis of a sample, found by power iteration (OUT: ``rows``)."""
    m, step = X.shape[1], max(1, len(rows) // _SAMPLE)
    sample = X[rows[::step]].copy()
    for j in range(m):
        sample[:, j] -= sample[:, j].mean()
    axis = np.zeros(m)
    for j in range(m):
        axis[j] = (sample[:, j] ** 2).sum()
    for _ in range(_ITERATIONS):
        renewed = np.zeros(m)
        for i in range(len(sample)):
            place = 0.0
            for j in range(m):
                place += sample[i, j] * axis[j]
            for j in range(m):
                renewed[j] += place * sample[i, j]
        length = np.sqrt((renewed**2).sum())
        if length == 0:
            break
        axis = renewed / length
    if ((sample @ axis) ** 3).sum() < 0:
        axis = -axis  # longer tail to the right, so that mirrored data give mirrored runs
    places = np.zeros(len(rows))
    for i in range(len(rows)):
        for j in range(m):
            places[i] += X[rows[i], j] * axis[j]
    ordered = rows[np.argsort(places, kind="mergesort")]
    for i in range(len(rows)):
        rows[i] = ordered[i]
