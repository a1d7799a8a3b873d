"""MDAV: cells of k around the records farthest from the mean."""

from itertools import pairwise

import numpy as np

from microcell import progress
from microcell.errors import OptionError
from microcell.kernels._jit import thread_count
from microcell.kernels.bisecting import bisect_rows
from microcell.kernels.cells import squared_distances
from microcell.kernels.mdav import make_cells, make_running
from microcell.kernels.scans import lay_out, make_scratch
from microcell.model import Floats, Integers
from microcell.partitioning._pace import Pace
from microcell.partitioning._registry import partitioner

__all__ = ["mdav"]


@partitioner(
    "mdav",
    summary="maximum distance to average vector: cells of k around the records farthest from the mean",
    sizes="k, the last cell up to 2k-1",
    cost="0.75 n^2 / k distances (n M / k in macrocells of M records)",
    source="Domingo-Ferrer and Torra 2005",
)
def mdav(X: Floats, k: int, *, weights: Floats | None, seed: int, macrocells: int | None = None) -> Integers:
    """Labels by MDAV-generic (Domingo-Ferrer and Torra 2005).

    While 3k or more records remain: r, the one farthest from their mean, with its k-1 nearest, makes a cell; then
    s, the one farthest from r, with its k-1 nearest. Of what is left, r and its nearest make a cell if 2k or more
    remain, and the rest another. ``weights`` weigh the mean. Time O(n^2 m / k), memory twice the matrix.

    ``macrocells``: first split the table into macrocells of at most so many records, and make cells within each: for
    large tables, at a little more distortion.
    """
    if macrocells is None:
        return _make_cells(X, k, np.ones(len(X)) if weights is None else weights)
    if isinstance(macrocells, bool) or not isinstance(macrocells, (int, np.integer)) or macrocells < 2 * k:
        raise OptionError(f"macrocells must be a whole number of 2k = {2 * k} or more, not {macrocells!r}.")
    rows, labels, done = np.arange(len(X)), np.empty(len(X), dtype=np.int64), 0
    for first, last in pairwise(bisect_rows(X, rows, k, int(macrocells))):
        own = rows[first:last]
        labels[own] = done + _make_cells(X[own], k, np.ones(len(own)) if weights is None else weights[own])
        done = int(labels[own].max()) + 1
        progress.report("grouping records in macrocells", int(last), len(X))
    return labels


def _make_cells(X: Floats, k: int, weights: Floats) -> Integers:
    n = len(X)
    labels = np.zeros(n, dtype=np.int64)
    if n < 3 * k:  # as most cells that are to be split
        return _finish(X, k, np.arange(n), 0, labels, weights)
    points = lay_out(X)
    running, label, pace = make_running(X, weights), 0, Pace(thread_count())
    scratch = {threads: make_scratch(k, threads) for threads in (1, thread_count())}
    while points.left[0] >= 3 * k:
        turn = pace.next()
        label = make_cells(points, k, turn.rounds, label, labels, running, scratch[turn.threads])
        progress.report("grouping records", n - int(points.left[0]), n)
    return _finish(X, k, np.sort(points.rows[: points.left[0]]), label, labels, weights)


def _finish(X: Floats, k: int, rest: Integers, label: int, labels: Integers, weights: Floats) -> Integers:
    """Share the last fewer than 3k records, in order, between one cell or two."""
    labels[rest] = label
    if len(rest) >= 2 * k:
        own, each = X[rest], weights[rest]
        mean = (own * each[:, np.newaxis]).sum(axis=0) / each.sum()
        r = np.argmax(squared_distances(own, mean))
        distance = squared_distances(own, own[r])
        distance[r] = -1.0  # r is in its own cell even where duplicates tie with it
        labels[rest[np.argsort(distance, kind="stable")[k:]]] = label + 1
    return labels
