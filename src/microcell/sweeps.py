"""Try methods, values of k or dependence weights on one table; nothing is released.

:func:`compare`, :func:`explore` and :func:`dependence_sweep` read and encode the table once, hand
a list of requests to the same runner, and turn its attempts into their own points.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from math import hypot
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any

import numpy as np

from microcell import auditing, progress
from microcell import methods as partitioning
from microcell._display import count, format_number, html_card, record_html, record_repr, short_repr
from microcell.errors import GuaranteeError, OptionError, RequirementError
from microcell.kernels._jit import one_thread, thread_count
from microcell.kernels.arrays import centroids
from microcell.measures.attacks import linked_originals
from microcell.measures.confidential import confidential_columns
from microcell.measures.disclosure import average_diversity
from microcell.measures.registry import find
from microcell.model import Audit, Check, Encoded, Floats, Measure, Partition, Schema, find_measure
from microcell.model._frames import frame_of_rows
from microcell.release import enforce, prepare
from microcell.release import partition as groupings

__all__ = [
    "Comparison",
    "DependencePoint",
    "DependenceSweep",
    "Exploration",
    "Point",
    "Trial",
    "compare",
    "dependence_sweep",
    "explore",
]

LAMBDAS = tuple(step / 10 for step in range(11))
"""Dependence weights that a sweep tries by default."""

SMALLEST_LAMBDA, COARSE, FINE = 1e-6, 7, 5
"""A target is searched from this weight to 1, first at this many points on a logarithmic grid, then
by bisecting the logarithm this many times."""


# ---------------------------------------------------------------------------------------- runner


@dataclass(frozen=True, eq=False)
class _Attempt:
    """Result of one request; ``grouping`` is None if the method does not support the table."""

    request: groupings.Request
    reason: str
    grouping: groupings.Grouping | None = None
    seconds: float | None = None


def _run(
    requests: Sequence[groupings.Request],
    make: Callable[[groupings.Request], groupings.Grouping],
    *,
    parallel: bool = False,
) -> Iterator[_Attempt]:
    """Yield one attempt per request, in order; ``parallel`` runs one request per thread.

    Results are the same either way. Requests whose times are compared must not run in parallel.
    """
    run = _in_parallel if parallel else _in_turn
    with closing(run(requests, make)) as attempts:  # an interruption must reach the threads
        for done, request in enumerate(requests):
            progress.report(_describe(request), done, len(requests))
            yield next(attempts)


def _describe(request: groupings.Request) -> str:
    weight = f", lambda = {request.weight:g}" if request.weight else ""
    return f"{request.method}, k = {request.k}{weight}"


def _in_turn(
    requests: Sequence[groupings.Request], make: Callable[[groupings.Request], groupings.Grouping]
) -> Generator[_Attempt, None, None]:
    for request in requests:
        yield _attempt(request, make)


def _in_parallel(
    requests: Sequence[groupings.Request], make: Callable[[groupings.Request], groupings.Grouping]
) -> Generator[_Attempt, None, None]:
    """Run each request on a separate thread; Ctrl-C stops them at their next progress report."""
    stop = Event()

    def interrupt(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt

    def attempt(request: groupings.Request) -> _Attempt:
        with one_thread(), progress.listen(interrupt):
            return _attempt(request, make)

    with ThreadPoolExecutor(thread_count()) as pool:
        futures: list[Future[_Attempt]] = [pool.submit(attempt, request) for request in requests]
        try:
            for future in futures:
                yield future.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _attempt(
    request: groupings.Request, make: Callable[[groupings.Request], groupings.Grouping]
) -> _Attempt:
    started = perf_counter()
    try:
        grouping = make(request)
    except OptionError as error:
        if error.code != "option.unsupported":
            raise
        return _Attempt(request, reason=str(error))
    return _Attempt(request, grouping.partition.reason, grouping, perf_counter() - started)


def _plan(
    k: int | Iterable[int],
    methods: str | Iterable[str],
    options: Mapping[str, Any] | None,
    seed: int,
) -> list[groupings.Request]:
    """List the requests of all methods at all k, each with the options that its method accepts."""
    sizes, names = _check_sizes(k), _check_methods(methods)
    accepted = _distribute_options(names, options or {})
    return [
        groupings.Request(size, name, seed, accepted[name]) for name, size in product(names, sizes)
    ]


def _check_sizes(k: int | Iterable[int]) -> tuple[int, ...]:
    """Return the distinct values of k, in their original order."""
    sizes = list(k) if isinstance(k, Iterable) else [k]
    for size in sizes:
        partitioning.check_k(size)
    if not sizes:
        raise OptionError(
            "k must be an integer of at least 2, or a list of them, but the list is empty.",
            code="option.invalid",
            option="k",
        )
    return tuple(dict.fromkeys(map(int, sizes)))


def _check_methods(methods: str | Iterable[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys([methods] if isinstance(methods, str) else methods))
    for name in names:
        partitioning.check_method(name, {})
    if not names:
        raise OptionError(
            f"methods is empty. Choose from auto, {', '.join(partitioning.METHODS)}.",
            code="option.invalid",
            option="methods",
        )
    return names


def _distribute_options(
    names: Iterable[str], options: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the options that each method accepts; raise for one that no method accepts."""
    accepted = {
        name: {option: value for option, value in options.items() if _accepts(name, option, value)}
        for name in names
    }
    for option in options:
        if not any(option in chosen for chosen in accepted.values()):
            raise OptionError(
                f"None of the methods {', '.join(accepted)} has an option {option!r}.",
                code="option.unsupported",
                option=option,
            )
    return accepted


