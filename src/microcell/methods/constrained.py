"""Search for cells that meet limits on confidential values, with as little distortion as possible.

Several starts compete: cells that reproduce the distribution of the table by quotas, the cells of
other methods that meet the limits, and the best cells without limits, whose violations are
penalized more and more. All are annealed briefly, and the best one for longer. The *violation* of a
cell is the amount by which it exceeds the limits (:mod:`microcell.kernels.rules`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from time import monotonic

import numpy as np

from microcell import progress
from microcell._display import record_html, record_repr
from microcell.kernels.arrays import sum_of_squares
from microcell.kernels.groups import make_grouping
from microcell.kernels.rules import Rule, cell_violations, take_rows
from microcell.methods.anneal import default_steps, start_temperature
from microcell.methods.search import Budget, Search, compact, cool_down
from microcell.model import Floats, Integers, Mask

__all__ = ["Outcome", "broken_cells", "default_effort", "quota_cells", "search_within_limits"]

_OFFSETS = 8
"""Number of systematic samples of the table that are tried for each cell size."""

_GROWTH = 1.08
"""Ratio of consecutive cell sizes that are tried, if they are large."""

_LARGER, _TURNS = 1.5, 4
"""Ratio between the sizes of competing quota cells, and their maximum number. The first is the
smallest size that meets the limits in all cells; larger ones are tried as long as they improve.
"""

_FEW_VALUES = 64
"""Ordered columns with more values are divided into as many quantiles as a cell has records."""

_QUANTILES = 8
"""Minimum number of quantiles of an ordered column; records in one quantile are similar."""

_TRIAL = 0.06
"""Share of the steps for the trial of each start; the best gets the rest."""

_PENALTIES = (3.0, 1e4)
"""First and last penalty per unit of violation, relative to the mean SSE per record."""

_PRICED_WARM, _COOL = 0.4, 0.02
_ROUNDS, _STEPS_OF_ROUND = 24, 25.0
"""Maximum number of rounds of a search with penalties, over which the penalty rises and the
temperature falls, and the minimum number of steps per record in each.
"""

_MOSTLY = 0.5
"""If more than this share of the records is in cells that exceed limits, only quota cells compete.
"""

_REPAIR, _REPAIRS, _REPAIRED = 20.0, 10, 0.9
"""Steps per record, at temperature 0, of a round that repairs the remaining violations; the most
rounds; and the share of the violation above which another round is not worthwhile.
"""

_LAST = 100.0
"""Final steps per record, at temperature 0."""

_MOST_STEPS, _LEAST_STEPS, _STEPS_OF_MANY = 6000.0, 1300.0, 60.0
_TRIES = 6e7
"""Minimum number of steps in total, up to :data:`_LEAST_STEPS` per record: a minute or two of
processor time for a large table.
"""

_VERY_LARGE = 200_000

_SAMPLED = 50_000
"""Records of a very large table among which the size of quota cells is chosen."""

_LARGE = 30
"""Starts with a cell this many times as large as the average are not searched: memory for the
largest cell is reserved for every cell.
"""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Cells, how they were found, and their SSE. The cells may still exceed limits."""

    labels: Integers
    way: str
    sse: float
    violation: float

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True, eq=False)
class _Problem:
    X: Floats
    k: int
    rule: Rule
    weights: Floats | None
    seed: int

    def found(self, labels: Integers, way: str) -> Outcome:
        each = np.ones(len(self.X)) if self.weights is None else self.weights
        violation = float(_violations(labels, self.rule).sum())
        return Outcome(labels, way, sum_of_squares(self.X, labels, each), violation)

    def search(self, labels: Integers, rule: Rule | None = None) -> Search:
        return Search(self.X, labels, self.k, self.weights, self.seed, rule or self.rule)


