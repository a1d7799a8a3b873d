"""Sessions whose records are about people with several rows: k counts distinct persons."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import microcell as mc
from microcell.errors import (
    DataError,
    GuaranteeError,
    OptionError,
    SchemaError,
    TooFewRecordsError,
)
from microcell.increments import StoredSession
from microcell.increments import start as start_session
from microcell.methods.increments import STRATEGIES, add_batch
from tests.raising import raises

pytestmark = pytest.mark.usefixtures("blank_figures")

SCHEMA = mc.Schema(quasi=["age", "height"], person="patient", confidential=["cost"], rest="drop")
TOGETHER = replace(SCHEMA, person_cells="together")


def visits(n, n_people, seed=0):
    """Return visits of patients whose values vary little, some with many visits."""
    rng = np.random.default_rng(seed)
    patient = rng.permutation(
        np.concatenate([np.arange(n_people), rng.integers(n_people, size=n - n_people) // 2])
    )
    homes = np.random.default_rng(99).normal(size=(n_people, 2))
    return pl.DataFrame(
        {
            "patient": [f"P{i:03}" for i in patient],
            "age": np.round(40 + 20 * homes[patient, 0] + rng.normal(size=n)),
            "height": np.round(170 + 10 * homes[patient, 1] + rng.normal(size=n)),
            "region": np.where(patient % 2, "north", "south"),
            "cost": rng.integers(100, size=n),
        }
    )


def people_per_group(groups, persons):
    """Count distinct persons by plain sets."""
    members = {}
    for group, person in zip(list(groups), list(persons), strict=True):
        members.setdefault(group, set()).add(person)
    return [len(each) for each in members.values()]


def check_release(release, original, k, keys=("age", "height")):
    classes = list(release.table.select(keys).iter_rows())
    counts = people_per_group(classes, original["patient"])
    assert min(counts) >= k
    assert sorted(release.class_sizes) == sorted(counts)
    assert "patient" not in release.table.columns
    assert release.manifest.person.count == original["patient"].n_unique()
    assert release.table["cost"].to_list() == original["cost"].to_list()


# ------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("inertial", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_every_strategy_keeps_k_persons(strategy, inertial, together):
    rng = np.random.default_rng(len(strategy))
    for most, k in ((1, 3), (4, 3), (12, 4)):
        n, base = 150, 90
        persons = rng.permutation(np.repeat(np.arange(n), rng.integers(1, most + 1, size=n))[:n])
        points = rng.normal(size=(int(persons.max()) + 1, 2))[persons] + 0.1 * rng.normal(
            size=(n, 2)
        )
        start = mc.partition(
            points[:base], k, method="mdav", persons=persons[:base], together=together
        )
        cells = add_batch(
            points[:base],
            start.labels,
            points[base:],
            k,
            strategy=strategy,
            inertial=inertial,
            persons=persons,
            together=together,
            weights=rng.uniform(0.5, 2, n) if most == 4 else None,
        )
        assert min(people_per_group(cells.labels, persons)) >= k
        assert len(cells.labels) == n
        if together:
            assert max(people_per_group(persons, cells.labels)) == 1


def test_one_row_per_person_gives_the_cells_of_records():
    rng = np.random.default_rng(3)
    points = rng.normal(size=(60, 2))
    start = mc.partition(points[:40], 3, method="mdav")
    for strategy in ("nearest", "separate", "split-late", "split-early"):
        plain = add_batch(points[:40], start.labels, points[40:], 3, strategy=strategy)
        counted = add_batch(
            points[:40], start.labels, points[40:], 3, strategy=strategy, persons=np.arange(60)
        )
        assert {tuple(np.flatnonzero(plain.labels == c)) for c in set(plain.labels)} == {
            tuple(np.flatnonzero(counted.labels == c)) for c in set(counted.labels)
        }


def test_a_base_of_too_few_persons_or_of_divided_persons():
    points, batch = [[0.0], [1.0], [2.0], [3.0]], [[4.0]]
    with raises(GuaranteeError, "guarantee.failed", k=2, smallest=1):
        add_batch(points, [0, 0, 1, 1], batch, 2, persons=[0, 0, 1, 2, 0])
    with raises(OptionError, "option.conflict", option="together"):
        add_batch(points, [0, 0, 1, 1], batch, 2, persons=[0, 1, 0, 1, 0], together=True)
    with raises(OptionError, "option.invalid", option="persons"):
        add_batch(points, [0, 0, 1, 1], batch, 2, persons=[0, 1, 0, 1])
    with raises(OptionError, "option.invalid", option="labels"):
        add_batch(points, [0, 0, 1], batch, 2)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_known_persons_join_their_cell(strategy):
    points = [[0.0], [1.0], [10.0], [11.0]]
    batch = [[10.5], [0.5]]  # nearer to the other cell
    cells = add_batch(
        points, [0, 0, 1, 1], batch, 2, strategy=strategy, persons=[0, 1, 2, 3, 0, 3], together=True
    )
    assert cells.labels.tolist() == [0, 0, 1, 1, 0, 1]


# ------------------------------------------------------------------------------------ sessions


@pytest.mark.parametrize("schema", [SCHEMA, TOGETHER], ids=["rows", "together"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_session_counts_persons_over_all_batches(schema, strategy):
    table, k = visits(160, 60), 4
    session = start_session(table[:80], schema, k, effort="fast")
    for first in (80, 84, 120):
        session.add(
            table[first : {80: 84, 84: 120, 120: 160}[first]], strategy=strategy, repeated="keep"
        )
    release = session.finish()
    check_release(release, table, k)
    assert release.manifest.person.cells == schema.person_cells
    audit = mc.audit(table, release.table, schema, manifest=release.manifest)
    assert audit.measures["k"].value == min(release.class_sizes)
    if schema is TOGETHER:
        assert max(people_per_group(table["patient"], release.partition.labels)) == 1


@pytest.mark.parametrize("schema", [SCHEMA, TOGETHER], ids=["rows", "together"])
def test_a_stored_session_gives_the_same_release(tmp_path, schema):
    table = visits(90, 40, seed=2)
    session = start_session(table[:60], schema, 3, method="mdav")
    session.add(table[60:], repeated="keep")
    stored = StoredSession.create(tmp_path / "s", table[:60], schema, 3, method="mdav")
    stored.add(table[60:], repeated="keep")
    release = StoredSession(tmp_path / "s").finish()
    check_release(release, table, 3)
    assert release.table["age"].to_list() == session.finish().table["age"].to_list()
    published = tmp_path / "out.csv"
    StoredSession(tmp_path / "s").publish(published, report=tmp_path / "out.html")
    for file in (published, tmp_path / "out.html", *tmp_path.glob("out*.json")):
        assert "P0" not in file.read_text()
    for file in (tmp_path / "s").glob("*.json"):
        assert "P0" not in file.read_text()


def test_a_stratum_waits_for_k_persons():
    table = visits(120, 40, seed=4)
    schema = replace(SCHEMA, strata=["region"])
    north = table.filter(pl.col("region") == "north")
    south = table.filter(pl.col("region") == "south")
    patient = south["patient"][0]
    many = pl.concat([south.filter(pl.col("patient") == patient)] * 9)  # many rows of one person
    session = start_session(pl.concat([north, many]), schema, 4, method="mdav")
    assert session.waiting == len(many)
    with raises(TooFewRecordsError, "guarantee.stratum_too_small", smallest=1, unit="persons"):
        session.finish()
    session.add(south, repeated="keep")
    assert session.waiting == 0
    original = pl.concat([north, many, south])
    check_release(session.finish(), original, 4, keys=("age", "height", "region"))


def test_sessions_refuse_what_they_cannot_count():
    table = visits(60, 25, seed=5)
    base = table[:40]
    few = pl.concat([table[:1]] * 10)
    with raises(TooFewRecordsError, "guarantee.too_few_records", records=1, unit="persons"):
        start_session(few, SCHEMA, 3)
    plain = replace(SCHEMA, person=(), identifiers=["patient"])
    with raises(SchemaError, "schema.person_required", columns=["patient"]):
        start_session(base, plain, 3)
    without = base.with_columns(
        pl.when(pl.int_range(40) == 7).then(None).otherwise(pl.col("patient")).alias("patient")
    )
    with raises(DataError, "data.missing_values", row=8):
        start_session(without, SCHEMA, 3)
    session = start_session(base, SCHEMA, 3, method="mdav")
    with raises(DataError, "data.missing_values", row=8):
        session.add(without)
    assert session.records == 40
    dropped = start_session(base, SCHEMA, 3, method="mdav", missing="drop")
    assert dropped.add(without, repeated="keep").kept == 39


def test_an_identifier_that_repeats_in_a_batch_is_refused():
    schema = mc.Schema(quasi=["age"], identifiers=["id"])
    base = {"id": ["a", "b", "c", "d"], "age": [1, 2, 3, 4]}
    session = start_session(base, schema, 2)
    with raises(SchemaError, "schema.person_required", columns=["id"], rows=3, distinct=2):
        session.add({"id": ["e", "f", "e"], "age": [5, 1, 2]})
    assert session.records == 4
    stated = mc.Schema(quasi=["age"], identifiers=["id"], rows_are_people=True)
    session = start_session(base, stated, 2)
    session.add({"id": ["e", "a"], "age": [5, 1]}, repeated="keep")
    assert session.finish().manifest.rows_are_people is True


def test_a_person_in_two_strata_cannot_stay_together():
    schema = mc.Schema(
        quasi=["age"], person="patient", strata=["region"], person_cells="together", rest="drop"
    )
    table = visits(60, 25, seed=6)
    session = start_session(table, schema, 3, method="mdav")
    moved = table[:1].with_columns(pl.lit("west").alias("region"))
    with raises(SchemaError, "schema.invalid", field="person_cells", persons=1):
        session.add(moved, repeated="keep")
    assert session.records == 60


def test_rounding_is_refused_because_batches_are_not_rounded():
    schema = mc.Schema(quasi=["age"], confidential=[mc.Column("cost", kind="numeric", round=100)])
    with raises(SchemaError, "schema.invalid", column="cost", field="round"):
        start_session({"age": [1, 2, 3, 4], "cost": [110, 240, 330, 470]}, schema, 2)
