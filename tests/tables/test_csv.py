"""Reading and writing CSV: types, dialects, encodings, dates, errors."""

from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from microcell.errors import OptionError, TableError
from microcell.tables import csv, read, write
from tests.raising import raises


def _read(folder: Path, text: str | bytes, suffix: str = ".csv", **options: object) -> pl.DataFrame:
    path = folder / f"table{suffix}"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    table = read(path, **options)  # type: ignore[arg-type]
    assert isinstance(table.native, pl.DataFrame)
    return table.native


def _column(folder: Path, *fields: str, **options: object) -> pl.Series:
    return _read(folder, "x,other\n" + "".join(f"{field},1\n" for field in fields), **options)["x"]


@pytest.mark.parametrize(
    "fields, expected, dtype",
    [
        (["1", "-20", "0"], [1, -20, 0], pl.Int64),
        (["1", "", "3"], [1, None, 3], pl.Int64),
        (["1", '""', "3"], [1, None, 3], pl.Int64),
        (['"1"', '"2"'], [1, 2], pl.Int64),
        ([" 1", "2  ", "  "], [1, 2, None], pl.Int64),
        (["-999", "5"], [-999, 5], pl.Int64),
        (["9223372036854775807"], [2**63 - 1], pl.Int64),
        (["9223372036854775808", "1"], ["9223372036854775808", "1"], pl.String),
        (["1.5", "2", "-3e2", ".5", "4."], [1.5, 2.0, -300.0, 0.5, 4.0], pl.Float64),
        (["0.1", "1e-9"], [0.1, 1e-9], pl.Float64),
        (["1.5", "nan", "inf", "-Inf"], [1.5, None, float("inf"), float("-inf")], pl.Float64),
        (["1", "NaN"], [1.0, None], pl.Float64),
        (["nan", "inf"], ["nan", "inf"], pl.String),
        (["01234", "94305"], ["01234", "94305"], pl.String),
        (["01.5", "2.5"], ["01.5", "2.5"], pl.String),
        (["TRUE", "FALSE"], ["TRUE", "FALSE"], pl.String),
        (["NA", "1"], ["NA", "1"], pl.String),
        (["+1", "2"], ["+1", "2"], pl.String),
        (["1_000", "2"], ["1_000", "2"], pl.String),
        ([" a ", "b"], [" a ", "b"], pl.String),
        (["2024-02-29", ""], [date(2024, 2, 29), None], pl.Date),
        (["2023-02-29", "2024-01-01"], ["2023-02-29", "2024-01-01"], pl.String),
        (["01/02/2024"], ["01/02/2024"], pl.String),
        (["2024-05-01T09:30", "2024-05-01 10:00:30.5"],
         [datetime(2024, 5, 1, 9, 30), datetime(2024, 5, 1, 10, 0, 30, 500000)], pl.Datetime("us")),
        (["2024-05-01T09:30:00Z", "2024-05-01T09:30+02:00"],
         [datetime(2024, 5, 1, 9, 30, tzinfo=UTC), datetime(2024, 5, 1, 7, 30, tzinfo=UTC)],
         pl.Datetime("us", "UTC")),
        (["2024-05-01T09:30:00Z", "2024-05-01T09:30:00"],
         ["2024-05-01T09:30:00Z", "2024-05-01T09:30:00"], pl.String),
        (["", ""], [None, None], pl.String),
    ],
)  # fmt: skip
def test_columns_get_the_narrowest_type_that_fits_all_values(
    tmp_path: Path, fields: list[str], expected: list[object], dtype: pl.DataType
) -> None:
    column = _column(tmp_path, *fields)
    assert column.dtype == dtype
    assert column.to_list() == expected


def test_a_late_exception_is_noticed(tmp_path: Path) -> None:
    assert _column(tmp_path, *["1"] * 2000, "x").dtype == pl.String
    assert _column(tmp_path, *["1"] * 2000, "1.5").dtype == pl.Float64


def test_nanoseconds_are_kept(tmp_path: Path) -> None:
    column = _column(tmp_path, "2024-05-01T09:30:00.123456789")
    assert column.dtype == pl.Datetime("ns")
    assert column.to_physical().item() % 10**9 == 123456789


def test_na_texts_are_missing(tmp_path: Path) -> None:
    assert _column(tmp_path, "1", "NA", "-", na=["NA", "-"]).to_list() == [1, None, None]


