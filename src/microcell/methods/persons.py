"""Cells of k distinct persons: persons as single points, and the rule for a search."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from microcell.errors import OptionError
from microcell.kernels.rules import Rule, make_rule
from microcell.model import Floats, Integers

__all__ = [
    "Whole",
    "as_persons",
    "collapse",
    "person_rule",
]


@dataclass(frozen=True, eq=False)
class Whole:
    """Each person as one point: the mean of their rows, weighted by the sum of their weights."""

    points: Floats
    weights: Floats
    strata: Integers | None


def as_persons(persons: ArrayLike | None, n: int) -> Integers | None:
    """Number the persons of the rows 0, 1, 2, ...; None without persons.

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
            "persons has missing values. Fill them in, or leave those rows out.",
            code="option.invalid",
            option="persons",
        )
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def collapse(
    points: Floats, weights: Floats | None, persons: Integers, strata: Integers | None
) -> Whole:
    """Return each person as one point.

    The SSE of cells of whole persons is that of these weighted points plus a constant, so
    partitioning the points is equivalent to partitioning the rows.
    """
    each = np.ones(len(points)) if weights is None else weights
    masses = np.bincount(persons, weights=each).astype(np.float64)
    means = np.empty((len(masses), points.shape[1]))  # no column if all of them are constant
    for j, column in enumerate(points.T):
        means[:, j] = np.bincount(persons, weights=each * column) / masses
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
    return Whole(means, masses, of_person)


def person_rule(persons: Integers, k: int) -> Rule:
    """Return the rule that every cell has k distinct persons."""
    return make_rule(len(persons), persons=persons, least=k)
