"""The estimator: scikit-learn's checks, and the guarantee through fit and transform."""

import pickle
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import microcell as mc
from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.kernels.trees import MOST_TREE_DIMENSIONS
from microcell.sklearn import Microaggregator
from tests.raising import raises

SECRET = "Aspasia"
"""A value that no message may hold."""


@parametrize_with_checks(
    [
        Microaggregator(),
        Microaggregator(k=3, method="vmdav", standardize=False, options={"gamma": 0.1}),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def random_rows(n=60, m=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, m)) * np.arange(1, m + 1) + 7


def class_sizes(table):
    """Return how many rows of the table are equal to each row."""
    return Counter(map(tuple, np.asarray(table).tolist()))


def small_tables(values):
    """Tables of few distinct values and therefore many equal rows."""
    return st.integers(1, 3).flatmap(
        lambda m: st.integers(6, 40).flatmap(lambda n: arrays(np.float64, (n, m), elements=values))
    )


# -------------------------------------------------------------------------------- fitted attributes


def test_worked_example():
    X = [[2, 1], [3, 2], [3, 2], [20, 19], [21, 20]]
    out = Microaggregator(k=2, method="mdav").fit_transform(X)
    expected = [[8 / 3, 5 / 3]] * 3 + [[20.5, 19.5]] * 2
    np.testing.assert_allclose(out, expected, rtol=1e-14)


@pytest.mark.parametrize("standardize", [True, False])
def test_fitted_attributes_agree_with_each_other(standardize):
    X = random_rows()
    fitted = Microaggregator(k=4, standardize=standardize).fit(X)
    sizes = np.bincount(fitted.labels_)
    assert sizes.min() >= 4
    np.testing.assert_array_equal(fitted.cell_sizes_, sizes)
    for cell, centre in enumerate(fitted.cluster_centers_):
        np.testing.assert_allclose(centre, X[fitted.labels_ == cell].mean(axis=0))
    space = (X - X.mean(axis=0)) / X.std(axis=0) if standardize else X
    assert fitted.distortion_ == pytest.approx(mc.distortion(space, fitted.labels_))
    assert fitted.method_ == "anneal"
    assert fitted.n_features_in_ == 3


@pytest.mark.parametrize("seed", range(10))
def test_without_standardizing_the_matrix_is_partitioned_as_it_is(seed):
    X = np.random.default_rng(seed).integers(0, 7, size=(80, 3)) * [1, 2, 10]
    raw = Microaggregator(k=4, standardize=False).fit(X)
    np.testing.assert_array_equal(raw.labels_, mc.partition(X, 4).labels)
    assert (raw.labels_ != Microaggregator(k=4).fit(X).labels_).any()


@pytest.mark.parametrize("seed", range(10))
def test_cells_equal_those_of_anonymize_even_with_ties(seed):
    X = np.random.default_rng(seed).integers(0, 6, size=(80, 3))
    table = {name: X[:, j] for j, name in enumerate("abc")}
    release = mc.anonymize(table, mc.Schema(quasi=list("abc")), k=4)
    np.testing.assert_array_equal(Microaggregator(k=4).fit(X).labels_, release.partition.labels)


def test_options_reach_the_method():
    X = np.random.default_rng(3).normal(size=(200, 2)) ** 3
    grown = Microaggregator(k=3, method="vmdav", options={"gamma": 2.0}, standardize=False).fit(X)
    np.testing.assert_array_equal(
        grown.labels_, mc.partition(X, 3, method="vmdav", gamma=2.0).labels
    )
    assert grown.cell_sizes_.max() > 3


def test_one_column_uses_the_exact_optimum():
    X = np.array([8, 21, 28, 36, 39, 71, 86, 89, 96, 96.0])[:, np.newaxis]
    fitted = Microaggregator(k=3).fit(X)
    assert fitted.method_ == "univariate"
    assert ((fitted.transform(X) - X) ** 2).sum() == pytest.approx(1035.4167, abs=1e-4)


def test_constant_columns_have_no_distance_and_are_reproduced():
    X = random_rows(n=31)
    with_constant = np.insert(X, 1, 0.1, axis=1)
    fitted = Microaggregator(k=3).fit(with_constant)
    np.testing.assert_array_equal(fitted.labels_, Microaggregator(k=3).fit(X).labels_)
    assert set(fitted.transform(with_constant)[:, 1]) == {0.1}
    # Far off in the constant column, which tells no cells apart.
    odd = with_constant[:5] + np.array([0.3, 1e9, 0.3, 0.3])
    np.testing.assert_array_equal(
        fitted.transform(odd)[:, 0], fitted.transform(odd - [0, 1e9, 0, 0])[:, 0]
    )


def test_equal_rows_are_reproduced_exactly():
    X = np.full((7, 2), 0.1)
    fitted = Microaggregator(k=3).fit(X)
    np.testing.assert_array_equal(fitted.transform(X), X)
    np.testing.assert_array_equal(fitted.transform([[5.0, 6.0]]), [[0.1, 0.1]])
    assert fitted.distortion_ == 0


def test_large_values_of_small_spread_keep_their_precision():
    X = 1.7e9 + np.random.default_rng(0).uniform(size=(30, 2))
    near_zero = Microaggregator(k=3).fit(X - 1.7e9)
    far_off = Microaggregator(k=3).fit(X)
    np.testing.assert_array_equal(far_off.labels_, near_zero.labels_)
    np.testing.assert_allclose(
        far_off.cluster_centers_ - 1.7e9, near_zero.cluster_centers_, atol=5e-7
    )


@pytest.mark.parametrize("scale", [1e-290, 1e299])
def test_very_small_and_very_large_numbers(scale):
    X = random_rows(n=20) / 100
    small, large = (
        Microaggregator(k=3, method="mdav").fit(rows).labels_ for rows in (X, X * scale)
    )
    np.testing.assert_array_equal(small, large)
    out = Microaggregator(k=3, standardize=False).fit_transform(X * scale)
    assert np.isfinite(out).all()
    assert min(class_sizes(out).values()) >= 3


# --------------------------------------------------------------------------------------- known rows


@given(
    small_tables(st.sampled_from([-1.0, 0.0, -0.0, 0.1, 3.0])),
    st.integers(2, 4),
    st.randoms(use_true_random=False),
)
def test_fitted_table_keeps_its_cell_sizes_in_any_row_order(X, k, random):
    fitted = Microaggregator(k=k).fit(X)
    by_position = fitted.cluster_centers_[fitted.labels_]
    np.testing.assert_array_equal(fitted.transform(X), by_position)
    np.testing.assert_array_equal(Microaggregator(k=k).fit_transform(X), by_position)
    order = np.array(random.sample(range(len(X)), len(X)))
    shuffled = class_sizes(fitted.transform(X[order]))
    assert shuffled == class_sizes(by_position)
    assert min(shuffled.values()) >= k


@given(small_tables(st.sampled_from([0.0, 1.0, 2.0])), st.data())
def test_ith_of_equal_rows_gets_the_cell_of_the_ith_in_fit(X, data):
    fitted = Microaggregator(k=3).fit(X)
    rows = data.draw(st.lists(st.integers(0, len(X) - 1), min_size=1, max_size=80))
    places = {}
    for place, row in enumerate(X.tolist()):
        places.setdefault(tuple(row), []).append(place)
    seen, expected = Counter(), []
    for row in X[rows].tolist():
        same = places[tuple(row)]
        expected.append(fitted.labels_[same[seen[tuple(row)] % len(same)]])
        seen[tuple(row)] += 1
    np.testing.assert_array_equal(fitted.transform(X[rows]), fitted.cluster_centers_[expected])


def test_equal_rows_are_distributed_over_their_cells():
    X = np.repeat([[0.0, 0.0], [1.0, 5.0]], [11, 4], axis=0)
    fitted = Microaggregator(k=3, method="mdav").fit(X)
    once = class_sizes(fitted.transform(X))
    assert len(class_sizes(fitted.transform(X[:11]))) > 1
    assert class_sizes(fitted.transform(X[::-1])) == once
    assert class_sizes(fitted.transform(np.concatenate([X, X]))) == once + once


def rows_nearer_to_another_cell(X, fitted):
    """Return the fitted rows that are nearer to the mean of another cell; MDAV leaves some."""
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    points, centres = ((rows - mean) / deviation for rows in (X, fitted.cluster_centers_))
    nearest = ((points[:, np.newaxis] - centres) ** 2).sum(axis=2).argmin(axis=1)
    return np.flatnonzero(nearest != fitted.labels_)


def test_fitted_row_keeps_its_cell_even_if_another_is_nearer():
    X = random_rows(n=200, seed=4)
    fitted = Microaggregator(k=5).fit(X)
    moved = rows_nearer_to_another_cell(X, fitted)
    assert len(moved) > 0
    np.testing.assert_array_equal(
        fitted.transform(X[moved]), fitted.cluster_centers_[fitted.labels_[moved]]
    )


def test_zero_is_recognised_whatever_its_sign():
    X = random_rows(n=200, seed=4)
    X -= X[rows_nearer_to_another_cell(X, Microaggregator(k=5).fit(X))[0]]
    fitted = Microaggregator(k=5).fit(X)
    zero = np.flatnonzero((X == 0).all(axis=1))
    assert zero[0] in rows_nearer_to_another_cell(X, fitted)
    np.testing.assert_array_equal(
        fitted.transform(-X[zero]), fitted.cluster_centers_[fitted.labels_[zero]]
    )


def test_fitted_rows_are_recognised_after_the_caller_changed_theirs():
    X = random_rows()
    before = X.copy()
    fitted = Microaggregator().fit(X)
    X[:] = 0
    np.testing.assert_array_equal(fitted.transform(before), fitted.cluster_centers_[fitted.labels_])


# ----------------------------------------------------------------------------------------- new rows


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("m", [1, 2, MOST_TREE_DIMENSIONS, MOST_TREE_DIMENSIONS + 1])
def test_new_rows_get_the_nearest_mean(m, standardize):
    X = random_rows(n=150, m=m, seed=m)
    new = random_rows(n=80, m=m, seed=m + 100)
    fitted = Microaggregator(k=4, standardize=standardize).fit(X)
    scale = X.std(axis=0) if standardize else 1.0
    for row, out in zip(new, fitted.transform(new), strict=True):
        distances = (((fitted.cluster_centers_ - row) / scale) ** 2).sum(axis=1)
        assert (((out - row) / scale) ** 2).sum() == pytest.approx(distances.min(), rel=1e-9)
        assert out.tolist() in fitted.cluster_centers_.tolist()


@pytest.mark.parametrize("m", [2, MOST_TREE_DIMENSIONS + 1])
def test_distant_new_rows_get_a_cell(m):
    fitted = Microaggregator(k=4).fit(random_rows(m=m) * 1e-200)
    out = fitted.transform(np.full((3, m), 1e300))
    assert all(row.tolist() in fitted.cluster_centers_.tolist() for row in out)


def test_new_and_seen_rows_together():
    X = random_rows()
    fitted = Microaggregator().fit(X)
    mixed = np.concatenate([X[:10] + 1e-3, X])
    out = fitted.transform(mixed)
    np.testing.assert_array_equal(out[10:], fitted.transform(X))
    np.testing.assert_array_equal(out[:10], fitted.transform(mixed[:10]))
    assert min(class_sizes(out).values()) >= 5


# --------------------------------------------------------------------------------- types and frames


def test_float32_stays_float32_and_keeps_k():
    X = random_rows().astype(np.float32)
    fitted = Microaggregator(k=4).fit(X)
    out = fitted.transform(X)
    assert out.dtype == np.float32
    assert fitted.cluster_centers_.dtype == np.float64
    np.testing.assert_array_equal(out, fitted.cluster_centers_[fitted.labels_].astype(np.float32))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float16, np.bool_, object])
