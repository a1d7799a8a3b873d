"""Set partitioning: some of many given sets that hold each element once, at the least cost, by integer programming."""

from typing import Any

import numpy as np
from scipy import optimize, sparse

from microcell.kernels.arrays import Floats, Integers, Mask

__all__ = ["cover_once"]

_SPLIT = 2.7
"""Sets taken in part by the relaxed problem, for each that is needed, beyond which whole ones are too hard to find."""

_WORTH = 0.07
"""A set is worth trying if it costs at most so much of a usual set more than the prices of the relaxed problem."""

_PATIENCE = 120.0
"""Seconds for the solver, which mostly needs a few, and half a minute at the most on the classic sets.

What it has by then is not used: it would be another elsewhere.
"""


def cover_once(sets: list[Integers], costs: Floats, known: Integers, seconds: float) -> Integers:
    """Which sets to take; those of the solution that is known if none better is found.

    Costs are best about 1 in all. The search is without branching, so that it mostly ends soon; what is not found
    within so many seconds is given up. A solution is checked to hold each element once.
    """
    matrix = _as_columns(sets, sum(len(sets[own]) for own in known))
    tried = _worth_trying(matrix, costs, known, min(seconds, _PATIENCE))
    if not len(tried):
        return known
    chosen = tried[_solve(matrix[:, tried], costs[tried], min(seconds, _PATIENCE))]
    once = (np.asarray(matrix[:, chosen].sum(axis=1)) == 1).all()
    return chosen if once and costs[chosen].sum() < costs[known].sum() else known


def _worth_trying(
    matrix: sparse.csc_array, costs: Floats, known: Integers, seconds: float
) -> Integers:
    """The sets that a better solution may have, and those of the known one; none if that is too hard to tell."""
    relax: Any = optimize.linprog
    every, limits = np.ones(matrix.shape[0]), {"time_limit": seconds}
    relaxed = relax(costs, A_eq=matrix, b_eq=every, method="highs", options=limits)
    if not relaxed.success or np.count_nonzero(_split(relaxed.x)) > _SPLIT * len(known):
        return np.empty(0, dtype=np.int64)
    worth = costs - matrix.T @ relaxed.eqlin.marginals <= _WORTH * costs.mean()
    worth[known] = True
    return np.flatnonzero(worth)


def _split(shares: Floats) -> Mask:
    """Which sets the relaxed problem takes in part."""
    return (shares > 1e-6) & (shares < 1 - 1e-6)


def _solve(matrix: sparse.csc_array, costs: Floats, seconds: float) -> Integers:
    """The sets of the best solution found; none if none was."""
    limits: Any = {"node_limit": 1, "mip_rel_gap": 1e-6, "time_limit": seconds}
    found = optimize.milp(
        costs,
        constraints=optimize.LinearConstraint(matrix, 1, 1),
        bounds=optimize.Bounds(0, 1),
        integrality=np.ones(len(costs), dtype=np.int64),
        options=limits,
    )
    if (
        found.x is None or "Time limit" in found.message
    ):  # the status of a limit on nodes is another in each release
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(found.x > 0.5)


def _as_columns(sets: list[Integers], n: int) -> sparse.csc_array:
    """A matrix with a column for each set, 1 where it has an element."""
    ends = np.concatenate([[0], np.cumsum([len(own) for own in sets])])
    rows = np.concatenate(sets)
    return sparse.csc_array((np.ones(len(rows)), rows, ends), shape=(n, len(sets)))
