"""The best partition that the cells of many have in them: each record in one cell, the least distortion in all.

Cells of few records that many searches agree upon mostly, but not everywhere, go together into what none of the
searches has found; larger cells seldom do.
"""

import numpy as np

from microcell.kernels.cells import squared_residuals
from microcell.kernels.covering import cover_once
from microcell.model import Floats, Integers

__all__ = ["Pool"]


class Pool:
    """Cells of many partitions of one table, each with its sum of squares."""

    def __init__(self, X: Floats, weights: Floats) -> None:
        self._X, self._weights = X, weights
        self._costs: dict[bytes, float] = {}

    def add(self, labels: Integers) -> None:
        """Take in the cells of a partition."""
        costs = np.bincount(labels, weights=squared_residuals(self._X, labels, self._weights))
        self._costs.update(zip(_keys(labels), costs.tolist(), strict=True))

    def combine(self, labels: Integers, seconds: float = np.inf) -> Integers:
        """The best partition found among those made of these cells and of those of ``labels``, which may be it.

        With ``seconds`` the solver ends in time, and the result depends on the machine.
        """
        self.add(labels)
        own = set(_keys(labels))
        known = np.flatnonzero([key in own for key in self._costs])
        costs = np.array(list(self._costs.values()))
        total = costs[known].sum()
        if total == 0 or len(known) == len(costs):
            return labels
        cells = [np.frombuffer(key, dtype=np.int64) for key in self._costs]
        chosen = cover_once(cells, costs / total, known, seconds)
        if np.array_equal(chosen, known):
            return labels
        combined = np.empty_like(labels)
        for cell, which in enumerate(chosen):
            combined[cells[which]] = cell
        return combined


def _keys(labels: Integers) -> list[bytes]:
    """The records of each cell, in order, as a key."""
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])
    return [rows.astype(np.int64).tobytes() for rows in members]
