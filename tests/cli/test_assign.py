"""``microcell assign``: the table, what is told, and what is refused."""

import csv
import json
import re
import shlex
from importlib import import_module

import numpy as np
import polars as pl
import pytest

import microcell as mc

module = import_module("microcell.cli.anonymize")
KEYS = ["sex", "age", "bmi", "latitude", "longitude", "postal_code"]
BASE = ("assign", "cells.json", "newcomers.csv", "-o", "assigned.csv")


@pytest.fixture(scope="module")
def cells_text():
    """The cells of 200 people, as a file has them."""
    return mc.anonymize(
        mc.sample_survey(200), mc.sample_schema(), k=5, method="mdav", cells=True
    ).cells.to_json()


@pytest.fixture
def folder(folder, cells_text):
    """Beside people.csv and schema.toml also cells.json and newcomers.csv."""
    (folder / "cells.json").write_text(cells_text, encoding="ascii")
    newcomers = pl.DataFrame(mc.sample_survey(230)).tail(30)
    income, visits = np.arange(30) * 1000, np.arange(30) % 4
    newcomers.with_columns(income=pl.Series(income), visits=pl.Series(visits)).write_csv(
        folder / "newcomers.csv"
    )
    return folder


def read_rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def output(text):
    return " ".join(text.split())


def test_records_get_their_cells_and_representatives(folder, run):
    outcome = run(*BASE)
    assert (outcome.code, outcome.stdout) == (0, ""), outcome.stderr
    rows = read_rows(folder / "assigned.csv")
    assert list(rows[0]) == [*KEYS, "cell"]
    done = mc.assign("cells.json", "newcomers.csv")
    assert [int(row["cell"]) for row in rows] == done.labels.tolist()
    assert pl.read_csv("assigned.csv", schema_overrides={"postal_code": pl.String}).equals(
        done.table
    )


def test_records_of_the_release_get_their_published_values(folder, run):
    base = (
        "anonymize",
        "people.csv",
        "-s",
        "schema.toml",
        "-k",
        5,
        "-o",
        "out.csv",
        "--keep-order",
    )
    assert run(*base, "--cells", "own.json").code == 0
    outcome = run("assign", "own.json", "people.csv", "-o", "again.csv")
    assert outcome.code == 0, outcome.stderr
    again, released = read_rows(folder / "again.csv"), read_rows(folder / "out.csv")
    assert [[row[key] for key in KEYS] for row in again] == [
        [row[key] for key in KEYS] for row in released
    ]


def test_the_summary_has_the_cells_and_warns_that_the_output_is_not_anonymous(folder, run):
    done = mc.assign("cells.json", "newcomers.csv")
    words = output(run(*BASE).stderr)
    assert f"30 records to {len(np.unique(done.labels))} of 40 cells" in words
    assert "not k-anonymous by itself" in words
    assert words.endswith("table assigned.csv")


def test_json_is_complete_and_nothing_else_is_on_stdout(folder, run):
    outcome = run(*BASE, "--json", "--quiet")
    done = mc.assign("cells.json", "newcomers.csv")
    assert outcome.stderr == ""
    assert json.loads(outcome.stdout) == {
        "records": 30,
        "cells": 40,
        "cells_used": len(np.unique(done.labels)),
        "smallest": done.smallest,
        "unknown_categories": dict(done.unknown),
        "designed": pytest.approx(done.attained.designed),
        "shares": pytest.approx(done.attained.shares),
        "low": pytest.approx(done.attained.low),
        "high": pytest.approx(done.attained.high),
    }


def test_columns_are_kept_by_name(folder, run):
    assert run(*BASE, "--keep", "income, visits").code == 0
    rows = read_rows(folder / "assigned.csv")
    assert list(rows[0]) == [*KEYS, "income", "visits", "cell"]
    assert [int(row["income"]) for row in rows] == [1000 * i for i in range(30)]


