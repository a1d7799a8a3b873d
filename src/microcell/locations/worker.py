"""Long calculations in a process of their own, so that look-ups keep their pace meanwhile.

The process is this file: it reads a task from its standard input and writes what comes of it to its standard output.
Nothing touches a disk, and nothing is said on the way: what libraries print goes with the errors.
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

__all__ = ["Apart", "task_of"]

_TASKS = {"cluster": "microcell.locations.clustering", "what_if": "microcell.locations.scenarios"}
"""Functions by name, and where they are."""

_NICENESS = 19


def task_of(name: str) -> Callable[..., Any]:
    """The function of a task, loaded when it is first used.

    Examples
    --------
    >>> task_of("cluster").__name__
    'cluster'
    """
    return getattr(import_module(_TASKS[name]), name)  # type: ignore[no-any-return]


class Apart:
    """Runs tasks in processes of their own; :meth:`stop` ends those that run.

    Examples
    --------
    >>> Apart()
    Apart(0 running)
    """

    def __init__(self) -> None:
        self._lock, self._running, self._stopped = Lock(), set[subprocess.Popen[bytes]](), False

    def __repr__(self) -> str:
        return f"Apart({len(self._running)} running)"

    def run(self, task: str, *arguments: Any, **options: Any) -> Any:
        """What the task makes of its arguments."""
        with self._lock:
            if self._stopped:
                raise ServiceError("The service is closing.")
            child = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._running.add(child)
        try:
            sent, _ = child.communicate(pickle.dumps((task, arguments, options)))
        finally:
            self._running.discard(child)
        if child.returncode != 0:
            raise ServiceError(
                f"The process that calculates ended with {child.returncode}: perhaps memory ran out."
            )
        outcome = pickle.loads(sent)
        if isinstance(outcome, MicrocellError):
            raise outcome
        return outcome

    def stop(self) -> None:
        """End what runs, and start nothing more."""
        with self._lock:
            self._stopped = True
            for child in list(self._running):
                child.kill()


def main() -> None:
    """Carry out the task that comes in."""
    ours = _keep_stdout_ours()
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C goes to all processes of a terminal: the service decides
    with suppress(OSError, AttributeError):
        os.nice(_NICENESS)
    task, arguments, options = pickle.load(sys.stdin.buffer)
    try:
        outcome = task_of(task)(*arguments, **options)
    except MicrocellError as error:
        outcome = error
    with ours:
        pickle.dump(outcome, ours)


def _keep_stdout_ours() -> BinaryIO:
    """The standard output, for the outcome alone: compiled libraries print past ``sys.stdout``, and would damage it."""
    ours = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return ours


if __name__ == "__main__":
    main()
