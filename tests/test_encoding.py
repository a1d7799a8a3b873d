"""Encoding: records become standardized points at the right distances, on any scale."""

import copy
import datetime
import functools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.encoding import check_missing, encode, fit, missing_rows, place
from microcell.errors import DataError, SchemaError, TableError
from microcell.model import Column, Encoding, Schema, Values
from microcell.schema.resolve import resolve
from tests.raising import raises
from tests.small_tables import table


def encoded(schema=None, **columns):
    source = table(**columns)
    schema = schema or Schema(quasi=list(columns))
    return encode(source, resolve(schema, source))


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
    column = points.encoding.columns[0]
    assert column.origin + column.centre + column.scale * points.matrix[:, 0] == pytest.approx(data)


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
def test_numbers_of_any_scale_are_standardized(column):
    points = encoded(a=column).matrix[:, 0]
    assert points.mean() == pytest.approx(0, abs=1e-9)
    assert (points**2).mean() == pytest.approx(1)


def test_large_offsets_do_not_lose_precision():
    small = encoded(a=[i / 8 for i in (0, 3, 1, 8)]).matrix
    assert encoded(a=[1.7e9 + i / 8 for i in (0, 3, 1, 8)]).matrix == pytest.approx(
        small, abs=1e-12
    )
    assert encoded(a=[2**61 + i for i in (0, 3, 1, 8)]).matrix == pytest.approx(small, abs=1e-12)


def test_minus_999_is_not_a_missing_value():
    assert encoded(a=[-999, 0, 1]).matrix[0, 0] < encoded(a=[-1, 0, 1]).matrix[0, 0]


def test_a_constant_column_has_no_dimension():
    points = encoded(a=[5, 5, 5], b=[1, 2, 3], c=["x", "x", "x"])
    assert points.matrix.shape == (3, 1)
    assert [column.constant for column in points.encoding.columns] == [True, False, True]


def test_different_categories_are_at_distance_1():
    for categories in (["a", "b", "a", "b"], ["a", "b", "c", "d"], [True, False, True, False]):
        points = encoded(c=categories)
        assert squared(points, 0, 1) == pytest.approx(1)
        assert points.matrix.mean(axis=0) == pytest.approx(0, abs=1e-12)
    assert encoded(c=["a", "b", "a"]).matrix.shape[1] == 1
    assert encoded(c=["a", "b", "c"]).matrix.shape[1] == 3


def test_whole_numbers_can_be_categories():
    points = encoded(Schema(quasi=[Column("c", kind="nominal")]), c=[1, 2, 9])
    assert squared(points, 0, 1) == pytest.approx(squared(points, 0, 2)) == pytest.approx(1)


def test_ordinal_ranks_follow_the_declared_order():
    schema = Schema(quasi=[Column("c", order=["low", "middle", "high"])])
    points = encoded(schema, c=["low", "high", "middle"]).matrix[:, 0]
    assert points[0] < points[2] < points[1]
    assert points[1] - points[2] == pytest.approx(points[2] - points[0])


def test_an_unknown_ordinal_category_is_rejected_without_showing_it():
    schema = Schema(quasi=[Column("c", order=["low", "high"])])
    with raises(SchemaError, "schema.category_order", column="c", row=3, count=1) as caught:
        encoded(schema, c=["low", "high", "secret"])
    assert "secret" not in str(caught.value)


def test_codes_are_closer_the_longer_their_common_prefix():
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


def test_locations_are_points_of_the_sphere():
    points = location([0.0, 0.0, 0.0], [179.9, -179.9, 170.0])
    assert squared(points, 0, 1) < squared(points, 0, 2)  # across the date line is near
    assert (points.matrix**2).sum() / 3 == pytest.approx(2)
    poles = location([90.0, 90.0, 0.0], [0.0, 120.0, 0.0])
    assert squared(poles, 0, 1) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("lat", "lon", "column", "row"),
    [([91.0, 0.0], [0.0, 0.0], "lat", 1), ([0, 0], [0, 181], "lon", 2)],
)
def test_impossible_degrees_are_rejected(lat, lon, column, row):
    with raises(DataError, "data.out_of_range", column=column, row=row, count=1):
        location(lat, lon)


