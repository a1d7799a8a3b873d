"""Ball cells: assignment to the first ball, and balls of partitions by MDAV and V-MDAV."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from microcell.cells import BallCells, ball_cells
from microcell.errors import DataError, GuaranteeError
from microcell.methods import distortion, partition
from tests.raising import raises


def oracle(cells, X):
    """Return the cell of each point, one ball at a time."""
    out = []
    for x in X:
        label = len(cells) - 1
        for centre, radius, cell in zip(cells.references, cells.radii, cells.cells, strict=True):
            total = 0.0
            for a, b in zip(x, centre, strict=True):
                total += (a - b) * (a - b)
            if total <= radius * radius:
                label = cell
                break
        out.append(label)
    return np.array(out, dtype=np.int64)


def distance_to_records(cells, X):
    """Return the smallest distance between references and records, relative to the spread."""
    spread = np.abs(X - X.mean(axis=0)).max() or 1.0
    apart = [np.sqrt(((X - reference) ** 2).sum(axis=1)).min() for reference in cells.references]
    return min(apart, default=np.inf) / spread


def check(cells, X, k):
    """Check the invariants of ball cells and return their labels."""
    labels = cells.assign(X)
    np.testing.assert_array_equal(labels, oracle(cells, X))
    np.testing.assert_array_equal(np.bincount(labels), cells.sizes)
    assert cells.sizes.min() >= k
    assert distance_to_records(cells, X) > 1e-9
    for cell, centroid in enumerate(cells.centroids):
        np.testing.assert_allclose(
            centroid, X[labels == cell].mean(axis=0), rtol=1e-9, atol=1e-9 * np.abs(X).max()
        )
    return labels


# ------------------------------------------------------------------------------------- the function


@given(st.integers(1, 3), st.integers(0, 5), st.data())
def test_cell_is_that_of_the_first_ball_containing_the_point(m, balls, data):
    whole = st.integers(-5, 5)
    references = data.draw(arrays(np.float64, (balls, m), elements=whole))
    radii = data.draw(arrays(np.float64, balls, elements=st.integers(0, 6)))
    count = data.draw(st.integers(max(balls, 1), balls + 1))
    order = np.array(data.draw(st.permutations(range(balls))), dtype=np.int64)
    cells = BallCells(
        centroids=np.zeros((count, m)),
        sizes=[2] * count,
        k=2,
        references=references,
        radii=radii,
        cells=order,
    )
    X = data.draw(arrays(np.float64, (10, m), elements=whole))
    np.testing.assert_array_equal(cells.assign(X), oracle(cells, X))


def test_rim_belongs_to_the_ball():
    cells = BallCells(
        centroids=[[0.0], [9.0]], sizes=[2, 2], k=2, references=[[0.0]], radii=[2.0], cells=[0]
    )
    assert cells.assign([-2.0, 2.0, np.nextafter(2.0, 3)]).tolist() == [0, 0, 1]
    assert (cells.kind, cells.holds_records) == ("balls", False)


def test_distant_point_is_in_the_last_cell():
    cells = ball_cells(np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) // 30, 5)
    assert cells.assign([[1e300, -1e300]]).tolist() == [len(cells) - 1]


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({"references": [[0.0], [1.0]]}, {"code": "data.invalid", "entry": "references"}),
        ({"references": [[0.0, 1.0]]}, {"code": "data.invalid", "entry": "references"}),
        ({"references": [[np.nan]]}, {"code": "data.invalid"}),
        ({"radii": [-1.0]}, {"code": "data.invalid"}),
        ({"radii": [np.inf]}, {"code": "data.invalid"}),
        ({"radii": [1.0, 2.0]}, {"code": "data.invalid", "entry": "references"}),
        ({"cells": [1]}, {"code": "data.invalid", "entry": "cells"}),
        ({"cells": [2]}, {"code": "data.invalid", "entry": "cells"}),
        ({"cells": [0, 0]}, {"code": "data.invalid", "entry": "references"}),
        ({"references": [], "radii": [], "cells": []}, {"code": "data.invalid", "entry": "cells"}),
    ],
)
def test_inconsistent_balls_are_rejected(fields, expected):
    whole = {
        "centroids": [[0.0], [9.0]],
        "sizes": [2, 2],
        "k": 2,
        "references": [[0.0]],
        "radii": [2.0],
        "cells": [0],
    }
    with raises(DataError, **expected):
        BallCells(**{**whole, **fields})


# -------------------------------------------------------------------------------- the balls of MDAV


@pytest.mark.parametrize("m", [1, 3, 12])
@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("n", [20, 61, 300])
def test_mdav_without_ties_is_reproduced_exactly(n, k, m):
    X = np.random.default_rng(n + k + m).normal(size=(n, m))
    labels = partition(X, k, method="mdav").labels
    np.testing.assert_array_equal(check(ball_cells(X, labels, k), X, k), labels)


def test_weighted_mdav_is_reproduced_exactly():
    random = np.random.default_rng(0)
    X, weights = random.normal(size=(400, 3)), random.uniform(0.01, 9, 400)
    labels = partition(X, 5, method="mdav", weights=weights).labels
    np.testing.assert_array_equal(check(ball_cells(X, labels, 5), X, 5), labels)


@pytest.mark.parametrize("scale, shift", [(1e-90, 0.0), (1e-12, 0.0), (1e90, 0.0), (1.0, 1e6)])
def test_scales_and_shifts(scale, shift):
    X = np.random.default_rng(2).normal(size=(200, 2)) * scale + shift
    labels = partition(X, 4, method="mdav").labels
    np.testing.assert_array_equal(check(ball_cells(X, labels, 4), X, 4), labels)


@pytest.mark.parametrize("gamma", [0.0, 0.2, 1.0])
def test_vmdav_is_reproduced_except_for_a_few_records(gamma):
    X = np.random.default_rng(3).normal(size=(1000, 2))
    labels = partition(X, 5, method="vmdav", gamma=gamma).labels
    result = check(ball_cells(X, labels, 5), X, 5)
    assert (result != labels).mean() < 0.05
    assert distortion(X, result) < 1.5 * distortion(X, labels)


@pytest.mark.parametrize("name, method", [("census", "mdav"), ("tarragona", "vmdav")])
def test_classic_sets(load_standardized, name, method):
    X = load_standardized(name)
    labels = partition(X, 5, method=method).labels
    result = check(ball_cells(X, labels, 5), X, 5)
    assert distortion(X, result) < 1.3 * distortion(X, labels)


def test_ties_cost_little():
    X = np.random.default_rng(4).integers(0, 8, size=(2000, 3)).astype(float)
    labels = partition(X, 5, method="mdav").labels
    result = check(ball_cells(X, labels, 5), X, 5)
    assert result.max() > 200
    assert distortion(X, result) < 2 * distortion(X, labels)


@given(
    st.tuples(st.integers(1, 40), st.integers(1, 3)).flatmap(
        lambda shape: arrays(
            np.float64, shape, elements=st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0])
        )
    ),
    st.integers(1, 6),
    st.sampled_from(["mdav", "vmdav", "random"]),
    st.randoms(use_true_random=False),
)
def test_every_cell_has_k_whatever_ties(X, k, method, random):
    k = min(k, len(X))
    if method == "random" or k == 1:
        labels = np.arange(len(X)) * (len(X) // k) // len(X)
        labels = labels[random.sample(range(len(X)), len(X))]
    else:
        labels = partition(X, k, method=method).labels
    check(ball_cells(X, labels, k), X, k)


def test_all_records_equal_make_one_cell():
    X = np.full((12, 2), 0.1)
    cells = ball_cells(X, np.arange(12) // 3, 3)
    assert (len(cells), len(cells.radii)) == (1, 0)
    assert cells.assign([[5.0, 5.0]]).tolist() == [0]


def test_no_columns_make_one_cell():
    assert ball_cells(np.empty((6, 0)), np.arange(6) // 3, 3).sizes.tolist() == [6]


def test_flat_list_is_one_column():
    assert ball_cells([0.0, 1.0, 8.0, 9.0], [0, 0, 1, 1], 2).assign([0.4, 7.0]).tolist() == [0, 1]


def test_no_record_follows_from_a_reference_and_its_centroid():
    """A reference at a known place on the line from centroid to record would reveal the record."""
    X = np.random.default_rng(5).normal(size=(600, 3))
    cells = ball_cells(X, partition(X, 5, method="mdav").labels, 5)
    for reference, centroid in zip(cells.references, cells.centroids, strict=False):
        for t in (3, 2.5, 2, 0.25, 0.5, 1.5, 0.75, 1.25):
            guess = centroid + (reference - centroid) / t
            if not np.allclose(guess, centroid):
                assert np.abs(X - guess).max(axis=1).min() > 1e-9


def test_same_table_gives_the_same_balls():
    X = np.random.default_rng(6).normal(size=(100, 2))
    first, second = (ball_cells(X, partition(X, 3, method="mdav").labels, 3) for _ in range(2))
    np.testing.assert_array_equal(first.references, second.references)
    np.testing.assert_array_equal(first.radii, second.radii)


@pytest.mark.parametrize(
    "X, labels, k, error, expected",
    [
        ([[0.0], [1.0]], [0, 1], 2, GuaranteeError, {"code": "guarantee.failed"}),
        ([[0.0], [1.0], [2.0]], [0, 0], 2, DataError, {"code": "data.invalid", "entry": "labels"}),
        ([[0.0], [np.nan]], [0, 0], 2, DataError, {"code": "data.not_finite"}),
    ],
)
def test_invalid_partitions_are_rejected(X, labels, k, error, expected):
    with raises(error, **expected):
        ball_cells(X, labels, k)
