"""Plans: the closed forms against numbers, the search against a plain one, plans from tables, and figures."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import microcell as mc
from microcell.errors import OptionError
from microcell.increments import Arrivals, TimeCurve, plan, planning
from microcell.increments.arrivals import CURVES
from microcell.increments.planning import tell_share, tell_time
from microcell.increments.quadratic import (
    CRITICAL_SIGMA,
    best_share,
    critical_share,
    end_of,
    gain_of,
    least_end,
    share_for,
)
from microcell.methods.increments import STRATEGIES

SIGMAS = (0.0, 0.01, 0.1, 0.2, 0.3, 0.309, 0.31, 0.35, 0.5, 1.0, 2.0, 5.0, 20.0, 1000.0)
SHARES = np.linspace(0, 1, 200_001)


def ends_by_hand(nu, sigma):
    """When it is finished, in units of the whole job's time after the data end: the base, then the rest."""
    base_ends = (1 - nu) ** 2 - sigma * nu
    return np.maximum(base_ends, 0) + nu**2


# ---------------------------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_best_share_is_the_best_on_a_grid(sigma):
    ends = ends_by_hand(SHARES, sigma)
    assert best_share(sigma) == pytest.approx(SHARES[np.argmin(ends)], abs=2e-5)
    assert least_end(sigma) == pytest.approx(ends.min(), abs=2e-5)
    assert end_of(best_share(sigma), sigma) == pytest.approx(least_end(sigma), abs=1e-12)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_at_the_critical_share_the_base_ends_with_the_data(sigma):
    nu = critical_share(sigma)
    assert (1 - nu) ** 2 == pytest.approx(sigma * nu, abs=1e-9)
    assert nu == pytest.approx((2 + sigma - math.sqrt(sigma * (4 + sigma))) / 2, abs=1e-9)
    if sigma > 1:
        assert nu == pytest.approx(1 / (2 + sigma), rel=0.1)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("part", [0.01, 0.1, 0.5, 0.9, 1.0])
def test_the_share_for_a_deadline_is_the_least_on_a_grid(sigma, part):
    end = least_end(sigma) + part * (1 - least_end(sigma))
    nu = share_for(sigma, end)
    assert end_of(nu, sigma) <= end + 1e-9
    assert nu == pytest.approx(
        SHARES[np.argmax(ends_by_hand(SHARES, sigma) <= end + 1e-9)], abs=2e-5
    )


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_share_for_the_soonest_end_is_the_best(sigma):
    assert share_for(sigma, least_end(sigma)) == pytest.approx(best_share(sigma), abs=1e-7)


def test_the_critical_sigma_joins_both_forms():
    assert pytest.approx(0.309, abs=5e-4) == CRITICAL_SIGMA
    nu = critical_share(CRITICAL_SIGMA)
    assert nu == pytest.approx((2 + CRITICAL_SIGMA) / 4)
    assert nu**2 == pytest.approx(1 - (2 + CRITICAL_SIGMA) ** 2 / 8)


@given(sigma=st.floats(0, 1e9), nu=st.floats(0, 1))
def test_gain_and_end_are_two_sides_of_one(sigma, nu):
    assert 1 - gain_of(nu, sigma) == pytest.approx(ends_by_hand(nu, sigma), abs=1e-9)
    assert end_of(nu, sigma) >= least_end(sigma) - 1e-9


@pytest.mark.parametrize(
    "call", [lambda: best_share(-1), lambda: least_end(math.inf), lambda: critical_share(math.nan)]
)
def test_a_sigma_that_is_none_is_refused(call):
    with pytest.raises(OptionError, match="sigma must be"):
        call()


@pytest.mark.parametrize("end", [0.0, 0.02, 1.1])
def test_a_deadline_that_cannot_be_met_is_refused(end):
    with pytest.raises(OptionError, match="The end must lie between"):
        share_for(5.0, end)


# ---------------------------------------------------------------------------------------------- the worked example


HOUR = 3600


def votes(**change):
    return plan(
        1_000_000, **{"collection": 10 * HOUR, "whole": 2 * HOUR, "strategy": "separate", **change}
    )


def test_the_worked_example_to_the_second():
    found = votes()
    assert found.sigma == 5
    assert tell_share(found.chosen.nu) == "14.6 %"
    assert tell_share(found.chosen.received) == "85.4 %"
    assert tell_time(found.chosen.after) == "2 min 33 s"
    assert found.gain == pytest.approx(2 * HOUR - 153, abs=0.5)


def test_the_worked_example_with_a_deadline():
    found = votes(deadline=HOUR)
    assert tell_share(found.chosen.nu) == "7.3 %"
    assert tell_share(found.chosen.received) == "92.7 %"
    assert found.meets_deadline
    assert found.chosen.after == pytest.approx(HOUR, abs=1e-3)
    assert "The deadline of 1 h after the end of the data is met." in found.advice


