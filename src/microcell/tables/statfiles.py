"""Read and write files of SPSS, Stata and SAS (via pyreadstat)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from errno import ENOSPC
from os import strerror
from pathlib import Path
from typing import Any

import polars as pl

from microcell._extras import require_module
from microcell._files import read_bytes
from microcell.errors import TableError
from microcell.model import Origin
from microcell.tables.content import CREATED, Content
from microcell.tables.values import as_plain_types

__all__ = [
    "SAS",
    "SAS_TRANSPORT",
    "SPSS",
    "SPSS_COMPRESSED",
    "STATA",
    "StatFormat",
    "read_statfile",
    "require_pyreadstat",
    "write_statfile",
]


@dataclass(frozen=True)
class StatFormat:
    """A format of pyreadstat: its functions (no writer if it cannot be written) and features."""

    product: str
    reader: str
    writer: str = ""
    has_value_labels: bool = True
    options: Mapping[str, Any] | None = None
    time_pattern: bytes = rb"$^"
    """Where the header contains the time of writing, and how it is written."""
    time_format: str = ""


_HEADER_BYTES = 640
_SPSS_TIME = (rb"\A\$FL[23].{88}(.{17})", "%d %b %y%H:%M:%S")
_STATA_TIME = (rb"<timestamp>\x11(.{17})</timestamp>", "%d %b %Y %H:%M")
_SAS_TIME = (rb"(\d\d[A-Z]{3}\d\d(?::\d\d){3})", "%d%b%y:%H:%M:%S")

SPSS = StatFormat("SPSS", "read_sav", "write_sav", True, {"row_compress": True}, *_SPSS_TIME)
SPSS_COMPRESSED = StatFormat("SPSS", "read_sav", "write_sav", True, {"compress": True}, *_SPSS_TIME)
STATA = StatFormat("Stata", "read_dta", "write_dta", True, None, *_STATA_TIME)
SAS_TRANSPORT = StatFormat("SAS transport", "read_xport", "write_xport", False, None, *_SAS_TIME)
SAS = StatFormat("SAS", "read_sas7bdat")


def require_pyreadstat(suffix: str) -> Any:
    """Import the package for these files, or raise an error that names the extra."""
    return require_module("pyreadstat", extra="stat", purpose=f"{suffix} files", error=TableError)


def read_statfile(path: Path, file_format: StatFormat) -> Content:
    """Read a file of a statistical package.

    These formats have no missing text, so empty text counts as missing.
    """
    read_bytes(path, limit=1)  # raises if the file cannot be read
    pyreadstat = require_pyreadstat(path.suffix.lower())
    try:
        frame, metadata = getattr(pyreadstat, file_format.reader)(path, output_format="polars")
    except (
        pyreadstat.ReadstatError,
        pyreadstat.PyreadstatError,
        OverflowError,
        ValueError,
        UnicodeError,
    ):
        raise _damaged(path, file_format) from None
    if file_format is SAS_TRANSPORT and _is_truncated(path, frame.height):
        raise _damaged(path, file_format)
    labels = {name: label for name, label in metadata.column_names_to_labels.items() if label}
    empty_is_missing = pl.when(pl.col(pl.String) != "").then(pl.col(pl.String)).name.keep()
    return Content(
        frame.with_columns(empty_is_missing),
        labels=labels,
        value_labels=dict(metadata.variable_value_labels),
    )


def write_statfile(
    frame: pl.DataFrame, path: Path, origin: Origin, file_format: StatFormat
) -> None:
    """Write the frame with its column labels, and with value labels where they fit the column."""
    pyreadstat = require_pyreadstat(path.suffix.lower())
    options: dict[str, Any] = dict(file_format.options or {})
    options["column_labels"] = {
        name: label for name, label in origin.labels.items() if name in frame.columns
    }
    if file_format.has_value_labels:
        options["variable_value_labels"] = _value_labels(frame, origin)
    try:
        stored = _storable(frame)
        getattr(pyreadstat, file_format.writer)(stored, path, **options)
    except (
        pyreadstat.ReadstatError,
        pyreadstat.PyreadstatError,
        OverflowError,
        ValueError,
        TypeError,
    ) as error:
        if "write data" in str(error):
            raise _full(path) from None
        raise TableError(
            f"{file_format.product} files cannot store this table. Write .parquet or .csv.",
            code="table.format_limit",
        ) from None
    if file_format is SAS_TRANSPORT and _lacks_rows(path, stored):
        raise _full(path)
    _reset_time(path, file_format)


def _lacks_rows(path: Path, frame: pl.DataFrame) -> bool:
    """Return whether a transport file is shorter than its rows: pyreadstat ignores a full disk."""
    lengths = frame.select(pl.col(pl.String).str.len_bytes().max())
    width = sum(length or 0 for length in lengths.row(0)) if lengths.width else 0
    width += 8 * (frame.width - lengths.width)
    data = path.read_bytes()
    header = re.search(rb"HEADER RECORD\*{7}OBS.{5}HEADER RECORD!{7}", data)
    return header is None or len(data) - header.start() - 80 < width * frame.height


def _full(path: Path) -> OSError:
    return OSError(ENOSPC, strerror(ENOSPC), str(path))


def _reset_time(path: Path, file_format: StatFormat) -> None:
    """Replace the time of writing in the header of a file."""
    with path.open("r+b") as file:
        header = file.read(_HEADER_BYTES)
        for match in re.finditer(file_format.time_pattern, header, flags=re.DOTALL):
            file.seek(match.start(1))
            file.write(CREATED.strftime(file_format.time_format).upper().encode())


def _damaged(path: Path, file_format: StatFormat) -> TableError:
    return TableError(
        f"{path.name!r} cannot be read as {file_format.product} data: it is damaged, truncated, "
        "or in another format. Get it again, or export it as .csv or .parquet.",
        code="table.malformed",
        path=str(path),
    )


def _is_truncated(path: Path, rows: int) -> bool:
    """Return whether a transport file ends early, which pyreadstat does not notice.

    Such a file consists of records of 80 bytes; the header of version 8 contains the number of
    rows.
    """
    data = path.read_bytes()
    declared = re.search(rb"OBSV8   HEADER RECORD!{7} *([0-9]+) ", data)
    return len(data) % 80 != 0 or (declared is not None and int(declared[1]) not in (0, rows))


def _value_labels(frame: pl.DataFrame, origin: Origin) -> dict[str, dict[Any, str]]:
    return {
        name: dict(labels)
        for name, labels in origin.value_labels.items()
        if name in frame.columns
        and all(isinstance(key, str) == (frame.schema[name] == pl.String) for key in labels)
    }


def _storable(frame: pl.DataFrame) -> pl.DataFrame:
    """Convert booleans, decimals, categories, time zones and durations, which these files lack."""
    return as_plain_types(frame, keep=(pl.Datetime, pl.Time)).with_columns(
        pl.col(pl.Boolean).cast(pl.Int8),
        pl.col(pl.Decimal).cast(pl.Float64),
        pl.col(pl.Null).cast(pl.String),
        pl.col(pl.UInt64, pl.Float16).cast(pl.Float64),
    )
