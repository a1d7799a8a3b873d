"""Cell polygons: points inside a polygon are assigned to its cell, anywhere on the Earth."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.cells import PowerCells
from microcell.locations.clustering import EARTH_RADIUS, Clustering, cluster, to_degrees, to_points
from microcell.locations.polygons import cell_polygons

# -------------------------------------------------------------------------------- plain oracles


def polygons_of(geometry):
    assert set(geometry) == {"type", "coordinates"}
    assert geometry["type"] in {"Polygon", "MultiPolygon"}
    return [geometry["coordinates"]] if geometry["type"] == "Polygon" else geometry["coordinates"]


def rings_of(geometry):
    return [ring for polygon in polygons_of(geometry) for ring in polygon]


def are_inside(geometry, latitude, longitude):
    """Return for each place if an eastward ray crosses the rings an odd number of times."""
    odd = np.zeros(len(latitude), dtype=bool)
    for ring in rings_of(geometry):
        for (x0, y0), (x1, y1) in pairwise(ring):
            if y0 != y1:
                odd ^= ((y0 > latitude) != (y1 > latitude)) & (
                    x0 + (latitude - y0) * (x1 - x0) / (y1 - y0) > longitude
                )
    return odd


def is_inside(geometry, latitude, longitude):
    return bool(are_inside(geometry, np.array([latitude]), np.array([longitude]))[0])


def area_of(ring):
    """Area on the sphere in km², integrating longitude over the sine of latitude."""
    total = 0.0
    for (x0, y0), (x1, y1) in pairwise(ring):
        steps = np.linspace(0.0, 1.0, 2 if max(abs(x1 - x0), abs(y1 - y0)) < 0.1 else 33)
        x, sine = np.radians(x0 + (x1 - x0) * steps), np.sin(np.radians(y0 + (y1 - y0) * steps))
        total += float(((x[1:] + x[:-1]) / 2 * np.diff(sine)).sum())
    return total * EARTH_RADIUS**2


def flat_area(ring):
    return sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in pairwise(ring)) / 2


def crosses(a, b, c, d):
    """Return True if two segments cross at a point inside both."""

    def turn(p, q, r):
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    slack = 1e-12
    return min(turn(a, b, c), turn(a, b, d)) < -slack < slack < max(
        turn(a, b, c), turn(a, b, d)
    ) and min(turn(c, d, a), turn(c, d, b)) < -slack < slack < max(turn(c, d, a), turn(c, d, b))


def check_form(geometries):
    """Check RFC 7946: closed, oriented rings within range that do not cross themselves."""
    json.dumps(geometries, allow_nan=False)
    for geometry in geometries:
        for polygon in polygons_of(geometry):
            for place, ring in enumerate(polygon):
                assert ring[0] == ring[-1]
                assert len({tuple(corner) for corner in ring}) == len(ring) - 1 >= 3
                assert all(-180 <= x <= 180 and -90 <= y <= 90 for x, y in ring)
                assert (flat_area(ring) > 0) == (place == 0)
                # Only a side along a pole may span more than half the Earth.
                assert all(abs(a[0] - b[0]) < 180 or abs(a[1]) == 90 for a, b in pairwise(ring))
                sides = list(pairwise(ring))
                if len(sides) < 40:
                    assert not any(crosses(*one, *other) for one in sides for other in sides)


def check_places(clustering, geometries, latitude, longitude, *, slack):
    """Check that places belong to the cell of their polygon, up to ``slack`` at borders."""
    points = to_points(latitude, longitude)
    sites, costs = clustering.sites.centroids, clustering.sites.costs
    sums = ((points[:, np.newaxis] - sites) ** 2).sum(axis=2) + costs
    cells = clustering.cell_of[sums.argmin(axis=1)]
    np.testing.assert_array_equal(cells, clustering.assign(points))
    inside = np.stack(
        [are_inside(geometry, latitude, longitude) for geometry in geometries], axis=1
    )
    assert inside.sum(axis=1).max(initial=0) <= 1
    checked = 0
    for row, (cell, within) in enumerate(zip(cells, inside, strict=True)):
        others = sums[row][clustering.cell_of != cell]
        if len(others) == 0:
            checked += int(within.any())
            continue
        rival = np.flatnonzero(clustering.cell_of != cell)[others.argmin()]
        nearest = sums[row].argmin()
        distance = np.linalg.norm(sites[nearest] - sites[rival])
        size = max(distance, np.sqrt(sums[row].min() - min(0.0, costs.min())))
        near = others.min() - sums[row].min() < 2 * distance * slack * size
        if within.any() and not near:
            assert within.argmax() == cell
            checked += 1
    return checked, inside


def area_in_all(geometries):
    return sum(area_of(ring) for geometry in geometries for ring in rings_of(geometry))


# -------------------------------------------------------------------------------- examples


def make_sites(centroids, costs):
    return PowerCells(centroids=centroids, sizes=np.full(len(centroids), 2), k=2, costs=costs)


def make(latitude, longitude, *, radius=5.0, costs=None, cell_of=None, deep=1.0):
    sites = to_points(np.asarray(latitude, dtype=float), np.asarray(longitude, dtype=float)) * deep
    cell_of = np.arange(len(sites)) if cell_of is None else np.asarray(cell_of)
    places = np.zeros((cell_of.max() + 1, 2))
    places[cell_of] = np.stack([latitude, longitude], axis=1)
    costs = np.zeros(len(sites)) if costs is None else np.asarray(costs, dtype=float)
    return Clustering(
        make_sites(sites, costs), cell_of, places, np.full(len(places), float(radius))
    )


def around(latitude, longitude, kilometres, count, seed):
    """Normally distributed places around one, also across the antimeridian and the poles."""
    rng = np.random.default_rng(seed)
    middle = to_points(np.array([latitude]), np.array([longitude]))[0]
    east = np.cross([0.0, 0.0, 1.0], middle) if abs(latitude) < 89 else np.array([1.0, 0.0, 0.0])
    north = np.cross(middle, east)
    steps = rng.normal(size=(count, 2)) * kilometres
    points = (
        middle
        + steps[:, :1] * east / np.linalg.norm(east)
        + steps[:, 1:] * north / np.linalg.norm(north)
    )
    return to_degrees(points)


def over_the_earth(count, seed):
    return to_degrees(np.random.default_rng(seed).normal(size=(count, 3)))


@pytest.mark.parametrize(
    ("latitude", "longitude"),
    [
        (41.4, 2.2),
        (0.0, 0.0),
        (-17.0, 179.95),
        (65.0, -179.99),
        (90.0, 0.0),
        (-90.0, 0.0),
        (89.9, 120.0),
        (-60.0, 180.0),
    ],
)
def test_places_belong_to_the_cell_of_their_polygon(latitude, longitude):
    clustering = make(
        *around(latitude, longitude, 20, 40, 0), costs=np.random.default_rng(1).uniform(0, 40, 40)
    )
    geometries = cell_polygons(clustering)
    check_form(geometries)
    checked, inside = check_places(
        clustering, geometries, *around(latitude, longitude, 20, 600, 2), slack=2e-3
    )
    assert checked > 500
    assert inside.any(axis=1).mean() > 0.95


def test_borders_of_cells_all_over_the_earth():
    clustering = make(
        *over_the_earth(60, 0), radius=500, costs=np.random.default_rng(1).uniform(0, 5e5, 60)
    )
    geometries = cell_polygons(clustering)
    check_form(geometries)
    checked, inside = check_places(clustering, geometries, *over_the_earth(600, 2), slack=1e-2)
    assert checked > 550
    assert (inside.sum(axis=1) == 1).all()
    assert area_in_all(geometries) == pytest.approx(4 * np.pi * EARTH_RADIUS**2, rel=1e-5)


def test_merged_cells_have_no_border_inside():
    latitude, longitude = around(41.4, 2.2, 20, 60, 0)
    cell_of = np.arange(60) // 3
    alone, merged = make(latitude, longitude), make(latitude, longitude, cell_of=cell_of)
    geometries, parts = cell_polygons(merged), cell_polygons(alone)
    check_form(geometries)
    assert check_places(merged, geometries, *around(41.4, 2.2, 20, 400, 1), slack=2e-3)[0] > 300
    for cell, geometry in enumerate(geometries):
        whole = sum(area_of(ring) for ring in rings_of(geometry))
        pieces = sum(
            area_of(ring)
            for site in np.flatnonzero(cell_of == cell)
            for ring in rings_of(parts[site])
        )
        assert whole == pytest.approx(pieces, rel=1e-5)
    assert any(geometry["type"] == "MultiPolygon" for geometry in geometries)
    everything = cell_polygons(make(latitude, longitude, cell_of=np.zeros(60, dtype=int)))
    assert everything[0]["type"] == "Polygon"
    assert len(everything[0]["coordinates"]) == 1


def test_merged_cells_all_over_the_earth():
    clustering = make(*over_the_earth(60, 0), radius=500, cell_of=np.arange(60) % 20)
    geometries = cell_polygons(clustering)
    check_form(geometries)
    assert check_places(clustering, geometries, *over_the_earth(400, 2), slack=1e-2)[0] > 350
    assert area_in_all(geometries) == pytest.approx(4 * np.pi * EARTH_RADIUS**2, rel=1e-5)


def test_a_cell_around_the_pole_contains_it():
    clustering = make([90.0, 89.0, 89.0, 89.0], [0.0, 0.0, 120.0, -120.0], radius=30)
    geometries = cell_polygons(clustering)
    check_form(geometries)
    longitudes = (-179.0, 0.0, 90.0)
    inside = [is_inside(geometry, 89.9, x) for geometry in geometries for x in longitudes]
    assert inside == [True, True, True, *[False] * 9]
    assert max(y for ring in rings_of(geometries[0]) for _, y in ring) == 90.0


def test_a_cell_with_holes():
    """Two polar caps, where 2 z 5000 > 5000^2 + 1.5e7, and the rest around the Earth's centre."""
    sites = np.array([[0.0, 0.0, 5000.0], [0.0, 0.0, -5000.0], [0.0, 0.0, 0.0]])
    places = np.array([[90.0, 0.0], [-90.0, 0.0], [0.0, 0.0]])
    clustering = Clustering(
        make_sites(sites, [0.0, 0.0, -1.5e7]), np.arange(3), places, np.full(3, 3000.0)
    )
    geometries = cell_polygons(clustering)
    check_form(geometries)
    checked, inside = check_places(clustering, geometries, *over_the_earth(400, 1), slack=1e-2)
    assert checked > 300
    assert [is_inside(geometry, 45.0, 10.0) for geometry in geometries] == [True, False, False]
    assert [is_inside(geometry, 35.0, 10.0) for geometry in geometries] == [False, False, True]
    assert (inside.sum(axis=1) == 1).all()


