"""``microcell anonymize --engine dask`` in this process; tests/dask uses a cluster."""

import json
import re
from contextlib import contextmanager

import pytest

from microcell import progress
from microcell.dask.cluster import LocalEngine
from microcell.schema import schema_to_toml
from tests.dask.running import SCHEMA, people, pq, read_release, write_files

pytestmark = pytest.mark.usefixtures("blank_figures")

BASE = (
    "anonymize",
    "in/*.parquet",
    "-s",
    "schema.toml",
    "-k",
    5,
    "--engine",
    "dask",
    "--macrocell",
    300,
)


@contextmanager
def here(scheduler, workers, memory, folder):
    """An engine in this process that reports a dashboard."""
    engines.append((scheduler, workers, memory, folder.stat().st_mode & 0o777))
    progress.report("dashboard at http://127.0.0.1:1/status")
    yield LocalEngine()


engines = []


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("microcell.dask.release.DaskEngine", here)
    monkeypatch.setattr("microcell.dask.audit.DaskEngine", here)
    write_files(tmp_path / "in", [people(300, seed) for seed in range(3)])
    (tmp_path / "schema.toml").write_text(schema_to_toml(SCHEMA), encoding="utf-8")
    engines.clear()
    return tmp_path


def test_a_pattern_becomes_a_directory(folder, run):
    outcome = run(*BASE, "-o", "out/", "--report", "out.html")
    assert (outcome.code, outcome.stdout) == (0, "")
    words = " ".join(outcome.stderr.split())
    manifest = json.loads((folder / "out.manifest.json").read_text(encoding="utf-8"))
    assert "dashboard at http://127.0.0.1:1/status" in words
    assert (
        "Each of the 900 published records shares its values of age, height and sex with at least "
        "4 others" in words
    )
    assert f"cells {manifest['cells']['count']} of 5" in words
    assert f"information loss {100 * manifest['information_loss']:.4g} %" in words
    assert "removed name" in words
    assert "folder out manifest out.manifest.json report out.html" in words
    assert {path.name for path in folder.iterdir()} == {
        "in", "schema.toml", "out", "out.manifest.json", "out.html",
    }  # fmt: skip
    assert len(read_release("out")) == 900
    page = (folder / "out.html").read_text(encoding="utf-8")
    assert "5-anonymous" in page
    assert not re.search(r"person \d", page)
    assert engines == [(None, None, None, 0o700)]


@pytest.mark.parametrize(
    "source",
    [("in",), ("in/file0.parquet", "in/file1.parquet", "in/file2.parquet"), ("in/file*.parquet",)],
)
def test_a_directory_or_several_files_give_the_same(folder, run, source):
    assert (
        run(
            BASE[0], *source, *BASE[2:], "-o", "out", "--scheduler", "tcp://host:1", "--seams", 0
        ).code
        == 0
    )
    manifest = json.loads((folder / "out.manifest.json").read_text(encoding="utf-8"))
    assert manifest["input"] == {**manifest["input"], "files": 3, "rows": 900}
    assert manifest["method"]["options"]["seams"] == 0
    assert engines[0][:3] == ("tcp://host:1", None, None)


def test_workers_are_passed_on_and_json_is_the_manifest(folder, run):
    outcome = run(
        *BASE, "-o", "out", "--workers", 3, "--memory", "1GB", "--json", "-q", "--dependence", 0.2
    )
    assert outcome.code == 0
    assert outcome.stderr == ""
    result = json.loads(outcome.stdout)
    assert result["records"]["released"] == 900
    assert result["dependence"]["weight"] == 0.2
    assert engines[0][:3] == (None, 3, "1GB")


def test_a_release_is_replaced_only_with_force(folder, run):
    assert run(*BASE, "-o", "out").code == 0
    outcome = run(*BASE, "-o", "out", "--seed", 2)
    assert outcome.code == 2
    assert "error[table.exists]" in outcome.stderr
    assert run(*BASE, "-o", "out", "--seed", 2, "--force").code == 0
    assert json.loads((folder / "out.manifest.json").read_text())["seed"] == 2
    (folder / "mine").mkdir()
    outcome = run(*BASE, "-o", "mine", "--force")
    assert outcome.code == 2
    assert "error[table.exists]" in outcome.stderr


def test_a_dry_run_writes_nothing(folder, run):
    outcome = run(*BASE, "--dry-run")
    assert outcome.code == 0
    assert "nothing (dry run)" in outcome.stderr
    assert {path.name for path in folder.iterdir()} == {"in", "schema.toml"}


