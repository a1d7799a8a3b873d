"""``microcell survey check``: whether the cells of a survey keep what they promise."""

import json as jsons
from pathlib import Path
from typing import Annotated, Literal

import typer

import microcell as mc
from microcell.cli._console import Words, print_data, print_facts
from microcell.cli._failures import GUARANTEE, guarded
from microcell.cli._options import Json, Quiet

__all__ = ["EXAMPLES", "check"]

EXAMPLES = (
    "microcell survey check cells.json",
    "microcell survey check cells.json --frame people.csv",
)


@guarded
def check(
    *,
    cells: Annotated[
        Path, typer.Argument(metavar="CELLS", help="A file that survey design wrote.", show_default=False)
    ],
    frame: Annotated[
        Path | None,
        typer.Option(metavar="FRAME", help="The candidates: their numbers are counted again.", show_default=False),
    ] = None,
    participation: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The frame's column of probabilities to compare.", show_default=False),
    ] = None,
    missing: Annotated[
        Literal["error", "drop", "impute"], typer.Option(help="What the design did with candidates that lack a value.")
    ] = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check the cells of a survey: that they are whole, and that what they promise follows from what they state."""
    with Words(quiet).progress():
        found = mc.check_survey(cells, frame, participation=participation, missing=missing)
    if json:
        print_data(jsons.dumps(found.as_dict(), indent=2))
    else:
        print_facts((("good" if item.holds else "BAD"), item.words) for item in found.findings)
    verdict = "All that was looked at holds." if found.holds else "These cells do not keep what they promise."
    Words(quiet).say(verdict)
    if not found.holds:
        raise typer.Exit(GUARANTEE)
