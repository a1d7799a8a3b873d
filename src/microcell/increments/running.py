"""Run a session automatically: watch a folder, start in time, add files, release by a deadline.

Data are changed only by worker processes, which can be killed at any time: the session on disk is
then in the state before or after the step. A step that takes too long is therefore stopped and
repeated by a faster strategy, and a run that was killed continues where it stopped.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from microcell import progress, tables
from microcell._atomic import AtomicFiles
from microcell._display import count, html_card, record_html, short_repr
from microcell._files import parse_json
from microcell.errors import (
    GuaranteeError,
    MicrocellError,
    OptionError,
    TableError,
    TooFewRecordsError,
)
from microcell.increments.arrivals import Arrivals
from microcell.increments.planning import Forecast, Job, forecast_from_table, format_duration
from microcell.increments.repeats import with_id
from microcell.increments.schedules import fastest, make_schedule, smallest_in_time
from microcell.increments.session import start
from microcell.increments.state import DEFAULT_METHOD
from microcell.increments.storage import STATE_FILE, StoredSession, is_locked, lock_path
from microcell.increments.worker import LOCKED, STOPPED, Problem, call_worker, stack_parts
from microcell.methods.increments import check_strategy
from microcell.model import Schema, Table
from microcell.release import prepare
from microcell.schema import files as schema_files
from microcell.schema import resolve
from microcell.tables.files import FORMATS

__all__ = ["Clock", "Event", "Run", "RunResult", "run"]

STRATEGIES = ("refined", "split-late", "nearest")
"""Strategies from the least information loss to the fastest."""

FALLBACK_METHOD = "mdav"
"""Method for the base if there is not enough time for the requested one."""

END_FILE = "END"
"""A file of this name in the watched folder ends the collection."""

_JOURNAL_FILE = "run.json"
_LOCK_FILE = "run.lock"
_TOO_FEW = "guarantee.too_few_records"
_POLL = 1.0
_SETTLED = 2.0
"""Seconds that a file must not have changed before it is read."""
_SAFETY = 1.5
"""Factor by which predicted times may be exceeded."""
_MIN_SAMPLE = 200
_MEASURING = 3.0
"""Seconds to spend on measuring, per strategy."""
_GROWTH = 2.0
"""Times are measured again when the records that have arrived grew by this factor."""
_MIN_RESERVE = 2.0
"""Minimum number of seconds reserved for the release."""


class Clock(Protocol):
    """Source of time; tests pass their own."""

    def now(self) -> float:
        """Return the time in seconds since 1970."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class _SystemClock:
    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True, repr=False)
class Event:
    """Something that happened in a run, for the log. Contains no value of a record."""

    at: float
    """Seconds since 1970."""
    name: str
    """"arrived", "late", "plan", "start", "add", "fallback", "warning", "set aside" or "release".
    """
    message: str

    _repr_html_ = record_html

    def __repr__(self) -> str:
        return short_repr(self, repr(self.name))


@dataclass(frozen=True, repr=False)
class RunResult:
    """Result of a run."""

    output: Path
    finished: float
    """When the release was written, in seconds since 1970."""
    deadline: float
    events: tuple[Event, ...]
    files: int
    """Number of files in the release."""
    late: tuple[str, ...] = ()
    """Files that arrived after the end of the collection. They are not in the release."""

    @property
    def in_time(self) -> bool:
        """True if the release was ready by the deadline."""
        return self.finished <= self.deadline

    def __repr__(self) -> str:
        return short_repr(self, count(self.files, "file"), in_time=self.in_time)

    def _repr_html_(self) -> str:
        margin = format_duration(abs(self.deadline - self.finished))
        return html_card(
            f"Released {margin} {'before' if self.in_time else 'after'} the deadline",
            {
                "Files": f"{self.files:,}",
                "Too late": f"{len(self.late):,}",
                "Release": self.output.name,
            },
        )


