"""Reading frames and files: types, missing values, errors, digests."""

import hashlib
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from microcell.errors import OptionError, TableError
from microcell.model import Table, Values
from microcell.tables import digest, file_digest, read
from tests.raising import raises


def _values(column: Any) -> Values:
    if isinstance(column, pl.Series):
        return read(pl.DataFrame({"x": column})).columns["x"]
    if isinstance(column, pd.Series):
        return read(pd.DataFrame({"x": column})).columns["x"]
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return read(pa.table({"x": column})).columns["x"]
    return read({"x": column}).columns["x"]


def _plain(values: Values) -> list[Any]:
    names = values.categories
    return [
        None if gone else (names[item] if values.storage in ("text", "boolean") else item)
        for item, gone in zip(values.data.tolist(), values.missing, strict=True)
    ]


ORDERED = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
SAME = [
    ("integer", [1, 2, None], None, [
        pl.Series([1, 2, None], dtype=pl.Int8), pl.Series([1, 2, None], dtype=pl.UInt64),
        pd.Series([1, 2, None], dtype="Int16"), pd.Series([1, 2, None], dtype="uint8[pyarrow]"),
        pd.Series([1, 2, None], dtype=object), pd.Series([1, 2, pd.NA], dtype=object),
        pa.array([1, 2, None], pa.int32()), [1, 2, None], np.array([1, 2, None], dtype=object),
        np.ma.masked_array([1, 2, 7], mask=[False, False, True]),
        pa.array([1, 2, None]).dictionary_encode(),
    ]),
    ("float", [1.5, 2.0, None], None, [
        pl.Series([1.5, 2.0, None], dtype=pl.Float32), pl.Series([1.5, 2.0, float("nan")]),
        pl.Series([Decimal("1.50"), Decimal("2.00"), None]), pd.Series([1.5, 2.0, None]),
        pd.Series([1.5, 2.0, None], dtype="Float64"),
        pd.Series([1.5, 2.0, None], dtype="float[pyarrow]"),
        pd.Series([Decimal("1.5"), Decimal("2"), None]), pd.Series([1.5, 2, None], dtype=object),
        pa.array([Decimal("1.5"), Decimal("2.0"), None], pa.decimal128(5, 1)),
        pa.array([Decimal("1.5"), Decimal("2.0"), None], pa.decimal256(50, 1)),
        [1.5, 2, None], [1.5, 2, float("nan")], np.array([1.5, 2, np.nan], np.float32),
        np.array([1.5, 2, np.nan], np.float16), np.array([1.5, 2, np.nan], ">f8"),
    ]),
    ("text", ["b", "a", None], None, [
        pl.Series(["b", "a", None]), pl.Series(["b", "a", None], dtype=pl.Categorical),
        pd.Series(["b", "a", None]),
        pd.Series(["b", "a", None], dtype=object), pd.Series(["b", "a", np.nan], dtype=object),
        pd.Series(["b", "a", None], dtype="string"),
        pd.Series(["b", "a", None], dtype="string[pyarrow]"),
        pd.Series(["b", "a", None], dtype="category"),
        pd.Series(["b", "a", None], dtype=pd.ArrowDtype(pa.string())),
        pa.array(["b", "a", None]), pa.array(["b", "a", None], pa.large_string()),
        pa.array(["b", "a", None]).dictionary_encode(), ["b", "a", None],
    ]),
    ("boolean", ["true", "false", None], None, [
        pl.Series([True, False, None]), pd.Series([True, False, None], dtype="boolean"),
        pd.Series([True, False, None], dtype=object),
        pd.Series([True, False, None], dtype="bool[pyarrow]"),
        pa.array([True, False, None]), [True, False, None],
    ]),
    ("date", [19723, 0, None], "D", [
        pl.Series([date(2024, 1, 1), date(1970, 1, 1), None]),
        pd.Series([date(2024, 1, 1), date(1970, 1, 1), None]),
        pd.Series([date(2024, 1, 1), date(1970, 1, 1), None], dtype=pd.ArrowDtype(pa.date32())),
        pa.array([date(2024, 1, 1), date(1970, 1, 1), None]),
        pa.array([date(2024, 1, 1), date(1970, 1, 1), None], pa.date64()),
        np.array(["2024-01-01", "1970-01-01", "NaT"], "M8[D]"),
        np.array(["2024-01-01", "1970-01-01", "NaT"], "M8[M]"),
        [date(2024, 1, 1), date(1970, 1, 1), None],
    ]),
    ("datetime", [86400, -1, None], "s", [
        pd.Series(np.array([86400, -1, "NaT"], "M8[s]")),
        pa.array([86400, -1, None], pa.timestamp("s")),
        np.array([86400, -1, "NaT"], "M8[s]"),
        pa.array([86400, -1, None], pa.timestamp("s", "Europe/Paris")),
        pd.Series(np.array([86400, -1, "NaT"], "M8[s]"))
        .dt.tz_localize("UTC").dt.tz_convert("America/New_York"),
    ]),
    ("datetime", [86400000000, -1, None], "us", [
        pl.Series([datetime(1970, 1, 2), datetime(1969, 12, 31, 23, 59, 59, 999999), None]),
        pl.Series([86400000000, -1, None]).cast(pl.Datetime("us", "Asia/Tokyo")),
        pd.Series(np.array([86400000000, -1, "NaT"], "M8[us]")),
        pd.Series(
            [datetime(1970, 1, 2), datetime(1969, 12, 31, 23, 59, 59, 999999), pd.NaT], dtype=object
        ),
        pa.array([86400000000, -1, None], pa.timestamp("us")),
        [datetime(1970, 1, 2, tzinfo=UTC), pd.Timestamp(-1, unit="us", tz="UTC"), None],
        pd.Series(np.array([86400000000, -1, "NaT"], "M8[us]"))
        .dt.tz_localize(timezone(timedelta(hours=2)))
        + timedelta(hours=2),
    ]),
    ("datetime", [5, -1, None], "ns", [
        pd.Series(np.array([5, -1, "NaT"], "M8[ns]")),
        pl.Series([5, -1, None]).cast(pl.Datetime("ns")),
        pa.array([5, -1, None], pa.timestamp("ns", "UTC")),
    ]),
    ("duration", [90, 0, None], "s", [
        np.array([90, 0, "NaT"], "m8[s]"), pa.array([90, 0, None], pa.duration("s")),
        pd.Series(np.array([90, 0, "NaT"], "m8[s]")),
    ]),
    ("duration", [90_000_000, 0, None], "us", [
        pl.Series([timedelta(seconds=90), timedelta(0), None]),
        [timedelta(seconds=90), timedelta(0), None],
        pd.Series([timedelta(seconds=90), timedelta(0), None], dtype=object),
    ]),
    ("time", [60_000_000_000, 0, None], "ns", [
        pl.Series([time(0, 1), time(0, 0), None]), pd.Series([time(0, 1), time(0, 0), None]),
        pa.array([60, 0, None], pa.time32("s")), [time(0, 1), time(0, 0), None],
    ]),
]  # fmt: skip


