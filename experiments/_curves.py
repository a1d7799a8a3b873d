"""Plain figures of curves: panels side by side, one look for all."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["COLOURS", "label", "panels", "verdict"]

COLOURS = ("#0b4f8a", "#c8553d", "#3a7d44", "#8e5ea2", "#b8860b", "#4b4b4b")
"""Told apart also by those who do not see red and green as different, with the markers and dashes that go with them."""


def panels(count: int, *, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels and the panels, row by row."""
    columns = -(-count // rows)
    figure = Figure(figsize=(4.4 * columns, 3.4 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    listed = [axes[row][column] for row in range(rows) for column in range(columns)]
    for unused in listed[count:]:
        unused.set_visible(False)
    return figure, listed[:count]


def label(
    axes: Axes, title: str, across: str, up: str, *, legend: bool = True, **limits: Any
) -> None:
    """Name a panel and its axes; ``limits`` are those of :meth:`matplotlib.axes.Axes.set`."""
    axes.set(title=title, xlabel=across, ylabel=up, **limits)
    axes.title.set_fontsize(10)
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    if legend:
        axes.legend(fontsize=7, frameon=False)


def verdict(*holds: bool | np.bool_) -> str:
    """The word for a claim of a paper that holds here, or all of several claims."""
    return "reproduced" if all(holds) else "differs"
