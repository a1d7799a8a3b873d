"""Simulated annealing: random exchanges, initially including ones that raise the distortion."""

from time import monotonic

import numpy as np

from microcell import progress
from microcell.errors import OptionError
from microcell.kernels.arrays import squared_residuals, sum_of_squares
from microcell.kernels.covering import cover_once
from microcell.kernels.rules import Rule, take_rows
from microcell.methods.equal_records import EqualRecords, find_equal_records
from microcell.methods.mdav import mdav
from microcell.methods.persons import person_rule
from microcell.methods.registry import partitioner
from microcell.methods.search import Budget, Search, compact, cool_down, refine_labels
from microcell.model import Floats, Integers

__all__ = [
    "COOL",
    "LARGE",
    "Pool",
    "anneal",
    "default_steps",
    "search_copies",
    "start_temperature",
    "steps_within",
]

COOL = 0.055
"""Final temperature, relative to the initial mean SSE per record."""

_MOST = 26_000.0
"""Maximum of the default steps per record."""

_WORTHWHILE, _LEAST, _STEPS_OF_LARGE = 500.0, 40.0, 1.5e8
"""Default steps per record of large tables: maximum, minimum, and the total of all records between
them, which takes half a minute.
"""

_ANY_SIZE = 10_000.0
"""Steps per record for a thousand records, regardless of the size of cells."""


def default_steps(n: int, k: int) -> float:
    """Return steps per record that take a few seconds in total, more for small, numerous cells."""
    small = max(1.1e5 / k, _ANY_SIZE) * (1000 / max(n, 1000)) ** 1.2
    large = np.clip(_STEPS_OF_LARGE / n, _LEAST, _WORTHWHILE)
    return float(round(min(max(small, large), _MOST)))


_OVERLAPPING = 0.33
"""Information loss from which the initial temperature does not depend on it."""


def start_temperature(steps: float, loss: float = _OVERLAPPING) -> float:
    """Return the initial temperature, which is higher for more steps per record.

    It is also higher if the cells to start from lose little: in few dimensions, costs of exchanges
    differ much more from one another, in units of the SSE per record, than in many.
    """
    spread = max(1.0, (_OVERLAPPING / max(loss, 1e-9)) ** 0.4)
    return float(np.clip(0.25 * (steps / 300) ** 0.19 * spread, 0.15, 0.65))


class Pool:
    """Cells of many partitions of one table, each with its sum of squares."""

    def __init__(self, X: Floats, weights: Floats) -> None:
        self._X, self._weights = X, weights
        self._costs: dict[bytes, float] = {}

    def add(self, labels: Integers) -> None:
        """Add the cells of a partition."""
        costs = np.bincount(labels, weights=squared_residuals(self._X, labels, self._weights))
        self._costs.update(zip(_keys(labels), costs.tolist(), strict=True))

    def combine(self, labels: Integers, seconds: float = np.inf) -> Integers:
        """Return the best partition that combines pooled cells and those of ``labels``.

        With a time limit the result depends on the machine.
        """
        self.add(labels)
        keys = set(_keys(labels))
        incumbent = np.flatnonzero([key in keys for key in self._costs])
        costs = np.array(list(self._costs.values()))
        total = costs[incumbent].sum()
        if total == 0 or len(incumbent) == len(costs):
            return labels
        cells = [np.frombuffer(key, dtype=np.int64) for key in self._costs]
        chosen = cover_once(cells, costs / total, incumbent, seconds)
        if np.array_equal(chosen, incumbent):
            return labels
        combined = np.empty_like(labels)
        for cell, which in enumerate(chosen):
            combined[cells[which]] = cell
        return combined


def _keys(labels: Integers) -> list[bytes]:
    """Return the sorted records of each cell as a key."""
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])
    return [rows.astype(np.int64).tobytes() for rows in members]


EACH, MOST = 2500, 64
"""Steps per record and k of each copy (larger cells take longer to settle), and the most copies."""

FIRST = 0.1
"""Maximum share of the budget for the initial default search. Because of this search, a longer
search never ends with more distortion than a short one.
"""

MANY, FEW = 0.4, 0.5
"""Shares of the budget: for many copies, and for two if combining the cells of many gains nothing.
"""

WHERE_FEW_END = 0.02
"""Final temperature of two copies, which nothing refines afterwards."""

AGAIN, TURNS, EACH_TURN = 0.2, 3, 0.06
"""Restarts from the best partition: initial temperature, number, and share of the budget for each.
"""

WARMEST = 2.5
"""Initial temperature of the last copy relative to the first; copies that are too similar yield no
new combinations.
"""

