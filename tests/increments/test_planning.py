"""Plans: closed forms, the search against a grid, plans from tables, wording and figures."""

import dataclasses
import inspect
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.errors import OptionError
from microcell.increments import Arrivals, TimeCurve, plan, planning
from microcell.increments.arrivals import CURVES
from microcell.increments.planning import format_duration, format_share
from microcell.methods.increments import STRATEGIES
from tests.increments.closed_forms import (
    CRITICAL_SIGMA,
    best_share,
    critical_share,
    earliest_end,
    end_of,
    share_for,
)
from tests.raising import raises

SIGMAS = (0.0, 0.01, 0.1, 0.2, 0.3, 0.309, 0.31, 0.35, 0.5, 1.0, 2.0, 5.0, 20.0, 1000.0)
SHARES = np.linspace(0, 1, 200_001)


def ends_by_hand(nu, sigma):
    """Return the end after the collection, relative to the whole job: the base, then the rest."""
    base_ends = (1 - nu) ** 2 - sigma * nu
    return np.maximum(base_ends, 0) + nu**2


# ------------------------------------------------------------------------------------- closed forms


def test_best_share_is_the_best_on_a_grid():
    for sigma in SIGMAS:
        ends = ends_by_hand(SHARES, sigma)
        assert best_share(sigma) == pytest.approx(SHARES[np.argmin(ends)], abs=2e-5)
        assert earliest_end(sigma) == pytest.approx(ends.min(), abs=2e-5)
        assert end_of(best_share(sigma), sigma) == pytest.approx(earliest_end(sigma), abs=1e-12)


def test_critical_share_ends_the_base_with_the_collection():
    for sigma in SIGMAS:
        nu = critical_share(sigma)
        assert (1 - nu) ** 2 == pytest.approx(sigma * nu, abs=1e-9)
        assert nu == pytest.approx((2 + sigma - math.sqrt(sigma * (4 + sigma))) / 2, abs=1e-9)
        if sigma > 1:
            assert nu == pytest.approx(1 / (2 + sigma), rel=0.1)


def test_share_for_a_deadline_is_the_smallest_on_a_grid():
    for sigma in SIGMAS:
        for part in (0.01, 0.1, 0.5, 0.9, 1.0):
            end = earliest_end(sigma) + part * (1 - earliest_end(sigma))
            nu = share_for(sigma, end)
            assert end_of(nu, sigma) <= end + 1e-9
            assert nu == pytest.approx(
                SHARES[np.argmax(ends_by_hand(SHARES, sigma) <= end + 1e-9)], abs=2e-5
            )


def test_share_for_the_earliest_end_is_the_best():
    for sigma in SIGMAS:
        assert share_for(sigma, earliest_end(sigma)) == pytest.approx(best_share(sigma), abs=1e-7)


def test_both_forms_meet_at_the_critical_sigma():
    assert pytest.approx(0.309, abs=5e-4) == CRITICAL_SIGMA
    nu = critical_share(CRITICAL_SIGMA)
    assert nu == pytest.approx((2 + CRITICAL_SIGMA) / 4)
    assert nu**2 == pytest.approx(1 - (2 + CRITICAL_SIGMA) ** 2 / 8)


@given(sigma=st.floats(0, 1e9), nu=st.floats(0, 1))
def test_end_of_a_share(sigma, nu):
    assert end_of(nu, sigma) == pytest.approx(ends_by_hand(nu, sigma), abs=1e-9)
    assert end_of(nu, sigma) >= earliest_end(sigma) - 1e-9


# ---------------------------------------------------------------------- worked example of the paper


HOUR = 3600


def votes(**change):
    return plan(
        1_000_000, **{"collection": 10 * HOUR, "whole": 2 * HOUR, "strategy": "separate", **change}
    )


def test_worked_example():
    result = votes()
    assert result.sigma == 5
    assert format_share(result.chosen.nu) == "14.6 %"
    assert format_share(result.chosen.received) == "85.4 %"
    assert format_duration(result.chosen.after) == "2 min 33 s"
    assert result.gain == pytest.approx(2 * HOUR - 153, abs=0.5)


