"""Matching the rows of a release with those of the original."""

import datetime
import re
from dataclasses import replace

import numpy as np
import pytest

from microcell.auditing.alignment import align
from microcell.errors import DataError, OptionError
from microcell.model import Column, Schema, Table, Values
from tests.raising import raises
from tests.small_tables import table, take, values

SCHEMA = Schema(
    quasi=[Column("age", kind="numeric", publish="mean")], confidential=["tsh"], keep=["note"]
)
ORIGINAL = table(age=[20, 22, None, 42], tsh=[0.1, None, 3.0, 4.0], note=["a", "b", None, "d"])


def test_equal_unchanged_columns_align_by_position():
    released = table(age=[21, 21, 42, 42], tsh=[0.1, None, 3.0, 4.0], note=["a", "b", None, "d"])
    result = align(ORIGINAL, released, SCHEMA)
    assert result.pairs.tolist() == [0, 1, 2, 3]
    assert result.notes == ()


def test_another_row_order_is_not_aligned_and_the_note_says_what_to_do():
    result = align(ORIGINAL, take(ORIGINAL, [1, 0, 2, 3]), SCHEMA)
    assert result.pairs is None
    assert "before its rows are shuffled" in result.notes[0]
    assert "manifest" in result.notes[0]
    assert "key column" in result.notes[0]


def test_floats_that_differ_in_the_last_bit_are_different():
    tsh = [0.1, None, 3.0, np.nextafter(4.0, 5)]
    released = table(age=[21, 21, 42, 42], tsh=tsh, note=["a", "b", None, "d"])
    assert align(ORIGINAL, released, SCHEMA).pairs is None


def test_a_missing_value_equals_only_a_missing_value():
    released = table(age=[21, 21, 42, 42], tsh=[0.1, 1.0, 3.0, 4.0], note=["a", "b", None, "d"])
    assert align(ORIGINAL, released, SCHEMA).pairs is None


def test_dropped_rows_are_those_with_a_missing_quasi_identifier():
    released = take(
        table(age=[21, 21, 0, 42], tsh=[0.1, None, 3.0, 4.0], note=["a", "b", None, "d"]), [0, 1, 3]
    )
    assert align(ORIGINAL, released, SCHEMA).pairs.tolist() == [0, 1, 3]


def test_other_dropped_rows_are_not_aligned():
    assert align(ORIGINAL, take(ORIGINAL, [0, 1]), SCHEMA).pairs is None
    assert align(ORIGINAL, take(ORIGINAL, [0, 1, 2]), SCHEMA).pairs is None


def test_more_rows_than_the_original():
    result = align(ORIGINAL, take(ORIGINAL, [0, 1, 2, 3, 3]), SCHEMA)
    assert result.pairs is None
    assert "more rows" in result.notes[0]


@pytest.mark.parametrize(
    "schema", [Schema(quasi=SCHEMA.quasi), Schema(quasi=SCHEMA.quasi, keep=["flat"])]
)
def test_row_order_is_assumed_if_no_column_distinguishes_rows(schema):
    rows = table(age=[1, 2, 3], flat=["x", "x", "x"])
    result = align(rows, rows, schema)
    assert result.pairs.tolist() == [0, 1, 2]
    assert "assumed" in result.notes[0]


def test_values_are_compared_regardless_of_storage():
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]
    original = table(age=[1, 2], a=[1, 2], b=["y", "x"], day=days)
    codes = Values("text", np.array([1, 2]), np.array([False, False]), categories=("w", "y", "x"))
    released = table(age=[1, 2], a=[1.0, 2.0], b=codes, day=days)
    schema = Schema(quasi=SCHEMA.quasi, keep=["a", "b", "day"])
    assert align(original, released, schema).notes == ()


def test_pairs_are_used_and_changed_columns_are_named():
    rows = np.array([3, 0, 1])
    released = take(ORIGINAL, rows)
    result = align(ORIGINAL, released, SCHEMA, pairs=rows)
    assert result.pairs.tolist() == [3, 0, 1]
    assert result.notes == ()
    wrong = align(ORIGINAL, released, SCHEMA, pairs=np.array([0, 3, 1]))
    assert "'tsh', 'note'" in wrong.notes[0]


@pytest.mark.parametrize(
    ("pairs", "code"),
    [
        ([0, 1], "option.wrong_type"),
        ([0, 1, 4], "option.out_of_range"),
        ([0, 1, -1], "option.out_of_range"),
        ([0, 1, 1], "option.invalid"),
        ([0.0, 1.0, 2.0], "option.wrong_type"),
    ],
)
def test_invalid_pairs_are_rejected(pairs, code):
    with raises(OptionError, code, option="pairs"):
        align(ORIGINAL, take(ORIGINAL, [0, 1, 2]), SCHEMA, pairs=np.array(pairs))


# By a key

KEYED = Schema(identifiers=["id"], quasi=SCHEMA.quasi, confidential=["tsh"], keep=["note"])


