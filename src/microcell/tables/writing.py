"""Write tables to files."""

from collections.abc import Callable, Collection
from math import nan
from pathlib import Path

import polars as pl

from microcell._files import TEXT_SUFFIXES, find_system_error, unwritable
from microcell.errors import TableError
from microcell.model import Dialect, Origin, Table
from microcell.tables.formats import (
    STAT_FORMATS,
    check_fits,
    require_package,
    write_spreadsheet,
    write_statfile,
)
from microcell.tables.frames import to_polars, used_categories
from microcell.tables.reading import read
from microcell.tables.values import as_plain_types, with_dates

__all__ = ["check_suffix", "check_writable", "read_back", "write"]

_DIALECTS = {
    suffix: Dialect(delimiter="\t" if suffix == ".tsv" else ",") for suffix in TEXT_SUFFIXES
}
_TEXTS = (*_DIALECTS, ".jsonl", ".ndjson")


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
    if days and suffix in _TEXTS:
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
    writable = (
        *_DIALECTS,
        *_WRITERS,
        *(name for name, kind in STAT_FORMATS.items() if kind.writer),
    )
    if suffix.lower() in writable:
        return
    if suffix.lower() in STAT_FORMATS:
        raise TableError(
            f"{suffix} files cannot be written. Use .xpt, which SAS can read, or .parquet.",
            code="table.unknown_format",
            suffix=suffix,
        )
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
    if suffix not in _DIALECTS:
        return read(path)
    dialect = _dialect_for(table.origin, suffix)
    return read(
        path,
        delimiter=dialect.delimiter,
        quote=dialect.quote or '"',
        decimal=dialect.decimal,
        encoding="utf-8",
    )


def _check(frame: pl.DataFrame, suffix: str, *, exact: bool = False) -> None:
    require_package(suffix, write=True)
    if suffix in _DIALECTS and frame.width and frame.columns[0].startswith("\ufeff"):
        raise TableError(
            f"The name of the first column begins with a byte-order mark, which a {suffix} file "
            "cannot keep. Rename the column.",
            code="table.format_limit",
            column=frame.columns[0],
        )
    check_fits(frame, suffix, exact=exact)


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
    if suffix in STAT_FORMATS:
        write_statfile(frame, path, suffix, origin)
    elif suffix in _WRITERS:
        _WRITERS[suffix](frame, path)
    else:
        _write_csv(frame, path, _dialect_for(origin, suffix))


def _dialect_for(origin: Origin, suffix: str) -> Dialect:
    """Return the dialect of the file read, if it had this suffix, otherwise the default."""
    return (
        origin.dialect
        if origin.dialect is not None and origin.suffix == suffix
        else _DIALECTS[suffix]
    )


def _write_csv(frame: pl.DataFrame, path: Path, dialect: Dialect) -> None:
    texts = as_plain_types(frame)
    if frame.width == 1:
        # A blank line at the end is not a record, so a lone missing value must be quoted.
        texts = texts.with_columns(pl.all().cast(pl.String).fill_null(""))
    texts.write_csv(
        path,
        separator=dialect.delimiter,
        quote_char=dialect.quote or '"',
        decimal_comma=dialect.decimal == ",",
        quote_style="necessary",
    )


def _write_parquet(frame: pl.DataFrame, path: Path) -> None:
    frame.write_parquet(path)


def _write_ipc(frame: pl.DataFrame, path: Path) -> None:
    # Gathering the rows resets what is stored under nulls, which this format would write.
    # The newest Arrow format shares text buffers, and would write values from before publishing.
    rows = pl.int_range(frame.height)
    frame.select(pl.all().gather(rows)).write_ipc(path, compat_level=pl.CompatLevel.oldest())


def _write_json(frame: pl.DataFrame, path: Path) -> None:
    as_plain_types(frame).write_ndjson(path)


_WRITERS: dict[str, Callable[[pl.DataFrame, Path], None]] = {
    ".parquet": _write_parquet,
    **dict.fromkeys((".arrow", ".feather", ".ipc"), _write_ipc),
    **dict.fromkeys((".jsonl", ".ndjson"), _write_json),
    ".xlsx": write_spreadsheet,
}
