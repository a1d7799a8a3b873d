"""Progress on stderr: delayed, and plain without a terminal."""

import io
import sys
import time
from types import SimpleNamespace

import pytest

from microcell import progress
from microcell.cli import console
from microcell.kernels._jit import _CompileNotice


class Terminal(io.StringIO):
    def isatty(self):
        return True


def redirect(monkeypatch, stream):
    """Replace stderr; in the test itself, because pytest replaces it after the fixtures."""
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def wait_for(condition):
    until = time.monotonic() + 10
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    assert condition()


def test_quick_work_prints_nothing(monkeypatch):
    stderr = redirect(monkeypatch, io.StringIO())
    with console.Messages().progress():
        for done in range(5):
            progress.report("grouping", done, 5)
    assert stderr.getvalue() == ""


def test_compilation_is_announced_at_once(monkeypatch):
    stderr = redirect(monkeypatch, io.StringIO())
    with console.Messages().progress():
        _CompileNotice().on_start(SimpleNamespace(data={"dispatcher": None}))
        assert stderr.getvalue() == "Compiling kernels (first run on this machine only) ...\n"
        progress.report("grouping")
    assert stderr.getvalue().count("\n") == 1


def test_long_work_prints_each_task_once(monkeypatch):
    stderr = redirect(monkeypatch, io.StringIO())
    monkeypatch.setattr(console, "PROGRESS_DELAY", 0.05)
    with console.Messages().progress():
        progress.report("reading")
        progress.report("grouping", 0, 9)
        wait_for(stderr.getvalue)
        for done in range(9):
            progress.report("grouping", done, 9)
        progress.report("writing")
    assert stderr.getvalue() == "Grouping ...\nWriting ...\n"


def test_a_terminal_shows_a_transient_bar(monkeypatch):
    stream = redirect(monkeypatch, Terminal())
    monkeypatch.setattr(console, "PROGRESS_DELAY", 0.05)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    with console.Messages().progress():
        progress.report("reading")
        wait_for(lambda: "Reading" in stream.getvalue())
        progress.report("grouping", 3, 9)
        wait_for(lambda: "Grouping" in stream.getvalue())
    assert "\x1b[2K" in stream.getvalue()


def test_quiet_prints_nothing(monkeypatch):
    stderr = redirect(monkeypatch, io.StringIO())
    monkeypatch.setattr(console, "PROGRESS_DELAY", 0.01)
    messages = console.Messages(quiet=True)
    with messages.progress():
        progress.report(progress.COMPILING)
        time.sleep(0.05)
        progress.report("grouping", 1, 2)
    messages.info("text")
    messages.facts([("a", "b")])
    assert stderr.getvalue() == ""


def test_failing_work_leaves_no_bar_and_no_listener(monkeypatch):
    stderr = redirect(monkeypatch, io.StringIO())
    with pytest.raises(ZeroDivisionError), console.Messages().progress():
        raise ZeroDivisionError
    progress.report(progress.COMPILING)
    assert stderr.getvalue() == ""


def test_no_color_is_respected(monkeypatch):
    stream = redirect(monkeypatch, Terminal())
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    console.print_error("error[option.invalid]: something")
    assert "\x1b[31" not in stream.getvalue()
    assert "\x1b[1;31" not in stream.getvalue()
