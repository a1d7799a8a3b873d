"""The effective anonymity: the paper's figures, digits against long arithmetic, order, and refusals."""

from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson_binom

from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.kernels.participation import count, steady_size
from microcell.surveys.participation import (
    cell_failures,
    common_table_failure,
    effective_anonymity,
    table_failure,
)
from tests.surveys import oracles

TABLE_THREE = """
10 0.75 1e-4 25  4.31e-5 8.80 1.52e-5 2.02e-5
10 0.75 1e-5 27  6.05e-6 8.82 1.98e-6 2.64e-6
10 0.75 1e-6 29  7.95e-7 8.84 2.42e-7 3.23e-7
10 0.5  1e-4 43  8.51e-5 8.69 1.72e-5 3.44e-5
10 0.5  1e-5 48  7.61e-6 8.73 1.38e-6 2.77e-6
10 0.5  1e-6 53  6.10e-7 8.77 1.01e-7 2.02e-7
50 0.75 1e-4 88  6.20e-5 48.4 3.41e-5 4.54e-5
50 0.75 1e-5 91  9.82e-6 48.4 5.22e-6 6.97e-6
50 0.75 1e-6 95  7.14e-7 48.5 3.64e-7 4.86e-7
50 0.5  1e-4 144 7.86e-5 48.1 2.62e-5 5.25e-5
50 0.5  1e-5 151 9.64e-6 48.2 3.08e-6 6.15e-6
50 0.5  1e-6 159 7.35e-7 48.3 2.23e-7 4.46e-7
"""

TABLE_FOUR = {
    (10, 10**4): (0.0171, 0.00223, 0.000273),
    (10, 10**5): (0.158, 0.0221, 0.00274),
    (10, 10**6): (0.822, 0.201, 0.027),
    (50, 10**4): (0.00692, 0.00106, 7.42e-5),
    (50, 10**5): (0.0679, 0.0107, 0.00075),
    (50, 10**6): (0.505, 0.102, 0.00748),
}

chances = st.floats(1e-3, 1.0) | st.sampled_from([1.0, 1 - 2**-53, 1e-300, 0.5])


def digits(number):
    return float(f"{number:.2e}")


def test_table_two():
    found = effective_anonymity(20, 0.5, 0.1)
    assert found.size == 48
    assert found.enough
    assert (
        f"{found.cell_failure:.5f} {found.unprotected:.2f} {found.record_failure:.5f}"
        == "0.09671 17.85 0.03597"
    )


@pytest.mark.parametrize("line", TABLE_THREE.strip().splitlines())
@pytest.mark.parametrize("even", [True, False])
def test_table_three(line, even):
    k, participation, failure, *expected = map(float, line.split())
    found = effective_anonymity(int(k), participation if even else [participation] * 200, failure)
    attained = (
        found.cell_failure,
        found.unprotected,
        found.record_failure,
        found.participant_failure,
    )
    assert (found.size, *map(digits, attained)) == tuple(expected)


@pytest.mark.parametrize("k, records", TABLE_FOUR)
def test_table_four(k, records):
    found = [
        digits(common_table_failure(k, 0.75, failure, records)) for failure in (1e-4, 1e-5, 1e-6)
    ]
    assert found == [digits(x) for x in TABLE_FOUR[k, records]]


@pytest.mark.parametrize("k", [2, 3, 20, 200])
@pytest.mark.parametrize("participation", [0.01, 0.3, 0.75, 0.99])
@pytest.mark.parametrize("failure", [0.1, 1e-5, 1e-60, 1e-300])
def test_ten_digits_for_a_common_participation(k, participation, failure):
    found = effective_anonymity(k, participation, failure)
    p = oracles.binomial(found.size, k, participation)
    assert abs(Decimal(found.cell_failure) / oracles.failure(p) - 1) < Decimal("1e-10")
    assert abs(Decimal(found.unprotected) / oracles.unprotected(p) - 1) < Decimal("1e-10")
    assert oracles.failure(p) <= Decimal(failure)
    assert found.size == k or oracles.failure(
        oracles.binomial(found.size - 1, k, participation)
    ) > Decimal(failure)