def test_a_hole_lies_in_a_polygon():
    """One cell cuts a hole out of another whose sites surround it."""
    ring = [(np.cos(turn) * 10, np.sin(turn) * 10) for turn in 2 * np.pi * np.arange(5) / 5]
    latitude, longitude = np.array([(0.0, 0.0), *ring]).T
    geometries = cell_polygons(
        make(latitude / 111.2, longitude / 111.2, cell_of=[0, 1, 1, 1, 1, 1])
    )
    check_form(geometries)
    assert [len(polygon) for polygon in polygons_of(geometries[1])] == [2]
    assert not is_inside(geometries[1], 0.0, 0.0)
    assert is_inside(geometries[0], 0.0, 0.0)


def test_a_single_cell_is_a_disc_of_three_radii():
    geometries = cell_polygons(make([48.0], [11.0], radius=5.0))
    check_form(geometries)
    assert sum(area_of(ring) for ring in rings_of(geometries[0])) == pytest.approx(
        np.pi * 15**2, rel=0.05
    )
    whole = cell_polygons(make([48.0], [11.0], radius=5000.0))
    assert area_in_all(whole) == pytest.approx(4 * np.pi * EARTH_RADIUS**2, rel=1e-9)


def test_cells_at_one_location():
    geometries = cell_polygons(make([48.0, 48.0, 48.0], [11.0, 11.0, 11.0], radius=0.0))
    check_form(geometries)
    assert is_inside(geometries[0], 48.0, 11.0)
    assert geometries[1] == geometries[2] == {"type": "MultiPolygon", "coordinates": []}
    cheaper = cell_polygons(make([48.0, 48.0], [11.0, 11.0], radius=0.0, costs=[1.0, 0.0]))
    assert cheaper[0]["coordinates"] == []
    assert is_inside(cheaper[1], 48.0, 11.0)


