"""Directories of a job: owners, leftovers of killed jobs, and temporary releases."""

import json
import os
import signal
import subprocess
import sys

import pytest

import microcell as mc
from microcell.dask.folders import OWNER, Folders, _identity, temporary_output
from tests.dask.running import SCHEMA, people, run, write_files
from tests.processes import Process


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("source") / "in", [people(300, 1)])


def test_the_next_job_removes_leftovers_of_a_killed_one(source, tmp_path):
    process = Process("tests.dask.running.run_killed", source, tmp_path / "out")
    _, message = process.communicate()
    assert process.returncode == -signal.SIGKILL, message
    left = sorted(path.name for path in tmp_path.iterdir())
    assert [name.rpartition(".")[2] for name in left] == ["partial", "work"]
    assert all((tmp_path / name).stat().st_mode & 0o777 == 0o700 for name in left)
    assert list((tmp_path / left[1]).glob("shuffled-*"))
    messages = []
    with mc.listen(lambda task, _done, _total: messages.append(task)):
        run(source, SCHEMA, tmp_path / "out")
    assert [task for task in messages if "killed" in task] == [
        f"removing {name}, left behind by a killed job" for name in left
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.manifest.json"]


def leave(folder, **changed):
    folder.mkdir()
    (folder / OWNER).write_text(json.dumps(_identity(os.getpid()) | changed))
    return folder


@pytest.mark.parametrize(
    ("changed", "stays", "reported"),
    [
        ({}, True, False),
        ({"started": "1"}, False, True),
        ({"pid": 2**22 + 1}, False, True),
        ({"host": "another"}, True, True),
        ({"boot": "another"}, True, True),
        ({"namespace": "pid:[1]"}, True, True),
        ({"pid": "x"}, True, True),
    ],
)
def test_only_directories_of_ended_processes_are_removed(tmp_path, changed, stays, reported):
    folder = leave(tmp_path / ".out.12345678.work", **changed)
    messages = []
    with (
        mc.listen(lambda task, _done, _total: messages.append(task)),
        Folders(tmp_path / "out", None),
    ):
        pass
    assert folder.exists() == stays
    assert any(folder.name in task for task in messages) == reported


def test_directories_of_others_are_kept(tmp_path):
    """Other outputs, links, files, directories without an owner, and names like patterns."""
    dead = {"started": "1"}
    other = leave(tmp_path / ".other.12345678.work", **dead)
    plain = tmp_path / ".out.1.work"
    plain.mkdir()
    (tmp_path / ".out.2.work").touch()
    (tmp_path / ".out.3.work").symlink_to(other)
    other_pattern = leave(tmp_path / ".o?t.12345678.work", **dead)
    for name in ("out", "o?t"):
        with Folders(tmp_path / name, None):
            pass
    assert other.exists()
    assert plain.exists()
    assert (tmp_path / ".out.2.work").exists()
    assert (tmp_path / ".out.3.work").is_symlink()
    assert not other_pattern.exists()


def test_directories_are_private_until_the_release_is_published(source, tmp_path):
    with Folders(tmp_path / "out", None) as folders:
        assert folders.work.stat().st_mode & 0o777 == 0o700
        assert folders.target.stat().st_mode & 0o777 == 0o700
        folders.commit((), "{}", False)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["_SUCCESS"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.manifest.json"]


def test_a_temporary_release_lasts_as_long_as_the_program(tmp_path):
    code = (
        "import sys; from pathlib import Path; from microcell.dask.folders import temporary_output;"
        "path = temporary_output(Path(sys.argv[1])); path.mkdir(); (path / 'x').touch();"
        "print(path.parent.stat().st_mode)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []
    one, other = temporary_output(tmp_path), temporary_output(tmp_path)
    assert one != other
