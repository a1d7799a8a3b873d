"""What the cells of a table publish, as plain values, and tables made of such values."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from microcell.errors import TableError
from microcell.model import Integers, Representatives, Table
from microcell.tables._adding import add_columns
from microcell.tables._days import with_days
from microcell.tables._plain import plain_texts
from microcell.tables._publishing import publish
from microcell.tables._wrapping import to_polars

__all__ = ["replace_by_cells", "values_of_cells"]


def values_of_cells(table: Table, labels: Integers, names: Sequence[str]) -> dict[str, tuple[Any, ...]]:
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
        raise TableError(f"No columns {', '.join(map(repr, unknown))} in the table to keep. Check their names.")
    published = {name: _as_representatives(table, name, values[name]) for name in values if name in table.columns}
    drop = [name for name in table.names if name not in published and name not in keep]
    return add_columns(publish(table, labels, published, drop), {"cell": labels})


def _as_representatives(table: Table, name: str, values: Sequence[Any]) -> Representatives:
    missing = np.array([value is None for value in values], dtype=np.bool_)
    number = table.columns[name].is_number and all(isinstance(v, (int, float)) for v in values if v is not None)
    if number:
        return Representatives("number", np.array([0 if v is None else v for v in values]), missing)
    return Representatives("text", np.array(["" if v is None else str(v) for v in values], dtype=object), missing)
