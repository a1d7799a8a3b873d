"""The figure of a plan over time."""

from collections.abc import Sequence
from itertools import cycle
from math import hypot
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from microcell.report.figures.base import (
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
from microcell.report.plots import Mark, RiskMap, Scale, Span, Spot, Timeline, Tradeoff

__all__ = ["draw_map", "draw_marks", "draw_timeline", "draw_tradeoffs"]

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
        for method, marker, colour in zip(
            methods, cycle(MARKERS), cycle(CLASS_COLOURS), strict=False
        ):
            _draw_exploration_method(
                axes, [spot for spot in spots if spot.method == method], marker, colour
            )
        _label(axes, spots)
        _ring(axes, [spot for spot in spots if spot.recommended])
        figure.legend(handles=_handles(axes, riskmap), loc="outside right upper", frameon=False)
        return as_file(figure, form)


def _handles(axes: Axes, riskmap: RiskMap) -> list[Artist]:
    """What the legend explains: what was drawn with a name, shading, and hollow marks where there are some."""
    handles: list[Artist] = list(axes.get_legend_handles_labels()[0])
    if not all(spot.meets for spot in riskmap.spots):
        hollow = Line2D(
            [],
            [],
            linestyle="",
            marker="o",
            color=INK,
            markerfacecolor="white",
            label="misses a limit",
        )
        handles.append(hollow)
    if riskmap.risk.limit is not None or riskmap.loss.limit is not None:
        handles.append(Patch(**_SHADE, label="beyond a limit"))
    return handles


def _scale(axes: Axes, riskmap: RiskMap) -> None:
    """Axes that hold all marks and limits, turned so that the better end is at the origin."""
    spans = (
        (
            riskmap.loss,
            [spot.loss for spot in riskmap.spots],
            axes.set_xlim,
            axes.set_xlabel,
            "Loss",
        ),
        (
            riskmap.risk,
            [spot.risk for spot in riskmap.spots],
            axes.set_ylim,
            axes.set_ylabel,
            "Risk",
        ),
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
    ordered = sorted(
        spots,
        key=lambda spot: (_turned(spot.loss, riskmap.loss), -_turned(spot.risk, riskmap.risk)),
    )
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


def _draw_exploration_method(axes: Axes, spots: Sequence[Spot], marker: str, colour: str) -> None:
    """A line through the method's marks by k, hollow where a limit is missed."""
    ordered = sorted(spots, key=lambda spot: spot.k)
    loss, risk = [spot.loss for spot in ordered], [spot.risk for spot in ordered]
    axes.plot(
        loss, risk, marker=marker, color=colour, linewidth=1, label=ordered[0].method, zorder=2
    )
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
            axes.annotate(
                f"k = {spot.k}",
                place,
                xytext=(6, 5),
                textcoords="offset points",
                fontsize=8,
                zorder=5,
            )


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
            own = sorted(
                (point for point in points if point.k == k), key=lambda point: point.dependence
            )
            _draw_curve(plain, [(point.distortion, point.loss) for point in own], own, place)
            if place == 0:
                _name_weights(plain, own)
            near = [point for point in own if point.distortion_increment <= _FARTHEST]
            changes = [
                (100 * point.distortion_increment, -100 * point.loss_increment) for point in near
            ]
            _draw_curve(relative, changes, near, place)
        plain.set_xlabel("Distortion of the quasi-identifiers, D_X")
        plain.set_ylabel("Loss of dependence, D_Y")
        _draw_balance(relative)
        figure.legend(*plain.get_legend_handles_labels(), loc="outside right upper", frameon=False)
        return as_file(figure, form)


def _draw_curve(
    axes: Axes, places: Sequence[tuple[float, float]], own: Sequence[Tradeoff], place: int
) -> None:
    """A line through the points that can be drawn."""
    shown = [spot for spot in places if np.isfinite(spot).all()]
    if not shown:
        return
    colour, marker = CLASS_COLOURS[place % len(CLASS_COLOURS)], MARKERS[place % len(MARKERS)]
    across, up = zip(*shown, strict=True)
    axes.plot(
        across, up, marker + "-", color=colour, markersize=4, linewidth=1, label=f"k = {own[0].k}"
    )


def _name_weights(axes: Axes, own: Sequence[Tradeoff]) -> None:
    """Some weights, written beside the points of a curve."""
    for item in own:
        if item.dependence in _NAMED:
            spot = (item.distortion, item.loss)
            text = f"λ = {item.dependence:g}"
            axes.annotate(
                text,
                spot,
                xytext=(5, 4),
                textcoords="offset points",
                fontsize=8,
                color=CLASS_COLOURS[0],
            )


def _draw_balance(axes: Axes) -> None:
    """The line on which as much is gained as is lost."""
    top = max(min(axes.get_xlim()[1], axes.get_ylim()[1]), 1.0)
    axes.plot([0, top], [0, top], "--", color=EDGE, linewidth=1)
    axes.annotate(
        "gain = loss",
        (0.75 * top, 0.75 * top),
        (6, -4),
        textcoords="offset points",
        va="top",
        fontsize=8,
    )
    axes.set_xlabel("Distortion added (%)")
    axes.set_ylabel("Loss of dependence avoided (%)")


_QUICKEST = 1e-4
"""Seconds; less is drawn as this, since the axis of a logarithm has no 0."""


def draw_marks(marks: Sequence[Mark], form: str) -> bytes:
    """Distortion against seconds: a marker for each method, a line for each k."""
    methods = list(dict.fromkeys(mark.method for mark in marks))
    with style():
        figure = sheet(6.4, 4.0)
        axes = figure.add_subplot()
        for k in sorted({mark.k for mark in marks}):
            _draw_trial_line(axes, [mark for mark in marks if mark.k == k])
        for place, method in enumerate(methods):
            _draw_method(axes, [mark for mark in marks if mark.method == method], place)
        _scale_seconds(axes, [_seconds(mark) for mark in marks])
        axes.set_ylabel("Distortion (SSE / SST)")
        figure.legend(loc="outside right upper", frameon=False)
        return as_file(figure, form)


def _draw_trial_line(axes: Axes, marks: Sequence[Mark]) -> None:
    """A line from the quickest to the slowest, with its k at the end."""
    ordered = sorted(marks, key=_seconds)
    last = ordered[-1]
    axes.plot(
        [_seconds(mark) for mark in ordered],
        [mark.distortion for mark in ordered],
        color=BEFORE,
        zorder=1,
    )
    place = (_seconds(last), last.distortion)
    axes.annotate(
        f"k = {last.k}", place, xytext=(8, 0), textcoords="offset points", va="center", fontsize=9
    )


def _draw_method(axes: Axes, marks: Sequence[Mark], place: int) -> None:
    axes.plot(
        [_seconds(mark) for mark in marks],
        [mark.distortion for mark in marks],
        MARKERS[place % len(MARKERS)],
        color=CLASS_COLOURS[place % len(CLASS_COLOURS)],
        label=marks[0].method,
        zorder=2,
    )


def _scale_seconds(axes: Axes, seconds: Sequence[float]) -> None:
    """A logarithmic axis with numbers at 1, 2, 5, 10, ..., wide enough to hold one, and the name of a line."""
    axes.set_xscale("log")
    axes.set_xlim(min(seconds) / 2, max(seconds) * 4)
    axes.xaxis.set_major_locator(
        LogLocator(subs=(1, 2, 5) if max(seconds) < 50 * min(seconds) else (1,))
    )
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("Seconds")


def _seconds(mark: Mark) -> float:
    return max(mark.seconds, _QUICKEST)


_UNITS = (
    (2 * 86400.0, 86400.0, "Days"),
    (2 * 3600.0, 3600.0, "Hours"),
    (120.0, 60.0, "Minutes"),
    (0.0, 1.0, "Seconds"),
)
"""From a range of so many seconds on, the axis has this unit, of so many seconds, with this name."""

_NARROW = 0.01
"""A bar is drawn at least so wide, as a part of the axis: a short step must be seen."""

_BAR = 0.55


def draw_timeline(timeline: Timeline, form: str) -> bytes:
    """A bar for each step on the line of its lane, with vertical lines where the data end and at the deadline."""
    lanes = list(dict.fromkeys(span.lane for span in timeline.spans))
    names = list(dict.fromkeys(span.name for span in timeline.spans))
    last = max(span.ends for span in timeline.spans)
    unit, label = next((size, name) for least, size, name in _UNITS if last >= least)
    with style():
        figure = sheet(7.2, 1.4 + 0.55 * len(lanes))
        axes = figure.add_subplot()
        for number, name in enumerate(names):
            own = [span for span in timeline.spans if span.name == name]
            _draw_spans(
                axes, own, lanes, BEFORE if number == 0 else CLASS_COLOURS[number - 1], unit, last
            )
        _draw_line(axes, timeline.data_end / unit, "end of the data", INK, "--")
        for words, time in timeline.marks:
            _draw_line(axes, time / unit, words, EDGE, ":")
        if timeline.deadline is not None:
            _draw_line(axes, timeline.deadline / unit, "deadline", CLASS_COLOURS[-1], "-.")
        axes.set_yticks(range(len(lanes)), lanes)
        axes.set_ylim(len(lanes) - 0.5, -0.5)
        axes.set_xlim(0, 1.03 * max(last, timeline.deadline or 0.0) / unit)
        axes.set_xlabel(f"{label} since the collection began")
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
        return as_file(figure, form)


def _draw_spans(
    axes: Axes, spans: list[Span], lanes: list[str], colour: str, unit: float, last: float
) -> None:
    widths = [max(span.ends - span.begins, _NARROW * last) for span in spans]
    # What is widened grows to the left: a step that ends in time must not be seen to end late.
    begins = [max(0.0, span.ends - width) for span, width in zip(spans, widths, strict=True)]
    axes.barh(
        [lanes.index(span.lane) for span in spans],
        [width / unit for width in widths],
        left=[begin / unit for begin in begins],
        height=_BAR,
        color=colour,
        label=spans[0].name,
    )


def _draw_line(axes: Axes, place: float, words: str, colour: str, dashes: str) -> None:
    axes.axvline(place, color=colour, linestyle=dashes, linewidth=1, label=words, zorder=3)