@pytest.mark.parametrize(
    "k, low, high", [(2, 0.01, 0.99), (10, 0.3, 0.9), (60, 0.6, 0.99), (200, 0.9, 0.99)]
)
@pytest.mark.parametrize("failure", [0.1, 1e-5, 1e-250, 1e-300])
def test_ten_digits_for_an_uneven_participation(k, low, high, failure):
    participation = np.random.default_rng(k).uniform(low, high, 1500)
    found = effective_anonymity(k, participation, failure)
    assert found.enough
    p = oracles.distribution(participation[: found.size], k)
    assert abs(Decimal(found.cell_failure) / oracles.failure(p) - 1) < Decimal("1e-10")
    assert abs(Decimal(found.unprotected) / oracles.unprotected(p) - 1) < Decimal("1e-10")
    assert oracles.failure(p) <= Decimal(failure)
    if found.size > k:
        assert oracles.failure(oracles.distribution(participation[: found.size - 1], k)) > Decimal(
            failure
        )


@pytest.mark.parametrize("k, participation", [(200, 0.01), (150, 0.99), (2, 1e-4)])
def test_long_recursions_keep_ten_digits(k, participation):
    """Both the closed terms and the recursion, candidate by candidate, far below the least float."""
    even = effective_anonymity(k, participation, 1e-300)
    uneven = effective_anonymity(k, np.full(even.size + 5, participation), 1e-300)
    assert uneven.size == even.size
    for name in ("cell_failure", "unprotected", "record_failure", "participant_failure"):
        assert getattr(uneven, name) == pytest.approx(getattr(even, name), rel=1e-10)
    assert uneven.steady == even.steady


def test_entries_far_below_the_least_float_do_not_matter():
    """Some of the ways to fail pass entries that have underflowed: they are too few to matter."""
    for first, then, k in ((20, [1e-3] * 20, 5), (30, [0.5] * 90, 20), (14, [1 - 2**-53] * 14, 12)):
        participation = [1 - 2**-53] * first + then
        exact = oracles.failure(oracles.distribution(participation, k))
        assert 1e-300 < float(exact) < 1e-150
        found = cell_failures([0] * len(participation), participation, k)[0]
        assert abs(Decimal(found) / exact - 1) < Decimal("1e-10")


@given(st.lists(chances, min_size=1, max_size=14), st.integers(2, 6), st.floats(1e-6, 0.9))
@settings(max_examples=150, deadline=None)
def test_uneven_figures_are_those_of_long_arithmetic(participation, k, failure):
    found = effective_anonymity(k, participation, failure)
    expected = oracles.least_enough(participation, k, failure)
    own = participation[: found.size]
    p = oracles.distribution(own, k)
    near = abs(oracles.failure(p) - Decimal(failure)) < Decimal(failure) * Decimal("1e-12")
    assert near or (found.size, found.enough) == (
        expected if expected > 0 else len(participation),
        expected > 0,
    )
    assert found.cell_failure == pytest.approx(float(oracles.failure(p)), rel=1e-10)
    assert found.record_failure == pytest.approx(
        float(sum(j * x for j, x in enumerate(p))) / len(own), rel=1e-10
    )
    assert found.participant_failure == pytest.approx(
        float(oracles.participant_failure(own, k)), rel=1e-10
    )
    assert 0 <= found.unprotected <= k - 1


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=12), st.integers(2, 5))
@settings(max_examples=60, deadline=None)
def test_failures_by_enumeration(participation, k):
    """Over all ways to take part."""
    total, each = 0.0, np.zeros(len(participation))
    for taking in product([0, 1], repeat=len(participation)):
        chance = np.prod([q if t else 1 - q for q, t in zip(participation, taking, strict=True)])
        if 0 < sum(taking) < k:
            total += chance
            each += chance * np.array(taking) / participation
    found = effective_anonymity(k, participation, 1e-290)
    if found.size == len(participation):
        assert found.cell_failure == pytest.approx(total, rel=1e-9, abs=1e-15)
        assert found.participant_failure == pytest.approx(each.mean(), rel=1e-9, abs=1e-15)


def test_scipy_agrees():
    participation = np.random.default_rng(0).uniform(0.05, 0.95, 60)
    terms = poisson_binom.pmf(np.arange(1, 10), participation)
    assert cell_failures(np.zeros(60, dtype=int), participation, 10)[0] == pytest.approx(
        terms.sum(), rel=1e-9
    )


