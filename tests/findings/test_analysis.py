"""Regressions and group means before and after, compared with plain computations."""

import json

import numpy as np
import pytest

import microcell as mc
from microcell import auditing
from microcell.errors import OptionError
from microcell.measures.analysis import _overlap, parse_formula
from microcell.model import Schema
from microcell.schema.resolve import resolve
from tests.raising import raises


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 80, n)
    sex = rng.choice(["f", "m"], n)
    hours = 10 + 0.5 * age + 4 * (sex == "m") + rng.normal(0, 2, n)
    sick = rng.random(n) < 1 / (1 + np.exp(-(age - 50) / 8))
    return {"age": age, "sex": sex, "hours": hours.round(1), "sick": sick.astype(int)}


SCHEMA = Schema(quasi=["age", "sex"], confidential=["hours", "sick"])


def audit(before, after, schema, k):
    """An audit of a release for which k was requested."""
    originals, published = mc.read(before), mc.read(after)
    resolved = resolve(schema, originals)
    return auditing.audit(originals, published, resolved, k=k)


def analyse(table, *formulas, by=(), after=None):
    return mc.audit(table, after or table, SCHEMA, analyses=formulas, by=by)


def test_least_squares_recovers_the_coefficients():
    table = people()
    (result,) = analyse(table, "hours ~ age + sex").analyses
    assert (result.kind, result.formula) == ("linear", "hours ~ age + sex")
    x = np.column_stack((np.ones(400), table["age"], table["sex"] == "m"))
    beta, *_ = np.linalg.lstsq(x, table["hours"], rcond=None)
    residuals = table["hours"] - x @ beta
    errors = np.sqrt(np.diag(np.linalg.inv(x.T @ x)) * (residuals @ residuals) / (400 - 3))
    terms = {item.term: item for item in result.coefficients}
    sign = 1 if "sex[m]" in terms else -1
    assert terms["age"].before[0] == pytest.approx(beta[1])
    assert terms["age"].before[2] - terms["age"].before[1] == pytest.approx(
        2 * 1.959964 * errors[1]
    )
    sex = terms["sex[m]" if sign == 1 else "sex[f]"]
    assert sex.before[0] == pytest.approx(sign * beta[2])
    assert all(item.overlap == pytest.approx(1) for item in result.coefficients)


def test_logistic_regression_solves_the_score_equations():
    table = people()
    (result,) = analyse(table, "sick ~ age").analyses
    assert result.kind == "logistic"
    assert result.event == "sick = 1"
    assert result.event not in repr(result)
    intercept, slope = (item.before[0] for item in result.coefficients)
    p = 1 / (1 + np.exp(-(intercept + slope * table["age"])))
    gaps = table["sick"] - p
    assert abs(gaps.sum()) < 1e-3
    assert abs((gaps * table["age"]).sum()) < 0.1
    assert slope == pytest.approx(1 / 8, abs=0.05)


def test_a_release_changes_the_coefficients():
    table = people()
    release = mc.anonymize(table, SCHEMA, k=40, method="mdav")
    (result,) = mc.audit(table, release.table, SCHEMA, analyses=["hours ~ age + sex"]).analyses
    overlaps = [item.overlap for item in result.coefficients]
    assert all(0 <= overlap < 1 for overlap in overlaps)


def test_means_and_rates_by_group():
    table = people()
    groups = analyse(table, by=["sex"]).groups
    found = {(item.group, item.response): item for item in groups}
    men = table["sex"] == "m"
    assert found["m", "hours"].before == pytest.approx(table["hours"][men].mean())
    assert found["m", "hours"].after == found["m", "hours"].before
    assert found["f", "sick"].before == pytest.approx(table["sick"][~men].mean())
    assert found["m", "age"].n_before == men.sum()


def test_means_of_whole_numbers_are_not_shifted():
    rng = np.random.default_rng(2)
    town = np.where(np.arange(200) < 15, "few", "most")
    pay = rng.integers(1_000_000, 1_100_000, 200)
    table = {"town": town, "pay": pay}
    schema = Schema(quasi=["town"], confidential=["pay"])
    groups = {item.response: item for item in audit(table, table, schema, k=5).small_groups}
    few = town == "few"
    assert groups["pay"].before == pytest.approx(pay[few].mean(), rel=1e-12)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_means_of_the_largest_numbers_do_not_overflow():
    largest = np.finfo(np.float64).max
    pay = np.where(np.arange(200) < 15, largest, -largest)
    table = {"town": np.where(np.arange(200) < 15, "few", "most"), "pay": pay}
    (group,) = audit(table, table, Schema(quasi=["town"], confidential=["pay"]), k=5).small_groups
    assert (group.before, group.after, group.change) == (largest, largest, 0)


