"""``microcell allocate``: assign points to centres of limited capacity."""

import json as jsons
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import microcell as mc
from microcell._atomic import AtomicFiles
from microcell._files import TEXT_SUFFIXES
from microcell.cli.console import Messages, print_data, print_facts, print_table
from microcell.cli.errors import handle_errors
from microcell.cli.options import Json, Quiet, figure_format, split_names, with_read_options

if TYPE_CHECKING:
    from microcell.allocation import Allocation, Spread, Summary

__all__ = ["EXAMPLES", "allocate"]

EXAMPLES = (
    "microcell allocate patients.csv hospitals.csv -o allocated.csv --columns x,y --name hospital",
    "microcell allocate patients.csv hospitals.csv -o allocated.csv "
    "--location latitude,longitude --figure map.svg",
    "microcell allocate documents.csv reviewers.csv -o reviews.csv --places load "
    "--name reviewer --standardize",
)


@handle_errors
@with_read_options
def allocate(
    *,
    read_options: Mapping[str, Any],
    points: Annotated[
        Path,
        typer.Argument(metavar="POINTS", help="Table of points to allocate.", show_default=False),
    ],
    centres: Annotated[
        Path,
        typer.Argument(
            metavar="CENTRES",
            help="Table of centres with their coordinates and capacities.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="Output table: the points with their centre and distance.",
        ),
    ],
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="Columns to measure distances in. Default: numeric columns of both tables.",
            show_default=False,
        ),
    ] = None,
    location: Annotated[
        str | None,
        typer.Option(
            metavar="LATITUDE,LONGITUDE",
            help="Columns in degrees, to measure distances in kilometres.",
            show_default=False,
        ),
    ] = None,
    places: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Column of CENTRES with the capacity of each. Default: places, or equal shares "
            "if there is no such column.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Column of CENTRES with their names. Default: 1, 2, ...",
            show_default=False,
        ),
    ] = None,
    demand: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Column of POINTS with the number of places that each needs. Points may be "
            "divided between centres. Default: 1.",
            show_default=False,
        ),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Column of POINTS with the weight of each in the sum of squared distances. "
            "Default: the demand.",
            show_default=False,
        ),
    ] = None,
    standardize: Annotated[
        bool,
        typer.Option(
            "--standardize", help="Divide columns by their standard deviation among the points."
        ),
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Plot a map or charts: .svg, .png or .pdf.", show_default=False
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Allocate points to centres of limited capacity, minimizing the squared distances."""
    messages = Messages(quiet)
    _check_files(output, figure, sources=(points, centres))
    with messages.progress():
        allocation = mc.allocate(
            mc.read(points, **_for_file(points, read_options)),
            mc.read(centres, **_for_file(centres, read_options)),
            columns=None if columns is None else split_names(columns),
            location=None if location is None else split_names(location),
            places=places,
            name=name,
            demand=demand,
            weight=weight,
            standardize=standardize,
        )
        _write(allocation, output, figure)
    summary = allocation.summary
    if json:
        print_data(jsons.dumps(summary.as_dict(), indent=2, ensure_ascii=False))
    else:
        print_facts(_facts(summary))
        print_data("")
        print_table(["centre", "load", "places", "mean distance", "price"], _rows(summary))
        messages.info(
            "nearest: distances if every point went to its nearest centre, ignoring capacity"
        )
        messages.info(
            "price: maximum reduction of the sum of squared distances by one additional place"
        )
    messages.facts([("table", str(output)), *([] if figure is None else [("figure", str(figure))])])


def _check_files(output: Path, figure: Path | None, *, sources: tuple[Path, ...]) -> None:
    if figure is not None:
        figure_format(figure, "--figure")
    mc.api.check_outputs(output, companions=[] if figure is None else [figure], sources=sources)


def _for_file(path: Path, read_options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options for reading a text file; none for other formats."""
    return read_options if path.suffix.lower() in TEXT_SUFFIXES else {}


def _write(allocation: "Allocation", output: Path, figure: Path | None) -> None:
    """Write table and figure in one atomic step."""
    with AtomicFiles() as atomic:
        if figure is not None:
            atomic.path(figure).write_bytes(
                mc.plot.allocation(allocation, format=figure_format(figure, "--figure"))
            )
        mc.write(allocation.allocated, atomic.path(output))


def _facts(summary: "Summary") -> Iterator[tuple[str, str]]:
    unit = summary.unit and f" {summary.unit}"
    yield (
        "allocated",
        f"{summary.points:,} points to {len(summary.centres):,} centres with {summary.places:,} "
        "places",
    )
    yield "measured in", ", ".join(summary.columns)
    yield "distance", _format_spread(summary.distances, unit)
    yield "nearest", _format_spread(summary.nearest, unit)


def _format_spread(spread: "Spread", unit: str) -> str:
    parts = {
        "mean": spread.mean,
        "median": spread.median,
        "90th percentile": spread.p90,
        "maximum": spread.max,
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
