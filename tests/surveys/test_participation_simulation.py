"""The simulation: within three standard errors of the exact figures, the same for a seed, bounded in memory."""

import numpy as np
import pytest

from microcell.errors import DataError, OptionError
from microcell.surveys import participation as simulation
from microcell.surveys.participation import (
    cell_failures,
    effective_anonymity,
    simulate_participation,
    table_failure,
)


def near(estimate, exact):
    return abs(estimate.value - exact) <= 3 * estimate.error


def test_table_two_by_simulation():
    found, exact = (
        simulate_participation([0.5] * 48, 20, trials=100_000),
        effective_anonymity(20, 0.5, 0.1),
    )
    for name in ("cell_failure", "unprotected", "record_failure", "participant_failure"):
        assert near(getattr(found, name), getattr(exact, name))
        assert getattr(found, name).value == pytest.approx(getattr(exact, name), rel=0.01)
    assert near(found.table_failure, exact.cell_failure)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_uneven_cells(seed):
    chance = np.random.default_rng(100)
    sizes = (7, 12, 20)
    cells = [chance.uniform(0.1, 0.9, size) for size in sizes]
    found = simulate_participation(cells, 5, trials=20_000, seed=seed)
    exact = [effective_anonymity(5, cell, 1e-290) for cell in cells]
    failures = np.array([each.cell_failure for each in exact])
    weights = np.array(sizes) / sum(sizes)
    assert near(found.cell_failure, failures.mean())
    assert near(
        found.unprotected, sum(e.cell_failure * e.unprotected for e in exact) / failures.sum()
    )
    assert near(
        found.record_failure, sum(w * e.record_failure for w, e in zip(weights, exact, strict=True))
    )
    assert near(
        found.participant_failure,
        sum(w * e.participant_failure for w, e in zip(weights, exact, strict=True)),
    )
    assert near(found.table_failure, table_failure(failures))
    assert (found.cells, found.candidates, found.k, found.trials) == (3, 39, 5, 20_000)


def test_standard_errors_are_those_of_a_proportion():
    found = simulate_participation([0.5] * 48, 20, trials=10_000)
    rate = found.cell_failure.value
    assert found.cell_failure.error == pytest.approx(np.sqrt(rate * (1 - rate) / 10_000), rel=1e-3)


def test_forms_of_a_design_agree():
    cells = np.random.default_rng(1).uniform(0.2, 0.8, (4, 9))
    expected = simulate_participation(cells, 4, trials=500, seed=3)
    labels = np.repeat([5, 6, 8, 9], 9)
    assert simulate_participation([list(cell) for cell in cells], 4, trials=500, seed=3) == expected
    assert simulate_participation(cells.ravel(), 4, labels=labels, trials=500, seed=3) == expected
    assert simulate_participation(cells, 4, trials=500, seed=4) != expected


def test_labels_in_any_order():
    chance = np.random.default_rng(5)
    labels, participation = chance.integers(0, 6, 90), chance.uniform(0.1, 0.6, 90)
    found = simulate_participation(participation, 4, labels=labels, trials=20_000)
    assert near(found.cell_failure, cell_failures(labels, participation, 4).mean())


def test_draws_in_pieces_change_nothing(monkeypatch):
    cells = np.random.default_rng(1).uniform(0.2, 0.8, (4, 9))
    expected = simulate_participation(cells, 4, trials=300)
    for draws in (1, 36, 100):
        monkeypatch.setattr(simulation, "_DRAWS", draws)
        assert simulate_participation(cells, 4, trials=300) == expected


def test_no_failure_seen():
    found = simulate_participation([1.0] * 5, 3, trials=10)
    assert found.cell_failure.value == found.record_failure.value == found.table_failure.value == 0
    assert np.isnan(found.unprotected.value)


def test_refusals():
    for wrong in (
        0.5,
        "0.5",
        None,
        [],
        [[]],
        [0.5, 2.0],
        [[0.5], [0.0]],
        np.zeros((2, 0)),
        np.ones((1, 1, 1)),
    ):
        with pytest.raises(DataError, match="participation") as error:
            simulate_participation(wrong, 3, trials=10)
        assert "2.0" not in str(error.value)
    for options in (
        {"trials": 1},
        {"trials": 2.5},
        {"trials": 10, "seed": -1},
        {"trials": 10, "labels": [0]},
    ):
        with pytest.raises(OptionError):
            simulate_participation([0.5, 0.5], 3, **options)
    with pytest.raises(OptionError, match="k must be"):
        simulate_participation([0.5, 0.5], 1, trials=10)
