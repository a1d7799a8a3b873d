"""The guarantee and the key facts in words."""

import pytest

from microcell.report import guarantee
from microcell.report.contents import headlines
from microcell.report.wording import (
    counted,
    is_publishable,
    join_words,
    key_facts,
)
from tests.report.examples import example, measure


def facts(**options):
    return {fact.label: fact.text for fact in key_facts(example(**options))}


def test_the_sentence_to_sign():
    assert guarantee(example()) == (
        "Each of the 2,000 published records shares its values of sex, age, body-mass index and "
        "home with at least 4 others: the table is 5-anonymous in these columns."
    )


def test_one_column_and_one_other_record():
    assert guarantee(example(sizes=[2, 3], keys=("age",))) == (
        "Each of the 5 published records shares its value of age with at least 1 other: the table "
        "is 2-anonymous in this column."
    )


def test_unique_records_are_not_protected():
    assert guarantee(example(sizes=[1, 1, 4])) == (
        "Not fit to publish: 2 of 6 published records have a unique combination of sex, age, "
        "body-mass index and home (k = 1)."
    )
    assert guarantee(example(sizes=[1], keys=("age",))) == (
        "Not fit to publish: 1 of 1 published record has a unique value of age (k = 1)."
    )


def test_publishable_or_not():
    assert is_publishable(example(faults={"values_changed": 0, "manifest_contradictions": 0}))
    assert not is_publishable(example(sizes=[]))
    assert not is_publishable(example(sizes=[1, 3]))


def test_an_empty_table_has_no_guarantee():
    sentence = "The published table is empty: there are no records to protect."
    assert guarantee(example(sizes=[])) == sentence


@pytest.mark.parametrize(
    ("options", "ending"),
    [
        ({"left": 1}, "1 column that should have been removed is still in the table."),
        ({"left": 2}, "2 columns that should have been removed are still in the table."),
        ({"unaccounted": 3}, "3 published records have no counterpart in the original."),
        ({"faults": {"columns_missing": 1}}, "1 column that should be published is missing."),
        ({"faults": {"columns_missing": 2}}, "2 columns that should be published are missing."),
        ({"faults": {"columns_unexpected": 1}}, "1 published column has no role in the schema."),
        (
            {"faults": {"values_changed": 1}},
            "1 value that should be unchanged differs from the original.",
        ),
        (
            {"faults": {"values_changed": 1200}},
            "1,200 values that should be unchanged differ from the original.",
        ),
        ({"faults": {"manifest_contradictions": 2}}, "2 statements in the manifest are wrong."),
        (
            {"left": 1, "unaccounted": 1},
            "is still in the table and 1 published record has no counterpart in the original.",
        ),
    ],
)
def test_failed_basic_checks_replace_the_guarantee(options, ending):
    audit = example(**options)
    assert not is_publishable(audit)
    sentence = guarantee(audit)
    assert sentence.startswith("Not fit to publish: ")
    assert sentence.endswith(ending)
    assert "anonymous" not in sentence


def test_key_facts():
    assert facts() == {
        "Smallest class": "5 records",
        "Classes": "396",
        "Class sizes": "5 to 9 records, median 5",
        "Records": "2,100 in the original, 2,000 published",
        "Information loss": "6.25 %",
    }
    assert facts(sizes=[3, 3])["Class sizes"] == "3 records each"
    assert {"Smallest class", "Records"} <= set(facts(sizes=[]))


@pytest.mark.parametrize(
    ("sizes", "median"), [([2, 3], "2.5"), ([2, 3, 9], "3"), ([2, 3, 4, 2000], "3.5")]
)
def test_median_class_size(sizes, median):
    assert facts(sizes=sizes)["Class sizes"] == f"2 to {max(sizes):,} records, median {median}"


def test_words_and_numbers():
    assert join_words([]) == ""
    assert join_words(["a"]) == "a"
    assert join_words(["a", "b"]) == "a and b"
    assert counted(1, "record") == "1 record"
    assert counted(0, "record") == "0 records"
    assert counted(3, "batch") == "3 batches"
    assert measure("k", 2000).format() == "2,000"
    assert measure("l", 7 / 3, "values").format() == "2.3333"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.05, "5 %"),
        (1, "100 %"),
        (0, "0 %"),
        (1 / 3, "33.33 %"),
        (-0.0001234, "-0.01234 %"),
        (1e120, "1e+122 %"),
    ],
)
def test_shares_are_percentages(value, text):
    assert measure("information_loss", value, "share").format() == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1, "values", "1 value"), (0.2, "share", "20 %"), (3, "records", "3 records")],
)
def test_headlines_show_values_with_their_unit(value, unit, text):
    audit = example()
    measures = {"l_diversity": measure("l_diversity", value, unit)}
    audit = type(audit)(**{**vars(audit), "measures": measures})
    assert headlines(audit)["Risk"][0].value == text


def test_an_audit_without_measures_has_no_headlines():
    audit = example()
    audit = type(audit)(**{**vars(audit), "measures": {}})
    assert headlines(audit) == {"Risk": (), "Utility": ()}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"age": 0.1, "bmi": 0.2}, "Change in means (bmi)"),
        ({"age": 0.0, "bmi": 0.0}, "Change in means (age and 1 more)"),
    ],
)
def test_headlines_name_the_worst_column_or_how_many_share_its_value(values, text):
    by_column = {f"mean_change.{name}": value for name, value in values.items()}
    all_values = {"mean_change": max(values.values()), **by_column}
    unit = "standard deviations"
    measures = {name: measure(name, value, unit) for name, value in all_values.items()}
    audit = type(example())(**{**vars(example()), "measures": measures})
    assert headlines(audit)["Utility"][0].label == text
