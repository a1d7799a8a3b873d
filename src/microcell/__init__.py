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
    from microcell.cells import BallCells, Cells, LookupCells, PowerCells, ball_cells, load_cells, lookup_cells
    from microcell.comparing import Trial, compare, draw_trials
    from microcell.configuration import Run, load_run, load_schema, schema_from_toml, schema_to_toml
    from microcell.depending import DependencePoint, DependenceSweep, dependence_sweep, draw_dependence
    from microcell.drawing import draw_cells, draw_release
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
    from microcell.partitioning import METHODS, Method, Quantization, distortion, partition, pcl, power_cells, refine
    from microcell.pipeline import anonymize, audit, check_outputs, inspect, publish, read, write
    from microcell.progress import listen
    from microcell.reporting import certify, guarantee, render
    from microcell.sample import sample_schema, sample_survey

__version__ = "0.1.0"

_HOMES = {
    "allocating": ("Allocation", "allocate", "draw_allocation"),
    "assigning": ("Assigned", "assign"),
    "cells": ("BallCells", "Cells", "LookupCells", "PowerCells", "ball_cells", "load_cells", "lookup_cells"),
    "comparing": ("Trial", "compare", "draw_trials"),
    "configuration": ("Run", "load_run", "load_schema", "schema_from_toml", "schema_to_toml"),
    "depending": ("DependencePoint", "DependenceSweep", "dependence_sweep", "draw_dependence"),
    "drawing": ("draw_cells", "draw_release"),
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
    "partitioning": ("METHODS", "Method", "Quantization", "distortion", "partition", "pcl", "power_cells", "refine"),
    "pipeline": ("anonymize", "audit", "check_outputs", "inspect", "publish", "read", "write"),
    "progress": ("listen",),
    "reporting": ("certify", "guarantee", "render"),
    "sample": ("sample_schema", "sample_survey"),
}
_MODULE_OF = {name: f"microcell.{module}" for module, names in _HOMES.items() for name in names}

__all__ = [
    "METHODS",
    "Allocation",
    "Assigned",
    "Audit",
    "BallCells",
    "Cells",
    "Column",
    "DataError",
    "DependencePoint",
    "DependenceSweep",
    "Exploration",
    "GuaranteeError",
    "LookupCells",
    "Manifest",
    "Measure",
    "Method",
    "MicrocellError",
    "OptionError",
    "Partition",
    "Point",
    "PowerCells",
    "Quantization",
    "Release",
    "RequirementError",
    "Run",
    "Schema",
    "SchemaError",
    "TableError",
    "TooFewRecordsError",
    "Trial",
    "allocate",
    "anonymize",
    "assign",
    "audit",
    "ball_cells",
    "certify",
    "check_outputs",
    "compare",
    "dependence_sweep",
    "distortion",
    "draft_schema",
    "draw_allocation",
    "draw_cells",
    "draw_dependence",
    "draw_exploration",
    "draw_release",
    "draw_trials",
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
    "partition",
    "pcl",
    "power_cells",
    "publish",
    "read",
    "refine",
    "render",
    "sample_schema",
    "sample_survey",
    "schema_from_toml",
    "schema_to_toml",
    "write",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'microcell' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
