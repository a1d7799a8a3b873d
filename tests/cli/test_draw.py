"""``microcell draw``: figure and invalid use."""

import errno
import re
import shlex
from importlib import import_module

import numpy as np
import polars as pl
import pytest

import microcell as mc
from microcell._atomic import AtomicFiles
from microcell.report import FIGURE_FORMATS

module = import_module("microcell.cli.draw")
BASE = ("draw", "people.csv", "-s", "schema.toml", "-k", 20)
TWO = ("--columns", "age,income")
SCHEMA = """
schema_version = 1
rest = "drop"
[columns.age]
role = "quasi"
[columns.income]
role = "quasi"
[columns.bmi]
role = "quasi"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    columns = {
        "name": [f"S3CR3T{i}" for i in range(100)],
        "age": rng.normal(50, 12, 100).round(2),
        "income": rng.lognormal(10, 0.4, 100).round(2),
        "bmi": rng.normal(25, 4, 100).round(2),
    }
    pl.DataFrame(columns).write_csv("people.csv")
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("form", FIGURE_FORMATS)
def test_figure_format_follows_the_file_name(folder, run, form):
    outcome = run(*BASE, *TWO, "-o", f"out.{form.upper()}")
    assert (outcome.code, outcome.stdout) == (0, ""), outcome.stderr
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[form]
    assert (folder / f"out.{form.upper()}").read_bytes().startswith(start)
    assert f"out.{form.upper()}" in outcome.stderr


def test_figure_equals_that_of_the_library(folder, run):
    assert run(*BASE, *TWO, "--methods", "mdav, vmdav", "--seed", 3, "-o", "out.svg").code == 0
    figure = mc.plot.cells(
        "people.csv",
        "schema.toml",
        k=20,
        methods=["mdav", "vmdav"],
        columns=["age", "income"],
        seed=3,
    )
    assert (folder / "out.svg").read_bytes() == figure


def test_missing_option_applies(folder, run):
    frame = pl.read_csv("people.csv")
    frame.with_columns(
        pl.when(pl.int_range(pl.len()) < 2).then(None).otherwise(pl.col("age")).alias("age")
    ).write_csv("people.csv")
    refused = run(*BASE, *TWO, "-o", "out.svg")
    assert (refused.code, "'age' (2)" in refused.stderr) == (2, True)
    assert run(*BASE, *TWO, "-o", "out.svg", "--missing", "drop").code == 0


def test_quiet_prints_nothing(folder, run):
    outcome = run(*BASE, *TWO, "-o", "out.svg", "--quiet")
    assert (outcome.code, outcome.stdout, outcome.stderr) == (0, "", "")


def test_read_options_are_used(folder, run):
    text = (folder / "people.csv").read_text(encoding="utf-8")
    (folder / "odd.csv").write_text(text.replace(",", "|"), encoding="utf-8")
    words = ("-s", "schema.toml", "-k", 20, *TWO)
    assert run("draw", "odd.csv", *words, "--delimiter", "|", "-o", "odd.svg").code == 0
    assert run("draw", "people.csv", *words, "-o", "plain.svg").code == 0
    assert (folder / "odd.svg").read_bytes() == (folder / "plain.svg").read_bytes()


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("-o", "out.svg"), 2, "option.unsupported"),
        (("-o", "out.svg", "--columns", "age"), 2, "option.unsupported"),
        (
            ("-o", "out.svg", "--columns", "age,wage"),
            2,
            "option.unknown",
        ),
        ((*TWO, "-o", "out.bmp"), 2, "option.unsupported"),
        ((*TWO, "-o", "nowhere/out.svg"), 2, "table.unwritable"),
        ((*TWO, "-o", "out.svg", "--methods", "nonsense"), 2, "option.unknown"),
        ((*TWO, "-o", "out.svg", "--methods", ","), 2, "option.invalid"),
        ((*TWO, "-o", "out.svg", "-k", 1), 2, "option.out_of_range"),
        ((*TWO, "-o", "out.svg", "-k", 101), 1, "guarantee.too_few_records"),
    ],
    ids=lambda item: " ".join(map(str, item)) if isinstance(item, tuple) else "",
)
def test_invalid_use_prints_one_line_and_changes_nothing(folder, run, words, code, error):
    before = contents(folder)
    outcome = run(*BASE, *words)
    assert outcome.code == code, outcome.stderr
    last = outcome.stderr.splitlines()[-1]
    assert last.startswith(f"error[{error}]: ")
    assert contents(folder) == before


@pytest.mark.parametrize("which", ["table", "schema"])
def test_figure_never_overwrites_an_input(folder, run, which):
    names = {"table": "people.csv", "schema": "schema.toml"}
    (folder / names[which]).rename(folder / "taken.svg")
    names[which] = "taken.svg"
    before = contents(folder)
    outcome = run("draw", names["table"], "-s", names["schema"], "-k", 20, *TWO, "-o", "taken.svg")
    assert outcome.code == 2
    assert "also an input" in outcome.stderr
    assert contents(folder) == before


def test_full_disk_leaves_the_old_figure(folder, run, monkeypatch):
    def fail(self):
        raise OSError(errno.ENOSPC, "No space left on device")

    (folder / "out.svg").write_text("old", encoding="utf-8")
    before = contents(folder)
    monkeypatch.setattr(AtomicFiles, "_rename", fail)
    outcome = run(*BASE, *TWO, "-o", "out.svg")
    assert outcome.code == 2
    assert "No space left on device" in outcome.stderr
    assert contents(folder) == before


def test_examples_of_the_help_run(folder, run):
    shown = re.sub(r"[\s│]+", " ", run("draw", "--help").stdout)
    for line in module.EXAMPLES:
        assert line in shown
        outcome = run(*shlex.split(line)[1:])
        assert outcome.code == 0, (line, outcome.stderr)
    assert (folder / "cells.png").exists()