FIRST_OF_TIME, COMBINING_OF_TIME, TURNS_OF_TIME = FIRST / 2, 1 / 6, 0.6
"""With a time limit, shares of the time left: for the default search, which must not use up its
share where steps are slow; for the first combination; and for all restarts together, half of the
rest going to combinations.
"""

_GAIN = 1e-5
"""Relative gains below this count as none."""


def search_copies(
    best: Search, X: Floats, weights: Floats | None, budget: Budget, seed: int
) -> None:
    """Search for a partition with lower distortion, and update ``best`` with it.

    A default search comes first. Then many copies are annealed briefly, and the best partition that
    can be composed of their cells is searched for. If that brings no improvement, as with larger
    cells, two copies are annealed for longer. Then all restart from the best at a lower
    temperature, a few times, and their cells enter the next combination; without a time limit this
    ends when there is no further improvement.
    """
    each = np.ones(len(X)) if weights is None else weights
    k, start = best.least, best.labels
    first = budget.part(min(FIRST, default_steps(len(X), k) / budget.steps), FIRST_OF_TIME, 1)
    cool_down(best, first, start_temperature(first.steps), COOL)
    pool = Pool(X, each)
    many = int(np.clip(MANY * budget.steps / (EACH * k), 2, MOST))
    cool, apart = COOL, np.geomspace(1, WARMEST, many)
    copies = _search_in_copies(X, start, k, each, many, seed, best.rule)
    part = budget.part(min(MANY, many * EACH * k / budget.steps), MANY, many)
    _anneal_copies(copies, part, start_temperature(part.steps) * apart, cool, best, pool)
    combines = _combine(best, pool, COMBINING_OF_TIME * budget.left)
    if not combines:
        many = 2
        cool, apart = WHERE_FEW_END, np.ones(many)
        copies = _search_in_copies(X, start, k, each, many, seed + 1, best.rule)
        part = budget.part(FEW, FEW / (1 - MANY), many)
        _anneal_copies(copies, part, start_temperature(part.steps) * apart, cool, best, pool)
    for turns in range(TURNS, 0, -1):
        before = best.sse
        copies.begin_at(_repeat(best.labels, many))
        _anneal_copies(
            copies,
            budget.part(EACH_TURN, TURNS_OF_TIME / turns, many),
            AGAIN * apart,
            cool,
            best,
            pool,
        )
        _combine(best, pool, budget.left / (2 * turns))
        if combines and budget.end is None and best.sse >= (1 - _GAIN) * before:
            break


def _anneal_copies(
    copies: Search, budget: Budget, warm: Floats, cool: float, best: Search, pool: Pool
) -> None:
    """Anneal the copies and pool their results, even if interrupted.

    The copies end in their last state, not the best: if the best were the initial one, nothing new
    would result.
    """
    try:
        cool_down(copies, budget, warm, cool, keep_best=False)
    finally:
        for labels in map(compact, np.split(copies.labels, copies.copies)):
            pool.add(labels)
            best.combine(labels)


def _combine(best: Search, pool: Pool, seconds: float) -> bool:
    """Combine pooled cells into ``best``; return whether that lowers the SSE."""
    progress.report(f"combining partitions, objective {best.sse / max(best.total, 1e-300):.6f}")
    before = best.sse
    best.combine(pool.combine(best.labels, seconds))
    return best.sse < (1 - _GAIN) * before


def _search_in_copies(
    X: Floats,
    labels: Integers,
    k: int,
    weights: Floats,
    copies: int,
    seed: int,
    rule: Rule | None,
) -> Search:
    """Return a search over this many copies of the table, each starting from these labels."""
    rows = np.tile(np.arange(len(X)), copies)
    return Search(
        X[rows],
        _repeat(labels, copies),
        k,
        weights[rows],
        seed,
        None if rule is None else take_rows(rule, rows),
        copies=copies,
    )


def _repeat(labels: Integers, copies: int) -> Integers:
    """Return the labels repeated for this many copies, with separate cells."""
    return np.concatenate([labels + turn * (labels.max() + 1) for turn in range(copies)])


LARGE, MACROCELL = 60_000, 8_000
"""Larger tables start from MDAV in macrocells of this size; the search repairs their borders."""

_LONG = 100_000
"""Steps per record from which a search counts as long."""

WHOLE = 1500
"""Up to this number of cells, a long search works on copies of the whole table, not on regions."""

_LAST = 100.0
"""Final steps per record at temperature 0."""

_ROUNDS = 3
"""Refinement rounds after that, for tables that were searched in many regions."""

_REFINING = 0.85
"""Share of a time limit after which annealing ends and refinement starts."""


