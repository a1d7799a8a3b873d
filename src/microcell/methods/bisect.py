"""Recursive bisection: a fast start for tables of any size."""

from itertools import pairwise

import numpy as np

from microcell.kernels.bisect import bisect_rows
from microcell.methods.registry import partitioner
from microcell.model import Floats, Integers

__all__ = ["bisect", "runs_as_labels", "split_large_cells"]


@partitioner(
    "bisect",
    summary="recursive splits along the principal axis of each part",
    sizes="k to 2k-1",
    cost="n log n steps",
    source="recursive bisection",
)
def bisect(X: Floats, k: int, *, weights: Floats | None, seed: int) -> Integers:
    """Return labels by recursive splits along the principal axis, down to cells of k to 2k-1.

    Splits are at multiples of k. Cells are elongated, so this is a starting point rather than a
    result. ``weights`` are ignored. Time O(n m log n), memory O(n).
    """
    rows = np.arange(len(X))
    starts = bisect_rows(X, rows, k, 2 * k - 1)
    return runs_as_labels(rows, starts)


def runs_as_labels(rows: Integers, starts: Integers) -> Integers:
    """Return the number of the run that each row is in."""
    labels = np.empty(len(rows), dtype=np.int64)
    labels[rows] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return labels


def split_large_cells(X: Floats, labels: Integers, k: int) -> Integers:
    """Bisect every cell of at least 2k records, which never raises the distortion."""
    sizes = np.bincount(labels)
    out, free = labels.copy(), len(sizes)
    large = np.flatnonzero((sizes >= 2 * k)[labels])
    large = large[np.argsort(labels[large], kind="stable")]
    for rows in np.split(large, np.flatnonzero(np.diff(labels[large])) + 1) if len(large) else ():
        starts = bisect_rows(X, rows, k, 2 * k - 1)
        for first, last in pairwise(starts[1:]):
            out[rows[first:last]] = free
            free += 1
    return out
