"""Publishing stopped at any rename: the set is complete, or recognized as incomplete.

What a killed process leaves is the folder as it was before the rename, with files that nobody has
locked: a copy made at that moment. Some tests really kill a process.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import microcell as mc
from microcell import tables
from microcell._atomic import AtomicFiles
from microcell.cli import app
from microcell.dask.folders import OWNER, _identity
from microcell.errors import TableError
from microcell.release import manifest_path
from tests.processes import Process
from tests.raising import raises
from tests.release.publishing import (
    FILES,
    PEOPLE,
    SCHEMA,
    before_renames,
    publish,
    publish_dataset,
)

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals and locks of POSIX"),
    pytest.mark.usefixtures("blank_figures"),
]

RENAMES = range(len(FILES))


def stopped(folder, copies, run, k):
    """Publish in the folder, and copy it before each rename; return the copies."""
    taken = []

    def copy(number):
        taken.append(copies / str(number))
        shutil.copytree(folder, taken[-1])

    undo = before_renames(copy)
    try:
        run(folder, k)
    finally:
        undo()
    return taken


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A complete release with k = 3."""
    folder = tmp_path_factory.mktemp("old")
    publish(folder, 3)
    return folder


@pytest.fixture(scope="module")
def replaced(old, tmp_path_factory):
    """Folders in which a release with k = 4 was about to replace it, stopped at each rename."""
    folder = tmp_path_factory.mktemp("replaced")
    shutil.copytree(old, folder / "new")
    return stopped(folder / "new", folder, publish, 4)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Folders in which a first release was stopped at each rename."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "new").mkdir()
    return stopped(folder / "new", folder, publish, 3)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def copied(folder, tmp_path):
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def check_complete(folder, k):
    """Check that the folder contains one complete release and nothing else."""
    assert set(contents(folder)) == set(FILES)
    assert mc.find_manifest(None, folder / "out.csv").k == k
    audit = mc.audit(PEOPLE, folder / "out.csv", SCHEMA, brief=True)
    assert audit["manifest_contradictions"] == 0
    assert audit["k"] >= k


def check_incomplete(folder):
    output = folder / "out.csv"
    with raises(TableError, "table.incomplete", path=str(output)):
        mc.find_manifest(None, output)
    with raises(TableError, "table.incomplete", path=str(output)):
        mc.audit(PEOPLE, output, SCHEMA)


@pytest.mark.parametrize("at", RENAMES)
def test_a_replacement_stopped_at_each_rename(old, replaced, tmp_path, at):
    assert len(replaced) == len(FILES)
    folder = copied(replaced[at], tmp_path)
    before, after = contents(old), contents(folder)
    assert len(after) == len(FILES) + len(FILES) - at
    assert [name for name in FILES if after[name] != before[name]] == list(FILES[:at])
    if at == 0:
        assert mc.find_manifest(None, folder / "out.csv").k == 3
    else:
        check_incomplete(folder)
    publish(folder, 4)
    check_complete(folder, 4)


@pytest.mark.parametrize("at", RENAMES)
def test_a_first_release_stopped_at_each_rename(first, tmp_path, at):
    """Without an earlier manifest, the temporary manifest shows that the set is incomplete."""
    folder = copied(first[at], tmp_path)
    assert [name for name in FILES if name in contents(folder)] == list(FILES[:at])
    if at == 0:
        assert mc.find_manifest(None, folder / "out.csv") is None
    else:
        check_incomplete(folder)
    publish(folder, 3)
    check_complete(folder, 3)


@pytest.mark.parametrize("at", RENAMES)
def test_an_interrupt_at_a_rename_completes_the_set(old, tmp_path, at):
    folder = copied(old, tmp_path)

    def interrupt(number):
        if number == at:
            signal.raise_signal(signal.SIGINT)

    undo = before_renames(interrupt)
    try:
        publish(folder, 4)
    finally:
        undo()
    check_complete(folder, 4)


def run_stopped(folder, how, at):
    process = Process("tests.release.publishing.publish_stopped", folder, 4, how, at)
    process.communicate()
    return process.returncode


@pytest.mark.slow
def test_a_process_that_is_really_killed(old, tmp_path):
    folder = copied(old, tmp_path)
    assert run_stopped(folder, "kill", 2) == -signal.SIGKILL
    check_incomplete(folder)
    publish(folder, 4)
    check_complete(folder, 4)


@pytest.mark.slow
def test_a_process_that_is_really_interrupted(old, tmp_path):
    folder = copied(old, tmp_path)
    run_stopped(folder, "interrupt", 2)
    check_complete(folder, 4)


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, 5_000])
def test_a_full_disk_leaves_the_old_set(old, tmp_path, size):
    """The table does not fit, or the table but not the report."""
    folder = copied(old, tmp_path)
    assert run_stopped(folder, "full", size) == 1
    assert contents(folder) == contents(old)