@pytest.mark.parametrize(
    "text, rows",
    [
        ("a,b\r\n1,x\r\n2,y\r\n", [(1, "x"), (2, "y")]),
        ("a,b\n1,x\r\n2,y", [(1, "x"), (2, "y")]),
        ("a,b\r1,x\r2,y\r", [(1, "x"), (2, "y")]),
        ("a,b\n1,x\n2,y\n\n\n", [(1, "x"), (2, "y")]),
        ("a,b\n1,x\r\n2,y\r\n\r\n", [(1, "x"), (2, "y")]),
        ('a,b\n1,"x\ny"\n2,"y ""z"", w"\n', [(1, "x\ny"), (2, 'y "z", w')]),
        ('"a","b"\n1,"x\r\ny"\n2,"\n"\n', [(1, "x\r\ny"), (2, "\n")]),
        ("a,b\n", []),
        ("a,b", []),
        ("'a','b'\n1,'x,y'\n", [(1, "x,y")]),
    ],
)
def test_lines_and_quotes(tmp_path: Path, text: str, rows: list[tuple[object, ...]]) -> None:
    frame = _read(tmp_path, text)
    assert frame.columns == ["a", "b"]
    assert frame.rows() == rows


def test_a_blank_line_in_a_single_column_is_a_missing_value(tmp_path: Path) -> None:
    assert _read(tmp_path, "a\n1\n\n3\n\n").rows() == [(1,), (None,), (3,)]


@pytest.mark.parametrize(
    "text, suffix, rows",
    [
        ("a;b\n1,5;x, y\n2,25;z\n", ".csv", [(1.5, "x, y"), (2.25, "z")]),
        ("a;b\n1.5;x\n2.25;z\n", ".csv", [(1.5, "x"), (2.25, "z")]),
        ("a\tb\n1.5\tx,y,z\n", ".tsv", [(1.5, "x,y,z")]),
        ("a\tb\n1\tx,y\n", ".csv", [(1, "x,y")]),
        ("a|b\n1|x\n", ".txt", [(1, "x")]),
        ("a,b\n1,x;y\n2,z;w\n", ".csv", [(1, "x;y"), (2, "z;w")]),
        ('"a;1",b\n1,x\n2,"y;z;w"\n', ".csv", [(1, "x"), (2, "y;z;w")]),
    ],
)
def test_delimiter_and_decimal_separator_are_detected(
    tmp_path: Path, text: str, suffix: str, rows: list[tuple[object, ...]]
) -> None:
    assert _read(tmp_path, text, suffix).rows() == rows


def test_options_override_detection(tmp_path: Path) -> None:
    assert _read(tmp_path, "a,b;c\n1,2;3\n", delimiter=",").columns == ["a", "b;c"]
    assert _read(tmp_path, "a;b\n1,5;x\n", decimal=".")["a"].to_list() == ["1,5"]
    assert _read(tmp_path, 'a,b\n"1,5",x\n', decimal=",")["a"].to_list() == [1.5]
    assert _read(tmp_path, 'a,b\n5" disk,x\n', quote="")["a"].to_list() == ['5" disk']


