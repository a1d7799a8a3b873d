"""Sampling weights: does a weighted mean tell the value of its heaviest member?"""

import numpy as np

from benchmarks.adversary.recovery import Attack, Trials
from benchmarks.adversary.settings import Setting, make_people, release_people, schema_of

__all__ = ["PUBLISHED", "WEIGHTS", "attack", "attack_published"]

WEIGHTS = Attack(
    "weights and dominance",
    "everyone's class and sampling weight",
    "table file",
    "the value of a cell's heaviest member, to 1 % of the standard deviation",
    "the cell's mean without weights",
    promised=False,
    advice="a stricter dominance rule such as `dominance = [1, 0.34]`, a larger k, or no "
    "weight role ([dominance](howto/strata-weights.md#the-dominance-rule))",
)

PUBLISHED = Attack(
    "published weights",
    "a person's class and sampling weight",
    "table file with the column of weights",
    "a person's record",
    "1 / class size",
    promised=False,
    advice="round the weights or drop their column ([strata and weights](howto/strata-weights.md))",
)

_TOLERANCE = 0.01


def attack(
    method: str, k: int, n: int, seed: int, dominance: tuple[int, float] | None = None
) -> Trials:
    """Take the published mean for the value of the member with the largest weight."""
    people = make_people("weighted", n, seed)
    release = release_people(people, schema_of("weighted"), method, k, dominance=dominance)
    labels, weights = release.partition.labels, people["sampling_weight"]
    hits, guesses = [], []
    for name in ("income", "height"):
        values = people[name].astype(np.float64)
        published = np.asarray(release.table[name], dtype=np.float64)
        for cell in range(len(release.partition)):
            members = np.flatnonzero(labels == cell)
            heaviest = members[np.argmax(weights[members])]
            allowed = _TOLERANCE * values.std()
            hits.append(bool(abs(published[heaviest] - values[heaviest]) <= allowed))
            guesses.append(bool(abs(values[members].mean() - values[heaviest]) <= allowed))
    return Trials(tuple(hits), guesses=tuple(guesses))


def attack_published(setting: Setting) -> Trials:
    """Take the record of the class with the person's weight."""
    rng = np.random.default_rng([setting.seed, 13])
    hits, chances = [], []
    for person, members, records in setting.targets():
        known = setting.people["sampling_weight"][person]
        same = records[setting.published["sampling_weight"][records] == known]
        guess = rng.choice(same if len(same) else records)
        hits.append(bool(setting.published["secret"][guess] == setting.people["secret"][person]))
        chances.append(1 / len(members))
    return Trials(tuple(hits), tuple(chances))
