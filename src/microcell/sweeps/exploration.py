"""Explore the trade-off between risk and information loss, and recommend k and a method."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import hypot
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from microcell import auditing, progress
from microcell._display import (
    count,
    format_number,
    frame_of_rows,
    html_card,
    record_html,
    record_repr,
    short_repr,
)
from microcell.errors import GuaranteeError, OptionError, RequirementError
from microcell.measures.registry import find
from microcell.model import Audit, Check, Measure, Partition, Schema, find_measure
from microcell.release import enforce, prepare, requirements
from microcell.release import partition as groupings
from microcell.sweeps.runner import (
    Attempt,
    compile_kernels,
    make_cells,
    plan,
    prepare_table,
    run_requests,
)

__all__ = ["Exploration", "Point", "explore"]


@dataclass(frozen=True)
class Point:
    """Audit measures of the release that one method would produce for one k.

    ``used`` is the method that was run (the one chosen by "auto"), and ``reason`` says why.
    ``measured_k`` is the k that the audit measured, ``seconds`` the time for computing the cells,
    ``limit`` the limit on the measure that an exploration varies. If the method does not support
    the table, ``reason`` says so and the rest is empty.

    Examples
    --------
    >>> k = Measure("k", 5, "records", False, "smallest class")
    >>> point = Point("mdav", 5, "requested", "mdav", 5, {"k": k})
    >>> point["k"], point.skipped, str(point)
    (5, False, 'mdav with k = 5')
    """

    method: str
    k: int
    reason: str
    used: str | None = None
    measured_k: int | None = None
    measures: Mapping[str, Measure] = field(default_factory=dict)
    seconds: float | None = None
    limit: float | None = None

    __repr__ = record_repr
    _repr_html_ = record_html

    @property
    def skipped(self) -> bool:
        """Whether the method does not support the table, or the limit cannot be met."""
        return self.used is None

    def __getitem__(self, name: str) -> float:
        """Return the value of the measure with this name."""
        return find_measure(self.measures, name).value

    def __str__(self) -> str:
        limit = "" if self.limit is None else f" and limit {self.limit:g}"
        return f"{self.method} with k = {self.k}{limit}"


@dataclass(frozen=True, repr=False)
class Exploration:
    """The points of a risk-loss map, by method and then by k, and the recommended one.

    ``risk`` and ``loss`` name the measures of the two axes. ``frontier`` holds the Pareto-optimal
    points: no other point is better in one of them without being worse in the other.
    ``recommended`` is None if no point meets the ``limits``. ``reason`` explains the
    recommendation, or names the point that comes closest and by how much it fails. ``varied`` is
    the measure whose limit varies, if any.
    """

    points: tuple[Point, ...]
    recommended: Point | None
    reason: str
    limits: Mapping[str, float]
    risk: str
    loss: str
    frontier: tuple[Point, ...]
    varied: str | None = None

    def meets(self, point: Point) -> bool:
        """Return whether the point was not skipped and meets every limit."""
        return not point.skipped and not _failed(point, self.limits)

    def rows(self) -> list[dict[str, Any]]:
        """Return one dictionary per point: method, k, time, verdict and all measured values.

        The measure ``k`` is under ``measured_k``. Measures of a skipped point are None.
        """
        measures = next(point.measures for point in self.points if not point.skipped)
        names = [name for name in measures if name != "k"]
        return [
            self.facts(point) | {name: None if point.skipped else point[name] for name in names}
            for point in self.points
        ]

    def facts(self, point: Point) -> dict[str, Any]:
        """Return everything about a point except its measures."""
        return {
            "method": point.method,
            "used": point.used,
            "k": point.k,
            **({} if self.varied is None else {"limit": point.limit}),
            "measured_k": point.measured_k,
            "seconds": point.seconds,
            "meets_limits": self.meets(point),
            "frontier": point in self.frontier,
            "recommended": point == self.recommended,
        }

    def to_frame(self) -> Any:
        """Return the points as a data frame, with one row per point and one column per measure."""
        return frame_of_rows(self.rows())

    def __repr__(self) -> str:
        points = count(len(self.points), "point")
        return short_repr(self, points, recommended=str(self.recommended))

    def _repr_html_(self) -> str:
        rows = {
            str(point): point.reason
            if point.skipped
            else f"{self.risk} {point[self.risk]:.4g}, {self.loss} {point[self.loss]:.4g}"
            for point in self.points
        }
        steps = {"mc.plot.exploration(result)": "draw the map", ".to_frame()": "get the numbers"}
        return html_card(repr(self)[1:-1], rows, notes=[self.reason], next_steps=steps)


def explore(
    source: Any,
    schema: Schema | str | Path,
    *,
    k: int | Iterable[int],
    methods: str | Iterable[str] | None = None,
    require: Mapping[str, float | Sequence[float]] | None = None,
    risk: str | None = None,
    loss: str = "information_loss",
    seed: int = 0,
    missing: str = "error",
    options: Mapping[str, Any] | None = None,
) -> Exploration:
    """Measure the risk and loss of each k and method, and recommend one of them.

    Each release is produced in memory as by :func:`anonymize`, audited against the original, and
    discarded.

    With limits, the recommended point is the one with the least loss among those that meet all of
    them; if the only limit is on the loss itself, the one with the least risk. Without limits it is
    the best balance: the point closest to both the least risk and the least loss, each scaled to
    its range over the map. Ties go to the larger k. Time: one release and one audit per point.

    Parameters
    ----------
    source, schema, seed, missing
        As for :func:`anonymize`.
    k
        Minimum number of records per cell, or several such numbers.
    methods
        Names of methods. Default: "auto".
    require
        Limits by name of a measure, as for :meth:`Audit.require`: the minimum if higher is better,
        otherwise the maximum. Limits on confidential columns are met as by :func:`anonymize`. One
        of these may be several limits, or a pair (from, to) that is divided into
        six limits: each is a point of the map. The cells of one limit are the start for
        the next, so the loss never falls as the limit becomes stricter.
    risk, loss
        Names of the measures of the two axes. Default of ``risk``: "linkage", or the measure whose
        limit varies.
    options
        Options of methods. Each is passed to the methods that accept it; an option that none of
        them accepts is an error.

    Raises
    ------
    OptionError
        A measure, method or option is unknown, a limit is not a finite number, or no method
        supports the table.
    TooFewRecordsError
        The table or a stratum has fewer records than the largest k.

    Examples
    --------
    >>> people = {"age": [31, 33, 35, 60, 62, 64], "income": [10, 20, 30, 40, 50, 60]}
    >>> schema = Schema(quasi=["age"], confidential=["income"])
    >>> result = explore(people, schema, k=[2, 3, 6], require={"k": 3, "information_loss": 0.5})
    >>> [(point.k, round(point["information_loss"], 2)) for point in result.points]
    [(2, 0.01), (3, 0.01), (6, 1.0)]
    >>> result.recommended.k, result.reason
    (3, 'lowest information_loss (1.252 %) of the 2 points (of 3) that meet all limits')
    """
    requests = plan(k, "auto" if methods is None else methods, options, seed)
    varied, steps = _varied_limit(require)
    fixed: Any = require
    if varied is not None and require is not None:
        fixed = {name: limit for name, limit in require.items() if name != varied}
    limits = requirements.check_limits(fixed)
    risk = risk or varied or "linkage"
    prepared = prepare_table(source, schema, requests, missing=missing, seed=seed)
    compile_kernels(requests)
    attempts = run_requests(requests, lambda request: make_cells(prepared, request))
    names = (risk, loss, *limits)
    points = tuple(
        point
        for attempt in attempts
        for point in _points_within(prepared, attempt, limits, varied, steps, names)
    )
    usable = [point for point in points if not point.skipped]
    if not usable:
        raise OptionError(
            f"None of the methods supports this table. {points[0].reason}",
            code="option.unsupported",
            option="methods",
        )
    frontier = _find_frontier(usable, risk, loss)
    recommended, reason = _recommend(usable, frontier, limits, (risk, loss))
    return Exploration(points, recommended, reason, limits, risk, loss, tuple(frontier), varied)


_N_LIMITS = 6
"""Number of limits into which a range is divided."""


def _varied_limit(require: Any) -> tuple[str | None, tuple[float, ...]]:
    """Return the measure whose limit varies, and its limits, strictest first."""
    several = {
        name: limit
        for name, limit in (require.items() if isinstance(require, Mapping) else ())
        if isinstance(limit, (Sequence, np.ndarray)) and not isinstance(limit, str)
    }
    if not several:
        return None, ()
    name = next(iter(several))
    steps = [requirements.check_limits({name: limit})[name] for limit in several[name]]
    definition = find(name)
    if len(several) > 1 or not steps or definition is None or definition.scope != "confidential":
        raise OptionError(
            "Only one limit can vary, and it must apply to confidential columns, such as "
            "{'t_closeness': (0.05, 0.3)}.",
            code="option.invalid",
            option="require",
            measure=name,
        )
    if not definition.enforceable:
        raise OptionError(
            f"The limit on {name} cannot vary, because cells cannot be found for it.",
            code="option.unsupported",
            option="require",
            measure=name,
        )
    if len(steps) == 2:
        whole = all(step == int(step) for step in steps) and not definition.lower_is_better
        between = np.linspace(steps[0], steps[1], _N_LIMITS)
        steps = between.round(0 if whole else 12).tolist()
    return name, tuple(sorted(set(steps), reverse=not definition.lower_is_better))


def _points_within(
    prepared: prepare.Prepared,
    attempt: Attempt,
    limits: Mapping[str, float],
    varied: str | None,
    steps: Sequence[float],
    names: Sequence[str],
) -> Iterator[Point]:
    """Yield the point of an attempt, or one per varied limit, the strictest first."""
    enforced = {
        name: limit
        for name, limit in limits.items()
        if (item := find(name)) is not None and item.enforceable and item.scope == "confidential"
    }
    if attempt.grouping is None or not (enforced or varied):
        yield _as_point(prepared, attempt, names=names)
        return
    previous = None
    for step in steps or (None,):
        required = enforced if varied is None or step is None else {**enforced, varied: step}
        started = perf_counter()
        try:
            demands = groupings.resolve_limits(prepared, required)
            met = enforce.meet(
                demands,
                attempt.grouping.partition,
                prepared.encoded,
                groupings.searching(prepared, attempt.request),
                previous,
            )
        except RequirementError as error:
            if varied is None:  # the recommendation says which limit is missed, and by how much
                yield _as_point(prepared, attempt, names=names)
            else:
                yield Point(attempt.request.method, attempt.request.k, str(error), limit=step)
            continue
        previous = met.partition
        seconds = (attempt.seconds or 0.0) + perf_counter() - started
        within_limits = replace(
            attempt, grouping=groupings.Grouping(met.partition), seconds=seconds
        )
        yield replace(_as_point(prepared, within_limits, names=names), limit=step)


def _as_point(prepared: prepare.Prepared, attempt: Attempt, *, names: Sequence[str]) -> Point:
    request = attempt.request
    if attempt.grouping is None:
        return Point(request.method, request.k, attempt.reason)
    audit = _audit(prepared, attempt.grouping.partition)
    audit.check(dict.fromkeys(names, 0.0))  # raises at the first point if a measure is unknown
    if audit["k"] < request.k:
        raise GuaranteeError(
            f"The table made for k = {request.k} has a class of only "
            f"{count(int(audit['k']), 'record')}. Nothing was released. This is a bug in "
            "microcell; please report it.",
            code="guarantee.failed",
            k=request.k,
            smallest=int(audit["k"]),
        )
    return Point(
        request.method,
        request.k,
        attempt.reason,
        used=attempt.grouping.partition.method,
        measured_k=int(audit["k"]),
        measures=audit.measures,
        seconds=attempt.seconds,
    )


def _audit(prepared: prepare.Prepared, partition: Partition) -> Audit:
    """Audit the table that a release of these cells would publish."""
    published = groupings.aggregate_table(prepared, groupings.Grouping(partition))
    progress.report("auditing")
    pairs = None if prepared.persons is None else prepared.rows  # to count persons exactly
    return auditing.audit(prepared.original, published, prepared.schema, pairs=pairs)


def _cost(point: Point, name: str) -> float:
    """Return the value of the measure, negated if higher is better."""
    measure = point.measures[name]
    return float(measure.value) if measure.lower_is_better else -float(measure.value)


def _find_frontier(points: Sequence[Point], risk: str, loss: str) -> list[Point]:
    """Return the points that no other point dominates, in their original order."""
    return [
        point
        for point in points
        if not any(_dominates(other, point, risk, loss) for other in points)
    ]


def _dominates(other: Point, point: Point, risk: str, loss: str) -> bool:
    theirs, ours = ((_cost(each, risk), _cost(each, loss)) for each in (other, point))
    return theirs != ours and theirs[0] <= ours[0] and theirs[1] <= ours[1]


def _recommend(
    points: Sequence[Point],
    frontier: Sequence[Point],
    limits: Mapping[str, float],
    axes: tuple[str, str],
) -> tuple[Point | None, str]:
    """Return the recommended point, or None, and the reason."""
    risk, loss = axes
    if not limits:
        balanced = _least(
            frontier,
            lambda point: hypot(_scaled(point, points, risk), _scaled(point, points, loss)),
        )
        return balanced, (
            f"the best balance: closest to both the best {risk} and the best {loss}, each scaled "
            "to the range found"
        )
    meeting = [point for point in points if not _failed(point, limits)]
    if meeting:
        # A user who only limits the loss accepts that loss in exchange for the least risk.
        target = risk if set(limits) == {loss} else loss
        best = _least(meeting, lambda point: _cost(point, target))
        word = "lowest" if best.measures[target].lower_is_better else "highest"
        if len(meeting) == 1:
            return best, f"the only one of {count(len(points), 'point')} that meets all limits"
        return best, (
            f"{word} {target} ({best.measures[target].format()}) of the {len(meeting)} points (of "
            f"{len(points)}) that meet all limits"
        )
    closest = _least(points, lambda point: _total_shortfall(point, points, limits))
    failures = "; ".join(_describe_failure(item) for item in _failed(closest, limits))
    return None, f"No point of the map meets all limits. {closest} comes closest: {failures}."


def _least(points: Sequence[Point], key: Callable[[Point], float]) -> Point:
    """Return the point with the smallest key; ties go to the larger k, then to the first point."""
    return min(points, key=lambda point: (key(point), -point.k))


def _scaled(point: Point, points: Sequence[Point], name: str) -> float:
    """Scale the point's cost to the range of all costs: 0 is best, 1 is worst."""
    costs = [_cost(each, name) for each in points]
    spread = max(costs) - min(costs)
    return (_cost(point, name) - min(costs)) / spread if spread else 0.0


def _failed(point: Point, limits: Mapping[str, float]) -> list[Check]:
    """Return the limits that the point does not meet, each with the measured value."""
    judged = [Check(point.measures[name], limit) for name, limit in limits.items()]
    return [item for item in judged if not item.met]


def _shortfall(failed: Check) -> float:
    return abs(float(failed.measure.value) - failed.limit)


def _total_shortfall(point: Point, points: Sequence[Point], limits: Mapping[str, float]) -> float:
    """Add up how far the point is from its limits, in units of each measure's range on the map."""
    total = 0.0
    for item in _failed(point, limits):
        costs = [_cost(each, item.measure.name) for each in points]
        # Without a range, all points fail the limit by the same amount.
        total += _shortfall(item) / ((max(costs) - min(costs)) or 1.0)
    return total


def _describe_failure(failed: Check) -> str:
    return f"{str(failed).removesuffix('.')} (off by {format_number(_shortfall(failed))})"
