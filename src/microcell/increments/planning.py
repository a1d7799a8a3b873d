"""A plan for data that are still coming in: when to begin, and when it will be finished."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite, sqrt
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from microcell import methods, progress
from microcell._display import record_repr
from microcell.errors import OptionError
from microcell.increments.arrivals import (
    Arrivals,
    TimeCurve,
    as_arrivals,
    calibrate,
    fit_curve,
    power_curve,
)
from microcell.increments.trials import measure_increments
from microcell.methods.increments import add_batch, check_strategy
from microcell.model import Encoded, Floats, Integers, Schema
from microcell.release import prepare

__all__ = [
    "Costs",
    "Estimate",
    "Job",
    "Plan",
    "Schedule",
    "estimate_from_table",
    "estimate_from_time",
    "fastest",
    "interpolate",
    "least_in_time",
    "make_schedule",
    "plan",
    "tell_share",
    "tell_time",
]

_UNITS = ((86_400, "d", 3600), (3600, "h", 60), (60, "min", 1))
"""Seconds of a unit, its name, and those of the next smaller one."""


def tell_time(seconds: float) -> str:
    """The time in the two largest units that it has.

    Examples
    --------
    >>> tell_time(153.2), tell_time(5820), tell_time(3600), tell_time(0.25)
    ('2 min 33 s', '1 h 37 min', '1 h', '0.2 s')
    """
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    for size, name, smaller in _UNITS:
        parts = round(seconds / smaller)  # rounded first: 59.9 minutes are an hour
        if parts * smaller >= size:
            whole, rest = divmod(parts, size // smaller)
            below = {3600: "h", 60: "min", 1: "s"}[smaller]
            return f"{whole} {name} {rest} {below}" if rest else f"{whole} {name}"
    return f"{round(seconds)} s"


def tell_share(share: float) -> str:
    """The share in percent, with one digit after the point.

    Examples
    --------
    >>> tell_share(0.1464)
    '14.6 %'
    """
    return f"{100 * share:.1f} %"


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
        return (
            self.whole.seconds(new) if self.added is None else self.added.seconds(sqrt(base * new))
        )


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
    nu: float,
    records: int,
    arrivals: Arrivals,
    costs: Costs,
    extra: Callable[[float], float] | None = None,
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
    found = min(
        (make(share) for share in (float(shares[best]), (low + high) / 2)),
        key=lambda each: each.ends,
    )
    nearly = found.ends + _SAME * max(ends[0] - found.collection, 0.0)
    return least_in_time(make, nearly, found) or found


def least_in_time(
    make: Callable[[float], Schedule], end: float, soonest: Schedule
) -> Schedule | None:
    """The schedule with the smallest share of those that end by ``end``; None if not even the soonest does."""
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
    """The piecewise linear curve from (0, 0) through these points, its last value going on."""
    order = np.argsort(shares)
    x, y = np.r_[0.0, np.asarray(shares)[order]], np.r_[0.0, np.asarray(values)[order]]
    return lambda share: float(np.interp(share, x, y))


EFFORT = {"nearest": 1.0, "split-early": 1.2, "split-late": 1.2, "refined": 2.5}
"""Adding nu of the records takes this times nu (1 - nu) of the whole job's time. Measured for MDAV on 200,000 Gaussian
points in 15 dimensions with k = 10, a job of a minute, and rounded up. Refinement takes more of shorter ones."""

SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
EXTRA: Mapping[str, tuple[float, ...]] = {
    "separate": (0.018, 0.032, 0.049, 0.073, 0.088, 0.098, 0.087, 0.048),
    "nearest": (0.005, 0.011, 0.022, 0.048, 0.079, 0.158, 0.278, 0.529),
    "split-early": (0.005, 0.011, 0.022, 0.048, 0.076, 0.087, 0.110, 0.143),
    "split-late": (0.005, 0.011, 0.022, 0.048, 0.076, 0.088, 0.104, 0.130),
    "refined": (-0.030, -0.037, -0.040, -0.014, 0.023, 0.014, -0.001, 0.018),
}
"""The distortion beyond that of MDAV on everything, in units of it, for these shares: 50,000 Gaussian points in 15
dimensions, k = 10. In fewer dimensions it is more."""

_SAMPLED_SHARES = (0.05, 0.1, 0.2, 0.4)
_PART = 0.1
"""The share that is added in trials of the time that adding takes."""

_MOST_JOINING = 0.5
"""Records join cells that are there: with more of them than the cells were made of, times and cells are others."""

_FAR = 200
"""Times for so many times as many records as were timed are a guess, whatever the error of the fit."""

_LEAST_CELLS = 5
"""Trials have so many cells at least."""

_FEW = 2000
"""The distortion is measured on so many records at least, if there are so many."""


@dataclass(frozen=True)
class Estimate:
    """The seconds of each step, the distortion that a share adds, and where both come from."""

    costs: Costs
    extra: Callable[[float], float]
    basis: str
    error: float
    most: float = 1.0
    """The largest share that it holds for."""


@dataclass(frozen=True)
class Job:
    """How cells are made, and how further records are added to them."""

    k: int
    method: str
    options: Mapping[str, Any]
    strategy: str
    inertial: bool
    seed: int


def estimate_from_time(
    records: int, whole: float | TimeCurve, power: float, strategy: str
) -> Estimate:
    """The estimate for a job of which the time is known; without a curve it grows with this power of the records."""
    curve = whole if isinstance(whole, TimeCurve) else power_curve(records, whole, power)
    added = None
    if strategy != "separate":
        added = power_curve(records, EFFORT[strategy] * curve.seconds(records))
    return Estimate(
        Costs(curve, added),
        interpolate(SHARES, EXTRA[strategy]),
        "times from that of the whole job; distortion as measured on Gaussian points in 15 dimensions with k = 10",
        curve.error_at(records),
        _most(strategy),
    )


def estimate_from_table(encoded: Encoded, records: int, job: Job, seconds: float) -> Estimate:
    """The estimate from runs on samples of the table, in about so many seconds; strata do not count."""
    rows = np.random.default_rng(job.seed).permutation(len(encoded.matrix))
    points = np.ascontiguousarray(encoded.matrix[rows])
    weights = None if encoded.weights is None else encoded.weights[rows]
    costs = _measure_costs(points, weights, job, 0.7 * seconds)
    return Estimate(
        costs,
        _measure_extra(points, weights, job, costs, 0.3 * seconds),
        _tell_basis(max(costs.whole.sizes), len(points), records),
        costs.whole.error_at(records),
        _most(job.strategy),
    )


def _tell_basis(largest: int, available: int, records: int) -> str:
    """What was measured, and that it says little where there will be many times as many records."""
    basis = (
        f"times and distortion as measured on samples of the table, of up to {largest:,} records"
    )
    if records <= _FAR * largest:
        return basis
    more = "a larger table" if largest >= 0.5 * available else "more seconds of measuring"
    return (
        f"{basis}; {records:,} are far more than that, so times are a guess, and {more} would help"
    )


def _most(strategy: str) -> float:
    return 1.0 if strategy == "separate" else _MOST_JOINING


@dataclass(frozen=True)
class _Run:
    base: int
    new: int
    making: float
    adding: float


def _measure_costs(points: Floats, weights: Floats | None, job: Job, seconds: float) -> Costs:
    runs: list[_Run] = []

    def run(size: int) -> float:
        runs.append(_try(points[:size], None if weights is None else weights[:size], job))
        return runs[-1].making + runs[-1].adding

    calibrate(run, len(points), seconds=seconds, least=_LEAST_CELLS * job.k)
    sizes = sorted({(one.base, one.new) for one in runs[1:]})  # the first one compiles
    own = [[one for one in runs[1:] if (one.base, one.new) == size] for size in sizes]
    whole = fit_curve(
        [base for base, _ in sizes], [_shortest(one.making for one in same) for same in own]
    )
    if job.strategy == "separate":
        return Costs(whole)
    means = [max(1, round((base * new) ** 0.5)) for base, new in sizes]
    return Costs(whole, fit_curve(means, [_shortest(one.adding for one in same) for same in own]))


def _shortest(times: Iterable[float]) -> float:
    return max(min(times), 1e-6)  # a clock may not see it pass


def _try(points: Floats, weights: Floats | None, job: Job) -> _Run:
    """Partition all but the last of these points, and add those, unless the strategy adds them like a table."""
    base = len(points) if job.strategy == "separate" else len(points) - int(_PART * len(points))
    began = perf_counter()
    labels = _partition(points[:base], None if weights is None else weights[:base], job)
    made = perf_counter()
    if job.strategy != "separate":
        add_batch(
            points[:base],
            labels,
            points[base:],
            job.k,
            strategy=job.strategy,
            inertial=job.inertial,
            weights=weights,
            seed=job.seed,
        )
    return _Run(base, len(points) - base, made - began, perf_counter() - made)


def _partition(points: Floats, weights: Floats | None, job: Job) -> Integers:
    return methods.partition(
        points, job.k, method=job.method, weights=weights, seed=job.seed, **job.options
    ).labels


def _measure_extra(
    points: Floats, weights: Floats | None, job: Job, costs: Costs, seconds: float
) -> Callable[[float], float]:
    """The distortion that shares add on a sample, as large as the time allows."""
    size = min(len(points), max(_FEW, _LEAST_CELLS * job.k))
    while 2 * size <= len(points) and _expected(costs, 2 * size) <= seconds:
        size *= 2
    progress.report("measuring the distortion on a sample")
    found = measure_increments(
        points[:size],
        job.k,
        nu=_SAMPLED_SHARES,
        strategies=[job.strategy],
        method=job.method,
        inertial=[job.inertial],
        weights=None if weights is None else weights[:size],
        seed=job.seed,
        **job.options,
    )
    return interpolate(_SAMPLED_SHARES, [one.delta for one in found])


def _expected(costs: Costs, size: int) -> float:
    """The seconds that measuring the distortion on so many records takes."""
    parts = [((1 - share) * size, share * size) for share in _SAMPLED_SHARES]
    return costs.whole.seconds(size) + sum(
        costs.whole.seconds(base) + costs.adding(base, new) for base, new in parts
    )


_SHARES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
"""The shares of the alternatives."""


@dataclass(frozen=True, eq=False)
class Plan:
    """When to begin making cells while records still arrive, and what that gains.

    ``chosen`` is the schedule to follow: with a share of 0 it is best to wait for all records. ``soonest`` is the one
    that ends first, whatever the distortion. ``whole`` is the seconds that everything takes if it is begun when the
    data end, and ``deadline`` those allowed after the data end. ``alternatives`` are schedules for shares of 0 to 0.9.
    Times of all of them may be off by the part ``error``, and ``basis`` says where they come from.
    """

    records: int
    arrivals: Arrivals
    strategy: str
    whole: float
    chosen: Schedule
    soonest: Schedule
    alternatives: tuple[Schedule, ...]
    deadline: float | None
    error: float
    basis: str

    __repr__ = record_repr

    @property
    def gain(self) -> float:
        """By how many seconds sooner than everything at the end the chosen schedule ends."""
        return self.whole - self.chosen.after

    @property
    def sigma(self) -> float:
        """The time of the collection in units of the whole job's."""
        return self.chosen.collection / self.whole

    @property
    def meets_deadline(self) -> bool | None:
        """True if the chosen schedule ends in time; None if there is no deadline."""
        return None if self.deadline is None else _in_time(self.chosen.after, self.deadline)

    @property
    def advice(self) -> str:
        """What to do, in a few sentences."""
        sentences = [self._what_to_do(), self._about_deadline(), self._about_distortion()]
        if self.error > 1:
            sentences.append(f"Times are a guess: they may be {1 + self.error:,.0f} times as long.")
        elif self.error > 0:
            sentences.append(f"Times may be off by {tell_share(self.error)}.")
        return " ".join(filter(None, sentences))

    def __str__(self) -> str:
        return self.advice

    def _what_to_do(self) -> str:
        if self.chosen.nu == 0:
            least = tell_time(self.whole - self.soonest.after)
            return (
                f"Wait for all records: the whole job takes {tell_time(self.whole)}, and beginning early would gain "
                f"{least} at most."
            )
        return (
            f"Begin when {tell_share(self.chosen.received)} of the records are in, {tell_time(self.chosen.starts)} "
            f"after the collection began and {tell_time(self.chosen.head_start)} before it ends. Add the rest when all "
            f"are in: finished {tell_time(self.chosen.after)} after the end of the data, where everything at the end "
            f"would take {tell_time(self.whole)}."
        )

    def _about_deadline(self) -> str:
        if self.deadline is None:
            return ""
        if self.meets_deadline:
            return f"The deadline of {tell_time(self.deadline)} after the end of the data is met."
        return (
            f"The deadline of {tell_time(self.deadline)} after the end of the data cannot be met: the soonest possible "
            f"end is {tell_time(self.soonest.after)} after it."
        )

    def _about_distortion(self) -> str:
        extra = self.chosen.extra_distortion
        if self.chosen.nu == 0 or extra is None:
            return ""
        return f"Expect {tell_share(abs(extra))} {'more' if extra >= 0 else 'less'} distortion than all at once has."


