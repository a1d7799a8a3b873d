"""Public records of the location anonymizer."""

import hashlib
from dataclasses import dataclass, field

from microcell._display import record_html, record_repr

__all__ = [
    "Account",
    "Alarm",
    "Answer",
    "CellSummary",
    "Overview",
    "Place",
    "Publication",
    "Status",
    "WhatIf",
]


@dataclass(frozen=True)
class Place:
    """A point on the Earth: latitude from -90 to 90 and longitude from -180 to 180 degrees."""

    latitude: float
    longitude: float

    _repr_html_ = record_html


@dataclass(frozen=True)
class Account:
    """Credentials of a device, returned at sign-up.

    ``pseudonym`` and ``token`` are for the service alone; providers see an alias (:class:`Answer`).
    ``location`` is the location the device should use, or None while the device has to wait for
    others to sign up.
    """

    pseudonym: str
    token: str = field(repr=False)
    location: Place | None

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True)
class Answer:
    """The location and alias that a device should show to providers, and until when.

    ``location`` is None while the device has to wait. ``accuracy`` is in kilometres: at least three
    of four devices were this close to the location when its cell was built. ``alias`` is the name
    to use with the location; it is replaced when too few devices share its history. ``valid_until``
    is the Unix time of the next publication, or None without a clock. ``pending`` is True if a move
    takes effect with the next publication.
    """

    location: Place | None
    accuracy: float | None
    alias: str | None
    generation: int
    valid_until: float | None
    pending: bool

    __repr__ = record_repr
    _repr_html_ = record_html

    @property
    def tag(self) -> str:
        """Entity tag: changes whenever the device should act differently, but not with time."""
        content = (self.location, self.accuracy, self.alias, self.pending)
        return hashlib.blake2b(repr(content).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True)
class CellSummary:
    """Public information about a cell. It never includes the members.

    ``place`` lies on a grid of about a tenth of the radius and does not move while the cell stands.
    ``at_least`` and ``below`` are the band of its size, as of a publication. ``radius`` is the root
    mean square distance of the members when the cell was built, in kilometres, rounded up.
    """

    number: int
    place: Place
    at_least: int
    below: int
    radius: float

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True)
class Overview:
    """One publication: the cells and the state of the guarantee.

    ``generation`` counts publications, merges and suspensions; an equal number means an equal
    overview. ``devices`` and ``waiting`` are rounded down to multiples of k. ``smallest_cell`` is
    the lower end of the smallest size band, or None while there are no cells. ``rebuilt_at`` and
    ``published_at`` are Unix times, or None before the first ones.
    """

    k: int
    cells: tuple[CellSummary, ...]
    devices: int
    waiting: int
    smallest_cell: int | None
    rebuilt_at: float | None
    published_at: float | None
    generation: int

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True)
class Publication:
    """Figures of a publication, for the operator.

    ``k_over_history`` is the smallest number of devices that share a location over the whole life
    of an alias. ``changed`` devices signed up, moved or cancelled since the publication before,
    ``renewed`` devices got another alias. ``distance`` is the mean distance in kilometres between a
    device and the location it uses.
    """

    generation: int
    at: float
    devices: int
    waiting: int
    cells: int
    smallest_cell: int | None
    k_over_history: int | None
    changed: int
    renewed: int
    distance: float | None
    rebuilt: bool
    seconds: float

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True)
class Alarm:
    """A condition that needs the operator's attention: a stable code and a readable message."""

    code: str
    message: str

    _repr_html_ = record_html

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True)
class Status:
    """Operator's view of the service: sizes, counters, publications and alarms."""

    k: int
    colluders: int
    devices: int
    waiting: int
    pending: int
    cells: int
    smallest_cell: int | None
    k_over_history: int | None
    generation: int
    publications: int
    published_at: float | None
    next_publication_at: float | None
    rebuilt_at: float | None
    rebuild_seconds: float | None
    rebuilding: bool
    rebuild_requested: bool
    rebuilds: int
    merges: int
    sign_ups: int
    moves: int
    cancellations: int
    changes: int
    changes_until_rebuild: int
    renewed: int
    distance: float | None
    alarms: tuple[Alarm, ...]
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
