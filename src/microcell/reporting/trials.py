"""The figure of a comparison of methods, drawn where it is asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from microcell.errors import OptionError

__all__ = ["FIGURE_FORMS", "Mark", "draw_marks"]

FIGURE_FORMS = ("svg", "png", "pdf")


@dataclass(frozen=True)
class Mark:
    """A method's distortion and time for one k."""

    method: str
    k: int
    seconds: float
    distortion: float


def draw_marks(marks: Sequence[Mark], form: str) -> bytes:
    """The contents of a file of that form: distortion against seconds."""
    if form not in FIGURE_FORMS:
        raise OptionError(f"No figure form {form!r}; choose one of {', '.join(FIGURE_FORMS)}.")
    if not marks:
        raise OptionError("There is nothing to draw: none of the methods could be used. Name others.")
    # Named and not imported: loading matplotlib would slow every start.
    figures = import_module("microcell.reporting.figures")
    return cast("Callable[[Sequence[Mark], str], bytes]", figures.draw_marks)(marks, form)
