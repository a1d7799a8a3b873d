"""What the cells of a table publish, as plain values, and tables made of such values."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import filterfalse
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from microcell.errors import SchemaError, TableError
from microcell.model import Integers, Representatives, Table, Values
from microcell.tables.frames import ArrowFrame, PandasFrame, PolarsFrame, frame_of, to_polars, wrap
from microcell.tables.values import (
    DictFrame,
    Extract,
    Frame,
    Origin,
    has_clock,
    plain_texts,
    series_of_numbers,
    series_of_text,
    with_days,
)

__all__ = [
    "add_columns",
    "align",
    "publish",
    "replace_by_cells",
    "stack",
    "take",
    "values_of_cells",
]

_New = Mapping[str, NDArray[Any]]


def add_columns(table: Table, columns: _New) -> Table:
    """The table with the arrays as further columns, in the same kind of frame; what came in is not changed.

    Examples
    --------
    >>> import numpy as np
    >>> from microcell.tables import read
    >>> add_columns(read({"age": [20, 30]}), {"far": np.array([1.5, 2.0])}).native
    {'age': array([20, 30]), 'far': array([1.5, 2. ])}
    """
    for name, column in columns.items():
        if name in table.columns:
            raise TableError(f"The table has a column {name!r} already. Rename it.")
        if len(column) != table.rows:
            raise TableError(
                f"{len(column)} values of {name!r} for {table.rows} rows. Give one a row."
            )
    return wrap(_ADDERS[type(frame_of(table.native))](table.native, columns), table.origin)


def _add_to_dict(native: dict[str, NDArray[Any]], columns: _New) -> dict[str, NDArray[Any]]:
    return {**native, **columns}


def _add_to_polars(native: pl.DataFrame, columns: _New) -> pl.DataFrame:
    return native.with_columns(pl.Series(name, column) for name, column in columns.items())


def _add_to_pandas(native: Any, columns: _New) -> Any:
    # As lists, texts get the type that pandas gives to text.
    return native.assign(
        **{
            name: column.tolist() if column.dtype.kind in "UO" else column
            for name, column in columns.items()
        }
    )


def _add_to_arrow(native: Any, columns: _New) -> Any:
    for name, column in columns.items():
        array = pl.Series(name, column).to_arrow()
        native = native.append_column(
            name, array.cast("string") if column.dtype.kind in "UO" else array
        )
    return native


_ADDERS: dict[type, Callable[[Any, _New], Any]] = {
    DictFrame: _add_to_dict,
    PolarsFrame: _add_to_polars,
    PandasFrame: _add_to_pandas,
    ArrowFrame: _add_to_arrow,
}


_SHOWN = 12
_EXACT = 2**53
"""Whole numbers up to here are floats without loss."""


def align(first: Table, further: Table) -> Table:
    """The further table with its columns in the order of the first, refused if it could not be stacked below it.

    Column names must be the same, and so must the storages; whole numbers and others go together, and so does a
    column without any value with everything. In a file of the CSV family, whole numbers of a column that is text in
    the first table are text: such a file does not say what they are.

    Raises
    ------
    SchemaError
        A column is missing, new, or of another type: the error names it.

    Examples
    --------
    >>> from microcell.tables import read
    >>> align(read({"age": [20], "sex": ["f"]}), read({"sex": ["m"], "age": [30]})).names
    ('age', 'sex')
    """
    _check_kinds(first, further)
    _check_columns(first, further)
    frame = frame_of(further.native)
    plain = {} if further.origin.dialect is None else _plain_numbers(first, further)
    aligned = wrap(frame.assemble(further.native, list(first.names), plain), further.origin)
    for name in first.names:
        _check_types(name, first.columns[name], aligned.columns[name])
    return aligned


def stack(parts: Sequence[Table]) -> Table:
    """The records of all tables in the order given, in the frame type of the first; each was aligned to it before.

    Numbers are whole where all parts have whole ones. Ordered categories are those of the first, then those that are
    new. An index of pandas is kept.

    Examples
    --------
    >>> from microcell.tables import read
    >>> stack([read({"age": [20, 30]}), read({"age": [40]})]).native
    {'age': array([20, 30, 40])}
    """
    first, *others = parts
    if not others:
        return first
    try:
        native = _STACKERS[type(frame_of(first.native))]([part.native for part in parts])
    except (TypeError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise TableError(
            "The parts have columns of types that do not go together. Convert them to one type."
        ) from None
    stacked = wrap(
        native,
        replace(first.origin, path=None) if isinstance(first.origin, Origin) else first.origin,
    )
    for name in first.names:
        _check_stacked(name, stacked.columns[name], [part.columns[name] for part in parts])
    return stacked


# ---------------------------------------------------------------------------------------------- what is refused


def _check_kinds(first: Table, further: Table) -> None:
    kinds = [type(part.native).__module__.partition(".")[0] for part in (first, further)]
    if type(frame_of(first.native)) is not type(frame_of(further.native)):
        names = ["a dict of arrays" if kind == "builtins" else f"a {kind} table" for kind in kinds]
        raise TableError(
            f"The records so far are {names[0]}, and these are {names[1]}. Give both in one kind."
        )


def _check_columns(first: Table, further: Table) -> None:
    lacking = [name for name in first.names if name not in further.columns]
    strange = [name for name in further.names if name not in first.columns]
    if lacking:
        raise SchemaError(
            f"The batch lacks {_listing(lacking)}, which the base has. Give the same columns."
        )
    if strange:
        raise SchemaError(
            f"The batch has {_listing(strange)}, which the base has not. Give the same columns."
        )


def _check_types(name: str, first: Values, further: Values) -> None:
    if _can_stack(first, further):
        return
    raise SchemaError(
        f"Column {name!r} holds {first.storage} values in the base and {further.storage} values in the batch, the "
        f"first in row {np.argmin(further.missing) + 1} of it. Convert them to one type."
    )


def _can_stack(first: Values, further: Values) -> bool:
    if "empty" in (first.storage, further.storage) or first.storage == further.storage:
        return True
    if not (first.is_number and further.is_number):
        return False
    return all(
        np.abs(part.data[~part.missing]).max(initial=0) <= _EXACT
        for part in (first, further)
        if part.storage == "integer"
    )


def _check_stacked(name: str, stacked: Values, parts: Sequence[Values]) -> None:
    """Refuse a column that a library put together in a way that changed it."""
    present = [part for part in parts if part.storage != "empty"]
    expected = {part.storage for part in present} or {"empty"}
    storage = "float" if expected == {"integer", "float"} else next(iter(expected))
    missing = np.concatenate([part.missing for part in parts])
    if stacked.storage != storage or not np.array_equal(stacked.missing, missing):
        raise TableError(
            f"Column {name!r} has types in the parts that do not go together: time zones or sizes of numbers differ. "
            "Convert it to one type."
        )


def _listing(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    word = "column" if len(names) == 1 else "columns"
    return (
        f"{word} {shown}"
        if len(names) <= _SHOWN
        else f"{word} {shown} and {len(names) - _SHOWN} more"
    )


def _plain_numbers(first: Table, further: Table) -> dict[str, pl.Series]:
    """The columns of a text file that are whole numbers here and text in the first table, as text."""
    return {
        name: further.native.get_column(name).cast(pl.String)
        for name in first.names
        if first.columns[name].storage == "text" and further.columns[name].storage == "integer"
    }


# ---------------------------------------------------------------------------------------------- one function a kind


def _stack_dicts(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {name: _stack_arrays([part[name] for part in parts]) for name in parts[0]}


def _stack_arrays(parts: Sequence[Any]) -> Any:
    kinds = {part.dtype.kind for part in parts}
    if len(kinds) > 1 and not kinds <= set(
        "iuf"
    ):  # NumPy would make text of numbers that are missing
        parts = [part.astype(object) if part.dtype.kind in "biufU" else part for part in parts]
    return np.concatenate(parts)


def _stack_polars(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.DataFrame(
        _stack_series([part.get_column(name) for part in parts]) for name in parts[0].columns
    )


def _stack_series(parts: Sequence[pl.Series]) -> pl.Series:
    dtype = _common(list(filterfalse(_is_empty, parts)) or parts)
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
    gone = series.null_count() + (int(series.is_nan().sum()) if series.dtype.is_float() else 0)
    return gone == len(series)


def _stack_pandas(parts: Sequence[Any]) -> Any:
    return nw.from_native(parts[0]).implementation.to_native_namespace().concat(parts)


def _stack_arrow(parts: Sequence[Any]) -> Any:
    arrow = nw.from_native(parts[0]).implementation.to_native_namespace()
    return arrow.concat_tables(parts, promote_options="permissive")


_STACKERS: dict[type, Callable[[Sequence[Any]], Any]] = {
    DictFrame: _stack_dicts,
    PolarsFrame: _stack_polars,
    PandasFrame: _stack_pandas,
    ArrowFrame: _stack_arrow,
}

_UNITS = ("ms", "us", "ns")


def _common(parts: Sequence[pl.Series]) -> pl.DataType:
    """The type that holds the values of all parts, in which none is changed."""
    first, types = parts[0].dtype, [part.dtype for part in parts]
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


def publish(
    table: Table,
    labels: Integers,
    representatives: Mapping[str, Representatives],
    drop: Collection[str] = (),
) -> Table:
    """The table with its cells' representatives, in the same kind of frame, rows and columns in their order.

    Each value is made once a cell, in the column's own type, and given to all of its records: record i gets the value
    of cell ``labels[i]``. Columns in ``drop`` are left out, all others stay as they are, and so does a pandas index.

    Examples
    --------
    >>> import numpy as np
    >>> from microcell.tables import read
    >>> table = read({"age": [20, 30, 50], "name": ["a", "b", "c"]})
    >>> mean = Representatives("number", np.array([25.0, 50.0]), np.array([False, False]))
    >>> publish(table, np.array([0, 0, 1]), {"age": mean}, ["name"]).native
    {'age': array([25, 25, 50])}
    """
    unknown = [name for name in (*representatives, *drop) if name not in table.columns]
    if unknown:
        raise TableError(
            f"Not among the {len(table.names)} columns of the table: {', '.join(map(repr, unknown))}."
        )
    if len(labels) != table.rows:
        raise TableError(f"{len(labels)} labels for {table.rows} rows. Give one label a row.")
    frame = frame_of(table.native)
    dropped = set(drop)
    names = [name for name in table.names if name not in dropped]
    replaced = {
        name: frame.spread(_cells(frame, table, name, representatives[name]), labels)
        for name in names
        if name in representatives
    }
    return wrap(
        frame.assemble(table.native, names, replaced), _origin(table, set(names), representatives)
    )


def take(table: Table, rows: Integers) -> Table:
    """The table's rows at those positions, in that order; a pandas index goes along."""
    return wrap(frame_of(table.native).take(table.native, rows), table.origin)


