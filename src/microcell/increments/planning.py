"""Plan when to start partitioning, so that it finishes soon after the last record arrives."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil, isfinite
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from microcell import methods, progress
from microcell._display import count, frame_of_rows, html_card, short_repr
from microcell.errors import OptionError
from microcell.increments.arrivals import Arrivals, as_arrivals
from microcell.increments.schedules import (
    Costs,
    Schedule,
    fastest,
    interpolate,
    make_schedule,
    smallest_in_time,
)
from microcell.increments.state import DEFAULT_METHOD
from microcell.increments.timing import TimeCurve, calibrate, fit_curve, power_curve
from microcell.increments.trials import measure_increments
from microcell.methods.increments import add_batch, check_strategy
from microcell.model import Encoded, Floats, Integers, Schema
from microcell.release import prepare

__all__ = [
    "Forecast",
    "Job",
    "Plan",
    "forecast_from_table",
    "forecast_from_time",
    "format_duration",
    "format_share",
    "plan",
]

_SHARES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
"""Shares of the alternative schedules."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """When to start partitioning while records still arrive, and what that gains."""

    records: int
    arrivals: Arrivals
    strategy: str
    whole: float
    """Duration in seconds if everything is started after the last record."""
    chosen: Schedule
    """Schedule to follow. With a share of 0, it is best to wait for all records."""
    soonest: Schedule
    """The schedule that ends first, regardless of the distortion."""
    alternatives: tuple[Schedule, ...]
    """Schedules for shares from 0 to 0.9."""
    deadline: float | None
    """Seconds allowed after the end of the collection."""
    error: float
    """Relative error of the times."""
    basis: str
    """The source of the times and distortions, in words."""
    assumption: str = ""
    """What is unknown and was assumed, if anything."""

    def __repr__(self) -> str:
        return short_repr(
            self,
            count(self.records, "record"),
            f"start at {format_share(self.chosen.received)}",
            f"finished {format_duration(self.chosen.after)} after the collection",
            strategy=self.strategy,
        )

    def __str__(self) -> str:
        return self.advice

    def _repr_html_(self) -> str:
        return html_card(
            self.advice,
            {
                "Records": f"{self.records:,}",
                "Strategy": self.strategy,
                "Start when received": format_share(self.chosen.received),
                "Finished after the collection": format_duration(self.chosen.after),
            },
            next_steps={
                "plan.to_frame()": "the alternative schedules",
                "mc.plot.plan(plan)": "a figure of the schedule",
            },
        )

    def to_frame(self) -> Any:
        """Return the alternative schedules as a data frame, a row per schedule."""
        return frame_of_rows([schedule.as_dict() for schedule in self.alternatives])

    @property
    def gain(self) -> float:
        """Seconds gained over starting after the last record."""
        return self.whole - self.chosen.after

    @property
    def sigma(self) -> float:
        """Duration of the collection relative to that of the whole job."""
        return self.chosen.collection / self.whole

    @property
    def meets_deadline(self) -> bool | None:
        """True if the chosen schedule meets the deadline, None if there is no deadline."""
        if self.deadline is None:
            return None
        return self.chosen.after <= self.deadline + _slack(self.deadline)

    @property
    def advice(self) -> str:
        """What to do, in a few sentences."""
        sentences = [
            self._start_advice(),
            self._deadline_advice(),
            self._distortion_advice(),
            self._error_advice(),
            self.assumption,
        ]
        return " ".join(filter(None, sentences))

    def _start_advice(self) -> str:
        chosen = self.chosen
        if chosen.nu == 0:
            return (
                f"Wait for all records: the whole job takes {format_duration(self.whole)}, and "
                "starting early would gain at most "
                f"{format_duration(self.whole - self.soonest.after)}."
            )
        return (
            f"Start when {format_share(chosen.received)} of the records have arrived, "
            f"{format_duration(chosen.starts)} after the start of the collection and "
            f"{format_duration(chosen.head_start)} before its end. Add the rest when all records "
            "have arrived. Everything is finished "
            f"{format_duration(chosen.after, up=True)} after the end "
            f"of the collection, instead of {format_duration(self.whole)}."
        )

    def _deadline_advice(self) -> str:
        if self.deadline is None:
            return ""
        deadline = f"The deadline of {format_duration(self.deadline)} after the collection"
        if self.meets_deadline:
            return f"{deadline} is met."
        return (
            f"{deadline} cannot be met: the earliest possible end is "
            f"{format_duration(self.soonest.after, up=True)} after it."
        )

    def _distortion_advice(self) -> str:
        extra = self.chosen.extra_distortion
        if self.chosen.nu == 0 or extra is None:
            return ""
        comparison = "more" if extra >= 0 else "less"
        return (
            f"Expect {format_share(abs(extra))} {comparison} distortion than partitioning all "
            "records at once."
        )

    def _error_advice(self) -> str:
        if self.error > 1:
            return f"Times are rough guesses: they may be {1 + self.error:,.0f} times as long."
        return f"Times may be off by {format_share(self.error)}." if self.error > 0 else ""

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as a dictionary ready for JSON, with times in seconds."""
        return {
            "records": self.records,
            "strategy": self.strategy,
            "collection": self.chosen.collection,
            "whole": self.whole,
            "sigma": self.sigma,
            "deadline": self.deadline,
            "meets_deadline": self.meets_deadline,
            "gain": self.gain,
            "error": self.error,
            "basis": self.basis,
            "assumption": self.assumption,
            "advice": self.advice,
            "chosen": self.chosen.as_dict(),
            "soonest": self.soonest.as_dict(),
            "alternatives": [schedule.as_dict() for schedule in self.alternatives],
        }


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
    min_gain: float = 60.0,
    seconds: float = 5.0,
    seed: int = 0,
) -> Plan:
    """Plan when to start partitioning records that are still arriving.

    The first part of the records is partitioned while the rest arrives; the rest is then added. The
    larger the share nu of the rest, the earlier the start, and the larger the distortion. With a
    ``deadline``, the smallest share that meets it is chosen, otherwise the share that ends first,
    or none if that gains less than ``min_gain`` seconds.

    The running times follow from ``whole``, or are measured on samples of a table.

    Parameters
    ----------
    records
        Number of records expected.
    collection
        Seconds from the first record to the last. Optional if ``arrivals`` are times.
    arrivals
        "uniform", "early", "late", the times of the records of a similar collection (in seconds
        since its start), or :class:`Arrivals`.
    whole, power
        Seconds that partitioning all records takes, and the exponent with which this time grows
        with the number of records (default: 2); or a :class:`TimeCurve`.
    source, schema, k, method, options, missing, seed
        Instead of ``whole``: a table like the expected one, as for :func:`anonymize`, and how to
        partition it (default: "auto", as for :func:`start`). Measuring on samples, without strata,
        takes about ``seconds`` seconds, more for slow methods.
    strategy, inertial
        How the rest is added, as for :func:`microcell.methods.add_batch`.
    deadline
        Seconds after the end of the collection by which everything must be finished.
    min_gain
        Seconds that an early start must gain.
    seconds
        Time budget for measuring.

    Raises
    ------
    OptionError
        Neither or both of ``whole`` and ``source`` are given, or a number is out of range.

    Examples
    --------
    Ten hours of voting, and a job that takes two hours:

    >>> result = plan(1_000_000, collection=36_000, whole=7200, strategy="separate")
    >>> print(f"{result.chosen.nu:.1%}, {result.chosen.after:.0f} s")
    14.6%, 153 s
    >>> plan(1_000_000, collection=36_000, whole=7200, strategy="separate", deadline=3600).advice
    'Start when 92.7 % of the records have arrived, 9 h 16 min after the start of the ...'
    """
    _check_numbers(records, whole, power)
    for name, value in (
        ("deadline", deadline),
        ("min_gain", min_gain),
        ("collection", collection),
    ):
        _check_seconds(name, value)
    check_strategy(strategy, inertial=inertial, method=None, rounds=None, options={})
    expected = as_arrivals(arrivals, collection)
    _check_basis(whole, power, source)
    if whole is not None:
        if schema is not None or k is not None or method is not None or options or inertial:
            raise OptionError(
                "schema, k, method, options and inertial require a source; they have no effect "
                "with whole.",
                code="option.conflict",
                option="whole",
            )
        power = 2.0 if power is None else power
        forecast = forecast_from_time(int(records), whole, power, strategy)
    else:
        if schema is None or k is None:
            raise OptionError(
                "source requires a schema and k, because samples of it are partitioned. Pass both.",
                code="option.missing",
                option="source",
            )
        job = Job(k, method or DEFAULT_METHOD, options or {}, strategy, inertial, seed)
        forecast = _measure(source, schema, int(records), job, missing, seconds)
    return _choose(int(records), expected, strategy, forecast, deadline, min_gain, k or 2)


