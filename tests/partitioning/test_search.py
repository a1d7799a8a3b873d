"""Refinement and annealing: never worse, within sizes, the same on any number of threads, better than MDAV."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import microcell as mc
from microcell.kernels import _jit
from microcell.kernels.blocks import empty_blocks, fill_blocks
from microcell.kernels.exchange import Limits, exchange_until_none_helps
from microcell.kernels.neighbours import find_near_cells
from microcell.kernels.rebuilding import rebuild_while_cooling
from microcell.partitioning import _search
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
    """How much the best move or exchange of two records lowers the SSE, by trying all."""
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


@pytest.mark.parametrize("warm", [0.0, 0.5])
def test_rebuilding_keeps_its_books(warm):
    """Sums kept on the way equal sums made anew; at temperature 0 the SSE never rises."""
    X, k = np.random.default_rng(0).normal(size=(60, 3)), 4
    labels = mc.partition(X, k, method="mdav").labels
    blocks, near = blocks_of(X, labels, k)
    rebuild_while_cooling(blocks, near, Limits(k, 2 * k - 1), 500, warm, warm / 10, np.array([1], dtype=np.uint64))
    found = labels_of(blocks, 60)
    assert sorted(blocks.members[c, s] for c in range(15) for s in range(blocks.sizes[c])) == list(range(60))
    assert 4 <= np.bincount(found).min() <= np.bincount(found).max() <= 7
    for cell in np.flatnonzero(blocks.sizes):
        members = blocks.members[cell, : blocks.sizes[cell]]
        assert blocks.sums[cell] == pytest.approx((X - X.mean(axis=0))[members].sum(axis=0))
    if warm == 0:
        assert oracles.sse(X, found) < oracles.sse(X, labels)


@settings(max_examples=30, deadline=None)
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
        found = oracles.sse(X, mc.partition(X, 2, method="anneal").labels)
        hits += found == pytest.approx(oracles.best_sse(X, 2))
    assert hits >= 9


def test_refine_refuses_what_it_cannot_use():
    X = np.zeros((6, 1))
    with pytest.raises(mc.GuaranteeError, match="fewer than k = 4"):
        mc.refine(X, [0, 0, 0, 1, 1, 1], 4)
    with pytest.raises(mc.OptionError, match="labels must be 6 cell numbers"):
        mc.refine(X, [0, 0, 0], 3)
    with pytest.raises(mc.OptionError, match="refine must be true or false"):
        mc.partition(np.eye(6), 3, refine="yes")


@pytest.mark.parametrize("option", ["steps", "seconds"])
@pytest.mark.parametrize("value", [-1, np.nan, "long"])
def test_anneal_refuses_wrong_options(option, value):
    with pytest.raises(mc.OptionError, match=f"{option} must be a number of 0 or more"):
        mc.partition(np.eye(9), 3, method="anneal", **{option: value})


def test_auto_rebuilds_cells_too_where_refinement_is_asked_for():
    X = np.random.default_rng(0).normal(size=(400, 3))
    plain, asked = (mc.partition(X, 5, refine=refine).labels for refine in (False, True))
    assert mc.distortion(X, asked) < mc.distortion(X, plain)
    assert (asked == mc.partition(X, 5, method="mdav", refine=True).labels).all()


def test_anneal_by_time_ends_and_improves():
    X = np.random.default_rng(0).normal(size=(300, 3))
    start = mc.distortion(X, mc.partition(X, 5, method="mdav", refine=True).labels)
    assert mc.distortion(X, mc.partition(X, 5, method="anneal", seconds=1.0).labels) < start


def test_ctrl_c_gives_the_best_found(monkeypatch):
    X = np.random.default_rng(0).normal(size=(90, 2))
    start = mc.partition(X, 5, method="mdav", refine=True)
    rounds = _search.Search.round
    calls = []

    def after_a_while(self, plan):
        calls.append(plan)
        if plan.warm > 0 and len(calls) > 8:
            raise KeyboardInterrupt
        return rounds(self, plan)

    monkeypatch.setattr(_search.Search, "round", after_a_while)
    found = mc.partition(X, 5, method="anneal")
    assert mc.distortion(X, found.labels) <= mc.distortion(X, start.labels) + 1e-12


@pytest.mark.parametrize("method", ["mdav", "anneal"])
def test_search_does_not_depend_on_the_number_of_threads(method):
    X = np.random.default_rng(0).normal(size=(5000, 3))
    threads = _jit.thread_count()
    options = {"steps": 3} if method == "anneal" else {"refine": True}
    try:
        labels = []
        for count in {1, threads}:
            _jit.numba.set_num_threads(count)
            labels.append(mc.partition(X, 5, method=method, **options).labels)
    finally:
        _jit.numba.set_num_threads(threads)
    assert (labels[0] == labels[-1]).all()


@pytest.mark.parametrize(("data", "k"), [("census", 3), ("census", 10), ("tarragona", 5), ("eia", 10)])
def test_refinement_gains_on_the_classic_sets(load_standardized, data, k):
    X = load_standardized(data)
    start, refined = (mc.partition(X, k, method="mdav", refine=refine).labels for refine in (False, True))
    assert mc.distortion(X, refined) < 0.95 * mc.distortion(X, start)
    searched = mc.partition(X, k, method="anneal", steps=60).labels
    assert mc.distortion(X, searched) < mc.distortion(X, refined)


def test_bisect_is_within_sizes_and_near():
    X = np.random.default_rng(0).normal(size=(1003, 2))
    cells = mc.partition(X, 7, method="bisect")
    assert cells.sizes.max() <= 13
    assert mc.distortion(X, cells.labels) < 0.03
