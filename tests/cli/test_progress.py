"""Progress on stderr: late, and plain where there is no terminal."""

import io
import sys
import time

import pytest

from microcell import progress
from microcell.cli import console
from microcell.kernels._jit import _CompileNotice


class Terminal(io.StringIO):
    def isatty(self):
        return True


def redirect(monkeypatch, stream):
    """Take stderr; in the test itself, since pytest sets it anew after the fixtures."""
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def wait_for(condition):
    until = time.monotonic() + 10
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    assert condition()


def test_quick_work_says_nothing(monkeypatch):
    stderr = redirect(monkeypatch, io.StringIO())
    with console.Words().progress():
        for done in range(5):
            progress.report("grouping", done, 5)
    assert stderr.getvalue() == ""


def test_compiling_is_told_at_once(monkeypatch):
    stderr = redirect(monkeypatch, io.StringIO())
    with console.Words().progress():
        _CompileNotice().on_start(None)
        assert stderr.getvalue() == "compiling kernels (once on this machine) ...\n"
        progress.report("grouping")
    assert stderr.getvalue().count("\n") == 1


def test_long_work_tells_each_task_once_on_its_own_line(monkeypatch):
    stderr = redirect(monkeypatch, io.StringIO())
    monkeypatch.setattr(console, "PATIENCE", 0.05)
    with console.Words().progress():
        progress.report("reading")
        progress.report("grouping", 0, 9)
        wait_for(stderr.getvalue)
        for done in range(9):
            progress.report("grouping", done, 9)
        progress.report("writing")
    assert stderr.getvalue() == "grouping ...\nwriting ...\n"


def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch):
    stream = redirect(monkeypatch, Terminal())
    monkeypatch.setattr(console, "PATIENCE", 0.05)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    with console.Words().progress():
        progress.report("reading")
        wait_for(lambda: "reading" in stream.getvalue())
        progress.report("grouping", 3, 9)
        wait_for(lambda: "grouping" in stream.getvalue())
    assert "\x1b[2K" in stream.getvalue()


def test_quiet_says_nothing_at_all(monkeypatch):
    stderr = redirect(monkeypatch, io.StringIO())
    monkeypatch.setattr(console, "PATIENCE", 0.01)
    words = console.Words(quiet=True)
    with words.progress():
        progress.report(console.AT_ONCE)
        time.sleep(0.05)
        progress.report("grouping", 1, 2)
    words.say("text")
    words.list([("a", "b")])
    assert stderr.getvalue() == ""


def test_work_that_fails_leaves_no_bar_and_no_listener(monkeypatch):
    stderr = redirect(monkeypatch, io.StringIO())
    with pytest.raises(ZeroDivisionError), console.Words().progress():
        raise ZeroDivisionError
    progress.report(console.AT_ONCE)
    assert stderr.getvalue() == ""


def test_no_colour_where_none_is_wanted(monkeypatch):
    stream = redirect(monkeypatch, Terminal())
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    console.fail("error: something")
    assert "\x1b[31" not in stream.getvalue()
    assert "\x1b[1;31" not in stream.getvalue()
