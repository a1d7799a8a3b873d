"""Assigning further records to the cells of a release: results, unknown values, errors."""

import datetime
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import binomtest

import microcell as mc
from tests.raising import raises

K = 5


def people(n=150, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "name": np.array([f"person {i}" for i in range(n)], dtype=object),
        "age": np.round(rng.normal(50, 12, n), 3),
        "bmi": np.round(rng.normal(25, 4, n), 3),
        "sex": rng.choice(["female", "male"], n).astype(object),
        "zip": np.array([f"{code:05d}" for code in rng.integers(94100, 94106, n)], dtype=object),
        "tsh": np.round(rng.lognormal(0.5, 0.6, n), 2),
    }


SCHEMA = mc.Schema(
    identifiers=["name"],
    quasi=["age", "bmi", mc.Column("sex", kind="nominal"), mc.Column("zip", kind="code")],
    confidential=["tsh"],
)
KEYS = ["age", "bmi", "sex", "zip"]


@pytest.fixture(scope="module")
def release():
    return mc.anonymize(people(), SCHEMA, k=K, method="mdav", cells=True)


def published(table, names=KEYS):
    return pl.DataFrame({name: list(table[name]) for name in names})


# ------------------------------------------------------------------------------------ known records


@pytest.mark.parametrize("method", ["mdav", "vmdav", "bisect", "pcl", "auto"])
def test_records_of_the_release_get_their_cells(method):
    release = mc.anonymize(people(), SCHEMA, k=K, method=method, cells=True)
    done = mc.assign(release.cells, people())
    np.testing.assert_array_equal(done.labels, release.partition.labels)
    assert published(done.table).equals(published(release.table))
    assert done.table["cell"].tolist() == done.labels.tolist()
    assert done.smallest == release.manifest.cells.smallest
    assert done.unknown == {}


def test_shares_of_fresh_records_have_wilson_intervals(release):
    done = mc.assign(release.cells, people(60, seed=1))
    sizes = np.bincount(release.partition.labels)
    np.testing.assert_allclose(done.attained.designed, sizes / 150)
    counts = np.bincount(done.labels, minlength=len(sizes))
    outside = 0
    for cell, count in enumerate(counts.tolist()):
        low, high = binomtest(count, 60).proportion_ci(0.95, method="wilson")
        assert done.attained.shares[cell] == pytest.approx(count / 60)
        assert (done.attained.low[cell], done.attained.high[cell]) == pytest.approx((low, high))
        outside += not low <= sizes[cell] / 150 <= high
    assert done.attained.outside == outside


@pytest.mark.parametrize("kind", ["balls", "lookup"])
def test_other_kinds_of_cells_give_the_same_labels(kind):
    release = mc.anonymize(people(), SCHEMA, k=K, method="mdav", cells=kind)
    done = mc.assign(release.cells, people())
    np.testing.assert_array_equal(done.labels, release.partition.labels)
    assert published(done.table).equals(published(release.table))


def test_macrocells_are_reported():
    release = mc.anonymize(people(600), SCHEMA, k=K, method="pcl", prepartition=3, cells=True)
    assert len(release.cells.chooser) == 3
    np.testing.assert_array_equal(
        mc.assign(release.cells, people(600)).labels, release.partition.labels
    )


def test_cells_can_be_given_as_a_file(release, tmp_path):
    path = tmp_path / "cells.json"
    release.cells.save(path)
    for cells in (path, str(path), mc.load_cells(path)):
        done = mc.assign(cells, people())
        assert done.unknown == {}
        np.testing.assert_array_equal(done.labels, release.partition.labels)


def test_each_record_is_placed_independently(release):
    table = people(seed=3)
    whole = mc.assign(release.cells, table).labels
    for row in (0, 7, 149):
        one = {name: column[row : row + 1] for name, column in table.items()}
        assert mc.assign(release.cells, one).labels.tolist() == [whole[row]]


