"""Files of SPSS, Stata and SAS, through pyreadstat."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl

from microcell.errors import TableError
from microcell.tables._origin import Origin
from microcell.tables._plain import plain_texts

__all__ = ["STAT_FORMATS", "StatFile", "read_statfile", "require_pyreadstat", "write_statfile"]


@dataclass(frozen=True)
class _Format:
    """What pyreadstat calls a format (without a writer if it has none), and what it can hold."""

    product: str
    reader: str
    writer: str = ""
    has_value_labels: bool = True
    options: Mapping[str, Any] | None = None


STAT_FORMATS: dict[str, _Format] = {
    ".sav": _Format("SPSS", "read_sav", "write_sav", options={"row_compress": True}),
    ".zsav": _Format("SPSS", "read_sav", "write_sav", options={"compress": True}),
    ".dta": _Format("Stata", "read_dta", "write_dta"),
    ".xpt": _Format("SAS transport", "read_xport", "write_xport", has_value_labels=False),
    ".sas7bdat": _Format("SAS", "read_sas7bdat"),
}
"""The formats of statistical packages, by suffix."""


@dataclass(frozen=True, eq=False)
class StatFile:
    """A frame, and the labels that came with it."""

    frame: pl.DataFrame
    labels: Mapping[str, str]
    value_labels: Mapping[str, Mapping[Any, str]]


def read_statfile(path: Path, suffix: str) -> StatFile:
    """The frame and labels of a statistical file. These files have no missing text: empty text is missing."""
    pyreadstat = require_pyreadstat(suffix)
    known = STAT_FORMATS[suffix]
    try:
        frame, found = getattr(pyreadstat, known.reader)(path, output_format="polars")
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, OverflowError, ValueError, UnicodeError):
        raise TableError(_damaged(path, known)) from None
    if suffix == ".xpt" and _is_cut(path, frame.height):
        raise TableError(_damaged(path, known))
    labels = {name: label for name, label in found.column_names_to_labels.items() if label}
    empty_is_missing = pl.when(pl.col(pl.String) != "").then(pl.col(pl.String)).name.keep()
    return StatFile(frame.with_columns(empty_is_missing), labels, dict(found.variable_value_labels))


def write_statfile(frame: pl.DataFrame, path: Path, suffix: str, origin: Origin) -> None:
    """Write the frame with its labels: those of columns always, those of values where the column can bear them."""
    known = STAT_FORMATS[suffix]
    pyreadstat = require_pyreadstat(suffix)
    options: dict[str, Any] = dict(known.options or {})
    options["column_labels"] = {name: label for name, label in origin.labels.items() if name in frame.columns}
    if known.has_value_labels:
        options["variable_value_labels"] = _value_labels(frame, origin)
    try:
        getattr(pyreadstat, known.writer)(_storable(frame), path, **options)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, OverflowError, ValueError, TypeError):
        raise TableError(
            f"The table holds something that a {known.product} file cannot. Write .parquet or .csv."
        ) from None


def _damaged(path: Path, known: _Format) -> str:
    return (
        f"{path.name!r} cannot be read as a {known.product} file: it is damaged, cut in the middle, or of another "
        "format. Get it again, or export it as .csv or .parquet."
    )


def _is_cut(path: Path, rows: int) -> bool:
    """True if a transport file ends too early, which pyreadstat takes for its end.

    It is made of records of 80 bytes, and the header of the observations of version 8 says how many there are.
    """
    data = path.read_bytes()
    said = re.search(rb"OBSV8   HEADER RECORD!{7} *([0-9]+) ", data)
    return len(data) % 80 != 0 or (said is not None and int(said[1]) not in (0, rows))


def require_pyreadstat(suffix: str) -> ModuleType:
    """The package that reads and writes these files; :class:`TableError` saying how to install it if it is not."""
    try:
        return import_module("pyreadstat")
    except ImportError:
        raise TableError(
            f'{suffix} files need pyreadstat, which is not installed. Install it: pip install "microcell[stat]".'
        ) from None


def _value_labels(frame: pl.DataFrame, origin: Origin) -> dict[str, dict[Any, str]]:
    return {
        name: dict(labels)
        for name, labels in origin.value_labels.items()
        if name in frame.columns and all(isinstance(key, str) == (frame.schema[name] == pl.String) for key in labels)
    }


def _storable(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame in types that these files have: no booleans, decimals, categories, zones or durations."""
    return plain_texts(frame, keep=(pl.Datetime, pl.Time)).with_columns(
        pl.col(pl.Boolean).cast(pl.Int8),
        pl.col(pl.Decimal).cast(pl.Float64),
        pl.col(pl.Null).cast(pl.String),
        pl.col(pl.UInt64, pl.Float16).cast(pl.Float64),
    )
