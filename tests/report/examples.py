"""Example audits for the tests of reports."""

from dataclasses import replace

import numpy as np

from microcell.measures.registry import measures
from microcell.model import Audit, Comparison, Correlations, Measure, Projection, Quantiles

MANIFEST = {
    "microcell": "0.1.0",
    "created": "2026-11-16T10:00:00+00:00",
    "k": 5,
    "method": {
        "requested": "auto",
        "used": "mdav",
        "reason": 'chosen by "auto": 5 dimensions have no exact optimum',
        "options": {},
    },
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
    "records": {"read": 2100, "released": 2000, "dropped": 100},
    "cells": {"count": 396, "smallest": 5, "largest": 9},
    "information_loss": 0.0625,
    "seconds": 1.23456,
    "row_order": "shuffled",
    "output": {"rows": 2000, "columns": 6, "sha256": "a1" * 32, "sha256_of": "file"},
    "manifest_version": 1,
}

NOTE = (
    "The rows are assumed to be in the same order, which is a note long enough to be wrapped in a "
    "text of a hundred characters."
)


def measure(name, value, unit="records", lower=True):
    zero = name in measures() and measures()[name].must_be_zero
    meaning = f"What {name} means, in one sentence."
    return Measure(name, value, unit, lower, meaning, must_be_zero=zero)


def example(
    *,
    sizes=(5,) * 391 + (9,) * 5,
    keys=("sex", "age", "body-mass index", "home"),
    left=0,
    unaccounted=0,
    faults=None,
    **more,
):
    sizes = np.array(sizes, dtype=np.int64)
    rows = int(sizes.sum())
    items = (
        measure("k", int(sizes.min(initial=rows)), lower=False),
        measure("classes", len(sizes), "classes", lower=False),
        measure("records", rows, lower=False),
        measure("records_dropped", 100),
        measure("records_unaccounted", unaccounted),
        measure("identifiers_left", left, "columns"),
        *(measure(name, value) for name, value in (faults or {}).items()),
        measure("information_loss", 0.0625, "share"),
        *(measure(f"information_loss.{key}", 0.125, "share") for key in keys),
    )
    return Audit(
        keys=keys,
        rows_original=rows + 100,
        rows_released=rows,
        measures={item.name: item for item in items},
        class_sizes=sizes,
        notes=more.pop("notes", (NOTE,)),
        **more,
    )


def pictured(label="female", name="sex", **more):
    rng = np.random.default_rng(5)
    points = rng.normal(size=(60, 2))
    classes = np.arange(60) // 5
    means = np.array([points[classes == one].mean(axis=0) for one in classes])
    return example(
        comparisons=(
            Comparison(
                name, "nominal", np.array([30, 20]), np.array([35, 15]), labels=(label, "male")
            ),
            Comparison(
                "age", "numeric", np.arange(20), np.arange(20)[::-1], edges=np.arange(21) * 4.0
            ),
            Comparison(
                "born",
                "datetime",
                np.array([3, 4]),
                np.array([0, 7]),
                edges=np.array([1e4, 2e4, 3e4]),
                unit="D",
            ),
            Comparison(
                "wide",
                "numeric",
                np.array([1, 1]),
                np.array([2, 0]),
                edges=np.array([-1.7e308, 0, 1.7e308]),
            ),
            Comparison("flat", "numeric", np.array([2]), np.array([2]), edges=np.array([5.0, 5.0])),
            Comparison(
                "wait",
                "datetime",
                np.array([2]),
                np.array([2]),
                edges=np.array([0.0, 5.0]),
                unit="seconds",
            ),
        ),
        projection=Projection(points, means, classes, (0.6, 0.3), 60),
        **more,
    )


