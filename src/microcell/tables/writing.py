"""Writing tables to files."""

from collections.abc import Callable, Collection
from pathlib import Path

import polars as pl

from microcell.errors import TableError
from microcell.model import Table
from microcell.tables.formats import (
    STAT_FORMATS,
    check_fits,
    require_pyreadstat,
    write_spreadsheet,
    write_statfile,
)
from microcell.tables.frames import to_polars
from microcell.tables.reading import read
from microcell.tables.values import Dialect, Origin, plain_texts, with_days

__all__ = ["check_suffix", "check_writable", "read_back", "write"]

_DIALECTS = {".csv": Dialect(), ".tsv": Dialect(delimiter="\t"), ".txt": Dialect()}
_TEXTS = (*_DIALECTS, ".jsonl", ".ndjson")


def write(table: Table, path: str | Path, *, suffix: str | None = None, days: bool = True) -> None:
    """Write the table to exactly ``path``, in the format of ``suffix`` (the path's own if left out).

    CSV is written in UTF-8, in the dialect that the table was read in if from a file of that suffix; a missing value
    is an empty field. Statistical files keep their labels. An index of pandas is not written, for it may name people:
    make it a column to have it in the file. Types that a format lacks become ISO text. Categories that no record has
    are left out, and an order among the others is kept. In text, datetimes of a column that are all at midnight are
    written as dates, unless ``days`` is false: the files of one data set must write a column alike. What does not fit
    the format is refused, as :func:`check_writable` does, before the file is touched.
    """
    path = Path(path)
    suffix = (suffix or path.suffix).lower()
    origin = table.origin if isinstance(table.origin, Origin) else Origin("frame")
    check_suffix(suffix)
    frame = to_polars(table)
    _check(frame, suffix)
    if days and suffix in _TEXTS:
        frame = with_days(frame, table)
    try:
        _write(_with_used_categories(frame), path, suffix, origin)
    except FileNotFoundError:
        raise TableError(f"The folder of {str(path)!r} does not exist. Make it first.") from None
    except IsADirectoryError:
        raise TableError(f"{str(path)!r} is a folder. Give the path of a file.") from None
    except PermissionError:
        raise TableError(f"No permission to write {str(path)!r}. Choose another folder.") from None
    except OSError as error:
        raise TableError(
            f"Cannot write {str(path)!r}: {error.strerror or 'the system refused'}."
        ) from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise TableError(
            f"The table holds types that a {suffix} file cannot hold. Use .parquet."
        ) from None


def check_suffix(suffix: str) -> None:
    """Refuse a suffix of no format that tables can be written in."""
    writable = (
        *_DIALECTS,
        *_WRITERS,
        *(name for name, kind in STAT_FORMATS.items() if kind.writer),
    )
    if suffix.lower() in writable:
        return
    if suffix.lower() in STAT_FORMATS:
        raise TableError(
            f"{suffix} files cannot be written. Use .xpt, which SAS reads too, or .parquet."
        )
    known = ", ".join(writable)
    raise TableError(
        f"Tables cannot be written as {suffix or 'a file without a suffix'!r}. Use one of {known}."
    )


def check_writable(table: Table, suffix: str, *, drop: Collection[str] = ()) -> None:
    """Nothing, if :func:`write` can write the table, without the columns in ``drop``, to a file of that suffix.

    :class:`TableError` else, which names the column that does not fit and says what the format allows. Nothing is
    written.

    Examples
    --------
    >>> check_writable(read({"age": [31, 52]}), ".dta")
    """
    check_suffix(suffix)
    left_out = set(drop)
    _check(
        to_polars(table)[:, [name for name in table.names if name not in left_out]], suffix.lower()
    )


def read_back(table: Table, path: Path) -> Table:
    """The file that :func:`write` made of the table, read in the dialect it was written in."""
    suffix = path.suffix.lower()
    if suffix not in _DIALECTS:
        return read(path)
    origin = table.origin if isinstance(table.origin, Origin) else Origin("frame")
    dialect = _dialect_for(origin, suffix)
    return read(
        path,
        delimiter=dialect.delimiter,
        quote=dialect.quote or '"',
        decimal=dialect.decimal,
        encoding="utf-8",
    )


def _check(frame: pl.DataFrame, suffix: str) -> None:
    if suffix in STAT_FORMATS:
        require_pyreadstat(suffix)
    check_fits(frame, suffix)


def _with_used_categories(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame without the names of categories that no record has; polars writes such names for Enums only."""
    return frame.with_columns(
        _used(column) for column in frame if isinstance(column.dtype, pl.Enum)
    )


def _used(column: pl.Series) -> pl.Series:
    return column.cast(pl.Enum(column.drop_nulls().unique().sort().cast(pl.String)))


def _write(frame: pl.DataFrame, path: Path, suffix: str, origin: Origin) -> None:
    # Opening it first tells a folder that is missing or not writable from a table that does not fit the format.
    path.open("wb").close()
    if suffix in STAT_FORMATS:
        write_statfile(frame, path, suffix, origin)
    elif suffix in _WRITERS:
        _WRITERS[suffix](frame, path)
    else:
        _write_csv(frame, path, _dialect_for(origin, suffix))


def _dialect_for(origin: Origin, suffix: str) -> Dialect:
    """The dialect that the table was read in, if from a file of that suffix; else the suffix's own."""
    return (
        origin.dialect
        if origin.dialect is not None and origin.suffix == suffix
        else _DIALECTS[suffix]
    )


def _write_csv(frame: pl.DataFrame, path: Path, dialect: Dialect) -> None:
    texts = plain_texts(frame)
    if frame.width == 1:
        # A blank line at the end of a file is no record, so a lone missing value must be a quoted empty field.
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
    # The newest form of Arrow shares text, and would write that of values which the column had before it was published.
    frame.write_ipc(path, compat_level=pl.CompatLevel.oldest())


def _write_json(frame: pl.DataFrame, path: Path) -> None:
    plain_texts(frame).write_ndjson(path)


_WRITERS: dict[str, Callable[[pl.DataFrame, Path], None]] = {
    ".parquet": _write_parquet,
    **dict.fromkeys((".arrow", ".feather", ".ipc"), _write_ipc),
    **dict.fromkeys((".jsonl", ".ndjson"), _write_json),
    ".xlsx": write_spreadsheet,
}
