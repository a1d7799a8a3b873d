"""Boxes in words: the ranges and categories of a box, in the language of a questionnaire."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import ceil, inf, isinf, nextafter

import numpy as np

from microcell._display import record_html, record_repr
from microcell.cells import BoxCells, Cells
from microcell.cells.boxes import EXACT, Side
from microcell.errors import OptionError
from microcell.kinds import kind_of
from microcell.model import EncodedColumn
from microcell.surveys.questionnaire import Questionnaire

__all__ = [
    "ANY",
    "BoxDescription",
    "describe_boxes",
    "describe_side",
    "prefixes",
    "require_boxes",
]

_ENGLISH = Questionnaire()

ANY = "any"


@dataclass(frozen=True)
class BoxDescription:
    """A box in words: the range or the categories of each column, "any" if it has no limit."""

    number: int
    columns: Mapping[str, str]

    __repr__ = record_repr
    _repr_html_ = record_html


def describe_boxes(cells: Cells) -> tuple[BoxDescription, ...]:
    """Describe each box in words, by column, without the columns that no box depends on.

    A bound belongs to the range above it: "under 35" ends before 35 and "35 and over" starts with
    it. "35 to 49" includes both integers; "1.5 to under 2" includes 1.5 but not 2. Ranges of dates
    name the first and the last day. Ordinal columns are described by lists of names or, if they are
    numbers, by the last known number of a range. Codes are described by their first characters. The
    descriptions also hold for values that the cells do not know.

    Examples
    --------
    >>> from microcell.model import EncodedColumn, Encoding
    >>> age = EncodedColumn("age", "numeric", ("age",), "integer", origin=40,
    ...     centre=np.zeros(1), scale=np.ones(1))
    >>> cells = BoxCells(centroids=[[-9.0], [0.0], [20.0]], sizes=[3, 5, 4], k=3,
    ...     encoding=Encoding((age,)), columns=[0, 0], bounds=[34.5, 49.5],
    ...     categories=[(), ()], lower=[2, 3], upper=[1, 4])
    >>> [box.columns["age"] for box in describe_boxes(cells)]
    ['under 35', '35 to 49', '50 and over']
    """
    boxes = require_boxes(cells)
    assert boxes.encoding is not None
    columns = boxes.encoding.columns
    descriptions = []
    for number, sides in enumerate(boxes.sides()):
        words = {columns[at].name: describe_side(columns[at], side) for at, side in sides.items()}
        descriptions.append(BoxDescription(number, words))
    return tuple(descriptions)


def require_boxes(cells: object) -> BoxCells:
    """Return ``cells`` if they are box-shaped, otherwise raise :class:`OptionError`."""
    if not isinstance(cells, BoxCells):
        kind = f"{cells.kind!r} cells" if hasattr(cells, "kind") else type(cells).__name__
        raise OptionError(
            f"A paper form needs box-shaped cells, not {kind}: rerun 'microcell survey design' "
            "with --trust none.",
            code="option.unsupported",
            option="cells",
        )
    return cells


def describe_side(column: EncodedColumn, side: Side, texts: Questionnaire = _ENGLISH) -> str:
    """Describe the values of a column that a box contains."""
    if side.names is not None:
        return _describe_categories(column, side, texts)
    if isinf(side.low) and isinf(side.high):
        return texts.say(ANY)
    if kind_of(column).matches_by_prefix:
        return _describe_codes(column, side)
    if column.layout == "places":
        return _describe_ordinal(column, side, texts)
    if isinstance(column.origin, int):
        return _describe_integers(column, side, texts)
    return _describe_reals(side, texts)


def _describe_reals(side: Side, texts: Questionnaire) -> str:
    low, high = f"{side.low:.15g}", f"{side.high:.15g}"
    if side.low == -inf:
        return texts.say("under {high}", high=high)
    if side.high == inf:
        return texts.say("{low} and over", low=low)
    return texts.say("{low} to under {high}", low=low, high=high)


def _describe_categories(column: EncodedColumn, side: Side, texts: Questionnaire) -> str:
    known = {at for at, name in enumerate(column.names) if name is not None}
    included = [_label(column, at, texts) for at in sorted(side.names or ())]
    if not side.others:
        return ", ".join(included)
    excluded = [_label(column, at, texts) for at in sorted(known - (side.names or frozenset()))]
    if not excluded:
        return texts.say(ANY)
    if len(excluded) < len(included):
        return texts.say("anything but {names}", names=", ".join(excluded))
    if included:
        return ", ".join([*included, texts.say("or anything else")])
    return texts.say("anything else")


def _label(column: EncodedColumn, at: int, texts: Questionnaire) -> str:
    """Return a category as people write it; encodings store dates and times as counts."""
    name = str(column.names[at])
    count, _, unit = name.partition(" ")
    if column.unit is not None and unit == column.unit:
        return _format_moment(column, int(count), texts)
    return texts.value(column.name, name)


def _describe_ordinal(column: EncodedColumn, side: Side, texts: Questionnaire) -> str:
    """Describe numbers and times by the last known one of the range, other names in full.

    An unknown number lies between its neighbours, above the bound between them. An unknown name is
    placed at the mean, which is 0.
    """
    places = column.places.tolist()
    labels = [_label(column, at, texts) for at in range(len(places))]
    if column.storage in ("integer", "float") or column.unit is not None:
        below = [name for name, place in zip(labels, places, strict=True) if place < side.low]
        included = [name for name, place in zip(labels, places, strict=True) if place < side.high]
        parts = [texts.say("over {low}", low=name) for name in below[-1:]]
        if not isinf(side.high):
            parts += [texts.say("up to {high}", high=name) for name in included[-1:]]
        return ", ".join(parts)
    inside = zip(labels, places, strict=True)
    names = [name for name, place in inside if side.low <= place < side.high]
    if side.low <= 0 < side.high:
        names.append(texts.say("or anything else"))
    return ", ".join(names)


def prefixes(column: EncodedColumn, side: Side) -> tuple[list[str], list[str]]:
    """Return the prefixes of codes in a range, and longer prefixes to exclude again.

    An unknown code is placed with the first known code that shares its longest known prefix. So it
    lies above a bound exactly if it starts with characters that only known codes above the bound
    start with.
    """
    above = _prefixes_above(column, side.low)
    beyond = _prefixes_above(column, side.high)
    included = [prefix for prefix in above if not any(prefix.startswith(end) for end in beyond)]
    excluded = [prefix for prefix in beyond if any(prefix.startswith(one) for one in included)]
    return included, excluded


def _prefixes_above(column: EncodedColumn, bound: float) -> list[str]:
    """Return the shortest prefixes that only codes above the bound have."""
    names = [str(name) for name in column.names]
    first = sum(place < bound for place in column.places.tolist())
    if first in (0, len(names)):
        return []
    last_below = names[first - 1]
    shortest = set()
    for name in names[first:]:
        common = next(
            (at for at, sign in enumerate(name) if last_below[at : at + 1] != sign), len(name)
        )
        shortest.add(name[: common + 1])
    return sorted(shortest)


def _describe_codes(column: EncodedColumn, side: Side) -> str:
    if isinf(side.low):
        return f"not starting with {', '.join(_prefixes_above(column, side.high))}"
    included, excluded = prefixes(column, side)
    exception = f", but not with {', '.join(excluded)}" if excluded else ""
    return f"starting with {', '.join(included)}{exception}"


def _describe_integers(column: EncodedColumn, side: Side, texts: Questionnaire) -> str:
    """Describe a range of integers, dates or times; a bound lies just below its integer."""
    low, high = _first_integer(side.low), _first_integer(side.high)
    if column.unit is not None:
        return _describe_moments(column, low, high, texts)
    if isinf(low):
        return texts.say("under {high}", high=_format_integer(high))
    first = _format_integer(low)
    if isinf(high):
        return texts.say("{low} and over", low=first)
    if high - low <= 1:
        return first
    return texts.say("{low} to {high}", low=first, high=_format_integer(high - 1))


def _describe_moments(column: EncodedColumn, low: float, high: float, texts: Questionnaire) -> str:
    is_duration = column.storage == "duration"
    if isinf(low):
        end = _format_moment(column, int(high), texts)
        return texts.say("under {high}" if is_duration else "before {high}", high=end)
    first = _format_moment(column, int(low), texts)
    if isinf(high):
        return texts.say("{low} and over" if is_duration else "{low} or later", low=first)
    if column.unit != "D":
        end = _format_moment(column, int(high), texts)
        return texts.say("{low} to before {high}", low=first, high=end)
    if high - low <= 1:
        return first
    last = _format_moment(column, int(high) - 1, texts)
    return texts.say("{low} to {high}", low=first, high=last)


def _first_integer(bound: float) -> float:
    if isinf(bound):
        return bound
    return ceil(bound) if abs(bound) < EXACT else nextafter(bound, inf)


def _format_integer(value: float) -> str:
    return f"{int(value):,}" if abs(value) >= 10_000 else str(int(value))


_SECONDS = {"D": 86_400.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def _format_moment(column: EncodedColumn, count: int, texts: Questionnaire) -> str:
    """Format a date, a time of day or a duration, stored as a count of the column's unit."""
    if column.storage in ("date", "datetime"):
        text = str(np.datetime64(count, column.unit)).replace("T", " ")  # type: ignore[call-overload]
        for zeros in (".000000000", ".000000", ".000", ":00"):
            text = text.removesuffix(zeros)
        return text
    seconds = count * _SECONDS[str(column.unit)]
    if column.storage == "duration":
        return texts.say("{n} seconds", n=f"{seconds:.15g}")
    text = str(timedelta(seconds=round(seconds, 6)))
    return text.removesuffix(":00").rjust(5, "0") if text.endswith(":00") else text
