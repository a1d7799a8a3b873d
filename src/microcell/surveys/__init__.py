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
    from microcell.surveys.forms import form, page
    from microcell.surveys.learning import Calibration, ParticipationModel, learn_participation
    from microcell.surveys.outlook import Outlook, Prospect, conditional_centroids, simulate
    from microcell.surveys.participation import (
        Estimate,
        Simulation,
        cell_failures,
        simulate_participation,
        table_failure,
    )
    from microcell.surveys.questionnaire import (
        Ask,
        Questionnaire,
        gather,
        load_questionnaire,
        texts,
    )
    from microcell.surveys.rejects import Rejected
    from microcell.surveys.respondents import Answer, CheckFinding, SurveyCheck, answer, check
    from microcell.surveys.running import CellStatus, SurveyStatus, status
    from microcell.surveys.sizes import (
        APPROXIMATIONS,
        EffectiveAnonymity,
        SurveySize,
        approximate_size,
        effective_anonymity,
        size,
    )
    from microcell.surveys.survey_cells import FailureSummary
    from microcell.surveys.sweeping import SurveySweep, SweepPoint, sweep
    from microcell.surveys.waves import NextWave, next_wave
    from microcell.surveys.words import BoxDescription, describe_boxes

_NAMES = {
    "collection": ("Collection", "collect"),
    "designs": ("SurveyDesign", "design"),
    "forms": ("form", "page"),
    "learning": ("Calibration", "ParticipationModel", "learn_participation"),
    "outlook": ("Outlook", "Prospect", "conditional_centroids", "simulate"),
    "participation": (
        "Estimate",
        "Simulation",
        "cell_failures",
        "simulate_participation",
        "table_failure",
    ),
    "questionnaire": ("Ask", "Questionnaire", "gather", "load_questionnaire", "texts"),
    "rejects": ("Rejected",),
    "respondents": ("Answer", "CheckFinding", "SurveyCheck", "answer", "check"),
    "sizes": (
        "APPROXIMATIONS",
        "EffectiveAnonymity",
        "SurveySize",
        "approximate_size",
        "effective_anonymity",
        "size",
    ),
    "running": ("CellStatus", "SurveyStatus", "status"),
    "survey_cells": ("FailureSummary",),
    "sweeping": ("SurveySweep", "SweepPoint", "sweep"),
    "waves": ("NextWave", "next_wave"),
    "words": ("BoxDescription", "describe_boxes"),
}
_MODULE_OF = {
    name: f"microcell.surveys.{module}" for module, names in _NAMES.items() for name in names
}

__all__ = [
    "APPROXIMATIONS",
    "Answer",
    "Ask",
    "BoxDescription",
    "Calibration",
    "CellStatus",
    "CheckFinding",
    "Collection",
    "EffectiveAnonymity",
    "Estimate",
    "FailureSummary",
    "NextWave",
    "Outlook",
    "ParticipationModel",
    "Prospect",
    "Questionnaire",
    "Rejected",
    "Simulation",
    "SurveyCheck",
    "SurveyDesign",
    "SurveySize",
    "SurveyStatus",
    "SurveySweep",
    "SweepPoint",
    "answer",
    "approximate_size",
    "cell_failures",
    "check",
    "collect",
    "conditional_centroids",
    "describe_boxes",
    "design",
    "effective_anonymity",
    "form",
    "gather",
    "learn_participation",
    "load_questionnaire",
    "next_wave",
    "page",
    "simulate",
    "simulate_participation",
    "size",
    "status",
    "sweep",
    "table_failure",
    "texts",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
