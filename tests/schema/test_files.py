import tomllib
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microcell.errors import MicrocellError, OptionError, SchemaError, TableError
from microcell.kinds import KINDS
from microcell.model import Column, Schema
from microcell.schema.files import (
    Run,
    load_run,
    load_schema,
    run_from_toml,
    run_to_toml,
    schema_from_toml,
    schema_to_toml,
)

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
weights = st.floats(min_value=1e-300, max_value=1e300)


@st.composite
def columns(draw, name, parts):
    kind = draw(st.sampled_from([None, *KINDS]))
    given_order = kind in (None, "ordinal") and draw(st.booleans())
    location = kind == "location" and len(parts) == 2
    if kind == "location" and not location:
        kind = None
    return Column(
        name,
        kind=kind,
        publish=draw(st.sampled_from([None, *KINDS[kind].representatives])) if kind else None,
        weight=draw(weights),
        order=tuple(draw(st.lists(names, unique=True, max_size=4))) if given_order else None,
        latitude=parts[0] if location else None,
        longitude=parts[1] if location else None,
    )


@st.composite
def schemas(draw):
    pool = draw(st.lists(names, unique=True, min_size=4, max_size=14))
    latitude, longitude, *pool = pool
    role_of = {
        name: draw(
            st.sampled_from(["identifiers", "quasi", "confidential", "strata", "keep", "drop"])
        )
        for name in pool
    }
    of = {role: [name for name in pool if role_of[name] == role] for role in set(role_of.values())}
    quasi = of.pop("quasi", [])
    drafted = [
        draw(columns(name, (latitude, longitude) if name == quasi[0] else ())) for name in quasi
    ]
    weight = of["keep"].pop() if of.get("keep") and draw(st.booleans()) else None
    return Schema(
        quasi=drafted, weight=weight, rest=draw(st.sampled_from(["error", "keep", "drop"])), **of
    )


@given(schemas())
@settings(max_examples=300)
def test_schema_survives_the_round_trip(schema):
    assert schema_from_toml(schema_to_toml(schema)) == schema


@given(schemas(), st.data())
def test_file_has_the_columns_in_the_order_of_the_roles_and_comments_change_nothing(schema, data):
    comments = {name: data.draw(st.text()) for name, _ in schema.roles()}
    text = schema_to_toml(schema, comments=comments)
    assert schema_from_toml(text) == schema
    parts = {part: column.name for column in schema.quasi for part in column.parts}
    expected = list(dict.fromkeys(parts.get(name, name) for name, _ in schema.roles()))
    assert list(tomllib.loads(text).get("columns", {})) == expected


@given(names)
def test_any_name_survives_as_a_bare_or_quoted_key(name):
    text = schema_to_toml(Schema(confidential=[name]))
    assert text.startswith("schema_version = 1\n")
    assert all(character.isprintable() or character == "\n" for character in text)
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
def test_odd_names(name):
    schema = Schema(keep=["x"], quasi=[Column(name or "y", order=[name])])
    assert schema_from_toml(schema_to_toml(schema)) == schema


def test_a_name_that_no_file_can_hold_is_refused():
    with pytest.raises(SchemaError, match="surrogate"):
        schema_to_toml(Schema(keep=["\ud800"]))


def test_a_location_and_a_column_of_the_same_name_are_refused():
    home = Column("home", kind="location", latitude="lat", longitude="lon")
    with pytest.raises(SchemaError, match="The location 'home' is named like a column"):
        schema_to_toml(Schema(quasi=[home, "home"]))


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
        'rest = "drop"  # columns not named below: error, keep or drop\n'
        "\n"
        '[columns."full name"]\n'
        'role = "identifier"\n'
        "\n"
        "# by name and range\n"
        "[columns.home]\n"
        'role = "quasi"\n'
        'kind = "location"\n'
        "weight = 2.0\n"
        'latitude = "lat"\n'
        'longitude = "lon"\n'
        "\n"
        "# a scale\n"
        "[columns.level]\n"
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


def test_whole_numbers_are_fine_in_weight_and_order():
    text = 'schema_version = 1\n[columns.grade]\nrole = "quasi"\nweight = 3\norder = [0, 1, 2]'
    assert schema_from_toml(text).quasi == (Column("grade", weight=3.0, order=("0", "1", "2")),)


def test_an_empty_schema():
    assert schema_from_toml("schema_version = 1") == Schema()


