"""Ranges: is a published bound somebody's value?"""

from math import gcd

import numpy as np

import microcell as mc
from benchmarks.adversary.recovery import Attack, Trials
from benchmarks.adversary.settings import make_people, release_people

__all__ = ["RANGES", "attack"]

RANGES = Attack(
    "bounds of ranges",
    "nothing",
    'table file with `publish = "range"`',
    "the smallest and the largest value of a cell",
    "share of all values on the grid of the bounds",
)


def attack(method: str, k: int, n: int, seed: int, *, exact: bool = False) -> Trials:
    """Take the bounds for values of members; ``exact`` publishes the extremes themselves."""
    people = make_people("heavy-tailed", n, seed)
    schema = mc.Schema(
        quasi=[mc.Column("income", publish="range"), "age"], confidential=["ill"], drop=["secret"]
    )
    people.pop("wealth")
    release = release_people(people, schema, method, k)
    values, labels = people["income"], release.partition.labels
    extremes = np.array(
        [
            (values[labels == cell].min(), values[labels == cell].max())
            for cell in range(len(release.partition))
        ]
    )
    first = [int(np.flatnonzero(labels == cell)[0]) for cell in range(len(extremes))]
    bounds = np.array([_bounds(release.table["income"][row]) for row in first])
    step = gcd(*bounds.ravel().tolist())
    baseline = float(np.mean(values % step == 0))
    hits = (extremes if exact else bounds) == extremes
    return Trials(tuple(hits.ravel().tolist()), (baseline,) * hits.size)


def _bounds(text: str) -> tuple[int, int]:
    low, _, high = text.partition(" to ") if " to " in text else text.partition("-")
    return int(low), int(high)
