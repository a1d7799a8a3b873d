"""Kernels that make cells of k distinct persons, called directly."""

import numpy as np
import pytest

from microcell.kernels.mdav import (
    EXHAUSTED,
    FIRST,
    SHORT,
    grow_cells_of_persons,
    make_people,
    make_running,
)
from microcell.kernels.scans import lay_out, make_scratch
from microcell.kernels.univariate import best_cuts, best_cuts_of_persons
from tests.reference import oracles


def grow(X, persons, k, reach):
    points, people = lay_out(X), make_people(persons)
    labels, state = np.full(len(X), -1), np.array([0, FIRST])
    stopped = grow_cells_of_persons(
        points,
        people,
        k,
        len(X),
        state,
        labels,
        make_running(X, np.ones(len(X))),
        make_scratch(reach, 1),
    )
    return stopped, labels, int(people.remaining[0])


def test_cells_of_persons_match_the_oracle():
    rng = np.random.default_rng(0)
    X, persons = rng.normal(size=(50, 2)), rng.integers(0, 20, 50)
    persons = np.unique(persons, return_inverse=True)[1]
    stopped, labels, remaining = grow(X, persons, 3, 50)
    assert (stopped, remaining) == (EXHAUSTED, 0)
    np.testing.assert_array_equal(labels, oracles.mdav_of_persons(X, 3, persons))


def test_too_small_a_reach_is_reported_and_changes_nothing():
    X = np.arange(12.0)[:, None]
    persons = np.repeat([0, 1, 2], 4)
    stopped, labels, remaining = grow(X, persons, 2, 2)
    assert (stopped, remaining) == (SHORT, 3)
    assert (labels == -1).all()


@pytest.mark.parametrize("k", [1, 2, 3])
def test_cuts_of_one_row_per_person_are_the_usual_ones(k):
    x = np.sort(np.random.default_rng(k).normal(size=20))
    expected = best_cuts(x, np.ones(20), k)
    np.testing.assert_array_equal(
        best_cuts_of_persons(x, np.ones(20), np.arange(20), k)[k:], expected[k:]
    )
