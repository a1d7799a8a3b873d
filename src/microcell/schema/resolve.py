"""A schema meets a table: every column gets a role, every quasi-identifier a kind."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain
from typing import Any

import numpy as np

from microcell.errors import OptionError, SchemaError
from microcell.model import PUBLISHED, Column, Kind, Schema, Table, Values

__all__ = ["as_blocks", "resolve"]

KIND_OF_STORAGE: dict[str, Kind] = {
    "integer": "numeric",
    "float": "numeric",
    "boolean": "nominal",
    "text": "nominal",
    "empty": "nominal",
    "date": "datetime",
    "datetime": "datetime",
    "duration": "datetime",
    "time": "datetime",
}


def resolve(schema: Schema, table: Table) -> Schema:
    """The schema with every column of the table in a role, and a kind and a representative for each quasi-identifier.

    Raises :class:`SchemaError` for a column that the table does not have, one without a role (unless ``rest`` says
    what becomes of those), or a kind that does not fit the column's type.
    """
    _check_names(schema, table)
    if not schema.quasi:
        raise SchemaError(
            "The schema names no quasi-identifier. Name the columns that an outsider may know."
        )
    rest = _unnamed(schema, table)
    if rest and schema.rest == "error":
        raise SchemaError(
            f"No role for column{'s' if len(rest) > 1 else ''} {_listing(rest)}. Name each under quasi, confidential, "
            "identifiers, keep or drop, or say with rest = 'keep' or 'drop' what becomes of them."
        )
    return replace(
        schema,
        quasi=tuple(_with_publish(_resolve_column(column, table)) for column in schema.quasi),
        confidential=tuple(_resolve_column(column, table) for column in schema.confidential),
        keep=(*schema.keep, *(rest if schema.rest == "keep" else ())),
        drop=(*schema.drop, *(rest if schema.rest == "drop" else ())),
    )


def _check_names(schema: Schema, table: Table) -> None:
    unknown = [name for name, _ in schema.roles() if name not in table.columns]
    if unknown:
        meant = {name: get_close_matches(name, table.names, n=1) for name in unknown}
        hints = "".join(
            f" Did you mean {close[0]!r} by {name!r}?" for name, close in meant.items() if close
        )
        raise SchemaError(
            f"The schema names column{'s' if len(unknown) > 1 else ''} {_listing(unknown)}, not among the "
            f"{len(table.names)} of the table.{hints} Does the table have its column names in the first row? "
            "'microcell inspect' shows them."
        )


def _unnamed(schema: Schema, table: Table) -> tuple[str, ...]:
    named = {name for name, _ in schema.roles()}
    return tuple(name for name in table.names if name not in named)


def _resolve_column(column: Column, table: Table) -> Column:
    values = table.columns[column.parts[0]]
    kind = column.kind or _kind_of(column, values)
    _check_kind(column.name, kind, values)
    if kind == "location":
        _check_kind(column.name, kind, table.columns[column.parts[1]])
    order = column.order
    if kind == "ordinal" and order is None and values.ordered:
        order = values.categories
    if kind == "ordinal" and order is None and values.storage == "text":
        raise SchemaError(
            f"Column {column.name!r} is ordinal text: give the order of its categories, lowest first, as order = [...]."
        )
    return replace(column, kind=kind, order=order)


def _with_publish(column: Column) -> Column:
    return replace(column, publish=column.publish or PUBLISHED[str(column.kind)][0])


def _kind_of(column: Column, values: Values) -> Kind:
    if column.order is not None or values.ordered:
        return "ordinal"
    return KIND_OF_STORAGE[values.storage]


def _check_kind(name: str, kind: Kind, values: Values) -> None:
    if kind in ("numeric", "location") and not (values.is_number or values.storage == "empty"):
        raise SchemaError(
            f"Column {name!r} is declared {kind} but holds {values.storage} values{_where_not_numbers(values)}. "
            "Correct them, name the words that stand for missing values by na (--na), or declare it nominal, ordinal "
            "or code."
        )
    if kind == "code" and (values.is_time or values.storage == "boolean"):
        fitting = KIND_OF_STORAGE[values.storage]
        raise SchemaError(
            f"Column {name!r} is declared code but holds {values.storage} values. Declare it {fitting}."
        )
    if kind == "datetime" and not values.is_time:
        raise SchemaError(
            f"Column {name!r} is declared datetime but holds {values.storage} values. Write dates as YYYY-MM-DD, or "
            "declare another kind."
        )


def _where_not_numbers(values: Values) -> str:
    """How many rows of a text column are no numbers, and which is the first."""
    if values.storage != "text":
        return ""
    strange = np.array([not _is_number(name) for name in values.categories], dtype=np.bool_)
    rows = np.flatnonzero(strange[values.data] & ~values.missing)
    return f": {len(rows)} rows are no numbers, the first is row {rows[0] + 1}" if len(rows) else ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _listing(names: tuple[str, ...] | list[str], most: int = 12) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def as_blocks(blocks: Any, columns: Sequence[Column]) -> tuple[tuple[int, ...], ...]:
    """The quasi-identifiers of each block, by their places: runs of so many, or the blocks as they are named.

    Examples
    --------
    >>> columns = [Column(name) for name in ("age", "sex", "home")]
    >>> as_blocks(2, columns), as_blocks([["sex"], ["home", "age"]], columns)
    (((0, 1), (2,)), ((1,), (2, 0)))
    """
    if isinstance(blocks, (int, np.integer)) and not isinstance(blocks, bool):
        if blocks < 1:
            raise OptionError(f"blocks must be 1 column or more, not {blocks}.")
        return tuple(
            tuple(range(first, min(first + int(blocks), len(columns))))
            for first in range(0, len(columns), int(blocks))
        )
    if isinstance(blocks, str) or not isinstance(blocks, Iterable):
        raise OptionError(
            "blocks must be a number of columns, or lists of the names of quasi-identifiers."
        )
    return _named_blocks(
        [[block] if isinstance(block, str) else list(block) for block in blocks], columns
    )


def _named_blocks(
    blocks: Sequence[Sequence[Any]], columns: Sequence[Column]
) -> tuple[tuple[int, ...], ...]:
    places, named = (
        {column.name: place for place, column in enumerate(columns)},
        list(chain.from_iterable(blocks)),
    )
    for name in named:
        if name not in places:
            raise OptionError(
                f"blocks names {name!r}, which is no quasi-identifier; they are {_listing(tuple(places))}."
            )
        if named.count(name) > 1:
            raise OptionError(f"blocks names {name!r} twice. A quasi-identifier is in one block.")
    left = tuple(name for name in places if name not in named)
    if left:
        raise OptionError(
            f"blocks leave out {_listing(left)}. Each quasi-identifier must be in a block."
        )
    if not all(blocks):
        raise OptionError("A block without a column. Leave it out.")
    return tuple(tuple(places[name] for name in block) for block in blocks)
