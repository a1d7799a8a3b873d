"""Cells on the Earth: sizes, the rule, places, merging, and the corners of the sphere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import microcell as mc
from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.locations import Clustering, cluster, merge
from microcell.locations.clustering import (
    EARTH_RADIUS,
    great_circle,
    merge_small,
    to_degrees,
    to_points,
)


def make_city(n, seed=0):
    """Towns of very different sizes, and some devices in between."""
    chance = np.random.default_rng(seed)
    towns, weights = chance.uniform([36, -9], [60, 30], size=(40, 2)), 1 / np.arange(1, 41)
    town = chance.choice(40, size=n, p=weights / weights.sum())
    places = towns[town] + chance.normal(scale=0.05, size=(n, 2)) * np.sqrt(
        chance.exponential(size=(n, 1))
    )
    rural = chance.random(n) < 0.1
    places[rural] = chance.uniform([36, -9], [60, 30], size=(int(rural.sum()), 2))
    return to_points(*places.T)


def distortion(points, labels):
    """Mean squared kilometres to the mean of the cell, plainly."""
    return sum(
        ((points[labels == cell] - points[labels == cell].mean(axis=0)) ** 2).sum()
        for cell in set(labels)
    ) / len(points)


def plain_cell(clustering, point):
    """The rule, written out."""
    totals = [
        sum((point - site) ** 2) + cost
        for site, cost in zip(clustering.sites, clustering.costs, strict=True)
    ]
    return clustering.cell_of[totals.index(min(totals))]


def check(clustering, labels, points, k):
    sizes = np.bincount(labels, minlength=len(clustering))
    assert len(sizes) == len(clustering) == len(points) // k
    assert sizes.min() >= k
    assert sizes.max() - sizes.min() <= 1
    for cell in range(len(clustering)):
        own = points[labels == cell]
        mean = own.mean(axis=0, keepdims=True)
        if np.linalg.norm(mean) > 1:
            place = to_points(*clustering.places[[cell]].T)
            assert great_circle(place, mean)[0] < 1e-3
            far = great_circle(own, np.repeat(mean, len(own), axis=0))
            assert clustering.radius[cell] == pytest.approx(
                np.sqrt((far**2).mean()), rel=1e-6, abs=1e-4
            )
    assert np.isfinite(clustering.places).all()
    assert (np.abs(clustering.places) <= [90, 180]).all()


def test_cells_have_their_sizes_and_are_a_rule():
    points = make_city(2_000)
    clustering, labels = cluster(points, 40)
    check(clustering, labels, points, 40)
    assert (clustering.assign(points) == labels).all()
    others = make_city(50, seed=1)
    assert clustering.assign(others).tolist() == [plain_cell(clustering, point) for point in others]


def test_distortion_is_at_least_15_percent_under_mdav():
    points = make_city(4_000)
    labels = cluster(points, 40)[1]
    assert distortion(points, labels) < 0.85 * distortion(
        points, mc.partition(points, 40, method="mdav").labels
    )


def test_the_same_seed_gives_the_same_cells():
    points = make_city(500)
    one, other = cluster(points, 20, seed=3), cluster(points, 20, seed=3)
    assert (one[1] == other[1]).all()
    assert (one[0].places == other[0].places).all()


@pytest.mark.parametrize("n", [900, 1_000, 1_049, 1_200, 400, 39])
def test_a_warm_start_serves_more_and_fewer_devices(n):
    before, _ = cluster(make_city(1_000), 20)
    points = make_city(n, seed=2)
    clustering, labels = cluster(points, 20, start=before)
    check(clustering, labels, points, 20)


def test_a_warm_start_from_merged_cells_splits_them_again():
    points = make_city(1_000)
    before, labels = cluster(points, 20)
    merged = merge_small(before, np.bincount(labels), 60)
    assert len(merged.clustering) < len(before)
    clustering, labels = cluster(points, 20, start=merged.clustering)
    check(clustering, labels, points, 20)
    assert distortion(points, labels) < 1.1 * distortion(points, cluster(points, 20)[1])


def test_more_cells_than_are_made_at_once_are_one_diagram():
    points = make_city(4_100)
    clustering, labels = cluster(points, 2)
    assert len(clustering) == 2_050
    check(clustering, labels, points, 2)
    assert (clustering.assign(points) == labels).all()


@pytest.mark.parametrize("start", [False, True])
def test_the_antimeridian_is_no_border(start):
    chance = np.random.default_rng(0)
    longitude = np.concatenate(
        [chance.uniform(179.9, 180, 20), chance.uniform(-180, -179.9, 20), np.full(40, 100.0)]
    )
    latitude = np.concatenate([chance.uniform(-0.1, 0.1, 40), chance.uniform(50, 50.1, 40)])
    points = to_points(latitude, longitude)
    warm = cluster(points, 40)[0] if start else None
    clustering, labels = cluster(points, 40, start=warm)
    assert len(set(labels[:40])) == len(set(labels[40:])) == 1
    assert abs(abs(clustering.places[labels[0], 1]) - 180) < 0.1


def test_the_pole_is_a_place_like_others():
    points = to_points(np.full(8, 89.99), np.arange(8) * 45.0)
    clustering, labels = cluster(points, 8)
    assert set(labels) == {0}
    assert clustering.places[0, 0] == pytest.approx(90, abs=1e-6)
    assert clustering.radius[0] == pytest.approx(0.01 * np.pi / 180 * EARTH_RADIUS, rel=1e-3)


@pytest.mark.parametrize("n", [4, 7, 20])
def test_all_at_one_spot(n):
    points = to_points(np.full(n, 41.0), np.full(n, 2.0))
    clustering, labels = cluster(points, 4)
    assert np.bincount(labels).min() >= 4
    assert clustering.places == pytest.approx(np.tile([41.0, 2.0], (n // 4, 1)))
    again, labels = cluster(points, 4, start=clustering)
    assert np.bincount(labels).min() >= 4
    assert set(again.assign(points)) <= set(range(len(again)))


def test_places_all_over_have_a_mean_or_at_least_a_place():
    points = to_points(np.array([0.0, 0.0]), np.array([0.0, 180.0]))
    assert np.isfinite(cluster(points, 2)[0].places).all()


def test_fewer_devices_than_k_make_no_cell():
    with pytest.raises(TooFewRecordsError, match="3 devices cannot make a cell of k = 4"):
        cluster(make_city(3), 4)


@given(st.integers(0, 10_000), st.integers(2, 9), st.integers(2, 60))
@settings(max_examples=30, deadline=None)
def test_any_places_make_cells_of_k(seed, k, n):
    chance = np.random.default_rng(seed)
    places = chance.uniform([-90, -180], [90, 180], size=(max(k, n), 2)).round(
        int(chance.integers(-1, 3))
    )
    points = to_points(*np.clip(places, [-90, -180], [90, 180]).T)
    clustering, labels = cluster(points, k)
    check(clustering, labels, points, k)


# ---------------------------------------------------------------------------------------------- merging


def by_hand(places, k=2):
    places = np.array(places, dtype=float)
    sites = to_points(*places.T)
    count = len(places)
    return Clustering(k, sites, np.zeros(count), np.arange(count), places, np.ones(count))


def test_two_cells_become_one_at_their_weighted_mean():
    before = by_hand([[0, 0], [0, 90], [0, 4], [0, -60]])
    after, numbers = merge(before, 2, np.array([30, 9, 10, 9]))
    assert numbers.tolist() == [0, 1, 0, 2]
    assert after.places.round(2).tolist() == [[0, 1.0], [0, 90], [0, -60]]
    assert after.cell_of.tolist() == [0, 1, 0, 2]
    degree = np.pi / 180 * EARTH_RADIUS
    assert after.radius[0] == pytest.approx(
        np.sqrt(1 + (30 * 1**2 + 10 * 3**2) / 40 * degree**2), rel=1e-3
    )
    assert after.assign(before.sites).tolist() == numbers[before.assign(before.sites)].tolist()


def test_the_nearest_neighbour_may_be_across_the_antimeridian():
    before = by_hand([[0, 170], [0, 179.5], [0, -179]])
    after, numbers = merge(before, 1, np.array([5, 5, 5]))
    assert numbers.tolist() == [0, 1, 1]
    assert after.places[1] == pytest.approx([0, -179.75])


def test_an_empty_cell_has_no_weight():
    after, _ = merge(by_hand([[10, 0], [20, 0]]), 0, np.array([0, 3]))
    assert after.places == pytest.approx(np.array([[20.0, 0.0]]))


def test_opposite_places_merge_into_one_of_them():
    after, _ = merge(by_hand([[0, 0], [0, 180]]), 0, np.array([3, 3]))
    assert np.isfinite(after.places).all()


def test_a_single_cell_has_no_neighbour():
    with pytest.raises(OptionError, match="no neighbour"):
        merge(by_hand([[0, 0]]), 0, np.array([1]))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 12), st.integers(0, 99))
@settings(deadline=None)
def test_merging_small_cells_leaves_none_and_loses_nobody(sizes, k, seed):
    places = np.random.default_rng(seed).uniform([-80, -180], [80, 180], size=(len(sizes), 2))
    found = merge_small(by_hand(places), np.array(sizes), k)
    assert found.sizes.sum() == sum(sizes)
    assert found.sizes.min() >= k or len(found.clustering) == 1
    expected = [
        sum(size for size, new in zip(sizes, found.renumbered, strict=True) if new == cell)
        for cell in range(len(found.sizes))
    ]
    assert found.sizes.tolist() == expected
    assert found.merges == len(sizes) - len(found.sizes)
    assert sorted(set(found.renumbered)) == list(range(len(found.clustering)))


@pytest.mark.parametrize(
    "change",
    [
        {"costs": np.zeros(3)},
        {"sites": np.zeros((2, 2))},
        {"cell_of": np.array([0, 2])},
        {"places": np.zeros((3, 2))},
        {"radius": np.zeros(1)},
    ],
)
def test_a_clustering_that_does_not_fit_together_is_refused(change):
    good = {"k": 2, "sites": np.zeros((2, 3)), "costs": np.zeros(2), "cell_of": np.array([0, 1])}
    good |= {"places": np.zeros((2, 2)), "radius": np.zeros(2)}
    Clustering(**good)
    with pytest.raises(DataError):
        Clustering(**(good | change))


def test_a_clustering_shows_no_numbers():
    assert repr(by_hand([[1.25, 2.5]])) == "Clustering(1 cells of 1 sites, k = 2)"


# ---------------------------------------------------------------------------------------------- for tables


@pytest.mark.parametrize("across", [False, True])
def test_tables_with_locations_get_the_same_kind_of_cells(across):
    chance = np.random.default_rng(0)
    latitude, longitude = (
        chance.uniform(-1, 1, 60),
        chance.uniform(-1, 1, 60) + (180 if across else 0),
    )
    longitude = np.where(longitude > 180, longitude - 360, longitude)
    table = {"latitude": latitude, "longitude": longitude}
    schema = mc.Schema(
        quasi=[mc.Column("home", kind="location", latitude="latitude", longitude="longitude")]
    )
    release = mc.anonymize(table, schema, k=6, method="pcl")
    places = np.column_stack(
        [np.asarray(release.table[name], dtype=float) for name in ("latitude", "longitude")]
    )
    assert np.unique(places, axis=0, return_counts=True)[1].min() >= 6
    points = to_points(latitude, longitude)
    ours = cluster(points, 6)[1]
    theirs = np.unique(places, axis=0, return_inverse=True)[1].ravel()
    assert distortion(points, theirs) < 1.3 * distortion(points, ours)
    assert great_circle(points, to_points(*places.T)).max() < 150


def test_degrees_and_points_go_there_and_back():
    latitude, longitude = np.array([-90.0, 0.0, 45.0, 90.0]), np.array([0.0, 180.0, -120.5, 0.0])
    back = to_degrees(to_points(latitude, longitude))
    assert back[0] == pytest.approx(latitude)
    assert back[1][1:3] == pytest.approx(longitude[1:3])
