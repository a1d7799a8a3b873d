"""A set of files appears completely or not at all."""

import os
import signal
import sys
from itertools import count

import pytest

from microcell._atomic import AtomicFiles, check_target
from microcell.errors import TableError
from tests.raising import raises


def test_files_appear_together_at_the_end(tmp_path):
    first, second = tmp_path / "a.csv", tmp_path / "b.json"
    with AtomicFiles() as atomic:
        atomic.path(first).write_text("1")
        atomic.path(second).write_text("2")
        assert not first.exists()
        assert not second.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.json"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_a_failure_leaves_the_old_file(tmp_path, error):
    target = tmp_path / "a.csv"
    target.write_text("old")

    def work():
        with AtomicFiles() as atomic:
            atomic.path(target).write_text("half")
            raise error

    with pytest.raises(error):
        work()
    assert target.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_an_interrupt_while_renaming_does_not_leave_a_partial_set(tmp_path, monkeypatch):
    targets = [tmp_path / name for name in ("a", "b", "c")]
    rename, calls = os.replace, []

    def interrupted(source, target):
        calls.append(target)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        rename(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with AtomicFiles() as atomic:
        for target in targets:
            atomic.path(target).write_text("new")
    assert [target.read_text() for target in targets] == ["new"] * 3


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_call_leaves_all_files_or_none(tmp_path):
    targets = [tmp_path / name for name in ("a", "b", "c")]
    outcomes = []
    for at in count(1):
        for target in targets:
            target.write_text("old")
        calls = 0

        def interrupt(frame, event, argument, at=at):
            nonlocal calls
            calls += event in ("call", "c_call")
            if calls == at:
                calls += 1
                signal.raise_signal(signal.SIGINT)

        def work(act=interrupt):
            with AtomicFiles() as atomic:
                for target in targets:
                    atomic.path(target).write_text("new")
                sys.setprofile(act)
            sys.setprofile(None)

        try:
            work()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        contents = {target.read_text() for target in targets}
        assert len(contents) == 1
        assert sorted(tmp_path.iterdir()) == targets
        outcomes += contents
        if calls < at:
            break
    assert set(outcomes) == {"old", "new"}
    assert len(outcomes) > 50


def test_the_temporary_name_keeps_the_suffix_and_is_hidden(tmp_path):
    with AtomicFiles() as atomic:
        path = atomic.path(tmp_path / "table.parquet")
        path.write_text("")
        assert path.suffix == ".parquet"
        assert path.name.startswith(".table.")
        assert path.parent == tmp_path


def test_invalid_targets_are_rejected(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("")
    link = tmp_path / "link.csv"
    link.symlink_to(source)
    check_target(tmp_path / "out.csv", sources=[source])
    for target, code in [
        (tmp_path / "none" / "out.csv", "table.unwritable"),
        (source / "out.csv", "table.unwritable"),
        (tmp_path, "table.unwritable"),
        (source, "table.exists"),
        (link, "table.exists"),
    ]:
        with raises(TableError, code, path=str(target)):
            check_target(target, sources=[source])
