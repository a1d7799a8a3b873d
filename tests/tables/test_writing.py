"""Writing files: round trips, types, labels, categories, and what must not leak."""

import pickle
import sys
import zipfile
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest

from microcell.errors import TableError
from microcell.model import Representatives
from microcell.tables import digest, publish, read, take, write
from tests.raising import raises

FULL = pl.DataFrame(
    {
        "whole": [1, -5, None],
        "real": [1.5, None, 1e-9],
        "text": ["a,b", None, 'x "y"\nz é'],
        "date": [date(2024, 2, 29), None, date(1850, 1, 1)],
        "at": [datetime(2024, 5, 1, 9, 30, 0, 250000), None, datetime(1999, 12, 31, 23, 59, 59)],
    }
)
EVERY = (".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".ipc", ".jsonl", ".ndjson",
         ".xlsx", ".sav", ".zsav", ".dta", ".xpt")  # fmt: skip
FLOATS_ONLY = (".sav", ".zsav", ".dta", ".xpt")


def _frames(frame: pl.DataFrame) -> list[Any]:
    return [
        frame,
        frame.to_pandas(),
        frame.to_arrow(),
        frame.to_pandas(use_pyarrow_extension_array=True),
    ]


@pytest.mark.parametrize("suffix", EVERY)
def test_values_round_trip_in_every_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table{suffix}"
    write(read(FULL), path)
    back = read(path)
    expected = (
        FULL.with_columns(pl.col("whole").cast(pl.Float64)) if suffix in FLOATS_ONLY else FULL
    )
    assert back.native.rows() == expected.rows()
    assert digest(back) == digest(read(expected))
    assert (back.origin.source, back.origin.suffix) == ("file", suffix)


@pytest.mark.parametrize("suffix", EVERY)
def test_the_suffix_can_differ_from_that_of_the_path(tmp_path: Path, suffix: str) -> None:
    write(read(FULL), tmp_path / "table.part", suffix=suffix)
    (tmp_path / "table.part").rename(tmp_path / f"table{suffix.upper()}")
    assert read(tmp_path / f"table{suffix.upper()}").rows == 3
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx", ".dta"])
def test_every_frame_can_be_written(tmp_path: Path, position: int, suffix: str) -> None:
    frame = FULL.select("real", "text", "at")
    path = tmp_path / f"table{suffix}"
    write(read(_frames(frame)[position]), path)
    assert read(path).native.rows() == frame.rows()


def test_dicts_can_be_written(tmp_path: Path) -> None:
    write(read({"a": [1, None], "b": np.array(["x", "y"])}), tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == "a,b\n1,x\n,y\n"


def test_an_index_is_not_written(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["Ann", "Bob"], name="person"))
    write(read(frame), tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == "a\n1\n2\n"


def test_types_that_a_format_lacks_become_text_or_numbers(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "cat": pl.Series(["b", "a"], dtype=pl.Enum(["b", "a"])),
            "bool": [True, None],
            "dec": [Decimal("1.25"), Decimal("2.50")],
            "zone": [datetime(2024, 1, 1, 12, tzinfo=UTC), None],
            "span": [timedelta(hours=36), None],
            "time": [time(1, 2, 3), None],
            "code": [2**62 + 1, 1],
            "none": [None, None],
        }
    )
    zone = ["2024-01-01T12:00:00+00:00", None]
    for suffix in (".csv", ".jsonl", ".xlsx", ".sav", ".dta", ".xpt"):
        written = frame.drop("code") if suffix in FLOATS_ONLY else frame
        write(read(written), tmp_path / f"table{suffix}")
        back = read(tmp_path / f"table{suffix}").native
        assert back.columns == written.columns
        assert back["cat"].to_list() == ["b", "a"]
        assert [float(item) for item in back["dec"]] == [1.25, 2.5]
        assert back["span"].to_list() == ["P1DT12H", None]
        assert back["zone"].to_list() in (zone, frame["zone"].to_list())
        assert str(back["time"][0]) == "01:02:03"
        assert back["none"].to_list() == [None, None]
    write(read(frame), tmp_path / "table.xlsx")
    assert read(tmp_path / "table.xlsx").native["code"].to_list() == [str(2**62 + 1), "1"]


