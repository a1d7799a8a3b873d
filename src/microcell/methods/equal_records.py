"""Tables of many equal records: groups of k or more are cells, and only the others are searched.

A group of at least k equal records costs nothing. It lends records to cells around it, and takes
them back: a record with k - 1 borrowed ones around it loses less than one that joins the group.
Records that no cell can need are set aside, so time follows the number of distinct rows.
"""

from dataclasses import dataclass

import numpy as np

from microcell.kernels.arrays import (
    Distinct,
    Floats,
    Integers,
    Mask,
    ShortIntegers,
    distinct_rows,
    squared_distances,
)
from microcell.methods.bisect import bisect, split_large_cells
from microcell.methods.mdav import mdav
from microcell.methods.search import Search, compact
from microcell.methods.walk import Terrain, centred, lay_out_terrain

__all__ = ["EqualRecords", "find_equal_records"]

_WORTHWHILE = 0.1
"""Minimum share of records in groups of at least k equal ones."""

_LENT = 4
"""Multiple of k: records of a group that take part in a search, if at least k others remain."""

_NEAR, _OWN_PLACE = 24, 6
"""Near records in a search beyond 2k, and the position at which an equal one is listed."""

_RECOUNT = 10
"""Cells are dissolved and created more often than in other tables: a single record gets a cell of
its own with borrowed ones by a creation, hardly by exchanges.
"""


@dataclass(frozen=True, eq=False)
class EqualRecords:
    """The distinct rows of a table, with the number of records of each."""

    X: Floats
    weights: Floats
    k: int
    distinct: Distinct
    counts: Integers

    @property
    def single(self) -> Mask:
        """Whether each record has fewer than k equal ones."""
        return (self.counts < self.k)[self.distinct.place]

    def start(self, seed: int, macrocells: int | None) -> Integers:
        """Return the groups of at least k as cells, and MDAV's cells of the other records."""
        single = self.single
        labels = compact(np.where(single, 0, 1 + self.distinct.place))
        rows = np.flatnonzero(single)
        if len(rows) >= self.k:
            large = macrocells is not None and len(rows) > macrocells
            labels[rows] = (
                labels.max()
                + 1
                + mdav(
                    np.ascontiguousarray(self.X[rows]),
                    self.k,
                    weights=self.weights[rows],
                    seed=seed,
                    macrocells=macrocells if large else None,
                )
            )
            return compact(labels)
        groups = np.flatnonzero(self.counts >= self.k)
        centres = self.X[self.distinct.first[groups]]
        home = labels[self.distinct.first[groups]]
        for row in rows:
            labels[row] = home[squared_distances(centres, self.X[row]).argmin()]
        return compact(labels)

    def search(self, labels: Integers, seed: int) -> "EqualSearch":
        """Return a search that starts from these cells."""
        return EqualSearch(self, labels, seed)

    def finish(self, labels: Integers) -> Integers:
        """Join all cells of the same equal records, and split others of at least 2k."""
        place = self.distinct.place
        cells = int(labels.max()) + 1
        lowest, highest = np.full(cells, len(self.counts)), np.full(cells, -1)
        np.minimum.at(lowest, labels, place)
        np.maximum.at(highest, labels, place)
        pure = (lowest == highest)[labels]
        joined = np.where(pure, cells + place, labels)
        rows = np.flatnonzero(~pure)
        if len(rows):
            mixed = split_large_cells(
                np.ascontiguousarray(self.X[rows]), compact(labels[rows]), self.k
            )
            joined[rows] = cells + len(self.counts) + mixed
        return compact(joined)


def find_equal_records(X: Floats, k: int, weights: Floats | None) -> EqualRecords | None:
    """Return the equal records of a table; None if few are in groups of at least k."""
    if not _may_repeat(X, k):
        return None
    distinct = distinct_rows(X)
    counts = np.bincount(distinct.place)
    if counts[counts >= k].sum() < _WORTHWHILE * len(X) or len(counts) == 1:
        return None
    each = np.ones(len(X)) if weights is None else weights
    return EqualRecords(X, each, k, distinct, counts)


