"""Figures: cells of a table or a release, comparisons, explorations, allocations and plans.

Every function returns the contents of an SVG, PNG or PDF file, as bytes. The same input gives the
same bytes. A notebook displays an SVG or PNG file as a picture.
matplotlib, which belongs to the extra ``report``, is loaded when the first figure is drawn.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from microcell import methods as partitioning
from microcell import progress, tables
from microcell.cells import PowerCells
from microcell.errors import OptionError
from microcell.kernels.arrays import EARTH_RADIUS
from microcell.model import Schema
from microcell.release import partition, picture, prepare
from microcell.release.publish import Release
from microcell.report import check_figure_format, figures
from microcell.surveys.sizes import effective_anonymity

if TYPE_CHECKING:
    from microcell.allocation import Allocation
    from microcell.increments import Plan
    from microcell.surveys import Outlook, SurveySize, SurveySweep
    from microcell.sweeps import DependenceSweep, Exploration, Trial

__all__ = [
    "allocation",
    "cells",
    "comparison",
    "dependence",
    "exploration",
    "plan",
    "release",
    "survey_outlook",
    "survey_size",
    "survey_sweep",
]

_MARGIN = 0.05
"""Margin around the records, as a share of their range."""
_DECADES = 8
"""Powers of ten shown on either side of the requested failure probability."""


def cells(
    source: Any,
    schema: Schema | str | Path,
    *,
    k: int,
    methods: str | Iterable[str] = ("mdav", "pcl"),
    columns: str | Iterable[str] | None = None,
    format: str = "svg",
    seed: int = 0,
    missing: str = "error",
) -> bytes:
    """Draw the cells that different methods produce from a table, side by side.

    Records are dots and centroids crosses. Cells of "pcl" are drawn as polygons of their power
    diagram, those of other methods as convex hulls of their records. The figure shows original
    records: do not publish it.

    Parameters
    ----------
    source, schema, k, seed, missing
        As in :func:`microcell.anonymize`.
    methods
        One or more methods.
    columns
        The quasi-identifiers to use, if the schema has more than two dimensions.
    format : {"svg", "png", "pdf"}
        File format of the result.
    """
    check_figure_format(format)
    partitioning.check_k(k)
    names = [methods] if isinstance(methods, str) else list(methods)
    for name in names:
        partitioning.check_method(name, {})
    if not names:
        raise OptionError(
            "There is no method to draw. Choose one or more of auto, "
            f"{', '.join(partitioning.METHODS)}.",
            code="option.invalid",
            option="methods",
        )
    prepare.check_handling(missing, seed)
    schema = prepare.as_schema(schema)
    if columns is not None:
        schema = _select_columns(schema, [columns] if isinstance(columns, str) else list(columns))
    prepared = prepare.prepare(source, schema, k=k, missing=missing)
    dimensions = prepared.encoded.matrix.shape[1]
    if dimensions != 2:
        raise OptionError(
            f"Cells can only be drawn in two dimensions, but the quasi-identifiers have "
            f"{dimensions}. Select two numeric or date columns that vary.",
            code="option.unsupported",
            option="columns",
            dimensions=dimensions,
        )
    panels: list[figures.Panel] = []
    for name in names:
        progress.report(f"{name}, k = {k}", len(panels), len(names))
        panels.append(_panel_of_method(prepared, partition.Request(k, name, seed, {})))
    return figures.draw_panels(panels, format, axis_labels=picture.axis_labels(prepared))


def release(source: Any, release: Release, *, format: str = "svg") -> bytes | None:
    """Draw the original records and cells of a release, or return None unless it is 2-D.

    The figure shows original records: do not publish it.

    Parameters
    ----------
    source
        The original table.
    release
        A release of that table whose quasi-identifiers have two dimensions in total.
    format : {"svg", "png", "pdf"}
        File format of the result.
    """
    check_figure_format(format)
    return picture.draw_release(replace(release, original=tables.read(source)), format)


def comparison(trials: "Iterable[Trial]", *, format: str = "svg") -> bytes:
    """Draw the distortion and run time of the methods that :func:`microcell.compare` tried.

    Each method has a marker and each k a line. Methods that do not support the table are omitted.
    """
    check_figure_format(format)
    shown = [trial for trial in trials if not trial.skipped]
    if not shown:
        raise OptionError(
            "There is nothing to draw, because none of the methods supports the table. Compare "
            "other methods.",
            code="option.invalid",
            option="trials",
        )
    return figures.draw_comparison(shown, format)


def exploration(exploration: "Exploration", *, format: str = "svg") -> bytes:
    """Draw the risk and loss of the points that :func:`microcell.explore` tried.

    There is one line per method, labelled with k. The frontier is a dashed staircase, the area
    beyond a limit is shaded, points that miss a limit are hollow, and the recommended point has a
    ring.
    """
    check_figure_format(format)
    return figures.draw_exploration(exploration, format)


def dependence(sweep: "DependenceSweep", *, format: str = "svg") -> bytes:
    """Draw the trade-offs that :func:`microcell.dependence_sweep` measured.

    The left panel shows D_Y against D_X, the right one their changes relative to weight 0.
    """
    check_figure_format(format)
    return figures.draw_dependence(sweep, format)


def allocation(allocation: "Allocation", *, format: str = "svg") -> bytes:
    """Draw the result of :func:`microcell.allocate`: a map if it has two coordinates, else charts.

    The map shows points, centres, and the polygon of each centre, in which its squared distance
    plus price is the smallest. The charts show how far the points travel, and the load and capacity
    of each centre.
    """
    check_figure_format(format)
    return figures.draw_allocation(allocation, format, radius=EARTH_RADIUS)


def plan(plan: "Plan", *, format: str = "svg") -> bytes:
    """Draw the steps of a plan over time, next to processing all records at the end."""
    check_figure_format(format)
    return figures.draw_plan(plan, format)


def survey_size(size: "SurveySize", *, format: str = "svg") -> bytes:
    """Draw the required cell size of a survey against the accepted failure probability."""
    check_figure_format(format)
    anonymity = size.anonymity
    middle = int(np.clip(np.floor(np.log10(anonymity.failure)), -290, -1))
    exponents = np.arange(max(middle - _DECADES, -299), min(middle + _DECADES, -1) + 1, 0.125)
    probabilities = np.clip(10.0**exponents, 1e-300, 0.5).tolist()
    sizes = [
        effective_anonymity(anonymity.k, size.participation, probability).size
        for probability in probabilities
    ]
    return figures.draw_survey_size(size, probabilities, sizes, format)


def survey_outlook(outlook: "Outlook", *, format: str = "svg") -> bytes:
    """Draw the failures and the share released that :func:`microcell.surveys.simulate` predicts."""
    check_figure_format(format)
    return figures.draw_outlook(outlook, format)


def survey_sweep(sweep: "SurveySweep", *, format: str = "svg") -> bytes:
    """Draw the information loss that :func:`microcell.surveys.sweep` estimated, against k."""
    check_figure_format(format)
    return figures.draw_survey_sweep(sweep, format)


def _select_columns(schema: Schema, names: list[str]) -> Schema:
    """Keep only these quasi-identifiers and the persons; nothing is released from the result."""
    available = {column.name: column for column in schema.quasi}
    unknown = [name for name in names if name not in available]
    if unknown:
        raise OptionError(
            f"Not a quasi-identifier: {', '.join(map(repr, unknown))}. "
            f"Choose from {', '.join(available)}.",
            code="option.unknown",
            option="columns",
            columns=unknown,
        )
    return Schema(
        quasi=[available[name] for name in names],
        person=schema.person,
        person_cells=schema.person_cells,
        rest="drop",
    )


def _panel_of_method(prepared: prepare.Prepared, request: partition.Request) -> "figures.Panel":
    one_stratum = len(np.unique(prepared.strata)) == 1
    by_row = prepared.schema.person_cells == "rows"
    if request.method == "pcl" and one_stratum and by_row:
        grouping = partition.fit_cells(prepared, request, "power")
        power_cells = grouping.cells if isinstance(grouping.cells, PowerCells) else None
        return picture.make_panel("pcl", prepared, grouping.partition.labels, power_cells)
    return picture.make_panel(
        request.method, prepared, partition.partition_records(prepared, request).labels, None
    )
