"""The history of a project against a plain list, and its folder after crashes and deletion."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microcell.errors import OptionError, TableError
from microcell.studio import Workspace
from tests.raising import raises


def new_project(folder):
    return Workspace(Path(folder)).create("people", Path("people.csv"), {"k": 2})


@settings(max_examples=8)
@given(st.lists(st.one_of(st.sampled_from(["undo", "redo"]), st.integers(3, 9)), max_size=20))
def test_undo_and_redo_walk_along_the_latest_branch(operations):
    with TemporaryDirectory() as folder:
        project = new_project(folder)
        parents, states, head = {1: None}, {1: {"k": 2}}, 1
        for operation in operations:
            if operation == "undo":
                project.undo()
                head = parents[head] or head
            elif operation == "redo":
                project.redo()
                head = max([step for step in parents if parents[step] == head], default=head)
            elif states[head] == {"k": operation}:
                project.add_step("k", {"k": operation})  # no change, no step
            else:
                project.add_step("k", {"k": operation})
                new = max(states) + 1
                parents[new], states[new], head = head, {"k": operation}, new
            assert project.head.run == states[head]
            assert project.head.parent == parents[head]
        assert {step.id: step.run for step in project.steps()} == states


def test_a_change_of_an_outdated_step_is_refused(tmp_path):
    project = new_project(tmp_path)
    project.add_step("k", {"k": 3}, parent=1)
    with raises(OptionError, "option.conflict"):
        project.add_step("k", {"k": 4}, parent=1)
    assert project.head.run == {"k": 3}


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
def test_folders_are_private(tmp_path):
    workspace = Workspace(tmp_path / "studio")
    project = workspace.create("people", Path("people.csv"), {})
    for folder in (workspace.folder, project.folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_deleted_project_leaves_nothing(tmp_path):
    workspace = Workspace(tmp_path)
    path = workspace.incoming(".csv")
    path.write_text("secret\n1\n")
    project = workspace.create("people", path, {})
    assert project.source.read_text() == "secret\n1\n"
    project.delete()
    assert [item for item in tmp_path.rglob("*") if item.is_file()] == []
    with raises(TableError, "table.not_found"):
        workspace.project(project.id)


@pytest.mark.parametrize("wrong", ["..", "../../etc", "0" * 16, "%2e%2e", "A" * 16, ""])
def test_an_identifier_cannot_lead_out_of_the_folder(tmp_path, wrong):
    (tmp_path / "project.sqlite").touch()
    with raises(TableError, "table.not_found"):
        Workspace(tmp_path / "studio").project(wrong)


WRITE = """
import sys
from pathlib import Path
from microcell.studio import Project
project = Project(Path(sys.argv[1]))
for k in range(3, 100_000):
    project.add_step(f"k: {k}", {"k": k})
    print(k, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_a_project_is_whole_after_sigkill(tmp_path):
    project = new_project(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE, str(project.folder)], stdout=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    told = [int(line) for line in process.stdout.read().split()]
    process.wait()
    process.stdout.close()
    states = [step.run["k"] for step in project.steps()]
    assert states == list(range(2, len(states) + 2))
    assert states[-1] >= max(told, default=3)  # what was reported as saved is saved
    assert project.head.run == {"k": states[-1]}
    assert project.add_step("k", {"k": 1}).run == {"k": 1}
