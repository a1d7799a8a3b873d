"""Datetimes without a time of day: plain dates, that a frame has no type for."""

import polars as pl

from microcell.model import Table, Values
from microcell.tables._origin import Origin

__all__ = ["A_DAY", "are_days", "has_clock", "with_days"]

A_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
"""The length of a day in each unit of datetimes."""


def are_days(values: Values) -> bool:
    """True for datetimes that are all at midnight.

    Examples
    --------
    >>> from datetime import datetime
    >>> from microcell.tables import read
    >>> are_days(read({"at": [datetime(2024, 5, 1), None]}).columns["at"])
    True
    """
    return values.storage == "datetime" and not (values.data[~values.missing] % A_DAY[str(values.unit)]).any()


def has_clock(values: Values) -> bool:
    """True for datetimes of which one or more are not at midnight."""
    return values.storage == "datetime" and not are_days(values)


def with_days(frame: pl.DataFrame, table: Table) -> pl.DataFrame:
    """The frame, which holds columns of the table, with datetimes that are all at midnight as dates.

    Those with a time zone stay, and so do those that had a time of day before they were published.
    """
    timed = table.origin.timed if isinstance(table.origin, Origin) else ()
    return frame.with_columns(
        column.cast(pl.Date)
        for column in frame
        if _is_local(column.dtype) and column.name not in timed and are_days(table.columns[column.name])
    )


def _is_local(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.Datetime) and not dtype.time_zone
