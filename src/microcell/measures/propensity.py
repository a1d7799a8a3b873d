"""Propensity: how well a model distinguishes published records from original ones.

A logistic regression (Newton's method, ridge penalty 1e-4) gives each record of both tables the
probability p of being a published one. The measure is 4 mean (p - 1/2)^2, four times the pMSE (Woo,
Reiter, Oganian and Karr 2009; Snoke et al. 2018). The model has at most 200 terms: first those of
single columns, then squares and products of two numeric columns, in both cases those whose means
differ most between the tables in standard deviations. Terms of single columns are

- the quasi-identifiers and confidential columns that have an order, codes as ranks and the parts of
  locations, standardized by the original;
- indicators of the 10 most frequent categories of nominal columns, and of missing values.

Tables of more than 20,000 records are sampled, with the same rows of both tables. Records count
equally, whatever their weights. The regression is written here because the core package does not
depend on scikit-learn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from microcell.kinds.losses import standardize
from microcell.kinds.pairs import Quantity
from microcell.measures.pairs import NamedCategories
from microcell.measures.registry import Value, measure
from microcell.model import Floats, Integers, Mask

if TYPE_CHECKING:
    from microcell.measures.evidence import Evidence

__all__ = ["propensity_error"]

MAX_RECORDS = 20_000
"""Maximum number of records used from each table; larger tables are sampled."""

_MAX_TERMS = 200
"""Maximum number of model terms, not counting the constant."""

_MAX_CATEGORIES = 10
"""Number of categories of a column that get an indicator."""

_MAX_DEVIATIONS = 100.0
"""Values are clipped at this distance from the mean, so that outliers do not mask the rest."""

_RIDGE = 1e-4
"""Penalty on half the squared coefficients, relative to the mean loss of the records."""

_MAX_STEPS = 60
"""Maximum number of Newton steps."""

_GRADIENT_TOLERANCE = 1e-9
"""The model has converged when no component of the gradient is larger."""

_MIN_STEP = 1e-6
"""Newton steps are halved at most down to this fraction."""

_BLOCK = 2048
"""Number of records whose products are summed at a time."""

_CURVATURE_FLOOR = 1e-12
"""Added to the curvature in every direction, including the constant's."""

_MIN_VARIANCE = 1e-18
"""Terms with a smaller variance are constant apart from rounding errors."""

_Z = 1.959963984540054
"""Normal quantile of a 95 % interval."""


@dataclass(frozen=True, eq=False)
class _Terms:
    """Terms of the model before and after: one row per record, one column per term."""

    before: Floats
    after: Floats

    @property
    def count(self) -> int:
        return int(self.before.shape[1])

    def select(self, terms: Integers) -> "_Terms":
        return _Terms(self.before[:, terms], self.after[:, terms])


@measure(
    "propensity_error",
    label="Distinguishable from the original",
    unit="share",
    section="utility",
    needs="pairs",
    meaning="How well a statistical model distinguishes published from original records: 0 not at "
    "all, 1 always (4 times the propensity score mean squared error).",
    headline="0 % if a model cannot tell release and original apart, 100 % if it always can.",
)
def propensity_error(evidence: "Evidence", *, seed: int = 0) -> Value | None:
    """Fit the model and return its error; None if there are no records or no usable columns."""
    columns = evidence.columns
    total = len(columns.rows)
    rows = np.arange(total)
    if total > MAX_RECORDS:
        rows = np.sort(np.random.default_rng(seed).permutation(total)[:MAX_RECORDS])
    # Sorted by name, so that the order of columns in the table does not decide between terms.
    quantities = sorted(
        (*columns.quantities.columns, *columns.further_quantities), key=lambda item: item.name
    )
    nominal = sorted(columns.categories, key=lambda item: item.name)
    sides = [
        standardize(quantity.before[rows], quantity.after[rows], np.ones(len(rows)))
        for quantity in quantities
    ]
    numbers = [
        _number_terms(quantity, rows, standardized)
        for quantity, standardized in zip(quantities, sides, strict=True)
    ]
    points = _concatenate([terms for terms in numbers if terms is not None], len(rows))
    indicators = [
        *(_missing_terms(quantity, rows) for quantity in quantities),
        *(_category_terms(column, rows) for column in nominal),
    ]
    terms = _choose_terms(points, _concatenate(indicators, len(rows)))
    if not len(rows) or not terms.count:
        return None
    errors = _squared_errors(terms)
    value = float(errors.mean())
    if len(rows) == total:
        return Value(value)
    half = _Z * float(errors.std()) / sqrt(len(errors))
    detail = f"Estimated from a sample of {len(rows):,} records."
    return Value(value, detail, (max(0.0, value - half), min(1.0, value + half)))


