"""pandas data frames, reached through the objects that came in. Rows are positions, never index labels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from microcell.errors import TableError
from microcell.model import Integers, Mask
from microcell.tables._arrays import array_from, extract_array, extract_objects, object_array, pick_array
from microcell.tables._arrow import cast_arrow, extract_arrow, text_arrow
from microcell.tables._frames import Extract

__all__ = ["PandasFrame"]


class PandasFrame:
    """pandas data frames, NumPy-backed, nullable or Arrow-backed. Columns are series, cells pandas arrays."""

    def names(self, native: Any) -> list[Any]:
        """The column names."""
        return list(native.columns)

    def rows(self, native: Any) -> int:
        """The number of rows."""
        return len(native)

    def column(self, native: Any, name: str) -> Any:
        """The column of that name."""
        return native[name]

    def extract(self, name: str, column: Any) -> Extract:
        """The column as a polars series."""
        return _EXTRACTORS[_kind(column.dtype)](name, column)

    def pick(self, column: Any, rows: Integers, missing: Mask) -> Any:
        """The column's values in those rows."""
        if _kind(column.dtype) == "numpy":
            return pick_array(column.to_numpy(), rows, missing)
        taken = column.array.take(np.where(missing, -1, rows), allow_fill=True)
        if _kind(column.dtype) == "categorical" and not taken.ordered:
            return taken.remove_unused_categories()  # names that no record has any more are not published
        return taken

    def cast(self, column: Any, cells: Extract) -> Any:
        """The cells in the type of the column."""
        kind = _kind(column.dtype)
        if kind == "numpy":
            return array_from(cells, column.dtype)
        if kind == "arrow":
            return _from_arrow(column, cast_arrow(column.dtype.pyarrow_dtype, cells.series))
        if kind == "zoned":
            naive = array_from(cells, np.dtype(f"M8[{column.dtype.unit}]"))
            return _pandas(column).Series(naive).dt.tz_localize("UTC").astype(column.dtype).array
        return _pandas(column).array(cells.series.to_list(), dtype=column.dtype)

    def text(self, column: Any, cells: pl.Series) -> Any:
        """The cells in the column's own text type, or in that of its family (Arrow-backed, nullable), or the usual."""
        kind = _kind(column.dtype)
        if kind == "arrow":
            return _from_arrow(column, text_arrow(column.dtype.pyarrow_dtype, cells))
        if kind == "masked":
            return _pandas(column).array(cells.to_list(), dtype="string")
        if kind == "text":
            return _pandas(column).array(cells.to_list(), dtype=column.dtype)
        return _pandas(column).Series(object_array(cells.to_list())).infer_objects().array

    def spread(self, cells: Any, labels: Integers) -> Any:
        """The value of its cell for each record."""
        return cells.take(labels)

    def assemble(self, native: Any, names: Sequence[str], replaced: Mapping[str, Any]) -> Any:
        """The frame with those columns, its index kept."""
        frame = native[list(names)].copy()
        for name, column in replaced.items():
            frame[name] = column
        return frame

    def take(self, native: Any, rows: Integers) -> Any:
        """The frame's rows at those positions, index labels with them."""
        return native.iloc[rows]


def _kind(dtype: Any) -> str:
    """Which family of pandas types: numpy, arrow, zoned, categorical, text, masked or other."""
    if isinstance(dtype, np.dtype):
        return "numpy"
    return _KINDS.get(type(dtype).__name__, "masked" if hasattr(dtype, "numpy_dtype") else "other")


def _pandas(column: Any) -> Any:
    return nw.from_native(column, series_only=True).implementation.to_native_namespace()


def _extract_numpy(name: str, column: Any) -> Extract:
    return extract_array(name, column.to_numpy())


def _extract_arrow_backed(name: str, column: Any) -> Extract:
    return extract_arrow(name, column.array.__arrow_array__())


def _extract_others(name: str, column: Any) -> Extract:
    return Extract(extract_objects(name, column.tolist()))


def _extract_zoned(name: str, column: Any) -> Extract:
    naive = extract_array(name, column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    try:
        zoned = naive.series.dt.replace_time_zone("UTC").dt.convert_time_zone(str(column.dt.tz))
    except pl.exceptions.PolarsError:
        # A fixed offset is no zone that polars knows; the instants are the same.
        zoned = naive.series.dt.replace_time_zone("UTC")
    return Extract(zoned, unit=naive.unit)


def _extract_categorical(name: str, column: Any) -> Extract:
    categories = [str(item) for item in column.cat.categories]
    if len(set(categories)) != len(categories):
        raise TableError(f"Column {name!r} has categories that read the same as text. Rename all but one.")
    codes = column.cat.codes.to_numpy().astype(np.int64)
    index = pl.Series(codes).to_frame("code").select(pl.when(pl.col("code") >= 0).then(pl.col("code"))).to_series()
    values = pl.Series(name, categories, dtype=pl.Enum(categories) if column.cat.ordered else pl.String)
    return Extract(values.gather(index))


def _extract_masked(name: str, column: Any) -> Extract:
    missing = column.isna().to_numpy()
    filled = column.to_numpy(dtype=column.dtype.numpy_dtype, na_value=0)
    frame = pl.DataFrame({"value": filled, "missing": missing})
    series = frame.select(pl.when(~pl.col("missing")).then(pl.col("value"))).to_series()
    return Extract(series.rename(name))


def _from_arrow(column: Any, cells: Any) -> Any:
    pandas = _pandas(column)
    return pandas.array(cells, dtype=pandas.ArrowDtype(cells.type))


_KINDS = {
    "ArrowDtype": "arrow",
    "DatetimeTZDtype": "zoned",
    "CategoricalDtype": "categorical",
    "StringDtype": "text",
}
_EXTRACTORS: dict[str, Callable[[str, Any], Extract]] = {
    "numpy": _extract_numpy,
    "arrow": _extract_arrow_backed,
    "zoned": _extract_zoned,
    "categorical": _extract_categorical,
    "masked": _extract_masked,
    "text": _extract_others,
    "other": _extract_others,
}
