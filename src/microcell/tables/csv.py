"""Read, parse and write delimited text.

The scanner that counts the fields of each record is written by hand: CSV libraries pad, truncate
or skip irregular rows, or report them without the row number. Here every row must have as many
fields as the header, and errors name the first row that does not.
"""

import codecs
import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from microcell._display import count
from microcell._files import Readable, read_bytes
from microcell.errors import OptionError, TableError
from microcell.model import Dialect, Integers, Origin
from microcell.tables.content import Content
from microcell.tables.numbers import ungroup
from microcell.tables.options import ReadOptions
from microcell.tables.values import as_plain_types, check_names

__all__ = [
    "Marks",
    "ParsedCsv",
    "Shape",
    "convert",
    "convert_dates",
    "count_fields",
    "find_decimal",
    "measure",
    "parse_csv",
    "read_csv",
    "write_csv",
]

_BLOCK = 1 << 23
_NEWLINE = ord("\n")
_RETURN = ord("\r")
_Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Marks:
    """Bytes that separate fields: the delimiter, and the quote (None if quotes have no meaning)."""

    delimiter: int
    quote: int | None = 34


@dataclass(frozen=True)
class Shape:
    """Number of records including the header, fields per record, and end of the header."""

    records: int
    fields: int
    header_end: int


@dataclass(frozen=True, eq=False)
class _Block:
    """Ends of fields and records in the block that starts at byte ``first``.

    ``opened`` is true if a quote is open at its start.
    """

    ends: Integers
    is_record: NDArray[np.bool_]
    quotes: Integers
    first: int
    opened: bool


def measure(data: bytes, marks: Marks) -> Shape:
    """Return the shape of CSV text that ends in a line feed.

    Raises :class:`TableError` for the first row that does not match the header. Time is linear;
    memory is a few times the block size of 8 MB.

    Examples
    --------
    >>> measure(b'a,b\\n1,"2,5"\\n', Marks(ord(",")))
    Shape(records=2, fields=2, header_end=3)
    >>> measure(b'a,b\\n1,2\\n3\\n', Marks(ord(",")))
    Traceback (most recent call last):
    microcell.errors.TableError: Row 2 has 1 field, but the header has 2. Correct the row...
    """
    text = np.frombuffer(data, dtype=np.uint8)
    records = pending = fields = header_end = last_quoted = 0
    opened = False
    for block in _blocks(text, marks):
        counts = _counts(block, pending)
        if not fields and counts.size:
            fields = int(counts[0])
            header_end = int(block.ends[block.is_record][0])
        _check(text, block, marks=marks, counts=counts, fields=fields, records=records)
        if block.quotes.size:
            last_quoted = records + _records_before(block, int(block.quotes[-1]))
        pending += block.ends.size - int(counts.sum())
        records += counts.size
        opened = (block.opened + block.quotes.size) % 2 == 1
    if opened:
        raise TableError(
            f"{_row_name(last_quoted)} opens a quote that is never closed, so the file seems to "
            "be truncated. Get the complete file or close the quote; if quotes have no meaning "
            "in this file, set quote=''.",
            code="table.malformed",
            row=last_quoted,
        )
    return Shape(records=records, fields=fields, header_end=header_end)


def count_fields(data: bytes, marks: Marks, *, most: int = 200) -> Integers:
    """Return the number of fields in each of the first ``most`` complete records."""
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
                # The sum wraps at 256, which does not change its parity.
                inside = (np.cumsum(is_quote, dtype=np.uint8) + np.uint8(opened)) & 1
                ending &= inside == 0
        ends = np.flatnonzero(ending)
        yield _Block(ends + first, part[ends] == _NEWLINE, quotes + first, first, opened)
        opened = bool((quotes.size + opened) % 2)


def _counts(block: _Block, pending: int) -> Integers:
    """Return the field count of each record ending in the block; ``pending`` are earlier fields."""
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
            raise TableError(
                _stray_message(records + before, is_return=text[stray] == _RETURN),
                code="table.malformed",
                row=records + before,
            )
    for at in wrong.tolist():
        blank = counts[at] == 1 and _is_blank(text, int(block.ends[block.is_record][at]))
        raise TableError(
            _count_message(int(counts[at]), row=records + at, fields=fields, blank=blank),
            code="table.malformed",
            row=records + at,
        )


def _first_stray(text: _Bytes, block: _Block, marks: Marks) -> list[int]:
    """Return the first position of a quote within a field or a carriage return within a line."""
    strays = (
        *_stray_quotes(text, block, marks)[:1].tolist(),
        *_stray_returns(text, block)[:1].tolist(),
    )
    return sorted(strays)[:1]


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
    """Return positions of carriage returns outside quotes without a line feed after them."""
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


