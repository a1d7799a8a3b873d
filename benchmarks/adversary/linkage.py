"""Linkage: find a person's record from noisy knowledge of the quasi-identifiers."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.adversary.recovery import Attack, Trials
from benchmarks.adversary.settings import Columns, Setting

__all__ = ["LINKAGE", "attack"]

LINKAGE = Attack(
    "linkage with noise",
    "a person's quasi-identifiers, exactly or with noise",
    "table file",
    "a person's record",
    "1 / class size",
)


def attack(setting: Setting, noise: float, published: Columns | None = None) -> Trials:
    """Take a nearest published record for the person's; ``noise`` is in standard deviations.

    A category is known wrongly with the probability ``noise``. ``published`` replaces the
    quasi-identifiers of the release, with rows in the order of the file.
    """
    rng = np.random.default_rng([setting.seed, 6])
    records = published or setting.published
    keys = [part for column in setting.release.schema.quasi for part in column.parts]
    hits, chances = [], []
    for person, members, _ in setting.targets():
        distances = np.zeros(len(setting.record_classes))
        for key in keys:
            distances += _distances(setting.people[key], records[key], person, noise, rng)
        nearest = np.flatnonzero(distances <= distances.min() * (1 + 1e-12))
        guess = rng.choice(nearest)
        hits.append(bool(setting.published["secret"][guess] == setting.people["secret"][person]))
        chances.append(1 / len(members))
    return Trials(tuple(hits), tuple(chances))


def _distances(
    column: NDArray[np.generic],
    records: NDArray[np.generic],
    person: int,
    noise: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    if column.dtype.kind not in "if":
        value = rng.choice(column) if rng.random() < noise else column[person]
        return np.array([float(record != value) for record in records.tolist()])
    values = column.astype(np.float64)
    spread = float(values.std()) or 1.0
    known = values[person] + noise * spread * rng.normal()
    return np.square((records.astype(np.float64) - known) / spread)
