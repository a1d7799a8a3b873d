"""Lower bounds: below the optimum of all partitions, exact where promised, and near the records."""

from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell import errors
from microcell.kernels.neighbours import UNKNOWN, find_nearest, grow_tree, least_weighted_shares
from microcell.kernels.pricing import find_charges, list_nearest, make_prices
from microcell.methods import bounds
from tests.raising import raises
from tests.reference import oracles

EFFORTS = ("fast", "balanced", "best")
RECORDS = Path(__file__).parents[2] / "benchmarks" / "records"
SLACK = 1e-7
"""Relative rounding error of the oracle and of the bound."""


def optimum(X, k, weights=None):
    """Return the least distortion of all partitions, by trying them all."""
    each = np.ones(len(X)) if weights is None else weights
    total = oracles.weighted_sse(X, np.zeros(len(X), dtype=int), each)
    return oracles.best_sse(X, k, each) / total if total > 0 else 0.0


@st.composite
def small_tables(draw):
    """Up to nine records with ties, duplicates, constant columns, and huge or tiny scales."""
    n, m = draw(st.integers(2, 9)), draw(st.integers(1, 3))
    seed, levels = draw(st.integers(0, 10**6)), draw(st.sampled_from([1, 2, 4, 1000]))
    rng = np.random.default_rng(seed)
    X = rng.integers(0, levels + 1, size=(n, m)).astype(float)
    X[:, rng.random(m) < 0.15] = 3.0
    if draw(st.booleans()):
        X[rng.integers(n)] += 50 * levels
    scale = draw(st.sampled_from([1.0, 1e-120, 1e-6, 1e9, 1e150]))
    return X * scale, draw(st.integers(2, n)), rng


@pytest.mark.parametrize("effort", EFFORTS)
@given(case=small_tables())
def test_no_partition_is_below_the_bound(effort, case):
    X, k, _ = case
    scaled = X / (np.abs(X).max() or 1.0)
    bound, best = mc.lower_bound(X, k, effort=effort), optimum(scaled, k)
    assert 0 <= bound <= best * (1 + SLACK)
    if X.shape[1] == 1:
        assert bound == pytest.approx(best, rel=1e-9)
    if len(X) < 2 * k:
        assert bound == (1.0 if np.ptp(scaled, axis=0).any() else 0.0)


@given(case=small_tables())
def test_no_partition_is_below_the_weighted_bound(case):
    X, k, rng = case
    weights = 10.0 ** rng.uniform(-rng.integers(0, 7), 0, size=len(X))
    scaled = X / (np.abs(X).max() or 1.0)
    bound = mc.lower_bound(X, k, weights=weights)
    assert 0 <= bound <= optimum(scaled, k, weights) * (1 + SLACK)


def simple_bound(X, k):
    """Return the bound by nearest records, in the words of its definition."""
    total = 0.0
    for row in X:
        squares = np.sort(((X - row) ** 2).sum(axis=1))[1:]
        total += min(
            squares[: s - 1].sum() / (2 * s) for s in range(k, min(2 * k - 1, len(X) - k) + 1)
        )
    return total / ((X - X.mean(axis=0)) ** 2).sum()


@pytest.mark.parametrize("n, m, k", [(7, 2, 3), (600, 3, 2), (600, 12, 5), (1500, 2, 10)])
def test_the_fast_bound_is_the_sum_of_least_contributions(n, m, k):
    X = np.round(np.random.default_rng(n).normal(size=(n, m)), 1)
    assert mc.lower_bound(X, k, effort="fast") == pytest.approx(simple_bound(X, k), rel=1e-8)
    weights = np.full(n, 0.3)
    weighted = mc.lower_bound(X, k, weights=weights, effort="fast")
    assert weighted == pytest.approx(simple_bound(X, k), rel=1e-6)


@pytest.mark.full_search
def test_prices_improve_on_nearest_records_and_more_effort_on_less():
    X = np.random.default_rng(0).normal(size=(150, 3))
    fast, balanced, best = (mc.lower_bound(X, 3, effort=effort) for effort in EFFORTS)
    found = mc.distortion(X, mc.partition(X, 3))
    assert fast < 0.8 * found < 0.93 * found < balanced <= best * (1 + 5e-3)
    assert best <= found


