"""Uncertain participation: how likely the cells of a survey are to fail.

The cells of a survey are fixed before anyone answers. A cell fails if some of its candidates take
part, but fewer than k. Candidates decide independently of each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from microcell import _validation, progress
from microcell._display import count, html_card, record_html, record_repr, short_repr
from microcell.errors import DataError, OptionError
from microcell.kernels.participation import failures_of_cells
from microcell.model import Floats, Integers

__all__ = [
    "Estimate",
    "Simulation",
    "as_labels",
    "as_probabilities",
    "cell_failures",
    "check_integer",
    "check_k",
    "check_probability",
    "is_scalar",
    "simulate_participation",
    "table_failure",
]


def is_scalar(value: object) -> bool:
    """Return True for a single value, as opposed to a sequence or an array of them."""
    return (
        isinstance(value, (Real, str, bytes))
        or not hasattr(value, "__len__")
        or getattr(value, "ndim", 1) == 0
    )


def check_k(k: object) -> int:
    """Return ``k`` as an int; a survey needs at least 2."""
    return check_integer(k, "k", 2)


def check_integer(value: object, name: str, minimum: int) -> int:
    """Return ``value`` as an int, or raise :class:`OptionError` if it is below ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise OptionError(
            f"{name} must be an integer of at least {minimum}.",
            code="option.wrong_type",
            option=name,
        )
    if int(value) < minimum:
        raise OptionError(
            f"{name} must be at least {minimum}.",
            code="option.out_of_range",
            option=name,
            minimum=minimum,
        )
    return int(value)


def check_probability(participation: object) -> float:
    """Return a participation probability that is the same for every candidate."""
    if isinstance(participation, np.ndarray) and participation.ndim == 0:
        participation = participation.item()
    return _validation.check_probability(participation, "participation")


def as_probabilities(values: ArrayLike, name: str = "participation") -> Floats:
    """Return one participation probability per candidate as a float64 array."""
    message = f"{name} must be a list of probabilities, one per candidate."
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        raise DataError(message, code="data.not_a_number", option=name) from None
    if array.size == 0 and array.ndim == 1:
        raise DataError(
            f"{name} is empty. Pass one probability per candidate.",
            code="data.empty",
            option=name,
        )
    if array.dtype.kind not in "fiu" or array.ndim != 1:
        raise DataError(message, code="data.not_a_number", option=name)
    probabilities = np.ascontiguousarray(array, dtype=np.float64)
    invalid = ~((probabilities > 0) & (probabilities <= 1))
    if invalid.any():
        row = int(invalid.argmax()) + 1
        raise DataError(
            f"{name} must be greater than 0 and at most 1, but "
            f"{count(int(invalid.sum()), 'value')} {'is' if invalid.sum() == 1 else 'are'} not, "
            f"first in row {row}. Leave out candidates who cannot take part.",
            code="data.out_of_range",
            option=name,
            row=row,
            count=int(invalid.sum()),
        )
    return probabilities


def as_labels(values: ArrayLike, n_rows: int) -> Integers:
    """Return one cell number (0 or more) per candidate as an int64 array."""
    labels = np.asarray(values)
    if labels.dtype.kind not in "iu" or labels.shape != (n_rows,) or (labels < 0).any():
        raise OptionError(
            f"labels must be a list of cell numbers (0 or more), one per candidate ({n_rows} in "
            "total).",
            code="option.invalid",
            option="labels",
        )
    return np.ascontiguousarray(labels, dtype=np.int64)