def test_other_numbers_become_float64(dtype):
    X = np.random.default_rng(0).integers(0, 5, size=(30, 2)).astype(dtype)
    out = Microaggregator(k=3).fit_transform(X)
    assert out.dtype == np.float64
    assert min(class_sizes(out).values()) >= 3


def test_pandas_in_and_out():
    frame = pd.DataFrame(random_rows(n=20), columns=["age", "bmi", "tsh"], index=range(100, 120))
    estimator = Microaggregator(k=4).set_output(transform="pandas")
    out = estimator.fit_transform(frame)
    assert list(out.columns) == ["age", "bmi", "tsh"]
    assert list(out.index) == list(range(100, 120))
    np.testing.assert_array_equal(out, estimator.cluster_centers_[estimator.labels_])
    assert (
        list(estimator.feature_names_in_)
        == list(estimator.get_feature_names_out())
        == ["age", "bmi", "tsh"]
    )
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.transform(frame[["bmi", "age", "tsh"]])


def test_polars_in_and_out():
    frame = pl.DataFrame(random_rows(n=20), schema=["age", "bmi", "tsh"])
    out = Microaggregator(k=4).set_output(transform="polars").fit_transform(frame)
    assert isinstance(out, pl.DataFrame)
    assert out.columns == ["age", "bmi", "tsh"]
    assert min(out.group_by(pl.all()).len()["len"]) >= 4


