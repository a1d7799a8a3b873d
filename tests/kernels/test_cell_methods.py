"""Kernels that form cells, against plain versions: MDAV, V-MDAV, cuts, bisection, balls."""

from itertools import pairwise

import numpy as np
import pytest

from microcell.cells.balls import _start_carving
from microcell.kernels.balls import Balls, carve, find_balls
from microcell.kernels.bisect import bisect_rows
from microcell.kernels.mdav import EXHAUSTED, FIRST, SHORT, grow_cells, make_running, mdav_rounds
from microcell.kernels.participation import failures_along
from microcell.kernels.scans import lay_out, make_scratch
from microcell.kernels.univariate import best_cuts
from microcell.kernels.vmdav import Rank, make_growth, make_variable_cells
from tests.reference import oracles


def grid(seed, n, m, values=6):
    """Records on a grid, with ties and duplicates; sums are exact."""
    return np.random.default_rng(seed).integers(0, values, size=(n, m)).astype(float)


# --------------------------------------------------------------------------------------------- MDAV


@pytest.mark.parametrize(("n", "m", "k"), [(9, 1, 3), (40, 2, 3), (61, 3, 2), (300, 5, 10)])
def test_rounds_of_mdav(n, m, k):
    X = grid(n, n, m)
    points, running = lay_out(X), make_running(X, np.ones(n))
    labels, label, scratch = np.full(n, -1), 0, make_scratch(k, 1)
    assert mdav_rounds(points, k, 0, label, labels, running, scratch) == 0
    while points.left[0] >= 3 * k:
        before = points.left[0]
        label = mdav_rounds(points, k, 1, label, labels, running, scratch)
        assert points.left[0] == before - 2 * k
    assert mdav_rounds(points, k, 5, label, labels, running, scratch) == label
    expected = oracles.mdav(X, k)
    assert (labels[labels >= 0] == expected[labels >= 0]).all()
    rest = np.flatnonzero(labels < 0)
    assert label == 2 * ((n - len(rest)) // (2 * k))
    np.testing.assert_allclose(
        (running.sums + running.errors) / running.base[1], X[rest].sum(axis=0)
    )
    assert running.total[0] / running.base[1] == len(rest)


def test_running_sums_are_weighted_and_compensated():
    X = np.array([[1e17, 1.0], [3.0, 2.0], [-1e17, 4.0]])
    running = make_running(X, np.array([2.0, 3.0, 2.0]))
    result = (running.sums + running.errors) / running.base[1]
    assert result.tolist() == [9.0, 16.0]
    assert running.total[0] / running.base[1] == 7.0


def test_means_are_exact_again_once_the_heavy_records_are_gone():
    X = grid(3, 60, 2, values=50)
    weights = np.ones(60)
    weights[[4, 9]] = 2.0**40
    X[[4, 9]] = [[900.0, 0.0], [-900.0, 7.0]]
    labels = np.full(60, -1)
    points, running = lay_out(X), make_running(X, weights)
    label = mdav_rounds(points, 2, 1, 0, labels, running, make_scratch(2, 1))
    assert (labels[[4, 9]] >= 0).all()
    rest = np.flatnonzero(labels < 0)
    r = oracles.farthest(X, rest, X[rest].mean(axis=0))
    mdav_rounds(points, 2, 1, label, labels, running, make_scratch(2, 1))
    assert labels[r] == 2


def grow_plainly(X, participation, k, limit):
    """Return labels by growing cells around far records; the rest, too few for a cell, have -1."""
    labels, rows, label, reference = np.full(len(X), -1), np.arange(len(X)), 0, None
    while len(rows):
        first = reference is None
        if first:
            mean = np.average(X[rows], axis=0, weights=participation[rows])
            reference = oracles.farthest(X, rows, mean)
        order = oracles.nearest_first(X, rows, reference)
        others = order[1:]
        far = oracles.farthest(X, np.sort(others), X[reference]) if len(others) else reference
        failures = failures_along(participation[order], k)
        sizes = [n for n in range(k, len(order) + 1) if failures[n] <= limit]
        if not sizes:
            return labels
        labels[order[: sizes[0]]] = label
        rows = rows[labels[rows] < 0]
        label += 1
        if first and len(rows):
            last, reference = reference, far
            if labels[far] >= 0:
                reference = oracles.farthest(X, rows, X[last])
        else:
            reference = None
    return labels


@pytest.mark.parametrize("seed", range(6))
def test_cells_grow_until_they_meet_the_limit(seed):
    X = grid(seed, 80, 2)
    participation = np.random.default_rng(seed).choice([0.25, 0.5, 0.75], size=80)
    labels, progress = np.full(80, -1), np.array([0, FIRST])
    points, running = lay_out(X), make_running(X, participation)
    status = grow_cells(points, 3, 0.05, 80, progress, labels, running, make_scratch(80, 1))
    assert status == EXHAUSTED
    expected = grow_plainly(X, participation, 3, 0.05)
    assert (labels == expected).all()
    assert progress[0] == expected.max() + 1


def test_growing_stops_where_the_scratch_is_too_small():
    X = grid(1, 40, 2)
    labels, progress = np.full(40, -1), np.array([0, FIRST])
    points, running = lay_out(X), make_running(X, np.full(40, 0.5))
    assert grow_cells(points, 3, 0.01, 9, progress, labels, running, make_scratch(4, 1)) == SHORT
    assert (labels == -1).all()
    assert points.left[0] == 40
    assert grow_cells(points, 3, 0.01, 1, progress, labels, running, make_scratch(40, 1)) == 0
    assert progress.tolist()[0] == 1


# ------------------------------------------------------------------------------------------- V-MDAV


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.7])
@pytest.mark.parametrize(("n", "m", "k"), [(30, 1, 3), (50, 2, 4), (300, 3, 5)])
def test_cells_of_vmdav(n, m, k, gamma):
    X = grid(n + k, n, m, values=30)
    mean = X.mean(axis=0)
    rank = Rank(np.argsort(-oracles.squared_distances(X, mean), kind="stable"), np.array([0]))
    points, labels, label = lay_out(X), np.full(n, -1), 0
    room = make_scratch(k, 1), make_growth(k, m, 1)
    while points.left[0] >= k:
        label = make_variable_cells(points, k, gamma, 2, rank, label, labels, *room)
    expected = oracles.vmdav(X, k, gamma)
    assert label == expected.max() + 1
    assert (labels[labels >= 0] == expected[labels >= 0]).all()


