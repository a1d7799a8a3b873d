"""``microcell anonymize`` and ``microcell assign``."""

import json as jsons
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from glob import has_magic
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import microcell as mc
from microcell._atomic import check_target
from microcell._display import count, number_range, percent
from microcell._files import is_url
from microcell.cli.console import Messages, print_data
from microcell.cli.errors import handle_errors
from microcell.cli.options import (
    Audience,
    Blocks,
    CertificateFile,
    Effort,
    Force,
    Json,
    OrderKey,
    Person,
    PersonCells,
    Quiet,
    ReportFile,
    RowsArePeople,
    Strict,
    Suppress,
    check_engine,
    parse_blocks,
    parse_dependence,
    parse_dominance,
    parse_effort,
    parse_limits,
    parse_person,
    parse_settings,
    split_names,
    with_engine_options,
    with_read_options,
)
from microcell.errors import OptionError
from microcell.progress import report as report_progress

if TYPE_CHECKING:
    from microcell import Cells, Manifest, Schema
    from microcell.assignment import Assigned
    from microcell.model import Finding
    from microcell.model.manifest import (
        BlocksSection,
        BoundSection,
        ColumnSection,
        PersonSection,
        RequirementsSection,
        SuppressionSection,
    )

__all__ = ["ANONYMIZE_EXAMPLES", "ASSIGN_EXAMPLES", "anonymize", "assign"]

ANONYMIZE_EXAMPLES = (
    "microcell anonymize people.csv -s schema.toml -k 5 -o people_k5.csv --report people_k5.html",
    "microcell anonymize people.csv -s schema.toml -k 3 --method vmdav --set gamma=0.2 "
    "-o people_k3.parquet",
    "microcell anonymize people.csv -s schema.toml -k 10 --effort 5 -o people_k10.csv",
    "microcell anonymize people.csv -s schema.toml -k 5 -o k5.csv --cells cells.json",
    "microcell anonymize people.csv -s schema.toml -k 5 -o diverse.csv --require l_diversity=3 "
    "--require 't_closeness<=.3'",
    "microcell anonymize people.csv -s schema.toml -k 5 -o associated.csv --dependence 0.1",
    "microcell anonymize people.csv -s schema.toml -k 5 -o k5_people.csv --person name",
    "microcell anonymize people.csv -s schema.toml -k 10 --dry-run",
    "microcell anonymize 'in/*.parquet' -s schema.toml -k 10 -o out/ --engine dask --workers 4 "
    "--memory 4GB",
)

ASSIGN_EXAMPLES = (
    "microcell assign cells.json newcomers.csv -o assigned.csv",
    "microcell assign cells.json newcomers.csv -o assigned_tsh.csv --keep tsh",
)

_REQUIRED = {
    "input": "Pass the table to anonymize as the first argument",
    "schema": "Pass a schema with -s (microcell inspect drafts one)",
    "k": "Pass the minimum number of people per cell with -k",
    "output": "Pass the output file with -o (or --dry-run to write nothing)",
}
"""Required settings, and how to pass each on the command line."""

_ENGINE_SETTINGS = {
    "macrocell",
    "memory",
    "output",
    "reading",
    "replace",
    "scheduler",
    "scratch",
    "seams",
    "workers",
}
"""Settings of the Dask engine, which ``--set`` must not override."""


