"""Size of a survey cell: the exact value, approximations, and the sizes of a whole table."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from microcell._display import count as counted
from microcell._display import record_html, record_repr
from microcell._validation import check_failure
from microcell.errors import OptionError, TooFewRecordsError
from microcell.kernels.participation import (
    count,
    figures,
    least_enough,
    least_size,
    lower_lambert,
    participant_failure,
)
from microcell.model import Floats
from microcell.surveys.participation import (
    as_probabilities,
    check_integer,
    check_k,
    check_probability,
    is_scalar,
)

__all__ = [
    "APPROXIMATIONS",
    "Approximation",
    "EffectiveAnonymity",
    "SurveySize",
    "approximate_size",
    "effective_anonymity",
    "size",
]


@dataclass(frozen=True)
class EffectiveAnonymity:
    """Number of candidates that a cell needs for anonymity among k participants.

    A cell fails if some of its candidates take part, but fewer than k. A cell in which nobody takes
    part discloses nothing.
    """

    k: int
    failure: float
    """Accepted failure probability of a cell."""
    size: int
    """Smallest number of candidates, at least k, that meets the accepted failure probability; the
    number of available candidates if they are not ``enough``."""
    enough: bool
    """True if enough candidates are available."""
    cell_failure: float
    """P{0 < K < k}, where K is the number of the ``size`` candidates who take part."""
    unprotected: float
    """E[K | 0 < K < k]: expected number of participants in a cell that fails; 0 if none can."""
    record_failure: float
    """Probability that a candidate takes part and the cell fails, averaged over candidates."""
    participant_failure: float
    """Probability that the cell of a candidate who takes part fails, averaged over candidates."""
    steady: bool
    """True if more candidates can only lower the failure probability. False if the cell meets the
    limit only because hardly anybody takes part."""

    __repr__ = record_repr
    _repr_html_ = record_html


def effective_anonymity(
    k: int,
    participation: float | Sequence[float] | Floats,
    failure: float,
    available: int | None = None,
) -> EffectiveAnonymity:
    """Return the smallest number n >= k of candidates with P{0 < K < k} <= ``failure``.

    The distribution of K, truncated to k terms, is updated candidate by candidate using positive
    terms only; with equal probabilities it is binomial. Results have ten correct digits down to
    failure probabilities of 1e-300. Time O(n k) for n different probabilities, O(k log n) for a
    common one.

    Parameters
    ----------
    k
        Minimum number of participants in a cell where anyone takes part, at least 2.
    participation
        One probability common to all candidates, or the probabilities of the candidates in the
        order in which they join the cell. The order matters: the cell is smallest if the most
        likely participants come first.
    failure
        Accepted failure probability of the cell.
    available
        Number of available candidates, for a common probability. Default: unlimited.

    Examples
    --------
    >>> result = effective_anonymity(20, 0.5, 0.1)
    >>> result.size, round(result.cell_failure, 5), round(result.unprotected, 2)
    (48, 0.09671, 17.85)
    >>> effective_anonymity(2, [0.9, 0.9, 0.9, 0.1], 0.05).size
    3
    >>> effective_anonymity(2, [0.1, 0.9, 0.9, 0.9], 0.05).size
    4
    """
    k = check_k(k)
    limit = check_failure(failure)
    if is_scalar(participation):
        most = None if available is None else check_integer(available, "available", 1)
        return _size_for_common(k, check_probability(participation), limit, most)
    if available is not None:
        raise OptionError(
            "available is only valid with a common participation probability; here the number "
            "of candidates is the length of the sequence.",
            code="option.conflict",
            option="available",
        )
    return _size_for_each(k, as_probabilities(participation), limit)


def _size_for_common(
    k: int, probability: float, limit: float, available: int | None
) -> EffectiveAnonymity:
    required = least_size(k, probability, limit)
    n = required if available is None else min(required, available)
    result = count(n, k, probability)
    record_failure = result.moment / n
    return EffectiveAnonymity(
        k=k,
        failure=limit,
        size=n,
        enough=n == required,
        cell_failure=result.failure,
        unprotected=result.conditional_mean,
        record_failure=record_failure,
        participant_failure=min(record_failure / probability, 1.0),
        steady=result.steady,
    )


def _size_for_each(k: int, probabilities: Floats, limit: float) -> EffectiveAnonymity:
    required = least_enough(probabilities, k, limit)
    members = probabilities if required < 0 else probabilities[:required]
    cell_failure, moment, steady = figures(members, k)
    return EffectiveAnonymity(
        k=k,
        failure=limit,
        size=len(members),
        enough=required >= 0,
        cell_failure=cell_failure,
        unprotected=min(moment / cell_failure, k - 1.0) if cell_failure > 0 else 0.0,
        record_failure=moment / len(members),
        participant_failure=participant_failure(members, k),
        steady=steady,
    )


@dataclass(frozen=True)
class SurveySize:
    """Size of the cells of a survey, and the failure probability of the whole table."""

    participation: float
    anonymity: EffectiveAnonymity
    records: int | None = None
    """Number of candidates, if known."""
    cells: int | None = None
    """Number of cells that these candidates can form."""
    table_failure: float | None = None
    """Probability that at least one cell fails."""

    __repr__ = record_repr
    _repr_html_ = record_html

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as a dictionary ready for JSON."""
        result = {"participation": self.participation, **asdict(self.anonymity)}
        if self.records is not None:
            result |= {
                "records": self.records,
                "cells": self.cells,
                "table_failure": self.table_failure,
            }
        return result


