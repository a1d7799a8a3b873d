"""Columns as plain arrays: polars series to :class:`Values`, and numbers back to series."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isnan
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from microcell.errors import TableError
from microcell.model import Integers, Mask, Representatives, Storage, Table, Values

__all__ = [
    "A_DAY",
    "Dialect",
    "DictFrame",
    "Extract",
    "Frame",
    "Origin",
    "are_days",
    "array_from",
    "as_arrays",
    "check_names",
    "extract_array",
    "extract_objects",
    "gather_index",
    "has_clock",
    "normalize",
    "object_array",
    "pick_array",
    "plain_texts",
    "positions_of_twins",
    "series_of_numbers",
    "series_of_text",
    "with_days",
]


@dataclass(frozen=True)
class Dialect:
    """How a file of the CSV family is written. ``quote`` is empty where quotes mean nothing."""

    delimiter: str = ","
    encoding: str = "utf-8"
    quote: str = '"'
    decimal: str = "."


@dataclass(frozen=True)
class Origin:
    """Where a table came from.

    ``path``, ``suffix`` and ``dialect`` are of the file; ``labels`` (column to label) and ``value_labels`` (column to
    value to label) come from statistical files; ``timed`` are published columns whose records had times of day.
    """

    source: Literal["dict", "frame", "file"]
    suffix: str | None = None
    dialect: Dialect | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    value_labels: Mapping[str, Mapping[Any, str]] = field(default_factory=dict)
    path: Path | None = None
    timed: frozenset[str] = frozenset()


_SHOWN = 6


def check_names(names: Sequence[Any]) -> None:
    """Nothing, if the names are text, not empty and each there once; :class:`TableError` else.

    The error gives positions and no names: in a file without a header the names are the first record's values.
    """
    if not names:
        raise TableError("The table has no columns. Give one with a column for each attribute.")
    for position, name in enumerate(names, start=1):
        if not isinstance(name, str):
            raise TableError(
                f"Column {position} has a name of type {type(name).__name__}. Give it a text name."
            )
        if not name.strip():
            raise TableError(
                f"Column {position} of {len(names)} has no name. Name it in the header, or remove it (a header that "
                "ends in a delimiter has one name too many)."
            )
    twins = positions_of_twins(names)
    if twins:
        each = "each " if len(twins) > 1 else ""
        raise TableError(
            f"{_listing(twins)} {each}have the same name. Rename all but one; if the file has no header, begin it with "
            "a line of column names."
        )


def positions_of_twins(names: Iterable[str]) -> list[list[int]]:
    """The positions, from 1, of each name that is there more than once.

    Examples
    --------
    >>> positions_of_twins(["age", "sex", "age"])
    [[1, 3]]
    """
    found: dict[str, list[int]] = {}
    for position, name in enumerate(names, start=1):
        found.setdefault(name, []).append(position)
    return [positions for positions in found.values() if len(positions) > 1]


def _listing(twins: list[list[int]]) -> str:
    """Columns 1 and 3, columns 2, 4 and 5."""
    groups = [
        f"columns {', '.join(map(str, positions[:-1]))} and {positions[-1]}"
        for positions in twins[:_SHOWN]
    ]
    more = [f"{len(twins) - _SHOWN} more such groups"] if len(twins) > _SHOWN else []
    return "; ".join([*groups, *more]).capitalize()


@dataclass(frozen=True, eq=False)
class Extract:
    """A column as a polars series, and its unit of time where polars has none such (``"s"``, kept as milliseconds)."""

    series: pl.Series
    unit: str | None = None


class Frame(Protocol):
    """A kind of frame. Columns are the frame's own column objects; *cells* are columns with one value a cell."""

    def names(self, native: Any) -> list[Any]:
        """The column names, as they are."""

    def rows(self, native: Any) -> int:
        """The number of rows."""

    def column(self, native: Any, name: str) -> Any:
        """The column of that name."""

    def extract(self, name: str, column: Any) -> Extract:
        """The column as a polars series."""

    def pick(self, column: Any, rows: Integers, missing: Mask) -> Any:
        """The column's values in those rows, missing where ``missing`` is true."""

    def cast(self, column: Any, cells: Extract) -> Any:
        """The cells in the type of ``column``."""

    def text(self, column: Any, cells: pl.Series) -> Any:
        """The cells in the text type that goes with ``column``."""

    def spread(self, cells: Any, labels: Integers) -> Any:
        """A column with the value of its cell for each record."""

    def assemble(self, native: Any, names: Sequence[str], replaced: Mapping[str, Any]) -> Any:
        """The frame with those columns, in that order, some of them replaced."""

    def take(self, native: Any, rows: Integers) -> Any:
        """The frame's rows at those positions, in that order."""


