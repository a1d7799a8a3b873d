"""``microcell compare``, ``explore`` and ``dependence``: try methods, k and weights on a table."""

import json as jsons
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import microcell as mc
from microcell._atomic import AtomicFiles
from microcell._display import percent
from microcell.cli.console import Messages, print_data, print_table
from microcell.cli.errors import handle_errors
from microcell.cli.options import (
    Blocks,
    Effort,
    InputTable,
    Json,
    Missing,
    Quiet,
    SchemaFile,
    Seed,
    Settings,
    Sizes,
    check_directions,
    check_figure,
    check_files,
    figure_format,
    method_notes,
    parse_blocks,
    parse_dependence,
    parse_effort,
    parse_range,
    parse_requirements,
    parse_settings,
    parse_sizes,
    split_names,
    with_read_options,
)
from microcell.errors import OptionError, RequirementError
from microcell.measures.registry import lower_is_better

if TYPE_CHECKING:
    from microcell import Measure
    from microcell.sweeps import DependencePoint, DependenceSweep, Exploration, Point, Trial
    from microcell.sweeps.weights import WeightTrial

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
    "microcell compare people.csv -s schema.toml -k 5 --methods mdav,vmdav --set gamma=0.5",
    "microcell compare people.csv -s schema.toml -k 5 --methods auto --bound balanced",
    "microcell compare people.csv -s schema.toml -k 3,10 --methods mdav,bisect "
    "--figure methods.svg",
)