def test_a_new_record_gets_the_representative_of_the_nearest_cell(release):
    for cell in (0, 3, len(release.cells) - 1):
        members = np.flatnonzero(release.partition.labels == cell)
        one = {name: column[members[:1]] for name, column in people().items()}
        table = mc.assign(release.cells, one).table
        assert {name: table[name][0] for name in KEYS} == {
            name: release.cells.representatives[name][cell] for name in KEYS
        }


# ---------------------------------------------------------------------------------------- the table


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table, dict], ids=["pandas", "polars", "arrow", "dict"]
)
def test_the_result_has_the_type_of_the_source(release, make):
    source = make(people(20, seed=1))
    done = mc.assign(release.cells, source)
    assert type(done.table) is type(source)
    assert list(done.assigned.names) == [*KEYS, "cell"]
    assert done.assigned.rows == 20
    if isinstance(source, pd.DataFrame):
        assert done.table.index.equals(source.index)


def test_only_the_quasi_identifiers_are_needed(release):
    few = {name: people()[name] for name in reversed(KEYS)}
    np.testing.assert_array_equal(mc.assign(release.cells, few).labels, release.partition.labels)


def test_other_columns_are_omitted_unless_kept(release):
    assert "name" not in mc.assign(release.cells, people()).table
    kept = mc.assign(release.cells, people(), keep=["tsh"])
    assert list(kept.assigned.names) == [*KEYS, "tsh", "cell"]
    assert kept.table["tsh"].tolist() == people()["tsh"].tolist()


def test_a_quasi_identifier_is_replaced_even_if_kept(release):
    kept = mc.assign(release.cells, people(), keep=["age"])
    assert published(kept.table).equals(published(release.table))


def test_numbers_stay_numbers_and_the_rest_is_text():
    days = [datetime.date(2000, 1, 1) + datetime.timedelta(days=37 * i) for i in range(40)]
    frame = pl.DataFrame(
        {"age": np.arange(40) % 13 + 20, "born": days, "member": [True, False] * 20}
    )
    release = mc.anonymize(frame, mc.Schema(quasi=frame.columns), k=4, cells=True)
    table = mc.assign(release.cells, frame).table
    assert table.schema == {
        "age": pl.Int64,
        "born": pl.String,
        "member": pl.String,
        "cell": pl.Int64,
    }
    assert table["born"].str.to_date().equals(release.table["born"])


def test_days_are_written_as_in_the_release(tmp_path):
    days = [datetime.datetime(2000, 1, 1) + datetime.timedelta(days=37 * i) for i in range(40)]
    frame = pl.DataFrame({"age": np.arange(40) % 13 + 20, "born": days})
    release = mc.anonymize(frame, mc.Schema(quasi=frame.columns), k=4, cells=True)
    mc.publish(release, tmp_path / "out.csv", keep_order=True)
    output = mc.assign(release.cells, frame).table["born"]
    assert output.to_list() == pl.read_csv(tmp_path / "out.csv")["born"].to_list()


def test_smallest_counts_only_cells_with_records(release):
    one = {name: column[:1] for name, column in people().items()}
    assert mc.assign(release.cells, one).smallest == 1


# ----------------------------------------------------------------------- unknown and missing values


def test_unknown_values_are_counted(release):
    table = people(20, seed=1)
    table["sex"][:3] = "other"
    table["zip"][0] = "10001"
    done = mc.assign(release.cells, table)
    assert done.unknown == {"sex": 3, "zip": 1}
    assert done.assigned.rows == 20
    assert set(done.table["sex"]) <= {"female", "male"}


def test_rare_categories_are_known_in_memory_but_not_in_a_file(tmp_path):
    table = people()
    table["sex"][7] = "nonbinary"
    release = mc.anonymize(table, SCHEMA, k=K, method="mdav", cells=True)
    release.cells.save(tmp_path / "cells.json")
    assert mc.assign(release.cells, table).unknown == {}
    from_file = mc.assign(tmp_path / "cells.json", table)
    assert from_file.unknown == {"sex": 1}
    others = np.arange(150) != 7
    np.testing.assert_array_equal(from_file.labels[others], release.partition.labels[others])


