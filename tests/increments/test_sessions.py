"""Sessions in memory: cells computed by hand, and what must hold after every step."""

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.errors import DataError, GuaranteeError, TooFewRecordsError
from microcell.methods import add_batch
from microcell.methods.increments import STRATEGIES
from tests.raising import raises

pytestmark = pytest.mark.usefixtures("blank_figures")

SCHEMA = mc.Schema(quasi=["a", "b", "c"], keep=["id"])
VARIANTS = [(strategy, inertial) for strategy in STRATEGIES for inertial in (False, True)]


def make_people(n, seed=0, shift=0.0):
    """Return numbers on different scales, and a published id to identify rows."""
    X = np.random.default_rng(seed).normal(size=(n, 3)) + shift
    return {"a": X[:, 0] * 100 + 7, "b": X[:, 1] * 0.001, "c": X[:, 2] * 3e5, "id": np.arange(n)}


def rows_of(table, rows):
    return {name: np.asarray(column)[rows] for name, column in table.items()}


def matrix_of(table):
    return np.column_stack([table[name] for name in "abc"])


def joined(*parts):
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def classes_of(release):
    """Return the ids of each class as a set of sets."""
    labels, ids = release.partition.labels, np.asarray(release.table["id"])
    return {frozenset(ids[labels == cell].tolist()) for cell in range(len(release.partition))}


@pytest.mark.parametrize(("strategy", "inertial"), VARIANTS)
def test_cells_are_computed_in_the_scale_of_the_base(strategy, inertial):
    base, batch = make_people(150), make_people(40, seed=1, shift=0.3)
    session = mc.increments.start(base, SCHEMA, 5, method="mdav")
    session.add(batch, strategy=strategy, inertial=inertial)
    mean, deviation = matrix_of(base).mean(axis=0), matrix_of(base).std(axis=0)
    old, new = ((matrix_of(part) - mean) / deviation for part in (base, batch))
    options = {"method": "mdav"} if strategy == "separate" else {}
    first = mc.partition(old, 5, method="mdav").labels
    expected = add_batch(old, first, new, 5, strategy=strategy, inertial=inertial, **options).labels
    np.testing.assert_allclose(session.state.points.matrix, np.vstack([old, new]), atol=1e-12)
    assert session.finish().partition.labels.tolist() == expected.tolist()


def test_published_means_and_distortion_of_the_whole():
    base, batch = make_people(100), make_people(30, seed=1, shift=2.0)
    session = mc.increments.start(base, SCHEMA, 4)
    session.add(batch, strategy="split-late")
    release, whole = session.finish(), joined(base, batch)
    points = matrix_of(whole)
    labels = release.partition.labels
    for name in "abc":
        means = [whole[name][labels == cell].mean() for cell in labels]
        digits = 1e-12 * np.ptp(whole[name])  # published means are rounded
        np.testing.assert_allclose(release.table[name], means, rtol=1e-12, atol=digits)
    scaled = (points - points.mean(axis=0)) / points.std(axis=0)
    within = sum(
        ((scaled[labels == c] - scaled[labels == c].mean(axis=0)) ** 2).sum()
        for c in np.unique(labels)
    )
    assert release.manifest.cells.sse_ratio == pytest.approx(within / (scaled**2).sum(), rel=1e-9)
    assert release.table["id"].tolist() == whole["id"].tolist()
    assert mc.audit(whole, release.table, SCHEMA).require(k=4)["information_loss"] == pytest.approx(
        release.manifest.information_loss
    )


