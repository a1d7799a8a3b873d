"""Utility: how much an analysis of the published table differs from one of the original.

Over numeric, datetime and ordinal columns (as ranks), x before and y after, s the sample standard
deviation, with records weighted by the schema's weight column:

- ``il1s``: mean over quasi-identifiers of mean |x - y| / (sqrt(2) s_x), which is the IL1s of
  sdcMicro (Yancey, Winkler and Creecy 2002) divided by records and columns. Rows without an
  original value are left out; a missing published value counts as the original mean.
- ``mean_change``, |mean y - mean x| / s_x, and ``deviation_change``, |s_y - s_x| / s_x: the largest
  over the quasi-identifiers, each side over the values that it has. If nothing is published, the
  mean is unchanged and the deviation is 0.
- ``correlation_change`` and ``correlation_change_average``: the largest and the mean
  |r_before - r_after| over pairs of columns, confidential ones included, each over the records that
  have both values.
- ``eigenvalue_change``: sum |l_before - l_after| / sum |l_before|, with l the sorted eigenvalues of
  the correlation matrix.

Columns that are constant in the original are left out. Time O(n m^2), memory O(n m).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from microcell.kinds.losses import Loss, centre, standardize
from microcell.kinds.pairs import Quantity
from microcell.measures.confidential import ConfidentialColumn
from microcell.measures.pairs import ColumnPairs, Quantities, record_weights
from microcell.measures.registry import Value, measure
from microcell.model import Column, Correlations, Floats, Mask, Quantiles
from microcell.progress import report

if TYPE_CHECKING:
    from microcell.measures.evidence import Evidence

__all__ = [
    "Change",
    "ColumnLoss",
    "QuasiColumn",
    "column_losses",
    "compare_correlations",
    "compare_quantiles",
    "information_loss",
    "measure_change",
    "quasi_columns",
    "weigh_losses",
]


# ------------------------------------------------------------------------------ information loss


@dataclass(frozen=True, eq=False)
class ColumnLoss:
    """Information loss of one quasi-identifier.

    ``share`` is that of :class:`~microcell.kinds.losses.Loss`; ``weight`` is that in the average:
    twice the column's for a location, 0 for a constant column.
    ``unreadable`` counts the published values that could not be compared with the original.
    """

    column: Column
    loss: Loss
    share: float
    weight: float
    unreadable: int


def column_losses(columns: ColumnPairs) -> tuple[ColumnLoss, ...]:
    """Compute the information loss of each quasi-identifier of the matched records.

    It is relative to all complete records of the original, also to those that were left out.
    """
    report("comparing columns")
    rows, weights = columns.rows, columns.weights
    if len(columns.left_out):
        rows = np.concatenate((rows, columns.left_out))
        weights = record_weights(columns.original, columns.schema)[rows]
    losses = [pair.loss(rows, weights) for pair in columns.quasi]
    unreadable = [pair.unreadable for pair in columns.quasi]
    return weigh_losses([pair.column for pair in columns.quasi], losses, unreadable)


def weigh_losses(
    columns: Sequence[Column], losses: Sequence[Loss], unreadable: Sequence[int]
) -> tuple[ColumnLoss, ...]:
    """Return the losses of the columns with their weights in the average."""
    shares = [loss.share for loss in losses]
    weights = [
        0.0 if loss.constant else column.weight * len(column.parts)
        for column, loss in zip(columns, losses, strict=True)
    ]
    return tuple(map(ColumnLoss, columns, losses, shares, weights, unreadable))


def information_loss(columns: Sequence[ColumnLoss]) -> float:
    """Return the weighted mean of the columns' losses, without constant columns.

    For numbers published as means this is SSE / SST of the standardized data.
    """
    total = sum(item.weight for item in columns)
    if total == 0:
        return 0.0
    return sum(item.weight * item.share for item in columns) / total


# ------------------------------------------------------------------------- changes of a column


@dataclass(frozen=True)
class Change:
    """Changes of one column: of its values, its mean and its standard deviation."""

    il1s: float
    mean: float
    deviation: float


@dataclass(frozen=True, eq=False)
class QuasiColumn:
    """A quasi-identifier before and after.

    ``share`` is the information loss, ``weight`` the column's weight in its average. ``quantity``
    holds the values of a column that has an order, ``weights`` those of the records.
    """

    name: str
    weight: float
    share: float
    quantity: Quantity | None
    weights: Floats

    @cached_property
    def change(self) -> Change | None:
        """Changes of the column; None if it has no order or is constant in the original."""
        return None if self.quantity is None else measure_change(self.quantity, self.weights)


def quasi_columns(losses: Sequence[ColumnLoss], quantities: Quantities) -> tuple[QuasiColumn, ...]:
    """Return the quasi-identifiers with their losses and, if they have an order, their values."""
    by_name = {item.name: item for item in quantities.columns if item.quasi}
    return tuple(
        QuasiColumn(
            item.column.name,
            item.weight,
            item.share,
            by_name.get(item.column.name),
            quantities.weights,
        )
        for item in losses
    )


def measure_change(column: Quantity, weights: Floats) -> Change | None:
    """Compare a column before and after; None if it is constant in the original."""
    present: Mask = ~np.isnan(column.before) & (weights > 0)
    used = weights[present]
    both = centre(column.before[present], column.after, used)
    if both.constant:
        return None
    mean, deviation = _moments(both.before, used)
    if deviation == 0:
        return None
    published: Mask = ~np.isnan(both.after) & (weights > 0)
    mean_after, deviation_after = _moments(both.after[published], weights[published])
    steps = np.abs(both.before - np.nan_to_num(both.after[present], nan=mean))
    return Change(
        il1s=float(np.average(steps, weights=used)) / (sqrt(2) * deviation),
        mean=abs(mean_after - mean) / deviation if published.any() else 0.0,
        deviation=abs(deviation_after - deviation) / deviation,
    )


def _moments(numbers: Floats, weights: Floats) -> tuple[float, float]:
    """Return the weighted mean and the sample standard deviation, 0 for fewer than two numbers."""
    if not len(numbers):
        return 0.0, 0.0
    mean = float(np.average(numbers, weights=weights))
    variance = float(np.average(np.square(numbers - mean), weights=weights))
    return mean, sqrt(variance * len(numbers) / max(len(numbers) - 1, 1))


# ---------------------------------------------------------------------------------- correlations

_BLOCK = 1 << 16
"""Number of rows whose products are summed at a time."""

_CANCELLED = 1e-3
"""A variance below this share of the mean square has lost precision and is recomputed."""


def compare_correlations(quantities: Quantities) -> Correlations | None:
    """Correlate the columns that vary in the original; None for fewer than two columns.

    Each correlation is taken over the records that have both values and a positive weight, and is 0
    if one of the two columns is constant among them.

    Examples
    --------
    >>> x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.5, 1.5, 3.5, 3.5])
    >>> columns = (Quantity("x", True, x, y), Quantity("pay", False, x, x))
    >>> compare_correlations(Quantities(columns, np.ones(4))).after.round(4)
    array([[1.    , 0.8944],
           [0.8944, 1.    ]])
    """
    weights = quantities.weights
    before = _standardize([column.before for column in quantities.columns], weights)
    varying = [place for place, numbers in enumerate(before) if numbers is not None]
    if len(varying) < 2:
        return None
    columns = [quantities.columns[i] for i in varying]
    published = [column.after for column in columns]
    return Correlations(
        names=tuple(column.name for column in columns),
        before=_correlate(
            [column.before for column in columns], [before[i] for i in varying], weights
        ),
        after=_correlate(published, _standardize(published, weights), weights),
    )


def _standardize(columns: Sequence[Floats], weights: Floats) -> list[Floats | None]:
    """Standardize columns, NaN where a value or a weight is missing; None for a constant one."""
    weighted = weights > 0
    sides = [standardize(numbers, numbers, weights) for numbers in columns]
    return [None if side is None else np.where(weighted, side[0], np.nan) for side in sides]


def _correlate(
    columns: Sequence[Floats], standardized: Sequence[Floats | None], weights: Floats
) -> Floats:
    """Correlate each pair of columns over the records that have both values.

    With z ``standardized`` and m the indicator of a value, the sums of w z z, w z m, w z z m and
    w m m of all pairs are matrix products, added up over blocks of rows. Where a column hardly
    varies among the records that it shares with another one, digits cancel and the pair is computed
    separately.
    """
    count = len(columns)
    crossed, sums, squares, shared = (np.zeros((count, count)) for _ in range(4))
    for start in range(0, len(weights), _BLOCK):
        rows = slice(start, start + _BLOCK)
        block_weights = weights[rows]
        nothing = np.full(len(block_weights), np.nan)
        Z = np.array([nothing if column is None else column[rows] for column in standardized])
        present = (~np.isnan(Z)).astype(np.float64)
        weighted = present * block_weights
        Z = np.nan_to_num(Z, copy=False)
        crossed += (Z * block_weights) @ Z.T
        sums += Z @ weighted.T
        squares += np.square(Z) @ weighted.T
        shared += present @ weighted.T
    shared = np.where(shared > 0, shared, 1.0)
    means, squares = sums / shared, squares / shared
    variances = squares - np.square(means)
    accurate = variances > _CANCELLED * squares
    matrix = np.eye(count)
    for i, j in combinations(range(count), 2):
        if standardized[i] is None or standardized[j] is None:
            continue
        if accurate[i, j] and accurate[j, i]:
            covariance = crossed[i, j] / shared[i, j] - means[i, j] * means[j, i]
            value = covariance / sqrt(variances[i, j] * variances[j, i])
        else:
            value = _correlate_pair(columns[i], columns[j], weights)
        matrix[i, j] = matrix[j, i] = min(1.0, max(-1.0, value))
    return matrix


def _correlate_pair(first: Floats, second: Floats, weights: Floats) -> float:
    both: Mask = ~np.isnan(first) & ~np.isnan(second) & (weights > 0)
    x, y = _standardize([first[both], second[both]], weights[both])
    if x is None or y is None:
        return 0.0
    return float(np.average(x * y, weights=weights[both]))


# ------------------------------------------------------------------------------------- quantiles

_QUANTILES = 101
"""Number of quantiles from 0 to 1."""


def compare_quantiles(quantities: Quantities) -> tuple[Quantiles, ...]:
    """Compute 101 quantiles of each ordered quasi-identifier, before and after.

    Quantiles count records regardless of their weights and interpolate linearly. They use the axis
    of the column's comparison: ranks from 0 for ordinal columns. Columns without values on one side
    are left out. Quantiles contain values of the original, so they are as confidential as it is.

    Examples
    --------
    >>> x, y = np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.5, 1.5, 4.0, 4.0])
    >>> ages = compare_quantiles(Quantities((Quantity("age", True, x, y),), np.ones(4)))[0]
    >>> ages.before[[0, 50, 100]], ages.after[[0, 50, 100]]
    (array([1. , 2.5, 5. ]), array([1.5 , 2.75, 4.  ]))
    """
    shares = np.linspace(0, 1, _QUANTILES)
    out = []
    for column in quantities.columns:
        if column.quasi and not (np.isnan(column.before).all() or np.isnan(column.after).all()):
            before, after = (
                (_quantiles(side, shares) + column.origin) * column.step
                for side in (column.before, column.after)
            )
            out.append(Quantiles(column.name, shares, before, after, column.unit))
    return tuple(out)


def _quantiles(numbers: Floats, shares: Floats) -> Floats:
    ordered = np.sort(numbers[~np.isnan(numbers)])
    position = shares * (len(ordered) - 1)
    below = np.floor(position).astype(np.int64)
    low, high = ordered[below], ordered[np.minimum(below + 1, len(ordered) - 1)]
    # A weighted mean cannot overflow, whereas the difference of two values can.
    mixed = np.clip(low * (1 - (position - below)) + high * (position - below), low, high)
    return np.maximum.accumulate(mixed)


# -------------------------------------------------------------------------------------- measures


@measure(
    "information_loss",
    label="Information loss",
    unit="share",
    section="utility",
    scope="quasi",
    overall="weighted mean",
    needs="pairs",
    meaning="Share of the variation between records that is lost in the published "
    "quasi-identifiers: 0 if every value is unchanged, 1 if all records are published alike.",
    headline="0 % keeps every value, 100 % publishes all records alike.",
)
def information_loss_of_column(column: QuasiColumn) -> float:
    return column.share


@measure(
    "il1s",
    label="Average change of a value (IL1s)",
    unit="√2 standard deviations",
    section="utility",
    scope="quasi",
    overall="mean",
    needs="pairs",
    meaning="Mean absolute change of a value, in units of √2 standard deviations of its column, "
    "averaged over records and columns.",
    headline="Mean absolute change of a value, in √2 standard deviations.",
)
def il1s(column: QuasiColumn) -> float | None:
    return None if column.change is None else column.change.il1s


@measure(
    "mean_change",
    label="Change in means",
    unit="standard deviations",
    section="utility",
    scope="quasi",
    needs="pairs",
    meaning="Largest change in a column's mean, in standard deviations of the original.",
    headline="Largest change in a column's mean, in standard deviations.",
)
def mean_change(column: QuasiColumn) -> float | None:
    return None if column.change is None else column.change.mean


@measure(
    "deviation_change",
    label="Change in standard deviations",
    unit="share",
    section="utility",
    scope="quasi",
    needs="pairs",
    meaning="Largest change in a column's standard deviation, as a share of the original one.",
    headline="Largest change in a column's standard deviation.",
)
def deviation_change(column: QuasiColumn) -> float | None:
    return None if column.change is None else column.change.deviation


@measure(
    "correlation_change",
    label="Change in correlations",
    unit="correlation",
    section="utility",
    needs="pairs",
    meaning="Largest change in the correlation between two columns, confidential columns included.",
    headline="Largest change in the correlation between two columns.",
)
def correlation_change(evidence: "Evidence") -> Value | None:
    correlations = evidence.correlations
    if correlations is None:
        return None
    changes = _correlation_changes(correlations)
    worst = int(changes.argmax())
    above = np.triu_indices(len(correlations.names), 1)
    names = " and ".join(correlations.names[places[worst]] for places in above)
    return Value(float(changes[worst]), f"Largest change: {names}.")


@measure(
    "correlation_change_average",
    label="Average change in correlations",
    unit="correlation",
    section="utility",
    needs="pairs",
    meaning="Mean absolute change in the correlation between two columns, confidential columns "
    "included.",
)
def correlation_change_average(evidence: "Evidence") -> float | None:
    correlations = evidence.correlations
    return None if correlations is None else float(_correlation_changes(correlations).mean())


def _correlation_changes(correlations: Correlations) -> Floats:
    above = np.triu_indices(len(correlations.names), 1)
    changes: Floats = np.abs(correlations.before - correlations.after)[above]
    return changes


@measure(
    "eigenvalue_change",
    label="Change in eigenvalues",
    unit="share",
    section="utility",
    needs="pairs",
    meaning="Change in the eigenvalues of the correlation matrix, as a share of their sum.",
)
def eigenvalue_change(evidence: "Evidence") -> float | None:
    correlations = evidence.correlations
    if correlations is None:
        return None
    before = np.linalg.eigvalsh(correlations.before)
    after = np.linalg.eigvalsh(correlations.after)
    return float(np.abs(before - after).sum() / np.abs(before).sum())


@measure(
    "dependence_loss",
    label="Dependence loss",
    unit="share",
    section="utility",
    scope="confidential",
    overall="weighted mean",
    exact=True,
    meaning="How much of the relation between the quasi-identifiers and the confidential columns "
    "is lost: 0 if a record's class determines its confidential values, 1 if it predicts them no "
    "better than the whole table. Squared error relative to the variance.",
    headline="0 % if classes still predict the confidential columns, 100 % if not at all.",
)
def dependence_loss(column: ConfidentialColumn) -> float | None:
    loss = column.prediction_loss
    return loss.share if loss.baseline > 0 else None
