"""Dates and times: counts of a unit, encoded like numbers and published as means."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar

import numpy as np

from microcell._display import count
from microcell.errors import SchemaError
from microcell.kernels.arrays import Integers
from microcell.kinds.base import register
from microcell.kinds.column import EncodedColumn
from microcell.kinds.numeric import NumericKind
from microcell.kinds.values import TIME_STORAGES, Storage, Values

__all__ = ["DatetimeKind"]


@register
class DatetimeKind(NumericKind):
    """Dates, datetimes, durations and times of day."""

    name = "datetime"
    representatives: ClassVar[tuple[str, ...]] = ("mean",)
    storages: ClassVar[tuple[Storage, ...]] = TIME_STORAGES
    default_for: ClassVar[tuple[Storage, ...]] = TIME_STORAGES
    only_numbers = False

    def check_values(self, name: str, values: Values) -> None:
        if values.is_time:
            return
        where, details = "", dict[str, Any]()
        rows = _rows_without_date(values)
        if len(rows):
            row = int(rows[0]) + 1
            where = f" ({count(len(rows), 'value')}, first in row {row})"
            details = {"row": row, "count": len(rows)}
        raise SchemaError(
            f"Column {name!r} is declared datetime but contains {values.storage} values that are "
            f"not dates{where}. Write dates as YYYY-MM-DD, list the words that mark missing values "
            "with na (--na), or declare another kind.",
            code="schema.wrong_kind",
            column=name,
            kind=self.name,
            **details,
        )

    def problems(self, fitted: EncodedColumn) -> Iterator[str]:
        yield from super().problems(fitted)
        if not isinstance(fitted.origin, int):
            yield "'origin' must be an integer for dates"


def _rows_without_date(values: Values) -> Integers:
    """Return the rows whose value is neither missing nor a date in ISO format."""
    if values.storage == "empty":
        return np.empty(0, dtype=np.int64)
    if values.storage != "text":
        return np.flatnonzero(~values.missing)
    is_date = np.array([_is_date(text) for text in values.categories], dtype=bool)
    present = np.flatnonzero(~values.missing)
    without: Integers = present[~is_date[values.data[present]]]
    return without


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
