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
"""Values this close below the border of an interval count as on it: they differ by rounding."""


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """How many people have each value in each class.

    The pairs of a class and a value that occur are sorted by class and then by value: ``classes``,
    ``codes`` and ``counts`` have one entry per pair. ``sizes`` has one entry per class and
    ``totals`` one per value of the table, in order; all are positive. ``ordered`` is True if the
    order of the values matters.

    Every record is a person unless persons were passed in. A person with several rows counts once
    for each of their values in a class, so the counts of a class may add up to more than its size.
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
    classes: Integers,
    codes: Integers,
    *,
    ordered: bool,
    persons: Integers | None = None,
    totals: Integers | None = None,
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
    totals
        How many people have each value in a larger table that the rows are part of; codes may then
        have gaps. By default the rows are the table.

    Examples
    --------
    >>> counts = count_values(np.array([0, 0, 7, 7]), np.array([0, 1, 1, 1]), ordered=False)
    >>> counts.distinct, counts.counts
    (array([2, 1]), array([1, 1, 2]))
    """
    classes = combine(np.zeros(len(classes), dtype=np.int64), classes)
    n_codes = int(codes.max(initial=-1)) + 1 if totals is None else len(totals)
    pairs = classes * max(1, n_codes) + codes
    if persons is None:
        sizes = np.bincount(classes).astype(np.int64)
        keys, counts = np.unique(pairs, return_counts=True)
    else:
        sizes = count_distinct(classes, persons)
        keys, numbers = np.unique(pairs, return_inverse=True)
        counts = count_distinct(numbers.reshape(-1), persons)
    if totals is None:
        totals = np.bincount(codes) if persons is None else count_distinct(codes, persons)
    class_of, code_of = np.divmod(keys, max(1, n_codes))
    return ClassCounts(
        class_of, code_of, counts.astype(np.int64), sizes, totals.astype(np.int64), ordered
    )


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
    sampling_weights: Floats | None = None

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.column.name

    @property
    def weight(self) -> float:
        """Weight of the column in the overall loss: that of the schema, times its variance."""
        return self.column.weight * self.prediction_loss.baseline

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

    @cached_property
    def homogeneous_people(self) -> int:
        """Number of people in these classes; a person with rows in several of them counts once."""
        if self.persons is None:
            return int(self.homogeneous_sizes.sum())
        return len(np.unique(self.persons[self.counts.shared[self.classes]]))

    @property
    def prediction_loss(self) -> Loss:
        """Squared error of predicting values from the class, and from the whole table.

        For numbers, dates and ranks, the standardized differences from the class mean and from the
        overall mean. For categories, the differences of their indicators, scaled so that two
        categories are at distance 1, from the shares in the class and in the table. This is the
        quantity that ``dependence`` minimizes. Missing and infinite values count as the mean.
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
        return _indicator_loss(codes, self.classes, self._masses), codes

    @property
    def _masses(self) -> Floats:
        weights = self.sampling_weights
        return np.ones(len(self.classes)) if weights is None else weights

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
            codes[present] = 1  # constant, and so without any dimension in the design of cells
            return Loss(0.0, 0.0), codes
        points = np.zeros(len(numbers))
        points[present] = standardized[0]
        steps = np.floor(standardized[0] / _INTERVAL + _TOLERANCE).astype(np.int64)
        codes[present] = steps - steps.min() + 1
        return _mean_loss(points, self.classes, self._masses), codes


def confidential_columns(
    released: Table, schema: Schema, classes: Integers, persons: Integers | None = None
) -> tuple[ConfidentialColumn, ...]:
    """Return the published confidential columns; none for a release without records."""
    numbered = combine(np.zeros(len(classes), dtype=np.int64), classes)
    weights = _published_weights(released, schema)
    return tuple(
        ConfidentialColumn(column, released.columns[column.name], numbered, persons, weights)
        for column in schema.confidential
        if column.name in released.columns and released.rows
    )


def _published_weights(released: Table, schema: Schema) -> Floats | None:
    """Return the published sampling weights; None if there are none, or not all can be used."""
    values = None if schema.weight is None else released.columns.get(schema.weight)
    if values is None or not values.is_number:
        return None
    weights = values.reals()
    return weights if bool((np.isfinite(weights) & (weights > 0)).all()) else None


def is_ordered(column: Column) -> bool:
    """Return whether the values are compared by their order; True for unresolved columns."""
    return column.kind is None or kind_of(column).ordered


def _mean_loss(points: Floats, classes: Integers, masses: Floats) -> Loss:
    """Return squared differences from the class means, and from the overall mean."""
    totals = np.bincount(classes, weights=masses)
    means = np.bincount(classes, weights=masses * points) / np.where(totals > 0, totals, 1.0)
    mean = float(masses @ points) / float(masses.sum())
    whole = float(masses @ np.square(points - mean))
    # Rounding must not make the class means look worse than the overall mean.
    return Loss(min(float(masses @ np.square(points - means[classes])), whole), whole)


def _indicator_loss(codes: Integers, classes: Integers, masses: Floats) -> Loss:
    """Return the squared error of indicators, half of the sum over categories.

    A missing value (code 0) is the mean of the others, and takes part in the means of its class.
    """
    present: Mask = codes > 0
    weights, every = masses * present, float(masses.sum())
    if len(np.unique(codes[present])) < 2:
        return Loss(0.0, 0.0)
    # Of the indicators minus the shares of the table, which are 0 where a value is missing.
    totals = np.bincount(codes, weights=present.astype(np.float64))
    shares: Floats = np.asarray(totals / totals.sum(), dtype=np.float64)
    squares = 1.0 - 2.0 * shares[codes] + float(shares @ shares)
    pairs = combine(classes, codes)
    counts = np.bincount(pairs, weights=weights)
    class_of, code_of = _class_of_pairs(pairs, classes), _class_of_pairs(pairs, codes)
    inside = np.bincount(classes, weights=masses)
    amounts = np.bincount(classes, weights=weights)
    mixed = counts**2 - 2 * counts * amounts[class_of] * shares[code_of]
    sums = np.bincount(class_of, weights=mixed) + amounts**2 * float(shares @ shares)
    total = float(weights @ squares)
    overall = np.bincount(codes, weights=weights)
    overall[0] = 0.0
    away = overall - overall.sum() * shares
    whole = total - float(away @ away) / every
    lost = total - float((sums / np.where(inside > 0, inside, 1.0)).sum())
    return Loss(min(max(lost, 0.0), whole) / 2, whole / 2)


def _class_of_pairs(pairs: Integers, classes: Integers) -> Integers:
    """Return the class, or the value, of each distinct pair of a class and a value."""
    class_of = np.zeros(int(pairs.max()) + 1, dtype=np.int64)
    class_of[pairs] = classes
    return class_of
