"""Learning: how useful the published table is for training a model, compared with the original.

Histogram gradient boosting of scikit-learn predicts a target column from the quasi-identifiers and
the other confidential columns. Two models are trained on a random 70 % of the records: one on the
published values, one on the original values. Both predict the remaining 30 % from their original
values. The baseline predicts the most frequent class, or the mean, of the 70 %.

Categories, booleans, ranks, and numbers with at most 10 distinct values are classes: the 20 most
frequent, and all others as one; the score is the accuracy. Other numbers and dates are scored with
R² = 1 - SSE / SST on the 30 %. Categorical features are codes, the 250 most frequent and the others
as one; postal codes and the like are ranks, a prefix the middle of its codes. Records without a
target value are left out. At most 50,000 records are used, drawn at random. The same random seed
gives the same scores.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from microcell._extras import missing_extra
from microcell.errors import DataError, OptionError
from microcell.kinds import kind_of
from microcell.kinds.losses import centre
from microcell.measures.pairs import ColumnPairs
from microcell.measures.registry import Value, measure
from microcell.model import Column, Floats, Integers, Mask, Schema, Table, Values

if TYPE_CHECKING:
    from microcell.measures.evidence import Evidence

__all__ = ["LearningScores", "learn_task"]

MAX_RECORDS = 50_000
"""Maximum number of records used; larger tables are sampled."""

_THREADING_RECORDS = 10_000
"""Number of records from which several threads are faster than one."""

_TRAINING_SHARE = 0.7
"""Share of the records that models are trained on."""

_MIN_RECORDS = 10
"""Minimum number of records with a target value."""

_MAX_NUMERIC_CLASSES = 10
"""Numbers with at most this many distinct values are learned as classes."""

_MAX_CLASSES = 20
"""Maximum number of target classes; rarer ones are merged."""

_MAX_CATEGORIES = 250
"""Maximum number of categories per feature (the model has 255 bins); rarer ones are merged."""

_ROLES: Mapping[str, str] = {
    "quasi": "a quasi-identifier",
    "identifiers": "an identifier",
    "weight": "the weight",
    "drop": "dropped",
}
"""Descriptions of the roles that a target must not have."""


@dataclass(frozen=True)
class LearningScores:
    """Accuracy or R² of the predictions of a target column."""

    target: str
    classes: bool
    released: float
    original: float
    baseline: float

    def value(self, score: float) -> Value:
        """Return a score with its unit."""
        detail = f"Target: {self.target}."
        return Value(score, detail, unit="share" if self.classes else "R²")


@dataclass(frozen=True, eq=False)
class _Features:
    """Features before and after: one row per record, NaN where missing."""

    before: Floats
    after: Floats
    categorical: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class _Target:
    """The target of each matched record, as a class or a number; NaN where missing."""

    numbers: Floats
    classes: bool


@measure(
    "task_released",
    label="Prediction learned from the release",
    unit="share",
    lower_is_better=False,
    section="utility",
    needs="target",
    meaning="How well a model trained on the published records predicts a column of original "
    "records held back for testing: share of correct predictions, or R² for numbers.",
)
def task_released(evidence: "Evidence") -> Value:
    return evidence.learning.value(evidence.learning.released)


@measure(
    "task_original",
    label="Prediction learned from the original",
    unit="share",
    lower_is_better=False,
    section="utility",
    needs="target",
    meaning="How well the same model predicts them when trained on the original records.",
)
def task_original(evidence: "Evidence") -> Value:
    return evidence.learning.value(evidence.learning.original)


@measure(
    "task_baseline",
    label="Prediction without learning",
    unit="share",
    lower_is_better=False,
    section="utility",
    needs="target",
    meaning="How well the most frequent value, or the mean, predicts them.",
)
def task_baseline(evidence: "Evidence") -> Value:
    return evidence.learning.value(evidence.learning.baseline)


@measure(
    "task_loss",
    label="Prediction loss",
    unit="share",
    section="utility",
    needs="target",
    meaning="How much worse the column is predicted by a model trained on the release than by one "
    "trained on the original.",
    headline="How much worse a model trained on the release predicts.",
)
def task_loss(evidence: "Evidence") -> Value:
    scores = evidence.learning
    return scores.value(scores.original - scores.released)


def learn_task(evidence: "Evidence", *, seed: int = 0) -> LearningScores:
    """Train and test the models.

    Raises
    ------
    OptionError
        The target is not a column that is published unchanged, or scikit-learn is not installed.
    DataError
        The target is constant or has fewer than 10 values, or no other column varies.
    """
    models = _import_models()
    name = str(evidence.target)
    _check_target(evidence.original, evidence.released, evidence.schema, name)
    column = _column(evidence.schema, name)
    target = _read_target(evidence.original.columns[name], column, evidence.columns.rows)
    rows = _draw_records(target, name, seed)
    features = _read_features(evidence.columns, rows, without=name)
    if not features.categorical:
        raise DataError(
            f"Cannot learn {name!r}: no quasi-identifier and no other confidential column varies. "
            "Choose another target, or omit it.",
            code="data.invalid",
            column=name,
        )
    expected = target.numbers[rows]
    n_training = min(max(round(_TRAINING_SHARE * len(rows)), 1), len(rows) - 1)
    training, testing = expected[:n_training], expected[n_training:]
    make_model = (
        models.HistGradientBoostingClassifier
        if target.classes
        else models.HistGradientBoostingRegressor
    )
    guess = np.full(len(testing), _baseline(training, target.classes))

    def score(values: Floats) -> float:
        # The model has no bins for a column without any value.
        usable = ~np.isnan(values[:n_training]).all(axis=0)
        categorical = np.array(features.categorical)[usable]
        model = make_model(
            categorical_features=categorical, early_stopping=False, random_state=seed
        )
        predicted = _predict(
            model, values[:n_training, usable], training, features.before[n_training:, usable]
        )
        return _score(guess if predicted is None else predicted, testing, target.classes)

    return LearningScores(
        target=name,
        classes=target.classes,
        released=score(features.after),
        original=score(features.before),
        baseline=_score(guess, testing, target.classes),
    )


def _import_models() -> Any:
    try:
        import sklearn.ensemble as models  # noqa: PLC0415
    except ImportError:
        raise missing_extra("Targets", "scikit-learn", extra="sklearn", option="target") from None
    return models


# ---------------------------------------------------------------------------------------- target


def _check_target(original: Table, released: Table, schema: Schema, target: str) -> None:
    for which, table in (("original", original), ("released", released)):
        if target not in table.columns:
            raise OptionError(
                f"The {which} table has no target column {target!r}. Choose a column that is "
                "published unchanged.",
                code="option.unknown",
                option="target",
                column=target,
                table=which,
            )
    role = dict(schema.roles()).get(target, "")
    if role not in ("confidential", "keep", "strata"):
        raise OptionError(
            f"Column {target!r} cannot be the target: in the schema it is "
            f"{_ROLES.get(role, 'not mentioned')}. Choose a column that is published unchanged "
            "(confidential, kept or a stratum).",
            code="option.invalid",
            option="target",
            column=target,
        )


def _column(schema: Schema, target: str) -> Column:
    """Return the target's declaration; a kept column gets one without a kind."""
    return next((column for column in schema.confidential if column.name == target), Column(target))


