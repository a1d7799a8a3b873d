"""``microcell increment``: a table that comes in parts, kept in a folder until its one release."""

import json as jsons
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import microcell as mc
from microcell._atomic import Staging
from microcell.cli.console import Messages, print_data, print_facts, print_table
from microcell.cli.errors import handle_errors
from microcell.cli.options import (
    Effort,
    Json,
    Missing,
    Quiet,
    Seed,
    check_figure,
    figure_format,
    parse_effort,
    parse_settings,
    with_read_options,
)
from microcell.errors import OptionError, TableError

if TYPE_CHECKING:
    from microcell.increments import Plan, Schedule
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from microcell.cli.options import Audience, SchemaFile, epilog

if TYPE_CHECKING:
    from microcell import Release
    from microcell.increments import Batch, Status

__all__ = ["INCREMENT_EXAMPLES", "PLAN_EXAMPLES", "increment", "parse_time", "plan"]

PLAN_EXAMPLES = (
    "microcell increment plan --collection 10h --whole 2h --strategy separate",
    "microcell increment plan --collection 10h --whole 2h --deadline 1h --figure timeline.svg",
    "microcell increment plan last_year.csv -s schema.toml -k 10 --records 500000 --collection 10h",
)

_CURVES = ("uniform", "early", "late")
_SECONDS = {"d": 86_400.0, "h": 3600.0, "min": 60.0, "m": 60.0, "s": 1.0, "": 1.0}
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(d|h|min|m|s|)(?![a-z])", re.IGNORECASE)
_ANY_NUMBER = 1_000_000
"""Records, where the time of the whole job is given: what a plan says then depends on shares alone."""


def parse_time(text: str | None, flag: str) -> float | None:
    """The seconds of a time such as 90s, 30min, 2h or 1h 30min; a number alone is seconds.

    Examples
    --------
    >>> parse_time("1h 30min", "--whole"), parse_time("90", "--whole"), parse_time(None, "--whole")
    (5400.0, 90.0, None)
    """
    if text is None:
        return None
    found = list(_TIME.finditer(text))
    whole = "".join(match.group() for match in found)
    if (
        not found
        or whole.strip() != text.strip()
        or (len(found) > 1 and any(not match[2] for match in found))
    ):
        raise OptionError(f"{flag} takes a time such as 90s, 30min, 2h or 1h30min, not {text!r}.")
    return sum(float(match[1]) * _SECONDS[match[2].lower()] for match in found)


