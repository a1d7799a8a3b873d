"""``microcell anonymize --engine dask``: the command, its tasks done in this process; on workers, see tests/dask."""

import json
import re
from contextlib import contextmanager

import pytest

from microcell import progress
from microcell.dask.cluster import Here
from microcell.schema import schema_to_toml
from tests.dask.running import SCHEMA, people, pq, read_release, write_files

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
    """The engine in this process, which has a dashboard all the same."""
    told.append((scheduler, workers, memory, folder.stat().st_mode & 0o777))
    progress.report("dashboard at http://127.0.0.1:1/status")
    yield Here()


told = []


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("microcell.dask.release.DaskEngine", here)
    monkeypatch.setattr("microcell.dask.audit.DaskEngine", here)
    write_files(tmp_path / "in", [people(300, seed) for seed in range(3)])
    (tmp_path / "schema.toml").write_text(schema_to_toml(SCHEMA), encoding="utf-8")
    told.clear()
    return tmp_path


def test_a_pattern_becomes_a_folder(folder, run):
    outcome = run(*BASE, "-o", "out/", "--report", "out.html")
    assert (outcome.code, outcome.stdout) == (0, "")
    words = " ".join(outcome.stderr.split())
    manifest = json.loads((folder / "out" / "_manifest.json").read_text(encoding="utf-8"))
    assert "dashboard at http://127.0.0.1:1/status" in words
    assert (
        "Each of the 900 published records shares its values of age, height and sex with at least 4 others"
        in words
    )
    assert f"cells {manifest['cells']['count']} of 5" in words
    assert f"distortion {manifest['information_loss']:.4f}" in words
    assert "left out name" in words
    assert "folder out manifest out/_manifest.json report out.html" in words
    assert {path.name for path in folder.iterdir()} == {"in", "schema.toml", "out", "out.html"}
    assert len(read_release("out")) == 900
    page = (folder / "out.html").read_text(encoding="utf-8")
    assert "5-anonymous" in page
    assert not re.search(r"person \d", page)
    assert told == [(None, None, None, 0o700)]


@pytest.mark.parametrize(
    "source",
    [("in",), ("in/file0.parquet", "in/file1.parquet", "in/file2.parquet"), ("in/file*.parquet",)],
)
def test_a_folder_or_several_files_are_the_same(folder, run, source):
    assert (
        run(
            BASE[0], *source, *BASE[2:], "-o", "out", "--scheduler", "tcp://host:1", "--seams", 0
        ).code
        == 0
    )
    manifest = json.loads((folder / "out" / "_manifest.json").read_text(encoding="utf-8"))
    assert manifest["input"] == {**manifest["input"], "files": 3, "rows": 900}
    assert manifest["method"]["options"]["seams"] == 0
    assert told[0][:3] == ("tcp://host:1", None, None)


def test_workers_are_passed_on_and_json_is_the_manifest(folder, run):
    outcome = run(
        *BASE, "-o", "out", "--workers", 3, "--memory", "1GB", "--json", "-q", "--dependence", 0.2
    )
    assert outcome.code == 0
    assert outcome.stderr == ""
    found = json.loads(outcome.stdout)
    assert found["records"]["out"] == 900
    assert found["dependence"]["lambda"] == 0.2
    assert told[0][:3] == (None, 3, "1GB")


def test_a_release_that_is_there_is_replaced_only_if_told(folder, run):
    assert run(*BASE, "-o", "out").code == 0
    outcome = run(*BASE, "-o", "out", "--seed", 2)
    assert outcome.code == 2
    assert "out exists" in outcome.stderr
    assert run(*BASE, "-o", "out", "--seed", 2, "--force").code == 0
    assert json.loads((folder / "out" / "_manifest.json").read_text())["seed"] == 2
    (folder / "mine").mkdir()
    outcome = run(*BASE, "-o", "mine", "--force")
    assert outcome.code == 2
    assert "no release" in outcome.stderr


def test_a_dry_run_writes_nothing(folder, run):
    outcome = run(*BASE, "--dry-run")
    assert outcome.code == 0
    assert "nothing: a dry run" in outcome.stderr
    assert {path.name for path in folder.iterdir()} == {"in", "schema.toml"}


