"""Allocation of tables: frames, distances, options, figures and invalid input."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import microcell as mc
from microcell.errors import DataError, OptionError
from microcell.kernels.arrays import EARTH_RADIUS
from microcell.report.figures.allocation import find_dearest, make_map
from tests.raising import raises

PEOPLE = {"x": [0.0, 1.0, 2.0, 9.0], "who": ["a", "b", "c", "d"]}
CENTRES = {"house": ["west", "east"], "x": [1.0, 8.0], "places": [2, 3]}


def town(n=200, count=6, seed=0, spare=20):
    rng = np.random.default_rng(seed)
    places = 1 + rng.multinomial(n + spare - count, np.full(count, 1 / count))
    people = {
        "latitude": rng.normal(41.4, 0.1, n),
        "longitude": rng.normal(2.1, 0.1, n),
        "z": rng.normal(size=n),
    }
    centres = {
        "latitude": rng.normal(41.4, 0.1, count),
        "longitude": rng.normal(2.1, 0.1, count),
        "places": places,
    }
    return people, centres | {"z": rng.normal(size=count)}


PLACE = ("latitude", "longitude")
FRAMES = {
    "dict": lambda columns: columns,
    "polars": pl.DataFrame,
    "pandas": lambda columns: pd.DataFrame(columns, index=[7, 7, 3, 1][: len(columns["x"])]),
    "pyarrow": pa.table,
}


def column(native, name):
    values = native.column(name) if isinstance(native, pa.Table) else native[name]
    return values.to_pylist() if isinstance(native, pa.Table) else list(values)


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize(
    "name, expected", [("house", ["west", "west", "east", "east"]), (None, [1, 1, 2, 2])]
)
def test_table_keeps_its_frame_type(kind, name, expected):
    people = FRAMES[kind](PEOPLE)
    actual = mc.allocate(people, FRAMES[kind](CENTRES), name=name).table
    assert type(actual) is type(people)
    assert column(actual, "who") == PEOPLE["who"]
    assert column(actual, "centre") == expected
    assert column(actual, "distance") == [1.0, 0.0, 6.0, 1.0]
    assert "centre" not in (people.column_names if kind == "pyarrow" else people)
    if kind == "pandas":
        assert actual.index.tolist() == [7, 7, 3, 1]


def test_files_keep_their_dialect(tmp_path):
    (tmp_path / "people.csv").write_text("who;x\na;0,5\nb;1,5\n", encoding="utf-8")
    (tmp_path / "centres.csv").write_text("x,places\n1,1\n2,1\n", encoding="utf-8")
    actual = mc.allocate(tmp_path / "people.csv", str(tmp_path / "centres.csv"))
    assert isinstance(actual.table, pl.DataFrame)
    mc.write(actual.allocated, tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()
    assert lines == ["who;x;centre;distance", "a;0,5;1;0,5", "b;1,5;2;0,5"]


def test_record_is_consistent():
    people, centres = town()
    actual = mc.allocate(people, centres, columns=["latitude", "z"])
    X, Y = (np.stack([table["latitude"], table["z"]], axis=1) for table in (people, centres))
    table = np.sqrt(((X[:, None] - Y) ** 2).sum(axis=2))
    assert actual.distances == pytest.approx(table[np.arange(len(X)), actual.labels])
    assert actual.nearest == pytest.approx(table.min(axis=1))
    assert (actual.loads == np.bincount(actual.labels, minlength=6)).all()
    assert (actual.loads <= actual.places).all()
    assert (actual.places == centres["places"]).all()
    assert (actual.prices[actual.loads < actual.places] == 0).all()
    assert actual.prices.max() > 0
    assert actual.columns == ("latitude", "z")
    assert actual.centres == (1, 2, 3, 4, 5, 6)


def test_summary_matches_the_allocation():
    people, centres = town()
    actual = mc.allocate(people, centres, location=PLACE)
    summary = actual.summary
    far = actual.distances
    assert summary.distances.mean == pytest.approx(far.mean())
    assert (summary.distances.median, summary.distances.max) == (np.median(far), far.max())
    assert summary.distances.p90 == np.quantile(far, 0.9)
    assert summary.nearest.mean < summary.distances.mean
    assert (summary.points, summary.places, summary.unit) == (200, 220, "km")
    assert [centre.load for centre in summary.centres] == actual.loads.tolist()
    assert [centre.price for centre in summary.centres] == actual.prices.tolist()
    first = summary.centres[0]
    assert first.mean_distance == pytest.approx(far[actual.labels == 0].mean())
    assert summary.as_dict()["centres"][0]["places"] == centres["places"][0]


def test_centre_without_points_has_no_mean_distance():
    actual = mc.allocate({"x": [0.0]}, {"x": [0.0, 9.0], "places": [1, 1]})
    assert actual.summary.centres[1].mean_distance is None


def test_location_distances_are_great_circles_and_chords_are_minimized():
    actual = mc.allocate(
        {"lat": [0.0, 0.0, 90.0], "lon": [179.0, 0.0, 12.0]},
        {"lat": [0.0, 0.0, 0.0], "lon": [-179.0, 90.0, 12.0], "places": [1, 1, 1]},
        location=("lat", "lon"),
    )
    assert actual.labels.tolist() == [0, 2, 1]
    degree = np.pi / 180 * EARTH_RADIUS
    assert actual.distances == pytest.approx([2 * degree, 12 * degree, 90 * degree])
    assert actual.unit == "km"


def test_antipodes_have_a_distance():
    actual = mc.allocate({"a": [90.0], "o": [0.0]}, {"a": [-90.0], "o": [0.0]}, location=["a", "o"])
    assert actual.distances == pytest.approx([np.pi * EARTH_RADIUS])


def test_places_are_divided_equally_by_default():
    people, centres = town(20)
    del centres["places"]
    assert mc.allocate(people, centres, columns="z").loads.tolist() == [4, 4, 3, 3, 3, 3]
    assert mc.allocate({"z": [0.0]}, centres).places.tolist() == [1] * 6
    renamed = {**centres, "beds": [15, 1, 1, 1, 1, 1]}
    assert mc.allocate(people, renamed, columns="z", places="beds").loads[0] == 15


def test_default_columns_are_the_common_ones_without_places_and_names():
    people = {
        "x": [0, 1],
        "y": [0.0, 1.0],
        "places": [1, 2],
        "id": [1, 2],
        "t": ["a", "b"],
        "only": [1, 2],
    }
    centres = {"x": [0, 1], "y": [0.0, 1.0], "places": [1, 2], "id": [9, 8], "t": ["a", "b"]}
    actual = mc.allocate(people, centres, name="id")
    assert actual.columns == ("x", "y")
    assert actual.centres == (9, 8)
    assert actual.table["centre"].tolist() == [9, 8]


def test_standardizing_divides_by_the_deviation_of_the_points():
    people, centres = town()
    plain = mc.allocate(people, centres, columns=["latitude", "z"], standardize=True)
    wide = [{**table, "z": np.asarray(table["z"]) * 1000} for table in (people, centres)]
    scaled = mc.allocate(*wide, columns=["latitude", "z"], standardize=True)
    assert (plain.labels == scaled.labels).all()
    assert plain.distances == pytest.approx(scaled.distances)
    assert plain.points.std(axis=0) == pytest.approx([1, 1])
    assert plain.unit == "standard deviations"


NO_X = {"w": [1.0], "places": [9]}


@pytest.mark.parametrize(
    "people, centres, options, error, expected",
    [
        (PEOPLE, NO_X, {}, OptionError, {"code": "option.invalid", "option": "columns"}),
        (
            PEOPLE,
            CENTRES,
            {"columns": ["y"]},
            OptionError,
            {"code": "option.unknown", "column": "y"},
        ),
        (PEOPLE, NO_X, {"columns": ["x"]}, OptionError, {"code": "option.unknown", "column": "x"}),
        (
            PEOPLE,
            CENTRES,
            {"columns": ["who"]},
            DataError,
            {"code": "data.not_a_number", "column": "who"},
        ),
        (
            PEOPLE,
            CENTRES,
            {"columns": ["x", "x"]},
            OptionError,
            {"code": "option.invalid", "option": "columns"},
        ),
        (
            PEOPLE,
            CENTRES,
            {"columns": []},
            OptionError,
            {"code": "option.invalid", "option": "columns"},
        ),
        (
            PEOPLE,
            CENTRES,
            {"places": "beds"},
            OptionError,
            {"code": "option.unknown", "column": "beds"},
        ),
        (
            PEOPLE,
            CENTRES,
            {"places": "house"},
            DataError,
            {"code": "data.not_a_number", "column": "house"},
        ),
        (
            PEOPLE,
            CENTRES,
            {"name": "beds"},
            OptionError,
            {"code": "option.unknown", "column": "beds"},
        ),
        (
            PEOPLE,
            CENTRES | {"places": [2, 1]},
            {},
            DataError,
            {"code": "data.invalid"},
        ),
        (
            PEOPLE,
            CENTRES | {"places": [4, -1]},
            {},
            DataError,
            {"code": "data.invalid", "row": 2},
        ),
        (
            PEOPLE,
            CENTRES | {"places": [4, 1.5]},
            {},
            DataError,
            {"code": "data.invalid", "row": 2},
        ),
        (
            PEOPLE,
            CENTRES | {"places": [4, None]},
            {},
            DataError,
            {"code": "data.missing_values", "column": "places", "row": 2},
        ),
        (
            PEOPLE | {"x": [0.0, None, None, 1.0]},
            CENTRES,
            {},
            DataError,
            {"code": "data.missing_values", "column": "x", "row": 2},
        ),
        (
            PEOPLE | {"x": [0.0, np.inf, 0.0, 1.0]},
            CENTRES,
            {},
            DataError,
            {"code": "data.not_finite", "column": "x", "row": 2},
        ),
        (
            PEOPLE,
            CENTRES | {"x": [None, None]},
            {"columns": "x"},
            DataError,
            {"code": "data.missing_values", "column": "x", "row": 1},
        ),
        (
            PEOPLE,
            CENTRES | {"house": ["a", "a"]},
            {"name": "house"},
            DataError,
            {"code": "data.bad_key", "column": "house", "row": 2},
        ),
        (
            PEOPLE,
            CENTRES | {"house": ["a", None]},
            {"name": "house"},
            DataError,
            {"code": "data.missing_values", "column": "house", "row": 2},
        ),
        (
            PEOPLE | {"centre": [1, 2, 3, 4]},
            CENTRES,
            {},
            OptionError,
            {"code": "option.conflict", "column": "centre"},
        ),
        (
            PEOPLE | {"distance": [1, 2, 3, 4]},
            CENTRES,
            {},
            OptionError,
            {"code": "option.conflict", "column": "distance"},
        ),
        (
            PEOPLE | {"x": [3.0] * 4},
            CENTRES,
            {"standardize": True},
            DataError,
            {"code": "data.invalid", "column": "x"},
        ),
        ({"x": []}, CENTRES, {}, DataError, {"code": "data.empty"}),
        (
            PEOPLE,
            {"x": np.array([]), "places": np.array([])},
            {},
            DataError,
            {"code": "data.empty"},
        ),
        (*town(), {}, OptionError, {"code": "option.conflict", "option": "columns"}),
        (
            *town(),
            {"location": PLACE, "columns": ["z"]},
            OptionError,
            {"code": "option.conflict", "option": "location"},
        ),
        (
            *town(),
            {"location": PLACE, "standardize": True},
            OptionError,
            {"code": "option.conflict", "option": "location"},
        ),
        (
            *town(),
            {"location": ["latitude"]},
            OptionError,
            {"code": "option.invalid", "option": "location"},
        ),
        (
            {"a": [91], "o": [0]},
            {"a": [0], "o": [0]},
            {"location": ["a", "o"]},
            DataError,
            {"code": "data.out_of_range", "column": "a", "row": 1},
        ),
        (
            {"a": [9], "o": [0]},
            {"a": [0], "o": [181]},
            {"location": ["a", "o"]},
            DataError,
            {"code": "data.out_of_range", "column": "o", "row": 1},
        ),
    ],
)
def test_impossible_allocations_are_rejected(people, centres, options, error, expected):
    with raises(error, **expected):
        mc.allocate(people, centres, **options)


def test_progress_is_reported():
    heard = []
    with mc.listen(lambda *shown: heard.append(shown[0])):
        mc.allocate(PEOPLE, CENTRES)
    assert "allocating 4 points to 2 centres" in heard


@pytest.mark.parametrize(
    "form, start, options",
    [
        ("svg", b"<?xml", {"location": PLACE}),
        ("png", b"\x89PNG", {"columns": PLACE}),
        ("pdf", b"%PDF", {"columns": ["z"]}),
    ],
)
def test_figure_has_three_formats_and_is_reproducible(form, start, options):
    actual = mc.allocate(*town(), **options)
    drawn = mc.plot.allocation(actual, format=form)
    assert drawn.startswith(start)
    assert drawn == mc.plot.allocation(actual, format=form)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"location": PLACE}, ("200 points to 6 centres", "longitude", "latitude")),
        ({"columns": [*PLACE, "z"]}, ("as allocated", "Distance", "Points and places per centre")),
        ({"columns": [*PLACE, "z"], "standardize": True}, ("Distance (standard deviations)",)),
    ],
)
def test_figure_is_labelled(options, words):
    svg = mc.plot.allocation(mc.allocate(*town(), **options)).decode()
    for text in words:
        assert f">{text}</text>" in svg


def test_whole_earth_and_thin_strips_get_charts():
    rng = np.random.default_rng(0)
    wide = [{"a": rng.uniform(-80, 80, n), "o": rng.uniform(-180, 180, n)} for n in (300, 9)]
    assert "Distance (km)" in mc.plot.allocation(mc.allocate(*wide, location=("a", "o"))).decode()
    thin = [{"a": rng.uniform(0, 1, n), "o": rng.uniform(0, 1000, n)} for n in (300, 9)]
    assert "Distance" in mc.plot.allocation(mc.allocate(*thin, columns=("a", "o"))).decode()
    same = [{"a": np.zeros(n), "o": np.zeros(n)} for n in (30, 3)]
    assert mc.plot.allocation(mc.allocate(*same), format="png")


def test_map_across_the_date_line_is_contiguous():
    rng = np.random.default_rng(0)
    longitudes = (rng.uniform(179, 181, 90) + 180) % 360 - 180
    points = {"a": rng.uniform(-1, 1, 90), "o": longitudes}
    sheet = make_map(
        mc.allocate(points, {"a": [0.0], "o": [180.0]}, location=("a", "o")), EARTH_RADIUS
    )
    assert np.ptp(sheet.panel.points[:, 0]) < 2
    assert sheet.aspect == pytest.approx(1, abs=1e-3)
    assert sheet.axis_labels == ("o", "a")


def test_map_of_a_town_has_its_points_in_the_polygons_of_their_centres():
    result = mc.allocate(*town(400, 9), location=PLACE)
    panel = make_map(result, EARTH_RADIUS).panel
    polygons = panel.polygons
    inside = 0
    for point, label in zip(panel.points, result.labels, strict=True):
        corners = polygons.vertices[polygons.starts[label] : polygons.starts[label + 1]]
        edges, towards = np.roll(corners, -1, axis=0) - corners, point - corners
        inside += (edges[:, 0] * towards[:, 1] - edges[:, 1] * towards[:, 0] >= -1e-6).all()
    assert inside >= 0.98 * len(result.labels)


def test_charts_of_many_centres_show_the_most_expensive():
    ones = np.ones(100, dtype=np.int64)
    assert find_dearest(np.arange(100.0), ones, ones).tolist() == list(range(70, 100))


def test_unknown_format_is_rejected():
    with raises(OptionError, "option.unknown", option="format"):
        mc.plot.allocation(mc.allocate(PEOPLE, CENTRES), format="bmp")


# --------------------------------------------------------------------------- demand and weights


def test_demand_is_met_exactly_and_at_least_cost():
    """Against linear programming, with a weight per place and a closed centre."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(4)
    points = {
        "x": rng.normal(size=12),
        "y": rng.normal(size=12),
        "need": rng.integers(1, 6, 12),
        "visits": rng.uniform(0.5, 4, 12),
    }
    centres = {"x": [0.0, 1.0, -1.0], "y": [0.0, 1.0, -1.0], "places": [20, 0, 30]}
    for weight in (None, "visits"):
        result = mc.allocate(points, centres, demand="need", weight=weight)
        rows = [np.flatnonzero(points["x"] == x)[0] for x in result.table["x"]]
        taken = np.bincount(rows, weights=result.table["amount"], minlength=12)
        assert taken.tolist() == points["need"].tolist()
        assert (
            result.loads.tolist()
            == np.bincount(result.labels, weights=result.amounts, minlength=3).astype(int).tolist()
        )
        assert (result.loads <= [20, 0, 30]).all()
        assert len(rows) < 12 + 3
        each = points["need"] if weight is None else points[weight]
        gaps = [(points[c][:, None] - np.array(centres[c])) ** 2 for c in ("x", "y")]
        costs = (each / points["need"])[:, None] * sum(gaps)
        best = linprog(
            costs.ravel(),
            A_eq=np.repeat(np.eye(12), 3, axis=1),
            b_eq=points["need"],
            A_ub=np.tile(np.eye(3), 12),
            b_ub=[20, 0, 30],
        )
        actual = sum(
            costs[row, q] * a for row, q, a in zip(rows, result.labels, result.amounts, strict=True)
        )
        assert actual == pytest.approx(best.fun, rel=1e-9)


def test_a_centre_without_places_is_closed():
    points, centres = {"x": [0.0, 0.1, 5.0]}, {"x": [0.0, 4.0, 9.0], "places": [0, 2, 3]}
    result = mc.allocate(points, centres)
    assert result.labels.tolist() == [1, 1, 2]
    assert (result.loads.tolist(), result.prices[0]) == ([0, 2, 1], 0)
    with raises(DataError, "data.invalid", missing=3):
        mc.allocate(points, {"x": [0.0], "places": [0]})


@pytest.mark.parametrize("need", [[0, 1], [1.5, 1], [-1, 2]])
def test_invalid_demand_is_rejected_with_its_row(need):
    points = {"x": [0.0, 1.0], "need": need}
    with raises(DataError, "data.invalid", column="need", row=1):
        mc.allocate(points, {"x": [0.0]}, demand="need")
    with raises(DataError, "data.bad_weight", column="need"):
        mc.allocate({"x": [0.0, 1.0], "need": [0, 1]}, {"x": [0.0]}, weight="need")
