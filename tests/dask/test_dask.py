"""The engine on a real cluster: separate scheduler and worker processes, one of which is killed."""

import multiprocessing
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import microcell as mc
from microcell.dask import anonymize_dataset
from microcell.dask.cluster import DaskEngine, _check_replies, _Task
from microcell.errors import DataError, OptionError, TableError
from microcell.model import Schema
from tests.dask.running import SCHEMA, contents, distributed, people, run, write_files
from tests.processes import start_command
from tests.raising import raises

ROOT = Path(__file__).parents[2]
"""Directory in which workers find the test functions."""

START = "import sys; from dask.__main__ import main; main()"


class Cluster:
    """A scheduler and workers in separate processes."""

    def __init__(self, folder):
        self._folder, self._processes = folder, []
        self.address = None

    def start(self):
        self._start(
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--dashboard-address",
            ":0",
        )
        deadline = time.monotonic() + 240
        while self.address is None:
            result = re.search(r"Scheduler at:\s+(tcp://\S+)", (self._folder / "0.log").read_text())
            self.address = result[1] if result else None
            assert self._processes[0].poll() is None, "the scheduler ended"
            assert time.monotonic() < deadline, "no scheduler"
            time.sleep(0.1)

    def _start(self, *words):
        with (self._folder / f"{len(self._processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", START, *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
            )
        self._processes.append(process)
        return process

    def start_worker(self):
        return self._start(
            "worker", self.address, "--no-nanny", "--nthreads", "1", "--memory-limit", "1GB",
            "--no-dashboard", "--local-directory", str(self._folder),
        )  # fmt: skip

    def logs(self):
        return "".join(path.read_text() for path in self._folder.glob("*.log"))

    def close(self):
        for process in reversed(self._processes):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        cluster.start_worker()
        yield cluster
    finally:
        cluster.close()


KEY = "00112233445566778899aabbccddeeff"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_files(
        tmp_path_factory.mktemp("source") / "in", [people(300, seed) for seed in range(4)]
    )


@pytest.fixture(scope="module")
def expected(source, tmp_path_factory):
    """Result without a cluster."""
    output = tmp_path_factory.mktemp("expected") / "out"
    return contents(run(source, SCHEMA, output, macrocell=200, order_key=KEY).path)


def on(cluster, source, output, **options):
    return anonymize_dataset(
        source,
        SCHEMA,
        **{
            "k": 5,
            "order_key": KEY,
            "output": output,
            "scheduler": cluster.address,
            "macrocell": 200,
            "seams": 1,
            **options,
        },
    )