def default_effort(n: int, k: int, effort: str | float) -> Budget:
    """Return the default effort within limits: annealing steps per record, or an end time."""
    if not isinstance(effort, str):
        return Budget(_MOST_STEPS, monotonic() + float(effort))
    if effort == "fast" or (effort == "balanced" and n > _VERY_LARGE):
        return Budget(_STEPS_OF_MANY, None)
    least = float(np.clip(_TRIES / n, _STEPS_OF_MANY, _LEAST_STEPS))
    steps = float(np.clip(default_steps(n, k), least, _MOST_STEPS))
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
) -> Outcome:
    """Return cells of at least k with low distortion that satisfy the rule, as far as possible.

    ``starts`` are initial cells, by name; those that exceed limits are penalized. Among the results
    that satisfy the rule, the one with the least SSE is returned; if none does, the one with the
    smallest violation. Time O(n (m + size)) per step and record.
    """
    problem = _Problem(X, k, rule, weights, seed)
    trial = budget.part(_TRIAL, _TRIAL, 1)
    trials = [
        _try(problem, way, labels, _similar_records(rule, max(k, _QUANTILES)), trial)
        for way, labels in _worthwhile(problem, starts)
    ]
    size, turns = _smallest_size(problem), _TURNS
    if len(X) > _VERY_LARGE:
        sample = _sample(problem)
        size = min(_try_quotas(sample, size, trial, turns), key=lambda item: _rank(item[1]))[0]
        turns = 1
    trials += [result for _, result in _try_quotas(problem, size, trial, turns)]
    best, similar = min(trials, key=_rank)
    rest = Budget(budget.steps * max(0.0, 1 - _TRIAL * len(trials)), budget.end)
    return min((best, similar), _try(problem, best.way, best.labels, similar, rest), key=_rank)[0]


def _sample(problem: _Problem) -> _Problem:
    """Return the problem for some of the records of a very large table."""
    rng = np.random.default_rng(problem.seed)
    rows = np.sort(rng.choice(len(problem.X), _SAMPLED, replace=False))
    return replace(
        problem,
        X=np.ascontiguousarray(problem.X[rows]),
        rule=take_rows(problem.rule, rows),
        weights=None if problem.weights is None else problem.weights[rows],
    )


def _try_quotas(
    problem: _Problem, size: int, budget: Budget, turns: int
) -> list[tuple[int, tuple[Outcome, Integers]]]:
    """Anneal quota cells of this size, and of larger ones as long as they are better."""
    trials: list[tuple[int, tuple[Outcome, Integers]]] = []
    for _ in range(turns):
        similar = _similar_records(problem.rule, size)
        labels = quota_cells(problem.X, similar, size, np.random.default_rng(problem.seed))
        result = _try(problem, f"quotas of {size} records", labels, similar, budget)
        trials.append((size, result))
        size = int(np.ceil(_LARGER * size))
        is_worse = len(trials) > 1 and _rank(result) > _rank(trials[-2][1])
        if 2 * size > len(problem.X) or is_worse:
            break
    return trials


def _try(
    problem: _Problem, way: str, labels: Integers, similar: Integers, budget: Budget
) -> tuple[Outcome, Integers]:
    """Anneal a start, preferring exchanges of similar records."""
    progress.report(f"searching within the limits, from {way}")
    return _anneal(
        replace(problem, rule=problem.rule._replace(similar=similar)), labels, way, budget
    ), similar


def _rank(trial: tuple[Outcome, Integers]) -> tuple[float, float]:
    return _worth(trial[0])


def _worth(found: Outcome) -> tuple[float, float]:
    """Return the key to minimize: first the violation, then the SSE."""
    return (found.violation, found.sse)


def broken_cells(labels: Integers, rule: Rule) -> Integers:
    """Return the cells that exceed a limit."""
    return np.flatnonzero(_violations(labels, rule) > 0)


def _violations(labels: Integers, rule: Rule) -> Floats:
    """Return the violation of each cell, without reserving memory for the largest cell in all."""
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
        out[part] = cell_violations(grouping, take_rows(rule, rows))
    return out


def _worthwhile(
    problem: _Problem, starts: Mapping[str, Integers]
) -> Iterator[tuple[str, Integers]]:
    """Yield the starts that are worth searching: few records exceed limits, and no cell is huge."""
    for way, labels in starts.items():
        broken = np.isin(labels, broken_cells(labels, problem.rule)).mean()
        sizes = np.bincount(labels)
        if broken <= _MOSTLY and sizes.max() <= _LARGE * len(labels) / len(sizes):
            yield way, labels


