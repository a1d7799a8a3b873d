"""Constrained Lloyd with small and large cells, Census and the classic sets (quick profile)."""

import csv
import json
import re

import numpy as np
import pytest
from experiments import _classics, aggregation
from experiments._census import MDAV_PRINTED, PCL_PRINTED, judge_loss
from experiments._landscapes import SITES, missing, noisy, steepest
from experiments._profiles import classic, has_classics

pytestmark = [
    pytest.mark.skipif(
        not has_classics(), reason="the classic data sets are not here: set MICROCELL_DATA"
    ),
    pytest.mark.timeout(1800),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("aggregation")
    aggregation.study("quick").write(target)
    return target


@pytest.fixture(scope="module")
def about(folder):
    return json.loads((folder / "findings.json").read_text(encoding="utf-8"))


def rows(folder, name):
    with (folder / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def of(about, item, text=""):
    actual = [f for f in about["findings"] if f["item"] == item and text in f["what"]]
    assert actual, (item, text)
    return actual


def test_mdav_table_is_reproduced(about):
    actual = of(about, "Table 1")
    assert len(actual) == len(MDAV_PRINTED) == 6
    assert {finding["verdict"] for finding in actual} == {"reproduced"}


def test_lloyd_table_is_complete(about, folder):
    actual = rows(folder, "census")
    assert [(row["k"], row["D in print"]) for row in actual] == [
        (str(row.k), row.loss) for row in PCL_PRINTED
    ]
    for row in PCL_PRINTED:
        assert any(
            row.loss in finding["theirs"] for finding in of(about, "Table 2", f"k = {row.k}")
        )
    for row in actual:
        assert int(row["smallest cell"]) >= int(row["k"])


def test_census_loss_is_below_mdav_at_every_k(folder):
    mdav = {row["k"]: float(row["D"]) for row in rows(folder, "mdav")}
    for row in rows(folder, "census"):
        assert float(row["D, our default"]) < 0.92 * mdav[row["k"]]


def test_macrocells_trade_distortion_for_time(about):
    assert of(about, "Figs. 19 and 20", "two macrocells")[0]["verdict"] == "reproduced"


@pytest.mark.parametrize("name", ["large_cells", "small_cells"])
def test_lloyd_beats_mdav_on_points_in_the_plane(folder, name):
    for row in rows(folder, name):
        assert float(row["D of PCL, best"]) < float(row["D of MDAV"])


@pytest.mark.parametrize("item", ["Fig. 9", "Fig. 10"])
def test_sets_of_ten_points_gain_as_much_as_the_examples(about, item):
    assert of(about, item)[0]["verdict"] == "reproduced"


def test_mdav_and_vmdav_are_reproduced_to_the_digit(about):
    actual = [f for f in of(about, "Classic data sets") if "MDAV" in f["what"]]
    assert len(actual) == 2 * len(_classics.CASES["quick"])
    assert {finding["verdict"] for finding in actual} == {"reproduced"}


def test_the_headline_has_all_methods_of_every_case(about):
    cases = {}
    for row in about["headline"]:
        cases.setdefault((row["data"].lower(), row["k"]), {})[row["method"]] = row["D_percent"]
    assert set(cases) == set(_classics.CASES["quick"])
    for losses in cases.values():
        assert losses["best of ours"] <= min(
            losses[name] for name in ("MDAV", "V-MDAV", "PCL", "auto", "anneal")
        )


def test_full_has_every_set_and_k():
    assert set(_classics.CASES["full"]) == set(_classics.PRINTED)


def test_a_record_that_is_not_a_partition_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(_classics, "ROOT", tmp_path)
    (tmp_path / "benchmarks" / "records").mkdir(parents=True)
    X = classic("census")
    small = np.arange(len(X)) // 2
    np.savetxt(tmp_path / "benchmarks" / "records" / "census-3.txt", small, fmt="%d")
    with pytest.raises(ValueError, match="not a partition"):
        _classics.kept_record(X, "census", 3)


@pytest.mark.parametrize(
    "item", ["Figs. 21 and 22", "Figs. 23 and 24", "Figs. 25 and 26", "Figs. 27 and 28"]
)
def test_landscapes_are_as_described(about, item):
    assert {finding["verdict"] for finding in of(about, item)} <= {"reproduced", "better"}


def test_shortfall_of_the_smallest_cell():
    points = np.array([[0.0, 0.0], [0.1, 0.0], [1.0, 0.0], [0.9, 0.0]])
    sites = np.array([[0.0, 0.0], [1.0, 0.0]])
    costs = np.array([[0.0, 0.0], [0.0, 10.0], [0.0, 0.9]])
    assert missing(points, sites, costs).tolist() == [0.0, 0.5, 0.25]


def test_clouds_hold_copies_of_every_point():
    points = np.random.default_rng(0).uniform(size=(15, 2))
    cloud = noisy(points, 0.0, 12)
    assert len(cloud) == 180
    assert (np.unique(cloud.round(12), axis=0) == np.unique(points.round(12), axis=0)).all()
    assert len(SITES) == 3
    assert steepest(np.r_[np.zeros(20), np.ones(20)]) == 1


def test_losses_are_judged_by_printed_digits():
    assert [judge_loss("0.182", value) for value in (0.1824, 0.1802, 0.1835, 0.1901)] == [
        "reproduced", "better", "reproduced", "differs",
    ]  # fmt: skip


def test_every_figure_and_table_is_reproduced_or_listed_as_omitted(about):
    def numbers(item):
        first, *last = (int(n) for n in re.findall(r"\d+", item))
        return range(first, last[0] + 1) if last and " to " in item else [first, *last]

    shown = {
        n
        for entry in about["shown"]
        if entry["item"].startswith("Fig")
        for n in numbers(entry["item"])
    }
    left = {int(item[5:]) for item in aggregation.LEFT_OUT}
    assert shown | left == set(range(1, 29))
    assert not shown & left
    assert {"Table 1", "Table 2", "Classic data sets"} <= {
        entry["item"] for entry in about["shown"]
    }


def test_files_exist_and_are_small(about, folder):
    for entry in about["shown"]:
        assert 0 < (folder / entry["file"]).stat().st_size < 200_000
