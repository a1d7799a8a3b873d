"""Compare the values of two columns regardless of how they are stored."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.kinds.pairs import read_categories
from microcell.kinds.values import NANOSECONDS, TIME_FAMILY
from microcell.measures.classes import combine
from microcell.model import Floats, Integers, Mask, Values

__all__ = ["Match", "are_mixed", "find_rows", "match_rows", "match_values"]

Keys = NDArray[Any]
"""Arrays of int64 or float64, with equal numbers for equal values in both columns."""

_VALUE, _MISSING, _ONLY_BEFORE, _ONLY_AFTER = range(4)
"""State of a row: a value with a key, a missing value, or one that the other column cannot hold."""


@dataclass(frozen=True, eq=False)
class _Side:
    """One of two columns: a key and a state for each row."""

    keys: Keys
    states: Integers

    def values(self) -> Keys:
        return np.asarray(self.keys[self.states == _VALUE])

    def count(self, state: int) -> int:
        return int((self.states == state).sum())


@dataclass(frozen=True, eq=False)
class Match:
    """A column before and after; ``changed`` counts published values that differ."""

    before: _Side
    after: _Side
    changed: int = 0


def match_rows(name: str, before: Values, after: Values, rows: Integers) -> Match:
    """Compare published row i with row ``rows[i]`` of the original.

    Values are compared, not their storage: 1 equals 1.0, midnight equals its day, and missing
    equals missing. A number also equals what a file would store for it (see :func:`_as_written`).

    Examples
    --------
    >>> present = np.array([False, False])
    >>> before, after = (Values("integer", np.array(pair), present) for pair in ([1, 2], [2, 2]))
    >>> match_rows("x", before, after, np.array([0, 1])).changed
    1
    """
    return _closest_match(name, before, after, lambda match: _count_different(match, rows))


def match_values(name: str, before: Values, after: Values) -> Match:
    """Compare the columns regardless of rows; surplus published values count as changed.

    Examples
    --------
    >>> present = np.array([False, False])
    >>> before, after = (Values("integer", np.array(pair), present) for pair in ([1, 2], [2, 1]))
    >>> match_values("x", before, after).changed
    0
    """
    return _closest_match(name, before, after, _count_excess)


def find_rows(name: str, before: Values, after: Values) -> Integers:
    """Return an original row with the same value for each published value; -1 if none or missing.

    Values are compared as in :func:`match_rows`.

    Examples
    --------
    >>> present = np.array([False, False])
    >>> before, after = (Values("integer", np.array(pair), present) for pair in ([1, 2], [2, 3]))
    >>> find_rows("x", before, after)
    array([ 1, -1])
    """
    match = match_values(name, before, after)
    candidates = np.flatnonzero(match.before.states == _VALUE)
    candidates = candidates[np.argsort(match.before.keys[candidates])]
    present_after = np.flatnonzero(match.after.states == _VALUE)
    rows = np.full(len(after), -1, dtype=np.int64)
    if len(candidates) and len(present_after):
        keys = match.before.keys[candidates]
        position = np.searchsorted(keys, match.after.keys[present_after])
        position = np.minimum(position, len(candidates) - 1)
        equal = keys[position] == match.after.keys[present_after]
        rows[present_after] = np.where(equal, candidates[position], -1)
    return rows


def are_mixed(matches: Sequence[Match]) -> bool:
    """Return whether any combination of values occurs more often after than before."""
    if not matches:
        return False
    n_before = len(matches[0].before.keys)
    labels = np.zeros(n_before + len(matches[0].after.keys), dtype=np.int64)
    for match in matches:
        labels = combine(labels, _codes(match))
    return _surplus(labels[:n_before], labels[n_before:]) > 0


def _closest_match(
    name: str, before: Values, after: Values, count: Callable[[Match], int]
) -> Match:
    """Match the column unchanged or, if values differ, as a file would store it."""
    match = _match(name, before, after)
    best = replace(match, changed=count(match))
    if not best.changed:
        return best
    for written, read in _as_written(before, after):
        match = _match(name, written, read)
        best = min(best, replace(match, changed=count(match)), key=lambda item: item.changed)
    return best


def _count_different(match: Match, rows: Integers) -> int:
    before, after = match.before, match.after
    same_state = before.states[rows] == after.states
    same = same_state & ((after.states != _VALUE) | (before.keys[rows] == after.keys))
    return len(same) - int(same.sum())


def _count_excess(match: Match) -> int:
    before, after = match.before, match.after
    more_missing = max(0, after.count(_MISSING) - before.count(_MISSING))
    return more_missing + after.count(_ONLY_AFTER) + _surplus(before.values(), after.values())


def _surplus(before: Keys, after: Keys) -> int:
    """Count the occurrences of values in ``after`` beyond those in ``before``."""
    if np.array_equal(np.sort(before), np.sort(after)):
        return 0
    distinct, position = np.unique(np.concatenate((before, after)), return_inverse=True)
    counts_before = np.bincount(position[: len(before)], minlength=len(distinct))
    counts_after = np.bincount(position[len(before) :], minlength=len(distinct))
    return int(np.maximum(counts_after - counts_before, 0).sum())


def _codes(match: Match) -> Integers:
    """Return a code for each row before and then after, equal where the values are."""
    codes = np.concatenate((match.before.states, match.after.states))
    keys = np.concatenate((match.before.values(), match.after.values()))
    codes[codes == _VALUE] = np.unique(keys, return_inverse=True)[1] + _ONLY_AFTER + 1
    return codes


# Storages


def _match(name: str, before: Values, after: Values) -> Match:
    if _type(before) == _type(after):
        return Match(_side(before, before.data), _side(after, after.data))
    if "empty" in (before.storage, after.storage):
        return Match(_side(before, np.zeros(len(before))), _side(after, np.zeros(len(after))))
    if before.is_number and after.is_number:
        return _match_numbers(before, after)
    if before.is_time and after.is_time:
        return _match_times(before, after)
    categories = read_categories(name, before, after)
    return Match(_side(before, categories.before), _side(after, categories.after))


def _side(
    values: Values, keys: Keys, *, unmatched: Mask | None = None, state: int = _VALUE
) -> _Side:
    """Return one side of a comparison; ``unmatched`` marks values the other column cannot have."""
    states = np.where(values.missing, _MISSING, _VALUE)
    if unmatched is not None:
        states[unmatched & ~values.missing] = state
    return _Side(keys, states)


def _type(values: Values) -> tuple[str, str | None, tuple[str, ...]]:
    """Return a type key: columns with equal keys can be compared without conversion."""
    return values.storage, values.unit, values.categories


def _match_numbers(before: Values, after: Values) -> Match:
    # Floats become integers, not the reverse: beyond 2**53, two integers may be the same float.
    if before.storage == "float":
        return Match(_as_integers(before, _ONLY_BEFORE), _side(after, after.data))
    return Match(_side(before, before.data), _as_integers(after, _ONLY_AFTER))


def _as_integers(values: Values, state: int) -> _Side:
    data: Floats = values.data
    whole = (np.floor(data) == data) & (data >= -(2.0**63)) & (data < 2.0**63)
    keys = np.where(whole, data, 0.0).astype(np.int64)
    return _side(values, keys, unmatched=~whole, state=state)


def _match_times(before: Values, after: Values) -> Match:
    if TIME_FAMILY[before.storage] != TIME_FAMILY[after.storage]:
        all_before = np.ones(len(before), dtype=np.bool_)
        all_after = np.ones(len(after), dtype=np.bool_)
        return Match(
            _side(before, before.data, unmatched=all_before, state=_ONLY_BEFORE),
            _side(after, after.data, unmatched=all_after, state=_ONLY_AFTER),
        )
    # Compare in the coarser unit, because counts of the finer one may overflow.
    unit = max(NANOSECONDS[str(before.unit)], NANOSECONDS[str(after.unit)])
    return Match(_in_unit(before, unit, _ONLY_BEFORE), _in_unit(after, unit, _ONLY_AFTER))


def _in_unit(values: Values, unit: int, state: int) -> _Side:
    factor = unit // NANOSECONDS[str(values.unit)]
    if factor == 1:
        return _side(values, values.data)
    counts, rest = np.divmod(values.data, factor)
    return _side(values, counts, unmatched=rest != 0, state=state)


# File formats


def _as_written(before: Values, after: Values) -> Iterator[tuple[Values, Values]]:
    """Yield the original column as file formats store it, and the file's column to compare with.

    Spreadsheets keep 16 digits, text files write single-precision floats with as few digits as
    needed, files with coarser times round them, and formats without a type store numbers (for
    booleans) or text. Each value has exactly one such form, so this tolerance cannot hide a change.
    """
    if before.storage == after.storage == "float":
        yield replace(before, data=_rewrite(before, _with_16_digits)), after
        if _is_single_precision(before):
            yield replace(before, data=_rewrite(before, _with_shortest_digits)), after
    if before.storage == "boolean" and after.is_number:
        numbers = np.array([*(name.lower() == "true" for name in before.categories), 0], np.int64)
        codes = np.where(before.missing, len(before.categories), before.data)
        yield Values("integer", numbers[codes], before.missing), after
    if after.storage == "text" and (before.is_number or before.is_time):
        parsed = _parse_texts(after, before)
        if parsed is not None:
            yield before, parsed
    if before.storage == "text" and (after.is_number or after.is_time):
        parsed = _parse_texts(before, after)
        if parsed is not None:
            yield parsed, after
    if before.is_time and after.is_time:
        same_family = TIME_FAMILY[before.storage] == TIME_FAMILY[after.storage]
        factor = NANOSECONDS[str(after.unit)] // NANOSECONDS[str(before.unit)]
        if same_family and factor > 1:
            counts, rest = np.divmod(before.data, factor)
            rounded = counts + (2 * rest >= factor)
            yield replace(before, data=rounded, storage=after.storage, unit=after.unit), after


_CODE = re.compile(r"\s*[+-]?0\d")
"""A text such as 007, which is a code and not the number 7."""

_DURATION = re.compile(
    r"(?P<sign>-?)P(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)(?:\.(?P<part>\d+))?S)?)?"
)


def _parse_texts(texts: Values, like: Values) -> Values | None:
    """Parse a text column into the type of another column; None if a text cannot be parsed."""
    dtype = np.float64 if like.storage == "float" else np.int64
    try:
        parsed = [_PARSERS[like.storage](text) for text in texts.categories]
        distinct = np.array([*parsed, 0], dtype=dtype)
    except (ValueError, OverflowError):
        return None
    data = distinct[np.where(texts.missing, len(parsed), texts.data)]
    return Values(like.storage, data, texts.missing, unit="ns" if like.is_time else None)


def _parse_integer(text: str) -> int:
    return int(_not_a_code(text))


def _parse_float(text: str) -> float:
    return float(_not_a_code(text))


def _not_a_code(text: str) -> str:
    if _CODE.match(text):
        raise ValueError
    return text


def _parse_moment(text: str) -> int:
    """Parse an ISO date or datetime, with or without a time zone, as nanoseconds."""
    whole, _, rest = text.partition(".")
    zone = rest.lstrip("0123456789")
    moment = datetime.fromisoformat(whole + zone)
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    return seconds * _SECOND + _nanoseconds(rest.removesuffix(zone))


def _parse_time(text: str) -> int:
    whole, _, digits = text.partition(".")
    moment = time.fromisoformat(whole)
    seconds = 3600 * moment.hour + 60 * moment.minute + moment.second
    return seconds * _SECOND + _nanoseconds(digits)


def _parse_duration(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError
    parts = (int(match[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
    days, hours, minutes, seconds = parts
    length = ((24 * days + hours) * 60 + minutes) * 60 + seconds
    total = length * _SECOND + _nanoseconds(match["part"] or "")
    return -total if match["sign"] else total


def _nanoseconds(digits: str) -> int:
    return int(digits.ljust(9, "0")[:9]) if digits else 0


_SECOND = NANOSECONDS["s"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PARSERS: dict[str, Callable[[str], int | float]] = {
    "integer": _parse_integer,
    "float": _parse_float,
    "date": _parse_moment,
    "datetime": _parse_moment,
    "time": _parse_time,
    "duration": _parse_duration,
}


def _rewrite(values: Values, write: Callable[[Floats], Floats]) -> Floats:
    present = ~values.missing
    distinct, position = np.unique(values.data[present], return_inverse=True)
    data = values.data.copy()
    data[present] = write(distinct)[position]
    return data


def _with_16_digits(numbers: Floats) -> Floats:
    return np.array([float(f"{number:.16G}") for number in numbers.tolist()], dtype=np.float64)


def _with_shortest_digits(numbers: Floats) -> Floats:
    return numbers.astype(np.float32).astype(np.str_).astype(np.float64)


def _is_single_precision(values: Values) -> bool:
    present = values.data[~values.missing]
    with np.errstate(over="ignore"):
        return bool((present.astype(np.float32) == present).all())
