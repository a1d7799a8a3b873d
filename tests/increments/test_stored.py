"""Stored sessions: everything is restored, one writer at a time, steps are atomic."""

import datetime as dt
import errno
import json
import os
import signal
import stat
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

import microcell as mc
from microcell import tables
from microcell.errors import GuaranteeError, OptionError, TableError, TooFewRecordsError
from microcell.increments import storage
from microcell.methods.increments import STRATEGIES
from tests.raising import raises


def rows_of(table, cut):
    return {name: column[cut] for name, column in table.items()}


@pytest.fixture
def people():
    return mc.sample_survey(160)


@pytest.fixture
def stored(tmp_path, people):
    return mc.increments.StoredSession.create(
        tmp_path / "state", rows_of(people, slice(0, 100)), mc.sample_schema(), 5, method="mdav"
    )


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("missing", ["error", "drop", "impute"])
def test_stored_sessions_equal_sessions_in_memory(tmp_path, strategy, missing):
    people = mc.sample_survey(160) | {"s": np.arange(160) % 3, "w": np.linspace(1, 2, 160)}
    if missing != "error":
        people["bmi"][[5, 50, 120]] = np.nan
    sample = mc.sample_schema()
    schema = mc.Schema(
        identifiers=sample.identifiers,
        quasi=sample.quasi,
        confidential=sample.confidential,
        strata=["s"],
        weight="w",
    )
    parts = [
        pl.DataFrame(rows_of(people, cut))
        for cut in (slice(0, 100), slice(100, 130), slice(130, 160))
    ]
    options = {"method": "vmdav", "gamma": 0.2, "seed": 3, "missing": missing}
    session = mc.increments.start(parts[0], schema, 5, **options)
    mc.increments.StoredSession.create(tmp_path / "state", parts[0], schema, 5, **options)
    for part in parts[1:]:
        session.add(part, strategy=strategy)
        mc.increments.StoredSession(tmp_path / "state").add(part, strategy=strategy)
    expected, release = session.finish(), mc.increments.StoredSession(tmp_path / "state").finish()
    assert release.table.equals(expected.table)
    assert release.partition.labels.tolist() == expected.partition.labels.tolist()
    assert release.schema == expected.schema
    restored, original = release.manifest.as_dict(), expected.manifest.as_dict()
    for name in original.keys() - {"created", "seconds", "method", "order_key"}:
        assert restored[name] == original[name], name


def test_status_contains_no_value(stored, people):
    stored.add(rows_of(people, slice(100, 130)), strategy="nearest", inertial=True)
    status = stored.status()
    assert (status.records, status.kept, status.k, status.waiting, status.finished) == (
        130,
        130,
        5,
        0,
        None,
    )
    assert [(batch.records, batch.strategy, batch.inertial) for batch in status.batches] == [
        (100, None, False),
        (30, "nearest", True),
    ]
    assert status.cells == len(stored.finish().partition)
    assert stored.status().finished == stored.finish().manifest.created
    text = str(status) + json.dumps(status.as_dict())
    assert not any(name.split()[1] in text for name in people["name"])
    assert all("digest" not in batch for batch in status.as_dict()["batches"])


