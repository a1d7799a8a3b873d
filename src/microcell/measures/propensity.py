"""Propensity: how well a model tells the published records from the original ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from microcell.measures.pairs import (
    Quantities,
    Quantity,
    read_categories,
    read_further_quantities,
    read_quantities,
    standardize,
)
from microcell.model import Floats, Integers, Mask, Measure, Schema, Table

__all__ = ["measure_propensity"]

MOST = 20_000
"""Records taken at most from each table; of more, a sample."""

_TERMS = 200
"""Terms of the model at most, the constant not counted."""

_CATEGORIES = 10
"""Categories of a column that have an indicator of their own."""

_FARTHEST = 100.0
"""Values are drawn in to this many deviations from the mean, so that nonsense does not hide all other differences."""

_RIDGE = 1e-4
"""Factor on half the squared coefficients, beside the mean of the records' losses."""

_STEPS = 60
"""Newton steps at most."""

_FLAT = 1e-9
"""The model is fitted where no slope of its loss is larger."""

_SMALLEST = 1e-6
"""A Newton step is halved down to this part of it."""

_BLOCK = 2048
"""Records whose products are added up at a time."""

_FLOOR = 1e-12
"""Added to the curvature in every direction, the constant's too."""

_VARYING = 1e-18
"""Terms of a smaller variance are constant but for rounding."""

_Z = 1.959963984540054
"""The normal quantile of a 95 % interval."""


@dataclass(frozen=True, eq=False)
class _Sides:
    """Terms of the model before and after, one row a record and one column a term."""

    before: Floats
    after: Floats

    @property
    def count(self) -> int:
        return int(self.before.shape[1])

    def only(self, terms: Integers) -> "_Sides":
        return _Sides(self.before[:, terms], self.after[:, terms])


@dataclass(frozen=True, eq=False)
class _Names:
    """A nominal column of the matched records as codes into ``names``, -1 where missing."""

    name: str
    before: Integers
    after: Integers
    names: tuple[str, ...]


def measure_propensity(
    original: Table,
    released: Table,
    schema: Schema,
    *,
    pairs: Integers,
    seed: int = 0,
    quantities: Quantities | None = None,
) -> tuple[Measure, ...]:
    """How well published records are told from original ones: ``propensity_error``, 0 not at all, 1 always.

    A logistic regression (Newton's method, ridge 1e-4) gives each record of both tables the probability p of being
    published; the measure is 4 mean (p - 1/2)^2, four times pMSE (Woo, Reiter, Oganian and Karr 2009; Snoke et al.
    2018). Its terms: quasi-identifiers and confidential columns that have an order, standardized by the original,
    codes as ranks and the parts of locations too; indicators of the 10 most frequent categories of nominal columns,
    and of missing values; then squares and products of two ordered columns. At most 200 terms: first those of single
    columns, then squares and products, in both cases those whose means differ most between the tables, in
    deviations.

    Above 20,000 records the same sample is taken of both tables, and a normal 95 % interval comes with the measure:
    that of the mean over records, for the model fitted. Nothing comes of a table without rows or without a column to
    use. Records count alike, whatever their weights. Time O(n m) to read, and that of fitting up to 40,000 records.

    Parameters
    ----------
    schema
        Resolved: each column has its kind.
    pairs
        The row of the original (from 0) that each published row comes from.
    quantities
        The ordered columns, if they were read already.

    Examples
    --------
    >>> from microcell.model import Column, Values
    >>> known = np.zeros(4, dtype=bool)
    >>> before = Table({"age": Values("integer", np.array([20, 22, 40, 42]), known)}, rows=4, native=None)
    >>> after = Table({"age": Values("integer", np.array([31, 31, 31, 31]), known)}, rows=4, native=None)
    >>> schema = Schema(quasi=[Column("age", kind="numeric")])
    >>> measure_propensity(before, before, schema, pairs=np.arange(4))[0].value
    0.0
    >>> round(measure_propensity(before, after, schema, pairs=np.arange(4))[0].value, 2)
    1.0
    """
    rows = np.arange(len(pairs))
    if len(pairs) > MOST:
        rows = np.sort(np.random.default_rng(seed).permutation(len(pairs))[:MOST])
    if quantities is None:
        quantities = read_quantities(original, released, schema, pairs=pairs)
    further = read_further_quantities(original, released, schema, pairs=pairs)
    # Columns in the order of their names, so that the order in the table does not decide between terms.
    lines = sorted((*quantities.columns, *further), key=lambda line: line.name)
    names = sorted(_read_names(original, released, schema, pairs), key=lambda column: column.name)
    points = _beside(
        [block for line in lines if (block := _of_line(line, rows)) is not None], len(rows)
    )
    marks = [
        *(_of_missing(line, rows) for line in lines),
        *(_of_names(column, rows) for column in names),
    ]
    terms = _choose(points, _beside(marks, len(rows)))
    if not len(rows) or not terms.count:
        return ()
    return (_measure(_tell_apart(terms), everyone=len(pairs)),)


