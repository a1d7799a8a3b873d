"""People who come again: refused, skipped or kept, in memory and on disk."""

import json
from contextlib import suppress

import numpy as np
import polars as pl
import pytest

import microcell as mc
from microcell.errors import DataError, OptionError, SchemaError
from microcell.increments import StoredSession, start
from tests.raising import raises

SCHEMA = mc.Schema(quasi=["x", "y"], confidential=["c"], rest="drop")
K = 5


def make_people(n, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "who": [f"W{seed}-{i:03}" for i in range(n)],
            "x": rng.normal(size=n),
            "y": rng.normal(size=n),
            "c": rng.integers(9, size=n),
        }
    )


def begin(where, tmp_path, people, schema=SCHEMA, **options):
    if where == "memory":
        return start(people, schema, K, method="mdav", **options)
    return StoredSession.create(tmp_path / "s", people, schema, K, method="mdav", **options)


def count_records(session):
    return session.status().records if isinstance(session, StoredSession) else session.records


PLACES = pytest.mark.parametrize("where", ["memory", "disk"])


@PLACES
def test_rows_in_another_order_are_the_same_batch(where, tmp_path):
    people = make_people(60)
    session = begin(where, tmp_path, people)
    shuffled = people.sample(fraction=1, shuffle=True, seed=1)
    with raises(OptionError, "option.duplicate_batch", batch=0):
        session.add(shuffled)
    with raises(OptionError, "option.duplicate_batch", batch=0):
        session.add(shuffled, repeated="keep")  # an interrupted command may be repeated
    assert count_records(session) == 60
    session.add(shuffled, again=True)
    assert count_records(session) == 120


@PLACES
def test_some_rows_again_are_refused_by_number_or_skipped(where, tmp_path):
    people = make_people(100)
    session = begin(where, tmp_path, people)
    batch = pl.concat([make_people(2, seed=1), people[1:]])
    with raises(DataError, "data.repeated", count=99, row=3, unit="rows") as caught:
        session.add(batch)
    assert caught.value.details["rows"] == list(range(3, 102))
    assert "W0" not in str(caught.value)
    added = session.add(batch, repeated="skip")
    assert (added.records, added.skipped) == (2, 99)
    assert session.add(people[4:9], repeated="skip").records == 0
    assert count_records(session) == 102
    assert len(session.finish().table) == 102


@PLACES
def test_an_id_recognizes_people_whose_values_changed(where, tmp_path):
    people = make_people(60)
    session = begin(where, tmp_path, people, id="who")
    changed = people[:3].with_columns(x=pl.col("x") + 1)
    batch = pl.concat([changed, make_people(7, seed=1)])
    for _ in range(2):
        with raises(DataError, "data.repeated", count=3, rows=[1, 2, 3], unit="persons"):
            session.add(batch, again=True)
        if where == "disk":
            session = StoredSession(tmp_path / "s")
    with raises(OptionError, "option.conflict", option="repeated"):
        session.add(batch, repeated="keep")
    assert session.add(batch, repeated="skip").skipped == 3
    with raises(DataError, "data.repeated", count=1):
        session.add(batch[9:])
    release = session.finish()
    assert len(release.table) == 67
    assert "who" not in release.table.columns


def test_an_id_is_complete_unique_and_not_published():
    people = make_people(20)
    twice = people.with_columns(
        who=pl.when(pl.int_range(20) == 7).then(pl.lit("W0-001")).otherwise("who")
    )
    with raises(DataError, "data.bad_key", row=8, count=1):
        start(twice, SCHEMA, K, id="who")
    gap = people.with_columns(who=pl.when(pl.int_range(20) == 4).then(None).otherwise("who"))
    with raises(DataError, "data.bad_key", row=5):
        start(gap, SCHEMA, K, id="who")
    session = start(people, SCHEMA, K, id="who")
    fresh = make_people(3, seed=1)
    with raises(DataError, "data.bad_key", row=3):
        session.add(pl.concat([fresh[:2], fresh[:1]]))
    for schema in (
        mc.Schema(quasi=["x", "y"], keep=["who"], rest="drop"),
        mc.Schema(quasi=["x", "y"], person="who", rest="drop"),
    ):
        with raises(OptionError, "option.conflict", option="id"):
            start(people, schema, K, id="who")
    with raises(SchemaError, "schema.unknown_column"):
        start(people, SCHEMA, K, id="nobody")


@PLACES
def test_persons_may_come_again_by_choice_and_count_once(where, tmp_path):
    schema = mc.Schema(quasi=["x", "y"], person="who", confidential=["c"], rest="drop")
    people = make_people(40)
    session = begin(where, tmp_path, people, schema)
    visits = pl.concat([people[:6].with_columns(x=pl.col("x") + 0.1)] * 2)
    with raises(DataError, "data.repeated", count=6, unit="persons"):
        session.add(visits)
    session.add(visits, repeated="keep")
    release = session.finish()
    assert release.manifest.person.count == 40
    assert min(release.class_sizes) >= K


def test_an_identifier_that_repeats_in_a_later_batch_is_refused():
    schema = mc.Schema(quasi=["x", "y"], identifiers=["who"], rest="drop")
    people = make_people(30)
    session = start(people, schema, K)
    with raises(SchemaError, "schema.person_required", distinct=30, rows=31):
        session.add(people[:1].with_columns(x=pl.col("x") + 1))
    assert session.records == 30


def test_types_that_differ_between_files_are_the_same_person():
    people = {"id": [1, 2, 3, 4, 5, 6], "x": [1, 2, 3, 4, 5, 6]}
    session = start(people, mc.Schema(quasi=["x"]), 3, id="id")
    with raises(DataError, "data.repeated", rows=[2]):
        session.add({"id": [7.0, 2.0], "x": [1.5, 2.5]})


def test_no_cell_has_fewer_people_than_k_after_any_sequence():
    rng = np.random.default_rng(5)
    people = make_people(90)
    session = start(people[:40], SCHEMA, K, method="mdav", id="who")
    for _ in range(6):
        rows = rng.choice(90, 25, replace=False)
        with suppress(DataError):
            session.add(people[rows.tolist()], repeated=str(rng.choice(["refuse", "skip"])))
    release = session.finish()
    labels = release.partition.labels
    who = np.array(session.table.native["who"])
    assert len(set(who)) == len(who)
    assert min(len(set(who[labels == cell])) for cell in set(labels.tolist())) >= K


def test_the_folder_holds_keyed_digests_and_no_person_in_plain_sight(tmp_path):
    people = make_people(30)
    for name in ("a", "b"):
        StoredSession.create(tmp_path / name, people, SCHEMA, K, id="who", method="mdav")
    states = [json.loads((tmp_path / name / "state.json").read_text()) for name in ("a", "b")]
    keys = [state["register"]["key"] for state in states]
    assert keys[0] != keys[1]
    digests = [
        set(pl.read_parquet(tmp_path / name / state["parts"][0]["people"]["file"])["person"])
        for name, state in zip(("a", "b"), states, strict=True)
    ]
    assert len(digests[0]) == 30
    assert not digests[0] & digests[1]
    assert keys[0] not in repr(StoredSession(tmp_path / "a").status())


def test_unknown_choices_are_refused():
    session = start(make_people(20), SCHEMA, K)
    with raises(OptionError, "option.unknown", option="repeated"):
        session.add(make_people(5, seed=1), repeated="maybe")
