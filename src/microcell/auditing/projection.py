"""The records in two dimensions, before and after, for the eye."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from microcell.auditing.losses import centre
from microcell.auditing.readings import read_categories, read_numbers, read_points, read_ranks
from microcell.model import Column, Floats, Integers, Projection, Schema, Table

__all__ = ["project"]

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
    blocks = [_standardized(_OF_KIND[column.kind](column, chosen), len(column.parts)) for column in schema.quasi]
    before, after = np.hstack([block.before for block in blocks]), np.hstack([block.after for block in blocks])
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
    reading = read_numbers(column.name, chosen.original.columns[column.name], chosen.released.columns[column.name])
    return _line(reading.before[chosen.before], reading.after[chosen.after])


def _of_ranks(column: Column, chosen: _Chosen) -> _Block:
    reading = read_ranks(column, chosen.original.columns[column.name], chosen.released.columns[column.name])
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
