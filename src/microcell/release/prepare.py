"""Prepare a table: read it, resolve its schema, handle missing values and encode its records."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from microcell import auditing, encoding, progress, tables
from microcell._display import count
from microcell.errors import OptionError, SchemaError
from microcell.measures import people
from microcell.model import Encoded, Floats, Integers, Schema, Table
from microcell.model.audit import MaskEffect
from microcell.release.masking import mask_confidential, measure_masks
from microcell.schema import files, resolve

__all__ = [
    "Prepared",
    "as_schema",
    "check_confidential",
    "check_dominance",
    "check_group_sizes",
    "check_handling",
    "encode_records",
    "keep_rows",
    "mask",
    "prepare",
    "released_rows",
    "take_rows",
    "with_dominance",
]

MISSING = ("error", "drop", "impute")


@dataclass(frozen=True, eq=False, repr=False)
class Prepared:
    """A table ready to be partitioned.

    Attributes
    ----------
    original
        The table as read.
    table
        The records to release.
    schema
        The resolved schema.
    encoded
        The quasi-identifiers of the records to release, as points.
    strata
        Stratum of each record to release.
    persons
        Person of each record to release; None if every record counts as a person.
    rows
        Row of the original table that each record to release comes from.
    mask_effects
        What masking did to confidential columns.
    """

    original: Table
    table: Table
    schema: Schema
    encoded: Encoded
    strata: Integers
    rows: Integers
    persons: Integers | None = None
    mask_effects: tuple[MaskEffect, ...] = ()

    @property
    def dimensions(self) -> tuple[slice, ...]:
        """Dimensions of each quasi-identifier."""
        return tuple(slice(column.first, column.last) for column in self.encoded.encoding.columns)

    @property
    def n_missing(self) -> int:
        """Number of missing values in quasi-identifiers."""
        return sum(encoding.count_missing(self.table, self.schema).values())

    @cached_property
    def confidential(self) -> Floats:
        """Confidential columns as points; :class:`OptionError` if none of them varies."""
        check_confidential(self.schema)
        points = encoding.encode_confidential(self.table, self.schema)
        check_confidential(self.schema, points.shape[1])
        return points

    @cached_property
    def confidential_parts(self) -> dict[str, slice]:
        """Dimensions of each confidential column."""
        fitted = encoding.fit_confidential(self.table, self.schema)
        return {column.name: slice(column.first, column.last) for column in fitted.columns}

    def points(self, block: Sequence[int] | None = None) -> Floats:
        """Return the points, optionally restricted to some quasi-identifiers (by position)."""
        if block is None:
            return self.encoded.matrix
        return np.ascontiguousarray(
            np.hstack([self.encoded.matrix[:, self.dimensions[position]] for position in block])
        )


def check_confidential(schema: Schema, dimensions: int | None = None) -> None:
    """Raise OptionError if no confidential column varies, so there is no dependence to preserve.

    ``dimensions`` is that of the encoded confidential columns, once it is known.
    """
    if not schema.confidential:
        raise OptionError(
            "dependence needs confidential columns, but the schema declares none. "
            "Declare some or set dependence to 0.",
            code="option.conflict",
            option="dependence",
        )
    if dimensions == 0:
        raise OptionError(
            "dependence needs a confidential column that varies, but all of them are constant. "
            "Set dependence to 0.",
            code="option.conflict",
            option="dependence",
        )


def check_handling(missing: str, seed: int) -> None:
    """Raise OptionError if ``missing`` or ``seed`` is invalid."""
    if missing not in MISSING:
        raise OptionError(
            f"missing must be one of {', '.join(MISSING)}, not {missing!r}.",
            code="option.unknown",
            option="missing",
        )
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise OptionError(
            f"seed must be a non-negative integer, not {seed!r}.",
            code="option.out_of_range",
            option="seed",
        )


def prepare(
    source: Any, schema: Schema | str | Path, *, k: int, missing: str, publish_cells: bool = False
) -> Prepared:
    """Prepare a table whose release is not published: noise and swaps are drawn anew."""
    prepared = encode_records(source, schema, k=k, missing=missing, publish_cells=publish_cells)
    return mask(prepared, token_hex(16))


def mask(prepared: Prepared, key: str) -> Prepared:
    """Mask the confidential columns of the records to release, as the key of the release says."""
    original = mask_confidential(prepared.original, prepared.schema, prepared.rows, key)
    if original is prepared.original:
        return prepared
    effects = measure_masks(prepared.original, original, prepared.schema, prepared.rows)
    table = take_rows(original, prepared.rows)
    return replace(prepared, original=original, table=table, mask_effects=effects)


def encode_records(
    source: Any, schema: Schema | str | Path, *, k: int, missing: str, publish_cells: bool = False
) -> Prepared:
    """Read the source, handle missing values and encode the remaining records.

    Confidential columns are not masked yet; :func:`mask` does that. ``publish_cells`` rounds the
    statistics of the encoding, which are part of published cells.

    Raises
    ------
    SchemaError
        People seem to have several rows, but the schema names no person column.
    TooFewRecordsError
        Fewer than k people, in the table or in a stratum.
    """
    progress.report("reading")
    original = tables.read(source)
    people.check_enough(original.rows, k)
    resolved = resolve.resolve(as_schema(schema), original)
    people.check_people(original, resolved)
    rows = released_rows(original, resolved, missing)
    table = take_rows(original, rows)
    check_dominance(resolved, k)
    strata = auditing.class_labels(table, resolved.strata)
    persons = people.person_codes(table, resolved)
    check_group_sizes(resolved, strata, persons, k)
    progress.report("encoding")
    encoded = encoding.encode(table, resolved, rounded=publish_cells, persons=persons)
    return Prepared(original, table, resolved, encoded, strata, rows, persons)


def check_group_sizes(schema: Schema, strata: Integers, persons: Integers | None, k: int) -> None:
    """Raise an error if the table or a stratum has fewer than k people."""
    everyone = np.zeros_like(strata)
    n_people = int(people.count_people(everyone, persons).sum())
    people.check_enough(n_people, k, people.unit(schema))
    people.check_strata(people.count_people(strata, persons), schema, k)
    people.check_together(schema, persons, strata)


def as_schema(schema: Any) -> Schema:
    """Return the schema, read from a file if it is a path."""
    if isinstance(schema, (str, Path)):
        return files.load_schema(schema)
    if not isinstance(schema, Schema):
        raise SchemaError(
            f"schema must be a Schema or the path of a schema file, not {type(schema).__name__}.",
            code="schema.invalid",
            option="schema",
        )
    return schema


def with_dominance(schema: Any, dominance: Any) -> Schema:
    """Return the schema with another dominance rule."""
    return replace(as_schema(schema), dominance=dominance)


def check_dominance(schema: Schema, k: int) -> None:
    """Raise OptionError if cells of k records cannot meet the schema's dominance rule."""
    n, p = schema.dominance
    weighted = schema.weight is not None or schema.person
    if weighted and n > p * k * (1 + 1e-9):
        raise OptionError(
            f"dominance ({n}, {p:g}) cannot be met by cells of k = {k}: even with equal weights, "
            f"{count(n, 'record')} of {k} {'has' if n == 1 else 'have'} the share {n / k:.3g}. "
            "Raise the share or k.",
            code="option.out_of_range",
            option="dominance",
            k=int(k),
        )