@given(st.floats(1e-4, 1.0), st.integers(2, 40), st.floats(1e-12, 0.9))
@settings(deadline=None)
def test_steady_sizes_stay_within_the_limit(participation, k, failure):
    size = steady_size(k, participation, failure)
    least = effective_anonymity(k, participation, failure)
    assert size >= least.size
    assert not least.steady or size == least.size
    for n in (*range(size, size + 30), 2 * size - 1, 3 * size, 100 * size):
        assert count(n, k, participation).failure <= failure
    assert size == k or any(
        count(n, k, participation).failure > failure for n in range(max(k, size - 1), size)
    )


@given(
    st.lists(st.floats(0.001, 1.0), min_size=2, max_size=30),
    st.integers(2, 5),
    st.floats(0.001, 1.0),
)
@settings(deadline=None)
def test_a_steady_cell_never_suffers_from_one_more(participation, k, more):
    before = effective_anonymity(k, participation, 1e-290)
    if before.steady and before.size == len(participation):
        after = cell_failures([0] * (len(participation) + 1), [*participation, more], k)[0]
        assert after <= before.cell_failure * (1 + 1e-12)


def test_a_size_may_meet_the_limit_only_because_hardly_anybody_comes():
    small = effective_anonymity(10, 0.01, 0.1)
    assert (small.size, small.steady) == (10, False)
    assert count(20, 10, 0.01).failure > 0.1
    assert steady_size(10, 0.01, 0.1) > 1000


def test_all_taking_part_needs_k():
    for participation in (1.0, 1, np.float64(1.0), [1.0] * 9, np.ones(9, dtype=int)):
        found = effective_anonymity(7, participation, 1e-9)
        assert (found.size, found.cell_failure, found.unprotected) == (7, 0.0, 0.0)
        assert (found.record_failure, found.participant_failure, found.enough) == (0.0, 0.0, True)


def test_some_sure_some_not():
    """One comes for certain and two by a coin: with k = 3 it fails unless both come, with probability 3/4."""
    found = effective_anonymity(3, [1.0, 0.5, 0.5], 0.8)
    assert (found.size, found.cell_failure) == (3, 0.75)
    assert found.unprotected == pytest.approx(5 / 3)
    assert found.participant_failure == pytest.approx(
        float(Fraction(3, 4) + Fraction(1, 2) * 2) / 3
    )


def test_a_limit_that_is_just_met_is_met():
    assert (
        effective_anonymity(2, 0.5, 0.375).size
        == effective_anonymity(2, [0.5] * 9, 0.375).size
        == 3
    )


def test_order_matters():
    likely, unlikely = [0.95] * 6, [0.05] * 6
    assert (
        effective_anonymity(3, likely + unlikely, 0.05).size
        < effective_anonymity(3, unlikely + likely, 0.05).size
    )


def test_too_few_candidates_are_told():
    found = effective_anonymity(20, 0.5, 0.1, available=47)
    assert (found.size, found.enough) == (47, False)
    assert found.cell_failure == pytest.approx(
        float(oracles.failure(oracles.binomial(47, 20, 0.5))), rel=1e-12
    )
    few = effective_anonymity(20, [0.5] * 3, 0.1)
    assert (few.size, few.enough, few.cell_failure) == (3, False, 0.875)
    assert effective_anonymity(20, 0.5, 0.1, available=1).cell_failure == 0.5
    assert effective_anonymity(20, 0.5, 0.1, available=48).enough


def test_hardly_anybody_takes_part():
    """Ten candidates fail seldom, as seldom as one comes at all; who does come is alone."""
    found = effective_anonymity(10, 1e-9, 1e-5)
    assert (found.size, found.steady) == (10, False)
    assert found.participant_failure == pytest.approx(1.0)
    size = steady_size(10, 1e-9, 1e-5)
    assert size > 10**10
    assert count(size - 1, 10, 1e-9).failure > 1e-5 >= count(size, 10, 1e-9).failure