def test_unknown_values_are_counted_and_not_shown(folder, run):
    text = (folder / "newcomers.csv").read_text(encoding="utf-8")
    (folder / "newcomers.csv").write_text(re.sub(r"\bfemale\b", "S3CR3T", text), encoding="utf-8")
    outcome = run(*BASE, "--json")
    assert outcome.code == 0, outcome.stderr
    count = len(re.findall(r"\bfemale\b", text))
    assert json.loads(outcome.stdout)["unknown_categories"]["sex"] == count > 0
    assert f"unknown {count} values of 'sex'" in output(outcome.stderr)
    assert "S3CR3T" not in outcome.stderr + (folder / "assigned.csv").read_text(encoding="utf-8")


def test_missing_values_are_rejected_or_imputed(folder, run):
    frame = pl.read_csv("newcomers.csv", schema_overrides={"postal_code": pl.String})
    frame.with_columns(
        pl.when(pl.int_range(pl.len()) < 2).then(None).otherwise(pl.col("bmi")).alias("bmi")
    ).write_csv("newcomers.csv")
    outcome = run(*BASE)
    assert (outcome.code, "Missing values in 'bmi' (2)" in outcome.stderr) == (2, True)
    assert not (folder / "assigned.csv").exists()
    assert run(*BASE, "--missing", "impute").code == 0
    assert all(row["bmi"] for row in read_rows(folder / "assigned.csv"))


def test_output_format_follows_the_file_name(folder, run):
    assert run(*BASE[:-1], "assigned.parquet").code == 0
    assert pl.read_parquet("assigned.parquet").height == 30


def test_reading_options_apply(folder, run):
    text = (folder / "newcomers.csv").read_text(encoding="utf-8")
    (folder / "odd.csv").write_text(text.replace(",", "|"), encoding="utf-8")
    assert run("assign", "cells.json", "odd.csv", "-o", "odd_out.csv", "--delimiter", "|").code == 0
    run(*BASE)
    odd = pl.read_csv("odd_out.csv", separator="|")
    assert odd["cell"].equals(pl.read_csv("assigned.csv")["cell"])


def alter(folder):
    content = json.loads((folder / "cells.json").read_text(encoding="ascii"))
    content["cells"]["costs"][0] += 0.5
    (folder / "cells.json").write_text(json.dumps(content), encoding="ascii")


def test_an_altered_file_is_rejected(folder, run):
    alter(folder)
    before = contents(folder)
    outcome = run(*BASE)
    assert outcome.code == 2
    assert "error[table.malformed]" in outcome.stderr
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("cells.json", "newcomers.csv", "-o", "cells.json"), "also an input"),
        (("cells.json", "newcomers.csv", "-o", "newcomers.csv"), "also an input"),
        (("cells.json", "newcomers.csv", "-o", "./newcomers.csv"), "also an input"),
        (("cells.json", "newcomers.csv", "-o", "nowhere/out.csv"), "does not exist"),
        (("cells.json", "newcomers.csv", "-o", "out.nonsense"), ".nonsense"),
        (("cells.json", "newcomers.csv"), "--output"),
        (("cells.json", "nowhere.csv", "-o", "out.csv"), "nowhere.csv"),
        (("nowhere.json", "newcomers.csv", "-o", "out.csv"), "nowhere.json"),
        (("newcomers.csv", "newcomers.csv", "-o", "out.csv"), "not JSON"),
        (
            ("cells.json", "newcomers.csv", "-o", "out.csv", "--keep", "wage"),
            "error[schema.unknown_column]",
        ),
        (("cells.json", "newcomers.csv", "-o", "out.csv", "--missing", "drop"), "impute"),
    ],
)
def test_invalid_use_is_reported_and_nothing_is_written(folder, run, words, message):
    before = contents(folder)
    outcome = run("assign", *words)
    assert outcome.code == 2
    assert message in output(outcome.stderr)
    assert contents(folder) == before


def test_a_table_without_a_required_column_is_rejected(folder, run):
    pl.read_csv("newcomers.csv").drop("bmi").write_csv("newcomers.csv")
    outcome = run(*BASE)
    assert (outcome.code, "no column 'bmi'" in output(outcome.stderr)) == (2, True)


def test_examples_of_the_help_run(folder, run):
    shown = re.sub(r"[\s│]+", " ", run("assign", "--help").stdout)
    for line in module.ASSIGN_EXAMPLES:
        assert line in shown
        outcome = run(*shlex.split(line)[1:])
        assert outcome.code == 0, (line, outcome.stderr)
