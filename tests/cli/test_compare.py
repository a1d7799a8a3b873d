"""``microcell compare``: table, figure and invalid use."""

import errno
import json
import re
import shlex
from importlib import import_module

import pytest

import microcell as mc
from microcell._atomic import AtomicFiles
from microcell.cli import options as _options
from microcell.report import FIGURE_FORMATS

module = import_module("microcell.cli.sweeps")
BASE = ("compare", "people.csv", "-s", "schema.toml")


def cells(line):
    return line.split()


def test_table_has_a_row_per_method_and_marks_the_lowest_loss(folder, run):
    outcome = run(*BASE, "-k", "3,5", "--methods", "mdav,bisect")
    assert outcome.code == 0, outcome.stderr
    heading, *rows = outcome.stdout.splitlines()
    assert re.split(r"\s{2,}", heading) == ["method", "k = 3", "seconds", "k = 5", "seconds"]
    trials = mc.compare("people.csv", "schema.toml", k=[3, 5], methods=["mdav", "bisect"])
    columns = [re.split(r"\s{2,}", row.strip()) for row in rows]
    shown = {method: values[::2] for method, *values in columns}
    for column, k in enumerate((3, 5)):
        least = min(trial.distortion for trial in trials if trial.k == k)
        for trial in trials:
            if trial.k == k:
                mark = "*" if trial.distortion == least else ""
                assert shown[trial.method][column] == f"{100 * trial.distortion:.4g} %{mark}"
    assert "lowest for this k" in outcome.stderr


def test_a_bound_is_the_last_row_of_the_table(folder, run):
    outcome = run(*BASE, "-k", "3,5", "--methods", "mdav", "--bound", "fast")
    bounds = mc.compare("people.csv", "schema.toml", k=[3, 5], methods="mdav", bound="fast")
    expected = ["lower bound", *(f"{100 * trial.bound:.4g} %" for trial in bounds)]
    assert re.split(r"\s{2,}", outcome.stdout.splitlines()[-1].strip()) == expected


def test_ties_are_all_marked():
    trials = [
        mc.sweeps.Trial(method, 3, "requested", method, distortion, 9, 3, 0.25)
        for method, distortion in (("a", 0.5), ("b", 0.25), ("c", 0.25))
    ]
    assert module._rows([*trials, mc.sweeps.Trial("d", 3, "unsupported")]) == [
        ["a", "50 %", "0.250"],
        ["b", "25 %*", "0.250"],
        ["c", "25 %*", "0.250"],
        ["d", "skipped", ""],
    ]


def test_choice_of_auto_is_shown_once(folder, run):
    chosen = mc.compare("people.csv", "schema.toml", k=4, methods="auto")[0]
    output = re.sub(r"\s+", " ", run(*BASE, "-k", "4,5", "--methods", "auto").stderr)
    assert output.count(f"auto {chosen.used}, {chosen.reason}") == 1


def test_many_k_are_divided_into_several_tables(folder, run_alone):
    outcome = run_alone(*BASE, "-k", "2,3,4,5,6,7,8", "--methods", "mdav,bisect")
    assert outcome.code == 0, outcome.stderr
    tables = outcome.stdout.split("\n\n")
    assert [re.findall(r"k = (\d)", table) for table in tables] == [
        ["2", "3", "4"],
        ["5", "6", "7"],
        ["8"],
    ]
    assert max(map(len, outcome.stdout.splitlines())) <= 80


def test_unsupported_method_is_skipped_with_a_reason(folder, run):
    outcome = run(*BASE, "-k", "3", "--methods", "univariate,mdav")
    assert outcome.code == 0
    assert ["univariate", "skipped"] in [cells(line) for line in outcome.stdout.splitlines()]
    assert "one dimension" in outcome.stderr
    assert outcome.stdout.count("*") == 1


def test_all_methods_are_compared_by_default(folder, run):
    outcome = run(*BASE, "-k", "20", "--json")
    assert [trial["method"] for trial in json.loads(outcome.stdout)] == [
        "auto",
        *mc.methods.METHODS,
    ]


def test_json_has_everything_and_nothing_else_is_on_stdout(folder, run):
    outcome = run(*BASE, "-k", "3, 6", "--methods", "mdav, univariate", "--json", "--quiet")
    result = json.loads(outcome.stdout)
    assert outcome.stderr == ""
    fields = {
        "method",
        "k",
        "used",
        "reason",
        "distortion",
        "cells",
        "smallest",
        "seconds",
        "bound",
    }
    assert all(set(trial) == fields for trial in result)
    assert [(trial["method"], trial["k"], trial["distortion"] is None) for trial in result] == [
        ("mdav", 3, False),
        ("mdav", 6, False),
        ("univariate", 3, True),
        ("univariate", 6, True),
    ]