def test_another_worker_takes_over_when_one_dies(cluster, source, expected, tmp_path):
    doomed = cluster.start_worker()
    with DaskEngine(cluster.address, None, None, tmp_path) as engine:
        engine.client.wait_for_workers(2, timeout=240)
    stages = []

    def listen(task, done, total):
        stages.append((task, done, total))
        if task == "partitioning macrocells" and done == 1 and doomed.poll() is None:
            doomed.send_signal(signal.SIGKILL)

    with mc.listen(listen):
        result = on(cluster, source, tmp_path / "out")
    assert doomed.wait(60) == -signal.SIGKILL
    assert contents(result.path) == expected
    assert ("partitioning macrocells", 6, 6) in stages
    assert {task for task, _, _ in stages} >= {
        "summarizing columns",
        "refining seams, round 1 of 1",
        "counting class sizes",
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.manifest.json"]


def test_errors_are_returned_and_no_values_are_logged(cluster, tmp_path):
    wrong = people(300, 1)
    wrong["height"][3] = np.inf
    wrong["sex"][:] = "q"
    source = write_files(tmp_path / "in", [people(300, 2), wrong])
    with raises(DataError, "data.not_finite", file="file1.parquet", column="height", row=4):
        on(cluster, source, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert "person 1" not in cluster.logs()


def fail(item):
    raise ValueError(f"a value: {item}")


def test_a_failed_task_reports_its_stage_but_no_value(cluster, tmp_path):
    engine = DaskEngine(cluster.address, None, None, tmp_path)
    with engine, raises(TableError, "service.failed", stage="testing") as caught:
        engine.run("testing", fail, ["secret 1", "secret 2"])
    assert "ValueError while testing" in str(caught.value)
    assert "secret" not in str(caught.value)
    deadline = time.monotonic() + 60
    while "ValueError while testing" not in cluster.logs():  # the log is written with a delay
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert "secret" not in cluster.logs()
    assert "secret" not in repr(_Task("testing", fail, "secret"))


def limit_files(size):
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (most if size is None else size, most))


def test_a_full_disk_on_a_worker(cluster, source, tmp_path):
    """With limited file sizes, as on a full disk, nothing is released and nothing is left."""
    (tmp_path / "own").mkdir()
    with DaskEngine(cluster.address, None, None, tmp_path / "own") as engine:
        engine.client.run(limit_files, 3000)
        try:
            with raises(TableError, "service.failed", stage="counting identifiers"):
                on(cluster, source, tmp_path / "out")
        finally:
            engine.client.run(limit_files, None)
    assert list(tmp_path.iterdir()) == [tmp_path / "own"]
    assert list((tmp_path / "own").iterdir()) == []


def test_a_dask_dataframe(cluster, source, tmp_path):
    frames = pytest.importorskip("dask.dataframe", reason="the extra dask is not installed")
    expected = sorted(income for seed in range(4) for income in people(300, seed)["income"])
    with distributed.Client(
        cluster.address, timeout=240
    ):  # the program's own client is used and stays open
        frame = frames.read_parquet(source)
        result = mc.anonymize(frame, SCHEMA, k=5, macrocell=200, seams=1, scratch=tmp_path)
        table = result.table
        assert isinstance(table, type(frame))
        assert table.npartitions == result.manifest.cells.macrocells
        rows = table.compute()
        audit = mc.dask.audit_dataset(source, result.path, SCHEMA)
    assert result.k == rows.groupby(["age", "height", "sex"], observed=True).size().min() >= 5
    assert sorted(rows["income"]) == expected
    assert "name" not in rows
    assert audit["k"] == result.k
    assert audit.class_sizes.tolist() == result.audit.class_sizes.tolist()
    assert result.path.parent.parent == tmp_path


def test_workers_without_a_shared_file_system(cluster, source, tmp_path, monkeypatch):
    """Workers without a shared file system are detected before any work."""
    monkeypatch.setattr(
        Path, "write_text", lambda *_args, **_options: None
    )  # simulates a missing file
    engine = DaskEngine(cluster.address, None, None, tmp_path / "nowhere")
    with (
        raises(OptionError, "table.unreadable"),
        engine,
    ):
        pass


def test_workers_with_another_version(tmp_path):
    _check_replies([(mc.__version__, "sign")] * 2, "sign", tmp_path)
    with raises(OptionError, "option.conflict", option="scheduler"):
        _check_replies([(mc.__version__, "sign"), ("9.9", "sign")], "sign", tmp_path)


def test_a_scheduler_without_workers(tmp_path, monkeypatch):
    monkeypatch.setattr("microcell.dask.cluster._WORKER_TIMEOUT", 1)
    lonely = Cluster(tmp_path)
    try:
        lonely.start()
        with raises(OptionError, "service.unavailable", option="scheduler"):
            on(lonely, write_files(tmp_path / "in", [people(20, 1)]), tmp_path / "out")
    finally:
        lonely.close()


def test_the_command(cluster, source, expected, tmp_path):
    (tmp_path / "schema.toml").write_text(mc.schema.schema_to_toml(SCHEMA), encoding="utf-8")
    words = [
        "anonymize",
        f"{source}/*.parquet",
        "-s",
        "schema.toml",
        "-k",
        "5",
        "-o",
        "out",
        "--engine",
        "dask",
    ]
    words += ["--scheduler", cluster.address, "--macrocell", "200", "--seams", "1"]
    words += ["--order-key", KEY]
    process = start_command(*words, folder=tmp_path)
    _, message = process.communicate()
    assert process.returncode == 0, message
    assert "5-anonymous" in message
    assert contents(tmp_path / "out") == expected


def test_an_unreachable_scheduler(source, tmp_path, monkeypatch):
    monkeypatch.setattr("microcell.dask.cluster._CONNECT_TIMEOUT", 2)
    with raises(OptionError, "service.unavailable", option="scheduler"):
        anonymize_dataset(
            source, SCHEMA, k=5, output=tmp_path / "out", scheduler="tcp://127.0.0.1:9"
        )
    with raises(OptionError, "service.unavailable", option="scheduler"):
        anonymize_dataset(source, SCHEMA, k=5, output=tmp_path / "out", scheduler="nonsense")
    assert list(tmp_path.iterdir()) == []


def test_local_workers(source, expected, tmp_path):
    messages = []
    with mc.listen(lambda task, _done, _total: messages.append(task)):
        result = anonymize_dataset(
            source,
            SCHEMA,
            k=5,
            order_key=KEY,
            output=tmp_path / "out",
            macrocell=200,
            seams=1,
            workers=1,
            memory="1GB",
        )
    assert contents(result.path) == expected
    assert any(task.startswith("dashboard at http") for task in messages)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.manifest.json"]
    assert not [process for process in multiprocessing.active_children() if process.is_alive()]


def test_a_schema_without_quasi_identifiers(cluster, source, tmp_path):
    with raises(mc.errors.SchemaError, "schema.no_quasi_identifier"):
        anonymize_dataset(
            source, Schema(rest="keep"), k=5, output=tmp_path / "out", scheduler=cluster.address
        )
