"""Record linkage attacks by someone who knows original quasi-identifiers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb, sqrt

import numpy as np

from microcell.errors import DataError
from microcell.kernels.arrays import Distinct, count_distinct, distinct_rows
from microcell.kernels.linkage import count_links
from microcell.kernels.trees import MOST_TREE_DIMENSIONS
from microcell.kinds.pairs import ColumnPoints, read_categories
from microcell.measures.pairs import ColumnPairs
from microcell.model import Floats, Integers
from microcell.progress import report

__all__ = [
    "Estimate",
    "LinkagePoints",
    "Links",
    "link_records",
    "linked_originals",
    "read_linkage_points",
]

_STRATUM_DISTANCE = 1e6
"""Distance between two strata. It exceeds the distance of any two records of a stratum."""


@dataclass(frozen=True, eq=False)
class LinkagePoints:
    """Published records as points, before and after, column by column.

    Columns in ``unchanged`` (the strata) are published as they are.
    """

    names: tuple[str, ...]
    columns: tuple[ColumnPoints, ...]
    unchanged: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        """Number of published records."""
        return len(self.columns[0].after) if self.columns else 0

    def before(self, rows: Integers, subset: Sequence[int] | None = None) -> Floats:
        """Return the original points of these records, in a subset of the columns or in all."""
        return np.hstack([column.places[column.before[rows]] for column in self._columns(subset)])

    def after(self, rows: Integers, subset: Sequence[int] | None = None) -> Floats:
        """Return the published points of these records."""
        return np.hstack([column.places[column.after[rows]] for column in self._columns(subset)])

    def _columns(self, subset: Sequence[int] | None) -> Sequence[ColumnPoints]:
        return self.columns if subset is None else [self.columns[i] for i in subset]


def read_linkage_points(columns: ColumnPairs) -> LinkagePoints:
    """Read the quasi-identifiers and strata of the published records as points on one scale.

    Numbers, dates and ranks are standardized by the original's mean and standard deviation.
    Categories become indicators divided by sqrt(2), so that a mismatch has distance 1. Codes become
    ranks, and a prefix the middle of the codes that it covers. Locations become points on the
    sphere with variance 2. A published range is represented by its middle; a value that is missing,
    unreadable or unknown in the original, by the mean. Strata are published unchanged, so records
    of other strata are excluded by placing them 1,000,000 apart. Column weights are ignored, since
    an attacker does not know them. Time and memory O(n) per column.

    Examples
    --------
    >>> from microcell.model import Column, Schema, Table, Values
    >>> none = np.zeros(4, dtype=bool)
    >>> ages, means = np.array([20, 22, 40, 42]), np.array([21, 21, 41, 41])
    >>> before = Table({"age": Values("integer", ages, none)}, rows=4, native=None)
    >>> after = Table({"age": Values("integer", means, none)}, rows=4, native=None)
    >>> schema = Schema(quasi=[Column("age", kind="numeric")])
    >>> points = read_linkage_points(ColumnPairs(before, after, schema, np.arange(4)))
    >>> points.after(np.arange(4)).round(3).ravel().tolist()
    [-0.995, -0.995, 0.995, 0.995]
    """
    schema = columns.schema
    points = [pair.points() for pair in columns.quasi]
    points += [_stratum_points(name, columns) for name in schema.strata]
    return LinkagePoints(
        names=(*(column.name for column in schema.quasi), *schema.strata),
        columns=tuple([replace(item, before=item.before[columns.rows]) for item in points]),
        unchanged=tuple(schema.strata),
    )


def _stratum_points(name: str, columns: ColumnPairs) -> ColumnPoints:
    reading = read_categories(name, columns.original.columns[name], columns.released.columns[name])
    # Missing values have code -1, so the last place is theirs.
    places = np.append(np.arange(len(reading.names)), -1)[:, None] * _STRATUM_DISTANCE
    return ColumnPoints(places, reading.before % len(places), reading.after % len(places))


# ------------------------------------------------------------------------------------- attacks

MAX_RECORDS = 20_000
"""Maximum number of records to link; larger tables are sampled."""

_MAX_COMPARISONS = 4e9
"""Maximum number of coordinates to compare per reported share, where a tree cannot be used."""

_MIN_RECORDS = 500
"""Minimum number of records to link, if there are that many."""

_MAX_COLUMN_PAIRS = 45
"""Maximum number of column pairs to try."""

_MAX_SUBSETS = 10
"""Maximum number of column subsets to draw."""

_RANK_WINDOW = 0.01
"""A value is disclosed if its rank is within this share of the records of the published one."""

_Z = 1.959963984540054
"""Normal quantile of a 95 % interval."""

Subset = tuple[int, ...]
"""Ascending positions of the columns that an attacker knows."""


@dataclass(frozen=True)
class Estimate:
    """Share of correct links, for ``records`` of ``total`` records, and any chosen columns."""

    share: float
    records: int
    total: int
    columns: tuple[str, ...] = ()

    @property
    def sampled(self) -> bool:
        """True if only some of the records were linked."""
        return self.records < self.total

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of a sampled share (Wilson 1927); None if all records were linked.

        For a mean of probabilities, whose variance is smaller, the coverage is at least 95 %.
        """
        if not self.sampled:
            return None
        p, n = self.share, self.records
        middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z / (1 + _Z**2 / n) * sqrt(max(p * (1 - p), 0.0) / n + _Z**2 / (4 * n**2))
        return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True, eq=False)
