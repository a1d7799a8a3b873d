"""The failure of cells given that somebody takes part, and designs that limit it."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.errors import OptionError
from microcell.kernels.participation import (
    exposure,
    exposures_along,
    exposures_of_cells,
    protecting_size,
)
from tests.raising import raises

K, LIMIT = 5, 1e-4
SCHEMA = mc.Schema(quasi=["x", "y"], rest="drop")


def exposure_by_enumeration(probabilities, k):
    """Return the failure given that somebody takes part, or a certain member, if that is larger."""
    fails = somebody = 0.0
    with_member = np.zeros(len(probabilities))
    for takes_part in product([False, True], repeat=len(probabilities)):
        each = np.where(takes_part, probabilities, 1 - probabilities)
        size = sum(takes_part)
        somebody += each.prod() * (size > 0)
        fails += each.prod() * (0 < size < k)
        with_member += np.array(takes_part) * each.prod() * (size < k)
    return max(fails / somebody, (with_member / probabilities).max())


PROBABILITIES = st.lists(st.floats(0.001, 1.0), min_size=1, max_size=7)


@given(PROBABILITIES, st.integers(2, 4))
def test_against_enumeration(probabilities, k):
    array = np.array(probabilities)
    expected = exposure_by_enumeration(array, k)
    zeros = np.zeros(len(array), dtype=np.int64)
    assert exposures_of_cells(zeros, array, k)[0] == pytest.approx(expected, rel=1e-9)
    assert exposures_along(array, k)[-1] == pytest.approx(expected, rel=1e-9)
    assert (np.diff(exposures_along(array, k)[1:]) <= 1e-12).all()  # more candidates only help


def test_cells_are_told_apart_and_empty_ones_cannot_fail():
    labels, probabilities = np.array([2, 0, 0, 2, 2]), np.array([0.5, 0.2, 0.9, 0.5, 0.5])
    each = exposures_of_cells(labels, probabilities, 2)
    assert each[0] == pytest.approx(exposure_by_enumeration(probabilities[labels == 0], 2))
    assert each[1] == 0
    assert each[2] == pytest.approx(exposure(3, 2, 0.5))


@pytest.mark.parametrize(("k", "participation", "limit"), [(5, 0.5, 1e-3), (2, 1.0, 0.1)])
def test_the_size_for_everybody_alike_is_the_smallest(k, participation, limit):
    n = protecting_size(k, participation, limit)
    assert exposure(n, k, participation) <= limit
    assert n == k or exposure(n - 1, k, participation) > limit


@pytest.fixture(scope="module")
def frame():
    """Return candidates half of whom hardly ever take part, in a region of their own."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 700))
    return {"x": x, "y": y, "p": np.where(x > 0.2, 1e-6, 0.8)}


def test_the_limit_of_the_paper_lets_participants_be_exposed(frame):
    design = mc.surveys.design(frame, SCHEMA, K, "p", LIMIT, failure_of="cell", cells="balls")
    assert design.failures.worst <= LIMIT
    assert design.failures.worst_conditional > 0.9
    stated = {item.name: item.message for item in mc.surveys.check(design.cells).findings}
    assert f"{design.failures.worst_conditional:.4g} given" in stated["limit"]


@pytest.mark.parametrize("kind", ["power", "balls", "lookup", "boxes", None])
def test_participants_are_protected_by_default(frame, kind, tmp_path):
    options = {"trust": "none"} if kind == "boxes" else {"cells": kind}
    design = mc.surveys.design(frame, SCHEMA, K, "p", LIMIT, **options)
    expected = np.bincount(design.labels, weights=frame["p"])
    assert design.manifest.failure_of == "participant"
    assert expected.min() >= K
    assert design.failures.worst_conditional <= LIMIT
    assert design.failures.participant_failure <= LIMIT
    assert mc.surveys.check(design.cells, frame, participation="p").holds
    assert design.manifest.cells.conditional_failure.largest == design.failures.worst_conditional


def test_the_better_kind_of_cells_is_chosen(frame):
    losses = {
        kind: mc.surveys.design(
            frame, SCHEMA, K, "p", LIMIT, cells=kind
        ).manifest.expected_information_loss
        for kind in ("power", "balls", None)
    }
    assert losses[None] == min(losses["power"], losses["balls"])


def test_a_common_probability_allows_both_limits(frame):
    paper = mc.surveys.design(frame, SCHEMA, 3, 0.1, 0.3, method="mdav")
    strict = mc.surveys.design(frame, SCHEMA, 3, 0.1, 0.3, method="mdav", failure_of="participant")
    assert paper.manifest.failure_of == "cell"
    assert paper.failures.worst <= 0.3 < paper.failures.worst_conditional
    assert strict.failures.worst_conditional <= 0.3
    assert mc.surveys.check(strict.cells).holds


def test_altered_statements_are_noticed(frame):
    cells = mc.surveys.design(frame, SCHEMA, K, "p", LIMIT, cells="balls").cells
    assert mc.surveys.check(cells).holds
    halved = [value / 2 for value in cells.survey["conditional_failures"]]
    wrong = replace(cells, survey={**cells.survey, "conditional_failures": halved})
    failed = [item.name for item in mc.surveys.check(wrong).findings if not item.holds]
    assert failed == ["conditional failures"]
    tight = replace(cells, survey={**cells.survey, "failure": LIMIT / 1e6})
    assert not mc.surveys.check(tight).holds


def test_unknown_limits_are_refused(frame):
    with raises(OptionError, "option.unknown", option="failure_of"):
        mc.surveys.design(frame, SCHEMA, K, "p", LIMIT, failure_of="table")
