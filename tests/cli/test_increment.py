"""``microcell increment``: from a base to the release, and plans."""

import json
import re
import shlex
from pathlib import Path

import polars as pl
import pytest

import microcell as mc
from microcell.cli import increment
from microcell.cli.increment import parse_time
from microcell.errors import OptionError
from microcell.methods.increments import STRATEGIES
from tests.raising import raises

pytestmark = pytest.mark.usefixtures("blank_figures")

DOCS = Path(__file__).parent.parent.parent / "docs" / "increments.md"
PLAN = ("increment", "plan", "--collection", "10h", "--whole", "2h")


def split_table(folder):
    """Write the parts of people.csv to base.csv, one.csv and two.csv."""
    header, *rows = (folder / "people.csv").read_text(encoding="utf-8").splitlines()
    for name, part in (("base", rows[:140]), ("one", rows[140:170]), ("two", rows[170:])):
        (folder / f"{name}.csv").write_text("\n".join([header, *part, ""]), encoding="utf-8")


@pytest.fixture
def parts(folder):
    split_table(folder)
    return folder


@pytest.fixture
def started(parts, run):
    outcome = run(
        "increment",
        "start",
        "base.csv",
        "-s",
        "schema.toml",
        "-k",
        5,
        "--state",
        "st",
        "--method",
        "mdav",
    )
    assert outcome.code == 0, outcome.stderr
    return parts


def one_line(text):
    return " ".join(text.split())


# ---------------------------------------------------------------------------- from start to finish


def test_start_add_and_finish(started, run):
    for name in ("one", "two"):
        outcome = run("increment", "add", "st", f"{name}.csv")
        assert (outcome.code, outcome.stdout) == (0, "")
    outcome = run("increment", "finish", "st", "-o", "out.csv", "--report", "out.html")
    assert outcome.code == 0, outcome.stderr
    output = one_line(outcome.stderr)
    assert "the table is 5-anonymous in these columns" in output
    assert "batches 2 after the initial one" in output
    assert "st still contains original data" in output
    result = mc.audit("people.csv", "out.csv", mc.load_schema("schema.toml")).require(k=5)
    assert result["records"] == 200
    assert result["records_dropped"] == 0
    assert "Audit of out.csv" in (started / "out.html").read_text(encoding="utf-8")
    method = json.loads((started / "out.csv.manifest.json").read_text(encoding="utf-8"))["method"]
    assert [batch["records"] for batch in method["batches"]] == [30, 30]


