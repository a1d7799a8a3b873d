"""Attribute disclosure: what the class of a record reveals about its confidential values.

With p the shares of a column's values in the table and p_c those in class c, the measures are: the
fewest distinct values in a class (p-sensitivity, Truta and Vinay 2006; distinct l-diversity),
min exp(-sum p_c ln p_c) and recursive (c, l)-diversity (Machanavajjhala et al. 2007);
max EMD(p_c, p) (t-closeness, Li et al. 2007); max sum p_c log2(p_c / p) (Rebollo-Monedero et al.
2010) and its mean over records, the mutual information; and max |log2(p_c / p)| where p_c > 0
(Brickell and Shmatikov 2008).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from microcell.measures.confidential import ClassCounts, ConfidentialColumn, tidy
from microcell.measures.registry import measure
from microcell.model import Floats, Integers

if TYPE_CHECKING:
    from microcell.measures.evidence import Evidence

__all__ = ["average_diversity", "recursive_diversity"]

_RECURSIVE_C = 3.0
"""The constant c of recursive (c, l)-diversity."""


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
    "reveals a confidential value of everyone in it. Where people have several records, a class "
    "in which everyone has the same value among others counts as 1.",
    headline="Fewest distinct confidential values in any class; 1 reveals the value.",
)
def l_diversity(counts: ClassCounts) -> Integers:
    return counts.diversity


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
    return counts.diversity


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
    remaining = np.cumsum(counts.masses)[counts.classes] - np.cumsum(descending) + descending
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
    """Return the fewest distinct values in any column, averaged over classes; None without columns.

    A column that is constant in the whole table reveals nothing about anyone; it is left out,
    unless all columns are constant.
    """
    if not columns:
        return None
    varying = [column for column in columns if column.prediction_loss.baseline > 0]
    distinct = [column.distinct_intervals for column in varying or columns]
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
    """Return sum |p_c - p| / 2 for each class, which equals the sum of the positive p_c - p."""
    excess = counts.shares - counts.totals[counts.codes] / counts.total
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
    level = _cumulative_counts(counts) * counts.total / counts.masses[counts.classes]
    first = counts.codes
    end = _next_codes(counts)
    middle = np.clip(np.searchsorted(cumulative, level), first, end)
    below = level * (middle - first) - (sums[middle] - sums[first])
    above = (sums[end] - sums[middle]) - level * (end - middle)
    before = sums[counts.codes[counts.starts]]
    return (counts.sum_by_class(below + above) + before) / (counts.total * last)


def _cumulative_counts(counts: ClassCounts) -> Integers:
    """Return how many people of the class have the value of the pair or a lower one."""
    preceding = np.cumsum(counts.masses) - counts.masses
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
    meaning="Number of classes in which everyone shares one confidential value.",
)
def homogeneous_classes(counts: ClassCounts) -> Integers:
    return counts.shared.astype(np.int64)


def _people_revealed(column: ConfidentialColumn) -> int:
    return column.homogeneous_people


@measure(
    "homogeneous_records",
    label="People in homogeneous classes",
    unit="records",
    counts_people=True,
    section="disclosure",
    scope="confidential",
    per_class="sum",
    total=_people_revealed,
    exact=True,
    meaning="Number of people whose confidential value is revealed by their class, because "
    "everyone in the class shares it (of records, unless the schema names a person column).",
    headline="Number of people whose class alone reveals their confidential value.",
)
def homogeneous_records(counts: ClassCounts) -> Integers:
    sizes: Integers = np.where(counts.shared, counts.sizes, 0)
    return sizes
