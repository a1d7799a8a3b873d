"""``microcell dependence``: what preserving the dependence on confidential columns costs and keeps."""

import json as jsons
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import microcell as mc
from microcell._atomic import Staging
from microcell.cli.console import Messages, print_data, print_table
from microcell.cli.errors import handle_errors
from microcell.cli.options import (
    Effort,
    InputTable,
    Json,
    Missing,
    Quiet,
    SchemaFile,
    Seed,
    Settings,
    Sizes,
    check_figure,
    figure_format,
    method_notes,
    parse_effort,
    parse_settings,
    parse_sizes,
    split_names,
    with_read_options,
)

if TYPE_CHECKING:
    from microcell.sweeps import Trial
from collections.abc import Iterator
from typing import TYPE_CHECKING

from microcell.cli.options import check_directions, check_files, parse_requirements
from microcell.errors import RequirementError
from microcell.measures.registry import lower_is_better

if TYPE_CHECKING:
    from microcell import Measure
    from microcell.sweeps import Exploration, Point
from dataclasses import fields
from typing import TYPE_CHECKING

from microcell.cli.options import Blocks, parse_blocks
from microcell.errors import OptionError

if TYPE_CHECKING:
    from microcell.sweeps import DependencePoint, DependenceSweep

__all__ = [
    "COMPARE_EXAMPLES",
    "DEPENDENCE_EXAMPLES",
    "EXPLORE_EXAMPLES",
    "compare",
    "dependence",
    "explore",
]

COMPARE_EXAMPLES = (
    "microcell compare people.csv -s schema.toml -k 3,5,10",
    "microcell compare people.csv -s schema.toml -k 5 --methods mdav,vmdav --set gamma=0.5 --set refine=true",
    "microcell compare people.csv -s schema.toml -k 3,10 --methods mdav,bisect --figure methods.svg",
)

_KS_A_TABLE = 3
"""So many fit in the width of a terminal; more go to a further table."""


@handle_errors
@with_read_options
def compare(
    *,
    read_options: Mapping[str, Any],
    table: InputTable,
    schema: SchemaFile,
    k: Sizes,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="See microcell methods. Default: all, and auto.",
            show_default=False,
        ),
    ] = None,
    effort: Effort = None,
    settings: Settings = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw distortion against time: .svg, .png or .pdf.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    missing: Missing = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare methods on a table, by the distortion they leave and the time they take; releases nothing."""
    messages = Messages(quiet)
    sizes, options = parse_sizes(k), {**parse_settings(settings or ()), **parse_effort(effort)}
    if figure is not None:
        check_figure(figure, sources=(table, schema))
    with messages.progress():
        trials = mc.compare(
            mc.read(table, **read_options),
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
        messages.info("* the least distortion (SSE / SST) of its k")
    messages.facts(method_notes(trials))
    if figure is not None:
        with Staging() as staging:
            staging.path(figure).write_bytes(
                mc.plot.comparison(trials, format=figure_format(figure, "--figure"))
            )
        messages.facts([("figure", str(figure))])


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
        trial.k: min(
            other.distortion
            for other in trials
            if other.k == trial.k and other.distortion is not None
        )
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


EXPLORE_EXAMPLES = (
    "microcell explore people.csv -s schema.toml -k 3,5,10,20,50",
    "microcell explore people.csv -s schema.toml -k 3,5,10 --require 'distortion<=0.5' --figure map.svg",
    "microcell explore people.csv -s schema.toml -k 5,10 --methods auto,mdav --risk prosecutor_worst --output map.csv",
)

_BESIDE = ("prosecutor_worst", "l_diversity", "t_closeness")
"""Measures that the table shows beside those of the axes and the limits, where the audit has them."""

_WIDEST = 10
"""Letters of a heading; a longer name goes to two lines, so that the table fits in a terminal."""


@handle_errors
@with_read_options
def explore(
    *,
    read_options: Mapping[str, Any],
    table: InputTable,
    schema: SchemaFile,
    k: Sizes,
    methods: Annotated[
        str, typer.Option(metavar="NAME,NAME,...", help="See microcell methods.")
    ] = "auto",
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEASURE=LIMIT",
            help="A limit to meet, such as distortion<=0.1 or t_closeness<=0.3; repeatable. The point with the least "
            "loss that meets all is recommended; without limits, the knee of the frontier.",
        ),
    ] = None,
    risk: Annotated[
        str, typer.Option(metavar="MEASURE", help="The measure of the audit to show as risk.")
    ] = "linkage",
    loss: Annotated[
        str, typer.Option(metavar="MEASURE", help="The one to show as loss.")
    ] = "distortion",
    effort: Effort = None,
    settings: Settings = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw risk against loss: .svg, .png or .pdf.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the map, with all measures, as a table.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    missing: Missing = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Explore which k to take: the risk and the loss of each k and method, and the best point; releases nothing."""
    messages = Messages(quiet)
    sizes, options = parse_sizes(k), {**parse_settings(settings or ()), **parse_effort(effort)}
    requirements = parse_requirements(require or ())
    check_directions(requirements, lower_is_better)
    check_files(output, figure, sources=(table, schema))
    with messages.progress():
        found = mc.explore(
            mc.read(table, **read_options),
            mc.load_schema(schema),
            k=sizes,
            methods=split_names(methods),
            require={item.measure: item.limit for item in requirements},
            risk=risk,
            loss=loss,
            seed=seed,
            missing=missing,
            options=options,
        )
    sides = {name: measure.lower_is_better for name, measure in _known(found).items()}
    check_directions(requirements, sides.get)  # those too whose side is known only now
    if json:
        print_data(jsons.dumps(_as_data(found), indent=2))
    else:
        print_table(_headings(found), [_exploration_row(found, point) for point in found.points])
        messages.info(f"* on the frontier of {risk} and {loss}; > recommended; ! misses its limit")
    _write_files(found, figure, output)
    messages.facts([*method_notes(found.points), *_outcome(found, figure, output)])
    if found.recommended is None:
        raise RequirementError(found.why)


