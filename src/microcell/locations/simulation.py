"""A city that uses the service: people sign up, move and cancel, and what they get is looked at from outside."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

import numpy as np

from microcell import progress
from microcell.errors import GuaranteeError, OptionError, ServiceError
from microcell.locations.anonymizer import Anonymizer
from microcell.locations.clustering import EARTH_RADIUS, great_circle, to_degrees, to_points
from microcell.locations.records import Account, Place, Status
from microcell.methods import partition
from microcell.model import Floats

if TYPE_CHECKING:
    from microcell.locations.client import Client

__all__ = ["Simulated", "make_city", "mdav_distances", "simulate"]

CENTRE = (41.39, 2.17)
"""Where the city lies, in degrees."""

_AT_ONCE = 10_000
"""Devices that sign up in one transaction at the beginning."""

_THREADS = 8
"""Requests under way at once, when a service is simulated from outside."""

_LOOKS = 5
"""How often all devices are looked up again because cells changed meanwhile."""


@dataclass(frozen=True)
class Simulated:
    """What happened. Distances are in kilometres, from where devices are to the locations they use.

    ``least_shared`` is the least number of devices that were given the same location, counted by looking all of them
    up; ``mdav`` is what cells by MDAV would give the same devices. None stands for what cannot be known from outside.
    """

    k: int
    days: int
    devices: int
    sign_ups: int
    moves: int
    cancellations: int
    cells: int
    least_size: int | None
    least_shared: int | None
    rebuilds: int | None
    merges: int | None
    mean: float | None
    root_mean_square: float | None
    mdav_mean: float | None
    mdav_root_mean_square: float | None
    seconds: float

    @property
    def distortion_ratio(self) -> float | None:
        """Squared distances over those of MDAV: below 1 is better than MDAV."""
        if self.root_mean_square is None or not self.mdav_root_mean_square:
            return None
        return (self.root_mean_square / self.mdav_root_mean_square) ** 2


def make_city(n: int, *, seed: int = 0) -> tuple[Floats, Floats]:
    """Latitudes and longitudes of n homes: a dense centre, twelve suburbs around it, and houses between them.

    Four in ten live in the centre, within some two kilometres; five in suburbs 5 to 25 km away; one anywhere within
    35 km.

    Examples
    --------
    >>> latitude, longitude = make_city(1000)
    >>> bool(np.median(np.abs(latitude - CENTRE[0])) < 0.2)
    True
    """
    rng, layout = np.random.default_rng(seed), np.random.default_rng(1)
    angle, away = layout.uniform(0, 2 * np.pi, 12), layout.uniform(5, 25, 12)
    suburbs = np.stack([away * np.cos(angle), away * np.sin(angle)], axis=1)
    spread = layout.uniform(0.6, 1.8, 12)
    kind = rng.choice(3, size=n, p=[0.4, 0.5, 0.1])
    suburb = rng.integers(0, 12, size=n)
    near = rng.normal(size=(n, 2))
    turn, far = rng.uniform(0, 2 * np.pi, n), 35 * np.sqrt(rng.uniform(size=n))
    kilometres = np.select(
        [kind[:, None] == 0, kind[:, None] == 1],
        [1.8 * near, suburbs[suburb] + spread[suburb, None] * near],
        np.stack([far * np.cos(turn), far * np.sin(turn)], axis=1),
    )
    return _on_the_sphere(kilometres)


def simulate(
    service: "Anonymizer | Client",
    devices: int,
    *,
    days: int = 3,
    changes: float = 0.06,
    seed: int = 0,
    compare: bool = True,
) -> Simulated:
    """What happened when a city used the service for some days.

    All devices sign up at first. Then, each day, a share of them changes: as many sign up as move as cancel, in a
    random order, one at a time. At the end cells are rebuilt, if this is allowed, and all devices looked up.

    Parameters
    ----------
    service
        An anonymizer in this process, or the client of one that runs elsewhere.
    devices, days, changes
        How many sign up at first, how many days, and the share of devices that change each day.
    seed
        Of the city and of what happens in it.
    compare
        False to leave out the cells by MDAV.

    Raises
    ------
    GuaranteeError
        Fewer than k devices were given the same location. This would be a defect.
    """
    if devices < 1 or days < 0 or not 0 <= changes <= 1:
        raise OptionError(
            "A simulation needs 1 device or more, 0 days or more, and a share of changes from 0 to 1."
        )
    began = perf_counter()
    city = _City(service, seed)
    city.settle(devices)
    for day in range(days):
        city.live(day, days, round(changes * devices / 3))
    city.rebuild()
    return city.summary(days, compare, began)


class _City:
    """The people: their accounts and where they really are."""

    def __init__(self, service: "Anonymizer | Client", seed: int) -> None:
        self.service = service
        self.rng = np.random.default_rng(seed)
        self.accounts: list[Account] = []
        self.homes: list[tuple[float, float]] = []
        self.counts = {"sign_ups": 0, "moves": 0, "cancellations": 0}
        self.acts: list[tuple[str, Callable[[], None]]] = [
            ("sign_ups", self._sign_up),
            ("moves", self._move),
            ("cancellations", self._cancel),
        ]

    def settle(self, count: int) -> None:
        """All sign up."""
        latitude, longitude = self._draw(count)
        self.homes = list(zip(latitude.tolist(), longitude.tolist(), strict=True))
        for start in range(0, count, _AT_ONCE):
            progress.report("signing up", start, count)
            self.accounts += self._sign_up_all(self.homes[start : start + _AT_ONCE])
        self.counts["sign_ups"] += count

    def live(self, day: int, days: int, each: int) -> None:
        """A day: so many sign-ups, moves and cancellations."""
        order = self.rng.permutation(np.repeat(np.arange(3), each))
        for done, act in enumerate(order.tolist()):
            if done % 50 == 0:
                progress.report(
                    f"living, day {day + 1} of {days}", day * len(order) + done, days * len(order)
                )
            name, work = self.acts[act]
            if self.accounts or name == "sign_ups":
                work()
                self.counts[name] += 1

    def rebuild(self) -> None:
        """Rebuild all cells and wait for it, if this is allowed."""
        progress.report("rebuilding")
        if isinstance(self.service, Anonymizer):
            if self.service.overview().cells:
                self.service.rebuild(wait=True)
        elif (status := _status(self.service)) is not None and status.devices >= status.k:
            self.service.rebuild()
            while (found := _status(self.service)) is not None and (
                found.rebuilding or found.rebuilds == status.rebuilds
            ):
                if found.last_failure is not None:
                    raise ServiceError(
                        "The service could not rebuild its cells. Its log tells why."
                    )
                sleep(0.2)

    def summary(self, days: int, compare: bool, began: float) -> Simulated:
        """What all devices get, and how far it is from them."""
        k, cells, least_size, places = self._look_at_all()
        points = to_points(*np.array(self.homes).reshape(-1, 2).T)
        served = np.array([place is not None for place in places], dtype=np.bool_)
        given = np.array(
            [(place.latitude, place.longitude) for place in places if place is not None]
        ).reshape(-1, 2)
        least_shared = (
            int(np.unique(given, axis=0, return_counts=True)[1].min()) if len(given) else None
        )
        if least_shared is not None and least_shared < k:
            raise GuaranteeError(
                f"A location was given to {least_shared} devices, fewer than k = {k}. Please report it."
            )
        ours = great_circle(points[served], to_points(*given.T)) if len(given) else None
        progress.report("comparing with MDAV")
        theirs = mdav_distances(points, k) if compare and len(points) >= k else None
        status = (
            self.service.status() if isinstance(self.service, Anonymizer) else _status(self.service)
        )
        return Simulated(
            k=k,
            days=days,
            devices=len(self.accounts),
            **self.counts,
            cells=cells,
            least_size=least_size,
            least_shared=least_shared,
            rebuilds=None if status is None else status.rebuilds,
            merges=None if status is None else status.merges,
            mean=None if ours is None else float(ours.mean()),
            root_mean_square=None if ours is None else float(np.sqrt(np.mean(ours**2))),
            mdav_mean=None if theirs is None else float(theirs.mean()),
            mdav_root_mean_square=None if theirs is None else float(np.sqrt(np.mean(theirs**2))),
            seconds=perf_counter() - began,
        )

    def _look_at_all(self) -> tuple[int, int, int | None, list[Place | None]]:
        """k, cells, the least size, and each device's location, all of one state of the cells."""
        for _ in range(_LOOKS):
            before = _view(self.service)
            places = self._each(
                "looking up", lambda account: self.service.look_up(account.pseudonym, account.token)
            )
            if _view(self.service) == before:
                break
        else:
            raise ServiceError(
                "The cells changed each time that all devices were looked up. Try again when it is quiet."
            )
        return (*before[:3], places)

    def _each(self, task: str, work: Callable[[Account], Any]) -> list[Any]:
        """The work done for every account: side by side where each has to wait for an answer."""
        results: list[Any] = []
        with ThreadPoolExecutor(1 if isinstance(self.service, Anonymizer) else _THREADS) as pool:
            for start in range(0, len(self.accounts), 1000):
                progress.report(task, start, len(self.accounts))
                results += pool.map(work, self.accounts[start : start + 1000])
        return results

    def _sign_up_all(self, homes: Sequence[tuple[float, float]]) -> list[Account]:
        if isinstance(self.service, Anonymizer):
            return list(self.service.sign_up_many(*np.array(homes).T))
        service = self.service
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(lambda home: service.sign_up(*home), homes))

    def _draw(self, count: int) -> tuple[Floats, Floats]:
        return make_city(count, seed=int(self.rng.integers(2**31)))

    def _home(self) -> tuple[float, float]:
        latitude, longitude = self._draw(1)
        return float(latitude[0]), float(longitude[0])

    def _sign_up(self) -> None:
        home = self._home()
        self.accounts.append(self.service.sign_up(*home))
        self.homes.append(home)

    def _move(self) -> None:
        one, home = int(self.rng.integers(len(self.accounts))), self._home()
        self.service.move(self.accounts[one].pseudonym, self.accounts[one].token, *home)
        self.homes[one] = home

    def _cancel(self) -> None:
        one = int(self.rng.integers(len(self.accounts)))
        self.service.cancel(self.accounts[one].pseudonym, self.accounts[one].token)
        # The last takes its place, so that nothing has to move up.
        self.accounts[one], self.homes[one] = self.accounts[-1], self.homes[-1]
        self.accounts.pop()
        self.homes.pop()


