"""From a table to a release: the guarantee, types, files and invalid input."""

import hashlib
import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell import api, auditing, encoding, tables
from microcell.errors import TableError
from microcell.release import manifest_path
from tests.raising import raises

SECRET = "S3CR3T"


def people(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "name": np.array([f"{SECRET}{i}" for i in range(n)], dtype=object),
        "age": rng.integers(18, 90, n),
        "bmi": np.round(rng.normal(25, 4, n), 1),
        "sex": rng.choice(["female", "male"], n).astype(object),
        "tsh": np.round(rng.lognormal(0.5, 0.6, n), 2),
    }


SCHEMA = mc.Schema(
    identifiers=["name"],
    quasi=["age", "bmi", mc.Column("sex", kind="nominal")],
    confidential=["tsh"],
)


def smallest_class(table, names):
    """Count k independently of the code under test."""
    frame = pl.DataFrame({name: list(table[name]) for name in names})
    return frame.group_by(names).len()["len"].min()


# ------------------------------------------------------------------------------- results


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        lambda columns: pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
        lambda columns: pd.DataFrame(columns).convert_dtypes(),
        lambda columns: pd.DataFrame(columns, index=[7] * 60),
        lambda columns: pd.DataFrame(
            columns, index=pd.MultiIndex.from_product([range(6), list("abcdefghij")])
        ),
        pl.DataFrame,
        lambda columns: pl.DataFrame(columns).lazy(),
        pa.table,
        dict,
    ],
    ids=[
        "pandas",
        "pandas-arrow",
        "pandas-nullable",
        "odd-index",
        "multi-index",
        "polars",
        "lazy",
        "pyarrow",
        "dict",
    ],
)
def test_the_result_has_the_type_of_the_source(make):
    frame = make(people())
    release = mc.anonymize(frame, SCHEMA, k=5, method="mdav")
    expected = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    assert type(release.table) is type(expected)
    assert release.published.names == ("age", "bmi", "sex", "tsh")
    assert smallest_class(release.published.native, ["age", "bmi", "sex"]) >= 5
    published = mc.read(release.table).columns["tsh"].data.tolist()
    assert published == list(map(float, people()["tsh"]))
    if isinstance(frame, pd.DataFrame):
        assert release.table.index.equals(frame.index)
        assert (release.table.dtypes == frame.dtypes[1:]).all()
    if isinstance(expected, pl.DataFrame):
        assert release.table.schema == expected.drop("name").schema
    if isinstance(frame, pa.Table):
        assert release.table.schema == frame.drop_columns(["name"]).schema


def test_all_records_of_a_cell_publish_the_same_values():
    release = mc.anonymize(people(), SCHEMA, k=4, effort="fast")
    for cell in range(len(release.partition)):
        members = release.partition.labels == cell
        for name in ("age", "bmi", "sex"):
            assert len(set(np.asarray(release.table[name])[members].tolist())) == 1


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "polars"])
def test_unused_categories_are_not_published(kind):
    rng = np.random.default_rng(0)
    sexes = pd.Categorical([SECRET, *rng.choice(["f", "m"], 99)])
    frame = pd.DataFrame({"age": rng.normal(size=100), "sex": sexes})
    table = {
        "pandas": frame,
        "pyarrow": pa.Table.from_pandas(frame),
        "polars": pl.from_pandas(frame),
    }[kind]
    release = mc.anonymize(table, mc.Schema(quasi=["age", "sex"]), k=5)
    if kind == "pandas":
        assert set(release.table["sex"].cat.categories) == {"f", "m"}
    elif kind == "pyarrow":
        assert set(release.table["sex"].chunk(0).dictionary.to_pylist()) == {"f", "m"}
        assert release.table.schema == table.schema
    else:
        assert SECRET.encode() not in release.table.write_ipc(None).getvalue()


def test_the_source_is_not_modified():
    frame = pd.DataFrame(people())
    before = frame.copy(deep=True)
    mc.anonymize(frame, SCHEMA, k=5)
    pd.testing.assert_frame_equal(frame, before)


def test_the_worked_example():
    table = {"x": [2.0, 3.0, 3.0, 20.0, 21.0], "y": [1.0, 2.0, 2.0, 19.0, 20.0]}
    release = mc.anonymize(table, mc.Schema(quasi=["x", "y"]), k=2, method="mdav")
    assert release.partition.labels.tolist() in ([0, 0, 0, 1, 1], [1, 1, 1, 0, 0])
    fine = {
        name: np.add(column, [1e-4, 0, 0, 0, 0]) for name, column in table.items()
    }  # has four decimals
    published = mc.anonymize(fine, mc.Schema(quasi=["x", "y"]), k=2, method="mdav").table
    assert published["x"] == pytest.approx([2.6667] * 3 + [20.5] * 2, abs=1e-4)
    assert published["y"] == pytest.approx([1.6667] * 3 + [19.5] * 2, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "k", "loss"), [("census", 3, 5.6922), ("census", 5, 9.0884), ("tarragona", 3, 16.9326)]
)
def test_known_information_losses(data_folder, name, k, loss):
    frame = pl.read_csv(data_folder / f"{name}.csv")
    schema = mc.Schema(quasi=frame.columns)
    release = mc.anonymize(frame, schema, k=k, method="mdav")
    assert round(100 * release.manifest.information_loss, 4) == loss
    if name == "tarragona":  # an audit of all these columns takes seconds
        # It sees published values, which are rounded to integers like the data.
        audit = mc.audit(frame, release.table, schema)
        assert 100 * audit["information_loss"] == pytest.approx(loss, rel=1e-3)


def test_the_manifest_is_complete_and_contains_no_value():
    columns = people()
    release = mc.anonymize(columns, SCHEMA, k=5, method="vmdav", gamma=0.3, seed=4)
    manifest = release.manifest.as_dict()
    assert manifest["k"] == 5
    assert manifest["method"] == {
        "requested": "vmdav",
        "used": "vmdav",
        "reason": release.partition.reason,
        "options": {"gamma": 0.3},
    }
    assert manifest["seed"] == 4
    assert manifest["records"] == {"read": 60, "released": 60, "dropped": 0}
    assert manifest["cells"]["smallest"] >= 5
    assert sum(int(size) * count for size, count in manifest["cells"]["sizes"].items()) == 60
    assert manifest["microcell"] == mc.__version__
    assert (
        manifest["information_loss"] == mc.audit(columns, release.table, SCHEMA)["information_loss"]
    )
    assert 0 < manifest["cells"]["sse_ratio"] < 1
    assert len(manifest["input"]["sha256"]) == 64
    text = json.dumps(manifest)
    assert SECRET not in text
    assert "female" not in text


