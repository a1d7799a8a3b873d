"""What steps take and lose: from the time of the whole job, or measured on samples of a table."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from microcell import partitioning, progress
from microcell.model import Encoded, Floats, Integers
from microcell.partitioning.increment_trials import measure_increments
from microcell.partitioning.increments import add_batch
from microcell.planning.calibration import TimeCurve, calibrate, fit_curve, power_curve
from microcell.planning.schedules import Costs, interpolate

__all__ = ["Estimate", "Job", "estimate_from_table", "estimate_from_time"]

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


def estimate_from_time(records: int, whole: float | TimeCurve, power: float, strategy: str) -> Estimate:
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
    basis = f"times and distortion as measured on samples of the table, of up to {largest:,} records"
    if records <= _FAR * largest:
        return basis
    more = "a larger table" if largest >= 0.5 * available else "more seconds of measuring"
    return f"{basis}; {records:,} are far more than that, so times are a guess, and {more} would help"


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
    whole = fit_curve([base for base, _ in sizes], [_shortest(one.making for one in same) for same in own])
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
    return partitioning.partition(
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
    return costs.whole.seconds(size) + sum(costs.whole.seconds(base) + costs.adding(base, new) for base, new in parts)