MIDNIGHTS = [datetime(1998, 12, 2), None, datetime(2024, 2, 29)]


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_midnight_datetimes_are_written_as_dates(
    tmp_path: Path, position: int, suffix: str
) -> None:
    frame = _frames(
        pl.DataFrame(
            {"born": MIDNIGHTS, "seen": [datetime(2024, 5, 1), datetime(2024, 5, 1, 9), None]}
        )
    )
    write(read(frame[position]), tmp_path / f"table{suffix}")
    written = (tmp_path / f"table{suffix}").read_text()
    assert written.count("T") == 2
    assert "1998-12-02" in written
    assert "2024-05-01T00:00:00" in written
    assert digest(read(tmp_path / f"table{suffix}")) == digest(read(frame[position]))


def test_midnight_datetimes_with_a_zone_or_days_false_are_written_in_full(
    tmp_path: Path,
) -> None:
    zoned = pl.DataFrame({"at": [datetime(2024, 1, 1, tzinfo=UTC)]})
    write(read(zoned), tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == "at\n2024-01-01T00:00:00+00:00\n"
    write(read({"at": MIDNIGHTS[:1]}), tmp_path / "table.csv", days=False)
    assert (tmp_path / "table.csv").read_text() == "at\n1998-12-02T00:00:00\n"


def test_a_column_with_times_keeps_them_if_its_cells_are_at_midnight(tmp_path: Path) -> None:
    table = read({"at": [datetime(2024, 1, 1, 12), datetime(2024, 1, 2, 12)]})
    midnight = int(datetime(2024, 1, 2, tzinfo=UTC).timestamp()) * 10**6
    mean = Representatives("number", np.array([midnight]), np.array([False]))
    write(publish(table, np.array([0, 0]), {"at": mean}), tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == "at\n" + 2 * "2024-01-02T00:00:00\n"


def test_binary_formats_keep_types(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "a": pl.Series([1, 2], dtype=pl.Int8),
            "b": pl.Series(["x", "y"], dtype=pl.Enum(["y", "x"])),
            "c": [timedelta(1)] * 2,
        }
    )
    for suffix in (".parquet", ".arrow"):
        write(read(frame), tmp_path / f"table{suffix}")
        assert read(tmp_path / f"table{suffix}").native.schema == frame.schema


def test_arrow_streams_can_be_read(tmp_path: Path) -> None:
    with pa.ipc.new_stream(tmp_path / "table.arrow", pa.schema({"a": pa.int64()})) as sink:
        sink.write_table(pa.table({"a": [1, 2]}))
    assert read(tmp_path / "table.arrow").native["a"].to_list() == [1, 2]


def test_spreadsheets_contain_no_formulas_and_lose_no_rows(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"a": ["=1+1", None, "@x", "http://a.b"], "b": [1.23456789, None, 2.0, 3.0]}
    )
    write(read(frame), tmp_path / "table.xlsx")
    assert read(tmp_path / "table.xlsx").native.rows() == frame.rows()


@pytest.mark.parametrize(
    ("header", "details"),
    [(["a", "a"], {"positions": [[1, 2]]}), (["a", None], {"position": 2})],
)
def test_headers_of_spreadsheets_are_checked(
    tmp_path: Path, header: list[str | None], details: dict[str, Any]
) -> None:
    import xlsxwriter

    with xlsxwriter.Workbook(tmp_path / "table.xlsx") as book:
        sheet = book.add_worksheet()
        for row, cells in enumerate([header, [1, 2]]):
            sheet.write_row(row, 0, cells)
    with raises(TableError, "table.bad_names", **details):
        read(tmp_path / "table.xlsx")