def _measure(errors: Floats, *, everyone: int) -> Measure:
    value = float(errors.mean())
    interval = None
    if len(errors) < everyone:
        half = _Z * float(errors.std()) / sqrt(len(errors))
        interval = (max(0.0, value - half), min(1.0, value + half))
    meaning = "How well a logistic regression tells published records from original ones, from 0 to 1: 4 pMSE."
    return Measure("propensity_error", value, "share", True, meaning, interval)


# ---------------------------------------------------------------------------------------------- terms


def _of_line(line: Quantity, rows: Integers) -> _Sides | None:
    """The column standardized, missing values at the mean; None if it is the same everywhere in both tables."""
    before, after = line.before[rows], line.after[rows]
    ones = np.ones(len(rows))
    found = standardize(before, after, ones)
    if found is None:
        both = np.concatenate((before, after))
        pooled = standardize(both, both, np.ones(len(both)))
        if pooled is None:
            return None
        found = pooled[0][: len(rows)], pooled[0][len(rows) :]
    near, far = (np.nan_to_num(np.clip(side, -_FARTHEST, _FARTHEST))[:, None] for side in found)
    return _Sides(near, far)


def _of_missing(line: Quantity, rows: Integers) -> _Sides:
    return _Sides(
        *(np.isnan(side[rows]).astype(np.float64)[:, None] for side in (line.before, line.after))
    )


def _of_names(column: _Names, rows: Integers) -> _Sides:
    """Indicators of the categories most frequent in both tables together, and of a missing value."""
    old, new = column.before[rows], column.after[rows]
    counts = np.bincount(np.concatenate((old, new)) + 1, minlength=len(column.names) + 1)[1:]
    # Equally frequent categories in the order of their names, and not in that of the tables.
    order = sorted(range(len(counts)), key=lambda code: (-counts[code], column.names[code]))
    wanted = np.array([*order[:_CATEGORIES], -1], dtype=np.int64)
    return _Sides(*((codes[:, None] == wanted).astype(np.float64) for codes in (old, new)))


def _read_names(
    original: Table, released: Table, schema: Schema, pairs: Integers
) -> Iterator[_Names]:
    """The nominal columns of the matched records; confidential ones are published unchanged."""
    for column in schema.quasi:
        if column.kind == "nominal":
            before, after = original.columns[column.name], released.columns[column.name]
            reading = read_categories(column.name, before, after)
            yield _Names(column.name, reading.before[pairs], reading.after, reading.names)
    for column in schema.confidential:
        if (
            column.kind == "nominal"
            and column.name in original.columns
            and column.name in released.columns
        ):
            codes, names = original.columns[column.name].factorize()
            own = codes[pairs].astype(np.int64)
            yield _Names(column.name, own, own, names)


def _beside(blocks: Sequence[_Sides], rows: int) -> _Sides:
    nothing = np.zeros((rows, 0))
    return _Sides(
        np.hstack([nothing, *(block.before for block in blocks)]),
        np.hstack([nothing, *(block.after for block in blocks)]),
    )


def _choose(points: _Sides, marks: _Sides) -> _Sides:
    """The terms of the model, centred and at deviation 1: single columns, then squares and products of points."""
    single = _beside([points, marks], len(points.before))
    chosen = single.only(_most(*_moments(single.before, single.after), most=_TERMS))
    one, two = np.triu_indices(points.count)
    if points.count and chosen.count < _TERMS:
        # The moments of all products come from products of matrices; only the chosen ones are written out.
        count = len(points.before)
        means = [side.T @ side / count for side in (points.before, points.after)]
        squares = [
            np.square(side).T @ np.square(side) / count for side in (points.before, points.after)
        ]
        gap = np.abs(means[0] - means[1])
        variance = (squares[0] + squares[1]) / 2 - np.square((means[0] + means[1]) / 2)
        best = _most(gap[one, two], variance[one, two], most=_TERMS - chosen.count)
        one, two = one[best], two[best]
        products = _Sides(*(side[:, one] * side[:, two] for side in (points.before, points.after)))
        chosen = _beside([chosen, products], count)
    return _scaled(chosen)


