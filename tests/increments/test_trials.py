"""What measuring an increment gives: the definitions, and the order of the strategies on Gaussian points."""

import numpy as np
import pytest

import microcell as mc
from microcell.errors import OptionError, TooFewRecordsError
from microcell.increments.trials import Increment, measure_increment, measure_increments
from microcell.methods.increments import STRATEGIES, add_batch


def scaled(X, by):
    return (X - by.mean(axis=0)) / by.std(axis=0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_distortions_are_those_of_the_steps_done_by_hand(strategy):
    X = np.random.default_rng(0).normal(size=(400, 3)) * [1, 10, 100] + [5, 0, -7]
    found = measure_increment(X, 4, nu=0.25, strategy=strategy, seed=3)
    arrived = X[np.random.default_rng(3).permutation(400)]
    base = scaled(arrived, arrived[:300])  # by the means and deviations of what was there
    whole = scaled(arrived, arrived)
    start = mc.partition(base[:300], 4, method="mdav").labels
    labels = add_batch(base[:300], start, base[300:], 4, strategy=strategy, seed=3).labels
    assert found.distortion == pytest.approx(mc.distortion(whole, labels))
    at_once = mc.distortion(whole, mc.partition(whole, 4, method="mdav").labels)
    assert found.distortion_whole == pytest.approx(at_once)
    assert found.delta == pytest.approx(mc.distortion(whole, labels) / at_once - 1)


def test_times_are_in_units_of_the_whole():
    found = Increment(
        "nearest",
        False,
        0.1,
        whole=10.0,
        base=8.0,
        added=0.5,
        distortion_whole=0.2,
        distortion=0.21,
    )
    assert (found.tau_base, found.tau_added) == (0.8, 0.05)
    assert found.delta == pytest.approx(0.05)


def test_where_nothing_is_lost_nothing_is_added():
    found = measure_increment(np.ones((40, 2)), 4, nu=0.5, strategy="nearest")
    assert found.delta == 0
    assert Increment("nearest", False, 0.1, 1.0, 1.0, 1.0, 0.0, 0.1).delta == np.inf


def test_nothing_added_loses_nothing():
    X = np.random.default_rng(1).normal(size=(200, 2))
    assert measure_increment(X, 5, nu=0.0, strategy="nearest").delta == 0


def test_strategies_in_their_order_on_gaussian_points():
    X = np.random.default_rng(2).normal(size=(6000, 15))
    found = {
        (one.strategy, one.inertial): one.delta
        for one in measure_increments(
            X, 10, nu=[0.1], strategies=STRATEGIES, inertial=(False, True)
        )
    }
    assert len(found) == 10
    assert 0 < found["split-late", False] < found["separate", False] < 0.06
    assert found["split-late", False] <= 0.03
    assert found["refined", False] < 0
    assert (
        abs(found["nearest", True] - found["nearest", False]) < 0.005
    )  # inertia makes little difference


def test_nearest_alone_degrades_where_split_late_does_not():
    X = np.random.default_rng(3).normal(size=(3000, 5))
    found = {
        (one.strategy, one.nu): one.delta
        for one in measure_increments(X, 10, nu=[0.3, 0.9], strategies=["nearest", "split-late"])
    }
    assert found["nearest", 0.9] > 2 * found["nearest", 0.3]
    assert found["nearest", 0.9] > 2 * found["split-late", 0.9]


def test_weights_and_options_go_to_the_method():
    rng = np.random.default_rng(4)
    X, weights = rng.normal(size=(200, 2)), rng.integers(1, 9, size=200)
    ways = {"nu": [0.2], "strategies": ["separate"], "weights": weights}
    first, second = (
        next(measure_increments(X, 4, method="vmdav", gamma=gamma, **ways)) for gamma in (0.0, 1.0)
    )
    assert first.distortion_whole != second.distortion_whole
    plain = next(
        measure_increments(X, 4, method="vmdav", gamma=0.0, nu=[0.2], strategies=["separate"])
    )
    assert plain.distortion != first.distortion


@pytest.mark.parametrize("nu", [1.0, -0.1, "half", True, np.nan])
def test_shares_that_are_none_are_refused(nu):
    with pytest.raises(OptionError, match="nu must be a share"):
        measure_increment(np.ones((40, 2)), 4, nu=nu)


def test_a_base_of_fewer_than_k_is_refused():
    with pytest.raises(TooFewRecordsError, match="fewer than k = 4"):
        measure_increment(np.ones((40, 2)), 4, nu=0.95)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"strategy": "best"}, "No strategy"),
        ({"method": "magic"}, "No method"),
        ({"inertial": 2}, "inertial must be"),
    ],
)
def test_unknown_ways_are_refused(change, words):
    with pytest.raises(OptionError, match=words):
        measure_increment(np.ones((40, 2)), 4, nu=0.1, **change)
