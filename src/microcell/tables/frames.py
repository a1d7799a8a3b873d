"""Adapters for dicts, pandas, polars and pyarrow, and tables whose columns are read on demand."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import filterfalse
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from microcell.errors import TableError
from microcell.model import Integers, Mask, Origin, Table, Values
from microcell.tables.values import (
    Extract,
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
    "Frame",
    "cast_arrow",
    "extract_arrow",
    "frame_of",
    "text_arrow",
    "to_polars",
    "used_categories",
    "wrap",
]


class Frame(Protocol):
    """Adapter for a type of frame.

    Columns are the frame's own column objects; *cells* are columns with one value per cell.
    """

    def names(self, native: Any) -> list[Any]:
        """Return the column names."""

    def rows(self, native: Any) -> int:
        """Return the number of rows."""

    def column(self, native: Any, name: str) -> Any:
        """Return a column."""

    def extract(self, name: str, column: Any) -> Extract:
        """Convert a column to a polars series."""

    def pick(self, column: Any, rows: Integers, missing: Mask) -> Any:
        """Return the column's values in these rows, missing where ``missing`` is true."""

    def cast(self, column: Any, cells: Extract) -> Any:
        """Convert cells to the type of ``column``."""

    def text(self, column: Any, cells: pl.Series) -> Any:
        """Convert cells to the text type that matches ``column``."""

    def spread(self, cells: Any, labels: Integers) -> Any:
        """Return a column with the value of each record's cell."""

    def assemble(self, native: Any, names: Sequence[str], replaced: Mapping[str, Any]) -> Any:
        """Return the frame with these columns in this order, some of them replaced."""

    def take(self, native: Any, rows: Integers) -> Any:
        """Return the rows at these positions, in this order."""

    def add(self, native: Any, columns: Mapping[str, NDArray[Any]]) -> Any:
        """Return the frame with further columns."""

    def stack(self, parts: Sequence[Any]) -> Any:
        """Concatenate frames with the same columns."""