def steps_within(seconds: float, n: int) -> float:
    """Estimate how many steps per record the seconds allow, to set the initial temperature."""
    return (6e6 if n <= LARGE else 2e6) * seconds / n


@partitioner(
    "anneal",
    summary="MDAV, then random exchanges between nearby cells, initially including worse ones; "
    "best for small cells",
    sizes="k to 2k-1; more only for equal records",
    cost="n^2 / k distances (n beyond 60,000 records), then the steps per record",
    source="simulated annealing with a temperature per record",
    randomized=True,
)
def anneal(
    X: Floats,
    k: int,
    *,
    weights: Floats | None,
    seed: int,
    persons: Integers | None = None,
    steps: float = 10_000.0,
    seconds: float | None = None,
) -> Integers:
    """Return labels with low distortion by simulated annealing, starting from MDAV.

    A step picks a record and another one near it, and lets the first move to the other's cell or
    swap with a member of it; occasionally a cell dissolves or a new one is created. Steps that
    raise the SSE are accepted with a probability that falls as the search cools. ``steps`` is the
    number of tries per record; where many records are equal, of those with fewer than k equal ones.
    With ``seconds`` the search lasts that long instead, and the result depends on the machine. With
    ``persons`` every cell keeps k persons. Ctrl-C ends the search with the best partition so far. A
    step costs O(m), independent of n.
    """
    _check_limits(steps, seconds)
    started = monotonic()
    equal = find_equal_records(X, k, weights) if persons is None else None
    if equal is not None:
        return _anneal_equal_records(equal, seed, steps, seconds)
    labels = mdav(
        X,
        k,
        weights=weights,
        seed=seed,
        persons=persons,
        macrocells=max(MACROCELL, 20 * k) if len(X) > LARGE else None,
    )
    rule = None if persons is None else person_rule(persons, k)
    expected = steps if seconds is None else steps_within(seconds, len(X))
    search = Search(X, labels, k, weights, seed, rule)
    if search.cells == 1 or search.sse == 0:
        return search.labels
    try:
        if len(X) // k <= WHOLE and expected >= _LONG:
            search_copies(search, X, weights, Budget(expected, _end_time(started, seconds)), seed)
        else:
            cool_down(
                search,
                Budget(expected, _end_time(started, seconds, _REFINING)),
                start_temperature(expected, search.sse / search.total),
                COOL,
            )
    except KeyboardInterrupt:
        progress.report("interrupted: continuing with the best partition so far")
    if search.cells <= WHOLE:
        search.anneal(_LAST, 0.0, 0.0)
        return search.labels
    deadline = np.inf if seconds is None else started + seconds
    return refine_labels(
        X,
        search.labels,
        k,
        weights=weights,
        seed=seed,
        rounds=_ROUNDS if rule is None else 1,
        deadline=deadline,
        rule=rule,
    )


_MDAV_WORK = 5e8
"""Points times dimensions times cells up to which the result is compared with MDAV's."""


def _anneal_equal_records(
    equal: EqualRecords, seed: int, steps: float, seconds: float | None
) -> Integers:
    """Return labels of a table of many equal records; steps are per record with fewer than k."""
    started = monotonic()
    macrocells = max(MACROCELL, 20 * equal.k) if len(equal.X) > LARGE else None
    labels = equal.start(seed, macrocells)
    singles = int(equal.single.sum())
    if singles:
        search = equal.search(labels, seed)
        expected = steps if seconds is None else steps_within(seconds, singles)
        budget = Budget(expected, _end_time(started, seconds, _REFINING))
        try:
            if search.sse > 0:
                cool_down(search, budget, start_temperature(expected), COOL)
                search.anneal(_LAST, 0.0, 0.0)
        except KeyboardInterrupt:
            progress.report("interrupted: continuing with the best partition so far")
        labels = search.all_labels()
    if equal.X.size * (len(equal.X) // equal.k) > _MDAV_WORK:
        return labels
    plain = mdav(equal.X, equal.k, weights=equal.weights, seed=seed)
    losses = [sum_of_squares(equal.X, cells, equal.weights) for cells in (labels, plain)]
    return labels if losses[0] <= losses[1] * (1 + 1e-12) else plain


def _end_time(started: float, seconds: float | None, share: float = 1.0) -> float | None:
    return None if seconds is None else started + share * seconds


def _check_limits(steps: float, seconds: float | None) -> None:
    for name, value in (("steps", steps), ("seconds", seconds)):
        if value is not None and not (
            isinstance(value, (int, float, np.integer, np.floating)) and 0 <= value < np.inf
        ):
            raise OptionError(
                f"{name} must be a number of at least 0, not {value!r}.",
                code="option.out_of_range",
                option=name,
            )