def test_many_uneven_candidates():
    participation = np.random.default_rng(0).uniform(1e-7, 1e-5, 300_000)
    found = effective_anonymity(10, participation, 1e-5)
    mean = participation.mean()
    assert not found.enough
    assert found.participant_failure == pytest.approx(
        count(299_999, 9, mean).failure + (1 - mean) ** 299_999, rel=1e-4
    )


def test_failures_of_cells_are_those_of_each():
    chance = np.random.default_rng(3)
    labels, participation = chance.integers(0, 9, 200), chance.uniform(0.01, 1, 200)
    labels[labels == 4] = 5
    found = cell_failures(labels, participation, 6)
    for cell in range(9):
        p = oracles.distribution(participation[labels == cell], 6)
        assert found[cell] == pytest.approx(float(oracles.failure(p)), rel=1e-12)
    assert found[4] == 0.0


@given(st.lists(st.floats(0.0, 1.0), max_size=8))
def test_table_failure_is_one_less_the_product(failures):
    exact = 1 - np.prod([1 - Fraction(q) for q in failures], initial=Fraction(1))
    assert table_failure(failures) == pytest.approx(float(exact), rel=1e-12)


def test_table_failure_of_tiny_ones():
    assert table_failure(np.full(10**6, 1e-300)) == pytest.approx(1e-294)


@pytest.mark.parametrize("k", [1, 0, -3, 2.0, True, "3", None, np.nan])
def test_wrong_k(k):
    for call in (lambda: effective_anonymity(k, 0.5, 0.1), lambda: cell_failures([0], 0.5, k)):
        with pytest.raises(OptionError, match="k must be"):
            call()


@pytest.mark.parametrize(
    "participation", [0, 0.0, -0.25, 1.25, np.nan, np.inf, True, "0.25", None, 1j]
)
def test_wrong_common_participation(participation):
    with pytest.raises(OptionError, match="participation must be") as error:
        effective_anonymity(3, participation, 0.1)
    assert "0.25" not in str(error.value)
    with pytest.raises(OptionError, match="participation must be"):
        common_table_failure(3, participation, 0.1, 100)


@pytest.mark.parametrize("wrong", [0.0, -0.25, 1.25, np.nan, np.inf])
def test_wrong_participation_of_one_is_named_by_row(wrong):
    with pytest.raises(DataError, match=r"row 3 is not, the first of 2") as error:
        effective_anonymity(3, [0.5, 0.5, wrong, 0.5, wrong], 0.1)
    assert "0.25" not in str(error.value)


@pytest.mark.parametrize(
    "participation", [[], [[0.5]], ["a"], [True, False], [None], [[0.5], [0.5, 0.25]]]
)
def test_participation_that_is_no_list_of_numbers(participation):
    with pytest.raises(DataError, match="participation must"):
        effective_anonymity(3, participation, 0.1)


@pytest.mark.parametrize("failure", [0, 1, 1.0, -1e-9, 1e-301, np.nan, None, True, "0.1", [0.1]])
def test_wrong_failure(failure):
    with pytest.raises(OptionError, match="failure must be"):
        effective_anonymity(3, 0.5, failure)


@pytest.mark.parametrize("available", [0, -1, 2.5, True, "7"])
def test_wrong_available(available):
    with pytest.raises(OptionError, match="available must be"):
        effective_anonymity(3, 0.5, 0.1, available)
    with pytest.raises(OptionError, match="available goes with"):
        effective_anonymity(3, [0.5], 0.1, 7)


def test_other_refusals():
    with pytest.raises(TooFewRecordsError, match="needs 48 records"):
        common_table_failure(20, 0.5, 0.1, 47)
    with pytest.raises(OptionError, match="records must be"):
        common_table_failure(20, 0.5, 0.1, 0)
    with pytest.raises(OptionError, match="labels must be"):
        cell_failures([0, -1], 0.5, 2)
    with pytest.raises(OptionError, match="labels must be"):
        cell_failures([0.0, 1.0], 0.5, 2)
    with pytest.raises(DataError, match="2 probabilities, one a label, not 1"):
        cell_failures([0, 0], [0.5], 2)
    for failures in ([0.5, 1.5], [np.nan], [[0.5]], ["a"], 0.5):
        with pytest.raises(DataError, match="failures must be"):
            table_failure(failures)
