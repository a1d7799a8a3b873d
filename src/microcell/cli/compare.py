"""``microcell compare``: the distortion and the time of methods on a user's own table."""

import json as jsons
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from microcell.cli._sweeps import (
    Missing,
    Seed,
    Settings,
    Sizes,
    TriedTable,
    check_figure,
    parse_sizes,
    remarks,
)
from microcell.staging import Staging

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
    table: TriedTable,
    schema: SchemaFile,
    k: Sizes,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...", help="See microcell methods. Default: all, and auto.", show_default=False
        ),
    ] = None,
    effort: Effort = None,
    settings: Settings = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw distortion against time: .svg, .png or .pdf.", show_default=False),
    ] = None,
    seed: Seed = 0,
    missing: Missing = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare methods on a table, by the distortion they leave and the time they take; releases nothing."""
    words = Words(quiet)
    sizes, options = parse_sizes(k), {**parse_settings(settings or ()), **parse_effort(effort)}
    if figure is not None:
        check_figure(figure, sources=(table, schema))
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
    words.list(remarks(trials))
    if figure is not None:
        with Staging() as staging:
            staging.path(figure).write_bytes(mc.draw_trials(trials, figure_form(figure, "--figure")))
        words.list([("figure", str(figure))])


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
