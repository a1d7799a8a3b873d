"""``microcell increment plan``: when to begin while records still arrive, and when it will be finished."""

import json as jsons
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import microcell as mc
from microcell.cli._console import Words, print_data, print_facts, print_table
from microcell.cli._failures import guarded
from microcell.cli._options import (
    Effort,
    Json,
    Quiet,
    figure_form,
    parse_effort,
    parse_settings,
    takes_reading,
)
from microcell.cli._sweeps import Missing, Seed, check_figure
from microcell.errors import OptionError, TableError
from microcell.staging import Staging

if TYPE_CHECKING:
    from microcell import Plan, Schedule

__all__ = ["EXAMPLES", "parse_time", "plan"]

EXAMPLES = (
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
    if not found or whole.strip() != text.strip() or (len(found) > 1 and any(not match[2] for match in found)):
        raise OptionError(f"{flag} takes a time such as 90s, 30min, 2h or 1h30min, not {text!r}.")
    return sum(float(match[1]) * _SECONDS[match[2].lower()] for match in found)


@guarded
@takes_reading
def plan(
    *,
    reading: Mapping[str, Any],
    table: Annotated[
        Path | None,
        typer.Argument(metavar="[TABLE]", help="A table like the one to come, to measure on.", show_default=False),
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="From the first record to the last: 90s, 30min, 10h.", show_default=False),
    ] = None,
    whole: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="What all records at once take; instead of measuring on TABLE.", show_default=False
        ),
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(help="The power of the records with which --whole grows. Default: 2.", show_default=False),
    ] = None,
    arrivals: Annotated[
        str, typer.Option(metavar="uniform|early|late|FILE", help="How records arrive; a file of times has one column.")
    ] = "uniform",
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="To be finished so long after the end.", show_default=False)
    ] = None,
    strategy: Annotated[
        Literal["refined", "separate", "nearest", "split-late", "split-early"],
        typer.Option(help="How the rest will be added."),
    ] = "refined",
    inertial: Annotated[bool, typer.Option("--inertial", help="As increment add has it; with TABLE.")] = False,
    least_gain: Annotated[str, typer.Option(metavar="TIME", help="What an early start must gain.")] = "1min",
    records: Annotated[
        int | None, typer.Option(help="How many records there will be. Default: as many as TABLE has.")
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option("--schema", "-s", metavar="FILE.toml", help="Of TABLE: the role of each column."),
    ] = None,
    k: Annotated[int | None, typer.Option("-k", help="The least number of records in a cell.")] = None,
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="How cells are made of TABLE. Default: mdav.")
    ] = None,
    effort: Effort = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the method; repeatable.")
    ] = None,
    seconds: Annotated[str, typer.Option(metavar="TIME", help="How long to measure on TABLE.")] = "5s",
    seed: Seed = 0,
    missing: Missing = "error",
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw a timeline: .svg, .png or .pdf.", show_default=False)
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Plan when to begin, so that all is finished soon after the last record: now, early, or not before the end."""
    words = Words(quiet)
    if figure is not None:
        check_figure(figure, sources=[path for path in (table, schema) if path is not None])
    times = {"collection": collection, "whole": whole, "deadline": deadline, "least_gain": least_gain}
    known: dict[str, Any] = {name: parse_time(text, f"--{name.replace('_', '-')}") for name, text in times.items()}
    options = {**parse_settings(settings or ()), **parse_effort(effort)}
    with words.progress():
        source = None if table is None else mc.read(table, **reading)
        usual = _ANY_NUMBER if source is None else source.rows
        found = mc.plan(
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
        print_data(jsons.dumps(_as_data(found), indent=2))
    else:
        print_facts(_facts(found))
        print_table(_HEADINGS, map(_row, found.alternatives))
    if figure is not None:
        with Staging() as staging:
            staging.path(figure).write_bytes(mc.draw_plan(found, figure_form(figure, "--figure")))
        words.list([("figure", str(figure))])


def _read_times(path: Path) -> Any:
    """The times of a file of one column: seconds since the collection began, or dates and times from the first on."""
    if not path.suffix:
        raise OptionError(f"--arrivals takes {', '.join(_CURVES)}, or a file of times, not {str(path)!r}.")
    table = mc.read(path)
    if len(table.names) != 1:
        raise TableError(f"{path} has {len(table.names)} columns. A file of arrivals has one, of times.")
    values = table.columns[table.names[0]]
    if values.missing.any() or not (values.is_number or values.storage == "datetime"):
        raise TableError(f"{path} must hold a time in every row: seconds since the collection began, or date and time.")
    if values.is_number:
        return values.reals()
    return (values.data - values.data.min()) / _PER_SECOND[str(values.unit)]


_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


# ---------------------------------------------------------------------------------------------- what is told

_HEADINGS = ("share added", "begin", "end", "after the data", "extra distortion")


def _facts(found: "Plan") -> Iterator[tuple[str, str]]:
    yield "plan", found.advice
    if found.chosen.nu > 0:
        yield "begin", f"{_clock(found.chosen.starts)} after the collection began, with {found.chosen.received:.1%} in"
        yield "base ready", _clock(found.chosen.base_ends)
    yield "finished", f"{_clock(found.chosen.ends)}, {_clock(found.chosen.after)} after the data end"
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


def _as_data(found: "Plan") -> dict[str, Any]:
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
