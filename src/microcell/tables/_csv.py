"""CSV text to a frame: strict about records, faithful about values."""

import codecs
import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import StringIO

import numpy as np
import polars as pl

from microcell.errors import OptionError, TableError
from microcell.tables._fields import Marks, Shape, count_fields, measure
from microcell.tables._inference import convert, find_decimal
from microcell.tables._names import check_names
from microcell.tables._origin import Dialect

__all__ = ["CsvOptions", "ParsedCsv", "parse_csv"]

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
            raise OptionError("delimiter and quote are the same character. Give two different ones.")
        if self.decimal not in (None, ".", ","):
            raise OptionError(f"decimal must be '.' or ',', not {self.decimal!r}.")
        if isinstance(self.na, str) or not all(isinstance(word, str) for word in self.na):
            raise OptionError("na must be a list of words that stand for a missing value, for example ['NA', '-'].")
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
        raise OptionError("The delimiter given is the quote of this file. Give quote too; quote='' for none.")
    marks = Marks(ord(delimiter), ord(quote) if quote else None)
    dialect = Dialect(delimiter=delimiter, encoding=decoded.encoding, quote=quote, decimal=options.decimal or ".")
    texts = _parse(data, measure(data, marks), dialect)
    texts = texts.select(_without(("", *options.na)))
    if options.decimal is None and delimiter == ";":
        dialect = replace(dialect, decimal=find_decimal(texts))
    return ParsedCsv(convert(texts, decimal=dialect.decimal), dialect)


def _check_character(option: str, given: str | None, *, empty_allowed: bool) -> None:
    if given is None or (empty_allowed and given == ""):
        return
    if not (isinstance(given, str) and len(given) == 1 and given.isascii() and given not in "\r\n\0"):
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
                raise TableError("The file ends within a character: it seems cut. Get the whole file.") from None
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
            body, has_header=False, schema=schema, separator=dialect.delimiter, quote_char=dialect.quote or None
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise TableError("The file cannot be read as CSV. Check its delimiter and quotes.") from None
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