def _accepts(method: str, option: str, value: Any) -> bool:
    try:
        partitioning.check_method(method, {option: value})
    except OptionError as error:
        if error.code != "option.unsupported":
            raise
        return False
    return True


def _compile_kernels(requests: Sequence[groupings.Request]) -> None:
    """Run each method on a few points, so that compilation does not count as its time.

    Options other than ``refine`` are left out, because they may ask for a long search.
    """
    points = np.random.default_rng(0).normal(size=(60, 2))
    names = {request.method for request in requests}
    refine = any(request.options.get("refine", False) for request in requests)
    for name, method in partitioning.METHODS.items():
        if name in names or "auto" in names:
            X = points[:, :1] if method.dimensions == "1" else points
            partitioning.partition(X, 3, method=name, refine=refine)


# --------------------------------------------------------------------------------------- compare


@dataclass(frozen=True)
class Trial:
    """Result of one method at one k: distortion, number of cells, smallest size and run time.

    ``distortion`` is SSE / SST of the standardized points. ``used`` is the method that was run (the
    one chosen by "auto"), and ``reason`` says why. If the method does not support the table,
    ``reason`` says so and the other fields are None.
    """

    method: str
    k: int
    reason: str
    used: str | None = None
    distortion: float | None = None
    cells: int | None = None
    smallest: int | None = None
    seconds: float | None = None

    __repr__ = record_repr
    _repr_html_ = record_html

    @property
    def skipped(self) -> bool:
        """Whether the method does not support the table."""
        return self.distortion is None


