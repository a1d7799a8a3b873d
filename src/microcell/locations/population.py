"""In-memory state of the service: the devices, the cells being served, and their transitions."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from microcell._display import record_html, record_repr
from microcell.errors import DataError, UnknownDeviceError
from microcell.locations.clustering import Clustering, merge_small, to_points
from microcell.locations.differences import Ledger
from microcell.locations.publication import (
    SETTLED,
    SIGNED_UP,
    UNPLACED,
    Situation,
    Standing,
    count_cohorts,
    lower_band,
    next_band,
    widen,
)
from microcell.locations.records import CellSummary, Overview, Place, Publication
from microcell.locations.store import (
    CellMerge,
    Change,
    DeviceRow,
    Snapshot,
    State,
    Store,
    numbers_of,
    unpack_builds,
)
from microcell.locations.vault import Vault, hash_token
from microcell.model import Floats, Integers, Mask

__all__ = [
    "WAITING",
    "Entry",
    "Loaded",
    "Population",
    "ServedCells",
    "Transition",
    "count_changes",
    "leave_cell",
    "load",
    "make_overview",
    "merge_undersized",
    "provisional_epoch",
    "renew_aliases",
    "short_cells",
    "unknown_device",
    "with_history",
]

WAITING = UNPLACED
"""Cell number of a device that has to wait, and of a free slot."""

_NO_DIGEST = bytes(32)
"""Digest to compare with if the pseudonym is unknown, so that checking takes the same time."""


class Entry(NamedTuple):
    """A device: the digest of its token, and its slot in the arrays."""

    digest: bytes
    slot: int

    def __repr__(self) -> str:
        return f"Entry(slot={self.slot})"


@dataclass(frozen=True, eq=False, repr=False)
class ServedCells:
    """The cells being served, their published overview, and the cell of each slot.

    Replaced as a whole when cells change, so that a look-up sees either all old or all new cells.
    Single entries of ``cells`` and ``epochs`` change in place for devices that join or leave, but
    only if no cell falls below k. ``standing`` are the cells of the last publication, and
    ``cell_of`` says which cell of ``clustering`` serves each: several share one after a merge, and
    the devices of a cell without one (WAITING) wait. ``ids`` are the database ids of its cells.
    """

    clustering: Clustering | None
    standing: Standing
    cell_of: Integers
    ids: Integers
    places: tuple[Place, ...]
    cells: Integers
    epochs: Integers
    overview: Overview

    @classmethod
    def of(
        cls,
        clustering: Clustering | None,
        standing: Standing,
        cell_of: Integers,
        ids: Integers,
        cells: Integers,
        epochs: Integers,
        overview: Overview,
    ) -> "ServedCells":
        """Create the served cells of a clustering."""
        rows = [] if clustering is None else clustering.places.tolist()
        places = tuple(Place(*row) for row in rows)
        return cls(clustering, standing, cell_of, ids, places, cells, epochs, overview)

    @property
    def generation(self) -> int:
        """Number of publications, merges and suspensions so far."""
        return self.overview.generation

    def count(self) -> Integers:
        """Return the number of devices per cell, counted over all slots."""
        return np.bincount(self.cells + 1, minlength=len(self.places) + 1)[1:]

    def place_of(self, slot: int) -> Place | None:
        """Return the place of a slot's cell, or None if it waits."""
        cell = self.cells[slot]
        return None if cell < 0 else self.places[cell]

    def labels(self) -> Integers:
        """Return the standing cell of each slot, or UNPLACED if it waits or was merged."""
        served = self.is_served()
        cell_of = self.cell_of[served]
        only = np.full(len(self.places) + 1, UNPLACED, dtype=np.int64)
        only[cell_of] = np.flatnonzero(served)
        only[:-1][np.bincount(cell_of, minlength=len(self.places)) > 1] = UNPLACED
        return only[self.cells]

    def is_served(self) -> Mask:
        """Return a mask of the standing cells whose devices do not have to wait."""
        out: Mask = self.cell_of >= 0
        return out

    def assign(self, points: Floats, reach: float) -> Integers:
        """Return the cell of each newcomer: the nearest published place within reach."""
        served = self.is_served()
        labels = self.standing.take(served).nearest(points, reach)
        return np.append(self.cell_of[served], WAITING)[labels]


