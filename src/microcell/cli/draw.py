"""``microcell draw``: the cells of several methods side by side, in two dimensions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import microcell as mc
from microcell._atomic import AtomicFiles, check_target
from microcell.cli.console import Messages
from microcell.cli.errors import handle_errors
from microcell.cli.options import Quiet, SchemaFile, figure_format, split_names, with_read_options

__all__ = ["EXAMPLES", "draw"]

EXAMPLES = (
    "microcell draw people.csv -s schema.toml -k 20 --columns age,bmi -o cells.svg",
    "microcell draw people.csv -s schema.toml -k 20 --columns age,bmi --methods mdav,pcl,auto "
    "-o cells.png",
)


@handle_errors
@with_read_options
def draw(
    *,
    read_options: Mapping[str, Any],
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="Table to draw.", show_default=False)
    ],
    schema: SchemaFile,
    k: Annotated[int, typer.Option("-k", help="Minimum number of records per cell.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Figure: .svg, .png or .pdf.")
    ],
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="Two quasi-identifiers, if the schema has more.",
            show_default=False,
        ),
    ] = None,
    methods: Annotated[
        str, typer.Option(metavar="NAME,NAME,...", help="Methods; `microcell methods` lists them.")
    ] = "mdav,pcl",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    missing: Annotated[
        Literal["error", "drop", "impute"],
        typer.Option(help="How to handle records with missing quasi-identifiers."),
    ] = "error",
    quiet: Quiet = False,
) -> None:
    """Draw the cells of several methods side by side. The figure shows original records."""
    messages = Messages(quiet)
    form = figure_format(output, "--output")
    check_target(output, sources=(table, schema))
    with messages.progress():
        figure = mc.plot.cells(
            mc.read(table, **read_options),
            mc.load_schema(schema),
            k=k,
            methods=split_names(methods),
            columns=None if columns is None else split_names(columns),
            format=form,
            seed=seed,
            missing=missing,
        )
        with AtomicFiles() as atomic:
            atomic.path(output).write_bytes(figure)
    messages.facts([("figure", str(output))])
