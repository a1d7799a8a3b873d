"""Representatives: one value per cell, in the column's precision and type."""

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.kinds.groups import decimals
from microcell.model import Column, Schema, Values
from microcell.release.aggregate import represent
from microcell.schema.resolve import resolve
from tests.small_tables import table, values


def published(column, labels, items, weights=None, **more):
    source = table(x=items)
    schema = resolve(Schema(quasi=[Column("x", **column, **more)]), source)
    return represent(
        source, schema, np.array(labels), None if weights is None else np.array(weights)
    )["x"]


def test_means_are_rounded_to_the_columns_decimals():
    assert published({}, [0, 0, 1, 1], [1.25, 1.5, 3.0, 4.0]).values.tolist() == [1.38, 3.5]
    assert published({}, [0, 0, 0], [1, 2, 2]).values.tolist() == [2]
    assert published({}, [0, 0, 0], [1, 2, 2]).values.dtype == np.int64


def test_full_precision_is_kept():
    items = [0.1234567890123456, 0.9876543210987654]
    assert published({}, [0, 0], items).values[0] == pytest.approx(np.mean(items), rel=1e-15)


def test_large_whole_numbers_are_exact():
    assert published({}, [0, 0, 1, 1], [2**62, 2**62 + 2, 5, 5]).values.tolist() == [2**62 + 1, 5]
    assert published({}, [0, 0], [-(2**63), 2**63 - 1]).values.tolist()[0] in (-1, 0)
    assert published({}, [0, 0], [1.6e308, 1.7e308]).values[0] == pytest.approx(1.65e308)


def test_no_negative_zero():
    result = published({}, [0, 0, 1, 1], [-0.1, 0.0, 0.5, 0.5]).values
    assert result[0] == 0
    assert not np.signbit(result[0])


@pytest.mark.parametrize("outlier", [1e15, 1e17, 1e20, 1e300])
@pytest.mark.parametrize("publish", ["mean", "median"])
def test_an_outlier_does_not_affect_other_cells(outlier, publish):
    items = [1.0, 2.0, 3.0, outlier, outlier]
    assert published({"publish": publish}, [0, 0, 0, 1, 1], items).values.tolist() == [2.0, outlier]


def test_weighted_mean():
    assert published({}, [0, 0], [1.0, 5.0], weights=[3.0, 1.0]).values.tolist() == [2.0]


@pytest.mark.parametrize(
    ("items", "expected"),
    [([1, 2, 9], 2), ([1, 2, 4, 9], 3), ([5, 5], 5), ([1.5, 2.5, 3.5, 9.5], 3.0)],
)
def test_medians(items, expected):
    assert published({"publish": "median"}, [0] * len(items), items).values.tolist() == [expected]


def test_weighted_median():
    assert published(
        {"publish": "median"}, [0, 0, 0], [1, 2, 9], weights=[1.0, 1.0, 5.0]
    ).values.tolist() == [9]


def test_weighted_medians_with_weights_of_very_different_size():
    items, weights = [1, 2, 3, 4, 5, 100, 200, 300, 400, 500], [1e15] * 5 + [1e-3] * 5
    result = published({"publish": "median"}, [0] * 5 + [1] * 5, items, weights=weights)
    assert result.values.tolist() == [3, 300]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-50, 50)), min_size=1, max_size=40))
def test_medians_equal_numpy(pairs):
    labels = np.unique([label for label, _ in pairs], return_inverse=True)[1]
    items = [float(value) for _, value in pairs]
    items[0] += 0.5  # one decimal, so that the middle of two whole numbers can be published
    result = published({"publish": "median"}, labels, items).values
    for cell in range(labels.max() + 1):
        exact = np.median(np.array(items)[labels == cell])
        assert abs(result[cell] - exact) <= 0.05 + 1e-9


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([29, 21, 25], "20-30"),
        ([20, 20], "20"),
        ([-5, -1], "-5 to -1"),
        ([-0.0, 0.0], "0.0"),
        ([1.5, 2.0], "1.4-2.0"),
        ([0.25, 1.5], "0.0-1.5"),
        ([0.3, 0.6], "0.3-0.6"),
        ([1e300, 3e300], "1e300-3e300"),
        ([2e-30, 9e-30], "2e-30-10e-30"),
        ([2**62 - 1, 2**62 + 9], "4611686018427387900-4611686018427387915"),
        ([48_000, 51_000, 9_876_543], "0-10000000"),
    ],
)
def test_ranges(items, expected):
    result = published({"publish": "range"}, [0] * len(items), items)
    assert result.how == "text"
    assert result.values.tolist() == [expected]


