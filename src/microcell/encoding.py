"""Encode records as points: each quasi-identifier becomes standardized dimensions."""

from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np

from microcell._validation import check_weight_ratio
from microcell.errors import DataError, SchemaError
from microcell.kinds import Reading, kind_of
from microcell.model import (
    Column,
    Encoded,
    EncodedColumn,
    Encoding,
    Floats,
    Integers,
    Mask,
    Placed,
    Schema,
    Table,
)

__all__ = [
    "check_missing",
    "count_missing",
    "encode",
    "encode_confidential",
    "fit",
    "fit_confidential",
    "missing_rows",
    "place",
    "sampling_weights",
]


def encode(
    table: Table, schema: Schema, *, rounded: bool = False, persons: Integers | None = None
) -> Encoded:
    """Encode the records as points, using the quasi-identifiers of a resolved schema.

    Numbers, dates and ranks are standardized to mean 0 and population variance 1. Nominal values
    become indicators scaled by 1/sqrt(2), so that different values are at distance 1. Codes are
    placed on a line: the earlier the position at which two codes differ, the farther apart they
    are. Locations become unit vectors scaled to variance 2, like two columns. A column's weight
    multiplies its squared distances. A missing value is placed at the column's mean. Constant
    columns have no dimension. If the encoding will be published, as part of cells, its statistics
    must be ``rounded``, because exact ones reveal outliers. ``persons`` holds the person of each
    record, if people may have several: names that few people have are withheld from what is
    published. Time and memory O(n m).
    """
    readings = _read_columns(table, schema.quasi)
    encoding = _fit_columns(schema.quasi, readings, table.rows)
    if persons is not None:
        columns = zip(encoding.columns, readings, strict=True)
        encoding = Encoding(
            tuple(kind_of(column).count_people(column, item, persons) for column, item in columns)
        )
    if rounded:
        encoding = Encoding(tuple(map(_round_fit, encoding.columns)))
    placed = _place_columns(encoding, readings, table.rows)
    return Encoded(placed.matrix, encoding, sampling_weights(table, schema))


def fit(table: Table, schema: Schema) -> Encoding:
    """Fit the encoding that :func:`encode` uses, to place further records with it."""
    return _fit_columns(schema.quasi, _read_columns(table, schema.quasi), table.rows)


def place(table: Table, encoding: Encoding) -> Placed:
    """Place records in a fitted encoding; the records it was fitted on get the same points.

    Unknown categories are counted. A nominal one gets no indicator; a number of an ordinal column
    is placed midway between its neighbours, or at the end; other ordinal values are placed at the
    mean; a code is placed at the known code with the longest common prefix, the first if there are
    several. Missing values are placed at the mean. Time and memory O(n m).

    Raises
    ------
    SchemaError
        A column is not in the table or has values of another type.
    DataError
        A column contains infinite numbers or impossible degrees.
    """
    _check_columns(table, encoding)
    kinds = [kind_of(column) for column in encoding.columns]
    readings = [
        kind.read_again(column, values)
        for kind, column, values in zip(
            kinds, encoding.columns, table.read(encoding.columns), strict=True
        )
    ]
    return _place_columns(encoding, readings, table.rows)


def encode_confidential(table: Table, schema: Schema) -> Floats:
    """Encode the confidential columns as points, on the scales of :func:`encode`.

    The points are used only to design cells. Missing values are placed at the mean, and constant
    columns have no dimension.
    """
    readings = _read_columns(table, schema.confidential)
    encoding = _fit_columns(schema.confidential, readings, None)
    return _place_columns(encoding, readings, table.rows).matrix


def fit_confidential(table: Table, schema: Schema) -> Encoding:
    """Fit the encoding that :func:`encode_confidential` uses."""
    return _fit_columns(schema.confidential, _read_columns(table, schema.confidential), None)


def missing_rows(table: Table, schema: Schema) -> Mask:
    """Return a mask of the records with a missing quasi-identifier."""
    out = np.zeros(table.rows, dtype=np.bool_)
    for parts in table.read(schema.quasi):
        for values in parts:
            out |= values.missing
    return out


