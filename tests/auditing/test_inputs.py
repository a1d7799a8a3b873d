"""Inputs of the audit: tables of any length, order and type, a key, a population."""

import numpy as np
import pandas as pd
import pytest

import microcell as mc
from microcell.errors import DataError, OptionError, RequirementError, SchemaError
from tests.raising import raises

SCHEMA = mc.Schema(identifiers=["id"], quasi=["age", "sex"], confidential=["tsh", "ill"])
ORIGINAL = {
    "id": ["u", "v", "w", "x"],
    "age": [20, 22, 40, 44],
    "sex": ["f", "f", "m", "f"],
    "tsh": [1.0, 2.0, 3.0, 4.0],
    "ill": ["flu", "flu", "flu", "gout"],
}
RELEASED = {
    "age": [21, 21, 42, 42],
    "sex": ["f", "f", "m", "m"],
    "tsh": ORIGINAL["tsh"],
    "ill": ORIGINAL["ill"],
}
KEYED = {**RELEASED, "id": ORIGINAL["id"]}


def rows_of(columns, rows):
    return {name: [column[row] for row in rows] for name, column in columns.items()}


def audited(changes=None, **options):
    return mc.audit(ORIGINAL, {**RELEASED, **(changes or {})}, SCHEMA, **options)


# Key


@pytest.mark.parametrize("rows", [[3, 2, 1, 0], [1, 3, 0, 2]])
def test_a_key_gives_the_same_measures_as_the_right_order(rows):
    expected, result = audited(), mc.audit(ORIGINAL, rows_of(KEYED, rows), SCHEMA, key="id")
    assert list(result.measures) == list(expected.measures)
    for name, measure in expected.measures.items():
        if name != "identifiers_left":
            assert result[name] == pytest.approx(measure.value)


def test_an_identifier_used_as_key_still_counts_as_left_in_the_release():
    result = mc.audit(ORIGINAL, KEYED, SCHEMA, key="id")
    assert result["identifiers_left"] == 1
    with raises(RequirementError, "guarantee.requirement_not_met"):
        result.require(k=2)


def test_a_kept_key_is_not_an_error():
    schema = mc.Schema(quasi=["age", "sex"], confidential=["tsh", "ill"], keep=["id"])
    result = mc.audit(ORIGINAL, rows_of(KEYED, [2, 0, 1, 3]), schema, key="id")
    assert (
        result["identifiers_left"] == result["columns_unexpected"] == result["values_changed"] == 0
    )
    assert result.require(k=2, information_loss=0.6) is result


def test_a_key_matches_a_release_of_some_rows():
    result = mc.audit(ORIGINAL, rows_of(KEYED, [1, 0]), SCHEMA, key="id")
    assert (result["k"], result["records"], result["records_dropped"]) == (2, 2, 2)
    # 20 and 22 are published as 21, their mean: one of two is linked. What is lost is compared with
    # the spread of all original records, with those left out.
    ages = np.array(ORIGINAL["age"], dtype=float)
    lost = 2 / np.square(ages - ages.mean()).sum()
    assert result["linkage"] == 0.5
    assert result["information_loss.age"] == pytest.approx(lost)


def test_a_key_overrides_the_row_order_of_the_manifest_but_its_statements_are_checked():
    release = mc.anonymize(ORIGINAL, SCHEMA, k=2)
    shuffled = {
        **release.manifest.as_dict(),
        "row_order": "shuffled",
        "records": {"read": 4, "released": 3, "dropped": 1},
    }
    result = mc.audit(
        ORIGINAL, {**release.table, "id": ORIGINAL["id"]}, SCHEMA, manifest=shuffled, key="id"
    )
    assert result["manifest_contradictions"] == 1
    assert "information_loss" in result.measures


def test_an_unknown_key_is_rejected():
    with raises(DataError, "data.bad_key", column="id", table="released", row=4):
        mc.audit(ORIGINAL, {**KEYED, "id": ["u", "v", "w", "secret"]}, SCHEMA, key="id")
    with raises(OptionError, "option.unknown", option="key", table="released"):
        audited(key="id")


# Length and order


