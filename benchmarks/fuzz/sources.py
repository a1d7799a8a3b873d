"""Tables in every form that the library accepts, written without its help.

Where a form can hide bytes (values under a null, rows outside a slice, unused categories and
labels, bits of a NaN), they are filled with ``HIDDEN`` patterns, which must not appear in anything
published.
"""

import csv
import json
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pyreadstat

from benchmarks.fuzz.cases import Case
from benchmarks.fuzz.fields import Field, is_missing

__all__ = ["HIDDEN", "make_source"]

HIDDEN_TEXT = "Hhiddnbcdfghjklm"
_HIDDEN_INTEGER = 0x5EC2_E7C0_DE5E_C2E7
_HIDDEN_NAN = 0x7FF8_5EC2_E7C0_DE01
HIDDEN = (
    HIDDEN_TEXT.encode(),
    struct.pack("<q", _HIDDEN_INTEGER),
    struct.pack("<Q", _HIDDEN_NAN),
)
"""Bytes that are in the memory of a table but not among its values."""


def make_source(case: Case, folder: Path) -> Any:
    """Return the table of a case: a frame, or the path of a file in the folder."""
    if case.source.startswith("."):
        path = folder / f"original{case.source}"
        _WRITERS[case.source](case.fields, path)
        return path
    return _FRAMES[case.source](case.fields)


# ------------------------------------------------------------------------------------------- NumPy


def _array(item: Field) -> Any:
    missing = np.array([is_missing(value) for value in item.values], dtype=bool)
    if item.type in ("float", "single"):
        return _floats(item, missing)
    if item.type == "date":
        return np.array(["NaT" if v is None else v for v in item.values], dtype="datetime64[D]")
    if item.type == "datetime":
        return np.array(["NaT" if v is None else v for v in item.values], dtype="datetime64[us]")
    if item.type in ("integer", "boolean") and not missing.any():
        return np.array(item.values, dtype=np.int64 if item.type == "integer" else bool)
    array = np.empty(len(item.values), dtype=object)
    array[:] = item.values
    return array


def _floats(item: Field, missing: Any) -> Any:
    numbers = np.array([0.0 if value is None else value for value in item.values], dtype=np.float64)
    numbers.view(np.uint64)[missing] = _HIDDEN_NAN
    return numbers.astype(np.float32) if item.type == "single" else numbers


def _as_dict(fields: Sequence[Field]) -> dict[str, Any]:
    return {item.name: _array(item) for item in fields}


def _as_lists(fields: Sequence[Field]) -> dict[str, Any]:
    return {
        item.name: _array(item) if item.type == "single" else list(item.values) for item in fields
    }


# ------------------------------------------------------------------------------------------ pandas


def _as_pandas(fields: Sequence[Field]) -> pd.DataFrame:
    frame = pd.DataFrame({item.name: pd.Series(_array(item)) for item in fields})
    frame.index = pd.Index([f"{HIDDEN_TEXT}{row}" for row in range(len(frame))])
    return frame


def _as_pandas_nullable(fields: Sequence[Field]) -> pd.DataFrame:
    return pd.DataFrame({item.name: _nullable(item) for item in fields})


def _nullable(item: Field) -> Any:
    missing = np.array([is_missing(value) for value in item.values], dtype=bool)
    if item.type == "integer":
        data = [_HIDDEN_INTEGER if value is None else value for value in item.values]
        return pd.arrays.IntegerArray(np.array(data, dtype=np.int64), missing)
    if item.type == "boolean":
        return pd.arrays.BooleanArray(np.array([bool(v) for v in item.values]), missing)
    if item.type == "float":
        return pd.arrays.FloatingArray(_floats(item, missing), missing)
    if item.type == "text":
        return pd.array([None if v is None else v for v in item.values], dtype="string")
    return _array(item)


def _as_pandas_categories(fields: Sequence[Field]) -> pd.DataFrame:
    frame = _as_pandas(fields)
    for item in fields:
        if item.type == "text":
            present = dict.fromkeys(value for value in item.values if value is not None)
            frame[item.name] = pd.Categorical(item.values, categories=[*present, HIDDEN_TEXT])
    return frame


# ------------------------------------------------------------------------------------------ polars

_POLARS = {
    "text": pl.String,
    "integer": pl.Int64,
    "float": pl.Float64,
    "single": pl.Float32,
    "boolean": pl.Boolean,
    "date": pl.Date,
    "datetime": pl.Datetime("us"),
}


def _as_polars(fields: Sequence[Field]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            pl.Series(
                item.name,
                _array(item) if item.type in ("float", "single") else list(item.values),
                dtype=_POLARS[item.type],
            )
            for item in fields
        ]
    )


