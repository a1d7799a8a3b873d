"""Columns that may name people, and identifiers that repeat."""

import pytest

from microcell.auditing.run import identifying_notes, repetition_notes
from microcell.model import Column, Schema
from tests.small_tables import table

AGE = [Column("age", kind="numeric")]
NAMES = [f"person {number}" for number in range(10)]


def notes(schema, **columns):
    return list(identifying_notes(table(**columns), schema))


@pytest.mark.parametrize("role", ["keep", "confidential"])
def test_nearly_unique_text_is_noted(role):
    actual = notes(Schema(quasi=AGE, **{role: ["x"]}), x=NAMES)
    assert actual == [
        "Column 'x' is published unchanged and nearly all of its values are distinct: it may "
        "identify people."
    ]


@pytest.mark.parametrize(
    "items, noted",
    [
        (NAMES[:9], False),
        ([*NAMES[:9], NAMES[0]], True),
        ([*NAMES[:8], NAMES[0], NAMES[1]], False),
        ([*NAMES, None, None, None], True),
        ([*NAMES[:9], None, None, None], False),
        ([None] * 20, False),
        (list(range(20)), False),
    ],
    ids=["nine", "nine of ten", "eight of ten", "missing aside", "nine known", "empty", "numbers"],
)
def test_what_is_nearly_every_value(items, noted):
    assert bool(notes(Schema(quasi=AGE, keep=["x"]), x=items)) == noted


def test_a_nearly_unique_weight_is_noted():
    schema = Schema(quasi=AGE, weight="w")
    assert notes(schema, w=[1.5 + number for number in range(10)]) == [
        "Column 'w' is published unchanged and nearly all of its values are distinct: an outsider "
        "who knows the value finds the record."
    ]
    assert "it may identify people" in notes(schema, w=NAMES)[0]
    assert notes(schema, w=[1.0, 2.0] * 10) == []


def test_keys_and_absent_columns_are_ignored():
    schema = Schema(
        quasi=[Column("home", kind="nominal")], strata=["region"], keep=["gone"], weight="none"
    )
    assert notes(schema, home=NAMES, region=NAMES) == []


def test_identifiers_that_repeat_are_counted_and_not_shown():
    data = table(
        id=[7, 7, 7, 8, None, None],
        visit=list(range(6)),
        name=["Ada", "Ada", "Bob", "Cid", "Dee", "Eve"],
    )
    (actual,) = repetition_notes(data, Schema(identifiers=["id", "visit", "name"], quasi=AGE))
    assert "'id' (2 distinct values in 4 records)" in actual
    assert "'name' (5 distinct values in 6 records)" in actual
    assert "'visit'" not in actual
    assert "Ada" not in actual


def test_identifiers_that_all_differ_are_not_noted():
    data = table(id=[*range(5), None, None], none=[None] * 7)
    assert not list(repetition_notes(data, Schema(identifiers=["id", "none", "gone"], quasi=AGE)))
