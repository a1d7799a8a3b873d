"""``microcell explore``: a map of risk and loss over k and methods, and the point to take."""

import json as jsons
from collections.abc import Iterator, Mapping
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
    check_sides,
    figure_form,
    parse_effort,
    parse_requirements,
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
    check_files,
    parse_sizes,
    remarks,
)
from microcell.errors import RequirementError
from microcell.requirements import LOWER_IS_BETTER, base_of
from microcell.staging import Staging

if TYPE_CHECKING:
    from microcell import Exploration, Measure, Point

__all__ = ["EXAMPLES", "explore"]

EXAMPLES = (
    "microcell explore people.csv -s schema.toml -k 3,5,10,20,50",
    "microcell explore people.csv -s schema.toml -k 3,5,10 --require 'distortion<=0.5' --figure map.svg",
    "microcell explore people.csv -s schema.toml -k 5,10 --methods auto,mdav --risk prosecutor_worst --output map.csv",
)

_BESIDE = ("prosecutor_worst", "l_diversity", "t_closeness")
"""Measures that the table shows beside those of the axes and the limits, where the audit has them."""

_WIDEST = 10
"""Letters of a heading; a longer name goes to two lines, so that the table fits in a terminal."""


@guarded
@takes_reading
def explore(
    *,
    reading: Mapping[str, Any],
    table: TriedTable,
    schema: SchemaFile,
    k: Sizes,
    methods: Annotated[str, typer.Option(metavar="NAME,NAME,...", help="See microcell methods.")] = "auto",
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEASURE=LIMIT",
            help="A limit to meet, such as distortion<=0.1 or t_closeness<=0.3; repeatable. The point with the least "
            "loss that meets all is recommended; without limits, the knee of the frontier.",
        ),
    ] = None,
    risk: Annotated[str, typer.Option(metavar="MEASURE", help="The measure of the audit to show as risk.")] = "linkage",
    loss: Annotated[str, typer.Option(metavar="MEASURE", help="The one to show as loss.")] = "distortion",
    effort: Effort = None,
    settings: Settings = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw risk against loss: .svg, .png or .pdf.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the map, with all measures, as a table.", show_default=False
        ),
    ] = None,
    seed: Seed = 0,
    missing: Missing = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Explore which k to take: the risk and the loss of each k and method, and the best point; releases nothing."""
    words = Words(quiet)
    sizes, options = parse_sizes(k), {**parse_settings(settings or ()), **parse_effort(effort)}
    requirements = parse_requirements(require or ())
    check_sides(requirements, lambda name: LOWER_IS_BETTER.get(base_of(name) or ""))
    check_files(output, figure, sources=(table, schema))
    with words.progress():
        found = mc.explore(
            mc.read(table, **reading),
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
    check_sides(requirements, sides.get)  # those too whose side is known only now
    if json:
        print_data(jsons.dumps(_as_data(found), indent=2))
    else:
        print_table(_headings(found), [_row(found, point) for point in found.points])
        words.say(f"* on the frontier of {risk} and {loss}; > recommended; ! misses its limit")
    _write_files(found, figure, output)
    words.list([*remarks(found.points), *_outcome(found, figure, output)])
    if found.recommended is None:
        raise RequirementError(found.why)


def _write_files(found: "Exploration", figure: Path | None, output: Path | None) -> None:
    with Staging() as staging:
        if figure is not None:
            staging.path(figure).write_bytes(mc.draw_exploration(found, figure_form(figure, "--figure")))
        if output is not None:
            mc.write(_as_columns(found), staging.path(output))


def _outcome(found: "Exploration", figure: Path | None, output: Path | None) -> Iterator[tuple[str, str]]:
    if found.recommended is not None:
        yield "recommended", f"{found.recommended}, {found.why}"
    if figure is not None:
        yield "figure", str(figure)
    if output is not None:
        yield "map", str(output)


# ---------------------------------------------------------------------------------------------- as a table


def _shown(found: "Exploration") -> list[str]:
    """The names of the measures that the table shows: those of the axes, of the limits, and some beside them."""
    wanted = [found.risk, found.loss, *(name for name in _BESIDE if name in _known(found)), *found.limits]
    return [name for name in dict.fromkeys(wanted) if name != "k"]


def _known(found: "Exploration") -> Mapping[str, "Measure"]:
    """The measures that the audit has, by name."""
    return next(point.measures for point in found.points if not point.skipped)


def _headings(found: "Exploration") -> list[str]:
    return ["", "method", "k", "found", *map(_heading, _shown(found)), "seconds"]


def _heading(name: str) -> str:
    start, underscore, end = name.rpartition("_")
    return f"{start}{underscore}\n{end}" if underscore and len(name) > _WIDEST else name


def _row(found: "Exploration", point: "Point") -> list[str]:
    if point.skipped:
        return ["", point.method, str(point.k), "skipped"]
    mark = ">" if point == found.recommended else "*" if point in found.frontier else ""
    numbers = [_cell(found, point, name) for name in _shown(found)]
    return [mark, point.method, str(point.k), _cell(found, point, "k"), *numbers, f"{point.seconds:.3f}"]


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
            _facts(found, point) | {"why": point.why, "measures": {name: point[name] for name in point.measures}}
            for point in found.points
        ],
    }


def _as_columns(found: "Exploration") -> dict[str, list[Any]]:
    """The map as a table, a row for each point and a column for each measure; k as measured is ``found``."""
    names = [name for name in _known(found) if name != "k"]
    rows = [
        _facts(found, point) | {name: None if point.skipped else point[name] for name in names}
        for point in found.points
    ]
    return {name: [row[name] for row in rows] for name in rows[0]}
