"""Surveys with uncertain participation: size and design cells, check, answer and collect.

Respondents check and answer on their own devices. That needs neither tables nor methods, so names
are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from microcell.surveys.collection import (
        Collection,
        collect_survey,
        render_collection,
        write_collection,
    )
    from microcell.surveys.designs import SurveyDesign, design_survey
    from microcell.surveys.forms import BoxInWords, describe_boxes, survey_form, survey_page
    from microcell.surveys.participation import (
        APPROXIMATIONS,
        EffectiveAnonymity,
        Simulation,
        approximate_size,
        cell_failures,
        effective_anonymity,
        simulate_participation,
        table_failure,
    )
    from microcell.surveys.publication import (
        check_survey_outputs,
        design_path,
        render_survey,
        write_survey,
    )
    from microcell.surveys.respondents import (
        Answer,
        Finding,
        SurveyCheck,
        answer_survey,
        check_survey,
    )
    from microcell.surveys.sizes import SurveySize, survey_size

_MODULES = {
    "participation": (
        "APPROXIMATIONS",
        "EffectiveAnonymity",
        "Simulation",
        "approximate_size",
        "cell_failures",
        "effective_anonymity",
        "simulate_participation",
        "table_failure",
    ),
    "forms": ("BoxInWords", "describe_boxes", "survey_form", "survey_page"),
    "respondents": ("Answer", "answer_survey", "Finding", "SurveyCheck", "check_survey"),
    "collection": ("Collection", "collect_survey", "render_collection", "write_collection"),
    "designs": ("SurveyDesign", "design_survey"),
    "publication": ("check_survey_outputs", "design_path", "render_survey", "write_survey"),
    "sizes": ("SurveySize", "survey_size"),
}
_MODULE_OF = {
    name: f"microcell.surveys.{module}" for module, names in _MODULES.items() for name in names
}

__all__ = [
    "APPROXIMATIONS",
    "Answer",
    "BoxInWords",
    "Collection",
    "EffectiveAnonymity",
    "Finding",
    "Simulation",
    "SurveyCheck",
    "SurveyDesign",
    "SurveySize",
    "answer_survey",
    "approximate_size",
    "cell_failures",
    "check_survey",
    "check_survey_outputs",
    "collect_survey",
    "describe_boxes",
    "design_path",
    "design_survey",
    "effective_anonymity",
    "render_collection",
    "render_survey",
    "simulate_participation",
    "survey_form",
    "survey_page",
    "survey_size",
    "table_failure",
    "write_collection",
    "write_survey",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
