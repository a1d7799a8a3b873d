"""``microcell risk``: measure the re-identification risk of a table as it stands."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import microcell as mc
from microcell._atomic import AtomicFiles, check_target
from microcell.cli.console import Messages, print_data, print_report
from microcell.cli.errors import handle_errors
from microcell.cli.options import (
    Json,
    Person,
    Quiet,
    ReportFile,
    RowsArePeople,
    Strict,
    parse_person,
    with_read_options,
)

__all__ = ["EXAMPLES", "risk"]

EXAMPLES = (
    "microcell risk people.csv",
    "microcell risk people.csv -s schema.toml --population 80000",
    "microcell risk people.csv -s schema.toml -k 10 --report risk.html",
    "microcell risk people.csv -s schema.toml --list 100 --json",
)


@handle_errors
@with_read_options
def risk(
    *,
    read_options: Mapping[str, Any],
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="Table to assess.", show_default=False)
    ],
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema",
            "-s",
            metavar="FILE.toml",
            help="Schema: the role and kind of each column. Drafted from the table if omitted.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Classes with fewer people are at risk.")] = 5,
    population: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Size of the population that the table is a sample of. Default: the sum of the "
            "sampling weights, if the schema names them.",
            show_default=False,
        ),
    ] = None,
    most: Annotated[
        int, typer.Option("--list", metavar="N", min=0, help="Records at risk to list.")
    ] = 20,
    report: ReportFile = None,
    person: Person = None,
    rows_are_people: RowsArePeople = None,
    strict: Strict = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure the re-identification risk of a table as it stands; no original is needed."""
    messages = Messages(quiet)
    sources = [table, *([] if schema is None else [schema])]
    if report is not None:
        mc.api.check_report_names(report, None)
        check_target(report, sources=sources)
    with messages.progress():
        data = mc.read(table, **read_options)
        roles = mc.draft_schema(mc.inspect(data)) if schema is None else mc.load_schema(schema)
        if person is not None or rows_are_people:
            roles = mc.schema.with_person(
                roles, parse_person(person), rows_are_people=rows_are_people
            )
        result = mc.risk(data, roles, k=k, population=population)
        if schema is None:
            result = result.with_drafted_roles()
    messages.notes(data.origin.notes)
    title = f"Risk of {table.name}"
    if report is not None:
        page = mc.report.render_risk(result, "html", title=title, most=most)
        with AtomicFiles() as atomic:
            atomic.path(report, private=True).write_text(page, encoding="utf-8")
    text = mc.report.render_risk(result, "json" if json else "text", title=title, most=most)
    print_data(text) if json else print_report(text)
    if report is not None:
        messages.facts([("report", str(report))])
    mc.api.check_strictly(result.findings if strict else ())
