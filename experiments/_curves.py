"""Figures of curves: panels side by side in one style."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["COLOURS", "label", "panels", "verdict"]

COLOURS = ("#0b4f8a", "#c8553d", "#3a7d44", "#8e5ea2", "#b8860b", "#4b4b4b")
"""Distinguishable with color vision deficiency, together with markers and dashes."""


def panels(count: int, *, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, row by row."""
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
    """Set the title, axis labels and (as for ``Axes.set``) limits of a panel."""
    axes.set(title=title, xlabel=across, ylabel=up, **limits)
    axes.title.set_fontsize(10)
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    if legend:
        axes.legend(fontsize=7, frameon=False)


def verdict(*holds: bool | np.bool_) -> str:
    """Return "reproduced" if all claims hold, else "differs"."""
    return "reproduced" if all(holds) else "differs"
