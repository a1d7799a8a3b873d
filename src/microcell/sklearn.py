"""The scikit-learn estimator: microaggregation of numeric columns. Needs the extra ``sklearn``."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from microcell import encoding, tables
from microcell._extras import missing_extra
from microcell.api import partition
from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.kernels.arrays import centroids, distinct_rows
from microcell.kernels.trees import nearest_rows
from microcell.methods import check_k, check_method, distortion
from microcell.methods.persons import as_persons
from microcell.model import Column, Encoding, Floats, Integers, Schema, Table
from microcell.schema import resolve

try:
    from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise missing_extra("Estimators", "scikit-learn", extra="sklearn") from None

__all__ = ["Microaggregator"]

LARGEST = 1e300
"""Largest entry that is accepted; sums of larger ones would overflow."""

FARTHEST = 1e100
"""Larger coordinates are clipped, so that their squares do not overflow."""


SAFE_MESSAGES = (
    "Found array with",
    "X has ",
    "The feature names should match",
    "Expected a 2-dimensional container",
)
"""Prefixes of scikit-learn's messages that contain no value of X. Others may, and are not passed
on."""

REPLACED_MESSAGES = {
    "Expected 2D array": "X must be a matrix of records by columns. Reshape your data: use "
    "X.reshape(-1, 1) for a single column or X.reshape(1, -1) for a single record.",
    "Expected unique column names": "Two columns of X have the same name. Rename one of them.",
    "Complex data": "Complex data not supported: X must contain real numbers. Pass real and "
    "imaginary parts as two columns.",
}
"""Replacements for scikit-learn's messages, by prefix."""