def _similar_records(rule: Rule, size: int) -> Integers:
    """Number the records; those with the same number have the same or similar values.

    Ordered columns of many values are divided into ``size`` quantiles.
    """
    n = rule.keys.shape[1]
    similar = np.zeros(n, dtype=np.int64)
    for c in range(len(rule.keys)):
        codes = rule.keys[c] // max(1, rule.people)
        if rule.ordered[c] and rule.starts[c + 1] - rule.starts[c] > _FEW_VALUES:
            rank = np.empty(n, dtype=np.int64)
            rank[np.argsort(codes, kind="stable")] = np.arange(n)
            codes = rank * size // n
        similar = np.unique(similar * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[
            1
        ]
    return similar


def _smallest_size(problem: _Problem) -> int:
    """Return the smallest size at which systematic samples of the records satisfy the rule."""
    n, rule = len(problem.X), problem.rule
    # By value, not by person: how persons are numbered must not matter.
    values = rule.keys // max(1, rule.people)
    order = np.lexsort(tuple(values)[::-1]) if len(values) else np.arange(n)
    size = problem.k
    while size < n:
        places = (np.arange(size) + (np.arange(_OFFSETS)[:, np.newaxis] + 0.5) / _OFFSETS) * n
        rows = order[np.minimum(n - 1, (places / size).astype(np.int64))].reshape(-1)
        if not _violations(np.repeat(np.arange(_OFFSETS), size), take_rows(rule, rows)).any():
            break
        size = max(size + 1, int(size * _GROWTH))
    return min(size, n)


def quota_cells(X: Floats, similar: Integers, size: int, rng: np.random.Generator) -> Integers:
    """Return cells of about ``size`` records in which groups of similar records have their share.

    The table is halved along its principal axis, with each group of similar records cut at its own
    quantile; fractional parts of the quotas are carried from one group to the next. O(n m log(n /
    size)) time.
    """
    labels = np.empty(len(X), dtype=np.int64)
    waiting, done = [(np.arange(len(X)), max(1, len(X) // size))], 0
    while waiting:
        rows, cells = waiting.pop()
        if cells == 1:
            labels[rows] = done
            done += 1
            continue
        left = _left_half(X[rows], similar[rows], cells // 2 / cells, rng.random())
        waiting += [(rows[left], cells // 2), (rows[~left], cells - cells // 2)]
    return labels


def _left_half(X: Floats, similar: Integers, share: float, offset: float) -> Mask:
    """Return a mask of the records in the left part, which takes this share of each group."""
    points = X - X.mean(axis=0)
    axis = np.linalg.eigh(points.T @ points)[1][:, -1] if X.shape[1] else np.zeros(0)
    order = np.lexsort(((points * axis).sum(axis=1), similar))
    ordered = similar[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    counts = np.diff(np.append(first, len(similar)))
    ends = np.floor(np.cumsum(counts) * share + offset).astype(np.int64)
    quotas = np.minimum(np.diff(ends, prepend=int(np.floor(offset))), counts)
    left = np.zeros(len(similar), dtype=np.bool_)
    left[order] = np.arange(len(similar)) - np.repeat(first, counts) < np.repeat(quotas, counts)
    return left


def _anneal(problem: _Problem, labels: Integers, way: str, budget: Budget) -> Outcome:
    """Anneal the cells: with a rising penalty if they exceed limits, otherwise within them."""
    steps = budget.steps
    found = problem.found(labels, way)
    if steps <= 0 or int(labels.max()) == 0:
        return found
    if found.violation > 0 and _needs_heat(found):
        labels = _penalize(problem, labels, budget)
    if found.violation > 0:
        found = _repair(problem, found, labels, budget)
    if found.violation == 0:
        search = problem.search(found.labels)
        if search.sse > 0 and search.cells > 1:
            cool_down(search, budget, start_temperature(steps), _COOL)
            search.anneal(min(steps, _LAST), 0.0, 0.0)
            found = min(found, problem.found(search.labels, way), key=_worth)
    return found


def _repair(problem: _Problem, found: Outcome, labels: Integers, budget: Budget) -> Outcome:
    """Make exchanges that lower the violation, as long as they help."""
    search = problem.search(labels)
    for _ in range(_REPAIRS):
        search.anneal(_REPAIR, 0.0, 0.0)
        repaired = problem.found(search.labels, found.way)
        is_stuck = repaired.violation > _REPAIRED * found.violation
        found = min(found, repaired, key=_worth)
        if found.violation == 0 or is_stuck or budget.left <= 0:
            break
    return found


def _needs_heat(found: Outcome) -> bool:
    """Return False for quota cells: their few violations are repaired at temperature 0."""
    return not found.way.startswith("quotas")


def _penalize(problem: _Problem, labels: Integers, budget: Budget) -> Integers:
    """Anneal with a penalty that rises from round to round."""
    search = problem.search(labels)
    unit = max(search.sse / len(labels), 1e-300)
    rounds = int(np.clip(budget.steps / _STEPS_OF_ROUND, 1, _ROUNDS))
    warm = _PRICED_WARM * (_COOL / _PRICED_WARM) ** np.linspace(0, 1, rounds + 1)
    for turn, penalty in enumerate(np.geomspace(*_PENALTIES, rounds + 1)[1:]):
        if budget.left <= 0:
            break
        search.rule = problem.rule._replace(penalty=unit * penalty)
        search.anneal(budget.steps / rounds, warm[turn], warm[turn + 1])
    return search.labels
