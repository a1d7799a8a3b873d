"""pyarrow tables, reached through the objects that came in."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from microcell.errors import TableError
from microcell.model import Integers, Mask
from microcell.tables._frames import Extract, gather_index

__all__ = ["ArrowFrame", "cast_arrow", "extract_arrow", "text_arrow"]


class ArrowFrame:
    """pyarrow tables. Columns are chunked arrays."""

    def names(self, native: Any) -> list[Any]:
        """The column names."""
        return list(native.column_names)

    def rows(self, native: Any) -> int:
        """The number of rows."""
        return int(native.num_rows)

    def column(self, native: Any, name: str) -> Any:
        """The column of that name."""
        return native.column(name)

    def extract(self, name: str, column: Any) -> Extract:
        """The column as a polars series."""
        return extract_arrow(name, column)

    def pick(self, column: Any, rows: Integers, missing: Mask) -> Any:
        """The column's values in those rows."""
        taken = column.take(gather_index(rows, missing).to_arrow())
        if str(taken.type).startswith("dictionary") and not taken.type.ordered:
            # Encoded anew, so that names that no record has any more are not published.
            return taken.cast(taken.type.value_type).dictionary_encode().cast(taken.type)
        return taken

    def cast(self, column: Any, cells: Extract) -> Any:
        """The cells in the type of the column."""
        return cast_arrow(column.type, cells.series)

    def text(self, column: Any, cells: pl.Series) -> Any:
        """The cells in the column's own text type, or else plain strings."""
        return text_arrow(column.type, cells)

    def spread(self, cells: Any, labels: Integers) -> Any:
        """The value of its cell for each record."""
        return cells.take(pl.Series(labels).to_arrow())

    def assemble(self, native: Any, names: Sequence[str], replaced: Mapping[str, Any]) -> Any:
        """The table with those columns, its metadata kept."""
        table = native.select(list(names))
        for position, name in enumerate(names):
            if name in replaced:
                field = table.schema.field(position).with_type(replaced[name].type)
                nullable = field.nullable or replaced[name].null_count > 0
                table = table.set_column(position, field.with_nullable(nullable), replaced[name])
        return table

    def take(self, native: Any, rows: Integers) -> Any:
        """The table's rows at those positions."""
        return native.take(pl.Series(rows).to_arrow())


def extract_arrow(name: str, column: Any) -> Extract:
    """A chunked array as a polars series."""
    kind = str(column.type)
    if kind.startswith("dictionary"):
        return _extract_dictionary(name, column)
    if kind.startswith("decimal256"):
        # polars has decimals of 128 bits only.
        return extract_arrow(name, column.cast("float64"))
    if kind == "date64[ms]":
        column = column.cast("date32")
    seconds = kind.startswith(("timestamp[s", "duration[s"))
    try:
        return Extract(pl.Series(name, column), unit="s" if seconds else None)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError, ValueError):
        raise TableError(
            f"Column {name!r} has the Arrow type {kind}, which cannot be read. Cast it to numbers, text or times, or "
            "remove it."
        ) from None


def cast_arrow(target: Any, cells: pl.Series) -> Any:
    """A polars series as an arrow array of type ``target``."""
    return cells.to_arrow().cast(target, safe=False)


def text_arrow(target: Any, cells: pl.Series) -> Any:
    """A polars series of strings as an arrow array of type ``target`` if that is text, else of plain strings."""
    kept = str(target) if str(target) in ("string", "large_string", "string_view") else "string"
    return cells.to_arrow().cast(kept)


def _extract_dictionary(name: str, column: Any) -> Extract:
    if not column.type.ordered or not column.num_chunks:
        return extract_arrow(name, column.cast(column.type.value_type))
    unified = column.unify_dictionaries()
    categories = [str(item) for item in unified.chunk(0).dictionary.to_pylist()]
    codes = pl.concat(pl.Series(chunk.indices).cast(pl.Int64) for chunk in unified.chunks)
    return Extract(pl.Series(name, categories, dtype=pl.Enum(categories)).gather(codes))
