"""Effective anonymity: the paper's tables, precision, order of candidates, invalid input."""

from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson_binom

from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.kernels.participation import count, steady_size
from microcell.surveys.participation import cell_failures, table_failure
from microcell.surveys.sizes import effective_anonymity, size
from tests.raising import raises
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

probabilities = st.floats(1e-3, 1.0) | st.sampled_from([1.0, 1 - 2**-53, 1e-300, 0.5])


def digits(number):
    return float(f"{number:.2e}")


def test_table_two():
    result = effective_anonymity(20, 0.5, 0.1)
    assert result.size == 48
    assert result.enough
    assert (
        f"{result.cell_failure:.5f} {result.unprotected:.2f} {result.record_failure:.5f}"
        == "0.09671 17.85 0.03597"
    )


@pytest.mark.parametrize("line", TABLE_THREE.strip().splitlines())
@pytest.mark.parametrize("even", [True, False])
def test_table_three(line, even):
    k, participation, failure, *expected = map(float, line.split())
    result = effective_anonymity(int(k), participation if even else [participation] * 200, failure)
    figures = (
        result.cell_failure,
        result.unprotected,
        result.record_failure,
        result.participant_failure,
    )
    assert (result.size, *map(digits, figures)) == tuple(expected)


@pytest.mark.parametrize("k, records", TABLE_FOUR)
def test_table_four(k, records):
    results = [
        digits(size(k, 0.75, failure, records).table_failure) for failure in (1e-4, 1e-5, 1e-6)
    ]
    assert results == [digits(x) for x in TABLE_FOUR[k, records]]


@pytest.mark.parametrize("k", [2, 3, 20, 200])
@pytest.mark.parametrize("participation", [0.01, 0.3, 0.75, 0.99])
@pytest.mark.parametrize("failure", [0.1, 1e-5, 1e-60, 1e-300])
def test_ten_digits_for_common_participation(k, participation, failure):
    result = effective_anonymity(k, participation, failure)
    p = oracles.binomial(result.size, k, participation)
    assert abs(Decimal(result.cell_failure) / oracles.failure(p) - 1) < Decimal("1e-10")
    assert abs(Decimal(result.unprotected) / oracles.unprotected(p) - 1) < Decimal("1e-10")
    assert oracles.failure(p) <= Decimal(failure)
    assert result.size == k or oracles.failure(
        oracles.binomial(result.size - 1, k, participation)
    ) > Decimal(failure)


@pytest.mark.parametrize(
    "k, low, high", [(2, 0.01, 0.99), (10, 0.3, 0.9), (60, 0.6, 0.99), (200, 0.9, 0.99)]
)
@pytest.mark.parametrize("failure", [0.1, 1e-5, 1e-250, 1e-300])
def test_ten_digits_for_uneven_participation(k, low, high, failure):
    participation = np.random.default_rng(k).uniform(low, high, 1500)
    result = effective_anonymity(k, participation, failure)
    assert result.enough
    p = oracles.distribution(participation[: result.size], k)
    assert abs(Decimal(result.cell_failure) / oracles.failure(p) - 1) < Decimal("1e-10")
    assert abs(Decimal(result.unprotected) / oracles.unprotected(p) - 1) < Decimal("1e-10")
    assert oracles.failure(p) <= Decimal(failure)
    if result.size > k:
        assert oracles.failure(oracles.distribution(participation[: result.size - 1], k)) > Decimal(
            failure
        )


@pytest.mark.parametrize("k, participation", [(200, 0.01), (150, 0.99), (2, 1e-4)])
def test_long_recursions_keep_ten_digits(k, participation):
    """Closed form and recursion agree although terms are far below the smallest float."""
    even = effective_anonymity(k, participation, 1e-300)
    uneven = effective_anonymity(k, np.full(even.size + 5, participation), 1e-300)
    assert uneven.size == even.size
    for name in ("cell_failure", "unprotected", "record_failure", "participant_failure"):
        assert getattr(uneven, name) == pytest.approx(getattr(even, name), rel=1e-10)
    assert uneven.steady == even.steady


def test_underflowing_terms_do_not_matter():
    """Terms that underflow on the way contribute too little to matter."""
    for n_certain, others, k in (
        (20, [1e-3] * 20, 5),
        (30, [0.5] * 90, 20),
        (14, [1 - 2**-53] * 14, 12),
    ):
        participation = [1 - 2**-53] * n_certain + others
        exact = oracles.failure(oracles.distribution(participation, k))
        assert 1e-300 < float(exact) < 1e-150
        result = cell_failures([0] * len(participation), participation, k)[0]
        assert abs(Decimal(result) / exact - 1) < Decimal("1e-10")