def gather_index(rows: Integers, missing: Mask) -> pl.Series:
    """Row numbers for a gather, null where ``missing`` is true."""
    frame = pl.DataFrame({"row": rows, "missing": missing})
    return frame.select(pl.when(~pl.col("missing")).then(pl.col("row"))).to_series()


_CLOCK = "%Y-%m-%dT%H:%M:%S%.f"


def plain_texts(frame: pl.DataFrame, *, keep: tuple[type[pl.DataType], ...] = ()) -> pl.DataFrame:
    """The frame with NaN as missing, and with categories, durations, datetimes and times of day as text.

    The types in ``keep`` stay as they are, but for datetimes with a time zone.

    Examples
    --------
    >>> from datetime import datetime
    >>> plain_texts(pl.DataFrame({"at": [datetime(2024, 5, 1, 9, 30)]})).item()
    '2024-05-01T09:30:00'
    """
    return frame.with_columns(_plain(column, keep) for column in frame)


def _plain(column: pl.Series, keep: tuple[type[pl.DataType], ...]) -> pl.Series:
    dtype = column.dtype
    if dtype.is_float():
        return column.fill_nan(None)
    if isinstance(dtype, (pl.Categorical, pl.Enum)):
        return column.cast(pl.String)
    if isinstance(dtype, pl.Datetime) and dtype.time_zone:
        return column.dt.to_string(_CLOCK + "%:z")
    text = _FORMATS.get(dtype.base_type())
    return column if text is None or isinstance(dtype, keep) else column.dt.to_string(text)


_FORMATS: dict[type[pl.DataType], str] = {
    pl.Duration: "iso",
    pl.Datetime: _CLOCK,
    pl.Time: "%H:%M:%S%.f",
}


A_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
"""The length of a day in each unit of datetimes."""


def are_days(values: Values) -> bool:
    """True for datetimes that are all at midnight.

    Examples
    --------
    >>> from datetime import datetime
    >>> from microcell.tables import read
    >>> are_days(read({"at": [datetime(2024, 5, 1), None]}).columns["at"])
    True
    """
    return (
        values.storage == "datetime"
        and not (values.data[~values.missing] % A_DAY[str(values.unit)]).any()
    )


def has_clock(values: Values) -> bool:
    """True for datetimes of which one or more are not at midnight."""
    return values.storage == "datetime" and not are_days(values)


def with_days(frame: pl.DataFrame, table: Table) -> pl.DataFrame:
    """The frame, which holds columns of the table, with datetimes that are all at midnight as dates.

    Those with a time zone stay, and so do those that had a time of day before they were published.
    """
    timed = table.origin.timed if isinstance(table.origin, Origin) else ()
    return frame.with_columns(
        column.cast(pl.Date)
        for column in frame
        if _is_local(column.dtype)
        and column.name not in timed
        and are_days(table.columns[column.name])
    )


def _is_local(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.Datetime) and not dtype.time_zone


_FAMILIES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (np.bool_, "boolean"),
    (Integral, "integer"),
    (Decimal, "decimal"),
    (Real, "float"),
    (str, "text"),
    (datetime, "datetime"),
    (date, "date"),
    (time, "time"),
    (timedelta, "duration"),
)
_COARSE = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s"}
_FINE = ("ms", "us", "ns")


class DictFrame:
    """Dicts of NumPy arrays."""

    def names(self, native: dict[str, NDArray[Any]]) -> list[Any]:
        """The keys."""
        return list(native)

    def rows(self, native: dict[str, NDArray[Any]]) -> int:
        """The length of the arrays."""
        return len(next(iter(native.values()), ()))

    def column(self, native: dict[str, NDArray[Any]], name: str) -> NDArray[Any]:
        """The array of that name."""
        return native[name]

    def extract(self, name: str, column: NDArray[Any]) -> Extract:
        """The array as a polars series."""
        return extract_array(name, column)

    def pick(self, column: NDArray[Any], rows: Integers, missing: Mask) -> NDArray[Any]:
        """The array's values in those rows."""
        return pick_array(column, rows, missing)

    def cast(self, column: NDArray[Any], cells: Extract) -> NDArray[Any]:
        """The cells in the type of the array."""
        return array_from(cells, column.dtype)

    def text(self, column: NDArray[Any], cells: pl.Series) -> NDArray[Any]:  # noqa: ARG002
        """The cells as an array of strings; of objects where some are missing."""
        return (
            object_array(cells.to_list())
            if cells.null_count()
            else np.array(cells.to_list(), dtype=np.str_)
        )

    def spread(self, cells: NDArray[Any], labels: Integers) -> NDArray[Any]:
        """The value of its cell for each record."""
        return np.asarray(cells[labels])

    def assemble(
        self,
        native: dict[str, NDArray[Any]],
        names: Sequence[str],
        replaced: Mapping[str, NDArray[Any]],
    ) -> dict[str, NDArray[Any]]:
        """The dict with those arrays."""
        return {name: replaced.get(name, native[name]) for name in names}

    def take(self, native: dict[str, NDArray[Any]], rows: Integers) -> dict[str, NDArray[Any]]:
        """The arrays' values at those positions."""
        return {name: column[rows] for name, column in native.items()}


