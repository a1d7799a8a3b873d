"""Participation learned from earlier invitations, by a logistic model."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from microcell import encoding, tables
from microcell._display import count, html_card, record_html, short_repr
from microcell._validation import check_probability
from microcell.errors import DataError, SchemaError
from microcell.kernels.participation import normal_quantile
from microcell.model import Encoding, Floats, Integers, Schema, Table
from microcell.release import prepare
from microcell.surveys.designs import quasi_identifiers_only

__all__ = ["Calibration", "ParticipationModel", "learn_participation"]

_RIDGE = 1.0
"""Penalty on the squared coefficients of standardized columns; that of the intercept is 0."""
_FOLDS = 5
_MAX_STEPS = 50
_TOLERANCE = 1e-10
_MIN_OUTCOMES = 10
"""Minimum number of invitations with each outcome."""
_FARTHEST = 30.0
"""Largest absolute log odds."""


@dataclass(frozen=True, repr=False)
class Calibration:
    """Invitations with similar predictions, and how many of them took part."""

    invitations: int
    predicted: float
    """Mean prediction of models that were fitted on other invitations."""
    observed: float
    """Share of the invited who took part."""

    _repr_html_ = record_html

    def __repr__(self) -> str:
        return short_repr(self, predicted=f"{self.predicted:.3g}", observed=f"{self.observed:.3g}")


@dataclass(frozen=True, eq=False, repr=False)
class ParticipationModel:
    """A logistic model of who takes part."""

    coefficients: Floats
    """Intercept, then one coefficient per encoded column."""
    covariance: Floats
    encoding: Encoding
    invitations: int
    participants: int
    loss: float
    """Mean logarithmic loss (nats) on invitations that the model was not fitted on."""
    base_loss: float
    """The same if everyone is predicted the overall share."""
    calibration: tuple[Calibration, ...]
    """Ten groups of invitations by prediction."""

    def __repr__(self) -> str:
        return short_repr(
            self,
            count(self.invitations, "invitation"),
            f"{100 * self.participants / self.invitations:.3g} % took part",
            loss=f"{self.loss:.4g}",
            base_loss=f"{self.base_loss:.4g}",
        )

    def _repr_html_(self) -> str:
        return html_card(
            f"Participation learned from {count(self.invitations, 'invitation')}",
            {
                "Took part": f"{self.participants:,}",
                "Logarithmic loss": f"{self.loss:.4g} (same for everyone: {self.base_loss:.4g})",
            },
            next_steps={"model.add_to(frame)": "add the probabilities to the candidates"},
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the quality of the model as a dictionary ready for JSON."""
        return {
            "invitations": self.invitations,
            "participants": self.participants,
            "loss": self.loss,
            "base_loss": self.base_loss,
            "calibration": [vars(each) for each in self.calibration],
        }

    def predict(self, frame: Any, *, level: float = 0.95) -> tuple[Floats, Floats, Floats]:
        """Return the probability of each candidate, and the ends of its confidence interval.

        Unknown categories and missing values are placed as in further records of a release. The
        interval covers the uncertainty of the coefficients; that the next wave is like the earlier
        ones is an assumption.
        """
        level = check_probability(level, "level")
        X = _with_intercept(encoding.place(tables.read(frame), self.encoding).matrix)
        scores = X @ self.coefficients
        errors = np.sqrt(np.einsum("ij,jk,ik->i", X, self.covariance, X))
        width = normal_quantile((1 + min(level, 1 - 1e-12)) / 2) * errors
        return _share(scores), _share(scores - width), _share(scores + width)

    def add_to(self, frame: Any, *, level: float = 0.95) -> Table:
        """Return the candidates with the columns participation, participation_low and _high.

        Design with ``participation="participation"``, or robustly with
        ``participation=("participation_low", "participation_high")``.
        """
        table = tables.read(frame)
        names = ("participation", "participation_low", "participation_high")
        existing = [name for name in names if name in table.columns]
        if existing:
            raise SchemaError(
                f"The frame already has a column {existing[0]!r}. Rename it.",
                code="schema.duplicate_role",
                column=existing[0],
            )
        return tables.add_columns(
            table, dict(zip(names, self.predict(table, level=level), strict=True))
        )


