"""People with several rows: refusals, counts, proofs on files, and audits."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.errors import (
    DataError,
    OptionError,
    RequirementError,
    SchemaError,
    TooFewRecordsError,
)
from microcell.measures.classes import fewest_people
from microcell.measures.confidential import count_values
from microcell.measures.disclosure import homogeneous_records, l_diversity, t_closeness
from tests.raising import raises

SCHEMA = mc.Schema(
    person="patient",
    quasi=["age", mc.Column("sex", kind="nominal")],
    confidential=["disease"],
    identifiers=["name"],
)


def visits(n_persons=40, most=6, seed=0):
    """Visits of patients whose age and sex do not change."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(n_persons), rng.integers(1, most + 1, n_persons))
    patient = rng.permutation(patient)
    age = rng.integers(18, 90, n_persons)[patient]
    sex = rng.choice(["f", "m"], n_persons)[patient]
    return pl.DataFrame(
        {
            "patient": [f"P{number:05}" for number in patient],
            "name": [f"N{number % 30}" for number in patient],
            "age": age,
            "sex": sex,
            "disease": rng.choice(["flu", "asthma", "cancer"], len(patient)),
        }
    )


def fewest_persons(table, patients, keys=("age", "sex")):
    classes = {}
    for key, patient in zip(table.select(keys).iter_rows(), patients, strict=True):
        classes.setdefault(key, set()).add(patient)
    return min(map(len, classes.values()))


# ----------------------------------------------------------------------------------- refusals


def test_a_repeating_identifier_without_a_person_is_refused():
    table = visits()
    schema = replace(SCHEMA, person=(), identifiers=["patient", "name"])
    with raises(SchemaError, "schema.person_required", columns=["patient", "name"]):
        mc.anonymize(table, schema, k=3)
    release = mc.anonymize(table, replace(schema, rows_are_people=True), k=3, method="mdav")
    assert release.manifest.rows_are_people is True
    assert release.manifest.person is None
    assert "risk.persons_repeat" in {item.code for item in release.audit().findings}


def test_a_name_that_repeats_beside_a_unique_number_is_fine():
    table = visits().with_columns(visit=pl.int_range(pl.len()))
    schema = replace(SCHEMA, person=(), identifiers=["name", "visit"], drop=["patient"])
    assert mc.anonymize(table, schema, k=3, method="mdav").manifest.rows_are_people is None


def test_missing_identifiers_do_not_count_as_repeated():
    table = visits().unique("patient").with_columns(name=pl.lit(None, dtype=pl.String))
    schema = replace(SCHEMA, person=(), drop=["patient"])
    assert mc.anonymize(table, schema, k=3, method="mdav").manifest.k == 3


@pytest.mark.parametrize(
    "change",
    [
        {"rows_are_people": True},
        {"person_cells": "apart"},
        {"rows_are_people": "yes"},
        {"person": (), "person_cells": "together"},
    ],
)
def test_contradicting_schemas(change):
    with raises(SchemaError, "schema.invalid"):
        replace(SCHEMA, **change)


def test_rows_without_a_person_are_refused_or_dropped():
    table = visits().with_columns(
        patient=pl.when(pl.int_range(pl.len()) == 4).then(None).otherwise("patient")
    )
    with raises(DataError, "data.missing_values", row=5, count=1, columns=["patient"]):
        mc.anonymize(table, SCHEMA, k=3)
    release = mc.anonymize(table, SCHEMA, k=3, missing="drop", method="mdav")
    assert release.manifest.records.dropped == 1


def test_too_few_persons_in_the_table_or_a_stratum():
    table = visits(n_persons=4, most=6)
    with raises(TooFewRecordsError, "guarantee.too_few_records", records=4, unit="persons"):
        mc.anonymize(table, SCHEMA, k=5)
    table = visits(n_persons=40).with_columns(
        region=pl.when(pl.col("patient") < "P00003")
        .then(pl.lit("north"))
        .otherwise(pl.lit("south"))
    )
    schema = replace(SCHEMA, strata=["region"])
    with raises(TooFewRecordsError, "guarantee.stratum_too_small", smallest=3, unit="persons"):
        mc.anonymize(table, schema, k=5)


def test_rows_of_a_person_in_two_strata_cannot_stay_together():
    table = visits().with_columns(year=pl.int_range(pl.len()) % 2)
    schema = replace(SCHEMA, strata=["year"], person_cells="together")
    with raises(SchemaError, "schema.invalid", field="person_cells"):
        mc.anonymize(table, schema, k=3)


def test_cells_as_functions_keep_k_persons():
    table = visits(n_persons=60)
    for kind in ("power", "balls", "lookup"):
        release = mc.anonymize(table, SCHEMA, k=3, method="mdav", cells=kind)
        assert fewest_persons(release.table, table["patient"]) >= 3
    with raises(OptionError, "option.conflict", option="cells"):
        mc.anonymize(table, replace(SCHEMA, person_cells="together"), k=3, cells=True)


def test_blocks_count_persons():
    table = visits(n_persons=60)
    release = mc.anonymize(table, SCHEMA, k=4, method="mdav", blocks=1)
    for column in ("age", "sex"):
        assert fewest_persons(release.table, table["patient"], (column,)) >= 4
    assert release.manifest.k == fewest_persons(release.table, table["patient"])


# -------------------------------------------------------------------------- files and audits