def test_rejects_an_empty_spreadsheet(tmp_path: Path) -> None:
    import xlsxwriter

    with xlsxwriter.Workbook(tmp_path / "table.xlsx") as book:
        book.add_worksheet()
    with raises(TableError, "table.malformed"):
        read(tmp_path / "table.xlsx")


@pytest.mark.parametrize(
    "suffix", [".parquet", ".arrow", ".jsonl", ".xlsx", ".sav", ".dta", ".xpt", ".sas7bdat"]
)
@pytest.mark.parametrize("share", [0.0, 0.31, 0.7, 0.95])
def test_rejects_truncated_files(tmp_path: Path, suffix: str, share: float) -> None:
    whole = tmp_path / "whole.sav" if suffix == ".sas7bdat" else tmp_path / f"whole{suffix}"
    write(read(pl.DataFrame({"a": list(range(2000)), "b": ["text"] * 2000})), whole)
    data = whole.read_bytes()
    path = tmp_path / f"table{suffix}"
    path.write_bytes(data[: int(len(data) * share)])
    with raises(TableError, "table.malformed"):
        read(path)


@pytest.mark.parametrize("version", [5, 8])
def test_rejects_truncated_transport_files(tmp_path: Path, version: int) -> None:
    path = tmp_path / "table.xpt"
    pyreadstat.write_xport(pl.DataFrame({"a": list(range(500))}), path, file_format_version=version)
    data = path.read_bytes()
    assert read(path).rows == 500
    path.write_bytes(data[:-1001])
    with raises(TableError, "table.malformed"):
        read(path)


def test_rejects_duplicate_column_names_in_a_file(tmp_path: Path) -> None:
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "table.parquet")
    with raises(TableError, "table.bad_names"):
        read(tmp_path / "table.parquet")


def test_open_document_spreadsheets_can_be_read(tmp_path: Path) -> None:
    def cell(value: object) -> str:
        if isinstance(value, str):
            text = f"<text:p>{value}</text:p>"
            return f'<table:table-cell office:value-type="string">{text}</table:table-cell>'
        return f'<table:table-cell office:value-type="float" office:value="{value}"/>'

    rows = "".join(
        f"<table:table-row>{cell(a)}{cell(b)}</table:table-row>"
        for a, b in [("a", "b"), (1, "x"), (2, "y")]
    )
    names = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text")
    )
    content = (
        f'<?xml version="1.0"?><office:document-content{names}><office:body><office:spreadsheet>'
        f'<table:table table:name="s">{rows}</table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    with zipfile.ZipFile(tmp_path / "table.ods", "w") as file:
        file.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        file.writestr("META-INF/manifest.xml", "<manifest/>")
        file.writestr("content.xml", content)
    assert read(tmp_path / "table.ods").native.rows() == [(1, "x"), (2, "y")]


def test_rejects_damaged_files(tmp_path: Path) -> None:
    for suffix in (
        ".parquet",
        ".arrow",
        ".xlsx",
        ".xls",
        ".ods",
        ".sav",
        ".dta",
        ".xpt",
        ".sas7bdat",
        ".jsonl",
    ):
        path = tmp_path / f"table{suffix}"
        path.write_bytes(b"no such format, " * 100)
        with raises(TableError, "table.malformed") as caught:
            read(path)
        assert "no such format" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".sav", ".dta"])
