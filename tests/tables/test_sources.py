"""Files as people have them: titles, sheets, separators, compression, streams and URLs."""

import bz2
import gzip
import io
import sys
import zipfile
from pathlib import Path

import polars as pl
import pytest

import microcell as mc
from microcell.errors import OptionError, TableError
from microcell.tables.csv import convert
from tests.raising import raises

GERMAN = "name;datum;betrag;plz\nAda;31.12.2024;1.506,83;01067\nBob;01.02.2024;12,5;80331\n"
PLAIN = "age,city\n31,A\n52,B\n"


def columns(table):
    return {name: values.storage for name, values in table.columns.items()}


# ------------------------------------------------------------------------- numbers


def test_german_amounts_are_numbers_and_other_columns_stay(tmp_path):
    path = tmp_path / "g.csv"
    path.write_text(GERMAN, encoding="utf-8")
    table = mc.read(path)
    assert columns(table) == {"name": "text", "datum": "date", "betrag": "float", "plz": "text"}
    assert table.columns["betrag"].data.tolist() == [1506.83, 12.5]
    (note,) = table.origin.notes
    assert "betrag" in note
    assert "1 number " in note
    assert "506" not in note


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        (["1,506.83", "2"], {}, [1506.83, 2.0]),
        (["€ 1.506,83", "-3,50 €"], {}, [1506.83, -3.5]),
        (["1.506", "2.000"], {}, [1.506, 2.0]),
        (["1.506", "2.000"], {"thousands": "."}, [1506, 2000]),
        (["1'506.5", "7"], {"thousands": "'"}, [1506.5, 7.0]),
        (["12.05.2024", "13.05.2024"], {"thousands": "."}, None),
        (["192.168.100.200", "10.100.100.100"], {}, None),
        (["1.506,83", "K.A."], {}, None),
    ],
)
def test_separators(tmp_path, values, options, expected):
    path = tmp_path / "v.csv"
    path.write_text("\n".join(["v;w", *(f'"{value}";x' for value in values)]), encoding="utf-8")
    column = mc.read(path, **{"decimal": "."} | options if expected == [1.506, 2.0] else options)
    column = column.columns["v"]
    if expected is None:
        assert column.storage in ("text", "date")
    else:
        assert column.data.tolist() == pytest.approx(expected)


def test_release_of_german_amounts(tmp_path):
    path = tmp_path / "g.csv"
    rows = [f"{20 + i};{1 + i}.{100 + i},50" for i in range(9)]
    path.write_text("\n".join(["alter;betrag", *rows]), encoding="utf-8")
    schema = mc.Schema(quasi=["alter"], confidential=["betrag"])
    release = mc.anonymize(path, schema, k=3, method="mdav")
    release.publish(tmp_path / "out.csv")
    audit = mc.audit(path, tmp_path / "out.csv", schema)
    assert (audit["k"], audit["values_changed"]) == (3, 0)


# ------------------------------------------------------------------------- titles and sheets


@pytest.mark.parametrize("title", ["Report 2024", "Report 2024\n"])
def test_a_title_is_named_and_can_be_skipped(tmp_path, title):
    path = tmp_path / "t.csv"
    path.write_text(f"{title}\n{GERMAN}", encoding="utf-8")
    n = 1 + title.count("\n")
    with raises(TableError, "table.malformed", skip_rows=n):
        mc.read(path)
    assert mc.read(path, skip_rows=n).rows == 2
    with raises(OptionError, "option.out_of_range", option="skip_rows"):
        mc.read(path, skip_rows=99)


@pytest.fixture
def workbook(tmp_path):
    xlsxwriter = pytest.importorskip("xlsxwriter")
    path = tmp_path / "book.xlsx"
    with xlsxwriter.Workbook(path) as book:
        first = book.add_worksheet("Patients")
        first.write_row(0, 0, ["Report 2024"])
        first.write_row(1, 0, ["age", "code", "city"])
        for i in range(5):
            first.write_row(2 + i, 0, [20 + i, "-9" if i else "x", "A"])
        second = book.add_worksheet("Codes")
        second.write_row(0, 0, ["code", "text"])
        second.write_row(1, 0, [1, "one"])
        book.add_worksheet("Empty")
    return path


def test_sheets(workbook):
    with raises(TableError, "table.malformed", sheets=2):
        mc.read(workbook)
    assert mc.read(workbook, sheet="Codes").names == ("code", "text")
    assert mc.read(workbook, sheet=2).names == mc.read(workbook, sheet="2").names
    with raises(TableError, "table.malformed", skip_rows=1):
        mc.read(workbook, sheet="Patients")
    table = mc.read(workbook, sheet="Patients", skip_rows=1, na=["-9", "x"])
    assert (table.rows, table.names) == (5, ("age", "code", "city"))
    assert table.columns["code"].missing.all()
    for sheet, code in ((4, "option.out_of_range"), ("None", "option.unknown")):
        with raises(OptionError, code, option="sheet"):
            mc.read(workbook, sheet=sheet)


def test_a_workbook_goes_from_source_to_audit(workbook, tmp_path):
    schema = mc.Schema(quasi=["age"], keep=["city"], drop=["code"])
    options = {"sheet": "Patients", "skip_rows": 1}
    release = mc.anonymize(mc.read(workbook, **options), schema, k=2, method="mdav")
    release.publish(tmp_path / "out.csv")
    assert release.manifest.input.reading == options
    audit = mc.audit(workbook, tmp_path / "out.csv", schema)
    assert (audit["k"] >= 2, audit["values_changed"], audit.warning) == (True, 0, "")


