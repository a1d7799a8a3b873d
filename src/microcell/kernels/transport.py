"""Costs for power cells of given sizes, by shortest paths (exact) or Newton's method (fast).

A point goes to the cell with the least distance plus cost, so the sizes are a function of the
costs. :func:`meet_bounds` moves points along shortest paths between cells until all sizes are
within their bounds. :func:`balance_costs` uses Newton's method, estimating the Jacobian from the
points that each cell would lose first; it is fast and accurate for large cells, and leaves a point
or two per cell to the exact method.

The distance is squared Euclidean, or the sum of absolute differences if ``absolute``, times the
``scales`` of the point. Bounds and costs belong together: a cost may be positive only if the size
is at its upper bound, and negative only if it is at its lower bound. If both bounds are equal, as
for prescribed sizes, any costs are allowed.
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
    "choose_scaled",
    "choose_two",
    "meet_bounds",
]

_TIE = 1e-12
"""Two cells tie for a point if their distances plus costs differ by less than this share of the
terms.
"""


@inner_kernel
def _measure(
    point: Floats, scale: float, absolute: bool, across: Floats, costs: Floats, out: Floats
) -> None:
    """Compute distance plus cost of each cell; ``across`` has a column per site (OUT)."""
    for q in range(len(costs)):
        out[q] = costs[q]
    if absolute:
        for j in range(len(point)):
            value, row = point[j], across[j]
            for q in range(len(costs)):
                out[q] += scale * abs(value - row[q])
    else:
        for j in range(len(point)):
            value, row = point[j], across[j]
            for q in range(len(costs)):
                difference = value - row[q]
                out[q] += scale * (difference * difference)


@kernel
def choose_cells(X: Floats, sites: Floats, costs: Floats) -> Integers:
    """Return the cell with the least squared distance plus cost for each point. O(n Q m).

    Ties go to the lowest cell.
    """
    across = np.ascontiguousarray(sites.T)
    labels, sums = np.empty(len(X), dtype=np.int64), np.empty(len(costs))
    for i in range(len(X)):
        _measure(X[i], 1.0, False, across, costs, sums)
        labels[i] = np.argmin(sums)
    return labels


@kernel
def choose_scaled(
    X: Floats, scales: Floats, absolute: bool, sites: Floats, costs: Floats
) -> Integers:
    """Return the cell with the least distance plus cost for each point. O(n Q m)."""
    across = np.ascontiguousarray(sites.T)
    labels, sums = np.empty(len(X), dtype=np.int64), np.empty(len(costs))
    for i in range(len(X)):
        _measure(X[i], scales[i], absolute, across, costs, sums)
        labels[i] = np.argmin(sums)
    return labels


@kernel
def choose_again(
    X: Floats,
    scales: Floats,
    absolute: bool,
    sites: Floats,
    costs: Floats,
    highs: Integers,
    labels: Integers,
) -> int:
    """Move every point to the cell with the least distance plus cost (OUT: ``labels``).

    Returns how many points moved. A point stays if its cell ties with the best; a point that moves
    to tied cells prefers one below its upper bound, so that equal points spread. O(n Q m).
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
        _measure(X[i], scales[i], absolute, across, costs, sums)
        current, best = labels[i], int(np.argmin(sums))
        slack = _TIE * (
            abs(sums[current] - costs[current]) + abs(costs[current]) + abs(costs[best])
        )
        if sums[best] < sums[current] - slack:
            limit = sums[best] + slack
            chosen = best
            for q in range(count):
                if sums[q] <= limit and sizes[q] < highs[q]:
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
        _measure(X[i], 1.0, False, across, costs, sums)
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
    scales: Floats
    absolute: bool
    sites: Floats
    costs: Floats
    lows: Integers
    highs: Integers
    labels: Integers
    near: Integers
    """(Q, A): cells that arcs lead to."""
    weights: Floats
    """(Q, A): minimum of d(x, site r) - d(x, site q) over the members x of q."""
    movers: Integers
    """(Q, A): member that attains it, -1 if q is empty. It may have left since; see ``_renew``."""
    heads: Integers
    after: Integers
    before: Integers
    sizes: Integers


class _Arrivals(NamedTuple):
    """The arcs that lead to each cell q: places ``starts[q]`` to ``starts[q + 1]``."""

    starts: Integers
    sources: Integers
    arcs: Integers


class _Paths(NamedTuple):
    """State of a shortest-path search for each cell; reset between searches."""

    distances: Floats
    parents: Integers
    arcs: Integers
    done: Mask
    frontier: Integers
    touched: Integers
    cells: Integers
    """The path found, from the cell that gives a point to the cell that receives one."""
    steps: Integers
    """The arc from each cell of the path to the next."""


