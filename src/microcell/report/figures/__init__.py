"""Every figure that microcell draws.

matplotlib is imported only in the submodules, and they are loaded when a figure is first drawn:
importing this package is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from microcell._extras import is_installed

if TYPE_CHECKING:
    from microcell.report.figures.allocation import draw_allocation
    from microcell.report.figures.audit import draw_audit
    from microcell.report.figures.base import Picture
    from microcell.report.figures.cells import Panel, draw_panels
    from microcell.report.figures.risk import draw_risk
    from microcell.report.figures.surveys import (
        draw_cell_sizes,
        draw_failures,
        draw_outlook,
        draw_survey_size,
        draw_survey_sweep,
    )
    from microcell.report.figures.sweeps import draw_comparison, draw_dependence, draw_exploration
    from microcell.report.figures.timeline import draw_plan

_MODULES = {
    "allocation": ("draw_allocation",),
    "audit": ("draw_audit",),
    "base": ("Picture",),
    "cells": ("Panel", "draw_panels"),
    "risk": ("draw_risk",),
    "surveys": (
        "draw_cell_sizes",
        "draw_failures",
        "draw_outlook",
        "draw_survey_size",
        "draw_survey_sweep",
    ),
    "sweeps": ("draw_comparison", "draw_dependence", "draw_exploration"),
    "timeline": ("draw_plan",),
}
_MODULE_OF = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}

__all__ = [
    "Panel",
    "Picture",
    "available",
    "draw_allocation",
    "draw_audit",
    "draw_cell_sizes",
    "draw_comparison",
    "draw_dependence",
    "draw_exploration",
    "draw_failures",
    "draw_outlook",
    "draw_panels",
    "draw_plan",
    "draw_risk",
    "draw_survey_size",
    "draw_survey_sweep",
]


def available() -> bool:
    """Return whether matplotlib (extra ``report``) is installed."""
    return is_installed("matplotlib")


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
