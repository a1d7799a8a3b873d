"""Small tables built from lists."""

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
    converted = {}
    for name, column in columns.items():
        plain = column.tolist() if isinstance(column, np.ndarray) else column
        converted[name] = plain if isinstance(plain, Values) else values(plain)
    rows = len(next(iter(converted.values()))) if converted else 0
    return Table(converted, rows=rows, native=None)


def take(source: Table, rows: Any) -> Table:
    """Select rows, in this order."""
    rows = np.asarray(rows, dtype=np.int64)
    taken = {
        name: Values(v.storage, v.data[rows], v.missing[rows], v.categories, v.ordered, v.unit)
        for name, v in source.columns.items()
    }
    return Table(taken, rows=len(rows), native=None)
