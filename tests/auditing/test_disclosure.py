"""Attribute disclosure against published examples and plain loops over classes and values."""

import datetime
from collections import Counter
from math import exp, log, log2
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.measures.classes import number_values
from microcell.measures.confidential import ConfidentialColumn, count_values, tidy
from microcell.measures.disclosure import recursive_diversity
from microcell.measures.evaluate import evaluate, summarize
from microcell.measures.registry import measures
from microcell.model import Column, Values
from tests.small_tables import values

NAMES = [
    "l_diversity",
    "p_sensitivity",
    "l_entropy",
    "l_recursive",
    "t_closeness",
    "t_kullback",
    "delta_disclosure",
    "disclosed_bits",
    "homogeneous_classes",
    "homogeneous_records",
]
NUMBER = st.one_of(st.none(), st.integers(-3, 3), st.integers(-100, 100))
ROWS = st.lists(st.tuples(st.integers(0, 4), NUMBER), min_size=1, max_size=40)


def confidential(classes, column, *, ordered=True, name="pay"):
    column = column if isinstance(column, Values) else values(column)
    kind = "numeric" if ordered else "nominal"
    return ConfidentialColumn(Column(name, kind=kind), column, np.array(classes, dtype=np.int64))


def evaluate_columns(*columns):
    """The measures of disclosure, overall and by column."""
    return evaluate(SimpleNamespace(confidential=columns), [measures()[name] for name in NAMES])


def measure(classes, column, *, ordered=True, c=3):
    column = confidential(classes, column, ordered=ordered)
    actual = {
        name: item.value for name, item in evaluate_columns(column).items() if "." not in name
    }
    if c != 3:
        actual["l_recursive"] = int(recursive_diversity(column.counts, c).min())
    return actual


# A plain account of each measure, class by class and value by value.


def rank(value):
    return (value is not None, value or 0)


def shares(column, support):
    return [column.count(value) / len(column) for value in support]


def ordered_distance(p, q):
    gaps = [abs(sum(p[: place + 1]) - sum(q[: place + 1])) for place in range(len(p))]
    return sum(gaps) / (len(p) - 1) if len(p) > 1 else 0.0


def nominal_distance(p, q):
    return sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2


def recursive(column, c):
    counts = sorted(Counter(column).values(), reverse=True)
    return max(
        1,
        *(
            level
            for level in range(len(counts) + 1)
            if not level or counts[0] < c * sum(counts[level - 1 :])
        ),
    )


def expected(classes, column, *, ordered=True, c=3):
    groups = {
        label: [v for row_label, v in zip(classes, column, strict=True) if row_label == label]
        for label in set(classes)
    }
    support = sorted(set(column), key=rank)
    q = shares(column, support)
    spreads = [shares(group, support) for group in groups.values()]
    ratios = [[(a, log2(a / b)) for a, b in zip(p, q, strict=True) if a] for p in spreads]
    kullback = [sum(a * ratio for a, ratio in items) for items in ratios]
    alone = [group for group in groups.values() if len(set(group)) == 1]
    distance = ordered_distance if ordered else nominal_distance
    return {
        "p_sensitivity": min(len(set(group)) for group in groups.values()),
        "l_diversity": min(len(set(group)) for group in groups.values()),
        "l_entropy": min(exp(-sum(a * log(a) for a in p if a)) for p in spreads),
        "l_recursive": min(recursive(group, c) for group in groups.values()),
        "t_closeness": max(distance(p, q) for p in spreads),
        "t_kullback": max(kullback),
        "delta_disclosure": max(abs(ratio) for items in ratios for _, ratio in items),
        "disclosed_bits": sum(
            len(g) * bits for g, bits in zip(groups.values(), kullback, strict=True)
        )
        / len(column),
        "homogeneous_classes": len(alone),
        "homogeneous_records": sum(map(len, alone)),
    }


def close(actual):
    return pytest.approx(actual, abs=1e-11)


@given(ROWS, st.booleans(), st.sampled_from([0.5, 1, 2, 3]))
def test_measures_match_a_plain_computation(rows, ordered, c):
    classes, column = [row[0] for row in rows], [row[1] for row in rows]
    assert measure(classes, column, ordered=ordered, c=c) == close(
        expected(classes, column, ordered=ordered, c=c)
    )


@given(ROWS, st.booleans(), st.randoms(use_true_random=False))
def test_row_order_and_class_labels_do_not_matter(rows, ordered, random):
    mixed = random.sample(rows, len(rows))
    names = random.sample(range(0, 1000, 7), 5)
    before = measure([row[0] for row in rows], [row[1] for row in rows], ordered=ordered)
    assert measure(
        [names[row[0]] for row in mixed], [row[1] for row in mixed], ordered=ordered
    ) == close(before)


@given(ROWS)
def test_monotone_recoding_does_not_matter_nor_does_any_for_nominal_columns(rows):
    classes, column = [row[0] for row in rows], [row[1] for row in rows]
    grown = [None if value is None else value**3 / 7 for value in column]
    turned = [None if value is None else -value for value in column]
    assert measure(classes, grown) == close(measure(classes, column))
    assert measure(classes, turned, ordered=False) == close(measure(classes, column, ordered=False))


