"""Costs that give cells their sizes, by Newton's method: quick and close where cells are large.

The sizes are a function of the costs, p(c); its Jacobian is estimated from the points that each cell would lose first.
What is left over, a point or two a cell, is for others to correct.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import cg

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
"""Two cells tie for a point if they differ by less than this share of what distance and cost add up from."""


@inner_kernel
def _measure(point: Floats, across: Floats, costs: Floats, out: Floats) -> None:
    """Squared distance plus cost of each cell, side by side (OUT: ``out``); ``across`` has a column a site."""
    for q in range(len(costs)):
        out[q] = costs[q]
    for j in range(len(point)):
        value, row = point[j], across[j]
        for q in range(len(costs)):
            difference = value - row[q]
            out[q] += difference * difference


@kernel
def choose_cells(X: Floats, sites: Floats, costs: Floats) -> Integers:
    """The cell of least squared distance plus cost for each point; ties to the lowest cell. O(n Q m)."""
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
    """Move every point whose cell is not of least squared distance plus cost; how many moved (OUT: ``labels``).

    A point stays where its cell ties with the best; one that moves to cells that tie prefers a cell below its target,
    so that equal points spread. O(n Q m).
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
        own, best = labels[i], int(np.argmin(sums))
        slack = _TIE * (abs(sums[own] - costs[own]) + abs(costs[own]) + abs(costs[best]))
        if sums[best] < sums[own] - slack:
            limit = sums[best] + slack
            chosen = best
            for q in range(count):
                if sums[q] <= limit and sizes[q] < targets[q]:
                    chosen = q
                    break
            sizes[own] -= 1
            sizes[chosen] += 1
            labels[i] = chosen
            moved += 1
    return moved


@kernel
def choose_two(
    X: Floats, sites: Floats, costs: Floats, best: Integers, second: Integers, margins: Floats
) -> None:
    """The best cell of each point, the next best, and by how much that is worse (OUT: the last three). O(n Q m)."""
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
    """Points in their cells, as linked lists, and the cheapest way out of each cell to each of those near it."""

    X: Floats
    sites: Floats
    costs: Floats
    targets: Integers
    labels: Integers
    near: Integers
    """(Q, A): the cells that arcs lead to."""
    weights: Floats
    """(Q, A): the least of ||x - site r||^2 - ||x - site q||^2 over the members x of q."""
    movers: Integers
    """(Q, A): the member that it is the least for; -1 if q is empty. It may have left since: see ``_renew``."""
    heads: Integers
    after: Integers
    before: Integers
    sizes: Integers


class _Paths(NamedTuple):
    """What a search for the shortest path keeps for each cell; clean between searches."""

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
    """Put a point into a cell's list."""
    first = flow.heads[q]
    flow.after[i], flow.before[i] = first, -1
    if first >= 0:
        flow.before[first] = i
    flow.heads[q] = i
    flow.labels[i] = q
    flow.sizes[q] += 1


@inner_kernel
def _unlink(flow: _Flow, i: int, q: int) -> None:
    """Take a point out of its cell's list."""
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
    """Find the cheapest way out of a cell to each one near it, all of them measured at once. O(size A m)."""
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
        own = _squared_distance(flow.X[i], flow.sites[q])
        for a in range(reach):
            if sums[a] - own < weights[a]:
                weights[a], movers[a] = sums[a] - own, i
        i = flow.after[i]


@inner_kernel
def _welcome(flow: _Flow, i: int, q: int) -> None:
    """Put a point into a cell; its ways out may be the cheapest now. O(A m)."""
    _link(flow, i, q)
    own = _squared_distance(flow.X[i], flow.sites[q])
    for a in range(flow.near.shape[1]):
        weight = _squared_distance(flow.X[i], flow.sites[flow.near[q, a]]) - own
        if weight < flow.weights[q, a]:
            flow.weights[q, a], flow.movers[q, a] = weight, i


@inner_kernel
def _renew(flow: _Flow, q: int, a: int) -> None:
    """Find the cheapest way out again if the point that it was for has left. O(size m)."""
    i = flow.movers[q, a]
    if i < 0 or flow.labels[i] == q:
        return
    site, last = flow.sites[flow.near[q, a]], flow.weights[q, a]
    least, mover = np.inf, -1
    other = flow.heads[q]
    while other >= 0 and least > last:  # none can be cheaper than the one that left
        weight = _squared_distance(flow.X[other], site) - _squared_distance(
            flow.X[other], flow.sites[q]
        )
        if weight < least:
            least, mover = weight, other
        other = flow.after[other]
    flow.weights[q, a], flow.movers[q, a] = least, mover


@inner_kernel
def _find_room(flow: _Flow, paths: _Paths, source: int) -> tuple[int, int]:
    """The nearest cell below its target, by Dijkstra's rule (-1 if none), and how many cells were touched."""
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
            length = max(
                base + flow.weights[q, a] + flow.costs[r], paths.distances[q]
            )  # below only by rounding
            if length < min(paths.distances[r], bound) and not paths.done[r]:
                _renew(flow, q, a)  # until then the weight was at least not too high
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
        _welcome(flow, i, r)
        r = q


@inner_kernel
def _is_tight(flow: _Flow, paths: _Paths, source: int, target: int) -> bool:
    """True if another push along the path costs nothing more, as it does where points are equal."""
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
    """The points in their cells, with the cheapest ways out. O(n A m)."""
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
    """Push points out of cells above their targets until none is; how many arcs were looked at, -1 if no path.

    Every point must be in a cell of least squared distance plus cost among those ``near`` its own; that stays so
    (OUT: ``labels``, ``costs``). A push costs a shortest path among the cells, to the nearest cell with room.
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
    """Move costs to about the middle of where they may be without changing any point's cell (OUT: ``costs``).

    Pushes leave the points that moved last on the border of two cells, where rounding decides, and where the border
    would tell their value. A cost may lie between the largest c(r) - w(r, q) and the least c(r) + w(q, r), for arcs of
    weight w. One after the other goes to the middle, there and back; in the end each takes a random step, of ``steps``
    (within 1) times a quarter of the way to the nearer end. O(n A m), and O(Q A) a sweep.
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


def balance_costs(
    X: Floats, sites: Floats, costs: Floats, targets: Integers, tolerance: float = 0.01
) -> Floats:
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
            trial = _look(X, sites, costs + length * step, targets)
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
        out[q] = np.partition(reached - squared_distances(X, sites[q]), len(X) - 1 - wanted)[
            len(X) - 1 - wanted
        ]
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
    flow = sparse.coo_array(
        (rates, (state.second[leaving], state.best[leaving])), shape=(count, count)
    ).tocsr()
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
