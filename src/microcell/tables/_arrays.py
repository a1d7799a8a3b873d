"""NumPy arrays and Python objects as columns, and dicts of them as frames."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isnan
from numbers import Integral, Real
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from microcell.errors import TableError
from microcell.model import Integers, Mask
from microcell.tables._frames import Extract

__all__ = ["DictFrame", "array_from", "as_arrays", "extract_array", "extract_objects", "object_array", "pick_array"]

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
        return object_array(cells.to_list()) if cells.null_count() else np.array(cells.to_list(), dtype=np.str_)

    def spread(self, cells: NDArray[Any], labels: Integers) -> NDArray[Any]:
        """The value of its cell for each record."""
        return np.asarray(cells[labels])

    def assemble(
        self, native: dict[str, NDArray[Any]], names: Sequence[str], replaced: Mapping[str, NDArray[Any]]
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
        listing = ", ".join(f"{name!r} has {len(column)}" for name, column in list(arrays.items())[:12])
        raise TableError(f"The columns are not of one length: {listing}. Give each one value a record.")
    return arrays


def extract_array(name: str, column: NDArray[Any]) -> Extract:
    """A NumPy array as a polars series."""
    if column.dtype.kind == "O":
        return Extract(extract_objects(name, column.tolist()))
    if column.dtype.kind in "Mm":
        return _extract_times(name, column)
    if column.dtype.kind not in "biufUT" or (column.dtype.kind == "f" and column.dtype.itemsize > 8):
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
        raise TableError(_mixed_message(name, [None if item is None else type(item) for item in values]))
    if "float" in present:
        values = [None if item is None else float(item) for item in values]
    try:
        return pl.Series(name, values, dtype=pl.Null if not present else None)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError, ValueError, OverflowError):
        raise TableError(f"Column {name!r} holds objects that do not make one type. Convert it to one.") from None


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
        picked[missing] = np.array("NaT" if column.dtype.kind in "Mm" else np.nan, dtype=column.dtype)
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
    if isinstance(column, (str, bytes)) or not (isinstance(column, Iterable) or hasattr(column, "__array__")):
        raise TableError(f"Column {name!r} is {type(column).__name__}, not an array or a list of values.")
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
        raise TableError(f"Column {name!r} has the NumPy type {column.dtype}. Convert it to nanoseconds or coarser.")
    return Extract(pl.Series(name, column.astype(f"{column.dtype.kind}8[{target}]")))


def _family(kind: type) -> str | None:
    return next((family for base, family in _FAMILIES if issubclass(kind, base)), None)


def _is_missing(item: Any) -> bool:
    if item is None or type(item).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(item, (float, np.floating, Decimal)) and isnan(item)


def _mixed_message(name: str, kinds: list[type | None]) -> str:
    row, first = next((row, kind) for row, kind in enumerate(kinds, start=1) if kind is not None)
    other = next((at for at, kind in enumerate(kinds, start=1) if kind and _family(kind) != _family(first)), None)
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