@handle_errors
@with_read_options
@with_engine_options()
def anonymize(
    *,
    read_options: Mapping[str, Any],
    engine_options: Mapping[str, Any],
    table: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="TABLE",
            help="File to anonymize; several files with --engine.",
            show_default=False,
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema",
            "-s",
            metavar="FILE.toml",
            help="Schema file: role and kind of each column.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            help="Minimum number of people per cell: distinct persons if the schema names a "
            "person column, otherwise records.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Output file; the suffix sets the format."
        ),
    ] = None,
    report: ReportFile = None,
    certificate: CertificateFile = None,
    audience: Audience = "internal",
    cells: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help="Write the cells, so that microcell assign can place further records.",
            show_default=False,
        ),
    ] = None,
    cells_kind: Annotated[
        Literal["power", "balls"] | None,
        typer.Option(help="Kind of cells for --cells: power diagram (default) or MDAV balls."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Partitioning method; see microcell methods. Default: auto."
        ),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEASURE=LIMIT",
            help="Limit that the release must meet, such as l_diversity=3 or t_closeness<=0.3 "
            "(one column: t_closeness.COLUMN); repeatable. Limits on cells are met by adapting "
            "the cells; others are checked on the result.",
        ),
    ] = None,
    dependence: Annotated[
        str | None,
        typer.Option(
            metavar="LAMBDA",
            help="Weight of preserving the association between confidential columns and "
            "quasi-identifiers, 0 to 1, or COLUMN=LAMBDA,...; see microcell dependence. "
            "Default: 0.",
            show_default=False,
        ),
    ] = None,
    regression: Annotated[
        Literal["linear", "neighbours"] | None,
        typer.Option(
            help="With --dependence and --cells: how confidential columns are predicted from "
            "quasi-identifiers. Default: linear.",
            show_default=False,
        ),
    ] = None,
    dominance: Annotated[
        str | None,
        typer.Option(
            metavar="N,P",
            help="Dominance rule for sampling weights and persons: the N heaviest members of a "
            "cell may make up at most the share P of its weight. Default: that of the schema, "
            "1,0.5.",
            show_default=False,
        ),
    ] = None,
    person: Person = None,
    person_cells: PersonCells = None,
    rows_are_people: RowsArePeople = None,
    blocks: Blocks = None,
    effort: Effort = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Option of the method; repeatable."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed. Default: 0.")] = None,
    missing: Annotated[
        Literal["error", "drop", "impute"] | None,
        typer.Option(help="How to handle records with a missing quasi-identifier. Default: error."),
    ] = None,
    suppress: Suppress = None,
    keep_order: Annotated[
        bool | None,
        typer.Option("--keep-order/--shuffle", help="Order of the rows. Default: --shuffle."),
    ] = None,
    order_key: OrderKey = None,
    escape_formulas: Annotated[
        bool | None,
        typer.Option(
            "--escape-formulas",
            help="Put an apostrophe before texts that a spreadsheet program would run as formulas "
            "(.csv, .tsv and .txt).",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="RUN.toml", help="Run file with all settings; flags override it."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Do everything except write files.")
    ] = False,
    strict: Strict = False,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a table k-anonymous: at least k people share each combination of quasi-identifiers."""
    flags = {
        "input": table[0] if table and len(table) == 1 else table or None,
        "schema": schema,
        "k": k,
        "output": output,
        "report": report,
        "cells": cells,
        "method": method,
        "seed": seed,
        "missing": missing,
        "suppress": suppress,
        "dependence": parse_dependence(dependence),
        "regression": regression,
        "dominance": parse_dominance(dominance),
        "person": parse_person(person),
        "person_cells": person_cells,
        "rows_are_people": rows_are_people,
        "blocks": blocks,
        "keep_order": keep_order,
        "escape_formulas": escape_formulas,
        "order_key": order_key,
        "options": {**parse_settings(settings or ()), **parse_effort(effort)},
        "require": parse_limits(require or ()),
        "read": read_options,
    }
    messages = Messages(quiet)
    with messages.progress():
        job = _make_job(
            config,
            flags,
            cells_kind,
            engine_options,
            audience=audience,
            certificate=certificate,
            dry_run=dry_run,
            force=force,
        )
        release = _run_on_engine(job, messages, strict) if engine_options else _anonymize(job)
        findings = release.audit.findings if engine_options else _examine(job, release)
    guarantee = mc.report.guarantee(release.audit) if engine_options else release.guarantee
    mc.api.check_strictly(findings if strict else ())
    with messages.progress():
        release = release if engine_options else _publish(job, release)
    if json:
        content = jsons.loads(release.manifest.without_secrets().to_json())
        print_data(jsons.dumps(content | _finding_entries(findings), indent=2, ensure_ascii=False))
    messages.info(guarantee)
    messages.findings(findings)
    messages.notes(release.audit.notes if engine_options else _reading_notes(release))
    messages.facts(_summarize(job, release.manifest))


@dataclass(frozen=True)
class _Job:
    """A complete run: what to read, how to anonymize it and what to write."""

    table: Any
    schema: "Schema"
    k: int
    output: Path | None
    report: Path | None
    cells: Path | None
    keep_order: bool
    escape_formulas: bool
    settings: Mapping[str, Any]
    read_options: Mapping[str, Any]
    audience: str
    engine_options: Mapping[str, Any]
    certificate: Path | None
    dry_run: bool
    force: bool

    @property
    def outputs(self) -> dict[str, Path]:
        """Files to write, by label; with an engine, the table is a folder."""
        outputs: dict[str, Path | None] = {
            "report": self.report,
            "certificate": self.certificate,
            "cells": self.cells,
        }
        if self.output is not None:
            outputs = {
                "folder" if self.engine_options else "table": self.output,
                "manifest": mc.release.manifest_path(self.output),
                **outputs,
            }
        return {label: path for label, path in outputs.items() if path is not None}


def _make_job(
    config: Path | None,
    flags: Mapping[str, Any],
    cells_kind: str | None,
    engine_options: Mapping[str, Any],
    *,
    audience: str,
    certificate: Path | None,
    dry_run: bool,
    force: bool,
) -> _Job:
    """Combine the run file and the flags, and check everything that can be checked in advance."""
    run = _merge(config, flags)
    for name, hint in _REQUIRED.items():
        if run[name] is None and not (dry_run and name == "output"):
            raise OptionError(
                f"{hint}, or set {name} in the run file (--config).",
                code="option.missing",
                option=name,
            )
    if cells_kind is not None and run["cells"] is None:
        raise OptionError(
            "--cells-kind requires --cells, the file to write the cells to.",
            code="option.conflict",
            option="cells_kind",
        )
    if run["order_key"] is not None and run["keep_order"]:
        raise OptionError(
            "--order-key cannot be combined with --keep-order, which does not shuffle the rows. "
            "Leave one of them out.",
            code="option.conflict",
            option="order_key",
        )
    _check_sources(run, engine_options)
    schema = run["schema"]
    job = _Job(
        table=run["input"],
        schema=_load_schema(run),
        k=run["k"],
        output=run["output"],
        report=run["report"],
        cells=run["cells"],
        keep_order=bool(run["keep_order"]),
        escape_formulas=bool(run["escape_formulas"]),
        settings=_settings(run, cells_kind),
        read_options=run["read"],
        audience=audience,
        engine_options=engine_options,
        certificate=certificate,
        dry_run=dry_run,
        force=force,
    )
    _check_outputs(job, [path for path in (job.table, schema, config) if isinstance(path, Path)])
    return job


def _load_schema(run: Mapping[str, Any]) -> "Schema":
    """Return the schema with the overrides of the run applied."""
    schema = run["schema"]
    loaded = mc.load_schema(schema) if isinstance(schema, Path) else schema
    loaded = mc.schema.with_person(
        loaded, run["person"], run["person_cells"], run["rows_are_people"]
    )
    rule = run["dominance"]
    return loaded if rule is None else replace(loaded, dominance=rule)


def _merge(config: Path | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    base = vars(mc.schema.Run() if config is None else mc.schema.load_run(config))
    if flags["method"] not in (None, base["method"]):
        base = base | {"options": {}}  # the options in the file are for the method in the file
    if flags["person"] is not None:
        base = base | {"rows_are_people": None}
    elif flags["rows_are_people"]:
        base = base | {"person": None, "person_cells": None}
    merged = {name: {**base[name], **flags[name]} for name in ("options", "require", "read")}
    return base | {name: value for name, value in flags.items() if value is not None} | merged


def _check_outputs(job: _Job, sources: list[Path]) -> None:
    if job.output is not None and not job.engine_options:
        mc.api.check_outputs(
            job.output,
            report=job.report,
            certificate=job.certificate,
            companions=(job.cells,),
            sources=sources,
            overwrite=job.force or job.dry_run,
        )
        return
    mc.api.check_report_names(job.report, job.certificate)
    for option, path in (("report", job.report), ("certificate", job.certificate)):
        if path is None:
            continue
        check_target(path, sources=sources)
        if job.output is not None and job.output.resolve() in path.resolve().parents:
            raise OptionError(
                f"--{option} must be a file outside the output folder. Choose another name.",
                code="option.invalid",
                option=option,
            )


def _check_sources(run: Mapping[str, Any], engine_options: Mapping[str, Any]) -> None:
    in_memory = ("cells", "keep_order", "escape_formulas", "blocks", "suppress")
    check_engine(engine_options, [name for name in in_memory if run[name]])
    path = run["input"]
    if not engine_options and (
        isinstance(path, list)
        or path.is_dir()
        or (has_magic(str(path)) and not path.exists() and not is_url(path))
    ):
        raise OptionError(
            "A folder, a pattern or several files require --engine dask. Add it, or pass a "
            "single file.",
            code="option.conflict",
            option="input",
        )


def _reading_notes(release: Any) -> tuple[str, ...]:
    return release.original.origin.notes if release.original is not None else ()


def _settings(run: Mapping[str, Any], cells_kind: str | None) -> dict[str, Any]:
    """Return the keyword arguments of ``mc.anonymize``; omitted settings keep their defaults."""
    reserved = {*signature(mc.anonymize).parameters, *_ENGINE_SETTINGS} - {"options"}
    for name in run["options"]:
        if name in reserved:
            raise OptionError(
                f"{name!r} is not an option of a method. Use its own flag instead of --set.",
                code="option.unknown",
                option=name,
            )
    names = ("method", "seed", "order_key", "missing", "suppress", "dependence", "regression")
    settings: dict[str, Any] = {name: run[name] for name in names if run[name] is not None}
    if run["blocks"] is not None:
        settings["blocks"] = parse_blocks(str(run["blocks"]))
    if run["require"]:
        settings["require"] = run["require"]
    if run["cells"] is not None:
        settings["cells"] = cells_kind or "power"
    settings.update(run["options"])
    return settings


def _anonymize(job: _Job) -> Any:
    return mc.anonymize(mc.read(job.table, **job.read_options), job.schema, k=job.k, **job.settings)


def _examine(job: _Job, release: Any) -> "tuple[Finding, ...]":
    findings: tuple[Finding, ...] = release.examine(job.output, escape_formulas=job.escape_formulas)
    return findings


def _finding_entries(findings: "tuple[Finding, ...]") -> dict[str, Any]:
    return {"findings": [mc.report.finding_entry(item) for item in findings]}


def _publish(job: _Job, release: Any) -> Any:
    if job.output is None or job.dry_run:
        return release
    return release.publish(
        job.output,
        report=job.report,
        certificate=job.certificate,
        cells=job.cells,
        audience=job.audience,
        keep_order=job.keep_order,
        overwrite=job.force,
        escape_formulas=job.escape_formulas,
    )


def _run_on_engine(job: _Job, messages: Messages, strict: bool) -> Any:
    engine = {name: value for name, value in job.engine_options.items() if name != "engine"}
    with _dashboard_shown(messages):
        release = mc.dask.anonymize_dataset(
            job.table,
            job.schema,
            k=job.k,
            output=None if job.dry_run else job.output,
            read_options=job.read_options,
            replace=job.force,
            strict=strict,
            **engine,
            **job.settings,
        )
    if not job.dry_run:
        mc.api.write_reports(
            release.audit,
            report=job.report,
            certificate=job.certificate,
            manifest=release.manifest,
            title=f"Audit of {release.path.name}",
            require={"k": job.k},
            audience=job.audience,
        )
    return release


@contextmanager
def _dashboard_shown(messages: Messages) -> Iterator[None]:
    """Show the address of the Dask dashboard: in a terminal after each stage, otherwise once."""
    outer = copy_context()
    address = ""

    def hear(task: str, done: int, total: int) -> None:
        nonlocal address
        if not task.startswith("dashboard at "):
            outer.run(report_progress, f"{task}{address}", done, total)
        elif sys.stderr.isatty():
            address = f", {task}"
        else:
            messages.info(task)

    with mc.listen(hear):
        yield


def _summarize(job: _Job, manifest: "Manifest") -> Iterator[tuple[str, str]]:
    cells = manifest.cells
    yield "cells", f"{cells.count:,} of {number_range(cells.smallest, cells.largest)} records"
    if manifest.person is not None:
        yield "persons", _persons(manifest.person)
    if manifest.rows_are_people:
        yield "people", "every row is about a different person, as declared (rows_are_people)"
    if manifest.requirements is not None:
        yield "limits", _limits_met(manifest.requirements)
    if manifest.dominance is not None and manifest.dominance.cells_capped:
        capped = count(manifest.dominance.cells_capped, "cell")
        yield "weights", f"capped in {capped} by the dominance rule"
    if manifest.blocks is not None:
        yield "blocks", _blocks_guarantee(manifest.blocks, manifest.k)
    if manifest.dependence is not None:
        part = manifest.dependence
        losses = f"D_X {part.quasi_identifier_loss:.4f}, D_Y {part.dependence_loss:.4f}"
        yield "dependence", f"lambda {part.weight:g}: {losses}, weighted {part.weighted_loss:.4f}"
    if manifest.method is not None:
        yield "method", f"{manifest.method.used}, {manifest.method.reason}"
    yield from _losses(manifest)
    for label, names in _columns_by_treatment(manifest.columns).items():
        yield label, ", ".join(names)
    records = manifest.records
    if records.dropped:
        yield (
            "dropped",
            f"{records.dropped:,} of {count(records.read, 'record')}, for missing values",
        )
    if manifest.suppression is not None:
        yield "suppressed", _suppressed(manifest.suppression, records.read)
    if job.dry_run:
        yield "written", "nothing (dry run)"
        return
    yield "rows", manifest.row_order
    for label, path in job.outputs.items():
        yield label, str(path)


def _suppressed(section: "SuppressionSection", n_read: int) -> str:
    text = f"{section.records:,} of {count(n_read, 'record')}"
    if not section.records:
        return text
    most = "no other choice saves more" if section.exact else "measured before the final search"
    return f"{text}, which saves {percent(section.saved)} of the loss within cells ({most})"


def _persons(section: "PersonSection") -> str:
    cells = {"rows": "in any cells", "together": "in one cell"}[section.cells]
    return (
        f"{section.count:,}, identified by {', '.join(section.columns)}; at most "
        f"{count(section.most_rows, 'row')} per person, {cells}"
    )


def _losses(manifest: "Manifest") -> Iterator[tuple[str, str]]:
    if manifest.information_loss is not None:
        yield "information loss", percent(manifest.information_loss)
    if manifest.bound is not None and manifest.cells.sse_ratio is not None:
        yield "optimum", _distance_to_optimum(manifest.cells.sse_ratio, manifest.bound)


def _distance_to_optimum(sse_ratio: float, bound: "BoundSection") -> str:
    cells = f"these cells lose {percent(sse_ratio)} of the encoded columns' variance"
    if bound.gap == 0:
        return f"reached: {cells}, and no partition of these records loses less"
    return f"no partition of these records loses less than {percent(bound.sse_ratio)}; {cells}"


def _limits_met(section: "RequirementsSection") -> str:
    before = count(section.cells_before, "cell")
    if section.rounds == 0 and section.cells_after == section.cells_before:
        return f"met with {before}: {section.way}"
    return f"met with {count(section.cells_after, 'cell')} instead of {before}: {section.way}"


def _blocks_guarantee(blocks: "BlocksSection", k: int) -> str:
    text = f"{blocks.k}-anonymous in each of {len(blocks.columns)} blocks of columns"
    if blocks.jointly_k_anonymous:
        return text
    return f"{text}; NOT {blocks.k}-anonymous over all columns combined: k is {k}"


def _columns_by_treatment(columns: "Mapping[str, ColumnSection]") -> dict[str, list[str]]:
    """List the columns that are removed, masked or unchanged, so that a wrong role is noticed."""
    groups: dict[str, list[str]] = {}
    for name, column in columns.items():
        if column.role != "quasi":
            removed = column.role in ("identifier", "person", "drop")
            masks = (column.round, column.top, column.bottom, column.noise, column.swap)
            masked = any(mask is not None for mask in masks)
            treatment = "removed" if removed else "masked" if masked else "unchanged"
            groups.setdefault(treatment, []).append(name)
    return groups


@handle_errors
@with_read_options
def assign(
    *,
    read_options: Mapping[str, Any],
    cells: Annotated[
        Path,
        typer.Argument(
            metavar="CELLS", help="Cells file written by anonymize --cells.", show_default=False
        ),
    ],
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="Records to assign.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Output file; the suffix sets the format."
        ),
    ],
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="Further columns to keep; all others are removed.",
            show_default=False,
        ),
    ] = None,
    missing: Annotated[
        Literal["error", "impute"],
        typer.Option(help="How to handle records with a missing quasi-identifier."),
    ] = "error",
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Assign further records to the cells of an earlier release."""
    messages = Messages(quiet)
    mc.api.check_outputs(output, sources=(cells, table), overwrite=force)
    names = [] if keep is None else split_names(keep)
    with messages.progress():
        function = mc.load_cells(cells)
        result = mc.assign(function, mc.read(table, **read_options), keep=names, missing=missing)
        mc.write(result.assigned, output)
    if json:
        print_data(jsons.dumps(_assignment_facts(function, result), indent=2))
    messages.info(
        f"Assigned {len(result.labels):,} records to {result.used:,} of {len(function):,} cells; "
        f"the smallest of these received {result.smallest:,}. This table is not k-anonymous by "
        "itself, only together with the release of its cells."
    )
    messages.facts(_assignment_notes(result, output))


def _assignment_facts(cells: "Cells", result: "Assigned") -> dict[str, Any]:
    return {
        "records": len(result.labels),
        "cells": len(cells),
        "cells_used": result.used,
        "smallest": result.smallest,
        "unknown_categories": dict(result.unknown),
        "designed": result.attained.designed.tolist(),
        "shares": result.attained.shares.tolist(),
        "low": result.attained.low.tolist(),
        "high": result.attained.high.tolist(),
    }


def _assignment_notes(result: "Assigned", output: Path) -> Iterator[tuple[str, str]]:
    for name, number in result.unknown.items():
        yield "unknown", f"{count(number, 'value')} of {name!r}: assigned to the closest cell"
    attained = result.attained
    yield (
        "shares",
        f"{attained.shares.min():.1%} to {attained.shares.max():.1%} of these records per cell; in "
        f"{attained.outside:,} of {len(attained.shares):,} cells significantly different from the "
        "release (95 %)",
    )
    yield "table", str(output)
