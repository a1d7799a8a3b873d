"""PCL from initial centroids and costs reproduces earlier cells and rejects invalid costs."""

import numpy as np
import pytest

import microcell as mc
from microcell.errors import DataError, OptionError
from tests.raising import raises


@pytest.fixture(scope="module")
def before():
    X = np.random.default_rng(0).normal(size=(400, 2)) ** 3
    return X, mc.pcl(X, 20)


def test_one_run_can_start_from_the_result_of_another(before):
    X, result = before
    again = mc.pcl(
        X, 20, start=result.cells.centroids, costs=result.cells.costs, shakes=0, iterations=1
    )
    assert (again.labels == result.labels).all()


def test_costs_are_a_start_and_not_a_constraint(before):
    X, result = before
    odd = np.random.default_rng(1).normal(size=20) * 100
    again = mc.pcl(X, 20, start=result.cells.centroids, costs=odd, shakes=0)
    assert (again.partition.sizes == 20).all()
    assert mc.distortion(X, again.labels) < 1.5 * mc.distortion(X, result.labels)


def test_costs_without_centroids_are_rejected(before):
    with raises(OptionError, "option.conflict", option="costs"):
        mc.pcl(before[0], 20, costs=np.zeros(20))


def test_invalid_costs_are_rejected(before):
    X, result = before
    for costs in (np.zeros(19), np.zeros((20, 1)), 3.0):
        with raises(OptionError, "option.invalid", option="costs"):
            mc.pcl(X, 20, start=result.cells.centroids, costs=costs)
    for costs in (np.full(20, np.nan), np.full(20, np.inf), np.full(20, 1e200)):
        with raises(DataError, "data.not_finite", option="costs"):
            mc.pcl(X, 20, start=result.cells.centroids, costs=costs)
    with raises(DataError, "data.not_a_number"):
        mc.pcl(X, 20, start=result.cells.centroids, costs=["a"] * 20)
