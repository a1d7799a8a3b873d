"""Attacks on the location anonymizer, and what the protection costs.

``python -m benchmarks.adversary.locations [DEVICES [K [DAYS]]]`` prints a table. The attacker sees
all published lists and the answers of its own devices; a provider sees all aliases with their
locations. Each attack knows which device it is after and when that device signed up, and gives one
estimate of its home. The home is recovered if the error is smaller than the radius of its cell and
less than half of that of the published place, which everybody knows.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from microcell.locations import Anonymizer, Overview, make_city
from microcell.locations.clustering import cluster, great_circle, to_points
from microcell.locations.publication import radius_band, snap
from microcell.locations.vault import grid_offsets

RESULTS = Path(__file__).parent.parent / "results"

Points = np.ndarray


@dataclass(frozen=True)
class Attack:
    """Result of an attack: victims, homes recovered, and the median error in radii of the cell."""

    name: str
    victims: int
    recovered: int
    median_error: float | None


def _list_sum(overview: Overview) -> Points:
    """Sum of size times place over all cells, as well as a reader of the list can know it."""
    sizes = np.array([(cell.at_least + cell.below - 1) / 2 for cell in overview.cells])
    return sizes @ _places(overview)


def _places(overview: Overview) -> Points:
    places = np.array([(cell.place.latitude, cell.place.longitude) for cell in overview.cells])
    return to_points(*places.reshape(-1, 2).T)


def _score(overview: Overview, guess: Points, victim: Points) -> tuple[float, bool]:
    """Return the error in radii of the victim's cell, and whether the home is recovered."""
    places = _places(overview)
    nearest = int(np.argmin(np.linalg.norm(places - victim, axis=1)))
    radius = overview.cells[nearest].radius
    known = float(great_circle(places[[nearest]], victim)[0])
    if np.linalg.norm(guess) < 1e-9:  # no estimate
        return float("inf"), False
    error = float(great_circle(guess, victim)[0])
    return error / radius, error < radius and error < known / 2


def open_service(k: int, colluders: int, **options: Any) -> Anonymizer:
    """Open a service in memory that publishes when told."""
    return Anonymizer.open(
        "sqlite://", k, key=bytes(range(32)), colluders=colluders, background=False, **options
    )


class Town:
    """A service with devices, and other people who keep changing."""

    def __init__(self, devices: int, k: int, colluders: int, seed: int = 0, **options: Any) -> None:
        self.rng = np.random.default_rng(seed)
        self.k, self.colluders = k, colluders
        self.service = open_service(k, colluders, **options)
        self.accounts = self.service.sign_up_many(*make_city(devices, seed=seed))
        self.service.publish()

    def home(self) -> tuple[float, float]:
        """Draw a home."""
        latitude, longitude = make_city(1, seed=int(self.rng.integers(2**31)))
        return float(latitude[0]), float(longitude[0])

    def change(self, count: int) -> None:
        """Let ``count`` honest devices sign up, move or cancel."""
        for _ in range(count):
            turn = int(self.rng.integers(3))
            at = int(self.rng.integers(len(self.accounts)))
            account = self.accounts[at]
            if turn == 0:
                self.accounts.append(self.service.sign_up(*self.home()))
            elif turn == 1:
                self.service.move(account.pseudonym, account.token, *self.home())
            else:
                self.accounts.pop(at)
                self.service.cancel(account.pseudonym, account.token)


def sum_attack(town: Town, victims: int) -> Attack:
    """Subtract the sum of one list from that of the next, and the attacker's own devices."""
    return _attack(town, victims, "sum", _subtract)


def _subtract(before: Overview, after: Overview, own: Points) -> Points:
    return _list_sum(after) - _list_sum(before) - own.sum(axis=0)


def differencing_attack(town: Town, victims: int) -> Attack:
    """Subtract single cells of two lists: the one that changed, nearest to where it was."""

    def estimate(before: Overview, after: Overview, _: Points) -> Points:
        old, new = _places(before), _places(after)
        known = {tuple(place) for place in old.round(9).tolist()}
        changed = [i for i, place in enumerate(new.round(9).tolist()) if tuple(place) not in known]
        if not changed or not len(old):
            return np.zeros(3)
        cell = changed[0]
        other = int(np.argmin(np.linalg.norm(old - new[cell], axis=1)))
        size = after.cells[cell].at_least
        return (size + 1) * new[cell] - size * old[other]

    return _attack(town, victims, "differencing", estimate)


