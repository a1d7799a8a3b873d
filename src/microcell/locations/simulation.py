"""Simulation of a city that uses the service, with the guarantee checked from outside."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter, sleep, time
from typing import TYPE_CHECKING, Any

import numpy as np

from microcell import progress
from microcell._display import count, record_html, record_repr
from microcell.errors import GuaranteeError, MicrocellError, OptionError, ServiceError
from microcell.locations.anonymizer import Anonymizer
from microcell.locations.clustering import EARTH_RADIUS, great_circle, to_degrees, to_points
from microcell.locations.records import Account, Answer, Status
from microcell.methods import partition
from microcell.model import Floats

if TYPE_CHECKING:
    from microcell.locations.client import Client

__all__ = ["Demonstration", "SimulationResult", "make_city", "mdav_distances", "simulate"]

CENTRE = (41.39, 2.17)
"""Latitude and longitude of the city centre."""

_WORLD = (
    CENTRE,
    (40.71, -74.01),
    (-33.87, 151.21),
    (35.68, 139.69),
    (-23.55, -46.63),
    (19.08, 72.88),
    (51.51, -0.13),
    (6.52, 3.38),
    (64.15, -21.94),
)
"""Centres of the cities of a demonstration."""

_BATCH = 10_000
"""Devices per transaction during the initial sign-up."""

_THREADS = 8
"""Concurrent requests when the service runs in another process."""

PATIENCE = 180.0
"""Seconds to wait for a running service to publish."""

GRACE = 20.0
"""Seconds that a publication may take."""

_MAX_ATTEMPTS = 5
"""Attempts to look up all devices while the cells stay the same."""


@dataclass(frozen=True)
class SimulationResult:
    """Result of a simulation.

    Distances are in kilometres, from the devices to the locations they use. ``smallest_shared`` is
    the smallest number of devices that received the same location, counted by looking up every
    device, and ``smallest_history`` the smallest number that shared all locations under an alias,
    counted likewise after each publication. ``mdav_mean`` and ``mdav_root_mean_square`` are the
    distances that MDAV would give for the same devices. None means that the figure cannot be
    determined from outside.
    """

    k: int
    days: int
    devices: int
    sign_ups: int
    moves: int
    cancellations: int
    cells: int
    smallest_cell: int | None
    smallest_shared: int | None
    smallest_history: int | None
    waiting: int
    rebuilds: int | None
    merges: int | None
    mean: float | None
    root_mean_square: float | None
    mdav_mean: float | None
    mdav_root_mean_square: float | None
    seconds: float

    __repr__ = record_repr
    _repr_html_ = record_html

    @property
    def distortion_ratio(self) -> float | None:
        """Sum of squared distances relative to MDAV; below 1 is better than MDAV."""
        if self.root_mean_square is None or not self.mdav_root_mean_square:
            return None
        return (self.root_mean_square / self.mdav_root_mean_square) ** 2


def make_city(
    n: int, *, seed: int = 0, centre: tuple[float, float] = CENTRE
) -> tuple[Floats, Floats]:
    """Return latitudes and longitudes of n homes in a synthetic city around a centre.

    Of ten people, four live in the centre (within about two kilometres), five in twelve suburbs 5
    to 25 km away, and one anywhere within 35 km.

    Examples
    --------
    >>> latitude, longitude = make_city(1000)
    >>> bool(np.median(np.abs(latitude - CENTRE[0])) < 0.2)
    True
    """
    layout = np.random.default_rng(1)
    angle, distance = layout.uniform(0, 2 * np.pi, 12), layout.uniform(5, 25, 12)
    suburbs = np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=1)
    spread = layout.uniform(0.6, 1.8, 12)
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, size=n, p=[0.4, 0.5, 0.1])
    suburb = rng.integers(0, 12, size=n)
    offset = rng.normal(size=(n, 2))
    direction, reach = rng.uniform(0, 2 * np.pi, n), 35 * np.sqrt(rng.uniform(size=n))
    kilometres = np.select(
        [kind[:, None] == 0, kind[:, None] == 1],
        [1.8 * offset, suburbs[suburb] + spread[suburb, None] * offset],
        np.stack([reach * np.cos(direction), reach * np.sin(direction)], axis=1),
    )
    return _to_sphere(kilometres, centre)


def simulate(
    service: "Anonymizer | Client",
    devices: int,
    *,
    days: int = 3,
    changes: float = 0.06,
    seed: int = 0,
    compare: bool = True,
) -> SimulationResult:
    """Simulate a city that uses the service for some days.

    All devices sign up first. Each day a share of them changes: equally many sign up, move and
    cancel, one at a time in random order. An anonymizer in this process publishes after each day,
    and every device is looked up, so that histories can be counted; for a running service, the
    simulation waits for its clock before and after the days.

    Parameters
    ----------
    service
        An anonymizer in this process, or the client of a running service.
    devices
        Number of devices that sign up first.
    days
        Number of days.
    changes
        Share of devices that change each day.
    seed
        Random seed of the city and of the changes.
    compare
        Also compute the distances of MDAV for comparison.

    Raises
    ------
    GuaranteeError
        Fewer than k devices received the same location or share a history, which would be a bug.
    ServiceError
        A running service did not publish in time.
    """
    for name, value, valid, limits in (
        ("devices", devices, devices >= 1, "at least 1"),
        ("days", days, days >= 0, "at least 0"),
        ("changes", changes, 0 <= changes <= 1, "between 0 and 1"),
    ):
        if not valid:
            raise OptionError(
                f"{name} must be {limits}, not {value}.",
                code="option.out_of_range",
                option=name,
            )
    started = perf_counter()
    city = _City(service, seed)
    city.populate(devices)
    city.publish()
    for day in range(days):
        city.run_day(day, days, round(changes * devices / 3))
        if isinstance(service, Anonymizer) or day == days - 1:
            city.publish()
    return city.summarize(days, compare, started)


class _City:
    """The simulated people: their accounts and exact locations."""

    def __init__(self, service: "Anonymizer | Client", seed: int) -> None:
        self.service = service
        self.rng = np.random.default_rng(seed)
        self.accounts: list[Account] = []
        self.homes: list[tuple[float, float]] = []
        self.counts = {"sign_ups": 0, "moves": 0, "cancellations": 0}
        self.published = 0
        self.histories: dict[str, tuple[Any, ...]] = {}
        """Publication at which each alias first appeared, and its locations since."""
        self.smallest_history: int | None = None
        self.actions: list[tuple[str, Callable[[], None]]] = [
            ("sign_ups", self._sign_up),
            ("moves", self._move),
            ("cancellations", self._cancel),
        ]

    def populate(self, count: int) -> None:
        """Sign up the initial devices."""
        latitude, longitude = self._draw_homes(count)
        self.homes = list(zip(latitude.tolist(), longitude.tolist(), strict=True))
        for start in range(0, count, _BATCH):
            progress.report("signing up", start, count)
            self.accounts += self._sign_up_all(self.homes[start : start + _BATCH])
        self.counts["sign_ups"] += count

    def run_day(self, day: int, days: int, count: int) -> None:
        """Run ``count`` sign-ups, moves and cancellations in random order."""
        order = self.rng.permutation(np.repeat(np.arange(3), count))
        for done, action in enumerate(order.tolist()):
            if done % 50 == 0:
                progress.report(
                    f"simulating day {day + 1} of {days}",
                    day * len(order) + done,
                    days * len(order),
                )
            name, act = self.actions[action]
            if self.accounts or name == "sign_ups":
                act()
                self.counts[name] += 1

    def publish(self) -> None:
        """Publish, or wait for a running service to publish, and record each alias's locations."""
        progress.report("publishing")
        if isinstance(self.service, Anonymizer):
            self.service.publish()
            self._note_histories()
            return
        body, timeline = self.service.cells(), self.service.timeline()
        due = timeline["next_publication_at"] or 0.0
        # The next one may be missing: it waits until enough devices have changed.
        until = perf_counter() + min(PATIENCE, due - time() + GRACE)
        while self.service.cells()["generation"] == body["generation"] and perf_counter() < until:
            sleep(0.2)
        if not self.service.cells()["features"] and len(self.accounts) >= 2 * body["k"]:
            raise ServiceError(
                f"The service has published no cells within {PATIENCE:.0f} seconds. Start it with "
                "a shorter --period, or see its status for the cause.",
                code="service.unavailable",
            )

    def _note_histories(self) -> None:
        """Look up every device and extend the history of its alias."""
        histories: dict[str, tuple[Any, ...]] = {}
        for account in self.accounts:
            answer = self.service.look_up(account.pseudonym, account.token)
            if answer.alias is not None:
                seen = self.histories.get(answer.alias, (self.published,))
                histories[answer.alias] = (*seen, answer.location)
        self.published += 1
        self.histories = histories
        sizes = Counter(histories.values())
        if sizes:
            smallest = min(sizes.values())
            self.smallest_history = min(smallest, self.smallest_history or smallest)

    def summarize(self, days: int, compare: bool, started: float) -> SimulationResult:
        """Look up every device, check the guarantee and measure the distances."""
        k, cells, smallest_cell, answers = self._look_up_all()
        places = [answer.location for answer in answers]
        points = to_points(*np.array(self.homes).reshape(-1, 2).T)
        served = np.array([place is not None for place in places], dtype=np.bool_)
        locations = np.array(
            [(place.latitude, place.longitude) for place in places if place is not None]
        ).reshape(-1, 2)
        shared = np.unique(locations, axis=0, return_counts=True)[1] if len(locations) else None
        smallest_shared = None if shared is None else int(shared.min())
        for what, smallest in (("location", smallest_shared), ("history", self.smallest_history)):
            if smallest is not None and smallest < k:
                raise GuaranteeError(
                    f"A {what} is shared by {count(smallest, 'device')}, fewer than k = {k}. "
                    "This is a bug in microcell; please report it.",
                    code="guarantee.failed",
                    k=k,
                    devices=smallest,
                )
        distances = (
            great_circle(points[served], to_points(*locations.T)) if len(locations) else None
        )
        progress.report("comparing with MDAV")
        mdav = mdav_distances(points, k) if compare and len(points) >= k else None
        status = (
            self.service.status() if isinstance(self.service, Anonymizer) else _status(self.service)
        )
        return SimulationResult(
            k=k,
            days=days,
            devices=len(self.accounts),
            **self.counts,
            cells=cells,
            smallest_cell=smallest_cell,
            smallest_shared=smallest_shared,
            smallest_history=self.smallest_history,
            waiting=int(np.count_nonzero(~served)),
            rebuilds=None if status is None else status.rebuilds,
            merges=None if status is None else status.merges,
            mean=_mean(distances),
            root_mean_square=_root_mean_square(distances),
            mdav_mean=_mean(mdav),
            mdav_root_mean_square=_root_mean_square(mdav),
            seconds=perf_counter() - started,
        )

    def _look_up_all(self) -> tuple[int, int, int | None, list[Answer]]:
        """Return k, the number of cells, the smallest cell and all answers, consistently."""
        for _ in range(_MAX_ATTEMPTS):
            before = _cells_version(self.service)
            answers = self._for_each(
                "looking up", lambda account: self.service.look_up(account.pseudonym, account.token)
            )
            if _cells_version(self.service) == before:
                return (*before[:3], answers)
        raise ServiceError(
            "The cells kept changing while all devices were looked up. Try again when the service "
            "is less busy.",
            code="service.unavailable",
        )

    def _for_each(self, task: str, function: Callable[[Account], Any]) -> list[Any]:
        """Apply a function to every account, concurrently if the service is remote."""
        results: list[Any] = []
        with ThreadPoolExecutor(1 if isinstance(self.service, Anonymizer) else _THREADS) as pool:
            for start in range(0, len(self.accounts), 1000):
                progress.report(task, start, len(self.accounts))
                results += pool.map(function, self.accounts[start : start + 1000])
        return results

    def _sign_up_all(self, homes: Sequence[tuple[float, float]]) -> list[Account]:
        if isinstance(self.service, Anonymizer):
            return list(self.service.sign_up_many(*np.array(homes).T))
        service = self.service
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(lambda home: service.sign_up(*home), homes))

    def _draw_homes(self, count: int) -> tuple[Floats, Floats]:
        return make_city(count, seed=int(self.rng.integers(2**31)))

    def _draw_home(self) -> tuple[float, float]:
        latitude, longitude = self._draw_homes(1)
        return float(latitude[0]), float(longitude[0])

    def _sign_up(self) -> None:
        home = self._draw_home()
        self.accounts.append(self.service.sign_up(*home))
        self.homes.append(home)

    def _move(self) -> None:
        number = int(self.rng.integers(len(self.accounts)))
        home = self._draw_home()
        account = self.accounts[number]
        self.service.move(account.pseudonym, account.token, *home)
        self.homes[number] = home

    def _cancel(self) -> None:
        number = int(self.rng.integers(len(self.accounts)))
        account = self.accounts[number]
        self.service.cancel(account.pseudonym, account.token)
        # Moving the last one into the gap avoids shifting the lists.
        self.accounts[number] = self.accounts[-1]
        self.homes[number] = self.homes[-1]
        self.accounts.pop()
        self.homes.pop()