@handle_errors
@with_read_options
def plan(
    *,
    read_options: Mapping[str, Any],
    table: Annotated[
        Path | None,
        typer.Argument(
            metavar="[TABLE]",
            help="A table like the one to come, to measure on.",
            show_default=False,
        ),
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="From the first record to the last: 90s, 30min, 10h.",
            show_default=False,
        ),
    ] = None,
    whole: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="What all records at once take; instead of measuring on TABLE.",
            show_default=False,
        ),
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(
            help="The power of the records with which --whole grows. Default: 2.",
            show_default=False,
        ),
    ] = None,
    arrivals: Annotated[
        str,
        typer.Option(
            metavar="uniform|early|late|FILE",
            help="How records arrive; a file of times has one column.",
        ),
    ] = "uniform",
    deadline: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="To be finished so long after the end.", show_default=False
        ),
    ] = None,
    strategy: Annotated[
        Literal["refined", "separate", "nearest", "split-late", "split-early"],
        typer.Option(help="How the rest will be added."),
    ] = "refined",
    inertial: Annotated[
        bool, typer.Option("--inertial", help="As increment add has it; with TABLE.")
    ] = False,
    least_gain: Annotated[
        str, typer.Option(metavar="TIME", help="What an early start must gain.")
    ] = "1min",
    records: Annotated[
        int | None,
        typer.Option(help="How many records there will be. Default: as many as TABLE has."),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema", "-s", metavar="FILE.toml", help="Of TABLE: the role of each column."
        ),
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", help="The least number of records in a cell.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="How cells are made of TABLE. Default: mdav.")
    ] = None,
    effort: Effort = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An option of the method; repeatable."),
    ] = None,
    seconds: Annotated[
        str, typer.Option(metavar="TIME", help="How long to measure on TABLE.")
    ] = "5s",
    seed: Seed = 0,
    missing: Missing = "error",
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw a timeline: .svg, .png or .pdf.", show_default=False
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Plan when to begin, so that all is finished soon after the last record: now, early, or not before the end."""
    messages = Messages(quiet)
    if figure is not None:
        check_figure(figure, sources=[path for path in (table, schema) if path is not None])
    times = {
        "collection": collection,
        "whole": whole,
        "deadline": deadline,
        "least_gain": least_gain,
    }
    known: dict[str, Any] = {
        name: parse_time(text, f"--{name.replace('_', '-')}") for name, text in times.items()
    }
    options = {**parse_settings(settings or ()), **parse_effort(effort)}
    with messages.progress():
        source = None if table is None else mc.read(table, **read_options)
        usual = _ANY_NUMBER if source is None else source.rows
        found = mc.increments.plan(
            usual if records is None else records,
            arrivals=arrivals if arrivals in _CURVES else _read_times(Path(arrivals)),
            power=power,
            source=source,
            schema=schema,
            k=k,
            method=method,
            options=options or None,
            missing=missing,
            strategy=strategy,
            inertial=inertial,
            seconds=parse_time(seconds, "--seconds") or 0.0,
            seed=seed,
            **known,
        )
    if json:
        print_data(jsons.dumps(_plan_data(found), indent=2))
    else:
        print_facts(_plan_facts(found))
        print_table(_HEADINGS, map(_row, found.alternatives))
    if figure is not None:
        with Staging() as staging:
            staging.path(figure).write_bytes(
                mc.plot.plan(found, format=figure_format(figure, "--figure"))
            )
        messages.facts([("figure", str(figure))])


def _read_times(path: Path) -> Any:
    """The times of a file of one column: seconds since the collection began, or dates and times from the first on."""
    if not path.suffix:
        raise OptionError(
            f"--arrivals takes {', '.join(_CURVES)}, or a file of times, not {str(path)!r}."
        )
    table = mc.read(path)
    if len(table.names) != 1:
        raise TableError(
            f"{path} has {len(table.names)} columns. A file of arrivals has one, of times."
        )
    values = table.columns[table.names[0]]
    if values.missing.any() or not (values.is_number or values.storage == "datetime"):
        raise TableError(
            f"{path} must hold a time in every row: seconds since the collection began, or date and time."
        )
    if values.is_number:
        return values.reals()
    return (values.data - values.data.min()) / _PER_SECOND[str(values.unit)]


_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


# ---------------------------------------------------------------------------------------------- what is told

_HEADINGS = ("share added", "begin", "end", "after the data", "extra distortion")


def _plan_facts(found: "Plan") -> Iterator[tuple[str, str]]:
    yield "plan", found.advice
    if found.chosen.nu > 0:
        yield (
            "begin",
            f"{_clock(found.chosen.starts)} after the collection began, with {found.chosen.received:.1%} in",
        )
        yield "base ready", _clock(found.chosen.base_ends)
    yield (
        "finished",
        f"{_clock(found.chosen.ends)}, {_clock(found.chosen.after)} after the data end",
    )
    yield "all at the end", f"{_clock(found.whole)} after the data end"
    yield "known from", found.basis


def _row(schedule: "Schedule") -> tuple[str, ...]:
    extra = schedule.extra_distortion
    return (
        f"{schedule.nu:.1%}",
        _clock(schedule.starts),
        _clock(schedule.ends),
        _clock(schedule.after),
        "" if extra is None else f"{extra:+.1%}",
    )


def _clock(seconds: float) -> str:
    """The time in hours, minutes and seconds.

    Examples
    --------
    >>> _clock(5800.4), _clock(0.25)
    ('1:36:40', '0:00:00.2')
    """
    if seconds < 10:
        return f"0:00:{seconds:04.1f}".removesuffix(".0")
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _plan_data(found: "Plan") -> dict[str, Any]:
    """The plan as plain data, ready for JSON; times in seconds."""
    return {
        "records": found.records,
        "strategy": found.strategy,
        "collection": found.chosen.collection,
        "whole": found.whole,
        "sigma": found.sigma,
        "deadline": found.deadline,
        "meets_deadline": found.meets_deadline,
        "gain": found.gain,
        "error": found.error,
        "basis": found.basis,
        "advice": found.advice,
        "chosen": _facts_of(found.chosen),
        "soonest": _facts_of(found.soonest),
        "alternatives": [_facts_of(schedule) for schedule in found.alternatives],
    }


def _facts_of(schedule: "Schedule") -> dict[str, Any]:
    names = ("nu", "received", "starts", "base_ends", "adding", "ends", "after", "extra_distortion")
    return {name: getattr(schedule, name) for name in names}


INCREMENT_EXAMPLES = (
    "microcell increment plan --collection 10h --whole 2h --deadline 1h",
    "microcell increment start morning.csv -s schema.toml -k 10 --state votes",
    "microcell increment add votes afternoon.csv",
    "microcell increment status votes",
    "microcell increment finish votes -o votes_k10.csv --report votes_k10.html",
)

_Folder = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="The folder that increment start made.", show_default=False),
]
Strategy = Annotated[
    Literal["refined", "separate", "nearest", "split-late", "split-early"],
    typer.Option(help="How the records join the cells that are there."),
]


@handle_errors
@with_read_options
def start(
    *,
    read_options: Mapping[str, Any],
    base: Annotated[
        Path, typer.Argument(metavar="BASE", help="The records that are in.", show_default=False)
    ],
    schema: SchemaFile,
    k: Annotated[int, typer.Option("-k", help="The least number of records in a cell.")],
    state: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="The folder to make. It will hold original data.",
            show_default=False,
        ),
    ],
    method: Annotated[
        str, typer.Option(metavar="NAME", help="How to make cells; see microcell methods.")
    ] = "auto",
    effort: Effort = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An option of the method; repeatable."),
    ] = None,
    seed: Seed = 0,
    missing: Missing = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Begin with the records that are in: make their cells, and a folder that waits for further ones."""
    messages = Messages(quiet)
    options = {**parse_settings(settings or ()), **parse_effort(effort)}
    _check_options(options)
    with messages.progress():
        table, roles = mc.read(base, **read_options), mc.load_schema(schema)
        making = {"method": method, "seed": seed, "missing": missing, **options}
        stored = mc.increments.StoredSession.create(state, table, roles, k, **making)
    _tell(stored.status(), messages, json=json)
    messages.info(
        f"{state} holds original data. Keep it as you keep the table itself, and remove it after the release."
    )


