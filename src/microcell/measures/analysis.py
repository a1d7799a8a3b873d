"""Analyses before and after: regressions, and means by group, of the original and the release.

Ordinary least squares for a numeric response, logistic regression for a response with two values.
Both are fitted on the matched records of each table, weighted by the schema's sampling weights
(scaled to a mean of 1). Intervals are 95 % Wald intervals. The overlap of two intervals is the
mean of the shares of each that the other covers (Karr et al. 2006): 1 if they are equal, 0 if they
do not meet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from microcell.errors import OptionError
from microcell.measures.classes import people_by_category
from microcell.measures.evidence import Evidence
from microcell.measures.pairs import ColumnPairs
from microcell.model import Floats, Integers
from microcell.model.audit import Analysis, Coefficient, GroupMean

__all__ = [
    "Formula",
    "compare_groups",
    "compare_small_groups",
    "fit_analysis",
    "parse_formula",
]

_MAX_CATEGORIES = 30
_MAX_STEPS = 50
_TOLERANCE = 1e-8
_Z = 1.959964

_SMALL = 0.1
"""A group is small if it has at most this share of the people."""

_MAX_GROUPS, _MAX_RESPONSES = 20, 4
"""Numbers of small groups, and of columns whose means are compared in each."""


@dataclass(frozen=True)
class Formula:
    """A response and the terms that explain it."""

    response: str
    terms: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.response} ~ {' + '.join(self.terms)}"


def parse_formula(text: str) -> Formula:
    """Parse a formula such as "hours ~ age + education"; column names may contain spaces.

    Examples
    --------
    >>> parse_formula("hours ~ age+education").terms
    ('age', 'education')
    """
    left, tilde, right = str(text).partition("~")
    response, terms = left.strip(), [term.strip() for term in right.split("+")]
    if not tilde or not response or not all(terms) or "~" in right or "+" in left:
        raise OptionError(
            f"{text!r} is not a formula. Write one such as 'hours ~ age + education'.",
            code="option.invalid",
            option="analysis",
        )
    if len({response, *terms}) <= len(terms):
        raise OptionError(
            f"The formula {text!r} names a column twice. Name each once.",
            code="option.invalid",
            option="analysis",
        )
    return Formula(response, tuple(terms))


@dataclass(frozen=True, eq=False)
class _Feature:
    """A column of the matched records: numbers, or codes into ``names``; missing is NaN or -1."""

    name: str
    before: Floats | Integers
    after: Floats | Integers
    names: tuple[str, ...] | None = None


def _feature(columns: ColumnPairs, name: str, option: str) -> _Feature:
    for quantity in (*columns.quantities.columns, *columns.further_quantities):
        if quantity.name == name:
            before, after = (
                (quantity.origin + side) * quantity.step
                for side in (quantity.before, quantity.after)
            )
            return _Feature(name, before, after)
    for category in columns.categories:
        if category.name == name:
            return _Feature(name, category.before, category.after, category.names)
    unchanged = columns.schema.unchanged
    if name in unchanged and name in columns.released.columns and name in columns.original.columns:
        values = columns.original.columns[name]
        if values.is_number:
            numbers = values.reals()[columns.rows]
            return _Feature(name, numbers, numbers)
        codes, names = values.factorize()
        matched = codes[columns.rows].astype(np.int64)
        return _Feature(name, matched, matched, names)
    raise OptionError(
        f"The release has no column {name!r} to analyse. Choose a published column.",
        code="option.unknown",
        option=option,
        column=name,
    )


def fit_analysis(evidence: Evidence, text: str) -> Analysis:
    """Fit a formula on the original and on the release, and compare the coefficients.

    Raises
    ------
    OptionError
        It is not a formula, a column is not published or has too many categories, or the response
        is neither a number nor has two values.
    """
    formula = parse_formula(text)
    columns = evidence.columns
    response = _feature(columns, formula.response, "analysis")
    terms = [_feature(columns, name, "analysis") for name in formula.terms]
    logistic = _is_binary(response)
    labels, before, after = _design(terms)
    y_before, y_after = _response(response, logistic)
    weights = columns.weights / max(float(columns.weights.mean()), np.finfo(float).tiny)
    fits = [
        _fit(matrix, y, weights, logistic=logistic)
        for matrix, y in ((before, y_before), (after, y_after))
    ]
    coefficients = tuple(
        Coefficient(
            label,
            tuple(fits[0][index].tolist()),
            tuple(fits[1][index].tolist()),
            _overlap(fits[0][index], fits[1][index]),
        )
        for index, label in enumerate(labels)
    )
    kind = "logistic" if logistic else "linear"
    return Analysis(str(formula), kind, coefficients, _event(response) if logistic else "")


def _is_binary(response: _Feature) -> bool:
    used = np.unique(response.before)
    used = used[used >= 0] if response.names is not None else used[~np.isnan(used)]
    if response.names is not None and len(used) != 2:
        raise OptionError(
            f"{response.name!r} has {len(used):,} categories. A response must be a number, or have "
            "two values.",
            code="option.unsupported",
            option="analysis",
            column=response.name,
        )
    return len(used) == 2


def _response(response: _Feature, logistic: bool) -> tuple[Floats, Floats]:
    """Return the response as numbers; of two values the larger (or later in order) is 1."""
    if not logistic:
        return np.asarray(response.before, float), np.asarray(response.after, float)
    low, high = _two_values(response)

    def indicator(side: Floats | Integers) -> Floats:
        missing = side < 0 if response.names is not None else np.isnan(side)
        # The mean of a cell between the two values counts as the nearer one.
        ones = side == high if response.names is not None else side >= (low + high) / 2
        return np.where(missing, np.nan, ones.astype(np.float64))

    return indicator(response.before), indicator(response.after)


def _two_values(response: _Feature) -> tuple[float, float]:
    """Return the lower and the higher value, or code, of a response with two values."""
    used = np.unique(response.before)
    used = used[used >= 0] if response.names is not None else used[~np.isnan(used)]
    return used[0], used[-1]


def _event(response: _Feature) -> str:
    """Return the value whose probability a logistic regression models, such as "sex = male"."""
    high = _two_values(response)[1]
    value = f"{high:g}" if response.names is None else response.names[int(high)]
    return f"{response.name} = {value}"


def _design(terms: Sequence[_Feature]) -> tuple[list[str], Floats, Floats]:
    """Return the labels and both design matrices: intercept, numbers, indicators of categories."""
    n_records = len(terms[0].before)
    labels = ["(intercept)"]
    before, after = [np.ones(n_records)], [np.ones(n_records)]
    for term in terms:
        if term.names is None:
            labels.append(term.name)
            before.append(np.asarray(term.before, float))
            after.append(np.asarray(term.after, float))
            continue
        counts = np.bincount(term.before[term.before >= 0], minlength=len(term.names))
        used = np.flatnonzero(counts)
        if len(used) > _MAX_CATEGORIES:
            raise OptionError(
                f"{term.name!r} has {len(used):,} categories, more than the {_MAX_CATEGORIES} that "
                "an analysis supports. Choose a coarser column.",
                code="option.unsupported",
                option="analysis",
                column=term.name,
            )
        reference = int(np.argmax(counts))
        for code in used.tolist():
            if code != reference:
                labels.append(f"{term.name}[{term.names[code]}]")
                for side, codes in ((before, term.before), (after, term.after)):
                    side.append(np.where(codes < 0, np.nan, (codes == code).astype(float)))
    return labels, np.column_stack(before), np.column_stack(after)


def _fit(matrix: Floats, y: Floats, weights: Floats, *, logistic: bool) -> Floats:
    """Return estimate, lower and upper bound of each coefficient; NaN if it cannot be estimated.

    Columns are centred and scaled first, so that dates and amounts can stand side by side.
    """
    complete = ~(np.isnan(matrix).any(axis=1) | np.isnan(y))
    x, y, w = matrix[complete], y[complete], weights[complete]
    out = np.full((matrix.shape[1], 3), np.nan)
    if not len(y):
        return out
    means, scales = x.mean(axis=0), x.std(axis=0)
    usable = np.r_[True, (scales > 0)[1:]]
    means[0], scales[0] = 0.0, 1.0
    z = ((x - means) / np.where(scales > 0, scales, 1.0))[:, usable]
    fit = _logistic(z, y, w) if logistic else _least_squares(z, y, w)
    if fit is None:
        return out
    beta, covariance = fit
    # Back to the units of the columns: the intercept absorbs the means.
    back = np.diag(1 / scales[usable])
    back[0, 1:] = -(means / np.where(scales > 0, scales, 1.0))[usable][1:]
    estimates = back @ beta
    errors = np.sqrt(np.maximum(np.diag(back @ covariance @ back.T), 0.0))
    out[usable] = np.column_stack((estimates, estimates - _Z * errors, estimates + _Z * errors))
    return out


def _least_squares(x: Floats, y: Floats, w: Floats) -> tuple[Floats, Floats] | None:
    root = np.sqrt(w)
    beta, _, rank, _ = np.linalg.lstsq(x * root[:, None], y * root, rcond=None)
    freedom = len(y) - int(rank)
    if freedom < 1:
        return None
    variance = float((w * np.square(y - x @ beta)).sum()) / freedom
    covariance = np.asarray(variance * np.linalg.pinv((x * w[:, None]).T @ x), np.float64)
    return np.asarray(beta, np.float64), covariance


def _logistic(x: Floats, y: Floats, w: Floats) -> tuple[Floats, Floats] | None:
    """Fit by Newton's method, with a weak ridge so that separated groups stay finite."""
    beta = np.zeros(x.shape[1])
    ridge = 1e-6 * np.eye(x.shape[1])
    for _ in range(_MAX_STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ beta, -30, 30)))
        hessian = (x * (w * p * (1 - p))[:, None]).T @ x + ridge
        step = np.linalg.solve(hessian, x.T @ (w * (y - p)) - ridge @ beta)
        beta = beta + step
        if np.abs(step).max() < _TOLERANCE:
            break
    return np.asarray(beta, np.float64), np.asarray(np.linalg.inv(hessian), np.float64)


