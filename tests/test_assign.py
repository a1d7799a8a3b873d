"""Further records to the cells of a release: the same cells again, what is strange, what is refused, what comes out."""

import datetime
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

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


# ---------------------------------------------------------------------------------------------- the same records again


@pytest.mark.parametrize("method", ["mdav", "vmdav", "bisect", "pcl", "auto"])
def test_the_records_of_the_release_get_its_cells_again(method):
    release = mc.anonymize(people(), SCHEMA, k=K, method=method, cells=True)
    done = mc.assign(release.cells, people())
    np.testing.assert_array_equal(done.labels, release.partition.labels)
    assert published(done.table).equals(published(release.table))
    assert done.table["cell"].tolist() == done.labels.tolist()
    assert done.smallest == release.manifest.cells.smallest
    assert done.unknown == {}


@pytest.mark.parametrize("kind", ["balls", "lookup"])
def test_other_kinds_give_their_cells_again(kind):
    release = mc.anonymize(people(), SCHEMA, k=K, method="mdav", cells=kind)
    done = mc.assign(release.cells, people())
    np.testing.assert_array_equal(done.labels, release.partition.labels)
    assert published(done.table).equals(published(release.table))


def test_macrocells_are_told_too():
    release = mc.anonymize(people(600), SCHEMA, k=K, method="pcl", prepartition=3, cells=True)
    assert len(release.cells.chooser) == 3
    np.testing.assert_array_equal(
        mc.assign(release.cells, people(600)).labels, release.partition.labels
    )


def test_a_file_and_its_path_serve_as_well(release, tmp_path):
    path = tmp_path / "cells.json"
    release.cells.save(path)
    for cells in (path, str(path), mc.load_cells(path)):
        done = mc.assign(cells, people())
        assert done.unknown == {}
        np.testing.assert_array_equal(done.labels, release.partition.labels)


def test_each_record_is_placed_on_its_own(release):
    table = people(seed=3)
    whole = mc.assign(release.cells, table).labels
    for row in (0, 7, 149):
        one = {name: column[row : row + 1] for name, column in table.items()}
        assert mc.assign(release.cells, one).labels.tolist() == [whole[row]]


def test_a_newcomer_gets_what_the_nearest_cell_publishes(release):
    for cell in (0, 3, len(release.cells) - 1):
        members = np.flatnonzero(release.partition.labels == cell)
        one = {name: column[members[:1]] for name, column in people().items()}
        table = mc.assign(release.cells, one).table
        assert {name: table[name][0] for name in KEYS} == {
            name: release.cells.representatives[name][cell] for name in KEYS
        }


# ---------------------------------------------------------------------------------------------- the table


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table, dict], ids=["pandas", "polars", "arrow", "dict"]
)
def test_the_same_kind_of_frame_comes_back(release, make):
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


def test_other_columns_are_left_out_unless_they_are_to_be_kept(release):
    assert "name" not in mc.assign(release.cells, people()).table
    kept = mc.assign(release.cells, people(), keep=["tsh"])
    assert list(kept.assigned.names) == [*KEYS, "tsh", "cell"]
    assert kept.table["tsh"].tolist() == people()["tsh"].tolist()


def test_a_quasi_identifier_is_replaced_even_if_it_is_to_be_kept(release):
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


def test_days_are_told_as_the_release_writes_them(tmp_path):
    days = [datetime.datetime(2000, 1, 1) + datetime.timedelta(days=37 * i) for i in range(40)]
    frame = pl.DataFrame({"age": np.arange(40) % 13 + 20, "born": days})
    release = mc.anonymize(frame, mc.Schema(quasi=frame.columns), k=4, cells=True)
    mc.publish(release, tmp_path / "out.csv", keep_order=True)
    told = mc.assign(release.cells, frame).table["born"]
    assert told.to_list() == pl.read_csv(tmp_path / "out.csv")["born"].to_list()


