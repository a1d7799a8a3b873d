"""Costs for power cells of given sizes, by shortest paths (exact) or Newton's method (fast).

A point goes to the cell of least squared distance plus cost, so the sizes are a function of the
costs. :func:`push_excess` moves points along shortest paths between cells until all sizes are
right. :func:`balance_costs` uses Newton's method, estimating the Jacobian from the points that each
cell would lose first; it is fast and close for large cells, and leaves a point or two per cell for
the exact method.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from microcell.kernels._jit import inlined_kernel, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers, Mask, squared_distances

__all__ = [
    "balance_costs",
    "centre_costs",
    "choose_again",
    "choose_cells",
    "choose_two",
    "push_excess",
]

_TIE = 1e-12
"""Two cells tie for a point if they differ by less than this share of the terms involved."""


@inner_kernel
def _measure(point: Floats, across: Floats, costs: Floats, out: Floats) -> None:
    """Compute squared distance plus cost of each cell; ``across`` has a column per site (OUT)."""
    for q in range(len(costs)):
        out[q] = costs[q]
    for j in range(len(point)):
        value, row = point[j], across[j]
        for q in range(len(costs)):
            difference = value - row[q]
            out[q] += difference * difference


@kernel
def choose_cells(X: Floats, sites: Floats, costs: Floats) -> Integers:
    """Return the cell with the least squared distance plus cost for each point. O(n Q m).

    Ties go to the lowest cell.
    """
    across = np.ascontiguousarray(sites.T)
    labels, sums = np.empty(len(X), dtype=np.int64), np.empty(len(costs))
    for i in range(len(X)):
        _measure(X[i], across, costs, sums)
        labels[i] = np.argmin(sums)
    return labels


@kernel
def choose_again(
    X: Floats, sites: Floats, costs: Floats, targets: Integers, labels: Integers
) -> int:
    """Move every point to its cell of least squared distance plus cost (OUT: ``labels``).

    Returns how many points moved. A point stays if its cell ties with the best; a point that moves
    to tied cells prefers one below its target size, so that equal points spread. O(n Q m).
    """
    count, moved = len(costs), 0
    across, sums, sizes = (
        np.ascontiguousarray(sites.T),
        np.empty(count),
        np.zeros(count, dtype=np.int64),
    )
    for i in range(len(X)):
        sizes[labels[i]] += 1
    for i in range(len(X)):
        _measure(X[i], across, costs, sums)
        current, best = labels[i], int(np.argmin(sums))
        slack = _TIE * (
            abs(sums[current] - costs[current]) + abs(costs[current]) + abs(costs[best])
        )
        if sums[best] < sums[current] - slack:
            limit = sums[best] + slack
            chosen = best
            for q in range(count):
                if sums[q] <= limit and sizes[q] < targets[q]:
                    chosen = q
                    break
            sizes[current] -= 1
            sizes[chosen] += 1
            labels[i] = chosen
            moved += 1
    return moved


@kernel
def choose_two(
    X: Floats, sites: Floats, costs: Floats, best: Integers, second: Integers, margins: Floats
) -> None:
    """Find each point's two best cells and their margin (OUT: last three). O(n Q m)."""
    across, sums = np.ascontiguousarray(sites.T), np.empty(len(costs))
    for i in range(len(X)):
        _measure(X[i], across, costs, sums)
        first, other, least, next_least = 0, 0, np.inf, np.inf
        for q in range(len(sums)):
            if sums[q] < next_least:
                if sums[q] < least:
                    first, other, least, next_least = q, first, sums[q], least
                else:
                    other, next_least = q, sums[q]
        best[i], second[i], margins[i] = first, other, next_least - least


class _Flow(NamedTuple):
    """Linked lists of the points in each cell, and the cheapest arc to each near cell."""

    X: Floats
    sites: Floats
    costs: Floats
    targets: Integers
    labels: Integers
    near: Integers
    """(Q, A): cells that arcs lead to."""
    weights: Floats
    """(Q, A): minimum of ||x - site r||^2 - ||x - site q||^2 over the members x of q."""
    movers: Integers
    """(Q, A): member that attains it, -1 if q is empty. It may have left since; see ``_renew``."""
    heads: Integers
    after: Integers
    before: Integers
    sizes: Integers


