"""The scikit-learn face: microaggregation as a transformer of numeric columns. Needs the extra ``sklearn``."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.kernels.arrays import centroids
from microcell.kernels.trees import nearest_rows
from microcell.methods import check_k, check_method, distortion, partition
from microcell.model import Floats, Integers

__all__ = ["Microaggregator"]

LARGEST = 1e300
"""Sums of larger entries would overflow."""

FARTHEST = 1e100
"""Coordinates beyond this are drawn in to it, so that their squares do not overflow."""

TINY = 2.0**-900
"""Columns of a smaller range are multiplied up first, so that their scale does not vanish."""

KEPT_MESSAGES = (
    "Found array with",
    "X has ",
    "The feature names should match",
    "Expected a 2-dimensional container",
)
"""How scikit-learn's messages begin that hold no value of X. Others may hold one, and are not passed on."""

RESTATED_MESSAGES = {
    "Expected 2D array": "X has one dimension or none, expected a matrix of records by columns. Reshape your data: "
    "X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is one record.",
    "Expected unique column names": "Two columns of X have the same name. Rename one.",
    "Complex data": "Complex data not supported: X must hold real numbers. Give the parts as two columns.",
}
"""What is said instead of scikit-learn's messages that begin so."""


class Microaggregator(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Records replaced by the means of cells of k or more.

    The fitted estimator holds the records that it was fitted to, because it must recognise them: it is as confidential
    as they are, and not for publication. What ``transform`` returns for the whole fitted table is k-anonymous on its
    columns. A part of that table, or a table of new rows, need not be: nobody has counted it.

    Parameters
    ----------
    k
        The least number of records in a cell, 2 or more.
    method
        "auto" or a registered method (``microcell methods`` lists them).
    standardize
        True to measure distances with every column at variance 1; False to use the columns as they are.
    options
        The method's own options by name, for example ``{"gamma": 0.2}``.
    random_state
        For methods that use chance: a whole number of 0 or more, a ``numpy.random.RandomState``, or None.

    Attributes
    ----------
    labels_
        The cell of each fitted record, by position.
    cell_sizes_
        The number of fitted records in each cell.
    cluster_centers_
        The mean of each cell, in the units of X, one row a cell.
    distortion_
        D = SSE / SST of the fitted records, in the space where distances were measured. Lower is better.
    method_
        The method that was used.
    n_features_in_, feature_names_in_
        The number of columns, and their names if X had names.

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
        random_state: Any = 0,
    ) -> None:
        self.k = k
        self.method = method
        self.standardize = standardize
        self.options = options
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "Microaggregator":  # noqa: ARG002
        """This estimator, fitted: the rows of X are in cells of k or more. ``y`` is not used.

        Raises :class:`OptionError` for a wrong parameter, :class:`TooFewRecordsError` for fewer rows than k, and
        :class:`DataError` for entries that are not finite numbers.
        """
        self._check_parameters()
        rows = self._read(X, reset=True).astype(np.float64)
        if len(rows) < self.k:
            raise TooFewRecordsError(
                f"n_samples={len(rows)} rows cannot make a cell of k = {self.k}. Lower k, or add rows."
            )
        scaling = _Scaling.of(rows, standardize=self.standardize)
        points = scaling.place(rows) if self.standardize else rows
        seed = _seed_of(self.random_state)
        cells = partition(points, self.k, method=self.method, seed=seed, **(self.options or {}))
        self.labels_ = cells.labels
        self.cell_sizes_ = cells.sizes
        self.cluster_centers_ = _means(rows, cells.labels)
        self.distortion_ = distortion(points, cells.labels)
        self.method_ = cells.method
        self._rows, self._scaling = rows, scaling
        return self

    def transform(self, X: Any) -> Any:
        """For each row of X, the mean of its cell: a fitted row's own, the nearest one of a new row.

        Equal rows may be in different cells. So the first of several equal rows gets the cell of the first such row
        in the fitted table, the second that of the second, and so on, from the first again after the last. The fitted
        table thus has the fitted cell sizes in any order of its rows, as long as it is given in one piece. Finding
        fitted rows takes O(n log n) time; a new row takes O(log g) for g cells in few dimensions, O(g) in many.
        """
        check_is_fitted(self)
        given = self._read(X, reset=False)
        rows = given.astype(np.float64)
        found = _find(self._rows, rows)
        labels = self.labels_[found]
        new = found < 0
        if new.any():
            centres = self._scaling.place(self.cluster_centers_)
            labels[new] = nearest_rows(centres, self._scaling.place(rows[new]))
        return self.cluster_centers_[labels].astype(given.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check_parameters(self) -> None:
        check_k(self.k)
        if not isinstance(self.method, str):
            raise OptionError(
                f"method must be 'auto' or the name of a method, not {self.method!r}."
            )
        if not (self.options is None or isinstance(self.options, Mapping)):
            raise OptionError(
                f"options must be a dict of the method's options by name, not {self.options!r}."
            )
        check_method(self.method, self.options or {})
        if not isinstance(self.standardize, (bool, np.bool_)):
            raise OptionError(f"standardize must be True or False, not {self.standardize!r}.")

    def _read(self, X: Any, *, reset: bool) -> Any:
        """X as a C-contiguous matrix of finite float64, or float32 if it is that."""
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
class _Scaling:
    """From the units of X to the space where distances are measured, one entry a column."""

    factor: Floats
    origin: Floats
    centre: Floats
    scale: Floats

    @classmethod
    def of(cls, rows: Floats, *, standardize: bool) -> "_Scaling":
        """Each column at mean 0 and variance 1; or, not standardized, all columns divided by the same number."""
        columns = np.ascontiguousarray(
            rows.T
        )  # sums along memory round as those of a single column do
        low, high = columns.min(axis=1), columns.max(axis=1)
        if not standardize:
            half = np.full(len(low), np.max(high / 2 - low / 2) or 1.0)
            return cls(np.ones(len(low)), low, half, half)
        factor = np.where((low < high) & (high - low < TINY), 2.0**600, 1.0)
        return cls._standardizing(
            columns * factor[:, np.newaxis], low * factor, high * factor, factor
        )

    @classmethod
    def _standardizing(
        cls, columns: Floats, low: Floats, high: Floats, factor: Floats
    ) -> "_Scaling":
        """In the steps of :mod:`microcell.encoding`, so that the cells are the same even where distances tie."""
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        constant = half == 0
        half[constant] = 1.0
        centred = (columns - middle[:, np.newaxis]) / half[:, np.newaxis]
        mean = centred.mean(axis=1)
        deviation = np.sqrt(((centred - mean[:, np.newaxis]) ** 2).mean(axis=1))
        shift, scale = mean * half, deviation * half
        grid = np.where(half >= 0.5, 1.0, np.ldexp(0.5, np.frexp(scale)[1]))
        origin = np.rint((middle + shift) / grid) * grid
        scale[constant] = np.inf  # a column with one value carries no distance
        return cls(factor, origin, middle - origin + shift, scale)

    def place(self, rows: Floats) -> Floats:
        """The rows as points."""
        with np.errstate(over="ignore"):
            points = (rows * self.factor - self.origin - self.centre) / self.scale
        return np.clip(points, -FARTHEST, FARTHEST)


def _seed_of(random_state: Any) -> int:
    """A whole number as it is; one drawn from a generator otherwise."""
    whole = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if whole and random_state >= 0:
        return int(random_state)
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(2**31 - 1))
    raise OptionError(
        f"random_state must be a whole number of 0 or more, a RandomState or None, not {random_state!r}."
    )


