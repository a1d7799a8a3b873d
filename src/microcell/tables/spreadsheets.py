"""Read and write spreadsheets (via fastexcel and xlsxwriter)."""

from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import polars as pl

from microcell._display import count
from microcell._extras import require_module
from microcell._files import Readable, read_bytes
from microcell.errors import MicrocellError, OptionError, TableError
from microcell.model import Origin
from microcell.tables.content import CREATED, LARGEST_EXACT, Content
from microcell.tables.options import ReadOptions
from microcell.tables.values import as_plain_types, check_names

__all__ = ["read_spreadsheet", "require_writer", "write_spreadsheet"]


def require_writer(suffix: str) -> Any:
    """Import the package that writes spreadsheets, or raise an error that names the extra."""
    return _require("xlsxwriter", suffix)


def _require(package: str, suffix: str) -> Any:
    return require_module(package, extra="excel", purpose=f"{suffix} files", error=TableError)


_NUMBERS = (pl.Int64, pl.Float32, pl.Float64)


def read_spreadsheet(path: Readable, options: ReadOptions) -> Content:
    """Read a sheet of a workbook, with column names in the first row that is not skipped.

    Trailing blank rows are ignored.
    """
    fastexcel = _require("fastexcel", path.suffix.lower())
    data, name = read_bytes(path), path.name
    _check_expansion(data, name)
    try:
        book = fastexcel.read_excel(data)
        sheet = _choose_sheet(book, options.sheet, name)
        n_top = options.skip_rows + _TOP
        top = book.load_sheet(sheet, header_row=None, n_rows=n_top, dtypes="string").to_polars()
        _check_title(top, options.skip_rows, name)
        frame = pl.read_excel(
            data,
            sheet_name=sheet,
            has_header=True,
            read_options={"header_row": options.skip_rows},
            infer_schema_length=None,
            drop_empty_rows=False,
            drop_empty_cols=False,
        )
    except (
        fastexcel.FastExcelError,
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        ValueError,
    ) as error:
        if isinstance(error, MicrocellError):
            raise
        raise TableError(
            f"{name!r} cannot be read as a spreadsheet: it is damaged, truncated, protected, or "
            "has no table on its sheet. Save it again, or export it as .csv.",
            code="table.malformed",
        ) from None
    header = top.row(options.skip_rows) if top.height > options.skip_rows else ()
    names = ["" if item is None else item for item in header][: frame.width]
    check_names(names)
    frame = frame.rename(dict(zip(frame.columns, names, strict=True)))
    return Content(_without_trailing_blanks(frame))


_TOP = 30
"""Number of rows in which column names are looked for."""


def _choose_sheet(book: Any, sheet: str | int | None, name: str) -> str:
    """Return the name of the sheet to read: the one requested, or the only one with data."""
    names: list[str] = book.sheet_names
    listed = ", ".join(map(repr, names))
    if isinstance(sheet, str) and sheet.isdecimal() and sheet not in names:
        sheet = int(sheet)
    if isinstance(sheet, int):
        if not 1 <= sheet <= len(names):
            raise OptionError(
                f"{name!r} has {count(len(names), 'sheet')}, so there is no sheet {sheet}. Choose "
                f"one of {listed}.",
                code="option.out_of_range",
                option="sheet",
            )
        return names[sheet - 1]
    if sheet is not None:
        if sheet not in names:
            raise OptionError(
                f"{name!r} has no sheet {sheet!r}. Choose one of {listed}.",
                code="option.unknown",
                option="sheet",
            )
        return sheet
    if len(names) == 1:
        return names[0]
    filled = [item for item in names if _has_data(book, item)]
    if len(filled) > 1:
        raise TableError(
            f"{name!r} has several sheets with data: {', '.join(map(repr, filled))}. Choose one "
            "with sheet (--sheet).",
            code="table.malformed",
            sheets=len(filled),
        )
    return filled[0] if filled else names[0]


def _has_data(book: Any, sheet: str) -> bool:
    top = book.load_sheet(sheet, header_row=None, n_rows=_TOP, dtypes="string").to_polars()
    return any(item is not None for row in top.rows() for item in row)


def _check_title(top: pl.DataFrame, skipped: int, name: str) -> None:
    """Raise TableError if the sheet begins with a title: a row with one cell before fuller ones."""
    filled = [sum(item not in (None, "") for item in row) for row in top.rows()[skipped:]]
    if len(filled) < 3 or top.width < 2 or filled[0] > 1:
        return
    widest = max(filled)
    n_title = next(i for i, cells in enumerate(filled) if cells == widest)
    if widest > 1 and n_title:
        total = skipped + n_title
        raise TableError(
            f"{name!r} seems to begin with a title above the column names. Skip "
            f"{count(total, 'row')} with skip_rows={total} (--skip-rows {total}).",
            code="table.malformed",
            skip_rows=total,
        )


_MOST_EXPANSION = 200
"""Maximum expansion that is accepted. Sheets usually expand by a factor of 10 to 50."""

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


_KEEP_TEXT = {"strings_to_urls": False, "strings_to_formulas": False, "strings_to_numbers": False}
"""Workbook options that keep text as text, which would otherwise be changed or truncated."""


def write_spreadsheet(frame: pl.DataFrame, path: Path, _: Origin) -> None:
    """Write the frame as the only sheet of a workbook, with plain values and no formulas."""
    exact = as_plain_types(frame, keep=(pl.Datetime,)).with_columns(
        [column.cast(pl.String) for column in frame if _exceeds_floats(column)]
    )
    xlsxwriter = require_writer(".xlsx")
    # In memory, because temporary files elsewhere would be left behind by a failure.
    formats: dict[Any, str] = dict.fromkeys(_NUMBERS, "General")
    try:
        with xlsxwriter.Workbook(path, _KEEP_TEXT | {"in_memory": True}) as book:
            book.set_properties({"created": CREATED})
            exact.write_excel(book, autofilter=False, dtype_formats=formats)
    except xlsxwriter.exceptions.FileCreateError as error:  # its argument is an OSError
        raise error.args[0] from None


def _exceeds_floats(column: pl.Series) -> bool:
    """Return whether whole numbers, such as long codes, exceed the floats of a spreadsheet."""
    if not column.dtype.is_integer() or column.null_count() == len(column):
        return False
    return bool((column.cast(pl.Int128).abs() > LARGEST_EXACT).any())


def _without_trailing_blanks(frame: pl.DataFrame) -> pl.DataFrame:
    filled = frame.select(pl.any_horizontal(pl.all().is_not_null())).to_series().arg_true()
    return frame.head(0 if not len(filled) else int(filled[-1]) + 1)
