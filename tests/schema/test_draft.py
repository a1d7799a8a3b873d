"""Inspection of tables, and schemas drafted from it."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell
from microcell.model import Column, Schema, Table, Values
from microcell.sample import sample_schema, sample_survey
from microcell.schema.draft import draft_schema, inspect
from microcell.schema.resolve import resolve

ROWS = 40


def as_values(entries, *, storage=None, ordered=None, unit=None):
    entries = list(entries.tolist() if isinstance(entries, np.ndarray) else entries)
    missing = np.array([item is None for item in entries], dtype=bool)
    present = [item for item in entries if item is not None]
    storage = (
        storage or {str: "text", bool: "boolean", int: "integer", float: "float"}[type(present[0])]
    )
    if storage == "empty":
        return Values("empty", np.full(len(entries), np.nan), missing)
    if storage == "text":
        categories = ordered or sorted(set(present))
        codes = [-1 if item is None else categories.index(item) for item in entries]
        return Values("text", np.array(codes), missing, tuple(categories), ordered is not None)
    if storage == "boolean":
        return Values(
            "boolean",
            np.array([-1 if item is None else int(item) for item in entries]),
            missing,
            ("false", "true"),
        )
    data = np.array(
        [0 if item is None else item for item in entries],
        dtype=float if storage == "float" else np.int64,
    )
    return Values(storage, data, missing, unit=unit)


def table_of(**columns):
    columns = {
        name: item if isinstance(item, Values) else as_values(item)
        for name, item in columns.items()
    }
    return Table(columns, rows=len(next(iter(columns.values()))), native=None)


def facts_of(name, entries):
    return inspect(table_of(**{name: entries})).columns[0]


def cycle(*items, rows=ROWS):
    return [items[row % len(items)] for row in range(rows)]


NUMBERS = [float(row * row % 17) + 0.5 for row in range(ROWS)]
WORDS = cycle("pear", "plum", "fig", "kiwi", "lime")
UNIQUE = [f"w{row * 37 % 1000}x" for row in range(ROWS)]

IDENTIFYING = """
    name surname Surname first_name lastName FullName apellidos Vorname nachname prénom id ID
    patient_id
    PersonNr dni DNI ssn passport_no Pasaporte email e-mail E_Mail correo phone Telefon teléfono
    address Adresse
    dirección Straße uuid
"""
QUASI = """
    age Edad Alter âge sex sexo Geschlecht gender birth_date fecha_nacimiento Geburtsdatum
    date_naissance zip
    ZIPCode postal_code PLZ codigo_postal city ciudad Stadt ville region education Bildung
    marital_status
    estado.civil Familienstand race nationality Nacionalidad occupation Beruf height weight peso
    Größe bmi
    body_weight age_at_diagnosis region_id city_name
"""
CONFIDENTIAL = """
    income household_income ingresos Bruttoeinkommen revenu salary salario Gehalt diagnosis
    Diagnose disease
    Krankheit maladie hiv HIV_status tsh anti_tpo_grade test_result Ergebnis score religion
    Religión vote voto
