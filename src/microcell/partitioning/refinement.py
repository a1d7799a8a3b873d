"""Refinement: local search that improves any partition."""

import numpy as np

from microcell import progress
from microcell.kernels.cells import sum_of_squares
from microcell.model import Floats, Integers
from microcell.partitioning._search import MANY_CELLS, Plan, Search

__all__ = ["refine_labels"]

_ROUNDS = 12
_ENOUGH = 1e-4
"""A round that lowers the SSE by less than this share is the last."""


def refine_labels(
    X: Floats, labels: Integers, k: int, *, weights: Floats | None = None, seed: int = 0, rebuild: bool = True
) -> Integers:
    """The labels after local search: records move or change places between near cells; cells are rebuilt, if asked.

    Up to a dozen rounds; one that gains next to nothing is the last. Never raises the distortion. Cells of 2k or more
    are split. Time O(n m k) a round, memory about twice the matrix.
    """
    each = np.ones(len(X)) if weights is None else weights
    before = sum_of_squares(X, labels, each)
    search = Search(X, labels, k, weights, seed)
    for done in range(_ROUNDS):
        progress.report("refining", done, _ROUNDS)
        last = search.sse
        steps = 1.0 if rebuild and search.cells <= MANY_CELLS else 0.0  # of many cells, exchanges gain more in the time
        if search.round(Plan(steps=steps)) == 0 or last - search.sse < _ENOUGH * last:
            break
    return search.labels if search.sse <= before else labels