def plan(
    records: int,
    *,
    collection: float | None = None,
    arrivals: Any = "uniform",
    whole: float | TimeCurve | None = None,
    power: float | None = None,
    source: Any = None,
    schema: Schema | str | Path | None = None,
    k: int | None = None,
    method: str | None = None,
    options: Mapping[str, Any] | None = None,
    missing: str = "error",
    strategy: str = "refined",
    inertial: bool = False,
    deadline: float | None = None,
    least_gain: float = 60.0,
    seconds: float = 5.0,
    seed: int = 0,
) -> Plan:
    """When to begin making cells of records that are still arriving, so that all is finished soon after the last.

    The first part of the records is partitioned while the rest arrives, and the rest is then added by ``strategy``. The
    larger the share nu of that rest, the earlier the start, and the more distortion. With a ``deadline`` the smallest
    share that meets it is chosen, else the one that ends soonest; or none, if the gain is below ``least_gain`` seconds.

    How long things take is known from ``whole``, or is found on samples of a table.

    Parameters
    ----------
    records
        How many records there will be.
    collection
        The seconds from the first record to the last; may be left out if ``arrivals`` are times.
    arrivals
        "uniform", "early", "late", the times of records of a collection like this one, in seconds since it began, or
        :class:`Arrivals`.
    whole, power
        The seconds that all records at once take, which grow with this power of their number, 2 if left out; or a
        :class:`TimeCurve`.
    source, schema, k, method, options, missing, seed
        Instead of ``whole``: a table like the one to come, as :func:`anonymize` takes it, with how cells are to be made
        of it, by "mdav" if left out. Runs on samples of it, without strata, take about ``seconds`` seconds.
    strategy, inertial
        How the rest is added, as :func:`add_batch` takes them.
    deadline
        The seconds after the end of the data by which all must be finished.

    Raises
    ------
    OptionError
        Neither or both of ``whole`` and a table, or a number out of range.

    Examples
    --------
    Ten hours of voting, and a job that takes two:

    >>> found = plan(1_000_000, collection=36_000, whole=7200, strategy="separate")
    >>> print(f"{found.chosen.nu:.1%}, {found.chosen.after:.0f} s")
    14.6%, 153 s
    >>> plan(1_000_000, collection=36_000, whole=7200, strategy="separate", deadline=3600).advice
    'Begin when 92.7 % of the records are in, 9 h 16 min after the collection began and 43 min 46 s before ...'
    """
    _check_numbers(records, whole, power, deadline, least_gain, collection)
    check_strategy(strategy, inertial=inertial, method=None, rounds=None, options={})
    coming = as_arrivals(arrivals, collection)
    if (whole is None) == (source is None):
        raise OptionError(
            "Give either whole, the seconds that all records at once take, or a source to find out from."
        )
    if power is not None and not isinstance(whole, (int, float)):
        raise OptionError("power goes with whole in seconds; a curve or a source has its own.")
    if whole is not None:
        if schema is not None or k is not None or method is not None or options or inertial:
            raise OptionError(
                "schema, k, method, options and inertial go with a source; with whole they have no use."
            )
        estimate = estimate_from_time(
            int(records), whole, 2.0 if power is None else power, strategy
        )
    else:
        if schema is None or k is None:
            raise OptionError(
                "A source needs a schema and k, so that cells can be made of samples of it."
            )
        job = Job(k, method or "mdav", options or {}, strategy, inertial, seed)
        estimate = _measure(source, schema, int(records), job, missing, seconds)
    return _choose(int(records), coming, strategy, estimate, deadline, least_gain, k or 2)


