"""Links to the nearest published points, against a plain loop."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.kernels.arrays import distinct_rows
from microcell.kernels.linkage import count_links

every_search = pytest.mark.parametrize("few_pairs", [0, 1_000_000], ids=["tree or scan", "pairs"])
"""Small tables are linked by measuring all pairs; with 0 they are linked like large ones."""


def searching(few_pairs):
    return patch("microcell.kernels.linkage._FEW_PAIRS", few_pairs)


def link_plainly(originals, published, sizes, own):
    """Measure every point, keep the nearest, and divide the probability among their records."""
    expected = []
    for record, mine in zip(originals, own, strict=True):
        distances = [np.sqrt(((record - point) ** 2).sum()) for point in published]
        nearest = [at for at, d in enumerate(distances) if d <= min(distances) * (1 + 1e-12)]
        expected.append(1 / sum(sizes[at] for at in nearest) if mine in nearest else 0.0)
    return np.array(expected)


@st.composite
def tables(draw):
    """Points on a small grid, with duplicates and ties, in few and in many dimensions."""
    dimensions = draw(st.sampled_from([1, 2, 3, 10, 11, 13]))
    n = draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    step = draw(st.sampled_from([1.0, 0.1, 1 / 3]))
    originals = rng.integers(0, draw(st.integers(1, 5)), size=(n, dimensions)) * step
    after = rng.integers(0, draw(st.integers(1, 5)), size=(n, dimensions)) * step / 2
    return originals, after


def link(originals, after, how):
    distinct = distinct_rows(after)
    sizes = np.bincount(distinct.place)
    result = how(originals, after[distinct.first], sizes, distinct.place)
    return result if how is link_plainly else result.expected


@every_search
@given(tables())
def test_linkage_matches_a_plain_loop(few_pairs, table):
    with searching(few_pairs):
        result = link(*table, count_links)
    np.testing.assert_allclose(result, link(*table, link_plainly), rtol=1e-12)


@given(tables(), st.randoms(use_true_random=False))
def test_order_of_rows_and_columns_does_not_matter(table, random):
    originals, after = table
    rows, columns = list(range(len(after))), list(range(after.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    moved = link(originals[np.ix_(rows, columns)], after[np.ix_(rows, columns)], count_links)
    np.testing.assert_allclose(moved, link(originals, after, count_links)[rows], rtol=1e-12)


@every_search
@pytest.mark.parametrize("dimensions", [3, 12])
def test_many_points_match_a_plain_loop(dimensions, few_pairs):
    rng = np.random.default_rng(5)
    originals = rng.normal(size=(300, dimensions))
    after = np.repeat(originals.reshape(100, 3, dimensions).mean(axis=1), 3, axis=0)
    with searching(few_pairs):
        result = link(originals, after, count_links)
    np.testing.assert_allclose(result, link(originals, after, link_plainly))
    assert 0 < result.mean() <= 1 / 3


@every_search
@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize("step", [None, 0.5])
@pytest.mark.parametrize("dimensions", [5, 11])
def test_many_more_points_than_candidates_match_plain_distances(dimensions, step, shift, few_pairs):
    """So many points that the own one is first held against some of them; on a grid, with ties."""
    rng = np.random.default_rng(6)
    shape = (9_000, dimensions)
    originals = rng.normal(size=shape) if step is None else rng.integers(0, 9, size=shape) * step
    originals[:, 0] += shift * rng.integers(0, 3, size=9_000)
    originals = originals[np.lexsort(originals.T)]
    after = np.repeat(originals.reshape(3_000, 3, dimensions).mean(axis=1), 3, axis=0)
    published, own, sizes = np.unique(after, axis=0, return_inverse=True, return_counts=True)
    some = rng.permutation(9_000)[:300]
    expected = []
    for record, mine in zip(originals[some], own[some], strict=True):
        squares = ((published - record) ** 2).sum(axis=1)
        near = squares <= squares.min() * (1 + 1e-11)
        expected.append(near[mine] / sizes[near].sum())
    with searching(few_pairs):
        result = count_links(originals[some], published, sizes, own[some]).expected
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    assert 0 < np.mean(expected) < 1 / 3


@every_search
@pytest.mark.parametrize("dimensions", [2, 12])
def test_distances_equal_but_for_rounding_tie(dimensions, few_pairs):
    published = np.zeros((2, dimensions))
    published[:, 0] = [-0.1, 0.1 * (1 + 1e-14)]
    with searching(few_pairs):
        result = count_links(np.zeros((1, dimensions)), published, np.array([2, 3]), np.array([1]))
    assert result.expected.tolist() == [0.2]


def test_one_point_no_dimension_and_no_record():
    assert (
        count_links(
            np.ones((2, 1)), np.zeros((1, 1)), np.array([4]), np.array([0, 0])
        ).expected.tolist()
        == [0.25] * 2
    )
    assert (
        count_links(
            np.ones((2, 0)), np.zeros((1, 0)), np.array([2]), np.array([0, 0])
        ).expected.tolist()
        == [0.5] * 2
    )
    assert not len(
        count_links(
            np.ones((0, 1)), np.zeros((1, 1)), np.array([2]), np.zeros(0, dtype=int)
        ).expected
    )


def test_distinct_rows_without_rows_or_columns():
    assert distinct_rows(np.zeros((0, 2))).first.tolist() == []
    assert distinct_rows(np.zeros((3, 0))).place.tolist() == [0, 0, 0]
