"""``microcell increment``: a table that comes in parts, kept in a folder until its one release."""

import json as jsons
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import microcell as mc
from microcell.cli._console import Words, print_data, print_facts, print_table
from microcell.cli._failures import guarded
from microcell.cli._options import (
    Audience,
    Effort,
    Json,
    Quiet,
    SchemaFile,
    epilog,
    parse_effort,
    parse_settings,
    takes_reading,
)
from microcell.cli._sweeps import Missing, Seed
from microcell.cli.planning import EXAMPLES as PLAN
from microcell.cli.planning import plan
from microcell.errors import OptionError, TableError

if TYPE_CHECKING:
    from microcell import Release
    from microcell.sessions import Batch, Status

__all__ = ["EXAMPLES", "increment"]

EXAMPLES = (
    "microcell increment plan --collection 10h --whole 2h --deadline 1h",
    "microcell increment start morning.csv -s schema.toml -k 10 --state votes",
    "microcell increment add votes afternoon.csv",
    "microcell increment status votes",
    "microcell increment finish votes -o votes_k10.csv --report votes_k10.html",
)

_Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder that increment start made.", show_default=False)
]
Strategy = Annotated[
    Literal["refined", "separate", "nearest", "split-late", "split-early"],
    typer.Option(help="How the records join the cells that are there."),
]


@guarded
@takes_reading
def start(
    *,
    reading: Mapping[str, Any],
    base: Annotated[Path, typer.Argument(metavar="BASE", help="The records that are in.", show_default=False)],
    schema: SchemaFile,
    k: Annotated[int, typer.Option("-k", help="The least number of records in a cell.")],
    state: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder to make. It will hold original data.", show_default=False)
    ],
    method: Annotated[str, typer.Option(metavar="NAME", help="How to make cells; see microcell methods.")] = "auto",
    effort: Effort = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the method; repeatable.")
    ] = None,
    seed: Seed = 0,
    missing: Missing = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Begin with the records that are in: make their cells, and a folder that waits for further ones."""
    words = Words(quiet)
    options = {**parse_settings(settings or ()), **parse_effort(effort)}
    _check_options(options)
    with words.progress():
        table, roles = mc.read(base, **reading), mc.load_schema(schema)
        making = {"method": method, "seed": seed, "missing": missing, **options}
        stored = mc.StoredSession.create(state, table, roles, k, **making)
    _tell(stored.status(), words, json=json)
    words.say(f"{state} holds original data. Keep it as you keep the table itself, and remove it after the release.")


@guarded
@takes_reading
def add(
    *,
    reading: Mapping[str, Any],
    folder: _Folder,
    batch: Annotated[Path, typer.Argument(metavar="BATCH", help="Further records.", show_default=False)],
    strategy: Strategy = "refined",
    inertial: Annotated[
        bool, typer.Option("--inertial", help="Join the cell whose sum of squares rises least, centroids moving.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Add the batch though its very records are in the state already.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add a batch of further records to the cells."""
    words = Words(quiet)
    with words.progress():
        stored = mc.StoredSession(folder)
        added = stored.add(mc.read(batch, **reading), strategy=strategy, inertial=inertial, again=again)
    _tell(stored.status(), words, json=json)
    if added.strange:
        words.list(_remarks(added))


@guarded
def status(folder: _Folder, json: Json = False, quiet: Quiet = False) -> None:
    """Tell what the folder has come to."""
    found = mc.StoredSession(folder).status()
    if json:
        print_data(jsons.dumps(_as_data(found), indent=2))
        return
    print_facts(_facts(found))
    print_table(("part", "records", "kept", "strategy", "seconds"), _rows(found.batches))
    Words(quiet).say(f"{folder} holds original data.")


