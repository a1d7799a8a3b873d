"""One record of plain values as a table, without what reads frames and files."""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from math import isnan
from typing import Any

import numpy as np

from microcell.errors import DataError, SchemaError
from microcell.model import EncodedColumn, Encoding, Table, Values

__all__ = ["as_table"]

_KNOWN = np.zeros(1, dtype=np.bool_)
_MOST = 2**63


def as_table(record: Any, encoding: Encoding) -> Table:
    """The record as a table of one row, with the columns of the encoding; what else it holds is not looked at.

    Raises :class:`SchemaError` for a column that is not there, :class:`DataError` for a value that is missing or of
    another type than the candidates had. Neither tells the value.
    """
    if not isinstance(record, Mapping):
        raise DataError("A record must be an object of values by name of a column.")
    parts = [(part, column) for column in encoding.columns for part in column.parts]
    lacking = [part for part, _ in parts if part not in record]
    if lacking:
        raise SchemaError(f"The record lacks {', '.join(map(repr, lacking))}. Give all quasi-identifiers by name.")
    missing = [part for part, _ in parts if _is_missing(record[part])]
    if missing:
        raise DataError(
            f"The record has no value for {', '.join(map(repr, missing))}. The cell depends on it: give one."
        )
    return Table({part: _as_values(part, column, record[part]) for part, column in parts}, rows=1, native=None)


def _is_missing(value: Any) -> bool:
    return (
        value is None or (isinstance(value, float) and isnan(value)) or (isinstance(value, str) and not value.strip())
    )


def _as_values(part: str, column: EncodedColumn, value: Any) -> Values:
    storage = "float" if column.kind in ("numeric", "location") else column.storage
    read, expected = _READERS[storage]
    try:
        values = read(value)
    except (TypeError, ValueError, OverflowError):
        values = None
    if values is None:
        raise DataError(f"The record's {part!r} must be {expected}, as it was for the candidates.")
    return values


def _read_number(value: Any) -> Values | None:
    """A whole number as such, for large ones are not floats; another as a float."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int) and -_MOST <= value < _MOST:
        return Values("integer", np.array([value], dtype=np.int64), _KNOWN)
    number = float(value)
    return None if np.isinf(number) else Values("float", np.array([number]), _KNOWN)


def _read_text(value: Any) -> Values | None:
    return _named("text", (str(value),), 0) if isinstance(value, str) else None


def _read_truth(value: Any) -> Values | None:
    return _named("boolean", ("false", "true"), int(value)) if isinstance(value, (bool, np.bool_)) else None


def _named(storage: Any, names: tuple[str, ...], code: int) -> Values:
    return Values(storage, np.array([code], dtype=np.int64), _KNOWN, categories=names)


def _read_moment(value: Any) -> Values | None:
    """A date, or a date and a time, in microseconds since 1970; of one with a time zone, in universal time."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value.strip())
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        return _counted("datetime", (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))
    if isinstance(value, date):
        return Values("date", np.array([value.toordinal() - date(1970, 1, 1).toordinal()]), _KNOWN, unit="D")
    return None


def _read_clock(value: Any) -> Values | None:
    if isinstance(value, str):
        value = time.fromisoformat(value.strip())
    if not isinstance(value, time):
        return None
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return _counted("time", seconds * 10**6 + value.microsecond)


def _read_duration(value: Any) -> Values | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, timedelta)):
        return None
    length = value if isinstance(value, timedelta) else timedelta(seconds=value)
    return _counted("duration", length // timedelta(microseconds=1))


def _counted(storage: Any, microseconds: int) -> Values:
    return Values(storage, np.array([microseconds], dtype=np.int64), _KNOWN, unit="us")


_READERS: dict[str, tuple[Callable[[Any], Values | None], str]] = {
    "integer": (_read_number, "a number"),
    "float": (_read_number, "a number"),
    "text": (_read_text, "text, in quotes"),
    "boolean": (_read_truth, "true or false"),
    "date": (_read_moment, "a date such as 2024-05-01"),
    "datetime": (_read_moment, "a date and time such as 2024-05-01T09:30:00"),
    "time": (_read_clock, "a time such as 09:30:00"),
    "duration": (_read_duration, "a number of seconds"),
    "empty": (lambda value: Values("empty", np.zeros(1, dtype=np.int64), ~_KNOWN), "anything"),  # noqa: ARG005
}
"""How a value of each storage is read, and how to say what is expected."""
