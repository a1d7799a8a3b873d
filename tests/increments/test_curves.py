"""Curves of arrivals and of times, and how the latter are result."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.errors import OptionError
from microcell.increments import Arrivals, calibrate
from microcell.increments.arrivals import CURVES, as_arrivals
from microcell.increments.timing import fit_curve, power_curve
from tests.raising import raises

# ---------------------------------------------------------------------------------------- arrivals


@pytest.mark.parametrize("name", CURVES)
@given(share=st.floats(0, 1))
def test_named_curves_have_inverses(name, share):
    arrivals = Arrivals(name, 50.0)
    assert arrivals.share_by(arrivals.time_of(share)) == pytest.approx(share, abs=1e-9)
    assert (
        arrivals.share_by(-1),
        arrivals.share_by(0),
        arrivals.share_by(50),
        arrivals.share_by(99),
    ) == (0, 0, 1, 1)


@given(times=st.lists(st.integers(0, 20), min_size=1, max_size=30), share=st.floats(0, 1))
def test_observed_times(times, share):
    arrivals = as_arrivals(times, None)
    assert arrivals.collection == max(times)
    for second in range(-1, 22):
        assert arrivals.share_by(second) == sum(time <= second for time in times) / len(times)
    time = arrivals.time_of(share)
    assert arrivals.share_by(time) >= share - 1e-9
    if share > 0 and time > 0:
        assert arrivals.share_by(time - 1) < share + 1e-9


def test_collection_may_be_longer_than_the_observed_times():
    assert as_arrivals([1, 2], 10).collection == 10
    assert Arrivals("late", 0.0).share_by(0) == 1


# ------------------------------------------------------------------------------------- time curves


class Clock:
    """Job with a known time that records the sizes it was run on."""

    def __init__(self, seconds):
        self.seconds, self.sizes = seconds, []

    def __call__(self, size):
        self.sizes.append(size)
        return self.seconds(size)


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0, 3.0])
def test_calibration_finds_the_power(power):
    clock = Clock(lambda n: 1e-4 * (n / 500) ** power)
    curve = calibrate(clock, 10**6, seconds=5.0)
    assert curve.b == pytest.approx(power, abs=1e-6)
    assert curve.seconds(10**6) == pytest.approx(clock.seconds(10**6), rel=1e-4)
    assert curve.error < 1e-6
    assert sum(map(clock.seconds, clock.sizes)) < 5.0
    assert max(clock.sizes) > 4000


def test_calibration_finds_a_constant_part():
    curve = calibrate(lambda n: 0.05 + 1e-9 * n**2, 10**6, seconds=20.0)
    assert curve.c > 0
    assert curve.seconds(10**6) == pytest.approx(1000, rel=0.1)


def test_power_is_at_least_one():
    curve = fit_curve([55, 110, 220], [1.0e-3, 1.05e-3, 1.2e-3])
    assert curve.b == 1
    assert curve.seconds(10**6) > 1


def test_noise_gives_an_error_that_grows_with_the_distance():
    rng = np.random.default_rng(0)
    curve = calibrate(lambda n: 1e-8 * n**2 * rng.lognormal(0, 0.2), 10**6, seconds=5.0)
    assert 0 < curve.error < 0.6
    assert curve.error_at(10**4) < curve.error_at(10**6)
    assert curve.seconds(10**6) == pytest.approx(10**4, rel=3 * curve.error_at(10**6))


def test_sizes_of_small_tables_and_slow_methods():
    small = Clock(lambda n: 1e-6 * n)
    assert max(calibrate(small, 1600).sizes) == max(small.sizes) == 1600
    slow = Clock(lambda n: 10.0 * n)
    assert len(calibrate(slow, 10**6, seconds=1.0).sizes) == 3
    assert min(calibrate(Clock(lambda n: n), 400, min_size=100).sizes) == 100


def test_calibration_reports_its_progress():
    reports = []
    with mc.listen(lambda task, done, total: reports.append((task, done <= total))):
        calibrate(lambda n: 1e-6 * n, 10**5)
    assert set(reports) == {("measuring times on samples", True)}


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: calibrate(float, 39, min_size=10), "option.out_of_range"),
        (lambda: calibrate(float, 1000, seconds=0), "option.out_of_range"),
        (lambda: fit_curve([1, 2], [1.0, 2.0]), "option.invalid"),
        (lambda: fit_curve([1, 2, 3], [1.0, 0.0, 2.0]), "option.invalid"),
    ],
)
def test_invalid_calibrations(call, code):
    with raises(OptionError, code):
        call()


def test_curve_through_one_time():
    curve = power_curve(100, 50.0)
    assert (curve.seconds(100), curve.seconds(200), curve.seconds(0)) == (50.0, 200.0, 0.0)
    assert curve.error_at(10**9) == 0