# ----------------------------------------------------------------------------------------- terms


def _number_terms(
    quantity: Quantity, rows: Integers, sides: tuple[Floats, Floats] | None
) -> _Terms | None:
    """Clip a standardized column, missing values at the mean; None if both tables are constant.

    ``sides`` is None if the column is constant in the original.
    """
    if sides is None:
        both = np.concatenate((quantity.before[rows], quantity.after[rows]))
        pooled = standardize(both, both, np.ones(len(both)))
        if pooled is None:
            return None
        sides = pooled[0][: len(rows)], pooled[0][len(rows) :]
    clipped = (np.clip(side, -_MAX_DEVIATIONS, _MAX_DEVIATIONS) for side in sides)
    return _Terms(*(np.nan_to_num(side)[:, None] for side in clipped))


def _missing_terms(quantity: Quantity, rows: Integers) -> _Terms:
    sides = (quantity.before, quantity.after)
    return _Terms(*(np.isnan(side[rows]).astype(np.float64)[:, None] for side in sides))


def _category_terms(column: NamedCategories, rows: Integers) -> _Terms:
    """Return indicators of the most frequent categories of both tables, and of missing values."""
    before, after = column.before[rows], column.after[rows]
    counts = np.bincount(np.concatenate((before, after)) + 1, minlength=len(column.names) + 1)[1:]
    # Equally frequent categories are sorted by name, not by their order in the tables.
    order = sorted(range(len(counts)), key=lambda code: (-counts[code], column.names[code]))
    selected = np.array([*order[:_MAX_CATEGORIES], -1], dtype=np.int64)
    return _Terms(*((codes[:, None] == selected).astype(np.float64) for codes in (before, after)))


def _concatenate(blocks: Sequence[_Terms], rows: int) -> _Terms:
    nothing = np.zeros((rows, 0))
    return _Terms(
        np.hstack([nothing, *(block.before for block in blocks)]),
        np.hstack([nothing, *(block.after for block in blocks)]),
    )


def _choose_terms(points: _Terms, indicators: _Terms) -> _Terms:
    """Choose and standardize the terms: single columns, then squares and products of points."""
    single = _concatenate([points, indicators], len(points.before))
    gap, variance = _moments(single.before, single.after)
    chosen = single.select(_most_different(gap, variance, limit=_MAX_TERMS))
    if points.count and chosen.count < _MAX_TERMS:
        products = _choose_products(points, limit=_MAX_TERMS - chosen.count)
        chosen = _concatenate([chosen, products], len(points.before))
    return _standardize_terms(chosen)


def _choose_products(points: _Terms, *, limit: int) -> _Terms:
    # The moments of all products come from matrix products; only the chosen ones are written out.
    count = len(points.before)
    sides = (points.before, points.after)
    means = [side.T @ side / count for side in sides]
    squares = [np.square(side).T @ np.square(side) / count for side in sides]
    gap = np.abs(means[0] - means[1])
    variance = (squares[0] + squares[1]) / 2 - np.square((means[0] + means[1]) / 2)
    first, second = np.triu_indices(points.count)
    best = _most_different(gap[first, second], variance[first, second], limit=limit)
    first, second = first[best], second[best]
    return _Terms(*(side[:, first] * side[:, second] for side in sides))


