"""Tables: columns as plain arrays, and what each cell publishes of a column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from microcell.kernels.arrays import Floats, Integers, Mask

__all__ = ["Representatives", "Storage", "Table", "Values"]

Storage = Literal[
    "integer", "float", "boolean", "text", "date", "datetime", "duration", "time", "empty"
]


@dataclass(frozen=True, eq=False)
class Values:
    """One column of a table as plain arrays.

    ``data`` holds int64 for integers; float64 for floats; codes into ``categories`` for text and booleans; and a
    count of ``unit`` since 1970 (of midnight for times) for dates and times. Where ``missing`` is true, ``data``
    means nothing. ``categories`` are in their declared order if ``ordered``, else sorted.
    """

    storage: Storage
    data: NDArray[Any]
    missing: Mask
    categories: tuple[str, ...] = ()
    ordered: bool = False
    unit: str | None = None

    def __len__(self) -> int:
        return len(self.missing)

    @property
    def is_number(self) -> bool:
        """True for integers and floats."""
        return self.storage in ("integer", "float")

    @property
    def is_time(self) -> bool:
        """True for dates, datetimes, durations and times of day."""
        return self.storage in ("date", "datetime", "duration", "time")

    def reals(self) -> Floats:
        """The data as float64, NaN where missing."""
        return np.where(self.missing, np.nan, self.data.astype(np.float64))

    def factorize(self) -> tuple[Integers, tuple[str, ...]]:
        """A code for each row (-1 where missing) and the names of the codes: the distinct values, in order.

        Examples
        --------
        >>> Values("integer", np.array([7, 5, 7]), np.array([False, False, True])).factorize()
        (array([ 1,  0, -1]), ('5', '7'))
        """
        if self.storage in ("text", "boolean"):
            return np.where(self.missing, -1, self.data), self.categories
        codes = np.full(len(self), -1, dtype=np.int64)
        distinct, codes[~self.missing] = np.unique(self.data[~self.missing], return_inverse=True)
        return codes, tuple(
            _name_of(value, self.unit if self.is_time else None) for value in distinct.tolist()
        )

    def ranks(self, order: Sequence[str] | None) -> Integers:
        """The place of each row's value in ``order``, or among the sorted values; -1 where missing or not in it."""
        codes, names = self.factorize()
        if order is None:
            return codes
        place = {name: rank for rank, name in enumerate(order)}
        return np.array([*(place.get(name, -1) for name in names), -1], dtype=np.int64)[codes]


@dataclass(frozen=True, eq=False)
class Table:
    """A table of named columns: plain arrays for the stages, and the frame it came in (``native``) for the way out.

    ``origin`` is what reading found out and writing may want to know (file format, dialect, labels).
    """

    columns: Mapping[str, Values]
    rows: int
    native: Any
    origin: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        """The column names, in order."""
        return tuple(self.columns)


@dataclass(frozen=True, eq=False)
class Representatives:
    """What each cell publishes for one column, one entry a cell.

    ``how`` says what ``values`` are: ``"row"``, row numbers of the original column, whose values are published;
    ``"number"``, numbers in the column's own scale, to be cast to its own type; ``"text"``, strings.
    A cell where ``missing`` is true publishes a missing value.
    """

    how: Literal["row", "number", "text"]
    values: NDArray[Any]
    missing: Mask


def _name_of(value: float, unit: str | None) -> str:
    if unit is not None:
        return f"{value} {unit}"
    return str(int(value)) if float(value).is_integer() else repr(value)