def _choose(
    records: int,
    arrivals: Arrivals,
    strategy: str,
    forecast: "Forecast",
    deadline: float | None,
    min_gain: float,
    k: int,
) -> Plan:
    progress.report("planning")
    make = partial(
        make_schedule,
        records=records,
        arrivals=arrivals,
        costs=forecast.costs,
        extra=forecast.extra,
    )
    waiting = make(0.0)
    max_share = min(forecast.max_share, max(0.0, 1 - k / records))
    soonest = fastest(make, max_share)
    if deadline is not None:
        chosen = smallest_in_time(make, arrivals.collection + deadline, soonest) or soonest
    else:
        chosen = soonest if waiting.after - soonest.after >= min_gain else waiting
    return Plan(
        records=records,
        arrivals=arrivals,
        strategy=strategy,
        whole=waiting.after,
        chosen=chosen,
        soonest=soonest,
        alternatives=tuple(make(share) for share in _SHARES if share <= max_share),
        deadline=deadline,
        error=forecast.error,
        basis=forecast.basis,
        assumption=forecast.assumption,
    )


# ---------------------------------------------------------------------------------- formatting

_UNITS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
"""Seconds and name of each unit, and of the next smaller one."""


def _slack(deadline: float) -> float:
    """Return by how many seconds a deadline may be missed and still count as met.

    Times are displayed in whole seconds, so a deadline equal to a displayed end is met.
    """
    return min(0.5, 0.01 * deadline) + 1e-9


