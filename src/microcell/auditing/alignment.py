"""Which record of the original each published record comes from."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from microcell.auditing.anonymity import class_labels
from microcell.auditing.equality import Match, are_mixed, match_rows, match_values
from microcell.errors import OptionError
from microcell.model import Integers, Mask, Schema, Table

__all__ = ["Alignment", "align"]

_TRUSTED = (
    "No column published unchanged tells the rows apart, so their order was taken on trust: each row of the release "
    "was compared with the row of the original in its place."
)
_REORDERED = (
    "Distortion was not measured: the rows of the release could not be matched with those of the original. They are "
    "in another order, or some are left out. Audit the table before its rows are shuffled, or give the manifest of "
    "the release."
)
_TOO_MANY = (
    "Distortion was not measured: the release has more rows than the original, so its rows cannot be matched. Give "
    "the original that the release was made from."
)
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


def align(original: Table, released: Table, schema: Schema, *, pairs: Integers | None = None) -> Alignment:
    """The rows matched: as ``pairs`` says, else by position, where the unchanged columns bear that out.

    If rows are fewer in the release, those of the original without a missing quasi-identifier are tried. Where no
    rows match, the values of each unchanged column are compared whatever their rows.
    """
    names = tuple(name for name in schema.unchanged if name in original.columns and name in released.columns)
    columns = _Unchanged(original, released, names)
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
        "Distortion was not measured: the release is not in the order, or does not hold the values, that its manifest "
        f"describes. {_told(changed)}"
    )
    return Alignment(None, sum(changed.values()), (note,))


def _unmatched(columns: _Unchanged) -> Alignment:
    matches = {name: columns.by_value(name) for name in columns.names}
    changed = {name: match.changed for name, match in matches.items()}
    notes: tuple[str, ...]
    if columns.released.rows > columns.original.rows:
        notes = (_TOO_MANY,)
    elif any(changed.values()):
        notes = (f"Distortion was not measured: values were changed, so rows cannot be matched. {_told(changed)}",)
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


def _complete(original: Table, schema: Schema) -> Mask:
    complete = np.ones(original.rows, dtype=np.bool_)
    for column in schema.quasi:
        for part in column.parts:
            complete &= ~original.columns[part].missing
    return complete


def _all_alike(released: Table, names: tuple[str, ...]) -> bool:
    return released.rows > 1 and not class_labels(released, names).any()
