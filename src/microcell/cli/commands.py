"""The command-line application: all commands and command groups."""

import signal
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Annotated

import typer

import microcell as mc
from microcell.cli.about import COMPILE_EXAMPLES as COMPILE
from microcell.cli.about import DEMO_EXAMPLES as DEMO
from microcell.cli.about import EXAMPLE_EXAMPLES as EXAMPLE
from microcell.cli.about import METHODS_EXAMPLES as METHODS
from microcell.cli.about import compile, demo, example, methods
from microcell.cli.allocate import EXAMPLES as ALLOCATE
from microcell.cli.allocate import allocate
from microcell.cli.anonymize import ANONYMIZE_EXAMPLES as ANONYMIZE
from microcell.cli.anonymize import ASSIGN_EXAMPLES as ASSIGN
from microcell.cli.anonymize import anonymize, assign
from microcell.cli.audit import EXAMPLES as AUDIT
from microcell.cli.audit import audit
from microcell.cli.console import reserve_stdout
from microcell.cli.draw import EXAMPLES as DRAW
from microcell.cli.draw import draw
from microcell.cli.errors import Command, RootGroup
from microcell.cli.hierarchy import app as hierarchy
from microcell.cli.increment import increment
from microcell.cli.inspect import EXAMPLES as INSPECT
from microcell.cli.inspect import inspect
from microcell.cli.locations import app as locations
from microcell.cli.options import epilog
from microcell.cli.risk import EXAMPLES as RISK
from microcell.cli.risk import risk
from microcell.cli.studio import EXAMPLES as STUDIO
from microcell.cli.studio import studio
from microcell.cli.survey import app as survey
from microcell.cli.sweeps import COMPARE_EXAMPLES as COMPARE
from microcell.cli.sweeps import DEPENDENCE_EXAMPLES as DEPENDENCE
from microcell.cli.sweeps import EXPLORE_EXAMPLES as EXPLORE
from microcell.cli.sweeps import compare, dependence, explore

__all__ = ["COMMANDS", "app", "run"]

COMMANDS: Mapping[Callable[..., None], Sequence[str]] = {
    demo: DEMO,
    studio: STUDIO,
    inspect: INSPECT,
    risk: RISK,
    anonymize: ANONYMIZE,
    audit: AUDIT,
    compare: COMPARE,
    explore: EXPLORE,
    dependence: DEPENDENCE,
    allocate: ALLOCATE,
    draw: DRAW,
    assign: ASSIGN,
    methods: METHODS,
    example: EXAMPLE,
    compile: COMPILE,
}
"""Each command with its examples, in the order of the help page."""

app = typer.Typer(
    name="microcell",
    cls=RootGroup,
    help="Make k-anonymous tables by microaggregation, with the guarantee verified on the table "
    "that you publish.",
    epilog=epilog(
        (
            "microcell example",
            "microcell inspect people.csv",
            "microcell anonymize people.csv -s schema.toml -k 5 -o people_k5.csv "
            "--report people_k5.html",
            "microcell audit people.csv people_k5.csv -s schema.toml",
        )
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"microcell {mc.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


for _command, _examples in COMMANDS.items():
    app.command(cls=Command, epilog=epilog(_examples))(_command)
app.add_typer(hierarchy)
app.add_typer(increment)
app.add_typer(survey)
app.add_typer(locations)


def run() -> None:
    """Run the command line and exit the process with its exit code."""
    for name in ("SIGTERM", "SIGHUP"):
        _treat_as_interrupt(getattr(signal, name, None))
    reserve_stdout()
    for stream in (sys.stdout, sys.stderr):
        # A column name that the terminal's encoding cannot show must not end the run.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    if not sys.warnoptions:
        # Warnings of libraries are not meant for users and may quote values of the table.
        warnings.simplefilter("ignore")
    app()


def _treat_as_interrupt(number: signal.Signals | None) -> None:
    """Handle the signal like Ctrl-C, so that temporary files are removed."""
    if number is not None and signal.getsignal(number) is signal.SIG_DFL:
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise KeyboardInterrupt
