"""Large cells by the constrained Lloyd algorithm: the paper's findings, in the short profile."""

import csv
import json
import re

import numpy as np
import pytest
from experiments import quantization
from experiments._pcl import (
    exponent,
    gaussian,
    judge_change,
    mean_square,
    minutes,
    run_method,
    run_pcl,
)
from experiments._profiles import has_classics

pytestmark = [
    pytest.mark.skipif(
        not has_classics(), reason="the classic data sets are not here: set MICROCELL_DATA"
    ),
    pytest.mark.timeout(1800),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("quantization")
    quantization.study("quick").write(target)
    return target


@pytest.fixture(scope="module")
def about(folder):
    return json.loads((folder / "findings.json").read_text(encoding="utf-8"))


def rows(folder, name):
    with (folder / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def of(about, text):
    actual = [finding for finding in about["findings"] if text in finding["what"]]
    assert actual, text
    return actual


def test_lloyd_beats_mdav_in_every_case(folder):
    actual = rows(folder, "changes")
    assert len(actual) == 18
    for row in actual:
        assert float(row["D of PCL as published"]) < float(row["D of MDAV"])
        assert float(row["D of PCL by default"]) < float(row["D of MDAV"])


def test_gains_match_the_printed_ones(folder):
    gains = [
        float(row["D of PCL as published"]) / float(row["D of MDAV"]) - 1
        for row in rows(folder, "changes")
    ]
    assert -0.22 < min(gains) < -0.15
    assert {
        f["verdict"]
        for f in of({"findings": [*_all(folder)]}, "gains grow with the number of cells")
    } == {"reproduced"}


def _all(folder):
    return json.loads((folder / "findings.json").read_text(encoding="utf-8"))["findings"]


@pytest.mark.parametrize(
    "text",
    ["polytopes", "one dimension", "in which D rises", "until D is less", "records; distinct"],
)
def test_exact_claims_are_reproduced(about, text):
    assert {finding["verdict"] for finding in of(about, text)} == {"reproduced"}


@pytest.mark.parametrize(
    "text", ["difference in size between the largest", "sizes are met without correction"]
)
def test_sizes_are_exact(about, text):
    assert {finding["verdict"] for finding in of(about, text)} == {"better"}


def test_adult_gains_a_fifth_or_more_over_both(folder):
    for row in rows(folder, "adult"):
        for name in ("D of PCL as published", "D of PCL by default"):
            assert float(row[name]) < 0.85 * float(row["D of MDAV"])
            assert float(row[name]) < 0.85 * float(row["D of V-MDAV"])


def test_every_figure_is_reproduced_or_listed_as_omitted(about):
    shown = {int(n) for entry in about["shown"] for n in re.findall(r"\d+", entry["item"])}
    left = {int(item[5:]) for item in quantization.LEFT_OUT if item.startswith("Fig")}
    assert shown | left == set(range(1, 9))
    assert not shown & left


def test_every_item_has_findings(about):
    figures = {f"Fig. {n}" for n in range(3, 9)}
    assert {f["item"] for f in about["findings"]} == figures | {"Section 4.1", "Section 8"}
    assert all(f["why"] for f in about["findings"] if f["verdict"] != "reproduced")


def test_files_exist_and_are_small(about, folder):
    for entry in about["shown"]:
        assert 0 < (folder / entry["file"]).stat().st_size < 200_000


def test_distortion_follows_the_papers_definition():
    """Mean squared error per dimension, in the units of the points, computed by hand."""
    X = 3 + 5 * gaussian(200, 3, 0.5, seed=4)
    run = run_pcl(X, 20, shakes=0)
    squares = sum(
        ((X[run.labels == c] - X[run.labels == c].mean(axis=0)) ** 2).sum()
        for c in np.unique(run.labels)
    )
    assert mean_square(X, run.labels) == pytest.approx(squares / X.size)
    assert run.loss == pytest.approx(squares / X.size)
    assert run.smallest == np.bincount(run.labels).min()
    assert run_method(X, 20, "mdav").smallest >= 20


def test_points_have_the_requested_correlation():
    X = gaussian(100_000, 3, 0.5)
    assert np.allclose(np.corrcoef(X.T), 0.5 + 0.5 * np.eye(3), atol=0.02)
    assert np.allclose(X.std(axis=0), 1, atol=0.02)


def test_words_and_verdicts():
    assert [judge_change(g, -0.16) for g in (-0.19, -0.17, -0.145, -0.13)] == [
        "better",
        "reproduced",
        "reproduced",
        "differs",
    ]
    assert [minutes(s) for s in (975, 59.6, 37, 3.21)] == [
        "16 min 15 s",
        "1 min 0 s",
        "37 s",
        "3.2 s",
    ]
    assert exponent([1, 10, 100], [2.0, 200.0, 20_000.0]) == pytest.approx(2)
