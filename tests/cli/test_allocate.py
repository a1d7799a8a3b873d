"""``microcell allocate``: files, output and invalid use."""

import errno
import json
import re
import shlex
from importlib import import_module

import numpy as np
import polars as pl
import pytest

import microcell as mc
from microcell._atomic import AtomicFiles
from microcell.report import FIGURE_FORMATS

module = import_module("microcell.cli.allocate")
BASE = ("allocate", "patients.csv", "hospitals.csv", "-o", "out.csv")
PLANE = ("--columns", "x,y")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, n in (("patients", 60), ("hospitals", 4)):
        table = pl.DataFrame(
            {
                "latitude": rng.normal(41.4, 0.1, n),
                "longitude": rng.normal(2.1, 0.1, n),
                "x": rng.normal(size=n),
                "y": rng.normal(size=n),
            }
        )
        if name == "hospitals":
            more = {"hospital": ["Mar", "Vall", "Nord", "Pau"], "places": [16, 17, 18, 19]}
            table = table.with_columns(pl.Series(key, values) for key, values in more.items())
        table.write_csv(f"{name}.csv")
    pl.DataFrame({"a": rng.normal(size=20), "b": rng.normal(size=20)}).write_csv("documents.csv")
    reviewers = {"reviewer": ["p", "q"], "load": [10, 12], "a": [0.0, 1.0], "b": [1.0, 0.0]}
    pl.DataFrame(reviewers).write_csv("reviewers.csv")
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_table_and_summary_equal_those_of_the_library(folder, run):
    outcome = run(*BASE, *PLANE, "--name", "hospital")
    assert outcome.code == 0, outcome.stderr
    result = mc.allocate("patients.csv", "hospitals.csv", columns=["x", "y"], name="hospital")
    assert pl.read_csv("out.csv")["centre"].to_list() == result.table["centre"].to_list()
    assert pl.read_csv("out.csv")["distance"].to_list() == pytest.approx(result.distances.tolist())
    assert "60 points to 4 centres with 70 places" in outcome.stdout
    assert f"mean {result.summary.distances.mean:.4g}" in outcome.stdout
    assert f"mean {result.summary.nearest.mean:.4g}" in outcome.stdout
    rows = [line.split() for line in outcome.stdout.splitlines()]
    for centre in result.summary.centres:
        expected = [
            centre.name,
            centre.load,
            centre.places,
            f"{centre.mean_distance:.4g}",
            f"{centre.price:.4g}",
        ]
        assert list(map(str, expected)) in rows
    assert "price:" in outcome.stderr
    assert "out.csv" in outcome.stderr


def test_json_has_everything_and_nothing_else_is_on_stdout(folder, run):
    outcome = run(*BASE, "--location", "latitude, longitude", "--json", "--quiet")
    shown = json.loads(outcome.stdout)
    assert outcome.stderr == ""
    assert set(shown) == {"points", "places", "columns", "unit", "distances", "nearest", "centres"}
    assert (shown["unit"], shown["columns"]) == ("km", ["latitude", "longitude"])
    assert set(shown["distances"]) == set(shown["nearest"]) == {"mean", "median", "p90", "max"}
    assert [centre["name"] for centre in shown["centres"]] == [1, 2, 3, 4]
    assert sum(centre["load"] for centre in shown["centres"]) == 60


@pytest.mark.parametrize("form", FIGURE_FORMATS)
def test_figure_format_follows_the_file_name(folder, run, form):
    outcome = run(*BASE, *PLANE, "--figure", f"map.{form.upper()}")
    assert outcome.code == 0, outcome.stderr
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[form]
    assert (folder / f"map.{form.upper()}").read_bytes().startswith(start)
    assert f"map.{form.upper()}" in outcome.stderr


