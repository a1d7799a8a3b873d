"""Linkage: how many records are found again by who knows the original quasi-identifiers."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, combinations
from math import comb, sqrt

import numpy as np

from microcell.auditing.losses import centre
from microcell.auditing.readings import read_categories, read_numbers, read_points, read_ranks
from microcell.errors import DataError
from microcell.kernels.linkage import count_links, distinct_rows
from microcell.kernels.trees import MOST_TREE_DIMENSIONS
from microcell.model import Column, Floats, Integers, Measure, Schema, Table

__all__ = ["LinkagePoints", "linkage_by_known", "measure_linkage", "read_linkage_points"]

MOST = 20_000
"""Records linked at most; a table with more is sampled."""

_MOST_SCANNED = 4e9
"""Coordinates compared at most for one set of known columns, in more dimensions than a tree can search."""

_LEAST = 500
"""Records linked at least, if there are so many."""

_PAIRS = 45
"""Pairs of columns tried at most."""

_SUBSETS = 10
"""Sets of known columns drawn at most."""

_INDICATORS = 50
"""Categories with an indicator of their own; the rarer ones share having none."""

_STRATUM = 1e6
"""How many spreads apart two strata are: farther than any two records of one stratum should be."""

_WINDOW = 0.01
"""A value is disclosed within this share of the ranks on either side."""

_Z = 1.959963984540054
"""The normal quantile of a 95 % interval."""


# ---------------------------------------------------------------------------------------------- points


@dataclass(frozen=True, eq=False)
class LinkagePoints:
    """Published records as points before and after, row by row, and the dimensions of each column.

    Column ``names[j]`` has the dimensions from ``starts[j]`` to ``starts[j + 1]``; one without differences has none.
    The columns of ``unchanged`` are published as they are: the strata.
    """

    before: Floats
    after: Floats
    names: tuple[str, ...]
    starts: tuple[int, ...]
    unchanged: tuple[str, ...] = ()

    @property
    def blocks(self) -> tuple[slice, ...]:
        """The dimensions of each column."""
        return tuple(slice(a, b) for a, b in zip(self.starts[:-1], self.starts[1:], strict=True))


@dataclass(frozen=True, eq=False)
class _Block:
    """The dimensions of a column: a row for each record of the original, and one for each published."""

    before: Floats
    after: Floats


def read_linkage_points(original: Table, released: Table, schema: Schema, pairs: Integers) -> LinkagePoints:
    """The quasi-identifiers and strata of the published records, before and after, as points on one scale.

    Numbers, dates and ranks are standardized by the original's mean and deviation; categories are indicators over
    sqrt 2, so that a mismatch has distance 1; codes are ranks in their order, a prefix the middle of what it covers;
    locations are points of the sphere, at a variance of 2. A published range is its middle; what is missing, cannot
    be read or is no category of the original stands at the mean. Strata are published as they are, so that records
    of other strata are out of the question: they lie 1,000,000 apart. Columns' weights play no part: an attacker
    does not know them. Time and memory O(n m).

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
    >>> points.after.round(3).ravel().tolist(), points.blocks
    ([-0.995, -0.995, 0.995, 0.995], (slice(0, 1, None),))
    """
    blocks = [_OF_KIND[str(column.kind)](column, original, released) for column in schema.quasi]
    blocks += [_of_stratum(name, original, released) for name in schema.strata]
    return LinkagePoints(
        before=np.hstack([np.zeros((len(pairs), 0)), *(block.before[pairs] for block in blocks)]),
        after=np.hstack([np.zeros((len(pairs), 0)), *(block.after for block in blocks)]),
        names=(*(column.name for column in schema.quasi), *schema.strata),
        starts=tuple(accumulate((block.before.shape[1] for block in blocks), initial=0)),
        unchanged=tuple(schema.strata),
    )


def _line(before: Floats, after: Floats) -> _Block:
    known = before[~np.isnan(before)]
    both = centre(known, np.concatenate((before, after)), np.ones(len(known)))
    if both.constant:
        return _Block(np.zeros((len(before), 0)), np.zeros((len(after), 0)))
    points = np.nan_to_num(both.after / np.sqrt(np.square(both.before).mean()))[:, None]
    return _Block(points[: len(before)], points[len(before) :])


def _of_numbers(column: Column, original: Table, released: Table) -> _Block:
    reading = read_numbers(column.name, original.columns[column.name], released.columns[column.name])
    return _line(reading.before, reading.after)


def _of_ranks(column: Column, original: Table, released: Table) -> _Block:
    reading = read_ranks(column, original.columns[column.name], released.columns[column.name])
    return _line(reading.before, reading.after)


def _of_codes(column: Column, original: Table, released: Table) -> _Block:
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


def _of_categories(column: Column, original: Table, released: Table) -> _Block:
    reading = read_categories(column.name, original.columns[column.name], released.columns[column.name])
    counts = np.bincount(reading.before[reading.before >= 0], minlength=len(reading.names))
    frequent = np.argsort(-counts, kind="stable")[: min(_INDICATORS, np.count_nonzero(counts))]
    # Of two categories one indicator tells as much as two, and there is none to tell of one.
    frequent, height = (frequent[1:], 1.0) if len(frequent) < 3 else (frequent, sqrt(0.5))
    rows = np.zeros((len(counts) + 1, len(frequent)))
    rows[frequent, np.arange(len(frequent))] = height
    mean = counts @ rows[:-1] / max(int(counts.sum()), 1)
    rows[np.append(counts == 0, True)] = mean
    rows -= mean
    return _Block(rows[reading.before], rows[reading.after])


def _of_points(column: Column, original: Table, released: Table) -> _Block:
    reading = read_points(column, original, released)
    known = reading.before[~np.isnan(reading.before).any(axis=1)]
    mean = known.mean(axis=0) if len(known) else np.zeros(3)
    total = float(np.square(known - mean).sum(axis=1).mean()) if len(known) else 0.0
    if total <= 1e-24:
        return _Block(np.zeros((len(reading.before), 0)), np.zeros((len(reading.after), 0)))
    before, after = (reading.before - mean) * sqrt(2 / total), (reading.after - mean) * sqrt(2 / total)
    return _Block(np.nan_to_num(before), np.nan_to_num(after))


def _of_stratum(name: str, original: Table, released: Table) -> _Block:
    reading = read_categories(name, original.columns[name], released.columns[name])
    before, after = (codes[:, None].astype(np.float64) * _STRATUM for codes in (reading.before, reading.after))
    return _Block(before, after)


_OF_KIND: Mapping[str, Callable[[Column, Table, Table], _Block]] = {
    "numeric": _of_numbers,
    "datetime": _of_numbers,
    "ordinal": _of_ranks,
    "nominal": _of_categories,
    "code": _of_codes,
    "location": _of_points,
}


# ---------------------------------------------------------------------------------------------- links


@dataclass(frozen=True, eq=False)
class _Attack:
    """What an attacker works with: all originals, one published point a class, and the records to try in order."""

    before: Floats
    points: Floats
    classes: Integers
    blocks: tuple[slice, ...]
    rows: Integers


@dataclass(frozen=True)
class _Found:
    """The share of links that are right, by so many records."""

    share: float
    records: int


def _attack(
    before: Floats, after: Floats, classes: Integers, blocks: Sequence[slice], *, seed: int, most: int
) -> _Attack:
    _, first, place = np.unique(classes, return_index=True, return_inverse=True)
    if not np.array_equal(after[first][place], after):
        raise DataError(
            "Records of one class have different published points. Give the classes of the columns that the points "
            "are made of, as microcell.auditing.class_labels finds them."
        )
    rows = np.random.default_rng(seed).permutation(len(before))[:most]
    return _Attack(before, after[first], place.astype(np.int64), tuple(blocks), rows)


def _try(attack: _Attack, known: Sequence[int]) -> _Found:
    """The expected share of records linked rightly by the columns ``known``."""
    dimensions = np.concatenate([np.arange(attack.before.shape[1])[attack.blocks[at]] for at in known])
    points = attack.points[:, dimensions]
    distinct = distinct_rows(points)
    own = distinct.place[attack.classes]
    rows = attack.rows[: _affordable(len(distinct.first), len(dimensions))]
    sizes = np.bincount(own).astype(np.int64)
    links = count_links(attack.before[np.ix_(rows, dimensions)], points[distinct.first], sizes, own[rows])
    return _Found(float(links.expected.mean()), len(rows))


def _affordable(points: int, dimensions: int) -> int | None:
    """The number of records that can be linked in the time there is; None if any."""
    if dimensions <= MOST_TREE_DIMENSIONS:
        return None
    return max(_LEAST, int(_MOST_SCANNED / (points * dimensions)))


def _mean(found: Sequence[_Found]) -> _Found:
    return _Found(sum(item.share for item in found) / len(found), min(item.records for item in found))


def _draw(count: int, size: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Sets of ``size`` columns of ``count``: all of them if they are few, else some at random."""
    if comb(count, size) <= _SUBSETS:
        return list(combinations(range(count), size))
    drawn = (np.sort(rng.permutation(count)[:size]).tolist() for _ in range(_SUBSETS))
    return list(dict.fromkeys(tuple(known) for known in drawn))


