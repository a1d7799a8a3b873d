"""How large a cell must be so that enough of its candidates take part, and how it may fail."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.kernels.binomial import count, least_size
from microcell.kernels.participation import failures_of_cells, figures, least_enough, participant_failure
from microcell.model import Floats
from microcell.participation._input import (
    as_chances,
    as_labels,
    check_chance,
    check_count,
    check_failure,
    check_k,
    is_number,
)

__all__ = ["EffectiveAnonymity", "cell_failures", "common_table_failure", "effective_anonymity", "table_failure"]


@dataclass(frozen=True)
class EffectiveAnonymity:
    """The size of a cell of candidates for anonymity among k participants, and what that size attains.

    A cell fails if some, but fewer than k, of its candidates take part; one in which nobody does discloses nothing.
    """

    k: int
    failure: float
    """The failure probability that was accepted for a cell."""
    size: int
    """The least number of candidates, k or more, that fails with that probability or less; all if not ``enough``."""
    enough: bool
    """Whether there were candidates enough."""
    cell_failure: float
    """P{0 < K < k}, K being how many of the ``size`` candidates take part."""
    unprotected: float
    """E[K | 0 < K < k]: how many are unprotected when a cell fails; 0 if it cannot."""
    record_failure: float
    """The probability, averaged over candidates, that one takes part and the cell fails."""
    participant_failure: float
    """The probability, averaged over candidates, that the cell fails given that the candidate takes part."""
    steady: bool
    """Whether further candidates can only lower the failure. False where it is met because hardly anybody comes."""


def effective_anonymity(
    k: int, participation: float | Sequence[float] | Floats, failure: float, available: int | None = None
) -> EffectiveAnonymity:
    """The least number n >= k of candidates with P{0 < K < k} <= ``failure``, and what it attains.

    ``participation`` is one probability, common to all of ``available`` candidates (as many as it takes, if not
    given), or the probabilities of the candidates in the order in which they join the cell. The order matters: those
    likely to take part make a small cell if they come first.

    The distribution of K, truncated to k entries, is carried from candidate to candidate; all sums are of positive
    terms. For a common probability it is binomial. Ten digits hold down to failures of 1e-300. Time O(n k) for n
    candidates that differ, O(k log n) for a common probability.

    Examples
    --------
    >>> found = effective_anonymity(20, 0.5, 0.1)
    >>> found.size, round(found.cell_failure, 5), round(found.unprotected, 2), round(found.record_failure, 5)
    (48, 0.09671, 17.85, 0.03597)
    >>> effective_anonymity(2, [0.9, 0.9, 0.9, 0.1], 0.05).size, effective_anonymity(2, [0.1, 0.9, 0.9, 0.9], 0.05).size
    (3, 4)
    """
    k, limit = check_k(k), check_failure(failure)
    if is_number(participation):
        most = None if available is None else check_count(available, "available", 1)
        return _of_common(k, check_chance(participation), limit, most)
    if available is not None:
        raise OptionError("available goes with a common participation; here it is the length of the sequence.")
    return _of_each(k, as_chances(participation), limit)


def _of_common(k: int, chance: float, limit: float, available: int | None) -> EffectiveAnonymity:
    wanted = least_size(k, chance, limit)
    n = wanted if available is None else min(wanted, available)
    found = count(n, k, chance)
    record = found.moment / n
    return EffectiveAnonymity(
        k, limit, n, n == wanted, found.failure, found.given, record, min(record / chance, 1.0), found.steady
    )


def _of_each(k: int, chances: Floats, limit: float) -> EffectiveAnonymity:
    wanted = least_enough(chances, k, limit)
    own = chances if wanted < 0 else chances[:wanted]
    attained, moment, steady = figures(own, k)
    given, record = min(moment / attained, k - 1.0) if attained > 0 else 0.0, moment / len(own)
    return EffectiveAnonymity(
        k, limit, len(own), wanted >= 0, attained, given, record, participant_failure(own, k), steady
    )


def cell_failures(labels: ArrayLike, participation: float | ArrayLike, k: int) -> Floats:
    """P{0 < K < k} of every cell, by cell number; K is how many of the cell's candidates take part.

    ``participation`` is one probability for all, or one a candidate. A number that no candidate has is an empty cell,
    which cannot fail. Time O(n k), memory O(n).

    Examples
    --------
    >>> cell_failures([0, 0, 1, 1, 1], 0.5, 2)
    array([0.5  , 0.375])
    """
    k = check_k(k)
    given = np.asarray(labels)
    cells = as_labels(given, given.size)
    if is_number(participation):
        chances = np.full(len(cells), check_chance(participation))
    else:
        chances = as_chances(participation)
    if len(chances) != len(cells):
        raise DataError(f"participation must be {len(cells)} probabilities, one a label, not {len(chances)}.")
    return failures_of_cells(cells, chances, k)


def table_failure(failures: ArrayLike) -> float:
    """1 - prod (1 - q): the probability that any cell fails, q being the failure probability of each.

    Examples
    --------
    >>> f"{table_failure([1e-20, 3e-20]):.3g}"
    '4e-20'
    """
    try:
        each = np.asarray(failures, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("failures must be probabilities, one a cell.") from None
    wrong = ~((each >= 0) & (each <= 1))
    if each.ndim != 1 or wrong.any():
        raise DataError("failures must be probabilities from 0 to 1, one a cell.")
    return 1.0 if (each == 1).any() else float(-np.expm1(np.log1p(-each).sum()))


def common_table_failure(k: int, participation: float, failure: float, records: int) -> float:
    """The probability that any cell fails in a table of so many records, all with the same participation.

    There are as many cells of the effective anonymity n as fit, the last with the records left over.

    Examples
    --------
    >>> round(common_table_failure(10, 0.75, 1e-4, 10_000), 4)
    0.0171
    """
    k, chance, limit = check_k(k), check_chance(participation), check_failure(failure)
    records = check_count(records, "records", 1)
    n = least_size(k, chance, limit)
    cells = records // n
    if cells == 0:
        raise TooFewRecordsError(
            f"A cell needs {n} records, more than the {records} there are. Nothing can be promised."
        )
    last = n + records % n
    each, rest = count(n, k, chance).failure, count(last, k, chance).failure
    return float(-np.expm1((cells - 1) * np.log1p(-each) + np.log1p(-rest)))
