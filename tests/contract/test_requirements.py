"""Every measure that cells can be held to: met by every way, and never worse than by merging."""

from collections import Counter
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import microcell as mc
from microcell.measures.registry import measures
from microcell.methods import constrained
from microcell.release import partition as partitioning
from tests.raising import raises
from tests.reference import oracles

LIMITS = {
    "k": 6,
    "prosecutor_worst": 0.2,
    "l_diversity": 3,
    "p_sensitivity": 2,
    "l_entropy": 2.2,
    "l_recursive": 2,
    "t_closeness": 0.25,
    "t_kullback": 0.8,
    "delta_disclosure": 2.2,
    "homogeneous_classes": 2,
    "homogeneous_records": 0,
}
"""A limit on each measure that most cells of three records exceed."""

MEASURES = sorted(name for name, item in measures().items() if item.enforceable)


def people(n=150, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    return {
        "age": age,
        "height": np.round(rng.normal(170, 9, n)),
        "region": rng.choice(["north", "south"], n).astype(object),
        "weight": rng.uniform(0.5, 3, n),
        "illness": rng.choice(["flu", "ulcer", "asthma", "none"], n, p=[0.1, 0.2, 0.3, 0.4]).astype(
            object
        ),
        "pay": np.round(np.exp(rng.normal(3, 1, n)) + age),
    }


def schema_of(*, confidential=("illness",), strata=False, weight=False):
    return mc.Schema(
        quasi=["age", "height"],
        confidential=list(confidential),
        strata=["region"] if strata else [],
        weight="weight" if weight else None,
        rest="drop",
    )


def loss(release):
    return release.manifest.cells.sse_ratio


def by_merging(*arguments, **options):
    with mock.patch.object(partitioning, "searching", return_value=None):
        return mc.anonymize(*arguments, **options)


def test_all_measures_of_cells_have_a_limit_here():
    assert set(LIMITS) == set(MEASURES)


@pytest.mark.parametrize("design", ["plain", "strata", "weight"])
@pytest.mark.parametrize("name", MEASURES)
def test_every_limit_is_met_and_never_above_merging(name, design):
    columns = people(seed=MEASURES.index(name))
    schema = schema_of(**({} if design == "plain" else {design: True}))
    limits = {name: LIMITS[name]}
    release = mc.anonymize(columns, schema, k=3, require=limits)
    mc.audit(columns, release.table, schema).require(**{"k": 3, **limits})
    keys = zip(*(release.table[key] for key in schema.keys), strict=True)
    assert min(Counter(keys).values()) >= 3
    assert len(release.table["age"]) == 150
    assert (np.asarray(release.table["illness"]) == columns["illness"]).all()
    try:
        merged = by_merging(columns, schema, k=3, require=limits)
    except mc.RequirementError:
        return
    assert loss(release) <= loss(merged) * (1 + 1e-12)


@given(
    seed=st.integers(0, 10**6),
    t=st.floats(0.05, 0.5),
    diversity=st.integers(1, 3),
    method=st.sampled_from(["mdav", "bisect", "auto", "pcl"]),
    dependence=st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=10)
def test_two_columns_at_once(seed, t, diversity, method, dependence):
    """One column is ordered, one nominal; the objective may contain both."""
    columns = people(60, seed)
    schema = schema_of(confidential=("illness", "pay"))
    limits = {"l_diversity.illness": diversity, "t_closeness.pay": t}
    options = {"k": 2, "method": method, "dependence": dependence, "require": limits}
    try:
        release = mc.anonymize(columns, schema, **options)
    except mc.RequirementError:
        assert len(set(columns["illness"])) < diversity
        return
    mc.audit(columns, release.table, schema).require(k=2, **limits)
    merged = by_merging(columns, schema, **options)
    if dependence:
        ours, theirs = (item.manifest.dependence.weighted_loss for item in (release, merged))
        assert ours <= theirs * (1 + 1e-9)
    else:
        assert loss(release) <= loss(merged) * (1 + 1e-12)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(6, 9),
    limit=st.sampled_from(
        [("l_diversity", 2), ("t_closeness", 0.2), ("t_closeness", 0.35), ("l_entropy", 1.8)]
    ),
    ordered=st.booleans(),
)
@settings(max_examples=15)
def test_tiny_tables_against_all_partitions(seed, n, limit, ordered):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = rng.permutation(n) if ordered else rng.permutation(np.arange(n) % 3).astype(str)
    require = dict([limit])
    keeps = _keeps(y, limit, ordered)
    least = oracles.best_within_limits(X, 2, keeps)
    cells = mc.partition(X, 2, require=require, confidential=y).labels
    members = [np.flatnonzero(cells == cell) for cell in np.unique(cells)]
    assert all(len(rows) >= 2 and keeps(list(rows)) for rows in members)
    sse = sum(((X[rows] - X[rows].mean(axis=0)) ** 2).sum() for rows in members)
    assert least * (1 - 1e-9) <= sse


