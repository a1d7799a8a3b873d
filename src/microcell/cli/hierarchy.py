"""``microcell hierarchy``: list, draft and check hierarchies of categories."""

import json as jsons
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import microcell as mc
from microcell._atomic import AtomicFiles, check_target
from microcell._display import count
from microcell.cli.console import Messages, print_data, print_table
from microcell.cli.errors import GUARANTEE_FAILED, Command, CommandGroup, handle_errors
from microcell.cli.options import Force, Json, Quiet, epilog, with_read_options
from microcell.errors import SchemaError, TableError
from microcell.hierarchies import BUNDLED, Taxonomy, read_hierarchy, write_hierarchy

__all__ = [
    "CHECK_EXAMPLES",
    "COMMANDS",
    "DRAFT_EXAMPLES",
    "LIST_EXAMPLES",
    "app",
    "check",
    "draft",
    "list_",
]

_ROWS_SHOWN = 20

_TableFile = Annotated[
    Path, typer.Argument(metavar="TABLE", help="Table with the column.", show_default=False)
]
_ColumnName = Annotated[
    str, typer.Argument(metavar="COLUMN", help="Name of the column.", show_default=False)
]

LIST_EXAMPLES = ("microcell hierarchy list",)


@handle_errors
def list_(*, json: Json = False) -> None:
    """List the hierarchies that come with microcell."""
    if json:
        print_data(jsons.dumps(BUNDLED, indent=2))
    else:
        print_table(("name", "content"), list(BUNDLED.items()))


DRAFT_EXAMPLES = (
    "microcell hierarchy draft people.csv postal_code -o regions.csv",
    "microcell hierarchy draft people.csv age",
)


@handle_errors
@with_read_options
def draft(
    *,
    read_options: Mapping[str, Any],
    table: _TableFile,
    column: _ColumnName,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.csv", help="File for the drafted hierarchy."),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Hierarchy to extend: values that it lacks are added to the group 'other'.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Propose a hierarchy for a column: a bundled one, bands, or a file to review and correct."""
    messages = Messages(quiet)
    if output is not None:
        _check_output(output, [table, *([base] if base else [])], force=force)
    known = None if base is None else read_hierarchy(base)
    with messages.progress():
        content = mc.read(table, **read_options)
    if base is None:
        lines = mc.schema.suggest_hierarchy(content, column)
        if lines is not None:
            print_data(f"[columns.{column}]\n{lines}")
            messages.info("Put these lines into the schema. They need no hierarchy file.")
            return
    if output is None:
        raise SchemaError(
            f"Column {column!r} needs a hierarchy file. Name it with -o FILE.csv.",
            code="schema.bad_hierarchy",
            column=column,
        )
    hierarchy = mc.schema.draft_hierarchy(
        content, column, base=known if isinstance(known, Taxonomy) else None
    )
    with AtomicFiles() as atomic:
        atomic.path(output).write_text(write_hierarchy(hierarchy), encoding="utf-8")
    messages.info(
        f"Drafted {hierarchy.describe()} in {output}. Review it: each row is a value, its group, "
        "and larger groups. It contains values of the table."
    )
    if hierarchy.levels < 2:
        messages.info("No groups were found: insert a column with the group of each value.")
    print_data(f'[columns.{column}]\nrole = "quasi"\nkind = "hierarchy"\nhierarchy = "{output}"')


CHECK_EXAMPLES = ("microcell hierarchy check regions.csv people.csv postal_code",)


@handle_errors
@with_read_options
def check(
    *,
    read_options: Mapping[str, Any],
    hierarchy: Annotated[
        str,
        typer.Argument(
            metavar="HIERARCHY", help="File, or name of a bundled hierarchy.", show_default=False
        ),
    ],
    table: _TableFile,
    column: _ColumnName,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check that a hierarchy is valid and has every value of a column; exit with 1 if not."""
    messages = Messages(quiet)
    groups = read_hierarchy(hierarchy)
    with messages.progress():
        content = mc.read(table, **read_options)
    result = mc.schema.check_hierarchy(groups, content, column)
    if json:
        print_data(
            jsons.dumps(
                {
                    "values": result.values,
                    "unknown": result.unknown,
                    "rows": list(result.rows),
                    "unused": result.unused,
                },
                indent=2,
            )
        )
    elif result.complete:
        messages.info(f"{groups.describe()} has all {count(result.values, 'value')} of {column!r}.")
    else:
        rows = ", ".join(map(str, result.rows[:_ROWS_SHOWN]))
        more = ", …" if len(result.rows) > _ROWS_SHOWN else ""
        messages.info(
            f"{groups.describe()} lacks {result.unknown} of {count(result.values, 'value')} of "
            f"{column!r}, in {count(len(result.rows), 'row')}: {rows}{more}. Add them, or let "
            "'microcell hierarchy draft --base' do it."
        )
    if not result.complete:
        raise typer.Exit(GUARANTEE_FAILED)


def _check_output(output: Path, sources: Sequence[Path], *, force: bool) -> None:
    check_target(output, sources=list(sources))
    if output.exists() and not force:
        raise TableError(
            f"{output} already exists. Choose another name, or overwrite it with --force.",
            code="table.exists",
            path=str(output),
        )


COMMANDS: Mapping[Callable[..., None], Sequence[str]] = {
    list_: LIST_EXAMPLES,
    draft: DRAFT_EXAMPLES,
    check: CHECK_EXAMPLES,
}
"""Commands of the group with their examples, in the order of the help text."""

app = typer.Typer(
    name="hierarchy",
    cls=CommandGroup,
    help="Hierarchies of values: list the bundled ones, draft and check your own.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

for _command, _examples in COMMANDS.items():
    app.command(_command.__name__.rstrip("_"), cls=Command, epilog=epilog(_examples))(_command)