class Links:
    """Results of the attacks; None if an attack is impossible.

    ``by_known`` holds the share re-identified by an outsider who knows 1, 2, ..., all columns.
    """

    all_columns: Estimate | None = None
    one_column: Estimate | None = None
    two_columns: Estimate | None = None
    some_columns: Estimate | None = None
    reverse: Estimate | None = None
    interval_disclosure: float | None = None
    by_known: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, eq=False)
class _Attack:
    """Input of an attack: points, classes, and the records to link, in order.

    Class i is represented by record ``first[i]`` and has ``sizes[i]`` records. ``numbers`` holds
    for each column a number per class, equal where classes are published at the same place;
    ``codes``, a number per linked record, equal where records are originally at the same place.
    """

    points: LinkagePoints
    classes: Integers
    first: Integers
    sizes: Integers
    numbers: Floats
    rows: Integers
    codes: Integers
    persons: Integers | None
    """Person of each published row; None if every row is a person."""
    weights: Floats
    """Weight of each record to link: records of one person add up to 1."""

    def people_at(self, distinct: Distinct) -> Integers:
        """Return the number of people at each place where classes are published."""
        if self.persons is None:
            return np.bincount(distinct.place, weights=self.sizes).astype(np.int64)
        return count_distinct(distinct.place[self.classes], self.persons)


LinkBySubsets = Callable[[Sequence[Subset], int], list[Estimate]]
"""Links records by each of some subsets of the columns; the number of subsets that share the work
limits the records that are linked.
"""


