"""Attacks through sampling weights: runs that never end, and one person who outweighs a cell."""

from fractions import Fraction

import numpy as np
import pytest

import microcell as mc
from microcell.errors import DataError, OptionError, SchemaError
from microcell.methods.mdav import mdav
from tests.raising import raises
from tests.reference import oracles

EXTREME = [1e-300, 1e300, 1.0, 1e-300, 1e300, 1.0, 1e-300, 1e300]


def test_weights_of_extreme_ratio_are_rejected():
    table = {"age": [31, 47, 23, 60, 58, 44, 20, 39], "w": EXTREME, "ill": list("aaaabbbb")}
    schema = mc.Schema(quasi=["age"], confidential=["ill"], weight="w")
    for method in ("mdav", "auto"):
        with raises(DataError, "data.weight_ratio", row=1, limit=1e12):
            mc.anonymize(table, schema, k=2, method=method, require={"l_diversity": 2})


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e280])
def test_only_the_ratio_of_weights_counts(scale):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    weights = 10.0 ** rng.uniform(-6, 5.9, 60)
    plain = mc.partition(X, 3, method="mdav", weights=weights)
    scaled = mc.partition(X, 3, method="mdav", weights=weights * scale)
    assert (plain.labels == scaled.labels).all()


@pytest.mark.parametrize("seed", range(5))
def test_mdav_is_exact_for_weights_of_any_ratio(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-50, 50, size=(70, 2)).astype(np.float64)
    weights = 10.0 ** rng.choice([-300.0, -150.0, 0.0, 150.0, 307.0], 70)
    labels = mdav(X, 3, weights=weights, seed=0)
    assert (labels == _mdav_in_fractions(X, 3, weights)).all()


def _mdav_in_fractions(X, k, weights):
    exact = [Fraction(float(weight)) for weight in weights]

    def mean(rows):
        total = sum(exact[row] for row in rows)
        return np.array(
            [
                float(sum(exact[row] * int(X[row, j]) for row in rows) / total)
                for j in range(X.shape[1])
            ]
        )

    return oracles.mdav(X, k, mean)


@pytest.mark.parametrize("method", ["mdav", "vmdav", "auto", "anneal"])
def test_merging_and_searching_end_at_the_allowed_ratio(method):
    rng = np.random.default_rng(3)
    n = 60
    table = {
        "age": rng.integers(20, 80, n),
        "height": rng.normal(170, 10, n).round(1),
        "w": 10.0 ** rng.choice([-6.0, 0.0, 6.0], n),
        "ill": rng.choice(list("abc"), n),
    }
    schema = mc.Schema(quasi=["age", "height"], confidential=["ill"], weight="w")
    release = mc.anonymize(table, schema, k=3, method=method, require={"l_diversity": 2})
    assert np.bincount(release.partition.labels).min() >= 3


# ------------------------------------------------------------------------------------- dominance


def test_one_heavy_record_is_not_published():
    table = {"age": [31, 47, 23], "w": [900.0, 0.001, 0.001]}
    release = mc.anonymize(table, mc.Schema(quasi=["age"], weight="w"), k=3)
    # The heavy record counts as much as the two others together: (2 * 31 + 47 + 23) / 4.
    assert set(release.table["age"].tolist()) == {33}
    dominance = release.manifest.dominance
    assert (dominance.n, dominance.p, dominance.cells_capped) == (1, 0.5, 1)


def test_the_rule_can_be_changed_in_the_schema_and_by_argument():
    table = {"age": [31, 47, 23], "w": [900.0, 0.001, 0.001]}
    schema = mc.Schema(quasi=["age"], weight="w", dominance=(1, 1.0))
    assert set(mc.anonymize(table, schema, k=3).table["age"].tolist()) == {31}
    strict = mc.anonymize(table, schema, k=3, dominance=(2, 2 / 3))
    assert set(strict.table["age"].tolist()) == {34}
    for rule in [(1, 0.2), (3, 0.9)]:
        with raises(OptionError, "option.out_of_range", option="dominance"):
            mc.anonymize(table, schema, k=3, dominance=rule)
    for rule in [(0, 0.5), (1, 0.0), (1, 1.5), (1.5, 0.5), (True, 0.5), "1", 3]:
        with raises(SchemaError, "schema.invalid", field="dominance"):
            mc.Schema(quasi=["age"], dominance=rule)


@pytest.mark.parametrize("publish", ["mean", "median"])
@pytest.mark.parametrize("rule", [(1, 0.5), (1, 0.34), (2, 0.7)])
def test_no_weight_exceeds_its_share(publish, rule):
    """An outsider who knows all weights and k - 1 values solves the mean for the last value."""
    rng = np.random.default_rng(5)
    n, k = 90, 4
    table = {"x": rng.normal(size=n), "w": 10.0 ** rng.uniform(-3, 3, n)}
    schema = mc.Schema(quasi=[mc.Column("x", publish=publish)], weight="w", dominance=rule)
    release = mc.anonymize(table, schema, k=k)
    labels = release.partition.labels
    x, published = table["x"], release.table["x"]
    for cell in range(labels.max() + 1):
        members = np.flatnonzero(labels == cell)
        heaviest = members[np.argmax(table["w"][members])]
        others = members[members != heaviest]
        spread = np.abs(x[others] - x[heaviest]).min()
        # The heaviest has at most the share p, so the others move the mean away from its value
        # unless they lie on both sides of it.
        one_sided = (x[others] > x[heaviest]).all() or (x[others] < x[heaviest]).all()
        if publish == "mean" and one_sided:
            gap = abs(published[members[0]] - x[heaviest])
            assert gap >= (1 - rule[1]) * spread * (1 - 1e-6)


def test_the_cells_file_has_no_weighted_centroid():
    table = {"age": [31, 47, 23, 60, 75, 68], "w": [900.0, 0.001, 0.001, 900.0, 0.001, 0.001]}
    schema = mc.Schema(quasi=["age"], weight="w")
    cells = mc.anonymize(table, schema, k=3, cells=True).cells
    column = cells.encoding.columns[0]
    sites = cells.centroids[:, 0] * column.scale[0] + column.centre[0] + float(column.origin)
    assert np.abs(sites[:, np.newaxis] - np.array([31, 60])).min() > 2


def test_a_missing_value_does_not_lift_the_limit():
    table = {"age": [31.0, 47.0, 23.0, np.nan], "w": [5.0, 1.0, 1.0, 8.0]}
    release = mc.anonymize(table, mc.Schema(quasi=["age"], weight="w"), k=4, missing="impute")
    # Among the three with an age, the heaviest has 5 of 7 and is capped at half: 2 of 4.
    assert set(release.table["age"].tolist()) == {33.0}
