"""Categories in a hierarchy: values that share a small group are close to each other.

A cell publishes the smallest group that contains all its members: coarse, but true for each.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from microcell.errors import SchemaError
from microcell.hierarchies import Bands, Hierarchy, Taxonomy, common_ancestor
from microcell.kernels.arrays import Floats, Integers, Mask
from microcell.kinds.base import Reading, register
from microcell.kinds.column import Column, EncodedColumn, Layout
from microcell.kinds.groups import Groups
from microcell.kinds.losses import Loss, shared_loss
from microcell.kinds.names import CategoricalKind, CategoryPair, count_unknown
from microcell.kinds.pairs import Categories, ColumnPair, covered
from microcell.kinds.rounding import step_above
from microcell.kinds.sets import MAX_SET, check_separator, join, members, names_by_cell
from microcell.kinds.values import NANOSECONDS, Representatives, Storage, Values

__all__ = ["HierarchyKind", "fit_tree", "value_labels"]

MAX_DIMENSIONS = 1000
"""Largest number of groups in use."""

MAX_WITH_VALUES = 200
"""With more values and groups than this, only groups become dimensions, for speed."""


@register
class HierarchyKind(CategoricalKind):
    """Categories, numbers or dates that a hierarchy groups."""

    name = "hierarchy"
    representatives: ClassVar[tuple[str, ...]] = ("ancestor", "set")
    layout: ClassVar[Layout] = "tree"
    storages: ClassVar[tuple[Storage, ...]] = (
        "text",
        "boolean",
        "integer",
        "float",
        "date",
        "datetime",
        "empty",
    )
    max_dimensions = None
    takes_hierarchy = True

    def check_values(self, name: str, values: Values) -> None:
        if values.storage not in self.storages:
            raise SchemaError(
                f"Column {name!r} is declared hierarchy but contains {values.storage} values. "
                "Declare it datetime.",
                code="schema.wrong_kind",
                column=name,
                kind=self.name,
            )

    def resolve(self, column: Column, values: Values) -> Column:
        """Fit bands to the column's span, and check that the hierarchy has every value."""
        if column.bands:
            column = replace(column, hierarchy=_fit_bands(column, values))
        hierarchy = _hierarchy(column)
        codes, _ = values.factorize()
        labels = value_labels(values)
        known = np.array([*(hierarchy.path(label) is not None for label in labels), True])
        unknown = np.flatnonzero(~known[codes])
        if len(unknown):
            count = len(np.unique(codes[unknown]))
            raise SchemaError(
                f"Column {column.name!r} contains {count} value{'s' * (count > 1)} that the "
                f"hierarchy does not have, first in row {unknown[0] + 1}. Add "
                f"{'them' if count > 1 else 'it'} to the hierarchy, or correct the column; "
                "'microcell hierarchy check' lists them.",
                code="schema.unknown_category",
                column=column.name,
                row=int(unknown[0]) + 1,
                count=count,
            )
        if column.publish == "set":
            check_separator(column.name, labels)
        return replace(column, kind=self.name)

    def read(self, parts: Sequence[str], values: Sequence[Values]) -> Reading:
        codes, _ = values[0].factorize()
        return _merge(Reading(values[0], values[0].missing, codes, value_labels(values[0])))

    def fit(self, blank: EncodedColumn, column: Column, reading: Reading) -> EncodedColumn:
        hierarchy = _hierarchy(column)
        counts = np.bincount(reading.codes[~reading.missing], minlength=len(reading.names))
        named = dict(zip(reading.names, counts.tolist(), strict=True))
        return fit_tree(replace(blank, hierarchy=hierarchy), named)

    def round_fit(self, fitted: EncodedColumn) -> EncodedColumn:
        return replace(fitted, centre=np.round(fitted.centre, 1) + 0.0)

    def place(self, fitted: EncodedColumn, reading: Reading, out: Floats) -> int:
        hierarchy = fitted.hierarchy
        assert hierarchy is not None
        dimension = {name: at for at, name in enumerate(fitted.names) if name is not None}
        points = np.zeros((len(reading.names) + 1, fitted.dimensions))
        known = np.full(len(reading.names) + 1, -1, dtype=np.int64)
        for code, name in enumerate(reading.names):
            path = hierarchy.path(name)
            known[code] = -1 if path is None else code
            above = [dimension[label] for label in path or () if label in dimension]
            points[code, above] = fitted.places[above]
            points[code] -= fitted.centre
        points[known < 0] = 0.0
        if not fitted.constant:
            out[:] = (points * np.sqrt(fitted.weight))[reading.codes]
        return count_unknown(known, reading)

    def check_fit(self, fitted: EncodedColumn, n_records: int | None) -> None:
        if fitted.dimensions > MAX_DIMENSIONS:
            raise SchemaError(
                f"Column {fitted.name!r} has {fitted.dimensions} different groups, "
                f"more than {MAX_DIMENSIONS}. Replace its values by larger groups first.",
                code="schema.wrong_kind",
                column=fitted.name,
                count=fitted.dimensions,
            )

    def count_people(
        self, fitted: EncodedColumn, reading: Reading, persons: Integers
    ) -> EncodedColumn:
        present = reading.codes >= 0
        pairs = np.unique(np.column_stack((reading.codes[present], persons[present])), axis=0)
        people: dict[str, set[int]] = {}
        for code, person in pairs.tolist():
            for label in (_hierarchy(fitted).path(reading.names[code]) or ())[:-1]:
                people.setdefault(label, set()).add(person)
        totals = {label: len(those) for label, those in people.items()}
        counts = np.array([totals[str(label)] for label in fitted.names], dtype=np.int64)
        return replace(fitted, totals=totals, counts=counts if len(counts) else None)

    def withhold(self, fitted: EncodedColumn, k: int) -> EncodedColumn:
        hierarchy, totals = _hierarchy(fitted), fitted.totals
        if isinstance(hierarchy, Taxonomy) and totals is not None and k > 1:
            # A hierarchy may have been drafted from the table, with everyone's value in it.
            common = frozenset(label for label, count in totals.items() if count >= k)
            fitted = replace(fitted, hierarchy=hierarchy.restricted(common))
        if fitted.counts is None:
            return replace(fitted, totals=None)
        kept = fitted.counts >= k
        # The dimensions stay, so that distances do not change.
        names = tuple(name if keep else None for name, keep in zip(fitted.names, kept, strict=True))
        places = np.where(kept, fitted.places, 0.0)
        return replace(fitted, names=names, places=places, counts=None, totals=None)

    def loss(
        self,
        column: Column,
        before: Integers,
        after: Integers,
        weights: Floats,
        *,
        names: Sequence[str],
    ) -> Loss:
        """Add up the shares of the hierarchy that are published in place of each value."""
        hierarchy = _hierarchy(column)

        def share(value: str, published: str) -> float:
            return _lost_share(hierarchy, value, published)

        def shared_by_all(values: Sequence[str]) -> str:
            return _publish(hierarchy, values, as_set=column.publish == "set")

        return shared_loss(
            before, after, weights, names=names, share=share, shared_by_all=shared_by_all
        )

    def represent(
        self, column: Column, values: Sequence[Values], groups: Groups
    ) -> list[Representatives]:
        hierarchy = _hierarchy(column)
        reading = self.read(column.parts, values)
        _, missing = groups.totals(reading.missing)
        texts = np.full(groups.count, "", dtype=object)
        as_set = column.publish == "set"
        for label, names in names_by_cell(reading, groups):
            texts[label] = _publish(hierarchy, names, as_set=as_set)
        return [Representatives("text", texts, missing)]

    def pair(
        self, column: Column, original: Sequence[Values], released: Sequence[Values]
    ) -> ColumnPair:
        before = self.read(column.parts, original)
        after = self.read(column.parts, released)
        names = tuple(dict.fromkeys((*before.names, *after.names)))
        position = {name: at for at, name in enumerate(names)}
        codes = np.array([*(position[name] for name in after.names), -1], dtype=np.int64)
        categories = Categories(before.codes, codes[after.codes], names)
        return _HierarchyPair(column, self, categories)

    def problems(self, fitted: EncodedColumn) -> Iterator[str]:
        yield from super().problems(fitted)
        if fitted.hierarchy is None:
            yield "'hierarchy' must be set for kind 'hierarchy'"

    def _name_problems(self, fitted: EncodedColumn) -> Iterator[str]:
        if not len(fitted.names) == len(fitted.places) == fitted.dimensions:
            yield "'names' and 'places' must have an entry for each dimension"


