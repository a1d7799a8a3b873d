"""Columns that may name people."""

import pytest

from microcell.auditing.notes import naming_notes
from microcell.model import Column, Schema
from tests.small_tables import table

AGE = [Column("age", kind="numeric")]
NAMES = [f"person {number}" for number in range(10)]


def notes(schema, **columns):
    return list(naming_notes(table(**columns), schema))


@pytest.mark.parametrize("role", ["keep", "confidential"])
def test_text_that_nearly_always_differs(role):
    found = notes(Schema(quasi=AGE, **{role: ["x"]}), x=NAMES)
    assert found == ["Column 'x' is published unchanged and nearly every value differs: it may name people."]


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


def test_a_weight_that_tells_the_record():
    schema = Schema(quasi=AGE, weight="w")
    assert notes(schema, w=[1.5 + number for number in range(10)]) == [
        "Column 'w' is published unchanged and nearly every value differs: an outsider who knows it finds the record."
    ]
    assert "it may name people" in notes(schema, w=NAMES)[0]
    assert notes(schema, w=[1.0, 2.0] * 10) == []


def test_keys_and_columns_that_are_not_there_are_left_alone():
    schema = Schema(quasi=[Column("home", kind="nominal")], strata=["region"], keep=["gone"], weight="none")
    assert notes(schema, home=NAMES, region=NAMES) == []