@pytest.mark.parametrize("rows", [[3, 2, 1, 0], [0, 1], [0, 1, 2, 3, 3], []])
def test_without_matched_rows_only_measures_of_the_release_are_available(rows):
    released = rows_of(RELEASED, rows)
    result = mc.audit(ORIGINAL, released, SCHEMA)
    classes = {}
    for pair in zip(released["age"], released["sex"], strict=True):
        classes[pair] = classes.get(pair, 0) + 1
    assert result["k"] == min(classes.values(), default=0)
    assert result["records_unaccounted"] == max(0, len(rows) - 4)
    assert result.linkage_by_known is None
    for name in (
        "information_loss",
        "information_loss.age",
        "linkage",
        "linkage_two",
        "interval_disclosure",
    ):
        assert name not in result.measures
        with raises(OptionError, "option.unknown", measure=name):
            result.check({name: 1.0})


def test_a_release_with_more_rows_fails():
    with raises(RequirementError, "guarantee.requirement_not_met"):
        mc.audit(ORIGINAL, rows_of(RELEASED, [0, 1, 2, 3, 3]), SCHEMA).require()


def test_an_empty_release_is_noted():
    result = mc.audit(ORIGINAL, rows_of(RELEASED, []), SCHEMA)
    assert (result["k"], result["records"], result["records_dropped"]) == (0, 0, 4)
    assert result.notes[0].endswith("the release has no rows.")
    assert not result.homogeneous
    assert mc.audit(ORIGINAL, rows_of(KEYED, []), SCHEMA, key="id")["k"] == 0


# Types


def test_numbers_published_as_another_type_are_rejected():
    with raises(SchemaError, "schema.wrong_kind", column="age"):
        audited({"age": [True, True, False, False]})
    with raises(DataError, "data.not_finite", column="age", row=3, table="released"):
        audited({"age": [21.0, 21.0, float("inf"), float("inf")]})


def test_a_category_that_is_not_in_the_original():
    result = audited({"sex": ["*", "*", "m", "m"]})
    assert (result["k"], result["classes"], result["linkage"]) == (2, 2, 0.5)


def test_missing_quasi_identifiers_form_one_class():
    result = audited({"age": [None] * 4, "sex": [None] * 4})
    assert (result["k"], result["classes"], result["linkage"], result["information_loss"]) == (
        4,
        1,
        0.25,
        1.0,
    )


@pytest.mark.parametrize("value", [7.5, None])
def test_a_constant_confidential_column_discloses_nothing(value):
    tsh = [value] * 4
    result = mc.audit({**ORIGINAL, "tsh": tsh}, {**RELEASED, "tsh": tsh}, SCHEMA)
    assert result["values_changed"] == 0
    assert (result["l_diversity.tsh"], result["t_closeness.tsh"], result["disclosed_bits.tsh"]) == (
        1,
        0.0,
        0.0,
    )
    assert result.homogeneous["tsh"].tolist() == [2, 2]


def test_a_confidential_column_blanked_in_the_release_is_changed():
    assert audited({"tsh": [None] * 4})["values_changed"] == 4


def test_classes_that_share_a_confidential_value_are_listed():
    result = audited()
    assert {name: sizes.tolist() for name, sizes in result.homogeneous.items()} == {
        "tsh": [],
        "ill": [2],
    }
    assert result["homogeneous_classes.ill"] == 1


def test_index_labels_are_not_positions():
    plain = audited()
    before, after = (
        pd.DataFrame(ORIGINAL, index=[3, 2, 1, 0]),
        pd.DataFrame(RELEASED, index=["b", "b", "a", 7]),
    )
    result = mc.audit(before, after, SCHEMA)
    assert {name: item.value for name, item in result.measures.items()} == {
        name: item.value for name, item in plain.measures.items()
    }


# Linkage and population


def test_linkage_by_known_ends_in_linkage():
    result = audited()
    assert len(result.linkage_by_known) == 2
    assert result.linkage_by_known[-1] == result["linkage"]


def test_a_population_adds_journalist_risks():
    assert "journalist_worst" not in audited().measures
    result = audited(population=80)
    assert (result["journalist_worst"], result["journalist_average"]) == (0.025, 0.025)
    assert audited(population=np.int64(4))["journalist_worst"] == result["prosecutor_worst"] == 0.5
    assert audited(population=2**70)["journalist_average"] < 1e-20


@pytest.mark.parametrize("population", [3, 0, -1])
def test_a_population_smaller_than_the_release_is_rejected(population):
    with raises(OptionError, "option.out_of_range", option="population"):
        audited(population=population)


@pytest.mark.parametrize("population", [True, 80.0, "80"])
def test_a_population_is_a_whole_number(population):
    with raises(OptionError, "option.wrong_type", option="population"):
        audited(population=population)
