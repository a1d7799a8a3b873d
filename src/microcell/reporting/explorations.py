"""The figure of a map of risk and loss, drawn where it is asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from microcell.errors import OptionError
from microcell.reporting.trials import FIGURE_FORMS

__all__ = ["RiskMap", "Scale", "Spot", "draw_map"]


@dataclass(frozen=True)
class Spot:
    """A method's risk and loss for one k: whether it meets all limits, is on the frontier, is the one to take."""

    method: str
    k: int
    risk: float
    loss: float
    meets: bool = True
    frontier: bool = False
    recommended: bool = False


@dataclass(frozen=True)
class Scale:
    """The measure of an axis: its name, which way is better, and its limit if it has one."""

    name: str
    lower_is_better: bool = True
    limit: float | None = None


@dataclass(frozen=True)
class RiskMap:
    """What is drawn: the spots, and the scales of risk and loss."""

    spots: tuple[Spot, ...]
    risk: Scale
    loss: Scale


def draw_map(riskmap: RiskMap, form: str) -> bytes:
    """The contents of a file of that form: risk against loss."""
    if form not in FIGURE_FORMS:
        raise OptionError(f"No figure form {form!r}; choose one of {', '.join(FIGURE_FORMS)}.")
    # Named and not imported: loading matplotlib would slow every start.
    figures = import_module("microcell.reporting.figures")
    return cast("Callable[[RiskMap, str], bytes]", figures.draw_map)(riskmap, form)
