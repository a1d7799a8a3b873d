"""``microcell increment``: a table that arrives in batches, kept in a folder until its release."""

import json as jsons
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import microcell as mc
from microcell._atomic import AtomicFiles
from microcell._display import count, number_range, percent
from microcell.cli.console import Messages, print_data, print_facts, print_table
from microcell.cli.errors import Command, CommandGroup, handle_errors
from microcell.cli.options import (
    Audience,
    CertificateFile,
    Effort,
    Force,
    Json,
    Missing,
    OrderKey,
    Person,
    PersonCells,
    Quiet,
    ReportFile,
    RowsArePeople,
    SchemaFile,
    Seed,
    check_figure,
    epilog,
    figure_format,
    parse_effort,
    parse_limits,
    parse_person,
    parse_settings,
    with_read_options,
)
from microcell.errors import OptionError, TableError

if TYPE_CHECKING:
    from microcell import Release
    from microcell.increments import Batch, Plan, Schedule, Status

__all__ = ["INCREMENT_EXAMPLES", "PLAN_EXAMPLES", "increment", "parse_time", "plan"]

PLAN_EXAMPLES = (
    "microcell increment plan --collection 10h --whole 2h --strategy separate",
    "microcell increment plan --collection 10h --whole 2h --deadline 1h --figure timeline.svg",
    "microcell increment plan last_year.csv -s schema.toml -k 10 --records 500000 --collection 10h",
)
INCREMENT_EXAMPLES = (
    "microcell increment plan --collection 10h --whole 2h --deadline 1h",
    "microcell increment start morning.csv -s schema.toml -k 10 --state votes",
    "microcell increment add votes afternoon.csv",
    "microcell increment status votes",
    "microcell increment finish votes -o votes_k10.csv --report votes_k10.html",
)

_Folder = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="Folder created by 'increment start'.", show_default=False),
]
_Strategy = Annotated[
    Literal["refined", "separate", "nearest", "split-late", "split-early"],
    typer.Option(help="How further records are added to the cells."),
]
_Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Option of the method; repeatable."),
]


# ---------------------------------------------------------------------------------------- plan

_CURVES = ("uniform", "early", "late")
_ANY_NUMBER = 1_000_000
"""Number of records assumed if only --whole is passed; the plan depends on shares only."""


