"""Dependence: what the classes of the published table still tell of the confidential columns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.errors import DataError, OptionError
from microcell.measures.pairs import ORDERED, Loss, as_quantity, standardize
from microcell.measures.risk import class_labels, combine
from microcell.model import Column, Floats, Integers, Mask, Measure, Schema, Table, Values

__all__ = [
    "Pairs",
    "class_values",
    "in_order",
    "list_homogeneous",
    "make_pairs",
    "measure_dependence",
    "measure_disclosure",
    "number_values",
    "tidy",
    "worst_of",
]

_DECIMALS = 12
"""Results are rounded to this many, so that four equal shares make an l of 4 and not of 3.9999999999999996."""


@dataclass(frozen=True)
class _Kind:
    """What is measured: in which unit, which way is better, and what it means for the column {name}."""

    unit: str
    lower_is_better: bool
    meaning: str


_KINDS: Mapping[str, _Kind] = {
    "p_sensitivity": _Kind(
        "values", False, "Distinct values of {name} in the class with the fewest: p-sensitivity."
    ),
    "l_diversity": _Kind(
        "values",
        False,
        "Distinct values of {name} in the class with the fewest: distinct l-diversity.",
    ),
    "l_entropy": _Kind(
        "values",
        False,
        "Number of equally frequent values that would be as diverse as {name} in the least diverse class, "
        "exp(entropy): entropy l-diversity.",
    ),
    "l_recursive": _Kind(
        "values",
        False,
        "Largest l so that in each class the most frequent value of {name} occurs less than {c:g} times as often as "
        "the l-th and all rarer ones together, at least 1: recursive ({c:g}, l)-diversity.",
    ),
    "t_closeness": _Kind(
        "distance",
        True,
        "Largest earth mover's distance ({ground}) between {name} in a class and in the table, "
        "from 0, the same distribution, to 1.",
    ),
    "t_kullback": _Kind(
        "bits",
        True,
        "Largest Kullback-Leibler divergence of {name} in a class from {name} in the table.",
    ),
    "delta_disclosure": _Kind(
        "bits",
        True,
        "Largest |log2(share in the class / share in the table)| of a value of {name} that occurs in the class; "
        "{lacking} of {classes} classes lack some value, which the strict definition counts as infinite.",
    ),
    "disclosed_bits": _Kind(
        "bits",
        True,
        "What the class of a record tells of its {name} on average: their mutual information.",
    ),
    "homogeneous_classes": _Kind(
        "classes", True, "Classes in which all records have the same {name}."
    ),
    "homogeneous_records": _Kind(
        "records", True, "Records in classes in which all records have the same {name}."
    ),
}
"""The measures of a confidential column, in the order in which they are told."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of a class and a value that occur, sorted by class and then by value, and how often each does.

    ``sizes`` has an entry a class and ``totals`` one a value of the table, in order; neither holds a 0.
    """

    classes: Integers
    codes: Integers
    counts: Integers
    sizes: Integers
    totals: Integers

    @cached_property
    def records(self) -> int:
        """The number of records."""
        return int(self.sizes.sum())

    @cached_property
    def distinct(self) -> Integers:
        """The number of distinct values in each class."""
        return np.bincount(self.classes, minlength=len(self.sizes)).astype(np.int64)

    @cached_property
    def starts(self) -> Integers:
        """The first pair of each class."""
        return np.cumsum(self.distinct) - self.distinct

    @cached_property
    def shares(self) -> Floats:
        """The share of its class that each pair has."""
        return self.counts / self.sizes[self.classes]

    @cached_property
    def ratios(self) -> Floats:
        """The share in the class over that in the table, in bits: log2(p_class(v) / p(v)) of each pair."""
        return np.log2(self.shares * (self.records / self.totals[self.codes]))

    def per_class(self, amounts: Floats) -> Floats:
        """The sum of the pairs' amounts in each class."""
        return np.bincount(self.classes, weights=amounts, minlength=len(self.sizes)).astype(
            np.float64
        )


