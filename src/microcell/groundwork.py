"""What releasing and comparing have in common: from a source to points, and from points to cells within strata."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from microcell import auditing, configuration, encoding, partitioning, progress, roles, tables
from microcell.cells import Cells, PowerCells, ball_cells, lookup_cells
from microcell.errors import OptionError, SchemaError, TooFewRecordsError
from microcell.model import Encoded, Floats, Integers, Partition, Schema, Table

__all__ = [
    "FUNCTIONS",
    "Made",
    "Prepared",
    "Request",
    "as_schema",
    "check_function",
    "check_handling",
    "make_cells",
    "make_function",
    "prepare",
    "released_rows",
    "take_rows",
]

MISSING = ("error", "drop", "impute")

FUNCTIONS = ("power", "balls", "lookup")
"""The kinds of cells that a release can carry as a function."""


@dataclass(frozen=True)
class Request:
    """How cells are to be made."""

    k: int
    method: str
    seed: int
    options: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table as read, the records of it that go on, their resolved schema, their points and their strata."""

    original: Table
    table: Table
    schema: Schema
    encoded: Encoded
    strata: Integers


def check_handling(missing: str, seed: int) -> None:
    """Refuse a word for missing values that is unknown, and a seed that is none."""
    if missing not in MISSING:
        raise OptionError(f"missing must be one of {', '.join(MISSING)}, not {missing!r}.")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise OptionError(f"seed must be a whole number of 0 or more, not {seed!r}.")


def prepare(source: Any, schema: Schema | str | Path, *, k: int, missing: str) -> Prepared:
    """The source read, its incomplete records handled and the others encoded; refused if they are too few for k."""
    progress.report("reading")
    original = tables.read(source)
    _check_enough(original, k)
    resolved = roles.resolve(as_schema(schema), original)
    table = take_rows(original, released_rows(original, resolved, missing))
    _check_enough(table, k)
    strata = auditing.class_labels(table, resolved.strata)
    _check_strata(strata, resolved, k)
    progress.report("encoding")
    return Prepared(original, table, resolved, encoding.encode(table, resolved), strata)


def make_cells(prepared: Prepared, request: Request) -> Partition:
    """Cells within each stratum, numbered through."""
    return partitioning.partition_within(
        prepared.strata,
        prepared.encoded.matrix,
        request.k,
        method=request.method,
        weights=prepared.encoded.weights,
        seed=request.seed,
        **request.options,
    )


@dataclass(frozen=True, eq=False)
class Made:
    """A partition, and the cells that yield it as a function of the points, if they were asked for."""

    partition: Partition
    cells: Cells | None = None


def check_function(kind: Any) -> str | None:
    """The kind of cells asked for: True stands for power cells, False and None for none."""
    if isinstance(kind, bool) or kind is None:
        return "power" if kind else None
    if kind not in FUNCTIONS:
        raise OptionError(f"cells must be true, false or one of {', '.join(FUNCTIONS)}, not {kind!r}.")
    return str(kind)


def make_function(prepared: Prepared, request: Request, kind: str) -> Made:
    """Cells as a function of that kind, and the partition that the function makes of the records.

    Power cells: the method's cells polished at the same sizes, which cannot raise the distortion (but for sampling
    weights, which they do not know). Balls and lookup: the cells that the function makes of the records, which may be
    fewer.
    """
    points, weights, k = prepared.encoded.matrix, prepared.encoded.weights, request.k
    if len(np.unique(prepared.strata)) > 1:
        raise OptionError("Cells as a function do not go with strata yet. Anonymize each stratum on its own.")
    if "cell" in prepared.schema.keys:
        raise OptionError("A quasi-identifier is named 'cell', as the column that assigning adds. Rename it.")
    if points.shape[1] == 0:
        raise OptionError("No quasi-identifier varies, so that there is nothing that cells could be a function of.")
    if kind == "power" and request.method != "pcl" and len(points) // (2 * k - 1) > partitioning.MOST_POWER_CELLS:
        raise OptionError(
            f"These records make more than {partitioning.MOST_POWER_CELLS:,} cells, too many to find a function of. "
            "Use method='pcl', which makes cells within macrocells."
        )
    if kind == "power" and request.method == "pcl" and "refine" not in request.options:
        found = partitioning.pcl(points, k, weights=weights, seed=request.seed, **request.options)
        made = Made(Partition(found.labels, k, method="pcl", why="asked for"), found.cells)
    else:
        made = _function_of(make_cells(prepared, request), points, weights, kind)
    if isinstance(made.cells, PowerCells):
        made = replace(made, cells=partitioning.unpin(made.cells, points, made.partition.labels.copy()))
    assert made.cells is not None
    return replace(made, cells=replace(made.cells, k=k, encoding=prepared.encoded.encoding))


def _function_of(partition: Partition, points: Floats, weights: Floats | None, kind: str) -> Made:
    k = partition.k
    if kind == "power":
        found = partitioning.power_cells(points, partition.labels, weights=weights)
        why = f"{partition.why}, then polished into power cells"
        return Made(Partition(found.labels, k, method=partition.method, why=why), found.cells)
    progress.report("making the cells a function")
    cells: Cells = (ball_cells if kind == "balls" else lookup_cells)(points, partition.labels, k)
    why = f"{partition.why}, then as the function of {kind} has it"  # equal records are in one cell there
    return Made(Partition(cells.assign(points), k, method=partition.method, why=why), cells)


def as_schema(schema: Any) -> Schema:
    """The schema, read if its path was given."""
    if isinstance(schema, (str, Path)):
        return configuration.load_schema(schema)
    if not isinstance(schema, Schema):
        raise SchemaError(f"schema must be a Schema or the path of its file, not {type(schema).__name__}.")
    return schema


def released_rows(table: Table, schema: Schema, missing: str) -> Integers:
    """The rows to release: all, or those with every quasi-identifier."""
    if missing == "drop":
        return np.flatnonzero(~encoding.missing_rows(table, schema))
    if missing == "error":
        encoding.check_missing(table, schema)
    return np.arange(table.rows)


def take_rows(table: Table, rows: Integers) -> Table:
    """The table with these rows; itself if they are all of its own."""
    return table if len(rows) == table.rows else tables.take(table, rows)


def _check_enough(table: Table, k: int) -> None:
    if table.rows < k:
        raise TooFewRecordsError(
            f"{table.rows} records cannot make a cell of k = {k}. Lower k or add records; nothing was released."
        )


def _check_strata(strata: Integers, schema: Schema, k: int) -> None:
    sizes = np.bincount(strata)
    small = sizes[sizes < k]
    if len(small):
        raise TooFewRecordsError(
            f"{len(small)} of {len(sizes)} strata (by {', '.join(map(repr, schema.strata))}) have fewer than "
            f"k = {k} records; the smallest has {small.min()}. Merge strata, lower k, or make the column a "
            "quasi-identifier, so that cells may span its values."
        )
