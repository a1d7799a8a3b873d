"""Annealing: search for the least distortion by taking a few near cells apart and putting them together anew."""

from collections.abc import Iterator
from itertools import count
from time import monotonic

import numpy as np

from microcell import progress
from microcell.errors import OptionError
from microcell.model import Floats, Integers
from microcell.partitioning._registry import partitioner
from microcell.partitioning._search import CELLS_A_REGION, Plan, Search
from microcell.partitioning.mdav import mdav
from microcell.partitioning.refinement import refine_labels

__all__ = ["anneal"]

WARM, COOL = 0.3, 0.003
"""Temperatures at the start and at the end, in units of the mean SSE of a cell."""

ROUNDS = 40
_STEPS_A_ROUND = 50.0


@partitioner(
    "anneal",
    summary="MDAV, refined, then searched further: near cells are rebuilt at random, and worse ones left behind",
    sizes="k to 2k-1",
    cost="n^2 / k distances, then steps (for each cell) of 4k^2 distances",
    source="ruin and recreate with simulated annealing",
    chance=True,
)
def anneal(
    X: Floats, k: int, *, weights: Floats | None, seed: int, steps: float = 200.0, seconds: float | None = None
) -> Integers:
    """Labels of the least distortion found by ruin and recreate under simulated annealing, from refined MDAV.

    Two to four near cells are taken apart, put together greedily with random sizes in [k, 2k-1] and refined; a worse
    result is kept with a probability that falls as the search cools. ``steps`` is how often each cell is taken on, on
    average; with ``seconds`` the search lasts that long instead, and the result depends on the machine. Ctrl-C
    ends the search with the best found so far. The cost of a step does not depend on n.
    """
    _check(steps, seconds)
    labels = refine_labels(X, mdav(X, k, weights=weights, seed=seed), k, weights=weights, seed=seed)
    search = Search(X, labels, k, weights, seed)
    best, best_sse = labels, search.sse
    unit, most = search.sse / search.cells, max(60, min(CELLS_A_REGION, search.cells // 2))
    try:
        for share, amount in _schedule(steps, seconds):
            progress.report(f"searching, distortion {_distortion(X, best_sse, weights):.6f}", int(1000 * share), 1000)
            temperature = unit * WARM * (COOL / WARM) ** share
            search.round(Plan(steps=amount, warm=temperature, cool=temperature, most=most))
            if search.sse < best_sse:
                best, best_sse = search.labels, search.sse
    except KeyboardInterrupt:
        progress.report("stopped: going on with the best found")
    return refine_labels(X, best, k, weights=weights, seed=seed)


def _check(steps: float, seconds: float | None) -> None:
    for name, value in (("steps", steps), ("seconds", seconds)):
        if value is not None and not (isinstance(value, (int, float, np.number)) and 0 <= value < np.inf):
            raise OptionError(f"{name} must be a number of 0 or more, not {value!r}.")


def _schedule(steps: float, seconds: float | None) -> Iterator[tuple[float, float]]:
    """(share of the search that is done, steps for each cell in the next round)."""
    if seconds is None:
        rounds = min(ROUNDS, int(np.ceil(steps)))
        for done in range(rounds):
            yield done / rounds, steps / rounds
        return
    started = monotonic()
    for _ in count():
        share = (monotonic() - started) / max(seconds, 1e-9)
        if share >= 1:
            return
        yield share, _STEPS_A_ROUND


def _distortion(X: Floats, sse: float, weights: Floats | None) -> float:
    each = np.ones(len(X)) if weights is None else weights
    total = float(each @ ((X - np.average(X, axis=0, weights=each)) ** 2).sum(axis=1))
    return sse / total if total > 0 else 0.0