def measure_disclosure(
    classes: Integers, values: Values, name: str, *, ordered: bool, c: float = 3
) -> tuple[Measure, ...]:
    """What classes disclose of one confidential column, at worst over classes; none for a table without records.

    With p the shares of the values in the table and p_c those in class c: the least number of values (p-sensitivity,
    Truta and Vinay 2006; distinct l-diversity), min exp(-sum p_c ln p_c) and the recursive (c, l) of Machanavajjhala
    et al. (2007); max EMD(p_c, p) (t-closeness, Li et al. 2007); max sum p_c log2(p_c / p) (Rebollo-Monedero et al.
    2010) and its mean over records, the mutual information; max |log2(p_c / p)| where p_c > 0 (Brickell and
    Shmatikov 2008). Time O(rows log rows), memory O(rows).

    Parameters
    ----------
    classes
        The class of each row, 0 or more.
    name
        The column's name; each measure's name ends in ``.{name}``.
    ordered
        True for numbers, dates and ordinal columns: values are a step apart from the next that occurs, in the order
        of their data (text: of its categories), a missing value before them all. Otherwise any two differ by 1.
    c
        The constant of recursive diversity, above 0.

    Examples
    --------
    >>> salary = Values("integer", np.array([3, 4, 5, 6, 8, 11, 7, 9, 10]), np.zeros(9, dtype=bool))
    >>> found = measure_disclosure(np.repeat([0, 1, 2], 3), salary, "salary", ordered=True)
    >>> {measure.name: measure.value for measure in found if measure.name.startswith(("l_d", "t_c"))}
    {'l_diversity.salary': 3, 't_closeness.salary': 0.375}
    """
    if not c > 0:
        raise OptionError(f"The constant c of recursive diversity must be above 0, not {c}.")
    if not len(classes):
        return ()
    pairs = make_pairs(classes, number_values(values))
    each = {base: class_values(base, pairs, ordered=ordered, c=c) for base in _OF_CLASSES}
    found: Mapping[str, float] = {
        "p_sensitivity": int(each["p_sensitivity"].min()),
        "l_diversity": int(each["l_diversity"].min()),
        "l_entropy": tidy(each["l_entropy"].min()),
        "l_recursive": int(each["l_recursive"].min()),
        "t_closeness": tidy(each["t_closeness"].max()),
        "t_kullback": tidy(each["t_kullback"].max()),
        "delta_disclosure": tidy(each["delta_disclosure"].max()),
        "disclosed_bits": tidy(np.average(each["t_kullback"], weights=pairs.sizes)),
        "homogeneous_classes": int(each["homogeneous_classes"].sum()),
        "homogeneous_records": int(each["homogeneous_records"].sum()),
    }
    words = {
        "name": name,
        "c": c,
        "ground": "ordered values" if ordered else "unordered values",
        "lacking": int((pairs.distinct < len(pairs.totals)).sum()),
        "classes": len(pairs.sizes),
    }
    return tuple(
        Measure(
            f"{base}.{name}",
            found[base],
            kind.unit,
            kind.lower_is_better,
            kind.meaning.format(**words),
        )
        for base, kind in _KINDS.items()
    )


def class_values(base: str, pairs: Pairs, *, ordered: bool, c: float = 3) -> NDArray[Any]:
    """What each class on its own has of a measure: its values' number, entropy, distance from the table and so on.

    ``base`` is the measure's name without the column's. The measure of a table is the worst over its classes, or, for
    the homogeneous ones (1 and the class's records where all agree, else 0), the sum. ``disclosed_bits``, which is of
    all classes together, is not among them. Not rounded: see :func:`tidy`.

    Examples
    --------
    >>> pairs = make_pairs(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]))
    >>> class_values("l_diversity", pairs, ordered=False), class_values("t_closeness", pairs, ordered=False)
    (array([2, 1]), array([0.25, 0.25]))
    """
    return _OF_CLASSES[base](pairs, ordered, c)


def in_order(column: Column, values: Values) -> Values:
    """The column's values as they are ordered: the ranks of its categories if the schema gives their order.

    Raises :class:`DataError` for a category that is not in the order.

    Examples
    --------
    >>> pain = Values("text", np.array([1, 0, 1]), np.zeros(3, dtype=bool), categories=("mild", "none"))
    >>> in_order(Column("pain", kind="ordinal", order=("none", "mild")), pain).data
    array([0, 1, 0])
    """
    if column.order is None:
        return values
    ranks = values.ranks(column.order)
    strange = (ranks < 0) & ~values.missing
    if strange.any():
        raise DataError(
            f"Column {column.name!r} holds a category that is not in its order, first in row "
            f"{int(np.argmax(strange)) + 1}. Add it to the order."
        )
    return Values("integer", ranks, values.missing)