def as_arrays(given: Mapping[Any, Any]) -> dict[Any, NDArray[Any]]:
    """The dict with every column as a one-dimensional array, all of one length."""
    arrays = {name: _as_array(name, column) for name, column in given.items()}
    lengths = {len(column) for column in arrays.values()}
    if len(lengths) > 1:
        listing = ", ".join(
            f"{name!r} has {len(column)}" for name, column in list(arrays.items())[:12]
        )
        raise TableError(
            f"The columns are not of one length: {listing}. Give each one value a record."
        )
    return arrays


def extract_array(name: str, column: NDArray[Any]) -> Extract:
    """A NumPy array as a polars series."""
    if column.dtype.kind == "O":
        return Extract(extract_objects(name, column.tolist()))
    if column.dtype.kind in "Mm":
        return _extract_times(name, column)
    if column.dtype.kind not in "biufUT" or (
        column.dtype.kind == "f" and column.dtype.itemsize > 8
    ):
        raise TableError(
            f"Column {name!r} has the NumPy type {column.dtype}, which is none of numbers, text, booleans and times. "
            "Convert it, or remove it."
        )
    return Extract(pl.Series(name, column))


def extract_objects(name: str, objects: list[Any]) -> pl.Series:
    """A list of Python objects of one type, some of them missing, as a polars series."""
    kinds = {kind: _family(kind) for kind in set(map(type, objects))}
    values = [None if _is_missing(item) else item for item in objects]
    present = {kinds[type(item)] for item in values if item is not None}
    if None in present or (len(present) > 1 and present != {"integer", "float"}):
        raise TableError(
            _mixed_message(name, [None if item is None else type(item) for item in values])
        )
    if "float" in present:
        values = [None if item is None else float(item) for item in values]
    try:
        return pl.Series(name, values, dtype=pl.Null if not present else None)
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        TypeError,
        ValueError,
        OverflowError,
    ):
        raise TableError(
            f"Column {name!r} holds objects that do not make one type. Convert it to one."
        ) from None


