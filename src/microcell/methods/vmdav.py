"""V-MDAV: cells of k records that are extended by nearby records, up to 2k-1."""

from typing import Any

import numpy as np

from microcell import progress
from microcell.errors import OptionError
from microcell.kernels._jit import thread_count
from microcell.kernels.arrays import squared_distances, sum_of_squares
from microcell.kernels.scans import lay_out, make_scratch
from microcell.kernels.vmdav import Rank, make_growth, make_variable_cells
from microcell.methods.mdav import Pace
from microcell.methods.registry import partitioner
from microcell.model import Floats, Integers

__all__ = ["vmdav"]

GAMMAS = tuple(i / 10 for i in range(21))
"""The values that ``gamma="best"`` tries."""


@partitioner(
    "vmdav",
    summary="MDAV with variable sizes: a cell takes further records that are nearer to it than "
    "to others",
    sizes="k to 2k-1; a few cells larger",
    cost="n^2 / 2 distances (n^2 / (2k) with gamma = 0)",
    source="Solanas and Martinez-Balleste 2006",
)
def vmdav(X: Floats, k: int, *, weights: Floats | None, seed: int, gamma: Any = 0.2) -> Integers:
    """Return labels by V-MDAV (Solanas and Martinez-Balleste 2006).

    Cells of k start at the record farthest from the overall mean. A cell takes the remaining record
    nearest to any of its members, at squared distance d_in, while it has fewer than 2k-1 records
    and d_in < gamma * d_out, where d_out is that record's squared distance to its nearest other
    remaining record. The last records, fewer than k, each go to the cell of the nearest record.
    ``gamma="best"`` tries 0, 0.1, ..., 2 and keeps the least distortion. ``weights`` apply to the
    mean. Time O(n^2 m), memory twice the matrix.

    Squared distances, and nearest records rather than centroids at the end, reproduce the
    published results.
    """
    weights = np.ones(len(X)) if weights is None else weights
    if gamma == "best":
        candidates = (_grow(X, k, weights, value) for value in GAMMAS)
        return min(candidates, key=lambda labels: sum_of_squares(X, labels, weights))
    if not (isinstance(gamma, (int, float, np.number)) and 0 <= gamma < np.inf):
        raise OptionError(
            f"gamma must be a number of at least 0, or 'best', not {gamma!r}.",
            code="option.out_of_range",
            option="gamma",
        )
    return _grow(X, k, weights, float(gamma))


def _grow(X: Floats, k: int, weights: Floats, gamma: float) -> Integers:
    n, m = X.shape
    points, labels = lay_out(X), np.zeros(n, dtype=np.int64)
    rank = Rank(_farthest_first(X, weights), np.zeros(1, dtype=np.int64))
    rooms = {
        threads: (make_scratch(k, threads), make_growth(k, m, threads))
        for threads in (1, thread_count())
    }
    label, pace = 0, Pace(thread_count())
    while points.left[0] >= k:
        turn = pace.next()
        label = make_variable_cells(
            points, k, gamma, turn.rounds, rank, label, labels, *rooms[turn.threads]
        )
        progress.report("grouping records", n - int(points.left[0]), n)
    rest = np.sort(points.rows[: points.left[0]])
    placed = np.delete(np.arange(n), rest)
    for row in rest:
        labels[row] = labels[placed[np.argmin(squared_distances(X[placed], X[row]))]]
    return labels


def _farthest_first(X: Floats, weights: Floats) -> Integers:
    mean = np.average(X, axis=0, weights=weights)
    return np.argsort(-squared_distances(X, mean), kind="stable")