def keyed(ids, source=ORIGINAL):
    return Table({**source.columns, "id": values(ids)}, rows=source.rows, native=None)


@pytest.mark.parametrize(
    "ids",
    [
        ["u", "v", "w", "x"],
        [4, 3, 9, 1],
        [0.5, -0.25, 7.0, 1e300],
        [datetime.date(2020, 1, day) for day in (4, 3, 9, 1)],
        [2**62, 2**62 + 1, -(2**62), 0],
    ],
    ids=["text", "integers", "floats", "dates", "large integers"],
)
@pytest.mark.parametrize("rows", [[3, 0, 2, 1], [2, 0], [1], []])
def test_a_key_matches_rows_in_any_order_and_number(ids, rows):
    original = keyed(ids)
    result = align(original, take(original, rows), KEYED, key="id")
    assert result.pairs.tolist() == rows
    assert (result.changed, result.notes) == (0, ())


def test_keys_are_compared_regardless_of_storage():
    released = table(id=[4.0, 2.0], age=[1, 2], tsh=[4.0, None], note=["d", "b"])
    assert align(keyed([1, 2, 3, 4]), released, KEYED, key="id").pairs.tolist() == [3, 1]
    released = table(id=["4", "2"], age=[1, 2], tsh=[4.0, None], note=["d", "b"])
    assert align(keyed([1, 2, 3, 4]), released, KEYED, key="id").pairs.tolist() == [3, 1]


def test_with_a_key_changed_values_are_reported_and_rows_stay_matched():
    original = keyed(["u", "v", "w", "x"])
    released = table(id=["x", "u"], age=[1, 2], tsh=[4.5, 0.1], note=["secret", "secret"])
    result = align(original, released, KEYED, key="id")
    assert result.pairs.tolist() == [3, 0]
    assert result.changed == 3
    assert result.notes == ("Values changed that should be unchanged: columns 'tsh', 'note'.",)


@pytest.mark.parametrize(
    ("before", "after", "where"),
    [
        (
            ["u", "v", "w", "x"],
            ["u", "v", "y", "z"],
            {"table": "released", "count": 2, "row": 3},
        ),
        (
            ["u", "v", "w", "x"],
            [71, 72, 73, 74],
            {"table": "released", "count": 4, "row": 1},
        ),
        (
            [71, 72, 73, 74],
            [71.5, 72.0, 73.0, 74.0],
            {"table": "released", "count": 1, "row": 1},
        ),
        (
            ["u", "v", "w", "x"],
            ["u", "v", "w", "w"],
            {"table": "released", "count": 1, "row": 4},
        ),
        (
            ["u", "u", "w", "u"],
            ["u", "v", "w", "x"],
            {"table": "original", "count": 2, "row": 2},
        ),
        (
            ["u", "v", "w", "x"],
            ["u", None, "w", "x"],
            {"table": "released", "count": 1, "row": 2},
        ),
        (
            ["u", "v", None, "x"],
            ["u", "v", "w", "x"],
            {"table": "original", "count": 1, "row": 3},
        ),
        ([None] * 4, ["u", "v", "w", "x"], {"table": "original", "count": 4, "row": 1}),
    ],
)
def test_invalid_keys_are_rejected_without_showing_their_values(before, after, where):
    with raises(DataError, "data.bad_key", column="id", **where) as caught:
        align(keyed(before), keyed(after), KEYED, key="id")
    assert f" in {where['count']} row{'s' if where['count'] > 1 else ''}, " in str(caught.value)
    shown = set(re.findall(r"[\w.]+", str(caught.value)))
    assert not shown & {str(key) for key in (*before, *after) if key is not None}


@pytest.mark.parametrize("which", ["original", "released"])
def test_a_key_must_be_in_both_tables(which):
    tables = {"original": keyed(list("uvwx")), "released": keyed(list("uvwx")), which: ORIGINAL}
    with raises(OptionError, "option.unknown", option="key", table=which):
        align(tables["original"], tables["released"], KEYED, key="id")


@pytest.mark.parametrize("key", [5, ["id"], ("id",)])
def test_a_key_is_the_name_of_one_column(key):
    with raises(OptionError, "option.wrong_type", option="key"):
        align(keyed(list("uvwx")), keyed(list("uvwx")), KEYED, key=key)


@pytest.mark.parametrize("which", ["original", "released"])
def test_an_unchanged_column_that_one_table_lacks_is_ignored(which):
    tables = {"original": keyed(list("uvwx")), "released": keyed(list("uvwx"))}
    tables[which] = ORIGINAL
    schema = replace(KEYED, identifiers=(), keep=("note", "id"))
    assert align(tables["original"], tables["released"], schema).pairs.tolist() == [0, 1, 2, 3]


def test_a_key_and_pairs_cannot_be_combined():
    with raises(OptionError, "option.conflict"):
        align(keyed(list("uvwx")), keyed(list("uvwx")), KEYED, key="id", pairs=np.arange(4))
