"""How much of the dependence on confidential columns to preserve: the trade-off swept on a user's own table."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from math import hypot
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any

import numpy as np

from microcell import auditing, methods, progress
from microcell import methods as partitioning
from microcell.errors import GuaranteeError, OptionError
from microcell.kernels._jit import one_thread, thread_count
from microcell.kernels.arrays import centroids
from microcell.model import Audit, Check, Encoded, Floats, Measure, Partition, Schema
from microcell.release import enforce, prepare
from microcell.release import partition as groupings
from microcell.schema import resolve

__all__ = [
    "Attempt",
    "DependencePoint",
    "DependenceSweep",
    "Exploration",
    "Point",
    "Sweep",
    "Trial",
    "as_sizes",
    "compare",
    "dependence_sweep",
    "explore",
    "plan",
    "run",
]


@dataclass(frozen=True)
class Sweep:
    """The sizes and the methods to try, each with those of the options that it has."""

    sizes: tuple[int, ...]
    methods: tuple[str, ...]
    options: Mapping[str, Mapping[str, Any]]
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Attempt:
    """The cells that a method made for one k, and the seconds that they took.

    ``why`` is the reason for the method used. Of a method that cannot be used on the table, ``why`` is the reason for
    that, and there are no cells.
    """

    method: str
    k: int
    why: str
    partition: Partition | None = None
    seconds: float | None = None


def plan(
    k: int | Iterable[int],
    methods: str | Iterable[str] | None,
    options: Mapping[str, Any] | None,
    *,
    default: Iterable[str],
    seed: int = 0,
) -> Sweep:
    """The sweep over these sizes and methods, or the ``default`` ones; refused if it cannot be done on any table.

    Each option goes to the methods that have it; one that none of them has is refused.

    Examples
    --------
    >>> plan([3, 5, 3], ["mdav", "vmdav"], {"gamma": 0.2}, default=())
    Sweep(sizes=(3, 5), methods=('mdav', 'vmdav'), options={'mdav': {}, 'vmdav': {'gamma': 0.2}}, seed=0)
    """
    names = _as_methods(default if methods is None else methods)
    return Sweep(as_sizes(k), names, _share_out(names, options or {}), seed)


def run(prepared: prepare.Prepared, sweep: Sweep) -> Iterator[Attempt]:
    """An attempt of each method at each k, by method and then by k. Kernels are compiled before the clock starts."""
    _warm_up(sweep)
    total = len(sweep.methods) * len(sweep.sizes)
    for done, (name, size) in enumerate(product(sweep.methods, sweep.sizes)):
        progress.report(f"{name}, k = {size}", done, total)
        yield _try(prepared, groupings.Request(size, name, sweep.seed, sweep.options[name]))


def as_sizes(k: int | Iterable[int]) -> tuple[int, ...]:
    """Each k once, in the order given; refused if one is no whole number of 2 or more, or there is none."""
    sizes = list(k) if isinstance(k, Iterable) else [k]
    for size in sizes:
        partitioning.check_k(size)
    if not sizes:
        raise OptionError("k must be a whole number of 2 or more, or several; there is none.")
    return tuple(dict.fromkeys(map(int, sizes)))


def _as_methods(methods: str | Iterable[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys([methods] if isinstance(methods, str) else methods))
    for name in names:
        partitioning.check_method(name, {})
    if not names:
        raise OptionError(
            f"No method to compare; choose some of auto, {', '.join(partitioning.METHODS)}."
        )
    return names


def _share_out(names: Iterable[str], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The options for each method: those that it has."""
    own = {
        name: {key: value for key, value in options.items() if _takes(name, key, value)}
        for name in names
    }
    for key in options:
        if not any(key in shared for shared in own.values()):
            raise OptionError(f"None of the methods {', '.join(own)} has an option {key!r}.")
    return own


