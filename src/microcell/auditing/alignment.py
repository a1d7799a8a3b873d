"""Match each published row with the row of the original that it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from microcell.auditing.equality import Match, are_mixed, find_rows, match_rows, match_values
from microcell.errors import DataError, OptionError
from microcell.measures.classes import class_labels
from microcell.model import Integers, Mask, Schema, Table, Values

__all__ = ["Alignment", "align"]

_ASSUMED_ORDER = (
    "No unchanged column distinguishes the rows, so their order was assumed: each row of the "
    "release was compared with the row of the original in the same position."
)
_NOT_MEASURED = "Information loss and other measures that compare single records were not computed:"
_REORDERED = (
    f"{_NOT_MEASURED} the rows of the release could not be matched with those of the original. "
    "They are in another order, or some are missing. Audit the table before its rows are shuffled, "
    "pass the manifest of the release, or name a key column that both tables have."
)
_TOO_MANY_ROWS = (
    f"{_NOT_MEASURED} the release has more rows than the original, so its rows cannot be matched. "
    "Pass the original from which the release was made."
)
_NO_ROWS = f"{_NOT_MEASURED} the release has no rows."
_MIXED = (
    "Every value of the unchanged columns occurs in the original, but some now belong to another "
    "record."
)


@dataclass(frozen=True, eq=False)
class Alignment:
    """How the published rows match the rows of the original.

    Parameters
    ----------
    pairs
        The row of the original for each published row; None if it cannot be determined.
    changed
        Number of values that differ from the original in columns that should be unchanged.
    notes
        Remarks for the report.
    """

    pairs: Integers | None
    changed: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Unchanged:
    """The columns that should be published unchanged, before and after."""

    original: Table
    released: Table
    names: tuple[str, ...]

    def changed_by_row(self, rows: Integers) -> dict[str, int]:
        return {
            name: match_rows(
                name, self.original.columns[name], self.released.columns[name], rows
            ).changed
            for name in self.names
        }

    def match_values(self, name: str) -> Match:
        return match_values(name, self.original.columns[name], self.released.columns[name])


def align(
    original: Table,
    released: Table,
    schema: Schema,
    *,
    pairs: Integers | None = None,
    key: str | None = None,
) -> Alignment:
    """Match the rows by ``pairs``, by the column ``key``, or else by position.

    Matching by position is accepted if the unchanged columns are equal. If the release has fewer
    rows, the rows of the original without a missing quasi-identifier are tried. If no rows match,
    the values of each unchanged column are compared regardless of rows. With a key, rows stay
    matched even if other values changed; the changes are reported.
    """
    if pairs is not None and key is not None:
        raise OptionError(
            "Rows are matched either by pairs or by a key column. Pass only one of the two.",
            code="option.conflict",
            option="key",
        )
    names = tuple(
        name for name in schema.unchanged if name in original.columns and name in released.columns
    )
    columns = _Unchanged(original, released, names)
    if key is not None:
        return _align_by_key(columns, _rows_by_key(original, released, key))
    if pairs is not None:
        return _align_by_pairs(columns, _check_pairs(pairs, original, released))
    rows = _rows_in_place(original, released, schema)
    if rows is not None and not any(columns.changed_by_row(rows).values()):
        notes = (_ASSUMED_ORDER,) if _all_rows_alike(released, names) else ()
        return Alignment(rows, notes=notes)
    return _without_rows(columns)


def _align_by_pairs(columns: _Unchanged, pairs: Integers) -> Alignment:
    changed = columns.changed_by_row(pairs)
    if not any(changed.values()):
        return Alignment(pairs)
    note = (
        f"{_NOT_MEASURED} the release does not have the row order or the values that its manifest "
        f"describes. {_changed_columns(changed)}"
    )
    return Alignment(None, sum(changed.values()), (note,))


def _align_by_key(columns: _Unchanged, pairs: Integers) -> Alignment:
    changed = columns.changed_by_row(pairs)
    notes = (_changed_columns(changed),) if any(changed.values()) else ()
    return Alignment(pairs, sum(changed.values()), notes)


def _without_rows(columns: _Unchanged) -> Alignment:
    matches = {name: columns.match_values(name) for name in columns.names}
    changed = {name: match.changed for name, match in matches.items()}
    notes: tuple[str, ...]
    if not columns.released.rows:
        notes = (_NO_ROWS,)
    elif columns.released.rows > columns.original.rows:
        notes = (_TOO_MANY_ROWS,)
    elif any(changed.values()):
        cause = "values were changed, so rows cannot be matched."
        notes = (f"{_NOT_MEASURED} {cause} {_changed_columns(changed)}",)
    elif are_mixed(tuple(matches.values())):
        notes = (_REORDERED, _MIXED)
    else:
        notes = (_REORDERED,)
    return Alignment(None, sum(changed.values()), notes)


def _changed_columns(changed: Mapping[str, int]) -> str:
    names = [name for name, count in changed.items() if count]
    listing = ", ".join(map(repr, names))
    return f"Values changed that should be unchanged: column{'s' * (len(names) > 1)} {listing}."


def _rows_in_place(original: Table, released: Table, schema: Schema) -> Integers | None:
    """Return the original rows if no row was moved; None if the numbers of rows differ."""
    if released.rows == original.rows:
        return np.arange(original.rows)
    rows = np.flatnonzero(_complete_rows(original, schema))
    return rows if len(rows) == released.rows else None


def _check_pairs(pairs: Integers, original: Table, released: Table) -> Integers:
    rows = np.asarray(pairs)
    if rows.dtype.kind not in "iu" or rows.shape != (released.rows,):
        raise OptionError(
            f"pairs must be {released.rows} row numbers, one per row of the release, "
            f"not an array of {rows.dtype} with shape {rows.shape}.",
            code="option.wrong_type",
            option="pairs",
        )
    if len(rows) and (rows.min() < 0 or rows.max() >= original.rows):
        raise OptionError(
            f"pairs must be row numbers of the original, from 0 to {original.rows - 1}.",
            code="option.out_of_range",
            option="pairs",
        )
    if len(np.unique(rows)) != len(rows):
        raise OptionError(
            "pairs must contain each row of the original at most once.",
            code="option.invalid",
            option="pairs",
        )
    return rows.astype(np.int64)


def _rows_by_key(original: Table, released: Table, key: str) -> Integers:
    """Return the row of the original with the key of each published row."""
    if not isinstance(key, str):
        raise OptionError(
            f"key must be the name of one column, not {type(key).__name__}.",
            code="option.wrong_type",
            option="key",
        )
    tables = {"original": original, "released": released}
    for which, table in tables.items():
        if key not in table.columns:
            raise OptionError(
                f"The {which} table has no column {key!r}. "
                "Choose a key column that both tables have.",
                code="option.unknown",
                option="key",
                column=key,
                table=which,
            )
    for which, table in tables.items():
        _check_key(which, table.columns[key], key)
    rows = find_rows(key, original.columns[key], released.columns[key])
    unmatched = rows < 0
    if unmatched.any():
        raise _bad_key(
            "released",
            key,
            unmatched,
            "contains a value that the original does not have",
            "Pass the original from which the release was made, or choose another key.",
        )
    if len(np.unique(rows)) != len(rows):
        raise DataError(
            f"Key column {key!r}: different values in the released table become equal in the "
            "original's data type. Use the same type in both tables, or choose another key.",
            code="data.bad_key",
            column=key,
            table="released",
        )
    return rows


def _check_key(which: str, values: Values, key: str) -> None:
    if values.missing.any():
        advice = "A key must be present in every row: fill it in, or choose another column."
        raise _bad_key(which, key, values.missing, "is missing", advice)
    labels = class_labels(Table({key: values}, rows=len(values), native=None), [key])
    repeated = np.ones(len(labels), dtype=np.bool_)
    repeated[np.unique(labels, return_index=True)[1]] = False
    if repeated.any():
        advice = "A key must be different in every row: choose another column."
        raise _bad_key(which, key, repeated, "repeats an earlier value", advice)


def _bad_key(which: str, key: str, rows: Mask, problem: str, advice: str) -> DataError:
    count, row = int(rows.sum()), int(np.argmax(rows)) + 1
    return DataError(
        f"Key column {key!r} of the {which} table {problem} in {count} row{'s' * (count > 1)}, "
        f"first in row {row}. {advice}",
        code="data.bad_key",
        column=key,
        table=which,
        row=row,
        count=count,
    )


def _complete_rows(original: Table, schema: Schema) -> Mask:
    complete = np.ones(original.rows, dtype=np.bool_)
    for column in schema.quasi:
        for part in column.parts:
            complete &= ~original.columns[part].missing
    return complete


def _all_rows_alike(released: Table, names: tuple[str, ...]) -> bool:
    return released.rows > 1 and all(_is_constant(released.columns[name]) for name in names)


def _is_constant(values: Values) -> bool:
    if values.missing[0]:
        return bool(values.missing.all())
    return not values.missing.any() and bool((values.data == values.data[0]).all())
