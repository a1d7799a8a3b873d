"""Data sets whose records are about people with several rows: k counts distinct persons."""

import re
from dataclasses import replace

import numpy as np
import pytest

import microcell as mc
from microcell.dask.audit import audit_files
from microcell.dask.cluster import LocalEngine
from microcell.dask.macrocells import make_macrocells
from microcell.dask.people import some_persons
from microcell.dask.sources import find_files
from microcell.errors import DataError, GuaranteeError, OptionError, SchemaError, TooFewRecordsError
from microcell.measures.people import digest_persons
from microcell.model import Schema
from tests.dask.running import pa, pq, read_release, run, write_files
from tests.raising import raises

SCHEMA = Schema(quasi=["age", "height"], person="patient", confidential=["cost"], rest="drop")


def visits(n, n_people, seed):
    """Return visits of patients; cost is unique per row, so that published rows can be traced."""
    rng = np.random.default_rng(seed)
    patient = rng.permutation(
        np.concatenate([np.arange(n_people), rng.integers(min(20, n_people), size=n)])[:n]
    )
    homes = np.random.default_rng(99).normal(size=(n_people, 2))
    return {
        "patient": [f"P{i:04}" for i in patient],
        "age": np.round(40 + 20 * homes[patient, 0] + rng.normal(size=n), 3),
        "height": np.round(170 + 10 * homes[patient, 1] + rng.normal(size=n), 3),
        "region": np.where(patient % 3 == 0, "north", "south"),
        "cost": np.arange(n) + 1_000_000 * seed,
    }


@pytest.fixture
def source(tmp_path):
    """Three files; most patients have rows in all of them, twenty have many rows."""
    return write_files(tmp_path / "in", [visits(n, 150, seed) for seed, n in enumerate((400, 300))])


def read_source(source):
    return pa.concat_tables([pq.read_table(path) for path in sorted(source.iterdir())]).to_pylist()


def people_per_class(rows, source, keys):
    """Count distinct persons by plain sets, tracing rows by their cost."""
    who = {row["cost"]: row["patient"] for row in read_source(source)}
    members = {}
    for row in rows:
        members.setdefault(tuple(row[key] for key in keys), set()).add(who[row["cost"]])
    return [len(each) for each in members.values()]


@pytest.mark.parametrize("strata", [(), ("region",)])
@pytest.mark.parametrize(("macrocell", "seams"), [(10_000, 1), (100, 0), (100, 2)])
def test_every_class_has_k_distinct_persons(source, tmp_path, strata, macrocell, seams):
    schema = replace(SCHEMA, strata=strata)
    result = run(source, schema, tmp_path / "out", macrocell=macrocell, seams=seams)
    rows = read_release(result.path)
    counts = people_per_class(rows, source, schema.keys)
    assert min(counts) >= 5
    assert result.k == min(counts)
    assert sorted(result.audit.class_sizes) == sorted(counts)
    assert result.audit.measures["k"].value == min(counts)
    assert len(rows) == 700
    assert "patient" not in rows[0]
    section = result.manifest.person
    patients = [row["patient"] for row in read_source(source)]
    assert section.count == len(set(patients))
    assert section.most_rows == max(map(patients.count, set(patients)))
    assert (macrocell == 100) == (result.manifest.cells.macrocells > 2)
    written = [*result.path.iterdir(), tmp_path / "out.manifest.json"]
    assert not any(re.search(rb"P\d{4}", path.read_bytes()) for path in written)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out", "out.manifest.json"]


# A search draws random numbers for each stratum, in another order than in memory.
@pytest.mark.parametrize(("strata", "method"), [((), "auto"), (("region",), "mdav")])
def test_one_macrocell_equals_in_memory(source, tmp_path, strata, method):
    schema = replace(SCHEMA, strata=strata)
    result = run(source, schema, tmp_path / "out", macrocell=10_000, method=method)
    table = pa.concat_tables([pq.read_table(path) for path in sorted(source.iterdir())])
    options = {"effort": "fast"} if method == "auto" else {}
    expected = mc.anonymize(table, schema, k=5, method=method, **options)
    one, other = (
        sorted(tuple(row.values()) for row in rows)
        for rows in (read_release(result.path), expected.table.to_pylist())
    )
    assert one == other
    # The set of persons is never held as a whole by the engine, so it has no digest there.
    assert result.manifest.person == expected.manifest.person.model_copy(update={"sha256": None})
    assert sorted(result.audit.class_sizes) == sorted(expected.class_sizes)


