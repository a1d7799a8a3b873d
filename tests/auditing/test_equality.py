"""Comparing values regardless of their storage, checked against plain counters."""

import datetime
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.auditing.equality import are_mixed, match_rows, match_values
from microcell.model import Values
from tests.small_tables import values

ITEMS = {
    "integers": st.one_of(st.none(), st.integers(-3, 3)),
    "floats": st.one_of(st.none(), st.sampled_from([0.5, 0.1, -0.25, 1e300, 3.0])),
    "numbers": st.one_of(st.none(), st.sampled_from([0.5, 1, 2, 3.0])),
    "texts": st.one_of(st.none(), st.sampled_from(["", "a", "b", "1"])),
    "flags": st.one_of(st.none(), st.booleans()),
}


def times(storage, unit, counts):
    return Values(
        storage, np.array(counts, dtype=np.int64), np.zeros(len(counts), dtype=bool), unit=unit
    )


def by_row(before, after):
    return match_rows("x", before, after, np.arange(len(after))).changed


def by_value(before, after):
    return match_values("x", before, after).changed


def both(before, after):
    return by_row(before, after), by_value(before, after)


@pytest.mark.parametrize("items", ITEMS.values(), ids=ITEMS)
@given(data=st.data())
def test_counts_equal_those_of_a_plain_counter(items, data):
    before = data.draw(st.lists(items, max_size=12))
    after = data.draw(st.lists(items, min_size=len(before), max_size=len(before)))
    rows = np.array(data.draw(st.permutations(range(len(before)))), dtype=np.int64)
    left, right = values(before), values(after)
    expected = sum(before[row] != item for row, item in zip(rows, after, strict=True))
    assert match_rows("x", left, right, rows).changed == expected
    assert by_value(left, right) == (Counter(after) - Counter(before)).total()


ROWS = st.lists(st.tuples(ITEMS["numbers"], ITEMS["texts"]), min_size=1, max_size=12)


@given(ROWS, ROWS)
def test_columns_are_mixed_if_a_combination_of_values_is_new(before, after):
    matches = [
        match_values(
            "x", values([row[place] for row in before]), values([row[place] for row in after])
        )
        for place in (0, 1)
    ]
    assert are_mixed(matches) == ((Counter(after) - Counter(before)).total() > 0)
    assert not are_mixed([])
    for place, match in enumerate(matches):
        surplus = Counter(row[place] for row in after) - Counter(row[place] for row in before)
        assert are_mixed([match]) == (surplus.total() > 0)


@pytest.mark.parametrize(
    "before, after",
    [
        ([1, 2, None], [1.0, 2.0, None]),
        ([1.0, 2.0, None], [1, 2, None]),
        ([0.0, 2.5], [-0.0, 2.5]),
        ([5, 7], ["5", "7"]),
        ([True, False], ["True", "False"]),
        ([None, None], [None, None]),
        ([datetime.date(2020, 1, 1), None], [datetime.datetime(2020, 1, 1), None]),
        ([datetime.datetime(2020, 1, 1), None], [datetime.date(2020, 1, 1), None]),
        ([float("inf"), 1.0], [float("inf"), 1.0]),
    ],
)
def test_equal_values_in_different_storages_are_equal(before, after):
    assert both(values(before), values(after)) == (0, 0)


@pytest.mark.parametrize(
    "before, after, changed",
    [
        ([1, 2], [1.0, 2.5], 1),
        ([1.5, 2.0], [1, 2], 1),
        ([2**53, 2**53 + 1], [2.0**53, 2.0**53], 1),
        ([2**63 - 1, 1], [2.0**63, 1.0], 1),
        ([1, 2], [float("inf"), 2.0], 1),
        ([1, None], [None, None], 1),
        ([None, None], [1, None], 1),
        ([1.0, 4.0], [1.0, np.nextafter(4.0, 5)], 1),
        (["7", "8"], ["07", "8"], 1),
        ([datetime.date(2020, 1, 1)], [datetime.datetime(2020, 1, 1, 12)], 1),
        ([datetime.date(2020, 1, 1)], ["2020-01-02"], 1),
    ],
)
def test_the_smallest_difference_is_a_change(before, after, changed):
    assert both(values(before), values(after)) == (changed, changed)


