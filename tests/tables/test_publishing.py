"""Publishing representatives in every type of frame and column."""

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import TableError
from microcell.model import Representatives, Table
from microcell.tables import publish, read, take
from tests.raising import raises

LABELS = np.array([1, 0, 1, 0])
INDEX = pd.MultiIndex.from_tuples([("b", 1), ("a", 1), ("a", 1), ("c", 0)], names=["p", "q"])


def _representatives(
    how: Any, values: Any, missing: tuple[bool, bool] = (False, False)
) -> Representatives:
    return Representatives(how, np.array(values), np.array(missing))


def _frame(column: Any) -> Any:
    if isinstance(column, pl.Series):
        return pl.DataFrame({"id": [1, 2, 3, 4], "x": column, "z": ["p", "q", "r", "s"]})
    if isinstance(column, pd.Series):
        column = column.set_axis(INDEX)
        others = {"id": [1, 2, 3, 4], "x": column.array, "z": ["p", "q", "r", "s"]}
        return pd.DataFrame(others, index=INDEX)
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return pa.table(
            {"id": [1, 2, 3, 4], "x": column, "z": ["p", "q", "r", "s"]}
        ).replace_schema_metadata({"k": "v"})
    return {"id": [1, 2, 3, 4], "x": column, "z": ["p", "q", "r", "s"]}


def _dtype(native: Any, name: str) -> Any:
    if isinstance(native, pa.Table):
        return native.schema.field(name).type
    return native[name].dtype


def _list(native: Any, name: str) -> list[Any]:
    column = native.column(name) if isinstance(native, pa.Table) else native[name]
    return (
        column.to_pylist()
        if isinstance(native, pa.Table)
        else column.to_list()
        if hasattr(column, "to_list")
        else column.tolist()
    )


def _same_type(actual: Any, expected: Any) -> bool:
    """Compare, ignoring unused categories, which are lost; the order of the others is kept."""
    if isinstance(expected, pd.CategoricalDtype):
        used = [name for name in expected.categories if name in set(actual.categories)]
        kept = actual.categories.tolist() == used if expected.ordered else True
        return kept and len(used) == len(actual.categories) and actual.ordered == expected.ordered
    if isinstance(expected, pl.Enum):
        used = set(actual.categories)
        return actual.categories.to_list() == [name for name in expected.categories if name in used]
    return bool(actual == expected)


def _check_frame(table: Table, out: Table, *, same_type: bool = True) -> None:
    assert type(out.native) is type(table.native)
    assert out.names == ("x", "z")
    assert _list(out.native, "z") == ["p", "q", "r", "s"]
    if same_type:
        assert _same_type(_dtype(out.native, "x"), _dtype(table.native, "x"))
    if isinstance(out.native, pd.DataFrame):
        pd.testing.assert_index_equal(out.native.index, INDEX)
    if isinstance(out.native, pa.Table):
        assert out.native.schema.metadata == {b"k": b"v"}


INTEGERS: list[Any] = [
    *[pl.Series([1, 2, 3, 4], dtype=kind)
      for kind in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128,
                   pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)],
    *[pd.Series([1, 2, 3, 4], dtype=kind)
      for kind in ("int8", "int16", "int32", "int64", "uint8", "uint64", "Int8", "Int64", "UInt32",
                   "int32[pyarrow]", "uint64[pyarrow]", object)],
    *[pa.array([1, 2, 3, 4], kind) for kind in (pa.int8(), pa.int64(), pa.uint16(), pa.uint64())],
    *[np.array([1, 2, 3, 4], kind) for kind in ("i1", "i4", "i8", "u2", "u8", ">i4", object)],
    pa.chunked_array([[1, 2], [3, 4]]),
]  # fmt: skip
FLOATS: list[Any] = [
    *[pl.Series([1, 2, 3, 4], dtype=kind) for kind in (pl.Float32, pl.Float64, pl.Decimal(10, 2))],
    *[
        pd.Series([1, 2, 3, 4], dtype=kind)
        for kind in ("float32", "float64", "Float32", "Float64", "double[pyarrow]")
    ],
    pd.Series([1, 2, 3, 4], dtype=pd.ArrowDtype(pa.decimal128(10, 2))),
    *[pa.array([1.0, 2, 3, 4], kind) for kind in (pa.float32(), pa.float64())],
    pa.array([1, 2, 3, 4], pa.int64()).cast(pa.decimal128(22, 2)),
    pa.array([1, 2, 3, 4], pa.int64()).cast(pa.decimal256(60, 2)),
    *[np.array([1, 2, 3, 4], kind) for kind in ("f4", "f8", ">f8")],
]


