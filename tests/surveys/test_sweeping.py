"""Sweeps over k, participation and failure share partitions and agree with the exact sizes."""

import numpy as np
import pytest

import microcell as mc
from microcell.errors import OptionError

SCHEMA = mc.Schema(quasi=["age", "height"], rest="drop")
RNG = np.random.default_rng(0)
PEOPLE = {"age": RNG.integers(18, 90, 150), "height": RNG.normal(170, 9, 150)}


@pytest.fixture(scope="module")
def result():
    return mc.surveys.sweep(
        PEOPLE, SCHEMA, k=[2, 3, 40], participation=[0.6, 0.8], failure=[0.05, 0.01], effort="fast"
    )


def test_points_have_the_exact_sizes_and_meet_the_limit(result):
    assert len(result.points) == 12
    for each in result.points:
        exact = mc.surveys.effective_anonymity(each.k, each.participation, each.failure)
        assert each.size == exact.size
        if each.size > 150:
            assert each.information_loss is None
        else:
            assert each.worst_failure <= each.failure
            assert each.cells <= 150 // each.size
    sizes = {each.size for each in (*result.points, *result.certain) if each.size <= 150}
    assert result.designs == len(sizes)


def test_losses_are_those_of_partitions(result):
    point = result.points[0]
    points = np.column_stack([PEOPLE["age"], PEOPLE["height"]])
    points = (points - points.mean(axis=0)) / points.std(axis=0)
    partition = mc.partition(points, point.size, method="auto", effort="fast")
    assert point.information_loss == pytest.approx(mc.distortion(points, partition), rel=0.15)


def test_the_picture_has_a_line_per_participation_and_failure(result):
    svg = mc.plot.survey_sweep(result).decode()
    assert "60 % take part, failure 0.05" in svg
    assert "certain participation" in svg


@pytest.mark.parametrize("change", [{"k": []}, {"failure_of": "table"}, {"effort": "endless"}])
def test_invalid_sweeps(change):
    with pytest.raises(OptionError):
        mc.surveys.sweep(PEOPLE, SCHEMA, **change)