def test_without_a_batch_the_release_equals_anonymize():
    people, schema = mc.sample_survey(150), mc.sample_schema()
    release, expected = (
        mc.increments.start(people, schema, 5, method="mdav").finish(),
        mc.anonymize(people, schema, k=5, method="mdav"),
    )
    assert release.partition.labels.tolist() == expected.partition.labels.tolist()
    same = {
        name: value
        for name, value in expected.manifest.as_dict().items()
        if name not in ("created", "seconds", "order_key", "bound")
    }
    manifest = release.manifest.as_dict()
    assert {name: manifest[name] for name in same} == same
    for name, column in expected.table.items():
        assert release.table[name].tolist() == column.tolist()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_several_batches(strategy):
    people = mc.sample_survey(160)
    cuts = (0, 100, 101, 130, 160)
    parts = [rows_of(people, slice(*cut)) for cut in pairwise(cuts)]
    session = mc.increments.start(parts[0], mc.sample_schema(), 5, method="mdav")
    for part in parts[1:]:
        session.add(part, strategy=strategy)
    release = session.finish()
    method = release.manifest.method
    assert [batch.records for batch in (method.base, *method.batches)] == [100, 1, 29, 30]
    assert {batch.strategy for batch in method.batches} == {strategy}
    assert release.manifest.input.rows == 160
    records = release.manifest.records
    assert (records.read, records.released, records.dropped) == (160, 160, 0)
    mc.audit(people, release.table, mc.sample_schema()).require(k=5)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("strata", [(), ("s",)], ids=["whole", "strata"])
def test_order_of_a_batch_does_not_matter(strategy, strata):
    schema = mc.Schema(quasi=["a", "b", "c"], keep=["id"], strata=strata, rest="drop")
    base, batch = make_people(90), make_people(37, seed=5)
    base["s"] = np.arange(90) % 2
    batch["s"] = np.arange(37) % 3  # The third stratum is new and waits for k records.
    batch["id"] = batch["id"] + 90
    results = []
    for seed in range(3):
        session = mc.increments.start(base, schema, 5, method="anneal", steps=50)
        session.add(rows_of(batch, np.random.default_rng(seed).permutation(37)), strategy=strategy)
        results.append(classes_of(session.finish()))
    assert results[0] == results[1] == results[2]


def test_order_does_not_matter_for_the_first_cells_of_a_stratum():
    schema = mc.Schema(quasi=["a", "b", "c"], keep=["id"], strata=["s"])
    base, batch = (
        make_people(20) | {"s": np.zeros(20)},
        make_people(150, seed=2) | {"s": np.ones(150)},
    )
    results = []
    for seed in range(3):
        # With so few steps, the result would depend on the order of the records.
        session = mc.increments.start(base, schema, 5, method="anneal", steps=5)
        session.add(rows_of(batch, np.random.default_rng(seed).permutation(150)))
        results.append(classes_of(session.finish()))
    assert results[0] == results[1] == results[2]


@given(data=st.data())
def test_k_holds_after_every_step(data):
    k = data.draw(st.integers(2, 5))
    sizes = [data.draw(st.integers(k, 30)), *data.draw(st.lists(st.integers(1, 15), max_size=4))]
    levels, groups = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n = sum(sizes)
    people = {  # With few values, some columns are constant and some records equal.
        "x": rng.integers(levels, size=n),
        "y": rng.normal(size=n).round(1),
        "s": rng.integers(groups, size=n),
        "w": rng.uniform(0.5, 2, size=n),
        "id": np.arange(n),
    }
    schema = mc.Schema(quasi=["x", "y"], strata=["s"], weight="w", keep=["id"])
    session = mc.increments.start(
        rows_of(people, slice(0, sizes[0])),
        schema,
        k,
        method=data.draw(st.sampled_from(["mdav", "vmdav"])),
    )
    done = sizes[0]
    for size in sizes[1:]:
        options = {
            "strategy": data.draw(st.sampled_from(list(STRATEGIES))),
            "inertial": data.draw(st.booleans()),
        }
        before = session.state.labels
        session.add(rows_of(people, slice(done, done + size)), **options)
        done += size
        check_step(session.state.labels, people["s"][:done], k)
        assert (session.state.labels[: len(before)][before >= 0] >= 0).all()
    counts = Counter(people["s"].tolist())
    if min(counts.values()) < k:
        n_small = sum(count < k for count in counts.values())
        with raises(TooFewRecordsError, "guarantee.stratum_too_small", k=k, strata=n_small):
            session.finish()
        return
    release = session.finish()
    assert release.table["id"].tolist() == list(range(n))
    assert (
        min(Counter(zip(*(release.table[name].tolist() for name in "xys"), strict=True)).values())
        >= k
    )