WORST = {
    "p_sensitivity": (3, "values", False),
    "l_diversity": (3, "values", False),
    "l_entropy": (2.3811015779522995, "values", False),
    "l_recursive": (2, "values", False),
    "t_closeness": (0.3125, "distance", True),
    "t_kullback": (1.75, "bits", True),
    "delta_disclosure": (3.25, "bits", True),
    "disclosed_bits": (0.875, "bits", True),
    "homogeneous_classes": (3, "classes", True),
    "homogeneous_records": (17, "records", True),
    "dependence_loss": (0.6543210987, "share", True),
}
CHANGES = {
    "il1s": (0.123456789, "deviations", True),
    "mean_change": (0.0123456789, "deviations", True),
    "deviation_change": (0.0234567891, "share", True),
}
SINGLE = {
    "records_below_2k": (0.9775, "share", True),
    "prosecutor_worst": (0.2, "probability", True),
    "prosecutor_average": (0.198, "probability", True),
    "marketer": (0.198, "share", True),
    "journalist_worst": (0.004, "probability", True),
    "journalist_average": (0.00396, "probability", True),
    "diversity_average": (4.5678, "values", False),
    "linkage_one": (0.0034567891, "share", True),
    "linkage_two": (0.0123456789, "share", True),
    "linkage_some": (0.0456789123, "share", True),
    "dld": (0.1623456789, "share", True),
    "interval_disclosure": (0.0567891234, "share", True),
    "correlation_change": (0.0987654321, "correlation", True),
    "correlation_change_average": (0.0345678912, "correlation", True),
    "eigenvalue_change": (0.0456789123, "share", True),
    "propensity_error": (0.0198765432, "share", True),
    "task_released": (0.7654321987, "accuracy", False),
    "task_original": (0.7987654321, "accuracy", False),
    "task_baseline": (0.5432198765, "accuracy", False),
    "task_loss": (0.0333332334, "accuracy", True),
}
EXTREME = 987654.3125
"""A value that occurs only in the original; a full audit contains it."""


def correlations(names, seed=3, change=0.1):
    rng = np.random.default_rng(seed)
    before = np.corrcoef(rng.normal(size=(len(names), 30)))
    after = before + change * (np.corrcoef(rng.normal(size=(len(names), 30))) - np.eye(len(names)))
    return Correlations(tuple(names), before, np.clip(after, -1, 1))


def full(*, secret=EXTREME, column="age", **more):
    """Return an audit with everything it can have; ``secret`` is an extreme original value."""
    base = pictured(**{"notes": (f"A note that contains {secret}.",), **more})
    extra = {
        **{
            name: Measure(name, *fields, f"What {name} means.")
            for name, fields in {**WORST, **CHANGES}.items()
        },
        **{
            f"{name}.tsh": Measure(f"{name}.tsh", *fields, f"What {name} means.")
            for name, fields in WORST.items()
        },
        **{
            f"{name}.age": Measure(f"{name}.age", *fields, f"What {name} means.")
            for name, fields in CHANGES.items()
        },
        **{name: Measure(name, *fields, f"What {name} means.") for name, fields in SINGLE.items()},
        "linkage": Measure(
            "linkage", 0.123456789, "share", True, "What linkage means.", (0.11111, 0.13333)
        ),
        "novelty": Measure("novelty", 0.987654321, "share", True, f"A new measure, of {secret}."),
    }
    shares = np.linspace(0, 1, 101)
    days = 20000 * shares
    wide = Comparison(
        "pay",
        "numeric",
        np.array([9, 1]),
        np.array([10, 0]),
        edges=np.array([0, secret / 2, secret]),
    )
    return replace(
        base,
        measures={**base.measures, **extra},
        comparisons=(*base.comparisons, wide),
        quantiles=(
            Quantiles(column, shares, 20 + 70 * shares, 25 + 60 * shares),
            Quantiles("pay", shares, secret * shares**3, 0.8 * secret * shares**3),
            Quantiles("born", shares, days, days, unit="D"),
            Quantiles("wide", shares, 1.7e308 * (2 * shares - 1), np.zeros(101)),
            Quantiles("flat", shares, np.full(101, 5.0), np.full(101, 5.0)),
        ),
        correlations=correlations([column, "body-mass index", "born", "tsh", "pay"]),
        linkage_by_known=np.array([0.0034567, 0.0456789, 0.1234567, 0.1756789]),
        homogeneous={
            "tsh": np.array([5, 5, 7]),
            f"remark{column[3:]}": np.array([], dtype=np.int64),
        },
    )
