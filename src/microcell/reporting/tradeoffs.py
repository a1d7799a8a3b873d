"""The figure of the trade-off between distortion and preserved dependence, drawn where it is asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from microcell.errors import OptionError
from microcell.reporting.trials import FIGURE_FORMS

__all__ = ["Tradeoff", "draw_tradeoffs"]


@dataclass(frozen=True)
class Tradeoff:
    """The two distortions for one k and one weight of dependence, and their changes relative to the weight 0."""

    k: int
    dependence: float
    distortion: float
    loss: float
    distortion_increment: float
    loss_increment: float


def draw_tradeoffs(points: Sequence[Tradeoff], form: str) -> bytes:
    """The contents of a file of that form: D_Y against D_X, and the relative changes beside it."""
    if form not in FIGURE_FORMS:
        raise OptionError(f"No figure form {form!r}; choose one of {', '.join(FIGURE_FORMS)}.")
    # Named and not imported: loading matplotlib would slow every start.
    figures = import_module("microcell.reporting.figures.tradeoffs")
    return cast("Callable[[Sequence[Tradeoff], str], bytes]", figures.draw_tradeoffs)(points, form)
