"""Terminal output: results on stdout, messages and progress on stderr."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from io import TextIOWrapper
from threading import Lock, Timer
from typing import TYPE_CHECKING, TextIO

import typer
from rich import box
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from microcell.progress import COMPILING, COMPILING_ALWAYS, listen

if TYPE_CHECKING:
    from microcell.model import Finding

__all__ = [
    "Messages",
    "discard_streams",
    "has_printed_data",
    "print_data",
    "print_error",
    "print_facts",
    "print_report",
    "print_table",
    "reserve_stdout",
]

PROGRESS_DELAY = 2.0
"""Seconds before progress is shown."""

has_printed_data: ContextVar[bool] = ContextVar("has_printed_data", default=False)
"""Whether the command has printed a result on stdout."""

_WIDTH = 100
"""Line width when the output is not a terminal."""


_STYLES = {"danger": "bold red", "warning": "bold yellow", "note": "bold cyan"}


def reserve_stdout() -> None:
    """Redirect file descriptor 1 to the null device and keep a private copy for ``sys.stdout``.

    Compiled libraries print to file descriptor 1 directly. Their output would corrupt the results
    and may quote values of the table, so it is discarded.
    """
    stream = sys.stdout
    if not isinstance(stream, TextIOWrapper):
        return  # There is no stdout, or it is not a file.
    try:
        copy = os.dup(stream.fileno())
        null = os.open(os.devnull, os.O_WRONLY)
    except (OSError, ValueError):
        return  # stdout is closed.
    stream.flush()
    os.dup2(null, stream.fileno())
    os.close(null)
    replacement = open(copy, "w", encoding=stream.encoding, errors=stream.errors)  # noqa: SIM115
    replacement.reconfigure(
        line_buffering=stream.line_buffering, write_through=stream.write_through
    )
    sys.stdout = replacement


def discard_streams() -> None:
    """Redirect stdout and stderr to the null device, so that closing a broken pipe cannot fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # No stream, or not a file.
            os.dup2(null, stream.fileno())


def print_error(line: str) -> None:
    """Print an error line on stderr, with the part before the first colon highlighted."""
    label, colon, message = line.partition(": ")
    text = Text.assemble((_printable(label), "bold red"), colon, _printable(message))
    _console(sys.stderr).print(text, soft_wrap=True)


def print_data(text: str) -> None:
    """Print a result on stdout, in UTF-8 whatever the locale."""
    has_printed_data.set(True)
    typer.echo(text.removesuffix("\n").encode("utf-8"))


def print_report(text: str) -> None:
    """Print a report on stdout; in a terminal, the severity of each finding is coloured."""
    if not sys.stdout.isatty():
        print_data(text)
        return
    has_printed_data.set(True)
    content = Text(text.removesuffix("\n"))
    for severity, style in _STYLES.items():
        content.highlight_regex(rf"(?m)^{severity.upper()} ", style)
    _console(sys.stdout).print(content, soft_wrap=True)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on stdout, with rules and colours only in a terminal."""
    terminal = sys.stdout.isatty()
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=terminal, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_printable(cell)) for cell in row))
    _show(sys.stdout, table)


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print (heading, text) pairs on stdout, in two columns."""
    _show(sys.stdout, _two_columns(facts))


@dataclass(frozen=True)
class Messages:
    """Messages of a command on stderr; none if ``quiet``."""

    quiet: bool = False

    def info(self, text: str) -> None:
        """Print ``text``, wrapped."""
        if not self.quiet:
            _show(sys.stderr, Text(text))

    def notes(self, notes: Iterable[str]) -> None:
        """Print each note on a line of its own."""
        for note in notes:
            self.info(f"Note: {note}")

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Print (heading, text) pairs, in two columns."""
        if not self.quiet:
            _show(sys.stderr, _two_columns(facts))

    def findings(self, findings: "Iterable[Finding]") -> None:
        """Print each finding with its severity, in colour, and its advice."""
        if self.quiet:
            return
        grid = Table.grid(padding=(0, 1))
        for item in findings:
            text = Text(_printable(item.sentence))
            text.append(f" {_printable(item.advice)}." if item.advice else "", style="italic")
            text.append(f" [{item.code}]", style="dim")
            grid.add_row(Text(item.severity.upper(), style=_STYLES[item.severity]), text)
        if grid.row_count:
            _show(sys.stderr, grid)

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Show the progress of the ``with`` block if it takes longer than ``DELAY`` seconds."""
        if self.quiet:
            yield
            return
        display = _ProgressDisplay(_console(sys.stderr))
        timer = Timer(PROGRESS_DELAY, display.start)
        timer.daemon = True
        timer.start()
        try:
            with listen(display):
                yield
        finally:
            timer.cancel()
            display.stop()


@dataclass
class _ProgressDisplay:
    """A progress bar in a terminal, otherwise one line per task; silent until started."""

    console: Console
    lock: Lock = field(default_factory=Lock)
    state: tuple[str, int, int] = ("", 0, 0)
    printed: set[str] = field(default_factory=set)
    started: bool = False
    bar: Progress | None = None
    bar_task: TaskID | None = None

    def __call__(self, task: str, done: int, total: int) -> None:
        with self.lock:
            self.state = (task, done, total)
            if task in (COMPILING, COMPILING_ALWAYS):
                self._print_line(task)  # shown immediately: it explains why a first run is slow
            elif self.started:
                self._update()

    def start(self) -> None:
        """Show the current task, and all later reports."""
        with self.lock:
            self.started = True
            if sys.stderr.isatty() and not self.console.is_dumb_terminal:
                self.bar = Progress(
                    SpinnerColumn(),
                    TextColumn("{task.description}"),
                    BarColumn(),
                    TimeElapsedColumn(),
                    console=self.console,
                    transient=True,
                )
                self.bar_task = self.bar.add_task("", total=None)
                self.bar.start()
            if self.state[0]:
                self._update()

    def stop(self) -> None:
        """Remove the bar and ignore later reports."""
        with self.lock:
            self.started = False
            if self.bar is not None:
                self.bar.stop()

    def _update(self) -> None:
        task, done, total = self.state
        if self.bar is not None and self.bar_task is not None:
            description = _sentence_case(task)
            self.bar.update(
                self.bar_task, description=description, completed=done, total=total or None
            )
        else:
            self._print_line(task)

    def _print_line(self, task: str) -> None:
        # What follows a comma or colon changes along the way; the task is printed once.
        name = task.partition(",")[0].partition(":")[0]
        if name not in self.printed:
            self.printed.add(name)
            self.console.print(Text(f"{_sentence_case(task)} ..."))


def _sentence_case(task: str) -> str:
    return task[:1].upper() + task[1:]


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else _WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def _show(stream: TextIO, content: RenderableType) -> None:
    """Print without trailing spaces."""
    console = _console(stream)
    with console.capture() as captured:
        console.print(content)
    stream.write("\n".join(line.rstrip(" ") for line in captured.get().split("\n")))
    stream.flush()


def _two_columns(facts: Iterable[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for heading, text in facts:
        grid.add_row(Text(heading, style="bold"), Text(_printable(text), overflow="fold"))
    return grid


def _printable(text: str) -> str:
    """Replace control characters, which could move the cursor or change colours."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)
