"""Measured increments: definitions, and the order of strategies on Gaussian points."""

import numpy as np
import pytest

import microcell as mc
from microcell.errors import OptionError, TooFewRecordsError
from microcell.increments.trials import Increment, measure_increment, measure_increments
from microcell.methods.increments import STRATEGIES, add_batch
from tests.raising import raises


def standardize(X, reference):
    return (X - reference.mean(axis=0)) / reference.std(axis=0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_distortions_agree_with_the_single_steps(strategy):
    X = np.random.default_rng(0).normal(size=(400, 3)) * [1, 10, 100] + [5, 0, -7]
    result = measure_increment(X, 4, nu=0.25, strategy=strategy, seed=3)
    arrived = X[np.random.default_rng(3).permutation(400)]
    base = standardize(arrived, arrived[:300])
    whole = standardize(arrived, arrived)
    start = mc.partition(base[:300], 4, method="mdav").labels
    labels = add_batch(base[:300], start, base[300:], 4, strategy=strategy, seed=3).labels
    assert result.distortion == pytest.approx(mc.distortion(whole, labels))
    at_once = mc.distortion(whole, mc.partition(whole, 4, method="mdav").labels)
    assert result.distortion_whole == pytest.approx(at_once)
    assert result.delta == pytest.approx(mc.distortion(whole, labels) / at_once - 1)


def test_times_are_relative_to_the_whole():
    result = Increment(
        "nearest",
        False,
        0.1,
        whole=10.0,
        base=8.0,
        added=0.5,
        distortion_whole=0.2,
        distortion=0.21,
    )
    assert (result.tau_base, result.tau_added) == (0.8, 0.05)
    assert result.delta == pytest.approx(0.05)


def test_delta_without_distortion():
    result = measure_increment(np.ones((40, 2)), 4, nu=0.5, strategy="nearest")
    assert result.delta == 0
    assert Increment("nearest", False, 0.1, 1.0, 1.0, 1.0, 0.0, 0.1).delta == np.inf


def test_adding_nothing_costs_nothing():
    X = np.random.default_rng(1).normal(size=(200, 2))
    assert measure_increment(X, 5, nu=0.0, strategy="nearest").delta == 0


def test_order_of_strategies_on_gaussian_points():
    X = np.random.default_rng(2).normal(size=(6000, 15))
    deltas = {
        (one.strategy, one.inertial): one.delta
        for one in measure_increments(
            X, 10, nu=[0.1], strategies=STRATEGIES, inertial=(False, True)
        )
    }
    assert len(deltas) == 10
    assert 0 < deltas["split-late", False] < deltas["separate", False] < 0.06
    assert deltas["split-late", False] <= 0.03
    assert deltas["refined", False] < 0
    assert abs(deltas["nearest", True] - deltas["nearest", False]) < 0.005


def test_nearest_alone_degrades_where_split_late_does_not():
    X = np.random.default_rng(3).normal(size=(3000, 5))
    deltas = {
        (one.strategy, one.nu): one.delta
        for one in measure_increments(X, 10, nu=[0.3, 0.9], strategies=["nearest", "split-late"])
    }
    assert deltas["nearest", 0.9] > 2 * deltas["nearest", 0.3]
    assert deltas["nearest", 0.9] > 2 * deltas["split-late", 0.9]


def test_weights_and_options_of_the_method():
    rng = np.random.default_rng(4)
    X, weights = rng.normal(size=(200, 2)), rng.integers(1, 9, size=200)
    request = {"nu": [0.2], "strategies": ["separate"], "weights": weights}
    first, second = (
        measure_increments(X, 4, method="vmdav", gamma=gamma, **request)[0] for gamma in (0.0, 1.0)
    )
    assert first.distortion_whole != second.distortion_whole
    (plain,) = measure_increments(
        X, 4, method="vmdav", gamma=0.0, nu=[0.2], strategies=["separate"]
    )
    assert plain.distortion != first.distortion


@pytest.mark.parametrize("nu", [1.0, -0.1, "half", True, np.nan])
def test_invalid_shares(nu):
    with raises(OptionError, "option.out_of_range", option="nu"):
        measure_increment(np.ones((40, 2)), 4, nu=nu)


def test_base_smaller_than_k():
    with raises(TooFewRecordsError, "guarantee.too_few_records", k=4):
        measure_increment(np.ones((40, 2)), 4, nu=0.95)


@pytest.mark.parametrize("change", [{"strategy": "best"}, {"method": "magic"}, {"inertial": 2}])
def test_invalid_strategies_and_methods(change):
    with pytest.raises(OptionError) as caught:
        measure_increment(np.ones((40, 2)), 4, nu=0.1, **change)
    assert caught.value.details["option"] in change


def test_results_as_a_frame_and_a_card():
    X = np.random.default_rng(5).normal(size=(120, 2))
    results = measure_increments(X, 4, nu=[0.1, 0.2], strategies=["nearest", "separate"])
    frame = results.to_frame()
    assert list(frame["strategy"]) == [item.strategy for item in results]
    assert list(frame["delta"]) == [item.delta for item in results]
    assert repr(results) == "<Increments 4 results of 2 strategies>"
    assert "separate, nu = 0.2" in results._repr_html_()
