"""The interface of a column kind.

A kind decides everything that differs between columns: what a schema may declare, how values become
coordinates, what a cell publishes and how published values are compared with the original ones.
Code outside this package asks ``kind_of(column)`` and never tests the name of a kind. A new kind is
one file with a subclass of :class:`Kind`, decorated with :func:`register`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

import numpy as np

from microcell.errors import DataError, SchemaError
from microcell.kernels.arrays import Floats, Integers, Mask, count_distinct
from microcell.kinds.column import KINDS, Column, EncodedColumn, Layout
from microcell.kinds.groups import Groups
from microcell.kinds.pairs import ColumnPair
from microcell.kinds.values import (
    TIME_FAMILY,
    TIME_STORAGES,
    Representatives,
    Storage,
    Values,
    count_in_unit,
)

__all__ = ["FARTHEST", "Kind", "Reading", "check_finite", "register"]

FARTHEST = 1e100
"""Largest coordinate. Squared distances stay finite, whatever values a new record contains."""


@dataclass(frozen=True, eq=False)
class Reading:
    """A column of a table, read once for fitting and placing.

    ``codes`` and ``names`` are those of :meth:`Values.factorize`, for kinds with names; ``vectors``
    are unit vectors, for locations.
    """

    values: Values
    missing: Mask
    codes: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    names: tuple[str, ...] = ()
    vectors: Floats = field(default_factory=lambda: np.empty((0, 3)))


class Kind(ABC):
    """A kind of column."""

    name: ClassVar[str]

    representatives: ClassVar[tuple[str, ...]]
    """What a cell may publish; the first is the default."""

    layout: ClassVar[Layout]

    storages: ClassVar[tuple[Storage, ...]]
    """Types of values that the kind accepts."""

    default_for: ClassVar[tuple[Storage, ...]] = ()
    """Types of values for which this kind is assumed when the schema names none."""

    n_parts: ClassVar[int] = 1
    """Number of the table's columns that make up one column of this kind."""

    only_numbers: ClassVar[bool] = False
    """True if all values are numbers, whole or not."""

    matches_by_prefix: ClassVar[bool] = False
    """True if names are more similar the longer their common prefix is."""

    ordered: ClassVar[bool] = False
    """True if values have an order, so that means, quantiles and correlations make sense."""

    takes_order: ClassVar[bool] = False
    """True if the schema may declare the order of the categories."""

    takes_hierarchy: ClassVar[bool] = False
    """True if the schema must declare a hierarchy or bands."""

    can_be_confidential: ClassVar[bool] = True

    max_dimensions: ClassVar[int | None] = 1
    """Number of dimensions of a column that varies; None if it depends on the names."""

    # Schema

    @abstractmethod
    def check_values(self, name: str, values: Values) -> None:
        """Raise SchemaError if the values cannot be of this kind."""

    def resolve(self, column: Column, values: Values) -> Column:
        """Complete a declaration from the column's values."""
        return column if column.kind == self.name else replace(column, kind=self.name)

    # Encoding

    @abstractmethod
    def read(self, parts: Sequence[str], values: Sequence[Values]) -> Reading:
        """Read the columns ``parts`` of a table, checking that every value can be used."""

    @abstractmethod
    def fit(self, blank: EncodedColumn, column: Column, reading: Reading) -> EncodedColumn:
        """Fit the dimensions of the column; all other fields are copied from ``blank``."""

    @abstractmethod
    def round_fit(self, fitted: EncodedColumn) -> EncodedColumn:
        """Round the statistics of a fitted, varying column, so that they can be published.

        Only the metric changes a little: coordinates are shifted and scaled.
        """

    @abstractmethod
    def place(self, fitted: EncodedColumn, reading: Reading, out: Floats) -> int:
        """Write the coordinates to ``out``; return how many records have an unknown category."""

    def read_again(self, fitted: EncodedColumn, values: Sequence[Values]) -> Reading:
        """Read the column from a table of further records, with times in the fitted unit."""
        for part, item in zip(fitted.parts, values, strict=True):
            self._check_same_type(fitted, part, item)
        reading = self.read(fitted.parts, values)
        if fitted.unit is None or reading.values.unit in (None, fitted.unit):
            return reading
        names = tuple(count_in_unit(name, fitted.unit) for name in reading.names)
        return replace(reading, names=names)

    def check_fit(self, fitted: EncodedColumn, n_records: int | None) -> None:  # noqa: B027
        """Raise SchemaError if the fitted column is unusable.

        ``n_records`` is None for confidential columns.
        """

    def count_people(
        self, fitted: EncodedColumn, reading: Reading, persons: Integers
    ) -> EncodedColumn:
        """Return the column with the number of distinct persons that have each name."""
        if fitted.counts is None:
            return fitted
        present = reading.codes >= 0
        people = count_distinct(reading.codes[present], persons[present]).tolist()
        count_of = dict(zip(reading.names, people, strict=False))  # the last names may be unused
        counts = np.array([count_of.get(str(name), 0) for name in fitted.names], dtype=np.int64)
        return replace(fitted, counts=counts)

    def withhold(self, fitted: EncodedColumn, k: int) -> EncodedColumn:
        """Return the column without counts and without names that fewer than ``k`` people have."""
        if fitted.counts is None:
            return fitted
        kept = fitted.counts >= k
        names = tuple(name for name, keep in zip(fitted.names, kept, strict=True) if keep)
        return replace(fitted, names=names, places=fitted.places[kept], counts=None)

    def problems(self, fitted: EncodedColumn) -> Iterator[str]:
        """Yield a phrase for each inconsistency of a column read from a file."""
        if len(fitted.parts) != self.n_parts:
            yield f"'parts' must have {self.n_parts} names for kind {self.name!r}"
        if fitted.storage not in self.storages:
            yield f"'storage' is not valid for kind {self.name!r}"
        if (fitted.unit is not None) != (fitted.storage in TIME_STORAGES):
            yield "'unit' must be set for dates and times, and only for them"
        if len(fitted.scale) != fitted.dimensions or not (fitted.scale > 0).all():
            yield "'scale' must have a positive number for each number in 'centre'"
        if self.max_dimensions is not None and fitted.dimensions not in (0, self.max_dimensions):
            yield f"'centre' must have 0 or {self.max_dimensions} numbers"
        if self.layout != "line" and (fitted.origin or fitted.exponent):
            yield "'origin' and 'exponent' are only valid for numbers and dates"
        if fitted.exponent and isinstance(fitted.origin, int):
            yield "'origin' must not be an integer if there is an 'exponent'"
        names = [name for name in fitted.names if name is not None]
        if len(set(names)) != len(names):
            yield "'names' contains a name twice"
        yield from self._name_problems(fitted)

    def _name_problems(self, fitted: EncodedColumn) -> Iterator[str]:
        if len(fitted.places):
            yield "'places' is only valid for ordinal columns and codes"
        if fitted.names:
            yield f"'names' is not valid for kind {self.name!r}"

    def _accepts_again(self, fitted: EncodedColumn, values: Values) -> bool:
        """Return whether the type of further values is compatible with the fitted type."""
        if self.only_numbers:
            return values.is_number
        return TIME_FAMILY.get(values.storage) == TIME_FAMILY.get(fitted.storage)

    def _check_same_type(self, fitted: EncodedColumn, part: str, values: Values) -> None:
        if self._accepts_again(fitted, values) or values.missing.all():
            return
        row = int(np.argmin(values.missing)) + 1
        raise SchemaError(
            f"Column {part!r} was fitted as {self.name} on {fitted.storage} values, but contains "
            f"{values.storage} values here, first in row {row}. Convert them to the same type.",
            code="schema.wrong_kind",
            column=part,
            row=row,
        )

    # Release

    @abstractmethod
    def represent(
        self, column: Column, values: Sequence[Values], groups: Groups
    ) -> list[Representatives]:
        """Return the values that each group publishes, for each part of the column."""

    def precision(self, values: Sequence[Values]) -> float:
        """Return the step to which published means are rounded, 0 if they are not."""
        return 0.0

    # Audit

    @abstractmethod
    def pair(
        self, column: Column, original: Sequence[Values], released: Sequence[Values]
    ) -> ColumnPair:
        """Read the original and the published column on a common scale."""

    def quantity(self, column: Column, values: Values) -> Floats:
        """Return a confidential column of an ordered kind as numbers, NaN where missing."""
        raise NotImplementedError(f"{self.name} columns have no order")

    def scale(self, values: Values) -> tuple[int, float, str | None]:
        """Return origin, step and unit: values are (origin + :meth:`quantity`) * step."""
        return 0, 1.0, None


SomeKind = TypeVar("SomeKind", bound=Kind)


def register(kind: type[SomeKind]) -> type[SomeKind]:
    """Register the decorated class as a kind of column."""
    KINDS[kind.name] = kind()
    return kind


def check_finite(name: str, values: Values) -> None:
    """Raise DataError if the column contains infinity."""
    if values.data.dtype.kind != "f":
        return
    infinite = np.flatnonzero(np.isinf(values.data) & ~values.missing)
    if len(infinite):
        row = int(infinite[0]) + 1
        plural = "s" * (len(infinite) > 1)
        raise DataError(
            f"Column {name!r} contains {len(infinite)} infinite value{plural}, first in row {row}. "
            "Replace them with numbers or mark them as missing.",
            code="data.not_finite",
            column=name,
            row=row,
            count=len(infinite),
        )
