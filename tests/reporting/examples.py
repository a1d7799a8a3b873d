"""Audits to report on."""

import numpy as np

from microcell.model import Audit, Comparison, Measure, Projection

MANIFEST = {
    "microcell": "0.1.0",
    "created": "2026-11-16T10:00:00+00:00",
    "k": 5,
    "method": {"asked": "auto", "used": "mdav", "why": "5 dimensions have no exact optimum", "options": {}},
    "seed": 7,
    "missing": "drop",
    "columns": {
        "name": {"role": "identifier"},
        "phone": {"role": "drop"},
        "sex": {"role": "quasi", "kind": "nominal", "publish": "mode", "weight": 1.0},
        "age": {"role": "quasi", "kind": "numeric", "publish": "range", "weight": 2.5},
        "region": {"role": "strata"},
        "tsh": {"role": "confidential"},
        "remark": {"role": "keep"},
        "w": {"role": "weight"},
    },
    "input": {"rows": 2100, "columns": 8, "sha256": "0f" * 32, "sha256_of": "file"},
    "records": {"in": 2100, "out": 2000, "dropped": 100},
    "cells": {"count": 396, "smallest": 5, "largest": 9},
    "distortion": 0.0625,
    "seconds": 1.23456,
    "row_order": "shuffled",
    "output": {"rows": 2000, "columns": 6, "sha256": "a1" * 32, "sha256_of": "file"},
    "manifest_version": 1,
}


def measure(name, value, unit="records", lower=True):
    return Measure(name, value, unit, lower, f"What {name} means, in one sentence.")


def example(
    *,
    sizes=(5,) * 391 + (9,) * 5,
    keys=("sex", "age", "body-mass index", "home"),
    left=0,
    strange=0,
    faults=None,
    **more,
):
    sizes = np.array(sizes, dtype=np.int64)
    rows = int(sizes.sum())
    measures = (
        measure("k", int(sizes.min(initial=rows)), lower=False),
        measure("classes", len(sizes), "classes", lower=False),
        measure("records", rows, lower=False),
        measure("records_dropped", 100),
        measure("records_unaccounted", strange),
        measure("identifiers_left", left, "columns"),
        *(measure(name, value) for name, value in (faults or {}).items()),
        measure("distortion", 0.0625, "share"),
        *(measure(f"distortion.{key}", 0.125, "share") for key in keys),
    )
    return Audit(
        keys=keys,
        rows_original=rows + 100,
        rows_released=rows,
        measures={item.name: item for item in measures},
        class_sizes=sizes,
        notes=more.pop("notes", ("Row order was taken on trust, which is a note long enough to be wrapped in a text "
                                 "of a hundred characters.",)),
        **more,
    )  # fmt: skip


def pictured(label="female", name="sex", **more):
    rng = np.random.default_rng(5)
    points = rng.normal(size=(60, 2))
    classes = np.arange(60) // 5
    means = np.array([points[classes == one].mean(axis=0) for one in classes])
    return example(
        comparisons=(
            Comparison(name, "nominal", np.array([30, 20]), np.array([35, 15]), labels=(label, "male")),
            Comparison("age", "numeric", np.arange(20), np.arange(20)[::-1], edges=np.arange(21) * 4.0),
            Comparison(
                "born", "datetime", np.array([3, 4]), np.array([0, 7]), edges=np.array([1e4, 2e4, 3e4]), unit="D"
            ),
            Comparison("wide", "numeric", np.array([1, 1]), np.array([2, 0]), edges=np.array([-1.7e308, 0, 1.7e308])),
            Comparison("flat", "numeric", np.array([2]), np.array([2]), edges=np.array([5.0, 5.0])),
            Comparison("wait", "datetime", np.array([2]), np.array([2]), edges=np.array([0.0, 5.0]), unit="seconds"),
        ),
        projection=Projection(points, means, classes, (0.6, 0.3), 60),
        **more,
    )