def released_rows(
    table: Table, schema: Schema, missing: str, suppressed: Sequence[int] = ()
) -> Integers:
    """Return the rows to release: all, or with ``missing="drop"`` only the complete ones.

    Complete rows have all quasi-identifiers and a person. ``suppressed`` are the numbers (from 1)
    of rows that were left out because they cost most.
    """
    kept = np.ones(table.rows, dtype=np.bool_)
    numbers = np.asarray(suppressed, dtype=np.int64) - 1
    kept[numbers[(numbers >= 0) & (numbers < table.rows)]] = False
    if missing == "drop":
        incomplete = encoding.missing_rows(table, schema)
        kept &= ~(incomplete | people.incomplete_persons(table, schema))
    elif missing == "error":
        encoding.check_missing(table, schema)
    return np.flatnonzero(kept)


def keep_rows(prepared: Prepared, kept: Integers, *, publish_cells: bool = False) -> Prepared:
    """Return some of the prepared records, encoded anew as if there were no others."""
    table = take_rows(prepared.table, kept)
    schema = prepared.schema
    return Prepared(
        prepared.original,
        table,
        schema,
        encoding.encode(table, schema, rounded=publish_cells),
        auditing.class_labels(table, schema.strata),
        prepared.rows[kept],
        people.person_codes(table, schema),
    )


def take_rows(table: Table, rows: Integers) -> Table:
    """Return the table restricted to ``rows``; the table itself if that is all of them."""
    return table if len(rows) == table.rows else tables.take(table, rows)
