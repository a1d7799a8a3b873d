"""Hierarchies of numbers and dates: bands of equal width, months, quarters and years."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Any

from microcell._display import record_repr
from microcell.hierarchies.taxonomy import ROOT

__all__ = ["CALENDAR", "Bands", "check_widths"]

CALENDAR = ("month", "quarter", "year", "decade")
"""Bands of dates, narrowest first."""

_DAYS = {"month": 30.4375, "quarter": 91.3125, "year": 365.25, "decade": 3652.5}


@dataclass(frozen=True)
class Bands:
    """Numbers or dates in bands, each of which lies in a wider one.

    Parameters
    ----------
    widths
        Widths of the bands, narrowest first, each a multiple of the one before; or names of
        :data:`CALENDAR`.
    span
        Largest minus smallest value, in days for dates.
    whole
        True if all values are whole numbers, so that a band is written "40-44", not "40-45".

    Examples
    --------
    >>> ages = Bands((5, 20), span=80, whole=True)
    >>> ages.path("43")
    ('43', '40-44', '40-59', '*')
    >>> Bands(("quarter", "year"), span=700, whole=True).path("2024-05-17")
    ('2024-05-17', '2024-Q2', '2024', '*')
    """

    widths: tuple[float | str, ...]
    span: float
    whole: bool

    root = ROOT
    source = None

    __repr__ = record_repr

    def describe(self) -> str:
        """Return a phrase for manifests and reports."""
        return "bands of " + ", ".join(map(str, self.widths))

    def as_plain(self) -> dict[str, Any]:
        """Return the fields as plain data, for JSON."""
        return {"widths": list(self.widths), "span": self.span, "whole": self.whole}

    def path(self, label: str) -> tuple[str, ...] | None:
        """Return the labels from this one to the root; None if it is neither value nor band."""
        if label == ROOT:
            return (ROOT,)
        level, value = self._locate(label)
        if value is None:
            return None
        wider = [self._label(value, width) for width in self.widths[level:]]
        return (label, *(text for text in wider if text != label), ROOT)

    def share(self, label: str) -> float:
        """Return the width of a band relative to the span of the column, at most 1."""
        if label == ROOT:
            return 1.0
        level, _ = self._locate(label)
        if level == 0:
            return 0.0
        return min(self._width(level - 1) / self.span, 1.0) if self.span > 0 else 0.0

    @property
    def share_of_one(self) -> float:
        """Increase of a share per additional possible value: a whole number, or a day."""
        return min(1.0 / self.span, 1.0) if self.span > 0 else 1.0

    def height(self, label: str) -> float:
        """Return the squared distance of two values whose smallest common band this is."""
        if label == ROOT:
            return 1.0
        level, _ = self._locate(label)
        return (level / (len(self.widths) + 1) + self.share(label)) / 2

    def _width(self, level: int) -> float:
        width = self.widths[level]
        return _DAYS[width] if isinstance(width, str) else float(width)

    def _locate(self, label: str) -> tuple[int, Fraction | date | None]:
        """Return the level of a label (0 for a value) and one of its values."""
        value = _read(label, self.is_calendar)
        if value is not None:
            return 0, value
        for level, width in enumerate(self.widths, start=1):
            first = _first_of(label, width)
            if first is not None and self._label(first, width) == label:
                return level, first
        return 0, None

    @property
    def is_calendar(self) -> bool:
        """True for bands of dates."""
        return isinstance(self.widths[0], str)

    def _label(self, value: Fraction | date, width: float | str) -> str:
        if isinstance(value, date):
            return _calendar_label(value, str(width))
        step = Fraction(str(width))
        low = floor(value / step) * step
        high = low + step - 1 if self.whole else low + step
        if low == high:
            return _text(low)
        return (" to " if low < 0 else "-").join((_text(low), _text(high)))


def check_widths(widths: Sequence[object]) -> str:
    """Return the problem with the widths of bands; empty if they are valid."""
    if not widths:
        return "bands is empty. List at least one width"
    if all(isinstance(width, str) for width in widths):
        order = [CALENDAR.index(str(width)) for width in widths if width in CALENDAR]
        if len(order) < len(widths) or any(a >= b for a, b in pairwise(order)):
            return f"bands of dates are some of {', '.join(CALENDAR)}, in this order"
        return ""
    numbers = [
        Fraction(str(width))
        for width in widths
        if isinstance(width, (int, float)) and not isinstance(width, bool) and width > 0
    ]
    if len(numbers) < len(widths):
        return "bands must be positive numbers, or calendar units: " + ", ".join(CALENDAR)
    if any(wide <= narrow or wide % narrow for narrow, wide in pairwise(numbers)):
        return "every band must be a multiple of the one before, as in bands = [5, 10, 20]"
    return ""


def _read(label: str, is_calendar: bool) -> Fraction | date | None:
    try:
        return date.fromisoformat(label[:10]) if is_calendar else Fraction(label)
    except ValueError:
        return None


def _first_of(label: str, width: float | str) -> Fraction | date | None:
    """Return the smallest value of a band, if the label can be one of this width."""
    try:
        if not isinstance(width, str):
            return Fraction(label.partition(" to " if " to " in label else "-")[0])
        if width == "quarter":
            year, _, quarter = label.partition("-Q")
            return date(int(year), 3 * int(quarter) - 2, 1)
        return date.fromisoformat(
            {"month": label, "year": f"{label}-01", "decade": f"{label[:4]}-01"}[width] + "-01"
        )
    except ValueError:
        return None


def _calendar_label(day: date, width: str) -> str:
    if width == "month":
        return f"{day.year:04}-{day.month:02}"
    if width == "quarter":
        return f"{day.year:04}-Q{(day.month + 2) // 3}"
    return f"{day.year:04}" if width == "year" else f"{day.year // 10:03}0s"


def _text(number: Fraction) -> str:
    return str(int(number)) if number.denominator == 1 else repr(float(number))
