"""Methods side by side on one table: the distortion and the time of each, for each k. Nothing is released."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from microcell import groundwork, partitioning, progress, reporting
from microcell.errors import OptionError
from microcell.model import Schema

__all__ = ["Trial", "compare", "draw_trials"]


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
    sizes, names = _as_sizes(k), _as_methods(methods)
    own = _share_out(names, options or {})
    groundwork.check_handling(missing, seed)
    prepared = groundwork.prepare(source, schema, k=max(sizes), missing=missing)
    _warm_up(names, own)
    trials: list[Trial] = []
    for name, size in product(names, sizes):
        progress.report(f"{name}, k = {size}", len(trials), len(names) * len(sizes))
        trials.append(_try(prepared, groundwork.Request(size, name, seed, own[name])))
    return tuple(trials)


def draw_trials(trials: Iterable[Trial], form: str) -> bytes:
    """A figure of distortion against seconds, a marker for each method and a line for each k: "svg", "png" or "pdf"."""
    marks = [
        reporting.Mark(trial.method, trial.k, trial.seconds, trial.distortion)
        for trial in trials
        if trial.seconds is not None and trial.distortion is not None
    ]
    return reporting.draw_marks(marks, form)


def _as_sizes(k: int | Iterable[int]) -> tuple[int, ...]:
    sizes = list(k) if isinstance(k, Iterable) else [k]
    for size in sizes:
        partitioning.check_k(size)
    if not sizes:
        raise OptionError("k must be a whole number of 2 or more, or several; there is none.")
    return tuple(dict.fromkeys(map(int, sizes)))


def _as_methods(methods: str | Iterable[str] | None) -> tuple[str, ...]:
    if methods is None:
        return ("auto", *partitioning.METHODS)
    names = tuple(dict.fromkeys([methods] if isinstance(methods, str) else methods))
    for name in names:
        partitioning.check_method(name, {})
    if not names:
        raise OptionError(f"No method to compare; choose some of auto, {', '.join(partitioning.METHODS)}.")
    return names


def _share_out(names: Iterable[str], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The options for each method: those that it has."""
    own = {name: {key: value for key, value in options.items() if _takes(name, key, value)} for name in names}
    for key in options:
        if not any(key in shared for shared in own.values()):
            raise OptionError(f"None of the methods {', '.join(own)} has an option {key!r}.")
    return own


def _takes(method: str, option: str, value: Any) -> bool:
    try:
        partitioning.check_method(method, {option: value})
    except OptionError:
        if option == "refine" or (method, option) == ("auto", "effort"):  # it has it, so it is the value that is wrong
            raise
        return False
    return True


def _warm_up(names: Iterable[str], own: Mapping[str, Mapping[str, Any]]) -> None:
    """Compile what the methods need on a few points, so that compiling counts for none of them.

    Other options than ``refine`` stay out: they may ask for a long search.
    """
    points = np.random.default_rng(0).normal(size=(60, 2))
    refine = any(shared.get("refine", False) for shared in own.values())
    for name, method in partitioning.METHODS.items():
        if name in names or "auto" in names:
            chosen = points[:, :1] if method.dimensions == "1" else points
            partitioning.partition(chosen, 3, method=name, refine=refine)


def _try(prepared: groundwork.Prepared, request: groundwork.Request) -> Trial:
    started = perf_counter()
    try:
        partition = groundwork.make_cells(prepared, request)
    except OptionError as error:
        method = partitioning.METHODS.get(request.method)
        if method is None or method.dimensions == "any":
            raise
        return Trial(request.method, request.k, why=str(error))
    seconds = perf_counter() - started
    encoded = prepared.encoded
    return Trial(
        request.method,
        request.k,
        why=partition.why,
        used=partition.method,
        distortion=partitioning.distortion(encoded.matrix, partition.labels, weights=encoded.weights),
        cells=len(partition),
        smallest=int(partition.sizes.min()),
        seconds=seconds,
    )