@pytest.mark.parametrize(
    "storage, expected, unit, column",
    [
        (storage, expected, unit, column)
        for storage, expected, unit, columns in SAME
        for column in columns
    ],
)
def test_columns_are_converted_to_arrays(
    storage: str, expected: list[Any], unit: str | None, column: Any
) -> None:
    values = _values(column)
    assert (values.storage, values.unit, values.ordered) == (storage, unit, False)
    assert _plain(values) == expected
    assert values.data.dtype == (np.float64 if storage == "float" else np.int64)
    assert values.missing.dtype == np.bool_
    assert np.isfinite(values.data).all()


@pytest.mark.parametrize("columns", [columns for *_, columns in SAME])
def test_the_digest_does_not_depend_on_the_frame(columns: list[Any]) -> None:
    def as_frame(column: Any) -> Any:
        kinds = {pl.Series: pl.DataFrame, pd.Series: pd.DataFrame, pa.Array: pa.table}
        make = next((frame for kind, frame in kinds.items() if isinstance(column, kind)), dict)
        return make({"x": column})

    assert len({digest(read(as_frame(column))) for column in columns}) == 1


@pytest.mark.parametrize(
    "column",
    [
        pl.Series(["mid", None, "low"], dtype=pl.Enum(["low", "mid", "high"])),
        pd.Series(["mid", None, "low"], dtype=ORDERED),
        pa.DictionaryArray.from_arrays(
            pa.array([1, None, 0]), ["low", "mid", "high"], ordered=True
        ),
    ],
)
def test_declared_order_is_kept(column: Any) -> None:
    values = _values(column)
    assert (values.storage, values.ordered, values.categories) == (
        "text",
        True,
        ("low", "mid", "high"),
    )
    assert _plain(values) == ["mid", None, "low"]


