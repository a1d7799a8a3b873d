"""Careless schemas of two bundled tables give the expected findings; their advice removes them."""

from dataclasses import replace

import microcell as mc
from microcell.model import Column, Schema


def codes(table, schema, **options):
    release = mc.anonymize(table, schema, k=5, method="mdav", **options)
    return {item.code for item in release.findings}


def test_the_survey():
    people = mc.sample_survey()
    careless = Schema(
        identifiers=["name"],
        quasi=["sex", "age", "bmi"],
        keep=["latitude", "longitude", "postal_code"],
        confidential=["anti_tpo_grade", "tsh"],
    )
    assert codes(people, careless) == {"risk.homogeneous_classes", "risk.singled_out"}
    required = {"homogeneous_records.anti_tpo_grade": 0}
    assert codes(people, mc.sample_schema(), require=required) == set()


def test_hospital_visits():
    visits = mc.sample_visits()
    quasi = ["sex", "birth_date", "admission", "discharge", "ward"]
    careless = Schema(
        drop=["patient_number", "name"],
        quasi=[*quasi, Column("postal_code", kind="code")],
        confidential=["icd10", "cost"],
    )
    assert codes(visits, careless) == {"risk.homogeneous_classes", "risk.persons_repeat"}
    named = replace(careless, drop=["name"], person="patient_number")
    assert codes(visits, named, require={"homogeneous_records.icd10": 0}) == set()