def _moments(before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """The difference of the means, and the variance of both sides together."""
    if not len(before):
        return np.zeros(before.shape[1]), np.zeros(before.shape[1])
    means = before.mean(axis=0), after.mean(axis=0)
    middle = (means[0] + means[1]) / 2
    variance = (
        np.square(before - middle).mean(axis=0) + np.square(after - middle).mean(axis=0)
    ) / 2
    return np.abs(means[0] - means[1]), variance


def _most(gap: Floats, variance: Floats, *, most: int) -> Integers:
    """The terms that vary and whose means differ most, in deviations; in the order of the terms."""
    varying = np.flatnonzero(variance > _VARYING)
    # Rounded, so that differences of nothing but last digits are equal.
    size = np.round(gap[varying] / np.sqrt(variance[varying]), 12)
    return np.sort(varying[np.argsort(-size, kind="stable")[:most]]).astype(np.int64)


def _scaled(terms: _Sides) -> _Sides:
    if not terms.count:
        return terms
    middle = (terms.before.mean(axis=0) + terms.after.mean(axis=0)) / 2
    _, variance = _moments(terms.before, terms.after)
    keep = variance > _VARYING
    scale = np.sqrt(variance[keep])
    return _Sides(*(((side - middle)[:, keep]) / scale for side in (terms.before, terms.after)))


# ---------------------------------------------------------------------------------------------- model


def _tell_apart(terms: _Sides) -> Floats:
    """4 (p - 1/2)^2, averaged over the two sides of each record."""
    X = np.vstack((terms.before, terms.after))
    X = np.hstack((np.ones((len(X), 1)), X))
    published: Mask = np.arange(len(X)) >= len(terms.before)
    # With p = (1 + tanh(score / 2)) / 2, 4 (p - 1/2)^2 is the square of the hyperbolic tangent.
    errors = np.square(np.tanh(X @ _fit(X, published) / 2))
    return (errors[: len(terms.before)] + errors[len(terms.before) :]) / 2


def _fit(X: Floats, published: Mask) -> Floats:
    """The coefficients that make mean log(1 + exp(-s x b)) + ridge |b|^2 / 2 least, s being 1 if published, else -1.

    The first column is the constant, whose coefficient is free. Newton's method, a step halved until the loss falls.
    """
    signs = np.where(published, 1.0, -1.0)
    ridge = np.full(X.shape[1], _RIDGE)
    ridge[0] = 0.0

    def loss(scores: Floats, b: Floats) -> float:
        return float(np.logaddexp(0, -signs * scores).mean() + ridge @ np.square(b) / 2)

    b, scores = np.zeros(X.shape[1]), np.zeros(len(X))
    least = loss(scores, b)
    for _ in range(_STEPS):
        tangent = np.tanh(scores / 2)
        slope = (tangent - signs) @ X / (2 * len(X)) + ridge * b
        if np.abs(slope).max() <= _FLAT:
            break
        bend = _bend(X, (1 - np.square(tangent)) / (4 * len(X)))
        step = np.linalg.solve(bend + np.diag(ridge + _FLOOR), slope)
        size, change = 1.0, X @ step
        while (
            reached := loss(scores - size * change, b - size * step)
        ) > least and size > _SMALLEST:
            size /= 2
        if reached > least:
            break
        b, scores, least = b - size * step, scores - size * change, reached
    return b


def _bend(X: Floats, weights: Floats) -> Floats:
    """The matrix sum w x x', block by block, so that what is written in between stays in the cache."""
    found = np.zeros((X.shape[1], X.shape[1]))
    for start in range(0, len(X), _BLOCK):
        rows = slice(start, start + _BLOCK)
        part = X[rows] * np.sqrt(weights[rows])[:, None]
        found += part.T @ part
    return found
