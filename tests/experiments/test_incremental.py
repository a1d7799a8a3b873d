"""The paper on increments (quick profile): claims on distortion and planning; no timings."""

import csv
import re

import numpy as np
import pytest
from experiments import _increments, incremental
from experiments._findings import read_study
from experiments._increments import GAUSSIAN, SUBSTITUTE, crossing
from experiments._profiles import classic, has_classics

import microcell as mc

FIGURES = {
    "1.2",
    *(f"4.{i}" for i in range(1, 6)),
    *(f"5.{i}" for i in range(1, 11)),
    "6.1",
    "6.2",
    "6.3",
}
NUMBERS = r"\d+\.\d+"


@pytest.fixture(scope="module")
def actual(tmp_path_factory):
    if not has_classics():
        pytest.skip("the classic data sets are not here: set MICROCELL_DATA to their folder")
    folder = tmp_path_factory.mktemp("incremental")
    incremental.study("quick").write(folder)
    return folder, read_study(folder)


@pytest.fixture(scope="module")
def increments(actual):
    with (actual[0] / "increments.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def deltas(rows, **wanted):
    """delta by nu of the rows that have what is wanted."""
    kept = [row for row in rows if all(row[name] == str(value) for name, value in wanted.items())]
    return {float(row["nu"]): float(row["delta"]) for row in kept}


def test_every_figure_and_table_is_reproduced_or_listed_as_omitted(actual):
    _, about = actual
    shown = {number for item in about["findings"] for number in re.findall(NUMBERS, item["item"])}
    assert shown == FIGURES | {"5.2"}
    left_out = set(incremental.LEFT_OUT)
    assert left_out == {"Fig. 1.1", "Fig. 3.1", "Fig. 3.2", "Fig. 3.3", "Table 4.1", "Table 5.1"}
    assert any(item["item"] == "Table 5.2" for item in about["findings"])


def test_files_exist_and_are_small(actual):
    folder, about = actual
    assert len([item for item in about["shown"] if item["file"].endswith(".svg")]) >= 11
    for item in about["shown"]:
        assert (folder / item["file"]).stat().st_size < 200_000


@pytest.mark.parametrize("item", ["Fig. 1.2", *(f"Fig. 4.{i}" for i in range(1, 6)), "Fig. 6.1"])
def test_planning_is_reproduced(actual, item):
    listed = [finding for finding in actual[1]["findings"] if finding["item"] == item]
    assert listed
    assert {finding["verdict"] for finding in listed} == {"reproduced"}


def test_the_worked_example_to_the_second(actual):
    ours = {(f["item"], f["what"]): f["ours"] for f in actual[1]["findings"]}
    assert ours["Fig. 6.1", "finished after the end"] == "2 min 33 s"
    assert ours["Fig. 6.1", "share of records received at the start"] == "85.4 %"
    assert ours["Fig. 1.2", "the same: increment"] == "1 min 12 s"
    assert ours["Fig. 6.2", "share of records received at the start"] == "92.7 %"
    assert ours["Fig. 6.2", "sigma = 5, one hour allowed (tau_end = 0.5): nu_end"] == "7.3 %"
    assert ours["Fig. 6.2", "finished after the end"] == "1 h"


def test_every_time_of_the_reference_table_is_present(actual):
    theirs = {f["theirs"] for f in actual[1]["findings"] if f["item"] == "Table 5.2"}
    printed = "22.41 33.05 46.12 2.23 3.38 3.32 16.82 24.22 40.53 1.71 2.49 4.09"
    assert theirs >= {f"{seconds} s" for seconds in printed.split()}


def test_distortion_added_for_a_tenth_of_the_records(increments):
    gaussian = {"data": GAUSSIAN, "m": 15, "k": 10, "inertial": False}
    assert deltas(increments, **gaussian, strategy="separate")[0.1] == pytest.approx(
        0.05, abs=0.015
    )
    assert deltas(increments, **gaussian, strategy="split-late")[0.1] == pytest.approx(
        0.02, abs=0.01
    )


def test_distortion_added_falls_with_the_dimensions(increments):
    for data, dimensions in ((GAUSSIAN, (5, 10, 15)), (SUBSTITUTE, (3, 6, 13))):
        added = [
            deltas(increments, data=data, m=m, k=10, strategy="separate")[0.1] for m in dimensions
        ]
        assert added == sorted(added, reverse=True)


def test_nearest_alone_degrades_and_splitting_repairs_it(increments):
    for data, m in ((GAUSSIAN, 15), (SUBSTITUTE, 13)):
        for k in (10, 100):
            alone = deltas(increments, data=data, m=m, k=k, strategy="nearest")
            late = deltas(increments, data=data, m=m, k=k, strategy="split-late", inertial=False)
            assert list(alone.values()) == sorted(alone.values())
            assert alone[0.9] > 2 * late[0.9]


def test_inertia_hardly_matters(increments):
    for data, m in ((GAUSSIAN, 15), (SUBSTITUTE, 13)):
        plain, moved = (
            deltas(increments, data=data, m=m, k=10, strategy="split-late", inertial=flag)
            for flag in (False, True)
        )
        assert abs(plain[0.1] - moved[0.1]) < 0.01


def test_refined_has_less_distortion_than_every_strategy_of_the_paper(increments):
    for data, m in ((GAUSSIAN, 15), (SUBSTITUTE, 13)):
        ours = deltas(increments, data=data, m=m, k=10, strategy="refined")
        assert set(ours) == {0.1, 0.5, 0.9}
        for strategy in ("separate", "nearest", "split-early", "split-late"):
            theirs = deltas(increments, data=data, m=m, k=10, strategy=strategy, inertial=False)
            assert all(ours[nu] < theirs[nu] for nu in ours)


def test_measured_distortions_match_the_public_function():
    points = _increments.gaussian(600, 3)
    ways = [("separate", False), ("nearest", False), ("split-late", True)]
    for run in _increments.measure(points, 5, {0.2: ways}):
        same = mc.increments.measure_increment(
            points, 5, nu=0.2, strategy=run.strategy, inertial=run.inertial
        )
        assert run.delta == pytest.approx(same.delta, rel=1e-9)


def test_repeats_keep_distortions_and_the_shortest_times():
    run = mc.increments.Increment("nearest", False, 0.1, 4.0, 3.0, 2.0, 0.1, 0.2)
    other = mc.increments.Increment("nearest", False, 0.1, 5.0, 2.5, 1.0, 0.1, 0.2)
    elsewhere = mc.increments.Increment("nearest", False, 0.2, 3.5, 0.1, 0.1, 0.1, 0.3)
    least = _increments._least(run, [[other, elsewhere]])
    assert (least.whole, least.base, least.added, least.distortion) == (3.5, 2.5, 1.0, 0.2)


def test_the_substitute_has_the_margins_and_the_dependence_of_census(data_folder):
    census, drawn = classic("census"), _increments.enlarged_census(20_000)
    assert drawn.shape == (20_000, 13)
    assert (drawn.min(axis=0) >= census.min(axis=0)).all()
    assert (drawn.max(axis=0) <= census.max(axis=0)).all()
    deviations = census.std(axis=0)
    assert np.abs((drawn.mean(axis=0) - census.mean(axis=0)) / deviations).max() < 0.05
    assert np.abs(np.corrcoef(drawn.T) - np.corrcoef(census.T)).max() < 0.25
    assert np.array_equal(drawn, _increments.enlarged_census(20_000))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [([1, 2, 3], [2, 3, 4], None), ([2, 3, 4], [1, 1, 1], 0.1), ([0, 1, 4], [1, 2, 3], 0.25)],
)
def test_crossing(before, after, expected):
    assert crossing([0.1, 0.2, 0.3], before, after) == (
        None if expected is None else pytest.approx(expected)
    )
