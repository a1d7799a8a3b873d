"""Methods side by side on one table: the distortion and the time of each, for each k. Nothing is released."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from microcell import groundwork, partitioning, reporting, sweeping
from microcell.model import Encoded, Schema

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
    sweep = sweeping.plan(k, methods, options, default=("auto", *partitioning.METHODS), seed=seed)
    groundwork.check_handling(missing, seed)
    prepared = groundwork.prepare(source, schema, k=max(sweep.sizes), missing=missing)
    return tuple(_as_trial(prepared.encoded, attempt) for attempt in sweeping.run(prepared, sweep))


def draw_trials(trials: Iterable[Trial], form: str) -> bytes:
    """A figure of distortion against seconds, a marker for each method and a line for each k: "svg", "png" or "pdf"."""
    marks = [
        reporting.Mark(trial.method, trial.k, trial.seconds, trial.distortion)
        for trial in trials
        if trial.seconds is not None and trial.distortion is not None
    ]
    return reporting.draw_marks(marks, form)


def _as_trial(encoded: Encoded, attempt: sweeping.Attempt) -> Trial:
    partition = attempt.partition
    if partition is None:
        return Trial(attempt.method, attempt.k, why=attempt.why)
    return Trial(
        attempt.method,
        attempt.k,
        why=attempt.why,
        used=partition.method,
        distortion=partitioning.distortion(encoded.matrix, partition.labels, weights=encoded.weights),
        cells=len(partition),
        smallest=int(partition.sizes.min()),
        seconds=attempt.seconds,
    )
