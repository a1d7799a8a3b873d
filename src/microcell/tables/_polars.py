"""polars frames."""

from collections.abc import Mapping, Sequence

import polars as pl

from microcell.model import Integers, Mask
from microcell.tables._frames import Extract, gather_index

__all__ = ["PolarsFrame"]


class PolarsFrame:
    """polars data frames."""

    def names(self, native: pl.DataFrame) -> list[str]:
        """The column names."""
        return native.columns

    def rows(self, native: pl.DataFrame) -> int:
        """The number of rows."""
        return native.height

    def column(self, native: pl.DataFrame, name: str) -> pl.Series:
        """The column of that name."""
        return native.get_column(name)

    def extract(self, name: str, column: pl.Series) -> Extract:  # noqa: ARG002
        """The column itself."""
        return Extract(column)

    def pick(self, column: pl.Series, rows: Integers, missing: Mask) -> pl.Series:
        """The column's values in those rows."""
        return _detached(column.gather(gather_index(rows, missing)))

    def cast(self, column: pl.Series, cells: Extract) -> pl.Series:  # noqa: ARG002
        """The cells, which have the column's type already."""
        return cells.series

    def text(self, column: pl.Series, cells: pl.Series) -> pl.Series:  # noqa: ARG002
        """The cells, which are strings already."""
        return cells

    def spread(self, cells: pl.Series, labels: Integers) -> pl.Series:
        """The value of its cell for each record."""
        return cells.gather(pl.Series(labels))

    def assemble(self, native: pl.DataFrame, names: Sequence[str], replaced: Mapping[str, pl.Series]) -> pl.DataFrame:
        """The frame with those columns."""
        return native.select(
            replaced[name].alias(name) if name in replaced else native.get_column(name) for name in names
        )

    def take(self, native: pl.DataFrame, rows: Integers) -> pl.DataFrame:
        """The frame's rows at those positions."""
        taken = native[rows]
        return taken if len(rows) == native.height else taken.with_columns(_detached(column) for column in taken)


def _detached(column: pl.Series) -> pl.Series:
    """The column with text of its own.

    polars shares text between columns: one with some rows of another still has the text of all in its buffers, and
    so would have a pickle or an Arrow file of it.
    """
    return pl.Series(column.name, column.to_list(), dtype=column.dtype) if column.dtype == pl.String else column