def test_groups_of_k_equal_records_have_no_distortion_and_loners_are_counted():
    rng = np.random.default_rng(1)
    groups = np.repeat(rng.normal(size=(30, 3)), 5, axis=0)
    assert mc.lower_bound(groups, 5) == 0
    loners = np.vstack([groups, rng.normal(size=(20, 3))])
    assert 0 < mc.lower_bound(loners, 5) <= mc.distortion(loners, mc.partition(loners, 5))


def test_equal_records_share_a_price_whatever_their_order():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 6, size=(300, 3)).astype(float)
    again = X[rng.permutation(len(X))]
    assert mc.lower_bound(X, 4) == pytest.approx(mc.lower_bound(again, 4), rel=5e-3)


def test_the_bound_does_not_depend_on_scale_shift_or_constant_columns():
    X = np.random.default_rng(3).normal(size=(60, 3))
    bound = mc.lower_bound(X, 3)
    assert mc.lower_bound(1e5 * X - 7, 3) == pytest.approx(bound, rel=1e-6)
    assert mc.lower_bound(np.column_stack([X, np.ones(60)]), 3) == pytest.approx(bound, rel=1e-6)


def test_strata_add_up():
    rng = np.random.default_rng(4)
    X, strata = rng.normal(size=(80, 2)), np.repeat([0, 1], 40)
    total = ((X - X.mean(axis=0)) ** 2).sum()
    parts = sum(
        mc.lower_bound(part, 4, effort="fast") * ((part - part.mean(axis=0)) ** 2).sum()
        for part in (X[:40], X[40:])
    )
    bound = bounds.bound_within(strata, X, 4, None)
    assert bound.distortion == pytest.approx(parts / total)
    assert bound.distortion >= mc.lower_bound(X, 4, effort="fast")


@pytest.mark.parametrize("weights", [None, np.linspace(1, 3, 1200)])
def test_a_search_cut_short_gives_a_lower_bound(weights, monkeypatch):
    X = np.random.default_rng(5).normal(size=(1200, 6))
    whole = bounds.bound_within(None, X, 3, weights).distortion
    monkeypatch.setattr(bounds, "_as_effort", lambda _: bounds._Effort(leaves=2400))
    assert 0 < bounds.bound_within(None, X, 3, weights).distortion < whole


def test_a_search_with_few_nodes_or_near_types_gives_a_lower_bound(monkeypatch):
    X = np.random.default_rng(6).normal(size=(120, 4))
    found = mc.distortion(X, mc.partition(X, 4))
    whole = mc.lower_bound(X, 4)
    monkeypatch.setattr(bounds, "_NEAR_ENTRIES", 1)
    few = mc.lower_bound(X, 4)
    monkeypatch.setattr(bounds, "_as_effort", lambda _: bounds._Effort(1e7, 5000, 10, 5e-3, work=1))
    fewer = mc.lower_bound(X, 4)
    assert mc.lower_bound(X, 4, effort="fast") <= fewer <= found
    assert few <= found
    assert whole <= found


def test_a_time_limit_is_kept():
    X = np.random.default_rng(7).normal(size=(400, 5))
    assert mc.lower_bound(X, 10, effort=0.01) >= mc.lower_bound(X, 10, effort="fast") * (1 - 1e-12)


def test_the_number_of_threads_does_not_matter(monkeypatch):
    X = np.random.default_rng(8).normal(size=(200, 3))
    bound = mc.lower_bound(X, 3)
    monkeypatch.setattr(bounds, "thread_count", lambda: 5)
    assert mc.lower_bound(X, 3) == bound


def test_inputs_are_checked():
    X = np.zeros((5, 2))
    with raises(errors.TooFewRecordsError, "guarantee.too_few_records", k=6, records=5):
        mc.lower_bound(X, 6)
    with raises(errors.OptionError, "option.out_of_range", option="k"):
        mc.lower_bound(X, 1)
    with raises(errors.OptionError, "option.invalid", option="effort"):
        mc.lower_bound(X, 2, effort="most")
    with raises(errors.DataError, "data.not_finite"):
        mc.lower_bound([[1.0, np.nan]] * 4, 2)
    with raises(errors.DataError, "data.bad_weight"):
        mc.lower_bound(X, 2, weights=[1, 1, 0, 1, 1])
    assert mc.lower_bound(X, 2) == 0


# ------------------------------------------------------------------------------ kernels


