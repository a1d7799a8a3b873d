"""Which record of the original each published record comes from."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from microcell.auditing.anonymity import class_labels
from microcell.auditing.equality import Match, are_mixed, find_rows, match_rows, match_values
from microcell.errors import DataError, OptionError
from microcell.model import Integers, Mask, Schema, Table, Values

__all__ = ["Alignment", "align"]

_TRUSTED = (
    "No column published unchanged tells the rows apart, so their order was taken on trust: each row of the release "
    "was compared with the row of the original in its place."
)
_UNMEASURED = "Distortion was not measured, nor anything else that compares records one by one:"
_REORDERED = (
    f"{_UNMEASURED} the rows of the release could not be matched with those of the original. They are in another "
    "order, or some are left out. Audit the table before its rows are shuffled, give the manifest of the release, or "
    "name a key column that both tables have."
)
_TOO_MANY = (
    f"{_UNMEASURED} the release has more rows than the original, so its rows cannot be matched. Give the original "
    "that the release was made from."
)
_EMPTY = f"{_UNMEASURED} the release has no rows."
_MIXED = (
    "Each column published unchanged holds values of the original, but not together in one record as there: some "
    "are in another record now."
)


@dataclass(frozen=True, eq=False)
class Alignment:
    """``pairs[i]`` is the row of the original that published row i comes from; None if that cannot be told.

    ``changed`` counts the published values of unchanged columns that are not the original's.
    """

    pairs: Integers | None
    changed: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Unchanged:
    """The columns, before and after, that are to be published unchanged."""

    original: Table
    released: Table
    names: tuple[str, ...]

    def by_row(self, name: str, rows: Integers) -> Match:
        return match_rows(name, self.original.columns[name], self.released.columns[name], rows)

    def by_value(self, name: str) -> Match:
        return match_values(name, self.original.columns[name], self.released.columns[name])


def align(
    original: Table, released: Table, schema: Schema, *, pairs: Integers | None = None, key: str | None = None
) -> Alignment:
    """The rows matched: as ``pairs`` says, by the column ``key``, else by position, where that is borne out.

    It is if the unchanged columns are equal. If rows are fewer in the release, those of the original without a
    missing quasi-identifier are tried. Where no rows match, the values of each unchanged column are compared whatever
    their rows. A key is proof of its own: what is changed beside it is told, and rows stay matched.
    """
    if pairs is not None and key is not None:
        raise OptionError("Rows are matched by pairs or by a key column, not by both. Give one.")
    names = tuple(name for name in schema.unchanged if name in original.columns and name in released.columns)
    columns = _Unchanged(original, released, names)
    if key is not None:
        return _by_key(columns, _pair_by_key(original, released, key))
    if pairs is not None:
        return _as_given(columns, _checked(pairs, original, released))
    rows = _in_place(original, released, schema)
    if rows is not None and not any(columns.by_row(name, rows).changed for name in names):
        return Alignment(rows, notes=(_TRUSTED,) if _all_alike(released, names) else ())
    return _unmatched(columns)


def _as_given(columns: _Unchanged, pairs: Integers) -> Alignment:
    changed = {name: columns.by_row(name, pairs).changed for name in columns.names}
    if not any(changed.values()):
        return Alignment(pairs)
    note = (
        f"{_UNMEASURED} the release is not in the order, or does not hold the values, that its manifest describes. "
        f"{_told(changed)}"
    )
    return Alignment(None, sum(changed.values()), (note,))


def _by_key(columns: _Unchanged, pairs: Integers) -> Alignment:
    changed = {name: columns.by_row(name, pairs).changed for name in columns.names}
    return Alignment(pairs, sum(changed.values()), (_told(changed),) if any(changed.values()) else ())


def _unmatched(columns: _Unchanged) -> Alignment:
    matches = {name: columns.by_value(name) for name in columns.names}
    changed = {name: match.changed for name, match in matches.items()}
    notes: tuple[str, ...]
    if not columns.released.rows:
        notes = (_EMPTY,)
    elif columns.released.rows > columns.original.rows:
        notes = (_TOO_MANY,)
    elif any(changed.values()):
        notes = (f"{_UNMEASURED} values were changed, so rows cannot be matched. {_told(changed)}",)
    elif are_mixed(tuple(matches.values())):
        notes = (_REORDERED, _MIXED)
    else:
        notes = (_REORDERED,)
    return Alignment(None, sum(changed.values()), notes)


def _told(changed: Mapping[str, int]) -> str:
    names = [name for name, count in changed.items() if count]
    return f"Changed, though to be published unchanged: column{'s' * (len(names) > 1)} {', '.join(map(repr, names))}."


def _in_place(original: Table, released: Table, schema: Schema) -> Integers | None:
    """The rows of the original that published rows come from if none was moved; None if their numbers differ."""
    if released.rows == original.rows:
        return np.arange(original.rows)
    rows = np.flatnonzero(_complete(original, schema))
    return rows if len(rows) == released.rows else None


def _checked(pairs: Integers, original: Table, released: Table) -> Integers:
    given = np.asarray(pairs)
    if given.dtype.kind not in "iu" or given.shape != (released.rows,):
        raise OptionError(
            f"pairs must be one row number for each of the {released.rows} rows of the release, not an array of "
            f"{given.dtype} of shape {given.shape}."
        )
    if len(given) and (given.min() < 0 or given.max() >= original.rows):
        raise OptionError(f"pairs must be rows of the original, 0 to {original.rows - 1}.")
    if len(np.unique(given)) != len(given):
        raise OptionError("pairs must name each row of the original at most once.")
    return given.astype(np.int64)


def _pair_by_key(original: Table, released: Table, key: str) -> Integers:
    """The row of the original with the key of each published row."""
    if not isinstance(key, str):
        raise OptionError(f"key must be the name of one column, not a {type(key).__name__}.")
    for which, table in (("original", original), ("released", released)):
        if key not in table.columns:
            raise OptionError(
                f"The {which} table has no column {key!r} to match rows by. Name as key a column that both tables have."
            )
    before, after = original.columns[key], released.columns[key]
    for which, values in (("original", before), ("released", after)):
        _check_key(which, values, key)
    rows = find_rows(key, before, after)
    strange = rows < 0
    if strange.any():
        raise DataError(
            f"The key column {key!r} of the released table holds a value that the original does not have in "
            f"{_counted(strange)}. Give the original that the release was made from, or another key."
        )
    if len(np.unique(rows)) != len(rows):
        raise DataError(
            f"The key column {key!r} has different values in the released table that are one as the original stores "
            "it. Store the column alike in both, or match rows by another one."
        )
    return rows


def _check_key(which: str, values: Values, key: str) -> None:
    if values.missing.any():
        raise DataError(
            f"The key column {key!r} of the {which} table is missing in {_counted(values.missing)}. A key must be "
            "known for every row: fill it in, or match rows by another column."
        )
    labels = class_labels(Table({key: values}, rows=len(values), native=None), [key])
    again = np.ones(len(labels), dtype=np.bool_)
    again[np.unique(labels, return_index=True)[1]] = False
    if again.any():
        raise DataError(
            f"The key column {key!r} of the {which} table repeats the value of an earlier row in {_counted(again)}. A "
            "key must be different in every row: match rows by another column."
        )


def _counted(rows: Mask) -> str:
    """How many rows these are, and the first of them."""
    count = int(rows.sum())
    return f"{count} row{'s' * (count > 1)}, first in row {int(np.argmax(rows)) + 1}"


def _complete(original: Table, schema: Schema) -> Mask:
    complete = np.ones(original.rows, dtype=np.bool_)
    for column in schema.quasi:
        for part in column.parts:
            complete &= ~original.columns[part].missing
    return complete


def _all_alike(released: Table, names: tuple[str, ...]) -> bool:
    return released.rows > 1 and all(_is_constant(released.columns[name]) for name in names)


def _is_constant(values: Values) -> bool:
    if values.missing[0]:
        return bool(values.missing.all())
    return not values.missing.any() and bool((values.data == values.data[0]).all())