@given(st.lists(probabilities, min_size=1, max_size=14), st.integers(2, 6), st.floats(1e-6, 0.9))
def test_uneven_participation_agrees_with_the_reference(participation, k, failure):
    result = effective_anonymity(k, participation, failure)
    expected = oracles.least_enough(participation, k, failure)
    members = participation[: result.size]
    p = oracles.distribution(members, k)
    near = abs(oracles.failure(p) - Decimal(failure)) < Decimal(failure) * Decimal("1e-12")
    assert near or (result.size, result.enough) == (
        expected if expected > 0 else len(participation),
        expected > 0,
    )
    assert result.cell_failure == pytest.approx(float(oracles.failure(p)), rel=1e-10)
    assert result.record_failure == pytest.approx(
        float(sum(j * x for j, x in enumerate(p))) / len(members), rel=1e-10
    )
    assert result.participant_failure == pytest.approx(
        float(oracles.participant_failure(members, k)), rel=1e-10
    )
    assert 0 <= result.unprotected <= k - 1


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=12), st.integers(2, 5))
def test_failures_by_enumeration(participation, k):
    total, each = 0.0, np.zeros(len(participation))
    for taking in product([0, 1], repeat=len(participation)):
        probability = np.prod(
            [q if t else 1 - q for q, t in zip(participation, taking, strict=True)]
        )
        if 0 < sum(taking) < k:
            total += probability
            each += probability * np.array(taking) / participation
    result = effective_anonymity(k, participation, 1e-290)
    if result.size == len(participation):
        assert result.cell_failure == pytest.approx(total, rel=1e-9, abs=1e-15)
        assert result.participant_failure == pytest.approx(each.mean(), rel=1e-9, abs=1e-15)


def test_cell_failures_agree_with_scipy():
    participation = np.random.default_rng(0).uniform(0.05, 0.95, 60)
    terms = poisson_binom.pmf(np.arange(1, 10), participation)
    assert cell_failures(np.zeros(60, dtype=int), participation, 10)[0] == pytest.approx(
        terms.sum(), rel=1e-9
    )


@given(st.floats(1e-4, 1.0), st.integers(2, 40), st.floats(1e-12, 0.9))
def test_steady_sizes_stay_within_the_limit(participation, k, failure):
    n = steady_size(k, participation, failure)
    smallest = effective_anonymity(k, participation, failure)
    assert n >= smallest.size
    assert not smallest.steady or n == smallest.size
    for larger in (*range(n, n + 30), 2 * n - 1, 3 * n, 100 * n):
        assert count(larger, k, participation).failure <= failure
    assert n == k or count(n - 1, k, participation).failure > failure


@given(
    st.lists(st.floats(0.001, 1.0), min_size=2, max_size=30),
    st.integers(2, 5),
    st.floats(0.001, 1.0),
)
def test_one_more_candidate_never_harms_a_steady_cell(participation, k, more):
    before = effective_anonymity(k, participation, 1e-290)
    if before.steady and before.size == len(participation):
        after = cell_failures([0] * (len(participation) + 1), [*participation, more], k)[0]
        assert after <= before.cell_failure * (1 + 1e-12)


def test_unsteady_cells():
    small = effective_anonymity(10, 0.01, 0.1)
    assert (small.size, small.steady) == (10, False)
    assert count(20, 10, 0.01).failure > 0.1
    assert steady_size(10, 0.01, 0.1) > 1000


def test_certain_participation_needs_k():
    for participation in (1.0, 1, np.float64(1.0), [1.0] * 9, np.ones(9, dtype=int)):
        result = effective_anonymity(7, participation, 1e-9)
        assert (result.size, result.cell_failure, result.unprotected) == (7, 0.0, 0.0)
        assert (result.record_failure, result.participant_failure, result.enough) == (
            0.0,
            0.0,
            True,
        )


def test_certain_and_uncertain_candidates():
    """With one certain candidate and two coin flips, k = 3 fails unless both take part: 3/4."""
    result = effective_anonymity(3, [1.0, 0.5, 0.5], 0.8)
    assert (result.size, result.cell_failure) == (3, 0.75)
    assert result.unprotected == pytest.approx(5 / 3)
    assert result.participant_failure == pytest.approx(
        float(Fraction(3, 4) + Fraction(1, 2) * 2) / 3
    )


def test_a_limit_met_exactly():
    assert (
        effective_anonymity(2, 0.5, 0.375).size
        == effective_anonymity(2, [0.5] * 9, 0.375).size
        == 3
    )


def test_order_of_candidates_matters():
    likely, unlikely = [0.95] * 6, [0.05] * 6
    assert (
        effective_anonymity(3, likely + unlikely, 0.05).size
        < effective_anonymity(3, unlikely + likely, 0.05).size
    )


def test_too_few_candidates():
    result = effective_anonymity(20, 0.5, 0.1, available=47)
    assert (result.size, result.enough) == (47, False)
    assert result.cell_failure == pytest.approx(
        float(oracles.failure(oracles.binomial(47, 20, 0.5))), rel=1e-12
    )
    few = effective_anonymity(20, [0.5] * 3, 0.1)
    assert (few.size, few.enough, few.cell_failure) == (3, False, 0.875)
    assert effective_anonymity(20, 0.5, 0.1, available=1).cell_failure == 0.5
    assert effective_anonymity(20, 0.5, 0.1, available=48).enough


