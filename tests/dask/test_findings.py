"""Findings about data sets: those of the release in memory, or estimates from a sample."""

from dataclasses import replace

import numpy as np
import pytest

import microcell as mc
from microcell.dask import examine
from microcell.dask.audit import audit_files
from microcell.dask.cluster import LocalEngine
from microcell.dask.sources import find_files
from microcell.errors import GuaranteeError
from microcell.model import Schema
from tests.dask.running import SCHEMA, people, run, write_files
from tests.raising import raises


def patients(rows, seed=0):
    """People with three rows each, half of them with a rare value that is published unchanged."""
    rng = np.random.default_rng(seed)
    return {
        "who": [f"p{row // 3}" for row in range(rows)],
        "age": rng.integers(18, 90, rows).astype(float),
        "town": np.where(np.arange(rows) % 2, rng.integers(0, rows, rows), 0),
        "sick": rng.choice(["no", "yes"], rows, p=[0.95, 0.05]),
    }


PATIENTS = Schema(quasi=["age"], keep=["town"], confidential=["sick"], person="who")


def by_code(findings):
    return {item.code: item for item in findings}


def audit(source, output, schema, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    files = find_files(source), find_files(output)
    return audit_files(LocalEngine(), *files, schema, mc.find_manifest(None, output), work)


def test_the_findings_of_a_small_data_set_are_those_in_memory(tmp_path):
    table = people(150)
    source = write_files(tmp_path / "in", [table])
    release = run(source, SCHEMA, tmp_path / "out", method="mdav")
    expected = mc.anonymize(table, SCHEMA, k=5, method="mdav").findings
    assert [(item.code, item.severity) for item in release.findings] == [
        (item.code, item.severity) for item in expected
    ]
    found = by_code(release.audit.findings)["risk.exact_values"]
    assert found.figures == by_code(expected)["risk.exact_values"].figures
    audited = audit(source, tmp_path / "out", SCHEMA, tmp_path)
    assert by_code(audited.findings)["risk.exact_values"].figures == found.figures


def test_persons_of_several_files_are_counted_once(tmp_path):
    halves = [
        {n: c[part] for n, c in patients(240).items()} for part in (slice(120), slice(120, 240))
    ]
    source = write_files(tmp_path / "in", halves)
    release = run(source, PATIENTS, tmp_path / "out", method="mdav", macrocell=120)
    found = by_code(release.findings)
    table = patients(240)
    towns, counts = np.unique(table["town"], return_counts=True)
    alone = {
        who
        for who, town in zip(table["who"], table["town"], strict=True)
        if counts[towns == town][0] == 1
    }
    # A town of one person's rows only singles them out, too.
    assert found["risk.singled_out"].figures["people"] >= len(alone)
    assert found["risk.singled_out"].severity == "danger"


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_large_data_sets_are_sampled(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(examine, "EXAMINED", 150)
    monkeypatch.setattr(examine, "_ASKED", 60)
    table = patients(600)
    source = write_files(tmp_path / "in", [table])
    if suffix == "csv":
        for path in source.iterdir():
            mc.write(mc.read(path), tmp_path / "in.csv")
        source = tmp_path / "in.csv"
    release = run(source, PATIENTS, tmp_path / "out", method="mdav")
    found = by_code(release.findings)
    alone = found["risk.singled_out"]
    exact = by_code(mc.anonymize(table, PATIENTS, k=5, method="mdav").findings)["risk.singled_out"]
    assert alone.figures["low"] <= exact.figures["share"] <= alone.figures["high"]
    assert alone.sentence.startswith("About ")
    sampled = found["risk.homogeneous_classes"]
    assert "random sample" in sampled.sentence
    assert 0 < sampled.figures["people"] <= 200
    audited = by_code(audit(source, tmp_path / "out", PATIENTS, tmp_path).findings)
    assert {"risk.singled_out", "risk.homogeneous_classes"} <= audited.keys()


def test_spellings_of_persons_and_stated_identifiers_are_counted_in_all_files(
    tmp_path, monkeypatch
):
    table = patients(120)
    table["who"] = [who.upper() if row % 3 else f" {who}" for row, who in enumerate(table["who"])]
    files = [{n: c[part] for n, c in table.items()} for part in (slice(50), slice(50, 120))]
    source = write_files(tmp_path / "in", files)
    stated = replace(PATIENTS, person=(), identifiers=["who"], rows_are_people=True)
    for schema, code in ((PATIENTS, "risk.persons_spelling"), (stated, "risk.persons_repeat")):
        expected = by_code(mc.anonymize(table, schema, k=5, method="mdav").findings)[code]
        for sample in (100_000, 60):
            monkeypatch.setattr(examine, "EXAMINED", sample)
            output = tmp_path / f"{code}{sample}"
            found = by_code(run(source, schema, output, method="mdav").findings)[code]
            assert (found.figures, found.severity) == (expected.figures, "warning")
            assert found.sentence == expected.sentence


def test_strict_publishes_nothing(tmp_path):
    source = write_files(tmp_path / "in", [people(100)])
    with raises(GuaranteeError, "guarantee.findings"):
        run(source, SCHEMA, tmp_path / "out", method="mdav", strict=True)
    assert not (tmp_path / "out").exists()


def test_an_earlier_release_of_the_same_files(tmp_path):
    source = write_files(tmp_path / "in", [people(100)])
    run(source, SCHEMA, tmp_path / "one", method="mdav")
    found = by_code(run(source, SCHEMA, tmp_path / "two", method="mdav").findings)
    assert found["risk.earlier_release"].figures == {"releases": 1}
