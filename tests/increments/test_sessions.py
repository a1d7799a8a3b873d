"""Sessions in memory: their cells against points worked out by hand, and what must hold after every step."""

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import microcell as mc
from microcell.errors import DataError, GuaranteeError, TooFewRecordsError
from microcell.methods import add_batch
from microcell.methods.increments import STRATEGIES

SCHEMA = mc.Schema(quasi=["a", "b", "c"], keep=["id"])
WAYS = [(strategy, inertial) for strategy in STRATEGIES for inertial in (False, True)]


def make_people(n, seed=0, shift=0.0):
    """Numbers on scales of their own, and an id that is published, by which rows can be followed."""
    X = np.random.default_rng(seed).normal(size=(n, 3)) + shift
    return {"a": X[:, 0] * 100 + 7, "b": X[:, 1] * 0.001, "c": X[:, 2] * 3e5, "id": np.arange(n)}


def rows_of(table, rows):
    return {name: np.asarray(column)[rows] for name, column in table.items()}


def matrix_of(table):
    return np.column_stack([table[name] for name in "abc"])


def joined(*parts):
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def classes_of(release):
    """Which ids are in one class, as a set of sets."""
    labels, ids = release.partition.labels, np.asarray(release.table["id"])
    return {frozenset(ids[labels == cell].tolist()) for cell in range(len(release.partition))}


@pytest.mark.parametrize(("strategy", "inertial"), WAYS)
def test_cells_are_those_of_the_points_in_the_scale_of_the_base(strategy, inertial):
    base, batch = make_people(150), make_people(40, seed=1, shift=0.3)
    session = mc.increments.start(base, SCHEMA, 5, method="mdav")
    session.add(batch, strategy=strategy, inertial=inertial)
    mean, deviation = matrix_of(base).mean(axis=0), matrix_of(base).std(axis=0)
    old, new = ((matrix_of(part) - mean) / deviation for part in (base, batch))
    own = {"method": "mdav"} if strategy == "separate" else {}
    first = mc.partition(old, 5, method="mdav").labels
    expected = add_batch(old, first, new, 5, strategy=strategy, inertial=inertial, **own).labels
    np.testing.assert_allclose(session.state.points.matrix, np.vstack([old, new]), atol=1e-12)
    assert session.finish().partition.labels.tolist() == expected.tolist()


def test_what_is_published_is_the_mean_of_each_cell_and_distortion_is_that_of_the_whole():
    base, batch = make_people(100), make_people(30, seed=1, shift=2.0)
    session = mc.increments.start(base, SCHEMA, 4)
    session.add(batch, strategy="split-late")
    release, whole = session.finish(), joined(base, batch)
    points = matrix_of(whole)
    labels = release.partition.labels
    for name in "abc":
        means = [whole[name][labels == cell].mean() for cell in labels]
        np.testing.assert_allclose(release.table[name], means, rtol=1e-12)
    scaled = (points - points.mean(axis=0)) / points.std(axis=0)
    within = sum(
        ((scaled[labels == c] - scaled[labels == c].mean(axis=0)) ** 2).sum()
        for c in np.unique(labels)
    )
    assert release.manifest.cells.sse_ratio == pytest.approx(within / (scaled**2).sum(), rel=1e-9)
    assert release.table["id"].tolist() == whole["id"].tolist()
    assert mc.audit(whole, release.table, SCHEMA).require(k=4)["distortion"] == pytest.approx(
        release.manifest.information_loss
    )


def test_without_a_batch_it_is_what_anonymize_gives():
    people, schema = mc.sample_survey(150), mc.sample_schema()
    release, expected = (
        mc.increments.start(people, schema, 5, method="mdav").finish(),
        mc.anonymize(people, schema, k=5, method="mdav"),
    )
    assert release.partition.labels.tolist() == expected.partition.labels.tolist()
    same = {
        name: value
        for name, value in expected.manifest.as_dict().items()
        if name not in ("created", "seconds")
    }
    assert {name: release.manifest[name] for name in same} == same
    for name, column in expected.table.items():
        assert release.table[name].tolist() == column.tolist()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_several_batches_are_added_one_after_the_other(strategy):
    people = mc.sample_survey(160)
    cuts = (0, 100, 101, 130, 160)
    parts = [rows_of(people, slice(*cut)) for cut in pairwise(cuts)]
    session = mc.increments.start(parts[0], mc.sample_schema(), 5, method="mdav")
    for part in parts[1:]:
        session.add(part, strategy=strategy)
    release = session.finish()
    told = release.manifest.method
    assert [batch["records"] for batch in (told["base"], *told["batches"])] == [100, 1, 29, 30]
    assert {batch["strategy"] for batch in told["batches"]} == {strategy}
    assert release.manifest.input.rows == 160
    assert release.manifest.records == {"in": 160, "out": 160, "dropped": 0}
    mc.audit(people, release.table, mc.sample_schema()).require(k=5)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("strata", [(), ("s",)], ids=["whole", "strata"])