def test_folder_is_private_and_has_a_warning(stored):
    previous = os.umask(0)
    try:
        (stored.folder.parent / "other").mkdir(mode=0o755)
        mc.increments.StoredSession.create(
            stored.folder.parent / "other", {"x": [1, 2, 3, 4]}, mc.Schema(quasi=["x"]), 2
        )
    finally:
        os.umask(previous)
    for folder in (stored.folder, stored.folder.parent / "other"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
        assert "ORIGINAL DATA" in (folder / "README.txt").read_text(encoding="utf-8")


def test_finishing_twice_gives_identical_files(stored, people, tmp_path):
    stored.add(rows_of(people, slice(100, 160)))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        mc.publish(mc.increments.StoredSession(stored.folder).finish(), tmp_path / name / "out.csv")
    for file in ("out.csv", "out.csv.manifest.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    with raises(GuaranteeError, "guarantee.session_finished"):
        stored.add(rows_of(people, slice(100, 130)))
    assert stored.status().records == 160


def test_a_failed_release_leaves_the_session_open(tmp_path):
    base = {
        "x": np.arange(8.0),
        "s": [1] * 6 + [2] * 2,
        "a name that is far too long for a file of Stata": [1] * 8,
    }
    schema = mc.Schema(quasi=["x"], strata=["s"], rest="keep")
    stored = mc.increments.StoredSession.create(tmp_path / "state", base, schema, 3)
    with raises(TooFewRecordsError, "guarantee.stratum_too_small", k=3, strata=1):
        stored.finish()
    stored.add(rows_of(base, slice(6, 8)) | {"x": [5.0, 6.0]}, repeated="keep")
    with raises(
        TableError,
        "table.format_limit",
        columns=["a name that is far too long for a file of Stata"],
    ):
        stored.finish(suffix=".dta")
    assert stored.status().finished is None
    assert stored.finish(suffix=".csv").published.rows == 10


def test_records_are_restored(stored, people):
    stored.add(rows_of(people, slice(100, 160)))
    assert tables.digest(stored.records()) == tables.digest(tables.read(people))


TYPES = {
    "small": pl.Series([1, 2, None], dtype=pl.UInt8),
    "large": pl.Series([2**62, -5, None]),
    "huge": pl.Series([2**100, 1, None], dtype=pl.Int128),
    "single": pl.Series([1.5, None, float("nan")], dtype=pl.Float32),
    "exact": pl.Series([Decimal("1.25"), None, Decimal("2.50")]),
    "text": pl.Series(["", 'é,\n"quoted"', None]),
    "number like": pl.Series(["007", "7", "1e3"]),
    "category": pl.Series(["b", "a", None], dtype=pl.Categorical),
    "order": pl.Series(["b", "a", None], dtype=pl.Enum(["b", "unused", "a"])),
    "truth": pl.Series([True, None, False]),
    "date": pl.Series([dt.date(2024, 2, 29), None, dt.date(1, 1, 1)]),
    "moment": pl.Series([dt.datetime(2024, 2, 29, 1, 2, 3, 4), None, None]),
    "nanoseconds": pl.Series([1, None, 3]).cast(pl.Datetime("ns")),
    "zone": pl.Series([dt.datetime(2024, 7, 1), None, None]).dt.replace_time_zone("Europe/Zurich"),
    "duration": pl.Series([dt.timedelta(days=1, microseconds=5), None, None]),
    "time": pl.Series([dt.time(1, 2, 3, 4), None, None]),
    "nothing": pl.Series([None, None, None]),
}


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_restored(tmp_path, name):
    frame = pl.DataFrame({"x": np.arange(6.0), name: pl.concat([TYPES[name], TYPES[name]])})
    stored = mc.increments.StoredSession.create(
        tmp_path / "state", frame, mc.Schema(quasi=["x"], rest="keep"), 2
    )
    stored.add(frame.with_columns(pl.col("x") + 0.25))
    restored = stored.records().native
    assert restored.schema == frame.schema
    assert restored[:6].equals(frame, null_equal=True)
    assert restored[6:].drop("x").equals(frame.drop("x"), null_equal=True)


FILES = {
    "people.csv": "x,zip,day,n\n1,00123,2024-01-31,7\n2,12345,2024-02-01,8\n"
    "3,,2024-02-02,\n4,77777,2024-02-03,10\n",
    "people.tsv": "x\tzip\tday\n1\t00123\t31/12/2024\n2\t12345\t01/02/2024\n"
    "3\t3a\t02/02/2024\n4\t4\t03/02/2024\n",
    "comma.csv": "x;zip\n1,5;a\n2,5;b\n3,5;c\n4,5;d\n",
    "people.jsonl": '{"x":1,"zip":"01"}\n{"x":2,"zip":"02"}\n'
    '{"x":3,"zip":null}\n{"x":4,"zip":"04"}\n',
}


@pytest.mark.parametrize("name", FILES)
def test_file_formats_are_restored_and_reproduced(tmp_path, name):
    (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    table = mc.read(tmp_path / name)
    stored = mc.increments.StoredSession.create(
        tmp_path / "state", table, mc.Schema(quasi=["x"], rest="keep"), 2
    )
    assert tables.digest(stored.records()) == tables.digest(table)
    assert stored.records().origin == tables.origin_from_dict(tables.origin_to_dict(table.origin))
    mc.publish(stored.finish(), tmp_path / f"out{(tmp_path / name).suffix}")
    mc.publish(
        mc.anonymize(table, mc.Schema(quasi=["x"], rest="keep"), k=2),
        tmp_path / f"plain{(tmp_path / name).suffix}",
    )
    one, other = (
        sorted((tmp_path / f"{stem}{(tmp_path / name).suffix}").read_text().splitlines())
        for stem in ("out", "plain")
    )
    assert one == other


def test_integers_in_a_text_column_stay_text(tmp_path):
    (tmp_path / "base.csv").write_text(FILES["people.csv"], encoding="utf-8")
    (tmp_path / "batch.csv").write_text("x,zip,day,n\n5,54321,2024-03-01,\n", encoding="utf-8")
    stored = mc.increments.StoredSession.create(
        tmp_path / "state", tmp_path / "base.csv", mc.Schema(quasi=["x"], rest="keep"), 2
    )
    stored.add(tmp_path / "batch.csv")
    assert stored.records().native["zip"].to_list() == ["00123", "12345", None, "77777", "54321"]


def test_any_type_of_data_frame(tmp_path, people):
    stored = mc.increments.StoredSession.create(
        tmp_path / "state", people, mc.sample_schema(), 5, method="mdav"
    )
    others = {"bmi": people["bmi"][:20] + 1, "name": [f"Other {i}" for i in range(20)]}
    stored.add(pd.DataFrame(rows_of(people, slice(0, 20)) | others))
    assert stored.status().records == 180


# --------------------------------------------------------------------------------- errors


def test_identical_batches_need_again(stored, people):
    stored.add(rows_of(people, slice(100, 130)))
    with raises(OptionError, "option.duplicate_batch", batch=1):
        stored.add(rows_of(people, slice(100, 130)))
    with raises(OptionError, "option.duplicate_batch", batch=0):
        stored.add(rows_of(people, slice(0, 100)))
    stored.add(rows_of(people, slice(100, 130)), again=True)
    assert stored.status().records == 160


def test_folders_that_cannot_be_used(tmp_path, stored, people):
    for folder in (stored.folder, tmp_path):
        with raises(TableError, "table.exists"):
            mc.increments.StoredSession.create(folder, people, mc.sample_schema(), 5)
    with raises(TableError, "table.not_found"):
        mc.increments.StoredSession.create(tmp_path / "no" / "state", people, mc.sample_schema(), 5)
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with raises(TableError, "table.unwritable"):
        mc.increments.StoredSession.create(tmp_path / "file", people, mc.sample_schema(), 5)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("exists", [True, False])
def test_a_failed_start_leaves_nothing(tmp_path, people, exists):
    if exists:
        (tmp_path / "state").mkdir()
    with raises(TooFewRecordsError, "guarantee.too_few_records", k=500, records=160):
        mc.increments.StoredSession.create(tmp_path / "state", people, mc.sample_schema(), 500)
    assert (tmp_path / "state").exists() == exists
    assert not exists or names(tmp_path / "state") == []


def test_an_interrupted_start_can_be_repeated(tmp_path, people):
    storage.create_folder(tmp_path / "state")
    (tmp_path / "state" / "records-left.parquet").write_bytes(b"half")
    with raises(TableError, "table.not_found"):
        mc.increments.StoredSession(tmp_path / "state")
    mc.increments.StoredSession.create(
        tmp_path / "state", people, mc.sample_schema(), 5, method="mdav"
    )
    assert "records-left.parquet" not in names(tmp_path / "state")


@pytest.mark.parametrize("folder", ["nowhere", "empty", "file"])
def test_folder_without_a_session(tmp_path, folder):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("", encoding="utf-8")
    with raises(TableError, "table.not_found"):
        mc.increments.StoredSession(tmp_path / folder)


def test_options_that_json_cannot_store(tmp_path):
    with raises(OptionError, "option.wrong_type", option="start"):
        mc.increments.StoredSession.create(
            tmp_path / "s",
            {"x": [1.0, 2, 3, 4]},
            mc.Schema(quasi=["x"]),
            2,
            method="pcl",
            start=np.zeros((2, 1)),
        )


@pytest.mark.parametrize("version", [0, 1, None, "2"])
def test_other_format_versions(stored, people, version):
    change_state_file(stored.folder, version=version)
    for act in (
        stored.status,
        stored.finish,
        lambda: stored.add(people),
        lambda: mc.increments.StoredSession(stored.folder),
    ):
        with raises(TableError, "table.unknown_format"):
            act()


def change_state_file(folder, **changed):
    content = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    (folder / "state.json").write_text(json.dumps({**content, **changed}), encoding="utf-8")


def test_altered_state_file(stored, people):
    change_state_file(stored.folder, k=2)
    with raises(TableError, "table.malformed"):
        stored.finish()


@pytest.mark.parametrize("damage", ["truncated", "deleted", "replaced"])
@pytest.mark.parametrize("which", ["records", "cells", "state"])
def test_damaged_files(stored, people, which, damage):
    [path] = [path for path in stored.folder.iterdir() if path.name.startswith(which)]
    if damage == "deleted":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-5] if damage == "truncated" else b"[]")
    before = names(stored.folder)
    is_missing = (which, damage) == ("state", "deleted")
    with raises(TableError, "table.not_found" if is_missing else "table.malformed"):
        stored.add(rows_of(people, slice(100, 130)))
    assert names(stored.folder) == before


@pytest.mark.parametrize("which", ["records", "cells"])
def test_exchanged_files(stored, which):
    [path] = [path for path in stored.folder.iterdir() if path.name.startswith(which)]
    frame = pl.read_parquet(path)
    frame[::-1].write_parquet(path)
    with raises(TableError, "table.malformed"):
        stored.finish()


# -------------------------------------------------------------------------------------- one writer


def test_one_writer_but_many_readers(stored, people):
    with storage.lock(stored.folder):
        for act in (stored.finish, lambda: stored.add(people)):
            with raises(TableError, "table.locked") as caught:
                act()
            assert f"(PID {os.getpid()})" in str(caught.value)
        assert stored.status().records == 100
    stored.add(rows_of(people, slice(100, 130)))


HOLD = """
import sys, time
from pathlib import Path
from microcell.increments import storage
with storage.lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_killed_processes_release_the_lock(stored, people):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, stored.folder], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        with raises(TableError, "table.locked"):
            stored.finish()
        process.send_signal(signal.SIGKILL)
        process.wait()
    stored.add(rows_of(people, slice(100, 130)))
    assert stored.status().records == 130


# --------------------------------------------------------------------------------------- disk full


class FullDisk:
    """System call that fails the n-th time."""

    def __init__(self, call, number):
        self.call, self.left = call, number

    def __call__(self, *arguments, **options):
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.call(*arguments, **options)


@pytest.mark.parametrize("number", range(1, 10))
@pytest.mark.parametrize("name", ["fsync", "replace", "fdopen"])
def test_full_disk_leaves_the_session_unchanged(stored, people, monkeypatch, name, number):
    before, raised = stored.status(), None
    disk = FullDisk(getattr(os, name), number)
    monkeypatch.setattr(os, name, disk)
    try:
        stored.add(rows_of(people, slice(100, 130)), strategy="nearest")
    except TableError as error:
        raised = error
    if raised:
        assert raised.code == "table.unwritable"
        assert "No space left on device. The session is unchanged" in str(raised)
        assert stored.status() == before
    else:
        # Syncing the folder itself may fail: not every system supports it.
        assert disk.left > 0 or name == "fsync"
    monkeypatch.undo()
    assert not [file for file in names(stored.folder) if file.endswith(".partial")]
    if stored.status() == before:
        stored.add(rows_of(people, slice(100, 130)), strategy="nearest")
    assert stored.finish().published.rows == 130


def test_full_disk_while_finishing_leaves_the_session_open(stored, people, monkeypatch):
    monkeypatch.setattr(os, "replace", FullDisk(os.replace, 1))
    with raises(TableError, "table.unwritable"):
        stored.finish()
    monkeypatch.undo()
    assert stored.status().finished is None
    stored.add(rows_of(people, slice(100, 130)))
    assert stored.finish().published.rows == 130