def _count_message(count: int, *, row: int, fields: int, blank: bool) -> str:
    if blank:
        return (
            f"{_row_name(row)} is blank, but the header has {fields} fields. Remove the line or "
            "fill it in."
        )
    return (
        f"{_row_name(row)} has {count} field{'s' if count != 1 else ''}, but the header has "
        f"{fields}. Correct the row (a field that contains the delimiter must be quoted), or set "
        "the delimiter."
    )


def _stray_message(row: int, *, is_return: bool) -> str:
    if is_return:
        return (
            f"{_row_name(row)} has a carriage return within a line. Remove it or quote the field."
        )
    return (
        f"{_row_name(row)} has a quote in the middle of a field. Quote the whole field and double "
        "the quotes in it; if quotes have no meaning in this file, set quote=''."
    )


def _row_name(row: int) -> str:
    return f"Row {row}" if row else "The header"


_SAMPLE_ROWS = 500
_FIELDS_PER_BATCH = 1 << 22
"""Number of fields examined at a time, which bounds the memory for long tables."""

_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = _DAY + r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_FINE_CLOCK = _CLOCK.replace("{1,6}", "{1,9}")
_ZONE = r"(Z|[+-][0-9]{2}:?[0-9]{2})$"
_WORDS = r"(?i:^(nan|[+-]?inf(inity)?)$)"


@dataclass(frozen=True)
class _ColumnType:
    """A type of column: the pattern of its values, and a parser (null if a value does not fit)."""

    pattern: str
    parse: Callable[[pl.Expr], pl.Expr]