def test_the_same_input_and_seed_give_the_same_release():
    first, second = (mc.anonymize(people(), SCHEMA, k=5, seed=1) for _ in range(2))
    assert (first.partition.labels == second.partition.labels).all()
    assert not (first.row_order == second.row_order).all()
    key = first.manifest.order_key
    again, other = (
        mc.anonymize(people(), SCHEMA, k=5, seed=seed, order_key=key) for seed in (1, 2)
    )
    assert (first.row_order == again.row_order).all()
    assert not (first.row_order == other.row_order).all()


def test_row_order_depends_on_the_data_as_well_as_the_key():
    """Rows of two tables must not have the same positions, even if someone uses one key twice."""
    columns = people()
    changed = {**columns, "tsh": columns["tsh"] + 0.01}
    first, second = (
        mc.anonymize(table, SCHEMA, k=5, order_key="0" * 32) for table in (columns, changed)
    )
    assert not (first.row_order == second.row_order).all()


# --------------------------------------------------------------------- roles and strata


def test_cells_stay_within_strata():
    columns = {**people(), "region": np.array(["north", "south", "east"] * 20, dtype=object)}
    schema = mc.Schema(
        identifiers=["name"],
        quasi=["age", "bmi"],
        strata=["region"],
        keep=["sex"],
        confidential=["tsh"],
    )
    release = mc.anonymize(columns, schema, k=4)
    assert smallest_class(release.table, ["age", "bmi", "region"]) >= 4
    assert list(release.table["region"]) == list(columns["region"])
    for cell in range(len(release.partition)):
        assert len(set(columns["region"][release.partition.labels == cell])) == 1


def test_missing_values_of_a_stratum_form_a_stratum():
    columns = {"age": np.arange(12), "region": ["a"] * 6 + [None] * 6}
    release = mc.anonymize(pl.DataFrame(columns), mc.Schema(quasi=["age"], strata=["region"]), k=3)
    assert len(release.partition) == 4


def test_a_stratum_smaller_than_k_is_rejected():
    columns = {"age": np.arange(12), "region": ["a"] * 10 + [SECRET] * 2}
    with raises(
        mc.errors.TooFewRecordsError, "guarantee.stratum_too_small", k=3, strata=1, smallest=2
    ) as error:
        mc.anonymize(columns, mc.Schema(quasi=["age"], strata=["region"]), k=3)
    assert SECRET not in str(error.value)


def test_representatives_use_sampling_weights():
    columns = {"age": [10.0, 20.0, 80.0, 90.0], "w": [3.0, 1.0, 1.0, 1.0]}
    schema = mc.Schema(quasi=["age"], weight="w", dominance=(1, 1))
    release = mc.anonymize(columns, schema, k=2)
    assert release.table["age"].tolist() == [12.0, 12.0, 85.0, 85.0]
    assert release.table["w"].tolist() == columns["w"]


def test_partitions_use_sampling_weights():
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=80), "b": rng.normal(size=80), "w": rng.uniform(1, 50, 80) ** 2}
    X = np.column_stack(
        [(columns[name] - columns[name].mean()) / columns[name].std() for name in ("a", "b")]
    )
    labels = mc.anonymize(
        columns, mc.Schema(quasi=["a", "b"], weight="w"), k=4, method="mdav"
    ).partition.labels
    assert (labels == mc.partition(X, 4, method="mdav", weights=columns["w"]).labels).all()
    assert not (labels == mc.partition(X, 4, method="mdav").labels).all()


def test_a_larger_column_weight_preserves_the_column_better():
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=200), "b": rng.normal(size=200)}
    light, heavy = (
        mc.audit(columns, mc.anonymize(columns, schema, k=5).table, schema)["information_loss.a"]
        for schema in (
            mc.Schema(quasi=["a", "b"]),
            mc.Schema(quasi=[mc.Column("a", weight=25.0), "b"]),
        )
    )
    assert heavy < light / 3


def test_all_kinds_of_columns_together():
    n = 40
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "when": pl.Series(rng.integers(0, 10000, n)).cast(pl.Date),
            "grade": rng.choice(["low", "middle", "high"], n),
            "zip": [f"{x:05d}" for x in rng.integers(0, 3000, n)],
            "lat": np.round(rng.uniform(40, 42, n), 3),
            "lon": np.round(rng.uniform(0, 2, n), 3),
            "income": rng.integers(0, 90000, n),
        }
    )
    schema = mc.Schema(
        quasi=[
            "when",
            mc.Column("grade", kind="ordinal", order=["low", "middle", "high"]),
            mc.Column("zip", kind="code"),
            mc.Column("home", kind="location", latitude="lat", longitude="lon"),
            mc.Column("income", publish="range"),
        ]
    )
    release = mc.anonymize(frame, schema, k=4)
    assert smallest_class(release.table, frame.columns) >= 4
    assert release.table.schema["when"] == pl.Date
    assert set(release.table["grade"]) <= {"low", "middle", "high"}
    assert release.table["zip"].str.contains(r"^\d*\**$").all()
    assert release.table["income"].str.contains(r"^\d+-\d+$").all()
    actual = mc.audit(frame, release.table, schema)
    assert 0 < actual["information_loss"] < 1
    assert {
        f"information_loss.{name}" for name in ("when", "grade", "zip", "home", "income")
    } <= set(actual.measures)


# ----------------------------------------------------------------------- missing values


def with_gaps():
    frame = pl.DataFrame(people())
    rows = pl.int_range(pl.len())
    return frame.with_columns(
        pl.when(rows % 10 == 3).then(None).otherwise(pl.col("age")).alias("age"),
        pl.when(rows % 15 == 4).then(None).otherwise(pl.col("sex")).alias("sex"),
    )


def test_missing_values_are_rejected_by_default():
    with raises(
        mc.errors.DataError,
        "data.missing_values",
        columns=("age", "sex"),
        counts={"age": 6, "sex": 4},
    ):
        mc.anonymize(with_gaps(), SCHEMA, k=5)