def format_duration(seconds: float, *, up: bool = False) -> str:
    """Format a duration in its two largest units; minutes and hours are rounded up on request.

    Examples
    --------
    >>> format_duration(153.2), format_duration(5820), format_duration(3600), format_duration(0.25)
    ('2 min 33 s', '1 h 37 min', '1 h', '0.2 s')
    >>> format_duration(3605), format_duration(3605, up=True)
    ('1 h', '1 h 1 min')
    """
    if up and seconds > 3600:
        step = 60 if seconds < 86_400 else 3600
        seconds = step * ceil((seconds - 0.5) / step)
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    for size, name, smaller, smaller_name in _UNITS:
        parts = round(seconds / smaller)  # Rounding first turns 59.9 minutes into an hour.
        if parts * smaller >= size:
            units, rest = divmod(parts, size // smaller)
            return f"{units} {name} {rest} {smaller_name}" if rest else f"{units} {name}"
    return f"{round(seconds)} s"


def format_share(share: float) -> str:
    """Format a share in percent with one decimal.

    Examples
    --------
    >>> format_share(0.1464)
    '14.6 %'
    """
    return f"{100 * share:.1f} %"


# ----------------------------------------------------------------------------------- forecasts

RELATIVE_EFFORT = {"nearest": 1.0, "split-early": 1.2, "split-late": 1.2, "refined": 2.5}
"""Time to add a share nu, relative to nu (1 - nu) times the time of the whole job.

Measured for MDAV on 200,000 Gaussian points in 15 dimensions with k = 10 (a job of one minute) and
rounded up. For other jobs it is unknown: refinement took 20 times as long for a short one.
"""

_ASSUMPTION = (
    "The time of adding records by {strategy!r} cannot be derived from the time of the whole job. "
    "It was assumed to be that of MDAV on 200,000 records and may be many times as long. Pass a "
    "similar table to measure it."
)

MEASURED_SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)

EXTRA_DISTORTION: Mapping[str, tuple[float, ...]] = {
    "separate": (0.018, 0.032, 0.049, 0.073, 0.088, 0.098, 0.087, 0.048),
    "nearest": (0.005, 0.011, 0.022, 0.048, 0.079, 0.158, 0.278, 0.529),
    "split-early": (0.005, 0.011, 0.022, 0.048, 0.076, 0.087, 0.110, 0.143),
    "split-late": (0.005, 0.011, 0.022, 0.048, 0.076, 0.088, 0.104, 0.130),
    "refined": (-0.030, -0.037, -0.040, -0.014, 0.023, 0.014, -0.001, 0.018),
}
"""Relative increase of the distortion over MDAV on everything, for the measured shares.

Measured on 50,000 Gaussian points in 15 dimensions with k = 10. Fewer dimensions increase it more.
"""

