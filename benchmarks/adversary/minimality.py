"""Minimality: what does an attacker gain who can repeat the method?"""

from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

import microcell as mc
from benchmarks.adversary.recovery import Attack, Trials
from benchmarks.adversary.settings import release_people

__all__ = [
    "DEPENDENCE",
    "MERGED",
    "PLAIN",
    "SEARCHED",
    "attack_cells",
    "attack_merged",
    "consistent_marginals",
]

_KNOWLEDGE = (
    "everyone's quasi-identifiers, the method and its settings, and all confidential values "
    "outside the class"
)

PLAIN = Attack(
    "minimality",
    _KNOWLEDGE,
    "table file",
    "who in a class of k to 2k - 1 has which confidential value",
    "1 / number of assignments",
)

DEPENDENCE = Attack(
    "minimality with dependence",
    _KNOWLEDGE,
    "table file of a release with `dependence`",
    PLAIN.target,
    PLAIN.baseline,
    promised=False,
    advice="leave `dependence` at 0 if an outsider may know this much "
    "([merged cells](explain/limits.md#cells-that-depend-on-confidential-values))",
)

MERGED = Attack(
    "minimality with l-diversity",
    "everyone's quasi-identifiers, the method and its settings",
    "table file of a release that requires `l_diversity=2`",
    "the diagnosis of a person in a merged cell",
    "the most frequent diagnosis of the class",
    promised=False,
    advice="a larger k in place of merged cells "
    "([merged cells](explain/limits.md#cells-that-depend-on-confidential-values))",
)

SEARCHED = Attack(
    "minimality with a search within limits",
    _KNOWLEDGE,
    "table file of a release that requires `l_diversity=2`",
    "who in a class of k to 2k - 1 has which diagnosis",
    PLAIN.baseline,
    promised=False,
    advice="a larger k in place of the requirement if an outsider may know this much "
    "([merged cells](explain/limits.md#cells-that-depend-on-confidential-values))",
)

_LARGEST = 4
"""Classes with more members have too many assignments to try them all."""

_LARGEST_MERGED = 15
"""The same for merged cells, where only the places of the ill count."""


def _people(n: int, seed: int) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng([seed, 14])
    age, height = rng.integers(18, 95, n), rng.normal(170, 10, n).round(1)
    income = (30_000 + 300 * age + rng.normal(0, 8_000, n)).round().astype(np.int64)
    ill = np.where(rng.random(n) < 0.25, "ill", "well")
    return {"age": age, "height": height, "income": income, "ill": ill}


def attack_cells(
    method: str, k: int, n: int, seed: int, *, classes: int, column: str = "income", **options: Any
) -> Trials:
    """Exclude the assignments for which the method would not have made these cells."""
    people = _people(n, seed)
    other = "ill" if column == "income" else "income"
    schema = mc.Schema(quasi=["age", "height"], confidential=[column], drop=[other])
    labels = release_people(people, schema, method, k, **options).partition.labels
    rng = np.random.default_rng([seed, 15])
    hits, chances = [], []
    for cell in rng.permutation(labels.max() + 1):
        members = np.flatnonzero(labels == cell)
        values = people[column][members]
        every = sorted(set(permutations(values.tolist())))
        if len(members) > _LARGEST or len(every) == 1:
            continue
        fitting = []
        for assigned in every:
            changed = people[column].copy()
            changed[members] = assigned
            again = release_people({**people, column: changed}, schema, method, k, **options)
            if _same_cells(again.partition.labels, labels):
                fitting.append(assigned)
        guess = fitting[int(rng.integers(len(fitting)))]
        hits.append(guess == tuple(values.tolist()))
        chances.append(1 / len(every))
        if len(hits) == classes:
            break
    return Trials(tuple(hits), tuple(chances))


def _same_cells(one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    pairs = set(zip(one.tolist(), other.tolist(), strict=True))
    return len(pairs) == len(set(one.tolist())) == len(set(other.tolist()))


def attack_merged(method: str, k: int, n: int, seed: int) -> Trials:
    """Repeat the method without the requirement: one of the merged cells was homogeneous."""
    people = _people(n, seed)
    schema = mc.Schema(quasi=["age", "height"], confidential=["ill"], drop=["income"])
    final = release_people(people, schema, method, k, require={"l_diversity": 2})
    first = release_people(people, schema, method, k).partition.labels
    labels = final.partition.labels
    hits, chances = [], []
    for cell in range(len(final.partition)):
        members = np.flatnonzero(labels == cell)
        parts = [members[first[members] == part] for part in np.unique(first[members])]
        if len(parts) == 1 or len(members) > _LARGEST_MERGED:
            continue
        ill = people["ill"][members] == "ill"
        share = ill.mean()
        baseline = float(max(share, 1 - share))
        sizes = [len(part) for part in parts]
        marginals = consistent_marginals(sizes, int(ill.sum()))
        certain = int(np.argmax(np.abs(marginals - 0.5)))
        person = np.concatenate(parts)[certain]
        hits.append(bool((marginals[certain] > 0.5) == (people["ill"][person] == "ill")))
        chances.append(baseline)
    return Trials(tuple(hits), tuple(chances))


def consistent_marginals(sizes: list[int], n_ill: int) -> NDArray[np.float64]:
    """Return each member's probability to be ill, given that a part is homogeneous.

    Members are in the order of the parts. All assignments with this number of ill members are
    equally likely.

    Examples
    --------
    >>> consistent_marginals([2, 2], 1).tolist()
    [0.25, 0.25, 0.25, 0.25]
    >>> consistent_marginals([3, 2], 2).tolist()
    [0.5, 0.5, 0.5, 0.25, 0.25]
    """
    ends = np.cumsum(sizes)
    counts, total = np.zeros(ends[-1]), 0
    for chosen in combinations(range(ends[-1]), n_ill):
        ill = np.zeros(ends[-1], dtype=np.bool_)
        ill[list(chosen)] = True
        parts = np.split(ill, ends[:-1])
        if any(part.all() or not part.any() for part in parts):
            counts += ill
            total += 1
    return counts / total
