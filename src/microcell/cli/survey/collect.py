"""``microcell survey collect``: from answers to a release."""

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
    from microcell import Collection

__all__ = ["EXAMPLES", "collect"]

EXAMPLES = (
    "microcell survey collect cells.json answers.csv -o release.csv",
    "microcell survey collect cells.json answers.csv -o release.csv --below merge --id token --report release.html",
)


@guarded
@takes_reading
def collect(
    *,
    reading: Mapping[str, Any],
    cells: Annotated[
        Path, typer.Argument(metavar="CELLS", help="A file that survey design wrote.", show_default=False)
    ],
    answers: Annotated[
        Path,
        typer.Argument(metavar="ANSWERS", help="A table with a column cell, or representatives.", show_default=False),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write; the suffix tells the format.")
    ],
    below: Annotated[
        Literal["suppress", "merge"],
        typer.Option(help="What to do with cells of 1 to k-1 answers: leave them out, or join them with the nearest."),
    ] = "suppress",
    id: Annotated[
        str | None,
        typer.Option("--id", metavar="NAME", help="A column to find duplicates by; left out.", show_default=False),
    ] = None,
    drop: Annotated[
        str | None, typer.Option(metavar="NAME,NAME,...", help="Further columns to leave out.", show_default=False)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a report of the release.", show_default=False)
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Collect answers into a release in which each record shares its quasi-identifiers with k - 1 others or more."""
    words = Words(quiet)
    mc.check_outputs(output, beside=[] if report is None else [report], sources=(cells, answers))
    with words.progress():
        names = [] if drop is None else split_names(drop)
        found = mc.collect_survey(cells, mc.read(answers, **reading), below=below, id=id, drop=names)
        found = mc.write_collection(
            found, output, beside={} if report is None else {report: mc.render_collection(found)}
        )
    if json:
        print_data(jsons.dumps(found.manifest, indent=2, ensure_ascii=False))
    words.list(_facts(found, output, report))


def _facts(found: "Collection", output: Path, report: Path | None) -> Iterator[tuple[str, str]]:
    answers, cells, attained = (found.manifest[name] for name in ("answers", "cells", "attained"))
    yield "answers", f"{answers['out']:,} of {answers['in']:,} released, {answers['suppressed']:,} left out"
    yield (
        "cells",
        f"{cells['designed']:,} designed, {cells['empty']:,} without answers, {cells['short']:,} with too few",
    )
    least, middle = attained["least"], attained["median"]
    yield (
        "k attained",
        f"{least:,} answers in the smallest of {cells['published']:,} published, {middle:g} in the middle",
    )
    for note in found.audit.notes:
        yield "note", note
    yield "table", str(output)
    yield "manifest", str(mc.manifest_path(output))
    if report is not None:
        yield "report", str(report)