def test_names_out_without_names_in():
    assert list(Microaggregator().fit(random_rows()).get_feature_names_out()) == ["x0", "x1", "x2"]


def test_in_a_pipeline():
    X = random_rows()
    pipeline = make_pipeline(MinMaxScaler(), Microaggregator(k=6), LinearRegression())
    pipeline.fit(X, X.sum(axis=1)).set_params(microaggregator__k=7).fit(X, X.sum(axis=1))
    assert pipeline.named_steps["microaggregator"].cell_sizes_.min() >= 7
    assert pipeline.predict(X).shape == (60,)


def test_in_a_column_transformer():
    frame = pd.DataFrame(random_rows(n=20), columns=["age", "bmi", "tsh"]).assign(note="x")
    picked = ColumnTransformer(
        [("cells", Microaggregator(k=4), ["age", "bmi"])], remainder="passthrough"
    )
    out = picked.set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == ["cells__age", "cells__bmi", "remainder__tsh", "remainder__note"]
    assert min(class_sizes(out[["cells__age", "cells__bmi"]]).values()) >= 4
    np.testing.assert_array_equal(out["remainder__tsh"], frame["tsh"])


def test_pickled_and_cloned():
    X = random_rows()
    fitted = Microaggregator(k=3, method="vmdav", options={"gamma": 0.3}, random_state=4).fit(X)
    again = pickle.loads(pickle.dumps(fitted))
    new = np.concatenate([X, X + 0.01])
    np.testing.assert_array_equal(again.transform(new), fitted.transform(new))
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    assert not hasattr(fresh, "labels_")


