"""Figures of sweeps: comparison of methods, risk against loss, and the dependence trade-off."""

from collections.abc import Sequence
from itertools import cycle
from math import hypot
from typing import TYPE_CHECKING, Any

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
    new_figure,
    style,
    to_bytes,
    truncate,
)

if TYPE_CHECKING:
    from microcell.sweeps import DependencePoint, DependenceSweep, Exploration, Point, Trial

__all__ = ["draw_comparison", "draw_dependence", "draw_exploration"]

# ------------------------------------------------------------------------------ comparison

_MIN_SECONDS = 1e-4
"""Shorter times are drawn as this, since a logarithmic axis has no 0."""


def draw_comparison(trials: "Sequence[Trial]", format: str) -> bytes:
    """Draw distortion against time: a marker per method, and a line per k. Skip failed trials."""
    shown = [trial for trial in trials if not trial.skipped]
    methods = list(dict.fromkeys(trial.method for trial in shown))
    with style():
        figure = new_figure(6.4, 4.0)
        axes = figure.add_subplot()
        for k in sorted({trial.k for trial in shown}):
            _draw_size(axes, [trial for trial in shown if trial.k == k])
        for index, method in enumerate(methods):
            x, y = _coordinates([trial for trial in shown if trial.method == method])
            axes.plot(
                x,
                y,
                MARKERS[index % len(MARKERS)],
                color=CLASS_COLOURS[index % len(CLASS_COLOURS)],
                label=method,
                zorder=2,
            )
        _scale_seconds(axes, _coordinates(shown)[0])
        axes.set_ylabel("Distortion (SSE / SST)")
        figure.legend(loc="outside right upper", frameon=False)
        return to_bytes(figure, format)


def _draw_size(axes: Axes, trials: "Sequence[Trial]") -> None:
    """Draw a line from the fastest to the slowest trial of one k, labelled at its end."""
    x, y = _coordinates(trials)
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    axes.plot(x, y, color=BEFORE, zorder=1)
    axes.annotate(
        f"k = {trials[0].k}",
        (x[-1], y[-1]),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
    )


def _coordinates(trials: "Sequence[Trial]") -> tuple[Any, Any]:
    seconds = np.array([trial.seconds for trial in trials], dtype=np.float64)
    distortion = np.array([trial.distortion for trial in trials], dtype=np.float64)
    return np.maximum(seconds, _MIN_SECONDS), distortion


def _scale_seconds(axes: Axes, seconds: Any) -> None:
    """Set up a logarithmic axis that shows at least one number and leaves room for labels."""
    low, high = float(seconds.min()), float(seconds.max())
    axes.set_xscale("log")
    axes.set_xlim(low / 2, high * 4)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("Seconds")


# ------------------------------------------------------------------------------ exploration

_MARGIN = 0.08
"""Room around points and limits, as a share of their range."""
_SAME_LABEL = 0.08
"""Points of the same k that are closer than this share of the axes share a label."""
_SHADE: Any = {"facecolor": BEFORE, "edgecolor": EDGE, "alpha": 0.35, "hatch": "///"}


def draw_exploration(exploration: "Exploration", format: str) -> bytes:
    """Draw risk against loss. Better is always to the left and below.

    If a limit was varied, draw the loss against the limit, with a line per k.
    """
    points = [point for point in exploration.points if not point.skipped]
    if exploration.varied is not None:
        return _draw_limits(exploration, points, format)
    methods = list(dict.fromkeys(point.method for point in points))
    with style():
        figure = new_figure(6.4, 4.2)
        axes = figure.add_subplot()
        _scale_axes(axes, exploration, points)
        _shade_limits(axes, exploration)
        _draw_frontier(axes, exploration)
        for method, marker, colour in zip(
            methods, cycle(MARKERS), cycle(CLASS_COLOURS), strict=False
        ):
            chosen = [point for point in points if point.method == method]
            _draw_method(axes, exploration, chosen, marker, colour)
        _label_sizes(axes, exploration, points)
        _mark_recommended(axes, exploration)
        handles = _legend_handles(axes, exploration, points)
        figure.legend(handles=handles, loc="outside right upper", frameon=False)
        return to_bytes(figure, format)


