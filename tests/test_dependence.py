"""Preserving dependence: the weight in the design, the sweep, and the papers' findings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.methods import extend
from microcell.release.prepare import prepare
from tests.raising import raises
from tests.reference import oracles

LAMBDAS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


def standardized(matrix):
    return (matrix - matrix.mean(axis=0)) / matrix.std(axis=0)


def table_of(X, Y):
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {
        f"y{j}": Y[:, j] for j in range(Y.shape[1])
    }
    schema = mc.Schema(
        quasi=[f"x{j}" for j in range(X.shape[1])],
        confidential=[f"y{j}" for j in range(Y.shape[1])],
    )
    return columns, schema


def gaussian_pair(correlation, n=2000, seed=0):
    rng = np.random.default_rng(seed)
    x, e = rng.normal(size=(2, n))
    return table_of(x[:, None], (correlation * x + np.sqrt(1 - correlation**2) * e)[:, None])


def classic(data_folder, name):
    table = mc.read(data_folder / f"{name}.csv")
    names = list(table.columns)
    return table, mc.Schema(quasi=names[:6], confidential=names[6:])


# ---------------------------------------------------------------------------------- extended points


@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.floats(0.001, 0.999),
    st.integers(0, 2**32 - 1),
)
def test_plain_distortion_of_extended_points_is_the_weighted_sum(m_x, m_y, dependence, seed):
    rng = np.random.default_rng(seed)
    X, Y = standardized(rng.normal(size=(40, m_x))), standardized(rng.normal(size=(40, m_y)))
    points = extend(X, Y, dependence)
    beta = np.sqrt(dependence / (1 - dependence) * m_x / m_y)
    np.testing.assert_allclose(points, np.hstack([X, beta * Y]), rtol=1e-15, atol=0)
    labels = rng.permutation(np.arange(40) // 4)
    both = (1 - dependence) * mc.distortion(X, labels) + dependence * mc.distortion(Y, labels)
    assert mc.distortion(points, labels) == pytest.approx(both, rel=1e-12)


def test_extreme_weights_use_one_side_only():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 2)), rng.normal(size=(20, 3))
    assert extend(X, Y, 0) is X
    assert extend(X, Y, 1) is Y


def test_weighted_sum_holds_for_sampling_weights_and_mixed_scales():
    rng = np.random.default_rng(1)
    X, Y, weights = (
        rng.normal(size=(30, 2)) * 7,
        rng.integers(0, 2, size=(30, 2)) / np.sqrt(2),
        rng.uniform(1, 5, 30),
    )
    labels = rng.permutation(np.arange(30) // 3)
    both = 0.6 * mc.distortion(X, labels, weights=weights) + 0.4 * mc.distortion(
        Y, labels, weights=weights
    )
    result = mc.distortion(extend(X, Y, 0.4, weights), labels, weights=weights)
    assert result == pytest.approx(both, rel=1e-11)  # SST is rounded to 12 digits


# -------------------------------------------------------------------------------------- the release


@pytest.mark.parametrize("method", [*mc.methods.METHODS, "auto"])
@pytest.mark.parametrize("dependence", [0, 0.3, 1])
def test_cells_equal_those_of_the_method_on_extended_points(method, dependence):
    rng = np.random.default_rng(3)
    wide = 1 if method == "univariate" else 2
    if method == "univariate" and dependence == 0.3:
        pytest.skip("extended points have two dimensions or more, which univariate does not take")
    X = standardized(rng.normal(size=(90, wide)))
    Y = standardized(rng.normal(size=(90, 1)) + X[:, :1])
    table, schema = table_of(X, Y)
    options = (
        {"effort": "fast"} if method == "auto" else {"steps": 50} if method == "anneal" else {}
    )
    release = mc.anonymize(
        table, schema, k=4, method=method, seed=5, dependence=dependence, **options
    )
    prepared = prepare(
        table, schema, k=4, missing="error"
    )  # annealing tells points apart by their last digits
    np.testing.assert_allclose(prepared.encoded.matrix, X, atol=1e-12)
    np.testing.assert_allclose(prepared.confidential, Y, atol=1e-12)
    points = extend(prepared.encoded.matrix, prepared.confidential, dependence)
    plain = mc.partition(points, 4, method=method, seed=5, **options)
    np.testing.assert_array_equal(release.partition.labels, plain.labels)


def test_manifest_has_both_losses_and_their_weighted_sum():
    table, schema = gaussian_pair(0.7, n=300)
    release = mc.anonymize(table, schema, k=5, method="mdav", dependence=0.3)
    shown, labels = release.manifest.dependence, release.partition.labels
    X, Y = (standardized(table[name][:, None]) for name in ("x0", "y0"))
    assert shown.weight == 0.3
    assert shown.quasi_identifier_loss == pytest.approx(mc.distortion(X, labels), rel=1e-12)
    assert shown.dependence_loss == pytest.approx(mc.distortion(Y, labels), rel=1e-12)
    both = 0.7 * shown.quasi_identifier_loss + 0.3 * shown.dependence_loss
    assert shown.weighted_loss == pytest.approx(both, rel=1e-12)
    result = mc.audit(table, release.table, schema)
    assert result["information_loss"] == pytest.approx(shown.quasi_identifier_loss, rel=1e-9)
    assert result["dependence_loss"] == pytest.approx(shown.dependence_loss, rel=1e-9)


def test_manifest_without_dependence_omits_it():
    table, schema = gaussian_pair(0.5, n=50)
    assert mc.anonymize(table, schema, k=5).manifest.dependence is None


def test_confidential_values_are_unchanged():
    table, schema = gaussian_pair(0.5, n=200)
    release = mc.anonymize(table, schema, k=5, method="mdav", dependence=0.9)
    np.testing.assert_array_equal(release.table["y0"], table["y0"])
    assert set(release.table) == set(table)
    mc.audit(table, release.table, schema).require(k=5)


def test_mixed_kinds_are_predicted_better_with_dependence():
    rng = np.random.default_rng(8)
    n = 400
    group = rng.integers(0, 3, n)
    table = {
        "age": rng.normal(size=n) + group,
        "sex": rng.choice(["f", "m"], n),
        "illness": np.array(["a", "b", "c"])[
            np.where(rng.random(n) < 0.8, group, rng.integers(0, 3, n))
        ],
        "pain": np.array(["none", "mild", "strong"])[rng.integers(0, 3, n)],
        "pressure": rng.normal(size=n) + group,
    }
    schema = mc.Schema(
        quasi=["age", "sex"],
        confidential=[
            "illness",
            mc.Column("pain", kind="ordinal", order=("none", "mild", "strong")),
            "pressure",
        ],
    )
    losses = []
    for dependence in (0, 0.3, 0.8):
        release = mc.anonymize(table, schema, k=5, method="mdav", dependence=dependence)
        losses.append(mc.audit(table, release.table, schema).require(k=5)["dependence_loss"])
    assert losses[0] > losses[1] > losses[2]


def test_missing_confidential_values_are_placed_at_the_mean():
    table, schema = gaussian_pair(0.5, n=100)
    table["y0"][::7] = np.nan
    release = mc.anonymize(table, schema, k=5, method="mdav", dependence=0.5)
    y = table["y0"]
    present = ~np.isnan(y)
    Y = np.where(present, (y - y[present].mean()) / y[present].std(), 0.0)[:, None]
    X = standardized(table["x0"][:, None])
    expected = mc.partition(extend(X, Y, 0.5), 5, method="mdav").labels
    np.testing.assert_array_equal(release.partition.labels, expected)


@pytest.mark.parametrize("dependence", [-0.1, 1.1, float("nan"), "much", None, True])
def test_weight_out_of_range_is_rejected(dependence):
    table, schema = gaussian_pair(0.5, n=50)
    with raises(mc.errors.OptionError, "option.out_of_range", option="dependence"):
        mc.anonymize(table, schema, k=5, dependence=dependence)
    with raises(mc.errors.OptionError, "option.out_of_range", option="dependence"):
        mc.dependence_sweep(table, schema, k=5, lambdas=[dependence])


def test_dependence_without_confidential_columns_is_rejected():
    with raises(mc.errors.OptionError, "option.conflict"):
        mc.anonymize({"age": np.arange(20)}, mc.Schema(quasi=["age"]), k=5, dependence=0.1)
    with raises(mc.errors.OptionError, "option.conflict"):
        mc.dependence_sweep({"age": np.arange(20)}, mc.Schema(quasi=["age"]), k=5)


@pytest.mark.parametrize("constant", [np.ones(20), np.full(20, np.nan), np.array(["same"] * 20)])
def test_constant_confidential_values_are_rejected(constant):
    table = {"age": np.arange(20), "pay": constant}
    with raises(mc.errors.OptionError, "option.conflict"):
        mc.anonymize(table, mc.Schema(quasi=["age"], confidential=["pay"]), k=5, dependence=0.1)


def test_constant_confidential_column_is_ignored_next_to_another():
    table, schema = gaussian_pair(0.5, n=60)
    more = mc.Schema(quasi=["x0"], confidential=["y0", "z"])
    one = mc.anonymize(table, schema, k=5, method="mdav", dependence=0.4)
    two = mc.anonymize(table | {"z": np.zeros(60)}, more, k=5, method="mdav", dependence=0.4)
    np.testing.assert_array_equal(one.partition.labels, two.partition.labels)


def test_confidential_quasi_identifier_is_rejected():
    with raises(mc.errors.SchemaError, "schema.duplicate_role", column="age"):
        mc.Schema(quasi=["age"], confidential=["age"])


def test_confidential_column_with_too_many_categories_is_rejected():
    table = {"age": np.arange(3000), "code": np.array([f"c{i % 1500}" for i in range(3000)])}
    with raises(mc.errors.SchemaError, "schema.wrong_kind", column="code"):
        mc.anonymize(
            table,
            mc.Schema(quasi=["age"], confidential=["code"]),
            k=5,
            method="mdav",
            dependence=0.1,
        )


# ---------------------------------------------------------------------------------------- the sweep


def test_sweep_matches_plain_computation():
    rng = np.random.default_rng(2)
    X = standardized(rng.normal(size=(60, 2)))
    Y = standardized(rng.normal(size=(60, 2)) + X)
    table, schema = table_of(X, Y)
    sweep = mc.dependence_sweep(table, schema, k=[3, 5], lambdas=[0.4, 1], method="mdav")
    assert [(point.k, point.dependence) for point in sweep.points] == [
        (3, 0.0),
        (3, 0.4),
        (3, 1.0),
        (5, 0.0),
        (5, 0.4),
        (5, 1.0),
    ]
    for point in sweep.points:
        labels = oracles.mdav(extend(X, Y, point.dependence), point.k)
        plain = (
            mc.distortion(X, oracles.mdav(X, point.k)),
            mc.distortion(Y, oracles.mdav(X, point.k)),
        )
        assert point.distortion == pytest.approx(mc.distortion(X, labels), rel=1e-12)
        assert point.dependence_loss == pytest.approx(mc.distortion(Y, labels), rel=1e-12)
        assert point.distortion_increment == pytest.approx(
            point.distortion / plain[0] - 1, abs=1e-12
        )
        assert point.loss_increment == pytest.approx(
            point.dependence_loss / plain[1] - 1, abs=1e-12
        )
        assert point.diversity == pytest.approx(plain_diversity(Y, labels))
        assert point.dld == pytest.approx(plain_linkage(X, labels))
        assert point.cells == len(set(labels.tolist()))
        assert point.joint_k == np.bincount(labels).min()


def plain_diversity(Y, labels):
    codes = np.floor(Y / 0.2)
    least = [
        min(len(set(codes[labels == cell, j])) for j in range(Y.shape[1]))
        for cell in set(labels.tolist())
    ]
    return sum(least) / len(least)


def plain_linkage(X, labels):
    published = np.array([X[labels == cell].mean(axis=0) for cell in labels])
    published = (published - published.mean(axis=0)) / published.std(axis=0)
    right = 0.0
    for row in range(len(X)):
        distances = ((X - published[row]) ** 2).sum(axis=1)
        nearest = np.flatnonzero(distances <= distances.min() * (1 + 1e-12))
        right += (row in nearest) / len(nearest)
    return right / len(X)


def test_results_do_not_depend_on_parallel_runs():
    table, schema = gaussian_pair(0.5, n=300)
    sweep = mc.dependence_sweep(table, schema, k=[5, 10], lambdas=[0, 0.5], effort="fast")
    for point in sweep.points:
        alone = mc.anonymize(table, schema, k=point.k, dependence=point.dependence, effort="fast")
        assert alone.manifest.cells.count == point.cells
        X = standardized(table["x0"][:, None])
        assert point.distortion == pytest.approx(
            mc.distortion(X, alone.partition.labels), rel=1e-12
        )


def test_the_weight_within_the_limit_with_the_least_dependence_loss_is_best():
    table, schema = gaussian_pair(0.9, n=500)
    sweep = mc.dependence_sweep(table, schema, k=[5, 10], method="mdav")
    for limit in (0.0, 0.05, 0.5, 100.0):
        for point in sweep.at_most(more=limit):
            assert point.distortion_increment <= limit
            assert all(
                other.distortion_increment > limit or other.dependence_loss >= point.dependence_loss
                for other in sweep.points
                if other.k == point.k
            )
    with raises(mc.errors.OptionError, "option.out_of_range", option="more"):
        sweep.at_most(more=-1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"k": 1}, {"code": "option.out_of_range"}),
        ({"k": []}, {"code": "option.invalid", "option": "k"}),
        ({"k": 1000}, {"code": "guarantee.too_few_records"}),
        ({"k": 5, "method": "unknown"}, {"code": "option.unknown", "option": "method"}),
        (
            {"k": 5, "method": "mdav", "effort": "best"},
            {"code": "option.unsupported", "option": "effort", "method": "mdav"},
        ),
        ({"k": 5, "blocks": 0}, {"code": "option.out_of_range", "option": "blocks"}),
        ({"k": 5, "blocks": "x0"}, {"code": "option.wrong_type", "option": "blocks"}),
        ({"k": 5, "blocks": [["x0"], ["nothing"]]}, {"code": "option.unknown", "option": "blocks"}),
        ({"k": 5, "blocks": [["x0"], ["x0"]]}, {"code": "option.invalid", "option": "blocks"}),
        ({"k": 5, "blocks": []}, {"code": "option.invalid", "option": "blocks"}),
        ({"k": 5, "blocks": [["x0"], []]}, {"code": "option.invalid", "option": "blocks"}),
    ],
)
def test_invalid_input_is_rejected(options, expected):
    table, schema = gaussian_pair(0.5, n=50)
    with raises(mc.MicrocellError, **expected):
        mc.dependence_sweep(table, schema, **options)


def test_figure_is_the_same_for_the_same_sweep():
    table, schema = gaussian_pair(0.5, n=100)
    sweep = mc.dependence_sweep(table, schema, k=[3, 5], method="mdav")
    picture = mc.plot.dependence(sweep)
    assert picture == mc.plot.dependence(sweep)
    assert b"k = 3" in picture
    with raises(mc.errors.OptionError, "option.unknown", option="format"):
        mc.plot.dependence(sweep, format="gif")


# ------------------------------------------------------------------------------------------- blocks


def blocked(blocks=1, **options):
    rng = np.random.default_rng(4)
    table = {
        "age": rng.normal(size=120),
        "sex": rng.choice(["f", "m"], 120),
        "pay": rng.normal(size=120),
    }
    schema = mc.Schema(quasi=["age", "sex"], confidential=["pay"])
    return table, schema, mc.anonymize(table, schema, k=6, method="mdav", blocks=blocks, **options)


@pytest.mark.parametrize("dependence", [0, 0.5])
def test_blocks_publish_the_same_as_separate_releases(dependence):
    table, _, release = blocked([["age"], ["sex"]], dependence=dependence)
    for name in ("age", "sex"):
        alone = mc.Schema(quasi=[name], confidential=["pay"], rest="keep")
        expected = mc.anonymize(table, alone, k=6, method="mdav", dependence=dependence).table[name]
        np.testing.assert_array_equal(release.table[name], expected)
    np.testing.assert_array_equal(release.table["pay"], table["pay"])


def test_distortion_of_blocks_covers_all_columns_with_weights():
    rng = np.random.default_rng(5)
    table = {name: rng.normal(size=90) for name in "abc"} | {"w": rng.choice([0.1, 1.0, 30.0], 90)}
    schema = mc.Schema(quasi=list("abc"), weight="w", dominance=(1, 1))
    release = mc.anonymize(table, schema, k=4, method="mdav", blocks=[["a", "b"], ["c"]])
    lost = whole = 0.0
    for name in "abc":
        points, published = (side[name] / table[name].std() for side in (table, release.table))
        lost += table["w"] @ np.square(points - published)
        whole += table["w"] @ np.square(points - np.average(points, weights=table["w"]))
    assert release.manifest.cells.sse_ratio == pytest.approx(lost / whole, rel=1e-12)


def test_blocks_are_labelled_as_blocks():
    table, schema, release = blocked(1)
    result = mc.audit(table, release.table, schema)
    shown = release.manifest.blocks
    assert shown.k == 6
    assert [list(names) for names in shown.columns] == [["age"], ["sex"]]
    assert shown.jointly_k_anonymous is False
    assert release.manifest.k == release.partition.k == result["k"] < 6
    with raises(mc.RequirementError, "guarantee.requirement_not_met"):
        result.require(k=6)
    for name in ("age", "sex"):
        single = mc.audit({name: table[name]}, {name: release.table[name]}, mc.Schema(quasi=[name]))
        assert single.require(k=6)["k"] >= 6
    assert result["linkage"] > 1 / 6


def test_one_block_of_all_columns_is_the_plain_release():
    table, schema, release = blocked(2)
    plain = mc.anonymize(table, schema, k=6, method="mdav")
    np.testing.assert_array_equal(release.table["age"], plain.table["age"])
    assert release.manifest.blocks.jointly_k_anonymous is True
    assert release.manifest.cells.sse_ratio == pytest.approx(
        plain.manifest.cells.sse_ratio, rel=1e-12
    )


def test_file_with_blocks_is_verified_and_audited(tmp_path):
    table, schema, release = blocked(1)
    mc.publish(release, tmp_path / "out.csv")
    result = mc.audit(table, tmp_path / "out.csv", schema)
    assert result["manifest_contradictions"] == 0
    assert result["information_loss"] == pytest.approx(release.manifest.information_loss, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"cells": True}, {"code": "option.conflict"}),
        ({"require": {"l_diversity": 2}}, {"code": "option.conflict"}),
    ],
)
def test_options_incompatible_with_blocks_are_rejected(options, expected):
    with raises(mc.errors.OptionError, **expected):
        blocked(1, **options)


def test_only_power_cells_can_be_combined_with_dependence():
    table, schema = gaussian_pair(0.5, n=50)
    for kind in ("balls", "lookup"):
        with raises(mc.errors.OptionError, "option.conflict"):
            mc.anonymize(table, schema, k=5, dependence=0.2, cells=kind)


def test_row_order_depends_on_the_weight():
    table, schema = gaussian_pair(0.5, n=100)
    orders = [
        mc.anonymize(table, schema, k=5, method="mdav", dependence=w).row_order
        for w in (0, 0.1, 0.2)
    ]
    assert len({tuple(order.tolist()) for order in orders}) == 3


# --------------------------------------------------------------------------- findings of the papers


@pytest.mark.parametrize("correlation", [0.5, 0.9])
def test_gaussian_pairs_confirm_the_papers(correlation):
    table, schema = gaussian_pair(correlation, n=5000)
    sweep = mc.dependence_sweep(table, schema, k=[50, 100, 200, 500], method="mdav")
    check_findings(sweep)


@pytest.mark.parametrize("name", ["census", "tarragona"])
def test_classic_sets_confirm_the_papers(data_folder, name):
    sweep = mc.dependence_sweep(*classic(data_folder, name), k=[5, 10, 20, 50, 100], method="mdav")
    check_findings(sweep)
    for k in (5, 10, 20):
        curve = curve_of(sweep, k)
        # l_avg hardly falls up to the middle of the range: it counts values, and they stay many.
        assert curve[5].diversity > 0.75 * curve[0].diversity


def curve_of(sweep, k):
    return [point for point in sweep.points if point.k == k]


def check_findings(sweep):
    for k in {point.k for point in sweep.points}:
        curve = curve_of(sweep, k)
        assert curve[0].distortion <= curve[0].dependence_loss
        assert curve[-1].dependence_loss <= curve[-1].distortion
        if (
            curve[0].cells >= 50
        ):  # steep early gains for small k: the first tenth buys more of D_Y than it costs of D_X
            bought = curve[0].dependence_loss - curve[1].dependence_loss
            assert bought > 3 * (curve[1].distortion - curve[0].distortion)
        # Roughly convex: no inner point far above the line between the ends.
        first, last = curve[0], curve[-1]
        for point in curve[1:-1]:
            share = (point.distortion - first.distortion) / (last.distortion - first.distortion)
            chord = (1 - share) * first.dependence_loss + share * last.dependence_loss
            assert point.dependence_loss < 1.05 * chord


def test_blocks_on_census_halve_the_distortion_and_disclose_records(data_folder):
    table, schema = classic(data_folder, "census")
    six, three, two = (
        mc.dependence_sweep(table, schema, k=10, lambdas=[0, 1], method="mdav", blocks=b).points
        for b in (6, 3, 2)
    )
    assert three[0].distortion == pytest.approx(six[0].distortion / 2, rel=0.2)
    assert two[0].distortion < 0.5 * three[0].distortion
    assert six[0].dld == pytest.approx(1 / 10, rel=0.2)
    assert six[0].dld <= six[0].cells / 1080 <= 1 / 10
    assert two[0].dld > 0.9
    assert six[0].joint_k >= 10 > two[0].joint_k
    # At 1 cells are made of the confidential columns alone, so that blocks do not matter.
    assert six[1].distortion == pytest.approx(two[1].distortion)
    assert two[1].joint_k >= 10


def test_auto_is_a_twelfth_below_mdav_at_every_weight(data_folder):
    k = 10
    table, schema = classic(data_folder, "census")
    theirs = mc.dependence_sweep(table, schema, k=k, lambdas=LAMBDAS, method="mdav").points
    ours = mc.dependence_sweep(
        table, schema, k=k, lambdas=LAMBDAS[::2], method="anneal", steps=2000
    ).points
    for mine, other in zip(ours, theirs[::2], strict=True):
        assert mine.weighted < 0.92 * other.weighted
        at_same = np.interp(
            mine.distortion,
            [point.distortion for point in theirs],
            [point.dependence_loss for point in theirs],
            left=np.inf,
        )
        assert mine.dependence_loss < 0.92 * at_same


def test_least_loss_within_a_limit_on_the_confidential_loss():
    rng = np.random.default_rng(0)
    columns = {"x": rng.normal(size=60), "z": rng.normal(size=60), "y": rng.normal(size=60)}
    schema = mc.Schema(quasi=["x", "z"], confidential=["y"])
    free = mc.anonymize(columns, schema, k=3, dependence=1e-9).manifest.dependence
    limit = 0.5 * free.dependence_loss
    require = {"dependence_loss": limit}
    found = mc.anonymize(columns, schema, k=3, require=require).manifest.dependence
    assert found.dependence_loss <= limit
    assert 0 < found.weight < 1
    whole = mc.anonymize(columns, schema, k=3, dependence=1.0).manifest.dependence
    assert free.quasi_identifier_loss < found.quasi_identifier_loss < whole.quasi_identifier_loss
    diverse = mc.anonymize(columns, schema, k=3, require={**require, "t_closeness": 0.4})
    assert diverse.manifest.requirements.limits == {**require, "t_closeness": 0.4}
    mc.audit(columns, diverse.table, schema).require(**require, t_closeness=0.4)


@pytest.mark.parametrize("options", [{}, {"cells": True}])
def test_a_limit_on_one_column_costs_hardly_more_than_the_best_weight(options):
    rng = np.random.default_rng(1)
    columns = {name: rng.normal(size=80) for name in ("x", "z", "noise")}
    columns["y"] = columns["x"] + 0.3 * rng.normal(size=80)
    schema = mc.Schema(quasi=["x", "z"], confidential=["noise", "y"])
    settings = {"k": 4, "method": "mdav", **options}
    weights = np.geomspace(1e-4, 1, 12)
    tried = [
        mc.anonymize(columns, schema, dependence=w, **settings) for w in (0, *weights.tolist())
    ]
    losses = [mc.audit(columns, item.table, schema)["dependence_loss.y"] for item in tried]
    limit = 0.5 * (losses[0] + min(losses))
    release = mc.anonymize(columns, schema, require={"dependence_loss.y": limit}, **settings)
    mc.audit(columns, release.table, schema).require(**{"k": 4, "dependence_loss.y": limit})
    least = min(
        item.manifest.cells.sse_ratio
        for item, loss in zip(tried, losses, strict=True)
        if loss <= limit
    )
    assert release.manifest.cells.sse_ratio <= 1.1 * least


def test_a_given_weight_stays_and_the_limit_is_checked():
    rng = np.random.default_rng(0)
    columns = {"x": rng.normal(size=60), "y": rng.normal(size=60)}
    schema = mc.Schema(quasi=["x"], confidential=["y"])
    settings = {"k": 3, "method": "mdav", "dependence": 0.3}
    loss = mc.anonymize(columns, schema, **settings).manifest.dependence.dependence_loss
    kept = mc.anonymize(columns, schema, require={"dependence_loss": loss + 1e-6}, **settings)
    assert kept.manifest.dependence.weight == 0.3
    with raises(mc.RequirementError, "guarantee.requirement_not_met", measures=["dependence_loss"]):
        mc.anonymize(columns, schema, require={"dependence_loss": loss - 1e-6}, **settings)


def test_dependence_losses_that_cannot_be_reached_are_refused():
    columns = {"x": np.arange(20.0), "y": np.arange(20.0) ** 2}
    schema = mc.Schema(quasi=["x"], confidential=["y"])
    with raises(mc.RequirementError, "guarantee.requirement_not_met", measures=["dependence_loss"]):
        mc.anonymize(columns, schema, k=5, require={"dependence_loss": 1e-6})
