"""The audit of a data set, its tasks in this process, against the audit in memory; and how the engine is chosen."""

import json
import sys

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import microcell as mc
from microcell.dask import cluster
from microcell.dask.audit import _find_manifest, audit_files
from microcell.dask.cluster import Here
from microcell.dask.sources import find_files
from microcell.errors import OptionError, SchemaError, TableError
from microcell.model import Schema
from tests.dask.running import SCHEMA, pa, people, run, write_files


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("source") / "in", [people(500, 1), people(400, 2)])


@pytest.fixture
def release(source, tmp_path):
    return run(source, SCHEMA, tmp_path / "out", macrocell=300)


def audit(source, released, work, schema=SCHEMA, manifest=None):
    work.mkdir()
    account = _find_manifest(manifest, released)
    return audit_files(Here(), find_files(source), find_files(released), schema, account, work)


def whole(folder):
    return pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob("*.parquet"))])


def test_it_finds_what_an_audit_in_memory_finds(source, release, tmp_path):
    expected = mc.audit(whole(source), whole(release.path), SCHEMA, brief=True)
    for found in (audit(source, release.path, tmp_path / "work"), release.audit):
        assert found["k"] == release.k == expected["k"] >= 5
        assert sorted(found.class_sizes) == sorted(expected.class_sizes)
        same = set(expected.measures) & set(found.measures)
        assert same >= {
            "k",
            "classes",
            "records",
            "identifiers_left",
            "columns_missing",
            "prosecutor_average",
        }
        for name in same:
            assert found.measures[name] == expected.measures[name], name
        assert found["distortion"] == release.manifest["information_loss"]
        assert found.require(k=5) is found
        assert "5-anonymous" in mc.report.guarantee(found)
        assert "5-anonymous" in mc.render(
            found, "html", manifest=release.manifest.as_dict(), require={"k": 5}
        )
    assert "values_changed" not in found.measures


def test_a_record_alone_is_found_whatever_file_it_is_in(source, release, tmp_path):
    path = release.path / "part-000000.parquet"
    table = pq.read_table(path)
    ages = table.column("age").to_pylist()
    pq.write_table(
        table.set_column(table.schema.get_field_index("age"), "age", [[*ages[:-1], 999]]), path
    )
    found = audit(source, release.path, tmp_path / "work")
    assert found["k"] == 1
    assert found["manifest_contradictions"] == 2  # the digest, and the k
    assert "distortion" not in found.measures
    assert "Not fit to publish" in mc.report.guarantee(found)
    assert "999" not in " ".join(found.notes)


def test_columns_and_records_that_should_not_be_there(source, release, tmp_path):
    for number, path in enumerate(sorted(release.path.glob("*.parquet"))):
        table = pq.read_table(path)
        names = pa.array([f"person {number} {row}" for row in range(len(table))])
        pq.write_table(table.append_column("name", names).drop_columns(["note"]), path)
    pq.write_table(pq.read_table(path), release.path / "part-999999.parquet")
    found = audit(source, release.path, tmp_path / "work")
    assert (found["identifiers_left"], found["columns_missing"]) == (1, 1)
    assert found["records_unaccounted"] > 0
    assert "'name'" in " ".join(found.notes)


def test_another_original_and_a_damaged_manifest(source, release, tmp_path):
    other = write_files(tmp_path / "other", [people(500, 1), people(399, 2)])
    notes = " ".join(audit(other, release.path, tmp_path / "work1").notes)
    assert "not the data set that the release was made of" in notes
    assert "another number of original records than 899" in notes
    path = release.path / "_manifest.json"
    path.write_text(
        json.dumps(
            json.loads(path.read_text()) | {"columns": [], "output": 5, "records": None, "k": "x"}
        )
    )
    assert audit(source, release.path, tmp_path / "work2")["manifest_contradictions"] == 3
    path.write_text("{")
    with pytest.raises(TableError, match="not a manifest"):
        audit(source, release.path, tmp_path / "work3")
    path.unlink()
    assert "manifest_contradictions" not in audit(source, release.path, tmp_path / "work4").measures


