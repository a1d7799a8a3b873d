"""Limits of file formats, spreadsheets, and files of SPSS, Stata and SAS (via pyreadstat)."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import fastexcel
import polars as pl
from xlsxwriter import Workbook

from microcell.errors import TableError
from microcell.tables.values import Origin, as_plain_types, check_names, positions_of_duplicates

__all__ = [
    "STAT_FORMATS",
    "StatFile",
    "check_fits",
    "read_spreadsheet",
    "read_statfile",
    "require_pyreadstat",
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


@dataclass(frozen=True)
class _ValueLimit:
    """Values that a format cannot store: their types, a test, and a description."""

    types: tuple[type[pl.DataType], ...]
    test: pl.Expr
    description: str


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
)
_SHEET = _Limits(
    "a spreadsheet",
    max_rows=1_048_575,
    max_columns=16_384,
    max_text=32_767,
    text_in="characters",
    max_number=9.999e307,
)
_LIMITS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), _Limits("a text file")),
    **dict.fromkeys(
        (".jsonl", ".ndjson"),
        _Limits("a JSON lines file", unsupported=_OPAQUE, max_number=sys.float_info.max),
    ),
    **dict.fromkeys((".sav", ".zsav"), _SPSS),
    ".dta": _STATA,
    ".xpt": _SAS,
    ".xlsx": _SHEET,
}
_OTHER_FORMATS = _Limits("a Parquet or Arrow file", unsupported=(pl.Object,))


def check_fits(frame: pl.DataFrame, suffix: str) -> None:
    """Check that a file with this suffix can store the frame.

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
            f"{_listing(unsupported, frame.columns)} cannot be written to {limits.product}, which "
            "supports numbers, text, booleans, dates and times. Split it into such columns, "
            "remove it, or write .parquet.",
            code="table.format_limit",
            columns=[frame.columns[at] for at in unsupported],
        )
    for limit in _value_limits(limits):
        _check_values(frame, limit, limits.product)


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
            f"{_listing(invalid, names)}: {product} requires names of {naming.description}. "
            f"Rename the column{'s' if len(invalid) > 1 else ''}, or write .parquet or .csv.",
            code="table.format_limit",
            columns=[names[at] for at in invalid],
        )
    for positions in positions_of_duplicates(naming.key(name) for name in names):
        raise TableError(
            f"{_listing([at - 1 for at in positions], names)} have the same name in {product}, "
            "which ignores case. Rename all but one, or write .parquet or .csv.",
            code="table.format_limit",
            columns=[names[at - 1] for at in positions],
        )


def _value_limits(limits: _Limits) -> Iterator[_ValueLimit]:
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
            f"{_listing([frame.columns.index(name)], frame.columns)} has {limit.description} in "
            f"row {row}, which {product} cannot store. Correct the value, or write .parquet or "
            ".csv.",
            code="table.format_limit",
            column=name,
            row=row,
        )


def _listing(positions: Sequence[int], names: Sequence[str]) -> str:
    shown = ", ".join(f"{at + 1} ({names[at]!r})" for at in positions[:_SHOWN])
    more = f" and {len(positions) - _SHOWN} more" if len(positions) > _SHOWN else ""
    return f"Column{'s' if len(positions) > 1 else ''} {shown}{more}"


_EXACT = 2**53
_NUMBERS = (pl.Int64, pl.Float32, pl.Float64)


def read_spreadsheet(data: bytes, name: str) -> pl.DataFrame:
    """Read the first sheet of a workbook, with column names in the first row.

    Trailing blank rows are ignored.
    """
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


_KEEP_TEXT = {"strings_to_urls": False, "strings_to_formulas": False, "strings_to_numbers": False}
"""Workbook options that keep text as text, which would otherwise be changed or truncated."""


def write_spreadsheet(frame: pl.DataFrame, path: Path) -> None:
    """Write the frame as the only sheet of a workbook, with plain values and no formulas."""
    exact = as_plain_types(frame, keep=(pl.Datetime,)).with_columns(
        [column.cast(pl.String) for column in frame if _exceeds_floats(column)]
    )
    with Workbook(path, _KEEP_TEXT) as book:
        exact.write_excel(book, autofilter=False, dtype_formats=dict.fromkeys(_NUMBERS, "General"))


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
    """A frame and its labels."""

    frame: pl.DataFrame
    labels: Mapping[str, str]
    value_labels: Mapping[str, Mapping[Any, str]]


def read_statfile(path: Path, suffix: str) -> StatFile:
    """Read a file of a statistical package.

    These formats have no missing text, so empty text counts as missing.
    """
    pyreadstat = require_pyreadstat(suffix)
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
    pyreadstat = require_pyreadstat(suffix)
    options: dict[str, Any] = dict(file_format.options or {})
    options["column_labels"] = {
        name: label for name, label in origin.labels.items() if name in frame.columns
    }
    if file_format.has_value_labels:
        options["variable_value_labels"] = _value_labels(frame, origin)
    try:
        getattr(pyreadstat, file_format.writer)(_storable(frame), path, **options)
    except (
        pyreadstat.ReadstatError,
        pyreadstat.PyreadstatError,
        OverflowError,
        ValueError,
        TypeError,
    ):
        raise TableError(
            f"A {file_format.product} file cannot store this table. Write .parquet or .csv.",
            code="table.format_limit",
        ) from None


def _damaged(path: Path, file_format: _Format) -> TableError:
    return TableError(
        f"{path.name!r} cannot be read as a {file_format.product} file: it is damaged, truncated, "
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


def require_pyreadstat(suffix: str) -> ModuleType:
    """Import pyreadstat; raise :class:`TableError` if it is not installed."""
    try:
        return import_module("pyreadstat")
    except ImportError:
        raise TableError(
            f"{suffix} files need pyreadstat, which is not installed. Install it with: pip install "
            '"microcell[stat]".',
            code="option.extra_missing",
            package="pyreadstat",
        ) from None


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
