"""Collecting answers: suppression, merging and errors by row, on a hand-made example."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.cells import PowerCells
from microcell.errors import DataError, OptionError, SchemaError, TooFewRecordsError
from microcell.model import EncodedColumn, Encoding
from microcell.surveys.counting import merge_cells
from tests.raising import raises

K = 3


def make_line():
    """Return four cells on a line that publish the ages 10, 20, 30 and 80."""
    column = EncodedColumn(
        "age", "numeric", ("age",), "integer", centre=np.zeros(1), scale=np.ones(1)
    )
    survey = {
        "k": K,
        "failure": 0.5,
        "trust": "local",
        "participation": {"common": 0.5},
        "cell_failures": [0.4] * 4,
        "table_failure": 0.9,
        "unprotected": 1.0,
        "record_failure": 0.1,
        "participant_failure": 0.1,
    }
    return PowerCells(
        centroids=[[10.0], [20.0], [30.0], [80.0]],
        sizes=[9] * 4,
        k=9,
        costs=[0.0] * 4,
        encoding=Encoding((column,), 9),
        representatives={"age": [10, 20, 30, 80], "town": ["a", "b", "b", "01"]},
        survey=survey,
    )


@pytest.fixture(scope="module")
def cells():
    return make_line()


def rows_of(table):
    return sorted(
        zip(*(np.asarray(table[name]).tolist() for name in ("income", "age", "town")), strict=True)
    )


def test_short_cells_are_suppressed(cells):
    answers = {"cell": [0, 1, 1, 1, 3, 3, 3, 3, 0], "income": np.arange(9)}
    result = mc.surveys.collect(cells, answers)
    assert rows_of(result.table) == [
        *((i, 20, "b") for i in (1, 2, 3)),
        *((i, 80, "01") for i in (4, 5, 6, 7)),
    ]
    assert result.attained.tolist() == [2, 3, 0, 4]
    records = result.manifest.records
    assert (records.read, records.released, records.dropped) == (9, 7, 2)
    survey = result.manifest.survey
    assert (survey.cells_designed, survey.cells_empty, survey.cells_short) == (4, 1, 1)
    assert result.manifest.cells.count == 2
    assert result.audit["k"] == 3


def test_short_cells_are_merged_with_the_nearest(cells):
    answers = {"cell": [0, 1, 1, 1, 3, 3, 3, 3, 0], "income": np.arange(9)}
    result = mc.surveys.collect(cells, answers, below="merge")
    assert rows_of(result.table) == [
        *((i, 20, "b") for i in (0, 1, 2, 3)),
        *((i, 80, "01") for i in (4, 5, 6, 7)),
        (8, 20, "b"),
    ]
    assert result.audit["k"] == 4
    assert result.manifest.records.dropped == 0


def test_representatives_instead_of_cell_numbers(cells):
    by_number = mc.surveys.collect(cells, {"cell": [3, 3, 3, 1, 1, 1], "income": np.arange(6)})
    answers = {
        "age": [80, 80, 80, 20, 20, 20],
        "town": ["01"] * 3 + ["b"] * 3,
        "income": np.arange(6),
    }
    assert rows_of(mc.surveys.collect(cells, answers).table) == rows_of(by_number.table)
    assert rows_of(mc.surveys.collect(cells, pl.DataFrame(answers)).table) == rows_of(
        by_number.table
    )
    with raises(DataError, "data.unknown_category", row=2):
        mc.surveys.collect(cells, {**answers, "age": [80, 81, 20, 20, 20, 20]})


def test_answers_with_only_a_cell(cells):
    for answers in (
        {"cell": [3] * 4},
        {"age": [80] * 4, "town": ["01"] * 4},
        {"cell": [3] * 4, "design": [cells.digest] * 4},
    ):
        for table in (answers, pl.DataFrame(answers)):
            result = mc.surveys.collect(cells, table)
            assert list(result.released.names) == ["age", "town"]
            assert result.released.rows == 4


def test_values_that_the_cell_does_not_publish_are_refused(cells):
    answers = {
        "cell": [3] * 4,
        "age": [77, 78, 79, 81],
        "town": list("wxyz"),
        "income": np.arange(4),
    }
    for name, count in (("age", 4), ("town", 4)):
        sent = {other: answers[other] for other in ("cell", "income", name)}
        for table in (sent, pl.DataFrame(sent)):
            with raises(DataError, "table.mismatch", column=name, row=1, count=count) as caught:
                mc.surveys.collect(cells, table)
            assert "77" not in str(caught.value)
    agreeing = {**answers, "age": [80.0, 80, 80, None], "town": ["01", "", "01", "01"]}
    result = mc.surveys.collect(cells, pl.DataFrame(agreeing, strict=False))
    assert set(np.asarray(result.table["age"]).tolist()) == {80}
    assert set(np.asarray(result.table["town"]).tolist()) == {"01"}


def test_ids_and_dropped_columns_are_not_published(cells):
    answers = {"token": list("pqrs"), "cell": [3] * 4, "note": list("abcd"), "income": np.arange(4)}
    result = mc.surveys.collect(
        cells, {**answers, "design": [cells.digest] * 4}, id="token", drop=["note"]
    )
    assert set(result.table) == {"income", "age", "town"}
    assert "token" not in result.manifest.to_json()


def test_a_pandas_index_does_not_reveal_the_order_of_the_answers(cells):
    answers = pd.DataFrame({"cell": [0] * 6, "income": range(6)}, index=list("abcdef"))
    table = mc.surveys.collect(cells, answers).table
    assert list(table.index) == list(range(6))
    assert sorted(table["income"]) == list(range(6))


def test_publish_to_a_file(cells, tmp_path):
    answers = pl.DataFrame({"cell": [3, 3, 3, 1, 1, 1], "income": range(6)})
    result = mc.surveys.collect(cells, answers).publish(tmp_path / "out.csv")
    assert pl.read_csv(tmp_path / "out.csv", schema_overrides={"town": pl.String}).height == 6
    assert json.loads((tmp_path / "out.csv.manifest.json").read_text())["k"] == K
    assert result.manifest.output.rows == 6


def test_report_has_no_measures_that_need_an_original(cells):
    result = mc.surveys.collect(cells, {"cell": [3, 3, 3, 1], "income": range(4)})
    page = result.render()
    assert "<html" in page
    assert "records_dropped" not in page


@pytest.mark.parametrize(
    ("change", "code", "details"),
    [
        ({"cell": [3, 3, 4, 3]}, "data.unknown_category", {"column": "cell", "row": 3}),
        ({"cell": [3, -1, 1.5, 3]}, "data.unknown_category", {"column": "cell", "row": 2}),
        ({"cell": [3, None, 3, 3]}, "data.unknown_category", {"column": "cell", "row": 2}),
        ({"cell": list("3333")}, "data.not_a_number", {"column": "cell"}),
        ({"token": list("pqpp")}, "data.bad_key", {"column": "token", "row": 3}),
        ({"token": ["p", None, "q", "r"]}, "data.bad_key", {"column": "token", "row": 2}),
        ({"design": ["other"] * 4}, "table.mismatch", {"column": "design", "row": 1}),
        ({"design": [1, 2, 3, 4]}, "data.invalid", {"column": "design"}),
    ],
)
def test_invalid_answers_are_named_by_row(change, code, details, cells):
    answers = {"token": list("pqrs"), "cell": [3] * 4, "income": np.arange(4), **change}
    with raises(DataError, code, **details):
        mc.surveys.collect(cells, answers, id="token")


def test_only_the_first_invalid_rows_are_listed(cells):
    with raises(DataError, "data.unknown_category", row=1) as caught:
        mc.surveys.collect(cells, {"cell": [9] * 15})
    assert str(caught.value) == (
        "Column 'cell' is not a cell number from 0 to 3 in rows 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 "
        "and 5 more. Correct or remove them; nothing was released."
    )


@pytest.mark.parametrize("numbers", [[0, 0], [], [0, 0, 1, 1]])
def test_too_few_answers(numbers, cells):
    with raises(TooFewRecordsError, "guarantee.too_few_records", k=K):
        mc.surveys.collect(cells, {"cell": np.array(numbers, dtype=int)})


@pytest.mark.parametrize(
    ("answers", "options", "error", "code"),
    [
        ({"cell": [0] * 4}, {"below": "publish"}, OptionError, "option.unknown"),
        ({"cell": [0] * 4}, {"id": "token"}, SchemaError, "schema.unknown_column"),
        ({"cell": [0] * 4}, {"drop": "cell"}, OptionError, "option.wrong_type"),
        ({"cell": [0] * 4}, {"drop": ["x"]}, SchemaError, "schema.unknown_column"),
        ({"cell": [0] * 4, "age": [1] * 4}, {"drop": ["age"]}, OptionError, "option.conflict"),
        ({"age": [10] * 4}, {}, SchemaError, "schema.unknown_column"),
    ],
)
def test_invalid_requests(answers, options, error, code, cells):
    with raises(error, code):
        mc.surveys.collect(cells, answers, **options)


def test_merging_all_cells(cells):
    result = mc.surveys.collect(cells, {"cell": [0, 1, 2, 3], "income": range(4)}, below="merge")
    assert result.audit["k"] == 4
    assert result.manifest.cells.count == 1


@given(st.lists(st.integers(0, 3), min_size=K, max_size=40), st.sampled_from(["suppress", "merge"]))
def test_release_is_k_anonymous_and_drops_only_short_cells(numbers, below):
    cells = make_line()
    answers = {"cell": numbers, "income": np.arange(len(numbers))}
    counts = np.bincount(numbers, minlength=4)
    enough = counts[counts >= K].sum()
    if below == "suppress" and enough == 0:
        with raises(mc.errors.TooFewRecordsError, "guarantee.too_few_records", k=3):
            mc.surveys.collect(cells, answers)
        return
    result = mc.surveys.collect(cells, answers, below=below)
    _, sizes = np.unique(np.asarray(result.table["age"]), return_counts=True)
    assert sizes.min() >= K
    kept = np.asarray(result.table["income"])
    assert len(kept) == (len(numbers) if below == "merge" else enough)
    assert len(np.unique(kept)) == len(kept)


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=12), st.integers(2, 5), st.integers(0, 10**6)
)
def test_merging_leaves_no_short_group(attained, k, seed):
    counts = np.array(attained)
    if counts.sum() < k:
        return
    centroids = np.random.default_rng(seed).normal(size=(len(counts), 2))
    merged = merge_cells(centroids, counts, k)
    assert ((merged >= 0) == (counts > 0)).all()
    for group in np.unique(merged[merged >= 0]):
        assert counts[merged == group].sum() >= k
        assert merged[group] == group
    plenty = (counts >= k).all()
    assert not plenty or np.array_equal(merged, np.arange(len(counts)))


@pytest.mark.parametrize("words", [("True", "False"), ("true", "false"), (True, False)])
def test_boolean_representatives_in_any_spelling(cells, words, tmp_path):
    with_booleans = replace(
        cells, representatives={**cells.representatives, "member": [True, False, True, False]}
    )
    answers = pl.DataFrame(
        {"age": [10] * 3 + [80] * 3, "town": ["a"] * 3 + ["01"] * 3, "income": range(6)}
    )
    answers = answers.with_columns(pl.Series("member", [words[0]] * 3 + [words[1]] * 3))
    assert mc.surveys.collect(with_booleans, answers).attained.tolist() == [3, 0, 0, 3]
    answers.write_csv(tmp_path / "answers.csv")
    assert mc.surveys.collect(with_booleans, tmp_path / "answers.csv").attained.tolist() == [
        3,
        0,
        0,
        3,
    ]


def test_date_representatives_in_any_spelling(cells, tmp_path):
    moments = ["2020-01-01T00:00:00", "2020-01-01T09:30:00", "2020-01-02", "2020-01-03"]
    with_times = replace(cells, representatives={**cells.representatives, "seen": moments})
    answers = tmp_path / "answers.csv"
    for first, last in (
        ("2020-01-01", "2020-01-03"),
        ("2020-01-01T00:00:00", "2020-01-03 00:00:00"),
    ):
        answers.write_text("age,town,seen\n" + 3 * f"10,a,{first}\n" + 3 * f"80,01,{last}\n")
        assert mc.surveys.collect(with_times, answers).attained.tolist() == [3, 0, 0, 3]


def test_publish_never_overwrites_the_answers_or_a_file_twice(cells, tmp_path):
    source = tmp_path / "answers.csv"
    source.write_text("cell,income\n3,1\n3,2\n3,3\n")
    result = mc.surveys.collect(cells, source)
    release = tmp_path / "release.csv"
    with raises(mc.errors.TableError, "table.exists"):
        result.publish(source)
    for report in (source, tmp_path / "release.csv.manifest.json", release):
        with raises(mc.errors.OptionError, "option.unsupported"):
            result.publish(release, report=report)
    assert source.read_text() == "cell,income\n3,1\n3,2\n3,3\n"
    assert list(tmp_path.iterdir()) == [source]
