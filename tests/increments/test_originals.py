"""Sources of a session: files are never overwritten, and data frames may change meanwhile."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import microcell as mc
from microcell.errors import OptionError, TableError
from microcell.increments import state as state_module
from tests.raising import raises

SCHEMA = mc.Schema(quasi=["x", "y"])


def make_people(n, seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=n), "y": rng.normal(size=n)}


@pytest.fixture
def stored(tmp_path):
    for name, n in (("base", 30), ("batch", 8)):
        pl.DataFrame(make_people(n, seed=n)).write_csv(tmp_path / f"{name}.csv")
    stored = mc.increments.StoredSession.create(
        tmp_path / "state", tmp_path / "base.csv", SCHEMA, 3, method="mdav"
    )
    stored.add(tmp_path / "batch.csv")
    return stored


def test_sources_are_known_from_any_directory(stored, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path.parent)
    again = mc.increments.StoredSession(tmp_path / "state")
    assert again.sources() == [(tmp_path / f"{name}.csv").resolve() for name in ("base", "batch")]


def test_relative_paths_are_resolved(tmp_path, monkeypatch):
    pl.DataFrame(make_people(30)).write_csv(tmp_path / "base.csv")
    monkeypatch.chdir(tmp_path)
    mc.increments.StoredSession.create("state", "base.csv", SCHEMA, 3, method="mdav")
    monkeypatch.chdir("/")
    assert mc.increments.StoredSession(tmp_path / "state").sources() == [
        (tmp_path / "base.csv").resolve()
    ]


def test_data_frames_have_no_source(tmp_path):
    stored = mc.increments.StoredSession.create(
        tmp_path / "state", make_people(30), SCHEMA, 3, method="mdav"
    )
    assert stored.sources() == []


def test_release_does_not_overwrite_the_base(stored, tmp_path):
    before = (tmp_path / "base.csv").read_bytes()
    with raises(TableError, "table.exists"):
        mc.publish(stored.finish(), tmp_path / "base.csv")
    assert (tmp_path / "base.csv").read_bytes() == before


def make_frame(n, seed):
    return pd.DataFrame(make_people(n, seed))


def overwrite(table):
    if isinstance(table, dict):
        table["x"][:] = 99.0
    else:
        table.loc[:, "x"] = 99.0
    table["y"] = np.full(len(table["x"]), 7)


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("make", [make_people, make_frame])
def test_later_changes_of_a_data_frame_do_not_matter(make, added):
    def release(overwritten):
        base, batch = make(30, 1), make(8, 2)
        session = mc.increments.start(base, SCHEMA, 3, method="mdav")
        if overwritten:
            overwrite(base)
        if added:
            session.add(batch, strategy="nearest")
        if overwritten:
            overwrite(batch)
        return session.finish().table

    assert np.array_equal(
        pd.DataFrame(release(overwritten=True)), pd.DataFrame(release(overwritten=False))
    )


def test_duplicate_batches_are_rejected_before_the_work(stored, tmp_path, monkeypatch):
    monkeypatch.setattr(state_module, "join", None)
    with raises(OptionError, "option.duplicate_batch", batch=1):
        stored.add(tmp_path / "batch.csv")
    with raises(OptionError, "option.duplicate_batch", batch=0):
        stored.add(tmp_path / "base.csv")


@pytest.mark.parametrize("on_disk", [False, True])
def test_manifest_names_the_method_if_all_strata_had_to_wait(tmp_path, on_disk):
    def part(each, seed):
        return {**make_people(4 * each, seed), "group": np.repeat(list("abcd"), each)}

    schema = mc.Schema(quasi=["x", "y"], strata=["group"])
    if on_disk:
        session = mc.increments.StoredSession.create(tmp_path / "state", part(5, 0), schema, 10)
    else:
        session = mc.increments.start(part(5, 0), schema, 10)
    session.add(part(8, 1))
    session.add(part(2, 2))
    method = session.finish().manifest.method
    assert method.requested == "auto"
    assert method.used != "auto"
    assert method.reason != "requested"
