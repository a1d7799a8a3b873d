"""Add, replace and select columns and rows, keeping the type of frame."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from microcell.errors import TableError
from microcell.model import Integers, Origin, Representatives, Table
from microcell.tables.frames import Frame, PandasFrame, frame_of, to_polars, wrap
from microcell.tables.values import (
    Extract,
    as_plain_types,
    has_times,
    series_from_numbers,
    series_from_texts,
    with_dates,
)

__all__ = [
    "add_columns",
    "publish",
    "replace_by_cells",
    "take",
    "values_of_cells",
]


def add_columns(table: Table, columns: Mapping[str, NDArray[Any]]) -> Table:
    """Add arrays as columns, in the same type of frame; the input is not modified.

    Examples
    --------
    >>> import numpy as np
    >>> from microcell.tables import read
    >>> add_columns(read({"age": [20, 30]}), {"far": np.array([1.5, 2.0])}).native
    {'age': array([20, 30]), 'far': array([1.5, 2. ])}
    """
    for name, column in columns.items():
        if name in table.columns:
            raise TableError(
                f"The table already has a column {name!r}. Rename it.",
                code="table.bad_names",
                column=name,
            )
        if len(column) != table.rows:
            raise TableError(
                f"Column {name!r} must have one value per row ({table.rows} in total), not "
                f"{len(column)}.",
                code="table.mismatch",
                column=name,
                rows=table.rows,
            )
    return wrap(frame_of(table.native).add(table.native, columns), table.origin)


def publish(
    table: Table,
    labels: Integers,
    representatives: Mapping[str, Representatives],
    drop: Collection[str] = (),
) -> Table:
    """Replace values by the representatives of the cells, in the same type of frame.

    Each representative is converted once per cell to the column's type: record i gets the value of
    cell ``labels[i]``. Columns in ``drop`` are removed; all others, and a pandas index, are kept.

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
            f"The table has no column{'s' * (len(unknown) > 1)} {', '.join(map(repr, unknown))}. "
            "Check the spelling.",
            code="schema.unknown_column",
            columns=unknown,
        )
    if len(labels) != table.rows:
        raise TableError(
            f"There must be one label per row ({table.rows} in total), not {len(labels)}.",
            code="table.mismatch",
            rows=table.rows,
        )
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


def take(table: Table, rows: Integers, *, keep_index: bool = True) -> Table:
    """Return the rows at these positions, in this order.

    A pandas index is kept or, with ``keep_index=False``, replaced by the new positions.
    """
    frame = frame_of(table.native)
    native = frame.take(table.native, rows)
    if not keep_index and isinstance(frame, PandasFrame):
        native = native.reset_index(drop=True)
    return wrap(native, table.origin)


def _cells(frame: Frame, table: Table, name: str, representative: Representatives) -> Any:
    column = frame.column(table.native, name)
    if representative.how == "row":
        return frame.pick(column, representative.values, representative.missing)
    if representative.how == "text":
        return frame.text(column, series_from_texts(representative))
    extract = frame.extract(name, column)
    return frame.cast(
        column, Extract(series_from_numbers(name, extract, representative), unit=extract.unit)
    )


def _origin(
    table: Table, names: Collection[str], representatives: Mapping[str, Representatives]
) -> Origin:
    """Return the origin without labels of removed columns or values that no longer occur."""
    origin = table.origin
    published = {name: table.columns[name] for name in representatives}
    return replace(
        origin,
        labels={name: label for name, label in origin.labels.items() if name in names},
        value_labels={
            name: labels
            for name, labels in origin.value_labels.items()
            if name in names
            and (name not in representatives or _fits(labels, representatives[name]))
        },
        timed=origin.timed | {name for name, values in published.items() if has_times(values)},
    )


def _fits(labels: Mapping[Any, str], representative: Representatives) -> bool:
    if representative.how == "number":
        return all(
            value in labels
            for value in set(representative.values[~representative.missing].tolist())
        )
    return representative.how == "row"


def values_of_cells(
    table: Table, labels: Integers, names: Sequence[str]
) -> dict[str, tuple[Any, ...]]:
    """Return the values that a published table has in each cell, as JSON stores them.

    Dates are ISO text and missing values None.

    Examples
    --------
    >>> from microcell.tables import read
    >>> values_of_cells(read({"age": [25, 25, 50]}), np.array([1, 1, 0]), ["age"])
    {'age': (50, 25)}
    """
    rows = np.zeros(int(labels.max()) + 1, dtype=np.int64)
    rows[labels[::-1]] = np.arange(len(labels))[::-1]
    frame = as_plain_types(with_dates(to_polars(table).select(list(names))[rows], table))
    dates = [name for name, dtype in frame.schema.items() if dtype == pl.Date]
    frame = frame.with_columns(pl.col(name).dt.to_string("iso") for name in dates)
    return {name: tuple(frame[name].to_list()) for name in names}


def replace_by_cells(
    table: Table, labels: Integers, values: Mapping[str, Sequence[Any]], keep: Collection[str] = ()
) -> Table:
    """Return the values of each record's cell, the columns in ``keep``, and a column ``cell``.

    Numbers stay numbers; everything else becomes text.
    """
    unknown = [name for name in keep if name not in table.columns]
    if unknown:
        raise TableError(
            f"The table has no column{'s' * (len(unknown) > 1)} {', '.join(map(repr, unknown))} "
            "to keep. Check the spelling.",
            code="schema.unknown_column",
            columns=unknown,
            option="keep",
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