def test_missing_drop_counts_the_dropped_records():
    release = mc.anonymize(with_gaps(), SCHEMA, k=5, missing="drop")
    assert release.manifest.as_dict()["records"] == {"read": 60, "released": 50, "dropped": 10}
    assert release.table.height == 50
    actual = mc.audit(with_gaps(), release.table, SCHEMA).require(k=5)
    assert actual["records_dropped"] == 10
    assert "information_loss" in actual.measures


def test_missing_impute_publishes_representatives():
    release = mc.anonymize(with_gaps(), SCHEMA, k=5, missing="impute")
    assert release.table.height == 60
    assert release.table["age"].null_count() == 0
    assert release.manifest.records.imputed == 10
    mc.audit(with_gaps(), release.table, SCHEMA).require(k=5)


def test_missing_everywhere():
    frame = pl.DataFrame({"a": pl.Series([None] * 10, dtype=pl.Int64), "b": range(10)})
    schema = mc.Schema(quasi=["a", "b"])
    with raises(mc.errors.DataError, "data.missing_values", columns=("a",), counts={"a": 10}):
        mc.anonymize(frame, schema, k=3)
    with raises(mc.errors.TooFewRecordsError, "guarantee.too_few_records", k=3, records=0):
        mc.anonymize(frame, schema, k=3, missing="drop")
    assert mc.anonymize(frame, schema, k=3, missing="impute").table["a"].null_count() == 10


@pytest.mark.parametrize("kind", ["numeric", "ordinal", "nominal", "code"])
def test_a_column_without_values_in_a_text_file(tmp_path, kind):
    """Such a column has no type, whatever kind the schema declares."""
    path = tmp_path / "people.csv"
    path.write_text("age,empty\n" + "".join(f"{age},\n" for age in (31, 33, 60, 62)))
    schema = mc.Schema(quasi=["age", mc.Column("empty", kind=kind)])
    release = mc.anonymize(path, schema, k=2, method="mdav", missing="impute")
    release.publish(tmp_path / "out.csv")
    lines = sorted((tmp_path / "out.csv").read_text().splitlines())
    assert lines == ["32,", "32,", "61,", "61,", "age,empty"]


def test_missing_confidential_values_are_left_alone():
    frame = pl.DataFrame({"a": range(10), "c": [None] * 5 + [1] * 5})
    release = mc.anonymize(frame, mc.Schema(quasi=["a"], confidential=["c"]), k=3)
    assert release.table["c"].to_list() == frame["c"].to_list()


# ------------------------------------------------------------------------------------ invalid input


def test_all_rows_equal():
    release = mc.anonymize({"a": [7] * 9, "b": ["x"] * 9}, mc.Schema(quasi=["a", "b"]), k=4)
    assert release.table["a"].tolist() == [7] * 9
    assert release.manifest.information_loss == 0


def test_n_equal_to_k_is_one_cell():
    release = mc.anonymize({"a": [1, 2, 6]}, mc.Schema(quasi=["a"]), k=3)
    assert release.table["a"].tolist() == [3, 3, 3]


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_too_few_records_are_rejected(rows):
    with raises(mc.errors.TooFewRecordsError, "guarantee.too_few_records", k=5, records=rows):
        mc.anonymize(
            pl.DataFrame({"a": pl.Series(range(rows), dtype=pl.Int64)}), mc.Schema(quasi=["a"]), k=5
        )


@pytest.mark.parametrize("k", [1, 0, 2.0, "3", None, True])
def test_an_invalid_k_is_rejected(k):
    with pytest.raises(mc.errors.OptionError) as caught:
        mc.anonymize(people(), SCHEMA, k=k)
    assert caught.value.details["option"] == "k"


@pytest.mark.parametrize("seed", [-1, 1.5, "0", None])
def test_an_invalid_seed_is_rejected(seed):
    with raises(mc.errors.OptionError, "option.out_of_range", option="seed"):
        mc.anonymize(people(), SCHEMA, k=5, seed=seed)


def test_invalid_options_are_rejected():
    with raises(mc.errors.OptionError, "option.unknown", option="missing"):
        mc.anonymize(people(), SCHEMA, k=5, missing="ignore")
    with raises(mc.errors.OptionError, "option.unsupported", option="gamma", method="mdav"):
        mc.anonymize(people(), SCHEMA, k=5, method="mdav", gamma=0.2)
    with raises(mc.errors.OptionError, "option.unknown", option="method"):
        mc.anonymize(people(), SCHEMA, k=5, method="magic")


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        (mc.Schema(quasi=["age"]), "schema.invalid"),
        (mc.Schema(quasi=["agee", "bmi"], rest="keep"), "schema.unknown_column"),
        (mc.Schema(identifiers=["name"], rest="keep"), "schema.no_quasi_identifier"),
        (mc.Schema(quasi=[mc.Column("sex", kind="numeric")], rest="drop"), "schema.wrong_kind"),
        (mc.Schema(quasi=[mc.Column("age", kind="datetime")], rest="drop"), "schema.wrong_kind"),
        (mc.Schema(quasi=[mc.Column("sex", kind="ordinal")], rest="drop"), "schema.category_order"),
    ],
    ids=["no role", "unknown column", "no quasi-identifier", "text", "numbers", "no order"],
)
def test_schemas_that_do_not_fit_the_table_are_rejected(schema, code):
    with raises(mc.errors.SchemaError, code):
        mc.anonymize(people(), schema, k=5)


def test_an_error_about_a_missing_header_does_not_quote_the_first_record(tmp_path):
    path = tmp_path / "no_header.csv"
    path.write_text(f"{SECRET},31,{SECRET}2\nB,32,x\nC,33,y\n")
    with raises(mc.errors.SchemaError, "schema.unknown_column", columns=("name", "age")) as error:
        mc.anonymize(path, mc.Schema(quasi=["age"], identifiers=["name"], rest="keep"), k=2)
    assert SECRET not in str(error.value)


def test_text_among_numbers_is_rejected_with_its_row():
    with raises(
        mc.errors.SchemaError, "schema.wrong_kind", column="a", kind="numeric", row=2
    ) as error:
        mc.anonymize(
            {"a": ["1", SECRET, "3", SECRET]},
            mc.Schema(quasi=[mc.Column("a", kind="numeric")]),
            k=2,
        )
    assert SECRET not in str(error.value)


