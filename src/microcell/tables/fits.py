"""Check that a table fits the limits of a file format: names, types, sizes and values."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from microcell._display import listing
from microcell.errors import TableError
from microcell.tables.values import positions_of_duplicates

__all__ = ["NESTED", "OPAQUE", "Limits", "Naming", "check_fits"]

NESTED = (pl.List, pl.Array, pl.Struct)
OPAQUE = (pl.Binary, pl.Object)

_SHOWN = 6
"""Number of columns that an error names."""


@dataclass(frozen=True)
class Naming:
    """Rules for column names in a file format."""

    pattern: str
    description: str
    reserved: frozenset[str] = frozenset()
    max_bytes: int | None = None
    ignores_case: bool = False

    def allows(self, name: str) -> bool:
        short = (
            self.max_bytes is None or len(name.encode("utf-8", "surrogatepass")) <= self.max_bytes
        )
        return (
            short
            and self.key(name) not in self.reserved
            and re.fullmatch(self.pattern, name) is not None
        )

    def key(self, name: str) -> str:
        """Return the form of a name in which the format compares names."""
        return name.lower() if self.ignores_case else name


@dataclass(frozen=True)
class Limits:
    """Limits of a format: on names, types, the size of the table, texts and numbers."""

    product: str
    naming: Naming | None = None
    unsupported: tuple[type[pl.DataType], ...] = (*NESTED, *OPAQUE)
    max_rows: int | None = None
    max_columns: int | None = None
    max_text: int | None = None
    text_in: Literal["bytes", "characters"] = "bytes"
    max_number: float | None = None
    min_number: float | None = None
    """Smallest magnitude other than 0."""
    integers: int | None = None
    """Largest whole number that is stored exactly."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Regular expressions for texts that the format alters, and what is wrong with them."""
    keeps_empty: bool = False
    """Whether empty text differs from a missing value."""
    keeps_blank_rows: bool = True
    """Whether a row without any value is read back."""


@dataclass(frozen=True)
class _ValueLimit:
    """Values that a format cannot store: their types, a test, and a description."""

    types: tuple[type[pl.DataType], ...]
    test: pl.Expr
    description: str


def check_fits(frame: pl.DataFrame, limits: Limits, *, exact: bool = False) -> None:
    """Check that a file of a format with these limits can store the frame.

    If ``exact``, empty text must also differ from missing values in the file, and every row must be
    read back.

    Raises :class:`TableError`, naming the columns that do not fit.

    Examples
    --------
    >>> limits = Limits("a short file", max_rows=1)
    >>> check_fits(pl.DataFrame({"age": [31, 52]}), limits)
    Traceback (most recent call last):
    microcell.errors.TableError: A short file can have at most 1 rows and 1 columns; the table...
    """
    _check_size(frame, limits)
    if limits.naming is not None:
        _check_naming(frame.columns, limits.naming, limits.product)
    unsupported = [
        at for at, dtype in enumerate(frame.dtypes) if isinstance(dtype, limits.unsupported)
    ]
    if unsupported:
        raise TableError(
            f"{_columns(unsupported, frame.columns)} cannot be written to {limits.product}, which "
            "supports numbers, text, booleans, dates and times. Split it into such columns, "
            "remove it, or write .parquet.",
            code="table.format_limit",
            columns=[frame.columns[at] for at in unsupported],
        )
    plain = frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    for limit in _value_limits(limits, exact=exact):
        _check_values(plain, limit, limits.product)
    if not limits.keeps_blank_rows:
        _check_blank_rows(plain, limits.product, exact=exact)


def _check_size(frame: pl.DataFrame, limits: Limits) -> None:
    max_rows = limits.max_rows or frame.height
    max_columns = limits.max_columns or frame.width
    if frame.height > max_rows or frame.width > max_columns:
        raise TableError(
            f"{limits.product.capitalize()} can have at most {max_rows} rows and {max_columns} "
            f"columns; the table has {frame.height} and {frame.width}. Write .csv or .parquet.",
            code="table.format_limit",
            rows=frame.height,
            columns=frame.width,
        )


