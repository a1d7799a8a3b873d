"""``microcell audit``: what an outsider finds who compares a release with its original."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import microcell as mc
from microcell._atomic import Staging, check_target
from microcell.cli.console import Messages, print_data
from microcell.cli.errors import handle_errors
from microcell.cli.options import (
    Audience,
    Json,
    Quiet,
    Requirement,
    SchemaFile,
    check_directions,
    parse_requirements,
    with_engine_options,
    with_read_options,
)
from microcell.errors import OptionError

__all__ = ["EXAMPLES", "audit"]

EXAMPLES = (
    "microcell audit people.csv people_k5.csv -s schema.toml",
    "microcell audit people.csv people_k5.csv -s schema.toml --require k=5 --require 'distortion<=0.2'",
    "microcell audit people.csv people_k5.csv -s schema.toml --report audit.html --json",
    "microcell audit people.csv people_k5.csv -s schema.toml --for public --report audit.html --certificate audit.pdf",
    "microcell audit people.csv people_k5.csv -s schema.toml --population 80000",
    "microcell audit 'in/*.parquet' out/ -s schema.toml --engine dask",
)

_LEAST_K = 2
"""What is required where neither the manifest nor the user says more: nobody alone."""


@handle_errors
@with_read_options
@with_engine_options("engine", "scheduler", "workers", "memory", "scratch")
def audit(
    *,
    read_options: Mapping[str, Any],
    engine_options: Mapping[str, Any],
    original: Annotated[
        Path, typer.Argument(metavar="ORIGINAL", help="The table as it was.", show_default=False)
    ],
    released: Annotated[
        Path, typer.Argument(metavar="RELEASED", help="The published table.", show_default=False)
    ],
    schema: SchemaFile,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEASURE=LIMIT",
            help="A limit to meet, such as k=5 or distortion<=0.1; repeatable. In any case k is to be what the "
            "manifest promises (without one, 2), identifiers are to be gone, and records accounted for.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write a page with figures.", show_default=False),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.pdf", help="Write a page to sign, for anyone to read.", show_default=False
        ),
    ] = None,
    audience: Audience = "internal",
    manifest: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help="The release's manifest, if not beside it.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Match rows by this column, not by position.", show_default=False
        ),
    ] = None,
    population: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="How many people the records were sampled from.", show_default=False
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="A column published unchanged, to be learned on the release and on the original (scikit-learn).",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Audit a published table against its original: true k, classes, records, identifiers, distortion."""
    messages = Messages(quiet)
    requirements = parse_requirements(require or ())
    given: dict[str, Any] = {"key": key, "population": population, "target": target}
    _check_engine(engine_options, {**given, **read_options})
    inside = released / "_manifest.json"
    account = mc.find_manifest(
        inside if engine_options and manifest is None and inside.is_file() else manifest, released
    )
    _check_targets(
        (report, certificate),
        (original, released, schema, manifest or mc.release.manifest_path(released)),
    )
    with messages.progress():
        if engine_options:
            where = {name: value for name, value in engine_options.items() if name != "engine"}
            found = mc.dask.audit_dataset(
                original, released, mc.load_schema(schema), manifest=account, **where
            )
        else:
            before, after = (
                mc.read(original, **read_options),
                mc.read(released, **_as_written(read_options, original, released)),
            )
            found = mc.audit(before, after, mc.load_schema(schema), manifest=account, **given)
    _check_directions(found, requirements)
    limits = {"k": _promised(account), **{item.measure: item.limit for item in requirements}}
    told: dict[str, Any] = {
        "manifest": account,
        "title": f"Audit of {released.name}",
        "require": limits,
    }
    with Staging() as staging:
        if report is not None:
            page = mc.render(found, "html", audience=audience, **told)
            staging.path(report).write_text(page, encoding="utf-8")
        if certificate is not None:
            staging.path(certificate).write_bytes(mc.report.certify(found, **told))
    print_data(mc.render(found, "json" if json else "text", audience=audience, **told))
    written = [
        (name, str(path))
        for name, path in (("report", report), ("certificate", certificate))
        if path
    ]
    if written:
        messages.facts(written)
    if "values_changed" in found.measures and found["values_changed"] > 0:
        messages.info(
            "If the original was read in another way then, with --na for instance, give the same options here."
        )
    found.require(**limits)


def _check_engine(engine_options: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse what goes only with an engine, or not with one."""
    if engine_options and "engine" not in engine_options:
        raise OptionError(
            f"--{next(iter(engine_options))} is for data sets of many files. Add --engine dask, or leave it out."
        )
    for name, value in given.items() if engine_options else ():
        if value is not None:
            raise OptionError(
                f"--{name} cannot be had with --engine {engine_options['engine']}. Leave it out."
            )


def _check_targets(targets: Sequence[Path | None], sources: Sequence[Path]) -> None:
    """Refuse, before any work, a file that cannot be written, or that is another one."""
    taken = list(sources)
    for target in targets:
        if target is not None:
            check_target(target, sources=taken)
            taken.append(target)


def _promised(manifest: Mapping[str, Any] | None) -> float:
    """The k that the release promises."""
    promised = (manifest or {}).get("k")
    return promised if type(promised) is int and promised > _LEAST_K else _LEAST_K


def _as_written(read_options: Mapping[str, Any], original: Path, released: Path) -> dict[str, Any]:
    """The options for reading that hold for the release too: in UTF-8, it is in the original's dialect otherwise."""
    same = original.suffix.lower() == released.suffix.lower()
    return {
        name: read_options[name]
        for name in ("delimiter", "quote", "decimal")
        if same and name in read_options
    }


def _check_directions(found: Any, requirements: Sequence[Requirement]) -> None:
    """Refuse a limit on the wrong side of one of the measures found."""
    sides = {name: measure.lower_is_better for name, measure in found.measures.items()}
    check_directions(requirements, sides.get)
