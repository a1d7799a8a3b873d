"""What a survey is expected to give, as assumed and as feared, against slow references."""

from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import beta

import microcell as mc
from microcell.errors import DataError, SchemaError
from microcell.kernels.participation import (
    beta_quantiles,
    conditional_participation,
    correlated_count,
    correlated_exposure,
    exposures_of_cells,
)
from tests.surveys.candidates import failure_of

SCHEMA = mc.Schema(quasi=["age"], rest="drop")


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    return {
        "age": np.arange(400) % 71 + 18,
        "household": np.arange(400) // 4,
        "probability": rng.choice([0.5, 0.7], 400),
    }


@pytest.fixture(scope="module")
def design(people):
    return mc.surveys.design(people, SCHEMA, 4, 0.5, 1e-2, method="mdav")


def mixed(n, counts, q, correlation):
    """P{K in counts} by integrating the binomial over the beta distribution."""
    a, b = q * (1 / correlation - 1), (1 - q) * (1 / correlation - 1)

    def density(p):
        chance = sum(comb(n, j) * p**j * (1 - p) ** (n - j) for j in counts)
        return chance * p ** (a - 1) * (1 - p) ** (b - 1) / beta(a, b)

    return quad(density, 0, 1, limit=200)[0]


@pytest.mark.parametrize("n, k, q, correlation", [(12, 4, 0.6, 0.1), (9, 3, 0.3, 0.2)])
def test_correlated_counts_are_mixtures_of_binomials(n, k, q, correlation):
    result = correlated_count(n, k, q, correlation)
    assert result.failure == pytest.approx(mixed(n, range(1, k), q, correlation))
    assert result.nobody == pytest.approx(mixed(n, [0], q, correlation))
    moment = sum(j * mixed(n, [j], q, correlation) for j in range(1, k))
    assert result.moment == pytest.approx(moment)
    assert result.participant_failure == pytest.approx(moment / (n * q))


def test_without_correlation_levels_are_the_probabilities():
    q = np.array([0.2, 0.9, 1.0])
    assert beta_quantiles(np.array([0.3]), q, 0.0).tolist() == q.tolist()
    assert beta_quantiles(np.array([0.3]), q, 1.0).tolist() == [0.0, 1.0, 1.0]
    assert correlated_exposure(9, 3, 0.4, 1e-9) == pytest.approx(
        correlated_exposure(9, 3, 0.4, 0.0), rel=1e-5
    )


def test_independent_prospects_are_exact(design):
    outlook = mc.surveys.simulate(design.cells, rates=[0.3])
    assumed, feared = outlook.prospects
    assert assumed.table_failure.value == pytest.approx(design.failures.table_failure)
    sizes = design.cells.sizes.tolist()
    failures = [failure_of([0.3] * size, 4) for size in sizes]
    assert feared.cell_failure.value == pytest.approx(np.mean(failures))
    assert feared.exact
    assert feared.participants.value == pytest.approx(0.3 * 400)
    chebyshev = max(
        min(1.0, size * 0.21 / max(size * 0.3 - 3, 1e-9) ** 2) if size * 0.3 > 3 else 1.0
        for size in sizes
    )
    assert feared.chebyshev == pytest.approx(chebyshev)


def test_simulation_agrees_with_the_exact_numbers(design, people):
    """Groups that are the cells must give the beta-binomial numbers."""
    frame = {**people, "cell of": design.labels}
    outlook = mc.surveys.simulate(
        design.cells, correlation=0.1, frame=frame, groups=["cell of"], trials=3000
    )
    exact = mc.surveys.simulate(design.cells, correlation=0.1, frame=people).prospects[1]
    drawn = outlook.prospects[1]
    assert exact.exact
    assert not drawn.exact
    assert drawn.groups == len(design.cells)
    for name in ("table_failure", "cell_failure", "participants", "released", "cells_released"):
        estimate = getattr(drawn, name)
        assert abs(estimate.value - getattr(exact, name).value) < 4 * estimate.error, name
    assert drawn.information_loss == pytest.approx(exact.information_loss, rel=0.02)
    assert drawn.chebyshev == pytest.approx(exact.chebyshev)


def test_odds_move_together_if_participation_is_uneven(people):
    design = mc.surveys.design(people, SCHEMA, 4, "probability", 1e-2)
    outlook = mc.surveys.simulate(design.cells, rates=[0.4], correlation=1.0, trials=50)
    assert [round(item.participation, 3) for item in outlook.prospects] == [
        round(people["probability"].mean(), 3),
        0.4,
        round(people["probability"].mean(), 3),
    ]
    assert not outlook.prospects[2].exact


@pytest.mark.parametrize(
    "options, code",
    [
        ({"groups": ["household"]}, "option.missing"),
        ({"groups": "household"}, "option.wrong_type"),
        ({"correlation": 2}, "option.out_of_range"),
        ({"participation": "probability"}, "option.missing"),
    ],
)
def test_invalid_requests(design, options, code):
    with pytest.raises(mc.MicrocellError) as caught:
        mc.surveys.simulate(design.cells, **options)
    assert caught.value.code == code


