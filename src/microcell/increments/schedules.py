"""Schedules for starting early: when each step happens, and which schedule finishes first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from microcell._display import record_html, record_repr
from microcell.increments.arrivals import Arrivals
from microcell.increments.timing import TimeCurve

__all__ = ["Costs", "Schedule", "fastest", "interpolate", "make_schedule", "smallest_in_time"]

_GRID = 2000

_STEPS = 60
"""Bisection or golden-section steps: more precise than any clock."""

_GOLDEN = (sqrt(5) - 1) / 2

_TOLERANCE = 1e-9
"""Schedules whose ends differ by less than this share of the whole job's time count as equal."""


@dataclass(frozen=True)
class Costs:
    """Running time of partitioning the base and of adding the rest."""

    whole: TimeCurve
    added: TimeCurve | None = None
    """Time by the geometric mean of the sizes of base and rest, because the search for the nearest
    cells visits each pair of a cell and a record. None if the rest is partitioned separately."""

    def adding(self, base: float, new: float) -> float:
        """Return the seconds that it takes to add ``new`` records to ``base`` records."""
        if new <= 0:
            return 0.0
        if self.added is None:
            return self.whole.seconds(new)
        return self.added.seconds(sqrt(base * new))


@dataclass(frozen=True)
class Schedule:
    """Times of all steps if the last share ``nu`` of the records is added later.

    Times are in seconds since the collection started.
    """

    nu: float
    """Share of the records added to the cells of the others."""
    collection: float
    """Time at which the collection ends."""
    starts: float
    """Time at which the base is complete and its partitioning starts."""
    base_ends: float
    """Time at which the base has been partitioned."""
    adding: float
    """Seconds that adding the rest takes."""
    extra_distortion: float | None = None
    """Relative increase of the distortion over partitioning everything at once, if known."""

    __repr__ = record_repr
    _repr_html_ = record_html

    @property
    def received(self) -> float:
        """Share of the records that the base contains."""
        return 1 - self.nu

    @property
    def head_start(self) -> float:
        """Seconds between the start of partitioning and the end of the collection."""
        return self.collection - self.starts

    @property
    def ends(self) -> float:
        """Time at which everything is finished."""
        return max(self.collection, self.base_ends) + self.adding

    @property
    def after(self) -> float:
        """Seconds between the end of the collection and the end of the last step."""
        return self.ends - self.collection

    def as_dict(self) -> dict[str, Any]:
        """Return the schedule as a dictionary ready for JSON."""
        return {
            "nu": self.nu,
            "received": self.received,
            "starts": self.starts,
            "base_ends": self.base_ends,
            "adding": self.adding,
            "ends": self.ends,
            "after": self.after,
            "extra_distortion": self.extra_distortion,
        }


def make_schedule(
    nu: float,
    records: int,
    arrivals: Arrivals,
    costs: Costs,
    extra: Callable[[float], float] | None = None,
) -> Schedule:
    """Return the schedule for one share; ``extra`` gives the extra distortion by share."""
    base = (1 - nu) * records
    starts = arrivals.time_of(1 - nu) if nu > 0 else arrivals.collection
    return Schedule(
        nu=nu,
        collection=arrivals.collection,
        starts=starts,
        base_ends=starts + costs.whole.seconds(base),
        adding=costs.adding(base, nu * records),
        extra_distortion=None if extra is None else extra(nu),
    )


def fastest(make: Callable[[float], Schedule], max_share: float) -> Schedule:
    """Return the schedule that ends first among shares up to ``max_share``.

    The search uses a grid and then golden sections. Of nearly equal ends the smallest share is
    chosen.
    """
    shares = np.linspace(0.0, max_share, _GRID + 1)
    ends = np.array([make(float(share)).ends for share in shares])
    best = int(np.argmin(ends))
    low = float(shares[max(best - 1, 0)])
    high = float(shares[min(best + 1, _GRID)])
    for _ in range(_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if make(left).ends <= make(right).ends:
            high = right
        else:
            low = left
    candidates = [make(float(shares[best])), make((low + high) / 2)]
    first = min(candidates, key=lambda schedule: schedule.ends)
    nearly = first.ends + _TOLERANCE * max(ends[0] - first.collection, 0.0)
    return smallest_in_time(make, nearly, first) or first


def smallest_in_time(
    make: Callable[[float], Schedule], end: float, soonest: Schedule
) -> Schedule | None:
    """Return the schedule with the smallest share that ends by ``end``, or None if none does."""
    if soonest.ends > end:
        return None
    shares = np.linspace(0.0, soonest.nu, _GRID + 1)
    first = next(
        (number for number, share in enumerate(shares) if make(float(share)).ends <= end), _GRID
    )
    if first == 0:
        return make(0.0)
    low, high = float(shares[first - 1]), float(shares[first])
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if make(middle).ends <= end else (middle, high)
    return make(high)


def interpolate(shares: Sequence[float], values: Sequence[float]) -> Callable[[float], float]:
    """Return the piecewise linear curve from (0, 0) through these points, constant at the end."""
    order = np.argsort(shares)
    x = np.r_[0.0, np.asarray(shares)[order]]
    y = np.r_[0.0, np.asarray(values)[order]]
    return lambda share: float(np.interp(share, x, y))
