"""The audit as a whole."""

import numpy as np
import pytest

from microcell.auditing import audit
from microcell.errors import OptionError, RequirementError, SchemaError
from microcell.measures.registry import measures
from microcell.model import Column, Schema
from tests.raising import raises
from tests.small_tables import table, take

SCHEMA = Schema(
    identifiers=["name"],
    quasi=[
        Column("age", kind="numeric", publish="mean"),
        Column("sex", kind="nominal", publish="mode"),
    ],
    confidential=["tsh"],
    drop=["phone"],
)
ORIGINAL = table(
    name=["a", "b", "c", "d"],
    phone=[1, 2, 3, 4],
    age=[20, 22, 40, 44],
    sex=["f", "f", "m", "f"],
    tsh=[1.0, 2.0, 3.0, 4.0],
)
RELEASED = table(age=[21, 21, 42, 42], sex=["f", "f", "m", "m"], tsh=[1.0, 2.0, 3.0, 4.0])


def test_order_of_measures():
    actual = audit(ORIGINAL, RELEASED, SCHEMA)
    expected = {
        "k": 2,
        "classes": 2,
        "records": 4,
        "records_dropped": 0,
        "records_unaccounted": 0,
        "identifiers_left": 0,
        "columns_missing": 0,
        "columns_unexpected": 0,
        "values_changed": 0,
        "records_below_2k": 1.0,
        "prosecutor_worst": 0.5,
        "prosecutor_average": 0.5,
        "l_diversity": 2,
        "l_diversity.tsh": 2,
        "t_closeness": round(1 / 3, 6),
        "disclosed_bits": 1.0,
        "homogeneous_classes": 0,
        "linkage": 0.5,
        "information_loss": round((10 / 451 + 1) / 2, 6),
        "information_loss.age": round(10 / 451, 6),
        "information_loss.sex": 1.0,
    }
    assert {name: round(actual[name], 6) for name in expected} == expected
    overall = [name for name in actual.measures if "." not in name]
    assert overall == [name for name in measures() if name in actual.measures]
    assert list(actual.measures)[: len(overall)] == overall
    lost = [name for name in actual.measures if name.startswith("information_loss")]
    assert lost == ["information_loss", "information_loss.age", "information_loss.sex"]
    assert actual.keys == ("age", "sex")
    assert actual.class_sizes.tolist() == [2, 2]
    assert actual.notes == ()
    assert all(measure.meaning.endswith(".") for measure in actual.measures.values())
    assert actual.require(k=2, information_loss=0.9) is actual


def test_age_distortion_by_hand():
    x, y = np.array([20, 22, 40, 44.0]), np.array([21, 21, 42, 42.0])
    assert audit(ORIGINAL, RELEASED, SCHEMA)["information_loss.age"] == pytest.approx(
        ((x - y) ** 2).sum() / ((x - x.mean()) ** 2).sum()
    )


def test_identifiers_left_are_counted_and_named():
    actual = audit(ORIGINAL, ORIGINAL, SCHEMA)
    assert actual["identifiers_left"] == 2
    assert "'name', 'phone'" in " ".join(actual.notes)
    with raises(RequirementError, "guarantee.requirement_not_met", measures=["identifiers_left"]):
        actual.require()


def test_a_lone_missing_key_gives_k_1():
    released = table(
        age=[21, 21, 42, 42, None], sex=["f", "f", "m", "m", "m"], tsh=[1.0, 2.0, 3.0, 4.0, 5.0]
    )
    original = table(
        age=[20, 22, 40, 44, 45], sex=["f", "f", "m", "f", "m"], tsh=[1.0, 2.0, 3.0, 4.0, 5.0]
    )
    actual = audit(original, released, SCHEMA)
    assert actual["k"] == 1
    assert actual.class_sizes.sum() == 5


def test_strata_are_keys():
    schema = Schema(quasi=[Column("age", kind="numeric", publish="mean")], strata=["region"])
    data = table(age=[1, 1, 1, 1], region=["n", "n", "s", "w"])
    actual = audit(data, data, schema)
    assert actual["k"] == 1
    assert actual.keys == ("age", "region")


def test_unaligned_rows_have_no_distortion_and_a_note():
    actual = audit(ORIGINAL, take(RELEASED, [3, 2, 1, 0]), SCHEMA)
    assert "information_loss" not in actual.measures
    assert actual["k"] == 2
    assert "not computed" in actual.notes[0]
    assert actual.projection is None
    assert len(actual.comparisons) == 2


