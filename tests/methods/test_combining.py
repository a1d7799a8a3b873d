"""Combining the cells of many partitions, and the long search that uses it."""

from functools import cache

import numpy as np
import pytest

import microcell as mc
from microcell.kernels import covering
from microcell.methods import anneal
from microcell.methods import anneal as _copies
from microcell.methods import search as _search
from microcell.methods.anneal import Pool, default_steps
from microcell.methods.search import Budget, cool_down

SMALL = np.random.default_rng(5).normal(size=(12, 2))


def random_labels(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    """Return random cells of k to 2k-1 records."""
    labels = np.arange(n) // k
    labels[labels == n // k] = n // k - 1
    return labels[rng.permutation(n)]


def sse(X: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> float:
    each = np.ones(len(X)) if weights is None else weights
    return sum(cost_of(X, each, cell) for cell in cells_of(labels))


def cost_of(X: np.ndarray, weights: np.ndarray, cell: frozenset[int]) -> float:
    rows = sorted(cell)
    mean = np.average(X[rows], axis=0, weights=weights[rows])
    return float((weights[rows] * ((X[rows] - mean) ** 2).sum(axis=1)).sum())


def cells_of(labels: np.ndarray) -> list[frozenset[int]]:
    return [frozenset(np.flatnonzero(labels == cell).tolist()) for cell in np.unique(labels)]


def least_by_trying_all(X: np.ndarray, weights: np.ndarray, cells: set[frozenset[int]]) -> float:
    """Return the least SSE of any choice of these cells that covers each record once."""

    costs = {cell: cost_of(X, weights, cell) for cell in cells}

    @cache
    def least(left: frozenset[int]) -> float:
        if not left:
            return 0.0
        first = min(left)
        return min(
            (
                cost + least(left - cell)
                for cell, cost in costs.items()
                if first in cell and cell <= left
            ),
            default=np.inf,
        )

    return least(frozenset(range(len(X))))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weighted", [False, True])
def test_best_combination_is_found(monkeypatch, seed, weighted):
    monkeypatch.setattr(covering, "_WORTH", np.inf)
    rng = np.random.default_rng(seed)
    weights = rng.uniform(1, 3, len(SMALL)) if weighted else np.ones(len(SMALL))
    result = [random_labels(rng, len(SMALL), 2) for _ in range(40)]
    pool = Pool(SMALL, weights)
    for labels in result:
        pool.add(labels)
    combined = pool.combine(result[0])
    assert set(cells_of(combined)) <= {cell for labels in result for cell in cells_of(labels)}
    expected = least_by_trying_all(
        SMALL, weights, {cell for labels in result for cell in cells_of(labels)}
    )
    assert sse(SMALL, combined, weights) == pytest.approx(expected)


@pytest.mark.parametrize("scale", [1e-120, 1e-6, 1.0, 1e6, 1e120])
def test_scales_do_not_matter(scale):
    rng = np.random.default_rng(0)
    result = [random_labels(rng, len(SMALL), 3) for _ in range(30)]
    pool, scaled = Pool(SMALL, np.ones(12)), Pool(SMALL * scale, np.ones(12))
    for labels in result:
        pool.add(labels)
        scaled.add(labels)
    assert np.array_equal(pool.combine(result[0]), scaled.combine(result[0]))


def test_nothing_to_combine():
    labels = np.repeat([0, 1, 2], 4)
    assert Pool(SMALL, np.ones(12)).combine(labels) is labels, "one partition only"
    pool = Pool(np.zeros((12, 2)), np.ones(12))
    pool.add(np.tile([0, 1, 2], 4))
    assert pool.combine(labels) is labels, "no distortion to lower"


@pytest.mark.parametrize(("limit", "value"), [("_PATIENCE", 0.0), ("_SPLIT", -1.0)])
def test_too_hard_problems_keep_the_incumbent(monkeypatch, limit, value):
    pool, worst = a_pool_and_its_worst()
    assert sse(SMALL, pool.combine(worst)) < sse(SMALL, worst)
    monkeypatch.setattr(covering, limit, value)
    assert pool.combine(worst) is worst


def test_no_time_returns_the_initial_partition():
    pool, worst = a_pool_and_its_worst()
    assert pool.combine(worst, seconds=0.0) is worst


def a_pool_and_its_worst() -> tuple[Pool, np.ndarray]:
    rng = np.random.default_rng(0)
    result = sorted(
        (random_labels(rng, 12, 2) for _ in range(40)), key=lambda labels: sse(SMALL, labels)
    )
    pool = Pool(SMALL, np.ones(12))
    for labels in result:
        pool.add(labels)
    return pool, result[-1]


@pytest.mark.parametrize("k, weighted", [(2, True), (3, False), (5, True), (11, False)])
def test_long_search_keeps_sizes_and_is_reproducible(k, weighted):
    rng = np.random.default_rng(k)
    X, weights = rng.normal(size=(30, 3)), rng.uniform(1, 2, 30) if weighted else None
    long, again = (
        mc.partition(X, k, method="anneal", steps=100_000, weights=weights) for _ in range(2)
    )
    sizes = np.bincount(long.labels)
    assert k <= sizes.min()
    assert sizes.max() < 2 * k
    assert np.array_equal(long.labels, again.labels)
    short = mc.partition(X, k, method="anneal", steps=100, weights=weights)
    assert sse(X, long.labels, weights) <= sse(X, short.labels, weights) * (1 + 1e-12)


def test_long_search_is_never_worse_than_the_default():
    X = np.random.default_rng(0).standard_t(2, size=(90, 4))
    usual = mc.partition(X, 3).labels
    steps = 10 * default_steps(len(X), 3)
    assert steps >= anneal._LONG, "or else this would be no long search"
    long = mc.partition(X, 3, method="anneal", steps=steps).labels
    assert sse(X, long) <= sse(X, usual) * (1 + 1e-12)


def test_copies_return_new_partitions_even_if_worse():
    X = np.random.default_rng(5).normal(size=(60, 3))
    best = mc.partition(X, 3, method="anneal", steps=1e5).labels
    kept, free = (_search.Search(X, best, 3, None, seed=0) for _ in range(2))
    for search, keep_best in ((kept, True), (free, False)):
        cool_down(search, Budget(20.0, None), 0.5, 0.5, keep_best=keep_best)
    assert kept.sse <= sse(X, best) * (1 + 1e-12) < free.sse


def test_each_copy_has_its_own_temperature():
    X = np.random.default_rng(5).normal(size=(30, 3))
    best = mc.partition(X, 3, method="anneal", steps=1e5).labels
    twice = _search.Search(
        np.tile(X, (2, 1)), np.concatenate([best, best + best.max() + 1]), 3, None, 0, copies=2
    )
    cool_down(
        twice, Budget(20.0, None), np.array([1e-9, 0.5]), np.array([1e-9, 0.5]), keep_best=False
    )
    cold, warm = np.split(twice.labels, 2)
    assert sse(X, cold) <= sse(X, best) * (1 + 1e-9) < sse(X, warm)


def test_long_search_of_equal_records_and_of_one_cell():
    assert (
        np.bincount(mc.partition(np.ones((9, 2)), 3, method="anneal", steps=1e5).labels).min() >= 3
    )
    assert not mc.partition(SMALL[:5], 3, method="anneal", steps=1e5).labels.any()


def test_long_search_ends_at_its_time_limit():
    X = np.random.default_rng(0).normal(size=(60, 3))
    result = mc.partition(X, 3, method="anneal", seconds=1.5)
    sizes = np.bincount(result.labels)
    assert (sizes.min() >= 3, sizes.max() <= 5) == (True, True)


def test_long_search_does_not_depend_on_threads(monkeypatch):
    X, labels = np.random.default_rng(3).normal(size=(30, 3)), []
    for threads in (1, 3):
        monkeypatch.setattr(_search, "thread_count", lambda count=threads: count)
        labels.append(mc.partition(X, 3, method="anneal", steps=1e5).labels)
    assert np.array_equal(*labels)


@pytest.mark.parametrize("calls", [1, 30, 60])
def test_ctrl_c_while_copies_cool_keeps_the_best(monkeypatch, calls):
    X = np.random.default_rng(1).normal(size=(30, 3))
    go_on, done = _search.Search.anneal, []

    def interrupted(search: _search.Search, *arguments: float) -> int:
        done.append(search)
        if len(done) == calls:
            raise KeyboardInterrupt
        return go_on(search, *arguments)

    monkeypatch.setattr(_search.Search, "anneal", interrupted)
    result = mc.partition(X, 3, method="anneal", steps=1e5).labels
    assert sse(X, result) <= sse(X, mc.partition(X, 3, method="mdav").labels)
    assert np.bincount(result).min() >= 3


@pytest.mark.parametrize("calls", [1, 2])
def test_ctrl_c_in_a_long_search_keeps_the_best(monkeypatch, calls):
    X = np.random.default_rng(1).normal(size=(30, 3))
    combine, done = _copies.Pool.combine, []

    def interrupted(pool: Pool, labels: np.ndarray, seconds: float = np.inf) -> np.ndarray:
        done.append(labels)
        if len(done) == calls:
            raise KeyboardInterrupt
        return combine(pool, labels, seconds)

    monkeypatch.setattr(_copies.Pool, "combine", interrupted)
    result = mc.partition(X, 3, method="anneal", steps=1e5).labels
    assert len(done) == calls
    assert sse(X, result) <= sse(X, done[-1]) * (1 + 1e-12)
    assert np.bincount(result).min() >= 3
