"""In-memory state of the service: the devices, the cells being served, and their transitions."""

import hmac
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from microcell.errors import DataError, UnknownDeviceError
from microcell.locations.clustering import Clustering, merge_small, to_points
from microcell.locations.records import CellSummary, Overview, Place, Status
from microcell.locations.store import (
    CellMerge,
    CellReplacement,
    Change,
    DeviceRow,
    Snapshot,
    State,
    Store,
)
from microcell.locations.vault import Vault, hash_token
from microcell.model import Floats, Integers

__all__ = [
    "WAITING",
    "Entry",
    "Loaded",
    "Population",
    "ServedCells",
    "Transition",
    "after_rebuild",
    "count_changes",
    "leave_cell",
    "load",
    "make_replacement",
    "merge_undersized",
    "needs_rebuild",
    "overview_of",
    "status_of",
    "suspend",
    "unknown_device",
]

WAITING = -1
"""Cell number of a device that has to wait, and of a free slot."""

_NO_DIGEST = bytes(32)
"""Compared with if the pseudonym is unknown, so that the comparison takes the same time."""


class Entry(NamedTuple):
    """A device: the digest of its token, and its slot in the arrays."""

    digest: bytes
    slot: int

    def __repr__(self) -> str:
        return f"Entry(slot={self.slot})"


@dataclass(frozen=True, eq=False, repr=False)
class ServedCells:
    """Cells being served with their ids and places, and the cell of each slot.

    Replaced as a whole when cells change, so that a look-up sees either all old or all new cells.
    Single entries of ``cells`` change in place, but only if no cell falls below k.
    """

    clustering: Clustering | None
    ids: Integers
    places: tuple[Place, ...]
    cells: Integers
    generation: int = 0
    rebuilt_at: float | None = None

    @classmethod
    def of(
        cls,
        clustering: Clustering | None,
        ids: Integers,
        cells: Integers,
        state: State | None = None,
    ) -> "ServedCells":
        """Create the served cells of a clustering as of the given state."""
        rows = [] if clustering is None else clustering.places.tolist()
        places = tuple(Place(*row) for row in rows)
        if state is None:
            return cls(clustering, ids, places, cells)
        return cls(clustering, ids, places, cells, state.generation, state.rebuilt_at)

    def sizes(self) -> Integers:
        """Return the number of devices per cell.

        Reads each entry once, because another thread may be changing it.
        """
        return np.bincount(self.cells + 1, minlength=len(self.places) + 1)[1:]

    def summaries(self, sizes: Integers) -> tuple[CellSummary, ...]:
        """Return the public information about each cell."""
        if self.clustering is None:
            return ()
        rows = zip(self.places, sizes.tolist(), self.clustering.radius.tolist(), strict=True)
        return tuple(
            CellSummary(number, place, size, radius)
            for number, (place, size, radius) in enumerate(rows)
        )

    def place_of(self, slot: int) -> Place | None:
        """Return the place of a slot's cell, or None if it waits."""
        cell = self.cells[slot]
        return None if cell < 0 else self.places[cell]


