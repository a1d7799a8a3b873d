"""Which rows are compared with which."""

import datetime
import re

import numpy as np
import pytest

from microcell.auditing.alignment import align
from microcell.errors import DataError, OptionError
from microcell.model import Column, Schema, Table, Values
from tests.small_tables import table, take, values

SCHEMA = Schema(
    quasi=[Column("age", kind="numeric", publish="mean")], confidential=["tsh"], keep=["note"]
)
ORIGINAL = table(age=[20, 22, None, 42], tsh=[0.1, None, 3.0, 4.0], note=["a", "b", None, "d"])


def test_equal_unchanged_columns_align_by_position():
    released = table(age=[21, 21, 42, 42], tsh=[0.1, None, 3.0, 4.0], note=["a", "b", None, "d"])
    found = align(ORIGINAL, released, SCHEMA)
    assert found.pairs.tolist() == [0, 1, 2, 3]
    assert found.notes == ()


def test_another_order_is_not_aligned_and_says_what_to_do():
    found = align(ORIGINAL, take(ORIGINAL, [1, 0, 2, 3]), SCHEMA)
    assert found.pairs is None
    assert "before its rows are shuffled" in found.notes[0]
    assert "manifest" in found.notes[0]
    assert "key column" in found.notes[0]


def test_the_smallest_difference_of_a_float_counts():
    tsh = [0.1, None, 3.0, np.nextafter(4.0, 5)]
    released = table(age=[21, 21, 42, 42], tsh=tsh, note=["a", "b", None, "d"])
    assert align(ORIGINAL, released, SCHEMA).pairs is None


def test_missing_equals_only_missing():
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
    found = align(ORIGINAL, take(ORIGINAL, [0, 1, 2, 3, 3]), SCHEMA)
    assert found.pairs is None
    assert "more rows" in found.notes[0]


@pytest.mark.parametrize(
    "schema", [Schema(quasi=SCHEMA.quasi), Schema(quasi=SCHEMA.quasi, keep=["flat"])]
)
def test_order_is_taken_on_trust_where_nothing_tells_rows_apart(schema):
    made = table(age=[1, 2, 3], flat=["x", "x", "x"])
    found = align(made, made, schema)
    assert found.pairs.tolist() == [0, 1, 2]
    assert "on trust" in found.notes[0]


def test_values_are_compared_and_not_their_storage():
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]
    original = table(age=[1, 2], a=[1, 2], b=["y", "x"], day=days)
    codes = Values("text", np.array([1, 2]), np.array([False, False]), categories=("w", "y", "x"))
    released = table(age=[1, 2], a=[1.0, 2.0], b=codes, day=days)
    schema = Schema(quasi=SCHEMA.quasi, keep=["a", "b", "day"])
    assert align(original, released, schema).notes == ()


def test_pairs_are_used_and_changed_columns_told():
    rows = np.array([3, 0, 1])
    released = take(ORIGINAL, rows)
    found = align(ORIGINAL, released, SCHEMA, pairs=rows)
    assert found.pairs.tolist() == [3, 0, 1]
    assert found.notes == ()
    wrong = align(ORIGINAL, released, SCHEMA, pairs=np.array([0, 3, 1]))
    assert "'tsh', 'note'" in wrong.notes[0]


@pytest.mark.parametrize("pairs", [[0, 1], [0, 1, 4], [0, 1, -1], [0, 1, 1], [0.0, 1.0, 2.0]])
def test_pairs_that_cannot_be_are_refused(pairs):
    with pytest.raises(OptionError, match="pairs must"):
        align(ORIGINAL, take(ORIGINAL, [0, 1, 2]), SCHEMA, pairs=np.array(pairs))


# ---------------------------------------------------------------------------------------------- by a key

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
def test_a_key_matches_rows_whatever_their_order_and_number(ids, rows):
    original = keyed(ids)
    found = align(original, take(original, rows), KEYED, key="id")
    assert found.pairs.tolist() == rows
    assert (found.changed, found.notes) == (0, ())


def test_a_key_is_compared_by_value_and_not_by_storage():
    released = table(id=[4.0, 2.0], age=[1, 2], tsh=[4.0, None], note=["d", "b"])
    assert align(keyed([1, 2, 3, 4]), released, KEYED, key="id").pairs.tolist() == [3, 1]
    released = table(id=["4", "2"], age=[1, 2], tsh=[4.0, None], note=["d", "b"])
    assert align(keyed([1, 2, 3, 4]), released, KEYED, key="id").pairs.tolist() == [3, 1]


def test_values_changed_beside_a_key_are_told_and_rows_stay_matched():
    original = keyed(["u", "v", "w", "x"])
    released = table(id=["x", "u"], age=[1, 2], tsh=[4.5, 0.1], note=["secret", "secret"])
    found = align(original, released, KEYED, key="id")
    assert found.pairs.tolist() == [3, 0]
    assert found.changed == 3
    assert found.notes == ("Changed, though to be published unchanged: columns 'tsh', 'note'.",)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            ["u", "v", "w", "x"],
            ["u", "v", "y", "z"],
            "released table holds .* in 2 rows, first in row 3",
        ),
        (
            ["u", "v", "w", "x"],
            [71, 72, 73, 74],
            "released table holds .* in 4 rows, first in row 1",
        ),
        (
            [71, 72, 73, 74],
            [71.5, 72.0, 73.0, 74.0],
            "released table holds .* in 1 row, first in row 1",
        ),
        (
            ["u", "v", "w", "x"],
            ["u", "v", "w", "w"],
            "released table repeats .* in 1 row, first in row 4",
        ),
        (
            ["u", "u", "w", "u"],
            ["u", "v", "w", "x"],
            "original table repeats .* in 2 rows, first in row 2",
        ),
        (
            ["u", "v", "w", "x"],
            ["u", None, "w", "x"],
            "released table is missing in 1 row, first in row 2",
        ),
        (
            ["u", "v", None, "x"],
            ["u", "v", "w", "x"],
            "original table is missing in 1 row, first in row 3",
        ),
        ([None] * 4, ["u", "v", "w", "x"], "original table is missing in 4 rows"),
    ],
)
def test_keys_that_cannot_match_are_refused_without_their_values(before, after, words):
    with pytest.raises(DataError, match=f"key column 'id' of the {words}") as caught:
        align(keyed(before), keyed(after), KEYED, key="id")
    shown = set(re.findall(r"[\w.]+", str(caught.value)))
    assert not shown & {str(key) for key in (*before, *after) if key is not None}


@pytest.mark.parametrize("which", ["original", "released"])
def test_a_key_that_a_table_does_not_have(which):
    tables = {"original": keyed(list("uvwx")), "released": keyed(list("uvwx")), which: ORIGINAL}
    with pytest.raises(OptionError, match=f"The {which} table has no column 'id'"):
        align(tables["original"], tables["released"], KEYED, key="id")


@pytest.mark.parametrize("key", [5, ["id"], ("id",)])
def test_a_key_is_the_name_of_one_column(key):
    with pytest.raises(OptionError, match="name of one column"):
        align(keyed(list("uvwx")), keyed(list("uvwx")), KEYED, key=key)


def test_a_key_and_pairs_are_one_too_many():
    with pytest.raises(OptionError, match="not by both"):
        align(keyed(list("uvwx")), keyed(list("uvwx")), KEYED, key="id", pairs=np.arange(4))