# ------------------------------------------------------------------------- one dimension, bisection


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("weighted", [False, True])
def test_best_cuts_match_brute_force(seed, weighted):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(4, 11)), int(rng.integers(2, 4))
    x = np.sort(rng.integers(0, 20, n)).astype(float)
    weights = rng.integers(1, 5, n).astype(float) if weighted else np.ones(n)
    begin = best_cuts(x, weights, k)
    cost, end = 0.0, n
    while end:
        run = slice(begin[end], end)
        assert k <= end - begin[end] <= 2 * k - 1
        mean = np.average(x[run], weights=weights[run])
        cost += (weights[run] * (x[run] - mean) ** 2).sum()
        end = begin[end]
    expanded = np.repeat(x, weights.astype(int))
    if not weighted:
        assert cost == pytest.approx(oracles.best_univariate_sse(expanded, k), abs=1e-9)
    assert cost == pytest.approx(least_weighted_sse(x, weights, k), abs=1e-9)


def least_weighted_sse(x, weights, k):
    """Return the least SSE over all ways to cut the values into runs of at least k."""
    if len(x) == 0:
        return 0.0
    best = np.inf
    for size in range(k, len(x) + 1):
        if 0 < len(x) - size < k:
            continue
        mean = np.average(x[:size], weights=weights[:size])
        cost = (weights[:size] * (x[:size] - mean) ** 2).sum()
        best = min(best, cost + least_weighted_sse(x[size:], weights[size:], k))
    return best


