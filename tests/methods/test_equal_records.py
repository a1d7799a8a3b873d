"""Tables of many equal records: groups are cells, and lend records to others."""

import numpy as np
import pytest

import microcell as mc
from microcell.kernels._jit import one_thread
from microcell.kernels.exchange import find_near_cells, find_near_cells_in_runs, improve_near
from microcell.methods import search as searching
from microcell.methods import walk
from microcell.methods.equal_records import find_equal_records
from tests.reference import oracles


def repeated(n=300, values=7, seed=0):
    """Two columns of whole numbers, most of them small."""
    numbers = np.random.default_rng(seed).geometric(0.35, size=(n, 2))
    return np.minimum(numbers, values).astype(float)


def test_the_reference_by_hand():
    X = np.array([[0.0], [0.0], [0.0], [9.0], [9.5]])
    assert list(oracles.keep_equal_together(X[:4], 2)) == [0, 0, 0, 0]
    assert list(oracles.keep_equal_together(X, 2)) == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("k", [3, 5, 10])
@pytest.mark.parametrize("seed", range(2))
def test_loses_no_more_than_keeping_equal_records_together(k, seed):
    X = repeated(seed=seed)
    cells = mc.partition(X, k)
    assert cells.sizes.min() >= k
    reference = oracles.keep_equal_together(X, k)
    assert mc.distortion(X, cells.labels) <= mc.distortion(X, reference)
    assert mc.distortion(X, cells.labels) <= mc.distortion(X, oracles.mdav(X, k))


def test_a_group_lends_records_to_a_lonely_one():
    """Two equal records and one 1 apart lose 2/3; the lonely one with the whole group, 10/11."""
    X = np.zeros((10, 2))
    X = np.vstack([X, [[0.0, 1.0]], np.full((5, 2), 50.0)])
    cells = mc.partition(X, 3)
    assert sorted(cells.sizes) == [3, 5, 8]
    assert oracles.sse(X, cells.labels) == pytest.approx(2 / 3)


def test_a_group_without_records_to_spare_takes_the_lonely_one():
    X = np.vstack([np.zeros((3, 2)), [[0.0, 1.0]], np.full((3, 2), 50.0)])
    cells = mc.partition(X, 3)
    assert sorted(cells.sizes) == [3, 4]


def test_records_set_aside_return_to_their_group():
    X = np.vstack([np.zeros((500, 2)), np.eye(2), np.full((7, 2), 50.0)])
    table = find_equal_records(X, 3, None)
    search = table.search(table.start(0, None), 0)
    assert len(search.labels) == 12 + 2 + 7
    labels = search.all_labels()
    assert len(labels) == len(X)
    assert np.bincount(labels).min() >= 3
    assert mc.partition(X, 3).sizes.max() >= 490


def test_only_equal_records():
    X = np.repeat(np.arange(8.0).reshape(4, 2), 6, axis=0)
    cells = mc.partition(X, 5)
    assert list(cells.sizes) == [6, 6, 6, 6]
    assert mc.distortion(X, cells.labels) == 0


@pytest.mark.parametrize("effort", ["fast", "balanced", "best", 0.3])
def test_every_effort_keeps_cells_of_k(effort, monkeypatch):
    monkeypatch.setattr("microcell.methods.auto._STEPS_OF_SINGLES", 20.0)
    cells = mc.partition(repeated(), 4, effort=effort)
    assert cells.sizes.min() >= 4
    assert cells.method == "anneal"


def test_weights_count():
    X, weights = repeated(), np.random.default_rng(1).uniform(1, 5, 300)
    cells = mc.partition(X, 4, weights=weights)
    assert cells.sizes.min() >= 4
    start = mc.partition(X, 4, weights=weights, method="mdav")
    assert mc.distortion(X, cells, weights=weights) <= mc.distortion(X, start, weights=weights)


def test_persons_are_not_interchangeable():
    X, persons = repeated(), np.arange(300) // 2
    cells = mc.partition(X, 4, persons=persons)
    assert all(len(set(persons[cells.labels == c])) >= 4 for c in range(len(cells)))


def test_tables_of_distinct_records_have_none():
    X = np.random.default_rng(0).normal(size=(100, 2))
    assert find_equal_records(X, 3, None) is None
    assert find_equal_records(np.ones((20, 2)), 3, None) is None
    assert find_equal_records(np.repeat(X, 2, axis=0), 3, None) is None
    assert find_equal_records(np.repeat(X, 3, axis=0), 3, None) is not None


@pytest.mark.parametrize("table", ["distinct", "repeated"])
def test_labels_do_not_depend_on_the_number_of_threads(table):
    X = repeated() if table == "repeated" else np.random.default_rng(0).normal(size=(400, 3))
    labels = mc.partition(X, 3, seed=4).labels
    with one_thread():
        assert (mc.partition(X, 3, seed=4).labels == labels).all()


def test_near_cells_in_runs_are_the_nearest_cells():
    """With all runs examined, the same cells as without runs."""
    means = np.random.default_rng(0).normal(size=(50, 3))
    near, expected = np.empty((50, 6), dtype=np.int64), np.empty((50, 6), dtype=np.int64)
    find_near_cells(means, np.ones(50), expected)
    starts = np.array([0, 20, 30, 50])
    columns = np.ascontiguousarray(means.T.astype(np.float32))
    find_near_cells_in_runs(columns, starts, np.tile(np.arange(3), (3, 1)), 0, 3, near)
    assert (near == expected).all()


def test_near_ones_of_near_ones_are_the_nearest_of_them():
    """As in plain Python; a list of too few repeats them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    near = rng.integers(0, 60, size=(60, 6)).astype(np.int32)
    better = np.zeros((60, 4), dtype=np.int32)
    improve_near(X, near, 0, 60, better)
    for i in range(60):
        others = np.setdiff1d(np.append(near[i], near[near[i]]), [i])
        gaps = np.square(X[others] - X[i]).sum(axis=1)
        assert (better[i] == others[gaps.argsort()[:4]]).all()
    pairs = np.array([[1], [0], [3], [2]], dtype=np.int32)
    better = np.zeros((4, 2), dtype=np.int32)
    improve_near(X[:4], pairs, 0, 4, better)
    assert (better == [[1, 1], [0, 0], [3, 3], [2, 2]]).all()


def test_annealing_in_zones_keeps_sizes_and_lowers_the_sse(monkeypatch):
    monkeypatch.setattr(walk, "WINDOW", 50)
    monkeypatch.setattr(walk, "_FEW_CELLS", 20)
    monkeypatch.setattr(walk, "_RUN", 8)
    X = np.random.default_rng(0).normal(size=(900, 4))
    search = searching.Search(X, mc.partition(X, 4, method="mdav").labels, 4, None, 0)
    before = search.sse
    search.anneal(100.0, 0.2, 0.05)
    assert search.sse < before
    assert 4 <= np.bincount(search.labels).min() <= np.bincount(search.labels).max() <= 7
