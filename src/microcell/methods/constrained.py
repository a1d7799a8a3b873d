"""Search for cells that keep limits on confidential values, with as little distortion as possible.

Several starts compete: cells that repeat the distribution of the table by quotas, the given cells
that keep the limits, and the best cells without limits, which pay a rising price for what exceeds
the limits. All are annealed briefly, the best for longer. Debt is by how much cells exceed limits
(:mod:`microcell.kernels.rules`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from time import monotonic

import numpy as np

from microcell import progress
from microcell._display import record_html, record_repr
from microcell.kernels.arrays import sum_of_squares
from microcell.kernels.groups import make_grouping
from microcell.kernels.rules import Rule, cell_debts, take_rows
from microcell.methods.anneal import default_steps, start_temperature
from microcell.methods.search import Budget, Search, compact, cool_down
from microcell.model import Floats, Integers, Mask

__all__ = ["Found", "broken_cells", "default_effort", "quota_cells", "search_within_limits"]

_OFFSETS = 8
"""Systematic samples of the table that are tried for each size of cells."""

_GROWTH = 1.08
"""Ratio of consecutive sizes that are tried, where they are large."""

_LARGER, _TURNS = 1.5, 4
"""Ratio of the sizes of quota cells that compete, beginning with the smallest that keeps the limits
throughout, and the most of them; larger ones are tried as long as they are better.
"""

_FEW_VALUES = 64
"""Ordered columns of more values are divided into as many quantiles as a cell has records."""

_QUANTILES = 8
"""Least number of quantiles of ordered columns, within which records are similar."""

_TRIAL = 0.06
"""Share of the steps for the trial of each start; the best gets the rest."""

_PRICES = (3.0, 1e4)
"""First and last price of a unit of debt, in units of the mean SSE per record."""

_PRICED_WARM, _COOL = 0.4, 0.02
_ROUNDS, _STEPS_OF_ROUND = 24, 25.0
"""Most rounds of a priced search, over which the price rises and the temperature falls, and the
least steps per record of each.
"""

_MOSTLY = 0.5
"""If more records than this share are in cells that exceed limits, only quota cells compete."""

_REPAIR = 200.0
"""Steps per record, without heat, to repair what is left of the debt."""

_MOST_STEPS, _LEAST_STEPS, _VERY_LARGE = 6000.0, 800.0, 200_000
_STEPS_OF_MANY = 60.0

_LARGE = 30
"""Starts with a cell this many times as large as the average are not searched: room for the largest
is reserved in all cells.
"""


@dataclass(frozen=True, eq=False)
class Found:
    """Cells, how they were found, and their SSE; cells may still exceed limits."""

    labels: Integers
    way: str
    sse: float
    debt: float

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True, eq=False)
class _Problem:
    X: Floats
    k: int
    rule: Rule
    weights: Floats | None
    seed: int

    def found(self, labels: Integers, way: str) -> Found:
        each = np.ones(len(self.X)) if self.weights is None else self.weights
        debt = float(_debts(labels, self.rule).sum())
        return Found(labels, way, sum_of_squares(self.X, labels, each), debt)

    def search(self, labels: Integers, rule: Rule | None = None) -> Search:
        return Search(self.X, labels, self.k, self.weights, self.seed, rule or self.rule)


def default_effort(n: int, k: int, effort: str | float) -> Budget:
    """Return the annealing steps per record within limits, or the end of a time limit."""
    if not isinstance(effort, str):
        return Budget(_MOST_STEPS, monotonic() + float(effort))
    if effort == "fast" or (effort == "balanced" and n > _VERY_LARGE):
        return Budget(_STEPS_OF_MANY, None)
    steps = float(np.clip(default_steps(n, k), _LEAST_STEPS, _MOST_STEPS))
    return Budget(4 * steps if effort == "best" else steps, None)


def search_within_limits(
    X: Floats,
    k: int,
    rule: Rule,
    starts: Mapping[str, Integers],
    budget: Budget,
    *,
    weights: Floats | None = None,
    seed: int = 0,
) -> Found:
    """Return cells of at least k with little distortion that keep the rule, as far as possible.

    ``starts`` are cells to begin with, by name; those that exceed limits pay for it. Of the results
    that keep the rule the one with the least SSE is returned, otherwise the one with the least
    debt. Time O(n (m + size)) per step and record.
    """
    problem = _Problem(X, k, rule, weights, seed)
    trial = budget.part(_TRIAL, _TRIAL, 1)
    trials = [
        _try(problem, way, labels, _kin(rule, max(k, _QUANTILES)), trial)
        for way, labels in _worthwhile(problem, starts)
    ]
    size = _smallest_size(problem)
    for _ in range(_TURNS):
        kin = _kin(rule, size)
        labels = quota_cells(X, kin, size, np.random.default_rng(seed))
        trials.append(_try(problem, f"quotas of {size} records", labels, kin, trial))
        size = int(np.ceil(_LARGER * size))
        if 2 * size > len(X) or (len(trials) > 1 and _rank(trials[-1]) > _rank(trials[-2])):
            break
    best, kin = min(trials, key=_rank)
    rest = Budget(budget.steps * max(0.0, 1 - _TRIAL * len(trials)), budget.end)
    return min((best, kin), _try(problem, best.way, best.labels, kin, rest), key=_rank)[0]


def _try(
    problem: _Problem, way: str, labels: Integers, kin: Integers, budget: Budget
) -> tuple[Found, Integers]:
    """Anneal a start; records of the same kin are exchanged preferably."""
    progress.report(f"searching within the limits, from {way}")
    return _anneal(replace(problem, rule=problem.rule._replace(kin=kin)), labels, way, budget), kin


def _rank(trial: tuple[Found, Integers]) -> tuple[float, float]:
    return _worth(trial[0])


def _worth(found: Found) -> tuple[float, float]:
    """Return what to minimize: debt first."""
    return (found.debt, found.sse)


def broken_cells(labels: Integers, rule: Rule) -> Integers:
    """Return the cells that exceed a limit."""
    return np.flatnonzero(_debts(labels, rule) > 0)


def _debts(labels: Integers, rule: Rule) -> Floats:
    """Return the debt of each cell, without reserving room for the largest in all of them."""
    cells = compact(labels)
    sizes = np.bincount(cells)
    out = np.empty(len(sizes))
    by_size = np.argsort(sizes, kind="stable")
    for part in np.array_split(by_size, max(1, min(len(sizes), len(sizes) * sizes.max() // 10**7))):
        number = np.full(len(sizes), -1)
        number[part] = np.arange(len(part))
        rows = np.flatnonzero(number[cells] >= 0)
        grouping = make_grouping(
            np.zeros((len(rows), 1)),
            np.ones(len(rows)),
            number[cells[rows]],
            len(part),
            int(sizes[part].max()),
        )
        out[part] = cell_debts(grouping, take_rows(rule, rows))
    return out


def _worthwhile(
    problem: _Problem, starts: Mapping[str, Integers]
) -> Iterator[tuple[str, Integers]]:
    """Yield the starts in which few records are in cells that exceed limits, or in large ones."""
    for way, labels in starts.items():
        broken = np.isin(labels, broken_cells(labels, problem.rule)).mean()
        sizes = np.bincount(labels)
        if broken <= _MOSTLY and sizes.max() <= _LARGE * len(labels) / len(sizes):
            yield way, labels


def _kin(rule: Rule, size: int) -> Integers:
    """Number the records so that those of one number have the same or similar values.

    Ordered columns of many values are divided into ``size`` quantiles.
    """
    n = rule.keys.shape[1]
    kin = np.zeros(n, dtype=np.int64)
    for c in range(len(rule.keys)):
        codes = rule.keys[c] // max(1, rule.people)
        if rule.ordered[c] and rule.starts[c + 1] - rule.starts[c] > _FEW_VALUES:
            rank = np.empty(n, dtype=np.int64)
            rank[np.argsort(codes, kind="stable")] = np.arange(n)
            codes = rank * size // n
        kin = np.unique(kin * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    return kin


def _smallest_size(problem: _Problem) -> int:
    """Return the smallest size at which systematic samples of the records keep the rule."""
    n, rule = len(problem.X), problem.rule
    order = np.lexsort(tuple(rule.keys)[::-1]) if len(rule.keys) else np.arange(n)
    size = problem.k
    while size < n:
        places = (np.arange(size) + (np.arange(_OFFSETS)[:, np.newaxis] + 0.5) / _OFFSETS) * n
        rows = order[np.minimum(n - 1, (places / size).astype(np.int64))].reshape(-1)
        if not _debts(np.repeat(np.arange(_OFFSETS), size), take_rows(rule, rows)).any():
            break
        size = max(size + 1, int(size * _GROWTH))
    return min(size, n)


def quota_cells(X: Floats, kin: Integers, size: int, rng: np.random.Generator) -> Integers:
    """Return cells of about ``size`` records in which each kin has its share of the table.

    The table is halved along its principal axis, but each kin at its own quantile; the fractional
    parts of the quotas are carried from one kin to the next. O(n m log(n / size)) time.
    """
    labels = np.empty(len(X), dtype=np.int64)
    waiting, done = [(np.arange(len(X)), max(1, len(X) // size))], 0
    while waiting:
        rows, cells = waiting.pop()
        if cells == 1:
            labels[rows] = done
            done += 1
            continue
        left = _left_half(X[rows], kin[rows], cells // 2 / cells, rng.random())
        waiting += [(rows[left], cells // 2), (rows[~left], cells - cells // 2)]
    return labels


def _left_half(X: Floats, kin: Integers, share: float, offset: float) -> Mask:
    """Return a mask of the records in the left part, which takes this share of each kin."""
    points = X - X.mean(axis=0)
    axis = np.linalg.eigh(points.T @ points)[1][:, -1] if X.shape[1] else np.zeros(0)
    order = np.lexsort(((points * axis).sum(axis=1), kin))
    ordered = kin[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    counts = np.diff(np.append(first, len(kin)))
    ends = np.floor(np.cumsum(counts) * share + offset).astype(np.int64)
    quotas = np.minimum(np.diff(ends, prepend=int(np.floor(offset))), counts)
    left = np.zeros(len(kin), dtype=np.bool_)
    left[order] = np.arange(len(kin)) - np.repeat(first, counts) < np.repeat(quotas, counts)
    return left


def _anneal(problem: _Problem, labels: Integers, way: str, budget: Budget) -> Found:
    """Anneal the cells: with a rising price if they exceed limits, otherwise within the limits."""
    steps = budget.steps
    found = problem.found(labels, way)
    if steps <= 0 or int(labels.max()) == 0:
        return found
    if found.debt > 0 and _needs_heat(found):
        labels = _pay(problem, labels, budget)
    search = problem.search(labels)
    if found.debt > 0:
        search.anneal(_REPAIR if budget.end is None else _STEPS_OF_MANY, 0.0, 0.0)
        found = min(found, problem.found(search.labels, way), key=_worth)
    if found.debt == 0:
        search = problem.search(found.labels)
        if search.sse > 0 and search.cells > 1:
            cool_down(search, budget, start_temperature(steps), _COOL)
            search.anneal(min(steps, _REPAIR / 2), 0.0, 0.0)
            found = min(found, problem.found(search.labels, way), key=_worth)
    return found


def _needs_heat(found: Found) -> bool:
    """Return False for quota cells: their few debts are repaired without heat."""
    return not found.way.startswith("quotas")


def _pay(problem: _Problem, labels: Integers, budget: Budget) -> Integers:
    """Anneal while the price of debt rises."""
    search = problem.search(labels)
    unit = max(search.sse / len(labels), 1e-300)
    rounds = int(np.clip(budget.steps / _STEPS_OF_ROUND, 1, _ROUNDS))
    warm = _PRICED_WARM * (_COOL / _PRICED_WARM) ** np.linspace(0, 1, rounds + 1)
    for turn, price in enumerate(np.geomspace(*_PRICES, rounds + 1)[1:]):
        if budget.left <= 0:
            break
        search.rule = problem.rule._replace(price=unit * price)
        search.anneal(budget.steps / rounds, warm[turn], warm[turn + 1])
    return search.labels