def list_homogeneous(classes: Integers, values: Values) -> Integers:
    """The sizes n_c of the classes in which all records have the same value, a missing one being a value too.

    Examples
    --------
    >>> disease = Values("text", np.array([0, 0, 0, 1, 1]), np.zeros(5, dtype=bool), categories=("flu", "ulcer"))
    >>> list_homogeneous(np.array([0, 0, 1, 1, 2]), disease)
    array([2, 1])
    """
    pairs = make_pairs(classes, number_values(values))
    alone: Mask = pairs.distinct == 1
    return pairs.sizes[alone]


def worst_of(columns: Iterable[Iterable[Measure]]) -> tuple[Measure, ...]:
    """Each measure at its worst over the columns, its name without the column's: least l, largest t and bits.

    The meaning says which column it is; of equals, the first.

    Parameters
    ----------
    columns
        What :func:`measure_disclosure` found, column by column.

    Examples
    --------
    >>> classes, known = np.array([0, 0, 1, 1]), np.zeros(4, dtype=bool)
    >>> age = measure_disclosure(classes, Values("integer", np.array([1, 2, 3, 4]), known), "age", ordered=True)
    >>> pay = measure_disclosure(classes, Values("integer", np.array([1, 1, 1, 2]), known), "pay", ordered=True)
    >>> worst_of([age, pay])[1]
    Measure(name='l_diversity', value=1, unit='values', lower_is_better=False, meaning='Distinct values of pay in the
    class with the fewest: distinct l-diversity; the worst column is pay.', interval=None)
    """
    found: dict[str, list[Measure]] = {}
    for column in columns:
        for measure in column:
            found.setdefault(measure.name.partition(".")[0], []).append(measure)
    return tuple(_worst(base, measures) for base, measures in found.items())


def _worst(base: str, measures: list[Measure]) -> Measure:
    sign = -1 if measures[0].lower_is_better else 1
    worst = min(measures, key=lambda measure: sign * measure.value)
    column = worst.name.partition(".")[2]
    return replace(
        worst,
        name=base,
        meaning=f"{worst.meaning.removesuffix('.')}; the worst column is {column}.",
    )


def number_values(values: Values) -> Integers:
    """The number 0, 1, 2, ... of each row's value, in the order of the values, a missing one before them all.

    Examples
    --------
    >>> number_values(Values("integer", np.array([30, 0, 41, 30]), np.array([False, True, False, False])))
    array([1, 0, 2, 1])
    """
    # A column on its own makes classes of equal values.
    return class_labels(Table({"": values}, rows=len(values), native=None), [""])


def make_pairs(classes: Integers, codes: Integers) -> Pairs:
    """The pairs that occur of a class, 0 or more, and a value, numbered without gaps; classes are numbered anew."""
    classes = combine(np.zeros(len(classes), dtype=np.int64), classes)
    sizes, totals = np.bincount(classes).astype(np.int64), np.bincount(codes).astype(np.int64)
    keys, counts = np.unique(classes * len(totals) + codes, return_counts=True)
    places, kinds = np.divmod(keys, max(1, len(totals)))
    return Pairs(places, kinds, counts.astype(np.int64), sizes, totals)


def tidy(value: float) -> float:
    """The value without the last digits' noise, and no -0."""
    return round(float(value), _DECIMALS) + 0.0


def _entropies(pairs: Pairs) -> Floats:
    """The entropy -sum p_c ln p_c of each class."""
    return -pairs.per_class(pairs.shares * np.log(pairs.shares))


def _recursive(pairs: Pairs, c: float) -> Integers:
    """The largest l with r_1 < c (r_l + ... + r_m) of each class, r being its counts from the largest to the least.

    What is left from the l-th on falls with l, so the l of a class is the number of its l that hold. Machanavajjhala
    et al. take l = 1 as always satisfied, so it is never less.
    """
    most = int(pairs.counts.max())
    keys = pairs.classes * (most + 1) + (most - pairs.counts)
    counts = most - np.sort(keys) % (most + 1)
    left = np.cumsum(pairs.sizes)[pairs.classes] - np.cumsum(counts) + counts
    holds = c * left > counts[pairs.starts][pairs.classes]
    return np.maximum(1, np.bincount(pairs.classes[holds], minlength=len(pairs.sizes))).astype(
        np.int64
    )


def _nominal_distances(pairs: Pairs) -> Floats:
    """The distance sum |p_c - p| / 2 of each class: what p_c has more than p, hence of values in the class only."""
    excess = pairs.shares - pairs.totals[pairs.codes] / pairs.records
    return pairs.per_class(np.maximum(excess, 0))