def test_five_rows_of_one_person_are_not_five_people():
    """Sixty people with five equal rows each: rows alone would give cells of one person."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(60), 5)
    table = pl.DataFrame(
        {
            "patient": patient,
            "age": rng.normal(50, 15, 60).round(1)[patient],
            "cost": rng.random(300),
        }
    )
    schema = mc.Schema(person="patient", quasi=["age"], confidential=["cost"])
    rows = mc.anonymize(table.drop("patient"), replace(schema, person=()), k=5, method="mdav")
    assert fewest_persons(rows.table, patient, ("age",)) == 1
    for person_cells in ("rows", "together"):
        release = mc.anonymize(table, replace(schema, person_cells=person_cells), k=5)
        assert fewest_persons(release.table, patient, ("age",)) >= 5
        assert release.manifest.person.count == 60
        assert release.manifest.person.most_rows == 5


def test_the_written_file_is_proved_and_audited_in_persons(tmp_path):
    table = visits(n_persons=50)
    path, original = tmp_path / "out.csv", tmp_path / "visits.csv"
    table.write_csv(original)
    mc.anonymize(original, SCHEMA, k=4, method="mdav").publish(path)
    audit = mc.audit(original, path, SCHEMA)
    assert audit.measures["k"].unit == "persons"
    assert audit["k"] >= 4
    audit.require(k=4)
    assert "patient" not in path.read_text().splitlines()[0]
    content = (tmp_path / "out.csv.manifest.json").read_text()
    assert not any(value in content for value in set(table["patient"]))


def test_k_is_the_worst_case_if_rows_cannot_be_matched(tmp_path):
    table = visits(n_persons=50)
    release = mc.anonymize(table, SCHEMA, k=4, method="mdav")
    shuffled = release.table.sample(fraction=1.0, shuffle=True, seed=1)
    audit = mc.audit(table, shuffled, SCHEMA)
    known = mc.audit(table, release.table, SCHEMA)
    assert audit["k"] <= known["k"]
    assert any("--manifest" in note for note in audit.notes)
    rows = np.bincount([int(name[1:]) for name in table["patient"]])
    sizes = shuffled.group_by("age", "sex").len()["len"].to_numpy()
    assert audit["k"] == fewest_people(sizes, rows).min()


def test_a_file_with_too_few_persons_contradicts_its_manifest(tmp_path):
    table = visits(n_persons=50)
    path = tmp_path / "out.csv"
    release = mc.anonymize(table, SCHEMA, k=4, method="mdav").publish(path, keep_order=True)
    broken = pl.read_csv(path).with_columns(
        age=pl.when(pl.Series(table["patient"] == table["patient"][0]))
        .then(pl.lit(999))
        .otherwise("age")
    )
    audit = mc.audit(table, broken, SCHEMA, manifest=release.manifest)
    assert audit["k"] == 1
    with raises(RequirementError, "guarantee.requirement_not_met"):
        audit.require(k=4)


def test_spellings_of_a_person_are_reported():
    table = visits(n_persons=40).with_columns(
        patient=pl.when(pl.int_range(pl.len()) % 2 == 0)
        .then(pl.col("patient").str.to_lowercase())
        .otherwise("patient")
    )
    findings = mc.anonymize(table, SCHEMA, k=3, method="mdav").findings
    assert "risk.persons_spelling" in {item.code for item in findings}


# ----------------------------------------------------------------------------------- measures


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=20
    )
)
def test_confidential_values_are_counted_by_person(rows):
    classes, persons, codes = map(np.array, zip(*rows, strict=True))
    codes = np.unique(codes, return_inverse=True)[1]
    counts = count_values(classes, codes, ordered=False, persons=persons)
    table = [(person, code) for person, code in set(zip(persons, codes, strict=True))]
    for position, cell in enumerate(sorted(set(classes))):
        members = {(p, v) for c, p, v in zip(classes, persons, codes, strict=True) if c == cell}
        people = {person for person, _ in members}
        values = {value for _, value in members}
        common = [v for v in values if all((person, v) in members for person in people)]
        assert counts.sizes[position] == len(people)
        assert l_diversity(counts)[position] == (1 if common else len(values))
        assert homogeneous_records(counts)[position] == (len(people) if common else 0)
        distance = sum(
            abs(
                sum(v == value for _, v in members) / len(members)
                - sum(v == value for _, v in table) / len(table)
            )
            for value in {value for _, value in table}
        )
        assert t_closeness(counts)[position] == pytest.approx(distance / 2)


def test_everyone_sharing_one_of_several_values_is_disclosure():
    """Five people who all had flu, some with something else too: flu is certain."""
    persons = [0, 1, 2, 3, 4, 0, 1]
    disease = [0, 0, 0, 0, 0, 1, 2]
    counts = count_values(
        np.zeros(7, dtype=np.int64), np.array(disease), ordered=False, persons=np.array(persons)
    )
    assert l_diversity(counts).tolist() == [1]
    assert homogeneous_records(counts).tolist() == [5]


def test_linkage_is_a_guess_among_people():
    persons = np.repeat(np.arange(10), 3)
    before = {"age": np.repeat(np.arange(10) * 10.0, 3) + np.tile([0, 1, 2], 10), "id": persons}
    release = mc.anonymize(before, mc.Schema(person="id", quasi=["age"]), k=2, method="mdav")
    audit = release.audit()
    assert audit["prosecutor_worst"] == 1 / audit["k"]
    assert audit["linkage"] <= 1 / audit["k"]
    assert audit["records"] == 30


def test_the_population_is_compared_with_people_not_rows():
    table = visits(n_persons=50)
    release = mc.anonymize(table, SCHEMA, k=4, method="mdav")
    assert table.height > 100
    audit = mc.audit(table, release.table, SCHEMA, population=100)
    assert 0 < audit["journalist_worst"] <= 1
    with raises(OptionError, "option.out_of_range", option="population"):
        mc.audit(table, release.table, SCHEMA, population=49)
