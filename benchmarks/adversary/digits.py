"""Digits of published means: can members be solved from them?"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import microcell as mc
from benchmarks.adversary.recovery import Attack, Trials
from benchmarks.adversary.settings import release_people
from microcell.kinds import Groups
from microcell.kinds.numeric import NumericKind
from microcell.kinds.values import Values

__all__ = [
    "ALL_BUT_ONE",
    "ALL_BUT_TWO",
    "attack_all_but_one",
    "attack_all_but_two",
    "find_candidates",
]

ALL_BUT_TWO = Attack(
    "digits of means, all but two known",
    "the values of all members of a class but two, and how means are computed",
    "table file with means in full precision",
    "the two values",
    "1 / number of pairs with the same sum",
)

ALL_BUT_ONE = Attack(
    "digits of means, all but one known",
    "the values of all members of a class but one",
    "table file with means in full precision",
    "the last value",
    "the published mean",
    promised=False,
    advice="a larger k, so that nobody knows all members but one "
    "([means of small cells](explain/limits.md#means-of-small-cells))",
)

_GRID = 10  # values have one decimal
_LARGEST = 80.0
_REACH = 40
"""The attacker considers values this many steps around the published mean."""


def _people(n: int, seed: int) -> NDArray[np.float64]:
    """Return values of one decimal, and some with more: means are then not rounded to one."""
    rng = np.random.default_rng([seed, 11])
    return np.r_[rng.normal(26, 4, n).round(1), _LARGEST + 10 + rng.random(6)]


def _release(values: NDArray[np.float64], method: str, k: int) -> tuple[NDArray, NDArray]:
    schema = mc.Schema(quasi=["bmi"])
    release = release_people({"bmi": values}, schema, method, k)
    return release.partition.labels, np.asarray(release.table["bmi"])


Pair = tuple[float, float]


@dataclass(frozen=True)
class Candidates:
    """The pairs with the right sum, those that reproduce all digits of the mean, and the truth."""

    options: list[Pair]
    fitting: list[Pair]
    truth: Pair


def attack_all_but_two(method: str, k: int, n: int, seed: int, *, telling: bool = False) -> Trials:
    """Try all pairs with the right sum; keep those that reproduce the mean to the last digit.

    ``telling`` publishes means whose last digits depend on the members (a broken release).
    """
    rng = np.random.default_rng([seed, 12])
    hits, chances = [], []
    for cell in find_candidates(method, k, n, seed, telling=telling):
        pairs = cell.fitting or cell.options
        hits.append(pairs[int(rng.integers(len(pairs)))] == cell.truth)
        chances.append(1 / len(cell.options))
    return Trials(tuple(hits), tuple(chances))


def find_candidates(
    method: str, k: int, n: int, seed: int, *, telling: bool = False
) -> Iterator[Candidates]:
    """Yield what the attacker considers for each cell, repeating the computation of the mean."""
    values = _people(n, seed)
    labels, published = _release(values, method, k)
    repeat = _telling_mean if telling else _our_mean
    for cell in np.unique(labels):
        members = np.flatnonzero(labels == cell)
        if (values[members] > _LARGEST).any():
            continue
        mean = _telling_mean(values[members]) if telling else published[members[0]]
        others = values[members[:-2]]
        options = _pairs(mean, len(members), others)
        fitting = [pair for pair in options if repeat(np.r_[others, pair]) == mean]
        first, second = values[members[-2:]].tolist()
        yield Candidates(options, fitting, (first, second))


def _pairs(mean: float, size: int, others: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Return the ordered pairs on the grid that give this mean up to rounding."""
    total = round(mean * size * _GRID) - round(others.sum() * _GRID)
    middle = round(mean * _GRID)
    first = range(middle - _REACH, middle + _REACH + 1)
    return [(a / _GRID, (total - a) / _GRID) for a in first if abs(total - a - middle) <= _REACH]


def _our_mean(values: NDArray[np.float64]) -> float:
    """Return what a release publishes for a cell of these values."""
    # A value in full precision in another cell, so that the mean is not rounded.
    data = np.r_[values, 1 / 3]
    groups = Groups(np.r_[np.zeros(len(values), dtype=np.int64), 1], 2, np.ones(len(data)))
    column = mc.Column("bmi", kind="numeric", publish="mean")
    shown = NumericKind().represent(
        column, [Values("float", data, np.zeros(len(data), dtype=np.bool_))], groups
    )
    return float(shown[0].values[0])


def _telling_mean(values: NDArray[np.float64]) -> float:
    """Return the mean with the first value in its last digits."""
    return float(values.mean() + values[0] * 1e-9 + values[-1] * 1e-9)


def attack_all_but_one(method: str, k: int, n: int, seed: int) -> Trials:
    """Subtract the known values from size times mean."""
    values = _people(n, seed)
    labels, published = _release(values, method, k)
    hits, guesses = [], []
    for cell in np.unique(labels):
        members = np.flatnonzero(labels == cell)
        last = members[0]
        others = values[members].sum() - values[last]
        hits.append(bool(abs(len(members) * published[last] - others - values[last]) < 0.05))
        guesses.append(bool(abs(published[last] - values[last]) < 0.05))
    return Trials(tuple(hits), guesses=tuple(guesses))
