"""How much of the dependence on confidential columns to preserve: the trade-off swept on a user's own table."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any

import numpy as np

from microcell import auditing, groundwork, partitioning, progress, reporting, roles, sweeping
from microcell.errors import OptionError
from microcell.kernels._jit import one_thread, thread_count
from microcell.kernels.cells import centroids
from microcell.model import Floats, Measure, Schema

__all__ = ["DependencePoint", "DependenceSweep", "dependence_sweep", "draw_dependence"]

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
    sizes, weights = sorted(sweeping.as_sizes(k)), _as_weights(lambdas)
    partitioning.check_method(method, options)
    groundwork.check_handling(missing, seed)
    prepared = groundwork.prepare(source, schema, k=max(sizes), missing=missing)
    prepared.confidential  # noqa: B018  # refused or encoded before there are several threads
    columns = prepared.schema.quasi
    given = len(columns) if blocks is None else blocks
    places = roles.as_blocks(given, columns)
    requests = [groundwork.Request(size, method, seed, options, weight) for size, weight in product(sizes, weights)]
    runs = _side_by_side(partial(_make, prepared, given), requests)
    points = _with_increments([_measure(prepared, run) for run in runs])
    names = tuple(tuple(columns[place].name for place in block) for block in places)
    return DependenceSweep(points, method, names if blocks is not None else ())


def draw_dependence(sweep: DependenceSweep, form: str) -> bytes:
    """A figure of the trade-offs: D_Y against D_X, and their relative changes; "svg", "png" or "pdf"."""
    marks = [
        reporting.Tradeoff(
            point.k,
            point.dependence,
            point.distortion,
            point.dependence_loss,
            point.distortion_increment,
            point.loss_increment,
        )
        for point in sweep.points
    ]
    return reporting.draw_tradeoffs(marks, form)


@dataclass(frozen=True, eq=False)
class _Run:
    """The cells made for one k and one weight of dependence, and the seconds that they took."""

    request: groundwork.Request
    made: groundwork.Made
    seconds: float


def _make(prepared: groundwork.Prepared, blocks: Any, request: groundwork.Request) -> _Run:
    started = perf_counter()
    made = groundwork.make_blocks(prepared, request, blocks)
    return _Run(request, made, perf_counter() - started)


def _side_by_side(work: Callable[[groundwork.Request], _Run], requests: Sequence[groundwork.Request]) -> list[_Run]:
    """What ``work`` makes of each request, one on each thread; Ctrl-C ends them at their next report of progress."""
    stop = Event()

    def heed(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt

    def alone(request: groundwork.Request) -> _Run:
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


def _measure(prepared: groundwork.Prepared, run: _Run) -> DependencePoint:
    """The figures of a run; increments are put in when all runs are there."""
    blocks, weight, table, schema = run.made.blocks, run.request.dependence, prepared.table, prepared.schema
    lost, unpredicted = groundwork.find_distortion(prepared, blocks), groundwork.find_dependence_loss(prepared, blocks)
    found = [auditing.measure_dependence(table, schema, block.partition.labels) for block in blocks]
    linked = auditing.find_originals(prepared.encoded.matrix, _published(prepared, blocks), prepared.dimensions)
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


def _published(prepared: groundwork.Prepared, blocks: Sequence[groundwork.Block]) -> Floats:
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
        partitioning.check_dependence(weight)
    return tuple(sorted({0.0, *map(float, weights)}))
