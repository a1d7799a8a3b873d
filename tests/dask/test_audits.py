"""Audit of a data set compared with the audit in memory, and the choice of the engine."""

import json
import sys

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import microcell as mc
from microcell.dask.audit import audit_files
from microcell.dask.cluster import LocalEngine
from microcell.dask.sources import find_files
from microcell.errors import OptionError, SchemaError, TableError
from microcell.model import Schema
from microcell.release import find_manifest, manifest_path
from tests.dask.running import SCHEMA, pa, people, run, write_files
from tests.raising import raises


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("source") / "in", [people(500, 1), people(400, 2)])


@pytest.fixture
def release(source, tmp_path):
    return run(source, SCHEMA, tmp_path / "out", macrocell=300)


def audit(source, released, work, schema=SCHEMA, manifest=None):
    work.mkdir()
    statement = find_manifest(manifest, released)
    files = find_files(source), find_files(released)
    return audit_files(LocalEngine(), *files, schema, statement, work)


def read_all(folder):
    return pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob("*.parquet"))])


def test_the_audit_equals_the_audit_in_memory(source, release, tmp_path):
    expected = mc.audit(read_all(source), read_all(release.path), SCHEMA, brief=True)
    for result in (audit(source, release.path, tmp_path / "work"), release.audit):
        assert result["k"] == release.k == expected["k"] >= 5
        assert sorted(result.class_sizes) == sorted(expected.class_sizes)
        same = set(expected.measures) & set(result.measures)
        assert same >= {
            "k",
            "classes",
            "records",
            "identifiers_left",
            "columns_missing",
            "prosecutor_average",
        }
        for name in same:
            assert result.measures[name] == expected.measures[name], name
        assert result["information_loss"] == release.manifest.information_loss
        assert result.require(k=5) is result
        assert "5-anonymous" in mc.report.guarantee(result)
        assert "5-anonymous" in mc.render(
            result, "html", manifest=release.manifest.as_dict(), require={"k": 5}
        )
    assert "values_changed" not in result.measures


def test_a_unique_record_is_detected(source, release, tmp_path):
    path = release.path / "part-000000.parquet"
    table = pq.read_table(path)
    ages = table.column("age").to_pylist()
    pq.write_table(
        table.set_column(table.schema.get_field_index("age"), "age", [[*ages[:-1], 999]]), path
    )
    result = audit(source, release.path, tmp_path / "work")
    assert result["k"] == 1
    assert result["manifest_contradictions"] == 2  # the digest, and the k
    assert "information_loss" not in result.measures
    assert "Not fit to publish" in mc.report.guarantee(result)
    assert "999" not in " ".join(result.notes)


def test_unexpected_columns_and_records_are_detected(source, release, tmp_path):
    for number, path in enumerate(sorted(release.path.glob("*.parquet"))):
        table = pq.read_table(path)
        names = pa.array([f"person {number} {row}" for row in range(len(table))])
        pq.write_table(table.append_column("name", names).drop_columns(["note"]), path)
    pq.write_table(pq.read_table(path), release.path / "part-999999.parquet")
    result = audit(source, release.path, tmp_path / "work")
    assert (result["identifiers_left"], result["columns_missing"]) == (1, 1)
    assert result["records_unaccounted"] > 0
    assert "'name'" in " ".join(result.notes)


def test_other_originals_and_damaged_manifests(source, release, tmp_path):
    other = write_files(tmp_path / "other", [people(500, 1), people(399, 2)])
    result = audit(other, release.path, tmp_path / "work1")
    assert result["manifest_contradictions"] == 2  # the digest and the number of records
    assert "899" in " ".join(result.notes)
    path = manifest_path(release.path)
    damaged = json.loads(path.read_text()) | {"columns": [], "output": 5, "k": "x"}
    for number, text in enumerate((json.dumps(damaged), "{")):
        path.write_text(text)
        with raises(TableError, "table.malformed"):
            audit(source, release.path, tmp_path / f"work{number + 2}")
    path.unlink()
    assert "manifest_contradictions" not in audit(source, release.path, tmp_path / "work4").measures


def test_text_files_with_different_types(source, tmp_path):
    """1 and 1.0 are equal, and codes may be numbers in one file only."""
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "a.csv").write_text("age,code\n1,7\n1,7\n2,8\n", encoding="utf-8")
    (folder / "b.csv").write_text("age,code\n1.0,7\n2.0,8\n2.5,x\n2.5,x\n", encoding="utf-8")
    schema = Schema(quasi=["age", "code"])
    result = audit(folder, folder, tmp_path / "work", schema)
    assert sorted(result.class_sizes) == [2, 2, 3]