# ------------------------------------------------------------------------------------ invalid input


@pytest.mark.parametrize(
    "parameters, expected",
    [
        ({"k": 1}, {"code": "option.out_of_range"}),
        ({"k": 2.5}, {"code": "option.wrong_type"}),
        ({"k": True}, {"code": "option.wrong_type"}),
        ({"method": "nosuch"}, {"code": "option.unknown", "option": "method"}),
        ({"method": ["mdav"]}, {"code": "option.wrong_type", "option": "method"}),
        (
            {"method": "mdav", "options": {"gamma": 1}},
            {"code": "option.unsupported", "option": "gamma", "method": "mdav"},
        ),
        (
            {"method": "mdav", "options": {"seed": 1}},
            {"code": "option.unsupported", "option": "seed", "method": "mdav"},
        ),
        (
            {"options": {"gamma": 1}},
            {"code": "option.unsupported", "option": "gamma", "method": "auto"},
        ),
        ({"options": [("gamma", 1)]}, {"code": "option.wrong_type", "option": "options"}),
        (
            {"method": "univariate"},
            {"code": "option.unsupported", "option": "method", "method": "univariate"},
        ),
        ({"standardize": "yes"}, {"code": "option.wrong_type", "option": "standardize"}),
        ({"random_state": -1}, {"code": "option.invalid", "option": "random_state"}),
        ({"random_state": "x"}, {"code": "option.invalid", "option": "random_state"}),
        ({"random_state": True}, {"code": "option.invalid", "option": "random_state"}),
    ],
)
def test_invalid_parameters_are_rejected_at_fit(parameters, expected):
    estimator = Microaggregator(**parameters)
    with raises(OptionError, **expected):
        estimator.fit(random_rows())


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(3), np.int64(7)])
def test_random_state_accepts_the_types_of_scikit_learn(random_state):
    assert Microaggregator(random_state=random_state).fit(random_rows()).cell_sizes_.min() >= 5


@pytest.mark.parametrize("n", [1, 4])
def test_fewer_rows_than_k(n):
    with raises(TooFewRecordsError, "guarantee.too_few_records", k=5):
        Microaggregator().fit(random_rows(n=n))


def test_k_rows_make_one_cell():
    X = random_rows(n=5)
    np.testing.assert_allclose(Microaggregator().fit_transform(X), np.tile(X.mean(axis=0), (5, 1)))


def test_sparse_data_is_rejected():
    with pytest.raises(TypeError, match="Sparse data was passed"):
        Microaggregator().fit(sparse.eye_array(20, format="csr"))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e301])
def test_non_finite_entries_are_rejected_with_row_and_column(wrong):
    X = random_rows()
    fitted = Microaggregator().fit(X)
    X[6, 1] = X[9, 0] = wrong
    for refuse in (Microaggregator().fit, fitted.transform):
        with raises(DataError, "data.not_finite", row=7, column=2):
            refuse(X)


@pytest.mark.parametrize(
    "missing",
    [
        pd.DataFrame({"a": pd.array([1, None] * 5, dtype="Int64"), "b": 1.5}),
        pd.DataFrame({"a": [1.5, np.nan] * 5, "b": 2}),
        pl.DataFrame({"a": [1, None] * 5, "b": [1.5] * 10}),
        [[1.0, 2.0], [None, 2.0]] * 5,
    ],
    ids=["nullable", "pandas", "polars", "list"],
)
def test_missing_values_of_any_kind_are_rejected(missing):
    with raises(DataError, "data.not_finite", row=2, column=1):
        Microaggregator().fit(missing)


