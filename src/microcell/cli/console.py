"""How commands end when they cannot do what was asked: one line on stderr, and an exit code.

No traceback and no text of an unknown exception is shown, since it may hold values of the table; the environment
variable MICROCELL_DEBUG=1 shows both.
"""

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from io import TextIOWrapper
from threading import Lock, Timer
from typing import ParamSpec, TextIO

import typer
from rich import box
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from microcell.errors import GuaranteeError, MicrocellError
from microcell.progress import listen

__all__ = [
    "AT_ONCE",
    "GUARANTEE",
    "Words",
    "fail",
    "guarded",
    "keep_stdout_ours",
    "print_data",
    "print_facts",
    "print_table",
]

AT_ONCE = "compiling kernels (once on this machine)"
"""The one task that is told as soon as it begins: it explains why a first run is slow."""

PATIENCE = 2.0
"""Seconds after which progress is shown."""

_WIDTH = 100
"""Where no terminal tells its own."""


def fail(line: str) -> None:
    """Say on stderr why the command ends."""
    start, colon, rest = line.partition(": ")
    _console(sys.stderr).print(Text.assemble((start, "bold red"), colon, rest), soft_wrap=True)


def keep_stdout_ours() -> None:
    """Let nothing but this command line write to stdout: compiled libraries print what is no data, past ``sys.stdout``.

    What they print is thrown away, as are their warnings: it is not for the user, and may quote values of the table.
    """
    stream = sys.stdout
    if not isinstance(stream, TextIOWrapper):
        return  # none, or one that is no file
    try:
        ours, nowhere = os.dup(stream.fileno()), os.open(os.devnull, os.O_WRONLY)
    except (OSError, ValueError):
        return  # closed
    stream.flush()
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    replaced = open(ours, "w", encoding=stream.encoding, errors=stream.errors)  # noqa: SIM115
    replaced.reconfigure(line_buffering=stream.line_buffering, write_through=stream.write_through)
    sys.stdout = replaced


def print_data(text: str) -> None:
    """Print data on stdout, in UTF-8 whatever the locale, and nothing else."""
    typer.echo(text.removesuffix("\n").encode("utf-8"))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on stdout, with lines and colours only in a terminal."""
    terminal = sys.stdout.isatty()
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=terminal, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_printable(cell)) for cell in row))
    _show(sys.stdout, table)


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print facts on stdout, each after its heading."""
    _show(sys.stdout, _listed(facts))


@dataclass(frozen=True)
class Words:
    """What a command says on stderr besides errors; nothing if ``quiet``."""

    quiet: bool = False

    def say(self, text: str) -> None:
        """Say ``text``, in lines that fit."""
        if not self.quiet:
            _show(sys.stderr, Text(text))

    def list(self, facts: Iterable[tuple[str, str]]) -> None:
        """Say facts, each after its heading."""
        if not self.quiet:
            _show(sys.stderr, _listed(facts))

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Show how far the work inside the block is, if it takes long."""
        if self.quiet:
            yield
            return
        reporter = _Reporter(_console(sys.stderr))
        timer = Timer(PATIENCE, reporter.begin)
        timer.daemon = True
        timer.start()
        try:
            with listen(reporter):
                yield
        finally:
            timer.cancel()
            reporter.end()


@dataclass
class _Reporter:
    """Hears of progress: silent at first, then a bar that moves, or a line for each task where no terminal shows it."""

    console: Console
    lock: Lock = field(default_factory=Lock)
    state: tuple[str, int, int] = ("", 0, 0)
    told: set[str] = field(default_factory=set)
    patient: bool = True
    bar: Progress | None = None
    line: TaskID | None = None

    def __call__(self, task: str, done: int, total: int) -> None:
        """Take a report."""
        with self.lock:
            self.state = (task, done, total)
            if task == AT_ONCE:
                self._tell(task)
            elif not self.patient:
                self._show()

    def begin(self) -> None:
        """Show where the work is, from now on."""
        with self.lock:
            self.patient = False
            if sys.stderr.isatty() and not self.console.is_dumb_terminal:
                self.bar = Progress(
                    SpinnerColumn(),
                    TextColumn("{task.description}"),
                    BarColumn(),
                    TimeElapsedColumn(),
                    console=self.console,
                    transient=True,
                )
                self.line = self.bar.add_task("", total=None)
                self.bar.start()
            if self.state[0]:
                self._show()

    def end(self) -> None:
        """Take the bar away."""
        with self.lock:
            self.patient = True
            if self.bar is not None:
                self.bar.stop()

    def _show(self) -> None:
        task, done, total = self.state
        if self.bar is not None and self.line is not None:
            self.bar.update(self.line, description=task, completed=done, total=total or None)
        else:
            self._tell(task)

    def _tell(self, task: str) -> None:
        """Print a line for the task, the first time that it is heard of; what follows a comma changes on the way."""
        name = task.partition(",")[0]
        if name not in self.told:
            self.told.add(name)
            self.console.print(Text(f"{task} ..."))


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else _WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def _show(stream: TextIO, content: RenderableType) -> None:
    """Print without the blanks that fill lines up."""
    console = _console(stream)
    with console.capture() as captured:
        console.print(content)
    stream.write("\n".join(line.rstrip(" ") for line in captured.get().split("\n")))
    stream.flush()


def _listed(facts: Iterable[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for heading, text in facts:
        grid.add_row(Text(heading, style="bold"), Text(_printable(text), overflow="fold"))
    return grid


def _printable(text: str) -> str:
    """The text without what would move a terminal's cursor or change its colours."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