@dataclass(frozen=True)
class Run:
    """Settings of a run."""

    folder: Path
    """Folder of the session."""
    watch: Path
    """Folder in which files arrive."""
    schema: Path
    k: int
    output: Path
    until: float
    """End of the collection, in seconds since 1970."""
    deadline: float
    """When the release must be ready."""
    records: int | None = None
    """Expected number of records."""
    id: str | None = None
    method: str = DEFAULT_METHOD
    strategies: tuple[str, ...] = STRATEGIES
    repeated: str = "refuse"
    seed: int = 0
    missing: str = "error"
    skip_invalid: bool = False
    read_options: Mapping[str, Any] = field(default_factory=dict)

    _repr_html_ = record_html

    def __repr__(self) -> str:
        return short_repr(self, k=self.k, method=self.method)


def run(
    folder: str | Path,
    watch: str | Path,
    schema: str | Path,
    k: int,
    output: str | Path,
    *,
    until: float,
    deadline: float,
    records: int | None = None,
    id: str | None = None,
    method: str = DEFAULT_METHOD,
    strategies: Sequence[str] = STRATEGIES,
    repeated: str = "refuse",
    seed: int = 0,
    missing: str = "error",
    skip_invalid: bool = False,
    read_options: Mapping[str, Any] | None = None,
    on_event: Callable[[Event], None] | None = None,
    clock: Clock | None = None,
) -> RunResult:
    """Watch a folder, anonymize what arrives, and write the release by the deadline.

    Every file that arrives is a part of the table. The run measures the method and the strategies
    on the records so far, starts by itself when a plan says so, adds further files when there is
    time or when the collection has ended, and chooses for each the best strategy that fits. A step
    that takes too long is stopped and done by a faster strategy. If the deadline cannot be met, it
    says so as soon as it knows, and releases as early as possible.

    A run that was killed continues if it is called again with the same arguments. Files that arrive
    after the end of the collection, by the time of their last change, are not in the release.

    Parameters
    ----------
    folder
        Folder of the session, created when the run starts. It contains original data.
    watch
        Folder in which files arrive. Files whose names start with a dot or end in ".partial" or
        ".tmp" are ignored; others are read when they have not changed for two seconds.
    schema, k, id, method, seed, missing
        As for :func:`start`. The schema is a file.
    output
        The release.
    until
        When the collection ends, in seconds since 1970. A file named END ends it earlier.
    deadline
        When the release must be ready.
    records
        Expected number of records. By default it is extrapolated from the arrivals.
    strategies
        Strategies to choose from, from the least information loss to the fastest.
    repeated
        As for :meth:`Session.add`.
    skip_invalid
        Release without files that could not be read or added. By default such files prevent the
        release.
    read_options
        Options for reading the files.
    on_event
        Called with each :class:`Event`.

    Raises
    ------
    GuaranteeError
        Files were set aside, or there are fewer than k people.
    """
    settings = Run(
        folder=Path(folder),
        watch=Path(watch),
        schema=Path(schema),
        k=k,
        output=Path(output),
        until=float(until),
        deadline=float(deadline),
        records=records,
        id=id,
        method=method,
        strategies=tuple(strategies),
        repeated=repeated,
        seed=seed,
        missing=missing,
        skip_invalid=skip_invalid,
        read_options=read_options or {},
    )
    _check(settings)
    with lock_path(_beside(settings.folder, _LOCK_FILE), f"session in {str(settings.folder)!r}"):
        return _Runner(settings, clock or _SystemClock(), on_event or _ignore).run()


def _beside(folder: Path, name: str) -> Path:
    return folder.with_name(f"{folder.name}.{name}")


def _ignore(event: Event) -> None:
    """Ignore an event."""


def _check(settings: Run) -> None:
    if not settings.watch.is_dir():
        raise TableError(
            f"{settings.watch} is not a folder. Create it, and let files arrive there.",
            code="table.not_found",
            path=str(settings.watch),
        )
    if settings.until > settings.deadline:
        raise OptionError(
            "The collection must end before the deadline.",
            code="option.conflict",
            option="until",
        )
    if not settings.strategies:
        raise OptionError("strategies is empty.", code="option.invalid", option="strategies")
    for strategy in settings.strategies:
        check_strategy(strategy, inertial=False, method=None, rounds=None, options={})
    for path in (settings.output, settings.folder):
        if path.resolve().parent == settings.watch.resolve():
            raise OptionError(
                "The release and the session must not be in the watched folder.",
                code="option.conflict",
                option="watch",
            )
    schema_files.load_schema(settings.schema)


