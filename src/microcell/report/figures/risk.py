"""Figures of the risk of a single table: class sizes, columns, unique combinations."""

from itertools import pairwise

import numpy as np

from microcell.model import Floats, TableRisk
from microcell.report.figures.base import AFTER, Picture, new_figure, style, to_svg, truncate

__all__ = ["draw_risk"]

_BOUNDS = (1, 2, 3, 5, 10, 20, 50, 100)
"""Smallest class sizes of the bars."""


def draw_risk(result: TableRisk) -> tuple[Picture, ...]:
    """Draw people by the size of their class, what columns contribute, and unique combinations."""
    with style():
        pictures = [_draw_sizes(result), _draw_columns(result)]
        if result.combinations:
            pictures.append(_draw_combinations(result))
        return tuple(pictures)


def _draw_sizes(result: TableRisk) -> Picture:
    sizes = result.class_sizes
    bins = np.searchsorted(_BOUNDS, sizes, side="right") - 1
    people = np.bincount(bins, weights=sizes, minlength=len(_BOUNDS))
    labels = [
        str(low) if high == low + 1 else f"{low}-{high - 1}" for low, high in pairwise(_BOUNDS)
    ]
    share = 100 * people / people.sum()
    unit = f"{result.unit}s"
    below = 100 * result["people_below_k"] / people.sum()
    caption = (
        f"Share of {unit} by the number of {unit} in their class: {share[0]:.3g} % are unique, "
        f"{below:.3g} % are in classes below {result.threshold}."
    )
    names = [*labels, f"{_BOUNDS[-1]}+"]
    svg = _bars(names, share, f"{unit.capitalize()} per class", f"{unit.capitalize()} (%)", "sizes")
    return Picture(svg, caption)


def _draw_columns(result: TableRisk) -> Picture:
    columns = sorted(result.columns, key=lambda item: -item.suda)[:12]
    names = [truncate(item.name, 12) for item in columns]
    shares = np.array([100 * item.suda for item in columns])
    svg = _bars(names, shares, "", "Share of SUDA scores (%)", "columns", turned=True)
    caption = "What each column contributes to unique combinations."
    if result["unique_people"]:
        caption += f" {columns[0].name} contributes most."
    return Picture(svg, caption)


def _draw_combinations(result: TableRisk) -> Picture:
    masks, inverse = np.unique(result.smallest, return_inverse=True)
    fewest = np.array([mask.bit_count() for mask in masks.tolist()])
    counts = np.bincount(fewest[inverse], minlength=result.largest + 1)[1:]
    names = [str(size + 1) for size in range(result.largest)]
    svg = _bars(names, 100 * counts / result.rows, "Columns needed", "Rows (%)", "combinations")
    return Picture(svg, "Rows by the fewest columns that single them out.")


def _bars(
    names: list[str], heights: Floats, x: str, y: str, prefix: str, *, turned: bool = False
) -> str:
    figure = new_figure(5.0, 2.9)
    axes = figure.add_subplot()
    bars = axes.bar(np.arange(len(names)), heights, color=AFTER, width=0.75)
    labels = [f"{value:.2g}" if value else "" for value in heights.tolist()]
    axes.bar_label(bars, labels=labels, fontsize=9)
    axes.set_xticks(np.arange(len(names)), names, rotation=40 if turned else 0)
    if turned:
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return to_svg(figure, f"risk-{prefix}")