def provisional_epoch(generation: int) -> int:
    """Return the epoch of aliases that last only until the next publication."""
    return 2 * generation + 1


def make_overview(
    clustering: Clustering | None, bands: Integers, state: State, devices: int, waiting: int
) -> Overview:
    """Return the public overview: places, bands, and totals rounded down to multiples of k."""
    k = state.k
    cells: list[CellSummary] = []
    if clustering is not None:
        rows = zip(
            clustering.places.tolist(), bands.tolist(), clustering.radius.tolist(), strict=True
        )
        for number, (place, band, radius) in enumerate(rows):
            cells.append(CellSummary(number, Place(*place), band, next_band(band, k), radius))
    return Overview(
        k=k,
        cells=tuple(cells),
        devices=devices // k * k,
        waiting=waiting // k * k,
        smallest_cell=int(bands.min()) if len(bands) else None,
        rebuilt_at=state.rebuilt_at,
        published_at=state.published_at,
        generation=state.generation,
    )


def _no_cells(count: int, state: State) -> ServedCells:
    none = np.empty(0, dtype=np.int64)
    overview = make_overview(None, none, state, 0, 0)
    epochs = np.full(count, provisional_epoch(state.generation), dtype=np.int64)
    return ServedCells.of(None, Standing.empty(), none, none, _all_waiting(count), epochs, overview)