def _draw_limits(exploration: "Exploration", points: "Sequence[Point]", format: str) -> bytes:
    """Draw the loss against the varied limit: a line per method and k."""
    lines = list(dict.fromkeys((point.method, point.k) for point in points))
    several = len({method for method, _ in lines}) > 1
    with style():
        figure = new_figure(6.4, 4.0)
        axes = figure.add_subplot()
        for (method, k), marker, colour in zip(
            lines, cycle(MARKERS), cycle(CLASS_COLOURS), strict=False
        ):
            chosen = [point for point in points if (point.method, point.k) == (method, k)]
            axes.plot(
                [float(point.limit or 0.0) for point in chosen],
                [float(point[exploration.loss]) for point in chosen],
                marker=marker,
                color=colour,
                label=f"{method}, k = {k}" if several else f"k = {k}",
            )
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"Limit on {exploration.varied}")
        axes.set_ylabel(f"Loss: {exploration.loss}")
        figure.legend(loc="outside right upper", frameon=False)
        return to_bytes(figure, format)


def _scale_axes(axes: Axes, exploration: "Exploration", points: "Sequence[Point]") -> None:
    """Fit the axes to all points and nearby limits, with the better end at the origin."""
    for name, title, set_limits, set_label in (
        (exploration.loss, "Loss", axes.set_xlim, axes.set_xlabel),
        (exploration.risk, "Risk", axes.set_ylim, axes.set_ylabel),
    ):
        values = [float(point[name]) for point in points]
        low, high = _range(values, exploration.limits.get(name))
        lower_is_better = points[0].measures[name].lower_is_better
        set_limits(*((low, high) if lower_is_better else (high, low)))
        set_label(f"{title}: {name} ({'lower' if lower_is_better else 'higher'} is better)")


def _range(values: Sequence[float], limit: float | None) -> tuple[float, float]:
    spread = (max(values) - min(values)) or abs(max(values)) or 1.0
    inside = list(values)
    if limit is not None and min(values) - spread <= limit <= max(values) + spread:
        inside.append(limit)
    return min(inside) - _MARGIN * spread, max(inside) + _MARGIN * spread


def _shade_limits(axes: Axes, exploration: "Exploration") -> None:
    """Shade the area beyond each limit, hatched so that it does not depend on colour."""
    for name, ends, shade, draw_line in (
        (exploration.loss, axes.get_xlim(), axes.axvspan, axes.axvline),
        (exploration.risk, axes.get_ylim(), axes.axhspan, axes.axhline),
    ):
        limit = exploration.limits.get(name)
        if limit is not None:
            start = min(max(limit, min(ends)), max(ends))
            shade(start, ends[1], **_SHADE, linewidth=0, zorder=0)
            draw_line(start, color=EDGE, linewidth=1, zorder=0)


def _draw_frontier(axes: Axes, exploration: "Exploration") -> None:
    """Draw the frontier as a dashed staircase: it dominates everything above and right of it."""
    loss, risk = exploration.loss, exploration.risk

    def cost(point: "Point", name: str) -> float:
        value = float(point[name])
        return value if point.measures[name].lower_is_better else -value

    ordered = sorted(
        exploration.frontier, key=lambda point: (cost(point, loss), -cost(point, risk))
    )
    axes.plot(
        [float(point[loss]) for point in ordered],
        [float(point[risk]) for point in ordered],
        drawstyle="steps-post",
        linestyle=(0, (3, 1)),
        linewidth=3.5,
        color=BEFORE,
        label="frontier",
        zorder=1,
    )


def _draw_method(
    axes: Axes, exploration: "Exploration", points: "Sequence[Point]", marker: str, colour: str
) -> None:
    """Draw a line through a method's points in order of k; points that miss a limit are hollow."""
    loss, risk = exploration.loss, exploration.risk
    ordered = sorted(points, key=lambda point: point.k)
    axes.plot(
        [float(point[loss]) for point in ordered],
        [float(point[risk]) for point in ordered],
        marker=marker,
        color=colour,
        linewidth=1,
        label=ordered[0].method,
        zorder=2,
    )
    failing = [point for point in ordered if not exploration.meets(point)]
    axes.plot(
        [float(point[loss]) for point in failing],
        [float(point[risk]) for point in failing],
        marker,
        color=colour,
        markerfacecolor="white",
        zorder=3,
    )