def learn_participation(
    invitations: Any,
    schema: Schema | str | Path,
    outcome: str,
    *,
    seed: int = 0,
) -> ParticipationModel:
    """Learn who takes part from a table of earlier invitations.

    The model is a logistic regression with a ridge penalty on the quasi-identifiers, standardized
    as for distances.

    Parameters
    ----------
    invitations
        Table with the quasi-identifiers of everybody who was invited.
    schema
        Schema, or the path of its file. Only the quasi-identifiers are used.
    outcome
        Column of the invitations: true or 1 for those who took part, false or 0 for the others.
    seed
        Random seed of the groups for cross-validation.

    Raises
    ------
    DataError
        The outcome has other values, or one of the two occurs fewer than ten times.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> age = rng.integers(18, 90, 2000)
    >>> past = {"age": age, "answered": rng.random(2000) < age / 100}
    >>> model = learn_participation(past, Schema(quasi=["age"]), "answered")
    >>> young, old = model.predict({"age": [20, 80]})[0]
    >>> bool(abs(young - 0.2) < 0.1 and abs(old - 0.8) < 0.1)
    True
    """
    table = tables.read(invitations)
    took_part = _read_outcome(table, outcome)
    reduced = quasi_identifiers_only(prepare.as_schema(schema), outcome)
    prepared = prepare.prepare(table, replace(reduced, rest="drop"), k=2, missing="impute")
    fitted = prepared.encoded.encoding.published(1)
    X = _with_intercept(encoding.place(table, fitted).matrix)
    coefficients, covariance = _fit(X, took_part)
    predicted = _cross_validate(X, took_part, seed)
    share = took_part.mean()
    return ParticipationModel(
        coefficients=coefficients,
        covariance=covariance,
        encoding=fitted,
        invitations=table.rows,
        participants=int(took_part.sum()),
        loss=_log_loss(predicted, took_part),
        base_loss=_log_loss(np.full(table.rows, share), took_part),
        calibration=tuple(_calibrate(predicted, took_part)),
    )


def _read_outcome(table: Table, name: str) -> Floats:
    if name not in table.columns:
        raise SchemaError(
            f"The invitations have no column {name!r}. Check the name of the outcome.",
            code="schema.unknown_column",
            column=name,
        )
    values = table.columns[name]
    problem = f"Column {name!r} must contain 1 or true for those who took part and 0 or false for "
    if values.missing.any() or not (values.is_number or values.storage == "boolean"):
        raise DataError(
            f"{problem}all others, in every row.", code="data.not_a_number", column=name
        )
    outcome = values.reals() if values.is_number else np.asarray(values.data, dtype=np.float64)
    if not np.isin(outcome, (0.0, 1.0)).all():
        raise DataError(f"{problem}all others.", code="data.out_of_range", column=name)
    fewest = int(min(outcome.sum(), (1 - outcome).sum()))
    if fewest < _MIN_OUTCOMES:
        raise DataError(
            f"Too few invitations to learn from: {fewest} with one of the outcomes, at least "
            f"{_MIN_OUTCOMES} are needed. State the participation instead.",
            code="data.invalid",
            column=name,
            count=fewest,
        )
    return outcome


def _with_intercept(points: Floats) -> Floats:
    return np.column_stack([np.ones(len(points)), points])


def _share(scores: Floats) -> Floats:
    shares: Floats = 1 / (1 + np.exp(-np.clip(scores, -_FARTHEST, _FARTHEST)))
    return shares


def _fit(X: Floats, took_part: Floats) -> tuple[Floats, Floats]:
    """Return the coefficients and their covariance by Newton's method."""
    penalty = np.full(X.shape[1], _RIDGE)
    penalty[0] = 1e-9
    b = np.zeros(X.shape[1])
    for _ in range(_MAX_STEPS):
        q = _share(X @ b)
        hessian = (X.T * (q * (1 - q))) @ X + np.diag(penalty)
        step = np.linalg.solve(hessian, X.T @ (took_part - q) - penalty * b)
        b = b + step
        if np.abs(step).max() < _TOLERANCE:
            break
    q = _share(X @ b)
    information = (X.T * (q * (1 - q))) @ X + np.diag(penalty)
    return b, np.asarray(np.linalg.inv(information), dtype=np.float64)


def _cross_validate(X: Floats, took_part: Floats, seed: int) -> Floats:
    """Return predictions of models fitted without the invitation itself."""
    folds: Integers = np.random.default_rng(seed).permutation(len(X)) % _FOLDS
    predicted = np.empty(len(X))
    for fold in range(_FOLDS):
        inside = folds == fold
        predicted[inside] = _share(X[inside] @ _fit(X[~inside], took_part[~inside])[0])
    return predicted


def _log_loss(predicted: Floats, took_part: Floats) -> float:
    return float(-np.log(np.where(took_part == 1, predicted, 1 - predicted)).mean())


def _calibrate(predicted: Floats, took_part: Floats) -> list[Calibration]:
    order = np.argsort(predicted, kind="stable")
    return [
        Calibration(len(rows), float(predicted[rows].mean()), float(took_part[rows].mean()))
        for rows in np.array_split(order, 10)
        if len(rows)
    ]
