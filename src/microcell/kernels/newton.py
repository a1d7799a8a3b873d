"""Costs that give cells their sizes, by Newton's method: quick and close where cells are large.

The sizes are a function of the costs, p(c); its Jacobian is estimated from the points that each cell would lose first.
What is left over, a point or two a cell, is for others to correct.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import cg

from microcell.kernels._arrays import Floats, Integers
from microcell.kernels.cells import squared_distances
from microcell.kernels.transport import choose_two

__all__ = ["balance_costs"]

_LOST = 0.05
"""A cost is raised, in thought, until its cell loses this share of its points."""

_DENSE = 400
"""Up to so many cells the Jacobian's eigenvalues are found; beyond, conjugate gradients do with the sparse matrix."""

_STEPS, _HALVINGS, _ARMIJO = 30, 8, 1e-4

_HARDLY = 0.95
"""A step that leaves more than this share of ||p||^2 is the last: what is left over is corrected faster otherwise."""


@dataclass(frozen=True, eq=False)
class _State:
    """Each point's best cell and next best under some costs, and the sizes' excess over their targets, in shares."""

    best: Integers
    second: Integers
    margins: Floats
    excess: Floats

    @property
    def residual(self) -> float:
        """||p||^2."""
        return float((self.excess**2).sum())


def balance_costs(X: Floats, sites: Floats, costs: Floats, targets: Integers, tolerance: float = 0.01) -> Floats:
    """Costs under which the cells have about their target sizes, from the ``costs`` given.

    Regularized Gauss-Newton (Levenberg-Marquardt): the step d solves (J'J + mu I) d = -J'p, and is halved until
    ||p||^2 falls enough (Armijo). Time O(n Q m) for each look at the sizes. Ends when every size is within the
    tolerance (a share, or two points) of its target, or when steps hardly help.
    """
    count, damping = len(targets), 1e-4
    if count == 1:
        return costs
    costs = _feed(X, sites, costs, targets)
    state = _look(X, sites, costs, targets)
    allowed, last = np.maximum(2.0, tolerance * targets) / len(X), np.inf
    for _ in range(_STEPS):
        if (np.abs(state.excess) <= allowed).all() or state.residual > _HARDLY * last or damping > 1.0:
            break
        jacobian = _estimate_jacobian(state, count)
        if jacobian is None:
            break
        step = _solve(jacobian, state.excess, damping)
        slope = 2.0 * float((state.excess * (jacobian @ step)).sum())
        for halving in range(_HALVINGS):
            length = 0.5**halving
            trial = _look(X, sites, costs + length * step, targets)
            if trial.residual <= state.residual + _ARMIJO * length * slope and trial.residual < state.residual:
                costs, last, state = costs + length * step, state.residual, trial
                damping *= 0.2 if halving == 0 else 1.0
                break
        else:
            damping *= 30.0
    return costs


def _look(X: Floats, sites: Floats, costs: Floats, targets: Integers) -> _State:
    n = len(X)
    best, second, margins = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n)
    choose_two(X, sites, costs, best, second, margins)
    return _State(best, second, margins, (np.bincount(best, minlength=len(targets)) - targets) / n)


def _feed(X: Floats, sites: Floats, costs: Floats, targets: Integers) -> Floats:
    """The costs, lowered for cells without points until they take about their share: no derivative would tell them."""
    state = _look(X, sites, costs, targets)
    empty = np.flatnonzero(np.bincount(state.best, minlength=len(targets)) == 0)
    if len(empty) == 0:
        return costs
    out = costs.copy()
    reached = ((X - sites[state.best]) ** 2).sum(axis=1) + costs[state.best]
    for q in empty:
        wanted = min(int(targets[q]), len(X)) - 1
        out[q] = np.partition(reached - squared_distances(X, sites[q]), len(X) - 1 - wanted)[len(X) - 1 - wanted]
    return out


def _estimate_jacobian(state: _State, count: int) -> sparse.csr_array | None:
    """dp/dc: how many points, in shares, each cell would lose to each other as its own cost rises by one.

    Only points of that cell would move, each to its next best: those of least margin go first. Symmetric and negative
    semidefinite as the true one is, which the estimate is only about. None where points tie, which tells nothing.
    """
    n = len(state.best)
    sizes = np.bincount(state.best, minlength=count)
    order = np.lexsort((state.margins, state.best))
    rank = np.arange(n) - (np.cumsum(sizes) - sizes)[state.best[order]]
    lost = np.ceil(_LOST * sizes).astype(np.int64)
    leaving = order[rank < lost[state.best[order]]]
    rise = np.zeros(count)
    np.maximum.at(rise, state.best[leaving], state.margins[leaving])
    if not rise.max() > 0:
        return None
    rise = np.maximum(rise, 1e-9 * rise.max())
    rates = 1.0 / (n * rise[state.best[leaving]])
    flow = sparse.coo_array((rates, (state.second[leaving], state.best[leaving])), shape=(count, count)).tocsr()
    own = flow.sum(axis=0)
    flow = (flow + flow.T) / 2
    if count > _DENSE:  # as much out as in: a graph's Laplacian has no positive eigenvalue
        own = flow.sum(axis=0)
    return sparse.csr_array(flow - sparse.diags_array(own))


def _solve(jacobian: sparse.csr_array, excess: Floats, damping: float) -> Floats:
    """The damped step; positive eigenvalues of the Jacobian are taken for 0."""
    count = len(excess)
    if count <= _DENSE:
        values, vectors = np.linalg.eigh(jacobian.toarray())
        values = np.minimum(values, 0.0)
        mu = damping * max(float(values.min()) ** 2, 1e-300)
        return np.asarray(-vectors @ (values / (values**2 + mu) * (vectors.T @ excess)))
    mu = damping * float(np.abs(jacobian.diagonal()).max()) ** 2
    normal = (jacobian @ jacobian + mu * sparse.eye_array(count)).tocsr()
    step, _ = cg(normal, -(jacobian @ excess), rtol=1e-3, maxiter=300)
    return np.asarray(step)
