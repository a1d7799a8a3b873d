"""Files of SPSS, Stata and SAS, through pyreadstat."""

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
from microcell.tables.values import Origin, check_names, plain_texts, positions_of_twins

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
    """What column names look like in a format; to some, capitals and small letters are the same."""

    pattern: str
    words: str
    reserved: frozenset[str] = frozenset()
    most_bytes: int | None = None
    ignores_case: bool = False

    def allows(self, name: str) -> bool:
        short = (
            self.most_bytes is None or len(name.encode("utf-8", "surrogatepass")) <= self.most_bytes
        )
        return (
            short
            and self.known(name) not in self.reserved
            and re.fullmatch(self.pattern, name) is not None
        )

    def known(self, name: str) -> str:
        """The name, or what all names that the format takes for the same have in common."""
        return name.lower() if self.ignores_case else name


@dataclass(frozen=True)
class _Limits:
    """What a format can hold: names, types, the size of the table, of texts and of numbers."""

    product: str
    naming: _Naming | None = None
    refused: tuple[type[pl.DataType], ...] = (*_NESTED, *_OPAQUE)
    most_rows: int | None = None
    most_columns: int | None = None
    most_text: int | None = None
    text_in: Literal["bytes", "characters"] = "bytes"
    most_number: float | None = None


@dataclass(frozen=True)
class _Misfit:
    """Values that a format cannot hold: the types that may have them, a test that finds them, and what they are."""

    types: tuple[type[pl.DataType], ...]
    test: pl.Expr
    words: str


def _reserved(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SPSS = _Limits(
    "an SPSS file",
    _Naming(
        r"(?!_)[^\W\d](?:[A-Za-z0-9_.@#$]|[^\x00-\x7f])*",
        "at most 64 bytes of letters, digits and . _ @ # $, begin with a letter, and are no word of its language (such "
        "as ALL or WITH)",
        _reserved("all and by eq ge gt le lt ne not or to with"),
        most_bytes=64,
        ignores_case=True,
    ),
    most_text=32_767,
)
_STATA = _Limits(
    "a Stata file",
    _Naming(
        r"(?!str[0-9]+$)(?=.{1,32}$)[^\W\d](?:[A-Za-z0-9_]|[^\x00-\x7f])*",
        "at most 32 letters, digits and underscores, do not begin with a digit, and are no word of its language (such "
        "as if or int)",
        _reserved(
            "_all _b _coef _cons _n _N _pi _pred _rc _skip byte double float if in int long strL using with"
        ),
    ),
    most_number=8.988e307,
)
_SAS = _Limits(
    "a SAS transport file",
    _Naming(
        r"[A-Za-z_][A-Za-z0-9_]{0,31}",
        "at most 32 letters without accents, digits and underscores, do not begin with a digit, and are no word of its "
        "language (such as _N_)",
        _reserved("_n_ _error_ _numeric_ _character_ _all_"),
        ignores_case=True,
    ),
    most_text=32_767,
    most_number=7.237e75,
)
_SHEET = _Limits(
    "a spreadsheet",
    most_rows=1_048_575,
    most_columns=16_384,
    most_text=32_767,
    text_in="characters",
    most_number=9.999e307,
)
_LIMITS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), _Limits("a file of plain text")),
    **dict.fromkeys(
        (".jsonl", ".ndjson"),
        _Limits("a JSON lines file", refused=_OPAQUE, most_number=sys.float_info.max),
    ),
    **dict.fromkeys((".sav", ".zsav"), _SPSS),
    ".dta": _STATA,
    ".xpt": _SAS,
    ".xlsx": _SHEET,
}
_ROOMY = _Limits("a Parquet or Arrow file", refused=(pl.Object,))


def check_fits(frame: pl.DataFrame, suffix: str) -> None:
    """Nothing, if a file of that suffix can hold the frame; :class:`TableError` naming columns that do not fit else.

    Examples
    --------
    >>> check_fits(pl.DataFrame({"age": [31], "home town": ["Bath"]}), ".dta")
    Traceback (most recent call last):
    microcell.errors.TableError: Column 2 ('home town') cannot be named so in a Stata file: names there are at...
    """
    limits = _LIMITS.get(suffix, _ROOMY)
    _check_size(frame, limits)
    if limits.naming is not None:
        _check_naming(frame.columns, limits.naming, limits.product)
    refused = [at for at, dtype in enumerate(frame.dtypes) if isinstance(dtype, limits.refused)]
    if refused:
        raise TableError(
            f"{_listing(refused, frame.columns)} cannot be written to {limits.product}, which holds numbers, text, "
            "booleans, dates and times. Take it apart into such columns, remove it, or write .parquet."
        )
    for misfit in _misfits(limits):
        _check_values(frame, misfit, limits.product)


def _check_size(frame: pl.DataFrame, limits: _Limits) -> None:
    rows, columns = limits.most_rows or frame.height, limits.most_columns or frame.width
    if frame.height > rows or frame.width > columns:
        raise TableError(
            f"{limits.product.capitalize()} holds {rows} rows and {columns} columns at most; the table has "
            f"{frame.height} and {frame.width}. Write .csv or .parquet."
        )


