"""Columns to be published unchanged: whether their values are those of the original, however they are stored."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.auditing.anonymity import combine
from microcell.auditing.readings import FAMILY, NANOSECONDS, read_categories
from microcell.model import Floats, Integers, Mask, Values

__all__ = ["Match", "are_mixed", "find_rows", "match_rows", "match_values"]

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
    same = (before.standing[rows] == after.standing) & ((after.standing != _VALUE) | (before.keys[rows] == after.keys))
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
    held, shown = (np.bincount(part, minlength=len(distinct)) for part in (place[: len(before)], place[len(before) :]))
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


def _side(values: Values, keys: Keys, *, alone: Mask | None = None, standing: int = _VALUE) -> _Side:
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
    return _side(values, np.where(whole, data, 0.0).astype(np.int64), alone=~whole, standing=standing)


def _of_times(before: Values, after: Values) -> Match:
    if FAMILY[before.storage] != FAMILY[after.storage]:
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
    if before.is_time and after.is_time and FAMILY[before.storage] == FAMILY[after.storage]:
        factor = NANOSECONDS[str(after.unit)] // NANOSECONDS[str(before.unit)]
        if factor > 1:
            counts, rest = np.divmod(before.data, factor)
            yield replace(before, data=counts + (2 * rest >= factor), storage=after.storage, unit=after.unit)


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