@handle_errors
@with_read_options
def add(
    *,
    read_options: Mapping[str, Any],
    folder: _Folder,
    batch: Annotated[
        Path, typer.Argument(metavar="BATCH", help="Further records.", show_default=False)
    ],
    strategy: Strategy = "refined",
    inertial: Annotated[
        bool,
        typer.Option(
            "--inertial", help="Join the cell whose sum of squares rises least, centroids moving."
        ),
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Add the batch though its very records are in the state already."
        ),
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add a batch of further records to the cells."""
    messages = Messages(quiet)
    with messages.progress():
        stored = mc.increments.StoredSession(folder)
        added = stored.add(
            mc.read(batch, **read_options), strategy=strategy, inertial=inertial, again=again
        )
    _tell(stored.status(), messages, json=json)
    if added.strange:
        messages.facts(_remarks(added))


@handle_errors
def status(folder: _Folder, json: Json = False, quiet: Quiet = False) -> None:
    """Tell what the folder has come to."""
    found = mc.increments.StoredSession(folder).status()
    if json:
        print_data(jsons.dumps(_as_data(found), indent=2))
        return
    print_facts(_facts(found))
    print_table(("part", "records", "kept", "strategy", "seconds"), _rows(found.batches))
    Messages(quiet).info(f"{folder} holds original data.")


@handle_errors
def finish(
    folder: _Folder,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to write; the suffix tells the format."
        ),
    ],
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Write a page with the guarantee and figures.",
            show_default=False,
        ),
    ] = None,
    audience: Audience = "internal",
    keep_order: Annotated[
        bool, typer.Option("--keep-order/--shuffle", help="The order of rows in the file.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make the one release of all records. Nothing can be added after it; asked again, it gives the same."""
    messages = Messages(quiet)
    stored = mc.increments.StoredSession(folder)
    _check_outside(folder, output, report)
    with messages.progress():
        release = stored.publish(output, report=report, audience=audience, keep_order=keep_order)
    if json:
        print_data(release.manifest.to_json())
    messages.info(release.guarantee)
    messages.facts(_summarize(release, output, report))
    messages.info(
        f"{folder} still holds original data. Remove it when you have checked the release."
    )


_COMMANDS: Mapping[Callable[..., None], Sequence[str]] = {
    plan: PLAN_EXAMPLES,
    start: (INCREMENT_EXAMPLES[1],),
    add: (INCREMENT_EXAMPLES[2], "microcell increment add votes evening.csv --strategy split-late"),
    status: (INCREMENT_EXAMPLES[3], "microcell increment status votes --json"),
    finish: (INCREMENT_EXAMPLES[4],),
}

increment = typer.Typer(
    name="increment",
    help="Begin before all the data are in: a plan, a base, batches, and one release.",
    epilog=epilog(INCREMENT_EXAMPLES),
    no_args_is_help=True,
)
for _command, _examples in _COMMANDS.items():
    increment.command(epilog=epilog(_examples))(_command)


# ---------------------------------------------------------------------------------------------- what is told


def _tell(found: "Status", messages: Messages, *, json: bool) -> None:
    if json:
        print_data(jsons.dumps(_as_data(found), indent=2))
    messages.facts(_facts(found))


def _facts(found: "Status") -> Iterator[tuple[str, str]]:
    yield (
        "records",
        f"{found.records:,} in {len(found.batches):,} {'part' if len(found.batches) == 1 else 'parts'}",
    )
    if found.kept < found.records:
        yield "left out", f"{found.records - found.kept:,} records, which lack a quasi-identifier"
    yield "cells", f"{found.cells:,} of k = {found.k} or more"
    if found.waiting:
        yield "waiting", f"{found.waiting:,} records, of strata that have not yet k"
    yield "finished", found.finished or "no"


def _rows(batches: "Sequence[Batch]") -> Iterator[tuple[str, ...]]:
    for number, batch in enumerate(batches):
        how = (
            ""
            if batch.strategy is None
            else batch.strategy + (", inertial" if batch.inertial else "")
        )
        name = str(number) if number else "base"
        yield name, f"{batch.records:,}", f"{batch.kept:,}", how, f"{batch.seconds:.3f}"


def _as_data(found: "Status") -> dict[str, Any]:
    """The status as plain data; no digest, which only the folder needs."""
    batches = [
        {name: value for name, value in asdict(batch).items() if name != "digest"}
        for batch in found.batches
    ]
    return {**asdict(found), "batches": batches}


def _remarks(added: "Batch") -> Iterator[tuple[str, str]]:
    for name, count in added.strange.items():
        yield (
            "not known",
            f"{count:,} values of {name!r}, which the base has not: placed as near as can be told",
        )


def _summarize(release: "Release", output: Path, report: Path | None) -> Iterator[tuple[str, str]]:
    manifest = release.manifest
    cells, records, method = manifest.cells, manifest.records, manifest.method
    assert method is not None
    sizes = dict.fromkeys((cells.smallest, cells.largest))
    yield "cells", f"{cells.count:,} of {' to '.join(f'{size:,}' for size in sizes)} records"
    yield "batches", f"{len(method.batches or ()):,} after the base"
    yield "method", f"{method.used}, {method.reason}"
    yield "information loss", f"{100 * (manifest.information_loss or 0):.2f} %"
    if records.dropped:
        yield (
            "dropped",
            f"{records.dropped:,} of {records.read:,} records, with a missing quasi-identifier",
        )
    yield "rows", manifest.row_order
    yield "table", str(output)
    yield "manifest", str(mc.release.manifest_path(output))
    if report is not None:
        yield "report", str(report)


# ---------------------------------------------------------------------------------------------- what is refused


def _check_options(options: Mapping[str, Any]) -> None:
    for name in ("cls", "folder", "base", "schema", "k", "method", "seed", "missing"):
        if name in options:
            raise OptionError(
                f"{name!r} is not an option of a method. Give it by its own flag, and not by --set."
            )


def _check_outside(folder: Path, *outputs: Path | None) -> None:
    for path in outputs:
        if path is not None and folder.resolve() in path.resolve().parents:
            raise TableError(
                f"{path} is in the folder of the state, which holds original data. Choose another place."
            )
