"""What releasing and comparing have in common: from a source to points, and from points to cells within strata."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from microcell import auditing, configuration, encoding, partitioning, progress, roles, tables
from microcell.errors import OptionError, SchemaError, TooFewRecordsError
from microcell.model import Encoded, Integers, Partition, Schema, Table

__all__ = ["Prepared", "Request", "as_schema", "check_handling", "make_cells", "prepare", "released_rows", "take_rows"]

MISSING = ("error", "drop", "impute")


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