def _ordered_distances(pairs: Pairs) -> Floats:
    """The distance sum |F_c - F| / (v - 1) of each class, F being the cumulated shares of the v sorted values.

    F_c is constant from a value of the class to the next. There F grows, is below F_c up to a place that one search
    finds and above it from there on, so prefix sums of F give both parts. Counted in records: F n is whole.
    """
    last = len(pairs.totals) - 1
    if not last:
        return np.zeros(len(pairs.sizes))
    reached = np.cumsum(pairs.totals)
    sums = np.concatenate(([0], np.cumsum(reached)))
    level = _running(pairs) * pairs.records / pairs.sizes[pairs.classes]
    first, end = pairs.codes, _following(pairs)
    middle = np.clip(np.searchsorted(reached, level), first, end)
    below = level * (middle - first) - (sums[middle] - sums[first])
    above = (sums[end] - sums[middle]) - level * (end - middle)
    before = sums[pairs.codes[pairs.starts]]
    return (pairs.per_class(below + above) + before) / (pairs.records * last)


def _running(pairs: Pairs) -> Integers:
    """The records of its class that have the pair's value or a lower one."""
    return np.cumsum(pairs.counts) - (np.cumsum(pairs.sizes) - pairs.sizes)[pairs.classes]


def _following(pairs: Pairs) -> Integers:
    """The next value in the pair's class; behind the last one, the number of values."""
    following = np.append(pairs.codes[1:], 0)
    following[pairs.starts + pairs.distinct - 1] = len(pairs.totals)
    return following


_OF_CLASSES: Mapping[str, Callable[[Pairs, bool, float], NDArray[Any]]] = {
    "p_sensitivity": lambda pairs, _ordered, _c: pairs.distinct,
    "l_diversity": lambda pairs, _ordered, _c: pairs.distinct,
    "l_entropy": lambda pairs, _ordered, _c: np.exp(_entropies(pairs)),
    "l_recursive": lambda pairs, _ordered, c: _recursive(pairs, c),
    "t_closeness": lambda pairs, ordered, _c: (
        _ordered_distances if ordered else _nominal_distances
    )(pairs),
    "t_kullback": lambda pairs, _ordered, _c: pairs.per_class(pairs.shares * pairs.ratios),
    "delta_disclosure": lambda pairs, _ordered, _c: np.maximum.reduceat(
        np.abs(pairs.ratios), pairs.starts
    ),
    "homogeneous_classes": lambda pairs, _ordered, _c: (pairs.distinct == 1).astype(np.int64),
    "homogeneous_records": lambda pairs, _ordered, _c: np.where(
        pairs.distinct == 1, pairs.sizes, 0
    ),
}
"""What each class has of a measure, by the measure's name."""


_INTERVAL = 0.2
"""Values of ordered columns within one interval of this many deviations count as the same."""

_NUDGE = 1e-9
"""A value this near below a border lies on it, so that the last digit of a mean does not decide."""


@dataclass(frozen=True, eq=False)
class _Confidential:
    """One confidential column: what its classes lose of it, and a code for each value, 0 where missing."""

    column: Column
    loss: Loss
    codes: Integers


def measure_dependence(released: Table, schema: Schema, classes: Integers) -> tuple[Measure, ...]:
    """What is lost of the confidential columns if only a record's class is known, and their diversity in classes.

    ``dependence_loss`` is D_Y, the mean of the columns' losses by the columns' weights, and ``dependence_loss.NAME``
    each: for numbers, dates and ranks SSE / SST of the values about their class's mean and about the table's; for
    categories, the probability of error of the class's most frequent value, over that of the table's. 0 if the class
    tells the value, 1 if nothing of it. Missing values are left out, infinite ones with them, and so are columns that
    do not vary.

    ``diversity_average`` is l_avg: ordered columns standardized and cut into intervals of 0.2 deviations, the distinct
    values of each column in a class, the least over columns, the mean over classes. A missing value counts as a value.

    Records count alike, whatever their weights. Time O(n log n) a column, memory O(n m).

    Parameters
    ----------
    schema
        Resolved: each confidential column has its kind. One that should hold numbers or dates and is released as text
        counts as categories.
    classes
        The class of each published row, 0 or more.

    Examples
    --------
    >>> pay = Values("integer", np.array([1, 3, 5, 7]), np.zeros(4, dtype=bool))
    >>> schema = Schema(quasi=["age"], confidential=[Column("pay", kind="numeric")])
    >>> found = measure_dependence(Table({"pay": pay}, rows=4, native=None), schema, np.array([0, 0, 1, 1]))
    >>> [(measure.name, measure.value) for measure in found]
    [('dependence_loss', 0.2), ('dependence_loss.pay', 0.2), ('diversity_average', 2.0)]
    """
    if not released.rows:
        return ()
    classes = combine(np.zeros(len(classes), dtype=np.int64), classes)
    columns = [
        _read(column, released.columns[column.name], classes)
        for column in schema.confidential
        if column.name in released.columns
    ]
    return (
        *_losses([item for item in columns if item.loss.whole > 0]),
        *_diversities(columns, classes),
    )


