"""From the name of a method to labels: what "auto" chooses, and how a choice is carried out."""

from collections.abc import Mapping
from dataclasses import replace
from time import monotonic
from typing import Any

import numpy as np

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
    each = np.ones(len(points)) if weights is None else weights
    before = _make(points, k, rival, weights, seed, deadline)
    if "seconds" in choice.options:  # what the rival left
        choice = replace(choice, options={**choice.options, "seconds": max(0.0, deadline - monotonic())})
    labels = _make(points, k, choice, weights, seed, deadline)
    better = sum_of_squares(points, before, each) < sum_of_squares(points, labels, each)
    return (before, rival) if better else (labels, choice)


def _make(points: Floats, k: int, choice: Choice, weights: Floats | None, seed: int, deadline: float) -> Integers:
    labels = select(choice.method).function(points, k, weights=weights, seed=seed, **choice.options)
    if choice.rounds:
        labels = refine_labels(points, labels, k, weights=weights, seed=seed, rounds=choice.rounds, deadline=deadline)
    return labels