def test_another_frame_is_refused(design, people):
    with pytest.raises(DataError):
        mc.surveys.simulate(design.cells, frame={**people, "age": people["age"] + 1})


def test_the_picture_names_each_assumption(design):
    outlook = mc.surveys.simulate(design.cells, rates=[0.3], correlation=0.1)
    svg = mc.plot.survey_outlook(outlook).decode()
    assert all(item.name in svg for item in outlook.prospects)
    assert len(outlook.to_frame()) == 3


def test_participation_given_the_number_of_participants():
    q = np.array([0.2, 0.9, 0.5, 0.7])
    for t in range(5):
        weights, total = np.zeros(4), 0.0
        for each in product([0, 1], repeat=4):
            if sum(each) == t:
                chance = np.prod(np.where(each, q, 1 - q))
                weights, total = weights + chance * np.array(each), total + chance
        assert conditional_participation(q, t) == pytest.approx(weights / total)
    equal = conditional_participation(np.full(5000, 0.3), 7)
    assert equal == pytest.approx(np.full(5000, 7 / 5000))


def test_a_robust_design_holds_within_its_interval(people):
    design = mc.surveys.design(people, SCHEMA, 4, (0.4, 0.6), 1e-2, method="mdav")
    labels = design.labels.copy()
    rng = np.random.default_rng(0)
    for q in (np.full(400, 0.4), np.full(400, 0.6), rng.uniform(0.4, 0.6, 400)):
        assert exposures_of_cells(labels, q, 4).max() <= 1e-2
    assert design.manifest.participation.upper == pytest.approx(0.6)
    assert mc.surveys.check(design.cells).holds
    verdicts = {}
    for q in (0.2, 0.4, 0.5, 0.6, 0.8):
        rows = np.flatnonzero(rng.random(400) < q)
        collection = mc.surveys.collect(design.cells, {"cell": labels[rows], "x": rows})
        verdicts[q] = collection.manifest.survey.participation.refuted
    assert verdicts == {0.2: True, 0.4: False, 0.5: False, 0.6: False, 0.8: True}


def test_a_design_for_candidates_who_decide_together(people):
    design = mc.surveys.design(people, SCHEMA, 3, 0.75, 0.02, correlation=0.05, method="mdav")
    for size in design.cells.sizes.tolist():
        assert correlated_exposure(size, 3, 0.75, 0.05) <= 0.02
    assert design.manifest.participation.correlation == 0.05
    worst = mc.surveys.simulate(design.cells, correlation=0.05).prospects[1]
    assert worst.participant_failure.value <= 0.02


@pytest.mark.parametrize(
    "participation, options, code",
    [
        ((0.6, 0.4), {}, "option.out_of_range"),
        ((0.4, 0.5, 0.6), {}, "option.invalid"),
        ((0.4, 0.6), {"failure_of": "cell"}, "option.conflict"),
        (0.5, {"correlation": 1.0}, "option.out_of_range"),
        ("probability", {"correlation": 0.1}, "option.unsupported"),
        (0.5, {"correlation": 0.1, "trust": "none"}, "option.unsupported"),
        (0.5, {"correlation": 0.9}, "guarantee.too_few_records"),
    ],
)
def test_invalid_assumptions(people, participation, options, code):
    with pytest.raises(mc.MicrocellError) as caught:
        mc.surveys.design(people, SCHEMA, 4, participation, 1e-3, **options)
    assert caught.value.code == code


def test_participation_is_learned_from_invitations(people):
    rng = np.random.default_rng(1)
    age = rng.integers(18, 90, 3000)
    truth = 1 / (1 + np.exp(-(age - 54) / 15))
    past = {"age": age, "answered": rng.random(3000) < truth}
    model = mc.surveys.learn_participation(past, SCHEMA, "answered")
    low = np.array([20, 54, 85])
    middle, lower, upper = model.predict({"age": low})
    assert middle == pytest.approx(1 / (1 + np.exp(-(low - 54) / 15)), abs=0.04)
    assert (lower < middle).all()
    assert (middle < upper).all()
    assert model.loss < model.base_loss - 0.1
    assert all(abs(each.predicted - each.observed) < 0.1 for each in model.calibration)
    frame = model.add_to({"age": people["age"]})
    ends = ("participation_low", "participation_high")
    assert mc.surveys.design(frame.native, SCHEMA, 3, ends, 0.05).manifest.failure_of == (
        "participant"
    )
    with pytest.raises(SchemaError):
        model.add_to(frame.native)


@pytest.mark.parametrize(
    "answered, code",
    [
        (np.arange(30), "data.out_of_range"),
        (np.r_[np.zeros(28), 1, 1], "data.invalid"),
        (np.array(["yes"] * 30), "data.not_a_number"),
    ],
)
def test_outcomes_that_cannot_be_learned_from(answered, code):
    with pytest.raises(DataError) as caught:
        mc.surveys.learn_participation({"age": np.arange(30), "a": answered}, SCHEMA, "a")
    assert caught.value.code == code
