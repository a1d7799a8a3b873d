"""The running time of a method by number of records, measured on samples in a few seconds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from microcell import progress
from microcell._display import record_html, record_repr
from microcell.errors import OptionError
from microcell.model import Floats

__all__ = ["TimeCurve", "calibrate", "fit_curve", "power_curve"]

_FIRST_SIZE = 500
_GROWTH = 2.0
_MIN_SIZES = 3

_MIN_POWER = 1.0
"""Lower limit, because every record is read. Slower growth means that constant costs dominate."""
_MAX_POWER = 4.0

_CONSTANT_SHARES = tuple(1 - 0.5 ** (step / 2) for step in range(1, 21))
"""Candidates for the constant part of the time, as shares of the shortest time."""

_MIN_SECONDS = 1e-6
_MAX_RUNS = 3
_REPEAT_BUDGET = 0.05
"""Share of the budget within which a size is measured repeatedly."""


@dataclass(frozen=True)
class TimeCurve:
    """Running time t(n) = a n^b + c in seconds for n records.

    ``error`` is the relative deviation (root mean square) of the measured times from the curve, and
    ``sizes`` are the sample sizes; a curve that was not fitted has an error of 0.

    Examples
    --------
    >>> curve = TimeCurve(2e-6, 2.0, 0.1)
    >>> round(curve.seconds(1000), 3)
    2.1
    """

    a: float
    b: float
    c: float = 0.0
    error: float = 0.0
    sizes: tuple[int, ...] = ()

    __repr__ = record_repr
    _repr_html_ = record_html

    def seconds(self, records: float) -> float:
        """Return the time for this many records, 0 for none."""
        return float(self.a * records**self.b + self.c) if records > 0 else 0.0

    def error_at(self, records: float) -> float:
        """Return the relative standard error of the time, which grows beyond the sizes."""
        if not self.sizes:
            return 0.0
        x = np.log(self.sizes)
        weights = _weights(np.array([self.seconds(size) for size in self.sizes]))
        mean = float((weights * x).sum())
        variance = float((weights * (x - mean) ** 2).sum())
        distance = (np.log(records) - mean) ** 2 / variance if variance > 0 else 0.0
        return float(np.expm1(np.log1p(self.error) * np.sqrt(1 + (1 + distance) / len(x))))


def power_curve(records: float, seconds: float, power: float = 2.0) -> TimeCurve:
    """Return the curve a n^power through one known time; MDAV has a power of 2."""
    return TimeCurve(seconds / records**power, power)


def calibrate(
    run: Callable[[int], float], records: int, *, seconds: float = 5.0, min_size: int = 1
) -> TimeCurve:
    """Fit the time curve of ``run``, which processes n records and returns the seconds it took.

    Sizes double from 500 until the next one would exceed the budget of ``seconds`` or all
    ``records`` are used. There are at least three sizes (smaller ones for a small table), none
    below ``min_size``. A first run at the smallest size is not counted because it may compile.

    Examples
    --------
    >>> curve = calibrate(lambda n: 1e-6 * n**2, 100_000, seconds=100)
    >>> round(curve.b, 3), curve.error < 0.01
    (2.0, True)
    """
    if records < 4 * min_size:
        raise OptionError(
            f"At least {4 * min_size} records are needed to measure how the time grows, but there "
            f"{'is' if records == 1 else 'are'} only {records}. Pass the time of the whole job "
            "instead.",
            code="option.out_of_range",
            option="records",
            minimum=4 * min_size,
        )
    if not 0 < seconds < np.inf:
        raise OptionError(
            f"seconds must be a number greater than 0, not {seconds!r}.",
            code="option.out_of_range",
            option="seconds",
        )
    size = max(min_size, min(_FIRST_SIZE, int(records / _GROWTH ** (_MIN_SIZES - 1))))
    run(size)
    sizes: list[int] = []
    times: list[float] = []
    elapsed = 0.0
    while True:
        progress.report(
            "measuring times on samples",
            min(int(10 * elapsed), int(10 * seconds)),
            int(10 * seconds),
        )
        runs = _repeat(run, size, _REPEAT_BUDGET * seconds)
        elapsed += sum(runs)
        sizes.append(size)
        times.append(max(min(runs), _MIN_SECONDS))
        next_size = min(records, int(size * _GROWTH))
        if next_size == size:
            break
        if len(sizes) >= _MIN_SIZES and elapsed + _predict(sizes, times, next_size) > seconds:
            break
        size = next_size
    return fit_curve(sizes, times)


def fit_curve(sizes: Sequence[int], times: Sequence[float]) -> TimeCurve:
    """Fit a curve to at least three times by least squares of logarithms, weighting longer ones.

    Examples
    --------
    >>> fit = fit_curve([100, 200, 400, 800], [1.0, 4.0, 16.0, 64.0])
    >>> round(fit.b, 6), round(fit.seconds(1600), 3)
    (2.0, 256.0)
    """
    if len(sizes) < _MIN_SIZES or len(sizes) != len(times) or min(*sizes, *times) <= 0:
        raise OptionError(
            "A time curve needs at least three sizes and one time per size, all greater than 0.",
            code="option.invalid",
            option="sizes",
        )
    n = np.asarray(sizes, dtype=np.float64)
    t = np.asarray(times, dtype=np.float64)
    a, b, c = _fit(n, t)
    error = np.sqrt(_misfit(n, t, (a, b, c)) * len(n) / (len(n) - 2))
    return TimeCurve(a, b, c, float(np.expm1(error)), tuple(map(int, sizes)))


def _repeat(run: Callable[[int], float], size: int, seconds: float) -> list[float]:
    """Run up to three times within the budget: the shortest run suffers least from other load."""
    times = [float(run(size))]
    while len(times) < _MAX_RUNS and sum(times) < seconds:
        times.append(float(run(size)))
    return times


def _fit(n: Floats, t: Floats) -> tuple[float, float, float]:
    """Return the curve's a, b and c; c is 0 unless a constant term halves the squared error."""
    plain = _fit_power(n, t, 0.0)
    if len(n) <= _MIN_SIZES:
        return plain
    fits = [_fit_power(n, t, share * float(t.min())) for share in _CONSTANT_SHARES]
    best = min(fits, key=lambda fit: _misfit(n, t, fit))
    return best if _misfit(n, t, best) < 0.5 * _misfit(n, t, plain) else plain


