"""``microcell allocate``: points to centres of limited places, as near as can be."""

import json as jsons
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import microcell as mc
from microcell._atomic import Staging
from microcell.cli.console import Messages, print_data, print_facts, print_table
from microcell.cli.errors import handle_errors
from microcell.cli.options import Json, Quiet, figure_format, split_names, with_read_options

if TYPE_CHECKING:
    from microcell.allocation import Allocation, Spread, Summary

__all__ = ["EXAMPLES", "allocate"]

EXAMPLES = (
    "microcell allocate patients.csv hospitals.csv -o allocated.csv --columns x,y --name hospital",
    "microcell allocate patients.csv hospitals.csv -o allocated.csv --location latitude,longitude --figure map.svg",
    "microcell allocate documents.csv reviewers.csv -o reviews.csv --places load --name reviewer --standardize",
)

_TEXTS = (".csv", ".tsv", ".txt")


@handle_errors
@with_read_options
def allocate(
    *,
    read_options: Mapping[str, Any],
    points: Annotated[
        Path, typer.Argument(metavar="POINTS", help="The file of who is to go.", show_default=False)
    ],
    centres: Annotated[
        Path,
        typer.Argument(
            metavar="CENTRES", help="The file of where to, and how many fit.", show_default=False
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="OUT", help="The points with their centre and distance."
        ),
    ],
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="The columns to measure in. Default: the numbers that both files have.",
            show_default=False,
        ),
    ] = None,
    location: Annotated[
        str | None,
        typer.Option(
            metavar="LATITUDE,LONGITUDE",
            help="Two columns in degrees: measure in kilometres.",
            show_default=False,
        ),
    ] = None,
    places: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How many each centre takes, a column of CENTRES. Default: places, or equal shares if there is none.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What centres are called, a column of CENTRES. Default: 1, 2, ...",
            show_default=False,
        ),
    ] = None,
    standardize: Annotated[
        bool,
        typer.Option("--standardize", help="Divide columns by their deviation among the points."),
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw a map, or charts: .svg, .png or .pdf.", show_default=False
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Allocate points to centres of limited places, at the least sum of squared distances there is."""
    messages = Messages(quiet)
    _check_files(output, figure, sources=(points, centres))
    with messages.progress():
        found = mc.allocate(
            mc.read(points, **_for_file(points, read_options)),
            mc.read(centres, **_for_file(centres, read_options)),
            columns=None if columns is None else split_names(columns),
            location=None if location is None else split_names(location),
            places=places,
            name=name,
            standardize=standardize,
        )
        _write(found, output, figure)
    summary = found.summary
    if json:
        print_data(jsons.dumps(summary.as_dict(), indent=2, ensure_ascii=False))
    else:
        print_facts(_facts(summary))
        print_data("")
        print_table(["centre", "load", "places", "mean distance", "price"], _rows(summary))
        messages.info("nearest: if all went to the nearest centre, whatever its places")
        messages.info("price: the most that one more place would save, in squared distance")
    messages.facts([("table", str(output)), *([] if figure is None else [("figure", str(figure))])])


def _check_files(output: Path, figure: Path | None, *, sources: tuple[Path, ...]) -> None:
    if figure is not None:
        figure_format(figure, "--figure")
    mc.api.check_outputs(output, companions=[] if figure is None else [figure], sources=sources)


def _for_file(path: Path, read_options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options for reading, for the text files among the two."""
    return read_options if path.suffix.lower() in _TEXTS else {}


def _write(found: "Allocation", output: Path, figure: Path | None) -> None:
    """Write table and figure: both, whole, or none."""
    with Staging() as staging:
        if figure is not None:
            staging.path(figure).write_bytes(
                mc.plot.allocation(found, format=figure_format(figure, "--figure"))
            )
        mc.write(found.allocated, staging.path(output))


def _facts(summary: "Summary") -> Iterator[tuple[str, str]]:
    unit = summary.unit and f" {summary.unit}"
    yield (
        "allocated",
        f"{summary.points:,} points to {len(summary.centres):,} centres of {summary.places:,} places",
    )
    yield "measured in", ", ".join(summary.columns)
    yield "distance", _tell(summary.distances, unit)
    yield "nearest", _tell(summary.nearest, unit)


def _tell(spread: "Spread", unit: str) -> str:
    parts = {
        "mean": spread.mean,
        "median": spread.median,
        "90 % within": spread.p90,
        "largest": spread.max,
    }
    return ", ".join(f"{name} {value:.4g}{unit}" for name, value in parts.items())


def _rows(summary: "Summary") -> Iterator[list[str]]:
    for centre in summary.centres:
        mean = "" if centre.mean_distance is None else f"{centre.mean_distance:.4g}"
        yield [
            str(centre.name),
            f"{centre.load:,}",
            f"{centre.places:,}",
            mean,
            f"{centre.price:.4g}",
        ]
