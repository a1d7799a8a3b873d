"""Steps of a run in processes of their own, which can be stopped without harm to the session."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from microcell import tables
from microcell.errors import MicrocellError
from microcell.increments.storage import StoredSession
from microcell.model import Table

__all__ = ["LOCKED", "STOPPED", "Problem", "call_worker", "do_step", "stack_parts", "work"]

STOPPED = "stopped"
"""Code of a step that took too long."""

LOCKED = "table.locked"
"""Code of a step that another process prevented."""

_CALL = "from microcell.increments.worker import work; work()"
_PARENT_POLL = 0.2


@dataclass(frozen=True)
class Problem:
    """Why a step was not done."""

    code: str
    message: str


def call_worker(step: Mapping[str, Any], limit: float | None) -> Problem | None:
    """Do a step in a process of its own, within ``limit`` seconds if there is a limit.

    The process ends with this one, even if this one is killed.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _CALL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    request = {**step, "parent": os.getpid()}
    try:
        output, _ = process.communicate(json.dumps(request), timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Problem(STOPPED, "the time was up")
    except BaseException:
        process.kill()
        process.communicate()
        raise
    with suppress(ValueError, TypeError):
        result = json.loads(output)
        return None if result is None else Problem(**result)
    return Problem("failed", "the process that reads it ended without a result")


def work() -> None:
    """Do the step described as JSON on standard input. Print what went wrong."""
    step = json.loads(sys.stdin.read())
    threading.Thread(target=_end_with, args=(step["parent"],), daemon=True).start()
    problem = None
    try:
        do_step(step)
    except MicrocellError as error:
        problem = {"code": error.code, "message": str(error)}
    print(json.dumps(problem))  # noqa: T201


def _end_with(parent: int) -> None:
    """End this process soon after its parent, which would otherwise start another one."""
    while sys.platform == "win32" or os.getppid() == parent:
        time.sleep(_PARENT_POLL)
    os._exit(1)


def stack_parts(parts: Sequence[Table]) -> Table:
    """Return one table of files that have the columns of the first."""
    return tables.stack([parts[0], *(tables.align(parts[0], part) for part in parts[1:])])


def do_step(step: Mapping[str, Any]) -> None:
    """Start a session with some files, or add a file to it."""
    parts = [tables.read(path, **step["read_options"]) for path in step["files"]]
    if step["action"] == "start":
        StoredSession.create(
            step["folder"],
            stack_parts(parts),
            step["schema"],
            step["k"],
            id=step["id"],
            method=step["method"],
            seed=step["seed"],
            missing=step["missing"],
        )
    else:
        StoredSession(step["folder"]).add(
            parts[0], strategy=step["strategy"], repeated=step["repeated"]
        )
