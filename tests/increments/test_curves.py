"""Curves of arrivals and of times, and how the latter are found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.errors import OptionError
from microcell.increments import Arrivals, calibrate
from microcell.increments.arrivals import CURVES, as_arrivals, fit_curve, power_curve

# ---------------------------------------------------------------------------------------------- arrivals


@pytest.mark.parametrize("name", CURVES)
@given(share=st.floats(0, 1))
def test_named_curves_and_their_inverses(name, share):
    arrivals = Arrivals(name, 50.0)
    assert arrivals.share_by(arrivals.time_of(share)) == pytest.approx(share, abs=1e-9)
    assert (
        arrivals.share_by(-1),
        arrivals.share_by(0),
        arrivals.share_by(50),
        arrivals.share_by(99),
    ) == (0, 0, 1, 1)


@given(times=st.lists(st.integers(0, 20), min_size=1, max_size=30), share=st.floats(0, 1))
def test_given_times_are_counted(times, share):
    arrivals = as_arrivals(times, None)
    assert arrivals.collection == max(times)
    for second in range(-1, 22):
        assert arrivals.share_by(second) == sum(time <= second for time in times) / len(times)
    by = arrivals.time_of(share)
    assert arrivals.share_by(by) >= share - 1e-9
    if share > 0 and by > 0:
        assert arrivals.share_by(by - 1) < share + 1e-9


def test_a_collection_may_go_on_after_the_last_known_time():
    assert as_arrivals([1, 2], 10).collection == 10
    assert Arrivals("late", 0.0).share_by(0) == 1


# ---------------------------------------------------------------------------------------------- time curves


class Clock:
    """A job whose time is known; it remembers the sizes it was run on."""

    def __init__(self, seconds):
        self.seconds, self.sizes = seconds, []

    def __call__(self, size):
        self.sizes.append(size)
        return self.seconds(size)


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0, 3.0])
def test_calibration_finds_the_power_and_extrapolates(power):
    clock = Clock(lambda n: 1e-4 * (n / 500) ** power)
    curve = calibrate(clock, 10**6, seconds=5.0)
    assert curve.b == pytest.approx(power, abs=1e-6)
    assert curve.seconds(10**6) == pytest.approx(clock.seconds(10**6), rel=1e-4)
    assert curve.error < 1e-6
    assert sum(map(clock.seconds, clock.sizes)) < 5.0
    assert max(clock.sizes) > 4000


def test_a_constant_part_is_told_from_the_growing_one():
    curve = calibrate(lambda n: 0.05 + 1e-9 * n**2, 10**6, seconds=20.0)
    assert curve.c > 0
    assert curve.seconds(10**6) == pytest.approx(1000, rel=0.1)


def test_times_that_hardly_grow_on_small_samples_are_not_taken_to_stay_so():
    curve = fit_curve([55, 110, 220], [1.0e-3, 1.05e-3, 1.2e-3])
    assert curve.b == 1
    assert curve.seconds(10**6) > 1


def test_noise_shows_as_an_error_that_grows_with_the_distance():
    rng = np.random.default_rng(0)
    curve = calibrate(lambda n: 1e-8 * n**2 * rng.lognormal(0, 0.2), 10**6, seconds=5.0)
    assert 0 < curve.error < 0.6
    assert curve.error_at(10**4) < curve.error_at(10**6)
    assert curve.seconds(10**6) == pytest.approx(10**4, rel=3 * curve.error_at(10**6))


def test_calibration_takes_all_records_of_a_small_table_and_three_sizes_of_a_slow_method():
    small = Clock(lambda n: 1e-6 * n)
    assert max(calibrate(small, 1600).sizes) == max(small.sizes) == 1600
    slow = Clock(lambda n: 10.0 * n)
    assert len(calibrate(slow, 10**6, seconds=1.0).sizes) == 3
    assert min(calibrate(Clock(lambda n: n), 400, least=100).sizes) == 100


def test_calibration_reports_its_progress():
    told = []
    with mc.listen(lambda task, done, total: told.append((task, done <= total))):
        calibrate(lambda n: 1e-6 * n, 10**5)
    assert set(told) == {("timing on samples", True)}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: calibrate(float, 39, least=10), "too few to find out"),
        (lambda: calibrate(float, 1000, seconds=0), "above 0"),
        (lambda: fit_curve([1, 2], [1.0, 2.0]), "three sizes"),
        (lambda: fit_curve([1, 2, 3], [1.0, 0.0, 2.0]), "above 0"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(call, words):
    with pytest.raises(OptionError, match=words):
        call()


def test_a_curve_through_one_time():
    curve = power_curve(100, 50.0)
    assert (curve.seconds(100), curve.seconds(200), curve.seconds(0)) == (50.0, 200.0, 0.0)
    assert curve.error_at(10**9) == 0
