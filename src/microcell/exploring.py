"""A map of risk and loss over k and methods: what the release of each would be found to be. Nothing is released."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot
from pathlib import Path
from typing import Any

from microcell import auditing, enforcing, groundwork, progress, reporting, sweeping
from microcell.errors import GuaranteeError, OptionError
from microcell.model import Audit, Judgement, Measure, Partition, Schema

__all__ = ["Exploration", "Point", "draw_exploration", "explore"]


@dataclass(frozen=True)
class Point:
    """What the release by a method for one k would be: the measures of its audit, by name.

    ``used`` is the method that made the cells, which for "auto" is the one chosen, and ``why`` the reason; ``found``
    is the k that the audit found, and ``seconds`` the time that making the cells took. Of a method that cannot be used
    on the table, ``why`` is the reason for that, and the rest is empty.

    Examples
    --------
    >>> point = Point("mdav", 5, "asked for", "mdav", 5, {"k": Measure("k", 5, "records", False, "smallest class")})
    >>> point["k"], point.skipped, str(point)
    (5, False, 'mdav with k = 5')
    """

    method: str
    k: int
    why: str
    used: str | None = None
    found: int | None = None
    measures: Mapping[str, Measure] = field(default_factory=dict)
    seconds: float | None = None

    @property
    def skipped(self) -> bool:
        """True if the method could not be used."""
        return self.used is None

    def __getitem__(self, name: str) -> float:
        """The value of the measure of that name."""
        return self.measures[name].value

    def __str__(self) -> str:
        return f"{self.method} with k = {self.k}"


@dataclass(frozen=True)
class Exploration:
    """The points of a map, by method and then by k, and the one to take.

    ``risk`` and ``loss`` are the measures of the axes, and ``frontier`` the points that no other beats in one of them
    without losing in the other. ``recommended`` is None if no point meets the ``limits``. ``why`` says how the
    recommended point was found, or which comes nearest and by how much it misses.
    """

    points: tuple[Point, ...]
    recommended: Point | None
    why: str
    limits: Mapping[str, float]
    risk: str
    loss: str
    frontier: tuple[Point, ...]

    def meets(self, point: Point) -> bool:
        """True if the point was not skipped and meets every limit."""
        return not point.skipped and not _missed(point, self.limits)


def explore(
    source: Any,
    schema: Schema | str | Path,
    *,
    k: int | Iterable[int],
    methods: str | Iterable[str] | None = None,
    require: Mapping[str, float] | None = None,
    risk: str = "linkage",
    loss: str = "distortion",
    seed: int = 0,
    missing: str = "error",
    options: Mapping[str, Any] | None = None,
) -> Exploration:
    """The risk and the loss of the release that each method would make for each k, and the one to take.

    The table is read and encoded once. Each release is made in memory as :func:`anonymize` makes it, audited against
    the original, and forgotten; nothing is released.

    With limits, the point with the least loss of those that meet them all is recommended; if the one limit is on the
    loss itself, that with the least risk. Without any, it is the knee of the frontier: the point nearest to the corner
    of least risk and least loss, both scaled to their ranges over the map. Of equals, the larger k is taken. Time: that
    of each release and of its audit.

    Parameters
    ----------
    source, schema, seed, missing
        As :func:`anonymize` takes them.
    k
        The least number of records in a cell, or several such numbers.
    methods
        Names of methods; "auto" if left out.
    require
        Limits by the name of a measure of the audit, as :meth:`Audit.require` takes them: the least value where more
        is better, else the greatest.
    risk, loss
        The measures of the axes, by name.
    options
        Options of methods. Each goes to the methods that have it; one that none of them has is refused.

    Raises
    ------
    OptionError
        An unknown measure, method or option, a limit that is no number, or no method that can be used on the table.
    TooFewRecordsError
        Fewer records than the largest k, in the table or in a stratum.

    Examples
    --------
    >>> people = {"age": [31, 33, 35, 60, 62, 64], "income": [10, 20, 30, 40, 50, 60]}
    >>> schema = Schema(quasi=["age"], confidential=["income"])
    >>> found = explore(people, schema, k=[2, 3, 6], require={"k": 3, "distortion": 0.5})
    >>> [(point.k, round(point["distortion"], 2)) for point in found.points]
    [(2, 0.01), (3, 0.01), (6, 1.0)]
    >>> found.recommended.k, found.why
    (3, 'the least distortion, 0.0125245, of the 2 of 3 points that meet all limits')
    """
    sweep = sweeping.plan(k, methods, options, default=("auto",), seed=seed)
    limits = enforcing.check_limits(require)
    groundwork.check_handling(missing, seed)
    prepared = groundwork.prepare(source, schema, k=max(sweep.sizes), missing=missing)
    points = tuple(_as_points(prepared, sweep, names=(risk, loss, *limits)))
    usable = [point for point in points if not point.skipped]
    if not usable:
        raise OptionError(f"None of the methods could be used. {points[0].why}")
    frontier = _find_frontier(usable, risk, loss)
    recommended, why = _recommend(usable, frontier, limits, (risk, loss))
    return Exploration(points, recommended, why, limits, risk, loss, tuple(frontier))


def draw_exploration(exploration: Exploration, form: str) -> bytes:
    """A figure of risk against loss, a line for each method with k at its marks: "svg", "png" or "pdf".

    The frontier is drawn as broken stairs, limits of the two measures are shaded, marks of points that miss a limit are
    hollow, and the recommended point has a ring.
    """
    risk, loss = exploration.risk, exploration.loss
    usable = [point for point in exploration.points if not point.skipped]
    spots = [
        reporting.Spot(
            point.method,
            point.k,
            float(point[risk]),
            float(point[loss]),
            meets=exploration.meets(point),
            frontier=point in exploration.frontier,
            recommended=point == exploration.recommended,
        )
        for point in usable
    ]
    axes = [
        reporting.Scale(name, usable[0].measures[name].lower_is_better, exploration.limits.get(name))
        for name in (risk, loss)
    ]
    return reporting.draw_map(reporting.RiskMap(tuple(spots), axes[0], axes[1]), form)


# ---------------------------------------------------------------------------------------------- points


def _as_points(prepared: groundwork.Prepared, sweep: sweeping.Sweep, *, names: Sequence[str]) -> Iterator[Point]:
    for attempt in sweeping.run(prepared, sweep):
        if attempt.partition is None:
            yield Point(attempt.method, attempt.k, attempt.why)
            continue
        found = _audit(prepared, attempt.partition)
        found.judge(dict.fromkeys(names, 0.0))  # refuses, at the first point, a name that the audit does not have
        if found["k"] < attempt.k:
            raise GuaranteeError(
                f"A table for k = {attempt.k} has a class of {found['k']} records. Nothing was released; please report "
                "this as a defect."
            )
        yield Point(
            attempt.method,
            attempt.k,
            attempt.why,
            used=attempt.partition.method,
            found=int(found["k"]),
            measures=found.measures,
            seconds=attempt.seconds,
        )


def _audit(prepared: groundwork.Prepared, partition: Partition) -> Audit:
    """The audit of the table that a release of these cells would be."""
    published = groundwork.publish_cells(prepared, groundwork.Made(partition))
    progress.report("auditing")
    return auditing.audit(prepared.original, published, prepared.schema)


# ---------------------------------------------------------------------------------------------- the one to take


def _cost(point: Point, name: str) -> float:
    """The value of the measure, turned so that less is better."""
    measure = point.measures[name]
    return float(measure.value) if measure.lower_is_better else -float(measure.value)


def _find_frontier(points: Sequence[Point], risk: str, loss: str) -> list[Point]:
    """The points that no other beats in risk or loss without losing in the other, in their order."""
    return [point for point in points if not any(_beats(other, point, risk, loss) for other in points)]


def _beats(other: Point, point: Point, risk: str, loss: str) -> bool:
    """True if the other is nowhere worse, and better in one."""
    theirs, ours = ((_cost(each, risk), _cost(each, loss)) for each in (other, point))
    return theirs != ours and theirs[0] <= ours[0] and theirs[1] <= ours[1]


def _recommend(
    points: Sequence[Point], frontier: Sequence[Point], limits: Mapping[str, float], axes: tuple[str, str]
) -> tuple[Point | None, str]:
    """The point to take, if there is one, and why."""
    risk, loss = axes
    if not limits:
        knee = _least(frontier, lambda point: hypot(_scaled(point, points, risk), _scaled(point, points, loss)))
        return knee, (
            f"the knee of the frontier: nearest to the corner of the best {risk} and the best {loss} found, both "
            "scaled to their ranges over the map"
        )
    good = [point for point in points if not _missed(point, limits)]
    if good:
        wanted = risk if set(limits) == {loss} else loss  # who can bear some loss wants the least risk for it
        best = _least(good, lambda point: _cost(point, wanted))
        word = "least" if best.measures[wanted].lower_is_better else "largest"
        those = f"{len(good)} of {len(points)} points that meet all limits"
        return best, f"the {word} {wanted}, {best[wanted]:.6g}, of the {those}"
    nearest = _least(points, lambda point: _total_shortfall(point, points, limits))
    told = "; ".join(_tell_miss(item) for item in _missed(nearest, limits))
    return None, f"No point of the map meets all limits. {nearest} comes nearest: {told}."


def _least(points: Sequence[Point], key: Callable[[Point], float]) -> Point:
    """The point with the least key; of equals the one with the largest k, then the first."""
    return min(points, key=lambda point: (key(point), -point.k))


def _scaled(point: Point, points: Sequence[Point], name: str) -> float:
    """Where the point's cost lies in the range of them all: 0 the best, 1 the worst, 0 if they are the same."""
    costs = [_cost(each, name) for each in points]
    spread = max(costs) - min(costs)
    return (_cost(point, name) - min(costs)) / spread if spread else 0.0


def _missed(point: Point, limits: Mapping[str, float]) -> list[Judgement]:
    """The limits that the point does not meet, beside what was found."""
    judged = [Judgement(point.measures[name], limit) for name, limit in limits.items()]
    return [item for item in judged if not item.met]


def _shortfall(missed: Judgement) -> float:
    return abs(float(missed.measure.value) - missed.limit)


def _total_shortfall(point: Point, points: Sequence[Point], limits: Mapping[str, float]) -> float:
    """By how much the point misses its limits in all, in units of each measure's range over the map."""
    total = 0.0
    for item in _missed(point, limits):
        costs = [_cost(each, item.measure.name) for each in points]
        total += _shortfall(item) / ((max(costs) - min(costs)) or 1.0)  # without a range, all miss it alike
    return total


def _tell_miss(missed: Judgement) -> str:
    return f"{str(missed).removesuffix('.')} (missed by {_shortfall(missed):.6g})"
