"""How records arrive: the share that is in by a time, and the time by which a share is in."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np

from microcell.errors import OptionError
from microcell.model import Floats

__all__ = ["CURVES", "Arrivals", "as_arrivals"]


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

    def __post_init__(self) -> None:
        if (self.times is None) != (self.name in CURVES) or self.name not in (*CURVES, "given"):
            raise OptionError(
                f"arrivals must be one of {', '.join(CURVES)}, or the times of records, not {self.name!r}."
            )
        if not 0 <= self.collection < np.inf:
            raise OptionError(f"collection must be a number of seconds of 0 or more, not {self.collection!r}.")

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
            return float(self.times[min(len(self.times), ceil(share * len(self.times) * (1 - 1e-12))) - 1])
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
            raise OptionError("collection must be the number of seconds from the first record to the last.")
        return Arrivals(given, collection)
    times = _as_times(given)
    last = float(times[-1])
    if collection is not None and collection < last:
        raise OptionError("A record arrives after the end of the collection. Give a longer one, or none.")
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
