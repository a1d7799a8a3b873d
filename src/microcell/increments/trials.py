"""Time and distortion of adding records later, compared with partitioning all of them at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell import progress
from microcell._display import count, frame_of_rows, html_card, record_html, record_repr, short_repr
from microcell._validation import as_points, as_weights, check_k, varying
from microcell.errors import OptionError, TooFewRecordsError
from microcell.kernels.arrays import sum_of_squares, total_sum_of_squares
from microcell.methods.auto import choose_method, run_choice
from microcell.methods.increments import add_batch, check_strategy
from microcell.model import Floats, Integers

__all__ = ["Increment", "Increments", "measure_increment", "measure_increments"]


@dataclass(frozen=True, repr=False)
class Increment:
    """Time and distortion of adding the last share ``nu`` of the records to a partition.

    Everything is compared with partitioning all records with the same method. Distortions are
    computed with the means and standard deviations of all records.
    """

    strategy: str
    inertial: bool
    nu: float
    """Share of the records added later."""
    whole: float
    """Seconds to partition all records at once."""
    base: float
    """Seconds to partition the base."""
    added: float
    """Seconds to add the rest."""
    distortion_whole: float
    """D: distortion of partitioning all records at once."""
    distortion: float
    """D_T: distortion after adding the rest."""

    __repr__ = record_repr
    _repr_html_ = record_html

    @property
    def tau_base(self) -> float:
        """tau0: time for the base relative to the whole."""
        return self.base / self.whole

    @property
    def tau_added(self) -> float:
        """tau+: time for adding the rest relative to the whole."""
        return self.added / self.whole

    @property
    def delta(self) -> float:
        """(D_T - D) / D: relative increase of the distortion; 0 if both are 0."""
        if self.distortion == self.distortion_whole:
            return 0.0
        return self.distortion / self.distortion_whole - 1 if self.distortion_whole else np.inf


@dataclass(frozen=True, repr=False)
class Increments(Sequence[Increment]):
    """The results of :func:`measure_increments`; a sequence of :class:`Increment`."""

    results: tuple[Increment, ...]

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, index: Any) -> Any:
        """Return the result at this position, or a tuple of results for a slice."""
        return self.results[index]

    def to_frame(self) -> Any:
        """Return the results as a data frame, with the relative times and distortions."""
        return frame_of_rows(
            [
                asdict(item)
                | {"tau_base": item.tau_base, "tau_added": item.tau_added, "delta": item.delta}
                for item in self.results
            ]
        )

    def __repr__(self) -> str:
        strategies = len({item.strategy for item in self.results})
        return short_repr(
            self,
            f"{count(len(self), 'result')} of {count(strategies, 'strategy', 'strategies')}",
        )

    def _repr_html_(self) -> str:
        rows = {
            f"{item.strategy}{' (inertial)' if item.inertial else ''}, nu = {item.nu:g}": (
                f"distortion {100 * item.delta:+.2f} %, time {100 * item.tau_added:.3g} %"
            )
            for item in self.results
        }
        return html_card(repr(self)[1:-1], rows, next_steps={".to_frame()": "get the numbers"})


@dataclass(frozen=True)
class _Method:
    """How the whole table and the base are partitioned."""

    name: str
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
    """Measure the time and distortion of adding the last share ``nu`` of the records later.

    The records arrive in a random order. Both parts are standardized by the means and standard
    deviations of the base; the distortion is computed with those of the whole. Kernels are compiled
    before the clock starts.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> result = measure_increment(X, 5, nu=0.1, strategy="nearest")
    >>> result.delta > 0, result.tau_added > 0
    (True, True)
    """
    results = measure_increments(
        X,
        k,
        nu=[nu],
        strategies=[strategy],
        method=method,
        inertial=[inertial],
        weights=weights,
        seed=seed,
    )
    return results.results[0]


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
) -> Increments:
    """Measure an :class:`Increment` for each share, strategy and choice of inertia.

    The whole is partitioned once and the base once per share. ``options`` are options of the
    method. A share that leaves fewer than k records for the base is a :class:`TooFewRecordsError`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> results = measure_increments(X, 5, nu=[0.1, 0.2], strategies=["nearest"])
    >>> list(results.to_frame()["nu"])
    [0.1, 0.2]
    """
    check_k(k)
    points = as_points(X)
    checked_weights = as_weights(weights, len(points))
    order = np.random.default_rng(seed).permutation(len(points))
    shuffled_weights = None if checked_weights is None else checked_weights[order]
    check_strategy("separate", inertial=False, method=method, rounds=None, options=options)
    variants = list(product(strategies, inertial))
    for name, is_inertial in variants:
        check_strategy(name, inertial=is_inertial, method=None, rounds=None, options={})
    shares = [_check_share(share, len(points), k) for share in nu]
    settings = _Method(method, options, seed)
    return Increments(
        tuple(_measure(points[order], int(k), shares, variants, settings, shuffled_weights))
    )


def _measure(
    points: Floats,
    k: int,
    shares: list[float],
    variants: list[tuple[str, bool]],
    method: _Method,
    weights: Floats | None,
) -> Iterator[Increment]:
    n = len(points)
    _warm_up(points, variants, method)
    scaled = _standardize(points, points, weights)
    labels, whole_seconds = _partition(scaled, k, method, weights)
    whole_distortion = _distortion(scaled, labels, weights)
    for number, share in enumerate(shares):
        progress.report("measuring increments", number, len(shares))
        base = n - round(share * n)
        base_weights = None if weights is None else weights[:base]
        by_base = _standardize(points, points[:base], base_weights)
        base_labels, base_seconds = _partition(by_base[:base], k, method, base_weights)
        for strategy, inertial in variants:
            options: dict[str, Any] = {}
            if strategy == "separate":
                options = {"method": method.name, **method.options}
            started = perf_counter()
            result = add_batch(
                by_base[:base],
                base_labels,
                by_base[base:],
                k,
                strategy=strategy,
                inertial=inertial,
                weights=weights,
                seed=method.seed,
                **options,
            )
            yield Increment(
                strategy=strategy,
                inertial=inertial,
                nu=share,
                whole=whole_seconds,
                base=base_seconds,
                added=perf_counter() - started,
                distortion_whole=whole_distortion,
                distortion=_distortion(scaled, result.labels, weights),
            )


def _check_share(share: Any, n: int, k: int) -> float:
    is_number = isinstance(share, (int, float, np.number)) and not isinstance(share, bool)
    if not is_number or not 0 <= share < 1:
        raise OptionError(
            f"nu must be a share of the records, at least 0 and less than 1, not {share!r}.",
            code="option.out_of_range",
            option="nu",
        )
    if n - round(float(share) * n) < k:
        raise TooFewRecordsError(
            f"With nu = {share} of {count(n, 'record')} added later, the base has fewer than "
            f"k = {k} records. Lower nu or k.",
            code="guarantee.too_few_records",
            k=k,
            records=n,
        )
    return float(share)


def _partition(
    points: Floats, k: int, method: _Method, weights: Floats | None
) -> tuple[Integers, float]:
    """Return labels and seconds."""
    started = perf_counter()
    columns = varying(np.ascontiguousarray(points))
    choice = choose_method(columns, k, method.name, method.options, len(columns))
    labels, _ = run_choice(columns, k, choice, weights, method.seed)
    return labels, perf_counter() - started


def _warm_up(points: Floats, variants: list[tuple[str, bool]], method: _Method) -> None:
    """Compile the kernels on a few points with the same number of columns.

    The options of the method are left out, as they may request a long search.
    """
    sample = np.random.default_rng(method.seed).normal(size=(60, max(1, points.shape[1])))
    labels, _ = _partition(sample[:40], 3, _Method(method.name, {}, method.seed), None)
    for strategy, inertial in variants:
        add_batch(sample[:40], labels, sample[40:], 3, strategy=strategy, inertial=inertial)


def _standardize(points: Floats, reference: Floats, weights: Floats | None) -> Floats:
    """Standardize by the means and deviations of ``reference``, except its constant columns."""
    means = np.average(reference, axis=0, weights=weights)
    deviations = np.sqrt(np.average((reference - means) ** 2, axis=0, weights=weights))
    return np.asarray((points - means) / np.where(deviations > 0, deviations, 1.0))


def _distortion(points: Floats, labels: Integers, weights: Floats | None) -> float:
    each = np.ones(len(points)) if weights is None else weights
    total = total_sum_of_squares(points, each)
    return sum_of_squares(points, labels, each) / total if total else 0.0
