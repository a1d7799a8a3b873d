"""The paper on preserving dependence (quick profile): claims hold and every item is present."""

import csv
import re

import numpy as np
import pytest
from experiments import _sweeps, dependence
from experiments._findings import read_study
from experiments._profiles import has_classics

import microcell as mc

ITEMS = {5, 8, 9, 10, 11, 12, 13, 14}
"""The figures that show a result."""


@pytest.fixture(scope="module")
def actual(tmp_path_factory):
    if not has_classics():
        pytest.skip("the classic data sets are not here: set MICROCELL_DATA to their folder")
    folder = tmp_path_factory.mktemp("dependence")
    dependence.study("quick").write(folder)
    return folder, read_study(folder)


def rows(folder, name):
    with (folder / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def findings(about, item):
    return [finding for finding in about["findings"] if finding["item"] == item]


def test_every_figure_is_reproduced_or_listed_as_omitted(actual):
    _, about = actual
    shown = {
        int(number) for item in about["findings"] for number in re.findall(r"\d+", item["item"])
    }
    left_out = {int(item.removeprefix("Fig. ")) for item in dependence.LEFT_OUT}
    assert shown == ITEMS
    assert shown | left_out == set(range(1, 15))
    assert not shown & left_out


def test_every_result_figure_has_a_picture_and_a_table(actual):
    folder, about = actual
    pictures = " ".join(item["item"] for item in about["shown"] if item["file"].endswith(".svg"))
    assert {int(number) for number in re.findall(r"\d+", pictures)} == ITEMS - {5}
    for item in about["shown"]:
        assert (folder / item["file"]).stat().st_size < 200_000


def test_output_files_are_reproducible(actual, tmp_path):
    study = dependence.Study("dependence", "", "quick")
    dependence.nonlinear_prediction(study)
    dependence.blocks_and_disclosure(study)
    study.write(tmp_path)
    folder, _ = actual
    for name in ("blocks.svg", "blocks.csv"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize("item", ["Fig. 5", "Fig. 8", "Fig. 9", "Fig. 10", "Fig. 12", "Fig. 14"])
def test_claims_hold(actual, item):
    listed = findings(actual[1], item)
    assert listed
    assert [finding["what"] for finding in listed if finding["verdict"] == "differs"] == []


def test_the_order_of_distortions_at_both_ends(actual):
    table = rows(actual[0], "sweeps.csv")
    assert {row["data"] for row in table} == {"Gaussian 0.5", "Gaussian 0.9", "Census", "Tarragona"}
    for row in table:
        if row["lambda"] == "0":
            assert float(row["D_X"]) <= float(row["D_Y"])
        if row["lambda"] == "1":
            assert float(row["D_Y"]) <= float(row["D_X"])


def test_a_small_weight_gains_more_than_it_costs_for_small_k(actual):
    table = rows(actual[0], "sweeps.csv")
    early = {row["data"]: row for row in table if row["lambda"] == "0.1" and row["k"] == "5"}
    assert set(early) == {"Census", "Tarragona"}
    for row in early.values():
        assert -float(row["D_Y_change"]) > float(row["D_X_change"]) > 0


def test_diversity_hardly_falls_for_small_weights(actual):
    table = [row for row in rows(actual[0], "sweeps.csv") if row["data"] in ("Census", "Tarragona")]
    plain = {(row["data"], row["k"]): float(row["l_avg"]) for row in table if row["lambda"] == "0"}
    for row in table:
        if row["lambda"] == "0.1":
            assert float(row["l_avg"]) > 0.85 * plain[row["data"], row["k"]]


def test_blocks_halve_the_distortion_and_disclose(actual):
    plain = {row["b"]: row for row in rows(actual[0], "blocks.csv") if row["lambda"] == "0"}
    lost = {b: float(row["D_X"]) for b, row in plain.items()}
    linked = {b: float(row["DLD"]) for b, row in plain.items()}
    assert lost["3"] < 0.55 * lost["6"]
    assert lost["2"] < 0.55 * lost["3"]
    assert 0.08 < linked["6"] <= 0.1
    assert linked["2"] > 0.9
    assert (int(plain["6"]["found_k"]), int(plain["2"]["found_k"])) == (10, 1)


def test_our_search_beats_mdav_at_every_weight(actual):
    for row in rows(actual[0], "better_cells.csv"):
        assert float(row["D_auto"]) < float(row["D_mdav"])


def test_sweeps_match_plain_distortions():
    points = _sweeps.gaussian_pairs(0.5, 400)
    actual = _sweeps.sweep(points, 1, k=20, lambdas=[0], method="mdav")
    x, y = ((column - column.mean()) / column.std() for column in points.T)
    labels = mc.partition(x[:, None], 20, method="mdav").labels

    def plain(values):
        return (
            sum(
                ((values[labels == cell] - values[labels == cell].mean()) ** 2).sum()
                for cell in set(labels)
            )
            / 400
        )

    point = _sweeps.at(actual.points, 20, 0)
    assert point.distortion == pytest.approx(plain(x))
    assert point.dependence_loss == pytest.approx(plain(y))
    assert np.corrcoef(x, y)[0, 1] == pytest.approx(0.5, abs=0.1)
