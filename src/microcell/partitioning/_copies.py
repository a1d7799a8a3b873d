"""The long search of a small table: copies of it are annealed side by side, and what they come to is combined."""

import numpy as np

from microcell import progress
from microcell.model import Floats, Integers
from microcell.partitioning._combining import Pool
from microcell.partitioning._cooling import COOL, Plan, cool_down, usual_steps, warmth
from microcell.partitioning._search import Search, compact

__all__ = ["search_copies"]

EACH, MOST = 2500, 64
"""Steps for each record of a copy, times k, and the most copies: larger cells take longer to settle."""

FIRST = 0.1
"""The most of the search that goes to a usual one, which comes first: a long one is not to end with more distortion."""

MANY, FEW = 0.4, 0.5
"""The share of the search for many copies; that for two, where the cells of many do not go together."""

WHERE_FEW_END = 0.02
"""How cool two copies become: nothing but themselves makes up for what they leave undone."""

AGAIN, TURNS, EACH_TURN = 0.2, 3, 0.06
"""How warm copies begin again at the best found, how often, and the share of the search for each time."""

WARMEST = 2.5
"""How much warmer the last of many copies begins than the first: copies that are too alike combine into nothing new."""

FIRST_OF_TIME, COMBINING_OF_TIME, TURNS_OF_TIME = FIRST / 2, 1 / 6, 0.6
"""Where there is a time to fill, shares of what is left of it: for the usual search, which is not to use up its share
where steps are slow; for the first combination; and for all turns together, half of the rest going to combinations."""

_GAIN = 1e-5
"""A gain below this share is none."""


def search_copies(best: Search, X: Floats, weights: Floats | None, plan: Plan, seed: int) -> None:
    """Search for less than the best, which becomes what is found.

    First comes a usual search. Then many copies are annealed for a short time, and the best partition made of any of
    their cells is sought. If that finds none, as with larger cells, two are annealed for long. Then all begin again at
    the best, less warm, a few times, and their cells go into the next combination; without a time to fill, that ends
    when it brings nothing.
    """
    each = np.ones(len(X)) if weights is None else weights
    k, start = best.least, best.labels
    first = plan.part(min(FIRST, usual_steps(len(X), k) / plan.steps), FIRST_OF_TIME, 1)
    cool_down(best, first, warmth(first.steps), COOL)
    pool = Pool(X, each)
    many = int(np.clip(MANY * plan.steps / (EACH * k), 2, MOST))
    cool, apart = COOL, np.geomspace(1, WARMEST, many)
    copies = _copies(X, start, k, each, many, seed)
    part = plan.part(min(MANY, many * EACH * k / plan.steps), MANY, many)
    _go_on(copies, part, warmth(part.steps) * apart, cool, best, pool)
    together = _combine(best, pool, COMBINING_OF_TIME * plan.left)
    if not together:
        many = 2
        cool, apart = WHERE_FEW_END, np.ones(many)
        copies = _copies(X, start, k, each, many, seed + 1)
        part = plan.part(FEW, FEW / (1 - MANY), many)
        _go_on(copies, part, warmth(part.steps) * apart, cool, best, pool)
    for turns in range(TURNS, 0, -1):
        before = best.sse
        copies.begin_at(_repeat(best.labels, many))
        _go_on(copies, plan.part(EACH_TURN, TURNS_OF_TIME / turns, many), AGAIN * apart, cool, best, pool)
        _combine(best, pool, plan.left / (2 * turns))
        if together and plan.end is None and best.sse >= (1 - _GAIN) * before:
            break


def _go_on(copies: Search, plan: Plan, warm: Floats, cool: float, best: Search, pool: Pool) -> None:
    """Let the copies cool, and take in what they come to, even if interrupted.

    They need not keep the best they have seen: where that is what they began at, nothing new would come of them.
    """
    try:
        cool_down(copies, plan, warm, cool, keep_best=False)
    finally:
        for labels in map(compact, np.split(copies.labels, copies.copies)):
            pool.add(labels)
            best.combine(labels)


def _combine(best: Search, pool: Pool, seconds: float) -> bool:
    """Whether the cells of many go together into something better, which the best then is."""
    progress.report(f"combining what was found, distortion {best.sse / max(best.total, 1e-300):.6f}")
    before = best.sse
    best.combine(pool.combine(best.labels, seconds))
    return best.sse < (1 - _GAIN) * before


def _copies(X: Floats, labels: Integers, k: int, weights: Floats, copies: int, seed: int) -> Search:
    """A search of so many copies of the table, each of which begins at these labels."""
    return Search(np.tile(X, (copies, 1)), _repeat(labels, copies), k, np.tile(weights, copies), seed, copies=copies)


def _repeat(labels: Integers, copies: int) -> Integers:
    """The labels of so many copies."""
    return np.concatenate([labels + turn * (labels.max() + 1) for turn in range(copies)])
