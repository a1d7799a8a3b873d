"""The method "auto": choose a method and its effort, and run the choice."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import numpy as np

from microcell import progress
from microcell.errors import DataError, OptionError
from microcell.kernels.arrays import sum_of_squares
from microcell.methods.anneal import LARGE, default_steps, steps_within
from microcell.methods.equal_records import find_equal_records
from microcell.methods.merging import merge_short_cells
from microcell.methods.persons import person_rule
from microcell.methods.registry import REQUESTED, select
from microcell.methods.search import ROUNDS, refine_labels
from microcell.model import Floats, Integers

__all__ = [
    "EFFORTS",
    "MOST_AT_ONCE",
    "WITHIN",
    "Choice",
    "check_effort",
    "choose",
    "choose_method",
    "default_shakes",
    "run_choice",
]

EFFORTS = ("fast", "balanced", "best")

MOST_AT_ONCE = 2000
"""With more cells than this, macrocells are used by default."""

WITHIN = 500
"""Approximate number of cells per macrocell."""

_SHAKING = 1e9
"""Points times cells times dimensions that the default number of shaking rounds may process."""

_MOST_SHAKES = 800

_MACROCELL = 25_000

_BEST = 7e8
"""Total annealing steps of the best effort for a thousand records."""

_LEAST_OF_BEST = 400.0
"""Minimum annealing steps per record of the best effort."""

_WORTH_ANNEALING = 100.0
"""Minimum steps per record that a time limit must allow for annealing to be used."""

_LARGE_CELLS = 8
"""From this k on, constrained Lloyd often beats annealing: in large cells many records must be
right at the same time, which single exchanges cannot achieve."""

_TOO_MUCH = 3e8
"""Points times dimensions times cells beyond which constrained Lloyd takes too long to be tried."""

_STEPS_OF_SINGLES = 5000.0
"""Annealing steps per record for a thousand records that have fewer than k equal ones."""

_EFFORT_FACTORS = {"fast": 0.1, "balanced": 1.0, "best": 12.0}

_STARTS = 5
"""Number of starts of constrained Lloyd at the best effort."""

_LLOYD = "probability-constrained Lloyd with local search, better than annealing here"


_EXACT = 'chosen by "auto": one dimension has an exact optimum'
_BEST_RUNS = 'chosen by "auto": one dimension: best partition into runs of consecutive values'
"""With persons, cells that are not runs of consecutive values may be even better."""


@dataclass(frozen=True)
class Choice:
    """A method with its options, the reason for it, and how to refine its result.

    ``rounds`` is the number of refinement rounds and ``seconds`` the time limit for everything.
    A ``rival`` is run first, and the result with less distortion is kept.
    """

    method: str
    reason: str
    options: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 0
    seconds: float = np.inf
    rival: "Choice | None" = None


def default_shakes(values: int, cells: int, *, share: float = 1.0) -> int:
    """Return the default number of shaking rounds, or a part's share of it.

    ``values`` is the number of entries of the matrix of points.
    """
    return int(min(_MOST_SHAKES, share * _SHAKING / (values * cells + 1)))


def check_effort(effort: object) -> None:
    """Raise OptionError unless the effort is one of :data:`EFFORTS` or a number of seconds."""
    is_number = isinstance(effort, (int, float, np.integer, np.floating))
    if is_number and not isinstance(effort, bool) and 0 < effort < np.inf:  # type: ignore[operator]
        return
    if not isinstance(effort, str) or effort not in EFFORTS:
        raise OptionError(
            f"effort must be {', '.join(EFFORTS)} or a positive number of seconds, not {effort!r}.",
            code="option.invalid",
            option="effort",
        )


def choose(
    X: Floats,
    k: int,
    effort: str | float = "balanced",
    of: int | None = None,
    *,
    persons: bool = False,
) -> Choice:
    """Choose the method and its effort for points that are part of a table of ``of`` records.

    With ``persons`` equal records are not interchangeable.

    Examples
    --------
    >>> choose(np.zeros((10, 1)), k=3).method
    'univariate'
    >>> choose(np.zeros((10_000, 2)), k=3).method
    'anneal'
    >>> choose(np.zeros((10_000, 2)), k=3, effort="fast").reason
    'chosen by "auto" at effort "fast" (10,000 records): MDAV, refined by local search'
    """
    n, total = len(X), of or len(X)
    if X.shape[1] <= 1:
        return Choice("univariate", _EXACT)
    equal = None if persons else find_equal_records(X, k, None)
    if equal is not None:
        return _choose_for_equal_records(int(equal.single.sum()), n, total, effort)
    if not isinstance(effort, str):
        return _choose_within(float(effort), X, k, total)
    chosen = f'chosen by "auto" at effort "{effort}" ({total:,} records)'
    if effort == "fast":
        return _refined(n, chosen, 2)
    steps = default_steps(total, k) if effort == "balanced" else _best_steps(total)
    reason = f"{chosen}: MDAV start, then {steps:,.0f} annealing steps per record"
    rival = _rival(X, k, total, chosen, 1 if effort == "balanced" else _STARTS)
    return Choice("anneal", reason, {"steps": steps}, rival=rival)


def _best_steps(n: int) -> float:
    """Return the steps per record that take a minute or two in total.

    Steps are slower in large tables, which do not fit the cache.
    """
    return float(round(max(_LEAST_OF_BEST, _BEST / n * (1000 / max(n, 1000)) ** 0.25)))


def _choose_for_equal_records(singles: int, n: int, total: int, effort: str | float) -> Choice:
    """Choose for a table of many equal records, of which ``singles`` have fewer than k."""
    method = "groups of equal records are cells, then annealing of the others"
    if not isinstance(effort, str):
        share = float(effort) * n / total
        chosen = f'chosen by "auto" within {effort:g} s (results may differ between runs)'
        return Choice("anneal", f"{chosen}: {method}", {"seconds": share}, seconds=share)
    steps = _STEPS_OF_SINGLES * (1000 / max(singles, 1000)) ** 0.6 * _EFFORT_FACTORS[effort]
    reason = f'chosen by "auto" at effort "{effort}" ({total:,} records): {method}'
    return Choice("anneal", reason, {"steps": float(round(steps))})


def _choose_within(seconds: float, X: Floats, k: int, total: int) -> Choice:
    """Choose a method for a time limit, of which the points get a proportional share."""
    n = len(X)
    share = seconds * n / total
    chosen = f'chosen by "auto" within {seconds:g} s (results may differ between runs)'
    if steps_within(share, n) < _WORTH_ANNEALING:
        return _refined(n, chosen, ROUNDS, share)
    rival = _rival(X, k, total, chosen, 1) if _seconds_of_rival(X, k) < share / 2 else None
    reason = f"{chosen}: MDAV start, then annealing"
    return Choice("anneal", reason, {"seconds": share}, seconds=share, rival=rival)


def _rival(X: Floats, k: int, total: int, chosen: str, starts: int) -> Choice | None:
    """Return constrained Lloyd as a rival if cells are large and the table is small.

    Parts of a table share its shaking rounds.
    """
    n = len(X)
    cells = n // k
    if k < _LARGE_CELLS or cells < 2 or _work(X, k) > _TOO_MUCH:
        return None
    options: dict[str, Any] = {"restarts": starts}
    if cells > WITHIN:
        options["prepartition"] = -(-cells // WITHIN)
    if n < total:
        options["shakes"] = default_shakes(X.size, min(cells, WITHIN), share=n / total)
    return Choice("pcl", f"{chosen}: {_LLOYD}", options, ROUNDS)


def _seconds_of_rival(X: Floats, k: int) -> float:
    """Estimate the run time of the alternative method conservatively, for a current machine."""
    return 5 + 7e-8 * _work(X, k)


def _work(X: Floats, k: int) -> float:
    """Estimate the work: points x dimensions x cells that each point is compared with."""
    return float(X.size) * min(len(X) // k, WITHIN)


def _refined(n: int, chosen: str, rounds: int, seconds: float = np.inf) -> Choice:
    """Choose MDAV, in macrocells for large tables, refined by local search."""
    if n <= LARGE:
        return Choice("mdav", f"{chosen}: MDAV, refined by local search", {}, rounds, seconds)
    reason = f"{chosen}: MDAV in macrocells, refined by local search"
    return Choice("mdav", reason, {"macrocells": _MACROCELL}, rounds, seconds)


def choose_method(
    points: Floats,
    k: int,
    method: str,
    options: Mapping[str, Any],
    of: int,
    *,
    persons: bool = False,
) -> Choice:
    """Resolve a method name for points that are part of a table of ``of`` records.

    The points get their share of a time limit.
    """
    if method == "auto":
        return choose(points, k, **options, of=of, persons=persons)
    seconds = options.get("seconds")
    if not isinstance(seconds, (int, float, np.integer, np.floating)):
        return Choice(method, REQUESTED, options)
    share = float(seconds) * len(points) / of
    reason = f"{REQUESTED}, with a time limit (results may differ between runs)"
    return Choice(method, reason, {**options, "seconds": share}, seconds=share)


def run_choice(
    points: Floats,
    k: int,
    choice: Choice,
    weights: Floats | None,
    seed: int,
    persons: Integers | None = None,
) -> tuple[Integers, Choice]:
    """Run the choice and its rival; return the better labels and the choice that produced them.

    With ``persons`` every cell has k distinct persons.
    """
    if persons is not None and choice.reason == _EXACT:
        choice = replace(choice, reason=_BEST_RUNS)
    deadline, rival = monotonic() + choice.seconds, choice.rival
    if rival is None:
        return _run(points, k, choice, weights, seed, deadline, persons), choice
    rival_labels = _try(points, k, rival, weights, seed, deadline, persons)
    if "seconds" in choice.options:  # the time that the rival left
        seconds = max(0.0, deadline - monotonic())
        choice = replace(choice, options={**choice.options, "seconds": seconds})
    labels = _run(points, k, choice, weights, seed, deadline, persons)
    if rival_labels is None:
        return labels, choice
    each = np.ones(len(points)) if weights is None else weights
    if sum_of_squares(points, rival_labels, each) < sum_of_squares(points, labels, each):
        return rival_labels, rival
    reason = f"{choice.reason}; better than probability-constrained Lloyd here"
    return labels, replace(choice, reason=reason)


def _try(
    points: Floats,
    k: int,
    choice: Choice,
    weights: Floats | None,
    seed: int,
    deadline: float,
    persons: Integers | None,
) -> Integers | None:
    """Run the choice; return None if it is interrupted or does not support the points."""
    try:
        return _run(points, k, choice, weights, seed, deadline, persons)
    except KeyboardInterrupt:
        progress.report("interrupted: continuing with the next search")
    except DataError:  # the points are too far apart or too close together
        progress.report("continuing with the next search")
    return None


def _run(
    points: Floats,
    k: int,
    choice: Choice,
    weights: Floats | None,
    seed: int,
    deadline: float,
    persons: Integers | None,
) -> Integers:
    method = select(choice.method)
    settings = {"weights": weights, "seed": seed, **choice.options}
    if persons is not None and method.counts_persons:
        settings["persons"] = persons
    labels, rounds = method.function(points, k, **settings), choice.rounds
    if persons is not None and not method.counts_persons:
        labels = merge_short_cells(points, labels, k, persons, weights)
        rounds = max(rounds, ROUNDS)
    if rounds:
        labels = refine_labels(
            points,
            labels,
            k,
            weights=weights,
            seed=seed,
            rounds=rounds,
            deadline=deadline,
            rule=None if persons is None else person_rule(persons, k),
        )
    return labels