def _write_files(found: "Exploration", figure: Path | None, output: Path | None) -> None:
    with Staging() as staging:
        if figure is not None:
            staging.path(figure).write_bytes(
                mc.plot.exploration(found, format=figure_format(figure, "--figure"))
            )
        if output is not None:
            mc.write(_exploration_columns(found), staging.path(output))


def _outcome(
    found: "Exploration", figure: Path | None, output: Path | None
) -> Iterator[tuple[str, str]]:
    if found.recommended is not None:
        yield "recommended", f"{found.recommended}, {found.why}"
    if figure is not None:
        yield "figure", str(figure)
    if output is not None:
        yield "map", str(output)


# ---------------------------------------------------------------------------------------------- as a table


def _shown(found: "Exploration") -> list[str]:
    """The names of the measures that the table shows: those of the axes, of the limits, and some beside them."""
    wanted = [
        found.risk,
        found.loss,
        *(name for name in _BESIDE if name in _known(found)),
        *found.limits,
    ]
    return [name for name in dict.fromkeys(wanted) if name != "k"]


def _known(found: "Exploration") -> Mapping[str, "Measure"]:
    """The measures that the audit has, by name."""
    return next(point.measures for point in found.points if not point.skipped)


def _headings(found: "Exploration") -> list[str]:
    return ["", "method", "k", "found", *map(_heading, _shown(found)), "seconds"]


def _heading(name: str) -> str:
    start, underscore, end = name.rpartition("_")
    return f"{start}{underscore}\n{end}" if underscore and len(name) > _WIDEST else name


def _exploration_row(found: "Exploration", point: "Point") -> list[str]:
    if point.skipped:
        return ["", point.method, str(point.k), "skipped"]
    mark = ">" if point == found.recommended else "*" if point in found.frontier else ""
    numbers = [_cell(found, point, name) for name in _shown(found)]
    return [
        mark,
        point.method,
        str(point.k),
        _cell(found, point, "k"),
        *numbers,
        f"{point.seconds:.3f}",
    ]


def _cell(found: "Exploration", point: "Point", name: str) -> str:
    limit = found.limits.get(name)
    missed = limit is not None and not point.measures[name].meets(limit)
    return f"{point[name]:.6g}{'!' * missed}"


# ---------------------------------------------------------------------------------------------- as data


def _facts(found: "Exploration", point: "Point") -> dict[str, Any]:
    return {
        "method": point.method,
        "used": point.used,
        "k": point.k,
        "found": point.found,
        "seconds": point.seconds,
        "meets_limits": found.meets(point),
        "frontier": point in found.frontier,
        "recommended": point == found.recommended,
    }


def _as_data(found: "Exploration") -> dict[str, Any]:
    """The exploration as plain data, ready for JSON."""
    return {
        "risk": found.risk,
        "loss": found.loss,
        "limits": dict(found.limits),
        "recommended": None if found.recommended is None else _facts(found, found.recommended),
        "why": found.why,
        "points": [
            _facts(found, point)
            | {"why": point.why, "measures": {name: point[name] for name in point.measures}}
            for point in found.points
        ],
    }


def _exploration_columns(found: "Exploration") -> dict[str, list[Any]]:
    """The map as a table, a row for each point and a column for each measure; k as measured is ``found``."""
    names = [name for name in _known(found) if name != "k"]
    rows = [
        _facts(found, point) | {name: None if point.skipped else point[name] for name in names}
        for point in found.points
    ]
    return {name: [row[name] for row in rows] for name in rows[0]}


DEPENDENCE_EXAMPLES = (
    "microcell dependence people.csv -s schema.toml -k 5,10,20",
    "microcell dependence people.csv -s schema.toml -k 5 --lambdas 0,0.05,0.1,0.2 --loss 0.02",
    "microcell dependence people.csv -s schema.toml -k 5,10 --method mdav -o sweep.csv --figure sweep.svg",
)