@pytest.mark.parametrize("column", [*INTEGERS, *FLOATS])
def test_numbers_keep_the_type(column: Any) -> None:
    table = read(_frame(column))
    for numbers in ([20.0, 100.0], [20, 100]):
        out = publish(table, LABELS, {"x": _representatives("number", numbers)}, ["id"])
        _check_frame(table, out)
        assert [float(item) for item in _list(out.native, "x")] == [100, 20, 100, 20]


@pytest.mark.parametrize("column", FLOATS)
def test_fractions_and_missing_numbers_in_floats(column: Any) -> None:
    table = read(_frame(column))
    out = publish(
        table, LABELS, {"x": _representatives("number", [2.25, 99.0], (False, True))}, ["id"]
    )
    _check_frame(table, out)
    assert out.columns["x"].missing.tolist() == [True, False, True, False]
    assert out.columns["x"].data[[1, 3]].tolist() == [2.25, 2.25]


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([1, None, 3, 4], dtype=pl.UInt8),
        pd.Series([1, None, 3, 4], dtype="Int32"),
        pd.Series([1, None, 3, 4], dtype="int8[pyarrow]"),
        pd.Series([1, None, 3, 4], dtype=object),
        pa.array([1, None, 3, 4], pa.int16()),
        np.array([1, None, 3, 4], object),
    ],
)
def test_missing_numbers_in_integers(column: Any) -> None:
    table = read(_frame(column))
    out = publish(
        table, LABELS, {"x": _representatives("number", [0.0, 7.0], (True, False))}, ["id"]
    )
    _check_frame(table, out)
    assert out.columns["x"].missing.tolist() == [False, True, False, True]
    assert out.columns["x"].data[[0, 2]].tolist() == [7, 7]


def test_integers_are_exact_and_stay_in_range() -> None:
    big = 2**62 + 1
    for column in (
        pl.Series([big] * 4),
        pd.Series([big] * 4),
        np.array([big] * 4),
        pa.array([big] * 4),
    ):
        out = publish(
            read(_frame(column)), LABELS, {"x": _representatives("number", [big, big + 2])}, ["id"]
        )
        assert out.columns["x"].data.tolist() == [big + 2, big, big + 2, big]
    top = np.array([2**64 - 1] * 4, np.uint64)
    out = publish(
        read(_frame(top)), LABELS, {"x": _representatives("number", [2.0**64, 1.6])}, ["id"]
    )
    assert out.native["x"].tolist() == [2, 2**64 - 1, 2, 2**64 - 1]


DAY = 24 * 3600
DAYS = np.array([0, 1, 2, 3], "M8[D]")
TIMES: list[Any] = [
    *[(pl.Series([0, DAY, 2 * DAY, 3 * DAY]) * 10**power).cast(pl.Datetime(unit, zone))
      for unit, power in (("ms", 3), ("us", 6), ("ns", 9))
      for zone in (None, "UTC", "Europe/Madrid")],
    (pl.Series([0, DAY, 2 * DAY, 3 * DAY]) * 1000).cast(pl.Duration("ms")),
    *[pd.Series(DAYS.astype(f"M8[{unit}]")) for unit in ("s", "ms", "us", "ns")],
    *[pd.Series(DAYS.astype(f"M8[{unit}]")).dt.tz_localize("UTC").dt.tz_convert(zone)
      for unit in ("s", "ns")
      for zone in ("UTC", "America/New_York", timezone(timedelta(hours=-3)))],
    pd.Series(DAYS.astype("M8[us]"), dtype=pd.ArrowDtype(pa.timestamp("us", "UTC"))),
    pd.Series(np.array([0, 1, 2, 3], "m8[D]").astype("m8[s]")),
    pd.Series([datetime(1970, 1, day) for day in (1, 2, 3, 4)], dtype=object),
    pd.Series([timedelta(days=day) for day in (0, 1, 2, 3)], dtype=object),
    *[pa.array([0, DAY, 2 * DAY, 3 * DAY], pa.timestamp("s", zone))
      for zone in (None, "Europe/Paris")],
    pa.array([0, 1, 2, 3], pa.timestamp("ns")),
    pa.array([0, 1, 2, 3], pa.duration("s")),
    pa.array([0, 1, 2, 3], pa.duration("us")),
    np.array([0, 1, 2, 3], "M8[D]"),
    *[np.array([0, 1, 2, 3], f"M8[{unit}]") for unit in ("s", "ms", "us", "ns")],
    np.array([0, 1, 2, 3], "m8[s]"),
    pl.Series([date(1970, 1, day) for day in (1, 2, 3, 4)]),
    pd.Series([date(1970, 1, day) for day in (1, 2, 3, 4)]),
    pa.array([date(1970, 1, day) for day in (1, 2, 3, 4)]),
    pa.array([date(1970, 1, day) for day in (1, 2, 3, 4)], pa.date64()),
]  # fmt: skip