def test_the_mode_is_a_row_with_the_most_frequent_value_and_ties_go_to_the_lowest():
    result = published({}, [0, 0, 0, 1, 1], ["b", "a", "b", "z", "y"])
    assert result.how == "row"
    assert result.values.tolist() == [0, 4]
    assert published({}, [0, 0, 0], ["b", "a", "b"], weights=[1.0, 9.0, 1.0]).values.tolist() == [1]


def test_the_ordinal_median_is_a_category_of_the_cell():
    result = published(
        {"order": ["low", "middle", "high"]},
        [0, 0, 0, 1, 1],
        ["high", "low", "middle", "high", "low"],
    )
    assert result.how == "row"
    assert result.values.tolist() == [2, 4]  # of two, the lower


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (["94110", "94210"], "94***"),
        (["94110", "94110"], "94110"),
        (["10", "20"], "**"),
        (["941", "94110"], "941**"),
        ([94110, 94210], "94***"),
    ],
)
def test_codes_publish_their_common_prefix(items, expected):
    assert published({"kind": "code"}, [0] * len(items), items).values.tolist() == [expected]


@given(st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=8))
def test_the_prefix_is_the_longest_common_one(items):
    text = published({"kind": "code"}, [0] * len(items), items).values[0]
    prefix = text.rstrip("*")
    assert all(item.startswith(prefix) for item in items)
    assert len(text) == max(map(len, items))
    longer = {item[: len(prefix) + 1] for item in items}
    assert len(longer) > 1 or min(map(len, items)) == len(prefix)


def test_dates_keep_their_resolution():
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 4)]
    assert published({}, [0, 0], days).values.tolist() == [18262 + 2]
    hours = [
        datetime.datetime(2020, 1, 1, 5),
        datetime.datetime(2020, 1, 1, 8),
        datetime.datetime(2020, 1, 1, 9),
    ]
    mean = np.datetime64(int(published({}, [0, 0, 0], hours).values[0]), "us")
    assert mean == np.datetime64("2020-01-01T07")
    midnights = [
        datetime.datetime(2020, 1, day, 23) for day in (1, 2, 4)
    ]  # of a zone one hour east
    mean = np.datetime64(int(published({}, [0, 0, 0], midnights).values[0]), "us")
    assert mean == np.datetime64("2020-01-02T23")


def location(latitudes, longitudes, labels):
    source = table(lat=latitudes, lon=longitudes)
    column = Column("home", kind="location", latitude="lat", longitude="lon")
    result = represent(source, resolve(Schema(quasi=[column]), source), np.array(labels))
    return result["lat"].values.tolist(), result["lon"].values.tolist()


def test_locations_are_averaged_on_the_sphere():
    assert location([0.0, 0.0], [179.5, -179.5], [0, 0])[1][0] in (180.0, -180.0)
    assert location([41.25, 41.25], [1.75, 1.75], [0, 0]) == ([41.25], [1.75])
    latitude, longitude = location([10.0, 20.0], [30.0, 30.0], [0, 0])
    assert (latitude, longitude) == ([15.0], [30.0])


def test_missing_members_are_ignored_and_empty_cells_publish_missing():
    for items, column in (
        ([1.0, None, None], {}),
        (["a", None, None], {}),
        (["941", None, None], {"kind": "code"}),
    ):
        result = published(column, [0, 0, 1], items)
        assert result.missing.tolist() == [False, True]
    assert published({}, [0, 0, 0], [10, None, 20]).values.tolist() == [
        15
    ]  # not divided by all three
    assert published({"publish": "median"}, [0, 0, 0], [10, None, 20]).values.tolist() == [15]
    assert published({"publish": "range"}, [0, 0, 0], [10, None, 20]).values.tolist() == ["10-20"]


def test_an_empty_column_publishes_missing():
    assert published({}, [0, 0], [None, None]).missing.tolist() == [True]


@pytest.mark.parametrize(
    ("items", "expected"),
    [([1.0, 2.0], 0), ([1.5], 1), ([0.1, 0.25], 2), ([1 / 3], None), ([1e300], 0), ([1e-9], 9)],
)
def test_decimals(items, expected):
    assert decimals(values(items)) == expected


def test_decimals_of_single_precision():
    x = np.array([0.1, 0.25, 17.3], dtype=np.float32).astype(np.float64)
    assert decimals(Values("float", x, np.zeros(3, dtype=bool))) == 2


def test_the_largest_floats_do_not_cause_warnings():
    import microcell as mc

    table = {"x": np.array([1.5e308, 1.6e308, 1.7e308, 1.5, 2.5, 3.5])}
    release = mc.anonymize(table, mc.Schema(quasi=["x"]), k=3, method="mdav")
    assert np.isfinite(release.table["x"]).all()
