"""The bundled samples: ranges, associations, reproducibility, and their schemas."""

from collections import Counter

import numpy as np
import pytest

from microcell.errors import OptionError
from microcell.sample import _DIAGNOSES, sample_schema, sample_survey, sample_visits
from tests.raising import raises

SURVEY = sample_survey()
VISITS = sample_visits()


def correlation(x, y):
    return np.corrcoef(x, y)[0, 1]


def test_columns_types_and_length():
    kinds = {name: values.dtype.kind for name, values in SURVEY.items()}
    assert kinds == {
        "name": "U",
        "sex": "U",
        "age": "i",
        "bmi": "f",
        "latitude": "f",
        "longitude": "f",
        "postal_code": "U",
        "anti_tpo_grade": "i",
        "tsh": "f",
    }
    assert {values.shape for values in SURVEY.values()} == {(2000,)}


@pytest.mark.parametrize(
    ("name", "low", "high", "decimals"),
    [
        ("age", 18, 95, 0),
        ("bmi", 16, 48, 1),
        ("latitude", 41.1, 41.9, 4),
        ("longitude", 0.8, 1.6, 4),
        ("anti_tpo_grade", 0, 4, 0),
        ("tsh", 0.3, 20, 2),
    ],
)
def test_ranges_and_decimals(name, low, high, decimals):
    values = SURVEY[name]
    assert low <= values.min() < values.max() <= high
    assert np.array_equal(values, np.round(values, decimals))
    assert decimals == 0 or not np.array_equal(values, np.round(values, decimals - 1))


def test_the_seed_determines_the_people():
    again = sample_survey()
    other = sample_survey(seed=8)
    assert all(np.array_equal(SURVEY[name], again[name]) for name in SURVEY)
    assert not any(np.array_equal(SURVEY[name], other[name]) for name in SURVEY)


def test_the_global_generator_is_not_used():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    sample_survey(10)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_age_structure():
    ages = SURVEY["age"]
    assert 45 < np.median(ages) < 55
    assert np.mean(ages < 35) > np.mean(ages >= 75) > np.mean(ages >= 85) > 0


def test_sexes_are_balanced_and_older_people_are_more_often_women():
    women = SURVEY["sex"] == "female"
    assert set(SURVEY["sex"]) == {"female", "male"}
    assert 0.48 < women.mean() < 0.62
    big = sample_survey(20_000)
    women, old = big["sex"] == "female", big["age"] >= 70
    assert women[old].mean() > women[~old].mean()


def test_antibodies_are_more_frequent_in_women_and_with_age():
    women, positive = SURVEY["sex"] == "female", SURVEY["anti_tpo_grade"] > 0
    assert 0.1 < positive.mean() < 0.3
    assert positive[women].mean() > 1.5 * positive[~women].mean()
    assert correlation(SURVEY["age"], SURVEY["anti_tpo_grade"]) > 0.1
    counts = np.bincount(SURVEY["anti_tpo_grade"])
    assert len(counts) == 5
    assert (np.diff(counts) < 0).all()


def test_tsh_rises_with_grade_age_and_slightly_with_bmi():
    log_tsh, grade = np.log(SURVEY["tsh"]), SURVEY["anti_tpo_grade"]
    assert 1.2 < np.median(SURVEY["tsh"]) < 2.2
    assert correlation(grade, log_tsh) > 0.4
    design = np.column_stack([np.ones(2000), grade, SURVEY["age"], SURVEY["bmi"]])
    slopes = np.linalg.lstsq(design, log_tsh, rcond=None)[0]
    assert slopes[1:] == pytest.approx([0.28, 0.005, 0.015], abs=0.02)
    assert (slopes[1:] > 0).all()


def test_postal_codes_have_five_characters_and_match_the_town():
    codes = SURVEY["postal_code"]
    assert {len(code) for code in codes.tolist()} == {5}
    assert all(code.isdigit() for code in codes.tolist())
    assert 0.1 < np.mean([code.startswith("0") for code in codes.tolist()]) < 0.9
    towns = np.array([code[:4] for code in codes.tolist()])
    sizes = Counter(towns.tolist())
    assert max(sizes.values()) > 5 * min(sizes.values())
    for town in sizes:
        inside = towns == town
        assert np.ptp(SURVEY["latitude"][inside]) < 0.2
        assert np.std(SURVEY["latitude"][inside]) < np.std(SURVEY["latitude"]) / 2


@pytest.mark.parametrize("records", [2000, 60_000])
def test_names_are_unique(records):
    names = sample_survey(records)["name"].tolist()
    assert len(set(names)) == records
    assert {len(name.split()) for name in names} == {2}
    assert np.mean(["-" in name for name in names]) < 0.6


def test_the_table_needs_protection():
    few = zip(
        *(SURVEY[name].tolist() for name in ("sex", "age", "bmi", "postal_code")), strict=True
    )
    every = zip(*(SURVEY[name].tolist() for name in sample_schema().keys), strict=True)
    for combinations in (few, every):
        sizes = Counter(combinations)
        assert sum(size == 1 for size in sizes.values()) > 0.9 * 2000


def test_schema_covers_every_column_once():
    roles = dict(sample_schema().roles())
    assert sorted(roles) == sorted(SURVEY)
    assert roles["name"] == "identifiers"
    assert roles["tsh"] == roles["anti_tpo_grade"] == "confidential"
    kinds = {column.name: column.kind for column in sample_schema().quasi}
    assert kinds == {
        "sex": "nominal",
        "age": "numeric",
        "bmi": "numeric",
        "home": "location",
        "postal_code": "code",
    }


