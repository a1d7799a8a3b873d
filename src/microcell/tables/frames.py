"""Frames as tables: the right adapter for each kind, and columns read when first asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from microcell.errors import TableError
from microcell.model import Integers, Mask, Table, Values
from microcell.tables.values import (
    DictFrame,
    Extract,
    Frame,
    Origin,
    array_from,
    check_names,
    extract_array,
    extract_objects,
    gather_index,
    normalize,
    object_array,
    pick_array,
)

__all__ = [
    "ArrowFrame",
    "PandasFrame",
    "PolarsFrame",
    "cast_arrow",
    "extract_arrow",
    "frame_of",
    "text_arrow",
    "to_polars",
    "wrap",
]


class ArrowFrame:
    """pyarrow tables. Columns are chunked arrays."""

    def names(self, native: Any) -> list[Any]:
        """The column names."""
        return list(native.column_names)

    def rows(self, native: Any) -> int:
        """The number of rows."""
        return int(native.num_rows)

    def column(self, native: Any, name: str) -> Any:
        """The column of that name."""
        return native.column(name)

    def extract(self, name: str, column: Any) -> Extract:
        """The column as a polars series."""
        return extract_arrow(name, column)

    def pick(self, column: Any, rows: Integers, missing: Mask) -> Any:
        """The column's values in those rows."""
        taken = column.take(gather_index(rows, missing).to_arrow())
        if str(taken.type).startswith("dictionary") and not taken.type.ordered:
            # Encoded anew, so that names that no record has any more are not published.
            return taken.cast(taken.type.value_type).dictionary_encode().cast(taken.type)
        return taken

    def cast(self, column: Any, cells: Extract) -> Any:
        """The cells in the type of the column."""
        return cast_arrow(column.type, cells.series)

    def text(self, column: Any, cells: pl.Series) -> Any:
        """The cells in the column's own text type, or else plain strings."""
        return text_arrow(column.type, cells)

    def spread(self, cells: Any, labels: Integers) -> Any:
        """The value of its cell for each record."""
        return cells.take(pl.Series(labels).to_arrow())

    def assemble(self, native: Any, names: Sequence[str], replaced: Mapping[str, Any]) -> Any:
        """The table with those columns, its metadata kept."""
        table = native.select(list(names))
        for position, name in enumerate(names):
            if name in replaced:
                field = table.schema.field(position).with_type(replaced[name].type)
                nullable = field.nullable or replaced[name].null_count > 0
                table = table.set_column(position, field.with_nullable(nullable), replaced[name])
        return table

    def take(self, native: Any, rows: Integers) -> Any:
        """The table's rows at those positions."""
        return native.take(pl.Series(rows).to_arrow())


def extract_arrow(name: str, column: Any) -> Extract:
    """A chunked array as a polars series."""
    kind = str(column.type)
    if kind.startswith("dictionary"):
        return _extract_dictionary(name, column)
    if kind.startswith("decimal256"):
        # polars has decimals of 128 bits only.
        return extract_arrow(name, column.cast("float64"))
    if kind == "date64[ms]":
        column = column.cast("date32")
    seconds = kind.startswith(("timestamp[s", "duration[s"))
    try:
        return Extract(pl.Series(name, column), unit="s" if seconds else None)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError, ValueError):
        raise TableError(
            f"Column {name!r} has the Arrow type {kind}, which cannot be read. Cast it to numbers, text or times, or "
            "remove it."
        ) from None


def cast_arrow(target: Any, cells: pl.Series) -> Any:
    """A polars series as an arrow array of type ``target``."""
    return cells.to_arrow().cast(target, safe=False)


def text_arrow(target: Any, cells: pl.Series) -> Any:
    """A polars series of strings as an arrow array of type ``target`` if that is text, else of plain strings."""
    kept = str(target) if str(target) in ("string", "large_string", "string_view") else "string"
    return cells.to_arrow().cast(kept)


