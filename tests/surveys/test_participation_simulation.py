"""Simulation: within three standard errors of exact results, reproducible, bounded memory."""

import numpy as np
import pytest

from microcell.errors import DataError, OptionError
from microcell.surveys import participation as simulation
from microcell.surveys.participation import (
    cell_failures,
    simulate_participation,
    table_failure,
)
from microcell.surveys.sizes import effective_anonymity
from tests.raising import raises


def is_near(estimate, exact):
    return abs(estimate.value - exact) <= 3 * estimate.error


def test_simulation_reproduces_table_two():
    result, exact = (
        simulate_participation([0.5] * 48, 20, trials=100_000),
        effective_anonymity(20, 0.5, 0.1),
    )
    for name in ("cell_failure", "unprotected", "record_failure", "participant_failure"):
        assert is_near(getattr(result, name), getattr(exact, name))
        assert getattr(result, name).value == pytest.approx(getattr(exact, name), rel=0.01)
    assert is_near(result.table_failure, exact.cell_failure)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cells_with_uneven_participation(seed):
    rng = np.random.default_rng(100)
    sizes = (7, 12, 20)
    cells = [rng.uniform(0.1, 0.9, size) for size in sizes]
    result = simulate_participation(cells, 5, trials=20_000, seed=seed)
    exact = [effective_anonymity(5, cell, 1e-290) for cell in cells]
    failures = np.array([each.cell_failure for each in exact])
    weights = np.array(sizes) / sum(sizes)
    assert is_near(result.cell_failure, failures.mean())
    assert is_near(
        result.unprotected, sum(e.cell_failure * e.unprotected for e in exact) / failures.sum()
    )
    assert is_near(
        result.record_failure,
        sum(w * e.record_failure for w, e in zip(weights, exact, strict=True)),
    )
    assert is_near(
        result.participant_failure,
        sum(w * e.participant_failure for w, e in zip(weights, exact, strict=True)),
    )
    assert is_near(result.table_failure, table_failure(failures))
    assert (result.cells, result.candidates, result.k, result.trials) == (3, 39, 5, 20_000)


def test_standard_error_of_a_proportion():
    result = simulate_participation([0.5] * 48, 20, trials=10_000)
    rate = result.cell_failure.value
    assert result.cell_failure.error == pytest.approx(np.sqrt(rate * (1 - rate) / 10_000), rel=1e-3)


def test_all_input_formats_agree():
    cells = np.random.default_rng(1).uniform(0.2, 0.8, (4, 9))
    expected = simulate_participation(cells, 4, trials=500, seed=3)
    labels = np.repeat([5, 6, 8, 9], 9)
    assert simulate_participation([list(cell) for cell in cells], 4, trials=500, seed=3) == expected
    assert simulate_participation(cells.ravel(), 4, labels=labels, trials=500, seed=3) == expected
    assert simulate_participation(cells, 4, trials=500, seed=4) != expected


def test_labels_in_any_order():
    rng = np.random.default_rng(5)
    labels, participation = rng.integers(0, 6, 90), rng.uniform(0.1, 0.6, 90)
    result = simulate_participation(participation, 4, labels=labels, trials=20_000)
    assert is_near(result.cell_failure, cell_failures(labels, participation, 4).mean())


def test_batch_size_does_not_change_the_result(monkeypatch):
    cells = np.random.default_rng(1).uniform(0.2, 0.8, (4, 9))
    expected = simulate_participation(cells, 4, trials=300)
    for draws in (1, 36, 100):
        monkeypatch.setattr(simulation, "_DRAWS", draws)
        assert simulate_participation(cells, 4, trials=300) == expected


def test_no_failure_in_any_trial():
    result = simulate_participation([1.0] * 5, 3, trials=10)
    assert (
        result.cell_failure.value == result.record_failure.value == result.table_failure.value == 0
    )
    assert np.isnan(result.unprotected.value)


def test_invalid_arguments():
    for invalid in (
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
        with pytest.raises(DataError) as caught:
            simulate_participation(invalid, 3, trials=10)
        assert "2.0" not in str(caught.value)
    for options in (
        {"trials": 1},
        {"trials": 2.5},
        {"trials": 10, "seed": -1},
        {"trials": 10, "labels": [0]},
    ):
        with pytest.raises(OptionError) as caught:
            simulate_participation([0.5, 0.5], 3, **options)
        assert caught.value.details["option"] in options
    with raises(OptionError, "option.out_of_range", option="k"):
        simulate_participation([0.5, 0.5], 1, trials=10)
