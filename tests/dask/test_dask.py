"""The engine on real workers: a scheduler and worker processes of their own, one of which is killed."""

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
from microcell.dask.cluster import DaskEngine, _compare, _Task
from microcell.errors import DataError, OptionError, TableError
from microcell.model import Schema
from tests.dask.running import SCHEMA, contents, distributed, people, run, write_files

ROOT = Path(__file__).parents[2]
"""Where workers find the functions of tests."""

START = "import sys; from dask.__main__ import main; main()"


class Cluster:
    """A scheduler and workers, each a process of its own."""

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
            found = re.search(r"Scheduler at:\s+(tcp://\S+)", (self._folder / "0.log").read_text())
            self.address = found[1] if found else None
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
            "worker", self.address, "--no-nanny", "--nthreads", "1", "--memory-limit", "1GB", "--no-dashboard",
            "--local-directory", str(self._folder),
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


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_files(
        tmp_path_factory.mktemp("source") / "in", [people(300, seed) for seed in range(4)]
    )


@pytest.fixture(scope="module")
def expected(source, tmp_path_factory):
    """What comes out without any workers."""
    return contents(
        run(source, SCHEMA, tmp_path_factory.mktemp("expected") / "out", macrocell=200).path
    )


def on(cluster, source, output, **given):
    return anonymize_dataset(
        source,
        SCHEMA,
        **{
            "k": 5,
            "output": output,
            "scheduler": cluster.address,
            "macrocell": 200,
            "seams": 1,
            **given,
        },
    )


def test_one_worker_that_dies_and_another_that_takes_over(cluster, source, expected, tmp_path):
    doomed = cluster.start_worker()
    with DaskEngine(cluster.address, None, None, tmp_path) as engine:
        engine.client.wait_for_workers(2, timeout=240)
    stages = []

    def hear(task, done, total):
        stages.append((task, done, total))
        if task == "dividing macrocells" and done == 1 and doomed.poll() is None:
            doomed.send_signal(signal.SIGKILL)

    with mc.listen(hear):
        found = on(cluster, source, tmp_path / "out")
    assert doomed.wait(60) == -signal.SIGKILL
    assert contents(found.path) == expected
    assert ("dividing macrocells", 6, 6) in stages
    assert {task for task, _, _ in stages} >= {
        "finding out about columns",
        "mending seams, round 1 of 1",
        "counting k",
    }
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_refusals_come_back_and_nothing_is_logged_of_values(cluster, tmp_path):
    wrong = people(300, 1)
    wrong["height"][3] = np.inf
    wrong["sex"][:] = "q"
    source = write_files(tmp_path / "in", [people(300, 2), wrong])
    with pytest.raises(DataError, match=r"In 'file1\.parquet': .*'height'.*row 4"):
        on(cluster, source, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert "person 1" not in cluster.logs()


def fail(item):
    raise ValueError(f"a value: {item}")


def test_a_task_that_fails_tells_its_stage_and_no_value(cluster, tmp_path):
    engine = DaskEngine(cluster.address, None, None, tmp_path)
    with engine, pytest.raises(TableError, match="testing") as caught:
        engine.run("testing", fail, ["secret 1", "secret 2"])
    assert "ValueError while testing" in str(caught.value)
    assert "secret" not in str(caught.value)
    deadline = time.monotonic() + 60
    while (
        "ValueError while testing" not in cluster.logs()
    ):  # so that the log is where it is looked for
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert "secret" not in cluster.logs()
    assert "secret" not in repr(_Task("testing", fail, "secret"))


def limit_files(size):
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (most if size is None else size, most))


def test_a_full_disk_on_a_worker(cluster, source, tmp_path):
    """Files cannot grow beyond some bytes, as on a full disk: nothing is released, and nothing stays behind."""
    (tmp_path / "own").mkdir()
    with DaskEngine(cluster.address, None, None, tmp_path / "own") as engine:
        engine.client.run(limit_files, 3000)
        try:
            with pytest.raises(
                TableError, match=r"OSError while sending records .*Nothing was released"
            ):
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
    ):  # the program's own client, which is used and stays
        frame = frames.read_parquet(source)
        found = mc.anonymize(frame, SCHEMA, k=5, macrocell=200, seams=1, scratch=tmp_path)
        table = found.table
        assert isinstance(table, type(frame))
        assert table.npartitions == found.manifest["cells"]["macrocells"]
        rows = table.compute()
        audit = mc.dask.audit_dataset(source, found.path, SCHEMA)
    assert found.k == rows.groupby(["age", "height", "sex"], observed=True).size().min() >= 5
    assert sorted(rows["income"]) == expected
    assert "name" not in rows
    assert audit["k"] == found.k
    assert audit.class_sizes.tolist() == found.audit.class_sizes.tolist()
    assert found.path.parent.parent == tmp_path


def test_workers_that_see_no_file_of_ours(cluster, source, tmp_path, monkeypatch):
    """As on machines that share no file system: told before any work."""
    monkeypatch.setattr(
        Path, "write_text", lambda *_args, **_given: None
    )  # what is not written is not read
    engine = DaskEngine(cluster.address, None, None, tmp_path / "nowhere")
    with (
        pytest.raises(OptionError, match=r"1 of 1 workers cannot read .*share under the same path"),
        engine,
    ):
        pass


def test_workers_of_another_version(tmp_path):
    _compare([(mc.__version__, "sign")] * 2, "sign", tmp_path)
    with pytest.raises(
        OptionError, match=r"Workers have microcell 9\.9, and this program .* Install the same"
    ):
        _compare([(mc.__version__, "sign"), ("9.9", "sign")], "sign", tmp_path)


def test_a_scheduler_without_workers(tmp_path, monkeypatch):
    monkeypatch.setattr("microcell.dask.cluster._SECONDS_TO_BEGIN", 1)
    lonely = Cluster(tmp_path)
    try:
        lonely.start()
        with pytest.raises(OptionError, match="No worker began within 1 seconds"):
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
    done = subprocess.run(
        [sys.executable, "-m", "microcell", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "5-anonymous" in done.stderr
    assert contents(tmp_path / "out") == expected


def test_a_scheduler_that_cannot_be_reached(source, tmp_path, monkeypatch):
    monkeypatch.setattr("microcell.dask.cluster._SECONDS_TO_CONNECT", 2)
    with pytest.raises(OptionError, match="cannot be reached"):
        anonymize_dataset(
            source, SCHEMA, k=5, output=tmp_path / "out", scheduler="tcp://127.0.0.1:9"
        )
    with pytest.raises(OptionError, match="cannot be reached"):
        anonymize_dataset(source, SCHEMA, k=5, output=tmp_path / "out", scheduler="nonsense")
    assert list(tmp_path.iterdir()) == []


def test_workers_started_here(source, expected, tmp_path):
    told = []
    with mc.listen(lambda task, _done, _total: told.append(task)):
        found = anonymize_dataset(
            source,
            SCHEMA,
            k=5,
            output=tmp_path / "out",
            macrocell=200,
            seams=1,
            workers=1,
            memory="1GB",
        )
    assert contents(found.path) == expected
    assert any(task.startswith("dashboard at http") for task in told)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not [process for process in multiprocessing.active_children() if process.is_alive()]


def test_identifiers_alone_are_no_schema(cluster, source, tmp_path):
    with pytest.raises(mc.errors.SchemaError, match="no quasi-identifier"):
        anonymize_dataset(
            source, Schema(rest="keep"), k=5, output=tmp_path / "out", scheduler=cluster.address
        )