def link_records(
    points: LinkagePoints,
    classes: Integers,
    *,
    persons: Integers | None = None,
    seed: int = 0,
    max_records: int = MAX_RECORDS,
) -> Links:
    """Estimate how many records an attacker re-identifies, and how close the values remain.

    The attacker links each original record to the nearest published record, at random among equally
    near ones; the result is the expected share of correct links (distance-based record linkage,
    Domingo-Ferrer and Torra 2001). It is at most classes / records for any release. The attack with
    two columns tries the 45 pairs of the riskiest columns. Each entry of ``by_known`` is the mean
    over all subsets of that many columns, or over 10 random ones; the last is the attack with all
    columns. The reverse attack looks for the original record nearest to each published record.

    With more than ``max_records`` records or too many dimensions, a random sample of the records is
    linked against all published points. Time O(n log n) per dimension plus some 50 links of
    ``max_records`` records, and 10 more per column; no subset is tried twice.

    Parameters
    ----------
    classes
        The class of each row; rows of a class have the same published point.
    persons
        The person of each row. A link is then a guess among the people of a class, and the shares
        are averages over people, who count once however many rows they have.

    Examples
    --------
    >>> places = np.array([[0.0], [1.0], [8.0], [9.0], [0.5], [8.5]])
    >>> age = ColumnPoints(places, before=np.array([0, 1, 2, 3]), after=np.array([4, 4, 5, 5]))
    >>> links = link_records(LinkagePoints(("age",), (age,)), np.array([0, 0, 1, 1]))
    >>> links.all_columns.share, links.reverse.share, links.interval_disclosure, links.by_known
    (0.5, 0.5, 0.0, array([0.5]))
    """
    if not points.records:
        return Links()
    attack = _prepare_attack(points, classes, persons, seed=seed, max_records=max_records)
    link = _caching_link(attack)
    names = points.names
    report("linking records")
    everything, *singles = link([tuple(range(len(names))), *((i,) for i in range(len(names)))], 1)
    worst = max(range(len(names)), key=lambda i: singles[i].share)
    return Links(
        all_columns=everything,
        one_column=replace(singles[worst], columns=(names[worst],)),
        two_columns=_link_by_two(names, singles, link),
        some_columns=_mean(link(_draw_any_size(names, np.random.default_rng(seed)), 1)),
        reverse=_link_in_reverse(attack),
        interval_disclosure=_interval_disclosure(points),
        by_known=_link_by_count(names, link, np.random.default_rng(seed)),
    )


def _prepare_attack(
    points: LinkagePoints,
    classes: Integers,
    persons: Integers | None,
    *,
    seed: int,
    max_records: int,
) -> _Attack:
    _, first, class_of, sizes = np.unique(
        classes, return_index=True, return_inverse=True, return_counts=True
    )
    for column in points.columns:
        _check_classes(column, first[class_of])
    rows = np.random.default_rng(seed).permutation(points.records)[:max_records]
    codes = [distinct_rows(column.places[column.before[rows]]).place for column in points.columns]
    return _Attack(
        points=points,
        classes=class_of.astype(np.int64),
        first=first.astype(np.int64),
        sizes=sizes.astype(np.int64),
        numbers=np.column_stack([_class_numbers(column, first) for column in points.columns]),
        rows=rows,
        codes=np.column_stack(codes),
        persons=persons,
        weights=np.ones(len(rows)) if persons is None else 1 / np.bincount(persons)[persons[rows]],
    )


def _check_classes(column: ColumnPoints, representatives: Integers) -> None:
    """Raise DataError if the records of a class are not all published at the same place."""
    expected = column.after[representatives]
    rows = np.flatnonzero(expected != column.after)
    if not np.array_equal(column.places[expected[rows]], column.places[column.after[rows]]):
        raise DataError(
            "Records of the same class have different published points. Pass the classes of the "
            "columns that the points represent, as computed by class_labels.",
            code="data.invalid",
        )


def _class_numbers(column: ColumnPoints, first: Integers) -> Floats:
    """Number the classes; classes that are published at the same place share a number."""
    if column.places.shape[1] == 1:
        return column.places[column.after[first]].ravel()
    used, place = np.unique(column.after[first], return_inverse=True)
    return distinct_rows(column.places[used]).place[place].astype(np.float64)


def _caching_link(attack: _Attack) -> LinkBySubsets:
    """Return a function that links by a subset and caches the result."""
    results: dict[Subset, Estimate] = {}

    def link(subsets: Sequence[Subset], n_subsets: int) -> list[Estimate]:
        new = [subset for subset in dict.fromkeys(subsets) if subset not in results]
        places = [distinct_rows(attack.numbers[:, subset]) for subset in new]
        keys = [
            _query_keys(attack, subset, distinct, n_subsets)
            for subset, distinct in zip(new, places, strict=True)
        ]
        queries = [distinct_rows(key) for key in keys]
        for subset, distinct, query in zip(new, places, queries, strict=True):
            results[subset] = _link_by_subset(attack, subset, distinct, query)
        return [results[subset] for subset in subsets]

    return link


