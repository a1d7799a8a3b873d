"""Several releases of the same people: what their comparison reveals."""

import numpy as np

from benchmarks.adversary.recovery import Attack, Trials
from benchmarks.adversary.settings import make_people, release_people, schema_of

__all__ = ["ONE_LEFT", "TWO_PARTITIONS", "attack_one_left", "attack_two_partitions"]

_ADVICE = (
    "publish a table once; for data that arrive in batches make one release at the end "
    "([several releases](explain/limits.md#several-releases))"
)

ONE_LEFT = Attack(
    "two releases, one person fewer",
    "who left between the releases",
    "two table files",
    "that person's confidential value",
    "1 / class size",
    promised=False,
    advice=_ADVICE,
)

TWO_PARTITIONS = Attack(
    "two releases, other cells",
    "a person's class in both releases",
    "two table files",
    "a person's record",
    "1 / class size in the first release",
    promised=False,
    advice=_ADVICE,
)


def attack_one_left(
    table: str, method: str, k: int, n: int, seed: int, leavers: int, *, releases: int = 2
) -> Trials:
    """Subtract the confidential values of the second release from those of the first.

    With one release (the other is not published), the attacker guesses within the class.
    """
    people = make_people(table, n, seed)
    rng = np.random.default_rng([seed, 9])
    first = release_people(people, schema_of(table), method, k)
    hits, chances = [], []
    for person in rng.permutation(n)[:leavers].tolist():
        members = np.flatnonzero(first.partition.labels == first.partition.labels[person])
        left = set(people["secret"][members].tolist())
        if releases > 1:
            rest = {name: np.delete(column, person) for name, column in people.items()}
            second = release_people(rest, schema_of(table), method, k)
            left = set(first.table["secret"].tolist()) - set(second.table["secret"].tolist())
        hits.append(rng.choice(sorted(left)) == people["secret"][person])
        chances.append(1 / len(members))
    return Trials(tuple(map(bool, hits)), tuple(chances))


def attack_two_partitions(table: str, k: int, n: int, seed: int, methods: list[str]) -> Trials:
    """Intersect the records of a person's classes in two releases of the same people."""
    people = make_people(table, n, seed)
    rng = np.random.default_rng([seed, 10])
    releases = [release_people(people, schema_of(table), method, k) for method in methods]
    labels = [release.partition.labels for release in releases]
    hits, chances = [], []
    for cell in range(len(releases[0].partition)):
        members = np.flatnonzero(labels[0] == cell)
        person = int(rng.choice(members))
        both = np.logical_and.reduce([each == each[person] for each in labels])
        guess = rng.choice(people["secret"][both])
        hits.append(bool(guess == people["secret"][person]))
        chances.append(1 / len(members))
    return Trials(tuple(hits), tuple(chances))
