"""What a kind of frame must be able to do, so that the rest need not know which kind it has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from microcell.model import Integers, Mask

__all__ = ["Extract", "Frame", "gather_index"]


@dataclass(frozen=True, eq=False)
class Extract:
    """A column as a polars series, and its unit of time where polars has none such (``"s"``, kept as milliseconds)."""

    series: pl.Series
    unit: str | None = None


class Frame(Protocol):
    """A kind of frame. Columns are the frame's own column objects; *cells* are columns with one value a cell."""

    def names(self, native: Any) -> list[Any]:
        """The column names, as they are."""

    def rows(self, native: Any) -> int:
        """The number of rows."""

    def column(self, native: Any, name: str) -> Any:
        """The column of that name."""

    def extract(self, name: str, column: Any) -> Extract:
        """The column as a polars series."""

    def pick(self, column: Any, rows: Integers, missing: Mask) -> Any:
        """The column's values in those rows, missing where ``missing`` is true."""

    def cast(self, column: Any, cells: Extract) -> Any:
        """The cells in the type of ``column``."""

    def text(self, column: Any, cells: pl.Series) -> Any:
        """The cells in the text type that goes with ``column``."""

    def spread(self, cells: Any, labels: Integers) -> Any:
        """A column with the value of its cell for each record."""

    def assemble(self, native: Any, names: Sequence[str], replaced: Mapping[str, Any]) -> Any:
        """The frame with those columns, in that order, some of them replaced."""

    def take(self, native: Any, rows: Integers) -> Any:
        """The frame's rows at those positions, in that order."""


def gather_index(rows: Integers, missing: Mask) -> pl.Series:
    """Row numbers for a gather, null where ``missing`` is true."""
    frame = pl.DataFrame({"row": rows, "missing": missing})
    return frame.select(pl.when(~pl.col("missing")).then(pl.col("row"))).to_series()
