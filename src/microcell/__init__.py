"""k-anonymous tables by microaggregation, with the guarantee proved on the table you publish.

>>> import microcell as mc
>>> people = mc.sample_survey(200)
>>> release = mc.anonymize(people, mc.sample_schema(), k=5)
>>> mc.audit(people, release.table, mc.sample_schema()).require(k=5)["k"] >= 5
True

Names are loaded when first used, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from microcell.allocating import Allocation, allocate, draw_allocation
    from microcell.assigning import Assigned, assign
    from microcell.cells import (
        BallCells,
        BoxCells,
        Cells,
        LookupCells,
        PowerCells,
        ball_cells,
        load_cells,
        lookup_cells,
    )
    from microcell.comparing import Trial, compare, draw_trials
    from microcell.configuration import Run, load_run, load_schema, schema_from_toml, schema_to_toml
    from microcell.depending import DependencePoint, DependenceSweep, dependence_sweep, draw_dependence
    from microcell.drawing import draw_cells, draw_release
    from microcell.engines import DatasetRelease, anonymize_dataset, audit_dataset
    from microcell.errors import (
        DataError,
        GuaranteeError,
        MicrocellError,
        OptionError,
        RequirementError,
        SchemaError,
        TableError,
        TooFewRecordsError,
    )
    from microcell.exploring import Exploration, Point, draw_exploration, explore
    from microcell.inspection import draft_schema
    from microcell.manifests import find_manifest, manifest_path
    from microcell.model import Audit, Column, Manifest, Measure, Partition, Release, Schema
    from microcell.participation import (
        APPROXIMATIONS,
        EffectiveAnonymity,
        Simulation,
        approximate_size,
        cell_failures,
        effective_anonymity,
        simulate_participation,
        table_failure,
    )
    from microcell.partitioning import (
        METHODS,
        Increment,
        Method,
        Quantization,
        distortion,
        measure_increment,
        measure_increments,
        partition,
        pcl,
        power_cells,
        refine,
    )
    from microcell.pipeline import anonymize, audit, check_outputs, inspect, publish, read, write
    from microcell.planning import Arrivals, Plan, Schedule, TimeCurve, calibrate, draw_plan, plan
    from microcell.progress import listen
    from microcell.reporting import certify, guarantee, render
    from microcell.reporting.respondents import BoxInWords, describe_boxes, survey_form, survey_page
    from microcell.sample import sample_schema, sample_survey
    from microcell.sessions import Batch, Session, StoredSession, start
    from microcell.surveys.answering import Answer, answer_survey
    from microcell.surveys.checking import Finding, SurveyCheck, check_survey
    from microcell.surveys.collecting import Collection, collect_survey, render_collection, write_collection
    from microcell.surveys.designing import SurveyDesign, design_survey
    from microcell.surveys.publishing import check_survey_outputs, design_path, render_survey, write_survey
    from microcell.surveys.sizing import SurveySize, draw_size, survey_size

__version__ = "0.1.0"

_HOMES = {
    "allocating": ("Allocation", "allocate", "draw_allocation"),
    "assigning": ("Assigned", "assign"),
    "cells": (
        "BallCells",
        "BoxCells",
        "Cells",
        "LookupCells",
        "PowerCells",
        "ball_cells",
        "load_cells",
        "lookup_cells",
    ),
    "comparing": ("Trial", "compare", "draw_trials"),
    "configuration": ("Run", "load_run", "load_schema", "schema_from_toml", "schema_to_toml"),
    "depending": ("DependencePoint", "DependenceSweep", "dependence_sweep", "draw_dependence"),
    "drawing": ("draw_cells", "draw_release"),
    "engines": ("DatasetRelease", "anonymize_dataset", "audit_dataset"),
    "errors": (
        "DataError",
        "GuaranteeError",
        "MicrocellError",
        "OptionError",
        "RequirementError",
        "SchemaError",
        "TableError",
        "TooFewRecordsError",
    ),
    "exploring": ("Exploration", "Point", "draw_exploration", "explore"),
    "inspection": ("draft_schema",),
    "manifests": ("find_manifest", "manifest_path"),
    "model": ("Audit", "Column", "Manifest", "Measure", "Partition", "Release", "Schema"),
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
    "partitioning": (
        "METHODS",
        "Increment",
        "Method",
        "Quantization",
        "distortion",
        "measure_increment",
        "measure_increments",
        "partition",
        "pcl",
        "power_cells",
        "refine",
    ),
    "pipeline": ("anonymize", "audit", "check_outputs", "inspect", "publish", "read", "write"),
    "planning": ("Arrivals", "Plan", "Schedule", "TimeCurve", "calibrate", "draw_plan", "plan"),
    "progress": ("listen",),
    "reporting": ("certify", "guarantee", "render"),
    "reporting.respondents": ("BoxInWords", "describe_boxes", "survey_form", "survey_page"),
    "sample": ("sample_schema", "sample_survey"),
    "sessions": ("Batch", "Session", "StoredSession", "start"),
    "surveys.answering": ("Answer", "answer_survey"),
    "surveys.checking": ("Finding", "SurveyCheck", "check_survey"),
    "surveys.collecting": ("Collection", "collect_survey", "render_collection", "write_collection"),
    "surveys.designing": ("SurveyDesign", "design_survey"),
    "surveys.publishing": ("check_survey_outputs", "design_path", "render_survey", "write_survey"),
    "surveys.sizing": ("SurveySize", "draw_size", "survey_size"),
}
_MODULE_OF = {name: f"microcell.{module}" for module, names in _HOMES.items() for name in names}

__all__ = [
    "APPROXIMATIONS",
    "METHODS",
    "Allocation",
    "Answer",
    "Arrivals",
    "Assigned",
    "Audit",
    "BallCells",
    "Batch",
    "BoxCells",
    "BoxInWords",
    "Cells",
    "Collection",
    "Column",
    "DataError",
    "DatasetRelease",
    "DependencePoint",
    "DependenceSweep",
    "EffectiveAnonymity",
    "Exploration",
    "Finding",
    "GuaranteeError",
    "Increment",
    "LookupCells",
    "Manifest",
    "Measure",
    "Method",
    "MicrocellError",
    "OptionError",
    "Partition",
    "Plan",
    "Point",
    "PowerCells",
    "Quantization",
    "Release",
    "RequirementError",
    "Run",
    "Schedule",
    "Schema",
    "SchemaError",
    "Session",
    "Simulation",
    "StoredSession",
    "SurveyCheck",
    "SurveyDesign",
    "SurveySize",
    "TableError",
    "TimeCurve",
    "TooFewRecordsError",
    "Trial",
    "allocate",
    "anonymize",
    "anonymize_dataset",
    "answer_survey",
    "approximate_size",
    "assign",
    "audit",
    "audit_dataset",
    "ball_cells",
    "calibrate",
    "cell_failures",
    "certify",
    "check_outputs",
    "check_survey",
    "check_survey_outputs",
    "collect_survey",
    "compare",
    "dependence_sweep",
    "describe_boxes",
    "design_path",
    "design_survey",
    "distortion",
    "draft_schema",
    "draw_allocation",
    "draw_cells",
    "draw_dependence",
    "draw_exploration",
    "draw_plan",
    "draw_release",
    "draw_size",
    "draw_trials",
    "effective_anonymity",
    "explore",
    "find_manifest",
    "guarantee",
    "inspect",
    "listen",
    "load_cells",
    "load_run",
    "load_schema",
    "lookup_cells",
    "manifest_path",
    "measure_increment",
    "measure_increments",
    "partition",
    "pcl",
    "plan",
    "power_cells",
    "publish",
    "read",
    "refine",
    "render",
    "render_collection",
    "render_survey",
    "sample_schema",
    "sample_survey",
    "schema_from_toml",
    "schema_to_toml",
    "simulate_participation",
    "start",
    "survey_form",
    "survey_page",
    "survey_size",
    "table_failure",
    "write",
    "write_collection",
    "write_survey",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'microcell' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