def _overlap(before: Floats, after: Floats) -> float:
    """Return the mean share of each interval that the other covers.

    Examples
    --------
    >>> _overlap(np.array([1, 0, 2]), np.array([2, 1, 3]))
    0.5
    """
    low, high = max(before[1], after[1]), min(before[2], after[2])
    lengths = before[2] - before[1], after[2] - after[1]
    if not np.isfinite((low, high)).all() or min(lengths) <= 0:
        return float("nan")
    shared = max(0.0, high - low)
    return float(sum(shared / length for length in lengths) / 2)


def compare_groups(evidence: Evidence, name: str) -> tuple[GroupMean, ...]:
    """Compare the means of all numeric columns, and the rates of two-valued ones, by group.

    Raises
    ------
    OptionError
        The column is not published or is a number with many values.
    """
    columns = evidence.columns
    feature = _feature(columns, name, "by")
    if feature.names is None:
        feature = _as_categories(feature)
    assert feature.names is not None
    return tuple(
        _compare(columns.weights, feature, code, response)
        for response in _responses(columns)
        if response.column != name
        for code in range(len(feature.names))
        if (feature.before == code).any()
    )


def compare_small_groups(evidence: Evidence, k: int) -> tuple[GroupMean, ...]:
    """Compare means and rates in the smallest groups, those that change most first.

    A group is a category of a quasi-identifier or stratum with at least k people, and at most one
    in ten: smaller groups are not reported. Of many groups the smallest are taken, and of many
    columns the confidential ones first.
    """
    columns, schema = evidence.columns, evidence.schema
    confidential = {column.name for column in schema.confidential}
    responses = sorted(_responses(columns), key=lambda item: item.column not in confidential)
    groups: list[tuple[int, _Feature, int]] = []
    for name in _grouping_columns(columns):
        feature = _feature(columns, name, "by")
        if feature.names is not None:
            people = people_by_category(
                np.asarray(feature.before), evidence.persons, len(feature.names)
            )
            most = _SMALL * float(people.sum())
            groups += [
                (int(people[code]), feature, code)
                for code in np.flatnonzero((people >= max(k, 2)) & (people <= most)).tolist()
            ]
    groups.sort(key=lambda item: item[0])
    results = [
        _compare(columns.weights, feature, code, response)
        for _, feature, code in groups[:_MAX_GROUPS]
        for response in [item for item in responses if item.column != feature.name][:_MAX_RESPONSES]
    ]
    return tuple(sorted(results, key=lambda item: -abs(np.nan_to_num(item.change))))


