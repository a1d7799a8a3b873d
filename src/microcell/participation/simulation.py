"""Monte Carlo: the failures of a design as they come out when participation is drawn at random, many times."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from microcell import progress
from microcell.errors import DataError
from microcell.model import Floats, Integers
from microcell.participation._input import as_chances, as_labels, check_count, check_k

__all__ = ["Estimate", "Simulation", "simulate_participation"]

_DRAWS = 1 << 21
"""So many random numbers are drawn at a time, unless one trial needs more."""


@dataclass(frozen=True)
class Estimate:
    """What trials came to on average."""

    value: float
    error: float
    """The standard error of the value, from the spread between trials."""


@dataclass(frozen=True)
class Simulation:
    """The failures of a design of cells, estimated from trials."""

    k: int
    trials: int
    cells: int
    candidates: int
    cell_failure: Estimate
    """The probability that a cell fails, averaged over cells."""
    unprotected: Estimate
    """How many take part in a cell that fails; NaN if none has failed."""
    record_failure: Estimate
    """The probability, averaged over candidates, that one takes part and the cell fails."""
    participant_failure: Estimate
    """The probability, averaged over candidates, that the cell fails given that the candidate takes part."""
    table_failure: Estimate
    """The probability that any cell fails."""


def simulate_participation(
    participation: Sequence[float] | Sequence[Sequence[float]] | Floats,
    k: int,
    *,
    labels: ArrayLike | None = None,
    trials: int,
    seed: int = 0,
) -> Simulation:
    """The failures of cells in ``trials`` random draws of who takes part.

    ``participation`` holds the probabilities of one cell's candidates, or a sequence of them for each of several
    cells, or, with ``labels``, those of all candidates, the labels telling their cells. Participant failures are
    weighed by the inverse of the probability to take part, which makes their mean unbiased. The same seed gives the
    same figures. Time O(trials n), memory O(n) and a fixed number of draws.

    Examples
    --------
    >>> found = simulate_participation([0.5] * 48, 20, trials=4000)
    >>> abs(found.cell_failure.value - 0.09671) < 3 * found.cell_failure.error
    True
    """
    k, trials, seed = check_k(k), check_count(trials, "trials", 2), check_count(seed, "seed", 0)
    chances, cells = _as_design(participation, labels)
    order = np.argsort(cells, kind="stable")
    chances, cells = chances[order], cells[order]
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    sums, chance = np.empty((trials, 4)), np.random.default_rng(seed)
    step = max(1, _DRAWS // len(chances))
    for first in range(0, trials, step):
        last = min(trials, first + step)
        sums[first:last] = _try(chance, last - first, chances, starts, k)
        progress.report("simulating participation", last, trials)
    failing, unprotected, weighed, any_failing = sums.T
    return Simulation(
        k,
        trials,
        len(starts),
        len(chances),
        _mean(failing / len(starts)),
        _ratio(unprotected, failing),
        _mean(unprotected / len(chances)),
        _mean(weighed / len(chances)),
        _mean(any_failing),
    )


def _as_design(participation: object, labels: ArrayLike | None) -> tuple[Floats, Integers]:
    """The probabilities of all candidates, and their cells."""
    if labels is not None:
        chances = as_chances(participation)  # type: ignore[arg-type]
        return chances, as_labels(labels, len(chances))
    if isinstance(participation, (list, tuple)) and participation and np.ndim(participation[0]) == 1:
        parts = [as_chances(part, f"participation of cell {i + 1}") for i, part in enumerate(participation)]
        return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    if isinstance(participation, (float, int, str)) or participation is None:
        raise DataError(
            "participation must be probabilities, one a candidate: a number does not say how many there are."
        )
    if isinstance(participation, np.ndarray) and participation.ndim == 2 and participation.size:
        return as_chances(participation.ravel()), np.repeat(np.arange(len(participation)), participation.shape[1])
    chances = as_chances(participation)  # type: ignore[arg-type]
    return chances, np.zeros(len(chances), dtype=np.int64)


def _try(chance: np.random.Generator, trials: int, chances: Floats, starts: Integers, k: int) -> Floats:
    """For each trial: cells that fail, who takes part in them, the same weighed by 1/q, and whether any fails."""
    takes_part = chance.random((trials, len(chances))) < chances
    counts = np.add.reduceat(takes_part, starts, axis=1, dtype=np.int64)
    fails = (counts > 0) & (counts < k)
    weights = np.add.reduceat(takes_part / chances, starts, axis=1)
    out = np.empty((trials, 4))
    out[:, 0] = fails.sum(axis=1)
    out[:, 1] = np.where(fails, counts, 0).sum(axis=1)
    out[:, 2] = np.where(fails, weights, 0.0).sum(axis=1)
    out[:, 3] = fails.any(axis=1)
    return out


def _mean(values: Floats) -> Estimate:
    return Estimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))


def _ratio(parts: Floats, wholes: Floats) -> Estimate:
    """The ratio of two means; its error by linearization."""
    whole = wholes.mean()
    if whole == 0:
        return Estimate(float("nan"), float("nan"))
    ratio = parts.mean() / whole
    return Estimate(float(ratio), float((parts - ratio * wholes).std(ddof=1) / np.sqrt(len(parts)) / whole))