def mdav_distances(points: Floats, k: int) -> Floats:
    """How far points would be from the locations they use if MDAV made the cells, in kilometres along the sphere."""
    labels = partition(points, k, method="mdav").labels
    sums: Floats = np.stack(
        [np.bincount(labels, weights=column) for column in points.T], axis=1
    ).astype(np.float64)
    return great_circle(points, sums[labels])


def _view(service: "Anonymizer | Client") -> tuple[int, int, int | None, int]:
    """k, cells, their least size, and which cells they are."""
    if isinstance(service, Anonymizer):
        found = service.overview()
        return found.k, len(found.cells), found.least_size, found.generation
    told = service.cells()
    return told["k"], len(told["features"]), told["least_size"], told["generation"]


def _status(client: "Client") -> Status | None:
    """The status, if the operator's token is known."""
    try:
        return client.status()
    except OptionError:
        return None


def _on_the_sphere(kilometres: Floats) -> tuple[Floats, Floats]:
    """Latitudes and longitudes of points on the plane that touches the Earth in the centre of the city."""
    here = to_points(np.array([CENTRE[0]]), np.array([CENTRE[1]]))[0] / EARTH_RADIUS
    east = np.cross([0.0, 0.0, 1.0], here)
    east /= np.linalg.norm(east)
    north = np.cross(here, east)
    return to_degrees(EARTH_RADIUS * here + kilometres[:, :1] * east + kilometres[:, 1:] * north)
