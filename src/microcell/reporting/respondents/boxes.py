"""Boxes in words: ranges in the columns' own units, and lists of categories."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import ceil, inf, isinf, nextafter

import numpy as np

from microcell.cells import BoxCells, Cells
from microcell.cells.boxes import EXACT, Side
from microcell.errors import OptionError
from microcell.model import EncodedColumn

__all__ = ["ANY", "BoxInWords", "as_boxes", "beginnings", "describe_boxes", "side_in_words"]

ANY = "any"


@dataclass(frozen=True)
class BoxInWords:
    """A box as a person reads it: by name of a column the range or the categories, "any" where it holds them all."""

    number: int
    holds: Mapping[str, str]


def describe_boxes(cells: Cells) -> tuple[BoxInWords, ...]:
    """Each box in words, by column; columns that no box asks for are left out.

    A bound belongs to the range above it: "under 35" ends before 35, "35 and over" begins with it, and "35 to 49" holds
    both, being whole numbers; "1.5 to under 2" holds 1.5 and not 2. Ranges of dates name the first and the last day.
    Ordinal columns have lists of names, or, where they are numbers, the known number that a range ends with. Codes have
    the signs that they begin with. The words hold for values that the boxes do not know, too.

    Examples
    --------
    >>> from microcell.model import EncodedColumn, Encoding
    >>> age = EncodedColumn("age", "numeric", ("age",), "integer", origin=40, centre=np.zeros(1), scale=np.ones(1))
    >>> cells = BoxCells(centroids=[[-9.0], [0.0], [20.0]], sizes=[3, 5, 4], k=3, encoding=Encoding((age,)),
    ...     columns=[0, 0], bounds=[34.5, 49.5], categories=[(), ()], lower=[2, 3], upper=[1, 4])
    >>> [box.holds["age"] for box in describe_boxes(cells)]
    ['under 35', '35 to 49', '50 and over']
    """
    boxes = as_boxes(cells)
    assert boxes.encoding is not None
    columns = boxes.encoding.columns
    return tuple(
        BoxInWords(number, {columns[place].name: side_in_words(columns[place], side) for place, side in sides.items()})
        for number, sides in enumerate(boxes.sides())
    )


def as_boxes(cells: object) -> BoxCells:
    """The cells, if they are boxes."""
    if not isinstance(cells, BoxCells):
        what = f"cells of kind {cells.kind!r}" if hasattr(cells, "kind") else type(cells).__name__
        raise OptionError(f"Only boxes can be put into words, not {what}. Design the survey for no trust.")
    return cells


def side_in_words(column: EncodedColumn, side: Side) -> str:
    """What a box holds of a column, in words."""
    if side.names is not None:
        return _categories(column, side)
    if isinf(side.low) and isinf(side.high):
        return ANY
    if column.kind == "code":
        return _codes(column, side)
    if column.kind == "ordinal":
        return _ordered(column, side)
    if isinstance(column.origin, int):
        return _wholes(column, side)
    return _range("under {}", "{} and over", "{} to under {}", side, lambda value: f"{value:.15g}")


def _categories(column: EncodedColumn, side: Side) -> str:
    known = {at for at, name in enumerate(column.names) if name is not None}
    held = [_label(column, at) for at in sorted(side.names or ())]
    if not side.others:
        return ", ".join(held)
    lacking = [_label(column, at) for at in sorted(known - (side.names or frozenset()))]
    if not lacking:
        return ANY
    if len(lacking) < len(held):
        return f"anything but {', '.join(lacking)}"
    return ", ".join([*held, "or anything else"]) if held else "anything else"


def _label(column: EncodedColumn, at: int) -> str:
    """A name as a person writes it: dates and times are counts in an encoding."""
    name = str(column.names[at])
    count, _, unit = name.partition(" ")
    return _moment(column, int(count)) if column.unit is not None and unit == column.unit else name


def _ordered(column: EncodedColumn, side: Side) -> str:
    """Numbers and times by the known one that a range ends with; other names in full.

    An unknown number lies between its neighbours, where the bound between them is, and so above it; an unknown name is
    at the mean, which is 0.
    """
    places = column.places.tolist()
    if column.storage in ("integer", "float") or column.unit is not None:
        below = [_label(column, at) for at, place in enumerate(places) if place < side.low][-1:]
        held = [_label(column, at) for at, place in enumerate(places) if place < side.high][-1:]
        parts = [f"over {name}" for name in below] + [f"up to {name}" for name in held if not isinf(side.high)]
        return ", ".join(parts)
    held = [_label(column, at) for at, place in enumerate(places) if side.low <= place < side.high]
    return ", ".join([*held, *(["or anything else"] if side.low <= 0 < side.high else [])])


def beginnings(column: EncodedColumn, side: Side) -> tuple[list[str], list[str]]:
    """How the codes of a range begin, and how those begin that must be left out of these again.

    An unknown code is placed with the first known one that shares its longest known beginning. So it is above a bound
    exactly if it begins with signs that only known codes above the bound begin with.
    """
    above, beyond = _beginnings_above(column, side.low), _beginnings_above(column, side.high)
    kept = [one for one in above if not any(one.startswith(other) for other in beyond)]
    return kept, [one for one in beyond if any(one.startswith(other) for other in kept)]


def _beginnings_above(column: EncodedColumn, bound: float) -> list[str]:
    """The shortest beginnings that only codes above the bound have."""
    names = [str(name) for name in column.names]
    first = sum(place < bound for place in column.places.tolist())
    if first in (0, len(names)):
        return []
    last = names[first - 1]  # the last code below
    out = set()
    for name in names[first:]:
        common = next((at for at, sign in enumerate(name) if last[at : at + 1] != sign), len(name))
        out.add(name[: common + 1])
    return sorted(out)


def _codes(column: EncodedColumn, side: Side) -> str:
    if isinf(side.low):
        return f"not beginning with {', '.join(_beginnings_above(column, side.high))}"
    kept, but = beginnings(column, side)
    return f"beginning with {', '.join(kept)}" + (f", but not with {', '.join(but)}" if but else "")


def _wholes(column: EncodedColumn, side: Side) -> str:
    """Bounds lie just before the number that they mean."""
    low, high = (_meant(value) for value in (side.low, side.high))
    if column.unit is None:
        if not isinf(low) and not isinf(high):
            return f"{_number(low)} to {_number(high - 1)}" if high - low > 1 else _number(low)
        return f"under {_number(high)}" if isinf(low) else f"{_number(low)} and over"
    first = "" if isinf(low) else _moment(column, int(low))
    if isinf(high):
        return f"{first} or later" if column.storage != "duration" else f"{first} and over"
    if isinf(low):
        return f"{'under' if column.storage == 'duration' else 'before'} {_moment(column, int(high))}"
    if column.unit == "D":
        return f"{first} to {_moment(column, int(high) - 1)}" if high - low > 1 else first
    return f"{first} to before {_moment(column, int(high))}"


def _meant(bound: float) -> float:
    if isinf(bound):
        return bound
    return ceil(bound) if abs(bound) < EXACT else nextafter(bound, inf)


def _range(under: str, over: str, between: str, side: Side, write: object) -> str:
    words = write if callable(write) else str
    if side.low == -inf:
        return under.format(words(side.high))
    return over.format(words(side.low)) if side.high == inf else between.format(words(side.low), words(side.high))


def _number(value: float) -> str:
    return f"{int(value):,}" if abs(value) >= 10_000 else str(int(value))


def _moment(column: EncodedColumn, count: int) -> str:
    """A date, a time of day or a length of time from a count of the column's unit."""
    if column.storage in ("date", "datetime"):
        text = str(np.datetime64(count, column.unit)).replace("T", " ")  # type: ignore[call-overload]
        return text.removesuffix(".000000000").removesuffix(".000000").removesuffix(".000").removesuffix(":00")
    seconds = count * {"D": 86_400.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[str(column.unit)]
    if column.storage == "duration":
        return f"{seconds:.15g} seconds"
    text = str(timedelta(seconds=round(seconds, 6)))
    return text.removesuffix(":00").rjust(5, "0") if text.endswith(":00") else text
