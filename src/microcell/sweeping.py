"""Several methods and several k on one prepared table: what comparing and exploring have in common."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np

from microcell import groundwork, partitioning, progress
from microcell.errors import OptionError
from microcell.model import Partition

__all__ = ["Attempt", "Sweep", "as_sizes", "plan", "run"]


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


def run(prepared: groundwork.Prepared, sweep: Sweep) -> Iterator[Attempt]:
    """An attempt of each method at each k, by method and then by k. Kernels are compiled before the clock starts."""
    _warm_up(sweep)
    total = len(sweep.methods) * len(sweep.sizes)
    for done, (name, size) in enumerate(product(sweep.methods, sweep.sizes)):
        progress.report(f"{name}, k = {size}", done, total)
        yield _try(prepared, groundwork.Request(size, name, sweep.seed, sweep.options[name]))


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


def _try(prepared: groundwork.Prepared, request: groundwork.Request) -> Attempt:
    started = perf_counter()
    try:
        partition = groundwork.make_cells(prepared, request)
    except OptionError as error:
        method = partitioning.METHODS.get(request.method)
        if method is None or method.dimensions == "any":
            raise
        return Attempt(request.method, request.k, why=str(error))
    return Attempt(request.method, request.k, partition.why, partition, perf_counter() - started)
