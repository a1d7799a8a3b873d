"""Dependence as a target, by column, as a function of the quasi-identifiers, and blocks chosen."""

import numpy as np
import pytest

import microcell as mc
from microcell.cells import RegressionCells
from microcell.errors import DataError, OptionError
from microcell.methods.dependence import fit_regression
from microcell.release.blocks import exchange_columns, group_columns
from tests.raising import raises

SCHEMA = mc.Schema(quasi=["a", "b"], confidential=["y", "z"])


def people(n=120, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    return {
        "a": a,
        "b": b,
        "y": a + 0.3 * rng.normal(size=n),
        "z": np.where(b + rng.normal(size=n) > 0, "high", "low"),
    }


def standardized(column):
    return (column - column.mean()) / column.std()


# ---------------------------------------------------------------------------------- one quantity


def test_manifest_sweep_and_audit_report_one_dependence_loss():
    """With categories and missing values too."""
    table = people()
    table["y"] = table["y"].copy()
    table["y"][:9] = np.nan
    release = mc.anonymize(table, SCHEMA, k=5, method="mdav", dependence=0.2)
    audited = mc.audit(table, release.table, SCHEMA)["dependence_loss"]
    sweep = mc.dependence_sweep(table, SCHEMA, k=5, lambdas=[0.2], method="mdav")
    assert release.manifest.dependence.dependence_loss == pytest.approx(audited, rel=1e-9)
    assert sweep.points[-1].dependence_loss == pytest.approx(audited, rel=1e-9)


def test_a_sampling_weight_counts_in_both():
    table = {**people(), "w": np.random.default_rng(1).uniform(1, 3, 120)}
    schema = mc.Schema(quasi=["a", "b"], confidential=["y", "z"], weight="w")
    release = mc.anonymize(table, schema, k=5, method="mdav", dependence=0.2)
    audited = mc.audit(table, release.table, schema)["dependence_loss"]
    assert release.manifest.dependence.dependence_loss == pytest.approx(audited, rel=1e-9)


def test_a_constant_confidential_column_does_not_hide_the_diversity_of_others():
    table = {**people(), "c": np.full(120, 7)}
    schema = mc.Schema(quasi=["a", "b"], confidential=["y", "z", "c"])
    with_constant = mc.dependence_sweep(table, schema, k=5, lambdas=[0], method="mdav")
    without = mc.dependence_sweep(people(), SCHEMA, k=5, lambdas=[0], method="mdav")
    assert with_constant.points[0].diversity == without.points[0].diversity > 1


# -------------------------------------------------------------------------------------- targets


def test_a_limit_on_additional_loss_is_met_and_nearly_used():
    sweep = mc.dependence_sweep(people(300), SCHEMA, k=[3, 6], more=0.05, method="mdav")
    chosen = sweep.at_most(more=0.05)
    assert [point.k for point in chosen] == [3, 6]
    for point in chosen:
        assert point.distortion_increment <= 0.05
        assert 0 < point.dependence < 1
        assert point.loss_increment < 0
        meeting = [p for p in sweep.points if p.k == point.k and p.distortion_increment <= 0.05]
        assert point.dependence_loss == min(p.dependence_loss for p in meeting)
        # A finer grid finds hardly anything better.
        fine = mc.dependence_sweep(
            people(300), SCHEMA, k=point.k, lambdas=np.geomspace(1e-4, 1, 60), method="mdav"
        )
        best = fine.at_most(more=0.05)[0]
        assert point.dependence_loss <= best.dependence_loss + 0.05


def test_a_limit_on_the_dependence_loss_is_met_at_little_cost():
    sweep = mc.dependence_sweep(people(300), SCHEMA, k=3, dependence_loss=0.3, method="mdav")
    (point,) = sweep.at_most(dependence_loss=0.3)
    assert point.dependence_loss <= 0.3
    default = mc.dependence_sweep(people(300), SCHEMA, k=3, method="mdav")
    coarse = default.at_most(dependence_loss=0.3)[0]
    assert point.distortion <= coarse.distortion


def test_a_target_that_no_weight_meets_gives_no_point():
    sweep = mc.dependence_sweep(people(), SCHEMA, k=5, dependence_loss=0.0, method="mdav")
    assert sweep.at_most(dependence_loss=0.0) == ()


@pytest.mark.parametrize(
    "options, code",
    [
        ({"more": 0.05, "dependence_loss": 0.5}, "option.conflict"),
        ({"more": 0.05, "lambdas": [0.1]}, "option.conflict"),
        ({"more": -0.1}, "option.out_of_range"),
        ({"dependence_loss": float("nan")}, "option.out_of_range"),
        ({"columns": {"y": 0}}, "option.invalid"),
        ({"columns": {}}, "option.invalid"),
        ({"columns": {"a": 1}}, "option.unknown"),
    ],
)
def test_invalid_targets_are_rejected(options, code):
    with raises(OptionError, code):
        mc.dependence_sweep(people(), SCHEMA, k=5, method="mdav", **options)


# ------------------------------------------------------------------------------------ by column


def test_weights_by_column_minimize_their_own_sum():
    table, weights = people(), {"y": 0.25, "z": 0.05}
    release = mc.anonymize(table, SCHEMA, k=5, method="mdav", dependence=weights)
    section = release.manifest.dependence
    assert (section.weight, section.columns) == (pytest.approx(0.3), weights)
    labels = release.partition.labels
    X = np.column_stack([standardized(table["a"]), standardized(table["b"])])
    y, z = standardized(table["y"])[:, None], (table["z"] == "high").astype(float)[:, None]
    expected = 0.7 * mc.distortion(X, labels) + 0.25 * mc.distortion(y, labels)
    assert section.weighted_loss == pytest.approx(
        expected + 0.05 * mc.distortion(z, labels), rel=1e-9
    )
    # The extended points have exactly this distortion, up to a constant.
    scale = np.sqrt(2 / 0.7)
    extended = np.hstack([X, scale * np.sqrt(0.25) * y, scale * np.sqrt(0.05) * z / z.std()])
    plain = mc.partition(extended, 5, method="mdav")
    assert mc.distortion(extended, labels) == pytest.approx(mc.distortion(extended, plain))


def test_a_weight_favours_its_column():
    table = people(300)
    losses = {}
    for name in ("y", "z"):
        release = mc.anonymize(table, SCHEMA, k=5, method="mdav", dependence={name: 0.5})
        audited = mc.audit(table, release.table, SCHEMA)
        losses[name] = {column: audited[f"dependence_loss.{column}"] for column in ("y", "z")}
    assert losses["y"]["y"] < losses["z"]["y"]
    assert losses["z"]["z"] < losses["y"]["z"]


@pytest.mark.parametrize(
    "dependence, code",
    [
        ({"y": 0.6, "z": 0.6}, "option.out_of_range"),
        ({}, "option.out_of_range"),
        ({"y": "much"}, "option.out_of_range"),
        ({"income": 0.1}, "option.unknown"),
        ({"c": 0.1}, "option.conflict"),
    ],
)
def test_invalid_weights_by_column_are_rejected(dependence, code):
    table = {**people(), "c": np.full(120, 7)}
    schema = mc.Schema(quasi=["a", "b"], confidential=["y", "z", "c"])
    with raises(OptionError, code, option="dependence"):
        mc.anonymize(table, schema, k=5, method="mdav", dependence=dependence)


# --------------------------------------------------------------------------- cells as a function


@pytest.mark.parametrize("regression", ["linear", "neighbours"])
def test_cells_with_dependence_are_a_function_of_the_quasi_identifiers(regression, tmp_path):
    table = people(300)
    release = mc.anonymize(
        table, SCHEMA, k=5, method="mdav", dependence=0.5, cells=True, regression=regression
    )
    assert release.manifest.dependence.regression == regression
    assert isinstance(release.cells, RegressionCells)
    assert release.partition.sizes.min() >= 5
    release.cells.save(tmp_path / "cells.json")
    only_quasi = {name: table[name] for name in ("a", "b")}
    assigned = mc.assign(tmp_path / "cells.json", only_quasi)
    assert (assigned.labels == release.partition.labels).all()
    text = (tmp_path / "cells.json").read_text()
    assert not any(repr(float(value)) in text for name in ("a", "b", "y") for value in table[name])


def test_regression_lowers_the_loss_of_dependence():
    table = {**people(400), "b": 3 * np.random.default_rng(5).normal(size=400)}
    schema = mc.Schema(quasi=["a", "b"], confidential=["y"], rest="drop")
    losses = []
    for dependence in (0.0, 0.98):
        release = mc.anonymize(table, schema, k=5, method="mdav", cells=True, dependence=dependence)
        losses.append(mc.audit(table, release.table, schema)["dependence_loss"])
    assert losses[1] < 0.95 * losses[0]


def test_the_linear_regression_is_least_squares():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    Y = X @ rng.normal(size=(3, 2)) + 0.1 * rng.normal(size=(200, 2))
    fitted = fit_regression(X, Y, 0.5, kind="linear", k=5)
    exact = np.linalg.lstsq(np.column_stack([X, np.ones(200)]), Y, rcond=None)[0]
    beta = np.sqrt(X.var(axis=0).sum() / Y.var(axis=0).sum())
    np.testing.assert_allclose(fitted.slopes, beta * exact[:3], atol=1e-4)
    np.testing.assert_allclose(fitted.intercept, beta * exact[3], atol=1e-4)


def test_impossible_cells_with_dependence_are_rejected():
    with raises(OptionError, "option.conflict", option="cells", other="dependence"):
        mc.anonymize(people(), SCHEMA, k=5, method="mdav", dependence=0.1, cells="lookup")
    with raises(OptionError, "option.unknown", option="regression"):
        mc.anonymize(people(), SCHEMA, k=5, method="mdav", regression="cubic")
    with raises(OptionError, "option.unsupported", option="regression"):
        mc.anonymize(
            people(), SCHEMA, k=8, method="mdav", dependence=0.1, cells=True,
            regression="neighbours",
        )  # fmt: skip
    with raises(DataError, "data.invalid"):
        RegressionCells(centroids=[[0.0]], sizes=[3], k=3, costs=[0.0], predictions=[[0.0]])


# ---------------------------------------------------------------------------------------- blocks


def test_correlated_columns_share_a_block():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200))
    noise = 0.1 * rng.normal(size=(2, 200))
    table = {"a": a, "b": b, "a2": a + noise[0], "b2": b + noise[1], "y": a}
    schema = mc.Schema(quasi=["a", "b", "a2", "b2"], confidential=["y"])
    release = mc.anonymize(table, schema, k=5, method="mdav", blocks="correlation:2")
    assert release.manifest.blocks.columns == (("a", "a2"), ("b", "b2"))
    contiguous = mc.anonymize(table, schema, k=5, method="mdav", blocks=2)
    losses = [mc.audit(table, r.table, schema)["information_loss"] for r in (release, contiguous)]
    assert losses[0] < losses[1]
    sweep = mc.dependence_sweep(
        table, schema, k=5, lambdas=[0], method="mdav", blocks="correlation:2"
    )
    assert sweep.blocks == (("a", "a2"), ("b", "b2"))


