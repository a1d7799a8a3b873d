"""Equivalence classes against a plain dictionary of rows."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import SchemaError
from microcell.measures import classes
from microcell.measures.classes import class_labels, class_sizes
from microcell.model import Table, Values
from tests.raising import raises
from tests.small_tables import table, take

CELL = st.one_of(st.none(), st.integers(-2, 2))
WORD = st.one_of(st.none(), st.sampled_from(["a", "b", "ab", ""]))
ROWS = st.lists(st.tuples(CELL, WORD, CELL), min_size=1, max_size=40)


@given(ROWS)
def test_classes_are_the_distinct_rows(rows):
    data = table(x=[row[0] for row in rows], y=[row[1] for row in rows], z=[row[2] for row in rows])
    labels = class_labels(data, ["x", "y", "z"])
    assert Counter(Counter(rows).values()) == Counter(class_sizes(data, ["x", "y", "z"]).tolist())
    assert len({(row, label) for row, label in zip(rows, labels.tolist(), strict=True)}) == len(
        set(rows)
    )
    assert sorted(set(labels.tolist())) == list(range(len(set(rows))))


@given(ROWS)
def test_classes_are_numbered_in_the_order_of_their_values(rows):
    data = table(x=[row[0] for row in rows], y=[row[1] for row in rows], z=[row[2] for row in rows])
    distinct = sorted(
        set(rows),
        key=lambda row: [(cell is not None, cell if cell is not None else 0) for cell in row],
    )
    assert class_labels(data, ["x", "y", "z"]).tolist() == [distinct.index(row) for row in rows]


@given(ROWS)
def test_rows_that_share_a_hash_are_distinguished(rows):
    data = table(x=[row[0] for row in rows], y=[row[1] for row in rows], z=[row[2] for row in rows])
    expected = class_labels(data, ["x", "y", "z"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classes, "_MULTIPLIER", np.uint64(0))
        np.testing.assert_array_equal(class_labels(data, ["x", "y", "z"]), expected)


def test_zeros_of_either_sign_are_equal_and_missing_differs():
    data = table(x=[0.0, -0.0, None, 0.0], y=[1, 1, 1, 1])
    assert class_labels(data, ["x", "y"]).tolist() == [1, 1, 0, 1]


def test_a_single_row_with_a_missing_key_forms_a_class():
    data = table(age=[30, 30, 30, None], sex=["f", "f", "f", "f"])
    assert class_sizes(data, ["age", "sex"]).min() == 1
    assert class_sizes(data, ["age", "sex"]).sum() == 4


def test_data_of_missing_values_are_ignored():
    column = Values("float", np.array([1.0, 7.0, np.nan]), np.array([True, True, True]))
    assert class_sizes(Table({"x": column}, rows=3, native=None), ["x"]).tolist() == [3]


def test_a_true_minus_999_is_a_value():
    assert sorted(class_sizes(table(x=[-999, None, -999, None, None]), ["x"]).tolist()) == [2, 3]


def test_no_rows_gives_no_classes():
    empty = table(x=[], y=[])
    assert class_sizes(empty, ["x", "y"]).tolist() == []
    assert class_labels(empty, ["x"]).shape == (0,)


def test_an_absent_column_is_named():
    with raises(SchemaError, "schema.unknown_column", columns=["home", "sex"]):
        class_sizes(table(age=[1]), ["home", "age", "sex"])


def test_many_distinct_columns_do_not_overflow():
    rng = np.random.default_rng(1)
    rows = 3000
    columns = {f"c{place}": rng.permutation(rows) for place in range(12)}
    data = table(**columns)
    assert class_sizes(data, list(columns)).tolist() == [1] * rows
    twice = take(data, np.tile(np.arange(rows), 2))
    assert class_sizes(twice, list(columns)).tolist() == [2] * rows