def test_worked_example_with_a_deadline():
    result = votes(deadline=HOUR)
    assert format_share(result.chosen.nu) == "7.3 %"
    assert format_share(result.chosen.received) == "92.7 %"
    assert result.meets_deadline
    assert result.chosen.after == pytest.approx(HOUR, abs=1e-3)
    assert "The deadline of 1 h after the collection is met." in result.advice


def test_worked_example_at_nine_tenths():
    tenth = next(one for one in votes().alternatives if one.nu == 0.1)
    assert format_duration(tenth.base_ends - tenth.starts) == "1 h 37 min"
    assert format_duration(tenth.head_start) == "1 h"
    assert tenth.adding == pytest.approx(72)
    # 37.2 minutes are left of the base, and the rest takes 1.2.
    assert format_duration(tenth.after) == "38 min 24 s"
    assert math.ceil(tenth.after / 60) == 39


# ------------------------------------------------------------------------------------------- search


@pytest.mark.parametrize("sigma", [0.05, 0.2, 0.31, 0.5, 1.0, 3.0, 5.0, 50.0])
def test_search_agrees_with_the_closed_forms(sigma):
    result = plan(10**6, collection=sigma * 5000, whole=5000.0, strategy="separate", min_gain=0.0)
    assert result.chosen.nu == pytest.approx(
        best_share(sigma), abs=1e-3 if sigma < CRITICAL_SIGMA else 1e-6
    )
    assert result.chosen.after / 5000 == pytest.approx(earliest_end(sigma), abs=1e-6)
    for end in (0.55, 0.8, 0.99):
        if end > earliest_end(sigma):
            timed = plan(
                10**6,
                collection=sigma * 5000,
                whole=5000.0,
                strategy="separate",
                deadline=5000 * end,
            )
            assert timed.chosen.nu == pytest.approx(share_for(sigma, end), abs=1e-6)


def end_by_hand(nu, records, arrivals, curve):
    """Return when everything is finished: the rest starts after both base and collection."""
    started = arrivals.time_of(1 - nu) if nu > 0 else arrivals.collection
    free = max(arrivals.collection, started + curve.seconds((1 - nu) * records))
    return free + curve.seconds(nu * records)


@given(
    name=st.sampled_from([*CURVES, "observed"]),
    power=st.floats(0.8, 3.0),
    overhead=st.floats(0.0, 100.0),
    whole=st.floats(10.0, 10_000.0),
    collection=st.floats(1.0, 50_000.0),
    allowed=st.floats(0.05, 1.2),
)
def test_search_against_a_grid(name, power, overhead, whole, collection, allowed):
    times = (
        collection * np.sort(np.random.default_rng(7).beta(2, 3, size=500))
        if name == "observed"
        else None
    )
    arrivals = Arrivals(name, collection, times)
    curve = TimeCurve(whole / 10_000**power, power, overhead)
    grid = np.linspace(0, 1 - 2 / 10_000, 701)
    ends = np.array([end_by_hand(nu, 10_000, arrivals, curve) for nu in grid])
    result = plan(10_000, arrivals=arrivals, whole=curve, strategy="separate", min_gain=0.0)
    slack = 1e-6 * curve.seconds(10_000)
    if name == "observed":  # The end jumps at records, so a point off the grid may be better.
        slack += 2 * collection / 100
    assert result.chosen.ends <= ends.min() + slack
    assert result.chosen.ends == pytest.approx(
        end_by_hand(result.chosen.nu, 10_000, arrivals, curve)
    )
    deadline = allowed * curve.seconds(10_000)
    timed = plan(10_000, arrivals=arrivals, whole=curve, strategy="separate", deadline=deadline)
    earlier = grid[ends <= collection + deadline]
    if timed.meets_deadline and len(earlier):
        assert timed.chosen.nu <= earlier.min() + (0.01 if name == "observed" else 1e-6)
    if not timed.meets_deadline:
        assert ends.min() > collection + deadline - slack


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_has_a_plan(strategy):
    result = votes(strategy=strategy)
    assert 0 < result.chosen.nu <= (1 if strategy == "separate" else 0.5)
    assert result.gain > 0
    assert result.alternatives[0].nu == 0
    assert result.alternatives[0].after == result.whole == 2 * HOUR
    assert all(one.extra_distortion is not None for one in result.alternatives)
    assert result.soonest.after <= min(one.after for one in result.alternatives)