def _misfit(n: Floats, t: Floats, fit: tuple[float, float, float]) -> float:
    a, b, c = fit
    return float((_weights(t) * np.log((a * n**b + c) / t) ** 2).sum())


def _fit_power(n: Floats, t: Floats, c: float) -> tuple[float, float, float]:
    """Fit a straight line through the logarithms of n and t - c."""
    x, y = np.log(n), np.log(t - c)
    weights = _weights(t)
    mean_x, mean_y = float((weights * x).sum()), float((weights * y).sum())
    variance = float((weights * (x - mean_x) ** 2).sum())
    covariance = float((weights * (x - mean_x) * (y - mean_y)).sum())
    slope = covariance / variance if variance > 0 else 1.0
    b = min(max(slope, _MIN_POWER), _MAX_POWER)
    return float(np.exp(mean_y - b * mean_x)), b, c


def _weights(t: Floats) -> Floats:
    """Return weights that grow with the time, as long times are more precise; their sum is 1."""
    weights: Floats = np.sqrt(t) / np.sqrt(t).sum()
    return weights


def _predict(sizes: Sequence[int], times: Sequence[float], size: int) -> float:
    """Extrapolate the time for the next size from the last two, with at most quadratic growth."""
    growth = np.log(times[-1] / times[-2]) / np.log(sizes[-1] / sizes[-2])
    return float(times[-1] * (size / sizes[-1]) ** min(max(growth, 1.0), 2.0))