def _attack(
    town: Town,
    victims: int,
    name: str,
    estimate: Callable[[Overview, Overview, Points], Points],
) -> Attack:
    """Attack victims that sign up one after another, forcing publications as far as possible."""
    scores = []
    for _ in range(victims):
        before = town.service.overview()
        home = town.home()
        town.accounts.append(town.service.sign_up(*home))
        own = [town.home() for _ in range(town.colluders)]
        accounts = [town.service.sign_up(*place) for place in own]
        if not town.service.publish():  # the attacker's devices do not suffice; others must change
            town.change(town.k)
            town.service.publish()
        after = town.service.overview()
        victim = to_points(*np.array([home]).T)
        guess = estimate(before, after, to_points(*np.array(own).reshape(-1, 2).T))[np.newaxis]
        scores.append(_score(after, guess, victim))
        for account in accounts:
            town.service.cancel(account.pseudonym, account.token)
        if len(town.accounts) % 3 == 0:
            town.service.rebuild()
    return _summary(name, scores)


def _summary(name: str, scores: list[tuple[float, bool]]) -> Attack:
    median = float(np.median([error for error, _ in scores]))
    recovered = sum(found for _, found in scores)
    return Attack(name, len(scores), recovered, median if np.isfinite(median) else None)


def sybil_attack(devices: int, k: int, colluders: int, victims: int) -> Attack:
    """Surround a victim with own devices before the first publication and subtract them."""
    rng = np.random.default_rng(3)
    scores = []
    for number in range(victims):
        homes = np.stack(make_city(devices, seed=number), axis=1)
        home = homes[int(rng.integers(devices))]
        own = home + rng.normal(scale=1e-4, size=(colluders, 2))
        service = open_service(k, colluders)
        service.sign_up_many(*homes.T)
        accounts = service.sign_up_many(*own.T) if colluders else []
        service.publish()
        answers = [service.look_up(account.pseudonym, account.token) for account in accounts]
        places = Counter(answer.location for answer in answers if answer.location is not None)
        victim = to_points(*home[np.newaxis].T)
        if places:
            place, seen = places.most_common(1)[0]
            together = to_points(*np.array([[place.latitude, place.longitude]]).T)
            mine = [answer.location == place for answer in answers]
            # As if the victim were the only other device of the cell.
            guess = (seen + 1) * together - to_points(*own[mine].T).sum(axis=0)
            scores.append(_score(service.overview(), guess, victim))
        service.close()
    return _summary("sybil", scores)


@dataclass(frozen=True)
class Histories:
    """Result of observing all aliases over some days with changes.

    ``below`` is the largest number of devices, over the days, whose history fewer than k share;
    ``kept`` the mean share of devices whose alias survived a day. Distances are in kilometres.
    """

    devices: int
    k: int
    days: int
    smallest: int
    below: int
    kept: float
    rebuilds: int
    distance: float
    free_distance: float


