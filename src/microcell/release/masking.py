"""Mask confidential numbers: round them, and replace the largest and smallest by a bound."""

from fractions import Fraction
from math import ceil, floor

import numpy as np

from microcell import tables
from microcell.errors import SchemaError
from microcell.kinds.values import Representatives, Values
from microcell.model import Column, Schema, Table

__all__ = ["mask_confidential", "refuse_masks"]


def mask_confidential(table: Table, schema: Schema) -> Table:
    """Return the table with confidential numbers bounded and rounded as the schema requires.

    Masking precedes everything else: the masked values are published unchanged, and the audit
    compares with them.
    """
    masked = {
        column.name: _mask(column, table.columns[column.name])
        for column in schema.confidential
        if column.masks
    }
    if not masked:
        return table
    return tables.publish(table, np.arange(table.rows), masked)


def refuse_masks(schema: Schema, where: str) -> None:
    """Raise SchemaError if confidential numbers are to be masked where that is not supported."""
    for column in schema.confidential:
        for field in column.masks:
            raise SchemaError(
                f"Column {column.name!r}: {field} is not supported for {where}. Change the values "
                f"in the table first, and remove {field} from the schema.",
                code="schema.invalid",
                column=column.name,
                field=field,
            )


def _mask(column: Column, values: Values) -> Representatives:
    if not values.is_number:
        field = next(iter(column.masks))
        raise SchemaError(
            f"Column {column.name!r}: {field} is only valid for numbers, not for {values.storage} "
            "values. Remove it.",
            code="schema.wrong_kind",
            column=column.name,
            field=field,
        )
    numbers = np.where(values.missing, 0, values.data)
    whole = values.storage == "integer"
    if column.bottom is not None:
        numbers = np.maximum(numbers, ceil(column.bottom) if whole else column.bottom)
    if column.top is not None:
        numbers = np.minimum(numbers, floor(column.top) if whole else column.top)
    if column.round is not None:
        numbers = _round(numbers, column.round, whole=whole)
    return Representatives("number", numbers, values.missing)


def _round(numbers: np.ndarray, step: float, *, whole: bool) -> np.ndarray:
    if whole and float(step).is_integer():
        half, size = int(step) // 2, int(step)
        return np.asarray((numbers + half) // size * size)
    exact = Fraction(repr(step))  # as a decimal number, so that 3 * 0.1 is 0.3
    return np.asarray(np.rint(numbers / step) * exact.numerator / exact.denominator + 0.0)
