"""The audit of a published table against its original."""

from collections.abc import Iterator, Sequence

import numpy as np

from microcell.auditing.alignment import align
from microcell.auditing.anonymity import class_labels
from microcell.auditing.comparisons import compare_columns
from microcell.auditing.distortion import ColumnDistortion, average, distort_columns
from microcell.auditing.projection import project
from microcell.errors import SchemaError
from microcell.model import Audit, Integers, Measure, Schema, Table

__all__ = ["audit"]


def audit(original: Table, released: Table, schema: Schema, *, pairs: Integers | None = None) -> Audit:
    """What an outsider finds who compares the two tables: k, classes, records, identifiers left, distortion.

    Parameters
    ----------
    schema
        Resolved: each quasi-identifier has its kind.
    pairs
        The row of the original (from 0) that each published row comes from, if known. Otherwise rows are matched by
        position, where the columns published unchanged bear that out; where they do not, distortion is not measured
        and a note says so.

    Raises
    ------
    SchemaError
        A quasi-identifier or stratum is not in one of the tables, or is stored as something that cannot be compared.
    DataError
        A value that is no value: an infinity, a negative weight, a category outside its order.

    Examples
    --------
    >>> from microcell.model import Column, Values
    >>> known = np.zeros(4, dtype=bool)
    >>> before = Table({"age": Values("integer", np.array([20, 22, 40, 42]), known)}, rows=4, native=None)
    >>> after = Table({"age": Values("integer", np.array([21, 21, 41, 41]), known)}, rows=4, native=None)
    >>> found = audit(before, after, Schema(quasi=[Column("age", kind="numeric", publish="mean")]))
    >>> found["k"], round(found["distortion"], 4)
    (2, 0.0099)
    """
    _check_columns(original, released, schema)
    labels = class_labels(released, schema.keys)
    sizes = np.bincount(labels).astype(np.int64)
    matched = align(original, released, schema, pairs=pairs)
    columns: tuple[ColumnDistortion, ...] = ()
    projection = None
    if matched.pairs is not None and released.rows:
        columns = distort_columns(original, released, schema, pairs=matched.pairs)
        projection = project(original, released, schema, pairs=matched.pairs, classes=labels)
    measures = (*_counts(original, released, schema, sizes), *_distortions(columns))
    return Audit(
        keys=(*(column.name for column in schema.quasi), *schema.strata),
        rows_original=original.rows,
        rows_released=released.rows,
        measures={measure.name: measure for measure in measures},
        class_sizes=sizes,
        notes=(*matched.notes, *_column_notes(released, schema), *_unreadable_notes(columns)),
        comparisons=compare_columns(original, released, schema),
        projection=projection,
    )


def _check_columns(original: Table, released: Table, schema: Schema) -> None:
    for which, table in (("original", original), ("released", released)):
        absent = [name for name in schema.keys if name not in table.columns]
        if absent:
            raise SchemaError(
                f"The {which} table has no column{'s' * (len(absent) > 1)} {_listing(absent)}, which the schema names "
                "as quasi-identifier or stratum. Give the table with all of them, or correct the schema."
            )
    if schema.weight is not None and schema.weight not in original.columns:
        raise SchemaError(f"The original table has no column {schema.weight!r}, which the schema names as weight.")


def _left(released: Table, schema: Schema) -> list[str]:
    return [name for name in (*schema.identifiers, *schema.drop) if name in released.columns]


def _counts(original: Table, released: Table, schema: Schema, sizes: Integers) -> tuple[Measure, ...]:
    surplus = released.rows - original.rows
    return (
        Measure("k", int(sizes.min()) if len(sizes) else 0, "records", False, "Records in the smallest class."),
        Measure("classes", len(sizes), "classes", False, "Groups of published records that cannot be told apart."),
        Measure("records", released.rows, "records", False, "Records in the published table."),
        Measure(
            "records_dropped", max(0, -surplus), "records", True, "Records of the original that were not published."
        ),
        Measure(
            "records_unaccounted",
            max(0, surplus),
            "records",
            True,
            "Published records that cannot come from the original; must be 0.",
        ),
        Measure(
            "identifiers_left",
            len(_left(released, schema)),
            "columns",
            True,
            "Columns to be removed that are still in the published table; must be 0.",
        ),
    )


def _distortions(columns: Sequence[ColumnDistortion]) -> Iterator[Measure]:
    if not columns:
        return
    yield Measure(
        "distortion",
        average(columns),
        "share",
        True,
        "Information lost in all: 0 is nothing, 1 as much as if all records were published alike.",
    )
    for item in columns:
        name = item.column.name
        yield Measure(f"distortion.{name}", item.loss.share, "share", True, f"Information lost of {name}.")


def _column_notes(released: Table, schema: Schema) -> Iterator[str]:
    left = _left(released, schema)
    if left:
        yield f"To be removed, but still in the release: {_columns(left)}."
    absent = [name for name in schema.unchanged if name not in released.columns]
    if absent:
        yield f"To be published unchanged, but not in the release: {_columns(absent)}."
    roles = {name for name, _ in schema.roles()}
    strange = [name for name in released.names if name not in roles]
    if strange:
        yield f"In the release without a role in the schema, and so not looked at: {_columns(strange)}."


def _unreadable_notes(columns: Sequence[ColumnDistortion]) -> Iterator[str]:
    for item in columns:
        if item.unreadable:
            yield (
                f"Column {item.column.name!r}: {item.unreadable} published value"
                f"{'s' * (item.unreadable > 1)} could not be compared with the original and count"
                f"{'s' * (item.unreadable == 1)} as lost."
            )


def _columns(names: Sequence[str]) -> str:
    return f"column{'s' * (len(names) > 1)} {_listing(names)}"


def _listing(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