def test_labels_are_kept_where_they_still_fit(tmp_path: Path, suffix: str) -> None:
    frame = pl.DataFrame(
        {"sex": [1, 2, 1, 2], "grade": [1, 2, 3, 3], "age": [20, 30, 40, 50], "name": list("abcd")}
    )
    labels = {
        "sex": {1: "male", 2: "female"},
        "grade": {1: "low", 2: "mid", 3: "high"},
        "age": {20: "twenty", 30: "thirty"},
    }
    writer = {".sav": pyreadstat.write_sav, ".dta": pyreadstat.write_dta}[suffix]
    path = tmp_path / f"in{suffix}"
    writer(
        frame,
        path,
        column_labels={"sex": "Sex of person", "name": "Name"},
        variable_value_labels=labels,
    )
    table = read(path)
    assert table.origin.labels == {"sex": "Sex of person", "name": "Name"}
    cells = np.array([0, 0, 1, 1])
    both = np.array([False, False])
    representatives = {
        "sex": Representatives("row", np.array([0, 1]), both),
        "grade": Representatives("number", np.array([2.0, 3.0]), both),
        "age": Representatives("number", np.array([25.0, 45.0]), both),
    }
    out = take(publish(table, cells, representatives, ["name"]), np.array([3, 2, 1, 0]))
    write(out, tmp_path / f"out{suffix}")
    back = read(tmp_path / f"out{suffix}")
    assert back.native.rows() == [(2, 3, 45), (2, 3, 45), (1, 2, 25), (1, 2, 25)]
    assert back.origin.labels == {"sex": "Sex of person"}
    # Without the labels of values that are not published.
    assert {name: dict(actual) for name, actual in back.origin.value_labels.items()} == {
        "sex": labels["sex"], "grade": {2: "mid", 3: "high"}
    }  # fmt: skip
    assert set(out.origin.value_labels) == {"sex", "grade"}
    ranges = {"grade": Representatives("text", np.array(["1-2", "3"]), both)}
    assert set(publish(table, cells, ranges).origin.value_labels) == {"sex", "age"}
    write(publish(table, cells, ranges), tmp_path / f"text{suffix}")
    assert set(read(tmp_path / f"text{suffix}").origin.value_labels) == {"sex", "age"}


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    table = read({"a": [1]})
    (tmp_path / "folder.csv").mkdir()
    for name, code in {
        "table.sas7bdat": "table.unknown_format",
        "table.docx": "table.unknown_format",
        "table": "table.unknown_format",
        "none/table.csv": "table.unwritable",
        "none/table.sav": "table.unwritable",
        "none/table.xlsx": "table.unwritable",
        "folder.csv": "table.unwritable",
    }.items():
        with raises(TableError, code):
            write(table, tmp_path / name)
    with raises(TableError, "table.format_limit"):
        write(read({"a name with spaces": [1]}), tmp_path / "table.dta")
    with raises(TableError, "table.format_limit"):
        write(read(pl.DataFrame({"a": [[1]]})), tmp_path / "table.csv")


def test_a_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(Path, "open", refuse)
    with raises(TableError, "table.unwritable"):
        write(read({"a": [1]}), tmp_path / "table.csv")


def test_a_missing_extra_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "table.sav").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with raises(TableError, "option.extra_missing", package="pyreadstat"):
        read(tmp_path / "table.sav")


def test_a_single_missing_value_is_not_a_blank_line(tmp_path: Path) -> None:
    write(read({"a": [1, None, 3, None]}), tmp_path / "table.csv")
    assert read(tmp_path / "table.csv").native["a"].to_list() == [1, None, 3, None]
    write(read({"a": [1.5, None]}), tmp_path / "table.csv")
    assert read(tmp_path / "table.csv").native["a"].to_list() == [1.5, None]


def test_numbers_round_trip_exactly(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=500) * 10.0 ** np.arange(-250, 250)
    write(read({"a": numbers, "b": numbers}), tmp_path / "table.csv")
    assert read(tmp_path / "table.csv").native["a"].to_list() == numbers.tolist()


UNUSED = "ZZ-no-record-has-this-ZZ"
NAMES = ["mid", UNUSED, "low"]
CODES = [2, 0, 2]


