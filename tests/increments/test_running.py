"""Runs that watch a folder: start by themselves, fall back in time, survive kills, release once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import microcell as mc
from microcell.errors import GuaranteeError, OptionError, TableError, TooFewRecordsError
from microcell.increments import running, worker
from microcell.increments.planning import forecast_from_time
from microcell.increments.storage import lock
from microcell.schema import schema_to_toml

SCHEMA = mc.Schema(quasi=["x", "y"], keep=["n"])
K = 3


class FakeClock:
    """A clock that moves when somebody sleeps; files arrive at given times."""

    def __init__(self, folder, arrivals=()):
        self.time = 1000.0
        self.folder = folder
        self.arrivals = sorted(arrivals, key=lambda arrival: arrival[0])

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds
        while self.arrivals and self.arrivals[0][0] <= self.time:
            _, name, text = self.arrivals.pop(0)
            (self.folder / name).write_text(text)
        assert self.time < 100_000, "the run does not end"


def rows(first, last):
    rng = np.random.default_rng(first)
    lines = (f"{rng.integers(0, 99)},{rng.integers(0, 99)},{n}" for n in range(first, last))
    return "\n".join(["x,y,n", *lines, ""])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "inbox").mkdir()
    (tmp_path / "schema.toml").write_text(schema_to_toml(SCHEMA), encoding="utf-8")
    return tmp_path


@pytest.fixture
def steps(monkeypatch):
    """Do steps in this process, and note them. A step in ``slow`` is stopped."""
    noted, slow = [], set()

    def call(step, limit):
        name = step.get("strategy") or step["method"]
        noted.append((step["action"], name, tuple(Path(path).name for path in step["files"])))
        if name in slow and limit is not None:
            return worker.Problem(worker.STOPPED, "")
        try:
            worker.do_step(step)
        except mc.MicrocellError as error:
            return worker.Problem(error.code, str(error))
        return None

    monkeypatch.setattr(running, "call_worker", call)
    return SimpleNamespace(noted=noted, slow=slow)


def predict(seconds, added=1.0):
    """Return speeds as if measured: all records take ``seconds``; adding, ``added`` times that."""

    def speed(settings, parts, budget):
        def forecast(relative):
            base = forecast_from_time(600, seconds, 2.0, "separate")
            return running.replace(base, costs=running_costs(seconds, relative), max_share=0.5)

        each = {"refined": added, "split-late": added / 10, "nearest": added / 100}
        forecasts = {name: forecast(each[name]) for name in settings.strategies}
        return running._Speed(200, forecasts, forecast(0.001), 0.1)

    return speed


def running_costs(seconds, relative):
    from microcell.increments.schedules import Costs
    from microcell.increments.timing import power_curve

    return Costs(power_curve(600, seconds), power_curve(600, relative * seconds))


def start_run(folder, clock, **options):
    settings = {"until": 2000.0, "deadline": 3000.0, "method": "mdav", **options}
    return mc.increments.run(
        folder / "state",
        folder / "inbox",
        folder / "schema.toml",
        K,
        folder / "out.csv",
        clock=clock,
        **settings,
    )


def released(folder):
    return sorted(mc.read(folder / "out.csv").columns["n"].data.tolist())


def test_everything_that_arrived_is_released_once(folder, steps):
    arrivals = [
        (1010, "a.csv", rows(0, 40)),
        (1500, "b.csv", rows(40, 60)),
        (1990, "c.csv", rows(60, 80)),
    ]
    result = start_run(folder, FakeClock(folder / "inbox", arrivals))
    assert released(folder) == list(range(80))
    assert result.in_time
    assert result.files == 3
    assert steps.noted == [("start", "mdav", ("a.csv", "b.csv", "c.csv"))]
    assert mc.audit(mc.read(folder / "out.csv"), mc.read(folder / "out.csv"), SCHEMA)["k"] >= K


def test_a_long_job_starts_before_the_end_and_adds_the_rest(folder, steps, monkeypatch):
    """The whole job takes 1,500 s, but only 1,000 s are allowed after the collection."""
    monkeypatch.setattr(running, "_measure_speed", predict(1500, added=0.1))
    arrivals = [(1000 + 100 * i, f"{i}.csv", rows(60 * i, 60 * i + 60)) for i in range(10)]
    clock = FakeClock(folder / "inbox", arrivals)
    result = start_run(folder, clock, records=600)
    assert released(folder) == list(range(600))
    (action, method, files), *added = steps.noted
    assert (action, method) == ("start", "mdav")
    assert 4 <= len(files) < 10
    assert {step[0] for step in added} == {"add"}
    names = [event.name for event in result.events]
    assert names.index("plan") < names.index("start") < names.index("release")


def test_the_strategy_is_chosen_by_the_time_left(folder, steps, monkeypatch):
    monkeypatch.setattr(running, "_measure_speed", predict(1500, added=30.0))
    arrivals = [(1000 + 100 * i, f"{i}.csv", rows(60 * i, 60 * i + 60)) for i in range(10)]
    result = start_run(folder, FakeClock(folder / "inbox", arrivals), records=600)
    assert released(folder) == list(range(600))
    assert "refined" not in {step[1] for step in steps.noted}
    assert result.files == 10


def test_a_step_that_takes_too_long_is_done_by_a_faster_strategy(folder, steps, monkeypatch):
    monkeypatch.setattr(running, "_measure_speed", predict(1500, added=0.1))
    steps.slow |= {"refined", "split-late"}
    arrivals = [(1000 + 100 * i, f"{i}.csv", rows(60 * i, 60 * i + 60)) for i in range(10)]
    result = start_run(folder, FakeClock(folder / "inbox", arrivals), records=600)
    assert released(folder) == list(range(600))
    assert "fallback" in [event.name for event in result.events]
    assert steps.noted[-1][1] == "nearest"


def test_an_impossible_deadline_is_said_early(folder, steps, monkeypatch):
    monkeypatch.setattr(running, "_measure_speed", predict(90_000))
    arrivals = [(1010, "a.csv", rows(0, 300))]
    result = start_run(folder, FakeClock(folder / "inbox", arrivals), records=600)
    warning = next(event for event in result.events if event.name == "warning")
    assert warning.at < 1100
    assert released(folder) == list(range(300))


def test_a_file_named_end_ends_the_collection(folder, steps):
    arrivals = [(1010, "a.csv", rows(0, 40)), (1020, "END", "")]
    assert start_run(folder, FakeClock(folder / "inbox", arrivals)).finished < 1100


def test_invalid_files_are_set_aside_and_block_the_release(folder, steps):
    arrivals = [
        (1010, "a.csv", rows(0, 40)),
        (1020, "b.csv", "x,z\n1,2\n"),
        (1030, ".c.csv", rows(50, 60)),
        (1040, "d.csv.partial", rows(50, 60)),
    ]
    with pytest.raises(GuaranteeError) as caught:
        start_run(folder, FakeClock(folder / "inbox", arrivals))
    assert caught.value.details["files"] == ["b.csv"]
    assert not (folder / "out.csv").exists()
    result = start_run(folder, FakeClock(folder / "inbox"), skip_invalid=True)
    assert released(folder) == list(range(40))
    assert result.files == 1


def test_people_who_come_again_are_refused_or_skipped(folder, steps, monkeypatch):
    schema = mc.Schema(quasi=["x", "y"], rest="drop")
    (folder / "schema.toml").write_text(schema_to_toml(schema), encoding="utf-8")
    monkeypatch.setattr(running, "_MIN_SAMPLE", 10_000)
    first = [(1010, "a.csv", rows(0, 40)), (1011, "END", "")]
    start_run(folder, FakeClock(folder / "inbox", first), id="n")
    assert mc.increments.StoredSession(folder / "state").status().records == 40
    (folder / "inbox" / "b.csv").write_text(rows(30, 50))
    # The session is finished, so nothing can be added.
    assert start_run(folder, FakeClock(folder / "inbox"), id="n").late == ("b.csv",)
    assert mc.increments.StoredSession(folder / "state").status().records == 40


@pytest.mark.parametrize("happened", [True, False])
def test_an_interrupted_step_is_neither_lost_nor_repeated(folder, steps, happened, monkeypatch):
    """Killed between a step and the note that it happened, or before the step."""
    (folder / "inbox" / "a.csv").write_text(rows(0, 40))
    (folder / "inbox" / "b.csv").write_text(rows(40, 60))
    mc.increments.StoredSession.create(
        folder / "state", folder / "inbox" / "a.csv", folder / "schema.toml", K, method="mdav"
    )
    if happened:
        mc.increments.StoredSession(folder / "state").add(folder / "inbox" / "b.csv")
    journal = {"done": ["a.csv"], "pending": ["b.csv"], "batches": 1, "aside": {}}
    (folder / "state.run.json").write_text(json.dumps(journal))
    start_run(folder, FakeClock(folder / "inbox"))
    assert released(folder) == list(range(60))
    assert len(steps.noted) == (0 if happened else 1)


def test_the_journal_holds_no_value_and_is_private(folder, steps):
    start_run(folder, FakeClock(folder / "inbox", [(1010, "a.csv", rows(0, 40))]))
    journal = folder / "state.run.json"
    assert json.loads(journal.read_text())["done"] == ["a.csv"]
    assert journal.stat().st_mode & 0o077 == 0
    journal.write_text("{")
    with pytest.raises(TableError):
        start_run(folder, FakeClock(folder / "inbox"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"until": 4000.0}, OptionError),
        ({"strategies": []}, OptionError),
        ({"strategies": ["sideways"]}, OptionError),
    ],
)
def test_invalid_settings(folder, options, error):
    with pytest.raises(error):
        start_run(folder, FakeClock(folder / "inbox"), **options)


def test_nothing_arrives(folder, steps):
    with pytest.raises(GuaranteeError) as caught:
        start_run(folder, FakeClock(folder / "inbox"))
    assert caught.value.code == "guarantee.too_few_records"


@pytest.mark.parametrize("end", [1500, 2000])
def test_files_after_the_end_are_left_out_and_do_not_delay_the_release(folder, steps, end):
    first = [(1010, "a.csv", rows(0, 40)), (end - 1, "b.csv", rows(40, 60))]
    if end < 2000:
        first.append((end, "END", ""))
    stream = [(end + i, f"late-{i}.csv", rows(100 + i, 101 + i)) for i in range(1, 500)]
    result = start_run(folder, FakeClock(folder / "inbox", first + stream))
    assert released(folder) == list(range(60))
    assert result.finished < end + 10
    assert result.late[0] == "late-1.csv"
    assert {event.name for event in result.events} >= {"late", "release"}


def test_files_with_fewer_people_than_k_form_the_base_together(folder, steps):
    """One invalid file among small ones must not stop all of them."""
    small = [(1010, f"{i}.csv", rows(2 * i, 2 * i + 2)) for i in range(10)]
    arrivals = [(1009, "bad.csv", "x,z\n1,2\n"), *small]
    result = start_run(folder, FakeClock(folder / "inbox", arrivals), skip_invalid=True)
    assert released(folder) == list(range(20))
    assert result.files == 10


def test_fewer_people_than_k_are_an_error_that_says_so(folder, steps):
    arrivals = [(1010, "a.csv", rows(0, 1)), (1011, "b.csv", rows(1, 2))]
    with pytest.raises(TooFewRecordsError) as caught:
        start_run(folder, FakeClock(folder / "inbox", arrivals))
    assert caught.value.details["records"] == 2
    assert not (folder / "out.csv").exists()


def test_a_release_that_was_interrupted_is_written_without_what_came_later(folder, steps):
    start_run(folder, FakeClock(folder / "inbox", [(1010, "a.csv", rows(0, 40))]))
    before = (folder / "out.csv").read_bytes()
    (folder / "out.csv").unlink()
    (folder / "inbox" / "b.csv").write_text(rows(40, 60))
    result = start_run(folder, FakeClock(folder / "inbox"))
    assert (folder / "out.csv").read_bytes() == before
    assert result.late == ("b.csv",)


def test_a_table_that_is_not_the_release_is_not_overwritten(folder, steps):
    (folder / "out.csv").write_text("something else")
    with pytest.raises(TableError) as caught:
        start_run(folder, FakeClock(folder / "inbox", [(1010, "a.csv", rows(0, 40))]))
    assert caught.value.code == "table.exists"
    assert (folder / "out.csv").read_text() == "something else"


def test_only_one_run_at_a_time(folder, steps):
    class Second(FakeClock):
        refused = None

        def sleep(self, seconds):
            if self.refused is None:
                with pytest.raises(TableError) as caught:
                    start_run(folder, FakeClock(folder / "inbox"))
                self.refused = caught.value.code
            super().sleep(seconds)

    clock = Second(folder / "inbox", [(1010, "a.csv", rows(0, 40))])
    start_run(folder, clock)
    assert clock.refused == "table.locked"
    assert released(folder) == list(range(40))


@pytest.mark.parametrize("happens", [True, False])
def test_a_step_that_outlives_its_run_is_waited_for(folder, steps, happens):
    """The run was killed, its worker was not: it still holds the session's lock."""
    (folder / "inbox" / "a.csv").write_text(rows(0, 40))
    (folder / "inbox" / "b.csv").write_text(rows(40, 60))
    session = mc.increments.StoredSession.create(
        folder / "state", folder / "inbox" / "a.csv", folder / "schema.toml", K, method="mdav"
    )
    journal = {"done": ["a.csv"], "pending": ["b.csv"], "batches": 1, "aside": {}}
    (folder / "state.run.json").write_text(json.dumps(journal))

    class Waiting(FakeClock):
        held = lock(folder / "state")

        def sleep(self, seconds):
            super().sleep(seconds)
            if self.held is not None and self.time > 1010:
                self.held.__exit__(None, None, None)
                self.held = None
                if happens:
                    session.add(folder / "inbox" / "b.csv")

    Waiting.held.__enter__()
    start_run(folder, Waiting(folder / "inbox"))
    assert released(folder) == list(range(60))
    assert len(steps.noted) == (0 if happens else 1)