@pytest.mark.parametrize(
    "body, words",
    [
        (
            '[columns.age]\nrole = "quasi"\nknd = "numeric"',
            "columns.age.knd is not a known key; did you mean kind; known are role, kind",
        ),
        (
            '[columns."a b"]\nrole = "qi"',
            "columns.\"a b\".role must be one of identifier, quasi, .* not 'qi'",
        ),
        (
            '[columns.age]\nkind = "numeric"',
            "columns.age.role is missing; choose one of identifier",
        ),
        ("[columns.age]\nrole = 1", "columns.age.role must be text, not a whole number"),
        (
            '[columns.age]\nrole = "quasi"\nweight = "2"',
            "columns.age.weight must be a number, not text",
        ),
        (
            '[columns.age]\nrole = "quasi"\nweight = true',
            "columns.age.weight must be a number, not true or false",
        ),
        ('[columns.age]\nrole = "quasi"\nweight = -1', "'age': weight must be a positive number"),
        ('[columns.age]\nrole = "quasi"\nweight = nan', "'age': weight must be a positive number"),
        (
            '[columns.age]\nrole = "quasi"\nweight = 1' + 400 * "0",
            "columns.age.weight is too large",
        ),
        (
            '[columns.age]\nrole = "quasi"\norder = "SECRET"',
            "columns.age.order must be a list of texts or whole numbers, not text",
        ),
        (
            '[columns.age]\nrole = "quasi"\norder = [1.5]',
            "columns.age.order must be a list of texts or whole numbers, not this list",
        ),
        (
            '[columns.age]\nrole = "quasi"\norder = ["SECRET", "SECRET"]',
            "'age': its order contains a category twice",
        ),
        (
            '[columns.age]\nrole = "quasi"\nkind = 2020-01-01',
            "columns.age.kind must be text, not a date or time",
        ),
        (
            '[columns.age]\nrole = "quasi"\nkind = "number"',
            "'age': unknown kind 'number'. Choose one of numeric",
        ),
        (
            '[columns.age]\nrole = "keep"\nkind = "numeric"',
            "columns.age.kind is for the role quasi.* role is keep",
        ),
        (
            '[columns.home]\nrole = "quasi"\nkind = "location"',
            "'home': a location needs latitude and longitude",
        ),
        ('[columns]\nage = "quasi"', r"columns.age must be a table, such as \[columns.age\]"),
        ("columns = 3", "columns must be a table, not a whole number"),
        ('rest = "ignore"', "rest must be one of error, keep, drop, not 'ignore'"),
        ('rset = "keep"', "rset is not a known key; did you mean rest"),
        (
            '[columns.a]\nrole = "weight"\n[columns.b]\nrole = "weight"',
            "columns.b is a second weight, after columns.a",
        ),
        (
            '[columns.lat]\nrole = "keep"\n[columns.home]\nrole = "quasi"\nkind = "location"\n'
            'latitude = "lat"\nlongitude = "lon"',
            "'lat' has two roles",
        ),
        ('[columns.age]\nrole = "quasi\n', "not valid TOML at line 3"),
        ('[columns.age]\nrole = "quasi"\n[columns.age]', "not valid TOML at line 4"),
        ("[columns.age", "not valid TOML at (line 2|end of document)"),
        ("rest = " + 5000 * "1", "not valid TOML"),
        ("rest = " + 5000 * "[", "not valid TOML"),
    ],
)
def test_wrong_schemas_name_the_source_and_the_key(body, words):
    with pytest.raises(SchemaError, match=f"^plan.toml: .*{words}") as caught:
        schema_from_toml("schema_version = 1\n" + body, source="plan.toml")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "version, words",
    [
        ("", "schema_version is missing; write schema_version = 1"),
        (
            "schema_version = 2",
            "schema_version is 2, but this microcell reads version 1; install a newer",
        ),
        ("schema_version = 0", "schema_version must be 1"),
        ('schema_version = "1"', "schema_version must be 1"),
        ("schema_version = true", "schema_version must be 1"),
    ],
)
def test_versions(version, words):
    with pytest.raises(SchemaError, match=words):
        schema_from_toml(version)


def test_a_newer_version_is_told_before_its_unknown_keys():
    with pytest.raises(SchemaError, match="schema_version is 3"):
        schema_from_toml("schema_version = 3\nnovelty = 1")
    with pytest.raises(OptionError, match="config_version is 3"):
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
    "read, key", [(schema_from_toml, "schema_version"), (run_from_toml, "config_version")]
)
def test_any_text_gives_a_result_or_an_error_that_names_the_source(read, key, text):
    with suppress_named("plan.toml: "):
        read(f"{key} = 1\n{text}", source="plan.toml")


@contextmanager
def suppress_named(start):
    try:
        yield
    except MicrocellError as error:
        if not str(error).startswith(start):
            raise


plain = (
    st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
paths = st.builds(Path, st.from_regex(r"[a-zé \"\\]{1,8}(/[a-z.]{1,8})?", fullmatch=True))


@st.composite
def runs(draw):
    def maybe(strategy):
        return draw(st.none() | strategy)

    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
    read = st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("delimiter", "encoding", "quote", "decimal"), texts),
            "na": st.lists(texts).map(tuple),
        },
    )
    return Run(
        input=maybe(paths),
        output=maybe(paths),
        schema=maybe(paths | schemas()),
        k=maybe(st.integers()),
        method=maybe(texts),
        seed=maybe(st.integers()),
        missing=maybe(st.sampled_from(["error", "drop", "impute"])),
        report=maybe(paths),
        cells=maybe(paths),
        keep_order=maybe(st.booleans()),
        options=draw(st.dictionaries(names, plain | st.lists(plain).map(tuple))),
        read=draw(read),
    )


