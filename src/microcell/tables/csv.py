"""CSV text to a frame: strict about records, faithful about values."""

import codecs
import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from microcell.errors import OptionError, TableError
from microcell.model import Integers
from microcell.tables.values import Dialect, check_names

__all__ = [
    "CsvOptions",
    "Marks",
    "ParsedCsv",
    "Shape",
    "convert",
    "convert_dates",
    "count_fields",
    "find_decimal",
    "measure",
    "parse_csv",
]

_BLOCK = 1 << 23
_NEWLINE, _RETURN = 10, 13
_Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Marks:
    """The bytes that divide records: the delimiter, and the quote (``None`` where quotes mean nothing)."""

    delimiter: int
    quote: int | None = 34


@dataclass(frozen=True)
class Shape:
    """The number of records, header included, the fields of each, and where the first record ends."""

    records: int
    fields: int
    header_end: int


@dataclass(frozen=True, eq=False)
class _Block:
    """Where fields and records end in one block from byte ``first``; ``opened`` if a quote is open as it begins."""

    ends: Integers
    is_record: NDArray[np.bool_]
    quotes: Integers
    first: int
    opened: bool


def measure(data: bytes, marks: Marks) -> Shape:
    """The shape of CSV text that ends in a line feed; :class:`TableError` naming the first row unlike the header.

    Time is linear, some passes over the bytes; memory is a few times a block of 8 MB.

    Examples
    --------
    >>> measure(b'a,b\\n1,"2,5"\\n', Marks(ord(",")))
    Shape(records=2, fields=2, header_end=3)
    >>> measure(b'a,b\\n1,2\\n3\\n', Marks(ord(",")))
    Traceback (most recent call last):
    microcell.errors.TableError: Row 2 has 1 field, but the header has 2. Correct the row...
    """
    text = np.frombuffer(data, dtype=np.uint8)
    records, pending, fields, header_end, quoted_row, opened = 0, 0, 0, 0, 0, False
    for block in _blocks(text, marks):
        counts = _counts(block, pending)
        if not fields and counts.size:
            fields, header_end = int(counts[0]), int(block.ends[block.is_record][0])
        _check(text, block, marks=marks, counts=counts, fields=fields, records=records)
        if block.quotes.size:
            quoted_row = records + _records_before(block, int(block.quotes[-1]))
        pending += block.ends.size - int(counts.sum())
        records += counts.size
        opened = (block.opened + block.quotes.size) % 2 == 1
    if opened:
        raise TableError(
            f"{_row(quoted_row)} opens a quote that is never closed: the file seems cut in the middle. Get the whole "
            "file, or close the quote; if quotes mean nothing in this file, give quote=''."
        )
    return Shape(records=records, fields=fields, header_end=header_end)


def count_fields(data: bytes, marks: Marks, *, most: int = 200) -> Integers:
    """The number of fields of the first ``most`` complete records of ``data``."""
    block = next(_blocks(np.frombuffer(data, dtype=np.uint8), marks), None)
    return np.empty(0, np.int64) if block is None else _counts(block, 0)[:most]


def _blocks(text: _Bytes, marks: Marks) -> Iterator[_Block]:
    opened = False
    for first in range(0, len(text), _BLOCK):
        part = text[first : first + _BLOCK]
        ending = (part == marks.delimiter) | (part == _NEWLINE)
        quotes = np.empty(0, np.int64)
        if marks.quote is not None:
            is_quote = part == marks.quote
            quotes = np.flatnonzero(is_quote)
            if quotes.size or opened:
                # The sum wraps at 256, which leaves its parity alone.
                inside = (np.cumsum(is_quote, dtype=np.uint8) + np.uint8(opened)) & 1
                ending &= inside == 0
        ends = np.flatnonzero(ending)
        yield _Block(ends + first, part[ends] == _NEWLINE, quotes + first, first, opened)
        opened = bool((quotes.size + opened) % 2)


def _counts(block: _Block, pending: int) -> Integers:
    """Fields of each record that ends in the block; ``pending`` were already ended in the blocks before."""
    positions = np.flatnonzero(block.is_record)
    counts = np.diff(positions, prepend=-1)
    if counts.size:
        counts[0] += pending
    return counts