def test_one_person():
    assert all(len(values) == 1 for values in sample_survey(1).values())


@pytest.mark.parametrize("records", [0, -3])
def test_rejects_fewer_than_one_record(records):
    with raises(OptionError, "option.out_of_range", option="records"):
        sample_survey(records)


@pytest.mark.parametrize("records", [2.5, True, "many", None])
def test_rejects_other_types_as_number_of_records(records):
    with raises(OptionError, "option.wrong_type", option="records"):
        sample_survey(records)


# ------------------------------------------------------------------------------ visits


def by_patient(name):
    """Return the values of a column by patient, in order of admission."""
    values = {}
    for patient, value in zip(
        VISITS["patient_number"].tolist(), VISITS[name].tolist(), strict=True
    ):
        values.setdefault(patient, []).append(value)
    return values


def test_visits_columns_and_types():
    kinds = {name: values.dtype.kind for name, values in VISITS.items()}
    texts = ("patient_number", "name", "sex", "postal_code", "ward", "icd10")
    dates = ("birth_date", "admission", "discharge")
    assert kinds == dict.fromkeys(texts, "U") | dict.fromkeys(dates, "M") | {"cost": "f"}
    assert len({values.shape for values in VISITS.values()}) == 1


def test_patients_have_one_to_twelve_visits():
    counts = np.array([len(items) for items in by_patient("sex").values()])
    assert len(counts) == 1500
    assert (counts.min(), counts.max()) == (1, 12)
    assert 2.2 < counts.mean() < 2.8
    assert np.median(counts) == 2
    assert (np.diff(np.bincount(counts)[1:6]) < 0).all()


def test_the_rows_of_a_patient_agree():
    for name in ("name", "sex", "birth_date", "postal_code"):
        assert all(len(set(items)) == 1 for items in by_patient(name).values()), name
    names = Counter(items[0] for items in by_patient("name").values())
    assert 1 < max(names.values()) < 5
    diagnoses = [items for items in by_patient("icd10").values() if len(items) > 1]
    repeated = np.mean([max(Counter(items).values()) / len(items) for items in diagnoses])
    assert 0.6 < repeated < 0.95


def test_stays_are_in_2024_and_do_not_overlap():
    admission, discharge = VISITS["admission"], VISITS["discharge"]
    assert (np.diff(admission) >= np.timedelta64(0)).all()
    assert (discharge >= admission).all()
    assert {day.year for day in admission.tolist()} == {2024}
    assert np.mean(discharge > admission) > 0.8
    pairs = zip(by_patient("admission").values(), by_patient("discharge").values(), strict=True)
    for starts, ends in pairs:
        assert all(end <= start for end, start in zip(ends[:-1], starts[1:], strict=True))


def test_diagnoses_depend_on_age_and_sex():
    code, women = VISITS["icd10"], VISITS["sex"] == "female"
    ages = 2024 - VISITS["birth_date"].astype("datetime64[Y]").astype(int) - 1970
    assert set(code.tolist()) == {item.code for item in _DIAGNOSES}
    assert women[code == "O80"].all()
    assert not women[code == "C61"].any()
    assert np.median(ages[code == "I50"]) > np.median(ages[code == "K35"]) + 20
    assert ages.min() >= 18
    assert ages.max() <= 96


def test_every_diagnosis_belongs_to_one_ward():
    wards = dict(zip(VISITS["icd10"].tolist(), VISITS["ward"].tolist(), strict=True))
    assert wards == {item.code: item.ward for item in _DIAGNOSES}
    pairs = set(zip(VISITS["icd10"].tolist(), VISITS["ward"].tolist(), strict=True))
    assert len(pairs) == len(wards)


def test_costs_rise_with_nights_and_some_are_missing():
    cost = VISITS["cost"]
    nights = (VISITS["discharge"] - VISITS["admission"]).astype(int)
    billed = ~np.isnan(cost)
    assert 0.005 < np.mean(~billed) < 0.04
    assert cost[billed].min() > 0
    assert correlation(nights[billed], np.log(cost[billed])) > 0.5


def test_the_seed_determines_the_visits():
    again = sample_visits()
    assert all(
        np.array_equal(VISITS[name], again[name], equal_nan=name == "cost") for name in VISITS
    )
    other = sample_visits(seed=8)
    assert set(VISITS["patient_number"].tolist()) != set(other["patient_number"].tolist())


def test_one_patient():
    visits = sample_visits(1)
    assert len(set(visits["patient_number"].tolist())) == 1


@pytest.mark.parametrize(
    ("patients", "code"),
    [(0, "option.out_of_range"), (True, "option.wrong_type"), ("many", "option.wrong_type")],
)
def test_rejects_a_wrong_number_of_patients(patients, code):
    with raises(OptionError, code, option="patients"):
        sample_visits(patients)


def test_the_schema_of_the_visits_names_the_person():
    schema = sample_schema("visits")
    assert schema.person == ("patient_number",)
    assert schema.identifiers == ("name",)
    assert sorted(dict(schema.roles())) == sorted(VISITS)


def test_rejects_an_unknown_table():
    with raises(OptionError, "option.unknown", option="table"):
        sample_schema("weather")