@dataclass(frozen=True, eq=False)
class _HierarchyPair(CategoryPair):
    """Values and the groups published for them."""

    @property
    def unreadable(self) -> int:
        hierarchy = _hierarchy(self.column)
        known = [bool(_members(hierarchy, name)) for name in self.reading.names]
        return int((~np.array([*known, True])[self.reading.after]).sum())

    def covered(self, rows: Integers) -> Mask:
        hierarchy, names = _hierarchy(self.column), self.reading.names
        return covered(
            self.reading,
            rows,
            lambda old, new: (
                _lost_share(hierarchy, names[old], names[new]) < 1 or names[new] == hierarchy.root
            ),
        )


def fit_tree(blank: EncodedColumn, counts: Mapping[str, int]) -> EncodedColumn:
    """Fit the dimensions of the values and groups in use, given how often each value occurs."""
    hierarchy = blank.hierarchy
    assert hierarchy is not None
    totals: Counter[str] = Counter()
    for name, count in counts.items():
        totals.update(dict.fromkeys((hierarchy.path(name) or ())[:-1] if count else (), count))
    n_records = sum(counts.values())
    # What all records have in common does not tell them apart.
    labels = sorted(label for label, count in totals.items() if count < n_records)
    if len(labels) > MAX_WITH_VALUES:
        labels = [label for label in labels if hierarchy.share(label) > 0]
    if not labels:
        return replace(blank, totals=dict(totals))
    heights = np.array([_edge(hierarchy, label) for label in labels])
    numbers = np.array([totals[label] for label in labels])
    return replace(
        blank,
        names=tuple(labels),
        places=heights,
        counts=numbers,
        totals=dict(totals),
        centre=heights * numbers / n_records,
        scale=np.ones(len(labels)),
    )


