"""Killed processes: the session stays usable, and no record is lost or duplicated."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from time import perf_counter

import numpy as np
import polars as pl
import pytest

import microcell as mc
from microcell.errors import OptionError, TableError

BASE, BATCH = 60, 21
SEED = 20_240_501


class Worker:
    """Runs steps in a process that may be killed."""

    def __init__(self):
        script = Path(__file__).with_name("killing.py")
        self.process = subprocess.Popen(
            [sys.executable, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def __call__(self, folder, step, *, strategy="refined", **options):
        self.process.stdin.write(
            json.dumps({"folder": str(folder), "step": step, "strategy": strategy, **options})
            + "\n"
        )
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def worker():
    worker = Worker()
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, worker):
    """Return a folder with tables and a session, to be copied for each kill."""
    folder = tmp_path_factory.mktemp("prepared")
    points = np.random.default_rng(0).normal(size=(BASE + BATCH, 2))
    people = pl.DataFrame({"x": points[:, 0], "y": points[:, 1], "id": np.arange(BASE + BATCH)})
    people[:BASE].write_parquet(folder / "base.parquet")
    people[BASE:].write_parquet(folder / "batch.parquet")
    assert worker(folder, "start") == pytest.approx(
        {"killed": False, "code": 0, "calls": 0}, abs=1000
    )
    return folder


@pytest.fixture(scope="module")
def added(tmp_path_factory, worker, prepared):
    """Return folders by strategy that already contain the batch, to be copied for each kill."""
    folders = {
        strategy: tmp_path_factory.mktemp("added") / "copy" for strategy in ("refined", "nearest")
    }
    for strategy, folder in folders.items():
        shutil.copytree(prepared, folder)
        assert worker(folder, "add", strategy=strategy)["code"] == 0
    return folders


def copied(prepared, tmp_path):
    target = tmp_path / "copy"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(prepared, target)
    return target


def check_and_continue(folder, strategy="refined"):
    """Check that a killed step happened completely or not at all, and finish the session."""
    stored = mc.increments.StoredSession(folder / "state")
    status = stored.status()
    assert status.records in (BASE, BASE + BATCH)
    assert sum(batch.records for batch in status.batches) == status.records
    happened = status.records > BASE
    if status.finished is None:
        try:
            stored.add(folder / "batch.parquet", strategy=strategy)
            assert not happened
        except OptionError:  # The session already contains these records.
            assert happened
    assert stored.status().records == BASE + BATCH
    assert stored.records().native["id"].to_list() == list(range(BASE + BATCH))
    release = stored.finish()
    published = pl.DataFrame(release.table)
    assert published["id"].to_list() == list(range(BASE + BATCH))
    assert min(Counter(published.select("x", "y").rows()).values()) >= 3
    files = [path.name for path in (folder / "state").iterdir()]
    assert sorted(name.partition("-")[0] for name in files) == [
        "README.txt", "cells", "lock", "people", "people", "records", "records", "state.json",
    ]  # fmt: skip
    return release


def count_calls(worker, prepared, tmp_path, step):
    return worker(copied(prepared, tmp_path), step)["calls"]


def test_add_killed_before_each_system_call(worker, prepared, tmp_path):
    calls = count_calls(worker, prepared, tmp_path, "add")
    assert calls > 12
    seen = set()
    for at in range(calls):
        folder = copied(prepared, tmp_path)
        assert worker(folder, "add", at=at)["killed"]
        seen.add(mc.increments.StoredSession(folder / "state").status().records)
        check_and_continue(folder)
    assert seen == {BASE, BASE + BATCH}


def test_finish_killed_before_each_system_call(worker, added, tmp_path):
    calls = count_calls(worker, added["nearest"], tmp_path, "finish")
    assert calls > 12
    seen = set()
    for at in range(calls):
        folder = copied(added["nearest"], tmp_path)
        assert worker(folder, "finish", at=at)["killed"]
        finished = mc.increments.StoredSession(folder / "state").status().finished
        seen.add((finished is not None, (folder / "out.csv").exists()))
        # No release may exist while records can still be added.
        assert finished is not None or not (folder / "out.csv").exists()
        first = read_output(folder)
        release = check_and_continue(folder, "nearest")
        assert finished in (None, release.manifest.created)
        assert worker(folder, "finish")["code"] == 0
        again = read_output(folder)
        assert worker(folder, "finish")["code"] == 0
        assert read_output(folder) == again
        assert all(again[name] == content for name, content in first.items())
    assert seen == {(False, False), (True, False), (True, True)}


def read_output(folder):
    return {path.name: path.read_bytes() for path in folder.glob("out.csv*")}


def test_start_killed_before_each_system_call(worker, prepared, tmp_path):
    folder = copied(prepared, tmp_path)
    shutil.rmtree(folder / "state")
    calls = worker(folder, "start")["calls"]
    for at in range(calls):
        shutil.rmtree(folder / "state")
        assert worker(folder, "start", at=at)["killed"]
        try:
            assert mc.increments.StoredSession(folder / "state").status().records == BASE
        except TableError:
            assert worker(folder, "start")["code"] == 0
        check_and_continue(folder)


def duration_of(worker, prepared, tmp_path, step):
    """Return how long a step takes if it is not killed."""
    folder = copied(prepared, tmp_path)
    started = perf_counter()
    assert worker(folder, step)["code"] == 0
    return perf_counter() - started


@pytest.mark.parametrize("step", ["add", "finish"])
def test_kills_at_random_moments(worker, prepared, added, tmp_path, step):
    rng = np.random.default_rng(SEED)
    longest = 1.2 * duration_of(
        worker, (added["refined"] if step == "finish" else prepared), tmp_path, step
    )
    killed = 0
    for number in range(8):
        strategy = ("refined", "nearest")[number % 2]
        folder = copied(added[strategy] if step == "finish" else prepared, tmp_path)
        killed += worker(folder, step, strategy=strategy, after=float(rng.uniform(0, longest)))[
            "killed"
        ]
        check_and_continue(folder, strategy)
    assert killed > 0
