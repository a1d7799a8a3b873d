"""Processes that start at once, because they are forked from one that has imported the package.

A new Python needs a second of processor time for that. The first process imports and does nothing
else, so that its copies start with a single thread.
"""

import atexit
import io
import multiprocessing.util  # noqa: F401  # its exit handler must run after ours
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from multiprocessing import active_children, get_context
from unittest import SkipTest

__all__ = ["Process", "start_command"]

PRELOADED = (
    *("microcell.api", "microcell.cli.commands", "microcell.methods", "microcell.release"),
    *("microcell.tables", "microcell.locations", "microcell.locations.web", "uvicorn"),
)


@atexit.register
def _end_processes():
    """End what a failed test has left behind: Python waits for all processes at its end."""
    for process in active_children():
        process.kill()


class Process:
    """Runs a function, with the part of the interface of ``subprocess.Popen`` that tests use."""

    def __init__(self, target, *arguments, folder=None, **environment):
        if not hasattr(os, "fork"):
            raise SkipTest("this system cannot fork")
        context = get_context("forkserver")
        context.set_forkserver_preload(list(PRELOADED))
        readers, writers = zip(*(context.Pipe(duplex=False) for _ in range(2)), strict=True)
        where = str(folder or os.getcwd())
        self._process = context.Process(
            target=_run, args=(writers, where, {**os.environ, **environment}, target, arguments)
        )
        self._process.start()
        self.stdout, self.stderr = (
            os.fdopen(os.dup(end.fileno()), encoding="utf-8") for end in readers
        )
        for end in (*readers, *writers):
            end.close()
        self.pid, self.returncode = self._process.pid, None

    def send_signal(self, number):
        os.kill(self.pid, number)

    def wait(self, timeout=300):
        self._process.join(timeout)
        self.returncode = self._process.exitcode
        assert self.returncode is not None, "the process goes on"
        return self.returncode

    def communicate(self, timeout=300):
        """Return what the process writes to stdout and to stderr."""
        with ThreadPoolExecutor(2) as pool:
            texts = list(pool.map(_read_all, (self.stdout, self.stderr)))
        self.wait(timeout)
        return texts


def start_command(*arguments, **environment):
    """Start the command line."""
    return Process("microcell.cli.main", *arguments, **environment)


def _read_all(file):
    if file is None:  # as after it was closed
        return ""
    with file:
        return file.read()


def _run(writers, folder, environment, target, arguments):
    # A background process ignores Ctrl-C by default; these must not.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    for number, (name, end) in enumerate(zip(("stdout", "stderr"), writers, strict=True), start=1):
        os.dup2(end.fileno(), number)
        end.close()
        buffer = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
        errors = "strict" if name == "stdout" else "backslashreplace"
        setattr(sys, name, io.TextIOWrapper(buffer, encoding, errors, line_buffering=True))
    module, _, function = target.rpartition(".")
    run = getattr(import_module(module), function)
    if target == "microcell.cli.main":
        sys.argv = ["microcell", *map(str, arguments)]
        arguments = ()
    run(*arguments)
