"""The figure of risk against loss over k and methods."""

from collections.abc import Sequence
from itertools import cycle
from math import hypot
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from microcell.reporting.explorations import RiskMap, Scale, Spot
from microcell.reporting.figures._sheets import (
    BEFORE,
    CLASS_COLOURS,
    EDGE,
    INK,
    MARKERS,
    as_file,
    sheet,
    shortened,
    style,
)

__all__ = ["draw_map"]

_ROOM = 0.08
"""The room left around marks and limits, as a share of what they span."""

_TOGETHER = 0.08
"""Marks nearer than this share of the axes have one label, if they have the same k."""

_SHADE: Any = {"facecolor": BEFORE, "edgecolor": EDGE, "alpha": 0.35, "hatch": "///"}


def draw_map(riskmap: RiskMap, form: str) -> bytes:
    """Risk against loss: better is to the left and below, whichever way the measures go."""
    spots = riskmap.spots
    methods = list(dict.fromkeys(spot.method for spot in spots))
    with style():
        figure = sheet(6.4, 4.2)
        axes = figure.add_subplot()
        _scale(axes, riskmap)
        _shade_limits(axes, riskmap)
        _draw_frontier(axes, [spot for spot in spots if spot.frontier], riskmap)
        for method, marker, colour in zip(methods, cycle(MARKERS), cycle(CLASS_COLOURS), strict=False):
            _draw_method(axes, [spot for spot in spots if spot.method == method], marker, colour)
        _label(axes, spots)
        _ring(axes, [spot for spot in spots if spot.recommended])
        figure.legend(handles=_handles(axes, riskmap), loc="outside right upper", frameon=False)
        return as_file(figure, form)


def _handles(axes: Axes, riskmap: RiskMap) -> list[Artist]:
    """What the legend explains: what was drawn with a name, shading, and hollow marks where there are some."""
    handles: list[Artist] = list(axes.get_legend_handles_labels()[0])
    if not all(spot.meets for spot in riskmap.spots):
        hollow = Line2D([], [], linestyle="", marker="o", color=INK, markerfacecolor="white", label="misses a limit")
        handles.append(hollow)
    if riskmap.risk.limit is not None or riskmap.loss.limit is not None:
        handles.append(Patch(**_SHADE, label="beyond a limit"))
    return handles


def _scale(axes: Axes, riskmap: RiskMap) -> None:
    """Axes that hold all marks and limits, turned so that the better end is at the origin."""
    spans = (
        (riskmap.loss, [spot.loss for spot in riskmap.spots], axes.set_xlim, axes.set_xlabel, "Loss"),
        (riskmap.risk, [spot.risk for spot in riskmap.spots], axes.set_ylim, axes.set_ylabel, "Risk"),
    )
    for scale, values, set_limits, set_label, word in spans:
        set_limits(*_ends(values, scale))
        set_label(f"{word}: {scale.name} ({'less' if scale.lower_is_better else 'more'} is better)")


def _ends(values: Sequence[float], scale: Scale) -> tuple[float, float]:
    """The better end of an axis and the worse: around all marks, and the limit if it lies near them."""
    spread = (max(values) - min(values)) or abs(max(values)) or 1.0
    near = scale.limit is not None and min(values) - spread <= scale.limit <= max(values) + spread
    held = [*values, *([scale.limit] if near and scale.limit is not None else [])]
    ends = (min(held) - _ROOM * spread, max(held) + _ROOM * spread)
    return ends if scale.lower_is_better else ends[::-1]


def _shade_limits(axes: Axes, riskmap: RiskMap) -> None:
    """Shade what lies beyond the limit of an axis, with hatching, so that it is seen without colour."""
    for scale, ends, span, line in (
        (riskmap.loss, axes.get_xlim(), axes.axvspan, axes.axvline),
        (riskmap.risk, axes.get_ylim(), axes.axhspan, axes.axhline),
    ):
        if scale.limit is not None:
            start = min(max(scale.limit, min(ends)), max(ends))
            span(start, ends[1], **_SHADE, linewidth=0, zorder=0)
            line(start, color=EDGE, linewidth=1, zorder=0)


def _draw_frontier(axes: Axes, spots: Sequence[Spot], riskmap: RiskMap) -> None:
    """The frontier as broken stairs: what lies above and to the right of them is beaten by one of its points."""
    ordered = sorted(spots, key=lambda spot: (_turned(spot.loss, riskmap.loss), -_turned(spot.risk, riskmap.risk)))
    axes.plot(
        [spot.loss for spot in ordered],
        [spot.risk for spot in ordered],
        drawstyle="steps-post",
        linestyle=(0, (3, 1)),
        linewidth=3.5,
        color=BEFORE,
        label="frontier",
        zorder=1,
    )


def _draw_method(axes: Axes, spots: Sequence[Spot], marker: str, colour: str) -> None:
    """A line through the method's marks by k, hollow where a limit is missed."""
    ordered = sorted(spots, key=lambda spot: spot.k)
    loss, risk = [spot.loss for spot in ordered], [spot.risk for spot in ordered]
    axes.plot(loss, risk, marker=marker, color=colour, linewidth=1, label=ordered[0].method, zorder=2)
    missed = [spot for spot in ordered if not spot.meets]
    axes.plot(
        [spot.loss for spot in missed],
        [spot.risk for spot in missed],
        marker,
        color=colour,
        markerfacecolor="white",
        zorder=3,
    )


def _label(axes: Axes, spots: Sequence[Spot]) -> None:
    """The k beside each mark, once where marks of the same k lie together."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    placed: list[tuple[int, float, float]] = []
    for spot in spots:
        x, y = (spot.loss - left) / (right - left), (spot.risk - low) / (high - low)
        if not any(k == spot.k and hypot(x - a, y - b) < _TOGETHER for k, a, b in placed):
            placed.append((spot.k, x, y))
            place = (spot.loss, spot.risk)
            axes.annotate(f"k = {spot.k}", place, xytext=(6, 5), textcoords="offset points", fontsize=8, zorder=5)


def _ring(axes: Axes, spots: Sequence[Spot]) -> None:
    for spot in spots:
        axes.plot(
            [spot.loss],
            [spot.risk],
            "o",
            markersize=15,
            markerfacecolor="none",
            markeredgecolor=INK,
            markeredgewidth=1.8,
            label=f"recommended:\n{shortened(spot.method)}, k = {spot.k}",
            zorder=4,
        )


def _turned(value: float, scale: Scale) -> float:
    return value if scale.lower_is_better else -value
