"""Concatenate tables with the same columns, keeping the type of frame."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import filterfalse
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from microcell.errors import SchemaError, TableError
from microcell.model import Table, Values
from microcell.tables.frames import (
    ArrowFrame,
    DictFrame,
    PandasFrame,
    PolarsFrame,
    frame_of,
    wrap,
)
from microcell.tables.values import Origin

__all__ = ["align", "stack"]

_MAX_LISTED = 12
_MAX_EXACT = 2**53
"""Largest whole number up to which floats are exact."""


def align(first: Table, further: Table) -> Table:
    """Put the columns of a further table in the order of the first, so that it can be stacked.

    Both must have the same column names and types. Whole numbers can be combined with floats, and a
    column without values with any type. In a CSV file, whole numbers in a column that is text in
    the first table are read as text.

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
    texts = {} if further.origin.dialect is None else _numbers_as_text(first, further)
    aligned = wrap(frame.assemble(further.native, list(first.names), texts), further.origin)
    for name in first.names:
        _check_types(name, first.columns[name], aligned.columns[name])
    return aligned


def stack(parts: Sequence[Table]) -> Table:
    """Concatenate aligned tables, in the frame type of the first.

    A column stays integer if it is integer in all parts. Ordered categories are those of the first
    part, followed by new ones. A pandas index is kept.

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
            "The parts have columns whose types cannot be combined. Convert them to one type.",
            code="table.mismatch",
        ) from None
    stacked = wrap(
        native,
        replace(first.origin, path=None) if isinstance(first.origin, Origin) else first.origin,
    )
    for name in first.names:
        _check_stacked(name, stacked.columns[name], [part.columns[name] for part in parts])
    return stacked


def _check_kinds(first: Table, further: Table) -> None:
    kinds = [type(part.native).__module__.partition(".")[0] for part in (first, further)]
    if type(frame_of(first.native)) is not type(frame_of(further.native)):
        names = ["a dict of arrays" if kind == "builtins" else f"a {kind} table" for kind in kinds]
        raise TableError(
            f"The base is {names[0]}, but the batch is {names[1]}. Use the same type of data "
            "frame for both.",
            code="table.mismatch",
        )


def _check_columns(first: Table, further: Table) -> None:
    lacking = [name for name in first.names if name not in further.columns]
    extra = [name for name in further.names if name not in first.columns]
    if lacking:
        raise SchemaError(
            f"The batch does not have {_listing(lacking)} of the base. Both must have the same "
            "columns.",
            code="table.mismatch",
            columns=lacking,
        )
    if extra:
        raise SchemaError(
            f"The batch has {_listing(extra)}, which the base does not have. Both must have the "
            "same columns.",
            code="table.mismatch",
            columns=extra,
        )


def _check_types(name: str, first: Values, further: Values) -> None:
    if _can_stack(first, further):
        return
    raise SchemaError(
        f"Column {name!r} has {first.storage} values in the base but {further.storage} values in "
        f"the batch, the first in row {np.argmin(further.missing) + 1} of the batch. Convert them "
        "to one type.",
        code="table.mismatch",
        column=name,
        row=int(np.argmin(further.missing)) + 1,
    )


def _can_stack(first: Values, further: Values) -> bool:
    if "empty" in (first.storage, further.storage) or first.storage == further.storage:
        return True
    if not (first.is_number and further.is_number):
        return False
    return all(
        np.abs(part.data[~part.missing]).max(initial=0) <= _MAX_EXACT
        for part in (first, further)
        if part.storage == "integer"
    )


def _check_stacked(name: str, stacked: Values, parts: Sequence[Values]) -> None:
    """Reject a column whose values a library changed while concatenating."""
    present = [part for part in parts if part.storage != "empty"]
    expected = {part.storage for part in present} or {"empty"}
    storage = "float" if expected == {"integer", "float"} else next(iter(expected))
    missing = np.concatenate([part.missing for part in parts])
    if stacked.storage != storage or not np.array_equal(stacked.missing, missing):
        raise TableError(
            f"Column {name!r} has types that cannot be combined: time zones or sizes of numbers "
            "differ. Convert it to one type in both tables.",
            code="table.mismatch",
            column=name,
        )


def _listing(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_MAX_LISTED])
    word = "column" if len(names) == 1 else "columns"
    return (
        f"{word} {shown}"
        if len(names) <= _MAX_LISTED
        else f"{word} {shown} and {len(names) - _MAX_LISTED} more"
    )


def _numbers_as_text(first: Table, further: Table) -> dict[str, pl.Series]:
    """Return the columns of a text file with whole numbers that are text in the first table."""
    return {
        name: further.native.get_column(name).cast(pl.String)
        for name in first.names
        if first.columns[name].storage == "text" and further.columns[name].storage == "integer"
    }


def _stack_dicts(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {name: _stack_arrays([part[name] for part in parts]) for name in parts[0]}


def _stack_arrays(parts: Sequence[Any]) -> Any:
    kinds = {part.dtype.kind for part in parts}
    if len(kinds) > 1 and not kinds <= set("iuf"):  # NumPy would turn missing numbers into text.
        parts = [part.astype(object) if part.dtype.kind in "biufU" else part for part in parts]
    return np.concatenate(parts)


def _stack_polars(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.DataFrame(
        _stack_series([part.get_column(name) for part in parts]) for name in parts[0].columns
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
