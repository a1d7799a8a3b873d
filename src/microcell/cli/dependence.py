"""``microcell dependence``: what preserving the dependence on confidential columns costs and keeps."""

import json as jsons
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import microcell as mc
from microcell.cli._console import Words, print_data, print_table
from microcell.cli._failures import guarded
from microcell.cli._options import (
    Blocks,
    Effort,
    Json,
    Quiet,
    SchemaFile,
    figure_form,
    parse_blocks,
    parse_effort,
    parse_settings,
    split_names,
    takes_reading,
)
from microcell.cli._sweeps import Missing, Seed, Settings, Sizes, TriedTable, check_files, parse_sizes
from microcell.errors import OptionError
from microcell.staging import Staging

if TYPE_CHECKING:
    from microcell import DependencePoint, DependenceSweep

__all__ = ["EXAMPLES", "dependence"]

EXAMPLES = (
    "microcell dependence people.csv -s schema.toml -k 5,10,20",
    "microcell dependence people.csv -s schema.toml -k 5 --lambdas 0,0.05,0.1,0.2 --loss 0.02",
    "microcell dependence people.csv -s schema.toml -k 5,10 --method mdav -o sweep.csv --figure sweep.svg",
)


@guarded
@takes_reading
def dependence(
    *,
    reading: Mapping[str, Any],
    table: TriedTable,
    schema: SchemaFile,
    k: Sizes,
    lambdas: Annotated[
        str | None,
        typer.Option(
            metavar="L,L,...", help="Weights of dependence, from 0 to 1. Default: 0, 0.1, ..., 1.", show_default=False
        ),
    ] = None,
    loss: Annotated[
        float, typer.Option(metavar="SHARE", help="The distortion that may be added, for the weight recommended.")
    ] = 0.05,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the points as a table.", show_default=False),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the trade-offs: .svg, .png or .pdf.", show_default=False),
    ] = None,
    method: Annotated[str, typer.Option(metavar="NAME", help="How to make cells; see microcell methods.")] = "auto",
    blocks: Blocks = None,
    effort: Effort = None,
    settings: Settings = None,
    seed: Seed = 0,
    missing: Missing = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Sweep the weight of dependence: what the quasi-identifiers lose, what is kept of their relation to the rest."""
    words = Words(quiet)
    sizes, weights = parse_sizes(k), None if lambdas is None else _parse_lambdas(lambdas)
    check_files(output, figure, sources=(table, schema))
    with words.progress():
        sweep = mc.dependence_sweep(
            mc.read(table, **reading),
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
            staging.path(figure).write_bytes(mc.draw_dependence(sweep, figure_form(figure, "--figure")))
    if json:
        points = [_plain(point) for point in sweep.points]
        chosen = [{"k": point.k, "lambda": point.dependence} for point in recommended]
        print_data(jsons.dumps({"points": points, "recommended": chosen}, indent=2))
    else:
        print_table(_HEADINGS, [_row(point) for point in sweep.points])
    words.list(_remarks(sweep, recommended, loss))
    words.list((name, str(path)) for name, path in (("points", output), ("figure", figure)) if path is not None)


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
            yield heading, f"no weight tried keeps within {100 * loss:g} % of the least distortion: try smaller ones"
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
        raise OptionError(f"--lambdas takes numbers with commas between them, such as 0,0.1,0.2, not {text!r}.")
    return weights


def _plain(point: "DependencePoint") -> dict[str, Any]:
    """The point as plain data, without infinities: JSON has none."""
    return {name: None if value == float("inf") else value for name, value in asdict(point).items()}


def _as_columns(points: Sequence["DependencePoint"]) -> dict[str, list[Any]]:
    """The points as a table; an infinite increase is a missing value, as in JSON."""
    rows = [_plain(point) for point in points]
    return {item.name: [row[item.name] for row in rows] for item in fields(points[0])}
