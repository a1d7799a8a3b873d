"""Careless schemas of three tables give the expected findings; the advice removes them."""

import csv
from dataclasses import replace

import numpy as np
import pytest

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
    assert codes(people, careless) == {
        "risk.homogeneous_classes",
        "risk.singled_out",
        "risk.alone_in_class",
    }
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
    assert "risk.exact_values" in codes(visits, named)
    named = replace(named, confidential=["icd10", Column("cost", round=50)])
    assert codes(visits, named, require={"homogeneous_records.icd10": 0}) == set()


def test_hospital_visits_with_missing_dates_and_many_columns_kept():
    visits = mc.sample_visits(250)
    rng = np.random.default_rng(1)
    days = (visits["discharge"] - visits["admission"]).astype(float)
    absent = rng.random(len(days)) < 0.2
    visits |= {
        "discharge": np.where(absent, np.datetime64("NaT"), visits["discharge"]),
        "days": np.where(absent, np.nan, days),
        "fee": np.array([f"EUR {cost:,.2f}" for cost in np.nan_to_num(visits["cost"])]),
        "hour": rng.integers(0, 24, len(days)),
    }
    careless = Schema(
        drop=["patient_number", "name", "cost"],
        quasi=["sex", "birth_date", "admission", "discharge", "days", "ward"],
        keep=["postal_code", "hour", "fee"],
        confidential=["icd10"],
    )
    found = mc.anonymize(visits, careless, k=5, method="mdav", missing="impute").findings
    assert {item.code for item in found} == {
        "risk.homogeneous_classes",
        "risk.singled_out",
        "risk.alone_in_class",
        "risk.persons_repeat",
        "risk.lone_values",
        "utility.imputed",
        "utility.category_lost",
        "data.amounts_as_text",
        "rows.out_of_order",
        "rows.difference_broken",
    }
    singled_out = {item.columns for item in found if item.code == "risk.singled_out"}
    assert singled_out == {("fee",), ("hour", "postal_code")}

    dates = [Column("discharge", after="admission")]
    stay = [Column("days", difference_of=["discharge", "admission"])]
    better = Schema(
        drop=["name", "cost", "ward", "postal_code", "hour", "fee"],
        quasi=["sex", "birth_date", "admission", *dates, *stay],
        confidential=["icd10"],
        person="patient_number",
    )
    required = {"homogeneous_records.icd10": 0}
    # What is imputed instead of left out is in order, too.
    remaining = {"utility.imputed", "risk.lone_values"}
    assert codes(visits, better, require=required, missing="impute") <= remaining
    assert codes(visits, better, require=required, missing="drop") == set()


NUMBERS = {"age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"}


def combine_small(values, least):
    """Combine the categories of few people, as the advice asks for."""
    names, counts = np.unique(values, return_counts=True)
    return np.where(np.isin(values, names[counts < least]), "other", values)


@pytest.mark.full_search
def test_adult(data_folder):
    with (data_folder / "adult.csv").open(encoding="utf-8") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(1500), strict=False)]
    people = {
        name: np.array([float(row[name]) if name in NUMBERS else row[name] for row in rows])
        for name in rows[0]
    }
    groups = ["education", "marital_status", "race", "sex", "native_country"]
    kept = ["workclass", "occupation", "relationship", *sorted(NUMBERS - {"age", "fnlwgt"})]
    careless = Schema(quasi=["age", *groups], keep=kept, confidential=["income"], weight="fnlwgt")
    found = mc.anonymize(people, careless, k=5, method="mdav").findings
    assert {item.code for item in found} == {
        "risk.homogeneous_classes",
        "risk.singled_out",
        "risk.alone_in_class",
        "utility.category_lost",
    }
    singled_out = {item.columns: item for item in found if item.code == "risk.singled_out"}
    assert singled_out["fnlwgt",].severity == "danger"
    assert any(len(columns) == 3 for columns in singled_out)
    lost = {item.columns[0] for item in found if item.code == "utility.category_lost"}
    assert {"race", "native_country"} <= lost

    combined = {name: combine_small(people[name], 80) for name in groups}
    heavy = [Column(name, weight=4) for name in groups]
    better = replace(careless, quasi=["age", *heavy], keep=[], weight=None, drop=[*kept, "fnlwgt"])
    required = {"homogeneous_records.income": 0}
    assert codes({**people, **combined}, better, require=required) == set()
