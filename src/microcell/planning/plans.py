"""A plan for data that are still coming in: when to begin, and when it will be finished."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from microcell import groundwork, partitioning, progress
from microcell.errors import OptionError
from microcell.model import Schema
from microcell.partitioning.increments import check_strategy
from microcell.planning.arrivals import Arrivals, as_arrivals
from microcell.planning.calibration import TimeCurve
from microcell.planning.estimates import Estimate, Job, estimate_from_table, estimate_from_time
from microcell.planning.schedules import Schedule, fastest, least_in_time, make_schedule
from microcell.planning.words import tell_share, tell_time
from microcell.reporting.timelines import Span, Timeline, draw_timeline

__all__ = ["Plan", "draw_plan", "plan"]

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
        raise OptionError("Give either whole, the seconds that all records at once take, or a source to find out from.")
    if power is not None and not isinstance(whole, (int, float)):
        raise OptionError("power goes with whole in seconds; a curve or a source has its own.")
    if whole is not None:
        if schema is not None or k is not None or method is not None or options or inertial:
            raise OptionError("schema, k, method, options and inertial go with a source; with whole they have no use.")
        estimate = estimate_from_time(int(records), whole, 2.0 if power is None else power, strategy)
    else:
        if schema is None or k is None:
            raise OptionError("A source needs a schema and k, so that cells can be made of samples of it.")
        job = Job(k, method or "mdav", options or {}, strategy, inertial, seed)
        estimate = _measure(source, schema, int(records), job, missing, seconds)
    return _choose(int(records), coming, strategy, estimate, deadline, least_gain, k or 2)


def draw_plan(plan: Plan, form: str) -> bytes:
    """A figure of the plan over time, beside everything at the end: "svg", "png" or "pdf"."""
    chosen, early, late = plan.chosen, "Begun early", "All at the end"
    end = chosen.collection
    spans = [Span("Records", "collecting", 0.0, end), Span(late, "all at once", end, end + plan.whole)]
    if chosen.nu > 0:
        begun = max(chosen.base_ends, end)
        spans[1:1] = [
            Span(early, "first part", chosen.starts, chosen.base_ends),
            Span(early, "adding the rest", begun, chosen.ends),
        ]
    marks = ((f"{tell_share(chosen.received)} received", chosen.starts),) if chosen.nu > 0 else ()
    deadline = None if plan.deadline is None else end + plan.deadline
    return draw_timeline(Timeline(tuple(spans), end, marks, deadline), form)


# ---------------------------------------------------------------------------------------------- steps


def _measure(
    source: Any, schema: Schema | str | Path, records: int, job: Job, missing: str, seconds: float
) -> Estimate:
    partitioning.check_k(job.k)
    partitioning.check_method(job.method, job.options)
    groundwork.check_handling(missing, job.seed)
    prepared = groundwork.prepare(source, schema, k=job.k, missing=missing)
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
    make = partial(make_schedule, records=records, arrivals=arrivals, costs=estimate.costs, extra=estimate.extra)
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
    return after <= deadline * (1 + 1e-9) + 1e-9  # the clock's digits, not those of the search, decide


def _check_numbers(records: Any, whole: Any, power: Any, deadline: Any, least_gain: Any, collection: Any) -> None:
    if isinstance(records, bool) or not isinstance(records, (int, np.integer)) or records < 2:
        raise OptionError(f"records must be a whole number of 2 or more, not {records!r}.")
    if not isinstance(whole, TimeCurve):
        _check_seconds("whole", whole, above=True)
    for name, value in (("deadline", deadline), ("least_gain", least_gain), ("collection", collection)):
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
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and isfinite(value)