class DictFrame:
    """Adapter for dicts of NumPy arrays."""

    def names(self, native: dict[str, NDArray[Any]]) -> list[Any]:
        return list(native)

    def rows(self, native: dict[str, NDArray[Any]]) -> int:
        return len(next(iter(native.values()), ()))

    def column(self, native: dict[str, NDArray[Any]], name: str) -> NDArray[Any]:
        return native[name]

    def extract(self, name: str, column: NDArray[Any]) -> Extract:
        return extract_array(name, column)

    def pick(self, column: NDArray[Any], rows: Integers, missing: Mask) -> NDArray[Any]:
        return pick_array(column, rows, missing)

    def cast(self, column: NDArray[Any], cells: Extract) -> NDArray[Any]:
        return array_from(cells, column.dtype)

    def text(self, column: NDArray[Any], cells: pl.Series) -> NDArray[Any]:  # noqa: ARG002
        """Return an array of strings, or of objects if some are missing."""
        return (
            object_array(cells.to_list())
            if cells.null_count() or cells.str.ends_with("\0").any()
            else np.array(cells.to_list(), dtype=np.str_)
        )

    def spread(self, cells: NDArray[Any], labels: Integers) -> NDArray[Any]:
        return np.asarray(cells[labels])

    def assemble(
        self,
        native: dict[str, NDArray[Any]],
        names: Sequence[str],
        replaced: Mapping[str, NDArray[Any]],
    ) -> dict[str, NDArray[Any]]:
        return {name: replaced.get(name, native[name]) for name in names}

    def take(self, native: dict[str, NDArray[Any]], rows: Integers) -> dict[str, NDArray[Any]]:
        return {name: column[rows] for name, column in native.items()}

    def add(
        self, native: dict[str, NDArray[Any]], columns: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        return {**native, **columns}

    def stack(self, parts: Sequence[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
        return {name: _stack_arrays([part[name] for part in parts]) for name in parts[0]}


def _stack_arrays(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    kinds = {part.dtype.kind for part in parts}
    if len(kinds) > 1 and not kinds <= set("iuf"):  # NumPy would turn missing numbers into text.
        parts = [part.astype(object) if part.dtype.kind in "biufU" else part for part in parts]
    return np.concatenate(parts)


class ArrowFrame:
    """Adapter for pyarrow tables; columns are chunked arrays."""

    def names(self, native: Any) -> list[Any]:
        return list(native.column_names)

    def rows(self, native: Any) -> int:
        return int(native.num_rows)

    def column(self, native: Any, name: str) -> Any:
        return native.column(name)

    def extract(self, name: str, column: Any) -> Extract:
        return extract_arrow(name, column)

    def pick(self, column: Any, rows: Integers, missing: Mask) -> Any:
        taken = column.take(gather_index(rows, missing).to_arrow())
        if str(taken.type).startswith("dictionary") and not taken.type.ordered:
            # Encode again, so that unused categories are not published.
            return taken.cast(taken.type.value_type).dictionary_encode().cast(taken.type)
        return taken

    def cast(self, column: Any, cells: Extract) -> Any:
        return cast_arrow(column.type, cells.series)

    def text(self, column: Any, cells: pl.Series) -> Any:
        return text_arrow(column.type, cells)

    def spread(self, cells: Any, labels: Integers) -> Any:
        return cells.take(pl.Series(labels).to_arrow())

    def assemble(self, native: Any, names: Sequence[str], replaced: Mapping[str, Any]) -> Any:
        """Keep the table's metadata."""
        table = native.select(list(names))
        for position, name in enumerate(names):
            if name in replaced:
                field = table.schema.field(position).with_type(replaced[name].type)
                nullable = field.nullable or replaced[name].null_count > 0
                table = table.set_column(position, field.with_nullable(nullable), replaced[name])
        return table

    def take(self, native: Any, rows: Integers) -> Any:
        return native.take(pl.Series(rows).to_arrow())

    def add(self, native: Any, columns: Mapping[str, NDArray[Any]]) -> Any:
        for name, column in columns.items():
            array = pl.Series(name, column).to_arrow()
            text = column.dtype.kind in "UO"
            native = native.append_column(name, array.cast("string") if text else array)
        return native

    def stack(self, parts: Sequence[Any]) -> Any:
        return _library(parts[0]).concat_tables(parts, promote_options="permissive")


def extract_arrow(name: str, column: Any) -> Extract:
    """Convert a chunked array to a polars series."""
    kind = str(column.type)
    if kind.startswith("dictionary"):
        return _extract_dictionary(name, column)
    if kind.startswith("decimal256"):
        # polars supports decimals of at most 128 bits.
        return extract_arrow(name, column.cast("float64"))
    if kind == "date64[ms]":
        column = column.cast("date32")
    seconds = kind.startswith(("timestamp[s", "duration[s"))
    try:
        return Extract(pl.Series(name, column), unit="s" if seconds else None)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError, ValueError):
        raise TableError(
            f"Column {name!r} has the Arrow type {kind}, which is not supported. Cast it to "
            "numbers, text or times, or remove it.",
            code="table.unsupported_type",
            column=name,
        ) from None


def cast_arrow(target: Any, cells: pl.Series) -> Any:
    """Convert a polars series to an arrow array of type ``target``."""
    return cells.to_arrow().cast(target, safe=False)


def text_arrow(target: Any, cells: pl.Series) -> Any:
    """Convert strings to an arrow array of type ``target`` if that is a text type, else strings."""
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
    """Adapter for pandas data frames (NumPy-backed, nullable or Arrow-backed).

    Columns are series, and cells are pandas arrays.
    """

    def names(self, native: Any) -> list[Any]:
        return list(native.columns)

    def rows(self, native: Any) -> int:
        return len(native)

    def column(self, native: Any, name: str) -> Any:
        return native[name]

    def extract(self, name: str, column: Any) -> Extract:
        return _EXTRACTORS[_type_family(column.dtype)](name, column)

    def pick(self, column: Any, rows: Integers, missing: Mask) -> Any:
        if _type_family(column.dtype) == "numpy":
            return pick_array(column.to_numpy(), rows, missing)
        taken = column.array.take(np.where(missing, -1, rows), allow_fill=True)
        if _type_family(column.dtype) == "categorical":
            return taken.remove_unused_categories()  # Unused categories are not published.
        return taken

    def cast(self, column: Any, cells: Extract) -> Any:
        kind = _type_family(column.dtype)
        if kind == "numpy":
            return array_from(cells, column.dtype)
        if kind == "arrow":
            return _from_arrow(column, cast_arrow(column.dtype.pyarrow_dtype, cells.series))
        if kind == "zoned":
            naive = array_from(cells, np.dtype(f"M8[{column.dtype.unit}]"))
            return _library(column).Series(naive).dt.tz_localize("UTC").astype(column.dtype).array
        return _library(column).array(cells.series.to_list(), dtype=column.dtype)

    def text(self, column: Any, cells: pl.Series) -> Any:
        """Convert cells to the column's text type, or to that of its family (Arrow, nullable)."""
        kind = _type_family(column.dtype)
        if kind == "arrow":
            return _from_arrow(column, text_arrow(column.dtype.pyarrow_dtype, cells))
        if kind == "masked":
            return _library(column).array(cells.to_list(), dtype="string")
        if kind == "text":
            return _library(column).array(cells.to_list(), dtype=column.dtype)
        return _library(column).Series(object_array(cells.to_list())).infer_objects().array

    def spread(self, cells: Any, labels: Integers) -> Any:
        return cells.take(labels)

    def assemble(self, native: Any, names: Sequence[str], replaced: Mapping[str, Any]) -> Any:
        """Keep the frame's index."""
        frame = native[list(names)].copy()
        for name, column in replaced.items():
            frame[name] = column
        return frame

    def take(self, native: Any, rows: Integers) -> Any:
        return native.iloc[rows]

    def add(self, native: Any, columns: Mapping[str, NDArray[Any]]) -> Any:
        # From lists, pandas infers its own text type.
        return native.assign(
            **{
                name: column.tolist() if column.dtype.kind in "UO" else column
                for name, column in columns.items()
            }
        )

    def stack(self, parts: Sequence[Any]) -> Any:
        return _library(parts[0]).concat(parts)


def _library(native: Any) -> Any:
    """Return the library of a frame or series, as a module."""
    import narwhals as nw  # noqa: PLC0415

    return nw.from_native(native, allow_series=True).implementation.to_native_namespace()


def _type_family(dtype: Any) -> str:
    """Return the family of a type: numpy, arrow, zoned, categorical, text, masked or other."""
    if isinstance(dtype, np.dtype):
        return "numpy"
    return _FAMILIES.get(
        type(dtype).__name__, "masked" if hasattr(dtype, "numpy_dtype") else "other"
    )


def _extract_numpy(name: str, column: Any) -> Extract:
    return extract_array(name, column.to_numpy())


def _extract_arrow_backed(name: str, column: Any) -> Extract:
    return extract_arrow(name, column.array.__arrow_array__())


def _extract_objects(name: str, column: Any) -> Extract:
    return Extract(extract_objects(name, column.tolist()))


def _extract_zoned(name: str, column: Any) -> Extract:
    naive = extract_array(name, column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    try:
        zoned = naive.series.dt.replace_time_zone("UTC").dt.convert_time_zone(str(column.dt.tz))
    except pl.exceptions.PolarsError:
        # polars does not support fixed offsets; the instants are the same.
        zoned = naive.series.dt.replace_time_zone("UTC")
    return Extract(zoned, unit=naive.unit)


def _extract_categorical(name: str, column: Any) -> Extract:
    categories = [str(item) for item in column.cat.categories]
    if len(set(categories)) != len(categories):
        raise TableError(
            f"Column {name!r} has different categories with the same text. Rename all but one.",
            code="table.unsupported_type",
            column=name,
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
    pandas = _library(column)
    return pandas.array(cells, dtype=pandas.ArrowDtype(cells.type))


_FAMILIES = {
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
    "text": _extract_objects,
    "other": _extract_objects,
}


class PolarsFrame:
    """Adapter for polars data frames."""

    def names(self, native: pl.DataFrame) -> list[str]:
        return native.columns

    def rows(self, native: pl.DataFrame) -> int:
        return native.height

    def column(self, native: pl.DataFrame, name: str) -> pl.Series:
        return native.get_column(name)

    def extract(self, name: str, column: pl.Series) -> Extract:  # noqa: ARG002
        return Extract(column)

    def pick(self, column: pl.Series, rows: Integers, missing: Mask) -> pl.Series:
        taken = _detached(column.gather(gather_index(rows, missing)))
        return used_categories(taken) if isinstance(taken.dtype, pl.Enum) else taken

    def cast(self, column: pl.Series, cells: Extract) -> pl.Series:  # noqa: ARG002
        return cells.series

    def text(self, column: pl.Series, cells: pl.Series) -> pl.Series:  # noqa: ARG002
        return cells

    def spread(self, cells: pl.Series, labels: Integers) -> pl.Series:
        return cells.gather(pl.Series(labels))

    def assemble(
        self, native: pl.DataFrame, names: Sequence[str], replaced: Mapping[str, pl.Series]
    ) -> pl.DataFrame:
        return native.select(
            replaced[name].alias(name) if name in replaced else native.get_column(name)
            for name in names
        )

    def take(self, native: pl.DataFrame, rows: Integers) -> pl.DataFrame:
        taken = native[rows]
        return (
            taken
            if len(rows) == native.height
            else taken.with_columns(_detached(column) for column in taken)
        )

    def add(self, native: pl.DataFrame, columns: Mapping[str, NDArray[Any]]) -> pl.DataFrame:
        return native.with_columns(pl.Series(name, column) for name, column in columns.items())

    def stack(self, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return pl.DataFrame(
            _stack_series([part.get_column(name) for part in parts]) for name in parts[0].columns
        )


def used_categories(column: pl.Series) -> pl.Series:
    """Drop the unused categories of an Enum column, so that they are not published."""
    return column.cast(pl.Enum(column.drop_nulls().unique().sort().cast(pl.String)))


def _detached(column: pl.Series) -> pl.Series:
    """Copy the column's text.

    polars shares text buffers between columns: a column with some rows of another still contains
    the text of all rows in its buffers, and so would a pickle or Arrow file of it.
    """
    return (
        pl.Series(column.name, column.to_list(), dtype=column.dtype)
        if column.dtype == pl.String
        else column
    )


def _stack_series(parts: Sequence[pl.Series]) -> pl.Series:
    dtype = _common_type(list(filterfalse(_is_empty, parts)) or parts)
    name = parts[0].name
    return pl.concat(
        [
            pl.Series(name, [None], dtype=dtype).new_from_index(0, len(part))
            if _is_empty(part)
            else part.cast(dtype)
            for part in parts
        ]
    )


def _is_empty(series: pl.Series) -> bool:
    nan_count = int(series.is_nan().sum()) if series.dtype.is_float() else 0
    return series.null_count() + nan_count == len(series)


_UNITS = ("ms", "us", "ns")


def _common_type(parts: Sequence[pl.Series]) -> pl.DataType:
    """Return the type that can store the values of all parts unchanged."""
    types = [part.dtype for part in parts]
    first = types[0]
    if all(kind == first for kind in types):
        return first
    if isinstance(first, pl.Enum):
        names = [first.categories, *(_categories(part) for part in parts[1:])]
        return pl.Enum(pl.concat(names).unique(maintain_order=True))
    if isinstance(first, (pl.Datetime, pl.Duration)):
        finest = max((kind.time_unit for kind in types), key=_UNITS.index)  # type: ignore[attr-defined]
        if isinstance(first, pl.Duration):
            return pl.Duration(finest)
        zones = {kind.time_zone for kind in types}  # type: ignore[attr-defined]
        if None in zones and len(zones) > 1:
            raise TypeError
        return pl.Datetime(finest, first.time_zone)
    if first.is_numeric():
        empty = [pl.DataFrame(schema={"x": kind}) for kind in types]
        return pl.concat(empty, how="vertical_relaxed").schema["x"]
    return first


def _categories(part: pl.Series) -> pl.Series:
    return (
        part.dtype.categories
        if isinstance(part.dtype, pl.Enum)
        else part.cast(pl.String).drop_nulls().unique().sort()
    )


class _Columns(Mapping[str, Values]):
    """Columns as :class:`Values`, converted on first access and cached."""

    def __init__(self, native: Any, frame: Frame) -> None:
        self._native = native
        self._frame = frame
        self._names = dict.fromkeys(frame.names(native))
        self._cache: dict[str, Values] = {}

    def __getitem__(self, name: str) -> Values:
        if name not in self._cache:
            if name not in self._names:
                raise KeyError(name)
            column = self._frame.column(self._native, name)
            self._cache[name] = normalize(name, self._frame.extract(name, column))
        return self._cache[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def frame_of(native: Any) -> Frame:
    """Return the adapter for a frame."""
    if isinstance(native, dict):
        return DictFrame()
    if isinstance(native, pl.DataFrame):
        return PolarsFrame()
    import narwhals as nw  # noqa: PLC0415

    if nw.dependencies.is_pandas_dataframe(native):
        return PandasFrame()
    if nw.dependencies.is_pyarrow_table(native):
        return ArrowFrame()
    raise TableError(
        f"Cannot read a table from an object of type {type(native).__name__}. Pass a pandas, "
        "polars or pyarrow table, or a dict of arrays.",
        code="table.unsupported_type",
        type=type(native).__name__,
    )


def wrap(native: Any, origin: Origin) -> Table:
    """Return the frame as a table, after checking its column names."""
    frame = frame_of(native)
    check_names(frame.names(native))
    return Table(_Columns(native, frame), frame.rows(native), native, origin)


def to_polars(table: Table) -> pl.DataFrame:
    """Convert the table to a polars frame, without a pandas index, which may identify people."""
    if isinstance(table.native, pl.DataFrame):
        return table.native
    frame = frame_of(table.native)
    columns = (
        frame.extract(name, frame.column(table.native, name)).series.alias(name)
        for name in table.names
    )
    # NumPy and pandas use NaN for missing values.
    return pl.DataFrame(
        [column.fill_nan(None) if column.dtype.is_float() else column for column in columns]
    )
