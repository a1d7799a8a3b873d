"""Missing values: is an imputed value the value of a single person?"""

import numpy as np

import microcell as mc
from benchmarks.adversary.recovery import Attack, Trials
from benchmarks.adversary.settings import make_people, release_people

__all__ = ["MISSING", "attack"]

MISSING = Attack(
    "imputed values",
    "who has a value",
    'table file of a release with `missing="impute"`, where half of the incomes are missing',
    "the income of the only member of a class who has one",
    "the median income",
    promised=False,
    advice="`--missing drop`, or drop the column; the finding `risk.lone_values` counts these "
    "values ([missing values](howto/missing.md))",
)


def attack(method: str, k: int, n: int, seed: int, *, impute: bool = True) -> Trials:
    """Take the published income of a class for that of the only member who has one.

    Without ``impute`` no income is missing, and the attacker picks one member of each class.
    """
    people = make_people("heavy-tailed", n, seed)
    rng = np.random.default_rng([seed, 18])
    truth = people["income"].astype(np.float64)
    known = rng.random(n) < 0.5 if impute else np.ones(n, dtype=np.bool_)
    table = {"income": np.where(known, truth, np.nan), "age": people["age"], "ill": people["ill"]}
    schema = mc.Schema(quasi=["income", "age"], confidential=["ill"])
    release = release_people(table, schema, method, k, missing="impute")
    labels, published = release.partition.labels, np.asarray(release.table["income"])
    median = float(np.median(truth[known]))
    hits, guesses = [], []
    for cell in range(len(release.partition)):
        holders = np.flatnonzero((labels == cell) & known)
        if len(holders) == 1 or not impute:
            hits.append(bool(published[holders[0]] == truth[holders[0]]))
            guesses.append(bool(median == truth[holders[0]]))
    return Trials(tuple(hits), guesses=tuple(guesses))