def test_tiny_participation():
    """Ten candidates rarely fail because rarely anyone takes part, but that one is alone."""
    result = effective_anonymity(10, 1e-9, 1e-5)
    assert (result.size, result.steady) == (10, False)
    assert result.participant_failure == pytest.approx(1.0)
    n = steady_size(10, 1e-9, 1e-5)
    assert n > 10**10
    assert count(n - 1, 10, 1e-9).failure > 1e-5 >= count(n, 10, 1e-9).failure


def test_many_uneven_candidates():
    participation = np.random.default_rng(0).uniform(1e-7, 1e-5, 300_000)
    result = effective_anonymity(10, participation, 1e-5)
    mean = participation.mean()
    assert not result.enough
    assert result.participant_failure == pytest.approx(
        count(299_999, 9, mean).failure + (1 - mean) ** 299_999, rel=1e-4
    )


def test_cell_failures_agree_with_the_reference():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 9, 200)
    participation = rng.uniform(0.01, 1, 200)
    labels[labels == 4] = 5
    result = cell_failures(labels, participation, 6)
    for cell in range(9):
        p = oracles.distribution(participation[labels == cell], 6)
        assert result[cell] == pytest.approx(float(oracles.failure(p)), rel=1e-12)
    assert result[4] == 0.0


@given(st.lists(st.floats(0.0, 1.0), max_size=8))
def test_table_failure_agrees_with_exact_arithmetic(failures):
    exact = 1 - np.prod([1 - Fraction(q) for q in failures], initial=Fraction(1))
    assert table_failure(failures) == pytest.approx(float(exact), rel=1e-12)


def test_table_failure_of_tiny_probabilities():
    assert table_failure(np.full(10**6, 1e-300)) == pytest.approx(1e-294)


@pytest.mark.parametrize("k", [1, 0, -3, 2.0, True, "3", None, np.nan])
def test_invalid_k(k):
    code = "option.out_of_range" if type(k) is int else "option.wrong_type"
    with raises(OptionError, code, option="k"):
        effective_anonymity(k, 0.5, 0.1)
    with raises(OptionError, code, option="k"):
        cell_failures([0], 0.5, k)


@pytest.mark.parametrize(
    "participation", [0, 0.0, -0.25, 1.25, np.nan, np.inf, True, "0.25", None, 1j]
)
def test_invalid_common_participation(participation):
    is_number = isinstance(participation, (int, float)) and participation is not True
    code = "option.out_of_range" if is_number else "option.wrong_type"
    with raises(OptionError, code, option="participation") as caught:
        effective_anonymity(3, participation, 0.1)
    assert "0.25" not in str(caught.value)
    with raises(OptionError, code, option="participation"):
        size(3, participation, 0.1, 100)


@pytest.mark.parametrize("invalid", [0.0, -0.25, 1.25, np.nan, np.inf])
def test_invalid_participation_is_named_by_row(invalid):
    with raises(DataError, "data.out_of_range", row=3) as caught:
        effective_anonymity(3, [0.5, 0.5, invalid, 0.5, invalid], 0.1)
    assert "0.25" not in str(caught.value)


@pytest.mark.parametrize(
    "participation", [[], [[0.5]], ["a"], [True, False], [None], [[0.5], [0.5, 0.25]]]
)
def test_participation_that_is_not_a_list_of_numbers(participation):
    code = "data.not_a_number" if participation else "data.empty"
    with raises(DataError, code, option="participation"):
        effective_anonymity(3, participation, 0.1)


@pytest.mark.parametrize("failure", [0, 1, 1.0, -1e-9, 1e-301, np.nan, None, True, "0.1", [0.1]])
def test_invalid_failure(failure):
    is_number = isinstance(failure, (int, float)) and failure is not True
    code = "option.out_of_range" if is_number else "option.wrong_type"
    with raises(OptionError, code, option="failure"):
        effective_anonymity(3, 0.5, failure)


@pytest.mark.parametrize("available", [0, -1, 2.5, True, "7"])
def test_invalid_available(available):
    code = "option.out_of_range" if type(available) is int else "option.wrong_type"
    with raises(OptionError, code, option="available"):
        effective_anonymity(3, 0.5, 0.1, available)
    with raises(OptionError, "option.conflict", option="available"):
        effective_anonymity(3, [0.5], 0.1, 7)


def test_invalid_records_labels_and_failures():
    with raises(TooFewRecordsError, "guarantee.too_few_records", required=48, records=47):
        size(20, 0.5, 0.1, 47)
    with raises(OptionError, "option.out_of_range", option="records"):
        size(20, 0.5, 0.1, 0)
    for labels in ([0, -1], [0.0, 1.0]):
        with raises(OptionError, "option.invalid", option="labels"):
            cell_failures(labels, 0.5, 2)
    with raises(DataError, "data.invalid", option="participation"):
        cell_failures([0, 0], [0.5], 2)
    for failures in ([0.5, 1.5], [np.nan], [[0.5]], 0.5):
        with raises(DataError, "data.invalid", option="failures"):
            table_failure(failures)
    with raises(DataError, "data.not_a_number", option="failures"):
        table_failure(["a"])
