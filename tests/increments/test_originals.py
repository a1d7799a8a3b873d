"""What a session was given stays as it was: files are not written over, and frames may change meanwhile."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import microcell as mc
from microcell.errors import OptionError, TableError
from microcell.increments import session as states

SCHEMA = mc.Schema(quasi=["x", "y"])


def make_people(n, seed=0):
    random = np.random.default_rng(seed)
    return {"x": random.normal(size=n), "y": random.normal(size=n)}


@pytest.fixture
def stored(tmp_path):
    for name, n in (("base", 30), ("batch", 8)):
        pl.DataFrame(make_people(n, seed=n)).write_csv(tmp_path / f"{name}.csv")
    stored = mc.increments.StoredSession.create(
        tmp_path / "state", tmp_path / "base.csv", SCHEMA, 3, method="mdav"
    )
    stored.add(tmp_path / "batch.csv")
    return stored


def test_the_files_that_records_came_from_are_known_wherever_the_folder_is_used(
    stored, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path.parent)
    again = mc.increments.StoredSession(tmp_path / "state")
    assert again.sources() == [(tmp_path / f"{name}.csv").resolve() for name in ("base", "batch")]


def test_a_path_given_from_a_folder_is_that_file_from_any_other(tmp_path, monkeypatch):
    pl.DataFrame(make_people(30)).write_csv(tmp_path / "base.csv")
    monkeypatch.chdir(tmp_path)
    mc.increments.StoredSession.create("state", "base.csv", SCHEMA, 3, method="mdav")
    monkeypatch.chdir("/")
    assert mc.increments.StoredSession(tmp_path / "state").sources() == [
        (tmp_path / "base.csv").resolve()
    ]


def test_records_of_a_frame_have_no_file(tmp_path):
    stored = mc.increments.StoredSession.create(
        tmp_path / "state", make_people(30), SCHEMA, 3, method="mdav"
    )
    assert stored.sources() == []


def test_a_release_is_not_written_over_the_base(stored, tmp_path):
    before = (tmp_path / "base.csv").read_bytes()
    with pytest.raises(TableError):
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
def test_what_becomes_of_a_frame_after_it_was_given_does_not_matter(make, added):
    def release(spoil):
        base, batch = make(30, 1), make(8, 2)
        session = mc.increments.start(base, SCHEMA, 3, method="mdav")
        if spoil:
            overwrite(base)
        if added:
            session.add(batch, strategy="nearest")
        if spoil:
            overwrite(batch)
        return session.finish().table

    assert np.array_equal(pd.DataFrame(release(spoil=True)), pd.DataFrame(release(spoil=False)))


def test_a_batch_that_is_in_already_is_refused_before_the_work(stored, tmp_path, monkeypatch):
    monkeypatch.setattr(states, "join", None)
    with pytest.raises(OptionError, match="as batch 1"):
        stored.add(tmp_path / "batch.csv")
    with pytest.raises(OptionError, match="as the base"):
        stored.add(tmp_path / "base.csv")


@pytest.mark.parametrize("on_disk", [False, True])
def test_the_manifest_names_the_method_that_made_cells_though_all_strata_had_to_wait(
    tmp_path, on_disk
):
    def part(each, seed):
        return {**make_people(4 * each, seed), "group": np.repeat(list("abcd"), each)}

    schema = mc.Schema(quasi=["x", "y"], strata=["group"])
    if on_disk:
        session = mc.increments.StoredSession.create(tmp_path / "state", part(5, 0), schema, 10)
    else:
        session = mc.increments.start(part(5, 0), schema, 10)
    session.add(part(8, 1))
    session.add(part(2, 2))
    told = session.finish().manifest.method
    assert (told["asked"], told["used"] == "auto", told["why"] == "requested") == (
        "auto",
        False,
        False,
    )