def _read_target(values: Values, column: Column, pairs: Integers) -> _Target:
    is_line = column.kind is None or kind_of(column).layout == "line"
    if is_line and (values.is_number or values.is_time):
        quantity = Column(column.name, kind="datetime" if values.is_time else "numeric")
        numbers = kind_of(quantity).quantity(quantity, values)[pairs]
        if len(np.unique(numbers[~np.isnan(numbers)])) > _MAX_NUMERIC_CLASSES:
            # R² does not depend on the scale, and numbers near 1 do not overflow when squared.
            return _Target(_rescale(numbers, numbers)[0], False)
    codes = values.factorize()[0][pairs]
    return _Target(_rank_by_frequency(codes, codes, limit=_MAX_CLASSES)[0], True)


def _rank_by_frequency(
    before: NDArray[Any], after: NDArray[Any], *, limit: int
) -> tuple[Floats, Floats]:
    """Renumber codes from the most frequent one, merging those beyond the limit; NaN for -1."""
    count = int(max(before.max(initial=-1), after.max(initial=-1))) + 1
    frequency = np.bincount(before[before >= 0], minlength=count)
    ranks = np.full(count + 1, np.nan)
    ranks[np.argsort(-frequency, kind="stable")] = np.minimum(np.arange(count), limit)
    return ranks[before], ranks[after]


