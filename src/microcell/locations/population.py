"""What may be told of the service: to anyone, and to its operator."""

import math
import time
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from microcell.errors import DataError, UnknownDeviceError
from microcell.locations.clustering import Clustering, merge_small, to_points
from microcell.locations.records import CellSummary, Overview, Place, Status
from microcell.locations.store import (
    Change,
    Merged,
    State,
    Store,
    Stored,
    Switched,
    Vault,
    digest_of,
    same_digest,
)
from microcell.model import Floats, Integers

__all__ = [
    "WAITS",
    "Entry",
    "Loaded",
    "Plan",
    "Population",
    "Served",
    "after_leaving",
    "after_switching",
    "counted",
    "is_worn",
    "load",
    "nobody_served",
    "overview_of",
    "rebuilt",
    "status_of",
    "unknown_device",
    "whole",
]

WAITS = -1
"""The cell of a device that has to wait, and of a slot that is free."""


_NOBODY = bytes(32)
"""Compared with where no device has the pseudonym, so that the time is the same."""


class Entry(NamedTuple):
    """A device: the digest of its token, and its slot in the arrays."""

    digest: bytes
    slot: int

    def __repr__(self) -> str:
        return f"Entry(slot={self.slot})"


@dataclass(frozen=True, eq=False, repr=False)
class Served:
    """What is served now: cells with their ids and places, and the cell of each slot.

    It is replaced as a whole when cells change, so that a look-up sees all cells before that or all after it. Entries
    of ``cells`` change in place, one at a time, and only where no cell falls under k by it.
    """

    clustering: Clustering | None
    ids: Integers
    places: tuple[Place, ...]
    cells: Integers
    generation: int = 0
    rebuilt: float | None = None

    @classmethod
    def of(
        cls,
        clustering: Clustering | None,
        ids: Integers,
        cells: Integers,
        state: State | None = None,
    ) -> "Served":
        """What is served of a clustering, from this state on."""
        rows = [] if clustering is None else clustering.places.tolist()
        places = tuple(Place(*row) for row in rows)
        if state is None:
            return cls(clustering, ids, places, cells)
        return cls(clustering, ids, places, cells, state.generation, state.rebuilt)

    def sizes(self) -> Integers:
        """How many devices each cell has. Each entry is read once: another thread may change it meanwhile."""
        return np.bincount(self.cells + 1, minlength=len(self.places) + 1)[1:]

    def summaries(self, sizes: Integers) -> tuple[CellSummary, ...]:
        """What anyone may know of each cell."""
        if self.clustering is None:
            return ()
        rows = zip(self.places, sizes.tolist(), self.clustering.radius.tolist(), strict=True)
        return tuple(
            CellSummary(number, place, size, radius)
            for number, (place, size, radius) in enumerate(rows)
        )

    def place_of(self, slot: int) -> Place | None:
        """The place that a slot is served; None if it waits."""
        cell = self.cells[slot]
        return None if cell < 0 else self.places[cell]


