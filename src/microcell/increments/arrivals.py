"""How long a method takes, as a function of the number of records: found on samples in a few seconds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np

from microcell import progress
from microcell._display import record_repr
from microcell.errors import OptionError
from microcell.model import Floats

__all__ = [
    "CURVES",
    "Arrivals",
    "TimeCurve",
    "as_arrivals",
    "calibrate",
    "fit_curve",
    "power_curve",
]


@dataclass(frozen=True)
class _Curve:
    share: Callable[[float], float]
    time: Callable[[float], float]


CURVES: Mapping[str, _Curve] = {
    "uniform": _Curve(lambda time: time, lambda share: share),
    "early": _Curve(lambda time: 1 - (1 - time) ** 2, lambda share: 1 - sqrt(1 - share)),
    "late": _Curve(lambda time: time**2, sqrt),
}
"""Named curves, times in units of the collection's: as many each minute; falling evenly to none at the end; rising
evenly from none."""


@dataclass(frozen=True, eq=False)
class Arrivals:
    """A curve of arrivals over ``collection`` seconds.

    With s the part of the time that has passed, the share that is in is s if ``name`` is "uniform" (as many each
    minute), 1 - (1 - s)^2 if "early" (their number falls evenly to none) and s^2 if "late" (it rises evenly from none).
    If it is "given", ``times`` are those of all records, sorted, in seconds since the collection began.

    Examples
    --------
    >>> late = Arrivals("late", collection=100)
    >>> late.share_by(50), late.time_of(0.25)
    (0.25, 50.0)
    """

    name: str
    collection: float
    times: Floats | None = None

    __repr__ = record_repr

    def __post_init__(self) -> None:
        if (self.times is None) != (self.name in CURVES) or self.name not in (*CURVES, "given"):
            raise OptionError(
                f"arrivals must be one of {', '.join(CURVES)}, or the times of records, not {self.name!r}."
            )
        if not 0 <= self.collection < np.inf:
            raise OptionError(
                f"collection must be a number of seconds of 0 or more, not {self.collection!r}."
            )

    def share_by(self, seconds: float) -> float:
        """The share of the records that is in so many seconds after the collection began."""
        if self.times is not None:
            return float(np.searchsorted(self.times, seconds, side="right")) / len(self.times)
        if self.collection == 0:
            return 1.0 if seconds >= 0 else 0.0
        return float(CURVES[self.name].share(min(max(seconds / self.collection, 0.0), 1.0)))

    def time_of(self, share: float) -> float:
        """When this share of the records is in, in seconds since the collection began."""
        if share <= 0:
            return 0.0
        if self.times is not None:
            return float(
                self.times[min(len(self.times), ceil(share * len(self.times) * (1 - 1e-12))) - 1]
            )
        return self.collection * float(CURVES[self.name].time(min(share, 1.0)))


def as_arrivals(given: Any, collection: float | None) -> Arrivals:
    """The arrivals of that name, or of records with these times, in seconds since the collection began.

    Left out, the collection ends with the last record.

    Examples
    --------
    >>> as_arrivals([4, 2, 8, 6], None).share_by(4)
    0.5
    """
    if isinstance(given, Arrivals):
        if collection is not None:
            raise OptionError("These arrivals have their collection already; leave it out.")
        return given
    if isinstance(given, str):
        if collection is None:
            raise OptionError(
                "collection must be the number of seconds from the first record to the last."
            )
        return Arrivals(given, collection)
    times = _as_times(given)
    last = float(times[-1])
    if collection is not None and collection < last:
        raise OptionError(
            "A record arrives after the end of the collection. Give a longer one, or none."
        )
    return Arrivals("given", last if collection is None else collection, times)


def _as_times(given: Any) -> Floats:
    message = "arrivals must be a name or the records' times, in seconds of 0 or more since the collection began."
    if not isinstance(given, (Iterable, np.ndarray)):
        raise OptionError(message)
    try:
        times = np.sort(np.asarray(list(given), dtype=np.float64))
    except (TypeError, ValueError):
        raise OptionError(message) from None
    if times.ndim != 1 or len(times) == 0 or not np.isfinite(times).all() or times[0] < 0:
        raise OptionError(message)
    return times


_FIRST, _FACTOR, _LEAST_SIZES = 500, 2.0, 3
_LEAST_POWER, _MOST_POWER = 1.0, 4.0
"""Every record is looked at: where times of small samples grow by less, most of them is a constant part."""

_OVERHEADS = tuple(1 - 0.5 ** (step / 2) for step in range(1, 21))
"""The constant part of the time, if there is one, is one of these shares of the shortest time."""

_QUICKEST = 1e-6
_RUNS, _SMALL_PART = 3, 0.05


@dataclass(frozen=True)
class TimeCurve:
    """t(n) = a n^b + c seconds for n records, and its relative ``error``, as found on ``sizes``.

    The error is how far the times lie from the curve, as a part of them, in the mean of squares; 0 of a curve that is
    given and not fitted.

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

    def seconds(self, records: float) -> float:
        """The time for so many records; none for none."""
        return float(self.a * records**self.b + self.c) if records > 0 else 0.0

    def error_at(self, records: float) -> float:
        """The standard error of the time for so many records, as a part of it: the farther from the sizes, the more."""
        if not self.sizes:
            return 0.0
        x = np.log(self.sizes)
        w = _weigh(np.array([self.seconds(size) for size in self.sizes]))
        mean = float((w * x).sum())
        spread = float((w * (x - mean) ** 2).sum())
        distance = (np.log(records) - mean) ** 2 / spread if spread > 0 else 0.0
        return float(np.expm1(np.log1p(self.error) * np.sqrt(1 + (1 + distance) / len(x))))