def _means(rows: Floats, labels: Integers) -> Floats:
    """The mean of each cell, summed from its first record: exact where records are equal, precise far from zero."""
    first = rows[np.unique(labels, return_index=True)[1]]
    return first + centroids(rows - first[labels], labels, np.ones(len(rows)))


def _find(known: Floats, rows: Floats) -> Integers:
    """For each row, the number of the known row that it is, or -1.

    The i-th of equal rows is the i-th of the equal known rows, from the first again after the last. O(n log n).
    """
    both = (
        np.concatenate([known, rows]) + 0.0
    )  # -0.0 becomes 0.0, so that equal numbers are equal bytes
    keys = both.view(np.dtype((np.void, both.itemsize * both.shape[1]))).ravel()
    value = np.unique(keys, return_inverse=True)[1]
    known_value, row_value = value[: len(known)], value[len(known) :]
    count = np.bincount(known_value, minlength=value.max() + 1)
    seen = np.flatnonzero(count[row_value])
    asked = row_value[seen]
    place = (np.cumsum(count) - count)[asked] + _occurrence(row_value)[seen] % count[asked]
    out = np.full(len(rows), -1, dtype=np.int64)
    out[seen] = np.argsort(known_value, kind="stable")[place]
    return out


def _occurrence(values: Integers) -> Integers:
    """How often each entry occurs before its place.

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


# ---------------------------------------------------------------------------------------------- refusals


def _as_floats(rows: Any) -> Floats:
    """The matrix in float64, if it holds numbers. NumPy would take dates for numbers too, and a missing date."""
    with suppress(TypeError, ValueError, OverflowError):
        if rows.dtype.kind in "biufO":
            return np.asarray(rows, dtype=np.float64)
    raise _no_numbers(rows)


def _check_finite(rows: Any) -> None:
    wrong = ~(np.abs(rows, dtype=np.float64) <= LARGEST)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise DataError(
            f"X must hold finite numbers within ±{LARGEST:g}: row {row + 1}, column {column + 1} is missing (NaN), "
            f"infinite or larger, the first of {wrong.sum()} such entries. Remove or impute them."
        )


def _without_values(error: ValueError, X: Any) -> ValueError:
    """The error itself if its message holds no value of X, or one that says the same without values."""
    message = str(error)
    if message.startswith(KEPT_MESSAGES):
        return error
    for beginning, words in RESTATED_MESSAGES.items():
        if message.startswith(beginning):
            return DataError(words)
    return _no_numbers(X)


def _no_numbers(X: Any) -> DataError:
    return DataError(
        f"X must be a matrix of numbers, its rows equally long{_place_of_text(X)}. For other columns use "
        "microcell.anonymize, or a ColumnTransformer that picks the numeric ones."
    )


def _place_of_text(X: Any) -> str:
    """Where the first entry stands that is no number, in words; empty if X is no matrix."""
    try:
        entries = np.asarray(X, dtype=object)
    except ValueError:
        return ""
    if entries.ndim != 2:
        return ""
    wrong = (place for place, entry in np.ndenumerate(entries) if not _is_number(entry))
    return next(
        (
            f"; the entry in row {row + 1}, column {column + 1} is no number"
            for row, column in wrong
        ),
        "",
    )


def _is_number(entry: Any) -> bool:
    try:
        float(entry)
    except (TypeError, ValueError, OverflowError):
        return False
    return True
