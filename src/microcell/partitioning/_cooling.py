"""How a search cools: from warm to cool in a given number of steps, or until a given time."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from time import monotonic

import numpy as np

from microcell import progress
from microcell.model import Floats
from microcell.partitioning._search import Search

__all__ = ["COOL", "Plan", "cool_down", "usual_steps", "warmth"]

COOL = 0.055
"""The temperature at the end, in units of the mean SSE per record at the start."""

_LEAST, _MOST = 150.0, 26_000.0
"""Steps for each record of a usual search: with fewer, annealing is not worth its while."""

_ANY_SIZE = 10_000.0
"""Steps for each of a thousand records, however large cells are."""


@dataclass(frozen=True)
class Plan:
    """Steps for each record; if an end is given it comes then, however many steps that allows."""

    steps: float
    end: float | None

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return np.inf if self.end is None else max(0.0, self.end - monotonic())

    def part(self, share: float, of_left: float, copies: int) -> "Plan":
        """The plan for a share of the steps, which so many copies have in common, and a share of the time left."""
        end = None if self.end is None else monotonic() + of_left * self.left
        return Plan(share * self.steps / copies, end)


def usual_steps(n: int, k: int) -> float:
    """Steps for each record that take a few seconds in all: more for small cells, of which there are many."""
    return float(round(np.clip(max(1.1e5 / k, _ANY_SIZE) * (1000 / max(n, 1000)) ** 1.2, _LEAST, _MOST)))


def warmth(steps: float) -> float:
    """How warm a search begins: the more steps there are for each record, the warmer."""
    return float(np.clip(0.25 * (steps / 300) ** 0.19, 0.15, 0.75))


def cool_down(
    search: Search, plan: Plan, warm: float | Floats, cool: float | Floats, *, keep_best: bool = True
) -> None:
    """Let the search cool as planned; it ends with the best found, even if interrupted.

    Temperatures are for all, or one for each copy. Without ``keep_best`` it ends where it then is.
    """
    best, best_sse = search.labels, search.sse
    try:
        for share, until, steps in _schedule(plan):
            distortion = best_sse / max(search.total, 1e-300)
            progress.report(f"searching, distortion {distortion:.6f}", int(1000 * share), 1000)
            search.anneal(steps, *(warm * (cool / warm) ** passed for passed in (share, until)))
            if search.sse < best_sse:
                best, best_sse = search.labels, search.sse
    finally:
        if keep_best:
            search.combine(best)


def _schedule(plan: Plan) -> Iterator[tuple[float, float, float]]:
    """For each round: the share of the search that is done, that after the round, and the steps for each record."""
    steps = plan.steps
    rounds = max(1, int(np.ceil(min(40.0, steps / 50))), int(np.ceil(min(steps, 1e9) / 1000))) if steps else 0
    if plan.end is None:
        for done in range(rounds):
            yield done / rounds, (done + 1) / rounds, steps / rounds
        return
    begun, budget = monotonic(), max(plan.left, 1e-9)
    each = float(np.clip(steps / max(rounds, 1), 50, 1000))
    for done in count():
        share = (monotonic() - begun) / budget
        if share >= 1:
            return
        yield share, min(1.0, share * (1 + 1 / done) if done else share), each
