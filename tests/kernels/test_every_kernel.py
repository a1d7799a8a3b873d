"""Every kernel is called by a test; those without tests elsewhere match plain Python here."""

import ast
import math
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import microcell.kernels
from microcell.kernels import _build, _jit, exchange, mdav, merging, participation, transport
from microcell.kernels.covering import cover_once

TESTS = Path(__file__).parents[1]


def test_every_kernel_is_called_by_a_test():
    """By its name, or through a public function of its module."""
    _build.import_kernels()
    texts = [path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py")]
    trees = [ast.parse(text) for text in texts if "microcell.kernels" in text]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    called = {
        f"{node.module.removeprefix('microcell.kernels.')}.{name.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for name in node.names
    }
    called |= {
        f"{node.value.id}.{node.attr}"
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    untested = []
    for name in sorted(set(_jit.KERNELS) - called):
        module, _, function = name.partition(".")
        if not any(
            f"{module}.{caller}" in called for caller in callers_in_module(module, function)
        ):
            untested.append(name)
    assert untested == []


def callers_in_module(module, function):
    """Return the names of the module's functions that call one, directly or through others."""
    path = Path(microcell.kernels.__file__).parent / f"{module}.py"
    functions = {
        node.name: {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    callers, before = {function}, set()
    while callers != before:
        before = set(callers)
        callers |= {name for name, used in functions.items() if used & callers}
    return {name for name in callers if not name.startswith("_")}


def cheapest_cover(sets, costs, n):
    """Return the least cost of sets that contain each of n elements exactly once."""
    best = np.inf
    for count in range(1, n + 1):
        for chosen in combinations(range(len(sets)), count):
            members = [element for at in chosen for element in sets[at]]
            if sorted(members) == list(range(n)):
                best = min(best, costs[list(chosen)].sum())
    return best


@pytest.mark.parametrize("seed", range(5))
def test_exact_covers_match_brute_force(seed):
    rng = np.random.default_rng(seed)
    pairs = [np.array(pair) for pair in combinations(range(6), 2)]
    costs = rng.uniform(0.1, 1, len(pairs))
    incumbent = np.array(
        [at for at, pair in enumerate(pairs) if tuple(pair) in {(0, 1), (2, 3), (4, 5)}]
    )
    chosen = cover_once(pairs, costs / costs.sum(), incumbent, 10.0)
    assert sorted(np.concatenate([pairs[at] for at in chosen])) == list(range(6))
    assert costs[chosen].sum() == pytest.approx(cheapest_cover(pairs, costs, 6))


# ------------------------------------------------------------------------------- participation


def counts_of(probabilities):
    """Return P{K = j} for every j, over all subsets of candidates who may take part."""
    out = np.zeros(len(probabilities) + 1)
    for present in product((0, 1), repeat=len(probabilities)):
        out[sum(present)] += np.prod(np.where(present, probabilities, 1 - probabilities))
    return out


@pytest.mark.parametrize("k", [1, 2, 4])
def test_distributions_match_all_subsets(k):
    q = np.array([0.9, 0.2, 0.5, 0.7, 0.35, 0.6])
    failures = [counts_of(q[:n])[1:k].sum() for n in range(len(q) + 1)]
    np.testing.assert_allclose(participation.failures_along(q, k), failures, atol=1e-12)
    law = counts_of(q)
    total, moment, steady = participation.figures(q, k)
    assert total == pytest.approx(failures[-1])
    assert moment == pytest.approx((np.arange(k) * law[:k]).sum())
    assert steady == (law[k - 1] >= law[0])
    others = [counts_of(np.delete(q, i))[: k - 1].sum() for i in range(len(q))]
    assert participation.participant_failure(q, k) == pytest.approx(np.mean(others))
    limit = failures[-1] + 1e-9
    expected = next(n for n in range(k, len(q) + 1) if failures[n] <= limit)
    assert participation.least_enough(q, k, limit) == expected
    assert participation.least_enough(q, 4, 0.0) == -1


def test_failures_of_cells_are_those_of_their_members():
    labels, q = np.array([2, 0, 2, 0, 2]), np.array([0.1, 0.4, 0.8, 0.5, 0.3])
    expected = [counts_of(q[labels == cell])[1:2].sum() for cell in range(3)]
    np.testing.assert_allclose(participation.failures_of_cells(labels, q, 2), expected)
    assert len(participation.failures_of_cells(labels[:0], q[:0], 2)) == 0


def test_block_boundaries_do_not_change_the_failure_of_participants():
    n, k, q = participation._BLOCK + 3, 3, 0.002
    p = [math.comb(n - 1, j) * q**j * (1 - q) ** (n - 1 - j) for j in range(k - 1)]
    assert participation.participant_failure(np.full(n, q), k) == pytest.approx(sum(p))


def sse(X, weights):
    mean = np.average(X, axis=0, weights=weights)
    return (weights[:, np.newaxis] * (X - mean) ** 2).sum()


def test_gains_along_an_order_are_falls_of_the_sse():
    rng = np.random.default_rng(0)
    X, weights, order = rng.normal(size=(9, 2)), rng.uniform(1, 3, 9), rng.permutation(9)
    whole = sse(X, weights)
    expected = [0.0] + [
        whole - sse(X[order[:i]], weights[order[:i]]) - sse(X[order[i:]], weights[order[i:]])
        for i in range(1, 9)
    ]
    np.testing.assert_allclose(participation.gains_along(X, weights, order), expected, atol=1e-12)


# -------------------------------------------------------------------------------- MDAV's sums


@pytest.mark.parametrize("largest", [1.0, 3.0, 0.3, 2.0**-1074, 1e308])
def test_weights_are_scaled_to_about_1_by_a_power_of_two(largest):
    scale = mdav.weight_scale(largest)
    assert math.frexp(scale)[0] == 0.5
    assert abs(math.log2(scale)) <= 1000
    assert 1 <= scale * largest < 2 or abs(math.log2(scale)) == 1000


def test_running_sums_are_exact():
    X, weights = np.array([[1e16, 1.0], [1.0, 2.0], [-1e16, 3.0]]), np.array([4.0, 4.0, 4.0])
    running = mdav.make_running(X, weights)
    np.testing.assert_array_equal(running.sums + running.errors, [1.0, 6.0])
    assert running.base.tolist() == [3.0, 0.25]


# ------------------------------------------------------------------------------------- joining


@pytest.mark.parametrize("inertial", [False, True])
def test_records_join_cells_in_turn(inertial):
    rng = np.random.default_rng(1)
    X, weights = rng.integers(0, 5, (30, 2)).astype(float), rng.integers(1, 3, 30).astype(float)
    labels = np.repeat(np.arange(4), 3)
    sites = merging.make_sites(X[:12], labels, weights[:12], 4)
    joined, most = np.full(30, -1), 9
    done = merging.join_in_turn(sites, X, weights, 12, 30, most, inertial, joined)

    members = [list(np.flatnonzero(labels == cell)) for cell in range(4)]
    start = [np.average(X[rows], axis=0, weights=weights[rows]) for rows in members]
    for i in range(12, done):
        costs = []
        for cell, rows in enumerate(members):
            mass = weights[rows].sum()
            mean = np.average(X[rows], axis=0, weights=weights[rows]) if inertial else start[cell]
            share = mass / (mass + weights[i]) if inertial else 1.0
            costs.append(share * ((X[i] - mean) ** 2).sum())
        assert costs[joined[i]] == pytest.approx(min(costs))
        members[joined[i]].append(i)
    assert [len(rows) for rows in members] == sites.sizes.tolist()
    assert done == 30 or max(sites.sizes) == most
    assert (joined[done:] == -1).all()
    np.testing.assert_allclose(sites.totals, [weights[rows].sum() for rows in members])


def test_near_sites_are_the_nearest():
    rng = np.random.default_rng(2)
    centroids, targets = rng.normal(size=(20, 3)), rng.normal(size=(7, 3))
    near = merging.near_sites(centroids, targets, 4)
    distances = ((targets[:, np.newaxis] - centroids) ** 2).sum(axis=2)
    np.testing.assert_array_equal(np.sort(near), np.sort(np.argsort(distances)[:, :4]))


def test_cells_around_are_the_nearest_in_each_direction():
    sites = np.random.default_rng(3).normal(size=(15, 2))
    around = np.empty((15, 4, 2), dtype=np.int64)
    exchange.find_cells_around(sites, around)
    for cell, site in enumerate(sites):
        gaps = sites - site
        axis = np.argmax(np.abs(gaps), axis=1)
        way = 2 * axis + (gaps[np.arange(15), axis] > 0)
        by_distance = [i for i in np.argsort((gaps**2).sum(axis=1)) if i != cell]
        for direction in range(4):
            expected = [i for i in by_distance if way[i] == direction][:2]
            assert around[cell, direction].tolist() == [*expected, -1, -1][:2]


# ------------------------------------------------------------------------------- power cells


@pytest.fixture
def plane():
    """Points, sites, costs and the squared distance plus cost of each cell."""
    rng = np.random.default_rng(4)
    X, sites, costs = rng.normal(size=(24, 2)), rng.normal(size=(4, 2)), rng.uniform(0, 1, 4)
    return X, sites, costs, ((X[:, np.newaxis] - sites) ** 2).sum(axis=2) + costs


def test_the_two_best_cells(plane):
    X, sites, costs, sums = plane
    best, second, margins = np.empty(24, dtype=np.int64), np.empty(24, dtype=np.int64), np.empty(24)
    transport.choose_two(X, sites, costs, best, second, margins)
    expected = np.argsort(sums)
    np.testing.assert_array_equal(np.column_stack((best, second)), expected[:, :2])
    np.testing.assert_allclose(margins, np.sort(sums)[:, 1] - np.sort(sums)[:, 0])


def test_points_move_to_their_best_cell_and_ties_stay(plane):
    X, sites, costs, sums = plane
    labels, targets = np.zeros(24, dtype=np.int64), np.full(4, 6)
    moved = transport.choose_again(X, np.ones(24), False, sites, costs, targets, labels)
    np.testing.assert_array_equal(labels, np.argmin(sums, axis=1))
    assert moved == np.count_nonzero(labels)
    middle, pair = np.zeros((4, 1)), np.array([[-1.0], [1.0], [9.0]])
    tied = np.array([0, 1, 2, 2])
    highs = np.array([1, 3, 0])
    assert transport.choose_again(middle, np.ones(4), False, pair, np.zeros(3), highs, tied) == 2
    assert tied.tolist() == [0, 1, 1, 1]


def test_pushes_reach_the_targets_at_the_least_total_distance(plane):
    X, sites, costs, sums = plane
    labels, targets = np.argmin(sums, axis=1), np.full(4, 6)
    near = np.array([[r for r in range(4) if r != q] for q in range(4)])
    each = np.ones(24)
    bounds = (targets, targets)
    assert transport.meet_bounds(X, each, False, sites, costs, *bounds, labels, near) >= 0
    assert np.bincount(labels).tolist() == [6, 6, 6, 6]
    distances = ((X[:, np.newaxis] - sites) ** 2).sum(axis=2)
    rows, places = linear_sum_assignment(np.repeat(distances, 6, axis=1))
    least = np.repeat(distances, 6, axis=1)[rows, places].sum()
    assert distances[np.arange(24), labels].sum() == pytest.approx(least)

    def slack():
        now = distances + costs
        rest = now.copy()
        rest[np.arange(24), labels] = np.inf
        return rest.min(axis=1) - now[np.arange(24), labels]

    assert slack().min() == pytest.approx(0, abs=1e-9)  # the point moved last is on a border
    transport.centre_costs(X, each, False, sites, costs, labels, near, np.zeros(4), 20)
    assert slack().min() > 1e-6
    full = np.full(4, 5)
    outcome = transport.meet_bounds(X, each, False, sites, costs, full, full, labels.copy(), near)
    assert outcome == -1
