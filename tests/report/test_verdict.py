"""The verdict on requirements and basic checks, in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import OptionError
from microcell.report.contents import reach_verdict, trim_audit
from tests.raising import raises
from tests.report.examples import example, full


def verdict(audit, **limits):
    return reach_verdict(audit, limits, audit)


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({}, "No requirements were set."),
        ({"k": 5}, "The requirement is met."),
        ({"k": 5, "information_loss": 1}, "Both requirements are met."),
        ({"k": 5, "information_loss": 1, "classes": 2}, "All 3 requirements are met."),
        ({"k": 6}, "The requirement is not met."),
        ({"k": 6, "information_loss": 0}, "Neither requirement is met."),
        ({"k": 6, "information_loss": 0, "classes": 1000}, "None of the 3 requirements is met."),
        ({"k": 6, "information_loss": 1}, "1 of 2 requirements is not met."),
        ({"k": 6, "information_loss": 0, "classes": 2}, "2 of 3 requirements are not met."),
    ],
)
def test_the_sentence(limits, sentence):
    assert verdict(example(), **limits).sentence == sentence


@pytest.mark.parametrize(
    ("name", "limit", "required", "outcome"),
    [
        ("k", 5, "at least 5", "met (exactly at the limit)"),
        ("k", 3, "at least 3", "met by 2"),
        ("k", 8, "at least 8", "missed by 3"),
        ("information_loss", 0.0625, "at most 6.25 %", "met (exactly at the limit)"),
        ("information_loss", 0.1, "at most 10 %", "met by 3.75 percentage points"),
        ("information_loss", 0.06, "at most 6 %", "missed by 0.25 percentage points"),
    ],
)
def test_by_how_much_a_limit_is_met_or_missed(name, limit, required, outcome):
    (finding,) = verdict(example(), **{name: limit}).requirements
    assert finding.outcome == outcome
    assert finding.sign == ("✗" if "missed" in outcome else "✓")
    assert finding.required == required


def test_failed_basic_checks_follow_the_requirements():
    result = verdict(example(left=1, unaccounted=3), k=5)
    names = [item.measure.name for item in result.rows]
    assert names[0] == "k"
    assert set(names[1:]) == {"identifiers_left", "records_unaccounted"}
    assert result.basic_sentence == ""
    assert not result.met


def test_a_required_basic_check_is_listed_once():
    result = verdict(example(), identifiers_left=0)
    assert [item.measure.name for item in result.rows] == ["identifiers_left"]
    assert "identifiers" not in result.basic_sentence


def test_a_limit_on_something_not_measured_is_an_error():
    with raises(OptionError, "option.unknown", measure="l_diversity"):
        verdict(example(), l_diversity=2)


@given(st.floats(0.01, 1, allow_nan=False))
def test_rounding_does_not_change_the_verdict(limit):
    """The public sees two digits of the value, but the verdict on all of them."""
    audit = full()
    shown = reach_verdict(audit, {"task_loss": limit}, trim_audit(audit))
    assert shown.met == (audit["task_loss"] <= limit)
    assert shown.requirements[0].outcome.startswith("met" if shown.met else ("missed", "not met"))
    assert shown.requirements[0].measure.value == 0.033


def test_rounding_across_the_limit_shows_no_margin():
    """0.03333 is shown as 0.033, which would meet a limit of 0.0332."""
    audit = full()
    value = audit["task_loss"]
    for limit in ((value + 0.033) / 2, 0.033):
        (finding,) = reach_verdict(audit, {"task_loss": limit}, trim_audit(audit)).requirements
        assert value > limit >= finding.measure.value
        assert (finding.met, finding.outcome) == (False, "not met (by a narrow margin)")