def _extract_dictionary(name: str, column: Any) -> Extract:
    if not column.type.ordered or not column.num_chunks:
        return extract_arrow(name, column.cast(column.type.value_type))
    unified = column.unify_dictionaries()
    categories = [str(item) for item in unified.chunk(0).dictionary.to_pylist()]
    codes = pl.concat(pl.Series(chunk.indices).cast(pl.Int64) for chunk in unified.chunks)
    return Extract(pl.Series(name, categories, dtype=pl.Enum(categories)).gather(codes))


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
            return (
                taken.remove_unused_categories()
            )  # names that no record has any more are not published
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
        raise TableError(
            f"Column {name!r} has categories that read the same as text. Rename all but one."
        )
    codes = column.cat.codes.to_numpy().astype(np.int64)
    index = (
        pl.Series(codes)
        .to_frame("code")
        .select(pl.when(pl.col("code") >= 0).then(pl.col("code")))
        .to_series()
    )
    values = pl.Series(
        name, categories, dtype=pl.Enum(categories) if column.cat.ordered else pl.String
    )
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


class PolarsFrame:
    """polars data frames."""

    def names(self, native: pl.DataFrame) -> list[str]:
        """The column names."""
        return native.columns

    def rows(self, native: pl.DataFrame) -> int:
        """The number of rows."""
        return native.height

    def column(self, native: pl.DataFrame, name: str) -> pl.Series:
        """The column of that name."""
        return native.get_column(name)

    def extract(self, name: str, column: pl.Series) -> Extract:  # noqa: ARG002
        """The column itself."""
        return Extract(column)

    def pick(self, column: pl.Series, rows: Integers, missing: Mask) -> pl.Series:
        """The column's values in those rows."""
        return _detached(column.gather(gather_index(rows, missing)))

    def cast(self, column: pl.Series, cells: Extract) -> pl.Series:  # noqa: ARG002
        """The cells, which have the column's type already."""
        return cells.series

    def text(self, column: pl.Series, cells: pl.Series) -> pl.Series:  # noqa: ARG002
        """The cells, which are strings already."""
        return cells

    def spread(self, cells: pl.Series, labels: Integers) -> pl.Series:
        """The value of its cell for each record."""
        return cells.gather(pl.Series(labels))

    def assemble(
        self, native: pl.DataFrame, names: Sequence[str], replaced: Mapping[str, pl.Series]
    ) -> pl.DataFrame:
        """The frame with those columns."""
        return native.select(
            replaced[name].alias(name) if name in replaced else native.get_column(name)
            for name in names
        )

    def take(self, native: pl.DataFrame, rows: Integers) -> pl.DataFrame:
        """The frame's rows at those positions."""
        taken = native[rows]
        return (
            taken
            if len(rows) == native.height
            else taken.with_columns(_detached(column) for column in taken)
        )


def _detached(column: pl.Series) -> pl.Series:
    """The column with text of its own.

    polars shares text between columns: one with some rows of another still has the text of all in its buffers, and
    so would have a pickle or an Arrow file of it.
    """
    return (
        pl.Series(column.name, column.to_list(), dtype=column.dtype)
        if column.dtype == pl.String
        else column
    )


class _Columns(Mapping[str, Values]):
    """Columns as plain arrays, each made when first asked for and then kept."""

    def __init__(self, native: Any, frame: Frame) -> None:
        self._native = native
        self._frame = frame
        self._names = dict.fromkeys(frame.names(native))
        self._known: dict[str, Values] = {}

    def __getitem__(self, name: str) -> Values:
        if name not in self._known:
            if name not in self._names:
                raise KeyError(name)
            column = self._frame.column(self._native, name)
            self._known[name] = normalize(name, self._frame.extract(name, column))
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def frame_of(native: Any) -> Frame:
    """The adapter for that kind of frame."""
    if isinstance(native, dict):
        return DictFrame()
    if isinstance(native, pl.DataFrame):
        return PolarsFrame()
    if nw.dependencies.is_pandas_dataframe(native):
        return PandasFrame()
    if nw.dependencies.is_pyarrow_table(native):
        return ArrowFrame()
    raise TableError(f"No table can be made of {type(native).__name__}.")


def wrap(native: Any, origin: Origin) -> Table:
    """The frame as a table, its names checked."""
    frame = frame_of(native)
    check_names(frame.names(native))
    return Table(_Columns(native, frame), frame.rows(native), native, origin)


def to_polars(table: Table) -> pl.DataFrame:
    """The table as a polars frame; an index of pandas stays out, for it may name people."""
    if isinstance(table.native, pl.DataFrame):
        return table.native
    frame = frame_of(table.native)
    columns = (
        frame.extract(name, frame.column(table.native, name)).series.alias(name)
        for name in table.names
    )
    # NaN is how NumPy and pandas say missing.
    return pl.DataFrame(
        [column.fill_nan(None) if column.dtype.is_float() else column for column in columns]
    )