def test_commands_report_an_incomplete_set(replaced, tmp_path):
    folder = copied(replaced[2], tmp_path)
    mc.write(PEOPLE, folder / "people.csv")
    (folder / "schema.toml").write_text(
        'schema_version = 1\n[columns.age]\nrole = "quasi"\n'
        '[columns.income]\nrole = "confidential"\n'
    )
    names = [str(folder / name) for name in ("people.csv", "out.csv", "schema.toml")]
    for extra in ([], ["--json"], ["--certificate", str(folder / "c.pdf")]):
        outcome = CliRunner().invoke(app, ["audit", *names[:2], "-s", names[2], *extra])
        assert outcome.exit_code != 0
        assert "table.incomplete" in outcome.output
    assert not (folder / "c.pdf").exists()


def test_an_audit_does_not_replace_a_report_of_the_release(old, tmp_path):
    folder = copied(old, tmp_path)
    mc.write(PEOPLE, folder / "people.csv")
    (folder / "schema.toml").write_text('schema_version = 1\n[columns.age]\nrole = "quasi"\n')
    names = [str(folder / name) for name in ("people.csv", "out.csv", "schema.toml", "out.html")]
    command = ["audit", *names[:2], "-s", names[2], "--report", names[3]]
    assert "table.exists" in CliRunner().invoke(app, command).output


def test_reports_may_be_moved_but_not_replaced(old, tmp_path):
    folder = copied(old, tmp_path)
    (folder / "out.html").unlink()
    assert mc.find_manifest(None, folder / "out.csv").k == 3
    (folder / "out.pdf").write_bytes(b"another")
    check_incomplete(folder)


# -------------------------------------------------------------------------------- data sets


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_data_set_stopped_at_each_rename(tmp_path, is_first, at):
    (tmp_path / "new").mkdir()
    if not is_first:
        publish_dataset(tmp_path / "new", 3)
    copies = stopped(tmp_path / "new", tmp_path, publish_dataset, 4)
    # Publishing the part, which stands for the work of the engine, takes two renames before.
    folder, output = copies[2 + at], copies[2 + at] / "out"
    assert len(copies) == 4
    for left in folder.glob(".out.*"):
        if left.is_dir() and (left / OWNER).exists():  # as if the process had ended
            (left / OWNER).write_text(json.dumps(_identity(os.getpid()) | {"started": "1"}))
    if at == 1:
        with raises(TableError, "table.incomplete", path=str(output)):
            mc.find_manifest(None, output)
    elif not is_first:
        assert mc.find_manifest(None, output).k == 3
    publish_dataset(folder, 4)
    assert mc.find_manifest(None, output).k == 4
    assert sorted(path.name for path in output.iterdir()) == ["_SUCCESS", "part-000000.parquet"]
    assert sorted(path.name for path in folder.iterdir()) == ["out", "out.manifest.json"]


# -------------------------------------------------------------------------------- left-overs


def test_only_abandoned_files_for_the_same_target_are_removed(tmp_path):
    target = tmp_path / "out.csv"
    mine = tmp_path / ".out.0123abcd.partial.csv"
    others = [
        tmp_path / name
        for name in (
            ".out.0123abcd.partial.json", ".out.0123abcd.partial", ".other.0123abcd.partial.csv",
            ".out.0123.partial.csv", "out.0123abcd.partial.csv",
        )
    ]  # fmt: skip
    for path in (mine, *others):
        path.write_text("left behind")
    with AtomicFiles() as running:
        busy = running.path(target)
        busy.write_text("first")
        with AtomicFiles() as atomic:
            atomic.path(target).write_text("second")
        assert busy.exists()
        assert not mine.exists()
    assert target.read_text() == "first"
    assert all(path.exists() for path in others)


@pytest.mark.parametrize(
    "suffix", [".csv", ".jsonl", ".parquet", ".arrow", ".xlsx", ".sav", ".zsav", ".dta", ".xpt"]
)
def test_writers_keep_the_locked_file(tmp_path, suffix):
    with AtomicFiles() as atomic:
        path = atomic.path(tmp_path / f"out{suffix}")
        before = path.stat().st_ino
        tables.write(mc.read(PEOPLE), path)
        assert path.stat().st_ino == before


# -------------------------------------------------------------------------------- permissions


@pytest.mark.parametrize("audience", ["internal", "public"])
def test_only_the_owner_can_read_the_manifest_and_an_internal_report(tmp_path, audience):
    def mode(path):
        return path.stat().st_mode & 0o777

    (tmp_path / "plain").touch()
    usual = mode(tmp_path / "plain")
    output, report = tmp_path / "out.csv", tmp_path / "out.html"
    for path in (report, manifest_path(output)):
        path.touch()  # an earlier file that everyone can read
    release = mc.anonymize(PEOPLE, SCHEMA, k=3, method="mdav")
    release.publish(output, report=report, certificate=tmp_path / "out.pdf", audience=audience)
    assert mode(manifest_path(output)) == 0o600
    assert mode(report) == (0o600 if audience == "internal" else usual)
    assert mode(output) == mode(tmp_path / "out.pdf") == usual
    mc.api.write_reports(release.audit(), report=report, title="Audit", audience=audience)
    assert mode(report) == (0o600 if audience == "internal" else usual)
