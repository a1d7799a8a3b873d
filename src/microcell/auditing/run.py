"""The audit of a published table against its original."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from microcell.auditing.alignment import align
from microcell.auditing.views import compare_columns, project
from microcell.errors import OptionError, SchemaError
from microcell.measures.disclosure import (
    in_order,
    list_homogeneous,
    measure_dependence,
    measure_disclosure,
    worst_of,
)
from microcell.measures.learning import measure_learning
from microcell.measures.linkage import link_records, read_linkage_points
from microcell.measures.pairs import ColumnPairs
from microcell.measures.propensity import measure_propensity
from microcell.measures.risk import class_labels, measure_risk
from microcell.measures.utility import ColumnDistortion, average, distort_columns, study_utility
from microcell.model import (
    Audit,
    Correlations,
    Floats,
    Integers,
    Measure,
    Projection,
    Quantiles,
    Schema,
    Table,
    Values,
)
from microcell.progress import report

__all__ = [
    "Compared",
    "audit",
    "compare_rows",
    "missing_columns",
    "naming_notes",
    "repetition_notes",
    "role_notes",
    "surplus_columns",
    "unexpected_columns",
    "unreadable_notes",
]

_FEW = 10
_NEARLY_ALL = 0.9


def surplus_columns(released: Table, schema: Schema) -> list[str]:
    """The columns to be removed that are still in the release."""
    return [name for name in (*schema.identifiers, *schema.drop) if name in released.columns]


def missing_columns(released: Table, schema: Schema) -> list[str]:
    """The columns to be published unchanged that are not in the release."""
    return [name for name in schema.unchanged if name not in released.columns]


def unexpected_columns(released: Table, schema: Schema) -> list[str]:
    """The columns of the release that have no role in the schema."""
    roles = {name for name, _ in schema.roles()}
    return [name for name in released.names if name not in roles]


def role_notes(released: Table, schema: Schema) -> Iterator[str]:
    """A sentence on the columns that should not be in the release, or should be."""
    for text, find in _OF_ROLES.items():
        names = find(released, schema)
        if names:
            yield f"{text}: column{'s' * (len(names) > 1)} {', '.join(map(repr, names))}."


def naming_notes(released: Table, schema: Schema) -> Iterator[str]:
    """A sentence on each column published unchanged whose values nearly all differ, so that they may name people."""
    for name in (*(column.name for column in schema.confidential), *schema.keep):
        if (
            name in released.columns
            and released.columns[name].storage == "text"
            and _differs(released.columns[name])
        ):
            yield _telling(name, "it may name people")
    if (
        schema.weight is not None
        and schema.weight in released.columns
        and _differs(released.columns[schema.weight])
    ):
        text = released.columns[schema.weight].storage == "text"
        yield _telling(
            schema.weight,
            "it may name people" if text else "an outsider who knows it finds the record",
        )


def repetition_notes(original: Table, schema: Schema) -> Iterator[str]:
    """A sentence on the identifiers that repeat: a class of k records may be of fewer people, or of one."""
    told = []
    for name in (name for name in schema.identifiers if name in original.columns):
        values = original.columns[name]
        known, distinct = (
            len(values) - int(values.missing.sum()),
            len(np.unique(values.data[~values.missing])),
        )
        if distinct < known:
            told.append(f"{name!r} ({known:,} records with {distinct:,} values)")
    if told:
        yield (
            f"Identifiers that repeat: {', '.join(told)}. Unless different people share them, some people have several "
            "records: k counts records, not people."
        )


def unreadable_notes(columns: Sequence[ColumnDistortion]) -> Iterator[str]:
    """A sentence on each quasi-identifier with published values that could not be compared."""
    for item in columns:
        if item.unreadable:
            yield (
                f"Column {item.column.name!r}: {item.unreadable} published value"
                f"{'s' * (item.unreadable > 1)} could not be compared with the original and count"
                f"{'s' * (item.unreadable == 1)} as lost."
            )


_OF_ROLES = {
    "To be removed, but still in the release": surplus_columns,
    "To be published unchanged, but not in the release": missing_columns,
    "In the release without a role in the schema, and so not looked at": unexpected_columns,
}


def _differs(values: Values) -> bool:
    """True if nearly all of the column's values, missing ones aside, are different ones."""
    known = values.data[~values.missing]
    return len(known) >= _FEW and len(np.unique(known)) >= _NEARLY_ALL * len(known)


def _telling(name: str, why: str) -> str:
    return f"Column {name!r} is published unchanged and nearly every value differs: {why}."


@dataclass(frozen=True, eq=False)
class Compared:
    """What comparing rows found: measures and notes, and what is for the eye."""

    measures: tuple[Measure, ...] = ()
    notes: tuple[str, ...] = ()
    projection: Projection | None = None
    quantiles: tuple[Quantiles, ...] = ()
    correlations: Correlations | None = None
    linkage_by_known: Floats | None = None


