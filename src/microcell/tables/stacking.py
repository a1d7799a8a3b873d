"""Concatenate tables with the same columns, keeping the type of frame."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from microcell._display import listing
from microcell.errors import SchemaError, TableError
from microcell.model import Table, Values
from microcell.tables.frames import frame_of, wrap

__all__ = ["align", "stack"]

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
        native = frame_of(first.native).stack([part.native for part in parts])
    except (TypeError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise TableError(
            "The parts have columns whose types cannot be combined. Convert them to one type.",
            code="table.mismatch",
        ) from None
    stacked = wrap(native, replace(first.origin, path=None))
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
            f"The batch does not have {_columns(lacking)} of the base. Both must have the same "
            "columns.",
            code="table.mismatch",
            columns=lacking,
        )
    if extra:
        raise SchemaError(
            f"The batch has {_columns(extra)}, which the base does not have. Both must have the "
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


def _columns(names: Sequence[str]) -> str:
    return f"column{'s' * (len(names) > 1)} {listing(map(repr, names))}"


def _numbers_as_text(first: Table, further: Table) -> dict[str, pl.Series]:
    """Return the columns of a text file with whole numbers that are text in the first table."""
    return {
        name: further.native.get_column(name).cast(pl.String)
        for name in first.names
        if first.columns[name].storage == "text" and further.columns[name].storage == "integer"
    }
