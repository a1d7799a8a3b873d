"""What each file format can hold, and whether a table fits it: known before anything is written."""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from microcell.errors import TableError
from microcell.tables._names import positions_of_twins

__all__ = ["check_fits"]

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
        short = self.most_bytes is None or len(name.encode("utf-8", "surrogatepass")) <= self.most_bytes
        return short and self.known(name) not in self.reserved and re.fullmatch(self.pattern, name) is not None

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
        _reserved("_all _b _coef _cons _n _N _pi _pred _rc _skip byte double float if in int long strL using with"),
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
        (".jsonl", ".ndjson"), _Limits("a JSON lines file", refused=_OPAQUE, most_number=sys.float_info.max)
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
        yield _Misfit((pl.Float32, pl.Float64), large, f"a number that is infinite or beyond {limits.most_number:g}")


def _check_values(frame: pl.DataFrame, misfit: _Misfit, product: str) -> None:
    suspects = frame.select(pl.col(misfit.types))
    wrong = [answer.name for answer in suspects.select(misfit.test.any()) if answer.item()] if suspects.width else []
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
