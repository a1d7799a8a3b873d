"""Tables of named columns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from microcell._display import html_card, listing, short_repr
from microcell.kinds import Column, EncodedColumn, Values

__all__ = ["Dialect", "Origin", "Table"]


@dataclass(frozen=True)
class Dialect:
    """Dialect of a CSV file. ``quote`` is empty if quoting is disabled."""

    delimiter: str = ","
    encoding: str = "utf-8"
    quote: str = '"'
    decimal: str = "."


@dataclass(frozen=True, repr=False)
class Origin:
    """Where a table came from; used when the table is written.

    ``path``, ``suffix`` and ``dialect`` describe its file. ``labels`` (by column) and
    ``value_labels`` (by column and value) come from statistical files. ``timed`` lists published
    columns whose original values had times of day. ``reading`` are the options that the file was
    read with, and ``notes`` say how numbers were recognized.
    """

    source: Literal["dict", "frame", "file"] = "frame"
    suffix: str | None = None
    dialect: Dialect | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    value_labels: Mapping[str, Mapping[Any, str]] = field(default_factory=dict)
    path: Path | None = None
    timed: frozenset[str] = frozenset()
    reading: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return short_repr(self, self.source, suffix=self.suffix)


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
        Where it came from: file format, dialect, labels.
    """

    columns: Mapping[str, Values]
    rows: int
    native: Any
    origin: Origin = field(default_factory=Origin)

    def __repr__(self) -> str:
        return f"Table({self.rows} rows, {len(self.columns)} columns)"

    def _repr_html_(self) -> str:
        return html_card(
            "Table",
            {
                "Rows": f"{self.rows:,}",
                "Columns": f"{len(self.columns):,}: {listing(map(str, self.columns))}",
                "Source": self.origin.suffix or self.origin.source,
            },
            next_steps={
                "mc.inspect(table)": "describe the columns and draft their roles",
                "mc.anonymize(table, schema, k=5)": "make the table k-anonymous",
            },
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        return tuple(self.columns)

    def read(self, columns: Iterable[Column | EncodedColumn]) -> list[list[Values]]:
        """Return the values of each column; two parts for a location."""
        parts = [column.parts for column in columns]
        values = {name: self.columns[name] for names in parts for name in names}
        return [[values[name] for name in names] for names in parts]
