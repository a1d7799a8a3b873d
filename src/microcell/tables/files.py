"""Read and write files of all formats, and read frames.

To add a format, add an entry to :data:`FORMATS`.
"""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

import polars as pl

from microcell._files import MemoryFile, Readable, find_system_error, is_url, unwritable
from microcell.errors import OptionError, TableError
from microcell.model import Dialect, Origin, Table
from microcell.tables import columnar, spreadsheets, statfiles
from microcell.tables.content import LARGEST_EXACT, Content
from microcell.tables.csv import read_csv, write_csv
from microcell.tables.fits import OPAQUE, Limits, Naming, check_fits
from microcell.tables.frames import to_polars, used_categories, wrap
from microcell.tables.missing import replace_missing
from microcell.tables.options import ReadOptions
from microcell.tables.sources import COMPRESSED, locate
from microcell.tables.values import as_arrays, with_dates

__all__ = ["FORMATS", "Format", "check_suffix", "check_writable", "read", "read_back", "write"]


@dataclass(frozen=True)
class Format:
    """A file format.

    Parameters
    ----------
    limits
        What it can store.
    read, write
        Functions that read and write a file; those of text and spreadsheets also take options.
        Without ``write``, the format can only be read.
    options
        Names of the options for reading, besides ``na``.
    delimiter
        Default delimiter of delimited text.
    stores_dates_as_text
        Whether dates and times are written as text.
    require_writer
        Function that imports the optional package that writes the format, or raises an error.
    instead
        Suffix of a similar format that can be written.
    """

    limits: Limits
    read: Callable[..., Content]
    write: Callable[..., None] | None = None
    delimiter: str | None = None
    stores_dates_as_text: bool = False
    require_writer: Callable[[str], Any] | None = None
    instead: str = ""
    options: frozenset[str] = frozenset()


_NUL = {r"\x00": "a NUL character"}
_BLANKS = {" $": "spaces at the end of a text"}
_NO_CHARACTERS = {"[\ufffe\uffff]": "U+FFFE or U+FFFF, which are not characters"}