@handle_errors
@with_read_options
def dependence(
    *,
    read_options: Mapping[str, Any],
    table: InputTable,
    schema: SchemaFile,
    k: Sizes,
    lambdas: Annotated[
        str | None,
        typer.Option(
            metavar="L,L,...",
            help="Weights of dependence, from 0 to 1. Default: 0, 0.1, ..., 1.",
            show_default=False,
        ),
    ] = None,
    loss: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="The distortion that may be added, for the weight recommended."
        ),
    ] = 0.05,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the points as a table.",
            show_default=False,
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw the trade-offs: .svg, .png or .pdf.", show_default=False
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="How to make cells; see microcell methods.")
    ] = "auto",
    blocks: Blocks = None,
    effort: Effort = None,
    settings: Settings = None,
    seed: Seed = 0,
    missing: Missing = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Sweep the weight of dependence: what the quasi-identifiers lose, what is kept of their relation to the rest."""
    messages = Messages(quiet)
    sizes, weights = parse_sizes(k), None if lambdas is None else _parse_lambdas(lambdas)
    check_files(output, figure, sources=(table, schema))
    with messages.progress():
        sweep = mc.dependence_sweep(
            mc.read(table, **read_options),
            mc.load_schema(schema),
            k=sizes,
            method=method,
            blocks=parse_blocks(blocks),
            seed=seed,
            missing=missing,
            **({} if weights is None else {"lambdas": weights}),
            **{**parse_settings(settings or ()), **parse_effort(effort)},
        )
        recommended = sweep.recommend(loss)
    with Staging() as staging:
        if output is not None:
            mc.write(_as_columns(sweep.points), staging.path(output))
        if figure is not None:
            staging.path(figure).write_bytes(
                mc.plot.dependence(sweep, format=figure_format(figure, "--figure"))
            )
    if json:
        points = [_plain(point) for point in sweep.points]
        chosen = [{"k": point.k, "lambda": point.dependence} for point in recommended]
        print_data(jsons.dumps({"points": points, "recommended": chosen}, indent=2))
    else:
        print_table(_HEADINGS, [_row(point) for point in sweep.points])
    messages.facts(_remarks(sweep, recommended, loss))
    messages.facts(
        (name, str(path))
        for name, path in (("points", output), ("figure", figure))
        if path is not None
    )


_HEADINGS = ("k", "lambda", "D_X", "D_Y", "weighted", "D_X change", "D_Y change", "l_avg", "DLD")


def _row(point: "DependencePoint") -> list[str]:
    return [
        str(point.k),
        f"{point.dependence:g}",
        f"{point.distortion:.4f}",
        f"{point.dependence_loss:.4f}",
        f"{point.weighted:.4f}",
        _percent(point.distortion_increment),
        _percent(point.loss_increment),
        f"{point.diversity:.2f}",
        f"{point.dld:.4f}",
    ]


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %"


def _remarks(
    sweep: "DependenceSweep", recommended: Sequence["DependencePoint"], loss: float
) -> Iterator[tuple[str, str]]:
    """The weight recommended for each k, and what blocks mean."""
    for point in recommended:
        heading = f"k = {point.k}"
        if all(each.dependence == 0 for each in sweep.points):
            continue
        if point.dependence == 0:
            yield (
                heading,
                f"no weight tried keeps within {100 * loss:g} % of the least distortion: try smaller ones",
            )
            continue
        yield (
            heading,
            f"lambda = {point.dependence:g} adds {_percent(point.distortion_increment)} to the distortion, within the "
            f"{100 * loss:g} % allowed, and changes the loss of dependence by {_percent(point.loss_increment)}",
        )
    if sweep.blocks:
        short = [point.found_k for point in sweep.points if point.found_k < point.k]
        whole = f"are not: k is down to {min(short)}" if short else "turned out to be so too"
        yield "blocks", f"each is k-anonymous on its own; all columns together {whole}"


def _parse_lambdas(text: str) -> list[float]:
    try:
        weights = [float(part) for part in split_names(text)]
    except ValueError:
        weights = []
    if not weights:
        raise OptionError(
            f"--lambdas takes numbers with commas between them, such as 0,0.1,0.2, not {text!r}."
        )
    return weights


def _plain(point: "DependencePoint") -> dict[str, Any]:
    """The point as plain data, without infinities: JSON has none."""
    return {name: None if value == float("inf") else value for name, value in asdict(point).items()}


def _as_columns(points: Sequence["DependencePoint"]) -> dict[str, list[Any]]:
    """The points as a table; an infinite increase is a missing value, as in JSON."""
    rows = [_plain(point) for point in points]
    return {item.name: [row[item.name] for row in rows] for item in fields(points[0])}