# ---------------------------------------------------------------------------------------------- steps


def _measure(
    source: Any, schema: Schema | str | Path, records: int, job: Job, missing: str, seconds: float
) -> Estimate:
    methods.check_k(job.k)
    methods.check_method(job.method, job.options)
    prepare.check_handling(missing, job.seed)
    prepared = prepare.prepare(source, schema, k=job.k, missing=missing)
    return estimate_from_table(prepared.encoded, records, job, seconds)


def _choose(
    records: int,
    arrivals: Arrivals,
    strategy: str,
    estimate: Estimate,
    deadline: float | None,
    least_gain: float,
    k: int,
) -> Plan:
    progress.report("planning")
    make = partial(
        make_schedule,
        records=records,
        arrivals=arrivals,
        costs=estimate.costs,
        extra=estimate.extra,
    )
    waiting = make(0.0)
    most = min(estimate.most, max(0.0, 1 - k / records))
    soonest = fastest(make, most)
    if deadline is not None:
        chosen = least_in_time(make, arrivals.collection + deadline, soonest) or soonest
    else:
        chosen = soonest if waiting.after - soonest.after >= least_gain else waiting
    return Plan(
        records=records,
        arrivals=arrivals,
        strategy=strategy,
        whole=waiting.after,
        chosen=chosen,
        soonest=soonest,
        alternatives=tuple(make(share) for share in _SHARES if share <= most),
        deadline=deadline,
        error=estimate.error,
        basis=estimate.basis,
    )


