"""Annealing: search for the least distortion by random exchanges that may also cost, ever less as the search cools."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from time import monotonic

import numpy as np

from microcell import progress
from microcell.errors import OptionError
from microcell.kernels.cells import total_sum_of_squares
from microcell.model import Floats, Integers
from microcell.partitioning._registry import partitioner
from microcell.partitioning._search import Search
from microcell.partitioning.mdav import mdav
from microcell.partitioning.refinement import refine_labels

__all__ = ["LARGE", "anneal", "steps_in"]

LARGE, MACROCELL = 60_000, 8_000
"""A larger table starts from MDAV within macrocells of so many records; the search mends what that cuts apart."""

COOL, COOLEST = 0.055, 0.02
"""The temperature at the end, and at that of a long search, in units of the mean SSE per record at the start."""

AGAIN, REHEATED = 0.2, 6
"""A long search is two, combined, and so many short ones from this temperature on, each combined with the best."""

_LONG = 100_000
"""Steps for each record that make a long search."""

WHOLE = 1500
"""A table of at most so many cells is then searched as a whole, twice side by side, rather than in regions."""

_LAST = 100.0
"""Steps for each record without any heat, at the end."""

_ROUNDS = 3
"""Of refinement after that, for tables that were searched in many regions."""

_REFINING = 0.85
"""The share of a time budget after which the search ends and what it found is refined."""


def steps_in(seconds: float, n: int) -> float:
    """Steps for each record that so many seconds allow, roughly: it tells how warm a search should begin."""
    return (6e6 if n <= LARGE else 2e6) * seconds / n


@partitioner(
    "anneal",
    summary="MDAV, then random exchanges between near cells, at first also worse ones: the least distortion of all",
    sizes="k to 2k-1",
    cost="n^2 / k distances (n beyond 60,000 records), then steps for each record",
    source="simulated annealing, with a temperature of its own for each record",
    chance=True,
)
def anneal(
    X: Floats, k: int, *, weights: Floats | None, seed: int, steps: float = 10_000.0, seconds: float | None = None
) -> Integers:
    """Labels of the least distortion found by simulated annealing, from MDAV.

    A step picks a record and another near it, and lets the one move to the other's cell, or change places with a
    member of it; now and then a cell dissolves or a new one arises. What costs is accepted with a probability that
    falls as the search cools. ``steps`` is how many are tried for each record; with ``seconds`` all lasts that long
    instead, and the result depends on the machine. Ctrl-C ends the search with the best found so far. The
    cost of a step, O(m), does not depend on n.
    """
    _check(steps, seconds)
    started = monotonic()
    labels = mdav(X, k, weights=weights, seed=seed, macrocells=max(MACROCELL, 20 * k) if len(X) > LARGE else None)
    expected = steps if seconds is None else steps_in(seconds, len(X))
    plan = _Plan(expected, seconds, started)
    if len(X) // k <= WHOLE and expected >= _LONG:
        return _anneal_copies(X, labels, k, weights, seed, plan)
    search = Search(X, labels, k, weights, seed)
    _cool_down(search, plan, _total(X, weights))
    if search.cells <= WHOLE:
        search.anneal(_LAST, 0.0, 0.0)
        return search.labels
    deadline = np.inf if seconds is None else started + seconds
    return refine_labels(X, search.labels, k, weights=weights, seed=seed, rounds=_ROUNDS, deadline=deadline)


@dataclass(frozen=True)
class _Plan:
    """Steps for each record, expected in so many seconds from the start if these are given."""

    steps: float
    seconds: float | None
    started: float


def _anneal_copies(X: Floats, labels: Integers, k: int, weights: Floats | None, seed: int, plan: _Plan) -> Integers:
    """Anneal two copies of the table side by side, each as a whole, and take the best of both."""
    twice = np.concatenate([labels, labels + labels.max() + 1])
    each = None if weights is None else np.tile(weights, 2)
    search = Search(np.tile(X, (2, 1)), twice, k, each, seed, copies=2)
    _cool_down(search, replace(plan, steps=plan.steps / 2), 2 * _total(X, weights))
    one, other = np.split(search.labels, 2)
    best = Search(X, one, k, weights, seed)
    best.combine(np.unique(other, return_inverse=True)[1])
    best.anneal(_LAST, 0.0, 0.0)
    return best.labels


def _total(X: Floats, weights: Floats | None) -> float:
    return total_sum_of_squares(X, np.ones(len(X)) if weights is None else weights)


def _cool_down(search: Search, plan: _Plan, total: float) -> None:
    """Let the search run through its stages; it ends with the best found."""
    stages = _stages(plan.steps)
    best, best_sse, now = search.labels, search.sse, 0
    try:
        for share, until, steps in _schedule(plan):
            stage = sum(end <= share for end, _ in stages)
            if stage > now:
                search.combine(best)
                best, best_sse, now = search.labels, search.sse, stage
            progress.report(f"searching, distortion {best_sse / max(total, 1e-300):.6f}", int(1000 * share), 1000)
            search.anneal(steps, _temperature(stages, stage, share), _temperature(stages, stage, until))
            if search.sse < best_sse:
                best, best_sse = search.labels, search.sse
    except KeyboardInterrupt:
        progress.report("stopped: going on with the best found")
    search.combine(best)


def _stages(steps: float) -> list[tuple[float, float]]:
    """Where in the search each stage ends, and how warm it begins: the more steps there are, the warmer."""
    warm = float(np.clip(0.25 * (steps / 300) ** 0.19, 0.15, 0.75))
    if steps < _LONG:
        return [(1.0, warm)]
    return [(0.4, warm), (0.8, warm)] + [(0.8 + 0.2 * (i + 1) / REHEATED, AGAIN) for i in range(REHEATED)]


def _temperature(stages: list[tuple[float, float]], stage: int, share: float) -> float:
    begins = stages[stage - 1][0] if stage else 0.0
    ends, warm = stages[stage]
    cool = COOL if len(stages) == 1 else COOLEST
    return float(warm * (cool / warm) ** min(1.0, (share - begins) / (ends - begins)))


def _schedule(plan: _Plan) -> Iterator[tuple[float, float, float]]:
    """For each round: the share of the search that is done, that after the round, and the steps for each record."""
    steps, seconds = plan.steps, plan.seconds
    rounds = max(1, int(np.ceil(min(40.0, steps / 50))), int(np.ceil(min(steps, 1e9) / 1000))) if steps else 0
    if seconds is None:
        for done in range(rounds):
            yield done / rounds, (done + 1) / rounds, steps / rounds
        return
    begun, budget = monotonic(), max(plan.started + _REFINING * seconds - monotonic(), 1e-9)
    each = float(np.clip(steps / max(rounds, 1), 50, 1000))
    for done in count():
        share = (monotonic() - begun) / budget
        if share >= 1:
            return
        yield share, min(1.0, share * (1 + 1 / done) if done else share), each


def _check(steps: float, seconds: float | None) -> None:
    for name, value in (("steps", steps), ("seconds", seconds)):
        if value is not None and not (isinstance(value, (int, float, np.integer, np.floating)) and 0 <= value < np.inf):
            raise OptionError(f"{name} must be a number of 0 or more, not {value!r}.")
