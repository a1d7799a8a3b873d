"""Anonymizing data sets in this process; test_dask.py uses a cluster."""

import json
import os
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import microcell as mc
from microcell.dask import anonymize_dataset, stages
from microcell.errors import (
    DataError,
    GuaranteeError,
    OptionError,
    SchemaError,
    TableError,
    TooFewRecordsError,
)
from microcell.model import Column, Schema
from microcell.release import manifest_path
from tests.dask.running import SCHEMA, contents, pa, people, read_release, run, write_files
from tests.raising import raises


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_files(
        tmp_path_factory.mktemp("source") / "in", [people(500, 1), people(700, 2), people(300, 3)]
    )


@pytest.fixture(scope="module")
def release(folder, tmp_path_factory):
    return run(folder, SCHEMA, tmp_path_factory.mktemp("release") / "out")


def originals(folder):
    return pa.concat_tables(
        [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    ).to_pylist()


def test_the_release_is_k_anonymous_and_complete(folder, release):
    rows, before = read_release(release.path), originals(folder)
    classes = Counter((row["age"], row["height"], row["sex"]) for row in rows)
    assert min(classes.values()) == release.k >= 5
    assert len(classes) == release.manifest.cells.classes > 200
    assert set(rows[0]) == {"age", "height", "sex", "income", "note"}
    notes = {row["income"]: row["note"] for row in before}
    assert {row["income"]: row["note"] for row in rows} == notes
    assert len(rows) == len(notes) == release.manifest.records.released == 1500


def test_cells_publish_the_means_of_their_records(folder, release):
    """Each class publishes the means of its records, which are identified by their incomes."""
    before, classes = {row["income"]: row for row in originals(folder)}, {}
    for row in read_release(release.path):
        classes.setdefault((row["age"], row["height"], row["sex"]), []).append(
            before[row["income"]]
        )
    for (age, height, sex), members in classes.items():
        assert abs(np.mean([row["height"] for row in members]) - height) <= 0.0501
        assert abs(np.mean([row["age"] for row in members]) - age) <= 0.5001
        assert sex in {row["sex"] for row in members}


def test_distortion_is_that_of_the_points(folder, release):
    """Compare with SSE / SST computed by hand, with records matched by income."""
    before = originals(folder)
    X = np.array(
        [
            [row["age"], row["height"], *((row["sex"] == s) / np.sqrt(2) for s in "fmx")]
            for row in before
        ]
    )
    X[:, :2] = (X[:, :2] - X[:, :2].mean(axis=0)) / X[:, :2].std(axis=0)
    at = {row["income"]: place for place, row in enumerate(before)}
    cells, sse = {}, 0.0
    for row in read_release(release.path):
        cells.setdefault((row["age"], row["height"], row["sex"]), []).append(at[row["income"]])
    for members in cells.values():
        sse += ((X[members] - X[members].mean(axis=0)) ** 2).sum()
    assert len(cells) == release.manifest.cells.count  # so that classes are cells
    assert release.manifest.cells.sse_ratio == pytest.approx(
        sse / ((X - X.mean(axis=0)) ** 2).sum(), rel=1e-9
    )


def test_the_directory_is_complete_and_nothing_is_left(release):
    names = sorted(path.name for path in release.path.iterdir())
    assert names[0] == "_SUCCESS"
    assert len(names) == 1 + release.manifest.cells.macrocells > 4
    assert all(name.startswith("part-") and name.endswith(".parquet") for name in names[1:])
    beside = sorted(path.name for path in release.path.parent.iterdir())
    assert beside == ["out", "out.manifest.json"]
    manifest = json.loads(manifest_path(release.path).read_text())
    assert manifest["k"] == 5
    assert manifest["input"]["rows"] == 1500
    assert "person" not in manifest_path(release.path).read_text()


def test_row_positions_reveal_nothing(release):
    for path in sorted(release.path.glob("part-*")):
        incomes = pq.read_table(path).column("income").to_pylist()
        assert incomes != sorted(incomes)
        falls = np.mean(np.diff(incomes) < 0)
        assert 0.35 < falls < 0.65


def test_one_macrocell_equals_in_memory(folder, tmp_path):
    result = run(folder, SCHEMA, tmp_path / "out", macrocell=10_000)
    table = pa.concat_tables([pq.read_table(path) for path in sorted(folder.iterdir())])
    expected = mc.anonymize(table, SCHEMA, k=5, effort="fast")
    one, other = (
        sorted(tuple(row.values()) for row in rows)
        for rows in (read_release(result.path), expected.table.to_pylist())
    )
    assert one == other
    assert result.manifest.cells.sse_ratio == pytest.approx(
        expected.manifest.cells.sse_ratio, rel=1e-9
    )


@pytest.mark.parametrize("weight", [None, "w"])
def test_information_loss_equals_the_audit(tmp_path, weight):
    """Compare all column kinds in several macrocells with an audit that matches rows by a key."""
    rng, n = np.random.default_rng(2), 600
    towns = [f"{code:05d}" for code in rng.integers(81_000, 81_999, 60)]
    table = people(n, 1) | {
        "born": pa.array(rng.integers(0, 20_000, n).astype("int32"), pa.date32()),
        "town": rng.choice(towns, n),
        "grade": rng.integers(1, 6, n),
        "level": rng.choice(["low", "mid", "high"], n),
        "lat": rng.normal(48, 0.5, n),
        "lon": rng.normal(11, 0.5, n),
        "same": np.ones(n),
        "w": rng.uniform(0.5, 2, n),
    }
    table["height"] = pa.array(table["height"], mask=rng.random(n) < 0.1)
    quasi = [
        Column("age", publish="range"),
        Column("height", publish="median", weight=3.0),
        "sex",
        "born",
        Column("town", kind="code"),
        Column("grade", kind="ordinal"),
        Column("level", order=("low", "mid", "high")),
        Column("home", kind="location", latitude="lat", longitude="lon"),
        "same",
    ]
    schema = Schema(quasi=quasi, keep=["income"], weight=weight, rest="drop")
    source = write_files(tmp_path / "in", [table])
    result = run(source, schema, tmp_path / "out", missing="impute")
    assert result.manifest.cells.macrocells > 1
    after = pa.concat_tables([pq.read_table(path) for path in sorted(result.path.glob("part-*"))])
    audit = mc.audit(pa.table(table), after, schema, key="income")
    assert audit["k"] == result.k
    assert result.manifest.information_loss == pytest.approx(audit["information_loss"], rel=1e-9)


def test_seams_are_refined(tmp_path):
    rng = np.random.default_rng(0)
    source = write_files(
        tmp_path / "in", [{f"x{j}": rng.normal(size=2000) for j in range(4)} for _ in range(2)]
    )
    schema = Schema(quasi=[f"x{j}" for j in range(4)])
    result = [
        run(source, schema, tmp_path / f"out{seams}{macro}", macrocell=macro, seams=seams)
        for seams, macro in ((0, 500), (2, 500), (0, 5000))
    ]
    unrefined, refined, exact = (item.manifest.cells.sse_ratio for item in result)
    assert refined - exact < (unrefined - exact) / 2


def test_the_same_seed_and_key_give_the_same_files(folder, release, tmp_path):
    key = release.manifest.order_key
    again = run(folder, SCHEMA, tmp_path / "again", order_key=key)
    assert contents(again.path) == contents(release.path)
    shuffled = run(folder, SCHEMA, tmp_path / "shuffled")
    assert contents(shuffled.path) != contents(release.path)
    other = run(folder, SCHEMA, tmp_path / "other", seed=1, order_key=key)
    assert contents(other.path) != contents(release.path)


def test_strata_weights_and_missing_values(tmp_path):
    rng = np.random.default_rng(0)
    tables = []
    for seed, rows in ((1, 800), (2, 500)):
        table = people(rows, seed)
        table["height"] = pa.array(table["height"], mask=rng.random(rows) < 0.05)
        table["region"] = rng.choice(["north", "south", None], rows, p=[0.8, 0.15, 0.05])
        table["w"] = rng.uniform(0.5, 2, rows)
        tables.append(table)
    source = write_files(tmp_path / "in", tables)
    schema = replace(SCHEMA, strata=["region"], weight="w")
    with raises(DataError, "data.missing_values", file="file0.parquet"):
        run(source, schema, tmp_path / "out")
    dropped = run(source, schema, tmp_path / "dropped", missing="drop", macrocell=200)
    imputed = run(source, schema, tmp_path / "imputed", missing="impute", macrocell=200)
    before = {row["income"]: row for row in originals(source)}
    whole = sum(row["height"] is not None for row in before.values())
    records = dropped.manifest.records
    assert (records.read, records.released, records.dropped) == (1300, whole, 1300 - whole)
    assert imputed.manifest.records.released == 1300
    for result in (dropped, imputed):
        rows = read_release(result.path)
        classes = Counter((row["age"], row["height"], row["sex"], row["region"]) for row in rows)
        assert min(classes.values()) == result.k >= 5
        assert all(before[row["income"]]["region"] == row["region"] for row in rows)
        assert all(before[row["income"]]["w"] == row["w"] for row in rows)
    with raises(TooFewRecordsError, "guarantee.stratum_too_small", strata=1, k=100):
        run(source, schema, tmp_path / "out", missing="impute", k=100)


def test_a_file_without_a_complete_record(tmp_path):
    gone = people(50, 2) | {"height": pa.array([None] * 50, pa.float64())}
    source = write_files(tmp_path / "in", [people(300, 1), gone, people(200, 3)])
    result = run(source, SCHEMA, tmp_path / "out", missing="drop", macrocell=200)
    records = result.manifest.records
    assert (records.read, records.released, records.dropped) == (550, 500, 50)
    imputed = run(source, SCHEMA, tmp_path / "imputed", missing="impute", macrocell=200)
    assert imputed.manifest.records.released == 550


def test_rows_of_two_releases_cannot_be_matched(folder, tmp_path):
    """Another schema gives another row order, even for the same records in one macrocell."""
    other = replace(SCHEMA, quasi=["age", "height"], keep=["note", "sex"])
    orders = [
        [
            row["income"]
            for row in read_release(run(folder, schema, tmp_path / name, macrocell=10_000).path)
        ]
        for name, schema in (("one", SCHEMA), ("other", other))
    ]
    assert sorted(orders[0]) == sorted(orders[1])
    assert np.mean(np.array(orders[0]) == np.array(orders[1])) < 0.02


def test_text_files(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    for seed in (1, 2):
        table = people(400, seed) | {
            "code": [f"{row % 90 + 10}" + ("x" if seed == 2 else "") for row in range(400)]
        }
        pyarrow.csv.write_csv(pa.table(table), source / f"file{seed}.csv")
    schema = replace(
        SCHEMA, quasi=["age", "height", Column("code", kind="code")], keep=["note", "sex"]
    )
    result = run(str(source / "*.csv"), schema, tmp_path / "out", macrocell=300)
    rows = [
        row
        for path in sorted(result.path.glob("*.csv"))
        for row in pyarrow.csv.read_csv(path).to_pylist()
    ]
    classes = Counter((row["age"], row["height"], str(row["code"])) for row in rows)
    assert min(classes.values()) == result.k >= 5
    assert len(rows) == 800


def test_all_files_write_timestamps_in_the_same_format(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    lines = [
        f"{row % 90},{row % 7},2024-05-0{row % 9 + 1}T{'09' if row == 0 else '00'}:00:00"
        for row in range(800)
    ]
    (source / "all.csv").write_text("\n".join(["age,height,seen", *lines]), encoding="utf-8")
    result = run(
        source,
        Schema(quasi=["age", "height"], confidential=["seen"]),
        tmp_path / "out",
        macrocell=300,
    )
    files = [
        path.read_text(encoding="utf-8").splitlines()[1:]
        for path in sorted(result.path.glob("*.csv"))
    ]
    assert len(files) > 1
    assert all("T" in line for lines in files for line in lines)


def test_a_constant_table_and_equal_records(tmp_path):
    source = write_files(
        tmp_path / "in",
        [{"a": np.ones(900), "b": ["x"] * 900}, {"a": np.ones(300), "b": ["x"] * 300}],
    )
    result = run(source, Schema(quasi=["a", "b"]), tmp_path / "out", macrocell=300)
    assert result.k == 1200
    assert result.manifest.cells.sse_ratio == 0
    assert result.manifest.cells.macrocells > 1


# ------------------------------------------------------------------------------------ invalid input


def test_an_empty_file_among_many(folder, tmp_path):
    tables = [
        people(500, 1),
        {name: values[:0] for name, values in people(3, 1).items()},
        people(300, 2),
    ]
    tables[1]["sex"] = pa.array([], pa.null())
    source = write_files(tmp_path / "in", tables)
    assert run(source, SCHEMA, tmp_path / "out").manifest.records.read == 800
    (source / "file9.parquet").touch()
    with raises(TableError, "table.malformed", path=str(source / "file9.parquet")):
        run(source, SCHEMA, tmp_path / "out2")


def test_files_with_different_columns_or_types(tmp_path):
    first, second = people(300, 1), people(300, 2)
    lacking = {name: values for name, values in second.items() if name != "height"}
    texts = [f"secret {row}" for row in range(300)]
    for number, (other, column, file) in enumerate(
        (
            (lacking, "height", "file1.parquet"),
            (second | {"extra": second["age"]}, "extra", "file0.parquet"),
            (second | {"age": texts}, "age", "file1.parquet"),
        )
    ):
        source = write_files(tmp_path / f"in{number}", [first, other])
        with raises(SchemaError, "table.mismatch", column=column, file=file) as caught:
            run(source, SCHEMA, tmp_path / "out")
        assert "secret" not in str(caught.value)
    wider = second | {
        "age": second["age"] + 0.5,
        "name": pa.array(second["name"]).dictionary_encode(),
    }
    result = run(write_files(tmp_path / "wider", [first, wider]), SCHEMA, tmp_path / "out")
    assert {pq.read_schema(path).field("age").type for path in result.path.glob("part-*")} == {
        pa.float64()
    }


def test_values_that_do_not_fit_the_common_type(tmp_path):
    large = people(10, 1) | {"age": np.full(10, 2**60 + 1)}
    source = write_files(tmp_path / "in", [people(10, 2) | {"age": np.arange(10) + 0.5}, large])
    with raises(DataError, "table.mismatch", column="age", file="file1.parquet") as caught:
        run(source, SCHEMA, tmp_path / "out")
    assert str(2**60 + 1) not in str(caught.value)


def test_invalid_values_are_reported_by_file_and_row(tmp_path):
    wrong = people(300, 2)
    wrong["height"][6] = np.inf
    with raises(DataError, "data.not_finite", file="file1.parquet", column="height", row=7):
        run(write_files(tmp_path / "in", [people(300, 1), wrong]), SCHEMA, tmp_path / "out")


def test_ordered_categories_need_an_order(tmp_path):
    grades = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 20), ["low", "high"], ordered=True)
    source = write_files(tmp_path / "in", [{"grade": grades, "x": np.arange(40)}])
    with raises(SchemaError, "schema.category_order", column="grade"):
        run(source, Schema(quasi=["grade", "x"]), tmp_path / "out")
    schema = Schema(quasi=[Column("grade", order=("low", "high")), "x"])
    assert run(source, schema, tmp_path / "out").k >= 5


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("nowhere", "table.not_found"),
        ("nowhere/*.parquet", "table.not_found"),
        ("mixed", "table.mismatch"),
        ("hive", "table.unknown_format"),
        ("unsupported", "table.unknown_format"),
    ],
)
def test_invalid_sources(tmp_path, source, code):
    for name in (
        "mixed/a.csv",
        "mixed/b.parquet",
        "hive/year=1/a.parquet",
        "unsupported/a.sav",
        "mixed/_note.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with raises(TableError, code):
        run(tmp_path / source, SCHEMA, tmp_path / "out")


def test_outputs_that_exist(folder, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    for replaced in (False, True):
        with raises(TableError, "table.exists"):
            run(folder, SCHEMA, tmp_path / "mine", replace=replaced)
    with raises(TableError, "table.unwritable"):
        run(folder, SCHEMA, tmp_path / "no" / "out")
    first = run(folder, SCHEMA, tmp_path / "out")
    with raises(TableError, "table.exists"):
        run(folder, SCHEMA, tmp_path / "out")
    second = run(folder, SCHEMA, tmp_path / "out", replace=True, seed=5)
    assert first.path == second.path
    assert json.loads((tmp_path / "out.manifest.json").read_text())["seed"] == 5
    with raises(TableError, "table.exists"):
        run(tmp_path / "out", Schema(quasi=["age"], rest="keep"), tmp_path / "out", replace=True)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["mine", "out", "out.manifest.json"]


def test_too_few_records(tmp_path):
    source = write_files(tmp_path / "in", [people(4, 1)])
    with raises(TooFewRecordsError, "guarantee.too_few_records", records=4):
        run(source, SCHEMA, tmp_path / "out")
    empty = write_files(
        tmp_path / "empty", [{name: values[:0] for name, values in people(4, 1).items()}]
    )
    with raises(TooFewRecordsError, "guarantee.too_few_records", records=0):
        run(empty, SCHEMA, tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"dependence": 2}, None),
        ({"cells": True}, "option.unsupported"),
        ({"blocks": 2}, "option.unsupported"),
        ({"require": {"linkage": 0.1}}, "option.unsupported"),
        ({"effort": 3.0}, "option.unsupported"),
        ({"k": 1}, None),
        ({"macrocell": 5}, "option.out_of_range"),
        ({"seams": -1}, "option.out_of_range"),
        ({"missing": "guess"}, None),
        ({"method": "none"}, None),
        ({"fast": True}, None),
        ({"workers": 0}, "option.out_of_range"),
        ({"scheduler": 8786}, "option.wrong_type"),
        ({"memory": "much"}, "option.out_of_range"),
        ({"scratch": "nowhere/at/all"}, "option.invalid"),
        ({"memory": "1GB", "scheduler": "tcp://127.0.0.1:9"}, "option.conflict"),
        ({"workers": 2, "scheduler": "tcp://127.0.0.1:9"}, "option.conflict"),
    ],
)
def test_invalid_options_are_rejected(folder, tmp_path, options, code):
    with pytest.raises(OptionError) as caught:
        anonymize_dataset(folder, SCHEMA, **{"k": 5, "output": tmp_path / "out", **options})
    assert code is None or caught.value.code == code
    assert code is None or caught.value.details["option"] == next(iter(options))
    assert list(tmp_path.iterdir()) == []


