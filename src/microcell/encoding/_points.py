"""The stage itself: read every quasi-identifier, fit it, place it."""

from collections.abc import Sequence

import numpy as np

from microcell.encoding._fitting import fit_column
from microcell.encoding._placing import place_column
from microcell.encoding._reading import Reading, check_parts, read_again, read_column
from microcell.errors import DataError, SchemaError
from microcell.model import Column, Encoded, EncodedColumn, Encoding, Floats, Placed, Schema, Table

__all__ = ["encode", "encode_confidential", "fit", "fit_confidential", "place", "sampling_weights"]

MOST_CATEGORIES = 1000
"""A nominal column becomes a dimension a category; beyond this it is a name or a code rather than a category."""

FEW_CATEGORIES = 50
"""So many categories are never too many; more must be at most half as many as the records."""

_FITTING = {
    **dict.fromkeys(("integer", "float"), "numeric, code or ordinal if it is that"),
    "text": "code or ordinal if it is that; if it holds dates, write them as YYYY-MM-DD",
}
"""What a column of too many categories can be declared, by its storage; of the others only times may have so many."""


def encode(table: Table, schema: Schema) -> Encoded:
    """The records as points: one block of dimensions for each quasi-identifier of the (resolved) schema.

    Numbers, dates and ranks: standardized to mean 0 and population variance 1. Nominal values: indicators scaled by
    1/sqrt(2), so that a mismatch has distance 1. Codes: a place on a line, the farther apart the earlier two codes
    differ. Locations: unit vectors, scaled to variance 2, as two columns have. A column's weight multiplies its
    squared distances. A missing value stands at the column's mean, where it pulls to no side. Constant columns have
    no dimension. Time and memory O(n m).
    """
    readings = _read_all(table, schema.quasi)
    encoding = _fit_all(schema.quasi, readings)
    _check_categories(encoding, table.rows)
    placed = _place_all(encoding, readings, table.rows)
    return Encoded(placed.matrix, encoding, sampling_weights(table, schema))


def encode_confidential(table: Table, schema: Schema) -> Floats:
    """The records' confidential columns as points, on the scales of :func:`encode`; for the design of cells alone.

    A missing value stands at the mean; a column without differences has no dimension.
    """
    readings = _read_all(table, schema.confidential)
    return _place_all(_fit_confidential(schema, readings), readings, table.rows).matrix


def fit_confidential(table: Table, schema: Schema) -> Encoding:
    """How the records' confidential columns become points: what :func:`encode_confidential` does."""
    return _fit_confidential(schema, _read_all(table, schema.confidential))


def _fit_confidential(schema: Schema, readings: Sequence[Reading]) -> Encoding:
    encoding = _fit_all(schema.confidential, readings)
    for column in encoding.columns:
        if column.kind == "nominal" and len(column.names) > MOST_CATEGORIES:
            raise SchemaError(
                f"Column {column.name!r} has {len(column.names)} categories, more than {MOST_CATEGORIES}: too many to "
                "preserve their dependence. Group its categories, or give it the role keep."
            )
    return encoding


def fit(table: Table, schema: Schema) -> Encoding:
    """How the records of the table become points: what :func:`encode` does, to be done to further records."""
    encoding = _fit_all(schema.quasi, _read_all(table, schema.quasi))
    _check_categories(encoding, table.rows)
    return encoding


def place(table: Table, encoding: Encoding) -> Placed:
    """The records of a table as points of an encoding; those that it was fitted to, as :func:`encode` has them.

    A category that the encoding does not know is counted as strange. A nominal one has no indicator; a number of an
    ordinal column lies midway between its neighbours, or at the end; other ordinal values stand at the mean; a code
    stands where the known code does that shares the longest prefix with it, the first of those. Missing values
    stand at the mean. Raises :class:`SchemaError` for a column that is not there or that holds values of another
    type, :class:`DataError` for infinite numbers and impossible degrees. Time and memory O(n m).
    """
    check_parts(table, encoding)
    readings = [read_again(column, table) for column in encoding.columns]
    return _place_all(encoding, readings, table.rows)


def _read_all(table: Table, columns: Sequence[Column]) -> list[Reading]:
    return [read_column(str(column.kind), column.parts, table) for column in columns]


def _fit_all(given: Sequence[Column], readings: Sequence[Reading]) -> Encoding:
    columns: list[EncodedColumn] = []
    for column, reading in zip(given, readings, strict=True):
        columns.append(fit_column(column, reading, first=columns[-1].last if columns else 0))
    return Encoding(tuple(columns))


def _check_categories(encoding: Encoding, records: int) -> None:
    """Refuse nominal quasi-identifiers whose categories are too many to be categories."""
    for column in encoding.columns:
        count = len(column.names) if column.kind == "nominal" else 0
        if count > MOST_CATEGORIES:
            raise SchemaError(
                f"Column {column.name!r} has {count} categories, more than {MOST_CATEGORIES}. {_other_kinds(column)}"
            )
        if count > max(FEW_CATEGORIES, records / 2):
            raise SchemaError(
                f"Column {column.name!r} has {count} categories in {records} records: the value that a cell would "
                f"publish is one person's own. {_other_kinds(column)}"
            )


def _other_kinds(column: EncodedColumn) -> str:
    """What to do about a nominal column of too many categories: what its values can be declared, and what else."""
    return (
        f"Declare it {_FITTING.get(column.storage, 'datetime or ordinal if it is that')}; if it names people, it is an "
        "identifier; otherwise group its categories."
    )


def _place_all(encoding: Encoding, readings: Sequence[Reading], rows: int) -> Placed:
    matrix = np.empty((rows, encoding.dimensions))
    pairs = zip(encoding.columns, readings, strict=True)
    strange = {
        column.name: place_column(column, reading, matrix[:, column.first : column.last]) for column, reading in pairs
    }
    return Placed(matrix, {name: count for name, count in strange.items() if count})


def sampling_weights(table: Table, schema: Schema) -> Floats | None:
    """The weight of each record; None if the schema names no weights. Refused unless they are positive numbers."""
    if schema.weight is None:
        return None
    values = table.columns[schema.weight]
    weights = values.reals() if values.is_number else np.full(table.rows, np.nan)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
    if len(wrong):
        raise DataError(
            f"Weight column {schema.weight!r} must hold positive numbers; {len(wrong)} rows do not, the first is row "
            f"{wrong[0] + 1}."
        )
    return weights