def test_other_categories_are_converted_to_text() -> None:
    assert _plain(_values(pd.Series(pd.Categorical([3, 1, 3])))) == ["3", "1", "3"]
    assert _values(pd.Series(pd.Categorical([3, 1, 3], [3, 1], ordered=True))).categories == (
        "3",
        "1",
    )


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([None, None]),
        pl.Series([None, None], dtype=pl.String),
        pl.Series([float("nan"), None]),
        pd.Series([None, None]),
        pd.Series([np.nan, np.nan]),
        pa.nulls(2),
        [None, None],
    ],
)
def test_a_column_without_values_is_empty(column: Any) -> None:
    values = _values(column)
    assert values.storage == "empty"
    assert values.missing.tolist() == [True, True]


def test_integers_beyond_64_bits_are_floats() -> None:
    assert _values(pl.Series([2**63, 1], dtype=pl.UInt64)).storage == "float"
    assert _values(np.array([2**64 - 1, 1], np.uint64)).data.tolist() == [2.0**64, 1.0]
    assert _values(np.array([2**63 - 1, 1], np.uint64)).data.tolist() == [2**63 - 1, 1]


def test_minus_999_is_a_value() -> None:
    assert not _values(np.array([-999, 1])).missing.any()


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([[1], [2]]),
        pl.Series([{"a": 1}]),
        pl.Series([b"ab"]),
        pd.Series([1, "a"], dtype=object),
        pd.Series([True, 1], dtype=object),
        pd.Series([1, True], dtype=object),
        pd.Series([[1], [2]]),
        pd.Series([object()]),
        pd.Series([date(2024, 1, 1), datetime(2024, 1, 1)], dtype=object),
        pd.Series(pd.period_range("2024", periods=2)),
        pd.Series([1 + 2j]),
        pa.array([[1]]),
        pa.array([b"x"]),
        [1, "a"],
        np.array([1 + 2j]),
        np.array([b"ab"]),
    ],
)
def test_rejects_columns_of_other_types(column: Any) -> None:
    with raises(TableError, "table.unsupported_type", column="x"):
        _values(column)


def test_mixed_types_are_located_without_values() -> None:
    with raises(TableError, "table.unsupported_type", column="x", row=4) as caught:
        _values([None, 31, 32, "secret"])
    assert "secret" not in str(caught.value)
    assert "31" not in str(caught.value)


def test_columns_are_converted_on_first_access_only() -> None:
    table = read(pl.DataFrame({"good": [1], "bad": [[1]]}))
    assert table.names == ("good", "bad")
    assert table.columns["good"] is table.columns["good"]
    with pytest.raises(KeyError):
        table.columns["other"]
    assert "other" not in table.columns


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "table.bad_names"),
        (pa.table([[1], [2]], names=["a", "a"]), "table.bad_names"),
        (pd.DataFrame([[1, 2]]), "table.bad_names"),
        (
            pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])),
            "table.bad_names",
        ),
        ({1: [1]}, "table.bad_names"),
        ({}, "table.bad_names"),
        (pl.DataFrame(), "table.bad_names"),
        (pd.DataFrame(index=[1, 2]), "table.bad_names"),
        ({"a": [1], "b": [1, 2]}, "table.malformed"),
        ({"a": 5}, "table.unsupported_type"),
        ({"a": "text"}, "table.unsupported_type"),
        ({"a": np.zeros((2, 2))}, "table.unsupported_type"),
        (5, "table.unsupported_type"),
        ([1, 2], "table.unsupported_type"),
    ],
)
def test_rejects_objects_that_are_not_tables(source: Any, code: str) -> None:
    with raises(TableError, code):
        read(source)


