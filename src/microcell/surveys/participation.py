"""Surveys whose participation is uncertain: how many candidates a cell needs, and how it may fail.

A cell of candidates is made before anyone answers. It fails if some, but fewer than k, of them take part.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from microcell import progress
from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.kernels.participation import (
    count,
    failures_of_cells,
    figures,
    least_enough,
    least_size,
    lower_lambert,
    participant_failure,
)
from microcell.model import Floats, Integers

__all__ = [
    "APPROXIMATIONS",
    "Approximation",
    "EffectiveAnonymity",
    "Estimate",
    "Simulation",
    "approximate_size",
    "as_chances",
    "as_labels",
    "cell_failures",
    "check_chance",
    "check_count",
    "check_failure",
    "check_k",
    "common_table_failure",
    "effective_anonymity",
    "is_number",
    "simulate_participation",
    "table_failure",
]


def is_number(given: object) -> bool:
    """Whether one number was given and not several."""
    return (
        isinstance(given, (Real, str, bytes))
        or not hasattr(given, "__len__")
        or getattr(given, "ndim", 1) == 0
    )


def check_k(k: object) -> int:
    """K, a whole number of 2 or more."""
    return check_count(k, "k", 2)


def check_count(given: object, name: str, least: int) -> int:
    """A whole number of ``least`` or more."""
    if isinstance(given, bool) or not isinstance(given, Integral) or int(given) < least:
        raise OptionError(f"{name} must be a whole number of {least} or more.")
    return int(given)


def check_chance(given: object) -> float:
    """One probability of taking part, for all: over 0, up to 1; sizes of cells must stay within floats."""
    given = given.item() if isinstance(given, np.ndarray) and given.ndim == 0 else given
    if isinstance(given, bool) or not isinstance(given, Real) or not 1e-300 <= float(given) <= 1:
        raise OptionError(
            "participation must be a probability over 0 (1e-300) and up to 1, or one a candidate."
        )
    return float(given)


def check_failure(given: object) -> float:
    """The failure probability that is accepted: below 1, and so large that floats hold its digits."""
    if isinstance(given, bool) or not isinstance(given, Real) or not 1e-300 <= float(given) < 1:
        raise OptionError("failure must be a probability of 1e-300 or more, and under 1.")
    return float(given)


def as_chances(given: ArrayLike, name: str = "participation") -> Floats:
    """The probabilities of the candidates in float64, one each, each over 0 and up to 1."""
    message = f"{name} must be probabilities, one a candidate."
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):
        raise DataError(message) from None
    if array.size == 0 and array.ndim == 1:
        raise DataError(f"{name} must have at least one candidate.")
    if array.dtype.kind not in "fiu" or array.ndim != 1:
        raise DataError(message)
    out = np.ascontiguousarray(array, dtype=np.float64)
    wrong = ~((out > 0) & (out <= 1))
    if wrong.any():
        raise DataError(
            f"{name} must be over 0 and up to 1: row {int(wrong.argmax()) + 1} is not, the first of "
            f"{int(wrong.sum())} such. Leave out candidates who cannot take part."
        )
    return out


def as_labels(given: ArrayLike, rows: int) -> Integers:
    """Cell numbers of 0 or more, one a candidate."""
    array = np.asarray(given)
    if array.dtype.kind not in "iu" or array.shape != (rows,) or (array < 0).any():
        raise OptionError(f"labels must be {rows} cell numbers of 0 or more, one a candidate.")
    return np.ascontiguousarray(array, dtype=np.int64)


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
    k: int,
    participation: float | Sequence[float] | Floats,
    failure: float,
    available: int | None = None,
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
        raise OptionError(
            "available goes with a common participation; here it is the length of the sequence."
        )
    return _of_each(k, as_chances(participation), limit)


def _of_common(k: int, chance: float, limit: float, available: int | None) -> EffectiveAnonymity:
    wanted = least_size(k, chance, limit)
    n = wanted if available is None else min(wanted, available)
    found = count(n, k, chance)
    record = found.moment / n
    return EffectiveAnonymity(
        k,
        limit,
        n,
        n == wanted,
        found.failure,
        found.conditional_mean,
        record,
        min(record / chance, 1.0),
        found.steady,
    )


def _of_each(k: int, chances: Floats, limit: float) -> EffectiveAnonymity:
    wanted = least_enough(chances, k, limit)
    own = chances if wanted < 0 else chances[:wanted]
    attained, moment, steady = figures(own, k)
    given, record = min(moment / attained, k - 1.0) if attained > 0 else 0.0, moment / len(own)
    return EffectiveAnonymity(
        k,
        limit,
        len(own),
        wanted >= 0,
        attained,
        given,
        record,
        participant_failure(own, k),
        steady,
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
        raise DataError(
            f"participation must be {len(cells)} probabilities, one a label, not {len(chances)}."
        )
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


Formula = Callable[[int, float, float], float]


@dataclass(frozen=True)
class Approximation:
    """A formula for the size of a cell."""

    name: str
    summary: str
    only_two: bool
    """Whether it is for k = 2 alone."""
    formula: Formula


APPROXIMATIONS: dict[str, Approximation] = {}


def _named(name: str, *, only_two: bool = False) -> Callable[[Formula], Formula]:
    def register(formula: Formula) -> Formula:
        summary = (formula.__doc__ or "").split("\n", maxsplit=1)[0]
        APPROXIMATIONS[name] = Approximation(name, summary, only_two, formula)
        return formula

    return register


def approximate_size(
    k: int, participation: float, failure: float, how: str = "divergence"
) -> float:
    """The approximate number of candidates, not rounded, that a cell needs by the formula of that name.

    ``APPROXIMATIONS`` lists them: for k = 2 "logarithm", "linear", "quadratic" and "lambert"; for any k "divergence",
    "square-root", "square-root-simple", "intercept" and the lower bound "markov". If all take part, k. They are for
    small failures: :func:`effective_anonymity` is exact, and quick.

    Examples
    --------
    >>> round(approximate_size(50, 0.5, 1e-6), 2)  # 159 are enough
    164.45
    >>> round(approximate_size(2, 0.5, 1e-6, "lambert"), 2)  # 25 are
    24.55
    """
    k, chance, limit = check_k(k), check_chance(participation), check_failure(failure)
    if how not in APPROXIMATIONS:
        raise OptionError(
            f"There is no approximation of that name. There are: {', '.join(APPROXIMATIONS)}."
        )
    chosen = APPROXIMATIONS[how]
    if chosen.only_two and k != 2:
        raise OptionError(f"The approximation {how!r} is for k = 2 alone.")
    return float(k) if chance == 1.0 else chosen.formula(k, chance, limit)


def _logarithms(q: float, f: float) -> tuple[float, float]:
    """ln a and ln a / ln r."""
    log_a = math.log1p(-q) + math.log(f) - math.log(q)
    start = log_a / math.log1p(-q)
    if not (log_a < -1 and start > 0):
        raise OptionError(
            "The failure accepted is too great beside the participation for this approximation."
        )
    return log_a, start


@_named("logarithm", only_two=True)
def _logarithm(k: int, q: float, f: float) -> float:  # noqa: ARG001
    """n0 = ln a / ln r: the factor n of n r^n = a left out."""
    return _logarithms(q, f)[1]


@_named("linear", only_two=True)
def _linear(k: int, q: float, f: float) -> float:  # noqa: ARG001
    """n1 = (1 - ln n0 / (1 + ln a)) n0: ln n made linear about n0."""
    log_a, start = _logarithms(q, f)
    return (1 - math.log(start) / (1 + log_a)) * start


@_named("quadratic", only_two=True)
def _quadratic(k: int, q: float, f: float) -> float:  # noqa: ARG001
    """n2 = (2 + ln a + sqrt((1 + ln a)^2 + 2 ln n0)) n0: ln n made quadratic about n0."""
    log_a, start = _logarithms(q, f)
    inside = (1 + log_a) ** 2 + 2 * math.log(start)
    if inside < 0:
        raise OptionError(
            "The failure accepted is too great beside the participation for this approximation."
        )
    return (2 + log_a + math.sqrt(inside)) * start


@_named("lambert", only_two=True)
def _lambert(k: int, q: float, f: float) -> float:
    """The greater root n = W(a ln r) / ln r of n q r^(n-1) = f, W being the lower Lambert branch; exact for k = 2.

    Rounded up, it is the least size from which on all meet the limit. If every size does, k.
    """
    log_r = math.log1p(-q)
    value = (1 - q) * f / q * log_r
    return float(k) if value < -math.exp(-1) else lower_lambert(value) / log_r


@_named("divergence")
def _divergence(k: int, q: float, f: float) -> float:
    """The root n > (k-1)/q of -ln f = n D((k-1)/n || q): enough, by Chernoff's bound, when rounded up."""
    wanted = -math.log(f)

    def exponent(n: float) -> float:
        share = (k - 1) / n
        return (k - 1) * math.log(share / q) + (n - k + 1) * (math.log1p(-share) - math.log1p(-q))

    low = max((k - 1) / q, math.nextafter(k - 1, math.inf))
    high = 2 * low
    while exponent(high) < wanted:
        low, high = high, 2 * high
    while high > math.nextafter(low, math.inf):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if exponent(middle) >= wanted else (middle, high)
    return high