def _in_time(after: float, deadline: float) -> bool:
    return (
        after <= deadline * (1 + 1e-9) + 1e-9
    )  # the clock's digits, not those of the search, decide


def _check_numbers(
    records: Any, whole: Any, power: Any, deadline: Any, least_gain: Any, collection: Any
) -> None:
    if isinstance(records, bool) or not isinstance(records, (int, np.integer)) or records < 2:
        raise OptionError(f"records must be a whole number of 2 or more, not {records!r}.")
    if not isinstance(whole, TimeCurve):
        _check_seconds("whole", whole, above=True)
    for name, value in (
        ("deadline", deadline),
        ("least_gain", least_gain),
        ("collection", collection),
    ):
        _check_seconds(name, value)
    if power is not None and (not _is_number(power) or not 0 < power <= 4):
        raise OptionError(f"power must be a number above 0, of 4 at most, not {power!r}.")


def _check_seconds(name: str, value: Any, *, above: bool = False) -> None:
    if value is None:
        return
    if not _is_number(value) or value < 0 or (above and value == 0):
        raise OptionError(
            f"{name} must be a number of seconds {'above 0' if above else 'of 0 or more'}, not {value!r}."
        )


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, (int, float, np.number))
        and not isinstance(value, bool)
        and isfinite(value)
    )
