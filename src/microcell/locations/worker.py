"""Run long computations in a separate process, so that they do not slow down look-ups.

The process runs this file: it reads a task from standard input and writes the result to standard
output. Nothing is written to disk.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from threading import Lock
from typing import Any, BinaryIO

from microcell.errors import MicrocellError, ServiceError

__all__ = ["Worker", "load_task"]

_TASKS = {
    "plan_with_secret": "microcell.locations.publication",
    "what_if": "microcell.locations.scenarios",
}
"""Functions that can run in the worker process, and their modules."""

_NICENESS = 19


def load_task(name: str) -> Callable[..., Any]:
    """Import and return the function of a task.

    Examples
    --------
    >>> load_task("what_if").__name__
    'what_if'
    """
    return getattr(import_module(_TASKS[name]), name)  # type: ignore[no-any-return]


class Worker:
    """Runner of tasks in separate processes; :meth:`stop` kills those that are still running.

    Examples
    --------
    >>> Worker()
    Worker(0 running)
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def __repr__(self) -> str:
        return f"Worker({len(self._running)} running)"

    def run(self, task: str, *arguments: Any, **options: Any) -> Any:
        """Run a task in a new process and return its result, or raise its error."""
        with self._lock:
            if self._stopped:
                raise ServiceError("The service is closing.", code="service.unavailable")
            process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._running.add(process)
        try:
            output, _ = process.communicate(pickle.dumps((task, arguments, options)))
        finally:
            self._running.discard(process)
        if process.returncode != 0:
            raise ServiceError(
                f"The worker process exited with status {process.returncode}; it may have run out "
                "of memory. Free memory and try again.",
                code="service.unavailable",
                status=process.returncode,
            )
        result = pickle.loads(output)
        if isinstance(result, MicrocellError):
            raise result
        return result

    def stop(self) -> None:
        """Kill running tasks and refuse new ones."""
        with self._lock:
            self._stopped = True
            for process in list(self._running):
                process.kill()


def main() -> None:
    """Run the task read from standard input."""
    output = _reserve_stdout()
    # A terminal sends Ctrl-C to all its processes; the service decides when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, AttributeError):
        os.nice(_NICENESS)
    task, arguments, options = pickle.load(sys.stdin.buffer)
    try:
        result = load_task(task)(*arguments, **options)
    except MicrocellError as error:
        result = error
    with output:
        pickle.dump(result, output)


def _reserve_stdout() -> BinaryIO:
    """Reserve standard output for the result; redirect anything else that is printed to stderr.

    Compiled libraries write past ``sys.stdout`` and would corrupt the result.
    """
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return output


if __name__ == "__main__":
    main()
