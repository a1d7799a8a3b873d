"""Tables of named columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from microcell.kinds import Values

__all__ = ["Table"]


@dataclass(frozen=True, eq=False)
class Table:
    """A table: columns as plain arrays, and the frame that they were read from.

    Parameters
    ----------
    columns
        Columns by name, in order.
    rows
        Number of rows.
    native
        The frame that the table was read from, used to build output of the same type.
    origin
        What reading learned and writing may need: file format, dialect, labels.
    """

    columns: Mapping[str, Values]
    rows: int
    native: Any
    origin: Any = None

    def __repr__(self) -> str:
        return f"Table({self.rows} rows, {len(self.columns)} columns)"

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        return tuple(self.columns)