def test_parquet_files_with_different_types(tmp_path):
    source = write_files(tmp_path / "in", [{"age": [1, 1, 2]}, {"age": [1.0, 2.0]}])
    assert sorted(audit(source, source, tmp_path / "work", Schema(quasi=["age"])).class_sizes) == [
        2,
        3,
    ]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_equal_classes_share_a_bucket(tmp_path, monkeypatch, suffix):
    """Two files with the same records of all types: each class has one record of each file."""
    monkeypatch.setattr("microcell.dask.audit.CLASSES_PER_BUCKET", 1)
    rows = 60
    table = {
        "a": [None if row % 7 == 0 else row // 2 for row in range(rows)],
        "b": [0.0 if row % 2 else 0.25 * row for row in range(rows)],
        "c": [None if row % 5 == 0 else f"ä {row}" for row in range(rows)],
        "d": pa.array([row * 1000 for row in range(rows)], pa.timestamp("ms")),
    }
    other = table | {"b": [-value if value == 0 else value for value in table["b"]]}
    source = write_files(
        tmp_path / "in", [table, {name: list(values)[::-1] for name, values in other.items()}]
    )
    if suffix == ".csv":
        for path in list(source.iterdir()):
            pyarrow.csv.write_csv(pq.read_table(path), path.with_suffix(".csv"))
            path.unlink()
    result = audit(source, source, tmp_path / "work", Schema(quasi=["a", "b", "c", "d"]))
    assert result.class_sizes.tolist() == [2] * rows


def test_a_release_without_records(source, tmp_path):
    empty = write_files(
        tmp_path / "empty", [{name: values[:0] for name, values in people(3, 1).items()}]
    )
    result = audit(source, empty, tmp_path / "work", Schema(quasi=["age", "height"], rest="keep"))
    assert (result["k"], result["classes"], result["records_dropped"]) == (0, 0, 900)
    assert "empty" in mc.report.guarantee(result)


def test_a_release_without_a_quasi_identifier(source, tmp_path):
    other = write_files(tmp_path / "other", [{"age": [1, 2]}])
    with raises(SchemaError, "schema.unknown_column", columns=["height", "sex"], table="released"):
        audit(source, other, tmp_path / "work")


# -------------------------------------------------------------------------------- which engine


def test_the_engine_is_selected_by_name(source, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(
        "microcell.dask.anonymize_dataset", lambda *args, **options: calls.append((args, options))
    )
    mc.anonymize(
        source, SCHEMA, k=5, engine="dask", output=tmp_path / "out", workers=3, require={"k": 5}
    )
    assert calls[0][0] == (source, SCHEMA)
    assert calls[0][1] == {
        "k": 5, "method": "auto", "seed": 0, "missing": "error", "dependence": 0.0,
        "output": tmp_path / "out", "workers": 3, "require": {"k": 5},
    }  # fmt: skip
    with raises(OptionError, "option.unknown", option="engine"):
        mc.anonymize(source, SCHEMA, k=5, engine="spark")
    with raises(OptionError, "option.unsupported", option="output", method="auto"):
        mc.anonymize(source / "file0.parquet", SCHEMA, k=5, output="out")


@pytest.mark.parametrize("package", ["distributed", "pyarrow"])
def test_without_dask(source, tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with raises(OptionError, "option.extra_missing", extra="dask"):
        mc.anonymize(source, SCHEMA, k=5, engine="dask", output=tmp_path / "out", workers=1)
    assert list(tmp_path.iterdir()) == []


def test_a_text_release_as_a_dataframe(source, tmp_path):
    pytest.importorskip("dask.dataframe", reason="the extra dask is not installed")
    folder = tmp_path / "text"
    folder.mkdir()
    pyarrow.csv.write_csv(read_all(source), folder / "all.csv")
    result = run(folder, SCHEMA, tmp_path / "out", macrocell=300)
    frame = result.table.compute(scheduler="synchronous")
    assert len(frame) == 900
    assert frame.groupby(["age", "height", "sex"]).size().min() == result.k


def test_large_text_files_are_reported(source, tmp_path, monkeypatch):
    monkeypatch.setattr("microcell.dask.stages._LARGE_TEXT", 1000)
    folder = tmp_path / "text"
    folder.mkdir()
    pyarrow.csv.write_csv(read_all(source), folder / "all.csv")
    messages = []
    with mc.listen(lambda task, _done, _total: messages.append(task)):
        run(folder, SCHEMA, tmp_path / "out")
    assert any(task.startswith("all.csv has 0.0 GB") for task in messages)


def test_dask_dataframes_are_recognized_by_module():
    assert not mc.dask.is_dask(pa.table({"a": [1]}))
    assert not mc.dask.is_dask("in/*.parquet")