def test_an_invalid_source_type(tmp_path):
    with raises(OptionError, "option.wrong_type", option="source"):
        anonymize_dataset(5, SCHEMA, k=5, output=tmp_path / "out")


# -------------------------------------------------------------------------------- failures


def test_a_failure_leaves_nothing_behind(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "count_classes", None)
    monkeypatch.setattr("microcell.dask.release.count_classes", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(folder, SCHEMA, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_release_that_is_not_k_anonymous_is_rejected(folder, tmp_path, monkeypatch):
    """A written file is modified so that one record has a unique age."""
    make = stages.build_cells

    def tamper(engine, job, opened, request):
        published = make(engine, job, opened, request)
        path = job.target / published[0].name
        table = pq.read_table(path)
        ages = table.column("age").to_pylist()
        pq.write_table(
            table.set_column(table.schema.get_field_index("age"), "age", [[*ages[:-1], 999]]), path
        )
        return published

    monkeypatch.setattr("microcell.dask.release.build_cells", tamper)
    with raises(GuaranteeError, "guarantee.failed", class_size=1, k=5):
        run(folder, SCHEMA, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_classes_are_counted_across_files(tmp_path):
    """Three values in many macrocells form classes that span files."""
    source = write_files(
        tmp_path / "in", [{"a": np.repeat([1, 2, 3], 400), "b": np.tile(["x", "y"], 600)}]
    )
    result = run(source, Schema(quasi=["a"], keep=["b"]), tmp_path / "out", macrocell=100)
    assert result.manifest.cells.macrocells > 4
    assert result.manifest.cells.classes == 3
    assert result.k == 400


def test_leftovers_of_a_dead_worker_are_not_published(folder, tmp_path, monkeypatch):
    make = stages.build_cells

    def leave(engine, job, opened, request):
        (job.target / ".part-000000.parquet.abcd.partial").write_text("half")
        return make(engine, job, opened, request)

    monkeypatch.setattr("microcell.dask.release.build_cells", leave)
    result = run(folder, SCHEMA, tmp_path / "out")
    assert not [name for name in os.listdir(result.path) if name.startswith(".")]