@dataclass(eq=False, repr=False)
class Population:
    """All devices. Only one thread changes it; look-ups read ``index`` and ``served`` meanwhile."""

    index: dict[str, Entry] = field(default_factory=dict)
    served: ServedCells = field(
        default_factory=lambda: ServedCells.of(None, np.empty(0, dtype=np.int64), _all_waiting(16))
    )
    points: Floats = field(default_factory=lambda: np.zeros((16, 3)))
    rows: Integers = field(default_factory=lambda: np.zeros(16, dtype=np.int64))
    """Database id of each slot's device; 0 for free slots."""
    free: list[int] = field(default_factory=lambda: list(range(15, -1, -1)))
    touched: set[int] = field(default_factory=set)
    """Slots that were filled or moved since the current rebuild began."""

    def __len__(self) -> int:
        return len(self.index)

    def find(self, pseudonym: str, token: str) -> Entry:
        """Authenticate a device; an unknown pseudonym takes as long as a wrong token."""
        entry = self.index.get(pseudonym)
        expected = _NO_DIGEST if entry is None else entry.digest
        matches = hmac.compare_digest(expected, hash_token(token))
        if entry is None or not matches:
            raise unknown_device()
        return entry

    def occupied(self) -> Integers:
        """Return the slots of all devices in ascending order."""
        return np.flatnonzero(self.rows)

    def add(
        self,
        pseudonyms: list[str],
        digests: list[bytes],
        rows: Integers,
        points: Floats,
        cells: Integers,
    ) -> None:
        """Add devices. The index comes last, so that a look-up never sees a half-filled slot."""
        self._grow(len(pseudonyms))
        slots = np.array([self.free.pop() for _ in pseudonyms], dtype=np.int64)
        self.points[slots] = points
        self.rows[slots] = rows
        self.served.cells[slots] = cells
        self.touched.update(slots.tolist())
        for pseudonym, digest, slot in zip(pseudonyms, digests, slots.tolist(), strict=True):
            self.index[pseudonym] = Entry(digest, slot)

    def move(self, slot: int, point: Floats, cell: int, served: ServedCells | None) -> None:
        """Move a device; ``served`` replaces the served cells if more than its own cell changes."""
        self.points[slot] = point
        self.touched.add(slot)
        if served is None:
            self.served.cells[slot] = cell
        else:
            self.served = served

    def remove(self, pseudonym: str, served: ServedCells | None) -> None:
        """Remove a device. The index comes first, so that a look-up never meets a reused slot."""
        slot = self.index.pop(pseudonym).slot
        if served is None:
            self.served.cells[slot] = WAITING
        else:
            self.served = served
        self.points[slot] = 0.0
        self.rows[slot] = 0
        self.free.append(slot)

    def replace_cells(self, replacement: CellReplacement, state: State) -> None:
        """Serve new cells, in one assignment."""
        cells, slots = _all_waiting(len(self.rows)), self.occupied()
        order = np.argsort(replacement.devices)
        positions = np.searchsorted(replacement.devices[order], self.rows[slots])
        cells[slots] = replacement.cells[order[positions]]
        self.served = ServedCells.of(replacement.clustering, replacement.ids, cells, state)

    def _grow(self, count: int) -> None:
        lacking = count - len(self.free)
        if lacking <= 0:
            return
        old = len(self.rows)
        added = max(old, lacking)
        served = self.served
        self.points = np.concatenate([self.points, np.zeros((added, 3))])
        self.rows = np.concatenate([self.rows, np.zeros(added, dtype=np.int64)])
        self.served = replace(served, cells=np.concatenate([served.cells, _all_waiting(added)]))
        self.free[:0] = range(old + added - 1, old - 1, -1)


def unknown_device() -> UnknownDeviceError:
    """Return the error for a failed authentication, identical for every cause."""
    return UnknownDeviceError(
        "No device has this pseudonym and token.", code="service.unknown_device"
    )


def _all_waiting(count: int) -> Integers:
    return np.full(count, WAITING, dtype=np.int64)


# -------------------------------------------------------------------------------- transitions


@dataclass(frozen=True, eq=False)
class Transition:
    """Consequences of a change: the new state, and the cells to write and serve.

    ``served`` is None if the cells stay as they are.
    """

    state: State
    served: ServedCells | None = None
    merge: CellMerge | None = None
    replacement: CellReplacement | None = None


def count_changes(state: State, **counts: int) -> State:
    """Return the state with increased counters.

    Examples
    --------
    >>> state = count_changes(State(b"", 2, changes=1), moves=2)
    >>> state.moves, state.changes
    (2, 3)
    """
    counters = {name: getattr(state, name) + count for name, count in counts.items()}
    return replace(state, changes=state.changes + sum(counts.values()), **counters)


def needs_rebuild(population: Population, state: State, share: float) -> bool:
    """Return True if there are no cells, cells were merged, or too many devices changed."""
    clustering = population.served.clustering
    if clustering is None or len(clustering.sites) > len(clustering):
        return True
    return state.changes > share * len(population)