def test_a_column_weight_multiplies_squared_distances():
    plain = encoded(a=[1, 2, 4], b=[3, 3, 1])
    heavy = encoded(Schema(quasi=[Column("a", weight=9.0), "b"]), a=[1, 2, 4], b=[3, 3, 1])
    assert heavy.matrix[:, 0] == pytest.approx(3 * plain.matrix[:, 0])
    assert heavy.matrix[:, 1] == pytest.approx(plain.matrix[:, 1])


def test_missing_values_are_placed_at_the_mean():
    points = encoded(a=[1.0, None, 3.0], c=["x", "y", None], d=["p", "q", "r"])
    assert points.matrix[1, 0] == 0
    assert points.matrix[2, 1] == 0
    assert (points.matrix[[0, 2], 0] ** 2).mean() == pytest.approx(1)


def test_missing_values_are_counted_by_column():
    source = table(a=[1, None, 3], b=["x", None, None])
    schema = resolve(Schema(quasi=["a", "b"]), source)
    assert missing_rows(source, schema).tolist() == [False, True, True]
    with raises(DataError, "data.missing_values", counts={"a": 1, "b": 2}) as caught:
        check_missing(source, schema)
    assert str(caught.value) == (
        "Missing values in 'a' (1), 'b' (2). Choose how to handle them with missing (--missing): "
        "'drop' removes and reports those records; 'impute' keeps them and publishes their cell's "
        "representative."
    )


def test_infinities_are_rejected_with_their_row():
    with raises(DataError, "data.not_finite", column="a", row=2, count=2):
        encoded(a=[1.0, np.inf, -np.inf])


def test_too_many_categories_are_rejected():
    with raises(SchemaError, "schema.wrong_kind", column="a", count=1001):
        encoded(a=[f"name {i}" for i in range(1001)])


@pytest.mark.parametrize("rows", [60, 1001])
@pytest.mark.parametrize(
    "make, kinds",
    [
        (lambda row: f"name {row}", {"code", "ordinal"}),
        (lambda row: row, {"numeric", "code", "ordinal"}),
        (lambda row: row / 2, {"numeric", "code", "ordinal"}),
        (lambda row: datetime.date(2020, 1, 1) + datetime.timedelta(row), {"datetime", "ordinal"}),
    ],
)
def test_kinds_suggested_for_too_many_categories_are_accepted(make, kinds, rows):
    items = [make(row) for row in range(rows)]
    with raises(SchemaError, "schema.wrong_kind", column="a", count=rows) as caught:
        encoded(Schema(quasi=[Column("a", kind="nominal")]), a=items)
    assert set(caught.value.details["kinds"]) == kinds
    for kind in kinds:
        order = tuple(items) if kind == "ordinal" and isinstance(items[0], str) else None
        encoded(Schema(quasi=[Column("a", kind=kind, order=order)]), a=items)


@pytest.mark.parametrize(
    "weights", [[1.0, 0.0], [1.0, None], [1.0, -2.0], ["a", "b"], [1.0, np.inf]]
)
def test_sampling_weights_must_be_positive(weights):
    with raises(DataError, "data.bad_weight", column="w"):
        encoded(Schema(quasi=["a"], weight="w"), a=[1, 2], w=weights)


def test_near_unique_text_is_rejected_as_nominal():
    with raises(SchemaError, "schema.wrong_kind", column="a", count=60):
        encoded(a=[f"value {min(i, 59)}" for i in range(100)])


def test_order_of_numbers():
    schema = Schema(quasi=[Column("c", kind="ordinal", order=[3.0, 2.0, 1.5])])
    points = encoded(schema, c=[1.5, 2.0, 3.0]).matrix[:, 0]
    assert points[2] < points[1] < points[0]


def test_an_empty_column_is_constant():
    assert encoded(a=[1, 2], b=[None, None]).matrix.shape == (2, 1)


# Fitted, saved and placed again

MIXED = Schema(
    quasi=[
        "age",
        Column("income", weight=2.5),
        "day",
        Column("level", order=["low", "middle", "high"]),
        Column("grade", kind="ordinal"),
        "sex",
        Column("region", kind="nominal", weight=0.3),
        Column("zip", kind="code"),
        Column("home", kind="location", latitude="lat", longitude="lon"),
        "flag",
    ]
)