def mdav_distances(points: Floats, k: int) -> Floats:
    """Return the great-circle distances between points and the means of their MDAV cells, in km."""
    labels = partition(points, k, method="mdav").labels
    sums: Floats = np.stack(
        [np.bincount(labels, weights=column) for column in points.T], axis=1
    ).astype(np.float64)
    return great_circle(points, sums[labels])


def _mean(distances: Floats | None) -> float | None:
    return None if distances is None else float(distances.mean())


def _root_mean_square(distances: Floats | None) -> float | None:
    return None if distances is None else float(np.sqrt(np.mean(distances**2)))


def _cells_version(service: "Anonymizer | Client") -> tuple[int, int, int | None, int]:
    """Return k, the number of cells, the smallest cell and the generation."""
    if isinstance(service, Anonymizer):
        overview = service.overview()
        return overview.k, len(overview.cells), overview.smallest_cell, overview.generation
    body = service.cells()
    return body["k"], len(body["features"]), body["smallest_cell"], body["generation"]


def _status(client: "Client") -> Status | None:
    """Return the status, or None without the operator's token."""
    try:
        return client.status()
    except OptionError:
        return None


def _to_sphere(kilometres: Floats, centre: tuple[float, float]) -> tuple[Floats, Floats]:
    """Project points of the plane that touches the Earth at a centre onto the sphere."""
    here = to_points(np.array([centre[0]]), np.array([centre[1]]))[0] / EARTH_RADIUS
    east = np.cross([0.0, 0.0, 1.0], here)
    east /= np.linalg.norm(east)
    north = np.cross(here, east)
    return to_degrees(EARTH_RADIUS * here + kilometres[:, :1] * east + kilometres[:, 1:] * north)


