"""Lookup cells and the nearest-point search behind them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from microcell.cells import LookupCells, lookup_cells
from microcell.errors import DataError, GuaranteeError
from microcell.kernels.trees import MOST_TREE_DIMENSIONS, nearest_rows
from microcell.methods import partition
from tests.raising import raises

MANY = MOST_TREE_DIMENSIONS + 3


def nearest_oracle(points, queries):
    """Return the first of the nearest points of each query, one at a time."""
    out = []
    for query in queries:
        sums = np.zeros(len(points))
        for j in range(points.shape[1]):
            sums += (points[:, j] - query[j]) ** 2
        out.append(int(np.argmin(sums)))
    return np.array(out, dtype=np.int64)


@st.composite
def searches(draw, values):
    m, n, q = (
        draw(st.sampled_from([1, 2, 3, 5, MOST_TREE_DIMENSIONS, MANY])),
        draw(st.integers(1, 40)),
        12,
    )
    return tuple(draw(arrays(np.float64, (rows, m), elements=values)) for rows in (n, q))


@given(searches(st.sampled_from([-1.0, 0.0, 1.0, 2.0])))
def test_lowest_of_the_nearest_rows_where_many_tie(search):
    np.testing.assert_array_equal(nearest_rows(*search), nearest_oracle(*search))


@given(searches(st.floats(-1e100, 1e100)))
def test_nearest_rows_of_any_numbers(search):
    np.testing.assert_array_equal(nearest_rows(*search), nearest_oracle(*search))


@pytest.mark.parametrize("m", [1, 2, 7, MOST_TREE_DIMENSIONS, MOST_TREE_DIMENSIONS + 1, 25])
@pytest.mark.parametrize("decimals", [1, 15])
def test_nearest_rows_of_larger_tables(m, decimals):
    random = np.random.default_rng(m)
    points, queries = (random.normal(size=(n, m)).round(decimals) for n in (700, 300))
    queries[:50] = points[-50:]
    queries[50:60] = (points[:10] + points[10:20]) / 2
    np.testing.assert_array_equal(nearest_rows(points, queries), nearest_oracle(points, queries))


def test_nearest_row_without_columns_or_queries():
    assert nearest_rows(np.empty((3, 0)), np.empty((2, 0))).tolist() == [0, 0]
    for m in (1, MANY):
        assert nearest_rows(np.zeros((3, m)), np.empty((0, m))).shape == (0,)


# -------------------------------------------------------------------------------------------- cells


@pytest.mark.parametrize("m", [1, 3, MANY])
def test_records_are_in_their_cells_again_and_new_ones_in_that_of_the_nearest(m):
    random = np.random.default_rng(m)
    X, new = random.normal(size=(200, m)), random.normal(size=(50, m))
    labels = partition(X, 4, method="mdav").labels
    cells = lookup_cells(X, labels, 4)
    np.testing.assert_array_equal(cells.assign(X), labels)
    np.testing.assert_array_equal(cells.assign(new), labels[nearest_oracle(X, new)])
    np.testing.assert_array_equal(cells.sizes, np.bincount(labels))
    for cell, centroid in enumerate(cells.centroids):
        np.testing.assert_allclose(centroid, X[labels == cell].mean(axis=0), rtol=1e-12, atol=1e-14)
    assert (cells.kind, cells.holds_records) == ("lookup", True)


@given(
    st.integers(1, 3).flatmap(lambda m: arrays(np.float64, (24, m), elements=st.integers(0, 2))),
    st.integers(1, 5),
)
def test_equal_records_share_a_cell_and_every_cell_has_k(X, k):
    labels = np.arange(24) * (24 // k) // 24
    cells = lookup_cells(X, labels, k)
    result = cells.assign(X)
    assert cells.sizes.min() >= k
    np.testing.assert_array_equal(np.bincount(result), cells.sizes)
    np.testing.assert_array_equal(result, cells.labels)


def test_flat_list_is_one_column():
    assert lookup_cells([0.0, 1.0, 8.0, 9.0], [0, 0, 1, 1], 2).assign([0.4, 7.0]).tolist() == [0, 1]


@pytest.mark.parametrize(
    "X, labels, k, error, expected",
    [
        ([[0.0], [1.0]], [0, 1], 2, GuaranteeError, {"code": "guarantee.failed"}),
        ([[0.0], [1.0], [2.0]], [0, 0], 2, DataError, {"code": "data.invalid", "entry": "labels"}),
        ([[0.0], [np.nan]], [0, 0], 2, DataError, {"code": "data.not_finite"}),
        ([[0.0], [1.0]], [0.0, 0.0], 2, GuaranteeError, {"code": "guarantee.failed"}),
    ],
)
def test_invalid_partitions_are_rejected(X, labels, k, error, expected):
    with raises(error, **expected):
        lookup_cells(X, labels, k)


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({"records": [[0.0], [1.0]]}, {"code": "data.invalid", "entry": "records"}),
        ({"records": [[0.0, 1.0]] * 3}, {"code": "data.invalid", "entry": "records"}),
        ({"records": [[0.0], [np.inf], [1.0]]}, {"code": "data.invalid"}),
        ({"labels": [0, 0, 0]}, {"code": "data.invalid", "entry": "labels"}),
        ({"labels": [0, 0, 2]}, {"code": "data.invalid", "entry": "labels"}),
        ({"labels": [0, 0, -1]}, {"code": "data.invalid"}),
    ],
)
def test_inconsistent_lookup_cells_are_rejected(fields, expected):
    whole = {"centroids": [[0.0], [1.0]], "sizes": [2, 1], "k": 1, "records": [[0.0], [0.1], [1.0]]}
    assert len(LookupCells(**whole, labels=[0, 0, 1])) == 2
    with raises(DataError, **expected):
        LookupCells(**{**whole, "labels": [0, 0, 1], **fields})
