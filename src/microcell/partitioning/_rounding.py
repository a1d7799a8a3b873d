"""Round numbers and dates: the candidates for a bound that a person must read, roundest first."""

from collections.abc import Iterator
from math import ceil, floor, isfinite, log10
from typing import Any

import numpy as np

from microcell.model import EncodedColumn

__all__ = ["round_dates", "round_numbers", "round_wholes"]

MOST = 400
"""So many round numbers of one level are looked at, those in the middle."""

_MONTHS = (120, 60, 12, 6, 3, 1)
_SECONDS = (86_400, 43_200, 21_600, 3_600, 1_800, 900, 60, 1)
_A_SECOND = {"D": 0, "s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def round_numbers(low: float, high: float) -> Iterator[list[float]]:
    """Lists of round numbers from ``low`` to ``high``: multiples of 1, then 1/2, then 1/5 of ever smaller powers of 10.

    Examples
    --------
    >>> [found for found in round_numbers(31.7, 36.2) if found][0]
    [35.0]
    """
    if not (isfinite(low) and isfinite(high) and low <= high):
        return
    largest = max(abs(low), abs(high), 1e-290)
    for power in range(ceil(log10(largest)), floor(log10(max(high - low, largest * 1e-16, 1e-300))) - 3, -1):
        for part in (10, 5, 2):
            # Written out and read, so that 0.1 is 0.1 and not three times a third of it.
            yield [float(f"{count * part}e{power - 1}") for count in _multiples(low, high, part * 10.0 ** (power - 1))]


def round_wholes(low: int, high: int) -> Iterator[list[int]]:
    """Lists of round whole numbers from ``low`` to ``high``.

    Examples
    --------
    >>> [found for found in round_wholes(12_340, 12_680) if found][0]
    [12500]
    """
    power = 10 ** len(str(max(abs(low), abs(high), 1)))
    while power >= 1:
        for part in (power, power // 2, power // 5):
            if part and (power >= 10 or part == 1):
                yield _steps(low, high, part)
        power //= 10


def round_dates(column: EncodedColumn, low: int, high: int) -> Iterator[list[int]]:
    """Lists of round dates or times between two counts of the column's unit: decades, years, months, days, hours, ...

    Examples
    --------
    >>> from datetime import date
    >>> birth = EncodedColumn("birth", "datetime", ("birth",), "date", "D")
    >>> days = [found for found in round_dates(birth, -3000, -2000) if found][0]
    >>> [str(date.fromordinal(date(1970, 1, 1).toordinal() + day)) for day in days]
    ['1962-01-01', '1963-01-01', '1964-01-01']
    """
    unit = str(column.unit)
    if column.storage in ("date", "datetime"):
        for step in _MONTHS:
            yield _first_days(low, high, step, unit)
    seconds = _A_SECOND[unit]
    if not seconds:
        yield _steps(low, high, 1)
        return
    for step in _SECONDS:
        yield _steps(low, high, step * seconds)
    yield from round_wholes(low, high)


def _first_days(low: int, high: int, step: int, unit: str) -> list[int]:
    """The first moments of months that are multiples of ``step`` months from 1970."""
    ends: Any = np.array([low, high], dtype=f"M8[{unit}]").astype("M8[M]").astype(np.int64)
    months = np.arange(ends[0] // step * step, ends[1] + step, step)
    found = months.astype("M8[M]").astype(f"M8[{unit}]").astype(np.int64)
    return _middle(found[(found >= low) & (found <= high)].tolist())


def _steps(low: int, high: int, step: int) -> list[int]:
    first, last = -(-low // step), high // step
    if last - first >= MOST:
        first = (first + last - MOST) // 2
        last = first + MOST
    return [count * step for count in range(first, last + 1)]


def _multiples(low: float, high: float, step: float) -> range:
    first, last = ceil(low / step), floor(high / step)
    if last - first >= MOST:
        first = (first + last - MOST) // 2
        last = first + MOST
    return range(first, last + 1)


def _middle(found: list[int]) -> list[int]:
    spare = max(len(found) - MOST, 0) // 2
    return found[spare : len(found) - spare]
