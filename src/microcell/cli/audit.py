"""``microcell audit``: measure the risk and utility of a release against its original."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import microcell as mc
from microcell._atomic import check_target
from microcell.cli.console import Messages, print_data, print_report
from microcell.cli.errors import handle_errors
from microcell.cli.options import (
    Audience,
    CertificateFile,
    Json,
    Person,
    Quiet,
    ReportFile,
    RowsArePeople,
    SchemaFile,
    Strict,
    check_directions,
    check_engine,
    parse_person,
    parse_requirements,
    with_engine_options,
    with_read_options,
)

if TYPE_CHECKING:
    from microcell import Audit, Manifest
    from microcell.model import Table

__all__ = ["EXAMPLES", "audit"]

EXAMPLES = (
    "microcell audit people.csv people_k5.csv -s schema.toml",
    "microcell audit people.csv people_k5.csv -s schema.toml --require k=5 "
    "--require 'information_loss<=0.2'",
    "microcell audit people.csv people_k5.csv -s schema.toml --report audit.html --json",
    "microcell audit people.csv people_k5.csv -s schema.toml --for public --report audit.html "
    "--certificate audit.pdf",
    "microcell audit people.csv people_k5.csv -s schema.toml --population 80000",
    "microcell audit people.csv people_k5.csv -s schema.toml --analysis 'tsh ~ age + sex' --by sex",
    "microcell audit 'in/*.parquet' out/ -s schema.toml --engine dask",
)

_MINIMUM_K = 2
"""Minimum k if neither the manifest nor the user requires more: no record may be unique."""


@handle_errors
@with_read_options
@with_engine_options("engine", "scheduler", "workers", "memory", "scratch")
def audit(
    *,
    read_options: Mapping[str, Any],
    engine_options: Mapping[str, Any],
    original: Annotated[
        Path, typer.Argument(metavar="ORIGINAL", help="The original table.", show_default=False)
    ],
    released: Annotated[
        Path, typer.Argument(metavar="RELEASED", help="The published table.", show_default=False)
    ],
    schema: SchemaFile,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEASURE=LIMIT",
            help="Limit to meet, such as k=5 or information_loss<=0.1; repeatable. k must always "
            "reach the manifest's value (2 without a manifest), and the basic checks must pass.",
        ),
    ] = None,
    report: ReportFile = None,
    certificate: CertificateFile = None,
    audience: Audience = "internal",
    manifest: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help="Manifest of the release, if it is not next to it.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Match rows by this column instead of by position.",
            show_default=False,
        ),
    ] = None,
    population: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Size of the population that the records were sampled from.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Unchanged column to predict from the others, on both tables (needs "
            "scikit-learn).",
            show_default=False,
        ),
    ] = None,
    analysis: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORMULA",
            help="Regression to fit on both tables, such as 'hours ~ age + education'; repeatable. "
            "Logistic if the response has two values.",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Compare means and rates by the values of this column; repeatable.",
            show_default=False,
        ),
    ] = None,
    person: Person = None,
    rows_are_people: RowsArePeople = None,
    strict: Strict = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Audit a published table against its original: k, classes, identifiers, information loss."""
    messages = Messages(quiet)
    requirements = parse_requirements(require or ())
    roles = mc.schema.with_person(
        mc.load_schema(schema), parse_person(person), rows_are_people=rows_are_people
    )
    options: dict[str, Any] = {"key": key, "population": population, "target": target}
    in_memory = {**options, **read_options, "analysis": analysis or None, "by": by or None}
    check_engine(engine_options, [name for name, value in in_memory.items() if value is not None])
    statement = mc.find_manifest(manifest, released)
    path = manifest or mc.release.manifest_path(released)
    # Replacing a report that belongs to the release would leave the release incomplete.
    files = [] if statement is None else [path.parent / file.path for file in statement.files or ()]
    sources = (original, released, schema, path, *files)
    mc.api.check_report_names(report, certificate)
    _check_targets((report, certificate), sources)
    if certificate is not None:
        mc.report.check_certificate()
    reading = read_options or mc.release.stored_reading(statement, original)
    with messages.progress():
        if engine_options:
            engine = {name: value for name, value in engine_options.items() if name != "engine"}
            result = mc.dask.audit_dataset(original, released, roles, manifest=statement, **engine)
        else:
            result = mc.audit(
                *_read_both(original, released, reading),
                roles,
                manifest=statement,
                analyses=analysis or (),
                by=by or (),
                **options,
            )
    directions = {name: item.lower_is_better for name, item in result.measures.items()}
    check_directions(requirements, directions.get)
    limits = {"k": _promised_k(statement), **{item.measure: item.limit for item in requirements}}
    title = f"Audit of {released.name}"
    met = all(item.met for item in result.check(limits))
    mc.api.write_reports(
        result,
        report=report,
        certificate=certificate if met else None,
        manifest=statement,
        title=title,
        require=limits,
        audience=audience,
    )
    text = mc.render(
        result,
        "json" if json else "text",
        manifest=None if statement is None else statement.as_dict(),
        title=title,
        require=limits,
        audience=audience,
    )
    print_data(text) if json else print_report(text)
    _list_outputs(messages, report=report, certificate=certificate if met else None)
    if certificate is not None and not met:
        messages.info("No certificate was written, because a requirement is not met.")
    _suggest_reading_options(messages, result)
    result.require(**limits)
    mc.api.check_strictly(result.findings if strict else ())


def _read_both(
    original: Path, released: Path, reading: Mapping[str, Any]
) -> tuple["Table", "Table"]:
    before = mc.read(original, **reading)
    dialect = _dialect(reading, original, released)
    return before, mc.api.read_released(released, before, **dialect)


def _check_targets(targets: Sequence[Path | None], sources: Sequence[Path]) -> None:
    taken = list(sources)
    for target in targets:
        if target is not None:
            check_target(target, sources=taken)
            taken.append(target)


def _promised_k(manifest: "Manifest | None") -> int:
    return _MINIMUM_K if manifest is None else max(manifest.k, _MINIMUM_K)


def _dialect(read_options: Mapping[str, Any], original: Path, released: Path) -> dict[str, Any]:
    """Return the reading options that also apply to the release.

    A release has the dialect of its original, but is always encoded in UTF-8.
    """
    if original.suffix.lower() != released.suffix.lower():
        return {}
    names = ("delimiter", "quote", "decimal")
    return {name: read_options[name] for name in names if name in read_options}


def _list_outputs(messages: Messages, **outputs: Path | None) -> None:
    written = [(label, str(path)) for label, path in outputs.items() if path is not None]
    if written:
        messages.facts(written)


def _suggest_reading_options(messages: Messages, result: "Audit") -> None:
    if "values_changed" in result.measures and result["values_changed"] > 0:
        messages.info(
            "If the original was read with other options when it was anonymized, such as --na, "
            "use the same options here."
        )
