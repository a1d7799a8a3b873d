"""What goes into the service's database and comes out of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from microcell.errors import ServiceError
from microcell.locations._clustering import Clustering
from microcell.model import Integers

__all__ = ["BrokenStoreError", "Change", "DeviceRow", "Merged", "State", "Stored", "Switched"]


class BrokenStoreError(ServiceError):
    """The database failed; whether a change was written is not known."""


@dataclass(frozen=True)
class State:
    """Counts and times, as they stand after a change; ``k`` is what the cells that are served hold to."""

    check_value: bytes = field(repr=False)
    k: int
    generation: int = 0
    rebuilds: int = 0
    merges: int = 0
    sign_ups: int = 0
    moves: int = 0
    cancellations: int = 0
    changes: int = 0
    rebuilt: float | None = None
    rebuild_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device as it is kept: a digest in place of the token, sealed coordinates, and the cell's id."""

    id: int
    pseudonym: str
    digest: bytes = field(repr=False)
    sealed: bytes = field(repr=False)
    cell: int | None


@dataclass(frozen=True, eq=False)
class Merged:
    """Cells that became one with another: their ids, the ids of the others, and the clustering thereafter."""

    gone: Sequence[int]
    kept: Sequence[int]
    ids: Integers
    clustering: Clustering


@dataclass(frozen=True, eq=False)
class Switched:
    """New cells for all: the ids of the cells, the clustering, and each device's cell; no clustering: all wait."""

    ids: Integers
    clustering: Clustering | None
    devices: Integers
    cells: Integers
    """The number, not the id, of the cell of each of the devices."""


@dataclass(frozen=True, eq=False)
class Change:
    """What one transaction writes: devices that come, move and go; then cells merged, or switched; then the state."""

    state: State
    added: Sequence[DeviceRow] = ()
    moved: Sequence[DeviceRow] = ()
    removed: Sequence[int] = ()
    merged: Merged | None = None
    switched: Switched | None = None


@dataclass(frozen=True, eq=False)
class Stored:
    """All that a database holds; ``ids`` are those of the clustering's cells in their order."""

    state: State | None
    devices: Sequence[DeviceRow]
    clustering: Clustering | None
    ids: Integers
