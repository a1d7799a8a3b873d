"""From the name of a method to labels: what "auto" chooses, and how a choice is carried out."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import numpy as np

from microcell import progress
from microcell.errors import DataError, OptionError
from microcell.kernels.arrays import sum_of_squares
from microcell.methods.anneal import LARGE, steps_in, usual_steps
from microcell.methods.registry import select
from microcell.methods.search import ROUNDS, refine_labels
from microcell.model import Floats, Integers

__all__ = [
    "EFFORTS",
    "MOST_AT_ONCE",
    "WITHIN",
    "Choice",
    "carry_out",
    "check_effort",
    "choose",
    "choose_method",
    "usual_shakes",
]

MOST_AT_ONCE, WITHIN = 2000, 500
"""More cells than this are made within macrocells, each of about so many cells, unless told otherwise."""

_SHAKING, _MOST_SHAKES = 1e9, 800
"""Points times cells times dimensions that rounds of shaking go through, if nothing is said of them."""


def usual_shakes(values: int, cells: int, *, share: float = 1.0) -> int:
    """Rounds of shaking for points of so many values in all, or for a part of them that has its share."""
    return int(min(_MOST_SHAKES, share * _SHAKING / (values * cells + 1)))


EFFORTS = ("fast", "balanced", "best")

LLOYD = (
    "probability-constrained Lloyd, refined by local search, which distorted less than annealing"
)

MACROCELL = 25_000
VERY_LARGE = 200_000
"""Beyond so many records a balanced effort has no time to anneal."""

_BEST, _LEAST_OF_BEST = 7e8, 400.0
"""Steps in all of the best effort for a thousand records, and the least for each record."""

_WORTH_ANNEALING = 100.0
"""Steps for each record that a time budget must allow."""

_LARGE_CELLS = 8
"""From this k on, constrained Lloyd often distorts less than annealing: more of large cells than of small ones must be
right at once, which single exchanges do not see."""

_TOO_MUCH = 3e8
"""Points times dimensions times cells of a macrocell beyond which constrained Lloyd takes too long to be tried."""

_STARTS = 5
"""Of constrained Lloyd, with the best effort."""


@dataclass(frozen=True)
class Choice:
    """A method with its options, why, and how many rounds to refine what it makes, within so many seconds in all.

    A ``rival`` is another that is carried out first; what distorts less is kept.
    """

    method: str
    why: str
    options: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 0
    seconds: float = np.inf
    rival: "Choice | None" = None


def check_effort(effort: object) -> None:
    """Refuse an effort that is neither a word for one nor a number of seconds."""
    number = (
        isinstance(effort, (int, float, np.integer, np.floating))
        and not isinstance(effort, bool)
        and 0 < effort < np.inf
    )
    if not number and (not isinstance(effort, str) or effort not in EFFORTS):
        raise OptionError(
            f"effort must be {', '.join(EFFORTS)} or a number of seconds above 0, not {effort!r}."
        )


def choose(X: Floats, k: int, effort: str | float = "balanced", of: int | None = None) -> Choice:
    """The method for these points, a part of a table of so many records, and what to spend on it.

    Examples
    --------
    >>> choose(np.zeros((10, 1)), k=3).method
    'univariate'
    >>> choose(np.zeros((10_000, 2)), k=3).method
    'anneal'
    >>> choose(np.zeros((10_000, 2)), k=3, effort="fast").why
    'of effort fast for 10,000 records: MDAV, refined by local search'
    """
    n, whole = len(X), of or len(X)
    if X.shape[1] <= 1:
        return Choice("univariate", "one dimension has an exact optimum")
    if not isinstance(effort, str):
        return _within(float(effort), X, k, whole)
    if effort == "fast" or (effort == "balanced" and whole > VERY_LARGE):
        return _refined(
            n, f"of effort {effort} for {whole:,} records", 2 if effort == "fast" else 4
        )
    steps = usual_steps(whole, k) if effort == "balanced" else _best_steps(whole)
    reason = f"of effort {effort} for {whole:,} records"
    why = f"{reason}: MDAV, then annealing of {steps:,.0f} steps a record"
    rival = _rival(X, k, whole, reason, 1 if effort == "balanced" else _STARTS)
    return Choice("anneal", why, {"steps": steps}, rival=rival)


def _best_steps(n: int) -> float:
    """Steps for each record that take a minute or two in all: steps are slower where memory is far."""
    return float(round(max(_LEAST_OF_BEST, _BEST / n * (1000 / max(n, 1000)) ** 0.25)))


def _within(seconds: float, X: Floats, k: int, whole: int) -> Choice:
    """What can be done with the share of so many seconds."""
    n = len(X)
    own, limit = seconds * n / whole, f"of a limit of {seconds:g} s, so that another run may differ"
    if steps_in(own, n) < _WORTH_ANNEALING:
        return _refined(n, limit, ROUNDS, own)
    rival = _rival(X, k, whole, limit, 1) if _seconds_of_rival(X, k) < own / 2 else None
    return Choice(
        "anneal", f"{limit}: MDAV, then annealing", {"seconds": own}, seconds=own, rival=rival
    )


def _rival(X: Floats, k: int, whole: int, reason: str, starts: int) -> Choice | None:
    """Constrained Lloyd, if cells are large and the table is not; parts of a table share the shaking of one."""
    n = len(X)
    cells = n // k
    if k < _LARGE_CELLS or cells < 2 or _work(X, k) > _TOO_MUCH:
        return None
    options: dict[str, Any] = {"restarts": starts}
    if cells > WITHIN:
        options["prepartition"] = -(-cells // WITHIN)
    if n < whole:
        options["shakes"] = usual_shakes(X.size, min(cells, WITHIN), share=n / whole)
    return Choice("pcl", f"{reason}: {LLOYD}", options, ROUNDS)


def _seconds_of_rival(X: Floats, k: int) -> float:
    """A guess from above for a machine of today."""
    return 5 + 7e-8 * _work(X, k)


def _work(X: Floats, k: int) -> float:
    """Points times dimensions times the cells that each is compared with."""
    return float(X.size) * min(len(X) // k, WITHIN)


def _refined(n: int, reason: str, rounds: int, seconds: float = np.inf) -> Choice:
    """MDAV, in macrocells for large tables, refined by local search."""
    if n <= LARGE:
        return Choice("mdav", f"{reason}: MDAV, refined by local search", {}, rounds, seconds)
    why = f"{reason}: MDAV in macrocells, refined by local search"
    return Choice("mdav", why, {"macrocells": MACROCELL}, rounds, seconds)


def choose_method(
    points: Floats, k: int, method: str, options: Mapping[str, Any], of: int
) -> Choice:
    """The choice for these points, a part of a table of so many records, which gets its share of a time limit."""
    if method == "auto":
        return choose(points, k, **options, of=of)
    seconds = options.get("seconds")
    if not isinstance(seconds, (int, float, np.integer, np.floating)):
        return Choice(method, "asked for", options)
    share = float(seconds) * len(points) / of
    why = "asked for; its time is limited, so another run may differ"
    return Choice(method, why, {**options, "seconds": share}, seconds=share)


def carry_out(
    points: Floats, k: int, choice: Choice, weights: Floats | None, seed: int
) -> tuple[Integers, Choice]:
    """The labels that the chosen method makes, refined as the choice says, or its rival; and which of them it was."""
    deadline, rival = monotonic() + choice.seconds, choice.rival
    if rival is None:
        return _make(points, k, choice, weights, seed, deadline), choice
    before = _try(points, k, rival, weights, seed, deadline)
    if "seconds" in choice.options:  # what the rival left
        choice = replace(
            choice, options={**choice.options, "seconds": max(0.0, deadline - monotonic())}
        )
    labels = _make(points, k, choice, weights, seed, deadline)
    if before is None:
        return labels, choice
    each = np.ones(len(points)) if weights is None else weights
    if sum_of_squares(points, before, each) < sum_of_squares(points, labels, each):
        return before, rival
    return labels, replace(
        choice, why=f"{choice.why}, which distorted less than probability-constrained Lloyd"
    )


def _try(
    points: Floats, k: int, choice: Choice, weights: Floats | None, seed: int, deadline: float
) -> Integers | None:
    """The labels, if it makes any: Ctrl-C ends this alone, and some methods do not take all that others do."""
    try:
        return _make(points, k, choice, weights, seed, deadline)
    except KeyboardInterrupt:
        progress.report("stopped: going on with another search")
    except DataError:  # of points too far apart, or too near to each other
        progress.report("going on with another search")
    return None


def _make(
    points: Floats, k: int, choice: Choice, weights: Floats | None, seed: int, deadline: float
) -> Integers:
    labels = select(choice.method).function(points, k, weights=weights, seed=seed, **choice.options)
    if choice.rounds:
        labels = refine_labels(
            points, labels, k, weights=weights, seed=seed, rounds=choice.rounds, deadline=deadline
        )
    return labels
