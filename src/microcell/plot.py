"""Pictures of cells in two dimensions: methods side by side, or the cells of a release."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from microcell import methods as partitioning
from microcell import progress, report, tables
from microcell.allocation import draw_allocation
from microcell.cells import PowerCells
from microcell.errors import OptionError
from microcell.increments.planning import draw_plan
from microcell.model import Schema
from microcell.release import partition, picture, prepare
from microcell.release.publish import Release
from microcell.surveys.sizes import draw_size
from microcell.sweeps import draw_dependence, draw_exploration, draw_trials

__all__ = [
    "draw_allocation",
    "draw_cells",
    "draw_dependence",
    "draw_exploration",
    "draw_plan",
    "draw_release",
    "draw_size",
    "draw_trials",
]


def draw_cells(
    source: Any,
    schema: Schema | str | Path,
    *,
    k: int,
    methods: str | Iterable[str] = ("mdav", "pcl"),
    columns: str | Iterable[str] | None = None,
    form: str = "svg",
    seed: int = 0,
    missing: str = "error",
) -> bytes:
    """A figure of the cells that methods make of a table, side by side: "svg", "png" or "pdf".

    Records are dots, centroids crosses. Cells of "pcl" are the polytopes of their power diagram; those of other methods
    are drawn as the hulls of their records. Needs quasi-identifiers of two dimensions in all: name them by ``columns``
    if the schema has more.
    """
    partitioning.check_k(k)
    names = [methods] if isinstance(methods, str) else list(methods)
    for name in names:
        partitioning.check_method(name, {})
    if not names:
        raise OptionError(
            f"No method to draw; choose some of auto, {', '.join(partitioning.METHODS)}."
        )
    prepare.check_handling(missing, seed)
    chosen = prepare.as_schema(schema)
    if columns is not None:
        chosen = _narrow(chosen, [columns] if isinstance(columns, str) else list(columns))
    prepared = prepare.prepare(source, chosen, k=k, missing=missing)
    points = prepared.encoded.matrix
    if points.shape[1] != 2:
        raise OptionError(
            f"Cells can be drawn in two dimensions; the quasi-identifiers have {points.shape[1]}. Name two columns of "
            "numbers or dates that vary."
        )
    maps: list[report.CellMap] = []
    for name in names:
        progress.report(f"{name}, k = {k}", len(maps), len(names))
        maps.append(_map_method(prepared, partition.Request(k, name, seed, {})))
    return report.draw_cellmaps(maps, form, axes=picture.map_axes(prepared))


def draw_release(source: Any, release: Release, form: str = "svg") -> bytes | None:
    """Draw the cells of a release over the records of ``source``, the table it was made from.

    Returns None if the quasi-identifiers do not span two dimensions.
    """
    return picture.draw_release(replace(release, original=tables.read(source)), form)


def _narrow(schema: Schema, columns: list[str]) -> Schema:
    """The schema with these quasi-identifiers alone; all else is dropped, since nothing is released."""
    known = {column.name: column for column in schema.quasi}
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise OptionError(
            f"{', '.join(map(repr, unknown))} are not among the quasi-identifiers {', '.join(known)}."
        )
    return replace(Schema(quasi=[known[name] for name in columns]), rest="drop")


def _map_method(prepared: prepare.Prepared, request: partition.Request) -> report.CellMap:
    points, weights = prepared.encoded.matrix, prepared.encoded.weights
    one_stratum = len(np.unique(prepared.strata)) == 1
    if request.method == "pcl" and one_stratum:
        made = partition.fit_cells(prepared, request, "power")
        cells = made.cells if isinstance(made.cells, PowerCells) else None
        return picture.map_cells("PCL", points, made.partition.labels, cells, weights)
    return picture.map_cells(
        request.method.upper(),
        points,
        partition.partition_records(prepared, request).labels,
        None,
        weights,
    )
