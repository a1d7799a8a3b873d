"""Ordered categories: encoded as ranks, and published as the median of each cell."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, get_args

import numpy as np

from microcell.errors import DataError, SchemaError
from microcell.kernels.arrays import Floats
from microcell.kinds.base import Reading, register
from microcell.kinds.column import Column, EncodedColumn, Layout
from microcell.kinds.groups import Groups
from microcell.kinds.names import NamedKind, fit_places, place_names, round_places
from microcell.kinds.pairs import (
    ColumnPair,
    Histogram,
    LinePair,
    Numbers,
    count_names,
    drop_infinite,
    read_categories,
    read_numbers,
)
from microcell.kinds.values import NANOSECONDS, Representatives, Storage, Values

__all__ = ["OrdinalKind", "number_of", "read_ranks"]


@register
class OrdinalKind(NamedKind):
    """Categories ordered as declared in the schema or the data, or by their numbers."""

    name = "ordinal"
    representatives: ClassVar[tuple[str, ...]] = ("median",)
    layout: ClassVar[Layout] = "places"
    storages: ClassVar[tuple[Storage, ...]] = get_args(Storage)
    ordered = True
    takes_order = True

    def resolve(self, column: Column, values: Values) -> Column:
        order = column.order
        if order is None and values.ordered:
            order = values.categories
        if order is None and values.storage == "text":
            raise SchemaError(
                f"Column {column.name!r} is ordinal text without an order. "
                "List its categories, lowest first: order = [...].",
                code="schema.category_order",
                column=column.name,
            )
        return replace(column, kind=self.name, order=order)

    def fit(self, blank: EncodedColumn, column: Column, reading: Reading) -> EncodedColumn:
        if column.order is None:
            codes = reading.codes[~reading.missing]
            counts = np.bincount(codes, minlength=len(reading.names))
            named = replace(blank, names=reading.names, counts=counts)
            return fit_places(named, np.arange(len(counts), dtype=np.float64), codes)
        ranks = reading.values.ranks(column.order)
        unknown = np.flatnonzero((ranks < 0) & ~reading.missing)
        if len(unknown):
            row = int(unknown[0]) + 1
            raise SchemaError(
                f"Column {column.name!r} contains a category that is not in its order, first in "
                f"row {row} ({len(unknown)} {'row' if len(unknown) == 1 else 'rows'} in total). "
                "Add it to the order.",
                code="schema.category_order",
                column=column.name,
                row=row,
                count=len(unknown),
            )
        named = replace(blank, names=column.order)
        places = np.arange(len(column.order), dtype=np.float64)
        return fit_places(named, places, ranks[~reading.missing])

    def round_fit(self, fitted: EncodedColumn) -> EncodedColumn:
        return round_places(fitted)

    def place(self, fitted: EncodedColumn, reading: Reading, out: Floats) -> int:
        numbers = reading.values.is_number or reading.values.is_time
        return place_names(fitted, reading, out, _between_neighbours if numbers else _at_mean)

    def represent(
        self, column: Column, values: Sequence[Values], groups: Groups
    ) -> list[Representatives]:
        ranks = values[0].ranks(column.order)
        missing = ranks < 0
        median = groups.median(ranks.astype(np.float64), missing, "lower").astype(np.int64)
        rows = np.flatnonzero(ranks == np.where(missing, -2, median[groups.labels]))
        filled, first = np.unique(groups.labels[rows], return_index=True)
        return [groups.from_rows(rows[first], filled)]

    def pair(
        self, column: Column, original: Sequence[Values], released: Sequence[Values]
    ) -> ColumnPair:
        numbers = read_ranks(column, original[0], released[0])
        return _RankPair(column, numbers, original[0], released[0])

    def quantity(self, column: Column, values: Values) -> Floats:
        values = drop_infinite(values)
        nothing = replace(values, data=values.data[:0], missing=values.missing[:0])
        return read_ranks(column, values, nothing).before


@dataclass(frozen=True, eq=False)
class _RankPair(LinePair):
    original: Values
    released: Values

    def histograms(self) -> Iterator[Histogram]:
        categories = read_categories(self.column.name, self.original, self.released)
        order = self.column.order or categories.names
        return count_names(self.column.name, categories, order)


def read_ranks(column: Column, original: Values, released: Values) -> Numbers:
    """Read both columns as ranks 0, 1, 2, ... in the declared order or that of the numbers.

    A published number between two of the original gets a rank between theirs.
    """
    if column.order is None and original.storage not in ("text", "boolean"):
        numbers = read_numbers(column.name, original, released)
        distinct = np.unique(numbers.before[~np.isnan(numbers.before)])
        before = _interpolate_ranks(numbers.before, distinct)
        after = _interpolate_ranks(numbers.after, distinct)
        return Numbers(column.name, before, after, unreadable=numbers.unreadable)
    order = column.order if column.order is not None else original.categories
    before, after = _ranks_in(original, order), _ranks_in(released, order)
    unknown = np.isnan(before) & ~original.missing
    if unknown.any():
        row = int(np.argmax(unknown)) + 1
        raise DataError(
            f"Column {column.name!r} of the original table contains a category that is not in its "
            f"order, first in row {row}. Add it to the order in the schema.",
            code="data.unknown_category",
            column=column.name,
            row=row,
        )
    unreadable = int((np.isnan(after) & ~released.missing).sum())
    return Numbers(column.name, before, after, unreadable=unreadable)


def number_of(name: str) -> int | float | None:
    """Return the number that a category's name stands for (times in nanoseconds), or None.

    Examples
    --------
    >>> number_of("1.5"), number_of("2 us"), number_of("high")
    (1.5, 2000, None)
    """
    count, _, unit = name.partition(" ")
    try:
        if unit in NANOSECONDS:
            return int(count) * NANOSECONDS[unit]
        # As floats, different large whole numbers could be equal.
        if name.lstrip("-").isdecimal():
            return int(name)
        number = float(name)
        return None if np.isnan(number) else number
    except ValueError:
        return None


def _at_mean(_: EncodedColumn, names: Sequence[str]) -> list[float]:
    return [0.0] * len(names)


def _between_neighbours(fitted: EncodedColumn, names: Sequence[str]) -> list[float]:
    """Place numbers midway between the next smaller and the next larger one, or at the end."""
    numbers = [
        (number_of(str(name)), place)
        for name, place in zip(fitted.names, fitted.places.tolist(), strict=True)
    ]
    ordered = sorted((number, place) for number, place in numbers if number is not None)
    if not ordered:
        return _at_mean(fitted, names)
    ends = [ordered[0][1], *(place for _, place in ordered), ordered[-1][1]]
    keys = [number for number, _ in ordered]
    # Each name is that of a number here, so number_of never returns None.
    following = [bisect_left(keys, number_of(name) or 0) for name in names]
    return [(ends[i] + ends[i + 1]) / 2 for i in following]


def _ranks_in(values: Values, order: tuple[str, ...]) -> Floats:
    rank = {category: float(i) for i, category in enumerate(order)}
    codes, names = values.factorize()
    ranks = np.array([*(rank.get(name, np.nan) for name in names), np.nan], dtype=np.float64)
    return ranks[codes]


def _interpolate_ranks(numbers: Floats, distinct: Floats) -> Floats:
    present = ~np.isnan(numbers)
    out: Floats = np.full(len(numbers), np.nan)
    if len(distinct):
        ranks = np.arange(len(distinct), dtype=np.float64)
        out[present] = np.interp(numbers[present], distinct, ranks)
    return out
