"""Jobs: tasks in processes of their own, with progress, a limit of memory, and cancellation."""

import asyncio
import json
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_hex
from time import time
from typing import Any, Literal

from microcell._display import short_repr
from microcell.errors import MicrocellError, OptionError, ServiceError

__all__ = ["Job", "Jobs", "TaskError"]

State = Literal["waiting", "running", "done", "failed", "cancelled"]

LONGEST_LINE = 64 * 2**20
"""Bytes of the longest answer of a worker."""

WARM_WORKERS = 3
"""Workers that keep a table in memory, for quick answers."""

SPARE_WORKERS = 2
"""Workers without a task that are kept, because starting one takes a second."""

JOBS_AT_ONCE = 2
JOBS_KEPT = 200
_ENDED = ("done", "failed", "cancelled")


class TaskError(MicrocellError):
    """An error that a task reported, with its code and details."""


@dataclass(eq=False, repr=False)
class Job:
    """A task that runs in the background.

    ``task``, ``done`` and ``total`` describe its progress. ``step`` is the step of the project that
    it belongs to.
    """

    project: str
    kind: str
    step: int
    id: str = field(default_factory=lambda: token_hex(8))
    state: State = "waiting"
    task: str = ""
    done: int = 0
    total: int = 0
    started: float = field(default_factory=time)
    ended: float | None = None
    error: Mapping[str, Any] | None = None
    result: Mapping[str, Any] | None = None
    version: int = 0

    def __repr__(self) -> str:
        return short_repr(self, self.kind, self.state)

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, in whatever way."""
        return self.state in _ENDED

    def as_dict(self) -> dict[str, Any]:
        """Return the state of the job for the API, without its result."""
        seconds = (self.ended or time()) - self.started
        left = seconds * (self.total - self.done) / self.done if self.total and self.done else None
        return {
            "id": self.id,
            "project": self.project,
            "kind": self.kind,
            "step": self.step,
            "state": self.state,
            "task": self.task,
            "done": self.done,
            "total": self.total,
            "seconds": round(seconds, 1),
            "seconds_left": None if left is None or self.is_over else round(left, 1),
            "error": self.error,
        }


class Jobs:
    """All processes of the studio. Belongs to one event loop."""

    def __init__(self, memory: int = 0) -> None:
        self._memory = memory
        self._warm: OrderedDict[str, _Worker] = OrderedDict()
        self._spare: list[_Worker] = []
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(JOBS_AT_ONCE)

    def __repr__(self) -> str:
        return short_repr(self, f"{len(self._jobs)} jobs")

    async def ask(self, project: str, task: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run a quick task in the process that has the project's table in memory."""
        worker = self._warm.pop(project, None)
        if worker is None and len(self._warm) >= WARM_WORKERS:
            _, worker = self._warm.popitem(last=False)
        worker = worker or self._take()
        self._warm[project] = worker
        try:
            return await worker.run(task, arguments)
        except ServiceError:
            self._warm.pop(project, None)
            raise

    def start(
        self,
        project: str,
        kind: str,
        step: int,
        arguments: Mapping[str, Any],
        finish: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ) -> Job:
        """Start a task in its own process. ``finish`` receives its result before it is done.

        If the same task of the same step is already running, that job is returned.
        """
        for job in self._jobs.values():
            if (job.project, job.kind, job.step) == (project, kind, step) and not job.is_over:
                return job
        job = Job(project, kind, step)
        self._jobs[job.id] = job
        ended = [number for number, each in self._jobs.items() if each.is_over]
        for number in ended[: max(0, len(self._jobs) - JOBS_KEPT)]:
            del self._jobs[number]
        self._tasks[job.id] = asyncio.create_task(self._run(job, arguments, finish))
        return job

    def job(self, number: str) -> Job:
        """Return the job with this identifier."""
        if number not in self._jobs:
            raise OptionError(
                "This job does not exist. The studio may have been restarted; start it again.",
                code="option.unknown",
                option="job",
            )
        return self._jobs[number]

    def of_project(self, project: str) -> list[Job]:
        """Return the jobs of a project, the latest first."""
        return [job for job in reversed(self._jobs.values()) if job.project == project]

    async def cancel(self, job: Job) -> None:
        """End the process of a job. What it published before remains."""
        task = self._tasks.get(job.id)
        if task is not None and not job.is_over:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            if not job.is_over:  # it was cancelled before it began
                _set_state(job, "cancelled")
                self._tasks.pop(job.id, None)

    async def events(self, job: Job) -> AsyncIterator[dict[str, Any]]:
        """Yield the state of a job whenever it changes, until it is over."""
        seen = -1
        while True:
            if job.version != seen:
                seen = job.version
                yield job.as_dict()
            if job.is_over:
                return
            await asyncio.sleep(_POLL)

    async def forget(self, project: str) -> None:
        """Stop everything that belongs to a project."""
        for job in self.of_project(project):
            await self.cancel(job)
            self._jobs.pop(job.id, None)
        worker = self._warm.pop(project, None)
        if worker is not None:
            await worker.stop()  # it has the table in memory

    def _take(self) -> "_Worker":
        return self._spare.pop() if self._spare else _Worker(self._memory)

    async def _give_back(self, worker: "_Worker") -> None:
        if worker.is_alive and len(self._spare) < SPARE_WORKERS:
            self._spare.append(worker)
        else:
            await worker.stop()

    async def warm_up(self) -> None:
        """Start a worker before it is needed."""
        worker = self._take()
        await worker.start()
        await self._give_back(worker)

    async def _run(
        self,
        job: Job,
        arguments: Mapping[str, Any],
        finish: Callable[[Mapping[str, Any]], None],
    ) -> None:
        worker = self._take()

        def hear(task: str, done: int, total: int) -> None:
            job.task, job.done, job.total = task, done, total
            job.version += 1

        try:
            async with self._slots:
                _set_state(job, "running")
                job.result = await worker.run(job.kind, arguments, hear)
                finish(job.result)
                _set_state(job, "done")
        except asyncio.CancelledError:
            _set_state(job, "cancelled")
        except MicrocellError as error:
            job.error = {"code": error.code, "message": str(error), "details": error.details}
            _set_state(job, "failed")
        except OSError as error:
            message = f"The operating system reported: {error.strerror or 'input/output error'}."
            job.error = {"code": "system.io_error", "message": message, "details": {}}
            _set_state(job, "failed")
        finally:
            await self._give_back(worker)
            self._tasks.pop(job.id, None)