NUMBERS = random_rows(n=10, m=2)


@pytest.mark.parametrize(
    "X, expected",
    [
        (
            pd.DataFrame(NUMBERS, columns=["a", "b"]).assign(c=SECRET),
            {"code": "data.not_a_number", "row": 1, "column": 3},
        ),
        (
            pd.DataFrame({"c": pd.Categorical([SECRET, "x"] * 5)}),
            {"code": "data.not_a_number", "row": 1, "column": 1},
        ),
        (
            pl.DataFrame({"a": [1.5] * 10, "c": [SECRET] * 10}),
            {"code": "data.not_a_number", "row": 1, "column": 2},
        ),
        (
            np.array([[1, 2], [3, SECRET]] * 5, dtype=object),
            {"code": "data.not_a_number", "row": 2, "column": 2},
        ),
        ([[1, 2], [3, SECRET]] * 5, {"code": "data.not_a_number", "row": 2, "column": 2}),
        (np.array([[SECRET]] * 10), {"code": "data.not_a_number", "row": 1, "column": 1}),
        (
            pd.DataFrame({"day": pd.to_datetime(["1999-09-09", None] * 5)}),
            {"code": "data.not_a_number", "row": 1, "column": 1},
        ),
        ([[10**400]] * 10, {"code": "data.not_a_number", "row": 1, "column": 1}),
        ([[1, 2], [3]] * 5, {"code": "data.not_a_number"}),
        ([1999.5] * 10, {"code": "data.invalid"}),
        (1999.5, {"code": "data.invalid"}),
        ([[1999.5 + 2j]] * 10, {"code": "data.invalid"}),
        (pd.DataFrame(NUMBERS, columns=["a", "a"]), {"code": "data.invalid"}),
    ],
    ids=lambda item: type(item).__name__,
)
def test_non_numeric_input_is_rejected_without_showing_a_value(X, expected):
    with raises(DataError, **expected) as caught:
        Microaggregator().fit(X)
    assert not any(value in str(caught.value) for value in (SECRET, "1999", str(10**400)))
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


# --------------------------------------------------------------------------------------- groups


def people_per_row(table, groups):
    """Count the distinct groups of each class of equal rows by plain sets."""
    members = {}
    for row, group in zip(np.asarray(table).tolist(), list(groups), strict=True):
        members.setdefault(tuple(row), set()).add(group)
    return [len(each) for each in members.values()]


@pytest.mark.parametrize("method", ["auto", "mdav", "pcl", "vmdav"])
def test_groups_are_persons(method):
    rng = np.random.default_rng(2)
    groups = rng.integers(40, size=120)
    X = random_rows(40)[groups] + 0.1 * random_rows(120)
    model = Microaggregator(k=4, method=method)
    Z = model.fit_transform(X, groups=groups)
    counts = people_per_row(Z, groups)
    assert min(counts) >= 4
    assert sorted(model.cell_people_) == sorted(counts)
    np.testing.assert_array_equal(model.fit(X, None, groups).transform(X), Z)
    names = np.array([f"group {group}" for group in groups])
    for given_groups in (names, pd.Series(names), list(names)):
        np.testing.assert_array_equal(model.fit_transform(X, groups=given_groups), Z)
    np.testing.assert_array_equal(
        Microaggregator().fit(X).cell_people_, Microaggregator().fit(X).cell_sizes_
    )


def test_groups_in_a_pipeline():
    groups = np.arange(60) % 20
    X = random_rows(60)
    model = make_pipeline(MinMaxScaler(), Microaggregator(k=4, method="mdav"))
    Z = model.fit_transform(X, microaggregator__groups=groups)
    assert min(people_per_row(Z, groups)) >= 4


def test_groups_that_cannot_be_used():
    X = random_rows(10)
    for groups in ([1, 2], np.zeros((10, 2)), [SECRET, 1.5, None] + [1] * 7, [np.nan] + [1.0] * 9):
        with raises(OptionError, "option.invalid", option="groups") as caught:
            Microaggregator(k=2).fit(X, groups=groups)
        assert SECRET not in str(caught.value)
    with raises(TooFewRecordsError, "guarantee.too_few_records", records=2, unit="persons"):
        Microaggregator(k=3).fit(X, groups=np.arange(10) % 2)
