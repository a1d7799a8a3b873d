"""How records join cells that are there, and how cells that have grown are split."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import numpy as np

from microcell import progress
from microcell.kernels._jit import thread_count
from microcell.kernels.cells import centroids
from microcell.kernels.increments import Sites, join_in_turn, make_sites, near_sites, place_site
from microcell.kernels.trees import MOST_TREE_DIMENSIONS, nearest_rows
from microcell.model import Floats, Integers
from microcell.partitioning.mdav import mdav

__all__ = ["join_early", "join_inertially", "join_nearest", "neighbourhood", "split_cells"]

_JOINING = "adding records to their nearest cells"

_SECONDS = 0.25
"""A kernel comes back after about so long, so that progress shows and Ctrl-C is heard."""

_ENTRIES_A_PIECE = 200_000_000
"""Points are handed to threads in pieces; so many entries of centroids are looked at for one."""

_LEAST_PIECE = 64


def join_nearest(X: Floats, labels: Integers, weights: Floats) -> Integers:
    """Labels of all records: those after the labelled ones join the cell with the nearest centroid, all at once.

    Ties to the lowest cell. Time O((G + q) log G) in few dimensions, else O(G q m), for q records and G cells.
    """
    means = centroids(X[: len(labels)], labels, weights[: len(labels)])
    queries = X[len(labels) :]
    if X.shape[1] <= MOST_TREE_DIMENSIONS:  # the tree shares the work among threads itself
        progress.report(_JOINING)
        joined = nearest_rows(means, queries)
    else:
        joined = _side_by_side(lambda some: nearest_rows(means, some), queries, means.size, _JOINING)
    return np.concatenate([labels, joined])


def join_inertially(X: Floats, labels: Integers, weights: Floats) -> Integers:
    """Labels of all records: the further ones join, in order, the cell whose SSE rises least; its centroid moves.

    The rise is W w / (W + w) ||y - c||^2, which with equal weights is n / (n + 1) ||y - c||^2. Time O(G q m).
    """
    filling = _Filling(X, labels, weights, room=int(labels.max()) + 1, inertial=True)
    filling.take_all()
    return filling.labels


def join_early(X: Floats, labels: Integers, weights: Floats, k: int, *, inertial: bool) -> Integers:
    """Labels of all records: the further ones join in order, and MDAV splits a cell as soon as it has 2k records.

    Cells that have so many already are split first. Without ``inertial`` centroids stay where they are until their
    cell is split. Time O(G q m).
    """
    start = split_cells(X[: len(labels)], labels, weights[: len(labels)], k)
    filling = _Filling(X, start, weights, room=len(X) // k, inertial=inertial)
    filling.take_all(k)
    return filling.labels


class _Filling:
    """Cells that take records one after the other, in the order of the rows after the labelled ones."""

    def __init__(self, X: Floats, labels: Integers, weights: Floats, *, room: int, inertial: bool) -> None:
        self._X, self._weights, self._inertial = X, weights, inertial
        self._base = len(labels)
        self._sites: Sites = make_sites(X[: self._base], labels, weights[: self._base], room)
        self.labels = np.concatenate([labels, np.full(len(X) - self._base, -1)])

    def take_all(self, k: int | None = None) -> None:
        """Let all records join; with ``k`` a cell is split as soon as it has 2k."""
        n, most = len(self._X), len(self._X) + 1 if k is None else 2 * k
        done, step, told = self._base, 16, monotonic()
        while done < n:
            last = min(n, done + step)
            done = join_in_turn(self._sites, self._X, self._weights, done, last, most, self._inertial, self.labels)
            cell = int(self.labels[done - 1])
            if k is not None and self._sites.sizes[cell] >= most:
                self._split(cell, k)
            elif monotonic() - told < _SECONDS:
                step *= 2
            if monotonic() - told >= _SECONDS:
                step, told = max(16, step // 2), monotonic()
                progress.report(_JOINING, done - self._base, n - self._base)

    def _split(self, cell: int, k: int) -> None:
        """Split a cell by MDAV; its first part keeps the number, the others get new ones."""
        rows = np.flatnonzero(self.labels == cell)
        parts = _split_by_mdav(self._X[rows], k, self._weights[rows])
        for part in range(int(parts.max()) + 1):
            own, place = rows[parts == part], int(self._sites.used[0]) if part else cell
            self.labels[own] = place
            place_site(self._sites, place, self._X[own], self._weights[own])


def split_cells(X: Floats, labels: Integers, weights: Floats, k: int) -> Integers:
    """The labels with every cell of 2k or more split by MDAV; its first part keeps the number, others get new ones."""
    out, free = labels.copy(), int(labels.max()) + 1
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])
    large = [rows for rows in members if len(rows) >= 2 * k]
    for done, rows in enumerate(large):
        if done % 100 == 0:
            progress.report("splitting cells", done, len(large))
        parts = _split_by_mdav(X[rows], k, weights[rows])
        out[rows[parts > 0]] = free + parts[parts > 0] - 1
        free += int(parts.max())
    return out


def neighbourhood(X: Floats, labels: Integers, weights: Floats, touched: Integers, wanted: int) -> Integers:
    """The touched cells and the ``wanted`` cells nearest to each, sorted. O(G m) time for each touched cell."""
    means = centroids(X, labels, weights)
    if len(touched) == 0 or wanted + 1 >= len(means):
        return np.arange(len(means)) if len(touched) else touched
    near = _side_by_side(
        lambda some: near_sites(means, some, wanted + 1), means[touched], means.size, "finding the cells around"
    )
    return np.union1d(touched, near)


def _split_by_mdav(X: Floats, k: int, weights: Floats) -> Integers:
    with progress.listen(_say_nothing):  # a split is short, and there are many
        return mdav(X, k, weights=weights, seed=0)


def _say_nothing(task: str, done: int, total: int) -> None:
    """Hear a report and forget it."""


def _side_by_side(work: Callable[[Floats], Integers], points: Floats, entries: int, task: str) -> Integers:
    """What ``work`` finds for the points, on all threads: kernels let others run. Ctrl-C starts no further piece.

    ``entries`` are looked at for each point.
    """
    size = min(max(_LEAST_PIECE, _ENTRIES_A_PIECE // max(1, entries)), -(-len(points) // thread_count()) or 1)
    pieces = [points[first : first + size] for first in range(0, max(1, len(points)), size)]
    found, done = [], 0
    with ThreadPoolExecutor(thread_count()) as pool:
        try:
            for piece, result in zip(pieces, pool.map(work, pieces), strict=True):
                progress.report(task, done, len(points))
                found.append(result)
                done += len(piece)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return np.concatenate(found)