@handle_errors
@with_read_options
def plan(
    *,
    read_options: Mapping[str, Any],
    table: Annotated[
        Path | None,
        typer.Argument(
            metavar="[TABLE]",
            help="Table similar to the expected one, to measure running times on.",
            show_default=False,
        ),
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time from the first record to the last, such as 90s, 30min or 10h.",
            show_default=False,
        ),
    ] = None,
    whole: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time to anonymize all records at once, instead of measuring on TABLE.",
            show_default=False,
        ),
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(
            help="Exponent of the growth of --whole with the number of records. Default: 2.",
            show_default=False,
        ),
    ] = None,
    arrivals: Annotated[
        str,
        typer.Option(
            metavar="uniform|early|late|FILE",
            help="How records arrive; FILE has one column with times.",
        ),
    ] = "uniform",
    deadline: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time after the last record by which everything must be finished.",
            show_default=False,
        ),
    ] = None,
    strategy: _Strategy = "refined",
    inertial: Annotated[
        bool, typer.Option("--inertial", help="As for 'increment add'; requires TABLE.")
    ] = False,
    min_gain: Annotated[
        str, typer.Option(metavar="TIME", help="Minimum time that an early start must save.")
    ] = "1min",
    records: Annotated[
        int | None,
        typer.Option(help="Expected number of records. Default: that of TABLE."),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option("--schema", "-s", metavar="FILE.toml", help="Schema of TABLE."),
    ] = None,
    k: Annotated[int | None, typer.Option("-k", help="Minimum number of records per cell.")] = None,
    method: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Partitioning method for TABLE. Default: auto."),
    ] = None,
    effort: Effort = None,
    settings: _Settings = None,
    seconds: Annotated[
        str, typer.Option(metavar="TIME", help="Time to spend on measuring TABLE.")
    ] = "5s",
    seed: Seed = 0,
    missing: Missing = "error",
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Plot a timeline (.svg, .png or .pdf).", show_default=False
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Plan when to start anonymizing, so that the release is ready soon after the last record."""
    messages = Messages(quiet)
    if figure is not None:
        check_figure(figure, sources=[path for path in (table, schema) if path is not None])
    times: dict[str, Any] = {
        "collection": parse_time(collection, "--collection"),
        "whole": parse_time(whole, "--whole"),
        "deadline": parse_time(deadline, "--deadline"),
        "min_gain": parse_time(min_gain, "--min-gain"),
        "seconds": parse_time(seconds, "--seconds"),
    }
    options = {**parse_settings(settings or ()), **parse_effort(effort)}
    with messages.progress():
        source = None if table is None else mc.read(table, **read_options)
        if records is None:
            records = _ANY_NUMBER if source is None else source.rows
        result = mc.increments.plan(
            records,
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
            seed=seed,
            **times,
        )
    if json:
        print_data(jsons.dumps(result.as_dict(), indent=2))
    else:
        print_facts(_plan_facts(result))
        print_table(_PLAN_HEADINGS, map(_plan_row, result.alternatives))
    if figure is not None:
        with AtomicFiles() as atomic:
            atomic.path(figure).write_bytes(
                mc.plot.plan(result, format=figure_format(figure, "--figure"))
            )
        messages.facts([("figure", str(figure))])


_SECONDS = {"d": 86_400.0, "h": 3600.0, "min": 60.0, "m": 60.0, "s": 1.0, "": 1.0}
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(d|h|min|m|s|)(?![a-z])", re.IGNORECASE)


def parse_time(text: str | None, flag: str) -> float | None:
    """Convert a duration such as 90s, 30min or 1h 30min to seconds; plain numbers are seconds.

    Examples
    --------
    >>> parse_time("1h 30min", "--whole"), parse_time("90", "--whole"), parse_time(None, "--whole")
    (5400.0, 90.0, None)
    """
    if text is None:
        return None
    parts = list(_TIME.finditer(text))
    is_complete = "".join(part.group() for part in parts).strip() == text.strip()
    lacks_unit = len(parts) > 1 and any(not part[2] for part in parts)
    if not parts or not is_complete or lacks_unit:
        raise OptionError(
            f"{flag} must be a time such as 90s, 30min, 2h or 1h30min, not {text!r}.",
            code="option.invalid",
            option=flag,
        )
    return sum(float(part[1]) * _SECONDS[part[2].lower()] for part in parts)


_TICKS_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


def _read_times(path: Path) -> Any:
    """Return the times in a file with one column: seconds, or dates and times since the first."""
    if not path.suffix:
        raise OptionError(
            f"--arrivals must be one of {', '.join(_CURVES)} or a file of times, not "
            f"{str(path)!r}.",
            code="option.unknown",
            option="--arrivals",
        )
    table = mc.read(path)
    if len(table.names) != 1:
        raise TableError(
            f"{path} has {len(table.names)} columns. A file of arrival times must have exactly "
            "one.",
            code="table.malformed",
            path=str(path),
            columns=list(table.names),
        )
    values = table.columns[table.names[0]]
    if values.missing.any() or not (values.is_number or values.storage == "datetime"):
        raise TableError(
            f"{path} must contain a time in every row: seconds since the start of the collection, "
            "or a date and time.",
            code="table.malformed",
            path=str(path),
            column=table.names[0],
        )
    if values.is_number:
        return values.reals()
    return (values.data - values.data.min()) / _TICKS_PER_SECOND[str(values.unit)]


_PLAN_HEADINGS = ("added later", "start", "end", "after the data", "extra information loss")


def _plan_facts(result: "Plan") -> Iterator[tuple[str, str]]:
    chosen = result.chosen
    yield "advice", result.advice
    if chosen.nu > 0:
        yield (
            "start",
            f"{_clock(chosen.starts)} after the first record, with {chosen.received:.1%} received",
        )
        yield "initial cells finished", _clock(chosen.base_ends)
    yield "finished", f"{_clock(chosen.ends)}, {_clock(chosen.after)} after the last record"
    yield "without early start", f"{_clock(result.whole)} after the last record"
    yield "based on", result.basis


def _plan_row(schedule: "Schedule") -> tuple[str, ...]:
    extra = schedule.extra_distortion
    return (
        f"{schedule.nu:.1%}",
        _clock(schedule.starts),
        _clock(schedule.ends),
        _clock(schedule.after),
        "" if extra is None else f"{extra:+.1%}",
    )


def _clock(seconds: float) -> str:
    """Format a time in hours, minutes and seconds.

    Examples
    --------
    >>> _clock(5800.4), _clock(0.25)
    ('1:36:40', '0:00:00.2')
    """
    if seconds < 10:
        return f"0:00:{seconds:04.1f}".removesuffix(".0")
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


# ------------------------------------------------------------------------------------ sessions


@handle_errors
@with_read_options
def start(
    *,
    read_options: Mapping[str, Any],
    base: Annotated[
        Path,
        typer.Argument(
            metavar="BASE", help="Records that have arrived so far.", show_default=False
        ),
    ],
    schema: SchemaFile,
    k: Annotated[int, typer.Option("-k", help="Minimum number of records per cell.")],
    state: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Folder to create for the session. It will contain original data.",
            show_default=False,
        ),
    ],
    id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="NAME",
            help="Column that identifies people (one row each), to recognize people "
            "who come again; not published.",
            show_default=False,
        ),
    ] = None,
    person: Person = None,
    person_cells: PersonCells = None,
    rows_are_people: RowsArePeople = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="Partitioning method; see 'microcell methods'.")
    ] = "auto",
    effort: Effort = None,
    settings: _Settings = None,
    seed: Seed = 0,
    missing: Missing = "error",
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEASURE=LIMIT",
            help="Limit that the release must meet, as for 'microcell anonymize'; repeatable.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Start a session with the records that have arrived so far."""
    messages = Messages(quiet)
    options = {**parse_settings(settings or ()), **parse_effort(effort)}
    _check_settings(options)
    roles = mc.schema.with_person(
        mc.load_schema(schema), parse_person(person), person_cells, rows_are_people
    )
    with messages.progress():
        session = mc.increments.StoredSession.create(
            state,
            mc.read(base, **read_options),
            roles,
            k,
            id=id,
            method=method,
            seed=seed,
            missing=missing,
            require=parse_limits(require or ()),
            **options,
        )
    _show_status(session.status(), messages, json=json)
    messages.info(
        f"{state} contains original data. Protect it like the table itself, and delete it after "
        "the release."
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
    strategy: _Strategy = "refined",
    inertial: Annotated[
        bool,
        typer.Option(
            "--inertial",
            help="Choose the cell whose sum of squares increases least, with moving centroids.",
        ),
    ] = False,
    repeated: Annotated[
        Literal["refuse", "skip", "keep"],
        typer.Option(
            help="Rows of people who are already in the session (without --id or a person column: "
            "rows with exactly the same values): refuse the batch, skip the rows or keep them."
        ),
    ] = "refuse",
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Add the batch even if all its rows are those of an earlier batch."
        ),
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add a batch of records."""
    messages = Messages(quiet)
    with messages.progress():
        session = mc.increments.StoredSession(folder)
        added = session.add(
            mc.read(batch, **read_options),
            strategy=strategy,
            inertial=inertial,
            repeated=repeated,
            again=again,
        )
    _show_status(session.status(), messages, json=json)
    if added.skipped:
        messages.facts([("skipped", f"{count(added.skipped, 'row')} already in the session")])
    if added.unknown_categories:
        messages.facts(_unknown_categories(added))


@handle_errors
def status(folder: _Folder, json: Json = False, quiet: Quiet = False) -> None:
    """Show the session's status."""
    result = mc.increments.StoredSession(folder).status()
    if json:
        print_data(jsons.dumps(result.as_dict(), indent=2))
        return
    print_facts(_status_facts(result))
    print_table(("batch", "records", "kept", "strategy", "seconds"), _batch_rows(result.batches))
    Messages(quiet).info(f"{folder} contains original data.")


