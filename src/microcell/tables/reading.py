"""Reading tables: from files by their suffix, and from frames."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl

from microcell.errors import OptionError, TableError
from microcell.model import Table
from microcell.tables.csv import CsvOptions, convert_dates, parse_csv
from microcell.tables.formats import STAT_FORMATS, read_spreadsheet, read_statfile
from microcell.tables.frames import wrap
from microcell.tables.values import Origin, as_arrays

__all__ = ["read"]

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": ","}
_SPREADSHEETS = (".xlsx", ".xls", ".ods")


def read(
    source: Any,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    quote: str | None = None,
    decimal: str | None = None,
    na: Sequence[str] = (),
) -> Table:
    """The table that a file or frame holds.

    Parameters
    ----------
    source
        The path of a file (.csv, .tsv, .txt, .parquet, .arrow, .feather, .ipc, .jsonl, .ndjson, .xlsx, .xls, .ods,
        .sav, .zsav, .dta, .sas7bdat, .xpt), or a pandas, polars or pyarrow table, anything that narwhals takes or
        that speaks the Arrow C stream protocol, or a dict of arrays or lists. It is never changed. A
        table that was read already is given back.
    delimiter, encoding, quote, decimal
        How a .csv, .tsv or .txt file is written; found out where left out. ``quote=""`` if quotes mean nothing.
    na
        Words that stand for a missing value in such a file, besides the empty field.

    Examples
    --------
    >>> read({"age": [31, None, 52]}).columns["age"].missing
    array([False,  True, False])
    """
    options = CsvOptions(
        delimiter=delimiter, encoding=encoding, quote=quote, decimal=decimal, na=na
    )
    if isinstance(source, (str, Path)):
        return _read_file(Path(source), options)
    if options != CsvOptions():
        raise OptionError(
            "delimiter, encoding, quote, decimal and na are for .csv, .tsv and .txt files only."
        )
    return _read_frame(source)


@dataclass(frozen=True)
class _Binary:
    """A format that polars reads."""

    product: str
    read: Callable[[BytesIO], pl.DataFrame]


def _read_file(path: Path, options: CsvOptions) -> Table:
    suffix = path.suffix.lower()
    if suffix in _DELIMITERS:
        parsed = parse_csv(_bytes_of(path), options, prefer=_DELIMITERS[suffix])
        return wrap(parsed.frame, Origin("file", suffix, parsed.dialect, path=path))
    if options != CsvOptions():
        raise OptionError(
            f"delimiter, encoding, quote, decimal and na are for .csv, .tsv and .txt files, not {suffix}."
        )
    if suffix in STAT_FORMATS:
        _bytes_of(path, most=1)
        found = read_statfile(path, suffix)
        return wrap(
            found.frame, Origin("file", suffix, None, found.labels, found.value_labels, path)
        )
    if suffix in _SPREADSHEETS:
        return wrap(read_spreadsheet(_bytes_of(path), path.name), Origin("file", suffix, path=path))
    if suffix not in _BINARIES:
        known = ", ".join((*_DELIMITERS, *_BINARIES, *_SPREADSHEETS, *STAT_FORMATS))
        raise TableError(
            f"{path.name!r}: unknown kind of file {suffix!r}. Give one of {known}, or a frame."
        )
    return wrap(_read_binary(path, _BINARIES[suffix]), Origin("file", suffix, path=path))


def _bytes_of(path: Path, *, most: int = -1) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except FileNotFoundError:
        raise TableError(f"No file {str(path)!r}. Check the path.") from None
    except IsADirectoryError:
        raise TableError(f"{str(path)!r} is a folder. Give the path of one file in it.") from None
    except PermissionError:
        raise TableError(
            f"No permission to read {str(path)!r}. Ask its owner, or copy it."
        ) from None
    except OSError as error:
        raise TableError(f"Cannot read {str(path)!r}: {error.strerror}.") from None


def _read_binary(path: Path, binary: _Binary) -> pl.DataFrame:
    data = _bytes_of(path)
    if not data:
        raise TableError(f"{path.name!r} is empty. Get the whole file.")
    try:
        return binary.read(BytesIO(data))
    except pl.exceptions.DuplicateError:
        raise TableError(
            f"{path.name!r} has two columns of one name. Rename all but one."
        ) from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
        raise TableError(
            f"{path.name!r} cannot be read as {binary.product}: it is damaged, cut in the middle, or of another "
            "format. Get it again, or give the suffix that fits."
        ) from None


def _read_ipc(data: BytesIO) -> pl.DataFrame:
    # Both the file and the stream format go by the name of Arrow; the file format begins with a magic word.
    if data.getvalue().startswith(b"ARROW1"):
        return pl.read_ipc(data)
    return pl.read_ipc_stream(data)


def _read_json(data: BytesIO) -> pl.DataFrame:
    return convert_dates(pl.read_ndjson(data, infer_schema_length=None))


_BINARIES: dict[str, _Binary] = {
    ".parquet": _Binary("Parquet", pl.read_parquet),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), _Binary("Arrow", _read_ipc)),
    **dict.fromkeys((".jsonl", ".ndjson"), _Binary("JSON lines", _read_json)),
}


def _read_frame(source: Any) -> Table:
    if isinstance(source, Table):
        return source
    if isinstance(source, Mapping):
        return wrap(as_arrays(source), Origin("dict"))
    return wrap(_eager(source), Origin("frame"))


def _eager(source: Any) -> Any:
    """The frame, if it is of a kind that comes back as it came; else the same as a polars frame."""
    source = nw.to_native(source, pass_through=True)
    if isinstance(source, pl.DataFrame) or nw.dependencies.is_pandas_dataframe(source):
        return source
    if nw.dependencies.is_pyarrow_table(source):
        return source
    if isinstance(source, pl.LazyFrame):
        return source.collect()
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return _from_stream(source)
    frame = nw.from_native(source, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, nw.DataFrame):
        return frame.to_polars()
    raise TableError(
        f"A table cannot be read from {type(source).__name__}. Give the path of a file, a pandas, polars or pyarrow "
        "table, or a dict of arrays."
    )


def _from_stream(source: Any) -> pl.DataFrame:
    try:
        return pl.DataFrame(source)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError, ValueError):
        raise TableError(
            f"The Arrow data of {type(source).__name__} is not a table that can be read."
        ) from None
