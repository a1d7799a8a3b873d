"""Surveys with several answers of one person: k counts distinct respondents."""

import numpy as np
import polars as pl
import pytest

import microcell as mc
from microcell.errors import DataError, OptionError, SchemaError, TooFewRecordsError
from tests.raising import raises
from tests.surveys.test_collecting import K, make_line


@pytest.fixture(scope="module")
def cells():
    return make_line()


def people_per_class(table, who):
    """Count distinct respondents by plain sets, tracing answers by their income."""
    members = {}
    for income, age in zip(list(table["income"]), list(table["age"]), strict=True):
        members.setdefault(age, set()).add(who[income])
    return {age: len(each) for age, each in members.items()}


@pytest.mark.parametrize("below", ["suppress", "merge"])
def test_every_published_class_has_k_respondents(cells, tmp_path, below):
    rng = np.random.default_rng(1)
    for turn in range(12):
        n = int(rng.integers(12, 40))
        persons = rng.integers(1 + n // 2, size=n)
        if len(set(persons)) < K:
            continue
        answers = pl.DataFrame(
            {
                "cell": rng.choice(4, n, p=[0.5, 0.3, 0.1, 0.1]),
                "income": np.arange(n),
                "member": [f"M{i:03}" for i in persons],
            }
        )
        result = mc.surveys.collect(cells, answers, below=below, person="member")
        counts = people_per_class(result.table, persons)
        assert min(counts.values()) >= K
        assert sorted(result.audit.class_sizes) == sorted(counts.values())
        assert result.audit["k"] == min(counts.values())
        assert "member" not in result.table.columns
        released = {persons[i] for i in result.table["income"]}
        assert result.manifest.person.count == len(released)
        if below == "merge":
            assert len(result.table) == n
        else:
            by_cell = {}
            for cell, person in zip(answers["cell"], persons, strict=True):
                by_cell.setdefault(cell, set()).add(person)
            kept = [i for i in range(n) if len(by_cell[answers["cell"][i]]) >= K]
            assert sorted(result.table["income"]) == kept
        if turn == 0:
            result.publish(tmp_path / "out.csv", report=tmp_path / "out.html")
            for file in tmp_path.iterdir():
                assert "M0" not in file.read_text()


def test_many_answers_of_few_people_are_not_published(cells):
    answers = {"cell": [0] * 9 + [1] * 3, "income": range(12), "member": [1] * 9 + [2, 3, 4]}
    result = mc.surveys.collect(cells, answers, person="member")
    assert sorted(result.table["income"]) == [9, 10, 11]
    assert result.attained.tolist() == [1, 3, 0, 0]
    merged = mc.surveys.collect(cells, answers, person="member", below="merge")
    assert people_per_class(merged.table, answers["member"]) == {10: 4}


def test_merging_counts_a_person_once(cells):
    """Both cells have the same two respondents, so they do not become three together."""
    answers = {
        "cell": [0, 0, 1, 1, 3, 3, 3],
        "income": range(7),
        "member": [1, 2, 1, 2, 5, 6, 7],
    }
    merged = mc.surveys.collect(cells, answers, person="member", below="merge")
    assert list(people_per_class(merged.table, answers["member"]).values()) == [5]


def test_errors(cells):
    answers = {"cell": [0, 0, 0], "income": [1, 2, 3], "member": ["a", "a", "b"]}
    with raises(TooFewRecordsError, "guarantee.too_few_records", records=2, unit="respondents"):
        mc.surveys.collect(cells, answers, person="member")
    with raises(OptionError, "option.conflict", option="person"):
        mc.surveys.collect(cells, answers, person="member", id="member")
    with raises(SchemaError, "schema.unknown_column", columns=("who",)):
        mc.surveys.collect(cells, answers, person="who")
    with raises(DataError, "data.bad_key", row=2, column="member"):
        mc.surveys.collect(cells, answers | {"member": ["a", None, "b"]}, person="member")


def test_candidates_are_people():
    n = 300
    frame = {"age": np.arange(n) % 71 + 18, "member": [f"M{i % 200}" for i in range(n)]}
    quasi = {"quasi": ["age"], "rest": "drop"}
    with raises(SchemaError, "schema.person_required", columns=["member"]):
        mc.surveys.design(frame, mc.Schema(identifiers=["member"], **quasi), 3, 0.5, 1e-2)
    with raises(SchemaError, "schema.invalid", columns=["member"], rows=n, distinct=200):
        mc.surveys.design(frame, mc.Schema(person="member", **quasi), 3, 0.5, 1e-2)
    single = {name: values[:200] for name, values in frame.items()}
    for schema in (mc.Schema(person="member", **quasi), mc.Schema(identifiers=["member"], **quasi)):
        assert mc.surveys.design(single, schema, 3, 0.5, 1e-2, method="mdav").labels.size == 200
