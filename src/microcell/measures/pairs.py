"""The columns of an original and a released table, read once for all measures."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from microcell.errors import DataError
from microcell.kinds import Column, kind_of
from microcell.kinds.pairs import Categories, ColumnPair, Quantity
from microcell.model import Floats, Integers, Mask, Schema, Table

__all__ = ["ColumnPairs", "NamedCategories", "Quantities", "record_weights"]


@dataclass(frozen=True, eq=False)
class Quantities:
    """The ordered columns of the matched records, and the weight of each record."""

    columns: tuple[Quantity, ...]
    weights: Floats


@dataclass(frozen=True, eq=False)
class NamedCategories:
    """A column of the matched records as codes into ``names``, -1 where missing.

    ``covered`` marks the records published with a group or set that contains their value.
    """

    name: str
    before: Integers
    after: Integers
    names: tuple[str, ...]
    covered: Mask | None = None


@dataclass(frozen=True, eq=False)
class ColumnPairs:
    """An original and a released table, column by column; each column is read once.

    The properties are computed on first use and kept:

    - :attr:`quasi`: each quasi-identifier before and after on a common scale, as a
      :class:`~microcell.kinds.pairs.ColumnPair`. It offers ``loss``, ``histograms``, ``points``
      (for linkage), ``coordinates`` (for a projection), ``quantities`` and ``categories``. Rows
      need not be matched.
    - :attr:`weights`: the sampling weight of each published record.
    - :attr:`quantities`: the ordered columns (numeric, datetime, ordinal) of the matched records,
      quasi-identifiers first, then confidential columns.
    - :attr:`further_quantities`: quasi-identifiers that have no order but can be put on lines:
      codes, and the two parts of a location.
    - :attr:`categories`: the nominal columns of the matched records, quasi-identifiers first, then
      confidential columns.

    Confidential columns are published unchanged, so the original is read for both sides.

    Parameters
    ----------
    schema
        Resolved: each column has its kind.
    rows
        The row of the original (from 0) that each published row comes from. Empty if rows are not
        matched; then only :attr:`quasi` can be used.

    Examples
    --------
    >>> from microcell.model import Column, Values
    >>> present = np.zeros(2, dtype=bool)
    >>> ages = Values("integer", np.array([20, 24]), present)
    >>> bands = Values("text", np.array([0, 0]), present, categories=("20-24",))
    >>> original = Table({"age": ages}, rows=2, native=None)
    >>> released = Table({"age": bands}, rows=2, native=None)
    >>> schema = Schema(quasi=[Column("age", kind="numeric")])
    >>> age = ColumnPairs(original, released, schema, np.arange(2)).quantities.columns[0]
    >>> age.origin + age.before, age.origin + age.after
    (array([20., 24.]), array([22., 22.]))
    """

    original: Table
    released: Table
    schema: Schema
    rows: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @cached_property
    def quasi(self) -> tuple[ColumnPair, ...]:
        """Each quasi-identifier before and after."""
        columns = self.schema.quasi
        kinds = [kind_of(column) for column in columns]
        before, after = self.original.read(columns), self.released.read(columns)
        return tuple(
            [kind.pair(*item) for kind, *item in zip(kinds, columns, before, after, strict=True)]
        )

    @cached_property
    def left_out(self) -> Integers:
        """Rows of the original that are not published although no quasi-identifier is missing."""
        if len(self.rows) == self.original.rows:
            return np.empty(0, dtype=np.int64)
        complete = np.ones(self.original.rows, dtype=np.bool_)
        complete[self.rows] = False
        for parts in self.original.read(self.schema.quasi):
            for values in parts:
                complete &= ~values.missing
        for name in self.schema.person:
            complete &= ~self.original.columns[name].missing
        return np.flatnonzero(complete)

    @cached_property
    def weights(self) -> Floats:
        """The sampling weight of each published record, at most 1."""
        return record_weights(self.original, self.schema)[self.rows]

    @cached_property
    def quantities(self) -> Quantities:
        """The ordered columns of the matched records."""
        columns = self._quasi_quantities(ordered=True)
        confidential = self._released_confidential
        kinds = [kind_of(column) for column in confidential]
        for kind, column, (values,) in zip(
            kinds, confidential, self.original.read(confidential), strict=True
        ):
            if kind.ordered:
                numbers = kind.quantity(column, values)[self.rows]
                columns.append(Quantity(column.name, False, numbers, numbers, *kind.scale(values)))
        return Quantities(tuple(columns), self.weights)

    @cached_property
    def further_quantities(self) -> tuple[Quantity, ...]:
        """Quasi-identifiers without an order that have numeric features, such as locations."""
        return tuple(self._quasi_quantities(ordered=False))

    @cached_property
    def categories(self) -> tuple[NamedCategories, ...]:
        """The nominal columns of the matched records."""
        columns = [
            _match(pair.categories, pair, self.rows)
            for pair in self.quasi
            if pair.categories is not None
        ]
        for column in self._released_confidential:
            if not kind_of(column).ordered:
                codes, names = self.original.columns[column.name].factorize()
                matched = codes[self.rows].astype(np.int64)
                columns.append(NamedCategories(column.name, matched, matched, names))
        return tuple(columns)

    def _quasi_quantities(self, *, ordered: bool) -> list[Quantity]:
        """Return the quasi-identifiers whose kind is ordered, or those whose kind is not."""
        kinds = [kind_of(pair.column) for pair in self.quasi]
        return [
            quantity
            for kind, pair in zip(kinds, self.quasi, strict=True)
            if kind.ordered is ordered
            for quantity in pair.quantities(self.rows)
        ]

    @cached_property
    def _released_confidential(self) -> list[Column]:
        return [
            column
            for column in self.schema.confidential
            if column.kind is not None
            and column.name in self.original.columns
            and column.name in self.released.columns
        ]


def record_weights(original: Table, schema: Schema) -> Floats:
    """Return the weight of each record, at most 1; all 1 without a weight column.

    Raises :class:`DataError` if a weight is missing, negative or infinite.
    """
    if schema.weight is None:
        return np.ones(original.rows)
    weights = original.columns[schema.weight].reals()
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(np.argmax(wrong)) + 1
        raise DataError(
            f"Weight column {schema.weight!r} of the original must contain numbers of at least 0, "
            f"but row {row} does not. Correct the weight or remove the record.",
            code="data.bad_weight",
            column=schema.weight,
            row=row,
        )
    return weights / max(float(weights.max(initial=0.0)), np.finfo(np.float64).tiny)


def _match(categories: Categories, pair: ColumnPair, rows: Integers) -> NamedCategories:
    before = categories.before[rows]
    return NamedCategories(
        pair.column.name, before, categories.after, categories.names, pair.covered(rows)
    )