_SIZES_PER_TABLE = 3
"""Number of values of k per table, so that it fits the width of a terminal."""


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
            help="Methods to compare; `microcell methods` lists them. Default: all and auto.",
            show_default=False,
        ),
    ] = None,
    effort: Effort = None,
    settings: Settings = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Plot information loss against time: .svg, .png or .pdf.",
            show_default=False,
        ),
    ] = None,
    bound: Annotated[
        str | None,
        typer.Option(
            metavar="EFFORT",
            help="Also compute a lower bound on the information loss of any partition, for each k: "
            "fast, balanced, best or a number of seconds.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    missing: Missing = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare methods on a table by information loss and run time. Nothing is released."""
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
            bound=parse_effort(bound).get("effort"),
        )
    if json:
        print_data(jsons.dumps([asdict(trial) for trial in trials], indent=2))
    else:
        _print_trials(trials)
        messages.info(
            "Information loss of the standardized columns; * lowest for this k. The loss of the "
            "published table is higher where values are published as ranges or prefixes."
        )
    messages.facts(method_notes(trials))
    if figure is not None:
        with AtomicFiles() as atomic:
            atomic.path(figure).write_bytes(
                mc.plot.comparison(trials, format=figure_format(figure, "--figure"))
            )
        messages.facts([("figure", str(figure))])


def _print_trials(trials: Sequence["Trial"]) -> None:
    """Print a row per method, with the lowest information loss of each k marked."""
    sizes = list(dict.fromkeys(trial.k for trial in trials))
    for first in range(0, len(sizes), _SIZES_PER_TABLE):
        shown = sizes[first : first + _SIZES_PER_TABLE]
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
            row += [f"{percent(trial.distortion)}{mark}", f"{trial.seconds:.3f}"]
    bounds = {trial.k: trial.bound for trial in trials if trial.bound is not None}
    if bounds:
        cells = [text for bound in bounds.values() for text in (percent(bound), "")]
        rows["lower bound"] = ["lower bound", *cells]
    return list(rows.values())


EXPLORE_EXAMPLES = (
    "microcell explore people.csv -s schema.toml -k 3,5,10,20,50",
    "microcell explore people.csv -s schema.toml -k 3,5,10 --require 'information_loss<=0.5' "
    "--figure map.svg",
    "microcell explore people.csv -s schema.toml -k 5,10 --methods auto,mdav "
    "--risk prosecutor_worst --output map.csv",
    "microcell explore people.csv -s schema.toml -k 5,10 --require t_closeness=0.05:0.3 "
    "--figure limits.svg",
)

_ALSO_SHOWN = ("prosecutor_worst", "l_diversity", "t_closeness")
"""Measures shown in addition to those of the axes and limits, if the audit has them."""

_MAX_HEADING = 10
"""Characters of a heading; longer names are broken into two lines, so that the table fits."""


@handle_errors
@with_read_options
def explore(
    *,
    read_options: Mapping[str, Any],
    table: InputTable,
    schema: SchemaFile,
    k: Sizes,
    methods: Annotated[
        str,
        typer.Option(
            metavar="NAME,NAME,...", help="Methods to try; `microcell methods` lists them."
        ),
    ] = "auto",
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEASURE=LIMIT",
            help="A limit to meet, such as information_loss<=0.1 or t_closeness<=0.3; repeatable. "
            "A range such as t_closeness=0.05:0.3 shows what each limit costs. Recommends the "
            "lowest loss that meets all limits or, without limits, the best balance of risk and "
            "loss.",
        ),
    ] = None,
    risk: Annotated[
        str | None,
        typer.Option(
            metavar="MEASURE",
            help="Measure of the audit to use as risk: by default linkage, or the measure of a "
            "range of limits.",
            show_default=False,
        ),
    ] = None,
    loss: Annotated[
        str, typer.Option(metavar="MEASURE", help="Measure of the audit to use as loss.")
    ] = "information_loss",
    effort: Effort = None,
    settings: Settings = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Plot risk against loss: .svg, .png or .pdf.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write all points and measures as a table.",
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        bool,
        typer.Option(
            "--weights",
            help="Instead of exploring k, try larger weights for the columns whose categories "
            "are lost at the first k.",
        ),
    ] = False,
    seed: Seed = 0,
    missing: Missing = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure the risk and loss of each k and method, and recommend one. Nothing is released."""
    messages = Messages(quiet)
    sizes, options = parse_sizes(k), {**parse_settings(settings or ()), **parse_effort(effort)}
    if weights:
        with messages.progress():
            trials = import_module("microcell.sweeps.weights").try_weights(
                mc.read(table, **read_options),
                mc.load_schema(schema),
                k=sizes[0],
                method=split_names(methods)[0],
                seed=seed,
                missing=missing,
                options=options,
            )
        _print_weights(trials, json)
        return
    requirements = parse_requirements(text for text in require or () if ":" not in text)
    ranges = dict(parse_range(text) for text in require or () if ":" in text)
    check_directions(requirements, lower_is_better)
    check_files(output, figure, sources=(table, schema))
    with messages.progress():
        exploration = mc.explore(
            mc.read(table, **read_options),
            mc.load_schema(schema),
            k=sizes,
            methods=split_names(methods),
            require={**{item.measure: item.limit for item in requirements}, **ranges},
            risk=risk,
            loss=loss,
            seed=seed,
            missing=missing,
            options=options,
        )
    sides = {name: measure.lower_is_better for name, measure in _measures(exploration).items()}
    check_directions(requirements, sides.get)  # directions that only the audit knows
    if json:
        print_data(jsons.dumps(_as_data(exploration), indent=2))
    else:
        print_table(
            _headings(exploration),
            [_exploration_row(exploration, point) for point in exploration.points],
        )
        messages.info(
            f"* no other row is better in both {exploration.risk} and {loss}; > recommended; "
            "! misses a limit"
        )
    _write_files(exploration, figure, output)
    messages.facts([*method_notes(exploration.points), *_outcome(exploration, figure, output)])
    if exploration.recommended is None:
        raise RequirementError(exploration.reason, code="guarantee.requirement_not_met")


def _write_files(exploration: "Exploration", figure: Path | None, output: Path | None) -> None:
    with AtomicFiles() as atomic:
        if figure is not None:
            atomic.path(figure).write_bytes(
                mc.plot.exploration(exploration, format=figure_format(figure, "--figure"))
            )
        if output is not None:
            mc.write(_exploration_columns(exploration), atomic.path(output))


def _outcome(
    exploration: "Exploration", figure: Path | None, output: Path | None
) -> Iterator[tuple[str, str]]:
    if exploration.recommended is not None:
        yield "recommended", f"{exploration.recommended}, {exploration.reason}"
    if figure is not None:
        yield "figure", str(figure)
    if output is not None:
        yield "map", str(output)


def _shown_measures(exploration: "Exploration") -> list[str]:
    """Return the measures to show: those of the axes and limits, and a few others."""
    names = [
        exploration.risk,
        exploration.loss,
        *(name for name in _ALSO_SHOWN if name in _measures(exploration)),
        *exploration.limits,
    ]
    return [name for name in dict.fromkeys(names) if name != "k"]


def _measures(exploration: "Exploration") -> Mapping[str, "Measure"]:
    """Return the measures of the audit, by name."""
    return next(point.measures for point in exploration.points if not point.skipped)


def _headings(exploration: "Exploration") -> list[str]:
    return [
        "",
        "method",
        "k",
        *(["limit"] if exploration.varied else []),
        "audit\nk",
        *map(_heading, _shown_measures(exploration)),
        "seconds",
    ]


def _heading(name: str) -> str:
    start, underscore, end = name.rpartition("_")
    return f"{start}{underscore}\n{end}" if underscore and len(name) > _MAX_HEADING else name


def _exploration_row(exploration: "Exploration", point: "Point") -> list[str]:
    if point.skipped:
        limit = [f"{point.limit:g}"] if point.limit is not None else []
        return ["", point.method, str(point.k), *limit, "skipped"]
    mark = ">" if point == exploration.recommended else "*" if point in exploration.frontier else ""
    numbers = [_cell(exploration, point, name) for name in _shown_measures(exploration)]
    return [
        mark,
        point.method,
        str(point.k),
        *([f"{point.limit:g}"] if point.limit is not None else []),
        _cell(exploration, point, "k"),
        *numbers,
        f"{point.seconds:.3f}",
    ]


def _cell(exploration: "Exploration", point: "Point", name: str) -> str:
    limit = exploration.limits.get(name)
    missed = limit is not None and not point.measures[name].meets(limit)
    return f"{point.measures[name].format()}{'!' * missed}"


def _as_data(exploration: "Exploration") -> dict[str, Any]:
    """Return the exploration as plain data for JSON."""
    return {
        "risk": exploration.risk,
        "loss": exploration.loss,
        "limits": dict(exploration.limits),
        "recommended": None
        if exploration.recommended is None
        else exploration.facts(exploration.recommended),
        "reason": exploration.reason,
        "points": [
            exploration.facts(point)
            | {"reason": point.reason, "measures": {name: point[name] for name in point.measures}}
            for point in exploration.points
        ],
    }


def _exploration_columns(exploration: "Exploration") -> dict[str, list[Any]]:
    """Return the exploration as a table with a row per point and a column per measure."""
    rows = exploration.rows()
    return {name: [row[name] for row in rows] for name in rows[0]}


DEPENDENCE_EXAMPLES = (
    "microcell dependence people.csv -s schema.toml -k 5,10,20",
    "microcell dependence people.csv -s schema.toml -k 5 --more 0.02",
    "microcell dependence people.csv -s schema.toml -k 5,10 --method mdav -o sweep.csv "
    "--figure sweep.svg",
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
            help="Weights of dependence to try, from 0 to 1. Default: 0, 0.1, ..., 1. The "
            "best that adds at most 5 % to the information loss is recommended.",
            show_default=False,
        ),
    ] = None,
    more: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Find the weight that preserves most of the association while increasing "
            "information loss by at most this share, such as 0.05. Replaces --lambdas.",
            show_default=False,
        ),
    ] = None,
    dependence_loss: Annotated[
        float | None,
        typer.Option(
            metavar="D_Y",
            help="Find the weight with the lowest information loss that loses at most this share "
            "of the association, such as 0.5. Replaces --lambdas.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN=WEIGHT,...",
            help="Relative weights of confidential columns. Default: one weight for all.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the results as a table.",
            show_default=False,
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Plot the trade-offs: .svg, .png or .pdf.", show_default=False
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="Method; `microcell methods` lists them.")
    ] = "auto",
    blocks: Blocks = None,
    effort: Effort = None,
    settings: Settings = None,
    seed: Seed = 0,
    missing: Missing = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure the cost of preserving associations with confidential columns. Releases nothing."""
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
            lambdas=weights,
            more=more,
            dependence_loss=dependence_loss,
            columns=_parse_columns(columns),
            **{**parse_settings(settings or ()), **parse_effort(effort)},
        )
    if more is None and dependence_loss is None:
        more = _MORE
    recommended = sweep.at_most(more=more, dependence_loss=dependence_loss)
    with AtomicFiles() as atomic:
        if output is not None:
            mc.write(_as_columns(sweep.points), atomic.path(output))
        if figure is not None:
            atomic.path(figure).write_bytes(
                mc.plot.dependence(sweep, format=figure_format(figure, "--figure"))
            )
    if json:
        points = [_plain(point) for point in sweep.points]
        chosen = [{"k": point.k, "lambda": point.dependence} for point in recommended]
        print_data(jsons.dumps({"points": points, "recommended": chosen}, indent=2))
    else:
        print_table(_HEADINGS, [_row(point) for point in sweep.points])
        messages.info(_LEGEND)
    messages.facts(_describe_weights(sweep, recommended))
    messages.facts(
        (name, str(path))
        for name, path in (("points", output), ("figure", figure))
        if path is not None
    )