def test_missing_marks_in_every_format(tmp_path):
    frame = pl.DataFrame({"a": ["1", "-", "3"], "b": [7, 999, 8], "c": ["x", "y", "-"]})
    for suffix in (".parquet", ".arrow", ".jsonl", ".xlsx", ".sav", ".dta"):
        path = tmp_path / f"t{suffix}"
        mc.write(frame, path)
        table = mc.read(path, na=["-", "999"])
        missing = {name: values.missing.tolist() for name, values in table.columns.items()}
        assert missing["a"] == missing["b"] == [False, True, False], suffix
        assert missing["c"] == [False, False, True], suffix


def test_options_that_do_not_apply(tmp_path):
    path = tmp_path / "t.parquet"
    mc.write({"a": [1]}, path)
    for options in ({"sheet": 1}, {"delimiter": ";"}, {"thousands": "."}):
        with raises(OptionError, "option.unsupported"):
            mc.read(path, **options)
    for options in ({"skip_rows": -1}, {"thousands": "x"}, {"sheet": 0}):
        with raises(OptionError, "option.invalid"):
            mc.read(path, **options)
    with raises(OptionError, "option.conflict", option="thousands"):
        mc.read(path, thousands=",", decimal=",")


# ------------------------------------------------------------------------- compression and streams


def pack(path, data):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("people.csv", data)
        return
    if path.suffix == ".zst":
        pyarrow = pytest.importorskip("pyarrow")
        with pyarrow.CompressedOutputStream(str(path), "zstd") as file:
            file.write(data)
        return
    path.write_bytes({".gz": gzip.compress, ".bz2": bz2.compress}[path.suffix](data))


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zip", ".zst"])
def test_compressed_text(tmp_path, suffix):
    path = tmp_path / f"people.csv{suffix}"
    pack(path, PLAIN.encode())
    table = mc.read(path)
    assert columns(table) == {"age": "integer", "city": "text"}
    assert table.origin.path == path
    path.write_bytes(path.read_bytes()[:-8])
    with raises(TableError, "table.malformed"):
        mc.read(path)


def test_compressed_parquet_and_json_lines(tmp_path):
    for suffix in (".parquet", ".jsonl"):
        plain = tmp_path / f"t{suffix}"
        mc.write({"age": [31, 52]}, plain)
        path = tmp_path / f"t{suffix}.gz"
        pack(path, plain.read_bytes())
        assert mc.read(path).columns["age"].data.tolist() == [31, 52]


def test_a_bomb_and_an_archive_of_several_files(tmp_path, monkeypatch):
    monkeypatch.setattr("microcell.tables.sources._SMALL", 1000)
    path = tmp_path / "zeros.csv.gz"
    pack(path, b"0\n" * 1_000_000)
    with raises(TableError, "table.too_large"):
        mc.read(path)
    many = tmp_path / "many.zip"
    with zipfile.ZipFile(many, "w") as archive:
        archive.writestr("a.csv", PLAIN)
        archive.writestr("b.csv", PLAIN)
    with raises(TableError, "table.malformed", members=2):
        mc.read(many)


def test_streams(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    mc.write({"age": [31, 52]}, path)
    for stream in (io.StringIO(PLAIN), io.BytesIO(PLAIN.encode()), io.BytesIO(path.read_bytes())):
        assert mc.read(stream).columns["age"].data.tolist() == [31, 52]
    assert mc.read(io.BytesIO(gzip.compress(PLAIN.encode()))).rows == 2
    with path.open("rb") as file:
        assert mc.read(file).rows == 2

    class Stdin:
        buffer = io.BytesIO(PLAIN.encode())

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert mc.read("-").names == ("age", "city")


def test_urls(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://folder/people.csv", "wb") as file:
        file.write(PLAIN.encode())
    assert mc.read("memory://folder/people.csv").rows == 2
    assert mc.read(Path("memory://folder/people.csv")).rows == 2
    with raises(TableError, "table.unreadable"):
        mc.read("memory://folder/absent.csv")
    with raises(TableError, "table.unknown_format"):
        mc.read("zzz://folder/people.csv")


def test_a_url_without_the_extra_is_refused_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with raises(TableError, "option.extra_missing", package="fsspec", extra="sources"):
        mc.read("s3://bucket/people.csv")


def test_convert_is_unchanged_by_plain_points():
    assert convert(pl.DataFrame({"a": ["1.506", "2.5"]})).to_series().to_list() == [1.506, 2.5]


# ------------------------------------------------------------------------- names of columns


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("Station", "quasi"), ("Aufnahmedatum", "quasi"), ("Entlassdatum", "quasi"),
        ("fecha_ingreso", "quasi"), ("date_entree", "quasi"), ("data_nascita", "quasi"),
        ("Geburtsdatum", "quasi"), ("PLZ", "quasi"), ("servicio", "quasi"), ("reparto", "quasi"),
        ("ICD10", "confidential"), ("CIE10", "confidential"), ("cim10", "confidential"),
        ("NHC", "identifier"), ("NIF", "identifier"), ("codice_fiscale", "identifier"),
    ],
)  # fmt: skip
def test_columns_of_hospitals_and_registers(name, role):
    values = [f"v{i % 7}" for i in range(60)]
    (column,) = mc.inspect({name: values}).columns
    assert column.role == role
