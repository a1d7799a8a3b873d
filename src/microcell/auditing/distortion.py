"""Distortion: what each quasi-identifier lost, from 0 (nothing) to 1 (as if all records were published alike)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from microcell.auditing.losses import Loss, lose_changes, lose_characters, lose_chords, lose_squares
from microcell.auditing.quantities import record_weights
from microcell.auditing.readings import read_categories, read_numbers, read_points, read_ranks
from microcell.model import Column, Floats, Integers, Schema, Table
from microcell.progress import report

__all__ = ["ColumnDistortion", "average", "distort_columns"]


@dataclass(frozen=True, eq=False)
class ColumnDistortion:
    """What one quasi-identifier lost; ``unreadable`` counts published values that could not be compared."""

    column: Column
    loss: Loss
    unreadable: int = 0

    @property
    def importance(self) -> float:
        """The column's weight in the average: a location stands for two columns, one without differences for none."""
        if self.loss.constant:
            return 0.0
        return self.column.weight * len(self.column.parts)


@dataclass(frozen=True, eq=False)
class _Matched:
    """Two tables with their rows matched, and the weight of each published row."""

    original: Table
    released: Table
    pairs: Integers
    weights: Floats


def distort_columns(
    original: Table, released: Table, schema: Schema, *, pairs: Integers
) -> tuple[ColumnDistortion, ...]:
    """The distortion of each quasi-identifier, published row i compared with original row ``pairs[i]``."""
    matched = _Matched(original, released, pairs, record_weights(original, schema)[pairs])
    found = []
    for place, column in enumerate(schema.quasi):
        report("comparing columns", place, len(schema.quasi))
        found.append(_OF_KIND[column.kind](column, matched))
    return tuple(found)


def average(columns: Sequence[ColumnDistortion]) -> float:
    """The mean of the columns' distortions, weighted; for numbers published as means, SSE/SST of the standardized data.

    Columns that have no differences to lose are left out.
    """
    total = sum(item.importance for item in columns)
    if total == 0:
        return 0.0
    return sum(item.importance * item.loss.share for item in columns) / total


def _of_numbers(column: Column, matched: _Matched) -> ColumnDistortion:
    reading = read_numbers(column.name, matched.original.columns[column.name], matched.released.columns[column.name])
    loss = lose_squares(reading.before[matched.pairs], reading.after, matched.weights)
    return ColumnDistortion(column, loss, reading.unreadable)


def _of_ranks(column: Column, matched: _Matched) -> ColumnDistortion:
    reading = read_ranks(column, matched.original.columns[column.name], matched.released.columns[column.name])
    loss = lose_squares(reading.before[matched.pairs], reading.after, matched.weights)
    return ColumnDistortion(column, loss, reading.unreadable)


def _of_categories(column: Column, matched: _Matched) -> ColumnDistortion:
    reading = read_categories(column.name, matched.original.columns[column.name], matched.released.columns[column.name])
    return ColumnDistortion(column, lose_changes(reading.before[matched.pairs], reading.after, matched.weights))


def _of_codes(column: Column, matched: _Matched) -> ColumnDistortion:
    reading = read_categories(column.name, matched.original.columns[column.name], matched.released.columns[column.name])
    loss = lose_characters(reading.before[matched.pairs], reading.after, matched.weights, names=reading.names)
    return ColumnDistortion(column, loss)


def _of_points(column: Column, matched: _Matched) -> ColumnDistortion:
    reading = read_points(column, matched.original, matched.released)
    return ColumnDistortion(column, lose_chords(reading.before[matched.pairs], reading.after, matched.weights))


_OF_KIND: Mapping[str, Callable[[Column, _Matched], ColumnDistortion]] = {
    "numeric": _of_numbers,
    "datetime": _of_numbers,
    "ordinal": _of_ranks,
    "nominal": _of_categories,
    "code": _of_codes,
    "location": _of_points,
}
