"""Set partitioning: choose sets that cover each element once, and prices of its dual."""

from typing import Any

import numpy as np
import scipy

from microcell.kernels.arrays import Floats, Integers, Mask

__all__ = ["cover_once", "cover_prices"]

_SPLIT = 2.7
"""Maximum number of fractional sets in the relaxed problem, relative to the sets of the solution.
"""

_WORTH = 0.07
"""Maximum reduced cost, relative to the mean cost, of a set that the integer program considers."""

_PATIENCE = 120.0
"""Time limit of the solver in seconds; it usually needs a few, and at most half a minute on the
classic data sets. A solution cut off by the limit is not used, as it would differ between machines.
"""


def cover_once(
    sets: list[Integers], costs: Floats, incumbent: Integers, seconds: float
) -> Integers:
    """Choose sets that cover each element exactly once, at lower cost than the incumbent.

    Returns the incumbent if no better solution is found. Costs should add up to about 1. The search
    does not branch, so it usually ends soon; it is abandoned after this many seconds.
    """
    matrix = _as_columns(sets, sum(len(sets[members]) for members in incumbent))
    tried = _worth_trying(matrix, costs, incumbent, min(seconds, _PATIENCE))
    if not len(tried):
        return incumbent
    chosen = tried[_solve(matrix[:, tried], costs[tried], min(seconds, _PATIENCE))]
    once = (np.asarray(matrix[:, chosen].sum(axis=1)) == 1).all()
    return chosen if once and costs[chosen].sum() < costs[incumbent].sum() else incumbent


def cover_prices(
    sets: list[Integers], costs: Floats, copies: Integers, seconds: float
) -> tuple[Floats, float] | None:
    """Return the element prices with the greatest sum such that no set is worth more than it costs.

    This is the dual of covering each element as often as it has ``copies``; sets may repeat
    elements. Also returns the optimal value. None if the solver does not finish in time.
    """
    relax: Any = scipy.optimize.linprog
    solved = relax(
        costs,
        A_eq=_as_columns(sets, len(copies)),
        b_eq=copies,
        method="highs",
        options={"time_limit": seconds} if seconds < np.inf else {},
    )
    return (solved.eqlin.marginals, float(solved.fun)) if solved.success else None


def _worth_trying(
    matrix: "scipy.sparse.csc_array", costs: Floats, incumbent: Integers, seconds: float
) -> Integers:
    """Return the sets that a better solution could use, or none if the problem is too hard."""
    relax: Any = scipy.optimize.linprog
    every, limits = np.ones(matrix.shape[0]), {"time_limit": seconds}
    relaxed = relax(costs, A_eq=matrix, b_eq=every, method="highs", options=limits)
    if not relaxed.success or np.count_nonzero(_split(relaxed.x)) > _SPLIT * len(incumbent):
        return np.empty(0, dtype=np.int64)
    worth = costs - matrix.T @ relaxed.eqlin.marginals <= _WORTH * costs.mean()
    worth[incumbent] = True
    return np.flatnonzero(worth)


def _split(shares: Floats) -> Mask:
    """Return a mask of the sets that have a fractional value in the relaxed solution."""
    return (shares > 1e-6) & (shares < 1 - 1e-6)


def _solve(matrix: "scipy.sparse.csc_array", costs: Floats, seconds: float) -> Integers:
    """Return the sets of the best solution, or none if there is none."""
    limits: Any = {"node_limit": 1, "mip_rel_gap": 1e-6, "time_limit": seconds}
    result = scipy.optimize.milp(
        costs,
        constraints=scipy.optimize.LinearConstraint(matrix, 1, 1),
        bounds=scipy.optimize.Bounds(0, 1),
        integrality=np.ones(len(costs), dtype=np.int64),
        options=limits,
    )
    # The status of a node limit differs between releases of SciPy, so the message is tested.
    if result.x is None or "Time limit" in result.message:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(result.x > 0.5)


def _as_columns(sets: list[Integers], n: int) -> "scipy.sparse.csc_array":
    """Return a matrix with a column per set: how often the set contains the element."""
    ends = np.concatenate([[0], np.cumsum([len(members) for members in sets])])
    rows = np.concatenate(sets)
    matrix = scipy.sparse.csc_array((np.ones(len(rows)), rows, ends), shape=(n, len(sets)))
    matrix.sum_duplicates()
    return matrix
