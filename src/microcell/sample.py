"""The bundled sample: a synthetic survey about thyroid disease, generated from a random seed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.errors import OptionError
from microcell.model import Column, Floats, Integers, Schema

__all__ = ["sample_schema", "sample_survey"]


@dataclass(frozen=True)
class _Town:
    """A fictional town: share of the people, centre, width in degrees, and postal codes."""

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
"""A person whose liability to antibodies exceeds the first i limits has anti-TPO grade i."""

_FIRST_NAMES = {
    "female": "Ada Alda Berta Brina Carla Cilia Dalia Delma Elna Emia Fara Gelda Hilia Ilda Jona Lena Lidia Mara "
    "Melia Nadia Nora Odila Petra Rina Sela Silvia Tamia Tessa Vera Zoia",
    "male": "Adan Aldo Beno Bruno Ciro Dario Delmo Elio Emil Fabio Galo Guido Hugo Ivo Jano Lauro Leo Marco Milo "
    "Nilo Oriel Otis Pau Remo Rufo Sandro Silas Tadeo Ugo Vito",
}
_SYLLABLES = (
    "Al Bar Cas Dor Es Fer Gar Lan Mon Nar Or Per Quer Ros Sal Tor",
    "ba ca de fi go la mi no pa ri se ta",
    "bell corn dell fort lles mar net rol sens vall",
)


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
    * name: a first name by sex and a surname of three syllables; a few people share a name.

    Examples
    --------
    >>> survey = sample_survey(500)
    >>> list(survey)
    ['name', 'sex', 'age', 'bmi', 'latitude', 'longitude', 'postal_code', 'anti_tpo_grade', 'tsh']
    >>> survey["age"].dtype, len(survey["age"])
    (dtype('int64'), 500)
    """
    is_integer = isinstance(records, (int, np.integer)) and not isinstance(records, bool)
    if not is_integer or records < 1:
        raise OptionError(
            "records must be a whole number of at least 1.",
            code="option.wrong_type" if not is_integer else "option.out_of_range",
            option="records",
        )
    rng = np.random.default_rng(seed)
    ages = _draw_ages(rng, int(records))
    women = rng.random(len(ages)) < np.interp(ages, (18, 95), (0.49, 0.64))
    bmi = _draw_bmi(rng, ages, women)
    grades = _draw_grades(rng, ages, women)
    return {
        "name": _draw_names(rng, women),
        "sex": np.where(women, "female", "male"),
        "age": ages,
        "bmi": bmi,
        **_draw_homes(rng, len(ages)),
        "anti_tpo_grade": grades,
        "tsh": _draw_tsh(rng, ages, bmi, grades),
    }


def sample_schema() -> Schema:
    """Return the schema of the sample survey.

    Examples
    --------
    >>> [column.name for column in sample_schema().quasi]
    ['sex', 'age', 'bmi', 'home', 'postal_code']
    """
    return Schema(
        identifiers=["name"],
        quasi=[
            Column("sex", kind="nominal"),
            Column("age", kind="numeric"),
            Column("bmi", kind="numeric"),
            Column("home", kind="location", latitude="latitude", longitude="longitude"),
            Column("postal_code", kind="code"),
        ],
        confidential=["anti_tpo_grade", "tsh"],
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
    names = np.strings.add(names, " ")
    for line in _SYLLABLES:
        syllables = np.array(line.split())
        names = np.strings.add(names, syllables[rng.integers(len(syllables), size=len(women))])
    return names
