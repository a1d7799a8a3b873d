"""Columns as plain arrays: polars series to :class:`Values`, and numbers back to series."""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from microcell.errors import TableError
from microcell.model import Mask, Representatives, Storage, Values
from microcell.tables._frames import Extract, gather_index

__all__ = ["normalize", "series_of_numbers", "series_of_text"]

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
        raise TableError(f"Column {name!r} holds {_type_name(dtype)} values, so numbers cannot be published for it.")
    values = np.where(numbers.missing, np.zeros(1, numbers.values.dtype), numbers.values)
    cells = build(values, extract)
    return cells.gather(gather_index(np.arange(len(cells)), numbers.missing))


def series_of_text(texts: Representatives) -> pl.Series:
    """The strings as a series."""
    values = [None if gone else str(text) for text, gone in zip(texts.values, texts.missing, strict=True)]
    return pl.Series(values, dtype=pl.String)


def _missing(series: pl.Series) -> Mask:
    if series.dtype.is_float():
        gone: Mask = np.isnan(series.to_numpy())  # NumPy gets NaN for missing
        return gone
    # Questions of each value are asked only where there is need: of ten thousand short columns they take seconds.
    return series.is_null().to_numpy() if series.null_count() else np.zeros(len(series), dtype=np.bool_)


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
    counts = values.astype(np.int64) if values.dtype.kind in "iu" else np.rint(values).astype(np.int64)
    if extract.unit == "s":
        counts = counts * 1000
    physical = pl.Series(counts)
    return (physical.cast(pl.Int32) if extract.series.dtype == pl.Date else physical).cast(extract.series.dtype)


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