@pytest.mark.parametrize(
    "encoding, actual",
    [("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("utf-16", "utf-16"), ("cp1252", "windows-1252")],
)
def test_encoding_is_detected(tmp_path: Path, encoding: str, actual: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes("né,b\nZoë,1\n".encode(encoding))
    table = read(path)
    assert table.names == ("né", "b")
    assert table.native["né"].to_list() == ["Zoë"]
    assert table.origin.dialect.encoding == actual


def test_bytes_outside_windows_1252_are_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"a,b\n\x81\xe9,1\n")
    assert read(path).origin.dialect.encoding == "latin-1"


def test_encoding_can_be_set(tmp_path: Path) -> None:
    assert _read(tmp_path, "a,b\nŁ,1\n".encode("cp1250"), encoding="cp1250")["a"].to_list() == ["Ł"]
    assert _read(tmp_path, "a,b\nŁ,1\n".encode("utf-16-le"), encoding="utf-16-le")[
        "a"
    ].to_list() == ["Ł"]
    assert _read(tmp_path, "a,b\nŁ,1\n".encode("utf-8-sig"), encoding="UTF8").columns == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "options", "code", "details"),
    [
        (
            b"a,b\n1,2\n\xff,3\n",
            {"encoding": "utf-8"},
            "table.bad_encoding",
            {"byte": 9, "line": 3},
        ),
        (b"a,b\n1,2\n3\x00,4\n", {}, "table.bad_encoding", {"line": 3}),
        ("a,b\n1,2\n".encode("utf-16-le"), {}, "table.bad_encoding", {"line": 1}),
        (b"", {}, "table.malformed", {}),
        (b"\n\n", {}, "table.malformed", {}),
        (b"\xef\xbb\xbf", {}, "table.malformed", {}),
        (b"a,a,b,b\n1,2,3,4\n", {}, "table.bad_names", {"positions": [[1, 2], [3, 4]]}),
        (b"Ann,Bob,x,Ann,Ann\n1,2,3,4,5\n", {}, "table.bad_names", {"positions": [[1, 4, 5]]}),
        (b"a,b,\n1,2,3\n", {}, "table.bad_names", {"position": 3}),
        (b"a,b\n1,2\n3\n", {}, "table.malformed", {"row": 2}),
        (b'a,b\n1,2\n3,"4', {}, "table.malformed", {"row": 2}),
        (b"a,b\n1,2\n\n3,4\n", {}, "table.malformed", {"row": 2}),
    ],
)
def test_rejects_malformed_files(
    tmp_path: Path,
    text: bytes,
    options: dict[str, object],
    code: str,
    details: dict[str, object],
) -> None:
    with raises(TableError, code, **details):
        _read(tmp_path, text, **options)


def test_errors_do_not_quote_the_header(tmp_path: Path) -> None:
    for header, code in (
        (b"Quirinus,Zacharias,Quirinus", "table.bad_names"),
        (b"Quirinus,", "table.malformed"),
        (b'Quirinus,"Zacharias', "table.malformed"),
        (b'Quirinus,Za"charias', "table.malformed"),
    ):
        with raises(TableError, code) as caught:
            _read(tmp_path, header + b"\n1,2,3\n")
        assert "Quirinus" not in str(caught.value)
        assert "charias" not in str(caught.value)


@pytest.mark.parametrize(
    "fields, expected",
    [
        (["31/12/2024", "1/2/2024", ""], [date(2024, 12, 31), date(2024, 2, 1), None]),
        (["12/31/2024", "1/2/2024", ""], [date(2024, 12, 31), date(2024, 1, 2), None]),
        (["31-12-2024", "01-02-2024"], [date(2024, 12, 31), date(2024, 2, 1)]),
        (["12-31-2024", "01-02-2024"], [date(2024, 12, 31), date(2024, 1, 2)]),
        (["1.2.2024", "05.11.1999"], [date(2024, 2, 1), date(1999, 11, 5)]),
        (["29.02.2024", " 1.3.2024 "], [date(2024, 2, 29), date(2024, 3, 1)]),
        (["2024/02/29", "1999/1/5"], [date(2024, 2, 29), date(1999, 1, 5)]),
    ],
)
def test_unambiguous_dates_are_converted(
    tmp_path: Path, fields: list[str], expected: list[date | None]
) -> None:
    column = _column(tmp_path, *fields)
    assert column.dtype == pl.Date
    assert column.to_list() == expected


@pytest.mark.parametrize(
    "fields",
    [
        ["1/2/2024", "12/12/2024"],
        ["1-2-2024", "12-12-2024"],
        ["13/1/2024", "1/13/2024"],
        ["31/2/2024", "1/2/2024"],
        ["30.2.2024"],
        ["12.31.2024"],
        ["31/12/24"],
        ["31/12/2024", "31-12-2024"],
        ["31/12-2024"],
        ["2024/13/01"],
        ["2024/02/30"],
        ["31/12/2024", "unknown"],
    ],
)
def test_ambiguous_dates_stay_text(tmp_path: Path, fields: list[str]) -> None:
    column = _column(tmp_path, *fields)
    assert column.dtype == pl.String
    assert column.to_list() == fields


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 33), st.integers(1, 33), st.integers(1000, 2999)),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from("/-"),
)
def test_day_and_month_are_distinguished_like_a_person_would(
    tmp_path: Path, numbers: list[tuple[int, int, int]], sign: str
) -> None:
    def days(order: tuple[int, int]) -> list[date] | None:
        try:
            return [date(triple[2], triple[order[1]], triple[order[0]]) for triple in numbers]
        except ValueError:
            return None

    fields = [sign.join(map(str, triple)) for triple in numbers]
    by_day, by_month = days((0, 1)), days((1, 0))
    expected = fields if (by_day is None) == (by_month is None) else by_day or by_month
    assert _column(tmp_path, *fields).to_list() == expected


