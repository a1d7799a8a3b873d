"""Refinement of cells of candidates: local search in which every cell keeps its failure limit."""

import numpy as np

from microcell import progress
from microcell.kernels._arrays import Seeds
from microcell.kernels.blocks import empty_blocks, fill_blocks
from microcell.kernels.cells import sum_of_squares
from microcell.kernels.exchange import Limits
from microcell.kernels.rules import no_rule
from microcell.kernels.within import exchange_within_limit
from microcell.model import Floats, Integers
from microcell.partitioning._search import NEAR_CELLS, Found, Search, centred, compact, near_cells

__all__ = ["refine_within"]

_ROUNDS, _PASSES = 12, 2
_MANY, _ROUNDS_OF_MANY, _PASSES_OF_MANY = 200_000, 4, 1
"""How often to go over the regions, and over each of them; beyond so many records less often, so that it ends soon."""

_ENOUGH = 2e-4
"""A round that lowers the SSE by less than this share is the last."""

_MARGIN = 1e-9
"""The search stays below the limit by this share of it: it sums in another order than the check in the end."""


def refine_within(X: Floats, labels: Integers, k: int, chances: Floats, failure: float, *, seed: int) -> Integers:
    """The labels after local search between near cells, which keep P{0 < K < k} <= ``failure`` each.

    Never raises the expected distortion. Time O(n m size) a round, for each of the cells near.
    """
    search = _Within(X, labels, k, chances, failure * (1 - _MARGIN), seed)
    rounds = _ROUNDS if len(X) <= _MANY else _ROUNDS_OF_MANY
    for done in range(rounds):
        progress.report("refining", done, rounds)
        last = search.sse
        if search.exchange() == 0 or last - search.sse < _ENOUGH * last:
            break
    return search.labels if search.sse <= sum_of_squares(X, labels, chances) else labels


class _Within(Search):
    """A search whose cells have a failure limit and no greatest size."""

    def __init__(self, X: Floats, labels: Integers, k: int, chances: Floats, failure: float, seed: int) -> None:
        super().__init__(X, labels, k, chances, seed, no_rule(len(X)))  # with a rule sizes have no upper limit
        self._failure = failure
        self._passes = _PASSES if len(X) <= _MANY else _PASSES_OF_MANY

    def exchange(self) -> int:
        """Make the allowed exchanges that help in every region once; how many were made."""
        return self._round(min(13_000, max(350, self.cells // 4)), self._exchange)

    def _exchange(self, rows: Integers, state: Seeds) -> Found:  # noqa: ARG002
        labels = compact(self.labels[rows])
        sizes = np.bincount(labels)
        # An odd large cell stays as it is: room for it would be room for all.
        cap = min(int(sizes.max()) + 4, int(2 * np.median(sizes)) + 8)
        small = sizes <= cap
        some = np.flatnonzero(small[labels])
        own = (np.cumsum(small) - 1)[labels[some]]
        count, k = int(small.sum()), self._limits.least
        if count < 2:
            return Found(labels, 0)
        points = centred(self._X[rows[some]])[0]
        blocks = empty_blocks(count, points.shape[1], cap)
        fill_blocks(blocks, points, self._weights[rows[some]], own)
        near = near_cells(blocks.sums, blocks.totals, NEAR_CELLS)
        changes = exchange_within_limit(blocks, near, Limits(k, cap), k, self._failure, self._passes)
        for cell in range(count):
            labels[some[blocks.members[cell, : blocks.sizes[cell]]]] = len(sizes) + cell
        return Found(compact(labels), changes)