def test_blocks_by_linkage_lower_the_linkage_of_the_whole():
    rng = np.random.default_rng(2)
    table = dict(zip("abcd", rng.normal(size=(4, 150)) + rng.normal(size=150), strict=True))
    schema = mc.Schema(quasi=list("abcd"))
    linkage = {}
    for blocks in ("correlation:2", "linkage:2"):
        release = mc.anonymize(table, schema, k=5, method="mdav", blocks=blocks)
        assert all(len(block) <= 2 for block in release.manifest.blocks.columns)
        linkage[blocks] = mc.audit(table, release.table, schema)["linkage"]
    assert linkage["linkage:2"] <= linkage["correlation:2"]


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("size", range(1, 5))
def test_blocks_cover_all_columns_and_are_few(count, size):
    association = np.random.default_rng(count).uniform(size=(count, count))
    blocks = group_columns(association + association.T, size)
    assert sorted(place for block in blocks for place in block) == list(range(count))
    assert max(map(len, blocks)) <= size
    assert len(blocks) == -(-count // size)


def test_exchanges_find_the_best_of_small_cases():
    target = ((0, 3), (1, 4), (2, 5))
    found = exchange_columns(
        ((0, 1), (2, 3), (4, 5)), lambda blocks: -len(set(blocks) & set(target))
    )
    assert found == target


@pytest.mark.parametrize("blocks", ["correlation", "colour:2", "linkage:0", "linkage:x"])
def test_unknown_rules_for_blocks_are_rejected(blocks):
    with raises(OptionError, "option.invalid", option="blocks"):
        mc.anonymize(people(), SCHEMA, k=5, method="mdav", blocks=blocks)