@inlined_kernel
def _distance(X: Floats, i: int, sites: Floats, q: int, scale: float, absolute: bool) -> float:
    x, y, out = X[i], sites[q], 0.0
    square, plain = (0.0, 1.0) if absolute else (1.0, 0.0)  # a branch in the loop would be slow
    for j in range(len(x)):
        difference = abs(x[j] - y[j])
        out += difference * (square * difference + plain)
    return scale * out


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
        _measure(flow.X[i], flow.scales[i], flow.absolute, across, zeros, sums)
        current = _distance(flow.X, i, flow.sites, q, flow.scales[i], flow.absolute)
        for a in range(reach):
            if sums[a] - current < weights[a]:
                weights[a], movers[a] = sums[a] - current, i
        i = flow.after[i]


@inner_kernel
def _add_point(flow: _Flow, i: int, q: int) -> None:
    """Add a point to a cell and update the cheapest arcs. O(A m)."""
    _link(flow, i, q)
    scale, absolute = flow.scales[i], flow.absolute
    current = _distance(flow.X, i, flow.sites, q, scale, absolute)
    for a in range(flow.near.shape[1]):
        weight = _distance(flow.X, i, flow.sites, flow.near[q, a], scale, absolute) - current
        if weight < flow.weights[q, a]:
            flow.weights[q, a], flow.movers[q, a] = weight, i


@inner_kernel
def _renew(flow: _Flow, q: int, a: int) -> None:
    """Recompute the cheapest arc, because its point has left the cell. O(size m)."""
    r, last = flow.near[q, a], flow.weights[q, a]
    least, mover = np.inf, -1
    other = flow.heads[q]
    while other >= 0 and least > last:  # none is cheaper than the one that left
        scale = flow.scales[other]
        weight = _distance(flow.X, other, flow.sites, r, scale, flow.absolute)
        weight -= _distance(flow.X, other, flow.sites, q, scale, flow.absolute)
        if weight < least:
            least, mover = weight, other
        other = flow.after[other]
    flow.weights[q, a], flow.movers[q, a] = least, mover


@inlined_kernel
def _excess(flow: _Flow, q: int) -> int:
    """Return the number of points in a cell above the bound that its cost allows."""
    return flow.sizes[q] - (flow.lows[q] if flow.costs[q] < 0 else flow.highs[q])  # type: ignore[no-any-return]


@inlined_kernel
def _deficit(flow: _Flow, q: int) -> int:
    """Return the number of points that a cell lacks below the bound that its cost allows."""
    return (flow.highs[q] if flow.costs[q] > 0 else flow.lows[q]) - flow.sizes[q]  # type: ignore[no-any-return]


@inlined_kernel
def _toll(flow: _Flow, q: int, give: bool) -> float:
    """Return the change of cost at which a cell may end a path, or infinity if it may not.

    A cell that ``give`` s a point must not fall below its lower bound, another must not rise above
    its upper bound; unless that mends its size, its cost becomes 0.
    """
    if give:
        if flow.sizes[q] <= flow.lows[q]:
            return np.inf
        return 0.0 if flow.sizes[q] > flow.highs[q] else max(0.0, flow.costs[q])
    if flow.sizes[q] >= flow.highs[q]:
        return np.inf
    return 0.0 if flow.sizes[q] < flow.lows[q] else max(0.0, -flow.costs[q])


@inlined_kernel
def _search(
    flow: _Flow, arrivals: _Arrivals, paths: _Paths, origin: int, backwards: bool
) -> tuple[int, int, float]:
    """Find the other end of the shortest path, by Dijkstra's algorithm.

    The path leads from ``origin`` to a cell that may receive a point, or ``backwards`` from a cell
    that may give one. Returns that cell (-1 if there is none), the number of cells touched, and the
    length.
    """
    waiting, touched = 1, 1
    # A size between the bounds is right once the cost is 0, without any move.
    size, cost = flow.sizes[origin], abs(flow.costs[origin])
    settles = size >= flow.lows[origin] if backwards else size <= flow.highs[origin]
    end, bound = origin, cost if settles else np.inf
    paths.distances[origin], paths.frontier[0], paths.touched[0] = 0.0, origin, origin
    while waiting > 0:
        least = 0
        for f in range(1, waiting):
            if paths.distances[paths.frontier[f]] < paths.distances[paths.frontier[least]]:
                least = f
        q = paths.frontier[least]
        waiting -= 1
        paths.frontier[least] = paths.frontier[waiting]
        here = paths.distances[q]
        if here >= bound:
            break
        paths.done[q] = True
        first = arrivals.starts[q] if backwards else 0
        last = arrivals.starts[q + 1] if backwards else flow.near.shape[1]
        for place in range(first, last):
            # The arc leads from ``tail`` to ``head``; the search continues at ``r``.
            tail, a = (arrivals.sources[place], arrivals.arcs[place]) if backwards else (q, place)
            head = q if backwards else flow.near[q, a]
            r = tail if backwards else head
            if paths.done[r]:
                continue
            # A stale weight is a lower bound. The maximum corrects for rounding.
            shift = flow.costs[head] - flow.costs[tail]
            if here + max(0.0, flow.weights[tail, a] + shift) >= min(paths.distances[r], bound):
                continue
            mover = flow.movers[tail, a]
            if mover >= 0 and flow.labels[mover] != tail:  # calls with many arrays are slow
                _renew(flow, tail, a)
            length = here + max(0.0, flow.weights[tail, a] + shift)
            if length < min(paths.distances[r], bound):
                if paths.distances[r] == np.inf:
                    paths.frontier[waiting], paths.touched[touched] = r, r
                    waiting, touched = waiting + 1, touched + 1
                paths.distances[r], paths.parents[r], paths.arcs[r] = length, q, a
                total = length + _toll(flow, r, backwards)
                if total < bound:
                    end, bound = r, total
    return end if bound < np.inf else -1, touched, bound


