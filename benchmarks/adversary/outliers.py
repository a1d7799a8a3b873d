"""Outliers: do the cells file and the release together reveal an extreme value?"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

import microcell as mc
from benchmarks.adversary.recovery import Attack, Trials

__all__ = ["OUTLIERS", "attack", "guess_from_release", "guess_from_scale"]

OUTLIERS = Attack(
    "outliers from the cells file",
    "that one income is extreme and the others are typical",
    "table and cells file",
    "the extreme income, to 0.1 %",
    "the same from the table alone",
)

_TOLERANCE = 1e-3


def attack(n_tables: int, k: int, n: int, seed: int = 0, *, exact: bool = False) -> Trials:
    """Solve the sum of squares within cells for the outlier.

    ``exact`` gives the attacker the exact standard deviation in place of that in the file.
    """
    hits, guesses = [], []
    for i in range(n_tables):
        rng = np.random.default_rng([seed, i, 8])
        incomes = rng.normal(50_000, 12_000, n).round().astype(np.int64)
        outlier = incomes[rng.integers(n)] = rng.integers(5_000_000, 10_000_000)
        people = {"income": incomes, "age": rng.integers(20, 80, n)}
        release = mc.anonymize(
            people, mc.Schema(quasi=["income", "age"]), k=k, method="mdav", cells=True
        )
        content = json.loads(release.cells.to_json())
        (column,) = (item for item in content["encoding"]["columns"] if item["name"] == "income")
        scale = float(incomes.std()) if exact else column["scale"][0]
        published = np.asarray(release.table["income"], dtype=np.float64)
        hits.append(_is_close(guess_from_scale(published, scale), outlier))
        guesses.append(_is_close(guess_from_release(published), outlier))
    return Trials(tuple(hits), guesses=tuple(guesses))


def _is_close(guess: float, value: Any) -> bool:
    return bool(abs(guess - value) <= _TOLERANCE * value)


def guess_from_scale(published: NDArray[np.float64], scale: float) -> float:
    """Guess the outlier from the sum of squares within cells, which the deviation gives.

    With its cell's other members at the typical income, the rest of the sum is small.
    """
    within = len(published) * scale**2 - np.square(published - published.mean()).sum()
    top = published.max()
    size = int((published == top).sum())
    return float(top + np.sqrt(max(within, 0.0) * (size - 1) / size))


def guess_from_release(published: NDArray[np.float64]) -> float:
    """Guess the outlier from its cell's mean, with the other members at the median."""
    top = published.max()
    size = int((published == top).sum())
    return float(size * top - (size - 1) * np.median(published))