def test_cells_on_a_line_and_very_near_each_other():
    for step in (1e-6, 1e-3, 1.0, 20.0):
        clustering = make(np.full(5, 10.0), 20.0 + step * np.arange(5), radius=0.1)
        geometries = cell_polygons(clustering)
        check_form(geometries)
        at = 20.0 + step * np.arange(5)
        assert [
            is_inside(geometry, 10.0, place) for geometry, place in zip(geometries, at, strict=True)
        ] == [True] * 5


def test_opposite_cells_share_the_earth():
    geometries = cell_polygons(make([10.0, -10.0], [30.0, -150.0], radius=1000))
    check_form(geometries)
    halves = [sum(area_of(ring) for ring in rings_of(geometry)) for geometry in geometries]
    assert halves == pytest.approx([2 * np.pi * EARTH_RADIUS**2] * 2, rel=1e-3)


def test_polygons_depend_only_on_sites_and_costs():
    one = make(*around(41.4, 2.2, 20, 20, 0))
    other = Clustering(one.sites, one.cell_of, one.places + 1.0, one.radius)
    assert cell_polygons(one) == cell_polygons(other)


@given(
    latitude=st.floats(-90, 90),
    longitude=st.floats(-180, 180),
    scale=st.sampled_from([0.05, 3.0, 100.0, 1500.0]),
    count=st.integers(1, 25),
    merged=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_any_cells_anywhere(latitude, longitude, scale, count, merged, seed):
    rng = np.random.default_rng(seed)
    clustering = make(
        *around(latitude, longitude, scale, count, seed),
        radius=scale / 2,
        costs=rng.uniform(0, scale**2 / 4, count),
        cell_of=np.arange(count) // merged,
        deep=rng.uniform(0.9999, 1.0) if scale > 50 else 1.0,
    )
    geometries = cell_polygons(clustering)
    check_form(geometries)
    check_places(
        clustering, geometries, *around(latitude, longitude, scale, 60, seed + 1), slack=1e-2
    )


def test_thousand_cells_tile_their_window():
    latitude, longitude = around(41.4, 2.2, 20, 1000, 0)
    clustering = make(latitude, longitude, radius=1.0)
    geometries = cell_polygons(clustering)
    window = cell_polygons(make(latitude, longitude, radius=1.0, cell_of=np.zeros(1000, dtype=int)))
    assert area_in_all(geometries) == pytest.approx(area_in_all(window), rel=1e-6)
    assert all(geometry["type"] == "Polygon" for geometry in geometries)
    assert all(is_inside(geometries[cell], latitude[cell], longitude[cell]) for cell in range(1000))


@pytest.mark.parametrize("stray", [(-30.0, 100.0), (2.0, 2.0)])
def test_a_stray_device_does_not_distort_other_polygons(stray):
    """Its cell spans the Earth; only the cells next to it may be drawn inaccurately."""
    rng = np.random.default_rng(0)
    latitude, longitude = np.append(rng.normal([41.4, 2.2], 0.05, (300, 2)), [stray], axis=0).T
    points = to_points(latitude, longitude)
    clustering, _ = cluster(points, 5)
    assert len(clustering) == 60
    cells, right = clustering.assign(points), 0
    for number, geometry in enumerate(cell_polygons(clustering)):
        right += np.array_equal(are_inside(geometry, latitude, longitude), cells == number)
    assert right >= 54