def test_missing_values_are_rejected_or_placed_at_the_mean(release):
    frame = pl.DataFrame(people()).with_columns(
        pl.when(pl.int_range(pl.len()) < 4).then(None).otherwise(pl.col("age")).alias("age"),
        pl.when(pl.int_range(pl.len()) < 2).then(None).otherwise(pl.col("sex")).alias("sex"),
    )
    with raises(mc.errors.DataError, "data.missing_values", columns=["age", "sex"]):
        mc.assign(release.cells, frame)
    done = mc.assign(release.cells, frame, missing="impute")
    assert done.table.null_count().sum_horizontal().item() == 0
    np.testing.assert_array_equal(done.labels[4:], release.partition.labels[4:])


# ------------------------------------------------------------------------------------ invalid input


@pytest.mark.parametrize(
    ("options", "error", "code"),
    [
        ({"keep": ["income"]}, mc.errors.TableError, "schema.unknown_column"),
        ({"keep": "tsh"}, mc.errors.OptionError, "option.wrong_type"),
        ({"missing": "drop"}, mc.errors.OptionError, "option.unknown"),
    ],
)
def test_invalid_options_are_rejected(release, options, error, code):
    with raises(error, code):
        mc.assign(release.cells, people(), **options)


def test_tables_that_do_not_match_are_rejected(release):
    table = people(20)
    with raises(mc.errors.SchemaError, "schema.unknown_column", columns=("bmi",)) as caught:
        mc.assign(
            release.cells,
            {"bmis" if name == "bmi" else name: column for name, column in table.items()},
        )
    assert "Did you mean 'bmis' by 'bmi'?" in str(caught.value)
    with raises(mc.errors.SchemaError, "schema.wrong_kind", column="age", row=1):
        mc.assign(release.cells, {**table, "age": table["name"]})
    with raises(mc.errors.DataError, "data.empty"):
        mc.assign(release.cells, {name: column[:0] for name, column in table.items()})
    with raises(mc.errors.TableError, "table.bad_names", column="cell"):
        mc.assign(release.cells, {**table, "cell": np.arange(20)}, keep=["cell"])


def test_a_column_named_cell_is_ignored_unless_kept(release):
    table = people(20)
    table["cell"] = np.full(20, 99)
    assert 99 not in mc.assign(release.cells, table).table["cell"]


def test_objects_that_are_not_cells_and_cells_of_points_are_rejected(release):
    with raises(mc.errors.OptionError, "option.wrong_type", option="cells"):
        mc.assign(release, people())
    points = mc.pcl(np.random.default_rng(0).normal(size=(40, 2)), 5).cells
    with raises(mc.errors.OptionError, "option.unsupported", option="cells"):
        mc.assign(points, people())


def test_an_altered_file_is_rejected(release, tmp_path):
    path = tmp_path / "cells.json"
    release.cells.save(path)
    content = json.loads(path.read_text())
    content["cells"]["costs"][0] += 1.0
    path.write_text(json.dumps(content))
    with raises(mc.errors.TableError, "table.malformed", path=str(path)):
        mc.assign(path, people())


def test_errors_show_no_value(release):
    table = people(20)
    table["age"] = np.array(["S3CR3T"] * 20, dtype=object)
    with raises(mc.errors.SchemaError, "schema.wrong_kind", column="age", row=1) as caught:
        mc.assign(release.cells, table)
    assert "S3CR3T" not in str(caught.value)


def test_progress_is_reported(release):
    output = []
    with mc.listen(lambda task, *_: output.append(task)):
        mc.assign(release.cells, people())
    assert {"reading", "assigning"} <= set(output)
