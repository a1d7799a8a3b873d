"""Cells of k distinct persons: the rows of a person as one point, and cells that fall short."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from microcell.errors import OptionError
from microcell.kernels.arrays import count_distinct
from microcell.kernels.merging import find_cheapest, lay_out_cells
from microcell.kernels.rules import Rule, make_rule
from microcell.model import Floats, Integers

__all__ = [
    "Whole",
    "as_persons",
    "collapse",
    "merge_short_cells",
    "person_rule",
]


@dataclass(frozen=True, eq=False)
class Whole:
    """Each person as one point: the mean of their rows, weighted by the sum of their weights."""

    points: Floats
    weights: Floats
    strata: Integers | None


def as_persons(persons: ArrayLike | None, n: int) -> Integers | None:
    """Number the persons of the rows 0, 1, 2, ...; None if there are none.

    Examples
    --------
    >>> as_persons(["b", "a", "b"], 3)
    array([1, 0, 1])
    """
    if persons is None:
        return None
    values = np.asarray(persons)
    if values.shape != (n,):
        raise OptionError(
            f"persons must have one value per row ({n}).",
            code="option.invalid",
            option="persons",
        )
    missing = np.isnan(values) if values.dtype.kind == "f" else values == np.array(None)
    if np.any(missing):
        raise OptionError(
            "persons must say who each row is about, but some values are missing. Fill them in, "
            "or leave those rows out.",
            code="option.invalid",
            option="persons",
        )
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def collapse(
    points: Floats, weights: Floats | None, persons: Integers, strata: Integers | None
) -> Whole:
    """Return each person as one point.

    The SSE of cells of whole persons is that of these weighted points plus a constant, so a
    partition of the points is as good as one of the rows.
    """
    each = np.ones(len(points)) if weights is None else weights
    masses = np.bincount(persons, weights=each).astype(np.float64)
    means = np.column_stack(
        [np.bincount(persons, weights=each * column) / masses for column in points.T]
    )
    of_person = None
    if strata is not None:
        of_person = np.zeros(len(masses), dtype=np.int64)
        of_person[persons] = strata
        if (of_person[persons] != strata).any():
            raise OptionError(
                "The rows of a person are in several strata, so they cannot share a cell.",
                code="option.conflict",
                option="strata",
            )
    return Whole(np.ascontiguousarray(means.reshape(len(masses), -1)), masses, of_person)


def merge_short_cells(
    X: Floats, labels: Integers, k: int, persons: Integers, weights: Floats | None
) -> Integers:
    """Merge every cell of fewer than k persons with the neighbour that raises the SSE least.

    In each round a cell merges at most once, cheapest first. The table must have k persons.
    """
    each = np.ones(len(X)) if weights is None else weights
    labels = np.unique(labels, return_inverse=True)[1].reshape(-1)
    while True:  # every round merges at least two cells
        short = np.flatnonzero(count_distinct(labels, persons) < k)
        if not len(short):
            return labels
        masses = np.bincount(labels, weights=each).astype(np.float64)
        means = np.zeros((len(masses), X.shape[1]))
        for j in range(X.shape[1]):
            means[:, j] = np.bincount(labels, weights=each * X[:, j]) / masses
        layout = lay_out_cells(means, masses, np.zeros(len(masses), dtype=np.int64))
        partners = np.empty(len(short), dtype=np.int64)
        costs = np.empty(len(short))
        find_cheapest(layout, short, partners, costs)
        partners = np.where(partners < 0, (short + 1) % len(masses), partners)
        root = np.arange(len(masses))
        taken = np.zeros(len(masses), dtype=np.bool_)
        for i in np.lexsort((short, costs)).tolist():
            cell, partner = int(short[i]), int(partners[i])
            if not (taken[cell] or taken[partner]):
                taken[cell] = taken[partner] = True
                root[max(cell, partner)] = min(cell, partner)
        labels = np.unique(root[labels], return_inverse=True)[1].reshape(-1)


def person_rule(persons: Integers, k: int) -> Rule:
    """Return the rule that every cell has k distinct persons."""
    return make_rule(len(persons), persons=persons, least=k)
