"""Convert columns between NumPy arrays, polars series and :class:`Values`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isnan
from numbers import Integral, Real
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from microcell.errors import TableError
from microcell.model import Integers, Mask, Representatives, Storage, Table, Values

__all__ = [
    "UNITS_PER_DAY",
    "Extract",
    "are_dates",
    "array_from",
    "as_arrays",
    "as_plain_types",
    "check_names",
    "extract_array",
    "extract_objects",
    "gather_index",
    "has_times",
    "normalize",
    "object_array",
    "pick_array",
    "positions_of_duplicates",
    "series_from_numbers",
    "series_from_texts",
    "with_dates",
]


_MAX_LISTED = 6


def check_names(names: Sequence[Any]) -> None:
    """Check that column names are text, not empty and unique.

    Errors contain positions instead of names: in a file without a header, the names are values of
    the first record.
    """
    if not names:
        raise TableError(
            "The table has no columns. Pass a table with at least one.",
            code="table.bad_names",
        )
    for position, name in enumerate(names, start=1):
        if not isinstance(name, str):
            raise TableError(
                f"The name of column {position} has type {type(name).__name__}. Column names must "
                "be text.",
                code="table.bad_names",
                position=position,
            )
        if not name.strip():
            raise TableError(
                f"Column {position} of {len(names)} has no name. Name it in the header, or remove "
                "it (a header that ends with a delimiter has one name too many).",
                code="table.bad_names",
                position=position,
            )
    duplicates = positions_of_duplicates(names)
    if duplicates:
        each = "each " if len(duplicates) > 1 else ""
        raise TableError(
            f"{_describe_duplicates(duplicates)} {each}have the same name. Rename all but one; if "
            "the file has no header, add a line of column names.",
            code="table.bad_names",
            positions=duplicates,
        )


def positions_of_duplicates(names: Iterable[str]) -> list[list[int]]:
    """Return the positions (from 1) of each name that occurs more than once.

    Examples
    --------
    >>> positions_of_duplicates(["age", "sex", "age"])
    [[1, 3]]
    """
    positions_by_name: dict[str, list[int]] = {}
    for position, name in enumerate(names, start=1):
        positions_by_name.setdefault(name, []).append(position)
    return [positions for positions in positions_by_name.values() if len(positions) > 1]


def _describe_duplicates(duplicates: list[list[int]]) -> str:
    """Describe positions: "Columns 1 and 3; columns 2, 4 and 5"."""
    groups = [
        f"columns {', '.join(map(str, positions[:-1]))} and {positions[-1]}"
        for positions in duplicates[:_MAX_LISTED]
    ]
    more = [f"{len(duplicates) - _MAX_LISTED} more groups"] if len(duplicates) > _MAX_LISTED else []
    return "; ".join([*groups, *more]).capitalize()


@dataclass(frozen=True, eq=False)
class Extract:
    """A column as a polars series.

    ``unit`` is "s" for times in seconds, which polars lacks and the series stores as milliseconds.
    """

    series: pl.Series
    unit: str | None = None


def gather_index(rows: Integers, missing: Mask) -> pl.Series:
    """Return row numbers for ``gather``, null where ``missing`` is true."""
    frame = pl.DataFrame({"row": rows, "missing": missing})
    return frame.select(pl.when(~pl.col("missing")).then(pl.col("row"))).to_series()


_DATETIME_FORMAT = "%Y-%m-%dT%H:%M:%S%.f"


def as_plain_types(
    frame: pl.DataFrame, *, keep: tuple[type[pl.DataType], ...] = ()
) -> pl.DataFrame:
    """Convert categories, durations, datetimes and times to text, and NaN to null.

    The types in ``keep`` are not converted, except datetimes with a time zone.

    Examples
    --------
    >>> from datetime import datetime
    >>> as_plain_types(pl.DataFrame({"at": [datetime(2024, 5, 1, 9, 30)]})).item()
    '2024-05-01T09:30:00'
    """
    return frame.with_columns(_as_plain_type(column, keep) for column in frame)


def _as_plain_type(column: pl.Series, keep: tuple[type[pl.DataType], ...]) -> pl.Series:
    dtype = column.dtype
    if dtype.is_float():
        return column.fill_nan(None)
    if isinstance(dtype, (pl.Categorical, pl.Enum)):
        return column.cast(pl.String)
    if isinstance(dtype, pl.Datetime) and dtype.time_zone:
        return column.dt.to_string(_DATETIME_FORMAT + "%:z")
    text_format = _FORMATS.get(dtype.base_type())
    if text_format is None or isinstance(dtype, keep):
        return column
    return column.dt.to_string(text_format)


_FORMATS: dict[type[pl.DataType], str] = {
    pl.Duration: "iso",
    pl.Datetime: _DATETIME_FORMAT,
    pl.Time: "%H:%M:%S%.f",
}


UNITS_PER_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
"""Length of a day in each unit of datetimes."""


def are_dates(values: Values) -> bool:
    """Return whether the values are datetimes that are all at midnight.

    Examples
    --------
    >>> from datetime import datetime
    >>> from microcell.tables import read
    >>> are_dates(read({"at": [datetime(2024, 5, 1), None]}).columns["at"])
    True
    """
    return (
        values.storage == "datetime"
        and not (values.data[~values.missing] % UNITS_PER_DAY[str(values.unit)]).any()
    )


def has_times(values: Values) -> bool:
    """Return whether the values are datetimes, not all of them at midnight."""
    return values.storage == "datetime" and not are_dates(values)


def with_dates(frame: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Convert datetimes that are all at midnight to dates.

    ``frame`` has columns of ``table``. Columns with a time zone are not converted, nor columns that
    had times of day before they were published.
    """
    return frame.with_columns(
        column.cast(pl.Date)
        for column in frame
        if _is_local(column.dtype)
        and column.name not in table.origin.timed
        and are_dates(table.columns[column.name])
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
_COARSE_UNITS = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s"}
_FINE_UNITS = ("ms", "us", "ns")


def as_arrays(columns: Mapping[Any, Any]) -> dict[Any, NDArray[Any]]:
    """Convert every column of a dict to a one-dimensional array and check their lengths."""
    arrays = {name: _as_array(name, column) for name, column in columns.items()}
    lengths = {len(column) for column in arrays.values()}
    if len(lengths) > 1:
        listing = ", ".join(
            f"{name!r} has {len(column)}" for name, column in list(arrays.items())[:12]
        )
        raise TableError(
            f"The columns have different lengths: {listing}. Each needs one value per record.",
            code="table.malformed",
        )
    return arrays


def extract_array(name: str, column: NDArray[Any]) -> Extract:
    """Convert a NumPy array to a polars series."""
    if column.dtype.kind == "O":
        return Extract(extract_objects(name, column.tolist()))
    if column.dtype.kind in "Mm":
        return _extract_times(name, column)
    if column.dtype.kind not in "biufUT" or (
        column.dtype.kind == "f" and column.dtype.itemsize > 8
    ):
        raise TableError(
            f"Column {name!r} has the NumPy type {column.dtype}, which is not supported. Convert "
            "it to numbers, text, booleans or times, or remove it.",
            code="table.unsupported_type",
            column=name,
        )
    return Extract(pl.Series(name, column))


def extract_objects(name: str, objects: list[Any]) -> pl.Series:
    """Convert Python objects of one type, possibly with missing ones, to a polars series."""
    kinds = {kind: _family(kind) for kind in set(map(type, objects))}
    values = [None if _is_missing(item) else item for item in objects]
    present = {kinds[type(item)] for item in values if item is not None}
    if None in present or (len(present) > 1 and present != {"integer", "float"}):
        raise _mixed_types(name, [None if item is None else type(item) for item in values])
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
            f"Column {name!r} contains objects that cannot be stored as one type. Convert them.",
            code="table.unsupported_type",
            column=name,
        ) from None