def _check_naming(names: Sequence[str], naming: _Naming, product: str) -> None:
    wrong = [at for at, name in enumerate(names) if not naming.allows(name)]
    if wrong:
        raise TableError(
            f"{_listing(wrong, names)} cannot be named so in {product}: names there are {naming.words}. Rename the "
            f"column{'s' if len(wrong) > 1 else ''}, or write .parquet or .csv."
        )
    for twins in positions_of_twins(naming.known(name) for name in names):
        raise TableError(
            f"{_listing([at - 1 for at in twins], names)} have the same name in {product}, where capitals make no "
            "difference. Rename all but one, or write .parquet or .csv."
        )


def _misfits(limits: _Limits) -> Iterator[_Misfit]:
    if limits.most_text is not None:
        length = pl.all().str.len_bytes() if limits.text_in == "bytes" else pl.all().str.len_chars()
        words = f"text of more than {limits.most_text} {limits.text_in}"
        yield _Misfit((pl.String,), length > limits.most_text, words)
    if limits.most_number is not None:
        # NaN is a missing value, and polars holds it for larger than any number.
        large = pl.all().cast(pl.Float64).fill_nan(None).abs() > limits.most_number
        yield _Misfit(
            (pl.Float32, pl.Float64),
            large,
            f"a number that is infinite or beyond {limits.most_number:g}",
        )


def _check_values(frame: pl.DataFrame, misfit: _Misfit, product: str) -> None:
    suspects = frame.select(pl.col(misfit.types))
    wrong = (
        [answer.name for answer in suspects.select(misfit.test.any()) if answer.item()]
        if suspects.width
        else []
    )
    for name in wrong:
        row = 1 + int(suspects[:, [name]].select(misfit.test).to_series().arg_true()[0])
        raise TableError(
            f"{_listing([frame.columns.index(name)], frame.columns)} has {misfit.words} in row {row}, which {product} "
            "cannot hold. Correct the value, or write .parquet or .csv."
        )


def _listing(positions: Sequence[int], names: Sequence[str]) -> str:
    shown = ", ".join(f"{at + 1} ({names[at]!r})" for at in positions[:_SHOWN])
    more = f" and {len(positions) - _SHOWN} more" if len(positions) > _SHOWN else ""
    return f"Column{'s' if len(positions) > 1 else ''} {shown}{more}"


_EXACT = 2**53
_NUMBERS = (pl.Int64, pl.Float32, pl.Float64)


def read_spreadsheet(data: bytes, name: str) -> pl.DataFrame:
    """The first sheet of a workbook, its first row the column names. Blank rows at the end are left out."""
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
            f"{name!r} cannot be read as a spreadsheet: it is damaged, cut in the middle, protected, or has no table "
            "on its first sheet. Save it again, or export it as .csv."
        ) from None
    names = ["" if item is None else item for item in header.row(0)] if header.height else []
    check_names(names)
    return _without_blank_end(frame.rename(dict(zip(frame.columns, names, strict=True))))


_AS_THEY_ARE = {"strings_to_urls": False, "strings_to_formulas": False, "strings_to_numbers": False}
"""Text stays text: a workbook's own reading of it would change or cut it."""


def write_spreadsheet(frame: pl.DataFrame, path: Path) -> None:
    """Write the frame as the only sheet of a workbook, values as they are, no formulas."""
    exact = plain_texts(frame, keep=(pl.Datetime,)).with_columns(
        [column.cast(pl.String) for column in frame if _loses_digits(column)]
    )
    with Workbook(path, _AS_THEY_ARE) as book:
        exact.write_excel(book, autofilter=False, dtype_formats=dict.fromkeys(_NUMBERS, "General"))


def _loses_digits(column: pl.Series) -> bool:
    """True for whole numbers that a spreadsheet's floats cannot hold, such as long codes."""
    if not column.dtype.is_integer() or column.null_count() == len(column):
        return False
    return bool((column.cast(pl.Int128).abs() > _EXACT).any())


def _without_blank_end(frame: pl.DataFrame) -> pl.DataFrame:
    filled = frame.select(pl.any_horizontal(pl.all().is_not_null())).to_series().arg_true()
    return frame.head(0 if not len(filled) else int(filled[-1]) + 1)


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
    except (
        pyreadstat.ReadstatError,
        pyreadstat.PyreadstatError,
        OverflowError,
        ValueError,
        UnicodeError,
    ):
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
    options["column_labels"] = {
        name: label for name, label in origin.labels.items() if name in frame.columns
    }
    if known.has_value_labels:
        options["variable_value_labels"] = _value_labels(frame, origin)
    try:
        getattr(pyreadstat, known.writer)(_storable(frame), path, **options)
    except (
        pyreadstat.ReadstatError,
        pyreadstat.PyreadstatError,
        OverflowError,
        ValueError,
        TypeError,
    ):
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
        if name in frame.columns
        and all(isinstance(key, str) == (frame.schema[name] == pl.String) for key in labels)
    }


def _storable(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame in types that these files have: no booleans, decimals, categories, zones or durations."""
    return plain_texts(frame, keep=(pl.Datetime, pl.Time)).with_columns(
        pl.col(pl.Boolean).cast(pl.Int8),
        pl.col(pl.Decimal).cast(pl.Float64),
        pl.col(pl.Null).cast(pl.String),
        pl.col(pl.UInt64, pl.Float16).cast(pl.Float64),
    )