def _hierarchy(column: Column | EncodedColumn) -> Hierarchy:
    assert column.hierarchy is not None  # checked by Column
    return column.hierarchy


def _fit_bands(column: Column, values: Values) -> Bands:
    """Return bands for the column's values."""
    assert column.bands is not None
    calendar = isinstance(column.bands[0], str)
    fits = values.is_time if calendar else values.is_number
    if not fits and values.storage != "empty":
        needed = "dates" if calendar else "numbers"
        raise SchemaError(
            f"Column {column.name!r}: these bands are for {needed}, but the column contains "
            f"{values.storage} values. Choose other bands, or give it a hierarchy.",
            code="schema.wrong_kind",
            column=column.name,
        )
    present = values.data[~values.missing]
    span = float(present.max() / 2 - present.min() / 2) * 2 if len(present) else 0.0
    if calendar and values.unit:
        span *= NANOSECONDS[values.unit] / NANOSECONDS["D"]
    whole = values.storage == "integer" and all(
        float(width).is_integer() for width in column.bands if not isinstance(width, str)
    )
    # Cells files contain the span, and an exact one would reveal the outermost records.
    return Bands(column.bands, float(step_above(span).size) if span > 0 else 0.0, whole)


def value_labels(values: Values) -> tuple[str, ...]:
    """Return the label of each code: dates as YYYY-MM-DD, other values as their names."""
    _, names = values.factorize()
    if not values.is_time:
        return names
    counts = np.array([int(name.partition(" ")[0]) for name in names], dtype=np.int64)
    days = counts.astype(f"datetime64[{values.unit}]").astype("datetime64[D]")
    return tuple(str(day) for day in days)


def _merge(reading: Reading) -> Reading:
    """Give equal labels one code, such as those of times on the same day."""
    names = tuple(dict.fromkeys(reading.names))
    if len(names) == len(reading.names):
        return reading
    position = {name: at for at, name in enumerate(names)}
    codes = np.array([*(position[name] for name in reading.names), -1], dtype=np.int64)
    return replace(reading, codes=codes[reading.codes], names=names)


def _edge(hierarchy: Hierarchy, label: str) -> float:
    """Return the coordinate of a label's indicator.

    Squared distances of values are then the heights of their smallest common groups.
    """
    path = hierarchy.path(label) or ()
    return float(np.sqrt((hierarchy.height(path[1]) - hierarchy.height(label)) / 2))


def _publish(hierarchy: Hierarchy, names: Sequence[str], *, as_set: bool) -> str:
    """Return what a cell with these values publishes: a set, or their smallest common group.

    A value that the hierarchy lacks, in a later batch of a session, is in no group but the root.
    """
    root = (hierarchy.root,)
    paths = [hierarchy.path(name) or root for name in names]
    if as_set and len(names) > 1 and isinstance(hierarchy, Bands):
        # Exact numbers would be those of single members.
        names = tuple(dict.fromkeys(path[min(1, len(path) - 1)] for path in paths))
    if as_set and len(names) <= MAX_SET and root not in paths:
        return join(names)
    label = paths[0][0]
    for path in paths[1:]:
        label = common_ancestor(hierarchy.path(label) or root, path)
    return label


def _members(hierarchy: Hierarchy, text: str) -> tuple[str, ...]:
    """Return the labels of a published value or set; none if it is not of the hierarchy."""
    return members(text, lambda label: hierarchy.path(label) is not None)


def _lost_share(hierarchy: Hierarchy, value: str, published: str) -> float:
    """Return the share of the other values that a published group or set leaves possible.

    1 if it does not contain the value.
    """
    path = hierarchy.path(value)
    if published == value or path is None:
        return float(published != value)
    if published in path:
        return hierarchy.share(published)
    members = _members(hierarchy, published)
    if len(members) < 2 or not set(members) & set(path):
        return 1.0
    shares = sum(hierarchy.share(member) for member in members)
    return min(1.0, shares + (len(members) - 1) * hierarchy.share_of_one)
