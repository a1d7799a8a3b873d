"""Change tables, keeping the type of frame: add, replace, select, concatenate, escape formulas."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from microcell._display import listing
from microcell._files import TEXT_SUFFIXES
from microcell.errors import OptionError, SchemaError, TableError
from microcell.model import Integers, Origin, Representatives, Table, Values
from microcell.model.formulas import escape_text, is_risky, unescape_text
from microcell.tables.content import LARGEST_EXACT
from microcell.tables.frames import Frame, PandasFrame, frame_of, to_polars, wrap
from microcell.tables.values import (
    Extract,
    as_plain_types,
    has_times,
    series_from_numbers,
    series_from_texts,
    with_dates,
)

__all__ = [
    "add_columns",
    "align",
    "check_escaping",
    "escape_formulas",
    "publish",
    "replace_by_cells",
    "stack",
    "take",
    "unescape_formulas",
    "values_of_cells",
    "without_category_order",
]


def add_columns(table: Table, columns: Mapping[str, NDArray[Any]]) -> Table:
    """Add arrays as columns, in the same type of frame; the input is not modified.

    Examples
    --------
    >>> import numpy as np
    >>> from microcell.tables import read
    >>> add_columns(read({"age": [20, 30]}), {"far": np.array([1.5, 2.0])}).native
    {'age': array([20, 30]), 'far': array([1.5, 2. ])}
    """
    for name, column in columns.items():
        if name in table.columns:
            raise TableError(
                f"The table already has a column {name!r}. Rename it.",
                code="table.bad_names",
                column=name,
            )
        if len(column) != table.rows:
            raise TableError(
                f"Column {name!r} must have one value per row ({table.rows} in total), not "
                f"{len(column)}.",
                code="table.mismatch",
                column=name,
                rows=table.rows,
            )
    return wrap(frame_of(table.native).add(table.native, columns), table.origin)


def publish(
    table: Table,
    labels: Integers,
    representatives: Mapping[str, Representatives],
    drop: Collection[str] = (),
) -> Table:
    """Replace values by the representatives of the cells, in the same type of frame.

    Each representative is converted once per cell to the column's type: record i gets the value of
    cell ``labels[i]``. Columns in ``drop`` are removed; all others, and a pandas index, are kept.

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
        raise TableError(
            f"The table has no column{'s' * (len(unknown) > 1)} {', '.join(map(repr, unknown))}. "
            "Check the spelling.",
            code="schema.unknown_column",
            columns=unknown,
        )
    if len(labels) != table.rows:
        raise TableError(
            f"There must be one label per row ({table.rows} in total), not {len(labels)}.",
            code="table.mismatch",
            rows=table.rows,
        )
    frame = frame_of(table.native)
    dropped = set(drop)
    names = [name for name in table.names if name not in dropped]
    replaced = {
        name: frame.spread(_cells(frame, table, name, representatives[name]), labels)
        for name in names
        if name in representatives
    }
    published = wrap(frame.assemble(table.native, names, replaced), table.origin)
    return replace(published, origin=_origin(table, published, representatives))


def take(table: Table, rows: Integers, *, keep_index: bool = True) -> Table:
    """Return the rows at these positions, in this order.

    A pandas index is kept or, with ``keep_index=False``, replaced by the new positions.
    """
    frame = frame_of(table.native)
    native = frame.take(table.native, rows)
    if not keep_index and isinstance(frame, PandasFrame):
        native = native.reset_index(drop=True)
    return wrap(native, table.origin)


def without_category_order(table: Table, keep: Collection[str]) -> Table:
    """Return the table with text in place of ordered categories, except in the columns ``keep``.

    The categories may be in the order in which the original has them, which would reveal where its
    rows were.
    """
    frame = to_polars(table)
    names = [
        name
        for name, dtype in frame.schema.items()
        if isinstance(dtype, pl.Enum) and name not in keep
    ]
    if not names:
        return table
    return wrap(frame.with_columns(pl.col(names).cast(pl.String)), table.origin)


def _cells(frame: Frame, table: Table, name: str, representative: Representatives) -> Any:
    column = frame.column(table.native, name)
    if representative.how == "row":
        return frame.pick(column, representative.values, representative.missing)
    if representative.how == "text":
        return frame.text(column, series_from_texts(representative))
    extract = frame.extract(name, column)
    return frame.cast(
        column, Extract(series_from_numbers(name, extract, representative), unit=extract.unit)
    )


def _origin(
    table: Table, published: Table, representatives: Mapping[str, Representatives]
) -> Origin:
    """Return the origin without labels of removed columns or of values that are not published.

    Labels of other values are left out because they may be categories of the original, as pandas
    writes them.
    """
    origin = table.origin
    replaced = {name: table.columns[name] for name in representatives}
    return replace(
        origin,
        labels={name: label for name, label in origin.labels.items() if name in published.columns},
        value_labels={
            name: _labels_of_values(labels, published, name)
            for name, labels in origin.value_labels.items()
            if name in published.columns
            and (name not in representatives or _fits(labels, representatives[name]))
        },
        timed=origin.timed | {name for name, values in replaced.items() if has_times(values)},
    )


