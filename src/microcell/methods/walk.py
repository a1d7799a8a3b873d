"""Annealing of a table as a whole, in spatial order, by several threads, each in its zone.

Records lie in memory in the order of their cells along recursive bisections, and a walk tries those
of a window at a time, so that what it needs stays in the cache of a core. Zones are drawn anew for
every temperature; the labels do not depend on the number of threads.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from microcell.kernels._jit import thread_count
from microcell.kernels.annealing import RECOUNT, Walk, exchange_at_random
from microcell.kernels.arrays import Floats, Integers, Mask, ShortIntegers
from microcell.kernels.bisect import bisect_rows
from microcell.kernels.exchange import (
    Limits,
    find_near_cells,
    find_near_cells_in_runs,
    find_near_records,
    improve_near,
)
from microcell.kernels.groups import Grouping, make_grouping
from microcell.kernels.rules import no_rule

__all__ = [
    "WINDOW",
    "Terrain",
    "anneal_terrain",
    "centred",
    "divide",
    "in_spatial_order",
    "lay_out_terrain",
    "near_cells",
]

WINDOW = 1500
"""Number of records that a walk tries at a time: with all that is near, they fit the cache."""

NEAR_CELLS, NEAR_RECORDS, FIRST_NEAR = 20, 12, 24
"""Near records of each in a search, and those from which nearer ones are looked for: exchanges with
the very nearest succeed most often, so a few are enough if they are the right ones.
"""

CANDIDATES, CANDIDATES_OF_MANY = 400, 200
"""Number of records, in the surrounding cells, from which the first near ones are chosen."""

MANY_CELLS = 20_000

_RUN, _NEAR_RUNS, _FEW_CELLS = 32, 40, 4000
"""Cells per run of near cells, the runs in which near cells are looked for, and the number of cells
up to which they are looked for among all.
"""

_WORTH_THREADS = 20_000.0
"""Records times tries from which starting threads is worthwhile."""

_TRIES_OF_A_RECORD = 10.0
"""How many tries take as long as to find what is near a record."""

_ZONES, _LEAST_ZONE = 2, 30
"""Number of zones, and the least number of cells in each."""


@dataclass(frozen=True, eq=False)
class Terrain:
    """Records in spatial order with their near records: the data that no exchange changes."""

    order: Integers
    """Row of each record."""
    points: Floats
    weights: Floats
    scale: float
    near: ShortIntegers
    tried: Mask | None = None
    """Records that are tried; None for all."""
    recount: int = RECOUNT
    """How rarely cells are dissolved or created; see :class:`Walk`."""

    def spread(self, heat: Floats) -> Floats:
        """Return the heat, raised for records that are not tried to the mean heat around them."""
        if self.tried is None:
            return heat
        out = heat.copy()
        ordered = heat[self.order]
        near = ordered[self.near[~self.tried, :8]].mean(axis=1)
        out[self.order[~self.tried]] = np.maximum(ordered[~self.tried], near)
        return out


def lay_out_terrain(
    X: Floats, weights: Floats, labels: Integers, k: int, nearest: int = NEAR_RECORDS
) -> Terrain:
    """Order records by their cells, and find the near records of each. O(n m) for small cells."""
    order, _ = in_spatial_order(X, labels)
    points, scale = centred(X[order])
    ordered = _by_appearance(labels[order])
    count = int(ordered.max()) + 1
    cells = make_grouping(
        points, weights[order], ordered, count, int(np.bincount(ordered).max(initial=1))
    )
    records = CANDIDATES if count <= MANY_CELLS else CANDIDATES_OF_MANY
    around = _near_cells_of_many(cells, max(NEAR_CELLS, -(-records // k)))
    near = np.zeros((len(X), min(max(FIRST_NEAR, k + 8), len(X) - 1)), dtype=np.int32)
    _in_parts(count, lambda first, last: find_near_records(cells, around, first, last, near))
    for width in (near.shape[1], min(max(nearest, k + 8), len(X) - 1)):
        near = _improved(points, near, width)
    return Terrain(order, points, weights[order], scale, near)


def _improved(points: Floats, near: ShortIntegers, width: int) -> ShortIntegers:
    better = np.zeros((len(near), width), dtype=np.int32)
    _in_parts(len(near), lambda first, last: improve_near(points, near, first, last, better))
    return better


def anneal_terrain(
    terrain: Terrain,
    labels: Integers,
    limits: Limits,
    heats: list[Floats],
    tries: float,
    rng: np.random.Generator,
) -> tuple[Integers, int]:
    """Try ``tries`` exchanges per record, at each heat in turn; return labels and changes."""
    ordered = _by_appearance(labels[terrain.order])
    n, changes = len(ordered), 0
    cells = make_grouping(
        terrain.points, terrain.weights, ordered, n // limits.least + 1, limits.most
    )
    tried = np.arange(n) if terrain.tried is None else np.flatnonzero(terrain.tried)
    for heat in heats:
        zones = _draw_zones(cells, rng)
        zone_of_row = zones[cells.labels[tried]]
        each = heat[terrain.order] / terrain.scale**2
        states = rng.integers(0, 2**63, size=(int(zones.max()) + 1, 1), dtype=np.uint64)

        def work(zone: int) -> int:
            walk = Walk(tried[zone_of_row == zone], WINDOW, zones, zone, terrain.recount)  # noqa: B023
            part = cells._replace(empty=_empty_cells(cells, zones, zone))  # noqa: B023
            return int(
                exchange_at_random(
                    part, terrain.near, each, limits, no_rule(n), walk,  # noqa: B023
                    tries / len(heats), states[zone],  # noqa: B023
                )
            )  # fmt: skip

        changes += sum(_in_threads(work, range(len(states)), n * tries / len(heats)))
    out = np.empty(n, dtype=np.int64)
    out[terrain.order] = cells.labels
    return out, changes


def _draw_zones(cells: Grouping, rng: np.random.Generator) -> Integers:
    """Divide the cells into zones by a random hyperplane; empty cells are dealt out."""
    used = np.flatnonzero(cells.sizes > 0)
    zones = np.zeros(len(cells.sizes), dtype=np.int64)
    if len(used) < _ZONES * _LEAST_ZONE:
        return zones
    means = cells.sums[used] / cells.totals[used][:, np.newaxis]
    zones[used] = divide(means, -(-len(used) // _ZONES), rng)
    empty = np.flatnonzero(cells.sizes == 0)
    zones[empty] = np.arange(len(empty)) % (int(zones.max()) + 1)
    return zones


def _empty_cells(cells: Grouping, zones: Integers, zone: int) -> Integers:
    """Return the number of empty cells of a zone, followed by their numbers, and room for all."""
    empty = np.flatnonzero((cells.sizes == 0) & (zones == zone))
    out = np.zeros(len(cells.sizes) + 1, dtype=np.int64)
    out[0] = len(empty)
    out[1 : len(empty) + 1] = empty
    return out


def _in_threads(work: Callable[[int], Any], parts: range, size: float) -> list[Any]:
    """Do the parts of a work on several threads, unless it is small, in records times tries.

    Ctrl-C starts no further part.
    """
    if len(parts) == 1 or size < _WORTH_THREADS:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(thread_count()) as pool:
        try:
            return list(pool.map(work, parts))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _in_parts(count: int, work: Callable[[int, int], Any]) -> None:
    """Call work(first, last) for consecutive parts of ``count``."""
    parts = np.linspace(0, count, min(8, count) + 1).astype(np.int64).tolist()
    ends = list(pairwise(parts))
    _in_threads(lambda part: work(*ends[part]), range(len(ends)), count * _TRIES_OF_A_RECORD)


def in_spatial_order(X: Floats, labels: Integers) -> tuple[Integers, Integers]:
    """Return the rows by cell, cells in the order of recursive bisections, and the run starts."""
    sizes = np.bincount(labels)
    columns = X.T if X.shape[1] else np.zeros((1, len(X)))  # records that do not vary
    means = np.column_stack([np.bincount(labels, weights=x) / sizes for x in columns])
    cells = np.arange(len(sizes))
    starts = bisect_rows(np.ascontiguousarray(means), cells, 1, _RUN)
    place = np.empty_like(cells)
    place[cells] = np.arange(len(cells))
    return np.argsort(place[labels], kind="stable"), starts


def _by_appearance(labels: Integers) -> Integers:
    """Renumber the labels in the order in which they appear."""
    first = np.full(int(labels.max()) + 1, len(labels))
    first[labels[::-1]] = np.arange(len(labels))[::-1]
    rank = np.empty_like(first)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[labels]


def _near_cells_of_many(cells: Grouping, count: int) -> Integers:
    """Return the nearest cells of each cell, which are in spatial order."""
    total = len(cells.sizes)
    if total <= _FEW_CELLS:
        return near_cells(cells.sums, cells.totals, count)
    means = cells.sums / cells.totals[:, np.newaxis]
    starts = np.append(np.arange(0, total, _RUN), total)
    runs = np.add.reduceat(means, starts[:-1]) / np.diff(starts)[:, np.newaxis]
    near_runs = np.empty((len(runs), min(_NEAR_RUNS, len(runs) - 1)), dtype=np.int64)
    find_near_cells(runs, np.ones(len(runs)), near_runs)
    near_runs = np.column_stack([np.arange(len(runs)), near_runs])
    columns = np.ascontiguousarray(means.T.astype(np.float32))
    near = np.empty((total, min(count, total - 1)), dtype=np.int64)
    _in_parts(
        len(runs),
        lambda first, last: find_near_cells_in_runs(columns, starts, near_runs, first, last, near),
    )
    return near


def near_cells(sums: Floats, totals: Floats, count: int) -> Integers:
    """Return the nearest cells of each cell, at most ``count``."""
    near = np.empty((len(sums), max(1, min(count, len(sums) - 1))), dtype=np.int64)
    find_near_cells(sums, totals, near)
    return near


def centred(points: Floats) -> tuple[Floats, float]:
    """Return the points centred at their medians and scaled to at most 1, and the scale.

    Medians resist outliers. Squared distances must fit single precision, and sums must stay small.
    """
    points -= np.median(points, axis=0)
    scale = float(np.abs(points).max(initial=0.0)) or 1.0
    points /= scale
    return points, scale


def divide(means: Floats, most: int, rng: np.random.Generator) -> Integers:
    """Divide cells into regions of at most ``most``, by halving along random directions."""
    region, count = np.zeros(len(means), dtype=np.int64), 1
    waiting = [np.arange(len(means))]
    while waiting:
        cells = waiting.pop()
        if len(cells) <= most:
            continue
        places = (means[cells] * rng.normal(size=means.shape[1])).sum(axis=1)
        order = np.argsort(places, kind="stable")
        right = cells[order[len(cells) // 2 :]]
        region[right] = count
        count += 1
        waiting += [cells[order[: len(cells) // 2]], right]
    return region
