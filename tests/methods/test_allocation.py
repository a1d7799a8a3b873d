"""Allocation to centres of limited capacity: the optimum, its prices, and invalid input."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import microcell as mc
from microcell.errors import DataError, OptionError
from tests.raising import raises


def allocate(X, centres, places):
    """Allocate the rows of a matrix."""
    points, sites = (
        {f"x{j}": column for j, column in enumerate(np.asarray(matrix, dtype=float).T)}
        for matrix in (X, centres)
    )
    return mc.allocate(points, sites | {"places": np.asarray(places)})


def squares(X, centres):
    return ((X[:, None] - centres) ** 2).sum(axis=2)


def least_sum(X, centres, places):
    """Return the optimum by the Hungarian method, with a column per place."""
    table = np.repeat(squares(X, centres), places, axis=1)
    rows, columns = linear_sum_assignment(table)
    return table[rows, columns].sum()


def check(X, centres, places):
    """Check that an allocation respects the places and is optimal, and return its sum."""
    result = allocate(X, centres, places)
    loads = np.bincount(result.labels, minlength=len(centres))
    table = squares(X, centres)
    rows = np.arange(len(X))
    assigned = table[rows, result.labels]
    assert (loads <= places).all()
    assert (result.prices >= 0).all()
    assert (result.prices[loads < places] == 0).all()
    assert (
        assigned + result.prices[result.labels]
        <= (table + result.prices).min(axis=1) + 1e-9 * (1 + table.max())
    ).all()
    return assigned.sum()


def draw(n, count, m, seed, spare=0):
    rng = np.random.default_rng(seed)
    places = 1 + rng.multinomial(n + spare - count, np.full(count, 1 / count))
    return rng.normal(size=(n, m)), rng.normal(size=(count, m)), places


@pytest.mark.parametrize(
    "n, count, m", [(40, 3, 1), (60, 7, 2), (60, 60, 2), (300, 20, 3), (500, 120, 5)]
)
@pytest.mark.parametrize("spare", [0, 1, 50])
@pytest.mark.parametrize("seed", [0, 1])
def test_no_allocation_has_a_smaller_sum(n, count, m, spare, seed):
    X, centres, places = draw(n, count, m, seed, spare)
    assert check(X, centres, places) == pytest.approx(least_sum(X, centres, places), rel=1e-10)


@given(st.data())
def test_tiny_inputs_with_ties_against_all_allocations(data):
    n, count = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    whole = st.lists(st.integers(-2, 2), min_size=2, max_size=2)
    X = np.array(data.draw(st.lists(whole, min_size=n, max_size=n)), dtype=float)
    centres = np.array(data.draw(st.lists(whole, min_size=count, max_size=count)), dtype=float)
    places = np.array(data.draw(st.lists(st.integers(1, 6), min_size=count, max_size=count)))
    places[-1] += max(0, n - places.sum())
    table = squares(X, centres)
    least = min(
        table[np.arange(n), labels].sum()
        for labels in map(list, product(range(count), repeat=n))
        if (np.bincount(labels, minlength=count) <= places).all()
    )
    assert check(X, centres, places) == least


@pytest.mark.parametrize("spare", [0, 3, 30])
def test_price_is_between_marginal_saving_and_marginal_cost(spare):
    X, centres, places = draw(80, 6, 2, 3, spare)
    costs, least = allocate(X, centres, places).prices, least_sum(X, centres, places)
    for centre in range(len(centres)):
        change = (np.arange(len(centres)) == centre).astype(int)
        saved = least - least_sum(X, centres, places + change)
        assert saved <= costs[centre] + 1e-9
        if places.sum() > len(X):
            lost = least_sum(X, centres, places - change) - least
            assert costs[centre] <= lost + 1e-9


def test_equal_points_and_centres_in_one_spot_fill_the_places():
    places = np.array([2, 3, 1, 4])
    for X, centres in ((np.zeros((10, 2)), np.zeros((4, 2))), (np.ones((10, 2)), np.zeros((4, 2)))):
        assert np.bincount(allocate(X, centres, places).labels).tolist() == places.tolist()
    spread = np.repeat(np.array([[0.0], [1.0]]), 5, axis=0)
    assert check(spread, np.array([[0.0], [0.0], [1.0]]), np.array([3, 3, 4])) == 1.0


def test_with_enough_places_everyone_goes_to_the_nearest_centre():
    X, centres, _ = draw(200, 9, 2, 5)
    result = allocate(X, centres, np.full(9, 10**15))
    assert (result.labels == squares(X, centres).argmin(axis=1)).all()
    assert (result.prices == 0).all()


def test_one_centre_takes_all():
    result = allocate([[1.0], [2.0]], [[7.0]], [2])
    assert (result.labels.tolist(), result.prices.tolist()) == ([0, 0], [0.0])


@pytest.mark.parametrize("power", [-520, -400, 0, 400])
def test_units_affect_only_the_prices(power):
    X, centres, places = draw(100, 6, 2, 7, 3)
    plain, scaled = (
        allocate(X, centres, places),
        allocate(X * 2.0**power, centres * 2.0**power, places),
    )
    assert (plain.labels == scaled.labels).all()
    assert scaled.prices == pytest.approx(plain.prices * 2.0**power * 2.0**power)


@pytest.mark.parametrize(
    "X, centres, places, error, expected",
    [
        ([[0.0]], [[0.0], [np.inf]], [1, 1], DataError, {"code": "data.not_finite", "row": 2}),
        ([[1e151]], [[0.0]], [1], DataError, {"code": "data.not_finite", "row": 1}),
        ([[0.0]], [[0.0], [1.0]], [1, -1], DataError, {"code": "data.invalid", "row": 2}),
        ([[0.0]], [[0.0], [1.0]], [1.5, 1], DataError, {"code": "data.invalid", "row": 1}),
        ([[0.0]], [[0.0]], [1e17], DataError, {"code": "data.invalid", "row": 1}),
        ([[0.0]], [[0.0]], ["a"], DataError, {"code": "data.not_a_number"}),
        (
            np.zeros((9, 1)),
            [[0.0], [1.0]],
            [3, 4],
            DataError,
            {"code": "data.invalid", "missing": 2},
        ),
        (
            [[0.0]],
            np.zeros((1501, 1)),
            np.ones(1501),
            OptionError,
            {"code": "option.out_of_range", "option": "centres"},
        ),
    ],
)
def test_impossible_allocations_are_rejected(X, centres, places, error, expected):
    with raises(error, **expected):
        allocate(X, centres, places)


def test_standardizing_cannot_overflow():
    points, centres = {"x": [0.0, 1e-140]}, {"x": [1e20], "places": [2]}
    with raises(DataError, "data.not_finite", column="x", row=1):
        mc.allocate(points, centres, standardize=True)


def test_tiny_coordinates_are_allocated():
    result = mc.allocate({"x": [0.0, 1e-310, 2e-310]}, {"x": [0.0, 2e-310], "places": [2, 1]})
    assert result.labels.tolist() == [0, 0, 1]
