"""Points extended by confidential columns, so that cells preserve the association with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from microcell._display import record_html, record_repr
from microcell.errors import OptionError
from microcell.kernels.arrays import centroids, total_sum_of_squares
from microcell.methods.mdav import mdav
from microcell.model import Floats

__all__ = [
    "REGRESSIONS",
    "Weights",
    "check_dependence",
    "check_regression",
    "describe_weights",
    "extend",
    "fit_regression",
    "scale_confidential",
    "total_weight",
]

Weights = float | Mapping[str, float]
"""The weight of all confidential columns (lambda), or the weight of each by name."""

REGRESSIONS = ("linear", "neighbours")
"""How confidential columns are predicted from quasi-identifiers."""

GROUP, GROUPS = 10, 200
"""A group has at least ``GROUP`` times k records, and there are at most ``GROUPS`` of them."""

_RIDGE = 1e-6
"""Relative regularization of the linear regression."""

_DIGITS = 6
"""Significant digits of published coefficients and group means."""


def check_dependence(dependence: object) -> None:
    """Raise OptionError unless the weight of dependence is from 0 to 1, in total if by column."""
    by_column = isinstance(dependence, Mapping)
    values = list(dependence.values()) if isinstance(dependence, Mapping) else [dependence]
    numbers = all(
        isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        for value in values
    )
    names = not by_column or (values and all(isinstance(name, str) for name in dependence))  # type: ignore[attr-defined]
    if not numbers or not names or not all(0 <= value <= 1 for value in values):  # type: ignore[operator]
        raise OptionError(
            "dependence must be a number from 0 (only quasi-identifiers) to 1 (only confidential "
            "columns), or a mapping of confidential columns to such numbers.",
            code="option.out_of_range",
            option="dependence",
        )
    if by_column and sum(values) > 1 + 1e-12:  # type: ignore[arg-type]
        raise OptionError(
            "The weights of dependence must not add up to more than 1.",
            code="option.out_of_range",
            option="dependence",
        )


def check_regression(regression: object) -> None:
    """Raise OptionError for an unknown regression."""
    if regression not in REGRESSIONS:
        raise OptionError(
            f"regression must be one of {', '.join(REGRESSIONS)}, not {regression!r}.",
            code="option.unknown",
            option="regression",
        )


def total_weight(dependence: Weights) -> float:
    """Return the weight of all confidential columns together."""
    if isinstance(dependence, Mapping):
        return min(1.0, float(sum(dependence.values())))
    return float(dependence)


def extend(X: Floats, Y: Floats, dependence: float, weights: Floats | None = None) -> Floats:
    """Return points for which ordinary cells minimize (1 - lambda) D_X + lambda D_Y.

    lambda is ``dependence``. The points are (x, beta y) with beta^2 = lambda / (1 - lambda) SST_X /
    SST_Y, which for standardized columns is lambda / (1 - lambda) m_X / m_Y; the distortion of the
    extended points is exactly that sum. For lambda 0 and 1 they are X or Y alone. The confidential
    points ``Y`` must not all be equal, unless lambda is 0. Time and memory O(n m).

    Examples
    --------
    >>> X, Y = np.array([[-1.0, 1.0], [1.0, -1.0]]), np.array([[-1.0], [1.0]])
    >>> extend(X, Y, 0.2).round(4)
    array([[-1.    ,  1.    , -0.7071],
           [ 1.    , -1.    ,  0.7071]])
    """
    check_dependence(dependence)
    if dependence == 0:
        return X
    factor = _factor(X, Y, dependence, weights)
    return Y if factor is None else np.ascontiguousarray(np.hstack([X, factor * Y]))


def _factor(X: Floats, Y: Floats, dependence: float, weights: Floats | None) -> float | None:
    """Return the factor beta on the confidential points, None if they alone determine cells."""
    variance = _variance(X, weights)
    if dependence == 1 or variance == 0:
        return None
    return float(np.sqrt(dependence / (1 - dependence) * variance / _variance(Y, weights)))


def scale_confidential(
    Y: Floats, parts: Mapping[str, slice], dependence: Weights, weights: Floats | None = None
) -> Floats:
    """Return the confidential points, scaled so that each column has its weight.

    With one weight for all columns the points stay as they are. ``parts`` are the dimensions of
    each column.
    """
    if not isinstance(dependence, Mapping):
        return Y
    _check_columns(dependence, parts)
    scaled = []
    for name, weight in dependence.items():
        part = Y[:, parts[name]]
        if weight > 0:
            scaled.append(part * np.sqrt(weight / _variance(part, weights)))
    return np.ascontiguousarray(np.hstack(scaled)) if scaled else Y


def _check_columns(dependence: Mapping[str, float], parts: Mapping[str, slice]) -> None:
    for name in dependence:
        if name not in parts:
            raise OptionError(
                f"dependence names {name!r}, which is not a confidential column of the schema.",
                code="option.unknown",
                option="dependence",
                column=name,
            )
        if parts[name].start == parts[name].stop:
            raise OptionError(
                f"dependence names {name!r}, which is constant: there is no association to "
                "preserve. Leave it out.",
                code="option.conflict",
                option="dependence",
                column=name,
            )


def _variance(points: Floats, weights: Floats | None) -> float:
    """Return SST over the sum of weights: the number of columns if they are standardized."""
    each = np.ones(len(points)) if weights is None else weights
    total = total_sum_of_squares(points, each) / each.sum()
    return float(f"{total:.12g}")


@dataclass(frozen=True, eq=False)
class Regression:
    """Predicted confidential points, scaled by beta, as a function of the quasi-identifiers.

    Linear: ``slopes`` and ``intercept``. By neighbours: the mean ``outcomes`` of the nearest
    ``anchors``, which are means of many records.
    """

    slopes: Floats | None = None
    intercept: Floats | None = None
    anchors: Floats | None = None
    outcomes: Floats | None = None

    __repr__ = record_repr
    _repr_html_ = record_html


def fit_regression(
    X: Floats, Y: Floats, dependence: float, *, kind: str, k: int, weights: Floats | None = None
) -> Regression:
    """Fit beta E[Y | x], with beta as in :func:`extend`, so that cells depend on x alone.

    As Y = E[Y | x] + an error that no function of x predicts, cells of (x, beta E[Y | x]) minimize
    (1 - lambda) D_X + lambda D_Y among cells that are functions of x, as far as the regression
    fits. Numbers are rounded, as they become part of published cells.
    """
    factor = _factor(X, Y, min(dependence, 1 - 1e-9), weights)
    target = Y * (1.0 if factor is None else factor)
    each = np.ones(len(X)) if weights is None else weights
    if kind == "neighbours":
        size = max(GROUP * k, -(-len(X) // GROUPS))
        if len(X) < 2 * size:
            raise OptionError(
                f"regression='neighbours' needs at least {2 * size} records for k = {k}. Use "
                "'linear'.",
                code="option.unsupported",
                option="regression",
            )
        labels = mdav(X, size, weights=each, seed=0)
        return Regression(
            anchors=_round(centroids(X, labels, each)),
            outcomes=_round(centroids(target, labels, each)),
        )
    mean_x, mean_y = np.average(X, axis=0, weights=each), np.average(target, axis=0, weights=each)
    centred = X - mean_x
    gram = centred.T @ (centred * each[:, np.newaxis])
    ridge = _RIDGE * max(float(np.trace(gram)), 1e-300) * np.eye(X.shape[1])
    moments: Floats = centred.T @ ((target - mean_y) * each[:, np.newaxis])
    slopes = _round(np.asarray(np.linalg.solve(gram + ridge, moments), dtype=np.float64))
    return Regression(slopes=slopes, intercept=_round(np.asarray(mean_y - mean_x @ slopes)))


def _round(values: Floats) -> Floats:
    """Round to some significant digits of the largest number in each column."""
    largest = np.abs(values).max(axis=0, initial=0.0)
    step = 10.0 ** (np.floor(np.log10(np.where(largest > 0, largest, 1.0))) + 1 - _DIGITS)
    return np.asarray(np.round(values / step) * step)


def describe_weights(dependence: Weights) -> dict[str, Any] | None:
    """Return the weights by column for the manifest; None if all columns share one weight."""
    if not isinstance(dependence, Mapping):
        return None
    return {name: float(weight) for name, weight in dependence.items()}
