"""Which record of the original each published record comes from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.errors import DataError, OptionError
from microcell.kinds.pairs import read_categories
from microcell.kinds.values import NANOSECONDS, TIME_FAMILY
from microcell.measures.classes import class_labels, combine
from microcell.model import Floats, Integers, Mask, Schema, Table, Values

__all__ = ["Alignment", "Match", "align", "are_mixed", "find_rows", "match_rows", "match_values"]

_VALUE, _MISSING, _ONLY_BEFORE, _ONLY_AFTER = range(4)
"""What stands in a row: a value to compare by its key, none, or one that the other column's storage cannot hold."""

Keys = NDArray[Any]
"""int64 or float64, the same for both sides."""


@dataclass(frozen=True, eq=False)
class _Side:
    """One of two columns: keys that are equal where the values are, and what stands in each row."""

    keys: Keys
    standing: Integers

    def known(self) -> Keys:
        return np.asarray(self.keys[self.standing == _VALUE])

    def count(self, standing: int) -> int:
        return int((self.standing == standing).sum())


@dataclass(frozen=True, eq=False)
class Match:
    """A column before and after on the same keys; ``changed`` counts published values that are not the original's."""

    before: _Side
    after: _Side
    changed: int = 0


def match_rows(name: str, before: Values, after: Values, rows: Integers) -> Match:
    """The columns compared row by row: published row i with row ``rows[i]`` of the original.

    Values count, and not how they are stored: 1 is 1.0, midnight is its day, missing is missing. A number is also
    equal to what a file would hold of it (see :func:`_written`).

    Examples
    --------
    >>> known = np.array([False, False])
    >>> before, after = (Values("integer", np.array(pair), known) for pair in ([1, 2], [2, 2]))
    >>> match_rows("x", before, after, np.array([0, 1])).changed
    1
    """
    return _closest(name, before, after, lambda match: _differing(match, rows))


def match_values(name: str, before: Values, after: Values) -> Match:
    """The columns compared as heaps of values: what the release has more often than the original is changed.

    Examples
    --------
    >>> known = np.array([False, False])
    >>> before, after = (Values("integer", np.array(pair), known) for pair in ([1, 2], [2, 1]))
    >>> match_values("x", before, after).changed
    0
    """
    return _closest(name, before, after, _excess)


def find_rows(name: str, before: Values, after: Values) -> Integers:
    """The row of the original that holds each published value; -1 where none does, or the value is missing.

    Values are compared as in :func:`match_rows`. Of several rows of the original that hold a value it is any.

    Examples
    --------
    >>> known = np.array([False, False])
    >>> before, after = (Values("integer", np.array(pair), known) for pair in ([1, 2], [2, 3]))
    >>> find_rows("x", before, after)
    array([ 1, -1])
    """
    match = match_values(name, before, after)
    held = np.flatnonzero(match.before.standing == _VALUE)
    held = held[np.argsort(match.before.keys[held])]
    sought = np.flatnonzero(match.after.standing == _VALUE)
    rows = np.full(len(after), -1, dtype=np.int64)
    if len(held) and len(sought):
        keys = match.before.keys[held]
        place = np.minimum(np.searchsorted(keys, match.after.keys[sought]), len(held) - 1)
        rows[sought] = np.where(keys[place] == match.after.keys[sought], held[place], -1)
    return rows


def are_mixed(matches: Sequence[Match]) -> bool:
    """True if a combination of the columns' values occurs more often in the release than in the original."""
    if not matches:
        return False
    rows = len(matches[0].before.keys)
    labels = np.zeros(rows + len(matches[0].after.keys), dtype=np.int64)
    for match in matches:
        labels = combine(labels, _codes(match))
    return _surplus(labels[:rows], labels[rows:]) > 0


def _closest(name: str, before: Values, after: Values, count: Callable[[Match], int]) -> Match:
    """The column as it is or, if that shows changes, as a file would hold it, whichever shows fewest."""
    match = _matched(name, before, after)
    found = replace(match, changed=count(match))
    if not found.changed:
        return found
    for written in _written(before, after):
        match = _matched(name, written, after)
        found = min(found, replace(match, changed=count(match)), key=lambda item: item.changed)
    return found


def _differing(match: Match, rows: Integers) -> int:
    before, after = match.before, match.after
    same = (before.standing[rows] == after.standing) & (
        (after.standing != _VALUE) | (before.keys[rows] == after.keys)
    )
    return len(same) - int(same.sum())


def _excess(match: Match) -> int:
    before, after = match.before, match.after
    gone = max(0, after.count(_MISSING) - before.count(_MISSING))
    return gone + after.count(_ONLY_AFTER) + _surplus(before.known(), after.known())


def _surplus(before: Keys, after: Keys) -> int:
    """How many of the second keys the first do not have, each counted as often as it occurs."""
    if np.array_equal(np.sort(before), np.sort(after)):
        return 0
    distinct, place = np.unique(np.concatenate((before, after)), return_inverse=True)
    held, shown = (
        np.bincount(part, minlength=len(distinct))
        for part in (place[: len(before)], place[len(before) :])
    )
    return int(np.maximum(shown - held, 0).sum())


def _codes(match: Match) -> Integers:
    """A code for each row before and then after, equal where the values are."""
    codes = np.concatenate((match.before.standing, match.after.standing))
    known = np.concatenate((match.before.known(), match.after.known()))
    codes[codes == _VALUE] = np.unique(known, return_inverse=True)[1] + _ONLY_AFTER + 1
    return codes