# ---------------------------------------------------------------------------------------- journal


@dataclass(frozen=True)
class _Journal:
    """Which files are in the session. Written before and after each step."""

    done: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    """Files of a step that may or may not have happened."""
    batches: int = 0
    """Number of batches of the session before that step."""
    aside: Mapping[str, str] = field(default_factory=dict)
    """Files that could not be added, and why."""

    __repr__ = object.__repr__

    @classmethod
    def read(cls, path: Path) -> "_Journal":
        try:
            content = parse_json(path.read_bytes())
            return cls(
                tuple(content["done"]),
                tuple(content["pending"]),
                int(content["batches"]),
                dict(content["aside"]),
            )
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, KeyError, TypeError):
            raise TableError(
                f"{path} is damaged, so it is unknown which files are in the session. Restore it.",
                code="table.malformed",
                path=str(path),
            ) from None

    def write(self, path: Path) -> None:
        content = {
            "done": self.done,
            "pending": self.pending,
            "batches": self.batches,
            "aside": dict(self.aside),
        }
        with AtomicFiles() as atomic:
            atomic.path(path, private=True).write_text(json.dumps(content), encoding="utf-8")


# ----------------------------------------------------------------------------------------- runner


@dataclass(frozen=True)
class _Speed:
    """Predicted times, from runs on samples of the records so far."""

    sample: int
    forecasts: Mapping[str, Forecast]
    fallback: Forecast
    """With the fallback method."""
    release: float
    """Seconds to release the sample."""

    __repr__ = object.__repr__

    def reserve(self, records: int) -> float:
        """Return the seconds to keep for the release of this many records."""
        return max(_MIN_RESERVE, _SAFETY * self.release * records / self.sample)


