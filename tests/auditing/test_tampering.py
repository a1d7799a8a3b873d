"""Releases that someone laid hands on: each kind of tampering, with the rows matched by a manifest and without."""

import numpy as np
import pytest

from microcell.auditing import audit
from microcell.errors import RequirementError
from microcell.model import Column, Schema, Table
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


def faults(found):
    return {name: found[name] for name in FAULTS if found[name]}


def audit_in_order(released):
    return audit(ORIGINAL, released, SCHEMA)


def audit_with_pairs(released):
    """The release shuffled, and the order known, as a manifest tells it."""
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
    found = WAYS[way](RELEASED)
    assert faults(found) == {}
    found.require(k=3)


@pytest.mark.parametrize("released, by_row, by_value", TAMPERED.values(), ids=TAMPERED)
def test_values_changed(released, by_row, by_value):
    matched, ordered, shuffled = (check(released) for check in WAYS.values())
    assert matched["values_changed"] == by_row
    assert ordered["values_changed"] == shuffled["values_changed"] == by_value
    for found in (matched, ordered, shuffled):
        assert "distortion" not in found.measures
        assert found.notes[0].startswith("Distortion was not measured")
        assert ("Changed, though to be published unchanged" in found.notes[0]) == (
            found["values_changed"] > 0
        )


@pytest.mark.parametrize("released", [TAMPERED["a confidential value changed"][0]])
@pytest.mark.parametrize("way", WAYS)
def test_a_changed_value_fails_what_is_required(way, released):
    with pytest.raises(RequirementError, match="values_changed is 1"):
        WAYS[way](released).require()


def test_the_columns_are_named_and_their_values_are_not():
    for check in WAYS.values():
        notes = " ".join(check(with_column("remark", ["a", None, "c", "d", "secret", "f"])).notes)
        assert "column 'remark'." in notes
        assert "secret" not in notes


def test_a_file_that_is_not_as_its_manifest_says():
    swapped = take(RELEASED, [1, 0, 2, 3, 4, 5])
    found = audit_with_pairs(swapped)
    # Two rows differ in tsh, grade, remark and w; their stratum is the same.
    assert found["values_changed"] == 8
    assert (
        "not in the order, or does not hold the values, that its manifest describes"
        in found.notes[0]
    )
    assert "'tsh', 'grade', 'remark', 'w'" in found.notes[0]
    assert audit(ORIGINAL, RELEASED, SCHEMA, pairs=ORDER)["values_changed"] > 0


def test_another_order_without_a_manifest_is_no_change():
    for rows in ([1, 0, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0]):
        found = audit(ORIGINAL, take(RELEASED, rows), SCHEMA)
        assert found["values_changed"] == 0
        assert "give the manifest" in found.notes[0]
        assert not any("another record" in note for note in found.notes)
        assert "distortion" not in found.measures


@pytest.mark.parametrize("check", [audit_in_order, audit_shuffled])
def test_a_column_permuted_alone_is_noted_without_a_manifest(check):
    found = check(TAMPERED["a column reversed"][0])
    assert "not together in one record" in found.notes[1]


@pytest.mark.parametrize("name", ["tsh", "remark", "w"])
@pytest.mark.parametrize("way", WAYS)
def test_a_column_deleted(way, name):
    found = WAYS[way](without_column(name))
    assert faults(found) == {"columns_missing": 1}
    with pytest.raises(RequirementError, match="columns_missing is 1"):
        found.require()


@pytest.mark.parametrize("way", WAYS)
def test_a_column_added(way):
    found = WAYS[way](with_column("tsh_copy", UNCHANGED["tsh"]))
    assert faults(found) == {"columns_unexpected": 1}
    with pytest.raises(RequirementError, match="columns_unexpected is 1"):
        found.require()


@pytest.mark.parametrize("way", WAYS)
def test_an_identifier_put_back(way):
    assert faults(WAYS[way](with_column("name", list("uvwxyz")))) == {"identifiers_left": 1}


def test_rows_left_out_are_dropped_and_no_change():
    found = audit_in_order(take(RELEASED, [0, 1, 3, 4]))
    assert faults(found) == {}
    assert found["records_dropped"] == 2
    left = ORDER[:3]
    assert faults(audit(ORIGINAL, take(RELEASED, left), SCHEMA, pairs=left)) == {}


def test_a_row_repeated_is_a_record_and_values_too_many():
    found = audit_in_order(take(RELEASED, [0, 1, 2, 3, 4, 5, 5]))
    assert faults(found) == {"values_changed": 5, "records_unaccounted": 1}
    replaced = audit_in_order(take(RELEASED, [0, 1, 2, 3, 4, 4]))
    # tsh of rows 5 and 6 is the same, and so is their stratum: grade, remark and w are too many.
    assert faults(replaced) == {"values_changed": 3}
