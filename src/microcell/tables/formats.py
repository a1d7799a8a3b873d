"""Limits of file formats, spreadsheets, and files of SPSS, Stata and SAS (via pyreadstat)."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from errno import ENOSPC
from io import BytesIO
from os import strerror
from pathlib import Path
from types import ModuleType
from typing import Any, Literal
from zipfile import BadZipFile, ZipFile

import polars as pl

from microcell._display import listing
from microcell._extras import require_module
from microcell._files import TEXT_SUFFIXES
from microcell.errors import TableError
from microcell.model import Origin
from microcell.tables.values import as_plain_types, check_names, positions_of_duplicates

__all__ = [
    "SPREADSHEETS",
    "STAT_FORMATS",
    "StatFile",
    "check_fits",
    "read_spreadsheet",
    "read_statfile",
    "require_package",
    "write_spreadsheet",
    "write_statfile",
]

_SHOWN = 6
_NESTED = (pl.List, pl.Array, pl.Struct)
_OPAQUE = (pl.Binary, pl.Object)


@dataclass(frozen=True)
class _Naming:
    """Rules for column names in a file format."""

    pattern: str
    description: str
    reserved: frozenset[str] = frozenset()
    max_bytes: int | None = None
    ignores_case: bool = False

    def allows(self, name: str) -> bool:
        short = (
            self.max_bytes is None or len(name.encode("utf-8", "surrogatepass")) <= self.max_bytes
        )
        return (
            short
            and self.key(name) not in self.reserved
            and re.fullmatch(self.pattern, name) is not None
        )

    def key(self, name: str) -> str:
        """Return the form of a name in which the format compares names."""
        return name.lower() if self.ignores_case else name


@dataclass(frozen=True)
class _Limits:
    """What a format can store: names, types, size of the table, of texts and of numbers."""

    product: str
    naming: _Naming | None = None
    unsupported: tuple[type[pl.DataType], ...] = (*_NESTED, *_OPAQUE)
    max_rows: int | None = None
    max_columns: int | None = None
    max_text: int | None = None
    text_in: Literal["bytes", "characters"] = "bytes"
    max_number: float | None = None
    min_number: float | None = None
    """Smallest magnitude other than 0."""
    integers: int | None = None
    """Largest whole number that is stored exactly."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Regular expressions for texts that the format alters, and what is wrong with them."""
    keeps_empty: bool = False
    """Whether empty text differs from a missing value."""
    keeps_blank_rows: bool = True
    """Whether a row without any value is read back."""


@dataclass(frozen=True)
class _ValueLimit:
    """Values that a format cannot store: their types, a test, and a description."""

    types: tuple[type[pl.DataType], ...]
    test: pl.Expr
    description: str


_EXACT = 2**53
"""Whole numbers up to this are exact as floats."""

_NUL = {r"\x00": "a NUL character"}
_BLANKS = {" $": "spaces at the end of a text"}
_NO_CHARACTERS = {"[\ufffe\uffff]": "U+FFFE or U+FFFF, which are not characters"}


