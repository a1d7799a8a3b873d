"""Tables with one value a cell in place of the records' own."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from microcell.errors import TableError
from microcell.model import Integers, Representatives, Table
from microcell.tables._days import has_clock
from microcell.tables._frames import Extract, Frame
from microcell.tables._origin import Origin
from microcell.tables._values import series_of_numbers, series_of_text
from microcell.tables._wrapping import frame_of, wrap

__all__ = ["publish", "take"]


def publish(
    table: Table, labels: Integers, representatives: Mapping[str, Representatives], drop: Collection[str] = ()
) -> Table:
    """The table with its cells' representatives, in the same kind of frame, rows and columns in their order.

    Each value is made once a cell, in the column's own type, and given to all of its records: record i gets the value
    of cell ``labels[i]``. Columns in ``drop`` are left out, all others stay as they are, and so does a pandas index.

    Examples
    --------
    >>> import numpy as np
    >>> from microcell.tables import read
    >>> table = read({"age": [20, 30, 50], "name": ["a", "b", "c"]})
    >>> mean = Representatives("number", np.array([25.0, 50.0]), np.array([False, False]))
    >>> publish(table, np.array([0, 0, 1]), {"age": mean}, ["name"]).native
    {'age': array([25, 25, 50])}
    """
    unknown = [name for name in (*representatives, *drop) if name not in table.columns]
    if unknown:
        raise TableError(f"Not among the {len(table.names)} columns of the table: {', '.join(map(repr, unknown))}.")
    if len(labels) != table.rows:
        raise TableError(f"{len(labels)} labels for {table.rows} rows. Give one label a row.")
    frame = frame_of(table.native)
    dropped = set(drop)
    names = [name for name in table.names if name not in dropped]
    replaced = {
        name: frame.spread(_cells(frame, table, name, representatives[name]), labels)
        for name in names
        if name in representatives
    }
    return wrap(frame.assemble(table.native, names, replaced), _origin(table, set(names), representatives))


def take(table: Table, rows: Integers) -> Table:
    """The table's rows at those positions, in that order; a pandas index goes along."""
    return wrap(frame_of(table.native).take(table.native, rows), table.origin)


def _cells(frame: Frame, table: Table, name: str, given: Representatives) -> Any:
    column = frame.column(table.native, name)
    if given.how == "row":
        return frame.pick(column, given.values, given.missing)
    if given.how == "text":
        return frame.text(column, series_of_text(given))
    extract = frame.extract(name, column)
    return frame.cast(column, Extract(series_of_numbers(name, extract, given), unit=extract.unit))


def _origin(table: Table, names: Collection[str], representatives: Mapping[str, Representatives]) -> Origin:
    """The origin without the labels of columns that are gone, or whose values they no longer name."""
    origin: Origin = table.origin
    return replace(
        origin,
        labels={name: label for name, label in origin.labels.items() if name in names},
        value_labels={
            name: labels
            for name, labels in origin.value_labels.items()
            if name in names and (name not in representatives or _fits(labels, representatives[name]))
        },
        timed=origin.timed | {name for name in representatives if has_clock(table.columns[name])},
    )


def _fits(labels: Mapping[Any, str], given: Representatives) -> bool:
    if given.how == "number":
        return all(value in labels for value in set(given.values[~given.missing].tolist()))
    return given.how == "row"
