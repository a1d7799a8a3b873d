"""When each step begins and ends for a share of the records added at the end, and the shares to choose."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from microcell.planning.arrivals import Arrivals
from microcell.planning.calibration import TimeCurve

__all__ = ["Costs", "Schedule", "fastest", "interpolate", "least_in_time", "make_schedule"]

_GRID = 2000
_STEPS = 60
"""So many halvings, or golden sections, find a share to more digits than any clock has."""

_GOLDEN = (sqrt(5) - 1) / 2
_SAME = 1e-9
"""Ends that differ by less than this part of the whole job's time count as one: the smaller share is taken."""


@dataclass(frozen=True)
class Costs:
    """The seconds that the steps take: the method on so many records, and adding the rest to what is there.

    ``added`` is a curve of the geometric mean of the two parts' sizes, as the search for the nearest cells takes time
    for each pair of a cell and a record; None for a batch that is partitioned on its own.
    """

    whole: TimeCurve
    added: TimeCurve | None = None

    def adding(self, base: float, new: float) -> float:
        """The seconds that adding so many new records to so many takes."""
        if new <= 0:
            return 0.0
        return self.whole.seconds(new) if self.added is None else self.added.seconds(sqrt(base * new))


@dataclass(frozen=True)
class Schedule:
    """What happens when if the last share ``nu`` of the records is added to cells of the others.

    Times are in seconds since the collection began. ``starts`` is when enough records are in, ``base_ends`` when they
    have cells, and ``ends`` when the rest is added, for which ``adding`` is needed.
    """

    nu: float
    collection: float
    starts: float
    base_ends: float
    adding: float
    extra_distortion: float | None = None
    """What is lost beyond the distortion of the whole job, in units of it; None where that is not known."""

    @property
    def received(self) -> float:
        """The share of the records that the base is made of."""
        return 1 - self.nu

    @property
    def head_start(self) -> float:
        """How long before the data end the base is begun."""
        return self.collection - self.starts

    @property
    def ends(self) -> float:
        """When all is finished."""
        return max(self.collection, self.base_ends) + self.adding

    @property
    def after(self) -> float:
        """How long after the data end all is finished."""
        return self.ends - self.collection


def make_schedule(
    nu: float, records: int, arrivals: Arrivals, costs: Costs, extra: Callable[[float], float] | None = None
) -> Schedule:
    """The schedule for this share; ``extra`` gives the distortion beyond that of the whole job, for a share."""
    base = (1 - nu) * records
    starts = arrivals.time_of(1 - nu) if nu > 0 else arrivals.collection
    return Schedule(
        nu,
        arrivals.collection,
        starts,
        starts + costs.whole.seconds(base),
        costs.adding(base, nu * records),
        None if extra is None else extra(nu),
    )


def fastest(make: Callable[[float], Schedule], most: float) -> Schedule:
    """The schedule that ends soonest of those with shares up to ``most``, found on a grid and then between its points.

    Of ends that are as good as equal the smallest share is taken.
    """
    shares = np.linspace(0.0, most, _GRID + 1)
    ends = np.array([make(float(share)).ends for share in shares])
    best = int(np.argmin(ends))
    low, high = float(shares[max(best - 1, 0)]), float(shares[min(best + 1, _GRID)])
    for _ in range(_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if make(left).ends <= make(right).ends:
            high = right
        else:
            low = left
    found = min((make(share) for share in (float(shares[best]), (low + high) / 2)), key=lambda each: each.ends)
    nearly = found.ends + _SAME * max(ends[0] - found.collection, 0.0)
    return least_in_time(make, nearly, found) or found


def least_in_time(make: Callable[[float], Schedule], end: float, soonest: Schedule) -> Schedule | None:
    """The schedule with the smallest share of those that end by ``end``; None if not even the soonest does."""
    if soonest.ends > end:
        return None
    shares = np.linspace(0.0, soonest.nu, _GRID + 1)
    first = next((number for number, share in enumerate(shares) if make(float(share)).ends <= end), _GRID)
    if first == 0:
        return make(0.0)
    low, high = float(shares[first - 1]), float(shares[first])
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if make(middle).ends <= end else (middle, high)
    return make(high)


def interpolate(shares: Sequence[float], values: Sequence[float]) -> Callable[[float], float]:
    """The piecewise linear curve from (0, 0) through these points, its last value going on."""
    order = np.argsort(shares)
    x, y = np.r_[0.0, np.asarray(shares)[order]], np.r_[0.0, np.asarray(values)[order]]
    return lambda share: float(np.interp(share, x, y))
