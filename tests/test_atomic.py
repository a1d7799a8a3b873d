"""Files appear whole and together, or not at all."""

import os

import pytest

from microcell._atomic import Staging, check_target
from microcell.errors import TableError


def test_files_appear_together_at_the_end(tmp_path):
    first, second = tmp_path / "a.csv", tmp_path / "b.json"
    with Staging() as staging:
        staging.path(first).write_text("1")
        staging.path(second).write_text("2")
        assert not first.exists()
        assert not second.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.json"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_a_failure_leaves_what_was_there(tmp_path, error):
    target = tmp_path / "a.csv"
    target.write_text("old")

    def work():
        with Staging() as staging:
            staging.path(target).write_text("half")
            raise error

    with pytest.raises(error):
        work()
    assert target.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_an_interrupt_between_two_renames_does_not_part_what_belongs_together(
    tmp_path, monkeypatch
):
    targets = [tmp_path / name for name in ("a", "b", "c")]
    rename, calls = os.replace, []

    def interrupted(source, target):
        calls.append(target)
        if len(calls) == 2:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with Staging() as staging:
        for target in targets:
            staging.path(target).write_text("new")
    assert [target.read_text() for target in targets] == ["new"] * 3


def test_the_temporary_name_keeps_the_suffix_and_is_hidden(tmp_path):
    with Staging() as staging:
        path = staging.path(tmp_path / "table.parquet")
        path.write_text("")
        assert path.suffix == ".parquet"
        assert path.name.startswith(".table.")
        assert path.parent == tmp_path


def test_targets_are_checked(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("")
    link = tmp_path / "link.csv"
    link.symlink_to(source)
    check_target(tmp_path / "out.csv", sources=[source])
    for target, message in [
        (tmp_path / "none" / "out.csv", "does not exist"),
        (source / "out.csv", "does not exist"),
        (tmp_path, "is a folder"),
        (source, "is also an input"),
        (link, "is also an input"),
    ]:
        with pytest.raises(TableError, match=message):
            check_target(target, sources=[source])