@pytest.mark.parametrize("n, m", [(1, 2), (40, 1), (700, 2), (900, 11)])
def test_nearest_records_match_sorting(n, m):
    X = np.round(np.random.default_rng(n).normal(size=(n, m)), 1)
    tree, width = grow_tree(X), min(7, n - 1)
    distances, rows = np.empty((n, width)), np.empty((n, width), dtype=np.int64)
    assert find_nearest(tree, 0, 10**9, distances, rows) == 0
    short = distances.copy()
    cut = find_nearest(tree, 0, 1, short, rows.copy())
    assert (cut > 0) == (n > 256)
    assert (short <= distances).all()
    for i, row in enumerate(tree.rows):
        squares = oracles.squared_distances(X, X[row])
        assert distances[i] == pytest.approx(np.sort(np.delete(squares, row))[:width])
        assert squares[rows[i]] == pytest.approx(distances[i])
        assert row not in rows[i]
        assert UNKNOWN not in rows[i]


@pytest.mark.parametrize("seed", range(5))
def test_least_weighted_shares_match_trying_all_cells(seed):
    rng = np.random.default_rng(seed)
    distances = np.sort(rng.exponential(size=(4, 5)), axis=1)
    masses, own = 10.0 ** rng.uniform(-2, 0, size=(4, 5)), 10.0 ** rng.uniform(-2, 0, size=4)
    out = np.empty(4)
    lightest = 0.005
    least_weighted_shares(distances, masses, own, lightest, 3, 4, out)
    for i in range(4):
        others = [*zip(distances[i], masses[i], strict=True)]
        others += [(distances[i, -1], lightest)] * 3
        choices = []
        for size in (2, 3):
            for chosen in combinations_with_replacement(range(len(others)), size):
                if len(set(chosen)) == size:
                    d, w = np.array([others[c] for c in chosen]).T
                    choices.append(0.5 * own[i] * (d @ w) / (own[i] + w.sum()))
        assert out[i] == pytest.approx(min(choices))


def all_cells(copies, least, most):
    for size in range(least, most + 1):
        for cell in combinations_with_replacement(range(len(copies)), size):
            if (np.bincount(cell, minlength=len(copies)) <= copies).all():
                yield np.array(cell)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("width", [4, 9])
def test_charges_match_trying_all_cells(seed, width):
    rng = np.random.default_rng(seed)
    points, copies = rng.normal(size=(9, 2)), rng.integers(1, 4, size=9)
    least, most = [(2, 3), (3, 5)][seed % 2]
    types = list_nearest(points, copies, width, most)
    values = rng.uniform(0, 1, size=9) * (1 if seed < 3 else 0.4)
    prices = make_prices(types, values, most)
    charges, cells = np.empty(9), np.empty((9, most + 1), dtype=np.int64)
    find_charges(types, prices, np.arange(9), least, most, 10**6, charges, cells)
    expected = np.zeros(9)
    for cell in all_cells(copies, least, most):
        members = points[cell]
        reduced = ((members - members.mean(axis=0)) ** 2).sum() - values[cell].sum()
        leader = cell[np.argmax(prices.ranks[cell])]
        expected[leader] = min(expected[leader], reduced)
    if width == 9:
        assert charges == pytest.approx(expected)
        for leader in np.flatnonzero(expected < 0):
            cell = cells[leader][cells[leader] >= 0]
            members = points[cell]
            reduced = ((members - members.mean(axis=0)) ** 2).sum() - values[cell].sum()
            assert reduced == pytest.approx(expected[leader])
    assert (charges <= expected + 1e-12).all()
    few = np.empty(9)
    find_charges(types, prices, np.arange(9), least, most, 2, few, cells)
    assert (few <= expected + 1e-12).all()


# ------------------------------------------------------------------------------ classic data sets


@pytest.mark.parametrize(
    "name, losses",
    [
        ("census", {3: 3.444, 5: 5.017, 10: 7.336}),
        ("tarragona", {3: 9.855, 10: 19.22}),
        ("eia", {3: 0.2204, 10: 1.274}),
    ],
)
def test_fast_bounds_of_the_classic_data_sets(name, losses, load_standardized):
    X = load_standardized(name)
    for k, loss in losses.items():
        assert 100 * mc.lower_bound(X, k, effort="fast") == pytest.approx(loss, rel=3e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name, share", [("census", 0.98), ("tarragona", 0.94)])
def test_bounds_are_near_the_best_known_partitions(name, share, load_standardized):
    X = load_standardized(name)
    best = mc.distortion(X, np.loadtxt(RECORDS / f"{name}-3.txt", dtype=np.int64))
    assert share < mc.lower_bound(X, 3) / best <= 1
