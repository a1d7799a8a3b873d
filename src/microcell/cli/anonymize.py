"""``microcell assign``: further records to the cells of an earlier release."""

import json as jsons
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from glob import has_magic
from inspect import Parameter, signature
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import microcell as mc
from microcell._atomic import Staging, check_target
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
    with_engine_options,
    with_read_options,
)
from microcell.errors import OptionError
from microcell.progress import report as report_progress

if TYPE_CHECKING:
    from microcell import Audit, Schema
from typing import TYPE_CHECKING

from microcell.cli.options import split_names

if TYPE_CHECKING:
    from microcell import Cells
    from microcell.api import Assigned

__all__ = ["ANONYMIZE_EXAMPLES", "ASSIGN_EXAMPLES", "anonymize", "assign"]

ANONYMIZE_EXAMPLES = (
    "microcell anonymize people.csv -s schema.toml -k 5 -o people_k5.csv --report people_k5.html",
    "microcell anonymize people.csv -s schema.toml -k 3 --method vmdav --set gamma=0.2 -o people_k3.parquet",
    "microcell anonymize people.csv -s schema.toml -k 10 --effort 5 -o people_k10.csv",
    "microcell anonymize people.csv -s schema.toml -k 5 -o people_k5.csv --cells cells.json",
    "microcell anonymize people.csv -s schema.toml -k 5 -o k5.csv --require l_diversity=3 --require 't_closeness<=.3'",
    "microcell anonymize people.csv -s schema.toml -k 5 -o people_k5.csv --dependence 0.1",
    "microcell anonymize people.csv -s schema.toml -k 10 --dry-run",
    "microcell anonymize 'in/*.parquet' -s schema.toml -k 10 -o out/ --engine dask --workers 4 --memory 4GB",
)


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
            help="The file to anonymize; several with --engine.",
            show_default=False,
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema",
            "-s",
            metavar="FILE.toml",
            help="The role and kind of each column.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", help="The least number of records in a cell.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to write; the suffix tells the format."
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write a page with the guarantee and figures."),
    ] = None,
    audience: Audience = "internal",
    cells: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help="Write the cells as a function, for microcell assign.",
            show_default=False,
        ),
    ] = None,
    cells_kind: Annotated[
        Literal["power", "balls"] | None,
        typer.Option(
            help="What --cells writes: a power diagram (the default), or the balls of MDAV."
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="How to make cells; see microcell methods. Default: auto."
        ),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEASURE=LIMIT",
            help="A limit that the release is to meet, such as l_diversity=3 or t_closeness<=0.3 (of one column: "
            "t_closeness.COLUMN); repeatable. Cells that break it are merged; what merging cannot mend is checked.",
        ),
    ] = None,
    dependence: Annotated[
        float | None,
        typer.Option(
            metavar="LAMBDA",
            help="How much to preserve of what confidential columns have to do with the others, from 0 to 1; see "
            "microcell dependence. Default: 0.",
            show_default=False,
        ),
    ] = None,
    blocks: Blocks = None,
    effort: Effort = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An option of the method; repeatable."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For what chance decides. Default: 0.")] = None,
    missing: Annotated[
        Literal["error", "drop", "impute"] | None,
        typer.Option(help="What to do with records that lack a quasi-identifier. Default: error."),
    ] = None,
    keep_order: Annotated[
        bool | None,
        typer.Option("--keep-order/--shuffle", help="The order of rows. Default: --shuffle."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="RUN.toml", help="A file that holds a whole run; flags override it."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Do all of it, but write nothing.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a k-anonymous table: every record shares its quasi-identifiers with k-1 others or more."""
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
        job = _plan(config, flags, cells_kind, audience, engine_options, dry_run=dry_run)
        done = (
            _carry_out_on_engine(job, messages, dry_run=dry_run)
            if engine_options
            else _carry_out(job, dry_run=dry_run)
        )
    if json:
        print_data(jsons.dumps(done.release.manifest.as_dict(), indent=2, ensure_ascii=False))
    messages.info(done.sentence)
    messages.facts(_summarize(job, done.release, dry_run=dry_run))


@dataclass(frozen=True)
class _Job:
    """A run with all that it needs."""

    table: Any
    schema: "Schema"
    k: int
    output: Path | None
    report: Path | None
    cells: Path | None
    keep_order: bool
    making: Mapping[str, Any]
    read_options: Mapping[str, Any]
    audience: str
    engine_options: Mapping[str, Any]

    @property
    def outputs(self) -> dict[str, Path]:
        """The files that the run writes, by what they are; on an engine a folder, and a file in it."""
        if self.output is None:
            return self.beside
        if self.engine_options:
            return {
                "folder": self.output,
                "manifest": self.output / "_manifest.json",
                **self.beside,
            }
        return {
            "table": self.output,
            "manifest": mc.release.manifest_path(self.output),
            **self.beside,
        }

    @property
    def beside(self) -> dict[str, Path]:
        """The further files, by what they are."""
        return {
            name: path
            for name, path in (("report", self.report), ("cells", self.cells))
            if path is not None
        }


@dataclass(frozen=True, eq=False)
class _Done:
    """What a run made, and the guarantee in a sentence."""

    release: Any
    sentence: str


def _plan(
    config: Path | None,
    flags: Mapping[str, Any],
    cells_kind: str | None,
    audience: str,
    engine_options: Mapping[str, Any],
    *,
    dry_run: bool,
) -> _Job:
    """The run that the configuration and the flags describe, refused if a part is missing or could not be written."""
    base = vars(mc.schema.Run() if config is None else mc.load_run(config))
    if flags["method"] not in (None, base["method"]):
        base = base | {"options": {}}  # they are for the method of the file
    merged = {name: {**base[name], **flags[name]} for name in ("options", "require", "read")}
    run = base | {name: value for name, value in flags.items() if value is not None} | merged
    _check_given(run, dry_run=dry_run)
    if cells_kind is not None and run["cells"] is None:
        raise OptionError("--cells-kind is for --cells: give the file to write the cells to.")
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
        making=_making(run) | ({} if run["cells"] is None else {"cells": cells_kind or "power"}),
        read_options=run["read"],
        audience=audience,
        engine_options=engine_options,
    )
    sources = [path for path in (job.table, schema, config) if isinstance(path, Path)]
    if engine_options and job.report is not None:
        check_target(job.report, sources=sources)
        inside = job.output is not None and job.output.resolve() in job.report.resolve().parents
        if inside or job.report.suffix.lower() in (
            ".parquet",
            ".csv",
            ".tsv",
            ".txt",
        ):  # it may be one of the source
            raise OptionError(
                "--report is a page (.html) outside the folder of the release. Choose another name."
            )
    elif job.output is not None and not engine_options:
        mc.api.check_outputs(job.output, beside=job.beside.values(), sources=sources)
    return job


def _check_engine(run: Mapping[str, Any], engine_options: Mapping[str, Any]) -> None:
    """Refuse what goes only with an engine, or not with one."""
    if engine_options and "engine" not in engine_options:
        raise OptionError(
            f"--{next(iter(engine_options))} is for data sets of many files. Add --engine dask, or leave it out."
        )
    for name in ("cells", "keep_order", "blocks", "require") if engine_options else ():
        if run[name]:
            raise OptionError(
                f"--{name.replace('_', '-')} cannot be had with --engine {engine_options['engine']}. Leave it out."
            )
    path = run["input"]
    if not engine_options and (
        isinstance(path, list) or path.is_dir() or (has_magic(str(path)) and not path.exists())
    ):
        raise OptionError(
            "A folder, a pattern or several files are a data set. Give one file, or add --engine dask."
        )


def _check_given(run: Mapping[str, Any], *, dry_run: bool) -> None:
    for name, hint in _NEEDED.items():
        if run[name] is None and not (dry_run and name == "output"):
            raise OptionError(f"{hint}, or {name} in the file of --config.")


def _making(run: Mapping[str, Any]) -> dict[str, Any]:
    """How to make cells, as the library's ``anonymize`` takes it; what was not given is left to its defaults."""
    both = chain.from_iterable(
        signature(made).parameters.values() for made in (mc.anonymize, mc.dask.anonymize_dataset)
    )
    own = {item.name for item in both if item.kind is not Parameter.VAR_KEYWORD}
    for name in run["options"]:
        if name in own:
            raise OptionError(
                f"{name!r} is not an option of a method. Give it by its own flag, and not by --set."
            )
    named = {
        name: run[name]
        for name in ("method", "seed", "missing", "dependence")
        if run[name] is not None
    }
    named |= {} if run["blocks"] is None else {"blocks": parse_blocks(str(run["blocks"]))}
    return {**named, **({"require": run["require"]} if run["require"] else {}), **run["options"]}


def _carry_out_on_engine(job: _Job, messages: Messages, *, dry_run: bool) -> _Done:
    given = {
        name: value
        for name, value in {**job.engine_options, **job.making}.items()
        if name not in ("engine", "force")
    }
    with _dashboard_shown(messages):
        release = mc.dask.anonymize_dataset(
            job.table,
            job.schema,
            k=job.k,
            output=None if dry_run else job.output,
            reading=job.read_options,
            replace="force" in job.engine_options,
            **given,
        )
    if job.report is not None and not dry_run:
        with Staging() as staging:
            staging.path(job.report).write_text(
                _page(job, release, release.audit), encoding="utf-8"
            )
    return _Done(release, mc.report.guarantee(release.audit))


@contextmanager
def _dashboard_shown(messages: Messages) -> Iterator[None]:
    """Let the address of the dashboard be seen as long as the work runs: beside each stage, or on a line of its own."""
    outside, address = copy_context(), ""

    def hear(task: str, done: int, total: int) -> None:
        nonlocal address
        if not task.startswith("dashboard at "):
            outside.run(report_progress, f"{task}{address}", done, total)
        elif sys.stderr.isatty():
            address = f", {task}"
        else:
            messages.info(task)

    with mc.listen(hear):
        yield


def _carry_out(job: _Job, *, dry_run: bool) -> _Done:
    original = mc.read(job.table, **job.read_options)
    release = mc.anonymize(original, job.schema, k=job.k, **job.making)
    found = mc.audit(original, release.published, job.schema, brief=job.report is None)
    if job.output is not None and not dry_run:
        picture = None if job.report is None else mc.plot.release(original, release)
        beside = {} if job.report is None else {job.report: _page(job, release, found, picture)}
        if job.cells is not None:
            beside[job.cells] = release.cells.to_json()
        release = mc.publish(release, job.output, keep_order=job.keep_order, beside=beside)
    return _Done(release, mc.report.guarantee(found))


def _page(job: _Job, release: Any, found: "Audit", picture: bytes | None = None) -> str:
    """The report, told with the order that rows will have in the file."""
    manifest = release.manifest.as_dict() | {"row_order": "kept" if job.keep_order else "shuffled"}
    name = job.table.name if job.output is None else job.output.name
    return mc.render(
        found,
        "html",
        manifest=manifest,
        title=f"Audit of {name}",
        picture=picture,
        require={"k": job.k, **job.making.get("require", {})},
        audience=job.audience,
    )


def _summarize(job: _Job, release: Any, *, dry_run: bool) -> Iterator[tuple[str, str]]:
    manifest = release.manifest
    cells, records, method = manifest.cells, manifest.records, manifest.method
    sizes = dict.fromkeys((cells["smallest"], cells["largest"]))
    several = "s" * (cells["largest"] != 1)
    yield (
        "cells",
        f"{cells['count']:,} of {' to '.join(f'{size:,}' for size in sizes)} record{several}",
    )
    if "merged" in cells:
        yield "merged", _tell_merging(cells)
    if manifest.blocks is not None:
        yield "blocks", _tell_blocks(manifest.blocks, manifest.k)
    if manifest.dependence is not None:
        yield "dependence", _tell_dependence(manifest.dependence)
    yield "method", f"{method['used']}, {method['why']}"
    yield "distortion", f"{manifest.distortion:.4f}"
    for role, names in _by_role(manifest.columns).items():
        yield role, ", ".join(names)
    if records["dropped"]:
        yield (
            "dropped",
            f"{records['dropped']:,} of {records['in']:,} records, which lack a quasi-identifier",
        )
    if dry_run:
        yield "written", "nothing: a dry run"
        return
    yield "rows", manifest.row_order
    for heading, path in job.outputs.items():
        yield heading, str(path)


def _tell_merging(cells: Mapping[str, Any]) -> str:
    """How many cells were merged to meet the requirements, and what it cost."""
    merged = cells["merged"]
    if not merged["merged_cells"]:
        return f"no cell: all {merged['cells_before']:,} meet what is required"
    return (
        f"{merged['merged_cells']:,} of {merged['cells_before']:,} cells, to meet what is required; distortion of the "
        f"points {merged['distortion_before']:.4f} before, {cells['distortion']:.4f} after"
    )


def _tell_blocks(blocks: Mapping[str, Any], k: int) -> str:
    """What blocks promise, and what not."""
    promise = (
        f"{blocks['k']}-anonymous in each of {len(blocks['columns'])} blocks of columns on its own"
    )
    return (
        promise
        if blocks["jointly_k_anonymous"]
        else f"{promise}; NOT {blocks['k']}-anonymous as a whole: k is {k}"
    )


def _tell_dependence(told: Mapping[str, Any]) -> str:
    return (
        f"lambda = {told['lambda']:g}: D_X {told['distortion']:.4f}, D_Y {told['dependence_loss']:.4f}, weighted "
        f"{told['weighted']:.4f}"
    )


def _by_role(columns: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """The columns that are left out, and those that are published unchanged, for the eye to catch a wrong role."""
    out: dict[str, list[str]] = {}
    for name, facts in columns.items():
        if facts["role"] != "quasi":
            out.setdefault(
                "left out" if facts["role"] in ("identifier", "drop") else "unchanged", []
            ).append(name)
    return out


_NEEDED = {
    "input": "Give the table to anonymize as the first argument",
    "schema": "Give the schema with -s (microcell inspect drafts one)",
    "k": "Give the least number of records in a cell with -k",
    "output": "Give the file to write with -o (or --dry-run to write nothing)",
}
"""What a run cannot do without, and how to give it."""


ASSIGN_EXAMPLES = (
    "microcell assign cells.json newcomers.csv -o assigned.csv",
    "microcell assign cells.json newcomers.csv -o assigned.csv --keep tsh",
)


@handle_errors
@with_read_options
def assign(
    *,
    read_options: Mapping[str, Any],
    cells: Annotated[
        Path,
        typer.Argument(
            metavar="CELLS", help="A file that anonymize --cells wrote.", show_default=False
        ),
    ],
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="The records to assign.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to write; the suffix tells the format."
        ),
    ],
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="Columns to keep beside; others are left out.",
            show_default=False,
        ),
    ] = None,
    missing: Annotated[
        Literal["error", "impute"],
        typer.Option(help="What to do with records that lack a quasi-identifier."),
    ] = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Give further records the cells of an earlier release, and what these publish in place of their values."""
    messages = Messages(quiet)
    mc.api.check_outputs(output, sources=(cells, table))
    names = [] if keep is None else split_names(keep)
    with messages.progress():
        found = mc.load_cells(cells)
        done = mc.assign(found, mc.read(table, **read_options), keep=names, missing=missing)
        mc.write(done.assigned, output)
    if json:
        print_data(jsons.dumps(_facts(found, done), indent=2))
    messages.info(
        f"{len(done.labels):,} records are in {done.used:,} of {len(found):,} cells, the fewest "
        f"{done.smallest:,} in one. This table is not k-anonymous by itself, only beside the release of its cells."
    )
    messages.facts(_remarks(done, output))


def _facts(cells: "Cells", done: "Assigned") -> dict[str, Any]:
    return {
        "records": len(done.labels),
        "cells": len(cells),
        "cells_used": done.used,
        "fewest": done.smallest,
        "strange": dict(done.strange),
    }


def _remarks(done: "Assigned", output: Path) -> Iterator[tuple[str, str]]:
    for name, count in done.strange.items():
        yield "not known", f"{count:,} values of {name!r}: placed as near as can be told"
    yield "table", str(output)