@pytest.mark.parametrize("column", TIMES)
def test_times_keep_the_type_unit_and_zone(column: Any) -> None:
    table = read(_frame(column))
    for kind in (np.int64, np.float64):
        check_times(table, np.array([1000, 2000], kind))


def check_times(table: Table, counts: Any) -> None:
    missing = np.array([False, False])
    out = publish(table, LABELS, {"x": Representatives("number", counts, missing)}, ["id"])
    _check_frame(table, out)
    assert out.columns["x"].unit == table.columns["x"].unit
    assert out.columns["x"].data.tolist() == [2000, 1000, 2000, 1000]
    gone = publish(
        table, LABELS, {"x": Representatives("number", counts, np.array([True, False]))}, ["id"]
    )
    _check_frame(table, gone)
    assert gone.columns["x"].missing.tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([time(hour) for hour in (1, 2, 3, 4)]),
        pd.Series([time(hour) for hour in (1, 2, 3, 4)]),
        pa.array([1, 2, 3, 4], pa.time32("s")),
        pa.array([1, 2, 3, 4], pa.time64("us")),
    ],
)
def test_times_of_day_keep_the_type(column: Any) -> None:
    table = read(_frame(column))
    out = publish(
        table, LABELS, {"x": _representatives("number", [60 * 10**9, 120 * 10**9])}, ["id"]
    )
    _check_frame(table, out)
    assert _list(out.native, "x") == [time(0, 2), time(0, 1), time(0, 2), time(0, 1)]


ANY: list[Any] = [
    *INTEGERS,
    *FLOATS,
    *TIMES,
    pl.Series(["a", "b", "c", "d"]),
    pl.Series(["a", "b", "c", "d"], dtype=pl.Categorical),
    pl.Series(["a", "b", "c", "d"], dtype=pl.Enum(["d", "c", "b", "a", "z"])),
    pl.Series([True, False, True, True]),
    pd.Series(["a", "b", "c", "d"]),
    pd.Series(["a", "b", "c", "d"], dtype=object),
    pd.Series(["a", "b", "c", "d"], dtype="string"),
    pd.Series(["a", "b", "c", "d"], dtype=pd.ArrowDtype(pa.string())),
    pd.Series(["a", "b", "c", "d"], dtype="category"),
    pd.Series(
        ["a", "b", "c", "d"], dtype=pd.CategoricalDtype(["d", "c", "b", "a", "z"], ordered=True)
    ),
    pd.Series(pd.Categorical([4, 3, 2, 1])),
    pd.Series([True, False, True, True]),
    pd.Series([True, False, True, True], dtype="boolean"),
    pd.Series([Decimal(1), Decimal("2.5"), Decimal(3), Decimal(4)]),
    pa.array(["a", "b", "c", "d"]),
    pa.array(["a", "b", "c", "d"], pa.large_string()),
    pa.array(["a", "b", "c", "d"]).dictionary_encode(),
    pa.array([True, False, True, True]),
    np.array(["a", "b", "c", "d"]),
    np.array([True, False, True, True]),
    np.array(["a", "b", "c", "d"], object),
]


@pytest.mark.parametrize("column", ANY)
def test_any_type_is_published_as_rows_and_as_text_and_keeps_its_order(column: Any) -> None:
    table = read(_frame(column))
    check_rows(table)
    check_a_missing_row(table)
    for missing in ((False, False), (True, False)):
        check_text(table, missing)
    check_order(table)


def check_rows(table: Table) -> None:
    out = publish(table, LABELS, {"x": _representatives("row", [2, 1])}, ["id"])
    _check_frame(table, out)
    values = _list(table.native, "x")
    assert _list(out.native, "x") == [values[1], values[2], values[1], values[2]]
    assert out.columns["x"].ordered == table.columns["x"].ordered


def check_a_missing_row(table: Table) -> None:
    out = publish(table, LABELS, {"x": _representatives("row", [2, 1], (True, False))}, ["id"])
    assert out.columns["x"].missing.tolist() == [False, True, False, True]
    assert type(out.native) is type(table.native)


def test_an_arrow_field_becomes_nullable_only_if_needed() -> None:
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False, metadata={"note": "kept"})])
    table = read(pa.table({"x": [1, 2, 3, 4]}, schema=schema))
    for missing in (False, True):
        field = publish(
            table, LABELS, {"x": _representatives("number", [5, 6], (missing, False))}, []
        ).native.schema.field("x")
        assert field.nullable is missing
        assert field.metadata == {b"note": b"kept"}


