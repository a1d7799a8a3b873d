"""Public records of the location anonymizer."""

from dataclasses import dataclass, field

from microcell._display import record_html, record_repr

__all__ = ["Account", "CellSummary", "Overview", "Place", "Status", "WhatIf"]


@dataclass(frozen=True)
class Place:
    """A point on the Earth: latitude from -90 to 90 and longitude from -180 to 180 degrees."""

    latitude: float
    longitude: float

    _repr_html_ = record_html


@dataclass(frozen=True)
class Account:
    """Credentials of a device, returned at sign-up.

    ``location`` is the location the device should use, or None while the device has to wait for
    others to sign up.
    """

    pseudonym: str
    token: str = field(repr=False)
    location: Place | None

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True)
class CellSummary:
    """Public information about a cell. It never includes the members.

    ``place`` is fixed at the last rebuild or merge: a mean that moved with every sign-up would
    reveal the newcomer. ``radius`` is the root mean square distance of the members from the place
    at the last rebuild, in kilometres.
    """

    number: int
    place: Place
    size: int
    radius: float

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True)
class Overview:
    """Public information about the service: its cells and the current state of the guarantee.

    ``generation`` counts rebuilds and merges; an equal number means equal cells. ``rebuilt_at`` is
    the Unix time of the last rebuild, or None before the first one. ``smallest_cell`` is the number
    of devices in the smallest cell, or None while there are no cells.
    """

    k: int
    cells: tuple[CellSummary, ...]
    devices: int
    waiting: int
    smallest_cell: int | None
    rebuilt_at: float | None
    generation: int

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True)
class Status:
    """Operator's view of the service: sizes, counters and the progress of rebuilds."""

    k: int
    devices: int
    waiting: int
    cells: int
    smallest_cell: int | None
    generation: int
    rebuilt_at: float | None
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

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True)
class WhatIf:
    """Distances between devices and the locations they would use under another k, in kilometres.

    ``quantiles`` are pairs of a share of the devices and the distance they are within. ``edges``
    and ``counts`` form a histogram whose sparse bars are merged, so that none describes a single
    device.
    """

    k: int
    cells: int
    mean: float
    root_mean_square: float
    quantiles: tuple[tuple[float, ...], ...]
    edges: tuple[float, ...]
    counts: tuple[int, ...]

    __repr__ = record_repr
    _repr_html_ = record_html