GUARANTEE, USAGE, DEFECT, INTERRUPTED, BROKEN_PIPE = 1, 2, 70, 130, 141

_P = ParamSpec("_P")


@dataclass(frozen=True)
class _Ending:
    """The exit code for a kind of exception, and the line to say."""

    code: int
    line: Callable[[BaseException], str]


def guarded(command: Callable[_P, None]) -> Callable[_P, None]:
    """The command, with every exception turned into a line on stderr and an exit code."""

    @wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, SystemExit):
            raise
        except BrokenPipeError:
            _forget_streams()
            raise typer.Exit(BROKEN_PIPE) from None
        # Everything: polars raises what is no Exception when it panics, and whatever comes must not show its text.
        except BaseException as error:  # noqa: BLE001
            raise typer.Exit(_end(error)) from None

    return run


def _end(error: BaseException) -> int:
    """Say what happened; the exit code."""
    if os.environ.get("MICROCELL_DEBUG") == "1":
        traceback.print_exception(error)
    ending = next(ending for kind, ending in _ENDINGS.items() if isinstance(error, kind))
    fail(ending.line(error))
    return ending.code


def _told_by_system(error: BaseException) -> str:
    """What the system says, without the words of a library that may quote the table."""
    told = (
        getattr(error, "strerror", None) or type(error).__name__,
        getattr(error, "filename", None),
    )
    return f"error: {': '.join(str(part) for part in told if part)}. No output was changed."


def _forget_streams() -> None:
    """Point the streams that nobody reads any more to nowhere, so that closing them raises nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # none, or one that is no file
            os.dup2(nowhere, stream.fileno())


_ENDINGS: dict[type[BaseException], _Ending] = {
    GuaranteeError: _Ending(GUARANTEE, lambda error: f"error: {error}"),
    MicrocellError: _Ending(USAGE, lambda error: f"error: {error}"),
    OSError: _Ending(USAGE, _told_by_system),
    MemoryError: _Ending(
        USAGE, lambda _: "error: not enough memory for this table. No output was changed."
    ),
    KeyboardInterrupt: _Ending(INTERRUPTED, lambda _: "interrupted; nothing was written"),
    BaseException: _Ending(
        DEFECT,
        lambda error: (
            f"error: this is a defect of microcell ({type(error).__name__}), please report it. MICROCELL_DEBUG=1 shows "
            "where it happened; look through that before you pass it on, it may quote your table."
        ),
    ),
}
"""The first kind that fits counts."""