def _query_keys(attack: _Attack, subset: Subset, distinct: Distinct, n_subsets: int) -> Integers:
    """Return a row of keys per record to link: equal rows mean equal originals and true matches."""
    dimensions = sum(attack.points.columns[i].places.shape[1] for i in subset)
    count = _affordable_records(len(distinct.first), dimensions, n_subsets)
    true_match = distinct.place[attack.classes[attack.rows[:count]]]
    return np.column_stack((attack.codes[:count, subset], true_match))


def _link_by_subset(
    attack: _Attack, subset: Subset, distinct: Distinct, queries: Distinct
) -> Estimate:
    """Link by the columns of ``subset``, in which the classes have these ``distinct`` places.

    Records with the same key (``queries``) are looked up once.
    """
    rows = attack.rows[queries.first]
    links = count_links(
        attack.points.before(rows, subset),
        attack.points.after(attack.first[distinct.first], subset),
        attack.people_at(distinct),
        distinct.place[attack.classes[rows]],
    )
    weights = attack.weights[: len(queries.place)]
    share = float(np.average(links.expected[queries.place], weights=weights))
    return Estimate(share, len(queries.place), attack.points.records)


def _affordable_records(points: int, dimensions: int, n_subsets: int = 1) -> int | None:
    """Return how many records can be linked in reasonable time; None for all of them."""
    if dimensions <= MOST_TREE_DIMENSIONS:
        return None
    return max(_MIN_RECORDS, int(_MAX_COMPARISONS / (points * dimensions * n_subsets)))


def _mean(estimates: Sequence[Estimate]) -> Estimate:
    share = sum(item.share for item in estimates) / len(estimates)
    return Estimate(share, min(item.records for item in estimates), estimates[0].total)


def _link_by_two(
    names: Sequence[str], singles: Sequence[Estimate], link: LinkBySubsets
) -> Estimate | None:
    if len(names) < 2:
        return None
    pairs = [(min(pair), max(pair)) for pair in combinations(_sorted_places(names), 2)]
    riskiest = sorted(pairs, key=lambda pair: -sum(singles[i].share for i in pair))
    tried = riskiest[:_MAX_COLUMN_PAIRS]
    worst, result = max(
        zip(tried, link(tried, 1), strict=True), key=lambda attempt: attempt[1].share
    )
    return replace(result, columns=tuple(names[i] for i in worst))


def _link_by_count(names: Sequence[str], link: LinkBySubsets, rng: np.random.Generator) -> Floats:
    shares = []
    for size in range(1, len(names) + 1):
        report("linking records", size - 1, len(names))
        subsets = _draw_size(names, size, rng)
        shares.append(_mean(link(subsets, len(subsets))).share)
    return np.array(shares)


# ------------------------------------------------------------------------------------- subsets


def _sorted_places(names: Sequence[str]) -> list[int]:
    """Return column positions by name, so that results do not depend on the column order."""
    return sorted(range(len(names)), key=names.__getitem__)


def _draw_size(names: Sequence[str], size: int, rng: np.random.Generator) -> list[Subset]:
    """Return all subsets of this size if there are few, otherwise a random selection."""
    if comb(len(names), size) <= _MAX_SUBSETS:
        return list(combinations(range(len(names)), size))
    return _draw(names, [size] * _MAX_SUBSETS, rng)


def _draw_any_size(names: Sequence[str], rng: np.random.Generator) -> list[Subset]:
    """Return all non-empty subsets if there are few, otherwise some of random sizes."""
    count = len(names)
    if 2**count - 1 <= _MAX_SUBSETS:
        sizes = range(1, count + 1)
        return [subset for size in sizes for subset in combinations(range(count), size)]
    return _draw(names, rng.integers(1, count + 1, size=_MAX_SUBSETS).tolist(), rng)


def _draw(names: Sequence[str], sizes: Sequence[int], rng: np.random.Generator) -> list[Subset]:
    """Draw subsets of these sizes, without repetitions."""
    places = np.array(_sorted_places(names))
    drawn = (np.sort(places[rng.permutation(len(names))[:size]]).tolist() for size in sizes)
    return list(dict.fromkeys(tuple(subset) for subset in drawn))


