"""Public reports and their findings contain nothing that the published table does not tell."""

import json
from dataclasses import replace

import numpy as np
import pytest

import microcell as mc
from microcell.findings import rules
from microcell.report.contents import trim_audit

TRIGGERED = {
    *("risk.homogeneous_classes", "risk.exact_values", "risk.singled_out"),
    *("file.formulas", "data.amounts_as_text"),
}
"""Findings of the table below that public reports contain in full."""


def people(n=40):
    rng = np.random.default_rng(3)
    return {
        "name": [f"Pname{i}" for i in range(n)],
        "age": rng.integers(20, 80, n),
        "sex": rng.choice(["f", "m"], n),
        "town": rng.choice(["Reus", "Salou", "Valls"], n),
        "income": rng.normal(50_000, 9_000, n).round(2),
        "ill": np.where(np.arange(n) < 4, "asthma", "none"),
        "note": ["=1+1", "fine"] * (n // 2),
        "paid": [f"$ {1_000 + 137 * i:,}" for i in range(n)],
        "badge": np.arange(n) * 7919 % 1_009,
    }


SCHEMA = mc.Schema(
    identifiers=["name"],
    quasi=["age", mc.Column("sex", kind="nominal"), mc.Column("town", kind="nominal")],
    confidential=["income", "ill", "note"],
    keep=["paid", "badge"],
)


@pytest.fixture(scope="module")
def release():
    return mc.anonymize(people(), SCHEMA, k=4, method="mdav")


def public_findings(audit):
    return {item.code: item for item in trim_audit(audit).findings}


def test_findings_in_public_reports_follow_from_the_published_table(release):
    """Another original of the same release has the same public findings, to the last figure."""
    released = dict(release.table)
    rng = np.random.default_rng(4)
    other = {**people(), "age": rng.integers(20, 80, 40), "town": rng.choice(["Reus", "Vic"], 40)}
    found = public_findings(mc.audit(people(), released, SCHEMA))
    assert set(found) >= TRIGGERED
    others = public_findings(mc.audit(other, released, SCHEMA))
    published_only = {code for code, rule in rules().items() if rule.published_only}
    for code in published_only:
        assert found.get(code) == others.get(code)
    for code in set(found) - published_only:
        assert found[code].sentence == f"{rules()[code].title}."
        assert (found[code].advice, found[code].columns, found[code].figures) == ("", (), {})


def test_findings_about_persons_show_only_their_title():
    """The published table does not tell which records are about the same person."""
    table = {**people(), "name": [f"Pname{i % 15}" for i in range(40)]}
    schema = mc.Schema(person="name", quasi=["age"], confidential=["income", "ill"], rest="drop")
    made = mc.anonymize(table, schema, k=4, method="mdav")
    audit = made.audit()
    assert audit.findings
    for item in trim_audit(audit).findings:
        title = rules()[item.code].title
        assert item.sentence in {f"{title}{end}" for end in (".", " (ill).", " (income).")}
        assert not item.figures


def test_measures_do_not_tell_which_records_are_about_the_same_person():
    """With all digits, they would confirm a guess of whose records belong together."""
    rng = np.random.default_rng(0)
    names = np.array([f"Pname{i // 2}" for i in range(40)])
    table = {"age": np.repeat([20, 60], 20), "ill": rng.choice(list("abc"), 40), "name": names}
    schema = mc.Schema(person="name", quasi=["age"], confidential=["ill"])
    release = mc.anonymize(table, schema, k=4, method="mdav", order_key="0" * 32)
    shuffled = names.copy()
    for cell in range(len(release.partition)):
        members = np.flatnonzero(release.partition.labels == cell)
        shuffled[members] = rng.permutation(shuffled[members])
    other = replace(release, original=mc.read({**table, "name": shuffled}))
    before, after = release.audit(), other.audit()
    assert before["t_closeness"] != after["t_closeness"]
    for audit in (before, after):
        for name, measure in trim_audit(audit).measures.items():
            if ".ill" in name:
                assert measure.value == float(f"{measure.value:.2g}"), name


@pytest.mark.usefixtures("blank_figures")
def test_analyses_are_not_in_public_reports(release):
    """Means of small groups, and coefficients of the original, may tell a single value."""
    audit = mc.audit(
        people(), dict(release.table), SCHEMA, analyses=["income ~ age + sex"], by=["town"]
    )
    assert audit.analyses
    assert audit.groups
    trimmed = trim_audit(audit)
    assert not trimmed.analyses
    assert not trimmed.groups
    numbers = {f"{group.before:.6g}" for group in audit.groups if group.response == "income"}
    numbers |= {f"{item.before[0]:.6g}" for item in audit.analyses[0].coefficients}
    for style in ("text", "html", "json"):
        text = mc.render(audit, style, audience="public").replace(",", "")
        assert not [number for number in numbers if number in text]
        assert "income ~ age + sex" not in text
    assert {"analyses", "groups"} <= set(json.loads(mc.render(audit, "json")))


def test_no_figure_of_original_values_is_in_public_reports(release):
    trimmed = trim_audit(release.audit())
    shown = (
        *(trimmed.comparisons, trimmed.quantiles, trimmed.categories, trimmed.notes),
        *(trimmed.analyses, trimmed.groups, trimmed.warning or ()),
    )
    assert not any(shown)
    assert trimmed.projection is None
    assert not any(item.details for item in trimmed.findings)
    for name, value in trimmed.distances.items():
        assert value == tuple(float(f"{part:.2g}") for part in value), name