def _check(
    text: _Bytes, block: _Block, *, marks: Marks, counts: Integers, fields: int, records: int
) -> None:
    wrong = np.flatnonzero(counts != fields)[:1]
    for stray in _first_stray(text, block, marks):
        before = _records_before(block, stray)
        if not wrong.size or before <= wrong[0]:
            raise TableError(_stray_message(records + before, is_return=text[stray] == _RETURN))
    for at in wrong.tolist():
        blank = counts[at] == 1 and _is_blank(text, int(block.ends[block.is_record][at]))
        raise TableError(
            _count_message(int(counts[at]), row=records + at, fields=fields, blank=blank)
        )


def _first_stray(text: _Bytes, block: _Block, marks: Marks) -> list[int]:
    """The first quote in the middle of a field, or carriage return that ends no line; nothing if there is none."""
    found = (
        *_stray_quotes(text, block, marks)[:1].tolist(),
        *_stray_returns(text, block)[:1].tolist(),
    )
    return sorted(found)[:1]


def _stray_quotes(text: _Bytes, block: _Block, marks: Marks) -> Integers:
    if not block.quotes.size or marks.quote is None:
        return np.empty(0, np.int64)
    first = int(block.opened)
    opening, closing = block.quotes[first::2], block.quotes[1 - first :: 2]
    before = np.where(opening > 0, text[opening - 1], _NEWLINE)
    after = np.where(
        closing + 1 < len(text), text[np.minimum(closing + 1, len(text) - 1)], _NEWLINE
    )
    bad_opening = opening[~np.isin(before, (marks.delimiter, _NEWLINE, marks.quote))]
    bad_closing = closing[~np.isin(after, (marks.delimiter, _NEWLINE, _RETURN, marks.quote))]
    return np.sort(np.concatenate((bad_opening, bad_closing)))


def _stray_returns(text: _Bytes, block: _Block) -> Integers:
    """Carriage returns outside quotes with no line feed after them."""
    part = text[block.first : block.first + _BLOCK]
    returns = np.flatnonzero(part == _RETURN) + block.first
    if not returns.size:
        return returns
    alone = returns[
        np.where(returns + 1 < len(text), text[np.minimum(returns + 1, len(text) - 1)], 0)
        != _NEWLINE
    ]
    inside = (np.searchsorted(block.quotes, alone) + block.opened) % 2
    outside: Integers = alone[inside == 0]
    return outside


def _records_before(block: _Block, position: int) -> int:
    return int(np.count_nonzero(block.is_record[: np.searchsorted(block.ends, position)]))


def _is_blank(text: _Bytes, end: int) -> bool:
    before = end - 1 if end and text[end - 1] == _RETURN else end
    return before == 0 or bool(text[before - 1] == _NEWLINE)


def _count_message(found: int, *, row: int, fields: int, blank: bool) -> str:
    if blank:
        return f"{_row(row)} is blank, but the header has {fields} fields. Remove the line, or fill it."
    return (
        f"{_row(row)} has {found} field{'s' if found != 1 else ''}, but the header has {fields}. Correct the row "
        "(a field that holds the delimiter must be quoted), or give the delimiter if another one was meant."
    )


def _stray_message(row: int, *, is_return: bool) -> str:
    if is_return:
        return f"{_row(row)} has a carriage return outside quotes that ends no line. Remove it, or quote the field."
    return (
        f"{_row(row)} has a quote in the middle of a field. Quote the whole field and double the quotes in it; if "
        "quotes mean nothing in this file, give quote=''."
    )


def _row(row: int) -> str:
    return f"Row {row}" if row else "The header"


_SAMPLE_ROWS = 500
_AT_ONCE = (
    1 << 22
)  # so many fields are looked at together, which bounds the memory that a tall table takes
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
            fits[sign] += len(
                _where(numbers, pl.all().str.contains(f"[0-9]{point}|{point}[0-9]").any())
            )
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
            yield from (
                new
                for new, old in zip(read, texts, strict=True)
                if new.null_count() == old.null_count()
            )
            unread = unread[:, [name for name in unread.columns if name not in fitting]]


def _matching(bare: pl.DataFrame, pattern: str) -> list[str]:
    match = pl.all().str.contains(pattern).all()
    likely = bare[:, _where(bare.head(_SAMPLE_ROWS), match)]
    return likely.columns if bare.height <= _SAMPLE_ROWS else _where(likely, match)


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
        return pl.when(bare.str.contains(number).any()).then(
            text.str.to_lowercase().cast(pl.Float64, strict=False)
        )

    return _Reader(f"{number}|{_WORDS}", read)