# ------------------------------------------------------------------------------------- reverse


def linked_originals(
    before: Floats, after: Floats, blocks: Sequence[slice], rows: Integers | None = None
) -> Floats:
    """Return, for each published record, the probability that its nearest original is its own.

    Their mean is the distance-based linkage disclosure (DLD). Both sides are standardized first,
    one-dimensional columns by their own mean and standard deviation: an outsider knows both tables,
    and publishing centroids draws records together. One of several equally near originals is picked
    at random. At most one link per class is expected to be correct, so the mean is at most
    classes / n.

    Parameters
    ----------
    before, after
        The published records as points, before and after, row by row.
    blocks
        The dimensions of each column to standardize. Columns of several dimensions (indicators,
        locations) keep their scale.
    rows
        The published records to link; all by default.

    Examples
    --------
    >>> before = np.array([[0.0], [2.0], [4.0], [9.0]])
    >>> after = np.array([[1.0], [1.0], [6.5], [6.5]])
    >>> linked_originals(before, after, [slice(0, 1)])
    array([1., 0., 0., 1.])
    """
    lines = [block.start for block in blocks if block.stop - block.start == 1]
    selected = slice(None) if rows is None else rows
    originals = _standardize_lines(before, lines)
    published = _standardize_lines(after, lines)[selected]
    distinct = distinct_rows(originals)
    sizes = np.bincount(distinct.place, minlength=len(distinct.first)).astype(np.int64)
    targets = distinct.place[selected]
    queries = distinct_rows(np.column_stack((published, targets.astype(np.float64))))
    links = count_links(
        published[queries.first], originals[distinct.first], sizes, targets[queries.first]
    )
    return np.asarray(links.expected[queries.place])


def _standardize_lines(points: Floats, lines: Sequence[int]) -> Floats:
    out: Floats = points - points.mean(axis=0)
    for line in lines:
        # Equal points minus their mean may leave a rounding error, which is not a deviation.
        constant = np.ptp(points[:, line]) == 0
        out[:, line] = 0.0 if constant else out[:, line] / np.sqrt(np.square(out[:, line]).mean())
    return out


def _link_in_reverse(attack: _Attack) -> Estimate:
    points = attack.points
    everyone = np.arange(points.records)
    before, after = points.before(everyone), points.after(everyone)
    ends = np.cumsum([column.places.shape[1] for column in points.columns]).tolist()
    bounds = zip(points.names, [0, *ends], ends, strict=False)
    blocks = [slice(first, last) for name, first, last in bounds if name not in points.unchanged]
    rows = attack.rows[: _affordable_records(len(before), before.shape[1])]
    probabilities = linked_originals(before, after, blocks, rows)
    return Estimate(float(probabilities.mean()), len(rows), len(everyone))


# --------------------------------------------------------------------------------- ranks


def _interval_disclosure(points: LinkagePoints) -> float | None:
    named = zip(points.names, points.columns, strict=True)
    changed = [column for name, column in named if name not in points.unchanged]
    shares = [_share_in_window(column) for column in changed if column.places.shape[1]]
    return sum(shares) / len(shares) if shares else None


def _share_in_window(column: ColumnPoints) -> float:
    """Return the share of records within the rank window of their published value."""
    records = np.bincount(column.before, minlength=len(column.places))
    inside = np.ones(len(column.before), dtype=np.bool_)
    for values in column.places.T:
        ranks = _middle_ranks(values, records)
        distance = np.abs(ranks[column.before] - ranks[column.after])
        inside &= distance <= _RANK_WINDOW * len(column.before)
    return float(inside.mean())


def _middle_ranks(values: Floats, records: Integers) -> Floats:
    """Return the mid-rank of each value, given the number of records with that value."""
    order = np.argsort(values)
    ordered = values[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    below = np.append(0, np.cumsum(records[order]))
    starts, ends = below[begins], below[np.append(begins[1:], len(order))]
    ranks = np.empty(len(values))
    ranks[order] = np.repeat((starts + ends) / 2, np.diff(np.append(begins, len(order))))
    return ranks