def _reserved(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SPSS = _Limits(
    "an SPSS file",
    _Naming(
        r"(?!_)[^\W\d](?:[A-Za-z0-9_.@#$]|[^\x00-\x7f])*",
        "at most 64 bytes (letters, digits and . _ @ # $) that start with a letter and are not "
        "reserved (such as ALL or WITH)",
        _reserved("all and by eq ge gt le lt ne not or to with"),
        max_bytes=64,
        ignores_case=True,
    ),
    max_text=32_767,
    max_number=1.797e308,
    integers=_EXACT,
    texts=_NUL | _BLANKS,
)
_STATA = _Limits(
    "a Stata file",
    _Naming(
        r"(?!str[0-9]+$)(?=.{1,32}$)[^\W\d](?:[A-Za-z0-9_]|[^\x00-\x7f])*",
        "at most 32 letters, digits and underscores that do not start with a digit and are not "
        "reserved (such as if or int)",
        _reserved(
            "_all _b _coef _cons _n _N _pi _pred _rc _skip byte double float if in int long strL "
            "using with"
        ),
    ),
    max_number=8.988e307,
    integers=_EXACT,
    texts=_NUL,
)
_SAS = _Limits(
    "a SAS transport file",
    _Naming(
        r"[A-Za-z_][A-Za-z0-9_]{0,31}",
        "at most 32 unaccented letters, digits and underscores that do not start with a digit and "
        "are not reserved (such as _N_)",
        _reserved("_n_ _error_ _numeric_ _character_ _all_"),
        ignores_case=True,
    ),
    max_text=32_767,
    max_number=7.237e75,
    min_number=5.398e-79,
    integers=_EXACT,
    texts=_NUL | _BLANKS,
)
_SHEET = _Limits(
    "a spreadsheet",
    max_rows=1_048_575,
    max_columns=16_384,
    max_text=32_767,
    text_in="characters",
    max_number=9.999e307,
    texts=_NO_CHARACTERS,
    keeps_blank_rows=False,
)
_LIMITS = {
    **dict.fromkeys(TEXT_SUFFIXES, _Limits("a text file", texts=_NUL)),
    **dict.fromkeys(
        (".jsonl", ".ndjson"),
        _Limits(
            "a JSON lines file",
            unsupported=_OPAQUE,
            max_number=sys.float_info.max,
            keeps_empty=True,
        ),
    ),
    **dict.fromkeys((".sav", ".zsav"), _SPSS),
    ".dta": _STATA,
    ".xpt": _SAS,
    ".xlsx": _SHEET,
}
_OTHER_FORMATS = _Limits("a Parquet or Arrow file", unsupported=(pl.Object,), keeps_empty=True)


def check_fits(frame: pl.DataFrame, suffix: str, *, exact: bool = False) -> None:
    """Check that a file with this suffix can store the frame.

    If ``exact``, empty text must also differ from missing values in the file, and every row must be
    read back.

    Raises :class:`TableError`, naming the columns that do not fit.

    Examples
    --------
    >>> check_fits(pl.DataFrame({"home town": ["Bath"]}), ".dta")
    Traceback (most recent call last):
    microcell.errors.TableError: Column 1 ('home town'): a Stata file requires names of at...
    """
    limits = _LIMITS.get(suffix, _OTHER_FORMATS)
    _check_size(frame, limits)
    if limits.naming is not None:
        _check_naming(frame.columns, limits.naming, limits.product)
    unsupported = [
        at for at, dtype in enumerate(frame.dtypes) if isinstance(dtype, limits.unsupported)
    ]
    if unsupported:
        raise TableError(
            f"{_columns(unsupported, frame.columns)} cannot be written to {limits.product}, which "
            "supports numbers, text, booleans, dates and times. Split it into such columns, "
            "remove it, or write .parquet.",
            code="table.format_limit",
            columns=[frame.columns[at] for at in unsupported],
        )
    plain = frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    for limit in _value_limits(limits, exact=exact):
        _check_values(plain, limit, limits.product)
    if not limits.keeps_blank_rows:
        _check_blank_rows(plain, limits.product, exact=exact)


def _check_size(frame: pl.DataFrame, limits: _Limits) -> None:
    max_rows = limits.max_rows or frame.height
    max_columns = limits.max_columns or frame.width
    if frame.height > max_rows or frame.width > max_columns:
        raise TableError(
            f"{limits.product.capitalize()} can have at most {max_rows} rows and {max_columns} "
            f"columns; the table has {frame.height} and {frame.width}. Write .csv or .parquet.",
            code="table.format_limit",
            rows=frame.height,
            columns=frame.width,
        )


def _check_naming(names: Sequence[str], naming: _Naming, product: str) -> None:
    invalid = [at for at, name in enumerate(names) if not naming.allows(name)]
    if invalid:
        raise TableError(
            f"{_columns(invalid, names)}: {product} requires names of {naming.description}. "
            f"Rename the column{'s' if len(invalid) > 1 else ''}, or write .parquet or .csv.",
            code="table.format_limit",
            columns=[names[at] for at in invalid],
        )
    for positions in positions_of_duplicates(naming.key(name) for name in names):
        raise TableError(
            f"{_columns([at - 1 for at in positions], names)} have the same name in {product}, "
            "which ignores case. Rename all but one, or write .parquet or .csv.",
            code="table.format_limit",
            columns=[names[at - 1] for at in positions],
        )


def _check_blank_rows(frame: pl.DataFrame, product: str, *, exact: bool) -> None:
    """Reject blank rows; unless ``exact``, only at the end, where they would not be read back."""
    blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series().arg_true().to_list()
    if blank and (exact or blank[-1] == frame.height - 1):
        row = 1 + (blank[0] if exact else blank[-1])
        raise TableError(
            f"Row {row} has no value in any column, so {product} cannot store it. Write .parquet.",
            code="table.format_limit",
            row=row,
        )


def _value_limits(limits: _Limits, *, exact: bool) -> Iterator[_ValueLimit]:
    for pattern, description in limits.texts.items():
        yield _ValueLimit((pl.String,), pl.all().str.contains(pattern), description)
    if exact and not limits.keeps_empty:
        yield _ValueLimit((pl.String,), pl.all() == "", "an empty text, which is not missing,")
    if limits.integers is not None:
        # Signed comparisons, because the smallest integer has no absolute value.
        beyond = (pl.all() > limits.integers) | (pl.all() < -limits.integers)
        description = f"a whole number beyond {limits.integers:,}"
        yield _ValueLimit((pl.Int64, pl.UInt64, pl.Int128), beyond, description)
    if limits.min_number is not None:
        small = (pl.all() != 0) & (pl.all().abs() < limits.min_number)
        description = f"a number closer to 0 than {limits.min_number:g}"
        yield _ValueLimit((pl.Float32, pl.Float64), small, description)
    if limits.max_text is not None:
        length = pl.all().str.len_bytes() if limits.text_in == "bytes" else pl.all().str.len_chars()
        description = f"text of more than {limits.max_text} {limits.text_in}"
        yield _ValueLimit((pl.String,), length > limits.max_text, description)
    if limits.max_number is not None:
        # NaN is a missing value, but polars compares it as larger than any number.
        large = pl.all().cast(pl.Float64).fill_nan(None).abs() > limits.max_number
        yield _ValueLimit(
            (pl.Float32, pl.Float64),
            large,
            f"a number that is infinite or larger than {limits.max_number:g}",
        )


def _check_values(frame: pl.DataFrame, limit: _ValueLimit, product: str) -> None:
    candidates = frame.select(pl.col(limit.types))
    columns = (
        [answer.name for answer in candidates.select(limit.test.any()) if answer.item()]
        if candidates.width
        else []
    )
    for name in columns:
        row = 1 + int(candidates[:, [name]].select(limit.test).to_series().arg_true()[0])
        raise TableError(
            f"{_columns([frame.columns.index(name)], frame.columns)} has {limit.description} in "
            f"row {row}, which {product} cannot store. Correct the value, or write .parquet.",
            code="table.format_limit",
            column=name,
            row=row,
        )


def _columns(positions: Sequence[int], names: Sequence[str]) -> str:
    shown = listing((f"{at + 1} ({names[at]!r})" for at in positions), most=_SHOWN)
    return f"Column{'s' * (len(positions) > 1)} {shown}"


SPREADSHEETS = (".xlsx", ".xls", ".ods")
"""The formats of spreadsheets, by suffix."""

_NUMBERS = (pl.Int64, pl.Float32, pl.Float64)


def read_spreadsheet(data: bytes, name: str) -> pl.DataFrame:
    """Read the first sheet of a workbook, with column names in the first row.

    Trailing blank rows are ignored.
    """
    fastexcel: Any = require_package(Path(name).suffix.lower(), write=False)
    _check_expansion(data, name)
    try:
        sheet = fastexcel.read_excel(data).load_sheet(0, header_row=None, n_rows=1, dtypes="string")
        header = sheet.to_polars()
        frame = pl.read_excel(
            data,
            has_header=True,
            infer_schema_length=None,
            drop_empty_rows=False,
            drop_empty_cols=False,
        )
    except (
        fastexcel.FastExcelError,
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        ValueError,
    ):
        raise TableError(
            f"{name!r} cannot be read as a spreadsheet: it is damaged, truncated, protected, or "
            "has no table on its first sheet. Save it again, or export it as .csv.",
            code="table.malformed",
        ) from None
    names = ["" if item is None else item for item in header.row(0)] if header.height else []
    check_names(names)
    return _without_trailing_blanks(frame.rename(dict(zip(frame.columns, names, strict=True))))


_MOST_EXPANSION = 200
"""Sheets expand to about 10 to 50 times the size of their file."""

_SMALL = 100 * 2**20
"""Size in bytes up to which an expanded workbook is accepted in any case."""


def _check_expansion(data: bytes, name: str) -> None:
    """Raise TableError if a compressed workbook declares a size far beyond that of its file.

    Sizes are read from the directory at the end of the file; nothing is decompressed.
    """
    try:
        with ZipFile(BytesIO(data)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except (BadZipFile, ValueError, NotImplementedError):  # reported when the workbook is read
        return
    if size > max(_SMALL, _MOST_EXPANSION * len(data)):
        raise TableError(
            f"{name!r} has {len(data):,} bytes and would expand to {size:,}, more than "
            f"{_MOST_EXPANSION} times as many. If you trust the file, export it as .csv.",
            code="table.too_large",
            size=size,
            file_size=len(data),
        )


_CREATED = datetime(2000, 1, 1)
"""Time of creation in files that contain one, so that the same table gives the same bytes."""

_KEEP_TEXT = {"strings_to_urls": False, "strings_to_formulas": False, "strings_to_numbers": False}
"""Workbook options that keep text as text, which would otherwise be changed or truncated."""


def write_spreadsheet(frame: pl.DataFrame, path: Path) -> None:
    """Write the frame as the only sheet of a workbook, with plain values and no formulas."""
    exact = as_plain_types(frame, keep=(pl.Datetime,)).with_columns(
        [column.cast(pl.String) for column in frame if _exceeds_floats(column)]
    )
    xlsxwriter: Any = require_package(".xlsx", write=True)
    # In memory, because temporary files elsewhere would be left behind by a failure.
    formats: dict[Any, str] = dict.fromkeys(_NUMBERS, "General")
    try:
        with xlsxwriter.Workbook(path, _KEEP_TEXT | {"in_memory": True}) as book:
            book.set_properties({"created": _CREATED})
            exact.write_excel(book, autofilter=False, dtype_formats=formats)
    except xlsxwriter.exceptions.FileCreateError as error:  # its argument is an OSError
        raise error.args[0] from None


def _exceeds_floats(column: pl.Series) -> bool:
    """Return whether whole numbers, such as long codes, exceed the floats of a spreadsheet."""
    if not column.dtype.is_integer() or column.null_count() == len(column):
        return False
    return bool((column.cast(pl.Int128).abs() > _EXACT).any())


def _without_trailing_blanks(frame: pl.DataFrame) -> pl.DataFrame:
    filled = frame.select(pl.any_horizontal(pl.all().is_not_null())).to_series().arg_true()
    return frame.head(0 if not len(filled) else int(filled[-1]) + 1)


@dataclass(frozen=True)
class _Format:
    """A format of pyreadstat: its functions (no writer if it cannot be written) and abilities."""

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

STAT_FORMATS: dict[str, _Format] = {
    ".sav": _Format("SPSS", "read_sav", "write_sav", True, {"row_compress": True}, *_SPSS_TIME),
    ".zsav": _Format("SPSS", "read_sav", "write_sav", True, {"compress": True}, *_SPSS_TIME),
    ".dta": _Format("Stata", "read_dta", "write_dta", True, None, *_STATA_TIME),
    ".xpt": _Format("SAS transport", "read_xport", "write_xport", False, None, *_SAS_TIME),
    ".sas7bdat": _Format("SAS", "read_sas7bdat"),
}
"""The formats of statistical packages, by suffix."""


@dataclass(frozen=True, eq=False)
class StatFile:
    """A frame and its labels."""

    frame: pl.DataFrame
    labels: Mapping[str, str]
    value_labels: Mapping[str, Mapping[Any, str]]


def read_statfile(path: Path, suffix: str) -> StatFile:
    """Read a file of a statistical package.

    These formats have no missing text, so empty text counts as missing.
    """
    pyreadstat: Any = require_package(suffix, write=False)
    file_format = STAT_FORMATS[suffix]
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
    if suffix == ".xpt" and _is_truncated(path, frame.height):
        raise _damaged(path, file_format)
    labels = {name: label for name, label in metadata.column_names_to_labels.items() if label}
    empty_is_missing = pl.when(pl.col(pl.String) != "").then(pl.col(pl.String)).name.keep()
    return StatFile(
        frame.with_columns(empty_is_missing), labels, dict(metadata.variable_value_labels)
    )


def write_statfile(frame: pl.DataFrame, path: Path, suffix: str, origin: Origin) -> None:
    """Write the frame with its column labels, and with value labels where they fit the column."""
    file_format = STAT_FORMATS[suffix]
    pyreadstat: Any = require_package(suffix, write=True)
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
    if suffix == ".xpt" and _lacks_rows(path, stored):
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


def _reset_time(path: Path, file_format: _Format) -> None:
    """Replace the time of writing in the header of a file."""
    with path.open("r+b") as file:
        header = file.read(_HEADER_BYTES)
        for match in re.finditer(file_format.time_pattern, header, flags=re.DOTALL):
            file.seek(match.start(1))
            file.write(_CREATED.strftime(file_format.time_format).upper().encode())


def _damaged(path: Path, file_format: _Format) -> TableError:
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


def require_package(suffix: str, *, write: bool) -> ModuleType | None:
    """Import the optional package that reads or writes such files; None if none is needed.

    Raises :class:`TableError`, which names the extra, if the package is not installed.
    """
    purpose = f"{suffix} files"
    if suffix in STAT_FORMATS:
        return require_module("pyreadstat", extra="stat", purpose=purpose, error=TableError)
    if suffix in SPREADSHEETS:
        package = "xlsxwriter" if write else "fastexcel"
        return require_module(package, extra="excel", purpose=purpose, error=TableError)
    return None


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
