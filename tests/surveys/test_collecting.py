"""Collections: hand-made answers, what is left out or merged, and what is refused by row."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import microcell as mc
from microcell.cells import PowerCells
from microcell.model import EncodedColumn, Encoding
from microcell.surveys.collection import merge_cells

K = 3


def make_line():
    """Four cells on a line, at 10, 20, 30 and 80, in which ages are published so."""
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
    found = mc.surveys.collect_survey(cells, answers)
    assert rows_of(found.table) == [
        *((i, 20, "b") for i in (1, 2, 3)),
        *((i, 80, "01") for i in (4, 5, 6, 7)),
    ]
    assert found.attained.tolist() == [2, 3, 0, 4]
    assert found.manifest["answers"] == {"in": 9, "out": 7, "suppressed": 2}
    assert found.manifest["cells"] == {"designed": 4, "empty": 1, "short": 1, "published": 2}
    assert found.audit["k"] == 3


def test_short_cells_are_merged_with_the_nearest(cells):
    answers = {"cell": [0, 1, 1, 1, 3, 3, 3, 3, 0], "income": np.arange(9)}
    found = mc.surveys.collect_survey(cells, answers, below="merge")
    assert rows_of(found.table) == [
        *((i, 20, "b") for i in (0, 1, 2, 3)),
        *((i, 80, "01") for i in (4, 5, 6, 7)),
        (8, 20, "b"),
    ]
    assert found.audit["k"] == 4
    assert found.manifest["answers"]["suppressed"] == 0


def test_representatives_do_in_place_of_numbers(cells):
    by_number = mc.surveys.collect_survey(
        cells, {"cell": [3, 3, 3, 1, 1, 1], "income": np.arange(6)}
    )
    told = {"age": [80, 80, 80, 20, 20, 20], "town": ["01"] * 3 + ["b"] * 3, "income": np.arange(6)}
    assert rows_of(mc.surveys.collect_survey(cells, told).table) == rows_of(by_number.table)
    assert rows_of(mc.surveys.collect_survey(cells, pl.DataFrame(told)).table) == rows_of(
        by_number.table
    )
    with pytest.raises(mc.errors.DataError, match="in rows 2, 3"):
        mc.surveys.collect_survey(cells, {**told, "age": [80, 81, 20, 20, 20, 20]})


def test_answers_that_are_nothing_but_cells_are_released(cells):
    for answers in (
        {"cell": [3] * 4},
        {"age": [80] * 4, "town": ["01"] * 4},
        {"cell": [3] * 4, "design": [cells.digest] * 4},
    ):
        for table in (answers, pl.DataFrame(answers)):
            found = mc.surveys.collect_survey(cells, table)
            assert list(found.released.names) == ["age", "town"]
            assert found.released.rows == 4


def test_original_values_that_came_along_are_replaced(cells):
    answers = {
        "cell": [3] * 4,
        "age": [77, 78, 79, 81],
        "town": list("wxyz"),
        "income": np.arange(4),
    }
    found = mc.surveys.collect_survey(cells, answers)
    assert set(np.asarray(found.table["age"]).tolist()) == {80}
    assert set(np.asarray(found.table["town"]).tolist()) == {"01"}


def test_tokens_and_what_is_dropped_are_left_out(cells):
    answers = {"token": list("pqrs"), "cell": [3] * 4, "note": list("abcd"), "income": np.arange(4)}
    found = mc.surveys.collect_survey(
        cells, {**answers, "design": [cells.digest] * 4}, id="token", drop=["note"]
    )
    assert set(found.table) == {"income", "age", "town"}
    assert "token" not in json.dumps(found.manifest)


def test_columns_of_text_with_a_missing_representative_go_to_files(cells, tmp_path):
    answers = pl.DataFrame({"cell": [3, 3, 3, 1, 1, 1], "income": range(6)})
    found = mc.surveys.write_collection(
        mc.surveys.collect_survey(cells, answers), tmp_path / "out.csv"
    )
    assert pl.read_csv(tmp_path / "out.csv", schema_overrides={"town": pl.String}).height == 6
    assert json.loads((tmp_path / "out.csv.manifest.json").read_text())["k"] == K
    assert found.manifest["output"]["rows"] == 6


def test_the_report_is_a_page_without_cell_counts_of_short_cells(cells):
    found = mc.surveys.collect_survey(cells, {"cell": [3, 3, 3, 1], "income": range(4)})
    page = mc.surveys.render_collection(found)
    assert "<html" in page
    assert "records_dropped" not in page


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"cell": [3, 3, 4, 3]}, mc.errors.DataError, "0 to 3 in row 3"),
        ({"cell": [3, -1, 1.5, 3]}, mc.errors.DataError, "in rows 2, 3"),
        ({"cell": [3, None, 3, 3]}, mc.errors.DataError, "in row 2"),
        ({"cell": list("3333")}, mc.errors.DataError, "not text"),
        ({"token": list("pqpp")}, mc.errors.DataError, "answered before in rows 3, 4"),
        ({"token": ["p", None, "q", "r"]}, mc.errors.DataError, "missing in row 2"),
        ({"design": ["other"] * 4}, mc.errors.DataError, "not of this design in rows 1, 2, 3, 4"),
        ({"design": [1, 2, 3, 4]}, mc.errors.DataError, "digest"),
    ],
)
def test_wrong_answers_are_refused_by_row(change, error, said, cells):
    answers = {"token": list("pqrs"), "cell": [3] * 4, "income": np.arange(4), **change}
    with pytest.raises(error, match=said):
        mc.surveys.collect_survey(cells, answers, id="token")


def test_many_rows_are_counted_and_not_listed(cells):
    with pytest.raises(mc.errors.DataError, match=r"rows 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 5 more"):
        mc.surveys.collect_survey(cells, {"cell": [9] * 15})


@pytest.mark.parametrize(
    ("answers", "options", "error", "said"),
    [
        ({"cell": [0, 0]}, {}, mc.errors.TooFewRecordsError, "2 answers in all"),
        ({"cell": np.zeros(0, dtype=int)}, {}, mc.errors.TooFewRecordsError, "0 answers in all"),
        ({"cell": [0, 0, 1, 1]}, {}, mc.errors.TooFewRecordsError, "No cell got"),
        ({"cell": [0] * 4}, {"below": "publish"}, mc.errors.OptionError, "below"),
        ({"cell": [0] * 4}, {"id": "token"}, mc.errors.SchemaError, "'token'"),
        ({"cell": [0] * 4}, {"drop": "cell"}, mc.errors.OptionError, "list"),
        ({"cell": [0] * 4}, {"drop": ["x"]}, mc.errors.SchemaError, "'x'"),
        ({"cell": [0] * 4, "age": [1] * 4}, {"drop": ["age"]}, mc.errors.OptionError, "'age'"),
        ({"age": [10] * 4}, {}, mc.errors.SchemaError, "'town'"),
    ],
)
def test_wrong_requests_are_refused(answers, options, error, said, cells):
    with pytest.raises(error, match=said):
        mc.surveys.collect_survey(cells, answers, **options)


def test_cells_of_too_few_answers_can_all_be_merged(cells):
    found = mc.surveys.collect_survey(
        cells, {"cell": [0, 1, 2, 3], "income": range(4)}, below="merge"
    )
    assert found.audit["k"] == 4
    assert found.manifest["cells"]["published"] == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=K, max_size=40), st.sampled_from(["suppress", "merge"]))
def test_the_release_is_k_anonymous_and_loses_only_what_it_says(numbers, below):
    made = make_line()
    answers = {"cell": numbers, "income": np.arange(len(numbers))}
    counts = np.bincount(numbers, minlength=4)
    enough = counts[counts >= K].sum()
    if below == "suppress" and enough == 0:
        with pytest.raises(mc.errors.TooFewRecordsError):
            mc.surveys.collect_survey(made, answers)
        return
    found = mc.surveys.collect_survey(made, answers, below=below)
    _, sizes = np.unique(np.asarray(found.table["age"]), return_counts=True)
    assert sizes.min() >= K
    kept = np.asarray(found.table["income"])
    assert len(kept) == (len(numbers) if below == "merge" else enough)
    assert len(np.unique(kept)) == len(kept)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=12), st.integers(2, 5), st.integers(0, 10**6)
)
def test_merging_leaves_no_group_short_and_no_cell_alone(attained, k, seed):
    counts = np.array(attained)
    if counts.sum() < k:
        return
    centroids = np.random.default_rng(seed).normal(size=(len(counts), 2))
    into = merge_cells(centroids, counts, k)
    assert ((into >= 0) == (counts > 0)).all()
    for group in np.unique(into[into >= 0]):
        assert counts[into == group].sum() >= k
        assert into[group] == group
    plenty = (counts >= k).all()
    assert not plenty or np.array_equal(into, np.arange(len(counts)))


@pytest.mark.parametrize("words", [("True", "False"), ("true", "false"), (True, False)])
def test_truths_of_representatives_are_known_however_they_are_written(cells, words, tmp_path):
    with_truths = replace(
        cells, representatives={**cells.representatives, "member": [True, False, True, False]}
    )
    answers = pl.DataFrame(
        {"age": [10] * 3 + [80] * 3, "town": ["a"] * 3 + ["01"] * 3, "income": range(6)}
    )
    answers = answers.with_columns(pl.Series("member", [words[0]] * 3 + [words[1]] * 3))
    assert mc.surveys.collect_survey(with_truths, answers).attained.tolist() == [3, 0, 0, 3]
    answers.write_csv(tmp_path / "answers.csv")
    assert mc.surveys.collect_survey(with_truths, tmp_path / "answers.csv").attained.tolist() == [
        3,
        0,
        0,
        3,
    ]


def test_days_of_representatives_are_known_however_they_are_written(cells, tmp_path):
    told = ["2020-01-01T00:00:00", "2020-01-01T09:30:00", "2020-01-02", "2020-01-03"]
    with_times = replace(cells, representatives={**cells.representatives, "seen": told})
    answers = tmp_path / "answers.csv"
    for first, last in (
        ("2020-01-01", "2020-01-03"),
        ("2020-01-01T00:00:00", "2020-01-03 00:00:00"),
    ):
        answers.write_text("age,town,seen\n" + 3 * f"10,a,{first}\n" + 3 * f"80,01,{last}\n")
        assert mc.surveys.collect_survey(with_times, answers).attained.tolist() == [3, 0, 0, 3]


def test_a_release_is_never_written_over_its_answers_or_twice(cells, tmp_path):
    source = tmp_path / "answers.csv"
    source.write_text("cell,income\n3,1\n3,2\n3,3\n")
    found = mc.surveys.collect_survey(cells, source)
    release = tmp_path / "release.csv"
    manifest = tmp_path / "release.csv.manifest.json"
    for target, beside in (
        (source, {}),
        (release, {source: "x"}),
        (release, {manifest: "x"}),
        (release, {release: "x"}),
    ):
        with pytest.raises(mc.errors.TableError):
            mc.surveys.write_collection(found, target, beside=beside)
    assert source.read_text() == "cell,income\n3,1\n3,2\n3,3\n"
    assert list(tmp_path.iterdir()) == [source]
