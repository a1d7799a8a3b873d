"""Round numbers: bounds of published ranges, and the scale and centre of a published encoding."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, log10

import numpy as np

from microcell.kernels.arrays import Floats

__all__ = [
    "Step",
    "chosen_range_text",
    "column_step",
    "range_text",
    "round_centre",
    "round_scale",
    "step_above",
]

_COLUMN_PARTS = 10
"""A column's step is at least its interquartile range divided by this number."""

_CELL_PARTS = 4
"""A range's step is at least its width divided by this number."""

_PLAIN_EXPONENTS = range(-12, 16)
"""Other powers of ten are written with an exponent."""


_PREFERRED = ("1", "1.25", "1.6", "2", "2.5", "3.15", "4", "5", "6.3", "8", "10")
"""Preferred numbers (Renard series R10): each is about a quarter larger than the one before."""

_CENTRE_PARTS = 5
"""The step of a rounded centre is at most the scale divided by this number."""


@dataclass(frozen=True)
class Step:
    """The step ``lead`` * 10 ** ``exponent``, with a lead of 1, 2 or 5."""

    lead: int
    exponent: int

    @property
    def size(self) -> Fraction:
        """The step as an exact number."""
        return self.lead * Fraction(10) ** self.exponent

    def text(self, multiple: int) -> str:
        """Write a multiple of the step in decimals, without rounding."""
        digits = multiple * self.lead
        if self.exponent not in _PLAIN_EXPONENTS:
            return f"{digits}e{self.exponent}" if digits else "0"
        if self.exponent >= 0:
            return str(digits * 10**self.exponent)
        sign = "-" if digits < 0 else ""
        padded = str(abs(digits)).zfill(1 - self.exponent)
        return f"{sign}{padded[: self.exponent]}.{padded[self.exponent :]}"


def step_above(size: float) -> Step:
    """Return the smallest step of at least this positive size.

    Examples
    --------
    >>> step_above(0.3), step_above(2400)
    (Step(lead=5, exponent=-1), Step(lead=5, exponent=3))
    """
    exponent = floor(log10(size)) - 1  # one lower, because logarithms are rounded
    steps = (Step(lead, power) for power in range(exponent, exponent + 4) for lead in (1, 2, 5))
    return next(step for step in steps if step.size >= Fraction(size))


def column_step(values: Floats, *, whole: bool) -> Step | None:
    """Return the resolution of a column's published ranges; None if the column is constant.

    It depends on the middle half of the values, so that no single record can determine it. If
    these are all equal, more of the values are used.
    """
    if not len(values):
        return None
    for share in (0.25, 0.1, 0.0):
        low, high = np.quantile(values / 2, [share, 1 - share]).tolist()  # halves cannot overflow
        if high > low:
            step = step_above((high - low) * 2 / _COLUMN_PARTS)
            return Step(1, 0) if whole and step.exponent < 0 else step
    return None


def range_text(low: float, high: float, step: Step) -> str:
    """Write a range that contains both numbers, rounded outward to multiples of a step.

    The step grows with the width of the range, so that a bound says little about the outermost
    record. A range always has a width, so that a bound cannot be recognized as a value.

    Examples
    --------
    >>> range_text(31, 34, Step(5, 0)), range_text(30, 30, Step(5, 0))
    ('30-35', '30-35')
    >>> range_text(48_000, 9_876_543, Step(5, 3)), range_text(-0.25, 0.5, Step(1, -1))
    ('0-10000000', '-0.4 to 0.6')
    """
    # Halves of floats cannot overflow, and differences of integers are exact.
    width = (high - low) / 2 if isinstance(low, int) else high / 2 - low / 2
    wide = step_above(width * 2 / _CELL_PARTS) if width > 0 else step
    used = max(step, wide, key=lambda item: item.size)
    # Decimals as written: the float nearest to 0.3 is less than 0.3.
    first = floor(Fraction(str(low)) / used.size)
    last = max(ceil(Fraction(str(high)) / used.size), first + 1)
    return (" to " if first < 0 else "-").join((used.text(first), used.text(last)))


def chosen_range_text(low: float, high: float, step: float) -> str:
    """Write a range that contains both numbers, rounded outward to multiples of a chosen step.

    Examples
    --------
    >>> chosen_range_text(31, 34, 10), chosen_range_text(30, 30, 5)
    ('30-40', '30-35')
    >>> chosen_range_text(-0.3, 1, 0.25)
    '-0.5 to 1'
    """
    size = Fraction(repr(step))
    first = floor(Fraction(str(low)) / size)
    last = max(ceil(Fraction(str(high)) / size), first + 1)
    words = (_decimal_text(first * Decimal(repr(step))), _decimal_text(last * Decimal(repr(step))))
    return (" to " if first < 0 else "-").join(words)


def _decimal_text(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def round_scale(scale: float) -> float:
    """Return the preferred number nearest to a scale, at most 13 % off.

    The exact standard deviation, with the release, gives the sum of squares within cells, and so
    almost the value of an outlier.

    Examples
    --------
    >>> round_scale(14.2), round_scale(0.0723)
    (16.0, 0.08)
    """
    exponent = floor(log10(scale))
    candidates = [
        float(f"{number}e{power}")
        for power in (exponent - 1, exponent, exponent + 1)
        for number in _PREFERRED
    ]
    return min(candidates, key=lambda number: abs(log10(number) - log10(scale)))


def round_centre(centre: Fraction, scale: float) -> Fraction:
    """Return a round number within a tenth of the scale from the centre.

    Examples
    --------
    >>> round_centre(Fraction(48.13), 12.5), round_centre(Fraction(0.3), 0.4)
    (Fraction(48, 1), Fraction(3, 10))
    """
    grid = step_above(scale / _CENTRE_PARTS / 2.5).size
    return round(centre / grid) * grid