def _categorical_frames() -> list[Any]:
    enum = pl.Series(["low", "mid", "low"], dtype=pl.Enum(NAMES))
    pool = pl.Series(["mid", UNUSED, "low"], dtype=pl.Categorical).gather(CODES)
    dictionary = pa.DictionaryArray.from_arrays(pa.array(CODES), pa.array(NAMES))
    ranked = pa.DictionaryArray.from_arrays(pa.array(CODES), pa.array(NAMES), ordered=True)
    return [
        pl.DataFrame({"x": enum}),
        pl.DataFrame({"x": pool}),
        pd.DataFrame({"x": pd.Categorical.from_codes(CODES, NAMES)}),
        pd.DataFrame({"x": pd.Categorical.from_codes(CODES, NAMES, ordered=True)}),
        pd.DataFrame({"x": pd.Series(dictionary, dtype=pd.ArrowDtype(dictionary.type))}),
        pd.DataFrame({"x": pd.Series(ranked, dtype=pd.ArrowDtype(ranked.type))}),
        pa.table({"x": dictionary}),
        pa.table({"x": ranked}),
    ]


def _is_reported(path: Path, name: str) -> bool:
    """True if the file holds the name, packed or not."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        chunks = [chunk for column in table.columns for chunk in column.chunks]
        names = [
            chunk.dictionary.to_pylist()
            for chunk in chunks
            if isinstance(chunk, pa.DictionaryArray)
        ]
        return name in repr(
            (
                table.schema.metadata,
                [field.metadata for field in table.schema],
                table.to_pydict(),
                names,
            )
        )
    if path.suffix == ".xlsx":
        with zipfile.ZipFile(path) as book:
            return any(name.encode() in book.read(item) for item in book.namelist())
    return name.encode() in path.read_bytes()


@pytest.mark.parametrize("suffix", EVERY)
def test_unused_categories_are_not_written(tmp_path: Path, suffix: str) -> None:
    """As read, published and in another order, whatever the data frame."""
    path, rows = tmp_path / f"table{suffix}", np.arange(3)
    representatives = {"x": Representatives("row", rows, np.zeros(3, dtype=bool))}
    forms: list[Callable[[Any], Any]] = [
        lambda table: table,
        lambda table: publish(table, rows, representatives),
        lambda table: take(table, rows[::-1]),
    ]
    for position, frame in enumerate(_categorical_frames()):
        some = forms if position == 0 or suffix == ".parquet" else [forms[position % 3]]
        for form in some:
            write(form(read(frame)), path)
            assert not _is_reported(path, UNUSED)
            assert sorted(read(path).native["x"].to_list()) == ["low", "low", "mid"]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("position", [0, 3, 5, 7])
def test_ordered_categories_stay_ordered_if_the_format_supports_it(
    tmp_path: Path, suffix: str, position: int
) -> None:
    write(read(_categorical_frames()[position]), tmp_path / f"table{suffix}")
    assert read(tmp_path / f"table{suffix}").native["x"].dtype == pl.Enum(["mid", "low"])


def test_the_frame_in_memory_keeps_its_type(tmp_path: Path) -> None:
    frame = _categorical_frames()[0]
    write(read(frame), tmp_path / "table.parquet")
    assert frame["x"].dtype == pl.Enum(NAMES)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv"])
def test_categories_of_missing_values_only(tmp_path: Path, suffix: str) -> None:
    frame = pl.DataFrame({"x": pl.Series([None, None], dtype=pl.Enum(NAMES)), "y": [1, 2]})
    write(read(frame), tmp_path / f"table{suffix}")
    assert read(tmp_path / f"table{suffix}").native.rows() == [(None, 1), (None, 2)]
    assert not _is_reported(tmp_path / f"table{suffix}", UNUSED)


@pytest.mark.parametrize("suffix", EVERY)
@pytest.mark.parametrize("position", range(4))
def test_replaced_text_is_not_in_the_file(tmp_path: Path, suffix: str, position: int) -> None:
    texts = [f"the home of person number {row:04}" for row in range(60)]
    table = read(_frames(pl.DataFrame({"home": texts, "note": texts}))[position])
    kept = Representatives("row", np.arange(0, 60, 2), np.zeros(30, dtype=bool))
    published = publish(table, np.arange(60) // 2, {"home": kept}, ["note"])
    path = tmp_path / f"table{suffix}"
    write(published, path)
    assert not any(_is_reported(path, text) for text in texts[1::2])
    write(take(table, np.arange(50)), path)
    assert not any(_is_reported(path, text) for text in texts[50:])


@pytest.mark.parametrize("position", range(4))
def test_replaced_text_is_not_in_a_pickle_of_the_frame(position: int) -> None:
    texts = [f"the home of person number {row:04}" for row in range(60)]
    table = read(_frames(pl.DataFrame({"home": texts}))[position])
    kept = Representatives("row", np.arange(0, 60, 2), np.zeros(30, dtype=bool))
    published = pickle.dumps(publish(table, np.arange(60) // 2, {"home": kept}).native)
    assert not any(text.encode() in published for text in texts[1::2])
    assert texts[0].encode() in published
    taken = pickle.dumps(take(table, np.arange(50)).native)
    assert not any(text.encode() in taken for text in texts[50:])


@pytest.mark.parametrize("suffix", EVERY)
def test_text_of_removed_rows_is_not_in_the_file(tmp_path: Path, suffix: str) -> None:
    texts = [f"the home of person number {row:04}" for row in range(60)]
    write(read(pl.DataFrame({"home": texts})[np.arange(50)]), tmp_path / f"table{suffix}")
    assert not any(_is_reported(tmp_path / f"table{suffix}", text) for text in texts[50:])


# ------------------------------------------------------- bytes that are not part of any value

HIDDEN = 0x7FF8_5EC2_E7C0_DE01
"""The bits of a NaN, and of a number under a null."""


def _with_hidden_bits(kind: Any) -> pa.Array:
    bits = np.array([1, HIDDEN, 3], dtype=np.uint64)
    return pa.Array.from_buffers(kind, 3, [pa.py_buffer(b"\x05"), pa.py_buffer(bits)])


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather", ".ipc"])
@pytest.mark.parametrize(
    "column",
    [
        np.array([1, HIDDEN, 3], dtype=np.uint64).view(np.float64),
        pl.Series(np.array([1, HIDDEN, 3], dtype=np.uint64).view(np.float64)),
        *map(_with_hidden_bits, (pa.int64(), pa.float64(), pa.timestamp("us"), pa.duration("us"))),
        pd.arrays.IntegerArray(np.array([1, HIDDEN, 3]), np.array([False, True, False])),
    ],
    ids=["numpy", "polars", "integer", "float", "datetime", "duration", "pandas"],
)
def test_bits_of_missing_values_are_not_written(tmp_path: Path, suffix: str, column: Any) -> None:
    frames = {pd.arrays.IntegerArray: pd.DataFrame, pl.Series: pl.DataFrame}
    make = pa.table if isinstance(column, pa.Array) else frames.get(type(column), dict)
    path = tmp_path / f"people{suffix}"
    table = read(make({"x": column}))
    write(table, path)
    assert HIDDEN.to_bytes(8, "little") not in path.read_bytes()
    written = read(path)
    assert written.columns["x"].missing.tolist() == [False, True, False]
    assert written.columns["x"].data[[0, 2]].tolist() == table.columns["x"].data[[0, 2]].tolist()


def test_texts_keep_a_nul_at_the_end() -> None:
    values = read({"x": ["a\0", "a", "a\0\0"]}).columns["x"]
    assert values.categories == ("a", "a\0", "a\0\0")
    assert values.data.tolist() == [1, 0, 2]


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
@pytest.mark.parametrize(
    "suffix", [".csv", ".jsonl", ".parquet", ".arrow", ".xlsx", ".sav", ".zsav", ".dta", ".xpt"]
)
def test_a_full_disk_is_reported_in_every_format(tmp_path: Path, suffix: str) -> None:
    """A limit on the size of files has the same effect."""
    import resource
    import signal

    table = read({"x": np.arange(5_000) * 0.1})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
    try:
        with raises(TableError, "table.unwritable", path=str(tmp_path / f"people{suffix}")):
            write(table, tmp_path / f"people{suffix}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