def _draw_any(count: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Sets of columns of any size from 1: all of them if they are few, else of sizes drawn at random."""
    if 2**count - 1 <= _SUBSETS:
        return [known for size in range(1, count + 1) for known in combinations(range(count), size)]
    sizes = rng.integers(1, count + 1, size=_SUBSETS).tolist()
    drawn = (np.sort(rng.permutation(count)[:size]).tolist() for size in sizes)
    return list(dict.fromkeys(tuple(known) for known in drawn))


# ---------------------------------------------------------------------------------------------- measures


def measure_linkage(
    before: Floats,
    after: Floats,
    classes: Integers,
    *,
    columns: Sequence[str],
    blocks: Sequence[slice],
    unchanged: Collection[str] = (),
    seed: int = 0,
    most: int = MOST,
) -> tuple[Measure, ...]:
    """How many records an attacker finds again who knows all, one, two or some columns; and how near values stay.

    The attacker links each original to the nearest published record, at random among those equally near: the
    expected share of right links (distance-based record linkage, Domingo-Ferrer and Torra 2001). For any release it
    is at most classes / records. ``linkage_two`` tries the 45 pairs of the riskiest columns. With more than ``most``
    records, or too many dimensions, a sample of them is linked against all published points, and a 95 % Wilson
    interval comes with it. ``interval_disclosure`` is of all records. Nothing comes of a table without rows, no
    ``linkage_two`` of one column. Time O(n log n) a dimension, and that of up to 60 links of ``most`` records.

    Parameters
    ----------
    before, after
        Points of the same space, row by row: see :func:`read_linkage_points`.
    classes
        The class of each row; rows of one class have the same point after.
    columns, blocks
        The columns' names, and the dimensions of each.
    unchanged
        Columns that are published as they are on purpose, and have no part in ``interval_disclosure``.

    Examples
    --------
    >>> before, after = np.array([[0.0], [1.0], [8.0], [9.0]]), np.array([[0.5], [0.5], [8.5], [8.5]])
    >>> found = measure_linkage(before, after, np.array([0, 0, 1, 1]), columns=["age"], blocks=[slice(0, 1)])
    >>> [(measure.name, measure.value) for measure in found]
    [('linkage', 0.5), ('linkage_one', 0.5), ('linkage_some', 0.5), ('interval_disclosure', 0.0)]
    """
    if not len(before) or not columns:
        return ()
    attack = _attack(before, after, classes, blocks, seed=seed, most=most)
    changed = [block for name, block in zip(columns, blocks, strict=True) if name not in unchanged]
    return (*_linkages(attack, columns, np.random.default_rng(seed)), *_disclosures(before, after, changed))


def linkage_by_known(
    before: Floats, after: Floats, classes: Integers, *, blocks: Sequence[slice], seed: int = 0, most: int = MOST
) -> Floats:
    """The expected share of records linked rightly by who knows 1, 2, ..., all columns.

    Each is the mean over all sets of so many columns, or over 10 drawn at random. Rows are sampled as in
    :func:`measure_linkage`; the last is its ``linkage``.

    Examples
    --------
    >>> points = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> linkage_by_known(points, points, np.arange(4), blocks=[slice(0, 1), slice(1, 2)])
    array([0.5, 1. ])
    """
    if not len(before):
        return np.zeros(0)
    attack, rng = _attack(before, after, classes, blocks, seed=seed, most=most), np.random.default_rng(seed)
    sets = [_draw(len(blocks), size, rng) for size in range(1, len(blocks) + 1)]
    return np.array([_mean([_try(attack, known) for known in some]).share for some in sets])


def _linkages(attack: _Attack, columns: Sequence[str], rng: np.random.Generator) -> Iterator[Measure]:
    everyone, count = len(attack.before), len(columns)
    attempt = cache(lambda known: _try(attack, known))
    yield _measure("linkage", attempt(tuple(range(count))), everyone, "all quasi-identifiers")
    ones = [attempt((at,)) for at in range(count)]
    worst = max(range(count), key=lambda at: ones[at].share)
    yield _measure("linkage_one", ones[worst], everyone, f"the one that tells most ({columns[worst]})")
    if count > 1:
        riskiest = sorted(combinations(range(count), 2), key=lambda pair: -sum(ones[at].share for at in pair))[:_PAIRS]
        pairs = {pair: attempt(pair) for pair in riskiest}
        worse = max(pairs, key=lambda pair: pairs[pair].share)
        names = " and ".join(columns[at] for at in worse)
        yield _measure("linkage_two", pairs[worse], everyone, f"the two that tell most ({names})")
    some = [attempt(known) for known in _draw_any(count, rng)]
    yield _measure("linkage_some", _mean(some), everyone, f"some of them (mean of {len(some)} sets)")


def _measure(name: str, found: _Found, everyone: int, known: str) -> Measure:
    meaning = f"Records an outsider is expected to find again who knows {known}."
    interval = _wilson(found) if found.records < everyone else None
    return Measure(name, found.share, "share", True, meaning, interval)


def _wilson(found: _Found) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927); of a mean of probabilities, whose variance is less, at least 95 %."""
    p, n = found.share, found.records
    middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * sqrt(max(p * (1 - p), 0.0) / n + _Z**2 / (4 * n**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def _disclosures(before: Floats, after: Floats, blocks: Sequence[slice]) -> Iterator[Measure]:
    shares = [_disclosed(before[:, block], after[:, block]) for block in blocks if before[:, block].shape[1]]
    if shares:
        meaning = "Values whose rank is within 1 % of the records of the rank of what is published for them."
        yield Measure("interval_disclosure", sum(shares) / len(shares), "share", True, meaning)


def _disclosed(before: Floats, after: Floats) -> float:
    """The share of records that lie in the window of their published value, in each dimension of the column."""
    inside = np.ones(len(before), dtype=np.bool_)
    for old, new in zip(before.T, after.T, strict=True):
        ordered = np.sort(old)
        inside &= np.abs(_middle_ranks(ordered, old) - _middle_ranks(ordered, new)) <= _WINDOW * len(old)
    return float(inside.mean())


def _middle_ranks(ordered: Floats, values: Floats) -> Floats:
    """The middle of the places that each value has, or would have, among the ordered ones."""
    both = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
    return both / 2