def _grouping_columns(columns: ColumnPairs) -> list[str]:
    """Return the categorical quasi-identifiers and the strata."""
    quasi = {column.name for column in columns.schema.quasi}
    return [
        *(item.name for item in columns.categories if item.name in quasi),
        *columns.schema.strata,
    ]


@dataclass(frozen=True, eq=False)
class _Response:
    """A column whose means are compared: its numbers, or the indicator of one of two values."""

    column: str
    label: str
    before: Floats
    after: Floats

    @cached_property
    def spread(self) -> float:
        """Standard deviation in the original."""
        known = self.before[~np.isnan(self.before)]
        scaled, exponent = _scale_down(known)
        return float(np.ldexp(scaled.std(), exponent)) if len(known) else 0.0


def _compare(weights: Floats, feature: _Feature, code: int, response: _Response) -> GroupMean:
    assert feature.names is not None
    rows = feature.before == code, feature.after == code
    before, after = (
        _mean(values[chosen], weights[chosen])
        for values, chosen in zip((response.before, response.after), rows, strict=True)
    )
    spread = response.spread
    change = after / spread - before / spread if spread else after - before
    counts = int(rows[0].sum()), int(rows[1].sum())
    return GroupMean(
        feature.name, feature.names[code], response.label, *counts, before, after, change
    )


