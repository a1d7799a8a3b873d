"""The guarantee in words."""

import pytest

from microcell.report import guarantee
from microcell.report.wording import amount, counted, facts, is_fit, listing
from tests.report.examples import example, measure


def test_the_sentence_to_sign():
    assert guarantee(example()) == (
        "Each of the 2,000 published records shares its values of sex, age, body-mass index and home with at least "
        "4 others: the table is 5-anonymous in these columns."
    )


def test_one_column_and_one_other():
    assert guarantee(example(sizes=[2, 3], keys=("age",))) == (
        "Each of the 5 published records shares its value of age with at least 1 other: the table is 2-anonymous in "
        "this column."
    )


def test_k_1_is_no_protection():
    assert guarantee(example(sizes=[1, 1, 4])) == (
        "Not fit to publish: 2 of the 6 published records are alone with their values of sex, age, body-mass index "
        "and home, so k is 1 and nothing protects them."
    )
    assert "1 of the 1 published record is alone with its value of age" in guarantee(
        example(sizes=[1], keys=("age",))
    )


def test_nothing_wrong_is_fit_and_nothing_at_all_is_not():
    assert is_fit(example(faults={"values_changed": 0, "manifest_contradictions": 0}))
    assert not is_fit(example(sizes=[]))
    assert not is_fit(example(sizes=[1, 3]))


def test_an_empty_table_promises_nothing():
    assert (
        guarantee(example(sizes=[]))
        == "The published table is empty: it holds no record to protect."
    )


@pytest.mark.parametrize(
    "more, words",
    [
        ({"left": 1}, "1 column to be removed is still in the table."),
        ({"left": 2}, "2 columns to be removed are still in the table."),
        ({"strange": 3}, "3 published records cannot come from the original."),
        ({"faults": {"columns_missing": 1}}, "1 column to be published is missing."),
        ({"faults": {"columns_missing": 2}}, "2 columns to be published are missing."),
        ({"faults": {"columns_unexpected": 1}}, "1 column in the table has no role."),
        (
            {"faults": {"values_changed": 1}},
            "1 value to be published unchanged is not the original's.",
        ),
        (
            {"faults": {"values_changed": 1200}},
            "1,200 values to be published unchanged are not the original's.",
        ),
        ({"faults": {"manifest_contradictions": 2}}, "2 statements of the manifest do not hold."),
        (
            {"left": 1, "strange": 1},
            "is still in the table and 1 published record cannot come from the original.",
        ),
    ],
)
def test_what_is_wrong_comes_instead_of_the_promise(more, words):
    audit = example(**more)
    assert not is_fit(audit)
    sentence = guarantee(audit)
    assert sentence.startswith("Not fit to publish: ")
    assert sentence.endswith(words)
    assert "anonymous" not in sentence


def test_facts():
    told = {fact.label: fact.text for fact in facts(example())}
    assert told["Smallest class"] == "5 records"
    assert told["Class sizes"] == "5 to 9, median 5"
    assert told["Records"] == "2,100 in the original, 2,000 published"
    assert told["Information loss"] == "6.25 %"
    assert {fact.label for fact in facts(example(sizes=[]))} >= {"Smallest class", "Records"}


@pytest.mark.parametrize(
    "sizes, middle", [([2, 3], "2.5"), ([2, 3, 9], "3"), ([2, 3, 4, 2000], "3.5")]
)
def test_the_median_is_the_middle_of_the_sizes(sizes, middle):
    told = {fact.label: fact.text for fact in facts(example(sizes=sizes))}
    assert told["Class sizes"] == f"2 to {max(sizes):,}, median {middle}"


def test_small_words():
    assert listing([]) == ""
    assert listing(["a"]) == "a"
    assert listing(["a", "b"]) == "a and b"
    assert counted(1, "record") == "1 record"
    assert counted(0, "record") == "0 records"
    assert amount(measure("k", 2000)) == "2,000"
    assert amount(measure("d", 0.05, "share")) == "0.05"
    assert amount(measure("d", 1, "share")) == "1"
    assert amount(measure("l", 7 / 3, "values")) == "2.3333"
    assert amount(measure("d", 0, "share")) == "0"
    assert amount(measure("d", -0.00012345, "share")) == "-0.000123"
    assert amount(measure("d", 1e120, "share")) == "1e+120"
