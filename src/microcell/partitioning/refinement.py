"""Refinement: local search that improves any partition."""

from time import monotonic

import numpy as np

from microcell import progress
from microcell.kernels.cells import sum_of_squares
from microcell.kernels.rules import Rule
from microcell.model import Floats, Integers
from microcell.partitioning._search import MANY_CELLS, Search

__all__ = ["ROUNDS", "refine_labels"]

ROUNDS = 12
_ENOUGH = 1e-4
"""A round that lowers the SSE by less than this share is the last."""

_TRIES_TO_RECOUNT = 100.0
"""So many tries for each record let the average cell try once whether it had better dissolve or another arise."""


def refine_labels(
    X: Floats,
    labels: Integers,
    k: int,
    *,
    weights: Floats | None = None,
    seed: int = 0,
    rounds: int = ROUNDS,
    deadline: float = np.inf,
    rule: Rule | None = None,
) -> Integers:
    """The labels after local search: records move or change places between near cells; cells dissolve, or arise.

    Up to ``rounds`` rounds, none begun that would end after the ``deadline`` (of :func:`time.monotonic`); one that
    gains next to nothing is the last. Never raises the distortion. Cells of 2k or more are split, unless there is a
    ``rule``, which every change keeps. Time O(n m k) a round, memory about twice the matrix.
    """
    each = np.ones(len(X)) if weights is None else weights
    before = sum_of_squares(X, labels, each)
    search = Search(X, labels, k, weights, seed, rule)
    started = monotonic()
    for done in range(rounds):
        took = (monotonic() - started) / done if done else 0.0
        if monotonic() + took > deadline:
            break
        progress.report("refining", done, rounds)
        last = search.sse
        if search.exchange() == 0 or last - search.sse < _ENOUGH * last:
            break
    if rounds == ROUNDS and 1 < search.cells <= MANY_CELLS and monotonic() < deadline:
        search.anneal(_TRIES_TO_RECOUNT, 0.0, 0.0)
    return search.labels if search.sse <= before else labels