def _moments(before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """Return the difference of the means, and the variance of both sides combined."""
    if not len(before):
        return np.zeros(before.shape[1]), np.zeros(before.shape[1])
    means = before.mean(axis=0), after.mean(axis=0)
    middle = (means[0] + means[1]) / 2
    squares = np.square(before - middle).mean(axis=0) + np.square(after - middle).mean(axis=0)
    return np.abs(means[0] - means[1]), squares / 2


def _most_different(gap: Floats, variance: Floats, *, limit: int) -> Integers:
    """Return the varying terms whose means differ most in standard deviations, in term order."""
    varying = np.flatnonzero(variance > _MIN_VARIANCE)
    # Rounded, so that differences in the last digits count as ties.
    size = np.round(gap[varying] / np.sqrt(variance[varying]), 12)
    return np.sort(varying[np.argsort(-size, kind="stable")[:limit]]).astype(np.int64)


def _standardize_terms(terms: _Terms) -> _Terms:
    if not terms.count:
        return terms
    middle = (terms.before.mean(axis=0) + terms.after.mean(axis=0)) / 2
    _, variance = _moments(terms.before, terms.after)
    keep = variance > _MIN_VARIANCE
    scale = np.sqrt(variance[keep])
    return _Terms(*(((side - middle)[:, keep]) / scale for side in (terms.before, terms.after)))


# ----------------------------------------------------------------------------------------- model


def _squared_errors(terms: _Terms) -> Floats:
    """Return 4 (p - 1/2)^2, averaged over the two sides of each record."""
    X = np.vstack((terms.before, terms.after))
    X = np.hstack((np.ones((len(X), 1)), X))
    published: Mask = np.arange(len(X)) >= len(terms.before)
    # With p = (1 + tanh(score / 2)) / 2, 4 (p - 1/2)^2 is the square of the hyperbolic tangent.
    errors = np.square(np.tanh(X @ _fit(X, published) / 2))
    return (errors[: len(terms.before)] + errors[len(terms.before) :]) / 2


def _fit(X: Floats, published: Mask) -> Floats:
    """Minimize mean log(1 + exp(-s x b)) + ridge |b|^2 / 2, with s = 1 if published, else -1.

    The first column is the constant, whose coefficient is not penalized. Newton's method, with
    steps halved until the loss decreases.
    """
    signs = np.where(published, 1.0, -1.0)
    ridge = np.full(X.shape[1], _RIDGE)
    ridge[0] = 0.0

    def loss(scores: Floats, b: Floats) -> float:
        return float(np.logaddexp(0, -signs * scores).mean() + ridge @ np.square(b) / 2)

    b, scores = np.zeros(X.shape[1]), np.zeros(len(X))
    lowest = loss(scores, b)
    for _ in range(_MAX_STEPS):
        tangent = np.tanh(scores / 2)
        gradient = (tangent - signs) @ X / (2 * len(X)) + ridge * b
        if np.abs(gradient).max() <= _GRADIENT_TOLERANCE:
            break
        hessian = _weighted_gram(X, (1 - np.square(tangent)) / (4 * len(X)))
        step = np.linalg.solve(hessian + np.diag(ridge + _CURVATURE_FLOOR), gradient)
        size, change = 1.0, X @ step
        while (new := loss(scores - size * change, b - size * step)) > lowest and size > _MIN_STEP:
            size /= 2
        if new > lowest:
            break
        b, scores, lowest = b - size * step, scores - size * change, new
    return b


def _weighted_gram(X: Floats, weights: Floats) -> Floats:
    """Return sum w x x', by blocks so that intermediate results stay in the cache."""
    gram = np.zeros((X.shape[1], X.shape[1]))
    for start in range(0, len(X), _BLOCK):
        rows = slice(start, start + _BLOCK)
        part = X[rows] * np.sqrt(weights[rows])[:, None]
        gram += part.T @ part
    return gram