def test_settings_seed_and_missing_reach_the_library(folder, run, monkeypatch):
    inputs, original = {}, mc.compare

    def spy(*arguments, **options):
        inputs.update(options)
        return original(*arguments, **options)

    monkeypatch.setattr(mc, "compare", spy)
    flags = ("--set", "gamma=0.5", "--set", "refine=true", "--seed", 4, "--missing", "drop")
    assert run(*BASE, "-k", 5, "--methods", "mdav,vmdav", *flags).code == 0
    assert inputs == {
        "k": [5],
        "methods": ["mdav", "vmdav"],
        "options": {"gamma": 0.5, "refine": True},
        "seed": 4,
        "missing": "drop",
        "bound": None,
    }


def test_read_options_are_used(folder, run):
    text = (folder / "people.csv").read_text(encoding="utf-8")
    (folder / "odd.csv").write_text(text.replace(",", "|"), encoding="utf-8")
    words = ("-s", "schema.toml", "-k", 3, "--methods", "mdav", "--json")
    odd = run("compare", "odd.csv", *words, "--delimiter", "|")
    assert odd.code == 0, odd.stderr
    plain = run("compare", "people.csv", *words)
    assert json.loads(odd.stdout)[0]["distortion"] == json.loads(plain.stdout)[0]["distortion"]


@pytest.mark.parametrize("form", FIGURE_FORMATS)
def test_figure_format_follows_the_file_name(folder, run, form):
    outcome = run(*BASE, "-k", "3,5", "--methods", "mdav,bisect", "--figure", f"out.{form.upper()}")
    assert outcome.code == 0, outcome.stderr
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[form]
    assert (folder / f"out.{form.upper()}").read_bytes().startswith(start)
    assert f"out.{form.upper()}" in outcome.stderr


def test_formats_match_the_library():
    assert tuple(_options._FIGURE_FORMATS.values()) == FIGURE_FORMATS


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("-k", "3,x"), 2, "option.wrong_type"),
        (("-k", ""), 2, "option.invalid"),
        (("-k", "1"), 2, "option.out_of_range"),
        (("-k", "3,201"), 1, "guarantee.too_few_records"),
        (("-k", "3", "--methods", "mdav,nonsense"), 2, "option.unknown"),
        (("-k", "3", "--methods", ","), 2, "option.invalid"),
        (("-k", "3", "--methods", "mdav", "--set", "gamma=1"), 2, "option.unsupported"),
        (("-k", "3", "--set", "seed=1"), 2, "option.unsupported"),
        (("-k", "3", "--figure", "out.bmp"), 2, "option.unsupported"),
        (("-k", "3", "--figure", "nowhere/out.svg"), 2, "table.unwritable"),
        (("-k", "3", "--methods", "univariate", "--figure", "out.svg"), 2, "option.invalid"),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, tuple) else "",
)
def test_invalid_use_prints_one_line_and_changes_nothing(folder, run, words, code, error):
    before = contents(folder)
    outcome = run(*BASE, *words)
    assert outcome.code == code, outcome.stderr
    last = outcome.stderr.splitlines()[-1]
    assert last.startswith(f"error[{error}]: ")
    assert contents(folder) == before


def test_figure_never_overwrites_the_table(folder, run):
    text = (folder / "people.csv").read_text(encoding="utf-8")
    (folder / "people.svg").write_text(text, encoding="utf-8")
    outcome = run("compare", "people.svg", "-s", "schema.toml", "-k", 3, "--figure", "people.svg")
    assert outcome.code == 2
    assert "also an input" in outcome.stderr
    assert (folder / "people.svg").read_text(encoding="utf-8") == text


def test_full_disk_leaves_the_old_figure(folder, run, monkeypatch):
    def fail(self):
        raise OSError(errno.ENOSPC, "No space left on device")

    (folder / "out.svg").write_text("old", encoding="utf-8")
    before = contents(folder)
    monkeypatch.setattr(AtomicFiles, "_rename", fail)
    outcome = run(*BASE, "-k", 5, "--methods", "mdav", "--figure", "out.svg")
    assert outcome.code == 2
    assert "No space left on device" in outcome.stderr
    assert contents(folder) == before


def test_examples_of_the_help_run(folder, run):
    output = re.sub(r"[\s│]+", " ", run("compare", "--help").stdout)
    for line in module.COMPARE_EXAMPLES:
        assert line in output
        outcome = run(*shlex.split(line)[1:])
        assert outcome.code == 0, (line, outcome.stderr)
    assert (folder / "methods.svg").exists()