def _takes(method: str, option: str, value: Any) -> bool:
    try:
        partitioning.check_method(method, {option: value})
    except OptionError:
        if option == "refine" or (method, option) == (
            "auto",
            "effort",
        ):  # it has it, so it is the value that is wrong
            raise
        return False
    return True


def _warm_up(sweep: Sweep) -> None:
    """Compile what the methods need on a few points, so that compiling counts for none of them.

    Other options than ``refine`` stay out: they may ask for a long search.
    """
    points = np.random.default_rng(0).normal(size=(60, 2))
    refine = any(shared.get("refine", False) for shared in sweep.options.values())
    for name, method in partitioning.METHODS.items():
        if name in sweep.methods or "auto" in sweep.methods:
            chosen = points[:, :1] if method.dimensions == "1" else points
            partitioning.partition(chosen, 3, method=name, refine=refine)


def _try(prepared: prepare.Prepared, request: groupings.Request) -> Attempt:
    started = perf_counter()
    try:
        partition = groupings.partition_records(prepared, request)
    except OptionError as error:
        method = partitioning.METHODS.get(request.method)
        if method is None or method.dimensions == "any":
            raise
        return Attempt(request.method, request.k, why=str(error))
    return Attempt(request.method, request.k, partition.reason, partition, perf_counter() - started)


@dataclass(frozen=True)
class Trial:
    """What a method made of a table for one k: the distortion of the points (SSE / SST), the cells and the time.

    ``used`` is the method that did it, which for "auto" is the one chosen, and ``why`` the reason. Of a method that
    cannot be used on the table, ``why`` is the reason for that, and the rest is None.
    """

    method: str
    k: int
    why: str
    used: str | None = None
    distortion: float | None = None
    cells: int | None = None
    smallest: int | None = None
    seconds: float | None = None

    @property
    def skipped(self) -> bool:
        """True if the method could not be used."""
        return self.distortion is None


def compare(
    source: Any,
    schema: Schema | str | Path,
    *,
    k: int | Iterable[int],
    methods: str | Iterable[str] | None = None,
    seed: int = 0,
    missing: str = "error",
    options: Mapping[str, Any] | None = None,
) -> tuple[Trial, ...]:
    """A trial of each method for each k on one table, which is read and encoded once. Nothing is released.

    Parameters
    ----------
    source, schema, seed, missing
        As :func:`anonymize` takes them.
    k
        The least number of records in a cell, or several such numbers.
    methods
        Names of methods, "auto" among them; all if left out.
    options
        Options of methods. Each goes to the methods that have it; one that none of them has is refused.

    Returns
    -------
    tuple of Trial
        By method, then by k, in the order given. Kernels are compiled before the clock starts.

    Examples
    --------
    >>> people = {"age": [31, 33, 35, 60, 62, 64], "income": [10, 20, 30, 40, 50, 60]}
    >>> trials = compare(people, Schema(quasi=["age"], confidential=["income"]), k=[2, 3], methods=["mdav", "auto"])
    >>> [(trial.method, trial.used, trial.k, trial.cells) for trial in trials]
    [('mdav', 'mdav', 2, 3), ('mdav', 'mdav', 3, 2), ('auto', 'univariate', 2, 2), ('auto', 'univariate', 3, 2)]
    """
    sweep = plan(k, methods, options, default=("auto", *partitioning.METHODS), seed=seed)
    prepare.check_handling(missing, seed)
    prepared = prepare.prepare(source, schema, k=max(sweep.sizes), missing=missing)
    return tuple(_as_trial(prepared.encoded, attempt) for attempt in run(prepared, sweep))


