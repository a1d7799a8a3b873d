"""``microcell survey``: from the size of a cell to the release, and invalid use."""

import json
import re
import shlex

import numpy as np
import polars as pl
import pytest

import microcell as mc
from microcell.cli.survey import COMMANDS

DESIGN = (
    "survey",
    "design",
    "people.csv",
    "-s",
    "schema.toml",
    "-k",
    3,
    "--failure",
    "0.01",
    "-m",
    "mdav",
)
pytestmark = pytest.mark.usefixtures("blank_figures")

EXAMPLES = {command.__name__: examples for command, examples in COMMANDS.items()}
KEYS = ["sex", "age", "bmi", "latitude", "longitude", "postal_code"]
ME = {
    "sex": "female",
    "age": 44,
    "bmi": 23.1,
    "latitude": 41.6,
    "longitude": 1.2,
    "postal_code": "25100",
}


@pytest.fixture(scope="module")
def design():
    return mc.surveys.design(
        mc.sample_survey(200), mc.sample_schema(), 3, 0.75, 0.01, method="mdav"
    )


@pytest.fixture
def folder(folder, design):
    """Folder with people.csv, schema.toml, cells.json, me.json and answers.csv."""
    design.cells.save(folder / "cells.json")
    (folder / "me.json").write_text(json.dumps(ME), encoding="utf-8")
    participants = np.flatnonzero(np.random.default_rng(0).random(200) < 0.75)
    answers = {
        "token": participants,
        "cell": design.labels[participants],
        "tsh": np.arange(len(participants)),
    }
    pl.DataFrame(answers).write_csv(folder / "answers.csv")
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def one_line(text):
    return " ".join(text.split())


def test_size_prints_the_numbers_of_the_paper(folder, run):
    outcome = run(
        "survey",
        "size",
        "-k",
        10,
        "--participation",
        0.75,
        "--failure",
        "1e-5",
        "--records",
        100_000,
    )
    assert (outcome.code, outcome.stderr) == (0, "")
    assert "27 candidates per cell" in outcome.stdout
    for number in ("6.05e-06", "8.824", "1.977e-06", "2.637e-06", "0.02215"):
        assert number in outcome.stdout


def test_size_as_json_and_figure(folder, run):
    outcome = run(
        "survey", "size", "-k", 10, "--participation", 0.5, "--json", "--figure", "n.svg", "--quiet"
    )
    assert json.loads(outcome.stdout)["size"] == 48
    assert (folder / "n.svg").read_text().lstrip().startswith("<?xml")
    assert outcome.stderr == ""