def size(k: int, participation: float, failure: float, records: int | None = None) -> SurveySize:
    """Return how many candidates a cell needs if all take part with the same probability.

    Parameters
    ----------
    k
        Minimum number of participants in a cell where anyone takes part, at least 2.
    participation
        Probability that a candidate takes part.
    failure
        Accepted probability that a cell has some participants, but fewer than k.
    records
        Total number of candidates. They are divided into as many cells as possible; the last cell
        takes the remainder.

    Raises
    ------
    TooFewRecordsError
        There are fewer candidates than one cell needs.

    Examples
    --------
    >>> result = size(10, 0.75, 1e-5, records=100_000)
    >>> result.anonymity.size, result.cells, round(result.table_failure, 4)
    (27, 3703, 0.0221)
    """
    probability = check_probability(participation)
    anonymity = effective_anonymity(k, probability, failure)
    if records is None:
        return SurveySize(probability, anonymity)
    records = check_integer(records, "records", 1)
    n_cells = records // anonymity.size
    if n_cells == 0:
        raise TooFewRecordsError(
            f"A cell needs {counted(anonymity.size, 'candidate')}, but there are only {records:,}. "
            "Lower k or accept a higher failure probability.",
            code="guarantee.too_few_records",
            k=anonymity.k,
            records=records,
            required=anonymity.size,
        )
    last = count(anonymity.size + records % anonymity.size, anonymity.k, probability).failure
    log_success = (n_cells - 1) * np.log1p(-anonymity.cell_failure) + np.log1p(-last)
    return SurveySize(probability, anonymity, records, n_cells, float(-np.expm1(log_success)))


# ------------------------------------------------------------------------------- approximations

Formula = Callable[[int, float, float], float]


@dataclass(frozen=True)
class Approximation:
    """Closed formula for the size of a cell."""

    name: str
    summary: str
    only_two: bool
    """True if the formula is only valid for k = 2."""
    formula: Formula


APPROXIMATIONS: dict[str, Approximation] = {}
"""Approximations of the size of a cell, by name."""


def _approximation(name: str, *, only_two: bool = False) -> Callable[[Formula], Formula]:
    def register(formula: Formula) -> Formula:
        summary = (formula.__doc__ or "").split("\n", maxsplit=1)[0]
        APPROXIMATIONS[name] = Approximation(name, summary, only_two, formula)
        return formula

    return register


def approximate_size(
    k: int, participation: float, failure: float, formula: str = "divergence"
) -> float:
    """Return the approximate number of candidates that a cell needs, not rounded.

    ``formula`` is a key of ``APPROXIMATIONS``: for k = 2 "logarithm", "linear", "quadratic" and
    "lambert"; for any k "divergence", "square-root", "square-root-simple", "intercept", the lower
    bound "markov" and the upper bound "chebyshev". Except for the bounds, they are accurate for
    small failure probabilities. Use :func:`effective_anonymity` for the exact size, which is also
    fast. If participation is certain, the size is k.

    Examples
    --------
    >>> round(approximate_size(50, 0.5, 1e-6), 2)  # the exact size is 159
    164.45
    >>> round(approximate_size(2, 0.5, 1e-6, "lambert"), 2)  # the exact size is 25
    24.55
    """
    k = check_k(k)
    probability = check_probability(participation)
    limit = check_failure(failure)
    if formula not in APPROXIMATIONS:
        raise OptionError(
            f"Unknown approximation. Choose one of {', '.join(APPROXIMATIONS)}.",
            code="option.unknown",
            option="formula",
        )
    approximation = APPROXIMATIONS[formula]
    if approximation.only_two and k != 2:
        raise OptionError(
            f"The approximation {formula!r} is only valid for k = 2. Choose another one.",
            code="option.unsupported",
            option="formula",
        )
    return float(k) if probability == 1.0 else approximation.formula(k, probability, limit)