def _fits(labels: Mapping[Any, str], representative: Representatives) -> bool:
    if representative.how == "number":
        return all(
            value in labels
            for value in set(representative.values[~representative.missing].tolist())
        )
    return representative.how == "row"


def _labels_of_values(labels: Mapping[Any, str], table: Table, name: str) -> dict[Any, str]:
    """Return the labels of the values that a column has."""
    present = set(to_polars(table)[name].unique().to_list())
    return {value: label for value, label in labels.items() if value in present}


def values_of_cells(
    table: Table, labels: Integers, names: Sequence[str]
) -> dict[str, tuple[Any, ...]]:
    """Return the values that a published table has in each cell, as plain data for JSON.

    Dates are ISO text and missing values None.

    Examples
    --------
    >>> from microcell.tables import read
    >>> values_of_cells(read({"age": [25, 25, 50]}), np.array([1, 1, 0]), ["age"])
    {'age': (50, 25)}
    """
    rows = np.zeros(int(labels.max()) + 1, dtype=np.int64)
    rows[labels[::-1]] = np.arange(len(labels))[::-1]
    frame = as_plain_types(with_dates(to_polars(table).select(list(names))[rows], table))
    dates = [name for name, dtype in frame.schema.items() if dtype == pl.Date]
    frame = frame.with_columns(pl.col(name).dt.to_string("iso") for name in dates)
    return {name: tuple(frame[name].to_list()) for name in names}


def replace_by_cells(
    table: Table, labels: Integers, values: Mapping[str, Sequence[Any]], keep: Collection[str] = ()
) -> Table:
    """Return the values of each record's cell, the columns in ``keep``, and a column ``cell``.

    Numbers stay numbers; everything else becomes text.
    """
    unknown = [name for name in keep if name not in table.columns]
    if unknown:
        raise TableError(
            f"The table has no column{'s' * (len(unknown) > 1)} {', '.join(map(repr, unknown))} "
            "to keep. Check the spelling.",
            code="schema.unknown_column",
            columns=unknown,
            option="keep",
        )
    published = {
        name: _as_representatives(table, name, values[name])
        for name in values
        if name in table.columns
    }
    drop = [name for name in table.names if name not in published and name not in keep]
    return add_columns(publish(table, labels, published, drop), {"cell": labels})


def _as_representatives(table: Table, name: str, values: Sequence[Any]) -> Representatives:
    missing = np.array([value is None for value in values], dtype=np.bool_)
    number = table.columns[name].is_number and all(
        isinstance(v, (int, float)) for v in values if v is not None
    )
    if number:
        return Representatives("number", np.array([0 if v is None else v for v in values]), missing)
    return Representatives(
        "text", np.array(["" if v is None else str(v) for v in values], dtype=object), missing
    )


# ------------------------------------------------------------------------------ concatenation


def align(first: Table, further: Table) -> Table:
    """Put the columns of a further table in the order of the first, so that it can be stacked.

    Both must have the same column names and types. Whole numbers can be combined with floats, and a
    column without values with any type. In a CSV file, whole numbers in a column that is text in
    the first table are read as text.

    Raises
    ------
    SchemaError
        A column is missing, new, or of another type: the error names it.

    Examples
    --------
    >>> from microcell.tables import read
    >>> align(read({"age": [20], "sex": ["f"]}), read({"sex": ["m"], "age": [30]})).names
    ('age', 'sex')
    """
    _check_kinds(first, further)
    _check_columns(first, further)
    frame = frame_of(further.native)
    texts = {} if further.origin.dialect is None else _numbers_as_text(first, further)
    aligned = wrap(frame.assemble(further.native, list(first.names), texts), further.origin)
    for name in first.names:
        _check_types(name, first.columns[name], aligned.columns[name])
    return aligned


