"""No error, whatever is wrong, shows a value of the table."""

import json

import pytest

import microcell as mc

WORD, NUMBER = "Zqxwv", "918273"
"""Every value of every column holds one of these."""

HEADER = "name,sex,age,place,wage,date"
SCHEMA = """
schema_version = 1
[columns.name]
role = "identifier"
[columns.sex]
role = "quasi"
[columns.age]
role = "quasi"
[columns.place]
role = "quasi"
kind = "code"
[columns.wage]
role = "confidential"
[columns.date]
role = "keep"
"""


def row(i):
    return f"{WORD}n{i},{WORD}s{i % 3},{NUMBER}{i},{WORD}{i:02},{NUMBER}.{i},{WORD}d"


ROWS = [row(i) for i in range(30)]
GOOD = "\n".join([HEADER, *ROWS, ""])
TOO_LARGE = "9" * 400


def replaced(number, text):
    return "\n".join([HEADER, *ROWS[:number], text, *ROWS[number + 1 :], ""])


def with_column(name, **entries):
    """The schema, with the entry of a column made anew."""
    tables = SCHEMA.split("[columns.")
    lines = [f"{key} = {json.dumps(value)}" for key, value in entries.items()]
    changed = [
        f"{name}]\n" + "\n".join(lines) + "\n" if part.startswith(f"{name}]") else part
        for part in tables
    ]
    return "[columns.".join(changed)


WRONG = {
    "text declared numeric": (GOOD, with_column("sex", role="quasi", kind="numeric"), ()),
    "text declared datetime": (GOOD, with_column("sex", role="quasi", kind="datetime"), ()),
    "numbers declared datetime": (GOOD, with_column("age", role="quasi", kind="datetime"), ()),
    "ordinal without an order": (GOOD, with_column("sex", role="quasi", kind="ordinal"), ()),
    "ordinal outside its order": (
        GOOD,
        with_column("sex", role="quasi", order=["low", f"{WORD}s1"]),
        (),
    ),
    "an order with a word twice": (
        GOOD,
        with_column("sex", role="quasi", order=[f"{WORD}s1", f"{WORD}s1"]),
        (),
    ),
    "a text as weight": (GOOD, with_column("sex", role="weight"), ()),
    "strata too small": (GOOD, with_column("sex", role="strata"), ("-k", 20)),
    "strata of one": (GOOD, with_column("place", role="strata"), ()),
    "negative weights": (
        GOOD.replace(f",{NUMBER}.", f",-{NUMBER}."),
        with_column("wage", role="weight"),
        (),
    ),
    "a location out of range": (
        GOOD,
        with_column("age", role="quasi", kind="location", latitude="age", longitude="wage").replace(
            '[columns.wage]\nrole = "confidential"\n', ""
        ),
        (),
    ),
    "too few records": (GOOD, SCHEMA, ("-k", 31)),
    "a column without a role": (GOOD, SCHEMA.replace("[columns.date]", "[columns.other]"), ()),
    "a missing value": (replaced(4, f"{WORD},,{NUMBER},{WORD},{NUMBER},{WORD}"), SCHEMA, ()),
    "a missing number": (replaced(4, f"{WORD},{WORD},,{WORD},{NUMBER},{WORD}"), SCHEMA, ()),
    "an infinity": (
        replaced(4, f"{WORD},{WORD},inf,{WORD},{NUMBER},{WORD}"),
        with_column("age", role="quasi", kind="numeric"),
        (),
    ),
    "a number too large": (
        replaced(4, f"{WORD},{WORD},{NUMBER}{TOO_LARGE},{WORD},{NUMBER},{WORD}"),
        with_column("age", role="quasi", kind="numeric"),
        (),
    ),
    "a field too many": (
        replaced(4, f"{WORD},{WORD},{NUMBER},{WORD},{NUMBER},{WORD},{WORD}"),
        SCHEMA,
        (),
    ),
    "a field too few": (replaced(4, f"{WORD},{WORD},{NUMBER}"), SCHEMA, ()),
    "cut in a quote": (replaced(29, f'{WORD},"{WORD}'), SCHEMA, ()),
    "another delimiter": (GOOD, SCHEMA, ("--delimiter", ";")),
    "another quote": (GOOD, SCHEMA, ("--quote", "Z")),
    "a null byte": (replaced(4, f"{WORD}\0{WORD},{NUMBER}"), SCHEMA, ()),
    "another encoding": (
        replaced(4, f"{WORD}\xff,{WORD},{NUMBER},{WORD},{NUMBER},é"),
        SCHEMA,
        ("--encoding", "ascii"),
    ),
    "an encoding of two bytes": (GOOD, SCHEMA, ("--encoding", "utf-16")),
    "an option of no method": (GOOD, SCHEMA, ("--set", "gamma=1")),
    "a schema that is the table": (GOOD, GOOD, ()),
    "an output of no format": (GOOD, SCHEMA, ("-o", "out.nonsense")),
    "an output in no folder": (GOOD, SCHEMA, ("-o", "nowhere/out.csv")),
    "a sentence for k": (GOOD, SCHEMA, ("-k", 1)),
}