def test_the_order_of_a_batch_does_not_matter(strategy, strata):
    schema = mc.Schema(quasi=["a", "b", "c"], keep=["id"], strata=strata, rest="drop")
    base, batch = make_people(90), make_people(37, seed=5)
    base["s"], batch["s"] = (
        np.arange(90) % 2,
        np.arange(37) % 3,
    )  # the third is new, and waits for k records
    batch["id"] = batch["id"] + 90
    found = []
    for seed in range(3):
        session = mc.increments.start(base, schema, 5, method="anneal", steps=50)
        session.add(rows_of(batch, np.random.default_rng(seed).permutation(37)), strategy=strategy)
        found.append(classes_of(session.finish()))
    assert found[0] == found[1] == found[2]


def test_the_order_does_not_matter_either_where_a_stratum_gets_its_first_cells():
    schema = mc.Schema(quasi=["a", "b", "c"], keep=["id"], strata=["s"])
    base, batch = (
        make_people(20) | {"s": np.zeros(20)},
        make_people(150, seed=2) | {"s": np.ones(150)},
    )
    found = []
    for seed in range(3):
        session = mc.increments.start(
            base, schema, 5, method="anneal", steps=5
        )  # too few for chance not to show
        session.add(rows_of(batch, np.random.default_rng(seed).permutation(150)))
        found.append(classes_of(session.finish()))
    assert found[0] == found[1] == found[2]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_k_holds_after_every_step(data):
    k = data.draw(st.integers(2, 5))
    sizes = [data.draw(st.integers(k, 30)), *data.draw(st.lists(st.integers(1, 15), max_size=4))]
    levels, groups = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n = sum(sizes)
    people = {  # few values: constants and equal records are among them
        "x": random.integers(levels, size=n),
        "y": random.normal(size=n).round(1),
        "s": random.integers(groups, size=n),
        "w": random.uniform(0.5, 2, size=n),
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
        way = {
            "strategy": data.draw(st.sampled_from(list(STRATEGIES))),
            "inertial": data.draw(st.booleans()),
        }
        before = session.state.labels
        session.add(rows_of(people, slice(done, done + size)), **way)
        done += size
        check_step(session.state.labels, people["s"][:done], k)
        assert (
            session.state.labels[: len(before)][before >= 0] >= 0
        ).all()  # who has a cell keeps having one
    counts = Counter(people["s"].tolist())
    if min(counts.values()) < k:
        with pytest.raises(
            TooFewRecordsError,
            match=f"{sum(c < k for c in counts.values())} of {len(counts)} strata",
        ):
            session.finish()
        return
    release = session.finish()
    assert release.table["id"].tolist() == list(range(n))
    assert (
        min(Counter(zip(*(release.table[name].tolist() for name in "xys"), strict=True)).values())
        >= k
    )


def check_step(labels, strata, k):
    """All cells have k records of one stratum, and only records of strata with fewer wait."""
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
def test_the_release_is_in_the_kind_of_frame_that_came_in(kind):
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


def test_files_are_read(tmp_path):
    people = make_people(60)
    for name, rows in (("base", slice(0, 40)), ("batch", slice(40, 60))):
        pl.DataFrame(rows_of(people, rows)).write_csv(tmp_path / f"{name}.csv")
    session = mc.increments.start(tmp_path / "base.csv", SCHEMA, 4)
    session.add(tmp_path / "batch.csv")
    written = mc.publish(session.finish(), tmp_path / "out.csv")
    assert written.manifest.input.sha256_of == "contents"
    pl.DataFrame(people).write_parquet(tmp_path / "all.parquet")
    found = mc.audit(tmp_path / "all.parquet", tmp_path / "out.csv", SCHEMA)
    assert found.require(k=4)["distortion"] == pytest.approx(written.manifest.information_loss)
    with pytest.raises(mc.errors.TableError, match="also an input"):
        mc.publish(session.finish(), tmp_path / "base.csv")


def test_a_session_is_finished_once():
    session = mc.increments.start(make_people(40), SCHEMA, 4)
    assert not session.finished
    release = session.finish()
    assert session.finish() is release
    assert session.finished
    with pytest.raises(GuaranteeError, match=r"laid beside the first.*nothing can be added"):
        session.add(make_people(10, seed=3))
    assert session.records == 40


def test_a_release_that_cannot_be_made_yet_leaves_the_session_open():
    people = {"x": np.arange(30.0), "s": np.array(["north"] * 28 + ["south"] * 2)}
    schema = mc.Schema(quasi=["x"], strata=["s"])
    session = mc.increments.start(people, schema, 5)
    assert session.waiting == 2
    with pytest.raises(TooFewRecordsError, match=r"1 of 2 strata .* the smallest has 2") as error:
        session.finish()
    assert "south" not in str(error.value)
    session.add({"x": [1.0, 2.0, 3.0], "s": ["south"] * 3}, strategy="nearest")
    assert session.waiting == 0
    assert len(session.finish().table["x"]) == 33


@pytest.mark.parametrize(("missing", "out"), [("drop", 25), ("impute", 30)])
def test_records_that_lack_a_quasi_identifier_are_handled_as_anonymize_does(missing, out):
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
    gaps = {"imputed": 5} if missing == "impute" else {}
    assert release.manifest.records == {
        "in": 30,
        "out": len(kept),
        "dropped": 30 - len(kept),
        **gaps,
    }
    mc.audit({n: c[:30] for n, c in people.items()}, release.table, schema).require(k=3)


def test_a_batch_of_which_nothing_is_kept_changes_no_cell():
    session = mc.increments.start({"x": np.arange(10.0)}, mc.Schema(quasi=["x"]), 3, missing="drop")
    before = session.state.labels.tolist()
    assert session.add({"x": [None, None]}).kept == 0
    assert session.state.labels.tolist() == before
    assert session.finish().manifest.records.dropped == 2


def test_weights_count():
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


def test_a_weight_is_asked_of_records_that_are_released_only():
    schema = mc.Schema(quasi=["x"], weight="w")
    session = mc.increments.start({"x": np.arange(9.0), "w": np.ones(9)}, schema, 3, missing="drop")
    assert session.add({"x": [1.0, np.nan], "w": [1.0, np.nan]}).kept == 1
    with pytest.raises(DataError, match="1 rows of the batch do not, the first is row 3"):
        session.add({"x": [1.0, np.nan, 2.0], "w": [1.0, np.nan, np.nan]})
    assert session.finish().manifest.records == {"in": 11, "out": 10, "dropped": 1}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_base_in_which_all_columns_are_constant(tmp_path, strategy):
    base, schema = {"x": [1.0] * 6, "sex": ["f"] * 6}, mc.Schema(quasi=["x", "sex"])
    batches = ({"x": [1.0], "sex": ["f"]}, {"x": [1.0, 5.0, 9.0, 2.0], "sex": ["f", "m", "m", "f"]})
    session, stored = (
        mc.increments.start(base, schema, 3),
        mc.increments.StoredSession.create(tmp_path / "state", base, schema, 3),
    )
    for batch in batches:
        session.add(batch, strategy=strategy)
        stored.add(batch, strategy=strategy)
    release = session.finish()
    assert release.manifest.records.released == 11
    mc.audit(joined(base, *batches), release.table, schema).require(k=3)
    assert stored.finish().partition.labels.tolist() == release.partition.labels.tolist()


def test_new_categories_are_placed_and_counted():
    base = {"x": np.arange(20.0), "colour": ["red", "blue"] * 10}
    session = mc.increments.start(base, mc.Schema(quasi=["x", "colour"]), 4)
    added = session.add({"x": [1.0, 2.0, 3.0], "colour": ["mauve", "red", "teal"]})
    assert dict(added.strange) == {"colour": 2}
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


def test_a_column_that_is_constant_in_the_base_has_no_part_in_distances():
    base = {"x": np.arange(20.0), "y": np.ones(20)}
    session = mc.increments.start(base, mc.Schema(quasi=["x", "y"]), 4)
    session.add({"x": np.arange(8.0), "y": np.arange(8.0)})
    assert session.state.points.matrix.shape == (28, 1)
    assert min(Counter(session.finish().table["y"].tolist()).values()) >= 4


def test_whole_numbers_and_others_go_together():
    session = mc.increments.start({"x": np.arange(12)}, mc.Schema(quasi=["x"]), 3)
    session.add({"x": [0.5, 1.5, 2.5]})
    assert session.finish().table["x"].dtype == np.float64


def test_a_limit_of_seconds_is_shared_among_strata(monkeypatch):
    efforts = []
    add = mc.increments.session.add_batch

    def heard(*given, **options):
        efforts.append(options["effort"])
        return add(*given, **{**options, "effort": "fast"})

    monkeypatch.setattr(mc.increments.session, "add_batch", heard)
    schema = mc.Schema(quasi=["x"], strata=["s"])
    session = mc.increments.start(
        {"x": np.arange(40.0), "s": np.arange(40) % 2}, schema, 4, effort=0.2
    )
    session.add({"x": np.arange(12.0), "s": np.arange(12) % 3 // 2}, strategy="separate")
    assert efforts == pytest.approx([0.2 * 8 / 12, 0.2 * 4 / 12])


def test_k_may_be_a_number_of_numpy(tmp_path):
    session = mc.increments.start(make_people(20), SCHEMA, np.int64(4), seed=np.int32(2))
    mc.publish(session.finish(), tmp_path / "out.csv")
    manifest = json.loads((tmp_path / "out.csv.manifest.json").read_text(encoding="utf-8"))
    assert (manifest["k"], manifest["seed"]) == (4, 2)


def test_no_value_is_in_the_manifest():
    people = {"town": ["Zqxwv"] * 6 + ["Plugh"] * 6, "x": [918273.5 + i for i in range(12)]}
    session = mc.increments.start(people, mc.Schema(quasi=["town", "x"]), 3)
    session.add({"town": ["Xyzzy"], "x": [918273.25]})
    text = json.dumps(session.finish().manifest.as_dict())
    assert not any(value in text for value in ("Zqxwv", "Plugh", "Xyzzy", "918273"))
    assert session.batches[1].digest not in text  # of one record, it could be tried out
