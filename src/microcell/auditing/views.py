"""The records in two dimensions, before and after, for the eye."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from microcell.measures.pairs import (
    Categories,
    Numbers,
    centre,
    read_categories,
    read_numbers,
    read_points,
    read_ranks,
)
from microcell.model import Column, Comparison, Floats, Integers, Projection, Schema, Table, Values

__all__ = ["compare_columns", "project"]

_INTERVALS = 20
_CATEGORIES = 12
_OTHER = "other"
_MISSING = "(missing)"

_SECONDS: Mapping[str, float] = {
    "D": 86400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
}


def compare_columns(original: Table, released: Table, schema: Schema) -> tuple[Comparison, ...]:
    """A :class:`Comparison` of each quasi-identifier, two of a location; none of a column without any value.

    Needs no matching of rows. Numbers and times are counted in about 20 intervals, categories by name: the 12 most
    frequent, and the others together.
    """
    found: list[Comparison] = []
    for column in schema.quasi:
        for part in column.parts:
            compare = _COMPARE_BY_KIND[column.kind]
            found.extend(compare(column, part, original.columns[part], released.columns[part]))
    return tuple(found)


def _compare_numbers(
    column: Column, part: str, original: Values, released: Values
) -> Sequence[Comparison]:
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


def _of_names(
    column: Column, part: str, original: Values, released: Values
) -> Sequence[Comparison]:
    return _by_name(column, part, read_categories(part, original, released))


def _of_ordered(
    column: Column, part: str, original: Values, released: Values
) -> Sequence[Comparison]:
    reading = read_categories(part, original, released)
    return _by_name(column, part, reading, order=column.order or reading.names)


def _of_codes(
    column: Column, part: str, original: Values, released: Values
) -> Sequence[Comparison]:
    """Codes are compared by their first characters, as many as give 12 groups or fewer."""
    reading = read_categories(part, original, released)
    seen = [reading.names[code] for code in np.unique(reading.before[reading.before >= 0]).tolist()]
    longest = max(map(len, seen), default=0)
    length = next(
        (n for n in range(longest, 0, -1) if len({text[:n] for text in seen}) <= _CATEGORIES), 1
    )
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
        np.bincount(side[side >= 0], minlength=len(reading.names))
        for side in (reading.before, reading.after)
    )
    both = before + after
    if not both.sum():
        return ()
    frequent = [
        code for code in np.lexsort((-after, -before, -both))[:_CATEGORIES].tolist() if both[code]
    ]
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


_COMPARE_BY_KIND: Mapping[str, Callable[[Column, str, Values, Values], Sequence[Comparison]]] = {
    "numeric": _compare_numbers,
    "datetime": _compare_numbers,
    "location": _compare_numbers,
    "ordinal": _of_ordered,
    "nominal": _of_names,
    "code": _of_codes,
}


_SHOWN = 2_000
_MEASURED = 20_000
_INDICATORS = 12


@dataclass(frozen=True, eq=False)
class _Block:
    """Some dimensions before and after, one row a record, NaN where missing."""

    before: Floats
    after: Floats


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Two tables and the rows to take from each."""

    original: Table
    released: Table
    before: Integers
    after: Integers


def project(
    original: Table, released: Table, schema: Schema, *, pairs: Integers, classes: Integers
) -> Projection | None:
    """Up to 2,000 records in the first two principal components of the original; None if all records are alike.

    Each quasi-identifier is standardized to a total variance of 1 (a location: 2): numbers and ranks as they are,
    categories as indicators of the 12 most frequent, locations as points of the sphere. The axes are those of up to
    20,000 records of the original, evenly chosen; published values are put through the same axes.
    """
    rows = _evenly(len(pairs), _MEASURED)
    chosen = _Chosen(original, released, pairs[rows], rows)
    blocks = [
        _standardized(_OF_KIND[column.kind](column, chosen), len(column.parts))
        for column in schema.quasi
    ]
    before, after = (
        np.hstack([block.before for block in blocks]),
        np.hstack([block.after for block in blocks]),
    )
    if not before.any():
        return None
    values, axes = _principal(before)
    shown = _evenly(len(rows), _SHOWN)
    return Projection(
        before=before[shown] @ axes,
        after=after[shown] @ axes,
        classes=classes[rows[shown]],
        explained=(float(values[0]), float(values[1])),
        records=len(pairs),
    )


