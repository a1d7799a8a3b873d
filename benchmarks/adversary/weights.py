"""Weights and rows per person: does a mean reveal the value of its heaviest member?"""

import numpy as np

import microcell as mc
from benchmarks.adversary.recovery import Attack, Trials
from benchmarks.adversary.settings import Setting, make_people, release_people, schema_of

__all__ = ["PERSONS", "PUBLISHED", "WEIGHTS", "attack", "attack_persons", "attack_published"]

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

PERSONS = Attack(
    "rows per person and dominance",
    "everyone's class and number of rows",
    "table file of a release with a person column",
    "the value of the member with most rows, to 1 % of the standard deviation",
    "the cell's mean if everyone counted once",
    promised=False,
    advice=WEIGHTS.advice.replace("no weight role", "at most a few rows per person"),
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


def attack_persons(
    method: str, k: int, n: int, seed: int, dominance: tuple[int, float] | None = None
) -> Trials:
    """Take the published mean for the value of the person with most rows in the cell."""
    rng = np.random.default_rng([seed, 17])
    persons = np.concatenate([np.arange(n), np.repeat(np.arange(n // 10), 40)])
    incomes = np.exp(rng.normal(10.4, 0.5, n)).round()[persons]
    heights = rng.normal(170, 10, n).round(1)[persons]
    table = {"who": persons, "income": incomes, "height": heights}
    schema = mc.Schema(person="who", quasi=["income", "height"], dominance=dominance or (1, 0.5))
    release = release_people(table, schema, method, k)
    labels = release.partition.labels
    hits, guesses = [], []
    for name in ("income", "height"):
        values, published = table[name], np.asarray(release.table[name], dtype=np.float64)
        for cell in range(len(release.partition)):
            rows = np.flatnonzero(labels == cell)
            _, first, counts = np.unique(persons[rows], return_index=True, return_counts=True)
            if counts.max() == 1:
                continue
            truth = values[rows[first[np.argmax(counts)]]]
            allowed = _TOLERANCE * values.std()
            hits.append(bool(abs(published[rows[0]] - truth) <= allowed))
            guesses.append(bool(abs(values[rows[first]].mean() - truth) <= allowed))
    return Trials(tuple(hits), guesses=tuple(guesses))
