"""V-MDAV: cells of k to 2k-1, extended where the next record is near."""

from typing import Any

import numpy as np

from microcell import progress
from microcell.errors import OptionError
from microcell.kernels._jit import thread_count
from microcell.kernels.cells import squared_distances, sum_of_squares
from microcell.kernels.scans import lay_out, make_scratch
from microcell.kernels.vmdav import Rank, make_growth, make_variable_cells
from microcell.model import Floats, Integers
from microcell.partitioning._pace import Pace
from microcell.partitioning._registry import partitioner

__all__ = ["vmdav"]

GAMMAS = tuple(i / 10 for i in range(21))
"""What ``gamma="best"`` tries."""


@partitioner(
    "vmdav",
    summary="MDAV with variable sizes: a cell takes further records that lie nearer to it than to others",
    sizes="k to 2k-1, a few cells more",
    cost="n^2 / 2 distances (n^2 / (2k) with gamma = 0)",
    source="Solanas and Martinez-Balleste 2006",
)
def vmdav(X: Floats, k: int, *, weights: Floats | None, seed: int, gamma: Any = 0.2) -> Integers:
    """Labels by V-MDAV (Solanas and Martinez-Balleste 2006).

    Cells of k start at the record farthest from the mean of all. A cell takes the record left that is nearest to any
    of its members, at squared distance d_in, while it has fewer than 2k-1 and d_in < gamma * d_out, where d_out is
    that record's squared distance to its nearest other record left. The last fewer than k records go each to the cell
    of the record nearest to them. ``gamma="best"`` tries 0, 0.1, ..., 2 and keeps the least distortion. ``weights``
    weigh the mean. Time O(n^2 m), memory twice the matrix.

    Squared distances, and nearest records rather than centroids at the end, are what reproduces the published table.
    """
    weights = np.ones(len(X)) if weights is None else weights
    if gamma == "best":
        candidates = (_grow(X, k, weights, value) for value in GAMMAS)
        return min(candidates, key=lambda labels: sum_of_squares(X, labels, weights))
    if not (isinstance(gamma, (int, float, np.number)) and 0 <= gamma < np.inf):
        raise OptionError(f"gamma must be a number of 0 or more, or 'best', not {gamma!r}.")
    return _grow(X, k, weights, float(gamma))


def _grow(X: Floats, k: int, weights: Floats, gamma: float) -> Integers:
    n, m = X.shape
    points, labels = lay_out(X), np.zeros(n, dtype=np.int64)
    rank = Rank(_farthest_first(X, weights), np.zeros(1, dtype=np.int64))
    rooms = {threads: (make_scratch(k, threads), make_growth(k, m, threads)) for threads in (1, thread_count())}
    label, pace = 0, Pace(thread_count())
    while points.left[0] >= k:
        turn = pace.next()
        label = make_variable_cells(points, k, gamma, turn.rounds, rank, label, labels, *rooms[turn.threads])
        progress.report("grouping records", n - int(points.left[0]), n)
    rest = np.sort(points.rows[: points.left[0]])
    placed = np.delete(np.arange(n), rest)
    for row in rest:
        labels[row] = labels[placed[np.argmin(squared_distances(X[placed], X[row]))]]
    return labels


def _farthest_first(X: Floats, weights: Floats) -> Integers:
    mean = np.average(X, axis=0, weights=weights)
    return np.argsort(-squared_distances(X, mean), kind="stable")
