"""Runs that watch a folder: start by themselves, fall back in time, survive kills, release once."""

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

import microcell as mc
from microcell.errors import GuaranteeError, OptionError, TableError
from microcell.increments import running
from microcell.increments.planning import forecast_from_time
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

    def call(settings, paths, step, limit):
        name = step.get("strategy") or step["method"]
        noted.append((step["action"], name, tuple(path.name for path in paths)))
        if name in slow and limit is not None:
            return running._STOPPED
        try:
            running._do(
                {
                    **step,
                    "folder": str(settings.folder),
                    "files": paths,
                    "schema": str(settings.schema),
                    "k": settings.k,
                    "id": settings.id,
                    "seed": settings.seed,
                    "missing": settings.missing,
                    "read_options": settings.read_options,
                }
            )
        except mc.MicrocellError as error:
            return str(error)
        return None

    monkeypatch.setattr(running, "_call_worker", call)
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
    with pytest.raises(GuaranteeError):  # the session is finished
        start_run(folder, FakeClock(folder / "inbox"), id="n")


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