def _read_integers(bare: pl.Expr) -> pl.Expr:
    # A number beyond 64 bits does not fit and leaves the column text: more likely a code than a quantity, and a float
    # would lose its digits.
    return bare.cast(pl.Int64, strict=False)


def _clock(unit: Literal["ns", "us"], *, zoned: bool) -> Callable[[pl.Expr], pl.Expr]:
    def read(bare: pl.Expr) -> pl.Expr:
        full = bare.str.replace(r"^(.{10}) ", "${1}T").str.replace(
            r"^(.{16})([^:]|$)", "${1}:00${2}"
        )
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
        return (
            pl.when(day_fits & ~month_fits).then(by_day).when(month_fits & ~day_fits).then(by_month)
        )

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


_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_GUESSES = ("utf-8", "windows-1252", "latin-1")
_DELIMITERS = (",", ";", "\t", "|")
_SAMPLE = 1 << 18


@dataclass(frozen=True)
class CsvOptions:
    """What the caller says about a CSV file; ``None`` leaves it to be found out. ``na`` are words for missing."""

    delimiter: str | None = None
    encoding: str | None = None
    quote: str | None = None
    decimal: str | None = None
    na: Sequence[str] = ()

    def __post_init__(self) -> None:
        _check_character("delimiter", self.delimiter, empty_allowed=False)
        _check_character("quote", self.quote, empty_allowed=True)
        if self.delimiter is not None and self.delimiter == self.quote:
            raise OptionError(
                "delimiter and quote are the same character. Give two different ones."
            )
        if self.decimal not in (None, ".", ","):
            raise OptionError(f"decimal must be '.' or ',', not {self.decimal!r}.")
        if isinstance(self.na, str) or not all(isinstance(word, str) for word in self.na):
            raise OptionError(
                "na must be a list of words that stand for a missing value, for example ['NA', '-']."
            )
        object.__setattr__(self, "na", tuple(self.na))


@dataclass(frozen=True, eq=False)
class ParsedCsv:
    """A frame, and the dialect it was written in."""

    frame: pl.DataFrame
    dialect: Dialect


@dataclass(frozen=True, eq=False)
class _Decoded:
    data: bytes
    encoding: str


def parse_csv(raw: bytes, options: CsvOptions, *, prefer: str = ",") -> ParsedCsv:
    """The frame that CSV text holds, each column in the narrowest type that holds all of its values.

    ``prefer`` is the delimiter taken where several fit. Fields that are empty, quoted or not, are missing. Columns of
    whole numbers, numbers, ISO dates and ISO datetimes become such, and so do dates of another form whose order is
    certain; a number with a leading zero, or too large for 64 bits, keeps its column text.
    """
    decoded = _decode(raw, options.encoding)
    data = _tidy(decoded.data)
    quote = _find_quote(data, options.quote)
    delimiter = options.delimiter or _find_delimiter(data, quote=quote, prefer=prefer)
    if delimiter == quote:
        raise OptionError(
            "The delimiter given is the quote of this file. Give quote too; quote='' for none."
        )
    marks = Marks(ord(delimiter), ord(quote) if quote else None)
    dialect = Dialect(
        delimiter=delimiter, encoding=decoded.encoding, quote=quote, decimal=options.decimal or "."
    )
    texts = _parse(data, measure(data, marks), dialect)
    texts = texts.select(_without(("", *options.na)))
    if options.decimal is None and delimiter == ";":
        dialect = replace(dialect, decimal=find_decimal(texts))
    return ParsedCsv(convert(texts, decimal=dialect.decimal), dialect)


def _check_character(option: str, given: str | None, *, empty_allowed: bool) -> None:
    if given is None or (empty_allowed and given == ""):
        return
    if not (
        isinstance(given, str) and len(given) == 1 and given.isascii() and given not in "\r\n\0"
    ):
        empty = ", or '' for none" if empty_allowed else ""
        raise OptionError(f"{option} must be one ASCII character{empty}, not {given!r}.")


