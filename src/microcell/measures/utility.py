"""Utility: what an analyst finds in the published table beside what the original gives."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np

from microcell.measures.pairs import (
    Loss,
    Quantities,
    Quantity,
    centre,
    lose_changes,
    lose_characters,
    lose_chords,
    lose_squares,
    read_categories,
    read_numbers,
    read_points,
    read_quantities,
    read_ranks,
    record_weights,
)
from microcell.model import (
    Column,
    Correlations,
    Floats,
    Integers,
    Mask,
    Measure,
    Quantiles,
    Schema,
    Table,
)
from microcell.progress import report

__all__ = [
    "ColumnDistortion",
    "Utility",
    "average",
    "compare_correlations",
    "compare_quantiles",
    "distort_columns",
    "measure_utility",
    "study_utility",
]


@dataclass(frozen=True, eq=False)
class ColumnDistortion:
    """What one quasi-identifier lost; ``unreadable`` counts published values that could not be compared."""

    column: Column
    loss: Loss
    unreadable: int = 0

    @property
    def importance(self) -> float:
        """The column's weight in the average: a location stands for two columns, one without differences for none."""
        if self.loss.constant:
            return 0.0
        return self.column.weight * len(self.column.parts)


@dataclass(frozen=True, eq=False)
class _Matched:
    """Two tables with their rows matched, and the weight of each published row."""

    original: Table
    released: Table
    pairs: Integers
    weights: Floats


def distort_columns(
    original: Table, released: Table, schema: Schema, *, pairs: Integers
) -> tuple[ColumnDistortion, ...]:
    """The distortion of each quasi-identifier, published row i compared with original row ``pairs[i]``."""
    matched = _Matched(original, released, pairs, record_weights(original, schema)[pairs])
    found = []
    for place, column in enumerate(schema.quasi):
        report("comparing columns", place, len(schema.quasi))
        found.append(_OF_KIND[column.kind](column, matched))
    return tuple(found)


def average(columns: Sequence[ColumnDistortion]) -> float:
    """The mean of the columns' distortions, weighted; for numbers published as means, SSE/SST of the standardized data.

    Columns that have no differences to lose are left out.
    """
    total = sum(item.importance for item in columns)
    if total == 0:
        return 0.0
    return sum(item.importance * item.loss.share for item in columns) / total


def _of_numbers(column: Column, matched: _Matched) -> ColumnDistortion:
    reading = read_numbers(
        column.name, matched.original.columns[column.name], matched.released.columns[column.name]
    )
    loss = lose_squares(reading.before[matched.pairs], reading.after, matched.weights)
    return ColumnDistortion(column, loss, reading.unreadable)


def _of_ranks(column: Column, matched: _Matched) -> ColumnDistortion:
    reading = read_ranks(
        column, matched.original.columns[column.name], matched.released.columns[column.name]
    )
    loss = lose_squares(reading.before[matched.pairs], reading.after, matched.weights)
    return ColumnDistortion(column, loss, reading.unreadable)


def _of_categories(column: Column, matched: _Matched) -> ColumnDistortion:
    reading = read_categories(
        column.name, matched.original.columns[column.name], matched.released.columns[column.name]
    )
    return ColumnDistortion(
        column, lose_changes(reading.before[matched.pairs], reading.after, matched.weights)
    )


def _of_codes(column: Column, matched: _Matched) -> ColumnDistortion:
    reading = read_categories(
        column.name, matched.original.columns[column.name], matched.released.columns[column.name]
    )
    loss = lose_characters(
        reading.before[matched.pairs], reading.after, matched.weights, names=reading.names
    )
    return ColumnDistortion(column, loss)


def _of_points(column: Column, matched: _Matched) -> ColumnDistortion:
    reading = read_points(column, matched.original, matched.released)
    return ColumnDistortion(
        column, lose_chords(reading.before[matched.pairs], reading.after, matched.weights)
    )


_OF_KIND: Mapping[str, Callable[[Column, _Matched], ColumnDistortion]] = {
    "numeric": _of_numbers,
    "datetime": _of_numbers,
    "ordinal": _of_ranks,
    "nominal": _of_categories,
    "code": _of_codes,
    "location": _of_points,
}


_SHARES = 101
"""Quantiles are taken at so many shares from 0 to 1."""

_BLOCK = 1 << 16
"""Rows whose products are added up at a time."""