def test_a_group_that_vanishes_has_no_mean():
    table = {**people(10), "sex": np.array(["f"] * 9 + ["m"])}
    after = {**table, "sex": np.array(["f"] * 10)}
    groups = analyse(table, by=["sex"], after=after).groups
    lost = next(item for item in groups if item.group == "m")
    assert (lost.n_before, lost.n_after) == (1, 0)
    assert np.isnan(lost.after)


@pytest.mark.parametrize(
    "formula", ["hours", "~ age", "hours ~", "a ~ b ~ c", "hours ~ age + age", "a + b ~ c"]
)
def test_what_is_not_a_formula(formula):
    with raises(OptionError, "option.invalid", option="analysis"):
        parse_formula(formula)


def test_columns_that_cannot_be_analysed():
    table = people()
    with raises(OptionError, "option.unknown", column="height"):
        analyse(table, "hours ~ height")
    with raises(OptionError, "option.unsupported", option="by"):
        analyse(table, by=["hours"])
    many = {**table, "sex": np.array([f"s{row % 5}" for row in range(400)])}
    with raises(OptionError, "option.unsupported", column="sex"):
        analyse(many, "sex ~ age")


def test_overlap_of_intervals():
    assert _overlap(np.array([0, -1, 1]), np.array([5, 4, 6])) == 0
    assert _overlap(np.array([0, -1, 1]), np.array([0, -2, 2])) == 0.75


def test_reports_show_analyses_to_insiders_only(blank_figures):
    audit = analyse(people(), "hours ~ age + sex", by=["sex"])
    text = mc.render(audit, "text")
    assert "hours ~ age + sex (linear regression)" in text
    assert "Groups before and after" in text
    data = json.loads(mc.render(audit, "json"))
    assert data["analyses"][0]["kind"] == "linear"
    assert len(data["groups"]) == len(audit.groups)
    for format in ("text", "json", "html"):
        public = mc.render(audit, format, audience="public")
        assert "hours ~" not in public
        assert "Groups before" not in public
    page = mc.render(audit, "html")
    assert "linear regression" in page
    assert "Categories kept and lost" in page


def test_categories_of_the_audit():
    table = people(20)
    after = {**table, "sex": np.array(["f"] * 20)}
    shares = {item.name: item for item in analyse(table, after=after).categories}
    men = int((table["sex"] == "m").sum())
    assert (shares["m"].people, shares["m"].kept, shares["m"].published) == (men, 0, 0)
    assert shares["f"].share == 1


def test_small_groups_are_compared_without_being_asked_for():
    table = people()
    town = np.where(np.arange(400) < 12, "few", np.where(np.arange(400) < 14, "two", "most"))
    before = {**table, "town": town}
    after = {**before, "age": np.where(town == "few", 50, before["age"])}
    schema = Schema(quasi=["age", "town"], confidential=["hours"], keep=["sex", "sick"])
    audit_result = audit(before, after, schema, k=5)
    groups = {item.response: item for item in audit_result.small_groups}
    assert {item.group for item in audit_result.small_groups} == {"few"}  # "two" is below k
    age = groups["age"]
    few = town == "few"
    assert (age.n_before, age.n_after, age.after) == (12, 12, 50)
    assert age.before == pytest.approx(table["age"][few].mean())
    assert age.change == pytest.approx((50 - age.before) / table["age"].std())
    assert groups["hours"].change == 0
    assert audit_result.small_groups[0].response == "age"  # what changed most comes first


def test_public_reports_tell_steps_of_change_only():
    before = {"x": np.arange(200.0), "group": np.array(["a"] * 190 + ["b"] * 6 + ["c"] * 4)}
    after = {"x": before["x"], "group": np.array(["a"] * 190 + ["b"] * 6 + ["a"] * 4)}
    result = audit(before, after, Schema(quasi=["group"], confidential=["x"]), k=4)
    assert {item.group for item in result.small_groups} == {"b", "c"}
    data = json.loads(mc.render(result, "json", audience="public"))
    (shown,) = data["small_groups"]  # c is no longer published
    assert (shown["group"], shown["records"], shown["before"]) == ("b", [None, 6], None)
    assert shown["change"] == 0
    public = mc.render(result, "text", audience="public")
    assert "less than 0.1 SD" in public
    assert "group = c" not in public
    assert "categories" not in data
    internal = json.loads(mc.render(result, "json"))
    assert len(internal["categories"]) == 3
    assert not any("category" in item for item in internal["categories"])  # no value of the table
