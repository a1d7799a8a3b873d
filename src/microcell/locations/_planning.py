"""What a change of devices does to cells: none under k is ever written or served.

Pure functions: from what is served now, to what shall be written and then served.
"""

from dataclasses import dataclass, replace

import numpy as np

from microcell.locations._clustering import Clustering, merge_small
from microcell.locations._population import WAITS, Population, Served
from microcell.locations._records import Merged, State, Switched
from microcell.model import Integers

__all__ = ["Plan", "after_leaving", "after_switching", "nobody_served", "whole"]


@dataclass(frozen=True, eq=False)
class Plan:
    """The state after a change, what to write of cells, and what to serve; None where cells stay as they are."""

    state: State
    served: Served | None = None
    merged: Merged | None = None
    switched: Switched | None = None


def after_leaving(population: Population, state: State, slot: int, cell: int, k: int, *, gone: bool) -> Plan:
    """What follows when a slot's device leaves its cell, for another one, or for good.

    A cell under k is merged with its nearest neighbour; where fewer than k devices are left in all, everyone waits.
    """
    served = population.served
    if served.clustering is None or len(population) - gone < k:
        return nobody_served(population, state) if served.clustering is not None else Plan(state)
    own = int(served.cells[slot])
    if own == cell:
        return Plan(state)
    sizes = served.sizes()
    sizes[own] -= 1
    if not gone:
        sizes[cell] += 1
    if sizes[own] >= k:
        return Plan(state)
    cells = served.cells.copy()
    cells[slot] = cell
    return whole(replace(served, cells=cells), sizes, state, k)


def whole(served: Served, sizes: Integers, state: State, k: int) -> Plan:
    """What follows when cells of these sizes must all have k: merges, where they have not."""
    assert served.clustering is not None
    found = merge_small(served.clustering, sizes, k)
    if found.merges == 0:
        return Plan(state, served)
    firsts = np.unique(found.renumbered, return_index=True)[1]  # a merged cell goes by the id of its first
    gone = np.setdiff1d(np.arange(len(sizes)), firsts)
    kept = firsts[found.renumbered[gone]]
    cells = np.where(served.cells >= 0, found.renumbered[served.cells], WAITS)
    after = replace(state, generation=state.generation + 1, merges=state.merges + found.merges)
    return Plan(
        after,
        Served.of(found.clustering, served.ids[firsts], cells, after),
        Merged(served.ids[gone].tolist(), served.ids[kept].tolist(), served.ids[firsts], found.clustering),
    )


def nobody_served(population: Population, state: State) -> Plan:
    """What follows when everyone has to wait."""
    none, after = np.empty(0, dtype=np.int64), replace(state, generation=state.generation + 1)
    return Plan(
        after,
        Served.of(None, none, np.full(len(population.served.cells), WAITS, dtype=np.int64), after),
        switched=Switched(none, None, none, none),
    )


def after_switching(
    clustering: Clustering, labels: Integers, rows: Integers, first_id: int, k: int
) -> tuple[Switched, int]:
    """New cells for all devices, none under k, with ids from the first one on; and how many merges that took.

    ``labels`` are the cells of the devices of these rows, k of them at least.
    """
    sizes = np.bincount(labels, minlength=len(clustering))
    found = merge_small(clustering, sizes, k)
    ids = first_id + np.arange(len(found.clustering))
    return Switched(ids, found.clustering, rows, found.renumbered[labels]), found.merges