def _logarithms(q: float, f: float) -> tuple[float, float]:
    """Return ln a and ln a / ln r."""
    log_a = math.log1p(-q) + math.log(f) - math.log(q)
    start = log_a / math.log1p(-q)
    if not (log_a < -1 and start > 0):
        raise _too_large()
    return log_a, start


def _too_large() -> OptionError:
    return OptionError(
        "failure is too large relative to participation for this approximation. Use "
        "effective_anonymity, which is exact.",
        code="option.out_of_range",
        option="failure",
    )


@_approximation("logarithm", only_two=True)
def _logarithm(k: int, q: float, f: float) -> float:  # noqa: ARG001
    """n0 = ln a / ln r, the root of r^n = a: n r^n = a with the factor n dropped."""
    return _logarithms(q, f)[1]


@_approximation("linear", only_two=True)
def _linear(k: int, q: float, f: float) -> float:  # noqa: ARG001
    """n1 = (1 - ln n0 / (1 + ln a)) n0: ln n expanded to first order around n0."""
    log_a, start = _logarithms(q, f)
    return (1 - math.log(start) / (1 + log_a)) * start


@_approximation("quadratic", only_two=True)
def _quadratic(k: int, q: float, f: float) -> float:  # noqa: ARG001
    """n2 = (2 + ln a + sqrt((1 + ln a)^2 + 2 ln n0)) n0: ln n expanded to second order."""
    log_a, start = _logarithms(q, f)
    discriminant = (1 + log_a) ** 2 + 2 * math.log(start)
    if discriminant < 0:
        raise _too_large()
    return (2 + log_a + math.sqrt(discriminant)) * start


@_approximation("lambert", only_two=True)
def _lambert(k: int, q: float, f: float) -> float:
    """n = W(a ln r) / ln r, the larger root of n q r^(n-1) = f; exact for k = 2.

    W is the lower branch of the Lambert function. Rounded up, n is the smallest size from which on
    every size meets the limit. If every size does, the result is k.
    """
    log_r = math.log1p(-q)
    value = (1 - q) * f / q * log_r
    return float(k) if value < -math.exp(-1) else lower_lambert(value) / log_r


@_approximation("divergence")
def _divergence(k: int, q: float, f: float) -> float:
    """Root n > (k-1)/q of -ln f = n D((k-1)/n || q): sufficient by Chernoff's bound."""
    target = -math.log(f)

    def exponent(n: float) -> float:
        share = (k - 1) / n
        return (k - 1) * math.log(share / q) + (n - k + 1) * (math.log1p(-share) - math.log1p(-q))

    low = max((k - 1) / q, math.nextafter(k - 1, math.inf))
    high = 2 * low
    while exponent(high) < target:
        low, high = high, 2 * high
    while high > math.nextafter(low, math.inf):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if exponent(middle) >= target else (middle, high)
    return high


@_approximation("square-root")
def _square_root(k: int, q: float, f: float) -> float:
    """(k-1 + c + sqrt(c (2(k-1) + c))) / q, c = -r ln f: D replaced by (share - q)^2 / (2 q r)."""
    c = -(1 - q) * math.log(f)
    return (k - 1 + c + math.sqrt(c * (2 * (k - 1) + c))) / q


@_approximation("square-root-simple")
def _square_root_simple(k: int, q: float, f: float) -> float:
    """(k-1 + sqrt(2 c (k-1)) + c) / q, c = -r ln f: "square-root" for large k."""
    c = -(1 - q) * math.log(f)
    return (k - 1 + math.sqrt(2 * c * (k - 1)) + c) / q


@_approximation("chebyshev")
def _chebyshev(k: int, q: float, f: float) -> float:
    """Root n > (k-1)/q of f = n q r / (n q - k + 1)^2: sufficient by Chebyshev's inequality."""
    half = q * (k - 1) + q * (1 - q) / (2 * f)
    return max(float(k), (half + math.sqrt(half**2 - (q * (k - 1)) ** 2)) / q**2)


@_approximation("intercept")
def _intercept(k: int, q: float, f: float) -> float:
    """Root with D replaced by -ln r (1 - share/q)^2, which equals D at shares of 0 and q."""
    log_r = math.log1p(-q)
    log_f = math.log(f)
    discriminant = q * log_f * (q * log_f + 4 * (k - 1) * log_r)
    return (2 * (k - 1) * log_r + q * log_f - math.sqrt(discriminant)) / (2 * q * log_r)


@_approximation("markov")
def _markov(k: int, q: float, f: float) -> float:
    """max(k, k (1 - f - r^k) / q): a lower bound by Markov's inequality."""
    return max(float(k), k * (1 - f - (1 - q) ** k) / q)