def test_the_worked_example_at_nine_tenths():
    tenth = next(one for one in votes().alternatives if one.nu == 0.1)
    assert tell_time(tenth.base_ends - tenth.starts) == "1 h 37 min"
    assert tell_time(tenth.head_start) == "1 h"
    assert tenth.adding == pytest.approx(72)
    assert (
        tell_time(tenth.after) == "38 min 24 s"
    )  # 37.2 minutes left of the base, 1.2 for the rest
    assert math.ceil(tenth.after / 60) == 39


# ---------------------------------------------------------------------------------------------- the search


@pytest.mark.parametrize("sigma", [0.05, 0.2, 0.31, 0.5, 1.0, 3.0, 5.0, 50.0])
def test_the_search_finds_what_the_closed_forms_say(sigma):
    found = plan(10**6, collection=sigma * 5000, whole=5000.0, strategy="separate", least_gain=0.0)
    assert found.chosen.nu == pytest.approx(
        best_share(sigma), abs=1e-3 if sigma < CRITICAL_SIGMA else 1e-6
    )
    assert found.chosen.after / 5000 == pytest.approx(least_end(sigma), abs=1e-6)
    for end in (0.55, 0.8, 0.99):
        if end > least_end(sigma):
            timed = plan(
                10**6,
                collection=sigma * 5000,
                whole=5000.0,
                strategy="separate",
                deadline=5000 * end,
            )
            assert timed.chosen.nu == pytest.approx(share_for(sigma, end), abs=1e-6)


def end_by_hand(nu, records, arrivals, curve):
    """When all is finished, by the clock: the base when its records are in, the rest when the base and the data are."""
    started = arrivals.time_of(1 - nu) if nu > 0 else arrivals.collection
    free = max(arrivals.collection, started + curve.seconds((1 - nu) * records))
    return free + curve.seconds(nu * records)


@given(
    name=st.sampled_from([*CURVES, "given"]),
    power=st.floats(0.8, 3.0),
    overhead=st.floats(0.0, 100.0),
    whole=st.floats(10.0, 10_000.0),
    collection=st.floats(1.0, 50_000.0),
    allowed=st.floats(0.05, 1.2),
)
@settings(max_examples=60, deadline=None)
def test_no_share_on_a_grid_ends_sooner_and_none_smaller_is_in_time(
    name, power, overhead, whole, collection, allowed
):
    times = (
        collection * np.sort(np.random.default_rng(7).beta(2, 3, size=500))
        if name == "given"
        else None
    )
    arrivals = Arrivals(name, collection, times)
    curve = TimeCurve(whole / 10_000**power, power, overhead)
    grid = np.linspace(0, 1 - 2 / 10_000, 701)
    ends = np.array([end_by_hand(nu, 10_000, arrivals, curve) for nu in grid])
    found = plan(10_000, arrivals=arrivals, whole=curve, strategy="separate", least_gain=0.0)
    slack = 1e-6 * curve.seconds(10_000)
    if name == "given":  # there the end jumps: a point between those of the search can be better
        slack += 2 * collection / 100
    assert found.chosen.ends <= ends.min() + slack
    assert found.chosen.ends == pytest.approx(end_by_hand(found.chosen.nu, 10_000, arrivals, curve))
    deadline = allowed * curve.seconds(10_000)
    timed = plan(10_000, arrivals=arrivals, whole=curve, strategy="separate", deadline=deadline)
    earlier = grid[ends <= collection + deadline]
    if timed.meets_deadline and len(earlier):
        assert timed.chosen.nu <= earlier.min() + (0.01 if name == "given" else 1e-6)
    if not timed.meets_deadline:
        assert ends.min() > collection + deadline - slack


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_has_a_plan(strategy):
    found = votes(strategy=strategy)
    assert 0 < found.chosen.nu <= (1 if strategy == "separate" else 0.5)
    assert found.gain > 0
    assert found.alternatives[0].nu == 0
    assert found.alternatives[0].after == found.whole == 2 * HOUR
    assert all(one.extra_distortion is not None for one in found.alternatives)
    assert found.soonest.after <= min(one.after for one in found.alternatives)


def test_a_quick_job_is_left_for_the_end():
    found = votes(whole=50.0)
    assert found.chosen.nu == 0
    assert found.advice.startswith("Wait for all records: the whole job takes 50 s")
    assert votes(whole=50.0, least_gain=0.0).chosen.nu > 0


def test_a_generous_deadline_needs_no_early_start():
    found = votes(deadline=3 * HOUR)
    assert found.chosen.nu == 0
    assert found.meets_deadline


def test_a_deadline_that_is_too_short_is_told_with_the_soonest_end():
    found = votes(deadline=60)
    assert found.meets_deadline is False
    assert found.chosen == found.soonest
    assert "cannot be met: the soonest possible end is 2 min 33 s after it." in found.advice


def test_records_that_come_late_leave_less_of_a_head_start():
    ends = {name: votes(arrivals=name).chosen.after for name in CURVES}
    assert ends["early"] < ends["uniform"] < ends["late"]


def test_a_power_below_the_square_gains_less():
    assert votes(power=1.0).gain < votes(power=2.0).gain


