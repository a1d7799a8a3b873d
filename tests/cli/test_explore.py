"""``microcell explore``: table, figure, file, recommendation and invalid use."""

import csv
import errno
import json
import re
import shlex
from importlib import import_module

import pytest

import microcell as mc
from microcell._atomic import AtomicFiles
from microcell.report import FIGURE_FORMATS

module = import_module("microcell.cli.sweeps")
BASE = ("explore", "people.csv", "-s", "schema.toml")
WORD, NUMBER = "Zqxwv", "918273"


def words_of(text):
    return re.sub(r"\s+", " ", text)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_table_has_a_row_per_point_with_audit_measures(folder, run):
    outcome = run(*BASE, "-k", "3,10", "--methods", "mdav,bisect")
    assert outcome.code == 0, outcome.stderr
    _, heading, *rows = outcome.stdout.splitlines()
    assert heading.split() == [
        "method",
        "k",
        "k",
        "linkage",
        "loss",
        "worst",
        "diversity",
        "closeness",
        "seconds",
    ]
    result = mc.explore("people.csv", "schema.toml", k=[3, 10], methods=["mdav", "bisect"])
    names = ("linkage", "information_loss", "prosecutor_worst", "l_diversity", "t_closeness")
    for row, point in zip(rows, result.points, strict=True):
        mark = ">" if point == result.recommended else "*" if point in result.frontier else ""
        numbers = [part for name in names for part in point.measures[name].format().split()]
        shown = [
            *([mark] if mark else []),
            point.method,
            str(point.k),
            str(point.measured_k),
            *numbers,
        ]
        assert row.split()[:-1] == shown
    assert f"recommended {result.recommended}, the best balance" in words_of(outcome.stderr)


def test_confidential_measures_are_shown_if_there_are_any(folder, run):
    schema = mc.schema.schema_to_toml(mc.Schema(quasi=["age"], rest="drop"))
    (folder / "schema.toml").write_text(schema, encoding="utf-8")
    outcome = run(*BASE, "-k", "3")
    assert outcome.code == 0, outcome.stderr
    assert "diversity" not in outcome.stdout
    assert "prosecutor_" in outcome.stdout


def test_table_fits_in_a_terminal(folder, run_alone):
    outcome = run_alone(*BASE, "-k", "3,10,100", "--methods", "mdav,bisect")
    assert outcome.code == 0, outcome.stderr
    assert max(map(len, outcome.stdout.splitlines())) <= 90


def test_limits_choose_the_least_loss_and_misses_are_marked(folder, run):
    limits = (
        "--require",
        "linkage<=0.1",
        "--require",
        "interval_disclosure=0.9",
        "--require",
        "k>=5",
    )
    outcome = run(*BASE, "-k", "3,5,20,50", "--methods", "mdav", *limits)
    assert outcome.code == 0, outcome.stderr
    inputs = {"linkage": 0.1, "interval_disclosure": 0.9, "k": 5}
    result = mc.explore(
        "people.csv", "schema.toml", k=[3, 5, 20, 50], methods="mdav", require=inputs
    )
    _, heading, *rows = outcome.stdout.splitlines()
    assert "disclosure" in heading
    assert [" 3!" in row for row in rows] == [True, False, False, False]
    for row, point in zip(rows, result.points, strict=True):
        assert (f"{point.measures['linkage'].format()}!" in row) == (point["linkage"] > 0.1)
        assert row.startswith(">") == (point == result.recommended)
    assert f"recommended {result.recommended}, {result.reason}" in words_of(outcome.stderr)


def test_unmet_limits_exit_with_1_after_printing_the_map(folder, run):
    files = ("--figure", "map.svg", "--output", "map.csv")
    outcome = run(
        *BASE, "-k", "3,5", "--methods", "mdav", "--require", "information_loss<=0.000001", *files
    )
    assert outcome.code == 1
    assert len(outcome.stdout.splitlines()) == 4
    last = outcome.stderr.splitlines()[-1]
    assert last.startswith(
        "error[guarantee.requirement_not_met]: No point of the map meets all limits. mdav "
        "with k = 3 comes closest: information_loss is"
    )
    assert "(off by" in last
    assert {"map.svg", "map.csv"} <= set(contents(folder))
    as_json = run(
        *BASE, "-k", "3", "--methods", "mdav", "--require", "information_loss<=0.000001", "--json"
    )
    assert as_json.code == 1
    assert json.loads(as_json.stdout)["recommended"] is None