def test_unused_or_reordered_categories_do_not_matter():
    present = np.zeros(2, dtype=bool)
    before = Values("text", np.array([0, 1]), present, categories=("x", "y"))
    after = Values("text", np.array([2, 0]), present, categories=("y", "w", "x"))
    assert both(before, after) == (0, 0)


def test_data_of_missing_values_are_ignored():
    before = Values("float", np.array([1.0, np.nan]), np.array([False, True]))
    after = Values("float", np.array([1.0, 77.0]), np.array([False, True]))
    assert both(before, after) == (0, 0)
    assert both(replace(before, storage="integer", data=np.array([1, 5])), after) == (0, 0)


def test_times_in_different_units_are_equal():
    day = 19_000
    seconds = day * 86_400
    kinds = [("date", "D", day), ("datetime", "s", seconds), ("datetime", "us", seconds * 10**6)]
    for one in kinds:
        for other in kinds:
            assert both(times(*one[:2], [one[2]]), times(*other[:2], [other[2]])) == (0, 0)
    far = times("date", "D", [2_932_896])
    assert both(far, times("datetime", "ns", [0])) == (1, 1)


def test_a_duration_does_not_equal_a_date():
    assert both(times("date", "D", [5, 6]), times("duration", "D", [5, 6])) == (2, 2)


def test_a_number_equals_what_a_spreadsheet_stores_for_it():
    numbers = [0.1 + 0.2, 1 / 3, 2.5, None]
    written = [None if number is None else float(f"{number:.16G}") for number in numbers]
    assert written[0] != numbers[0]
    assert both(values(numbers), values(written)) == (0, 0)
    assert both(values(numbers), values([*written[:2], 2.6, None])) == (1, 1)
    # No file format rounds to 15 digits.
    assert both(values(numbers), values([0.333333333333333, *written[1:]])) == (1, 1)


def test_a_single_precision_number_equals_its_shortest_text():
    single = np.array([0.1, 2.7, 1e30], dtype=np.float32)
    before, after = values(single.astype(float).tolist()), values([0.1, 2.7, 1e30])
    assert both(before, after) == (0, 0)
    assert both(before, values([0.1, 2.7, 1.1e30])) == (1, 1)
    # A double-precision number has no such second form.
    assert both(values([0.123456789]), values([float(str(np.float32(0.123456789)))])) == (1, 1)


def test_times_equal_those_rounded_to_the_unit_of_a_file():
    before = times("datetime", "us", [1_500, 2_499, 3_000_000])
    assert both(before, times("datetime", "ms", [2, 2, 3_000])) == (0, 0)
    assert both(before, times("datetime", "ms", [1, 2, 3_000])) == (1, 1)


def test_empty_columns_are_equal():
    assert both(values([]), values([])) == (0, 0)


SECOND = 10**9


@pytest.mark.parametrize(
    "storage, text, nanoseconds",
    [
        ("time", "00:00:00", 0),
        ("time", "01:02:03", 3723 * SECOND),
        ("time", "23:59:59.000000007", 86_399 * SECOND + 7),
        ("time", "12:30:00.5", 45_000 * SECOND + SECOND // 2),
        ("duration", "P2D", 172_800 * SECOND),
        ("duration", "P1DT2H3M4.25S", 93_784 * SECOND + SECOND // 4),
        ("duration", "PT0.000000001S", 1),
        ("duration", "PT0.0000000019S", 1),  # further digits are cut off
        ("duration", "-PT1H1M", -3660 * SECOND),
    ],
)
def test_times_and_durations_in_text_are_compared_as_such(storage, text, nanoseconds):
    for shift in (0, 1):
        before = times(storage, "ns", [nanoseconds + shift])
        assert both(before, values([text])) == (shift, shift)


@pytest.mark.parametrize("storage, text", [("time", "25:00:00"), ("duration", "1 day")])
def test_text_that_is_no_time_or_duration_is_a_changed_value(storage, text):
    assert both(times(storage, "ns", [0]), values([text])) == (1, 1)