def power_curve(records: float, seconds: float, power: float = 2.0) -> TimeCurve:
    """The curve a n^power through one known time; a power of 2 is that of MDAV."""
    return TimeCurve(seconds / records**power, power)


def calibrate(
    run: Callable[[int], float], records: int, *, seconds: float = 5.0, least: int = 1
) -> TimeCurve:
    """The time curve of ``run``, which does the job on so many records and returns the seconds that it took.

    Sizes double from 500 until the next one would pass the budget of ``seconds``, or all ``records`` are in; there are
    three at least, smaller ones of a small table, but never below ``least``. A first run at the smallest size does not
    count: it compiles, or loads what is compiled.

    Examples
    --------
    >>> curve = calibrate(lambda n: 1e-6 * n**2, 100_000, seconds=100)
    >>> round(curve.b, 3), curve.error < 0.01
    (2.0, True)
    """
    if records < 4 * least:
        raise OptionError(
            f"{records} records are too few to find out how the time grows: {4 * least} or more are needed. "
            "Say how long the whole job takes."
        )
    if not 0 < seconds < np.inf:
        raise OptionError(
            f"The time for a calibration must be a number of seconds above 0, not {seconds!r}."
        )
    size = max(least, min(_FIRST, int(records / _FACTOR ** (_LEAST_SIZES - 1))))
    run(size)
    sizes: list[int] = []
    times: list[float] = []
    spent = 0.0
    while True:
        progress.report(
            "timing on samples", min(int(10 * spent), int(10 * seconds)), int(10 * seconds)
        )
        took = _run_often(run, size, _SMALL_PART * seconds)
        spent += sum(took)
        sizes.append(size)
        times.append(max(min(took), _QUICKEST))
        following = min(records, int(size * _FACTOR))
        if following == size:
            break
        if len(sizes) >= _LEAST_SIZES and spent + _expected(sizes, times, following) > seconds:
            break
        size = following
    return fit_curve(sizes, times)


def fit_curve(sizes: Sequence[int], times: Sequence[float]) -> TimeCurve:
    """The curve that fits these times best in their logarithms, longer ones counting more; three at least.

    Examples
    --------
    >>> fit = fit_curve([100, 200, 400, 800], [1.0, 4.0, 16.0, 64.0])
    >>> round(fit.b, 6), round(fit.seconds(1600), 3)
    (2.0, 256.0)
    """
    if len(sizes) < _LEAST_SIZES or len(sizes) != len(times) or min(*sizes, *times) <= 0:
        raise OptionError(
            "A time curve is fitted to three sizes or more, and to their times, all above 0."
        )
    n, t = np.asarray(sizes, dtype=np.float64), np.asarray(times, dtype=np.float64)
    a, b, c = _fit(n, t)
    error = np.sqrt(_misfit(n, t, (a, b, c)) * len(n) / (len(n) - 2))
    return TimeCurve(a, b, c, float(np.expm1(error)), tuple(map(int, sizes)))


def _run_often(run: Callable[[int], float], size: int, seconds: float) -> list[float]:
    """The times of up to three runs, no more begun after so many seconds: others may use the machine too."""
    times = [float(run(size))]
    while len(times) < _RUNS and sum(times) < seconds:
        times.append(float(run(size)))
    return times


def _fit(n: Floats, t: Floats) -> tuple[float, float, float]:
    """a, b and c with the least squares of the logarithms' differences; c is 0 unless that halves them at least."""
    plain = _fit_power(n, t, 0.0)
    if len(n) <= _LEAST_SIZES:
        return plain
    fits = [_fit_power(n, t, share * float(t.min())) for share in _OVERHEADS]
    best = min(fits, key=lambda fit: _misfit(n, t, fit))
    return best if _misfit(n, t, best) < 0.5 * _misfit(n, t, plain) else plain


def _misfit(n: Floats, t: Floats, fit: tuple[float, float, float]) -> float:
    a, b, c = fit
    return float((_weigh(t) * np.log((a * n**b + c) / t) ** 2).sum())


def _fit_power(n: Floats, t: Floats, c: float) -> tuple[float, float, float]:
    """The straight line through the logarithms of n and t - c."""
    x, y, w = np.log(n), np.log(t - c), _weigh(t)
    mean_x, mean_y = float((w * x).sum()), float((w * y).sum())
    spread = float((w * (x - mean_x) ** 2).sum())
    slope = float((w * (x - mean_x) * (y - mean_y)).sum()) / spread if spread > 0 else 1.0
    b = min(max(slope, _LEAST_POWER), _MOST_POWER)
    return float(np.exp(mean_y - b * mean_x)), b, c


def _weigh(t: Floats) -> Floats:
    """Weights that grow with the time, which is surer where it is long; their sum is 1."""
    out: Floats = np.sqrt(t) / np.sqrt(t).sum()
    return out


def _expected(sizes: Sequence[int], times: Sequence[float], following: int) -> float:
    """The time that the following size will take, if times go on growing as they did, with the square at most."""
    growth = np.log(times[-1] / times[-2]) / np.log(sizes[-1] / sizes[-2])
    return float(times[-1] * (following / sizes[-1]) ** min(max(growth, 1.0), 2.0))