def test_json_has_everything_and_nothing_else_is_on_stdout(folder, run):
    outcome = run(
        *BASE,
        "-k",
        "3, 6",
        "--methods",
        "mdav, univariate",
        "--require",
        "k=4",
        "--json",
        "--quiet",
    )
    assert (outcome.code, outcome.stderr) == (0, "")
    data = json.loads(outcome.stdout)
    result = mc.explore(
        "people.csv", "schema.toml", k=[3, 6], methods=["mdav", "univariate"], require={"k": 4}
    )
    assert set(data) == {"risk", "loss", "limits", "recommended", "reason", "points"}
    assert (data["risk"], data["loss"], data["limits"], data["reason"]) == (
        "linkage",
        "information_loss",
        {"k": 4.0},
        result.reason,
    )
    assert (data["recommended"]["method"], data["recommended"]["k"]) == ("mdav", 6)
    for shown, point in zip(data["points"], result.points, strict=True):
        assert shown["measures"] == {name: point[name] for name in point.measures}
        assert (shown["method"], shown["used"], shown["k"], shown["measured_k"]) == (
            point.method,
            point.used,
            point.k,
            point.measured_k,
        )
        assert shown["meets_limits"] == result.meets(point)
        assert shown["frontier"] == (point in result.frontier)
        assert shown["recommended"] == (point == result.recommended)


def test_file_has_all_measures(folder, run):
    assert (
        run(*BASE, "-k", "3,6", "--methods", "mdav,univariate", "-o", "map.csv", "--quiet").code
        == 0
    )
    with (folder / "map.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    result = mc.explore("people.csv", "schema.toml", k=[3, 6], methods=["mdav", "univariate"])
    for row, point in zip(rows, result.points, strict=True):
        assert (row["method"], int(row["k"])) == (point.method, point.k)
        for name, measure in result.points[0].measures.items():
            shown = row["measured_k" if name == "k" else name]
            assert shown == "" if point.skipped else float(shown) == point[name], name
            assert measure.name == name


@pytest.mark.parametrize("form", FIGURE_FORMATS)
def test_figure_format_follows_the_file_name(folder, run, form):
    outcome = run(*BASE, "-k", "3,5", "--methods", "mdav", "--figure", f"out.{form.upper()}")
    assert outcome.code == 0, outcome.stderr
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[form]
    assert (folder / f"out.{form.upper()}").read_bytes().startswith(start)
    assert f"out.{form.upper()}" in outcome.stderr


def test_settings_reach_the_library(folder, run, monkeypatch):
    inputs, original = {}, mc.explore

    def spy(*arguments, **options):
        inputs.update(options)
        return original(*arguments, **options)

    monkeypatch.setattr(mc, "explore", spy)
    flags = ("--set", "gamma=0.5", "--effort", "fast", "--seed", 4, "--missing", "drop")
    axes = ("--risk", "t_closeness", "--loss", "information_loss.age", "--require", "k=5")
    assert run(*BASE, "-k", 5, "--methods", "auto,vmdav", *flags, *axes).code == 0
    assert inputs == {
        "k": [5],
        "methods": ["auto", "vmdav"],
        "options": {"gamma": 0.5, "effort": "fast"},
        "seed": 4,
        "missing": "drop",
        "risk": "t_closeness",
        "loss": "information_loss.age",
        "require": {"k": 5.0},
    }


def test_skipped_methods_and_the_choice_of_auto_are_shown(folder, run):
    outcome = run(*BASE, "-k", "30", "--methods", "univariate,auto")
    assert outcome.code == 0, outcome.stderr
    assert "skipped" in outcome.stdout
    assert "one dimension" in outcome.stderr
    chosen = mc.explore("people.csv", "schema.toml", k=30).points[0]
    assert f"auto {chosen.used}, {chosen.reason}" in words_of(outcome.stderr)


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("-k", "3,x"), 2, "option.wrong_type"),
        (("-k", ""), 2, "option.invalid"),
        (("-k", "1"), 2, "option.out_of_range"),
        (("-k", "3,201"), 1, "guarantee.too_few_records"),
        (("-k", "3", "--methods", "mdav,nonsense"), 2, "option.unknown"),
        (("-k", "3", "--methods", ","), 2, "option.invalid"),
        (("-k", "3", "--methods", "univariate"), 2, "option.unsupported"),
        (("-k", "3", "--methods", "mdav", "--set", "gamma=1"), 2, "option.unsupported"),
        (("-k", "3", "--methods", "mdav", "--risk", "nonsense"), 2, "option.unknown"),
        (("-k", "3", "--methods", "mdav", "--loss", "nonsense"), 2, "option.unknown"),
        (("-k", "3", "--methods", "mdav", "--require", "nonsense=1"), 2, "option.unknown"),
        (
            ("-k", "3", "--methods", "mdav", "--require", "information_loss"),
            2,
            "option.invalid",
        ),
        (
            ("-k", "3", "--methods", "mdav", "--require", "information_loss>=0.1"),
            2,
            "option.invalid",
        ),
        (
            ("-k", "3", "--methods", "mdav", "--require", "k=2", "--require", "k=3"),
            2,
            "option.conflict",
        ),
        (("-k", "3", "--figure", "out.bmp"), 2, "option.unsupported"),
        (("-k", "3", "--figure", "nowhere/out.svg"), 2, "table.unwritable"),
        (("-k", "3", "--output", "nowhere/out.csv"), 2, "table.unwritable"),
        (("-k", "3", "--output", "out.nonsense"), 2, "table.unknown_format"),
        (("-k", "3", "--output", "people.csv"), 2, "table.exists"),
        (("-k", "3", "--figure", "schema.toml"), 2, "option.unsupported"),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, tuple) else "",
)
def test_invalid_use_prints_one_line_and_changes_nothing(folder, run, words, code, error):
    before = contents(folder)
    outcome = run(*BASE, *words)
    assert outcome.code == code, outcome.stderr
    assert outcome.stdout == ""
    last = outcome.stderr.splitlines()[-1]
    assert last.startswith(f"error[{error}]: ")
    assert contents(folder) == before


