"""Switch from one publication to the next, although devices changed while it was planned.

A publication is planned on a copy of all devices. What is served afterwards combines the plan with
the changes since: devices that signed up, moved or cancelled meanwhile.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np

from microcell.locations.clustering import great_circle, to_points
from microcell.locations.population import (
    WAITING,
    Population,
    ServedCells,
    Transition,
    make_overview,
    merge_undersized,
    provisional_epoch,
    short_cells,
    with_history,
)
from microcell.locations.publication import MOVED, SETTLED, Outcome, cohort_sizes
from microcell.locations.records import Publication
from microcell.locations.store import CellUpdate, State
from microcell.model import Integers

__all__ = [
    "as_update",
    "make_safe",
    "next_cells",
    "next_history",
    "next_status",
    "still_planned",
    "summarize",
]


def still_planned(population: Population, slots: Integers) -> Any:
    """Return a mask of the planned slots that still hold the same device."""
    refilled = np.isin(slots, sorted(population.filled))
    return (population.rows[slots] > 0) & ~refilled


def next_cells(
    population: Population,
    outcome: Outcome,
    slots: Integers,
    state: State,
    reach: float | None,
) -> ServedCells:
    """Return the cells to serve; devices that signed up since use a place within reach, if any."""
    cells = np.full(len(population.rows), WAITING, dtype=np.int64)
    epochs = np.full(len(cells), provisional_epoch(state.generation), dtype=np.int64)
    alive = still_planned(population, slots)
    cells[slots[alive]] = outcome.labels[alive]
    epochs[slots[alive]] = np.where(
        outcome.epochs[alive] % 2 == 0,
        outcome.epochs[alive],
        provisional_epoch(state.generation),
    )
    filled = np.array(sorted(population.filled), dtype=np.int64)
    filled = filled[population.rows[filled] > 0]
    if len(filled) and reach is not None:
        cells[filled] = outcome.standing.nearest(population.points[filled], reach)
    planned = len(outcome.labels)
    overview = make_overview(
        outcome.standing.clustering(),
        outcome.standing.bands,
        state,
        planned,
        int(np.count_nonzero(outcome.labels < 0)),
    )
    served = ServedCells.of(
        outcome.standing.clustering(),
        outcome.standing,
        np.arange(len(outcome.standing)),
        outcome.standing.builds,
        cells,
        epochs,
        overview,
    )
    # Histories that lost devices since planning end at once.
    short = np.isin(cells, short_cells(served, state.k))
    return replace(served, epochs=np.where(short, provisional_epoch(state.generation), epochs))


def next_status(population: Population, slots: Integers) -> Integers:
    """Return the status of each device: settled, unless it changed since planning."""
    status = population.status.copy()
    settled = still_planned(population, slots) & ~np.isin(slots, sorted(population.shifted))
    status[slots[settled]] = SETTLED
    shifted = np.array(sorted(population.shifted - population.filled), dtype=np.int64)
    status[shifted] = MOVED
    return status


def next_history(population: Population, outcome: Outcome, slots: Integers) -> Integers:
    """Return the builds of each device; negative if it has moved since planning."""
    alive = still_planned(population, slots)
    history = outcome.history[alive]
    shifted = np.isin(slots[alive], sorted(population.shifted))
    history[shifted] = -np.abs(history[shifted])
    return with_history(population.history, slots[alive], history)


def make_safe(served: ServedCells, state: State, reach: float) -> Transition:
    """Merge cells that lost devices while the publication was planned, or let them wait."""
    sizes = served.count()
    if not len(sizes) or sizes.min() >= state.k:
        return Transition(state)
    return merge_undersized(served, sizes, state, reach)


def summarize(
    population: Population,
    outcome: Outcome,
    served: ServedCells,
    state: State,
    changed: int,
    seconds: float,
) -> Publication:
    """Return the figures of a publication."""
    slots = population.occupied()
    cells, epochs = served.cells[slots], served.epochs[slots]
    sizes = served.count()
    cohorts = cohort_sizes(cells, epochs)
    placed = cells >= 0
    # A device that moved since planning uses its new location from the next publication on.
    counted = placed & ~np.isin(slots, sorted(population.shifted))
    distance = None
    if counted.any() and served.clustering is not None:
        places = to_points(*served.clustering.places.T)
        points = population.points[slots[counted]]
        distance = float(great_circle(points, places[cells[counted]]).mean())
    return Publication(
        generation=state.generation,
        at=time.time(),
        devices=len(slots),
        waiting=int(np.count_nonzero(~placed)),
        cells=len(sizes),
        smallest_cell=int(sizes.min()) if len(sizes) else None,
        k_over_history=int(cohorts.min()) if len(cohorts) else None,
        changed=changed,
        renewed=outcome.renewed,
        distance=distance,
        rebuilt=outcome.rebuilt,
        seconds=seconds,
    )


def as_update(
    population: Population,
    outcome: Outcome,
    served: ServedCells,
    status: Integers,
    now: Integers,
    slots: Integers,
    state: State,
    publication: Publication,
) -> CellUpdate:
    """Return the update of the database for a publication; ``now`` are the occupied slots."""
    return CellUpdate(
        standing=outcome.standing,
        clustering=served.clustering,
        devices=population.rows[now],
        cells=np.append(served.ids, 0)[served.cells[now]],
        epochs=served.epochs[now],
        status=status[now],
        history=next_history(population, outcome, slots)[now],
        added=outcome.added,
        closed=outcome.closed,
        generation=state.generation,
        publication=publication,
    )
