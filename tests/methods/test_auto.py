"""The default method: its choices, its quality, and inputs that are hard for search."""

from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest

import microcell as mc
from microcell.methods import METHODS, partition_within
from microcell.methods.auto import choose
from tests.raising import raises

GOALS = {
    ("census", 5): 7.30,
    ("tarragona", 10): 30.12,
    ("eia", 5): 0.75761,
}


@pytest.mark.parametrize(("data", "k"), GOALS)
def test_balanced_is_within_two_percent_of_the_best_known(load_standardized, data, k):
    X = load_standardized(data)
    result = mc.partition(X, k)
    assert result.method in (("anneal",) if k < 8 else ("anneal", "pcl"))
    assert k <= result.sizes.min() <= result.sizes.max() <= 2 * k - 1
    assert 100 * mc.distortion(X, result.labels) <= 1.02 * GOALS[data, k]


def test_more_effort_loses_less():
    X = np.random.default_rng(0).normal(size=(1500, 4))
    mdav, fast, balanced = (
        mc.distortion(X, mc.partition(X, 5, **how).labels)
        for how in ({"method": "mdav"}, {"effort": "fast"}, {"effort": "balanced"})
    )
    assert balanced < 0.97 * fast < 0.97 * mdav


LARGE_CELLS = {
    "pcl": np.random.default_rng(0).random((600, 2)),
    "anneal": np.repeat(np.arange(30.0), 12 + np.arange(30) % 9)[:, np.newaxis] * [9.0, 1.0]
    + np.random.default_rng(0).normal(size=(471, 2)),
}
"""Evenly spread records, and groups of unlike sizes."""


@pytest.mark.parametrize("winner", LARGE_CELLS)
def test_large_cells_use_the_better_of_two_methods(winner):
    X, k = LARGE_CELLS[winner], 12
    result = mc.partition(X, k)
    alone = {
        method: mc.distortion(X, mc.partition(X, k, method=method).labels)
        for method in ("anneal", "pcl")
    }
    assert result.method == winner == min(alone, key=lambda method: alone[method])
    shown = {
        "pcl": "better than annealing",
        "anneal": "better than probability-constrained",
    }
    assert shown[winner] in result.reason
    assert mc.distortion(X, result.labels) <= 1.01 * alone[winner]


def test_rival_is_tried_only_if_worthwhile_and_in_time():
    X = np.zeros((1000, 2))
    assert choose(X, 7).rival is choose(X, 10, "fast").rival is choose(X, 600).rival is None
    assert choose(X, 10, 5.0).rival is choose(np.zeros((200_000, 20)), 100).rival is None
    for effort, starts in (("balanced", 1), ("best", 5), (60.0, 1)):
        rival = choose(X, 10, effort).rival
        assert rival is not None
        assert (rival.method, rival.options) == ("pcl", {"restarts": starts})
    part, whole = choose(X[:500], 10, of=1000).rival, choose(X[:500], 10, of=100_000).rival
    assert part is not None
    assert whole is not None
    assert part.options["shakes"] > whole.options["shakes"] >= 0