def test_quick_jobs_wait_for_all_records():
    result = votes(whole=50.0)
    assert result.chosen.nu == 0
    assert result.advice.startswith("Wait for all records: the whole job takes 50 s")
    assert votes(whole=50.0, min_gain=0.0).chosen.nu > 0


def test_generous_deadline():
    result = votes(deadline=3 * HOUR)
    assert result.chosen.nu == 0
    assert result.meets_deadline


def test_impossible_deadline():
    result = votes(deadline=60)
    assert result.meets_deadline is False
    assert result.chosen == result.soonest
    assert "cannot be met: the earliest possible end is 2 min 33 s after it." in result.advice


def test_late_arrivals_leave_less_of_a_head_start():
    ends = {name: votes(arrivals=name).chosen.after for name in CURVES}
    assert ends["early"] < ends["uniform"] < ends["late"]


def test_smaller_powers_gain_less():
    assert votes(power=1.0).gain < votes(power=2.0).gain


def test_collection_of_zero_seconds():
    result = plan(1000, collection=0, whole=1000.0, strategy="separate")
    assert result.chosen.nu == pytest.approx(0.5, abs=1e-3)  # Two halves take half the time.
    assert result.chosen.after == pytest.approx(500)


@pytest.mark.parametrize(
    ("change", "code", "option"),
    [
        ({"records": 1}, "option.out_of_range", "records"),
        ({"records": 10.5}, "option.out_of_range", "records"),
        ({"whole": 0}, "option.out_of_range", "whole"),
        ({"whole": math.nan}, "option.out_of_range", "whole"),
        ({"whole": "long"}, "option.out_of_range", "whole"),
        ({"whole": None}, "option.conflict", "whole"),
        ({"source": {"age": [1, 2]}}, "option.conflict", "whole"),
        ({"whole": None, "source": {"age": [1, 2]}}, "option.missing", "source"),
        ({"k": 5}, "option.conflict", "whole"),
        ({"method": "mdav"}, "option.conflict", "whole"),
        ({"inertial": True}, "option.conflict", "whole"),
        ({"power": 0}, "option.out_of_range", "power"),
        ({"power": True}, "option.out_of_range", "power"),
        ({"whole": TimeCurve(1, 1), "power": 2.0}, "option.conflict", "power"),
        ({"deadline": -1}, "option.out_of_range", "deadline"),
        ({"min_gain": math.inf}, "option.out_of_range", "min_gain"),
        ({"collection": None}, "option.missing", "collection"),
        ({"collection": -1}, "option.out_of_range", "collection"),
        ({"arrivals": "often"}, "option.unknown", "arrivals"),
        ({"arrivals": "observed"}, "option.unknown", "arrivals"),
        ({"arrivals": 5}, "option.invalid", "arrivals"),
        ({"arrivals": []}, "option.invalid", "arrivals"),
        ({"arrivals": ["soon"]}, "option.invalid", "arrivals"),
        ({"arrivals": [1, math.nan]}, "option.invalid", "arrivals"),
        ({"arrivals": [-1, 5]}, "option.invalid", "arrivals"),
        ({"arrivals": [1e9]}, "option.out_of_range", "collection"),
        ({"arrivals": Arrivals("late", 5)}, "option.conflict", "collection"),
    ],
)
def test_invalid_options(change, code, option):
    request = {"records": 1000, "collection": 100, "whole": 50.0, **change}
    with raises(OptionError, code, option=option):
        plan(request.pop("records"), **request)


def test_unknown_strategy():
    with raises(OptionError, "option.unknown", option="strategy"):
        plan(1000, collection=100, whole=50.0, strategy="best")


def test_plan_as_dict_and_repr():
    result = votes(deadline=HOUR)
    data = result.as_dict()
    assert data["chosen"]["after"] == result.chosen.after
    assert len(data["alternatives"]) == len(result.alternatives)
    assert len(repr(result)) < 200