def _responses(columns: ColumnPairs) -> list[_Response]:
    """Return the numeric columns, and two-valued categories as rates, before and after."""
    out = []
    for quantity in columns.quantities.columns:
        if quantity.unit in (None, "seconds"):
            feature = _feature(columns, quantity.name, "by")
            sides = np.asarray(feature.before, float), np.asarray(feature.after, float)
            out.append(_Response(feature.name, feature.name, *sides))
    for category in columns.categories:
        used = np.unique(category.before[category.before >= 0])
        if len(used) == 2:
            label = f"{category.name} = {category.names[int(used[1])]}"
            rates = (_rate(category.before, int(used[1])), _rate(category.after, int(used[1])))
            out.append(_Response(category.name, label, *rates))
    return out


def _rate(codes: Integers, code: int) -> Floats:
    return np.where(codes < 0, np.nan, (codes == code).astype(np.float64))


def _as_categories(feature: _Feature) -> _Feature:
    values = np.asarray(feature.before)[~np.isnan(feature.before)]
    distinct = np.unique(values)
    if len(distinct) > _MAX_CATEGORIES:
        raise OptionError(
            f"{feature.name!r} has {len(distinct):,} values, more than the {_MAX_CATEGORIES} "
            "groups that are compared. Choose a column with fewer values.",
            code="option.unsupported",
            option="by",
            column=feature.name,
        )

    def code(side: Floats | Integers) -> Integers:
        position = np.clip(np.searchsorted(distinct, side), 0, len(distinct) - 1)
        return np.where(distinct[position] == side, position, -1).astype(np.int64)

    names = tuple(f"{value:g}" for value in distinct.tolist())
    return _Feature(feature.name, code(feature.before), code(feature.after), names)


def _mean(values: Floats, weights: Floats) -> float:
    present = ~np.isnan(values)
    total = float(weights[present].sum())
    if not total > 0:
        return float("nan")
    scaled, exponent = _scale_down(values[present])
    mean = (scaled * weights[present]).sum() / total
    return float(np.ldexp(np.clip(mean, scaled.min(), scaled.max()), exponent))


def _scale_down(numbers: Floats) -> tuple[Floats, int]:
    """Scale to at most 1 by a power of two, which is exact, so that sums do not overflow."""
    exponent = int(np.frexp(np.abs(numbers).max(initial=0.0))[1])
    return np.ldexp(numbers, -exponent), exponent
