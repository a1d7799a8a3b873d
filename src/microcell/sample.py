"""The bundled samples, generated from a random seed.

A survey about thyroid disease with one row per person, and hospital visits with several rows per
patient.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from microcell.errors import OptionError
from microcell.model import Column, Floats, Integers, Schema

__all__ = ["sample_schema", "sample_survey", "sample_visits"]


@dataclass(frozen=True)
class _Town:
    """A fictional town: share of the population, centre, width in degrees, and postal codes."""

    share: float
    latitude: float
    longitude: float
    width: float
    prefix: str
    districts: int


_TOWNS = (
    _Town(0.44, 41.6170, 0.9840, 0.0200, "2510", 8),
    _Town(0.24, 41.4830, 1.3170, 0.0130, "0872", 5),
    _Town(0.14, 41.3460, 0.9580, 0.0090, "4337", 3),
    _Town(0.10, 41.7350, 1.4420, 0.0070, "0875", 2),
    _Town(0.05, 41.5540, 1.1490, 0.0050, "2534", 1),
    _Town(0.03, 41.2810, 1.2230, 0.0040, "4342", 1),
)

_AGE_KNOTS = (
    (18, 0.80),
    (30, 0.95),
    (45, 1.30),
    (55, 1.20),
    (65, 0.95),
    (75, 0.70),
    (85, 0.35),
    (95, 0.05),
)
"""(age, relative frequency), interpolated linearly."""

_GRADE_LIMITS = (3.0, 3.6, 4.3, 5.2)
"""A person whose antibody score exceeds the first i limits has anti-TPO grade i."""

_FIRST_NAMES = {
    "female": "Ada Alda Berta Brina Carla Cilia Dalia Delma Elna Emia Fara Gelda Hilia Ilda Jona "
    "Lena Lidia Mara Melia Nadia Nora Odila Petra Rina Sela Silvia Tamia Tessa Vera Zoia",
    "male": "Adan Aldo Beno Bruno Ciro Dario Delmo Elio Emil Fabio Galo Guido Hugo Ivo Jano Lauro "
    "Leo Marco Milo Nilo Oriel Otis Pau Remo Rufo Sandro Silas Tadeo Ugo Vito",
}
_SYLLABLES = (
    "Al Bar Cas Dor Es Fer Gar Lan Mon Nar Or Per Quer Ros Sal Tor",
    "ba ca de fi go la mi no pa ri se ta",
    "bell corn dell fort lles mar net rol sens vall",
)


class _Diagnosis(NamedTuple):
    """A category of ICD-10, and how often, when, how long and at what cost it is treated.

    ``share`` is the relative frequency at the typical age, ``women`` the factor on it for women,
    ``extra_visits`` the mean number of visits after the first.
    """

    code: str
    ward: str
    age: float
    spread: float
    share: float
    women: float
    extra_visits: float
    nights: float
    cost_per_night: float


_DIAGNOSES = (
    _Diagnosis("C18", "oncology", 70, 14, 1.0, 0.9, 3.5, 4.0, 900),
    _Diagnosis("C34", "oncology", 68, 12, 0.9, 0.7, 3.5, 4.0, 950),
    _Diagnosis("C50", "oncology", 62, 14, 1.6, 2.0, 3.5, 3.0, 900),
    _Diagnosis("C61", "oncology", 71, 10, 1.4, 0.0, 2.5, 3.0, 900),
    _Diagnosis("E05", "internal medicine", 48, 16, 0.5, 3.0, 1.0, 3.0, 480),
    _Diagnosis("E10", "internal medicine", 35, 16, 0.4, 1.0, 2.5, 3.0, 480),
    _Diagnosis("E11", "internal medicine", 66, 13, 1.4, 0.9, 2.0, 4.0, 480),
    _Diagnosis("F10", "psychiatry", 45, 13, 1.1, 0.4, 2.5, 8.0, 380),
    _Diagnosis("F20", "psychiatry", 38, 13, 0.5, 0.8, 2.5, 20.0, 380),
    _Diagnosis("F32", "psychiatry", 44, 17, 0.8, 1.6, 1.5, 14.0, 380),
    _Diagnosis("G20", "neurology", 74, 9, 0.5, 0.8, 1.5, 7.0, 560),
    _Diagnosis("G35", "neurology", 40, 11, 0.4, 2.4, 3.0, 4.0, 620),
    _Diagnosis("G40", "neurology", 48, 22, 0.6, 0.9, 1.5, 3.0, 560),
    _Diagnosis("I21", "cardiology", 68, 13, 1.2, 0.5, 0.8, 6.0, 1100),
    _Diagnosis("I48", "cardiology", 73, 11, 1.6, 0.9, 1.2, 3.0, 800),
    _Diagnosis("I50", "cardiology", 79, 10, 2.0, 1.0, 2.5, 8.0, 600),
    _Diagnosis("I63", "neurology", 75, 12, 1.1, 0.9, 0.6, 9.0, 750),
    _Diagnosis("J18", "internal medicine", 72, 18, 1.4, 0.8, 0.5, 7.0, 520),
    _Diagnosis("J44", "internal medicine", 70, 11, 1.2, 0.8, 2.5, 7.0, 500),
    _Diagnosis("K35", "surgery", 30, 16, 0.8, 0.9, 0.1, 3.0, 1000),
    _Diagnosis("K40", "surgery", 60, 17, 1.0, 0.2, 0.2, 1.0, 1500),
    _Diagnosis("K80", "surgery", 55, 17, 1.4, 1.7, 0.4, 3.0, 1000),
    _Diagnosis("M17", "orthopaedics", 69, 10, 1.2, 1.5, 0.6, 6.0, 1200),
    _Diagnosis("S72", "orthopaedics", 81, 10, 1.1, 2.2, 0.4, 10.0, 900),
    _Diagnosis("S82", "orthopaedics", 46, 19, 0.8, 1.0, 0.6, 4.0, 1000),
    _Diagnosis("O80", "obstetrics", 31, 5, 2.6, 1.0, 0.3, 3.0, 650),
)
_MOTHERS_ONLY = "O80"
_MAX_VISITS = 12
_FIRST_DAY = np.datetime64("2024-01-01")
_DAYS = 366


def sample_survey(records: int = 2000, *, seed: int = 7) -> dict[str, NDArray[Any]]:
    """Generate a synthetic health survey: one array per column, one entry per person.

    Parameters
    ----------
    records
        Number of people, at least 1.
    seed
        Random seed; the same seed gives the same people.

    Notes
    -----
    The model, for a person of age a and body-mass index b, with f = 1 for women and 0 for men:

    * age: whole years from 18 to 95, most frequent at 45, rare above 85;
    * sex: f = 1 with probability 0.49 at 18, rising to 0.64 at 95;
    * bmi = exp(N(log m, 0.16)) with m = 23.5 + 0.07 (min(a, 65) - 18) - 0.8 f, from 16 to 48;
    * home: one of six towns (shares of 3 to 44 %), then normal around its centre; the first four
      characters of the postal code stand for the town, the last for the direction from its centre;
    * anti-TPO grade (0 to 4): the number of limits 3.0, 3.6, 4.3, 5.2 that are below
      1.2 f + 0.022 (a - 18) + a logistic error;
    * TSH in mIU/L = exp(N(log 1.5 + 0.28 grade + 0.005 (a - 50) + 0.015 (b - 26), 0.40)), from 0.3
      to 20;
    * name: a first name by sex and a surname of three syllables, or two surnames if another person
      has the name already.

    Examples
    --------
    >>> survey = sample_survey(500)
    >>> list(survey)
    ['name', 'sex', 'age', 'bmi', 'latitude', 'longitude', 'postal_code', 'anti_tpo_grade', 'tsh']
    >>> survey["age"].dtype, len(survey["age"])
    (dtype('int64'), 500)
    """
    _check_count("records", records)
    rng = np.random.default_rng(seed)
    ages = _draw_ages(rng, int(records))
    women = rng.random(len(ages)) < np.interp(ages, (18, 95), (0.49, 0.64))
    bmi = _draw_bmi(rng, ages, women)
    grades = _draw_grades(rng, ages, women)
    return {
        "name": _make_unique(_draw_names(rng, women), seed),
        "sex": np.where(women, "female", "male"),
        "age": ages,
        "bmi": bmi,
        **_draw_homes(rng, len(ages)),
        "anti_tpo_grade": grades,
        "tsh": _draw_tsh(rng, ages, bmi, grades),
    }


def sample_visits(patients: int = 1500, *, seed: int = 7) -> dict[str, NDArray[Any]]:
    """Generate synthetic hospital visits: one array per column, one entry per visit.

    A patient has 1 to 12 visits, 2.5 on average. The rows are in order of admission.

    Parameters
    ----------
    patients
        Number of patients, at least 1.
    seed
        Random seed; the same seed gives the same visits.

    Notes
    -----
    The model:

    * patient_number: "P" and seven digits; name: as in the survey, but patients may share a name;
    * sex and age as in the survey, birth_date of someone who reaches that age in 2024, and the
      postal_code of the home: the same in all rows of a patient;
    * main diagnosis: one of 26 categories of ICD-10, each most frequent at a typical age and in one
      sex (births only for women up to 49 years);
    * visits: 1 + Poisson(extra), at most 12, where extra is a gamma variable of shape 1 around the
      mean of the main diagnosis (0.1 for appendicitis to 3.5 for cancer);
    * admission: a day of 2024; icd10: in 3 of 4 visits the main diagnosis, otherwise a new one;
      ward: that of the diagnosis;
    * discharge: after a Poisson number of nights around the mean of the diagnosis, at the latest on
      the next admission of the patient;
    * cost in euros = 600 + (nights + 1) times the cost per night of the diagnosis, times
      exp(N(0, 0.35)); missing in 2 % of the visits, which are not billed yet.

    Examples
    --------
    >>> visits = sample_visits(100)
    >>> list(visits)
    ['patient_number', 'name', 'sex', 'birth_date', 'postal_code', 'admission', 'discharge', 'ward',
    'icd10', 'cost']
    >>> backwards = visits["discharge"] < visits["admission"]
    >>> len(set(visits["patient_number"].tolist())), bool(backwards.any())
    (100, False)
    """
    _check_count("patients", patients)
    rng = np.random.default_rng(seed)
    ages = _draw_ages(rng, int(patients))
    women = rng.random(len(ages)) < np.interp(ages, (18, 95), (0.49, 0.64))
    birthdays = _FIRST_DAY - (ages * 365.25).astype(np.int64) + rng.integers(365, size=len(ages))
    columns = {
        "patient_number": _draw_numbers(rng, len(ages)),
        "name": _draw_names(rng, women),
        "sex": np.where(women, "female", "male"),
        "birth_date": birthdays,
        "postal_code": _draw_homes(rng, len(ages))["postal_code"],
    }
    main = _draw_diagnoses(rng, ages, women)
    extra = np.array([item.extra_visits for item in _DIAGNOSES])[main]
    visits = 1 + rng.poisson(rng.gamma(1.0, extra)).clip(0, _MAX_VISITS - 1)
    patient = np.repeat(np.arange(len(ages)), visits)
    other = rng.random(len(patient)) < 0.25
    diagnosis = np.where(other, _draw_diagnoses(rng, ages[patient], women[patient]), main[patient])
    columns = {name: values[patient] for name, values in columns.items()}
    columns |= _draw_stays(rng, patient, diagnosis)
    order = np.argsort(columns["admission"], kind="stable")
    return {name: values[order] for name, values in columns.items()}


def sample_schema(table: Literal["survey", "visits"] = "survey") -> Schema:
    """Return the schema of the sample survey or of the sample visits.

    Examples
    --------
    >>> [column.name for column in sample_schema().quasi]
    ['sex', 'age', 'bmi', 'home', 'postal_code']
    >>> sample_schema("visits").person
    ('patient_number',)
    """
    if table not in _SCHEMAS:
        raise OptionError(
            f"Unknown sample table {table!r}. Choose one of {', '.join(_SCHEMAS)}.",
            code="option.unknown",
            option="table",
        )
    return _SCHEMAS[table]


_SCHEMAS = {
    "survey": Schema(
        identifiers=["name"],
        quasi=[
            Column("sex", kind="nominal"),
            Column("age", kind="numeric"),
            Column("bmi", kind="numeric"),
            Column("home", kind="location", latitude="latitude", longitude="longitude"),
            Column("postal_code", kind="code"),
        ],
        confidential=["anti_tpo_grade", "tsh"],
    ),
    "visits": Schema(
        person="patient_number",
        identifiers=["name"],
        quasi=[
            Column("sex", kind="nominal"),
            Column("birth_date", kind="datetime"),
            Column("postal_code", kind="code"),
            Column("admission", kind="datetime"),
            Column("discharge", kind="datetime"),
            Column("ward", kind="nominal"),
        ],
        confidential=["icd10", Column("cost", round=50)],
    ),
}


def _check_count(option: str, count: int) -> None:
    is_integer = isinstance(count, (int, np.integer)) and not isinstance(count, bool)
    if not is_integer or count < 1:
        raise OptionError(
            f"{option} must be a whole number of at least 1.",
            code="option.wrong_type" if not is_integer else "option.out_of_range",
            option=option,
        )


def _draw_ages(rng: np.random.Generator, records: int) -> Integers:
    ages = np.arange(18, 96, dtype=np.int64)
    knots, frequencies = zip(*_AGE_KNOTS, strict=True)
    shares = np.interp(ages, knots, frequencies)
    return rng.choice(ages, size=records, p=shares / shares.sum())


def _draw_bmi(rng: np.random.Generator, ages: Integers, women: NDArray[np.bool_]) -> Floats:
    centre = 23.5 + 0.07 * (np.minimum(ages, 65) - 18) - 0.8 * women
    drawn: Floats = centre * np.exp(rng.normal(0, 0.16, len(ages)))
    return drawn.clip(16, 48).round(1)


def _draw_grades(rng: np.random.Generator, ages: Integers, women: NDArray[np.bool_]) -> Integers:
    liability = 1.2 * women + 0.022 * (ages - 18) + rng.logistic(size=len(ages))
    return np.searchsorted(np.array(_GRADE_LIMITS), liability).astype(np.int64)


def _draw_tsh(rng: np.random.Generator, ages: Integers, bmi: Floats, grades: Integers) -> Floats:
    centre = np.log(1.5) + 0.28 * grades + 0.005 * (ages - 50) + 0.015 * (bmi - 26)
    drawn: Floats = np.exp(centre + rng.normal(0, 0.40, len(ages)))
    return drawn.clip(0.3, 20).round(2)


def _draw_homes(rng: np.random.Generator, records: int) -> dict[str, NDArray[Any]]:
    towns = rng.choice(len(_TOWNS), size=records, p=[town.share for town in _TOWNS])
    north, east = rng.normal(size=(2, records)) * np.array([town.width for town in _TOWNS])[towns]
    # Here a degree of longitude is 3/4 as long as a degree of latitude.
    latitude = np.array([town.latitude for town in _TOWNS])[towns] + north
    longitude = np.array([town.longitude for town in _TOWNS])[towns] + east / 0.75
    turn = (np.arctan2(north, east) / (2 * np.pi)) % 1
    district = (turn * np.array([town.districts for town in _TOWNS])[towns]).astype(np.int64)
    prefixes = np.array([town.prefix for town in _TOWNS])[towns]
    return {
        "latitude": np.round(latitude, 4),
        "longitude": np.round(longitude, 4),
        "postal_code": np.strings.add(prefixes, district.astype("U1")),
    }


def _draw_names(rng: np.random.Generator, women: NDArray[np.bool_]) -> NDArray[np.str_]:
    first_names = np.array([names.split() for names in _FIRST_NAMES.values()])
    names = first_names[np.where(women, 0, 1), rng.integers(first_names.shape[1], size=len(women))]
    return np.strings.add(np.strings.add(names, " "), _draw_surnames(rng, len(women)))


def _draw_surnames(rng: np.random.Generator, count: int) -> NDArray[np.str_]:
    surnames = np.full(count, "")
    for line in _SYLLABLES:
        syllables = np.array(line.split())
        surnames = np.strings.add(surnames, syllables[rng.integers(len(syllables), size=count)])
    return surnames


def _make_unique(names: NDArray[np.str_], seed: int) -> NDArray[np.str_]:
    """Give a second surname to people whose name is taken: names are the survey's only key."""
    rng = np.random.default_rng([seed, 1])  # the other columns do not depend on this
    while True:
        first = np.unique(names, return_index=True)[1]
        taken = np.setdiff1d(np.arange(len(names)), first)
        if not len(taken):
            return names
        longer = np.strings.add(names[taken], "-")
        longer = np.strings.add(longer, _draw_surnames(rng, len(taken)))
        names = names.astype(f"U{max(names.itemsize, longer.itemsize) // 4}")
        names[taken] = longer


