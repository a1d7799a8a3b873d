"""k-anonymous tables by microaggregation, with the guarantee proved on the file you publish.

>>> import microcell as mc
>>> people = mc.sample_survey(200)
>>> release = mc.anonymize(people, mc.sample_schema(), k=5)
>>> mc.audit(people, release.table, mc.sample_schema()).require(k=5)["k"] >= 5
True

The main job is here: read, anonymize, audit, publish. More is in the subpackages ``mc.surveys``,
``mc.increments``, ``mc.locations``, ``mc.dask``, ``mc.plot``, ``mc.cells``, ``mc.methods`` and
``mc.report``. Names are loaded on first use, so importing the package is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from microcell import (
        dask,
        errors,
        increments,
        locations,
        methods,
        plot,
        report,
        surveys,
    )
    from microcell.allocation import allocate
    from microcell.api import anonymize, audit, inspect, partition, publish, read, risk, write
    from microcell.assignment import assign
    from microcell.cells import Cells, load_cells
    from microcell.errors import GuaranteeError, MicrocellError, RequirementError
    from microcell.methods import distortion, lower_bound, pcl, refine
    from microcell.model import Audit, Column, Measure, Partition, Schema
    from microcell.model.manifest import Manifest
    from microcell.progress import listen
    from microcell.release import find_manifest
    from microcell.release.publish import Release
    from microcell.report import render
    from microcell.sample import sample_schema, sample_survey, sample_visits
    from microcell.schema import draft_schema, load_schema
    from microcell.sweeps import compare, dependence_sweep, explore

__version__ = "0.1.0"

_MODULES = {
    "allocation": ("allocate",),
    "api": ("anonymize", "audit", "inspect", "partition", "publish", "read", "risk", "write"),
    "assignment": ("assign",),
    "cells": ("Cells", "load_cells"),
    "errors": ("GuaranteeError", "MicrocellError", "RequirementError"),
    "methods": ("distortion", "lower_bound", "pcl", "refine"),
    "model": ("Audit", "Column", "Measure", "Partition", "Schema"),
    "model.manifest": ("Manifest",),
    "progress": ("listen",),
    "release": ("find_manifest",),
    "release.publish": ("Release",),
    "report": ("render",),
    "sample": ("sample_schema", "sample_survey", "sample_visits"),
    "schema": ("draft_schema", "load_schema"),
    "sweeps": ("compare", "dependence_sweep", "explore"),
}
_SUBPACKAGES = (
    "dask",
    "errors",
    "increments",
    "locations",
    "methods",
    "plot",
    "report",
    "surveys",
)
_OTHER_MODULES = ("allocation", "api", "assignment", "cells", "release", "schema", "sweeps")
_MODULE_OF = {name: f"microcell.{module}" for module, names in _MODULES.items() for name in names}

__all__ = [
    "Audit",
    "Cells",
    "Column",
    "GuaranteeError",
    "Manifest",
    "Measure",
    "MicrocellError",
    "Partition",
    "Release",
    "RequirementError",
    "Schema",
    "allocate",
    "anonymize",
    "assign",
    "audit",
    "compare",
    "dask",
    "dependence_sweep",
    "distortion",
    "draft_schema",
    "errors",
    "explore",
    "find_manifest",
    "increments",
    "inspect",
    "listen",
    "load_cells",
    "load_schema",
    "locations",
    "lower_bound",
    "methods",
    "partition",
    "pcl",
    "plot",
    "publish",
    "read",
    "refine",
    "render",
    "report",
    "risk",
    "sample_schema",
    "sample_survey",
    "sample_visits",
    "surveys",
    "write",
]


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES or name in _OTHER_MODULES:
        return import_module(f"microcell.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'microcell' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__all__", "__doc__", "__version__"])
