"""Routing of records to macrocells."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.dask.macrocells import Routing, grow_tree, make_macrocells, make_routing


def walk(tree, point, uniform):
    """Route one point naively."""
    node = 0
    if len(tree.cuts) == 0:
        return 0
    while node >= 0:
        place = 0.0
        for x, a in zip(point, tree.axes[node], strict=True):
            place += x * a
        left = place < tree.cuts[node]
        if place == tree.cuts[node]:
            share = tree.ties[node]
            left = uniform < share
            uniform = uniform / share if left else (uniform - share) / (1 - share)
        node = tree.children[node, 0 if left else 1]
    return -1 - node


@pytest.mark.parametrize("directions", [None, 5])
@pytest.mark.parametrize("leaves", [1, 2, 3, 7, 16])
def test_leaves_are_about_equal_and_routes_match_single_points(leaves, directions):
    rng = np.random.default_rng(1)
    tree = grow_tree(
        rng.normal(size=(4000, 3)),
        leaves,
        None if directions is None else np.random.default_rng(5),
    )
    points, ties = rng.normal(size=(20_000, 3)), rng.random(20_000)
    result = tree.route(points, ties)
    sizes = np.bincount(result, minlength=leaves)
    assert tree.leaves == len(sizes) == leaves
    assert sizes.min() > 0.75 * len(points) / leaves
    assert [
        walk(tree, point, tie) for point, tie in zip(points[:200], ties[:200], strict=True)
    ] == result[:200].tolist()


@pytest.mark.parametrize(
    "points", [np.zeros((900, 2)), np.zeros((900, 0)), np.repeat([[0.0], [1.0], [2.0]], 300, 0)]
)
def test_equal_points_are_divided(points):
    tree = grow_tree(points, 6)
    sizes = np.bincount(
        tree.route(points, np.random.default_rng(0).random(len(points))), minlength=6
    )
    assert sizes.min() > 100


def test_empty_sample():
    assert make_routing(np.zeros((0, 2)), np.zeros(0, int), [10**6], 1000).trees[0].leaves == 1


def test_strata_have_separate_leaves():
    rng = np.random.default_rng(0)
    points, strata = rng.normal(size=(600, 2)), np.arange(600) % 3
    routing = make_routing(points, strata, [4000, 1000, 100], 1000)
    assert routing.first == (0, 4, 5, 6)
    result = routing.route(points, strata, np.zeros(600))
    assert set(result[strata == 0]) == {0, 1, 2, 3}
    assert set(result[strata == 1]) == {4}
    assert set(result[strata == 2]) == {5}


def test_routing_in_parts_equals_routing_at_once():
    rng = np.random.default_rng(0)
    points, zeros = rng.normal(size=(500, 6)), np.zeros(500, int)
    routing = Routing((grow_tree(points, 8),))
    whole = routing.route(points, zeros, np.zeros(500))
    parts = [
        routing.route(points[a : a + 7], zeros[a : a + 7], np.zeros(500)[a : a + 7])
        for a in range(0, 500, 7)
    ]
    assert np.array_equal(whole, np.concatenate(parts))


@given(
    st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=6), min_size=1, max_size=6),
    st.integers(2, 20),
)
def test_macrocells_are_small_only_if_their_stratum_is(strata, least):
    counts = [count for stratum in strata for count in stratum]
    first = [0, *np.cumsum([len(stratum) for stratum in strata]).tolist()]
    result = make_macrocells(counts, first, least, 100)
    assert sorted(leaf for group in result for leaf in group) == [
        leaf for leaf, count in enumerate(counts) if count
    ]
    stratum_of = [number for number, stratum in enumerate(strata) for _ in stratum]
    for group in result:
        for stratum in {stratum_of[leaf] for leaf in group}:
            part = sum(counts[leaf] for leaf in group if stratum_of[leaf] == stratum)
            assert part >= least or part == sum(strata[stratum])