"""


@pytest.mark.parametrize("name", IDENTIFYING.split())
def test_identifiers_by_name(name):
    facts = facts_of(name, WORDS)
    assert (facts.role, facts.kind) == ("identifier", None)
    assert facts.reason.startswith("Named like ")


@pytest.mark.parametrize("name", QUASI.split())
def test_quasi_identifiers_by_name(name):
    facts = facts_of(name, NUMBERS)
    assert facts.role == "quasi"
    assert facts.reason.startswith("Named like ")


@pytest.mark.parametrize("name", CONFIDENTIAL.split())
def test_confidential_by_name(name):
    facts = facts_of(name, NUMBERS)
    assert facts.role == "confidential"
    assert facts.reason.startswith("Named like ")


@pytest.mark.parametrize(
    "name",
    [
        "wgt",
        "fnlwgt",
        "FinalWgt",
        "sampling_weight",
        "survey weight",
        "Gewichtungsfaktor",
        "factor_de_expansion",
        "peso muestral",
        "peso_muestral",
        "factor muestral",
        "FactorExpansion",
        "poids d'enquête",
        "poids de sondage",
        "coefficient d'extrapolation",
        "stichprobengewicht",
        "Designgewicht",
        "final_wt",
    ],
)
def test_weights_by_name_if_they_are_positive_numbers(name):
    assert facts_of(name, NUMBERS).role == "weight"
    assert facts_of(name, [-1.5, *NUMBERS[1:]]).role == "quasi"
    assert facts_of(name, [0.0, *NUMBERS[1:]]).role == "quasi"
    assert facts_of(name, WORDS).role == "quasi"


@pytest.mark.parametrize(
    "name", ["utilityid", "UtilityID", "utilityId", "userid", "PERSONID", "plant_meterid"]
)
def test_names_ending_in_id_are_identifiers_if_all_values_differ(name):
    assert facts_of(name, [row * 3 for row in range(ROWS)]).role == "identifier"


@pytest.mark.parametrize("name", ["utilityid", "plant_meterid"])
def test_names_ending_in_id_mean_nothing_if_values_repeat_or_have_fractions(name):
    assert facts_of(name, [row // 2 * 3 for row in range(ROWS)]).role == "quasi"
    assert facts_of(name, [row * 3 + 0.5 for row in range(ROWS)]).role == "quasi"
    assert facts_of(name, [3, 7, 20]).role == "quasi"


@pytest.mark.parametrize(
    "name", ["amount_paid", "uric_acid", "covid", "grid", "lipid", "fluid", "bid"]
)
def test_ordinary_words_ending_in_id_are_not_identifiers(name):
    assert facts_of(name, [row * 3 for row in range(ROWS)]).role == "quasi"


@pytest.mark.parametrize(
    ("name", "entries", "count"),
    [
        ("x", [*["?"] * 3, *(f"{row % 7}" for row in range(ROWS))], "3 values are not numbers"),
        ("x", ["NA", *(f"{row}.5" for row in range(ROWS))], "1 value is not a number"),
        ("x", ["NA", ".", "", *(f"-{row},25" for row in range(2000))], "3 values are not numbers"),
        ("income", ["?", "?", *(f"{row * 17}" for row in range(ROWS))], "2 values are not numbers"),
    ],
)
def test_text_among_numbers_is_counted_and_not_shown(name, entries, count):
    facts = facts_of(name, entries)
    assert facts.role == ("confidential" if name == "income" else "quasi")
    assert facts.kind == "nominal"
    assert facts.reason.endswith(f" Numbers, but {count}: if they mark missing values, use --na.")
    assert "?" not in facts.reason
    assert "NA" not in facts.reason


@pytest.mark.parametrize(
    "entries",
    [
        cycle("012", "345"),
        cycle("1", "x"),
        [*(f"w{row}" for row in range(6)), *(f"{row % 9}" for row in range(ROWS))],
        [*["?"] * 50, *(f"{row % 9}" for row in range(ROWS))],
        WORDS,
    ],
)
def test_other_text_is_not_mistaken_for_numbers(entries):
    assert "not numbers" not in facts_of("x", entries).reason


GROUPED = [f"{row * 777 + 500:,}" for row in range(2 * ROWS)]


@pytest.mark.parametrize(
    ("entries", "separator"),
    [
        ([f"{text}.50" for text in GROUPED], ","),
        (GROUPED, ","),
        ([f"-{text}" for text in GROUPED], ","),
        ([text.replace(",", "'") for text in GROUPED], "'"),
        ([f"{text.replace(',', '.')},50" for text in GROUPED], "."),
        ([f"{text.replace(',', ' ')},50" for text in GROUPED], " "),
    ],
)
def test_numbers_with_thousands_separators_are_not_identifiers(entries, separator):
    facts = facts_of("x", entries)
    assert (facts.role, facts.kind) == ("quasi", "nominal")
    assert facts.reason.endswith(f'--thousands "{separator}".')
    assert not any(text in facts.reason for text in entries)
    facts = facts_of("x", [*entries, "n/a", "n/a"])
    assert facts.role == "quasi"
    assert facts.reason.endswith(
        " Numbers, but 2 values are not numbers: if they mark missing values, use --na."
    )


@pytest.mark.parametrize(
    "entries",
    [
        [f"{612 + row} {row:03} {row * 7:03}" for row in range(ROWS)],
        [f"{20 + row}.{row * 7:03}.{row * 13:03}" for row in range(ROWS)],
        [f"{row},5" for row in range(ROWS)],
        [f"{row},{row}" for row in range(100, 100 + ROWS)][::2] + ["1,5"] * 8,
    ],
)
def test_other_digit_groups_are_not_mistaken_for_thousands(entries):
    assert "thousands" not in facts_of("x", entries).reason


RARELY = [f"w{row % 60}x" for row in range(100)]


def test_text_that_rarely_repeats_is_an_identifier_unless_its_name_says_otherwise():
    facts = facts_of("x", RARELY)
    assert facts.role == "identifier"
    assert (
        facts.reason
        == "Text that rarely repeats (60 distinct values in 100 records), so it may name a person."
    )
    facts = facts_of("city", RARELY)
    assert (facts.role, facts.kind) == ("quasi", "nominal")
    assert facts.reason == "Named like a place. 60 distinct values. Rarely repeats in 100 records."
    assert facts_of("x", RARELY + RARELY).role == "quasi"
    assert facts_of("x", [f"w{row % 49}x" for row in range(90)]).role == "quasi"
    assert facts_of("x", [f"{row % 60:05}" for row in range(100)]).kind == "code"


@pytest.mark.parametrize("sign", ["/", "-"])
@pytest.mark.parametrize("rows", [8, 60, 400])
def test_ambiguous_dates_are_reported(sign, rows):
    entries = [
        f"{row % 12 + 1}{sign}{row // 12 % 12 + 1:02}{sign}{1990 + row // 144}"
        for row in range(rows)
    ]
    facts = facts_of("x", entries)
    assert (facts.role, facts.kind) == ("quasi", "nominal")
    assert facts.reason.endswith(
        " Looks like dates whose day and month are ambiguous: write them as YYYY-MM-DD."
    )


@pytest.mark.parametrize(
    "form", ["{day}/1/2020", "1-{day}-2020", "1.{month}.2020", "2020-01-{day:02}", "2020/1/{day}"]
)
def test_dates_stored_as_text_are_reported(form):
    facts = facts_of("x", [form.format(day=row + 1, month=row % 12 + 1) for row in range(28)])
    assert facts.role == "quasi"
    assert facts.reason.endswith(
        " Looks like dates stored as text: convert them to dates, or write them as YYYY-MM-DD."
    )


@pytest.mark.parametrize(
    ("entries", "count"),
    [
        (
            [*(f"2020-01-{row + 1:02}" for row in range(28)), "0000-00-00", "0000-00-00"],
            "2 values are not dates",
        ),
        ([*(f"{row + 1}/1/2020" for row in range(28)), "31/2/2020"], "1 value is not a date"),
        (
            [*(f"{row + 1}/1/2020" for row in range(28)), "1/30/2020", "1/31/2020"],
            "2 values are not dates",
        ),
        ([*(f"2020-01-{row + 1}" for row in range(28))], "9 values are not dates"),
        (
            [*(f"1.2.{1900 + row}" for row in range(2500)), "soon", "soon", "never"],
            "3 values are not dates",
        ),
    ],
)
def test_invalid_dates_are_counted_and_not_shown(entries, count):
    facts = facts_of("x", entries)
    assert facts.role == "quasi"
    assert (
        f" Looks like dates stored as text, but {count} in the same format: write all"
        in facts.reason
    )
    assert entries[-1] not in facts.reason


@pytest.mark.parametrize(
    "name",
    [
        "agent",
        "image",
        "message",
        "sexton",
        "statement",
        "identity_theft",
        "scored_by",
        "x1",
        "",
        "数",
    ],
)
def test_parts_of_words_mean_nothing(name):
    facts = facts_of(name, NUMBERS)
    assert facts.role == "quasi"
    assert facts.reason.startswith("Role unclear; treated as a quasi-identifier to be safe.")


def test_only_the_first_weight_is_a_weight():
    columns = inspect(
        table_of(wgt=NUMBERS, age=NUMBERS, fnlwgt=NUMBERS, final_weight=NUMBERS)
    ).columns
    assert [facts.role for facts in columns] == ["weight", "quasi", "quasi", "quasi"]
    assert "A second sampling weight" in columns[2].reason


@pytest.mark.parametrize(
    ("entries", "role", "reason"),
    [
        (
            UNIQUE,
            "identifier",
            "Text in which every value is different, so it probably names a person.",
        ),
        (
            [None, None, *UNIQUE[2:]],
            "identifier",
            "Text in which every value is different, so it probably names a person.",
        ),
        (
            [UNIQUE[1], *UNIQUE[1:]],
            "identifier",
            "Text in which nearly every value is different, so it probably names a person.",
        ),
        (UNIQUE[:9], "quasi", "Every value is different, so it may be an identifier."),
        (
            [f"{row % 7}@example.org" for row in range(ROWS)],
            "identifier",
            "Looks like email addresses.",
        ),
        (list(range(100, 100 + ROWS)), "identifier", "Consecutive whole numbers"),
        (
            [*range(ROWS - 1), 1000],
            "quasi",
            "Every value is different, so it may be an identifier.",
        ),
        (
            [(7 * row) % ROWS for row in range(ROWS)][::-1],
            "identifier",
            "Consecutive whole numbers",
        ),
        ([float(row) for row in range(ROWS)], "identifier", "Consecutive whole numbers"),
        (
            [row * 3 for row in range(ROWS)],
            "quasi",
            "Every value is different, so it may be an identifier.",
        ),
        (
            [-(2**63), 2**63 - 1, *range(ROWS)],
            "quasi",
            "Every value is different, so it may be an identifier.",
        ),
        (
            [float("inf"), float("-inf"), *(float(row) for row in range(ROWS))],
            "quasi",
            "Every value is different, so it may be an identifier.",
        ),
        (
            WORDS,
            "quasi",
            "Role unclear; treated as a quasi-identifier to be safe. 5 distinct values.",
        ),
        ([None] * ROWS, "drop", "No values."),
    ],
)
def test_roles_by_content(entries, role, reason):
    facts = facts_of("x", as_values(entries, storage="empty") if entries[-1] is None else entries)
    assert facts.role == role
    assert reason in facts.reason


def test_free_text_is_an_identifier_even_if_named_like_a_confidential_column():
    assert facts_of("diagnosis", UNIQUE).role == "identifier"
    assert facts_of("diagnosis", WORDS).role == "confidential"


def test_weakly_identifying_names_count_if_most_values_differ():
    assert facts_of("group_id", WORDS).role == "quasi"
    assert (
        facts_of("group_id", [row // 2 * 5 + row % 2 * 3 for row in range(ROWS)]).role
        == "identifier"
    )


@pytest.mark.parametrize(
    ("name", "entries", "kind", "reason"),
    [
        ("x", NUMBERS, "numeric", "Numbers with 9 distinct values."),
        ("x", cycle(4.5), "numeric", "Numbers with 1 distinct value."),
        ("x", WORDS, "nominal", "5 distinct values."),
        ("x", cycle(1, 2), "nominal", "2 distinct values."),
        ("x", cycle(1.0, 2.0, None), "nominal", "2 distinct values."),
        ("x", cycle(True, False), "nominal", "True or false."),
        ("x", cycle(1, 2, 3, 4), "ordinal", "A few whole-number grades."),
        ("x", cycle(0.0, 2.0, 3.0, None), "ordinal", "A few whole-number grades."),
        ("x", cycle(*range(11)), "numeric", "Numbers with 11 distinct values."),
        ("x", cycle(1, 2, 30), "numeric", "Numbers with 3 distinct values."),
        ("age", cycle(1, 2, 3, 4), "numeric", "Numbers with 4 distinct values."),
        ("region", cycle(1, 2, 3, 4), "nominal", "4 whole numbers that stand for categories."),
        ("x", cycle("012", "345", "999"), "code", "Text of digits, all of the same length."),
        ("x", cycle("1", "2", "3"), "nominal", "3 distinct values."),
        ("x", cycle("12", "345", "999"), "nominal", "3 distinct values."),
        ("postcode", cycle("SW1A 1AA", "M1 1AE"), "code", "Named like a postal code. Text."),
        ("zip", cycle(94301, 2139, 10001), "code", "leading zeros may have been lost."),
        ("cp", cycle(0, 1, 2, 3), "ordinal", "A few whole-number grades."),
    ],
)
def test_kinds(name, entries, kind, reason):
    facts = facts_of(name, entries)
    assert facts.role == "quasi"
    assert facts.kind == kind
    assert facts.reason.endswith(reason)
    assert facts.order is None


@pytest.mark.parametrize("storage", ["date", "datetime", "duration", "time"])
def test_times(storage):
    facts = facts_of("x", as_values(range(ROWS), storage=storage, unit="s"))
    assert facts.kind == "datetime"
    assert facts.reason.endswith(f"Stored as {storage}.")


@pytest.mark.parametrize(
    "order",
    [
        ("low", "medium", "high"),
        ("Low", "HIGH", "Very_High"),
        ("Strongly disagree", "Disagree", "Neutral", "Agree", "Strongly agree"),
        ("nunca", "a veces", "siempre"),
        ("nie", "selten", "häufig", "immer"),
        ("très bas", "bas", "moyen", "élevé"),
        ("none", "mild", "moderate", "severe"),
        ("I", "II", "III", "IV"),
        ("Grade 1", "Grade 2", "Grade 10"),
        ("primary", "secondary", "Master", "PhD"),
    ],
)
def test_scales_are_ordinal_with_their_order(order):
    facts = facts_of("x", cycle(*order[::-1]))
    assert (facts.kind, facts.order) == ("ordinal", order)
    assert "check the order" in facts.reason


def test_a_word_outside_the_scale_makes_it_nominal():
    assert facts_of("x", cycle("low", "medium", "high", "blue")).kind == "nominal"


def test_declared_order_is_kept_with_unused_categories():
    facts = facts_of("x", as_values(cycle("pear", "fig"), ordered=["pear", "kiwi", "fig"]))
    assert (facts.kind, facts.order, facts.distinct) == ("ordinal", ("pear", "kiwi", "fig"), 2)


DEGREES = [row / 10 for row in range(ROWS)]


@pytest.mark.parametrize(
    ("first", "second", "location"),
    [
        ("latitude", "longitude", "location"),
        ("LAT", "LNG", "location"),
        ("home_lat", "home_lon", "home"),
        ("workLatitude", "workLongitude", "work"),
        ("Breitengrad", "Längengrad", "location"),
        ("latitud", "longitud", "location"),
    ],
)
def test_locations(first, second, location):
    inspection = inspect(table_of(**{second: DEGREES, "age": NUMBERS, first: DEGREES}))
    assert {facts.reason for facts in inspection.columns if facts.location} == {
        "Latitude and longitude, judging by names and range."
    }
    home = Column(location, kind="location", latitude=first, longitude=second)
    assert draft_schema(inspection).quasi == (home, Column("age", kind="numeric"))


def test_two_locations_and_a_name_in_use():
    inspection = inspect(
        table_of(
            home_lat=DEGREES, home_lon=DEGREES, lat=DEGREES, lon=DEGREES, home=WORDS, location=WORDS
        )
    )
    quasi = draft_schema(inspection).quasi
    assert [column.parts for column in quasi[:2]] == [("home_lat", "home_lon"), ("lat", "lon")]
    assert len({column.name for column in quasi}) == len(quasi) == 4


@pytest.mark.parametrize(
    "columns",
    [
        {"lat": DEGREES},
        {"lat": [91.0, *DEGREES[1:]], "lon": DEGREES},
        {"lat": DEGREES, "lon": [-181.0, *DEGREES[1:]]},
        {"lat": WORDS, "lon": DEGREES},
        {"home_lat": DEGREES, "work_lon": DEGREES},
        {"lat": as_values([None] * ROWS, storage="empty"), "lon": DEGREES},
    ],
)
def test_a_location_needs_a_pair_of_columns_in_range(columns):
    assert not any(facts.location for facts in inspect(table_of(**columns)).columns)


def test_missing_and_distinct_are_counted():
    facts = facts_of("x", cycle("a", "b", None, "c"))
    assert (facts.storage, facts.missing, facts.distinct) == ("text", 10, 3)
    unused = Values("text", np.array([0, 2, 2]), np.array([False, False, True]), ("a", "b", "c"))
    assert facts_of("x", unused).distinct == 2


cells = st.sampled_from([None, 0, 1, 2])


@given(st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=30))
def test_duplicates_and_unique_rows_are_counted_with_missing_as_a_value(rows):
    whole, text, real = zip(*rows, strict=True)
    table = table_of(
        tsh=as_values(whole, storage="integer"),
        city=as_values([None if item is None else "abc"[item] for item in text], storage="text"),
        bmi=as_values(
            [None if item is None else (-0.0, 0.0, 1e300)[item] for item in real], storage="float"
        ),
    )
    inspection = inspect(table)
    merged = [(a, b, {0: 1}.get(c, c)) for a, b, c in rows]
    assert inspection.duplicates == len(rows) - len(set(merged))
    keys = [facts.name for facts in inspection.columns if facts.role == "quasi"]
    position = {"tsh": 0, "city": 1, "bmi": 2}
    sizes = Counter(tuple(row[position[name]] for name in keys) for row in merged)
    assert inspection.unique == sum(size == 1 for size in sizes.values())


def test_row_hashes_do_not_collide_on_a_regular_grid():
    grid = np.indices((30, 30, 30, 10)).reshape(4, -1)
    names = ("age", "height", "weight", "city")
    for dtype, storage in ((np.int64, "integer"), (np.float64, "float")):
        none = np.zeros(grid.shape[1], dtype=bool)
        columns = {
            name: Values(storage, axis.astype(dtype), none)
            for name, axis in zip(names, grid, strict=True)
        }
        inspection = inspect(Table(columns, rows=grid.shape[1], native=None))
        assert (inspection.duplicates, inspection.unique) == (0, grid.shape[1])


def test_an_empty_table():
    inspection = inspect(
        Table(
            {"age": Values("integer", np.zeros(0, np.int64), np.zeros(0, bool))},
            rows=0,
            native=None,
        )
    )
    assert (inspection.rows, inspection.duplicates, inspection.unique) == (0, 0, 0)
    assert inspection.columns[0].role == "drop"


def test_the_sample_survey_gets_the_roles_and_kinds_of_its_schema():
    survey = sample_survey()
    table = table_of(**{name: as_values(values) for name, values in survey.items()})
    inspection = inspect(table)
    drafted, expected = draft_schema(inspection), sample_schema()
    assert dict(drafted.roles()) == dict(expected.roles())
    assert [column.kind for column in drafted.quasi] == [column.kind for column in expected.quasi]
    assert inspection.unique > 1900


def test_the_drafted_schema_covers_every_column_and_resolves():
    table = table_of(
        id=list(range(ROWS)),
        age=NUMBERS,
        level=cycle("low", "high", "medium"),
        income=NUMBERS,
        wgt=NUMBERS,
        blank=as_values([None] * ROWS, storage="empty"),
    )
    schema = draft_schema(inspect(table))
    assert schema == Schema(
        identifiers=["id"],
        quasi=[
            Column("age", kind="numeric"),
            Column("level", kind="ordinal", order=["low", "medium", "high"]),
        ],
        confidential=["income"],
        weight="wgt",
        drop=["blank"],
    )
    assert resolve(schema, table).quasi[1].publish == "median"


def test_as_dict_is_json_without_values():
    table = table_of(
        name=cycle("Zacharias", "Quirinus"),
        code=cycle("70707", "81818"),
        city=WORDS,
        tsh=cycle(98765, 43210),
    )
    plain = inspect(table).as_dict()
    text = json.dumps(plain)
    keys = ["rows", "duplicates", "unique", "columns", "persons", "rows_per_person"]
    assert list(plain) == keys
    assert plain["columns"][0]["role"] == "identifier"
    for secret in ("Zacharias", "Quirinus", "70707", "81818", "pear", "98765", "43210"):
        assert secret not in text


def test_the_table_is_not_modified():
    values = as_values([3.0, -0.0, None, 1.0] * 10)
    before = values.data.tobytes(), values.missing.tobytes()
    values.data.flags.writeable = values.missing.flags.writeable = False
    facts_of("x", values)
    assert (values.data.tobytes(), values.missing.tobytes()) == before


@pytest.mark.parametrize(
    "name", ["Patient Name", "patient_name", "Name des Patienten", "nhs_number", "Insurance No"]
)
def test_names_and_numbers_of_people_are_identifiers_even_if_they_repeat(name):
    column = microcell.inspect({name: ["anna", "bob", "carl", "dora", "anna"] * 10}).columns[0]
    assert column.role == "identifier"