def test_dates_and_booleans_cannot_be_codes():
    frame = pl.DataFrame({"d": pl.Series([1, 2, 3, 4]).cast(pl.Date)})
    with raises(mc.errors.SchemaError, "schema.wrong_kind", column="d", kind="code"):
        mc.anonymize(frame, mc.Schema(quasi=[mc.Column("d", kind="code")]), k=2)
    with raises(mc.errors.SchemaError, "schema.wrong_kind", column="d", kind="code"):
        mc.anonymize({"d": [True, False] * 2}, mc.Schema(quasi=[mc.Column("d", kind="code")]), k=2)


def test_infinities_are_rejected():
    with raises(mc.errors.DataError, "data.not_finite", column="a", row=3):
        mc.anonymize({"a": [1.0, 2.0, np.inf, 4.0]}, mc.Schema(quasi=["a"]), k=2)


def test_large_numbers_with_a_small_spread():
    x = 1.7e9 + np.arange(40) / 16
    release = mc.anonymize({"t": x}, mc.Schema(quasi=["t"]), k=4)
    assert len(release.partition) == 10
    assert mc.audit({"t": x}, release.table, mc.Schema(quasi=["t"]))["information_loss"] < 0.02


def test_minus_999_is_not_a_missing_value():
    release = mc.anonymize({"a": [-999, -997, 1, 3]}, mc.Schema(quasi=["a"]), k=2)
    assert release.table["a"].tolist() == [-998, -998, 2, 2]


def test_a_table_without_the_guarantee_is_never_returned(monkeypatch):
    """If a defect slips in anywhere before, the count on the finished table stops it."""

    def broken(table, labels, representatives, drop):
        return tables.read(
            {"age": np.arange(60), "bmi": np.arange(60), "sex": ["x"] * 60, "tsh": [0] * 60}
        )

    monkeypatch.setattr(api.tables, "publish", broken)
    with raises(mc.GuaranteeError, "guarantee.failed", k=5, smallest=1):
        mc.anonymize(people(), SCHEMA, k=5)


@pytest.mark.parametrize("lost", ["row", "identifier"])
def test_a_table_with_lost_rows_or_identifiers_is_never_returned(monkeypatch, lost):
    table = {
        name: column[: 59 if lost == "row" else 60]
        for name, column in people().items()
        if lost != "row" or name != "name"
    }
    monkeypatch.setattr(api.tables, "publish", lambda *_: tables.read(table))
    details = {"records": 59} if lost == "row" else {"columns": ["name"]}
    with raises(mc.GuaranteeError, "guarantee.failed", **details):
        mc.anonymize(people(), SCHEMA, k=5)


@given(
    rows=st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(-5, 5)),
            st.one_of(st.none(), st.floats(-1e3, 1e3, width=32)),
            st.one_of(st.none(), st.sampled_from(["a", "b", "c", ""])),
            st.booleans(),
        ),
        min_size=1,
        max_size=30,
    ),
    k=st.integers(2, 6),
    missing=st.sampled_from(["drop", "impute"]),
)
def test_any_table_is_released_with_k_or_rejected(rows, k, missing):
    frame = pl.DataFrame(
        rows, schema={"a": pl.Int64, "b": pl.Float64, "c": pl.String, "d": pl.Boolean}, orient="row"
    )
    schema = mc.Schema(quasi=["a", "b", "c", "d"])
    complete = frame.drop_nulls().height if missing == "drop" else frame.height
    if complete < k:
        with raises(mc.errors.TooFewRecordsError, "guarantee.too_few_records"):
            mc.anonymize(frame, schema, k=k, missing=missing)
        return
    release = mc.anonymize(frame, schema, k=k, missing=missing)
    assert release.table.height == complete
    assert release.table.group_by(frame.columns).len()["len"].min() >= k
    assert release.table.schema == frame.schema


# -------------------------------------------------------------------------------- files


@pytest.fixture
def csv_file(tmp_path):
    path = tmp_path / "people.csv"
    pl.DataFrame(people()).write_csv(path)
    return path


@pytest.mark.parametrize(
    "suffix", [".csv", ".tsv", ".parquet", ".arrow", ".jsonl", ".xlsx", ".dta", ".sav"]
)
def test_publishing_writes_the_table_and_its_manifest(csv_file, suffix):
    output = csv_file.with_name(f"out{suffix}")
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    mc.publish(release, output)
    written = tables.read(output)
    assert written.rows == 60
    assert auditing.class_sizes(written, ("age", "bmi", "sex")).min() >= 5
    account = mc.release.manifest_path(output)
    manifest = json.loads(account.read_text())
    assert account.name == f"out{suffix}.manifest.json"
    assert manifest["row_order"] == "shuffled"
    assert manifest["output"]["sha256"] == hashlib.sha256(output.read_bytes()).hexdigest()
    assert manifest["input"]["sha256"] == hashlib.sha256(csv_file.read_bytes()).hexdigest()
    assert manifest["input"]["sha256_of"] == "file"
    assert sorted(path.name for path in csv_file.parent.iterdir()) == sorted(
        ["people.csv", account.name, output.name]
    )


def test_rows_are_shuffled_by_default(csv_file):
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    mc.publish(release, csv_file.with_name("a.csv"))
    mc.publish(release, csv_file.with_name("b.csv"), keep_order=True)
    shuffled, kept = (pl.read_csv(csv_file.with_name(name)) for name in ("a.csv", "b.csv"))
    assert kept["tsh"].to_list() == people()["tsh"].tolist()
    assert shuffled["tsh"].to_list() != kept["tsh"].to_list()
    assert shuffled.sort(pl.all()).equals(kept.sort(pl.all()))


@pytest.mark.parametrize("missing", ["drop", "impute"])
def test_the_manifest_restores_the_row_order_for_the_audit(tmp_path, missing):
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    with_gaps().write_csv(source)
    release = mc.anonymize(source, SCHEMA, k=5, missing=missing)
    mc.publish(release, output)
    manifest = json.loads((tmp_path / "out.csv.manifest.json").read_text())
    in_memory = mc.audit(source, release.table, SCHEMA)
    from_file = mc.audit(source, output, SCHEMA, manifest=manifest)
    assert from_file["information_loss"] == pytest.approx(in_memory["information_loss"])
    assert (
        mc.audit(source, output, SCHEMA)["information_loss"] == from_file["information_loss"]
    )  # finds the manifest by itself
    (tmp_path / "out.csv.manifest.json").unlink()
    blind = mc.audit(source, output, SCHEMA)
    assert blind["k"] >= 5
    assert "information_loss" not in blind.measures
    assert blind.notes