@guarded
def finish(
    folder: _Folder,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write; the suffix tells the format.")
    ],
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write a page with the guarantee and figures.", show_default=False),
    ] = None,
    audience: Audience = "internal",
    keep_order: Annotated[bool, typer.Option("--keep-order/--shuffle", help="The order of rows in the file.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make the one release of all records. Nothing can be added after it; asked again, it gives the same."""
    words = Words(quiet)
    stored = mc.StoredSession(folder)
    mc.check_outputs(output, beside=[] if report is None else [report], sources=stored.sources())
    _check_outside(folder, output, report)
    with words.progress():
        release = stored.finish(suffix=output.suffix)
        original = stored.records()
        found = mc.audit(original, release.published, release.schema, brief=report is None)
        manifest = release.manifest.as_dict() | {"row_order": "kept" if keep_order else "shuffled"}
        beside = {}
        if report is not None:
            beside[report] = mc.render(
                found,
                "html",
                manifest=manifest,
                title=f"Audit of {output.name}",
                picture=mc.draw_release(original, release),
                require={"k": release.partition.k},
                audience=audience,
            )
        release = mc.publish(release, output, keep_order=keep_order, beside=beside)
    if json:
        print_data(jsons.dumps(release.manifest.as_dict(), indent=2, ensure_ascii=False))
    words.say(mc.guarantee(found))
    words.list(_summarize(release, output, report))
    words.say(f"{folder} still holds original data. Remove it when you have checked the release.")


_COMMANDS: Mapping[Callable[..., None], Sequence[str]] = {
    plan: PLAN,
    start: (EXAMPLES[1],),
    add: (EXAMPLES[2], "microcell increment add votes evening.csv --strategy split-late"),
    status: (EXAMPLES[3], "microcell increment status votes --json"),
    finish: (EXAMPLES[4],),
}

increment = typer.Typer(
    name="increment",
    help="Begin before all the data are in: a plan, a base, batches, and one release.",
    epilog=epilog(EXAMPLES),
    no_args_is_help=True,
)
for _command, _examples in _COMMANDS.items():
    increment.command(epilog=epilog(_examples))(_command)


# ---------------------------------------------------------------------------------------------- what is told


def _tell(found: "Status", words: Words, *, json: bool) -> None:
    if json:
        print_data(jsons.dumps(_as_data(found), indent=2))
    words.list(_facts(found))


def _facts(found: "Status") -> Iterator[tuple[str, str]]:
    yield "records", f"{found.records:,} in {len(found.batches):,} {'part' if len(found.batches) == 1 else 'parts'}"
    if found.kept < found.records:
        yield "left out", f"{found.records - found.kept:,} records, which lack a quasi-identifier"
    yield "cells", f"{found.cells:,} of k = {found.k} or more"
    if found.waiting:
        yield "waiting", f"{found.waiting:,} records, of strata that have not yet k"
    yield "finished", found.finished or "no"


def _rows(batches: "Sequence[Batch]") -> Iterator[tuple[str, ...]]:
    for number, batch in enumerate(batches):
        how = "" if batch.strategy is None else batch.strategy + (", inertial" if batch.inertial else "")
        name = str(number) if number else "base"
        yield name, f"{batch.records:,}", f"{batch.kept:,}", how, f"{batch.seconds:.3f}"


def _as_data(found: "Status") -> dict[str, Any]:
    """The status as plain data; no digest, which only the folder needs."""
    batches = [{name: value for name, value in asdict(batch).items() if name != "digest"} for batch in found.batches]
    return {**asdict(found), "batches": batches}


def _remarks(added: "Batch") -> Iterator[tuple[str, str]]:
    for name, count in added.strange.items():
        yield "not known", f"{count:,} values of {name!r}, which the base has not: placed as near as can be told"


def _summarize(release: "Release", output: Path, report: Path | None) -> Iterator[tuple[str, str]]:
    manifest = release.manifest
    cells, records = manifest.cells, manifest.records
    sizes = dict.fromkeys((cells["smallest"], cells["largest"]))
    yield "cells", f"{cells['count']:,} of {' to '.join(f'{size:,}' for size in sizes)} records"
    yield "batches", f"{len(manifest.method.get('batches', ())):,} after the base"
    yield "method", f"{manifest.method['used']}, {manifest.method['why']}"
    yield "distortion", f"{manifest.distortion:.4f}"
    if records["dropped"]:
        yield "dropped", f"{records['dropped']:,} of {records['in']:,} records, which lack a quasi-identifier"
    yield "rows", manifest.row_order
    yield "table", str(output)
    yield "manifest", str(mc.manifest_path(output))
    if report is not None:
        yield "report", str(report)


# ---------------------------------------------------------------------------------------------- what is refused


def _check_options(options: Mapping[str, Any]) -> None:
    for name in ("cls", "folder", "base", "schema", "k", "method", "seed", "missing"):
        if name in options:
            raise OptionError(f"{name!r} is not an option of a method. Give it by its own flag, and not by --set.")


def _check_outside(folder: Path, *outputs: Path | None) -> None:
    for path in outputs:
        if path is not None and folder.resolve() in path.resolve().parents:
            raise TableError(f"{path} is in the folder of the state, which holds original data. Choose another place.")