def cell_failures(labels: ArrayLike, participation: float | ArrayLike, k: int) -> Floats:
    """Return the failure probability P{0 < K < k} of every cell, by cell number.

    K is the number of the cell's candidates who take part. ``participation`` is one probability
    for all candidates, or one per candidate. A cell number without candidates is an empty cell,
    which cannot fail. Time O(n k), memory O(n).

    Examples
    --------
    >>> cell_failures([0, 0, 1, 1, 1], 0.5, 2)
    array([0.5  , 0.375])
    """
    k = check_k(k)
    cells = as_labels(labels, np.asarray(labels).size)
    if is_scalar(participation):
        probabilities = np.full(len(cells), check_probability(participation))
    else:
        probabilities = as_probabilities(participation)
    if len(probabilities) != len(cells):
        raise DataError(
            f"participation must have one probability per label ({len(cells)} in total), not "
            f"{len(probabilities)}.",
            code="data.invalid",
            option="participation",
        )
    return failures_of_cells(cells, probabilities, k)


def table_failure(failures: ArrayLike) -> float:
    """Return the probability that at least one cell fails: 1 - prod (1 - q).

    ``failures`` holds the failure probability q of each cell.

    Examples
    --------
    >>> f"{table_failure([1e-20, 3e-20]):.3g}"
    '4e-20'
    """
    message = "failures must be a list of probabilities from 0 to 1, one per cell."
    try:
        each = np.asarray(failures, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(message, code="data.not_a_number", option="failures") from None
    if each.ndim != 1 or not ((each >= 0) & (each <= 1)).all():
        raise DataError(
            message,
            code="data.invalid",
            option="failures",
        )
    if (each == 1).any():
        return 1.0
    return float(-np.expm1(np.log1p(-each).sum())) + 0.0  # never -0.0


_DRAWS = 1 << 21
"""Random numbers drawn per batch, unless a single trial needs more."""


@dataclass(frozen=True)
class Estimate:
    """Mean over trials."""

    value: float
    error: float
    """Standard error of the mean."""

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True, repr=False)
class Simulation:
    """Failure probabilities of cells, estimated from random trials."""

    k: int
    trials: int
    cells: int
    candidates: int
    cell_failure: Estimate
    """Probability that a cell fails, averaged over cells."""
    unprotected: Estimate
    """Number of participants in a cell that fails; NaN if no cell failed in any trial."""
    record_failure: Estimate
    """Probability that a candidate takes part and the cell fails, averaged over candidates."""
    participant_failure: Estimate
    """Probability that the cell of a candidate who takes part fails, averaged over candidates."""
    table_failure: Estimate
    """Probability that at least one cell fails."""

    def __repr__(self) -> str:
        return short_repr(
            self,
            count(self.trials, "trial"),
            count(self.cells, "cell"),
            k=self.k,
            cell_failure=f"{self.cell_failure.value:.3g}",
            table_failure=f"{self.table_failure.value:.3g}",
        )

    def _repr_html_(self) -> str:
        estimates = {
            "Failure of a cell": self.cell_failure,
            "Failure of the table": self.table_failure,
            "Failure for a participant": self.participant_failure,
        }
        return html_card(
            f"{count(self.cells, 'cell')}, {count(self.candidates, 'candidate')}, k = {self.k}",
            {label: f"{estimate.value:.3g}" for label, estimate in estimates.items()}
            | {"Trials": f"{self.trials:,}"},
        )