def _cells(frame: Frame, table: Table, name: str, given: Representatives) -> Any:
    column = frame.column(table.native, name)
    if given.how == "row":
        return frame.pick(column, given.values, given.missing)
    if given.how == "text":
        return frame.text(column, series_of_text(given))
    extract = frame.extract(name, column)
    return frame.cast(column, Extract(series_of_numbers(name, extract, given), unit=extract.unit))


def _origin(
    table: Table, names: Collection[str], representatives: Mapping[str, Representatives]
) -> Origin:
    """The origin without the labels of columns that are gone, or whose values they no longer name."""
    origin: Origin = table.origin
    return replace(
        origin,
        labels={name: label for name, label in origin.labels.items() if name in names},
        value_labels={
            name: labels
            for name, labels in origin.value_labels.items()
            if name in names
            and (name not in representatives or _fits(labels, representatives[name]))
        },
        timed=origin.timed | {name for name in representatives if has_clock(table.columns[name])},
    )


def _fits(labels: Mapping[Any, str], given: Representatives) -> bool:
    if given.how == "number":
        return all(value in labels for value in set(given.values[~given.missing].tolist()))
    return given.how == "row"


def values_of_cells(
    table: Table, labels: Integers, names: Sequence[str]
) -> dict[str, tuple[Any, ...]]:
    """The values of a published table, one entry a cell, as JSON holds them: dates as ISO text, missing as None.

    Examples
    --------
    >>> from microcell.tables import read
    >>> values_of_cells(read({"age": [25, 25, 50]}), np.array([1, 1, 0]), ["age"])
    {'age': (50, 25)}
    """
    rows = np.zeros(int(labels.max()) + 1, dtype=np.int64)
    rows[labels[::-1]] = np.arange(len(labels))[::-1]
    frame = plain_texts(with_days(to_polars(table).select(list(names))[rows], table))
    dates = [name for name, dtype in frame.schema.items() if dtype == pl.Date]
    frame = frame.with_columns(pl.col(name).dt.to_string("iso") for name in dates)
    return {name: tuple(frame[name].to_list()) for name in names}


def replace_by_cells(
    table: Table, labels: Integers, values: Mapping[str, Sequence[Any]], keep: Collection[str] = ()
) -> Table:
    """The table with the values of each record's cell, the columns in ``keep``, and a column ``cell``; no others.

    Numbers stay numbers; everything else becomes text.
    """
    unknown = [name for name in keep if name not in table.columns]
    if unknown:
        raise TableError(
            f"No columns {', '.join(map(repr, unknown))} in the table to keep. Check their names."
        )
    published = {
        name: _as_representatives(table, name, values[name])
        for name in values
        if name in table.columns
    }
    drop = [name for name in table.names if name not in published and name not in keep]
    return add_columns(publish(table, labels, published, drop), {"cell": labels})


def _as_representatives(table: Table, name: str, values: Sequence[Any]) -> Representatives:
    missing = np.array([value is None for value in values], dtype=np.bool_)
    number = table.columns[name].is_number and all(
        isinstance(v, (int, float)) for v in values if v is not None
    )
    if number:
        return Representatives("number", np.array([0 if v is None else v for v in values]), missing)
    return Representatives(
        "text", np.array(["" if v is None else str(v) for v in values], dtype=object), missing
    )
