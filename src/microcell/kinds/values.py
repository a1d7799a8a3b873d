"""Columns of a table as plain arrays, and the values that cells publish."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from microcell._display import record_repr
from microcell.kernels.arrays import Floats, Integers, Mask

__all__ = [
    "NANOSECONDS",
    "NUMBER_STORAGES",
    "TIME_FAMILY",
    "TIME_STORAGES",
    "Representatives",
    "Storage",
    "Values",
    "count_in_unit",
]

Storage = Literal[
    "integer", "float", "boolean", "text", "date", "datetime", "duration", "time", "empty"
]

NUMBER_STORAGES: tuple[Storage, ...] = ("integer", "float")
TIME_STORAGES: tuple[Storage, ...] = ("date", "datetime", "duration", "time")

NANOSECONDS: Mapping[str, int] = {
    "D": 86_400 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}
"""Units in which dates and times are counted, and their length."""

TIME_FAMILY: Mapping[str, str] = {
    "date": "moment",
    "datetime": "moment",
    "duration": "duration",
    "time": "time of day",
}
"""Dates and times of the same family can be compared with each other."""


@dataclass(frozen=True, eq=False)
class Values:
    """One column of a table as plain arrays.

    Parameters
    ----------
    storage
        Type of the values.
    data
        int64 for integers, float64 for floats, codes into ``categories`` for text and booleans,
        and counts of ``unit`` since 1970 (for times of day: since midnight) for dates and times.
        Undefined where ``missing`` is true.
    missing
        True where the value is missing.
    categories
        Distinct texts, in their declared order if ``ordered``, sorted otherwise.
    unit
        Unit of dates and times, one of :data:`NANOSECONDS`.
    """

    storage: Storage
    data: NDArray[Any]
    missing: Mask
    categories: tuple[str, ...] = ()
    ordered: bool = False
    unit: str | None = None

    def __len__(self) -> int:
        return len(self.missing)

    def __repr__(self) -> str:
        return f"Values({self.storage!r}, {len(self)} rows, {int(self.missing.sum())} missing)"

    @property
    def is_number(self) -> bool:
        """True for integers and floats."""
        return self.storage in NUMBER_STORAGES

    @property
    def is_time(self) -> bool:
        """True for dates, datetimes, durations and times of day."""
        return self.storage in TIME_STORAGES

    def reals(self) -> Floats:
        """Return the data as float64, NaN where missing."""
        return np.where(self.missing, np.nan, self.data.astype(np.float64))

    def factorize(self) -> tuple[Integers, tuple[str, ...]]:
        """Return a code for each row (-1 where missing) and the name of each code, in order.

        Examples
        --------
        >>> Values("integer", np.array([7, 5, 7]), np.array([False, False, True])).factorize()
        (array([ 1,  0, -1]), ('5', '7'))
        """
        if self.storage in ("text", "boolean"):
            return np.where(self.missing, -1, self.data), self.categories
        codes = np.full(len(self), -1, dtype=np.int64)
        distinct, codes[~self.missing] = np.unique(self.data[~self.missing], return_inverse=True)
        unit = self.unit if self.is_time else None
        return codes, tuple(_category_name(value, unit) for value in distinct.tolist())

    def ranks(self, order: Sequence[str] | None) -> Integers:
        """Return the position of each value in ``order`` (default: sorted), -1 if it has none."""
        codes, names = self.factorize()
        if order is None:
            return codes
        position = {name: rank for rank, name in enumerate(order)}
        return np.array([*(position.get(name, -1) for name in names), -1], dtype=np.int64)[codes]


@dataclass(frozen=True, eq=False)
class Representatives:
    """Values that the cells publish for one column: one entry per cell.

    ``how`` says what ``values`` are: ``"row"``, numbers of rows of the original column whose value
    is published; ``"number"``, numbers to be cast to the column's type; ``"text"``, strings. A cell
    publishes a missing value where ``missing`` is true.
    """

    how: Literal["row", "number", "text"]
    values: NDArray[Any]
    missing: Mask

    __repr__ = record_repr


def count_in_unit(name: str, unit: str) -> str:
    """Convert the category name of a time to another unit, if the result is a whole number.

    Examples
    --------
    >>> count_in_unit("86400 s", "D"), count_in_unit("86401 s", "D")
    ('1 D', '86401 s')
    """
    count, _, old_unit = name.partition(" ")
    whole, rest = divmod(int(count) * NANOSECONDS[old_unit], NANOSECONDS[unit])
    return name if rest else f"{whole} {unit}"


def _category_name(value: float, unit: str | None) -> str:
    if unit is not None:
        return f"{value} {unit}"
    return str(int(value)) if float(value).is_integer() else repr(value)