class _Paths(NamedTuple):
    """State of a shortest-path search for each cell; reset between searches."""

    distances: Floats
    parents: Integers
    arcs: Integers
    done: Mask
    frontier: Integers
    touched: Integers


@inlined_kernel
def _squared_distance(x: Floats, y: Floats) -> float:
    out = 0.0
    for j in range(len(x)):
        difference = x[j] - y[j]
        out += difference * difference
    return out


@inner_kernel
def _link(flow: _Flow, i: int, q: int) -> None:
    """Add a point to the list of a cell."""
    first = flow.heads[q]
    flow.after[i], flow.before[i] = first, -1
    if first >= 0:
        flow.before[first] = i
    flow.heads[q] = i
    flow.labels[i] = q
    flow.sizes[q] += 1


@inner_kernel
def _unlink(flow: _Flow, i: int, q: int) -> None:
    """Remove a point from the list of its cell."""
    last, following = flow.before[i], flow.after[i]
    if last >= 0:
        flow.after[last] = following
    else:
        flow.heads[q] = following
    if following >= 0:
        flow.before[following] = last
    flow.sizes[q] -= 1


@inner_kernel
def _lay_arcs(flow: _Flow, q: int) -> None:
    """Find the cheapest arc from a cell to each near one. O(size A m)."""
    reach, m = flow.near.shape[1], flow.X.shape[1]
    across, sums, zeros = np.empty((m, reach)), np.empty(reach), np.zeros(reach)
    for a in range(reach):
        for j in range(m):
            across[j, a] = flow.sites[flow.near[q, a], j]
    weights, movers = flow.weights[q], flow.movers[q]
    weights[:] = np.inf
    movers[:] = -1
    i = flow.heads[q]
    while i >= 0:
        _measure(flow.X[i], across, zeros, sums)
        current = _squared_distance(flow.X[i], flow.sites[q])
        for a in range(reach):
            if sums[a] - current < weights[a]:
                weights[a], movers[a] = sums[a] - current, i
        i = flow.after[i]


@inner_kernel
def _add_point(flow: _Flow, i: int, q: int) -> None:
    """Add a point to a cell and update the cheapest arcs. O(A m)."""
    _link(flow, i, q)
    current = _squared_distance(flow.X[i], flow.sites[q])
    for a in range(flow.near.shape[1]):
        weight = _squared_distance(flow.X[i], flow.sites[flow.near[q, a]]) - current
        if weight < flow.weights[q, a]:
            flow.weights[q, a], flow.movers[q, a] = weight, i


@inner_kernel
def _renew(flow: _Flow, q: int, a: int) -> None:
    """Recompute the cheapest arc if its point has left the cell. O(size m)."""
    i = flow.movers[q, a]
    if i < 0 or flow.labels[i] == q:
        return
    site, last = flow.sites[flow.near[q, a]], flow.weights[q, a]
    least, mover = np.inf, -1
    other = flow.heads[q]
    while other >= 0 and least > last:  # none is cheaper than the one that left
        weight = _squared_distance(flow.X[other], site) - _squared_distance(
            flow.X[other], flow.sites[q]
        )
        if weight < least:
            least, mover = weight, other
        other = flow.after[other]
    flow.weights[q, a], flow.movers[q, a] = least, mover