def test_dates_are_written_as_iso_dates(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n31/12/2024,1\n1/2/2024,2\n")
    write(read(tmp_path / "in.csv"), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "a,b\n2024-12-31,1\n2024-02-01,2\n"


def test_names_that_look_like_patterns(tmp_path: Path) -> None:
    frame = _read(tmp_path, "^a.*$,*,ab,^b$\n1,x,2024-01-01,1.5\n2,y,2024-01-02,NA\n", na=["NA"])
    assert frame.columns == ["^a.*$", "*", "ab", "^b$"]
    assert frame.rows() == [(1, "x", date(2024, 1, 1), 1.5), (2, "y", date(2024, 1, 2), None)]


@pytest.mark.parametrize("at_once", [1, 2, 7, 1000])
def test_batch_size_does_not_change_the_result(
    tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "_FIELDS_PER_BATCH", at_once)
    frame = _read(tmp_path, "a;b;c;d;e\n1;1,5;x;;31/1/2024\n2;2;y;;1/1/2024\n")
    assert frame.rows() == [
        (1, 1.5, "x", None, date(2024, 1, 31)),
        (2, 2.0, "y", None, date(2024, 1, 1)),
    ]


def test_wide_tables_are_converted_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    select = pl.DataFrame.select
    monkeypatch.setattr(
        pl.DataFrame,
        "select",
        lambda *arguments, **named: calls.append(0) or select(*arguments, **named),
    )
    width = 3000
    text = "\n".join(
        ",".join(fields)
        for fields in ([f"c{at}" for at in range(width)], *[["1", "x", ".5"] * 1000] * 2)
    )
    frame = _read(tmp_path, text)
    assert frame.dtypes == [pl.Int64, pl.String, pl.Float64] * 1000
    assert len(calls) < 100


@pytest.mark.parametrize(
    "options",
    [
        {"delimiter": ""},
        {"delimiter": ",,"},
        {"delimiter": "é"},
        {"delimiter": "\n"},
        {"quote": "ab"},
        {"delimiter": "'", "quote": "'"},
        {"delimiter": '"'},
        {"decimal": ";"},
        {"encoding": "no-such"},
        {"encoding": "rot13"},
        {"na": "NA"},
        {"na": [1]},
    ],
)
def test_rejects_invalid_options(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(OptionError) as caught:
        _read(tmp_path, "a,b\n1,2\n", **options)
    assert caught.value.details["option"] in options


def test_the_dialect_is_kept_in_output(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(
        'a;b;c\n1,5;x, y;2024-05-01T09:30\n2,25;"z;w";2024-05-02 10:00:00.25\n'.encode("utf-16")
    )
    write(read(path), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == (
        b'a;b;c\n1,5;x, y;2024-05-01T09:30:00\n2,25;"z;w";2024-05-02T10:00:00.250\n'
    )
    write(read(path), tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_bytes().startswith(b"a\tb\tc\n1.5\tx, y\t2024-")


TEXTS = st.text(
    st.one_of(
        st.sampled_from(",;\t|\"'\n\r .0a-"),
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    ),
    min_size=1,
    max_size=8,
).map(lambda text: "t" + text)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.integers(1, 3).flatmap(
        lambda width: st.lists(
            st.lists(st.one_of(st.none(), TEXTS), min_size=width, max_size=width),
            min_size=1,
            max_size=6,
        )
    ),
    st.sampled_from([".csv", ".tsv", ".txt"]),
    st.data(),
)
def test_text_round_trip(
    tmp_path: Path, rows: list[list[str | None]], suffix: str, data: st.DataObject
) -> None:
    width = len(rows[0])
    names = data.draw(st.lists(TEXTS, min_size=width, max_size=width, unique=True))
    frame = pl.DataFrame(
        dict(zip(names, zip(*rows, strict=True), strict=True)),
        schema=dict.fromkeys(names, pl.String),
    )
    path = tmp_path / f"table{suffix}"
    write(read(frame), path)
    # Short texts full of delimiters leave no way to find the right one out.
    back = read(path, delimiter="\t" if suffix == ".tsv" else ",", quote='"').native
    assert back.columns == names
    assert back.rows() == frame.rows()