@pytest.mark.parametrize(("n", "unit", "most"), [(5, 3, 4), (6, 3, 4), (100, 3, 20), (64, 4, 8)])
def test_bisection_gives_runs_of_bounded_size(n, unit, most):
    X = np.random.default_rng(n).normal(size=(n, 3)) * [1, 5, 2]
    rows = np.arange(n)
    starts = bisect_rows(X, rows, unit, most)
    sizes = np.diff(starts)
    assert (starts[0], starts[-1]) == (0, n)
    assert sorted(rows) == list(range(n))
    assert ((sizes <= most) | (sizes < 2 * unit)).all()
    assert sizes.min() >= unit
    assert (sizes[:-1] % unit == 0).all()


def test_bisection_splits_along_the_principal_axis():
    """Ranks along the first eigenvector, longer tail to the right."""
    rng = np.random.default_rng(1)
    along = rng.exponential(size=40) * 10
    X = np.outer(along, [0.6, 0.8]) + rng.normal(scale=0.01, size=(40, 2))
    rows = np.arange(40)
    starts = bisect_rows(X, rows, 5, 20)
    assert starts.tolist() == [0, 20, 40]
    assert (rows == np.argsort(along)).all()
    mirrored = np.arange(40)
    assert bisect_rows(-X, mirrored, 5, 20).tolist() == [0, 20, 40]
    assert (mirrored == rows).all()


def test_equal_records_keep_their_order():
    rows = np.arange(12)
    assert bisect_rows(np.ones((12, 2)), rows, 2, 4).tolist() == [0, 2, 6, 8, 12]
    assert rows.tolist() == list(range(12))


# -------------------------------------------------------------------------------------------- balls


def test_a_point_is_in_the_first_ball_that_contains_it():
    centres, radii = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 0.0]]), np.array([2.0, 2.0, 5.0])
    X = np.array([[2.0, 0], [2.5, 0], [1.5, 0], [0, 5.0], [0, 5.1]])
    assert find_balls(X, centres, radii).tolist() == [0, 1, 0, 2, 3]


@pytest.mark.parametrize("seed", range(4))
def test_carved_balls_separate_cells_without_ties(seed):
    X = np.random.default_rng(seed).normal(size=(60, 2))
    labels = oracles.mdav(X, 4)
    sizes = np.bincount(labels)
    work = _start_carving(X, labels, sizes)
    balls = Balls(np.zeros((len(sizes), 2)), np.zeros(len(sizes)), np.zeros(1, dtype=np.int64))
    for first, last in pairwise([0, 5, len(sizes) - 1]):
        carve(work, balls, 4, first, last)
    used = balls.used[0]
    assert used == len(sizes) - 1
    assert (find_balls(X, balls.centres[:used], balls.radii[:used]) == labels).all()
    assert work.stray_count[0] == 0
    for centre in balls.centres[:used]:
        assert oracles.squared_distances(X, centre).min() > work.tolerance


@pytest.mark.parametrize("seed", range(6))
def test_carved_balls_have_k_records_whatever_ties(seed):
    X = grid(seed, 50, 2, values=4)
    labels = np.random.default_rng(seed).permutation(np.arange(50) // 5)
    sizes = np.bincount(labels)
    work = _start_carving(X, labels, sizes)
    balls = Balls(np.zeros((len(sizes), 2)), np.zeros(len(sizes)), np.zeros(1, dtype=np.int64))
    carve(work, balls, 5, 0, len(sizes) - 1)
    used = balls.used[0]
    assert used > 0
    actual = find_balls(X, balls.centres[:used], balls.radii[:used])
    assert (np.bincount(actual, minlength=used + 1)[:used] >= 5).all()
    left = set(work.strays[: work.stray_count[0]]) | set(work.others.rows[: work.others.left[0]])
    assert left == set(np.flatnonzero(actual == used))
