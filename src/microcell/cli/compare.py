"""``microcell compare``: the distortion and the time of methods on a user's own table."""

import json as jsons
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import microcell as mc
from microcell.cli._console import Words, print_data, print_table
from microcell.cli._failures import guarded
from microcell.cli._options import (
    Effort,
    Json,
    Quiet,
    SchemaFile,
    figure_form,
    parse_effort,
    parse_settings,
    split_names,
    takes_reading,
)
from microcell.errors import OptionError
from microcell.staging import Staging, check_target

if TYPE_CHECKING:
    from microcell import Trial

__all__ = ["EXAMPLES", "compare"]

EXAMPLES = (
    "microcell compare people.csv -s schema.toml -k 3,5,10",
    "microcell compare people.csv -s schema.toml -k 5 --methods mdav,vmdav --set gamma=0.5 --set refine=true",
    "microcell compare people.csv -s schema.toml -k 3,10 --methods mdav,bisect --figure methods.svg",
)

_KS_A_TABLE = 3
"""So many fit in the width of a terminal; more go to a further table."""


@guarded
@takes_reading
def compare(
    *,
    reading: Mapping[str, Any],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="The file to try methods on.", show_default=False)],
    schema: SchemaFile,
    k: Annotated[
        str,
        typer.Option("-k", metavar="K,K,...", help="The least number of records in a cell; several with commas."),
    ],
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...", help="See microcell methods. Default: all, and auto.", show_default=False
        ),
    ] = None,
    effort: Effort = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An option, for the methods that have it; repeatable."),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw distortion against time: .svg, .png or .pdf.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="For what chance decides.")] = 0,
    missing: Annotated[
        Literal["error", "drop", "impute"],
        typer.Option(help="What to do with records that lack a quasi-identifier."),
    ] = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare methods on a table, by the distortion they leave and the time they take; releases nothing."""
    words = Words(quiet)
    sizes, options = _parse_sizes(k), {**parse_settings(settings or ()), **parse_effort(effort)}
    if figure is not None:
        _check_figure(figure, sources=(table, schema))
    with words.progress():
        trials = mc.compare(
            mc.read(table, **reading),
            mc.load_schema(schema),
            k=sizes,
            methods=None if methods is None else split_names(methods),
            seed=seed,
            missing=missing,
            options=options,
        )
    if json:
        print_data(jsons.dumps([asdict(trial) for trial in trials], indent=2))
    else:
        _print_trials(trials)
        words.say("* the least distortion (SSE / SST) of its k")
    words.list(_remarks(trials))
    if figure is not None:
        with Staging() as staging:
            staging.path(figure).write_bytes(mc.draw_trials(trials, figure_form(figure, "--figure")))
        words.list([("figure", str(figure))])


def _parse_sizes(text: str) -> list[int]:
    try:
        return [int(part) for part in split_names(text)]
    except ValueError:
        raise OptionError(f"-k takes whole numbers with commas between them, such as 3,5,10, not {text!r}.") from None


def _check_figure(figure: Path, *, sources: Sequence[Path]) -> None:
    figure_form(figure, "--figure")
    check_target(figure, sources=sources)


def _print_trials(trials: Sequence["Trial"]) -> None:
    """Print a row for each method, with the least distortion of each k marked."""
    sizes = list(dict.fromkeys(trial.k for trial in trials))
    for first in range(0, len(sizes), _KS_A_TABLE):
        shown = sizes[first : first + _KS_A_TABLE]
        if first:
            print_data("")
        headings = ["method", *(heading for k in shown for heading in (f"k = {k}", "seconds"))]
        print_table(headings, _rows([trial for trial in trials if trial.k in shown]))


def _rows(trials: Sequence["Trial"]) -> list[list[str]]:
    least = {
        trial.k: min(other.distortion for other in trials if other.k == trial.k and other.distortion is not None)
        for trial in trials
        if trial.distortion is not None
    }
    rows: dict[str, list[str]] = {}
    for trial in trials:
        row = rows.setdefault(trial.method, [trial.method])
        if trial.distortion is None:
            row += ["skipped", ""]
        else:
            mark = "*" if trial.distortion == least[trial.k] else ""
            row += [f"{trial.distortion:.6f}{mark}", f"{trial.seconds:.3f}"]
    return list(rows.values())


def _remarks(trials: Sequence["Trial"]) -> Iterator[tuple[str, str]]:
    """What "auto" chose, and why a method was skipped, each told once."""
    told = {
        (trial.method, f"skipped: {trial.why}" if trial.skipped else f"{trial.used}, {trial.why}"): None
        for trial in trials
        if trial.skipped or trial.used != trial.method
    }
    yield from told
