"""Small tables built from plain lists, for tests."""

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np

from microcell.model import Table, Values


def values(items: Sequence[Any]) -> Values:
    missing = np.array([item is None for item in items], dtype=bool)
    present = [item for item in items if item is not None]
    if not present:
        return Values("empty", np.zeros(len(items)), missing)
    first = present[0]
    if isinstance(first, (str, bool)):
        categories = tuple(sorted({str(item) for item in present}))
        data = np.array([0 if item is None else categories.index(str(item)) for item in items])
        return Values(
            "text" if isinstance(first, str) else "boolean", data, missing, categories=categories
        )
    if isinstance(first, datetime.datetime):
        return _times("datetime", items, missing, "us")
    if isinstance(first, datetime.date):
        return _times("date", items, missing, "D")
    if any(isinstance(item, float) for item in present):
        return Values(
            "float",
            np.array([np.nan if item is None else item for item in items], dtype=float),
            missing,
        )
    return Values(
        "integer",
        np.array([0 if item is None else item for item in items], dtype=np.int64),
        missing,
    )


def _times(storage: Any, items: Sequence[Any], missing: Any, unit: str) -> Values:
    data = np.array(
        [0 if item is None else np.datetime64(item, unit).astype(np.int64) for item in items]
    )
    return Values(storage, data.astype(np.int64), missing, unit=unit)


def table(**columns: Sequence[Any] | np.ndarray | Values) -> Table:
    arrays = {}
    for name, column in columns.items():
        items = column.tolist() if isinstance(column, np.ndarray) else column
        arrays[name] = items if isinstance(items, Values) else values(items)
    rows = len(next(iter(arrays.values()))) if arrays else 0
    return Table(arrays, rows=rows, native=None)


def take(source: Table, rows: Any) -> Table:
    """Return these rows of the table, in this order."""
    rows = np.asarray(rows, dtype=np.int64)
    columns = {
        name: Values(v.storage, v.data[rows], v.missing[rows], v.categories, v.ordered, v.unit)
        for name, v in source.columns.items()
    }
    return Table(columns, rows=len(rows), native=None)