ITEMS = {
    "age": st.integers(-(2**63), 2**63 - 1) | st.integers(0, 99),
    "income": st.floats(allow_nan=False, allow_infinity=False) | st.floats(0, 1e5),
    "day": st.dates(),
    "level": st.sampled_from(["low", "middle", "high"]),
    "grade": st.sampled_from([-1.5, 0.0, 2.0, 1e20]),
    "sex": st.sampled_from(["f", "m"]),
    "region": st.integers(1, 5),
    "zip": st.text("019é", max_size=4),
    "lat": st.floats(-90, 90),
    "lon": st.floats(-180, 180),
    "flag": st.booleans(),
}


@st.composite
def mixed_tables(draw):
    rows = draw(st.integers(1, 12))
    columns = {
        name: st.lists(st.none() | items, min_size=rows, max_size=rows)
        for name, items in ITEMS.items()
    }
    columns["day"] = st.lists(
        ITEMS["day"], min_size=rows, max_size=rows
    )  # without one it has no type
    return table(**{name: draw(items) for name, items in columns.items()})


def saved(encoding, k=1):
    return Encoding.from_dict(
        json.loads(json.dumps(encoding.published(k).as_dict(), allow_nan=False))
    )


@given(mixed_tables())
def test_a_saved_encoding_places_the_fitted_records_where_they_were(source):
    points = encode(source, resolve(MIXED, source))
    again = saved(points.encoding)
    placed = place(source, again)
    assert placed.matrix.tobytes() == points.matrix.tobytes()
    assert not placed.unknown
    assert again.as_dict() == points.encoding.published(1).as_dict()
    assert (
        place(source, fit(source, resolve(MIXED, source))).matrix.tobytes()
        == points.matrix.tobytes()
    )


@given(
    st.lists(st.integers(-(2**53), 2**53) | st.integers(-9, 9), min_size=2),
    st.sampled_from([1, 2.0**-1060]),
)
def test_numbers_are_standardized_to_the_last_digits(items, unit):
    exact = [Fraction(item) for item in items]
    mean = sum(exact) / len(exact)
    variance = sum((item - mean) ** 2 for item in exact) / len(exact)
    points = encoded(a=[item * unit for item in items]).matrix
    if variance == 0 or len({item * unit for item in items}) == 1:
        assert points.shape[1] == 0
    elif unit == 1:
        plain = [float(item - mean) / math.sqrt(variance) for item in exact]
        assert points[:, 0] == pytest.approx(plain, rel=1e-14, abs=1e-14)
    else:
        assert (points**2).mean() == pytest.approx(1)


def placed(fitted, new, column="a"):
    """Place new records by a saved encoding of one column; return points and unknown counts."""
    source = table(a=fitted)
    points = place(table(a=new), saved(fit(source, resolve(Schema(quasi=[column]), source))))
    return points.matrix, points.unknown


def test_whole_numbers_and_floats_are_interchangeable():
    whole, real = [0, 10, 30], [0.0, 10.0, 30.0]
    assert (
        placed(whole, [10.0, 7.5])[0][0]
        == placed(whole, [10])[0][0]
        == pytest.approx(placed(real, [10])[0][0])
    )
    large = [2**60 + 1, 2**60 + 3, 2**60 + 257]
    assert placed(large, [float(2**60)])[0] == pytest.approx(placed(large, [2**60])[0], abs=1e-14)
    assert placed(large, [large[0]])[0] != placed(large, [large[0] + 1])[0]


def test_outliers_stay_finite():
    assert placed([0.0, 1e-9], [1e308, -1e308])[0].ravel().tolist() == [1e100, -1e100]
    assert placed([-1e308, 1.7e308], [1.7e308])[0].ravel().tolist() == [1.0]
    assert placed([0, 1], [2**63 - 1, -(2**63)])[0].ravel() == pytest.approx([2.0**64, -(2.0**64)])


def counts_of(storage, unit, counts):
    return Values(
        storage, np.array(counts, dtype=np.int64), np.zeros(len(counts), dtype=bool), unit=unit
    )


