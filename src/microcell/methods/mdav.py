"""V-MDAV: cells of k to 2k-1, extended where the next record is near."""

from dataclasses import dataclass
from itertools import pairwise
from time import monotonic
from typing import Any

import numpy as np

from microcell import progress
from microcell.errors import OptionError
from microcell.kernels._jit import thread_count
from microcell.kernels.arrays import squared_distances, sum_of_squares
from microcell.kernels.bisect import bisect_rows
from microcell.kernels.mdav import make_cells, make_running
from microcell.kernels.scans import lay_out, make_scratch
from microcell.kernels.vmdav import Rank, make_growth, make_variable_cells
from microcell.methods.registry import partitioner
from microcell.model import Floats, Integers

__all__ = ["Pace", "Turn", "mdav", "vmdav"]

_SECONDS = 0.25
_TRIALS = 6
"""So many turns go to one and to all threads by turns."""

_TRY_AGAIN = 12
"""After so many turns the slower number of threads is tried again."""


@dataclass(frozen=True)
class Turn:
    """What to do next: so many rounds, on so many threads."""

    rounds: int
    threads: int


class Pace:
    """Turns that take about a quarter of a second each."""

    def __init__(self, threads: int) -> None:
        self._speed = dict.fromkeys((1, threads), 0.0)
        self._turns = 0
        self._turn = Turn(0, 1)
        self._started = 0.0

    def next(self) -> Turn:
        """The next turn: few rounds at first, then as many as the speed of the last ones allows."""
        now = monotonic()
        if self._turn.rounds:
            self._speed[self._turn.threads] = self._turn.rounds / max(now - self._started, 1e-4)
        threads = self._choose()
        trial = self._turns < _TRIALS or threads != self._fastest()
        seconds = _SECONDS / 16 if trial else _SECONDS
        rounds = max(
            1, min(4 * max(self._turn.rounds, 1), int(self._speed[threads] * seconds) or 4)
        )
        self._turns += 1
        self._turn, self._started = Turn(rounds, threads), now
        return self._turn

    def _fastest(self) -> int:
        return max(self._speed, key=self._speed.__getitem__)

    def _choose(self) -> int:
        if self._turns < _TRIALS:  # the first measurements are of starting up
            return list(self._speed)[self._turns % len(self._speed)]
        if self._turns % _TRY_AGAIN == 0:
            return min(self._speed, key=self._speed.__getitem__)
        return self._fastest()


@partitioner(
    "mdav",
    summary="maximum distance to average vector: cells of k around the records farthest from the mean",
    sizes="k, the last cell up to 2k-1",
    cost="0.75 n^2 / k distances (n M / k in macrocells of M records)",
    source="Domingo-Ferrer and Torra 2005",
)
def mdav(
    X: Floats, k: int, *, weights: Floats | None, seed: int, macrocells: int | None = None
) -> Integers:
    """Labels by MDAV-generic (Domingo-Ferrer and Torra 2005).

    While 3k or more records remain: r, the one farthest from their mean, with its k-1 nearest, makes a cell; then
    s, the one farthest from r, with its k-1 nearest. Of what is left, r and its nearest make a cell if 2k or more
    remain, and the rest another. ``weights`` weigh the mean. Time O(n^2 m / k), memory twice the matrix.

    ``macrocells``: first split the table into macrocells of at most so many records, and make cells within each: for
    large tables, at a little more distortion.
    """
    if macrocells is None:
        return _make_cells(X, k, np.ones(len(X)) if weights is None else weights)
    if (
        isinstance(macrocells, bool)
        or not isinstance(macrocells, (int, np.integer))
        or macrocells < 2 * k
    ):
        raise OptionError(
            f"macrocells must be a whole number of 2k = {2 * k} or more, not {macrocells!r}."
        )
    rows, labels, done = np.arange(len(X)), np.empty(len(X), dtype=np.int64), 0
    for first, last in pairwise(bisect_rows(X, rows, k, int(macrocells))):
        own = rows[first:last]
        labels[own] = done + _make_cells(
            X[own], k, np.ones(len(own)) if weights is None else weights[own]
        )
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


def _finish(
    X: Floats, k: int, rest: Integers, label: int, labels: Integers, weights: Floats
) -> Integers:
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
