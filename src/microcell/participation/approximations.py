"""Sizes of cells in closed form, or nearly: approximations of the effective anonymity, and a bound, by name.

With q the common participation, r = 1 - q, f the failure accepted, and n the size: for k = 2 the failure is
n q r^(n-1), so that n r^n = a with a = r f / q. For any k, P{K < k} is about exp(-n D), D being the divergence, in
nats, of the share (k-1)/n from q.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from microcell.errors import OptionError
from microcell.kernels.binomial import lower_lambert
from microcell.participation._input import check_chance, check_failure, check_k

__all__ = ["APPROXIMATIONS", "Approximation", "approximate_size"]

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


def approximate_size(k: int, participation: float, failure: float, how: str = "divergence") -> float:
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
        raise OptionError(f"There is no approximation of that name. There are: {', '.join(APPROXIMATIONS)}.")
    chosen = APPROXIMATIONS[how]
    if chosen.only_two and k != 2:
        raise OptionError(f"The approximation {how!r} is for k = 2 alone.")
    return float(k) if chance == 1.0 else chosen.formula(k, chance, limit)


def _logarithms(q: float, f: float) -> tuple[float, float]:
    """ln a and ln a / ln r."""
    log_a = math.log1p(-q) + math.log(f) - math.log(q)
    start = log_a / math.log1p(-q)
    if not (log_a < -1 and start > 0):
        raise OptionError("The failure accepted is too great beside the participation for this approximation.")
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
        raise OptionError("The failure accepted is too great beside the participation for this approximation.")
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