def array_from(cells: Extract, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert a polars series to an array of type ``dtype``."""
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
    """Return the array's values in these rows, missing where ``missing`` is true."""
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
    """Return a one-dimensional array of objects, without conversion."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _as_array(name: Any, column: Any) -> NDArray[Any]:
    if isinstance(column, (str, bytes)) or not (
        isinstance(column, Iterable) or hasattr(column, "__array__")
    ):
        raise TableError(
            f"Column {name!r} is of type {type(column).__name__}, not an array or list of values.",
            code="table.unsupported_type",
            column=name,
        )
    if isinstance(column, np.ma.MaskedArray):
        return object_array(column.tolist())
    array = np.array(column) if hasattr(column, "__array__") else _array_of_items(list(column))
    if array.ndim != 1:
        raise TableError(
            f"Column {name!r} has {array.ndim} dimensions, but each record needs one value.",
            code="table.unsupported_type",
            column=name,
        )
    return array


def _array_of_items(items: list[Any]) -> NDArray[Any]:
    """Return an array of the items' type, or of objects if NumPy would convert the items."""
    families = {_family(kind) for kind in set(map(type, items))}
    plain = len(families) == 1 and families <= {"boolean", "integer", "float", "text"}
    if families == {"text"}:
        # NumPy removes NUL characters at the end of texts.
        plain = not any(item.endswith("\0") for item in items)
    array = np.array(items) if plain or families == {"integer", "float"} else object_array(items)
    return array if array.dtype.kind in "biufU" else object_array(items)


def _extract_times(name: str, column: NDArray[Any]) -> Extract:
    unit = np.datetime_data(column.dtype)[0]
    target = _COARSE_UNITS.get(unit, unit)
    if column.dtype.kind == "m" and target == "D":
        target = "s"
    if target == "s":
        return Extract(pl.Series(name, column.astype(f"{column.dtype.kind}8[ms]")), unit="s")
    if target not in ("D", *_FINE_UNITS):
        raise TableError(
            f"Column {name!r} has the NumPy type {column.dtype}. Convert it to nanoseconds or a "
            "coarser unit.",
            code="table.unsupported_type",
            column=name,
        )
    return Extract(pl.Series(name, column.astype(f"{column.dtype.kind}8[{target}]")))


def _family(kind: type) -> str | None:
    return next((family for base, family in _FAMILIES if issubclass(kind, base)), None)


def _is_missing(item: Any) -> bool:
    if item is None or type(item).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(item, (float, np.floating, Decimal)) and isnan(item)


def _mixed_types(name: str, kinds: list[type | None]) -> TableError:
    row, first = next((row, kind) for row, kind in enumerate(kinds, start=1) if kind is not None)
    other = next(
        (at for at, kind in enumerate(kinds, start=1) if kind and _family(kind) != _family(first)),
        None,
    )
    if other is None:
        return TableError(
            f"Column {name!r} contains objects of type {first.__name__} (row {row}). Columns must "
            "contain numbers, text, booleans, dates or times: convert it, or remove it.",
            code="table.unsupported_type",
            column=name,
            row=row,
        )
    second = kinds[other - 1]
    return TableError(
        f"Column {name!r} mixes types: {first.__name__} in row {row}, "
        f"{second.__name__ if second else ''} in row {other}. Convert it to one type.",
        code="table.unsupported_type",
        column=name,
        row=other,
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
    """Convert a column to :class:`Values`.

    Raises :class:`TableError` for types that are not supported (lists, bytes, ...).

    Examples
    --------
    >>> normalize("sex", Extract(pl.Series(["m", "f", None]))).categories
    ('f', 'm')
    """
    series = extract.series
    storage = _STORAGES.get(series.dtype.base_type())
    if storage is None:
        raise TableError(
            f"Column {name!r} contains {_type_name(series.dtype)} values. Columns must contain "
            "numbers, text, booleans, dates or times: split it into such columns, or remove it.",
            code="table.unsupported_type",
            column=name,
        )
    missing = _missing(series)
    if missing.all() and (len(missing) or storage == "empty"):
        return Values("empty", np.zeros(len(missing), np.int64), missing)
    return _NORMALIZERS[storage](extract, missing, storage)


def series_from_numbers(name: str, extract: Extract, numbers: Representatives) -> pl.Series:
    """Convert numbers, in the scale of the column's :class:`Values`, to a series of its type.

    A column without values that is not of numbers, as in a text file, stays empty, even if the
    numbers are the sums of other columns.
    """
    dtype = extract.series.dtype
    storage = _STORAGES.get(dtype.base_type())
    build = _BUILDERS.get(storage or "empty")
    is_empty = extract.series.null_count() == len(extract.series)
    if numbers.missing.all() or (is_empty and build is None):
        return pl.Series([None] * len(numbers.missing), dtype=dtype)
    if build is None:
        raise TableError(
            f"Column {name!r} contains {_type_name(dtype)} values, so numbers cannot be published "
            "for it.",
            code="table.unsupported_type",
            column=name,
        )
    values = np.where(numbers.missing, np.zeros(1, numbers.values.dtype), numbers.values)
    cells = build(values, extract)
    return cells.gather(gather_index(np.arange(len(cells)), numbers.missing))


def series_from_texts(texts: Representatives) -> pl.Series:
    """Convert strings to a series."""
    pairs = zip(texts.values, texts.missing, strict=True)
    values = [None if missing else str(text) for text, missing in pairs]
    return pl.Series(values, dtype=pl.String)


def _missing(series: pl.Series) -> Mask:
    if series.dtype.is_float():
        is_nan: Mask = np.isnan(series.to_numpy())  # polars converts nulls to NaN.
        return is_nan
    # is_null only where needed: for ten thousand short columns it takes seconds.
    return (
        series.is_null().to_numpy()
        if series.null_count()
        else np.zeros(len(series), dtype=np.bool_)
    )


def _filled(series: pl.Series) -> pl.Series:
    return series.fill_null(0) if series.null_count() else series


def _integers(extract: Extract, missing: Mask, storage: Storage) -> Values:
    filled = _filled(extract.series)
    low = int(filled.min() or 0)  # type: ignore[arg-type]
    high = int(filled.max() or 0)  # type: ignore[arg-type]
    if low < _INT64.min or high > _INT64.max:
        return _floats(extract, missing, "float")
    return Values(storage, filled.cast(pl.Int64).to_numpy(), missing)


def _floats(extract: Extract, missing: Mask, storage: Storage) -> Values:
    """Return floats, or text if different numbers would become equal floats."""
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
    low = int(_scalar(dtype.min()))  # type: ignore[attr-defined]
    high = int(_scalar(dtype.max()))  # type: ignore[attr-defined]
    rounded = values if values.dtype.kind in "iu" else np.rint(values)
    # Python integers: a float near the end of the range may round to a number beyond it.
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