def test_ctrl_c_ends_only_the_rival(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    X, k = LARGE_CELLS["pcl"], 12
    monkeypatch.setitem(METHODS, "pcl", replace(METHODS["pcl"], function=interrupted))
    result = mc.partition(X, k)
    assert result.method == "anneal"
    assert (
        result.labels
        == mc.partition(X, k, method="anneal", steps=choose(X, k).options["steps"]).labels
    ).all()


def test_many_macrocells_are_nested():
    rival = choose(np.zeros((20_000, 2)), 10).rival
    assert rival is not None
    assert rival.options == {"restarts": 1, "prepartition": 4}


def test_rival_uses_part_of_the_time_limit(monkeypatch):
    monkeypatch.setattr("microcell.methods.auto._seconds_of_rival", lambda *_: 0.0)
    X = np.random.default_rng(0).random((300, 2))
    mc.partition(X, 10, effort="fast")
    started = perf_counter()
    result = mc.partition(X, 10, effort=1)
    assert perf_counter() - started < 5
    assert 'chosen by "auto" within 1 s (results may differ between runs)' in result.reason


def test_time_limit_is_respected_and_reported_as_irreproducible():
    X = np.random.default_rng(0).normal(size=(3000, 4))
    mc.partition(X, 5, effort=0.1)
    started = perf_counter()
    result = mc.partition(X, 5, effort=1)
    assert perf_counter() - started < 4
    assert "results may differ between runs" in result.reason
    assert (
        "results may differ between runs" in mc.partition(X, 5, method="anneal", seconds=0.1).reason
    )
    assert mc.distortion(X, result.labels) < mc.distortion(
        X, mc.partition(X, 5, effort="fast").labels
    )


def test_manifest_records_the_choice():
    people = mc.sample_survey(60)
    for effort, word in (
        ("fast", 'chosen by "auto" at effort "fast" (60 records)'),
        (0.2, "results may differ between runs"),
    ):
        method = mc.anonymize(people, mc.sample_schema(), k=3, effort=effort).manifest.method
        assert word in method.reason
        assert method.options == {"effort": effort}


def test_effort_is_shared_among_strata():
    """A hundred strata must not take a hundred times as long as the table."""
    X = np.random.default_rng(0).normal(size=(1000, 2))
    whole, part = choose(X, 3), choose(X[:10], 3, of=1000)
    assert part.options == whole.options
    assert choose(X[:10], 3, 60.0, of=1000).options["seconds"] == pytest.approx(0.6)
    strata = np.arange(1000) // 100
    result = partition_within(strata, X, 3, method="anneal", seconds=0.2)
    assert all(len(set(strata[result.labels == cell])) == 1 for cell in range(len(result)))


def test_reported_reason_is_that_of_the_largest_stratum():
    X = np.random.default_rng(0).normal(size=(300, 2))
    X[200:, 1] = 0.0
    result = partition_within((np.arange(300) >= 200).astype(int), X, 5, effort=np.float32(0.5))
    assert (result.method, result.reason) == (
        "anneal",
        'chosen by "auto" within 0.5 s (results may differ between runs): MDAV start, then '
        "annealing",
    )
    with raises(mc.errors.OptionError, "option.invalid", option="strata"):
        partition_within(np.zeros(299, dtype=int), X, 5)


@pytest.mark.parametrize("scale", [1e-30, 1e20, 1e60])
def test_search_does_not_depend_on_the_scale(scale):
    """Within what different seeds give: scales near the limits are rounded differently."""
    X = np.random.default_rng(0).normal(size=(400, 3))
    for how in ({"effort": "fast"}, {"method": "anneal", "steps": 500}):
        here, there = (
            mc.distortion(points, mc.partition(points, 5, **how).labels)
            for points in (X, X * scale)
        )
        assert there == pytest.approx(here, rel=0.05)
    weighted = mc.partition(X, 5, weights=np.full(400, scale**4), method="anneal", steps=500)
    assert mc.distortion(X, weighted.labels) == pytest.approx(here, rel=0.05)


def test_large_cells_arise_too():
    """Four far groups of k, given as three cells: a fourth must arise."""
    k, rng = 30, np.random.default_rng(0)
    X = rng.normal(size=(4 * k, 2)) * 0.01 + np.repeat([[0, 0], [0, 9], [9, 0], [9, 9]], k, axis=0)
    labels = np.array([0, 1, 2])[np.minimum(np.arange(4 * k) // 40, 2)]
    assert len(mc.refine(X, labels, k)) == 4


@pytest.mark.parametrize("effort", ["much", 0, -1, np.inf, np.nan, True, None, [1]])
def test_invalid_effort_is_rejected(effort):
    with raises(mc.errors.OptionError, "option.invalid", option="effort"):
        mc.partition(np.eye(6), 3, effort=effort)


def test_effort_is_for_auto_alone():
    with raises(mc.errors.OptionError, "option.unsupported", option="effort", method="mdav"):
        mc.partition(np.eye(6), 3, method="mdav", effort="best")
    with raises(mc.errors.OptionError, "option.unsupported", option="gamma", method="auto"):
        mc.partition(np.eye(6), 3, gamma=0.5)


HARD = {
    "all equal": (np.ones((40, 3)), 4),
    "two distinct points": (np.repeat([[0.0, 0], [1, 1]], [25, 15], axis=0), 4),
    "k = n": (np.random.default_rng(0).normal(size=(12, 3)), 12),
    "k > n / 2": (np.random.default_rng(0).normal(size=(12, 3)), 7),
    "n = 2k": (np.random.default_rng(0).normal(size=(12, 3)), 6),
    "an outlier a million deviations away": (
        np.vstack([np.random.default_rng(0).normal(size=(300, 3)), [[1e6] * 3]]),
        5,
    ),
    "huge": (1e150 * np.random.default_rng(0).normal(size=(60, 2)), 5),
    "tiny": (1e-150 * np.random.default_rng(0).normal(size=(60, 2)), 5),
    "tiny beside a constant column": (
        np.column_stack([np.ones(60), 1e-150 * np.random.default_rng(0).normal(size=(60, 2))]),
        10,
    ),
    "all equal, large cells": (np.ones((40, 3)), 10),
    "scales apart": (np.random.default_rng(0).normal(size=(60, 2)) * [1e30, 1e-30], 5),
}


@pytest.mark.parametrize("method", ["auto", "anneal", "bisect", "mdav"])
@pytest.mark.parametrize("case", HARD)
def test_hard_inputs(case, method):
    X, k = HARD[case]
    result = mc.partition(X, k, method=method, refine=True)
    assert k <= result.sizes.min()
    assert result.sizes.max() <= 2 * k - 1
    assert len(result.labels) == len(X)
    assert (
        mc.distortion(X, result.labels)
        <= mc.distortion(X, mc.partition(X, k, method="mdav").labels) + 1e-9
    )


def test_two_distinct_points_are_kept_apart():
    X, k = HARD["two distinct points"]
    assert mc.distortion(X, mc.partition(X, k).labels) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("factor", [1, 1e4, 1e8])
def test_outlier_does_not_affect_other_cells(factor):
    """With an outlier a million deviations away, the rest is grouped better than by MDAV alone."""
    X, k = HARD["an outlier a million deviations away"]
    X = X.copy()
    X[-1] *= factor
    labels = mc.partition(X, k).labels
    rest = labels != labels[-1]
    here = np.unique(labels[rest], return_inverse=True)[1]
    alone = mc.partition(X[rest], k, method="mdav")
    assert mc.distortion(X[rest], here) < 0.95 * mc.distortion(X[rest], alone.labels)


def test_heavy_duplicates(data_folder):
    """A part of Adult's age, education and hours, with four records per distinct one."""
    with (data_folder / "adult.csv").open(encoding="utf-8") as file:
        X = np.loadtxt(
            file, delimiter=",", skiprows=1, usecols=(0, 4, 12), max_rows=10_000, encoding="utf-8"
        )
    assert len(np.unique(X, axis=0)) < 0.45 * len(X)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    result = mc.partition(X, 5, effort="fast")
    mdav = mc.partition(X, 5, method="mdav")
    assert result.sizes.min() >= 5
    large = np.flatnonzero(result.sizes > 9)
    assert all(len(np.unique(X[result.labels == cell], axis=0)) == 1 for cell in large[:50])
    assert mc.distortion(X, result.labels) < mc.distortion(X, mdav.labels)
