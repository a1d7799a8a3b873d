"""What the audit is given: tables of any length, order and type, a key, a population; a right answer or an error."""

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


# ---------------------------------------------------------------------------------------------- key


@pytest.mark.parametrize("rows", [[3, 2, 1, 0], [1, 3, 0, 2]])
def test_a_key_gives_what_the_right_order_gives(rows):
    expected, found = audited(), mc.audit(ORIGINAL, rows_of(KEYED, rows), SCHEMA, key="id")
    assert list(found.measures) == list(expected.measures)
    for name, measure in expected.measures.items():
        if name != "identifiers_left":
            assert found[name] == pytest.approx(measure.value)


def test_an_identifier_that_serves_as_key_is_still_left_in_the_release():
    found = mc.audit(ORIGINAL, KEYED, SCHEMA, key="id")
    assert found["identifiers_left"] == 1
    with pytest.raises(RequirementError, match="identifiers_left is 1"):
        found.require(k=2)


def test_a_key_that_is_kept_is_no_fault():
    schema = mc.Schema(quasi=["age", "sex"], confidential=["tsh", "ill"], keep=["id"])
    found = mc.audit(ORIGINAL, rows_of(KEYED, [2, 0, 1, 3]), schema, key="id")
    assert found["identifiers_left"] == found["columns_unexpected"] == found["values_changed"] == 0
    assert found.require(k=2, distortion=0.6) is found


def test_a_key_matches_a_release_of_some_rows():
    found = mc.audit(ORIGINAL, rows_of(KEYED, [1, 0]), SCHEMA, key="id")
    assert (found["k"], found["records"], found["records_dropped"]) == (2, 2, 2)
    # Of 20 and 22, both published as 21, half of them is found; their distortion is all they have, as 21 is their mean.
    assert (found["linkage"], found["distortion.age"]) == (0.5, 1.0)


def test_a_key_stands_above_the_order_of_the_manifest_whose_statements_are_still_checked():
    release = mc.anonymize(ORIGINAL, SCHEMA, k=2)
    shuffled = {
        **release.manifest.as_dict(),
        "row_order": "shuffled",
        "records": {"in": 4, "out": 3, "dropped": 1},
    }
    found = mc.audit(
        ORIGINAL, {**release.table, "id": ORIGINAL["id"]}, SCHEMA, manifest=shuffled, key="id"
    )
    assert found["manifest_contradictions"] == 1
    assert "distortion" in found.measures


def test_a_strange_key_is_refused():
    with pytest.raises(DataError, match=r"'id' of the released table holds .* first in row 4"):
        mc.audit(ORIGINAL, {**KEYED, "id": ["u", "v", "w", "secret"]}, SCHEMA, key="id")
    with pytest.raises(OptionError, match="released table has no column 'id'"):
        audited(key="id")


# ---------------------------------------------------------------------------------------------- lengths and orders


@pytest.mark.parametrize("rows", [[3, 2, 1, 0], [0, 1], [0, 1, 2, 3, 3], []])
def test_rows_that_cannot_be_matched_leave_k_and_refuse_what_is_not_measured(rows):
    released = rows_of(RELEASED, rows)
    found = mc.audit(ORIGINAL, released, SCHEMA)
    classes = {}
    for pair in zip(released["age"], released["sex"], strict=True):
        classes[pair] = classes.get(pair, 0) + 1
    assert found["k"] == min(classes.values(), default=0)
    assert found["records_unaccounted"] == max(0, len(rows) - 4)
    assert found.linkage_by_known is None
    for name in ("distortion", "distortion.age", "linkage", "linkage_two", "interval_disclosure"):
        assert name not in found.measures
        with raises(OptionError, "option.unknown", measure=name):
            found.check({name: 1.0})


def test_a_release_with_more_rows_fails():
    with pytest.raises(RequirementError, match="records_unaccounted is 1"):
        mc.audit(ORIGINAL, rows_of(RELEASED, [0, 1, 2, 3, 3]), SCHEMA).require()