@_named("square-root")
def _square_root(k: int, q: float, f: float) -> float:
    """(k-1 + c + sqrt(c (2(k-1) + c))) / q, c = -r ln f: the root where D is replaced by (share - q)^2 / (2 q r)."""
    c = -(1 - q) * math.log(f)
    return (k - 1 + c + math.sqrt(c * (2 * (k - 1) + c))) / q


@_named("square-root-simple")
def _square_root_simple(k: int, q: float, f: float) -> float:
    """(k-1 + sqrt(2 c (k-1)) + c) / q, c = -r ln f: the last for large k."""
    c = -(1 - q) * math.log(f)
    return (k - 1 + math.sqrt(2 * c * (k - 1)) + c) / q


@_named("intercept")
def _intercept(k: int, q: float, f: float) -> float:
    """The root where D is replaced by -ln r (1 - share/q)^2, which equals it at shares of 0 and q."""
    log_r, log_f = math.log1p(-q), math.log(f)
    inside = q * log_f * (q * log_f + 4 * (k - 1) * log_r)
    return (2 * (k - 1) * log_r + q * log_f - math.sqrt(inside)) / (2 * q * log_r)


@_named("markov")
def _markov(k: int, q: float, f: float) -> float:
    """k (1 - f - r^k) / q, or k if that is more: a lower bound, by Markov's inequality."""
    return max(float(k), k * (1 - f - (1 - q) ** k) / q)


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
    if (
        isinstance(participation, (list, tuple))
        and participation
        and np.ndim(participation[0]) == 1
    ):
        parts = [
            as_chances(part, f"participation of cell {i + 1}")
            for i, part in enumerate(participation)
        ]
        return np.concatenate(parts), np.repeat(
            np.arange(len(parts)), [len(part) for part in parts]
        )
    if isinstance(participation, (float, int, str)) or participation is None:
        raise DataError(
            "participation must be probabilities, one a candidate: a number does not say how many there are."
        )
    if isinstance(participation, np.ndarray) and participation.ndim == 2 and participation.size:
        return as_chances(participation.ravel()), np.repeat(
            np.arange(len(participation)), participation.shape[1]
        )
    chances = as_chances(participation)  # type: ignore[arg-type]
    return chances, np.zeros(len(chances), dtype=np.int64)


def _try(
    chance: np.random.Generator, trials: int, chances: Floats, starts: Integers, k: int
) -> Floats:
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
    return Estimate(
        float(ratio), float((parts - ratio * wholes).std(ddof=1) / np.sqrt(len(parts)) / whole)
    )