@given(runs())
def test_run_survives_the_round_trip(run):
    assert run_from_toml(run_to_toml(run), source="run", folder=Path()) == run


def test_a_whole_run():
    text = """
        config_version = 1
        input = "data/people.csv"
        output = "/elsewhere/out.csv"
        k = 5
        method = "vmdav"
        seed = 3
        missing = "impute"
        report = "../report.html"
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
        report=Path("study/../report.html"),
        keep_order=True,
        options={"gamma": 0.2},
        read={"delimiter": ";", "na": ("NA",)},
    )


def test_nothing_given_is_none():
    assert run_from_toml("config_version = 1", folder=Path("study")) == Run()


@pytest.mark.parametrize(
    "body, error, words",
    [
        (
            "kk = 5",
            OptionError,
            "kk is not a known key; did you mean k; known are config_version, input, output",
        ),
        ("K = 5", OptionError, "K is not a known key; did you mean k;"),
        ('outptu = "x"', OptionError, "outptu is not a known key; did you mean output;"),
        ("zzzzzz = 5", OptionError, "zzzzzz is not a known key; known are config_version, input"),
        ('k = "5"', OptionError, "k must be a whole number, not text"),
        ("k = 5.0", OptionError, "k must be a whole number, not a decimal number"),
        ("k = true", OptionError, "k must be a whole number, not true or false"),
        ('keep_order = "yes"', OptionError, "keep_order must be true or false, not text"),
        ("schema = 3", OptionError, "schema must be a path or a table, not a whole number"),
        ('missing = "zero"', OptionError, "missing must be one of error, drop, impute, not 'zero'"),
        (
            '[read]\ndelimeter = ";"',
            OptionError,
            "read.delimeter is not a known key; did you mean delimiter",
        ),
        ("[read]\nna = [1]", OptionError, "read.na must be text or a list of texts, not this list"),
        (
            "[options]\nwhen = 2020-01-01",
            OptionError,
            "options.when must be text, a number, .* not a date or time",
        ),
        (
            "[options.deep]\na = 1",
            OptionError,
            "options.deep must be text, a number, .* not a table",
        ),
        ("k = ", OptionError, "not valid TOML at"),
        ("[schema]\nschema_version = 2", SchemaError, "schema.schema_version is 2"),
        (
            '[schema.columns.age]\nrole = "qi"',
            SchemaError,
            "schema.columns.age.role must be one of",
        ),
        ("[schema.columns.age]\nknd = 1", SchemaError, "schema.columns.age.knd is not a known key"),
    ],
)
def test_wrong_runs_name_the_source_and_the_key(body, error, words):
    with pytest.raises(error, match=f"^run.toml: .*{words}"):
        run_from_toml("config_version = 1\n" + body, source="run.toml")


def test_a_run_with_an_option_that_no_file_can_hold():
    with pytest.raises(OptionError, match="A object cannot stand in a TOML file"):
        run_to_toml(Run(options={"x": object()}))


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
def test_loading_what_cannot_be_read(load, tmp_path):
    with pytest.raises(TableError, match=r"No file .*absent\.toml"):
        load(tmp_path / "absent.toml")
    with pytest.raises(TableError, match=r"Cannot read .*directory"):
        load(tmp_path)
    (tmp_path / "latin.toml").write_bytes("größe = 1".encode("latin-1"))
    with pytest.raises(TableError, match=r"latin\.toml' is not UTF-8 text at byte 3"):
        load(tmp_path / "latin.toml")
    (tmp_path / "bad.toml").write_text("a = = 1")
    with pytest.raises(
        (SchemaError, OptionError), match=r"bad\.toml: not valid TOML at line 1, column 5"
    ):
        load(tmp_path / "bad.toml")


def test_requirements_of_a_run():
    text = 'config_version = 1\n[require]\nk = 7\n"l_diversity.a b" = 3\nt_closeness.pay = 0.25\nt_closeness."x.y" = 1'
    run = run_from_toml(text)
    assert run.require == {
        "k": 7,
        "l_diversity.a b": 3,
        "t_closeness.pay": 0.25,
        "t_closeness.x.y": 1,
    }
    assert run_from_toml(run_to_toml(run)) == run
    assert run_from_toml("config_version = 1").require == {}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('k = "5"', r"require\.k must be a number, not text"),
        ("k = true", r"require\.k must be a number, not true or false"),
        ("k = [5]", r"require\.k must be a number, not this list"),
        ("t_closeness.pay.x = 1", r"require\.t_closeness\.pay must be a number, not a table"),
        (
            '"t_closeness.pay" = 1\nt_closeness.pay = 2',
            r"require\.t_closeness gives a second limit",
        ),
    ],
)
def test_requirements_that_are_none(lines, message):
    with pytest.raises(OptionError, match=message):
        run_from_toml(f"config_version = 1\n[require]\n{lines}")
