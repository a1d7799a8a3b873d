"""``microcell inspect``: the facts of each column, and a schema drafted from them."""

import json as jsons
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import microcell as mc
from microcell._atomic import Staging, check_target
from microcell.cli.console import Words, guarded, print_data, print_table
from microcell.cli.options import Force, Json, Quiet, takes_reading
from microcell.errors import OptionError, TableError

if TYPE_CHECKING:
    from microcell.schema.draft import Inspection

__all__ = ["EXAMPLES", "inspect"]

EXAMPLES = (
    "microcell inspect people.csv",
    "microcell inspect people.csv -o draft.toml",
    "microcell inspect people.csv --json",
)

_HEADINGS = ("column", "type", "missing", "distinct", "role", "kind", "why")
_STDOUT = Path("-")


@guarded
@takes_reading
def inspect(
    *,
    reading: Mapping[str, Any],
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="The file to look at.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.toml",
            help="Where to write the drafted schema; - for stdout.",
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show the columns of a table, and draft a schema to edit, with the reason for each guess."""
    words = Words(quiet)
    if output == _STDOUT and json:
        raise OptionError("-o - and --json both print on stdout. Give one of them.")
    if output not in (None, _STDOUT):
        _check_draft(output, table, force=force)
    with words.progress():
        inspection = mc.inspect(mc.read(table, **reading))
    if output == _STDOUT:
        print_data(_draft(inspection))
        return
    if json:
        print_data(jsons.dumps(inspection.as_dict(), indent=2))
    else:
        _print_facts(inspection)
    if output is not None:
        with Staging() as staging:
            staging.path(output).write_text(_draft(inspection), encoding="utf-8")
        words.say(
            f"A schema is drafted in {output}. Read it and correct it: what it says decides what is protected."
        )


def _check_draft(output: Path, table: Path, *, force: bool) -> None:
    check_target(output, sources=[table])
    if output.exists() and not force:
        raise TableError(
            f"{output} is there already. Choose another name, or overwrite it with --force."
        )


def _draft(inspection: "Inspection") -> str:
    reasons = {column.name: column.reason for column in inspection.columns}
    return mc.schema.schema_to_toml(mc.draft_schema(inspection), comments=reasons)


def _print_facts(inspection: "Inspection") -> None:
    print_data(
        f"{inspection.rows:,} rows: {inspection.duplicates:,} repeat an earlier one, {inspection.unique:,} are alone "
        "with their quasi-identifiers\n"
    )
    print_table(
        _HEADINGS,
        [
            (
                column.name,
                column.storage,
                f"{column.missing:,}",
                f"{column.distinct:,}",
                column.role,
                column.kind or "",
                column.reason,
            )
            for column in inspection.columns
        ],
    )
