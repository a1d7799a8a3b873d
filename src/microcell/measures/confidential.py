"""Confidential columns: how often their values occur in each class of a release.

A missing value counts as a value. Time O(n log n) per column.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from microcell.errors import DataError
from microcell.kernels.arrays import count_distinct
from microcell.kinds import kind_of
from microcell.kinds.losses import Loss, standardize
from microcell.measures.classes import combine, number_values
from microcell.model import Column, Floats, Integers, Mask, Schema, Table, Values

__all__ = [
    "ClassCounts",
    "ConfidentialColumn",
    "confidential_columns",
    "count_values",
    "is_ordered",
    "sort_by_order",
    "tidy",
]

_DECIMALS = 12
"""Values are rounded to this many decimals, so that four equal shares give an l of exactly 4."""

_INTERVAL = 0.2
"""Width in standard deviations of the intervals in which numbers count as the same value."""

_TOLERANCE = 1e-9
"""Values this far below the border of an interval count as on it, despite rounding errors."""


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """How many people have each value in each class.

    The pairs of a class and a value that occur are sorted by class and then by value: ``classes``,
    ``codes`` and ``counts`` have one entry per pair. ``sizes`` has one entry per class and
    ``totals`` one per value of the table, in order; all are positive. ``ordered`` is True if the
    order of the values matters.

    Every record is a person unless persons were given. A person with several rows counts once for
    each of their values in a class, so the counts of a class may add up to more than its size.
    """

    classes: Integers
    codes: Integers
    counts: Integers
    sizes: Integers
    totals: Integers
    ordered: bool

    @cached_property
    def total(self) -> int:
        """Sum of the totals: the number of records, or of distinct values of all persons."""
        return int(self.totals.sum())

    @cached_property
    def masses(self) -> Integers:
        """Sum of the counts of each class."""
        return np.add.reduceat(self.counts, self.starts)

    @cached_property
    def distinct(self) -> Integers:
        """Number of distinct values in each class."""
        return np.bincount(self.classes, minlength=len(self.sizes)).astype(np.int64)

    @cached_property
    def starts(self) -> Integers:
        """Position of the first pair of each class."""
        return np.cumsum(self.distinct) - self.distinct

    @cached_property
    def shares(self) -> Floats:
        """Share of each value in its class."""
        return self.counts / self.masses[self.classes]

    @cached_property
    def shared(self) -> Mask:
        """Mask of the classes in which one value is common to everyone."""
        out: Mask = np.maximum.reduceat(self.counts, self.starts) == self.sizes
        return out

    @cached_property
    def diversity(self) -> Integers:
        """Number of distinct values in each class; 1 if one of them is common to everyone."""
        return np.where(self.shared, 1, self.distinct)

    @cached_property
    def log_ratios(self) -> Floats:
        """Log2 of the ratio between a value's share in the class and its share in the table."""
        return np.log2(self.shares * (self.total / self.totals[self.codes]))

    @cached_property
    def divergences(self) -> Floats:
        """Kullback-Leibler divergence of each class from the table, in bits."""
        return self.sum_by_class(self.shares * self.log_ratios)

    def sum_by_class(self, amounts: Floats) -> Floats:
        """Add up amounts per pair within each class."""
        sums = np.bincount(self.classes, weights=amounts, minlength=len(self.sizes))
        return sums.astype(np.float64)


def count_values(
    classes: Integers, codes: Integers, *, ordered: bool, persons: Integers | None = None
) -> ClassCounts:
    """Count values by class.

    Parameters
    ----------
    classes
        The class of each row: integers from 0, possibly with gaps.
    codes
        The value of each row, numbered 0, 1, 2, ... without gaps.
    ordered
        True for numbers, dates and ordinal columns: a value is one step from the next that occurs.
        Otherwise any two values differ by 1.
    persons
        The person of each row; None if every row is a person.

    Examples
    --------
    >>> counts = count_values(np.array([0, 0, 7, 7]), np.array([0, 1, 1, 1]), ordered=False)
    >>> counts.distinct, counts.counts
    (array([2, 1]), array([1, 1, 2]))
    """
    classes = combine(np.zeros(len(classes), dtype=np.int64), classes)
    n_codes = int(codes.max(initial=-1)) + 1
    pairs = classes * max(1, n_codes) + codes
    if persons is None:
        sizes = np.bincount(classes).astype(np.int64)
        totals = np.bincount(codes).astype(np.int64)
        keys, counts = np.unique(pairs, return_counts=True)
    else:
        sizes = count_distinct(classes, persons)
        totals = count_distinct(codes, persons)
        keys, numbers = np.unique(pairs, return_inverse=True)
        counts = count_distinct(numbers.reshape(-1), persons)
    class_of, code_of = np.divmod(keys, max(1, n_codes))
    return ClassCounts(class_of, code_of, counts.astype(np.int64), sizes, totals, ordered)


def tidy(value: float) -> float:
    """Round off floating-point noise and drop the sign of -0."""
    return round(float(value), _DECIMALS) + 0.0


