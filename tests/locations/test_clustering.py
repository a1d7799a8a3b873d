"""Clustering on the Earth: sizes, assignment, places, merging, poles and the antimeridian."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.cells import PowerCells
from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.locations import Clustering, cluster, merge
from microcell.locations.clustering import (
    EARTH_RADIUS,
    great_circle,
    merge_small,
    to_degrees,
    to_points,
)
from tests.raising import raises


def make_city(n, seed=0):
    """Towns of very different sizes, and some devices in between."""
    rng = np.random.default_rng(seed)
    towns, weights = rng.uniform([36, -9], [60, 30], size=(40, 2)), 1 / np.arange(1, 41)
    town = rng.choice(40, size=n, p=weights / weights.sum())
    places = towns[town] + rng.normal(scale=0.05, size=(n, 2)) * np.sqrt(
        rng.exponential(size=(n, 1))
    )
    rural = rng.random(n) < 0.1
    places[rural] = rng.uniform([36, -9], [60, 30], size=(int(rural.sum()), 2))
    return to_points(*places.T)


def distortion(points, labels):
    """Mean squared distance to the mean of the cell, computed naively."""
    return sum(
        ((points[labels == cell] - points[labels == cell].mean(axis=0)) ** 2).sum()
        for cell in set(labels)
    ) / len(points)


def make_sites(centroids, costs=None):
    count = len(centroids)
    costs = np.zeros(count) if costs is None else costs
    return PowerCells(centroids=centroids, sizes=np.full(count, 2), k=2, costs=costs)


def plain_cell(clustering, point):
    """Naive assignment to a cell."""
    totals = [
        sum((point - site) ** 2) + cost
        for site, cost in zip(clustering.sites.centroids, clustering.sites.costs, strict=True)
    ]
    return clustering.cell_of[totals.index(min(totals))]


def check(clustering, labels, points, k):
    sizes = np.bincount(labels, minlength=len(clustering))
    assert len(sizes) == len(clustering) == len(points) // k
    assert sizes.min() >= k
    assert sizes.max() - sizes.min() <= 1
    for cell in range(len(clustering)):
        members = points[labels == cell]
        mean = members.mean(axis=0, keepdims=True)
        if np.linalg.norm(mean) > 1:
            place = to_points(*clustering.places[[cell]].T)
            assert great_circle(place, mean)[0] < 1e-3
            far = great_circle(members, np.repeat(mean, len(members), axis=0))
            assert clustering.radius[cell] == pytest.approx(
                np.sqrt((far**2).mean()), rel=1e-6, abs=1e-4
            )
    assert np.isfinite(clustering.places).all()
    assert (np.abs(clustering.places) <= [90, 180]).all()


def test_cells_have_equal_sizes_and_assign_any_point():
    points = make_city(2_000)
    clustering, labels = cluster(points, 40)
    check(clustering, labels, points, 40)
    assert (clustering.assign(points) == labels).all()
    others = make_city(50, seed=1)
    assert clustering.assign(others).tolist() == [plain_cell(clustering, point) for point in others]


def test_distortion_is_at_least_15_percent_below_mdav():
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
def test_warm_start_with_more_or_fewer_devices(n):
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


def test_many_cells_still_form_a_single_diagram():
    points = make_city(4_100)
    clustering, labels = cluster(points, 2)
    assert len(clustering) == 2_050
    check(clustering, labels, points, 2)
    assert (clustering.assign(points) == labels).all()


@pytest.mark.parametrize("start", [False, True])
def test_the_antimeridian_is_not_a_border(start):
    rng = np.random.default_rng(0)
    longitude = np.concatenate(
        [rng.uniform(179.9, 180, 20), rng.uniform(-180, -179.9, 20), np.full(40, 100.0)]
    )
    latitude = np.concatenate([rng.uniform(-0.1, 0.1, 40), rng.uniform(50, 50.1, 40)])
    points = to_points(latitude, longitude)
    warm = cluster(points, 40)[0] if start else None
    clustering, labels = cluster(points, 40, start=warm)
    assert len(set(labels[:40])) == len(set(labels[40:])) == 1
    assert abs(abs(clustering.places[labels[0], 1]) - 180) < 0.1


def test_cell_around_the_pole():
    points = to_points(np.full(8, 89.99), np.arange(8) * 45.0)
    clustering, labels = cluster(points, 8)
    assert set(labels) == {0}
    assert clustering.places[0, 0] == pytest.approx(90, abs=1e-6)
    assert clustering.radius[0] == pytest.approx(0.01 * np.pi / 180 * EARTH_RADIUS, rel=1e-3)


@pytest.mark.parametrize("n", [4, 7, 20])
def test_all_devices_at_one_location(n):
    points = to_points(np.full(n, 41.0), np.full(n, 2.0))
    clustering, labels = cluster(points, 4)
    assert np.bincount(labels).min() >= 4
    assert clustering.places == pytest.approx(np.tile([41.0, 2.0], (n // 4, 1)))
    again, labels = cluster(points, 4, start=clustering)
    assert np.bincount(labels).min() >= 4
    assert set(again.assign(points)) <= set(range(len(again)))


def test_balanced_places_still_get_a_valid_place():
    points = to_points(np.array([0.0, 0.0]), np.array([0.0, 180.0]))
    assert np.isfinite(cluster(points, 2)[0].places).all()


def test_fewer_devices_than_k_raise():
    with raises(TooFewRecordsError, "guarantee.too_few_records", records=3, k=4):
        cluster(make_city(3), 4)


@given(st.integers(0, 10_000), st.integers(2, 9), st.integers(2, 60))
def test_any_places_form_cells_of_at_least_k(seed, k, n):
    rng = np.random.default_rng(seed)
    places = rng.uniform([-90, -180], [90, 180], size=(max(k, n), 2)).round(
        int(rng.integers(-1, 3))
    )
    points = to_points(*np.clip(places, [-90, -180], [90, 180]).T)
    clustering, labels = cluster(points, k)
    check(clustering, labels, points, k)


# -------------------------------------------------------------------------------- merging


def by_hand(places):
    places = np.array(places, dtype=float)
    count = len(places)
    return Clustering(make_sites(to_points(*places.T)), np.arange(count), places, np.ones(count))


def test_merged_cells_are_placed_at_their_weighted_mean():
    before = by_hand([[0, 0], [0, 90], [0, 4], [0, -60]])
    after, numbers = merge(before, 2, np.array([30, 9, 10, 9]))
    assert numbers.tolist() == [0, 1, 0, 2]
    assert after.places.round(2).tolist() == [[0, 1.0], [0, 90], [0, -60]]
    assert after.cell_of.tolist() == [0, 1, 0, 2]
    degree = np.pi / 180 * EARTH_RADIUS
    sites = before.sites.centroids
    assert after.radius[0] == pytest.approx(
        np.sqrt(1 + (30 * 1**2 + 10 * 3**2) / 40 * degree**2), rel=1e-3
    )
    assert after.assign(sites).tolist() == numbers[before.assign(sites)].tolist()


def test_the_nearest_neighbour_may_be_across_the_antimeridian():
    before = by_hand([[0, 170], [0, 179.5], [0, -179]])
    after, numbers = merge(before, 1, np.array([5, 5, 5]))
    assert numbers.tolist() == [0, 1, 1]
    assert after.places[1] == pytest.approx([0, -179.75])


def test_an_empty_cell_has_no_weight():
    after, _ = merge(by_hand([[10, 0], [20, 0]]), 0, np.array([0, 3]))
    assert after.places == pytest.approx(np.array([[20.0, 0.0]]))


def test_a_merged_cell_extends_no_farther_than_the_reach():
    """Three cells 67 km apart: the third is in reach of the second, but not of the first."""
    row = by_hand([[0, 0], [0, 0.6], [0, 1.2]])
    actual = merge_small(row, np.array([1, 2, 2]), 4, reach=100.0)
    assert (actual.sizes.tolist(), actual.merges) == ([3, 2], 1)
    assert actual.renumbered.tolist() == [0, 0, 1]
    assert merge_small(row, np.array([1, 2, 2]), 4).sizes.tolist() == [5]
    assert merge_small(row, np.array([1, 2, 2]), 4, reach=50.0).merges == 0


def test_antipodes_merge_into_one_of_them():
    after, _ = merge(by_hand([[0, 0], [0, 180]]), 0, np.array([3, 3]))
    assert np.isfinite(after.places).all()


def test_a_single_cell_has_no_neighbour():
    with raises(OptionError, "option.invalid"):
        merge(by_hand([[0, 0]]), 0, np.array([1]))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 12), st.integers(0, 99))
def test_merging_leaves_no_small_cell_and_loses_no_device(sizes, k, seed):
    places = np.random.default_rng(seed).uniform([-80, -180], [80, 180], size=(len(sizes), 2))
    actual = merge_small(by_hand(places), np.array(sizes), k)
    assert actual.sizes.sum() == sum(sizes)
    assert actual.sizes.min() >= k or len(actual.clustering) == 1
    expected = [
        sum(size for size, new in zip(sizes, actual.renumbered, strict=True) if new == cell)
        for cell in range(len(actual.sizes))
    ]
    assert actual.sizes.tolist() == expected
    assert actual.merges == len(sizes) - len(actual.sizes)
    assert sorted(set(actual.renumbered)) == list(range(len(actual.clustering)))


@pytest.mark.parametrize(
    "change",
    [
        {"sites": make_sites(np.zeros((3, 3)))},
        {"sites": make_sites(np.zeros((2, 2)))},
        {"cell_of": np.array([0, 2])},
        {"places": np.zeros((3, 2))},
        {"radius": np.zeros(1)},
    ],
)
def test_inconsistent_clustering_is_rejected(change):
    good = {"sites": make_sites(np.zeros((2, 3))), "cell_of": np.array([0, 1])}
    good |= {"places": np.zeros((2, 2)), "radius": np.zeros(2)}
    Clustering(**good)
    with raises(DataError, "data.invalid"):
        Clustering(**(good | change))


def test_repr_shows_no_coordinates():
    assert repr(by_hand([[1.25, 2.5]])) == "Clustering(cells=1, sites=1)"


# -------------------------------------------------------------------------------- for tables


@pytest.mark.parametrize("across", [False, True])
def test_tables_with_locations_get_the_same_kind_of_cells(across):
    rng = np.random.default_rng(0)
    latitude, longitude = (
        rng.uniform(-1, 1, 60),
        rng.uniform(-1, 1, 60) + (180 if across else 0),
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


def test_degrees_and_points_round_trip():
    latitude, longitude = np.array([-90.0, 0.0, 45.0, 90.0]), np.array([0.0, 180.0, -120.5, 0.0])
    back = to_degrees(to_points(latitude, longitude))
    assert back[0] == pytest.approx(latitude)
    assert back[1][1:3] == pytest.approx(longitude[1:3])