@pytest.mark.parametrize("role", ["quasi", "nominal", "confidential", "strata"])
@pytest.mark.parametrize("sources", ["file", "pandas", "polars"])
def test_dates_are_equal_in_files_and_dataframes(tmp_path, sources, role):
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    days = np.datetime64("1998-12-02") + np.random.default_rng(0).integers(
        0, 2 if role == "strata" else 25, 60
    )
    pl.DataFrame({**people(), "day": days}).write_csv(source)
    originals = {
        "file": source,
        "pandas": pd.read_csv(source, parse_dates=["day"]),
        "polars": pl.read_csv(source).with_columns(pl.col("day").str.to_datetime("%Y-%m-%d")),
    }
    extra = {"quasi": ["day"], "nominal": [mc.Column("day", kind="nominal")]}.get(role, [])
    others = {} if extra else {role: ["day"]}
    schema = mc.Schema(
        **{"quasi": ["age", *extra], "confidential": ["tsh"], "rest": "drop", **others}
    )
    mc.publish(mc.anonymize(originals[sources], schema, k=5), output)
    assert "T00:00:00" not in output.read_text()
    assert pl.read_csv(output, try_parse_dates=True).schema["day"] == pl.Date
    actual = {name: mc.audit(original, output, schema) for name, original in originals.items()}
    assert not any(audit.notes for audit in actual.values())
    first, *others = (audit["information_loss"] for audit in actual.values())
    assert all(other == pytest.approx(first, rel=1e-14) for other in others)


def test_an_audit_against_the_wrong_original_reports_a_contradiction(csv_file):
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    mc.publish(release, csv_file.with_name("out.csv"))
    manifest = json.loads(csv_file.with_name("out.csv.manifest.json").read_text())
    other = people(seed=1)
    pl.DataFrame(other).write_csv(csv_file)
    actual = mc.audit(csv_file, csv_file.with_name("out.csv"), SCHEMA, manifest=manifest)
    assert actual["manifest_contradictions"] == 1
    assert "digests differ" in actual.notes[0]
    with raises(
        mc.RequirementError,
        "guarantee.requirement_not_met",
        measures=["values_changed", "manifest_contradictions"],
    ):
        actual.require(k=5)


def test_an_audit_with_a_weaker_schema_or_altered_file_reports_contradictions(csv_file):
    output = csv_file.with_name("out.csv")
    mc.publish(mc.anonymize(csv_file, SCHEMA, k=5), output)
    weaker = mc.Schema(identifiers=["name"], quasi=["sex"], rest="keep")
    actual = mc.audit(csv_file, output, weaker)
    assert any("another role in the schema" in note for note in actual.notes)
    lines = output.read_text().splitlines(keepends=True)
    output.write_text("".join(lines[:-1]))
    with raises(TableError, "table.incomplete", path=str(output)):
        mc.audit(csv_file, output, SCHEMA)
    actual = mc.audit(csv_file, output, SCHEMA, manifest=manifest_path(output))
    assert actual["manifest_contradictions"] == 3  # digest, number of records, and k, now 4
    with raises(
        mc.RequirementError, "guarantee.requirement_not_met", measures=["manifest_contradictions"]
    ):
        actual.require(k=2)


def altered_manifest(manifest, section, **entries):
    data = manifest.as_dict()
    if section is None:
        return data | entries
    return data | {section: data[section] | entries}


@pytest.mark.parametrize(
    ("section", "entries"),
    [
        (None, {"k": 6}),
        ("records", {"read": 201, "dropped": 1}),
        ("requirements", {"limits": {"k": 5.0, "l_diversity": 6.0}}),
        ("requirements", {"limits": {"t_closeness.tsh": 0}}),
    ],
    ids=["k", "records", "limit", "limit of a column"],
)
def test_a_false_statement_in_a_manifest_is_a_contradiction(section, entries):
    table = {"age": np.arange(200), "tsh": np.arange(200) % 7}
    schema = mc.Schema(quasi=["age"], confidential=["tsh"])
    release = mc.anonymize(table, schema, k=5, method="mdav", require={"l_diversity": 5})
    assert mc.audit(table, release.table, schema, manifest=release.manifest).require(k=5)["k"] == 5
    manifest = altered_manifest(release.manifest, section, **entries)
    assert mc.audit(table, release.table, schema, manifest=manifest)["manifest_contradictions"] == 1


@pytest.mark.parametrize("limits", [{"nonsense": 3}, {"l_diversity.age": 3}])
def test_limits_in_a_manifest_that_cannot_be_measured_are_ignored(limits):
    table = {"age": np.arange(20), "tsh": np.arange(20) % 7}
    schema = mc.Schema(quasi=["age"], confidential=["tsh"])
    release = mc.anonymize(table, schema, k=5, require={"l_diversity": 2})
    manifest = altered_manifest(release.manifest, "requirements", limits=limits)
    assert mc.audit(table, release.table, schema, manifest=manifest)["manifest_contradictions"] == 0


def test_two_releases_of_a_table_have_unrelated_row_orders():
    first, second, third = (
        mc.anonymize(people(), schema, k=k, order_key="0" * 32)
        for k, schema in ((5, SCHEMA), (6, SCHEMA), (5, mc.Schema(quasi=["age"], rest="drop")))
    )
    assert not (first.row_order == second.row_order).all()
    assert not (first.row_order == third.row_order).all()


@pytest.mark.parametrize("values", [[0.0, -0.0], [None, float("nan")]])
def test_equal_strata_are_published_alike(tmp_path, values):
    frame = pl.DataFrame(
        {"age": range(6), "s": pl.Series(values * 3, dtype=pl.Float64, strict=False)}
    )
    release = mc.anonymize(frame, mc.Schema(quasi=["age"], strata=["s"]), k=5)
    assert len(set(map(str, release.table["s"]))) == 1
    for suffix in (".csv", ".parquet"):
        mc.publish(release, tmp_path / f"out{suffix}")
        assert len(set(map(str, pl.read_csv(tmp_path / "out.csv")["s"]))) == 1