_CANCELLED = 1e-3
"""A variance that is less than this share of its mean square has lost digits, and is computed anew."""


@dataclass(frozen=True, eq=False)
class Utility:
    """The measures of utility, and what the eye may see of them."""

    measures: tuple[Measure, ...]
    correlations: Correlations | None
    quantiles: tuple[Quantiles, ...]


@dataclass(frozen=True)
class _Kind:
    """What is measured: in which unit, what it means of all columns together, and of the column {name}."""

    unit: str
    together: str
    alone: str


_KINDS: Mapping[str, _Kind] = {
    "il1s": _Kind(
        "deviations",
        "Mean absolute change of a value, in sqrt(2) times its column's deviation: IL1s.",
        "Mean absolute change of {name}, in sqrt(2) times its deviation: IL1s.",
    ),
    "mean_change": _Kind(
        "deviations",
        "Largest change of a column's mean, in its deviations; the worst column is {name}.",
        "Change of the mean of {name}, in its deviations.",
    ),
    "deviation_change": _Kind(
        "share",
        "Largest change of a column's deviation, as a share of it; the worst column is {name}.",
        "Change of the deviation of {name}, as a share of it.",
    ),
}
"""The measures of each column, in the order in which they are told."""


@dataclass(frozen=True)
class _Change:
    """What became of one column, by the names of its measures."""

    name: str
    found: Mapping[str, float]


def measure_utility(
    original: Table, released: Table, schema: Schema, *, pairs: Integers
) -> tuple[Measure, ...]:
    """How much values, means, deviations and correlations changed, published row i being original row ``pairs[i]``.

    Over numeric, datetime and ordinal columns (as ranks), x before and y after, s the sample deviation, records
    weighted by the schema's weight:

    - ``il1s``: mean over quasi-identifiers of mean |x - y| / (sqrt(2) s_x), which is IL1s of sdcMicro (Yancey,
      Winkler and Creecy 2002) divided by records and columns. A row without a value before is left out; a value
      missing after counts as the mean of those before.
    - ``mean_change``, |mean y - mean x| / s_x, and ``deviation_change``, |s_y - s_x| / s_x: the largest of the
      quasi-identifiers. Each side is taken over the values that it has. If there is none after, the mean is unchanged
      and the deviation 0.
    - ``correlation_change`` and ``correlation_change_average``: the largest and the mean |r_before - r_after| over
      pairs of columns, confidential ones included, each over the records that have both.
    - ``eigenvalue_change``: sum |l_before - l_after| / sum |l_before|, l being the sorted eigenvalues of the
      correlation matrix.

    The first three come for each column too, as ``il1s.NAME``. Columns that do not vary in the original are left out,
    and a measure without columns does not come. Time O(n m^2), memory O(n m).

    Examples
    --------
    >>> from microcell.model import Column, Values
    >>> known = np.zeros(4, dtype=bool)
    >>> before = Table({"age": Values("integer", np.array([20, 22, 40, 42]), known)}, rows=4, native=None)
    >>> after = Table({"age": Values("integer", np.array([21, 21, 41, 41]), known)}, rows=4, native=None)
    >>> schema = Schema(quasi=[Column("age", kind="numeric")])
    >>> found = measure_utility(before, after, schema, pairs=np.arange(4))
    >>> [(measure.name, round(measure.value, 4)) for measure in found[:3]]
    [('il1s', 0.0609), ('mean_change', 0.0), ('deviation_change', 0.005)]
    """
    quantities = read_quantities(original, released, schema, pairs=pairs)
    return _measures(quantities, compare_correlations(quantities))


def study_utility(original: Table, released: Table, schema: Schema, *, pairs: Integers) -> Utility:
    """What :func:`measure_utility` finds, and correlations and quantiles for the eye, with the columns read once."""
    quantities = read_quantities(original, released, schema, pairs=pairs)
    correlations = compare_correlations(quantities)
    return Utility(_measures(quantities, correlations), correlations, compare_quantiles(quantities))


def _measures(quantities: Quantities, correlations: Correlations | None) -> tuple[Measure, ...]:
    changes = [
        change
        for column in quantities.columns
        if column.quasi and (change := _change(column, quantities.weights)) is not None
    ]
    return (*_together(changes), *_of_correlations(correlations), *_alone(changes))


# ---------------------------------------------------------------------------------------------- columns