@inner_kernel
def _trace(paths: _Paths, origin: int, end: int, backwards: bool) -> int:
    """List the path from the giving to the receiving cell and return its number of arcs (OUT)."""
    length, r = 0, end
    while r != origin:
        length, r = length + 1, paths.parents[r]
    r = end
    for step in range(length):
        if backwards:
            paths.cells[step], paths.steps[step] = r, paths.arcs[r]
        else:
            paths.cells[length - step], paths.steps[length - step - 1] = r, paths.arcs[r]
        r = paths.parents[r]
    paths.cells[length if backwards else 0] = origin
    return length


@inlined_kernel
def _push(flow: _Flow, paths: _Paths, length: int) -> None:
    """Move one point along each arc of the path, the last arc first."""
    for step in range(length - 1, -1, -1):
        q, r = paths.cells[step], paths.cells[step + 1]
        i = flow.movers[q, paths.steps[step]]
        _unlink(flow, i, q)
        _add_point(flow, i, r)


@inner_kernel
def _renew_path(flow: _Flow, paths: _Paths, length: int) -> bool:
    """Return whether another push along the path costs nothing, as with equal points."""
    for step in range(length):
        q, r, a = paths.cells[step], paths.cells[step + 1], paths.steps[step]
        mover = flow.movers[q, a]
        if mover >= 0 and flow.labels[mover] != q:
            _renew(flow, q, a)
        weight, slack = flow.weights[q, a], flow.costs[q] - flow.costs[r]
        if not weight - slack <= _TIE * (abs(weight) + abs(slack)):
            return False
    return length > 0


@inner_kernel
def _lay_out(
    X: Floats,
    scales: Floats,
    absolute: bool,
    sites: Floats,
    costs: Floats,
    lows: Integers,
    highs: Integers,
    labels: Integers,
    near: Integers,
) -> _Flow:
    """Build the lists of points and the cheapest arcs. O(n A m)."""
    n, count = len(X), len(sites)
    weights, movers = np.empty(near.shape), np.empty(near.shape, dtype=np.int64)
    heads, after, before = np.full(count, -1), np.full(n, -1), np.full(n, -1)
    sizes = np.zeros(count, dtype=np.int64)
    flow = _Flow(
        X, scales, absolute, sites, costs, lows, highs, labels, near, weights, movers,
        heads, after, before, sizes,
    )  # fmt: skip
    for i in range(n):
        _link(flow, i, labels[i])
    for q in range(count):
        _lay_arcs(flow, q)
    return flow


@inner_kernel
def _find_arrivals(near: Integers) -> _Arrivals:
    """List the arcs by the cell that they lead to. O(Q A)."""
    count, reach = near.shape
    starts = np.zeros(count + 1, dtype=np.int64)
    for q in range(count):
        for a in range(reach):
            starts[near[q, a] + 1] += 1
    starts = np.cumsum(starts)
    places = starts[:-1].copy()
    sources, arcs = np.empty(count * reach, dtype=np.int64), np.empty(count * reach, dtype=np.int64)
    for q in range(count):
        for a in range(reach):
            r = near[q, a]
            sources[places[r]], arcs[places[r]] = q, a
            places[r] += 1
    return _Arrivals(starts, sources, arcs)


