"""Approximations: each solves its equation and bounds or approaches the exact size."""

import math

import pytest

from microcell.errors import OptionError
from microcell.kernels.participation import count, steady_size
from microcell.surveys.sizes import APPROXIMATIONS, approximate_size, effective_anonymity
from tests.raising import raises

CASES = [
    (k, q, f)
    for k in (2, 3, 10, 50, 200)
    for q in (0.05, 0.3, 0.5, 0.75, 0.95)
    for f in (1e-3, 1e-6, 1e-12)
]
TWO = [(q, f) for k, q, f in CASES if k == 2]


def divergence(t, q):
    return t * math.log(t / q) + (1 - t) * math.log((1 - t) / (1 - q))


@pytest.mark.parametrize("k, q, f", CASES)
def test_each_formula_solves_its_equation(k, q, f):
    target = -math.log(f)
    n = approximate_size(k, q, f, "divergence")
    assert n * divergence((k - 1) / n, q) == pytest.approx(target, rel=1e-9)
    n = approximate_size(k, q, f, "square-root")
    assert n * ((k - 1) / n - q) ** 2 / (2 * q * (1 - q)) == pytest.approx(target, rel=1e-9)
    n = approximate_size(k, q, f, "intercept")
    assert -n * math.log(1 - q) * (1 - (k - 1) / n / q) ** 2 == pytest.approx(target, rel=1e-9)
    for formula in ("divergence", "square-root", "intercept"):
        assert approximate_size(k, q, f, formula) > (k - 1) / q


@pytest.mark.parametrize("k, q, f", CASES)
def test_bounds_hold(k, q, f):
    """Chernoff's size is always sufficient; Markov's never exceeds the exact size."""
    size = effective_anonymity(k, q, f).size
    sufficient = math.ceil(approximate_size(k, q, f))
    assert size <= steady_size(k, q, f) <= sufficient
    assert count(sufficient, k, q).failure <= f
    assert approximate_size(k, q, f, "markov") <= size


@pytest.mark.parametrize("q, f", TWO)
def test_lambert_is_exact_for_k_2(q, f):
    n = approximate_size(2, q, f, "lambert")
    assert n * q * (1 - q) ** (n - 1) == pytest.approx(f, rel=1e-9)
    assert max(2, math.ceil(n - 1e-9)) == steady_size(2, q, f)


@pytest.mark.parametrize("q, f", [case for case in TWO if case[0] >= 0.3 or case[1] < 1e-3])
def test_higher_orders_are_closer_for_k_2(q, f):
    exact = approximate_size(2, q, f, "lambert")
    errors = [
        abs(approximate_size(2, q, f, formula) - exact)
        for formula in ("logarithm", "linear", "quadratic")
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02 * exact


def test_relative_errors_vanish_for_large_k():
    for formula in ("divergence", "square-root", "square-root-simple"):
        errors = [
            abs(
                approximate_size(k, 0.5, 1e-6, formula) / effective_anonymity(k, 0.5, 1e-6).size - 1
            )
            for k in (10, 100, 1000)
        ]
        assert errors[2] < 0.02
        assert errors[2] < max(errors[:2])
    simple, full = (
        approximate_size(10**6, 0.5, 1e-6, formula)
        for formula in ("square-root-simple", "square-root")
    )
    assert simple == pytest.approx(full, abs=0.05)


def test_certain_participation_needs_k():
    for formula, each in APPROXIMATIONS.items():
        assert approximate_size(2 if each.only_two else 9, 1.0, 1e-6, formula) == (
            2 if each.only_two else 9
        )


def test_every_formula_has_a_summary():
    assert len(APPROXIMATIONS) == 10
    assert all(each.summary and each.name == name for name, each in APPROXIMATIONS.items())


def test_lambert_returns_k_if_every_size_is_sufficient():
    assert approximate_size(2, 1e-3, 0.9, "lambert") == 2
    assert steady_size(2, 1e-3, 0.9) == 2


def test_invalid_arguments():
    with raises(OptionError, "option.unknown", option="formula"):
        approximate_size(2, 0.5, 0.1, "normal")
    with raises(OptionError, "option.unsupported", option="formula"):
        approximate_size(3, 0.5, 0.1, "linear")
    for formula in ("logarithm", "linear", "quadratic"):
        with raises(OptionError, "option.out_of_range", option="failure"):
            approximate_size(2, 0.05, 0.1, formula)
    for invalid in ((1, 0.5, 0.1), (2, 0.0, 0.1), (2, 0.5, 1.0)):
        with raises(OptionError, "option.out_of_range"):
            approximate_size(*invalid)
