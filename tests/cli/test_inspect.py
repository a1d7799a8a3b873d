"""``microcell inspect``."""

import json
import tomllib

import pytest

import microcell as mc


def test_describes_each_column(folder, run):
    outcome = run("inspect", "people.csv")
    assert outcome.code == 0
    lines = outcome.stdout.splitlines()
    assert lines[0].startswith("200 rows. 0 rows repeat an earlier row. ")
    rows = {words[0]: words for words in map(str.split, lines) if words}
    assert rows["age"][1:3] == ["integer", "0"]
    assert rows["name"][4] == "identifier"
    assert rows["postal_code"][4:6] == ["quasi", "code"]
    assert outcome.stderr == ""


def test_json_matches_the_library(folder, run):
    outcome = run("inspect", "people.csv", "--json")
    expected = mc.inspect(mc.read("people.csv")).as_dict()
    assert json.loads(outcome.stdout) == json.loads(json.dumps(expected))


def test_drafts_a_usable_schema_with_reasons(folder, run):
    outcome = run("inspect", "people.csv", "-o", "draft.toml")
    text = (folder / "draft.toml").read_text(encoding="utf-8")
    assert outcome.code == 0
    assert "draft.toml" in outcome.stderr
    assert text.count("\n# ") >= 7
    assert mc.load_schema("draft.toml") == mc.draft_schema(mc.inspect(mc.read("people.csv")))
    assert run("anonymize", "people.csv", "-s", "draft.toml", "-k", 3, "--dry-run").code == 0


def test_a_dash_prints_only_the_schema(folder, run):
    outcome = run("inspect", "people.csv", "-o", "-")
    assert tomllib.loads(outcome.stdout)["columns"]["name"]["role"] == "identifier"
    assert outcome.stderr == ""
    assert not (folder / "-").exists()


def test_overwrites_a_file_only_with_force(folder, run):
    before = (folder / "schema.toml").read_bytes()
    outcome = run("inspect", "people.csv", "-o", "schema.toml")
    assert (outcome.code, outcome.error) == (2, "table.exists")
    assert (folder / "schema.toml").read_bytes() == before
    assert run("inspect", "people.csv", "-o", "schema.toml", "--force").code == 0
    assert (folder / "schema.toml").read_bytes() != before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("-o", "people.csv", "--force"), None),
        (("-o", "nowhere/draft.toml"), None),
        (("-o", "-", "--json"), "option.conflict"),
        (("--delimiter", "ab"), "option.invalid"),
        (("--encoding", "nonsense"), None),
    ],
)
def test_rejects_wrong_use(folder, run, arguments, code):
    before = (folder / "people.csv").read_bytes()
    outcome = run("inspect", "people.csv", *arguments)
    assert outcome.code == 2
    assert code is None or outcome.error == code
    assert (folder / "people.csv").read_bytes() == before


def test_read_options_are_passed_on(folder, run):
    (folder / "odd.txt").write_bytes("größe^n\n1,5^-\n2,5^'b^c'\n".encode("latin-1"))
    options = (
        "--delimiter",
        "^",
        "--encoding",
        "latin-1",
        "--quote",
        "'",
        "--decimal",
        ",",
        "--na",
        "-",
    )
    columns = run("inspect", "odd.txt", *options, "--json").json["columns"]
    assert [(column["name"], column["storage"], column["missing"]) for column in columns] == [
        ("größe", "float", 0),
        ("n", "text", 1),
    ]


@pytest.mark.parametrize("tab", ["tab", "\\t", "\t"])
def test_accepts_a_tab_as_delimiter(folder, run, tab):
    (folder / "odd.txt").write_text("a,b\tc\n1,2\t3\n", encoding="utf-8")
    columns = run("inspect", "odd.txt", "--delimiter", tab, "--json").json["columns"]
    assert [column["name"] for column in columns] == ["a,b", "c"]


def test_column_names_cannot_move_the_cursor(folder, run):
    (folder / "odd.csv").write_text("a\x1b[2Jb,c\n1,2\n3,4\n", encoding="utf-8")
    outcome = run("inspect", "odd.csv")
    assert "\x1b" not in outcome.stdout + outcome.stderr


def test_quiet_prints_only_results(folder, run):
    outcome = run("inspect", "people.csv", "-o", "draft.toml", "-q")
    assert (outcome.code, outcome.stderr) == (0, "")
    assert "postal_code" in outcome.stdout
