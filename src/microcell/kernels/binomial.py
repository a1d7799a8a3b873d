"""The number of participants where all take part with the same probability: it is binomial, its terms are closed."""

import math
from typing import NamedTuple

from scipy.special import lambertw

__all__ = ["Count", "count", "least_size", "lower_lambert", "steady_size"]


class Count(NamedTuple):
    """What P{K = j}, 0 < j < k, come to for n candidates."""

    failure: float
    """P{0 < K < k}."""
    given: float
    """E[K | 0 < K < k]; 0 if that never happens."""
    moment: float
    """E[K; 0 < K < k]."""
    steady: bool
    """Whether P{K = k-1} >= P{K = 0}: a further candidate cannot raise the failure from there on."""


def count(n: int, k: int, participation: float) -> Count:
    """The figures of n candidates, each term from the one before: p(j) = p(j-1) (n-j+1)/j q/(1-q). O(k).

    p(0) may be far below the least float, so terms are mantissas and exponents.
    """
    if participation == 1.0:
        return Count(1.0 if 0 < n < k else 0.0, float(n) if 0 < n < k else 0.0, float(n) if 0 < n < k else 0.0, True)
    bits = n * math.log1p(-participation) / math.log(2.0)
    first = math.floor(bits)
    mantissa, power = 2.0 ** (bits - first), first
    odds = participation / (1.0 - participation)
    total, moment, greatest, term = 0.0, 0.0, power, mantissa
    for j in range(1, min(n, k - 1) + 1):
        mantissa, more = math.frexp(mantissa * ((n - j + 1) / j * odds))
        power += more
        if power > greatest:
            total, moment = math.ldexp(total, greatest - power), math.ldexp(moment, greatest - power)
            greatest = power
        term = math.ldexp(mantissa, power - greatest)
        total += term
        moment += j * term
    steady = n >= k - 1 and (power, mantissa) >= _split(2.0 ** (bits - first), first)
    given = min(moment / total, k - 1.0) if total > 0 else 0.0
    return Count(math.ldexp(total, greatest), given, math.ldexp(moment, greatest), steady)


def _split(mantissa: float, power: int) -> tuple[int, float]:
    """The number as (power, mantissa), the mantissa between 1/2 and 1, so that such pairs compare as their numbers."""
    mantissa, more = math.frexp(mantissa)
    return power + more, mantissa


def least_size(k: int, participation: float, limit: float) -> int:
    """The least n >= k with P{0 < K < k} <= ``limit``. O(k log n).

    The failure rises with n while P{K = k-1} < P{K = 0} and falls from then on, so that it meets a limit that k
    candidates miss from some n on.
    """
    return _first(k, k, participation, limit)


def steady_size(k: int, participation: float, limit: float) -> int:
    """The least n >= k from which on every size meets the limit. O(k log n)."""
    n = least_size(k, participation, limit)
    if count(n, k, participation).steady:
        return n
    low, high = n, 2 * n  # not yet falling at low
    while not count(high, k, participation).steady:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if count(middle, k, participation).steady else (middle, high)
    if count(high, k, participation).failure <= limit:  # the greatest failure of all sizes
        return n
    return _first(high, k, participation, limit)


def _first(low: int, k: int, participation: float, limit: float) -> int:
    """The least n >= ``low`` that meets the limit, if all sizes after one that does do too, or if ``low`` does."""
    if count(low, k, participation).failure <= limit:
        return low
    high = 2 * low
    while count(high, k, participation).failure > limit:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if count(middle, k, participation).failure <= limit else (middle, high)
    return high


def lower_lambert(value: float) -> float:
    """W <= -1 with W exp(W) = ``value``, for -1/e <= value < 0."""
    return float(lambertw(value, -1).real)
