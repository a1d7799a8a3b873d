"""The figure of methods side by side."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from microcell.reporting.figures._sheets import BEFORE, CLASS_COLOURS, MARKERS, as_file, sheet, style
from microcell.reporting.trials import Mark

__all__ = ["draw_marks"]

_QUICKEST = 1e-4
"""Seconds; less is drawn as this, since the axis of a logarithm has no 0."""


def draw_marks(marks: Sequence[Mark], form: str) -> bytes:
    """Distortion against seconds: a marker for each method, a line for each k."""
    methods = list(dict.fromkeys(mark.method for mark in marks))
    with style():
        figure = sheet(6.4, 4.0)
        axes = figure.add_subplot()
        for k in sorted({mark.k for mark in marks}):
            _draw_line(axes, [mark for mark in marks if mark.k == k])
        for place, method in enumerate(methods):
            _draw_method(axes, [mark for mark in marks if mark.method == method], place)
        _scale_seconds(axes, [_seconds(mark) for mark in marks])
        axes.set_ylabel("Distortion (SSE / SST)")
        figure.legend(loc="outside right upper", frameon=False)
        return as_file(figure, form)


def _draw_line(axes: Axes, marks: Sequence[Mark]) -> None:
    """A line from the quickest to the slowest, with its k at the end."""
    ordered = sorted(marks, key=_seconds)
    last = ordered[-1]
    axes.plot([_seconds(mark) for mark in ordered], [mark.distortion for mark in ordered], color=BEFORE, zorder=1)
    place = (_seconds(last), last.distortion)
    axes.annotate(f"k = {last.k}", place, xytext=(8, 0), textcoords="offset points", va="center", fontsize=9)


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
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(seconds) < 50 * min(seconds) else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("Seconds")


def _seconds(mark: Mark) -> float:
    return max(mark.seconds, _QUICKEST)