def _change(column: Quantity, weights: Floats) -> _Change | None:
    """What became of a column; None if it does not vary in the original."""
    known: Mask = ~np.isnan(column.before) & (weights > 0)
    own = weights[known]
    both = centre(column.before[known], column.after, own)
    if both.constant:
        return None
    mean, spread = _moments(both.before, own)
    if spread == 0:
        return None
    published: Mask = ~np.isnan(both.after) & (weights > 0)
    mean_after, spread_after = _moments(both.after[published], weights[published])
    step = np.abs(both.before - np.nan_to_num(both.after[known], nan=mean))
    return _Change(
        column.name,
        {
            "il1s": float(np.average(step, weights=own)) / (sqrt(2) * spread),
            "mean_change": abs(mean_after - mean) / spread if published.any() else 0.0,
            "deviation_change": abs(spread_after - spread) / spread,
        },
    )


def _moments(numbers: Floats, weights: Floats) -> tuple[float, float]:
    """The weighted mean and the sample deviation; 0 of less than two numbers."""
    if not len(numbers):
        return 0.0, 0.0
    mean = float(np.average(numbers, weights=weights))
    variance = float(np.average(np.square(numbers - mean), weights=weights))
    return mean, sqrt(variance * len(numbers) / max(len(numbers) - 1, 1))


def _together(changes: Sequence[_Change]) -> Iterator[Measure]:
    if not changes:
        return
    average = sum(change.found["il1s"] for change in changes) / len(changes)
    yield Measure("il1s", average, _KINDS["il1s"].unit, True, _KINDS["il1s"].together)
    for base in ("mean_change", "deviation_change"):
        worst = max(changes, key=lambda change: change.found[base])
        meaning = _KINDS[base].together.format(name=worst.name)
        yield Measure(base, worst.found[base], _KINDS[base].unit, True, meaning)


def _alone(changes: Sequence[_Change]) -> Iterator[Measure]:
    for base, kind in _KINDS.items():
        for change in changes:
            meaning = kind.alone.format(name=change.name)
            yield Measure(f"{base}.{change.name}", change.found[base], kind.unit, True, meaning)


# ---------------------------------------------------------------------------------------------- correlations


def compare_correlations(quantities: Quantities) -> Correlations | None:
    """The correlations of the columns that vary in the original, before and after; None of fewer than two columns.

    Each is taken over the records that have both values and a weight, and is 0 if one of the two does not vary
    among them.

    Examples
    --------
    >>> x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.5, 1.5, 3.5, 3.5])
    >>> columns = (Quantity("x", True, x, y), Quantity("pay", False, x, x))
    >>> compare_correlations(Quantities(columns, np.ones(4))).after.round(4)
    array([[1.    , 0.8944],
           [0.8944, 1.    ]])
    """
    weights = quantities.weights
    columns = [column for column in quantities.columns if _unit(column.before, weights) is not None]
    if len(columns) < 2:
        return None
    return Correlations(
        names=tuple(column.name for column in columns),
        before=_correlate([column.before for column in columns], weights),
        after=_correlate([column.after for column in columns], weights),
    )


def _of_correlations(correlations: Correlations | None) -> Iterator[Measure]:
    if correlations is None:
        return
    above = np.triu_indices(len(correlations.names), 1)
    changes = np.abs(correlations.before - correlations.after)[above]
    at = int(changes.argmax())
    names = " and ".join(correlations.names[place[at]] for place in above)
    meaning = f"Largest change of a correlation between two columns: that of {names}."
    yield Measure("correlation_change", float(changes[at]), "correlation", True, meaning)
    meaning = "Mean absolute change of the correlation between two columns."
    yield Measure("correlation_change_average", float(changes.mean()), "correlation", True, meaning)
    before, after = np.linalg.eigvalsh(correlations.before), np.linalg.eigvalsh(correlations.after)
    meaning = "Change of the eigenvalues of the correlation matrix, as a share of their sum."
    change = float(np.abs(before - after).sum() / np.abs(before).sum())
    yield Measure("eigenvalue_change", change, "share", True, meaning)


