"""The nouns of the location anonymizer: places, accounts, and what may be said of cells and of the service."""

from dataclasses import dataclass, field

__all__ = ["Account", "CellSummary", "Overview", "Place", "Status", "WhatIf"]


@dataclass(frozen=True)
class Place:
    """A place on the Earth, in degrees: latitude from -90 to 90, longitude from -180 to 180."""

    latitude: float
    longitude: float


@dataclass(frozen=True)
class Account:
    """What a device gets when it signs up. The ``location`` to use is None while it has to wait."""

    pseudonym: str
    token: str = field(repr=False)
    location: Place | None


@dataclass(frozen=True)
class CellSummary:
    """What anyone may know of a cell; never its members.

    The place is that of the last rebuild, or of a merge since: a mean that moved with each sign-up would give the
    newcomer away. The radius is the root mean squared distance of the members at the rebuild, in kilometres, so that it
    tells of no single one.
    """

    number: int
    place: Place
    size: int
    radius: float


@dataclass(frozen=True)
class Overview:
    """What anyone may know of the service: its cells, and what its guarantee is worth now.

    ``generation`` counts rebuilds and merges: the same number means the same cells. ``rebuilt`` is the time of the last
    rebuild in seconds since 1970, or None before the first.
    """

    k: int
    cells: tuple[CellSummary, ...]
    devices: int
    waiting: int
    least_size: int | None
    rebuilt: float | None
    generation: int


@dataclass(frozen=True)
class Status:
    """What the operator may know besides: changes since the last rebuild, and how rebuilding goes."""

    k: int
    devices: int
    waiting: int
    cells: int
    least_size: int | None
    generation: int
    rebuilt: float | None
    rebuild_seconds: float | None
    rebuilding: bool
    rebuilds: int
    merges: int
    sign_ups: int
    moves: int
    cancellations: int
    changes: int
    changes_until_rebuild: int
    last_failure: str | None


@dataclass(frozen=True)
class WhatIf:
    """How far devices would be from the locations they use, in kilometres, with another k.

    ``edges`` and ``counts`` are a histogram; bars of few devices are put together, so that none tells of a single one.
    """

    k: int
    cells: int
    mean: float
    root_mean_square: float
    quantiles: tuple[tuple[float, float], ...]
    edges: tuple[float, ...]
    counts: tuple[int, ...]