def count_missing(table: Table, schema: Schema) -> dict[str, int]:
    """Return the number of missing values in each quasi-identifier column."""
    parts = [part for column in schema.quasi for part in column.parts]
    return {part: int(table.columns[part].missing.sum()) for part in parts}


def check_missing(table: Table, schema: Schema) -> None:
    """Raise DataError if a quasi-identifier has missing values."""
    counts = {name: count for name, count in count_missing(table, schema).items() if count}
    if counts:
        listing = ", ".join(f"{name!r} ({count})" for name, count in counts.items())
        raise DataError(
            f"Missing values in {listing}. Choose how to handle them with missing (--missing): "
            "'drop' removes and reports those records; 'impute' keeps them and publishes their "
            "cell's representative.",
            code="data.missing_values",
            columns=tuple(counts),
            counts=counts,
        )


def sampling_weights(table: Table, schema: Schema) -> Floats | None:
    """Return each record's sampling weight, which must be positive; None without a weight column.

    Raises :class:`DataError` if a weight is missing or not a positive number, or if the largest is
    more than 1e12 times the smallest.
    """
    if schema.weight is None:
        return None
    values = table.columns[schema.weight]
    weights = values.reals() if values.is_number else np.full(table.rows, np.nan)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
    if len(wrong):
        row = int(wrong[0]) + 1
        raise DataError(
            f"Weight column {schema.weight!r} must contain positive numbers, but {len(wrong)} "
            f"{'rows do' if len(wrong) > 1 else 'row does'} not, first in row {row}. Correct or "
            "remove them.",
            code="data.bad_weight",
            column=schema.weight,
            row=row,
            count=len(wrong),
        )
    check_weight_ratio(weights, f"the weights in column {schema.weight!r}")
    return weights


def _check_columns(table: Table, encoding: Encoding) -> None:
    parts = [part for column in encoding.columns for part in column.parts]
    absent = [part for part in parts if part not in table.columns]
    if absent:
        hints = "".join(
            f" Did you mean {match!r} by {part!r}?"
            for part in absent
            for match in get_close_matches(part, table.names, n=1)
        )
        raise SchemaError(
            f"The table has no column{'s' * (len(absent) > 1)} {', '.join(map(repr, absent))}, "
            f"which the encoding uses.{hints} Pass records with the same quasi-identifiers.",
            code="schema.unknown_column",
            columns=tuple(absent),
        )


def _read_columns(table: Table, columns: Sequence[Column]) -> list[Reading]:
    kinds = [kind_of(column) for column in columns]
    return [
        kind.read(column.parts, values)
        for kind, column, values in zip(kinds, columns, table.read(columns), strict=True)
    ]


def _fit_columns(
    columns: Sequence[Column], readings: Sequence[Reading], n_records: int | None
) -> Encoding:
    """Fit the columns; ``n_records`` limits the dimensions of quasi-identifiers."""
    kinds = [kind_of(column) for column in columns]
    fitted: list[EncodedColumn] = []
    first = 0
    for kind, column, reading in zip(kinds, columns, readings, strict=True):
        values = reading.values
        blank = EncodedColumn(
            column.name,
            str(column.kind),
            column.parts,
            values.storage,
            values.unit,
            float(column.weight),
            first=first,
        )
        fitted.append(kind.fit(blank, column, reading))
        first = fitted[-1].last
    for kind, encoded in zip(kinds, fitted, strict=True):
        kind.check_fit(encoded, n_records)
    return Encoding(tuple(fitted))


def _round_fit(column: EncodedColumn) -> EncodedColumn:
    return column if column.constant else kind_of(column).round_fit(column)


def _place_columns(encoding: Encoding, readings: Sequence[Reading], n_rows: int) -> Placed:
    matrix = np.empty((n_rows, encoding.dimensions))
    kinds = [kind_of(column) for column in encoding.columns]
    blocks = [matrix[:, column.first : column.last] for column in encoding.columns]
    counts = {
        column.name: kind.place(column, reading, block)
        for kind, column, reading, block in zip(
            kinds, encoding.columns, readings, blocks, strict=True
        )
    }
    return Placed(matrix, {name: count for name, count in counts.items() if count})
