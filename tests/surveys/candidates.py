"""Candidates with every kind of column, and a slow reference for failure probabilities."""

import numpy as np

import microcell as mc

K, FAILURE = 3, 0.01
SCHEMA = mc.Schema(
    quasi=[
        mc.Column("age", kind="numeric"),
        mc.Column("height", kind="numeric"),
        mc.Column("town", kind="nominal"),
        mc.Column("school", kind="ordinal", order=("none", "some", "much")),
        mc.Column("born", kind="datetime"),
        mc.Column("member", kind="nominal"),
        mc.Column("postal", kind="code"),
    ],
    confidential=["income"],
)


def make_people(n=420, seed=0):
    """Return candidates without confidential columns; two towns occur only once."""
    rng = np.random.default_rng(seed)
    towns = np.array(["Lleida", "Vic", "Reus", "Olot"])[rng.choice(4, n, p=[0.5, 0.3, 0.17, 0.03])]
    towns[:2] = ["Prats", "Taradell"]
    return {
        "name": np.array([f"person {i}" for i in range(n)]),
        "age": rng.integers(18, 90, n),
        "height": np.round(rng.normal(170, 9, n), 6),
        "town": towns,
        "school": np.array(["none", "some", "much"])[rng.integers(0, 3, n)],
        "born": np.datetime64("1940-01-01") + rng.integers(0, 20000, n),
        "member": rng.random(n) < 0.4,
        "postal": np.array(
            [f"{code:05d}" for code in rng.choice([8001, 8002, 8750, 25001, 43002], n)]
        ),
        "probability": rng.choice([0.3, 0.5, 0.85, 1.0], n),
    }


def failure_of(probabilities, k):
    """Return P{0 < K < k} from the full distribution of K, one convolution per candidate."""
    counts = np.ones(1)
    for each in probabilities:
        counts = np.convolve(counts, [1 - each, each])
    return counts[1:k].sum()


OPTIONS_BY_KIND = {
    "power": {},
    "balls": {"cells": "balls"},
    "lookup": {"cells": "lookup"},
    "boxes": {"trust": "none"},
}
"""Options of a design for each kind of cells."""