@dataclass(frozen=True, repr=False)
class Comparison(Sequence[Trial]):
    """The trials of :func:`compare`, by method and then by k; a sequence of :class:`Trial`."""

    trials: tuple[Trial, ...]

    def __len__(self) -> int:
        return len(self.trials)

    def __getitem__(self, index: Any) -> Any:
        """Return the trial at this position, or a tuple of trials for a slice."""
        return self.trials[index]

    def to_frame(self) -> Any:
        """Return the trials as a data frame, one row per trial."""
        return frame_of_rows([asdict(trial) for trial in self.trials])

    def __repr__(self) -> str:
        methods = len({trial.method for trial in self.trials})
        return short_repr(self, f"{count(len(self), 'trial')} of {count(methods, 'method')}")

    def _repr_html_(self) -> str:
        best = min((trial for trial in self.trials if not trial.skipped), key=_by_k_and_loss)
        rows = {
            f"{trial.method}, k = {trial.k}": trial.reason
            if trial.distortion is None
            else f"information loss {100 * trial.distortion:.3f} %, {trial.seconds:.3f} s"
            for trial in self.trials
        }
        steps = {
            f"mc.anonymize(source, schema, k={best.k}, method={best.method!r})": "make the release",
            ".to_frame()": "get the numbers",
        }
        return html_card(repr(self)[1:-1], rows, next_steps=steps)


def _by_k_and_loss(trial: Trial) -> tuple[int, float]:
    return trial.k, trial.distortion or 0.0


def compare(
    source: Any,
    schema: Schema | str | Path,
    *,
    k: int | Iterable[int],
    methods: str | Iterable[str] | None = None,
    seed: int = 0,
    missing: str = "error",
    options: Mapping[str, Any] | None = None,
) -> Comparison:
    """Compare methods on a table by distortion and run time, for one or several k.

    Parameters
    ----------
    source, schema, seed, missing
        As for :func:`anonymize`.
    k
        Minimum number of records per cell, or several such numbers.
    methods
        Names of methods, which may include "auto". Default: all methods and "auto".
    options
        Options of methods. Each is passed to the methods that accept it; an option that none of
        them accepts is an error.

    Returns
    -------
    Comparison
        Trials by method and then by k. Kernels are compiled before the clock starts.

    Examples
    --------
    >>> people = {"age": [31, 33, 35, 60, 62, 64], "income": [10, 20, 30, 40, 50, 60]}
    >>> schema = Schema(quasi=["age"], confidential=["income"])
    >>> for trial in compare(people, schema, k=[2, 3], methods=["mdav", "auto"]):
    ...     print(trial.method, trial.used, trial.k, trial.cells)
    mdav mdav 2 3
    mdav mdav 3 2
    auto univariate 2 2
    auto univariate 3 2
    """
    names = ("auto", *partitioning.METHODS) if methods is None else methods
    requests = _plan(k, names, options, seed)
    prepared = _prepare(source, schema, requests, missing=missing, seed=seed)
    _compile_kernels(requests)
    attempts = _run(requests, lambda request: _make_cells(prepared, request))
    return Comparison(tuple(_as_trial(prepared.encoded, attempt) for attempt in attempts))


def _prepare(
    source: Any,
    schema: Schema | str | Path,
    requests: Sequence[groupings.Request],
    *,
    missing: str,
    seed: int,
) -> prepare.Prepared:
    prepare.check_handling(missing, seed)
    largest = max(request.k for request in requests)
    return prepare.prepare(source, schema, k=largest, missing=missing)


def _make_cells(prepared: prepare.Prepared, request: groupings.Request) -> groupings.Grouping:
    return groupings.Grouping(groupings.partition_records(prepared, request))


def _as_trial(encoded: Encoded, attempt: _Attempt) -> Trial:
    request = attempt.request
    if attempt.grouping is None:
        return Trial(request.method, request.k, reason=attempt.reason)
    partition = attempt.grouping.partition
    distortion = partitioning.distortion(encoded.matrix, partition.labels, weights=encoded.weights)
    return Trial(
        request.method,
        request.k,
        reason=attempt.reason,
        used=partition.method,
        distortion=distortion,
        cells=len(partition),
        smallest=int(partition.sizes.min()),
        seconds=attempt.seconds,
    )


