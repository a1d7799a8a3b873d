"""``microcell survey design``: cells of candidates, before anyone answers."""

import json as jsons
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import microcell as mc
from microcell.cli._console import Words, print_data
from microcell.cli._failures import guarded
from microcell.cli._options import Json, Quiet, SchemaFile, parse_settings, takes_reading

if TYPE_CHECKING:
    from microcell import SurveyDesign

__all__ = ["EXAMPLES", "design"]

EXAMPLES = (
    "microcell survey design people.csv -s schema.toml -k 5 --participation 0.75 --failure 1e-4 -o cells.json",
    "microcell survey design people.csv -s schema.toml -k 5 --trust none --boxes 12 -o boxes.json --report design.html",
)


@guarded
@takes_reading
def design(
    *,
    reading: Mapping[str, Any],
    frame: Annotated[Path, typer.Argument(metavar="FRAME", help="The candidates, a file.", show_default=False)],
    schema: SchemaFile,
    k: Annotated[int, typer.Option("-k", metavar="K", help="Participants among whom each one is to be hidden.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="CELLS.json", help="The cells, for the respondents.")
    ],
    participation: Annotated[
        str,
        typer.Option(
            metavar="P|COLUMN", help="The probability that a candidate takes part, or the column that has it."
        ),
    ] = "0.75",
    failure: Annotated[
        float, typer.Option(metavar="P", help="The probability that is accepted for a cell of 1 to k-1 participants.")
    ] = 1e-5,
    trust: Annotated[
        Literal["local", "none"],
        typer.Option(help="Whom respondents trust: their own device, or nobody, so that they tick boxes on paper."),
    ] = "local",
    cells: Annotated[
        Literal["power", "balls"] | None,
        typer.Option(help="Of local trust, the kind of cells. Default: power.", show_default=False),
    ] = None,
    boxes: Annotated[
        int | None, typer.Option(metavar="N", help="Of no trust, the most boxes on the form.", show_default=False)
    ] = None,
    method: Annotated[str, typer.Option("--method", "-m", metavar="NAME", help="How cells are made.")] = "auto",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the method; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="For what chance decides.")] = 0,
    missing: Annotated[
        Literal["error", "drop", "impute"], typer.Option(help="What to do with candidates that lack a value.")
    ] = "error",
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a report of the design.", show_default=False)
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Design the cells of a survey: published before anyone answers, they hide each participant among k."""
    words = Words(quiet)
    mc.check_survey_outputs(output, beside=[] if report is None else [report], sources=(frame, schema))
    with words.progress():
        made = mc.design_survey(
            mc.read(frame, **reading),
            schema,
            k,
            _as_participation(participation),
            failure,
            trust=trust,
            method=method,
            cells=cells,
            boxes=boxes,
            seed=seed,
            missing=missing,
            **parse_settings(settings or []),
        )
        mc.write_survey(made, output, beside={} if report is None else {report: mc.render_survey(made)})
    if json:
        print_data(jsons.dumps(made.manifest, indent=2, ensure_ascii=False))
    words.list(_facts(made, output, report))


def _as_participation(text: str) -> float | str:
    """A number if it is one, else the name of a column."""
    try:
        return float(text)
    except ValueError:
        return text


def _facts(made: "SurveyDesign", output: Path, report: Path | None) -> Iterator[tuple[str, str]]:
    manifest = made.manifest
    cells, certainty = manifest["cells"], manifest["certainty"]
    designed, given = manifest["candidates"]["designed"], manifest["candidates"]["in"]
    left = "" if designed == given else f"; {given - designed:,} without a value were left out"
    yield "cells", f"{cells['count']:,} of {cells['smallest']:,} to {cells['largest']:,} candidates{left}"
    yield "cell failure", f"{cells['failure']['largest']:.4g} at worst; accepted were {manifest['failure']:.4g}"
    yield "table failure", f"{manifest['table']['table_failure']:.4g}: the probability that any cell fails"
    ratio = "" if certainty["ratio"] is None else f", {certainty['ratio']:.3g} times that of certain participation"
    yield "distortion", f"{manifest['distortion']:.4g} expected{ratio}"
    yield "cells", str(output)
    yield "manifest", str(mc.design_path(output))
    if report is not None:
        yield "report", str(report)
