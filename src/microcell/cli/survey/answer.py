"""``microcell survey answer``: a respondent's cell, found on the respondent's own device."""

import json as jsons
from pathlib import Path
from typing import Annotated

import typer

import microcell as mc
from microcell.cli._console import Words, print_data, print_facts
from microcell.cli._failures import guarded
from microcell.cli._options import Json, Quiet

__all__ = ["EXAMPLES", "answer"]

EXAMPLES = (
    "microcell survey answer cells.json --record me.json",
    "microcell survey answer cells.json --record me.json --json",
)


@guarded
def answer(
    *,
    cells: Annotated[
        Path, typer.Argument(metavar="CELLS", help="A file that survey design wrote.", show_default=False)
    ],
    record: Annotated[
        Path, typer.Option(metavar="ME.json", help="Your values by name of a column, an object in JSON.")
    ],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find your cell, and what it publishes in place of your values; your record stays on this device."""
    found = mc.answer_survey(cells, record)
    if json:
        print_data(jsons.dumps(found.as_dict(), ensure_ascii=False))
    else:
        print_facts([("cell", str(found.cell)), *((name, str(value)) for name, value in found.representative.items())])
    words = Words(quiet)
    for name in found.strange:
        words.say(f"The value of {name!r} is not one that the cells were made for: the nearest cell was taken.")