def after_rebuild(state: State, k: int, seconds: float, merges: int = 0, changes: int = 0) -> State:
    """Return the state after a rebuild that ends now, with the changes made while it ran."""
    return replace(
        state,
        k=k,
        generation=state.generation + 1,
        rebuilds=state.rebuilds + 1,
        merges=state.merges + merges,
        changes=changes,
        rebuilt_at=time.time(),
        rebuild_seconds=seconds,
    )


def leave_cell(
    population: Population, state: State, slot: int, new_cell: int, k: int, *, cancelled: bool
) -> Transition:
    """Return the transition when a device leaves its cell for another one, or is cancelled.

    A cell below k is merged with its nearest neighbour. If fewer than k devices are left in total,
    all of them wait.
    """
    served = population.served
    if served.clustering is None:
        return Transition(state)
    if len(population) - cancelled < k:
        return suspend(population, state)
    old_cell = int(served.cells[slot])
    if old_cell == new_cell:
        return Transition(state)
    sizes = served.sizes()
    sizes[old_cell] -= 1
    if not cancelled:
        sizes[new_cell] += 1
    if sizes[old_cell] >= k:
        return Transition(state)
    cells = served.cells.copy()
    cells[slot] = new_cell
    return merge_undersized(replace(served, cells=cells), sizes, state, k)


def merge_undersized(served: ServedCells, sizes: Integers, state: State, k: int) -> Transition:
    """Merge cells until all have at least k devices."""
    assert served.clustering is not None
    result = merge_small(served.clustering, sizes, k)
    if result.merges == 0:
        return Transition(state, served)
    # A merged cell keeps the id of the first of its parts.
    firsts = np.unique(result.renumbered, return_index=True)[1]
    gone = np.setdiff1d(np.arange(len(sizes)), firsts)
    kept = firsts[result.renumbered[gone]]
    cells = np.where(served.cells >= 0, result.renumbered[served.cells], WAITING)
    ids = served.ids[firsts]
    after = replace(state, generation=state.generation + 1, merges=state.merges + result.merges)
    return Transition(
        after,
        ServedCells.of(result.clustering, ids, cells, after),
        CellMerge(served.ids[gone].tolist(), served.ids[kept].tolist(), ids, result.clustering),
    )


def suspend(population: Population, state: State) -> Transition:
    """Return the transition to a service without cells, in which all devices wait."""
    none = np.empty(0, dtype=np.int64)
    after = replace(state, generation=state.generation + 1)
    return Transition(
        after,
        ServedCells.of(None, none, _all_waiting(len(population.served.cells)), after),
        replacement=CellReplacement(none, None, none, none),
    )


def make_replacement(
    clustering: Clustering, labels: Integers, rows: Integers, first_id: int, k: int
) -> tuple[CellReplacement, int]:
    """Return new cells of at least k for all devices, and the number of merges required.

    ``labels`` are the cells of the devices with the database ids ``rows``, at least k of them.
    """
    sizes = np.bincount(labels, minlength=len(clustering))
    result = merge_small(clustering, sizes, k)
    ids = first_id + np.arange(len(result.clustering))
    cells = result.renumbered[labels]
    return CellReplacement(ids, result.clustering, rows, cells), result.merges


# -------------------------------------------------------------------------------- loading


@dataclass(frozen=True, eq=False)
class Loaded:
    """Content of the database, the next free ids, and whether the cells must be rebuilt."""

    population: Population
    state: State
    next_row: int
    next_cell: int
    rebuild: bool


