"""Which record of the original each published record comes from."""

from dataclasses import dataclass

import numpy as np

from microcell.auditing.anonymity import class_labels
from microcell.auditing.readings import read_categories, read_numbers
from microcell.errors import OptionError
from microcell.model import Integers, Mask, Schema, Table, Values

__all__ = ["Alignment", "align"]

_TRUSTED = (
    "No column published unchanged tells the rows apart, so their order was taken on trust: each row of the release "
    "was compared with the row of the original in its place."
)
_REORDERED = (
    "Distortion was not measured: the rows of the release could not be matched with those of the original. They are "
    "in another order, or a column that should be unchanged was changed. Audit the table before its rows are "
    "shuffled, or give the manifest of the release."
)
_TOO_MANY = (
    "Distortion was not measured: the release has more rows than the original, so its rows cannot be matched. Give "
    "the original that the release was made from."
)


@dataclass(frozen=True, eq=False)
class Alignment:
    """``pairs[i]`` is the row of the original that published row i comes from; None if that cannot be told."""

    pairs: Integers | None
    notes: tuple[str, ...] = ()


def align(original: Table, released: Table, schema: Schema, *, pairs: Integers | None = None) -> Alignment:
    """The rows matched: as ``pairs`` says, else by position where the unchanged columns bear that out.

    If rows are fewer in the release, those of the original without a missing quasi-identifier are tried.
    """
    names = [name for name in schema.unchanged if name in original.columns and name in released.columns]
    if pairs is not None:
        given = _checked(pairs, original, released)
        changed = [name for name in names if not _agree(name, original, released, given)]
        return Alignment(given, _changed_note(changed))
    if released.rows > original.rows:
        return Alignment(None, (_TOO_MANY,))
    rows = np.arange(original.rows) if released.rows == original.rows else np.flatnonzero(_complete(original, schema))
    if len(rows) != released.rows or not all(_agree(name, original, released, rows) for name in names):
        return Alignment(None, (_REORDERED,))
    return Alignment(rows.astype(np.int64), (_TRUSTED,) if _all_alike(released, names) else ())


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


def _changed_note(changed: list[str]) -> tuple[str, ...]:
    if not changed:
        return ()
    listing = ", ".join(map(repr, changed))
    return (f"Not published unchanged, as the schema says they are: column{'s' * (len(changed) > 1)} {listing}.",)


def _complete(original: Table, schema: Schema) -> Mask:
    complete = np.ones(original.rows, dtype=np.bool_)
    for column in schema.quasi:
        for part in column.parts:
            complete &= ~original.columns[part].missing
    return complete


def _all_alike(released: Table, names: list[str]) -> bool:
    return released.rows > 1 and not class_labels(released, names).any()


def _agree(name: str, original: Table, released: Table, rows: Integers) -> bool:
    """True if the column has the same values, missing ones included, in the matched rows."""
    before, after = original.columns[name], released.columns[name]
    if not np.array_equal(before.missing[rows], after.missing):
        return False
    return bool((_equal(name, before, after, rows) | after.missing).all())


def _equal(name: str, before: Values, after: Values, rows: Integers) -> Mask:
    if (before.is_number and after.is_number) or (before.is_time and after.storage == before.storage):
        if before.unit == after.unit:
            return np.asarray(before.data[rows] == after.data)
        numbers = read_numbers(name, before, after)
        return np.equal(numbers.before[rows], numbers.after)
    categories = read_categories(name, before, after)
    return np.equal(categories.before[rows], categories.after)
