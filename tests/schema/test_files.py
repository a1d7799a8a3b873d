"""Schema files and run files: round trips, defaults, and errors that name the key."""

import tomllib
from contextlib import contextmanager
from pathlib import Path

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import MicrocellError, OptionError, SchemaError, TableError
from microcell.kinds import KINDS
from microcell.model import Column, Schema
from microcell.schema.files import (
    Run,
    load_run,
    load_schema,
    run_from_toml,
    schema_from_toml,
    schema_to_toml,
)
from tests.raising import raises

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
weights = st.floats(min_value=1e-300, max_value=1e300)


@st.composite
def columns(draw, name, parts):
    kind = draw(st.sampled_from([None, *KINDS]))
    has_order = kind in (None, "ordinal") and draw(st.booleans())
    location = kind == "location" and len(parts) == 2
    if kind == "location" and not location:
        kind = None
    return Column(
        name,
        kind=kind,
        publish=draw(st.sampled_from([None, *KINDS[kind].representatives])) if kind else None,
        weight=draw(weights),
        order=tuple(draw(st.lists(names, unique=True, max_size=4))) if has_order else None,
        hierarchy={"vowel": ["a", "e"], "mute": {"stop": ["b"]}} if kind == "hierarchy" else None,
        latitude=parts[0] if location else None,
        longitude=parts[1] if location else None,
    )


@st.composite
def schemas(draw):
    pool = draw(st.lists(names, unique=True, min_size=4, max_size=14))
    latitude, longitude, *pool = pool
    roles = st.sampled_from(["identifiers", "quasi", "confidential", "strata", "keep", "drop"])
    role_of = {name: draw(roles) for name in pool}
    of = {role: [name for name in pool if role_of[name] == role] for role in set(role_of.values())}
    quasi = of.pop("quasi", [])
    drafted = [
        draw(columns(name, (latitude, longitude) if name == quasi[0] else ())) for name in quasi
    ]
    weight = of["keep"].pop() if of.get("keep") and draw(st.booleans()) else None
    return Schema(
        quasi=drafted,
        weight=weight,
        rest=draw(st.sampled_from(["error", "keep", "drop"])),
        dominance=draw(st.sampled_from([(1, 0.5), (1, 1.0), (3, 0.75)])),
        **of,
    )


@given(schemas())
def test_schema_round_trip(schema):
    assert schema_from_toml(schema_to_toml(schema)) == schema


@given(schemas(), st.data())
def test_columns_are_ordered_by_role_and_comments_change_nothing(schema, data):
    comments = {name: data.draw(st.text()) for name, _ in schema.roles()}
    text = schema_to_toml(schema, comments=comments)
    assert schema_from_toml(text) == schema
    parts = {part: column.name for column in schema.quasi for part in column.parts}
    expected = list(dict.fromkeys(parts.get(name, name) for name, _ in schema.roles()))
    assert list(tomllib.loads(text).get("columns", {})) == expected


@given(names)
def test_any_column_name_can_be_a_key(name):
    text = schema_to_toml(Schema(confidential=[name]))
    assert text.startswith("schema_version = 1\n")
    assert tomllib.loads(text)["columns"] == {name: {"role": "confidential"}}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "\x00",
        "\x7f",
        "a.b",
        'qu"ote',
        "back\\slash",
        "new\nline",
        "\u2028",
        "\U0001f600",
        "größe",
        " ",
    ],
)
def test_unusual_names_and_categories(name):
    schema = Schema(keep=["x"], quasi=[Column(name or "y", order=[name])])
    assert schema_from_toml(schema_to_toml(schema)) == schema


def test_rejects_a_name_that_cannot_be_encoded():
    with raises(SchemaError, "table.bad_names"):
        schema_to_toml(Schema(keep=["\ud800"]))