@inner_kernel
def _mend(flow: _Flow, arrivals: _Arrivals, paths: _Paths, origin: int, backwards: bool) -> int:
    """Move points along the shortest path from or to a cell (OUT), or only change costs.

    Returns the number of cells touched, or -1 if there is no path.
    """
    end, touched, length = _search(flow, arrivals, paths, origin, backwards)
    if end < 0:
        return -1
    sign = -1.0 if backwards else 1.0
    settles = end == origin or _toll(flow, end, backwards) > 0
    for f in range(touched):
        q = paths.touched[f]
        if paths.done[q] and paths.distances[q] < length:
            flow.costs[q] += sign * (length - paths.distances[q])
            # Rounding must not give a cell between its bounds a cost of the wrong sign.
            if backwards and flow.lows[q] < flow.sizes[q] <= flow.highs[q]:
                flow.costs[q] = max(0.0, flow.costs[q])
            if not backwards and flow.lows[q] <= flow.sizes[q] < flow.highs[q]:
                flow.costs[q] = min(0.0, flow.costs[q])
    if settles:
        flow.costs[end] = 0.0
    steps = _trace(paths, origin, end, backwards)
    _push(flow, paths, steps)
    while (
        (_deficit(flow, origin) if backwards else _excess(flow, origin)) > 0
        and _toll(flow, end, backwards) == 0
        and _renew_path(flow, paths, steps)
    ):
        _push(flow, paths, steps)
    for f in range(touched):
        paths.distances[paths.touched[f]] = np.inf
        paths.done[paths.touched[f]] = False
    return touched


@kernel
def meet_bounds(
    X: Floats,
    scales: Floats,
    absolute: bool,
    sites: Floats,
    costs: Floats,
    lows: Integers,
    highs: Integers,
    labels: Integers,
    near: Integers,
) -> int:
    """Move points until all sizes are within their bounds (OUT: ``labels``, ``costs``).

    Returns the number of arcs examined, or -1 if there is no path. Every point must be in a cell
    with the least distance plus cost among those ``near`` its own, and remains in such a cell.
    Cells above the bound that their cost allows push points out, then cells below pull points in;
    each push costs a shortest path.
    """
    count, looks = len(sites), 0
    flow = _lay_out(X, scales, absolute, sites, costs, lows, highs, labels, near)
    distances, done = np.full(count, np.inf), np.zeros(count, dtype=np.bool_)
    frontier, touched_cells = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    cells, steps = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    paths = _Paths(
        distances, np.full(count, -1), np.full(count, -1), done, frontier, touched_cells,
        cells, steps,
    )  # fmt: skip
    nowhere = _Arrivals(steps[:0], steps[:0], steps[:0])
    for q in range(count):
        while _excess(flow, q) > 0:
            touched = _mend(flow, nowhere, paths, q, False)
            if touched < 0:
                return -1
            looks += touched * near.shape[1]
    short = False
    for q in range(count):
        short = short or _deficit(flow, q) > 0
    if not short:
        return looks
    arrivals = _find_arrivals(near)
    for q in range(count):
        while _deficit(flow, q) > 0:
            touched = _mend(flow, arrivals, paths, q, True)
            if touched < 0:
                return -1
            looks += touched * near.shape[1]
    return looks


@kernel
def centre_costs(
    X: Floats,
    scales: Floats,
    absolute: bool,
    sites: Floats,
    costs: Floats,
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
    flow = _lay_out(X, scales, absolute, sites, costs, labels, labels, labels, near)
    count, reach = near.shape
    arrivals = _find_arrivals(near)
    for sweep in range(sweeps + 1):
        room = costs.copy()
        for turn in range(count):
            q = turn if sweep % 2 == 0 else count - 1 - turn
            low, high = -np.inf, np.inf
            for a in range(reach):
                high = min(high, costs[near[q, a]] + flow.weights[q, a])
            for place in range(arrivals.starts[q], arrivals.starts[q + 1]):
                r = arrivals.sources[place]
                low = max(low, costs[r] - flow.weights[r, arrivals.arcs[place]])
            free = low < high and low > -np.inf and high < np.inf
            if free and sweep < sweeps:
                costs[q] = low / 2 + high / 2
            room[q] = max(0.0, min(high - costs[q], costs[q] - low)) if free else 0.0
        if sweep == sweeps:
            for q in range(count):
                costs[q] += steps[q] * room[q] / 4


_LOST = 0.05
"""Share of its points that a cell would lose when its cost is raised to estimate derivatives."""

_DENSE = 400
"""Up to this many cells the Jacobian's eigenvalues are computed; beyond, conjugate gradients are
used."""

_STEPS, _HALVINGS, _ARMIJO = 30, 8, 1e-4

_HARDLY = 0.95
"""Newton's method stops after a step that leaves more than this share of ||p||^2: the exact method
is then faster.
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