def test_pairs_align_a_shuffled_release():
    rows = np.array([3, 1, 0, 2])
    straight, shuffled = (
        audit(ORIGINAL, RELEASED, SCHEMA),
        audit(ORIGINAL, take(RELEASED, rows), SCHEMA, pairs=rows),
    )
    for name, measure in straight.measures.items():
        assert shuffled[name] == pytest.approx(measure.value)


def test_dropped_and_surplus_records():
    fewer = audit(ORIGINAL, take(RELEASED, [0, 1]), SCHEMA)
    assert (fewer["records_dropped"], fewer["records_unaccounted"]) == (2, 0)
    more = audit(ORIGINAL, take(RELEASED, [0, 1, 2, 3, 3]), SCHEMA)
    assert (more["records_dropped"], more["records_unaccounted"]) == (0, 1)
    with raises(RequirementError, "guarantee.requirement_not_met") as caught:
        more.require()
    assert "records_unaccounted" in caught.value.details["measures"]


def test_an_empty_release_has_k_0():
    actual = audit(ORIGINAL, take(RELEASED, []), SCHEMA)
    assert actual["k"] == 0
    assert actual["classes"] == 0
    with raises(RequirementError, "guarantee.requirement_not_met", measures=["k"]):
        actual.require(k=1)


def test_two_empty_tables():
    empty = table(age=[], sex=[], tsh=[])
    assert audit(empty, empty, SCHEMA)["k"] == 0


def test_an_absent_quasi_identifier():
    with raises(SchemaError, "schema.unknown_column", columns=["sex"], table="released"):
        audit(ORIGINAL, table(age=[1, 2, 3, 4]), SCHEMA)
    with raises(SchemaError, "schema.unknown_column", columns=["age", "sex"], table="original"):
        audit(table(x=[1]), RELEASED, SCHEMA)


def test_absent_and_unexpected_columns_are_counted_and_noted():
    actual = audit(
        ORIGINAL, table(age=[21, 21, 42, 42], sex=["f", "f", "m", "m"], extra=[1, 2, 3, 4]), SCHEMA
    )
    notes = " ".join(actual.notes)
    assert (actual["columns_missing"], actual["columns_unexpected"], actual["values_changed"]) == (
        1,
        1,
        0,
    )
    assert "not in the release: column 'tsh'" in notes
    assert "without a role in the schema, so not audited: column 'extra'" in notes


def test_unreadable_values_are_noted_without_being_printed():
    actual = audit(
        ORIGINAL,
        table(age=["21", "secret", "42", "42"], sex=["f"] * 4, tsh=[1.0, 2.0, 3.0, 4.0]),
        SCHEMA,
    )
    assert "Column 'age': 1 published value could not be compared" in actual.notes[0]
    assert "secret" not in " ".join(actual.notes)


def test_the_tables_are_not_modified():
    before = {name: column.data.copy() for name, column in ORIGINAL.columns.items()}
    audit(ORIGINAL, RELEASED, SCHEMA)
    for name, column in ORIGINAL.columns.items():
        np.testing.assert_array_equal(column.data, before[name])


@pytest.mark.parametrize("contradictions", [[], ["The release is another file."], ["One.", "Two."]])
def test_contradictions_of_the_manifest_are_counted_and_noted(contradictions):
    actual = audit(ORIGINAL, RELEASED, SCHEMA, contradictions=contradictions)
    assert actual["manifest_contradictions"] == len(contradictions)
    assert actual.notes == tuple(contradictions)
    assert actual.measures["manifest_contradictions"].lower_is_better


def test_without_a_manifest_contradictions_are_not_measured():
    assert "manifest_contradictions" not in audit(ORIGINAL, RELEASED, SCHEMA).measures


def test_a_brief_audit_trains_no_model_and_rejects_a_target():
    with raises(OptionError, "option.conflict", option="target"):
        audit(ORIGINAL, RELEASED, SCHEMA, brief=True, target="tsh")


def test_a_brief_audit_omits_measures_that_compare_records():
    whole, brief = audit(ORIGINAL, RELEASED, SCHEMA), audit(ORIGINAL, RELEASED, SCHEMA, brief=True)
    assert brief["k"] == whole["k"]
    left_out = set(whole.measures) - set(brief.measures)
    assert {"information_loss", "linkage", "dld", "il1s", "propensity_error"} <= left_out
    assert {
        "l_diversity",
        "t_closeness",
        "prosecutor_worst",
        "values_changed",
        "dependence_loss",
    } <= set(brief.measures)
    assert brief.comparisons == brief.quantiles == ()


@pytest.mark.parametrize("limit", ["5", None, True, [5]])
def test_a_limit_that_is_not_a_number_is_rejected(limit):
    with raises(OptionError, "option.wrong_type", option="k"):
        audit(ORIGINAL, RELEASED, SCHEMA).require(k=limit)
