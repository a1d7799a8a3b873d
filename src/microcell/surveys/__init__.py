"""Surveys with uncertain participation.

The order of work: :func:`size` (how many candidates a cell needs), :func:`design` (cells, published
before anyone answers), :func:`page` and :func:`form` (what respondents get), :func:`check` and
:func:`answer` (on the respondent's own device), :func:`collect` (answers to a k-anonymous release).

Names are loaded on first use: checking and answering must not load tables or methods.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from microcell.surveys.collection import Collection, collect
    from microcell.surveys.designs import SurveyDesign, design
    from microcell.surveys.forms import BoxDescription, describe_boxes, form, page
    from microcell.surveys.participation import (
        Estimate,
        Simulation,
        cell_failures,
        simulate_participation,
        table_failure,
    )
    from microcell.surveys.respondents import Answer, CheckFinding, SurveyCheck, answer, check
    from microcell.surveys.sizes import (
        APPROXIMATIONS,
        EffectiveAnonymity,
        SurveySize,
        approximate_size,
        effective_anonymity,
        size,
    )
    from microcell.surveys.survey_cells import FailureSummary

_NAMES = {
    "collection": ("Collection", "collect"),
    "designs": ("SurveyDesign", "design"),
    "forms": ("BoxDescription", "describe_boxes", "form", "page"),
    "participation": (
        "Estimate",
        "Simulation",
        "cell_failures",
        "simulate_participation",
        "table_failure",
    ),
    "respondents": ("Answer", "CheckFinding", "SurveyCheck", "answer", "check"),
    "sizes": (
        "APPROXIMATIONS",
        "EffectiveAnonymity",
        "SurveySize",
        "approximate_size",
        "effective_anonymity",
        "size",
    ),
    "survey_cells": ("FailureSummary",),
}
_MODULE_OF = {
    name: f"microcell.surveys.{module}" for module, names in _NAMES.items() for name in names
}

__all__ = [
    "APPROXIMATIONS",
    "Answer",
    "BoxDescription",
    "CheckFinding",
    "Collection",
    "EffectiveAnonymity",
    "Estimate",
    "FailureSummary",
    "Simulation",
    "SurveyCheck",
    "SurveyDesign",
    "SurveySize",
    "answer",
    "approximate_size",
    "cell_failures",
    "check",
    "collect",
    "describe_boxes",
    "design",
    "effective_anonymity",
    "form",
    "page",
    "simulate_participation",
    "size",
    "table_failure",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