def check_step(labels, strata, k):
    """Check that cells have k records of one stratum, and only smaller strata wait."""
    cells = labels[labels >= 0]
    if len(cells):
        assert np.bincount(cells).min() >= k
        assert all(len(set(strata[labels == cell].tolist())) == 1 for cell in np.unique(cells))
    counts = Counter(strata.tolist())
    assert all(
        (label >= 0) == (counts[stratum] >= k)
        for label, stratum in zip(labels, strata.tolist(), strict=True)
    )


FRAMES = {"dict": dict, "pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("kind", FRAMES)
def test_release_has_the_type_of_the_source(kind):
    make = FRAMES[kind]
    people = mc.sample_survey(120)
    parts = [make(rows_of(people, slice(*cut))) for cut in ((0, 80), (80, 120))]
    session = mc.increments.start(parts[0], mc.sample_schema(), 5, method="mdav")
    session.add(parts[1])
    release = session.finish()
    plain = mc.increments.start(rows_of(people, slice(0, 80)), mc.sample_schema(), 5, method="mdav")
    plain.add(rows_of(people, slice(80, 120)))
    assert type(release.table) is type(parts[0])
    assert release.partition.labels.tolist() == plain.finish().partition.labels.tolist()
    assert "name" not in release.published.names


def test_files_as_sources(tmp_path):
    people = make_people(60)
    for name, rows in (("base", slice(0, 40)), ("batch", slice(40, 60))):
        pl.DataFrame(rows_of(people, rows)).write_csv(tmp_path / f"{name}.csv")
    session = mc.increments.start(tmp_path / "base.csv", SCHEMA, 4)
    session.add(tmp_path / "batch.csv")
    written = mc.publish(session.finish(), tmp_path / "out.csv")
    assert written.manifest.input.sha256_of == "contents"
    pl.DataFrame(people).write_parquet(tmp_path / "all.parquet")
    result = mc.audit(tmp_path / "all.parquet", tmp_path / "out.csv", SCHEMA)
    assert result.require(k=4)["information_loss"] == pytest.approx(
        written.manifest.information_loss
    )
    with raises(mc.errors.TableError, "table.exists"):
        mc.publish(session.finish(), tmp_path / "base.csv")


def test_a_session_is_finished_once():
    session = mc.increments.start(make_people(40), SCHEMA, 4)
    assert not session.finished
    release = session.finish()
    assert session.finish() is release
    assert session.finished
    with raises(GuaranteeError, "guarantee.session_finished"):
        session.add(make_people(10, seed=3))
    assert session.records == 40


def test_a_failed_release_leaves_the_session_open():
    people = {"x": np.arange(30.0), "s": np.array(["north"] * 28 + ["south"] * 2)}
    schema = mc.Schema(quasi=["x"], strata=["s"])
    session = mc.increments.start(people, schema, 5)
    assert session.waiting == 2
    with raises(TooFewRecordsError, "guarantee.stratum_too_small", k=5, strata=1) as caught:
        session.finish()
    assert "south" not in str(caught.value)
    session.add({"x": [1.0, 2.0, 3.0], "s": ["south"] * 3}, strategy="nearest")
    assert session.waiting == 0
    assert len(session.finish().table["x"]) == 33


@pytest.mark.parametrize(("missing", "out"), [("drop", 25), ("impute", 30)])
def test_missing_values_are_handled_like_in_anonymize(missing, out):
    people = {"x": [float(i) if i % 7 else None for i in range(35)], "id": list(range(35))}
    base, batch = (
        {name: column[cut] for name, column in people.items()}
        for cut in (slice(0, 20), slice(20, 30))
    )
    schema = mc.Schema(quasi=["x"], keep=["id"])
    session = mc.increments.start(base, schema, 3, missing=missing)
    added = session.add(batch, strategy="split-late")
    release = session.finish()
    kept = [i for i in range(30) if missing == "impute" or i % 7]
    assert np.asarray(release.table["id"]).tolist() == kept
    assert len(kept) == out
    assert (added.records, added.kept) == (10, sum(i >= 20 for i in kept))
    records = release.manifest.records
    assert (records.read, records.released, records.dropped) == (30, len(kept), 30 - len(kept))
    assert records.imputed == (5 if missing == "impute" else None)
    mc.audit({n: c[:30] for n, c in people.items()}, release.table, schema).require(k=3)


def test_a_batch_without_kept_records_changes_no_cell():
    session = mc.increments.start({"x": np.arange(10.0)}, mc.Schema(quasi=["x"]), 3, missing="drop")
    before = session.state.labels.tolist()
    assert session.add({"x": [None, None]}).kept == 0
    assert session.state.labels.tolist() == before
    assert session.finish().manifest.records.dropped == 2


def test_means_are_weighted():
    people = make_people(80)
    weight = np.random.default_rng(3).uniform(0.1, 5, size=80)
    schema = mc.Schema(quasi=["a", "b", "c"], keep=["id"], weight="w")
    session = mc.increments.start(
        {**rows_of(people, slice(0, 60)), "w": weight[:60]}, schema, 4, method="mdav"
    )
    session.add({**rows_of(people, slice(60, 80)), "w": weight[60:]}, strategy="nearest")
    release = session.finish()
    labels = release.partition.labels
    for name in "abc":
        means = [np.average(people[name][labels == c], weights=weight[labels == c]) for c in labels]
        np.testing.assert_allclose(release.table[name], means, rtol=1e-9)


def test_only_released_records_need_a_weight():
    schema = mc.Schema(quasi=["x"], weight="w")
    session = mc.increments.start({"x": np.arange(9.0), "w": np.ones(9)}, schema, 3, missing="drop")
    assert session.add({"x": [1.0, np.nan], "w": [1.0, np.nan]}, repeated="keep").kept == 1
    with raises(DataError, "data.bad_weight", column="w", row=3):
        session.add({"x": [1.0, np.nan, 2.0], "w": [1.0, np.nan, np.nan]}, repeated="keep")
    records = session.finish().manifest.records
    assert (records.read, records.released, records.dropped) == (11, 10, 1)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_constant_base(tmp_path, strategy):
    base, schema = {"x": [1.0] * 6, "sex": ["f"] * 6}, mc.Schema(quasi=["x", "sex"])
    batches = ({"x": [1.0], "sex": ["f"]}, {"x": [1.0, 5.0, 9.0, 2.0], "sex": ["f", "m", "m", "f"]})
    session, stored = (
        mc.increments.start(base, schema, 3),
        mc.increments.StoredSession.create(tmp_path / "state", base, schema, 3),
    )
    for batch in batches:
        session.add(batch, strategy=strategy, repeated="keep")
        stored.add(batch, strategy=strategy, repeated="keep")
    release = session.finish()
    assert release.manifest.records.released == 11
    mc.audit(joined(base, *batches), release.table, schema).require(k=3)
    assert stored.finish().partition.labels.tolist() == release.partition.labels.tolist()


def test_unknown_categories_are_placed_and_counted():
    base = {"x": np.arange(20.0), "colour": ["red", "blue"] * 10}
    session = mc.increments.start(base, mc.Schema(quasi=["x", "colour"]), 4)
    added = session.add({"x": [1.0, 2.0, 3.0], "colour": ["mauve", "red", "teal"]}, repeated="keep")
    assert dict(added.unknown_categories) == {"colour": 2}
    release = session.finish()
    assert "mauve" not in json.dumps(release.manifest.as_dict())
    mc.audit(
        {
            n: [*base[n], *e]
            for n, e in (("x", [1.0, 2.0, 3.0]), ("colour", ["mauve", "red", "teal"]))
        },
        release.table,
        mc.Schema(quasi=["x", "colour"]),
    ).require(k=4)


def test_columns_constant_in_the_base_are_ignored_in_distances():
    base = {"x": np.arange(20.0), "y": np.ones(20)}
    session = mc.increments.start(base, mc.Schema(quasi=["x", "y"]), 4)
    session.add({"x": np.arange(8.0), "y": np.arange(8.0)}, repeated="keep")
    assert session.state.points.matrix.shape == (28, 1)
    assert min(Counter(session.finish().table["y"].tolist()).values()) >= 4


def test_integers_and_floats_are_combined():
    session = mc.increments.start({"x": np.arange(12)}, mc.Schema(quasi=["x"]), 3)
    session.add({"x": [0.5, 1.5, 2.5]}, repeated="keep")
    assert session.finish().table["x"].dtype == np.float64


def test_time_limits_are_shared_among_strata(monkeypatch):
    efforts = []
    add = mc.increments.joining.add_batch

    def recorded(*arguments, **options):
        efforts.append(options["effort"])
        return add(*arguments, **{**options, "effort": "fast"})

    monkeypatch.setattr(mc.increments.joining, "add_batch", recorded)
    schema = mc.Schema(quasi=["x"], strata=["s"])
    session = mc.increments.start(
        {"x": np.arange(40.0), "s": np.arange(40) % 2}, schema, 4, effort=0.2
    )
    session.add(
        {"x": np.arange(12.0), "s": np.arange(12) % 3 // 2}, strategy="separate", repeated="keep"
    )
    assert efforts == pytest.approx([0.2 * 8 / 12, 0.2 * 4 / 12])


def test_k_as_a_numpy_integer(tmp_path):
    session = mc.increments.start(make_people(20), SCHEMA, np.int64(4), seed=np.int32(2))
    mc.publish(session.finish(), tmp_path / "out.csv")
    manifest = json.loads((tmp_path / "out.csv.manifest.json").read_text(encoding="utf-8"))
    assert (manifest["k"], manifest["seed"]) == (4, 2)


def test_manifest_and_repr_contain_no_value():
    people = {"town": ["Zqxwv"] * 6 + ["Plugh"] * 6, "x": [918273.5 + i for i in range(12)]}
    session = mc.increments.start(people, mc.Schema(quasi=["town", "x"]), 3)
    session.add({"town": ["Xyzzy"], "x": [918273.25]})
    text = json.dumps(session.finish().manifest.as_dict())
    assert not any(value in text for value in ("Zqxwv", "Plugh", "Xyzzy", "918273"))
    # The record of a small batch could be found by trying digests.
    assert session.batches[1].digest not in text
    text = repr(session) + repr(session.batches) + repr(session.state)
    assert not any(value in text for value in ("Zqxwv", "Plugh", "Xyzzy", "918273"))
    assert len(text) < 600


def test_publish_writes_release_report_and_certificate(tmp_path):
    session = mc.increments.start(make_people(40), SCHEMA, 4)
    session.add(make_people(10, seed=2))
    with raises(mc.errors.OptionError, "option.unsupported"):
        session.publish(tmp_path / "out.csv", report=tmp_path / "out.csv")
    assert not session.finished
    session.publish(
        tmp_path / "out.csv", report=tmp_path / "out.html", certificate=tmp_path / "out.pdf"
    )
    assert session.finished
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"out.csv", "out.csv.manifest.json", "out.html", "out.pdf"}