def test_text_files_are_read_as_told(folder, run):
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
    ("given", "message"),
    [
        (("--cells", "cells.json"), "--cells cannot be had with --engine dask"),
        (("--keep-order",), "--keep-order cannot be had with --engine dask"),
        (("--blocks", "2"), "--blocks cannot be had with --engine dask"),
        (("--require", "k=5"), "--require cannot be had with --engine dask"),
        (("--effort", "3"), "Give an effort in a word"),
        (("--set", "workers=3"), "by its own flag"),
        (
            ("--scheduler", "tcp://host:1", "--workers", "2"),
            "workers is for workers that are started on this machine",
        ),
        (
            ("--scheduler", "tcp://host:1", "--memory", "2GB"),
            "memory is for workers that are started",
        ),
        (("--workers", "0"), "workers must be 1 or more"),
        (("--seams", "-1"), "seams must be"),
        (("--scratch", "nowhere"), "scratch folder nowhere does not exist"),
        (("--report", "schema.toml"), "schema.toml"),
    ],
)
def test_what_does_not_go_with_an_engine_is_refused_by_name(folder, run, given, message):
    outcome = run(*BASE, "-o", "out", *given)
    assert outcome.code == 2
    assert re.search(re.escape(message), " ".join(outcome.stderr.split()))
    assert {path.name for path in folder.iterdir()} == {"in", "schema.toml"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("in", "-o", "out.csv"), "are a data set"),
        (("in/*.parquet", "-o", "out.csv"), "are a data set"),
        (("in/file0.parquet", "in/file1.parquet", "-o", "out.csv"), "are a data set"),
        (("in/file0.parquet", "-o", "out.csv", "--workers", "2"), "--workers is for data sets"),
        (("in/file0.parquet", "-o", "out.csv", "--force"), "--force is for data sets"),
        (("in/file0.parquet", "-o", "out.csv", "--seams", "0"), "--seams is for data sets"),
    ],
)
def test_what_is_for_an_engine_is_refused_without_one(folder, run, words, message):
    outcome = run("anonymize", *words, "-s", "schema.toml", "-k", 5)
    assert outcome.code == 2
    assert message in " ".join(outcome.stderr.split())


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
    manifest = json.loads((folder / "out" / "_manifest.json").read_text(encoding="utf-8"))
    outcome = run(*AUDIT, "--json", "--report", "audit.html")
    assert outcome.code == 0, outcome.stderr
    found = {name: item["value"] for name, item in json.loads(outcome.stdout)["measures"].items()}
    assert found["k"] == 5
    assert found["records"] == 900
    assert found["distortion"] == manifest["information_loss"]
    assert "5-anonymous" in (folder / "audit.html").read_text(encoding="utf-8")


def test_a_release_that_was_changed_is_found_out(folder, run):
    assert run(*BASE, "-o", "out").code == 0
    path = next((folder / "out").glob("*.parquet"))
    table = pq.read_table(path)
    pq.write_table(table.slice(0, table.num_rows - 1), path)
    outcome = run(*AUDIT)
    assert outcome.code == 1
    assert "digest is not the manifest's" in " ".join((outcome.stdout + outcome.stderr).split())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--engine", "dask", "--key", "name"), "--key cannot be had with --engine dask"),
        (
            ("--engine", "dask", "--population", "90"),
            "--population cannot be had with --engine dask",
        ),
        (("--workers", "2"), "Add --engine dask"),
    ],
)
def test_what_an_audit_on_the_engine_cannot_do_is_refused_by_name(folder, run, given, message):
    assert run(*BASE, "-o", "out").code == 0
    outcome = run(*AUDIT[:5], *given)
    assert outcome.code == 2
    assert message in " ".join(outcome.stderr.split())


def test_a_report_is_no_part_of_the_release_and_no_table(folder, run):
    assert run(*BASE, "-o", "out").code == 0
    before = (folder / "in" / "file0.parquet").read_bytes()
    for report in ("out/page.html", "in/file0.parquet", "in/new.csv"):
        outcome = run(*BASE, "-o", "out", "--force", "--report", report)
        assert outcome.code == 2
        assert "--report is a page (.html) outside the folder of the release" in " ".join(
            outcome.stderr.split()
        )
    assert (folder / "in" / "file0.parquet").read_bytes() == before
    assert not (folder / "out" / "page.html").exists()
