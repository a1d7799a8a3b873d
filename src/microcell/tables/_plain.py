"""Columns that a file format has no type for, as ISO text."""

import polars as pl

__all__ = ["plain_texts"]

_CLOCK = "%Y-%m-%dT%H:%M:%S%.f"


def plain_texts(frame: pl.DataFrame, *, keep: tuple[type[pl.DataType], ...] = ()) -> pl.DataFrame:
    """The frame with NaN as missing, and with categories, durations, datetimes and times of day as text.

    The types in ``keep`` stay as they are, but for datetimes with a time zone.

    Examples
    --------
    >>> from datetime import datetime
    >>> plain_texts(pl.DataFrame({"at": [datetime(2024, 5, 1, 9, 30)]})).item()
    '2024-05-01T09:30:00'
    """
    return frame.with_columns(_plain(column, keep) for column in frame)


def _plain(column: pl.Series, keep: tuple[type[pl.DataType], ...]) -> pl.Series:
    dtype = column.dtype
    if dtype.is_float():
        return column.fill_nan(None)
    if isinstance(dtype, (pl.Categorical, pl.Enum)):
        return column.cast(pl.String)
    if isinstance(dtype, pl.Datetime) and dtype.time_zone:
        return column.dt.to_string(_CLOCK + "%:z")
    text = _FORMATS.get(dtype.base_type())
    return column if text is None or isinstance(dtype, keep) else column.dt.to_string(text)


_FORMATS: dict[type[pl.DataType], str] = {pl.Duration: "iso", pl.Datetime: _CLOCK, pl.Time: "%H:%M:%S%.f"}
