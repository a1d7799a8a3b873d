"""Columns that must fit together in a release: dates in order, differences and sums."""

import random
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any

import microcell as mc
from benchmarks.fuzz.fields import Field

__all__ = ["make_related"]


def make_related(rng: random.Random, n: int, names: Iterator[str]) -> list[Field]:
    """Return quasi-identifiers that the schema relates to each other."""
    return rng.choice(_MAKERS)(rng, n, names)


def _stay(rng: random.Random, n: int, names: Iterator[str]) -> list[Field]:
    """Return admission, discharge and the days between them."""
    start, end, stay = next(names), next(names), next(names)
    first = date(rng.choice([1969, 2020]), 12, 1)
    starts = [first + timedelta(days=rng.randrange(400)) for _ in range(n)]
    days = [rng.choice([0, 0, 1, 2, 5, 30, 300]) for _ in range(n)]
    ends = [day + timedelta(days=gap) for day, gap in zip(starts, days, strict=True)]
    difference = (end, start)
    fields = [
        _field(start, "date", starts, kind="datetime"),
        _field(end, "date", ends, kind="datetime", after=start),
        _field(stay, "integer", days, kind="numeric", difference_of=difference),
    ]
    return fields if rng.random() < 0.7 else fields[:2]


def _steps(rng: random.Random, n: int, names: Iterator[str]) -> list[Field]:
    """Return a number that is never larger than another one, published in different ways."""
    low, high = next(names), next(names)
    lows = [rng.randint(0, 50) for _ in range(n)]
    highs = [value + rng.choice([0, 1, 10, 500]) for value in lows]
    way, other = rng.choice(["mean", "median"]), rng.choice(["mean", "median"])
    return [
        _field(low, "integer", lows, kind="numeric", publish=way),
        _field(high, "integer", highs, kind="numeric", publish=other, after=low),
    ]


def _sum(rng: random.Random, n: int, names: Iterator[str]) -> list[Field]:
    """Return parts and their total."""
    parts = [next(names) for _ in range(rng.choice([2, 3]))]
    total = next(names)
    if rng.random() < 0.5:
        kind: str = "integer"
        values: list[list[Any]] = [[rng.randint(-5, 900) for _ in range(n)] for _ in parts]
    else:
        kind = "float"
        values = [[round(rng.gauss(100, 40), 2) for _ in range(n)] for _ in parts]
    totals = [round(sum(row), 2) for row in zip(*values, strict=True)]
    fields = [
        _field(name, kind, column, kind="numeric")
        for name, column in zip(parts, values, strict=True)
    ]
    return [*fields, _field(total, kind, totals, kind="numeric", sum_of=tuple(parts))]


def _field(name: str, storage: str, values: list[Any], **column: Any) -> Field:
    return Field(name, "quasi", storage, values, mc.Column(name, **column))


_MAKERS: tuple[Callable[[random.Random, int, Iterator[str]], list[Field]], ...] = (
    _stay,
    _steps,
    _sum,
)
