"""Learning: what a model trained on the published table is worth, beside one trained on the original."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.errors import DataError, OptionError
from microcell.measures.pairs import (
    Quantity,
    as_quantity,
    centre,
    read_categories,
    read_further_quantities,
    read_quantities,
)
from microcell.model import Column, Floats, Integers, Mask, Measure, Schema, Table, Values

__all__ = ["measure_learning"]

MOST = 50_000
"""Records used at most; of more, a sample."""

_ENOUGH_FOR_THREADS = 10_000
"""Records from which on several threads pay."""

_TRAINED = 0.7
"""The share of the records that models are trained on."""

_LEAST = 10
"""Records with a value of the target, at least."""

_FEW = 10
"""Numbers with at most so many different values are learned as classes."""

_CLASSES = 20
"""Classes told apart at most; the rarer ones are one class together."""

_CATEGORIES = 250
"""Categories of a column told apart at most, as the model has bins for 255; the rarer ones are one together."""

_ROLES: Mapping[str, str] = {
    "quasi": "a quasi-identifier",
    "identifiers": "an identifier",
    "weight": "the weight",
    "drop": "to be dropped",
}
"""What a column is that is not published unchanged, in words."""


@dataclass(frozen=True, eq=False)
class _Features:
    """What is learned from, before and after: one row a record, NaN where missing; and which columns are codes."""

    before: Floats
    after: Floats
    categorical: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class _Target:
    """What is learned: a class or a number for each matched record, NaN where missing."""

    numbers: Floats
    classes: bool


@dataclass(frozen=True, eq=False)
class _Split:
    """The records that models are trained on, and those held back."""

    trained: Integers
    held: Integers


def measure_learning(
    original: Table, released: Table, schema: Schema, *, pairs: Integers, target: str, seed: int = 0
) -> tuple[Measure, ...]:
    """How well ``target`` is learned from the published table and from the original, both tested on the original.

    A histogram gradient boosting of scikit-learn learns the target from the quasi-identifiers and the other
    confidential columns of a random 70 % of the records: as published (``task_released``) and as they were
    (``task_original``). Both predict the other 30 %, of which they are given the original values. ``task_loss`` is the
    difference. ``task_baseline`` is a prediction that looks at nothing: the most frequent class or the mean of the
    70 %.

    Categories, booleans, ranks, and numbers of at most 10 different values are classes, the 20 most frequent and the
    others as one; the score is accuracy, the share of right predictions. Other numbers and dates have R^2, 1 - SSE /
    SST of the 30 %. Categories to learn from are codes, the 250 most frequent and the others as one; postal codes and
    the like are ranks, a prefix the middle of its codes. Records without a value of the target are left out. At most
    50,000 records are used, drawn at random. The same seed gives the same measures.

    Parameters
    ----------
    schema
        Resolved: each column has its kind.
    pairs
        The row of the original (from 0) that each published row comes from.
    target
        A column that is published unchanged: confidential, kept or a stratum.

    Raises
    ------
    OptionError
        The target is not a column published unchanged, or scikit-learn is not installed.
    DataError
        The target does not vary, has fewer than 10 values, or there is no other column to learn from.

    Examples
    --------
    >>> from microcell.model import Column, Values
    >>> known, age = np.zeros(100, dtype=bool), np.arange(100)
    >>> sick = Values("boolean", (age > 50).astype(int), known, categories=("False", "True"))
    >>> before = Table({"age": Values("integer", age, known), "sick": sick}, rows=100, native=None)
    >>> after = Table({"age": Values("integer", age // 10 * 10 + 5, known), "sick": sick}, rows=100, native=None)
    >>> schema = Schema(quasi=[Column("age", kind="numeric")], confidential=[Column("sick", kind="nominal")])
    >>> found = measure_learning(before, after, schema, pairs=age, target="sick")
    >>> [measure.name for measure in found]
    ['task_released', 'task_original', 'task_baseline', 'task_loss']
    """
    models = _import_models()
    _check_target(original, released, schema, target)
    goal = _read_target(original.columns[target], _column_of(schema, target), pairs)
    rows = _drawn(goal, target, seed)
    features = _read_features(original, released, schema, pairs, rows, without=target)
    if not features.categorical:
        raise DataError(
            f"There is nothing to learn {target!r} from: no quasi-identifier and no other confidential column varies. "
            "Choose another target, or leave the task out."
        )
    wanted = goal.numbers[rows]
    cut = min(max(round(_TRAINED * len(rows)), 1), len(rows) - 1)
    split = _Split(np.arange(cut), np.arange(cut, len(rows)))
    make = (
        models.HistGradientBoostingClassifier
        if goal.classes
        else models.HistGradientBoostingRegressor
    )
    guess = np.full(len(split.held), _guess(wanted[split.trained], goal.classes))

    def score(learned: Floats) -> float:
        # The model has no bins for a column without any value.
        told = ~np.isnan(learned[split.trained]).all(axis=0)
        categorical = np.array(features.categorical)[told]
        model = make(categorical_features=categorical, early_stopping=False, random_state=seed)
        found = _predict(model, learned[:, told], features.before[:, told], wanted, split)
        return _score(guess if found is None else found, wanted[split.held], goal.classes)

    baseline = _score(guess, wanted[split.held], goal.classes)
    return tuple(
        _measures(target, goal.classes, score(features.after), score(features.before), baseline)
    )


def _measures(
    target: str, classes: bool, released: float, original: float, baseline: float
) -> Iterator[Measure]:
    what, unit = (
        (f"Share of {target} predicted right", "share")
        if classes
        else (f"R^2 of {target} predicted", "R^2")
    )
    yield Measure(
        "task_released",
        released,
        unit,
        False,
        f"{what} on originals held back, by a model of the release.",
    )
    yield Measure(
        "task_original",
        original,
        unit,
        False,
        f"{what} on originals held back, by a model of originals.",
    )
    guess = "the most frequent value" if classes else "the mean"
    yield Measure(
        "task_baseline", baseline, unit, False, f"{what} on originals held back, by {guess} alone."
    )
    meaning = f"What learning {target} from the release loses: task_original less task_released."
    yield Measure("task_loss", original - released, unit, True, meaning)


def _import_models() -> Any:
    try:
        import sklearn.ensemble as models  # noqa: PLC0415
    except ImportError:
        raise OptionError(
            "Learning a task needs scikit-learn, which is not installed: pip install 'microcell[sklearn]'."
        ) from None
    return models


# ---------------------------------------------------------------------------------------------- the target


def _check_target(original: Table, released: Table, schema: Schema, target: str) -> None:
    for which, table in (("original", original), ("released", released)):
        if target not in table.columns:
            raise OptionError(
                f"The {which} table has no column {target!r} to learn. Name a column that is published unchanged."
            )
    role = dict(schema.roles()).get(target, "")
    if role not in ("confidential", "keep", "strata"):
        raise OptionError(
            f"Column {target!r} cannot be the target of learning: it is {_ROLES.get(role, 'unnamed')} "
            "in the schema. Name a column that is published unchanged: confidential, kept or a stratum."
        )


def _column_of(schema: Schema, target: str) -> Column:
    """The column's record; one without a kind if it is only kept."""
    return next((column for column in schema.confidential if column.name == target), Column(target))


def _read_target(values: Values, column: Column, pairs: Integers) -> _Target:
    if column.kind not in ("nominal", "ordinal") and (values.is_number or values.is_time):
        numbers = as_quantity(
            Column(column.name, kind="datetime" if values.is_time else "numeric"), values
        )[pairs]
        if len(np.unique(numbers[~np.isnan(numbers)])) > _FEW:
            # R^2 knows no scale, and numbers of the order of 1 do not overflow in a model's squares.
            return _Target(_in_scale(numbers, numbers)[0], False)
    codes = values.factorize()[0][pairs]
    return _Target(_numbered(codes, codes, most=_CLASSES)[0], True)


def _numbered(before: NDArray[Any], after: NDArray[Any], *, most: int) -> tuple[Floats, Floats]:
    """Codes as 0, 1, 2, ... from the most frequent one before, the rarer ones alike; NaN where -1."""
    count = int(max(before.max(initial=-1), after.max(initial=-1))) + 1
    frequency = np.bincount(before[before >= 0], minlength=count)
    place = np.full(count + 1, np.nan)
    place[np.argsort(-frequency, kind="stable")] = np.minimum(np.arange(count), most)
    return place[before], place[after]


def _drawn(goal: _Target, target: str, seed: int) -> Integers:
    """The records used, in a random order."""
    known = np.flatnonzero(~np.isnan(goal.numbers))
    if len(known) < _LEAST:
        raise DataError(
            f"Column {target!r} has a value in {len(known)} of the published records; to learn it, at least {_LEAST} "
            "are needed. Choose another target."
        )
    if (goal.numbers[known] == goal.numbers[known[0]]).all():
        raise DataError(
            f"Column {target!r} has the same value everywhere: nothing to learn. Choose another target."
        )
    return np.random.default_rng(seed).permutation(known)[:MOST].astype(np.int64)


# ---------------------------------------------------------------------------------------------- what is learned from


def _read_features(
    original: Table,
    released: Table,
    schema: Schema,
    pairs: Integers,
    rows: Integers,
    *,
    without: str,
) -> _Features:
    lines: Sequence[Quantity] = (
        *read_quantities(original, released, schema, pairs=pairs).columns,
        *read_further_quantities(original, released, schema, pairs=pairs),
    )
    found = [
        (*_in_scale(line.before[rows], line.after[rows]), False)
        for line in lines
        if line.name != without
    ]
    for column in schema.quasi:
        if column.kind == "nominal":
            reading = read_categories(
                column.name, original.columns[column.name], released.columns[column.name]
            )
            codes = _numbered(reading.before[pairs[rows]], reading.after[rows], most=_CATEGORIES)
            found.append((*codes, True))
    for column in schema.confidential:
        known = column.name in original.columns and column.name in released.columns
        if column.kind == "nominal" and known and column.name != without:
            own = original.columns[column.name].factorize()[0][pairs[rows]]
            found.append((*_numbered(own, own, most=_CATEGORIES), True))
    used = [item for item in found if _varies(item[0]) or _varies(item[1])]
    nothing = np.zeros((len(rows), 0))
    return _Features(
        before=np.column_stack([nothing, *(item[0] for item in used)]),
        after=np.column_stack([nothing, *(item[1] for item in used)]),
        categorical=tuple(item[2] for item in used),
    )


def _in_scale(before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """Both sides in units of the order of 1, so that the middle of two of them does not overflow."""
    own = before[~np.isnan(before)]
    both = centre(own, np.concatenate((before, after)), np.ones(len(own)))
    return both.after[: len(before)], both.after[len(before) :]


def _varies(numbers: Floats) -> bool:
    known = numbers[~np.isnan(numbers)]
    missing: Mask = np.isnan(numbers)
    return bool(len(known)) and (bool(missing.any()) or bool((known != known[0]).any()))


# ---------------------------------------------------------------------------------------------- scores


def _predict(
    model: Any, learned: Floats, tested: Floats, wanted: Floats, split: _Split
) -> Floats | None:
    """What the model predicts of the records held back; None if there was nothing to learn or to learn from."""
    own = wanted[split.trained]
    if not learned.shape[1] or (own == own[0]).all():
        return None
    with _few_threads(len(own)):
        model.fit(learned[split.trained], own)
        return np.asarray(model.predict(tested[split.held]), dtype=np.float64)


def _few_threads(rows: int) -> AbstractContextManager[Any]:
    """One thread for few records: many would wait for each other far longer than they work."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    limits: AbstractContextManager[Any] = threadpool_limits(
        1 if rows < _ENOUGH_FOR_THREADS else None
    )
    return limits


def _guess(wanted: Floats, classes: bool) -> float:
    if not classes:
        return float(wanted.mean())
    values, counts = np.unique(wanted, return_counts=True)
    return float(values[counts.argmax()])


def _score(found: Floats, wanted: Floats, classes: bool) -> float:
    """The share that is right, or R^2; of numbers that are all alike, 1 if they are found and else 0."""
    if classes:
        return float((found == wanted).mean())
    lost, whole = (
        float(np.square(found - wanted).sum()),
        float(np.square(wanted - wanted.mean()).sum()),
    )
    if whole == 0:
        return float(lost == 0)
    return 1 - lost / whole
