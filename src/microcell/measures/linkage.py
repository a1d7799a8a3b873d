"""Linkage: how many records are found again by who knows the original quasi-identifiers."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb, sqrt

import numpy as np

from microcell.errors import DataError
from microcell.kernels.arrays import distinct_rows
from microcell.kernels.linkage import count_links
from microcell.kernels.trees import MOST_TREE_DIMENSIONS
from microcell.measures.pairs import centre, read_categories, read_numbers, read_points, read_ranks
from microcell.model import Column, Floats, Integers, Measure, Schema, Table
from microcell.progress import report

__all__ = [
    "ColumnPoints",
    "Linkage",
    "LinkagePoints",
    "find_originals",
    "link_records",
    "read_linkage_points",
]

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


def read_linkage_points(
    original: Table, released: Table, schema: Schema, pairs: Integers
) -> LinkagePoints:
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
    return ColumnPoints(
        np.zeros((1, 0)), np.zeros(before, dtype=np.int64), np.zeros(after, dtype=np.int64)
    )


def _line(before: Floats, after: Floats) -> ColumnPoints:
    known = before[~np.isnan(before)]
    both = centre(known, np.concatenate((before, after)), np.ones(len(known)))
    if both.constant:
        return _nowhere(len(before), len(after))
    return _each(
        np.nan_to_num(both.after / np.sqrt(np.square(both.before).mean()))[:, None], len(before)
    )


def _of_numbers(column: Column, original: Table, released: Table) -> ColumnPoints:
    reading = read_numbers(
        column.name, original.columns[column.name], released.columns[column.name]
    )
    return _line(reading.before, reading.after)


def _of_ranks(column: Column, original: Table, released: Table) -> ColumnPoints:
    reading = read_ranks(column, original.columns[column.name], released.columns[column.name])
    return _line(reading.before, reading.after)


def _of_codes(column: Column, original: Table, released: Table) -> ColumnPoints:
    reading = read_categories(
        column.name, original.columns[column.name], released.columns[column.name]
    )
    known = sorted(
        reading.names[code] for code in np.unique(reading.before[reading.before >= 0]).tolist()
    )
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
    reading = read_categories(
        column.name, original.columns[column.name], released.columns[column.name]
    )
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


def find_originals(
    before: Floats, after: Floats, blocks: Sequence[slice], rows: Integers | None = None
) -> Floats:
    """For each published record the probability that an original nearest to it is its own; their mean is the DLD.

    Both sides are standardized first, each column on a line by its own mean and deviation: an outsider knows both
    tables, and publishing centroids draws records together. Of originals equally near, one is picked by chance.
    The records of a class together find their own once at most, so that the mean is at most classes / n.

    Parameters
    ----------
    before, after
        The published records as points, before and after, row by row.
    blocks
        The dimensions of each column to standardize. Those with several (indicators, locations) keep their scale.
    rows
        The published records to link; all if left out.

    Examples
    --------
    >>> before, after = np.array([[0.0], [2.0], [4.0], [9.0]]), np.array([[1.0], [1.0], [6.5], [6.5]])
    >>> find_originals(before, after, [slice(0, 1)])
    array([1., 0., 0., 1.])
    """
    lines = [block.start for block in blocks if block.stop - block.start == 1]
    chosen = slice(None) if rows is None else rows
    originals, published = _standardized(before, lines), _standardized(after, lines)[chosen]
    distinct = distinct_rows(originals)
    sizes = np.bincount(distinct.place, minlength=len(distinct.first)).astype(np.int64)
    return count_links(published, originals[distinct.first], sizes, distinct.place[chosen]).expected


def _standardized(points: Floats, lines: Sequence[int]) -> Floats:
    """The points about their mean, the ``lines`` at a deviation of 1, or at 0 if they are constant."""
    out: Floats = points - points.mean(axis=0)
    for line in lines:
        # Equal points less their mean may leave a last digit, which must not be taken for a deviation.
        constant = np.ptp(points[:, line]) == 0
        out[:, line] = 0.0 if constant else out[:, line] / np.sqrt(np.square(out[:, line]).mean())
    return out


MOST = 20_000
"""Records linked at most; a table with more is sampled."""

_MOST_SCANNED = 4e9
"""Coordinates compared at most for one share that is told, in more dimensions than a tree can search."""

_LEAST = 500
"""Records linked at least, if there are so many."""

_PAIRS = 45
"""Pairs of columns tried at most."""

_SUBSETS = 10
"""Sets of known columns drawn at most."""

_WINDOW = 0.01
"""A value is disclosed within this share of the ranks on either side."""

_Z = 1.959963984540054
"""The normal quantile of a 95 % interval."""

Known = tuple[int, ...]
"""The places of the columns that an attacker knows, ascending."""


@dataclass(frozen=True, eq=False)
class Linkage:
    """What attackers find: ``measures``, and the share found ``by_known``, by who knows 1, 2, ..., all columns."""

    measures: tuple[Measure, ...] = ()
    by_known: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, eq=False)
class _Attack:
    """What an attacker works with: the points, the classes of the release, and the records to try in order.

    A class has a record that stands for it in ``first``, and so many records in ``sizes``; ``numbers`` has, for each
    column, numbers that are equal where classes are published at the same place.
    """

    points: LinkagePoints
    classes: Integers
    first: Integers
    sizes: Integers
    numbers: tuple[Floats, ...]
    rows: Integers


@dataclass(frozen=True)
class _Found:
    """The share of links that are right, by so many records."""

    share: float
    records: int


Attempt = Callable[[Known, int], _Found]
"""What comes of linking by the columns known, as one of so many sets whose mean is taken."""


def link_records(
    points: LinkagePoints, classes: Integers, *, seed: int = 0, most: int = MOST
) -> Linkage:
    """How many records an attacker finds again who knows all, one, two or some columns; and how near values stay.

    The attacker links each original to the nearest published record, at random among those equally near: the
    expected share of right links (distance-based record linkage, Domingo-Ferrer and Torra 2001). For any release it
    is at most classes / records. ``linkage_two`` tries the 45 pairs of the riskiest columns; each of ``by_known`` is
    the mean over all sets of so many columns, or over 10 drawn at random, and the last is ``linkage``. With more than
    ``most`` records, or too many dimensions, a sample of them is linked against all published points, and a 95 %
    Wilson interval comes with it. ``dld`` looks the other way, for the original nearest to each published record.
    ``interval_disclosure`` is of all records. Nothing comes of a table without rows, no ``linkage_two`` of one
    column. Time O(n log n) a dimension, and that of some 50 links of ``most`` records, 10 more
    with each column; no set of columns is tried twice.

    Parameters
    ----------
    classes
        The class of each row; rows of one class have the same point after.

    Examples
    --------
    >>> places = np.array([[0.0], [1.0], [8.0], [9.0], [0.5], [8.5]])
    >>> age = ColumnPoints(places, before=np.array([0, 1, 2, 3]), after=np.array([4, 4, 5, 5]))
    >>> found = link_records(LinkagePoints(("age",), (age,)), np.array([0, 0, 1, 1]))
    >>> [(measure.name, measure.value) for measure in found.measures]
    [('linkage', 0.5), ('linkage_one', 0.5), ('linkage_some', 0.5), ('dld', 0.5), ('interval_disclosure', 0.0)]
    >>> found.by_known
    array([0.5])
    """
    if not points.records:
        return Linkage()
    attack = _attack(points, classes, seed=seed, most=most)
    attempt = _attempt(attack)
    measures = (
        *_linkages(points, attempt, np.random.default_rng(seed)),
        _reverse(attack),
        *_disclosures(attack),
    )
    return Linkage(measures, _by_known(points.names, attempt, np.random.default_rng(seed)))


def _attack(points: LinkagePoints, classes: Integers, *, seed: int, most: int) -> _Attack:
    _, first, place, sizes = np.unique(
        classes, return_index=True, return_inverse=True, return_counts=True
    )
    for column in points.columns:
        _check_classes(column, first[place])
    return _Attack(
        points=points,
        classes=place.astype(np.int64),
        first=first.astype(np.int64),
        sizes=sizes.astype(np.int64),
        numbers=tuple(_numbers(column, first) for column in points.columns),
        rows=np.random.default_rng(seed).permutation(points.records)[:most],
    )


def _check_classes(column: ColumnPoints, standing: Integers) -> None:
    """Refuse classes whose records are not published where the one is that stands for them."""
    told = column.after[standing]
    rows = np.flatnonzero(told != column.after)
    if not np.array_equal(column.places[told[rows]], column.places[column.after[rows]]):
        raise DataError(
            "Records of one class have different published points. Give the classes of the columns that the points "
            "are made of, as microcell.auditing.class_labels finds them."
        )


def _numbers(column: ColumnPoints, first: Integers) -> Floats:
    """A number for each class, equal where their places are."""
    if column.places.shape[1] == 1:
        return column.places[column.after[first]].ravel()
    used, place = np.unique(column.after[first], return_inverse=True)
    return distinct_rows(column.places[used]).place[place].astype(np.float64)


def _attempt(attack: _Attack) -> Attempt:
    """What tries each set of columns once; what was found of one by more records serves where fewer would do."""
    found: dict[Known, _Found] = {}

    def attempt(known: Known, sets: int) -> _Found:
        if known not in found:
            found[known] = _try(attack, known, sets)
        return found[known]

    return attempt


def _try(attack: _Attack, known: Known, sets: int) -> _Found:
    """The expected share of records linked rightly by the columns ``known``, which are one of so many sets."""
    distinct = distinct_rows(np.column_stack([attack.numbers[at] for at in known]))
    published = attack.points.after(attack.first[distinct.first], known)
    count, dimensions = published.shape
    rows = attack.rows[: _affordable(count, dimensions, sets)]
    sizes = np.bincount(distinct.place, weights=attack.sizes).astype(np.int64)
    links = count_links(
        attack.points.before(rows, known), published, sizes, distinct.place[attack.classes[rows]]
    )
    return _Found(float(links.expected.mean()), len(rows))


def _affordable(points: int, dimensions: int, sets: int = 1) -> int | None:
    """The number of records that can be linked in the time there is, shared among the sets; None if any."""
    if dimensions <= MOST_TREE_DIMENSIONS:
        return None
    return max(_LEAST, int(_MOST_SCANNED / (points * dimensions * sets)))


def _mean(found: Sequence[_Found]) -> _Found:
    return _Found(
        sum(item.share for item in found) / len(found), min(item.records for item in found)
    )


# ---------------------------------------------------------------------------------------------- sets of columns


def _by_name(names: Sequence[str]) -> list[int]:
    """The places of the columns by their names: what is drawn must not depend on the order they are given in."""
    return sorted(range(len(names)), key=names.__getitem__)


def _draw(names: Sequence[str], size: int, rng: np.random.Generator) -> list[Known]:
    """Sets of ``size`` columns: all of them if they are few, else some at random."""
    if comb(len(names), size) <= _SUBSETS:
        return list(combinations(range(len(names)), size))
    return _drawn(names, [size] * _SUBSETS, rng)


def _draw_any(names: Sequence[str], rng: np.random.Generator) -> list[Known]:
    """Sets of columns of any size from 1: all of them if they are few, else of sizes drawn at random."""
    count = len(names)
    if 2**count - 1 <= _SUBSETS:
        return [known for size in range(1, count + 1) for known in combinations(range(count), size)]
    return _drawn(names, rng.integers(1, count + 1, size=_SUBSETS).tolist(), rng)


def _drawn(names: Sequence[str], sizes: Sequence[int], rng: np.random.Generator) -> list[Known]:
    """Sets of these sizes drawn at random, without those drawn before."""
    places = np.array(_by_name(names))
    drawn = (np.sort(places[rng.permutation(len(names))[:size]]).tolist() for size in sizes)
    return list(dict.fromkeys(tuple(known) for known in drawn))


# ---------------------------------------------------------------------------------------------- measures


def _linkages(
    points: LinkagePoints, attempt: Attempt, rng: np.random.Generator
) -> Iterator[Measure]:
    names, everyone, count = points.names, points.records, len(points.names)
    report("linking records")
    yield _measure("linkage", attempt(tuple(range(count)), 1), everyone, "all quasi-identifiers")
    ones = [attempt((at,), 1) for at in range(count)]
    worst = max(range(count), key=lambda at: ones[at].share)
    yield _measure(
        "linkage_one", ones[worst], everyone, f"the one that tells most ({names[worst]})"
    )
    if count > 1:
        pairs = [(min(pair), max(pair)) for pair in combinations(_by_name(names), 2)]
        riskiest = sorted(pairs, key=lambda pair: -sum(ones[at].share for at in pair))[:_PAIRS]
        found = {pair: attempt(pair, 1) for pair in riskiest}
        worse = max(found, key=lambda pair: found[pair].share)
        told = " and ".join(names[at] for at in worse)
        yield _measure("linkage_two", found[worse], everyone, f"the two that tell most ({told})")
    some = [attempt(known, 1) for known in _draw_any(names, rng)]
    yield _measure(
        "linkage_some", _mean(some), everyone, f"some of them (mean of {len(some)} sets)"
    )


def _by_known(names: Sequence[str], attempt: Attempt, rng: np.random.Generator) -> Floats:
    """The expected share of records linked rightly by who knows 1, 2, ..., all columns."""
    shares = []
    for size in range(1, len(names) + 1):
        report("linking records", size - 1, len(names))
        drawn = _draw(names, size, rng)
        shares.append(_mean([attempt(known, len(drawn)) for known in drawn]).share)
    return np.array(shares)


def _measure(name: str, found: _Found, everyone: int, known: str) -> Measure:
    sampled = found.records < everyone
    basis = f", by a sample of {found.records:,} of them" if sampled else ""
    meaning = f"Records an outsider is expected to find again who knows {known}{basis}."
    return Measure(name, found.share, "share", True, meaning, _wilson(found) if sampled else None)


def _reverse(attack: _Attack) -> Measure:
    """The published records that find their own original, which an outsider looks for nearest to them."""
    everyone, points = np.arange(attack.points.records), attack.points
    before, after = points.before(everyone), points.after(everyone)
    ends = np.cumsum([column.places.shape[1] for column in points.columns]).tolist()
    named = zip(points.names, [0, *ends], ends, strict=False)
    blocks = [slice(first, last) for name, first, last in named if name not in points.unchanged]
    rows = attack.rows[: _affordable(len(before), before.shape[1])]
    found = find_originals(before, after, blocks, rows)
    meaning = "Published records whose own original is the nearest to them of all: distance-based linkage disclosure."
    share = _Found(float(found.mean()), len(rows))
    return Measure(
        "dld",
        share.share,
        "share",
        True,
        meaning,
        _wilson(share) if len(rows) < len(everyone) else None,
    )


def _wilson(found: _Found) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927); of a mean of probabilities, whose variance is less, at least 95 %."""
    p, n = found.share, found.records
    middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * sqrt(max(p * (1 - p), 0.0) / n + _Z**2 / (4 * n**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def _disclosures(attack: _Attack) -> Iterator[Measure]:
    named = zip(attack.points.names, attack.points.columns, strict=True)
    changed = [column for name, column in named if name not in attack.points.unchanged]
    shares = [_disclosed(column) for column in changed if column.places.shape[1]]
    if shares:
        meaning = "Values whose rank is within 1 % of the records of the rank of what is published for them."
        yield Measure("interval_disclosure", sum(shares) / len(shares), "share", True, meaning)


def _disclosed(column: ColumnPoints) -> float:
    """The share of records that lie in the window of their published value, in each dimension of the column."""
    records = np.bincount(column.before, minlength=len(column.places))
    inside = np.ones(len(column.before), dtype=np.bool_)
    for values in column.places.T:
        ranks = _middle_ranks(values, records)
        inside &= np.abs(ranks[column.before] - ranks[column.after]) <= _WINDOW * len(column.before)
    return float(inside.mean())


def _middle_ranks(values: Floats, records: Integers) -> Floats:
    """The middle of the ranks that records with each value have, or would have, if so many have each."""
    order = np.argsort(values)
    ordered = values[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    below = np.append(0, np.cumsum(records[order]))
    starts, ends = below[begins], below[np.append(begins[1:], len(order))]
    ranks = np.empty(len(values))
    ranks[order] = np.repeat((starts + ends) / 2, np.diff(np.append(begins, len(order))))
    return ranks
