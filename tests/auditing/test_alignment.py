"""Which rows are compared with which."""

import datetime

import numpy as np
import pytest

from microcell.auditing.alignment import align
from microcell.errors import OptionError
from microcell.model import Column, Schema, Values
from tests.small_tables import table, take

SCHEMA = Schema(quasi=[Column("age", kind="numeric", publish="mean")], confidential=["tsh"], keep=["note"])
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


def test_the_smallest_difference_of_a_float_counts():
    tsh = [0.1, None, 3.0, np.nextafter(4.0, 5)]
    released = table(age=[21, 21, 42, 42], tsh=tsh, note=["a", "b", None, "d"])
    assert align(ORIGINAL, released, SCHEMA).pairs is None


def test_missing_equals_only_missing():
    released = table(age=[21, 21, 42, 42], tsh=[0.1, 1.0, 3.0, 4.0], note=["a", "b", None, "d"])
    assert align(ORIGINAL, released, SCHEMA).pairs is None


def test_dropped_rows_are_those_with_a_missing_quasi_identifier():
    released = take(table(age=[21, 21, 0, 42], tsh=[0.1, None, 3.0, 4.0], note=["a", "b", None, "d"]), [0, 1, 3])
    assert align(ORIGINAL, released, SCHEMA).pairs.tolist() == [0, 1, 3]


def test_other_dropped_rows_are_not_aligned():
    assert align(ORIGINAL, take(ORIGINAL, [0, 1]), SCHEMA).pairs is None
    assert align(ORIGINAL, take(ORIGINAL, [0, 1, 2]), SCHEMA).pairs is None


def test_more_rows_than_the_original():
    found = align(ORIGINAL, take(ORIGINAL, [0, 1, 2, 3, 3]), SCHEMA)
    assert found.pairs is None
    assert "more rows" in found.notes[0]


@pytest.mark.parametrize("schema", [Schema(quasi=SCHEMA.quasi), Schema(quasi=SCHEMA.quasi, keep=["flat"])])
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
