"""Points for linkage: the quasi-identifiers before and after on one scale, as an attacker would lay them out."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from microcell.auditing.losses import centre
from microcell.auditing.readings import read_categories, read_numbers, read_points, read_ranks
from microcell.model import Column, Floats, Integers, Schema, Table

__all__ = ["ColumnPoints", "LinkagePoints", "read_linkage_points"]

_INDICATORS = 50
"""Categories with an indicator of their own; the rarer ones share having none."""

_STRATUM = 1e6
"""How many spreads apart two strata are: farther than any two records of one stratum should be."""


@dataclass(frozen=True, eq=False)
class ColumnPoints:
    """A column as points: its ``places``, one a row, and the place of each published record before and after.

    Records share places, so that a column of many dimensions takes no more memory than its categories. A column
    without differences has no dimension.
    """

    places: Floats
    before: Integers
    after: Integers


@dataclass(frozen=True, eq=False)
class LinkagePoints:
    """Published records as points before and after, column by column.

    The columns of ``unchanged`` are published as they are: the strata.
    """

    names: tuple[str, ...]
    columns: tuple[ColumnPoints, ...]
    unchanged: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        """The number of published records."""
        return len(self.columns[0].after) if self.columns else 0

    def before(self, rows: Integers, known: Sequence[int] | None = None) -> Floats:
        """The points of these records as they were, in the dimensions of the ``known`` columns, or of all."""
        return np.hstack([column.places[column.before[rows]] for column in self._known(known)])

    def after(self, rows: Integers, known: Sequence[int] | None = None) -> Floats:
        """The points of these records as published."""
        return np.hstack([column.places[column.after[rows]] for column in self._known(known)])

    def _known(self, known: Sequence[int] | None) -> Sequence[ColumnPoints]:
        return self.columns if known is None else [self.columns[at] for at in known]


def read_linkage_points(original: Table, released: Table, schema: Schema, pairs: Integers) -> LinkagePoints:
    """The quasi-identifiers and strata of the published records, before and after, as points on one scale.

    Numbers, dates and ranks are standardized by the original's mean and deviation; categories are indicators over
    sqrt 2, so that a mismatch has distance 1; codes are ranks in their order, a prefix the middle of what it covers;
    locations are points of the sphere, at a variance of 2. A published range is its middle; what is missing, cannot
    be read or is no category of the original stands at the mean. Strata are published as they are, so that records
    of other strata are out of the question: they lie 1,000,000 apart. Columns' weights play no part: an attacker
    does not know them. Time and memory O(n) a column.

    Parameters
    ----------
    schema
        Resolved: each quasi-identifier has its kind.
    pairs
        The row of the original (from 0) that each published row comes from.

    Examples
    --------
    >>> from microcell.model import Values
    >>> known = np.zeros(4, dtype=bool)
    >>> before = Table({"age": Values("integer", np.array([20, 22, 40, 42]), known)}, rows=4, native=None)
    >>> after = Table({"age": Values("integer", np.array([21, 21, 41, 41]), known)}, rows=4, native=None)
    >>> points = read_linkage_points(before, after, Schema(quasi=[Column("age", kind="numeric")]), np.arange(4))
    >>> points.after(np.arange(4)).round(3).ravel().tolist()
    [-0.995, -0.995, 0.995, 0.995]
    """
    found = [_OF_KIND[str(column.kind)](column, original, released) for column in schema.quasi]
    found += [_of_stratum(name, original, released) for name in schema.strata]
    return LinkagePoints(
        names=(*(column.name for column in schema.quasi), *schema.strata),
        columns=tuple(replace(column, before=column.before[pairs]) for column in found),
        unchanged=tuple(schema.strata),
    )


def _each(places: Floats, before: int) -> ColumnPoints:
    """A column with a place for each record: the first ``before`` of them are the original's."""
    rows = np.arange(len(places))
    return ColumnPoints(places, rows[:before], rows[before:])


def _nowhere(before: int, after: int) -> ColumnPoints:
    """A column without differences."""
    return ColumnPoints(np.zeros((1, 0)), np.zeros(before, dtype=np.int64), np.zeros(after, dtype=np.int64))