# --------------------------------------------------------------------------------------- explore


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

    ``risk`` and ``loss`` name the measures of the two axes. ``frontier`` holds the points that no
    other point beats in one of them without losing in the other. ``recommended`` is None if no
    point meets the ``limits``. ``reason`` explains the recommendation, or names the point that
    comes closest and by how much it fails. ``varied`` is the measure whose limit varies, if any.
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
    requests = _plan(k, "auto" if methods is None else methods, options, seed)
    varied, steps = _varied_limit(require)
    fixed: Any = require
    if varied is not None and require is not None:
        fixed = {name: limit for name, limit in require.items() if name != varied}
    limits = enforce.check_limits(fixed)
    risk = risk or varied or "linkage"
    prepared = _prepare(source, schema, requests, missing=missing, seed=seed)
    _compile_kernels(requests)
    attempts = _run(requests, lambda request: _make_cells(prepared, request))
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
"""Limits that a range is divided into."""


def _varied_limit(require: Any) -> tuple[str | None, tuple[float, ...]]:
    """Return the measure whose limit varies, and its limits from the strictest on."""
    several = {
        name: limit
        for name, limit in (require.items() if isinstance(require, Mapping) else ())
        if isinstance(limit, (Sequence, np.ndarray)) and not isinstance(limit, str)
    }
    if not several:
        return None, ()
    name = next(iter(several))
    steps = [enforce.check_limits({name: limit})[name] for limit in several[name]]
    definition = find(name)
    if len(several) > 1 or not steps or definition is None or definition.scope != "confidential":
        raise OptionError(
            "Only one limit can vary, and it must be on confidential columns, such as "
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
    attempt: _Attempt,
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
        asked = enforced if varied is None or step is None else {**enforced, varied: step}
        started = perf_counter()
        try:
            demands = groupings.resolve_limits(prepared, asked)
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
        found = replace(attempt, grouping=groupings.Grouping(met.partition), seconds=seconds)
        yield replace(_as_point(prepared, found, names=names), limit=step)


def _as_point(prepared: prepare.Prepared, attempt: _Attempt, *, names: Sequence[str]) -> Point:
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
    """Return the point with the smallest key; ties go to the larger k, then to the first."""
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


# ------------------------------------------------------------------------------------ dependence


@dataclass(frozen=True)
class DependencePoint:
    """Losses of the cells for one k and one dependence weight (lambda).

    ``distortion`` (D_X) is the loss of the quasi-identifiers; ``dependence_loss`` (D_Y) is the part
    of the confidential columns that the cells cannot predict. Both are SSE / SST of the encoded
    points. ``weighted`` is the minimized sum (1 - lambda) D_X + lambda D_Y. The increments are
    relative to lambda = 0. ``diversity`` is l_avg, and ``dld`` the share of records that
    distance-based linkage re-identifies. ``joint_k`` is the k of all quasi-identifiers combined,
    which is below k if the cells were made in blocks.
    """

    k: int
    dependence: float
    distortion: float
    dependence_loss: float
    weighted: float
    distortion_increment: float
    loss_increment: float
    diversity: float
    dld: float
    cells: int
    joint_k: int
    seconds: float

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True, repr=False)
class DependenceSweep:
    """The points of :func:`dependence_sweep`, by k and then by dependence weight."""

    points: tuple[DependencePoint, ...]
    method: str
    blocks: tuple[tuple[str, ...], ...] = ()
    columns: Mapping[str, float] | None = None
    """Share of lambda that each confidential column has; None if they have one weight."""

    def at_most(
        self, *, more: float | None = None, dependence_loss: float | None = None
    ) -> tuple[DependencePoint, ...]:
        """Return the best point for each k that meets a target; none where no point meets it.

        ``more`` is the share that may be added to D_X: the point of least D_Y within it.
        ``dependence_loss`` is a limit on D_Y: the point of least D_X within it.
        """
        check_targets(more, dependence_loss)
        out = []
        for k in dict.fromkeys(point.k for point in self.points):
            points = [point for point in self.points if point.k == k]
            if more is not None:
                meeting = [point for point in points if point.distortion_increment <= more]
                key = _by_dependence_loss
            else:
                assert dependence_loss is not None
                meeting = [point for point in points if point.dependence_loss <= dependence_loss]
                key = _by_distortion
            if meeting:
                out.append(min(meeting, key=key))
        return tuple(out)

    def weights(self, point: DependencePoint) -> float | dict[str, float]:
        """Return the ``dependence`` to pass to :func:`anonymize` for a point."""
        return _spread(point.dependence, self.columns)

    def recommend(self, loss: float = 0.05) -> tuple[DependencePoint, ...]:
        """Return, for each k, the largest lambda that adds at most this share to the distortion.

        What this gains is the point's ``loss_increment``, which is negative.
        """
        if not loss >= 0:
            raise OptionError(
                f"loss must be a share of at least 0, not {loss!r}.",
                code="option.out_of_range",
                option="loss",
            )
        best: dict[int, DependencePoint] = {}
        for point in sorted(self.points, key=lambda point: point.dependence):
            if point.distortion_increment <= loss:
                best[point.k] = point
        return tuple(best.values())

    def to_frame(self) -> Any:
        """Return the points as a data frame, one row per point."""
        return frame_of_rows([asdict(point) for point in self.points])

    def __repr__(self) -> str:
        return short_repr(self, count(len(self.points), "point"), method=self.method)

    def _repr_html_(self) -> str:
        rows = {
            f"k = {point.k}, lambda = {point.dependence:g}": f"D_X {point.distortion:.4f}, "
            f"D_Y {point.dependence_loss:.4f}"
            for point in self.points
        }
        steps = {
            ".recommend(0.05)": "choose the weights",
            "mc.plot.dependence(sweep)": "draw the trade-off",
        }
        return html_card(repr(self)[1:-1], rows, next_steps=steps)


