"""What a change of devices does to cells: none under k is ever written or served.

Pure functions: from what is served now, to what shall be written and then served.
"""

import time
from dataclasses import dataclass, replace

import numpy as np

from microcell.locations._clustering import Clustering, merge_small
from microcell.locations._population import WAITS, Population, Served
from microcell.locations._records import Merged, State, Switched
from microcell.model import Integers

__all__ = ["Plan", "after_leaving", "after_switching", "counted", "is_worn", "nobody_served", "rebuilt", "whole"]


@dataclass(frozen=True, eq=False)
class Plan:
    """The state after a change, what to write of cells, and what to serve; None where cells stay as they are."""

    state: State
    served: Served | None = None
    merged: Merged | None = None
    switched: Switched | None = None


def counted(state: State, **counts: int) -> State:
    """The state with so many more changes.

    Examples
    --------
    >>> counted(State(b"", 2, changes=1), moves=2)
    State(k=2, generation=0, rebuilds=0, merges=0, sign_ups=0, moves=2, cancellations=0, changes=3, ...)
    """
    more = {name: getattr(state, name) + count for name, count in counts.items()}
    return replace(state, changes=state.changes + sum(counts.values()), **more)


def is_worn(population: Population, state: State, share: float) -> bool:
    """Whether cells should be made anew: there are none, two became one, or more than a share of devices changed."""
    clustering = population.served.clustering
    merged = clustering is None or len(clustering.sites) > len(clustering)
    return merged or state.changes > share * len(population)


def rebuilt(state: State, k: int, seconds: float, merges: int = 0, changes: int = 0) -> State:
    """The state after a rebuild for this k that ends now; ``changes`` came while it went on."""
    return replace(
        state,
        k=k,
        generation=state.generation + 1,
        rebuilds=state.rebuilds + 1,
        merges=state.merges + merges,
        changes=changes,
        rebuilt=time.time(),
        rebuild_seconds=seconds,
    )


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
