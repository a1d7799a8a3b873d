"""Dates and times: counts of a unit, encoded like numbers and published as means."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from microcell._display import count
from microcell.errors import SchemaError
from microcell.kernels.arrays import Integers
from microcell.kinds.base import register
from microcell.kinds.column import Column, EncodedColumn
from microcell.kinds.groups import Groups
from microcell.kinds.numeric import NumericKind
from microcell.kinds.values import TIME_STORAGES, Representatives, Storage, Values

__all__ = ["DatetimeKind"]


_STEP = "month"
"""Default resolution of published ranges."""

_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120}


@register
class DatetimeKind(NumericKind):
    """Dates, datetimes, durations and times of day."""

    name = "datetime"
    representatives: ClassVar[tuple[str, ...]] = ("mean", "range")
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

    def resolve(self, column: Column, values: Values) -> Column:
        if column.publish == "range" and values.storage not in ("date", "datetime", "empty"):
            raise SchemaError(
                f"Column {column.name!r} has {values.storage} values, and only dates can be "
                "published as ranges. Publish the mean.",
                code="schema.wrong_kind",
                column=column.name,
                field="publish",
            )
        return super().resolve(column, values)

    def represent(
        self, column: Column, values: Sequence[Values], groups: Groups
    ) -> list[Representatives]:
        if column.publish != "range":
            return super().represent(column, values, groups)
        _, missing = groups.totals(values[0].missing)
        low, high = groups.extremes(values[0].data, values[0].missing)
        step = str(column.step or _STEP)
        texts = [
            _period_text(first, last, step)
            for first, last in zip(_days(values[0], low), _days(values[0], high), strict=True)
        ]
        return [Representatives("text", np.array(texts, dtype=object), missing)]

    def problems(self, fitted: EncodedColumn) -> Iterator[str]:
        yield from super().problems(fitted)
        if not isinstance(fitted.origin, int):
            yield "'origin' must be an integer for dates"


def _days(values: Values, counts: NDArray[Any]) -> list[np.datetime64]:
    """Return counts of a unit as days."""
    if values.unit is None:  # a column without values
        return [np.datetime64(0, "D")] * len(counts)
    times = counts.astype(np.int64).astype(f"datetime64[{values.unit}]")
    return list(times.astype("datetime64[D]"))


def _period_text(first: np.datetime64, last: np.datetime64, step: str) -> str:
    """Return the first day of the period of ``first`` and the last day of the period of ``last``.

    Examples
    --------
    >>> _period_text(np.datetime64("2020-02-03"), np.datetime64("2020-05-01"), "quarter")
    '2020-01-01 to 2020-06-30'
    """
    if step == "day":
        return f"{first} to {last}"
    months = _MONTHS[step]
    start, end = (
        int(day.astype("datetime64[M]").astype(np.int64)) // months for day in (first, last)
    )
    begin = np.datetime64(start * months, "M").astype("datetime64[D]")
    after = np.datetime64((end + 1) * months, "M").astype("datetime64[D]")
    return f"{begin} to {after - np.timedelta64(1, 'D')}"


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