def dependence_sweep(
    source: Any,
    schema: Schema | str | Path,
    *,
    k: int | Iterable[int],
    lambdas: float | Iterable[float] | None = None,
    more: float | None = None,
    dependence_loss: float | None = None,
    columns: Mapping[str, float] | None = None,
    method: str = "auto",
    blocks: Any = None,
    seed: int = 0,
    missing: str = "error",
    **options: Any,
) -> DependenceSweep:
    """Measure the cost and benefit of preserving the association with confidential columns.

    Parameters
    ----------
    source, schema, method, seed, missing, options
        As for :func:`anonymize`.
    k, lambdas
        Values to try, in all combinations. The weight 0, the baseline of the others, is always
        tried. By default 0, 0.1, ..., 1, unless there is a target.
    more, dependence_loss
        A target in place of lambdas: at most this share more D_X ("0.05" for 5 %) with the least
        D_Y, or at most this D_Y with the least D_X. The weight is searched by bisection on a
        logarithmic grid; :meth:`DependenceSweep.at_most` returns the result.
    columns
        Relative weights of some confidential columns, among which lambda is divided. By default
        all columns together have one weight.
    blocks
        Partition blocks of quasi-identifiers independently: a number of columns per block, or
        lists of names. The blocks together are then not k-anonymous, as ``joint_k`` and ``dld``
        show.

    Returns
    -------
    DependenceSweep
        The table is read and encoded once. Runs are executed in parallel, which does not change
        their results.

    Examples
    --------
    >>> people = {"age": [31, 33, 35, 60, 62, 64], "income": [10, 20, 60, 30, 50, 55]}
    >>> schema = Schema(quasi=["age"], confidential=["income"])
    >>> for point in dependence_sweep(people, schema, k=3, lambdas=[0, 1]).points:
    ...     print(point.dependence, round(point.distortion, 3), round(point.dependence_loss, 3))
    0.0 0.013 0.838
    1.0 0.821 0.12
    """
    target = _check_target(lambdas, more, dependence_loss)
    default = (0.0,) if target else LAMBDAS
    sizes, weights = (
        sorted(_check_sizes(k)),
        _check_lambdas(default if lambdas is None else lambdas),
    )
    partitioning.check_method(method, options)
    shares = _check_columns(columns)

    def request(size: int, weight: float) -> groupings.Request:
        return groupings.Request(size, method, seed, options, _spread(weight, shares))

    first = [request(size, weight) for size, weight in product(sizes, weights)]
    prepared = _prepare(source, schema, first, missing=missing, seed=seed)
    prepared.confidential  # noqa: B018  # encode (or fail) before threads start
    quasi = prepared.schema.quasi
    places: tuple[tuple[int, ...], ...] = (tuple(range(len(quasi))),)
    if blocks is not None:
        places = groupings.choose_blocks(prepared, first[0], blocks)
    named = [[quasi[place].name for place in block] for block in places]

    def measure(requests: Sequence[groupings.Request]) -> list[DependencePoint]:
        runs = _run(
            requests,
            lambda one: groupings.partition_blocks(prepared, one, named),
            parallel=True,
        )
        return [_as_dependence_point(prepared, attempt) for attempt in list(runs)]

    points = measure(first)
    if target:
        points += _search_target(points, request, measure, more, dependence_loss)
    names = tuple(map(tuple, named)) if blocks is not None else ()
    return DependenceSweep(_with_increments(sorted(points, key=_by_k)), method, names, shares)