def simulate_participation(
    participation: Sequence[float] | Sequence[Sequence[float]] | Floats,
    k: int,
    *,
    labels: ArrayLike | None = None,
    trials: int,
    seed: int = 0,
) -> Simulation:
    """Estimate the failure probabilities of cells from random trials.

    Each trial draws who takes part. Participant failures are weighted by the inverse of the
    participation probability, which makes their mean unbiased. Time O(trials n), memory O(n) plus
    a fixed number of draws.

    Parameters
    ----------
    participation
        Probabilities of the candidates of one cell, one sequence of them per cell, or, with
        ``labels``, those of all candidates.
    k
        Number of participants that a cell needs so as not to fail.
    labels
        Cell number of each candidate.
    trials
        Number of trials, at least 2.
    seed
        Random seed.

    Examples
    --------
    >>> result = simulate_participation([0.5] * 48, 20, trials=4000)
    >>> abs(result.cell_failure.value - 0.09671) < 3 * result.cell_failure.error
    True
    """
    k = check_k(k)
    trials = check_integer(trials, "trials", 2)
    seed = check_integer(seed, "seed", 0)
    probabilities, cells = _flatten(participation, labels)
    order = np.argsort(cells, kind="stable")
    probabilities, cells = probabilities[order], cells[order]
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    sums = np.empty((trials, 4))
    rng = np.random.default_rng(seed)
    step = max(1, _DRAWS // len(probabilities))
    for first in range(0, trials, step):
        last = min(trials, first + step)
        sums[first:last] = _run_trials(rng, last - first, probabilities, starts, k)
        progress.report("simulating participation", last, trials)
    failing, unprotected, weighted, any_failing = sums.T
    return Simulation(
        k=k,
        trials=trials,
        cells=len(starts),
        candidates=len(probabilities),
        cell_failure=_mean(failing / len(starts)),
        unprotected=_ratio(unprotected, failing),
        record_failure=_mean(unprotected / len(probabilities)),
        participant_failure=_mean(weighted / len(probabilities)),
        table_failure=_mean(any_failing),
    )


def _flatten(participation: object, labels: ArrayLike | None) -> tuple[Floats, Integers]:
    """Return the probability and the cell of every candidate."""
    if labels is not None:
        probabilities = as_probabilities(participation)  # type: ignore[arg-type]
        return probabilities, as_labels(labels, len(probabilities))
    if (
        isinstance(participation, (list, tuple))
        and participation
        and np.ndim(participation[0]) == 1
    ):
        parts = [
            as_probabilities(part, f"participation of cell {number}")
            for number, part in enumerate(participation, start=1)
        ]
        sizes = [len(part) for part in parts]
        return np.concatenate(parts), np.repeat(np.arange(len(parts)), sizes)
    if isinstance(participation, (float, int, str)) or participation is None:
        raise DataError(
            "participation must have one probability per candidate. A single number does not say "
            "how many candidates there are.",
            code="data.invalid",
            option="participation",
        )
    if isinstance(participation, np.ndarray) and participation.ndim == 2 and participation.size:
        n_cells, size = participation.shape
        return as_probabilities(participation.ravel()), np.repeat(np.arange(n_cells), size)
    probabilities = as_probabilities(participation)  # type: ignore[arg-type]
    return probabilities, np.zeros(len(probabilities), dtype=np.int64)


def _run_trials(
    rng: np.random.Generator, trials: int, probabilities: Floats, starts: Integers, k: int
) -> Floats:
    """Return the failures of each trial.

    The arrays hold the number of failing cells, the number of their participants, the same weighted
    by 1/q, and whether any cell fails.
    """
    takes_part = rng.random((trials, len(probabilities))) < probabilities
    counts = np.add.reduceat(takes_part, starts, axis=1, dtype=np.int64)
    fails = (counts > 0) & (counts < k)
    weights = np.add.reduceat(takes_part / probabilities, starts, axis=1)
    sums = np.empty((trials, 4))
    sums[:, 0] = fails.sum(axis=1)
    sums[:, 1] = np.where(fails, counts, 0).sum(axis=1)
    sums[:, 2] = np.where(fails, weights, 0.0).sum(axis=1)
    sums[:, 3] = fails.any(axis=1)
    return sums


def _mean(values: Floats) -> Estimate:
    return Estimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))


def _ratio(numerators: Floats, denominators: Floats) -> Estimate:
    """Return the ratio of two means, with its standard error by linearization."""
    mean = denominators.mean()
    if mean == 0:
        return Estimate(float("nan"), float("nan"))
    ratio = numerators.mean() / mean
    residuals = numerators - ratio * denominators
    error = residuals.std(ddof=1) / np.sqrt(len(numerators)) / mean
    return Estimate(float(ratio), float(error))