def _read(column: Column, values: Values, classes: Integers) -> _Confidential:
    if column.kind == "ordinal" or (
        column.kind in ORDERED and (values.is_number or values.is_time)
    ):
        return _of_quantity(column, values, classes)
    codes = values.factorize()[0].astype(np.int64) + 1
    return _Confidential(column, _lose_modes(codes, classes), codes)


def _of_quantity(column: Column, values: Values, classes: Integers) -> _Confidential:
    if column.order is not None:
        column, values = replace(column, kind="numeric", order=None), in_order(column, values)
    numbers = as_quantity(column, values)
    known: Mask = ~np.isnan(numbers)
    own = numbers[known]
    found = standardize(own, own, np.ones(len(own)))
    codes = np.zeros(len(numbers), dtype=np.int64)
    if found is None:
        codes[known] = 1
        return _Confidential(column, Loss(0.0, 0.0), codes)
    steps = np.floor(found[0] / _INTERVAL + _NUDGE).astype(np.int64)
    codes[known] = steps - steps.min() + 1
    return _Confidential(column, _lose_means(found[0], classes[known]), codes)


def _lose_means(points: Floats, classes: Integers) -> Loss:
    """Squared differences to the mean of the class, against those to the mean of the table, which is 0."""
    counts = np.bincount(classes)
    means = np.bincount(classes, weights=points) / np.maximum(counts, 1)
    whole = float(np.square(points).sum())
    # The mean of a class is the best point of it, but for the last digits.
    return Loss(min(float(np.square(points - means[classes]).sum()), whole), whole)


def _lose_modes(codes: Integers, classes: Integers) -> Loss:
    """Records that do not have their class's most frequent value, against those without the table's."""
    known: Mask = codes > 0
    codes, classes = codes[known], classes[known]
    if not len(codes):
        return Loss(0.0, 0.0)
    pairs = combine(classes, codes)
    counts = np.bincount(pairs)
    most = np.zeros(int(classes.max()) + 1, dtype=np.int64)
    np.maximum.at(most, _class_of(pairs, classes), counts)
    return Loss(float(len(codes) - most.sum()), float(len(codes) - np.bincount(codes).max()))


def _class_of(pairs: Integers, classes: Integers) -> Integers:
    """The class that each pair of a class and a value belongs to."""
    found = np.zeros(int(pairs.max()) + 1, dtype=np.int64)
    found[pairs] = classes
    return found


def _losses(columns: Sequence[_Confidential]) -> Sequence[Measure]:
    if not columns:
        return ()
    total = sum(item.column.weight for item in columns)
    average = sum(item.column.weight * item.loss.share for item in columns) / total
    meaning = "What is lost of the confidential columns if a record's class is all that is known of it, from 0 to 1: D_Y."
    single = "What is lost of {name} if a record's class is all that is known of it, from 0 to 1."
    return (
        Measure("dependence_loss", average, "share", True, meaning),
        *(
            Measure(
                f"dependence_loss.{name}", item.loss.share, "share", True, single.format(name=name)
            )
            for item in columns
            for name in (item.column.name,)
        ),
    )


def _diversities(columns: Sequence[_Confidential], classes: Integers) -> Sequence[Measure]:
    if not columns:
        return ()
    distinct = [
        np.bincount(_class_of(pairs, classes))
        for pairs in (combine(classes, c.codes) for c in columns)
    ]
    average = float(np.minimum.reduce(distinct).mean())
    meaning = (
        "Distinct values, in steps of 0.2 deviations, of the least diverse confidential column in a class, on average "
        "over classes: l_avg."
    )
    return (Measure("diversity_average", average, "values", False, meaning),)