@dataclass(eq=False, repr=False)
class Population:
    """All devices. Only one thread changes it; look-ups read ``index`` and ``served`` meanwhile."""

    served: ServedCells
    index: dict[str, Entry] = field(default_factory=dict)
    counts: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Devices per served cell."""
    cohorts: dict[tuple[int, int], int] = field(default_factory=dict)
    """Devices by cell and epoch, without provisional aliases."""
    points: Floats = field(default_factory=lambda: np.zeros((16, 3)))
    rows: Integers = field(default_factory=lambda: np.zeros(16, dtype=np.int64))
    """Database id of each slot's device; 0 for free slots."""
    status: Integers = field(default_factory=lambda: np.zeros(16, dtype=np.int64))
    history: Integers = field(default_factory=lambda: np.zeros((16, 1), dtype=np.int64))
    free: list[int] = field(default_factory=lambda: list(range(15, -1, -1)))
    pending: int = 0
    """Devices that signed up or moved since the last publication."""
    ledger: Ledger = field(default_factory=Ledger)
    filled: set[int] = field(default_factory=set)
    """Slots filled since the publication in progress was planned."""
    shifted: set[int] = field(default_factory=set)
    """Slots whose device moved since the publication in progress was planned."""

    @classmethod
    def empty(cls, state: State) -> "Population":
        """Return a service without devices."""
        return cls(_no_cells(16, state))

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
        self, added: Sequence[DeviceRow], points: Floats, cells: Integers, history: Integers
    ) -> None:
        """Add devices, updating the index last so that a look-up never sees a half-filled slot."""
        self._grow(len(added))
        slots = np.array([self.free.pop() for _ in added], dtype=np.int64)
        self.points[slots] = points
        self.rows[slots] = [row.id for row in added]
        self.status[slots] = [row.status for row in added]
        self.remember(slots, history)
        self.served.epochs[slots] = [row.epoch for row in added]
        self.served.cells[slots] = cells
        self.counts += np.bincount(cells[cells >= 0], minlength=len(self.counts))
        self.pending += sum(row.status != SETTLED for row in added)
        self.filled.update(slots.tolist())
        for row, slot in zip(added, slots.tolist(), strict=True):
            self.index[row.pseudonym] = Entry(row.digest, slot)

    def remember(self, slots: Integers, history: Integers) -> None:
        """Record the builds that some devices were part of."""
        self.history = with_history(self.history, slots, history)

    def move(self, slot: int, point: Floats, row: DeviceRow) -> None:
        """Record a device's new location, which takes effect with the next publication."""
        self.pending += int(self.status[slot] == SETTLED)
        self.points[slot] = point
        self.status[slot] = row.status
        self.history[slot] = -np.abs(self.history[slot])
        self.shifted.add(slot)

    def remove(self, pseudonym: str, served: ServedCells | None) -> None:
        """Remove a device, updating the index first so that a look-up never meets a reused slot."""
        slot = self.index.pop(pseudonym).slot
        self.pending -= int(self.status[slot] != SETTLED)
        if served is None:
            cell = self.served.cells[slot]
            if cell >= 0:
                self.counts[cell] -= 1
                self._leave_cohort(int(cell), int(self.served.epochs[slot]))
            self.served.cells[slot] = WAITING
        else:
            self.serve(served)
        self.points[slot] = 0.0
        self.rows[slot] = 0
        self.status[slot] = SETTLED
        self.history[slot] = 0
        self.filled.discard(slot)
        self.shifted.discard(slot)
        self.free.append(slot)

    def _leave_cohort(self, cell: int, epoch: int) -> None:
        if epoch % 2 == 0:
            self.cohorts[cell, epoch] -= 1
            if not self.cohorts[cell, epoch]:
                del self.cohorts[cell, epoch]

    def serve(self, served: ServedCells) -> None:
        """Replace the served cells atomically."""
        self.counts = served.count()
        self.cohorts = count_cohorts(served.cells, served.epochs)
        self.served = served

    def situation(
        self, slots: Integers, generation: int, next_build: int, rebuild: bool
    ) -> Situation:
        """Return a copy of everything that the next publication depends on."""
        self.filled.clear()
        self.shifted.clear()
        return Situation(
            points=self.points[slots],
            labels=self.served.labels()[slots],
            status=self.status[slots],
            epochs=self.served.epochs[slots],
            history=self.history[slots],
            standing=self.served.standing,
            ledger=self.ledger,
            generation=generation,
            next_build=next_build,
            rebuild=rebuild,
        )

    def _grow(self, count: int) -> None:
        lacking = count - len(self.free)
        if lacking <= 0:
            return
        old = len(self.rows)
        added = max(old, lacking)
        served = self.served
        self.points = _pad(self.points, added)
        self.rows = _pad(self.rows, added)
        self.status = _pad(self.status, added)
        self.history = _pad(self.history, added)
        self.served = replace(
            served,
            cells=np.concatenate([served.cells, _all_waiting(added)]),
            epochs=_pad(served.epochs, added),
        )
        self.free[:0] = range(old + added - 1, old - 1, -1)


def _pad(values: Any, count: int) -> Any:
    return np.concatenate([values, np.zeros((count, *values.shape[1:]), dtype=values.dtype)])


def with_history(history: Integers, slots: Integers, new: Integers) -> Integers:
    """Return a copy of the histories with those of some slots replaced."""
    width = max(history.shape[1], new.shape[1])
    result = widen(history, width)
    result[slots] = widen(new, width)
    return result


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

    __repr__ = record_repr
    _repr_html_ = record_html


def count_changes(state: State, **counts: int) -> State:
    """Return the state with increased counters.

    Examples
    --------
    >>> count_changes(State(b"", 2, moves=1), moves=2).moves
    3
    """
    return replace(state, **{name: getattr(state, name) + count for name, count in counts.items()})


