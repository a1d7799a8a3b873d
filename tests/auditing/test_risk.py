"""Risks of re-identification against loops over records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import OptionError
from microcell.measures.risk import measure_risk

SIZES = st.lists(st.integers(1, 30), min_size=1, max_size=40)


def risks(sizes, **options):
    return {
        measure.name: measure.value
        for measure in measure_risk(np.array(sizes, dtype=np.int64), **options)
    }


def test_a_release_by_hand():
    assert risks([3, 3, 4, 10]) == {
        "records_below_2k": 0.5,
        "prosecutor_worst": 1 / 3,
        "prosecutor_average": 0.2,
        "marketer": 0.2,
    }


def test_a_class_of_2k_is_not_below_2k():
    assert risks([3, 6])["records_below_2k"] == pytest.approx(1 / 3)
    assert risks([3, 6], k_required=4)["records_below_2k"] == 1
    assert risks([3, 6], k_required=1)["records_below_2k"] == 0


def test_a_sample_is_scaled_to_its_population():
    found = risks([2, 3, 5], population=1000)
    assert found["journalist_worst"] == pytest.approx(1 / 200)
    assert found["journalist_average"] == pytest.approx(3 / 1000)


def test_the_whole_population_is_no_safer_than_the_release():
    found = risks([2, 3, 5], population=10)
    assert found["journalist_worst"] == found["prosecutor_worst"]
    assert found["journalist_average"] == found["prosecutor_average"]


def test_single_records_are_found_for_certain():
    assert set(risks([1, 1, 1], population=3).values()) == {1.0}


def test_no_records_no_measures():
    assert measure_risk(np.array([], dtype=np.int64), 3, 100) == ()


def test_a_population_below_the_release_is_refused():
    with pytest.raises(OptionError, match="at least the 10 records released, not 9"):
        risks([5, 5], population=9)


def test_a_k_below_1_is_refused():
    with pytest.raises(OptionError, match="1 or more, not 0"):
        risks([5, 5], k_required=0)


def test_less_is_better_and_each_has_one_sentence():
    for measure in measure_risk(np.array([2, 4]), population=60):
        assert measure.lower_is_better
        assert measure.unit in {"share", "probability"}
        assert measure.meaning.endswith(".")
        assert measure.meaning.count(". ") == 0


def test_the_assumption_on_the_population_is_said():
    found = {
        measure.name: measure.meaning for measure in measure_risk(np.array([2, 4]), population=60)
    }
    assert "if the release is a proportional sample of 60 people" in found["journalist_worst"]
    assert "if the release is a proportional sample of 60 people" in found["journalist_average"]


@given(SIZES, st.integers(1, 9), st.randoms(use_true_random=False))
def test_risks_are_those_of_a_loop_over_records(sizes, times, random):
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