def test_layout():
    schema = Schema(
        identifiers=["full name"],
        quasi=[
            Column("home", kind="location", latitude="lat", longitude="lon", weight=2),
            Column("level", kind="ordinal", order=["low", "high"]),
        ],
        confidential=["tsh"],
        weight="w",
        rest="drop",
    )
    comments = {"lat": "by name\nand range", "lon": "by name\nand range", "level": "a scale"}
    assert schema_to_toml(schema, comments=comments) == (
        "schema_version = 1\n"
        'rest = "drop" # columns that are not listed: error, keep or drop\n'
        "\n"
        '[columns."full name"]\n'
        'role = "identifier"\n'
        "\n"
        "[columns.home]\n"
        "# by name and range\n"
        'role = "quasi"\n'
        'kind = "location"\n'
        "weight = 2.0\n"
        'latitude = "lat"\n'
        'longitude = "lon"\n'
        "\n"
        "[columns.level]\n"
        "# a scale\n"
        'role = "quasi"\n'
        'kind = "ordinal"\n'
        'order = ["low", "high"]\n'
        "\n"
        "[columns.tsh]\n"
        'role = "confidential"\n'
        "\n"
        "[columns.w]\n"
        'role = "weight"\n'
    )


def test_weight_and_order_accept_whole_numbers():
    text = 'schema_version = 1\n[columns.grade]\nrole = "quasi"\nweight = 3\norder = [0, 1, 2]'
    assert schema_from_toml(text).quasi == (Column("grade", weight=3.0, order=("0", "1", "2")),)


def test_an_empty_schema():
    assert schema_from_toml("schema_version = 1") == Schema()
    assert schema_from_toml(schema_to_toml(Schema())) == Schema()


QUASI = '[columns.age]\nrole = "quasi"\n'


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (f'{QUASI}knd = "numeric"', "columns.age.knd"),
        ('[columns."a b"]\nrole = "qi"', 'columns."a b".role'),
        ('[columns.age]\nkind = "numeric"', "columns.age.role"),
        ("[columns.age]\nrole = 1", "columns.age.role"),
        (f'{QUASI}weight = "2"', "columns.age.weight"),
        (f"{QUASI}weight = true", "columns.age.weight"),
        (f"{QUASI}weight = 1" + 400 * "0", "columns.age.weight"),
        (f'{QUASI}order = "SECRET"', "columns.age.order"),
        (f"{QUASI}order = [1.5]", "columns.age.order"),
        (f"{QUASI}kind = 2020-01-01", "columns.age.kind"),
        ('[columns.age]\nrole = "keep"\nkind = "numeric"', "columns.age.kind"),
        ('[columns]\nage = "quasi"', "columns.age"),
        ("columns = 3", "columns"),
        ('rest = "ignore"', "rest"),
        ('rset = "keep"', "rset"),
        ('[columns.a]\nrole = "weight"\n[columns.b]\nrole = "weight"', "columns.b"),
    ],
)
def test_invalid_keys_of_a_schema_are_named(body, key):
    with raises(SchemaError, "schema.bad_file", key=key, file="plan.toml") as caught:
        schema_from_toml("schema_version = 1\n" + body, source="plan.toml")
    assert str(caught.value).startswith(f"plan.toml: {key} ")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (f"{QUASI}weight = -1", "schema.invalid"),
        (f"{QUASI}weight = nan", "schema.invalid"),
        (f'{QUASI}order = ["SECRET", "SECRET"]', "schema.category_order"),
        (f'{QUASI}kind = "number"', "schema.invalid"),
        ('[columns.home]\nrole = "quasi"\nkind = "location"', "schema.invalid"),
        (
            '[columns.lat]\nrole = "keep"\n[columns.home]\nrole = "quasi"\nkind = "location"\n'
            'latitude = "lat"\nlongitude = "lon"',
            "schema.duplicate_role",
        ),
    ],
)
def test_contradictions_name_the_file(body, code):
    with raises(SchemaError, code) as caught:
        schema_from_toml("schema_version = 1\n" + body, source="plan.toml")
    assert str(caught.value).startswith("plan.toml: ")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "position"),
    [
        ('[columns.age]\nrole = "quasi\n', "at line 3"),
        ('[columns.age]\nrole = "quasi"\n[columns.age]', "at line 4"),
        ("[columns.age", "at "),
        ("rest = " + 5000 * "1", ""),
        ("rest = " + 5000 * "[", ""),
    ],
)
def test_invalid_toml_is_located_and_not_quoted(body, position):
    with raises(SchemaError, "schema.bad_file", file="plan.toml") as caught:
        schema_from_toml("schema_version = 1\n" + body, source="plan.toml")
    assert str(caught.value).startswith(f"plan.toml: not valid TOML {position}".rstrip())