def test_times_in_another_unit_are_converted_exactly():
    day = 86_400 * 10**9
    base = 20_000
    fitted = counts_of("date", "D", [base, base + 2])
    assert placed(fitted, counts_of("datetime", "ns", [base * day, (base + 1) * day + day // 2]))[
        0
    ].ravel().tolist() == [
        -1.0,
        0.5,
    ]
    fine = counts_of("datetime", "ns", [base * day, base * day + 2])
    assert placed(fine, counts_of("datetime", "us", [base * day // 1000]))[0].ravel().tolist() == [
        -1.0
    ]
    assert placed(fine, counts_of("date", "D", [base]))[0].ravel().tolist() == [-1.0]
    assert placed(fine, counts_of("date", "D", [10**7]))[0][0] == pytest.approx(
        (10**7 - base) * day
    )  # beyond int64


def test_times_can_be_categories():
    fitted, nominal = counts_of("date", "D", [1, 2, 3, 3]), Column("a", kind="nominal")
    same, unknown = placed(fitted, counts_of("datetime", "s", [86_400, 86_401]), nominal)
    assert same[0].tolist() == placed(fitted, counts_of("date", "D", [1]), nominal)[0][0].tolist()
    assert unknown == {"a": 1}
    between, _ = placed(
        fitted,
        counts_of("datetime", "s", [86_400, 86_401, 2 * 86_400]),
        Column("a", kind="ordinal"),
    )
    assert between[1, 0] == pytest.approx((between[0, 0] + between[2, 0]) / 2)


def test_an_unknown_category_has_no_indicator():
    source = table(a=["x", "y", "z", "z"])
    encoding = fit(source, resolve(Schema(quasi=["a"]), source))
    points = place(table(a=["new", None, "x", "newer"]), encoding)
    assert points.unknown == {"a": 2}
    assert points.matrix[0].tolist() == (-encoding.columns[0].centre).tolist()
    assert points.matrix[1].tolist() == [0, 0, 0]
    assert (
        points.matrix[2].tolist()
        == encode(source, resolve(Schema(quasi=["a"]), source)).matrix[0].tolist()
    )


def test_unknown_categories_of_a_constant_column_are_counted():
    points, unknown = placed(["x", "x"], ["x", "y"])
    assert points.shape == (2, 0)
    assert unknown == {"a": 1}


def test_an_unknown_ordinal_number_is_placed_between_its_neighbours():
    ordinal = Column("a", kind="ordinal")
    points, unknown = placed([1, 2, 10, 2], [1, 2, 10, 1.5, 9, 0, 99, None], ordinal)
    first, second, third = points[:3, 0]
    middles = [(first + second) / 2, (second + third) / 2]
    assert points[3:, 0] == pytest.approx([*middles, first, third, 0])
    assert unknown == {"a": 4}


def test_an_unknown_ordinal_text_is_placed_at_the_mean():
    points, unknown = placed(
        ["lo", "hi", "hi"], ["lo", "other"], Column("a", order=["lo", "mid", "hi"])
    )
    assert points[0, 0] < 0
    assert points[1, 0] == 0
    assert unknown == {"a": 1}


def test_categories_of_a_declared_order_are_known_even_if_unused():
    points, unknown = placed(
        ["lo", "hi", "hi"], ["lo", "mid", "hi"], Column("a", order=["lo", "mid", "hi"])
    )
    assert points[1, 0] == pytest.approx((points[0, 0] + points[2, 0]) / 2)
    assert not unknown


@pytest.mark.parametrize(
    ("new", "like"),
    [
        ("94112", "94110"),
        ("942", "94200"),
        ("9", "94110"),
        ("77", "10001"),
        ("", "10001"),
        ("99", "94110"),
    ],
)
def test_an_unknown_code_is_placed_at_the_one_with_the_longest_common_prefix(new, like):
    points, unknown = placed(
        ["94110", "94111", "94200", "10001"], [new, like], Column("a", kind="code")
    )
    assert points[0, 0] == points[1, 0]
    assert unknown == {"a": 1}


def test_codes_are_matched_by_name_across_types():
    points, unknown = placed(["1001", "1002", "2001"], [2001, 1001], Column("a", kind="code"))
    assert (
        points[:, 0].tolist()
        == placed(["1001", "1002", "2001"], ["2001", "1001"], Column("a", kind="code"))[0][
            :, 0
        ].tolist()
    )
    assert not unknown


def test_new_locations_are_placed():
    schema = Schema(quasi=[Column("home", kind="location", latitude="lat", longitude="lon")])
    source = table(lat=[0.0, 10.0, 20.0], lon=[0, 5, 50])
    encoding = saved(fit(source, resolve(schema, source)))
    points = place(table(lon=[5, None, 5.0], lat=[10, 1, None]), encoding).matrix
    assert points[0].tolist() == encode(source, resolve(schema, source)).matrix[1].tolist()
    assert not points[1:].any()
    with raises(DataError, "data.out_of_range", column="lat", row=1):
        place(table(lat=[99.0], lon=[0.0]), encoding)


def test_a_table_without_records_has_no_points():
    assert place(
        table(a=[]), saved(fit(table(a=[1, 2]), resolve(Schema(quasi=["a"]), table(a=[1, 2]))))
    ).matrix.shape == (0, 1)


@pytest.mark.parametrize(
    ("fitted", "new", "column"),
    [
        ([1, 2], [None, "5"], Column("a")),
        ([1, 2], [None, True], Column("a")),
        ([1, 2], [None, datetime.date(2020, 1, 1)], Column("a", kind="nominal")),
        ([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)], [None, 3], Column("a")),
        (
            [datetime.date(2020, 1, 1)] * 2,
            Values("duration", np.array([0, 3]), np.array([True, False]), unit="us"),
            Column("a"),
        ),
    ],
)
def test_values_of_another_type_are_rejected_with_their_row(fitted, new, column):
    with raises(SchemaError, "schema.wrong_kind", column="a", row=2):
        placed(fitted, new, column)


@pytest.mark.parametrize(
    ("values", "row", "count"),
    [(["2020-01-01", "unknown", "2020-01-03", "?"], 2, 2), ([1, 2, 3], 1, 3)],
)
def test_values_that_are_not_dates_are_located(values, row, count):
    source = table(a=values)
    schema = Schema(quasi=[Column("a", kind="datetime")])
    with raises(SchemaError, "schema.wrong_kind", column="a", row=row, count=count) as caught:
        fit(source, resolve(schema, source))
    assert "--na" in str(caught.value)


def test_missing_columns_are_named():
    source = table(age=[1, 2], sex=["f", "m"])
    encoding = fit(source, resolve(Schema(quasi=["age", "sex"]), source))
    with raises(SchemaError, "schema.unknown_column", columns=("age",)) as caught:
        place(table(agee=[1], sex=["f"]), encoding)
    assert "Did you mean 'agee' by 'age'?" in str(caught.value)


def test_infinite_new_values_are_rejected():
    with raises(DataError, "data.not_finite", column="a", row=1):
        placed([1.0, 2.0], [np.inf])


# Published encodings


def rare_table():
    return table(
        n=["common"] * 4 + ["other"] * 3 + ["rareword"],
        z=["5551"] * 4 + ["5562"] * 3 + ["7777"],
        o=[3.25] * 4 + [4.5] * 3 + [987.125],
        d=["lo"] * 4 + ["mi"] * 3 + ["hi"],
        x=[1234567, *range(2_000_000, 2_000_007)],
        y=[1234.5678, *np.linspace(2000, 2001, 7).tolist()],
        t=[datetime.date(1917, 3, 5), *(datetime.date(2000, 1, 1 + i) for i in range(7))],
    )


RARE = Schema(
    quasi=[
        "n",
        Column("z", kind="code"),
        Column("o", kind="ordinal"),
        Column("d", order=["lo", "mi", "hi"]),
        *"xyt",
    ]
)


def test_names_of_few_records_are_not_published():
    source = rare_table()
    encoding = fit(source, resolve(RARE, source))
    one, three = (json.dumps(encoding.published(k).as_dict()) for k in (1, 3))
    assert all(name in one for name in ("rareword", "7777", "987.125"))
    assert not any(name in three for name in ("rareword", "7777", "987.125"))
    assert all(
        name in three
        for name in ("common", "other", "5551", "5562", "3.25", "4.5", "lo", "mi", "hi")
    )
    ends = [source.columns[name].data for name in "xyt"]
    for number in (bound for data in ends for bound in (data.min(), data.max())):
        assert str(number.item()) not in one


def test_withheld_names_are_unknown_afterwards():
    source = rare_table()
    encoding = fit(source, resolve(RARE, source))
    points = place(source, saved(encoding, k=3))
    assert points.unknown == {"n": 1, "z": 1, "o": 1}
    whole = place(source, encoding).matrix
    assert points.matrix[:7].tobytes() == whole[:7].tobytes()
    assert points.matrix[7, encoding.columns[0].first : encoding.columns[0].last] == pytest.approx(
        -encoding.columns[0].centre
    )
    assert place(source, saved(encoding, k=9)).unknown == {"n": 8, "z": 8, "o": 8}


def test_only_published_encodings_can_be_saved():
    source = rare_table()
    encoding = fit(source, resolve(RARE, source))
    with pytest.raises(ValueError, match="must not be saved"):
        encoding.as_dict()
    again = saved(encoding, k=3)
    assert again.published(2) is again.published(3) is again
    with pytest.raises(ValueError, match="withheld for k = 3"):
        again.published(4)
    with pytest.raises(ValueError, match="k must be at least 1"):
        encoding.published(0)


def change(data, path, value):
    """Return the data with another value at the path, or without the entry if it is ``...``."""
    data = copy.deepcopy(data)
    *way, last = path
    inner = functools.reduce(lambda part, key: part[key], way, data)
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return data


DAMAGES = [
    (("k",), 0),
    (("k",), True),
    (("columns",), {}),
    (("columns", 0), None),
    (("columns", 0, "weight"), ...),
    (("columns", 0, "weight"), 0),
    (("columns", 0, "weight"), math.nan),
    (("columns", 0, "more"), 1),
    (("columns", 0, "name"), 7),
    (("columns", 0, "kind"), "other"),
    (("columns", 0, "kind"), []),
    (("columns", 0, "kind"), "location"),
    (("columns", 0, "kind"), "numeric"),
    (("columns", 0, "parts"), ["a", "b"]),
    (("columns", 0, "parts"), "n"),
    (("columns", 0, "storage"), "number"),
    (("columns", 0, "unit"), "D"),
    (("columns", 0, "first"), 1),
    (("columns", 0, "first"), -1),
    (("columns", 0, "first"), 0.0),
    (("columns", 0, "centre"), [0.1, 0.2]),
    (("columns", 0, "centre", 0), math.inf),
    (("columns", 0, "centre", 0), "0"),
    (("columns", 0, "centre", 0), 10**400),
    (("columns", 0, "scale", 0), 0.0),
    (("columns", 0, "scale"), [1.0]),
    (("columns", 0, "names"), ["common"]),
    (("columns", 0, "names", 0), "other"),
    (("columns", 0, "names", 0), 5),
    (("columns", 0, "places"), [1.0]),
    (("columns", 0, "origin"), 3),
    (("columns", 1, "places"), [1.0]),
    (("columns", 1, "names"), ["7777", "5562", "5551"]),
    (("columns", 1, "names", 0), None),
    (("columns", 1, "centre"), []),
    (("columns", 4, "origin"), 2**63),
    (("columns", 4, "exponent"), 600),
    (("columns", 5, "exponent"), 1001),
    (("columns", 6, "unit"), None),
    (("columns", 6, "unit"), "h"),
    (("columns", 6, "origin"), 1.5),
    (("columns", 6, "storage"), "integer"),
]


@pytest.mark.parametrize(("path", "value"), DAMAGES)
def test_damaged_encodings_are_rejected(path, value):
    source = rare_table()
    plain = fit(source, resolve(RARE, source)).published(1).as_dict()
    with raises(TableError, "table.malformed") as caught:
        Encoding.from_dict(change(plain, path, value))
    assert not any(name in str(caught.value) for name in ("common", "5551", "rareword"))


@pytest.mark.parametrize("data", [None, [], {}, "text", {"k": 1}])
def test_data_that_is_not_an_encoding_is_rejected(data):
    with raises(TableError, "table.malformed"):
        Encoding.from_dict(data)


def test_locations_that_differ_by_an_immeasurable_distance_are_constant():
    source = table(lat=[0.0, 0.0], lon=[0.0, 1e-200])
    schema = Schema(quasi=[Column("home", kind="location", latitude="lat", longitude="lon")])
    assert encode(source, resolve(schema, source)).matrix.shape == (2, 0)
