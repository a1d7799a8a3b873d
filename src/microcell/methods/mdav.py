"""MDAV: cells of k around the records farthest from the mean."""

from dataclasses import dataclass
from itertools import pairwise
from time import monotonic

import numpy as np

from microcell import progress
from microcell.errors import OptionError
from microcell.kernels._jit import thread_count
from microcell.kernels.arrays import squared_distances
from microcell.kernels.bisect import bisect_rows
from microcell.kernels.mdav import (
    EXHAUSTED,
    FIRST,
    grow_cells_of_persons,
    make_people,
    make_running,
    mdav_rounds,
    weight_scale,
)
from microcell.kernels.scans import lay_out, make_scratch
from microcell.methods.registry import partitioner
from microcell.model import Floats, Integers

__all__ = ["Pace", "Turn", "mdav", "starts_with_persons"]

_SECONDS = 0.25
"""Target duration of a kernel call, so that progress is shown and Ctrl-C works."""

_TRIALS = 6
"""Number of first calls, which alternate between one thread and all."""

_TRY_AGAIN = 12
"""Number of calls after which the slower number of threads is tried again."""


@dataclass(frozen=True)
class Turn:
    """The next kernel call: how many rounds, on how many threads."""

    rounds: int
    threads: int


class Pace:
    """Divides rounds into kernel calls of about 0.25 s, on the faster number of threads."""

    def __init__(self, threads: int) -> None:
        self._speed = dict.fromkeys((1, threads), 0.0)
        self._turns = 0
        self._turn = Turn(0, 1)
        self._started = 0.0

    def next(self) -> Turn:
        """Return the next call: few rounds at first, then as many as the measured speed allows."""
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
        if self._turns < _TRIALS:  # the first measurements include start-up time
            return list(self._speed)[self._turns % len(self._speed)]
        if self._turns % _TRY_AGAIN == 0:
            return min(self._speed, key=self._speed.__getitem__)
        return self._fastest()


@partitioner(
    "mdav",
    summary="maximum distance to average vector: cells of k around the records farthest from "
    "the mean",
    sizes="k; the last cell up to 2k-1",
    cost="0.75 n^2 / k distances (n M / k in macrocells of M records)",
    source="Domingo-Ferrer and Torra 2005",
)
def mdav(
    X: Floats,
    k: int,
    *,
    weights: Floats | None,
    seed: int,
    persons: Integers | None = None,
    macrocells: int | None = None,
) -> Integers:
    """Return labels by MDAV-generic (Domingo-Ferrer and Torra 2005).

    While at least 3k records remain: r, the one farthest from their mean, forms a cell with its k-1
    nearest; then s, the one farthest from r, does the same. Of the rest, r and its nearest form a
    cell if at least 2k records remain, and the others form the last cell. ``weights`` apply to the
    mean. Time O(n^2 m / k), memory twice the matrix.

    With ``persons``, a cell takes the nearest records until it has k distinct persons.

    ``macrocells`` first splits the table into macrocells of at most this many records and makes
    cells within each: for large tables, at slightly more distortion.
    """
    each = np.ones(len(X)) if weights is None else weights
    if macrocells is None:
        return _run_mdav(X, k, each, persons)
    if (
        isinstance(macrocells, bool)
        or not isinstance(macrocells, (int, np.integer))
        or macrocells < 2 * k
    ):
        raise OptionError(
            f"macrocells must be an integer of at least 2k = {2 * k}, not {macrocells!r}.",
            code="option.out_of_range",
            option="macrocells",
        )
    rows = np.arange(len(X))
    labels = np.empty(len(X), dtype=np.int64)
    done = 0
    starts = bisect_rows(X, rows, k, int(macrocells))
    if persons is not None:
        starts = starts_with_persons(starts, persons[rows], k)
    for first, last in pairwise(starts):
        part = rows[first:last]
        labels[part] = done + _run_mdav(
            X[part], k, each[part], None if persons is None else persons[part]
        )
        done = int(labels[part].max()) + 1
        progress.report("grouping records in macrocells", int(last), len(X))
    return labels


def starts_with_persons(starts: Integers, persons: Integers, k: int) -> Integers:
    """Join runs of records with the next run until each has at least k persons.

    Examples
    --------
    >>> starts_with_persons(np.array([0, 2, 4, 6]), np.array([0, 1, 2, 2, 0, 1]), 2)
    array([0, 2, 6])
    """
    kept = [0]
    for end in starts[1:].tolist():
        if len(np.unique(persons[kept[-1] : end])) >= k:
            kept.append(end)
    kept[max(1, len(kept) - 1) :] = [len(persons)]
    return np.array(kept)


def _run_mdav(X: Floats, k: int, weights: Floats, persons: Integers | None) -> Integers:
    if persons is not None:
        return _run_mdav_of_persons(X, k, weights, np.unique(persons, return_inverse=True)[1])
    n = len(X)
    labels = np.zeros(n, dtype=np.int64)
    if n < 3 * k:  # the common case when large cells are split
        return _finish(X, k, np.arange(n), 0, labels, weights)
    points = lay_out(X)
    running, label, most_threads = make_running(X, weights), 0, thread_count()
    pace = Pace(most_threads)
    scratch = {threads: make_scratch(k, threads) for threads in (1, most_threads)}
    while points.left[0] >= 3 * k:
        turn = pace.next()
        label = mdav_rounds(points, k, turn.rounds, label, labels, running, scratch[turn.threads])
        progress.report("grouping records", n - int(points.left[0]), n)
    return _finish(X, k, np.sort(points.rows[: points.left[0]]), label, labels, weights)


def _run_mdav_of_persons(X: Floats, k: int, weights: Floats, persons: Integers) -> Integers:
    points, people, running = lay_out(X), make_people(persons), make_running(X, weights)
    labels = np.zeros(len(X), dtype=np.int64)
    state = np.array([0, FIRST])
    most_threads = thread_count()
    pace, reach, stopped = Pace(most_threads), min(len(X), 3 * k), 0
    while stopped != EXHAUSTED:
        scratch = {threads: make_scratch(reach, threads) for threads in (1, most_threads)}
        stopped = 0
        while stopped == 0:
            turn = pace.next()
            stopped = grow_cells_of_persons(
                points, people, k, turn.rounds, state, labels, running, scratch[turn.threads]
            )
            progress.report("grouping records", len(X) - int(points.left[0]), len(X))
        reach = min(len(X), 2 * reach)
    return labels


def _finish(
    X: Floats, k: int, rest: Integers, label: int, labels: Integers, weights: Floats
) -> Integers:
    """Divide the last records, fewer than 3k, into one or two cells."""
    labels[rest] = label
    if len(rest) >= 2 * k:
        part = X[rest]
        each = weights[rest] * weight_scale(float(weights[rest].max()))
        mean = (part * each[:, np.newaxis]).sum(axis=0) / each.sum()
        r = np.argmax(squared_distances(part, mean))
        distance = squared_distances(part, part[r])
        distance[r] = -1.0  # r stays in its own cell even if duplicates tie with it
        labels[rest[np.argsort(distance, kind="stable")[k:]]] = label + 1
    return labels
