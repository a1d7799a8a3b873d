"""Points: standardized, at the right distances, whatever the scale."""

import datetime

import numpy as np
import pytest

from microcell.encoding import check_missing, encode, missing_rows
from microcell.errors import DataError, SchemaError
from microcell.model import Column, Schema
from microcell.roles import resolve
from tests.small_tables import table


def encoded(schema=None, **columns):
    made = table(**columns)
    schema = schema or Schema(quasi=list(columns))
    return encode(made, resolve(schema, made))


def squared(points, i, j):
    return ((points.matrix[i] - points.matrix[j]) ** 2).sum()


def test_numbers_have_mean_0_and_variance_1():
    points = encoded(a=[1, 2, 3, 10], b=[0.5, 0.25, -8.0, 1e5])
    assert points.matrix.shape == (4, 2)
    assert points.matrix.mean(axis=0) == pytest.approx([0, 0], abs=1e-12)
    assert (points.matrix**2).mean(axis=0) == pytest.approx([1, 1])


def test_coordinates_can_be_read_back():
    data = np.array([3.5, 4.25, -1.0, 900.0])
    points = encoded(a=data)
    column = points.columns[0]
    assert column.centre + column.scale * points.matrix[:, 0] == pytest.approx(data)


@pytest.mark.parametrize(
    "column",
    [
        [1.7e9 + i / 8 for i in range(9)],
        [1_700_000_000 + i for i in range(9)],
        [2**62 + 2 * i for i in range(9)],
        [1e300 * i for i in range(-4, 5)],
        [1.7e308, -1.7e308, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        [1e-300 * i for i in range(9)],
        [-(2**63), 2**63 - 1, 0, 1, 2, 3, 4, 5, 6],
    ],
)
def test_any_scale_is_standardized(column):
    points = encoded(a=column).matrix[:, 0]
    assert points.mean() == pytest.approx(0, abs=1e-9)
    assert (points**2).mean() == pytest.approx(1)


def test_large_offsets_lose_nothing():
    small = encoded(a=[i / 8 for i in (0, 3, 1, 8)]).matrix
    assert encoded(a=[1.7e9 + i / 8 for i in (0, 3, 1, 8)]).matrix == pytest.approx(small, abs=1e-12)
    assert encoded(a=[2**61 + i for i in (0, 3, 1, 8)]).matrix == pytest.approx(small, abs=1e-12)


def test_minus_999_is_a_value():
    assert encoded(a=[-999, 0, 1]).matrix[0, 0] < encoded(a=[-1, 0, 1]).matrix[0, 0]


def test_a_constant_column_has_no_dimension():
    points = encoded(a=[5, 5, 5], b=[1, 2, 3], c=["x", "x", "x"])
    assert points.matrix.shape == (3, 1)
    assert [column.constant for column in points.columns] == [True, False, True]


def test_a_mismatch_of_categories_has_distance_1():
    for categories in (["a", "b", "a", "b"], ["a", "b", "c", "d"], [True, False, True, False]):
        points = encoded(c=categories)
        assert squared(points, 0, 1) == pytest.approx(1)
        assert points.matrix.mean(axis=0) == pytest.approx(0, abs=1e-12)
    assert encoded(c=["a", "b", "a"]).matrix.shape[1] == 1
    assert encoded(c=["a", "b", "c"]).matrix.shape[1] == 3


def test_whole_numbers_may_be_categories():
    points = encoded(Schema(quasi=[Column("c", kind="nominal")]), c=[1, 2, 9])
    assert squared(points, 0, 1) == pytest.approx(squared(points, 0, 2)) == pytest.approx(1)


def test_ordinal_ranks_follow_the_order_given():
    schema = Schema(quasi=[Column("c", order=["low", "middle", "high"])])
    points = encoded(schema, c=["low", "high", "middle"]).matrix[:, 0]
    assert points[0] < points[2] < points[1]
    assert points[1] - points[2] == pytest.approx(points[2] - points[0])


def test_an_unknown_ordinal_category_is_refused_without_showing_it():
    schema = Schema(quasi=[Column("c", order=["low", "high"])])
    with pytest.raises(SchemaError, match=r"1 rows hold a category that is not in its order, the first is row 3") as e:
        encoded(schema, c=["low", "high", "secret"])
    assert "secret" not in str(e.value)


def test_codes_lie_closer_the_longer_their_common_prefix():
    schema = Schema(quasi=[Column("c", kind="code")])
    points = encoded(schema, c=["94110", "94111", "94200", "10001"])
    assert 10 * squared(points, 0, 1) < squared(points, 1, 2)
    assert 10 * squared(points, 1, 2) < squared(points, 2, 3)


def test_dates_are_standardized():
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 3), datetime.date(2020, 1, 2)]
    assert encoded(d=days).matrix == pytest.approx(encoded(d=[0, 2, 1]).matrix)