@given(ROWS)
def test_a_missing_value_is_ordered_before_all_others(rows):
    classes, column = [row[0] for row in rows], [row[1] for row in rows]
    filled = [-1000 if value is None else value for value in column]
    for ordered in (False, True):
        assert measure(classes, filled, ordered=ordered) == close(
            measure(classes, column, ordered=ordered)
        )


@given(ROWS, st.booleans())
def test_bounds(rows, ordered):
    classes, column = [row[0] for row in rows], [row[1] for row in rows]
    actual = measure(classes, column, ordered=ordered)
    k = min(Counter(classes).values())
    assert 1 <= actual["l_entropy"] <= actual["l_diversity"] + 1e-12
    assert 1 <= actual["l_recursive"] <= actual["l_diversity"] <= k
    assert 0 <= actual["t_closeness"] <= 1
    assert 0 <= actual["disclosed_bits"] <= actual["t_kullback"] + 1e-12
    assert actual["t_kullback"] <= actual["delta_disclosure"] + 1e-12
    assert (actual["homogeneous_classes"] > 0) == (actual["l_diversity"] == 1)


@given(st.lists(NUMBER, min_size=1, max_size=30), st.booleans())
def test_a_single_class_discloses_nothing(column, ordered):
    actual = measure([5] * len(column), column, ordered=ordered)
    assert (
        actual["t_closeness"]
        == actual["t_kullback"]
        == actual["delta_disclosure"]
        == actual["disclosed_bits"]
        == 0
    )
    assert actual["l_diversity"] == len(set(column))


@pytest.mark.parametrize(
    "column", [[7, 7, 7, 7], [None] * 4, ["a"] * 4], ids=["constant", "missing", "text"]
)
@pytest.mark.parametrize("ordered", [False, True])
def test_a_constant_column_discloses_nothing(column, ordered):
    actual = measure([0, 0, 1, 1], column, ordered=ordered)
    assert list(actual.values()) == [1, 1, 1, 1, 0, 0, 0, 0, 2, 4]


# Examples of the papers.

SALARY = [3, 4, 5, 6, 11, 8, 7, 9, 10]
"""In thousands; Table 3 of Li, Li and Venkatasubramanian (2007); Table 4 has classes of three."""


def test_salaries_of_the_t_closeness_paper():
    """EMD 0.375 for {3, 4, 5}, the farthest of the classes, and 0.167 for {6, 8, 11}."""
    assert measure([0, 0, 0, 1, 1, 1, 2, 2, 2], SALARY)["t_closeness"] == 0.375
    assert ordered_distance(
        shares([6, 8, 11], sorted(SALARY)), shares(SALARY, sorted(SALARY))
    ) == pytest.approx(1 / 6)


def test_the_0167_close_table_of_the_t_closeness_paper():
    """{3, 5, 9}, {6, 8, 11} and {4, 7, 10}."""
    assert measure([0, 2, 0, 1, 1, 1, 2, 0, 2], SALARY)["t_closeness"] == pytest.approx(1 / 6)


def test_diseases_of_the_l_diversity_paper():
    """The 4-anonymous and the 3-diverse inpatient tables of Machanavajjhala et al. (2007)."""
    anonymous = [
        "heart",
        "heart",
        "viral",
        "viral",
        "cancer",
        "heart",
        "viral",
        "viral",
        *["cancer"] * 4,
    ]
    actual = measure(np.repeat([0, 1, 2], 4), anonymous, ordered=False)
    assert actual["l_diversity"] == actual["homogeneous_classes"] == 1
    assert actual["homogeneous_records"] == 4
    diverse = ["heart", "viral", "cancer", "cancer", "cancer", "heart", "viral", "viral"]
    diverse += ["heart", "viral", "cancer", "cancer"]
    actual = measure(np.repeat([0, 1, 2], 4), diverse, ordered=False)
    assert actual["l_diversity"] == 3
    assert actual["l_entropy"] == pytest.approx(2**1.5)
    assert actual["l_recursive"] == 3
    assert actual["homogeneous_classes"] == 0


def test_recursive_diversity_is_strict():
    """Counts 3, 1 need c > 3 for l = 2. Counts 6, 2, 1: l = 2 as 6 < 9, not l = 3 as 6 > 3."""
    assert measure([0] * 4, [1, 1, 1, 2], c=3)["l_recursive"] == 1
    assert measure([0] * 4, [1, 1, 1, 2], c=3.5)["l_recursive"] == 2
    assert measure([0] * 9, [1] * 6 + [2, 2, 3])["l_recursive"] == 2


# By hand.


def test_a_nominal_column_by_hand():
    actual = measure([0, 0, 1, 1], ["a", "a", "a", "b"], ordered=False)
    assert actual["t_closeness"] == 0.25
    assert actual["t_kullback"] == close(log2(4 / 3))
    assert actual["delta_disclosure"] == close(1.0)
    assert actual["disclosed_bits"] == close((log2(4 / 3) + 0.5 * log2(2 / 3) + 0.5) / 2)