def stack(parts: Sequence[Table]) -> Table:
    """Concatenate aligned tables, in the frame type of the first.

    A column stays integer if it is integer in all parts. Ordered categories are those of the first
    part, followed by new ones. A pandas index is kept.

    Examples
    --------
    >>> from microcell.tables import read
    >>> stack([read({"age": [20, 30]}), read({"age": [40]})]).native
    {'age': array([20, 30, 40])}
    """
    first, *others = parts
    if not others:
        return first
    try:
        native = frame_of(first.native).stack([part.native for part in parts])
    except (TypeError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise TableError(
            "The parts have columns whose types cannot be combined. Convert them to one type.",
            code="table.mismatch",
        ) from None
    stacked = wrap(native, replace(first.origin, path=None))
    for name in first.names:
        _check_stacked(name, stacked.columns[name], [part.columns[name] for part in parts])
    return stacked


def _check_kinds(first: Table, further: Table) -> None:
    kinds = [type(part.native).__module__.partition(".")[0] for part in (first, further)]
    if type(frame_of(first.native)) is not type(frame_of(further.native)):
        names = ["a dict of arrays" if kind == "builtins" else f"a {kind} table" for kind in kinds]
        raise TableError(
            f"The base is {names[0]}, but the batch is {names[1]}. Use the same type of data "
            "frame for both.",
            code="table.mismatch",
        )


def _check_columns(first: Table, further: Table) -> None:
    lacking = [name for name in first.names if name not in further.columns]
    extra = [name for name in further.names if name not in first.columns]
    if lacking:
        raise SchemaError(
            f"The batch does not have {_columns(lacking)} of the base. Both must have the same "
            "columns.",
            code="table.mismatch",
            columns=lacking,
        )
    if extra:
        raise SchemaError(
            f"The batch has {_columns(extra)}, which the base does not have. Both must have the "
            "same columns.",
            code="table.mismatch",
            columns=extra,
        )


def _check_types(name: str, first: Values, further: Values) -> None:
    if _can_stack(first, further):
        return
    raise SchemaError(
        f"Column {name!r} has {first.storage} values in the base but {further.storage} values in "
        f"the batch, the first in row {np.argmin(further.missing) + 1} of the batch. Convert them "
        "to one type.",
        code="table.mismatch",
        column=name,
        row=int(np.argmin(further.missing)) + 1,
    )


def _can_stack(first: Values, further: Values) -> bool:
    if "empty" in (first.storage, further.storage) or first.storage == further.storage:
        return True
    if not (first.is_number and further.is_number):
        return False
    return all(
        np.abs(part.data[~part.missing]).max(initial=0) <= LARGEST_EXACT
        for part in (first, further)
        if part.storage == "integer"
    )


def _check_stacked(name: str, stacked: Values, parts: Sequence[Values]) -> None:
    """Reject a column whose values a library changed while concatenating."""
    present = [part for part in parts if part.storage != "empty"]
    expected = {part.storage for part in present} or {"empty"}
    storage = "float" if expected == {"integer", "float"} else min(expected)
    missing = np.concatenate([part.missing for part in parts])
    mixed = len(expected) > 1 and expected != {"integer", "float"}
    if mixed or stacked.storage != storage or not np.array_equal(stacked.missing, missing):
        raise TableError(
            f"Column {name!r} has types that cannot be combined: time zones or sizes of numbers "
            "differ. Convert it to one type in both tables.",
            code="table.mismatch",
            column=name,
        )


def _columns(names: Sequence[str]) -> str:
    return f"column{'s' * (len(names) > 1)} {listing(map(repr, names))}"


def _numbers_as_text(first: Table, further: Table) -> dict[str, pl.Series]:
    """Return the columns of a text file with whole numbers that are text in the first table."""
    return {
        name: further.native.get_column(name).cast(pl.String)
        for name in first.names
        if first.columns[name].storage == "text" and further.columns[name].storage == "integer"
    }


# ------------------------------------------------------------------------------ formulas


def check_escaping(table: Table, path: str | Path) -> None:
    """Raise an error if formulas cannot be escaped in this file."""
    suffix = Path(path).suffix.lower()
    if suffix not in TEXT_SUFFIXES:
        raise OptionError(
            f"escape_formulas applies only to {', '.join(TEXT_SUFFIXES)} files: text in {suffix} "
            "files is never run as a formula. Leave it out.",
            code="option.conflict",
            option="escape_formulas",
        )
    risky = [name for name in table.names if is_risky(name)]
    if risky:
        raise TableError(
            f"The name of column {risky[0]!r} begins like a formula, and names are not escaped. "
            "Rename the column.",
            code="table.bad_names",
            column=risky[0],
        )


def escape_formulas(table: Table) -> Table:
    """Return the table with an apostrophe before every text that looks like a formula.

    Examples
    --------
    >>> from microcell.tables import read
    >>> escaped = escape_formulas(read({"note": ["=1+1", "fine"], "change": [-5, 5]}))
    >>> escaped.columns["note"].categories
    ("'=1+1", 'fine')
    >>> unescape_formulas(escaped).columns["note"].categories
    ('=1+1', 'fine')
    """
    return _map_texts(table, escape_text)


def unescape_formulas(table: Table) -> Table:
    """Undo :func:`escape_formulas`."""
    return _map_texts(table, unescape_text)


def _map_texts(table: Table, change: Callable[[str], str]) -> Table:
    """Replace texts; columns without any that changes, and their types, stay as they are."""
    columns = []
    for name, values in table.columns.items():
        texts = values.categories if values.storage == "text" else ()
        changed = {text: change(text) for text in texts if change(text) != text}
        if changed:
            columns.append(pl.col(name).cast(pl.String).replace(changed))
    if not columns:
        return table
    return wrap(to_polars(table).with_columns(columns), table.origin)
