"""Arrival of records over the course of a collection."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np

from microcell._display import record_html
from microcell.errors import OptionError
from microcell.model import Floats

__all__ = ["CURVES", "Arrivals", "as_arrivals"]


@dataclass(frozen=True)
class _Curve:
    share: Callable[[float], float]
    """Share of the records by relative time."""
    time: Callable[[float], float]
    """Relative time by share of the records: the inverse of ``share``."""


CURVES: Mapping[str, _Curve] = {
    "uniform": _Curve(lambda time: time, lambda share: share),
    "early": _Curve(lambda time: 1 - (1 - time) ** 2, lambda share: 1 - sqrt(1 - share)),
    "late": _Curve(lambda time: time**2, sqrt),
}
"""Named curves, with times relative to the duration of the collection."""


@dataclass(frozen=True, eq=False, repr=False)
class Arrivals:
    """Share of the records received over ``collection`` seconds.

    With s the elapsed fraction of the collection, the received share is s for "uniform" (a constant
    rate), 1 - (1 - s)^2 for "early" (a rate that falls linearly to zero) and s^2 for "late" (a rate
    that rises linearly from zero). For "observed", ``times`` holds the sorted times of all records
    in seconds since the collection started.

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
        is_observed = self.times is not None
        if self.name not in (*CURVES, "observed") or is_observed != (self.name == "observed"):
            raise OptionError(
                f"arrivals must be one of {', '.join(CURVES)} or a list of times, not "
                f"{self.name!r}.",
                code="option.unknown",
                option="arrivals",
            )
        if not 0 <= self.collection < np.inf:
            raise OptionError(
                f"collection must be a number of seconds of at least 0, not {self.collection!r}.",
                code="option.out_of_range",
                option="collection",
            )

    def __repr__(self) -> str:
        return f"Arrivals({self.name!r}, collection={self.collection:g})"

    _repr_html_ = record_html

    def share_by(self, seconds: float) -> float:
        """Return the share of the records received after this many seconds."""
        if self.times is not None:
            return float(np.searchsorted(self.times, seconds, side="right")) / len(self.times)
        if self.collection == 0:
            return 1.0 if seconds >= 0 else 0.0
        return float(CURVES[self.name].share(min(max(seconds / self.collection, 0.0), 1.0)))

    def time_of(self, share: float) -> float:
        """Return the number of seconds until this share of the records has been received."""
        if share <= 0:
            return 0.0
        if self.times is not None:
            n = len(self.times)
            # The factor keeps rounding errors in the share from adding a record.
            return float(self.times[min(n, ceil(share * n * (1 - 1e-12))) - 1])
        return self.collection * float(CURVES[self.name].time(min(share, 1.0)))


def as_arrivals(arrivals: Any, collection: float | None) -> Arrivals:
    """Return arrivals, given the name of a curve, the times of records, or :class:`Arrivals`.

    Times are in seconds since the collection started. By default the collection ends with the last
    record.

    Examples
    --------
    >>> as_arrivals([4, 2, 8, 6], None).share_by(4)
    0.5
    """
    if isinstance(arrivals, Arrivals):
        if collection is not None:
            raise OptionError(
                "These arrivals already include the duration of the collection. Omit collection.",
                code="option.conflict",
                option="collection",
            )
        return arrivals
    if isinstance(arrivals, str):
        if collection is None:
            raise OptionError(
                "collection is required: the number of seconds from the first record to the last.",
                code="option.missing",
                option="collection",
            )
        return Arrivals(arrivals, collection)
    times = _as_times(arrivals)
    last = float(times[-1])
    if collection is not None and collection < last:
        raise OptionError(
            "A record arrives after the end of the collection. Increase collection, or omit it.",
            code="option.out_of_range",
            option="collection",
        )
    return Arrivals("observed", last if collection is None else collection, times)


def _as_times(values: Any) -> Floats:
    invalid = OptionError(
        "arrivals must be the name of a curve or the times of records, in seconds (at least 0) "
        "since the collection started.",
        code="option.invalid",
        option="arrivals",
    )
    if not isinstance(values, (Iterable, np.ndarray)):
        raise invalid
    try:
        times = np.sort(np.asarray(list(values), dtype=np.float64))
    except (TypeError, ValueError):
        raise invalid from None
    if times.ndim != 1 or len(times) == 0 or not np.isfinite(times).all() or times[0] < 0:
        raise invalid
    return times