def _as_trial(encoded: Encoded, attempt: Attempt) -> Trial:
    partition = attempt.partition
    if partition is None:
        return Trial(attempt.method, attempt.k, why=attempt.why)
    return Trial(
        attempt.method,
        attempt.k,
        why=attempt.why,
        used=partition.method,
        distortion=partitioning.distortion(
            encoded.matrix, partition.labels, weights=encoded.weights
        ),
        cells=len(partition),
        smallest=int(partition.sizes.min()),
        seconds=attempt.seconds,
    )


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
    sweep = plan(k, methods, options, default=("auto",), seed=seed)
    limits = enforce.check_limits(require)
    prepare.check_handling(missing, seed)
    prepared = prepare.prepare(source, schema, k=max(sweep.sizes), missing=missing)
    points = tuple(_as_points(prepared, sweep, names=(risk, loss, *limits)))
    usable = [point for point in points if not point.skipped]
    if not usable:
        raise OptionError(f"None of the methods could be used. {points[0].why}")
    frontier = _find_frontier(usable, risk, loss)
    recommended, why = _recommend(usable, frontier, limits, (risk, loss))
    return Exploration(points, recommended, why, limits, risk, loss, tuple(frontier))


# ---------------------------------------------------------------------------------------------- points


def _as_points(
    prepared: prepare.Prepared, sweep: Sweep, *, names: Sequence[str]
) -> Iterator[Point]:
    for attempt in run(prepared, sweep):
        if attempt.partition is None:
            yield Point(attempt.method, attempt.k, attempt.why)
            continue
        found = _audit(prepared, attempt.partition)
        found.check(
            dict.fromkeys(names, 0.0)
        )  # refuses, at the first point, a name that the audit does not have
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


def _audit(prepared: prepare.Prepared, partition: Partition) -> Audit:
    """The audit of the table that a release of these cells would be."""
    published = groupings.aggregate_table(prepared, groupings.Grouping(partition))
    progress.report("auditing")
    return auditing.audit(prepared.original, published, prepared.schema)


# ---------------------------------------------------------------------------------------------- the one to take


def _cost(point: Point, name: str) -> float:
    """The value of the measure, turned so that less is better."""
    measure = point.measures[name]
    return float(measure.value) if measure.lower_is_better else -float(measure.value)


def _find_frontier(points: Sequence[Point], risk: str, loss: str) -> list[Point]:
    """The points that no other beats in risk or loss without losing in the other, in their order."""
    return [
        point for point in points if not any(_beats(other, point, risk, loss) for other in points)
    ]


def _beats(other: Point, point: Point, risk: str, loss: str) -> bool:
    """True if the other is nowhere worse, and better in one."""
    theirs, ours = ((_cost(each, risk), _cost(each, loss)) for each in (other, point))
    return theirs != ours and theirs[0] <= ours[0] and theirs[1] <= ours[1]


def _recommend(
    points: Sequence[Point],
    frontier: Sequence[Point],
    limits: Mapping[str, float],
    axes: tuple[str, str],
) -> tuple[Point | None, str]:
    """The point to take, if there is one, and why."""
    risk, loss = axes
    if not limits:
        knee = _least(
            frontier,
            lambda point: hypot(_scaled(point, points, risk), _scaled(point, points, loss)),
        )
        return knee, (
            f"the knee of the frontier: nearest to the corner of the best {risk} and the best {loss} found, both "
            "scaled to their ranges over the map"
        )
    good = [point for point in points if not _missed(point, limits)]
    if good:
        wanted = (
            risk if set(limits) == {loss} else loss
        )  # who can bear some loss wants the least risk for it
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


def _missed(point: Point, limits: Mapping[str, float]) -> list[Check]:
    """The limits that the point does not meet, beside what was found."""
    judged = [Check(point.measures[name], limit) for name, limit in limits.items()]
    return [item for item in judged if not item.met]


def _shortfall(missed: Check) -> float:
    return abs(float(missed.measure.value) - missed.limit)


def _total_shortfall(point: Point, points: Sequence[Point], limits: Mapping[str, float]) -> float:
    """By how much the point misses its limits in all, in units of each measure's range over the map."""
    total = 0.0
    for item in _missed(point, limits):
        costs = [_cost(each, item.measure.name) for each in points]
        total += _shortfall(item) / (
            (max(costs) - min(costs)) or 1.0
        )  # without a range, all miss it alike
    return total


