"""Dependence: what the classes of the published table still tell of the confidential columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from microcell.auditing.anonymity import combine
from microcell.auditing.disclosure import in_order
from microcell.auditing.losses import Loss
from microcell.auditing.quantities import ORDERED, as_quantity, standardize
from microcell.model import Column, Floats, Integers, Mask, Measure, Schema, Table, Values

__all__ = ["measure_dependence"]

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
    return (*_losses([item for item in columns if item.loss.whole > 0]), *_diversities(columns, classes))


def _read(column: Column, values: Values, classes: Integers) -> _Confidential:
    if column.kind == "ordinal" or (column.kind in ORDERED and (values.is_number or values.is_time)):
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
    meaning = (
        "What is lost of the confidential columns if a record's class is all that is known of it, from 0 to 1: D_Y."
    )
    single = "What is lost of {name} if a record's class is all that is known of it, from 0 to 1."
    return (
        Measure("dependence_loss", average, "share", True, meaning),
        *(
            Measure(f"dependence_loss.{name}", item.loss.share, "share", True, single.format(name=name))
            for item in columns
            for name in (item.column.name,)
        ),
    )


def _diversities(columns: Sequence[_Confidential], classes: Integers) -> Sequence[Measure]:
    if not columns:
        return ()
    distinct = [np.bincount(_class_of(pairs, classes)) for pairs in (combine(classes, c.codes) for c in columns)]
    average = float(np.minimum.reduce(distinct).mean())
    meaning = (
        "Distinct values, in steps of 0.2 deviations, of the least diverse confidential column in a class, on average "
        "over classes: l_avg."
    )
    return (Measure("diversity_average", average, "values", False, meaning),)