def test_other_sources_of_frames() -> None:
    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.table({"x": [1, 2]}).__arrow_c_stream__(requested_schema)

    assert isinstance(read(nw.from_native(pd.DataFrame({"x": [1, 2]}))).native, pd.DataFrame)
    assert read(pl.LazyFrame({"x": [1, 2]})).native.rows() == [(1,), (2,)]
    assert read(Stream()).native.rows() == [(1,), (2,)]
    assert read(pa.table({"x": [1, 2]}).to_reader()).native.rows() == [(1,), (2,)]
    assert read(pa.record_batch({"x": [1, 2]})).native.rows() == [(1,), (2,)]


@pytest.mark.parametrize(
    "source", [pl.DataFrame({"x": []}), pd.DataFrame({"x": []}), {"x": []}, pa.table({"x": []})]
)
def test_a_table_without_rows(source: Any) -> None:
    table = read(source)
    assert table.rows == 0
    assert len(table.columns["x"]) == 0


def test_the_source_is_not_modified() -> None:
    arrays = {"x": np.array([3.0, np.nan]), "y": ["b", None]}
    table = read(arrays)
    assert table.native["x"] is not arrays["x"]
    frame = pd.DataFrame(arrays, index=[7, 7])
    before = frame.copy(deep=True)
    for name in ("x", "y"):
        assert not read(frame).columns[name].missing[0]
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("source", ["table.parquet", {"x": [1]}])
def test_rejects_csv_options_for_other_sources(source: Any) -> None:
    with raises(OptionError, "option.unsupported"):
        read(source, delimiter=";")


def test_paths_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "table.csv").write_text("a\n1\n")
    for name, code in {
        "none.csv": "table.not_found",
        "none.sav": "table.not_found",
        "none.xlsx": "table.not_found",
        "none.parquet": "table.not_found",
        "folder.csv": "table.unreadable",
        "x.docx": "table.unknown_format",
    }.items():
        with raises(TableError, code, path=str(tmp_path / name)):
            read(str(tmp_path / name))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(Path, "open", refuse)
    with raises(TableError, "table.unreadable"):
        read(tmp_path / "table.csv")
    with raises(TableError, "table.unreadable"):
        file_digest(tmp_path / "table.csv")


def test_different_tables_have_different_digests(tmp_path: Path) -> None:
    base = {"x": [1, 2, None], "y": ["a", "b", "a"]}
    others: list[dict[str, Any]] = [
        {**base, "x": [1, 3, None]},
        {**base, "x": [1, 2, 0]},
        {**base, "x": [1.0, 2.0, None]},
        {**base, "y": ["a", "b", None]},
        {"y": base["y"], "x": base["x"]},
        {"z": base["x"], "y": base["y"]},
        {"x": base["x"]},
    ]
    assert len({digest(read(table)) for table in (base, *others)}) == 8
    assert digest(read(base), key=b"order") != digest(read(base))
    assert digest(read({"x": [0.0, 1.0]})) == digest(read({"x": [-0.0, 1.0]}))
    gone = np.array([False, True])
    under = [
        Table({"x": Values("integer", np.array([1, under]), gone)}, 2, None) for under in (0, 7)
    ]
    assert digest(under[0]) == digest(under[1])
    days = [date(2024, 5, 1), None, date(1960, 1, 2)]
    moments = [item and datetime(item.year, item.month, item.day) for item in days]
    assert len({digest(read({"x": items})) for items in (days, moments, pd.Series(moments))}) == 1
    assert digest(read({"x": moments})) != digest(
        read({"x": [datetime(2024, 5, 1, 1), *moments[1:]]})
    )
    path = tmp_path / "table.csv"
    path.write_text("x,y\n1,a\n2,b\n,a\n")
    assert digest(read(path)) == digest(read(base))
    assert file_digest(path) == hashlib.sha256(path.read_bytes()).hexdigest()