def test_a_column_added_to_the_release_is_not_published(tmp_path):
    release = mc.anonymize(pd.DataFrame(people()), SCHEMA, k=5)
    release.table["name"] = people()["name"]
    with raises(mc.GuaranteeError, "guarantee.failed", columns=["name"]):
        mc.publish(release, tmp_path / "out.csv")


def test_paths_and_manifests_are_accepted_in_every_form(csv_file):
    schema_file = csv_file.with_name("schema.toml")
    schema_file.write_text(mc.schema.schema_to_toml(SCHEMA))
    output = csv_file.with_name("out.csv")
    release = mc.publish(mc.anonymize(str(csv_file), str(schema_file), k=5), str(output))
    for manifest in (
        None,
        release.manifest,
        release.manifest.as_dict(),
        mc.release.manifest_path(output),
    ):
        assert (
            mc.audit(csv_file, output, schema_file, manifest=manifest).require(k=5)[
                "information_loss"
            ]
            < 1
        )
    assert mc.inspect(csv_file).rows == mc.inspect(pl.read_csv(csv_file)).rows == 60
    mc.write(release.table, csv_file.with_name("again.parquet"))
    assert pl.read_parquet(csv_file.with_name("again.parquet")).equals(release.table)
    with raises(mc.errors.SchemaError, "schema.invalid"):
        mc.anonymize(csv_file, {"quasi": ["age"]}, k=5)


def test_an_input_is_never_overwritten(csv_file):
    before = csv_file.read_bytes()
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    with raises(mc.errors.TableError, "table.exists"):
        mc.publish(release, csv_file)
    assert csv_file.read_bytes() == before


def test_invalid_outputs_are_rejected_before_anything_is_written(csv_file):
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    folder = csv_file.parent
    for output, report, code in [
        (folder / "out.nonsense", None, "table.unknown_format"),
        (folder, None, "table.unwritable"),
        (folder / "out.csv", folder / "out.csv", "option.unsupported"),
        (folder / "out.csv", folder / "out.csv.manifest.json", "option.unsupported"),
        (folder / "out.html", folder / "out.html", "table.unknown_format"),
    ]:
        with raises(mc.errors.MicrocellError, code):
            release.publish(output, report=report)
    assert [path.name for path in folder.iterdir()] == ["people.csv"]


def test_existing_files_can_be_protected(csv_file):
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    output = csv_file.with_name("out.csv")
    release.publish(output)
    release.publish(output)
    with raises(mc.errors.TableError, "table.exists", path=str(output)):
        release.publish(output, overwrite=False)


@pytest.mark.parametrize(
    ("damage", "entry"),
    [
        ({"row_order": 3}, "row_order"),
        ({"k": SECRET}, "k"),
        ({SECRET: 1}, None),
        ({"columns": {SECRET: SECRET}}, "columns"),
        ({"requirements": {"limits": {"l_diversity": SECRET}}}, "requirements"),
        ({"manifest_version": 2}, "manifest_version"),
    ],
)
def test_a_damaged_manifest_is_an_error_that_quotes_nothing(csv_file, damage, entry):
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    manifest = release.manifest.as_dict() | damage
    with raises(mc.errors.TableError, "table.malformed", entry=entry) as error:
        mc.audit(csv_file, release.table, SCHEMA, manifest=manifest)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "[" * 100_000, SECRET, "{}"])
def test_a_file_that_is_not_a_manifest_is_an_error(csv_file, content):
    path = csv_file.with_name("out.csv.manifest.json")
    path.write_text(content)
    with raises(mc.errors.TableError, "table.malformed") as error:
        mc.Manifest.load(path)
    assert SECRET not in str(error.value)
    with raises(mc.errors.TableError, "table.not_found"):
        mc.Manifest.load(csv_file.with_name("none.json"))


def test_a_missing_output_folder_is_rejected(csv_file):
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    with raises(mc.errors.TableError, "table.unwritable"):
        mc.publish(release, csv_file.parent / "none" / "out.csv")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    csv_file, blank_figures, monkeypatch, error
):
    output = csv_file.with_name("out.csv")
    output.write_text("old")

    def fail(table, path, **_):
        Path(path).write_text("half")
        raise error

    monkeypatch.setattr(api.tables, "write", fail)
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    with pytest.raises(type(error)):
        mc.publish(release, output, report=csv_file.with_name("report.html"))
    assert output.read_text() == "old"
    assert sorted(path.name for path in csv_file.parent.iterdir()) == ["out.csv", "people.csv"]


def test_a_written_file_without_the_guarantee_is_not_published(csv_file, monkeypatch):
    def lossy(table, path, **_):
        Path(path).write_text("age,bmi,sex,tsh\n" + "".join(f"{i},1.0,x,1\n" for i in range(60)))

    monkeypatch.setattr(api.tables, "write", lossy)
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    with raises(TableError, "table.format_limit", column="age"):
        mc.publish(release, csv_file.with_name("out.csv"))
    monkeypatch.setattr("microcell.release.publish.check_written", lambda *_: None)
    with raises(mc.GuaranteeError, "guarantee.failed", smallest=1):
        mc.publish(release, csv_file.with_name("out.csv"))
    assert not csv_file.with_name("out.csv").exists()


def test_progress_is_reported(csv_file):
    tasks = []
    with mc.listen(lambda task, *_: tasks.append(task)):
        mc.anonymize(csv_file, SCHEMA, k=5)
    assert {"reading", "encoding", "aggregating", "checking"} <= set(tasks)
    assert len(set(tasks)) > 4


# ---------------------------------------------------------------------------- exactness


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([2**63 + i for i in range(2)], dtype=pl.UInt64),
        pl.Series(["12345678901234567890.01", "12345678901234567890.02"]).cast(pl.Decimal(38, 2)),
    ],
    ids=["unsigned", "decimal"],
)
def test_numbers_beyond_float_precision_stay_distinct(values):
    frame = pl.DataFrame({"age": range(6), "s": pl.concat([values] * 3)})
    assert mc.audit(frame, frame, mc.Schema(quasi=["s"], rest="keep"))["k"] == 3
    with raises(mc.errors.TooFewRecordsError, "guarantee.stratum_too_small", strata=2):
        mc.anonymize(frame, mc.Schema(quasi=["age"], strata=["s"]), k=5)


