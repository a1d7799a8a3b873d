"""MDAV: cells of k around the records farthest from the mean."""

import numpy as np

from microcell import progress
from microcell.kernels._jit import thread_count
from microcell.kernels.cells import squared_distances
from microcell.kernels.mdav import make_cells, make_running
from microcell.kernels.scans import Points, lay_out, make_scratch
from microcell.model import Floats, Integers
from microcell.partitioning._pace import Pace
from microcell.partitioning._registry import partitioner

__all__ = ["mdav"]


@partitioner(
    "mdav",
    summary="maximum distance to average vector: cells of k around the records farthest from the mean",
    sizes="k, the last cell up to 2k-1",
    cost="0.75 n^2 / k distances",
    source="Domingo-Ferrer and Torra 2005",
)
def mdav(X: Floats, k: int, *, weights: Floats | None, seed: int) -> Integers:
    """Labels by MDAV-generic (Domingo-Ferrer and Torra 2005).

    While 3k or more records remain: r, the one farthest from their mean, with its k-1 nearest, makes a cell; then
    s, the one farthest from r, with its k-1 nearest. Of what is left, r and its nearest make a cell if 2k or more
    remain, and the rest another. ``weights`` weigh the mean. Time O(n^2 m / k), memory twice the matrix.
    """
    n = len(X)
    points, labels = lay_out(X), np.zeros(n, dtype=np.int64)
    weights = np.ones(n) if weights is None else weights
    running, label, pace = make_running(X, weights), 0, Pace(thread_count())
    scratch = {threads: make_scratch(k, threads) for threads in (1, thread_count())}
    while points.left[0] >= 3 * k:
        turn = pace.next()
        label = make_cells(points, k, turn.rounds, label, labels, running, scratch[turn.threads])
        progress.report("grouping records", n - int(points.left[0]), n)
    return _finish(X, k, points, label, labels, weights)


def _finish(X: Floats, k: int, points: Points, label: int, labels: Integers, weights: Floats) -> Integers:
    """Share the last fewer than 3k records between one cell or two."""
    rest = np.sort(points.rows[: points.left[0]])
    labels[rest] = label
    if len(rest) >= 2 * k:
        mean = np.average(X[rest], axis=0, weights=weights[rest])
        r = rest[np.argmax(squared_distances(X[rest], mean))]
        distance = squared_distances(X[rest], X[r])
        distance[rest == r] = -1.0  # r is in its own cell even where duplicates tie with it
        labels[rest[np.argsort(distance, kind="stable")[k:]]] = label + 1
    return labels