@inner_kernel
def _find_room(flow: _Flow, paths: _Paths, source: int) -> tuple[int, int]:
    """Return the nearest cell below its target, by Dijkstra's algorithm, and the cells touched.

    The cell is -1 if there is none.
    """
    waiting, touched, bound = 1, 1, np.inf
    paths.distances[source], paths.frontier[0], paths.touched[0] = 0.0, source, source
    while waiting > 0:
        place = 0
        for f in range(1, waiting):
            if paths.distances[paths.frontier[f]] < paths.distances[paths.frontier[place]]:
                place = f
        q = paths.frontier[place]
        waiting -= 1
        paths.frontier[place] = paths.frontier[waiting]
        paths.done[q] = True
        if flow.sizes[q] < flow.targets[q]:
            return q, touched
        base = paths.distances[q] - flow.costs[q]
        for a in range(flow.near.shape[1]):
            r = flow.near[q, a]
            # The maximum corrects for rounding.
            length = max(base + flow.weights[q, a] + flow.costs[r], paths.distances[q])
            if length < min(paths.distances[r], bound) and not paths.done[r]:
                _renew(flow, q, a)  # a stale weight is a lower bound
                length = max(base + flow.weights[q, a] + flow.costs[r], paths.distances[q])
            if length < min(paths.distances[r], bound) and not paths.done[r]:
                if paths.distances[r] == np.inf:
                    paths.frontier[waiting], paths.touched[touched] = r, r
                    waiting, touched = waiting + 1, touched + 1
                paths.distances[r], paths.parents[r], paths.arcs[r] = length, q, a
                if flow.sizes[r] < flow.targets[r]:
                    bound = length
    return -1, touched


@inner_kernel
def _push(flow: _Flow, paths: _Paths, source: int, target: int) -> None:
    """Move one point along each arc of the path."""
    r = target
    while r != source:
        q = paths.parents[r]
        i = flow.movers[q, paths.arcs[r]]
        _unlink(flow, i, q)
        _add_point(flow, i, r)
        r = q


@inner_kernel
def _is_tight(flow: _Flow, paths: _Paths, source: int, target: int) -> bool:
    """Return whether another push along the path is free, as it is for equal points."""
    r = target
    while r != source:
        q = paths.parents[r]
        _renew(flow, q, paths.arcs[r])
        weight, slack = flow.weights[q, paths.arcs[r]], flow.costs[q] - flow.costs[r]
        if not weight - slack <= _TIE * (abs(weight) + abs(slack)):
            return False
        r = q
    return True


@inner_kernel
def _lay_out(
    X: Floats, sites: Floats, costs: Floats, targets: Integers, labels: Integers, near: Integers
) -> _Flow:
    """Build the lists of points and the cheapest arcs. O(n A m)."""
    n, count = len(X), len(sites)
    weights, movers = np.empty(near.shape), np.empty(near.shape, dtype=np.int64)
    heads, after, before = np.full(count, -1), np.full(n, -1), np.full(n, -1)
    sizes = np.zeros(count, dtype=np.int64)
    flow = _Flow(
        X, sites, costs, targets, labels, near, weights, movers, heads, after, before, sizes
    )
    for i in range(n):
        _link(flow, i, labels[i])
    for q in range(count):
        _lay_arcs(flow, q)
    return flow


@kernel
def push_excess(
    X: Floats, sites: Floats, costs: Floats, targets: Integers, labels: Integers, near: Integers
) -> int:
    """Push points out of cells above their targets until none is left (OUT: ``labels``, ``costs``).

    Returns the number of arcs examined, or -1 if there is no path. Every point must be, and stays,
    in a cell of least squared distance plus cost among those ``near`` its own. A push costs a
    shortest path to the nearest cell with room.
    """
    count, looks = len(sites), 0
    flow = _lay_out(X, sites, costs, targets, labels, near)
    distances, done = np.full(count, np.inf), np.zeros(count, dtype=np.bool_)
    frontier, touched_cells = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    paths = _Paths(distances, np.full(count, -1), np.full(count, -1), done, frontier, touched_cells)
    for source in range(count):
        while flow.sizes[source] > targets[source]:
            target, touched = _find_room(flow, paths, source)
            if target < 0:
                return -1
            for f in range(touched):
                q = paths.touched[f]
                if paths.done[q]:
                    costs[q] += paths.distances[target] - paths.distances[q]
            _push(flow, paths, source, target)
            looks += touched * near.shape[1]
            while (
                flow.sizes[source] > targets[source]
                and flow.sizes[target] < targets[target]
                and _is_tight(flow, paths, source, target)
            ):
                _push(flow, paths, source, target)
            for f in range(touched):
                paths.distances[paths.touched[f]] = np.inf
                paths.done[paths.touched[f]] = False
    return looks


