"""Attribute disclosure: what the class of a record reveals about its confidential values.

With p the shares of a column's values in the table and p_c those in class c, the measures are: the
fewest distinct values in a class (p-sensitivity, Truta and Vinay 2006; distinct l-diversity),
min exp(-sum p_c ln p_c) and recursive (c, l)-diversity (Machanavajjhala et al. 2007);
max EMD(p_c, p) (t-closeness, Li et al. 2007); max sum p_c log2(p_c / p) (Rebollo-Monedero et al.
2010) and its mean over records, the mutual information; and max |log2(p_c / p)| where p_c > 0
(Brickell and Shmatikov 2008). A missing value counts as a value. Time O(n log n) per column.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from microcell.errors import DataError
from microcell.kinds import kind_of
from microcell.kinds.losses import Loss, standardize
from microcell.measures.classes import combine, number_values
from microcell.measures.registry import measure
from microcell.model import Column, Floats, Integers, Mask, Schema, Table, Values

if TYPE_CHECKING:
    from microcell.measures.evidence import Evidence

__all__ = [
    "ClassCounts",
    "ConfidentialColumn",
    "average_diversity",
    "confidential_columns",
    "count_values",
    "is_ordered",
    "recursive_diversity",
    "sort_by_order",
    "tidy",
]

_DECIMALS = 12
"""Values are rounded to this many decimals, so that four equal shares give an l of exactly 4."""

_RECURSIVE_C = 3.0
"""The constant c of recursive (c, l)-diversity."""

_INTERVAL = 0.2
"""Width in standard deviations of the intervals in which numbers count as the same value."""

_TOLERANCE = 1e-9
"""Values this far below the border of an interval count as on it, despite rounding errors."""


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """How often each value occurs in each class.

    The pairs of a class and a value that occur are sorted by class and then by value: ``classes``,
    ``codes`` and ``counts`` have one entry per pair. ``sizes`` has one entry per class and
    ``totals`` one per value of the table, in order; all are positive. ``ordered`` is True if the
    order of the values matters.
    """

    classes: Integers
    codes: Integers
    counts: Integers
    sizes: Integers
    totals: Integers
    ordered: bool

    @cached_property
    def records(self) -> int:
        """Number of records."""
        return int(self.sizes.sum())

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
        return self.counts / self.sizes[self.classes]

    @cached_property
    def log_ratios(self) -> Floats:
        """Log2 of the ratio between a value's share in the class and its share in the table."""
        return np.log2(self.shares * (self.records / self.totals[self.codes]))

    @cached_property
    def divergences(self) -> Floats:
        """Kullback-Leibler divergence of each class from the table, in bits."""
        return self.sum_by_class(self.shares * self.log_ratios)

    def sum_by_class(self, amounts: Floats) -> Floats:
        """Add up amounts per pair within each class."""
        sums = np.bincount(self.classes, weights=amounts, minlength=len(self.sizes))
        return sums.astype(np.float64)