def test_design_writes_cells_manifest_and_report(folder, run):
    outcome = run(*DESIGN, "-o", "own.json", "--report", "own.html", "--json")
    assert outcome.code == 0, outcome.stderr
    manifest = json.loads((folder / "own.design.json").read_text(encoding="utf-8"))
    assert json.loads(outcome.stdout) == manifest
    cells = mc.load_cells("own.json")
    assert manifest["cells_sha256"] == cells.digest
    assert manifest["cells"]["count"] == len(cells)
    page = (folder / "own.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2
    assert "http" not in re.sub(r'xmlns[^"]*"[^"]*"', "", page)
    assert "table failure" in one_line(outcome.stderr)


def test_participation_from_a_column(folder, run):
    probabilities = np.random.default_rng(1).choice([0.5, 0.9], 200)
    frame = pl.read_csv("people.csv", schema_overrides={"postal_code": pl.String})
    frame.with_columns(probability=pl.Series(probabilities)).write_csv("probabilities.csv")
    base = (
        "survey",
        "design",
        "probabilities.csv",
        "-s",
        "schema.toml",
        "-k",
        3,
        "--failure",
        "0.01",
    )
    assert run(*base, "--participation", "probability", "-o", "own.json").code == 0
    outcome = run(
        "survey",
        "check",
        "own.json",
        "--frame",
        "probabilities.csv",
        "--participation",
        "probability",
    )
    assert outcome.code == 0, outcome.stdout
    assert "Column 'probability' has the probabilities" in one_line(outcome.stdout)


def test_design_for_a_paper_form(folder, run):
    base = ("survey", "design", "people.csv", "-s", "schema.toml", "-k", 3, "--failure", "0.01")
    outcome = run(*base, "--trust", "none", "--max-boxes", 5, "-o", "boxes.json")
    assert outcome.code == 0, outcome.stderr
    assert len(mc.load_cells("boxes.json")) <= 5
    assert run("survey", "check", "boxes.json", "--frame", "people.csv").code == 0


def test_check_passes(folder, run):
    outcome = run("survey", "check", "cells.json", "--frame", "people.csv")
    assert outcome.code == 0, outcome.stdout
    assert "FAILED" not in outcome.stdout
    assert "All checks passed" in outcome.stderr


def test_check_fails_with_another_frame(folder, run):
    pl.read_csv("people.csv", schema_overrides={"postal_code": pl.String}).head(150).write_csv(
        "fewer.csv"
    )
    outcome = run("survey", "check", "cells.json", "--frame", "fewer.csv", "--json")
    assert outcome.code == 1
    assert json.loads(outcome.stdout)["holds"] is False
    assert "At least one check failed" in outcome.stderr


def test_answer_prints_only_cell_and_representative(folder, run, design):
    outcome = run("survey", "answer", "cells.json", "--record", "me.json", "--json")
    assert outcome.code == 0, outcome.stderr
    answer = json.loads(outcome.stdout)
    assert set(answer) == {"cell", "representative"}
    assert answer == mc.surveys.answer(design.cells, ME).as_dict()
    assert list(answer["representative"]) == KEYS
    assert (
        str(answer["cell"]) in run("survey", "answer", "cells.json", "--record", "me.json").stdout
    )


def test_answer_warns_about_unfamiliar_values(folder, run):
    (folder / "me.json").write_text(
        json.dumps({**ME, "sex": "S3CR3T", "age": 777}), encoding="utf-8"
    )
    outcome = run("survey", "answer", "cells.json", "--record", "me.json", "--json")
    assert outcome.code == 0
    assert "'sex'" in outcome.stderr
    assert "'age'" in outcome.stderr
    assert "nearest cell" in outcome.stderr
    assert "S3CR3T" not in outcome.stdout + outcome.stderr
    assert "777" not in outcome.stdout + outcome.stderr


@pytest.mark.parametrize("below", ["suppress", "merge"])
def test_collect_is_k_anonymous(below, folder, run):
    outcome = run(
        "survey", "collect", "cells.json", "answers.csv", "-o", "out.csv",
        "--below", below, "--id", "token",
        "--report", "out.html",
    )  # fmt: skip
    assert outcome.code == 0, outcome.stderr
    frame = pl.read_csv("out.csv", schema_overrides={"postal_code": pl.String})
    assert frame.columns == ["tsh", *KEYS]
    assert frame.group_by(KEYS).len()["len"].min() >= 3
    manifest = json.loads((folder / "out.csv.manifest.json").read_text(encoding="utf-8"))
    assert manifest["records"]["released"] == frame.height
    assert "<html" in (folder / "out.html").read_text(encoding="utf-8")


def test_collect_rejects_duplicates(folder, run):
    frame = pl.read_csv("answers.csv")
    pl.concat([frame, frame.head(2)]).write_csv("answers.csv")
    before = contents(folder)
    outcome = run(
        "survey", "collect", "cells.json", "answers.csv", "-o", "out.csv", "--id", "token"
    )
    assert outcome.code == 2
    assert f"rows {frame.height + 1}, {frame.height + 2}" in one_line(outcome.stderr)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("size", "-k", 1, "--participation", 0.5), 2, "k must be"),
        (("size", "-k", 5, "--participation", 0), 2, "participation"),
        (("size", "-k", 5, "--participation", 0.5, "--figure", "n.gif"), 2, "--figure"),
        (("size", "-k", 5, "--participation", 0.5, "--records", 3), 1, "only 3"),
        ((*DESIGN[1:], "-o", "cells.csv"), 2, ".json"),
        ((*DESIGN[1:], "-o", "nowhere/own.json"), 2, "does not exist"),
        ((*DESIGN[1:], "-o", "own.json", "--report", "own.json"), 2, "option.unsupported"),
        ((*DESIGN[1:], "-o", "own.json", "--report", "people.csv"), 2, "option.unsupported"),
        ((*DESIGN[1:], "-o", "own.json", "--participation", "wage"), 2, "'wage'"),
        ((*DESIGN[1:], "-o", "own.json", "--participation", "2"), 2, "participation"),
        ((*DESIGN[1:], "-o", "own.json", "--max-boxes", 4), 2, "trust"),
        ((*DESIGN[1:], "-o", "own.json", "--participation", "0.001"), 1, "candidates"),
        (("check", "nowhere.json"), 2, "nowhere.json"),
        (("check", "me.json"), 2, "not a cells file"),
        (("answer", "cells.json", "--record", "nowhere.json"), 2, "nowhere.json"),
        (("answer", "cells.json", "--record", "people.csv"), 2, "not valid JSON"),
        (("collect", "cells.json", "answers.csv", "-o", "answers.csv"), 2, "also an input"),
        (("collect", "cells.json", "people.csv", "-o", "out.csv"), 2, "No cell"),
        (
            ("collect", "cells.json", "answers.csv", "-o", "out.csv", "--id", "nobody"),
            2,
            "'nobody'",
        ),
    ],
)
def test_invalid_use_writes_nothing(folder, run, arguments, code, text):
    before = contents(folder)
    outcome = run("survey", *arguments)
    assert outcome.code == code, outcome.stderr
    assert text in one_line(outcome.stderr)
    assert contents(folder) == before


def test_help_lists_every_command(run):
    shown = run("survey", "--help").stdout
    for command in COMMANDS:
        assert command.__name__.replace("_", "-") in shown


@pytest.mark.parametrize("name", ["size", "design", "check", "answer", "collect"])
def test_examples_of_the_help_run(name, folder, run):
    shown = re.sub(r"[\s│]+", " ", run("survey", name, "--help").stdout)
    for line in EXAMPLES[name]:
        assert line in shown
        overwrite = ["--force"] if name in ("design", "collect") else []
        # Each example releases the design for the first time.
        for trace in (*folder.glob("*.ledger*"), *folder.glob("*.manifest.json")):
            trace.unlink()
        outcome = run(*shlex.split(line)[1:], *overwrite)
        assert outcome.code == 0, (line, outcome.stderr)


def test_respondents_commands_load_neither_tables_nor_methods(folder, run_alone):
    for arguments in (("check", "cells.json"), ("answer", "cells.json", "--record", "me.json")):
        outcome = run_alone("survey", *arguments, PYTHONPROFILEIMPORTTIME="1")
        assert outcome.code == 0
        for package in ("polars", "narwhals", "matplotlib", "jinja2", "microcell.methods"):
            assert not re.search(rf"\| +{package}$", outcome.stderr, re.MULTILINE), package
