"""Tables of the same columns put below each other: batches of one table."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import filterfalse
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from microcell.errors import SchemaError, TableError
from microcell.model import Table, Values
from microcell.tables._arrays import DictFrame
from microcell.tables._arrow import ArrowFrame
from microcell.tables._origin import Origin
from microcell.tables._pandas import PandasFrame
from microcell.tables._polars import PolarsFrame
from microcell.tables._wrapping import frame_of, wrap

__all__ = ["align", "stack"]

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
        raise TableError("The parts have columns of types that do not go together. Convert them to one type.") from None
    stacked = wrap(native, replace(first.origin, path=None) if isinstance(first.origin, Origin) else first.origin)
    for name in first.names:
        _check_stacked(name, stacked.columns[name], [part.columns[name] for part in parts])
    return stacked


# ---------------------------------------------------------------------------------------------- what is refused


def _check_kinds(first: Table, further: Table) -> None:
    kinds = [type(part.native).__module__.partition(".")[0] for part in (first, further)]
    if type(frame_of(first.native)) is not type(frame_of(further.native)):
        names = ["a dict of arrays" if kind == "builtins" else f"a {kind} table" for kind in kinds]
        raise TableError(f"The records so far are {names[0]}, and these are {names[1]}. Give both in one kind.")


def _check_columns(first: Table, further: Table) -> None:
    lacking = [name for name in first.names if name not in further.columns]
    strange = [name for name in further.names if name not in first.columns]
    if lacking:
        raise SchemaError(f"The batch lacks {_listing(lacking)}, which the base has. Give the same columns.")
    if strange:
        raise SchemaError(f"The batch has {_listing(strange)}, which the base has not. Give the same columns.")


def _check_types(name: str, first: Values, further: Values) -> None:
    if _fits(first, further):
        return
    raise SchemaError(
        f"Column {name!r} holds {first.storage} values in the base and {further.storage} values in the batch, the "
        f"first in row {np.argmin(further.missing) + 1} of it. Convert them to one type."
    )


def _fits(first: Values, further: Values) -> bool:
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
    return f"{word} {shown}" if len(names) <= _SHOWN else f"{word} {shown} and {len(names) - _SHOWN} more"


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
    if len(kinds) > 1 and not kinds <= set("iuf"):  # NumPy would make text of numbers that are missing
        parts = [part.astype(object) if part.dtype.kind in "biufU" else part for part in parts]
    return np.concatenate(parts)


def _stack_polars(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.DataFrame(_stack_series([part.get_column(name) for part in parts]) for name in parts[0].columns)


def _stack_series(parts: Sequence[pl.Series]) -> pl.Series:
    dtype = _common(list(filterfalse(_is_empty, parts)) or parts)
    name = parts[0].name
    return pl.concat(
        [
            pl.Series(name, [None], dtype=dtype).new_from_index(0, len(part)) if _is_empty(part) else part.cast(dtype)
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
        part.dtype.categories if isinstance(part.dtype, pl.Enum) else part.cast(pl.String).drop_nulls().unique().sort()
    )