def _evenly(count: int, most: int) -> Integers:
    return np.linspace(0, max(count - 1, 0), min(count, most)).astype(np.int64)


def _principal(points: Floats) -> tuple[Floats, Floats]:
    """The shares of variance of the first two components, and their axes; zeros where there is no second."""
    values, vectors = np.linalg.eigh(points.T @ points)
    order = np.argsort(-values, kind="stable")[:2]
    axes, shares = np.zeros((points.shape[1], 2)), np.zeros(2)
    axes[:, : len(order)] = vectors[:, order]
    shares[: len(order)] = np.maximum(values[order], 0) / values.sum()
    # An axis has no sign of its own: the same table must give the same picture.
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]])
    return shares, axes * signs


def _standardized(block: _Block, variance: int) -> _Block:
    """The block about the mean of the original, at the total variance given; missing at the mean, zeros if constant."""
    known = ~np.isnan(block.before).any(axis=1)
    if not known.any():
        return _Block(np.zeros_like(block.before), np.zeros_like(block.after))
    mean = block.before[known].mean(axis=0)
    before, after = block.before - mean, block.after - mean
    total = float(np.square(before[known]).sum(axis=1).mean())
    factor = np.sqrt(variance / total) if total > 1e-24 else 0.0
    return _Block(np.nan_to_num(before * factor), np.nan_to_num(after * factor))


def _line(before: Floats, after: Floats) -> _Block:
    known = ~np.isnan(before)
    centred = centre(before[known], np.concatenate((before, after)), np.ones(int(known.sum())))
    if centred.constant:
        return _Block(np.zeros((len(before), 1)), np.zeros((len(after), 1)))
    # A published value beyond any sense must not squeeze all others into one point.
    both = np.clip(centred.after, -100, 100)
    return _Block(both[: len(before), None], both[len(before) :, None])


def _of_numbers(column: Column, chosen: _Chosen) -> _Block:
    reading = read_numbers(
        column.name, chosen.original.columns[column.name], chosen.released.columns[column.name]
    )
    return _line(reading.before[chosen.before], reading.after[chosen.after])


def _of_ranks(column: Column, chosen: _Chosen) -> _Block:
    reading = read_ranks(
        column, chosen.original.columns[column.name], chosen.released.columns[column.name]
    )
    return _line(reading.before[chosen.before], reading.after[chosen.after])


def _of_categories(column: Column, chosen: _Chosen) -> _Block:
    name = column.name
    reading = read_categories(name, chosen.original.columns[name], chosen.released.columns[name])
    before, after = reading.before[chosen.before], reading.after[chosen.after]
    counts = np.bincount(before[before >= 0], minlength=1)
    frequent = np.argsort(-counts, kind="stable")[:_INDICATORS]
    return _Block(_indicators(before, frequent), _indicators(after, frequent))


def _indicators(codes: Integers, frequent: Integers) -> Floats:
    indicators: Floats = (codes[:, None] == frequent).astype(np.float64)
    indicators[codes < 0] = np.nan
    return indicators


def _of_points(column: Column, chosen: _Chosen) -> _Block:
    reading = read_points(column, chosen.original, chosen.released)
    return _Block(reading.before[chosen.before], reading.after[chosen.after])


_OF_KIND: Mapping[str, Callable[[Column, _Chosen], _Block]] = {
    "numeric": _of_numbers,
    "datetime": _of_numbers,
    "ordinal": _of_ranks,
    "nominal": _of_categories,
    "code": _of_categories,
    "location": _of_points,
}