# ------------------------------------------------------------------------------- plans from a table


@pytest.mark.parametrize("strategy", ["separate", "refined"])
def test_plan_from_a_table(strategy):
    people, schema = mc.sample_survey(800), mc.sample_schema()
    result = plan(
        50_000_000,
        collection=HOUR,
        source=people,
        schema=schema,
        k=5,
        strategy=strategy,
        seconds=0.3,
        min_gain=0.0,
    )
    assert result.whole > 0
    assert result.chosen.after <= result.whole
    assert result.error > 0
    assert "samples of the table" in result.basis
    assert len(result.alternatives) == (11 if strategy == "separate" else 9)


@pytest.mark.parametrize(
    ("available", "records", "remedy"),
    [(800, 10**6, "a larger table"), (10**6, 10**6, "a longer measurement"), (800, 800, "")],
)
def test_basis_warns_about_extrapolation(available, records, remedy):
    basis = planning._describe_basis(700, available, records)
    assert "up to 700 records" in basis
    assert remedy in basis
    assert ("rough estimates" in basis) == bool(remedy)


@pytest.mark.parametrize(
    ("error", "ending"),
    [(0.25, "may be off by 25.0 %."), (9.0, "may be 10 times as long."), (0.0, "at once.")],
)
def test_advice_mentions_the_error(error, ending):
    assert dataclasses.replace(votes(), error=error).advice.endswith(ending)


def test_table_too_small_to_measure():
    table = {"age": list(range(30)), "income": list(range(30))}
    with raises(OptionError, "option.out_of_range", option="records"):
        plan(
            1000,
            collection=10,
            source=table,
            schema=mc.Schema(quasi=["age"], confidential=["income"]),
            k=5,
        )


def test_options_of_the_method_are_checked_first():
    with raises(OptionError, "option.unsupported", option="gamma", method="mdav"):
        settings = {"schema": mc.sample_schema(), "method": "mdav", "options": {"gamma": 1}}
        plan(1000, collection=10, source={}, k=5, **settings)


# ------------------------------------------------------------------------------ wording and figures


@pytest.mark.parametrize(
    ("seconds", "text"),
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
def test_durations_as_text(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize("format", ["svg", "png", "pdf"])
def test_figure_formats(format):
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[format]
    assert mc.plot.plan(votes(deadline=HOUR), format=format).startswith(start)


def test_figure_labels():
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


def test_unknown_figure_format():
    with raises(OptionError, "option.unknown", option="format"):
        mc.plot.plan(votes(), format="gif")


def test_a_deadline_equal_to_the_displayed_end_is_met():
    soonest = votes().soonest.after
    for allowed in (soonest, round(soonest), round(soonest, 3)):
        result = votes(deadline=allowed)
        assert result.meets_deadline, allowed
        assert "is met" in result.advice
    long = plan(1_000_000, collection=100 * HOUR, whole=90 * HOUR, strategy="separate")
    shown = plan(
        1_000_000, collection=100 * HOUR, whole=90 * HOUR, strategy="separate", deadline=1
    ).advice
    assert format_duration(long.soonest.after, up=True) in shown


def test_the_plan_says_that_the_time_of_adding_is_unknown():
    refined = plan(10_000, collection=HOUR, whole=600, strategy="refined")
    assert "table" in refined.assumption
    assert refined.assumption in refined.advice
    assert votes().assumption == ""


def test_the_plan_measures_the_method_of_sessions(monkeypatch):
    jobs = []
    forecast = planning.forecast_from_time(10_000, 600.0, 2.0, "refined")
    monkeypatch.setattr(planning, "_measure", lambda *given: jobs.append(given[3]) or forecast)
    plan(10_000, collection=HOUR, source={"x": [1]}, schema=mc.Schema(quasi=["x"]), k=2)
    start_default = inspect.signature(mc.increments.start).parameters["method"].default
    add_default = inspect.signature(mc.increments.Session.add).parameters["strategy"].default
    assert [(job.method, job.strategy) for job in jobs] == [(start_default, add_default)]
