"""How an audit shows itself: short, useful, and without values of the table."""

import sys

import numpy as np
import polars as pl

import microcell as mc
from microcell.errors import OptionError
from tests.raising import raises
from tests.report.examples import full, pictured

SECRET = "secretvalue"


def sample_audit():
    people, schema = mc.sample_survey(60), mc.sample_schema()
    release = mc.anonymize(people, schema, k=5, method="mdav")
    return mc.audit(people, release.table, schema)


def test_the_repr_is_one_line():
    audit = sample_audit()
    n_measures = len(audit.measures)
    assert repr(audit) == f"<Audit k=5, 60 of 60 records, {n_measures} measures>"


def test_displays_contain_no_values():
    audit = pictured(label=SECRET)
    parts = (audit, *audit.comparisons, *audit.quantiles, audit.projection, audit.correlations)
    for part in parts:
        assert SECRET not in repr(part)
        assert len(repr(part)) < 250
    assert SECRET not in audit._repr_html_()


def test_an_unknown_measure_names_similar_ones():
    with raises(OptionError, "option.unknown", measure="t_closness") as caught:
        sample_audit()["t_closness"]
    assert caught.value.details["near"][0] == "t_closeness"


def test_the_html_card_has_the_main_facts():
    card = sample_audit()._repr_html_()
    for text in ("5-anonymous", "Information loss", "passed", "audit.to_frame()"):
        assert text in card
    assert len(card) < 4000


def test_the_html_card_names_failed_checks():
    card = full(left=2)._repr_html_()
    assert "Not fit to publish" in card
    assert "identifiers_left" in card


def test_the_frame_lists_all_measures():
    audit = full()
    frame = audit.to_frame()
    assert list(frame.columns) == ["name", "value", "unit", "direction", "meaning"]
    assert list(frame["name"]) == list(audit.measures)
    assert np.array_equal(frame["value"], [item.value for item in audit.measures.values()])


def test_without_pandas_the_frame_is_polars(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert isinstance(full().to_frame(), pl.DataFrame)