_MORE = 0.05
"""Relative increase in information loss that a recommended weight may cost, if none is stated."""

_HEADINGS = ("k", "lambda", "D_X", "D_Y", "weighted", "D_X change", "D_Y change", "l_avg", "DLD")
_LEGEND = (
    "D_X: information loss of the quasi-identifiers. D_Y: share of the association between "
    "quasi-identifiers and confidential columns that is lost. weighted: "
    "(1 - lambda) D_X + lambda D_Y. l_avg: "
    "distinct confidential values per cell, on average. DLD: share of records whose nearest "
    "published record is their own."
)


def _row(point: "DependencePoint") -> list[str]:
    return [
        str(point.k),
        f"{point.dependence:g}",
        percent(point.distortion),
        percent(point.dependence_loss),
        percent(point.weighted),
        _percent(point.distortion_increment),
        _percent(point.loss_increment),
        f"{point.diversity:.2f}",
        percent(point.dld),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %"


def _describe_weights(
    sweep: "DependenceSweep", recommended: Sequence["DependencePoint"]
) -> Iterator[tuple[str, str]]:
    """Yield a sentence on the weight recommended for each k, and a note on blocks."""
    points = {point.k: point for point in recommended}
    for k in dict.fromkeys(point.k for point in sweep.points):
        point = points.get(k)
        if point is None:
            yield f"k = {k}", "no weight meets the target; relax it or lower k"
            continue
        weights = sweep.weights(point)
        shown = (
            ",".join(f"{name}={weight:.6g}" for name, weight in weights.items())
            if isinstance(weights, dict)
            else f"{weights:.6g}"
        )
        yield (
            f"k = {k}",
            f"--dependence {shown}: information loss {_percent(point.distortion_increment)}, "
            f"{100 * (1 - point.dependence_loss):.1f} % of the association preserved",
        )
    if sweep.blocks:
        below = [point.joint_k for point in sweep.points if point.joint_k < point.k]
        combined = f"k falls to {min(below)}" if below else "are k-anonymous too"
        yield "blocks", f"each block is k-anonymous; all columns combined: {combined}"


def _parse_columns(text: str | None) -> dict[str, float] | None:
    weights = parse_dependence(text)
    if weights is not None and not isinstance(weights, dict):
        raise OptionError(
            "--columns must be weights by column, such as income=2,bmi=1.",
            code="option.invalid",
            option="--columns",
        )
    return weights


def _parse_lambdas(text: str) -> list[float]:
    try:
        weights = [float(part) for part in split_names(text)]
    except ValueError:
        weights = []
    if not weights:
        raise OptionError(
            f"--lambdas must be numbers separated by commas, such as 0,0.1,0.2, not {text!r}.",
            code="option.invalid",
            option="lambdas",
        )
    return weights


def _plain(point: "DependencePoint") -> dict[str, Any]:
    """Return the point as plain data, with None for infinity, which JSON does not have."""
    return {name: None if value == float("inf") else value for name, value in asdict(point).items()}


def _as_columns(points: Sequence["DependencePoint"]) -> dict[str, list[Any]]:
    """Return the points as a table, with infinite increases as missing values, as in JSON."""
    rows = [_plain(point) for point in points]
    return {item.name: [row[item.name] for row in rows] for item in fields(points[0])}


def _print_weights(trials: "Sequence[WeightTrial]", json: bool) -> None:
    if json:
        print_data(jsons.dumps([asdict(trial) for trial in trials], indent=2))
    elif not trials:
        print_data("No category of at least k people is lost, so no weight needs to change.")
    else:
        headings = ("column", "weight", "people", "kept", "instead of", "loss elsewhere", "change")
        rows = [
            (
                trial.column,
                f"{trial.weight:g}",
                f"{trial.people:,}",
                f"{100 * trial.kept:.0f} %",
                f"{100 * trial.kept_before:.0f} %",
                f"{trial.loss:.4f}",
                f"{trial.loss - trial.loss_before:+.4f}",
            )
            for trial in trials
        ]
        print_table(headings, rows)
