"""The verdict in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import OptionError
from microcell.report.contents import reach, trim_audit
from tests.raising import raises
from tests.report.examples import example, full


def verdict(audit, **limits):
    return reach(audit, limits, audit)


@pytest.mark.parametrize(
    "limits, sentence",
    [
        ({}, "No requirement was given."),
        ({"k": 5}, "The requirement is met."),
        ({"k": 5, "distortion": 1}, "Both requirements are met."),
        ({"k": 5, "distortion": 1, "classes": 2}, "All 3 requirements are met."),
        ({"k": 6}, "1 of 1 requirement is missed."),
        ({"k": 6, "distortion": 0, "classes": 2}, "2 of 3 requirements are missed."),
    ],
)
def test_the_sentence(limits, sentence):
    assert verdict(example(), **limits).sentence == sentence


@pytest.mark.parametrize(
    "name, limit, words",
    [
        ("k", 5, "met, just"),
        ("k", 3, "met, 2 to spare"),
        ("k", 8, "missed by 3"),
        ("distortion", 0.0625, "met, just"),
        ("distortion", 0.1, "met, 0.0375 to spare"),
        ("distortion", 0.06, "missed by 0.0025"),
    ],
)
def test_by_how_much(name, limit, words):
    (found,) = verdict(example(), **{name: limit}).asked
    assert found.words == words
    assert found.sign == ("✗" if "missed" in words else "✓")
    assert found.required == f"{'at least' if name == 'k' else 'at most'} {limit:g}"


def test_faults_come_after_what_was_asked_for():
    found = verdict(example(left=1, strange=3), k=5)
    assert [item.measure.name for item in found.rows] == [
        "k",
        "identifiers_left",
        "records_unaccounted",
    ]
    assert found.clean == ""
    assert not found.met


def test_a_limit_for_what_must_be_0_is_told_once():
    found = verdict(example(), identifiers_left=0)
    assert [item.measure.name for item in found.rows] == ["identifiers_left"]
    assert "identifiers" not in found.clean


def test_what_was_not_measured_is_refused():
    with raises(OptionError, "option.unknown", measure="l_diversity"):
        verdict(example(), l_diversity=2)


@given(st.floats(0.01, 1, allow_nan=False))
def test_rounding_does_not_turn_the_verdict(limit):
    """The public sees two digits of the value, and the verdict on all of them."""
    audit = full()
    shown = reach(audit, {"task_loss": limit}, trim_audit(audit))
    assert shown.met == (audit["task_loss"] <= limit)
    assert shown.asked[0].words.startswith("met" if shown.met else "missed")
    assert shown.asked[0].measure.value == 0.033


def test_rounding_across_the_limit_tells_no_distance():
    """0.03303 is shown as 0.033, and is more than 0.03301: 0.033 does not miss that by anything."""
    audit = full()
    value = audit["task_loss"]
    between = (value + 0.033) / 2
    (found,) = reach(audit, {"task_loss": between}, trim_audit(audit)).asked
    assert value > between > found.measure.value
    assert (found.met, found.words) == (False, "missed, by less than is shown")


def test_a_near_miss_that_rounding_hides_is_a_miss():
    audit = full()
    (found,) = reach(audit, {"task_loss": 0.033}, trim_audit(audit)).asked
    assert (found.met, found.words) == (False, "missed, by less than is shown")