class Demonstration:
    """Simulated people in cities around the world who keep changing, for trying the service.

    Parameters
    ----------
    anonymizer
        An empty service.
    devices
        Number of devices.
    days
        Number of days that are simulated at the start, so that there is a history to look at.
    """

    def __init__(
        self, anonymizer: Anonymizer, devices: int = 1_500, *, days: int = 10, seed: int = 0
    ) -> None:
        self._anonymizer = anonymizer
        self._rng = np.random.default_rng(seed)
        self._accounts: list[Account] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._live, name="demonstration", daemon=True)
        self._sign_up(devices)
        anonymizer.publish()
        for day in range(days):
            progress.report("simulating people", day, days)
            for _ in range(3):
                self._change(max(1, devices // 60))
            anonymizer.publish()

    def start(self) -> None:
        """Start changing people in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for a change in progress."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _live(self) -> None:
        while not self._stopped.wait(1.0):
            with suppress(MicrocellError):
                self._change(max(1, len(self._accounts) // 500))

    def _sign_up(self, count: int) -> None:
        cities = self._rng.multinomial(count, np.full(len(_WORLD), 1 / len(_WORLD)))
        for centre, people in zip(_WORLD, cities.tolist(), strict=True):
            if people:
                homes = make_city(people, seed=int(self._rng.integers(2**31)), centre=centre)
                self._accounts += self._anonymizer.sign_up_many(*homes)

    def _change(self, count: int) -> None:
        """Let this many people sign up, as many move and as many cancel."""
        self._sign_up(count)
        for _ in range(count):
            mover = self._accounts[int(self._rng.integers(len(self._accounts)))]
            centre = _WORLD[int(self._rng.integers(len(_WORLD)))]
            home = make_city(1, seed=int(self._rng.integers(2**31)), centre=centre)
            self._anonymizer.move(
                mover.pseudonym, mover.token, float(home[0][0]), float(home[1][0])
            )
            leaver = self._accounts.pop(int(self._rng.integers(len(self._accounts))))
            self._anonymizer.cancel(leaver.pseudonym, leaver.token)