def count_values(classes: Integers, codes: Integers, *, ordered: bool) -> ClassCounts:
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

    Examples
    --------
    >>> counts = count_values(np.array([0, 0, 7, 7]), np.array([0, 1, 1, 1]), ordered=False)
    >>> counts.distinct, counts.counts
    (array([2, 1]), array([1, 1, 2]))
    """
    classes = combine(np.zeros(len(classes), dtype=np.int64), classes)
    sizes = np.bincount(classes).astype(np.int64)
    totals = np.bincount(codes).astype(np.int64)
    keys, counts = np.unique(classes * len(totals) + codes, return_counts=True)
    class_of, code_of = np.divmod(keys, max(1, len(totals)))
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
    """A published confidential column and the class of each record (numbered without gaps)."""

    column: Column
    values: Values
    classes: Integers

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
        """How often each value occurs in each class."""
        codes = number_values(sort_by_order(self.column, self.values))
        return count_values(self.classes, codes, ordered=is_ordered(self.column))

    @cached_property
    def homogeneous_sizes(self) -> Integers:
        """Sizes of the classes in which all records share one value."""
        alone: Mask = self.counts.distinct == 1
        return self.counts.sizes[alone]

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
    released: Table, schema: Schema, classes: Integers
) -> tuple[ConfidentialColumn, ...]:
    """Return the published confidential columns; none for a release without records."""
    numbered = combine(np.zeros(len(classes), dtype=np.int64), classes)
    return tuple(
        ConfidentialColumn(column, released.columns[column.name], numbered)
        for column in schema.confidential
        if column.name in released.columns and released.rows
    )


def is_ordered(column: Column) -> bool:
    """Return whether the values are compared by their order; true for unresolved columns."""
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


# ------------------------------------------------------------------------------------- measures


@measure(
    "l_diversity",
    label="Distinct l-diversity",
    unit="values",
    lower_is_better=False,
    section="disclosure",
    scope="confidential",
    per_class="worst",
    exact=True,
    meaning="Fewest distinct confidential values in any class. If it is 1, at least one class "
    "reveals the confidential value of everyone in it.",
    headline="Fewest distinct confidential values in any class; 1 reveals the value.",
)
def l_diversity(counts: ClassCounts) -> Integers:
    return counts.distinct


@measure(
    "p_sensitivity",
    label="p-sensitivity",
    unit="values",
    lower_is_better=False,
    section="disclosure",
    scope="confidential",
    per_class="worst",
    exact=True,
    meaning="Fewest distinct confidential values in any class: the same number as distinct "
    "l-diversity, under its other name in the literature.",
)
def p_sensitivity(counts: ClassCounts) -> Integers:
    return counts.distinct


@measure(
    "l_entropy",
    label="Entropy l-diversity",
    unit="values",
    lower_is_better=False,
    section="disclosure",
    scope="confidential",
    per_class="worst",
    exact=True,
    meaning="Effective number of confidential values in the least diverse class: the number of "
    "equally frequent values that would be as diverse (exponential of the entropy).",
)
def l_entropy(counts: ClassCounts) -> Floats:
    return np.exp(-counts.sum_by_class(counts.shares * np.log(counts.shares)))


def recursive_diversity(counts: ClassCounts, c: float) -> Integers:
    """Return for each class the largest l with r_1 < c (r_l + ... + r_m), at least 1.

    r are the counts of the class in descending order. The right-hand side decreases with l, so the
    largest l equals the number of values of l that satisfy the inequality.
    """
    most = int(counts.counts.max())
    keys = counts.classes * (most + 1) + (most - counts.counts)
    descending = most - np.sort(keys) % (most + 1)
    remaining = np.cumsum(counts.sizes)[counts.classes] - np.cumsum(descending) + descending
    holds = c * remaining > descending[counts.starts][counts.classes]
    levels = np.bincount(counts.classes[holds], minlength=len(counts.sizes))
    return np.maximum(1, levels).astype(np.int64)


@measure(
    "l_recursive",
    label="Recursive l-diversity",
    unit="values",
    lower_is_better=False,
    section="disclosure",
    scope="confidential",
    per_class="worst",
    exact=True,
    meaning="Largest l such that in every class the most frequent confidential value occurs less "
    "than 3 times as often as the l-th most frequent and all rarer values together (recursive "
    "(3, l)-diversity); at least 1.",
)
def l_recursive(counts: ClassCounts) -> Integers:
    return recursive_diversity(counts, _RECURSIVE_C)


@measure(
    "diversity_average",
    label="Average diversity",
    unit="values",
    lower_is_better=False,
    section="disclosure",
    exact=True,
    meaning="Number of distinct values of the least diverse confidential column in a class, "
    "averaged over classes. Numbers are grouped into intervals of 0.2 standard deviations.",
)
def diversity_average(evidence: "Evidence") -> float | None:
    return average_diversity(evidence.confidential)


def average_diversity(columns: Sequence[ConfidentialColumn]) -> float | None:
    """Average the fewest distinct values of any column over classes; None without columns."""
    if not columns:
        return None
    distinct = []
    for column in columns:
        pairs = combine(column.classes, column.intervals)
        distinct.append(np.bincount(_class_of_pairs(pairs, column.classes)))
    return float(np.minimum.reduce(distinct).mean())


@measure(
    "t_closeness",
    label="t-closeness",
    unit="distance",
    section="disclosure",
    scope="confidential",
    per_class="worst",
    exact=True,
    meaning="Largest distance between the distribution of a confidential column in a class and in "
    "the whole table (earth mover's distance): 0 if every class looks like the table, at most 1.",
    headline="Largest distance of a class from the whole table: 0 identical, 1 disjoint.",
    detail=lambda counts: f"The values are {'ordered' if counts.ordered else 'unordered'}.",
)
def t_closeness(counts: ClassCounts) -> Floats:
    return _ordered_distances(counts) if counts.ordered else _nominal_distances(counts)


def _nominal_distances(counts: ClassCounts) -> Floats:
    """Return sum |p_c - p| / 2 for each class: the excess of p_c over p, so only values in c."""
    excess = counts.shares - counts.totals[counts.codes] / counts.records
    return counts.sum_by_class(np.maximum(excess, 0))


def _ordered_distances(counts: ClassCounts) -> Floats:
    """Return sum |F_c - F| / (v - 1) for each class, F the cumulative shares of the v values.

    F_c is constant between two consecutive values of the class, where F increases: F lies below F_c
    up to a position found by one search, and above it from there on. Prefix sums of F give both
    parts. F is counted in records, so that it is an integer.
    """
    last = len(counts.totals) - 1
    if not last:
        return np.zeros(len(counts.sizes))
    cumulative = np.cumsum(counts.totals)
    sums = np.concatenate(([0], np.cumsum(cumulative)))
    level = _cumulative_counts(counts) * counts.records / counts.sizes[counts.classes]
    first = counts.codes
    end = _next_codes(counts)
    middle = np.clip(np.searchsorted(cumulative, level), first, end)
    below = level * (middle - first) - (sums[middle] - sums[first])
    above = (sums[end] - sums[middle]) - level * (end - middle)
    before = sums[counts.codes[counts.starts]]
    return (counts.sum_by_class(below + above) + before) / (counts.records * last)


def _cumulative_counts(counts: ClassCounts) -> Integers:
    """Return the number of records of the class with the value of the pair or a lower one."""
    preceding = np.cumsum(counts.sizes) - counts.sizes
    return np.cumsum(counts.counts) - preceding[counts.classes]


def _next_codes(counts: ClassCounts) -> Integers:
    """Return the next value in the class of each pair; after the last, the number of values."""
    following = np.append(counts.codes[1:], 0)
    following[counts.starts + counts.distinct - 1] = len(counts.totals)
    return following


@measure(
    "t_kullback",
    label="Largest divergence",
    unit="bits",
    section="disclosure",
    scope="confidential",
    per_class="worst",
    exact=True,
    meaning="Largest Kullback-Leibler divergence between the distribution of a confidential column "
    "in a class and in the whole table.",
)
def t_kullback(counts: ClassCounts) -> Floats:
    return counts.divergences


def _classes_lacking_values(counts: ClassCounts) -> str:
    lacking = int((counts.distinct < len(counts.totals)).sum())
    return f"{lacking:,} of {len(counts.sizes):,} classes lack at least one value."


@measure(
    "delta_disclosure",
    label="δ-disclosure",
    unit="bits",
    section="disclosure",
    scope="confidential",
    per_class="worst",
    exact=True,
    meaning="Largest |log2(share in the class / share in the table)| of a confidential value that "
    "occurs in the class. Values that a class lacks are ignored; the strict definition makes them "
    "infinite.",
    detail=_classes_lacking_values,
)
def delta_disclosure(counts: ClassCounts) -> Floats:
    return np.maximum.reduceat(np.abs(counts.log_ratios), counts.starts)


@measure(
    "disclosed_bits",
    label="Information disclosed on average",
    unit="bits",
    section="disclosure",
    scope="confidential",
    exact=True,
    meaning="How much a person's class reveals about their confidential value, on average (mutual "
    "information).",
    headline="How much a person's class reveals about their confidential value, on average.",
)
def disclosed_bits(column: ConfidentialColumn) -> float:
    counts = column.counts
    return tidy(np.average(counts.divergences, weights=counts.sizes))


@measure(
    "homogeneous_classes",
    label="Homogeneous classes",
    unit="classes",
    section="disclosure",
    scope="confidential",
    per_class="sum",
    exact=True,
    meaning="Number of classes in which all records share one confidential value.",
)
def homogeneous_classes(counts: ClassCounts) -> Integers:
    alone: Mask = counts.distinct == 1
    return alone.astype(np.int64)


@measure(
    "homogeneous_records",
    label="Records in homogeneous classes",
    unit="records",
    section="disclosure",
    scope="confidential",
    per_class="sum",
    exact=True,
    meaning="Number of records whose confidential value is revealed by their class, because all "
    "records of the class share it.",
    headline="Number of records whose class alone reveals their confidential value.",
)
def homogeneous_records(counts: ClassCounts) -> Integers:
    sizes: Integers = np.where(counts.distinct == 1, counts.sizes, 0)
    return sizes
