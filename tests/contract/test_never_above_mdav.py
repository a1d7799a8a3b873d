"""No effort of the default loses more than MDAV, whatever the table."""

import numpy as np
import pytest

import microcell as mc

N = 120


def one_hot(rng):
    return np.hstack([np.eye(4)[rng.integers(0, 4, N)], np.eye(6)[rng.integers(0, 6, N)]])


def clustered(rng):
    return rng.normal(size=(9, 4))[rng.integers(0, 9, N)] * 8 + rng.normal(size=(N, 4)) * 0.1


def with_outliers(rng):
    X = rng.normal(size=(N, 3))
    X[::40] *= 1e6
    return X


ZOO = {
    "gaussian": lambda rng: rng.normal(size=(N, 2)),
    "discrete": lambda rng: rng.integers(0, 4, size=(N, 3)).astype(float),
    "skewed": lambda rng: np.minimum(rng.geometric(0.4, size=(N, 3)), 9).astype(float),
    "heavy-tailed": lambda rng: rng.standard_cauchy(size=(N, 3)),
    "clustered": clustered,
    "one-hot": one_hot,
    "tied": lambda rng: np.column_stack([rng.integers(0, 2, N), rng.normal(size=N).round(1)]),
    "outliers": with_outliers,
    "pairs": lambda rng: np.repeat(rng.normal(size=(N // 2, 3)), 2, axis=0),
    "100 columns": lambda rng: rng.normal(size=(N, 100)),
}


@pytest.fixture(autouse=True)
def _short_searches(monkeypatch):
    monkeypatch.setattr("microcell.methods.auto._BEST", 1.0)
    monkeypatch.setattr("microcell.methods.auto._STARTS", 1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("effort", ["fast", "balanced", "best", 0.1])
@pytest.mark.parametrize("table", ZOO)
def test_the_default_is_never_above_mdav(table, effort, weighted):
    X = ZOO[table](np.random.default_rng(7))
    weights = np.random.default_rng(8).uniform(1, 9, N) if weighted else None
    for k in (3, 10):
        cells = mc.partition(X, k, effort=effort, weights=weights)
        start = mc.partition(X, k, method="mdav", weights=weights)
        most = mc.distortion(X, start, weights=weights)
        assert mc.distortion(X, cells, weights=weights) <= most * (1 + 1e-12)
