"""``microcell draw``: the cells of methods side by side, in two dimensions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import microcell as mc
from microcell._atomic import Staging, check_target
from microcell.cli.console import Messages
from microcell.cli.errors import handle_errors
from microcell.cli.options import Quiet, SchemaFile, figure_format, split_names, with_read_options

__all__ = ["EXAMPLES", "draw"]

EXAMPLES = (
    "microcell draw people.csv -s schema.toml -k 20 --columns age,bmi -o cells.svg",
    "microcell draw people.csv -s schema.toml -k 20 --columns age,bmi --methods mdav,pcl,auto -o cells.png",
)


@handle_errors
@with_read_options
def draw(
    *,
    read_options: Mapping[str, Any],
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="The file to draw.", show_default=False)
    ],
    schema: SchemaFile,
    k: Annotated[int, typer.Option("-k", help="The least number of records in a cell.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The figure: .svg, .png or .pdf.")
    ],
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="Two quasi-identifiers, where the schema has more.",
            show_default=False,
        ),
    ] = None,
    methods: Annotated[
        str, typer.Option(metavar="NAME,NAME,...", help="See microcell methods.")
    ] = "mdav,pcl",
    seed: Annotated[int, typer.Option(help="For what chance decides.")] = 0,
    missing: Annotated[
        Literal["error", "drop", "impute"],
        typer.Option(help="What to do with records that lack a quasi-identifier."),
    ] = "error",
    quiet: Quiet = False,
) -> None:
    """Draw records and the cells that methods make of them; the picture shows the records, and is not for release."""
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
        with Staging() as staging:
            staging.path(output).write_bytes(figure)
    messages.facts([("figure", str(output))])