@handle_errors
def finish(
    folder: _Folder,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Release; the suffix determines the format."
        ),
    ],
    report: ReportFile = None,
    certificate: CertificateFile = None,
    audience: Audience = "internal",
    keep_order: Annotated[
        bool,
        typer.Option("--keep-order/--shuffle", help="Keep or shuffle the order of the rows."),
    ] = False,
    order_key: OrderKey = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Release all records. Repeating the command reproduces the same release."""
    messages = Messages(quiet)
    session = mc.increments.StoredSession(folder)
    with messages.progress():
        release = session.publish(
            output,
            report=report,
            certificate=certificate,
            audience=audience,
            keep_order=keep_order,
            order_key=order_key,
            overwrite=force,
        )
    if json:
        print_data(release.manifest.without_secrets().to_json())
    messages.info(release.guarantee)
    outputs = {
        "table": output,
        "manifest": mc.release.manifest_path(output),
        "report": report,
        "certificate": certificate,
    }
    messages.facts([*_release_facts(release), *_output_facts(outputs)])
    messages.info(f"{folder} still contains original data. Delete it after checking the release.")


@handle_errors
@with_read_options
def run(
    *,
    read_options: Mapping[str, Any],
    watch: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Folder in which files arrive; a file named END ends the collection.",
        ),
    ],
    deadline: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="When the release must be ready: 23:00, a date with a time, or +2h from now.",
        ),
    ],
    schema: SchemaFile,
    k: Annotated[int, typer.Option("-k", help="Minimum number of records per cell.")],
    state: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder of the session. It will contain original data."),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Release; the suffix determines the format."
        ),
    ],
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="End of the collection, as for --deadline. Default: after 90 % of the time until "
            "the deadline.",
            show_default=False,
        ),
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(help="Expected number of records. Default: extrapolated."),
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="NAME",
            help="Column that identifies people, each of whom has one row.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="Partitioning method; see 'microcell methods'.")
    ] = "auto",
    repeated: Annotated[
        Literal["refuse", "skip", "keep"],
        typer.Option(help="Rows of people who come again, as for 'increment add'."),
    ] = "refuse",
    skip_invalid: Annotated[
        bool,
        typer.Option(
            "--skip-invalid", help="Release even if some files could not be added, without these."
        ),
    ] = False,
    seed: Seed = 0,
    missing: Missing = "error",
    quiet: Quiet = False,
) -> None:
    """Watch a folder, anonymize what arrives, and release by a deadline.

    The same command continues a run that was interrupted.
    """
    messages = Messages(quiet)
    mc.api.check_outputs(output, sources=(schema,), overwrite=True)
    now = datetime.now().astimezone()
    end = parse_moment(deadline, "--deadline", now)
    last = now + 0.9 * (end - now) if until is None else parse_moment(until, "--until", now)
    result = mc.increments.run(
        state,
        watch,
        schema,
        k,
        output,
        until=last.timestamp(),
        deadline=end.timestamp(),
        records=records,
        id=id,
        method=method,
        repeated=repeated,
        seed=seed,
        missing=missing,
        skip_invalid=skip_invalid,
        read_options=read_options,
        on_event=lambda event: messages.info(
            f"{datetime.fromtimestamp(event.at).astimezone():%H:%M:%S}  {event.name}: "
            f"{event.message}"
        ),
    )
    messages.facts([("files", f"{result.files:,}"), ("in time", "yes" if result.in_time else "no")])
    if result.late:
        messages.facts([("too late", f"{count(len(result.late), 'file')}, left out")])
    messages.facts(_output_facts({"table": output, "manifest": mc.release.manifest_path(output)}))


def parse_moment(text: str, flag: str, now: datetime) -> datetime:
    """Parse a time of day (the next one), a date with a time, or +duration, as a point in time.

    Examples
    --------
    >>> now = datetime(2030, 5, 1, 22, 0)
    >>> texts = ("23:00", "6:30", "+90min")
    >>> [f"{parse_moment(text, '--deadline', now):%d %H:%M}" for text in texts]
    ['01 23:00', '02 06:30', '01 23:30']
    """
    if text.startswith("+"):
        return now + timedelta(seconds=parse_time(text[1:], flag) or 0.0)
    try:
        if match := re.fullmatch(r"(\d{1,2}):(\d{2})", text.strip()):
            moment = now.replace(hour=int(match[1]), minute=int(match[2]), second=0, microsecond=0)
            return moment if moment > now else moment + timedelta(days=1)
        stated = datetime.fromisoformat(text.strip())
    except ValueError:
        raise OptionError(
            f"{flag} must be a time such as 23:00, 2030-05-01T23:00 or +2h.",
            code="option.invalid",
            option=flag,
        ) from None
    return stated if stated.tzinfo or not now.tzinfo else stated.replace(tzinfo=now.tzinfo)


def _check_settings(options: Mapping[str, Any]) -> None:
    reserved = (
        "cls",
        "folder",
        "base",
        "schema",
        "k",
        "id",
        "method",
        "seed",
        "missing",
        "require",
    )
    for name in reserved:
        if name in options:
            raise OptionError(
                f"{name!r} is not an option of a method. Use its own flag instead of --set.",
                code="option.unknown",
                option=name,
            )


def _show_status(result: "Status", messages: Messages, *, json: bool) -> None:
    if json:
        print_data(jsons.dumps(result.as_dict(), indent=2))
    messages.facts(_status_facts(result))


def _status_facts(result: "Status") -> Iterator[tuple[str, str]]:
    yield "records", f"{result.records:,} in {count(len(result.batches), 'batch', 'batches')}"
    if result.kept < result.records:
        yield (
            "dropped",
            f"{count(result.records - result.kept, 'record')} with a missing quasi-identifier",
        )
    yield "cells", f"{result.cells:,} with at least k = {result.k} records"
    if result.waiting:
        yield "waiting", f"{count(result.waiting, 'record')} in strata with fewer than k people"
    yield "finished", result.finished or "no"


def _batch_rows(batches: "Sequence[Batch]") -> Iterator[tuple[str, ...]]:
    for number, batch in enumerate(batches):
        strategy = batch.strategy or ""
        if batch.inertial:
            strategy += ", inertial"
        name = str(number) if number else "initial"
        yield name, f"{batch.records:,}", f"{batch.kept:,}", strategy, f"{batch.seconds:.3f}"


def _unknown_categories(added: "Batch") -> Iterator[tuple[str, str]]:
    for name, number in added.unknown_categories.items():
        yield (
            "unknown",
            f"{count(number, 'value')} of {name!r} not in the initial batch, placed as close as "
            "possible",
        )


def _release_facts(release: "Release") -> Iterator[tuple[str, str]]:
    manifest = release.manifest
    cells, records, method = manifest.cells, manifest.records, manifest.method
    assert method is not None
    yield "cells", f"{cells.count:,} of {number_range(cells.smallest, cells.largest)} records"
    yield "batches", f"{len(method.batches or ()):,} after the initial one"
    yield "method", f"{method.used}, {method.reason}"
    yield "information loss", percent(manifest.information_loss or 0)
    if records.dropped:
        yield (
            "dropped",
            f"{records.dropped:,} of {count(records.read, 'record')}, for missing values",
        )
    yield "rows", manifest.row_order


def _output_facts(outputs: Mapping[str, Path | None]) -> Iterator[tuple[str, str]]:
    for name, path in outputs.items():
        if path is not None:
            yield name, str(path)


_COMMANDS: Mapping[Callable[..., None], Sequence[str]] = {
    plan: PLAN_EXAMPLES,
    start: (
        INCREMENT_EXAMPLES[1],
        "microcell increment start morning.csv -s schema.toml -k 10 --state votes "
        "--require l_diversity=2",
    ),
    add: (INCREMENT_EXAMPLES[2], "microcell increment add votes evening.csv --strategy split-late"),
    status: (INCREMENT_EXAMPLES[3], "microcell increment status votes --json"),
    run: (
        "microcell increment run --watch inbox --until 22:00 --deadline 23:00 -s schema.toml -k 10 "
        "--state votes -o votes_k10.csv",
    ),
    finish: (INCREMENT_EXAMPLES[4],),
}

increment = typer.Typer(
    name="increment",
    cls=CommandGroup,
    help="Tables that arrive in batches: plan, start, add batches, release once.",
    epilog=epilog(INCREMENT_EXAMPLES),
    no_args_is_help=True,
)
for _command, _examples in _COMMANDS.items():
    increment.command(cls=Command, epilog=epilog(_examples))(_command)