def leave_cell(population: Population, state: State, slot: int, reach: float) -> Transition:
    """Return the transition when a device cancels.

    Published cells stay unchanged until the next publication, unless more devices left than the
    cell could spare: a cell below k is merged with its nearest neighbour within reach immediately,
    or its devices wait. If a history is left to fewer than k devices, all devices of the cell get
    other aliases.
    """
    served, k = population.served, state.k
    cell = int(served.cells[slot])
    if population.status[slot] != SIGNED_UP and cell >= 0:
        state = replace(state, departures=state.departures + 1)
    if served.clustering is None or cell < 0:
        return Transition(state)
    short = population.cohorts.get((cell, int(served.epochs[slot])), k + 1) <= k
    if population.counts[cell] > k and not short:
        return Transition(state)
    cells, sizes = served.cells.copy(), population.counts.copy()
    cells[slot] = WAITING
    sizes[cell] -= 1
    served = replace(served, cells=cells)
    if sizes[cell] >= k:
        return renew_aliases(served, [cell], state)
    return merge_undersized(served, sizes, state, reach)


def renew_aliases(served: ServedCells, cells: list[int], state: State) -> Transition:
    """Give all devices of some cells aliases that last until the next publication."""
    assert served.clustering is not None
    after = replace(state, generation=state.generation + 1)
    epoch = provisional_epoch(after.generation)
    renewed = replace(
        served,
        epochs=np.where(np.isin(served.cells, cells), epoch, served.epochs),
        overview=replace(served.overview, generation=after.generation),
    )
    merge = CellMerge([], served.ids[cells].tolist(), served.ids, served.clustering, epoch)
    return Transition(after, renewed, merge)


def short_cells(served: ServedCells, k: int) -> list[int]:
    """Return the cells in which fewer than k devices share a history."""
    cohorts = count_cohorts(served.cells, served.epochs)
    return sorted({cell for (cell, _), size in cohorts.items() if size < k})


def merge_undersized(
    served: ServedCells, sizes: Integers, state: State, reach: float
) -> Transition:
    """Merge cells below k with neighbours within reach; where there is none, the devices wait.

    The new places and bands are derived from published ones. All devices in merged cells get
    aliases that last until the next publication.
    """
    assert served.clustering is not None
    bands = np.array([cell.at_least for cell in served.overview.cells], dtype=np.int64)
    result = merge_small(served.clustering, sizes, state.k, weights=bands, reach=reach)
    enough = result.sizes >= state.k
    if result.merges == 0 and enough.all():
        return Transition(state, served)
    clustering, cells_kept = _take_cells(result.clustering, enough)
    renumbered = np.where(enough, np.cumsum(enough) - 1, WAITING)[result.renumbered]
    cells = np.append(renumbered, WAITING)[served.cells]
    # A merged cell keeps the id of the first of its parts.
    firsts = np.unique(result.renumbered, return_index=True)[1]
    ids = served.ids[firsts][cells_kept]
    gone = np.setdiff1d(np.arange(len(sizes)), firsts[cells_kept])
    kept = [int(ids[cell]) if cell >= 0 else None for cell in renumbered[gone].tolist()]
    after = replace(state, generation=state.generation + 1, merges=state.merges + result.merges)
    epoch = provisional_epoch(after.generation)
    merged = np.append((np.bincount(result.renumbered) > 1)[cells_kept], False)[cells]
    sums = np.bincount(result.renumbered, weights=bands).astype(np.int64)[cells_kept]
    overview = make_overview(
        clustering,
        np.array([lower_band(int(total), state.k) for total in sums], dtype=np.int64),
        after,
        served.overview.devices,
        served.overview.waiting,
    )
    return Transition(
        after,
        ServedCells.of(
            clustering,
            served.standing,
            np.append(renumbered, WAITING)[served.cell_of],
            ids,
            cells,
            np.where(merged, epoch, served.epochs),
            overview,
        ),
        CellMerge(served.ids[gone].tolist(), kept, ids, clustering, epoch),
    )