def test_a_file_truncated_within_a_character_is_rejected(tmp_path):
    path = tmp_path / "cut.csv"
    path.write_bytes("name,age\nJosé,31\nRené".encode()[:-1])
    with raises(mc.errors.TableError, "table.bad_encoding"):
        mc.read(path)


def test_long_addresses_survive_a_spreadsheet(tmp_path):
    links = [f"http://{'x' * 3000}{i}" for i in range(4)]
    release = mc.anonymize(
        {"age": [1, 2, 8, 9], "link": links}, mc.Schema(quasi=["age"], keep=["link"]), k=2
    )
    mc.publish(release, tmp_path / "out.xlsx", keep_order=True)
    assert pl.read_excel(tmp_path / "out.xlsx")["link"].to_list() == links


# ------------------------------------------------------------ cells for further records

METHODS = ["auto", "mdav", "vmdav", "bisect", "anneal", "pcl"]
KINDS = {True: "power", "power": "power", "balls": "balls", "lookup": "lookup"}


def distinct_people(n=120, seed=0):
    """People without duplicates, so that cells are the same with and without a cell function."""
    rng = np.random.default_rng(seed)
    return {**people(n, seed), "age": rng.uniform(18, 90, n), "bmi": rng.normal(25, 4, n)}


def test_a_release_has_no_cells_by_default():
    for cells in (False, None):
        release = mc.anonymize(people(), SCHEMA, k=5, cells=cells)
        assert release.cells is None
        assert release.manifest.cells.function is None


@pytest.mark.parametrize(
    ("cells", "method"),
    [*((cells, "mdav") for cells in KINDS), *((True, method) for method in METHODS)],
)
def test_k_holds_with_cells_of_every_kind(cells, method):
    table = distinct_people()
    release = mc.anonymize(table, SCHEMA, k=5, method=method, cells=cells)
    assert release.cells.kind == release.manifest.cells.function == KINDS[cells]
    assert smallest_class(release.table, ["age", "bmi", "sex"]) >= 5
    assert (release.cells.k, len(release.cells)) == (5, len(release.partition))
    np.testing.assert_array_equal(release.cells.sizes, release.partition.sizes)
    for name in ("age", "bmi", "sex"):
        printed = np.array(release.cells.representatives[name])[release.partition.labels]
        assert printed.tolist() == list(release.table[name])
    mc.audit(table, release.table, SCHEMA).require(k=5)


def points_of(release):
    """The points that the cells were fitted to: those of the published, rounded encoding."""
    return encoding.place(tables.read(distinct_people()), release.cells.encoding).matrix


@pytest.mark.parametrize("method", METHODS)
def test_power_cells_do_not_increase_the_information_loss(method):
    release = mc.anonymize(distinct_people(), SCHEMA, k=5, method=method, cells=True)
    X = points_of(release)
    plain = mc.partition(X, 5, method=method)
    assert mc.distortion(X, release.partition) <= mc.distortion(X, plain) * (1 + 1e-12)
    assert release.partition.sizes.tolist() == plain.sizes.tolist()
    assert release.manifest.method.used == plain.method
    if method != "pcl":
        assert release.manifest.method.reason.startswith(plain.reason)
        assert release.manifest.method.reason.endswith("power cells")


def test_power_cells_of_refined_pcl_do_not_increase_the_information_loss():
    release = mc.anonymize(distinct_people(), SCHEMA, k=5, method="pcl", refine=True, cells=True)
    X = points_of(release)
    plain = mc.partition(X, 5, method="pcl", refine=True)
    assert mc.distortion(X, release.partition) <= mc.distortion(X, plain) * (1 + 1e-12)
    assert smallest_class(release.table, ["age", "bmi", "sex"]) >= 5


@pytest.mark.parametrize("cells", ["balls", "lookup"])
def test_balls_and_lookup_keep_the_cells_of_mdav(cells):
    release = mc.anonymize(distinct_people(), SCHEMA, k=5, method="mdav", cells=cells)
    plain = mc.partition(points_of(release), 5, method="mdav")
    np.testing.assert_array_equal(release.partition.labels, plain.labels)


@pytest.mark.parametrize("cells", [True, "balls"])
@pytest.mark.parametrize("method", ["auto", "mdav", "pcl"])
def test_k_holds_with_duplicate_records(method, cells):
    rng = np.random.default_rng(1)
    table = {"a": rng.integers(0, 4, 100), "b": rng.integers(0, 3, 100)}
    release = mc.anonymize(table, mc.Schema(quasi=["a", "b"]), k=5, method=method, cells=cells)
    assert smallest_class(release.table, ["a", "b"]) >= 5
    assert len(release.cells) == len(release.partition)


def test_one_dimension_and_one_cell():
    release = mc.anonymize(
        {"a": np.random.default_rng(0).normal(size=50)}, mc.Schema(quasi=["a"]), k=4, cells=True
    )
    assert release.manifest.method.used == "univariate"
    assert smallest_class(release.table, ["a"]) >= 4
    assert mc.anonymize({"a": [1, 2, 6]}, mc.Schema(quasi=["a"]), k=3, cells=True).cells.assign(
        [0.0]
    ).tolist() == [0]


@pytest.mark.parametrize("cells", [True, "balls", "lookup"])
def test_imputed_records_have_cells_too(cells):
    release = mc.anonymize(with_gaps(), SCHEMA, k=5, method="mdav", missing="impute", cells=cells)
    assert release.table.height == 60
    assert smallest_class(release.table, ["age", "bmi", "sex"]) >= 5
    done = mc.assign(release.cells, with_gaps(), missing="impute")
    assert (
        done.labels == release.partition.labels
    ).mean() > 0.9  # ages are whole numbers, and may tie
    dropped = mc.anonymize(with_gaps(), SCHEMA, k=5, method="mdav", missing="drop", cells=cells)
    assert dropped.cells.sizes.sum() == 50


@pytest.mark.parametrize("cells", ["hexagons", "Power", "", 1, 0, ["power"]])
def test_an_unknown_kind_of_cells_is_rejected(cells):
    with raises(mc.errors.OptionError, "option.unknown", option="cells"):
        mc.anonymize(people(), SCHEMA, k=5, cells=cells)


