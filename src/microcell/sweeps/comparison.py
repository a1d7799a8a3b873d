"""Compare methods by information loss and run time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from microcell import methods as partitioning
from microcell._display import count, frame_of_rows, html_card, record_html, record_repr, short_repr
from microcell.model import Encoded, Schema
from microcell.release.prepare import Prepared
from microcell.sweeps.runner import (
    Attempt,
    compile_kernels,
    make_cells,
    plan,
    prepare_table,
    run_requests,
)

__all__ = ["Comparison", "Trial", "compare"]


@dataclass(frozen=True)
class Trial:
    """Result of one method at one k: distortion, number of cells, smallest size and run time.

    ``distortion`` is SSE / SST of the standardized points. ``used`` is the method that was run (the
    one chosen by "auto"), and ``reason`` says why. If the method does not support the table,
    ``reason`` says so and the other fields are None. ``bound`` is a lower bound on the distortion
    of all partitions for this k, if it was requested.
    """

    method: str
    k: int
    reason: str
    used: str | None = None
    distortion: float | None = None
    cells: int | None = None
    smallest: int | None = None
    seconds: float | None = None
    bound: float | None = None

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
    bound: str | float | None = None,
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
    bound
        Effort of a lower bound for each k, as for :func:`lower_bound`: what no method can be below.
        Default: none.

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
    requests = plan(k, names, options, seed)
    prepared = prepare_table(source, schema, requests, missing=missing, seed=seed)
    compile_kernels(requests)
    if bound is not None:
        partitioning.check_effort(bound)
    attempts = run_requests(requests, lambda request: make_cells(prepared, request))
    trials = [_as_trial(prepared.encoded, attempt) for attempt in attempts]
    sizes = {trial.k for trial in trials}
    bounds = {} if bound is None else {k: _bound(prepared, k, bound) for k in sorted(sizes)}
    return Comparison(tuple(replace(trial, bound=bounds.get(trial.k)) for trial in trials))


def _bound(prepared: Prepared, k: int, effort: str | float) -> float:
    encoded = prepared.encoded
    return partitioning.bound_within(
        prepared.strata, encoded.matrix, k, encoded.weights, effort
    ).distortion


def _as_trial(encoded: Encoded, attempt: Attempt) -> Trial:
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