def test_limit_in_the_wrong_direction_is_rejected_before_any_work(folder, run, monkeypatch):
    monkeypatch.setattr(mc, "explore", lambda *_, **__: pytest.fail("work was done"))
    outcome = run(*BASE, "-k", "3", "--require", "t_closeness.tsh>=0.3")
    assert outcome.code == 2
    assert "lower values" in outcome.stderr


def test_k_is_required(folder, run):
    outcome = run(*BASE)
    assert outcome.code == 2
    assert "-k" in outcome.stderr


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")]
)
def test_interruption_leaves_the_old_files(folder, run, monkeypatch, error):
    def fail(self):
        raise error

    for name in ("map.svg", "map.csv"):
        (folder / name).write_text("old", encoding="utf-8")
    before = contents(folder)
    monkeypatch.setattr(AtomicFiles, "_rename", fail)
    outcome = run(*BASE, "-k", 5, "--methods", "mdav", "--figure", "map.svg", "--output", "map.csv")
    assert outcome.code == (130 if isinstance(error, KeyboardInterrupt) else 2)
    assert contents(folder) == before


def test_ctrl_c_while_partitioning_writes_nothing(folder, run, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    before = contents(folder)
    monkeypatch.setattr("microcell.release.partition.partition_records", interrupt)
    outcome = run(*BASE, "-k", 5, "--methods", "mdav", "--figure", "map.svg")
    assert (outcome.code, outcome.stdout) == (130, "")
    assert outcome.stderr.splitlines()[-1] == "Interrupted: nothing was written."
    assert contents(folder) == before


@pytest.mark.parametrize("limit", [(), ("--require", "k=31"), ("--require", "information_loss=0")])
def test_no_value_of_the_table_is_shown(tmp_path, monkeypatch, run, limit):
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{WORD}n{i},{WORD}s{i % 3},{NUMBER}{i},{WORD}{i:02},{NUMBER}.{i},{WORD}d"
        for i in range(30)
    ]
    (tmp_path / "people.csv").write_text(
        "\n".join(["name,sex,age,place,wage,day", *rows, ""]), encoding="utf-8"
    )
    schema = mc.Schema(
        identifiers=["name"], quasi=["sex", "age", "place"], confidential=["wage"], keep=["day"]
    )
    (tmp_path / "schema.toml").write_text(mc.schema.schema_to_toml(schema), encoding="utf-8")
    files = ("--figure", "map.svg", "--output", "map.csv")
    for form in ((), ("--json",)):
        outcome = run(*BASE, "-k", "3,10", "--methods", "auto,mdav", *files, *form, *limit)
        assert outcome.code == (1 if limit else 0), outcome.stderr
        written = [(tmp_path / name).read_text(encoding="utf-8") for name in ("map.svg", "map.csv")]
        for shown in (outcome.stdout, outcome.stderr, *written):
            assert WORD not in shown
            assert NUMBER not in shown


def test_examples_of_the_help_run(folder, run):
    shown = re.sub(r"[\s│]+", " ", run("explore", "--help").stdout)
    for line in module.EXPLORE_EXAMPLES:
        assert line in shown
        outcome = run(*shlex.split(line)[1:])
        assert outcome.code == 0, (line, outcome.stderr)
    assert {"map.svg", "map.csv"} <= set(contents(folder))