def _reserved(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SPSS_LIMITS = Limits(
    "an SPSS file",
    Naming(
        r"(?!_)[^\W\d](?:[A-Za-z0-9_.@#$]|[^\x00-\x7f])*",
        "at most 64 bytes (letters, digits and . _ @ # $) that start with a letter and are not "
        "reserved (such as ALL or WITH)",
        _reserved("all and by eq ge gt le lt ne not or to with"),
        max_bytes=64,
        ignores_case=True,
    ),
    max_text=32_767,
    max_number=1.797e308,
    integers=LARGEST_EXACT,
    texts=_NUL | _BLANKS,
)
_STATA_LIMITS = Limits(
    "a Stata file",
    Naming(
        r"(?!str[0-9]+$)(?=.{1,32}$)[^\W\d](?:[A-Za-z0-9_]|[^\x00-\x7f])*",
        "at most 32 letters, digits and underscores that do not start with a digit and are not "
        "reserved (such as if or int)",
        _reserved(
            "_all _b _coef _cons _n _N _pi _pred _rc _skip byte double float if in int long strL "
            "using with"
        ),
    ),
    max_number=8.988e307,
    integers=LARGEST_EXACT,
    texts=_NUL,
)
_SAS_LIMITS = Limits(
    "a SAS transport file",
    Naming(
        r"[A-Za-z_][A-Za-z0-9_]{0,31}",
        "at most 32 unaccented letters, digits and underscores that do not start with a digit and "
        "are not reserved (such as _N_)",
        _reserved("_n_ _error_ _numeric_ _character_ _all_"),
        ignores_case=True,
    ),
    max_text=32_767,
    max_number=7.237e75,
    min_number=5.398e-79,
    integers=LARGEST_EXACT,
    texts=_NUL | _BLANKS,
)
_SHEET_LIMITS = Limits(
    "a spreadsheet",
    max_rows=1_048_575,
    max_columns=16_384,
    max_text=32_767,
    text_in="characters",
    max_number=9.999e307,
    texts=_NO_CHARACTERS,
    keeps_blank_rows=False,
)
_TEXT_LIMITS = Limits("a text file", texts=_NUL)
_JSON_LIMITS = Limits(
    "a JSON lines file",
    unsupported=OPAQUE,
    max_number=sys.float_info.max,
    keeps_empty=True,
)
_COLUMNAR_LIMITS = Limits("a Parquet or Arrow file", unsupported=(pl.Object,), keeps_empty=True)


def _delimited(delimiter: str) -> Format:
    return Format(
        _TEXT_LIMITS,
        partial(read_csv, prefer=delimiter),
        partial(write_csv, prefer=delimiter),
        delimiter=delimiter,
        stores_dates_as_text=True,
        options=frozenset(("delimiter", "encoding", "quote", "decimal", "thousands", "skip_rows")),
    )


def _statistical(limits: Limits, kind: statfiles.StatFormat) -> Format:
    return Format(
        limits,
        partial(statfiles.read_statfile, file_format=kind),
        partial(statfiles.write_statfile, file_format=kind),
        require_writer=statfiles.require_pyreadstat,
    )


_SHEET_OPTIONS = frozenset(("sheet", "skip_rows"))
_OLD_SHEET = Format(
    _SHEET_LIMITS, spreadsheets.read_spreadsheet, instead=".xlsx", options=_SHEET_OPTIONS
)
_ARROW = Format(_COLUMNAR_LIMITS, columnar.read_arrow, columnar.write_arrow)
_JSON_LINES = Format(
    _JSON_LIMITS,
    columnar.read_json_lines,
    columnar.write_json_lines,
    stores_dates_as_text=True,
)

FORMATS: dict[str, Format] = {
    ".csv": _delimited(","),
    ".tsv": _delimited("\t"),
    ".txt": _delimited(","),
    ".parquet": Format(_COLUMNAR_LIMITS, columnar.read_parquet, columnar.write_parquet),
    ".arrow": _ARROW,
    ".feather": _ARROW,
    ".ipc": _ARROW,
    ".jsonl": _JSON_LINES,
    ".ndjson": _JSON_LINES,
    ".xlsx": Format(
        _SHEET_LIMITS,
        spreadsheets.read_spreadsheet,
        spreadsheets.write_spreadsheet,
        require_writer=spreadsheets.require_writer,
        options=_SHEET_OPTIONS,
    ),
    ".xls": _OLD_SHEET,
    ".ods": _OLD_SHEET,
    ".sav": _statistical(_SPSS_LIMITS, statfiles.SPSS),
    ".zsav": _statistical(_SPSS_LIMITS, statfiles.SPSS_COMPRESSED),
    ".dta": _statistical(_STATA_LIMITS, statfiles.STATA),
    ".xpt": _statistical(_SAS_LIMITS, statfiles.SAS_TRANSPORT),
    ".sas7bdat": Format(
        _SAS_LIMITS,
        partial(statfiles.read_statfile, file_format=statfiles.SAS),
        instead=".xpt",
    ),
}
"""All file formats, by suffix."""


# ------------------------------------------------------------------------------ reading


def read(
    source: Any,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    quote: str | None = None,
    decimal: str | None = None,
    na: Sequence[str] = (),
    thousands: str | None = None,
    sheet: str | int | None = None,
    skip_rows: int = 0,
) -> Table:
    """Read a table from a file or a frame.

    Parameters
    ----------
    source
        Path of a file (.csv, .tsv, .txt, .parquet, .arrow, .feather, .ipc, .jsonl, .ndjson, .xlsx,
        .xls, .ods, .sav, .zsav, .dta, .sas7bdat, .xpt), possibly compressed (.gz, .bz2, .zst, or
        .zip with a single file), a URL such as https:// or s3:// (extra ``sources``), "-" for
        standard input, or an open file; a pandas, polars or pyarrow table, or any object supported
        by narwhals or the Arrow C stream protocol; or a dict of arrays or lists. It is never
        modified. A :class:`Table` is returned as it is.
    delimiter, encoding, quote, decimal
        Dialect of a .csv, .tsv or .txt file; detected automatically if omitted. ``quote=""`` if
        quotes have no meaning.
    na
        Texts that mark a missing value in a file of any format, besides the empty field.
    thousands
        Thousands separator of a text file; "" for none. If omitted, columns such as 1.506,83 are
        recognized where some value has both separators.
    sheet
        Name or number (from 1) of the sheet of a workbook.
    skip_rows
        Number of rows above the column names in a text file or a sheet.

    Examples
    --------
    >>> read({"age": [31, None, 52]}).columns["age"].missing
    array([False,  True, False])
    """
    options = ReadOptions(
        delimiter=delimiter,
        encoding=encoding,
        quote=quote,
        decimal=decimal,
        na=na,
        thousands=thousands,
        sheet=sheet,
        skip_rows=skip_rows,
    )
    if isinstance(source, (str, Path)):
        path = Path(source)
        check_format(path, options)
    file = locate(source)
    if file is not None:
        on_disk = isinstance(source, (str, Path)) and (
            not isinstance(file, MemoryFile)
            or (path.suffix.lower() in COMPRESSED and path.exists())
        )
        return _read_file(file, options, path if on_disk else None)
    if options != ReadOptions():
        raise OptionError(
            f"{', '.join(options.used())}: options for reading apply only to files.",
            code="option.unsupported",
        )
    return _read_frame(source)


def check_format(path: Path, options: ReadOptions) -> None:
    """Check the suffix of a path before it is read, unless its content has to tell its format."""
    if str(path) == "-" or path.suffix.lower() in COMPRESSED or is_url(path):
        return
    _find_format(path, options)


def _find_format(file: Readable, options: ReadOptions) -> Format:
    suffix = file.suffix.lower()
    file_format = FORMATS.get(suffix)
    supported = frozenset() if file_format is None else file_format.options
    unsupported = set(options.used()) - supported - {"na"}
    if unsupported:
        raise OptionError(
            f"{', '.join(sorted(unsupported))} {'does' if len(unsupported) == 1 else 'do'} not "
            f"apply to {suffix or 'such'} files. Leave it out.",
            code="option.unsupported",
            suffix=suffix,
        )
    if file_format is not None and not (isinstance(file, Path) and _is_odd_folder(file)):
        return file_format
    if isinstance(file, Path) and file.is_dir():
        raise TableError(
            f"{str(file)!r} is a folder, not a table. Pass the path of a file.",
            code="table.unknown_format",
            path=str(file),
        )
    raise TableError(
        f"{str(file)!r}: {f'{suffix} files' if suffix else 'files without a suffix'} cannot "
        f"be read. Supported: {', '.join(FORMATS)}.",
        code="table.unknown_format",
        path=str(file),
    )


def _is_odd_folder(path: Path) -> bool:
    """Return whether a folder has the suffix of a format that is not delimited text."""
    file_format = FORMATS.get(path.suffix.lower())
    return file_format is not None and file_format.delimiter is None and path.is_dir()


def _read_file(file: Readable, options: ReadOptions, path: Path | None) -> Table:
    file_format = _find_format(file, options)
    if isinstance(file, MemoryFile) and file_format.limits in (
        _SPSS_LIMITS,
        _STATA_LIMITS,
        _SAS_LIMITS,
    ):
        raise TableError(
            f"{file.suffix} files can only be read from a path. Decompress or download it first.",
            code="table.unknown_format",
        )
    content = file_format.read(file, options) if file_format.options else file_format.read(file)
    frame = content.frame
    if options.na and file_format.delimiter is None:
        frame = replace_missing(frame, options.na)
    origin = Origin(
        "file",
        file.suffix.lower(),
        content.dialect,
        content.labels,
        content.value_labels,
        path,
        reading=options.used(),
        notes=content.notes,
    )
    return wrap(frame, origin)


def _read_frame(source: Any) -> Table:
    if isinstance(source, Table):
        return source
    if isinstance(source, Mapping):
        return wrap(as_arrays(source), Origin("dict"))
    return wrap(_eager(source), Origin("frame"))


def _eager(source: Any) -> Any:
    """Return the frame if releases keep its type, otherwise as a polars frame."""
    import narwhals as nw  # noqa: PLC0415

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


# ------------------------------------------------------------------------------ writing


def write(table: Table, path: str | Path, *, suffix: str | None = None, days: bool = True) -> None:
    """Write the table to ``path``, in the format of ``suffix`` (by default that of the path).

    CSV is written in UTF-8; if the table was read from a file with the same suffix, in the dialect
    of that file. A missing value is an empty field. Statistical files keep their labels. A pandas
    index is not written, because it may identify people: make it a column to include it. Types that
    a format lacks are written as ISO text. Unused categories are removed; the order of the others
    is kept. In text formats, a column of datetimes that are all at midnight is written as dates,
    unless ``days`` is false (all files of one data set must agree). A table that does not fit the
    format is rejected before the file is opened; see :func:`check_writable`.
    """
    path = Path(path)
    suffix = (suffix or path.suffix).lower()
    check_suffix(suffix)
    frame = to_polars(table)
    _check(frame, suffix)
    if days and FORMATS[suffix].stores_dates_as_text:
        frame = with_dates(frame, table)
    try:
        _write(_without_hidden_bytes(frame), path, suffix, table.origin)
    except OSError as error:
        raise unwritable(path, error) from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        system = find_system_error(error)
        if system is not None:
            raise unwritable(path, system) from None
        raise TableError(
            f"A {suffix} file cannot store the column types of this table. Write .parquet instead.",
            code="table.format_limit",
            suffix=suffix,
        ) from None


def check_suffix(suffix: str) -> None:
    """Check that tables can be written in the format of this suffix."""
    file_format = FORMATS.get(suffix.lower())
    if file_format is not None and file_format.write is not None:
        return
    if file_format is not None:
        raise TableError(
            f"{suffix} files can be read, but not written. Use {file_format.instead} or .parquet.",
            code="table.unknown_format",
            suffix=suffix,
        )
    writable = [name for name, item in FORMATS.items() if item.write is not None]
    raise TableError(
        f"Tables cannot be written as {suffix or 'a file without suffix'}. Use one of "
        f"{', '.join(writable)}.",
        code="table.unknown_format",
        suffix=suffix,
    )


def check_writable(table: Table, suffix: str, *, drop: Collection[str] = ()) -> None:
    """Check that :func:`write` can write the table exactly, without the columns in ``drop``.

    Raises :class:`TableError`, which names the column that does not fit the format. Nothing is
    written.

    Examples
    --------
    >>> check_writable(read({"age": [31, 52]}), ".dta")
    """
    check_suffix(suffix)
    kept = [name for name in table.names if name not in set(drop)]
    _check(to_polars(table)[:, kept], suffix.lower(), exact=True)


def read_back(table: Table, path: Path) -> Table:
    """Read the file that :func:`write` created from the table, in the dialect it was written in."""
    suffix = path.suffix.lower()
    delimiter = FORMATS[suffix].delimiter
    if delimiter is None:
        return read(path)
    read_with = table.origin.dialect if table.origin.suffix == suffix else None
    dialect = read_with or Dialect(delimiter=delimiter)
    return read(
        path,
        delimiter=dialect.delimiter,
        quote=dialect.quote or '"',
        decimal=dialect.decimal,
        encoding="utf-8",
        thousands="",
    )


def _check(frame: pl.DataFrame, suffix: str, *, exact: bool = False) -> None:
    file_format = FORMATS[suffix]
    if file_format.require_writer is not None:
        file_format.require_writer(suffix)
    if file_format.delimiter is not None and frame.width and frame.columns[0].startswith("\ufeff"):
        raise TableError(
            f"The name of the first column begins with a byte-order mark, which a {suffix} file "
            "cannot keep. Rename the column.",
            code="table.format_limit",
            column=frame.columns[0],
        )
    check_fits(frame, file_format.limits, exact=exact)


def _without_hidden_bytes(frame: pl.DataFrame) -> pl.DataFrame:
    """Remove unused categories, which polars writes for Enum columns, and the bits of a NaN.

    The payload of a NaN is not part of any value, but a file would contain it.
    """
    return frame.with_columns(
        used_categories(column) if isinstance(column.dtype, pl.Enum) else column.fill_nan(nan)
        for column in frame
        if isinstance(column.dtype, pl.Enum) or column.dtype.is_float()
    )


def _write(frame: pl.DataFrame, path: Path, suffix: str, origin: Origin) -> None:
    # Open the file first, to tell an unwritable folder from a table that does not fit the format.
    path.open("wb").close()
    write_file = FORMATS[suffix].write
    assert write_file is not None
    dialect = origin.dialect if origin.suffix == suffix else None
    write_file(frame, path, replace(origin, dialect=dialect))