_SAMPLED_SHARES = (0.05, 0.1, 0.2, 0.4)

_TRIAL_SHARE = 0.1
"""Share that is added when measuring how long adding takes."""

_MAX_JOINING_SHARE = 0.5
"""Largest share that joins existing cells: with more, times and cells would differ too much."""

_MAX_EXTRAPOLATION = 200
"""Times beyond this multiple of the largest sample are guesses, even if the error is small."""

_MIN_CELLS = 5
"""Smallest number of cells in a trial."""

_MIN_DISTORTION_SAMPLE = 2000
"""Smallest sample to measure the distortion on, if there are as many records."""


@dataclass(frozen=True)
class Forecast:
    """Expected times and extra distortion by share, and their source."""

    costs: Costs
    extra: Callable[[float], float]
    basis: str
    error: float
    max_share: float = 1.0
    """Largest share that the forecast is valid for."""
    assumption: str = ""


@dataclass(frozen=True)
class Job:
    """How the base is partitioned and how later records are added."""

    k: int
    method: str
    options: Mapping[str, Any]
    strategy: str
    inertial: bool
    seed: int


def forecast_from_time(
    records: int, whole: float | TimeCurve, power: float, strategy: str
) -> Forecast:
    """Return the forecast from the time of the whole job; ``power`` applies if it is a number."""
    curve = whole if isinstance(whole, TimeCurve) else power_curve(records, whole, power)
    added, assumption = None, ""
    if strategy != "separate":
        assumption = _ASSUMPTION.format(strategy=strategy)
        added = power_curve(records, RELATIVE_EFFORT[strategy] * curve.seconds(records))
    return Forecast(
        costs=Costs(curve, added),
        extra=interpolate(MEASURED_SHARES, EXTRA_DISTORTION[strategy]),
        basis=(
            "times derived from that of the whole job; distortion as measured on Gaussian points "
            "in 15 dimensions with k = 10"
        ),
        error=curve.error_at(records),
        max_share=_max_share(strategy),
        assumption=assumption,
    )


def forecast_from_table(encoded: Encoded, records: int, job: Job, seconds: float) -> Forecast:
    """Return the forecast from runs on samples, in about ``seconds``; strata are ignored."""
    rows = np.random.default_rng(job.seed).permutation(len(encoded.matrix))
    points = np.ascontiguousarray(encoded.matrix[rows])
    weights = None if encoded.weights is None else encoded.weights[rows]
    costs = _measure_costs(points, weights, job, 0.7 * seconds)
    return Forecast(
        costs=costs,
        extra=_measure_extra(points, weights, job, costs, 0.3 * seconds),
        basis=_describe_basis(max(costs.whole.sizes), len(points), records),
        error=costs.whole.error_at(records),
        max_share=_max_share(job.strategy),
    )


def _measure(
    source: Any, schema: Schema | str | Path, records: int, job: Job, missing: str, seconds: float
) -> Forecast:
    methods.check_k(job.k)
    methods.check_method(job.method, job.options)
    prepare.check_handling(missing, job.seed)
    prepared = prepare.prepare(source, schema, k=job.k, missing=missing)
    return forecast_from_table(prepared.encoded, records, job, seconds)


def _describe_basis(largest: int, available: int, records: int) -> str:
    basis = f"times and distortion measured on samples of the table of up to {largest:,} records"
    if records <= _MAX_EXTRAPOLATION * largest:
        return basis
    remedy = "a larger table" if largest >= 0.5 * available else "a longer measurement"
    return (
        f"{basis}; {records:,} records are far more than that, so times are only rough estimates, "
        f"which {remedy} would improve"
    )


def _max_share(strategy: str) -> float:
    return 1.0 if strategy == "separate" else _MAX_JOINING_SHARE


@dataclass(frozen=True)
class _Run:
    """Sizes of base and batch, and the seconds that partitioning and adding took."""

    base: int
    new: int
    partitioning: float
    adding: float