def test_what_somebody_else_added_is_not_taken_for_the_pending_file(folder, steps):
    (folder / "inbox" / "a.csv").write_text(rows(0, 40))
    (folder / "inbox" / "b.csv").write_text(rows(40, 60))
    (folder / "by-hand.csv").write_text(rows(60, 70))
    session = mc.increments.StoredSession.create(
        folder / "state", folder / "inbox" / "a.csv", folder / "schema.toml", K, method="mdav"
    )
    session.add(folder / "by-hand.csv")
    journal = {"done": ["a.csv"], "pending": ["b.csv"], "batches": 1, "aside": {}}
    (folder / "state.run.json").write_text(json.dumps(journal))
    start_run(folder, FakeClock(folder / "inbox"))
    assert released(folder) == list(range(70))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a worker outlives its parent there")
def test_a_worker_ends_with_its_parent(folder):
    """Killed alone, a run must not leave a process behind that changes the session."""
    code = (
        "import sys, time; from microcell.increments import worker; "
        "worker._CALL = 'from microcell.increments import worker; import time; '"
        '\'worker.do_step = lambda step: (open(step["folder"], "w").close(), time.sleep(60)); \''
        "'worker.work()'; worker.call_worker({'folder': sys.argv[1]}, None)"
    )
    begun = folder / "begun"
    process = subprocess.Popen([sys.executable, "-c", code, str(begun)])
    for _ in range(3000):  # a busy machine takes long to start Python twice
        if begun.exists():
            break
        time.sleep(0.1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert children
    process.kill()
    process.wait()
    for _ in range(600):
        if not Path(f"/proc/{children[0]}").exists():
            return
        time.sleep(0.1)
    pytest.fail("the worker still runs")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="kills processes")
def test_a_run_killed_again_and_again_ends_with_the_same_records(folder):
    for i in range(3):
        (folder / "inbox" / f"{i}.csv").write_text(rows(40 * i, 40 * i + 40))
    command = [
        *(sys.executable, "-m", "microcell", "increment", "run", "--watch", "inbox"),
        *("--deadline", "+300s", "--until", "+1s", "-s", "schema.toml", "-k", str(K)),
        *("--state", "state", "-o", "out.csv", "--method", "mdav", "--quiet"),
    ]
    for seconds in (1.5, 4.0, 6.0, 8.0):
        process = subprocess.Popen(command, cwd=folder, start_new_session=True)
        time.sleep(seconds)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run(command, cwd=folder, check=True)
    assert released(folder) == list(range(120))
