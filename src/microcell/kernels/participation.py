"""The number K of candidates who take part: distributions, failure probabilities and box cuts.

A cell *fails* if 0 < K < k: somebody takes part, but fewer than k.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy

from microcell.kernels._jit import inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers

__all__ = [
    "CorrelatedCount",
    "Count",
    "beta_quantiles",
    "chi_squared_tail",
    "conditional_participation",
    "correlated_count",
    "correlated_exposure",
    "correlated_size",
    "count",
    "exposure",
    "exposures_along",
    "exposures_of_cells",
    "failures_along",
    "failures_of_cells",
    "figures",
    "gains_along",
    "join",
    "least_enough",
    "least_size",
    "log_beta_binomial",
    "lower_lambert",
    "normal_quantile",
    "normal_tail",
    "participant_failure",
    "protecting_size",
    "steady_size",
]


class Count(NamedTuple):
    """Statistics of the failure event 0 < K < k."""

    failure: float
    """P{0 < K < k}."""
    conditional_mean: float
    """E[K | 0 < K < k]; 0 if that never happens."""
    moment: float
    """E[K; 0 < K < k]."""
    steady: bool
    """Whether P{K = k-1} >= P{K = 0}. If so, further candidates cannot raise the failure
    probability.
    """


def count(n: int, k: int, participation: float) -> Count:
    """Return the statistics for n candidates, by p(j) = p(j-1) (n-j+1)/j q/(1-q). O(k).

    p(0) may be far below the smallest float, so terms are kept as mantissas and exponents.
    """
    if participation == 1.0:
        return Count(
            1.0 if 0 < n < k else 0.0,
            float(n) if 0 < n < k else 0.0,
            float(n) if 0 < n < k else 0.0,
            True,
        )
    bits = n * math.log1p(-participation) / math.log(2.0)
    first = math.floor(bits)
    mantissa, power = 2.0 ** (bits - first), first
    odds = participation / (1.0 - participation)
    total, moment, greatest, term = 0.0, 0.0, power, mantissa
    for j in range(1, min(n, k - 1) + 1):
        mantissa, more = math.frexp(mantissa * ((n - j + 1) / j * odds))
        power += more
        if power > greatest:
            total, moment = (
                math.ldexp(total, greatest - power),
                math.ldexp(moment, greatest - power),
            )
            greatest = power
        term = math.ldexp(mantissa, power - greatest)
        total += term
        moment += j * term
    steady = n >= k - 1 and (power, mantissa) >= _split(2.0 ** (bits - first), first)
    conditional_mean = min(moment / total, k - 1.0) if total > 0 else 0.0
    return Count(
        math.ldexp(total, greatest), conditional_mean, math.ldexp(moment, greatest), steady
    )


def _split(mantissa: float, power: int) -> tuple[int, float]:
    """Normalize to (exponent, mantissa), so that pairs compare like their numbers."""
    mantissa, more = math.frexp(mantissa)
    return power + more, mantissa


def least_size(k: int, participation: float, limit: float) -> int:
    """Return the smallest n >= k with P{0 < K < k} <= ``limit``. O(k log n).

    The failure rises with n while P{K = k-1} < P{K = 0} and falls afterwards, so a limit that k
    candidates exceed is met by all n from some size on.
    """
    return _first(k, k, participation, limit)


def exposure(n: int, k: int, participation: float) -> float:
    """Return the conditional failure of a cell of n candidates; see :func:`exposures_of_cells`.

    It falls as n grows. O(k).
    """
    someone = -math.expm1(n * math.log1p(-participation)) if participation < 1 else 1.0
    nobody = (1.0 - participation) ** (n - 1) if n > 1 else 1.0
    others = nobody + count(n - 1, k - 1, participation).failure
    return max(count(n, k, participation).failure / someone, others)


def protecting_size(k: int, participation: float, limit: float) -> int:
    """Return the smallest n >= k whose conditional failure is at most ``limit``. O(k log n)."""
    low, high = k - 1, k
    while exposure(high, k, participation) > limit:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if exposure(middle, k, participation) <= limit else (middle, high)
    return high


def steady_size(k: int, participation: float, limit: float) -> int:
    """Return the smallest n >= k such that every size of at least n meets the limit. O(k log n)."""
    n = least_size(k, participation, limit)
    if count(n, k, participation).steady:
        return n
    low, high = n, 2 * n  # the failure is still rising at low
    while not count(high, k, participation).steady:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if count(middle, k, participation).steady else (middle, high)
    if count(high, k, participation).failure <= limit:  # the largest failure of any size
        return n
    return _first(high, k, participation, limit)


def _first(low: int, k: int, participation: float, limit: float) -> int:
    """Return the smallest n >= ``low`` that meets the limit, by bisection.

    Assumes that ``low`` meets it, or that every size after one that does also does.
    """
    if count(low, k, participation).failure <= limit:
        return low
    high = 2 * low
    while count(high, k, participation).failure > limit:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if count(middle, k, participation).failure <= limit else (middle, high)
        )
    return high


def lower_lambert(value: float) -> float:
    """Return W <= -1 with W exp(W) = ``value``, for -1/e <= value < 0."""
    return float(scipy.special.lambertw(value, -1).real)


def normal_tail(z: float) -> float:
    """Return the probability that a standard normal variable exceeds z."""
    return float(scipy.special.ndtr(-z))


def normal_quantile(probability: float) -> float:
    """Return the z that a standard normal variable stays below with this probability."""
    return float(scipy.special.ndtri(probability))


def chi_squared_tail(degrees: int, value: float) -> float:
    """Return the probability that a chi-squared variable exceeds the value."""
    return float(scipy.special.chdtrc(degrees, value))


def log_beta_binomial(n: int, counts: Integers, a: float, b: float) -> Floats:
    """Return ln P{K = j} for each of the counts j, if K is beta-binomial: n, a and b."""
    special = scipy.special
    choices: Floats = (
        special.gammaln(n + 1) - special.gammaln(counts + 1) - special.gammaln(n - counts + 1)
    )
    total: Floats = choices + special.betaln(counts + a, n - counts + b) - special.betaln(a, b)
    return total


class CorrelatedCount(NamedTuple):
    """Statistics of a cell whose candidates decide with a common correlation."""

    failure: float
    """P{0 < K < k}."""
    moment: float
    """E[K; 0 < K < k]."""
    participant_failure: float
    """P{at most k-2 of the others take part}, given that a certain candidate does."""
    nobody: float
    """P{K = 0}."""


def correlated_count(n: int, k: int, participation: float, correlation: float) -> CorrelatedCount:
    """Return the statistics of K among n candidates who take part with the same probability.

    Any two of them have this correlation, greater than 0 and less than 1: K is beta-binomial.
    O(k).
    """
    a = participation * (1 / correlation - 1)
    b = (1 - participation) * (1 / correlation - 1)
    if b == 0:
        return CorrelatedCount(0.0, 0.0, float(n < k), 0.0)
    counts = np.arange(0, min(k, n + 1))
    p = np.exp(log_beta_binomial(n, counts, a, b))
    failing = p[1:] if n >= k else p[1 : n + 1]
    others = np.exp(log_beta_binomial(n - 1, np.arange(0, min(k - 1, n)), a + 1, b))
    return CorrelatedCount(
        float(failing.sum()),
        float(failing @ counts[1:]),
        min(float(others.sum()), 1.0),
        float(p[0]),
    )


def correlated_exposure(n: int, k: int, participation: float, correlation: float) -> float:
    """Return the conditional failure of a cell of n candidates who decide together.

    See :func:`exposures_of_cells`. O(k).
    """
    if correlation == 0.0:
        return exposure(n, k, participation)
    result = correlated_count(n, k, participation, correlation)
    someone = 1 - result.nobody
    given_someone = result.failure / someone if someone > 0 else 1.0
    return min(max(given_someone, result.participant_failure), 1.0)


def correlated_size(
    k: int, participation: float, correlation: float, limit: float, most: int
) -> int | None:
    """Return the smallest n from k to ``most`` whose conditional failure is at most ``limit``.

    None if there is none: the more candidates decide together, the less another one helps.
    """

    def meets(n: int) -> bool:
        return correlated_exposure(n, k, participation, correlation) <= limit

    low, high = k - 1, k
    while not meets(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


def beta_quantiles(u: Floats, participation: Floats, correlation: float) -> Floats:
    """Return the quantile u of a beta distribution with this mean and this correlation.

    Candidates who take part with the resulting probabilities, for a common u that is uniform on
    (0, 1), have this correlation if their means are equal.
    """
    if correlation == 0.0:
        return np.asarray(participation + 0.0 * u, dtype=np.float64)
    if correlation == 1.0:
        return (u > 1 - participation).astype(np.float64)
    scale = 1 / correlation - 1
    certain = participation >= 1
    safe = np.where(certain, 0.5, participation)
    values = scipy.special.betaincinv(safe * scale, (1 - safe) * scale, u)
    return np.asarray(np.where(certain, 1.0, values), dtype=np.float64)


def conditional_participation(probabilities: Floats, participants: int) -> Floats:
    """Return P{candidate j takes part | K = participants} of each candidate of a cell.

    From the distributions of K before and after each candidate, scaled so that they do not
    underflow. O(n participants) time and memory.
    """
    n, t = len(probabilities), participants
    before, after = np.zeros((n + 1, t + 1)), np.zeros((n + 1, t + 1))
    before[0, 0] = after[n, 0] = 1.0
    for j in range(n):
        before[j + 1] = _joined(before[j], probabilities[j])
        after[n - 1 - j] = _joined(after[n - j], probabilities[n - 1 - j])
    out = np.empty(n)
    for j in range(n):
        with_j = probabilities[j] * (before[j, :t] @ after[j + 1, :t][::-1]) if t else 0.0
        without = (1 - probabilities[j]) * (before[j] @ after[j + 1][::-1])
        out[j] = with_j / (with_j + without) if with_j + without > 0 else 0.0
    return out


def _joined(p: Floats, probability: float) -> Floats:
    """Return a distribution with one more candidate, scaled to a largest entry of 1."""
    q = p * (1 - probability)
    q[1:] += p[:-1] * probability
    joined: Floats = q / max(float(q.max()), 1e-300)
    return joined


_BLOCK = 1024
"""Number of records between two stored distributions, which keeps memory small."""


@inner_kernel
def join(p: Floats, probability: float) -> None:
    """Add a candidate to the distribution (OUT: ``p``). O(k)."""
    rest = 1.0 - probability
    for j in range(len(p) - 1, 0, -1):
        p[j] = rest * p[j] + probability * p[j - 1]
    p[0] *= rest


@inner_kernel
def _nobody(k: int) -> Floats:
    """Return the distribution of K for no candidates."""
    p = np.zeros(k)
    p[0] = 1.0
    return p


@kernel
def least_enough(participation: Floats, k: int, limit: float) -> int:
    """Return the smallest n >= k for which the first n candidates meet the failure ``limit``.

    Returns -1 if there is none. O(n k) time, O(k) memory.
    """
    p = _nobody(k)
    for i in range(len(participation)):
        join(p, participation[i])
        if i + 1 >= k and p[1:].sum() <= limit:
            return i + 1
    return -1


@kernel
def figures(participation: Floats, k: int) -> tuple[float, float, bool]:
    """Return P{0 < K < k}, E[K; 0 < K < k], and whether P{K = k-1} >= P{K = 0}.

    If the last holds, another candidate cannot raise the first: it changes by
    q (P{K = 0} - P{K = k-1}), and the ratio of the two never falls.
    """
    p, total, moment = _nobody(k), 0.0, 0.0
    for i in range(len(participation)):
        join(p, participation[i])
    for j in range(1, k):
        total += p[j]
        moment += j * p[j]
    return total, moment, p[k - 1] >= p[0]


@kernel
def failures_of_cells(labels: Integers, participation: Floats, k: int) -> Floats:
    """Return P{0 < K < k} of every cell; 0 for a cell without candidates. O(n k)."""
    count = labels.max() + 1 if len(labels) > 0 else 0
    ends = np.zeros(count + 1, dtype=np.int64)
    for label in labels:
        ends[label + 1] += 1
    ends = np.cumsum(ends)
    grouped, place = np.empty(len(labels)), ends[:-1].copy()
    for i in range(len(labels)):
        grouped[place[labels[i]]] = participation[i]
        place[labels[i]] += 1
    out, p = np.empty(count), np.empty(k)
    for cell in range(count):
        p[:] = 0.0
        p[0] = 1.0
        for i in range(ends[cell], ends[cell + 1]):
            join(p, grouped[i])
        out[cell] = p[1:].sum()
    return out


def exposures_of_cells(labels: Integers, participation: Floats, k: int) -> Floats:
    """Return the conditional failure of every cell; 0 for a cell without candidates. O(n k).

    This is the larger of the probability that the cell fails given that somebody takes part, and
    the largest probability that it fails given that a certain member takes part. The latter is that
    of the member most likely to take part, because the others are then the fewest: P{at most k-2 of
    the others take part}. Adding a candidate never raises either of them.
    """
    n_cells = int(labels.max(initial=-1)) + 1
    order = np.lexsort((participation, labels))
    labels, participation = labels[order], participation[order]
    is_last = np.append(labels[1:] != labels[:-1], True)[: len(labels)]
    with np.errstate(divide="ignore"):
        absent = np.log1p(-participation)
    others = failures_of_cells(labels[~is_last], participation[~is_last], k - 1)
    among_others = np.exp(np.bincount(labels[~is_last], absent[~is_last], minlength=n_cells))
    among_others[: len(others)] += others
    someone = -np.expm1(np.bincount(labels, absent, minlength=n_cells))
    given_someone = np.zeros(n_cells)
    failures = failures_of_cells(labels, participation, k)
    np.divide(failures, someone, out=given_someone, where=someone > 0)
    used = np.bincount(labels, minlength=n_cells) > 0
    return np.where(used, np.minimum(np.maximum(given_someone, among_others), 1.0), 0.0)


def exposures_along(participation: Floats, k: int) -> Floats:
    """Return the conditional failure of the first i candidates, for each i. O(n k)."""
    # Without the member most likely to take part, the first i are these first i - 1:
    others = np.minimum(participation[1:], np.maximum.accumulate(participation)[:-1])
    with np.errstate(divide="ignore"):
        someone = -np.expm1(np.cumsum(np.log1p(-participation)))
        nobody = np.exp(np.cumsum(np.append(0.0, np.log1p(-others))))
    among_others = nobody + failures_along(others, k - 1)
    given_someone = failures_along(participation, k)[1:] / someone
    return np.append(0.0, np.minimum(np.maximum(given_someone, among_others), 1.0))


@kernel
def participant_failure(participation: Floats, k: int) -> float:
    """Return the mean over candidates of P{at most k-2 of the others take part}.

    Combines the distributions of the candidates before and after each one, without division. O(n k)
    time; the distributions of later candidates are stored once per block and recomputed within it.
    """
    n, entries = len(participation), k - 1
    blocks = -(-n // _BLOCK)
    kept, below = np.zeros((blocks, k)), np.zeros((min(n, _BLOCK), entries))
    after, before, total = _nobody(k), _nobody(k), 0.0
    for b in range(blocks - 1, -1, -1):
        for j in range(k):
            kept[b, j] = after[j]
        for i in range(min(n, (b + 1) * _BLOCK) - 1, b * _BLOCK - 1, -1):
            join(after, participation[i])
    for b in range(blocks):
        first, last = b * _BLOCK, min(n, (b + 1) * _BLOCK)
        for j in range(k):
            after[j] = kept[b, j]
        for i in range(last - 1, first - 1, -1):
            so_far = 0.0
            for j in range(entries):  # reversed, to align with the distribution of those before
                so_far += after[j]
                below[i - first, entries - 1 - j] = so_far
            join(after, participation[i])
        for i in range(first, last):
            for j in range(entries):
                total += before[j] * below[i - first, j]
            join(before, participation[i])
    return total / n


@kernel
def gains_along(X: Floats, weights: Floats, order: Integers) -> Floats:
    """Return, for each i, the fall in the SSE if the first i rows of ``order`` are separated.

    (W + W') / (W W') |s|^2, with the weights W and W' of both sides and the weighted sum s of the
    first side from the overall mean, so that no large terms are subtracted. The entry for i = 0 is
    0. O(n m).
    """
    n, m = len(order), X.shape[1]
    out, mean, first = np.zeros(n), np.zeros(m), np.zeros(m)
    total = 0.0
    for i in range(n):
        total += weights[order[i]]
        for j in range(m):
            mean[j] += weights[order[i]] * X[order[i], j]
    for j in range(m):
        mean[j] /= total
    before = 0.0
    for i in range(n - 1):
        row = order[i]
        before += weights[row]
        after = max(total - before, 0.0)
        gain = 0.0
        for j in range(m):  # relative to the mean, the sums of both sides are opposite
            first[j] += weights[row] * (X[row, j] - mean[j])
            gain += first[j] * first[j]
        out[i + 1] = gain * total / (before * after) if after > 0 else 0.0
    return out


@kernel
def failures_along(probabilities: Floats, k: int) -> Floats:
    """Return P{0 < K < k} of the first i candidates, for each i. O(n k)."""
    out, p = np.zeros(len(probabilities) + 1), np.zeros(k)
    p[0] = 1.0
    for i in range(len(probabilities)):
        join(p, probabilities[i])
        out[i + 1] = p[1:].sum()
        if p.sum() == 0.0:  # underflow: all further probabilities are 0
            break
    return out
