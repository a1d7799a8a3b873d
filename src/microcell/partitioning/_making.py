"""From the name of a method to labels: what "auto" chooses, and how a choice is carried out."""

from collections.abc import Mapping
from dataclasses import replace
from time import monotonic
from typing import Any

import numpy as np

from microcell import progress
from microcell.errors import DataError
from microcell.kernels.cells import sum_of_squares
from microcell.model import Floats, Integers
from microcell.partitioning._registry import select
from microcell.partitioning.auto import Choice, choose
from microcell.partitioning.refinement import refine_labels

__all__ = ["carry_out", "choose_method"]


def choose_method(points: Floats, k: int, method: str, options: Mapping[str, Any], of: int) -> Choice:
    """The choice for these points, a part of a table of so many records, which gets its share of a time limit."""
    if method == "auto":
        return choose(points, k, **options, of=of)
    seconds = options.get("seconds")
    if not isinstance(seconds, (int, float, np.integer, np.floating)):
        return Choice(method, "asked for", options)
    share = float(seconds) * len(points) / of
    why = "asked for; its time is limited, so another run may differ"
    return Choice(method, why, {**options, "seconds": share}, seconds=share)


def carry_out(points: Floats, k: int, choice: Choice, weights: Floats | None, seed: int) -> tuple[Integers, Choice]:
    """The labels that the chosen method makes, refined as the choice says, or its rival; and which of them it was."""
    deadline, rival = monotonic() + choice.seconds, choice.rival
    if rival is None:
        return _make(points, k, choice, weights, seed, deadline), choice
    before = _try(points, k, rival, weights, seed, deadline)
    if "seconds" in choice.options:  # what the rival left
        choice = replace(choice, options={**choice.options, "seconds": max(0.0, deadline - monotonic())})
    labels = _make(points, k, choice, weights, seed, deadline)
    if before is None:
        return labels, choice
    each = np.ones(len(points)) if weights is None else weights
    if sum_of_squares(points, before, each) < sum_of_squares(points, labels, each):
        return before, rival
    return labels, replace(choice, why=f"{choice.why}, which distorted less than probability-constrained Lloyd")


def _try(points: Floats, k: int, choice: Choice, weights: Floats | None, seed: int, deadline: float) -> Integers | None:
    """The labels, if it makes any: Ctrl-C ends this alone, and some methods do not take all that others do."""
    try:
        return _make(points, k, choice, weights, seed, deadline)
    except KeyboardInterrupt:
        progress.report("stopped: going on with another search")
    except DataError:  # of points too far apart, or too near to each other
        progress.report("going on with another search")
    return None


def _make(points: Floats, k: int, choice: Choice, weights: Floats | None, seed: int, deadline: float) -> Integers:
    labels = select(choice.method).function(points, k, weights=weights, seed=seed, **choice.options)
    if choice.rounds:
        labels = refine_labels(points, labels, k, weights=weights, seed=seed, rounds=choice.rounds, deadline=deadline)
    return labels
