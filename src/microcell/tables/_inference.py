"""Columns of text to the type that all of their values have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import polars as pl

__all__ = ["convert", "convert_dates", "find_decimal"]

_SAMPLE = 500
_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_CLOCK = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
_NANOSECONDS = r"\.[0-9]{7}"
_WORDS = r"(?i:^(nan|[+-]?inf(inity)?)$)"


def _float_pattern(decimal: str) -> str:
    point = r"\." if decimal == "." else ","
    return rf"^-?((0|[1-9][0-9]*)({point}[0-9]*)?|{point}[0-9]+)([eE][+-]?[0-9]+)?$"


@dataclass(frozen=True)
class _Reader:
    """A type of column: what all of its values look like, and how they are read (missing where one does not fit)."""

    pattern: str
    read: Callable[[pl.Series], pl.Series]


def convert(texts: pl.Series, *, decimal: str = ".") -> pl.Series:
    """The column as integers, floats, dates or datetimes if all of its values are such, else as it is.

    Spaces around numbers and dates do not count, and a field of spaces only is missing among them.

    Examples
    --------
    >>> convert(pl.Series(["1", " 20", None])).to_list()
    [1, 20, None]
    >>> convert(pl.Series(["01234", "94305"])).to_list()
    ['01234', '94305']
    """
    return _convert(texts, (_INTEGERS, _floats(decimal), *_DATES))


def convert_dates(texts: pl.Series) -> pl.Series:
    """The column as dates or datetimes if all of its values are such, else as it is."""
    return _convert(texts, _DATES)


def find_decimal(texts: pl.DataFrame) -> str:
    """The decimal sign that makes more columns numbers; a point where both do equally."""
    fits = {sign: sum(_is_float(column, sign) for column in texts) for sign in (".", ",")}
    return "," if fits[","] > fits["."] else "."


def _convert(texts: pl.Series, readers: tuple[_Reader, ...]) -> pl.Series:
    if texts.dtype != pl.String or texts.null_count() == len(texts):
        return texts
    bare = _bare(texts)
    if bare.null_count() == len(bare):
        return texts
    for reader in readers:
        if _all_match(bare, reader.pattern):
            read = reader.read(bare)
            return _tidied(read) if read.null_count() == bare.null_count() else texts
    return texts


def _tidied(read: pl.Series) -> pl.Series:
    return read.fill_nan(None) if read.dtype.is_float() else read


def _bare(texts: pl.Series) -> pl.Series:
    bare = texts.str.strip_chars(" ")
    return bare.to_frame().select(pl.when(pl.first() != "").then(pl.first()).alias(texts.name)).to_series()


def _all_match(bare: pl.Series, pattern: str) -> bool:
    return bool(bare.head(_SAMPLE).str.contains(pattern).all()) and bool(bare.str.contains(pattern).all())


def _read_integers(bare: pl.Series) -> pl.Series:
    # A number beyond 64 bits does not fit and leaves the column text: more likely a code than a quantity, and a float
    # would lose its digits.
    return bare.cast(pl.Int64, strict=False)


def _floats(decimal: str) -> _Reader:
    number = _float_pattern(decimal)

    def read(bare: pl.Series) -> pl.Series:
        if not bare.str.contains(number).any():
            return pl.Series(bare.name, [None] * len(bare), dtype=pl.Float64)
        point = bare.str.replace(",", ".", literal=True) if decimal == "," else bare
        return point.str.to_lowercase().cast(pl.Float64, strict=False)

    return _Reader(f"{number}|{_WORDS}", read)


def _is_float(column: pl.Series, sign: str) -> bool:
    """True if the column holds numbers with that decimal sign, and not whole numbers only."""
    bare = _bare(column)
    point = r"\." if sign == "." else ","
    return _all_match(bare, _floats(sign).pattern) and bool(bare.str.contains(f"[0-9]{point}|{point}[0-9]").any())


def _read_dates(bare: pl.Series) -> pl.Series:
    return bare.str.to_date("%Y-%m-%d", strict=False)


def _read_datetimes(bare: pl.Series) -> pl.Series:
    return _full_seconds(bare).str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit=_unit(bare), strict=False)


def _read_zoned(bare: pl.Series) -> pl.Series:
    full = _full_seconds(bare).str.replace("Z$", "+00:00")
    return full.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%#z", time_unit=_unit(bare), strict=False)


def _full_seconds(bare: pl.Series) -> pl.Series:
    return bare.str.replace(r"^(.{10}) ", "${1}T").str.replace(r"^(.{16})([^:]|$)", "${1}:00${2}")


def _unit(bare: pl.Series) -> Literal["ns", "us"]:
    return "ns" if bare.str.contains(_NANOSECONDS).any() else "us"


_INTEGERS = _Reader(_INTEGER, _read_integers)
_DATES = (
    _Reader(_DATE, _read_dates),
    _Reader(_CLOCK + "$", _read_datetimes),
    _Reader(_CLOCK + r"(Z|[+-][0-9]{2}:?[0-9]{2})$", _read_zoned),
)
