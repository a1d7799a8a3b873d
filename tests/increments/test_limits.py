"""Sessions whose release must meet limits: on cells, also with persons, strata and on disk."""

import numpy as np
import pytest

import microcell as mc
from microcell.increments import StoredSession
from tests.raising import raises

LIMITS = {"l_diversity.illness": 3, "t_closeness.pay": 0.25}
DESIGNS = {
    "plain": {},
    "strata": {"strata": ["region"]},
    "person": {"person": "person"},
    "together": {"person": "person", "person_cells": "together"},
}


def schema_of(design="plain"):
    return mc.Schema(
        quasi=["age", "height"], confidential=["illness", "pay"], rest="drop", **DESIGNS[design]
    )


def people(n, n_people=None, seed=0):
    """Return people whose pay follows their age, some with several rows."""
    rng = np.random.default_rng(seed)
    age = rng.normal(45, 15, n).round()
    return {
        "person": np.array(
            [f"P{i}" for i in rng.permutation(np.resize(np.arange(n_people or n), n))]
        ),
        "age": age,
        "height": rng.normal(170, 9, n).round(),
        "region": np.where(rng.random(n) < 0.5, "north", "south"),
        "illness": rng.choice(["flu", "ulcer", "asthma", "none"], n, p=[0.1, 0.2, 0.3, 0.4]),
        "pay": (age + rng.normal(0, 9, n)).round(),
    }


def cut(columns, first, last):
    return {name: column[first:last] for name, column in columns.items()}


def count_broken(labels, columns, limits=LIMITS):
    """Count the cells that exceed the limits, from their definition."""
    values, codes = np.unique(columns["pay"], return_inverse=True)
    q = np.bincount(codes) / len(codes)
    broken = 0
    for cell in np.unique(labels):
        rows = np.flatnonzero(labels == cell)
        p = np.bincount(codes[rows], minlength=len(values)) / len(rows)
        distance = np.abs(np.cumsum(p - q)).sum() / (len(values) - 1)
        broken += (
            distance > limits["t_closeness.pay"] + 1e-9
            or len(set(columns["illness"][rows])) < limits["l_diversity.illness"]
        )
    return broken


@pytest.mark.parametrize("strategy", ["refined", "nearest", "separate"])
@pytest.mark.parametrize("design", DESIGNS)
def test_a_session_meets_its_limits(strategy, design):
    schema = schema_of(design)
    whole = people(180, n_people=100 if design in ("person", "together") else None)
    session = mc.increments.start(cut(whole, 0, 140), schema, 3, method="mdav", require=LIMITS)
    for first in (140, 160):
        session.add(cut(whole, first, first + 20), strategy=strategy, repeated="keep")
    release = session.finish()
    mc.audit(whole, release.table, schema).require(k=3, **LIMITS)
    assert len(release.table["age"]) == 180
    assert (np.asarray(release.table["illness"]) == whole["illness"]).all()
    assert release.manifest.requirements.limits == LIMITS
    assert session.finish() is release


def test_the_cells_keep_the_limits_as_records_arrive():
    whole, schema = people(240), schema_of()
    plain = mc.increments.start(cut(whole, 0, 200), schema, 3, method="mdav")
    assert count_broken(plain.state.labels, cut(whole, 0, 200)) > 10
    session = mc.increments.start(cut(whole, 0, 200), schema, 3, method="mdav", require=LIMITS)
    assert count_broken(session.state.labels, cut(whole, 0, 200)) == 0
    before = session.state.labels
    session.add(cut(whole, 200, 202))
    assert count_broken(session.state.labels, cut(whole, 0, 202)) == 0
    assert len(np.unique(before)) > 1
    session.add(cut(whole, 202, 240))
    assert count_broken(session.state.labels, whole) == 0
    release = session.finish()
    assert release.manifest.requirements.cells_before == release.manifest.cells.count
    assert (release.partition.labels == session.state.labels).all()


def test_the_session_costs_little_more_than_all_at_once():
    whole, schema = people(300), schema_of()
    session = mc.increments.start(cut(whole, 0, 270), schema, 3, require=LIMITS, effort="fast")
    session.add(cut(whole, 270, 300))
    loss = session.finish().manifest.cells.sse_ratio
    once = mc.anonymize(whole, schema, k=3, require=LIMITS, effort="fast")
    assert loss < 1.5 * once.manifest.cells.sse_ratio


def test_limits_on_sizes_raise_the_size_of_cells():
    whole, schema = people(90), schema_of()
    session = mc.increments.start(cut(whole, 0, 60), schema, 3, require={"prosecutor_worst": 0.2})
    session.add(cut(whole, 60, 90))
    assert min(session.finish().partition.sizes) >= 5


def test_a_limit_that_cannot_be_met_leaves_the_session_open():
    schema = mc.Schema(quasi=["age"], confidential=["illness"])
    columns = {"age": np.arange(20.0), "illness": np.array(["flu"] * 20)}
    session = mc.increments.start(columns, schema, 3, require={"l_diversity": 2})
    with raises(mc.RequirementError, "guarantee.requirement_not_met", measures=["l_diversity"]):
        session.finish()
    assert not session.finished
    session.add({"age": np.arange(6.0), "illness": np.array(["ulcer"] * 6)})
    mc.audit(session.table.native, session.finish().table, schema).require(l_diversity=2)


def test_limits_are_checked_at_the_start():
    whole, schema = people(30), schema_of()
    with raises(mc.errors.OptionError, "option.unknown", option="require"):
        mc.increments.start(whole, schema, 3, require={"l_diversty": 2})
    with raises(mc.errors.OptionError, "option.unknown", option="require"):
        mc.increments.start(whole, schema, 3, require={"l_diversity.age": 2})
    session = mc.increments.start(whole, schema, 3, require={"l_diversity": 2})
    with raises(mc.errors.OptionError, "option.conflict", option="strategy"):
        session.add(whole, strategy="split-late")
    assert session.records == 30


def test_a_measure_of_the_release_is_checked_at_the_end():
    whole, schema = people(60), schema_of()
    session = mc.increments.start(whole, schema, 3, require={"information_loss": 1e-6})
    with raises(
        mc.RequirementError, "guarantee.requirement_not_met", measures=["information_loss"]
    ):
        session.finish()
    assert not session.finished


@pytest.mark.usefixtures("blank_figures")
def test_a_stored_session_keeps_its_limits(tmp_path):
    whole, schema = people(120), schema_of("person")
    folder = tmp_path / "session"
    StoredSession.create(folder, cut(whole, 0, 90), schema, 3, method="mdav", require=LIMITS)
    StoredSession(folder).add(cut(whole, 90, 120))
    first = StoredSession(folder).finish()
    again = StoredSession(folder).finish()
    mc.audit(whole, first.table, schema).require(k=3, **LIMITS)
    assert (first.partition.labels == again.partition.labels).all()
    assert first.manifest.to_json() == again.manifest.to_json()
