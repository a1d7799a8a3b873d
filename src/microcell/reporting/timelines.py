"""The figure of a plan over time, drawn where it is asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from microcell.errors import OptionError
from microcell.reporting.trials import FIGURE_FORMS

__all__ = ["Span", "Timeline", "draw_timeline"]


@dataclass(frozen=True)
class Span:
    """A step of a line: what is done, from when to when, in seconds; ``lane`` is the line's name."""

    lane: str
    name: str
    begins: float
    ends: float


@dataclass(frozen=True)
class Timeline:
    """What is drawn: the spans, when the data end, the times to point out by name, and the deadline if there is one."""

    spans: tuple[Span, ...]
    data_end: float
    marks: tuple[tuple[str, float], ...] = ()
    deadline: float | None = None


def draw_timeline(timeline: Timeline, form: str) -> bytes:
    """The contents of a file of that form: bars over time, a line for each lane."""
    if form not in FIGURE_FORMS:
        raise OptionError(f"No figure form {form!r}; choose one of {', '.join(FIGURE_FORMS)}.")
    # Named and not imported: loading matplotlib would slow every start.
    figures = import_module("microcell.reporting.figures.timelines")
    return cast("Callable[[Timeline, str], bytes]", figures.draw_timeline)(timeline, form)
