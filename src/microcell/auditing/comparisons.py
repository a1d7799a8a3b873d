"""Each quasi-identifier before and after, counted for the eye."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from microcell.auditing.readings import Categories, Numbers, read_categories, read_numbers
from microcell.model import Column, Comparison, Floats, Integers, Schema, Table, Values

__all__ = ["compare_columns"]

_INTERVALS = 20
_CATEGORIES = 12
_OTHER = "other"
_MISSING = "(missing)"

_SECONDS: Mapping[str, float] = {"D": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def compare_columns(original: Table, released: Table, schema: Schema) -> tuple[Comparison, ...]:
    """A :class:`Comparison` of each quasi-identifier, two of a location; none of a column without any value.

    Needs no matching of rows. Numbers and times are counted in about 20 intervals, categories by name: the 12 most
    frequent, and the others together.
    """
    found: list[Comparison] = []
    for column in schema.quasi:
        for part in column.parts:
            compare = _OF_KIND[column.kind]
            found.extend(compare(column, part, original.columns[part], released.columns[part]))
    return tuple(found)


def _of_numbers(column: Column, part: str, original: Values, released: Values) -> Sequence[Comparison]:
    reading = read_numbers(part, original, released)
    before, after = (side[~np.isnan(side)] for side in (reading.before, reading.after))
    both = np.concatenate((before, after))
    if not len(both):
        return ()
    edges = _edges(both, whole=original.data.dtype.kind == "i")
    values, unit = _on_axis(edges, reading, original)
    return (
        Comparison(
            name=part,
            kind=str(column.kind),
            before=_counted(before, edges),
            after=_counted(after, edges),
            edges=values,
            unit=unit,
        ),
    )


def _edges(numbers: Floats, *, whole: bool) -> Floats:
    """The bounds of the intervals; whole numbers get intervals that begin at whole numbers."""
    low, high = float(numbers.min()), float(numbers.max())
    if whole:
        low, high = float(np.floor(low)), float(np.floor(high)) + 1
        width = max(1.0, float(np.ceil((high - low) / _INTERVALS)))
        return low + width * np.arange(np.ceil((high - low) / width) + 1)
    steps = np.linspace(0, 1, _INTERVALS + 1 if high > low else 2)
    # A mean of the ends, and not a step added to one, so that the widest floats do not overflow.
    edges = low * (1 - steps) + high * steps
    edges[0], edges[-1] = low, high
    return np.maximum.accumulate(edges)


def _counted(numbers: Floats, edges: Floats) -> Integers:
    return np.histogram(numbers, bins=edges)[0].astype(np.int64)


def _on_axis(edges: Floats, reading: Numbers, values: Values) -> tuple[Floats, str | None]:
    """The bounds in the column's own values; durations and times of day in seconds."""
    bounds = edges + reading.origin
    if values.storage in ("duration", "time"):
        return bounds * _SECONDS[str(values.unit)], "seconds"
    return bounds, values.unit if values.is_time else None


def _of_names(column: Column, part: str, original: Values, released: Values) -> Sequence[Comparison]:
    return _by_name(column, part, read_categories(part, original, released))


def _of_ordered(column: Column, part: str, original: Values, released: Values) -> Sequence[Comparison]:
    reading = read_categories(part, original, released)
    return _by_name(column, part, reading, order=column.order or reading.names)


def _of_codes(column: Column, part: str, original: Values, released: Values) -> Sequence[Comparison]:
    """Codes are compared by their first characters, as many as give 12 groups or fewer."""
    reading = read_categories(part, original, released)
    seen = [reading.names[code] for code in np.unique(reading.before[reading.before >= 0]).tolist()]
    longest = max(map(len, seen), default=0)
    length = next((n for n in range(longest, 0, -1) if len({text[:n] for text in seen}) <= _CATEGORIES), 1)
    short = [_shortened(text, length) for text in reading.names]
    place = {text: code for code, text in enumerate(dict.fromkeys(short))}
    moved = np.array([place[text] for text in short] + [-1], dtype=np.int64)
    shortened = Categories(moved[reading.before], moved[reading.after], tuple(place))
    return _by_name(column, part, shortened, order=sorted(place))


def _shortened(code: str, length: int) -> str:
    return code[:length].rstrip("*").ljust(len(code), "*")


def _by_name(
    column: Column, part: str, reading: Categories, *, order: Sequence[str] | None = None
) -> Sequence[Comparison]:
    before, after = (
        np.bincount(side[side >= 0], minlength=len(reading.names)) for side in (reading.before, reading.after)
    )
    both = before + after
    if not both.sum():
        return ()
    frequent = [code for code in np.lexsort((-after, -before, -both))[:_CATEGORIES].tolist() if both[code]]
    shown = sorted(frequent, key=lambda code: -int(before[code]))
    if order is not None:
        place = {name: rank for rank, name in enumerate(order)}
        shown = sorted(frequent, key=lambda code: place.get(reading.names[code], len(place)))
    rows = [(reading.names[code], int(before[code]), int(after[code])) for code in shown]
    rows += _remainder(_OTHER, before.sum() - before[shown].sum(), after.sum() - after[shown].sum())
    rows += _remainder(_MISSING, (reading.before < 0).sum(), (reading.after < 0).sum())
    labels, firsts, seconds = zip(*rows, strict=True)
    return (Comparison(part, str(column.kind), np.array(firsts), np.array(seconds), labels=labels),)


def _remainder(label: str, before: np.int64, after: np.int64) -> list[tuple[str, int, int]]:
    return [(label, int(before), int(after))] if before or after else []


_OF_KIND: Mapping[str, Callable[[Column, str, Values, Values], Sequence[Comparison]]] = {
    "numeric": _of_numbers,
    "datetime": _of_numbers,
    "location": _of_numbers,
    "ordinal": _of_ordered,
    "nominal": _of_names,
    "code": _of_codes,
}
