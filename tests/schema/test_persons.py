"""Drafting the column that tells people apart, and counting people instead of rows."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.sample import sample_schema, sample_visits
from microcell.schema.draft import draft_schema, inspect
from microcell.schema.files import schema_from_toml, schema_to_toml
from microcell.schema.persons import count_unique
from tests.schema.test_draft import as_values, cycle, table_of

PERSONS = [person for person in range(40) for _ in range(person % 3 + 1)]
"""40 people with 1 to 3 rows."""

NUMBERS = [1000 + 37 * person for person in PERSONS]
TEXTS = [f"x{number}" for number in NUMBERS]
SEX = [("f", "m")[person * 7 % 5 % 2] for person in PERSONS]
BIRTHS = [1950 + person * 17 % 41 for person in PERSONS]
AGES = [20 + row * 13 % 50 for row in range(len(PERSONS))]


def roles_of(**columns):
    return {item.name: item.role for item in inspect(table_of(**columns)).columns}


def persons_of(**columns):
    return [name for name, role in roles_of(**columns).items() if role == "person"]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "patient_number",
            "Patient ID",
            "patient",
            "mrn",
            "email",
            "card_no",
            "credit card number",
        ),
        *(
            "insurance number",
            "household_id",
            "hh_id",
            "customer",
            "account_no",
            "member_id",
            "ssn",
        ),
        *("Patientennummer", "PatientenNr", "Versichertennummer", "Kartennummer", "Kunden-Nr."),
        *("Haushalts-ID", "Haushaltsnummer", "Kontonummer", "Sozialversicherungsnummer"),
        *("numéro de patient", "num_assuré", "id_ménage", "numéro de carte", "identifiant patient"),
        *("número de paciente", "id_hogar", "número de tarjeta", "correo", "número de cuenta"),
        *("número de afiliado", "paciente", "foyer", "Haushalt", "num_securite_sociale"),
    ],
)
@pytest.mark.parametrize("values", [NUMBERS, TEXTS])
def test_numbers_of_people_that_repeat_are_the_person(name, values):
    assert persons_of(**{name: values, "age": AGES}) == [name]


def test_the_reason_tells_counts_and_agreement():
    inspection = inspect(table_of(patient_id=NUMBERS, sex=SEX, birth_year=BIRTHS, age=AGES))
    reason = inspection.columns[0].reason
    assert reason.startswith("Named like an ID of a person or record. ")
    assert "40 distinct values in 79 rows" in reason
    assert "sex and birth_year for 100 %" in reason
    assert draft_schema(inspection).person == ("patient_id",)


def test_nothing_changes_if_an_identifier_is_unique_per_row():
    unique = list(range(5, 5 + len(PERSONS)))
    inspection = inspect(table_of(client_no=unique, name=TEXTS, patient_id=NUMBERS, age=AGES))
    assert [item.role for item in inspection.columns] == ["identifier"] * 3 + ["quasi"]
    assert (inspection.persons, inspection.rows_per_person) == (None, None)
    assert "repeat" in inspection.columns[2].reason
    assert "repeat" not in inspection.columns[0].reason


def test_numbers_are_preferred_to_names_even_if_they_have_more_values():
    names = [f"name{person // 2}" for person in PERSONS]
    assert roles_of(name=names, email=[f"{item}@x.org" for item in NUMBERS], age=AGES) == {
        "name": "identifier",
        "email": "person",
        "age": "quasi",
    }


def test_a_column_whose_rows_agree_in_sex_is_preferred():
    phones = [f"+{person // 4}" for person in PERSONS]
    columns = {"phone": phones, "insurance_no": NUMBERS, "sex": SEX, "birth_year": BIRTHS}
    assert persons_of(**columns) == ["insurance_no"]


def test_a_complete_column_is_preferred():
    emails = [None if person % 4 == 0 else f"{person}@x.org" for person in PERSONS]
    assert persons_of(email=emails, card_number=NUMBERS, age=AGES) == ["card_number"]


def test_missing_numbers_are_reported_and_not_counted():
    numbers = [None if person == 3 else 100 + person for person in PERSONS]
    inspection = inspect(table_of(patient_id=numbers, age=AGES))
    assert inspection.persons == 39
    assert "1 row has no value" in inspection.columns[0].reason


def test_first_names_and_surnames_tell_people_apart_together():
    first = [f"v{person % 7}" for person in PERSONS]
    last = [f"n{person // 7 + 20 * (person % 3)}" for person in PERSONS]
    columns = {"first_name": first, "surname": last, "sex": SEX, "birth_year": BIRTHS}
    inspection = inspect(table_of(**columns))
    assert draft_schema(inspection).person == ("first_name", "surname")
    assert inspection.persons == 40


def test_a_first_name_is_not_a_person():
    first = [f"v{row % 12}" for row in range(len(PERSONS))]
    facts = inspect(table_of(vorname=first, sex=SEX, birth_year=BIRTHS, age=AGES)).columns[0]
    assert facts.role == "identifier"
    assert "rows_are_people" in facts.reason


@pytest.mark.parametrize("name", ["kd", "ref", "pseudonym"])
def test_a_column_without_a_telling_name_is_the_person_if_sex_and_birth_agree(name):
    persons = [person for person in range(120) for _ in range(person % 3 + 1)]
    numbers = [1000 + 37 * person for person in persons]
    sex = [("f", "m")[person * 7 % 5 % 2] for person in persons]
    births = [1950 + person * 17 % 41 for person in persons]
    assert persons_of(**{name: numbers, "sex": sex, "birth_year": births}) == [name]
    assert persons_of(**{name: numbers, "sex": sex[::-1], "birth_year": births[::-1]}) == []
    assert persons_of(**{name: numbers, "sex": ["f"] * len(sex)}) == []
    assert persons_of(**{name: numbers}) == []


@pytest.mark.parametrize("name", ["street", "age", "city", "income", "postal_code", "weight"])
def test_other_columns_are_not_persons(name):
    assert persons_of(**{name: NUMBERS, "sex": SEX, "birth_year": BIRTHS}) == []


def test_a_few_values_are_not_persons():
    assert persons_of(patient=cycle("yes", "no"), household_id=cycle(1, 2, 3)) == []


def test_the_visits_get_the_person_of_their_schema():
    visits = sample_visits(400)
    dates = ("birth_date", "admission", "discharge")
    table = table_of(
        **{
            name: as_values(values.astype(np.int64).tolist(), storage="date")
            if name in dates
            else as_values([None if item != item else item for item in values.tolist()])
            for name, values in visits.items()
        }
    )
    inspection = inspect(table)
    drafted = draft_schema(inspection)
    expected = sample_schema("visits")
    assert dict(drafted.roles()) == dict(expected.roles())
    assert [item.kind for item in drafted.quasi] == [item.kind for item in expected.quasi]
    assert inspection.persons == 400
    assert inspection.rows_per_person.max == 12
    assert schema_from_toml(schema_to_toml(drafted)) == drafted


def test_rows_per_person_are_plain_data():
    plain = inspect(table_of(patient_id=NUMBERS, age=AGES)).as_dict()
    assert json.loads(json.dumps(plain))["rows_per_person"] == {"median": 2.0, "max": 3}


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 5)), min_size=1, max_size=30),
)
def test_unique_counts_persons_with_a_combination_that_nobody_else_has(rows):
    keys, persons = (np.array(part) for part in zip(*rows, strict=True))
    alone = {
        person
        for key, person in rows
        if person >= 0 and {other for same, other in rows if same == key} == {person}
    }
    assert count_unique(keys.astype(np.uint64), persons) == len(alone)


def test_people_are_counted_as_unique_once_and_only_if_nobody_shares_the_combination():
    numbers = [1, 1, 2, 2, *range(3, 20)]
    ages = [30, 30, 40, 50, 50, 60, *[70] * 15]
    inspection = inspect(table_of(patient_id=numbers, age=ages))
    # Person 1 twice with 30, person 2 with 40, person 4 with 60.
    assert (inspection.persons, inspection.unique) == (19, 3)