def _take_cells(clustering: Clustering, chosen: Mask) -> tuple[Clustering | None, Integers]:
    """Return the clustering of the chosen cells, or None without any, and their old numbers."""
    if not chosen.any():
        return None, np.empty(0, dtype=np.int64)
    return clustering.part(np.flatnonzero(chosen[clustering.cell_of]))


# -------------------------------------------------------------------------------- loading


@dataclass(frozen=True, eq=False)
class Loaded:
    """Content of the database, the next free ids, and whether the cells must be rebuilt."""

    population: Population
    state: State
    next_row: int
    next_build: int
    rebuild: bool
    publications: list[Publication]


def load(store: Store, vault: Vault, k: int, reach: float) -> Loaded:
    """Read the database, and make it safe to serve with this k.

    A new database is bound to the key. Cells below k, for example after k was raised, are merged
    with neighbours within reach, or their devices wait. These changes are written before they are
    served.
    """
    snapshot = store.load()
    if snapshot.state is None:
        state = State(vault.check_value(), k)
        store.write(Change(state))
        return Loaded(Population.empty(state), state, 1, 1, rebuild=False, publications=[])
    vault.verify_key(snapshot.state.check_value)
    population = _populate(
        snapshot, replace(snapshot.state, k=k), _decrypt_points(snapshot.devices, vault)
    )
    state = _make_safe(store, population, snapshot.state, k, reach)
    next_row = max((row.id for row in snapshot.devices), default=0) + 1
    next_build = max(snapshot.ledger.builds, default=0) + 1
    return Loaded(
        population,
        state,
        next_row,
        next_build,
        rebuild=snapshot.state.k != k,
        publications=list(snapshot.publications),
    )


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


def _populate(snapshot: Snapshot, state: State, points: Floats) -> Population:
    population = Population.empty(state)
    population.add(
        snapshot.devices,
        points,
        _all_waiting(len(snapshot.devices)),
        unpack_builds([row.builds for row in snapshot.devices]),
    )
    population.filled.clear()
    population.ledger = snapshot.ledger
    served = population.served
    slots = [entry.slot for entry in population.index.values()]
    served.cells[slots] = numbers_of([row.cell for row in snapshot.devices], snapshot.ids)
    # The last sum is that of the standing cells that are not served.
    sums = np.bincount(
        np.where(snapshot.cell_of < 0, len(snapshot.ids), snapshot.cell_of),
        weights=snapshot.standing.bands,
        minlength=len(snapshot.ids) + 1,
    )[:-1]
    overview = make_overview(
        snapshot.clustering,
        np.array([lower_band(int(total), state.k) for total in sums], dtype=np.int64),
        state,
        *_last_totals(snapshot),
    )
    population.serve(
        ServedCells.of(
            snapshot.clustering,
            snapshot.standing,
            snapshot.cell_of,
            snapshot.ids,
            served.cells,
            served.epochs,
            overview,
        )
    )
    return population


def _last_totals(snapshot: Snapshot) -> tuple[int, int]:
    """Return the devices and the waiting devices of the last publication."""
    if not snapshot.publications:
        return 0, 0
    return snapshot.publications[-1].devices, snapshot.publications[-1].waiting


def _make_safe(store: Store, population: Population, state: State, k: int, reach: float) -> State:
    """Merge cells below k, or let their devices wait, before anything is served."""
    served = population.served
    current = replace(state, k=k)
    if served.clustering is None:
        transition = Transition(current)
    else:
        transition = merge_undersized(served, population.counts, current, reach)
    if transition.state != state:
        store.write(Change(transition.state, merge=transition.merge))
    if transition.served is not None:
        population.serve(transition.served)
    short = short_cells(population.served, k)
    if not short:
        return transition.state
    renewal = renew_aliases(population.served, short, transition.state)
    store.write(Change(renewal.state, merge=renewal.merge))
    assert renewal.served is not None
    population.serve(renewal.served)
    return renewal.state