def _as_polars_enum(fields: Sequence[Field]) -> pl.DataFrame:
    frame = _as_polars(fields)
    columns = []
    for item in fields:
        if item.type == "text":
            present = dict.fromkeys(value for value in item.values if value is not None)
            columns.append(frame[item.name].cast(pl.Enum([*present, HIDDEN_TEXT])))
    return frame.with_columns(columns)


# ----------------------------------------------------------------------------------------- pyarrow

_ARROW = {
    "text": pa.string(),
    "integer": pa.int64(),
    "float": pa.float64(),
    "single": pa.float32(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
}


def _arrow_array(item: Field) -> pa.Array:
    missing = np.array([is_missing(value) for value in item.values], dtype=bool)
    if item.type == "integer" and missing.any():
        data = np.array([_HIDDEN_INTEGER if v is None else v for v in item.values], dtype=np.int64)
        validity = pa.py_buffer(np.packbits(~missing, bitorder="little").tobytes())
        return pa.Array.from_buffers(pa.int64(), len(data), [validity, pa.py_buffer(data)])
    if item.type in ("float", "single"):
        return pa.array(_floats(item, missing))
    return pa.array(list(item.values), type=_ARROW[item.type])


def _as_arrow(fields: Sequence[Field]) -> pa.Table:
    return pa.table({item.name: _arrow_array(item) for item in fields})


def _as_arrow_dictionaries(fields: Sequence[Field]) -> pa.Table:
    columns = {}
    for item in fields:
        array = _arrow_array(item)
        if item.type == "text":
            encoded = array.dictionary_encode()
            names = pa.concat_arrays([encoded.dictionary, pa.array([HIDDEN_TEXT])])
            array = pa.DictionaryArray.from_arrays(encoded.indices, names)
        columns[item.name] = array
    return pa.table(columns)


def _as_arrow_slice(fields: Sequence[Field]) -> pa.Table:
    columns = {}
    for item in fields:
        array = _arrow_array(item)
        other = {"text": HIDDEN_TEXT, "integer": _HIDDEN_INTEGER}.get(item.type)
        more = pa.array([other, other], type=array.type)
        columns[item.name] = pa.concat_arrays([more, array, more])
    return pa.table(columns).slice(2, len(fields[0].values))


_FRAMES: dict[str, Callable[[Sequence[Field]], Any]] = {
    "dict": _as_dict,
    "lists": _as_lists,
    "pandas": _as_pandas,
    "pandas nullable": _as_pandas_nullable,
    "pandas categories": _as_pandas_categories,
    "polars": _as_polars,
    "polars enum": _as_polars_enum,
    "pyarrow": _as_arrow,
    "pyarrow dictionaries": _as_arrow_dictionaries,
    "pyarrow sliced": _as_arrow_slice,
}


# ------------------------------------------------------------------------------------------- files


def _as_text(value: Any) -> str:
    if is_missing(value):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return repr(value) if isinstance(value, float) else str(value)


def _rows(fields: Sequence[Field]) -> list[tuple[Any, ...]]:
    return list(zip(*(item.values for item in fields), strict=True))


def _write_csv(fields: Sequence[Field], path: Path, delimiter: str = ",") -> None:
    # With a mark of the file in front, the mark at the start of a first name belongs to the name.
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow([item.name for item in fields])
        for row in _rows(fields):
            writer.writerow([_as_text(value) for value in row])


def _write_json(fields: Sequence[Field], path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in _rows(fields):
            entries = {}
            for item, value in zip(fields, row, strict=True):
                is_time = isinstance(value, date)
                entries[item.name] = None if is_missing(value) else value
                if is_time:
                    entries[item.name] = value.isoformat()
            file.write(json.dumps(entries) + "\n")


def _write_arrow(fields: Sequence[Field], path: Path) -> None:
    table = _as_arrow(fields)
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def _write_stata(fields: Sequence[Field], path: Path) -> None:
    pyreadstat.write_dta(_stat_frame(fields), path, variable_value_labels=_labels(fields))


def _write_spss(fields: Sequence[Field], path: Path) -> None:
    pyreadstat.write_sav(_stat_frame(fields), path, variable_value_labels=_labels(fields))


def _stat_frame(fields: Sequence[Field]) -> pl.DataFrame:
    return _as_polars(fields).with_columns(pl.col(pl.Float32, pl.Float64).fill_nan(None))


def _labels(fields: Sequence[Field]) -> dict[str, dict[int, str]]:
    """Return labels of whole numbers that no record has."""
    return {item.name: {2**20 + 1: HIDDEN_TEXT} for item in fields if item.type == "integer"}


_WRITERS: dict[str, Callable[[Sequence[Field], Path], None]] = {
    ".csv": _write_csv,
    ".tsv": lambda fields, path: _write_csv(fields, path, "\t"),
    ".jsonl": _write_json,
    ".parquet": lambda fields, path: pa.parquet.write_table(_as_arrow(fields), path),
    ".arrow": _write_arrow,
    ".dta": _write_stata,
    ".sav": _write_spss,
}
