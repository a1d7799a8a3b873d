"""Tables kept for later, whole: every type, category and label comes back as it was."""

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import polars as pl

from microcell.errors import TableError
from microcell.model import Table
from microcell.tables.digests import digest
from microcell.tables.frames import to_polars, wrap
from microcell.tables.values import Dialect, Origin

__all__ = ["as_kept", "from_parquet", "origin_from_dict", "origin_to_dict", "to_parquet"]


def as_kept(table: Table) -> Table:
    """The table in the kind of frame in which it would come back; itself if it is of that kind."""
    return table if isinstance(table.native, pl.DataFrame) else wrap(to_polars(table), table.origin)


def to_parquet(table: Table) -> bytes:
    """The contents of a Parquet file with all of the table, categories that no record has among it.

    Read again and compared before it is given: :class:`TableError` if something would be lost.

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
            "The table has a type of column that cannot be kept in a Parquet file. Convert it, or drop it."
        )
    return buffer.getvalue()


def from_parquet(content: bytes, origin: Origin | None = None) -> Table:
    """The table that :func:`to_parquet` was given, as a polars frame that came from ``origin``."""
    try:
        return wrap(pl.read_parquet(BytesIO(content)), origin or Origin("frame"))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
        raise TableError("A table that was kept is damaged, or not Parquet.") from None


def origin_to_dict(origin: Origin) -> dict[str, Any]:
    """The origin as plain data for JSON, without its path; values that have labels stand in pairs with them."""
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
    """The origin that :func:`origin_to_dict` was made of.

    Examples
    --------
    >>> origin = Origin("file", ".csv", Dialect(delimiter=";"), value_labels={"sex": {1: "f", 2: "m"}})
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
