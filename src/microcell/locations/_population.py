"""The devices in memory: who is there, where they are, and which cell each is served from."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from microcell.errors import UnknownDeviceError
from microcell.locations._clustering import Clustering
from microcell.locations._nouns import CellSummary, Place
from microcell.locations._records import State, Switched
from microcell.locations._vault import digest_of, same_digest
from microcell.model import Floats, Integers

__all__ = ["WAITS", "Entry", "Population", "Served", "unknown_device"]

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
    def of(cls, clustering: Clustering | None, ids: Integers, cells: Integers, state: State | None = None) -> "Served":
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
        return tuple(CellSummary(number, place, size, radius) for number, (place, size, radius) in enumerate(rows))

    def place_of(self, slot: int) -> Place | None:
        """The place that a slot is served; None if it waits."""
        cell = self.cells[slot]
        return None if cell < 0 else self.places[cell]


@dataclass(eq=False, repr=False)
class Population:
    """All devices. One thread at a time changes it; look-ups read ``index`` and ``served`` meanwhile."""

    index: dict[str, Entry] = field(default_factory=dict)
    served: Served = field(default_factory=lambda: Served.of(None, np.empty(0, dtype=np.int64), _waiting(16)))
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

    def add(self, names: list[str], digests: list[bytes], rows: Integers, points: Floats, cells: Integers) -> None:
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
        cells[slots] = switched.cells[order[np.searchsorted(switched.devices[order], self.rows[slots])]]
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
