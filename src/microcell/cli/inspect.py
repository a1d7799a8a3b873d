"""``microcell inspect``: describe the columns of a table and draft a schema."""

import json as jsons
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import microcell as mc
from microcell._atomic import AtomicFiles, check_target
from microcell.cli.console import Messages, print_data, print_table
from microcell.cli.errors import handle_errors
from microcell.cli.options import Force, Json, Quiet, with_read_options
from microcell.errors import OptionError, TableError

if TYPE_CHECKING:
    from microcell.schema.draft import Inspection

__all__ = ["EXAMPLES", "inspect"]

EXAMPLES = (
    "microcell inspect people.csv",
    "microcell inspect people.csv -o draft.toml",
    "microcell inspect people.csv --json",
)

_HEADINGS = ("column", "type", "missing", "distinct", "role", "kind", "reason")
_STDOUT = Path("-")


@handle_errors
@with_read_options
def inspect(
    *,
    read_options: Mapping[str, Any],
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="Table to inspect.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.toml",
            help="File for the drafted schema; - for stdout.",
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Describe the columns of a table and draft a schema, with a reason for each guess."""
    messages = Messages(quiet)
    if output == _STDOUT and json:
        raise OptionError(
            "-o - and --json both print on stdout. Use one of them.",
            code="option.conflict",
            option="--output",
        )
    if output not in (None, _STDOUT):
        _check_output(output, table, force=force)
    with messages.progress():
        data = mc.read(table, **read_options)
        inspection = mc.inspect(data)
    messages.notes(data.origin.notes)
    if output == _STDOUT:
        print_data(_draft(inspection))
        return
    if json:
        print_data(jsons.dumps(inspection.as_dict(), indent=2))
    else:
        _print_columns(inspection)
    if output is not None:
        with AtomicFiles() as atomic:
            atomic.path(output).write_text(_draft(inspection), encoding="utf-8")
        messages.info(
            f"Drafted a schema in {output}. Review it before you use it: it decides which columns "
            "are protected."
        )


def _check_output(output: Path, table: Path, *, force: bool) -> None:
    check_target(output, sources=[table])
    if output.exists() and not force:
        raise TableError(
            f"{output} already exists. Choose another name, or overwrite it with --force.",
            code="table.exists",
            path=str(output),
        )


def _draft(inspection: "Inspection") -> str:
    reasons = {column.name: column.reason for column in inspection.columns}
    return mc.schema.schema_to_toml(mc.draft_schema(inspection), comments=reasons)


def _print_columns(inspection: "Inspection") -> None:
    print_data(f"{_summary(inspection)}\n")
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


def _summary(inspection: "Inspection") -> str:
    sentences = [f"{_count(inspection.rows, 'row')}."]
    noun = "row"
    if inspection.rows_per_person is not None:
        noun = "person"
        names = [column.name for column in inspection.columns if column.role == "person"]
        rows = inspection.rows_per_person
        sentences = [
            f"{_count(inspection.rows, 'row')} about {_count(inspection.persons or 0, noun)} "
            f"(identified by {', '.join(names)}), {rows.median:g} per person (median), "
            f"at most {rows.max:,}."
        ]
    verb = "repeats" if inspection.duplicates == 1 else "repeat"
    sentences.append(f"{_count(inspection.duplicates, 'row')} {verb} an earlier row.")
    verb = "has" if inspection.unique == 1 else "have"
    sentences.append(
        f"{_count(inspection.unique, noun)} {verb} a unique combination of quasi-identifiers."
    )
    return " ".join(sentences)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