@kernel
def centre_costs(
    X: Floats,
    sites: Floats,
    costs: Floats,
    targets: Integers,
    labels: Integers,
    near: Integers,
    steps: Floats,
    sweeps: int,
) -> None:
    """Centre the costs between their bounds without changing any point's cell (OUT: ``costs``).

    Pushes leave the points that moved last on the border of two cells, where rounding decides and
    the border would reveal their value. A cost may lie between the largest c(r) - w(r, q) and the
    smallest c(r) + w(q, r), for arcs of weight w. Each cost in turn moves to the middle, in
    alternating sweeps; finally each takes a random step of ``steps`` (within 1) times a quarter of
    the way to the nearer bound. O(n A m), plus O(Q A) per sweep.
    """
    flow = _lay_out(X, sites, costs, targets, labels, near)
    count, reach = near.shape
    starts = np.zeros(count + 1, dtype=np.int64)
    for q in range(count):
        for a in range(reach):
            starts[near[q, a] + 1] += 1
    starts = np.cumsum(starts)
    places, sources, arcs = (
        starts[:-1].copy(),
        np.empty(count * reach, dtype=np.int64),
        np.empty(count * reach),
    )
    for q in range(count):
        for a in range(reach):
            r = near[q, a]
            sources[places[r]], arcs[places[r]] = q, flow.weights[q, a]
            places[r] += 1
    for sweep in range(sweeps + 1):
        room = costs.copy()
        for turn in range(count):
            q = turn if sweep % 2 == 0 else count - 1 - turn
            low, high = -np.inf, np.inf
            for a in range(reach):
                high = min(high, costs[near[q, a]] + flow.weights[q, a])
            for a in range(starts[q], starts[q + 1]):
                low = max(low, costs[sources[a]] - arcs[a])
            free = low < high and low > -np.inf and high < np.inf
            if free and sweep < sweeps:
                costs[q] = low / 2 + high / 2
            room[q] = max(0.0, min(high - costs[q], costs[q] - low)) if free else 0.0
        if sweep == sweeps:
            for q in range(count):
                costs[q] += steps[q] * room[q] / 4


_LOST = 0.05
"""To estimate derivatives, a cost is raised until its cell would lose this share of its points."""

_DENSE = 400
"""Up to this many cells the Jacobian's eigenvalues are computed; beyond, conjugate gradients are
used."""

_STEPS, _HALVINGS, _ARMIJO = 30, 8, 1e-4

_HARDLY = 0.95
"""Stop after a step that leaves more than this share of ||p||^2; the exact method is then faster.
"""


@dataclass(frozen=True, eq=False)
class _State:
    """Best and second-best cell of each point, and the excess of sizes over targets as shares."""

    best: Integers
    second: Integers
    margins: Floats
    excess: Floats

    @property
    def residual(self) -> float:
        """||p||^2."""
        return float((self.excess**2).sum())


def balance_costs(
    X: Floats, sites: Floats, costs: Floats, targets: Integers, tolerance: float = 0.01
) -> Floats:
    """Return costs under which the cells have about their target sizes.

    Regularized Gauss-Newton (Levenberg-Marquardt): the step d solves (J'J + mu I) d = -J'p and is
    halved until ||p||^2 falls enough (Armijo). Ends when every size is within the tolerance (a
    share, or two points) of its target, or when steps hardly help. Time O(n Q m) per evaluation of
    the sizes.
    """
    count, damping = len(targets), 1e-4
    if count == 1:
        return costs
    costs = _fill_empty(X, sites, costs, targets)
    state = _evaluate(X, sites, costs, targets)
    allowed, last = np.maximum(2.0, tolerance * targets) / len(X), np.inf
    for _ in range(_STEPS):
        if (
            (np.abs(state.excess) <= allowed).all()
            or state.residual > _HARDLY * last
            or damping > 1.0
        ):
            break
        jacobian = _estimate_jacobian(state, count)
        if jacobian is None:
            break
        step = _solve(jacobian, state.excess, damping)
        slope = 2.0 * float((state.excess * (jacobian @ step)).sum())
        for halving in range(_HALVINGS):
            length = 0.5**halving
            trial = _evaluate(X, sites, costs + length * step, targets)
            if (
                trial.residual <= state.residual + _ARMIJO * length * slope
                and trial.residual < state.residual
            ):
                costs, last, state = costs + length * step, state.residual, trial
                damping *= 0.2 if halving == 0 else 1.0
                break
        else:
            damping *= 30.0
    return costs


