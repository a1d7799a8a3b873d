"""Digests of tables and files."""

import hashlib
import hmac
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from microcell._files import unreadable
from microcell.model import Table, Values
from microcell.tables.values import UNITS_PER_DAY, are_dates

__all__ = ["digest", "file_digest"]

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def digest(table: Table, *, key: bytes = b"") -> str:
    """Return the SHA-256 (in hex) of the table's contents, or their HMAC if ``key`` is set.

    It depends on column names and their order, types, values, missing values, categories and row
    order, but not on the frame or file type or an index. Datetimes that are all at midnight equal
    dates, because some frames have no date type.

    Examples
    --------
    >>> from microcell.tables import read
    >>> digest(read({"x": [1, 2]})) == digest(read({"x": [1, 2]}))
    True
    """
    state = hmac.new(key, digestmod=hashlib.sha256)
    state.update(f"{table.rows} {len(table.columns)}".encode())
    columns = list(table.columns.items())
    dates = [are_dates(values) for _, values in columns]
    for (name, values), are_all_dates in zip(columns, dates, strict=True):
        for part in _parts(name, values, dates=are_all_dates):
            state.update(len(part).to_bytes(8, "little"))
            state.update(part)
    return state.hexdigest()


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 (in hex) of a file."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from None


def _parts(name: str, values: Values, *, dates: bool) -> list[bytes]:
    categories = "".join(f"{len(item)}:{item}" for item in values.categories)
    storage = "date" if dates else values.storage
    return [
        name.encode("utf-8", "surrogatepass"),
        f"{storage} {values.ordered}".encode(),
        categories.encode("utf-8", "surrogatepass"),
        np.packbits(values.missing).tobytes(),
        *(part.tobytes() for part in _data(values, dates=dates)),
    ]


def _data(values: Values, *, dates: bool) -> list[NDArray[np.generic]]:
    """Return the data in a canonical form.

    Zero where missing, little-endian, times as seconds and nanoseconds, dates as days.
    """
    data = np.where(values.missing, np.zeros(1, values.data.dtype), values.data)
    if values.storage == "float":
        # Adding zero turns -0.0 into 0.0, which is equal to it.
        return [(data + 0.0).astype("<f8")]
    if dates:
        return [(data // UNITS_PER_DAY[str(values.unit)]).astype("<i8")]
    if values.unit in _PER_SECOND:
        per_second = _PER_SECOND[values.unit]
        seconds, rest = np.divmod(data, per_second)
        return [seconds.astype("<i8"), (rest * (10**9 // per_second)).astype("<i8")]
    return [data.astype("<i8")]