def _measure_costs(points: Floats, weights: Floats | None, job: Job, seconds: float) -> Costs:
    runs: list[_Run] = []

    def run(size: int) -> float:
        runs.append(_try(points[:size], None if weights is None else weights[:size], job))
        return runs[-1].partitioning + runs[-1].adding

    calibrate(run, len(points), seconds=seconds, min_size=_MIN_CELLS * job.k)
    measured = runs[1:]  # The first run compiles.
    sizes = sorted({(one.base, one.new) for one in measured})
    by_size = [[one for one in measured if (one.base, one.new) == size] for size in sizes]
    whole = fit_curve(
        [base for base, _ in sizes],
        [_shortest(one.partitioning for one in same) for same in by_size],
    )
    if job.strategy == "separate":
        return Costs(whole)
    means = [max(1, round((base * new) ** 0.5)) for base, new in sizes]
    added = fit_curve(means, [_shortest(one.adding for one in same) for same in by_size])
    return Costs(whole, added)


def _shortest(times: Iterable[float]) -> float:
    return max(min(times), 1e-6)  # A coarse clock may measure 0.


def _try(points: Floats, weights: Floats | None, job: Job) -> _Run:
    """Time one run: partition a base, then add the rest ("separate": partition all points)."""
    is_separate = job.strategy == "separate"
    base = len(points) if is_separate else len(points) - int(_TRIAL_SHARE * len(points))
    started = perf_counter()
    labels = _partition(points[:base], None if weights is None else weights[:base], job)
    partitioned = perf_counter()
    if not is_separate:
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
    return _Run(base, len(points) - base, partitioned - started, perf_counter() - partitioned)


def _partition(points: Floats, weights: Floats | None, job: Job) -> Integers:
    return methods.partition(
        points, job.k, method=job.method, weights=weights, seed=job.seed, **job.options
    ).labels


def _measure_extra(
    points: Floats, weights: Floats | None, job: Job, costs: Costs, seconds: float
) -> Callable[[float], float]:
    """Measure the extra distortion by share on the largest sample that the time allows."""
    least = min(len(points), 4 * _MIN_CELLS * job.k)
    size = min(len(points), max(_MIN_DISTORTION_SAMPLE, least))
    while size // 2 >= least and _measuring_seconds(costs, size) > seconds:
        size //= 2
    while 2 * size <= len(points) and _measuring_seconds(costs, 2 * size) <= seconds:
        size *= 2
    progress.report("measuring the distortion on a sample")
    results = measure_increments(
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
    return interpolate(_SAMPLED_SHARES, [result.delta for result in results])


def _measuring_seconds(costs: Costs, size: int) -> float:
    """Predict how long it takes to measure the distortion on this many records."""
    total = costs.whole.seconds(size)
    for share in _SAMPLED_SHARES:
        base, new = (1 - share) * size, share * size
        total += costs.whole.seconds(base) + costs.adding(base, new)
    return total


# -------------------------------------------------------------------------------------- checks


def _check_basis(whole: Any, power: Any, source: Any) -> None:
    if (whole is None) == (source is None):
        raise OptionError(
            "Pass either whole (the seconds that partitioning all records takes) or source (a "
            "table to measure on).",
            code="option.conflict",
            option="whole",
        )
    if power is not None and not isinstance(whole, (int, float)):
        raise OptionError(
            "power is only valid when whole is given in seconds.",
            code="option.conflict",
            option="power",
        )


def _check_numbers(records: Any, whole: Any, power: Any) -> None:
    if isinstance(records, bool) or not isinstance(records, (int, np.integer)) or records < 2:
        raise OptionError(
            f"records must be an integer of at least 2, not {records!r}.",
            code="option.out_of_range",
            option="records",
        )
    if not isinstance(whole, TimeCurve):
        _check_seconds("whole", whole, positive=True)
    if power is not None and (not _is_number(power) or not 0 < power <= 4):
        raise OptionError(
            f"power must be a number greater than 0 and at most 4, not {power!r}.",
            code="option.out_of_range",
            option="power",
        )


def _check_seconds(name: str, value: Any, *, positive: bool = False) -> None:
    if value is None:
        return
    if not _is_number(value) or value < 0 or (positive and value == 0):
        bound = "greater than 0" if positive else "of at least 0"
        raise OptionError(
            f"{name} must be a number of seconds {bound}, not {value!r}.",
            code="option.out_of_range",
            option=name,
        )


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, (int, float, np.number))
        and not isinstance(value, bool)
        and isfinite(value)
    )