def load(store: Store, vault: Vault, k: int) -> Loaded:
    """Read the database and make it safe to serve with this k.

    A new database is bound to the key. Cells below k, for example after k was raised, are merged;
    with fewer than k devices in total, all wait. That is written before it is served.
    """
    snapshot = store.load()
    if snapshot.state is None:
        state = State(vault.check_value(), k)
        store.write(Change(state))
        return Loaded(Population(), state, 1, 1, rebuild=False)
    vault.verify_key(snapshot.state.check_value)
    population = _populate(snapshot, _decrypt_points(snapshot.devices, vault))
    state = _make_safe(store, population, snapshot.state, k)
    next_row = max((row.id for row in snapshot.devices), default=0) + 1
    next_cell = int(snapshot.ids.max(initial=0)) + 1
    return Loaded(population, state, next_row, next_cell, rebuild=snapshot.state.k != k)


def _decrypt_points(devices: Sequence[DeviceRow], vault: Vault) -> Floats:
    places = np.empty((2, len(devices)))
    for number, row in enumerate(devices):
        try:
            places[:, number] = vault.open(row.pseudonym, row.sealed)
        except DataError:
            raise DataError(
                f"The location of device {row.id} in the database cannot be decrypted: it was "
                "altered or belongs to another device. Restore the database from a backup.",
                code="data.invalid",
                row=row.id,
            ) from None
    return to_points(*places)


def _populate(snapshot: Snapshot, points: Floats) -> Population:
    population = Population()
    population.add(
        [row.pseudonym for row in snapshot.devices],
        [row.digest for row in snapshot.devices],
        np.array([row.id for row in snapshot.devices], dtype=np.int64),
        points,
        _cell_numbers(snapshot),
    )
    population.touched.clear()
    population.served = ServedCells.of(
        snapshot.clustering, snapshot.ids, population.served.cells, snapshot.state
    )
    return population


def _cell_numbers(snapshot: Snapshot) -> Integers:
    """Return the number of each device's cell, given the stored ids."""
    if snapshot.clustering is None:
        return _all_waiting(len(snapshot.devices))
    ids = np.array(
        [WAITING if row.cell is None else row.cell for row in snapshot.devices], dtype=np.int64
    )
    numbers = np.searchsorted(snapshot.ids, ids)
    return np.where(ids == WAITING, WAITING, numbers).astype(np.int64)


def _make_safe(store: Store, population: Population, state: State, k: int) -> State:
    """Merge cells below k, or suspend service, before anything is served; return the state."""
    served = population.served
    current = replace(state, k=k)
    if served.clustering is None:
        transition = Transition(current)
    elif len(population) < k or int(served.sizes().sum()) < k:
        transition = suspend(population, current)
    else:
        transition = merge_undersized(served, served.sizes(), current, k)
    if transition.state != state:
        store.write(
            Change(
                transition.state,
                merge=transition.merge,
                replacement=transition.replacement,
            )
        )
    if transition.served is not None:
        population.served = transition.served
    return transition.state


# -------------------------------------------------------------------------------- summaries


def overview_of(population: Population, served: ServedCells, k: int) -> Overview:
    """Return the public information about the service."""
    sizes, devices = served.sizes(), len(population)
    return Overview(
        k=k,
        cells=served.summaries(sizes),
        devices=devices,
        waiting=max(0, devices - int(sizes.sum())),
        smallest_cell=int(sizes.min()) if len(sizes) else None,
        rebuilt_at=served.rebuilt_at,
        generation=served.generation,
    )


def status_of(
    overview: Overview, state: State, share: float, rebuilding: bool, failure: str | None
) -> Status:
    """Return the operator's view of the service."""
    return Status(
        k=overview.k,
        devices=overview.devices,
        waiting=overview.waiting,
        cells=len(overview.cells),
        smallest_cell=overview.smallest_cell,
        generation=overview.generation,
        rebuilt_at=overview.rebuilt_at,
        rebuild_seconds=state.rebuild_seconds,
        rebuilding=rebuilding,
        rebuilds=state.rebuilds,
        merges=state.merges,
        sign_ups=state.sign_ups,
        moves=state.moves,
        cancellations=state.cancellations,
        changes=state.changes,
        changes_until_rebuild=max(0, math.floor(share * overview.devices) + 1 - state.changes),
        last_failure=failure,
    )