def check_text(table: Table, missing: tuple[bool, bool]) -> None:
    out = publish(
        table, LABELS, {"x": _representatives("text", ["20-29", "94***"], missing)}, ["id"]
    )
    _check_frame(table, out, same_type=False)
    values = out.columns["x"]
    assert values.storage == "text"
    assert values.missing.tolist() == [False, missing[0], False, missing[0]]
    assert values.categories[values.data[0]] == "94***"


@pytest.mark.parametrize(
    "column, dtype",
    [
        (pl.Series([1, 2, 3, 4]), pl.String),
        (pl.Series(["a"] * 4, dtype=pl.Categorical), pl.String),
        (pd.Series([1, 2, 3, 4]), pd.Series(["a"]).dtype),
        (pd.Series([1, 2, 3, 4], dtype="Int64"), pd.StringDtype()),
        (pd.Series([1, 2, 3, 4], dtype="int64[pyarrow]"), pd.ArrowDtype(pa.string())),
        (pd.Series(["a"] * 4, dtype="string"), pd.StringDtype()),
        (pd.Series(["a"] * 4), pd.Series(["a"]).dtype),
        (pa.array([1, 2, 3, 4]), pa.string()),
        (pa.array(["a"] * 4, pa.large_string()), pa.large_string()),
        (np.array([1, 2, 3, 4]), np.dtype("<U5")),
    ],
)
def test_text_has_the_default_type_of_the_frame(column: Any, dtype: Any) -> None:
    out = publish(
        read(_frame(column)), LABELS, {"x": _representatives("text", ["20-29", "30-39"])}, ["id"]
    )
    assert _dtype(out.native, "x") == dtype


def test_a_text_column_of_objects_stays_text() -> None:
    frame = pd.DataFrame({"x": pd.Series(["a", "b"], dtype=object)})
    out = publish(
        read(frame),
        np.array([0, 0]),
        {"x": Representatives("text", np.array(["*"]), np.array([False]))},
        [],
    )
    assert out.native["x"].tolist() == ["*", "*"]


@pytest.mark.parametrize(
    "column", [pl.Series(["a"] * 4), pd.Series(["a"] * 4), pa.array([True] * 4)]
)
def test_rejects_numbers_for_text_columns(column: Any) -> None:
    with raises(TableError, "table.unsupported_type", column="x"):
        publish(read(_frame(column)), LABELS, {"x": _representatives("number", [1, 2])}, [])


def test_rejects_unknown_columns_and_wrong_labels() -> None:
    table = read({"x": [1, 2]})
    with raises(TableError, "schema.unknown_column", columns=["y"]):
        publish(table, np.array([0, 0]), {}, ["y"])
    with raises(TableError, "table.mismatch"):
        publish(table, np.array([0, 0, 0]), {}, [])


def test_the_input_is_not_modified() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": list("abcd")}, index=INDEX)
    frame.attrs["note"] = "kept"
    before = frame.copy(deep=True)
    representatives = {
        "x": _representatives("number", [1.5, 3.5]),
        "y": _representatives("row", [0, 1]),
    }
    out = publish(read(frame), LABELS, representatives, [])
    pd.testing.assert_frame_equal(frame, before)
    out.native.iloc[0, 0] = -1.0
    pd.testing.assert_frame_equal(frame, before)
    assert out.native.attrs == {"note": "kept"}
    arrays = {"x": np.array([1.0, 2.0, 3.0, 4.0])}
    publish(read(arrays), LABELS, {"x": _representatives("row", [0, 1], (True, False))}, [])
    assert arrays["x"].tolist() == [1.0, 2.0, 3.0, 4.0]


def check_order(table: Table) -> None:
    out = take(table, np.array([3, 0, 2]))
    values = _list(table.native, "x")
    assert _list(out.native, "x") == [values[3], values[0], values[2]]
    assert _dtype(out.native, "x") == _dtype(table.native, "x")
    assert out.rows == 3
    if isinstance(out.native, pd.DataFrame):
        assert out.native.index.tolist() == [("c", 0), ("b", 1), ("a", 1)]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.data())
def test_all_records_of_a_cell_get_the_same_value(labels: list[int], data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.floats(-1e6, 1e6), min_size=5, max_size=5))
    columns = {"x": np.linspace(0, 1, len(labels))}
    representatives = {"x": Representatives("number", np.array(numbers), np.zeros(5, bool))}
    for frame in (columns, pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        out = publish(read(frame), np.array(labels), representatives, [])
        assert out.columns["x"].data.tolist() == [numbers[label] for label in labels]