def test_smallest_counts_the_cells_that_have_records(release):
    one = {name: column[:1] for name, column in people().items()}
    assert mc.assign(release.cells, one).smallest == 1


# ---------------------------------------------------------------------------------------------- strange and missing


def test_values_that_the_cells_do_not_know_are_counted(release):
    table = people(20, seed=1)
    table["sex"][:3] = "other"
    table["zip"][0] = "10001"
    done = mc.assign(release.cells, table)
    assert done.unknown == {"sex": 3, "zip": 1}
    assert done.assigned.rows == 20
    assert set(done.table["sex"]) <= {"female", "male"}


def test_rare_categories_are_strange_to_a_file_and_known_in_memory(tmp_path):
    table = people()
    table["sex"][7] = "nonbinary"
    release = mc.anonymize(table, SCHEMA, k=K, method="mdav", cells=True)
    release.cells.save(tmp_path / "cells.json")
    assert mc.assign(release.cells, table).unknown == {}
    from_file = mc.assign(tmp_path / "cells.json", table)
    assert from_file.unknown == {"sex": 1}
    others = np.arange(150) != 7
    np.testing.assert_array_equal(from_file.labels[others], release.partition.labels[others])


def test_missing_values_are_refused_or_placed_at_the_mean(release):
    frame = pl.DataFrame(people()).with_columns(
        pl.when(pl.int_range(pl.len()) < 4).then(None).otherwise(pl.col("age")).alias("age"),
        pl.when(pl.int_range(pl.len()) < 2).then(None).otherwise(pl.col("sex")).alias("sex"),
    )
    with raises(mc.errors.DataError, "data.missing_values", columns=["age", "sex"]):
        mc.assign(release.cells, frame)
    done = mc.assign(release.cells, frame, missing="impute")
    assert done.table.null_count().sum_horizontal().item() == 0
    np.testing.assert_array_equal(done.labels[4:], release.partition.labels[4:])


# ---------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "error", "code"),
    [
        ({"keep": ["income"]}, mc.errors.TableError, "schema.unknown_column"),
        ({"keep": "tsh"}, mc.errors.OptionError, "option.wrong_type"),
        ({"missing": "drop"}, mc.errors.OptionError, "option.unknown"),
    ],
)
def test_invalid_options_are_rejected(release, options, error, code):
    with raises(error, code, option=next(iter(options))):
        mc.assign(release.cells, people(), **options)


def test_tables_that_do_not_fit_are_refused(release):
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


def test_a_column_cell_that_is_not_kept_does_no_harm(release):
    table = people(20)
    table["cell"] = np.full(20, 99)
    assert 99 not in mc.assign(release.cells, table).table["cell"]


def test_cells_that_are_none_or_of_points_are_refused(release):
    with raises(mc.errors.OptionError, "option.wrong_type", option="cells"):
        mc.assign(release, people())
    points = mc.pcl(np.random.default_rng(0).normal(size=(40, 2)), 5).cells
    with raises(mc.errors.OptionError, "option.unsupported", option="cells"):
        mc.assign(points, people())


def test_an_altered_file_is_refused(release, tmp_path):
    path = tmp_path / "cells.json"
    release.cells.save(path)
    content = json.loads(path.read_text())
    content["cells"]["costs"][0] += 1.0
    path.write_text(json.dumps(content))
    with raises(mc.errors.TableError, "table.malformed"):
        mc.assign(path, people())


def test_refusals_show_no_value(release):
    table = people(20)
    table["age"] = np.array(["S3CR3T"] * 20, dtype=object)
    with pytest.raises(mc.MicrocellError) as caught:
        mc.assign(release.cells, table)
    assert "S3CR3T" not in str(caught.value)


def test_progress_is_told(release):
    told = []
    with mc.listen(lambda task, *_: told.append(task)):
        mc.assign(release.cells, people())
    assert {"reading", "assigning"} <= set(told)