def compare_rows(
    original: Table,
    released: Table,
    schema: Schema,
    classes: Integers,
    *,
    pairs: Integers,
    target: str | None,
) -> Compared:
    """Linkage and utility of a release of one row or more, published row i being original row ``pairs[i]``."""
    columns = distort_columns(original, released, schema, pairs=pairs)
    report("measuring utility")
    utility = study_utility(original, released, schema, pairs=pairs)
    propensity = measure_propensity(original, released, schema, pairs=pairs)
    learning: tuple[Measure, ...] = ()
    if target is not None:
        report("learning a task")
        learning = measure_learning(original, released, schema, pairs=pairs, target=target)
    report("linking records")
    links = link_records(read_linkage_points(original, released, schema, pairs), classes)
    return Compared(
        measures=(
            *links.measures,
            *_distortions(columns),
            *utility.measures,
            *propensity,
            *learning,
        ),
        notes=tuple(unreadable_notes(columns)),
        projection=project(ColumnPairs(original, released, schema, pairs), classes),
        quantiles=utility.quantiles,
        correlations=utility.correlations,
        linkage_by_known=links.by_known,
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
        yield Measure(
            f"distortion.{name}", item.loss.share, "share", True, f"Information lost of {name}."
        )


@dataclass(frozen=True)
class _Fault:
    """What is counted that must be 0: in which unit, and what it means."""

    unit: str
    meaning: str


_FAULTS: Mapping[str, _Fault] = {
    "records_unaccounted": _Fault(
        "records", "Published records that cannot come from the original; must be 0."
    ),
    "identifiers_left": _Fault(
        "columns", "Columns to be removed that are still in the published table; must be 0."
    ),
    "columns_missing": _Fault(
        "columns", "Columns to be published unchanged that are not in the release; must be 0."
    ),
    "columns_unexpected": _Fault(
        "columns", "Columns of the release that have no role in the schema; must be 0."
    ),
    "values_changed": _Fault(
        "values", "Values to be published unchanged that are not the original's; must be 0."
    ),
    "manifest_contradictions": _Fault(
        "statements", "Statements of the manifest that do not hold; must be 0."
    ),
}


@dataclass(frozen=True, eq=False)
class _Disclosures:
    """What classes tell of confidential columns, and the sizes of those that share one value, by column."""

    measures: tuple[Measure, ...]
    homogeneous: Mapping[str, Integers]


def audit(
    original: Table,
    released: Table,
    schema: Schema,
    *,
    pairs: Integers | None = None,
    key: str | None = None,
    population: int | None = None,
    target: str | None = None,
    brief: bool = False,
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
    key
        A column that both tables have, different in every row: rows with the same value are matched.
    population
        The number of people that the released records were sampled from, for what a journalist finds.
    target
        A column published unchanged, to be learned from the others on the release and on the original.
    brief
        Leave out what comes of comparing records: linkage, distortion and other utility, and what is for the eye.
    contradictions
        Sentences on the statements of the release's manifest that do not hold; None if there is no manifest.

    Raises
    ------
    SchemaError
        A quasi-identifier or stratum is not in one of the tables, or is stored as something that cannot be compared.
    DataError
        A value that is no value: an infinity, a negative weight, a category outside its order; a key that is missing,
        not unique, or not in the original.
    OptionError
        A key that a table does not have; a population smaller than the release; a target that cannot be learned.

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
    if brief and target is not None:
        raise OptionError(
            "A brief audit compares no records, so that it learns no target. Leave out one of them."
        )
    _check_columns(original, released, schema)
    labels = class_labels(released, schema.keys)
    sizes = np.bincount(labels).astype(np.int64)
    risks = measure_risk(sizes, population=population)
    matched = align(original, released, schema, pairs=pairs, key=key)
    rows = matched.pairs if released.rows and not brief else None
    compared = (
        Compared()
        if rows is None
        else compare_rows(original, released, schema, labels, pairs=rows, target=target)
    )
    disclosures = _disclose(released, schema, labels)
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
        *risks,
        *disclosures.measures,
        *(measure_dependence(released, schema, labels) if released.rows else ()),
        *compared.measures,
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
            *repetition_notes(original, schema),
            *compared.notes,
        ),
        comparisons=() if brief else compare_columns(ColumnPairs(original, released, schema)),
        projection=compared.projection,
        quantiles=compared.quantiles,
        correlations=compared.correlations,
        linkage_by_known=compared.linkage_by_known,
        homogeneous=disclosures.homogeneous,
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
        raise SchemaError(
            f"The original table has no column {schema.weight!r}, which the schema names as weight."
        )


def _counts(original: Table, released: Table, sizes: Integers) -> tuple[Measure, ...]:
    dropped = max(0, original.rows - released.rows)
    return (
        Measure(
            "k",
            int(sizes.min()) if len(sizes) else 0,
            "records",
            False,
            "Records in the smallest class.",
        ),
        Measure(
            "classes",
            len(sizes),
            "classes",
            False,
            "Groups of published records that cannot be told apart.",
        ),
        Measure("records", released.rows, "records", False, "Records in the published table."),
        Measure(
            "records_dropped",
            dropped,
            "records",
            True,
            "Records of the original that were not published.",
        ),
    )


def _faults(found: Mapping[str, int]) -> Iterator[Measure]:
    for name, count in found.items():
        yield Measure(name, count, _FAULTS[name].unit, True, _FAULTS[name].meaning)


def _disclose(released: Table, schema: Schema, labels: Integers) -> _Disclosures:
    """What classes tell of the confidential columns: the worst of them, then each."""
    columns, homogeneous = [], {}
    for column in schema.confidential:
        if column.name in released.columns and released.rows:
            values = in_order(column, released.columns[column.name])
            found = measure_disclosure(
                labels, values, column.name, ordered=column.kind != "nominal"
            )
            columns.append(found)
            # Classes that share one value are rare: they are looked for once more only where there are some.
            some = any(
                item.value for item in found if item.name == f"homogeneous_classes.{column.name}"
            )
            homogeneous[column.name] = (
                list_homogeneous(labels, values) if some else np.zeros(0, dtype=np.int64)
            )
    return _Disclosures(
        (*worst_of(columns), *(measure for column in columns for measure in column)), homogeneous
    )