def _search_target(
    baseline: Sequence[DependencePoint],
    request: Callable[[int, float], groupings.Request],
    measure: Callable[[Sequence[groupings.Request]], list[DependencePoint]],
    more: float | None,
    dependence_loss: float | None,
) -> list[DependencePoint]:
    """Return the points tried in the search for a target.

    D_X grows with lambda and D_Y falls, apart from local optima. On a logarithmic grid, the largest
    weight that adds too little to D_X (or the smallest that brings D_Y low enough) is bracketed and
    bisected, for all k at once.
    """
    bases = {point.k: point for point in baseline}

    def is_small(point: DependencePoint) -> bool:
        if more is not None:
            return point.distortion <= (1 + more) * bases[point.k].distortion
        assert dependence_loss is not None
        return point.dependence_loss > dependence_loss

    grid = np.geomspace(SMALLEST_LAMBDA, 1.0, COARSE).tolist()
    tried = measure([request(k, weight) for k in bases for weight in grid])
    brackets: dict[int, tuple[float, float]] = {}
    for k in bases:
        small = [point.dependence for point in tried if point.k == k and is_small(point)]
        largest = max(small, default=0.0)
        above = [weight for weight in grid if weight > largest * (1 + 1e-9)]
        if largest > 0 and above:
            brackets[k] = (largest, above[0])
    for _ in range(FINE if brackets else 0):
        middles = {k: float(np.sqrt(low * high)) for k, (low, high) in brackets.items()}
        for point in measure([request(k, weight) for k, weight in middles.items()]):
            tried.append(point)
            low, high = brackets[point.k]
            middle = middles[point.k]
            brackets[point.k] = (middle, high) if is_small(point) else (low, middle)
    return tried


def _by_k(point: DependencePoint) -> tuple[int, float]:
    return point.k, point.dependence


def _by_dependence_loss(point: DependencePoint) -> tuple[float, float]:
    return point.dependence_loss, point.distortion


def _by_distortion(point: DependencePoint) -> tuple[float, float]:
    return point.distortion, point.dependence_loss


def _spread(weight: float, shares: Mapping[str, float] | None) -> float | dict[str, float]:
    """Divide a weight among columns."""
    if shares is None or weight == 0:
        return weight
    return {name: weight * share for name, share in shares.items()}


def _check_columns(columns: Mapping[str, float] | None) -> dict[str, float] | None:
    """Return the share of each column; they add up to 1."""
    if columns is None:
        return None
    values = list(columns.values()) if isinstance(columns, Mapping) else []
    numbers = [value for value in values if isinstance(value, (int, float)) and 0 < value < 1e100]
    if not values or len(numbers) < len(values):
        raise OptionError(
            "columns must map confidential columns to positive numbers.",
            code="option.invalid",
            option="columns",
        )
    return {name: value / sum(values) for name, value in columns.items()}