def history_attack(
    devices: int, k: int, *, days: int = 30, changes: float = 0.05, seed: int = 0, **options: Any
) -> Histories:
    """Follow every alias over days with changes, as providers that collude could."""
    town = Town(devices, k, options.pop("colluders", -(-k // 20)), seed, **options)
    histories: dict[str, tuple[Any, ...]] = {}
    smallest, below = devices, 0
    kept, ours, free = [], [], []
    for day in range(days + 1):
        if day:
            town.change(round(changes * devices))
            town.service.publish()
        now: dict[str, tuple[Any, ...]] = {}
        for account in town.accounts:
            answer = town.service.look_up(account.pseudonym, account.token)
            if answer.alias is not None:
                now[answer.alias] = (*histories.get(answer.alias, (day,)), answer.location)
        groups = Counter(now.values())
        smallest = min(smallest, *groups.values())
        below = max(below, sum(size for size in groups.values() if size < k))
        if day:
            kept.append(sum(alias in histories for alias in now) / len(now))
        histories = now
        ours.append(town.service.publications()[-1].distance)
        if day % 5 == 0:
            free.append((day, _free_distance(town, k)))
    result = Histories(
        devices=devices,
        k=k,
        days=days,
        smallest=smallest,
        below=below,
        kept=float(np.mean(kept)) if kept else 1.0,
        rebuilds=town.service.status().rebuilds,
        distance=float(np.mean([ours[day] for day, _ in free])),
        free_distance=float(np.mean([distance for _, distance in free])),
    )
    town.service.close()
    return result


def _free_distance(town: Town, k: int) -> float:
    """Mean distance if the cells were rebuilt freely: cells of k and their exact means."""
    population = town.service._population
    points = population.points[population.occupied()]
    clustering, labels = cluster(points, k)
    return float(great_circle(points, to_points(*clustering.places[labels].T)).mean())


# -------------------------------------------------------------------------------- mechanisms


@dataclass(frozen=True)
class Mechanism:
    """A way to publish a mean, and what it costs and hides.

    ``added`` is the share by which the mean distance grows. ``single`` is the median error, in
    radii, of the home of a device whose cell is published with it and without it; ``averaged``
    likewise after ``rounds`` pairs of such publications.
    """

    name: str
    size: int
    added: float
    single: float
    averaged: float


def mechanisms(size: int, *, rounds: int = 100, trials: int = 200) -> list[Mechanism]:
    """Compare rounding with calibrated noise if a device could be isolated by differencing.

    The service prevents that; this shows what rounding or noise alone are worth. Noise is planar
    Laplace noise that makes the mean of a cell differentially private for devices within twice the
    radius: a device changes the mean by at most four radii over the size.
    """
    rng = np.random.default_rng(0)
    pole = np.array([0.0, 0.0, 6371.0088])

    def rounded(mean: Points, radius: float, number: int) -> Points:
        return snap(pole + np.append(mean, 0.0), radius, grid_offsets(b"x", number))[:2]

    def noisy(epsilon: float) -> Callable[[Points, float, int], Points]:
        def publish(mean: Points, radius: float, _: int) -> Points:
            distance = rng.gamma(2.0, 4.0 * radius / size / epsilon)
            angle = rng.uniform(0, 2 * np.pi)
            return mean + distance * np.array([np.cos(angle), np.sin(angle)])

        return publish

    ways: dict[str, Callable[[Points, float, int], Points]] = {
        "exact mean": lambda mean, *_: mean,
        "grid of a tenth of the radius, secret offset": rounded,
        "noise, epsilon = 1 per publication": noisy(1.0),
        "noise, epsilon = 0.1 per publication": noisy(0.1),
    }
    results = []
    for name, publish in ways.items():
        added, single, averaged = [], [], []
        for trial in range(trials):
            people = rng.normal(size=(size, 2))
            mean, without = people.mean(axis=0), people[1:].mean(axis=0)
            radius = radius_band(float(np.sqrt(np.mean(np.sum((people - mean) ** 2, axis=1)))))
            numbers = 2 * rounds * trial + np.arange(2 * rounds)
            pairs = np.array(
                [
                    (publish(mean, radius, a), publish(without, radius, b))
                    for a, b in numbers.reshape(-1, 2).tolist()
                ]
            )
            exact = np.mean(np.linalg.norm(people - mean, axis=1))
            added.append(np.mean(np.linalg.norm(people - pairs[0, 0], axis=1)) / exact - 1.0)
            guesses = size * pairs[:, 0] - (size - 1) * pairs[:, 1]
            single.append(np.linalg.norm(guesses[0] - people[0]) / radius)
            averaged.append(np.linalg.norm(guesses.mean(axis=0) - people[0]) / radius)
        results.append(
            Mechanism(
                name,
                size,
                float(np.mean(added)),
                float(np.median(single)),
                float(np.median(averaged)),
            )
        )
    return results


def main(devices: int = 4_000, k: int = 20, days: int = 30) -> None:
    """Run all attacks, print the results and save them."""
    colluders = -(-k // 20)
    town = Town(devices, k, colluders)
    results: dict[str, Any] = {
        "attacks": [
            asdict(attack)
            for attack in (
                sum_attack(town, 20),
                differencing_attack(town, 20),
                sybil_attack(min(devices, 40 * k), k, colluders, 10),
            )
        ],
        "histories": asdict(history_attack(devices, k, days=days)),
        "mechanisms": [asdict(row) for size in (10, 25, 105) for row in mechanisms(size)],
    }
    text = json.dumps(results, indent=2)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "locations-attacks.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
