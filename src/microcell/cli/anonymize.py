"""``microcell anonymize`` and ``microcell assign``."""

import json as jsons
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from glob import has_magic
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import microcell as mc
from microcell._atomic import check_target
from microcell.cli.console import Messages, print_data
from microcell.cli.errors import handle_errors
from microcell.cli.options import (
    Audience,
    Blocks,
    Effort,
    Json,
    Quiet,
    parse_blocks,
    parse_effort,
    parse_limits,
    parse_settings,
    split_names,
    with_engine_options,
    with_read_options,
)
from microcell.errors import OptionError
from microcell.progress import report as report_progress

if TYPE_CHECKING:
    from microcell import Cells, Manifest, Schema
    from microcell.api import Assigned
    from microcell.model.manifest import BlocksSection, ColumnSection, RequirementsSection

__all__ = ["ANONYMIZE_EXAMPLES", "ASSIGN_EXAMPLES", "anonymize", "assign"]

ANONYMIZE_EXAMPLES = (
    "microcell anonymize people.csv -s schema.toml -k 5 -o people_k5.csv --report people_k5.html",
    "microcell anonymize people.csv -s schema.toml -k 3 --method vmdav --set gamma=0.2 "
    "-o people_k3.parquet",
    "microcell anonymize people.csv -s schema.toml -k 10 --effort 5 -o people_k10.csv",
    "microcell anonymize people.csv -s schema.toml -k 5 -o people_k5.csv --cells cells.json",
    "microcell anonymize people.csv -s schema.toml -k 5 -o k5.csv --require l_diversity=3 "
    "--require 't_closeness<=.3'",
    "microcell anonymize people.csv -s schema.toml -k 5 -o people_k5.csv --dependence 0.1",
    "microcell anonymize people.csv -s schema.toml -k 10 --dry-run",
    "microcell anonymize 'in/*.parquet' -s schema.toml -k 10 -o out/ --engine dask --workers 4 "
    "--memory 4GB",
)

ASSIGN_EXAMPLES = (
    "microcell assign cells.json newcomers.csv -o assigned.csv",
    "microcell assign cells.json newcomers.csv -o assigned.csv --keep tsh",
)