def convert(texts: pl.DataFrame, *, decimal: str = ".") -> pl.DataFrame:
    """Convert columns to integers, floats, dates or datetimes if all of their values fit.

    Spaces around numbers and dates are ignored; in such columns a field of spaces is missing. Dates
    are ISO, or have a four-digit year and an unambiguous order: a column with 31/12/2024 or
    12/31/2024 is converted, a column with only 11/12/2024 is not.

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
    """Convert text columns to dates or datetimes if all of their values are in ISO format."""
    return _convert(frame, _ISO_DATES)


def find_decimal(texts: pl.DataFrame) -> str:
    """Return the decimal separator that makes more columns numeric; in a tie, a point."""
    fits = dict.fromkeys((".", ","), 0)
    for bare in _stripped_batches(texts):
        for sign in fits:
            numbers = bare[:, _matching(bare, _floats(sign).pattern)]
            point = _point(sign)
            fits[sign] += len(
                _where(numbers, pl.all().str.contains(f"[0-9]{point}|{point}[0-9]").any())
            )
    return "," if fits[","] > fits["."] else "."


def _convert(frame: pl.DataFrame, types: tuple[_ColumnType, ...]) -> pl.DataFrame:
    batches = _stripped_batches(frame)
    return frame.with_columns(
        [column for batch in batches for column in _convert_batch(batch, types)]
    )


def _stripped_batches(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield batches of text columns, stripped of spaces, with null for blank values."""
    texts = frame.select(pl.col(pl.String))
    width = max(1, _FIELDS_PER_BATCH // max(1, texts.height))
    stripped = pl.all().str.strip_chars(" ")
    for first in range(0, texts.width, width):
        yield texts[:, first : first + width].select(pl.when(stripped != "").then(stripped))


def _convert_batch(bare: pl.DataFrame, types: tuple[_ColumnType, ...]) -> Iterator[pl.Series]:
    """Return the columns that can be converted to the first type whose pattern they match."""
    unread = bare[:, _where(bare, pl.all().is_not_null().any())]
    for column_type in types:
        fitting = dict.fromkeys(_matching(unread, column_type.pattern))
        if fitting:
            texts = unread[:, list(fitting)]
            read = texts.select(column_type.parse(pl.all()))
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
    """Return the names of the columns for which the test is true."""
    return [answer.name for answer in frame.select(test) if answer.item()] if frame.width else []


def _point(sign: str) -> str:
    return r"\." if sign == "." else ","


def _floats(decimal: str) -> _ColumnType:
    point = _point(decimal)
    number = rf"^-?((0|[1-9][0-9]*)({point}[0-9]*)?|{point}[0-9]+)([eE][+-]?[0-9]+)?$"

    def read(bare: pl.Expr) -> pl.Expr:
        text = bare.str.replace(",", ".", literal=True) if decimal == "," else bare
        # Words such as "nan" alone do not make a column numeric.
        return pl.when(bare.str.contains(number).any()).then(
            text.str.to_lowercase().cast(pl.Float64, strict=False)
        )

    return _ColumnType(f"{number}|{_WORDS}", read)


def _read_integers(bare: pl.Expr) -> pl.Expr:
    # A number beyond 64 bits leaves the column as text: it is more likely a code than a quantity,
    # and a float would lose its digits.
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


def _day_or_month_first(sign: str) -> _ColumnType:
    """Return the type of dates that have the day or the month first.

    The order is the one in which all values are valid dates; if both are, nothing is converted.
    """

    def read(bare: pl.Expr) -> pl.Expr:
        by_day = _date(f"%d{sign}%m{sign}%Y")(bare)
        by_month = _date(f"%m{sign}%d{sign}%Y")(bare)
        day_fits = by_day.null_count() == bare.null_count()
        month_fits = by_month.null_count() == bare.null_count()
        return (
            pl.when(day_fits & ~month_fits).then(by_day).when(month_fits & ~day_fits).then(by_month)
        )

    return _ColumnType(rf"^[0-9]{{1,2}}{sign}[0-9]{{1,2}}{sign}[0-9]{{4}}$", read)


_INTEGERS = _ColumnType(_INTEGER, _read_integers)
_ISO_DATES = (
    _ColumnType(_DAY + "$", _date("%Y-%m-%d")),
    _ColumnType(_CLOCK + "$", _clock("us", zoned=False)),
    _ColumnType(_FINE_CLOCK + "$", _clock("ns", zoned=False)),
    _ColumnType(_CLOCK + _ZONE, _clock("us", zoned=True)),
    _ColumnType(_FINE_CLOCK + _ZONE, _clock("ns", zoned=True)),
)
_OTHER_DATES = (
    _ColumnType(r"^[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}$", _date("%Y/%m/%d")),
    _ColumnType(r"^[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}$", _date("%d.%m.%Y")),
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


@dataclass(frozen=True, eq=False)
class ParsedCsv:
    """A frame, the dialect of its file, and notes on how values were read."""

    frame: pl.DataFrame
    dialect: Dialect
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Decoded:
    data: bytes
    encoding: str


def parse_csv(raw: bytes, options: ReadOptions, *, prefer: str = ",") -> ParsedCsv:
    """Parse CSV text, with each column in the narrowest type that fits all of its values.

    ``prefer`` is the delimiter to use in a tie. Empty fields, quoted or not, are missing. Whole
    numbers, numbers, ISO dates and datetimes, and dates in an unambiguous format are converted. A
    number with a leading zero or too large for 64 bits leaves its column as text.
    """
    decoded = _decode(raw, options.encoding)
    data = _skip_lines(_tidy(decoded.data), options.skip_rows)
    quote = _find_quote(data, options.quote)
    delimiter = options.delimiter or _find_delimiter(data, quote=quote, prefer=prefer)
    if delimiter == quote:
        raise OptionError(
            "delimiter is the same as the quote character of this file. Set quote as well "
            "(quote='' for none).",
            code="option.conflict",
            option="delimiter",
        )
    marks = Marks(ord(delimiter), ord(quote) if quote else None)
    decimal = options.decimal or ("," if options.thousands == "." else ".")
    dialect = Dialect(delimiter, decoded.encoding, quote, decimal)
    _check_title(data, marks)
    texts = _parse(data, measure(data, marks), dialect)
    texts = texts.select(_without(("", *options.na)))
    if options.decimal is None and options.thousands is None and delimiter == ";":
        dialect = replace(dialect, decimal=find_decimal(texts))
    plain, notes = ungroup(texts, decimal=dialect.decimal, thousands=options.thousands)
    return ParsedCsv(convert(plain, decimal=dialect.decimal), dialect, notes)


def _skip_lines(data: bytes, n_lines: int) -> bytes:
    start = 0
    for _ in range(n_lines):
        start = data.find(b"\n", start) + 1
        if start in (0, len(data)):
            raise OptionError(
                f"skip_rows is {n_lines}, but the file has no line of column names after as many "
                "lines. Use a smaller number.",
                code="option.out_of_range",
                option="skip_rows",
            )
    return data[start:]


_MAX_TITLE = 20
"""Number of lines that may come before the column names."""


def _check_title(data: bytes, marks: Marks) -> None:
    """Raise TableError if the file seems to begin with a title instead of column names.

    That is the case if the first lines have fewer fields than all lines after them, with a
    delimiter for which the first line is no header.
    """
    sample = data[:_SAMPLE]
    counts = count_fields(sample, marks)
    if counts.size and counts[0] > 1 and (counts == counts[0]).all():
        return
    candidates = dict.fromkeys((marks.delimiter, *map(ord, _DELIMITERS)))
    layouts = [
        _title_and_width(count_fields(sample, replace(marks, delimiter=delimiter)))
        for delimiter in candidates
    ]
    n_title, width = max(layouts, key=lambda item: item[1])
    if n_title:
        raise TableError(
            f"The first {count(n_title, 'line')} {'has' if n_title == 1 else 'have'} fewer "
            f"fields than the {width} of the lines after, like a title above the column "
            f"names. Skip them with skip_rows={n_title} (--skip-rows {n_title}).",
            code="table.malformed",
            skip_rows=n_title,
        )


def _title_and_width(counts: Integers) -> tuple[int, int]:
    """Return how many lines come before lines that all have the same, larger number of fields."""
    width = int(counts[-1]) if counts.size else 0
    n_title = int((counts == width).argmax()) if counts.size else 0
    fits = (counts[:n_title] < width).all() and (counts[n_title:] == width).all()
    if width < 2 or not 0 < n_title <= min(_MAX_TITLE, counts.size - 2) or not fits:
        return 0, 0
    return n_title, width


def _decode(raw: bytes, encoding: str | None) -> _Decoded:
    """Return the text in UTF-8 without a byte order mark, and its original encoding."""
    marked = next((name for mark, name in _BOMS if raw.startswith(mark)), None)
    if encoding is not None:
        encoding = _encoding_name(encoding)
        # The byte order mark is not part of the text, whatever encoding the caller set.
        if encoding == "utf-8" and marked == "utf-8-sig":
            encoding = marked
    certain = encoding or marked
    byte = line = 0
    failed = ""
    for name in (certain,) if certain else _GUESSES:
        try:
            return _Decoded(_to_utf8(raw, name), name.removesuffix("-sig"))
        except UnicodeDecodeError as error:
            if name == "utf-8" and error.reason == "unexpected end of data":
                raise TableError(
                    "The file ends within a character, so it seems to be truncated. Get the "
                    "complete file.",
                    code="table.bad_encoding",
                ) from None
            line = 1 + raw[: error.start].decode(name, "replace").count("\n")
            byte = error.start + 1
            failed = name.removesuffix("-sig")
    raise TableError(
        f"Byte {byte} (line {line}) is not valid {failed}. Set the encoding, for example "
        "windows-1252.",
        code="table.bad_encoding",
        byte=byte,
        line=line,
    )


def _encoding_name(encoding: str) -> str:
    try:
        "".encode(encoding)
        return codecs.lookup(encoding).name
    except (LookupError, TypeError):
        raise OptionError(
            "Unknown encoding. Try 'utf-8', 'windows-1252', 'latin-1' or 'utf-16'.",
            code="option.unknown",
            option="encoding",
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
    """Normalize line ends: no lone carriage returns, one line feed at the end."""
    null = data.find(b"\0")
    if null >= 0:
        line = 1 + data.count(b"\n", 0, null)
        raise TableError(
            f"Line {line} contains a null byte: the file is damaged or has another encoding. Set "
            "the encoding, for example utf-16-le.",
            code="table.bad_encoding",
            line=line,
        )
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    data = data.rstrip(b"\r\n")
    if not data:
        raise TableError(
            "The file is empty. It must start with a line of column names.", code="table.malformed"
        )
    return data + b"\n"


def _find_quote(data: bytes, quote: str | None) -> str:
    if quote is not None:
        return quote
    return "'" if data.startswith(b"'") and b'"' not in data[:_SAMPLE] else '"'


def _find_delimiter(data: bytes, *, quote: str, prefer: str) -> str:
    """Return the delimiter for which most of the first records have as many fields as the header.

    The header must have at least two fields.
    """
    sample = data[:_SAMPLE]
    candidates = (prefer, *(delimiter for delimiter in _DELIMITERS if delimiter != prefer))
    best = prefer
    best_score = (0.0, 1)
    for delimiter in candidates:
        counts = count_fields(sample, Marks(ord(delimiter), ord(quote) if quote else None))
        if not counts.size or counts[0] < 2:
            continue
        score = (float(np.mean(counts == counts[0])), int(counts[0]))
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _parse(data: bytes, shape: Shape, dialect: Dialect) -> pl.DataFrame:
    """Parse every field as text."""
    names = _header(data[: shape.header_end], dialect)
    body = data[shape.header_end + 1 :]
    if body.startswith(codecs.BOM_UTF8):
        body = codecs.BOM_UTF8 + body  # polars takes the first value's mark for that of a file
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
            "The file cannot be read as CSV. Check its delimiter and quotes.",
            code="table.malformed",
        ) from None
    if frame.height != shape.records - 1:
        raise TableError(
            f"The file has {count(shape.records - 1, 'row')}, but {frame.height:,} were parsed. "
            "Check its delimiter and quotes.",
            code="table.malformed",
            rows=frame.height,
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


def read_csv(path: Readable, options: ReadOptions, *, prefer: str = ",") -> Content:
    """Read a file of delimited text."""
    parsed = parse_csv(read_bytes(path), options, prefer=prefer)
    return Content(parsed.frame, parsed.dialect, notes=parsed.notes)


def write_csv(frame: pl.DataFrame, path: Path, origin: Origin, *, prefer: str = ",") -> None:
    """Write delimited text in UTF-8, in the dialect of the origin or with this delimiter."""
    dialect = origin.dialect or Dialect(delimiter=prefer)
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