def test_an_empty_release_says_so():
    found = mc.audit(ORIGINAL, rows_of(RELEASED, []), SCHEMA)
    assert (found["k"], found["records"], found["records_dropped"]) == (0, 0, 4)
    assert found.notes[0].endswith("the release has no rows.")
    assert not found.homogeneous
    assert mc.audit(ORIGINAL, rows_of(KEYED, []), SCHEMA, key="id")["k"] == 0


# ---------------------------------------------------------------------------------------------- types


def test_a_number_published_as_something_else():
    with raises(SchemaError, "schema.wrong_kind", column="age"):
        audited({"age": [True, True, False, False]})
    with raises(DataError, "data.not_finite", column="age", row=3, table="released"):
        audited({"age": [21.0, 21.0, float("inf"), float("inf")]})


def test_a_category_that_the_original_does_not_have():
    found = audited({"sex": ["*", "*", "m", "m"]})
    assert (found["k"], found["classes"], found["linkage"]) == (2, 2, 0.5)


def test_quasi_identifiers_all_missing_are_one_class():
    found = audited({"age": [None] * 4, "sex": [None] * 4})
    assert (found["k"], found["classes"], found["linkage"], found["distortion"]) == (
        4,
        1,
        0.25,
        1.0,
    )


@pytest.mark.parametrize("value", [7.5, None])
def test_a_confidential_column_of_one_value_tells_nothing_new(value):
    tsh = [value] * 4
    found = mc.audit({**ORIGINAL, "tsh": tsh}, {**RELEASED, "tsh": tsh}, SCHEMA)
    assert found["values_changed"] == 0
    assert (found["l_diversity.tsh"], found["t_closeness.tsh"], found["disclosed_bits.tsh"]) == (
        1,
        0.0,
        0.0,
    )
    assert found.homogeneous["tsh"].tolist() == [2, 2]


def test_a_confidential_column_that_is_blank_in_the_release_only_is_changed():
    assert audited({"tsh": [None] * 4})["values_changed"] == 4


def test_classes_that_share_a_confidential_value_are_listed():
    found = audited()
    assert {name: sizes.tolist() for name, sizes in found.homogeneous.items()} == {
        "tsh": [],
        "ill": [2],
    }
    assert found["homogeneous_classes.ill"] == 1


def test_index_labels_are_not_positions():
    plain = audited()
    before, after = (
        pd.DataFrame(ORIGINAL, index=[3, 2, 1, 0]),
        pd.DataFrame(RELEASED, index=["b", "b", "a", 7]),
    )
    found = mc.audit(before, after, SCHEMA)
    assert {name: item.value for name, item in found.measures.items()} == {
        name: item.value for name, item in plain.measures.items()
    }


# ---------------------------------------------------------------------------------------------- linkage and population


def test_linkage_by_known_ends_in_linkage():
    found = audited()
    assert len(found.linkage_by_known) == 2
    assert found.linkage_by_known[-1] == found["linkage"]


def test_a_population_tells_of_journalists():
    assert "journalist_worst" not in audited().measures
    found = audited(population=80)
    assert (found["journalist_worst"], found["journalist_average"]) == (0.025, 0.025)
    assert audited(population=np.int64(4))["journalist_worst"] == found["prosecutor_worst"] == 0.5
    assert audited(population=2**70)["journalist_average"] < 1e-20


@pytest.mark.parametrize("population", [3, 0, -1])
def test_a_population_smaller_than_the_release_is_refused(population):
    with raises(OptionError, "option.out_of_range", option="population"):
        audited(population=population)


@pytest.mark.parametrize("population", [True, 80.0, "80"])
def test_a_population_is_a_whole_number(population):
    with raises(OptionError, "option.wrong_type", option="population"):
        audited(population=population)