def test_everything_at_once_with_no_collection():
    found = plan(1000, collection=0, whole=1000.0, strategy="separate")
    assert found.chosen.nu == pytest.approx(0.5, abs=1e-3)  # two halves take half the time
    assert found.chosen.after == pytest.approx(500)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"records": 1}, "records must be"),
        ({"records": 10.5}, "records must be"),
        ({"whole": 0}, "whole must be a number of seconds above 0"),
        ({"whole": math.nan}, "whole must be"),
        ({"whole": "long"}, "whole must be"),
        ({"whole": None}, "Give either whole"),
        ({"source": {"age": [1, 2]}}, "Give either whole"),
        ({"whole": None, "source": {"age": [1, 2]}}, "needs a schema and k"),
        ({"k": 5}, "go with a source"),
        ({"method": "mdav"}, "go with a source"),
        ({"inertial": True}, "go with a source"),
        ({"power": 0}, "power must be"),
        ({"power": True}, "power must be"),
        ({"whole": TimeCurve(1, 1), "power": 2.0}, "power goes with whole"),
        ({"deadline": -1}, "deadline must be"),
        ({"least_gain": math.inf}, "least_gain must be"),
        ({"collection": None}, "collection must be"),
        ({"collection": -1}, "collection must be"),
        ({"arrivals": "often"}, "arrivals must be"),
        ({"arrivals": "given"}, "arrivals must be"),
        ({"arrivals": 5}, "arrivals must be"),
        ({"arrivals": []}, "arrivals must be"),
        ({"arrivals": ["soon"]}, "arrivals must be"),
        ({"arrivals": [1, math.nan]}, "arrivals must be"),
        ({"arrivals": [-1, 5]}, "arrivals must be"),
        ({"arrivals": [1e9]}, "after the end of the collection"),
        ({"arrivals": Arrivals("late", 5)}, "have their collection already"),
        ({"strategy": "best"}, "No strategy"),
    ],
)
def test_what_makes_no_plan_is_refused(change, words):
    given = {"records": 1000, "collection": 100, "whole": 50.0, **change}
    with pytest.raises(OptionError, match=words):
        plan(given.pop("records"), **given)


# ---------------------------------------------------------------------------------------------- from a table


@pytest.mark.parametrize("strategy", ["separate", "refined"])
def test_a_plan_from_a_table(strategy):
    people, schema = mc.sample_survey(800), mc.sample_schema()
    found = plan(
        50_000_000,
        collection=HOUR,
        source=people,
        schema=schema,
        k=5,
        strategy=strategy,
        seconds=0.3,
        least_gain=0.0,
    )
    assert found.whole > 0
    assert found.chosen.after <= found.whole
    assert found.error > 0
    assert "samples of the table" in found.basis
    assert len(found.alternatives) == (11 if strategy == "separate" else 9)


@pytest.mark.parametrize(
    ("available", "records", "words"),
    [(800, 10**6, "a larger table"), (10**6, 10**6, "more seconds"), (800, 800, "")],
)
def test_it_says_so_where_times_are_known_of_far_fewer_records(available, records, words):
    told = planning._tell_basis(700, available, records)
    assert "up to 700 records" in told
    assert words in told
    assert ("far more" in told) == bool(words)


@pytest.mark.parametrize(
    ("error", "words"),
    [(0.25, "may be off by 25.0 %."), (9.0, "may be 10 times as long."), (0.0, "all at once has.")],
)
def test_how_far_times_may_be_off_is_told(error, words):
    assert dataclasses.replace(votes(), error=error).advice.endswith(words)


def test_a_table_too_small_to_time_is_refused():
    table = {"age": list(range(30)), "income": list(range(30))}
    with pytest.raises(OptionError, match="too few to find out how the time grows"):
        plan(
            1000,
            collection=10,
            source=table,
            schema=mc.Schema(quasi=["age"], confidential=["income"]),
            k=5,
        )


def test_options_of_the_method_are_checked_before_anything_runs():
    with pytest.raises(OptionError, match="has no option"):
        plan(1000, collection=10, source={}, schema=mc.sample_schema(), k=5, options={"gamma": 1})


# ---------------------------------------------------------------------------------------------- words and figures


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.26, "0.3 s"),
        (9.99, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3599.6, "1 h"),
        (5832, "1 h 37 min"),
        (86_390, "1 d"),
        (100_000, "1 d 4 h"),
    ],
)
def test_times_in_words(seconds, words):
    assert tell_time(seconds) == words


@pytest.mark.parametrize("form", ["svg", "png", "pdf"])
def test_a_plan_is_drawn(form):
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[form]
    assert mc.plot.plan(votes(deadline=HOUR), format=form).startswith(start)


def test_the_figure_names_what_it_shows():
    text = mc.plot.plan(votes(deadline=HOUR)).decode()
    for words in (
        "92.7 % received",
        "end of collection",
        "deadline",
        "adding the rest",
        "Hours since",
    ):
        assert words in text
    assert "adding the rest" not in mc.plot.plan(votes(whole=5.0, collection=30.0)).decode()
    assert mc.plot.plan(votes()) == mc.plot.plan(votes())


def test_a_figure_form_that_is_none_is_refused():
    with pytest.raises(OptionError, match="figure format"):
        mc.plot.plan(votes(), format="gif")