@pytest.mark.parametrize("cells", [True, "balls", "lookup"])
def test_cells_with_strata_are_rejected(cells):
    schema = mc.Schema(
        identifiers=["name"], quasi=["age", "bmi"], strata=["sex"], confidential=["tsh"]
    )
    with raises(mc.errors.OptionError, "option.unsupported", option="cells"):
        mc.anonymize(people(), schema, k=5, cells=cells)


def test_a_single_stratum_has_cells():
    schema = mc.Schema(
        identifiers=["name"], quasi=["age", "bmi"], strata=["sex"], confidential=["tsh"]
    )
    table = {**people(), "sex": np.array(["female"] * 60, dtype=object)}
    assert mc.anonymize(table, schema, k=5, cells=True).cells.kind == "power"


@pytest.mark.parametrize("cells", [True, "balls", "lookup"])
def test_cells_of_constant_columns_are_rejected(cells):
    with raises(mc.errors.OptionError, "option.conflict", option="cells"):
        mc.anonymize({"a": [7] * 9, "b": ["x"] * 9}, mc.Schema(quasi=["a", "b"]), k=4, cells=cells)


def numbers_in(value):
    """All numbers of a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for item in value for number in numbers_in(item)]
    return [value] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


@pytest.mark.parametrize("cells", [True, "balls"])
def test_a_cells_file_has_no_value_of_fewer_than_k_records(cells, tmp_path):
    rng = np.random.default_rng(3)
    n = 120
    table = {
        "age": rng.normal(50, 10, n).round(4),
        "job": rng.choice(["clerk", "nurse"], n).astype(object),
        "grade": rng.integers(1, 6, n),
        "zip": np.array([f"{code:05d}" for code in rng.integers(10000, 10006, n)], dtype=object),
    }
    table["job"][5], table["zip"][7], table["grade"][9] = "astronaut", "98765", 8317
    schema = mc.Schema(
        quasi=[
            "age",
            mc.Column("job", kind="nominal"),
            mc.Column("grade", kind="ordinal"),
            mc.Column("zip", kind="code"),
        ]
    )
    release = mc.anonymize(table, schema, k=5, method="mdav", cells=cells)
    release.cells.save(tmp_path / "cells.json")
    text = (tmp_path / "cells.json").read_text()
    assert {"clerk", "nurse"} <= set(json.loads(text)["encoding"]["columns"][1]["names"])
    for rare in ("astronaut", "98765", "8317"):
        assert f'"{rare}"' not in text
    ages = set(table["age"].tolist())
    content = json.loads(text)
    printed = numbers_in([content["encoding"], content["representatives"]["age"], content["cells"]])
    assert not {min(ages), max(ages), 98765, 8317} & set(printed)
    points = (table["age"] - table["age"].mean()) / table["age"].std()
    assert np.abs(np.array(printed)[:, None] - [points.min(), points.max()]).min() > 1e-12


def test_a_release_with_cells_is_published_like_any_other(csv_file):
    release = mc.anonymize(csv_file, SCHEMA, k=5, cells=True)
    output = csv_file.with_name("out.csv")
    cells = csv_file.with_name("cells.json")
    release.publish(output, cells=cells)
    assert mc.load_cells(cells).sizes.tolist() == release.partition.sizes.tolist()
    assert json.loads(mc.release.manifest_path(output).read_text())["cells"]["function"] == "power"
    mc.audit(csv_file, output, SCHEMA).require(k=5)


def test_lookup_cells_have_no_json_text():
    release = mc.anonymize(distinct_people(), SCHEMA, k=5, method="mdav", cells="lookup")
    with raises(mc.errors.OptionError, "option.unsupported", option="confidential"):
        release.cells.to_json()


def test_cells_that_cannot_be_published_are_rejected(tmp_path):
    lookup = mc.anonymize(distinct_people(), SCHEMA, k=5, method="mdav", cells="lookup")
    with raises(mc.errors.OptionError, "option.unsupported", option="cells"):
        lookup.publish(tmp_path / "out.csv", cells=tmp_path / "cells.json")
    plain = mc.anonymize(distinct_people(), SCHEMA, k=5, method="mdav")
    with raises(mc.errors.OptionError, "option.conflict", option="cells"):
        plain.publish(tmp_path / "out.csv", cells=tmp_path / "cells.json")
    assert not any(tmp_path.iterdir())


def test_publishing_writes_report_and_certificate_in_one_step(csv_file, blank_figures):
    output, report, certificate = (
        csv_file.with_name(name) for name in ("out.csv", "out.html", "out.pdf")
    )
    release = mc.anonymize(csv_file, SCHEMA, k=5, require={"l_diversity": 2})
    written = release.publish(output, report=report, certificate=certificate, audience="public")
    assert written.manifest.output.rows == 60
    assert mc.Manifest.load(mc.release.manifest_path(output)) == written.manifest
    assert "5-anonymous" in report.read_text()
    assert certificate.read_bytes().startswith(b"%PDF-")
    assert SECRET not in report.read_text()


def test_a_pickled_release_has_no_original_records(csv_file, tmp_path):
    release = mc.anonymize(csv_file, SCHEMA, k=5, method="mdav")
    pickled = pickle.dumps(release)
    assert SECRET.encode() not in pickled
    again = pickle.loads(pickled)
    again.publish(tmp_path / "out.csv")
    with raises(mc.errors.OptionError, "option.missing", option="original"):
        again.publish(tmp_path / "out.csv", report=tmp_path / "out.html")


@pytest.mark.parametrize(
    ("quasi", "drawn"), [(["age", "bmi"], True), (["age", "bmi", "tsh"], False)]
)
def test_a_report_maps_cells_in_two_dimensions(quasi, drawn):
    schema = mc.Schema(quasi=quasi, rest="drop")
    release = mc.anonymize(people(), schema, k=5, method="mdav")
    picture = mc.plot.release(people(), release)
    assert (picture is not None) is drawn
    page = mc.render(mc.audit(people(), release.table, schema), "html", picture=picture)
    assert ('<h2 id="cells">' in page) is drawn


def test_a_column_without_values_stays_empty_even_if_it_is_a_sum() -> None:
    table = {"a": [1, 2, 3, 4], "b": [1, 1, 2, 2], "total": [None] * 4}
    schema = mc.Schema(quasi=["a", "b", mc.Column("total", kind="numeric", sum_of=("a", "b"))])
    release = mc.anonymize(table, schema, k=2, method="mdav", missing="impute")
    assert release.published.columns["total"].missing.all()
