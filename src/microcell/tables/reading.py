"""Read tables from files, by suffix, and from frames."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl

from microcell._files import TEXT_SUFFIXES, read_bytes
from microcell.errors import OptionError, TableError
from microcell.model import Origin, Table
from microcell.tables.csv import CsvOptions, convert_dates, parse_csv
from microcell.tables.formats import (
    SPREADSHEETS,
    STAT_FORMATS,
    read_spreadsheet,
    read_statfile,
)
from microcell.tables.frames import wrap
from microcell.tables.values import as_arrays

__all__ = ["read"]

_DELIMITERS = {suffix: "\t" if suffix == ".tsv" else "," for suffix in TEXT_SUFFIXES}


def read(
    source: Any,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    quote: str | None = None,
    decimal: str | None = None,
    na: Sequence[str] = (),
) -> Table:
    """Read a table from a file or a frame.

    Parameters
    ----------
    source
        Path of a file (.csv, .tsv, .txt, .parquet, .arrow, .feather, .ipc, .jsonl, .ndjson, .xlsx,
        .xls, .ods, .sav, .zsav, .dta, .sas7bdat, .xpt); a pandas, polars or pyarrow table, or any
        object supported by narwhals or the Arrow C stream protocol; or a dict of arrays or lists.
        It is never modified. A :class:`Table` is returned as it is.
    delimiter, encoding, quote, decimal
        Dialect of a .csv, .tsv or .txt file; detected automatically if omitted. ``quote=""`` if
        quotes have no meaning.
    na
        Texts that mark a missing value in such a file, besides the empty field.

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
            "delimiter, encoding, quote, decimal and na apply only to .csv, .tsv and .txt files.",
            code="option.unsupported",
        )
    return _read_frame(source)


@dataclass(frozen=True)
class _PolarsFormat:
    """A format that polars reads."""

    product: str
    read: Callable[[BytesIO], pl.DataFrame]


def _read_file(path: Path, options: CsvOptions) -> Table:
    suffix = path.suffix.lower()
    if suffix in _DELIMITERS:
        parsed = parse_csv(read_bytes(path), options, prefer=_DELIMITERS[suffix])
        return wrap(parsed.frame, Origin("file", suffix, parsed.dialect, path=path))
    if options != CsvOptions():
        raise OptionError(
            "delimiter, encoding, quote, decimal and na apply only to .csv, .tsv and .txt files, "
            f"not to {suffix}.",
            code="option.unsupported",
            suffix=suffix,
        )
    if suffix in STAT_FORMATS:
        read_bytes(path, limit=1)  # Raises if the file cannot be read.
        stat_file = read_statfile(path, suffix)
        return wrap(
            stat_file.frame,
            Origin("file", suffix, None, stat_file.labels, stat_file.value_labels, path),
        )
    if suffix in SPREADSHEETS:
        return wrap(
            read_spreadsheet(read_bytes(path), path.name), Origin("file", suffix, path=path)
        )
    if path.is_dir():
        raise TableError(
            f"{str(path)!r} is a folder, not a table. Pass the path of a file.",
            code="table.unknown_format",
            path=str(path),
        )
    if suffix not in _POLARS_FORMATS:
        supported = ", ".join((*_DELIMITERS, *_POLARS_FORMATS, *SPREADSHEETS, *STAT_FORMATS))
        raise TableError(
            f"{str(path)!r}: {f'{suffix} files' if suffix else 'files without a suffix'} cannot "
            f"be read. Supported: {supported}.",
            code="table.unknown_format",
            path=str(path),
        )
    return wrap(_read_with_polars(path, _POLARS_FORMATS[suffix]), Origin("file", suffix, path=path))


def _read_with_polars(path: Path, file_format: _PolarsFormat) -> pl.DataFrame:
    data = read_bytes(path)
    if not data:
        raise TableError(
            f"{path.name!r} is empty. Get the complete file.",
            code="table.malformed",
            path=str(path),
        )
    try:
        return file_format.read(BytesIO(data))
    except TableError:
        raise
    except pl.exceptions.DuplicateError:
        raise TableError(
            f"{path.name!r} has more than one column with the same name. Rename all but one.",
            code="table.bad_names",
            path=str(path),
        ) from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
        raise TableError(
            f"{path.name!r} cannot be read as {file_format.product}: it is damaged, truncated, or "
            "in another format. Get it again, or correct its suffix.",
            code="table.malformed",
            path=str(path),
        ) from None


def _read_ipc(data: BytesIO) -> pl.DataFrame:
    # The file format and the stream format share suffixes; the file format has a magic number.
    if data.getvalue().startswith(b"ARROW1"):
        return pl.read_ipc(data)
    return pl.read_ipc_stream(data)


def _read_json(data: BytesIO) -> pl.DataFrame:
    for row, line in enumerate(data, start=1):
        if _repeats_a_key(line):
            raise TableError(
                f"Row {row} repeats a key, so it is unclear which value counts. Remove one.",
                code="table.malformed",
                row=row,
            )
    data.seek(0)
    return convert_dates(pl.read_ndjson(data, infer_schema_length=None))


def _repeats_a_key(line: bytes) -> bool:
    repeats = False

    def check(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeats
        repeats = repeats or len({name for name, _ in pairs}) < len(pairs)

    with suppress(ValueError, RecursionError):  # reported by the reader, which parses it again
        json.loads(line, object_pairs_hook=check)
    return repeats


_POLARS_FORMATS: dict[str, _PolarsFormat] = {
    ".parquet": _PolarsFormat("Parquet", pl.read_parquet),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), _PolarsFormat("Arrow", _read_ipc)),
    **dict.fromkeys((".jsonl", ".ndjson"), _PolarsFormat("JSON lines", _read_json)),
}


def _read_frame(source: Any) -> Table:
    if isinstance(source, Table):
        return source
    if isinstance(source, Mapping):
        return wrap(as_arrays(source), Origin("dict"))
    return wrap(_eager(source), Origin("frame"))


def _eager(source: Any) -> Any:
    """Return the frame if releases keep its type, otherwise as a polars frame."""
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
        f"Cannot read a table from an object of type {type(source).__name__}. Pass the path of a "
        "file, a pandas, polars or pyarrow table, or a dict of arrays.",
        code="table.unsupported_type",
        type=type(source).__name__,
    )


def _from_stream(source: Any) -> pl.DataFrame:
    try:
        return pl.DataFrame(source)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError, ValueError):
        raise TableError(
            f"The Arrow data of {type(source).__name__} cannot be read as a table. Convert it to "
            "a polars or pyarrow table.",
            code="table.unsupported_type",
            type=type(source).__name__,
        ) from None