def test_text_files(source, tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    for path in source.iterdir():
        pq.read_table(path).to_pandas().to_csv(folder / f"{path.stem}.csv", index=False)
    result = run(folder, SCHEMA, tmp_path / "out", macrocell=100)
    assert result.k >= 5
    assert result.manifest.person.count == 150


def test_an_audit_is_the_worst_case(source, tmp_path):
    result = run(source, SCHEMA, tmp_path / "out", macrocell=10_000)
    work = tmp_path / "work"
    work.mkdir()
    audit = audit_files(
        LocalEngine(), find_files(source), find_files(result.path), SCHEMA, result.manifest, work
    )
    exact = people_per_class(read_release(result.path), source, SCHEMA.keys)
    assert audit.person == ("patient",)
    assert 1 <= audit.measures["k"].value <= min(exact)
    assert len(audit.class_sizes) == len(exact)
    assert audit.measures["manifest_contradictions"].value == 0
    assert audit.rows_released == 700
    other = replace(SCHEMA, person=(), identifiers=("patient",))
    work = tmp_path / "again"
    work.mkdir()
    audit = audit_files(
        LocalEngine(), find_files(source), find_files(result.path), other, result.manifest, work
    )
    assert audit.measures["manifest_contradictions"].value == 1


def test_persons_are_required_and_complete(source, tmp_path):
    out = tmp_path / "out"
    plain = replace(SCHEMA, person=(), identifiers=["patient"])
    with raises(SchemaError, "schema.person_required", columns=["patient"], distinct=150, rows=700):
        run(source, plain, out)
    result = run(source, replace(plain, rows_are_people=True), out)
    assert result.manifest.rows_are_people is True
    assert result.manifest.person is None
    with raises(OptionError, "option.unsupported", option="person_cells"):
        run(source, replace(SCHEMA, person_cells="together"), tmp_path / "together")
    table = visits(60, 30, 0)
    table["patient"][7] = None
    some = write_files(tmp_path / "some", [visits(60, 30, 1), table])
    with raises(DataError, "data.missing_values", row=8, file="file1.parquet"):
        run(some, SCHEMA, tmp_path / "missing")
    dropped = run(some, SCHEMA, tmp_path / "dropped", missing="drop")
    assert dropped.manifest.records.released == 119
    assert not (tmp_path / "missing").exists()


def test_a_unique_identifier_beside_a_repeating_one_is_fine(source, tmp_path):
    schema = Schema(quasi=["age"], identifiers=["patient", "cost"], rest="drop")
    assert run(source, schema, tmp_path / "out").manifest.person is None


def test_too_few_persons(tmp_path):
    files = write_files(tmp_path / "in", [visits(60, 4, seed) for seed in range(2)])
    for path in files.iterdir():  # the rows of both files are about the same four people
        table = pq.read_table(path).to_pydict()
        table["patient"] = [f"P{row % 4}" for row in range(60)]
        pq.write_table(pa.table(table), path)
    with raises(TooFewRecordsError, "guarantee.too_few_records", records=4, unit="persons"):
        run(files, SCHEMA, tmp_path / "out")
    assert run(files, SCHEMA, tmp_path / "out", k=4).k == 4
    strata = replace(SCHEMA, strata=["region"])
    table = visits(200, 90, 3)
    table["region"] = np.where(np.array(table["patient"]) == "P0001", "west", "east")
    some = write_files(tmp_path / "some", [table])
    with raises(TooFewRecordsError, "guarantee.stratum_too_small", smallest=1, unit="persons"):
        run(some, strata, tmp_path / "strata")


def test_the_proof_counts_persons_over_files(source, tmp_path, monkeypatch):
    """A class that is divided among files, with the same persons in each, is found."""
    from microcell.dask import tasks

    def cells_of_five_records(strata, points, k, **options):
        labels = np.minimum(np.arange(len(points)) // k, len(points) // k - 1)
        return mc.model.Partition(labels, k)

    monkeypatch.setattr(tasks.methods, "partition_within", cells_of_five_records)
    with raises(GuaranteeError, "guarantee.failed", k=5):
        run(source, SCHEMA, tmp_path / "out", macrocell=10_000)
    assert not (tmp_path / "out").exists()


def test_macrocells_have_k_persons():
    people = {0: np.array([1, 2]), 1: np.array([1, 2]), 2: np.array([3, 4]), 3: np.array([5])}
    groups = make_macrocells([9, 9, 9, 9], [0, 4], 2, 9, people=people, k=3)
    assert groups == ((0, 1, 2, 3),)
    groups = make_macrocells([9, 9, 9, 9], [0, 4], 2, 9, people=people, k=2)
    assert groups == ((0,), (1,), (2, 3))


def test_some_persons_tell_exactly_whether_there_are_k():
    rng = np.random.default_rng(0)
    for _ in range(50):
        parts = [rng.integers(8, size=rng.integers(0, 9)) for _ in range(4)]
        some = some_persons(np.concatenate([some_persons(part, 5) for part in parts]), 5)
        assert len(some) == min(5, len(set(np.concatenate(parts).tolist())))


def test_digests_are_keyed_and_equal_for_equal_persons():
    schema = Schema(quasi=["x"], person=["first", "last"])
    table = mc.read(
        {"first": ["a", "ab", "a", "a"], "last": ["bc", "c", "bc", "x"], "x": [1, 2, 3, 4]}
    )
    digests = digest_persons(table, schema, b"key")
    assert digests[0] == digests[2]
    assert len(set(digests.tolist())) == 3
    alone = digest_persons(mc.read({"last": ["bc"], "first": ["a"], "x": [0]}), schema, b"key")
    assert alone[0] == digests[0]
    assert not set(digest_persons(table, schema, b"other").tolist()) & set(digests.tolist())