def _tell_miss(missed: Check) -> str:
    return f"{str(missed).removesuffix('.')} (missed by {_shortfall(missed):.6g})"


LAMBDAS = tuple(step / 10 for step in range(11))


@dataclass(frozen=True)
class DependencePoint:
    """What cells of one k and one weight of dependence (lambda) cost and keep.

    ``distortion`` (D_X) is what the quasi-identifiers lost, ``dependence_loss`` (D_Y) what cannot be predicted of the
    confidential columns from the cells, both SSE / SST of the encoded points; ``weighted`` is what was minimized,
    (1 - lambda) D_X + lambda D_Y. The increments are relative to lambda = 0. ``diversity`` is l_avg, ``dld`` the share
    of records that distance links rightly, ``found_k`` the k of all quasi-identifiers together: less than k for blocks.
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
    found_k: int
    seconds: float


@dataclass(frozen=True)
class DependenceSweep:
    """The points of a sweep, by k and then by weight of dependence, and how they were made."""

    points: tuple[DependencePoint, ...]
    method: str
    blocks: tuple[tuple[str, ...], ...] = ()

    def recommend(self, loss: float = 0.05) -> tuple[DependencePoint, ...]:
        """For each k, the point of the largest lambda that raises the distortion by at most this share.

        Its ``loss_increment``, below 0, is the gain that this buys.
        """
        if not loss >= 0:
            raise OptionError(f"loss must be a share of 0 or more, not {loss!r}.")
        best: dict[int, DependencePoint] = {}
        for point in sorted(self.points, key=lambda point: point.dependence):
            if point.distortion_increment <= loss:
                best[point.k] = point
        return tuple(best.values())


def dependence_sweep(
    source: Any,
    schema: Schema | str | Path,
    *,
    k: int | Iterable[int],
    lambdas: float | Iterable[float] = LAMBDAS,
    method: str = "auto",
    blocks: Any = None,
    seed: int = 0,
    missing: str = "error",
    **options: Any,
) -> DependenceSweep:
    """What preserving the dependence between quasi-identifiers and confidential columns costs, and what it keeps.

    Parameters
    ----------
    source, schema, method, seed, missing, options
        As :func:`anonymize` takes them.
    k, lambdas
        The values to try, all with all. The weight 0, which the others are compared with, is tried in any case.
    blocks
        Make cells of blocks of quasi-identifiers, each on its own: of so many columns, or as named. What is published
        of all blocks together is then not k-anonymous, as ``found_k`` and ``dld`` show.

    Returns
    -------
    DependenceSweep
        The table is read and encoded once; several runs go on side by side, and results do not depend on it.

    Examples
    --------
    >>> people = {"age": [31, 33, 35, 60, 62, 64], "income": [10, 20, 60, 30, 50, 55]}
    >>> sweep = dependence_sweep(people, Schema(quasi=["age"], confidential=["income"]), k=3, lambdas=[0, 1])
    >>> [(point.dependence, round(point.distortion, 3), round(point.dependence_loss, 3)) for point in sweep.points]
    [(0.0, 0.013, 0.838), (1.0, 0.821, 0.12)]
    """
    sizes, weights = sorted(as_sizes(k)), _as_weights(lambdas)
    methods.check_method(method, options)
    prepare.check_handling(missing, seed)
    prepared = prepare.prepare(source, schema, k=max(sizes), missing=missing)
    prepared.confidential  # noqa: B018  # refused or encoded before there are several threads
    columns = prepared.schema.quasi
    given = len(columns) if blocks is None else blocks
    places = resolve.as_blocks(given, columns)
    requests = [
        groupings.Request(size, method, seed, options, weight)
        for size, weight in product(sizes, weights)
    ]
    runs = _side_by_side(partial(_make, prepared, given), requests)
    points = _with_increments([_measure(prepared, run) for run in runs])
    names = tuple(tuple(columns[place].name for place in block) for block in places)
    return DependenceSweep(points, method, names if blocks is not None else ())


@dataclass(frozen=True, eq=False)
class _Run:
    """The cells made for one k and one weight of dependence, and the seconds that they took."""

    request: groupings.Request
    made: groupings.Grouping
    seconds: float


def _make(prepared: prepare.Prepared, blocks: Any, request: groupings.Request) -> _Run:
    started = perf_counter()
    made = groupings.partition_blocks(prepared, request, blocks)
    return _Run(request, made, perf_counter() - started)


def _side_by_side(
    work: Callable[[groupings.Request], _Run], requests: Sequence[groupings.Request]
) -> list[_Run]:
    """What ``work`` makes of each request, one on each thread; Ctrl-C ends them at their next report of progress."""
    stop = Event()

    def heed(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt

    def alone(request: groupings.Request) -> _Run:
        with one_thread(), progress.listen(heed):
            return work(request)

    with ThreadPoolExecutor(thread_count()) as pool:
        futures: list[Future[_Run]] = [pool.submit(alone, request) for request in requests]
        done: list[_Run] = []
        try:
            for future, request in zip(futures, requests, strict=True):
                task = f"sweeping, k = {request.k}, lambda = {request.dependence:g}"
                progress.report(task, len(done), len(requests))
                done.append(future.result())
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
        return done


def _measure(prepared: prepare.Prepared, run: _Run) -> DependencePoint:
    """The figures of a run; increments are put in when all runs are there."""
    blocks, weight, table, schema = (
        run.made.blocks,
        run.request.dependence,
        prepared.table,
        prepared.schema,
    )
    lost, unpredicted = (
        groupings.quasi_identifier_loss(prepared, blocks),
        groupings.confidential_loss(prepared, blocks),
    )
    found = [auditing.measure_dependence(table, schema, block.partition.labels) for block in blocks]
    linked = auditing.find_originals(
        prepared.encoded.matrix, _published(prepared, blocks), prepared.dimensions
    )
    return DependencePoint(
        k=run.request.k,
        dependence=weight,
        distortion=lost,
        dependence_loss=unpredicted,
        weighted=(1 - weight) * lost + weight * unpredicted,
        distortion_increment=0.0,
        loss_increment=0.0,
        diversity=float(np.mean([_diversity(measures) for measures in found])),
        dld=float(linked.mean()),
        cells=sum(len(block.partition) for block in blocks),
        found_k=run.made.partition.k,
        seconds=round(run.seconds, 4),
    )


def _published(prepared: prepare.Prepared, blocks: Sequence[groupings.Block]) -> Floats:
    """The centroids that records are published at."""
    weights, published = prepared.encoded.weights, np.empty_like(prepared.encoded.matrix)
    each = np.ones(prepared.table.rows) if weights is None else weights
    for block in blocks:
        labels = block.partition.labels
        for own in (prepared.dimensions[place] for place in block.columns):
            published[:, own] = centroids(prepared.encoded.matrix[:, own], labels, each)[labels]
    return published


def _diversity(measures: Iterable[Measure]) -> float:
    return next(measure.value for measure in measures if measure.name == "diversity_average")


def _with_increments(points: Sequence[DependencePoint]) -> tuple[DependencePoint, ...]:
    plain = {point.k: point for point in points if point.dependence == 0}
    return tuple(
        replace(
            point,
            distortion_increment=_relative(point.distortion, plain[point.k].distortion),
            loss_increment=_relative(point.dependence_loss, plain[point.k].dependence_loss),
        )
        for point in points
    )


def _relative(value: float, base: float) -> float:
    """(value - base) / base; of nothing, any increase is infinite."""
    return (value - base) / base if base > 0 else 0.0 if value == base else float("inf")


def _as_weights(lambdas: float | Iterable[float]) -> tuple[float, ...]:
    weights = list(lambdas) if isinstance(lambdas, Iterable) else [lambdas]
    for weight in weights:
        methods.check_dependence(weight)
    return tuple(sorted({0.0, *map(float, weights)}))