def array_from(cells: Extract, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A polars series as an array of type ``dtype``."""
    series = cells.series
    if dtype.kind == "O":
        return object_array(series.to_list())
    if dtype.kind in "Mm":
        unit = "D" if series.dtype == pl.Date else getattr(series.dtype, "time_unit", "us")
        counts = series.to_physical().cast(pl.Int64).fill_null(np.iinfo(np.int64).min).to_numpy()
        return counts.astype(f"{dtype.kind}8[{unit}]").astype(dtype)
    if series.null_count() and dtype.kind in "iu":
        return series.cast(pl.Float64).to_numpy()
    return series.to_numpy().astype(dtype)


def pick_array(column: NDArray[Any], rows: Integers, missing: Mask) -> NDArray[Any]:
    """The array's values in those rows, missing where ``missing`` is true."""
    picked = column[np.where(missing, 0, rows)] if len(column) else column[:0]
    if not missing.any():
        return picked
    if column.dtype.kind in "fMm":
        picked[missing] = np.array(
            "NaT" if column.dtype.kind in "Mm" else np.nan, dtype=column.dtype
        )
        return picked
    picked = picked.astype(object)
    picked[missing] = None
    return picked


def object_array(items: Sequence[Any]) -> NDArray[Any]:
    """A one-dimensional array of the objects, whatever they are."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _as_array(name: Any, column: Any) -> NDArray[Any]:
    if isinstance(column, (str, bytes)) or not (
        isinstance(column, Iterable) or hasattr(column, "__array__")
    ):
        raise TableError(
            f"Column {name!r} is {type(column).__name__}, not an array or a list of values."
        )
    if isinstance(column, np.ma.MaskedArray):
        return object_array(column.tolist())
    array = np.array(column) if hasattr(column, "__array__") else _array_of_items(list(column))
    if array.ndim != 1:
        raise TableError(f"Column {name!r} has {array.ndim} dimensions. Give one value a record.")
    return array


def _array_of_items(items: list[Any]) -> NDArray[Any]:
    """A list as an array of its own type; of objects where NumPy would change the items (1 and "a" to "1" and "a")."""
    families = {_family(kind) for kind in set(map(type, items))}
    plain = len(families) == 1 and families <= {"boolean", "integer", "float", "text"}
    array = np.array(items) if plain or families == {"integer", "float"} else object_array(items)
    return array if array.dtype.kind in "biufU" else object_array(items)


def _extract_times(name: str, column: NDArray[Any]) -> Extract:
    unit = np.datetime_data(column.dtype)[0]
    target = _COARSE.get(unit, unit)
    if column.dtype.kind == "m" and target == "D":
        target = "s"
    if target == "s":
        return Extract(pl.Series(name, column.astype(f"{column.dtype.kind}8[ms]")), unit="s")
    if target not in ("D", *_FINE):
        raise TableError(
            f"Column {name!r} has the NumPy type {column.dtype}. Convert it to nanoseconds or coarser."
        )
    return Extract(pl.Series(name, column.astype(f"{column.dtype.kind}8[{target}]")))


def _family(kind: type) -> str | None:
    return next((family for base, family in _FAMILIES if issubclass(kind, base)), None)


def _is_missing(item: Any) -> bool:
    if item is None or type(item).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(item, (float, np.floating, Decimal)) and isnan(item)


def _mixed_message(name: str, kinds: list[type | None]) -> str:
    row, first = next((row, kind) for row, kind in enumerate(kinds, start=1) if kind is not None)
    other = next(
        (at for at, kind in enumerate(kinds, start=1) if kind and _family(kind) != _family(first)),
        None,
    )
    if other is None:
        return (
            f"Column {name!r} holds objects of type {first.__name__} (row {row}). A column must hold numbers, text, "
            "booleans, dates or times: convert it, or remove it."
        )
    second = kinds[other - 1]
    return (
        f"Column {name!r} mixes types: {first.__name__} in row {row}, {second.__name__ if second else ''} in row "
        f"{other}. Convert it to one type."
    )


_STORAGES: dict[type[pl.DataType], Storage] = {
    **dict.fromkeys((pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128), "integer"),
    **dict.fromkeys((pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.UInt128), "integer"),
    **dict.fromkeys((pl.Float16, pl.Float32, pl.Float64, pl.Decimal), "float"),
    **dict.fromkeys((pl.String, pl.Categorical, pl.Enum), "text"),
    pl.Boolean: "boolean",
    pl.Date: "date",
    pl.Datetime: "datetime",
    pl.Duration: "duration",
    pl.Time: "time",
    pl.Null: "empty",
}
_INT64 = np.iinfo(np.int64)


def normalize(name: str, extract: Extract) -> Values:
    """The column as plain arrays; :class:`TableError` for types that are no attribute of a record (lists, bytes, ...).

    Examples
    --------
    >>> normalize("sex", Extract(pl.Series(["m", "f", None]))).categories
    ('f', 'm')
    """
    series = extract.series
    storage = _STORAGES.get(series.dtype.base_type())
    if storage is None:
        raise TableError(
            f"Column {name!r} holds {_type_name(series.dtype)} values. A column must hold numbers, text, booleans, "
            "dates or times: take it apart into such columns, or remove it."
        )
    missing = _missing(series)
    if missing.all() and (len(missing) or storage == "empty"):
        return Values("empty", np.zeros(len(missing), np.int64), missing)
    return _NORMALIZERS[storage](extract, missing, storage)


def series_of_numbers(name: str, extract: Extract, numbers: Representatives) -> pl.Series:
    """The numbers, in the scale of the column's :class:`Values`, as a series of the column's own type."""
    dtype = extract.series.dtype
    storage = _STORAGES.get(dtype.base_type())
    build = _BUILDERS.get(storage or "empty")
    if build is None:
        raise TableError(
            f"Column {name!r} holds {_type_name(dtype)} values, so numbers cannot be published for it."
        )
    values = np.where(numbers.missing, np.zeros(1, numbers.values.dtype), numbers.values)
    cells = build(values, extract)
    return cells.gather(gather_index(np.arange(len(cells)), numbers.missing))


def series_of_text(texts: Representatives) -> pl.Series:
    """The strings as a series."""
    values = [
        None if gone else str(text) for text, gone in zip(texts.values, texts.missing, strict=True)
    ]
    return pl.Series(values, dtype=pl.String)


def _missing(series: pl.Series) -> Mask:
    if series.dtype.is_float():
        gone: Mask = np.isnan(series.to_numpy())  # NumPy gets NaN for missing
        return gone
    # Questions of each value are asked only where there is need: of ten thousand short columns they take seconds.
    return (
        series.is_null().to_numpy()
        if series.null_count()
        else np.zeros(len(series), dtype=np.bool_)
    )


def _filled(series: pl.Series) -> pl.Series:
    return series.fill_null(0) if series.null_count() else series


def _integers(extract: Extract, missing: Mask, storage: Storage) -> Values:
    filled = _filled(extract.series)
    least, most = int(filled.min() or 0), int(filled.max() or 0)  # type: ignore[arg-type]
    if least < _INT64.min or most > _INT64.max:
        return _floats(extract, missing, "float")
    return Values(storage, filled.cast(pl.Int64).to_numpy(), missing)


def _floats(extract: Extract, missing: Mask, storage: Storage) -> Values:
    """The numbers as floats; as text where floats cannot tell them apart, lest different values count as one."""
    floats = extract.series.cast(pl.Float64)
    if not extract.series.dtype.is_float() and floats.n_unique() != extract.series.n_unique():
        return _texts(extract, missing, "text")
    return Values(storage, np.where(missing, 0.0, floats.to_numpy()), missing)


def _texts(extract: Extract, missing: Mask, storage: Storage) -> Values:
    series = extract.series
    if isinstance(series.dtype, pl.Enum):
        codes, categories = series.to_physical(), series.dtype.categories
    else:
        strings = series.cast(pl.String)
        categories = strings.drop_nulls().unique().sort()
        codes = strings.cast(pl.Enum(categories)).to_physical()
    data = _filled(codes).cast(pl.Int64).to_numpy()
    ordered = isinstance(series.dtype, pl.Enum)
    return Values(storage, data, missing, categories=tuple(categories.to_list()), ordered=ordered)


def _times(extract: Extract, missing: Mask, storage: Storage) -> Values:
    counts = _filled(extract.series.to_physical().cast(pl.Int64)).to_numpy()
    if extract.unit == "s":
        counts = counts // 1000
    return Values(storage, counts, missing, unit=extract.unit or _unit_of(extract.series.dtype))


def _unit_of(dtype: pl.DataType) -> str:
    if isinstance(dtype, (pl.Datetime, pl.Duration)):
        return dtype.time_unit
    return "D" if dtype == pl.Date else "ns"


def _build_integers(values: NDArray[Any], extract: Extract) -> pl.Series:
    dtype = extract.series.dtype
    low, high = int(dtype.min().pipe(_scalar)), int(dtype.max().pipe(_scalar))  # type: ignore[attr-defined]
    rounded = values if values.dtype.kind in "iu" else np.rint(values)
    # Python's integers: a float near the end of the range may round to just beyond it.
    return pl.Series([min(max(int(value), low), high) for value in rounded.tolist()], dtype=dtype)


def _scalar(expression: pl.Expr) -> Any:
    return pl.select(expression).item()


def _build_floats(values: NDArray[Any], extract: Extract) -> pl.Series:
    return pl.Series(values.astype(np.float64)).cast(extract.series.dtype)


def _build_times(values: NDArray[Any], extract: Extract) -> pl.Series:
    counts = (
        values.astype(np.int64) if values.dtype.kind in "iu" else np.rint(values).astype(np.int64)
    )
    if extract.unit == "s":
        counts = counts * 1000
    physical = pl.Series(counts)
    return (physical.cast(pl.Int32) if extract.series.dtype == pl.Date else physical).cast(
        extract.series.dtype
    )


def _type_name(dtype: pl.DataType) -> str:
    return str(dtype.base_type()).lower()


_NORMALIZERS: dict[Storage, Callable[[Extract, Mask, Storage], Values]] = {
    "integer": _integers,
    "float": _floats,
    "boolean": _texts,
    "text": _texts,
    "date": _times,
    "datetime": _times,
    "duration": _times,
    "time": _times,
}
_BUILDERS: dict[Storage, Callable[[NDArray[Any], Extract], pl.Series]] = {
    "integer": _build_integers,
    "float": _build_floats,
    "date": _build_times,
    "datetime": _build_times,
    "duration": _build_times,
    "time": _build_times,
}
