"""Small tables built from plain lists, for tests."""

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np

from microcell.model import Table, Values


def values(items: Sequence[Any]) -> Values:
    missing = np.array([item is None for item in items], dtype=bool)
    known = [item for item in items if item is not None]
    if not known:
        return Values("empty", np.zeros(len(items)), missing)
    first = known[0]
    if isinstance(first, (str, bool)):
        categories = tuple(sorted({str(item) for item in known}))
        data = np.array([0 if item is None else categories.index(str(item)) for item in items])
        return Values(
            "text" if isinstance(first, str) else "boolean", data, missing, categories=categories
        )
    if isinstance(first, datetime.datetime):
        return _times("datetime", items, missing, "us")
    if isinstance(first, datetime.date):
        return _times("date", items, missing, "D")
    if any(isinstance(item, float) for item in known):
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
    made = {}
    for name, column in columns.items():
        plain = column.tolist() if isinstance(column, np.ndarray) else column
        made[name] = plain if isinstance(plain, Values) else values(plain)
    rows = len(next(iter(made.values()))) if made else 0
    return Table(made, rows=rows, native=None)


def take(source: Table, rows: Any) -> Table:
    """The table with these rows only, in this order."""
    rows = np.asarray(rows, dtype=np.int64)
    made = {
        name: Values(v.storage, v.data[rows], v.missing[rows], v.categories, v.ordered, v.unit)
        for name, v in source.columns.items()
    }
    return Table(made, rows=len(rows), native=None)
