"""The audit of a published table against its original."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from microcell.auditing.alignment import align
from microcell.auditing.anonymity import class_labels
from microcell.auditing.comparisons import compare_columns
from microcell.auditing.disclosure import in_order, measure_disclosure, worst_of
from microcell.auditing.distortion import ColumnDistortion, average, distort_columns
from microcell.auditing.linkage import measure_linkage, read_linkage_points
from microcell.auditing.notes import (
    missing_columns,
    naming_notes,
    role_notes,
    surplus_columns,
    unexpected_columns,
    unreadable_notes,
)
from microcell.auditing.projection import project
from microcell.auditing.risk import measure_risk
from microcell.errors import SchemaError
from microcell.model import Audit, Integers, Measure, Schema, Table

__all__ = ["audit"]


@dataclass(frozen=True)
class _Fault:
    """What is counted that must be 0: in which unit, and what it means."""

    unit: str
    meaning: str


_FAULTS: Mapping[str, _Fault] = {
    "records_unaccounted": _Fault("records", "Published records that cannot come from the original; must be 0."),
    "identifiers_left": _Fault("columns", "Columns to be removed that are still in the published table; must be 0."),
    "columns_missing": _Fault("columns", "Columns to be published unchanged that are not in the release; must be 0."),
    "columns_unexpected": _Fault("columns", "Columns of the release that have no role in the schema; must be 0."),
    "values_changed": _Fault("values", "Values to be published unchanged that are not the original's; must be 0."),
    "manifest_contradictions": _Fault("statements", "Statements of the manifest that do not hold; must be 0."),
}


def audit(
    original: Table,
    released: Table,
    schema: Schema,
    *,
    pairs: Integers | None = None,
    contradictions: Sequence[str] | None = None,
) -> Audit:
    """What an outsider finds who compares the two tables: k, classes, records, what is wrong, distortion.

    Parameters
    ----------
    schema
        Resolved: each quasi-identifier has its kind.
    pairs
        The row of the original (from 0) that each published row comes from, if known. Otherwise rows are matched by
        position. Where the columns published unchanged do not bear that out, distortion is not measured and a note
        says so.
    contradictions
        Sentences on the statements of the release's manifest that do not hold; None if there is no manifest.

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
    links: tuple[Measure, ...] = ()
    if matched.pairs is not None and released.rows:
        columns = distort_columns(original, released, schema, pairs=matched.pairs)
        projection = project(original, released, schema, pairs=matched.pairs, classes=labels)
        links = _links(original, released, schema, labels, matched.pairs)
    faults = {
        "records_unaccounted": max(0, released.rows - original.rows),
        "identifiers_left": len(surplus_columns(released, schema)),
        "columns_missing": len(missing_columns(released, schema)),
        "columns_unexpected": len(unexpected_columns(released, schema)),
        "values_changed": matched.changed,
        **({} if contradictions is None else {"manifest_contradictions": len(contradictions)}),
    }
    measures = (
        *_counts(original, released, sizes),
        *_faults(faults),
        *measure_risk(sizes),
        *_disclosures(released, schema, labels),
        *links,
        *_distortions(columns),
    )
    return Audit(
        keys=(*(column.name for column in schema.quasi), *schema.strata),
        rows_original=original.rows,
        rows_released=released.rows,
        measures={measure.name: measure for measure in measures},
        class_sizes=sizes,
        notes=(
            *(contradictions or ()),
            *matched.notes,
            *role_notes(released, schema),
            *naming_notes(released, schema),
            *unreadable_notes(columns),
        ),
        comparisons=compare_columns(original, released, schema),
        projection=projection,
    )


def _check_columns(original: Table, released: Table, schema: Schema) -> None:
    for which, table in (("original", original), ("released", released)):
        absent = [name for name in schema.keys if name not in table.columns]
        if absent:
            raise SchemaError(
                f"The {which} table has no column{'s' * (len(absent) > 1)} {', '.join(map(repr, absent))}, which the "
                "schema names as quasi-identifier or stratum. Give the table with all of them, or correct the schema."
            )
    if schema.weight is not None and schema.weight not in original.columns:
        raise SchemaError(f"The original table has no column {schema.weight!r}, which the schema names as weight.")


def _counts(original: Table, released: Table, sizes: Integers) -> tuple[Measure, ...]:
    dropped = max(0, original.rows - released.rows)
    return (
        Measure("k", int(sizes.min()) if len(sizes) else 0, "records", False, "Records in the smallest class."),
        Measure("classes", len(sizes), "classes", False, "Groups of published records that cannot be told apart."),
        Measure("records", released.rows, "records", False, "Records in the published table."),
        Measure("records_dropped", dropped, "records", True, "Records of the original that were not published."),
    )


def _faults(found: Mapping[str, int]) -> Iterator[Measure]:
    for name, count in found.items():
        yield Measure(name, count, _FAULTS[name].unit, True, _FAULTS[name].meaning)


def _links(original: Table, released: Table, schema: Schema, labels: Integers, pairs: Integers) -> tuple[Measure, ...]:
    """How many records an outsider finds again who knows the original's quasi-identifiers."""
    points = read_linkage_points(original, released, schema, pairs)
    return measure_linkage(
        points.before, points.after, labels, columns=points.names, blocks=points.blocks, unchanged=points.unchanged
    )


def _disclosures(released: Table, schema: Schema, labels: Integers) -> tuple[Measure, ...]:
    """What classes tell of the confidential columns: the worst of them, then each."""
    columns = []
    for column in schema.confidential:
        if column.name in released.columns and released.rows:
            values = in_order(column, released.columns[column.name])
            columns.append(measure_disclosure(labels, values, column.name, ordered=column.kind != "nominal"))
    return (*worst_of(columns), *(measure for column in columns for measure in column))


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