@dataclass(eq=False, repr=False)
class Population:
    """All devices. One thread at a time changes it; look-ups read ``index`` and ``served`` meanwhile."""

    index: dict[str, Entry] = field(default_factory=dict)
    served: Served = field(
        default_factory=lambda: Served.of(None, np.empty(0, dtype=np.int64), _waiting(16))
    )
    points: Floats = field(default_factory=lambda: np.zeros((16, 3)))
    rows: Integers = field(default_factory=lambda: np.zeros(16, dtype=np.int64))
    """The id of each slot's device in the database; 0 for free slots."""
    free: list[int] = field(default_factory=lambda: list(range(15, -1, -1)))
    touched: set[int] = field(default_factory=set)
    """Slots that were taken or moved since a rebuild began."""

    def __len__(self) -> int:
        return len(self.index)

    def find(self, pseudonym: str, token: str) -> Entry:
        """The device of this pseudonym and token; an unknown pseudonym takes as long as a wrong token."""
        entry = self.index.get(pseudonym)
        same = same_digest(_NOBODY if entry is None else entry.digest, digest_of(token))
        if entry is None or not same:
            raise unknown_device()
        return entry

    def occupied(self) -> Integers:
        """The slots of all devices, in order."""
        return np.flatnonzero(self.rows)

    def add(
        self,
        names: list[str],
        digests: list[bytes],
        rows: Integers,
        points: Floats,
        cells: Integers,
    ) -> None:
        """Take devices in; each can be looked up once its slot says where it is."""
        self._make_room(len(names))
        slots = np.array([self.free.pop() for _ in names], dtype=np.int64)
        self.points[slots], self.rows[slots], self.served.cells[slots] = points, rows, cells
        self.touched.update(slots.tolist())
        for name, digest, slot in zip(names, digests, slots.tolist(), strict=True):
            self.index[name] = Entry(digest, slot)

    def move(self, slot: int, point: Floats, cell: int, served: Served | None) -> None:
        """Put a device elsewhere; ``served`` is what is served thereafter, if not all else stays as it is."""
        self.points[slot] = point
        self.touched.add(slot)
        if served is None:
            self.served.cells[slot] = cell
        else:
            self.served = served

    def remove(self, name: str, served: Served | None) -> None:
        """Let a device go: first its name, so that a look-up never meets the slot's next one."""
        slot = self.index.pop(name).slot
        if served is None:
            self.served.cells[slot] = WAITS
        else:
            self.served = served
        self.points[slot], self.rows[slot] = 0.0, 0
        self.free.append(slot)

    def switch(self, switched: Switched, state: State) -> None:
        """Serve new cells, from one moment to the next."""
        cells, slots = _waiting(len(self.rows)), self.occupied()
        order = np.argsort(switched.devices)
        cells[slots] = switched.cells[
            order[np.searchsorted(switched.devices[order], self.rows[slots])]
        ]
        self.served = Served.of(switched.clustering, switched.ids, cells, state)

    def _make_room(self, count: int) -> None:
        lacking = count - len(self.free)
        if lacking <= 0:
            return
        old = len(self.rows)
        more = max(old, lacking)
        served = self.served
        self.points = np.concatenate([self.points, np.zeros((more, 3))])
        self.rows = np.concatenate([self.rows, np.zeros(more, dtype=np.int64)])
        self.served = replace(served, cells=np.concatenate([served.cells, _waiting(more)]))
        self.free[:0] = range(old + more - 1, old - 1, -1)


def unknown_device() -> UnknownDeviceError:
    """The same words whatever was wrong."""
    return UnknownDeviceError("No device has this pseudonym and token.")


def _waiting(count: int) -> Integers:
    return np.full(count, WAITS, dtype=np.int64)


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


def after_leaving(
    population: Population, state: State, slot: int, cell: int, k: int, *, gone: bool
) -> Plan:
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
    firsts = np.unique(found.renumbered, return_index=True)[
        1
    ]  # a merged cell goes by the id of its first
    gone = np.setdiff1d(np.arange(len(sizes)), firsts)
    kept = firsts[found.renumbered[gone]]
    cells = np.where(served.cells >= 0, found.renumbered[served.cells], WAITS)
    after = replace(state, generation=state.generation + 1, merges=state.merges + found.merges)
    return Plan(
        after,
        Served.of(found.clustering, served.ids[firsts], cells, after),
        Merged(
            served.ids[gone].tolist(),
            served.ids[kept].tolist(),
            served.ids[firsts],
            found.clustering,
        ),
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
    population.served = Served.of(
        stored.clustering, stored.ids, population.served.cells, stored.state
    )
    return population


def _numbers_of(stored: Stored, points: Floats) -> Integers:
    """The number of each device's cell, from the id that is stored."""
    if stored.clustering is None:
        return np.full(len(points), WAITS, dtype=np.int64)
    ids = [WAITS if row.cell is None else row.cell for row in stored.devices]
    return np.where(
        np.array(ids, dtype=np.int64) == WAITS, WAITS, np.searchsorted(stored.ids, ids)
    ).astype(np.int64)


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


def overview_of(population: Population, served: Served, k: int) -> Overview:
    """What anyone may know: the cells, never their members, and what the guarantee is worth now."""
    sizes, devices = served.sizes(), len(population)
    return Overview(
        k=k,
        cells=served.summaries(sizes),
        devices=devices,
        waiting=max(0, devices - int(sizes.sum())),
        least_size=int(sizes.min()) if len(sizes) else None,
        rebuilt=served.rebuilt,
        generation=served.generation,
    )


def status_of(
    view: Overview, state: State, share: float, rebuilding: bool, failure: str | None
) -> Status:
    """What the operator may know besides."""
    return Status(
        k=view.k,
        devices=view.devices,
        waiting=view.waiting,
        cells=len(view.cells),
        least_size=view.least_size,
        generation=view.generation,
        rebuilt=view.rebuilt,
        rebuild_seconds=state.rebuild_seconds,
        rebuilding=rebuilding,
        rebuilds=state.rebuilds,
        merges=state.merges,
        sign_ups=state.sign_ups,
        moves=state.moves,
        cancellations=state.cancellations,
        changes=state.changes,
        changes_until_rebuild=max(0, math.floor(share * view.devices) + 1 - state.changes),
        last_failure=failure,
    )
