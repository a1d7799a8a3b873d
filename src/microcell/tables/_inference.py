"""Columns of text to the type that all of their values have.

Columns are looked at many at once: polars answers one question about a thousand columns sooner than a thousand.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import polars as pl

__all__ = ["convert", "convert_dates", "find_decimal"]

_SAMPLE = 500
_AT_ONCE = 1 << 22  # so many fields are looked at together, which bounds the memory that a tall table takes
_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = _DAY + r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_FINE_CLOCK = _CLOCK.replace("{1,6}", "{1,9}")
_ZONE = r"(Z|[+-][0-9]{2}:?[0-9]{2})$"
_WORDS = r"(?i:^(nan|[+-]?inf(inity)?)$)"


@dataclass(frozen=True)
class _Reader:
    """A type of column: what all of its values look like, and how they are read (missing where one does not fit)."""

    pattern: str
    read: Callable[[pl.Expr], pl.Expr]


def convert(texts: pl.DataFrame, *, decimal: str = ".") -> pl.DataFrame:
    """The columns as integers, floats, dates or datetimes if all of their values are such, else as they are.

    Spaces around numbers and dates do not count, and a field of spaces only is missing among them. Dates are ISO, or
    have a four-digit year and an order that is certain: 31/12/2024 and 12/31/2024 are read, 11/12/2024 alone is not.

    Examples
    --------
    >>> convert(pl.DataFrame({"a": ["1", " 20", None], "b": ["01234", "94305", ""]})).rows()
    [(1, '01234'), (20, '94305'), (None, '')]
    >>> convert(pl.DataFrame({"a": ["31/1/2024", "1/2/2024"]})).to_series().to_list()
    [datetime.date(2024, 1, 31), datetime.date(2024, 2, 1)]
    """
    read = _convert(texts, (_INTEGERS, _floats(decimal), *_ISO_DATES, *_OTHER_DATES))
    return read.with_columns(pl.col(pl.Float64).fill_nan(None))


def convert_dates(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of text as dates or datetimes if all of their values are such in ISO form, else as they are."""
    return _convert(frame, _ISO_DATES)


def find_decimal(texts: pl.DataFrame) -> str:
    """The decimal sign that makes more columns numbers; a point where both do equally."""
    fits = dict.fromkeys((".", ","), 0)
    for bare in _bare_slabs(texts):
        for sign in fits:
            numbers = bare[:, _matching(bare, _floats(sign).pattern)]
            point = _point(sign)
            fits[sign] += len(_where(numbers, pl.all().str.contains(f"[0-9]{point}|{point}[0-9]").any()))
    return "," if fits[","] > fits["."] else "."


def _convert(frame: pl.DataFrame, readers: tuple[_Reader, ...]) -> pl.DataFrame:
    found = [column for bare in _bare_slabs(frame) for column in _read(bare, readers)]
    return frame.with_columns(found)


def _bare_slabs(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The columns of text, some at a time, without spaces around the values and missing where nothing is left."""
    texts = frame.select(pl.col(pl.String))
    width = max(1, _AT_ONCE // max(1, texts.height))
    stripped = pl.all().str.strip_chars(" ")
    for first in range(0, texts.width, width):
        yield texts[:, first : first + width].select(pl.when(stripped != "").then(stripped))


def _read(bare: pl.DataFrame, readers: tuple[_Reader, ...]) -> Iterator[pl.Series]:
    """The columns that the first reader whose pattern they match can read whole."""
    unread = bare[:, _where(bare, pl.all().is_not_null().any())]
    for reader in readers:
        fitting = dict.fromkeys(_matching(unread, reader.pattern))
        if fitting:
            texts = unread[:, list(fitting)]
            read = texts.select(reader.read(pl.all()))
            yield from (new for new, old in zip(read, texts, strict=True) if new.null_count() == old.null_count())
            unread = unread[:, [name for name in unread.columns if name not in fitting]]


def _matching(bare: pl.DataFrame, pattern: str) -> list[str]:
    match = pl.all().str.contains(pattern).all()
    likely = bare[:, _where(bare.head(_SAMPLE), match)]
    return likely.columns if bare.height <= _SAMPLE else _where(likely, match)


def _where(frame: pl.DataFrame, test: pl.Expr) -> list[str]:
    """The names of the columns that the test, of one answer a column, is true of."""
    return [answer.name for answer in frame.select(test) if answer.item()] if frame.width else []


def _point(sign: str) -> str:
    return r"\." if sign == "." else ","


def _floats(decimal: str) -> _Reader:
    point = _point(decimal)
    number = rf"^-?((0|[1-9][0-9]*)({point}[0-9]*)?|{point}[0-9]+)([eE][+-]?[0-9]+)?$"

    def read(bare: pl.Expr) -> pl.Expr:
        text = bare.str.replace(",", ".", literal=True) if decimal == "," else bare
        # Words such as "nan" alone make no column of numbers.
        return pl.when(bare.str.contains(number).any()).then(text.str.to_lowercase().cast(pl.Float64, strict=False))

    return _Reader(f"{number}|{_WORDS}", read)


def _read_integers(bare: pl.Expr) -> pl.Expr:
    # A number beyond 64 bits does not fit and leaves the column text: more likely a code than a quantity, and a float
    # would lose its digits.
    return bare.cast(pl.Int64, strict=False)


def _clock(unit: Literal["ns", "us"], *, zoned: bool) -> Callable[[pl.Expr], pl.Expr]:
    def read(bare: pl.Expr) -> pl.Expr:
        full = bare.str.replace(r"^(.{10}) ", "${1}T").str.replace(r"^(.{16})([^:]|$)", "${1}:00${2}")
        if zoned:
            full = full.str.replace("Z$", "+00:00")
        form = "%Y-%m-%dT%H:%M:%S%.f%#z" if zoned else "%Y-%m-%dT%H:%M:%S%.f"
        return full.str.to_datetime(form, time_unit=unit, strict=False)

    return read


def _date(form: str) -> Callable[[pl.Expr], pl.Expr]:
    return lambda bare: bare.str.to_date(form, strict=False)


def _day_or_month_first(sign: str) -> _Reader:
    """Dates by the one order, day or month first, that makes all of them days of the calendar; none if both do."""

    def read(bare: pl.Expr) -> pl.Expr:
        by_day, by_month = _date(f"%d{sign}%m{sign}%Y")(bare), _date(f"%m{sign}%d{sign}%Y")(bare)
        day_fits = by_day.null_count() == bare.null_count()
        month_fits = by_month.null_count() == bare.null_count()
        return pl.when(day_fits & ~month_fits).then(by_day).when(month_fits & ~day_fits).then(by_month)

    return _Reader(rf"^[0-9]{{1,2}}{sign}[0-9]{{1,2}}{sign}[0-9]{{4}}$", read)


_INTEGERS = _Reader(_INTEGER, _read_integers)
_ISO_DATES = (
    _Reader(_DAY + "$", _date("%Y-%m-%d")),
    _Reader(_CLOCK + "$", _clock("us", zoned=False)),
    _Reader(_FINE_CLOCK + "$", _clock("ns", zoned=False)),
    _Reader(_CLOCK + _ZONE, _clock("us", zoned=True)),
    _Reader(_FINE_CLOCK + _ZONE, _clock("ns", zoned=True)),
)
_OTHER_DATES = (
    _Reader(r"^[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}$", _date("%Y/%m/%d")),
    _Reader(r"^[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}$", _date("%d.%m.%Y")),
    _day_or_month_first("/"),
    _day_or_month_first("-"),
)