_POLL = 0.1
"""Seconds between two looks at the state of a job."""


def _set_state(job: Job, state: State) -> None:
    job.state = state
    job.version += 1
    if job.is_over:
        job.ended = time()


class _Worker:
    """A process that answers one request at a time."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()

    async def run(
        self,
        task: str,
        arguments: Mapping[str, Any],
        hear: Callable[[str, int, int], None] = lambda *_: None,
    ) -> dict[str, Any]:
        """Run a task and return its result.

        Raises
        ------
        TaskError
            The task failed.
        ServiceError
            The process ended, for example because the system needed its memory.
        """
        async with self._lock:
            process = await self.start()
            assert process.stdin is not None
            assert process.stdout is not None
            request = json.dumps({"task": task, "arguments": arguments}).encode() + b"\n"
            try:
                process.stdin.write(request)
                await process.stdin.drain()
                while line := await process.stdout.readline():
                    message = json.loads(line)
                    if "progress" in message:
                        hear(*message["progress"])
                        continue
                    if "error" in message:
                        error = message["error"]
                        raise TaskError(error["message"], code=error["code"], **error["details"])
                    result: dict[str, Any] = message["result"]
                    return result
            except TaskError:
                raise
            except (OSError, ValueError):
                pass  # the process ended, or its answer is too long to be read
            except BaseException:
                # The answer would otherwise be taken for that of the next request.
                await self.stop()
                raise
            await self.stop()
            raise ServiceError(
                "The process that computed this ended unexpectedly, most probably because memory "
                "ran out, or its answer was too long. The project is unchanged. Close other "
                "programs and try again.",
                code="service.failed",
            )

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> asyncio.subprocess.Process:
        """Start the process, unless it runs."""
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "microcell.studio.worker",
                str(self._memory),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LONGEST_LINE,
                # Ctrl-C ends the studio, which then ends its workers.
                start_new_session=sys.platform != "win32",
            )
        return self._process

    async def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