def test_text_files_are_read_with_options(folder, run):
    for path in (folder / "in").iterdir():
        rows = pq.read_table(path).to_pylist()
        text = "\n".join(
            [";".join(rows[0]), *(";".join(map(str, row.values())) for row in rows), ""]
        )
        path.with_suffix(".csv").write_text(text, encoding="utf-8")
    words = ("anonymize", "in/*.csv", *BASE[2:])
    assert (
        run(*words, "-o", "out", "--delimiter", ";", "--na", "x").code == 2
    )  # sex is missing where it was x
    assert run(*words, "-o", "out", "--delimiter", ";").code == 0
    assert (folder / "out" / "part-000000.csv").is_file()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--cells", "cells.json"), "option.unsupported"),
        (("--keep-order",), "option.unsupported"),
        (("--blocks", "2"), "option.unsupported"),
        (("--require", "linkage=0.5"), "option.unsupported"),
        (("--effort", "3"), "option.unsupported"),
        (("--set", "workers=3"), "option"),
        (("--scheduler", "tcp://host:1", "--workers", "2"), "option.conflict"),
        (("--scheduler", "tcp://host:1", "--memory", "2GB"), "option.conflict"),
        (("--workers", "0"), "option.out_of_range"),
        (("--seams", "-1"), "option.out_of_range"),
        (("--scratch", "nowhere"), "option.invalid"),
        (("--report", "schema.toml"), ""),
    ],
)
def test_invalid_options_with_an_engine_are_rejected(folder, run, options, code):
    outcome = run(*BASE, "-o", "out", *options)
    assert outcome.code == 2
    assert f"error[{code}" in outcome.stderr
    assert {path.name for path in folder.iterdir()} == {"in", "schema.toml"}


@pytest.mark.parametrize(
    "words",
    [
        ("in", "-o", "out.csv"),
        ("in/*.parquet", "-o", "out.csv"),
        ("in/file0.parquet", "in/file1.parquet", "-o", "out.csv"),
        ("in/file0.parquet", "-o", "out.csv", "--workers", "2"),
        ("in/file0.parquet", "-o", "out.csv", "--seams", "0"),
    ],
)
def test_data_sets_and_their_options_need_an_engine(folder, run, words):
    outcome = run("anonymize", *words, "-s", "schema.toml", "-k", 5)
    assert outcome.code == 2
    assert "error[option." in outcome.stderr
    assert "--engine dask" in " ".join(outcome.stderr.split())


def test_help_shows_the_engine(run):
    words = " ".join(run("anonymize", "--help").stdout.split())
    for flag in (
        "--engine",
        "--scheduler",
        "--workers",
        "--memory",
        "--macrocell",
        "--seams",
        "--scratch",
        "--force",
    ):
        assert flag in words
    assert "microcell anonymize 'in/*.parquet'" in words


AUDIT = ("audit", "in/*.parquet", "out", "-s", "schema.toml", "--engine", "dask")


def test_a_release_is_audited_on_the_engine(folder, run):
    assert run(*BASE, "-o", "out").code == 0
    manifest = json.loads((folder / "out.manifest.json").read_text(encoding="utf-8"))
    outcome = run(*AUDIT, "--json", "--report", "audit.html")
    assert outcome.code == 0, outcome.stderr
    result = {name: item["value"] for name, item in json.loads(outcome.stdout)["measures"].items()}
    assert result["k"] == 5
    assert result["records"] == 900
    assert result["information_loss"] == manifest["information_loss"]
    assert "5-anonymous" in (folder / "audit.html").read_text(encoding="utf-8")


def test_a_modified_release_is_detected(folder, run):
    assert run(*BASE, "-o", "out").code == 0
    path = next((folder / "out").glob("*.parquet"))
    table = pq.read_table(path)
    pq.write_table(table.slice(0, table.num_rows - 1), path)
    outcome = run(*AUDIT)
    assert outcome.code == 1
    assert "error[guarantee.requirement_not_met]" in outcome.stderr
    assert "manifest_contradictions" in outcome.stderr


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (("--engine", "dask", "--key", "name"), "error[option.unsupported]"),
        (("--engine", "dask", "--population", "90"), "error[option.unsupported]"),
        (("--workers", "2"), "Add --engine dask"),
    ],
)
def test_unsupported_audit_options_are_rejected(folder, run, inputs, message):
    assert run(*BASE, "-o", "out").code == 0
    outcome = run(*AUDIT[:5], *inputs)
    assert outcome.code == 2
    assert message in " ".join(outcome.stderr.split())


def test_the_report_must_be_outside_the_release(folder, run):
    assert run(*BASE, "-o", "out").code == 0
    before = (folder / "in" / "file0.parquet").read_bytes()
    for report, code in {
        "out/page.html": "option.invalid",
        "in/file0.parquet": "option.unsupported",
        "in/new.csv": "option.unsupported",
    }.items():
        outcome = run(*BASE, "-o", "out", "--force", "--report", report)
        assert outcome.code == 2
        assert f"error[{code}]" in outcome.stderr
    assert (folder / "in" / "file0.parquet").read_bytes() == before
    assert not (folder / "out" / "page.html").exists()