class _Runner:
    """A run in progress."""

    def __init__(self, settings: Run, clock: Clock, on_event: Callable[[Event], None]) -> None:
        self._settings = settings
        self._clock = clock
        self._on_event = on_event
        self._events: list[Event] = []
        self._began = clock.now()
        self._seen: dict[str, tuple[float, int, float]] = {}
        self._rows: dict[str, int] = {}
        self._speed: _Speed | None = None
        self._late_since: float | None = None
        self._slower = 1.0
        self._unsettled = False
        self._planned: tuple[int, int] | None = None
        self._starts = float("inf")
        self._late: list[str] = []
        self._schema = with_id(schema_files.load_schema(settings.schema), settings.id)
        self._ends = settings.until
        self._first_seen: dict[str, float] = {}
        self._path = _beside(settings.folder, _JOURNAL_FILE)
        self._journal = _Journal.read(self._path)

    def __repr__(self) -> str:
        return short_repr(self, count(len(self._events), "event"))

    def run(self) -> RunResult:
        """Work until the release is written."""
        self._recover()
        if self._settings.output.exists() and not self._is_finished():
            raise TableError(
                f"{self._settings.output} exists already, and is not the release of this session. "
                "Delete it, or choose another output.",
                code="table.exists",
                path=str(self._settings.output),
            )
        while True:
            self._recover()
            if self._is_finished():
                for path in self._new_files():
                    self._leave_out(path.name)
                return self._release()
            waiting = self._arrived()
            closed = self._is_closed()
            self._measure(waiting)
            if self._exists():
                self._add_waiting(waiting, closed=closed)
            elif waiting and self._should_start(waiting, closed=closed):
                self._start(waiting)
            elif closed and not waiting and not self._unsettled:
                self._fail_without_records()
            if closed and self._exists() and not self._arrived() and not self._unsettled:
                return self._release()
            self._clock.sleep(_POLL)

    # ------------------------------------------------------------------------------ arrivals

    def _exists(self) -> bool:
        return (self._settings.folder / STATE_FILE).exists()

    def _is_finished(self) -> bool:
        """Return True if an interrupted run closed the session, whose release may be missing."""
        return self._exists() and StoredSession(self._settings.folder).status().finished is not None

    def _is_closed(self) -> bool:
        """Return whether the collection has ended, by the clock or by a file."""
        now = self._clock.now()
        with suppress(OSError):
            ended = (self._settings.watch / END_FILE).stat().st_mtime
            self._ends = min(self._ends, ended, now)
        return now >= self._ends

    def _new_files(self) -> list[Path]:
        """Return files that are neither in the session nor set aside, the oldest first."""
        known = {*self._journal.done, *self._journal.aside, END_FILE}
        return [
            path
            for path in sorted(self._settings.watch.iterdir(), key=_age)
            if path.name not in known
            and not path.name.startswith(".")
            and path.suffix.lower() in FORMATS
        ]

    def _arrived(self) -> list[Path]:
        """Return new files that are complete and came before the end of the collection."""
        complete = []
        now = self._clock.now()
        self._unsettled = False
        for path in self._new_files():
            try:
                status = path.stat()
            except OSError:  # It was renamed in the meantime.
                continue
            name = path.name
            arrived = min(self._first_seen.setdefault(name, now), status.st_mtime)
            if arrived > self._ends:
                self._leave_out(name)
                continue
            state = (status.st_mtime, status.st_size)
            before = self._seen.get(name)
            if before is None or before[:2] != state:
                self._seen[name] = (*state, now)
            elif now - before[2] >= _SETTLED:
                complete.append(path)
                continue
            self._unsettled = True
        return complete

    def _leave_out(self, name: str) -> None:
        if name not in self._late:
            self._late.append(name)
            self._tell("late", f"{name} came after the end of the collection and is left out")

    def _count(self, paths: Sequence[Path]) -> int:
        for path in paths:
            if path.name not in self._rows:
                try:
                    table = self._read(path)
                    _check_columns(self._schema, table)
                    rows = table.rows
                except MicrocellError as error:
                    self._set_aside(path.name, str(error))
                    rows = 0
                self._rows[path.name] = rows
                if rows:
                    self._tell("arrived", f"{path.name}: {count(rows, 'record')}")
        return sum(self._rows[path.name] for path in paths)

    def _expected(self, so_far: int) -> int:
        if self._is_closed():
            return so_far
        if self._settings.records is not None:
            return max(self._settings.records, so_far)
        passed = self._clock.now() - self._began
        whole = max(self._ends - self._began, passed, 1e-9)
        return max(so_far, int(so_far * whole / max(passed, 1e-9)))

    # ------------------------------------------------------------------------------ planning

    def _measure(self, waiting: list[Path]) -> None:
        """Measure method and strategies on the records that are waiting, if there are enough."""
        n = self._count(waiting)
        enough = max(_MIN_SAMPLE, 40 * self._settings.k)
        if self._exists() or n < enough or (self._speed and n < _GROWTH * self._speed.sample):
            return
        settings = self._settings
        left = settings.deadline - self._clock.now()
        seconds = max(0.1, min(_MEASURING, 0.01 * left))
        try:
            self._speed = _measure_speed(settings, [self._read(path) for path in waiting], seconds)
        except MicrocellError as error:  # The steps themselves will say what is wrong.
            self._tell("warning", f"times could not be measured: {error}")
            self._speed = None
            return
        self._tell("plan", f"measured on {count(n, 'record')}: {self._outlook(n)}")

    def _read(self, path: Path) -> Table:
        return tables.read(path, **self._settings.read_options)

    def _outlook(self, so_far: int) -> str:
        speed = self._speed
        assert speed is not None
        expected = self._expected(so_far)
        whole = speed.forecasts[self._settings.strategies[0]].costs.whole.seconds(expected)
        return (
            f"{self._settings.method} would take {format_duration(whole)} for "
            f"{count(expected, 'record')}, the release {format_duration(speed.reserve(expected))}"
        )

    def _should_start(self, waiting: list[Path], *, closed: bool) -> bool:
        """Return whether to partition what has arrived, because waiting would end too late."""
        if closed:
            return True
        n = self._count(waiting)
        if self._speed is None or n < self._settings.k:
            return False
        if self._planned != (n, self._speed.sample):  # The plan changes with the arrivals only.
            self._planned = (n, self._speed.sample)
            self._starts = self._plan_start(n, self._speed)
        return self._clock.now() - self._began >= self._starts

    def _plan_start(self, n: int, speed: _Speed) -> float:
        """Return when to start, in seconds since the run began; infinite if waiting is best."""
        settings, expected = self._settings, self._expected(n)
        arrivals = Arrivals("uniform", max(settings.until - self._began, 1e-9))
        forecast = speed.forecasts[settings.strategies[0]]

        def make(nu: float) -> Any:
            return make_schedule(nu, expected, arrivals, forecast.costs, forecast.extra)

        end = settings.deadline - self._began - speed.reserve(expected)
        slack = (end - arrivals.collection) / _SAFETY
        soonest = fastest(make, min(forecast.max_share, max(0.0, 1 - settings.k / expected)))
        chosen = smallest_in_time(make, arrivals.collection + slack, soonest) or soonest
        self._warn(self._began + soonest.ends + speed.reserve(expected))
        return float(chosen.starts) if chosen.nu > 0 else float("inf")

    def _warn(self, ends: float) -> None:
        """Warn once that the deadline cannot be met, as soon as that is known."""
        if ends <= self._settings.deadline or self._late_since is not None:
            return
        self._late_since = self._clock.now()
        late = format_duration(ends - self._settings.deadline, up=True)
        self._tell("warning", f"the deadline cannot be met: the release will be {late} late")

    # --------------------------------------------------------------------------------- steps

    def _start(self, waiting: list[Path]) -> None:
        """Partition the base: by the requested method, or by a faster one if time is short."""
        self._count(waiting)
        waiting = [path for path in waiting if path.name not in self._journal.aside]
        if not waiting:
            return
        n = self._count(waiting)
        limit = self._time_left(n)
        method = self._settings.method
        if self._speed is not None and limit is not None:
            whole = self._speed.forecasts[self._settings.strategies[0]].costs.whole.seconds(n)
            if _SAFETY * whole * self._slower > limit:
                method = FALLBACK_METHOD
        self._tell("start", f"{method} on {count(n, 'record')} of {count(len(waiting), 'file')}")
        problem = self._step(waiting, {"action": "start", "method": method}, limit)
        if problem is not None and problem.code != LOCKED:
            self._start_with_fewer(waiting, problem)

    def _start_with_fewer(self, waiting: list[Path], problem: Problem) -> None:
        """Start with as few files as form a cell; the others are added, or turn out to be invalid.

        The base was too slow, or a file is invalid, or people are in several files.
        """
        base: list[Path] = []
        invalid: dict[str, str] = {}
        for each in waiting:
            step = {"action": "start", "method": FALLBACK_METHOD}
            found = self._step([*base, each], step, None)
            if found is None:
                rest = "; the others are added" if len(base) + 1 < len(waiting) else ""
                names = ", ".join(path.name for path in (*base, each))
                self._tell("fallback", f"{FALLBACK_METHOD} on {names}{rest}")
                return
            if found.code == LOCKED:
                return
            if found.code == _TOO_FEW:
                base.append(each)
            else:
                invalid[each.name] = found.message
        for name, message in invalid.items():
            self._set_aside(name, message)
        if self._is_closed() and not invalid:
            raise TooFewRecordsError(
                f"The collection has ended, and nothing was released: {problem.message}",
                code=_TOO_FEW,
                k=self._settings.k,
                records=self._count(waiting),
            )

    def _time_left(self, records: int) -> float | None:
        """Return how long a step may take such that a faster one still fits after it."""
        if self._speed is None:
            return None
        total = records + self._session_records()
        left = self._settings.deadline - self._clock.now() - self._speed.reserve(total)
        fast = self._speed.fallback.costs
        again = fast.adding(total, records) if self._exists() else fast.whole.seconds(records)
        return max(left - _SAFETY * again * self._slower, 0.0)

    def _session_records(self) -> int:
        if not self._exists():
            return 0
        return StoredSession(self._settings.folder).status().records

    def _add_waiting(self, waiting: list[Path], *, closed: bool) -> None:
        self._count(waiting)
        for path in waiting:
            if path.name in self._journal.aside:
                continue
            n = self._rows[path.name]
            limit = self._time_left(sum(self._rows[each.name] for each in self._unset(waiting)))
            strategy, predicted = self._choose(n, waiting, limit)
            if not closed and self._clock.now() + _SAFETY * predicted > self._settings.until:
                return  # the collection ends first; then all are added
            self._add(path, n, strategy, limit)

    def _unset(self, paths: Sequence[Path]) -> list[Path]:
        known = {*self._journal.done, *self._journal.aside}
        return [path for path in paths if path.name not in known]

    def _choose(self, records: int, waiting: list[Path], limit: float | None) -> tuple[str, float]:
        """Return the best strategy with which all waiting files fit into the time left."""
        strategies = self._settings.strategies
        if self._speed is None or limit is None:
            return strategies[0], 0.0
        base = StoredSession(self._settings.folder).status().records
        total = sum(self._rows[path.name] for path in self._unset(waiting))
        for strategy in strategies:
            costs = self._speed.forecasts[strategy].costs
            whole = costs.adding(base, total) * self._slower
            if _SAFETY * whole <= limit:
                return strategy, costs.adding(base, records) * self._slower
        last = strategies[-1]
        ends = self._clock.now() + self._speed.forecasts[last].costs.adding(base, total)
        self._warn(ends + self._speed.reserve(base + total))
        return last, 0.0

    def _add(self, path: Path, records: int, strategy: str, limit: float | None) -> None:
        self._tell("add", f"{path.name}: {count(records, 'record')} by {strategy!r}")
        strategies = self._settings.strategies
        following = strategies[strategies.index(strategy) + 1 :]
        for each in (strategy, *following):
            is_last = each == strategies[-1]
            if each != strategy:
                self._tell("fallback", f"{path.name}: {each!r} instead, which is faster")
            step = {"action": "add", "strategy": each, "repeated": self._settings.repeated}
            problem = self._step([path], step, None if is_last else limit)
            if problem is None or problem.code == LOCKED:
                return
            if problem.code != STOPPED:
                self._set_aside(path.name, problem.message)
                return

    def _step(self, paths: list[Path], step: dict[str, Any], limit: float | None) -> Problem | None:
        """Do a step in a worker. Return why it was not done, if it was not."""
        settings = self._settings
        names = tuple(path.name for path in paths)
        batches = len(StoredSession(settings.folder).status().batches) if self._exists() else 0
        self._journal = replace(self._journal, pending=names, batches=batches)
        self._journal.write(self._path)
        started = self._clock.now()
        request = {
            **step,
            "folder": str(settings.folder),
            "files": [str(path) for path in paths],
            "schema": str(settings.schema),
            "k": settings.k,
            "id": settings.id,
            "seed": settings.seed,
            "missing": settings.missing,
            "read_options": dict(settings.read_options),
        }
        problem = call_worker(request, limit)
        if problem is None:
            self._finish_step()
            self._learn(step, paths, self._clock.now() - started)
        elif problem.code == LOCKED:  # Another process may be doing this very step: _recover waits.
            self._tell("warning", "another process is using the session")
        else:
            self._cancel_step()
        return problem

    def _learn(self, step: Mapping[str, Any], paths: Sequence[Path], seconds: float) -> None:
        """Correct predictions by how long a step really took."""
        if self._speed is None or step["action"] != "add":
            return
        status = StoredSession(self._settings.folder).status()
        n = sum(self._rows.get(path.name, 0) for path in paths)
        predicted = self._speed.forecasts[step["strategy"]].costs.adding(status.records - n, n)
        if predicted > 0.5:
            self._slower = max(1.0, 0.5 * self._slower + 0.5 * seconds / predicted)

    def _finish_step(self) -> None:
        done = (*self._journal.done, *self._journal.pending)
        self._journal = replace(self._journal, done=done, pending=())
        self._journal.write(self._path)

    def _cancel_step(self) -> None:
        self._journal = replace(self._journal, pending=())
        self._journal.write(self._path)

    def _recover(self) -> None:
        """Determine whether an interrupted step was completed, as soon as its process has ended."""
        if not self._journal.pending:
            return
        while is_locked(self._settings.folder):
            self._clock.sleep(_POLL)
        if self._has_happened():
            self._finish_step()
        else:
            self._cancel_step()

    def _has_happened(self) -> bool:
        """Return whether the pending files are in the session: somebody may have added others."""
        if not self._exists():
            return False
        journal = self._journal
        added = StoredSession(self._settings.folder).sources_by_batch()[journal.batches :]
        pending = {(self._settings.watch / name).resolve() for name in journal.pending}
        if len(pending) > 1:  # A base of several files states no source.
            return len(added) > 0 and added[0] is None
        return any(source in pending for source in added)

    def _set_aside(self, name: str, problem: str) -> None:
        self._tell("set aside", f"{name}: {problem}")
        self._journal = replace(self._journal, aside={**self._journal.aside, name: problem})
        self._journal.write(self._path)

    # ----------------------------------------------------------------------------------- end

    def _fail_without_records(self) -> None:
        self._check_aside()
        raise GuaranteeError(
            "The collection has ended and no file has arrived, so there is nothing to release.",
            code="guarantee.too_few_records",
            k=self._settings.k,
            records=0,
        )

    def _check_aside(self) -> None:
        aside = self._journal.aside
        if aside and not self._settings.skip_invalid:
            raise GuaranteeError(
                f"{count(len(aside), 'file')} could not be added, so nothing was released: "
                f"{', '.join(sorted(aside))}. Correct them under new names, or release without "
                "them (skip_invalid=True, --skip-invalid).",
                code="guarantee.failed",
                files=sorted(aside),
            )

    def _release(self) -> RunResult:
        self._check_aside()
        session = StoredSession(self._settings.folder)
        session.publish(self._settings.output)
        finished = self._clock.now()
        margin = self._settings.deadline - finished
        word = "before" if margin >= 0 else "after"
        self._tell("release", f"written {format_duration(abs(margin))} {word} the deadline")
        return RunResult(
            output=self._settings.output,
            finished=finished,
            deadline=self._settings.deadline,
            events=tuple(self._events),
            files=len(self._journal.done),
            late=tuple(self._late),
        )

    def _tell(self, name: str, message: str) -> None:
        event = Event(self._clock.now(), name, message)
        self._events.append(event)
        progress.report(name)
        self._on_event(event)