def test_messages_suggest_what_to_write():
    with raises(SchemaError, "schema.bad_file") as caught:
        schema_from_toml('schema_version = 1\n[columns.age]\nrole = "quasi"\nknd = "code"')
    assert str(caught.value) == (
        "schema: columns.age.knd is not a known key. Did you mean kind? "
        "Known keys: role, kind, publish, weight, order, latitude, longitude, hierarchy, bands, "
        "after, difference_of, sum_of, round, top, bottom, noise, swap, most_false, step."
    )
    with raises(OptionError, "schema.bad_file") as caught:
        run_from_toml('config_version = 1\nmissing = "zero"')
    assert str(caught.value) == "run: missing must be 'error', 'drop' or 'impute'."


@pytest.mark.parametrize(
    "version",
    [
        "",
        "schema_version = 2",
        "schema_version = 0",
        'schema_version = "1"',
        "schema_version = true",
        "schema_version = 1.0",
    ],
)
def test_the_version_must_be_1(version):
    with raises(SchemaError, "schema.bad_file", key="schema_version"):
        schema_from_toml(version)


def test_a_newer_version_is_reported_before_its_unknown_keys():
    with raises(SchemaError, "schema.bad_file", key="schema_version"):
        schema_from_toml("schema_version = 3\nnovelty = 1")
    with raises(OptionError, "schema.bad_file", key="config_version"):
        run_from_toml("config_version = 3\nnovelty = 1")


lines = st.sampled_from(
    [
        "[columns.a]",
        'role = "quasi"',
        "k = 3",
        "[schema]",
        "[read]",
        "rest",
        "=",
        '"',
        "weight = 1e999",
    ]
)


@given(st.lists(lines | st.text(max_size=8), max_size=6).map("\n".join))
@pytest.mark.parametrize(
    ("read", "key"), [(schema_from_toml, "schema_version"), (run_from_toml, "config_version")]
)
def test_any_text_gives_a_result_or_an_error_that_names_the_file(read, key, text):
    with suppress_named("plan.toml: "):
        read(f"{key} = 1\n{text}", source="plan.toml")


@contextmanager
def suppress_named(start):
    try:
        yield
    except MicrocellError as error:
        if not str(error).startswith(start):
            raise


scalars = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(st.dictionaries(keys, scalars | st.lists(scalars)))
def test_options_of_a_method_are_kept_as_they_are(options):
    text = tomlkit.dumps({"config_version": 1, "options": options})
    expected = {
        name: tuple(value) if isinstance(value, list) else value for name, value in options.items()
    }
    parsed = run_from_toml(text).options
    assert parsed == expected
    assert [type(value) for value in parsed.values()] == [
        type(value) for value in expected.values()
    ]


@given(schemas())
def test_a_run_can_contain_a_schema(schema):
    content = {"config_version": 1, "schema": tomllib.loads(schema_to_toml(schema))}
    assert run_from_toml(tomlkit.dumps(content)).schema == schema


def test_a_complete_run():
    text = """
        config_version = 1
        input = "data/people.csv"
        output = "/elsewhere/out.csv"
        k = 5
        method = "vmdav"
        seed = 3
        missing = "impute"
        dependence = 1
        blocks = "age;sex"
        report = "../report.html"
        cells = "cells.json"
        keep_order = true
        [options]
        gamma = 0.2
        [read]
        delimiter = ";"
        na = "NA"
        [schema]
        rest = "keep"
        [schema.columns.age]
        role = "quasi"
    """
    assert run_from_toml(text, source="run.toml", folder=Path("study")) == Run(
        input=Path("study/data/people.csv"),
        output=Path("/elsewhere/out.csv"),
        schema=Schema(quasi=["age"], rest="keep"),
        k=5,
        method="vmdav",
        seed=3,
        missing="impute",
        dependence=1.0,
        blocks="age;sex",
        report=Path("study/../report.html"),
        cells=Path("study/cells.json"),
        keep_order=True,
        options={"gamma": 0.2},
        read={"delimiter": ";", "na": ("NA",)},
    )