def test_read_options_apply_to_text_files(folder, run):
    text = (folder / "patients.csv").read_text(encoding="utf-8")
    (folder / "odd.csv").write_text(text.replace(",", "|"), encoding="utf-8")
    pl.read_csv("hospitals.csv").write_parquet("hospitals.parquet")
    words = ("-o", "out.csv", *PLANE, "--json", "--delimiter", "|")
    odd = run("allocate", "odd.csv", "hospitals.parquet", *words)
    assert odd.code == 0, odd.stderr
    assert json.loads(odd.stdout) == json.loads(run(*BASE, *PLANE, "--json").stdout)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--location", "latitude"), "option.invalid"),
        (("--columns", "x,nonsense"), "option.unknown"),
        (("--columns", ","), "option.invalid"),
        ((), "option.conflict"),
        ((*PLANE, "--places", "x"), "data.invalid"),
        ((*PLANE, "--name", "nonsense"), "option.unknown"),
        ((*PLANE, "--figure", "map.bmp"), "option.unsupported"),
        ((*PLANE, "--figure", "nowhere/map.svg"), "table.unwritable"),
        ((*PLANE, "-o", "out.nonsense"), "table.unknown_format"),
        ((*PLANE, "-o", "hospitals.csv"), "table.exists"),
        ((*PLANE, "-o", "patients.csv"), "table.exists"),
        (
            ("--location", "latitude,longitude", "--standardize"),
            "option.conflict",
        ),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, tuple) else "",
)
def test_invalid_use_prints_one_line_and_changes_nothing(folder, run, words, error):
    before = contents(folder)
    outcome = run(*BASE, *words)
    assert outcome.code == 2, outcome.stderr
    (line,) = outcome.stderr.splitlines()
    assert line.startswith(f"error[{error}]: ")
    assert outcome.stdout == ""
    assert contents(folder) == before


def test_errors_show_no_value(folder, run):
    (folder / "patients.csv").write_text("x,y\n918273,1\n918273,\nZqxwv,2\n", encoding="utf-8")
    for words in (PLANE, ("--columns", "y"), ("--location", "y,y"), ("--location", "x,y")):
        outcome = run(*BASE, *words)
        assert outcome.code == 2
        assert "918273" not in outcome.stderr + outcome.stdout
        assert "Zqxwv" not in outcome.stderr + outcome.stdout


def test_too_few_places_report_the_missing_number(folder, run):
    pl.read_csv("hospitals.csv").with_columns(places=pl.Series([1, 2, 3, 4])).write_csv(
        "hospitals.csv"
    )
    outcome = run(*BASE, *PLANE)
    assert outcome.code == 2
    assert (
        "A demand of 60 places cannot fit into 10 places. Add at least 50 places." in outcome.stderr
    )
    assert not (folder / "out.csv").exists()


@pytest.mark.parametrize("old", [True, False])
def test_full_disk_leaves_all_files_unchanged(folder, run, monkeypatch, old):
    def fail(self):
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("out.csv", "map.svg") if old else ():
        (folder / name).write_text("old", encoding="utf-8")
    before = contents(folder)
    monkeypatch.setattr(AtomicFiles, "_rename", fail)
    outcome = run(*BASE, *PLANE, "--figure", "map.svg")
    assert outcome.code == 2
    assert "No space left on device" in outcome.stderr
    assert contents(folder) == before


def test_failed_figure_leaves_no_table(folder, run, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    before = contents(folder)
    monkeypatch.setattr(mc.plot, "allocation", fail)
    assert run(*BASE, *PLANE, "--figure", "map.svg").code == 2
    assert contents(folder) == before


def test_examples_of_the_help_run(folder, run):
    shown = re.sub(r"[\s│]+", " ", run("allocate", "--help").stdout)
    for line in module.EXAMPLES:
        assert line in shown
        outcome = run(*shlex.split(line)[1:])
        assert outcome.code == 0, (line, outcome.stderr)
    assert {"allocated.csv", "map.svg", "reviews.csv"} <= set(contents(folder))