def _check_naming(names: Sequence[str], naming: Naming, product: str) -> None:
    invalid = [at for at, name in enumerate(names) if not naming.allows(name)]
    if invalid:
        raise TableError(
            f"{_columns(invalid, names)}: {product} requires names of {naming.description}. "
            f"Rename the column{'s' if len(invalid) > 1 else ''}, or write .parquet or .csv.",
            code="table.format_limit",
            columns=[names[at] for at in invalid],
        )
    for positions in positions_of_duplicates(naming.key(name) for name in names):
        raise TableError(
            f"{_columns([at - 1 for at in positions], names)} have the same name in {product}, "
            "which ignores case. Rename all but one, or write .parquet or .csv.",
            code="table.format_limit",
            columns=[names[at - 1] for at in positions],
        )


def _check_blank_rows(frame: pl.DataFrame, product: str, *, exact: bool) -> None:
    """Reject blank rows. Unless ``exact``, only those at the end, which would not be read back."""
    blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series().arg_true().to_list()
    if blank and (exact or blank[-1] == frame.height - 1):
        row = 1 + (blank[0] if exact else blank[-1])
        raise TableError(
            f"Row {row} has no value in any column, so {product} cannot store it. Write .parquet.",
            code="table.format_limit",
            row=row,
        )


def _value_limits(limits: Limits, *, exact: bool) -> Iterator[_ValueLimit]:
    for pattern, description in limits.texts.items():
        yield _ValueLimit((pl.String,), pl.all().str.contains(pattern), description)
    if exact and not limits.keeps_empty:
        yield _ValueLimit((pl.String,), pl.all() == "", "an empty text, which is not missing,")
    if limits.integers is not None:
        # Signed comparisons, because the smallest integer has no absolute value.
        beyond = (pl.all() > limits.integers) | (pl.all() < -limits.integers)
        description = f"a whole number beyond {limits.integers:,}"
        yield _ValueLimit((pl.Int64, pl.UInt64, pl.Int128), beyond, description)
    if limits.min_number is not None:
        small = (pl.all() != 0) & (pl.all().abs() < limits.min_number)
        description = f"a number closer to 0 than {limits.min_number:g}"
        yield _ValueLimit((pl.Float32, pl.Float64), small, description)
    if limits.max_text is not None:
        length = pl.all().str.len_bytes() if limits.text_in == "bytes" else pl.all().str.len_chars()
        description = f"text of more than {limits.max_text} {limits.text_in}"
        yield _ValueLimit((pl.String,), length > limits.max_text, description)
    if limits.max_number is not None:
        # NaN is a missing value, but polars compares it as larger than any number.
        large = pl.all().cast(pl.Float64).fill_nan(None).abs() > limits.max_number
        yield _ValueLimit(
            (pl.Float32, pl.Float64),
            large,
            f"a number that is infinite or larger than {limits.max_number:g}",
        )


def _check_values(frame: pl.DataFrame, limit: _ValueLimit, product: str) -> None:
    candidates = frame.select(pl.col(limit.types))
    columns = (
        [answer.name for answer in candidates.select(limit.test.any()) if answer.item()]
        if candidates.width
        else []
    )
    for name in columns:
        row = 1 + int(candidates[:, [name]].select(limit.test).to_series().arg_true()[0])
        raise TableError(
            f"{_columns([frame.columns.index(name)], frame.columns)} has {limit.description} in "
            f"row {row}, which {product} cannot store. Correct the value, or write .parquet.",
            code="table.format_limit",
            column=name,
            row=row,
        )


def _columns(positions: Sequence[int], names: Sequence[str]) -> str:
    shown = listing((f"{at + 1} ({names[at]!r})" for at in positions), most=_SHOWN)
    return f"Column{'s' * (len(positions) > 1)} {shown}"
