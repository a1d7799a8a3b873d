"""Spreadsheets: the first sheet of a workbook."""

from pathlib import Path

import fastexcel
import polars as pl
from xlsxwriter import Workbook

from microcell.errors import TableError
from microcell.tables._names import check_names
from microcell.tables._plain import plain_texts

__all__ = ["read_spreadsheet", "write_spreadsheet"]

_EXACT = 2**53
_NUMBERS = (pl.Int64, pl.Float32, pl.Float64)


def read_spreadsheet(data: bytes, name: str) -> pl.DataFrame:
    """The first sheet of a workbook, its first row the column names. Blank rows at the end are left out."""
    try:
        sheet = fastexcel.read_excel(data).load_sheet(0, header_row=None, n_rows=1, dtypes="string")
        header = sheet.to_polars()
        frame = pl.read_excel(
            data, has_header=True, infer_schema_length=None, drop_empty_rows=False, drop_empty_cols=False
        )
    except (fastexcel.FastExcelError, pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError):
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