# ---------------------------------------------------------------------------------------------- storages


def _matched(name: str, before: Values, after: Values) -> Match:
    if "empty" in (before.storage, after.storage):
        return Match(_side(before, np.zeros(len(before))), _side(after, np.zeros(len(after))))
    if before.is_number and after.is_number:
        return _of_numbers(before, after)
    if before.is_time and after.is_time:
        return _of_times(before, after)
    if before.storage == after.storage and before.categories == after.categories:
        return Match(_side(before, before.data), _side(after, after.data))
    names = read_categories(name, before, after)
    return Match(_side(before, names.before), _side(after, names.after))


def _side(
    values: Values, keys: Keys, *, alone: Mask | None = None, standing: int = _VALUE
) -> _Side:
    """The column with these keys; rows in ``alone`` hold a value that the other column cannot."""
    stands = np.zeros(len(values), dtype=np.int64)
    if alone is not None:
        stands[alone] = standing
    stands[values.missing] = _MISSING
    return _Side(keys, stands)


def _of_numbers(before: Values, after: Values) -> Match:
    if before.storage == after.storage:
        return Match(_side(before, before.data), _side(after, after.data))
    # Floats become integers, and not integers floats: beyond 2**53 two integers may be one float.
    if before.storage == "float":
        return Match(_whole(before, _ONLY_BEFORE), _side(after, after.data))
    return Match(_side(before, before.data), _whole(after, _ONLY_AFTER))


def _whole(values: Values, standing: int) -> _Side:
    data: Floats = values.data
    whole = (np.floor(data) == data) & (data >= -(2.0**63)) & (data < 2.0**63)
    return _side(
        values, np.where(whole, data, 0.0).astype(np.int64), alone=~whole, standing=standing
    )


def _of_times(before: Values, after: Values) -> Match:
    if TIME_FAMILY[before.storage] != TIME_FAMILY[after.storage]:
        nothing = (np.ones(len(before), dtype=np.bool_), np.ones(len(after), dtype=np.bool_))
        return Match(
            _side(before, before.data, alone=nothing[0], standing=_ONLY_BEFORE),
            _side(after, after.data, alone=nothing[1], standing=_ONLY_AFTER),
        )
    # In the coarser unit, as counts of the finer one may overflow.
    unit = max(NANOSECONDS[str(before.unit)], NANOSECONDS[str(after.unit)])
    return Match(_in_unit(before, unit, _ONLY_BEFORE), _in_unit(after, unit, _ONLY_AFTER))


def _in_unit(values: Values, unit: int, standing: int) -> _Side:
    factor = unit // NANOSECONDS[str(values.unit)]
    if factor == 1:
        return _side(values, values.data)
    counts, rest = np.divmod(values.data, factor)
    return _side(values, counts, alone=rest != 0, standing=standing)


# ---------------------------------------------------------------------------------------------- what files hold


def _written(before: Values, after: Values) -> Iterator[Values]:
    """The original's column as files hold it that cannot hold it in full.

    Spreadsheets keep 16 digits, text files write floats of single precision in as few digits as tell them apart, and
    a file with coarser times rounds. Each value has one such form, so nothing can hide in what is let pass.
    """
    if before.storage == after.storage == "float":
        yield replace(before, data=_rewritten(before, _with_16_digits))
        if _is_single(before):
            yield replace(before, data=_rewritten(before, _with_few_digits))
    if (
        before.is_time
        and after.is_time
        and TIME_FAMILY[before.storage] == TIME_FAMILY[after.storage]
    ):
        factor = NANOSECONDS[str(after.unit)] // NANOSECONDS[str(before.unit)]
        if factor > 1:
            counts, rest = np.divmod(before.data, factor)
            yield replace(
                before, data=counts + (2 * rest >= factor), storage=after.storage, unit=after.unit
            )


def _rewritten(values: Values, write: Callable[[Floats], Floats]) -> Floats:
    known = ~values.missing
    distinct, place = np.unique(values.data[known], return_inverse=True)
    data = values.data.copy()
    data[known] = write(distinct)[place]
    return data


def _with_16_digits(numbers: Floats) -> Floats:
    return np.array([float(f"{number:.16G}") for number in numbers.tolist()], dtype=np.float64)


def _with_few_digits(numbers: Floats) -> Floats:
    return numbers.astype(np.float32).astype(np.str_).astype(np.float64)


def _is_single(values: Values) -> bool:
    known = values.data[~values.missing]
    with np.errstate(over="ignore"):
        return bool((known.astype(np.float32) == known).all())


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
    original: Table,
    released: Table,
    schema: Schema,
    *,
    pairs: Integers | None = None,
    key: str | None = None,
) -> Alignment:
    """The rows matched: as ``pairs`` says, by the column ``key``, else by position, where that is borne out.

    It is if the unchanged columns are equal. If rows are fewer in the release, those of the original without a
    missing quasi-identifier are tried. Where no rows match, the values of each unchanged column are compared whatever
    their rows. A key is proof of its own: what is changed beside it is told, and rows stay matched.
    """
    if pairs is not None and key is not None:
        raise OptionError("Rows are matched by pairs or by a key column, not by both. Give one.")
    names = tuple(
        name for name in schema.unchanged if name in original.columns and name in released.columns
    )
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
    return Alignment(
        pairs, sum(changed.values()), (_told(changed),) if any(changed.values()) else ()
    )


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