def _label_sizes(axes: Axes, exploration: "Exploration", points: "Sequence[Point]") -> None:
    """Write k next to each point, once where points of the same k lie close together."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    placed: list[tuple[int, float, float]] = []
    for point in points:
        loss, risk = float(point[exploration.loss]), float(point[exploration.risk])
        x, y = (loss - left) / (right - left), (risk - low) / (high - low)
        if any(k == point.k and hypot(x - a, y - b) < _SAME_LABEL for k, a, b in placed):
            continue
        placed.append((point.k, x, y))
        axes.annotate(
            f"k = {point.k}",
            (loss, risk),
            xytext=(6, 5),
            textcoords="offset points",
            fontsize=8,
            zorder=5,
        )


def _mark_recommended(axes: Axes, exploration: "Exploration") -> None:
    point = exploration.recommended
    if point is None:
        return
    axes.plot(
        [float(point[exploration.loss])],
        [float(point[exploration.risk])],
        "o",
        markersize=15,
        markerfacecolor="none",
        markeredgecolor=INK,
        markeredgewidth=1.8,
        label=f"recommended:\n{truncate(point.method)}, k = {point.k}",
        zorder=4,
    )


def _legend_handles(
    axes: Axes, exploration: "Exploration", points: "Sequence[Point]"
) -> list[Artist]:
    handles: list[Artist] = list(axes.get_legend_handles_labels()[0])
    if not all(exploration.meets(point) for point in points):
        hollow: Any = {"linestyle": "", "marker": "o", "color": INK, "markerfacecolor": "white"}
        handles.append(Line2D([], [], **hollow, label="misses a limit"))
    if exploration.limits.keys() & {exploration.risk, exploration.loss}:
        handles.append(Patch(**_SHADE, label="beyond a limit"))
    return handles


# ------------------------------------------------------------------------------ dependence

_LABELLED_WEIGHTS = (0.0, 0.5, 1.0)
_MAX_INCREASE = 1.2
"""Points whose distortion grows by more than this factor are left out of the relative panel."""


def draw_dependence(sweep: "DependenceSweep", format: str) -> bytes:
    """Draw two panels, a curve per k: D_Y against D_X, and relative gain against relative cost."""
    with style():
        figure = new_figure(8.8, 4.0)
        absolute, relative = figure.subplots(1, 2)
        for index, k in enumerate(sorted({point.k for point in sweep.points})):
            points = sorted(
                (point for point in sweep.points if point.k == k),
                key=lambda point: point.dependence,
            )
            _draw_curve(
                absolute, [(point.distortion, point.dependence_loss) for point in points], k, index
            )
            if index == 0:
                _label_weights(absolute, points)
            changes = [
                (100 * point.distortion_increment, -100 * point.loss_increment)
                for point in points
                if point.distortion_increment <= _MAX_INCREASE
            ]
            _draw_curve(relative, changes, k, index)
        absolute.set_xlabel("Distortion of the quasi-identifiers, D_X")
        absolute.set_ylabel("Loss of dependence, D_Y")
        _draw_break_even(relative)
        handles = absolute.get_legend_handles_labels()
        figure.legend(*handles, loc="outside right upper", frameon=False)
        return to_bytes(figure, format)


def _draw_curve(axes: Axes, positions: Sequence[tuple[float, float]], k: int, index: int) -> None:
    finite = [position for position in positions if np.isfinite(position).all()]
    if not finite:
        return
    x, y = zip(*finite, strict=True)
    axes.plot(
        x,
        y,
        MARKERS[index % len(MARKERS)] + "-",
        color=CLASS_COLOURS[index % len(CLASS_COLOURS)],
        markersize=4,
        linewidth=1,
        label=f"k = {k}",
    )


def _label_weights(axes: Axes, points: "Sequence[DependencePoint]") -> None:
    for point in points:
        if point.dependence in _LABELLED_WEIGHTS:
            axes.annotate(
                f"λ = {point.dependence:g}",
                (point.distortion, point.dependence_loss),
                xytext=(5, 4),
                textcoords="offset points",
                fontsize=8,
                color=CLASS_COLOURS[0],
            )


def _draw_break_even(axes: Axes) -> None:
    """Draw the line on which the gain equals the cost."""
    top = max(min(axes.get_xlim()[1], axes.get_ylim()[1]), 1.0)
    axes.plot([0, top], [0, top], "--", color=EDGE, linewidth=1)
    axes.annotate(
        "gain = cost",
        (0.75 * top, 0.75 * top),
        (6, -4),
        textcoords="offset points",
        va="top",
        fontsize=8,
    )
    axes.set_xlabel("Additional distortion (%)")
    axes.set_ylabel("Loss of dependence avoided (%)")
