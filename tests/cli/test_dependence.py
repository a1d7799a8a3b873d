"""``microcell dependence``: table, files, recommendation and invalid use."""

import csv
import json
import re

import pytest

import microcell as mc

BASE = ("dependence", "people.csv", "-s", "schema.toml", "--method", "mdav")


def test_table_shows_the_points_of_the_sweep(folder, run):
    outcome = run(*BASE, "-k", "4,8", "--lambdas", "0.2,1")
    assert outcome.code == 0, outcome.stderr
    heading, *rows = outcome.stdout.splitlines()
    assert heading.split()[:4] == ["k", "lambda", "D_X", "D_Y"]
    points = mc.dependence_sweep(
        "people.csv", "schema.toml", k=[4, 8], lambdas=[0.2, 1], method="mdav"
    ).points
    assert len(rows) == len(points) == 6
    for row, point in zip(rows, points, strict=True):
        shown = re.split(r"\s{2,}", row)
        assert shown[:2] == [str(point.k), f"{point.dependence:g}"]
        assert shown[2:5] == [
            f"{100 * value:.4g} %"
            for value in (point.distortion, point.dependence_loss, point.weighted)
        ]
        assert shown[-1] == f"{100 * point.dld:.4g} %"


def test_files_and_json_hold_the_same_points(folder, run):
    outcome = run(
        *BASE, "-k", "4", "--lambdas", "0.5", "-o", "sweep.csv", "--figure", "sweep.svg", "--json"
    )
    assert outcome.code == 0, outcome.stderr
    output = json.loads(outcome.stdout)
    rows = list(csv.DictReader((folder / "sweep.csv").read_text(encoding="utf-8").splitlines()))
    assert [float(row["distortion"]) for row in rows] == [
        point["distortion"] for point in output["points"]
    ]
    assert [item["k"] for item in output["recommended"]] == [4]
    assert (folder / "sweep.svg").read_bytes().startswith(b"<?xml")


def test_recommended_weight_is_shown_with_its_effect(folder, run):
    generous = run(*BASE, "-k", "4", "--more", "100")
    assert "of the association preserved" in generous.stderr
    # Weights that cost more than 5 % are tried, but not recommended.
    strict = run(*BASE, "-k", "4", "--lambdas", "0,0.9")
    assert "--dependence 0:" in strict.stderr


def test_blocks_are_reported_as_not_jointly_k_anonymous(folder, run):
    outcome = run(*BASE, "-k", "4", "--lambdas", "0", "--blocks", "1")
    assert outcome.code == 0, outcome.stderr
    assert "all columns combined: k falls to" in " ".join(outcome.stderr.split())


def test_single_block_of_all_columns_has_no_warning(folder, run):
    outcome = run(*BASE, "-k", "4", "--lambdas", "0", "--blocks", "99")
    output = " ".join(outcome.stderr.split())
    assert "all columns combined: are k-anonymous too" in output
    assert "falls" not in output


def test_output_format_follows_the_file_name(folder, run):
    outcome = run(*BASE, "-k", "4", "--lambdas", "0.5", "-o", "sweep.parquet", "--json")
    assert outcome.code == 0, outcome.stderr
    written = mc.read("sweep.parquet").columns["dependence_loss"].data
    assert written.tolist() == [
        point["dependence_loss"] for point in json.loads(outcome.stdout)["points"]
    ]


def test_infinite_increase_is_a_missing_value_in_the_file(folder, run):
    lines = ["x,y", *(f"{row // 4},{row * 7 % 12}" for row in range(12))]
    (folder / "flat.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    schema = mc.schema.schema_to_toml(mc.Schema(quasi=["x"], confidential=["y"]))
    (folder / "flat.toml").write_text(schema, encoding="utf-8")
    arguments = (
        "flat.csv",
        "-s",
        "flat.toml",
        "-k",
        "4",
        "--method",
        "mdav",
        "--lambdas",
        "1",
        "-o",
        "sweep.csv",
    )
    outcome = run("dependence", *arguments, "--figure", "sweep.svg")
    assert outcome.code == 0, outcome.stderr
    rows = list(csv.DictReader((folder / "sweep.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["distortion_increment"] for row in rows] == ["0.0", ""]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("-k", "four"), "option.wrong_type"),
        (("-k", "4", "--lambdas", "little"), "option.invalid"),
        (("-k", "4", "--lambdas", ","), "option.invalid"),
        (("-k", "4", "-o", "both.csv", "--figure", "both.csv"), "option.unsupported"),
        (("-k", "4", "-o", "sweep.svg", "--figure", "sweep.svg"), "table.unknown_format"),
        (("-k", "4", "-o", "sweep.doc"), "table.unknown_format"),
        (("-k", "4", "--lambdas", "2"), "option.out_of_range"),
        (("-k", "4", "--more", "-1"), "option.out_of_range"),
        (("-k", "4", "--blocks", "age;nothing"), "option.unknown"),
        (("-k", "4", "--blocks", "age"), "option.invalid"),
        (("-k", "4", "-o", "people.csv"), "table.exists"),
        (("-k", "4", "--figure", "sweep.gif"), "option.unsupported"),
        (("-k", "4", "--set", "gamma=1"), "option.unsupported"),
    ],
)
def test_invalid_input_gives_an_error_and_no_file(folder, run, arguments, error):
    before = sorted(path.name for path in folder.iterdir())
    outcome = run(*BASE, *arguments)
    assert outcome.code != 0
    assert outcome.stderr.splitlines()[-1].startswith(f"error[{error}]: ")
    assert sorted(path.name for path in folder.iterdir()) == before