def _decode(raw: bytes, encoding: str | None) -> _Decoded:
    """The text in UTF-8 without a byte-order mark, and the encoding it came in."""
    marked = next((name for mark, name in _BOMS if raw.startswith(mark)), None)
    if encoding is not None:
        encoding = _known(encoding)
        # The mark is no part of the text, whether or not the caller's encoding says so.
        if encoding == "utf-8" and marked == "utf-8-sig":
            encoding = marked
    certain = encoding or marked
    for name in (certain,) if certain else _GUESSES:
        try:
            return _Decoded(_to_utf8(raw, name), name.removesuffix("-sig"))
        except UnicodeDecodeError as error:
            if name == "utf-8" and error.reason == "unexpected end of data":
                raise TableError(
                    "The file ends within a character: it seems cut. Get the whole file."
                ) from None
            line = 1 + raw[: error.start].decode(name, "replace").count("\n")
            where = f"Byte {error.start + 1}, on line {line} of the file, is not {name.removesuffix('-sig')} text."
    raise TableError(f"{where} Give the right encoding, for example windows-1252.")


def _known(encoding: str) -> str:
    try:
        "".encode(encoding)
        return codecs.lookup(encoding).name
    except (LookupError, TypeError):
        raise OptionError(
            f"Unknown encoding {encoding!r}. Try 'utf-8', 'windows-1252', 'latin-1' or 'utf-16'."
        ) from None


def _to_utf8(raw: bytes, encoding: str) -> bytes:
    if encoding == "utf-8-sig":
        raw = raw.removeprefix(codecs.BOM_UTF8)
    if encoding in ("utf-8", "utf-8-sig"):
        if not raw.isascii():
            raw.decode("utf-8")
        return raw
    return raw.decode(encoding).encode("utf-8").removeprefix(codecs.BOM_UTF8)


def _tidy(data: bytes) -> bytes:
    """The text with line feeds for lone carriage returns, and one line feed at its end."""
    null = data.find(b"\0")
    if null >= 0:
        line = 1 + data.count(b"\n", 0, null)
        raise TableError(
            f"A null byte stands on line {line} of the file: it is damaged, or not in the encoding found. Give the "
            "right encoding, for example utf-16-le."
        )
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    data = data.rstrip(b"\r\n")
    if not data:
        raise TableError("The file is empty. It must begin with a line of column names.")
    return data + b"\n"


def _find_quote(data: bytes, given: str | None) -> str:
    if given is not None:
        return given
    return "'" if data.startswith(b"'") and b'"' not in data[:_SAMPLE] else '"'


def _find_delimiter(data: bytes, *, quote: str, prefer: str) -> str:
    """The delimiter that gives most of the first records as many fields as the header, two at least."""
    sample = data[:_SAMPLE]
    candidates = (prefer, *(delimiter for delimiter in _DELIMITERS if delimiter != prefer))
    best, best_share, best_fields = prefer, 0.0, 1
    for delimiter in candidates:
        counts = count_fields(sample, Marks(ord(delimiter), ord(quote) if quote else None))
        if not counts.size or counts[0] < 2:
            continue
        share, fields = float(np.mean(counts == counts[0])), int(counts[0])
        if (share, fields) > (best_share, best_fields):
            best, best_share, best_fields = delimiter, share, fields
    return best


def _parse(data: bytes, shape: Shape, dialect: Dialect) -> pl.DataFrame:
    """Every field as text."""
    names = _header(data[: shape.header_end], dialect)
    body = data[shape.header_end + 1 :]
    schema = dict.fromkeys(names, pl.String)
    if not body:
        return pl.DataFrame(schema=schema)
    try:
        frame = pl.read_csv(
            body,
            has_header=False,
            schema=schema,
            separator=dialect.delimiter,
            quote_char=dialect.quote or None,
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise TableError(
            "The file cannot be read as CSV. Check its delimiter and quotes."
        ) from None
    if frame.height != shape.records - 1:
        raise TableError(
            f"The file has {shape.records - 1} rows, but {frame.height} were parsed. Check its delimiter and quotes."
        )
    return frame


def _header(header: bytes, dialect: Dialect) -> list[str]:
    text = header.decode("utf-8").removesuffix("\r")
    if not dialect.quote:
        names = text.split(dialect.delimiter)
    else:
        lines = StringIO(text, newline="")
        names = next(csv.reader(lines, delimiter=dialect.delimiter, quotechar=dialect.quote), [""])
    check_names(names)
    return names


def _without(missing: Sequence[str]) -> pl.Expr:
    words = pl.Series(list(dict.fromkeys(missing)), dtype=pl.String)
    return pl.when(~pl.all().is_in(words.implode())).then(pl.all())
