"""What the commands that try several methods for several k share: options, how they are read, and remarks."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import microcell as mc
from microcell.cli._options import figure_form, split_names
from microcell.errors import OptionError
from microcell.staging import check_target

if TYPE_CHECKING:
    from microcell import Point, Trial

__all__ = [
    "Missing",
    "Seed",
    "Settings",
    "Sizes",
    "TriedTable",
    "check_figure",
    "check_files",
    "parse_sizes",
    "remarks",
]

TriedTable = Annotated[Path, typer.Argument(metavar="TABLE", help="The file to try methods on.", show_default=False)]
Sizes = Annotated[
    str, typer.Option("-k", metavar="K,K,...", help="The least number of records in a cell; several with commas.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="An option, for the methods that have it; repeatable."),
]
Seed = Annotated[int, typer.Option(help="For what chance decides.")]
Missing = Annotated[
    Literal["error", "drop", "impute"], typer.Option(help="What to do with records that lack a quasi-identifier.")
]


def parse_sizes(text: str) -> list[int]:
    """The numbers of a text with commas between them.

    Examples
    --------
    >>> parse_sizes("3, 5,10")
    [3, 5, 10]
    """
    try:
        return [int(part) for part in split_names(text)]
    except ValueError:
        raise OptionError(f"-k takes whole numbers with commas between them, such as 3,5,10, not {text!r}.") from None


def check_figure(figure: Path, *, sources: Sequence[Path]) -> None:
    """Refuse, before any work, a figure of no form or in a place where it cannot be written."""
    figure_form(figure, "--figure")
    check_target(figure, sources=sources)


def check_files(output: Path | None, figure: Path | None, *, sources: Sequence[Path]) -> None:
    """Refuse, before any work, a table or a figure that could not be written, or both under one name."""
    if figure is not None:
        check_figure(figure, sources=sources)
    if output is not None:
        mc.check_outputs(output, beside=[] if figure is None else [figure], sources=sources)


def remarks(tried: "Iterable[Trial | Point]") -> Iterator[tuple[str, str]]:
    """What "auto" chose, and why a method was skipped, each told once."""
    told = {
        (item.method, f"skipped: {item.why}" if item.skipped else f"{item.used}, {item.why}"): None
        for item in tried
        if item.skipped or item.used != item.method
    }
    yield from told
