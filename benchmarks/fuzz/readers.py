"""Read published files with other readers than those of the library, into plain Python values."""

import csv
import json
import math
import zipfile
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pyreadstat

__all__ = ["convert", "ordered_columns", "read_columns"]

Columns = dict[str, list[Any]]


def read_columns(path: Path) -> Columns:
    """Return the columns of a file, in the types of its format."""
    return _READERS[path.suffix](path)


def _read_text(path: Path, delimiter: str = ",") -> Columns:
    # The csv module does not tell a quoted empty field from an empty one; both are missing here.
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.reader(file, delimiter=delimiter, strict=True))
    return _transposed(rows[0], rows[1:])


def _read_any_text(path: Path) -> Columns:
    header = path.read_text(encoding="utf-8").split("\n", 1)[0]
    return _read_text(path, "\t" if "\t" in header and "," not in header else ",")


def _transposed(names: list[str], rows: list[list[Any]]) -> Columns:
    if any(len(row) != len(names) for row in rows) or len(set(names)) < len(names):
        raise ValueError("rows of different lengths, or repeated names")
    return {name: [row[at] for row in rows] for at, name in enumerate(names)}


def _read_json(path: Path) -> Columns:
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    return _transposed(list(rows[0]), [list(row.values()) for row in rows])


def _read_parquet(path: Path) -> Columns:
    return _from_arrow(pa.parquet.read_table(path, use_threads=False))


def _read_arrow(path: Path) -> Columns:
    options = pa.ipc.IpcReadOptions(use_threads=False)
    with pa.ipc.open_file(path, options=options) as reader:
        return _from_arrow(reader.read_all())


def ordered_columns(path: Path) -> set[str]:
    """Return the columns of a file with ordered categories."""
    if path.suffix == ".parquet":
        schema = pa.parquet.read_schema(path)
    elif _READERS[path.suffix] is _read_arrow:
        with pa.ipc.open_file(path) as reader:
            schema = reader.schema
    else:
        return set()
    return {field.name for field in schema if pa.types.is_dictionary(field.type)}


def _from_arrow(table: pa.Table) -> Columns:
    if len(set(table.column_names)) < table.num_columns:
        raise ValueError("repeated names")
    return {name: table[name].to_pylist() for name in table.column_names}


def _read_spss(path: Path) -> Columns:
    columns, _ = pyreadstat.read_sav(str(path), output_format="dict")
    return {name: list(values) for name, values in columns.items()}


def _read_sas(path: Path) -> Columns:
    columns, _ = pyreadstat.read_xport(str(path), output_format="dict")
    return {name: list(values) for name, values in columns.items()}


def _read_stata(path: Path) -> Columns:
    frame = pd.read_stata(path, convert_categoricals=False)
    return {str(name): frame[name].tolist() for name in frame.columns}


# ------------------------------------------------------------------------------------- spreadsheets

_NAMESPACE = {"m": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
_ESCAPED = "_x"


def _read_sheet(path: Path) -> Columns:
    """Read the first sheet of a workbook from its XML parts."""
    with zipfile.ZipFile(path) as archive:
        sheet = Xml.fromstring(archive.read("xl/worksheets/sheet1.xml"))
        shared = []
        if "xl/sharedStrings.xml" in archive.namelist():
            root = Xml.fromstring(archive.read("xl/sharedStrings.xml"))
            shared = [_joined(entry) for entry in root.findall("m:si", _NAMESPACE)]
    grid: dict[tuple[int, int], Any] = {}
    for cell in sheet.iterfind(".//m:c", _NAMESPACE):
        if cell.find("m:f", _NAMESPACE) is not None:
            raise ValueError("a formula")
        value = _cell_value(cell, shared)
        if value is not None:
            grid[_position(cell.attrib["r"])] = value
    n_columns = 1 + max(column for row, column in grid if row == 0)
    n_rows = 1 + max(row for row, _ in grid)
    names = [grid[0, column] for column in range(n_columns)]
    rows = [[grid.get((row, column)) for column in range(n_columns)] for row in range(1, n_rows)]
    return _transposed(names, rows)


def _joined(entry: Xml.Element) -> str:
    return "".join(part.text or "" for part in entry.iterfind(".//m:t", _NAMESPACE))


def _cell_value(cell: Xml.Element, shared: list[str]) -> Any:
    kind = cell.attrib.get("t", "n")
    if kind == "inlineStr":
        return _unescaped(_joined(cell))
    content = cell.find("m:v", _NAMESPACE)
    if content is None or content.text is None:
        return None
    if kind == "s":
        return _unescaped(shared[int(content.text)])
    if kind == "b":
        return content.text == "1"
    return float(content.text) if kind == "n" else content.text


def _unescaped(text: str) -> str:
    """Undo the escape of control characters, ``_xHHHH_``."""
    out, at = [], 0
    while at < len(text):
        digits = text[at + 2 : at + 6]
        is_escape = text.startswith(_ESCAPED, at) and text[at + 6 : at + 7] == "_"
        if is_escape and len(digits) == 4 and all(c in "0123456789ABCDEFabcdef" for c in digits):
            out.append(chr(int(digits, 16)))
            at += 7
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


def _position(reference: str) -> tuple[int, int]:
    letters = reference.rstrip("0123456789")
    column = 0
    for letter in letters:
        column = 26 * column + ord(letter) - 64
    return int(reference[len(letters) :]) - 1, column - 1


_READERS: dict[str, Callable[[Path], Columns]] = {
    ".csv": _read_text,
    ".tsv": lambda path: _read_text(path, "\t"),
    ".txt": _read_any_text,
    **dict.fromkeys((".jsonl", ".ndjson"), _read_json),
    ".parquet": _read_parquet,
    **dict.fromkeys((".arrow", ".feather", ".ipc"), _read_arrow),
    ".xlsx": _read_sheet,
    **dict.fromkeys((".sav", ".zsav"), _read_spss),
    ".dta": _read_stata,
    ".xpt": _read_sas,
}


# ----------------------------------------------------------------------------------------- values

_WITH_EMPTY_TEXT = (".jsonl", ".ndjson", ".parquet", ".arrow", ".feather", ".ipc")
_SHEET_START = datetime(1899, 12, 30)


def convert(value: Any, kind: str, suffix: str) -> Any:
    """Return a value of a file as the Python value of a column type; None if it is missing."""
    if value is None or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return None
    if value == "" and suffix not in _WITH_EMPTY_TEXT:
        return None
    return _CONVERTERS[kind](value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, str):
        value = int(value.removesuffix(".0"))  # whole numbers with missing ones may be floats
    if int(value) != value:
        raise ValueError("not a whole number")
    return int(value)


def _boolean(value: Any) -> bool:
    return {"true": True, "false": False, "1": True, "0": False}[str(value).lower().split(".")[0]]


def _moment(value: Any) -> datetime:
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    if isinstance(value, (int, float)):
        # Dates before March 1900 have other numbers: the format counts a day that did not exist.
        days = value if value > 60 else value + 1
        return _SHEET_START + timedelta(microseconds=round(days * 86_400_000) * 1000)
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    if isinstance(value, datetime):
        return value
    return datetime(value.year, value.month, value.day)


def _day(value: Any) -> date:
    moment = _moment(value)
    if moment != datetime(moment.year, moment.month, moment.day):
        raise ValueError("not a day")
    return moment.date()


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "text": _text,
    "integer": _integer,
    "float": float,
    "single": float,
    "boolean": _boolean,
    "date": _day,
    "datetime": _moment,
}