_REQUIRED = {
    "input": "Give the table to anonymize as the first argument",
    "schema": "Give the schema with -s (microcell inspect drafts one)",
    "k": "Give the minimum number of records in a cell with -k",
    "output": "Give the output file with -o (or --dry-run to write nothing)",
}
"""Settings that every run needs, and how to give them."""

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
        int | None, typer.Option("-k", help="Minimum number of records in a cell.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Output file; the suffix sets the format."
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write an HTML report with figures."),
    ] = None,
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
            "(one column: t_closeness.COLUMN); repeatable. Cells are merged to meet it; limits "
            "that merging cannot improve are checked.",
        ),
    ] = None,
    dependence: Annotated[
        float | None,
        typer.Option(
            metavar="LAMBDA",
            help="Weight of preserving the association between confidential columns and "
            "quasi-identifiers, 0 to 1; see microcell dependence. Default: 0.",
            show_default=False,
        ),
    ] = None,
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
    keep_order: Annotated[
        bool | None,
        typer.Option("--keep-order/--shuffle", help="Order of the rows. Default: --shuffle."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="RUN.toml", help="Run file with all settings; flags override it."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Do everything except write files.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a table k-anonymous: at least k records share each combination of quasi-identifiers."""
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
        "dependence": dependence,
        "blocks": blocks,
        "keep_order": keep_order,
        "options": {**parse_settings(settings or ()), **parse_effort(effort)},
        "require": parse_limits(require or ()),
        "read": read_options,
    }
    messages = Messages(quiet)
    with messages.progress():
        job = _make_job(config, flags, cells_kind, audience, engine_options, dry_run=dry_run)
        release = _run_on_engine(job, messages) if engine_options else _run(job)
    if json:
        print_data(release.manifest.to_json())
    messages.info(mc.report.guarantee(release.audit) if engine_options else release.guarantee)
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
    settings: Mapping[str, Any]
    read_options: Mapping[str, Any]
    audience: str
    engine_options: Mapping[str, Any]
    dry_run: bool

    @property
    def outputs(self) -> dict[str, Path]:
        """Files to write, by label; with an engine a folder and its manifest."""
        outputs: dict[str, Path | None] = {"report": self.report, "cells": self.cells}
        if self.output is not None and self.engine_options:
            outputs = {
                "folder": self.output,
                "manifest": self.output / "_manifest.json",
                **outputs,
            }
        elif self.output is not None:
            outputs = {
                "table": self.output,
                "manifest": mc.release.manifest_path(self.output),
                **outputs,
            }
        return {label: path for label, path in outputs.items() if path is not None}


def _make_job(
    config: Path | None,
    flags: Mapping[str, Any],
    cells_kind: str | None,
    audience: str,
    engine_options: Mapping[str, Any],
    *,
    dry_run: bool,
) -> _Job:
    """Combine the run file and the flags, and check everything that can be checked before work."""
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
    _check_engine(run, engine_options)
    schema = run["schema"]
    job = _Job(
        table=run["input"],
        schema=mc.load_schema(schema) if isinstance(schema, Path) else schema,
        k=run["k"],
        output=run["output"],
        report=run["report"],
        cells=run["cells"],
        keep_order=bool(run["keep_order"]),
        settings=_settings(run, cells_kind),
        read_options=run["read"],
        audience=audience,
        engine_options=engine_options,
        dry_run=dry_run,
    )
    _check_outputs(job, [path for path in (job.table, schema, config) if isinstance(path, Path)])
    return job


def _merge(config: Path | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    base = vars(mc.schema.Run() if config is None else mc.load_run(config))
    if flags["method"] not in (None, base["method"]):
        base = base | {"options": {}}  # the options in the file are for the method in the file
    merged = {name: {**base[name], **flags[name]} for name in ("options", "require", "read")}
    return base | {name: value for name, value in flags.items() if value is not None} | merged


def _check_outputs(job: _Job, sources: list[Path]) -> None:
    if job.output is not None and not job.engine_options:
        mc.api.check_outputs(job.output, companions=(job.report, job.cells), sources=sources)
    if not job.engine_options or job.report is None:
        return
    check_target(job.report, sources=sources)
    inside = job.output is not None and job.output.resolve() in job.report.resolve().parents
    if inside or job.report.suffix.lower() in (".parquet", ".csv", ".tsv", ".txt"):
        # Such a file could be part of the source.
        raise OptionError(
            "--report must be an .html file outside the output folder. Choose another name.",
            code="option.invalid",
            option="report",
        )


def _check_engine(run: Mapping[str, Any], engine_options: Mapping[str, Any]) -> None:
    if engine_options and "engine" not in engine_options:
        name = next(iter(engine_options))
        raise OptionError(
            f"--{name} applies only to data sets of many files. Add --engine dask or leave it out.",
            code="option.conflict",
            option=name,
        )
    for name in ("cells", "keep_order", "blocks", "require") if engine_options else ():
        if run[name]:
            flag = name.replace("_", "-")
            raise OptionError(
                f"--{flag} is not supported with --engine {engine_options['engine']}. "
                "Leave it out.",
                code="option.unsupported",
                option=name,
            )
    path = run["input"]
    if not engine_options and (
        isinstance(path, list) or path.is_dir() or (has_magic(str(path)) and not path.exists())
    ):
        raise OptionError(
            "A folder, a pattern or several files require --engine dask. Add it, or pass a "
            "single file.",
            code="option.conflict",
            option="input",
        )


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
    names = ("method", "seed", "missing", "dependence")
    settings: dict[str, Any] = {name: run[name] for name in names if run[name] is not None}
    if run["blocks"] is not None:
        settings["blocks"] = parse_blocks(str(run["blocks"]))
    if run["require"]:
        settings["require"] = run["require"]
    if run["cells"] is not None:
        settings["cells"] = cells_kind or "power"
    settings.update(run["options"])
    return settings


def _run(job: _Job) -> Any:
    release = mc.anonymize(
        mc.read(job.table, **job.read_options), job.schema, k=job.k, **job.settings
    )
    if job.output is None or job.dry_run:
        return release
    return release.publish(
        job.output,
        report=job.report,
        cells=job.cells,
        audience=job.audience,
        keep_order=job.keep_order,
    )


def _run_on_engine(job: _Job, messages: Messages) -> Any:
    engine = {
        name: value for name, value in job.engine_options.items() if name not in ("engine", "force")
    }
    with _dashboard_shown(messages):
        release = mc.dask.anonymize_dataset(
            job.table,
            job.schema,
            k=job.k,
            output=None if job.dry_run else job.output,
            read_options=job.read_options,
            replace="force" in job.engine_options,
            **engine,
            **job.settings,
        )
    if job.report is not None and not job.dry_run:
        mc.api.write_reports(
            release.audit,
            report=job.report,
            manifest=release.manifest,
            title=f"Audit of {release.path.name}",
            require={"k": job.k},
            audience=job.audience,
        )
    return release


@contextmanager
def _dashboard_shown(messages: Messages) -> Iterator[None]:
    """Show the address of the Dask dashboard: after each stage, or once without a terminal."""
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
    sizes = dict.fromkeys((cells.smallest, cells.largest))
    noun = "record" if cells.largest == 1 else "records"
    yield "cells", f"{cells.count:,} of {' to '.join(f'{size:,}' for size in sizes)} {noun}"
    if manifest.requirements is not None:
        yield "merged", _merging(manifest.requirements, cells.sse_ratio or 0.0)
    if manifest.blocks is not None:
        yield "blocks", _blocks_guarantee(manifest.blocks, manifest.k)
    if manifest.dependence is not None:
        part = manifest.dependence
        losses = f"D_X {part.quasi_identifier_loss:.4f}, D_Y {part.confidential_loss:.4f}"
        yield "dependence", f"lambda {part.weight:g}: {losses}, weighted {part.weighted_loss:.4f}"
    if manifest.method is not None:
        yield "method", f"{manifest.method.used}, {manifest.method.reason}"
    if manifest.information_loss is not None:
        yield "information loss", f"{100 * manifest.information_loss:.2f} %"
    for label, names in _columns_by_treatment(manifest.columns).items():
        yield label, ", ".join(names)
    records = manifest.records
    if records.dropped:
        yield (
            "dropped",
            f"{records.dropped:,} of {records.read:,} records, with a missing quasi-identifier",
        )
    if job.dry_run:
        yield "written", "nothing (dry run)"
        return
    yield "rows", manifest.row_order
    for label, path in job.outputs.items():
        yield label, str(path)


def _merging(section: "RequirementsSection", sse_ratio: float) -> str:
    if not section.cells_merged:
        return f"none: all {section.cells_before:,} cells meet the requirements"
    return (
        f"{section.cells_merged:,} of {section.cells_before:,} cells, to meet the requirements; "
        f"SSE/SST {section.sse_ratio_before:.4f} before, {sse_ratio:.4f} after"
    )


def _blocks_guarantee(blocks: "BlocksSection", k: int) -> str:
    text = f"{blocks.k}-anonymous in each of {len(blocks.columns)} blocks of columns"
    if blocks.jointly_k_anonymous:
        return text
    return f"{text}; NOT {blocks.k}-anonymous over all columns combined: k is {k}"


def _columns_by_treatment(columns: "Mapping[str, ColumnSection]") -> dict[str, list[str]]:
    """List the columns left out and published unchanged, so that a wrong role is noticed."""
    groups: dict[str, list[str]] = {}
    for name, column in columns.items():
        if column.role != "quasi":
            removed = column.role in ("identifier", "drop")
            groups.setdefault("left out" if removed else "unchanged", []).append(name)
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
            help="Further columns to keep; all others are left out.",
            show_default=False,
        ),
    ] = None,
    missing: Annotated[
        Literal["error", "impute"],
        typer.Option(help="How to handle records with a missing quasi-identifier."),
    ] = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Assign further records to the cells of an earlier release."""
    messages = Messages(quiet)
    mc.api.check_outputs(output, sources=(cells, table))
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
    }


def _assignment_notes(result: "Assigned", output: Path) -> Iterator[tuple[str, str]]:
    for name, number in result.unknown.items():
        yield "unknown", f"{number:,} values of {name!r}: placed as close as possible"
    yield "table", str(output)
