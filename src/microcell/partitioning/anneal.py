"""Annealing: search for the least distortion by random exchanges that may also cost, ever less as the search cools."""

from time import monotonic

import numpy as np

from microcell import progress
from microcell.errors import OptionError
from microcell.model import Floats, Integers
from microcell.partitioning._cooling import COOL, Plan, cool_down, warmth
from microcell.partitioning._copies import search_copies
from microcell.partitioning._registry import partitioner
from microcell.partitioning._search import Search
from microcell.partitioning.mdav import mdav
from microcell.partitioning.refinement import refine_labels

__all__ = ["LARGE", "anneal", "steps_in"]

LARGE, MACROCELL = 60_000, 8_000
"""A larger table starts from MDAV within macrocells of so many records; the search mends what that cuts apart."""

_LONG = 100_000
"""Steps for each record that make a long search."""

WHOLE = 1500
"""A table of at most so many cells is then searched as a whole, in copies, rather than in regions."""

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
    summary="MDAV, then random exchanges between near cells, at first also worse ones: best for small cells",
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
    search = Search(X, labels, k, weights, seed)
    if search.cells == 1 or search.sse == 0:
        return search.labels
    try:
        if len(X) // k <= WHOLE and expected >= _LONG:
            search_copies(search, X, weights, Plan(expected, _end(started, seconds)), seed)
        else:
            cool_down(search, Plan(expected, _end(started, seconds, _REFINING)), warmth(expected), COOL)
    except KeyboardInterrupt:
        progress.report("stopped: going on with the best found")
    if search.cells <= WHOLE:
        search.anneal(_LAST, 0.0, 0.0)
        return search.labels
    deadline = np.inf if seconds is None else started + seconds
    return refine_labels(X, search.labels, k, weights=weights, seed=seed, rounds=_ROUNDS, deadline=deadline)


def _end(started: float, seconds: float | None, share: float = 1.0) -> float | None:
    return None if seconds is None else started + share * seconds


def _check(steps: float, seconds: float | None) -> None:
    for name, value in (("steps", steps), ("seconds", seconds)):
        if value is not None and not (isinstance(value, (int, float, np.integer, np.floating)) and 0 <= value < np.inf):
            raise OptionError(f"{name} must be a number of 0 or more, not {value!r}.")
