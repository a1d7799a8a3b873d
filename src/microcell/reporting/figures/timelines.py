"""The figure of a plan over time."""

from matplotlib.axes import Axes

from microcell.reporting.figures._sheets import BEFORE, CLASS_COLOURS, EDGE, INK, as_file, sheet, style
from microcell.reporting.timelines import Span, Timeline

__all__ = ["draw_timeline"]

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
            _draw_spans(axes, own, lanes, BEFORE if number == 0 else CLASS_COLOURS[number - 1], unit, last)
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


def _draw_spans(axes: Axes, spans: list[Span], lanes: list[str], colour: str, unit: float, last: float) -> None:
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
