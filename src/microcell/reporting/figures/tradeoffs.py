"""The figure of the trade-off between distortion and preserved dependence."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from microcell.reporting.figures._sheets import CLASS_COLOURS, EDGE, MARKERS, as_file, sheet, style
from microcell.reporting.tradeoffs import Tradeoff

__all__ = ["draw_tradeoffs"]

_NAMED = (0.0, 0.5, 1.0)
"""The weights that are written beside their points."""

_FARTHEST = 1.2
"""Who adds more distortion than this share has left the part of the picture where gains can exceed losses."""


def draw_tradeoffs(points: Sequence[Tradeoff], form: str) -> bytes:
    """Two panels, a curve for each k: D_Y against D_X, and the gain of the one against the loss of the other."""
    with style():
        figure = sheet(8.8, 4.0)
        plain, relative = figure.subplots(1, 2)
        for place, k in enumerate(sorted({point.k for point in points})):
            own = sorted((point for point in points if point.k == k), key=lambda point: point.dependence)
            _draw_curve(plain, [(point.distortion, point.loss) for point in own], own, place)
            if place == 0:
                _name_weights(plain, own)
            near = [point for point in own if point.distortion_increment <= _FARTHEST]
            changes = [(100 * point.distortion_increment, -100 * point.loss_increment) for point in near]
            _draw_curve(relative, changes, near, place)
        plain.set_xlabel("Distortion of the quasi-identifiers, D_X")
        plain.set_ylabel("Loss of dependence, D_Y")
        _draw_balance(relative)
        figure.legend(*plain.get_legend_handles_labels(), loc="outside right upper", frameon=False)
        return as_file(figure, form)


def _draw_curve(axes: Axes, places: Sequence[tuple[float, float]], own: Sequence[Tradeoff], place: int) -> None:
    """A line through the points that can be drawn."""
    shown = [spot for spot in places if np.isfinite(spot).all()]
    if not shown:
        return
    colour, marker = CLASS_COLOURS[place % len(CLASS_COLOURS)], MARKERS[place % len(MARKERS)]
    across, up = zip(*shown, strict=True)
    axes.plot(across, up, marker + "-", color=colour, markersize=4, linewidth=1, label=f"k = {own[0].k}")


def _name_weights(axes: Axes, own: Sequence[Tradeoff]) -> None:
    """Some weights, written beside the points of a curve."""
    for item in own:
        if item.dependence in _NAMED:
            spot = (item.distortion, item.loss)
            text = f"λ = {item.dependence:g}"
            axes.annotate(text, spot, xytext=(5, 4), textcoords="offset points", fontsize=8, color=CLASS_COLOURS[0])


def _draw_balance(axes: Axes) -> None:
    """The line on which as much is gained as is lost."""
    top = max(min(axes.get_xlim()[1], axes.get_ylim()[1]), 1.0)
    axes.plot([0, top], [0, top], "--", color=EDGE, linewidth=1)
    axes.annotate("gain = loss", (0.75 * top, 0.75 * top), (6, -4), textcoords="offset points", va="top", fontsize=8)
    axes.set_xlabel("Distortion added (%)")
    axes.set_ylabel("Loss of dependence avoided (%)")
