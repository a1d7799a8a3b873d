"""Reading a column of the original and of the release on one scale."""

import datetime

import numpy as np
import pytest

from microcell.errors import DataError, SchemaError
from microcell.kinds import kind_of
from microcell.kinds.ordinal import read_ranks
from microcell.kinds.pairs import read_categories, read_numbers
from microcell.model import Column, Values
from tests.raising import raises
from tests.small_tables import values


@pytest.mark.parametrize(
    "text, midpoint",
    [
        ("20-29", 24.5),
        ("-5--1", -3.0),
        ("-3 to 1", -1.0),
        ("-9 to -7", -8.0),
        ("-2.5 to -1.5", -2.0),
        ("1.5 to 2", 1.75),
        ("-1e-5 to 3e-5", 1e-5),
        ("-5-1", -2.0),
        ("1.5-2.5", 2.0),
        ("20", 20.0),
        ("-7", -7.0),
        (" 1 - 2 ", 1.5),
        ("1e-5-3e-5", 2e-5),
        ("1e3-3e+3", 2e3),
        (".5-1.", 0.75),
        ("0\u20139", 4.5),
        ("1.7e308-1.7e308", 1.7e308),
    ],
)
def test_ranges_are_read_as_their_midpoints(text, midpoint):
    reading = read_numbers("x", values([1, 2]), values([text, None]))
    assert reading.after[0] + reading.origin == pytest.approx(midpoint)
    assert np.isnan(reading.after[1])
    assert reading.unreadable == 0


@pytest.mark.parametrize(
    "text",
    ["*", "", "a-b", "1-2-3", "--1", "nan", "1e999", "20-", "1to2", "1 to", "to 2", "1 to 2 to 3"],
)
def test_text_that_is_not_a_range_is_counted(text):
    reading = read_numbers("x", values([1.0, 2.0]), values([text, "1-2"]))
    assert np.isnan(reading.after[0])
    assert reading.unreadable == 1


def test_times_keep_a_spread_of_one_nanosecond():
    data = 1_700_000_000_000_000_000 + np.array([0, 1, 2])
    column = Values("datetime", data, np.zeros(3, dtype=bool), unit="ns")
    reading = read_numbers("t", column, column)
    assert np.diff(reading.before).tolist() == [1.0, 1.0]


def test_datetimes_are_read_in_the_unit_of_the_original_dates():
    days = values([datetime.date(2020, 1, 1), datetime.date(2020, 1, 3)])
    noon = values([datetime.datetime(2020, 1, 2, 12), None])
    reading = read_numbers("t", days, noon)
    assert reading.after[0] - reading.before[0] == pytest.approx(1.5)
    assert np.isnan(reading.after[1])


@pytest.mark.parametrize(
    "released",
    [[True, False], [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]],
    ids=["boolean", "date"],
)
def test_numbers_published_as_another_type_are_rejected(released):
    with raises(SchemaError, "schema.wrong_kind", column="x"):
        read_numbers("x", values([1, 2]), values(released))


def test_durations_published_as_text_are_rejected():
    days = np.array([1]), np.array([False])
    with raises(SchemaError, "schema.wrong_kind", column="x") as caught:
        read_numbers("x", Values("duration", *days, unit="D"), values(["secret"]))
    assert "secret" not in str(caught.value)


def test_text_that_is_no_range_of_dates_is_counted():
    day, text = datetime.date(2020, 1, 1), ["2020-01-01 to 2020-01-03", "secret"]
    reading = read_numbers("x", values([day, day]), values(text))
    assert reading.unreadable == 1
    assert (reading.origin + reading.after[0]) - (reading.origin + reading.before[0]) == 1


def test_an_infinite_value_is_reported_by_row():
    with raises(DataError, "data.not_finite", column="x", row=2, table="released"):
        read_numbers("x", values([1.0, 2.0]), values([1.0, np.inf]))


def test_a_column_published_as_all_missing():
    assert np.isnan(read_numbers("x", values([1, 2]), values([None, None])).after).all()


def test_ranks_follow_the_order_and_not_the_alphabet():
    column = Column("size", kind="ordinal", order=("small", "large", "huge"))
    reading = read_ranks(
        column, values(["huge", "small", None]), values(["large", "vast", "small"])
    )
    np.testing.assert_array_equal(reading.before, [2, 0, np.nan])
    np.testing.assert_array_equal(reading.after, [1, np.nan, 0])
    assert reading.unreadable == 1


def test_ranks_of_numbers_ignore_their_distances():
    reading = read_ranks(
        Column("n", kind="ordinal"), values([1, 10, 1000]), values([10, 10.0, 5.5])
    )
    np.testing.assert_array_equal(reading.before, [0, 1, 2])
    np.testing.assert_array_equal(reading.after, [1, 1, 0.5])


def test_a_category_outside_the_order_is_reported_by_row():
    column = Column("size", kind="ordinal", order=("small", "large"))
    with raises(DataError, "data.unknown_category", column="size", row=2) as caught:
        read_ranks(column, values(["small", "secret"]), values(["small", "small"]))
    assert "secret" not in str(caught.value)


def test_categories_match_by_name_across_storages():
    reading = read_categories("x", values([5, 7, None]), values([7.0, 7.5, None]))
    assert reading.names == ("5", "7", "7.5")
    assert reading.before.tolist() == [0, 1, -1]
    assert reading.after.tolist() == [1, 2, -1]


def test_categories_of_times_match_across_units():
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]
    moments = [datetime.datetime(2020, 1, 2), datetime.datetime(2020, 1, 1, 9)]
    reading = read_categories("x", values(days), values(moments))
    assert (reading.before.tolist(), reading.after.tolist()) == ([0, 1], [1, 2])
    reading = read_categories("x", values(moments), values(days))
    assert (reading.before.tolist(), reading.after.tolist()) == ([1, 0], [2, 1])


def test_dates_and_durations_cannot_be_compared():
    with raises(SchemaError, "schema.wrong_kind", column="x"):
        read_categories(
            "x",
            values([datetime.date(2020, 1, 1)]),
            Values("duration", np.array([1]), np.array([False]), unit="s"),
        )


def test_locations_are_unit_vectors_and_missing_if_a_part_is():
    column = Column("home", kind="location", latitude="lat", longitude="lon")
    parts = [values([0, 90, 0, None, 45.0]), values([0, 17, 90, 2, None])]
    reading = kind_of(column).pair(column, parts, parts)
    np.testing.assert_allclose(reading.before[:3], [[1, 0, 0], [0, 0, 1], [0, 1, 0]], atol=1e-15)
    assert np.isnan(reading.before[3:]).all()
