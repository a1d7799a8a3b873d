"""Refinement and annealing: never worse, valid sizes, reproducible, and better than MDAV."""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.kernels import _jit
from microcell.kernels.annealing import exchange_at_random, walk_everywhere
from microcell.kernels.exchange import (
    Limits,
    exchange_until_none_helps,
    find_near_cells,
    find_near_records,
)
from microcell.kernels.groups import (
    cost_of_moving,
    cost_of_swapping,
    empty_blocks,
    fill_blocks,
    make_grouping,
)
from microcell.kernels.rules import no_rule, trait_rule
from microcell.methods import search as _search
from microcell.methods.walk import in_spatial_order
from tests.raising import raises
from tests.reference import oracles


def blocks_of(X, labels, k, weights=None):
    blocks = empty_blocks(len(X) // k, X.shape[1], 2 * k - 1)
    fill_blocks(blocks, X - X.mean(axis=0), np.ones(len(X)) if weights is None else weights, labels)
    near = np.empty((len(X) // k, min(10, len(X) // k - 1)), dtype=np.int64)
    find_near_cells(blocks.sums, blocks.totals, near)
    return blocks, near


def labels_of(blocks, n):
    labels = np.full(n, -1)
    for cell, size in enumerate(blocks.sizes):
        labels[blocks.members[cell, :size]] = cell
    return np.unique(labels, return_inverse=True)[1]


def weighted_sse(X, labels, weights):
    total = 0.0
    for cell in np.unique(labels):
        members = labels == cell
        mean = np.average(X[members], axis=0, weights=weights[members])
        total += (weights[members] * ((X[members] - mean) ** 2).sum(axis=1)).sum()
    return total


def best_single_exchange(X, labels, k, weights):
    """Return how much the best single move or swap lowers the SSE, by trying all."""
    now, best = weighted_sse(X, labels, weights), 0.0
    for i in range(len(X)):
        for cell in np.unique(labels):
            if cell == labels[i]:
                continue
            tried = labels.copy()
            tried[i] = cell
            sizes = np.bincount(tried)
            if sizes[sizes > 0].min() >= k and sizes.max() <= 2 * k - 1:
                best = max(best, now - weighted_sse(X, tried, weights))
            for j in np.flatnonzero(labels == cell):
                tried = labels.copy()
                tried[i], tried[j] = labels[j], labels[i]
                best = max(best, now - weighted_sse(X, tried, weights))
    return best


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_after_exchanges_no_single_one_helps(seed, weighted):
    rng = np.random.default_rng(seed)
    X, k = rng.normal(size=(21, 2)), 3
    weights = rng.uniform(1, 4, 21) if weighted else np.ones(21)
    blocks, near = blocks_of(X, np.arange(21) % 6, k, weights)
    before = weighted_sse(X, labels_of(blocks, 21), weights)
    exchange_until_none_helps(blocks, near, Limits(k, 2 * k - 1), 100)
    labels = labels_of(blocks, 21)
    assert weighted_sse(X, labels, weights) < before
    assert best_single_exchange(X, labels, k, weights) < 1e-9
    assert 3 <= np.bincount(labels).min() <= np.bincount(labels).max() <= 5


def grouping_of(X, labels, k, weights=None, around=10):
    each = np.ones(len(X)) if weights is None else weights
    cells = make_grouping(X - X.mean(axis=0), each, labels, len(X) // k + 1, 2 * k - 1)
    near_cells = np.empty((len(cells.sizes), min(around, len(cells.sizes) - 1)), dtype=np.int64)
    find_near_cells(cells.sums, cells.totals, near_cells)
    near = np.zeros((len(X), 8), dtype=np.int32)
    find_near_records(cells, near_cells, 0, len(cells.sizes), near)
    return cells, near


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("heat", [0.0, 0.1, 5.0])
def test_annealing_keeps_its_sums_consistent(heat, weighted):
    """Incremental labels, sizes and sums equal recomputed ones; without heat SSE never rises."""
    rng = np.random.default_rng(0)
    X, k = rng.normal(size=(60, 3)), 4
    weights = rng.uniform(1, 3, 60) if weighted else np.ones(60)
    labels = mc.partition(X, k, method="mdav").labels
    cells, near = grouping_of(X, labels, k, weights)
    state = np.array([1], dtype=np.uint64)
    for _ in range(20):
        created = exchange_at_random(
            cells,
            near,
            np.full(60, heat),
            Limits(k, 2 * k - 1),
            no_rule(60),
            walk_everywhere(60, len(cells.sizes)),
            50.0,
            state,
        )
        assert sorted(
            cells.members[c, s] for c in range(16) for s in range(cells.sizes[c])
        ) == list(range(60))
        assert cells.sizes[cells.sizes > 0].min() >= k
        assert cells.sizes.max() <= 2 * k - 1
        assert set(cells.empty[1 : cells.empty[0] + 1]) == set(np.flatnonzero(cells.sizes == 0))
        for cell in np.flatnonzero(cells.sizes):
            members = cells.members[cell, : cells.sizes[cell]]
            assert (cells.labels[members] == cell).all()
            assert (cells.slots[members] == np.arange(len(members))).all()
            assert cells.sums[cell] == pytest.approx(
                ((X - X.mean(axis=0)) * weights[:, None])[members].sum(axis=0)
            )
            assert cells.totals[cell] == pytest.approx(weights[members].sum())
            assert cells.norms[cell] == pytest.approx((cells.sums[cell] ** 2).sum())
    assert created > 0 or heat == 0
    if heat == 0:
        assert weighted_sse(X, cells.labels, weights) < weighted_sse(X, labels, weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_costs_equal_the_increase_in_sse(weighted):
    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(12, 2)), np.arange(12) % 3
    weights = rng.uniform(1, 3, 12) if weighted else np.ones(12)
    cells = make_grouping(X, weights, labels, 4, 12)
    before = weighted_sse(X, labels, weights)
    swapped, moved, alone = labels.copy(), labels.copy(), labels.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    moved[0] = 2
    alone[0] = 3
    assert grouping_costs(cells) == pytest.approx(
        [weighted_sse(X, x, weights) - before for x in (swapped, moved, alone)]
    )


@numba.njit
def grouping_costs(cells):
    return np.array(
        [cost_of_swapping(cells, 0, 1), cost_of_moving(cells, 0, 2), cost_of_moving(cells, 0, 3)]
    )


def test_neighbour_lists_hold_the_nearest_records():
    X = np.random.default_rng(0).normal(size=(200, 3))
    _, near = grouping_of(X, np.arange(200) % 50, 4, around=49)
    for i in range(200):
        distance = ((X - X[i]) ** 2).sum(axis=1)
        distance[i] = np.inf
        assert list(near[i]) == list(np.argsort(distance)[:8])
    _, near = grouping_of(X[:6], np.zeros(6, dtype=np.int64), 4)
    assert all(set(near[i]) == set(range(6)) - {i} for i in range(6))


def test_combining_keeps_the_better_of_each_part():
    X = np.array([[0.0], [1], [2], [3], [100], [101], [102], [103]])
    good_left = np.array([0, 0, 1, 1, 2, 3, 2, 3])
    good_right = np.array([0, 1, 0, 1, 2, 2, 3, 3])
    search = _search.Search(X, good_left, 2, None, 0)
    search.combine(good_right)
    assert list(search.labels) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert search.sse == pytest.approx(2.0)


@pytest.mark.parametrize("method", ["refine", "search"])
def test_no_exchange_breaks_a_rule(method):
    """Cells must keep at least two records of each sex, whatever that costs."""
    rng = np.random.default_rng(0)
    X, sex = rng.normal(size=(120, 2)), np.arange(120.0) % 2
    X[:, 0] += 3 * sex
    start = np.arange(120) // 6

    def mixed(traits):
        return 2 <= traits[:, 0].sum() <= len(traits) - 2

    if method == "refine":
        labels = mc.refine(X, start, 4, traits=sex[:, np.newaxis], allowed=mixed).labels
    else:
        rule = trait_rule(sex[:, np.newaxis].copy(), _jit.predicate(mixed))
        search = _search.Search(X, start, 4, None, 0, rule)
        for _ in range(5):
            assert search.anneal(200, 1.0, 0.1) > 0
        labels = search.labels
    women, sizes = np.bincount(labels, weights=sex), np.bincount(labels)
    assert ((women >= 2) & (sizes - women >= 2) & (sizes >= 4)).all()
    if method == "refine":
        assert mc.distortion(X, labels) < 0.7 * mc.distortion(X, start)


def test_invalid_rules_are_rejected():
    X, labels, traits = np.eye(8), np.arange(8) // 4, np.ones((8, 1))
    with raises(mc.errors.OptionError, "option.conflict", option="traits"):
        mc.refine(X, labels, 4, traits=traits)
    with raises(mc.errors.OptionError, "option.invalid", option="traits"):
        mc.refine(X, labels, 4, traits=traits[:3], allowed=lambda t: len(t) > 0)
    with raises(mc.errors.OptionError, "option.invalid", option="allowed"):
        mc.refine(X, labels, 4, traits=traits, allowed=lambda t: str(t).join("x"))
    with raises(mc.errors.OptionError, "option.invalid", option="allowed"):
        mc.refine(X, labels, 4, traits=traits, allowed=lambda t: t.sum() < 0)


@given(seed=st.integers(0, 10**6), k=st.integers(2, 6), values=st.integers(1, 20))
def test_refining_any_partition_is_safe(seed, k, values):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(k, 60))
    X = rng.integers(0, values + 1, size=(n, 2)).astype(float)
    labels = rng.permutation(np.arange(n) // k % max(1, n // k))
    better = mc.refine(X, labels, k)
    assert better.sizes.min() >= k
    assert better.sizes.max() <= max(2 * k - 1, 0) or n < 2 * k
    assert mc.distortion(X, better.labels) <= mc.distortion(X, labels) + 1e-12


def test_refine_finds_the_best_of_a_tiny_table():
    hits = 0
    for seed in range(10):
        X = np.random.default_rng(seed).normal(size=(9, 2))
        result = oracles.sse(X, mc.partition(X, 2, method="anneal").labels)
        hits += result == pytest.approx(oracles.best_sse(X, 2))
    assert hits >= 9


def test_refine_rejects_invalid_input():
    X = np.zeros((6, 1))
    with raises(mc.GuaranteeError, "guarantee.failed"):
        mc.refine(X, [0, 0, 0, 1, 1, 1], 4)
    with raises(mc.errors.OptionError, "option.invalid", option="labels"):
        mc.refine(X, [0, 0, 0], 3)
    with raises(mc.errors.OptionError, "option.wrong_type", option="refine"):
        mc.partition(np.eye(6), 3, refine="yes")


@pytest.mark.parametrize("option", ["steps", "seconds"])
@pytest.mark.parametrize("value", [-1, np.nan, "long"])
def test_anneal_rejects_invalid_options(option, value):
    with raises(mc.errors.OptionError, "option.out_of_range"):
        mc.partition(np.eye(9), 3, method="anneal", **{option: value})


def test_anneal_by_time_ends_and_improves():
    X = np.random.default_rng(0).normal(size=(300, 3))
    start = mc.distortion(X, mc.partition(X, 5, method="mdav", refine=True).labels)
    assert mc.distortion(X, mc.partition(X, 5, method="anneal", seconds=1.0).labels) < start


def test_ctrl_c_returns_the_best_so_far(monkeypatch):
    X = np.random.default_rng(0).normal(size=(90, 2))
    start = mc.partition(X, 5, method="mdav")
    go_on, calls = _search.Search.anneal, []

    def after_a_while(self, *plan):
        calls.append(plan)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return go_on(self, *plan)

    monkeypatch.setattr(_search.Search, "anneal", after_a_while)
    result = mc.partition(X, 5, method="anneal")
    assert len(calls) == 10  # and what comes without heat at the end
    assert mc.distortion(X, result.labels) <= mc.distortion(X, start.labels) + 1e-12


@pytest.mark.parametrize("method", ["mdav", "anneal"])
def test_search_does_not_depend_on_the_number_of_threads(method):
    X = np.random.default_rng(0).normal(size=(5000, 3))
    threads = _jit.thread_count()
    options = {"steps": 60} if method == "anneal" else {"refine": True}
    try:
        labels = []
        for count in {1, threads}:
            _jit.numba.set_num_threads(count)
            labels.append(mc.partition(X, 5, method=method, **options).labels)
    finally:
        _jit.numba.set_num_threads(threads)
    assert (labels[0] == labels[-1]).all()


@pytest.mark.parametrize(
    ("data", "k"), [("census", 3), ("census", 10), ("tarragona", 5), ("eia", 10)]
)
def test_refinement_gains_on_the_classic_sets(load_standardized, data, k):
    X = load_standardized(data)
    start, refined = (
        mc.partition(X, k, method="mdav", refine=refine).labels for refine in (False, True)
    )
    assert mc.distortion(X, refined) < 0.95 * mc.distortion(X, start)
    searched = mc.partition(X, k, method="anneal", steps=1000).labels
    assert mc.distortion(X, searched) < mc.distortion(X, refined)


def test_bisect_is_within_sizes_and_near():
    X = np.random.default_rng(0).normal(size=(1003, 2))
    cells = mc.partition(X, 7, method="bisect")
    assert cells.sizes.max() <= 13
    assert mc.distortion(X, cells.labels) < 0.03


def test_records_that_do_not_vary_are_in_the_order_of_their_cells():
    labels = np.array([1, 0, 1, 0, 2, 2])
    order, starts = in_spatial_order(np.empty((6, 0)), labels)
    assert labels[order].tolist() == [0, 0, 1, 1, 2, 2]
    assert starts[0] == 0
