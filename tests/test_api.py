"""From a table to a release: the guarantee, the types, the files, and every kind of bad input."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import microcell as mc
from microcell import api, auditing, tables

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
    """k by plain counting, apart from the code under test."""
    frame = pl.DataFrame({name: list(table[name]) for name in names})
    return frame.group_by(names).len()["len"].min()


# ---------------------------------------------------------------------------------------------- what comes back


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
def test_the_same_kind_of_frame_comes_back(make):
    frame = make(people())
    release = mc.anonymize(frame, SCHEMA, k=5, method="mdav")
    expected = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    assert type(release.table) is type(expected)
    assert release.published.names == ("age", "bmi", "sex", "tsh")
    assert smallest_class(release.published.native, ["age", "bmi", "sex"]) >= 5
    assert list(map(float, release.table["tsh"])) == list(map(float, people()["tsh"]))
    if isinstance(frame, pd.DataFrame):
        assert release.table.index.equals(frame.index)
        assert (release.table.dtypes == frame.dtypes[1:]).all()
    if isinstance(expected, pl.DataFrame):
        assert release.table.schema == expected.drop("name").schema
    if isinstance(frame, pa.Table):
        assert release.table.schema == frame.drop_columns(["name"]).schema


def test_cells_share_the_very_same_values():
    release = mc.anonymize(people(), SCHEMA, k=4)
    for cell in range(len(release.partition)):
        members = release.partition.labels == cell
        for name in ("age", "bmi", "sex"):
            assert len(set(np.asarray(release.table[name])[members].tolist())) == 1


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "polars"])
def test_names_of_categories_that_no_record_has_any_more_are_not_published(kind):
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


def test_the_callers_table_is_not_changed():
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
def test_known_losses_from_file_to_audit(data_folder, name, k, loss):
    frame = pl.read_csv(data_folder / f"{name}.csv")
    schema = mc.Schema(quasi=frame.columns)
    release = mc.anonymize(frame, schema, k=k, method="mdav")
    assert round(100 * release.manifest.distortion, 4) == loss
    # the audit sees published values, rounded to whole numbers as the data are
    assert 100 * mc.audit(frame, release.table, schema)["distortion"] == pytest.approx(
        loss, rel=1e-3
    )


def test_the_manifest_tells_all_but_no_value():
    columns = people()
    release = mc.anonymize(columns, SCHEMA, k=5, method="vmdav", gamma=0.3, seed=4)
    manifest = release.manifest.as_dict()
    assert manifest["k"] == 5
    assert manifest["method"] == {
        "asked": "vmdav",
        "used": "vmdav",
        "why": "asked for",
        "options": {"gamma": 0.3},
    }
    assert manifest["seed"] == 4
    assert manifest["records"] == {"in": 60, "out": 60, "dropped": 0}
    assert manifest["cells"]["smallest"] >= 5
    assert sum(int(size) * count for size, count in manifest["cells"]["sizes"].items()) == 60
    assert manifest["microcell"] == mc.__version__
    assert release.manifest["distortion"] == mc.audit(columns, release.table, SCHEMA)["distortion"]
    assert 0 < manifest["cells"]["distortion"] < 1
    assert len(manifest["input"]["sha256"]) == 64
    text = json.dumps(manifest)
    assert SECRET not in text
    assert "female" not in text


def test_the_same_input_and_seed_give_the_same_release():
    first, second = (mc.anonymize(people(), SCHEMA, k=5, seed=1) for _ in range(2))
    assert (first.partition.labels == second.partition.labels).all()
    assert (first.row_order == second.row_order).all()
    other = mc.anonymize(people(), SCHEMA, k=5, seed=2)
    assert not (first.row_order == other.row_order).all()


def test_the_order_of_rows_depends_on_the_data_and_not_on_the_seed_alone():
    """Whoever knows the seed, from a published manifest, must not be able to undo the shuffle."""
    columns = people()
    changed = {**columns, "tsh": columns["tsh"] + 0.01}
    first, second = (mc.anonymize(table, SCHEMA, k=5, seed=1) for table in (columns, changed))
    assert not (first.row_order == second.row_order).all()


# ---------------------------------------------------------------------------------------------- roles and strata


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


def test_a_missing_stratum_is_a_stratum():
    columns = {"age": np.arange(12), "region": ["a"] * 6 + [None] * 6}
    release = mc.anonymize(pl.DataFrame(columns), mc.Schema(quasi=["age"], strata=["region"]), k=3)
    assert len(release.partition) == 4


def test_a_stratum_smaller_than_k_is_refused():
    columns = {"age": np.arange(12), "region": ["a"] * 10 + [SECRET] * 2}
    with pytest.raises(
        mc.errors.TooFewRecordsError, match=r"1 of 2 strata \(by 'region'\) have fewer than k = 3"
    ) as error:
        mc.anonymize(columns, mc.Schema(quasi=["age"], strata=["region"]), k=3)
    assert SECRET not in str(error.value)


def test_sampling_weights_weigh_the_representatives():
    columns = {"age": [10.0, 20.0, 80.0, 90.0], "w": [3.0, 1.0, 1.0, 1.0]}
    release = mc.anonymize(columns, mc.Schema(quasi=["age"], weight="w"), k=2)
    assert release.table["age"].tolist() == [12.0, 12.0, 85.0, 85.0]
    assert release.table["w"].tolist() == columns["w"]


def test_sampling_weights_reach_the_cells():
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


def test_column_weights_change_what_is_near():
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=200), "b": rng.normal(size=200)}
    light, heavy = (
        mc.audit(columns, mc.anonymize(columns, schema, k=5).table, schema)["distortion.a"]
        for schema in (
            mc.Schema(quasi=["a", "b"]),
            mc.Schema(quasi=[mc.Column("a", weight=25.0), "b"]),
        )
    )
    assert heavy < light / 3


def test_every_kind_at_once():
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
    found = mc.audit(frame, release.table, schema)
    assert 0 < found["distortion"] < 1
    assert {f"distortion.{name}" for name in ("when", "grade", "zip", "home", "income")} <= set(
        found.measures
    )


# ---------------------------------------------------------------------------------------------- missing values


def with_gaps():
    frame = pl.DataFrame(people())
    rows = pl.int_range(pl.len())
    return frame.with_columns(
        pl.when(rows % 10 == 3).then(None).otherwise(pl.col("age")).alias("age"),
        pl.when(rows % 15 == 4).then(None).otherwise(pl.col("sex")).alias("sex"),
    )


def test_missing_values_are_refused_by_default():
    with pytest.raises(mc.errors.DataError, match=r"Missing values in 'age' \(6\), 'sex' \(4\)"):
        mc.anonymize(with_gaps(), SCHEMA, k=5)


def test_missing_drop_reports_the_rows():
    release = mc.anonymize(with_gaps(), SCHEMA, k=5, missing="drop")
    assert release.manifest.records == {"in": 60, "out": 50, "dropped": 10}
    assert release.table.height == 50
    found = mc.audit(with_gaps(), release.table, SCHEMA).require(k=5)
    assert found["records_dropped"] == 10
    assert "distortion" in found.measures


def test_missing_impute_publishes_the_representative_for_all():
    release = mc.anonymize(with_gaps(), SCHEMA, k=5, missing="impute")
    assert release.table.height == 60
    assert release.table["age"].null_count() == 0
    assert release.manifest.records == {"in": 60, "out": 60, "dropped": 0, "imputed": 10}
    mc.audit(with_gaps(), release.table, SCHEMA).require(k=5)


def test_missing_everywhere():
    frame = pl.DataFrame({"a": pl.Series([None] * 10, dtype=pl.Int64), "b": range(10)})
    schema = mc.Schema(quasi=["a", "b"])
    with pytest.raises(mc.errors.DataError, match=r"'a' \(10\)"):
        mc.anonymize(frame, schema, k=3)
    with pytest.raises(mc.errors.TooFewRecordsError, match="0 records"):
        mc.anonymize(frame, schema, k=3, missing="drop")
    assert mc.anonymize(frame, schema, k=3, missing="impute").table["a"].null_count() == 10


def test_missing_confidential_values_are_left_alone():
    frame = pl.DataFrame({"a": range(10), "c": [None] * 5 + [1] * 5})
    release = mc.anonymize(frame, mc.Schema(quasi=["a"], confidential=["c"]), k=3)
    assert release.table["c"].to_list() == frame["c"].to_list()


# ---------------------------------------------------------------------------------------------- bad input


def test_all_rows_equal():
    release = mc.anonymize({"a": [7] * 9, "b": ["x"] * 9}, mc.Schema(quasi=["a", "b"]), k=4)
    assert release.table["a"].tolist() == [7] * 9
    assert release.manifest.distortion == 0


def test_n_equal_to_k_is_one_cell():
    release = mc.anonymize({"a": [1, 2, 6]}, mc.Schema(quasi=["a"]), k=3)
    assert release.table["a"].tolist() == [3, 3, 3]


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_too_few_rows_are_refused(rows):
    with pytest.raises(
        mc.errors.TooFewRecordsError, match=f"{rows} records cannot make a cell of k = 5"
    ):
        mc.anonymize(
            pl.DataFrame({"a": pl.Series(range(rows), dtype=pl.Int64)}), mc.Schema(quasi=["a"]), k=5
        )


@pytest.mark.parametrize("k", [1, 0, 2.0, "3", None, True])
def test_a_wrong_k_is_refused(k):
    with pytest.raises(mc.errors.OptionError, match="k must be"):
        mc.anonymize(people(), SCHEMA, k=k)


@pytest.mark.parametrize("seed", [-1, 1.5, "0", None])
def test_a_wrong_seed_is_refused(seed):
    with pytest.raises(mc.errors.OptionError, match="seed must be a whole number"):
        mc.anonymize(people(), SCHEMA, k=5, seed=seed)


def test_wrong_options_are_refused():
    with pytest.raises(mc.errors.OptionError, match="missing must be one of error, drop, impute"):
        mc.anonymize(people(), SCHEMA, k=5, missing="ignore")
    with pytest.raises(mc.errors.OptionError, match="Method 'mdav' has no option 'gamma'"):
        mc.anonymize(people(), SCHEMA, k=5, method="mdav", gamma=0.2)
    with pytest.raises(mc.errors.OptionError, match="No method"):
        mc.anonymize(people(), SCHEMA, k=5, method="magic")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (mc.Schema(quasi=["age"]), "No role for columns 'name', 'bmi', 'sex', 'tsh'"),
        (
            mc.Schema(quasi=["agee", "bmi"], rest="keep"),
            "column 'agee', but the table has no such column. Did you mean 'age' by 'agee'?",
        ),
        (mc.Schema(identifiers=["name"], rest="keep"), "declares no quasi-identifier"),
        (
            mc.Schema(quasi=[mc.Column("sex", kind="numeric")], rest="drop"),
            "'sex' is declared numeric but contains text",
        ),
        (
            mc.Schema(quasi=[mc.Column("age", kind="datetime")], rest="drop"),
            "'age' is declared datetime but contains integer",
        ),
        (
            mc.Schema(quasi=[mc.Column("sex", kind="ordinal")], rest="drop"),
            "List its categories, lowest first",
        ),
    ],
)
def test_schemas_that_do_not_fit_are_refused(schema, message):
    with pytest.raises(mc.errors.SchemaError, match=message):
        mc.anonymize(people(), schema, k=5)


def test_a_table_without_a_header_does_not_show_its_first_record(tmp_path):
    path = tmp_path / "no_header.csv"
    path.write_text(f"{SECRET},31,{SECRET}2\nB,32,x\nC,33,y\n")
    with pytest.raises(mc.errors.SchemaError, match="column names in the first row") as error:
        mc.anonymize(path, mc.Schema(quasi=["age"], identifiers=["name"], rest="keep"), k=2)
    assert SECRET not in str(error.value)


def test_text_among_numbers_is_refused_with_the_row():
    with pytest.raises(mc.errors.SchemaError, match="2 not numbers, first in row 2") as error:
        mc.anonymize(
            {"a": ["1", SECRET, "3", SECRET]},
            mc.Schema(quasi=[mc.Column("a", kind="numeric")]),
            k=2,
        )
    assert SECRET not in str(error.value)


def test_a_date_is_no_code():
    frame = pl.DataFrame({"d": pl.Series([1, 2, 3, 4]).cast(pl.Date)})
    with pytest.raises(mc.errors.SchemaError, match="declared code but contains date values"):
        mc.anonymize(frame, mc.Schema(quasi=[mc.Column("d", kind="code")]), k=2)
    with pytest.raises(
        mc.errors.SchemaError, match=r"code but contains boolean values\. Declare it nominal"
    ):
        mc.anonymize({"d": [True, False] * 2}, mc.Schema(quasi=[mc.Column("d", kind="code")]), k=2)


def test_infinities_are_refused():
    with pytest.raises(
        mc.errors.DataError, match=r"Column 'a' contains 1 infinite value, first in row 3"
    ):
        mc.anonymize({"a": [1.0, 2.0, np.inf, 4.0]}, mc.Schema(quasi=["a"]), k=2)


def test_large_numbers_with_a_small_spread():
    x = 1.7e9 + np.arange(40) / 16
    release = mc.anonymize({"t": x}, mc.Schema(quasi=["t"]), k=4)
    assert len(release.partition) == 10
    assert mc.audit({"t": x}, release.table, mc.Schema(quasi=["t"]))["distortion"] < 0.02


def test_minus_999_is_a_value():
    release = mc.anonymize({"a": [-999, -997, 1, 3]}, mc.Schema(quasi=["a"]), k=2)
    assert release.table["a"].tolist() == [-998, -998, 2, 2]


def test_a_release_that_breaks_the_promise_never_leaves(monkeypatch):
    """Should a defect slip in anywhere before, the count on the finished table stops it."""

    def broken(table, labels, representatives, drop):
        return tables.read(
            {"age": np.arange(60), "bmi": np.arange(60), "sex": ["x"] * 60, "tsh": [0] * 60}
        )

    monkeypatch.setattr(api.tables, "publish", broken)
    with pytest.raises(mc.GuaranteeError, match="a class of 1 records, fewer than k = 5"):
        mc.anonymize(people(), SCHEMA, k=5)


@pytest.mark.parametrize("lost", ["row", "identifier"])
def test_lost_rows_and_kept_identifiers_never_leave(monkeypatch, lost):
    table = {
        name: column[: 59 if lost == "row" else 60]
        for name, column in people().items()
        if lost != "row" or name != "name"
    }
    monkeypatch.setattr(api.tables, "publish", lambda *_: tables.read(table))
    with pytest.raises(
        mc.GuaranteeError, match=r"59 records instead of 60|Columns \['name'\] are not as"
    ):
        mc.anonymize(people(), SCHEMA, k=5)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
def test_any_table_gives_a_proved_release_or_a_refusal(rows, k, missing):
    frame = pl.DataFrame(
        rows, schema={"a": pl.Int64, "b": pl.Float64, "c": pl.String, "d": pl.Boolean}, orient="row"
    )
    schema = mc.Schema(quasi=["a", "b", "c", "d"])
    complete = frame.drop_nulls().height if missing == "drop" else frame.height
    if complete < k:
        with pytest.raises(mc.errors.TooFewRecordsError):
            mc.anonymize(frame, schema, k=k, missing=missing)
        return
    release = mc.anonymize(frame, schema, k=k, missing=missing)
    assert release.table.height == complete
    assert release.table.group_by(frame.columns).len()["len"].min() >= k
    assert release.table.schema == frame.schema


# ---------------------------------------------------------------------------------------------- files


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


def test_rows_are_shuffled_unless_asked_not_to(csv_file):
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    mc.publish(release, csv_file.with_name("a.csv"))
    mc.publish(release, csv_file.with_name("b.csv"), keep_order=True)
    shuffled, kept = (pl.read_csv(csv_file.with_name(name)) for name in ("a.csv", "b.csv"))
    assert kept["tsh"].to_list() == people()["tsh"].tolist()
    assert shuffled["tsh"].to_list() != kept["tsh"].to_list()
    assert shuffled.sort(pl.all()).equals(kept.sort(pl.all()))


@pytest.mark.parametrize("missing", ["drop", "impute"])
def test_a_shuffled_file_is_audited_with_its_manifest(tmp_path, missing):
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    with_gaps().write_csv(source)
    release = mc.anonymize(source, SCHEMA, k=5, missing=missing)
    mc.publish(release, output)
    manifest = json.loads((tmp_path / "out.csv.manifest.json").read_text())
    in_memory = mc.audit(source, release.table, SCHEMA)
    from_file = mc.audit(source, output, SCHEMA, manifest=manifest)
    assert from_file["distortion"] == pytest.approx(in_memory["distortion"])
    assert (
        mc.audit(source, output, SCHEMA)["distortion"] == from_file["distortion"]
    )  # finds the manifest by itself
    (tmp_path / "out.csv.manifest.json").unlink()
    blind = mc.audit(source, output, SCHEMA)
    assert blind["k"] >= 5
    assert "distortion" not in blind.measures
    assert blind.notes


@pytest.mark.parametrize("role", ["quasi", "nominal", "confidential", "strata"])
@pytest.mark.parametrize("made_of", ["file", "pandas", "polars"])
def test_dates_are_dates_in_files_and_in_frames(tmp_path, made_of, role):
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
    mc.publish(mc.anonymize(originals[made_of], schema, k=5), output)
    assert "T00:00:00" not in output.read_text()
    assert pl.read_csv(output, try_parse_dates=True).schema["day"] == pl.Date
    found = {name: mc.audit(original, output, schema) for name, original in originals.items()}
    assert not any(audit.notes for audit in found.values())
    assert len({audit["distortion"] for audit in found.values()}) == 1


def test_an_audit_with_the_wrong_original_says_so(csv_file):
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    mc.publish(release, csv_file.with_name("out.csv"))
    manifest = json.loads(csv_file.with_name("out.csv.manifest.json").read_text())
    other = people(seed=1)
    pl.DataFrame(other).write_csv(csv_file)
    found = mc.audit(csv_file, csv_file.with_name("out.csv"), SCHEMA, manifest=manifest)
    assert any("its digest is not the manifest's" in note for note in found.notes)
    with pytest.raises(mc.RequirementError, match="manifest_contradictions is 1"):
        found.require(k=5)


def test_an_audit_with_a_weaker_schema_or_another_file_says_so(csv_file):
    output = csv_file.with_name("out.csv")
    mc.publish(mc.anonymize(csv_file, SCHEMA, k=5), output)
    weaker = mc.Schema(identifiers=["name"], quasi=["sex"], rest="keep")
    found = mc.audit(csv_file, output, weaker)
    assert any("another role in the schema" in note for note in found.notes)
    lines = output.read_text().splitlines(keepends=True)
    output.write_text("".join(lines[:-1]))
    found = mc.audit(csv_file, output, SCHEMA)
    assert any("not the file that was written" in note for note in found.notes)
    assert any("another number of released records" in note for note in found.notes)
    with pytest.raises(mc.RequirementError, match="manifest_contradictions is 3"):
        found.require(k=2)  # k is 4 now, too


@pytest.mark.parametrize(
    ("altered", "words"),
    [
        ({"k": 6}, "smaller class than the k of the manifest"),
        ({"records": {"in": 201, "out": 200, "dropped": 1}}, "another number of original records"),
        (
            {"cells": {"merged": {"require": {"k": 5.0, "l_diversity": 6.0}}}},
            "l_diversity is 5, required at least 6.",
        ),
        ({"cells": {"merged": {"require": {"t_closeness.tsh": 0}}}}, "t_closeness.tsh is"),
    ],
    ids=["k", "records", "limit", "limit of a column"],
)
def test_an_untrue_statement_of_a_manifest_is_a_contradiction(altered, words):
    table = {"age": np.arange(200), "tsh": np.arange(200) % 7}
    schema = mc.Schema(quasi=["age"], confidential=["tsh"])
    release = mc.anonymize(table, schema, k=5, method="mdav", require={"l_diversity": 5})
    assert mc.audit(table, release.table, schema, manifest=release.manifest).require(k=5)["k"] == 5
    found = mc.audit(
        table, release.table, schema, manifest={**release.manifest.as_dict(), **altered}
    )
    assert found["manifest_contradictions"] == 1
    assert words in found.notes[0]


@pytest.mark.parametrize(
    "limits",
    [
        {"nonsense": 3},
        {"l_diversity": "x"},
        {"l_diversity.age": 3},
        {"l_diversity": True},
        [],
        None,
    ],
)
def test_limits_that_a_damaged_manifest_tells_are_passed_over(limits):
    table = {"age": np.arange(20), "tsh": np.arange(20) % 7}
    schema = mc.Schema(quasi=["age"], confidential=["tsh"])
    release = mc.anonymize(table, schema, k=5)
    manifest = {**release.manifest.as_dict(), "cells": {"merged": {"require": limits}}}
    assert mc.audit(table, release.table, schema, manifest=manifest)["manifest_contradictions"] == 0


def test_two_releases_of_a_table_cannot_be_laid_side_by_side():
    first, second, third = (
        mc.anonymize(people(), schema, k=k)
        for k, schema in ((5, SCHEMA), (6, SCHEMA), (5, mc.Schema(quasi=["age"], rest="drop")))
    )
    assert not (first.row_order == second.row_order).all()
    assert not (first.row_order == third.row_order).all()


@pytest.mark.parametrize("values", [[0.0, -0.0], [None, float("nan")]])
def test_strata_that_count_as_one_are_published_as_one(tmp_path, values):
    frame = pl.DataFrame(
        {"age": range(6), "s": pl.Series(values * 3, dtype=pl.Float64, strict=False)}
    )
    release = mc.anonymize(frame, mc.Schema(quasi=["age"], strata=["s"]), k=5)
    assert len(set(map(str, release.table["s"]))) == 1
    for suffix in (".csv", ".parquet"):
        mc.publish(release, tmp_path / f"out{suffix}")
        assert len(set(map(str, pl.read_csv(tmp_path / "out.csv")["s"]))) == 1


def test_a_column_slipped_into_the_release_does_not_leave(tmp_path):
    release = mc.anonymize(pd.DataFrame(people()), SCHEMA, k=5)
    release.table["name"] = people()["name"]
    with pytest.raises(mc.GuaranteeError, match="not as the schema wants them"):
        mc.publish(release, tmp_path / "out.csv")


def test_natural_arguments_are_understood(csv_file):
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
            mc.audit(csv_file, output, schema_file, manifest=manifest).require(k=5)["distortion"]
            < 1
        )
    assert mc.inspect(csv_file).rows == mc.inspect(pl.read_csv(csv_file)).rows == 60
    mc.write(release.table, csv_file.with_name("again.parquet"))
    assert pl.read_parquet(csv_file.with_name("again.parquet")).equals(release.table)
    with pytest.raises(
        mc.errors.SchemaError, match="must be a Schema or the path of its file, not dict"
    ):
        mc.anonymize(csv_file, {"quasi": ["age"]}, k=5)


def test_output_equal_to_input_is_refused(csv_file):
    before = csv_file.read_bytes()
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    with pytest.raises(mc.errors.TableError, match="is also an input"):
        mc.publish(release, csv_file)
    assert csv_file.read_bytes() == before


def test_outputs_that_could_not_be_written_are_refused(csv_file):
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    folder = csv_file.parent
    for output, beside, message in [
        (folder / "out.nonsense", {}, "Tables cannot be written as '.nonsense'"),
        (folder, {}, "is a folder"),
        (folder / "out.csv", {folder / "out.csv": "report"}, "would be written twice"),
        (
            folder / "out.csv",
            {folder / "out.csv.manifest.json": "report"},
            "would be written twice",
        ),
        (folder / "out.csv", {csv_file: "report"}, "is also an input"),
    ]:
        with pytest.raises(mc.errors.TableError, match=message):
            mc.publish(release, output, beside=beside)
    assert [path.name for path in folder.iterdir()] == ["people.csv"]


@pytest.mark.parametrize(
    "manifest",
    [
        {"row_order": "shuffled"},
        {"row_order": "shuffled", "missing": "error", "seed": None},
        {"row_order": 3},
    ],
)
def test_a_damaged_manifest_tells_nothing(csv_file, manifest):
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    mc.publish(release, csv_file.with_name("out.csv"))
    found = mc.audit(csv_file, csv_file.with_name("out.csv"), SCHEMA, manifest=manifest)
    assert found["k"] >= 5
    assert "distortion" not in found.measures


def test_a_missing_folder_is_refused(csv_file):
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    with pytest.raises(mc.errors.TableError, match=r"folder of .* does not exist"):
        mc.publish(release, csv_file.parent / "none" / "out.csv")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(csv_file, monkeypatch, error):
    output = csv_file.with_name("out.csv")
    output.write_text("old")

    def fail(table, path, **_):
        Path(path).write_text("half")
        raise error

    monkeypatch.setattr(api.tables, "write", fail)
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    with pytest.raises(type(error)):
        mc.publish(release, output, beside={csv_file.with_name("report.html"): "report"})
    assert output.read_text() == "old"
    assert sorted(path.name for path in csv_file.parent.iterdir()) == ["out.csv", "people.csv"]


def test_a_file_that_lost_the_promise_on_the_way_is_not_released(csv_file, monkeypatch):
    def lossy(table, path, **_):
        Path(path).write_text("age,bmi,sex,tsh\n" + "".join(f"{i},1.0,x,1\n" for i in range(60)))

    monkeypatch.setattr(api.tables, "write", lossy)
    release = mc.anonymize(csv_file, SCHEMA, k=5)
    with pytest.raises(mc.GuaranteeError, match="a class of 1 records"):
        mc.publish(release, csv_file.with_name("out.csv"))
    assert not csv_file.with_name("out.csv").exists()


def test_progress_is_told(csv_file):
    told = []
    with mc.listen(lambda task, *_: told.append(task)):
        mc.anonymize(csv_file, SCHEMA, k=5)
    assert {"reading", "encoding", "grouping records", "aggregating", "checking"} <= set(told)


# ---------------------------------------------------------------------------------------------- exactness


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([2**63 + i for i in range(2)], dtype=pl.UInt64),
        pl.Series(["12345678901234567890.01", "12345678901234567890.02"]).cast(pl.Decimal(38, 2)),
    ],
    ids=["unsigned", "decimal"],
)
def test_numbers_that_floats_cannot_tell_apart_stay_apart(values):
    frame = pl.DataFrame({"age": range(6), "s": pl.concat([values] * 3)})
    assert mc.audit(frame, frame, mc.Schema(quasi=["s"], rest="keep"))["k"] == 3
    with pytest.raises(mc.errors.TooFewRecordsError, match="2 of 2 strata"):
        mc.anonymize(frame, mc.Schema(quasi=["age"], strata=["s"]), k=5)


def test_a_file_cut_within_a_character_is_refused(tmp_path):
    path = tmp_path / "cut.csv"
    path.write_bytes("name,age\nJosé,31\nRené".encode()[:-1])
    with pytest.raises(mc.errors.TableError, match="ends within a character"):
        mc.read(path)


def test_long_addresses_survive_a_spreadsheet(tmp_path):
    links = [f"http://{'x' * 3000}{i}" for i in range(4)]
    release = mc.anonymize(
        {"age": [1, 2, 8, 9], "link": links}, mc.Schema(quasi=["age"], keep=["link"]), k=2
    )
    mc.publish(release, tmp_path / "out.xlsx", keep_order=True)
    assert pl.read_excel(tmp_path / "out.xlsx")["link"].to_list() == links


# ---------------------------------------------------------------------------------------------- cells as a function

METHODS = ["auto", "mdav", "vmdav", "bisect", "anneal", "pcl"]
KINDS = {True: "power", "power": "power", "balls": "balls", "lookup": "lookup"}


def distinct_people(n=120, seed=0):
    """People no two of whom are alike: cells are then the same whether they are a function or not."""
    rng = np.random.default_rng(seed)
    return {**people(n, seed), "age": rng.uniform(18, 90, n), "bmi": rng.normal(25, 4, n)}


def test_a_release_has_no_cells_unless_asked():
    for cells in (False, None):
        release = mc.anonymize(people(), SCHEMA, k=5, cells=cells)
        assert release.cells is None
        assert "function" not in release.manifest.cells


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cells", KINDS)
def test_k_holds_with_cells_of_every_kind(cells, method):
    table = distinct_people()
    release = mc.anonymize(table, SCHEMA, k=5, method=method, cells=cells)
    assert release.cells.kind == release.manifest.cells["function"] == KINDS[cells]
    assert smallest_class(release.table, ["age", "bmi", "sex"]) >= 5
    assert (release.cells.k, len(release.cells)) == (5, len(release.partition))
    np.testing.assert_array_equal(release.cells.sizes, release.partition.sizes)
    for name in ("age", "bmi", "sex"):
        told = np.array(release.cells.representatives[name])[release.partition.labels]
        assert told.tolist() == list(release.table[name])
    mc.audit(table, release.table, SCHEMA).require(k=5)


@pytest.mark.parametrize("method", METHODS)
def test_power_cells_never_raise_the_distortion(method):
    plain, power = (
        mc.anonymize(distinct_people(), SCHEMA, k=5, method=method, cells=cells).manifest
        for cells in (False, True)
    )
    assert power.cells["distortion"] <= plain.cells["distortion"] * (1 + 1e-12)
    assert power.cells["sizes"] == plain.cells["sizes"]
    polished = "" if method == "pcl" else ", then polished into power cells"
    assert power.method["why"] == plain.method["why"] + polished
    assert power.method["used"] == plain.method["used"]


def test_power_cells_of_a_refined_pcl_are_polished_too():
    release = mc.anonymize(distinct_people(), SCHEMA, k=5, method="pcl", refine=True, cells=True)
    plain = mc.anonymize(distinct_people(), SCHEMA, k=5, method="pcl", refine=True)
    assert release.manifest.cells["distortion"] <= plain.manifest.cells["distortion"] * (1 + 1e-12)
    assert smallest_class(release.table, ["age", "bmi", "sex"]) >= 5


def test_balls_and_lookup_keep_the_cells_of_mdav():
    plain = mc.anonymize(distinct_people(), SCHEMA, k=5, method="mdav").partition.labels
    for cells in ("balls", "lookup"):
        release = mc.anonymize(distinct_people(), SCHEMA, k=5, method="mdav", cells=cells)
        np.testing.assert_array_equal(release.partition.labels, plain)


@pytest.mark.parametrize("cells", [True, "balls"])
@pytest.mark.parametrize("method", ["auto", "mdav", "pcl"])
def test_k_holds_where_records_are_alike(method, cells):
    rng = np.random.default_rng(1)
    table = {"a": rng.integers(0, 4, 100), "b": rng.integers(0, 3, 100)}
    release = mc.anonymize(table, mc.Schema(quasi=["a", "b"]), k=5, method=method, cells=cells)
    assert smallest_class(release.table, ["a", "b"]) >= 5
    assert len(release.cells) == len(release.partition)


def test_one_dimension_and_one_cell():
    release = mc.anonymize(
        {"a": np.random.default_rng(0).normal(size=50)}, mc.Schema(quasi=["a"]), k=4, cells=True
    )
    assert release.manifest.method["used"] == "univariate"
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
def test_a_kind_of_cells_that_is_none_is_refused(cells):
    with pytest.raises(
        mc.errors.OptionError, match="cells must be true, false or one of power, balls, lookup"
    ):
        mc.anonymize(people(), SCHEMA, k=5, cells=cells)


@pytest.mark.parametrize("cells", [True, "balls", "lookup"])
def test_cells_with_strata_are_refused_by_name(cells):
    schema = mc.Schema(
        identifiers=["name"], quasi=["age", "bmi"], strata=["sex"], confidential=["tsh"]
    )
    with pytest.raises(mc.errors.OptionError, match="do not go with strata"):
        mc.anonymize(people(), schema, k=5, cells=cells)


def test_a_single_stratum_has_cells():
    schema = mc.Schema(
        identifiers=["name"], quasi=["age", "bmi"], strata=["sex"], confidential=["tsh"]
    )
    table = {**people(), "sex": np.array(["female"] * 60, dtype=object)}
    assert mc.anonymize(table, schema, k=5, cells=True).cells.kind == "power"


@pytest.mark.parametrize("cells", [True, "balls", "lookup"])
def test_cells_of_what_does_not_vary_are_refused(cells):
    with pytest.raises(mc.errors.OptionError, match="No quasi-identifier varies"):
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
    told = numbers_in([content["encoding"], content["representatives"]["age"], content["cells"]])
    assert not {min(ages), max(ages), 98765, 8317} & set(told)
    points = (table["age"] - table["age"].mean()) / table["age"].std()
    assert np.abs(np.array(told)[:, None] - [points.min(), points.max()]).min() > 1e-12


def test_a_release_with_cells_is_published_like_any_other(csv_file):
    release = mc.anonymize(csv_file, SCHEMA, k=5, cells=True)
    output, beside = csv_file.with_name("out.csv"), csv_file.with_name("cells.json")
    mc.publish(release, output, beside={beside: release.cells.to_json()})
    assert mc.load_cells(beside).sizes.tolist() == release.partition.sizes.tolist()
    assert json.loads(mc.release.manifest_path(output).read_text())["cells"]["function"] == "power"
    mc.audit(csv_file, output, SCHEMA).require(k=5)


def test_lookup_cells_are_not_made_into_text():
    release = mc.anonymize(distinct_people(), SCHEMA, k=5, method="mdav", cells="lookup")
    with pytest.raises(mc.errors.OptionError, match="hold the records"):
        release.cells.to_json()


@pytest.mark.parametrize(
    ("quasi", "drawn"), [(["age", "bmi"], True), (["age", "bmi", "tsh"], False)]
)
def test_a_report_has_a_picture_of_cells_in_two_dimensions(quasi, drawn):
    schema = mc.Schema(quasi=quasi, rest="drop")
    release = mc.anonymize(people(), schema, k=5, method="mdav")
    picture = mc.plot.release(people(), release)
    assert (picture is not None) is drawn
    page = mc.render(mc.audit(people(), release.table, schema), "html", picture=picture)
    assert ('<h2 id="cells">' in page) is drawn
