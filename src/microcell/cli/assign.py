"""``microcell assign``: further records to the cells of an earlier release."""

import json as jsons
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import microcell as mc
from microcell.cli._console import Words, print_data
from microcell.cli._failures import guarded
from microcell.cli._options import Json, Quiet, split_names, takes_reading

if TYPE_CHECKING:
    from microcell import Assigned, Cells

__all__ = ["EXAMPLES", "assign"]

EXAMPLES = (
    "microcell assign cells.json newcomers.csv -o assigned.csv",
    "microcell assign cells.json newcomers.csv -o assigned.csv --keep tsh",
)


@guarded
@takes_reading
def assign(
    *,
    reading: Mapping[str, Any],
    cells: Annotated[
        Path, typer.Argument(metavar="CELLS", help="A file that anonymize --cells wrote.", show_default=False)
    ],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="The records to assign.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write; the suffix tells the format.")
    ],
    keep: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME,...", help="Columns to keep beside; others are left out.", show_default=False),
    ] = None,
    missing: Annotated[
        Literal["error", "impute"], typer.Option(help="What to do with records that lack a quasi-identifier.")
    ] = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Give further records the cells of an earlier release, and what these publish in place of their values."""
    words = Words(quiet)
    mc.check_outputs(output, sources=(cells, table))
    names = [] if keep is None else split_names(keep)
    with words.progress():
        found = mc.load_cells(cells)
        done = mc.assign(found, mc.read(table, **reading), keep=names, missing=missing)
        mc.write(done.assigned, output)
    if json:
        print_data(jsons.dumps(_facts(found, done), indent=2))
    words.say(
        f"{len(done.labels):,} records are in {done.used:,} of {len(found):,} cells, the fewest "
        f"{done.smallest:,} in one. This table is not k-anonymous by itself, only beside the release of its cells."
    )
    words.list(_remarks(done, output))


def _facts(cells: "Cells", done: "Assigned") -> dict[str, Any]:
    return {
        "records": len(done.labels),
        "cells": len(cells),
        "cells_used": done.used,
        "fewest": done.smallest,
        "strange": dict(done.strange),
    }


def _remarks(done: "Assigned", output: Path) -> Iterator[tuple[str, str]]:
    for name, count in done.strange.items():
        yield "not known", f"{count:,} values of {name!r}: placed as near as can be told"
    yield "table", str(output)