def _line(before: Floats, after: Floats) -> ColumnPoints:
    known = before[~np.isnan(before)]
    both = centre(known, np.concatenate((before, after)), np.ones(len(known)))
    if both.constant:
        return _nowhere(len(before), len(after))
    return _each(np.nan_to_num(both.after / np.sqrt(np.square(both.before).mean()))[:, None], len(before))


def _of_numbers(column: Column, original: Table, released: Table) -> ColumnPoints:
    reading = read_numbers(column.name, original.columns[column.name], released.columns[column.name])
    return _line(reading.before, reading.after)


def _of_ranks(column: Column, original: Table, released: Table) -> ColumnPoints:
    reading = read_ranks(column, original.columns[column.name], released.columns[column.name])
    return _line(reading.before, reading.after)


def _of_codes(column: Column, original: Table, released: Table) -> ColumnPoints:
    reading = read_categories(column.name, original.columns[column.name], released.columns[column.name])
    known = sorted(reading.names[code] for code in np.unique(reading.before[reading.before >= 0]).tolist())
    ranks = np.array([*(_middle_rank(name, known) for name in reading.names), np.nan])
    return _line(ranks[reading.before], ranks[reading.after])


def _middle_rank(name: str, known: Sequence[str]) -> float:
    """The rank of a code, or the middle rank of those that begin as it does; NaN if none does."""
    at = bisect_left(known, name)
    if known[at : at + 1] == [name]:
        return float(at)
    prefix = name.rstrip("*")
    first, last = bisect_left(known, prefix), bisect_left(known, prefix + "\U0010ffff")
    return (first + last - 1) / 2 if first < last else np.nan


def _of_categories(column: Column, original: Table, released: Table) -> ColumnPoints:
    reading = read_categories(column.name, original.columns[column.name], released.columns[column.name])
    counts = np.bincount(reading.before[reading.before >= 0], minlength=len(reading.names))
    frequent = np.argsort(-counts, kind="stable")[: min(_INDICATORS, np.count_nonzero(counts))]
    # Of two categories one indicator tells as much as two, and there is none to tell of one.
    frequent, height = (frequent[1:], 1.0) if len(frequent) < 3 else (frequent, sqrt(0.5))
    # A place for each frequent category, one for all rarer ones, and the last, the mean, for what is none of them.
    places = np.zeros((len(frequent) + 2, len(frequent)))
    places[np.arange(len(frequent)), np.arange(len(frequent))] = height
    own = np.where(counts > 0, len(frequent), len(frequent) + 1)
    own[frequent] = np.arange(len(frequent))
    mean = counts @ places[own] / max(int(counts.sum()), 1)
    places[-1] = mean
    own = np.append(own, len(frequent) + 1)
    return ColumnPoints(places - mean, own[reading.before], own[reading.after])


def _of_points(column: Column, original: Table, released: Table) -> ColumnPoints:
    reading = read_points(column, original, released)
    known = reading.before[~np.isnan(reading.before).any(axis=1)]
    mean = known.mean(axis=0) if len(known) else np.zeros(3)
    total = float(np.square(known - mean).sum(axis=1).mean()) if len(known) else 0.0
    if total <= 1e-24:
        return _nowhere(len(reading.before), len(reading.after))
    both = (np.concatenate((reading.before, reading.after)) - mean) * sqrt(2 / total)
    return _each(np.nan_to_num(both), len(reading.before))


def _of_stratum(name: str, original: Table, released: Table) -> ColumnPoints:
    reading = read_categories(name, original.columns[name], released.columns[name])
    # The last place is for what is missing, whose code is -1.
    places = np.append(np.arange(len(reading.names)), -1)[:, None] * _STRATUM
    return ColumnPoints(places, reading.before % len(places), reading.after % len(places))


_OF_KIND: Mapping[str, Callable[[Column, Table, Table], ColumnPoints]] = {
    "numeric": _of_numbers,
    "datetime": _of_numbers,
    "ordinal": _of_ranks,
    "nominal": _of_categories,
    "code": _of_codes,
    "location": _of_points,
}