def _may_repeat(X: Floats, k: int) -> bool:
    """Return False if few records share a projection, without sorting all columns."""
    places = np.zeros(len(X))
    for column, direction in zip(
        X.T, np.random.default_rng(0).normal(size=(X.shape[1], 1)), strict=True
    ):
        places += direction * column
    places.sort()
    starts = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
    counts = np.diff(np.append(starts, len(X)))
    return bool(counts[counts >= k].sum() >= _WORTHWHILE * len(X))


class EqualSearch(Search):
    """A search that moves only records without enough equal ones to form a cell of their own."""

    def __init__(self, table: EqualRecords, labels: Integers, seed: int) -> None:
        self._table, self._all = table, labels
        self._active = _active_rows(table, labels)
        rows = self._active
        cells = compact(labels[rows])
        super().__init__(
            table.X[rows],
            cells,
            table.k,
            table.weights[rows],
            seed,
            terrain=_terrain(table, rows),
            most=max((_LENT + 1) * table.k, int(np.bincount(cells).max())),
        )

    def all_labels(self) -> Integers:
        """Return the cells of all records; those set aside are with equal ones only."""
        out = np.full(len(self._all), -1)
        out[self._active] = self.labels
        aside = np.flatnonzero(out < 0)
        out[aside] = self.labels.max() + 1 + self._table.distinct.place[aside]
        return self._table.finish(compact(out))


def _active_rows(table: EqualRecords, labels: Integers) -> Integers:
    """Return the rows that take part: of each large group as many as can be needed.

    Those that are not in the largest cell of their group come first.
    """
    k, place = table.k, table.distinct.place
    size = np.bincount(labels)[labels]
    order = np.lexsort((np.arange(len(place)), size, place))
    starts = np.concatenate([[0], np.cumsum(table.counts)[:-1]])
    number = np.empty(len(place), dtype=np.int64)
    number[order] = np.arange(len(place)) - np.repeat(starts, table.counts)
    most = np.where(table.counts >= (_LENT + 1) * k, _LENT * k, table.counts)
    return np.flatnonzero(number < most[place])


def _terrain(table: EqualRecords, rows: Integers) -> Terrain:
    """Return the terrain of some rows, in which near records are near distinct ones."""
    U = np.ascontiguousarray(table.X[table.distinct.first])
    k, ones = table.k, np.ones(len(U))
    ground = lay_out_terrain(U, ones, bisect(U, k, weights=None, seed=0), k, _NEAR)
    rank = np.empty(len(U), dtype=np.int64)
    rank[ground.order] = np.arange(len(U))
    place = rank[table.distinct.place[rows]]
    order = np.argsort(place, kind="stable")
    counts = np.bincount(place, minlength=len(U))
    near = _near_copies(ground.near, counts, k)
    points, scale = centred(table.X[rows[order]])
    tried = table.single[rows[order]]
    return Terrain(order, points, table.weights[rows[order]], scale, near, tried, _RECOUNT)


def _near_copies(near: ShortIntegers, counts: Integers, k: int) -> ShortIntegers:
    """Return the records near each record, from the distinct rows near each distinct row.

    Records are ordered by distinct row. Several equal ones may be listed, others for each record.
    """
    copies = np.minimum(counts, k - 1)[near]
    ends = np.cumsum(copies, axis=1)
    first = np.cumsum(counts) - counts
    owner = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(owner)) - first[owner]
    width = _NEAR + 2 * k
    out = np.empty((len(owner), width), dtype=np.int32)
    for slot in range(width):
        lap, turn = np.divmod(slot, ends[:, -1])
        which = (ends <= turn[:, np.newaxis]).sum(axis=1)
        row = np.arange(len(counts))
        other, offset = near[row, which], turn - ends[row, which] + (lap + 1) * copies[row, which]
        out[:, slot] = first[other[owner]] + (number + offset[owner]) % counts[other[owner]]
    out[:, _OWN_PLACE] = first[owner] + (number + 1) % counts[owner]
    return out