def test_commands_equal_a_session_in_memory(started, run):
    run("increment", "add", "st", "one.csv", "--strategy", "split-early", "--inertial")
    outcome = run("increment", "finish", "st", "-o", "out.csv", "--keep-order", "--json")
    session = mc.increments.start("base.csv", "schema.toml", 5, method="mdav")
    session.add("one.csv", strategy="split-early", inertial=True)
    expected = session.finish()
    assert mc.read("out.csv").native.equals(expected.table)
    manifest = json.loads(outcome.stdout)
    assert manifest["cells"] == expected.manifest.as_dict()["cells"]
    assert (manifest["method"]["batches"][0]["strategy"], manifest["row_order"]) == (
        "split-early",
        "kept",
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy(started, run, strategy):
    assert run("increment", "add", "st", "one.csv", "--strategy", strategy, "-q").code == 0
    assert mc.increments.StoredSession("st").status().batches[1].strategy == strategy


def test_status(started, run):
    run("increment", "add", "st", "one.csv", "--strategy", "nearest")
    outcome = run("increment", "status", "st")
    output = one_line(outcome.stdout)
    assert outcome.code == 0
    assert "records 170 in 2 batches" in output
    assert "initial 140 140" in output
    assert "1 30 30 nearest" in output
    data = json.loads(run("increment", "status", "st", "--json").stdout)
    assert (data["records"], data["k"], data["finished"]) == (170, 5, None)
    assert [batch["records"] for batch in data["batches"]] == [140, 30]
    assert "digest" not in data["batches"][0]


def test_json_after_start_and_add(parts, run):
    start = (
        "increment",
        "start",
        "base.csv",
        "-s",
        "schema.toml",
        "-k",
        5,
        "--state",
        "st",
        "--json",
        "--quiet",
    )
    assert json.loads(run(*start).stdout)["records"] == 140
    outcome = run("increment", "add", "st", "one.csv", "--json", "-q")
    assert json.loads(outcome.stdout)["records"] == 170
    assert outcome.stderr == ""


def test_unknown_categories_are_counted(started, run):
    text = (started / "one.csv").read_text(encoding="utf-8")
    (started / "one.csv").write_text(text.replace(",male,", ",Zqxwv,"), encoding="utf-8")
    outcome = run("increment", "add", "st", "one.csv")
    assert outcome.code == 0
    assert re.search(r"unknown\s+\d+ values of 'sex'", outcome.stderr)
    assert "Zqxwv" not in outcome.stderr


def test_finish_is_reproducible_and_final(started, run):
    run("increment", "add", "st", "one.csv")
    for name in ("a.csv", "b.csv"):
        assert run("increment", "finish", "st", "-o", name).code == 0
    assert (started / "a.csv").read_bytes() == (started / "b.csv").read_bytes()
    outcome = run("increment", "add", "st", "two.csv")
    assert outcome.code == 1
    assert "Nothing can be added" in one_line(outcome.stderr)
    assert "finished no" not in one_line(run("increment", "status", "st").stdout)


@pytest.mark.parametrize("name", ["base.csv", "one.csv"])
def test_finish_does_not_overwrite_its_sources(started, run, name):
    run("increment", "add", "st", "one.csv")
    before = (started / name).read_bytes()
    for outputs in (("-o", name), ("-o", "out.csv", "--report", name)):
        outcome = run("increment", "finish", "st", *outputs)
        assert outcome.code == 2
        assert name in outcome.stderr
    assert (started / name).read_bytes() == before
    assert "finished no" in one_line(run("increment", "status", "st").stdout)


def test_csv_dialect_is_kept(parts, run):
    for name in ("base", "one"):
        mc.read(f"{name}.csv").native.write_csv(
            parts / f"{name}.csv", separator=";", decimal_comma=True
        )
    options = ("--delimiter", ";", "--decimal", ",")
    assert (
        run(
            "increment",
            "start",
            "base.csv",
            "-s",
            "schema.toml",
            "-k",
            5,
            "--state",
            "st",
            *options,
        ).code
        == 0
    )
    assert run("increment", "add", "st", "one.csv", *options).code == 0
    assert run("increment", "finish", "st", "-o", "out.csv").code == 0
    assert (
        (parts / "out.csv").read_text(encoding="utf-8").splitlines()[0].startswith("sex;age;bmi;")
    )


# --------------------------------------------------------------------------------- invalid use

INVALID = [
    (("add", "nowhere", "one.csv"), 2, "no session in 'nowhere'"),
    (("status", "nowhere"), 2, "no session"),
    (("finish", "st", "-o", "st/out.csv"), 2, "is in the session's folder"),
    (
        ("finish", "st", "-o", "out.csv", "--report", "st/out.html"),
        2,
        "is in the session's folder",
    ),
    (("finish", "st", "-o", "out.pdf"), 2, "error[table.unknown_format]"),
    (("add", "st", "schema.toml"), 2, "error[table.unknown_format]"),
    (("add", "st", "base.csv"), 2, "exactly these records, as the base"),
    (
        ("start", "base.csv", "-s", "schema.toml", "-k", "5", "--state", "st"),
        2,
        "already contains a session",
    ),
    (("start", "base.csv", "-s", "schema.toml", "-k", "5", "--state", "."), 2, "is not empty"),
    (
        ("start", "base.csv", "-s", "schema.toml", "-k", "500", "--state", "s2"),
        1,
        "The base has 140 records",
    ),
    (
        ("start", "base.csv", "-s", "schema.toml", "-k", "5", "--state", "s2", "--set", "seed=1"),
        2,
        "not an option",
    ),
    (
        ("start", "base.csv", "-s", "schema.toml", "-k", "5", "--state", "s2", "--set", "cls=1"),
        2,
        "not an option",
    ),
    (
        ("start", "base.csv", "-s", "schema.toml", "-k", "5", "--state", "s2", "--set", "gamma=1"),
        2,
        "gamma",
    ),
    (
        ("start", "gone.csv", "-s", "schema.toml", "-k", "5", "--state", "s2"),
        2,
        "error[table.not_found]",
    ),
]


@pytest.mark.parametrize(("arguments", "code", "text"), INVALID)
def test_invalid_use_leaves_the_session_unchanged(started, run, arguments, code, text):
    outcome = run("increment", *arguments)
    assert outcome.code == code
    assert text in one_line(outcome.stderr)
    status = mc.increments.StoredSession("st").status()
    assert (status.records, status.finished) == (140, None)
    assert not (started / "s2").exists()


def test_errors_contain_no_value(started, run):
    header, *rows = (started / "one.csv").read_text(encoding="utf-8").splitlines()
    for place in range(len(header.split(","))):
        changed_rows = [
            ",".join("Zqxwv" if at == place else part for at, part in enumerate(row.split(",")))
            for row in rows
        ]
        (started / "bad.csv").write_text("\n".join([header, *changed_rows, ""]), encoding="utf-8")
        outcome = run("increment", "add", "st", "bad.csv", "--again")
        assert "Zqxwv" not in outcome.stderr + outcome.stdout


# ------------------------------------------------------------------------------------------- plans


def test_worked_example(run):
    outcome = run(*PLAN, "--strategy", "separate")
    output = one_line(outcome.stdout)
    assert outcome.code == 0
    assert "Start when 85.4 % of the records have arrived" in output
    assert "finished 2 min 33 s after the end of the collection" in output
    assert "finished 10:02:33, 0:02:33 after the last record" in output
    data = json.loads(run(*PLAN, "--strategy", "separate", "--json").stdout)
    assert data["sigma"] == pytest.approx(5)
    assert data["chosen"]["nu"] == pytest.approx(0.146, abs=5e-4)
    assert data["chosen"]["after"] == pytest.approx(153, abs=0.5)
    [tenth] = [one for one in data["alternatives"] if one["nu"] == pytest.approx(0.1)]
    assert tenth["base_ends"] - tenth["starts"] == pytest.approx(97.2 * 60)
    assert tenth["adding"] == pytest.approx(72)
    assert 38 * 60 < tenth["after"] < 39 * 60


def test_worked_example_with_a_deadline(run):
    data = json.loads(run(*PLAN, "--strategy", "separate", "--deadline", "1h", "--json").stdout)
    assert data["chosen"]["nu"] == pytest.approx(0.073, abs=5e-4)
    assert data["chosen"]["received"] == pytest.approx(0.927, abs=5e-4)
    assert data["meets_deadline"] is True
    assert data["chosen"]["after"] == pytest.approx(3600, abs=1)


def test_impossible_deadline(run):
    output = one_line(run(*PLAN, "--strategy", "separate", "--deadline", "1min").stdout)
    assert "cannot be met: the earliest possible end is 2 min 33 s after it" in output


def test_quick_jobs_wait_for_all_records(run):
    output = one_line(run("increment", "plan", "--collection", "10h", "--whole", "50s").stdout)
    assert "Wait for all records: the whole job takes 50 s" in output


@pytest.mark.parametrize("arrivals", ["uniform", "early", "late"])
def test_arrivals_by_name(run, arrivals):
    data = json.loads(run(*PLAN, "--arrivals", arrivals, "--json").stdout)
    expected = mc.increments.plan(1_000_000, collection=36_000, whole=7200, arrivals=arrivals)
    assert data["chosen"]["nu"] == pytest.approx(expected.chosen.nu)


def test_arrivals_from_a_file(folder, run):
    times = [36_000 * (i + 1) / 1000 for i in range(1000)]
    pl.DataFrame({"t": times}).write_csv(folder / "times.csv")
    moments = pl.Series("t", [int(1e6 * time) for time in (0, *times)]).cast(pl.Datetime("us"))
    moments.to_frame().write_parquet(folder / "times.parquet")
    for name in ("times.csv", "times.parquet"):
        outcome = run(
            "increment",
            "plan",
            "--arrivals",
            name,
            "--whole",
            "2h",
            "--strategy",
            "separate",
            "--json",
        )
        assert json.loads(outcome.stdout)["chosen"]["nu"] == pytest.approx(0.146, abs=2e-3)


def test_plan_from_a_table(folder, run):
    outcome = run(
        "increment", "plan", "people.csv", "-s", "schema.toml", "-k", 3,
        "--collection", "10h", "--records", 5_000_000,
        "--seconds", "0.3s", "--strategy", "nearest", "--json",
    )  # fmt: skip
    data = json.loads(outcome.stdout)
    assert data["records"] == 5_000_000
    assert "samples of the table" in data["basis"]


def test_timeline_figure(folder, run):
    outcome = run(*PLAN, "--figure", "timeline.svg", "--quiet")
    assert outcome.code == 0
    assert "<svg" in (folder / "timeline.svg").read_text(encoding="utf-8")


INVALID_PLANS = [
    (("--collection", "soon", "--whole", "2h"), "--collection must be a time such as"),
    (("--collection", "10h"), "Pass either whole"),
    (("--whole", "2h"), "collection is required"),
    (
        ("--collection", "10h", "--whole", "2h", "--records", "0"),
        "records must be an integer of at least 2",
    ),
    (("--collection", "10h", "--whole", "0s"), "whole must be a number of seconds greater than 0"),
    (
        ("--collection", "10h", "--whole", "2h", "--arrivals", "never"),
        "--arrivals must be one of uniform",
    ),
    (
        ("--collection", "10h", "--whole", "2h", "--arrivals", "people.csv"),
        "must have exactly one",
    ),
    (("--collection", "10h", "--whole", "2h", "--arrivals", "gone.csv"), "error[table.not_found]"),
    (
        ("--collection", "10h", "--whole", "2h", "--figure", "timeline.txt"),
        "--figure must be a file name ending in",
    ),
    (("people.csv", "--collection", "10h"), "source requires a schema and k"),
    (
        ("people.csv", "-s", "schema.toml", "-k", "5", "--collection", "10h", "--whole", "2h"),
        "Pass either whole",
    ),
]


@pytest.mark.parametrize(("arguments", "text"), INVALID_PLANS)
def test_invalid_plans(folder, run, arguments, text):
    outcome = run("increment", "plan", *arguments)
    assert outcome.code == 2
    assert text in one_line(outcome.stderr)


TIMES = {
    "90": 90,
    "90s": 90,
    "30min": 1800,
    "30m": 1800,
    "2h": 7200,
    "1.5h": 5400,
    "1d": 86_400,
    "1h30min": 5400,
}
TIMES |= {"1h 30 min": 5400, " 2 h ": 7200, "2H": 7200, ".5s": 0.5, "0": 0}


@pytest.mark.parametrize("text", TIMES)
def test_parse_time(text):
    assert parse_time(text, "--whole") == TIMES[text]


@pytest.mark.parametrize(
    "text", ["", "h", "2 hours", "-5s", "1h30", "2x", "1e3", "nan", "inf", "1h,30min", "2h foo"]
)
def test_parse_time_rejects_other_text(text):
    with raises(OptionError, "option.invalid", option="--whole"):
        parse_time(text, "--whole")


# -------------------------------------------------------------------------------------------- help


def normalized(text):
    return re.sub(r"[\s│]+", " ", text)


@pytest.mark.parametrize("name", ["plan", "start", "add", "status", "finish"])
def test_help_has_summary_json_and_quiet(run, name):
    outcome = run("increment", name, "--help")
    assert outcome.code == 0
    output = normalized(outcome.stdout)
    command = getattr(increment, name)
    assert normalized(command.__doc__) in output
    assert all(flag in output for flag in ("--json", "--quiet", "Examples:"))


def test_help_of_the_group(run):
    assert all(
        normalized(line) in normalized(run("increment", "--help").stdout)
        for line in increment.INCREMENT_EXAMPLES
    )
    assert " increment " in run("--help").stdout


def name_by_time_of_day(folder):
    for part, name in (
        ("base", "morning"),
        ("one", "afternoon"),
        ("two", "evening"),
        ("people", "last_year"),
    ):
        (folder / f"{part}.csv").rename(folder / f"{name}.csv")


def test_examples_run(parts, run):
    name_by_time_of_day(parts)
    for line in (*increment.PLAN_EXAMPLES, *increment.INCREMENT_EXAMPLES):
        outcome = run(*shlex.split(line)[1:])
        assert outcome.code == 0, (line, outcome.stderr)
    assert (parts / "votes_k10.html").exists()


def test_commands_of_the_docs_run(parts, run):
    name_by_time_of_day(parts)
    blocks = re.findall(r"```sh\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    for line in "".join(blocks).splitlines():
        program, *arguments = shlex.split(line)
        assert program == "microcell"
        if arguments[:2] == ["increment", "run"]:
            continue  # It waits until the evening; docs/howto/election.md runs another one.
        outcome = run(*arguments)
        assert outcome.code == 0, (line, outcome.stderr)
    assert (parts / "votes_k10.csv").exists()
    assert (parts / "timeline.svg").exists()


def test_limits_are_required_at_the_start_and_met_at_the_end(parts, run):
    outcome = run(
        "increment", "start", "base.csv", "-s", "schema.toml", "-k", "3", "--state", "votes",
        "--method", "mdav", "--require", "l_diversity=2",
    )  # fmt: skip
    assert outcome.code == 0, outcome.stderr
    assert run("increment", "add", "votes", "one.csv").code == 0
    outcome = run("increment", "add", "votes", "two.csv", "--strategy", "split-late")
    assert "option.conflict" in outcome.stderr
    assert run("increment", "add", "votes", "two.csv").code == 0
    outcome = run("increment", "finish", "votes", "-o", "out.csv")
    assert outcome.code == 0, outcome.stderr
    manifest = json.loads(Path("out.csv.manifest.json").read_text(encoding="utf-8"))
    assert manifest["requirements"]["limits"] == {"l_diversity": 2}
    mc.audit("people.csv", "out.csv", "schema.toml").require(k=3, l_diversity=2)
