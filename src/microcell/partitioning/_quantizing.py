"""Cells of given sizes from a start: one level of them, or cells within macrocells."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from microcell import progress
from microcell.cells import PowerCells
from microcell.kernels._jit import thread_count
from microcell.kernels.cells import centroids
from microcell.kernels.transport import choose_cells
from microcell.model import Floats, Integers
from microcell.partitioning._costs import adjust_exactly, settle_costs
from microcell.partitioning._lloyd import Descent, Found, Problem, descend, disperse, rescue, shake
from microcell.partitioning._making import carry_out, choose_method
from microcell.partitioning._shaking import MOST_AT_ONCE, WITHIN, usual_shakes

__all__ = ["How", "Solved", "as_solved", "solve"]

MOST_MACROCELLS = 64
"""More macrocells than this are themselves made within macrocells."""

_MACRO = Descent(iterations=15, tolerance=1e-3)

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, eq=False)
class How:
    """All that was asked for, checked."""

    start: str | Floats
    costs: Floats
    """To start from; 0 but for a start of given sites."""
    fixed: bool
    descent: Descent
    shakes: int | None
    restarts: int
    prepartition: int | None
    seed: int


@dataclass(frozen=True, eq=False)
class Solved:
    """Labels, the cells that yield them, and the losses on the way."""

    labels: Integers
    cells: PowerCells
    history: tuple[float, ...]


def solve(problem: Problem, how: How) -> Solved:
    """The best of the starts asked for; within macrocells if that was asked for, or if there are many cells."""
    count = len(problem.targets)
    macrocells = how.prepartition
    if macrocells is None:
        macrocells = -(-count // WITHIN) if count > MOST_AT_ONCE and isinstance(how.start, str) else 1
    if macrocells > 1:
        return _solve_within(problem, replace(how, prepartition=None), min(macrocells, MOST_MACROCELLS))
    tries = _side_by_side(problem, lambda turn: _try(problem, how, turn), list(range(how.restarts)), "starts")
    return as_solved(problem, min(tries, key=lambda found: found.loss))


def _try(problem: Problem, how: How, turn: int) -> Found:
    """What one start comes to."""
    chance = np.random.default_rng([how.seed, turn])
    begin = _begin(problem, how.start if turn == 0 else "random", how, chance)
    if not how.fixed:
        begin = _leave_points(problem, begin)
        if how.descent.adjust == "noisy":
            begin = disperse(problem, begin, chance)
        begin = shake(problem, begin, _shakes(problem, how), chance)
    return descend(problem, begin, how.descent, fixed=how.fixed)


def _leave_points(problem: Problem, begin: Found) -> Found:
    """The start after one step to the centroids: no site may be a point itself, which files would give away."""
    costs, labels = begin.costs.copy(), begin.labels.copy()
    adjust_exactly(problem.X, begin.sites, costs, problem.targets, labels)
    return Found(labels, centroids(problem.X, labels, problem.weights), costs, ())


def _shakes(problem: Problem, how: How) -> int:
    return usual_shakes(problem.X.size, len(problem.targets)) if how.shakes is None else how.shakes


def _begin(problem: Problem, start: str | Floats, how: How, chance: np.random.Generator) -> Found:
    """Sites, any labels of the right sizes, and no costs but those given with sites."""
    targets, count = problem.targets, len(problem.targets)
    labels, costs = np.repeat(np.arange(count), targets), np.zeros(count)
    if isinstance(start, str):
        labels, sites = _sites_of(problem, start, labels, how.seed, chance)
    else:
        sites, costs = start, how.costs.copy()
    if not how.fixed and (not isinstance(start, str) or start == "random"):
        sites, costs = rescue(problem.X, choose_cells(problem.X, sites, costs), sites, costs, targets)
    return Found(labels, sites, costs, ())


def _sites_of(
    problem: Problem, start: str, labels: Integers, seed: int, chance: np.random.Generator
) -> tuple[Integers, Floats]:
    """The centroids of a method's cells, completed by random points; the method's labels, if they have the sizes."""
    X, targets, count = problem.X, problem.targets, len(problem.targets)
    drawn = X[chance.choice(len(X), size=count, replace=False)]
    if start == "random" or count == 1:
        return labels, drawn
    k = max(2, int(targets.min()))
    if k > len(X):
        return labels, drawn
    made = carry_out(X, k, choose_method(X, k, start, {}, len(X)), problem.weights, seed)[0]
    sizes = np.bincount(made)
    if np.array_equal(sizes, targets):
        labels = made
    largest = np.sort(np.argsort(-sizes, kind="stable")[:count])
    sites = centroids(X, made, problem.weights)[largest]
    return labels, np.ascontiguousarray(np.concatenate([sites, drawn[len(sites) :]]))


def as_solved(problem: Problem, found: Found) -> Solved:
    """What was found, as power cells."""
    targets = problem.targets
    costs = settle_costs(problem.X, found.sites, found.costs, targets, found.labels)
    cells = PowerCells(centroids=found.sites, sizes=targets, k=int(targets.min()), costs=costs)
    return Solved(found.labels, cells, found.history)


# ---------------------------------------------------------------------------------------------- macrocells


def _solve_within(problem: Problem, how: How, macrocells: int) -> Solved:
    """Cells within macrocells, which PCL itself makes, of the sizes that their cells add up to."""
    parts = np.array_split(np.arange(len(problem.targets)), macrocells)
    sizes = np.array([problem.targets[part].sum() for part in parts])
    progress.report("making macrocells")
    coarse = solve(
        Problem(problem.X, sizes, problem.weights, problem.stop),
        replace(how, start="mdav", descent=_MACRO, shakes=0, restarts=1, prepartition=1),
    )
    rows = np.split(np.argsort(coarse.labels, kind="stable"), np.cumsum(sizes)[:-1])

    def solve_part(turn: int) -> Solved:
        own = rows[turn]
        inner = Problem(problem.X[own], problem.targets[parts[turn]], problem.weights[own], problem.stop)
        shakes = _shakes(inner, how) // (1 if how.shakes is not None else macrocells)
        return solve(inner, replace(how, seed=how.seed + turn, shakes=shakes))

    solved = _side_by_side(problem, solve_part, list(range(macrocells)), "macrocells")
    labels = np.empty(len(problem.X), dtype=np.int64)
    for own, part, inner in zip(rows, parts, solved, strict=True):
        labels[own] = part[inner.labels]
    return Solved(labels, _nest(coarse.cells, [inner.cells for inner in solved]), _add_up(solved))


def _nest(chooser: PowerCells, parts: Sequence[PowerCells]) -> PowerCells:
    """The cells of all macrocells, numbered through; cells that are themselves nested keep their choosers."""
    return PowerCells.within(chooser, parts)


def _add_up(solved: Sequence[Solved]) -> tuple[float, ...]:
    """The sum of histories, each going on with its last value."""
    length = max(len(part.history) for part in solved)
    padded = [[*part.history, *[part.history[-1]] * (length - len(part.history))] for part in solved]
    return tuple(np.sum(padded, axis=0).tolist())


def _side_by_side(problem: Problem, work: Callable[[_T], _R], items: list[_T], what: str) -> list[_R]:
    """What ``work`` makes of each item, on all threads: kernels let others run. Ctrl-C tells all of them to stop."""
    if len(items) == 1:
        return [work(items[0])]
    with ThreadPoolExecutor(thread_count()) as pool:
        futures: list[Future[_R]] = [pool.submit(work, item) for item in items]
        done: list[_R] = []
        try:
            for future in futures:
                progress.report(f"solving {what}", len(done), len(items))
                done.append(future.result())
        except BaseException:
            problem.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
        return done