def _unit(numbers: Floats, weights: Floats) -> Floats | None:
    """The numbers about their mean and at deviation 1, NaN where missing or without weight; None if they are alike."""
    known: Mask = ~np.isnan(numbers) & (weights > 0)
    own = weights[known]
    centred = centre(numbers[known], numbers[:0], own)
    deviation = (
        0.0 if centred.constant else sqrt(np.average(np.square(centred.before), weights=own))
    )
    if deviation == 0:
        return None
    if known.all():
        return centred.before / deviation
    found: Floats = np.full(len(numbers), np.nan)
    found[known] = centred.before / deviation
    return found


def _correlate(columns: Sequence[Floats], weights: Floats) -> Floats:
    """The correlation of each two columns over the records that have both.

    With z standardized and m the indicator of a value, sums of w z z, w z m, w z z m and w m m of all pairs are
    products of matrices, added up over blocks of rows. Where a column hardly varies among the records that it shares
    with another one, digits cancel, and the pair is computed on its own.
    """
    units = [_unit(numbers, weights) for numbers in columns]
    count = len(columns)
    crossed, sums, squares, shared = (np.zeros((count, count)) for _ in range(4))
    for start in range(0, len(weights), _BLOCK):
        rows = slice(start, start + _BLOCK)
        Z = np.array(
            [np.full(len(weights[rows]), np.nan) if unit is None else unit[rows] for unit in units]
        )
        known = (~np.isnan(Z)).astype(np.float64)
        weighted = known * weights[rows]
        Z = np.nan_to_num(Z, copy=False)
        crossed += (Z * weights[rows]) @ Z.T
        sums += Z @ weighted.T
        squares += np.square(Z) @ weighted.T
        shared += known @ weighted.T
    shared = np.where(shared > 0, shared, 1.0)
    means, squares = sums / shared, squares / shared
    variances = squares - np.square(means)
    sound = variances > _CANCELLED * squares
    found = np.eye(count)
    for one, two in combinations(range(count), 2):
        if units[one] is None or units[two] is None:
            continue
        if sound[one, two] and sound[two, one]:
            covariance = crossed[one, two] / shared[one, two] - means[one, two] * means[two, one]
            value = covariance / sqrt(variances[one, two] * variances[two, one])
        else:
            value = _correlate_alone(columns[one], columns[two], weights)
        found[one, two] = found[two, one] = min(1.0, max(-1.0, value))
    return found


def _correlate_alone(one: Floats, two: Floats, weights: Floats) -> float:
    both: Mask = ~np.isnan(one) & ~np.isnan(two) & (weights > 0)
    first, second = _unit(one[both], weights[both]), _unit(two[both], weights[both])
    if first is None or second is None:
        return 0.0
    return float(np.average(first * second, weights=weights[both]))


# ---------------------------------------------------------------------------------------------- quantiles


def compare_quantiles(quantities: Quantities) -> tuple[Quantiles, ...]:
    """The quantiles of each ordered quasi-identifier, before and after, at 101 shares from 0 to 1.

    They are of records, whatever their weights, between two values as a straight line runs, and on the axis of the
    column's comparison: ranks from 0 for ordinal columns. None of a column without values on either side. They tell
    values of the original, so they are as confidential as it is.

    Examples
    --------
    >>> x, y = np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.5, 1.5, 4.0, 4.0])
    >>> ages = compare_quantiles(Quantities((Quantity("age", True, x, y),), np.ones(4)))[0]
    >>> ages.before[[0, 50, 100]], ages.after[[0, 50, 100]]
    (array([1. , 2.5, 5. ]), array([1.5 , 2.75, 4.  ]))
    """
    shares = np.linspace(0, 1, _SHARES)
    found = []
    for column in quantities.columns:
        if column.quasi and not (np.isnan(column.before).all() or np.isnan(column.after).all()):
            before, after = (
                (_quantiles(side, shares) + column.origin) * column.step
                for side in (column.before, column.after)
            )
            found.append(Quantiles(column.name, shares, before, after, column.unit))
    return tuple(found)


def _quantiles(numbers: Floats, shares: Floats) -> Floats:
    ordered = np.sort(numbers[~np.isnan(numbers)])
    place = shares * (len(ordered) - 1)
    below = np.floor(place).astype(np.int64)
    low, high = ordered[below], ordered[np.minimum(below + 1, len(ordered) - 1)]
    # A mean of two values, and not a step added to one, so that the widest floats do not overflow.
    mixed = np.clip(low * (1 - (place - below)) + high * (place - below), low, high)
    return np.maximum.accumulate(mixed)