def check_silence(outcome, *, code=(1, 2)):
    assert outcome.code in code, outcome.stderr
    for output in (outcome.stdout, outcome.stderr):
        assert WORD not in output
        assert NUMBER not in output


@pytest.mark.parametrize("case", WRONG)
def test_errors_of_anonymize_show_no_value(tmp_path, monkeypatch, run, case):
    monkeypatch.chdir(tmp_path)
    table, schema, options = WRONG[case]
    (tmp_path / "people.csv").write_bytes(table.encode("latin-1"))
    (tmp_path / "schema.toml").write_text(schema, encoding="utf-8")
    inputs = {"-k": 3, "-o": "out.csv"} | dict(zip(options[::2], options[1::2], strict=True))
    words = [word for pair in inputs.items() for word in pair]
    check_silence(run("anonymize", "people.csv", "-s", "schema.toml", *words))
    assert {path.name for path in tmp_path.iterdir()} == {"people.csv", "schema.toml"}


@pytest.mark.parametrize(
    "suffix", [".parquet", ".arrow", ".jsonl", ".xlsx", ".ods", ".sav", ".dta", ".nonsense", ""]
)
def test_errors_about_files_with_a_wrong_suffix_show_no_value(tmp_path, run, suffix):
    path = tmp_path / f"people{suffix}"
    path.write_text(GOOD, encoding="utf-8")
    check_silence(run("inspect", path))


def test_errors_about_truncated_json_lines_show_no_value(tmp_path, run):
    path = tmp_path / "people.jsonl"
    path.write_text(
        f'{{"name": "{WORD}", "age": {NUMBER}}}\n{{"name": "{WORD}", "age": {NUMBER}',
        encoding="utf-8",
    )
    check_silence(run("inspect", path))


@pytest.fixture
def released(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(GOOD, encoding="utf-8")
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    anonymized = run(
        "anonymize", "people.csv", "-s", "schema.toml", "-k", 3, "-o", "out.csv", "--json"
    )
    check_silence(anonymized, code=(0,))
    return tmp_path


def test_a_successful_run_and_its_manifest_show_no_value(released, run):
    manifest = (released / "out.csv.manifest.json").read_text(encoding="utf-8")
    assert WORD not in manifest
    assert NUMBER not in manifest
    for form in ((), ("--json",)):
        check_silence(run("audit", "people.csv", "out.csv", "-s", "schema.toml", *form), code=(0,))
    check_silence(run("inspect", "people.csv"), code=(0,))


SPOILED = {
    "a column gone": lambda lines: [line.rpartition(",")[0].rpartition(",")[0] for line in lines],
    "a key gone": lambda lines: [line.partition(",")[2] for line in lines],
    "a row too many": lambda lines: [*lines, *lines[1:3]],
    "a row gone": lambda lines: lines[:-1],
    "all rows gone": lambda lines: lines[:1],
    "text for numbers": lambda lines: [line.replace(NUMBER, WORD) for line in lines],
    "numbers for text": lambda lines: [line.replace(WORD, NUMBER) for line in lines],
    "cut": lambda lines: [*lines[:-1], lines[-1][:9]],
    "the original": lambda _: GOOD.splitlines(),
}


@pytest.mark.parametrize("case", SPOILED)
def test_errors_of_audit_show_no_value(released, run, case):
    lines = (released / "out.csv").read_text(encoding="utf-8").splitlines()
    (released / "out.csv").write_text("\n".join([*SPOILED[case](lines), ""]), encoding="utf-8")
    check_silence(run("audit", "people.csv", "out.csv", "-s", "schema.toml", "--require", "k=30"))


def test_an_internal_error_shows_no_value(released, run, monkeypatch):
    def fail(*_, **__):
        raise KeyError(f"{WORD} {NUMBER}")

    monkeypatch.delenv("MICROCELL_DEBUG", raising=False)
    monkeypatch.setattr(mc, "anonymize", fail)
    check_silence(
        run("anonymize", "people.csv", "-s", "schema.toml", "-k", 3, "-o", "new.csv"), code=(70,)
    )
