"""Tampered releases: each kind of tampering, with rows matched by a manifest and without."""

import numpy as np
import pytest

from microcell.auditing import audit
from microcell.errors import RequirementError
from microcell.model import Column, Schema, Table
from tests.raising import raises
from tests.small_tables import table, take, values

SCHEMA = Schema(
    identifiers=["name"],
    quasi=[Column("age", kind="numeric", publish="mean")],
    confidential=["tsh", "grade"],
    strata=["region"],
    keep=["remark"],
    weight="w",
)
UNCHANGED = {
    "tsh": [0.5, 1.5, None, 3.5, 4.5, 4.5],
    "grade": [1, 2, 3, 4, 5, 6],
    "region": ["n", "n", "n", "s", "s", "s"],
    "remark": ["a", None, "c", "d", "e", "f"],
    "w": [1.0, 2.0, 3.0, 1.0, 2.0, 3.0],
}
ORIGINAL = table(name=list("uvwxyz"), age=[20, 21, 22, 40, 41, 42], **UNCHANGED)
RELEASED = table(age=[21, 21, 21, 41, 41, 41], **UNCHANGED)
ORDER = np.array([4, 2, 0, 5, 1, 3])
FAULTS = (
    "identifiers_left",
    "columns_missing",
    "columns_unexpected",
    "values_changed",
    "records_unaccounted",
)


def with_column(name, items, source=RELEASED):
    return Table({**source.columns, name: values(items)}, rows=source.rows, native=None)


def without_column(name):
    return Table(
        {key: column for key, column in RELEASED.columns.items() if key != name},
        rows=6,
        native=None,
    )


def faults(result):
    return {name: result[name] for name in FAULTS if result[name]}


def audit_in_order(released):
    return audit(ORIGINAL, released, SCHEMA)


def audit_with_pairs(released):
    """Audit the shuffled release with the row order of its manifest."""
    return audit(ORIGINAL, take(released, ORDER), SCHEMA, pairs=ORDER)


def audit_shuffled(released):
    return audit(ORIGINAL, take(released, ORDER), SCHEMA)


WAYS = {"pairs": audit_with_pairs, "in order": audit_in_order, "shuffled": audit_shuffled}

TAMPERED = {
    "a confidential value changed": (with_column("tsh", [0.5, 9.0, None, 3.5, 4.5, 4.5]), 1, 1),
    "a confidential value taken from another": (
        with_column("tsh", [4.5, 1.5, None, 3.5, 4.5, 4.5]),
        1,
        1,
    ),
    "a value blanked": (with_column("remark", ["a", None, "c", None, "e", "f"]), 1, 1),
    "a missing value filled": (with_column("tsh", [0.5, 1.5, 2.5, 3.5, 4.5, 4.5]), 1, 1),
    "a column doubled": (with_column("grade", [2, 4, 6, 8, 10, 12]), 6, 3),
    "a column reversed": (with_column("grade", [6, 5, 4, 3, 2, 1]), 6, 0),
    "a stratum changed": (with_column("region", ["n", "n", "n", "s", "s", "n"]), 1, 1),
    "a weight changed": (with_column("w", [1.0, 2.0, 3.0, 1.0, 2.0, 3.5]), 1, 1),
    "numbers as another text": (with_column("grade", ["one", "2", "3", "4", "5", "6"]), 1, 1),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_honest_release_passes(way):
    result = WAYS[way](RELEASED)
    assert faults(result) == {}
    result.require(k=3)


@pytest.mark.parametrize("released, by_row, by_value", TAMPERED.values(), ids=TAMPERED)
def test_values_changed(released, by_row, by_value):
    matched, ordered, shuffled = (check(released) for check in WAYS.values())
    assert matched["values_changed"] == by_row
    assert ordered["values_changed"] == shuffled["values_changed"] == by_value
    for result in (matched, ordered, shuffled):
        assert "information_loss" not in result.measures
        assert result.notes[0].startswith("Information loss")
        assert ("Values changed that should be unchanged" in result.notes[0]) == (
            result["values_changed"] > 0
        )


@pytest.mark.parametrize("released", [TAMPERED["a confidential value changed"][0]])
@pytest.mark.parametrize("way", WAYS)
def test_a_changed_value_fails_every_requirement(way, released):
    with raises(RequirementError, "guarantee.requirement_not_met"):
        WAYS[way](released).require()


def test_notes_name_changed_columns_but_no_values():
    for check in WAYS.values():
        notes = " ".join(check(with_column("remark", ["a", None, "c", "d", "secret", "f"])).notes)
        assert "column 'remark'." in notes
        assert "secret" not in notes


def test_a_release_that_contradicts_its_manifest():
    swapped = take(RELEASED, [1, 0, 2, 3, 4, 5])
    result = audit_with_pairs(swapped)
    # Two rows differ in tsh, grade, remark and w; their stratum is the same.
    assert result["values_changed"] == 8
    assert "the row order or the values that its manifest describes" in result.notes[0]
    assert "'tsh', 'grade', 'remark', 'w'" in result.notes[0]
    assert audit(ORIGINAL, RELEASED, SCHEMA, pairs=ORDER)["values_changed"] > 0


def test_another_row_order_without_a_manifest_is_not_a_change():
    for rows in ([1, 0, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0]):
        result = audit(ORIGINAL, take(RELEASED, rows), SCHEMA)
        assert result["values_changed"] == 0
        assert "pass the manifest" in result.notes[0]
        assert not any("another record" in note for note in result.notes)
        assert "information_loss" not in result.measures


@pytest.mark.parametrize("check", [audit_in_order, audit_shuffled])
def test_a_single_permuted_column_is_noted_without_a_manifest(check):
    result = check(TAMPERED["a column reversed"][0])
    assert "belong to another record" in result.notes[1]


@pytest.mark.parametrize("name", ["tsh", "remark", "w"])
@pytest.mark.parametrize("way", WAYS)
def test_a_column_deleted(way, name):
    result = WAYS[way](without_column(name))
    assert faults(result) == {"columns_missing": 1}
    with raises(RequirementError, "guarantee.requirement_not_met"):
        result.require()


@pytest.mark.parametrize("way", WAYS)
def test_a_column_added(way):
    result = WAYS[way](with_column("tsh_copy", UNCHANGED["tsh"]))
    assert faults(result) == {"columns_unexpected": 1}
    with raises(RequirementError, "guarantee.requirement_not_met"):
        result.require()


@pytest.mark.parametrize("way", WAYS)
def test_an_identifier_put_back(way):
    assert faults(WAYS[way](with_column("name", list("uvwxyz")))) == {"identifiers_left": 1}


def test_omitted_rows_are_counted_as_dropped_and_not_as_changed():
    result = audit_in_order(take(RELEASED, [0, 1, 3, 4]))
    assert faults(result) == {}
    assert result["records_dropped"] == 2
    left = ORDER[:3]
    assert faults(audit(ORIGINAL, take(RELEASED, left), SCHEMA, pairs=left)) == {}


def test_a_repeated_row_is_an_unaccounted_record():
    result = audit_in_order(take(RELEASED, [0, 1, 2, 3, 4, 5, 5]))
    assert faults(result) == {"values_changed": 5, "records_unaccounted": 1}
    replaced = audit_in_order(take(RELEASED, [0, 1, 2, 3, 4, 4]))
    # tsh and the stratum of rows 5 and 6 are equal; grade, remark and w are not.
    assert faults(replaced) == {"values_changed": 3}