def _evaluate(X: Floats, sites: Floats, costs: Floats, targets: Integers) -> _State:
    n = len(X)
    best, second, margins = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n)
    choose_two(X, sites, costs, best, second, margins)
    return _State(best, second, margins, (np.bincount(best, minlength=len(targets)) - targets) / n)


def _fill_empty(X: Floats, sites: Floats, costs: Floats, targets: Integers) -> Floats:
    """Lower the costs of cells without points, for which derivatives give no information."""
    state = _evaluate(X, sites, costs, targets)
    empty = np.flatnonzero(np.bincount(state.best, minlength=len(targets)) == 0)
    if len(empty) == 0:
        return costs
    out = costs.copy()
    reached = ((X - sites[state.best]) ** 2).sum(axis=1) + costs[state.best]
    for q in empty:
        rank = min(int(targets[q]), len(X)) - 1
        out[q] = np.partition(reached - squared_distances(X, sites[q]), len(X) - 1 - rank)[
            len(X) - 1 - rank
        ]
    return out


def _estimate_jacobian(state: _State, count: int) -> "scipy.sparse.csr_array | None":
    """Estimate dp/dc: the share of points that each cell loses to each other as its cost rises.

    Only points of that cell move, those of least margin first, each to its second-best cell. The
    result is symmetric and, approximately, negative semidefinite like the true one. Returns None if
    points tie, which gives no information.
    """
    n = len(state.best)
    sizes = np.bincount(state.best, minlength=count)
    order = np.lexsort((state.margins, state.best))
    rank = np.arange(n) - (np.cumsum(sizes) - sizes)[state.best[order]]
    n_lost = np.ceil(_LOST * sizes).astype(np.int64)
    leaving = order[rank < n_lost[state.best[order]]]
    rise = np.zeros(count)
    np.maximum.at(rise, state.best[leaving], state.margins[leaving])
    if not rise.max() > 0:
        return None
    rise = np.maximum(rise, 1e-9 * rise.max())
    rates = 1.0 / (n * rise[state.best[leaving]])
    flow = scipy.sparse.coo_array(
        (rates, (state.second[leaving], state.best[leaving])), shape=(count, count)
    ).tocsr()
    diagonal = flow.sum(axis=0)
    flow = (flow + flow.T) / 2
    if count > _DENSE:  # the Laplacian of a graph has no positive eigenvalue
        diagonal = flow.sum(axis=0)
    return scipy.sparse.csr_array(flow - scipy.sparse.diags_array(diagonal))


def _solve(jacobian: "scipy.sparse.csr_array", excess: Floats, damping: float) -> Floats:
    """Return the damped step; positive eigenvalues of the Jacobian are treated as 0."""
    count = len(excess)
    if count <= _DENSE:
        values, vectors = np.linalg.eigh(jacobian.toarray())
        values = np.minimum(values, 0.0)
        mu = damping * max(float(values.min()) ** 2, 1e-300)
        return np.asarray(-vectors @ (values / (values**2 + mu) * (vectors.T @ excess)))
    mu = damping * float(np.abs(jacobian.diagonal()).max()) ** 2
    normal = (jacobian @ jacobian + mu * scipy.sparse.eye_array(count)).tocsr()
    step, _ = scipy.sparse.linalg.cg(normal, -(jacobian @ excess), rtol=1e-3, maxiter=300)
    return np.asarray(step)