def _draw_records(target: _Target, name: str, seed: int) -> Integers:
    """Return the records to use, in random order."""
    present = np.flatnonzero(~np.isnan(target.numbers))
    if len(present) < _MIN_RECORDS:
        raise DataError(
            f"Column {name!r} has a value in only {len(present)} of the published records; a "
            f"target needs at least {_MIN_RECORDS}. Choose another target.",
            code="data.missing_values",
            column=name,
        )
    if (target.numbers[present] == target.numbers[present[0]]).all():
        raise DataError(
            f"Column {name!r} has the same value in all records, so there is nothing to learn. "
            "Choose another target.",
            code="data.invalid",
            column=name,
        )
    return np.random.default_rng(seed).permutation(present)[:MAX_RECORDS].astype(np.int64)


# -------------------------------------------------------------------------------------- features


def _read_features(pairs: ColumnPairs, rows: Integers, *, without: str) -> _Features:
    columns = [
        (*_rescale(item.before[rows], item.after[rows]), False)
        for item in (*pairs.quantities.columns, *pairs.further_quantities)
        if item.name != without
    ]
    for item in pairs.categories:
        if item.name != without:
            before, after = item.before[rows], item.after[rows]
            columns.append((*_rank_by_frequency(before, after, limit=_MAX_CATEGORIES), True))
    used = [item for item in columns if _varies(item[0]) or _varies(item[1])]
    nothing = np.zeros((len(rows), 0))
    return _Features(
        before=np.column_stack([nothing, *(item[0] for item in used)]),
        after=np.column_stack([nothing, *(item[1] for item in used)]),
        categorical=tuple(item[2] for item in used),
    )


def _rescale(before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """Scale both sides to around 1, so that the midpoint of two values does not overflow."""
    present = before[~np.isnan(before)]
    both = centre(present, np.concatenate((before, after)), np.ones(len(present)))
    return both.after[: len(before)], both.after[len(before) :]


def _varies(numbers: Floats) -> bool:
    missing: Mask = np.isnan(numbers)
    present = numbers[~missing]
    return bool(len(present)) and (bool(missing.any()) or bool((present != present[0]).any()))


# ---------------------------------------------------------------------------------------- scores


def _predict(model: Any, features: Floats, target: Floats, tested: Floats) -> Floats | None:
    """Train a model and predict; None without features or with a constant target."""
    if not features.shape[1] or (target == target[0]).all():
        return None
    with _limit_threads(len(target)):
        model.fit(features, target)
        return np.asarray(model.predict(tested), dtype=np.float64)


def _limit_threads(rows: int) -> AbstractContextManager[Any]:
    """Use one thread for few records: several would mostly wait for each other."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    limits: AbstractContextManager[Any] = threadpool_limits(
        1 if rows < _THREADING_RECORDS else None
    )
    return limits


def _baseline(training: Floats, classes: bool) -> float:
    if not classes:
        return float(training.mean())
    values, counts = np.unique(training, return_counts=True)
    return float(values[counts.argmax()])


def _score(predicted: Floats, expected: Floats, classes: bool) -> float:
    """Return the accuracy or R²; for constant numbers, 1 if they are predicted exactly, else 0."""
    if classes:
        return float((predicted == expected).mean())
    lost = float(np.square(predicted - expected).sum())
    total = float(np.square(expected - expected.mean()).sum())
    if total == 0:
        return float(lost == 0)
    return 1 - lost / total
