"""Annealing: search for the least distortion by random exchanges that may also cost, ever less as the search cools."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from time import monotonic

import numpy as np

from microcell import progress
from microcell.errors import OptionError
from microcell.kernels.arrays import squared_residuals
from microcell.kernels.covering import cover_once
from microcell.methods.mdav import mdav
from microcell.methods.registry import partitioner
from microcell.methods.search import Search, compact, refine_labels
from microcell.model import Floats, Integers

__all__ = [
    "COOL",
    "LARGE",
    "Plan",
    "Pool",
    "anneal",
    "cool_down",
    "search_copies",
    "steps_in",
    "usual_steps",
    "warmth",
]

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
    return float(
        round(np.clip(max(1.1e5 / k, _ANY_SIZE) * (1000 / max(n, 1000)) ** 1.2, _LEAST, _MOST))
    )


def warmth(steps: float) -> float:
    """How warm a search begins: the more steps there are for each record, the warmer."""
    return float(np.clip(0.25 * (steps / 300) ** 0.19, 0.15, 0.75))


def cool_down(
    search: Search,
    plan: Plan,
    warm: float | Floats,
    cool: float | Floats,
    *,
    keep_best: bool = True,
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
    rounds = (
        max(1, int(np.ceil(min(40.0, steps / 50))), int(np.ceil(min(steps, 1e9) / 1000)))
        if steps
        else 0
    )
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
        _go_on(
            copies,
            plan.part(EACH_TURN, TURNS_OF_TIME / turns, many),
            AGAIN * apart,
            cool,
            best,
            pool,
        )
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
    progress.report(
        f"combining what was found, distortion {best.sse / max(best.total, 1e-300):.6f}"
    )
    before = best.sse
    best.combine(pool.combine(best.labels, seconds))
    return best.sse < (1 - _GAIN) * before


def _copies(X: Floats, labels: Integers, k: int, weights: Floats, copies: int, seed: int) -> Search:
    """A search of so many copies of the table, each of which begins at these labels."""
    return Search(
        np.tile(X, (copies, 1)),
        _repeat(labels, copies),
        k,
        np.tile(weights, copies),
        seed,
        copies=copies,
    )


def _repeat(labels: Integers, copies: int) -> Integers:
    """The labels of so many copies."""
    return np.concatenate([labels + turn * (labels.max() + 1) for turn in range(copies)])


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
    X: Floats,
    k: int,
    *,
    weights: Floats | None,
    seed: int,
    steps: float = 10_000.0,
    seconds: float | None = None,
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
    labels = mdav(
        X,
        k,
        weights=weights,
        seed=seed,
        macrocells=max(MACROCELL, 20 * k) if len(X) > LARGE else None,
    )
    expected = steps if seconds is None else steps_in(seconds, len(X))
    search = Search(X, labels, k, weights, seed)
    if search.cells == 1 or search.sse == 0:
        return search.labels
    try:
        if len(X) // k <= WHOLE and expected >= _LONG:
            search_copies(search, X, weights, Plan(expected, _end(started, seconds)), seed)
        else:
            cool_down(
                search, Plan(expected, _end(started, seconds, _REFINING)), warmth(expected), COOL
            )
    except KeyboardInterrupt:
        progress.report("stopped: going on with the best found")
    if search.cells <= WHOLE:
        search.anneal(_LAST, 0.0, 0.0)
        return search.labels
    deadline = np.inf if seconds is None else started + seconds
    return refine_labels(
        X, search.labels, k, weights=weights, seed=seed, rounds=_ROUNDS, deadline=deadline
    )


def _end(started: float, seconds: float | None, share: float = 1.0) -> float | None:
    return None if seconds is None else started + share * seconds


def _check(steps: float, seconds: float | None) -> None:
    for name, value in (("steps", steps), ("seconds", seconds)):
        if value is not None and not (
            isinstance(value, (int, float, np.integer, np.floating)) and 0 <= value < np.inf
        ):
            raise OptionError(f"{name} must be a number of 0 or more, not {value!r}.")
