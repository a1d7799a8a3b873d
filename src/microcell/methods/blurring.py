"""Blur power cells, so that they reveal neither the sum of a cell nor a single record."""

from dataclasses import replace
from hashlib import sha256

import numpy as np

from microcell.cells import AbsoluteCells, PowerCells
from microcell.kernels.exchange import find_near_cells
from microcell.methods.lloyd import (
    adjust_exactly,
    settle_costs,
)
from microcell.model import Floats, Integers

__all__ = ["blur_centroids", "blur_sites", "unpin"]


def blur_sites(
    cells: PowerCells, X: Floats, labels: Integers, finest: Floats
) -> tuple[PowerCells, Integers]:
    """Return cells of the same sizes with blurred sites, and the new labels.

    An exact site is the mean of its cell and so reveals the exact sum of each column. The sites are
    moved by :func:`blur_centroids`; costs and labels are then adjusted. Within macrocells only the
    sites of the cells are moved: a macrocell has thousands of records.
    """
    sites, costs, labels = cells.centroids.copy(), cells.costs.copy(), labels.copy()
    group = np.zeros(len(cells), dtype=np.int64) if cells.group is None else cells.group
    parts = group[labels]
    for part in np.unique(group):
        inside, rows = np.flatnonzero(group == part), np.flatnonzero(parts == part)
        points, members = np.ascontiguousarray(X[rows]), np.searchsorted(inside, labels[rows])
        blurred, prices = blur_centroids(sites[inside], points, finest), costs[inside]
        absolute = isinstance(cells, AbsoluteCells)
        sizes = cells.sizes[inside].copy()
        adjust_exactly(points, blurred, prices, sizes, members, absolute=absolute)
        sites[inside], costs[inside], labels[rows] = blurred, prices, inside[members]
    return replace(cells, centroids=sites, costs=costs), labels


def blur_centroids(sites: Floats, X: Floats, finest: Floats) -> Floats:
    """Return the centroids of cells, moved by random steps drawn from a digest of the points.

    A step is at most half of ``finest``, the precision of the published means in each dimension, or
    if that is less, an eighth of the distance to the nearest other site, divided among the
    dimensions. In no dimension is it more than a quarter of that distance. Rounding to a grid would
    hide as much, but leave records exactly on the borders between cells.
    """
    count, m = sites.shape
    if m == 0:
        return sites.copy()
    spacing = np.ones(count)
    if count > 1:
        near = np.empty((count, 1), dtype=np.int64)
        find_near_cells(sites.copy(), np.ones(count), near)  # a writable array, as compiled
        spacing = np.sqrt(np.square(sites - sites[near[:, 0]]).sum(axis=1))
        spacing = np.where(spacing > 0, spacing, np.median(spacing))
    apart = spacing[:, np.newaxis]
    width = np.minimum(np.maximum(apart / (4 * np.sqrt(m)), finest), apart / 2)
    digest = sha256(b"sites" + X.tobytes()).hexdigest()
    steps = np.random.default_rng(int(digest, 16)).uniform(-0.5, 0.5, size=sites.shape)
    return np.ascontiguousarray(sites + width * steps)


def unpin(cells: PowerCells, X: Floats, labels: Integers) -> PowerCells:
    """Return the cells with costs that reveal no single record.

    No border then runs through equal points in two cells. Such points may be assigned to a cell
    other than their label; all others keep their cell.
    """
    absolute = isinstance(cells, AbsoluteCells)
    if cells.chooser is None or cells.group is None:
        costs = settle_costs(
            X,
            cells.centroids.copy(),
            cells.costs.copy(),
            cells.sizes.copy(),
            labels,
            unpinned=True,
            absolute=absolute,
        )
        return replace(cells, costs=costs)
    costs, macrocells = cells.costs.copy(), cells.group[labels]
    for macrocell in range(len(cells.chooser)):
        inside = np.flatnonzero(cells.group == macrocell)
        rows = np.flatnonzero(macrocells == macrocell)
        costs[inside] = settle_costs(
            X[rows],
            cells.centroids[inside],
            costs[inside],
            cells.sizes[inside],
            np.searchsorted(inside, labels[rows]),
            unpinned=True,
            absolute=absolute,
        )
    return replace(cells, costs=costs, chooser=unpin(cells.chooser, X, macrocells))
