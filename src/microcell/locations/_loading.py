"""The service's memory, made from its database: sealed places opened, and every cell brought to k."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from microcell.errors import DataError
from microcell.locations._planning import nobody_served, whole
from microcell.locations._population import WAITS, Population, Served
from microcell.locations._records import Change, State, Stored
from microcell.locations._sphere import to_points
from microcell.locations._store import Store
from microcell.locations._vault import Vault
from microcell.model import Floats, Integers

__all__ = ["Loaded", "load"]


@dataclass(frozen=True, eq=False)
class Loaded:
    """Devices and state, the next ids that are free, and whether cells should be made anew."""

    population: Population
    state: State
    next_row: int
    next_cell: int
    rebuild: bool


def load(store: Store, vault: Vault, k: int) -> Loaded:
    """All that the database holds, safe to be served with this k.

    A database that is new is made the key's own. Where cells have fewer than k devices, as after k was raised, they are
    merged, and where there are fewer than k in all, everyone waits; that is written before it is served.
    """
    stored = store.load()
    if stored.state is None:
        state = State(vault.check_value(), k)
        store.write(Change(state))
        return Loaded(Population(), state, 1, 1, rebuild=False)
    vault.refuse_other_key(stored.state.check_value)
    population = _populate(stored, _points_of(stored.devices, vault))
    state = _make_safe(store, population, stored.state, k)
    next_row = max((row.id for row in stored.devices), default=0) + 1
    next_cell = int(stored.ids.max(initial=0)) + 1
    return Loaded(population, state, next_row, next_cell, rebuild=stored.state.k != k)


def _points_of(devices: Any, vault: Vault) -> Floats:
    places = np.empty((2, len(devices)))
    for number, row in enumerate(devices):
        try:
            places[:, number] = vault.open(row.pseudonym, row.sealed)
        except DataError:
            raise DataError(
                f"The location of the device in row {row.id} does not open: it was changed, or belongs to another one."
            ) from None
    return to_points(*places)


def _populate(stored: Stored, points: Floats) -> Population:
    population = Population()
    cells = _numbers_of(stored, points)
    population.add(
        [row.pseudonym for row in stored.devices],
        [row.digest for row in stored.devices],
        np.array([row.id for row in stored.devices], dtype=np.int64),
        points,
        cells,
    )
    population.touched.clear()
    population.served = Served.of(stored.clustering, stored.ids, population.served.cells, stored.state)
    return population


def _numbers_of(stored: Stored, points: Floats) -> Integers:
    """The number of each device's cell, from the id that is stored."""
    if stored.clustering is None:
        return np.full(len(points), WAITS, dtype=np.int64)
    ids = [WAITS if row.cell is None else row.cell for row in stored.devices]
    return np.where(np.array(ids, dtype=np.int64) == WAITS, WAITS, np.searchsorted(stored.ids, ids)).astype(np.int64)


def _make_safe(store: Store, population: Population, state: State, k: int) -> State:
    """The state with no cell under k, and what is served brought to that."""
    served = population.served
    state_now = replace(state, k=k)
    if served.clustering is None:
        plan = None
    elif len(population) < k or int(served.sizes().sum()) < k:
        plan = nobody_served(population, state_now)
    else:
        plan = whole(served, served.sizes(), state_now, k)
    if plan is None or plan.served is None:
        if state_now != state:
            store.write(Change(state_now))
        return state_now
    if plan.state != state or plan.merged is not None or plan.switched is not None:
        store.write(Change(plan.state, merged=plan.merged, switched=plan.switched))
    population.served = plan.served
    return plan.state
