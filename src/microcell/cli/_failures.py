"""How commands end when they cannot do what was asked: one line on stderr, and an exit code.

No traceback and no text of an unknown exception is shown, since it may hold values of the table; the environment
variable MICROCELL_DEBUG=1 shows both.
"""

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec

import typer

from microcell.cli._console import fail
from microcell.errors import GuaranteeError, MicrocellError

__all__ = ["GUARANTEE", "guarded"]

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
    told = (getattr(error, "strerror", None) or type(error).__name__, getattr(error, "filename", None))
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
    MemoryError: _Ending(USAGE, lambda _: "error: not enough memory for this table. No output was changed."),
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
