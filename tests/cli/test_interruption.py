"""Runs that end in the middle: the old files stay, and nothing half written does."""

import errno
import signal

import numpy as np
import pytest

import microcell as mc
from microcell import api, tables
from microcell._atomic import AtomicFiles

pytestmark = pytest.mark.usefixtures("blank_figures")

BASE = (
    "anonymize",
    "people.csv",
    "-s",
    "schema.toml",
    "-k",
    5,
    "-o",
    "out.csv",
    "--report",
    "out.html",
)


@pytest.fixture
def long_run(tmp_path, monkeypatch):
    """Arguments of a run far longer than the test waits, in a folder with older outputs."""
    monkeypatch.chdir(tmp_path)
    points = np.random.default_rng(0).normal(size=(20_000, 6)).round(4)
    rows = [",".join(map(str, row)) for row in points.tolist()]
    (tmp_path / "people.csv").write_text("\n".join(["a,b,c,d,e,f", *rows, ""]), encoding="utf-8")
    schema = mc.schema.schema_to_toml(mc.Schema(quasi=list("abcdef")))
    (tmp_path / "schema.toml").write_text(schema, encoding="utf-8")
    for name in ("out.csv", "out.csv.manifest.json", "out.html"):
        (tmp_path / name).write_text("old", encoding="utf-8")
    return (*BASE, "--force", "--method", "vmdav", "--set", "gamma=best")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda item: item.name
)
def test_an_interrupted_run_leaves_the_old_files(tmp_path, long_run, spawn, number):
    before = contents(tmp_path)
    process = spawn(*long_run)
    for line in process.stderr:
        if line.lower().startswith("grouping records"):
            break
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stdout == ""
    assert stderr.splitlines()[-1] == "Interrupted: nothing was written."
    assert "Traceback" not in stderr
    assert contents(tmp_path) == before


FAILURES = [
    (KeyboardInterrupt(), 130, "Interrupted: nothing was written."),
    (OSError(errno.ENOSPC, "No space left on device"), 2, "No space left on device"),
    (ValueError("quoted value"), 70, "internal.bug"),
]


def half_written(error):
    def write(table, path, **_):
        path.write_text("half", encoding="utf-8")
        raise error

    return write


@pytest.mark.parametrize(("error", "code", "words"), FAILURES, ids=lambda item: type(item).__name__)
@pytest.mark.parametrize("old", [True, False], ids=["over old files", "in an empty place"])
def test_a_partly_written_table_is_removed(folder, run, monkeypatch, error, code, words, old):
    if old:
        assert run(*BASE).code == 0
    before = contents(folder)
    monkeypatch.setattr(tables, "write", half_written(error))
    outcome = run(*BASE, "--force")
    assert outcome.code == code
    assert words in outcome.stderr
    assert "quoted value" not in outcome.stderr
    assert contents(folder) == before


@pytest.mark.parametrize(("error", "code", "words"), FAILURES, ids=lambda item: type(item).__name__)
def test_a_table_that_cannot_be_read_back_is_removed(folder, run, monkeypatch, error, code, words):
    def fail(*_):
        raise error

    before = contents(folder)
    monkeypatch.setattr(api.tables, "read_back", fail)
    outcome = run(*BASE)
    assert outcome.code == code
    assert words in outcome.stderr
    assert contents(folder) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "people.csv", "-o", "draft.toml"),
        ("audit", "people.csv", "people.csv", "-s", "schema.toml", "--report", "audit.html"),
        ("example", "--force"),
        BASE,
    ],
    ids=lambda words: words[0],
)
def test_a_full_disk_leaves_all_files_unchanged(folder, run, monkeypatch, arguments):
    def fail(self):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = contents(folder)
    monkeypatch.setattr(AtomicFiles, "_rename", fail)
    outcome = run(*arguments)
    assert outcome.code == 2
    assert outcome.error == "system.io_error"
    assert contents(folder) == before
