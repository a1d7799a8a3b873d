"""Run many requests on one table: the part that compare, explore and dependence_sweep share."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any

import numpy as np

from microcell import methods as partitioning
from microcell import progress
from microcell.errors import OptionError
from microcell.kernels._jit import one_thread, thread_count
from microcell.model import Schema
from microcell.release import partition as groupings
from microcell.release import prepare

__all__ = [
    "Attempt",
    "check_sizes",
    "compile_kernels",
    "make_cells",
    "plan",
    "prepare_table",
    "run_requests",
]


@dataclass(frozen=True, eq=False)
class Attempt:
    """Result of one request; ``grouping`` is None if the method does not support the table."""

    request: groupings.Request
    reason: str
    grouping: groupings.Grouping | None = None
    seconds: float | None = None


def run_requests(
    requests: Sequence[groupings.Request],
    make: Callable[[groupings.Request], groupings.Grouping],
    *,
    parallel: bool = False,
) -> Iterator[Attempt]:
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
) -> Generator[Attempt, None, None]:
    for request in requests:
        yield _attempt(request, make)


def _in_parallel(
    requests: Sequence[groupings.Request], make: Callable[[groupings.Request], groupings.Grouping]
) -> Generator[Attempt, None, None]:
    """Run each request on a separate thread; Ctrl-C stops them at their next progress report."""
    stop = Event()

    def interrupt(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt

    def attempt(request: groupings.Request) -> Attempt:
        with one_thread(), progress.listen(interrupt):
            return _attempt(request, make)

    with ThreadPoolExecutor(thread_count()) as pool:
        futures: list[Future[Attempt]] = [pool.submit(attempt, request) for request in requests]
        try:
            for future in futures:
                yield future.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _attempt(
    request: groupings.Request, make: Callable[[groupings.Request], groupings.Grouping]
) -> Attempt:
    started = perf_counter()
    try:
        grouping = make(request)
    except OptionError as error:
        if error.code != "option.unsupported":
            raise
        return Attempt(request, reason=str(error))
    return Attempt(request, grouping.partition.reason, grouping, perf_counter() - started)


def plan(
    k: int | Iterable[int],
    methods: str | Iterable[str],
    options: Mapping[str, Any] | None,
    seed: int,
) -> list[groupings.Request]:
    """List the requests of all methods at all k, each with the options that its method accepts."""
    sizes, names = check_sizes(k), _check_methods(methods)
    accepted = _distribute_options(names, options or {})
    return [
        groupings.Request(size, name, seed, accepted[name]) for name, size in product(names, sizes)
    ]


def check_sizes(k: int | Iterable[int]) -> tuple[int, ...]:
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


def compile_kernels(requests: Sequence[groupings.Request]) -> None:
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


def prepare_table(
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


def make_cells(prepared: prepare.Prepared, request: groupings.Request) -> groupings.Grouping:
    return groupings.Grouping(groupings.partition_records(prepared, request))