# ------------------------------------------------------------------------------ visits


def _draw_numbers(rng: np.random.Generator, count: int) -> NDArray[np.str_]:
    """Draw distinct patient numbers of at least seven digits."""
    span = max(9_000_000, 10 * count)
    numbers = rng.choice(span, size=count, replace=False) + span // 9
    return np.strings.add("P", numbers.astype(np.str_))


def _draw_diagnoses(rng: np.random.Generator, ages: Integers, women: NDArray[np.bool_]) -> Integers:
    """Draw a diagnosis by age and sex: its position in the list."""
    frequencies = np.empty((len(ages), len(_DIAGNOSES)))
    for column, item in enumerate(_DIAGNOSES):
        by_age = np.exp(-(((ages - item.age) / item.spread) ** 2) / 2)
        frequencies[:, column] = item.share * by_age * np.where(women, item.women, 1.0)
        if item.code == _MOTHERS_ONLY:
            frequencies[~women | (ages >= 50), column] = 0
    shares = frequencies.cumsum(axis=1) / frequencies.sum(axis=1)[:, None]
    drawn: Integers = (shares < rng.random(len(ages))[:, None]).sum(axis=1)
    return drawn.clip(0, len(_DIAGNOSES) - 1)


def _draw_stays(
    rng: np.random.Generator, patient: Integers, diagnosis: Integers
) -> dict[str, NDArray[Any]]:
    """Draw admission, discharge and cost; visits of a patient follow each other in the table."""
    days = rng.integers(_DAYS, size=len(patient))
    days = days[np.lexsort((days, patient))]
    means = np.array([item.nights for item in _DIAGNOSES])
    nights = rng.poisson(means[diagnosis])
    is_next = patient[1:] == patient[:-1]
    nights[:-1][is_next] = np.minimum(nights[:-1], np.diff(days))[is_next]
    rates = np.array([item.cost_per_night for item in _DIAGNOSES])
    centre = 600 + (nights + 1) * rates[diagnosis]
    cost = (centre * np.exp(rng.normal(0, 0.35, len(patient)))).round(-1)
    cost[rng.random(len(patient)) < 0.02] = np.nan
    return {
        "admission": _FIRST_DAY + days,
        "discharge": _FIRST_DAY + days + nights,
        "ward": np.array([item.ward for item in _DIAGNOSES])[diagnosis],
        "icd10": np.array([item.code for item in _DIAGNOSES])[diagnosis],
        "cost": cost,
    }