class Microaggregator(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Replace records by the means of cells of at least k.

    The fitted estimator contains the records that it was fitted to, because it must recognise them:
    it is as confidential as they are and must not be published. What ``transform`` returns for the
    whole fitted table is k-anonymous on its columns. Part of that table, or a table of new rows,
    need not be. If a person may have several rows, pass the person of each row as ``groups`` to
    ``fit`` or ``fit_transform``: k then counts distinct groups.

    Parameters
    ----------
    k
        Minimum number of records per cell, at least 2; with ``groups``, of distinct groups.
    method
        "auto" or a registered method (``microcell methods`` lists them).
    standardize
        True to measure distances with every column at variance 1; False to use the columns as they
        are.
    options
        Options of the method by name, for example ``{"gamma": 0.2}``.
    require
        Limits on cells by measure, such as ``{"l_diversity": 2}``. They apply to ``y``, the
        confidential values.
    random_state
        Random seed: an integer of at least 0, a ``numpy.random.RandomState``, or None.

    Attributes
    ----------
    labels_
        Cell of each fitted record, by position.
    cell_sizes_
        Number of fitted records in each cell.
    cell_people_
        Number of distinct groups in each cell; the cell sizes if ``groups`` was not passed.
    cluster_centers_
        Mean of each cell, in the units of X, one row per cell.
    distortion_
        D = SSE / SST of the fitted records, in the space where distances are measured. Lower is
        better.
    method_
        The method that was used.
    n_features_in_, feature_names_in_
        Number of columns, and their names if X had names.

    Examples
    --------
    >>> X = [[2, 1], [3, 2], [3, 2], [20, 19], [21, 20]]
    >>> cells = Microaggregator(k=2).fit(X)
    >>> cells.transform(X).round(4)
    array([[ 2.6667,  1.6667],
           [ 2.6667,  1.6667],
           [ 2.6667,  1.6667],
           [20.5   , 19.5   ],
           [20.5   , 19.5   ]])
    >>> cells.transform([[30, 30]])
    array([[20.5, 19.5]])
    """

    def __init__(
        self,
        k: int = 5,
        *,
        method: str = "auto",
        standardize: bool = True,
        options: Mapping[str, Any] | None = None,
        require: Mapping[str, float] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.k = k
        self.method = method
        self.standardize = standardize
        self.options = options
        self.require = require
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> "Microaggregator":
        """Group the rows of X into cells of at least k and return the estimator.

        ``y`` is used only with ``require``, as the confidential values that the limits apply to:
        an array, or a dict or data frame of several columns. The limits hold for the fitted rows.

        ``groups`` is the person (or household, or company) that each row is about, one value per
        row, if a person may have several rows. Every cell then has at least k distinct groups, and
        so has the result of ``transform`` for the whole fitted table in its original order.

        Raises :class:`OptionError` for an invalid parameter, :class:`TooFewRecordsError` for fewer
        rows or groups than k, and :class:`DataError` for entries that are not finite numbers.
        """
        self._check_parameters()
        rows = self._read(X, reset=True).astype(np.float64)
        persons = _as_groups(groups, len(rows))
        _check_enough(len(rows), persons, int(self.k))
        scaling = (_Standardizing if self.standardize else _Scaling).fit(rows)
        points = scaling.place(rows) if self.standardize else rows
        seed = _seed_of(self.random_state)
        cells = partition(
            points,
            self.k,
            method=self.method,
            persons=persons,
            seed=seed,
            require=self.require,
            confidential=y if self.require else None,
            **(self.options or {}),
        )
        self.labels_ = cells.labels
        self.cell_sizes_ = cells.sizes
        self.cell_people_ = cells.people
        self.cluster_centers_ = _means(rows, cells.labels)
        self.distortion_ = distortion(points, cells.labels)
        self.method_ = cells.method
        self._rows, self._scaling = rows, scaling
        return self

    def transform(self, X: Any) -> Any:
        """Replace each row of X by the mean of its cell; a new row goes to the nearest cell.

        Equal rows may be in different cells, so the first of several equal rows gets the cell of
        the first such row in the fitted table, the second that of the second, and so on, starting
        over after the last. The fitted table thus has the fitted cell sizes in any order of its
        rows, as long as it is passed as a whole. Finding fitted rows takes O(n log n) time; a new
        row takes O(log g) for g cells in few dimensions, O(g) in many.
        """
        check_is_fitted(self)
        checked = self._read(X, reset=False)
        rows = checked.astype(np.float64)
        matches = _match(self._rows, rows)
        labels = self.labels_[matches]
        new = matches < 0
        if new.any():
            centres = self._scaling.place(self.cluster_centers_)
            labels[new] = nearest_rows(centres, self._scaling.place(rows[new]))
        return self.cluster_centers_[labels].astype(checked.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check_parameters(self) -> None:
        check_k(self.k)
        if not isinstance(self.method, str):
            raise OptionError(
                f"method must be 'auto' or the name of a method, not {self.method!r}.",
                code="option.wrong_type",
                option="method",
            )
        if not (self.options is None or isinstance(self.options, Mapping)):
            raise OptionError(
                f"options must be a dict of options by name, not {self.options!r}.",
                code="option.wrong_type",
                option="options",
            )
        check_method(self.method, self.options or {})
        if not isinstance(self.standardize, (bool, np.bool_)):
            raise OptionError(
                f"standardize must be True or False, not {self.standardize!r}.",
                code="option.wrong_type",
                option="standardize",
            )

    def _read(self, X: Any, *, reset: bool) -> Any:
        """Return X as a C-contiguous matrix of finite float32 or float64 numbers."""
        try:
            rows = validate_data(
                self, X, reset=reset, dtype="numeric", order="C", ensure_all_finite=False
            )
        except ValueError as error:
            raise _without_values(error, X) from None
        rows = rows if rows.dtype == np.float32 else _as_floats(rows)
        _check_finite(rows)
        return rows


@dataclass(frozen=True, eq=False)
class _Standardizing:
    """Scaling of each column to mean 0 and variance 1, as in :func:`microcell.anonymize`."""

    encoding: Encoding

    @classmethod
    def fit(cls, rows: Floats) -> "_Standardizing":
        table = _as_table(rows)
        columns = [Column(name, kind="numeric") for name in table.names]
        return cls(encoding.fit(table, resolve.resolve(Schema(quasi=columns), table)))

    def place(self, rows: Floats) -> Floats:
        return encoding.place(_as_table(rows), self.encoding).matrix


@dataclass(frozen=True, eq=False)
class _Scaling:
    """Scaling that shifts each column and divides all of them by the same number."""

    origin: Floats
    scale: float

    @classmethod
    def fit(cls, rows: Floats) -> "_Scaling":
        low, high = rows.min(axis=0), rows.max(axis=0)
        return cls(low, float(np.max(high / 2 - low / 2)) or 1.0)

    def place(self, rows: Floats) -> Floats:
        with np.errstate(over="ignore"):
            points = (rows - self.origin - self.scale) / self.scale
        return np.clip(points, -FARTHEST, FARTHEST)


def _as_table(rows: Floats) -> Table:
    return tables.read({f"x{place}": column for place, column in enumerate(rows.T)})


def _as_groups(groups: Any, n: int) -> Integers | None:
    """Number the groups of the rows 0, 1, 2, ..."""
    try:
        return as_persons(groups, n)
    except (OptionError, TypeError):  # TypeError: values of types that cannot be sorted
        raise OptionError(
            f"groups must have one value per row of X ({n}), none missing, all of one type.",
            code="option.invalid",
            option="groups",
        ) from None


def _check_enough(n: int, persons: Integers | None, k: int) -> None:
    people = n if persons is None else len(np.unique(persons))
    if people < k:
        quantity, noun = ("n_samples", "row") if persons is None else ("n_groups", "group")
        raise TooFewRecordsError(
            f"{quantity}={people} is too few for k = {k}. Lower k or add {noun}s.",
            code="guarantee.too_few_records",
            k=k,
            records=people,
            unit="records" if persons is None else "persons",
        )


def _seed_of(random_state: Any) -> int:
    """Return an integer seed unchanged, or draw one from a generator."""
    is_integer = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if is_integer and random_state >= 0:
        return int(random_state)
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(2**31 - 1))
    raise OptionError(
        "random_state must be an integer of at least 0, a RandomState or None, not "
        f"{random_state!r}.",
        code="option.invalid",
        option="random_state",
    )


def _means(rows: Floats, labels: Integers) -> Floats:
    """Return the mean of each cell, summed relative to its first record.

    This is exact for equal records and precise far from zero.
    """
    first = rows[np.unique(labels, return_index=True)[1]]
    return first + centroids(rows - first[labels], labels, np.ones(len(rows)))


def _match(fitted: Floats, rows: Floats) -> Integers:
    """Return for each row the index of an equal fitted row, or -1 if there is none.

    The i-th of several equal rows matches the i-th of the equal fitted rows, starting over after
    the last. O(n log n).
    """
    value = distinct_rows(np.concatenate([fitted, rows])).place
    fitted_value, row_value = value[: len(fitted)], value[len(fitted) :]
    count = np.bincount(fitted_value, minlength=value.max() + 1)
    seen = np.flatnonzero(count[row_value])
    values = row_value[seen]
    place = (np.cumsum(count) - count)[values] + _occurrence(row_value)[seen] % count[values]
    out = np.full(len(rows), -1, dtype=np.int64)
    out[seen] = np.argsort(fitted_value, kind="stable")[place]
    return out


def _occurrence(values: Integers) -> Integers:
    """Return, for each entry, how many equal entries come before it.

    Examples
    --------
    >>> _occurrence(np.array([7, 3, 7, 7, 3]))
    array([0, 0, 1, 2, 1])
    """
    count = np.bincount(values)
    order = np.argsort(values, kind="stable")
    out = np.empty(len(values), dtype=np.int64)
    out[order] = np.arange(len(values)) - (np.cumsum(count) - count)[values[order]]
    return out


def _as_floats(rows: Any) -> Floats:
    """Return the matrix as float64 if it contains numbers; NumPy would also convert dates."""
    with suppress(TypeError, ValueError, OverflowError):
        if rows.dtype.kind in "biufO":
            return np.asarray(rows, dtype=np.float64)
    raise _not_numbers(rows)


def _check_finite(rows: Any) -> None:
    wrong = ~(np.abs(rows, dtype=np.float64) <= LARGEST)
    if wrong.any():
        row, column = (np.argwhere(wrong)[0] + 1).tolist()
        raise DataError(
            f"X must contain finite numbers within ±{LARGEST:g}: row {row}, column {column} is "
            f"missing (NaN), infinite or too large (first of {wrong.sum()}). Remove or impute "
            "these entries.",
            code="data.not_finite",
            row=row,
            column=column,
        )


def _without_values(error: ValueError, X: Any) -> ValueError:
    """Return the error if its message contains no value of X, otherwise a safe replacement."""
    message = str(error)
    if message.startswith(SAFE_MESSAGES):
        return error
    for prefix, replacement in REPLACED_MESSAGES.items():
        if message.startswith(prefix):
            return DataError(replacement, code="data.invalid")
    return _not_numbers(X)


def _not_numbers(X: Any) -> DataError:
    place = _first_not_a_number(X)
    where = f"; row {place['row']}, column {place['column']} is not a number" if place else ""
    return DataError(
        f"X must be a matrix of numbers with rows of equal length{where}. For other columns use "
        "microcell.anonymize, or a ColumnTransformer that selects the numeric ones.",
        code="data.not_a_number",
        **place,
    )


def _first_not_a_number(X: Any) -> dict[str, int]:
    """Return the row and column of the first entry that is not a number, if there is one."""
    try:
        entries = np.asarray(X, dtype=object)
    except ValueError:
        return {}
    if entries.ndim != 2:
        return {}
    for (row, column), entry in np.ndenumerate(entries):
        if not _is_number(entry):
            return {"row": row + 1, "column": column + 1}
    return {}


def _is_number(entry: Any) -> bool:
    try:
        float(entry)
    except (TypeError, ValueError, OverflowError):
        return False
    return True