def test_plain_text_whose_types_differ_from_file_to_file(source, tmp_path):
    """Of 1 and 1.0, and of codes that are numbers in one file only."""
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "a.csv").write_text("age,code\n1,7\n1,7\n2,8\n", encoding="utf-8")
    (folder / "b.csv").write_text("age,code\n1.0,7\n2.0,8\n2.5,x\n2.5,x\n", encoding="utf-8")
    schema = Schema(quasi=["age", "code"])
    found = audit(folder, folder, tmp_path / "work", schema)
    assert sorted(found.class_sizes) == [2, 2, 3]


def test_parquet_whose_types_differ_from_file_to_file(tmp_path):
    source = write_files(tmp_path / "in", [{"age": [1, 1, 2]}, {"age": [1.0, 2.0]}])
    assert sorted(audit(source, source, tmp_path / "work", Schema(quasi=["age"])).class_sizes) == [
        2,
        3,
    ]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_classes_of_one_value_meet_in_one_of_many_buckets(tmp_path, monkeypatch, suffix):
    """The same records in two files, of every sort of value: each class has one record of each file."""
    monkeypatch.setattr("microcell.dask.audit.CLASSES_A_BUCKET", 1)
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
    found = audit(source, source, tmp_path / "work", Schema(quasi=["a", "b", "c", "d"]))
    assert found.class_sizes.tolist() == [2] * rows


def test_a_release_without_records(source, tmp_path):
    empty = write_files(
        tmp_path / "empty", [{name: values[:0] for name, values in people(3, 1).items()}]
    )
    found = audit(source, empty, tmp_path / "work", Schema(quasi=["age", "height"], rest="keep"))
    assert (found["k"], found["classes"], found["records_dropped"]) == (0, 0, 900)
    assert "empty" in mc.report.guarantee(found)


def test_a_release_without_a_quasi_identifier(source, tmp_path):
    other = write_files(tmp_path / "other", [{"age": [1, 2]}])
    with pytest.raises(SchemaError, match="released table has no columns 'height', 'sex'"):
        audit(source, other, tmp_path / "work")


# ---------------------------------------------------------------------------------------------- which engine


def test_the_engine_is_asked_for_by_name(source, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "microcell.dask.anonymize_dataset", lambda *given, **named: asked.append((given, named))
    )
    mc.anonymize(
        source, SCHEMA, k=5, engine="dask", output=tmp_path / "out", workers=3, require={"k": 5}
    )
    assert asked[0][0] == (source, SCHEMA)
    assert asked[0][1] == {
        "k": 5, "method": "auto", "seed": 0, "missing": "error", "dependence": 0.0, "output": tmp_path / "out",
        "workers": 3, "require": {"k": 5},
    }  # fmt: skip
    with pytest.raises(OptionError, match="engine must be 'dask', not 'spark'"):
        mc.anonymize(source, SCHEMA, k=5, engine="spark")
    with pytest.raises(OptionError, match="output"):
        mc.anonymize(source / "file0.parquet", SCHEMA, k=5, output="out")


@pytest.mark.parametrize("package", ["distributed", "pyarrow"])
def test_without_dask(source, tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(OptionError, match=r"not installed: pip install 'microcell\[dask\]'"):
        mc.anonymize(source, SCHEMA, k=5, engine="dask", output=tmp_path / "out", workers=1)
    assert list(tmp_path.iterdir()) == []


def test_a_release_of_text_as_a_frame(source, tmp_path):
    pytest.importorskip("dask.dataframe", reason="the extra dask is not installed")
    folder = tmp_path / "text"
    folder.mkdir()
    pyarrow.csv.write_csv(whole(source), folder / "all.csv")
    found = run(folder, SCHEMA, tmp_path / "out", macrocell=300)
    frame = found.table.compute(scheduler="synchronous")
    assert len(frame) == 900
    assert frame.groupby(["age", "height", "sex"]).size().min() == found.k


def test_large_text_is_told_of(source, tmp_path, monkeypatch):
    monkeypatch.setattr("microcell.dask.stages._LARGE_TEXT", 1000)
    folder = tmp_path / "text"
    folder.mkdir()
    pyarrow.csv.write_csv(whole(source), folder / "all.csv")
    told = []
    with mc.listen(lambda task, _done, _total: told.append(task)):
        run(folder, SCHEMA, tmp_path / "out")
    assert any(task.startswith("all.csv is one task of 0.0 GB") for task in told)


def test_dask_frames_are_known_by_their_module():
    assert not cluster.is_dask(pa.table({"a": [1]}))
    assert not cluster.is_dask("in/*.parquet")