@pytest.mark.full_search
def test_tiny_tables_mostly_reach_the_optimum():
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(10, 2)), rng.permutation(np.arange(10) % 3).astype(str)
        least = oracles.best_within_limits(X, 2, _keeps(y, ("l_diversity", 2), False))
        cells = mc.partition(X, 2, require={"l_diversity": 2}, confidential=y, effort="fast")
        ratios.append(mc.distortion(X, cells) * ((X - X.mean(axis=0)) ** 2).sum() / least)
    assert np.median(ratios) < 1 + 1e-9
    assert max(ratios) < 1.25


def _keeps(y, limit, ordered):
    """Return the condition on the rows of a cell, from the definition of the measure."""
    name, bound = limit
    values, codes = np.unique(y, return_inverse=True)
    q = np.bincount(codes) / len(codes)

    def keeps(rows):
        p = np.bincount(codes[rows], minlength=len(values)) / len(rows)
        if name == "l_diversity":
            return (p > 0).sum() >= bound
        if name == "l_entropy":
            p = p[p > 0]
            return np.exp(-(p * np.log(p)).sum()) >= bound - 1e-12
        if ordered:
            distance = np.abs(np.cumsum(p - q)).sum() / (len(values) - 1)
        else:
            distance = np.abs(p - q).sum() / 2
        return distance <= bound + 1e-12

    return keeps


@pytest.mark.full_search
def test_the_search_is_far_better_than_merging_and_the_method_of_2015():
    """A confidential value that follows a quasi-identifier: merging ends with a few cells."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=300)
    found = mc.partition(X, 3, require={"t_closeness": 0.1}, confidential=y, effort="fast")
    first = oracles.t_closeness_first(X, y, 3, 0.1)
    codes = np.argsort(np.argsort(y))
    for labels in (found.labels, first):
        for cell in np.unique(labels):
            assert _keeps(codes, ("t_closeness", 0.1), True)(np.flatnonzero(labels == cell))
    assert mc.distortion(X, found) < 0.9 * mc.distortion(X, first)


def test_a_value_that_a_stratum_cannot_provide_is_refused_before_the_search():
    columns = people(60)
    columns["illness"][columns["region"] == "north"] = "flu"
    with raises(
        mc.RequirementError,
        "guarantee.requirement_not_met",
        measures=["l_diversity"],
        nearest={"l_diversity": 1},
        records=int((columns["region"] == "north").sum()),
    ):
        mc.anonymize(columns, schema_of(strata=True), k=3, require={"l_diversity": 2})


def test_limits_on_points():
    X = np.random.default_rng(0).normal(size=(60, 2))
    assert mc.partition(X, 3, require={"k": 7}).sizes.min() >= 7
    with raises(mc.errors.OptionError, "option.unsupported", option="require"):
        mc.partition(X, 3, require={"l_diversity": 2})
    with raises(mc.errors.OptionError, "option.unsupported", option="require"):
        mc.partition(X, 3, require={"information_loss": 0.2})
    with raises(mc.errors.OptionError, "option.invalid", option="confidential"):
        mc.partition(X, 3, require={"l_diversity": 2}, confidential=["a", "b"])


def test_very_large_tables_choose_the_size_of_cells_on_a_sample(monkeypatch):
    monkeypatch.setattr(constrained, "_VERY_LARGE", 200)
    monkeypatch.setattr(constrained, "_SAMPLED", 120)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.argsort(np.argsort(X[:, 0] + 0.3 * rng.normal(size=400)))
    cells = mc.partition(X, 3, require={"t_closeness": 0.1}, confidential=y)
    for cell in np.unique(cells.labels):
        assert _keeps(y, ("t_closeness", 0.1), True)(np.flatnonzero(cells.labels == cell))
    assert mc.distortion(X, cells) < 0.4
