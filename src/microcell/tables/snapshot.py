"""Lossless storage of tables as Parquet, with all types, categories and labels."""

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import polars as pl

from microcell.errors import TableError
from microcell.model import Dialect, Origin, Table
from microcell.tables.digests import digest
from microcell.tables.frames import to_polars, wrap

__all__ = ["as_stored", "from_parquet", "origin_from_dict", "origin_to_dict", "to_parquet"]


def as_stored(table: Table) -> Table:
    """Convert the table to the frame type in which :func:`from_parquet` returns it."""
    return table if isinstance(table.native, pl.DataFrame) else wrap(to_polars(table), table.origin)


def to_parquet(table: Table) -> bytes:
    """Return the contents of a Parquet file with the whole table, including unused categories.

    The contents are read back and compared; raises :class:`TableError` if anything would be lost.

    Examples
    --------
    >>> from microcell.tables import read
    >>> from_parquet(to_parquet(read({"age": [20, 30]}))).rows
    2
    """
    buffer = BytesIO()
    try:
        to_polars(table).write_parquet(buffer)
        kept = digest(from_parquet(buffer.getvalue())) == digest(table)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, TableError):
        kept = False
    if not kept:
        raise TableError(
            "The table has a column type that cannot be stored in a Parquet file. Convert or "
            "remove the column.",
            code="table.format_limit",
        )
    return buffer.getvalue()


def from_parquet(content: bytes, origin: Origin | None = None) -> Table:
    """Return the table stored by :func:`to_parquet`, as a polars frame with this origin."""
    try:
        return wrap(pl.read_parquet(BytesIO(content)), origin or Origin())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
        raise TableError(
            "A stored table is damaged or not Parquet. Start again from the original table.",
            code="table.malformed",
        ) from None


def origin_to_dict(origin: Origin) -> dict[str, Any]:
    """Return the origin as plain data for JSON, without its path; value labels as pairs."""
    dialect = origin.dialect
    return {
        "source": origin.source,
        "suffix": origin.suffix,
        "dialect": None if dialect is None else vars(dialect),
        "labels": dict(origin.labels),
        "value_labels": {
            name: [list(pair) for pair in labels.items()]
            for name, labels in origin.value_labels.items()
        },
    }


def origin_from_dict(data: Mapping[str, Any]) -> Origin:
    """Restore an origin from :func:`origin_to_dict`.

    Examples
    --------
    >>> labels = {"sex": {1: "f", 2: "m"}}
    >>> origin = Origin("file", ".csv", Dialect(delimiter=";"), value_labels=labels)
    >>> origin_from_dict(origin_to_dict(origin)) == origin
    True
    """
    return Origin(
        source=data["source"],
        suffix=data["suffix"],
        dialect=None if data["dialect"] is None else Dialect(**data["dialect"]),
        labels=dict(data["labels"]),
        value_labels={name: dict(pairs) for name, pairs in data["value_labels"].items()},
    )
