"""Unordered categories: encoded as indicators, and published as the mode of each cell."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import ClassVar, get_args

import numpy as np

from microcell.errors import SchemaError
from microcell.kernels.arrays import Floats, Integers, Mask
from microcell.kinds.base import Reading, register
from microcell.kinds.column import Column, EncodedColumn, Layout
from microcell.kinds.groups import Groups
from microcell.kinds.losses import Loss, category_loss, shared_loss
from microcell.kinds.names import CategoricalKind, CategoryPair, count_unknown, positions_of
from microcell.kinds.pairs import ColumnPair, covered, read_categories
from microcell.kinds.sets import MAX_SET, check_separator, join, members, names_by_cell
from microcell.kinds.values import NUMBER_STORAGES, Representatives, Storage, Values

__all__ = ["NominalKind", "has_too_many", "indicator_height"]

MAX_CATEGORIES = 1000
"""Each category becomes a dimension; a column with more holds names or codes, not categories."""

_ALWAYS_ALLOWED = 50
"""This many categories are always allowed; more may be at most half the number of records."""

_SLACK = 1e-9
"""Tolerance for rounding errors in a share of the members."""

_BLOCK = 1 << 16
"""Number of rows whose indicators are written at a time, to avoid a second full matrix."""


def has_too_many(count: int, n_records: int) -> bool:
    """Return whether a column with so many categories cannot be a nominal quasi-identifier.

    Examples
    --------
    >>> has_too_many(60, 100), has_too_many(60, 200)
    (True, False)
    """
    return count > MAX_CATEGORIES or count > max(_ALWAYS_ALLOWED, n_records / 2)


@register
class NominalKind(CategoricalKind):
    """Categories without an order."""

    name = "nominal"
    representatives: ClassVar[tuple[str, ...]] = ("mode", "set")
    layout: ClassVar[Layout] = "indicators"
    storages: ClassVar[tuple[Storage, ...]] = get_args(Storage)
    default_for: ClassVar[tuple[Storage, ...]] = ("boolean", "text", "empty")
    max_dimensions = None

    def resolve(self, column: Column, values: Values) -> Column:
        if _publishes_sets(column):
            check_separator(column.name, values.factorize()[1])
        return super().resolve(column, values)

    def read(self, parts: Sequence[str], values: Sequence[Values]) -> Reading:
        reading = super().read(parts, values)
        if not values[0].ordered:
            return reading
        # A declared order may be that of the original's rows, which a cells file must not contain.
        order = np.argsort(np.array(reading.names, dtype=object), kind="stable")
        ranks = np.append(np.argsort(order), -1)
        names = tuple(reading.names[position] for position in order)
        return replace(reading, codes=ranks[reading.codes], names=names)

    def fit(self, blank: EncodedColumn, column: Column, reading: Reading) -> EncodedColumn:
        counts = np.bincount(reading.codes[~reading.missing], minlength=len(reading.names))
        used = np.flatnonzero(counts)
        counts = counts[used]
        names = tuple(reading.names[code] for code in used.tolist())
        named = replace(blank, names=names, counts=counts)
        if len(used) < 2:
            return named
        marked = counts[1:] if len(used) == 2 else counts
        # Add up indicators one by one, as the mean over the rows does.
        sums = np.cumsum(np.full(marked.max(), indicator_height(len(marked))))
        return replace(named, centre=sums[marked - 1] / counts.sum(), scale=np.ones(len(marked)))

    def round_fit(self, fitted: EncodedColumn) -> EncodedColumn:
        return replace(fitted, centre=np.round(fitted.centre, 1) + 0.0)

    def place(self, fitted: EncodedColumn, reading: Reading, out: Floats) -> int:
        positions = positions_of(fitted, reading.names)
        n_unknown = count_unknown(positions, reading)
        if fitted.constant:
            return n_unknown
        points = _points_of_names(fitted)
        positions[:-1][positions[:-1] < 0] = len(points) - 2
        for first in range(0, len(out), _BLOCK):
            block = slice(first, first + _BLOCK)
            out[block] = points[positions[reading.codes[block]]]
        return n_unknown

    def check_fit(self, fitted: EncodedColumn, n_records: int | None) -> None:
        count = len(fitted.names)
        if n_records is None:
            if count > MAX_CATEGORIES:
                raise SchemaError(
                    f"Column {fitted.name!r} has {count} categories, more than {MAX_CATEGORIES}: "
                    "too many to preserve their association with the quasi-identifiers. "
                    "Group the categories, or give the column the role keep.",
                    code="schema.wrong_kind",
                    column=fitted.name,
                    count=count,
                )
            return
        if has_too_many(count, n_records):
            problem = (
                f", more than {MAX_CATEGORIES}"
                if count > MAX_CATEGORIES
                else f" in {n_records} records: a published category could identify a person"
            )
            kinds, hint = _alternatives(fitted.storage)
            raise SchemaError(
                f"Column {fitted.name!r} has {count} categories{problem}. "
                f"Declare it as {' or '.join(kinds)} if that fits{hint}; make it an identifier if "
                "it names people; otherwise group its categories.",
                code="schema.wrong_kind",
                column=fitted.name,
                count=count,
                kinds=kinds,
            )

    def withhold(self, fitted: EncodedColumn, k: int) -> EncodedColumn:
        if fitted.counts is None:
            return fitted
        kept = fitted.counts >= k
        # The dimension stays, so that distances do not change.
        names = tuple(name if keep else None for name, keep in zip(fitted.names, kept, strict=True))
        return replace(fitted, names=names, counts=None)

    def loss(
        self,
        column: Column,
        before: Integers,
        after: Integers,
        weights: Floats,
        *,
        names: Sequence[str],
    ) -> Loss:
        if not _publishes_sets(column):
            return category_loss(before, after, weights)
        distinct = {names[code] for code in np.unique(before[before >= 0]).tolist()}

        def share(value: str, published: str) -> float:
            return _lost_share(value, published, distinct)

        return shared_loss(before, after, weights, names=names, share=share, shared_by_all=join)

    def represent(
        self, column: Column, values: Sequence[Values], groups: Groups
    ) -> list[Representatives]:
        codes, names = values[0].factorize()
        if column.publish == "set":
            return [_represent_sets(self.read(column.parts, values), groups)]
        span = max(len(names), 1)
        present = np.flatnonzero(codes >= 0)
        pairs = groups.labels[present] * np.int64(span) + codes[present]
        distinct, first, position = np.unique(pairs, return_index=True, return_inverse=True)
        totals = np.bincount(position, weights=groups.weights[present], minlength=len(distinct))
        cell = distinct // span
        # In each cell, the largest weight comes first, and the lowest value among equals.
        best = np.lexsort((distinct, -totals, cell))
        if len(best):
            best = best[np.r_[True, cell[best][1:] != cell[best][:-1]]]
        if column.most_false is not None:
            modes = codes[present[first[best]]]
            reading = self.read(column.parts, values)
            return [_limit_false(column.most_false, reading, groups, cell[best], modes, names)]
        return [groups.from_rows(present[first[best]], cell[best])]

    def pair(
        self, column: Column, original: Sequence[Values], released: Sequence[Values]
    ) -> ColumnPair:
        pair = _SetPair if _publishes_sets(column) else CategoryPair
        return pair(column, self, read_categories(column.name, original[0], released[0]))

    def _name_problems(self, fitted: EncodedColumn) -> Iterator[str]:
        if len(fitted.places):
            yield "'places' is only valid for ordinal columns and codes"
        # Two categories share a dimension, and a single one has none.
        allowed = {0: (0, 1), 1: (2,), 2: ()}.get(fitted.dimensions, (fitted.dimensions,))
        if len(fitted.names) not in allowed:
            yield "'names' does not match the number of dimensions"


@dataclass(frozen=True, eq=False)
class _SetPair(CategoryPair):
    """Categories, and the sets published for them."""

    def covered(self, rows: Integers) -> Mask:
        reading = self.reading
        distinct = {reading.names[code] for code in np.unique(reading.before).tolist() if code >= 0}
        return covered(
            reading,
            rows,
            lambda old, new: (
                reading.names[old] in members(reading.names[new], distinct.__contains__)
            ),
        )


def indicator_height(dimensions: int) -> float:
    """Return the height of an indicator that puts two categories at distance 1."""
    return 1.0 if dimensions == 1 else 1.0 / float(np.sqrt(2.0))


def _points_of_names(fitted: EncodedColumn) -> Floats:
    """Return a point for each category, then for unknown ones and for missing values."""
    points = np.zeros((len(fitted.names) + 2, fitted.dimensions))
    dimensions = np.arange(fitted.dimensions)
    # Of two categories that share a dimension, the first has no indicator.
    names = dimensions + (len(fitted.names) - fitted.dimensions)
    points[names, dimensions] = indicator_height(fitted.dimensions)
    points[:-1] -= fitted.centre
    return np.asarray(points * np.sqrt(fitted.weight))


def _alternatives(storage: Storage) -> tuple[tuple[str, ...], str]:
    """Return the kinds that suit a column with too many categories, and a hint."""
    if storage in NUMBER_STORAGES:
        return ("numeric", "code", "ordinal"), ""
    if storage == "text":
        return ("code", "ordinal"), " (if it contains dates, write them as YYYY-MM-DD)"
    return ("datetime", "ordinal"), ""


def _publishes_sets(column: Column) -> bool:
    return column.publish == "set" or column.most_false is not None


def _limit_false(
    most: float,
    reading: Reading,
    groups: Groups,
    cells: Integers,
    modes: Integers,
    mode_names: Sequence[str],
) -> Representatives:
    """Publish the mode where it is false for few members, otherwise a small set, or nothing."""
    codes, names = reading.codes, reading.names
    position = {name: at for at, name in enumerate(names)}
    mode = np.full(groups.count, -1, dtype=np.int64)
    mode[cells] = [position[mode_names[code]] for code in modes.tolist()]
    present = codes >= 0
    false = present & (codes != mode[groups.labels])
    counts = np.bincount(groups.labels[present], minlength=groups.count)
    wrong = np.bincount(groups.labels[false], minlength=groups.count)
    texts = np.full(groups.count, "", dtype=object)
    missing = counts == 0
    for label, members_of_cell in names_by_cell(reading, groups):
        if wrong[label] <= most * counts[label] + _SLACK:
            texts[label] = names[mode[label]]
        elif len(members_of_cell) <= MAX_SET:
            texts[label] = join(members_of_cell)
        else:
            missing[label] = True
    return Representatives("text", texts, missing)


def _represent_sets(reading: Reading, groups: Groups) -> Representatives:
    _, missing = groups.totals(reading.missing)
    texts = np.full(groups.count, "", dtype=object)
    for label, names in names_by_cell(reading, groups):
        texts[label] = join(names)
    return Representatives("text", texts, missing)


def _lost_share(value: str, published: str, distinct: Set[str]) -> float:
    """Return the share of the other categories that a set leaves possible; 1 if it is wrong."""
    names = members(published, distinct.__contains__)
    if value not in names:
        return 1.0
    return (len(names) - 1) / max(len(distinct) - 1, 1)
