"""Risks of re-identification against loops over records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import OptionError
from microcell.measures.evaluate import evaluate
from microcell.measures.evidence import ClassSizes
from microcell.measures.registry import measures
from microcell.measures.risk import check_population
from tests.raising import raises

SIZES = st.lists(st.integers(1, 30), min_size=1, max_size=40)


NAMES = [
    *("records_below_2k", "prosecutor_worst", "prosecutor_average", "marketer"),
    *("journalist_worst", "journalist_average"),
]


def evaluate_risk(sizes, population=None):
    evidence = ClassSizes(np.array(sizes, dtype=np.int64), sum(sizes), population)
    return evaluate(evidence, [measures()[name] for name in NAMES])


def risks(sizes, **options):
    return {name: item.value for name, item in evaluate_risk(sizes, **options).items()}


def test_a_release_by_hand():
    assert risks([3, 3, 4, 10]) == {
        "records_below_2k": 0.5,
        "prosecutor_worst": 1 / 3,
        "prosecutor_average": 0.2,
        "marketer": 0.2,
    }


def test_a_class_of_2k_is_not_below_2k():
    assert risks([3, 6])["records_below_2k"] == pytest.approx(1 / 3)
    assert risks([3, 5])["records_below_2k"] == 1


def test_a_sample_is_scaled_to_its_population():
    actual = risks([2, 3, 5], population=1000)
    assert actual["journalist_worst"] == pytest.approx(1 / 200)
    assert actual["journalist_average"] == pytest.approx(3 / 1000)


def test_the_whole_population_is_no_safer_than_the_release():
    actual = risks([2, 3, 5], population=10)
    assert actual["journalist_worst"] == actual["prosecutor_worst"]
    assert actual["journalist_average"] == actual["prosecutor_average"]


def test_unique_records_are_identified_with_certainty():
    assert set(risks([1, 1, 1], population=3).values()) == {1.0}


def test_without_records_there_is_no_risk():
    assert risks([], population=100) == {}


def test_a_population_smaller_than_the_release_is_rejected():
    with raises(OptionError, "option.out_of_range", option="population"):
        check_population(9, 10)


@pytest.mark.parametrize("population", [True, 10.0, "10"])
def test_a_population_must_be_a_whole_number(population):
    with raises(OptionError, "option.wrong_type", option="population"):
        check_population(population, 5)


def test_lower_risk_is_better():
    for item in evaluate_risk([2, 4], population=60).values():
        assert item.lower_is_better
        assert item.unit in {"share", "probability"}
        assert item.meaning.endswith(".")


def test_the_sampling_assumption_is_stated():
    actual = evaluate_risk([2, 4], population=60)
    for name in ("journalist_worst", "journalist_average"):
        assert "proportional sample of 60 people" in actual[name].meaning


@given(SIZES, st.integers(1, 9), st.randoms(use_true_random=False))
def test_risks_match_a_loop_over_records(sizes, times, random):
    records = [size for size in sizes for _ in range(size)]
    population = times * len(records)
    by_record = [1 / size for size in records]
    in_population = [1 / (size * population / len(records)) for size in records]
    shuffled = random.sample(sizes, len(sizes))
    assert risks(shuffled, population=population) == pytest.approx(
        {
            "records_below_2k": sum(size < 2 * min(sizes) for size in records) / len(records),
            "prosecutor_worst": max(by_record),
            "prosecutor_average": sum(by_record) / len(records),
            "marketer": sum(by_record) / len(records),
            "journalist_worst": max(in_population),
            "journalist_average": sum(in_population) / len(records),
        }
    )
