"""A process that runs tasks: requests as lines of JSON on stdin, messages on stdout.

A request is ``{"task": name, "arguments": {…}}``. The answer is any number of messages
``{"progress": [task, done, total]}`` and then one ``{"result": …}`` or ``{"error": {…}}``. Errors
contain no values of the table.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Queue
from threading import Thread
from time import monotonic
from typing import Any, TextIO

from microcell.errors import MicrocellError
from microcell.progress import listen
from microcell.studio.tasks import TASKS

if sys.platform != "win32":
    import resource

__all__ = ["main"]

Task = Callable[..., dict[str, Any]]

PAUSE = 0.1
"""Seconds between two messages about the progress of the same part of a task."""


def main(arguments: list[str]) -> None:
    """Serve requests until stdin ends. The only argument is a limit of memory in bytes, or 0."""
    limit = int(arguments[0]) if arguments else 0
    if limit and sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    # Compiled libraries print to file descriptor 1, which would corrupt the messages.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    requests: Queue[str] = Queue()
    Thread(target=_receive, args=(requests,), daemon=True).start()
    while True:
        request = json.loads(requests.get())
        _send(out, _answer(TASKS[request["task"]], request["arguments"], out))


def _receive(requests: "Queue[str]") -> None:
    """Pass on requests, and end the process as soon as the studio has ended or closed stdin."""
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


def _answer(task: Task, arguments: Mapping[str, Any], out: TextIO) -> dict[str, Any]:
    last: tuple[str, float] = ("", 0.0)

    def hear(name: str, done: int, total: int) -> None:
        nonlocal last
        now = monotonic()
        if name != last[0] or now - last[1] >= PAUSE:
            last = (name, now)
            _send(out, {"progress": [name, done, total]})

    try:
        with listen(hear):
            return {"result": task(**arguments)}
    except MicrocellError as error:
        return {"error": {"code": error.code, "message": str(error), "details": error.details}}
    except MemoryError:
        message = "There is not enough memory for this table. Close other programs, or allow more."
        return {"error": {"code": "system.out_of_memory", "message": message, "details": {}}}
    except OSError as error:
        message = f"The operating system reported: {error.strerror or 'input/output error'}."
        return {"error": {"code": "system.io_error", "message": message, "details": {}}}
    # The text of an unknown exception may contain a value of the table.
    except Exception as error:  # noqa: BLE001
        frames = traceback.extract_tb(error.__traceback__)[-4:]
        place = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
        message = f"This is a bug in microcell: {type(error).__name__} at {place}."
        return {"error": {"code": "internal.bug", "message": message, "details": {}}}


def _send(out: TextIO, message: Mapping[str, Any]) -> None:
    out.write(json.dumps(message, default=str) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