def sort_by_order(column: Column, values: Values) -> Values:
    """Return the ranks of a column's categories if the schema declares their order.

    Other columns are returned as they are. Raises DataError for a category outside the order.

    Examples
    --------
    >>> pain = Values("text", np.array([1, 0, 1]), np.zeros(3, dtype=bool), ("mild", "none"))
    >>> sort_by_order(Column("pain", kind="ordinal", order=("none", "mild")), pain).data
    array([0, 1, 0])
    """
    if column.order is None:
        return values
    ranks = values.ranks(column.order)
    unknown = (ranks < 0) & ~values.missing
    if unknown.any():
        row = int(np.argmax(unknown)) + 1
        raise DataError(
            f"Column {column.name!r} contains a category that is not in its declared order, first "
            f"in row {row}. Add it to the order.",
            code="data.unknown_category",
            column=column.name,
            row=row,
        )
    return Values("integer", ranks, values.missing)


@dataclass(frozen=True, eq=False)
class ConfidentialColumn:
    """A published confidential column and the class of each record (numbered without gaps).

    ``persons`` holds the person of each record; None if every record is a person.
    """

    column: Column
    values: Values
    classes: Integers
    persons: Integers | None = None

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.column.name

    @property
    def weight(self) -> float:
        """Weight of the column in averages."""
        return self.column.weight

    @cached_property
    def counts(self) -> ClassCounts:
        """How many people have each value in each class."""
        codes = number_values(sort_by_order(self.column, self.values))
        ordered = is_ordered(self.column)
        return count_values(self.classes, codes, ordered=ordered, persons=self.persons)

    @cached_property
    def homogeneous_sizes(self) -> Integers:
        """Sizes of the classes in which everyone shares one value."""
        return self.counts.sizes[self.counts.shared]

    @property
    def prediction_loss(self) -> Loss:
        """Error of predicting values from the class, relative to predicting them from the table.

        For numbers, dates and ranks, the squared differences from the class mean and from the
        overall mean. For categories, the records that differ from the most frequent value of their
        class and of the table. Missing and infinite values are left out.
        """
        return self._predictability[0]

    @property
    def intervals(self) -> Integers:
        """A code for each value, 0 if missing; numbers within one interval share a code."""
        return self._predictability[1]

    @property
    def distinct_intervals(self) -> Integers:
        """Number of distinct values in each class, numbers within one interval counted as one."""
        pairs = combine(self.classes, self.intervals)
        return np.bincount(_class_of_pairs(pairs, self.classes)).astype(np.int64)

    @cached_property
    def _predictability(self) -> tuple[Loss, Integers]:
        column, values = self.column, self.values
        ordered = column.kind is not None and kind_of(column).ordered
        if ordered and (kind_of(column).takes_order or values.is_number or values.is_time):
            return self._predict_numbers()
        codes = values.factorize()[0].astype(np.int64) + 1
        return _mode_loss(codes, self.classes), codes

    def _predict_numbers(self) -> tuple[Loss, Integers]:
        column, values = self.column, self.values
        if column.order is not None:
            values = sort_by_order(column, values)
            column = replace(column, kind="numeric", order=None)
        numbers = kind_of(column).quantity(column, values)
        present: Mask = ~np.isnan(numbers)
        used = numbers[present]
        standardized = standardize(used, used, np.ones(len(used)))
        codes = np.zeros(len(numbers), dtype=np.int64)
        if standardized is None:
            codes[present] = 1
            return Loss(0.0, 0.0), codes
        points = standardized[0]
        steps = np.floor(points / _INTERVAL + _TOLERANCE).astype(np.int64)
        codes[present] = steps - steps.min() + 1
        return _mean_loss(points, self.classes[present]), codes


def confidential_columns(
    released: Table, schema: Schema, classes: Integers, persons: Integers | None = None
) -> tuple[ConfidentialColumn, ...]:
    """Return the published confidential columns; none for a release without records."""
    numbered = combine(np.zeros(len(classes), dtype=np.int64), classes)
    return tuple(
        ConfidentialColumn(column, released.columns[column.name], numbered, persons)
        for column in schema.confidential
        if column.name in released.columns and released.rows
    )


def is_ordered(column: Column) -> bool:
    """Return whether the values are compared by their order; True for unresolved columns."""
    return column.kind is None or kind_of(column).ordered


def _mean_loss(points: Floats, classes: Integers) -> Loss:
    """Return squared differences from the class mean, and from the overall mean, which is 0."""
    counts = np.bincount(classes)
    means = np.bincount(classes, weights=points) / np.maximum(counts, 1)
    whole = float(np.square(points).sum())
    # Rounding must not make the class means look worse than the overall mean.
    return Loss(min(float(np.square(points - means[classes]).sum()), whole), whole)


def _mode_loss(codes: Integers, classes: Integers) -> Loss:
    """Count records that differ from the most frequent value of their class, and of the table."""
    present: Mask = codes > 0
    codes, classes = codes[present], classes[present]
    if not len(codes):
        return Loss(0.0, 0.0)
    pairs = combine(classes, codes)
    most_frequent = np.zeros(int(classes.max()) + 1, dtype=np.int64)
    np.maximum.at(most_frequent, _class_of_pairs(pairs, classes), np.bincount(pairs))
    lost = len(codes) - most_frequent.sum()
    return Loss(float(lost), float(len(codes) - np.bincount(codes).max()))


def _class_of_pairs(pairs: Integers, classes: Integers) -> Integers:
    """Return the class of each distinct pair of a class and a value."""
    class_of = np.zeros(int(pairs.max()) + 1, dtype=np.int64)
    class_of[pairs] = classes
    return class_of
