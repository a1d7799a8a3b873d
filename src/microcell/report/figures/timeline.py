"""The figure of a plan: when each step of an incremental run takes place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from microcell.report.figures.base import (
    BEFORE,
    CLASS_COLOURS,
    EDGE,
    INK,
    new_figure,
    style,
    to_bytes,
)

if TYPE_CHECKING:
    from microcell.increments.planning import Plan

__all__ = ["draw_plan"]

_UNITS = (
    (2 * 86400.0, 86400.0, "Days"),
    (2 * 3600.0, 3600.0, "Hours"),
    (120.0, 60.0, "Minutes"),
    (0.0, 1.0, "Seconds"),
)
"""Smallest range in seconds for which a unit is used, the unit in seconds, and its name."""
_MIN_WIDTH = 0.01
"""Smallest width of a bar, as a share of the axis, so that short steps remain visible."""
_BAR_HEIGHT = 0.55

_COLLECTION = "Collection"
_INCREMENTAL = "Start early"
_AT_THE_END = "Wait for all records"


@dataclass(frozen=True)
class _Step:
    """A bar: its row, its name in the legend, and its start and end in seconds."""

    row: str
    name: str
    start: float
    end: float


def draw_plan(plan: "Plan", format: str) -> bytes:
    """Draw the steps of the plan over time, next to processing everything at the end."""
    steps = _steps(plan)
    rows = list(dict.fromkeys(step.row for step in steps))
    names = list(dict.fromkeys(step.name for step in steps))
    chosen = plan.chosen
    end = max(step.end for step in steps)
    deadline = None if plan.deadline is None else chosen.collection + plan.deadline
    unit, unit_name = next((size, name) for least, size, name in _UNITS if end >= least)
    with style():
        figure = new_figure(7.2, 1.4 + 0.55 * len(rows))
        axes = figure.add_subplot()
        for index, name in enumerate(names):
            colour = BEFORE if index == 0 else CLASS_COLOURS[index - 1]
            _draw_bars(axes, [step for step in steps if step.name == name], rows, colour, unit, end)
        _draw_line(axes, chosen.collection / unit, "end of collection", INK, "--")
        if chosen.nu > 0:
            label = f"{100 * chosen.received:.1f} % received"
            _draw_line(axes, chosen.starts / unit, label, EDGE, ":")
        if deadline is not None:
            _draw_line(axes, deadline / unit, "deadline", CLASS_COLOURS[-1], "-.")
        axes.set_yticks(range(len(rows)), rows)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(0, 1.03 * max(end, deadline or 0.0) / unit)
        axes.set_xlabel(f"{unit_name} since the start of the collection")
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
        return to_bytes(figure, format)


def _steps(plan: "Plan") -> list[_Step]:
    chosen = plan.chosen
    end = chosen.collection
    steps = [_Step(_COLLECTION, "collecting", 0.0, end)]
    if chosen.nu > 0:
        start = max(chosen.base_ends, end)
        steps.append(_Step(_INCREMENTAL, "first part", chosen.starts, chosen.base_ends))
        steps.append(_Step(_INCREMENTAL, "adding the rest", start, chosen.ends))
    steps.append(_Step(_AT_THE_END, "all at once", end, end + plan.whole))
    return steps


def _draw_bars(
    axes: Axes, steps: Sequence[_Step], rows: list[str], colour: str, unit: float, end: float
) -> None:
    widths = [max(step.end - step.start, _MIN_WIDTH * end) for step in steps]
    # A widened bar grows to the left: a step that ends in time must not appear to end late.
    starts = [max(0.0, step.end - width) for step, width in zip(steps, widths, strict=True)]
    axes.barh(
        [rows.index(step.row) for step in steps],
        [width / unit for width in widths],
        left=[start / unit for start in starts],
        height=_BAR_HEIGHT,
        color=colour,
        label=steps[0].name,
    )


def _draw_line(axes: Axes, position: float, label: str, colour: str, dashes: str) -> None:
    axes.axvline(position, color=colour, linestyle=dashes, linewidth=1, label=label, zorder=3)
