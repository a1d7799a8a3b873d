"""Differences between publications: cuts of the graph of builds, against brute force."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.locations.differences import OUTSIDE, Build, Ledger, has_small_cut


def smallest_cut(graph):
    nodes = sorted(graph)
    best = float("inf")
    for size in range(1, len(nodes)):
        for side in map(set, combinations(nodes, size)):
            cut = sum(w for a in side for b, w in graph[a].items() if b not in side)
            best = min(best, cut)
    return best


@st.composite
def connected_graphs(draw):
    count = draw(st.integers(2, 7))
    graph = {node: {} for node in range(count)}
    weights = st.integers(1, 6)
    edges = [(draw(st.integers(0, node - 1)), node) for node in range(1, count)]
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    edges += [(a, b) for a, b in draw(st.lists(pairs, max_size=8)) if a != b]
    for a, b in edges:
        weight = draw(weights)
        graph[a][b] = graph[a].get(b, 0) + weight
        graph[b][a] = graph[b].get(a, 0) + weight
    return graph


@given(connected_graphs(), st.integers(1, 12))
def test_small_cuts_match_brute_force(graph, minimum):
    assert has_small_cut(graph, minimum) == (smallest_cut(graph) < minimum)


def ledger_of(*builds):
    return Ledger({build.id: build for build in builds})


def differences(then, now, moved):
    """Numbers of devices in all differences between unions of two families of disjoint sets."""
    for some in range(2 ** len(then)):
        for others in range(2 ** len(now)):
            one = set().union(*(s for i, s in enumerate(then) if some >> i & 1))
            other = set().union(*(s for i, s in enumerate(now) if others >> i & 1))
            yield len((one ^ other) | ((one | other) & moved))


def overlaps(build, then, moved):
    shared = {m + 1: len(build & t - moved) for m, t in enumerate(then)}
    shared |= {-m - 1: len(build & t & moved) for m, t in enumerate(then)}
    return {number: count for number, count in shared.items() if count}


labels = st.lists(st.integers(-1, 2), min_size=6, max_size=14)


@given(st.data(), st.integers(2, 4))
def test_a_rebuild_is_allowed_if_all_differences_are_large_or_empty(data, minimum):
    """The oracle compares every union of old cells with every union of new ones."""
    old = data.draw(labels)
    new = data.draw(st.lists(st.integers(-1, 2), min_size=len(old), max_size=len(old)))
    then = [{i for i, x in enumerate(old) if x == cell} for cell in range(3)]
    now = [{i for i, x in enumerate(new) if x == cell} for cell in range(3)]
    moved = data.draw(st.sets(st.integers(0, len(old) - 1), max_size=5))
    then, now = [s for s in then if len(s) >= minimum], [s for s in now if len(s) >= minimum]
    if not now:
        return
    ledger = ledger_of(*(Build(n + 1, 1, len(s)) for n, s in enumerate(then)))
    added = [Build(10 + n, 2, len(s), overlaps(s, then, moved)) for n, s in enumerate(now)]
    closed = [n + 1 for n in range(len(then))]
    expected = all(size == 0 or size >= minimum for size in differences(then, now, moved))
    assert ledger.allows(added, closed, minimum) == expected


def test_a_device_that_joins_and_leaves_again_is_noticed():
    """The third publication is compared with the first, not only with the second."""
    first = Build(1, 1, 10)
    second = Build(2, 2, 15, {1: 10})
    ledger = ledger_of(first).changed([second], [1], 2)
    # Four of the five newcomers leave: it differs from the second in four devices, from the
    # first in one.
    third = Build(3, 3, 11, {1: 10, 2: 11})
    assert not ledger.allows([third], [2], 4)
    assert ledger.allows([Build(3, 3, 10, {1: 10, 2: 10})], [2], 4)


def test_devices_that_only_moved_count():
    """The same devices at other places are a difference too."""
    ledger = ledger_of(Build(1, 1, 10))
    assert ledger.allows([Build(2, 2, 10, {1: 10})], [1], 4)
    assert not ledger.allows([Build(2, 2, 10, {1: 7, -1: 3})], [1], 4)
    assert ledger.allows([Build(2, 2, 10, {1: 6, -1: 4})], [1], 4)


def test_a_move_between_two_earlier_publications_counts():
    """One device moves among many changes, and the next build has the devices of the first."""
    first = Build(1, 1, 10)
    second = Build(2, 2, 15, {1: 9, -1: 1})
    ledger = ledger_of(first).changed([second], [1], 2)
    third = Build(3, 3, 10, {1: 9, -1: 1, 2: 10})
    assert not ledger.allows([third], [2], 4)
    assert ledger.allows([Build(3, 3, 10, {1: 10, 2: 10})], [2], 4)


def test_a_first_build_needs_the_minimum():
    assert Ledger().allows([Build(1, 1, 4)], [], 4)
    assert not Ledger().allows([Build(1, 1, 3)], [], 4)


@pytest.mark.parametrize(
    ("generation", "published"), [(1, False), (2, True), (4, True), (5, False)]
)
def test_when_a_build_was_published(generation, published):
    assert Build(1, 2, 5, died=5).was_published(generation) == published
    assert OUTSIDE == 0