def test_keys_that_are_not_set_are_none():
    assert run_from_toml("config_version = 1", folder=Path("study")) == Run()


@pytest.mark.parametrize(
    ("body", "error", "key"),
    [
        ("kk = 5", OptionError, "kk"),
        ("K = 5", OptionError, "K"),
        ('k = "5"', OptionError, "k"),
        ("k = 5.0", OptionError, "k"),
        ("k = true", OptionError, "k"),
        ('keep_order = "yes"', OptionError, "keep_order"),
        ("blocks = 1.5", OptionError, "blocks"),
        ("schema = 3", OptionError, "schema"),
        ('missing = "zero"', OptionError, "missing"),
        ('[read]\ndelimeter = ";"', OptionError, "read.delimeter"),
        ("[read]\nna = [1]", OptionError, "read.na"),
        ("[options]\nwhen = 2020-01-01", OptionError, "options.when"),
        ("[options.deep]\na = 1", OptionError, "options.deep"),
        ("[schema]\nschema_version = 2", SchemaError, "schema.schema_version"),
        ('[schema.columns.age]\nrole = "qi"', SchemaError, "schema.columns.age.role"),
        ("[schema.columns.age]\nknd = 1", SchemaError, "schema.columns.age.knd"),
        ('[require]\nk = "5"', OptionError, "require.k"),
        ("[require]\nk = true", OptionError, "require.k"),
        ("[require]\nk = [5]", OptionError, "require.k"),
        ("[require]\nt_closeness.pay.x = 1", OptionError, "require.t_closeness"),
        (
            '[require]\n"t_closeness.pay" = 1\nt_closeness.pay = 2',
            OptionError,
            "require.t_closeness",
        ),
    ],
)
def test_invalid_keys_of_a_run_are_named(body, error, key):
    with raises(error, "schema.bad_file", key=key, file="run.toml") as caught:
        run_from_toml("config_version = 1\n" + body, source="run.toml")
    assert str(caught.value).startswith(f"run.toml: {key}")


def test_requirements_of_a_run():
    text = (
        'config_version = 1\n[require]\nk = 7\n"l_diversity.a b" = 3\nt_closeness.pay = 0.25\n'
        't_closeness."x.y" = 1'
    )
    assert run_from_toml(text).require == {
        "k": 7,
        "l_diversity.a b": 3,
        "t_closeness.pay": 0.25,
        "t_closeness.x.y": 1,
    }


def test_loading(tmp_path):
    schema = Schema(quasi=["größe"], rest="keep")
    (tmp_path / "schema.toml").write_text(schema_to_toml(schema), encoding="utf-8-sig")
    (tmp_path / "run.toml").write_text(
        'config_version = 1\r\nschema = "schema.toml"\r\n', encoding="utf-8"
    )
    assert load_schema(tmp_path / "schema.toml") == schema
    assert load_schema(str(tmp_path / "schema.toml")) == schema
    assert load_run(tmp_path / "run.toml") == Run(schema=tmp_path / "schema.toml")


@pytest.mark.parametrize("load", [load_schema, load_run])
def test_files_that_cannot_be_loaded(load, tmp_path):
    with raises(TableError, "table.not_found"):
        load(tmp_path / "absent.toml")
    with raises(TableError, "table.unreadable"):
        load(tmp_path)
    (tmp_path / "latin.toml").write_bytes("größe = 1".encode("latin-1"))
    with raises(TableError, "table.bad_encoding", byte=3):
        load(tmp_path / "latin.toml")
    (tmp_path / "bad.toml").write_text("a = = 1")
    with pytest.raises((SchemaError, OptionError), match="at line 1, column 5"):
        load(tmp_path / "bad.toml")
