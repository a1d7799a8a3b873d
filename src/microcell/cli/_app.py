"""The commands put together."""

import signal
import sys
import warnings
from types import FrameType
from typing import Annotated

import typer

import microcell as mc
from microcell.cli import anonymize, audit, compile, example, inspect, methods
from microcell.cli._options import epilog

__all__ = ["app", "main"]

_COMMANDS = (inspect, anonymize, audit, methods, example, compile)
"""One module a command: a function of the module's name, and EXAMPLES."""

app = typer.Typer(
    name="microcell",
    help="k-anonymous tables by microaggregation, with the guarantee proved on the table you publish.",
    epilog=epilog(
        (
            "microcell example",
            "microcell inspect people.csv",
            "microcell anonymize people.csv -s schema.toml -k 5 -o people_k5.csv --report people_k5.html",
            "microcell audit people.csv people_k5.csv -s schema.toml",
        )
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"microcell {mc.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


for _module in _COMMANDS:
    _name = _module.__name__.rpartition(".")[2]
    app.command(_name, epilog=epilog(_module.EXAMPLES))(getattr(_module, _name))


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    for name in ("SIGTERM", "SIGHUP"):
        _hear(getattr(signal, name, None))
    for stream in (sys.stdout, sys.stderr):
        # A column name that the terminal's encoding lacks must not end the run.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    if not sys.warnoptions:
        # Warnings of libraries are not for the user, and may quote values of the table.
        warnings.simplefilter("ignore")
    app()


def _hear(number: signal.Signals | None) -> None:
    """Let the signal end the run as Ctrl-C does, so that files half written are removed."""
    if number is not None and signal.getsignal(number) is signal.SIG_DFL:
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise KeyboardInterrupt
