"""What starting before all data are in costs and saves: time and distortion against partitioning everything at once."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell import progress
from microcell._validation import as_points, as_weights, check_k, varying
from microcell.errors import OptionError, TooFewRecordsError
from microcell.kernels.arrays import sum_of_squares, total_sum_of_squares
from microcell.methods.auto import choose_method, run_choice
from microcell.methods.increments import add_batch, check_strategy
from microcell.model import Floats, Integers

__all__ = ["Increment", "measure_increment", "measure_increments"]


@dataclass(frozen=True)
class Increment:
    """What adding the last share ``nu`` of the records took and cost, against partitioning all with the same method.

    ``whole``, ``base`` and ``added`` are seconds. ``distortion_whole`` is D, and ``distortion`` D_T, both by the
    means and deviations of all records.
    """

    strategy: str
    inertial: bool
    nu: float
    whole: float
    base: float
    added: float
    distortion_whole: float
    distortion: float

    @property
    def tau_base(self) -> float:
        """tau0: the time of the base part, in units of the whole."""
        return self.base / self.whole

    @property
    def tau_added(self) -> float:
        """tau+: the time of adding the rest, in units of the whole."""
        return self.added / self.whole

    @property
    def delta(self) -> float:
        """(D_T - D) / D: the distortion added, in units of that of the whole; 0 where nothing is lost either way."""
        if self.distortion == self.distortion_whole:
            return 0.0
        return self.distortion / self.distortion_whole - 1 if self.distortion_whole else np.inf


@dataclass(frozen=True)
class _Way:
    """How the whole and the base are partitioned."""

    method: str
    options: Mapping[str, Any]
    seed: int


def measure_increment(
    X: ArrayLike,
    k: int,
    *,
    nu: float,
    strategy: str = "refined",
    method: str = "mdav",
    inertial: bool = False,
    weights: ArrayLike | None = None,
    seed: int = 0,
) -> Increment:
    """What the last share ``nu`` of the records takes and costs if it is added to a partition of the others.

    The records arrive in an order drawn from the seed. The base part's means and deviations standardize both parts for
    the partition; the distortion is measured with those of the whole. Kernels are compiled before the clock starts.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> found = measure_increment(X, 5, nu=0.1, strategy="nearest")
    >>> found.delta > 0, found.tau_added > 0
    (True, True)
    """
    return next(
        measure_increments(
            X,
            k,
            nu=[nu],
            strategies=[strategy],
            method=method,
            inertial=[inertial],
            weights=weights,
            seed=seed,
        )
    )


def measure_increments(
    X: ArrayLike,
    k: int,
    *,
    nu: Iterable[float],
    strategies: Iterable[str],
    method: str = "mdav",
    inertial: Iterable[bool] = (False,),
    weights: ArrayLike | None = None,
    seed: int = 0,
    **options: Any,
) -> Iterator[Increment]:
    """An :class:`Increment` for each share, each strategy, and with or without inertia, as they are asked for.

    The whole is partitioned once, and the base part once for each share. A share of which no base of k records would
    be left is refused. ``options`` are the method's own.
    """
    check_k(k)
    points = as_points(X)
    each = as_weights(weights, len(points))
    order = np.random.default_rng(seed).permutation(len(points))
    points, each = points[order], None if each is None else each[order]
    check_strategy("separate", inertial=False, method=method, rounds=None, options=options)
    ways = list(product(strategies, inertial))
    for name, flag in ways:
        check_strategy(name, inertial=flag, method=None, rounds=None, options={})
    shares = [_check_share(share, len(points), k) for share in nu]
    return _measure(points, int(k), shares, ways, _Way(method, options, seed), each)


def _measure(
    points: Floats,
    k: int,
    shares: list[float],
    ways: list[tuple[str, bool]],
    base_by: _Way,
    weights: Floats | None,
) -> Iterator[Increment]:
    n = len(points)
    _warm_up(points, ways, base_by)
    scaled = _standardized(points, points, weights)
    labels, whole = _timed(scaled, k, base_by, weights)
    distortion = _distortion(scaled, labels, weights)
    for number, share in enumerate(shares):
        progress.report("measuring increments", number, len(shares))
        base = n - round(share * n)
        early = _standardized(points, points[:base], None if weights is None else weights[:base])
        start, first = _timed(early[:base], k, base_by, None if weights is None else weights[:base])
        for name, inertial in ways:
            own: dict[str, Any] = (
                {"method": base_by.method, **base_by.options} if name == "separate" else {}
            )
            began = perf_counter()
            found = add_batch(
                early[:base],
                start,
                early[base:],
                k,
                strategy=name,
                inertial=inertial,
                weights=weights,
                seed=base_by.seed,
                **own,
            )
            seconds = perf_counter() - began
            loss = _distortion(scaled, found.labels, weights)
            yield Increment(name, inertial, share, whole, first, seconds, distortion, loss)


def _check_share(share: Any, n: int, k: int) -> float:
    if (
        isinstance(share, bool)
        or not isinstance(share, (int, float, np.number))
        or not 0 <= share < 1
    ):
        raise OptionError(f"nu must be a share of the records from 0 to below 1, not {share!r}.")
    if n - round(float(share) * n) < k:
        raise TooFewRecordsError(
            f"With nu = {share} the base has fewer than k = {k} of {n} records. Lower nu or k."
        )
    return float(share)


def _timed(points: Floats, k: int, way: _Way, weights: Floats | None) -> tuple[Integers, float]:
    began = perf_counter()
    own = varying(np.ascontiguousarray(points))
    labels, _ = run_choice(
        own, k, choose_method(own, k, way.method, way.options, len(own)), weights, way.seed
    )
    return labels, perf_counter() - began


def _warm_up(points: Floats, ways: list[tuple[str, bool]], way: _Way) -> None:
    """Compile what is needed on a few points, of as many columns, so that compiling counts for nothing.

    The method's options stay out: they may ask for a long search.
    """
    few = np.random.default_rng(way.seed).normal(size=(60, max(1, points.shape[1])))
    labels = _timed(few[:40], 3, _Way(way.method, {}, way.seed), None)[0]
    for name, inertial in ways:
        add_batch(few[:40], labels, few[40:], 3, strategy=name, inertial=inertial)


def _standardized(points: Floats, by: Floats, weights: Floats | None) -> Floats:
    """The points by the means and deviations of ``by``; columns that are constant there keep their scale."""
    means = np.average(by, axis=0, weights=weights)
    deviations = np.sqrt(np.average((by - means) ** 2, axis=0, weights=weights))
    return np.asarray((points - means) / np.where(deviations > 0, deviations, 1.0))


def _distortion(points: Floats, labels: Integers, weights: Floats | None) -> float:
    each = np.ones(len(points)) if weights is None else weights
    total = total_sum_of_squares(points, each)
    return sum_of_squares(points, labels, each) / total if total else 0.0