def _check_target(lambdas: Any, more: float | None, dependence_loss: float | None) -> bool:
    """Return whether there is a target, which excludes lambdas."""
    if more is None and dependence_loss is None:
        return False
    check_targets(more, dependence_loss)
    if lambdas is not None:
        raise OptionError(
            "A target replaces lambdas. Omit one of the two.",
            code="option.conflict",
            option="lambdas",
        )
    return True


def check_targets(more: float | None, dependence_loss: float | None) -> None:
    """Raise OptionError unless there is exactly one target, a number from 0 on."""
    if (more is None) == (dependence_loss is None):
        raise OptionError(
            "Pass exactly one of more and dependence_loss.",
            code="option.conflict",
            option="more",
        )
    name = "more" if more is not None else "dependence_loss"
    value = more if more is not None else dependence_loss
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e100:
        raise OptionError(
            f"{name} must be a number of at least 0, not {value!r}.",
            code="option.out_of_range",
            option=name,
        )


def _as_dependence_point(prepared: prepare.Prepared, attempt: _Attempt) -> DependencePoint:
    """Measure an attempt; increments are filled in once all points are known."""
    if attempt.grouping is None or attempt.seconds is None:
        raise OptionError(attempt.reason, code="option.unsupported", option="method")
    blocks, weight = attempt.grouping.blocks, attempt.request.weight
    distortion = groupings.quasi_identifier_loss(prepared, blocks)
    dependence_loss = groupings.confidential_loss(prepared, blocks)
    columns = [
        confidential_columns(
            prepared.table, prepared.schema, block.partition.labels, prepared.persons
        )
        for block in blocks
    ]
    linked = linked_originals(
        prepared.encoded.matrix, _published(prepared, blocks), prepared.dimensions
    )
    return DependencePoint(
        k=attempt.request.k,
        dependence=weight,
        distortion=distortion,
        dependence_loss=dependence_loss,
        weighted=groupings.weighted_loss(prepared, blocks, attempt.request.dependence),
        distortion_increment=0.0,
        loss_increment=0.0,
        diversity=float(np.mean([average_diversity(each) or 0.0 for each in columns])),
        dld=float(linked.mean()),
        cells=sum(len(block.partition) for block in blocks),
        joint_k=attempt.grouping.partition.k,
        seconds=round(attempt.seconds, 4),
    )


def _published(prepared: prepare.Prepared, blocks: Sequence[groupings.Block]) -> Floats:
    """Return the centroid that each record is published at."""
    matrix, weights = prepared.encoded.matrix, prepared.encoded.weights
    each = np.ones(prepared.table.rows) if weights is None else weights
    published = np.empty_like(matrix)
    for block in blocks:
        labels = block.partition.labels
        for dimensions in (prepared.dimensions[place] for place in block.columns):
            published[:, dimensions] = centroids(matrix[:, dimensions], labels, each)[labels]
    return published


def _with_increments(points: Sequence[DependencePoint]) -> tuple[DependencePoint, ...]:
    baseline = {point.k: point for point in points if point.dependence == 0}
    return tuple(
        replace(
            point,
            distortion_increment=_increment(point.distortion, baseline[point.k].distortion),
            loss_increment=_increment(point.dependence_loss, baseline[point.k].dependence_loss),
        )
        for point in points
    )


def _increment(value: float, base: float) -> float:
    """Return (value - base) / base; any increase from 0 is infinite."""
    return (value - base) / base if base > 0 else 0.0 if value == base else float("inf")


def _check_lambdas(lambdas: float | Iterable[float]) -> tuple[float, ...]:
    weights = list(lambdas) if isinstance(lambdas, Iterable) else [lambdas]
    for weight in weights:
        partitioning.check_dependence(weight)
    return tuple(sorted({0.0, *map(float, weights)}))