def _check_columns(schema: Schema, table: Table) -> None:
    """Raise SchemaError for a file without a column of the schema, whatever the other files have.

    What else may be wrong depends on the other files: an empty column fits any type.
    """
    try:
        resolve.resolve(schema, table)
    except MicrocellError as error:
        if error.code == "schema.unknown_column":
            raise


def _age(path: Path) -> tuple[int, str]:
    """Return a key by which older files come first. A file that no longer exists comes first."""
    try:
        return path.stat().st_mtime_ns, path.name
    except OSError:
        return 0, path.name


def _measure_speed(settings: Run, parts: list[Any], seconds: float) -> _Speed:
    """Measure the method, each strategy, the fallback and the release on these records."""
    table = stack_parts(parts)
    schema = schema_files.load_schema(settings.schema)
    prepared = prepare.prepare(table, _anonymous(schema), k=settings.k, missing="impute")
    encoded = prepared.encoded

    def forecast(method: str, strategy: str) -> Forecast:
        job = Job(settings.k, method, {}, strategy, False, settings.seed)
        return forecast_from_table(encoded, table.rows, job, seconds)

    forecasts = {strategy: forecast(settings.method, strategy) for strategy in settings.strategies}
    fallback = forecast(FALLBACK_METHOD, settings.strategies[-1])
    rows = np.arange(min(table.rows, max(_MIN_SAMPLE, 20 * settings.k)))
    session = start(
        tables.take(table, rows), _anonymous(schema), settings.k, method="mdav", missing="impute"
    )
    started = time.perf_counter()
    session.finish()
    return _Speed(len(rows), forecasts, fallback, time.perf_counter() - started)


def _anonymous(schema: Schema) -> Schema:
    """Return the schema without the person column: repeated people do not affect times."""
    return replace(schema, identifiers=(), person=(), person_cells="rows", rest="drop")