def test_equal_shares_give_an_integer_l():
    for count in range(2, 60):
        assert measure([0] * count * 3, [*range(count)] * 3)["l_entropy"] == count


def test_classes_that_reveal_everything():
    actual = measure([0, 0, 1, 1], ["a", "a", "b", "b"], ordered=False)
    assert actual["disclosed_bits"] == 1
    assert actual["homogeneous_records"] == 4


def test_classes_that_lack_a_value_are_counted():
    column = confidential([0, 0, 1, 1], ["a", "b", "a", "a"], ordered=False, name="ill")
    meaning = evaluate_columns(column)["delta_disclosure.ill"].meaning
    assert "1 of 2 classes lack at least one value" in meaning


def test_dates_are_ordered_and_unused_categories_are_skipped():
    days = [datetime.date(2020, 1, 1), datetime.date(2021, 5, 1), datetime.date(2022, 1, 1)]
    assert measure([0, 1, 1], days)["t_closeness"] == 0.5
    known = np.zeros(3, dtype=bool)
    grades = Values(
        "text", np.array([0, 2, 4]), known, categories=("e", "d", "c", "b", "a"), ordered=True
    )
    assert measure([0, 1, 1], grades)["t_closeness"] == 0.5


def test_data_of_missing_values_are_ignored():
    column = Values("float", np.array([1.0, 7.0, np.nan]), np.array([True, True, True]))
    assert measure([0, 0, 1], column)["disclosed_bits"] == 0


def test_homogeneous_classes_are_listed_by_size():
    column = confidential([4, 4, 4, 2, 2, 9, 0, 0], [None, None, None, 1, 2, 5, 3, 3])
    assert column.homogeneous_sizes.tolist() == [2, 3, 1]


def test_meanings_name_the_column():
    actual = evaluate_columns(confidential([0, 0, 1], [1, 2, 3], name="a.{b}"))
    assert list(actual) == [*NAMES, *(f"{name}.a.{{b}}" for name in NAMES)]
    for item in actual.values():
        assert item.meaning.endswith(".")
        assert "a.{b}" in item.meaning
        assert item.lower_is_better == (item.unit != "values")


def test_the_worst_column_is_named():
    classes = [0, 0, 0, 1, 1, 1]
    wide = confidential(classes, [1, 2, 3, 1, 2, 3], name="wide")
    low = confidential(classes, [1, 1, 1, 2, 2, 2], name="my.low")
    for columns in ([wide, low], [low, wide]):
        actual = evaluate_columns(*columns)
        for name in NAMES:
            assert actual[name].value == actual[f"{name}.my.low"].value
            assert actual[name].meaning.endswith("Worst column: my.low.")
    assert evaluate_columns() == {}


def test_the_first_of_equally_bad_columns_is_named():
    columns = [confidential([0, 0, 1, 1], [1, 2, 1, 2], name=name) for name in ("a", "b")]
    assert evaluate_columns(*columns)["l_diversity"].meaning.endswith("Worst column: a.")


def test_each_measure_has_its_own_worst_column():
    classes = [0, 0, 1, 1]
    few = confidential(classes, ["a", "a", "a", "a"], ordered=False, name="few")
    distinct = confidential(classes, ["a", "b", "c", "d"], ordered=False, name="distinct")
    actual = evaluate_columns(few, distinct)
    worst = {name: actual[name].meaning.rpartition(" ")[2] for name in NAMES}
    assert worst["l_diversity"] == worst["homogeneous_records"] == "few."
    assert worst["t_closeness"] == worst["disclosed_bits"] == "distinct."


def test_more_values_than_fit_a_matrix_of_classes():
    rows = 200_000
    actual = measure(np.arange(rows) // 2, np.arange(rows).tolist())
    assert actual["disclosed_bits"] == close(log2(rows // 2))
    assert actual["l_recursive"] == 2


@given(ROWS, st.booleans())
def test_values_by_class_match_a_plain_computation(rows, ordered):
    """The values of single classes, and the measures that summarize them."""
    classes, column = [row[0] for row in rows], [row[1] for row in rows]
    counts = count_values(np.array(classes), number_values(values(column)), ordered=ordered)
    actual, support = measure(classes, column, ordered=ordered), sorted(set(column), key=rank)
    each = {name: measures()[name].compute(counts) for name in NAMES if name != "disclosed_bits"}
    q, distance = shares(column, support), ordered_distance if ordered else nominal_distance
    for place, label in enumerate(sorted(set(classes))):
        group = [
            value for row_label, value in zip(classes, column, strict=True) if row_label == label
        ]
        p = shares(group, support)
        assert each["l_diversity"][place] == len(set(group))
        assert each["l_recursive"][place] == recursive(group, 3)
        assert each["t_closeness"][place] == close(distance(p, q))
        assert each["delta_disclosure"][place] == close(
            max(abs(log2(a / b)) for a, b in zip(p, q, strict=True) if a)
        )
        assert each["homogeneous_records"][place] == (len(group) if len(set(group)) == 1 else 0)
    for name, by_class in each.items():
        assert summarize(measures()[name], by_class) == actual[name] == tidy(actual[name])