def location(latitudes, longitudes, weight=1.0):
    column = Column("home", kind="location", latitude="lat", longitude="lon", weight=weight)
    return encoded(Schema(quasi=[column]), lat=latitudes, lon=longitudes)


def test_locations_are_on_the_sphere():
    points = location([0.0, 0.0, 0.0], [179.9, -179.9, 170.0])
    assert squared(points, 0, 1) < squared(points, 0, 2)  # across the date line is near
    assert (points.matrix**2).sum() / 3 == pytest.approx(2)
    poles = location([90.0, 90.0, 0.0], [0.0, 120.0, 0.0])
    assert squared(poles, 0, 1) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("lat", "lon", "what"), [([91.0, 0.0], [0.0, 0.0], "latitude"), ([0, 0], [0, 181], "longitude")]
)
def test_impossible_degrees_are_refused(lat, lon, what):
    with pytest.raises(DataError, match=f"1 rows are no {what} in degrees"):
        location(lat, lon)


def test_a_column_weight_multiplies_squared_distances():
    plain = encoded(a=[1, 2, 4], b=[3, 3, 1])
    heavy = encoded(Schema(quasi=[Column("a", weight=9.0), "b"]), a=[1, 2, 4], b=[3, 3, 1])
    assert heavy.matrix[:, 0] == pytest.approx(3 * plain.matrix[:, 0])
    assert heavy.matrix[:, 1] == pytest.approx(plain.matrix[:, 1])


def test_missing_values_stand_at_the_mean():
    points = encoded(a=[1.0, None, 3.0], c=["x", "y", None], d=["p", "q", "r"])
    assert points.matrix[1, 0] == 0
    assert points.matrix[2, 1] == 0
    assert (points.matrix[[0, 2], 0] ** 2).mean() == pytest.approx(1)


def test_missing_values_are_counted_by_column():
    made = table(a=[1, None, 3], b=["x", None, None])
    schema = resolve(Schema(quasi=["a", "b"]), made)
    assert missing_rows(made, schema).tolist() == [False, True, True]
    with pytest.raises(DataError, match=r"Missing values in 'a' \(1\), 'b' \(2\)"):
        check_missing(made, schema)


def test_infinities_are_refused_with_the_row():
    with pytest.raises(DataError, match=r"Column 'a' holds 2 infinite values, the first in row 2"):
        encoded(a=[1.0, np.inf, -np.inf])


def test_too_many_categories_are_refused():
    with pytest.raises(SchemaError, match="1001 categories"):
        encoded(a=[f"name {i}" for i in range(1001)])


@pytest.mark.parametrize("weights", [[1.0, 0.0], [1.0, None], [1.0, -2.0], ["a", "b"], [1.0, np.inf]])
def test_sampling_weights_must_be_positive(weights):
    with pytest.raises(DataError, match="Weight column 'w' must hold positive numbers"):
        encoded(Schema(quasi=["a"], weight="w"), a=[1, 2], w=weights)


def test_near_unique_text_is_refused_as_nominal():
    with pytest.raises(SchemaError, match="60 categories in 100 records: the value that a cell would publish"):
        encoded(a=[f"value {min(i, 59)}" for i in range(100)])


def test_an_order_of_numbers():
    schema = Schema(quasi=[Column("c", kind="ordinal", order=[3.0, 2.0, 1.5])])
    points = encoded(schema, c=[1.5, 2.0, 3.0]).matrix[:, 0]
    assert points[2] < points[1] < points[0]


def test_an_empty_column_is_constant():
    assert encoded(a=[1, 2], b=[None, None]).matrix.shape == (2, 1)
